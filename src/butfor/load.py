"""Reading a saved result back, with its sampler where more counterfactuals are wanted than were kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from butfor.evaluation.hypotheses import Problem, list_problem, table_problem
from butfor.evaluation.items import ListItems
from butfor.evaluation.samplers import Sampler
from butfor.results.global_result import GlobalResult, unpack_global
from butfor.results.io import check_saved, check_saved_global, kept_arrays, unpack
from butfor.results.result import Result
from butfor.results.storage import GIVE, read, unplain
from butfor.tabular.splice import bind_sampler
from butfor.tabular.table import Table, check_cells, from_metadata, items_of
from butfor.types import Array, Batch, InputError, Subset
from butfor.untrusted import BROKEN, sentence


def load(
    path: str | Path,
    sampler: Any = None,
    inputs: Any = None,
    *,
    images_in: Sequence[str | Path] | None = None,
    most_bytes: int | None = None,
) -> Result | GlobalResult:
    """A `Result` or `GlobalResult` written by its `save`.

    A file may come from anybody: it holds no code, its sizes are known before it is unpacked, and everything in it is
    checked before a result is made of it.

    Parameters
    ----------
    path : the file.
    sampler : the sampler of the run: counterfactuals that were not kept can then be drawn again.
    inputs : the images of the run, in their order or by name, where they are no longer where they were: they are not
        in the file. Texts and tables are: texts that are given must be the same, a table is refused.
    images_in : folders in or below which images may be opened; None opens whatever files the result names.
    most_bytes : unpacked size of the largest file that is read; None is 128 MB, or 30 times the file's size up to
        700 MB.
    """
    file = Path(path)
    metadata, arrays = read(file, most_bytes)
    try:
        if metadata.get("class") == "GlobalResult":
            check_saved_global(metadata, arrays)
            _refuse_inputs(inputs, "of global_importance, which needs none")
            return unpack_global(metadata, arrays)
        check_saved(metadata, arrays)
        if "inputs" in arrays:
            _refuse_inputs(inputs, "of a table, which is in the file")
            problem = _table_problem(metadata, arrays, sampler)
        else:
            problem = _list_problem(metadata, arrays, sampler, _held(inputs, metadata, images_in))
        return unpack(metadata, arrays, problem)
    except InputError:
        raise
    except BROKEN as error:
        raise sentence(f"{file} is not a whole butfor result", error, GIVE) from error


def _refuse_inputs(inputs: object, what: str) -> None:
    if inputs is not None:
        raise InputError(f"inputs= is for images and texts, and this result is {what}; leave inputs= out")


def _table_problem(metadata: dict[str, Any], arrays: dict[str, Array], sampler: Any) -> Problem:
    provenance = metadata["provenance"]
    if provenance.get("modality", "table") != "table":
        raise ValueError(f"it has a table of inputs, though it is of {provenance['modality']}s")
    table = from_metadata(provenance, arrays["inputs"], tuple(metadata["input_names"]))
    subsets = [Subset(name, np.array(index)) for name, index in metadata["subsets"].items()]
    _check_table(table, subsets, arrays)
    fitted: Sampler = Absent()
    if sampler is not None:
        shown = table.show(table.values, np.arange(len(table.values)))
        table, fitted = bind_sampler(shown, sampler)
    return table_problem(items_of(table), table.index, subsets, fitted, provenance["seed"])


def _check_table(table: Table, subsets: Sequence[Subset], arrays: dict[str, Array]) -> None:
    """Columns, subsets and the counterfactuals that were kept fit each other, and every cell its column."""
    width = table.values.shape[1]
    labels = width if table.labels is None else len(table.labels)
    if not width or {len(table.columns), len(table.kinds), labels} != {width}:
        raise ValueError(f"it names {len(table.columns)} columns and has {width}")
    for subset in subsets:
        places = subset.index
        if places.ndim != 1 or places.dtype.kind != "i" or not places.size or not (places >= 0).all():
            raise ValueError(f"its subset {subset.name!r:.60} is of no columns")
        if places.max() >= width or len(np.unique(places)) < len(places):
            raise ValueError(f"its subset {subset.name!r:.60} is of columns that are not there")
    check_cells(table, table.values, np.arange(width))
    for row, pieces in kept_arrays(arrays):
        index = subsets[row % len(subsets)].index
        if pieces.dtype.kind != "f" or pieces.ndim > 2 or pieces.shape[-1:] != index.shape:
            raise ValueError(f"the counterfactuals of hypothesis {row} are {pieces.dtype} of shape {pieces.shape}")
        check_cells(table, np.atleast_2d(pieces), index)


def _list_problem(
    metadata: dict[str, Any], arrays: dict[str, Array], sampler: Any, held: Sequence[Any] | None
) -> Problem:
    """The problem of a run on images, texts or inputs of several parts."""
    names, provenance = metadata["input_names"], metadata["provenance"]
    modality = provenance.get("modality")
    subsets: list[list[Subset]] = [[] for _ in names]
    for row, (name, index) in zip(metadata["owners"], metadata["subsets"], strict=True):
        if not isinstance(row, int) or not 0 <= row < len(names) or not isinstance(name, str):
            raise ValueError(f"its subset {name!r:.60} is of no input")
        subsets[row].append(Subset(name, _index(unplain(index), modality)))
    usable = Absent() if sampler is None else sampler if held is not None else NoInputs()
    if modality == "image":
        from butfor.image.attributes import with_attributes
        from butfor.image.files import check_kept, list_items

        check_kept([piece for _, piece in kept_arrays(arrays)])
        return list_problem(
            list_items(held, names), names, subsets, with_attributes(usable, subsets), provenance["seed"]
        )
    if modality == "text":
        from butfor.text.segment import SpanPacking, span_of

        if held is None or any(True for _ in kept_arrays(arrays)):
            raise ValueError("its texts are missing")
        for text, own in zip(held, subsets, strict=True):
            for subset in own:
                span_of(text, subset)
                if not all(type(place) is int for place in subset.index):
                    raise ValueError(f"its subset {subset.name!r:.60} is no span of characters")
        return list_problem(ListItems(held, packing=SpanPacking()), names, subsets, usable, provenance["seed"])
    if modality == "table":
        raise ValueError("its table of inputs is missing")
    return list_problem(ListItems(held or [None] * len(names)), names, subsets, usable, provenance["seed"])


def _held(inputs: Any, metadata: dict[str, Any], images_in: Sequence[str | Path] | None) -> Sequence[Any] | None:
    """The inputs of a run, as given or from where they were; None where they are no longer there."""
    inputs, provenance = _by_name(inputs, metadata["input_names"]), metadata["provenance"]
    if provenance.get("modality") == "image":
        from butfor.image.files import images_of

        held = images_of(inputs, provenance, images_in)
    elif inputs is None:
        held = provenance.get("texts")
    else:
        held = list(inputs.values() if isinstance(inputs, Mapping) else inputs)
    _check_held(held, metadata["input_names"], provenance)
    return held


def _check_held(held: Sequence[Any] | None, names: Sequence[Any], provenance: Mapping[str, Any]) -> None:
    """As many inputs as the run had, and the same texts."""
    if held is None:
        return
    if len(held) != len(names):
        raise InputError(f"the result has {len(names)} inputs, got {len(held)}; give those of the run, in their order")
    own = provenance.get("texts") if provenance.get("modality") == "text" else None
    for name, given, text in zip(names, held, own or (), strict=False):
        if not isinstance(given, str) or given != text:
            raise InputError(f"the text {name!r} is not the one of the run, which is in the file; leave inputs= out")


def _by_name(inputs: Any, names: Sequence[Any]) -> Any:
    """A mapping in the order of the run."""
    if not isinstance(inputs, Mapping):
        return inputs
    lacking = [name for name in names if name not in inputs]
    if lacking:
        raise InputError(f"the result has an input {lacking[0]!r}, which the inputs given lack")
    return {name: inputs[name] for name in names}


def _index(index: object, modality: str | None) -> object:
    if modality != "image":
        return index
    from butfor.image.files import region

    return region(index)


class Absent:
    """In place of a sampler that was not given."""

    def __call__(self, *_: object) -> Batch:
        raise InputError("this result was loaded without its sampler; use butfor.load(path, sampler=...)")

    values = __call__


class NoInputs:
    """In place of a sampler whose inputs are gone."""

    def __call__(self, *_: object) -> Batch:
        raise InputError("the images of this result are no longer where they were; use butfor.load(..., inputs=...)")
