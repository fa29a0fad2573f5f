"""Arrays and metadata <-> one zip file: npz and JSON, versioned, no pickle."""

from __future__ import annotations

import base64
import io
import json
import math
import os
import zipfile
from collections.abc import Callable
from functools import singledispatch
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.evaluation.items import TableItems
from butfor.types import Array, InputError
from butfor.untrusted import BROKEN, FLOOR, TIMES, array_in, opened, parse_json, sentence, unpacked

if TYPE_CHECKING:
    from butfor.results.result import Result


FORMAT = 1
FACTS, ARRAY_FILE = "facts.json", "arrays.npz"
MOST_BYTES = 700_000_000  # unpacked; larger ones are read by those who ask for it
GIVE = "give a file written by result.save"


def write(path: Path, metadata: dict[str, Any], arrays: dict[str, Array]) -> Path:
    """Write both into one file."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)

    def archive(part: Path) -> None:
        with zipfile.ZipFile(part, "w") as file:
            file.writestr(FACTS, json.dumps({"format": FORMAT, **metadata}))
            file.writestr(ARRAY_FILE, buffer.getvalue())

    return write_whole(path, archive)


def write_whole(path: Path, write_part: Callable[[Path], object]) -> Path:
    """Write a file, or nothing: it appears whole under its name or not at all."""
    if not path.name:  # "", "." and "/" are folders
        raise InputError(f"{str(path)!r} is a folder; name a file in it")
    part = path.with_name(path.name + ".part")
    try:
        write_part(part)
        os.replace(part, path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; choose a folder that exists") from error
    finally:
        part.unlink(missing_ok=True)
    return path


@singledispatch
def plain(index: Any) -> Any:
    """The index of a subset as JSON: numbers, text, lists of them; a mask as its shape and its bits."""
    return index if isinstance(index, str | int | float | bool | None) else str(index)


@plain.register(list)
@plain.register(tuple)
def _(index: list[Any] | tuple[Any, ...]) -> list[Any]:
    return [plain(part) for part in index]


@plain.register(np.generic)
def _(index: np.generic) -> Any:
    return index.item()


@plain.register(np.ndarray)
def _(index: Array) -> Any:
    if index.dtype != np.bool_:
        return index.tolist()
    packed = base64.b64encode(np.packbits(index).tobytes()).decode("ascii")
    return {"mask": list(index.shape), "bits": packed}


def unplain(index: Any) -> Any:
    """The inverse of `plain`, but that a list comes back as a tuple.

    >>> unplain(plain((3, 4))), unplain(plain(np.array([[True, False]]))).tolist()
    ((3, 4), [[True, False]])
    """
    if isinstance(index, dict) and "mask" in index:
        bits = np.frombuffer(base64.b64decode(index["bits"]), np.uint8)
        size = math.prod(index["mask"])
        if size > 8 * len(bits):
            raise ValueError(f"a mask of {index['mask']} has {8 * len(bits)} bits")
        return np.unpackbits(bits, count=size).astype(np.bool_).reshape(index["mask"])
    return tuple(unplain(part) for part in index) if isinstance(index, list) else index


def read(path: Path, most_bytes: int | None = None) -> tuple[dict[str, Any], dict[str, Array]]:
    """Metadata and arrays, or one sentence on why the file is not a result.

    Nothing is unpacked before its size is known: 128 MB of it, or 30 times the file's size up to 700 MB, or what
    `most_bytes` allows.
    """
    try:
        size = path.stat().st_size
        most = max(FLOOR, min(TIMES * size, MOST_BYTES)) if most_bytes is None else most_bytes
        with opened(path, size, most) as archive:
            metadata = parse_json(unpacked(archive, FACTS))
            held = archive.getinfo(ARRAY_FILE)
            if held.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"its part {ARRAY_FILE!r} is packed twice")
            with archive.open(ARRAY_FILE) as part, opened(part, held.file_size, most) as inner:
                arrays = {name.removesuffix(".npy"): array_in(inner, name) for name in inner.namelist()}
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist; give a file written by result.save") from error
    except BROKEN as error:
        larger = ", or a larger most_bytes= to butfor.load" if "are read" in str(error) else ""
        raise sentence(f"{path} is not a saved butfor result", error, f"{GIVE}{larger}") from error
    if not isinstance(metadata, dict) or (metadata.get("format") == FORMAT and "provenance" not in metadata):
        raise InputError(f"{path} is not a saved butfor result; {GIVE}")
    if metadata.get("format") != FORMAT:
        raise InputError(
            f"{path} has format {str(metadata.get('format'))[:40]}, this butfor reads format {FORMAT}; update butfor"
        )
    return metadata, arrays


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


def later(name: str) -> Callable[..., Any]:
    """The function of that name in a later folder, "butfor.report:write"; only methods of results may ask for one.

    >>> later("butfor.report:write").__name__
    'write'
    """
    module, function = name.split(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found
