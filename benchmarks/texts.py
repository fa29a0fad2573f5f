"""The paper's study of film reviews: words tested and chosen, which ones, which way, and at what cost.

The infiller has learnt from reviews of both kinds. Where it may draw any word, an observed word is a draw like another,
no null is false, and nothing should be chosen. Limited to plain words, which are as common in praise as in blame, it is
the foil that the question needs: plain words of a review are exchangeable with their draws, words of opinion are not.
How often plain words win against their draws checks that. `plain_study` does the same for a foil learned from labels.
"""

from __future__ import annotations

import gzip
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.figures import Figures, Timed, assets_folder, memory, quietly
from butfor import Result, text
from butfor.streams import stream
from butfor.text import ngram, plain, word_spans
from butfor.text.small import pieces_of, plain_words
from butfor.text.view import word_of
from butfor.types import Bools, Floats, Subset

REVIEWS = "imdb/test.jsonl.gz"
ALPHA = 0.15
MOST_PIECES = 256  # reviews are below it, as in the paper
TOP = 25
SMALL = 0.1  # p-values
Among = Literal["plain"] | None  # what the infiller may draw
STUDIES: dict[str, tuple[str | None, Among]] = {  # test, and among which words
    "default": (None, "plain"),
    "osft": ("osft", "plain"),
    "few-shot": ("few-shot", "plain"),
    "osft, any word": ("osft", None),
}
PAPER = {"words": 95_518, "share": 0.04}  # BERT, WordPieces as features


def run(assets: Path | None = None, *, reviews: int = 1_000, seed: int = 0, threads: int | None = None) -> Figures:
    """Run every test on `reviews` test reviews of under 256 pieces, drawn by the seed."""
    picked = short_reviews(assets_folder(assets, REVIEWS), reviews, seed)
    tests = {name: study(picked, seed, threads, test, among) for name, (test, among) in STUDIES.items()}
    return {"reviews": len(picked), "alpha": ALPHA, "paper": PAPER, "tests": tests}


def short_reviews(assets: Path, count: int, seed: int) -> dict[str, str]:
    """Reviews of the test split with fewer than 256 pieces, `count` of them at random, by their number."""
    with gzip.open(assets / REVIEWS, "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    reviews: dict[str, str] = {}
    for place in np.random.default_rng(seed).permutation(len(texts)).tolist():
        if len(reviews) == count:
            break
        if len(pieces_of([texts[place]])[0].ids) < MOST_PIECES:
            reviews[f"review {place}"] = texts[place]
    return reviews


def study(reviews: dict[str, str], seed: int, threads: int | None, test: str | None, among: Among) -> Figures:
    """One test on all words of the reviews, with an effect for each that is chosen: its sign is the direction."""
    model = Timed(text.small_sentiment(threads=threads))
    sampler = Timed(text.small_infiller(threads=threads, among=among))
    start, work = time.perf_counter(), time.process_time()
    result = quietly(text.explain, model, reviews, sampler, test=test, alpha=ALPHA, link="logit", seed=seed)
    return {
        "test": result.record.test,
        "words": len(result.chosen),
        "chosen": int(result.chosen.sum()),
        "share": float(result.chosen.mean()),
        **signs(result),
        **most_chosen(result),
        **agreement(result),
        "rows": result.rows,
        "rows_asked": result.rows_asked,
        "seconds": time.perf_counter() - start,
        "work": time.process_time() - work,
        "sampler_work": sampler.work,
        "model_work": model.work,
        "peak_megabytes": memory(),
    }


def signs(result: Result) -> Figures:
    """How often words beat their draws where there is no tie, by chance 1 of draws + 1; and plain ones alone.

    A p-value wins where it is at most SMALL.
    """
    values, kind = result.evidence.values, result.evidence.kind
    decoys = 1 if kind == "z" else 1 / SMALL - 1 if kind == "p" else int(result.record.draws)
    words = plain_words()
    plain = np.array([word in words for word in tested_words(result)])
    values = np.where(values <= SMALL, 1.0, -1.0) if kind == "p" else values
    return {
        "tied": float((values == 0).mean()),
        "wins": _wins(values),
        "plain_wins": _wins(values[plain]),
        "plain_words": float(plain.mean()),
        "plain_chosen": int((plain & result.chosen).sum()),
        "wins_by_chance": 1 / (decoys + 1),
    }


def tested_words(result: Result) -> list[str]:
    """The word of each hypothesis in small letters."""
    return [word_of(result, row).lower() for row in range(len(result.chosen))]


def _wins(values: Floats) -> float:
    return int((values > 0).sum()) / max(1, int((values != 0).sum()))


def most_chosen(result: Result, top: int = TOP) -> Figures:
    """The words chosen most often: how often, how often each way, how often tested, and what the list says of them."""
    words = tested_words(result)
    chosen = Counter(words[row] for row in np.flatnonzero(result.chosen))
    ups = Counter(words[row] for row in np.flatnonzero(result.chosen & (result.effects.effect > 0)))
    tested = Counter(words)
    most = [
        {
            "word": word,
            "chosen": count,
            "up": ups[word],
            "down": count - ups[word],
            "tested": tested[word],
            "lexicon": sign(word),
        }
        for word, count in sorted(chosen.items(), key=lambda pair: (-pair[1], pair[0]))[:top]
    ]
    return {"most_chosen": most, "most_chosen_in_lexicon": sum(row["lexicon"] != 0 for row in most)}


def agreement(result: Result) -> Figures:
    """Of the chosen words that the list knows, those that pull the way it says; and how many it knows elsewhere."""
    listed = np.array([sign(word) for word in tested_words(result)])
    known = result.chosen & (listed != 0)
    agrees = np.sign(result.effects.effect[known]) == listed[known]
    return {
        "lexicon_chosen": int(known.sum()),
        "lexicon_agrees": float(agrees.mean()) if known.any() else None,
        "lexicon_share_of_chosen": float(known.sum() / max(1, result.chosen.sum())),
        "lexicon_share_of_words": float((listed != 0).mean()),
    }


# A foil learned from labels


@dataclass(frozen=True)
class PlainStudy:
    """Plain words in texts that nothing was learned from."""

    plain: int  # words of the list
    accuracy: float  # of the classifier
    tested: int
    wins: float  # share of plain words whose own output is above that of a draw; equal ones count half
    error: float  # standard error of that share, over texts
    chosen: int  # of a run on all words
    false: float  # share of plain words among those chosen


def plain_study(
    texts: Sequence[str],
    labels: Sequence[Any],
    seed: int = 0,
    *,
    words: int = 20,
    inputs: int = 60,
    order: Literal[2, 3] = 3,
) -> PlainStudy:
    """Learn the foil, an n-gram and a classifier from half of the texts, and test words of the other half."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    rng = stream(seed, "plain")
    places = rng.permutation(len(texts))
    known, others = places[: len(places) // 2], places[len(places) // 2 :]
    corpus, named = [texts[i] for i in known], [labels[i] for i in known]
    allowed = plain(corpus, named)
    sampler = ngram(corpus, order, among=allowed)
    model = make_pipeline(TfidfVectorizer(min_df=2), LogisticRegression(C=10.0, max_iter=300)).fit(corpus, named)
    right = float(np.mean(model.predict([texts[i] for i in others]) == np.array([labels[i] for i in others])))
    shares, count = [], 0
    for i in others:
        spans = [span for span in word_spans(texts[i]) if texts[i][slice(*span)].lower() in allowed]
        picked = [spans[k] for k in rng.permutation(len(spans))[:words]]
        if subsets := [Subset(texts[i][slice(*span)], span) for span in picked]:
            drawn = [sampler([texts[i]], subset, 1, rng)[0] for subset in subsets]
            observed, *new = model.decision_function([texts[i], *drawn])
            shares.append(np.mean([(observed > other) + (observed == other) / 2 for other in new]))
            count += len(subsets)
    reviews = [texts[i] for i in others[:inputs]]
    result = text.explain(model.decision_function, reviews, sampler, effects=None, seed=seed)
    names = result.table.subset.str.split(" #").str[0].str.lower()
    idle: Bools = names.isin(allowed).to_numpy()
    false = float((result.chosen & idle).sum() / max(1, result.chosen.sum()))
    error = float(np.std(shares) / np.sqrt(len(shares)))
    return PlainStudy(len(allowed), right, count, float(np.mean(shares)), error, int(result.chosen.sum()), false)


# A list of English words that praise or blame, written for this project, as an outside check of directions

_PRAISE, _BLAME = (Path(__file__).parent / "opinion_words.txt").read_text(encoding="utf-8").split("\n\n")
POSITIVE, NEGATIVE = frozenset(_PRAISE.split()[1:]), frozenset(_BLAME.split()[1:])


def sign(word: str) -> int:
    """Return 1 for a word that praises, -1 for one that blames, 0 for any other.

    >>> sign("Wonderful"), sign("dull"), sign("film")
    (1, -1, 0)
    """
    word = word.lower()
    return (word in POSITIVE) - (word in NEGATIVE)
