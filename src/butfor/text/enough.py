"""Which parts of a text may be enough for a decision, and the redrawing of all the rest given them (METHODS 17).

Parts are what the run tests where that is little, else sentences, else paragraphs. The stretches of text between the
parts kept are redrawn from left to right, each given what is kept and what was drawn before it; those still to come are
left out of the text meanwhile, so that nothing of the observed rest is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from butfor.evaluation.hypotheses import MOST_PARTS, Hypotheses, Parts, finest_parts
from butfor.evaluation.samplers import Sampler, SamplerInfo, info_of
from butfor.text.segment import Span, changed, paragraph_spans, sentence_spans, spans_of, word_spans
from butfor.text.subsets import named
from butfor.types import Subset


def kept_spans(hypotheses: Hypotheses, texts: Sequence[str], sampler: Sampler) -> Parts:
    """Return the parts of texts that may be kept; `sampler` redraws one stretch."""
    tested = finest_parts(hypotheses)
    return Parts(
        [_parts(text, of_text) for text, of_text in zip(texts, tested, strict=True)],
        rest_of,
        Rest(sampler),
        fills_whole=True,
    )


def _parts(text: str, tested: Sequence[Subset]) -> Sequence[Subset]:
    levels = (tested, *(named(text, spans(text)) for spans in (sentence_spans, paragraph_spans)))
    return next((parts for parts in levels if 2 <= len(parts) <= MOST_PARTS), ())


def rest_of(text: str, kept: Sequence[Subset]) -> tuple[Span, ...] | None:
    """Return the stretches between the parts kept, from the first to the last word or whole sentence of each.

    >>> text = "Not good. Not bad either."
    >>> rest_of(text, [Subset("good", (4, 8))]), rest_of(text, [Subset("Not good.", (0, 9))])
    (((0, 3), (10, 25)), ((10, 25),))
    """
    sentences, stretches, begin = sentence_spans(text), list[Span](), 0
    places = sorted(span for part in kept for span in spans_of(text, part))
    for start, end in (*places, (len(text), len(text))):
        units = [(begin + a, begin + b) for a, b in word_spans(text[begin:start])]
        units += [(a, b) for a, b in sentences if begin <= a and b <= start]
        if units:
            stretches.append((min(units)[0], max(b for _, b in units)))
        begin = max(begin, end)
    return tuple(stretches) or None


@dataclass(frozen=True, eq=False)
class Rest:
    """Redraws several stretches of a text by a sampler of one."""

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
