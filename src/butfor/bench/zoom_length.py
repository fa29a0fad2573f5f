"""Coarse to fine on long documents: how processor time grows with the length of the same documents."""

from __future__ import annotations

import gzip
import json
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from butfor import text
from butfor.bench.output import Figures, listed
from butfor.bench.texts import assets_folder
from butfor.bench.timed import Timed
from butfor.core.types import Ints
from butfor.run.procedure import sequential
from butfor.text.segment import word_spans

LENGTHS = (300, 600, 1200)  # words
DOCUMENTS = 12
POOL = 1_500  # reviews of the other class, which spans are replaced from
SLOPES = {"work": "processor time", "rows": "model rows", "row": "time of a row"}  # that are told over the length


def documents(reviews: Sequence[str], count: int, words: int) -> list[str]:
    """Reviews joined until they have so many words, a paragraph each, and cut after the last."""
    left = iter(reviews)
    made: list[str] = []
    while len(made) < count:
        joined = next(left)
        while len(word_spans(joined)) < words:
            joined += "\n\n" + next(left)
        made.append(joined)
    return [beginning(one, words) for one in made]


def beginning(document: str, words: int) -> str:
    """The first so many words of a document.

    >>> beginning("One, two. Three!", 2)
    'One, two'
    """
    spans = word_spans(document)
    return document[: spans[min(words, len(spans)) - 1][1]]


def run(assets: Path | None = None, *, count: int = DOCUMENTS, seed: int = 0) -> Figures:
    """`units="zoom"` on the beginnings of the same documents; the slope of log processor time over log length."""
    good, bad = _reviews(assets_folder(assets))
    order = np.random.default_rng(seed)
    longest = documents(_shuffled(bad, order), count, max(LENGTHS))
    pool = _shuffled(good, order)[:POOL]
    of_length(pool[:50], [beginning(longest[0], 50)], seed, 50)  # networks are loaded
    lengths = [of_length(pool, [beginning(one, words) for one in longest], seed, words) for words in LENGTHS]
    return {"documents": count, "lengths": lengths, "slope": {name: _slope(lengths, name) for name in SLOPES}}


def _reviews(assets: Path) -> tuple[list[str], list[str]]:
    """Good and bad reviews of the test split."""
    with gzip.open(assets / "imdb" / "test.jsonl.gz", "rt", encoding="utf-8") as lines:
        read = [json.loads(line) for line in lines]
    return [one["text"] for one in read if one["label"]], [one["text"] for one in read if not one["label"]]


def _shuffled(reviews: Sequence[str], order: np.random.Generator) -> list[str]:
    places: Ints = order.permutation(len(reviews))
    return [reviews[place].replace("<br /><br />", "\n\n") for place in places.tolist()]


def of_length(pool: Sequence[str], texts: Sequence[str], seed: int, words: int) -> Figures:
    """One run on all documents: processor seconds, spans, rows."""
    model = Timed(text.small_sentiment(threads=1))
    sampler = Timed(text.foils(pool, words=text.small_infiller(threads=1, among="plain")))
    begun = time.process_time()
    with warnings.catch_warnings(action="ignore"):  # draws are limited on purpose
        result = text.explain(
            model, list(texts), sampler, units="zoom", test=sequential(3, draws=600), link="logit", seed=seed
        )
    work = time.process_time() - begun
    return {
        "words": words,
        "work": work,
        "model_work": model.work,
        "sampler_work": sampler.work,
        "spans": len(result.chosen),
        "drawn": int((result.evidence.draws > 0).sum()),
        "chosen": int(result.chosen.sum()),
        "rows": result.rows,
        "row": model.work / result.rows,
    }


def markdown(figures: Figures) -> list[str]:
    """The figures for people."""
    line = (
        "{words:,} | {work:.1f} | {model_work:.1f} | {sampler_work:.1f} | {spans:,} | {drawn:,} | {chosen} | {rows:,}"
        " | {row:.4f}"
    )
    header = (
        "words | processor seconds | in the model | in the sampler | spans | drawn | chosen | model rows | of a row"
    )
    slopes = ", ".join(f"{words} {figures['slope'][name]:.2f}" for name, words in SLOPES.items())
    return [
        f"{figures['documents']} documents of joined reviews, the shorter ones their beginnings. Slopes: {slopes}.",
        "",
        *listed(header, line, figures["lengths"]),
        "",
    ]


def _slope(lengths: Sequence[Figures], name: str) -> float:
    """Of the logarithm over that of the length, by least squares."""
    sizes, values = (np.log([one[key] for one in lengths]) for key in ("words", name))
    return float(np.polyfit(sizes, values, 1)[0])
