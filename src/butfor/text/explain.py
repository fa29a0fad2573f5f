"""The public edge for texts: one call from a classifier and its texts to words with a guarantee."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np

from butfor.evaluation.hypotheses import Proposer, ProposesTree, is_blind, list_problem
from butfor.evaluation.items import ListItems
from butfor.evaluation.progress import Progress
from butfor.evaluation.samplers import HasNotes, RefusesInputs, SamplerInfo, info_of
from butfor.models.wrap import check_aligned, is_frame, is_series, model_name
from butfor.results.record import TextInputs
from butfor.results.result import Result
from butfor.results.words import Note, as_note
from butfor.run.overlap import overlap_note
from butfor.run.proposed import NamedItems, Proposed, Words, check_names, propose
from butfor.run.run import RunContext, check_zoom, run, with_layers
from butfor.settings import EffectsOf, Link, OnError, Procedure, RunOptions, Settings, default_test, documented
from butfor.text.files import UnreadableFile, load_texts
from butfor.text.models import text_model
from butfor.text.segment import SpanPacking, check_drawn, span_of
from butfor.text.subsets import SIGN, phrases, sentences, spans, wordpieces, words, zoom
from butfor.types import Alternative, Family, InputError, Subset

PLAIN: dict[str, Callable[[], Proposer]] = {"word": words, "sentence": sentences, "phrase": phrases}


class TextWarning(UserWarning):
    """Something about the texts that were given should be known: one was left out, say."""


def named_sources(texts: Any) -> tuple[tuple[int | str, ...], tuple[object, ...]]:
    """Names and texts, from a list of strings, a mapping name -> text, a pandas Series, or a `Path` to files of them.

    Texts of a list are called "text 1", "text 2" and so on, those of a Series by its index.

    >>> named_sources(["Good.", "Bad."])
    (('text 1', 'text 2'), ('Good.', 'Bad.'))
    """
    if isinstance(texts, Path):
        texts = load_texts(texts)
    if isinstance(texts, str):
        raise InputError("texts is one string; give a list: [text], or for a file butfor.text.read_texts(path)")
    if isinstance(texts, Mapping):
        return tuple(map(_name, texts)), tuple(texts.values())
    if is_frame(texts):
        raise InputError("texts is a table; give one of its columns: frame['text']")
    if is_series(texts):
        return tuple(map(_name, texts.index)), tuple(texts.tolist())
    if not isinstance(texts, Iterable) or isinstance(texts, bytes):
        raise InputError(
            f"texts must be a list of strings, a mapping name -> text or a Series, got {type(texts).__name__}"
        )
    values = tuple(texts)
    return tuple(f"text {number}" for number in range(1, len(values) + 1)), values


def _name(name: object) -> int | str:
    if isinstance(name, np.integer):
        return int(name)
    return name if isinstance(name, int) and not isinstance(name, bool) else str(name)


def as_text(name: object, source: object) -> str:
    """The text itself, after seeing that it is one."""
    if isinstance(source, str):
        return str(source)
    if isinstance(source, UnreadableFile):
        raise InputError(source.why)
    missing = source is None or (isinstance(source, float) and np.isnan(source))
    what = "missing" if missing else f"of type {type(source).__name__}"
    raise InputError(f"text {name!r} is {what}, expected a string; leave it out, or on_error='skip'")


def is_zoom(units: object) -> bool:
    """Whether it goes from coarse to fine."""
    return isinstance(units, ProposesTree) or (isinstance(units, str) and units == "zoom")


def as_proposer(units: Any, tokenizer: object = None, *, whole: bool = False) -> Proposer:
    """What proposes spans; the tokenizer is that of the sampler, for "wordpiece".

    "zoom" begins with the whole text where the sampler can redraw the `whole`.

    >>> [subset.name for subset in as_proposer("word")("review", "Good film.")]
    ['Good', 'film']
    """
    if isinstance(units, str) and units in PLAIN:
        return PLAIN[units]()
    if isinstance(units, str) and units == "wordpiece":
        return wordpieces(tokenizer)
    if isinstance(units, str) and units == "zoom":
        return zoom(whole=whole)
    if callable(units):
        return units  # type: ignore[no-any-return]
    if isinstance(units, str) and not Path(units).is_file():
        raise InputError(f"units is {units!r}, neither a file nor one of {', '.join(PLAIN)}, wordpiece, zoom")
    return spans(units)


HELD_CHARACTERS = 2**22  # of the texts that the model is given at a time
MOST_ROWS = 256
KEEP = (8, 2**26)  # counterfactuals of each hypothesis that are kept, and the characters of all of them
WORDS = Words("text", "texts", "units", "nothing", SIGN)


@documented
def explain(
    model: Any,
    texts: Any,
    sampler: Any,
    *,
    units: Any = "word",
    test: str | Procedure | None = None,
    alternative: Alternative | None = "two-sided",
    rule: str | None = None,
    family: Family = "run",
    groups: Any = None,
    weights_by: Any = None,
    target: Any = None,
    y: Any = None,
    link: Link | None = None,
    alpha: float = 0.1,
    decide: Callable[[Any], Any] | Literal[False] | None = None,
    level: float = 0.5,
    min_effect: float | None = None,
    draws: int | None = None,
    bounds: bool = False,
    picked: Callable[[Any], Any] | None = None,
    effects: EffectsOf | None = "all",
    seed: int = 0,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
    options: RunOptions | None = None,
    workers: Any = None,
    run_dir: str | PathLike[str] | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
    batch_rows: int | None = None,
    timeout: float | None = None,
    on_error: OnError | None = None,
) -> Result:
    """Which words of each text the classifier relies on: those but for which its answer would be surprising.

    A word is chosen if the output is surprising beside what the sampler would put in its place: the sampler is what you
    compare against. Where the texts are of the very kind it was trained on, nothing is there to be found (an angry
    review says "awful", as they do); a sampler of other texts is then the better one, `ngram` of the other class, say.

    Texts without a word are left out with a note; `on_error="skip"` also leaves out those that cannot be used: no
    string, too long for the model, not in the sampler's language.

    `test=None` is "sequential". A sampler of which a draw costs much (`masked_lm`, `causal_lm`) gets "few-shot" (with
    1/alpha draws a word), or `butfor.sequential(h=1)` with fewer than 10 texts or `family="input"`, where few-shot
    promises nothing. A sampler with `listed` fills gets "sequential", with p-values
    that are exact. The paper's study is `test="osft"` with its one draw and one more for the centre. The alternative is
    two-sided, words that pull either way, unless you give one. Effects come from 16 fresh draws for each word chosen
    (200 after "irt" and "sequential").

    Parameters
    ----------
    model : any function from a list of strings to outputs, `small_sentiment()`, a scikit-learn text pipeline, a
        Hugging Face text-classification pipeline, or the folder or name of such a model.
    texts : a list of strings, a mapping name -> text, a pandas Series (its index names the texts), or what
        `read_texts` gives.
    sampler : redraws a span given the rest of its text: `small_infiller()`, `masked_lm(...)`, `ngram(...)`,
        `causal_lm(...)`, or your own `(texts, subset, draws, rng) -> texts`.
    units : what to test: "word", "wordpiece" (of the sampler's tokenizer, or `wordpieces(tokenizer)`), "sentence",
        "phrase", "zoom" (coarse to fine: paragraphs, and the sentences, phrases and words of those chosen), a list,
        mapping or file for `spans`, or any function (name, text) -> subsets such as `matches(pattern)`.
    {settings}

    Examples
    --------
    >>> from butfor.text import small_infiller
    >>> reviews = [f"It was a {how} film and I would not see it again." for how in ("dreadful", "lousy", "vile")] * 5
    >>> bad = lambda texts: [any(word in text for word in ("dreadful", "lousy", "vile")) for text in texts]
    >>> result = explain(bad, reviews, small_infiller(), effects=None)
    >>> sorted(result.table[result.chosen].subset.unique())
    ['dreadful', 'lousy', 'vile']
    """
    named, info, given = locals(), _checked_info(sampler), load_items(texts)
    dear = info.dear and not info.listed and not is_zoom(units)
    settings = Settings.of(named, test=default_test(len(given), family, dear))
    check_aligned(settings.y, texts)
    check_aligned(settings.groups, texts, "groups")
    wrapped, proposer = text_model(model), as_proposer(units, info.tokenizer, whole=info.fills_whole)
    check_zoom(proposer, settings)
    found = propose_spans(given, proposer, settings.options.on_error, (wrapped.call, sampler))
    held, names = tuple(found.items), found.names
    items = ListItems(held, check=None if info.changes_subset_only else check_drawn, packing=SpanPacking())
    context = RunContext(
        problem=with_layers(list_problem(items, names, found.subsets, sampler, settings.seed), proposer, found),
        wrapped=wrapped,
        model_name=model_name(model),
        batch_rows=rows_at_a_time(found),
        describe=lambda row: f"text {names[row]!r}",
        sampler_notes=partial(_notes, found, held, (proposer, sampler), settings.seed),
        inputs=TextInputs(repr(proposer), held),
        data_dependent=not is_blind(proposer),
        keep=KEEP,
    )
    result = run(context, settings.for_inputs(given.names, names))
    notes = overlap_note(result) if test is None and not info.listed else []
    return replace(result, run_notes=(*result.run_notes, *notes))


def _checked_info(sampler: object) -> SamplerInfo:
    if not callable(sampler) or isinstance(sampler, type):
        raise InputError(
            "sampler must be a function (texts, subset, draws, rng) -> texts such as butfor.text.small_infiller(), got "
            f"{sampler!r}"
        )
    return info_of(sampler)


def load_items(texts: Any) -> NamedItems:
    """The texts by name, after seeing that names differ; what is no text says so when it is asked for."""
    names, sources = named_sources(texts)
    check_names(names, "texts", " (reset_index gives a Series new ones)")
    return NamedItems(names, sources, as_text)


def propose_spans(given: NamedItems, proposer: Proposer, on_error: OnError, judges: Sequence[object]) -> Proposed:
    """What is tested in each text; `judges` are the model and the sampler, which may refuse a text."""
    return propose(given, proposer, WORDS, on_error, partial(_check, judges), warning=TextWarning)


def _check(judges: Sequence[object], name: object, text: str, own: Sequence[Subset]) -> None:
    for subset in own:
        try:
            span_of(text, subset)
        except InputError as error:
            raise InputError(f"text {name!r}: {error}") from error
    refused = (judge.unfit(text) for judge in judges if own and isinstance(judge, RefusesInputs))
    for reason in filter(None, refused):
        raise InputError(f"text {name!r} cannot be tested: {reason}")


def _notes(found: Proposed, texts: Sequence[str], speakers: Sequence[object], seed: int) -> list[Note]:
    """Sentences on the texts, and what the proposer and the sampler say of themselves."""
    own = [note for one in speakers if isinstance(one, HasNotes) for note in one.notes(texts, found.subsets, seed)]
    return [*found.notes, *map(as_note, own)]


def rows_at_a_time(found: Proposed) -> int:
    """Texts the model gets at a time where the user does not say: about four million characters of them."""
    return int(np.clip(HELD_CHARACTERS // found.largest, 16, MOST_ROWS))
