"""Pictures of results: f(result, ..., ax=None) -> ax. None of them computes, shows or saves anything."""

from butfor.plots.decisions import decision, resolutions
from butfor.plots.evidence import competition, pvalues, volcano
from butfor.plots.importance import importance
from butfor.plots.one_input import bar, null, waterfall
from butfor.plots.over_inputs import beeswarm, features, heatmap
from butfor.plots.pictures import highlighted, photograph
from butfor.plots.ranks import ranks
from butfor.plots.sampler import calibration, rank_histograms
from butfor.plots.words import chosen_words

__all__ = [
    "bar",
    "beeswarm",
    "calibration",
    "chosen_words",
    "competition",
    "decision",
    "features",
    "heatmap",
    "highlighted",
    "importance",
    "null",
    "photograph",
    "pvalues",
    "rank_histograms",
    "ranks",
    "resolutions",
    "volcano",
    "waterfall",
]
