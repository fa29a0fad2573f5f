"""What a unit of work needs and what it gives back: all that travels between the run and its workers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from butfor.core.draw.blocks import CounterfactualBatch, Job, Problem
from butfor.core.draw.listing import Support
from butfor.core.evaluate.buffer import BatchBuffer
from butfor.core.types import Floats, Ints, Model

Key = tuple[int, bytes]  # a hypothesis, and what tells its versions apart
Look = Callable[[Problem, CounterfactualBatch, Floats], Any]  # what is kept of counterfactuals: a few small numbers
Summary = Callable[[tuple[Job, ...], tuple[Floats, ...]], Any]  # what a stage needs of a unit's outputs: counts, means


@runtime_checkable
class HasMark(Protocol):
    """A summary whose numbers are cut out of those of a whole stage: `mark` is the digest of them all.

    With the jobs it tells the summary from all others, and a journal need not read the numbers of every unit.
    """

    @property
    def mark(self) -> bytes: ...


class Buffers(threading.local):
    """A buffer for each thread; it does not travel with a pickle."""

    def __init__(self) -> None:
        self.own = BatchBuffer()

    def __reduce__(self) -> tuple[Any, ...]:
        return Buffers, ()


@dataclass(frozen=True)
class Tolerance:
    """What is done about a model or sampler that fails: with `skip` its hypotheses go untested; seconds for a call."""

    skip: bool = False
    timeout: float | None = None


@dataclass(frozen=True, eq=False)
class Workplace:
    """The same for all units of a stage: it is large, so it travels to a worker once.

    `observed` (n, outputs) are the outputs on the inputs, for subsets whose draws are `repeating`.
    """

    problem: Problem  # without its blocks: they come with the jobs
    model: Model
    batch_rows: int
    outputs: int
    repeating: frozenset[str] = frozenset()
    observed: Floats | None = None
    tolerance: Tolerance = field(default_factory=Tolerance)
    buffers: Buffers = field(default_factory=Buffers)

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for workplaces that are the same, as long as one of them is held."""
        problem = self.problem
        same = (problem.items, problem.sampler, self.model, self.observed, problem.input_names)
        return (*map(id, same), problem.seed, self.batch_rows, self.outputs, self.repeating, self.tolerance)


@dataclass(frozen=True, eq=False)
class WorkUnit:
    """Jobs that are drawn and evaluated together, wherever that is; which they are depends on nothing but the run."""

    jobs: tuple[Job, ...]
    looks: tuple[Look | None, ...] = ()
    summary: Summary | None = None  # made where the outputs are, which then stay there; None: they are wanted
    watched: bool = False  # draws are compared, to see whether there is chance in them
    known: dict[int, dict[bytes, Floats]] = field(default_factory=dict)  # answers that its hypotheses have already
    result: UnitResult | None = None  # from a run that was cut short


@dataclass(frozen=True, eq=False)
class UnitResult:
    """What came of a unit. Counterfactuals stay where they were drawn."""

    outputs: tuple[Floats, ...]  # of each job (inputs, versions, outputs); none where there is a summary
    found: tuple[tuple[Any, ...], ...]  # of each job, by each of `looks`
    supports: tuple[Support | None, ...]  # of each job, where its counterfactuals were listed
    rows: tuple[int, int, int]  # requested, evaluated, deduplicated
    news: dict[Key, Floats] = field(default_factory=dict)  # answers to draws that may come again
    chance: tuple[bool, int] = (False, 0)  # whether draws differ, and how many were alike
    failed: dict[int, str] = field(default_factory=dict)  # hypotheses that the model or sampler failed on, and why
    summary: Any = None  # arrays, and tuples of them
    sample: tuple[int, Ints, Floats] | None = None  # a job, some of its inputs, and their outputs: to compare with


@runtime_checkable
class Engine(Protocol):
    """Where units are worked on: results come with the number of their unit, in any order."""

    def map(self, place: Workplace, units: Iterable[WorkUnit]) -> Iterator[tuple[int, UnitResult]]: ...


@dataclass
class UnitCounts:
    """Rows of one unit: requested, given to the model, and equal to others of their call."""

    requested: int = 0
    evaluated: int = 0
    deduplicated: int = 0


@dataclass(frozen=True, eq=False)
class UnitContext:
    """One unit while it is worked on."""

    place: Workplace
    known: dict[int, dict[bytes, Floats]]
    counts: UnitCounts = field(default_factory=UnitCounts)
    news: dict[Key, Floats] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)

    @property
    def buffer(self) -> BatchBuffer:
        return self.place.buffers.own

    def answer(self, key: Key) -> Floats:
        """What the model said of a version of a hypothesis."""
        return self.news[key] if key in self.news else self.known[key[0]][key[1]]

    def is_known(self, key: Key) -> bool:
        return key in self.news or key[1] in self.known.get(key[0], ())
