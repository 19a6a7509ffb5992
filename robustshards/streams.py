"""Orders of images and conditions for models that adapt at test time, as pure functions of labels.

order = robustshards.streams.temporal(labels, gamma=0.1, rng=0)      # indices into labels
"""

from pipeline.loaders.orders import CANONICAL, ORDERS, class_groups, dirichlet, label_shift, long_tail, markov, temporal

__all__ = ["CANONICAL", "ORDERS", "class_groups", "dirichlet", "label_shift", "long_tail", "markov", "temporal"]
