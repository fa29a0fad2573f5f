"""Files of a command line -> the rows to explain, the rows of the reference, and the columns for the model."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.core.draw.streams import stream
from butfor.core.types import Bools, InputError
from butfor.tabular.files import read_table
from butfor.tabular.read_columns import check_text, is_text, listed, typed
from butfor.tabular.where import matches, names_in, some

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Asked:
    """What a person said of rows and columns; `known` is what the model says it was fitted on."""

    data: Path
    reference: Path | None = None
    data_where: str | None = None
    reference_where: str | None = None
    features: Sequence[str] = ()
    drop: Sequence[str] = ()
    index: str | None = None
    truth: str | None = None
    known: Sequence[str] | None = None
    dates: Sequence[str] = ()
    categories: Sequence[str] = ()
    hold_out: float | None = None  # the data are this share of the reference, taken at random
    itself: bool = False  # the data are their own reference where none is given
    what: str = "data"  # what the data are called in errors; its first word is that of their options
    seed: int = 0


@dataclass(frozen=True)
class Tables:
    """Data and reference with the model's columns only, the true labels if asked for, and words on both."""

    data: pd.DataFrame
    reference: pd.DataFrame
    truth: list[Any] | None
    told: dict[str, str]


def read_tables(asked: Asked) -> Tables:
    """Read, split and trim. What was decided for the person is said in a warning."""
    whole, other = _read(asked)
    picked, compared = _split(whole, other, asked)
    data, reference = whole[picked], (whole if other is None else other)[compared]
    hidden = [name for name in (asked.index, asked.truth) if name is not None]
    own = data.index.name  # a Parquet file may bring its own index
    _check_known([asked.index] if asked.index not in (None, own) else [], data, "--index: ")
    _check_known([asked.truth] if asked.truth is not None else [], data, "--truth: ")
    columns = _columns(data, reference, asked, hidden)
    rows = _named(data, asked.index)
    return Tables(
        rows[columns],
        reference[columns],
        None if asked.truth is None else data[asked.truth].tolist(),
        {
            "data": f"{len(data)} of {len(whole)} rows of {asked.data}",
            "reference": f"{len(reference)} rows of {asked.data if other is None else asked.reference}"
            + (f" where {asked.reference_where}" if asked.reference_where else ""),
        },
    )


def _read(asked: Asked) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """The data and, if it is another file, the reference, their columns as the types they are meant to be."""
    frames = {asked.what: read_table(asked.data, asked.what)}
    if not _same_file(asked):
        frames["reference"] = read_table(asked.reference, "reference")  # type: ignore[arg-type]
    everywhere = dict.fromkeys(name for frame in frames.values() for name in frame.columns)
    dates = listed(asked.dates, everywhere, "--dates: ")
    categories = listed(asked.categories, everywhere, "--categories: ")
    numbers = [name for name in dates if not any(is_text(f, name) or _is_time(f, name) for f in frames.values())]
    if numbers:
        raise InputError(f"--dates: column {numbers[0]!r} holds numbers; write dates like 2024-02-29")
    frames = typed(frames, dates, categories)
    return frames[asked.what], frames.get("reference")


def _is_time(frame: pd.DataFrame, name: str) -> bool:
    return name in frame.columns and getattr(frame[name].dtype, "kind", "O") in "mM"


def _same_file(asked: Asked) -> bool:
    if asked.reference is None:
        return True
    both = asked.reference.exists() and asked.data.exists()
    return both and asked.reference_where is not None and asked.reference.samefile(asked.data)


def _split(data: pd.DataFrame, other: pd.DataFrame | None, asked: Asked) -> tuple[Bools, Bools]:
    """Which rows of the data are explained, and which of the reference (the data itself if `other` is None)."""
    itself = asked.itself or asked.hold_out is not None
    if other is None and asked.reference_where is None and not itself:
        raise InputError(
            "there is nothing to compare with; give --reference FILE, or --reference-where EXPRESSION to take the "
            "reference from the data, such as --reference-where \"diagnosis == 'benign'\""
        )
    source = data if other is None else other
    compared, picked = np.ones(len(source), bool), np.ones(len(data), bool)
    if asked.reference_where is not None:
        compared = matches(source, asked.reference_where, "--reference-where")
    if asked.hold_out is not None:
        return _held_out(compared, asked.hold_out, asked.seed)
    if asked.data_where is not None:
        picked = matches(data, asked.data_where, f"--{asked.what.split()[0]}-where")
    if other is not None:
        return picked, compared
    if asked.reference_where is None:
        return picked, picked
    if asked.data_where is None:
        picked = ~compared
        if not picked.any():
            raise InputError(f"--reference-where {asked.reference_where!r} matches every row; none is left to explain")
    if (picked & compared).any():
        warnings.warn(
            f"{(picked & compared).sum()} rows are explained and belong to the reference as well: for them there is "
            "little to find",
            stacklevel=2,
        )
    return picked, compared


def _held_out(rows: Bools, share: float, seed: int) -> tuple[Bools, Bools]:
    """A share of the rows at random, and the others."""
    if not 0 < share < 1:
        raise InputError(f"--hold-out must lie strictly between 0 and 1, got {share:g}; 0.2 is a good choice")
    order = stream(seed, "hold-out").permutation(np.flatnonzero(rows))
    held = np.zeros(len(rows), bool)
    held[order[: round(share * len(order))]] = True
    if held.sum() in (0, len(order)):
        raise InputError(f"--hold-out {share:g} of {len(order)} rows leaves none on one side; give more rows")
    return held, rows & ~held


def _columns(data: pd.DataFrame, reference: pd.DataFrame, asked: Asked, hidden: list[str]) -> list[str]:
    """The columns for the model: those asked for, else those it was fitted on, else all that are not left out."""
    everywhere = {**dict.fromkeys(data.columns), **dict.fromkeys(reference.columns)}
    only, drop = listed(asked.features, everywhere), listed(asked.drop, everywhere)
    if only and drop:
        raise InputError("--features and --drop were both given; use one of them")
    sure = bool(only) or (asked.known is not None and set(asked.known) <= set(data.columns) - {*drop, *hidden})
    if sure:
        columns = wanted = only or list(asked.known or [])
        _check_known(columns, data, "--features: ")
    else:
        left = {*drop, *hidden}
        left |= _only_for_picking(data, reference, asked, left)
        columns, wanted = ([name for name in frame.columns if name not in left] for frame in (data, reference))
    _check_same(columns, wanted, data, reference)
    check_text(columns, {asked.what: data, "reference": reference}, sure=sure)
    return columns


def _only_for_picking(data: pd.DataFrame, reference: pd.DataFrame, asked: Asked, left: set[str]) -> set[str]:
    """Text columns named in an expression; numbers named there may well be features, so they stay."""
    expressions = [text for text in (asked.data_where, asked.reference_where) if text is not None]
    named = {name for text in expressions for name in names_in(text)} - left
    text = {name for name in named if is_text(data, name) or is_text(reference, name)}
    kept = [name for name in data.columns if name in named - text]
    if kept:
        warnings.warn(
            f"{some(kept)} picks rows and goes to the model as well; leave it out with --drop if it should not",
            stacklevel=2,
        )
    return text


def _check_known(names: Sequence[str], frame: pd.DataFrame, where: str) -> None:
    unknown = [name for name in names if name not in frame.columns]
    if unknown:
        raise InputError(f"{where}the data has no column {unknown[0]!r}; it has {some(list(frame.columns))}")


def _check_same(columns: list[str], wanted: list[str], data: pd.DataFrame, reference: pd.DataFrame) -> None:
    lacking = [name for name in columns if name not in reference.columns]
    extra = [name for name in wanted if name not in data.columns]
    told = [f"{some(names)} only in the {where}" for names, where in ((lacking, "data"), (extra, "reference")) if names]
    if told:
        raise InputError(
            f"data and reference have other columns ({'; '.join(told)}); give both the same, or use --drop"
        )
    if not columns:
        raise InputError("no column is left for the model; drop fewer")


def _named(data: pd.DataFrame, index: str | None) -> pd.DataFrame:
    if index is None or index == data.index.name:
        return data
    names = data[index]
    if names.isna().any():
        raise InputError(f"--index {index}: row {names.index[names.isna()][0]!r} has no name; fill it in")
    if names.duplicated().any():
        raise InputError(
            f"--index {index}: {names[names.duplicated()].iloc[0]!r} names several rows; make names unique"
        )
    return data.set_index(index, drop=False)
