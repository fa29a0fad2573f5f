"""Pictures of results: f(result, ax=None) -> ax."""

from butfor.plots.importance import importance

__all__ = ["importance"]
