"""An ONNX file, opened once per process: what holds only its path can be pickled and sent to workers."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from butfor.core.types import InputError, ModelError


@dataclass(frozen=True)
class Graph:
    """An ONNX file and how many threads it may use (None: OMP_NUM_THREADS if set, else as many as ONNX likes)."""

    path: Path
    threads: int | None = None
    arena: bool = False  # keep memory between calls: faster for one size of inputs, ever more memory for many

    @property
    def session(self) -> Any:
        try:
            changed = self.path.stat().st_mtime_ns
        except OSError as error:
            raise InputError(f"the ONNX file {self.path} is gone: {error}") from error
        return _session(str(self.path), changed, _threads(self.threads), self.arena)

    @property
    def digest(self) -> str:
        """A short hash of the file's bytes: the same network under another name is the same network."""
        return _digest(str(self.path), self.path.stat().st_mtime_ns)

    def run(self, feeds: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
        try:
            return [np.asarray(output) for output in self.session.run(None, feeds)]
        except InputError:
            raise
        except Exception as error:  # ONNX Runtime has errors of its own kinds
            shapes = ", ".join(f"{name} {value.dtype} {value.shape}" for name, value in feeds.items())
            said = " ".join(str(error).split())
            raise ModelError(f"{self.path.name} failed on {shapes}: {said[:300]}") from error


def open_graph(path: str | Path, threads: int | None, *, arena: bool = False) -> Graph:
    """The graph at `path`, after seeing that it opens."""
    path = Path(path).expanduser()
    if not path.is_file():
        raise InputError(f"the ONNX file {path} {'is a directory' if path.is_dir() else 'does not exist'}")
    if threads is not None and (isinstance(threads, bool) or threads < 1):
        raise InputError(f"threads must be at least 1, or None, got {threads!r}")
    graph = Graph(path.resolve(), threads, arena)
    try:
        graph.session  # noqa: B018
    except ImportError as error:
        raise InputError("ONNX files need onnxruntime; install it with: pip install 'butfor[image]'") from error
    except Exception as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path} is not an ONNX file that can be opened: {' '.join(str(error).split())[:300]}"
        ) from error
    return graph


def _threads(asked: int | None) -> int:
    if asked is not None:
        return asked
    stated = os.environ.get("OMP_NUM_THREADS", "")
    return int(stated) if stated.isdecimal() else 0


@lru_cache(maxsize=4)
def _session(path: str, changed: int, threads: int, arena: bool) -> Any:  # noqa: ARG001
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.enable_cpu_mem_arena = arena
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


@lru_cache(maxsize=8)
def _digest(path: str, changed: int) -> str:  # noqa: ARG001
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:16]
