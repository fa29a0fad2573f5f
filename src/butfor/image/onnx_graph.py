"""An ONNX network of images: its path and how it is run, which can be pickled and sent to workers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from butfor.core.types import Array, InputError, ModelError
from butfor.models.onnx_session import check_threads, open_session
from butfor.models.optional import one_line


@dataclass(frozen=True)
class Graph:
    """An ONNX file and how many threads it may use (None: OMP_NUM_THREADS if set, else as many as ONNX likes)."""

    path: Path
    threads: int | None = None
    arena: bool = False  # keep memory between calls: faster for one size of inputs, ever more memory for many

    @property
    def session(self) -> Any:
        return open_session(self.path, threads=self.threads, arena=self.arena, extra="image")

    @property
    def digest(self) -> str:
        """A short hash of the file's bytes: the same network under another name is the same network."""
        return _digest(str(self.path), self.path.stat().st_mtime_ns)

    def run(self, feeds: dict[str, Array]) -> list[Array]:
        """All outputs."""
        try:
            return [np.asarray(output) for output in self.session.run(None, feeds)]
        except InputError:
            raise
        except Exception as error:  # ONNX Runtime has errors of its own kinds
            shapes = ", ".join(f"{name} {value.dtype} {value.shape}" for name, value in feeds.items())
            raise ModelError(f"{self.path.name} failed on {shapes}: {one_line(error)[:300]}") from error


def open_graph(path: str | Path, threads: int | None, *, arena: bool = False) -> Graph:
    """The graph at `path`, after seeing that it opens."""
    open_session(path, threads=check_threads(threads), arena=arena, extra="image")
    return Graph(Path(path).expanduser().resolve(), threads, arena)


@lru_cache(maxsize=8)
def _digest(path: str, changed: int) -> str:  # noqa: ARG001
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:16]
