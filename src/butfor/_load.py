"""Reading a saved result back, with its sampler where counterfactuals are wanted again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from butfor.core import storage
from butfor.core.draws import table_problem
from butfor.core.global_result import unpack as unpack_global
from butfor.core.result import unpack
from butfor.core.types import Batch, InputError, Subset
from butfor.tabular.splice import meet
from butfor.tabular.table import from_facts


def load(path: str | Path, sampler: Any = None) -> Any:
    """A `Result` or `GlobalResult` written by its `save`.

    With the sampler of the run the counterfactuals of a `Result` can be drawn again.
    """
    facts, arrays = storage.read(Path(path))
    if facts.get("class") == "GlobalResult":
        return unpack_global(facts, arrays)
    said = facts["provenance"]
    table = from_facts(said, arrays["inputs"], tuple(facts["input_names"]))
    subsets = [Subset(name, np.array(index)) for name, index in facts["subsets"].items()]
    if sampler is None:
        fitted: Any = _absent
    else:
        shown = table.show(table.values, np.arange(len(table.values)))
        table, fitted = meet(shown, sampler)
    problem = table_problem(table.values, table.index, subsets, fitted, said["seed"])
    return unpack(facts, arrays, problem, table.show)


def _absent(*_: Any) -> Batch:
    raise InputError("this result was loaded without its sampler; use butfor.load(path, sampler=...)")


_absent.values = _absent  # type: ignore[attr-defined]
