"""Sampler: a masked language model of transformers redraws the pieces of a span."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np

from butfor.text.segment import Case, Span, case_of, cased, check_texts, rewritten, span_of
from butfor.text.subsets import trimmed
from butfor.text.tokens import LanguageModel, Pieces, PieceTable, Recent, language_model
from butfor.types import Array, Floats, InputError, Ints, Subset, whole


@dataclass(frozen=True)
class Shape:
    """How a distribution is bent before it is drawn from; as it stands, nothing is."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __str__(self) -> str:
        """As arguments of a sampler, only what is not the default."""
        parts = [] if self.temperature == 1 else [f"temperature={self.temperature:g}"]
        parts += [] if self.top_k is None else [f"top_k={self.top_k}"]
        parts += [] if self.top_p is None else [f"top_p={self.top_p:g}"]
        return ", ".join(parts)

    def probabilities(self, logits: Array) -> Floats:
        """Rows of log-odds (m, V) -> rows that sum to 1 (m, V)."""
        scaled = np.asarray(logits, np.float64) / self.temperature
        scaled -= scaled.max(axis=1, keepdims=True)
        mass = np.exp(scaled)
        mass /= mass.sum(axis=1, keepdims=True)
        if self.top_k is None and self.top_p is None:
            return mass
        order = np.argsort(-mass, axis=1, kind="stable")
        ranked = np.take_along_axis(mass, order, axis=1)
        kept = np.ones_like(ranked, bool)
        if self.top_k is not None:
            kept[:, self.top_k :] = False
        if self.top_p is not None:  # the likeliest one always stays
            kept &= np.cumsum(ranked, axis=1) - ranked < self.top_p
        bent = np.zeros_like(mass)
        np.put_along_axis(bent, order, np.where(kept, ranked, 0.0), axis=1)
        bent /= bent.sum(axis=1, keepdims=True)
        return bent


def shape(temperature: object, top_k: object, top_p: object) -> Shape:
    """The arguments of a sampler, checked."""
    heat, share = _number(temperature), _number(top_p)
    if heat is None or not 0 < heat < math.inf:
        raise InputError(f"temperature must be a number above 0, got {temperature!r}")
    if top_p is not None and (share is None or not 0 < share <= 1):
        raise InputError(f"top_p must be a share above 0 and at most 1, or None, got {top_p!r}")
    return Shape(heat, None if top_k is None else whole("top_k", top_k, 1), share)


def _number(value: object) -> float | None:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return float(value) if number else None  # type: ignore[arg-type]


def drawn(mass: Floats, uniform: Floats) -> Ints:
    """The places in one distribution (V,) that uniform numbers (k,) point at."""
    steps = np.cumsum(mass)
    # rounding may leave the last step below 1, and a number may point at its very end
    places = np.searchsorted(steps, np.asarray(uniform) * steps[-1], side="right")
    last = int(np.flatnonzero(mass)[-1])
    out: Ints = np.minimum(places, last)
    return out


def likeliest(mass: Floats, count: int) -> Ints:
    """The places of the `count` largest of one distribution, the largest first, ties in order; none without mass."""
    count = min(count, int(np.count_nonzero(mass)))
    return np.argsort(-mass, kind="stable")[:count]


def spelled(name: str, *parts: str, **options: object) -> str:
    """A sampler as a call: the parts and options that are not empty.

    >>> spelled("ngram", "9 words", "", listed=3, least=0)
    'ngram(9 words, listed=3)'
    """
    shown = [f"{option}={value}" for option, value in options.items() if value]
    return f"{name}({', '.join([*filter(None, parts), *shown])})"


LISTED_CHARACTERS = 40  # of longer spans no list of likely fills holds a mass worth listing
Mass = Callable[[Ints, int, int], Floats]  # rows of pieces (n, length), a place, its number -> masses (n, options)


class Filling(Protocol):
    """A span of one text that can be filled."""

    @property
    def width(self) -> int: ...  # uniform numbers that a draw takes
    def fills(self, numbers: Floats) -> list[str]: ...  # (draws, width) -> the characters of the span, for each draw
    def likeliest(self, count: int) -> tuple[list[str], Floats]: ...  # those fills, and their probabilities


def draw_spans(
    texts: Sequence[str], subset: Subset, draws: int, rng: np.random.Generator, opened: Callable[[str], Filling]
) -> list[str]:
    """Texts with the span redrawn, `draws` of the first, then of the second, and so on."""
    texts, draws = check_texts(texts), whole("draws", draws, 0)
    out: list[str] = []
    for text in texts:
        start, end = span_of(text, subset)
        filling = opened(text)
        numbers = rng.random((draws, filling.width))
        out += [text[:start] + fill + text[end:] for fill in (filling.fills(numbers) if draws else [])]
    return out


def list_spans(
    texts: Sequence[str], subset: Subset, count: int, opened: Callable[[str], Filling]
) -> tuple[list[list[str]], Floats]:
    """Versions of each text with its likeliest fills, and their probabilities (n, m).

    Where there are fewer than in another text, the text itself follows without mass.
    """
    texts = check_texts(texts)
    found = [opened(text).likeliest(count) for text in texts]
    masses = np.zeros((len(texts), max((len(mass) for _, mass in found), default=0)))
    versions = []
    for row, (text, (fills, mass)) in enumerate(zip(texts, found, strict=True)):
        start, end = span_of(text, subset)
        masses[row, : len(mass)] = mass
        own = [text[:start] + fill + text[end:] for fill in fills]
        versions.append(own + [text] * (masses.shape[1] - len(own)))
    return versions, masses


def lists_short(listed: int, subset: Subset) -> bool:
    """Whether the likeliest fills of a subset are listed: if that was asked for, and the span is short."""
    start, end = subset.index
    return bool(listed > 0 and end - start <= LISTED_CHARACTERS)


@dataclass(frozen=True, eq=False)
class Blank:
    """Pieces of a text masked together: what may stand there, how likely it is, how that reads."""

    options: Sequence[Ints]  # the pieces that may stand at each place
    masked: Callable[[], tuple[Ints, list[int]]]  # the pieces of the text (length,), and where the masks are
    mass: Mass
    alone: Callable[[], Floats]  # the same of a single place, (options,)
    written: Callable[[Sequence[int]], str]  # a piece for each place -> the characters of the span
    sweeps: int = 0  # how often every piece is drawn again given all others

    @property
    def width(self) -> int:
        return len(self.options) * (1 + self.sweeps)

    def fills(self, numbers: Floats) -> list[str]:
        if len(self.options) == 1:  # a sweep over one piece is another draw from the same distribution
            return [self.written([self.options[0][place]]) for place in drawn(self.alone(), numbers[:, -1])]
        ids, places = self.masked()
        rows = np.tile(ids, (len(numbers), 1))
        for step in range(numbers.shape[1]):
            which = step % len(places)
            distinct, back = np.unique(rows, axis=0, return_inverse=True)
            found = self.mass(distinct, places[which], which)
            for row, (own, number) in enumerate(zip(back.ravel(), numbers[:, step], strict=True)):
                rows[row, places[which]] = self.options[which][drawn(found[own], number[None])[0]]
        return [self.written(row[places]) for row in rows]

    def likeliest(self, count: int) -> tuple[list[str], Floats]:
        """Sought from left to right, keeping `count` beginnings at a time."""
        if len(self.options) == 1:
            mass = self.alone()
            best = likeliest(mass, count)
            return [self.written([self.options[0][place]]) for place in best], mass[best]
        ids, places = self.masked()
        rows, total = ids[None].copy(), np.ones(1)
        for which, place in enumerate(places):
            joint = total[:, None] * self.mass(rows, place, which)
            best = likeliest(joint.ravel(), count)
            row, piece = np.divmod(best, joint.shape[1])
            rows, total = rows[row], joint.ravel()[best]
            rows[:, place] = self.options[which][piece]
        return [self.written(row[places]) for row in rows], total


@dataclass(frozen=True, eq=False)
class WordByWord:
    """Words of which each is drawn given those before it."""

    width: int  # how many
    law: Callable[[tuple[str, ...]], tuple[Sequence[str], Floats]]  # words so far -> what may follow, and its masses
    written: Callable[[Sequence[str]], str]  # the words -> the characters of the span

    def fills(self, numbers: Floats) -> list[str]:
        return [self.written(self._drawn(row)) for row in numbers]

    def _drawn(self, numbers: Floats) -> tuple[str, ...]:
        begun: tuple[str, ...] = ()
        for number in numbers:
            words, mass = self.law(begun)
            begun = (*begun, words[drawn(mass, number[None])[0]])
        return begun

    def likeliest(self, count: int) -> tuple[list[str], Floats]:
        """Sought from left to right, keeping `count` beginnings at a time."""
        begun: list[tuple[str, ...]] = [()]
        total = np.ones(1)
        for _ in range(self.width):
            laws = [self.law(own) for own in begun]
            joint = np.concatenate([share * mass for share, (_, mass) in zip(total, laws, strict=True)])
            best, ends = likeliest(joint, count), np.cumsum([len(mass) for _, mass in laws])
            rows = np.searchsorted(ends, best, side="right")
            begun = [(*begun[row], laws[row][0][place - ends[row]]) for row, place in zip(rows, best, strict=True)]
            total = joint[best]
        return [self.written(own) for own in begun], total


Lengths = tuple[tuple[int, float], ...]  # numbers of pieces and their probabilities
KEPT = 16  # texts, and batches of distributions, that are remembered


@dataclass(frozen=True, eq=False)
class MaskedLM:
    """Draws pieces given those on both sides. Made by `masked_lm`."""

    language: LanguageModel
    shape: Shape
    listed: int
    sweeps: int
    lengths: Lengths | None
    window: int | None
    batch: int
    among: frozenset[str] | None = None
    _texts: Recent[Pieces] = field(default_factory=lambda: Recent(KEPT), repr=False)
    _masses: Recent[dict[int, Floats]] = field(default_factory=lambda: Recent(KEPT), repr=False)

    changes_subset_only = True

    def __repr__(self) -> str:
        options = {"listed": self.listed, "sweeps": self.sweeps, "lengths": dict(self.lengths or ())}
        return spelled(
            "masked_lm", repr(self.language), str(self.shape), **options, window=self.window, among=self._among
        )

    @property
    def _among(self) -> str:
        return "" if self.among is None else f"{len(self.among)} words"

    @cached_property
    def _table(self) -> PieceTable:
        """The pieces of the language model, with those that may be drawn."""
        table = self.language.table
        if self.among is None:
            return table
        limited = replace(table, among=self.among)
        if len(limited.options((True, True))) < 2:
            raise InputError("among has fewer than 2 words that are one piece of the model; give more of them")
        return limited

    @property
    def tokenizer(self) -> Any:
        """That of the language model."""
        return self.language.tokenizer

    def __call__(self, texts: Sequence[str], subset: Subset, draws: int, rng: np.random.Generator) -> list[str]:
        return draw_spans(texts, subset, draws, rng, partial(self._open, subset))

    def repeats(self, _: Subset) -> bool:
        """Draws of words come again and again."""
        return True

    def lists(self, subset: Subset) -> bool:
        """Whether the likeliest fills of a subset are listed: if that was asked for, and the span is short."""
        return lists_short(self.listed, subset)

    def support(self, inputs: Sequence[str], subset: Subset) -> tuple[list[list[str]], Floats]:
        """The `listed` likeliest counterfactuals of each text, and their probabilities (n, m).

        Of a span of several pieces the likeliest are sought piece by piece, keeping `listed` beginnings at a time.
        """
        if self.sweeps:
            raise InputError("the fills of masked_lm with sweeps cannot be listed; use sweeps=0, or listed=0")
        return list_spans(inputs, subset, self.listed, partial(self._open, subset))

    def _open(self, subset: Subset, text: str) -> Filling:
        hole = self._hole(subset, text)
        if self.lengths is None:
            return self._blank(hole)
        return AnyLength([(self._blank(hole.resized(count)), share) for count, share in self.lengths])

    def _blank(self, hole: Hole) -> Blank:
        return Blank(
            options=hole.options,
            masked=lambda: (hole.ids, hole.places),
            mass=lambda rows, place, which: self._mass(rows, place, hole.options[which]),
            alone=partial(self._alone, hole),
            written=hole.written,
            sweeps=self.sweeps,
        )

    def _alone(self, hole: Hole) -> Floats:
        """The distribution of one piece; with it are found those of its neighbours, of which it is likely one."""
        place = hole.places[0]
        table, ids = self._table, hole.observed
        if hole.apart or self.batch == 1 or not table.kind(int(ids[place]))[1]:
            return np.asarray(self._mass(hole.ids[None], place, hole.options[0])[0])
        number = place // self.batch

        def ask_batch() -> dict[int, Floats]:
            near = range(number * self.batch, min((number + 1) * self.batch, len(ids)))
            wanted = [other for other in near if table.kind(int(ids[other]))[1]]
            options = [table.options(table.kind(int(ids[other]))) for other in wanted]
            found = self._logits([_masked(ids, [other], self.language.mask) for other in wanted], wanted, options)
            return {other: self.shape.probabilities(own[None])[0] for other, own in zip(wanted, found, strict=True)}

        return self._masses.get((hole.text, number), ask_batch)[place]

    def _mass(self, rows: Ints, place: int, options: Ints) -> Floats:
        """Distributions over the options at one place of each row, (rows, options)."""
        parts = []
        for start in range(0, len(rows), self.batch):
            some = rows[start : start + self.batch]
            parts += self._logits(some, [place] * len(some), [options] * len(some))
        return self.shape.probabilities(np.stack(parts))

    def _logits(self, rows: Sequence[Ints] | Ints, places: list[int], options: list[Ints]) -> list[Floats]:
        near = [self._near(row, place) for row, place in zip(rows, places, strict=True)]
        return self.language.logits([row for row, _ in near], [at for _, at in near], options)

    def _near(self, ids: Ints, place: int) -> tuple[Ints, int]:
        """What the model reads to fill a place: all, or as much around it as it takes; and where the place is in it."""
        left, right = self.language.edges
        limits = [len(ids), self.window]
        if self.language.limit is not None:
            limits.append(self.language.limit - len(left) - len(right))
        room = min(limit for limit in limits if limit is not None)
        begin = int(np.clip(place - room // 2, 0, len(ids) - room))
        row = np.concatenate([left, ids[begin : begin + room], right]).astype(np.int64)
        return row, place - begin + len(left)

    def _hole(self, subset: Subset, text: str) -> Hole:
        span = span_of(text, subset)
        pieces = self._texts.get(text, lambda: self.language.tokens.encode([text], special=False)[0])
        return _hole(self.language, self._table, text, span, pieces, subset.name, self.lengths is not None)


def masked_lm(
    model: Any,
    tokenizer: Any = None,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    listed: int = 0,
    sweeps: int = 0,
    lengths: int | Sequence[int] | Mapping[int, float] | None = None,
    window: int | None = None,
    batch: int = 16,
    among: Iterable[str] | None = None,
    device: Any = None,
) -> MaskedLM:
    """Redraws the pieces of a span, given the text on both sides, from a masked language model's whole distribution.

    The pieces of the span that have a letter or digit are masked together and filled from left to right. Every piece
    stays of its kind, beginning a word or going on with one, and what stands between the pieces stays: their number is
    conditioned on, unless `lengths` lets it vary. A model that knows no case writes its fills in the case of the
    observed words. Longer texts than the model takes are read in a window around each masked piece, never cut off.

    Parameters
    ----------
    model : the folder or name of a masked language model (BERT, RoBERTa, ...), or the model itself.
    tokenizer : its fast tokenizer, where the model itself is given.
    temperature, top_k, top_p : bend the distribution: the reference becomes the likelier fills.
    listed : the exact tests ("irt" and "sequential") evaluate so many of the likeliest fills instead of drawing.
    sweeps : how often every piece is redrawn given all others (Gibbs).
    lengths : a list of numbers of pieces, equally likely, or a mapping number -> weight; the span is then all redrawn.
    window : pieces that are read around a masked one; None is as many as the model takes.
    batch : neighbouring pieces whose distributions are found in one pass; use 1 for a few spans of many texts.
    among : the only words it draws, such as `plain(corpus, labels)`: those that are one piece of the model.
    device : of the model, such as "cuda".

    Examples
    --------
    >>> masked_lm("bert-base-uncased", top_k=50, sweeps=2)  # loaded when it is first asked
    masked_lm('bert-base-uncased', top_k=50, sweeps=2)
    """
    return MaskedLM(
        language_model(model, tokenizer, "masked", device),
        shape(temperature, top_k, top_p),
        whole("listed", listed, 0),
        whole("sweeps", sweeps, 0),
        _weights(lengths),
        None if window is None else whole("window", window, 1),
        whole("batch", batch, 1),
        None if among is None else frozenset(str(word).lower() for word in among),
    )


def _weights(lengths: int | Sequence[int] | Mapping[int, float] | None) -> Lengths | None:
    if lengths is None:
        return None
    given = dict(lengths) if isinstance(lengths, Mapping) else dict.fromkeys(np.atleast_1d(lengths).tolist(), 1.0)
    counts = [whole("each of lengths", count, 1) for count in given]
    total = float(sum(given.values()))
    if not counts or total <= 0 or any(weight < 0 for weight in given.values()):
        raise InputError(f"lengths must be numbers of pieces, or a mapping number -> weight, got {lengths!r}")
    return tuple((count, float(weight) / total) for count, weight in zip(counts, given.values(), strict=True))


@dataclass(frozen=True, eq=False)
class AnyLength:
    """Blanks of several lengths, one of which is drawn first by its probability."""

    parts: list[tuple[Blank, float]]

    @property
    def width(self) -> int:
        sweeps = 1 + self.parts[0][0].sweeps
        return sweeps + max(blank.width for blank, _ in self.parts)

    def fills(self, numbers: Floats) -> list[str]:
        which = drawn(np.array([share for _, share in self.parts]), numbers[:, 0])
        out: dict[int, str] = {}
        for place, (blank, _) in enumerate(self.parts):
            rows = np.flatnonzero(which == place)
            found = blank.fills(numbers[rows, 1 : 1 + blank.width]) if len(rows) else []
            out |= dict(zip(rows.tolist(), found, strict=True))
        return [out[row] for row in range(len(numbers))]

    def likeliest(self, count: int) -> tuple[list[str], Floats]:
        found = [blank.likeliest(count) for blank, _ in self.parts]
        fills = [fill for own, _ in found for fill in own]
        mass = np.concatenate([own * share for (_, own), (_, share) in zip(found, self.parts, strict=True)])
        best = likeliest(mass, count)
        return [fills[place] for place in best], mass[best]


@dataclass(frozen=True)
class Slot:
    """Where a piece goes: characters of the text, the kind of piece, and the case it is written in."""

    span: Span
    kind: tuple[bool, bool]
    case: Case | None  # None: as the model writes it


@dataclass(frozen=True, eq=False)
class Hole:
    """A text with the pieces of a span masked."""

    table: PieceTable
    text: str
    span: Span
    observed: Ints  # pieces of the text
    ids: Ints  # the same with masks
    places: list[int]  # of the masks
    slots: list[Slot]
    apart: bool = False  # whether the pieces are not those of the text
    given: bool = False  # whether their number was given

    @property
    def options(self) -> list[Ints]:
        first, *others = (self.table.options(slot.kind) for slot in self.slots)
        return [first, *([self.table.inner_words] * len(others) if self.given else others)]

    def resized(self, count: int) -> Hole:
        """The same span with another number of masks, which replace all of its pieces."""
        begin, end = self.places[0], self.places[-1] + 1
        mask = np.full(count, self.ids[begin])
        ids = np.concatenate([self.ids[:begin], mask, self.ids[end:]])
        first = self.slots[0]
        later = Slot(self.span, (True, True), "capitals" if first.case == "capitals" else None)
        slots = [Slot(self.span, (first.kind[0], True), first.case), *[later] * (count - 1)]
        places = list(range(begin, begin + count))
        return Hole(self.table, self.text, self.span, self.observed, ids, places, slots, True, True)

    def written(self, pieces: Sequence[int]) -> str:
        """The characters of the span with other pieces in it."""
        reads = [str(self.table.reads[piece]) for piece in pieces]
        words = [
            read if slot.case is None else cased(read, slot.case) for read, slot in zip(reads, self.slots, strict=True)
        ]
        if self.given:
            spaces = ["", *(" " if self.table.begins[piece] else "" for piece in pieces[1:])]
            return "".join(part for pair in zip(spaces, words, strict=True) for part in pair)
        return rewritten(self.text, self.span, [slot.span for slot in self.slots], words)


def _hole(
    language: LanguageModel, table: PieceTable, text: str, span: Span, pieces: Pieces, name: str, all_of_it: bool
) -> Hole:
    ids = np.array(pieces.ids, np.int64)
    spans = [trimmed(text, own) for own in pieces.spans]
    inside = [place for place, (a, b) in enumerate(spans) if a < span[1] and b > span[0] and a < b]
    for place in inside:
        if spans[place][0] < span[0] or spans[place][1] > span[1]:
            piece = text[spans[place][0] : spans[place][1]]
            raise InputError(
                f"subset {name!r} {span} cuts the piece {piece!r} of the model's tokenizer; test whole pieces, such as "
                "units='wordpiece'"
            )
    own = _own(inside, spans)
    lettered = [place for place in own if table.kind(int(ids[place]))[1]]
    chosen = own if all_of_it else lettered or own
    if not chosen:
        raise InputError(f"subset {name!r} {span} has no piece that the model's tokenizer knows of; test other spans")
    slots = []
    for place in chosen:
        a, b = spans[place]
        b = max([b, *(spans[other][1] for other in inside if spans[other][0] < b and spans[other][1] > a)])
        slots.append(Slot((a, b), table.kind(int(ids[place])), case_of(text, a, b) if table.lower else None))
    drop = [place for place in inside if place not in own]
    keep = np.setdiff1d(np.arange(len(ids)), drop)
    places = np.searchsorted(keep, chosen).tolist()
    observed = ids[keep]
    return Hole(table, text, span, observed, _masked(observed, places, language.mask), places, slots, bool(drop))


def _own(inside: list[int], spans: list[Span]) -> list[int]:
    """One piece for each stretch of characters: the bytes of one character are one piece here."""
    out: list[int] = []
    for place in inside:
        if not out or spans[place][0] >= spans[out[-1]][1]:
            out.append(place)
    return out


def _masked(ids: Ints, places: Sequence[int], mask: int) -> Ints:
    out = ids.copy()
    out[list(places)] = mask
    return out
