"""Reading a saved result back, with its sampler where counterfactuals are wanted again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from butfor.core import storage
from butfor.core.draws import Problem, list_problem, table_problem
from butfor.core.global_result import unpack as unpack_global
from butfor.core.result import unpack
from butfor.core.types import Batch, InputError, Subset
from butfor.tabular.splice import meet
from butfor.tabular.table import from_facts


def load(path: str | Path, sampler: Any = None, inputs: Any = None, model: Any = None) -> Any:
    """A `Result` or `GlobalResult` written by its `save`.

    With the sampler of the run the counterfactuals of a `Result` can be drawn again. Images are not in the file: where
    theirs are no longer where they were, give the `inputs` of the run, in their order. Reports of images and texts show
    what the model says of counterfactuals if it is given, too.
    """
    facts, arrays = storage.read(Path(path))
    if facts.get("class") == "GlobalResult":
        return unpack_global(facts, arrays)
    said = facts["provenance"]
    if "inputs" not in arrays:
        kind = said.get("modality")
        inputs = said.get("texts") if inputs is None and kind == "text" else inputs
        inputs = _by_name(inputs, facts["input_names"])
        inputs = _opened(inputs, said) if kind == "image" else inputs
        found = unpack(facts, arrays, _list_problem(facts, sampler, inputs), lambda batch: batch)
        return found if inputs is None else replace(found, view=_view(kind, model))
    table = from_facts(said, arrays["inputs"], tuple(facts["input_names"]))
    subsets = [Subset(name, np.array(index)) for name, index in facts["subsets"].items()]
    if sampler is None:
        fitted: Any = _absent
    else:
        shown = table.show(table.values, np.arange(len(table.values)))
        table, fitted = meet(shown, sampler)
    problem = table_problem(table.values, table.index, subsets, fitted, said["seed"])
    return unpack(facts, arrays, problem, table.show)


def _by_name(inputs: Any, names: Sequence[Any]) -> Any:
    """A mapping in the order of the run."""
    if not isinstance(inputs, Mapping):
        return inputs
    lacking = [name for name in names if name not in inputs]
    if lacking:
        raise InputError(f"the result has an input {lacking[0]!r}, which the inputs given lack")
    return {name: inputs[name] for name in names}


def _opened(given: Any, said: dict[str, Any]) -> Any:
    """The images of a run, as given or from where they were; None where they are no longer there."""
    from butfor.image.opened import opened

    if given is not None:
        return opened(given)
    files = [Path(file) for file in said.get("files") or ()]
    if not files or not all(file.is_file() for file in files):
        return None
    sizes = {name: said[name] for name in ("longest", "most_pixels") if name in said}
    return replace(opened(dict(zip(map(str, range(len(files))), files, strict=True))), **sizes)


def _view(kind: str | None, model: Any) -> Any:
    """How images or texts are shown; without their model its answers to counterfactuals are left out."""
    if kind == "image":
        from butfor.image.explain import classifier
        from butfor.image.view import View as Pictures

        return Pictures(None if model is None else classifier(model).call)
    if kind == "text":
        from butfor.text.models import text_model
        from butfor.text.view import View as Marked

        return Marked(None if model is None else text_model(model).call)
    return None


def _list_problem(facts: dict[str, Any], sampler: Any, inputs: Sequence[Any] | None) -> Problem:
    """The problem of a run on images or texts."""
    names = facts["input_names"]
    if inputs is not None and len(inputs) != len(names):
        raise InputError(
            f"the result has {len(names)} inputs, got {len(inputs)}; give those of the run, in their order"
        )
    subsets: list[list[Subset]] = [[] for _ in names]
    for row, (name, index) in zip(facts["owners"], facts["subsets"], strict=True):
        subsets[row].append(Subset(name, _attribute(storage.unplain(index))))
    if sampler is not None and any(hasattr(subset.index, "transform") for own in subsets for subset in own):
        from butfor.image.attributes import WithAttributes, with_attributes

        sampler = sampler if isinstance(sampler, WithAttributes) else with_attributes(sampler)
    held: Sequence[Any] = inputs if inputs is not None else [None] * len(names)
    usable = _absent if sampler is None else _no_inputs if inputs is None else sampler
    return list_problem(held, names, subsets, usable, facts["provenance"]["seed"])


def _attribute(index: Any) -> Any:
    """One of butfor's own attributes of images again, which are saved by name."""
    if isinstance(index, str) and index.startswith("Attribute("):
        from butfor.image.attributes import BUILT_IN, Attribute

        name = index[len("Attribute('") : -len("')")]
        return Attribute(name, BUILT_IN[name]) if name in BUILT_IN else index
    return index


def _absent(*_: Any) -> Batch:
    raise InputError("this result was loaded without its sampler; use butfor.load(path, sampler=...)")


def _no_inputs(*_: Any) -> Batch:
    raise InputError("the images of this result are no longer where they were; use butfor.load(..., inputs=...)")


_absent.values = _absent  # type: ignore[attr-defined]
