"""Reading a saved result back, with its sampler where more counterfactuals are wanted than were kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from butfor.evaluation.hypotheses import Hypotheses, list_hypotheses, table_hypotheses
from butfor.evaluation.items import ListItems
from butfor.evaluation.samplers import Sampler
from butfor.results.io import GIVE, Facts, checked, counterfactual_arrays, read_file, read_index, unpack
from butfor.results.record import ImageInputs, TableInputs, TextInputs
from butfor.results.result import Result
from butfor.tabular.splice import bind_sampler
from butfor.tabular.table import check_cells, items_of, table_of
from butfor.types import Array, Batch, InputError, Subset
from butfor.untrusted import BROKEN, sentence

NO_INPUTS = "the images of this result are no longer where they were; use butfor.load(..., inputs=...)"


def load(
    path: str | Path,
    sampler: Any = None,
    inputs: Any = None,
    *,
    images_in: Sequence[str | Path] | None = None,
    most_bytes: int | None = None,
) -> Result:
    """Return the result that `Result.save` wrote.

    A file may come from anybody: it holds no code, its sizes are known before it is unpacked, and everything in it is
    checked before a result is made of it.

    Parameters
    ----------
    path : str or Path
        The file.
    sampler : callable or reference data, optional
        The sampler of the run: counterfactuals that were not kept can then be drawn again.
    inputs : sequence or mapping, optional
        The images of the run, in their order or by name, where they are no longer where they were: they are not in the
        file. Texts and tables are: texts that are given must be the same, a table is refused.
    images_in : sequence of str or Path, optional
        Folders in or below which images may be opened; None opens whatever files the result names.
    most_bytes : int, optional
        Unpacked size of the largest file that is read; None is 128 MB, or 30 times the file's size up to 700 MB.

    Returns
    -------
    Result
        Or the ContextResult of a file that `ContextResult.save` wrote.

    Examples
    --------
    >>> import tempfile
    >>> import butfor
    >>> bed = butfor.simulate.bed("linear", seed=0)
    >>> result = butfor.explain(bed.model, bed.inputs[:3], bed.sampler)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = butfor.load(result.save(Path(folder) / "result.butfor"))
    >>> again.table.equals(result.table)
    True
    """
    file, first = Path(path), b""
    with suppress(OSError), file.open("rb") as content:
        first = content.read(1)
    if first == b"{":  # a result of contexts, a JSON file; others are zip files
        from butfor.context.result import load as load_context

        return load_context(file)  # type: ignore[return-value]
    written, arrays = read_file(file, most_bytes)
    try:
        facts = checked(written, arrays)
        if isinstance(facts.record.inputs, TableInputs):
            if inputs is not None:
                what = (
                    "global_importance, which needs none"
                    if facts.record.importance
                    else "a table, which is in the file"
                )
                raise InputError(f"inputs= is for images and texts, and this result is of {what}; leave inputs= out")
            return unpack(facts, arrays, _table_hypotheses(facts, arrays, sampler))
        return unpack(facts, arrays, _list_hypotheses(facts, arrays, sampler, _inputs(inputs, facts, images_in)))
    except InputError:
        raise
    except BROKEN as error:
        raise sentence(f"{file} is not a whole butfor result", error, GIVE) from error


def _table_hypotheses(facts: Facts, arrays: dict[str, Array], sampler: Any) -> Hypotheses:
    record = facts.record
    assert isinstance(record.inputs, TableInputs)
    if "inputs" not in arrays:
        raise ValueError("its table of inputs is missing")
    table = table_of(record.inputs, arrays["inputs"], facts.input_names)
    subsets = [Subset(name, np.array(index), key) for name, index, key in facts.subsets]
    # columns, subsets and the counterfactuals that were kept fit each other, and every cell its column
    width = table.values.shape[1]
    labels = width if table.labels is None else len(table.labels)
    if not width or {len(table.columns), len(table.kinds), labels} != {width}:
        raise ValueError(f"it names {len(table.columns)} columns and has {width}")
    for subset in subsets:
        index = subset.index
        if index.ndim != 1 or index.dtype.kind != "i" or not index.size or not (index >= 0).all():
            raise ValueError(f"its subset {subset.name!r:.60} is of no columns")
        if index.max() >= width or len(np.unique(index)) < len(index):
            raise ValueError(f"its subset {subset.name!r:.60} is of columns that are not there")
    check_cells(table, table.values, np.arange(width))
    for _, row, pieces in counterfactual_arrays(arrays):
        index = subsets[row % len(subsets)].index
        if pieces.dtype.kind != "f" or pieces.ndim != 2 or pieces.shape[-1:] != index.shape:
            raise ValueError(f"the counterfactuals of hypothesis {row} are {pieces.dtype} of shape {pieces.shape}")
        check_cells(table, pieces, index)
    fitted: Sampler = Absent()
    if sampler is not None:
        shown = table.show(table.values, np.arange(len(table.values)))
        table, fitted = bind_sampler(shown, sampler)
    return table_hypotheses(items_of(table), table.index, subsets, fitted, record.seed)


def _list_hypotheses(facts: Facts, arrays: dict[str, Array], sampler: Any, inputs: Sequence[Any] | None) -> Hypotheses:
    """Return the hypotheses of a run on images, texts or inputs of several parts."""
    names, record = facts.input_names, facts.record
    subsets: list[list[Subset]] = [[] for _ in names]
    for row, (name, index, _) in zip(facts.owners or (), facts.subsets, strict=True):
        if row >= len(names):
            raise ValueError(f"its subset {name!r:.60} is of no input")
        subsets[row].append(Subset(name, read_index(index)))
    usable = Absent() if sampler is None else sampler if inputs is not None else Absent(NO_INPUTS)
    if isinstance(record.inputs, ImageInputs):
        from butfor.image.attributes import with_attributes
        from butfor.image.files import check_kept, list_items, region

        subsets = [[Subset(one.name, region(one.index)) for one in inside] for inside in subsets]
        check_kept([pieces for _, _, pieces in counterfactual_arrays(arrays)])
        drawing = with_attributes(usable, subsets)
        return list_hypotheses(list_items(inputs, names), names, subsets, drawing, record.seed)
    if isinstance(record.inputs, TextInputs):
        from butfor.text.segment import SpanPacking, spans_of

        if inputs is None or any(True for _ in counterfactual_arrays(arrays)):
            raise ValueError("its texts are missing")
        for text, inside in zip(inputs, subsets, strict=True):
            for subset in inside:
                spans = (subset.index,) if spans_of(text, subset) == (subset.index,) else subset.index
                if not all(type(end) is int for span in spans for end in span):
                    raise ValueError(f"its subset {subset.name!r:.60} is no span of characters")
        return list_hypotheses(ListItems(inputs, packing=SpanPacking()), names, subsets, usable, record.seed)
    return list_hypotheses(ListItems(inputs or [None] * len(names)), names, subsets, usable, record.seed)


def _inputs(given: Any, facts: Facts, images_in: Sequence[str | Path] | None) -> Sequence[Any] | None:
    """Return the inputs of a run, as given or from where they were; None where they are no longer there."""
    names, record = facts.input_names, facts.record.inputs
    texts = record.texts if isinstance(record, TextInputs) else None
    if isinstance(given, Mapping):
        lacking = [name for name in names if name not in given]
        if lacking:
            raise InputError(f"the result has an input {lacking[0]!r}, which the inputs given lack")
        given = {name: given[name] for name in names}
    if isinstance(record, ImageInputs):
        from butfor.image.files import images_of

        inputs: Sequence[Any] | None = images_of(given, record, images_in)
    elif given is None:
        inputs = texts
    else:
        inputs = list(given.values() if isinstance(given, Mapping) else given)
    if inputs is not None and len(inputs) != len(names):
        raise InputError(
            f"the result has {len(names)} inputs, got {len(inputs)}; give those of the run, in their order"
        )
    for name, one, text in zip(names, inputs or (), texts or (), strict=False):
        if not isinstance(one, str) or one != text:
            raise InputError(f"the text {name!r} is not the one of the run, which is in the file; leave inputs= out")
    return inputs


@dataclass(frozen=True)
class Absent:
    """In place of a sampler that was not given, or whose inputs are gone."""

    why: str = "this result was loaded without its sampler; use butfor.load(path, sampler=...)"

    def __call__(self, *_: object) -> Batch:
        raise InputError(self.why)

    values = __call__
