"""A result <-> one zip file: arrays (npz) and JSON, versioned, no pickle. What a file holds is checked by types."""

from __future__ import annotations

import base64
import io
import json
import math
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from butfor import untrusted
from butfor.evaluation.hypotheses import Hypotheses
from butfor.evaluation.items import TableItems
from butfor.evaluation.progress import Rows
from butfor.inference.decisions import Nearest
from butfor.inference.effects import Effects
from butfor.inference.features import Features
from butfor.inference.guarantees import PROMISES
from butfor.inference.selection import Choice, Layers, LearningUnits
from butfor.inference.statistics import Evidence, EvidenceKind
from butfor.results.record import Count, ImageInputs, RunRecord, Scalar, plain, read, short
from butfor.results.result import Chunk, Control, Decided, Fills, Kept, KeptSet, Moved, Result, Sets, Stay
from butfor.results.where import SHARES as WHERE
from butfor.results.where import Cells, Located
from butfor.results.words import Note, as_note
from butfor.types import Array, Bools, Family, Floats, InputError, Ints

FACTS, ARRAY_FILE = "facts.json", "arrays.npz"
MOST_BYTES = 700_000_000  # unpacked; larger ones are read by those who ask for it
MOST_KEPT = 2400  # hypotheses whose counterfactuals go into a file, the chosen first: what a report can show
GIVE = "give a file written by result.save"
RANGES = {"p": (0.0, 1.0), "e": (0.0, np.inf)}  # of evidence
KINDS = {"osft": "z", "few-shot": "w"}  # evidence of a test; of others p, or e with rule e-bh


@dataclass(frozen=True)
class Facts:
    """All of a result that is no array."""

    record: RunRecord
    kind: EvidenceKind
    input_names: tuple[Scalar, ...]
    subset_names: tuple[str, ...]
    alpha: Annotated[float, (1e-300, 1 - 1e-16)]
    rule: str
    family: Family
    rows: Count
    subsets: tuple[tuple[str, Any, str], ...]  # name, index and key: of a table each once, else block by block
    owners: tuple[Count, ...] | None = None  # the input of each block; None: a table
    control_rows: Count = 0  # of `rows`
    rows_asked: Count = 0
    output_names: tuple[Scalar, ...] | None = None
    run_notes: tuple[Note, ...] = ()
    texts: dict[str, tuple[str, ...]] = field(default_factory=dict)  # counterfactuals: "kept 3", "nearest 3"
    listed: tuple[Count, ...] = ()
    distances: dict[str, tuple[float, ...]] = field(default_factory=dict)  # of the nearest counterfactuals
    level: float | None = None  # of decisions
    least: float | None = None  # what moves an output by more than little
    enough: float | None = None  # level of sets of columns that are enough for decisions
    sets: tuple[KeptSet, ...] = ()
    pooled: bool = False
    located: Count | None = None  # evaluations of each image that was asked without boxes
    format: Literal[3] = 3


FORMAT = Facts.format
PARTS: dict[str, tuple[type, str]] = {  # records of arrays, and the shape of these: H hypotheses, S subsets
    "evidence": (Evidence, "H"),
    "effects": (Effects, "H"),
    "decided": (Decided, "H"),
    "stay": (Stay, "H"),
    "moved": (Moved, "H"),
    "sets": (Sets, "n"),
    "fills": (Fills, "H"),
    "cells": (Cells, "C"),
    "layers": (Layers, "H"),
    "units": (LearningUnits, "H"),
    "features": (Features, "S"),
    "control": (Control, "S"),
}
OTHERS = {  # arrays of a result, and of its choice: type and shape; n inputs, o outputs, w columns, c control rows
    **dict.fromkeys(("input_of", "subset_of"), (Ints, "H")),
    **dict.fromkeys(("chosen", "calibrated"), (Bools, "H")),
    **dict.fromkeys(("difference", "weights", "nulls", "floor"), (Floats, "H")),
    "control.p": (Floats, "cS"),
    "control.chosen": (Bools, "cS"),
    "outputs": (Floats, "no"),
    "inputs": (Floats, "nw"),
    "maps": (Floats, "nGG"),
    "labels": (Ints, "nLL"),
}


@cache
def _array_types(part: str) -> dict[str, Any]:
    """Return the fields of a part that are arrays, with their types."""
    types = {}
    for name, hint in get_type_hints(PARTS[part][0]).items():
        members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        if arrays := [one for one in members if one in (Floats, Ints, Bools)]:
            types[name] = arrays[0]
    return types


def pack(result: Result) -> tuple[dict[str, Any], dict[str, Array]]:
    hypotheses, choice, decided, located = result.hypotheses, result.choice, result.decided, result.located
    is_table = isinstance(hypotheses.items, TableItems)
    named = ("evidence", "effects", "decided", "moved", "sets", "fills", "control")
    parts = {name: getattr(result, name) for name in named} | {
        "stay": None if decided is None else decided.stay,
        "cells": None if located is None else located.cells,
        "layers": hypotheses.layers,
        "units": None if choice is None else choice.units,
        "features": result.over_inputs,
    }
    weights, nulls = (None, None) if choice is None or choice.weights is None else choice.weights
    arrays: dict[str, Any] = {
        f"{part}.{name}": getattr(parts[part], name, None) for part in parts for name in _array_types(part)
    }
    arrays |= {name: getattr(result, name) for name in ("input_of", "subset_of", "chosen", "outputs")}
    arrays |= {name: getattr(located, name, None) for name in ("maps", "labels")}
    arrays["difference"] = result.difference if result.is_global else None
    arrays["inputs"] = hypotheses.items.values if isinstance(hypotheses.items, TableItems) else None
    arrays |= {"weights": weights, "nulls": nulls}
    arrays |= {name: getattr(choice, name, None) for name in ("floor", "calibrated")}
    arrays = {name: array for name, array in arrays.items() if array is not None}
    texts, kept, nearest = _pack_counterfactuals(result, arrays)
    names = result.output_names
    subsets = hypotheses.subsets if is_table else [block.subset for block in hypotheses.blocks]
    as_they_are = ("record", "subset_names", "alpha", "rule", "family", "rows", "rows_asked")
    facts = Facts(
        **{name: getattr(result, name) for name in as_they_are},
        kind=result.evidence.kind,
        input_names=tuple(map(_plain_name, result.input_names)),
        control_rows=result.rows.control if isinstance(result.rows, Rows) else 0,
        subsets=tuple((subset.name, plain_index(subset.index), subset.key) for subset in subsets),
        owners=None if is_table else tuple(block.start for block in hypotheses.blocks),
        output_names=None if names is None else tuple(map(_plain_name, names)),
        run_notes=tuple(map(as_note, result.run_notes)),
        texts=texts,
        listed=tuple(row for row in kept if result.kept.listed(row)),
        distances={str(row): tuple(decided.nearest[row].distances.tolist()) for row in nearest if decided is not None},
        level=None if decided is None else decided.level,
        least=None if result.moved is None else result.moved.least,
        enough=None if result.sets is None else result.sets.level,
        sets=() if result.sets is None else result.sets.sets,
        pooled=result.sets is not None and result.sets.pooled,
        located=None if located is None else located.draws,
    )
    return plain(facts), arrays


def _plain_name(name: object) -> Scalar:
    name = name.item() if isinstance(name, np.generic) else name
    return name if isinstance(name, str | int | float | bool) else str(name)


def _pack_counterfactuals(
    result: Result, arrays: dict[str, Array]
) -> tuple[dict[str, tuple[str, ...]], list[int], list[int]]:
    """Return counterfactual texts, the hypotheses of which some were kept, and those of which the nearest is."""
    texts: dict[str, tuple[str, ...]] = {}

    def packed(name: str, row: int, pieces: Any, outputs: Floats) -> bool:
        if all(isinstance(piece, str) for piece in pieces):
            texts[f"{name} {row}"] = tuple(pieces)
        elif len({np.shape(piece) for piece in pieces}) == 1 and np.asarray(pieces[0]).dtype.kind in "fiub":
            arrays[f"{name} {row}"] = np.asarray(pieces)  # numbers or pixels
        else:
            return False  # inputs of several parts are in no file
        arrays[f"{name} outputs {row}"] = outputs
        return True

    nearest = {} if result.decided is None else result.decided.nearest
    needed = result.chosen if result.decided is None else result.chosen | result.decided.necessary
    shown = result.chosen if result.located is None or result.moved is None else result.moved.moves
    order, closest = (np.argsort(~marked, kind="stable").tolist() for marked in (shown, needed))
    rows = [row for row in order if row in result.kept][:MOST_KEPT]
    kept = [row for row in rows if packed("kept", row, result.kept.pieces(row), result.kept.outputs(row))]
    rows = [row for row in closest if row in nearest][:MOST_KEPT]
    near = [row for row in rows if packed("nearest", row, nearest[row].pieces, nearest[row].outputs)]
    return texts, kept, near


def plain_index(index: Any) -> Any:
    """Return the index of a subset as JSON: numbers, text, lists of them; a mask as its shape and its bits."""
    if isinstance(index, np.ndarray) and index.dtype == np.bool_:
        packed = base64.b64encode(np.packbits(index).tobytes()).decode("ascii")
        return {"mask": list(index.shape), "bits": packed}
    if isinstance(index, np.ndarray | np.generic):
        return index.tolist()
    if isinstance(index, list | tuple):
        return [plain_index(part) for part in index]
    return index if isinstance(index, str | int | float | bool | None) else str(index)


def read_index(index: Any) -> Any:
    """Return the index whose `plain_index` was written, but that a list comes back as a tuple.

    >>> read_index(plain_index((3, 4))), read_index(plain_index(np.array([[True, False]]))).tolist()
    ((3, 4), [[True, False]])
    """
    if isinstance(index, dict) and "mask" in index:
        bits = np.frombuffer(base64.b64decode(index["bits"]), np.uint8)
        size = math.prod(index["mask"])
        if size > 8 * len(bits):
            raise ValueError(f"a mask of {index['mask']} has {8 * len(bits)} bits")
        return np.unpackbits(bits, count=size).astype(np.bool_).reshape(index["mask"])
    return tuple(read_index(part) for part in index) if isinstance(index, list) else index


def write(path: Path, facts: dict[str, Any], arrays: dict[str, Array]) -> Path:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)

    def archive(part: Path) -> None:
        with zipfile.ZipFile(part, "w") as file:
            file.writestr(FACTS, json.dumps(facts))
            file.writestr(ARRAY_FILE, buffer.getvalue())

    return write_whole(path, archive)


def write_whole(path: Path, write_part: Callable[[Path], object]) -> Path:
    """Write a file, or nothing: it appears complete under its name or not at all."""
    if not path.name:  # "", "." and "/" are folders
        raise InputError(f"{str(path)!r} is a folder; name a file in it")
    part = path.with_name(path.name + ".part")
    try:
        untrusted.private_file(part)  # nobody reads it while it is written
        write_part(part)
        part.chmod(_mode_of(path))
        os.replace(part, path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; choose a folder that exists") from error
    finally:
        part.unlink(missing_ok=True)
    return path


def _mode_of(path: Path) -> int:
    """Return who may read a file that is written anew: as before, else its owner alone."""
    with suppress(OSError):
        return path.stat().st_mode & 0o777
    return 0o600


def read_file(path: Path, most_bytes: int | None = None) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return JSON and arrays of a file, or raise one sentence on why it is not a result.

    Nothing is unpacked before its size is known: 128 MB of it, or 30 times the file's size up to 700 MB, or what
    `most_bytes` allows.
    """
    try:
        size = path.stat().st_size
        most = max(untrusted.FLOOR, min(untrusted.TIMES * size, MOST_BYTES)) if most_bytes is None else most_bytes
        with untrusted.opened(path, size, most) as archive:
            facts = untrusted.parse_json(untrusted.unpacked(archive, FACTS))
            inside = archive.getinfo(ARRAY_FILE)
            if inside.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"its part {ARRAY_FILE!r} is packed twice")
            with archive.open(ARRAY_FILE) as part, untrusted.opened(part, inside.file_size, most) as inner:
                arrays = {name.removesuffix(".npy"): untrusted.array_in(inner, name) for name in inner.namelist()}
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist; give a file written by result.save") from error
    except untrusted.BROKEN as error:
        larger = ", or a larger most_bytes= to butfor.load" if isinstance(error, untrusted.TooLarge) else ""
        raise untrusted.sentence(f"{path} is not a saved butfor result", error, f"{GIVE}{larger}") from error
    if not isinstance(facts, dict) or (facts.get("format") == FORMAT and "record" not in facts):
        raise InputError(f"{path} is not a saved butfor result; {GIVE}")
    if facts.get("format") != FORMAT:
        raise InputError(
            f"{path} has format {str(facts.get('format'))[:40]}, this butfor reads format {FORMAT}; update butfor"
        )
    return facts, arrays


def checked(facts: dict[str, Any], arrays: Mapping[str, Array]) -> Facts:
    """Return the facts of a file by their types; ValueError where they or the arrays are as no result could be."""
    known: Facts = read(Facts, facts, "")
    record, names = known.record, known.output_names
    for note in (*known.run_notes, *([] if record.judged is None else [record.judged])):
        str(note)  # raises where its values do not fit its code
    if known.rule not in PROMISES[record.test]:
        raise ValueError(f"the rule {short(known.rule)} does not go with the test {record.test}")
    if known.kind != KINDS.get(record.test, "e" if known.rule == "e-bh" else "p"):
        raise ValueError(f"evidence of kind {known.kind} does not come from the test {record.test}")
    if (record.test in ("holdout", "contrast")) != (record.importance is not None):
        raise ValueError(f"the test {record.test} does not go with its other settings")
    sizes = {"n": len(known.input_names), "S": len(known.subset_names), "H": len(arrays["evidence.values"])}
    if 0 in sizes.values() or (not record.draws and not record.exact):
        raise ValueError("it has no inputs, no subsets, no hypotheses or no draws")
    if isinstance(record.inputs, ImageInputs) and len(record.inputs.pixels) != sizes["n"]:
        raise ValueError(f"it has checksums of {len(record.inputs.pixels)} images and {sizes['n']} inputs")
    if record.importance is not None:
        check = record.importance.check
        if check is not None and len(check.subset_names) != len(check.verdicts):
            raise ValueError("its check of the sampler is garbled")
        if (record.test == "holdout") != (record.importance.loss is not None) or "difference" not in arrays:
            raise ValueError("its loss or its differences are missing")
        if sizes["n"] != 1 or sizes["H"] != sizes["S"]:
            raise ValueError("it has more than one hypothesis for each subset")
    types = {f"{part}.{name}": (of, PARTS[part][1]) for part in PARTS for name, of in _array_types(part).items()}
    for name, (of, letters) in (types | OTHERS).items():
        if (array := arrays.get(name)) is not None:  # sizes that are free are those of the first array
            codes = "f" if of == Floats else "b" if of == Bools else "iu"
            right = array.ndim == len(letters) and array.dtype.kind in codes
            axes = zip(letters, array.shape, strict=False)
            if not right or any(sizes.setdefault(letter, size) != size for letter, size in axes):
                raise ValueError(f"its array {name!r} is {array.dtype} of shape {array.shape}")
    outputs = sizes.get("o", 0)
    values, (least, most) = arrays["evidence.values"], RANGES.get(known.kind, (-np.inf, np.inf))
    if not ((values >= least) & (values <= most)).all():
        raise ValueError(f"its evidence is not what {known.kind} can be")
    if names is not None and outputs not in (0, len(names)):
        raise ValueError(f"it names {len(names)} outputs and has {outputs}")
    _within(arrays["evidence.classes"], "classes", 0, len(names) if names is not None else max(outputs, 1))
    _within(arrays["input_of"], "input_of", 0, sizes["n"])
    _within(arrays["subset_of"], "subset_of", 0, sizes["S"])
    if "layers.resolution" in arrays:
        resolution, parent = arrays["layers.resolution"], arrays["layers.parent"]
        _within(parent, "parent", -1, sizes["H"])
        _within(resolution, "resolution", 0, 2**20)
        if not (resolution[parent[parent >= 0]] < resolution[parent >= 0]).all():  # else who climbs up climbs for ever
            raise ValueError("a part of it is as large as what it is a part of")
    if known.located is not None:
        _within(arrays["cells.input_of"], "cells.input_of", 0, sizes["n"])
        _within(arrays["cells.label"], "cells.label", 0, sizes["L"] ** 2)
        if sizes["H"] != len(WHERE) * sizes["n"] or not sizes["G"]:
            raise ValueError("its regions are not those of its images")
    _check_counterfactuals(known, arrays, sizes["H"], outputs)
    return known


def _within(values: Ints, name: str, least: int, most: int) -> None:
    if values.size and not (least <= values.min() and values.max() < most):
        raise ValueError(f"its {name} lie outside {least} to {most - 1}")


def _check_counterfactuals(facts: Facts, arrays: Mapping[str, Array], hypotheses: int, outputs: int) -> None:
    """Refuse counterfactuals of hypotheses that are not there, or with another number of outputs than there are."""
    pieces = facts.texts | {f"{name} {row}": array for name, row, array in counterfactual_arrays(arrays)}
    for key, of in pieces.items():
        name, _, row = key.partition(" ")
        given = arrays.get(f"{name} outputs {row}")
        known = name in ("kept", "nearest") and row.isdecimal() and int(row) < hypotheses
        if not known or given is None or given.shape != (len(of), outputs) or given.dtype.kind != "f":
            raise ValueError(f"the counterfactuals of hypothesis {short(row)} do not fit their outputs")
    for row, distances in facts.distances.items():
        if not distances or len(pieces.get(f"nearest {row}", ())) != len(distances):
            raise ValueError(f"the nearest counterfactuals of hypothesis {short(row)} are missing")


def counterfactual_arrays(arrays: Mapping[str, Array]) -> Iterator[tuple[str, int, Array]]:
    """Yield "kept" or "nearest", hypotheses and their counterfactuals that are numbers or pixels."""
    for key, array in arrays.items():
        name, _, row = key.partition(" ")
        if name in ("kept", "nearest") and row.isdecimal():
            yield name, int(row), array


def unpack(facts: Facts, arrays: dict[str, Array], hypotheses: Hypotheses) -> Result:
    """Return the result that `pack` was given; its content is checked before."""
    fits = all(np.array_equal(getattr(hypotheses, name), arrays[name]) for name in ("input_of", "subset_of"))
    if not fits or hypotheses.subset_names != facts.subset_names:
        raise ValueError("its hypotheses are not those of its inputs and subsets")

    def part(name: str, **more: Any) -> Any:
        """Return a part whose arrays are there; None where it has none."""
        given = {one: arrays[f"{name}.{one}"] for one in _array_types(name) if f"{name}.{one}" in arrays}
        return PARTS[name][0](**given, **more) if given else None

    stepwise = not hypotheses.items.shares_subsets  # parts of texts are drawn where these are chosen
    layers = part("layers", stepwise=stepwise)
    hypotheses, importance = replace(hypotheses, layers=layers), facts.record.importance
    pieces = facts.texts | {f"{name} {row}": array for name, row, array in counterfactual_arrays(arrays)}
    chunks = (
        Chunk(np.array([row]), [pieces[f"kept {row}"]], arrays[f"kept outputs {row}"][None], row in facts.listed)
        for row in (int(key.removeprefix("kept ")) for key in pieces if key.startswith("kept "))
    )
    nearest = {
        int(row): Nearest(pieces[f"nearest {row}"], arrays[f"nearest outputs {row}"], np.array(distances))
        for row, distances in facts.distances.items()
    }
    choice = Choice(
        rule=facts.rule,
        alpha=facts.alpha,
        families=arrays["input_of"] if facts.family == "input" else None,
        layers=layers,
        calibrated=arrays.get("calibrated"),
        draws=facts.record.draws,
        floor=arrays.get("floor"),
        units=part("units"),
        weights=(arrays["weights"], arrays["nulls"]) if "weights" in arrays else None,
    )
    names = {one.name for one in fields(Result)} & {one.name for one in fields(Facts)} - {"rows", "sets", "located"}
    same = {name: getattr(facts, name) for name in names}
    same |= {name: arrays[name] for name in ("input_of", "subset_of", "chosen", "outputs")}
    same |= {name: part(name) for name in ("effects", "fills", "control")}
    where = () if facts.located is None else (part("cells"), arrays["maps"], arrays["labels"], facts.located)
    return Result(
        **same,
        rows=Rows(facts.rows, facts.control_rows),
        evidence=part("evidence", kind=facts.kind),
        hypotheses=hypotheses,
        kept=Kept(tuple(chunks)),
        choice=choice,
        decided=None if facts.level is None else part("decided", level=facts.level, nearest=nearest, stay=part("stay")),
        moved=None if facts.least is None else part("moved", least=facts.least),
        sets=None if facts.enough is None else part("sets", level=facts.enough, sets=facts.sets, pooled=facts.pooled),
        located=Located(*where) if where else None,
        over_inputs=part("features"),
        difference=arrays.get("difference", np.zeros(0)),
        check=None if importance is None else importance.check,
    )


def write_files(files: Mapping[str, Callable[[Path], Any]], out: Path) -> None:
    """Write files into `out` by the function that writes each of them: all of them appear, or none does."""
    created = not out.exists()
    try:
        untrusted.private_folder(out)
        with tempfile.TemporaryDirectory(prefix=".part-", dir=out) as stage:
            for name, write_one in files.items():
                write_one(Path(stage) / name)
                (Path(stage) / name).chmod(_mode_of(out / name))
                _to_disk(Path(stage) / name)
            for name in files:
                os.replace(Path(stage) / name, out / name)
            _to_disk(out)
    except BaseException as error:
        if created:
            with suppress(OSError):
                out.rmdir()  # what else is there, as a run directory, stays
        if isinstance(error, OSError):
            raise InputError(f"cannot write into {out}: {error.strerror or error}; name another folder") from error
        raise


def _to_disk(path: Path) -> None:
    """Wait until a file, or the listing of a folder, is on disk: what it came from is deleted next."""
    if path.is_dir() and os.name == "nt":
        return  # folders cannot be opened there
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
