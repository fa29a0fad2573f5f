"""Coarse to fine on long documents: how processor time grows with the length of the same documents."""

from __future__ import annotations

import gzip
import json
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from butfor import text
from butfor.bench.output import Figures, listed
from butfor.bench.texts import assets_folder
from butfor.bench.timed import Timed
from butfor.settings import sequential
from butfor.text.segment import word_spans
from butfor.types import Ints

LENGTHS = (300, 600, 1200)  # words
DOCUMENTS = 12
POOL = 1_500  # reviews of the other class, which spans are replaced from
EVIDENCE, PASSAGE, UNDECIDED = 150, 80, 0.2  # words of a bad review, of a passage, and how near to a half its output is
WHOLE = 300  # documents of such passages that a whole document is replaced by
JOINED, AMONG = "bad reviews, joined", f"{EVIDENCE} words of a bad review among passages that are neither good nor bad"
SLOPES = {"work": "processor time", "rows": "model rows", "row": "time of a row"}  # that are told over the length


def documents(reviews: Iterable[str], count: int, words: int) -> list[str]:
    """Reviews joined until they have so many words, a paragraph each, and cut after the last."""
    left = iter(reviews)
    return [_filled(next(left), left, words) for _ in range(count)]


def _filled(document: str, others: Iterator[str], words: int) -> str:
    """A document with others behind it, so many words of it all."""
    while len(word_spans(document)) < words:
        document += "\n\n" + next(others)
    return beginning(document, words)


def beginning(document: str, words: int) -> str:
    """The first so many words of a document.

    >>> beginning("One, two. Three!", 2)
    'One, two'
    """
    spans = word_spans(document)
    return document[: spans[min(words, len(spans)) - 1][1]]


def run(assets: Path | None = None, *, count: int = DOCUMENTS, seed: int = 0) -> Figures:
    """`units="zoom"` on the beginnings of the same documents; the slope of log processor time over log length.

    Bad reviews joined hold more to be found the longer they are; one among passages that are neither good nor bad, and
    are replaced by others of that kind, as much at any length.
    """
    good, bad = _reviews(assets_folder(assets))
    order = np.random.default_rng(seed)
    joined, liked = documents(_shuffled(bad, order), count, max(LENGTHS)), _shuffled(good, order)[:POOL]
    passages = _shuffled(_undecided([*good, *bad]), order)
    pool, filling = passages[:POOL], iter(passages[POOL:])
    begun = [beginning(one, EVIDENCE) + "." for one in _shuffled(bad, order) if len(word_spans(one)) > EVIDENCE]
    among = [_filled(one, filling, max(LENGTHS)) for one in begun[:count]]
    of_length(liked[:50], [beginning(joined[0], 50)], seed, 50)  # networks are loaded
    pools = {words: [*pool, *documents(_dealt(pool, order), WHOLE, words)] for words in LENGTHS}
    return {
        "documents": count,
        "beds": {
            JOINED: _measured(joined, dict.fromkeys(LENGTHS, liked), seed),
            AMONG: _measured(among, pools, seed),
        },
    }


def _measured(longest: Sequence[str], pools: Mapping[int, Sequence[str]], seed: int) -> Figures:
    """Every length with its pool, and how what they cost grows."""
    lengths = [of_length(pools[words], [beginning(one, words) for one in longest], seed, words) for words in LENGTHS]
    return {"lengths": lengths, "slope": {what: _slope(lengths, what) for what in SLOPES}}


def _dealt(passages: Sequence[str], order: np.random.Generator) -> Iterator[str]:
    """Passages in ever new orders."""
    while True:
        yield from _shuffled(passages, order)


def _undecided(reviews: Sequence[str]) -> list[str]:
    """Beginnings of reviews of which the model cannot say whether they are good."""
    passages = [beginning(one, PASSAGE) + "." for one in reviews if len(word_spans(one)) > PASSAGE]
    said = np.asarray(text.small_sentiment(threads=1)(passages))
    return [one for one, output in zip(passages, said, strict=True) if abs(output - 0.5) < UNDECIDED]


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
    shown = [f"{figures['documents']} documents, the shorter ones the beginnings of the longer.", ""]
    for name, bed in figures["beds"].items():
        slopes = ", ".join(f"{words} {bed['slope'][what]:.2f}" for what, words in SLOPES.items())
        shown += [f"{name.capitalize()}. Slopes: {slopes}.", "", *listed(header, line, bed["lengths"]), ""]
    return shown


def _slope(lengths: Sequence[Figures], name: str) -> float:
    """Of the logarithm over that of the length, by least squares."""
    sizes, values = (np.log([one[key] for one in lengths]) for key in ("words", name))
    return float(np.polyfit(sizes, values, 1)[0])
