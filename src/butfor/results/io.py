"""Arrays and metadata of a file -> the result that was saved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from butfor.evaluation.hypotheses import Layers, Problem
from butfor.inference.decisions import Nearest
from butfor.inference.effects import Effects
from butfor.inference.features import Features
from butfor.inference.guarantees import P_RULES, PROMISES
from butfor.inference.selection import Choice, LearningUnits
from butfor.inference.statistics import Evidence, EvidenceKind
from butfor.results.result import Chunk, Control, Decided, Kept, Result, Stay
from butfor.results.storage import ARRAYS, DECIDED, OVER_INPUTS, PLAIN, STAY
from butfor.types import Alternative, Array, Family, Floats, Ints

Check = Callable[[Any], bool]
KINDS = {"osft": "z", "few-shot": "w"}  # evidence of a test; of others p, or e with rule e-bh
MOST_DRAWS = 10**9


def is_text(value: object) -> bool:
    return isinstance(value, str)


def is_flag(value: object) -> bool:
    return isinstance(value, bool)


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def is_seed(value: object) -> bool:
    """Those of generators have up to 128 bits."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**128


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def is_share(value: object) -> bool:
    return isinstance(value, float) and 0 < value < 1


def is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def maybe(check: Check) -> Check:
    return lambda value: value is None or check(value)


def among(*allowed: object) -> Check:
    return lambda value: is_scalar(value) and value in allowed


def each(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def is_subsets(value: object) -> bool:
    """Names, each with the columns it is of."""
    return isinstance(value, dict) and all(map(each(is_count), value.values()))


def is_selection(value: object) -> bool:
    """A rule, its alpha and the family."""
    kinds = (is_text, is_number, is_text)
    return (
        isinstance(value, list) and len(value) == 3 and all(check(one) for check, one in zip(kinds, value, strict=True))
    )


PROVENANCE: dict[str, Check] = {  # what is not named here is shown as it is, and never computed with
    "test": among(*PROMISES),
    "alternative": among(*get_args(Alternative)),
    "target": is_scalar,
    "link": among(None, "logit", "log"),
    "h": maybe(is_count),
    "delta": maybe(is_number),
    "picked": is_flag,
    "min_effect": maybe(is_number),
    "seed": is_seed,
    "selection": maybe(is_selection),
    "floor": lambda value: is_number(value) and 0 <= value <= 1,
    "dependence_ignored": is_flag,
    "interrupted": is_flag,
    "deterministic": is_flag,
    "controlled": maybe(is_flag),
    "modality": among("table", "image", "text", "multimodal"),
    "data_dependent": is_flag,
    "files": maybe(each(is_text)),
    "longest": maybe(lambda value: is_count(value) and value > 0),
    "most_pixels": is_count,
    "pixels": maybe(each(is_text)),
    "texts": maybe(each(is_text)),
    "units": maybe(is_text),
    "draws": lambda value: is_count(value) and 0 < value <= MOST_DRAWS,
    "rounds": each(is_count),
    "set_aside": is_count,
    "columns": each(is_text),
    "frame": is_flag,
    "labels": maybe(each(is_scalar)),
    "kinds": each(lambda value: isinstance(value, dict)),
    "loss": maybe(is_text),
    "fit": is_text,
    "why": maybe(is_text),
    "judged": maybe(is_text),
}
NEEDED = ("test", "target", "picked", "delta", "dependence_ignored", "h", "draws", "interrupted", "seed", "alternative")
METADATA: dict[str, Check] = {
    "kind": among(*get_args(EvidenceKind)),
    "input_names": each(is_scalar),
    "subset_names": each(is_text),
    "output_names": maybe(each(is_scalar)),
    "run_notes": each(is_text),
    "alpha": is_share,
    "family": among(*get_args(Family)),
    "rows": is_count,
    "rows_asked": is_count,
    "provenance": lambda value: isinstance(value, dict),
}
SHAPES: dict[str, tuple[str, str]] = {  # of each array: kinds of its numbers, and its shape in inputs, subsets, H
    **dict.fromkeys(
        ("input_of", "subset_of", "classes", "draws", "resolution", "parent", "cluster", "label"), ("iu", "H")
    ),
    **dict.fromkeys(("chosen", "varied", "open", "drawable", "fresh", "calibrated"), ("b", "H")),
    **dict.fromkeys(("evidence", "observed", "scale", "effect", "effect_low", "effect_high", "surprise"), ("f", "H")),
    **dict.fromkeys(("weights", "nulls", "floor"), ("f", "H")),
    **dict.fromkeys((f"decided {name}" for name in ("share", "low", "high")), ("f", "H")),
    **dict.fromkeys((f"decided {name}" for name in ("draws", "added")), ("iu", "H")),
    "decided necessary": ("b", "H"),
    **dict.fromkeys((f"stay {name}" for name in ("share", "low", "high")), ("f", "H")),
    "stay sufficient": ("b", "H"),
    **dict.fromkeys((f"over inputs {name}" for name in ("effect", "low", "high", "p")), ("f", "S")),
    "over inputs chosen": ("b", "S"),
    "over inputs inputs": ("iu", "S"),
    "control": ("f", "cS"),
    "control chosen": ("b", "cS"),
    "control calibrated": ("b", "S"),
    "outputs": ("f", "no"),
    "inputs": ("f", "nw"),
}
GLOBAL: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("p", "statistic", "difference", "effect", "low", "high"), ("f", "S")),
    **dict.fromkeys(("varied", "chosen"), ("b", "S")),
    "classes": ("iu", "nS"),
}


def check_saved(metadata: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Raise ValueError at the first thing that a result of `explain` could not be made of."""
    _check_fields(metadata, METADATA, METADATA, "")
    provenance = metadata["provenance"]
    _check_fields(provenance, PROVENANCE, NEEDED, "provenance ")
    rule, test = metadata.get("rule"), provenance["test"]
    if not is_text(rule) or rule not in PROMISES[test]:
        raise ValueError(f"the rule {_short(rule)} does not go with the test {test}")
    if metadata["kind"] != KINDS.get(test, "e" if rule == "e-bh" else "p"):
        raise ValueError(f"evidence of kind {metadata['kind']} does not come from the test {test}")
    sizes = {"n": len(metadata["input_names"]), "S": len(metadata["subset_names"]), "H": len(arrays["evidence"])}
    if 0 in sizes.values():
        raise ValueError("it has no inputs, no subsets or no hypotheses")
    pixels = provenance.get("pixels")
    if pixels is not None and len(pixels) != sizes["n"]:
        raise ValueError(f"it has checksums of {len(pixels)} images and {sizes['n']} inputs")
    outputs = _check_shapes(arrays, SHAPES, sizes).get("o", 0)
    _check_values(metadata, arrays, sizes, outputs)
    _check_kept(metadata, arrays, sizes["H"], outputs)


def check_saved_global(metadata: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """The same for one of `global_importance`."""
    named = {"subset_names": each(is_text), "warned": each(is_text), "provenance": METADATA["provenance"]}
    counts = dict.fromkeys(("inputs", "rows", "draws", "passes"), is_count)
    plain = {"mode": among("holdout", "contrast"), "rule": among(*P_RULES), "alpha": is_share, **named, **counts}
    _check_fields(metadata, plain, plain, "")
    told = PROVENANCE | {"test": is_text, "subsets": is_subsets, "stand_ins": each(each(is_text))}
    provenance = metadata["provenance"]
    _check_fields(provenance, told | {"called": each(is_scalar)}, (), "provenance ")
    width = len(provenance.get("columns", ()))
    if any(place >= width for own in provenance.get("subsets", {}).values() for place in own):
        raise ValueError("its subsets are of columns that are not there")
    said = "loss" if metadata["mode"] == "holdout" else "alternative"
    if not is_text(metadata["provenance"].get(said)):
        raise ValueError(f"its provenance {said} is missing")
    _check_shapes(arrays, GLOBAL, {"n": metadata["inputs"], "S": len(metadata["subset_names"])})
    if set(GLOBAL) - set(arrays) or not metadata["subset_names"]:
        raise ValueError(f"it lacks {', '.join(sorted(set(GLOBAL) - set(arrays))) or 'subsets'}")
    if not ((arrays["p"] >= 0) & (arrays["p"] <= 1)).all():
        raise ValueError("its p-values lie outside 0 and 1")
    check = metadata.get("check")
    words = {"subset_names": each(is_text), "verdicts": each(is_text), "ok": is_flag, "sentence": is_text}
    if check is not None:
        if not isinstance(check, dict) or set(check) != set(words):
            raise ValueError("its check of the sampler is garbled")
        _check_fields(check, words, words, "check ")
        if len(check["subset_names"]) != len(check["verdicts"]):
            raise ValueError("its check of the sampler is garbled")


def check_problem(arrays: Mapping[str, Array], names: list[str], problem: Problem) -> None:
    """Refuse hypotheses that are not those of the inputs and subsets in the same file."""
    same = np.array_equal(problem.input_of, arrays["input_of"]) and np.array_equal(
        problem.subset_of, arrays["subset_of"]
    )
    if not same or list(problem.subset_names) != names:
        raise ValueError("its hypotheses are not those of its inputs and subsets")


def kept_arrays(arrays: Mapping[str, Array]) -> Iterator[tuple[int, Array]]:
    """Hypotheses and the counterfactuals that are kept of them as numbers or pixels, the nearest ones included."""
    for name, array in arrays.items():
        what, _, row = name.partition(" ")
        if what in ("kept", "nearest") and row.isdecimal():
            yield int(row), array


def _check_fields(found: Mapping[str, Any], checks: Mapping[str, Check], needed: Any, what: str) -> None:
    for name, check in checks.items():
        if name not in found:
            if name in needed:
                raise ValueError(f"its {what}{name} is missing")
        elif not check(found[name]):
            raise ValueError(f"its {what}{name} is {_short(found[name])}")


def _short(value: object) -> str:
    return " ".join(f"{value!r:.60}".split())


def _check_shapes(
    arrays: Mapping[str, Array], shapes: Mapping[str, tuple[str, str]], sizes: Mapping[str, int]
) -> dict[str, int]:
    """Sizes by letter, those that are free as the first array has them."""
    known = dict(sizes)
    for name, (kind, letters) in shapes.items():
        if name not in arrays:
            continue
        array = arrays[name]
        fits = array.ndim == len(letters) and array.dtype.kind in kind
        if not fits or any(
            known.setdefault(letter, size) != size for letter, size in zip(letters, array.shape, strict=True)
        ):
            raise ValueError(f"its array {name!r} is {array.dtype} of shape {array.shape}")
    return known


def _check_values(
    metadata: Mapping[str, Any], arrays: Mapping[str, Array], sizes: Mapping[str, int], outputs: int
) -> None:
    evidence = arrays["evidence"]
    ends = {"p": (0, 1), "e": (0, np.inf)}.get(metadata["kind"], (-np.inf, np.inf))
    if not ((evidence >= ends[0]) & (evidence <= ends[1])).all():
        raise ValueError(f"its evidence is not what {metadata['kind']} can be")
    names = metadata["output_names"]
    if names is not None and outputs not in (0, len(names)):
        raise ValueError(f"it names {len(names)} outputs and has {outputs}")
    _within(arrays["classes"], "classes", 0, len(names) if names is not None else max(outputs, 1))
    _within(arrays["input_of"], "input_of", 0, sizes["n"])
    _within(arrays["subset_of"], "subset_of", 0, sizes["S"])
    if "resolution" in arrays:
        resolution, parent = arrays["resolution"], arrays["parent"]
        _within(parent, "parent", -1, sizes["H"])
        _within(resolution, "resolution", 0, 2**20)
        above = parent >= 0
        if not (resolution[parent[above]] < resolution[above]).all():  # else whoever climbs up would climb for ever
            raise ValueError("a part of it is as large as what it is a part of")


def _within(values: Ints, name: str, least: int, most: int) -> None:
    if values.size and not (least <= values.min() and values.max() < most):
        raise ValueError(f"its {name} lie outside {least} to {most - 1}")


def _check_kept(metadata: Mapping[str, Any], arrays: Mapping[str, Array], hypotheses: int, outputs: int) -> None:
    """Counterfactuals by hypothesis: as many outputs as there are of them, and rows that exist."""
    texts, listed = metadata.get("kept", {}), metadata.get("listed", [])
    if not isinstance(texts, dict) or not each(is_count)(listed) or not all(map(each(is_text), texts.values())):
        raise ValueError("the counterfactuals that it keeps are garbled")
    numbers = {name[5:]: len(arrays[name]) for name in arrays if name.startswith("kept ") and name[5:].isdecimal()}
    for row, count in {**{row: len(own) for row, own in texts.items()}, **numbers}.items():
        said = arrays.get(f"kept outputs {row}")
        if not row.isdecimal() or int(row) >= hypotheses or said is None or said.shape != (count, outputs):
            raise ValueError(f"the counterfactuals of hypothesis {_short(row)} do not fit their outputs")
        if said.dtype.kind != "f":
            raise ValueError(f"the outputs of the counterfactuals of hypothesis {row} are {said.dtype}")
    if "level" in metadata:
        _check_nearest(metadata, arrays, hypotheses, outputs)


def _check_nearest(metadata: Mapping[str, Any], arrays: Mapping[str, Array], hypotheses: int, outputs: int) -> None:
    found = metadata.get("nearest")
    texts, distances = (found.get("texts"), found.get("distances")) if isinstance(found, dict) else (None, None)
    if not is_number(metadata["level"]) or not isinstance(texts, dict) or not isinstance(distances, dict):
        raise ValueError("the nearest counterfactuals that it keeps are garbled")
    for row, distance in distances.items():
        said = arrays.get(f"nearest outputs {row}")
        held = is_text(texts.get(row)) or f"nearest {row}" in arrays
        known = row.isdecimal() and int(row) < hypotheses
        if not (known and held and is_number(distance) and said is not None and said.shape == (outputs,)):
            raise ValueError(f"the nearest counterfactual of hypothesis {_short(row)} is garbled")


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
