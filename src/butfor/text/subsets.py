"""What to test in a text: spans as subsets that are called as they read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, SupportsIndex, get_args

from butfor.evaluation.hypotheses import Overlap, Proposer, SubsetTree, Together, check_overlap_option, join, unique
from butfor.models.wrap import need
from butfor.text.segment import Span, encodable, paragraph_spans, sentence_spans, splits_character, word_spans
from butfor.text.tokens import Tokens, tokens_of
from butfor.text.tokens import tokenizer as embedded
from butfor.types import InputError, Subset, one_of, whole
from butfor.untrusted import TimedPattern, read_json

LONGEST_NAME = 60
SIGN = " #"  # before the number of a name that comes again: "good #2"


@dataclass(frozen=True)
class SpanProposer:
    """The spans that a function finds in a text. Made by `words`, `sentences`, `wordpieces`, `matches`, `phrases`."""

    called: str
    find: Callable[[str], Iterable[Span]]
    blind: bool = True  # they are laid whatever is there, and not picked by what it is
    overlap: Overlap = "alone"
    note: str = ""  # for the notes of a run

    def __post_init__(self) -> None:
        check_overlap_option(self.overlap)

    def __repr__(self) -> str:
        return self.called

    def __call__(self, name: object, text: str) -> list[Subset]:
        found = named(text, self.find(text))
        check_overlap(name, found, text, self.overlap, self.called.partition("(")[0])
        return found

    def notes(self, inputs: Sequence[str], subsets: Sequence[Sequence[Subset]], seed: int) -> list[str]:  # noqa: ARG002
        """How spans were found, where that is not plain."""
        return [self.note] if self.note else []


def together(*parts: Proposer, overlap: Overlap = "refuse") -> Together:
    """The subsets of several proposers in one run: sentences and some words, say.

    Parameters
    ----------
    *parts : functions (name, text) -> subsets, such as `words()` and `spans(...)`.
    overlap : "refuse" spans that overlap, or test them anyway, each "alone".

    Examples
    --------
    >>> from butfor.text import matches, sentences
    >>> both = together(sentences(), matches("not"), overlap="alone")
    >>> [subset.name for subset in both("review", "It is not bad.")]
    ['It is not bad.', 'not']
    """
    return join(parts, overlap, check_overlap, "text", SIGN)


def named(text: str, spans: Iterable[Span]) -> list[Subset]:
    """Spans as subsets that are called as they read: a second "good" is "good #2".

    >>> [subset.name for subset in named("so so good", [(0, 2), (3, 5), (6, 10)])]
    ['so', 'so #2', 'good']
    """
    return unique((Subset(label(text[start:end]), (start, end)) for start, end in spans), SIGN)


def label(words: str) -> str:
    """Words on one line, shortened to 60 characters."""
    line = " ".join(encodable(words).split())
    return line if len(line) <= LONGEST_NAME else line[: LONGEST_NAME - 1].rstrip() + "…"


def check_overlap(name: object, subsets: Sequence[Subset], _: str, overlap: Overlap, by: str = "together") -> None:
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


def words(*, runs: bool = False) -> SpanProposer:
    """Every word, in any script: letters or digits with their marks, apostrophes and decimal points.

    Chinese characters, Hiragana and the clusters of Thai, Lao, Khmer and Myanmar stand one by one, since these scripts
    put no spaces between words. Tags such as <br />, punctuation and emoji are no words.

    Parameters
    ----------
    runs : take what these scripts write together as one word.

    Examples
    --------
    >>> [(subset.name, subset.index) for subset in words()("review", "Not good, not bad.")]
    [('Not', (0, 3)), ('good', (4, 8)), ('not', (10, 13)), ('bad', (14, 17))]
    """
    return SpanProposer("words(runs=True)" if runs else "words()", partial(word_spans, runs=bool(runs)))


def sentences() -> SpanProposer:
    """Every sentence that has a word; see `butfor.text.sentence_spans` for where they end.

    Examples
    --------
    >>> [subset.name for subset in sentences()("review", "Dull. But short!")]
    ['Dull.', 'But short!']
    """
    return SpanProposer("sentences()", sentence_spans)


def matches(pattern: str | re.Pattern[str], *, ignore_case: bool = True, overlap: Overlap = "refuse") -> SpanProposer:
    """What a regular expression finds; a match that ends between a letter and its accent is widened to both.

    A pattern that takes more than 5 seconds on one text is refused.

    Parameters
    ----------
    pattern : the regular expression; with a group in it, what its first group finds is tested.
    ignore_case : upper and lower case are alike; a compiled pattern says so itself.
    overlap : "refuse" spans that overlap, or test them anyway, each "alone".

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
    return SpanProposer(f"matches({source!r})", partial(_found, timed), blind=False, overlap=overlap)


def _found(pattern: TimedPattern, text: str) -> dict[Span, None]:
    """The matches, each once, in their order."""
    (spans,) = pattern.spans([text])
    return dict.fromkeys(_widened(text, start, end) for start, end in spans if start < end)


def _widened(text: str, start: int, end: int) -> Span:
    while splits_character(text, start):
        start -= 1
    while splits_character(text, end):
        end += 1
    return start, end


def wordpieces(tokenizer: object = None) -> SpanProposer:
    """Every piece of the text that has a letter or digit, by the character offsets that the tokenizer gives.

    Texts are not cut, whatever the tokenizer is set to.

    Parameters
    ----------
    tokenizer : a `tokenizers.Tokenizer`, a fast tokenizer of transformers, or the path of a tokenizer.json or its
        folder; None is the embedded one.

    Examples
    --------
    >>> [subset.name for subset in wordpieces()("review", "An unclear Kurosawa.")]
    ['An', 'uncle', 'ar', 'Kurosawa']
    """
    tokens = tokens_of(embedded() if tokenizer is None else tokenizer)
    return SpanProposer(f"wordpieces({tokens!r})", partial(_lettered, tokens))


def _lettered(tokens: Tokens, text: str) -> list[Span]:
    """The pieces of a text that have a letter or digit."""
    (pieces,) = tokens.encode([text], special=False)
    known = [span for span, special in zip(pieces.spans, pieces.special, strict=True) if not special]
    spans = joined(text, [trimmed(text, span) for span in known])
    return [(a, b) for a, b in spans if any(letter.isalnum() for letter in text[a:b])]


def trimmed(text: str, span: Span) -> Span:
    """Without the spaces that some tokenizers count as part of the piece after them."""
    start, end = span
    inside = text[start:end]
    return start + len(inside) - len(inside.lstrip()), end - (len(inside) - len(inside.rstrip()))


def joined(text: str, spans: list[Span]) -> list[Span]:
    """Pieces that share a character, or would part one from its marks, as one: bytes of an emoji are no words."""
    out: list[Span] = []
    for start, end in spans:
        if start >= end:
            continue
        if out and (start < out[-1][1] or (start == out[-1][1] and splits_character(text, start))):
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((start, end))
    return out


Named = tuple[str | None, Span]
FORM = 'a span is [start, end], ["name", start, end] or {"start": ..., "end": ..., "name": ...}'


@dataclass(frozen=True, eq=False)
class Spans:
    """Spans by text name, or the same spans for every text. Made by `spans`."""

    by_text: Mapping[str, list[Named]] | None
    everywhere: list[Named] | None
    overlap: Overlap

    @property
    def blind(self) -> bool:
        """Whether they are the same for every text: what is tested was then not picked by what it holds."""
        return self.by_text is None

    def __repr__(self) -> str:
        if self.by_text is None:
            return f"spans({len(self.everywhere or [])} for every text)"
        return f"spans({sum(map(len, self.by_text.values()))} in {len(self.by_text)} texts)"

    def __call__(self, name: object, text: str) -> list[Subset]:
        given = self.everywhere if self.everywhere is not None else self._of(name)
        spans = [(called or label(text[a:b]) or f"{a}-{b}", _fitting(name, text, (a, b))) for called, (a, b) in given]
        found = unique((Subset(called, span) for called, span in spans), SIGN)
        check_overlap(name, found, text, self.overlap, "spans")
        return found

    def _of(self, name: object) -> list[Named]:
        assert self.by_text is not None
        for key in (str(name), Path(str(name)).name, Path(str(name)).stem):
            if key in self.by_text:
                return self.by_text[key]
        known = ", ".join(list(self.by_text)[:5]) + (", ..." if len(self.by_text) > 5 else "")
        raise InputError(f"there are no spans for text {name!r}; spans are given for {known}")


def _fitting(name: object, text: str, span: Span) -> Span:
    start, end = span
    if not 0 <= start < end <= len(text):
        raise InputError(
            f"span ({start}, {end}) of text {name!r} is not within its {len(text)} characters; offsets count "
            "characters (not bytes) from 0, the end is not included"
        )
    if splits_character(text, start) or splits_character(text, end):
        raise InputError(
            f"span ({start}, {end}) of text {name!r} begins or ends inside one character (a letter and its accent, a "
            "joined emoji); move it to the whole character"
        )
    return start, end


def spans(source: Any, *, overlap: Overlap = "refuse") -> Spans:
    """Spans of characters, half-open, to test in each text.

    Parameters
    ----------
    source : a list of spans or a mapping {span name: (start, end)} for every text, a mapping {text name: such a list
        or mapping}, or a JSON file of one of these, as it is or under the key "spans". A span is (start, end),
        (name, start, end) or {"start", "end", "name"}.
    overlap : "refuse" spans that overlap, or test them anyway, each "alone".

    Examples
    --------
    >>> some = spans({"review": {"praise": (2, 12)}})
    >>> [(subset.name, subset.index) for subset in some("review", "A great film.")]
    [('praise', (2, 12))]
    """
    check_overlap_option(overlap)
    if isinstance(source, str | Path):
        source = _read(Path(source))
    if isinstance(source, Mapping) and source and all(_span(value) is None for value in source.values()):
        by_text = {str(name): _entries(own, f"text {name!r}") for name, own in source.items()}
        return Spans(by_text, None, overlap)
    found = _entries(source, "every text")
    if not found:
        raise InputError("spans is empty; give at least one span")
    return Spans(None, found, overlap)


def _read(path: Path) -> object:
    content = read_json(path, "the file of spans")
    return content["spans"] if isinstance(content, dict) and set(content) == {"spans"} else content


def _entries(given: object, where: str) -> list[Named]:
    if isinstance(given, Mapping) and _span(given) is None:
        return [(str(name), _entry(value, where)[1]) for name, value in given.items()]
    if _span(given) is not None or isinstance(given, str) or not isinstance(given, Sequence):
        raise InputError(f"the spans of {where} are {given!r:.80}, expected a list of them; {FORM}")
    return [_entry(value, where) for value in given]


def _entry(value: object, where: str) -> Named:
    if (found := _span(value)) is None:
        raise InputError(f"one of the spans of {where} is {value!r:.80}; {FORM}")
    return found


def _span(value: object) -> Named | None:
    """A span and its name, if it has one; None where this is no span."""
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


Kind = Literal["noun chunks", "subtrees"]
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
BY_RULES = (
    "Phrases were found by rules (runs of words between function words, verbs of being and punctuation), since no "
    "model of spaCy is installed."
)
OPENERS, BREAKERS = frozenset(_OPENERS.split()), frozenset(_BREAKERS.split())


def phrases(
    kind: Kind = "noun chunks",
    *,
    model: str | None = None,
    rules: bool = False,
    overlap: Overlap = "refuse",
    longest: int = 12,
) -> SpanProposer:
    """Phrases to test whole: spaCy's noun chunks or the subtrees of its parse, or runs of words found by rules.

    Rules are for English: runs of content words with their article between function words and punctuation. `repr` and
    the result's notes say what was used.

    Parameters
    ----------
    kind : "noun chunks", or "subtrees": the largest ones of at most `longest` words, which needs spaCy.
    model : a pipeline of spaCy's; None takes an English one if there is one, and rules otherwise.
    rules : take rules in any case.
    overlap : "refuse" spans that overlap, or test them anyway, each "alone".
    longest : words that a phrase may have.

    Examples
    --------
    >>> text = "The old man and the sea were not very well cast."
    >>> [subset.name for subset in phrases(rules=True)("review", text)]
    ['The old man', 'the sea', 'very well cast']
    """
    one_of("kind", kind, get_args(Kind))
    whole("longest", longest, 1)
    if model is not None:
        _pipeline(model)
    parser = model if model is not None or rules else installed()
    if parser is not None:
        found, note = partial(_parsed, parser, kind, longest), f"Phrases are {kind} of spaCy's {parser}."
        return SpanProposer(f"phrases({kind!r}, spaCy {parser})", found, False, overlap, note)
    if kind == "subtrees":
        raise InputError(
            "subtrees need spaCy and a model of it; pip install spacy && python -m spacy download en_core_web_sm, or "
            "use kind='noun chunks'"
        )
    return SpanProposer(f"phrases({kind!r}, by rules)", partial(chunks, longest), False, overlap, BY_RULES)


def installed() -> str | None:
    """The first English model of spaCy's that is there."""
    if find_spec("spacy") is None:
        return None
    return next((name for name in MODELS if find_spec(name) is not None), None)


@lru_cache(maxsize=2)
def _pipeline(name: str) -> Any:
    try:
        return need("spacy", None).load(name)
    except OSError as error:
        raise InputError(f"spaCy has no model {name!r}; python -m spacy download {name}") from error


def _parsed(model: str, kind: Kind, longest: int, text: str) -> list[Span]:
    parsed = _pipeline(model)(encodable(text))
    if kind == "noun chunks":
        return [(chunk.start_char, chunk.end_char) for chunk in parsed.noun_chunks]
    found: list[Span] = []
    for sentence in parsed.sents:
        found += _subtrees(sentence.root, longest)
    return sorted(found)


def _subtrees(token: Any, longest: int) -> list[Span]:
    """The largest subtrees under a token that stand together and have at most `longest` words."""
    below = list(token.subtree)
    together = below[-1].i - below[0].i + 1 == len(below)
    if together and len(below) <= longest:
        kept = [one for one in below if not one.is_punct and not one.is_space]
        return [(kept[0].idx, kept[-1].idx + len(kept[-1]))] if kept else []
    return [span for child in token.children for span in _subtrees(child, longest)]


def chunks(longest: int, text: str) -> list[Span]:
    """Runs of content words between function words and punctuation, an article before them included."""
    out: list[Span] = []
    run: list[Span] = []
    end = 0
    for span in word_spans(text):
        word = text[span[0] : span[1]].lower().replace("’", "'")
        apart = re.fullmatch(r"[ \t\r\n-]*", text[end : span[0]]) is None
        if apart or word in BREAKERS or word in OPENERS or len(run) >= longest:
            out += _whole(text, run)
            run = []
        if word not in BREAKERS:
            run.append(span)
        end = span[1]
    return out + _whole(text, run)


def _whole(text: str, run: list[Span]) -> list[Span]:
    """A run as one span, unless it is only an article."""
    content = [span for span in run if text[span[0] : span[1]].lower() not in OPENERS]
    return [(run[0][0], run[-1][1])] if content else []


Level = Literal["document", "paragraph", "sentence", "phrase", "word"]
LEVELS: tuple[Level, ...] = get_args(Level)
MOST_WORDS = 6  # of a phrase


@dataclass(frozen=True)
class TextZoom:
    """Spans inside each other. Made by `zoom`."""

    finest: Level
    whole: bool

    blind = True  # whatever is there

    def __repr__(self) -> str:
        return f"zoom({self.finest!r}, whole={self.whole})"

    def __call__(self, name: object, text: str) -> list[Subset]:
        return list(self.tree(name, text).subsets)

    def tree(self, name: object, text: str) -> SubsetTree:  # noqa: ARG002 - as every proposer has it
        """The spans of all resolutions of one text, the coarsest first; a span stands once, where it is coarsest."""
        words = word_spans(text)
        if not words:
            return SubsetTree((), (), ())
        whole = (len(text) - len(text.lstrip()), len(text.rstrip()))
        nodes = [Node(whole, range(len(words)), 0, -1)]
        holder = [0] * len(words)  # the smallest node so far that each word is in
        for level in range(1, LEVELS.index(self.finest) + 1):
            for span, inside in _with_words(PARTS[LEVELS[level]](text), words):
                above = holder[inside.start]
                if inside != nodes[above].words:
                    holder[inside.start : inside.stop] = [len(nodes)] * len(inside)
                    nodes.append(Node(span, inside, level, above))
        named = unique((Subset(_name(text, node), node.span) for node in nodes), SIGN)
        skip = 0 if self.whole or len(nodes) == 1 else 1
        return SubsetTree(
            tuple(named[skip:]),
            tuple(node.level for node in nodes[skip:]),
            tuple(max(node.parent - skip, -1) for node in nodes[skip:]),
        )


@dataclass(frozen=True)
class Node:
    """A span, the words that it has, its resolution, and the node that it is a part of."""

    span: Span
    words: range
    level: int
    parent: int


def _with_words(spans: Iterable[Span], words: Sequence[Span]) -> Iterator[tuple[Span, range]]:
    """Spans with the words inside each, those that have one; both come in their order."""
    place = 0
    for start, end in spans:
        while place < len(words) and words[place][0] < start:
            place += 1
        first = place
        while place < len(words) and words[place][1] <= end:
            place += 1
        if place > first:
            yield (start, end), range(first, place)


def phrase_spans(text: str) -> list[Span]:
    """Runs of words between marks, long ones cut into equal parts of at most six words: in any language, blindly.

    >>> text = "The old man, who went out to the sea every day, won."
    >>> [text[a:b] for a, b in phrase_spans(text)]
    ['The old man', 'who went out to', 'the sea every day', 'won']
    """
    found: list[Span] = []
    for start, end in sentence_spans(text):
        inside = [(start + a, start + b) for a, b in word_spans(text[start:end])]
        run: list[Span] = []
        for word in inside:
            if run and not _JOINED.fullmatch(text[run[-1][1] : word[0]]):
                found += _parts(run)
                run = []
            run.append(word)
        found += _parts(run)
    return found


def _parts(run: Sequence[Span]) -> Iterator[Span]:
    count = -(-len(run) // MOST_WORDS)
    cuts = [round(len(run) * k / count) for k in range(count + 1)] if run else []
    for first, last in pairwise(cuts):
        yield run[first][0], run[last - 1][1]


def _name(text: str, node: Node) -> str:
    return WHOLE if node.parent < 0 else label(text[slice(*node.span)])


WHOLE = "the whole text"
_JOINED = re.compile(r"[\s'’\"“”-]*")  # what may stand between two words of a phrase
PARTS: dict[str, Callable[[str], list[Span]]] = {
    "paragraph": paragraph_spans,
    "sentence": sentence_spans,
    "phrase": phrase_spans,
    "word": word_spans,
}


def zoom(finest: Level = "word", *, whole: bool = False) -> TextZoom:
    """Where in the document, coarse to fine: paragraphs, sentences, phrases, words; a part is drawn if its whole was.

    At every resolution the false discovery rate over the spans of that resolution is controlled: spans that are not
    drawn count as p = 1 there. Phrases are runs of at most six words between marks. It needs p-values:
    `test="sequential"`, which is the default with it, or "irt". Long spans are best redrawn by `foils`.

    Parameters
    ----------
    finest : where to end: "paragraph", "sentence", "phrase" or "word".
    whole : also test the whole text, for samplers that can redraw it (`foils`).

    Examples
    --------
    >>> tree = zoom().tree("review", "Dull. But short!")
    >>> [(subset.name, level) for subset, level in zip(tree.subsets, tree.resolution)]
    [('Dull.', 2), ('But short!', 2), ('But', 4), ('short', 4)]
    """
    one_of("finest", finest, LEVELS[1:])
    return TextZoom(finest, bool(whole))
