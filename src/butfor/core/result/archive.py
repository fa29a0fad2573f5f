"""Result -> arrays and metadata, as a file holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.core.draw.items import TableItems
from butfor.core.result.storage import plain
from butfor.core.types import Array

if TYPE_CHECKING:
    from butfor.core.result.result import Result

PLAIN = ("alpha", "rule", "family", "rows", "rows_asked", "provenance")
ARRAYS = ("varied", "observed", "classes", "draws", "open", "drawable", "scale")
DECIDED = ("share", "low", "high", "necessary", "draws", "added")
STAY = ("share", "low", "high", "sufficient")
OVER_INPUTS = ("effect", "low", "high", "p", "chosen", "inputs")
MOST_KEPT = 2400  # hypotheses whose counterfactuals go into a file, the chosen first: what a report can show


def pack(result: Result) -> tuple[dict[str, Any], dict[str, Array]]:
    """Metadata and arrays of a result."""
    evidence, effects, problem = result.evidence, result.effects, result.problem
    arrays: dict[str, Array] = {
        "input_of": result.input_of,
        "subset_of": result.subset_of,
        "chosen": result.chosen,
        "evidence": evidence.values,
        **{name: getattr(evidence, name) for name in ARRAYS},
        "effect": effects.effect,
        "effect_low": effects.low,
        "effect_high": effects.high,
        "outputs": result.outputs,
        **({} if effects.fresh is None else {"fresh": effects.fresh}),
    }
    metadata: dict[str, Any] = {
        "kind": evidence.kind,
        "input_names": [_plain_name(name) for name in result.input_names],
        "subset_names": list(result.subset_names),
        "output_names": None if result.output_names is None else list(map(_plain_name, result.output_names)),
        "run_notes": list(result.run_notes),
        **{name: getattr(result, name) for name in PLAIN},
    }
    if isinstance(problem.items, TableItems):
        arrays["inputs"] = problem.items.values
        metadata["subsets"] = {subset.name: subset.index.tolist() for subset in problem.subsets}
    else:
        metadata["subsets"] = [[block.subset.name, plain(block.subset.index)] for block in problem.blocks]
        metadata["owners"] = [block.start for block in problem.blocks]
    _pack_kept(result, metadata, arrays)
    _pack_answers(result, metadata, arrays)
    return metadata, arrays


def _pack_answers(result: Result, metadata: dict[str, Any], arrays: dict[str, Array]) -> None:
    """What there is beside the choice: layers, weights, decisions, features over all inputs, the control."""
    arrays["surprise"] = result.evidence.surprise
    layers, choice, decided, control = result.problem.layers, result.choice, result.decided, result.control
    if layers is not None:
        arrays |= {"resolution": layers.resolution, "parent": layers.parent}
    if choice is not None and choice.units is not None:
        arrays |= {"cluster": choice.units.cluster, "label": choice.units.label}
    if choice is not None and choice.weights is not None:
        arrays |= {"weights": choice.weights[0], "nulls": choice.weights[1]}
    if choice is not None and choice.floor is not None:
        arrays["floor"] = choice.floor
    if choice is not None and choice.calibrated is not None:
        arrays["calibrated"] = choice.calibrated
    if decided is not None:
        arrays |= {f"decided {name}": getattr(decided, name) for name in DECIDED}
        metadata["level"] = decided.level
        if decided.stay is not None:
            arrays |= {f"stay {name}": getattr(decided.stay, name) for name in STAY}
        _pack_nearest(result, metadata, arrays)
    if result.over_inputs is not None:
        arrays |= {f"over inputs {name}": getattr(result.over_inputs, name) for name in OVER_INPUTS}
    if control is not None:
        arrays |= {"control": control.p, "control chosen": control.chosen}
        if control.calibrated is not None:
            arrays["control calibrated"] = control.calibrated


def _pack_nearest(result: Result, metadata: dict[str, Any], arrays: dict[str, Array]) -> None:
    """The nearest counterfactuals that change a decision: texts as JSON, numbers and pixels as arrays."""
    assert result.decided is not None
    order = np.argsort(~(result.chosen | result.decided.necessary), kind="stable").tolist()
    rows = [row for row in order if row in result.decided.nearest][:MOST_KEPT]
    texts: dict[str, str] = {}
    distances: dict[str, float] = {}
    for row in rows:
        nearest = result.decided.nearest[row]
        if isinstance(nearest.piece, str):
            texts[str(row)] = nearest.piece
        elif np.asarray(nearest.piece).dtype.kind in "fiub":
            arrays[f"nearest {row}"] = np.asarray(nearest.piece)
        else:
            continue
        distances[str(row)] = nearest.distance
        arrays[f"nearest outputs {row}"] = nearest.outputs
    metadata["nearest"] = {"texts": texts, "distances": distances}


def _pack_kept(result: Result, metadata: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Counterfactuals that were kept: texts as JSON, numbers and pixels as arrays, inputs of several parts not."""
    order = np.argsort(~result.chosen, kind="stable").tolist()
    rows = [row for row in order if row in result.kept][:MOST_KEPT]
    texts: dict[str, list[str]] = {}
    for row in rows:
        pieces = result.kept.pieces(row)
        if all(isinstance(piece, str) for piece in pieces):
            texts[str(row)] = list(pieces)
        elif len({np.shape(piece) for piece in pieces}) == 1 and np.asarray(pieces[0]).dtype.kind in "fiub":
            arrays[f"kept {row}"] = np.asarray(pieces)
        else:
            continue
        arrays[f"kept outputs {row}"] = result.kept.outputs(row)
    metadata["kept"] = texts
    metadata["listed"] = [row for row in rows if result.kept.listed(row)]


def _plain_name(name: object) -> str | int | float | bool | None:
    name = name.item() if isinstance(name, np.generic) else name
    return name if isinstance(name, str | int | float | bool) else str(name)
