"""A foil learned from labels: do plain words of held-out texts win half of the time, and how many are chosen?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import butfor.text
from butfor.streams import stream
from butfor.text import ngram, plain, word_spans
from butfor.types import Bools, Subset


@dataclass(frozen=True)
class PlainStudy:
    """What became of plain words in texts that nothing was learned from."""

    plain: int  # words of the list
    accuracy: float  # of the classifier
    tested: int
    wins: float  # share of plain words whose own output is above that of a draw; equal ones count half
    error: float  # standard error of that share, over texts
    chosen: int  # of a run on all words
    false: float  # share of plain words among those chosen


def study(
    texts: Sequence[str],
    labels: Sequence[Any],
    seed: int = 0,
    *,
    words: int = 20,
    inputs: int = 60,
    order: Literal[2, 3] = 3,
) -> PlainStudy:
    """Learn the foil, an n-gram and a classifier from half of the texts; then ask about the other half."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    rng = stream(seed, "plain")
    places = rng.permutation(len(texts))
    known, others = places[: len(places) // 2], places[len(places) // 2 :]
    corpus, named = [texts[i] for i in known], [labels[i] for i in known]
    listed = plain(corpus, named)
    sampler = ngram(corpus, order, among=listed)
    model = make_pipeline(TfidfVectorizer(min_df=2), LogisticRegression(C=10.0, max_iter=300)).fit(corpus, named)
    right = float(np.mean(model.predict([texts[i] for i in others]) == np.array([labels[i] for i in others])))
    shares = []
    count = 0
    for i in others:
        subsets = _some(texts[i], listed.words, words, rng)
        if subsets:
            drawn = [sampler([texts[i]], subset, 1, rng)[0] for subset in subsets]
            own, *new = model.decision_function([texts[i], *drawn])
            shares.append(np.mean([(own > other) + (own == other) / 2 for other in new]))
            count += len(subsets)
    some = [texts[i] for i in others[:inputs]]
    result = butfor.text.explain(model.decision_function, some, sampler, effects=None, seed=seed)
    names = result.table.subset.str.split(" #").str[0].str.lower()
    idle: Bools = names.isin(listed.words).to_numpy()
    false = float((result.chosen & idle).sum() / max(1, result.chosen.sum()))
    error = float(np.std(shares) / np.sqrt(len(shares)))
    return PlainStudy(len(listed), right, count, float(np.mean(shares)), error, int(result.chosen.sum()), false)


def _some(text: str, allowed: frozenset[str], count: int, rng: np.random.Generator) -> list[Subset]:
    """Some of the plain words of a text."""
    spans = [span for span in word_spans(text) if text[slice(*span)].lower() in allowed]
    picked = rng.permutation(len(spans))[:count]
    return [Subset(text[slice(*spans[k])], spans[k]) for k in picked]
