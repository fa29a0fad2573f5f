"""Binding the model and the sampler of a run to the columns of the data; a user's own sampler is checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np

from butfor.core.draw.samplers import (
    AlignsColumns,
    HasNotes,
    ListsSupport,
    RepeatsDraws,
    Sampler,
    SamplerInfo,
    info_of,
)
from butfor.core.types import Array, Batch, Floats, InputError, Model, ModelError, Subset
from butfor.models import Wrapped, wrap
from butfor.models.optional import attribute
from butfor.models.rows import is_frame
from butfor.tabular.splice import align_columns, draws_columns, in_words, shown_as
from butfor.tabular.table import Table, as_frame, as_table, check_complete, is_lazy, twice


def bind_sampler(data: object, sampler: object, what: str = "data") -> tuple[Table, Sampler]:
    """The user's table, and a sampler that the core can use on it; reference data gets a sampler that fits it."""
    if is_data(sampler):
        from butfor.tabular.auto import auto

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
