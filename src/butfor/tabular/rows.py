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
class TableRequest:
    """What a person said of rows and columns; `known` is what the model says it was fitted on."""

    data: Path
    reference: Path | None = None
    data_where: str | None = None
    reference_where: str | None = None
    features: Sequence[str] = ()
    drop: Sequence[str] = ()
    index: str | None = None
    truth: str | None = None
    truth_option: str = "--truth"  # what the option is called where a person gives it
    clusters: str | None = None
    known: Sequence[str] | None = None
    dates: Sequence[str] = ()
    categories: Sequence[str] = ()
    hold_out: float | None = None  # the data are this share of the reference, taken at random
    itself: bool = False  # the data are their own reference where none is given
    what: str = "data"  # what the data are called in errors; its first word is that of their options
    seed: int = 0


@dataclass(frozen=True)
class Tables:
    """Data and reference with the model's columns only, labels and clusters if asked for, and words on both."""

    data: pd.DataFrame
    reference: pd.DataFrame
    truth: list[Any] | None
    clusters: list[Any] | None
    sources: dict[str, str]


def read_tables(request: TableRequest) -> Tables:
    """Read, split and trim. What was decided for the person is said in a warning."""
    whole, other = _read(request)
    picked, compared = _split(whole, other, request)
    data, reference = whole[picked], (whole if other is None else other)[compared]
    own = data.index.name  # a Parquet file may bring its own index
    _check_known([request.index] if request.index not in (None, own) else [], data, "--index: ")
    truth, clusters = (
        None if name is None else _labels(name, data, option)
        for name, option in ((request.truth, request.truth_option), (request.clusters, "--clusters"))
    )
    columns = model_columns(data, reference, request)
    where = f" where {request.reference_where}" if request.reference_where else ""
    sources = {
        "data": f"{len(data)} of {len(whole)} rows of {request.data}",
        "reference": f"{len(reference)} rows of {request.data if other is None else request.reference}{where}",
    }
    return Tables(named_rows(data, request.index)[columns], reference[columns], truth, clusters, sources)


def _labels(name: str, data: pd.DataFrame, option: str) -> list[Any]:
    _check_known([name], data, f"{option}: ")
    return list(data[name].tolist())


def _read(request: TableRequest) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """The data and, if it is another file, the reference, their columns as the types they are meant to be."""
    frames = {request.what: read_table(request.data, request.what)}
    if not same_file(request):
        frames["reference"] = read_table(request.reference, "reference")  # type: ignore[arg-type]
    everywhere = dict.fromkeys(name for frame in frames.values() for name in frame.columns)
    dates = listed(request.dates, everywhere, "--dates: ")
    categories = listed(request.categories, everywhere, "--categories: ")
    for name in dates:
        if all(frame[name].dtype.kind in "fiub" for frame in frames.values() if name in frame.columns):
            raise InputError(f"--dates: column {name!r} holds numbers; write dates like 2024-02-29")
    frames = typed(frames, dates, categories)
    return frames[request.what], frames.get("reference")


def same_file(request: TableRequest) -> bool:
    """Whether the reference is picked from the data themselves."""
    if request.reference is None:
        return True
    both = request.reference.exists() and request.data.exists()
    return both and request.reference_where is not None and request.reference.samefile(request.data)


def _split(data: pd.DataFrame, other: pd.DataFrame | None, request: TableRequest) -> tuple[Bools, Bools]:
    """Which rows of the data are explained, and which of the reference (the data itself if `other` is None)."""
    if other is None and request.reference_where is None and request.hold_out is None and not request.itself:
        raise InputError(
            "there is nothing to compare with; give --reference FILE, or --reference-where EXPRESSION to take the "
            "reference from the data, such as --reference-where \"diagnosis == 'benign'\""
        )
    source = data if other is None else other
    compared, picked = np.ones(len(source), bool), np.ones(len(data), bool)
    if request.reference_where is not None:
        compared = matches(source, request.reference_where, "--reference-where")
    if request.hold_out is not None:
        return _held_out(compared, request.hold_out, request.seed)
    if request.data_where is not None:
        picked = matches(data, request.data_where, f"--{request.what.split()[0]}-where")
    if other is not None:
        return picked, compared
    if request.reference_where is None:
        return picked, picked
    if request.data_where is None:
        picked = ~compared
        if not picked.any():
            raise InputError(
                f"--reference-where {request.reference_where!r} matches every row; none is left to explain"
            )
    if both := int((picked & compared).sum()):
        warnings.warn(
            f"{both} rows are explained and belong to the reference as well: for them there is little to find",
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


def model_columns(data: pd.DataFrame, reference: pd.DataFrame, request: TableRequest) -> list[str]:
    """The columns for the model: those asked for, else those it was fitted on, else all that are not left out."""
    everywhere = {**dict.fromkeys(data.columns), **dict.fromkeys(reference.columns)}
    only, drop = listed(request.features, everywhere), listed(request.drop, everywhere)
    if only and drop:
        raise InputError("--features and --drop were both given; use one of them")
    left = {*drop, *(name for name in (request.index, request.truth, request.clusters) if name is not None)}
    sure = bool(only) or (request.known is not None and set(request.known) <= set(data.columns) - left)
    if sure:
        columns = wanted = only or list(request.known or [])
        _check_known(columns, data, "--features: ")
    else:
        left |= _only_for_picking(data, reference, request, left)
        columns, wanted = ([name for name in frame.columns if name not in left] for frame in (data, reference))
    _check_same(columns, wanted, data, reference)
    check_text(columns, {request.what: data, "reference": reference}, sure=sure)
    return columns


def _only_for_picking(data: pd.DataFrame, reference: pd.DataFrame, request: TableRequest, left: set[str]) -> set[str]:
    """Text columns named in an expression; numbers named there may well be features, so they stay."""
    expressions = [text for text in (request.data_where, request.reference_where) if text is not None]
    named = {name for text in expressions for name in names_in(text)} - left
    text = {name for name in named if is_text(data, name) or is_text(reference, name)}
    if kept := [name for name in data.columns if name in named - text]:
        warnings.warn(
            f"{some(kept)} picks rows and goes to the model as well; leave it out with --drop if it should not",
            stacklevel=2,
        )
    return text


def _check_known(names: Sequence[str], frame: pd.DataFrame, where: str) -> None:
    if unknown := [name for name in names if name not in frame.columns]:
        raise InputError(f"{where}the data has no column {unknown[0]!r}; it has {some(list(frame.columns))}")


def _check_same(columns: list[str], wanted: list[str], data: pd.DataFrame, reference: pd.DataFrame) -> None:
    lacking = [name for name in columns if name not in reference.columns]
    extra = [name for name in wanted if name not in data.columns]
    only = [f"{some(names)} only in the {where}" for names, where in ((lacking, "data"), (extra, "reference")) if names]
    if only:
        raise InputError(
            f"data and reference have other columns ({'; '.join(only)}); give both the same, or use --drop"
        )
    if not columns:
        raise InputError("no column is left for the model; drop fewer")


def named_rows(data: pd.DataFrame, index: str | None) -> pd.DataFrame:
    """The rows under the names that a column gives them."""
    if index is None or index == data.index.name:
        return data
    names = data[index]
    if names.isna().any():
        raise InputError(f"--index {index}: row {names.index[names.isna()].tolist()[0]!r} has no name; fill it in")
    if names.duplicated().any():
        twice = names[names.duplicated()].iloc[0]
        raise InputError(f"--index {index}: {twice!r} names several rows; make names unique")
    return data.set_index(index, drop=False)
