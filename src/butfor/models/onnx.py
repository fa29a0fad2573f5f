"""An ONNX file as a black box, run by onnxruntime: there is no Python in it, so loading it runs no code of anybody."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from butfor.core.types import Batch, InputError, ModelError
from butfor.models.optional import need
from butfor.models.rows import as_type, chunks, is_frame, matrix, padded, taken
from butfor.models.wrap import Array, Wrapped

TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(int8)": np.int8,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
    "tensor(string)": np.object_,
}


def onnx_model(
    path: str | Path,
    *,
    output: str | None = None,
    preprocess: Callable[[Any], Any] | None = None,
    classes: Sequence[Any] | None = None,
    threads: int | None = 1,
    providers: Sequence[str] = ("CPUExecutionProvider",),
) -> Wrapped:
    """The ONNX file as a black box.

    A file with one input gets the matrix, cast to the type it declares; a file with several gets the columns of a frame
    by name (numbers, or strings as they are; a missing string is ""). Images need `preprocess`, from the list to the
    array that the file takes. The output is the one named; else the probabilities that scikit-learn converters write,
    else the only one. A ZipMap names its classes itself, for other files they are numbers unless `classes` are given.
    A file that takes a fixed number of rows gets that number. `threads` None lets onnxruntime use every core.

    >>> onnx_model("no-such-file.onnx")
    Traceback (most recent call last):
    butfor.core.types.InputError: the model file no-such-file.onnx does not exist; give the path of an ONNX file
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise InputError(f"the model file {path} does not exist; give the path of an ONNX file")
    session = Session(str(path.absolute()), threads, tuple(providers))
    asked = Onnx(session, _chosen(session.live(), output, path), preprocess)
    columns = asked.columns()
    return Wrapped(asked, _classes(asked) if classes is None else tuple(classes), columns)


@dataclass(frozen=True)
class Session:
    """A session that is opened again where it is unpickled: onnxruntime's own cannot travel."""

    path: str
    threads: int | None
    providers: tuple[str, ...]
    _open: list[Any] = field(default_factory=list, compare=False, repr=False)

    def live(self) -> Any:
        if not self._open:
            self._open.append(_opened(self.path, self.threads, self.providers))
        return self._open[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return Session, (self.path, self.threads, self.providers)


def _opened(path: str, threads: int | None, providers: tuple[str, ...]) -> Any:
    runtime = need("onnxruntime", "onnx")
    options = runtime.SessionOptions()
    options.log_severity_level = 4  # what goes wrong comes as an exception
    if threads is not None:
        options.intra_op_num_threads = options.inter_op_num_threads = threads
    try:
        return runtime.InferenceSession(path, options, providers=list(providers))
    except Exception as error:  # onnxruntime has a class of its own for every reason
        why = " ".join(str(error).split())
        raise InputError(f"{path} is not an ONNX model that onnxruntime can load: {why}") from error


def _chosen(session: Any, output: str | None, path: Path) -> str:
    """The name of the output to use."""
    outputs = {found.name: found.type for found in session.get_outputs()}
    if output is not None:
        if output not in outputs:
            raise InputError(f"{path} has no output {output!r}; it has {', '.join(outputs)}")
        return output
    maps = [name for name, kind in outputs.items() if kind.startswith("seq(map(")]
    numbers = [name for name, kind in outputs.items() if kind in ("tensor(float)", "tensor(double)", "tensor(float16)")]
    likely = [name for name in numbers if "prob" in name.lower()]
    for candidates in (maps, likely, numbers, list(outputs)):
        if len(candidates) == 1:
            return str(candidates[0])
    raise InputError(f"{path} has the outputs {', '.join(outputs)}; say which with output=")


def _classes(asked: Onnx) -> tuple[Any, ...] | None:
    """What a ZipMap calls its classes: it says so only of a row, so it is given one of zeros."""
    session = asked.session.live()
    if not any(found.name == asked.output and found.type.startswith("seq(map(") for found in session.get_outputs()):
        return None
    try:
        row = {found.name: _blank(found) for found in session.get_inputs()}
        return tuple(session.run([asked.output], row)[0][0])
    except Exception:  # the file does not take such a row: its outputs have numbers
        return None


def _blank(declared: Any) -> Array:
    shape = [size if isinstance(size, int) else 1 for size in declared.shape]
    kind = TYPES[declared.type]
    return np.full(shape, "", dtype=np.object_) if kind is np.object_ else np.zeros(shape, dtype=kind)


@dataclass(frozen=True)
class Onnx:
    """What `onnx_model` asks."""

    session: Session
    output: str
    preprocess: Callable[[Any], Any] | None

    def columns(self) -> tuple[str, ...] | None:
        inputs = self.session.live().get_inputs()
        return tuple(found.name for found in inputs) if len(inputs) > 1 else None

    def __call__(self, batch: Batch) -> Array:
        session = self.session.live()
        declared = session.get_inputs()
        fixed = declared[0].shape[0] if declared[0].shape else None
        rows = fixed if isinstance(fixed, int) and fixed > 0 else None
        parts = []
        for start, stop in chunks(len(batch), rows or max(len(batch), 1)):
            part = padded(taken(batch, start, stop), rows or 0)
            found = session.run([self.output], self._fed(declared, part))[0]
            parts.append(_numbers(found)[: stop - start])
        return np.concatenate(parts)

    def _fed(self, declared: list[Any], batch: Batch) -> dict[str, Array]:
        if len(declared) > 1:
            return {one.name: _column(one, batch, place, len(declared)) for place, one in enumerate(declared)}
        only = declared[0]
        kind = TYPES.get(only.type)
        if self.preprocess is not None:
            return {only.name: np.asarray(self.preprocess(batch), dtype=kind)}
        if isinstance(batch, list) and kind is np.object_:
            return {only.name: np.array(batch, dtype=np.object_).reshape([-1] + [1] * (len(only.shape) - 1))}
        if isinstance(batch, list):
            raise ModelError("an ONNX file takes arrays, not a list of images or texts; give onnx_model preprocess=")
        if is_frame(batch) and kind is np.object_:
            return {only.name: np.column_stack([_strings(batch[name]) for name in batch.columns])}
        return {only.name: as_type(matrix(batch, "this ONNX file"), kind, only.name)}


def _column(declared: Any, batch: Batch, place: int, count: int) -> Array:
    """One input of several: a column, by name in a frame and by place in a matrix."""
    if is_frame(batch):
        if declared.name not in batch.columns:
            raise ModelError(f"the ONNX file needs a column {declared.name!r}; the frame has {list(batch.columns[:8])}")
        column = batch[declared.name]
    elif np.ndim(batch) == 2 and np.shape(batch)[1] == count:
        column = np.asarray(batch)[:, place]
    else:
        raise ModelError(f"the ONNX file has {count} inputs; give a frame with these columns, or a matrix this wide")
    kind = TYPES.get(declared.type)
    values = _strings(column) if kind is np.object_ else as_type(np.asarray(column), kind, declared.name)
    return values.reshape([-1] + [1] * (len(declared.shape) - 1))


def _strings(column: Any) -> Array:
    values = np.asarray(column)
    gone = column.isna() if hasattr(column, "isna") else np.zeros(len(values), dtype=bool)
    return np.array(["" if no else str(value) for value, no in zip(values, gone, strict=True)], dtype=np.object_)


def _numbers(found: Any) -> Array:
    """(n, outputs), or (n,) for one output; a ZipMap gives a dict per row, all with the same keys."""
    if isinstance(found, list):
        names = list(found[0])
        return np.array([[row[name] for name in names] for row in found], dtype=np.float64)
    outputs = np.asarray(found)
    return outputs[:, 0] if outputs.ndim == 2 and outputs.shape[1] == 1 else outputs
