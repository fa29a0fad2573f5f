"""What a sampler is: one callable shape, one record of facts, and a few Protocols for what some can do more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np

from butfor.types import Array, Batch, Floats, Item, Subset


class Sampler(Protocol):
    """The conditional Q: redraws a subset of every input, given the rest of that input.

    Returns `len(inputs) * draws` whole inputs, input-major, in which only the subset differs.
    """

    def __call__(self, inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator, /) -> Batch: ...


@runtime_checkable
class DrawsColumns(Protocol):
    """A sampler of tables that can return the new columns only: (len(inputs) * draws, columns), input-major."""

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Array: ...


@runtime_checkable
class ListsSupport(Protocol):
    """A sampler that can list what it may draw: the p-value is then exact (METHODS 9).

    `lists(subset)` says whether it can for this subset; `support` gives the values (n, m, columns) of a table, or m
    whole counterfactuals for each of n images or texts, and their probabilities (n, m).
    """

    def lists(self, subset: Subset) -> bool: ...
    def support(self, inputs: Batch, subset: Subset) -> tuple[Any, Floats]: ...


@runtime_checkable
class RepeatsDraws(Protocol):
    """A sampler whose draws of some subsets come again so often that remembering the model's answers pays."""

    def repeats(self, subset: Subset) -> bool: ...


@runtime_checkable
class FitsSubsets(Protocol):
    """Fits something for each subset when first needed: a run has it done before it draws, and shows how far it is."""

    def unfitted(self, subsets: Sequence[Subset]) -> Sequence[Callable[[], object]]: ...  # a call for each fit


@runtime_checkable
class KnowsFit(Protocol):
    """A fitted sampler that knows how far off its mean may be: its variance in units of the residuals' (METHODS 7)."""

    def leverage(self, inputs: Array, subset: Subset) -> Floats: ...  # (n,) at each input
    def leverage_of_mean(self, inputs: Array, subset: Subset) -> float: ...  # of the mean over all of them


@runtime_checkable
class HasNotes(Protocol):
    """A sampler with something to say of a run; `subsets` are those of the table, or one list for each input."""

    def notes(self, inputs: Batch, subsets: Sequence[Any], seed: int) -> list[str]: ...


@runtime_checkable
class RefusesInputs(Protocol):
    """A sampler (or model) that cannot take every input: says why in words, or None where it can."""

    def unfit(self, item: Item) -> str | None: ...


@runtime_checkable
class SeesRun(Protocol):
    """A sampler of images or texts that follows what is tested in a run as a whole: one list of subsets each."""

    def for_run(self, items: Sequence[Item], subsets: Sequence[Sequence[Subset]]) -> Sampler: ...


@runtime_checkable
class AlignsColumns(Protocol):
    """A sampler of tables that follows the order of the data's columns, which may be another than its reference's."""

    def for_columns(self, wanted: tuple[str, ...] | None, width: int) -> Sampler: ...


def no_floor(_: Subset) -> float:
    """The least p-value of a sampler that is not made of a finite number of rows: none."""
    return 0.0


@dataclass(frozen=True)
class SamplerInfo:
    """What a run has to know of a sampler. A user's callable may carry any of these as attributes.

    Parameters
    ----------
    identity : what tells its draws from those of others.
    deterministic : it always draws the same; only the paper's one-shot test may then run, without a promise.
    ignores_dependence : it redraws a subset without regard to the rest of the input.
    takes_missing : missing values (NaN) are values to it.
    changes_subset_only : it is known to leave the rest of the input as it is; a user's own sampler is checked.
    whole : of inputs with several parts it is given all of them.
    floor : the share of draws that are the observed values again, below which no p-value falls much: a number, or a
        function of the subset.
    reference_rows : rows that it was fitted on, where that is known.
    kinds : what the columns of its reference stand for, by name.
    tokenizer : of a language model that has one.
    listed : how many fills it lists for a word; 0 where it draws.
    calibrated : its draws are as wide as rows scatter that its fit has not seen, whatever they look like (METHODS 11).
    fills_whole : it can redraw an image or a text as a whole, with nothing left around it.
    dear : a draw costs so much that few are made where no test is named.
    """

    identity: str = "sampler"
    deterministic: bool = False
    ignores_dependence: bool = False
    takes_missing: bool = False
    changes_subset_only: bool = False
    whole: bool = False
    floor: Callable[[Subset], float] = no_floor  # a number becomes such a function
    reference_rows: int | None = None
    kinds: Mapping[str, Any] | None = None
    tokenizer: Any = None
    listed: int = 0
    calibrated: bool = False
    fills_whole: bool = False
    dear: bool = False

    def __post_init__(self) -> None:
        given: object = self.floor
        if isinstance(given, float | int | np.number):  # the same for every subset
            object.__setattr__(self, "floor", partial(_constant, float(given)))


FACTS: dict[str, tuple[type, ...]] = {  # what an attribute must be to be taken for a fact: names are common words
    "identity": (str,),
    "deterministic": (bool, int, np.bool_),
    "ignores_dependence": (bool, int, np.bool_),
    "takes_missing": (bool, int, np.bool_),
    "changes_subset_only": (bool, int, np.bool_),
    "whole": (bool, int, np.bool_),
    "floor": (Callable, float, int, np.number),  # type: ignore[dict-item]
    "reference_rows": (int, np.integer),
    "kinds": (Mapping,),
    "tokenizer": (object,),
    "listed": (int, np.integer),
    "calibrated": (bool, int, np.bool_),
    "fills_whole": (bool, int, np.bool_),
    "dear": (bool, int, np.bool_),
}


def info_of(sampler: object) -> SamplerInfo:
    """What a sampler is: its `info`, or the facts that it carries as attributes. Nobody else asks a sampler.

    >>> def grey(inputs, subset, draws, rng): ...
    >>> grey.deterministic = True
    >>> info_of(grey).deterministic, info_of(grey).takes_missing
    (True, False)
    """
    ours = type(sampler).__module__.startswith("butfor.")
    told = getattr(sampler, "info", None)
    if isinstance(told, SamplerInfo):
        return told if ours or not told.changes_subset_only else replace(told, changes_subset_only=False)
    there = ((name, getattr(sampler, name, None)) for name in FACTS)
    carried: dict[str, Any] = {name: value for name, value in there if value is not None and _fits(name, value)}
    carried["changes_subset_only"] = ours and carried.get("changes_subset_only", False)  # of others it is checked
    return SamplerInfo(**{"identity": repr(sampler), **carried})


def _fits(name: str, value: object) -> bool:
    return isinstance(value, FACTS[name])


def _constant(value: float, _: Subset) -> float:
    return value


def name_of(function: object) -> str:
    """What a function, or an object that is called as one, is called in a repr."""
    return str(getattr(function, "__name__", type(function).__name__))
