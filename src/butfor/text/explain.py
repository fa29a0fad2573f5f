"""butfor.text.explain: from a classifier and its texts to words with a guarantee."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from butfor.evaluation.hypotheses import (
    MOST_PARTS,
    Hypotheses,
    Parts,
    Proposer,
    ProposesTree,
    finest_parts,
    is_blind,
    list_hypotheses,
)
from butfor.evaluation.items import ListItems
from butfor.evaluation.progress import Progress
from butfor.evaluation.samplers import HasNotes, RefusesInputs, Sampler, SeesRun, info_of, method
from butfor.models.wrap import check_aligned, is_frame, is_series, model_name
from butfor.results.record import TextInputs
from butfor.results.result import Result
from butfor.results.words import Note, as_note
from butfor.run.overlap import overlap_note
from butfor.run.proposed import NamedItems, Proposed, Words, check_names, propose
from butfor.run.run import NAMED, RunContext, check_zoom, run, with_layers
from butfor.settings import EffectsOf, Link, OnError, Procedure, RunOptions, Settings, default_test, documented
from butfor.text.files import UnreadableFile, load_texts
from butfor.text.fills import Rest, Together
from butfor.text.foils import Foils, own_foil, too_few
from butfor.text.models import text_model
from butfor.text.segment import SpanPacking, check_drawn, paragraph_spans, rest_of, sentence_spans, spans_of
from butfor.text.subsets import SIGN, named, phrases, sentences, spans, wordpieces, words, zoom
from butfor.types import Alternative, Family, InputError, ReachWarning, Subset, warn_user


class TextWarning(UserWarning):
    """A warning about the texts, such as one that was left out."""


def load_items(texts: Any) -> NamedItems:
    """Return the texts by name, from a list of strings, a mapping name -> text, a Series, or a `Path` to files of them.

    Texts of a list are called "text 1", "text 2" and so on, those of a Series by its index. An entry that is no text
    raises where it is used.

    >>> load_items(["Good.", "Bad."]).names
    ('text 1', 'text 2')
    """
    if isinstance(texts, Path):
        texts = load_texts(texts)
    if isinstance(texts, str):
        raise InputError("texts is one string; give a list: [text], or for a file butfor.text.read_texts(path)")
    if is_frame(texts):
        raise InputError("texts is a table; give one of its columns: frame['text']")
    if isinstance(texts, Mapping):
        labels, values = list(texts), tuple(texts.values())
    elif is_series(texts):
        labels, values = list(texts.index), tuple(texts.tolist())
    elif isinstance(texts, Iterable) and not isinstance(texts, bytes):
        values = tuple(texts)
        labels = [f"text {number}" for number in range(1, len(values) + 1)]
    else:
        raise InputError(
            f"texts must be a list of strings, a mapping name -> text or a Series, got {type(texts).__name__}"
        )
    whole = (int, np.integer)
    names = [int(one) if isinstance(one, whole) and not isinstance(one, bool) else str(one) for one in labels]
    check_names(names, "texts", " (reset_index gives a Series new ones)")

    def as_text(name: object, source: object) -> str:
        if isinstance(source, str):
            return str(source)
        if isinstance(source, UnreadableFile):
            raise InputError(source.why)
        missing = source is None or (isinstance(source, float) and np.isnan(source))
        kind = "missing" if missing else f"of type {type(source).__name__}"
        raise InputError(f"text {name!r} is {kind}, expected a string; leave it out, or on_error='skip'")

    return NamedItems(tuple(names), values, as_text)


def as_proposer(units: Any, tokenizer: object = None, *, whole: bool = False, together: bool = False) -> Proposer:
    """Return the proposer of spans; `tokenizer` is for "wordpiece", and `whole` lets "zoom" begin with the whole text.

    With `together` the sampler can redraw all places of a word at once, and "word" means that.

    >>> [subset.name for subset in as_proposer("word")("review", "Good film.")]
    ['Good', 'film']
    """
    if callable(units):
        return units  # type: ignore[no-any-return]
    known: dict[str, Callable[[], Proposer]] = {
        "word": lambda: words(together=together),
        "occurrence": words,
        "sentence": sentences,
        "phrase": phrases,
        "wordpiece": lambda: wordpieces(tokenizer),
        "zoom": lambda: zoom(whole=whole),
    }
    if isinstance(units, str) and units in known:
        return known[units]()
    if isinstance(units, str) and not Path(units).is_file():
        raise InputError(f"units is {units!r}, neither a file nor one of {', '.join(known)}")
    return spans(units)


@documented
def explain(
    model: object,
    texts: object,
    sampler: object = None,
    *,
    corpus: object = None,
    labels: object = None,
    units: object = "word",
    test: str | Procedure | None = None,
    alternative: Alternative | None = "two-sided",
    rule: str | None = None,
    family: Family = "run",
    groups: ArrayLike | Mapping[Any, Hashable] | None = None,
    weights_by: ArrayLike | Callable[[Any, str], Hashable] | None = None,
    target: Hashable = None,
    y: ArrayLike | None = None,
    link: Link | None = None,
    alpha: float = 0.1,
    decide: Callable[[Any], Any] | Literal[False] | None = None,
    level: float = 0.5,
    simultaneous: bool = False,
    enough: float | None = None,
    min_effect: float | None = None,
    draws: int | None = None,
    bounds: bool = False,
    picked: Callable[[Any], Any] | None = None,
    effects: EffectsOf | None = "all",
    seed: int = 0,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
    options: RunOptions | None = None,
    workers: object = None,
    run_dir: str | PathLike[str] | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
    batch_rows: int | None = None,
    timeout: float | None = None,
    on_error: OnError | None = None,
) -> Result:
    """Find the words of each text that the classifier relies on: those but for which its output would be surprising.

    A word is chosen if the output is surprising beside what the sampler would put in its place. Where the texts are of
    the very kind it was trained on, there is nothing to discover (an angry review says "awful", as they do); use a
    sampler of other texts then, such as `ngram` of the other class. Texts without a word are left out with a note;
    `on_error="skip"` also leaves out those that are no string, too long for the model or not in the sampler's language.

    `test=None` is "sequential". A sampler of which a draw costs much (`masked_lm`, `causal_lm`) gets "few-shot" (with
    1/alpha draws a word), or `butfor.sequential(h=1)` with fewer than 10 texts or `family="input"`, where few-shot
    promises nothing. A sampler with `listed` fills gets "sequential", with p-values that are exact. The paper's study
    is `test="osft"` with its one draw and one more for the centre. The alternative is two-sided, words that pull either
    way, unless you give one. Effects come from 16 fresh draws for each word chosen (200 after "irt" and "sequential").

    Parameters
    ----------
    model : callable, str or path
        A function from a list of strings to outputs, `small_sentiment()`, a scikit-learn text pipeline, a Hugging Face
        text-classification pipeline, or the folder or name of such a model.
    texts : list of str, mapping or Series
        Texts, a mapping name -> text, a pandas Series (its index names the texts), or what `read_texts` returns.
    sampler : callable
        Redraws a span given the rest of its text: `small_infiller()`, `masked_lm(...)`, `ngram(...)`,
        `causal_lm(...)`, `foils(...)`, or your own `(texts, subset, draws, rng) -> texts`. None takes the words of
        `corpus` that are as common in every class, or those of the other classes where hardly any are.
    corpus : list of str, optional
        Texts of the same kind, for a run without a sampler. Those that are explained are left out.
    labels : list, optional
        The class of each text of `corpus`.
    units : str, list, mapping or callable, default "word"
        "word", "wordpiece" (of the sampler's tokenizer, or `wordpieces(tokenizer)`), "sentence", "phrase", "zoom"
        (coarse to fine: paragraphs, and the sentences, phrases and words of those chosen), a list, mapping or file for
        `spans`, or any function (name, text) -> subsets such as `matches(pattern)`.
    {settings}

    Returns
    -------
    Result
        The evidence for each word, and the words chosen.

    Examples
    --------
    >>> from butfor.text import small_infiller
    >>> reviews = [f"It was a {how} film and I would not see it again." for how in ("dreadful", "lousy", "vile")] * 5
    >>> bad = lambda texts: [any(word in text for word in ("dreadful", "lousy", "vile")) for text in texts]
    >>> result = explain(bad, reviews, small_infiller(), effects=None)
    >>> sorted(result.table[result.chosen].subset.unique())
    ['dreadful', 'lousy', 'vile']
    """
    keywords = locals()
    given, about = load_items(texts), list[Note]()
    if sampler is None and (corpus is not None or labels is not None):
        fixed = None if isinstance(target, str) and target in NAMED else target
        sampler, note = own_foil(corpus, labels, [text for text in given.sources if isinstance(text, str)], fixed)
        about = [note]
    elif corpus is not None or labels is not None:
        raise InputError("a sampler and corpus= were given; drop one of them")
    if not callable(sampler) or isinstance(sampler, type):
        raise InputError(
            "sampler must be a function (texts, subset, draws, rng) -> texts such as butfor.text.small_infiller(), or "
            f"give corpus= and labels= (texts of the same kind and their classes); got {sampler!r}"
        )
    info = info_of(sampler)
    zooms = isinstance(units, ProposesTree) or (isinstance(units, str) and units == "zoom")
    dear = info.dear and not info.listed and not zooms
    words = len(" ".join(text for text in given.sources if isinstance(text, str)).split()) // max(len(given), 1)
    settings = Settings.of(keywords, test=default_test(len(given), family, dear, words if units == "word" else 1))
    check_aligned(settings.y, texts)
    check_aligned(settings.groups, texts, "groups")
    together = method(sampler, "together") is not None
    proposer = as_proposer(units, info.tokenizer, whole=info.fills_whole, together=together)
    wrapped = text_model(model)
    check_zoom(proposer, settings)
    proposed = propose_spans(given, proposer, settings.options.on_error, (wrapped.call, sampler))
    kept, names = tuple(proposed.items), proposed.names
    if isinstance(sampler, SeesRun):
        sampler = sampler.for_run(kept, proposed.subsets)
    redraws: Any = Together(sampler) if getattr(proposer, "together", False) else sampler
    counts = sampler.counts if isinstance(sampler, Foils) else {}
    sizes = list(map(len, proposed.subsets))
    family_size = sum(sizes) if settings.family == "run" else max(sizes)
    few = too_few(counts, family_size, settings.alpha) if settings.test.name in ("sequential", "irt") else None
    if few is not None:
        warn_user(str(few), ReachWarning)
        about.append(few)
    items = ListItems(kept, check=None if info.changes_subset_only else check_drawn, packing=SpanPacking())

    def notes() -> list[Note]:
        speakers = [one for one in (proposer, sampler) if isinstance(one, HasNotes)]
        spoken = [note for one in speakers for note in one.notes(kept, proposed.subsets, settings.seed)]
        counts = {"unknown": len(uncovered), "tested": hypotheses.size}
        unknown = [Note("unknown-words", "warning", counts)] if uncovered else []
        return [*proposed.notes, *about, *unknown, *map(as_note, spoken)]

    hypotheses = list_hypotheses(items, names, proposed.subsets, redraws, settings.seed)
    hypotheses = with_layers(hypotheses, proposer, proposed)
    covers = method(sampler, "covers")
    pairs = [(text, one) for text, inside in zip(kept, proposed.subsets, strict=True) for one in inside]
    uncovered = () if covers is None else tuple(row for row, pair in enumerate(pairs) if not covers(*pair))
    context = RunContext(
        hypotheses=hypotheses,
        uncovered=uncovered,
        wrapped=wrapped,
        model_name=model_name(model),
        batch_rows=batch_rows_of(proposed),
        describe=lambda row: f"text {names[row]!r}",
        sampler_notes=notes,
        inputs=TextInputs(repr(proposer), kept),
        data_dependent=not is_blind(proposer),
        keep=(8, 2**26),  # counterfactuals of each hypothesis, and characters of all of them
        parts=None if settings.enough is None else kept_spans(hypotheses, kept, sampler),
    )
    result = run(context, settings.for_inputs(given.names, names))
    overlap = overlap_note(result) if test is None and not info.listed else []
    return replace(result, run_notes=(*result.run_notes, *overlap))


def propose_spans(given: NamedItems, proposer: Proposer, on_error: OnError, judges: Sequence[object]) -> Proposed:
    """Return what is tested in each text; `judges` are the model and the sampler, which may refuse a text."""

    def check(name: object, text: str, subsets: Sequence[Subset]) -> None:
        for subset in subsets:
            try:
                spans_of(text, subset)
            except InputError as error:
                raise InputError(f"text {name!r}: {error}") from error
        refused = (judge.unfit(text) for judge in judges if subsets and isinstance(judge, RefusesInputs))
        for reason in filter(None, refused):
            raise InputError(f"text {name!r} cannot be tested: {reason}")

    called = Words("text", "texts", "units", "nothing", SIGN)
    return propose(given, proposer, called, on_error, check, warning=TextWarning)


def kept_spans(hypotheses: Hypotheses, texts: Sequence[str], sampler: Sampler) -> Parts:
    """Return the parts of texts that may be enough: what is tested where that is little, else sentences, paragraphs."""
    parts = []
    for text, tested in zip(texts, finest_parts(hypotheses), strict=True):
        levels = (tested, *(named(text, spans_in(text)) for spans_in in (sentence_spans, paragraph_spans)))
        parts.append(next((level for level in levels if 2 <= len(level) <= MOST_PARTS), ()))
    return Parts(parts, rest_of, Rest(sampler), fills_whole=True)


def batch_rows_of(proposed: Proposed) -> int:
    """Return the texts that the model gets at a time by default: about four million characters of them."""
    return int(np.clip(2**22 // proposed.largest, 16, 256))
