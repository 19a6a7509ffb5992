"""Choice of corruptions for a benchmark by their overlaps and by what they predict, as ImageNet-Syn2Nat was chosen.

The functions of ``pipeline.evaluate.selection.measures``, and the analysis that ``robustshards select`` prints.
"""

from pipeline.evaluate.selection.measures import (
    balanced_benchmark,
    categories,
    category_correlations,
    mean_overlap,
    overlap_scores,
    predictiveness,
    spread,
    substituted,
)

__all__ = [
    "balanced_benchmark",
    "categories",
    "category_correlations",
    "mean_overlap",
    "overlap_scores",
    "predictiveness",
    "spread",
    "substituted",
]
