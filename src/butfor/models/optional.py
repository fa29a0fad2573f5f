"""What models need that may not be there: libraries, attributes; and their errors in one line."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from butfor.core.types import InputError


def need(module: str, extra: str | None) -> Any:
    """The module, or one sentence on how to install it: by an extra of butfor's, or by its own name (None).

    >>> need("json", "nothing").dumps([1])
    '[1]'
    >>> need("no_such_module", "image")
    Traceback (most recent call last):
    butfor.core.types.InputError: this needs no_such_module, which is not installed; pip install 'butfor[image]'
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        what = module.split(".")[0]
        if error.name is None or error.name.split(".")[0] != what:
            raise  # it is there, and something that it needs is not
        install = what if extra is None else f"'butfor[{extra}]'"
        raise InputError(f"this needs {what}, which is not installed; pip install {install}") from error


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
