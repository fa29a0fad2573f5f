"""Filling a span of a text: draws from, and lists of, the distributions that a language model gives.

A sampler of spans has `open(text, subset)`, which returns a `Filling`, and takes `__call__`, `repeats`, `lists` and
`support` from here.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from butfor.evaluation.samplers import ListsSupport, Sampler, SamplerInfo, info_of
from butfor.text.segment import Span, case_of, cased, changed, check_texts, hull_of, rewritten, spans_of, word_places
from butfor.types import Array, Floats, InputError, Ints, Subset, whole


@dataclass(frozen=True)
class Shape:
    """Sharpens or cuts a distribution before it is drawn from; by default neither."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        heat, share = (
            float(value) if isinstance(value, int | float | np.number) and not isinstance(value, bool) else math.nan
            for value in (self.temperature, self.top_p)
        )
        if not 0 < heat < math.inf:
            raise InputError(f"temperature must be a number above 0, got {self.temperature!r}")
        if self.top_p is not None and not 0 < share <= 1:
            raise InputError(f"top_p must be a share above 0 and at most 1, or None, got {self.top_p!r}")
        if self.top_k is not None:
            whole("top_k", self.top_k, 1)

    def __str__(self) -> str:
        given = {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p}
        shown = {name: value for name, value in given.items() if value != getattr(Shape, name)}
        return ", ".join(f"{name}={value if name == 'top_k' else f'{value:g}'}" for name, value in shown.items())

    def probabilities(self, logits: Array) -> Floats:
        """Return the probabilities (m, V) of log-odds (m, V)."""
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
        cut = np.zeros_like(mass)
        np.put_along_axis(cut, order, np.where(kept, ranked, 0.0), axis=1)
        cut /= cut.sum(axis=1, keepdims=True)
        return cut


def drawn(mass: Floats, uniform: Floats) -> Ints:
    """Return the indices into one distribution (V,) that uniform numbers (k,) point at."""
    steps = np.cumsum(mass)
    # rounding may leave the last step below 1, and a number may point at its very end
    indices = np.searchsorted(steps, np.asarray(uniform) * steps[-1], side="right")
    out: Ints = np.minimum(indices, int(np.flatnonzero(mass)[-1]))
    return out


def likeliest(mass: Floats, count: int) -> Ints:
    """Return the indices of the `count` largest masses, the largest first, ties in order; none without mass."""
    return np.argsort(-mass, kind="stable")[: min(count, int(np.count_nonzero(mass)))]


def spelled(name: str, *parts: str, **options: object) -> str:
    """Return a sampler as a call: the parts and options that are not empty.

    >>> spelled("ngram", "9 words", "", listed=3, least=0)
    'ngram(9 words, listed=3)'
    """
    shown = [f"{option}={value}" for option, value in options.items() if value]
    return f"{name}({', '.join([*filter(None, parts), *shown])})"


class Filling(Protocol):
    @property
    def width(self) -> int: ...  # uniform numbers per draw
    def fills(self, numbers: Floats) -> list[str]: ...  # (draws, width) -> the characters of the span, for each draw
    def likeliest(self, count: int) -> tuple[list[str], Floats]: ...  # those fills, and their probabilities


class OpensSpans(Protocol):
    @property
    def listed(self) -> int: ...
    def open(self, text: str, subset: Subset) -> Filling: ...


def draw_spans(
    sampler: OpensSpans, texts: Sequence[str], subset: Subset, draws: int, rng: np.random.Generator
) -> list[str]:
    """Return texts with the span redrawn, input-major."""
    texts, draws = check_texts(texts), whole("draws", draws, 0)
    out: list[str] = []
    for text in texts:
        start, end = hull_of(text, subset)
        filling = sampler.open(text, subset)
        numbers = rng.random((draws, filling.width))
        out += [text[:start] + fill + text[end:] for fill in (filling.fills(numbers) if draws else [])]
    return out


def list_spans(sampler: OpensSpans, inputs: Sequence[str], subset: Subset) -> tuple[list[list[str]], Floats]:
    """Return the `listed` likeliest counterfactuals of each text, and their probabilities (n, m).

    Spans of several words are searched from left to right, keeping `listed` beginnings at a time. Where there are fewer
    than in another text, the text itself follows without mass.
    """
    texts = check_texts(inputs)
    lists = [sampler.open(text, subset).likeliest(sampler.listed) for text in texts]
    masses = np.zeros((len(texts), max((len(mass) for _, mass in lists), default=0)))
    versions = []
    for row, (text, (fills, mass)) in enumerate(zip(texts, lists, strict=True)):
        start, end = hull_of(text, subset)
        masses[row, : len(mass)] = mass
        filled = [text[:start] + fill + text[end:] for fill in fills]
        versions.append(filled + [text] * (masses.shape[1] - len(filled)))
    return versions, masses


def lists_short(sampler: OpensSpans, subset: Subset) -> bool:
    start, end = subset.index  # no list of likely fills of a longer span has a mass worth listing
    return bool(sampler.listed > 0 and end - start <= 40)


def always_repeats(_: OpensSpans, subset: Subset) -> bool:  # noqa: ARG001
    return True


PASSES = 6  # a longer span is drawn in: every sixth word at once, given those that were drawn before


@dataclass(frozen=True, eq=False)
class Blank:
    """Pieces of a text masked together: the options, their probabilities, and how they read."""

    options: Sequence[Ints]  # the pieces that may stand at each mask
    masked: Callable[[], tuple[Ints, list[int]]]  # the pieces of the text (length,), and the indices of the masks
    mass: Callable[[Ints, int, int], Floats]  # pieces (n, length), index and number of a mask -> masses (n, options)
    alone: Callable[[], Floats]  # the same of a single mask, (options,)
    written: Callable[[Sequence[int]], str]  # a piece for each mask -> the characters of the span
    sweeps: int = 0  # how often every piece is drawn again given all others
    # pieces (n, length), some of the masks -> masses (n, options) of each, in one pass
    together: Callable[[Ints, Sequence[int]], Sequence[Floats]] | None = None

    @property
    def width(self) -> int:
        return len(self.options) * (1 + self.sweeps)

    def fills(self, numbers: Floats) -> list[str]:
        if len(self.options) == 1:  # a sweep over one piece is another draw from the same distribution
            picks = drawn(self.alone(), numbers[:, -1]).tolist()
            made = {index: self.written([self.options[0][index]]) for index in set(picks)}
            return [made[index] for index in picks]
        ids, masks = self.masked()
        rows = np.tile(ids, (len(numbers), 1))
        groups: list[Sequence[int]] = [(which,) for which in range(len(masks))]
        if self.together is not None and len(masks) > PASSES and not self.sweeps:
            groups = [range(first, len(masks), PASSES) for first in range(PASSES)]
        for number, group in enumerate(groups * (1 + self.sweeps)):
            distinct, inverse = np.unique(rows, axis=0, return_inverse=True)
            masses: Sequence[Floats]
            if len(group) == 1 or self.together is None:
                masses = [self.mass(distinct, masks[group[0]], group[0])]
            else:
                masses = self.together(distinct, group)
            for which, mass in zip(group, masses, strict=True):
                steps = numbers[:, which + number // len(groups) * len(masks)]
                for row, (source, step) in enumerate(zip(inverse.ravel(), steps, strict=True)):
                    rows[row, masks[which]] = self.options[which][drawn(mass[source], step[None])[0]]
        return [self.written(row[masks]) for row in rows]

    def likeliest(self, count: int) -> tuple[list[str], Floats]:
        if self.sweeps:
            raise InputError("fills drawn with sweeps cannot be listed; use sweeps=0, or listed=0")
        if len(self.options) == 1:
            mass = self.alone()
            best = likeliest(mass, count)
            return [self.written([self.options[0][index]]) for index in best], mass[best]
        ids, masks = self.masked()
        rows, total = ids[None].copy(), np.ones(1)
        for which, index in enumerate(masks):
            joint = total[:, None] * self.mass(rows, index, which)
            best = likeliest(joint.ravel(), count)
            row, piece = np.divmod(best, joint.shape[1])
            rows, total = rows[row], joint.ravel()[best]
            rows[:, index] = self.options[which][piece]
        return [self.written(row[masks]) for row in rows], total


@dataclass(frozen=True, eq=False)
class WordByWord:
    """Words of which each is drawn given those before it."""

    width: int  # the number of words
    following: Callable[[tuple[str, ...]], tuple[Sequence[str], Floats]]  # words so far -> the next ones, their masses
    written: Callable[[Sequence[str]], str]  # the words -> the characters of the span

    def fills(self, numbers: Floats) -> list[str]:
        out = []
        for row in numbers:
            begun: tuple[str, ...] = ()
            for number in row:
                words, mass = self.following(begun)
                begun = (*begun, words[drawn(mass, number[None])[0]])
            out.append(self.written(begun))
        return out

    def likeliest(self, count: int) -> tuple[list[str], Floats]:
        begun: list[tuple[str, ...]] = [()]
        total = np.ones(1)
        for _ in range(self.width):
            nexts = [self.following(words) for words in begun]
            joint = np.concatenate([share * mass for share, (_, mass) in zip(total, nexts, strict=True)])
            best, ends = likeliest(joint, count), np.cumsum([len(mass) for _, mass in nexts])
            rows = np.searchsorted(ends, best, side="right")
            begun = [(*begun[row], nexts[row][0][index - ends[row]]) for row, index in zip(rows, best, strict=True)]
            total = joint[best]
        return [self.written(words) for words in begun], total


TRIES = 8  # draws of a word that does not stand elsewhere in the text


@dataclass(frozen=True, eq=False)
class Together:
    """Redraws all places of a word by one new word (METHODS 22).

    With c_1 .. c_n what surrounds each place, all n of them hidden, and W the words that stand elsewhere in the text,

        Q(w) is proportional to (P(w | c_1) + .. + P(w | c_n)) / n  for w not in W,  0 for w in W.

    The places of a word are all that hold it, so that the observed word is never in W: nor may a draw be, or the two
    would not be exchangeable. Each place keeps its case.
    """

    sampler: Any  # with together(text, places, others) -> Filling

    __call__ = draw_spans
    repeats = always_repeats
    support = list_spans

    def __repr__(self) -> str:
        return repr(self.sampler)

    @property
    def info(self) -> SamplerInfo:
        return info_of(self.sampler)

    @property
    def listed(self) -> int:
        return self.info.listed

    def open(self, text: str, subset: Subset) -> Filling:
        places, known = spans_of(text, subset), word_places(text)
        word = text[slice(*places[0])].lower()
        if known.get(word) != places:
            raise InputError(f"subset {subset.name!r} {subset.index} is not all places of a word; see words(together=)")
        filling: Filling = self.sampler.together(text, places, known.keys() - {word})
        return filling

    def lists(self, subset: Subset) -> bool:
        index = subset.index if isinstance(subset.index[0], int) else subset.index[0]
        return isinstance(self.sampler, ListsSupport) and self.sampler.lists(Subset(subset.name, index))


@dataclass(frozen=True, eq=False)
class Rest:
    """Redraws several stretches of a text by a sampler of one, from left to right (METHODS 17).

    Each is redrawn given what is kept and what was drawn before it; those still to come are left out of the text
    meanwhile, so that nothing of the observed rest is read.
    """

    sampler: Sampler

    @property
    def info(self) -> SamplerInfo:
        return info_of(self.sampler)

    def __repr__(self) -> str:
        return repr(self.sampler)

    def __call__(self, texts: Sequence[str], subset: Subset, draws: int, rng: np.random.Generator) -> list[str]:
        return [made for text in texts for made in self._drawn(text, subset, draws, rng)]

    def _drawn(self, text: str, subset: Subset, draws: int, rng: np.random.Generator) -> list[str]:
        begun, done = [""] * draws, 0  # the texts up to a stretch
        for number, (start, end) in enumerate(subset.index):
            after, at = [], end
            for a, b in (*subset.index[number + 1 :], (len(text), len(text))):
                after.append(text[at:a])
                at = b
            rest, alike = "".join(after), dict[str, list[int]]()
            for k, before in enumerate(begun):
                alike.setdefault(before + text[done:start], []).append(k)
            for before, which in alike.items():
                hole = Subset(subset.name, (len(before), len(before) + end - start))
                whole = before + text[start:end] + rest
                for k, made in zip(which, self.sampler([whole], hole, len(which), rng), strict=True):
                    begun[k] = before + changed(whole, made, hole)
            done = end
        return [before + text[done:] for before in begun]


def everywhere(text: str, places: Sequence[Span], word: str, place: int = 0) -> str:
    """Return the characters from the first to the last place with a word at each, which was drawn for one of them.

    >>> everywhere("So, so good", [(0, 2), (4, 6)], "very", 1)
    'Very, very'
    """
    drawn_as = case_of(text, *places[place])
    cases = [case_of(text, *span) for span in places]
    words = [word if case == drawn_as else cased(word.lower(), case) for case in cases]
    return rewritten(text, (places[0][0], places[-1][1]), places, words)


def left_out(sampler: OpensSpans, text: str, places: Sequence[Span], others: Set[str]) -> Filling:
    """Return the filling of all places of a word by a sampler of one span: at each, the others are left out."""
    fillings = []
    for place in places:
        texts = ["", ""]  # before and after the place
        at = (0, place[0]), (place[1], len(text))
        for side, (start, end) in enumerate(at):
            cuts = [start, *(cut for a, b in places if start <= a and b <= end for cut in (a, b)), end]
            texts[side] = "".join(text[a:b] for a, b in zip(cuts[::2], cuts[1::2], strict=True))
        before, after = texts
        word = text[slice(*place)]
        alone = Subset(word, (len(before), len(before) + len(word)))
        fillings.append(sampler.open(before + word + after, alone))
    return Mixed(tuple(fillings), partial(everywhere, text, places), others)


@dataclass(frozen=True, eq=False)
class Mixed:
    """A word drawn at one of its places, which is picked by chance."""

    fillings: Sequence[Filling]
    written: Callable[[str, int], str]  # a word and the place it was drawn for -> all characters
    others: Set[str]  # words that may not be drawn

    @property
    def width(self) -> int:
        return 1 + TRIES * max(filling.width for filling in self.fillings)

    def fills(self, numbers: Floats) -> list[str]:
        which = np.minimum((numbers[:, 0] * len(self.fillings)).astype(int), len(self.fillings) - 1)
        words = [""] * len(numbers)
        for place, filling in enumerate(self.fillings):
            rows, width = np.flatnonzero(which == place), filling.width
            for attempt in range(TRIES):  # the last one stands, whatever it is
                if len(rows):
                    new = filling.fills(numbers[rows, 1 + attempt * width : 1 + (attempt + 1) * width])
                    for row, word in zip(rows.tolist(), new, strict=True):
                        words[row] = word
                    rows = rows[[word.lower() in self.others for word in new]]
        return [self.written(word, place) for word, place in zip(words, which.tolist(), strict=True)]

    def likeliest(self, count: int) -> tuple[list[str], Floats]:
        total = dict[str, float]()
        for place, filling in enumerate(self.fillings):
            words, mass = filling.likeliest(count)
            allowed = np.array([word.lower() not in self.others for word in words], bool)
            share = mass[allowed] / (1 - mass[~allowed].sum()) if allowed.any() else mass
            for word, part in zip([w for w, ok in zip(words, allowed, strict=True) if ok], share, strict=False):
                written = self.written(word, place)
                total[written] = total.get(written, 0.0) + float(part) / len(self.fillings)
        mass = np.array(list(total.values()))
        best = likeliest(mass, count)
        return [list(total)[index] for index in best], mass[best]


def without(mass: Floats, excluded: Sequence[int]) -> Floats:
    """Return a distribution without some of its values; as it is where nothing else has a mass."""
    left = mass.copy()
    left[list(excluded)] = 0.0
    return left / left.sum() if left.sum() > 0 else mass


Value = TypeVar("Value")


class Recent(Generic[Value]):
    """The last few values by key.

    >>> squares = Recent(2)
    >>> [squares.get(x, lambda: x * x) for x in (2, 3, 2)]
    [4, 9, 4]
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._known: OrderedDict[Hashable, Value] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        value = self._known[key] = make()
        while len(self._known) > self.most:
            self._known.popitem(last=False)
        return value

    def __reduce__(self) -> tuple[type[Recent[Value]], tuple[int]]:
        return Recent, (self.most,)
