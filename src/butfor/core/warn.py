"""Warnings that point at the user's own line, however deep in the package they are made."""

from __future__ import annotations

import sys
import traceback
import warnings


def warn_user(message: str, category: type[UserWarning]) -> None:
    """A warning that points at the first line that is not ours."""
    outer = traceback.walk_stack(sys._getframe(1))
    names = [str(frame.f_globals.get("__name__", "")) for frame, _ in outer]
    level = next((k for k, name in enumerate(names, 2) if not name.startswith("butfor.")), 2)
    warnings.warn(message, category, stacklevel=level)
