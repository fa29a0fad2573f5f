"""What a model or a sampler costs within a run, and the most memory that the process has held."""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import dataclass
from typing import Any


@dataclass
class Timed:
    """A model or a sampler, and the seconds spent in it: of the clock, and of the processor (a busy machine's clock
    says little)."""

    inner: Any
    seconds: float = 0.0
    work: float = 0.0
    calls: int = 0

    def __call__(self, *given: Any) -> Any:
        start, work = time.perf_counter(), time.process_time()
        try:
            return self.inner(*given)
        finally:
            self.seconds += time.perf_counter() - start
            self.work += time.process_time() - work
            self.calls += 1

    def __repr__(self) -> str:
        return repr(self.inner)

    @property
    def deterministic(self) -> bool:
        return bool(getattr(self.inner, "deterministic", False))

    @property
    def identity(self) -> str:
        return str(self.inner.identity)


def peak() -> float:
    """The most memory this process has held, in megabytes."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / (2**20 if sys.platform == "darwin" else 2**10)
