"""Coarse to fine on images and documents of known truth: FDR and power at every resolution, and the cost of length.

Beside zoom stand a flat run of the finest parts at about the same rows, and a planted fault: leaving out of the family
what is not drawn. `--beds length` measures how processor time grows with the length of real documents.
"""

from __future__ import annotations

import gzip
import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.beds import DocumentBed, documents
from benchmarks.figures import Figures, Timed, assets_folder, checked_names, mean_error, rates, slope
from benchmarks.texts import REVIEWS
from butfor import ReachWarning, Result, image, sequential, text
from butfor.image.region import Zoom
from butfor.inference.selection import bh
from butfor.simulate.images import PATCH, ImageBed, textures
from butfor.text.segment import word_spans
from butfor.types import Bools, Ints

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


LENGTH = "length"
FLAT_DRAWS = {"documents": 4000, "weak words": 4000, "images": 1000}  # of a word or a cell: about the rows of zoom
RUNS: dict[str, Callable[..., Run]] = {
    "documents": text_run,
    "weak words": partial(text_run, weak=True),
    "images": image_run,
}


def run(runs: int = 50, seed: int = 100, beds: Sequence[str] = tuple(RUNS)) -> Figures:
    """Measure each bed ("documents", "weak words", "images") over `runs` seeds.

    "length" has no known truth: it times documents of three lengths.
    """
    beds = checked_names("beds", beds, (*RUNS, LENGTH))
    long = {LENGTH: lengths(seed=seed)} if LENGTH in beds else {}  # the first, as it may lack its reviews
    rows: list[Figures] = []
    for bed in (bed for bed in beds if bed != LENGTH):
        seeds = range(seed, seed + runs)
        zoomed = [RUNS[bed](number) for number in seeds]
        flat = [RUNS[bed](number, flat=True, draws=FLAT_DRAWS[bed]) for number in seeds]
        ways = {
            "zoom": by_resolution(zoomed),
            "not drawn left out": by_resolution(zoomed, left_out),
            "flat": by_resolution(flat),
        }
        rows += [{"bed": bed, "way": way, **row} for way, of_way in ways.items() for row in of_way]
    return {"rates": rows, **long}


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


# Long documents

LENGTHS = (300, 600, 1200)  # words
DOCUMENTS = 12
POOL = 1_500  # reviews of the other class, which spans are replaced from
EVIDENCE, PASSAGE, UNDECIDED = 150, 80, 0.2  # words of a bad review, of a passage; how near to a half its output is
WHOLE = 300  # documents of such passages that a whole document is replaced by
JOINED, AMONG = "bad reviews, joined", f"{EVIDENCE} words of a bad review among passages that are neither good nor bad"


def lengths(assets: Path | None = None, *, count: int = DOCUMENTS, seed: int = 0) -> Figures:
    """Run `units="zoom"` on the beginnings of the same documents; return costs and their slopes over the length.

    Bad reviews joined have more signals the longer they are; one among passages that are neither good nor bad, and are
    replaced by others of that kind, has as many at any length.
    """
    with gzip.open(assets_folder(assets, REVIEWS) / REVIEWS, "rt", encoding="utf-8") as lines:
        reviews = [json.loads(line) for line in lines]
    good, bad = ([one["text"] for one in reviews if bool(one["label"]) == label] for label in (True, False))
    order = np.random.default_rng(seed)
    joined, liked = joined_reviews(_shuffled(bad, order), count, max(LENGTHS)), _shuffled(good, order)[:POOL]
    passages = _shuffled(_undecided([*good, *bad]), order)
    pool, filling = passages[:POOL], iter(passages[POOL:])
    begun = [beginning(one, EVIDENCE) + "." for one in _shuffled(bad, order) if len(word_spans(one)) > EVIDENCE]
    among = [_extended(one, filling, max(LENGTHS)) for one in begun[:count]]
    of_length(liked[:50], [beginning(joined[0], 50)], seed, 50)  # networks are loaded
    pools = {words: [*pool, *joined_reviews(_reshuffled(pool, order), WHOLE, words)] for words in LENGTHS}
    return {
        **_measured(JOINED, joined, dict.fromkeys(LENGTHS, liked), seed),
        **_measured(AMONG, among, pools, seed),
    }


def _measured(name: str, longest: Sequence[str], pools: Mapping[int, Sequence[str]], seed: int) -> Figures:
    """Return the cost of every length, and the slopes of time, rows and time of a row over the length."""
    rows = [of_length(pools[words], [beginning(one, words) for one in longest], seed, words) for words in LENGTHS]
    slopes = {what: slope(LENGTHS, [row[what] for row in rows]) for what in ("work", "rows", "row")}
    return {name: rows, f"{name}, slopes": [slopes]}


def joined_reviews(reviews: Iterable[str], count: int, words: int) -> list[str]:
    """Return documents of reviews, a paragraph each, cut after `words` words."""
    left = iter(reviews)
    return [_extended(next(left), left, words) for _ in range(count)]


def _extended(document: str, others: Iterator[str], words: int) -> str:
    while len(word_spans(document)) < words:
        document += "\n\n" + next(others)
    return beginning(document, words)


def beginning(document: str, words: int) -> str:
    """Return the first words of a document.

    >>> beginning("One, two. Three!", 2)
    'One, two'
    """
    spans = word_spans(document)
    return document[: spans[min(words, len(spans)) - 1][1]]


def _reshuffled(passages: Sequence[str], order: np.random.Generator) -> Iterator[str]:
    """Yield passages in ever new orders."""
    while True:
        yield from _shuffled(passages, order)


def _undecided(reviews: Sequence[str]) -> list[str]:
    """Return beginnings of reviews whose sentiment the model leaves open."""
    passages = [beginning(one, PASSAGE) + "." for one in reviews if len(word_spans(one)) > PASSAGE]
    outputs = np.asarray(text.small_sentiment(threads=1)(passages))
    return [one for one, output in zip(passages, outputs, strict=True) if abs(output - 0.5) < UNDECIDED]


def _shuffled(reviews: Sequence[str], order: np.random.Generator) -> list[str]:
    places: Ints = order.permutation(len(reviews))
    return [reviews[place].replace("<br /><br />", "\n\n") for place in places.tolist()]


def of_length(pool: Sequence[str], texts: Sequence[str], seed: int, words: int) -> Figures:
    """Explain all documents in one run; return processor seconds, spans and rows."""
    model = Timed(text.small_sentiment(threads=1))
    sampler = Timed(text.foils(pool, words=text.small_infiller(threads=1, among="plain")))
    start = time.process_time()
    options: Figures = {"units": "zoom", "test": sequential(3, draws=600), "link": "logit", "seed": seed}
    with warnings.catch_warnings(action="ignore"):  # draws are limited on purpose
        result = text.explain(model, list(texts), sampler, **options)
    return {
        "words": words,
        "work": time.process_time() - start,
        "model_work": model.work,
        "sampler_work": sampler.work,
        "spans": len(result.chosen),
        "drawn": int((result.evidence.draws > 0).sum()),
        "chosen": int(result.chosen.sum()),
        "rows": result.rows,
        "row": model.work / result.rows,
    }
