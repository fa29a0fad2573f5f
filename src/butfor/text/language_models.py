"""Models of transformers by folder or name; of language models what a sampler needs to know of their pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from butfor.core.types import Floats, InputError, Ints
from butfor.models.optional import need
from butfor.text.pieces import PieceTable, piece_table
from butfor.text.tokens import Tokens, stated, tokens_of

# Families whose positions begin after the id of the padding
SHIFTED = ("roberta", "camembert", "xlm-roberta", "longformer", "mpnet", "data2vec-text", "xmod", "luke", "ernie_m")
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
        if isinstance(self.source, str):
            what = f"{self.kind} language model"
            return load_pretrained(CLASSES[self.kind], self.source, self.tokenizer_source, self.device, what)
        return self.source.eval(), self.tokenizer_source

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
        mask = stated(self.tokenizer, "mask_token_id")
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
        torch = need("torch", "hugging-face")

        ids = torch.tensor(np.stack(rows), device=self.model.device)
        with torch.inference_mode():
            out = self.model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
        return [
            out[row, place, torch.from_numpy(own).to(out.device)].double().cpu().numpy()
            for row, (place, own) in enumerate(zip(places, options, strict=True))
        ]


def language_model(model: object, tokenizer: object, kind: str, device: object) -> LanguageModel:
    """A folder, a name, or a model with its fast tokenizer."""
    if isinstance(model, LanguageModel):
        return model
    if isinstance(model, str | Path):
        return LanguageModel(str(model), tokenizer, kind, device)
    if stated(model, "config") is None or not callable(model):
        raise InputError(
            f"{kind}_lm takes the folder or name of a model, or a model with its tokenizer, got {type(model).__name__}"
        )
    if tokenizer is None:
        raise InputError(f"{kind}_lm was given a {type(model).__name__} without its tokenizer; give tokenizer=")
    return LanguageModel(model, tokenizer, kind, device)


def load_pretrained(
    kind: str, name: str, tokenizer: object, device: object, what: str, check: Callable[[Any], None] | None = None
) -> tuple[Any, Any]:
    """A model of the class `kind` of transformers, and its tokenizer unless one is given; `check` sees the config.

    Code that comes with a model is never run.
    """
    transformers = need("transformers", "hugging-face")
    try:
        if check is not None:
            check(transformers.AutoConfig.from_pretrained(name))
        model = getattr(transformers, kind).from_pretrained(name).eval()
        tokenizer = tokenizer or transformers.AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError, ImportError) as error:
        raise InputError(f"the {what} {name} cannot be loaded: {' '.join(str(error).split())}") from error
    return (model if device is None else model.to(device)), tokenizer


def piece_limit(model: object, tokenizer: object) -> int | None:
    """Pieces that a model can take at a time, special ones included; None: any number."""
    config = stated(model, "config")
    places = stated(config, "max_position_embeddings") or stated(config, "n_positions")
    if places is not None and str(stated(config, "model_type")).startswith(SHIFTED):
        places -= (stated(config, "pad_token_id") or 0) + 1
    limits = [places, stated(tokenizer, "model_max_length")]
    return min((int(limit) for limit in limits if limit is not None and 0 < limit < 10**9), default=None)
