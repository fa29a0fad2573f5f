"""A foil learned from labelled texts: the words that are as common in one class as in the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from butfor.core.checks import whole
from butfor.core.types import Floats, InputError
from butfor.text.edit import check_texts
from butfor.text.segment import word_spans

ADDED = 5.0  # to each count: a word that is rare in every class is not told apart


@dataclass(frozen=True)
class PlainWords:
    """Words that tell no class from another, in lower case. Made by `plain`; given to an infiller as `among=`."""

    words: frozenset[str]
    seen: int  # words that were looked at

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.words))

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and word.lower() in self.words

    def __len__(self) -> int:
        return len(self.words)

    def __repr__(self) -> str:
        return f"<PlainWords: {len(self.words):,} of {self.seen:,} words>"


def plain(
    corpus: Iterable[str],
    labels: Iterable[object],
    *,
    largest: float = 0.3,
    least: int = 5,
    tokenize: Callable[[str], Iterable[str]] | None = None,
) -> PlainWords:
    """The words that are as common in one class as in the others, from your own labelled texts, in any language.

    A word is plain if, for every class, the logarithm of the ratio between the share of texts of the class that hold it
    and that of the other texts is at most `largest` in size, 5 texts added to each count. Given to an infiller as
    `among=`, these are all that it draws: plain words of a text are then exchangeable with their draws, they are the
    nulls of a run, and words that tell the classes apart are what it finds. Take texts that the run will not explain.

    Parameters
    ----------
    corpus : texts.
    labels : the class of each of them.
    largest : how far from 0 the logarithm of the ratio may be.
    least : words that fewer texts hold are not plain.
    tokenize : text -> words, where spaces and punctuation do not part them; None is `butfor.text.word_spans`.

    Examples
    --------
    >>> good = ["the plot is fine", "the cast is fine"] * 20
    >>> bad = ["the plot is dull", "the cast is dull"] * 20
    >>> list(plain(good + bad, ["good"] * 40 + ["bad"] * 40))
    ['cast', 'is', 'plot', 'the']
    """
    texts, classes = check_texts(corpus), list(labels)
    if len(texts) != len(classes):
        raise InputError(f"there are {len(texts)} texts and {len(classes)} labels; give one label for each text")
    if len(set(classes)) < 2:
        raise InputError(f"plain needs labels of two classes or more, got {len(set(classes))}; give texts of each")
    if isinstance(largest, bool) or not isinstance(largest, int | float) or not 0 < largest < np.inf:
        raise InputError(f"largest must be a number above 0, got {largest!r}; 0.3 is the default")
    least = whole("least", least, 1)
    held = [{word.lower() for word in (_words(text) if tokenize is None else tokenize(text))} for text in texts]
    total = Counter(word for own in held for word in own)
    words = [word for word, count in total.items() if count >= least]
    wide = _largest_ratios(words, held, classes, total)
    found = frozenset(word for word, ratio in zip(words, wide, strict=True) if ratio <= largest)
    if len(found) < 2:
        raise InputError(f"only {len(found)} of {len(words)} words are plain; give more texts, or a larger largest")
    return PlainWords(found, len(total))


def _largest_ratios(
    words: Sequence[str], held: Sequence[set[str]], classes: Sequence[object], total: Counter[str]
) -> Floats:
    """Of each word (n,) the largest size of the logarithm of the ratio between a class and the others."""
    counts, wide = np.array([total[word] for word in words], np.float64), np.zeros(len(words))
    for label in dict.fromkeys(classes):
        inside = Counter(word for own, other in zip(held, classes, strict=True) if other == label for word in own)
        size = sum(other == label for other in classes)
        own = np.array([inside[word] for word in words], np.float64)
        rest = (counts - own) * size / (len(held) - size)  # as if there were as many other texts
        wide = np.maximum(wide, np.abs(np.log((own + ADDED) / (rest + ADDED))))
    return wide


def _words(text: str) -> list[str]:
    return [text[a:b] for a, b in word_spans(text)]
