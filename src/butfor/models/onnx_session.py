"""ONNX files, opened once per process: whoever holds only the path can be pickled and sent to workers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from butfor.core.types import InputError
from butfor.models.optional import need, one_line


def open_session(
    path: str | Path,
    what: str = "the ONNX file",
    threads: int | None = None,
    *,
    arena: bool = True,
    providers: Sequence[str] = ("CPUExecutionProvider",),
    extra: str = "onnx",
) -> Any:
    """The onnxruntime session of a file; calling it again costs nothing until the file changes.

    `what` names the file in an error, `extra` is what to install. `threads` None: OMP_NUM_THREADS if that is set, else
    as many as onnxruntime likes. `arena` keeps memory between calls: faster for one size of inputs, ever more memory
    for many.

    >>> open_session("net.onnx")
    Traceback (most recent call last):
    butfor.core.types.InputError: the ONNX file net.onnx does not exist; give the path of an ONNX file
    """
    path = Path(path).expanduser()
    if not path.is_file():
        found = "is a directory" if path.is_dir() else "does not exist"
        raise InputError(f"{what} {path} {found}; give the path of an ONNX file")
    return _session(str(path), path.stat().st_mtime_ns, _count(threads), arena, tuple(providers), extra)


def check_threads(threads: object) -> int | None:
    """Refuse another number of threads than a whole one of at least 1, or None."""
    if threads is None:
        return None
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise InputError(f"threads must be at least 1, or None, got {threads!r}")
    return threads


def _count(threads: int | None) -> int:
    if threads is not None:
        return threads
    stated = os.environ.get("OMP_NUM_THREADS", "")
    return int(stated) if stated.isdecimal() else 0  # 0: as many as it likes


@lru_cache(maxsize=8)
def _session(path: str, changed: int, threads: int, arena: bool, providers: tuple[str, ...], extra: str) -> Any:  # noqa: ARG001
    runtime = need("onnxruntime", extra)
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4  # what goes wrong comes as an exception
    options.enable_cpu_mem_arena = arena
    try:
        return runtime.InferenceSession(path, options, providers=list(providers))
    except Exception as error:  # onnxruntime has a class of its own for every reason
        raise InputError(f"{path} is not an ONNX file that can be opened: {one_line(error)[:300]}") from error
