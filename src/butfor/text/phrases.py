"""Subsets: phrases, by spaCy where it has a model, by rules where not."""

from __future__ import annotations

import re
from functools import lru_cache, partial
from importlib.util import find_spec
from typing import Any, Literal, get_args

from butfor.core.checks import one_of, whole
from butfor.core.draw.proposers import Overlap
from butfor.core.types import InputError
from butfor.models.optional import need
from butfor.text.edit import Span, encodable
from butfor.text.segment import word_spans
from butfor.text.subsets import SpanProposer

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
