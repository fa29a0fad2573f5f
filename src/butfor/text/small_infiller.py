"""Sampler: the embedded infiller, a small network of English reviews that runs without torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from butfor.core.types import Floats, InputError, Ints, Subset
from butfor.text.case import Case, case_of, cased
from butfor.text.distribution import Shape, drawn, likeliest, shape, whole_number
from butfor.text.edit import Span, check_draws, check_texts, span_of
from butfor.text.network import EDGE, MASK, UNK, ask, check_threads, ids_of, pieces_of, vocabulary
from butfor.text.recent import Recent
from butfor.text.segment import word_spans

WINDOW = 256  # pieces whose distributions are found in one pass, and kept
MARGIN = 64  # pieces around them, or around a word of several pieces, that the network reads
KEPT = 8  # windows that are remembered: about 70 MB
KEPT_WORDS = 128  # words of several pieces likewise: 9 MB
ROWS = 8  # rows of one call where draws differ; fixed, since a row's last bits depend on the size of the batch
LISTED_CHARACTERS = 40  # of longer spans no list of likely fills holds a mass worth listing


@dataclass(frozen=True, eq=False)
class SmallInfiller:
    """Draws words of English reviews given the words on both sides. Made by `small_infiller`."""

    shape: Shape
    listed: int
    sweeps: int
    threads: int | None
    _texts: Recent = field(default_factory=lambda: Recent(KEPT), repr=False)
    _windows: Recent = field(default_factory=lambda: Recent(KEPT), repr=False)
    _words: Recent = field(default_factory=lambda: Recent(KEPT_WORDS), repr=False)

    def __repr__(self) -> str:
        said = [str(self.shape)] if str(self.shape) else []
        said += [f"listed={self.listed}"] if self.listed else []
        said += [f"sweeps={self.sweeps}"] if self.sweeps else []
        return f"small_infiller({', '.join(said)})"

    def __call__(self, texts: Sequence[str], subset: Subset, draws: int, rng: np.random.Generator) -> list[str]:
        texts, draws = check_texts(texts), check_draws(draws)
        out: list[str] = []
        for text in texts:
            start, end = span_of(text, subset)
            units = units_in(text, subset)
            numbers = rng.random((draws, len(units) * (1 + self.sweeps)))
            for fill in self._fills(text, (start, end), units, numbers) if draws else []:
                out.append(text[:start] + fill + text[end:])
        return out

    def unfit(self, text: str) -> str | None:
        """Why this sampler is not for `text`, in words; None if it is."""
        words = word_spans(text)
        ids, first, _ = _encoded(text)
        unknown = first[ids == UNK]
        if len(words) and len(unknown):
            places = np.searchsorted([start for start, _ in words], unknown, side="right") - 1
            ends = np.array([end for _, end in words])
            strange = len(set(places[(places >= 0) & (unknown < ends[places])].tolist()))
            if strange * 2 > len(words):
                return (
                    f"{strange} of its {len(words)} words are in a script that small_infiller does not know; use "
                    "butfor.text.masked_lm with a model of its language"
                )
        return None

    def lists(self, subset: Subset) -> bool:
        """Whether the likeliest fills of a subset are listed: if that was asked for, and the span is short."""
        return self.listed > 0 and subset.index[1] - subset.index[0] <= LISTED_CHARACTERS

    def support(self, texts: Sequence[str], subset: Subset) -> tuple[list[list[str]], Floats]:
        """The `listed` likeliest counterfactuals of each text, and their probabilities (n, m).

        Of a span of several words the likeliest are sought word by word, keeping `listed` beginnings at a time; their
        probabilities are those of the draws from left to right, so `sweeps` must be 0.
        """
        if self.sweeps:
            raise InputError("the fills of an infiller with sweeps cannot be listed; use sweeps=0, or listed=0")
        versions, masses = [], []
        for text in check_texts(texts):
            start, end = span_of(text, subset)
            fills, mass = self._likeliest(text, (start, end), units_in(text, subset))
            versions.append([text[:start] + fill + text[end:] for fill in fills])
            masses.append(mass)
        width = max((len(mass) for mass in masses), default=0)
        for own, text in zip(versions, texts, strict=True):
            own += [text] * (width - len(own))  # without mass
        padded = np.array([np.pad(mass, (0, width - len(mass))) for mass in masses]).reshape(len(masses), width)
        return versions, padded

    def _fills(self, text: str, span: Span, units: list[Unit], numbers: Floats) -> Iterable[str]:
        if len(units) == 1:
            words, mass = self._alone(text, units[0])
            # a sweep over one word is another draw from the same distribution
            return [cased(words[place], units[0].case) for place in drawn(mass, numbers[:, -1])]
        ids, places = masked(text, span, units)
        rows = np.tile(ids, (len(numbers), 1))
        for step in range(numbers.shape[1]):
            unit = step % len(units)
            mass = self._mass(rows, places[unit], units[unit], alike=step == 0)
            chosen = [drawn(own, number[None])[0] for own, number in zip(mass, numbers[:, step], strict=True)]
            rows[:, places[unit]] = units[unit].ids[chosen]
        return [_written(text, span, units, row[places]) for row in rows]

    def _likeliest(self, text: str, span: Span, units: list[Unit]) -> tuple[list[str], Floats]:
        if len(units) == 1:
            words, mass = self._alone(text, units[0])
            best = likeliest(mass, self.listed)
            return [cased(words[place], units[0].case) for place in best], mass[best]
        ids, places = masked(text, span, units)
        rows, total = ids[None], np.ones(1)
        for place, unit in zip(places, units, strict=True):
            mass = total[:, None] * self._mass(rows, place, unit, alike=len(rows) == 1)
            best = likeliest(mass.ravel(), self.listed)
            row, piece = np.divmod(best, mass.shape[1])
            rows, total = rows[row], mass.ravel()[best]
            rows[:, place] = unit.ids[piece]
        return [_written(text, span, units, row[places]) for row in rows], total

    def _alone(self, text: str, unit: Unit) -> tuple[Sequence[str], Floats]:
        """The words that may stand in place of one word, and the probability of each."""
        if unit.starts and unit.ends and (found := self._in_window(text, unit)) is not None:
            return unit.words, found
        mass: Floats = self._words.get((text, unit.span), lambda: self._masked_word(text, unit))
        return unit.words, mass

    def _masked_word(self, text: str, unit: Unit) -> Floats:
        ids, (place,) = masked(text, unit.span, [unit])
        mass: Floats = self._mass(ids[None], place, unit, alike=True)[0]
        return mass

    def _in_window(self, text: str, unit: Unit) -> Floats | None:
        """The distribution of a word that is one piece: a pass over its window gives those of all its neighbours."""
        ids, first, last = self._texts.get(text, lambda: _encoded(text))
        place = int(np.searchsorted(first, unit.span[0]))
        if place >= len(ids) or (first[place], last[place]) != unit.span or not vocabulary().known[ids[place]]:
            return None
        if place + 1 < len(ids) and first[place + 1] < last[place]:
            return None
        number = place // WINDOW
        rows, mass = self._windows.get((text, number), lambda: self._pass(ids, number))
        found: Floats = mass[rows[place - number * WINDOW]].astype(np.float64)
        found /= found.sum()
        return found

    def _pass(self, ids: Ints, number: int) -> tuple[Ints, Any]:
        """Distributions (m, whole words) of the whole words of a window, and which row is whose."""
        begin, end = number * WINDOW, min((number + 1) * WINDOW, len(ids))
        row, shift = _context(ids, begin, end)
        wanted = np.flatnonzero(vocabulary().known[ids[begin:end]])
        mass = self.shape.probabilities(_logits(row[None], wanted + begin - shift, self.threads)[:, vocabulary().whole])
        rows = np.zeros(end - begin, np.int64)
        rows[wanted] = np.arange(len(wanted))
        return rows, mass.astype(np.float32)

    def _mass(self, rows: Ints, place: int, unit: Unit, alike: bool) -> Floats:
        """Distributions over the words of a unit at one place of each row, (rows, words)."""
        begin, end = max(0, place - MARGIN), min(rows.shape[1], place + 1 + MARGIN)
        some = rows[:1, begin:end] if alike else rows[:, begin:end]
        parts = []
        for step in range(0, len(some), ROWS):
            part = some[step : step + ROWS]
            if not alike:
                part = part[np.minimum(np.arange(ROWS), len(part) - 1)]
            parts.append(_logits(part, np.full(len(part), place - begin), self.threads)[: len(some) - step])
        mass = self.shape.probabilities(np.concatenate(parts)[:, unit.ids])
        return np.repeat(mass, len(rows), axis=0) if alike else mass


def small_infiller(
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    listed: int = 0,
    sweeps: int = 0,
    threads: int | None = None,
) -> SmallInfiller:
    """Redraws words of English text, given the words on both sides, from the whole distribution over 8,000 words.

    A word is redrawn as one word, whatever it was: the network sees that a word stands there, not which one nor how
    many pieces it has. It draws lower-case words, which are written in the case of the observed one (small, Capital,
    ALL CAPITALS): case is conditioned on, and not tested. In a span of several words everything between the words
    stays, and the words are drawn from left to right; each of `sweeps` then draws every word again given all others. A
    span that begins inside a word gets pieces that go on with a word.

    `temperature`, `top_k` and `top_p` bend the distribution: the reference becomes the likelier words. With `listed`
    the exact tests ("irt" and "sequential") evaluate that many of the likeliest fills instead of drawing.

    Limits: it was trained on film reviews. A word outside its vocabulary is redrawn from the words inside, so that it
    may look surprising for being rare. Texts in scripts it does not know are refused. Distributions of the last few
    texts are remembered; drawing is the same bits with or without.

    >>> sampler = small_infiller()
    >>> made = sampler(["It was one of the best films."], Subset("of", (11, 13)), 2, np.random.default_rng(0))
    >>> made
    ['It was one of the best films.', 'It was one of the best films.']
    """
    return SmallInfiller(
        shape(temperature, top_k, top_p),
        whole_number("listed", listed, 0),
        whole_number("sweeps", sweeps, 0),
        check_threads(threads),
    )


def _encoded(text: str) -> tuple[Ints, Ints, Ints]:
    """The pieces of a text, where each begins and where it ends."""
    (encoding,) = pieces_of([text])
    first, last = np.array(encoding.offsets, np.int64).reshape(-1, 2).T
    return ids_of(encoding), first, last


@dataclass(frozen=True)
class Unit:
    """A word, or a part of one, that is redrawn as a whole."""

    span: Span
    case: Case
    starts: bool  # where a word begins
    ends: bool  # where a word ends

    @property
    def ids(self) -> Ints:
        return vocabulary().whole if self.starts else vocabulary().inside

    @property
    def words(self) -> Sequence[str]:
        return _strings(self.starts)


_STRINGS: dict[bool, tuple[str, ...]] = {}


def _strings(starts: bool) -> tuple[str, ...]:
    if starts not in _STRINGS:
        known = vocabulary()
        _STRINGS[starts] = tuple(known.pieces[i].removeprefix("##") for i in (known.whole if starts else known.inside))
    return _STRINGS[starts]


def units_in(text: str, subset: Subset) -> list[Unit]:
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
        units.append(Unit((a, b), case_of(text, a, b), begins, ends))
    return units


def _joins(text: str, place: int) -> bool:
    """Whether a word goes on over a cut at `place`."""
    around = text[max(0, place - 2) : place + 2]
    return any(a < min(place, 2) < b for a, b in word_spans(around))


def masked(text: str, span: Span, units: list[Unit]) -> tuple[Ints, list[int]]:
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


def _logits(rows: Ints, places: Ints, threads: int | None) -> Any:
    """Log-odds over all pieces, at `places` of one row or at one place of each row."""
    row = np.zeros(len(places), np.int64) if len(rows) == 1 else np.arange(len(rows))
    lengths = np.full(len(rows), rows.shape[1], np.int32)
    return ask("infiller", threads, {"ids": rows, "lengths": lengths, "row": row, "position": places})


def _written(text: str, span: Span, units: list[Unit], pieces: Ints) -> str:
    """The span with other words in it, and what stands between them as it was."""
    known, out, place = vocabulary().pieces, [], span[0]
    for unit, piece in zip(units, pieces, strict=True):
        out += [text[place : unit.span[0]], cased(known[piece].removeprefix("##"), unit.case)]
        place = unit.span[1]
    return "".join([*out, text[place : span[1]]])
