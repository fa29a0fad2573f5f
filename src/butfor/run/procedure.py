"""Which test is run, with what only that test knows: `butfor.irt(...)`, `sequential`, `few_shot` and `osft`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, get_args

from butfor.core.checks import between, one_of, whole
from butfor.core.types import InputError

TestName = Literal["sequential", "irt", "osft", "few-shot"]
MOST_SEQUENTIAL = 100_000  # draws of a hypothesis that stays open


@dataclass(frozen=True)
class Procedure:
    """A test and its own options. Made by `butfor.irt`, `sequential`, `few_shot` and `osft`, or from their names."""

    name: TestName
    draws: int | None = None  # None: as many as the test takes by default
    center: int | None = None  # pilot draws of a two-sided statistic; None: as many as suit the test
    h: int = 10
    early_stop: bool = False
    delta: float = 0.01
    scale: Literal["shrunk"] | None = None

    def draws_for(self, hypotheses: int, rule: str, alpha: float) -> int:
        """Draws per hypothesis; for the sequential test the most it may take."""
        if self.draws is not None:
            return self.draws
        if self.name == "sequential":  # what a lone signal needs, within reason
            harmonic = sum(1 / i for i in range(1, hypotheses + 1)) if rule == "by" else 1.0
            return min(max(1000, math.ceil(self.h * hypotheses * harmonic / alpha)), MOST_SEQUENTIAL)
        if self.name == "few-shot":
            return max(3, round(1 / alpha))
        return {"osft": 1, "irt": 200 if rule == "e-bh" else 1000}[self.name]

    def center_for(self, alternative: str, predicted: bool) -> int:
        """Pilot draws whose mean is the centre of the statistic; 0 where it has none."""
        if alternative != "two-sided" and self.center is not None:
            raise InputError(f"center is for two-sided tests, this one is {alternative!r}; drop it")
        if self.name == "few-shot":
            return 0  # it centres on the mean of its own values
        needed = alternative == "two-sided" or (self.name in ("sequential", "irt") and predicted)
        default = 1 if self.name == "osft" else 16  # 1 is the paper's
        return (default if self.center is None else self.center) if needed else 0


def irt(
    draws: int | None = None, *, early_stop: bool = False, delta: float = 0.01, center: int | None = None
) -> Procedure:
    """The paper's interpretability randomisation test: a p-value from a fixed number of counterfactuals (METHODS 1).

    Parameters
    ----------
    draws : counterfactuals per hypothesis; None is 1,000 (200 for e-values).
    early_stop : the same answer for a fraction of the rows (METHODS 3).
    delta : with early_stop, the probability that the answer is another; 0 always agrees.
    center : pilot draws whose mean is the centre of a two-sided statistic; None is 16, the paper has 1.

    Examples
    --------
    >>> irt(99, early_stop=True).delta
    0.01
    """
    return Procedure(
        "irt",
        draws=None if draws is None else whole("draws", draws, 1),
        center=None if center is None else whole("center", center, 1),
        early_stop=bool(early_stop),
        delta=0.0 if delta == 0 else between("delta", delta, "0.01 is the default; or give 0, which always agrees"),
    )


def sequential(h: int = 10, *, draws: int | None = None, center: int | None = None) -> Procedure:
    """Draw until each hypothesis is decided, with p-values that are valid at any time (METHODS 2).

    Parameters
    ----------
    h : exceedances at which a hypothesis is given up; 20 comes closest to many fixed draws.
    draws : the most counterfactuals of one hypothesis; None is what a lone signal needs, to 100,000.
    center : pilot draws whose mean is the centre of a two-sided statistic; None is 16.

    Examples
    --------
    >>> sequential(h=20).name
    'sequential'
    """
    return Procedure(
        "sequential",
        draws=None if draws is None else whole("draws", draws, 1),
        center=None if center is None else whole("center", center, 1),
        h=whole("h", h, 1),
    )


def few_shot(draws: int | None = None, *, scale: Literal["shrunk"] | None = None) -> Procedure:
    """The observed value against a few decoys, for samplers that cost a second a draw (METHODS 4).

    Parameters
    ----------
    draws : decoys per hypothesis; None is 1 / alpha, at least 3.
    scale : "shrunk" where subsets differ much in scale.

    Examples
    --------
    >>> few_shot(5).draws
    5
    """
    one_of("scale", scale, (None, "shrunk"))
    return Procedure("few-shot", draws=None if draws is None else whole("draws", draws, 2), scale=scale)


def osft(*, center: int | None = None) -> Procedure:
    """The paper's one-shot feature test: a single counterfactual each (METHODS 1).

    Parameters
    ----------
    center : pilot draws whose mean is the centre of a two-sided statistic; None is 1, as in the paper.

    Examples
    --------
    >>> osft().draws
    1
    """
    return Procedure("osft", draws=1, center=None if center is None else whole("center", center, 1))


BY_NAME: dict[str, Callable[[], Procedure]] = {
    "irt": irt,
    "sequential": sequential,
    "few-shot": few_shot,
    "osft": osft,
}


def procedure(test: object, draws: object = None) -> Procedure:
    """A test by its name or as it is, with the draws that were asked for beside it."""
    if not isinstance(test, Procedure):
        if test in (irt, sequential, few_shot, osft):
            raise InputError(
                "test is a function of butfor; call it: test=butfor.irt(), sequential(), few_shot(), osft()"
            )
        name = test.replace("_", "-") if isinstance(test, str) else test
        one_of("test", name, get_args(TestName))
        made = BY_NAME[str(name)]()
    else:
        made = test
    if draws is None:
        return made
    if made.name == "osft":
        if whole("draws", draws, 1) != 1:
            raise InputError(
                f"test='osft' takes one draw, got draws={draws!r}; use test='few-shot' or 'sequential' for more"
            )
        return made
    count = whole("draws", draws, 2 if made.name == "few-shot" else 1)
    if isinstance(test, Procedure) and test.draws not in (None, count):
        raise InputError(f"draws={count} but the test has draws={test.draws}; give it once")
    return replace(made, draws=count)
