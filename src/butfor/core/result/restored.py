"""Arrays and metadata of a file -> the result that was saved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from butfor.core.draw.blocks import Problem
from butfor.core.draw.layers import Layers
from butfor.core.result.archive import ARRAYS, DECIDED, OVER_INPUTS, PLAIN, STAY
from butfor.core.result.checked import check_problem
from butfor.core.result.controlled import Control
from butfor.core.result.decided import Decided, Stay
from butfor.core.result.effects import Effects
from butfor.core.result.features import Features
from butfor.core.result.kept import Chunk, Kept
from butfor.core.result.result import Result
from butfor.core.select.choice import Choice, LearningUnits
from butfor.core.test.evidence import Evidence
from butfor.core.test.flips import Nearest
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
    """The inverse of what `pack` made; the content is checked before."""
    check_problem(arrays, metadata["subset_names"], problem)
    values = arrays["evidence"]
    fields = {name: arrays[name] for name in ARRAYS}
    fields["surprise"] = arrays["surprise"] if "surprise" in arrays else np.full(len(values), np.nan)
    evidence = Evidence(kind=metadata["kind"], values=values, least=np.zeros(len(values)), **fields)
    problem = replace(problem, layers=_unpack_layers(arrays, not problem.items.shares_subsets))
    names = metadata["output_names"]
    return Result(
        input_names=tuple(metadata["input_names"]),
        subset_names=tuple(metadata["subset_names"]),
        input_of=arrays["input_of"],
        subset_of=arrays["subset_of"],
        evidence=evidence,
        effects=Effects(arrays["effect"], arrays["effect_low"], arrays["effect_high"], arrays.get("fresh")),
        chosen=arrays["chosen"],
        run_notes=tuple(metadata["run_notes"]),
        output_names=None if names is None else tuple(names),
        problem=problem,
        outputs=arrays["outputs"] if "outputs" in arrays else _unknown(metadata),
        kept=_unpack_kept(metadata, arrays),
        choice=_unpack_choice(metadata, arrays, problem),
        decided=_unpack_decided(metadata, arrays),
        over_inputs=_unpack_features(arrays),
        control=_unpack_control(arrays),
        **{name: metadata[name] for name in PLAIN},
    )


def _unpack_layers(arrays: dict[str, Array], stepwise: bool) -> Layers | None:
    """Of images and texts, whose subsets are their own, parts are drawn only where the larger ones were chosen."""
    return Layers(arrays["resolution"], arrays["parent"], stepwise) if "resolution" in arrays else None


def _unpack_choice(metadata: dict[str, Any], arrays: dict[str, Array], problem: Problem) -> Choice:
    provenance = metadata["provenance"]
    return Choice(
        rule=metadata["rule"],
        alpha=metadata["alpha"],
        families=arrays["input_of"] if metadata["family"] == "input" else None,
        layers=problem.layers,
        calibrated=arrays.get("calibrated"),
        draws=provenance["draws"],
        floor=arrays.get("floor"),
        units=LearningUnits(arrays["cluster"], arrays["label"]) if "cluster" in arrays else None,
        weights=(arrays["weights"], arrays["nulls"]) if "weights" in arrays else None,
    )


def _unpack_decided(metadata: dict[str, Any], arrays: dict[str, Array]) -> Decided | None:
    if "level" not in metadata:
        return None
    held, near = metadata["nearest"], {}
    for key, distance in held["distances"].items():
        piece = held["texts"].get(key, arrays.get(f"nearest {key}"))
        near[int(key)] = Nearest(piece, arrays[f"nearest outputs {key}"], distance)
    stay = Stay(**{name: arrays[f"stay {name}"] for name in STAY}) if "stay share" in arrays else None
    found = {name: arrays[f"decided {name}"] for name in DECIDED}
    return Decided(**found, level=metadata["level"], nearest=near, stay=stay)


def _unpack_features(arrays: dict[str, Array]) -> Features | None:
    if "over inputs p" not in arrays:
        return None
    return Features(**{name: arrays[f"over inputs {name}"] for name in OVER_INPUTS})


def _unpack_control(arrays: dict[str, Array]) -> Control | None:
    if "control" not in arrays:
        return None
    return Control(arrays["control"], arrays["control chosen"], arrays.get("control calibrated"))


def _unknown(metadata: dict[str, Any]) -> Floats:
    """Of a file of an earlier version, in which the outputs on the inputs are not."""
    return np.full((len(metadata["input_names"]), 0), np.nan)
