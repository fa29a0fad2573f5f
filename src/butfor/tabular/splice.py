"""Samplers of tables: new values of columns, put into rows of the user's type, whatever the order of columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import FunctionType
from typing import Any, Protocol

import numpy as np

from butfor.evaluation.samplers import Sampler, SamplerInfo, info_of, method, name_of
from butfor.models import Wrapped, wrap
from butfor.models.wrap import attribute, is_frame, writes_underscores
from butfor.results.words import Note, as_note
from butfor.tabular.table import ColumnTypes, Table, as_frame, as_table, check_complete, clustered, is_lazy, twice
from butfor.types import Array, Batch, Floats, InputError, Ints, Model, ModelError, Subset

Values = Callable[[Array, Subset, int, np.random.Generator], Array]


class Conditional(Protocol):
    """Draws any columns given the others; what else it can do is in `evaluation.samplers`, its tags are attributes."""

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Array: ...


def splice(inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator, sampler: Conditional) -> Batch:
    """Return counterfactual rows, of the type of `inputs`, in which only the subset's columns are new."""
    table = as_table(inputs, "data", empty=True, like=info_of(sampler).kinds)
    rows = np.repeat(table.values, draws, axis=0)
    rows[:, subset.index] = align_columns(sampler, table).values(table.values, subset, draws, rng)
    return table.show(rows)


def align_columns(sampler: Conditional, table: Table) -> Conditional:
    """Return the sampler for columns in the order of this table, and for its types if it looks at rows as shown."""
    if (for_columns := method(sampler, "for_columns")) is not None:
        sampler = for_columns(table.columns if table.labels is not None else None, len(table.columns))
    shown_by = method(sampler, "shown_by")
    return sampler if shown_by is None else shown_by(table.show)


@dataclass(frozen=True, eq=False)
class TableSampler:
    """A conditional distribution fitted on a reference, for data whose columns may stand in another order.

    What the conditional can do beyond drawing, the sampler can do.
    """

    conditional: Conditional
    name: str
    reference: Table  # what it was fitted on
    options: str = ""  # shown behind the name
    why: Note | None = None  # this sampler and no other
    order: tuple[str, ...] | None = None  # of the data's columns; None: that of the reference
    refit: Callable[[Table], TableSampler] | None = None  # to other rows of the same kind

    def __repr__(self) -> str:
        return f"{self.name}({self.rows} reference rows, {len(self.columns)} columns{self.options})"

    @property
    def info(self) -> SamplerInfo:
        tags = info_of(self.conditional)
        floor = tags.floor if self.order is None else lambda subset: tags.floor(self.in_reference(subset))
        assumes = tags.assumes if isinstance(self.conditional, FromValues) else self.name
        known = replace(tags, identity=repr(self), kinds=self.kinds, reference_rows=self.rows)
        return replace(known, floor=floor, assumes=assumes)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.reference.columns

    @cached_property
    def kinds(self) -> ColumnTypes | None:
        return self.reference.named_kinds

    @property
    def rows(self) -> int:
        return len(self.reference.values)

    @property
    def clusters(self) -> Ints | None:
        """The clusters of the reference's rows (m,); None: all are independent."""
        return self.reference.clusters

    @cached_property
    def copies(self) -> float:
        """How many rows of the reference say what one would.

        Copies of a row (oversampling, a bootstrap) tell nothing new, and rows of one cluster little: Kish's effective
        size is (sum c)^2 / sum c^2 for counts c. Rows whose columns all have few values may be equal by chance.
        """
        rows, clusters = self.reference.values, self.clusters
        counts = np.unique(rows if clusters is None else clusters, axis=0, return_counts=True)[1]
        by_chance = len(counts) < 10 or not any(2 * len(np.unique(column)) >= len(counts) for column in rows.T)
        return 1.0 if by_chance and clusters is None else float((counts**2).sum() / len(rows))

    def grouped(self, groups: object) -> TableSampler:
        """Return the sampler fitted anew, to the same reference with a label for each row: equal ones are a cluster."""
        if self.refit is None:
            raise InputError(f"reference_groups is for the sampler residual, the default; {self.name} does not know it")
        return replace(self.refit(clustered(self.reference, groups)), why=self.why)

    def __call__(self, inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator) -> Batch:
        return splice(inputs, subset, draws, rng, self)

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Array:
        return self.conditional.values(self.in_reference_order(inputs), self.in_reference(subset), draws, rng)

    def for_columns(self, wanted: tuple[str, ...] | None, width: int) -> TableSampler:
        """Return the same sampler for data whose columns stand in another order; refuse data with other columns."""
        if wanted is not None and self.kinds is not None and set(wanted) != set(self.columns):
            here, there = set(wanted), set(self.columns)
            raise InputError(
                "the sampler's reference has other columns than the data "
                f"({_in_words({'only in the data': here - there, 'only there': there - here})}); give both the same "
                "columns"
            )
        if width != len(self.columns):
            raise InputError(
                f"the data has {width} columns but the sampler's reference has {len(self.columns)}; both must have the "
                "same"
            )
        return replace(self, order=None if self.kinds is None or wanted == self.columns else wanted)

    @cached_property
    def _positions(self) -> tuple[Ints, Ints]:
        """Of the reference's columns in the data, and of the data's in the reference."""
        data, reference = ({name: i for i, name in enumerate(names)} for names in (self.order or (), self.columns))
        return np.array([data[name] for name in reference]), np.array([reference[name] for name in data])

    def in_reference_order(self, inputs: Array) -> Array:
        return inputs if self.order is None else inputs[:, self._positions[0]]

    def in_data_order(self, rows: Array) -> Array:
        return rows if self.order is None else rows[:, self._positions[1]]

    @property
    def reference_values(self) -> Array:
        """The rows of the reference (m, d), columns in the order of the data."""
        return self.in_data_order(self.reference.values)

    def in_reference(self, subset: Subset) -> Subset:
        return subset if self.order is None else Subset(subset.name, self._positions[1][subset.index])

    def _delegate(self, name: str, subset: Subset, inputs: Array | None = None) -> Any:
        """Return what a method of the conditional gives; None: it has none."""
        delegate, subset = method(self.conditional, name), self.in_reference(subset)
        if delegate is None:
            return None
        return delegate(subset) if inputs is None else delegate(self.in_reference_order(inputs), subset)

    def leverages(self, inputs: Array, subset: Subset) -> tuple[Floats, float] | None:
        """Return the leverage of the fitted mean at each input (n,) and of their mean; None: it is not known."""
        each = self._delegate("leverage", subset, inputs)
        return None if each is None else (each, self._delegate("leverage_of_mean", subset, inputs))

    def unfitted(self, subsets: Sequence[Subset]) -> Sequence[Callable[[], object]]:
        unfitted = method(self.conditional, "unfitted")
        return [] if unfitted is None else unfitted([self.in_reference(subset) for subset in subsets])

    def repeats(self, subset: Subset) -> bool:
        return bool(self._delegate("repeats", subset))

    def lists(self, subset: Subset) -> bool:
        return bool(self._delegate("lists", subset))

    def support(self, inputs: Array, subset: Subset) -> tuple[Array, Floats]:
        return self._delegate("support", subset, inputs)  # type: ignore[no-any-return]

    def cdf(self, subset: Subset) -> Callable[..., Any] | None:
        distribution = self._delegate("cdf", subset) if len(subset.index) == 1 else None
        if distribution is None or self.order is None:
            return distribution
        return lambda inputs, cuts, starts: distribution(self.in_reference_order(inputs), cuts, starts)

    def n_donors(self, subset: Subset) -> int | None:
        return self._delegate("n_donors", subset)  # type: ignore[no-any-return]

    def donors(self, inputs: Array, subset: Subset) -> tuple[Array, Floats]:
        return self._delegate("donors", subset, inputs)  # type: ignore[no-any-return]

    def held_out_ranks(self, subset: Subset) -> tuple[Ints, Floats] | None:
        """Return reference rows, and ranks of the subset's columns among draws of fits without them; None: unknown."""
        return self._delegate("held_out_ranks", subset)  # type: ignore[no-any-return]

    def notes(self, inputs: Batch, subsets: Sequence[Any], seed: int) -> list[Note]:
        """Return why this sampler was taken, and what the conditional says of the inputs."""
        why, notes = [] if self.why is None else [self.why], method(self.conditional, "notes")
        if notes is None:
            return why
        values = self.in_reference_order(as_table(inputs, "data", like=self.kinds).values)
        return [*why, *notes(values, [self.in_reference(subset) for subset in subsets], seed)]


@dataclass(frozen=True, eq=False)
class FromValues:
    """A sampler made of a function that returns only the new values of the subset's columns."""

    function: Values

    def __repr__(self) -> str:
        return f"from_values({name_of(self.function)})"

    @property
    def info(self) -> SamplerInfo:
        tags = info_of(self.function)
        return replace(tags, identity=f"from_values({tags.identity})")

    def __call__(self, inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator) -> Batch:
        return splice(inputs, subset, draws, rng, self)

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Array:
        return self.function(inputs, subset, draws, rng)


def from_values(values: Values, reference: object = None) -> FromValues | TableSampler:
    """Make a sampler from a function that returns the new values of the subset's columns only.

    Faster than returning rows, and it cannot touch the rest of a row by mistake. Tags that the function carries as
    attributes (`ignores_dependence = True`, see `butfor.SamplerInfo`) are those of the sampler.

    Parameters
    ----------
    values : callable
        `(inputs, subset, draws, rng)` -> an array (len(inputs) * draws, columns of the subset), input-major.
    reference : array-like or DataFrame, optional
        What it was fitted on, if anything: the function is then given columns in the order of the reference, whatever
        their order in the data, and categories by the same codes.

    Returns
    -------
    FromValues or TableSampler
        Draws any subset of the columns; a `TableSampler` where there is a reference.

    Examples
    --------
    >>> noise = from_values(lambda inputs, subset, draws, rng: rng.normal(size=(len(inputs) * draws, 1)))
    >>> noise(np.zeros((1, 2)), Subset("x1", np.array([1])), 3, np.random.default_rng(0)).shape
    (3, 2)
    """
    made = FromValues(values)
    return made if reference is None else TableSampler(made, name_of(values), as_table(reference, "reference"))


def bind_sampler(
    data: object, sampler: object, what: str = "data", reference_groups: object = None
) -> tuple[Table, Sampler]:
    """Return the user's table, and a sampler for it; reference data gets a sampler that is fitted to it."""
    if is_data(sampler):
        from butfor.tabular.explain import auto

        sampler = auto(sampler, groups=reference_groups)
    elif reference_groups is not None:
        if not isinstance(sampler, TableSampler):
            raise InputError("reference_groups goes with reference data, and a sampler was given; drop it")
        sampler = sampler.grouped(reference_groups)
    table = as_table(data, what, like=info_of(sampler).kinds)
    return table, table_sampler(sampler, table, what)


def is_data(thing: object) -> bool:
    """Return whether reference data was given for a sampler; `as_table` refuses a lazy frame."""
    arrays = isinstance(thing, np.ndarray | list)
    return arrays or is_lazy(thing) or is_frame(thing) or attribute(thing, "to_pandas") is not None


def table_sampler(sampler: object, table: Table, what: str = "data") -> Sampler:
    """Return a sampler for this table: its columns in the table's order, or a user's sampler of rows, checked."""
    if not callable(sampler):
        raise InputError(f"sampler must be a sampler, a callable or reference data, got {type(sampler).__name__}")
    if method(sampler, "values") is None:
        return Checked(sampler, table)
    if method(sampler, "for_columns") is not None:
        check_complete(table, what, missing=info_of(sampler).takes_missing)
    return align_columns(sampler, table)  # type: ignore


def shown_as(sampler: object) -> str:
    """Return the name of a sampler in a repr: of a function its name, which has no address in it."""
    return sampler.__name__ if isinstance(sampler, FunctionType) else repr(sampler)


@dataclass(frozen=True, eq=False)
class Checked:
    """A user's sampler of rows, with all that it can do; what it draws is checked, then reduced to the new values."""

    sampler: Sampler
    table: Table

    def __repr__(self) -> str:
        return shown_as(self.sampler)

    @property
    def info(self) -> SamplerInfo:
        tags = info_of(self.sampler)
        return replace(tags, takes_missing=tags.takes_missing or bool(np.isnan(self.table.values).any()))

    def __call__(self, inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator) -> Batch:
        return self.sampler(inputs, subset, draws, rng)

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Array:
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
        """Return rows that the user's sampler drew, as numbers; a frame is read as the data was."""
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
        """Return whether it lists a subset; one with a support that does not say which subsets it lists, lists all."""
        lists, support = (method(self.sampler, name) for name in ("lists", "support"))
        return support is not None and (lists is None or bool(lists(subset)))

    def repeats(self, subset: Subset) -> bool:
        repeats = method(self.sampler, "repeats")
        return self.lists(subset) if repeats is None else bool(repeats(subset))

    def support(self, inputs: Array, subset: Subset) -> tuple[Any, Floats]:
        return self.sampler.support(self.table.show(inputs.copy()), subset)  # type: ignore

    def notes(self, inputs: Batch, subsets: Sequence[Any], seed: int) -> list[Note]:
        notes = method(self.sampler, "notes")
        return [] if notes is None else [as_note(note) for note in notes(inputs, subsets, seed)]


def bind_model(model: object, data: object, what: str = "data") -> Wrapped:
    """Return the model, given its columns in its order; refuse one that cannot take the data's."""
    wrapped = wrap(model)
    if wrapped.columns is None:
        return wrapped
    frame, wanted = as_frame(data, what), list(wrapped.columns)
    if is_frame(frame) and writes_underscores(model):
        wanted = _as_in_data(wanted, list(frame.columns))
        wrapped = replace(wrapped, columns=tuple(wanted))
    if isinstance(frame, np.ndarray) and frame.ndim == 2 and frame.shape[1] != len(wanted):
        raise InputError(
            f"the model was fitted on {len(wanted)} columns, the {what} has {frame.shape[1]}; give it those it knows"
        )
    if not is_frame(frame) or not all(isinstance(label, str) for label in frame.columns):  # taken by position
        return wrapped
    given = list(frame.columns)
    if twice(given):
        return wrapped  # refused with the table
    if sorted(given) == sorted(wanted):
        if given == wanted:
            return wrapped
        predict = None if wrapped.predict is None else partial(_reordered, wrapped.predict, wanted)
        return replace(wrapped, call=partial(_reordered, wrapped.call, wanted), predict=predict)
    try:
        wrapped.call(frame.iloc[:1].copy())  # models may take by name what they need, and do without the rest
    except Exception as error:
        differing = {"only in the model": set(wanted) - set(given), f"only in the {what}": set(given) - set(wanted)}
        raise InputError(
            f"the model was fitted on other columns than the {what} has ({_in_words(differing)}); give it those it "
            "knows"
        ) from error
    return wrapped


def _as_in_data(columns: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    """Return the columns of a model that writes underscores for spaces, with the names that the data has.

    >>> _as_in_data(["b_1", "a_1"], ["a 1", "b_1"])
    ['b_1', 'a 1']
    """
    names = {str(name).replace(" ", "_"): name for name in given}
    return [names.get(str(column), column) for column in columns]


def _reordered(call: Model, columns: Sequence[str], batch: Batch) -> Any:
    return call(batch[list(columns)])


def _in_words(differing: Mapping[str, Set[str]]) -> str:
    return "; ".join(f"{', '.join(sorted(names)[:3])} {where}" for where, names in differing.items() if names)


MOST_CACHED = 2**21  # numbers that are remembered at most


class RowCache:
    """One result (an array) per row, remembered by the row's bits; it does not travel with a pickle."""

    def __init__(self) -> None:
        self.known: dict[bytes, Array] = {}
        self.size = 0  # numbers in it

    def __reduce__(self) -> tuple[Any, ...]:
        return RowCache, ()

    def __call__(self, rows: Array, compute: Callable[[Array], Array]) -> Array:
        """Return `compute(rows)`, where the result of a row must not depend on the rows beside it."""
        bits, size = rows.tobytes(), rows[:1].nbytes
        keys = [bits[start : start + size] for start in range(0, len(bits), size)] if size else [b""] * len(rows)
        known = list(map(self.known.get, keys))
        new = [i for i, result in enumerate(known) if result is None]
        if len(new) == len(rows):
            results = compute(rows)
        else:
            for i, result in zip(new, compute(rows[new]) if new else (), strict=True):
                known[i] = result
            every = [result for result in known if result is not None]
            results = np.concatenate(every).reshape(len(rows), *every[0].shape)
        fresh = results[new] if new else results[:0]
        if 0 < fresh.size <= MOST_CACHED:
            if self.size + fresh.size > MOST_CACHED:
                self.known.clear()
                self.size = 0
            self.known.update(zip([keys[i] for i in new], fresh, strict=True))
            self.size += fresh.size  # equal rows of one call count twice, which only clears it sooner
        return results


class ConditionalCache:
    """The weights and the spread of one subset's conditional, by its columns; it does not travel with a pickle."""

    def __init__(self) -> None:
        self.known: dict[bytes, tuple[Floats, Floats]] = {}
        self.size = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return ConditionalCache, ()

    def __call__(self, columns: Array, compute: Callable[[], tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
        """Return `compute()`, computed once for these columns."""
        key = columns.tobytes()
        known = self.known.get(key)
        if known is None:
            known = compute()
            size = sum(part.size for part in known)
            if self.size + size <= MOST_CACHED:  # a subset comes again in every round: those that fit in stay
                self.known[key] = known
                self.size += size
        return known
