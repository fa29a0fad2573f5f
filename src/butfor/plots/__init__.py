"""Pictures of results: f(result, ..., ax=None) -> ax. None of them computes, shows or saves anything."""

from butfor.plots.evidence import calibration, competition, pvalues, ranks, volcano
from butfor.plots.one_input import bar, decision, effects_from_output, null, resolutions
from butfor.plots.over_inputs import beeswarm, features, heatmap, importance
from butfor.plots.pictures import chosen_words, highlighted, photograph

__all__ = [
    "bar",
    "beeswarm",
    "calibration",
    "chosen_words",
    "competition",
    "decision",
    "effects_from_output",
    "features",
    "heatmap",
    "highlighted",
    "importance",
    "null",
    "photograph",
    "pvalues",
    "ranks",
    "resolutions",
    "volcano",
]
