"""Black boxes: anything that turns rows into numbers."""

from butfor.models.wrap import Wrapped, wrap

__all__ = ["Wrapped", "wrap"]
