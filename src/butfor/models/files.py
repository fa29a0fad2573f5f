"""Load a model by its name; nothing of it runs before the user has allowed it."""

from __future__ import annotations

import importlib.util
import io
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import cloudpickle
import numpy as np

from butfor.models.onnx import onnx_model
from butfor.models.remote import endpoint
from butfor.models.wrap import attribute, is_estimator, need, one_line
from butfor.types import InputError, reworded
from butfor.untrusted import check_arrays, opened, parse_json, read_bounded, unpacked


def file_of(spec: str) -> Path:
    path = Path(spec.rpartition(":")[0])
    if not path.is_file():
        raise InputError(f"the file {path} does not exist; expected file.py:function")
    return path


def function_at(spec: str) -> Any:
    """Return what file.py:function names; the file is imported, so its code runs."""
    return attribute_of(file_of(spec), spec.rpartition(":")[2])


def target_named(text: str, classes: Iterable[object] | None) -> object:
    """Return the class that is written like this, whatever its type; else a number or the text itself.

    >>> target_named("1", [0, 1]), target_named("1", ["1"]), target_named("2", None), target_named("predicted", None)
    (1, '1', 2, 'predicted')
    """
    number = int(text) if text.isdecimal() else text
    return next((label for label in classes or () if str(label) == text), number)


def attribute_of(path: Path, attribute: str) -> Any:
    """Return what is called `attribute` in the Python file; the file is imported, so its code runs."""
    module = _module(path)
    if not hasattr(module, attribute):
        usable = [
            name
            for name, thing in vars(module).items()
            if not name.startswith("_")
            and not (isinstance(thing, FunctionType) and thing.__module__ != module.__name__)  # it is imported there
            and _usable(thing)
        ]
        raise InputError(f"{path} has no {attribute!r}; it has {', '.join(usable[:8]) or 'nothing that can be called'}")
    return check_usable(getattr(module, attribute), f"{attribute!r} in {path}")


def _module(path: Path) -> ModuleType:
    """Import the file as a module, under a name that cannot replace another module."""
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


def check_usable(thing: Any, where: str) -> Any:
    """Return the thing, if it can be evaluated.

    >>> check_usable(3, "that")
    Traceback (most recent call last):
    butfor.types.InputError: that is of type int, expected a function (rows -> numbers) or an object ...
    """
    if not _usable(thing):
        kind = f"a class, {thing.__name__}" if isinstance(thing, type) else f"of type {type(thing).__name__}"
        expected = "a function (rows -> numbers) or an object with predict_proba or predict"
        raise InputError(f"{where} is {kind}, expected {expected}")
    return thing


def _usable(thing: object) -> bool:
    return not isinstance(thing, type | ModuleType) and (callable(thing) or is_estimator(thing))


PICKLES = (".pkl", ".pickle", ".joblib")
TORCH = (".pt", ".pth", ".ckpt", ".bin")
MOST_SKOPS = 2_000_000_000  # bytes
MOST_NODES, DEEPEST_SCHEMA = 1_000_000, 250
SUPPORTED = (
    "give file.onnx, file.skops, file.py:function, an http(s) address of the Open Inference Protocol, or a .pkl, "
    ".pickle or .joblib file with --trust-pickle"
)


def load_model(
    name: str, *, trust_pickle: bool = False, trusted: Iterable[str] = (), ca_file: str | Path | None = None
) -> Any:
    """Load the model that `name` points at.

    ONNX files hold no code. `file.py:function` imports the file, so its code runs: it can be read first. The ending of
    the name decides which of these is done, never the content: a pickle that is called model.skops is refused, not
    unpickled.

    Parameters
    ----------
    name : str
        A file, `file.py:function`, or an address of the Open Inference Protocol.
    trust_pickle : bool, default=False
        Unpickling runs code that nobody can read first; that is why it must be allowed.
    trusted : iterable of str
        Types that a skops file may make beside those that are known to be harmless.
    ca_file : str or Path, default=None
        Certificates to trust of a model at an https address, as in `endpoint`.

    Returns
    -------
    object
        The model, as `butfor.explain` takes it.

    Examples
    --------
    >>> load_model("model.pt")
    Traceback (most recent call last):
    butfor.types.InputError: model.pt holds a torch module or its weights as a pickle; export it to ONNX, or ...
    """
    lower = name.lower()
    if lower.startswith(("http://", "https://")):
        return endpoint(name, ca_file=ca_file)
    if lower.endswith(PICKLES):
        path = _existing(name)
        if not trust_pickle:
            raise InputError(
                f"the model {path} is a pickle, and loading one runs whatever code its maker put in; if you trust "
                "where it comes from, add --trust-pickle"
            )
        import joblib

        with reworded(f"the model {path} cannot be unpickled: ", named=True):  # a pickle may raise anything
            model = joblib.load(path)
        return check_usable(model, f"the model {path}")
    if lower.endswith(".onnx"):
        path = _existing(name)
        with path.open("rb") as content:
            _check_not_pickled(path, content.read(2), "an ONNX model")
        return onnx_model(path)
    if lower.endswith(".skops"):
        return _skops(_existing(name), sorted(set(trusted)))
    if lower.endswith(TORCH):
        raise InputError(
            f"{name} holds a torch module or its weights as a pickle; export it to ONNX, or write a file.py with a "
            "function around it and give file.py:function"
        )
    file, colon, attribute = name.rpartition(":")
    if name.endswith(".py"):
        raise InputError(f"--model {name} names a file but no function in it; write {name}:function")
    if not colon or not file.endswith(".py") or not attribute:
        raise InputError(f"--model {name} is not a model that can be loaded; {SUPPORTED}")
    return attribute_of(_existing(file), attribute)


def _existing(name: str) -> Path:
    path = Path(name).expanduser()
    if not path.is_file():
        what = "is a directory" if path.is_dir() else "does not exist"
        raise InputError(f"the model file {name} {what}; {SUPPORTED}")
    return path


def _skops(path: Path, trusted: list[str]) -> Any:
    """Load a skops file, if all of its types are harmless or trusted."""
    with path.open("rb") as file:
        _check_not_pickled(path, file.read(2), "a skops file")
    content = read_bounded(path, "the model", MOST_SKOPS)  # read once: what is looked through is what is loaded
    skops = need("skops.io", "skops")
    with reworded(f"{path} is not a skops file that can be read: ", named=True):  # a broken file may raise anything
        check_arrays(content)
        with opened(io.BytesIO(content), len(content)) as archive:
            schema = parse_json(unpacked(archive, "schema.json"), deepest=DEEPEST_SCHEMA)
        if (count := _visits(schema, {})) > MOST_NODES:  # parts are used again inside each other without end
            raise ValueError(f"it is made of {count:.3g} parts, at most {MOST_NODES:,} are read")
        untrusted = skops.get_untrusted_types(data=content)
    if unnamed := [kind for kind in untrusted if kind not in (*trusted, TREE)]:
        raise InputError(
            f"the model {path} has types that are not known to be harmless: {', '.join(unnamed)}; if you know "
            f"and trust them, name them: {' '.join(f'--trust {kind}' for kind in unnamed)}"
        )
    with reworded(f"the model {path} cannot be loaded: ", named=True):  # types made elsewhere may raise anything
        model = skops.loads(content, trusted=untrusted)
        _check_trees(model)
    return check_usable(model, f"the model {path}")


TREE = "sklearn.tree._tree.Tree"  # skops does not trust it, since scikit-learn follows its nodes wherever they lead


def _check_trees(thing: Any, width: int | None = None) -> None:
    """Refuse a tree of scikit-learn with a node that leads out of it or back up, or to a column that it is not given.

    `width` is the number of columns of the ensemble that the thing is a part of; None: it is part of none.
    """
    if f"{type(thing).__module__}.{type(thing).__qualname__}" == TREE:
        inner = np.flatnonzero(thing.children_left != -1)
        ends = np.stack([thing.children_left, thing.children_right])[:, inner]
        if not thing.node_count or (ends <= inner).any() or (ends >= thing.node_count).any():
            raise ValueError("a tree of it has a node that leads to no node below it")
        if width is None or ((thing.feature[inner] < 0) | (thing.feature[inner] >= width)).any():
            raise ValueError("a tree of it splits a column that it is not given")
    elif isinstance(thing, dict | list | tuple) or (isinstance(thing, np.ndarray) and thing.dtype == object):
        for one in thing.values() if isinstance(thing, dict) else thing:
            _check_trees(one, width)
    elif hasattr(thing, "__dict__") and not isinstance(thing, type):
        features = attribute(thing, "estimators_features_")
        sizes = [width, attribute(thing, "n_features_in_"), *map(len, () if features is None else features)]
        least = min((int(size) for size in sizes if size is not None), default=None)
        for name, one in vars(thing).items():
            _check_trees(one, least if name in ("tree_", "estimators_") else None)


def _visits(node: object, known: dict[str, int]) -> int:
    """Count the parts that skops visits below a node: a part that is named again counts again, and all in it."""
    if isinstance(node, list):
        return sum(_visits(one, known) for one in node)
    if not isinstance(node, dict):
        return 0
    name = str(node["__id__"])[:100] if "__id__" in node else None
    if name in known:
        return known[name]
    count = ("__loader__" in node) + sum(_visits(one, known) for one in node.values())
    if name is not None:
        known[name] = count
    return count


def _check_not_pickled(path: Path, start: bytes, expected: str) -> None:
    if start in (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"):  # how pickles of protocol 2 to 5 begin
        raise InputError(
            f"{path} is a pickle and not {expected}, whatever it is called; it was not opened, since loading a pickle "
            "runs whatever code its maker put in"
        )
