"""Pictures of results: f(result, ..., ax=None) -> ax. None of them computes, shows or saves anything."""

from butfor.plots.evidence import calibration, competition, pvalues, ranks, volcano
from butfor.plots.one_input import bar, context, decision, draws, effects_from_output, enough, null, resolutions
from butfor.plots.over_inputs import beeswarm, dependence, features, heatmap, importance
from butfor.plots.pictures import chosen_words, highlighted, photograph

__all__ = [
    "bar", "beeswarm", "calibration", "chosen_words", "competition", "context", "decision", "dependence", "draws",
    "effects_from_output", "enough", "features", "heatmap", "highlighted", "importance", "null", "photograph",
    "pvalues", "ranks", "resolutions", "volcano",
]  # fmt: skip
