"""An ONNX file as a black box, run by onnxruntime: there is no Python in it, so loading it runs no foreign code."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from butfor.models.wrap import Wrapped, as_type, chunks, is_frame, is_series, matrix, need, padded, taken
from butfor.types import Array, Batch, InputError, ModelError, reworded


def open_session(
    path: str | Path,
    what: str = "the ONNX file",
    threads: int | None = None,
    *,
    arena: bool = True,
    providers: Sequence[str] = ("CPUExecutionProvider",),
    extra: str = "onnx",
) -> Any:
    """Open the onnxruntime session of a file; calling it again costs nothing until the file changes.

    `what` names the file in an error, `extra` is what to install. `threads` None: OMP_NUM_THREADS if that is set, else
    as many as onnxruntime likes. `arena` keeps memory between calls: faster for one size of inputs, ever more memory
    for many.

    >>> open_session("net.onnx")
    Traceback (most recent call last):
    butfor.types.InputError: the ONNX file net.onnx does not exist; give the path of an ONNX file
    """
    path = Path(path).expanduser()
    if not path.is_file():
        fault = "is a directory" if path.is_dir() else "does not exist"
        raise InputError(f"{what} {path} {fault}; give the path of an ONNX file")
    if threads is None:
        stated = os.environ.get("OMP_NUM_THREADS", "")
        threads = int(stated) if stated.isdecimal() else 0  # 0: as many as it likes
    return _session(str(path), path.stat().st_mtime_ns, threads, arena, tuple(providers), extra)


def check_threads(threads: object) -> int | None:
    """Refuse another number of threads than a whole one of at least 1, or None."""
    if threads is None:
        return None
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise InputError(f"threads must be at least 1, or None, got {threads!r}")
    return threads


@lru_cache(maxsize=8)
def _session(path: str, changed: int, threads: int, arena: bool, providers: tuple[str, ...], extra: str) -> Any:  # noqa: ARG001
    runtime = need("onnxruntime", extra)
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4  # what goes wrong comes as an exception
    options.enable_cpu_mem_arena = arena
    with reworded(f"{path} is not an ONNX file that can be opened: "):  # onnxruntime has a class for every reason
        return runtime.InferenceSession(path, options, providers=list(providers))


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
    preprocess: Callable[[Batch], Array] | None = None,
    classes: Sequence[object] | None = None,
    threads: int | None = 1,
    providers: Sequence[str] = ("CPUExecutionProvider",),
) -> Wrapped:
    """Wrap an ONNX file.

    A file with one input gets the matrix, cast to the type it declares; a file with several gets the columns of a frame
    by name (numbers, or strings as they are; a missing string is ""). A file that takes a fixed number of rows gets
    that number.

    Parameters
    ----------
    path : str or Path
        The file.
    output : str, default=None
        The name of the output; None is the probabilities that scikit-learn converters write, else the only one.
    preprocess : callable, default=None
        From a list of images or texts to the array that the file takes.
    classes : sequence, default=None
        The names of the outputs; None is those of a ZipMap, else numbers.
    threads : int, default=1
        Of onnxruntime; None lets it use every core, or OMP_NUM_THREADS.
    providers : sequence of str
        Where onnxruntime runs it.

    Returns
    -------
    Wrapped
        A model for `butfor.explain`.

    Examples
    --------
    >>> onnx_model("no-such-file.onnx")
    Traceback (most recent call last):
    butfor.types.InputError: the model file no-such-file.onnx does not exist; give the path of an ONNX file
    """
    file = Path(path).expanduser()
    session = open_session(file, "the model file", threads, providers=providers)
    chosen = _chosen(session, output, file)
    call = OnnxCall(str(file.absolute()), chosen, preprocess, threads, tuple(providers))
    inputs = session.get_inputs()
    columns = tuple(one.name for one in inputs) if len(inputs) > 1 else None
    return Wrapped(call, _classes(session, chosen) if classes is None else tuple(classes), columns)


def _chosen(session: Any, output: str | None, path: Path) -> str:
    outputs = {one.name: one.type for one in session.get_outputs()}
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


def _classes(session: Any, output: str) -> tuple[Any, ...] | None:
    """Return the names of a ZipMap's classes: they come with a row only, so it is given one of zeros."""
    if not any(one.name == output and one.type.startswith("seq(map(") for one in session.get_outputs()):
        return None
    try:
        row: dict[str, Array] = {}
        for one in session.get_inputs():
            shape = [size if isinstance(size, int) else 1 for size in one.shape]
            kind = TYPES[one.type]
            row[one.name] = np.full(shape, "" if kind is np.object_ else 0, dtype=kind)
        return tuple(session.run([output], row)[0][0])
    except Exception:  # the file does not take such a row: its outputs have numbers
        return None


@dataclass(frozen=True)
class OnnxCall:
    path: str
    output: str
    preprocess: Callable[[Batch], Array] | None
    threads: int | None
    providers: tuple[str, ...]

    @cached_property
    def session(self) -> Any:
        """The session, kept as long as this object, whatever becomes of the file."""
        return open_session(self.path, "the model file", self.threads, providers=self.providers)

    def __reduce__(self) -> tuple[Any, ...]:  # a session cannot travel: it is opened again
        return OnnxCall, (self.path, self.output, self.preprocess, self.threads, self.providers)

    def __call__(self, batch: Batch) -> Array:
        declared = self.session.get_inputs()
        fixed = declared[0].shape[0] if declared[0].shape else None
        rows = fixed if isinstance(fixed, int) and fixed > 0 else None
        parts = []
        for start, stop in chunks(len(batch), rows or max(len(batch), 1)):
            part = padded(taken(batch, start, stop), rows or 0)
            outputs = self.session.run([self.output], self._fed(declared, part))[0]
            if isinstance(outputs, list):  # a ZipMap gives a dict per row, all with the same keys
                outputs = np.array([[row[name] for name in outputs[0]] for row in outputs], dtype=np.float64)
            elif np.ndim(outputs) == 2 and np.shape(outputs)[1] == 1:
                outputs = np.asarray(outputs)[:, 0]
            parts.append(np.asarray(outputs)[: stop - start])
        return np.concatenate(parts)

    def _fed(self, declared: list[Any], batch: Batch) -> dict[str, Array]:
        if len(declared) > 1:
            return {one.name: _column(one, batch, k, len(declared)) for k, one in enumerate(declared)}
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


def _column(declared: Any, batch: Batch, position: int, count: int) -> Array:
    """Return one input of several: a column, by name in a frame and by position in a matrix."""
    if is_frame(batch):
        if declared.name not in batch.columns:
            raise ModelError(f"the ONNX file needs a column {declared.name!r}; the frame has {list(batch.columns[:8])}")
        column = batch[declared.name]
    elif np.ndim(batch) == 2 and np.shape(batch)[1] == count:
        column = np.asarray(batch)[:, position]
    else:
        raise ModelError(f"the ONNX file has {count} inputs; give a frame with these columns, or a matrix this wide")
    kind = TYPES.get(declared.type)
    values = _strings(column) if kind is np.object_ else as_type(np.asarray(column), kind, declared.name)
    return values.reshape([-1] + [1] * (len(declared.shape) - 1))


def _strings(column: object) -> Array:
    values = np.asarray(column)
    gone = column.isna() if is_series(column) else np.zeros(len(values), dtype=bool)
    return np.array(["" if no else str(value) for value, no in zip(values, gone, strict=True)], dtype=np.object_)
