"""Where, without boxes: false cells and regions on known truth; photographs beside LIME and SHAP's partition explainer.

Known truth: a picture of 28 x 28 and a model in numpy that reads a few places of it. Photographs: objects were outlined
by eye before anything ran (where_objects.json), all methods explain the predicted class with equally many evaluations,
and what they mark most is deleted with a fill that none of them uses, a blurred copy.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.figures import ROOT, Figures, assets_folder, quietly
from butfor import Result, image
from butfor.image.region import Image, mask_of
from butfor.image.where import FINE, nearest
from butfor.inference.statistics import softmax
from butfor.types import Array, Bools, Floats, Model

Truth = Literal["one", "two", "threshold", "nothing", "boundary", "skewed"]
TRUTHS: tuple[Truth, ...] = ("one", "two", "threshold", "nothing", "boundary", "skewed")
SIDE, SPOT = 28, 6  # pixels of a known picture, and of a place that matters
LITTLE = 0.05
DELETED = (0.05, 0.1, 0.2)  # of a photograph
Explain = Callable[[Model, Image, int, int, int, Sequence[Image]], Floats]
METHODS = ("where", "LIME", "SHAP, partition")


def run(
    assets: Path | None = None,
    *,
    runs: int = 500,
    evaluations: int = 250,
    photographs: int = 0,
    lines: Path | None = None,
    seed: int = 0,
) -> Figures:
    """Count false cells and regions in `runs` of each known truth; compare on the first `photographs`.

    `lines` is a file that gets a line for each truth, and each photograph and method, as soon as it is done; what it
    has is not measured again.
    """
    figures: Figures = {}
    if runs:
        given: list[Figures] = [
            {"truth": truth, "runs": runs, "evaluations": evaluations, "seed": seed} for truth in TRUTHS
        ]
        figures["known"] = [kept(lines, one, partial(known, **one)) for one in given]
    if photographs:
        figures["photographs"] = compared(assets, photographs, evaluations, seed, lines)
    return figures


@dataclass(frozen=True, eq=False)
class Known:
    """A picture, and a model of two classes that knows which of its pixels were redrawn."""

    truth: Truth
    picture: Image
    read: Bools  # (28, 28) what it reads

    def __call__(self, batch: Sequence[Image]) -> Floats:
        """Return probabilities (n, 2); each differs by a luck of its own, which only the whole picture tells."""
        same = np.array([(one == self.picture).all(axis=2) for one in batch])
        luck = np.array([_luck(one) for one in batch])
        p = self.probability(same[:, self.read].mean(axis=1) if self.read.any() else luck, luck)
        p = np.where(same.all(axis=(1, 2)), self.probability(np.ones(1), np.array([0.5]), own=True), p)
        return np.stack([1 - p, p], axis=1)

    def probability(self, kept: Floats, luck: Floats, *, own: bool = False) -> Floats:
        """Return the probability of class 1, by the share of what is read that was kept."""
        if self.truth == "nothing":
            return np.asarray(0.7 + 0.5 * (luck - 0.5))
        if self.truth == "boundary":  # .25 off in a fifth of draws
            return np.asarray(0.8 - (0.0 if own else 0.25) * (luck < 0.2))
        if self.truth == "skewed":  # .1 off in five sixths of draws, .2 more in the others
            return np.asarray(np.where(own, 0.8, np.where(luck < 5 / 6, 0.7, 1.0)))
        level = np.where(kept > 0.6, 0.85, 0.3) if self.truth == "threshold" else 0.2 + 0.6 * kept
        return np.asarray(level - 0.1 * (luck - 0.5))

    def drop(self, mask: Bools) -> float:
        """Return by how much the probability falls on average where a region is redrawn."""
        if self.truth in ("boundary", "skewed"):
            return LITTLE
        kept = np.ones(1) if not self.read.any() else 1 - mask[self.read].mean(keepdims=True)
        return float((self.probability(np.ones(1), np.full(1, 0.5)) - self.probability(kept, np.full(1, 0.5)))[0])


def bed(truth: Truth, seed: int) -> Known:
    """Return a picture of known truth: with "boundary" and "skewed" any redraw takes off exactly LITTLE on average."""
    rng = np.random.default_rng([seed, TRUTHS.index(truth)])
    picture = rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
    read = np.zeros((SIDE, SIDE), bool)
    for _ in range({"one": 1, "two": 2, "threshold": 2}.get(truth, 0)):
        y, x = rng.integers(0, SIDE - SPOT, 2)
        read[y : y + SPOT, x : x + SPOT] = True
    return Known(truth, picture, read)


def false_and_true(known: Known, result: Result) -> dict[str, bool]:
    """Return whether any cell and any region is false, and whether a true one of each was named."""
    assert result.located is not None
    assert result.moved is not None
    cells = result.located.cells
    full = result.located.labels[0][nearest(SIDE, FINE)][:, nearest(SIDE, FINE)]
    matters = np.isin(cells.label, full[known.read])
    drops = np.array([known.drop(mask_of(block.subset, SIDE, SIDE)) for block in result.hypotheses.blocks])
    small = drops <= LITTLE + 1e-9
    return {
        "false_cell": bool((cells.named & ~matters).any()),
        "false_region": bool((result.moved.moves & small).any()),
        "true_cell": bool((cells.named & matters).any()),
        "true_region": bool((result.moved.moves & ~small).any()),
    }


def known(truth: Truth, runs: int, evaluations: int, seed: int) -> Figures:
    """Return how often cells and regions are false, over so many pictures."""
    each, began = [], time.process_time()
    for number in range(runs):
        picture = bed(truth, seed + number)
        result = image.explain(picture, [picture.picture], boxes="where", draws=evaluations, seed=seed + number)
        each.append(false_and_true(picture, result))
    shares = {name: sum(one[name] for one in each) for name in each[0]}
    return shares | {"seconds": time.process_time() - began}


def kept(lines: Path | None, settings: Figures, measure: Callable[[], Figures]) -> Figures:
    """Return these settings with what is measured: the line that the file has of them, or else a new one."""
    known_lines = [] if lines is None or not lines.exists() else map(json.loads, lines.read_text().splitlines())
    for line in known_lines:
        if settings.items() <= line.items():
            return dict(line)
    made = settings | measure()
    if lines is not None:
        with lines.open("a") as file:
            file.write(json.dumps(made) + "\n")
    return made


# Photographs


def compared(assets: Path | None, count: int, evaluations: int, seed: int, lines: Path | None) -> list[Figures]:
    """Return a row for each method: how often its strongest mark is in the object, and what deleting its marks does."""
    place = assets_folder(assets, "efficientnet_lite0.onnx", image=True)
    objects = json.loads((ROOT / "benchmarks" / "where_objects.json").read_text())["objects"]
    files = image.folder(place / "paper")
    photographs = dict(zip(files.names, files, strict=True))
    network = image.onnx_classifier(place / "efficientnet_lite0.onnx", "whole", threads=1)

    def model(batch: Any) -> Floats:
        return softmax(np.asarray(network(list(batch)), np.float64))

    rows: list[Figures] = []
    names = list(objects)[:count]
    others = [photographs[name] for name in files.names if name not in names]
    for name in names:
        pixels = photographs[name]
        for method, explain in (("where", _where), ("LIME", lime_of), ("SHAP, partition", shap_of)):

            def measure(explain: Explain = explain, pixels: Image = pixels, name: str = name) -> Figures:
                label, began = int(np.asarray(model([pixels]))[0].argmax()), time.process_time()
                values = quietly(explain, model, pixels, label, evaluations, seed, others)
                seconds = time.process_time() - began
                return measured(model, pixels, label, values, objects[name]) | {"seconds": seconds}

            settings = {"method": method, "photograph": name, "evaluations": evaluations, "seed": seed}
            rows.append(kept(lines, settings, measure))
    return [averaged([row for row in rows if row["method"] == method]) for method in METHODS]


def averaged(rows: Sequence[Figures]) -> Figures:
    """Return the means over photographs."""
    out: Figures = {"method": rows[0]["method"], "photographs": len(rows), "evaluations": rows[0]["evaluations"]}
    out["in_object"] = sum(row["in_object"] for row in rows)
    for name in ("before", "after"):
        out[name] = float(np.mean([row[name] for row in rows]))
    out["seconds"] = float(np.median([row["seconds"] for row in rows]))  # the first of shap compiles
    return out | {"after_se": float(np.std([row["after"] for row in rows], ddof=1) / len(rows) ** 0.5)}


def measured(model: Model, pixels: Image, label: int, values: Floats, boxes: Sequence[Sequence[float]]) -> Figures:
    """Return whether what is marked most lies in the object, and the probability after deleting the most marked."""
    import cv2

    height, width = pixels.shape[:2]
    inside = np.zeros((height, width), bool)
    for x1, y1, x2, y2 in boxes:
        inside[round(y1 * height) : round(y2 * height), round(x1 * width) : round(x2 * width)] = True
    top = values >= values.max() - 1e-9 * abs(values.max())
    blurred = cv2.GaussianBlur(pixels, (0, 0), 0.06 * max(height, width))
    order = np.argsort(-values.ravel(), kind="stable")
    batch = [pixels]
    for share in DELETED:
        mask = np.zeros(values.size, bool)
        mask[order[: round(share * values.size)]] = True
        batch.append(np.where(mask.reshape(height, width, 1), blurred, pixels))
    p = np.asarray(model(batch), np.float64)[:, label]
    return {"in_object": bool(inside[top].mean() >= 0.5), "before": float(p[0]), "after": float(p[1:].mean())}


def _where(model: Model, pixels: Image, label: int, evaluations: int, seed: int, others: Sequence[Image]) -> Floats:
    import cv2

    result = image.explain(model, [pixels], target=label, draws=evaluations, seed=seed, donors=others)
    assert result.located is not None
    grid = result.located.maps[0]
    return np.asarray(cv2.resize(grid, pixels.shape[1::-1], interpolation=cv2.INTER_CUBIC))


def lime_of(model: Model, pixels: Image, label: int, evaluations: int, seed: int, others: Sequence[Image]) -> Floats:  # noqa: ARG001
    from lime.lime_image import LimeImageExplainer

    explainer = LimeImageExplainer(random_state=seed)
    options = {"labels": (0,), "top_labels": None, "batch_size": 32, "random_seed": seed}
    explanation = explainer.explain_instance(pixels.copy(), _one(model, label), num_samples=evaluations, **options)
    weights = dict(explanation.local_exp[0])
    values: Floats = np.vectorize(lambda part: float(weights.get(part, 0.0)))(explanation.segments)
    return values


def shap_of(model: Model, pixels: Image, label: int, evaluations: int, seed: int, others: Sequence[Image]) -> Floats:  # noqa: ARG001
    import shap

    explainer = shap.PartitionExplainer(_one(model, label), shap.maskers.Image("inpaint_telea", pixels.shape))
    explanation = explainer(pixels[None], max_evals=evaluations, batch_size=32, silent=True)
    return np.asarray(np.asarray(explanation.values)[0].reshape(*pixels.shape, -1).sum(axis=(2, 3)))


def _one(model: Model, label: int) -> Callable[[Array], Floats]:
    return lambda batch: np.asarray(model(list(np.asarray(batch).astype(np.uint8))), np.float64)[:, [label]]


def _luck(one: Image) -> float:
    """Return a number between 0 and 1 that the picture as a whole gives."""
    return int.from_bytes(blake2b(np.ascontiguousarray(one).tobytes(), digest_size=4).digest(), "little") / 2**32
