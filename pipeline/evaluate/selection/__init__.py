"""Choice of corruptions for a benchmark by their overlaps and by what they predict, as ImageNet-Syn2Nat was chosen.

The functions of ``pipeline.evaluate.selection.measures``, and the analysis that ``robustshards select`` prints.
"""

from pipeline.evaluate.selection.measures import balanced_benchmark as balanced_benchmark
from pipeline.evaluate.selection.measures import categories as categories
from pipeline.evaluate.selection.measures import category_correlations as category_correlations
from pipeline.evaluate.selection.measures import mean_overlap as mean_overlap
from pipeline.evaluate.selection.measures import overlap_scores as overlap_scores
from pipeline.evaluate.selection.measures import predictiveness as predictiveness
from pipeline.evaluate.selection.measures import spread as spread
from pipeline.evaluate.selection.measures import substituted as substituted
