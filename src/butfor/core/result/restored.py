"""Arrays and metadata of a file -> the result that was saved."""

from __future__ import annotations

from typing import Any

import numpy as np

from butfor.core.draw.blocks import Problem
from butfor.core.result.archive import ARRAYS, PLAIN
from butfor.core.result.effects import Effects
from butfor.core.result.kept import Chunk, Kept
from butfor.core.result.result import Result
from butfor.core.test.evidence import Evidence
from butfor.core.types import Array, Floats


def _unpack_kept(metadata: dict[str, Any], arrays: dict[str, Array]) -> Kept:
    texts, listed = {int(row): own for row, own in metadata.get("kept", {}).items()}, set(metadata.get("listed", []))
    numbers = {int(name[5:]): arrays[name] for name in arrays if name.startswith("kept ") and name[5:].isdigit()}
    return Kept(
        tuple(
            Chunk(np.array([row]), [pieces], arrays[f"kept outputs {row}"][None], row in listed)
            for row, pieces in {**texts, **numbers}.items()
        )
    )


def unpack(metadata: dict[str, Any], arrays: dict[str, Array], problem: Problem) -> Result:
    """The inverse of what `pack` made."""
    values = arrays["evidence"]
    fields = {name: arrays[name] for name in ARRAYS}
    evidence = Evidence(kind=metadata["kind"], values=values, least=np.zeros(len(values)), **fields)
    names = metadata["output_names"]
    return Result(
        input_names=tuple(metadata["input_names"]),
        subset_names=tuple(metadata["subset_names"]),
        input_of=arrays["input_of"],
        subset_of=arrays["subset_of"],
        evidence=evidence,
        effects=Effects(arrays["effect"], arrays["effect_low"], arrays["effect_high"]),
        chosen=arrays["chosen"],
        run_notes=tuple(metadata["run_notes"]),
        output_names=None if names is None else tuple(names),
        problem=problem,
        outputs=arrays["outputs"] if "outputs" in arrays else _unknown(metadata),
        kept=_unpack_kept(metadata, arrays),
        **{name: metadata[name] for name in PLAIN},
    )


def _unknown(metadata: dict[str, Any]) -> Floats:
    """Of a file of an earlier version, in which the outputs on the inputs are not."""
    return np.full((len(metadata["input_names"]), 0), np.nan)
