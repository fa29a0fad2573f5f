"""A text of any script -> spans of its words and sentences, never splitting what is read as one character.

Upper and lower case of a fill: that of the word it stands for, never more than that.

A lower-case infiller draws words without their case. The case pattern of the observed word (small, Capital, ALL
CAPITALS) is conditioned on: every fill is written in it, so that case alone never tells the observed text from its
counterfactuals. "I" and its contractions are capital wherever they stand, so in the middle of a sentence they count as
small words, and a fill "i" is written "I".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Literal

from butfor.types import InputError, ModelError, Subset

LONE = re.compile("[\ud800-\udfff]")
Span = tuple[int, int]  # character offsets into a text, half-open


def span_of(text: str, subset: Subset) -> Span:
    """The offsets of a subset, after seeing that they lie in the text."""
    try:
        start, end = (int(place) for place in subset.index)
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


def replaced(text: str, subset: Subset, fill: str) -> str:
    """The text with `fill` in place of the subset.

    Parameters
    ----------
    text : the text.
    subset : its index is the span (start, end) to replace.
    fill : what is to stand there.

    Examples
    --------
    >>> replaced("a good film", Subset("good", (2, 6)), "fine")
    'a fine film'
    """
    start, end = span_of(text, subset)
    return text[:start] + fill + text[end:]


def changed(text: str, other: str, subset: Subset) -> str:
    """What stands in a counterfactual in place of the subset.

    Parameters
    ----------
    text, other : a text, and one of its counterfactuals.
    subset : its index is the span (start, end) that was redrawn.

    Examples
    --------
    >>> changed("a good film", "a rather long film", Subset("good", (2, 6)))
    'rather long'
    """
    start, end = span_of(text, subset)
    return other[start : len(other) - (len(text) - end)]


class SpanPacking:
    """How counterfactuals of texts are kept: only what stands in the span."""

    def cut(self, observed: str, counterfactual: str, subset: Subset) -> str:
        """What is kept of a counterfactual."""
        return changed(observed, counterfactual, subset)

    def restore(self, observed: str, piece: str, subset: Subset) -> str:
        """The whole counterfactual again."""
        return replaced(observed, subset, piece)


def rewritten(text: str, span: Span, places: Sequence[Span], words: Sequence[str]) -> str:
    """The characters of a span with other words at some places in it, and what stands between them as it was.

    >>> rewritten("a good, old film", (2, 11), [(2, 6), (8, 11)], ["bad", "new"])
    'bad, new'
    """
    out, done = [], span[0]
    for (start, end), word in zip(places, words, strict=True):
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
        what = type(drawn).__name__
        raise ModelError(f"the sampler returned {what} for subset {subset.name!r}; expected whole texts")
    start, end = subset.index
    before, after = text[:start], text[end:]
    if not (drawn.startswith(before) and drawn.endswith(after) and len(drawn) >= len(before) + len(after)):
        raise ModelError(
            f"the sampler changed the text outside subset {subset.name!r}; only text[{start}:{end}] may change"
        )


def check_texts(texts: Iterable[str]) -> list[str]:
    """The inputs of a sampler or a model, after seeing that they are strings."""
    if isinstance(texts, str):
        raise InputError("one text was given where a list of texts is expected; give [text]")
    out = list(texts)
    for text in out:
        if not isinstance(text, str):
            raise InputError(f"texts must be strings, got {type(text).__name__}")
    return out


def encodable(text: str) -> str:
    """The same number of characters, but for lone surrogates, which no tokenizer takes: U+FFFD in their place.

    >>> encodable("a\\ud800b")
    'a�b'
    """
    return text if text.isascii() else LONE.sub("�", text)  # asked of every row: the first costs nothing


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
    """All combining marks and what else belongs to the character before it, as a class of a regular expression."""
    planes = (*range(0x300, 0x20000), *range(0xE0000, 0xE0200))  # there are none between
    found = [code for code in planes if unicodedata.category(chr(code))[0] == "M"]
    found += [ord(joiner) for joiner in JOINERS] + list(range(0x1F3FB, 0x1F400))  # skin colours
    runs = groupby(enumerate(sorted(set(found))), key=lambda pair: pair[1] - pair[0])  # codes that follow each other
    ends = [(codes[0], codes[-1]) for codes in ([code for _, code in run] for _, run in runs)]
    return "".join(chr(first) if first == last else f"{chr(first)}-{chr(last)}" for first, last in ends)


@lru_cache(maxsize=1)
def _word() -> re.Pattern[str]:
    mark = f"[{marks()}]*"
    letter = rf"(?:(?![{HAN}{HIRAGANA}{UNSPACED}])[^\W_]{mark})"
    inner = rf"(?:(?<=\d)[.,](?=\d)|['’·_{HIDDEN}](?=[^\W_]))"  # between the letters or digits of one word
    initials = rf"(?:[^\W\d_]{mark}\.)+[^\W\d_]{mark}(?![^\W_])"  # U.S.A
    cluster = rf"[{LEADING}]*[{UNSPACED}]{mark}[\u0e30\u0e32\u0e33\u0e45\u0eb0\u0eb2\u0eb3]*{mark}"
    return re.compile(
        rf"(?P<skip>{TAG}|{ENTITY})|(?P<han>[{HAN}{HIRAGANA}]{mark})|(?P<unspaced>{cluster})"
        rf"|(?P<word>(?<![^\W_]){initials}|{letter}(?:{letter}|{inner})*)",
        re.IGNORECASE | re.DOTALL,
    )


def word_spans(text: str, runs: bool = False) -> list[Span]:
    """The words of a text: letters or digits, with the marks, apostrophes and decimal points inside them.

    After Unicode's annex 29, but a full stop joins only initials and numbers ("fine.The" is two words, "U.S" one).
    Chinese characters and Hiragana stand one by one, Katakana and Hangul as they are written together. Thai, Lao,
    Khmer and Myanmar have no spaces between words and would need a dictionary: each cluster (a consonant with its
    vowels and tones) stands by itself. HTML tags and entities, punctuation and emoji are no words.

    Parameters
    ----------
    text : the text.
    runs : take what scripts without spaces write together as one word.

    Examples
    --------
    >>> text = "Don't stop<br />it’s 3.5 naïve 好的 fine.The"
    >>> [text[a:b] for a, b in word_spans(text)]
    ["Don't", 'stop', 'it’s', '3.5', 'naïve', '好', '的', 'fine', 'The']
    """
    found: list[Span] = []
    joins = False  # whether the last span is of a script that runs would join
    for match in _word().finditer(text):
        if match["skip"] is not None or not any(character.isalnum() for character in match[0]):
            continue
        start, end = match.span()
        alone = match["word"] is None
        if runs and alone and joins and found[-1][1] == start:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
        joins = alone
    return found


_ABBREVIATIONS = (
    "mr mrs ms dr prof st jr sr vs etc eg ie e.g i.e cf al fig no vol inc ltd co corp dept est approx gen col sgt capt "
    "lt rev hon pres gov sen rep u.s u.k a.m p.m ca bzw z.b d.h"
)
ABBREVIATIONS = frozenset(_ABBREVIATIONS.split())
_END = re.compile(
    rf"(?P<tag>(?:{TAG})(?:\s*(?:{TAG}))*)|(?P<blank>\r?\n[^\S\n]*\r?\n\s*)|(?P<wide>[。！？｡]+[」』”’）]*)"
    r"|(?P<stop>[.!?…؟।]+[\"'”’»)\]]*(?=\s|$|<))"
    r"|(?P<close>(?<=[^\W\d_][^\W\d_])[.!?…]+(?=[^\W\d_]{2}))",  # "original.The": no space after it
    re.IGNORECASE | re.DOTALL,
)


def sentence_spans(text: str) -> list[Span]:
    """The sentences of a text, without the spaces and tags around them; those without a word are left out.

    They end at . ! ? and the like, unless an abbreviation, an initial or a small letter says otherwise, at tags such as
    <br /> and at blank lines; without a space after it a stop ends one between a small letter and a capital.

    Parameters
    ----------
    text : the text.

    Examples
    --------
    >>> text = "Mr. Smith left. Why?<br /><br />Who knows... not I!"
    >>> [text[a:b] for a, b in sentence_spans(text)]
    ['Mr. Smith left.', 'Why?', 'Who knows... not I!']
    """
    cuts: list[Span] = []  # where a sentence ends and the next one may begin
    for match in _END.finditer(text):
        if match["stop"] is not None:
            if not _goes_on(text, match):
                cuts.append((match.end(), match.end()))
        elif match["wide"] is not None or (match["close"] is not None and _begins(text, match)):
            cuts.append((match.end(), match.end()))
        elif match["blank"] is not None or re.match(r"</?(?:br|p|div|li|h[1-6]|hr|tr|td)\b", match[0], re.IGNORECASE):
            cuts.append(match.span())
    cuts.append((len(text), len(text)))
    return _between(text, cuts)


def _between(text: str, cuts: list[Span]) -> list[Span]:
    """What stands between cuts, without the spaces around it, where it has a letter or digit."""
    spans, start = [], 0
    for end, following in cuts:
        kept = text[start:end]
        span = (start + len(kept) - len(kept.lstrip()), start + len(kept.rstrip()))
        if span[0] < span[1] and any(character.isalnum() for character in text[span[0] : span[1]]):
            spans.append(span)
        start = following
    return spans


_PARAGRAPH = re.compile(
    r"(?:<br\s*/?>\s*){2,}|</?(?:p|div|li|h[1-6]|hr|tr|blockquote|section|article)\b[^<>]*>|\r?\n[^\S\n]*\r?\n\s*",
    re.IGNORECASE,
)


def paragraph_spans(text: str) -> list[Span]:
    """The paragraphs of a text that have a word: they end at blank lines, at two <br /> in a row, at tags of blocks.

    >>> text = "Dull.\\n\\nBut short!<br /><br />The end."
    >>> [text[a:b] for a, b in paragraph_spans(text)]
    ['Dull.', 'But short!', 'The end.']
    """
    cuts = [match.span() for match in _PARAGRAPH.finditer(text)]
    return _between(text, [*cuts, (len(text), len(text))])


def _goes_on(text: str, match: re.Match[str]) -> bool:
    """Whether what looks like the end of a sentence is inside one."""
    after = text[match.end() : match.end() + 40].lstrip()
    if after[:1].islower():
        return True
    if not match["stop"].startswith(".") or len(match["stop"]) > 1:
        return False
    word = _word_before(text, match.start())
    return word.lower() in ABBREVIATIONS or (len(word) == 1 and word.isupper() and word != "I")


def _word_before(text: str, place: int) -> str:
    before = re.search(r"[\w.]+$", text[max(0, place - 20) : place])
    return "" if before is None else before[0]


def _begins(text: str, match: re.Match[str]) -> bool:
    """Whether a stop without a space after it ends a sentence: before a capital, after a small letter ("fine.The")."""
    between = text[match.start() - 1].islower() and text[match.end()].isupper()
    return between and _word_before(text, match.start()).lower() not in ABBREVIATIONS


def _joins_pictures(text: str, place: int) -> bool:
    """Whether the joiner before `place` stands between two emoji."""
    base = text[max(0, place - 12) : place].rstrip(
        f"{JOINERS}\ufe0f\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
    )[-1:]
    return base != "" and unicodedata.category(base) == unicodedata.category(text[place]) == "So"


@lru_cache(maxsize=1)
def _joined() -> re.Pattern[str]:
    return re.compile(f"[{marks()}]")


def splits_character(text: str, place: int) -> bool:
    """Whether a cut at `place` would part what is read as one character: marks, joined emoji, flags, CR from LF.

    >>> splits_character("e\\u0301", 1), splits_character("\\r\\n", 1), splits_character("ab", 1)
    (True, True, False)
    """
    if not 0 < place < len(text):
        return False
    before, after = text[place - 1], text[place]
    if before == "\r":
        return after == "\n"
    if before.isspace():
        return False
    if _joined().match(after) or (before == "\u200d" and _joins_pictures(text, place)):
        return True
    flags = 0
    while place - 1 - flags >= 0 and "\U0001f1e6" <= text[place - 1 - flags] <= "\U0001f1ff":
        flags += 1
    return "\U0001f1e6" <= after <= "\U0001f1ff" and flags % 2 == 1


_MARK = re.compile(rf"{TAG}|\.{{2,}}|-{{2,}}|\S", re.IGNORECASE | re.DOTALL)


def word_tokens(text: str) -> list[Span]:
    """Words as `word_spans` finds them, and between them tags, dots and dashes in a row, and single marks.

    >>> text = "Fine... don't<br />go!"
    >>> [text[a:b] for a, b in word_tokens(text)]
    ['Fine', '...', "don't", '<br />', 'go', '!']
    """
    found: list[Span] = []
    done = 0
    for start, end in [*word_spans(text), (len(text), len(text))]:
        found += [(done + mark.start(), done + mark.end()) for mark in _MARK.finditer(text[done:start])]
        if start < end:
            found.append((start, end))
        done = end
    return found


def is_word(text: str, span: Span) -> bool:
    """Whether a token is a word, and not a mark or a tag."""
    return text[span[0]] != "<" and any(character.isalnum() for character in text[span[0] : span[1]])


Case = Literal["small", "capital", "capitals"]
_ME = re.compile(r"i(?:['’](?:m|ve|d|ll))?", re.IGNORECASE)
_BEGINS = re.compile(r"(?:^|[.!?…:\"“(>*\n])[\s\"'“”‘’()*_-]*$")


def case_of(text: str, start: int, end: int) -> Case:
    """The case pattern of the word at text[start:end].

    >>> [case_of(word, 0, len(word)) for word in ("good", "Good", "GOOD", "I", "iPhone", "3D")]
    ['small', 'capital', 'capitals', 'capital', 'small', 'capital']
    >>> case_of("So I left", 3, 4)
    'small'
    """
    word = text[start:end]
    letters = [letter for letter in word if letter.upper() != letter.lower()]
    if not letters or not letters[0].isupper():
        return "small"
    if _ME.fullmatch(word) and not begins_sentence(text, start):
        return "small"
    if len(letters) > 1 and all(letter.isupper() for letter in letters):
        return "capitals"
    return "capital"


def begins_sentence(text: str, start: int) -> bool:
    return _BEGINS.search(text[max(0, start - 40) : start]) is not None if start else True


def cased(word: str, case: Case) -> str:
    """A lower-case word in a case pattern.

    >>> [cased("don't", case) for case in ("small", "capital", "capitals")], cased("i'm", "small")
    (["don't", "Don't", "DON'T"], "I'm")
    """
    if case == "capitals":
        return word.upper()
    if case == "capital" or _ME.fullmatch(word):
        return word[:1].upper() + word[1:]
    return word
