"""Any fast tokenizer -> pieces with the character offsets they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from butfor.core.types import InputError
from butfor.models.optional import need
from butfor.text.edit import Span, encodable


class Pieces(NamedTuple):
    """The pieces of one text; special ones have the empty span (0, 0)."""

    ids: list[int]
    types: list[int]
    spans: list[Span]
    special: list[bool]


@dataclass(frozen=True, eq=False)
class Tokens:
    """A tokenizer that says where its pieces come from. Made by `tokens_of`."""

    inner: Any  # tokenizers.Tokenizer
    name: str
    pad: int

    def __repr__(self) -> str:
        return self.name

    def encode(self, texts: Sequence[str], special: bool = True) -> list[Pieces]:
        """All pieces of each text, nothing cut."""
        encoded = self.inner.encode_batch([encodable(text) for text in texts], add_special_tokens=special)
        return [Pieces(e.ids, e.type_ids, e.offsets, [mask == 1 for mask in e.special_tokens_mask]) for e in encoded]


def tokens_of(tokenizer: Any) -> Tokens:
    """A `tokenizers.Tokenizer`, a fast tokenizer of transformers, or the path of a tokenizer.json or its folder.

    >>> tokens_of("nowhere")
    Traceback (most recent call last):
    butfor.core.types.InputError: the tokenizer nowhere does not exist; expected a tokenizer.json or a folder with one
    """
    if isinstance(tokenizer, Tokens):
        return tokenizer
    name = type(tokenizer).__name__
    if isinstance(tokenizer, str | Path):
        path = Path(tokenizer).expanduser()
        file = path / "tokenizer.json" if path.is_dir() else path
        if not file.is_file():
            raise InputError(
                f"the tokenizer {tokenizer} does not exist; expected a tokenizer.json or a folder with one"
            )
        try:
            inner, name = need("tokenizers", "text").Tokenizer.from_file(str(file)), str(tokenizer)
        except InputError:
            raise
        except Exception as error:  # tokenizers raises bare exceptions
            raise InputError(f"{file} is not a tokenizer that can be read: {' '.join(str(error).split())}") from error
    elif hasattr(tokenizer, "backend_tokenizer"):
        inner = tokenizer.backend_tokenizer
    elif hasattr(tokenizer, "encode_batch") and hasattr(tokenizer, "get_vocab_size"):
        inner = tokenizer
    else:
        raise InputError(
            f"tokenizer is a {name}, expected a tokenizers.Tokenizer, a fast tokenizer of transformers, or a path: "
            "only these say from which characters their pieces come"
        )
    return Tokens(_whole(inner), name, _pad(inner, tokenizer))


def _whole(inner: Any) -> Any:
    """The same tokenizer, but it neither cuts nor fills up: a copy, since the user's own may be set to."""
    if inner.truncation is None and inner.padding is None:
        return inner
    copy = type(inner).from_str(inner.to_str())
    copy.no_truncation()
    copy.no_padding()
    return copy


def _pad(inner: Any, tokenizer: Any) -> int:
    said = getattr(tokenizer, "pad_token_id", None)
    if said is None and inner.padding is not None:
        said = inner.padding.get("pad_id")
    found = (inner.token_to_id(token) for token in ("[PAD]", "<pad>"))
    return int(said if said is not None else next((place for place in found if place is not None), 0))
