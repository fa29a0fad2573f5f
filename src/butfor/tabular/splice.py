"""Samplers of tables: new values of some columns put into whole rows, whatever the order of the columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from types import FunctionType
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np

from butfor.core.draw.samplers import (
    AlignsColumns,
    DrawsColumns,
    FitsSubsets,
    HasNotes,
    KnowsFit,
    ListsSupport,
    RepeatsDraws,
    SamplerInfo,
    info_of,
    name_of,
)
from butfor.core.types import Array, Batch, Floats, InputError, Ints, Subset
from butfor.tabular.table import ColumnTypes, Table, as_table

Values = Callable[[Array, Subset, int, np.random.Generator], Array]


def draws_columns(sampler: object) -> TypeGuard[DrawsColumns]:
    """Whether it can return the new columns only; a user's own may hold something else that is called `values`."""
    return isinstance(sampler, DrawsColumns) and callable(sampler.values)


def shown_as(sampler: object) -> str:
    """What a sampler is called in a repr: a function by its name, which has no address in it."""
    return sampler.__name__ if isinstance(sampler, FunctionType) else repr(sampler)


def splice(inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator, sampler: DrawsColumns) -> Batch:
    """Whole counterfactual rows, of the type of `inputs`, in which only the subset's columns are new: `sampler.values`.

    The columns of the inputs may stand in another order than those of the sampler's reference.
    """
    table = as_table(inputs, "data", empty=True, like=info_of(sampler).kinds)
    rows = np.repeat(table.values, draws, axis=0)
    rows[:, subset.index] = align_columns(sampler, table).values(table.values, subset, draws, rng)
    return table.show(rows)


@runtime_checkable
class SeesRows(Protocol):
    """A sampler that has to see rows of a matrix as the user would write them."""

    def shown_by(self, show: Callable[[Array], Batch]) -> DrawsColumns: ...


def align_columns(sampler: DrawsColumns, table: Table) -> DrawsColumns:
    """The sampler for columns in the order of this table, and for its types if it looks at whole rows."""
    aligned: Any = sampler
    if isinstance(aligned, AlignsColumns):
        aligned = aligned.for_columns(table.columns if table.labels is not None else None, len(table.columns))
    if isinstance(aligned, SeesRows):
        aligned = aligned.shown_by(table.show)
    return aligned  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class TableSampler:
    """A law fitted on a reference: given columns in the order of the reference, whatever their order in the data.

    What the law can do (list its support, take notes), the sampler can do.
    """

    law: DrawsColumns
    name: str
    columns: tuple[str, ...]
    kinds: ColumnTypes | None  # None: an array, whose columns have no names of their own
    rows: int
    options: str = ""  # shown behind the name
    why: str | None = None  # this sampler and no other
    order: tuple[str, ...] | None = None  # of the data's columns; None: that of the reference
    reference: Table | None = None  # what it was fitted on
    again: Callable[[Table], TableSampler] | None = None  # fits it to other rows of the same kind

    def __repr__(self) -> str:
        return f"{self.name}({self.rows} reference rows, {len(self.columns)} columns{self.options})"

    @property
    def info(self) -> SamplerInfo:
        """The facts of the law, and those that the reference tells."""
        own = info_of(self.law)
        floor = own.floor if self.order is None else lambda subset: own.floor(self.placed(subset))
        return replace(own, identity=repr(self), kinds=self.kinds, reference_rows=self.rows, floor=floor)

    def __call__(self, inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator) -> Batch:
        return splice(inputs, subset, draws, rng, self)

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Array:
        """New values of the subset's columns, (len(inputs) * draws, columns), input-major."""
        return self.law.values(self.given(inputs), self.placed(subset), draws, rng)

    def for_columns(self, wanted: tuple[str, ...] | None, width: int) -> TableSampler:
        """The same sampler for data whose columns stand in another order."""
        check_columns(wanted, width, self.columns, self.kinds is not None)
        return replace(self, order=None if self.kinds is None or wanted == self.columns else wanted)

    @cached_property
    def _places(self) -> tuple[Ints, Ints]:
        """Where the columns of the reference stand in the data, and those of the data in the reference."""
        there, here = ({name: i for i, name in enumerate(names)} for names in (self.order or (), self.columns))
        return np.array([there[name] for name in here]), np.array([here[name] for name in there])

    def given(self, inputs: Array) -> Array:
        """Rows with their columns in the order of the reference."""
        return inputs if self.order is None else inputs[:, self._places[0]]

    def in_data_order(self, rows: Array) -> Array:
        """Rows of the reference with their columns in the order of the data."""
        return rows if self.order is None else rows[:, self._places[1]]

    def placed(self, subset: Subset) -> Subset:
        """The subset's columns in the reference."""
        return subset if self.order is None else Subset(subset.name, self._places[1][subset.index])

    def leverages(self, inputs: Array, subset: Subset) -> tuple[Floats, float] | None:
        """How far off the fitted mean may be at each input (n,) and at their mean; None: the law does not know."""
        if not isinstance(self.law, KnowsFit):
            return None
        given, placed = self.given(inputs), self.placed(subset)
        return self.law.leverage(given, placed), self.law.leverage_of_mean(given, placed)

    def unfitted(self, subsets: Sequence[Subset]) -> Sequence[Callable[[], object]]:
        """Fits that are still to be made for these subsets."""
        return self.law.unfitted([self.placed(one) for one in subsets]) if isinstance(self.law, FitsSubsets) else []

    def lists(self, subset: Subset) -> bool:
        """Whether it can list the subset."""
        return self._lister is not None and self._lister.lists(self.placed(subset))

    @cached_property
    def _lister(self) -> ListsSupport | None:
        """The law, if it lists anything; looked at once: whether a thing follows a protocol takes long to tell."""
        return self.law if isinstance(self.law, ListsSupport) else None

    def support(self, inputs: Array, subset: Subset) -> tuple[Array, Floats]:
        """All values (n, m, columns) and their probabilities (n, m)."""
        assert isinstance(self.law, ListsSupport)
        return self.law.support(self.given(inputs), self.placed(subset))

    def repeats(self, subset: Subset) -> bool:
        """Whether draws come again so often that remembering the model's answers pays."""
        return isinstance(self.law, RepeatsDraws) and self.law.repeats(self.placed(subset))

    def notes(self, inputs: Batch, subsets: Sequence[Any], seed: int) -> list[str]:
        """Why this sampler, and what the law says of the inputs, for the summary of a run."""
        why = [] if self.why is None else [self.why]
        if not isinstance(self.law, HasNotes):
            return why
        values = as_table(inputs, "data", like=self.kinds).values
        return why + self.law.notes(self.given(values), [self.placed(subset) for subset in subsets], seed)


def fitted(
    law: DrawsColumns,
    name: str,
    table: Table,
    options: str = "",
    again: Callable[[Table], TableSampler] | None = None,
) -> TableSampler:
    """The sampler of a law that was fitted on this reference; `again` fits one to other rows of the same kind."""
    rows = len(table.values)
    return TableSampler(law, name, table.columns, table.named_kinds, rows, options, reference=table, again=again)


def check_columns(wanted: tuple[str, ...] | None, width: int, columns: tuple[str, ...], named: bool) -> None:
    """Refuse data with other columns than the reference, in one sentence on how they differ."""
    if wanted is not None and named and set(wanted) != set(columns):
        differing = {"only in the data": set(wanted) - set(columns), "only there": set(columns) - set(wanted)}
        raise InputError(
            f"the sampler's reference has other columns than the data ({in_words(differing)}); give both the same "
            "columns"
        )
    if width != len(columns):
        raise InputError(
            f"the data has {width} columns but the sampler's reference has {len(columns)}; both must have the same"
        )


def in_words(differing: Mapping[str, Set[str]]) -> str:
    """A few names, and where they are."""
    return "; ".join(f"{', '.join(sorted(names)[:3])} {where}" for where, names in differing.items() if names)


@dataclass(frozen=True, eq=False)
class FromValues:
    """A sampler made of a function that returns only the new values of the subset's columns."""

    function: Values

    def __repr__(self) -> str:
        return f"from_values({name_of(self.function)})"

    @property
    def info(self) -> SamplerInfo:
        """The facts that the function carries."""
        inner = info_of(self.function)
        return replace(inner, identity=f"from_values({inner.identity})")

    def __call__(self, inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator) -> Batch:
        return splice(inputs, subset, draws, rng, self)

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Array:
        """New values of the subset's columns, (len(inputs) * draws, columns), input-major."""
        return self.function(inputs, subset, draws, rng)


def from_values(values: Values, reference: object = None) -> FromValues | TableSampler:
    """A sampler from a function that returns the new values of the subset's columns only.

    Faster than returning whole rows, and it cannot touch the rest of a row by mistake. Facts that the function carries
    as attributes (`ignores_dependence = True`, see `butfor.SamplerInfo`) are those of the sampler.

    Parameters
    ----------
    values : `(inputs, subset, draws, rng)` -> an array (len(inputs) * draws, columns of the subset), input-major.
    reference : what it was fitted on, if anything: the function is then given columns in the order of the reference,
        whatever their order in the data, and categories by the same codes.

    Examples
    --------
    >>> noise = from_values(lambda inputs, subset, draws, rng: rng.normal(size=(len(inputs) * draws, 1)))
    >>> noise(np.zeros((1, 2)), Subset("x1", np.array([1])), 3, np.random.default_rng(0)).shape
    (3, 2)
    """
    made = FromValues(values)
    return made if reference is None else fitted(made, name_of(values), as_table(reference, "reference"))
