"""The paper's study of reviews with the embedded pair: words tested and chosen, which ones, which way, at what cost."""

from __future__ import annotations

import gzip
import json
import os
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Literal

import numpy as np

from butfor import text
from butfor.bench import lexicon
from butfor.bench.output import Figures, machine, table
from butfor.bench.timed import Timed, peak
from butfor.results.result import Result
from butfor.text.highlight import word_of
from butfor.text.small import plain_words
from butfor.text.tokens import pieces_of
from butfor.types import Floats, InputError

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
PAPER = {"words": 95_518, "share": 0.04, "pieces": MOST_PIECES}  # BERT, WordPieces as features


def assets_folder(given: Path | None = None) -> Path:
    """Where the reviews are: as given, else BUTFOR_ASSETS, else ../shared/assets."""
    folder = given or Path(os.environ.get("BUTFOR_ASSETS", "../shared/assets"))
    if not (folder / "imdb" / "test.jsonl.gz").exists():
        raise InputError(f"{folder} has no imdb/test.jsonl.gz; set BUTFOR_ASSETS to the folder that has the reviews")
    return folder


WHY = (
    "The infiller has learnt from reviews of both kinds, and these reviews are more of the same: where it may draw any "
    "word, what stands in a review is a draw of it like another, no null is false, and nothing is to be found. Limited "
    "to plain words, those that are as common in praise as in blame, it is the foil that the question needs: plain "
    "words of a review are exchangeable with their draws, and words of opinion are not. How often plain words win "
    "against their draws is the check of that: by chance half of the time."
)


def run(assets: Path | None = None, *, reviews: int = 1_000, seed: int = 0, threads: int | None = None) -> Figures:
    """The studies on so many test reviews of under 256 pieces, drawn by the seed."""
    picked = short_reviews(assets_folder(assets), reviews, seed)
    figures: Figures = {"machine": machine(), "reviews": len(picked), "seed": seed, "alpha": ALPHA}
    figures |= {"paper": PAPER, "why": WHY}
    figures["tests"] = {name: study(picked, seed, threads, test, among) for name, (test, among) in STUDIES.items()}
    return figures


def short_reviews(assets: Path, count: int, seed: int) -> dict[str, str]:
    """Reviews of the test split with fewer than 256 pieces, `count` of them at random, by their number."""
    with gzip.open(assets / "imdb" / "test.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    found: dict[str, str] = {}
    for place in np.random.default_rng(seed).permutation(len(texts)).tolist():
        if len(found) == count:
            break
        if len(pieces_of([texts[place]])[0].ids) < MOST_PIECES:
            found[f"review {place}"] = texts[place]
    return found


def study(reviews: dict[str, str], seed: int, threads: int | None, test: str | None, among: Among) -> Figures:
    """One test on all words of the reviews, with an effect for each that is chosen: its sign is the direction."""
    model = Timed(text.small_sentiment(threads=threads))
    sampler = Timed(text.small_infiller(threads=threads, among=among))
    start, work = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # reach is not the point here
        result = text.explain(model, reviews, sampler, test=test, alpha=ALPHA, link="logit", seed=seed)
    return {
        "test": result.provenance["test"],
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
        "peak_megabytes": peak(),
    }


def signs(result: Result) -> Figures:
    """How often words beat their draws where there is no tie, by chance 1 of draws + 1; and plain ones alone.

    A p-value wins where it is at most SMALL.
    """
    values, kind = result.evidence.values, result.evidence.kind
    decoys = 1 if kind == "z" else 1 / SMALL - 1 if kind == "p" else int(result.provenance["draws"])
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
            "lexicon": lexicon.sign(word),
        }
        for word, count in sorted(chosen.items(), key=lambda pair: (-pair[1], pair[0]))[:top]
    ]
    return {"most_chosen": most, "most_chosen_in_lexicon": sum(row["lexicon"] != 0 for row in most)}


def agreement(result: Result) -> Figures:
    """Of the chosen words that the list knows, those that pull the way it says; and how many it knows elsewhere."""
    listed = np.array([lexicon.sign(word) for word in tested_words(result)])
    known = result.chosen & (listed != 0)
    agrees = np.sign(result.effects.effect[known]) == listed[known]
    return {
        "lexicon_chosen": int(known.sum()),
        "lexicon_agrees": float(agrees.mean()) if known.any() else None,
        "lexicon_share_of_chosen": float(known.sum() / max(1, result.chosen.sum())),
        "lexicon_share_of_words": float((listed != 0).mean()),
    }


COLUMNS = (
    "*Of 25 in the list*: how many of the 25 words chosen most often\n"
    "are in a list of praise and blame; *right way*: of all chosen words in it, those that pull its way."
)


def markdown(figures: Figures) -> str:
    """The figures for people."""
    lines = [f"# Texts: {figures['reviews']} test reviews, the embedded classifier and infiller", ""]
    rows = [_row(test, found) for test, found in figures["tests"].items()]
    paper = figures["paper"]
    head = ["test", "words", "chosen", "share", "of 25 in the list", "right way", "minutes", "peak memory"]
    lines += table(head, [*rows, ["paper (BERT)", f"{paper['words']:,}", "", f"about {paper['share']:.0%}", *[""] * 4]])
    lines += ["", f"Two-sided, alpha {figures['alpha']:g}. {COLUMNS}", ""]
    for test, found in figures["tests"].items():
        lines += [
            f"## {test}",
            "",
            f"{found['rows']:,} texts evaluated of {found['rows_asked']:,} asked for, {found['work']:.0f} s of the "
            f"processor: {found['sampler_work']:.0f} s in the sampler, {found['model_work']:.0f} s in the model. "
            f"{found['tied']:.0%} of the words are tied with their draws; of the others the observed one wins "
            f"{found['wins']:.1%}, by chance {found['wins_by_chance']:.1%}; plain words, {found['plain_words']:.0%} of "
            f"all, win {found['plain_wins']:.1%} and are {found['plain_chosen']} of the chosen. The list has "
            f"{found['lexicon_share_of_words']:.1%} of all words and {found['lexicon_share_of_chosen']:.0%} of those "
            "chosen.",
            "",
        ]
        signs = {1: "+", -1: "-", 0: ""}
        cells = [[row[key] for key in ("word", "chosen", "tested", "up", "down")] for row in found["most_chosen"]]
        words = [[*own, signs[row["lexicon"]]] for own, row in zip(cells, found["most_chosen"], strict=True)]
        lines += [*table(["word", "chosen", "of", "up", "down", "list"], words), ""]
    return "\n".join(lines)


def _row(test: str, found: Figures) -> list[str]:
    agrees = found["lexicon_agrees"]
    return [
        test,
        f"{found['words']:,}",
        f"{found['chosen']:,}",
        f"{found['share']:.1%}",
        str(found["most_chosen_in_lexicon"]),
        "" if agrees is None else f"{agrees:.0%} of {found['lexicon_chosen']:,}",
        f"{found['seconds'] / 60:.1f}",
        f"{found['peak_megabytes']:.0f} MB",
    ]
