"""A model named on a command line -> the black box."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from butfor.core.types import InputError

PICKLES = (".pkl", ".pickle", ".joblib")
SUPPORTED = "this version takes file.py:function, or a .pkl, .pickle or .joblib file with --trust-pickle"


def load_model(name: str, *, trust_pickle: bool = False) -> Any:
    """The function or estimator that `name` points at.

    `file.py:function` imports the file, so its code runs. Unpickling runs code too, but code nobody can read first:
    that is why it must be asked for.
    """
    if name.lower().endswith(PICKLES):
        return _unpickled(_existing(name), trust_pickle)
    file, colon, attribute = name.rpartition(":")
    if name.endswith(".py"):
        raise InputError(f"--model {name} names a file but no function in it; write {name}:function")
    if not colon or not file.endswith(".py") or not attribute:
        raise InputError(f"--model {name} is not a model that can be loaded; {SUPPORTED}")
    return _attribute(_module(_existing(file)), attribute, file)


def _existing(name: str) -> Path:
    path = Path(name).expanduser()
    if not path.is_file():
        what = "is a directory" if path.is_dir() else "does not exist"
        raise InputError(f"the model file {name} {what}; {SUPPORTED}")
    return path


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
        raise InputError(f"the model file {path} failed when imported: {told(error)}") from error
    return module


def _attribute(module: ModuleType, attribute: str, file: str) -> Any:
    if not hasattr(module, attribute):
        own = {
            name: thing
            for name, thing in vars(module).items()
            if not (name.startswith("_") or _imported(thing, module))
        }
        usable = [name for name, thing in own.items() if _usable(thing)]
        raise InputError(f"{file} has no {attribute!r}; it has {', '.join(usable[:8]) or 'nothing that can be called'}")
    thing = getattr(module, attribute)
    if not _usable(thing):
        raise InputError(
            f"{attribute!r} in {file} is {_kind(thing)}, expected a function (rows -> numbers) or an object "
            "with predict_proba or predict"
        )
    return thing


def _imported(thing: Any, module: ModuleType) -> bool:
    return isinstance(thing, FunctionType) and thing.__module__ != module.__name__


def _usable(thing: Any) -> bool:
    if isinstance(thing, type | ModuleType):
        return False
    return callable(thing) or hasattr(thing, "predict_proba") or hasattr(thing, "predict")


def _kind(thing: Any) -> str:
    return f"a class, {thing.__name__}" if isinstance(thing, type) else f"of type {type(thing).__name__}"


def _unpickled(path: Path, trusted: bool) -> Any:
    if not trusted:
        raise InputError(
            f"the model {path} is a pickle, and loading one runs whatever code its maker put in; if you trust where it "
            "comes from, add --trust-pickle"
        )
    import joblib

    try:
        model = joblib.load(path)
    except Exception as error:  # a pickle may raise anything
        raise InputError(f"the model {path} cannot be unpickled: {told(error)}") from error
    if not _usable(model):
        raise InputError(f"the model {path} is {_kind(model)}, expected something with predict_proba or predict")
    return model


def told(error: BaseException) -> str:
    """An error in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())
