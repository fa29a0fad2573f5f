"""Subsets of a text: spans that are called as they read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, SupportsIndex, get_args

from butfor.evaluation.hypotheses import Overlap, SubsetTree, check_overlap_option, unique
from butfor.models.wrap import need
from butfor.results.words import Note
from butfor.text.segment import (
    Span,
    encodable,
    is_word,
    paragraph_spans,
    sentence_spans,
    splits_character,
    tokens_of,
    trimmed,
    word_places,
    word_spans,
)
from butfor.types import InputError, Subset, one_of, whole
from butfor.untrusted import TimedPattern, read_json

SIGN = " #"  # before the number of a name that comes again: "good #2"


@dataclass(frozen=True)
class SpanProposer:
    """Proposes the spans that a function finds. Made by `words`, `sentences`, `wordpieces`, `matches`, `phrases`."""

    called: str
    find: Callable[[str], Iterable[Span]]
    blind: bool = True  # they are laid whatever is there, and not picked by what it is
    overlap: Overlap = "alone"
    note: Note | None = None  # for the notes of a run
    together: bool = False  # all places of a word are one subset

    def __post_init__(self) -> None:
        check_overlap_option(self.overlap)

    def __repr__(self) -> str:
        return self.called

    def __call__(self, name: object, text: str) -> list[Subset]:
        if self.together:
            places = word_places(text).values()
            pairs = ((label(text[slice(*of[0])]), of[0] if len(of) == 1 else of) for of in places)
            return unique((Subset(*pair) for pair in pairs), SIGN)
        subsets = named(text, self.find(text))
        check_overlap(name, subsets, self.overlap, self.called.partition("(")[0])
        return subsets

    def notes(self, inputs: Sequence[str], subsets: Sequence[Sequence[Subset]], seed: int) -> list[Note]:  # noqa: ARG002
        return [] if self.note is None else [self.note]


def named(text: str, spans: Iterable[Span]) -> list[Subset]:
    """Return spans as subsets that are called as they read: a second "good" is "good #2".

    >>> [subset.name for subset in named("so so good", [(0, 2), (3, 5), (6, 10)])]
    ['so', 'so #2', 'good']
    """
    return unique((Subset(label(text[start:end]), (start, end)) for start, end in spans), SIGN)


def label(words: str) -> str:
    line = " ".join(encodable(words).split())
    return line if len(line) <= 60 else line[:59].rstrip() + "…"


def check_overlap(name: object, subsets: Sequence[Subset], overlap: Overlap, by: str) -> None:
    """Refuse spans of one text that share a character; `by` is the function that the user may call otherwise.

    Overlapping spans are not independent hypotheses: what is important in one is important in the other.
    """
    ordered = sorted(subsets, key=lambda subset: tuple(subset.index)) if overlap == "refuse" else []
    for first, second in pairwise(ordered):
        if second.index[0] < first.index[1]:
            raise InputError(
                f"spans {first.name!r} {first.index} and {second.name!r} {second.index} of text {name!r} overlap; draw "
                f"them apart, or test them anyway, each alone: butfor.text.{by}(..., overlap='alone'), --overlap alone "
                "on the command line"
            )


def words(*, together: bool = False) -> SpanProposer:
    """Propose every word, in any script: letters or digits with their marks, apostrophes and decimal points.

    Chinese characters, Hiragana and the clusters of Thai, Lao, Khmer and Myanmar stand one by one, since these scripts
    put no spaces between words. Tags such as <br />, punctuation and emoji are no words.

    Parameters
    ----------
    together : bool
        All places of a word in a text are one subset, whatever their case; its index is then a tuple of spans. Where a
        word stands once it is (start, end).

    Returns
    -------
    SpanProposer
        A function (name, text) -> subsets.

    Examples
    --------
    >>> [(subset.name, subset.index) for subset in words()("review", "Not good, not bad.")]
    [('Not', (0, 3)), ('good', (4, 8)), ('not', (10, 13)), ('bad', (14, 17))]
    """
    return SpanProposer("words(together=True)" if together else "words()", word_spans, together=together)


def sentences() -> SpanProposer:
    """Propose every sentence that has a word; see `butfor.text.sentence_spans` for where they end.

    Returns
    -------
    SpanProposer
        A function (name, text) -> subsets.

    Examples
    --------
    >>> [subset.name for subset in sentences()("review", "Dull. But short!")]
    ['Dull.', 'But short!']
    """
    return SpanProposer("sentences()", sentence_spans)


def matches(pattern: str | re.Pattern[str], *, ignore_case: bool = True, overlap: Overlap = "refuse") -> SpanProposer:
    """Propose the matches of a regular expression; one that ends between a letter and its accent is widened to both.

    A pattern that takes more than 5 seconds on one text is refused.

    Parameters
    ----------
    pattern : str or re.Pattern
        The regular expression; with a group in it, the matches of its first group are tested.
    ignore_case : bool
        Upper and lower case are alike; a compiled pattern has its own flags.
    overlap : {"refuse", "alone"}
        "refuse" spans that overlap, or test them anyway, each "alone".

    Returns
    -------
    SpanProposer
        A function (name, text) -> subsets.

    Examples
    --------
    >>> [subset.index for subset in matches(r"not (\\w+)")("review", "Not good, not bad.")]
    [(4, 8), (14, 17)]
    """
    source, flags = pattern, int(re.IGNORECASE) if ignore_case else 0
    if isinstance(pattern, re.Pattern):
        source, flags = pattern.pattern, pattern.flags & ~int(re.DEBUG)
    try:
        timed = TimedPattern(source, flags)  # type: ignore[arg-type]
    except InputError as error:
        raise InputError(f"matches needs a regular expression, got {pattern!r:.200}: {error}") from error

    def find(text: str) -> dict[Span, None]:  # each match once, in their order
        out: dict[Span, None] = {}
        for start, end in timed.spans([text])[0]:
            if start < end:
                while splits_character(text, start):
                    start -= 1
                while splits_character(text, end):
                    end += 1
                out[start, end] = None
        return out

    return SpanProposer(f"matches({source!r})", find, blind=False, overlap=overlap)


def wordpieces(tokenizer: object = None) -> SpanProposer:
    """Propose every piece of the text that has a letter or digit, by the character offsets of the tokenizer.

    Texts are not cut, whatever the tokenizer is set to. Tags that are one piece are no words.

    Parameters
    ----------
    tokenizer : tokenizer, str or path, optional
        A `tokenizers.Tokenizer`, a fast tokenizer of transformers, or the path of a tokenizer.json or its folder; None
        is the embedded one.

    Returns
    -------
    SpanProposer
        A function (name, text) -> subsets.

    Examples
    --------
    >>> [subset.name for subset in wordpieces()("review", "An unclear Kurosawa.")]
    ['An', 'uncle', 'ar', 'Kurosawa']
    """
    from butfor.text.small import tokenizer as embedded

    tokens = tokens_of(embedded() if tokenizer is None else tokenizer)

    def find(text: str) -> list[Span]:
        (pieces,) = tokens.encode([text], special=False)
        out: list[Span] = []
        for piece, special in zip(pieces.spans, pieces.special, strict=True):
            start, end = trimmed(text, piece)
            if special or start >= end:
                continue
            # pieces that share a character, or would part one from its marks, are one: bytes of an emoji are no words
            if out and (start < out[-1][1] or (start == out[-1][1] and splits_character(text, start))):
                out[-1] = (out[-1][0], max(end, out[-1][1]))
            else:
                out.append((start, end))
        return [span for span in out if is_word(text, span)]

    return SpanProposer(f"wordpieces({tokens!r})", find)


Named = tuple[str | None, Span]
FORM = 'a span is [start, end], ["name", start, end] or {"start": ..., "end": ..., "name": ...}'


@dataclass(frozen=True, eq=False)
class Spans:
    """Spans by text name, or the same spans for every text (under None). Made by `spans`."""

    by_text: Mapping[str | None, list[Named]]
    overlap: Overlap

    @property
    def blind(self) -> bool:  # the same for every text, so not picked by its content
        return None in self.by_text

    def __repr__(self) -> str:
        count = sum(map(len, self.by_text.values()))
        return f"spans({count} for every text)" if self.blind else f"spans({count} in {len(self.by_text)} texts)"

    def __call__(self, name: object, text: str) -> list[Subset]:
        keys = (None, str(name), Path(str(name)).name, Path(str(name)).stem)
        given = next((self.by_text[key] for key in keys if key in self.by_text), None)
        if given is None:
            known = ", ".join(str(key) for key in list(self.by_text)[:5]) + (", ..." if len(self.by_text) > 5 else "")
            raise InputError(f"there are no spans for text {name!r}; spans are given for {known}")
        pairs = []
        for called, (start, end) in given:
            if not 0 <= start < end <= len(text):
                raise InputError(
                    f"span ({start}, {end}) of text {name!r} is not within its {len(text)} characters; offsets count "
                    "characters (not bytes) from 0, the end is not included"
                )
            if splits_character(text, start) or splits_character(text, end):
                raise InputError(
                    f"span ({start}, {end}) of text {name!r} begins or ends inside one character (a letter and its "
                    "accent, a joined emoji); move it to the whole character"
                )
            pairs.append(Subset(called or label(text[start:end]) or f"{start}-{end}", (start, end)))
        subsets = unique(pairs, SIGN)
        check_overlap(name, subsets, self.overlap, "spans")
        return subsets


def spans(source: Any, *, overlap: Overlap = "refuse") -> Spans:
    """Propose given spans of characters, half-open.

    Parameters
    ----------
    source : list, mapping, str or path
        A list of spans or a mapping {span name: (start, end)} for every text, a mapping {text name: such a list or
        mapping}, or a JSON file of one of these, as it is or under the key "spans". A span is (start, end), (name,
        start, end) or {"start", "end", "name"}.
    overlap : {"refuse", "alone"}
        "refuse" spans that overlap, or test them anyway, each "alone".

    Returns
    -------
    Spans
        A function (name, text) -> subsets.

    Examples
    --------
    >>> praise = spans({"review": {"praise": (2, 12)}})
    >>> [(subset.name, subset.index) for subset in praise("review", "A great film.")]
    [('praise', (2, 12))]
    """
    check_overlap_option(overlap)
    if isinstance(source, str | Path):
        source = read_json(Path(source), "the file of spans")
        source = source["spans"] if isinstance(source, dict) and set(source) == {"spans"} else source

    def entries(given: Any, where: str) -> list[Named]:
        by_name = isinstance(given, Mapping) and _span(given) is None
        if not by_name and (_span(given) is not None or isinstance(given, str) or not isinstance(given, Sequence)):
            raise InputError(f"the spans of {where} are {given!r:.80}, expected a list of them; {FORM}")
        out: list[Named] = []
        for name, value in given.items() if by_name else ((None, value) for value in given):
            if (span := _span(value)) is None:
                raise InputError(f"one of the spans of {where} is {value!r:.80}; {FORM}")
            out.append((str(name), span[1]) if by_name else span)
        return out

    if isinstance(source, Mapping) and source and all(_span(value) is None for value in source.values()):
        return Spans({str(name): entries(given, f"text {name!r}") for name, given in source.items()}, overlap)
    everywhere = entries(source, "every text")
    if not everywhere:
        raise InputError("spans is empty; give at least one span")
    return Spans({None: everywhere}, overlap)


def _span(value: object) -> Named | None:
    name: object = None
    match value:
        case {"start": SupportsIndex() as start, "end": SupportsIndex() as end, **rest}:
            name = rest.get("name", rest.get("label"))
        case [SupportsIndex() as start, SupportsIndex() as end]:
            pass
        case [name, SupportsIndex() as start, SupportsIndex() as end]:
            pass
        case _:
            return None
    if _span(name) is not None or isinstance(start, bool) or isinstance(end, bool):
        return None
    return None if name is None else str(name), (int(start), int(end))


MODELS = ("en_core_web_sm", "en_core_web_md", "en_core_web_lg", "en_core_web_trf")
# English words that begin a phrase, and words that belong to none
_OPENERS = (
    "the a an this that these those my your his her its our their some any no every each all both either neither many "
    "much few several"
)
_BREAKERS = (
    "and or but nor so yet if because while although though when where which who whom whose what how why than as of in "
    "on at by for with from to into onto over under about after before between through during without within against "
    "toward towards upon among across behind beyond is are was were be been being am isn't aren't wasn't weren't has "
    "have had do does did don't doesn't didn't will would can could shall should may might must won't wouldn't can't "
    "couldn't shouldn't not i you he she it we they me him us them there here then also too i'm i've i'd it's that's "
    "there's he's she's they're we're you're just only even"
)
OPENERS, BREAKERS = frozenset(_OPENERS.split()), frozenset(_BREAKERS.split())


def phrases(
    *, model: str | None = None, rules: bool = False, overlap: Overlap = "refuse", longest: int = 12
) -> SpanProposer:
    """Propose phrases: spaCy's noun chunks, or runs of words by rules.

    Rules are for English: runs of content words with their article between function words and punctuation. `repr` and
    the result's notes say which of them was used.

    Parameters
    ----------
    model : str, optional
        A pipeline of spaCy's; None takes an English one if there is one, and rules otherwise.
    rules : bool
        Take rules in any case.
    overlap : {"refuse", "alone"}
        "refuse" spans that overlap, or test them anyway, each "alone".
    longest : int
        Words that a phrase by rules may have.

    Returns
    -------
    SpanProposer
        A function (name, text) -> subsets.

    Examples
    --------
    >>> text = "The old man and the sea were not very well cast."
    >>> [subset.name for subset in phrases(rules=True)("review", text)]
    ['The old man', 'the sea', 'very well cast']
    """
    whole("longest", longest, 1)
    if model is not None:
        _pipeline(model)
    parser = model if model is not None or rules else installed()
    if parser is not None:
        note = Note("parsed-phrases", "info", {"kind": "noun chunks", "model": parser})

        def find(text: str) -> list[Span]:
            return [(chunk.start_char, chunk.end_char) for chunk in _pipeline(parser)(encodable(text)).noun_chunks]

        return SpanProposer(f"phrases('noun chunks', spaCy {parser})", find, False, overlap, note)
    note = Note("phrases-by-rules", "info")
    return SpanProposer("phrases('noun chunks', by rules)", partial(_chunks, longest), False, overlap, note)


def installed() -> str | None:
    """Return the first English model of spaCy that is installed."""
    return next((name for name in MODELS if find_spec("spacy") and find_spec(name)), None)


@lru_cache(maxsize=2)
def _pipeline(name: str) -> Any:
    try:
        return need("spacy", None).load(name)
    except OSError as error:
        raise InputError(f"spaCy has no model {name!r}; python -m spacy download {name}") from error


def _chunks(longest: int, text: str) -> list[Span]:
    """Return runs of content words between function words and punctuation, with an article before them."""
    runs: list[list[Span]] = [[]]
    end = 0
    for span in word_spans(text):
        word = text[span[0] : span[1]].lower().replace("’", "'")
        apart = re.fullmatch(r"[ \t\r\n-]*", text[end : span[0]]) is None
        if apart or word in BREAKERS or word in OPENERS or len(runs[-1]) >= longest:
            runs.append([])
        if word not in BREAKERS:
            runs[-1].append(span)
        end = span[1]
    content = [run for run in runs if any(text[a:b].lower() not in OPENERS for a, b in run)]  # not only an article
    return [(run[0][0], run[-1][1]) for run in content]


Resolution = Literal["document", "paragraph", "sentence", "phrase", "word"]
RESOLUTIONS: tuple[Resolution, ...] = get_args(Resolution)
MOST_WORDS = 6  # of a phrase


class Node(NamedTuple):
    """A span, the words that it has, its resolution, and the node that it is a part of."""

    span: Span
    words: range
    resolution: int
    parent: int


@dataclass(frozen=True)
class TextZoom:
    """Spans inside each other. Made by `zoom`."""

    finest: Resolution
    whole: bool

    blind = True  # whatever is there

    def __repr__(self) -> str:
        return f"zoom({self.finest!r}, whole={self.whole})"

    def __call__(self, name: object, text: str) -> list[Subset]:
        return list(self.tree(name, text).subsets)

    def tree(self, name: object, text: str) -> SubsetTree:  # noqa: ARG002 - as every proposer has it
        """Return the spans of all resolutions, the coarsest first; a span stands once, where it is coarsest."""
        words = word_spans(text)
        if not words:
            return SubsetTree((), (), ())
        nodes = [Node(trimmed(text, (0, len(text))), range(len(words)), 0, -1)]
        smallest = [0] * len(words)  # the smallest node so far that each word is in
        for resolution in range(1, RESOLUTIONS.index(self.finest) + 1):
            first = 0
            for start, end in PARTS[RESOLUTIONS[resolution]](text):  # spans and words come in their order
                while first < len(words) and words[first][0] < start:
                    first += 1
                last = first
                while last < len(words) and words[last][1] <= end:
                    last += 1
                inside, first = range(first, last), last
                if inside and inside != nodes[parent := smallest[inside.start]].words:
                    smallest[inside.start : inside.stop] = [len(nodes)] * len(inside)
                    nodes.append(Node((start, end), inside, resolution, parent))
        names = ["the whole text", *(label(text[slice(*node.span)]) for node in nodes[1:])]
        subsets = unique((Subset(name, node.span) for name, node in zip(names, nodes, strict=True)), SIGN)
        skip = 0 if self.whole or len(nodes) == 1 else 1
        return SubsetTree(
            tuple(subsets[skip:]),
            tuple(node.resolution for node in nodes[skip:]),
            tuple(max(node.parent - skip, -1) for node in nodes[skip:]),
        )


def phrase_spans(text: str) -> list[Span]:
    """Return runs of words between punctuation, long ones cut into equal parts of at most six words, in any language.

    >>> text = "The old man, who went out to the sea every day, won."
    >>> [text[a:b] for a, b in phrase_spans(text)]
    ['The old man', 'who went out to', 'the sea every day', 'won']
    """
    runs: list[list[Span]] = []
    for start, end in sentence_spans(text):
        runs.append([])
        for word in [(start + a, start + b) for a, b in word_spans(text[start:end])]:
            if runs[-1] and not re.fullmatch(r"[\s'’\"“”-]*", text[runs[-1][-1][1] : word[0]]):
                runs.append([])
            runs[-1].append(word)
    spans: list[Span] = []
    for run in filter(None, runs):
        count = -(-len(run) // MOST_WORDS)
        cuts = [round(len(run) * k / count) for k in range(count + 1)]
        spans += [(run[first][0], run[last - 1][1]) for first, last in pairwise(cuts)]
    return spans


PARTS: dict[str, Callable[[str], list[Span]]] = {
    "paragraph": paragraph_spans,
    "sentence": sentence_spans,
    "phrase": phrase_spans,
    "word": word_spans,
}


def zoom(finest: Resolution = "word", *, whole: bool = False) -> TextZoom:
    """Propose spans coarse to fine: paragraphs, sentences, phrases, words; a part is drawn if the coarser span was.

    At every resolution the false discovery rate over the spans of that resolution is controlled: spans that are not
    drawn count as p = 1 there. Phrases are runs of at most six words between punctuation. It needs p-values:
    `test="sequential"`, which is the default with it, or "irt". Long spans are best redrawn by `foils`.

    Parameters
    ----------
    finest : {"paragraph", "sentence", "phrase", "word"}
        The finest resolution.
    whole : bool
        Also test the whole text, for samplers that can redraw it (`foils`).

    Returns
    -------
    TextZoom
        A function (name, text) -> subsets.

    Examples
    --------
    >>> tree = zoom().tree("review", "Dull. But short!")
    >>> [(subset.name, resolution) for subset, resolution in zip(tree.subsets, tree.resolution)]
    [('Dull.', 2), ('But short!', 2), ('But', 4), ('short', 4)]
    """
    one_of("finest", finest, RESOLUTIONS[1:])
    return TextZoom(finest, bool(whole))
