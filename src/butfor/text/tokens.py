"""Any fast tokenizer -> pieces with the character offsets they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from butfor.core.types import InputError
from butfor.models.optional import need
from butfor.text.edit import Span, encodable

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def stated(thing: object, name: str) -> Any:
    """What a model, its config or its tokenizer says of itself; None where it says nothing.

    >>> stated("a name", "pad_token_id") is None
    True
    """
    return getattr(thing, name, None)


class Pieces(NamedTuple):
    """The pieces of one text; special ones have the empty span (0, 0)."""

    ids: list[int]
    types: list[int]
    spans: list[Span]
    special: list[bool]


@dataclass(frozen=True, eq=False)
class Tokens:
    """A tokenizer that says where its pieces come from. Made by `tokens_of`."""

    inner: Tokenizer
    name: str
    pad: int

    def __repr__(self) -> str:
        return self.name

    def encode(self, texts: Sequence[str], special: bool = True) -> list[Pieces]:
        """All pieces of each text, nothing cut."""
        encoded = self.inner.encode_batch([encodable(text) for text in texts], add_special_tokens=special)
        return [Pieces(e.ids, e.type_ids, e.offsets, [mask == 1 for mask in e.special_tokens_mask]) for e in encoded]


def tokens_of(tokenizer: object) -> Tokens:
    """A `tokenizers.Tokenizer`, a fast tokenizer of transformers, or the path of a tokenizer.json or its folder.

    >>> tokens_of("nowhere")
    Traceback (most recent call last):
    butfor.core.types.InputError: the tokenizer nowhere does not exist; expected a tokenizer.json or a folder with one
    """
    if isinstance(tokenizer, Tokens):
        return tokenizer
    name = type(tokenizer).__name__
    inner = stated(tokenizer, "backend_tokenizer") or tokenizer
    if isinstance(tokenizer, str | Path):
        inner, name = _read(Path(tokenizer).expanduser()), str(tokenizer)
    if not isinstance(inner, need("tokenizers", "text").Tokenizer):
        raise InputError(
            f"tokenizer is a {name}, expected a tokenizers.Tokenizer, a fast tokenizer of transformers, or a path: "
            "only these say from which characters their pieces come"
        )
    return Tokens(_whole(inner), name, _pad(inner, tokenizer))


def _read(path: Path) -> Any:
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise InputError(f"the tokenizer {path} does not exist; expected a tokenizer.json or a folder with one")
    try:
        return need("tokenizers", "text").Tokenizer.from_file(str(file))
    except InputError:
        raise
    except Exception as error:  # tokenizers raises bare exceptions
        raise InputError(f"{file} is not a tokenizer that can be read: {' '.join(str(error).split())}") from error


def _whole(inner: Tokenizer) -> Tokenizer:
    """The same tokenizer, but it neither cuts nor fills up: a copy, since the user's own may be set to."""
    if inner.truncation is None and inner.padding is None:
        return inner
    copy = type(inner).from_str(inner.to_str())
    copy.no_truncation()
    copy.no_padding()
    return copy


def _pad(inner: Tokenizer, tokenizer: object) -> int:
    """The piece that fills rows up: as stated, else as it is usually called."""
    padding = inner.padding or {}
    known = [stated(tokenizer, "pad_token_id"), padding.get("pad_id")]
    known += [inner.token_to_id(token) for token in ("[PAD]", "<pad>")]
    return int(next((place for place in known if place is not None), 0))
