"""The arguments of `explain`, checked once, with their defaults filled in."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from butfor.core.guarantees import DEFAULT_RULE, check_alpha, check_rule
from butfor.core.types import Alternative, Family, InputError, ModelError, Subset, Test


@dataclass(frozen=True)
class Asked:
    """What the user asked for. `draws` None: as many as the test takes by default."""

    test: Test
    alternative: Alternative | None
    rule: str
    family: Family
    link: str | None
    alpha: float
    draws: int | None
    center: int | None
    h: int
    early_stop: bool
    delta: float
    scale: str | None
    picked: Callable[[Any], Any] | None
    seed: int
    batch_rows: int | None

    def draws_for(self, hypotheses: int) -> int:
        """Draws per hypothesis; for the sequential test the most it may take."""
        if self.draws is not None:
            return self.draws
        if self.test == "sequential":  # what a lone signal needs, within reason
            harmonic = sum(1 / i for i in range(1, hypotheses + 1)) if self.rule == "by" else 1.0
            return min(max(1000, math.ceil(self.h * hypotheses * harmonic / self.alpha)), 100_000)
        if self.test == "few-shot":
            return max(3, round(1 / self.alpha))
        return {"osft": 1, "irt": 200 if self.rule == "e-bh" else 1000}[self.test]

    def center_for(self, alternative: str, predicted: bool) -> int:
        """Pilot draws whose mean is the centre of the statistic; 0 where it has none."""
        if alternative != "two-sided" and self.center is not None:
            raise InputError(f"center is for two-sided tests, this one is {alternative!r}; drop it")
        if self.test == "few-shot":
            if self.center is not None:
                raise InputError("test='few-shot' centres on the mean of its own values; drop center")
            return 0
        needed = alternative == "two-sided" or (self.test == "sequential" and predicted)
        default = 1 if self.test == "osft" else 16  # 1 is the paper's
        return (default if self.center is None else self.center) if needed else 0


def checked(
    test: Any = "sequential",
    alternative: Any = None,
    rule: Any = None,
    family: Any = "run",
    link: Any = None,
    alpha: Any = 0.1,
    draws: Any = None,
    center: Any = None,
    h: Any = 10,
    early_stop: Any = False,
    delta: Any = 0.01,
    scale: Any = None,
    picked: Any = None,
    seed: Any = 0,
    batch_rows: Any = None,
) -> Asked:
    """The arguments, or one sentence on the first that cannot be used."""
    one_of("test", test, get_args(Test))
    one_of("alternative", alternative, (None, *get_args(Alternative)))
    one_of("family", family, get_args(Family))
    one_of("link", link, (None, "logit", "log"))
    one_of("scale", scale, (None, "shrunk"))
    alpha = check_alpha(alpha)
    rule = DEFAULT_RULE[test] if rule is None else rule
    check_rule(test, rule)
    if test == "osft" and draws not in (None, 1):
        raise InputError(
            f"test='osft' takes one draw, got draws={draws!r}; use test='few-shot' or 'sequential' for more"
        )
    _check_options(test, rule, early_stop, scale, picked)
    return Asked(
        test=test,
        alternative=alternative,
        rule=rule,
        family=family,
        link=link,
        alpha=alpha,
        draws=None if draws is None else whole("draws", draws, 2 if test == "few-shot" else 1),
        center=None if center is None else whole("center", center, 1),
        h=whole("h", h, 1),
        early_stop=bool(early_stop),
        delta=0.0 if delta == 0 else between("delta", delta, "0.01 is the default, 0 always agrees"),
        scale=scale,
        picked=picked,
        seed=whole("seed", seed, 0),
        batch_rows=None if batch_rows is None else whole("batch_rows", batch_rows, 1),
    )


def _check_options(test: str, rule: str, early_stop: Any, scale: Any, picked: Any) -> None:
    if early_stop and (test != "irt" or rule == "e-bh"):
        raise InputError(f"early_stop is for test='irt' with p-values, not for {test!r} with rule={rule!r}; drop it")
    if early_stop and picked is not None:
        raise InputError("early_stop does not go with picked; use test='sequential' with picked")
    if scale is not None and test != "few-shot":
        raise InputError(f"scale is for test='few-shot', not for {test!r}; drop it")
    if picked is not None and not callable(picked):
        raise InputError(f"picked must be a function of outputs that returns booleans, got {type(picked).__name__}")


def one_of(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    """Refuse a value that is not among those allowed."""
    if not any(value is item or (isinstance(value, str) and value == item) for item in allowed):
        raise InputError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")


def whole(name: str, value: Any, least: int) -> int:
    """A whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return int(value)


def between(name: str, value: Any, hint: str) -> float:
    """A number strictly between 0 and 1."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not 0 < float(value) < 1:
        raise InputError(f"{name} must lie strictly between 0 and 1, got {value!r}; {hint}")
    return float(value)


def model_name(model: Any) -> str:
    """What tells a model from others: where a function is defined, or how an object describes itself."""
    if hasattr(model, "__qualname__"):
        return f"{model.__module__}.{model.__qualname__}"
    return re.sub(r" at 0x[0-9a-f]+", "", " ".join(repr(model).split()))[:500]  # an address is of one process only


def check_aligned(y: Any, data: Any) -> None:
    """Refuse labels whose index is another than that of the data, where both have one."""
    if hasattr(y, "iloc") and hasattr(data, "iloc") and list(y.index) != list(data.index):
        raise InputError("y and the data have different indexes; align them, or give y.to_numpy() if rows match")


def is_ours(sampler: Any) -> bool:
    """Whether a sampler of images or texts, and what it passes on, is butfor's own: those change the subset only."""
    inner = getattr(sampler, "sampler", None) or getattr(sampler, "inpainter", None)
    pastes = hasattr(sampler, "fill")  # whatever its inpainter does outside the region is left out
    return type(sampler).__module__.startswith("butfor.") and (inner is None or pastes or is_ours(inner))


def labels_left(y: Any, given: Sequence[Any], left: Sequence[Any]) -> Any:
    """The labels of the images or texts that are left, by name, where `y` has one for each that was given.

    >>> labels_left(["cat", "dog", "cat"], ["a", "b", "c"], ["a", "c"])
    ['cat', 'cat']
    """
    if y is None or np.ndim(y) != 1 or len(y) != len(given):
        return y  # whoever needs it says what is the matter
    kept = set(left)
    return [label for label, name in zip(y, given, strict=True) if name in kept]


def proposals(what: str, propose: Callable[[Any, Any], Any], name: Any, item: Any) -> list[Subset]:
    """What a proposer of regions or spans gives for one input; a user's function may give anything."""
    try:
        found = list(propose(name, item))
    except (InputError, ModelError):
        raise
    except Exception as error:
        raise ModelError(f"{what} raised {type(error).__name__} on {name!r}: {error}") from error
    other = [thing for thing in found if not isinstance(thing, Subset)]
    if other:
        raise InputError(
            f"{what} gave {other[0]!r} for {name!r}; a function (name, input) must give a list of butfor.Subset(name, "
            "index), of a box (x1, y1, x2, y2) or a span (start, end)"
        )
    return found
