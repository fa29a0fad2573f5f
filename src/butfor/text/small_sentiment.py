"""Model: the embedded classifier of English reviews, which runs without torch.

What it makes of a piece hangs on the three pieces to either side; these states are pooled over the text, by weighted
means and by a maximum, and the answer is made of what was pooled. So that is done once for a sentence: a text of which
one sentence was redrawn costs little more than that sentence (docs/decisions/0030).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from butfor.core.types import Bools, Ints
from butfor.models.onnx_session import check_threads
from butfor.text.edit import check_texts
from butfor.text.network import UNK, ask, numbers_of, remembered, vocabulary

Pooled = NDArray[np.float32]  # (324,) weighted sums of the states, sums of the weights, the largest states
BATCH_PIECES = 2**12  # that the network gets at a time: they stay in the cache
BATCH_TEXTS = 64  # whose sentences are held at a time
MOST_POOLED = 2**14  # sentences of which it is remembered what was pooled
LEAST = 16  # pieces whose pooled states are kept together: a shorter sentence goes with the next
REACH = 3  # pieces to either side that a state hangs on: convolutions of three pieces, of step 1 and of step 2
WIDTH, HEADS = 64, 4  # of a state; weights of each state, for as many means
ENDS = frozenset({".", "!", "?", "...", "<br />"})


@dataclass(frozen=True)
class SmallSentiment:
    """The probability that a review is positive. Made by `small_sentiment`."""

    threads: int | None = None

    def __repr__(self) -> str:
        return "small_sentiment()"

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = [row if len(row) else np.array([UNK]) for row in numbers_of(check_texts(texts))]
        found = [self._answers(rows[start : start + BATCH_TEXTS]) for start in range(0, len(rows), BATCH_TEXTS)]
        return np.concatenate(found) if found else np.zeros(0, np.float32)

    def _answers(self, rows: Sequence[Ints]) -> NDArray[np.float32]:
        held = [_sentences(row) for row in rows]
        known = remembered(_pooled_before(), held, MOST_POOLED, partial(_pooled, self.threads))
        every = np.array([_joined([known[part] for part in parts]) for parts in held])
        sums, weights, most = np.split(every, [HEADS * WIDTH, HEADS * (WIDTH + 1)], axis=1)
        means = sums.reshape(-1, HEADS, WIDTH) / weights[:, :, None]
        return ask("sentiment_head", self.threads, {"means": means, "most": most}, arena=True)


def _sentences(row: Ints) -> list[bytes]:
    """The numbers of the pieces of a sentence or a few, with those around them that their states hang on."""
    framed = np.zeros(len(row) + 2 * REACH, np.int16)  # PAD is 0: its state is none, as beyond the ends of a text
    framed[REACH:-REACH] = row
    held, cuts = framed.tobytes(), [0]
    for end in (np.flatnonzero(_ends()[row[:-1]]) + 1).tolist():
        if end - cuts[-1] >= LEAST:  # so the end of a sentence as long as that is a cut, whatever stands before it
            cuts.append(end)
    return [held[2 * start : 2 * (stop + 2 * REACH)] for start, stop in pairwise([*cuts, len(row)])]


@lru_cache(maxsize=1)
def _ends() -> Bools:
    """Which pieces end a sentence (V,)."""
    return np.array([piece in ENDS for piece in vocabulary().pieces])


def _pooled(threads: int | None, parts: Sequence[bytes]) -> list[Pooled]:
    """What the network pools of sentences. They stand in one row: none reaches over the pieces around another."""
    found: list[Pooled] = []
    for some in _together(parts):
        ids = np.frombuffer(b"".join(some), np.int16).astype(np.int64)
        states = ask("sentiment", threads, {"ids": ids[None]}, output="states", arena=True)[0]
        ends = np.cumsum([len(part) // 2 for part in some])
        starts = np.concatenate([[0], ends[:-1]])
        found += _pool(states, np.column_stack([starts + REACH, ends - REACH]))
    return found


def _together(parts: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Parts in their order, as many at a time as the network gets, and one at least."""
    some: list[bytes] = []
    size = 0
    for part in parts:
        if some and size + len(part) // 2 > BATCH_PIECES:
            yield some
            some, size = [], 0
        some.append(part)
        size += len(part) // 2
    if some:
        yield some


def _pool(states: NDArray[np.float32], spans: Ints) -> list[Pooled]:
    """Of the pieces of each span (n, 2); the logarithms of the weights stand behind their states."""
    own, weight = states[:, :WIDTH], np.exp(states[:, WIDTH:])  # exponents were within 4 of 0, on random pieces too
    sums = np.array([weight[start:stop].T @ own[start:stop] for start, stop in spans.tolist()])
    weights, most = (how.reduceat(held, spans.ravel())[::2] for how, held in ((np.add, weight), (np.maximum, own)))
    return list(np.concatenate([sums.reshape(len(spans), -1), weights, most], axis=1))


def _joined(parts: Sequence[Pooled]) -> Pooled:
    """Of a text, from what was pooled of its sentences."""
    held, sums = np.array(parts), HEADS * (WIDTH + 1)
    return np.concatenate([held[:, :sums].sum(axis=0), held[:, sums:].max(axis=0)])


@lru_cache(maxsize=1)
def _pooled_before() -> dict[bytes, Pooled]:
    """What was pooled of sentences; a pure saving."""
    return {}


def small_sentiment(*, threads: int | None = None) -> SmallSentiment:
    """A classifier of English film reviews: a list of texts of any length -> the probability of positive (n,).

    It reads lower-case pieces of a vocabulary of 10,000 and was trained on IMDB; 91.5 % of the test split are right.

    Parameters
    ----------
    threads : of the network; None is OMP_NUM_THREADS, else as many as ONNX Runtime likes.

    Examples
    --------
    >>> low, high = small_sentiment()(["A dull and awful film.", "A wonderful film!"])
    >>> bool(low < 0.2 < 0.8 < high)
    True
    """
    return SmallSentiment(check_threads(threads))
