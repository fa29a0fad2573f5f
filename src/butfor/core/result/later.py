"""What stands behind the core in the way of the data, by name: a result offers plots and reports, and knows none."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def later(name: str) -> Callable[..., Any]:
    """The function of that name in a later folder, "butfor.report:write"; only methods of results may ask for one.

    >>> later("butfor.report:write").__name__
    'write'
    """
    module, function = name.split(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found
