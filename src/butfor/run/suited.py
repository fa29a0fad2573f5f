"""Which test suits what a draw and a model row cost: measured before a run on images or texts, and told in its result.

The choice looks at time alone, never at an output, so it cannot favour a discovery. It may be another one on another
machine; a run directory keeps the first, and `test=` names it for good.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from butfor.evaluation.calls import ask
from butfor.evaluation.evaluator import remembering
from butfor.evaluation.hypotheses import CounterfactualBatch, Job, Problem, draw
from butfor.evaluation.journal import told_before
from butfor.results.result import LEAST_INPUTS, Result
from butfor.run.overlap import overlap_note
from butfor.run.run import RunContext
from butfor.settings import Procedure, Settings, few_shot, sequential

LIMIT = 300.0  # seconds: where the sequential test is expected to take longer, a test of fewer draws is taken
TESTS = {"few-shot": few_shot(), "sequential": sequential(), "sequential(h=1)": sequential(h=1)}  # by what they say
NULL = 40  # draws that the sequential test takes of a null: those for the centre, and until 10 exceed
CHEAP = 0.02  # seconds: a sampler that draws once in less is timed on as many as are usual
ROWS = 8  # inputs that the model is timed on
PLACES = 3  # hypotheses that the sampler is timed on
Made = TypeVar("Made")


@dataclass(frozen=True)
class Suited:
    """A test chosen by cost: settings with it, why, and the model rows that measuring took."""

    settings: Settings
    why: str | None = None
    rows: int = 0

    @property
    def cheap(self) -> bool:
        """Whether draws were found to cost so little that many are made."""
        return self.why is not None and self.settings.test == TESTS["sequential"]

    def told(self, result: Result) -> Result:
        """The result with what is to be said of the choice, and of what another seed would choose."""
        if self.why is None:
            return result
        notes = [self.why, *overlap_note(result)]
        rows, asked = result.rows + self.rows, result.rows_asked + self.rows
        return replace(result, run_notes=(*result.run_notes, *notes), rows=rows, rows_asked=asked)


@dataclass(frozen=True)
class DrawCost:
    """Seconds of the draws that a hypothesis usually takes, and of reading an input once; the share of its draws that
    differ, for the model is asked once for those that are equal."""

    drawing: float
    reading: float
    share: float


def by_cost(options: Mapping[str, object]) -> bool:
    """Whether the test is to be chosen by cost: none is named, nor anything that belongs to one test."""
    return all(options.get(name) is None for name in ("test", "draws", "rule"))


def suited(context: RunContext, settings_with: Callable[[Procedure], Settings], run_dir: object) -> Suited:
    """The test for a run that is to be chosen by cost; the one chosen before where it goes on from a run directory.

    The sequential test draws a null about 40 times. k signals of H are decided at p = alpha k / H, after h / p draws
    each: h / alpha for every hypothesis of the run, however many signals there are. With h = 1 that is what few-shot
    takes, which promises nothing of a few inputs.
    """
    problem, before = context.problem, _before(run_dir)
    if before is not None:
        why = f"The test is {before}, as when this run was begun."
        return Suited(settings_with(TESTS[before]), why, _rows_timed(context) + 1)  # asked when it was begun
    settings = settings_with(TESTS["sequential"])
    few = len(problem.items) < LEAST_INPUTS or settings.family == "input"
    dear = "sequential(h=1)" if few else "few-shot"
    usual = NULL + round(settings.test.h / settings.alpha)
    try:
        cost, row = _draw_seconds(problem, usual), _row_seconds(context)
    except (Exception, SystemExit):  # what is wrong with the model or the sampler is said when they are used
        return Suited(settings_with(TESTS[dear]))
    seconds = problem.size * (cost.drawing + usual * cost.share * row) + len(problem.items) * cost.reading
    name = "sequential" if seconds <= LIMIT else dear
    why = (
        f"The test is {name}, because of what this costs here: {usual} draws of a part take {_about(cost.drawing)} and "
        f"a row of the model takes {_about(row)}, so that drawing until all are decided takes "
        f"{'at most' if seconds <= LIMIT else 'more than'} {LIMIT / 60:g} minutes"
    )
    if name == "sequential(h=1)":
        why += ", and few-shot would promise nothing of so few inputs: a part is given up at the first draw as far"
    keeps = f"butfor.{name}" if name == "sequential(h=1)" else repr(name)
    why += f". On another machine it may be another; test={keeps} keeps it."
    return Suited(settings_with(TESTS[name]), why, _rows_timed(context) + 1)


def _before(run_dir: object) -> str | None:
    """The test of a run that is to go on."""
    if not isinstance(run_dir, str | Path):
        return None
    told = told_before(run_dir).get("test", "")
    return next((name for name, test in TESTS.items() if repr(test) == told), None)


def _draw_seconds(problem: Problem, usual: int) -> DrawCost:
    """What the usual number of draws of a hypothesis costs: the least of a few, not disturbed by other work.

    A first draw may read all of an input, which then serves all of its hypotheses: one beside it tells, and the same
    one again.
    """
    quiet, blocks = replace(problem, watch=None), problem.blocks

    def made(place: int, count: int, which: str) -> tuple[float, CounterfactualBatch]:
        return _timed(partial(draw, quiet, Job(blocks[place], count, which)))

    places = np.unique(np.linspace(0, len(blocks) - 1, PLACES).astype(int)).tolist()
    pairs = [(place, _beside(problem, place)) for place in places]
    times: list[tuple[float, float, float]] = []  # the first may load a network
    for place, other in pairs:
        times.append((made(place, 1, "cost")[0], made(other, 1, "cost 1")[0], made(other, 1, "cost 2")[0]))
        if times[-1][2] > 1:
            break  # dear, whatever the others are
    first, beside, again = np.array(times).min(axis=0).tolist()
    once, reading = max(beside - again, 0.0), max(first - beside, 0.0)
    if again >= CHEAP:
        return DrawCost(once + usual * again, reading, 1.0)
    count = min(usual, problem.round_draws)
    seconds, batches = zip(*(made(other, count, "cost") for _, other in pairs), strict=True)
    memory = remembering(problem, np.zeros((len(problem.items), 1)))
    known = frozenset() if memory is None else memory.subsets
    alike = [batch for batch in batches if batch.job.block.subset.name in known]
    share = float(np.mean([len(set(problem.items.keys(one.values))) / one.rows for one in alike])) if alike else 1.0
    return DrawCost(once + min(seconds) * usual / count, reading, share)


def _beside(problem: Problem, place: int) -> int:
    """Another block of the same input, where there is one."""
    near = (place + 1, place - 1)
    same = [k for k in near if 0 <= k < len(problem.blocks) and problem.blocks[k].start == problem.blocks[place].start]
    return same[0] if same else place


def _rows_timed(context: RunContext) -> int:
    """Inputs that the model is timed on, after it was asked for the first alone."""
    return min(ROWS, len(context.problem.items), context.batch_rows)


def _row_seconds(context: RunContext) -> float:
    """Seconds of a row of the model among some."""
    items, rows = context.problem.items, np.arange(_rows_timed(context))
    given, first = items.given(rows), items.given(rows[:1])
    call = context.wrapped.call
    ask(call, first, 1, context.describe)  # may load a network
    return _timed(lambda: ask(call, given, len(rows), context.describe))[0] / len(rows)


def _timed(do: Callable[[], Made]) -> tuple[float, Made]:
    """Seconds that something takes, and what it makes."""
    start = time.perf_counter()
    made = do()
    return time.perf_counter() - start, made


def _about(seconds: float) -> str:
    """A time in words that another run of the same machine would use, too.

    >>> _about(0.004), _about(2.5)
    ('some milliseconds', 'some seconds')
    """
    for below, words in ((1e-3, "less than a millisecond"), (1e-2, "some milliseconds"), (0.1, "some hundredths")):
        if seconds < below:
            return words if "milli" in words else f"{words} of a second"
    return "less than a second" if seconds < 1 else "some seconds" if seconds < 10 else "ten seconds or more"
