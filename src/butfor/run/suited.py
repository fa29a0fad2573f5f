"""Which test suits what a draw and a model row cost: measured before a run on images or texts, and told in its result.

The choice looks at time alone, never at an output, so it cannot favour a discovery. It may be another one on another
machine; a run directory keeps the first, and `test=` names it for good.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from butfor.core.draw.blocks import Job, Problem, draw
from butfor.core.evaluate.ask import ask
from butfor.core.result.result import Result
from butfor.core.types import Floats, InputError
from butfor.engine.journal import told_before
from butfor.run.context import RunContext
from butfor.run.settings import Settings

LIMIT = 600.0  # seconds: a sequential run that is expected to take longer is few-shot
NULL = 40  # draws that the sequential test takes of a null: the pilot, and 10 exceedances
CHEAP = 0.02  # seconds: a sampler that draws once in less is timed on as many as are usual
BY_COST = "by-cost"
ROWS = 8  # inputs that the model is timed on
PLACES = 3  # hypotheses that the sampler is timed on


@dataclass(frozen=True)
class Suited:
    """A test chosen by cost: settings with it, why, and the model rows that measuring took."""

    settings: Settings
    why: str | None = None
    rows: int = 0

    def told(self, result: Result) -> Result:
        """The result with what is to be said of the choice, and of what another seed would choose."""
        if self.why is None:
            return result
        notes = [self.why, *overlap_note(result)]
        rows, asked = result.rows + self.rows, result.rows_asked + self.rows
        return replace(result, run_notes=(*result.run_notes, *notes), rows=rows, rows_asked=asked)


def by_cost(options: Mapping[str, Any]) -> tuple[bool, dict[str, Any]]:
    """Whether the test is to be chosen by cost, and the options without that."""
    if options.get("test") != BY_COST:
        return False, dict(options)
    named = [name for name in ("draws", "rule") if options.get(name) is not None]
    if named:
        raise InputError(f"{named[0]}= belongs to one test, but test={BY_COST!r} may choose another; name the test")
    return True, {**options, "test": None}


def suited(context: RunContext, settings_with: Callable[[str], Settings], run_dir: object) -> Suited:
    """The test for a run that is to be chosen by cost; the one chosen before where it goes on from a run directory.

    The sequential test draws a null about 40 times. k signals of H are decided at p = alpha k / H, after h / p draws
    each: h / alpha for every hypothesis of the run, however many signals there are.
    """
    problem, before = context.problem, _before(run_dir)
    if before is not None:
        return Suited(settings_with(before), f"The test is {before}, as when this run was begun.")
    settings = settings_with("sequential")
    usual = NULL + round(settings.test.h / settings.alpha)
    try:
        drawing, row, rows = _draw_seconds(problem, usual), *_row_seconds(context)
    except Exception:  # what is wrong with the model or the sampler is said when they are used
        return Suited(settings_with("few-shot"))
    seconds = problem.size * (drawing + usual * row)
    name = "sequential" if seconds <= LIMIT else "few-shot"
    compared = "at most" if name == "sequential" else "more than"
    why = (
        f"The test is {name}, because of what this costs here: {usual} draws of a part take {_about(drawing)} and a "
        f"row of the model takes {_about(row)}, so that drawing until all are decided takes {compared} {LIMIT / 60:g} "
        f"minutes. On another machine it may be another; test={name!r} keeps it."
    )
    return Suited(settings_with(name), why, rows)


def _before(run_dir: object) -> str | None:
    """The test of a run that is to go on."""
    if not isinstance(run_dir, str | Path):
        return None
    found = re.search(r"name='(sequential|few-shot)'", told_before(run_dir).get("test", ""))
    return None if found is None else found[1]


def _draw_seconds(problem: Problem, usual: int) -> float:
    """Seconds that the usual number of draws of a hypothesis takes: the least of a few, not disturbed by other work."""
    quiet = replace(problem, watch=None)
    places = np.unique(np.linspace(0, len(problem.blocks) - 1, PLACES).astype(int)).tolist()
    once: list[float] = []  # the first may load a network
    for place in places:
        once.append(_timed(partial(draw, quiet, Job(problem.blocks[place], 1, "cost"))))
        if len(once) > 1 and min(once) > 1:
            break  # dear, whatever the others are
    if min(once) >= CHEAP:
        return usual * min(once)
    count = min(usual, problem.round_draws)
    some = [_timed(partial(draw, quiet, Job(problem.blocks[place], count, "cost"))) for place in places]
    return min(some) * usual / count


def _row_seconds(context: RunContext) -> tuple[float, int]:
    """Seconds of a row of the model among some, and the rows that this took."""
    items = context.problem.items
    rows = np.arange(min(ROWS, len(items), context.batch_rows))
    given = items.given(rows)
    call = context.wrapped.call
    return _timed(lambda: ask(call, given, len(rows), context.describe)) / len(rows), len(rows)


def _timed(do: Callable[[], object]) -> float:
    start = time.perf_counter()
    do()
    return time.perf_counter() - start


def _about(seconds: float) -> str:
    """A time in words that another run of the same machine would use, too.

    >>> _about(0.004), _about(2.5)
    ('some milliseconds', 'some seconds')
    """
    for below, words in ((1e-3, "less than a millisecond"), (1e-2, "some milliseconds"), (0.1, "some hundredths")):
        if seconds < below:
            return words if "milli" in words else f"{words} of a second"
    return "less than a second" if seconds < 1 else "some seconds" if seconds < 10 else "ten seconds or more"


def overlap_note(result: Result) -> list[str]:
    """How much of what is chosen another seed would choose, too, from the evidence near the threshold."""
    h, p = result.provenance.get("h"), result.evidence.values
    if h is None or not result.chosen.any() or result.problem.layers is not None:
        return []
    draws = np.maximum(result.evidence.draws, 1)
    surprise = result.evidence.surprise
    beaten = np.where(np.isfinite(surprise), 1 - surprise, p)
    rate = np.where(result.chosen, np.maximum(beaten, 0.5 / draws), p)
    share = expected_overlap(rate, float(p[result.chosen].max()), int(h))
    return [
        f"With another seed about {share:.0%} of what either run chooses would be chosen by both, as far as the "
        "evidence near the threshold tells."
    ]


def expected_overlap(rate: Floats, threshold: float, h: int) -> float:
    """What two seeds both choose, of what either chooses, expected.

    A hypothesis of which draws exceed what is observed at a `rate` (H,) is chosen where fewer than h of so many draws
    do that h / (h + draws) is the threshold.

    >>> round(expected_overlap(np.array([0.0001, 0.5]), 0.01, 10), 2)
    1.0
    """
    from scipy.special import bdtr

    again = bdtr(h - 1, max(1, round(h / threshold - h)), rate)
    return float((again**2).sum() / max((2 * again - again**2).sum(), 1e-300))
