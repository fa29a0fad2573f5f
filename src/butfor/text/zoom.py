"""Subsets from coarse to fine: the document, its paragraphs, sentences, phrases and words (METHODS 14)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

from butfor.core.checks import one_of
from butfor.core.draw.layers import SubsetTree
from butfor.core.draw.proposers import unique
from butfor.core.types import Subset
from butfor.text.edit import Span
from butfor.text.segment import paragraph_spans, sentence_spans, word_spans
from butfor.text.subsets import SIGN, label

Level = Literal["document", "paragraph", "sentence", "phrase", "word"]
LEVELS: tuple[Level, ...] = get_args(Level)
MOST_WORDS = 6  # of a phrase


@dataclass(frozen=True)
class TextZoom:
    """Spans inside each other. Made by `zoom`."""

    finest: Level
    whole: bool

    blind = True  # whatever is there

    def __repr__(self) -> str:
        return f"zoom({self.finest!r}, whole={self.whole})"

    def __call__(self, name: object, text: str) -> list[Subset]:
        return list(self.tree(name, text).subsets)

    def tree(self, name: object, text: str) -> SubsetTree:  # noqa: ARG002 - as every proposer has it
        """The spans of all resolutions of one text, the coarsest first; a span stands once, where it is coarsest."""
        words = word_spans(text)
        if not words:
            return SubsetTree((), (), ())
        whole = (len(text) - len(text.lstrip()), len(text.rstrip()))
        nodes = [Node(whole, range(len(words)), 0, -1)]
        holder = [0] * len(words)  # the smallest node so far that each word is in
        for level in range(1, LEVELS.index(self.finest) + 1):
            for span, inside in _with_words(PARTS[LEVELS[level]](text), words):
                above = holder[inside.start]
                if inside != nodes[above].words:
                    holder[inside.start : inside.stop] = [len(nodes)] * len(inside)
                    nodes.append(Node(span, inside, level, above))
        named = unique((Subset(_name(text, node), node.span) for node in nodes), SIGN)
        skip = 0 if self.whole or len(nodes) == 1 else 1
        return SubsetTree(
            tuple(named[skip:]),
            tuple(node.level for node in nodes[skip:]),
            tuple(max(node.parent - skip, -1) for node in nodes[skip:]),
        )


@dataclass(frozen=True)
class Node:
    """A span, the words that it has, its resolution, and the node that it is a part of."""

    span: Span
    words: range
    level: int
    parent: int


def _with_words(spans: Iterable[Span], words: Sequence[Span]) -> Iterator[tuple[Span, range]]:
    """Spans with the words inside each, those that have one; both come in their order."""
    place = 0
    for start, end in spans:
        while place < len(words) and words[place][0] < start:
            place += 1
        first = place
        while place < len(words) and words[place][1] <= end:
            place += 1
        if place > first:
            yield (start, end), range(first, place)


def phrase_spans(text: str) -> list[Span]:
    """Runs of words between marks, long ones cut into equal parts of at most six words: in any language, blindly.

    >>> text = "The old man, who went out to the sea every day, won."
    >>> [text[a:b] for a, b in phrase_spans(text)]
    ['The old man', 'who went out to', 'the sea every day', 'won']
    """
    found: list[Span] = []
    for start, end in sentence_spans(text):
        inside = [(start + a, start + b) for a, b in word_spans(text[start:end])]
        run: list[Span] = []
        for word in inside:
            if run and not _JOINED.fullmatch(text[run[-1][1] : word[0]]):
                found += _parts(run)
                run = []
            run.append(word)
        found += _parts(run)
    return found


def _parts(run: Sequence[Span]) -> Iterator[Span]:
    count = -(-len(run) // MOST_WORDS)
    cuts = [round(len(run) * k / count) for k in range(count + 1)] if run else []
    for first, last in pairwise(cuts):
        yield run[first][0], run[last - 1][1]


def _name(text: str, node: Node) -> str:
    return WHOLE if node.parent < 0 else label(text[slice(*node.span)])


WHOLE = "the whole text"
_JOINED = re.compile(r"[\s'’\"“”-]*")  # what may stand between two words of a phrase
PARTS: dict[str, Callable[[str], list[Span]]] = {
    "paragraph": paragraph_spans,
    "sentence": sentence_spans,
    "phrase": phrase_spans,
    "word": word_spans,
}


def zoom(finest: Level = "word", *, whole: bool = False) -> TextZoom:
    """Where in the document, coarse to fine: paragraphs, sentences, phrases, words; a part is drawn if its whole was.

    At every resolution the false discovery rate over the spans of that resolution is controlled: spans that are not
    drawn count as p = 1 there. Phrases are runs of at most six words between marks. It needs p-values:
    `test="sequential"`, which is the default with it, or "irt". Long spans are best redrawn by `foils`.

    Parameters
    ----------
    finest : where to end: "paragraph", "sentence", "phrase" or "word".
    whole : also test the whole text, for samplers that can redraw it (`foils`).

    Examples
    --------
    >>> tree = zoom().tree("review", "Dull. But short!")
    >>> [(subset.name, level) for subset, level in zip(tree.subsets, tree.resolution)]
    [('Dull.', 2), ('But short!', 2), ('But', 4), ('short', 4)]
    """
    one_of("finest", finest, LEVELS[1:])
    return TextZoom(finest, bool(whole))
