"""Samplers: masked and causal language models of transformers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from butfor.models.wrap import need
from butfor.text import fills
from butfor.text.models import load_pretrained, piece_limit
from butfor.text.segment import (
    Pieces,
    Span,
    Tokens,
    case_of,
    cased,
    lettered,
    rewritten,
    span_of,
    splits_character,
    tokens_of,
    trimmed,
    word_spans,
)
from butfor.types import Floats, InputError, Ints, Subset, whole

Kind = tuple[bool, bool]  # begins a word, has a letter or digit
KEPT = 16  # texts, and batches of distributions, that are remembered
NEAR = 32  # characters for each piece that is read: more than it can have


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
        return (True, True) if read is None else (self.begins[piece], lettered(read))  # None: an unknown word

    @cached_property
    def options(self) -> dict[Kind, Ints]:
        """Pieces that may stand in place of one of each kind."""
        out: dict[Kind, list[int]] = {(a, b): [] for a in (True, False) for b in (True, False)}
        for piece, read in enumerate(self.reads):
            kind = self.kind(piece)
            if read and (self.among is None or kind != (True, True) or read.lower() in self.among):
                out[kind].append(piece)
        return {kind: np.array(pieces, np.int64) for kind, pieces in out.items()}


def piece_table(tokens: Tokens, size: int) -> PieceTable:
    """Return the first `size` pieces of a tokenizer: as many as the model has outputs for."""
    inner = tokens.inner
    stored = json.loads(inner.to_str())
    special = {entry["id"] for entry in stored.get("added_tokens") or [] if entry.get("special")}
    names = {piece: name for name, piece in inner.get_vocab(with_added_tokens=True).items()}
    raw = [None if piece in special else names.get(piece) for piece in range(size)]

    def types(part: Any) -> set[str]:
        if not isinstance(part, dict):
            return set()
        parts = [one for name in ("pretokenizers", "decoders", "normalizers") for one in part.get(name) or []]
        return {str(part.get("type"))}.union(*map(types, parts))

    kinds = set().union(*(types(stored.get(name)) for name in ("pre_tokenizer", "decoder", "normalizer")))
    prefix = (stored.get("model") or {}).get("continuing_subword_prefix") or ""
    lower = inner.encode("A", add_special_tokens=False).ids == inner.encode("a", add_special_tokens=False).ids
    if "ByteLevel" in kinds:  # GPT-2 writes every byte as one printable character
        printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
        others = [byte for byte in range(256) if byte not in printable]
        codes = {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}

        def byte_level(name: str) -> str | None:  # None: not complete characters, or a space among them
            try:
                text = bytes(codes[character] for character in name).decode("utf-8")
            except (KeyError, UnicodeDecodeError):
                return None
            return None if any(character.isspace() for character in text) else text

        sign, read = "Ġ", byte_level
    elif "Metaspace" in kinds or any(name is not None and name.startswith("▁") for name in raw):
        sign, read = "▁", lambda name: None if name.startswith("<0x") or "▁" in name else name
    else:
        plain = [None if name is None else name.removeprefix(prefix) for name in raw]
        begins = [name is None or not prefix or not name.startswith(prefix) for name in raw]
        return PieceTable(tuple(plain), tuple(begins), False, lower)
    reads = [None if name is None else read(name.removeprefix(sign)) for name in raw]
    return PieceTable(tuple(reads), tuple(name is not None and name.startswith(sign) for name in raw), True, lower)


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """A model and its tokenizer; a folder or name is loaded when first needed. Made by `language_model`."""

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
            name = {"masked": "AutoModelForMaskedLM", "causal": "AutoModelForCausalLM"}[self.kind]
            given = (self.tokenizer_source, self.device, f"{self.kind} language model")
            return load_pretrained(name, self.source, *given)
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
        mask = getattr(self.tokenizer, "mask_token_id", None)
        if mask is None:
            raise InputError(f"the tokenizer of {self!r} has no mask; masked_lm needs a masked language model")
        return int(mask)

    @cached_property
    def edges(self) -> tuple[list[int], list[int]]:
        """Special pieces before and after a text."""
        pieces = self.tokens.encode(["a"])[0]
        inside = [index for index, special in enumerate(pieces.special) if not special]
        return pieces.ids[: inside[0]], pieces.ids[inside[-1] + 1 :]

    def logits(self, rows: Sequence[Ints], indices: Sequence[int], options: Sequence[Ints]) -> list[Floats]:
        """Return the log-odds of `options` at one index of each row; rows are of one length."""
        torch = need("torch", "hugging-face")
        ids = torch.tensor(np.stack(rows), device=self.model.device)
        with torch.inference_mode():
            out = self.model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
        return [
            out[row, index, torch.from_numpy(pieces).to(out.device)].double().cpu().numpy()
            for row, (index, pieces) in enumerate(zip(indices, options, strict=True))
        ]


def language_model(model: object, tokenizer: object, kind: str, device: object) -> LanguageModel:
    """Wrap a folder, a name, or a model with its fast tokenizer."""
    if isinstance(model, LanguageModel):
        return model
    if isinstance(model, str | Path):
        return LanguageModel(str(model), tokenizer, kind, device)
    if getattr(model, "config", None) is None or not callable(model):
        raise InputError(
            f"{kind}_lm takes the folder or name of a model, or a model with its tokenizer, got {type(model).__name__}"
        )
    if tokenizer is None:
        raise InputError(f"{kind}_lm was given a {type(model).__name__} without its tokenizer; give tokenizer=")
    return LanguageModel(model, tokenizer, kind, device)


@dataclass(frozen=True, eq=False)
class MaskedLM:
    """Draws pieces given those on both sides. Made by `masked_lm`."""

    language: LanguageModel
    shape: fills.Shape
    listed: int
    sweeps: int
    batch: int
    among: frozenset[str] | None = None
    _texts: fills.Recent[Pieces] = field(default_factory=lambda: fills.Recent(KEPT), repr=False)
    _masses: fills.Recent[dict[int, Floats]] = field(default_factory=lambda: fills.Recent(KEPT), repr=False)

    changes_subset_only = True
    dear = True
    __call__ = fills.draw_spans
    repeats = fills.always_repeats
    lists = fills.lists_short
    support = fills.list_spans
    together = fills.left_out

    def __repr__(self) -> str:
        among = "" if self.among is None else f"{len(self.among)} words"
        options = {"listed": self.listed, "sweeps": self.sweeps, "among": among}
        return fills.spelled("masked_lm", repr(self.language), str(self.shape), **options)

    @property
    def tokenizer(self) -> Any:
        return self.language.tokenizer

    @cached_property
    def _table(self) -> PieceTable:
        table = replace(self.language.table, among=self.among)
        if self.among is not None and len(table.options[True, True]) < 2:
            raise InputError("among has fewer than 2 words that are one piece of the model; give more of them")
        return table

    def open(self, text: str, subset: Subset) -> fills.Blank:
        pieces = self._texts.get(text, lambda: self.language.tokens.encode([text], special=False)[0])
        span, table = span_of(text, subset), self._table
        ids = np.array(pieces.ids, np.int64)
        spans = [trimmed(text, piece) for piece in pieces.spans]
        inside = [index for index, (a, b) in enumerate(spans) if a < span[1] and b > span[0] and a < b]
        for index in inside:
            if spans[index][0] < span[0] or spans[index][1] > span[1]:
                raise InputError(
                    f"subset {subset.name!r} {span} cuts the piece {text[slice(*spans[index])]!r} of the model's "
                    "tokenizer; test whole pieces, such as units='wordpiece'"
                )
        firsts: list[int] = []  # one piece for each stretch of characters: the bytes of a character are one piece here
        for index in inside:
            if not firsts or spans[index][0] >= spans[firsts[-1]][1]:
                firsts.append(index)
        chosen = [index for index in firsts if table.kind(int(ids[index]))[1]] or firsts
        if not chosen:
            raise InputError(
                f"subset {subset.name!r} {span} has no piece that the model's tokenizer knows of; test other spans"
            )
        slots: list[Span] = []  # where each piece goes
        for index in chosen:
            a, b = spans[index]
            slots.append((a, max([b, *(spans[k][1] for k in inside if spans[k][0] < b and spans[k][1] > a)])))
        options = [table.options[table.kind(int(ids[index]))] for index in chosen]
        keep = np.setdiff1d(np.arange(len(ids)), [index for index in inside if index not in firsts])
        masks, observed = np.searchsorted(keep, chosen).tolist(), ids[keep]
        masked = observed.copy()
        masked[masks] = self.language.mask

        def alone() -> Floats:  # the distributions of its neighbours, of which one is likely next, come with it
            mask, number = masks[0], masks[0] // self.batch
            if len(keep) < len(ids) or self.batch == 1 or not table.kind(int(observed[mask]))[1]:
                return np.asarray(self._mass(masked[None], mask, options[0])[0])
            return self._masses.get((text, number), lambda: self._neighbours(observed, number))[mask]

        def written(drawn: Sequence[int]) -> str:
            reads = [str(table.reads[piece]) for piece in drawn]
            if table.lower:
                reads = [cased(read, case_of(text, *slot)) for read, slot in zip(reads, slots, strict=True)]
            return rewritten(text, span, slots, reads)

        return fills.Blank(
            options=options,
            masked=lambda: (masked, masks),
            mass=lambda rows, index, which: self._mass(rows, index, options[which]),
            alone=alone,
            written=written,
            sweeps=self.sweeps,
        )

    def _neighbours(self, ids: Ints, number: int) -> dict[int, Floats]:
        """Return the distribution of each word piece of a batch of neighbours, by its index."""
        near = range(number * self.batch, min((number + 1) * self.batch, len(ids)))
        kinds = {index: kind for index in near if (kind := self._table.kind(int(ids[index])))[1]}
        options = [self._table.options[kind] for kind in kinds.values()]
        rows = [np.where(np.arange(len(ids)) == index, self.language.mask, ids) for index in kinds]
        logits = self._logits(rows, list(kinds), options)
        return {index: self.shape.probabilities(row[None])[0] for index, row in zip(kinds, logits, strict=True)}

    def _mass(self, rows: Ints, index: int, options: Ints) -> Floats:
        """Return distributions over the options at one index of each row, (rows, options)."""
        batches = [rows[start : start + self.batch] for start in range(0, len(rows), self.batch)]
        parts = [self._logits(batch, [index] * len(batch), [options] * len(batch)) for batch in batches]
        return self.shape.probabilities(np.concatenate(parts))

    def _logits(self, rows: Sequence[Ints] | Ints, indices: list[int], options: list[Ints]) -> list[Floats]:
        """Return the log-odds, reading each row in full or as much around its mask as the model takes."""
        left, right = self.language.edges
        near, masks = [], []
        for row, index in zip(rows, indices, strict=True):
            limit = None if self.language.limit is None else self.language.limit - len(left) - len(right)
            room = len(row) if limit is None else min(len(row), limit)
            begin = int(np.clip(index - room // 2, 0, len(row) - room))
            near.append(np.concatenate([left, row[begin : begin + room], right]).astype(np.int64))
            masks.append(index - begin + len(left))
        return self.language.logits(near, masks, options)


def masked_lm(
    model: Any,
    tokenizer: Any = None,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    listed: int = 0,
    sweeps: int = 0,
    batch: int = 16,
    among: Iterable[str] | None = None,
    device: Any = None,
) -> MaskedLM:
    """Redraw the pieces of a span, given the text on both sides, from a masked language model.

    The pieces of the span with a letter or digit are masked together and filled from left to right. Every piece keeps
    its kind, beginning a word or continuing one, and their number is conditioned on. A model that knows no case writes
    its fills in the case of the observed words. Texts longer than the model takes are read in a window around each
    masked piece, never cut off.

    Parameters
    ----------
    model : str, path or model
        The folder or name of a masked language model (BERT, RoBERTa, ...), or the model itself.
    tokenizer : tokenizer, optional
        Its fast tokenizer, where the model itself is given.
    temperature, top_k, top_p : float, int, float
        Sharpen or cut the distribution: the reference becomes the likelier fills.
    listed : int
        The exact tests ("irt" and "sequential") evaluate so many of the likeliest fills instead of drawing.
    sweeps : int
        How often every piece is redrawn given all others (Gibbs).
    batch : int
        Neighbouring pieces whose distributions are computed in one pass; use 1 for a few spans of many texts.
    among : iterable of str, optional
        The only words it draws, such as `plain(corpus, labels)`: those that are one piece of the model.
    device : str, optional
        The device of the model, such as "cuda".

    Returns
    -------
    MaskedLM
        A sampler of texts.

    Examples
    --------
    >>> masked_lm("bert-base-uncased", top_k=50, sweeps=2)  # loaded when it is first needed
    masked_lm('bert-base-uncased', top_k=50, sweeps=2)
    """
    language, shape = language_model(model, tokenizer, "masked", device), fills.Shape(temperature, top_k, top_p)
    listed, sweeps, batch = whole("listed", listed, 0), whole("sweeps", sweeps, 0), whole("batch", batch, 1)
    limited = None if among is None else frozenset(str(word).lower() for word in among)
    return MaskedLM(language, shape, listed, sweeps, batch, limited)


@dataclass(frozen=True, eq=False)
class CausalLM:
    """Draws words by p(word | left) p(right | left, word). Made by `causal_lm`."""

    language: LanguageModel
    shape: fills.Shape
    listed: int
    candidates: int
    left: int
    right: int
    batch: int
    _masses: fills.Recent[tuple[Ints, Floats]] = field(default_factory=lambda: fills.Recent(64), repr=False)

    changes_subset_only = True
    dear = True
    __call__ = fills.draw_spans
    repeats = fills.always_repeats
    lists = fills.lists_short
    support = fills.list_spans
    together = fills.left_out

    def __repr__(self) -> str:
        listed = f"listed={self.listed}" if self.listed else ""
        read = f"candidates={self.candidates}, left={self.left}, right={self.right}"
        return fills.spelled("causal_lm", repr(self.language), str(self.shape), listed, read)

    @property
    def tokenizer(self) -> Any:
        return self.language.tokenizer

    def open(self, text: str, subset: Subset) -> fills.WordByWord:
        start, end = span_of(text, subset)
        words = [(start + a, start + b) for a, b in word_spans(text[start:end])]
        if not words:
            raise InputError(f"subset {subset.name!r} ({start}, {end}) has no word in it, and causal_lm redraws words")
        for cut in (start, end):
            low = max(0, cut - 40)
            inside = any(a < cut - low < b for a, b in word_spans(text[low : cut + 40]))
            if inside or splits_character(text, cut):
                raise InputError(
                    f"subset {subset.name!r} ({start}, {end}) cuts a word, and causal_lm redraws whole words"
                )

        def following(begun: tuple[str, ...]) -> tuple[list[str], Floats]:
            start, end = words[len(begun)]
            before = rewritten(text, (0, start), words[: len(begun)], begun)[-NEAR * self.left :]
            last = len(begun) == len(words) - 1  # the text after the others is not known yet
            after = text[end : end + NEAR * self.right] if last else ""
            pieces, mass = self._masses.get((before, after), lambda: self._distribution(before, after))
            table, case = self.language.table, case_of(text, start, end)
            reads = [str(table.reads[piece]) for piece in pieces]
            return ([cased(read, case) for read in reads] if table.lower else reads), mass

        return fills.WordByWord(len(words), following, partial(rewritten, text, (start, end), words))

    def _distribution(self, before: str, after: str) -> tuple[Ints, Floats]:
        table = self.language.table
        spaced = table.spaced and before.endswith(" ")
        encoded, follows = self.language.tokens.encode([before[:-1] if spaced else before, after], special=False)
        right = np.array(follows.ids[: self.right], np.int64)
        room = self.left if self.language.limit is None else min(self.left, self.language.limit - len(right) - 1)
        left = np.array([*self._start, *encoded.ids][-max(1, room) :], np.int64)
        options = table.options[True, True] if spaced or not table.spaced else self._bare_words
        logits = self.language.logits([left], [len(left) - 1], [options])[0]
        if not len(right):
            return options, self.shape.probabilities(logits[None])[0]
        best = np.argsort(-logits, kind="stable")[: self.candidates]
        scores = logits[best] + self._right_scores(left, options[best], right)
        return options[best], self.shape.probabilities(scores[None])[0]

    def _right_scores(self, left: Ints, options: Ints, right: Ints) -> Floats:  # log p(right | left, word)
        torch = need("torch", "hugging-face")
        rows = torch.tensor(np.array([[*left, option, *right] for option in options]))
        model, parts = self.language.model, []
        for start in range(0, len(rows), self.batch):
            batch = rows[start : start + self.batch].to(model.device)
            with torch.inference_mode():
                out = model(input_ids=batch, attention_mask=torch.ones_like(batch)).logits[:, len(left) : -1].double()
            scores = torch.log_softmax(out, dim=2).gather(2, batch[:, len(left) + 1 :, None])
            parts.append(scores[:, :, 0].sum(dim=1).cpu().numpy())
        return np.concatenate(parts)

    @cached_property
    def _start(self) -> list[int]:
        """Pieces before a text, so that its first word has something on its left."""
        special, config = self.language.edges[0], self.language.model.config
        first = [piece for piece in (config.bos_token_id, config.eos_token_id) if isinstance(piece, int)]
        if not special and not first:
            raise InputError(f"the model {self.language!r} has no piece for the beginning of a text (bos_token_id)")
        return list(special) or first[:1]

    @cached_property
    def _bare_words(self) -> Ints:
        """Pieces without a space before them that are words all the same: a piece with a space reads like them."""
        table = self.language.table
        words = {str(table.reads[piece]).lower() for piece in table.options[True, True]}
        bare = [piece for piece in table.options[False, True] if str(table.reads[piece]).lower() in words]
        return np.array(bare, np.int64) if bare else table.options[False, True]


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
    """Redraw words from a causal language model such as GPT-2: those that fit the left, rescored by what follows.

    A word is drawn among the `candidates` likeliest after its left, each one piece that is a word, with probability
    proportional to p(word | left) p(right | left, word). In a span of several words all but the last are drawn by their
    left only; what stands between them stays. Case is that of the model, unless it knows none. Limits: a masked model
    is better and far cheaper, since here each word costs `candidates` rows; a word that is not among them may look
    surprising for that alone.

    Parameters
    ----------
    model, tokenizer, temperature, top_k, top_p, listed, device : see `masked_lm`
        As in `masked_lm`.
    candidates : int
        Words that are rescored by what follows.
    left, right : int
        Pieces that are read before and after a word.
    batch : int
        Candidates that the model is given at a time.

    Returns
    -------
    CausalLM
        A sampler of texts.

    Examples
    --------
    >>> causal_lm("gpt2", top_p=0.9)  # loaded when it is first needed
    causal_lm('gpt2', top_p=0.9, candidates=100, left=64, right=8)
    """
    language, shape = language_model(model, tokenizer, "causal", device), fills.Shape(temperature, top_k, top_p)
    listed, candidates, left = whole("listed", listed, 0), whole("candidates", candidates, 1), whole("left", left, 1)
    return CausalLM(language, shape, listed, candidates, left, whole("right", right, 0), whole("batch", batch, 1))
