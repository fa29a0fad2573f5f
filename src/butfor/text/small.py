"""Sampler: the embedded infiller, a small network of English reviews that runs without torch.

Model: the embedded classifier of English reviews, which runs without torch.

What it makes of a piece hangs on the three pieces to either side; these states are pooled over the text, by weighted
means and by a maximum, and the answer is made of what was pooled. So that is done once for a sentence: a text of which
one sentence was redrawn costs little more than that sentence (docs/decisions/0030).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from butfor.models.onnx import check_threads
from butfor.text.masked_lm import Blank, Shape, draw_spans, list_spans, lists_short, shape, spelled
from butfor.text.segment import Case, Span, case_of, cased, check_texts, rewritten, span_of, word_spans
from butfor.text.tokens import (
    EDGE,
    MASK,
    PAD,
    UNK,
    WEIGHTS,
    Recent,
    ask,
    ids_of,
    numbers_of,
    pieces_of,
    remembered,
    vocabulary,
)
from butfor.types import Bools, Floats, InputError, Ints, Subset, whole

WINDOW = 256  # pieces whose distributions are found in one pass, and kept
MARGIN = 64  # pieces around them, or around a word of several pieces, that the network reads
KEPT_BYTES = 2**28  # of the distributions of windows that are remembered: a test that draws again finds them here
KEPT = 64  # texts, and batches of words of several pieces, that are
ROWS = 8  # texts with something masked in each that the network gets at a time


@dataclass(frozen=True, eq=False)
class SmallInfiller:
    """Draws words of English reviews given the words on both sides. Made by `small_infiller`."""

    shape: Shape
    listed: int
    sweeps: int
    among: Among
    threads: int | None
    _texts: Recent[Encoded] = field(default_factory=lambda: Recent(KEPT), repr=False)
    _words: Recent[Floats] = field(default_factory=lambda: Recent(KEPT), repr=False)

    changes_subset_only = True

    @cached_property
    def _windows(self) -> Recent[tuple[Ints, NDArray[np.float32]]]:
        return Recent(max(8, KEPT_BYTES // (4 * WINDOW * len(self.among.ids))))

    def __repr__(self) -> str:
        return spelled("small_infiller", str(self.shape), listed=self.listed, sweeps=self.sweeps, among=self.among.name)

    def __call__(self, texts: Sequence[str], subset: Subset, draws: int, rng: np.random.Generator) -> list[str]:
        return draw_spans(texts, subset, draws, rng, partial(self._open, subset))

    def unfit(self, item: str) -> str | None:
        """Why this sampler is not for a text, in words; None if it is."""
        words = word_spans(item)
        strange = _encoded(item).unknown(words)
        if strange * 2 <= len(words):
            return None
        return (
            f"{strange} of its {len(words)} words are in a script that small_infiller does not know; use "
            "butfor.text.masked_lm with a model of its language"
        )

    def notes(self, inputs: Sequence[str], subsets: Sequence[Sequence[Subset]], seed: int) -> list[str]:  # noqa: ARG002
        """What should be known about these texts: how many of the words tested this sampler could not have drawn."""
        tested = unknown = 0
        for text, own in zip(inputs, subsets, strict=True):
            encoded = _encoded(text)
            tested += len(own)
            unknown += sum(tuple(subset.index) in encoded.several for subset in own)
        if not unknown:
            return []
        return [
            f"{unknown} of {tested} words tested are outside the infiller's vocabulary: they were compared with words "
            "inside it, and what is promised does not cover them."
        ]

    def repeats(self, _: Subset) -> bool:
        """Draws of words come again and again."""
        return True

    def lists(self, subset: Subset) -> bool:
        """Whether the likeliest fills of a subset are listed: if that was asked for, and the span is short."""
        return lists_short(self.listed, subset)

    def support(self, inputs: Sequence[str], subset: Subset) -> tuple[list[list[str]], Floats]:
        """The `listed` likeliest counterfactuals of each text, and their probabilities (n, m).

        Of a span of several words the likeliest are sought word by word, keeping `listed` beginnings at a time; their
        probabilities are those of the draws from left to right, so `sweeps` must be 0.
        """
        if self.sweeps:
            raise InputError("the fills of an infiller with sweeps cannot be listed; use sweeps=0, or listed=0")
        return list_spans(inputs, subset, self.listed, partial(self._open, subset))

    def _open(self, subset: Subset, text: str) -> Blank:
        span, units = span_of(text, subset), units_in(text, subset)
        return Blank(
            options=[self._options(unit) for unit in units],
            masked=partial(masked, text, span, units),
            mass=lambda rows, place, which: self._mass(rows, place, units[which]),
            alone=partial(self._alone, text, units[0]),
            written=partial(_written, text, span, units),
            sweeps=self.sweeps,
        )

    def _options(self, unit: TextUnit) -> Ints:
        """The pieces that may stand in place of a unit."""
        return self.among.ids if unit.starts else vocabulary().inside

    def _alone(self, text: str, unit: TextUnit) -> Floats:
        """The probability of each word that may stand in place of one word, (words,)."""
        if unit.starts and unit.ends:
            encoded = self._texts.get(text, lambda: _encoded(text))
            if (place := encoded.single(unit.span)) is not None:
                return self._in_window(text, encoded, place)
            if unit.span in encoded.several:
                return self._in_batch(text, encoded, encoded.several[unit.span], unit)
        ids, (place,) = masked(text, unit.span, [unit])
        return np.asarray(self._mass(ids[None], place, unit)[0])

    def _in_window(self, text: str, encoded: Encoded, place: int) -> Floats:
        """The distribution of a word that is one piece: a pass over its window gives those of all its neighbours."""
        number = place // WINDOW
        rows, mass = self._windows.get((text, number), lambda: self._pass(encoded.ids, number))
        found: Floats = mass[rows[place - number * WINDOW]].astype(np.float64)
        found /= found.sum()
        return found

    def _pass(self, ids: Ints, number: int) -> tuple[Ints, NDArray[np.float32]]:
        """Distributions (m, words to draw) of the whole words of a window, and which row is whose."""
        begin, end = number * WINDOW, min((number + 1) * WINDOW, len(ids))
        row, shift = _context(ids, begin, end)
        wanted = np.flatnonzero(vocabulary().known[ids[begin:end]])
        logits = _logits([row], wanted + begin - shift, self.threads)
        mass = self.shape.probabilities(logits[:, self.among.ids])
        rows = np.zeros(end - begin, np.int64)
        rows[wanted] = np.arange(len(wanted))
        return rows, mass.astype(np.float32)

    def _in_batch(self, text: str, encoded: Encoded, number: int, unit: TextUnit) -> Floats:
        """The distribution of a word of several pieces, found together with those of the next few such words."""
        spans = list(encoded.several)
        batch = number // ROWS

        def ask_batch() -> Floats:
            some = [masked(text, span, [replace(unit, span=span)]) for span in spans[batch * ROWS : (batch + 1) * ROWS]]
            logits = _logits_at([_near(ids, place) for ids, (place,) in some], self.threads)
            return self.shape.probabilities(logits[:, self.among.ids])

        return np.asarray(self._words.get((text, batch), ask_batch)[number % ROWS])

    def _mass(self, rows: Ints, place: int, unit: TextUnit) -> Floats:
        """Distributions over the words of a unit at one place of each row, (rows, words)."""
        near = [_near(row, place) for row in rows]
        ids = self._options(unit)
        parts = [_logits_at(near[a : a + ROWS], self.threads)[:, ids] for a in range(0, len(near), ROWS)]
        return self.shape.probabilities(np.concatenate(parts))


def small_infiller(
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    listed: int = 0,
    sweeps: int = 0,
    among: Literal["plain"] | Iterable[str] | None = None,
    threads: int | None = None,
) -> SmallInfiller:
    """Redraws words of English text, given the words on both sides, from the whole distribution over 8,000 words.

    A word is redrawn as one word, whatever it was: the network sees that a word stands there, not which one nor how
    many pieces it has. It draws lower-case words, which are written in the case of the observed one (small, Capital,
    ALL CAPITALS): case is conditioned on, and not tested. In a span of several words everything between the words
    stays, and the words are drawn from left to right. A span that begins inside a word gets pieces that go on with one.

    The sampler is the foil: what it may draw decides what is surprising. Trained on film reviews and reading one, this
    one expects its praise or blame, and every word of a review may well be a draw of it: then no null is false, and
    nothing is found. With `among="plain"` it draws only the 4,323 words that are as common in praise as in blame
    (training/plain_words.py): plain words of a text are still exchangeable with their draws, so they are the nulls, and
    words of opinion are what a run finds.

    Limits: it was trained on film reviews. A word outside its vocabulary is redrawn from the words inside, so that it
    may look surprising for being rare. Texts in scripts it does not know are refused. Distributions of the last few
    texts are remembered; drawing is the same bits with or without.

    Parameters
    ----------
    temperature, top_k, top_p : bend the distribution: the reference becomes the likelier words.
    listed : the exact tests ("irt" and "sequential") evaluate so many of the likeliest fills instead of drawing.
    sweeps : how often every word of a span is drawn again given all others.
    among : the only words it draws: "plain", or a list of words; None is all of them.
    threads : of the network; None is OMP_NUM_THREADS, else as many as ONNX Runtime likes.

    Examples
    --------
    >>> sampler = small_infiller()
    >>> made = sampler(["It was one of the best films."], Subset("of", (11, 13)), 2, np.random.default_rng(0))
    >>> made
    ['It was one of the best films.', 'It was one of the best films.']
    """
    return SmallInfiller(
        shape(temperature, top_k, top_p),
        whole("listed", listed, 0),
        whole("sweeps", sweeps, 0),
        among_words(among),
        check_threads(threads),
    )


@dataclass(frozen=True, eq=False)
class Among:
    """The words that may be drawn."""

    name: str  # "" for all of them
    ids: Ints  # their pieces


def plain_words() -> frozenset[str]:
    """The words that are as common in praise as in blame: in about as many good as bad reviews for training."""
    return frozenset((WEIGHTS / "plain.txt").read_text(encoding="utf-8").split())


def among_words(given: Iterable[str] | None) -> Among:
    """The argument of a sampler, checked."""
    if given is None:
        return Among("", vocabulary().whole)
    if isinstance(given, str) and given != "plain":
        raise InputError(f"among must be 'plain', a list of words, or None, got {given!r}")
    wanted = plain_words() if given == "plain" else {str(word).lower() for word in given}
    ids = np.array([word for word in vocabulary().whole if vocabulary().pieces[word] in wanted], np.int64)
    if len(ids) < 2:
        raise InputError(f"among has {len(ids)} words that the infiller knows; give at least 2 of them")
    return Among("'plain'" if given == "plain" else f"{len(ids)} words", ids)


@dataclass(frozen=True, eq=False)
class Encoded:
    """The pieces of a text, where each begins and ends, and the words that are not one known piece."""

    ids: Ints
    first: Ints
    last: Ints
    several: dict[Span, int]  # with their number

    def single(self, span: Span) -> int | None:
        """Which piece a word is, if it is one."""
        place = int(np.searchsorted(self.first, span[0]))
        if place >= len(self.ids) or (self.first[place], self.last[place]) != span:
            return None
        return place if vocabulary().known[self.ids[place]] else None

    def unknown(self, words: list[Span]) -> int:
        """How many of the words have a character that is in no piece."""
        seen = np.zeros(max([0, *self.last, *(end for _, end in words)]) + 2, np.int64)
        for start, end in zip(self.first[self.ids == UNK], self.last[self.ids == UNK], strict=True):
            seen[start + 1 : end + 1] = 1
        total = np.cumsum(seen)
        return sum(int(total[end] > total[start]) for start, end in words)


def _encoded(text: str) -> Encoded:
    (encoding,) = pieces_of([text])
    first, last = np.array(encoding.offsets, np.int64).reshape(-1, 2).T
    plain = Encoded(ids_of(encoding), first, last, {})
    several = [span for span in word_spans(text) if plain.single(span) is None]
    return replace(plain, several={span: number for number, span in enumerate(several)})


@dataclass(frozen=True)
class TextUnit:
    """A word, or a part of one, that is redrawn as a whole."""

    span: Span
    case: Case
    starts: bool  # where a word begins
    ends: bool  # where a word ends


def units_in(text: str, subset: Subset) -> list[TextUnit]:
    """The words of a span, each with the case that its fills get."""
    start, end = span_of(text, subset)
    found = [(start + a, start + b) for a, b in word_spans(text[start:end])]
    if not found:
        raise InputError(
            f"subset {subset.name!r} ({start}, {end}) has no word in it, and small_infiller redraws words; test spans "
            "with a letter or digit"
        )
    units = []
    for a, b in found:
        begins = a == 0 or a > start or not _joins(text, a)
        ends = b == len(text) or b < end or not _joins(text, b)
        units.append(TextUnit((a, b), case_of(text, a, b), begins, ends))
    return units


def _joins(text: str, place: int) -> bool:
    """Whether a word goes on over a cut at `place`."""
    if text[place - 1].isspace() or text[place].isspace():
        return False
    around = text[max(0, place - 2) : place + 2]
    return any(a < min(place, 2) < b for a, b in word_spans(around))


def masked(text: str, span: Span, units: list[TextUnit]) -> tuple[Ints, list[int]]:
    """The pieces of a text with one mask for each unit of the span, and where the masks are.

    Left, right and what is between the units are cut into pieces apart: nothing of the words themselves is seen, not
    even where their pieces would have ended. Only what is near is looked at; an edge says where the text really ends.
    """
    near = 32 * MARGIN  # characters: more than the pieces that are read
    low, high = max(0, span[0] - near), min(len(text), span[1] + near)
    cuts = [low, *(place for unit in units for place in unit.span), high]
    around = [text[a:b] for a, b in zip(cuts[::2], cuts[1::2], strict=True)]
    parts = [ids_of(encoding) for encoding in pieces_of(around)]
    parts[0] = np.concatenate([[EDGE], parts[0]]) if low == 0 else parts[0]
    parts[-1] = np.concatenate([parts[-1], [EDGE]]) if high == len(text) else parts[-1]
    parts[0], parts[-1] = parts[0][-MARGIN - 1 :], parts[-1][: MARGIN + 1]
    ids, places = [parts[0]], [len(parts[0])]
    for part in parts[1:]:
        ids += [np.array([MASK]), part]
        places.append(places[-1] + 1 + len(part))
    return np.concatenate(ids).astype(np.int64), places[:-1]


def _context(ids: Ints, begin: int, end: int) -> tuple[Ints, int]:
    """The pieces from `begin` to `end` with those around them, and what to take off a place to find it there."""
    low, high = max(0, begin - MARGIN), min(len(ids), end + MARGIN)
    left, right = [EDGE] * (low == 0), [EDGE] * (high == len(ids))
    return np.concatenate([left, ids[low:high], right]).astype(np.int64), low - len(left)


def _near(ids: Ints, place: int) -> tuple[Ints, int]:
    """The pieces that are read to fill one place, and where it is among them."""
    begin = max(0, place - MARGIN - 1)
    return ids[begin : place + MARGIN + 2], place - begin


def _logits_at(near: Sequence[tuple[Ints, int]], threads: int | None) -> NDArray[np.float32]:
    """Log-odds over all pieces at one place of each row, (rows, V)."""
    return _logits([row for row, _ in near], np.array([place for _, place in near]), threads)


def _logits(rows: Sequence[Ints], places: Ints, threads: int | None) -> NDArray[np.float32]:
    """The same at `places` of one row, or at one place of each row."""
    ids = np.full((len(rows), max(map(len, rows))), PAD, np.int64)
    for line, own in zip(ids, rows, strict=True):
        line[: len(own)] = own
    row = np.zeros(len(places), np.int64) if len(rows) == 1 else np.arange(len(rows))
    lengths = np.array([len(own) for own in rows], np.int32)
    return ask("infiller", threads, {"ids": ids, "lengths": lengths, "row": row, "position": places})


def _written(text: str, span: Span, units: list[TextUnit], pieces: Sequence[int]) -> str:
    """The span with other words in it, and what stands between them as it was."""
    known = vocabulary().pieces
    words = [cased(known[piece].removeprefix("##"), unit.case) for unit, piece in zip(units, pieces, strict=True)]
    if len(words) == 1:
        return words[0]
    return rewritten(text, span, [unit.span for unit in units], words)


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
