"""A model named on a command line -> the black box; nothing of it runs before the user has said that it may."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from butfor.core.types import InputError
from butfor.models.onnx import onnx_model
from butfor.models.optional import need, one_line
from butfor.models.python_file import attribute_of, check_usable
from butfor.models.remote import endpoint

PICKLES = (".pkl", ".pickle", ".joblib")
TORCH = (".pt", ".pth", ".ckpt", ".bin")
SUPPORTED = (
    "give file.onnx, file.skops, file.py:function, an http(s) address of the Open Inference Protocol, or a .pkl, "
    ".pickle or .joblib file with --trust-pickle"
)


def load_model(name: str, *, trust_pickle: bool = False, trusted: Iterable[str] = ()) -> Any:
    """The model that `name` points at.

    ONNX files hold no code. `file.py:function` imports the file, so its code runs: it can be read first. The ending of
    the name decides which of these is done, never the content: a pickle that is called model.skops is refused, not
    unpickled.

    Parameters
    ----------
    name : a file, `file.py:function`, or an address of the Open Inference Protocol.
    trust_pickle : unpickling runs code that nobody can read first; that is why it must be asked for.
    trusted : types that a skops file may make beside those that are known to be harmless.

    Examples
    --------
    >>> load_model("model.pt")
    Traceback (most recent call last):
    butfor.core.types.InputError: model.pt holds a torch module or its weights as a pickle; export it to ONNX, or ...
    """
    lower = name.lower()
    if lower.startswith(("http://", "https://")):
        return endpoint(name)
    if lower.endswith(PICKLES):
        return _unpickled(_existing(name), trust_pickle)
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
        raise InputError(f"the model {path} cannot be unpickled: {_named(error)}") from error
    return check_usable(model, f"the model {path}")


def _skops(path: Path, trusted: list[str]) -> Any:
    """The object in a skops file, made only if all of its types are harmless or trusted."""
    content = path.read_bytes()  # read once: what is looked through is what is loaded
    _check_not_pickled(path, content[:2], "a skops file")
    skops = need("skops.io", "skops")
    try:
        untrusted = skops.get_untrusted_types(data=content)
    except Exception as error:  # a broken file may raise anything
        raise InputError(f"{path} is not a skops file that can be read: {_named(error)}") from error
    if unnamed := [kind for kind in untrusted if kind not in trusted]:
        raise InputError(
            f"the model {path} has types that are not known to be harmless: {', '.join(unnamed)}; if you know "
            f"and trust them, name them: {' '.join(f'--trust {kind}' for kind in unnamed)}"
        )
    try:
        model = skops.loads(content, trusted=untrusted)
    except Exception as error:  # types made elsewhere may raise anything
        raise InputError(f"the model {path} cannot be loaded: {_named(error)}") from error
    return check_usable(model, f"the model {path}")


def _check_not_pickled(path: Path, start: bytes, expected: str) -> None:
    if start in (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"):  # how pickles of protocol 2 to 5 begin
        raise InputError(
            f"{path} is a pickle and not {expected}, whatever it is called; it was not opened, since loading a pickle "
            "runs whatever code its maker put in"
        )


def _named(error: BaseException) -> str:
    return one_line(f"{type(error).__name__}: {error}")
