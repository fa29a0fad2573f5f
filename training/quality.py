"""How good the embedded networks are, measured on reviews they never saw.

A word counts here when it is one piece of the vocabulary and has a letter or digit; punctuation is no word. The context
is at most `around` words and marks a side. Figures over pieces divide the probability among all pieces, those over
words among the pieces that are whole words, which is how the infiller samples.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from corpus import reviews
from numpy.typing import NDArray
from tokenizers import Tokenizer

from butfor.models.onnx import open_session
from butfor.text.small import EDGE, MASK, PAD, UNK
from butfor.types import Bools, Floats, Ints


class KnownPieces(NamedTuple):
    """What is known of the pieces of a tokenizer."""

    pieces: list[str]
    begins: Bools  # (V,) the piece begins a word or is a mark
    whole: Bools  # (V,) the piece can stand as a word of its own


def known_pieces(tokenizer: Tokenizer) -> KnownPieces:
    pieces = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
    begins = np.array([not p.startswith("##") for p in pieces])
    marks = np.array([p[0] in "[<" and len(p) > 1 for p in pieces])
    return KnownPieces(pieces, begins, begins & ~marks & np.array([any(c.isalnum() for c in p) for p in pieces]))


@dataclass(frozen=True)
class Masked:
    """Words of reviews, each masked in its context."""

    ids: list[Ints]  # pieces of each context, an edge where the review begins or ends in it
    position: Ints  # (m,) of the first masked piece
    target: list[Ints]  # pieces of each word; one, but where several were asked for


def masked_words(
    texts: Sequence[str],
    tokenizer: Tokenizer,
    count: int,
    rng: np.random.Generator,
    around: int = 48,
    single: bool = True,
) -> Masked:
    """`count` words drawn evenly from the words of `texts`; of one piece each, or (not single) of several."""
    words = known_pieces(tokenizer)
    rows = [np.array(e.ids, np.int64) for e in tokenizer.encode_batch(list(texts), add_special_tokens=False)]
    found = [(i, int(a), int(b)) for i, row in enumerate(rows) for a, b in word_bounds(row, words, single)]
    chosen = rng.choice(len(found), min(count, len(found)), replace=False)
    ids, position, target = [], [], []
    for i, a, b in (found[c] for c in chosen):
        context, at = window(rows[i], a, b, words.begins, around)
        target.append(rows[i][a:b])
        context[at : at + b - a] = MASK
        ids.append(context)
        position.append(at)
    return Masked(ids, np.array(position), target)


def word_bounds(row: Ints, words: KnownPieces, single: bool) -> Ints:  # (k, 2)
    start = np.flatnonzero(words.begins[row])
    end = np.append(start[1:], len(row))
    known = np.array([any(c.isalnum() for c in words.pieces[p]) and p > EDGE for p in row[start]], bool)
    known &= (end - start == 1) & words.whole[row[start]] if single else end - start > 1
    return np.stack([start[known], end[known]], 1)


def window(row: Ints, start: int, end: int, begins: Bools, around: int) -> tuple[Ints, int]:
    """A copy of the pieces within `around` words and marks of row[start:end], and where `start` is in it."""
    first = np.flatnonzero(begins[row])
    before, after = first[first < start], first[first >= end]
    low = int(before[-around]) if len(before) > around else 0
    high = int(after[around]) if len(after) > around else len(row)
    left, right = [EDGE] * (low == 0), [EDGE] * (high == len(row))
    return np.concatenate([left, row[low:high], right]).astype(np.int64), start - low + len(left)


def padded(rows: Sequence[Ints]) -> Ints:
    out = np.full((len(rows), max(len(r) for r in rows)), PAD, np.int64)
    for line, row in zip(out, rows, strict=True):
        line[: len(row)] = row
    return out


def fill_logits(session: Any, rows: Sequence[Ints], position: Ints, batch: int = 32) -> NDArray[np.float32]:
    """The infiller's log-odds over the pieces at one position of each row: (m, V)."""
    order = np.argsort([len(r) for r in rows], kind="stable")
    parts = []
    for begin in range(0, len(order), batch):
        some = order[begin : begin + batch]
        feed = {
            "ids": padded([rows[i] for i in some]),
            "lengths": np.array([len(rows[i]) for i in some], np.int32),
            "row": np.arange(len(some)),
            "position": position[some],
        }
        parts.append(session.run(["logits"], feed)[0])
    out: NDArray[np.float32] = np.concatenate(parts)[np.argsort(order, kind="stable")]
    return out


def log_softmax(logits: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    shifted = logits - logits.max(1, keepdims=True)
    out: NDArray[np.float32] = (shifted - np.log(np.exp(shifted).sum(1, keepdims=True))).astype(np.float32)
    return out


def scores(log_p: NDArray[np.floating[Any]], target: Ints) -> dict[str, float]:
    """Share of targets that are the likeliest, share among the five likeliest, perplexity."""
    if not np.isfinite(log_p).all():
        raise ValueError("log-probabilities must be finite: a nan would compare as if its target were the likeliest")
    own = log_p[np.arange(len(target)), target]
    above = (log_p >= own[:, None]).sum(1) - 1  # ties count against us
    return {
        "top1": float((above == 0).mean()),
        "top5": float((above < 5).mean()),
        "perplexity": float(np.exp(-own.mean(dtype=np.float64))),
    }


def infiller_quality(session: Any, masked: Masked, words: KnownPieces) -> dict[str, dict[str, float]]:
    """Figures over pieces and over words for single masked words."""
    logits = fill_logits(session, masked.ids, masked.position)
    target = np.concatenate(masked.target)
    return {
        "over_pieces": scores(log_softmax(logits), target),
        "over_words": scores(log_softmax(np.where(words.whole, logits, -1e4)), target),
    }


def several_pieces_perplexity(session: Any, masked: Masked) -> float:
    """Perplexity per word for words of several pieces, filled left to right, their number of pieces given."""
    rows, where, pieces = [], [], []
    for ids, at, target in zip(masked.ids, masked.position, masked.target, strict=True):
        for k in range(len(target)):
            row = ids.copy()
            row[at : at + k] = target[:k]
            rows.append(row)
            where.append(at + k)
            pieces.append(target[k])
    log_p = log_softmax(fill_logits(session, rows, np.array(where)))
    own = log_p[np.arange(len(pieces)), pieces]
    return float(np.exp(-own.sum(dtype=np.float64) / len(masked.ids)))


def ngram_log_p(stream: Ints, masked: Masked, pieces: int, discount: float = 0.75) -> NDArray[np.float32]:
    """Interpolated n-gram over both sides: what a fill is judged against. (m, V)

    Left and right models of two neighbours, absolute discounting down to single pieces, multiplied; then contexts of
    both sides (1+1, 2+1 and 1+2, 2+2 neighbours) interpolated on top by the same discounting.
    """
    counts = np.bincount(stream, minlength=pieces) + 0.5
    unigram = counts / counts.sum()
    base = np.tile(unigram, (len(masked.ids), 1))

    def refined(lower: Floats, offsets: tuple[int, ...]) -> Floats:
        return discounted(stream, masked, offsets, lower, discount)

    left = refined(refined(base, (-1,)), (-2, -1))
    right = refined(refined(base, (1,)), (1, 2))
    both = left * right / unigram
    both = refined(both / both.sum(1, keepdims=True), (-1, 1))
    both = (refined(both, (-2, -1, 1)) + refined(both, (-1, 1, 2))) / 2
    out: NDArray[np.float32] = np.log(refined(both, (-2, -1, 1, 2))).astype(np.float32)
    return out


def discounted(stream: Ints, masked: Masked, offsets: tuple[int, ...], lower: Floats, discount: float) -> Floats:
    """max(count - discount, 0) / total, and what was taken off given to `lower`; `lower` where the context is new."""
    span = range(2, len(stream) - 2)
    keys = np.zeros(len(span), np.int64)
    wanted = np.zeros(len(masked.ids), np.int64)
    for by in offsets:
        keys = keys * 10_007 + stream[2 + by : len(stream) - 2 + by]
        near = [piece_at(ids, at + by) for ids, at in zip(masked.ids, masked.position, strict=True)]
        wanted = wanted * 10_007 + np.array(near, np.int64)
    hits = np.flatnonzero(np.isin(keys, wanted))
    order = hits[np.argsort(keys[hits], kind="stable")]
    ordered, centre = keys[order], stream[2:-2][order]
    out = lower.copy()
    for m, key in enumerate(wanted):
        a, b = np.searchsorted(ordered, [key, key + 1])
        if b > a:
            count = np.bincount(centre[a:b], minlength=lower.shape[1])
            taken = discount * np.count_nonzero(count) / (b - a)
            out[m] = np.maximum(count - discount, 0) / (b - a) + taken * lower[m]
    return out


def piece_at(ids: Ints, at: int) -> int:
    return int(ids[at]) if 0 <= at < len(ids) else EDGE


def probabilities(session: Any, tokenizer: Tokenizer, texts: Sequence[str], batch: int = 64) -> Floats:
    """The classifier's probability of positive; whole texts, an empty one as an unknown piece."""
    encoded = tokenizer.encode_batch(list(texts), add_special_tokens=False)
    rows = [np.array(e.ids or [UNK], np.int64) for e in encoded]
    out = np.zeros(len(rows))
    order = np.argsort([len(r) for r in rows], kind="stable")
    for begin in range(0, len(order), batch):
        some = order[begin : begin + batch]
        out[some] = session.run(["probability"], {"ids": padded([rows[i] for i in some])})[0]
    return out


def accuracy(session: Any, tokenizer: Tokenizer, texts: Sequence[str], labels: Ints) -> float:
    found = [probabilities(session, tokenizer, texts[i : i + 2000]) for i in range(0, len(texts), 2000)]
    return float(((np.concatenate(found) > 0.5) == (labels == 1)).mean())


def random_fills(session: Any, masked: Masked, words: KnownPieces, rng: np.random.Generator) -> list[str]:
    """A line for each masked word: its neighbours, what stood there, five draws, the likeliest and its probability."""
    log_p = log_softmax(np.where(words.whole, fill_logits(session, masked.ids, masked.position), -1e4))
    lines = []
    for ids, at, target, row in zip(masked.ids, masked.position, masked.target, log_p, strict=True):
        p = np.exp(row.astype(np.float64))
        draws = rng.choice(len(p), 5, p=p / p.sum())
        around = joined(words, ids[max(0, at - 8) : at]), joined(words, ids[at + 1 : at + 8])
        best = int(row.argmax())
        lines.append(
            f"{around[0]} [{words.pieces[target[0]]}] {around[1]} | "
            + ", ".join(words.pieces[d] for d in draws)
            + f" | {words.pieces[best]} {p[best]:.2f}"
        )
    return lines


def joined(words: KnownPieces, ids: Ints) -> str:
    return " ".join(words.pieces[i] for i in ids).replace(" ##", "")


def seconds(call: Callable[[], object], repeats: int = 3) -> float:
    """The shortest of a few runs after one to warm up."""
    call()
    taken = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begin)
    return min(taken)


STAGES = ("infiller", "ngram", "sentiment", "float", "speed")


def report(
    folder: Path,
    compare: Path | None = None,
    count: int = 5_000,
    seed: int = 0,
    threads: int = 1,
    stages: Sequence[str] = STAGES,
) -> dict[str, Any]:
    """Figures of the networks in `folder` on the test split, a key a stage.

    The same seed and count draw the same words whatever the stages. The stage "float" needs `compare`, the folder of
    the float versions.
    """
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    words = known_pieces(tokenizer)
    rng = np.random.default_rng(seed)
    texts, labels = reviews("test")
    some = [texts[i] for i in rng.choice(len(texts), 1_500, replace=False)]
    single = masked_words(some, tokenizer, count, rng)
    several = masked_words(some, tokenizer, count // 10, rng, single=False)
    fills = masked_words(some, tokenizer, 20, rng)

    def infiller() -> dict[str, Any]:
        network = session(folder / "infiller.onnx", threads)
        return infiller_quality(network, single, words) | {
            "words": len(single.ids),
            "several_pieces_perplexity": several_pieces_perplexity(network, several),
            "fills": random_fills(network, fills, words, rng),
        }

    def sentiment() -> dict[str, Any]:
        network = session(folder / "sentiment.onnx", threads)
        return {"accuracy": accuracy(network, tokenizer, texts, labels), "reviews": len(texts)}

    def exact() -> dict[str, Any]:
        if compare is None:
            raise ValueError("the stage 'float' compares with the float versions; give their folder as compare")
        return {
            "infiller": infiller_quality(session(compare / "infiller-float.onnx", threads), single, words),
            "sentiment": accuracy(session(compare / "sentiment-float.onnx", threads), tokenizer, texts, labels),
        }

    run: dict[str, Callable[[], dict[str, Any]]] = {
        "infiller": infiller,
        "ngram": lambda: ngram_quality(tokenizer, single, words),
        "sentiment": sentiment,
        "float": exact,
        "speed": lambda: speed(folder, tokenizer, texts, single, threads),
    }
    out: dict[str, Any] = {"bytes": {p.name: p.stat().st_size for p in sorted(folder.iterdir()) if p.is_file()}}
    return out | {stage: run[stage]() for stage in stages}


def session(path: Path, threads: int) -> Any:
    return open_session(path, f"the network {path.stem}", threads, extra="text")


def ngram_quality(tokenizer: Tokenizer, single: Masked, words: KnownPieces) -> dict[str, dict[str, float]]:
    """The n-gram's figures on the same words, counted on the reviews the infiller was trained on."""
    texts = reviews("train").texts + reviews("unlabelled").texts
    parts: list[Ints] = []
    for begin in range(0, len(texts), 2_000):
        for e in tokenizer.encode_batch(texts[begin : begin + 2_000], add_special_tokens=False):
            parts += [np.array([EDGE]), np.array(e.ids, np.int64)]
    stream = np.concatenate(parts)
    log_p = ngram_log_p(stream, single, len(words.pieces))
    target = np.concatenate(single.target)
    limited = log_softmax(np.where(words.whole, log_p, -1e4))
    return {"over_pieces": scores(log_p, target), "over_words": scores(limited, target)}


def speed(folder: Path, tokenizer: Tokenizer, texts: Sequence[str], single: Masked, threads: int) -> dict[str, float]:
    """Seconds for 1,000 fills one context each; texts of 200 words a second, with and without cutting into pieces."""
    infiller, sentiment = session(folder / "infiller.onnx", threads), session(folder / "sentiment.onnx", threads)
    long = [" ".join(t.split()[:200]) for t in texts if len(t.split()) >= 200][:256]
    rows = padded([np.array(e.ids, np.int64) for e in tokenizer.encode_batch(long, add_special_tokens=False)])
    fill = Masked(single.ids[:256], single.position[:256], single.target[:256])
    network = seconds(lambda: [sentiment.run(None, {"ids": rows[i : i + 64]}) for i in range(0, len(rows), 64)])
    whole = seconds(lambda: probabilities(sentiment, tokenizer, long))
    filled = seconds(lambda: fill_logits(infiller, fill.ids, fill.position))
    return {
        "seconds_per_1000_fills": filled / len(fill.ids) * 1000,
        "texts_per_second_network": len(rows) / network,
        "texts_per_second_with_pieces": len(rows) / whole,
    }
