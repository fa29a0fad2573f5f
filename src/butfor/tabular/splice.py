"""Samplers of tables: new values of some columns put into whole rows, whatever the order of the columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import FunctionType
from typing import Any, NamedTuple, Protocol, TypeGuard, runtime_checkable

import numpy as np

from butfor.evaluation.samplers import (
    AlignsColumns,
    DrawsColumns,
    FitsSubsets,
    HasNotes,
    KnowsFit,
    ListsSupport,
    RepeatsDraws,
    Sampler,
    SamplerInfo,
    info_of,
    name_of,
)
from butfor.models import Wrapped, wrap
from butfor.models.wrap import attribute, is_frame
from butfor.tabular.table import ColumnTypes, Table, as_frame, as_table, check_complete, is_lazy, twice
from butfor.types import Array, Batch, Floats, InputError, Ints, Model, ModelError, Subset

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


def bind_sampler(data: object, sampler: object, what: str = "data") -> tuple[Table, Sampler]:
    """The user's table, and a sampler that the core can use on it; reference data gets a sampler that fits it."""
    if is_data(sampler):
        from butfor.tabular.explain import auto

        sampler = auto(sampler)
    table = as_table(data, what, like=info_of(sampler).kinds)
    return table, table_sampler(sampler, table, what)


def is_data(thing: object) -> bool:
    """Reference data given in place of a sampler; of a lazy frame `as_table` says that it holds none yet."""
    arrays = isinstance(thing, np.ndarray | list)
    return arrays or is_lazy(thing) or is_frame(thing) or attribute(thing, "to_pandas") is not None


def table_sampler(sampler: object, table: Table, what: str = "data") -> Sampler:
    """A sampler that the core can use on this table: its columns in the table's order, or a user's one, checked."""
    if not callable(sampler):
        raise InputError(f"sampler must be a sampler, a callable or reference data, got {type(sampler).__name__}")
    if not draws_columns(sampler):
        return Checked(sampler, table)
    if isinstance(sampler, AlignsColumns):
        check_complete(table, what, missing=info_of(sampler).takes_missing)
    return align_columns(sampler, table)  # type: ignore[return-value]  # it was called a callable above


@runtime_checkable
class CanList(Protocol):
    """A user's sampler with a list of what it may draw."""

    def support(self, inputs: Batch, subset: Subset) -> tuple[Any, Floats]: ...


@dataclass(frozen=True, eq=False)
class Checked:
    """A user's sampler of whole rows: what it returns is checked on every block, then reduced to the new values.

    What it can do more (list its support, take notes), it can do here.
    """

    sampler: Sampler
    table: Table

    def __repr__(self) -> str:
        return shown_as(self.sampler)

    @property
    def info(self) -> SamplerInfo:
        """What the user's sampler says of itself; missing values are values where the data has some."""
        inner = info_of(self.sampler)
        return replace(inner, takes_missing=inner.takes_missing or bool(np.isnan(self.table.values).any()))

    def __call__(self, inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator) -> Batch:
        return self.sampler(inputs, subset, draws, rng)

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Array:
        """New values of the subset's columns, (len(inputs) * draws, columns), input-major."""
        try:
            rows = self._matrix(self.sampler(self.table.show(inputs.copy()), subset, draws, rng), subset)
        except InputError:
            raise
        except Exception as error:
            raise ModelError(f"the sampler raised {type(error).__name__} on subset {subset.name!r}: {error}") from error
        expected = (len(inputs) * draws, inputs.shape[1])
        if rows.shape != expected:
            raise ModelError(
                f"the sampler returned shape {rows.shape} for subset {subset.name!r}, expected {expected}: whole rows, "
                f"{len(inputs)} inputs x {draws} draws, input-major"
            )
        same = rows.reshape(len(inputs), draws, -1) == inputs[:, None, :]
        same[..., subset.index] = True
        if not same.all():
            same |= np.isnan(inputs)[:, None, :] & np.isnan(rows.reshape(same.shape).astype(float))
        if not same.all():
            column = self.table.columns[int(np.argwhere(~same)[0, 2])]
            raise ModelError(
                f"the sampler changed column {column!r}, which is not in subset {subset.name!r}; it may redraw the "
                "subset's columns only, and must return the draws of the first input first"
            )
        return rows[:, subset.index]

    def _matrix(self, rows: object, subset: Subset) -> Array:
        """What the user's sampler returned, as numbers; a frame is read as the data was."""
        if not is_frame(rows) or self.table.labels is None:
            return np.asarray(rows)
        if list(map(str, rows.columns)) != list(self.table.columns):
            raise ModelError(
                f"the sampler returned columns {list(rows.columns)[:4]} for subset {subset.name!r}; it must return "
                f"those it was given, {list(self.table.columns)[:4]}"
            )
        read = as_table(rows.reset_index(drop=True), "sampler's draws", empty=True, like=self.table.named_kinds)
        for name, new, old in zip(self.table.columns, read.kinds, self.table.kinds, strict=True):
            if old.levels is not None and len(new.levels) > len(old.levels):
                raise ModelError(
                    f"the sampler drew {new.levels[-1]!r} in column {name!r}, which the data does not have; give the "
                    "column as a pandas category with all its levels"
                )
        return read.values

    def lists(self, subset: Subset) -> bool:
        """Whether it lists a subset; one with a support that does not say which subsets it lists, lists all."""
        if isinstance(self.sampler, ListsSupport):
            return bool(self.sampler.lists(subset))
        return isinstance(self.sampler, CanList) and callable(self.sampler.support)

    def repeats(self, subset: Subset) -> bool:
        """Whether its draws come again."""
        says = isinstance(self.sampler, RepeatsDraws) and callable(self.sampler.repeats)
        return bool(self.sampler.repeats(subset)) if says else self.lists(subset)  # type: ignore[attr-defined]

    def support(self, inputs: Array, subset: Subset) -> tuple[Any, Floats]:
        """What it lists."""
        assert isinstance(self.sampler, CanList)
        return self.sampler.support(self.table.show(inputs.copy()), subset)

    def notes(self, inputs: Batch, subsets: Sequence[Any], seed: int) -> list[str]:
        """What it says of a run."""
        says = isinstance(self.sampler, HasNotes) and callable(self.sampler.notes)
        return self.sampler.notes(inputs, subsets, seed) if says else []  # type: ignore[attr-defined]


def bind_model(model: object, data: object, what: str = "data") -> Wrapped:
    """The model, given its columns in its own order; refused before anything is fitted if it cannot take the data's."""
    wrapped = wrap(model)
    if wrapped.columns is None:
        return wrapped
    frame, wanted = as_frame(data, what), list(wrapped.columns)
    if isinstance(frame, np.ndarray) and frame.ndim == 2 and frame.shape[1] != len(wanted):
        raise InputError(
            f"the model was fitted on {len(wanted)} columns, the {what} has {frame.shape[1]}; give it those it knows"
        )
    if not is_frame(frame) or not all(isinstance(label, str) for label in frame.columns):  # taken by their place
        return wrapped
    own = list(frame.columns)
    if twice(own):
        return wrapped  # refused with the table
    if sorted(own) == sorted(wanted):
        if own == wanted:
            return wrapped
        predict = None if wrapped.predict is None else partial(in_order, wrapped.predict, wanted)
        return replace(wrapped, call=partial(in_order, wrapped.call, wanted), predict=predict)
    try:
        wrapped.call(frame.iloc[:1].copy())  # some take by name what they need, and do without the rest
    except Exception as error:
        differing = {"only in the model": set(wanted) - set(own), f"only in the {what}": set(own) - set(wanted)}
        raise InputError(
            f"the model was fitted on other columns than the {what} has ({in_words(differing)}); give it those it knows"
        ) from error
    return wrapped


def in_order(call: Model, columns: Sequence[str], batch: Batch) -> Any:
    """What a model says of a frame whose columns stand in another order than its own."""
    return call(batch[list(columns)])


KEPT = 2**21  # numbers that are remembered at most


class RowCache:
    """One result (an array) per row, remembered by the row's bits; it does not travel with a pickle."""

    def __init__(self) -> None:
        self.known: dict[bytes, Array] = {}
        self.held = 0  # numbers in it

    def __reduce__(self) -> tuple[Any, ...]:
        return RowCache, ()

    def __call__(self, rows: Array, compute: Callable[[Array], Array]) -> Array:
        """`compute(rows)`, where the result of a row must not depend on the rows beside it."""
        bits, size = rows.tobytes(), rows[:1].nbytes
        keys = [bits[start : start + size] for start in range(0, len(bits), size)] if size else [b""] * len(rows)
        found = list(map(self.known.get, keys))
        new = [i for i, result in enumerate(found) if result is None]
        if len(new) == len(rows):
            results = compute(rows)
        else:
            for i, result in zip(new, compute(rows[new]) if new else (), strict=True):
                found[i] = result
            every = [result for result in found if result is not None]
            results = np.concatenate(every).reshape(len(rows), *every[0].shape)
        if new:
            self._keep([keys[i] for i in new], results[new])
        return results

    def _keep(self, keys: list[bytes], results: Array) -> None:
        if results.size > KEPT:
            return
        if self.held + results.size > KEPT:
            self.known.clear()
            self.held = 0
        self.known.update(zip(keys, results, strict=True))
        self.held += results.size  # equal rows of one call count twice, which only clears it sooner


class Conditional(NamedTuple):
    """What a normal says of some columns given all others, whatever the row is."""

    weights: Array  # (d, columns) of the other columns in the conditional mean
    spread: Array  # (columns, columns) what standard normals are multiplied by


class ConditionalCache:
    """One conditional per subset, remembered by its columns; it does not travel with a pickle."""

    def __init__(self) -> None:
        self.known: dict[bytes, Conditional] = {}
        self.held = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return ConditionalCache, ()

    def __call__(self, columns: Array, compute: Callable[[], Conditional]) -> Conditional:
        """`compute()`, once for these columns."""
        key = columns.tobytes()
        found = self.known.get(key)
        if found is None:
            found = compute()
            size = found.weights.size + found.spread.size
            if self.held + size <= KEPT:  # a subset comes again in every round: those that fit in stay
                self.known[key] = found
                self.held += size
        return found
