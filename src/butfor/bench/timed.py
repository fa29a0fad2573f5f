"""What a model or a sampler costs within a run, and the most memory that the process has held."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from butfor.evaluation.samplers import RefusesInputs, RepeatsDraws, SamplerInfo, info_of
from butfor.types import Subset


@dataclass
class Timed:
    """A model or a sampler, and the seconds spent in it: of the clock, and of the processor (a busy machine's clock
    says little). A sampler that can list what it draws is asked for draws all the same."""

    inner: Callable[..., Any]
    seconds: float = 0.0
    work: float = 0.0
    calls: int = 0

    def __call__(self, *given: object) -> Any:
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
    def info(self) -> SamplerInfo:
        return replace(info_of(self.inner), listed=0)

    def unfit(self, item: object) -> str | None:
        return self.inner.unfit(item) if isinstance(self.inner, RefusesInputs) else None

    def repeats(self, subset: Subset) -> bool:
        inner: object = self.inner
        return isinstance(inner, RepeatsDraws) and inner.repeats(subset)


def peak() -> float:
    """The most memory this process has held, in megabytes.

    From /proc where there is one: Linux hands `ru_maxrss` of the parent on to a child, which may be larger.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 2**10
    except OSError:
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return used / (2**20 if sys.platform == "darwin" else 2**10)
