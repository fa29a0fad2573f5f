"""The smallest part of an input that keeps its decision while all the rest is redrawn (METHODS 17).

    s(S) = P(decision(f(x_S, X~_rest)) = decision(f(x))),   X~_rest ~ Q(. | x_S)

A modality proposes sets of parts, one part first, then two and more for inputs that are still open; each is confirmed
on draws that the search has not seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from butfor.evaluation.evaluator import Evaluator
from butfor.evaluation.hypotheses import Hypotheses, round_sizes
from butfor.evaluation.progress import Meter
from butfor.inference.decisions import Decision, FlipShare
from butfor.inference.features import Fit
from butfor.results.result import Decided, KeptSet, Sets
from butfor.run.decisions import CONFIDENCE, FIRST_ADDED, FIRST_ROUNDS, decide, draw_for
from butfor.run.watchers import Flips
from butfor.settings import Settings
from butfor.types import Bools, Floats, Ints

MOST_MEMBERS = 4
Parts = tuple[int, ...]  # positions of what is kept


class Keeps(Protocol):
    """Proposes what to keep of each input, and redraws the rest."""

    @property
    def names(self) -> Sequence[str]: ...  # of the parts
    @property
    def alike(self) -> Floats: ...  # (n,) share of the rows redrawn from that get the decision of the input
    @property
    def rows(self) -> Ints: ...  # (n,) that these are
    @property
    def pooled(self) -> bool: ...  # whether they are reference and inputs together
    @property
    def together(self) -> int: ...  # draws of an input that have one error of the fit; 0: draws have none

    def fit(self, hypotheses: Hypotheses) -> Fit | None:
        """Return how well the sampler is known."""

    def propose(self, size: int, inputs: Ints) -> tuple[list[Parts], Bools]:
        """Return sets of so many parts, and for which inputs (sets, n) each is worth drawing."""

    def hypotheses(self, sets: Sequence[Parts]) -> Iterator[tuple[Hypotheses, Bools]]:
        """Yield hypotheses in which all but each set is redrawn, for some of the inputs (n,), until all have been."""


def smallest_sets(
    keeps: Keeps,
    evaluator: Evaluator,
    decision: Decision,
    settings: Settings,
    meter: Meter,
    tested: Bools,
) -> Sets:
    """Return the smallest sets that keep each decision `tested` about (n,) more often than `settings.enough`, for sure.

    Of the statements on sets of one size at most a share alpha is wrong on average; none of them is made where rows
    redrawn as a whole get the decision as often.
    """
    assert settings.enough is not None
    count, level = len(keeps.alike), settings.enough
    base = FlipShare(keeps.rows, keeps.alike, np.zeros(count))
    low, high = base.bounds(1 - CONFIDENCE)
    open_inputs = tested & (low <= level)
    at_level = replace(settings, level=level)
    tried: list[KeptSet] = []
    meter.stage("enough", None)
    for size in range(1, min(MOST_MEMBERS, len(keeps.names) - 1) + 1):
        sets, wanted = keeps.propose(size, np.flatnonzero(open_inputs))
        for hypotheses, inputs in keeps.hypotheses(sets) if sets else ():
            mask = (wanted.T & inputs[:, None]).reshape(-1)  # inputs x sets, as hypotheses stand
            if not mask.any():
                continue
            stays = Flips(hypotheses.size, decision, stays=True, together=keeps.together)
            watching = replace(evaluator, memory=None, watchers=(stays,), failed={})
            for number, draws in enumerate(round_sizes(FIRST_ROUNDS * FIRST_ADDED, hypotheses.round_draws)):
                draw_for(hypotheses, watching, mask, f"enough {number}", draws)
            decided = decide(hypotheses, watching, stays, at_level, keeps.fit(hypotheses), meter, usable=mask)
            new = list(_sets(hypotheses, decided, mask, sets, keeps, high))
            tried += new
            open_inputs[[one.input for one in new if one.enough]] = False
    return Sets(level, keeps.alike, low, high, tuple(_telling(tried)), keeps.pooled)


def _sets(
    hypotheses: Hypotheses, decided: Decided, mask: Bools, sets: Sequence[Parts], keeps: Keeps, high: Floats
) -> Iterator[KeptSet]:
    for row in np.flatnonzero(mask & np.isfinite(decided.share)).tolist():
        i, names = int(hypotheses.input_of[row]), tuple(keeps.names[k] for k in sets[int(hypotheses.subset_of[row])])
        stay, low, above = (float(part[row]) for part in (decided.share, decided.low, decided.high))
        yield KeptSet(i, names, stay, low, above, bool(decided.necessary[row] and low > high[i]))


def _telling(tried: Sequence[KeptSet]) -> Iterator[KeptSet]:
    """The confirmed sets of each input, the surest first; where there is none the one that keeps it most often."""
    by_input: dict[int, list[KeptSet]] = {}
    for one in tried:
        by_input.setdefault(one.input, []).append(one)
    for _, sets in sorted(by_input.items()):
        ordered = sorted(sets, key=lambda one: (-one.stay, one.columns))
        confirmed = [one for one in ordered if one.enough]
        yield from confirmed or ordered[:1]
