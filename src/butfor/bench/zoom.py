"""Coarse to fine on images and documents of known truth: the error rate at every resolution, and what it finds.

Beside it stand a flat run of the finest parts at the same rows, and the planted fault of leaving out of the family what
is not drawn.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

import butfor.image
import butfor.text
from butfor.bench import zoom_length
from butfor.bench.output import Figures, about, listed
from butfor.image import grid
from butfor.image.region import Zoom
from butfor.inference.selection import bh
from butfor.results.result import Result
from butfor.settings import sequential
from butfor.simulate.documents import DocumentBed, documents
from butfor.simulate.images import PATCH, ImageBed, textures
from butfor.types import Bools, Floats, InputError, ReachWarning

SIDE = 8  # squares of an image, across and down


@dataclass(frozen=True, eq=False)
class Rates:
    """At each resolution the false discovery rate, its standard error and the power, over some runs."""

    resolution: tuple[int, ...]
    fdr: Floats
    error: Floats
    power: Floats
    found: Floats  # chosen nodes a run
    rows: float  # of the model, a run


def rates(runs: Sequence[tuple[Result, Bools]], chosen: Callable[[Result], Bools] | None = None) -> Rates:
    """What was chosen in some runs, each a result and the truth of its hypotheses, against that truth."""
    levels = np.unique(runs[0][0].table.resolution).tolist()
    false, power, found = np.zeros((3, len(runs), len(levels)))
    for place, (result, truth) in enumerate(runs):
        picked, depth = result.chosen if chosen is None else chosen(result), result.table.resolution.to_numpy()
        for column, level in enumerate(levels):
            own, true = picked & (depth == level), truth & (depth == level)
            found[place, column] = own.sum()
            false[place, column] = (own & ~true).sum() / max(1, own.sum())
            power[place, column] = (own & true).sum() / max(1, true.sum())
    error = false.std(axis=0) / np.sqrt(len(runs))
    rows = float(np.mean([result.rows for result, _ in runs]))
    return Rates(tuple(levels), false.mean(axis=0), error, power.mean(axis=0), found.mean(axis=0), rows)


def left_out(result: Result) -> Bools:
    """The planted fault: at each resolution a family of those alone that were drawn."""
    layers, chosen = result.problem.layers, np.zeros(len(result.chosen), bool)
    assert layers is not None
    for level in np.unique(layers.resolution):
        rows = np.flatnonzero((layers.resolution == level) & (result.evidence.draws > 0))
        chosen[rows] = bh(result.evidence.values[rows], result.alpha) if rows.size else False
    return chosen


def image_run(
    seed: int, *, flat: bool = False, draws: int = 4000, h: int = 10, inputs: int = 10
) -> tuple[Result, Bools]:
    """Zoom on images with an object each, or a flat grid of the finest cells, with at most so many draws."""
    bed = textures(seed, inputs=inputs, side=SIDE, extent=3)
    boxes = grid(SIDE) if flat else Zoom(PATCH, whole=True)
    result = _quietly(
        butfor.image.explain, bed, boxes=boxes, test=sequential(h, draws=draws), target=0, decide=False, seed=seed
    )
    truth = {name: own.reshape(SIDE, SIDE) for name, own in zip(bed.inputs, bed.truth, strict=True)}
    hypotheses = zip(result.problem.blocks, result.input_of, strict=True)
    cells = [(result.input_names[i], np.array(block.subset.index) // PATCH) for block, i in hypotheses]
    return result, np.array([truth[name][y1:y2, x1:x2].any() for name, (x1, y1, x2, y2) in cells])


def text_run(
    seed: int, *, flat: bool = False, draws: int = 4000, h: int = 10, inputs: int = 20, weak: bool = False
) -> tuple[Result, Bools]:
    """Zoom on documents, or all of their words, with at most so many draws; `weak`: words hardly stand out alone."""
    bed = documents(seed, inputs=inputs, strength=1.0, density=1.0) if weak else documents(seed, inputs=inputs)
    units = "word" if flat else "zoom"
    result = _quietly(butfor.text.explain, bed, units=units, test=sequential(h, draws=draws), effects=None, seed=seed)
    hypotheses = zip(result.problem.blocks, result.input_of, strict=True)
    return result, np.array([bed.truth(result.input_names[i], block.subset.index) for block, i in hypotheses])


def _quietly(explain: Callable[..., Result], bed: ImageBed | DocumentBed, **options: object) -> Result:
    """A run whose draws are limited on purpose: it would warn of that."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReachWarning)
        return explain(bed.model, bed.inputs, bed.sampler, **options)


LENGTH = "length"
FLAT_DRAWS = {"documents": 4000, "weak words": 4000, "images": 1000}  # of a word and of a cell: about zoom's rows
RUNS: dict[str, Callable[..., tuple[Result, Bools]]] = {
    "documents": text_run,
    "weak words": partial(text_run, weak=True),
    "images": image_run,
}


def run(runs: int = 50, seed: int = 100, beds: Sequence[str] = tuple(RUNS)) -> Figures:
    """Each bed over so many seeds: zoom, the planted fault on the same runs, and a flat run.

    "length" is none of known truth: how long documents of three lengths take.
    """
    unknown = [bed for bed in beds if bed not in (*RUNS, LENGTH)]
    if unknown:
        raise InputError(f"there is no bed {unknown[0]!r}; use {' or '.join((*RUNS, LENGTH))}")
    long = {LENGTH: zoom_length.run(seed=seed)} if LENGTH in beds else {}  # the first, as it may lack its reviews
    found = {bed: study(RUNS[bed], range(seed, seed + runs), FLAT_DRAWS[bed]) for bed in beds if bed != LENGTH}
    every = [
        {"bed": bed, "way": way, "resolution": level, "fdr": fdr, "error": error, "power": power, "rows": one.rows}
        for bed, ways in found.items()
        for way, one in ways.items()
        for level, fdr, error, power in zip(
            one.resolution, one.fdr.tolist(), one.error.tolist(), one.power.tolist(), strict=True
        )
    ]
    return {**about(seed, runs=runs), "rates": every, **long}


def study(run: Callable[..., tuple[Result, Bools]], seeds: Sequence[int], flat_draws: int) -> dict[str, Rates]:
    """Zoom, the planted fault on the same runs, and a flat run."""
    zoomed = [run(seed) for seed in seeds]
    flat = [run(seed, flat=True, draws=flat_draws) for seed in seeds]
    return {"zoom": rates(zoomed), "not drawn left out": rates(zoomed, left_out), "flat": rates(flat)}


def markdown(figures: Figures) -> str:
    """The figures for people."""
    line = "{bed} | {way} | {resolution} | {fdr:.3f} ({error:.3f}) | {power:.2f} | {rows:,.0f}"
    lines = [
        "# Zoom",
        "",
        f"butfor {figures['version']}, {figures['runs']} runs from seed {figures['seed']}, alpha 0.1.",
        "",
        *listed("bed | way | resolution | FDR (s.e.) | power | model rows", line, figures["rates"]),
        "",
        *(zoom_length.markdown(figures[LENGTH]) if LENGTH in figures else []),
    ]
    return "\n".join(lines)
