"""A text of any script -> spans of its words, sentences, paragraphs and pieces; one character is never split.

The case of a fill is that of the word it replaces. A lower-case infiller draws words without their case. The case
pattern of the observed word (small, Capital, ALL CAPITALS) is conditioned on: every fill is written in it, so that case
alone never tells the observed text from its counterfactuals. "I" and its contractions are capital wherever they stand,
so in the middle of a sentence they count as small words, and a fill "i" is written "I".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from butfor.models.wrap import need
from butfor.types import InputError, ModelError, Subset, reworded

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Span = tuple[int, int]  # character offsets into a text, half-open


def span_of(text: str, subset: Subset) -> Span:
    """Return the offsets of a subset of one span, checked against the text."""
    try:
        start, end = (int(offset) for offset in subset.index)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"subset {subset.name!r} of a text must be (start, end), two character offsets, got {subset.index!r}"
        ) from error
    if not 0 <= start < end <= len(text):
        raise InputError(
            f"subset {subset.name!r} is ({start}, {end}), which is no span of a text of {len(text)} characters; "
            "offsets count characters from 0, the end is not included"
        )
    return start, end


def spans_of(text: str, subset: Subset) -> tuple[Span, ...]:
    """Return the spans of a subset in order, checked against the text: one, or all places of a word.

    >>> spans_of("so so good", Subset("so", ((0, 2), (3, 5)))), spans_of("so good", Subset("so", (0, 2)))
    (((0, 2), (3, 5)), ((0, 2),))
    """
    index = subset.index
    if not (isinstance(index, tuple | list) and index and all(isinstance(one, tuple | list) for one in index)):
        return (span_of(text, subset),)
    spans = tuple(span_of(text, Subset(subset.name, one)) for one in index)
    if any(second[0] < first[1] for first, second in pairwise(spans)):
        raise InputError(f"the places of subset {subset.name!r} overlap or are out of order: {index}")
    return spans


def hull_of(text: str, subset: Subset) -> Span:
    """Return the span from the first to the last character of a subset."""
    spans = spans_of(text, subset)
    return spans[0][0], spans[-1][1]


def new_words(text: str, other: str, subset: Subset) -> tuple[str, ...]:
    """Return the characters of a counterfactual that stand in place of each span of the subset.

    >>> new_words("so so good", "very very good", Subset("so", ((0, 2), (3, 5))))
    ('very', 'very')
    """
    spans = spans_of(text, subset)
    start, end = spans[0][0], spans[-1][1]
    inside = other[start : len(other) - (len(text) - end)]
    if len(spans) == 1:
        return (inside,)
    between = [re.escape(text[a:b]) for (_, a), (b, _) in pairwise(spans)]
    match = re.fullmatch("(.*?)" + "".join(f"{part}(.*?)" for part in between), inside, re.DOTALL)
    return () if match is None else match.groups()


def changed(text: str, other: str, subset: Subset) -> str:
    """Return the characters of a counterfactual that stand in place of the subset.

    Parameters
    ----------
    text, other : str
        The observed text, and one of its counterfactuals.
    subset : Subset
        Its index is the span (start, end) that was redrawn, or all places of a word, of which the first counts.

    Returns
    -------
    str
        The new characters.

    Examples
    --------
    >>> changed("a good film", "a rather long film", Subset("good", (2, 6)))
    'rather long'
    """
    return new_words(text, other, subset)[0]


class SpanPacking:
    """Keeps of a counterfactual only the characters of its spans."""

    def cut(self, observed: str, counterfactual: str, subset: Subset) -> str:
        return "\0".join(new_words(observed, counterfactual, subset))

    def restore(self, observed: str, piece: str, subset: Subset) -> str:
        spans = spans_of(observed, subset)
        words = [piece] if len(spans) == 1 else piece.split("\0")
        return rewritten(observed, (0, len(observed)), spans, words)


def rewritten(text: str, span: Span, inner: Sequence[Span], words: Sequence[str]) -> str:
    """Return the characters of a span with other words at some inner spans; what is between them stays.

    >>> rewritten("a good, old film", (2, 11), [(2, 6), (8, 11)], ["bad", "new"])
    'bad, new'
    """
    out, done = [], span[0]
    for (start, end), word in zip(inner, words, strict=True):
        out += [text[done:start], word]
        done = end
    return "".join([*out, text[done : span[1]]])


def check_drawn(text: str, drawn: object, subset: Subset) -> None:
    """Refuse a counterfactual that is not the text with another span.

    >>> check_drawn("a good film", "a bad film", Subset("good", (2, 6)))
    >>> check_drawn("a good film", "a bad movie", Subset("good", (2, 6)))
    Traceback (most recent call last):
    butfor.types.ModelError: the sampler changed the text outside subset 'good'; only text[2:6] may change
    """
    if not isinstance(drawn, str):
        kind = type(drawn).__name__
        raise ModelError(f"the sampler returned {kind} for subset {subset.name!r}; expected whole texts")
    start, end = hull_of(text, subset)
    before, after = text[:start], text[end:]
    if not (
        drawn.startswith(before)
        and drawn.endswith(after)
        and len(drawn) >= len(before) + len(after)
        and new_words(text, drawn, subset)
    ):
        raise ModelError(
            f"the sampler changed the text outside subset {subset.name!r}; only text[{start}:{end}] may change"
        )


def check_texts(texts: Iterable[str]) -> list[str]:
    """Return the inputs of a sampler or a model as a list, after checking that they are strings."""
    if isinstance(texts, str):
        raise InputError("one text was given where a list of texts is expected; give [text]")
    out = list(texts)
    for text in out:
        if not isinstance(text, str):
            raise InputError(f"texts must be strings, got {type(text).__name__}")
    return out


def encodable(text: str) -> str:
    """Return the text with U+FFFD in place of lone surrogates, which no tokenizer takes.

    >>> encodable("a\\ud800b")
    'a�b'
    """
    return text if text.isascii() else re.sub("[\ud800-\udfff]", "�", text)  # for every row: the first costs nothing


def lettered(text: str) -> bool:
    return any(character.isalnum() for character in text)


HAN = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
HIRAGANA = "\u3041-\u3096\u309d-\u309f"
# Thai, Lao, Myanmar, Khmer, Tai: written without spaces between words
UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf\u1000-\u103f\u104e-\u108f\u109a-\u109f\u1780-\u17d3\u17d7"
    "\u17dc\u17dd\u1950-\u19c9\u19de\u19df\u1a20-\u1a7f\u1aa7\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa7f\uaa80-\uaadf"
)
LEADING = "\u0e40-\u0e44\u0ec0-\u0ec4"  # vowels written before the consonant that they belong to
JOINERS = "\u200c\u200d"
HIDDEN = "\u00ad\u200e\u200f\u2060\ufeff"  # no characters of their own: inside a word they do not end it
TAGS = (
    "a|abbr|address|article|aside|audio|b|base|blockquote|body|br|button|canvas|caption|center|cite|code|col|dd|del|"
    "details|dfn|div|dl|dt|em|embed|fieldset|figcaption|figure|font|footer|form|h[1-6]|head|header|hr|html|i|iframe|"
    "img|input|ins|kbd|label|legend|li|link|main|map|mark|meta|nav|noscript|object|ol|optgroup|option|p|param|picture|"
    "pre|q|s|samp|script|section|select|small|source|span|strike|strong|style|sub|summary|sup|svg|table|tbody|td|"
    "template|textarea|tfoot|th|thead|time|title|tr|tt|u|ul|var|video|wbr"
)
TAG = rf"</?(?:{TAGS})(?:\s[^<>]*)?/?>|<!--.{{0,2000}}?-->|<![A-Za-z][^<>]*>"
ENTITY = r"&(?:\#\d{1,7}|\#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});"


@lru_cache(maxsize=1)
def marks() -> str:
    """Return combining marks and what else belongs to the character before, as a class of a regular expression."""
    planes = (*range(0x300, 0x20000), *range(0xE0000, 0xE0200))  # there are none between
    codes = [code for code in planes if unicodedata.category(chr(code))[0] == "M"]
    codes += [ord(joiner) for joiner in JOINERS] + list(range(0x1F3FB, 0x1F400))  # skin colours
    runs = groupby(enumerate(sorted(set(codes))), key=lambda pair: pair[1] - pair[0])  # codes that follow each other
    ends = [(run[0], run[-1]) for run in ([code for _, code in run] for _, run in runs)]
    return "".join(chr(first) if first == last else f"{chr(first)}-{chr(last)}" for first, last in ends)


@lru_cache(maxsize=1)
def _word() -> re.Pattern[str]:
    mark = f"[{marks()}]*"
    letter = rf"(?:(?![{HAN}{HIRAGANA}{UNSPACED}])[^\W_]{mark})"
    inner = rf"(?:(?<=\d)[.,](?=\d)|['’·_{HIDDEN}](?=[^\W_]))"  # between the letters or digits of one word
    initials = rf"(?:[^\W\d_]{mark}\.)+[^\W\d_]{mark}(?![^\W_])"  # U.S.A
    cluster = rf"[{LEADING}]*[{UNSPACED}]{mark}[\u0e30\u0e32\u0e33\u0e45\u0eb0\u0eb2\u0eb3]*{mark}"
    return re.compile(
        rf"(?P<skip>{TAG}|{ENTITY})|[{HAN}{HIRAGANA}]{mark}|{cluster}"
        rf"|(?<![^\W_]){initials}|{letter}(?:{letter}|{inner})*",
        re.IGNORECASE | re.DOTALL,
    )


def word_spans(text: str) -> list[Span]:
    """Return the words of a text: letters or digits, with the marks, apostrophes and decimal points inside them.

    After Unicode's annex 29, but a full stop joins only initials and numbers ("fine.The" is two words, "U.S" one).
    Chinese characters and Hiragana stand one by one, Katakana and Hangul as they are written together. Thai, Lao,
    Khmer and Myanmar have no spaces between words and would need a dictionary: each cluster (a consonant with its
    vowels and tones) stands by itself. HTML tags and entities, punctuation and emoji are no words.

    Parameters
    ----------
    text : str
        The text.

    Returns
    -------
    list of (int, int)
        Character offsets, half-open, in order.

    Examples
    --------
    >>> text = "Don't stop<br />it’s 3.5 naïve 好的 fine.The"
    >>> [text[a:b] for a, b in word_spans(text)]
    ["Don't", 'stop', 'it’s', '3.5', 'naïve', '好', '的', 'fine', 'The']
    """
    return [match.span() for match in _word().finditer(text) if match["skip"] is None and lettered(match[0])]


@lru_cache(maxsize=64)
def word_places(text: str) -> dict[str, tuple[Span, ...]]:
    """Return the places of every word of a text, by the word without its case.

    >>> word_places("So, so good")
    {'so': ((0, 2), (4, 6)), 'good': ((7, 11),)}
    """
    places: dict[str, tuple[Span, ...]] = {}
    for start, end in word_spans(text):
        word = text[start:end].lower()
        places[word] = (*places.get(word, ()), (start, end))
    return places


_ABBREVIATIONS = (
    "mr mrs ms dr prof st jr sr vs etc eg ie e.g i.e cf al fig no vol inc ltd co corp dept est approx gen col sgt capt "
    "lt rev hon pres gov sen rep u.s u.k a.m p.m ca bzw z.b d.h"
)
_END = re.compile(
    rf"(?P<tag>(?:{TAG})(?:\s*(?:{TAG}))*)|(?P<blank>\r?\n[^\S\n]*\r?\n\s*)|(?P<wide>[。！？｡]+[」』”’）]*)"
    r"|(?P<stop>[.!?…؟।]+[\"'”’»)\]]*(?=\s|$|<))"
    r"|(?P<close>(?<=[^\W\d_][^\W\d_])[.!?…]+(?=[^\W\d_]{2}))",  # "original.The": no space after it
    re.IGNORECASE | re.DOTALL,
)


def sentence_spans(text: str) -> list[Span]:
    """Return the sentences of a text that have a word, without the spaces and tags around them.

    They end at . ! ? and the like, unless an abbreviation, an initial or a small letter says otherwise, at tags such as
    <br /> and at blank lines; without a space after it a stop ends one between a small letter and a capital.

    Parameters
    ----------
    text : str
        The text.

    Returns
    -------
    list of (int, int)
        Character offsets, half-open, in order.

    Examples
    --------
    >>> text = "Mr. Smith left. Why?<br /><br />Who knows... not I!"
    >>> [text[a:b] for a, b in sentence_spans(text)]
    ['Mr. Smith left.', 'Why?', 'Who knows... not I!']
    """
    cuts: list[Span] = []  # where a sentence ends and the next one may begin
    for match in _END.finditer(text):
        start, end = match.span()
        before = re.search(r"[\w.]+$", text[max(0, start - 20) : start])
        word = "" if before is None else before[0]
        abbreviated = word.lower() in _ABBREVIATIONS.split()
        ends = match["wide"] is not None
        if (stop := match["stop"]) is not None:
            initial = len(word) == 1 and word.isupper() and word != "I"
            ends = not (text[end : end + 40].lstrip()[:1].islower() or (stop == "." and (abbreviated or initial)))
        elif match["close"] is not None:  # no space after it: "fine.The"
            ends = text[start - 1].islower() and text[end].isupper() and not abbreviated
        if ends:
            cuts.append((end, end))
        elif match["blank"] or re.match(r"</?(?:br|p|div|li|h[1-6]|hr|tr|td)\b", match[0], re.IGNORECASE):
            cuts.append((start, end))
    return _between(text, cuts)


def _between(text: str, cuts: list[Span]) -> list[Span]:
    """Return the spans between cuts that have a letter or digit, without the spaces around them."""
    spans, start = [], 0
    for end, following in [*cuts, (len(text), len(text))]:
        span = trimmed(text, (start, end))
        if lettered(text[slice(*span)]):
            spans.append(span)
        start = following
    return spans


def trimmed(text: str, span: Span) -> Span:
    """Return a span without the spaces at its ends; some tokenizers count them as part of a piece."""
    start, end = span
    inside = text[start:end]
    return start + len(inside) - len(inside.lstrip()), end - (len(inside) - len(inside.rstrip()))


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


def paragraph_spans(text: str) -> list[Span]:
    """Return the paragraphs that have a word: they end at blank lines, at two <br /> in a row, at tags of blocks.

    >>> text = "Dull.\\n\\nBut short!<br /><br />The end."
    >>> [text[a:b] for a, b in paragraph_spans(text)]
    ['Dull.', 'But short!', 'The end.']
    """
    blocks = r"</?(?:p|div|li|h[1-6]|hr|tr|blockquote|section|article)\b[^<>]*>"
    ends = rf"(?:<br\s*/?>\s*){{2,}}|{blocks}|\r?\n[^\S\n]*\r?\n\s*"
    return _between(text, [match.span() for match in re.finditer(ends, text, re.IGNORECASE)])


def splits_character(text: str, index: int) -> bool:
    """Return whether a cut at `index` parts what is read as one character: marks, joined emoji, flags, CR from LF.

    >>> splits_character("e\\u0301", 1), splits_character("\\r\\n", 1), splits_character("ab", 1)
    (True, True, False)
    """
    if not 0 < index < len(text):
        return False
    before, after = text[index - 1], text[index]
    if before == "\r":
        return after == "\n"
    if before.isspace():
        return False
    if unicodedata.category(after)[0] == "M" or after in JOINERS or "\U0001f3fb" <= after <= "\U0001f3ff":
        return True
    if before == "\u200d":  # a joiner between two emoji
        modifiers = f"{JOINERS}\ufe0f\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
        base = text[max(0, index - 12) : index].rstrip(modifiers)[-1:]
        if base and unicodedata.category(base) == unicodedata.category(after) == "So":
            return True
    flags = 0
    while flags < index and "\U0001f1e6" <= text[index - 1 - flags] <= "\U0001f1ff":
        flags += 1
    return "\U0001f1e6" <= after <= "\U0001f1ff" and flags % 2 == 1


_SIGN = re.compile(rf"{TAG}|\.{{2,}}|-{{2,}}|\S", re.IGNORECASE | re.DOTALL)


def word_tokens(text: str) -> list[Span]:
    """Return the words of `word_spans`, and between them tags, dots and dashes in a row, and single signs.

    >>> text = "Fine... don't<br />go!"
    >>> [text[a:b] for a, b in word_tokens(text)]
    ['Fine', '...', "don't", '<br />', 'go', '!']
    """
    spans: list[Span] = []
    done = 0
    for start, end in [*word_spans(text), (len(text), len(text))]:
        spans += [(done + sign.start(), done + sign.end()) for sign in _SIGN.finditer(text[done:start])]
        if start < end:
            spans.append((start, end))
        done = end
    return spans


def is_word(text: str, span: Span) -> bool:
    return text[span[0]] != "<" and lettered(text[span[0] : span[1]])


Case = Literal["small", "capital", "capitals"]
_ME = re.compile(r"i(?:['’](?:m|ve|d|ll))?", re.IGNORECASE)
_BEGINS = re.compile(r"(?:^|[.!?…:\"“(>*\n])[\s\"'“”‘’()*_-]*$")


def case_of(text: str, start: int, end: int) -> Case:
    """Return the case pattern of the word at text[start:end].

    >>> [case_of(word, 0, len(word)) for word in ("good", "Good", "GOOD", "I", "iPhone", "3D")]
    ['small', 'capital', 'capitals', 'capital', 'small', 'capital']
    >>> case_of("So I left", 3, 4)
    'small'
    """
    word = text[start:end]
    letters = [letter for letter in word if letter.upper() != letter.lower()]
    if not letters or not letters[0].isupper():
        return "small"
    if _ME.fullmatch(word) and start and not _BEGINS.search(text[max(0, start - 40) : start]):
        return "small"
    return "capitals" if len(letters) > 1 and all(letter.isupper() for letter in letters) else "capital"


def cased(word: str, case: Case) -> str:
    """Return a lower-case word in a case pattern.

    >>> [cased("don't", case) for case in ("small", "capital", "capitals")], cased("i'm", "small")
    (["don't", "Don't", "DON'T"], "I'm")
    """
    if case == "capitals":
        return word.upper()
    if case == "capital" or _ME.fullmatch(word):
        return word[:1].upper() + word[1:]
    return word


class Pieces(NamedTuple):
    """The pieces of one text; special ones have the empty span (0, 0)."""

    ids: list[int]
    types: list[int]
    spans: list[Span]
    special: list[bool]


@dataclass(frozen=True, eq=False)
class Tokens:
    """A tokenizer that knows the characters of its pieces. Made by `tokens_of`."""

    inner: Tokenizer
    name: str
    pad: int

    def __repr__(self) -> str:
        return self.name

    def encode(self, texts: Sequence[str], special: bool = True) -> list[Pieces]:
        encoded = self.inner.encode_batch([encodable(text) for text in texts], add_special_tokens=special)
        return [Pieces(e.ids, e.type_ids, e.offsets, [mask == 1 for mask in e.special_tokens_mask]) for e in encoded]


def tokens_of(tokenizer: object) -> Tokens:
    """Wrap a `tokenizers.Tokenizer`, a fast tokenizer of transformers, or the path of a tokenizer.json or its folder.

    >>> tokens_of("nowhere")
    Traceback (most recent call last):
    butfor.types.InputError: the tokenizer nowhere does not exist; expected a tokenizer.json or a folder with one
    """
    if isinstance(tokenizer, Tokens):
        return tokenizer
    kind = need("tokenizers", "text").Tokenizer
    name = type(tokenizer).__name__
    inner: Any = getattr(tokenizer, "backend_tokenizer", None) or tokenizer
    if isinstance(tokenizer, str | Path):
        path, name = Path(tokenizer).expanduser(), str(tokenizer)
        file = path / "tokenizer.json" if path.is_dir() else path
        if not file.is_file():
            raise InputError(f"the tokenizer {path} does not exist; expected a tokenizer.json or a folder with one")
        with reworded(f"{file} is not a tokenizer that can be read: "):  # tokenizers raises bare exceptions
            inner = kind.from_file(str(file))
    if not isinstance(inner, kind):
        raise InputError(
            f"tokenizer is a {name}, expected a tokenizers.Tokenizer, a fast tokenizer of transformers, or a path: "
            "only these say from which characters their pieces come"
        )
    pads = [getattr(tokenizer, "pad_token_id", None), (inner.padding or {}).get("pad_id")]
    pads += [inner.token_to_id(token) for token in ("[PAD]", "<pad>")]
    if inner.truncation is not None or inner.padding is not None:  # a copy: the user's stays as it is set
        inner = kind.from_str(inner.to_str())
        inner.no_truncation()
        inner.no_padding()
    return Tokens(inner, name, int(next((pad for pad in pads if pad is not None), 0)))
