"""Words of film reviews beside LIME and SHAP: deletion curves, plain words marked, agreement of seeds, seconds.

The classifier is the embedded one, the reviews are held out. Every method ranks words, all places of a word together.
A deletion curve is the mean drop of the predicted class's probability when the k words that support it most are redrawn
by the infiller of *any* word, which no method uses; a word is marked if it is chosen (butfor) or among the ten
largest (LIME shows ten; SHAP's values are summed over the places of a word).
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.figures import Figures, assets_folder, mean_error, quietly
from benchmarks.texts import REVIEWS, short_reviews, sign
from butfor import text
from butfor.streams import stream
from butfor.text.segment import case_of, cased, rewritten, word_places
from butfor.text.small import _logits_near, masked, plain_words, vocabulary
from butfor.text.view import word_of
from butfor.types import Floats

TESTS = {"sequential": None, "few-shot": "few-shot"}  # the default, and the few draws of the paper's competition
TOP = (1, 2, 3, 5, 8, 12)  # words that are redrawn
MARKED = 10
DRAWS = 6  # of each deletion


class Ranked(NamedTuple):
    """What a method says of one review."""

    support: dict[str, float]  # of the predicted class, by word in small letters
    marked: frozenset[str]


def run(
    assets: Path | None = None, *, reviews: int = 20, seed: int = 0, alpha: float = 0.1, out: Path = Path()
) -> Figures:
    """Mark words of `reviews` test reviews by every method, twice each, with one seed and the next."""
    picked = short_reviews(assets_folder(assets, REVIEWS), reviews, seed)
    model = text.small_sentiment(threads=1)
    outputs = model(list(picked.values()))
    signs = dict(zip(picked, np.where(outputs >= 0.5, 1.0, -1.0).tolist(), strict=True))
    curves, figures = {}, Figures()
    for method in (*TESTS, "LIME", "SHAP partition"):
        began = time.process_time()
        first = _marked(method, picked, signs, seed, alpha)
        work = (time.process_time() - began) / len(picked)
        second = _marked(method, picked, signs, seed + 1, alpha)
        curves[method] = np.array([_curve(model, picked[name], first[name], signs[name], seed) for name in picked])
        figures[method] = {"seconds a review": work, **_counted(picked, first, second)}
        means = [mean_error(curves[method][:, k].tolist()) for k in range(len(TOP))]
        figures[method]["drop"] = {str(k): mean for k, (mean, _) in zip(TOP, means, strict=True)}
        figures[method]["mean drop"], figures[method]["mean drop s.e."] = mean_error(
            curves[method].mean(axis=1).tolist()
        )
        out.mkdir(parents=True, exist_ok=True)
        (out / "reviews.partial.json").write_text(json.dumps(figures), encoding="utf-8")
    beside = {}
    for ours in TESTS:
        for theirs in ("LIME", "SHAP partition"):
            mean, error = mean_error((curves[ours] - curves[theirs]).mean(axis=1).tolist())
            beside[f"{ours} - {theirs}"] = {"mean drop": mean, "s.e.": error}
    (out / "reviews.partial.json").unlink()
    return {"reviews": len(picked), "alpha": alpha, "methods": figures, "beside": beside}


def _marked(method: str, picked: dict[str, str], signs: dict[str, float], seed: int, alpha: float) -> dict[str, Ranked]:
    if method in TESTS:
        return _ours(TESTS[method], picked, signs, seed, alpha)
    find = _lime if method == "LIME" else _shap
    return {name: _ranked(find(review, seed), signs[name]) for name, review in picked.items()}


def _ranked(values: dict[str, float], way: float) -> Ranked:
    support = {word: value * way for word, value in values.items()}
    return Ranked(support, frozenset(sorted(support, key=lambda word: -abs(support[word]))[:MARKED]))


def _ours(
    test: str | None, picked: dict[str, str], signs: dict[str, float], seed: int, alpha: float
) -> dict[str, Ranked]:
    sampler = text.small_infiller(threads=1, among="plain")
    options: Figures = {"test": test, "alpha": alpha, "link": "logit", "seed": seed}
    result = quietly(text.explain, text.small_sentiment(threads=1), picked, sampler, **options)
    found: dict[str, Ranked] = {}
    for number, name in enumerate(result.input_names):
        rows = np.flatnonzero(result.input_of == number).tolist()
        words = {row: word_of(result, row).lower() for row in rows}
        effects = {words[row]: float(np.nan_to_num(result.effects.effect[row])) * signs[name] for row in rows}
        chosen = frozenset(words[row] for row in rows if result.chosen[row])
        best = max(map(abs, effects.values()), default=0.0)
        found[name] = Ranked(
            {word: value + 2 * best * (word in chosen) * (value > 0) for word, value in effects.items()}, chosen
        )
    return found


def _lime(review: str, seed: int) -> dict[str, float]:
    from lime.lime_text import LimeTextExplainer

    model = text.small_sentiment(threads=1)
    both = lambda texts: np.column_stack([1 - (out := model(list(texts))), out])  # noqa: E731
    explainer = LimeTextExplainer(split_expression=_split, random_state=seed)
    found = explainer.explain_instance(review, both, num_features=10_000, num_samples=1_000)
    values: dict[str, float] = {}
    for word, value in found.as_list():
        values[word.lower()] = values.get(word.lower(), 0.0) + value
    return values


def _split(review: str) -> list[str]:
    return [review[a:b] for a, b in text.word_spans(review)]


def _shap(review: str, seed: int) -> dict[str, float]:
    import shap

    np.random.seed(seed)  # noqa: NPY002 - shap's
    model = text.small_sentiment(threads=1)
    explainer = shap.Explainer(lambda texts: model([str(one) for one in texts]), shap.maskers.Text(r"\W+"), silent=True)
    found = explainer([review], max_evals=500, silent=True)
    values: dict[str, float] = {}
    for piece, value in zip(found.data[0], np.ravel(found.values[0]), strict=True):
        for word in _split(str(piece)):
            values[word.lower()] = values.get(word.lower(), 0.0) + float(value)
    return values


def _curve(model: Any, review: str, ranked: Ranked, way: float, seed: int) -> Floats:
    """Return the mean drop of the predicted class's probability when the top words are redrawn, for every k."""
    fills, places, known = text.small_infiller(threads=1), word_places(review), vocabulary()
    order = [word for word in sorted(ranked.support, key=lambda word: -ranked.support[word]) if word in places]
    before, drops = float(model([review])[0]), []
    for k in TOP:
        spans = tuple(sorted(span for word in order[:k] for span in places[word]))
        ids, masks = masked(review, (spans[0][0], spans[-1][1]), spans)  # all of them hidden at once
        logits = _logits_near([(ids, index) for index in masks], 1)[:, known.words]
        chances, rng = fills.shape.probabilities(logits), stream(seed, "deletion", str(k))
        drawn = np.array([known.words[rng.choice(len(one), DRAWS, p=one)] for one in chances]).T
        words = [
            [cased(known.pieces[p], case_of(review, *at)) for p, at in zip(row, spans, strict=True)] for row in drawn
        ]
        made = [rewritten(review, (0, len(review)), spans, row) for row in words]
        drops.append(way * (before - float(np.mean(model(made)))))
    return np.array(drops)


def _counted(picked: dict[str, str], first: dict[str, Ranked], second: dict[str, Ranked]) -> Figures:
    """Return the words marked, plain ones among them, the agreement of two seeds, and repeated opinion words found."""
    plain = plain_words()
    both = sum(len(first[name].marked & second[name].marked) for name in picked)
    either = sum(len(first[name].marked) + len(second[name].marked) for name in picked) / 2
    repeated = [
        (name, word)
        for name, review in picked.items()
        for word, places in word_places(review).items()
        if len(places) > 1 and sign(word)
    ]
    marked: Sequence[str] = [word for name in picked for word in first[name].marked]
    return {
        "words marked": len(marked),
        "plain words marked": sum(word in plain for word in marked),
        "opinion words marked": sum(sign(word) != 0 for word in marked),
        "seed agreement": both / max(1.0, either),
        "repeated opinion words": len(repeated),
        "of which marked": sum(word in first[name].marked for name, word in repeated),
    }
