"""Sampler: a causal language model of transformers, which reads to the left, rescored by what follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from butfor.models.wrap import need
from butfor.text.masked_lm import Shape, WordByWord, draw_spans, list_spans, lists_short, shape, spelled
from butfor.text.segment import Span, case_of, cased, rewritten, span_of, splits_character, word_spans
from butfor.text.tokens import LanguageModel, Recent, language_model
from butfor.types import Floats, InputError, Ints, Subset, whole

KEPT = 64  # distributions that are remembered
NEAR = 32  # characters for each piece that is read: more than it can have


@dataclass(frozen=True, eq=False)
class CausalLM:
    """Draws words by p(word | left) p(right | left, word). Made by `causal_lm`."""

    language: LanguageModel
    shape: Shape
    listed: int
    candidates: int
    left: int
    right: int
    batch: int
    _masses: Recent[tuple[Ints, Floats]] = field(default_factory=lambda: Recent(KEPT), repr=False)

    changes_subset_only = True

    def __repr__(self) -> str:
        read = f"candidates={self.candidates}, left={self.left}, right={self.right}"
        listed = f"listed={self.listed}" if self.listed else ""
        return spelled("causal_lm", repr(self.language), str(self.shape), listed, read)

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
        """The `listed` likeliest counterfactuals of each text, and their probabilities (n, m)."""
        return list_spans(inputs, subset, self.listed, partial(self._open, subset))

    def _open(self, subset: Subset, text: str) -> WordByWord:
        words = _words(text, subset)
        law, written = partial(self._law, text, words), partial(rewritten, text, span_of(text, subset), words)
        return WordByWord(len(words), law, written)

    def _law(self, text: str, words: list[Span], begun: tuple[str, ...]) -> tuple[list[str], Floats]:
        """The words that may follow those filled so far, and the probability of each."""
        start, end = words[len(begun)]
        near = rewritten(text, (0, start), words[: len(begun)], begun)[-NEAR * self.left :]
        last = len(begun) == len(words) - 1  # what follows the others is not known yet
        follows = text[end : end + NEAR * self.right] if last else ""
        pieces, mass = self._masses.get((near, follows), lambda: self._distribution(near, follows))
        table, case = self.language.table, case_of(text, start, end)
        reads = [str(table.reads[piece]) for piece in pieces]
        return ([cased(read, case) for read in reads] if table.lower else reads), mass

    def _distribution(self, made: str, follows: str) -> tuple[Ints, Floats]:
        table, tokens = self.language.table, self.language.tokens
        spaced = table.spaced and made.endswith(" ")
        before, after = tokens.encode([made[:-1] if spaced else made, follows], special=False)
        right = np.array(after.ids[: self.right], np.int64)
        room = self.left if self.language.limit is None else min(self.left, self.language.limit - len(right) - 1)
        left = np.array([*self._start, *before.ids][-max(1, room) :], np.int64)
        options = table.options((True, True)) if spaced or not table.spaced else self._bare_words
        logits = self.language.logits([left], [len(left) - 1], [options])[0]
        if not len(right):
            return options, self.shape.probabilities(logits[None])[0]
        best = np.argsort(-logits, kind="stable")[: self.candidates]
        scores = logits[best] + self._rest(left, options[best], right)
        return options[best], self.shape.probabilities(scores[None])[0]

    def _rest(self, left: Ints, options: Ints, right: Ints) -> Floats:
        """log p(right | left, word) for each word."""
        torch = need("torch", "hugging-face")

        rows = torch.tensor(np.array([[*left, option, *right] for option in options]))
        model, parts = self.language.model, []
        for start in range(0, len(rows), self.batch):
            some = rows[start : start + self.batch].to(model.device)
            with torch.inference_mode():
                logits = model(input_ids=some, attention_mask=torch.ones_like(some)).logits[:, len(left) : -1].double()
            own = torch.log_softmax(logits, dim=2).gather(2, some[:, len(left) + 1 :, None])
            parts.append(own[:, :, 0].sum(dim=1).cpu().numpy())
        return np.concatenate(parts)

    @cached_property
    def _start(self) -> list[int]:
        """What stands before a text, so that its first word has something on its left."""
        special = self.language.edges[0]
        config = self.language.model.config
        first = [place for place in (config.bos_token_id, config.eos_token_id) if isinstance(place, int)]
        if not special and not first:
            raise InputError(f"the model {self.language!r} has no piece for the beginning of a text (bos_token_id)")
        return list(special) or first[:1]

    @cached_property
    def _bare_words(self) -> Ints:
        """Pieces without a space before them that are words all the same: some piece with a space reads like them."""
        table = self.language.table
        words = {str(table.reads[piece]).lower() for piece in table.options((True, True))}
        bare = [piece for piece in table.options((False, True)) if str(table.reads[piece]).lower() in words]
        return np.array(bare, np.int64) if bare else table.options((False, True))


def causal_lm(
    model: Any,
    tokenizer: Any = None,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    listed: int = 0,
    candidates: int = 100,
    left: int = 64,
    right: int = 8,
    batch: int = 32,
    device: Any = None,
) -> CausalLM:
    """Redraws words from a causal language model such as GPT-2: what fits the left, rescored by what follows.

    A word is drawn among the `candidates` likeliest after what stands before it, each one piece that is a word, with
    probability proportional to p(word | left) p(right | left, word). In a span of several words all but the last are
    drawn by what is on their left only, since what follows them is not there yet; what stands between them stays. Case
    is the model's own, unless it knows none.

    Limits: a masked language model reads both sides at once and is better and far cheaper: here each word costs
    `candidates` rows. A word that is not among the candidates may look surprising for that alone.

    Parameters
    ----------
    model, tokenizer, temperature, top_k, top_p, listed, device : as in `masked_lm`.
    candidates : words that are rescored by what follows.
    left, right : pieces that are read before and after a word.
    batch : candidates that the model is given at a time.

    Examples
    --------
    >>> causal_lm("gpt2", top_p=0.9)  # loaded when it is first asked
    causal_lm('gpt2', top_p=0.9, candidates=100, left=64, right=8)
    """
    return CausalLM(
        language_model(model, tokenizer, "causal", device),
        shape(temperature, top_k, top_p),
        whole("listed", listed, 0),
        whole("candidates", candidates, 1),
        whole("left", left, 1),
        whole("right", right, 0),
        whole("batch", batch, 1),
    )


def _words(text: str, subset: Subset) -> list[Span]:
    start, end = span_of(text, subset)
    found = [(start + a, start + b) for a, b in word_spans(text[start:end])]
    if not found:
        raise InputError(f"subset {subset.name!r} ({start}, {end}) has no word in it, and causal_lm redraws words")
    for place in (start, end):
        if _inside_word(text, place) or splits_character(text, place):
            raise InputError(f"subset {subset.name!r} ({start}, {end}) cuts a word, and causal_lm redraws whole words")
    return found


def _inside_word(text: str, place: int) -> bool:
    near = max(0, place - 40)
    return any(a < place - near < b for a, b in word_spans(text[near : place + 40]))
