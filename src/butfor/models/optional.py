"""What models need that may not be there: libraries, attributes; and their errors in one line."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from butfor.core.types import InputError


def need(module: str, extra: str) -> Any:
    """The module, or one sentence on how to install it.

    >>> need("json", "nothing").dumps([1])
    '[1]'
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != module.split(".")[0]:
            raise  # it is there, and something that it needs is not
        what = module.split(".")[0]
        raise InputError(f"this model needs {what}, which is not installed; pip install 'butfor[{extra}]'") from error


def loaded(module: str) -> Any:
    """The module if somebody has imported it, else None: nobody can hold an object of a library that is not loaded."""
    return sys.modules.get(module)


def attribute(thing: object, name: str) -> Any:
    """What a foreign object says of itself, or None; scikit-learn hides what it cannot be asked.

    >>> attribute(3, "classes_") is None
    True
    """
    return getattr(thing, name, None)


def one_line(error: object) -> str:
    """What an error says, in one line.

    >>> one_line(ValueError("two\\n  lines"))
    'two lines'
    """
    return " ".join(str(error).split())
