"""Coarse to fine on images and documents of known truth: FDR and power at every resolution.

Beside zoom stand a flat run of the finest parts at about the same rows, and a planted fault: leaving out of the family
what is not drawn.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from benchmarks.beds import DocumentBed, documents
from benchmarks.figures import Figures, checked_names, mean_error, rates
from butfor import ReachWarning, Result, image, sequential, text
from butfor.image.region import Zoom
from butfor.inference.selection import bh
from butfor.simulate.images import PATCH, ImageBed, textures
from butfor.types import Bools

SIDE = 8  # squares of an image, across and down
Run = tuple[Result, Bools]  # a result and the truth of its hypotheses


def image_run(seed: int, *, flat: bool = False, draws: int = 4000, h: int = 10, inputs: int = 10) -> Run:
    """Zoom on images with an object each, or a flat grid of the finest cells, with at most `draws` draws."""
    bed = textures(seed, inputs=inputs, side=SIDE, extent=3)
    boxes = image.grid(SIDE) if flat else Zoom(PATCH, whole=True)
    options: Figures = {"boxes": boxes, "test": sequential(h, draws=draws), "target": 0, "decide": False, "seed": seed}
    result = _quietly(image.explain, bed, **options)
    truth = {name: squares.reshape(SIDE, SIDE) for name, squares in zip(bed.inputs, bed.truth, strict=True)}
    hypotheses = zip(result.hypotheses.blocks, result.input_of, strict=True)
    cells = [(result.input_names[i], np.array(block.subset.index) // PATCH) for block, i in hypotheses]
    return result, np.array([truth[name][y1:y2, x1:x2].any() for name, (x1, y1, x2, y2) in cells])


def text_run(
    seed: int, *, flat: bool = False, draws: int = 4000, h: int = 10, inputs: int = 20, weak: bool = False
) -> Run:
    """Zoom on documents, or all of their words, with at most `draws` draws; `weak`: words hardly stand out alone."""
    bed = documents(seed, inputs=inputs, strength=1.0, density=1.0) if weak else documents(seed, inputs=inputs)
    units = "word" if flat else "zoom"
    result = _quietly(text.explain, bed, units=units, test=sequential(h, draws=draws), effects=None, seed=seed)
    hypotheses = zip(result.hypotheses.blocks, result.input_of, strict=True)
    return result, np.array([bed.truth(result.input_names[i], block.subset.index) for block, i in hypotheses])


def _quietly(explain: Callable[..., Result], bed: ImageBed | DocumentBed, **options: object) -> Result:
    """Run with draws that are limited on purpose, without the warning about it."""
    with warnings.catch_warnings(action="ignore", category=ReachWarning):
        return explain(bed.model, bed.inputs, bed.sampler, **options)


FLAT_DRAWS = {"documents": 4000, "weak words": 4000, "images": 1000}  # of a word or a cell: about the rows of zoom
RUNS: dict[str, Callable[..., Run]] = {
    "documents": text_run,
    "weak words": partial(text_run, weak=True),
    "images": image_run,
}


def run(runs: int = 50, seed: int = 100, beds: Sequence[str] = tuple(RUNS)) -> Figures:
    """Measure each bed ("documents", "weak words", "images") over `runs` seeds."""
    rows: list[Figures] = []
    for bed in checked_names("beds", beds, RUNS):
        seeds = range(seed, seed + runs)
        zoomed = [RUNS[bed](number) for number in seeds]
        flat = [RUNS[bed](number, flat=True, draws=FLAT_DRAWS[bed]) for number in seeds]
        ways = {
            "zoom": by_resolution(zoomed),
            "not drawn left out": by_resolution(zoomed, left_out),
            "flat": by_resolution(flat),
        }
        rows += [{"bed": bed, "way": way, **row} for way, of_way in ways.items() for row in of_way]
    return {"rates": rows}


def by_resolution(runs: Sequence[Run], chosen: Callable[[Result], Bools] | None = None) -> list[Figures]:
    """Return a row per resolution: FDR with its standard error, power, chosen and model rows a run."""
    rows: list[Figures] = []
    for level in np.unique(runs[0][0].table.resolution).tolist():
        there = [result.table.resolution.to_numpy() == level for result, _ in runs]
        picked = [(result.chosen if chosen is None else chosen(result)) for result, _ in runs]
        each = [rates(c & at, truth & at) for c, at, (_, truth) in zip(picked, there, runs, strict=True)]
        fdr, error = mean_error([one["fdr"] for one in each])
        rows.append(
            {
                "resolution": int(level),
                "fdr": fdr,
                "fdr_se": error,
                "power": float(np.mean([one["tpr"] for one in each])),
                "chosen": float(np.mean([(c & at).sum() for c, at in zip(picked, there, strict=True)])),
                "rows": float(np.mean([result.rows for result, _ in runs])),
            }
        )
    return rows


def left_out(result: Result) -> Bools:
    """Choose by the planted fault: at each resolution a family of those alone that were drawn."""
    layers, chosen = result.hypotheses.layers, np.zeros(len(result.chosen), bool)
    assert layers is not None
    for level in np.unique(layers.resolution):
        rows = np.flatnonzero((layers.resolution == level) & (result.evidence.draws > 0))
        chosen[rows] = bh(result.evidence.values[rows], result.alpha) if rows.size else False
    return chosen
