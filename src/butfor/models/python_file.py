"""`file.py:function` -> the function."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import cloudpickle

from butfor.core.types import InputError
from butfor.models.optional import one_line
from butfor.models.wrap import is_estimator


def attribute_of(path: Path, attribute: str) -> Any:
    """What is called `attribute` in the Python file; the file is imported, so its code runs."""
    module = _module(path)
    try:
        found = getattr(module, attribute)
    except AttributeError:
        usable = [name for name, thing in vars(module).items() if _is_own(name, thing, module) and _usable(thing)]
        has = ", ".join(usable[:8]) or "nothing that can be called"
        raise InputError(f"{path} has no {attribute!r}; it has {has}") from None
    return check_usable(found, f"{attribute!r} in {path}")


def _module(path: Path) -> ModuleType:
    """The file as a module, under a name that cannot take another module's place."""
    name = "butfor_model_" + re.sub(r"\W", "_", path.stem)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickles inside the file look themselves up here
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)  # last, so that the files beside a model can be imported but shadow nothing
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        why = one_line(f"{type(error).__name__}: {error}")
        raise InputError(f"the model file {path} failed when imported: {why}") from error
    cloudpickle.register_pickle_by_value(module)  # other processes know no module of that name
    return module


def _is_own(name: str, thing: object, module: ModuleType) -> bool:
    """Whether the file is the place where it is made, and it is not hidden."""
    return not name.startswith("_") and not (isinstance(thing, FunctionType) and thing.__module__ != module.__name__)


def check_usable(thing: Any, where: str) -> Any:
    """The thing, if it can be asked for numbers.

    >>> check_usable(3, "that")
    Traceback (most recent call last):
    butfor.core.types.InputError: that is of type int, expected a function (rows -> numbers) or an object ...
    """
    if not _usable(thing):
        kind = f"a class, {thing.__name__}" if isinstance(thing, type) else f"of type {type(thing).__name__}"
        expected = "a function (rows -> numbers) or an object with predict_proba or predict"
        raise InputError(f"{where} is {kind}, expected {expected}")
    return thing


def _usable(thing: object) -> bool:
    return not isinstance(thing, type | ModuleType) and (callable(thing) or is_estimator(thing))
