"""Adversarial data sets and searches of smallest budgets: attacks on the models that the evaluator loads."""
