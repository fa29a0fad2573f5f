"""Any fast tokenizer -> pieces with the character offsets they come from."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from butfor.models.onnx import open_session
from butfor.models.wrap import need
from butfor.text.segment import Span, encodable
from butfor.types import Array, Bools, Floats, InputError, Ints, ModelError

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer


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
    butfor.types.InputError: the tokenizer nowhere does not exist; expected a tokenizer.json or a folder with one
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


Kind = tuple[bool, bool]  # begins a word, has a letter or digit


@dataclass(frozen=True, eq=False)
class PieceTable:
    """Pieces as they read in a text. Made by `piece_table`."""

    reads: tuple[str | None, ...]  # None: special, or no text by itself (a part of a character)
    begins: tuple[bool, ...]
    spaced: bool  # a piece that begins a word holds the space before it
    lower: bool  # upper and lower case are the same
    among: frozenset[str] | None = None  # the only words that may begin with a piece: pieces that are these words

    def kind(self, piece: int) -> Kind:
        read = self.reads[piece]
        if read is None:
            return (True, True)  # an unknown word
        return (self.begins[piece], _lettered(read))

    @cached_property
    def _by_kind(self) -> dict[Kind, Ints]:
        out: dict[Kind, list[int]] = {(a, b): [] for a in (True, False) for b in (True, False)}
        for piece, read in enumerate(self.reads):
            if read and self._may(piece, read):
                out[self.kind(piece)].append(piece)
        return {kind: np.array(pieces, np.int64) for kind, pieces in out.items()}

    def _may(self, piece: int, read: str) -> bool:
        limited = self.among is not None and self.kind(piece) == (True, True)
        return not limited or read.lower() in (self.among or ())

    def options(self, kind: Kind) -> Ints:
        """The pieces that may stand in place of one of this kind."""
        return self._by_kind[kind]

    @cached_property
    def inner_words(self) -> Ints:
        """Pieces with a letter or digit, whether they begin a word or go on with one."""
        return np.sort(np.concatenate([self._by_kind[True, True], self._by_kind[False, True]]))


def _lettered(read: str) -> bool:
    return any(character.isalnum() for character in read)


def piece_table(tokens: Tokens, size: int) -> PieceTable:
    """The first `size` pieces of a tokenizer: as many as the model has outputs for."""
    inner = tokens.inner
    stored = json.loads(inner.to_str())
    special = {entry["id"] for entry in stored.get("added_tokens") or [] if entry.get("special")}
    names = {place: name for name, place in inner.get_vocab(with_added_tokens=True).items()}
    raw = [None if place in special else names.get(place) for place in range(size)]
    kinds = _types(stored.get("pre_tokenizer")) | _types(stored.get("decoder")) | _types(stored.get("normalizer"))
    prefix = (stored.get("model") or {}).get("continuing_subword_prefix") or ""
    lower = inner.encode("A", add_special_tokens=False).ids == inner.encode("a", add_special_tokens=False).ids
    if "ByteLevel" in kinds:
        sign, read = "Ġ", _bytes_read
    elif "Metaspace" in kinds or any(name is not None and name.startswith("▁") for name in raw):
        sign, read = "▁", _plain
    else:
        plain = [None if name is None else name.removeprefix(prefix) for name in raw]
        begins = [name is None or not prefix or not name.startswith(prefix) for name in raw]
        return PieceTable(tuple(plain), tuple(begins), False, lower)
    reads = [None if name is None else read(name.removeprefix(sign)) for name in raw]
    return PieceTable(tuple(reads), tuple(name is not None and name.startswith(sign) for name in raw), True, lower)


def _types(part: Any) -> set[str]:
    if not isinstance(part, dict):
        return set()
    inner = [one for name in ("pretokenizers", "decoders", "normalizers") for one in part.get(name) or []]
    return {str(part.get("type"))}.union(*(_types(one) for one in inner))


def _plain(name: str) -> str | None:
    return None if name.startswith("<0x") or "▁" in name else name


def _bytes_read(name: str) -> str | None:
    """A byte-level piece as text, if it is whole characters without a space."""
    try:
        read = bytes(BYTES[character] for character in name).decode("utf-8")
    except (KeyError, UnicodeDecodeError):
        return None
    return None if any(character.isspace() for character in read) else read


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-ins for bytes."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + place): byte for place, byte in enumerate(others)}


BYTES = _byte_alphabet()


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
        """What belongs to `key`, made if it is not there."""
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        value = self._known[key] = make()
        while len(self._known) > self.most:
            self._known.popitem(last=False)
        return value

    def __reduce__(self) -> tuple[type[Recent[Value]], tuple[int]]:
        return Recent, (self.most,)


WEIGHTS = Path(__file__).parent / "weights"
PAD, UNK, MASK, EDGE = 0, 1, 2, 3
LINE = "<br />"  # the only piece with a space in it
MOST_CUT = 2**16  # words whose pieces are remembered
MOST_JOINED = 2**14  # sentences whose pieces are
Part = TypeVar("Part", str, bytes)
Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The pieces of the embedded networks."""

    pieces: tuple[str, ...]
    whole: Ints  # ids of the pieces that can stand as a word
    inside: Ints  # ids of the pieces that can go on with a word
    known: Bools  # (V,) whether a piece is whole


@lru_cache(maxsize=1)
def vocabulary() -> Vocabulary:
    """What the networks read and fill."""
    tokens = tokenizer()
    pieces = tuple(str(tokens.id_to_token(place)) for place in range(tokens.get_vocab_size()))
    lettered = np.array([any(character.isalnum() for character in piece) for piece in pieces])
    inside = np.array([piece.startswith("##") for piece in pieces])
    special = np.array([place <= EDGE or piece.startswith("<") for place, piece in enumerate(pieces)])
    whole = lettered & ~inside & ~special
    return Vocabulary(pieces, np.flatnonzero(whole), np.flatnonzero(lettered & inside), whole)


@lru_cache(maxsize=1)
def tokenizer() -> Tokenizer:
    """What cuts texts into their pieces."""
    made: Tokenizer = need("tokenizers", "text").Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))
    return made


def pieces_of(texts: Sequence[str]) -> list[Encoding]:
    """Encodings of texts: ids, and the offsets of each piece."""
    return list(tokenizer().encode_batch([encodable(text) for text in texts], add_special_tokens=False))


def ids_of(encoding: Encoding) -> Ints:
    """The pieces of a text by number."""
    ids = np.array(encoding.ids, np.int64)
    ids[ids <= EDGE] = UNK  # a text that says "[MASK]" masks nothing
    return ids


def numbers_of(texts: Sequence[str]) -> list[Ints]:
    """The same as `ids_of` of each text, in a fraction of the time where texts share most of what they say.

    No piece goes over a space but for the mark of a line. So what stands between two spaces is cut once, and what
    stands between a full stop with a space and the next is put together once.
    """
    held = [_network_sentences(encodable(text)) for text in texts]
    known = remembered(_joined_before(), held, MOST_JOINED, _numbers_of_sentences)
    return [np.concatenate([known[part] for part in parts]) for parts in held]


def _numbers_of_sentences(sentences: Sequence[str]) -> list[Ints]:
    held = [_between_spaces(sentence) for sentence in sentences]
    known = remembered(_cut_before(), held, MOST_CUT, _cut)
    return [np.array([piece for part in parts for piece in known[part]], np.int64) for parts in held]


def _cut(parts: Sequence[str]) -> list[list[int]]:
    encodings = tokenizer().encode_batch(list(parts), add_special_tokens=False)
    return [ids_of(encoding).tolist() for encoding in encodings]


def remembered(
    before: dict[Part, Made], held: Sequence[Sequence[Part]], most: int, make: Callable[[Sequence[Part]], list[Made]]
) -> dict[Part, Made]:
    """What is made of all parts, where it is not known from before, of which at most so many are kept."""
    found = {part: before.get(part) for parts in held for part in parts}  # another thread may empty what was known
    fresh = [part for part, own in found.items() if own is None]
    made = dict(zip(fresh, make(fresh), strict=True))
    if len(before) + len(made) > most:
        before.clear()
    before.update(made)
    return {part: own for part, own in found.items() if own is not None} | made


@lru_cache(maxsize=1)
def _joined_before() -> dict[str, Ints]:
    """The pieces of sentences; a pure saving, as that of their words is."""
    return {}


@lru_cache(maxsize=1)
def _cut_before() -> dict[str, list[int]]:
    """The pieces of what stood between two spaces."""
    return {}


def _network_sentences(text: str) -> list[str]:
    """What can be cut apart, longer than words.

    >>> _network_sentences("Bad... It was. And long.")
    ['Bad...', 'It was.', 'And long.']
    """
    *others, last = text.split(". ")
    return [*(part + "." for part in others), last]


def _between_spaces(text: str) -> list[str]:
    """What the tokenizer cuts by itself.

    >>> _between_spaces("Bad.<br /><br />So bad")
    ['Bad.', '<br />', '<br />', 'So', 'bad']
    """
    lines = text.split(LINE)
    parts = [part for line in lines for part in (*line.split(" "), LINE)][:-1]
    return [part for part in parts if part]


def ask(
    name: str, threads: int | None, feeds: Mapping[str, Array], *, output: str | None = None, arena: bool = False
) -> NDArray[np.float32]:
    """An output of the network weights/`name`.onnx, its first if not said; `arena`: batches are of about one size."""
    try:
        # texts differ in length, and an arena would keep memory for each
        session = open_session(WEIGHTS / f"{name}.onnx", f"the embedded {name}", threads, arena=arena, extra="text")
        out: NDArray[np.float32] = session.run(None if output is None else [output], feeds)[0]
        return out
    except InputError:
        raise
    except Exception as error:  # ONNX Runtime has errors of its own kinds
        raise ModelError(f"the embedded {name} failed: {' '.join(str(error).split())[:300]}") from error
