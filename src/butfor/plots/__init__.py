"""Pictures of results: f(result, ..., ax=None) -> ax. None of them computes, shows or saves anything."""

from butfor.plots.importance import importance
from butfor.plots.ranks import ranks
from butfor.plots.sampler import rank_histograms
from butfor.plots.words import chosen_words

__all__ = ["chosen_words", "importance", "rank_histograms", "ranks"]
