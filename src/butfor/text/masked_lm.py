"""Sampler: a masked language model of transformers redraws the pieces of a span."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from butfor.core.types import Floats, InputError, Ints, Subset
from butfor.text.case import Case, case_of, cased
from butfor.text.distribution import Shape, drawn, likeliest, shape, whole_number
from butfor.text.edit import Span, check_draws, check_texts, span_of
from butfor.text.filling import drawn_rows, likeliest_rows, stacked
from butfor.text.language_models import LanguageModel, language_model
from butfor.text.pieces import PieceTable
from butfor.text.recent import Recent
from butfor.text.tokens import Pieces
from butfor.text.wordpieces import trimmed

KEPT = 16  # texts, and batches of distributions, that are remembered
LISTED_CHARACTERS = 40  # of longer spans no list of likely fills holds a mass worth listing


@dataclass(frozen=True, eq=False)
class MaskedLM:
    """Draws pieces given those on both sides. Made by `masked_lm`."""

    language: LanguageModel
    shape: Shape
    listed: int
    sweeps: int
    lengths: tuple[tuple[int, float], ...] | None  # numbers of pieces and their probabilities
    window: int | None
    batch: int
    _texts: Recent = field(default_factory=lambda: Recent(KEPT), repr=False)
    _masses: Recent = field(default_factory=lambda: Recent(KEPT), repr=False)

    def __repr__(self) -> str:
        said = [repr(self.language), *([str(self.shape)] if str(self.shape) else [])]
        said += [f"listed={self.listed}"] if self.listed else []
        said += [f"sweeps={self.sweeps}"] if self.sweeps else []
        said += [f"lengths={dict(self.lengths)}"] if self.lengths else []
        said += [f"window={self.window}"] if self.window else []
        return f"masked_lm({', '.join(said)})"

    @property
    def tokenizer(self) -> Any:
        return self.language.tokenizer

    def __call__(self, texts: Sequence[str], subset: Subset, draws: int, rng: np.random.Generator) -> list[str]:
        texts, draws = check_texts(texts), check_draws(draws)
        out: list[str] = []
        for text in texts:
            hole = self._hole(text, subset)
            steps = len(hole.slots) if self.lengths is None else 1 + max(count for count, _ in self.lengths)
            numbers = rng.random((draws, steps * (1 + self.sweeps)))
            if draws:
                fills = self._drawn(hole, numbers) if self.lengths is None else self._of_any_length(hole, numbers)
                out += [text[: hole.span[0]] + fill + text[hole.span[1] :] for fill in fills]
        return out

    def lists(self, subset: Subset) -> bool:
        """Whether the likeliest fills of a subset are listed: if that was asked for, and the span is short."""
        return self.listed > 0 and subset.index[1] - subset.index[0] <= LISTED_CHARACTERS

    def support(self, texts: Sequence[str], subset: Subset) -> tuple[list[list[str]], Floats]:
        """The `listed` likeliest counterfactuals of each text, and their probabilities (n, m).

        Of a span of several pieces the likeliest are sought piece by piece, keeping `listed` beginnings at a time.
        """
        if self.sweeps:
            raise InputError("the fills of masked_lm with sweeps cannot be listed; use sweeps=0, or listed=0")
        versions, masses = [], []
        for text in check_texts(texts):
            hole = self._hole(text, subset)
            holes = [(hole, 1.0)] if self.lengths is None else [(hole.resized(n), p) for n, p in self.lengths]
            parts = [(self._likeliest(own), weight) for own, weight in holes]
            fills = [fill for (found, _), _ in parts for fill in found]
            mass = np.concatenate([own * weight for (_, own), weight in parts])
            best = likeliest(mass, self.listed)
            versions.append([text[: hole.span[0]] + fills[place] + text[hole.span[1] :] for place in best])
            masses.append(mass[best])
        return stacked(texts, versions, masses)

    def _drawn(self, hole: Hole, numbers: Floats) -> list[str]:
        options = hole.options
        if len(hole.slots) == 1:
            mass = self._alone(hole)
            return [hole.written([options[0][place]]) for place in drawn(mass, numbers[:, -1])]
        rows = drawn_rows(hole.ids, hole.places, options, numbers, partial(self._mass, hole))
        return [hole.written(row[hole.places]) for row in rows]

    def _of_any_length(self, hole: Hole, numbers: Floats) -> list[str]:
        """Draws whose number of pieces is drawn first, by the given probabilities."""
        assert self.lengths is not None
        counts = [count for count, _ in self.lengths]
        which = drawn(np.array([share for _, share in self.lengths]), numbers[:, 0])
        out: dict[int, str] = {}
        for place, count in enumerate(counts):
            rows = np.flatnonzero(which == place)
            if len(rows):
                some = numbers[rows][:, 1 : 1 + count * (1 + self.sweeps)]
                out |= dict(zip(rows.tolist(), self._drawn(hole.resized(count), some), strict=True))
        return [out[row] for row in range(len(numbers))]

    def _likeliest(self, hole: Hole) -> tuple[list[str], Floats]:
        options = hole.options
        if len(hole.slots) == 1:
            mass = self._alone(hole)
            best = likeliest(mass, self.listed)
            return [hole.written([options[0][place]]) for place in best], mass[best]
        rows, total = likeliest_rows(hole.ids, hole.places, options, self.listed, partial(self._mass, hole))
        return [hole.written(row[hole.places]) for row in rows], total

    def _alone(self, hole: Hole) -> Floats:
        """The distribution of one piece; with it are found those of its neighbours, of which it is likely one."""
        place = hole.places[0]
        table, ids = self.language.table, hole.observed
        if hole.apart or self.batch == 1 or not table.kind(int(ids[place]))[1]:
            mass: Floats = self._mass(hole, hole.ids[None], 0)[0]
            return mass
        number = place // self.batch

        def ask_batch() -> dict[int, Floats]:
            near = range(number * self.batch, min((number + 1) * self.batch, len(ids)))
            wanted = [other for other in near if table.kind(int(ids[other]))[1]]
            rows = [_masked(ids, [other], self.language.mask) for other in wanted]
            return dict(zip(wanted, self._asked(rows, wanted, [table.kind(int(ids[w])) for w in wanted]), strict=True))

        found: Floats = self._masses.get((hole.text, number), ask_batch)[place]
        return found

    def _asked(self, rows: list[Ints], places: list[int], kinds: list[tuple[bool, bool]]) -> list[Floats]:
        options = [self.language.table.options(kind) for kind in kinds]
        near = [self._near(row, place) for row, place in zip(rows, places, strict=True)]
        logits = self.language.logits([row for row, _ in near], [at for _, at in near], options)
        return [self.shape.probabilities(own[None])[0] for own in logits]

    def _mass(self, hole: Hole, rows: Ints, which: int) -> Floats:
        place, options = hole.places[which], hole.options[which]
        parts = []
        for start in range(0, len(rows), self.batch):
            near = [self._near(row, place) for row in rows[start : start + self.batch]]
            parts += self.language.logits([row for row, _ in near], [at for _, at in near], [options] * len(near))
        return self.shape.probabilities(np.stack(parts))

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

    def _hole(self, text: str, subset: Subset) -> Hole:
        span = span_of(text, subset)
        pieces: Pieces = self._texts.get(text, lambda: self.language.tokens.encode([text], special=False)[0])
        return _hole(self.language, text, span, pieces, subset.name, self.lengths is not None)


def masked_lm(
    model: Any,
    tokenizer: Any = None,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    listed: int = 0,
    sweeps: int = 0,
    lengths: Any = None,
    window: int | None = None,
    batch: int = 16,
    device: Any = None,
) -> MaskedLM:
    """Redraws the pieces of a span, given the text on both sides, from a masked language model's whole distribution.

    `model` is the folder or name of a masked language model (BERT, RoBERTa, ...), or a model with its fast `tokenizer`.
    The pieces of the span that have a letter or digit are masked together and filled from left to right; each of
    `sweeps` then redraws every one given all others (Gibbs). Every piece stays of its kind, beginning a word or going
    on with one, and what stands between the pieces stays: the number of pieces and words is conditioned on. `lengths`
    lets it vary: a list of numbers of pieces, equally likely, or a mapping number -> weight; the span is then all
    redrawn. A model that knows no case writes its fills in the case of the observed words.

    `temperature`, `top_k` and `top_p` bend the distribution. With `listed` the exact tests ("irt" and "sequential")
    evaluate that many of the likeliest fills instead of drawing. Texts longer than the model takes are read in a window
    around each masked piece, or of `window` pieces: nothing that is tested is ever cut off. Distributions of `batch`
    neighbouring pieces are found in one pass, since they will likely be asked for; use 1 for a few spans of many texts.

    >>> masked_lm("bert-base-uncased", top_k=50, sweeps=2)  # loaded when it is first asked
    masked_lm('bert-base-uncased', top_k=50, sweeps=2)
    """
    return MaskedLM(
        language_model(model, tokenizer, "masked", device),
        shape(temperature, top_k, top_p),
        whole_number("listed", listed, 0),
        whole_number("sweeps", sweeps, 0),
        _weights(lengths),
        None if window is None else whole_number("window", window, 1),
        whole_number("batch", batch, 1),
    )


def _weights(lengths: Any) -> tuple[tuple[int, float], ...] | None:
    if lengths is None:
        return None
    given = dict(lengths) if isinstance(lengths, Mapping) else dict.fromkeys(np.atleast_1d(lengths).tolist(), 1.0)
    counts = [whole_number("each of lengths", count, 1) for count in given]
    total = float(sum(given.values()))
    if not counts or total <= 0 or any(weight < 0 for weight in given.values()):
        raise InputError(f"lengths must be numbers of pieces, or a mapping number -> weight, got {lengths!r}")
    return tuple((count, float(weight) / total) for count, weight in zip(counts, given.values(), strict=True))


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
        out, place = [], self.span[0]
        for word, slot in zip(words, self.slots, strict=True):
            out += [self.text[place : slot.span[0]], word]
            place = slot.span[1]
        return "".join([*out, self.text[place : self.span[1]]])


def _hole(language: LanguageModel, text: str, span: Span, pieces: Pieces, name: str, whole: bool) -> Hole:
    table, ids = language.table, np.array(pieces.ids, np.int64)
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
    chosen = own if whole else lettered or own
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
