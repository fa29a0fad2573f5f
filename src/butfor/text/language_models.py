"""Language models of transformers, with what a sampler needs to know about their pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from butfor.core.types import Floats, InputError, Ints
from butfor.models.optional import need
from butfor.text.models import piece_limit
from butfor.text.pieces import PieceTable, piece_table
from butfor.text.tokens import Tokens, tokens_of

CLASSES = {"masked": "AutoModelForMaskedLM", "causal": "AutoModelForCausalLM"}


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """A model and its tokenizer; a folder or name is loaded when it is first asked. Made by `language_model`."""

    source: Any  # a name or folder, or a model
    tokenizer_source: Any
    kind: str
    device: Any

    def __repr__(self) -> str:
        return repr(self.source if isinstance(self.source, str) else type(self.source).__name__)

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("source", "tokenizer_source", "kind", "device")}

    @cached_property
    def _parts(self) -> tuple[Any, Any]:
        if not isinstance(self.source, str):
            self.source.eval()
            return self.source, self.tokenizer_source
        transformers = need("transformers", "hugging-face")
        try:
            model = getattr(transformers, CLASSES[self.kind]).from_pretrained(self.source)
            tokenizer = self.tokenizer_source or transformers.AutoTokenizer.from_pretrained(self.source)
        except (OSError, ValueError, ImportError) as error:
            told = " ".join(str(error).split())
            raise InputError(f"the {self.kind} language model {self.source} cannot be loaded: {told}") from error
        model.eval()
        return (model if self.device is None else model.to(self.device)), tokenizer

    @property
    def model(self) -> Any:
        return self._parts[0]

    @property
    def tokenizer(self) -> Any:
        return self._parts[1]

    @cached_property
    def tokens(self) -> Tokens:
        return tokens_of(self.tokenizer)

    @cached_property
    def table(self) -> PieceTable:
        return piece_table(self.tokens, int(self.model.config.vocab_size))

    @cached_property
    def limit(self) -> int | None:
        return piece_limit(self.model, self.tokenizer)

    @cached_property
    def mask(self) -> int:
        mask = getattr(self.tokenizer, "mask_token_id", None)
        if mask is None:
            raise InputError(f"the tokenizer of {self!r} has no mask; masked_lm needs a masked language model")
        return int(mask)

    @cached_property
    def edges(self) -> tuple[list[int], list[int]]:
        """Special pieces before and after a text."""
        pieces = self.tokens.encode(["a"])[0]
        inside = [place for place, special in enumerate(pieces.special) if not special]
        return pieces.ids[: inside[0]], pieces.ids[inside[-1] + 1 :]

    def logits(self, rows: Sequence[Ints], places: Sequence[int], options: Sequence[Ints]) -> list[Floats]:
        """Log-odds of `options` at one place of each row; rows are of one length."""
        import torch

        ids = torch.tensor(np.stack(rows), device=self.model.device)
        with torch.inference_mode():
            out = self.model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
        return [
            out[row, place, torch.from_numpy(own).to(out.device)].double().cpu().numpy()
            for row, (place, own) in enumerate(zip(places, options, strict=True))
        ]


def language_model(model: Any, tokenizer: Any, kind: str, device: Any) -> LanguageModel:
    """A folder, a name, or a model with its fast tokenizer."""
    if isinstance(model, LanguageModel):
        return model
    if isinstance(model, str | Path):
        return LanguageModel(str(model), tokenizer, kind, device)
    if not hasattr(model, "config") or not callable(model):
        raise InputError(
            f"{kind}_lm takes the folder or name of a model, or a model with its tokenizer, got {type(model).__name__}"
        )
    if tokenizer is None:
        raise InputError(f"{kind}_lm was given a {type(model).__name__} without its tokenizer; give tokenizer=")
    return LanguageModel(model, tokenizer, kind, device)
