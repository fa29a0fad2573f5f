"""Pictures of results: f(result, ax=None) -> ax."""

from butfor.plots.importance import importance
from butfor.plots.words import chosen_words

__all__ = ["chosen_words", "importance"]
