"""Tree ensembles of other libraries, read into plain arrays: what they allow beyond a black box (METHODS 13)."""

from butfor.models.trees.ensemble import Ensemble, Unreadable
from butfor.models.trees.libraries import Readable, readable

__all__ = ["Ensemble", "Readable", "Unreadable", "readable"]
