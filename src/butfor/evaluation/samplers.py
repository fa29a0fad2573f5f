"""The sampler: one callable shape, a record of tags, and optional methods.

A sampler is any callable (inputs, subset, draws, rng) -> batch. What a run has to know of it are its tags
(`SamplerInfo`); what it can do beyond drawing are methods that nobody has to write. `method` looks for one of them:

- `values(inputs, subset, draws, rng)`: the new columns of a table only, (len(inputs) * draws, columns), input-major.
- `lists(subset)` and `support(inputs, subset)`: whether all it may draw can be listed, and the list: values
  (n, m, columns) of a table, or m counterfactuals of each image or text, with probabilities (n, m). The p-value is then
  exact (METHODS 9).
- `repeats(subset)`: whether draws come again so often that remembering the model's answers pays.
- `cdf(subset)`: the distribution of one column over the steps of a tree ensemble, None where it is not known;
  `n_donors(subset)` and `donors(inputs, subset)`: how many values of a group may be drawn, None: too many,
  and those values, (n, 1 + m, columns), with their probabilities, the observed values first (METHODS 13).
- `leverage(inputs, subset)`, (n,), and `leverage_of_mean(inputs, subset)`: the variance of a fitted mean at each input,
  and of the mean over all, in units of the residuals' variance (METHODS 7).
- `unfitted(subsets)`: a call for each fit that is still to be made, so that a run makes them first and shows progress.
- `notes(inputs, subsets, seed)`: what a reader of the run should know of the sampler.
- `unfit(item)`: why an input cannot be taken, or None. `for_run(items, subsets)`: the sampler for all that a run tests.
- `for_columns(names, width)`: the same sampler of tables for data whose columns stand in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from butfor.types import Batch, Floats, Item, Subset


class Sampler(Protocol):
    """The conditional distribution Q: redraws a subset of every input, given the rest of that input.

    Returns `len(inputs) * draws` inputs, input-major, in which only the subset differs.
    """

    def __call__(self, inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator, /) -> Batch: ...


def method(sampler: object, name: str) -> Callable[..., Any] | None:
    """Return an optional method of a sampler; None: it has none, or something else of that name.

    >>> method([1, 2], "copy")(), method([1, 2], "support")
    ([1, 2], None)
    """
    attribute = getattr(sampler, name, None)
    return attribute if callable(attribute) else None


@runtime_checkable
class ListsSupport(Protocol):
    """A sampler that can list what it may draw."""

    def lists(self, subset: Subset) -> bool: ...
    def support(self, inputs: Batch, subset: Subset) -> tuple[Any, Floats]: ...


@runtime_checkable
class HasNotes(Protocol):
    """A sampler with something to say of a run; `subsets` are those of the table, or one list for each input."""

    def notes(self, inputs: Batch, subsets: Sequence[Any], seed: int) -> list[Any]: ...


@runtime_checkable
class RefusesInputs(Protocol):
    """A sampler (or model) that cannot take every input: says why, or None where it can."""

    def unfit(self, item: Item) -> str | None: ...


@runtime_checkable
class SeesRun(Protocol):
    """A sampler of images or texts that follows all that is tested in a run: one list of subsets for each item."""

    def for_run(self, items: Sequence[Item], subsets: Sequence[Sequence[Subset]]) -> Sampler: ...


@dataclass(frozen=True)
class SamplerInfo:
    """The tags of a sampler: what a run has to know of it. A user's callable may carry any of them as attributes.

    Parameters
    ----------
    identity : str
        Tells its draws from those of others.
    deterministic : bool
        It always draws the same; only the paper's one-shot test may then run, without a promise.
    ignores_dependence : bool
        It redraws a subset without regard to the rest of the input.
    takes_missing : bool
        Missing values (NaN) are values to it.
    changes_subset_only : bool
        It is known to leave the rest of the input as it is; a user's sampler is checked.
    whole : bool
        Of inputs with several parts it is given all of them.
    floor : float or callable
        The share of draws that are the observed values again, below which no p-value falls much: a number, or a
        function of the subset.
    reference_rows : int, optional
        Rows that it was fitted on, where that is known.
    kinds : mapping, optional
        What the columns of its reference stand for, by name.
    tokenizer : object, optional
        Of a language model that has one.
    listed : int
        How many fills it lists for a word; 0 where it draws.
    calibrated : bool
        Its draws scatter as rows do that its fit has not seen, whatever their distribution (METHODS 11).
    fills_whole : bool
        It can redraw an image or a text with nothing left around it.
    keeps_input : bool
        It returns the input as it is where it has no draw.
    dear : bool
        A draw costs much (a transformer, an inpainting network): the default test then makes few of them.
    assumes : str
        What it assumes of the data, for the guarantee: "the columns are jointly normal", or the name of one of ours.

    Examples
    --------
    >>> SamplerInfo(floor=0.01).floor(Subset("age", [0]))
    0.01
    """

    identity: str = "sampler"
    deterministic: bool = False
    ignores_dependence: bool = False
    takes_missing: bool = False
    changes_subset_only: bool = False
    whole: bool = False
    floor: Callable[[Subset], float] = 0.0  # type: ignore[assignment]  # a number becomes a function
    reference_rows: int | None = None
    kinds: Mapping[str, Any] | None = None
    tokenizer: Any = None
    listed: int = 0
    calibrated: bool = False
    fills_whole: bool = False
    keeps_input: bool = False
    dear: bool = False
    assumes: str = ""

    def __post_init__(self) -> None:
        floor: Any = self.floor
        if not callable(floor):  # the same for every subset
            object.__setattr__(self, "floor", Constant(float(floor)))


@dataclass(frozen=True)
class Constant:
    """The same number for every subset."""

    value: float

    def __call__(self, _: Subset, /) -> float:
        return self.value


TAGS: dict[str, Any] = {field.name: (bool, int, np.bool_) for field in fields(SamplerInfo)} | {
    "identity": str,
    "assumes": str,
    "floor": (Callable, float, int, np.number),
    "reference_rows": (int, np.integer),
    "kinds": Mapping,
    "tokenizer": object,
    "listed": (int, np.integer),
}  # what an attribute must be to be taken for a tag: names are common words


def info_of(sampler: object) -> SamplerInfo:
    """Return the tags of a sampler: its `info`, or those that it carries as attributes.

    >>> def grey(inputs, subset, draws, rng): ...
    >>> grey.deterministic = True
    >>> info_of(grey).deterministic, info_of(grey).takes_missing
    (True, False)
    """
    ours = type(sampler).__module__.startswith("butfor.")
    tags = getattr(sampler, "info", None)
    if isinstance(tags, SamplerInfo):
        return tags if ours or not tags.changes_subset_only else replace(tags, changes_subset_only=False)
    carried: dict[str, Any] = {name: getattr(sampler, name, None) for name in TAGS}
    carried = {name: value for name, value in carried.items() if value is not None and isinstance(value, TAGS[name])}
    carried["changes_subset_only"] = ours and carried.get("changes_subset_only", False)  # of others it is checked
    return SamplerInfo(**{"identity": repr(sampler), **carried})


def name_of(function: object) -> str:
    """Return the name of a function, or of the class of an object that is called as one."""
    return str(getattr(function, "__name__", type(function).__name__))
