"""The embedded networks, which run without torch: an infiller of English reviews, and a classifier of them.

The classifier's state at a piece depends on the three pieces to either side; these states are pooled over the text, by
weighted means and by a maximum, and the output is made of the pooled values. So that is done once for a sentence: a
text of which one sentence was redrawn costs little more than that sentence (docs/decisions.md, 30).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from butfor.models.onnx import check_threads, open_session
from butfor.models.wrap import need
from butfor.text import fills
from butfor.text.segment import (
    Case,
    Span,
    case_of,
    cased,
    check_texts,
    encodable,
    lettered,
    rewritten,
    span_of,
    spans_of,
    word_spans,
)
from butfor.types import Array, Bools, Floats, InputError, Ints, ModelError, Subset, reworded, whole

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

WEIGHTS = Path(__file__).parent / "weights"
PAD, UNK, MASK, EDGE = 0, 1, 2, 3
MOST_SENTENCES = 2**14  # whose pieces, and pooled states, are remembered
Part = TypeVar("Part", str, bytes)
Made = TypeVar("Made")
Float32s = NDArray[np.float32]


class Vocabulary(NamedTuple):
    pieces: tuple[str, ...]
    words: Ints  # ids of the pieces that can stand as a word
    inside: Ints  # ids of the pieces that can continue a word
    is_word: Bools  # (V,)
    ends: Bools  # (V,) whether a piece ends a sentence


@lru_cache(maxsize=1)
def vocabulary() -> Vocabulary:
    tokens = tokenizer()
    pieces = tuple(str(tokens.id_to_token(piece)) for piece in range(tokens.get_vocab_size()))
    letters = np.array([lettered(piece) for piece in pieces])
    inside = np.array([piece.startswith("##") for piece in pieces])
    special = np.array([number <= EDGE or piece.startswith("<") for number, piece in enumerate(pieces)])
    ends = np.array([piece in (".", "!", "?", "...", "<br />") for piece in pieces])
    words = letters & ~inside & ~special
    return Vocabulary(pieces, np.flatnonzero(words), np.flatnonzero(letters & inside), words, ends)


@lru_cache(maxsize=1)
def tokenizer() -> Tokenizer:
    made: Tokenizer = need("tokenizers", "text").Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))
    return made


def pieces_of(texts: Sequence[str]) -> list[Encoding]:
    """Return the encodings of texts: ids, and the offsets of each piece."""
    return list(tokenizer().encode_batch([encodable(text) for text in texts], add_special_tokens=False))


def ids_of(encoding: Encoding) -> Ints:
    ids = np.array(encoding.ids, np.int64)
    ids[ids <= EDGE] = UNK  # a text that says "[MASK]" masks nothing
    return ids


def ask(
    name: str, threads: int | None, feeds: Mapping[str, Array], *, output: str | None = None, arena: bool = False
) -> Float32s:
    """Return an output of the network weights/`name`.onnx, the first by default; `arena`: batches are of one size."""
    # texts differ in length, and an arena would keep memory for each
    session = open_session(WEIGHTS / f"{name}.onnx", f"the embedded {name}", threads, arena=arena, extra="text")
    with reworded(f"the embedded {name} failed: ", by=ModelError):  # ONNX Runtime has many kinds of errors
        out: Float32s = session.run(None if output is None else [output], feeds)[0]
        return out


# Of 3,000 reviews none had more than 28 % of unknown words; German had 65 %, French 45 %, English logs 57 %
MOST_UNKNOWN, LEAST_UNKNOWN = 0.35, 3
WINDOW = 256  # pieces whose distributions are computed in one pass, and kept
NEAR_MASKS = 16  # masks of a row that are read in one pass
MARGIN = 64  # pieces around them, or around a word of several pieces, that the network reads
KEPT_BYTES = 2**28  # of the distributions of windows that are remembered: a test that draws again finds them here
KEPT = 64  # texts, and batches of words of several pieces, that are remembered
ROWS = 8  # texts with something masked in each that the network gets at a time


@dataclass(frozen=True, eq=False)
class SmallInfiller:
    """Draws words of English reviews given the words on both sides. Made by `small_infiller`."""

    shape: fills.Shape
    listed: int
    sweeps: int
    among: str  # the words that may be drawn, for the repr
    words: Ints  # their pieces
    threads: int | None
    _texts: fills.Recent[Encoded] = field(default_factory=lambda: fills.Recent(KEPT), repr=False)
    _batches: fills.Recent[Floats] = field(default_factory=lambda: fills.Recent(KEPT), repr=False)

    changes_subset_only = True
    __call__ = fills.draw_spans
    repeats = fills.always_repeats
    lists = fills.lists_short
    support = fills.list_spans

    @cached_property
    def _windows(self) -> fills.Recent[tuple[Ints, Float32s]]:
        return fills.Recent(max(8, KEPT_BYTES // (4 * WINDOW * len(self.words))))

    def __repr__(self) -> str:
        options = {"listed": self.listed, "sweeps": self.sweeps, "among": self.among}
        return fills.spelled("small_infiller", str(self.shape), **options)

    def unfit(self, item: str) -> str | None:
        count, words = len(_encoded(item).several), len(word_spans(item))
        if count <= max(MOST_UNKNOWN * words, LEAST_UNKNOWN - 1):
            return None
        return (
            f"{count} of its {words} words are outside the 8,000 words of film reviews that small_infiller draws from; "
            "use butfor.text.ngram(corpus), with texts of this kind and language, or masked_lm with a model of them"
        )

    def covers(self, text: str, subset: Subset) -> bool:
        """Return whether a subset is no word outside the vocabulary: that could not have been drawn."""
        several = self._texts.get(text, lambda: _encoded(text)).several
        return not any(span in several for span in spans_of(text, subset))

    def open(self, text: str, subset: Subset) -> fills.Blank:
        span = start, end = span_of(text, subset)
        words = [(start + a, start + b) for a, b in word_spans(text[start:end])]
        if not words:
            raise InputError(
                f"subset {subset.name!r} ({start}, {end}) has no word in it, and small_infiller redraws words; test "
                "spans with a letter or digit"
            )

        def goes_on(cut: int) -> bool:  # whether a word continues over a cut
            if text[cut - 1].isspace() or text[cut].isspace():
                return False
            return any(a < min(cut, 2) < b for a, b in word_spans(text[max(0, cut - 2) : cut + 2]))

        units = []
        for a, b in words:
            begins = a == 0 or a > start or not goes_on(a)
            ends = b == len(text) or b < end or not goes_on(b)
            units.append(TextUnit((a, b), case_of(text, a, b), begins, ends))

        def written(pieces: Sequence[int]) -> str:
            known = vocabulary().pieces
            drawn = [cased(known[p].removeprefix("##"), unit.case) for unit, p in zip(units, pieces, strict=True)]
            return drawn[0] if len(drawn) == 1 else rewritten(text, span, words, drawn)

        return fills.Blank(
            options=[self._options(unit) for unit in units],
            masked=partial(masked, text, span, words),
            mass=lambda rows, index, which: self._mass(rows, index, units[which]),
            alone=partial(self._alone, text, units[0]),
            written=written,
            sweeps=self.sweeps,
            together=partial(self._masses, partial(masked, text, span, words), units),
        )

    def _masses(
        self, read: Callable[[], tuple[Ints, list[int]]], units: Sequence[TextUnit], rows: Ints, group: Sequence[int]
    ) -> list[Floats]:
        """Return the distributions at some of the masks of rows of the same length, each (rows, words)."""
        masks, out = np.array(read()[1])[list(group)], list[Floats]()
        for start in range(0, len(masks), NEAR_MASKS):
            near = masks[start : start + NEAR_MASKS]
            low, high = max(0, int(near[0]) - MARGIN - 1), int(near[-1]) + MARGIN + 2
            parts = []
            for first in range(0, len(rows), ROWS):
                ids = rows[first : first + ROWS, low:high]
                feeds: dict[str, Array] = {"ids": ids, "lengths": np.full(len(ids), ids.shape[1], np.int32)}
                feeds |= {"row": np.repeat(np.arange(len(ids)), len(near)), "position": np.tile(near - low, len(ids))}
                logits = ask("infiller", self.threads, feeds)
                parts.append(logits.reshape(len(ids), len(near), -1))
            values = np.concatenate(parts)
            for number, which in enumerate(group[start : start + NEAR_MASKS]):
                out.append(self.shape.probabilities(values[:, number, self._options(units[which])]))
        return out

    def together(self, text: str, places: Sequence[Span], others: Set[str]) -> fills.Blank:
        unit = TextUnit(places[0], "small", True, True)
        read = partial(masked, text, (places[0][0], places[-1][1]), places)

        def alone() -> Floats:
            excluded = [self._numbers[word] for word in others & self._numbers.keys()]
            if len(places) == 1:
                return fills.without(self._alone(text, unit), excluded)
            return fills.without(self._means.get((text, places), mean), excluded)

        def mean() -> Floats:
            ids, masks = read()
            parts = [(ids, index) for index in masks]
            batches = [parts[start : start + ROWS] for start in range(0, len(parts), ROWS)]
            logits = np.concatenate([_logits_near(batch, self.threads)[:, self.words] for batch in batches])
            return np.asarray(self.shape.probabilities(logits).mean(axis=0))

        cases = [case_of(text, *place) for place in places]

        def written(pieces: Sequence[int]) -> str:
            drawn = [cased(vocabulary().pieces[pieces[0]], case) for case in cases]
            return rewritten(text, (places[0][0], places[-1][1]), places, drawn)

        return fills.Blank([self.words], read, lambda rows, index, _: self._mass(rows, index, unit), alone, written)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {vocabulary().pieces[piece]: number for number, piece in enumerate(self.words)}

    @cached_property
    def _means(self) -> fills.Recent[Floats]:
        return fills.Recent(max(8, KEPT_BYTES // (8 * len(self.words))))

    def _options(self, unit: TextUnit) -> Ints:
        return self.words if unit.starts else vocabulary().inside

    def _alone(self, text: str, unit: TextUnit) -> Floats:  # (words,)
        if unit.starts and unit.ends:
            encoded = self._texts.get(text, lambda: _encoded(text))
            if (index := encoded.single(unit.span)) is not None:  # one pass gives those of all its neighbours, too
                window = index // WINDOW
                rows, mass = self._windows.get((text, window), lambda: self._window(encoded.ids, window))
                row: Floats = mass[rows[index - window * WINDOW]].astype(np.float64)
                row /= row.sum()
                return row
            if unit.span in encoded.several:  # computed together with the next few words of several pieces
                number = encoded.several[unit.span]
                first = number // ROWS * ROWS
                spans = list(encoded.several)[first : first + ROWS]

                def make() -> Floats:
                    rows = [masked(text, span, [span]) for span in spans]
                    logits = _logits_near([(ids, index) for ids, (index,) in rows], self.threads)
                    return self.shape.probabilities(logits[:, self.words])

                return np.asarray(self._batches.get((text, number // ROWS), make)[number % ROWS])
        ids, (index,) = masked(text, unit.span, [unit.span])
        return np.asarray(self._mass(ids[None], index, unit)[0])

    def _window(self, ids: Ints, window: int) -> tuple[Ints, Float32s]:
        """Return the distributions (m, words to draw) of the words of a window, and which row is whose."""
        begin, end = window * WINDOW, min((window + 1) * WINDOW, len(ids))
        low, high = max(0, begin - MARGIN), min(len(ids), end + MARGIN)
        left, right = [EDGE] * (low == 0), [EDGE] * (high == len(ids))
        row = np.concatenate([left, ids[low:high], right]).astype(np.int64)
        wanted = np.flatnonzero(vocabulary().is_word[ids[begin:end]])
        logits = _logits([row], wanted + begin - low + len(left), self.threads)
        mass = self.shape.probabilities(logits[:, self.words])
        rows = np.zeros(end - begin, np.int64)
        rows[wanted] = np.arange(len(wanted))
        return rows, mass.astype(np.float32)

    def _mass(self, rows: Ints, index: int, unit: TextUnit) -> Floats:  # (rows, words)
        ids = self._options(unit)
        batches = [[(row, index) for row in rows[a : a + ROWS]] for a in range(0, len(rows), ROWS)]
        parts = [_logits_near(batch, self.threads)[:, ids] for batch in batches]
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
    """Redraw words of English text, given the words on both sides, from a distribution over 8,000 words.

    A word is redrawn as one word: the network sees that a word stands there, not which one nor how many pieces it has.
    Draws are written in the case of the observed word (small, Capital, ALL CAPITALS), which is conditioned on. In a
    span of several words everything between the words stays, and the words are drawn from left to right. A span that
    begins inside a word gets pieces that continue one.

    The sampler decides what is surprising. Trained on film reviews, this one expects praise or blame in a review, every
    word of which may well be a draw: then no null is false, and there are no discoveries. With `among="plain"` it draws
    only the 4,323 words that are as common in praise as in blame (training/plain_words.py): plain words of a text are
    still exchangeable with their draws, so they are the nulls, and words of opinion are what a run discovers.

    Limits: a word outside its vocabulary is redrawn from the words inside, so that it is marked and not judged. A text
    with more than 35 % of such words is refused.

    Parameters
    ----------
    temperature, top_k, top_p : float, int, float
        Sharpen or cut the distribution: the reference becomes the likelier words.
    listed : int
        The exact tests ("irt" and "sequential") evaluate so many of the likeliest fills instead of drawing.
    sweeps : int
        How often every word of a span is drawn again given all others.
    among : "plain" or iterable of str, optional
        The only words it draws: "plain", or a list of words; None is all of them.
    threads : int, optional
        Threads of the network; None is OMP_NUM_THREADS, else ONNX Runtime's default.

    Returns
    -------
    SmallInfiller
        A sampler of texts.

    Examples
    --------
    >>> sampler = small_infiller()
    >>> made = sampler(["It was one of the best films."], Subset("of", (11, 13)), 2, np.random.default_rng(0))
    >>> made
    ['It was one of the best films.', 'It was one of the best films.']
    """
    name, ids = "", vocabulary().words
    if among is not None:
        if isinstance(among, str) and among != "plain":
            raise InputError(f"among must be 'plain', a list of words, or None, got {among!r}")
        wanted = plain_words() if among == "plain" else {str(word).lower() for word in among}
        ids = np.array([word for word in ids if vocabulary().pieces[word] in wanted], np.int64)
        if len(ids) < 2:
            raise InputError(f"among has {len(ids)} words that the infiller knows; give at least 2 of them")
        name = "'plain'" if among == "plain" else f"{len(ids)} words"
    limits = whole("listed", listed, 0), whole("sweeps", sweeps, 0)
    return SmallInfiller(fills.Shape(temperature, top_k, top_p), *limits, name, ids, check_threads(threads))


def plain_words() -> frozenset[str]:
    return frozenset((WEIGHTS / "plain.txt").read_text(encoding="utf-8").split())


@dataclass(frozen=True, eq=False)
class Encoded:
    """The pieces of a text, where each begins and ends, and the words that are not one known piece."""

    ids: Ints
    first: Ints
    last: Ints
    several: dict[Span, int]  # with their number

    def single(self, span: Span) -> int | None:
        index = int(np.searchsorted(self.first, span[0]))
        if index >= len(self.ids) or (self.first[index], self.last[index]) != span:
            return None
        return index if vocabulary().is_word[self.ids[index]] else None


def _encoded(text: str) -> Encoded:
    (encoding,) = pieces_of([text])
    first, last = np.array(encoding.offsets, np.int64).reshape(-1, 2).T
    plain = Encoded(ids_of(encoding), first, last, {})
    several = [span for span in word_spans(text) if plain.single(span) is None]
    return replace(plain, several={span: number for number, span in enumerate(several)})


class TextUnit(NamedTuple):
    """A word, or a part of one, that is redrawn as one."""

    span: Span
    case: Case
    starts: bool  # where a word begins
    ends: bool  # where a word ends


def masked(text: str, span: Span, words: Sequence[Span]) -> tuple[Ints, list[int]]:
    """Return the pieces of a text with one mask for each word of the span, and the indices of the masks.

    Left, right and what is between the words are cut into pieces apart: nothing of the words themselves is seen, not
    even where their pieces would have ended. Only what is near is read; an edge says where the text really ends.
    """
    near = 32 * MARGIN  # characters: more than the pieces that are read
    low, high = max(0, span[0] - near), min(len(text), span[1] + near)
    cuts = [low, *(cut for word in words for cut in word), high]
    around = [text[a:b] for a, b in zip(cuts[::2], cuts[1::2], strict=True)]
    parts = [ids_of(encoding) for encoding in pieces_of(around)]
    parts[0] = np.concatenate([[EDGE], parts[0]]) if low == 0 else parts[0]
    parts[-1] = np.concatenate([parts[-1], [EDGE]]) if high == len(text) else parts[-1]
    parts[0], parts[-1] = parts[0][-MARGIN - 1 :], parts[-1][: MARGIN + 1]
    ids, masks = [parts[0]], [len(parts[0])]
    for part in parts[1:]:
        ids += [np.array([MASK]), part]
        masks.append(masks[-1] + 1 + len(part))
    return np.concatenate(ids).astype(np.int64), masks[:-1]


def _logits_near(rows: Sequence[tuple[Ints, int]], threads: int | None) -> Float32s:
    """Return log-odds over all pieces at one index of each row (rows, V), reading the pieces around it."""
    begins = [max(0, index - MARGIN - 1) for _, index in rows]
    near = [ids[begin : index + MARGIN + 2] for begin, (ids, index) in zip(begins, rows, strict=True)]
    return _logits(near, np.array([index - begin for begin, (_, index) in zip(begins, rows, strict=True)]), threads)


def _logits(rows: Sequence[Ints], indices: Ints, threads: int | None) -> Float32s:
    """Return the same at `indices` of one row, or at one index of each row."""
    ids = np.full((len(rows), max(map(len, rows))), PAD, np.int64)
    for line, row in zip(ids, rows, strict=True):
        line[: len(row)] = row
    which = np.zeros(len(indices), np.int64) if len(rows) == 1 else np.arange(len(rows))
    lengths = np.array([len(row) for row in rows], np.int32)
    return ask("infiller", threads, {"ids": ids, "lengths": lengths, "row": which, "position": indices})


BATCH_PIECES = 2**12  # that the classifier gets at a time: they stay in the cache
BATCH_TEXTS = 64  # whose sentences are in memory at a time
LEAST = 16  # pieces whose pooled states are kept together: a shorter sentence goes with the next
MARGIN_STATE = 3  # pieces to either side that a state depends on: convolutions of three pieces, of step 1 and of step 2
WIDTH, HEADS = 64, 4  # of a state; weights of each state, for as many means


@dataclass(frozen=True)
class SmallSentiment:
    """The probability that a review is positive. Made by `small_sentiment`."""

    threads: int | None = None

    def __repr__(self) -> str:
        return "small_sentiment()"

    def __call__(self, texts: Sequence[str]) -> Float32s:
        rows = [row if len(row) else np.array([UNK]) for row in numbers_of(check_texts(texts))]
        out, sums_end = [np.zeros(0, np.float32)], HEADS * (WIDTH + 1)
        for start in range(0, len(rows), BATCH_TEXTS):
            batch, joined = [_sentences(row) for row in rows[start : start + BATCH_TEXTS]], []
            known = remembered(POOLED, batch, partial(_pooled, self.threads))
            for sentences in batch:
                pooled = np.array([known[sentence] for sentence in sentences])
                joined.append(np.concatenate([pooled[:, :sums_end].sum(axis=0), pooled[:, sums_end:].max(axis=0)]))
            sums, weights, most = np.split(np.array(joined), [HEADS * WIDTH, sums_end], axis=1)
            means = sums.reshape(-1, HEADS, WIDTH) / weights[:, :, None]
            out.append(ask("sentiment_head", self.threads, {"means": means, "most": most}, arena=True))
        return np.concatenate(out)


def small_sentiment(*, threads: int | None = None) -> SmallSentiment:
    """Load a classifier of English film reviews: a list of texts of any length -> the probability of positive (n,).

    It reads lower-case pieces of a vocabulary of 10,000 and was trained on IMDB; 91.5 % of the test split are right.

    Parameters
    ----------
    threads : int, optional
        Threads of the network; None is OMP_NUM_THREADS, else ONNX Runtime's default.

    Returns
    -------
    SmallSentiment
        A function from a list of texts to probabilities.

    Examples
    --------
    >>> low, high = small_sentiment()(["A dull and awful film.", "A wonderful film!"])
    >>> bool(low < 0.2 < 0.8 < high)
    True
    """
    return SmallSentiment(check_threads(threads))


def _sentences(row: Ints) -> list[bytes]:
    """Return the pieces of each sentence or few, with those around them that their states depend on."""
    framed = np.zeros(len(row) + 2 * MARGIN_STATE, np.int16)  # PAD is 0: no state, as beyond the ends of a text
    framed[MARGIN_STATE:-MARGIN_STATE] = row
    content, cuts = framed.tobytes(), [0]
    for end in (np.flatnonzero(vocabulary().ends[row[:-1]]) + 1).tolist():
        if end - cuts[-1] >= LEAST:  # so the end of a sentence as long as that is a cut, whatever stands before it
            cuts.append(end)
    return [content[2 * start : 2 * (stop + 2 * MARGIN_STATE)] for start, stop in pairwise([*cuts, len(row)])]


def _pooled(threads: int | None, sentences: Sequence[bytes]) -> list[Float32s]:
    """Return the pooled states of sentences (324,): weighted sums, sums of the weights, the largest states."""
    batches: list[list[bytes]] = []  # sentences in one row: no state depends on pieces beyond those around its own
    room = -1
    for sentence in sentences:
        if len(sentence) // 2 > room:
            batches.append([])
            room = BATCH_PIECES
        batches[-1].append(sentence)
        room -= len(sentence) // 2
    pooled: list[Float32s] = []
    for batch in batches:
        ids = np.frombuffer(b"".join(batch), np.int16).astype(np.int64)
        states = ask("sentiment", threads, {"ids": ids[None]}, output="states", arena=True)[0]
        ends = np.cumsum([len(sentence) // 2 for sentence in batch])
        spans = np.column_stack([np.concatenate([[0], ends[:-1]]) + MARGIN_STATE, ends - MARGIN_STATE])
        # the logarithms of the weights stand behind the states; they were within 4 of 0, on random pieces too
        values, weight = states[:, :WIDTH], np.exp(states[:, WIDTH:])
        sums = np.array([weight[start:stop].T @ values[start:stop] for start, stop in spans.tolist()])
        weights = np.add.reduceat(weight, spans.ravel())[::2]
        most = np.maximum.reduceat(values, spans.ravel())[::2]
        pooled += list(np.concatenate([sums.reshape(len(spans), -1), weights, most], axis=1))
    return pooled


POOLED: dict[bytes, Float32s] = {}  # caches, only to save time
PIECES: dict[str, Ints] = {}


def remembered(
    cache: dict[Part, Made], groups: Sequence[Sequence[Part]], make: Callable[[Sequence[Part]], list[Made]]
) -> dict[Part, Made]:
    """Return the values of all parts, made where the cache does not have them."""
    known = {part: cache.get(part) for parts in groups for part in parts}  # another thread may empty the cache
    fresh = [part for part, value in known.items() if value is None]
    made = dict(zip(fresh, make(fresh), strict=True))
    if len(cache) + len(made) > MOST_SENTENCES:
        cache.clear()
    cache.update(made)
    return {part: value for part, value in known.items() if value is not None} | made


def numbers_of(texts: Sequence[str]) -> list[Ints]:
    """Return `ids_of` of each text, in a fraction of the time where texts have most sentences in common."""
    parts = []
    for text in texts:  # no piece spans a space: what stands between full stops with a space is encoded once
        *others, last = encodable(text).split(". ")
        parts.append([*(sentence + "." for sentence in others), last])
    known = remembered(PIECES, parts, lambda fresh: list(map(ids_of, pieces_of(fresh))))
    return [np.concatenate([known[sentence] for sentence in sentences]) for sentences in parts]
