"""The embedded example of texts: which words of a review make a small network think that it praises or blames."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from butfor.evaluation.progress import Progress
from butfor.results.result import Result
from butfor.text.explain import explain
from butfor.text.small import small_infiller, small_sentiment
from butfor.text.view import LEGEND, rendered

WIDTH = 110
REVIEWS: dict[str, str] = json.loads(Path(__file__).with_name("reviews.json").read_text(encoding="utf-8"))
BEFORE = (
    "A small network, trained on other people's reviews, gives the probability that a review of a film is positive; "
    f"another redraws one word at a time from the words around it. Which words of {len(REVIEWS)} reviews written for "
    "this example matter to the first, beside a plain word in their place: one that is as common in praise as in blame?"
)
AFTER = (
    "Check: where the second network may draw any word, the same call chooses {chosen} of {tested} words. It has "
    "learnt from reviews and expects an opinion where a reviewer gives one, so that no word of a review is a surprise "
    "to it. The sampler is what a word is compared with: choose it for the question that you ask."
)


@dataclass(frozen=True)
class TextDemo:
    """The results beside plain words, and beside any word."""

    result: Result
    check: Result

    def marked(self, *, colour: bool | None = None) -> str:
        texts = [rendered(self.result, name, colour=colour) for name in self.result.input_names]
        after = AFTER.format(chosen=int(self.check.chosen.sum()), tested=len(self.check.chosen))
        parts = [textwrap.fill(BEFORE, WIDTH), self.result.summary(), f"{LEGEND}:", *texts]
        return "\n\n".join([*parts, textwrap.fill(after, WIDTH)])


def text_demo(seed: int = 0, progress: bool | Callable[[Progress], None] | None = None) -> TextDemo:
    """Test every word of a dozen reviews, by the embedded networks; nothing is downloaded."""

    def words(among: Literal["plain"] | None) -> Result:
        sampler = small_infiller(among=among)  # logit: scores of a probability near 0 or 1 cannot be compared
        result = explain(small_sentiment(), REVIEWS, sampler, link="logit", alpha=0.1, seed=seed, progress=progress)
        return result.with_sources(
            model="small_sentiment, the embedded classifier of film reviews",
            data=f"{len(REVIEWS)} reviews written for this example",
        )

    return TextDemo(words("plain"), words(None))
