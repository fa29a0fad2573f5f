"""Reading a saved result back, with its sampler where more counterfactuals are wanted than were kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from butfor.core.draw.blocks import Problem, list_problem, table_problem
from butfor.core.draw.items import ListItems
from butfor.core.draw.samplers import Sampler
from butfor.core.result.global_result import GlobalResult, unpack_global
from butfor.core.result.restored import unpack
from butfor.core.result.result import Result
from butfor.core.result.storage import read, unplain
from butfor.core.types import Array, Batch, InputError, Subset
from butfor.tabular.bind import bind_sampler
from butfor.tabular.table import from_metadata, items_of


def load(path: str | Path, sampler: Any = None, inputs: Any = None) -> Result | GlobalResult:
    """A `Result` or `GlobalResult` written by its `save`.

    Parameters
    ----------
    path : the file.
    sampler : the sampler of the run: counterfactuals that were not kept can then be drawn again.
    inputs : the images of the run, in their order, where they are no longer where they were: they are not in the file.
    """
    metadata, arrays = read(Path(path))
    if metadata.get("class") == "GlobalResult":
        return unpack_global(metadata, arrays)
    make = _table_problem if "inputs" in arrays else _list_problem
    try:
        return unpack(metadata, arrays, make(metadata, arrays, sampler, inputs))
    except InputError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} is not a whole butfor result ({type(error).__name__}: {error}); give a file written by result.save"
        ) from error


def _table_problem(metadata: dict[str, Any], arrays: dict[str, Array], sampler: Any, _: object) -> Problem:
    table = from_metadata(metadata["provenance"], arrays["inputs"], tuple(metadata["input_names"]))
    subsets = [Subset(name, np.array(index)) for name, index in metadata["subsets"].items()]
    fitted: Sampler = Absent()
    if sampler is not None:
        shown = table.show(table.values, np.arange(len(table.values)))
        table, fitted = bind_sampler(shown, sampler)
    return table_problem(items_of(table), table.index, subsets, fitted, metadata["provenance"]["seed"])


def _list_problem(metadata: dict[str, Any], _: object, sampler: Any, inputs: Any) -> Problem:
    """The problem of a run on images, texts or inputs of several parts."""
    names, provenance = metadata["input_names"], metadata["provenance"]
    held = _held(_by_name(inputs, names), provenance)
    if held is not None and len(held) != len(names):
        raise InputError(f"the result has {len(names)} inputs, got {len(held)}; give those of the run, in their order")
    subsets: list[list[Subset]] = [[] for _ in names]
    for row, (name, index) in zip(metadata["owners"], metadata["subsets"], strict=True):
        subsets[row].append(Subset(name, _index(unplain(index), provenance)))
    usable = Absent() if sampler is None else sampler if held is not None else NoInputs()
    if provenance.get("modality") == "image":
        from butfor.image.saved import list_items, with_its_attributes

        return list_problem(
            list_items(held, names), names, subsets, with_its_attributes(usable, subsets), provenance["seed"]
        )
    if provenance.get("modality") == "text":
        from butfor.text.edit import SpanPacking

        items = ListItems(held if held is not None else [None] * len(names), packing=SpanPacking())
        return list_problem(items, names, subsets, usable, provenance["seed"])
    return list_problem(ListItems(held or [None] * len(names)), names, subsets, usable, provenance["seed"])


def _held(inputs: Any, provenance: dict[str, Any]) -> Sequence[Any] | None:
    """The inputs of a run, as given or from where they were; None where they are no longer there."""
    if provenance.get("modality") == "image":
        from butfor.image.saved import images_of

        return images_of(inputs, provenance)
    return provenance.get("texts") if inputs is None else list(inputs)


def _by_name(inputs: Any, names: Sequence[Any]) -> Any:
    """A mapping in the order of the run."""
    if not isinstance(inputs, Mapping):
        return inputs
    lacking = [name for name in names if name not in inputs]
    if lacking:
        raise InputError(f"the result has an input {lacking[0]!r}, which the inputs given lack")
    return {name: inputs[name] for name in names}


def _index(index: object, provenance: dict[str, Any]) -> object:
    if provenance.get("modality") != "image":
        return index
    from butfor.image.saved import attribute

    return attribute(index)


class Absent:
    """In place of a sampler that was not given."""

    def __call__(self, *_: object) -> Batch:
        raise InputError("this result was loaded without its sampler; use butfor.load(path, sampler=...)")

    values = __call__


class NoInputs:
    """In place of a sampler whose inputs are gone."""

    def __call__(self, *_: object) -> Batch:
        raise InputError("the images of this result are no longer where they were; use butfor.load(..., inputs=...)")
