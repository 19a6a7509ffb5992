"""The folder that holds an evaluation."""
