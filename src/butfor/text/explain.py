"""The public edge for texts: one call from a classifier and its texts to words with a guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from butfor.core.draw.blocks import list_problem
from butfor.core.draw.items import ListItems
from butfor.core.draw.proposers import Proposer, is_blind
from butfor.core.draw.samplers import HasNotes, RefusesInputs, SamplerInfo, info_of
from butfor.core.result.result import Result
from butfor.core.types import InputError, Subset
from butfor.models.rows import check_aligned
from butfor.models.wrap import model_name
from butfor.run.context import RunContext
from butfor.run.proposed import NamedItems, OnError, Proposed, Words, check_names, propose
from butfor.run.run import run
from butfor.run.settings import NAMES, Settings, of_those_left, takes
from butfor.run.suited import Suited, by_cost, suited
from butfor.run.zooming import check_zoom, with_layers
from butfor.text.edit import SpanPacking, check_drawn, span_of
from butfor.text.items import TextWarning, as_proposer, as_text, is_zoom, named_sources
from butfor.text.models import text_model
from butfor.text.subsets import SIGN

HELD_CHARACTERS = 2**22  # of the texts that the model is given at a time
MOST_ROWS = 256
KEEP = (8, 2**26)  # counterfactuals of each hypothesis that are kept, and the characters of all of them
WORDS = Words("text", "texts", "units", "nothing", SIGN)


@takes(NAMES, alternative="two-sided")
def explain(model: Any, texts: Any, sampler: Any, *, units: Any = "word", **options: object) -> Result:
    """Which words of each text the classifier relies on: those but for which its answer would be surprising.

    A word is chosen if the output is surprising beside what the sampler would put in its place: the sampler is what you
    compare against. Where the texts are of the very kind it was trained on, nothing is there to be found (an angry
    review says "awful", as they do); a sampler of other texts is then the better one, `ngram` of the other class, say.

    Texts without a word are left out with a note; `on_error="skip"` also leaves out those that cannot be used: no
    string, too long for the model, not in the sampler's language.

    `test=None` measures what a draw and a row of the model cost: it is "sequential", whose answer depends less on the
    seed, where that is expected to take five minutes at most, else "few-shot" (1/alpha draws a word; also where `draws`
    or `rule` are given), and for fewer than 10 texts, of which few-shot promises nothing, `butfor.sequential(h=1)`. The
    result says which and why. A sampler with `listed` fills gets "sequential", with p-values
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
    **options : settings.

    Examples
    --------
    >>> from butfor.text import small_infiller
    >>> reviews = [f"It was a {how} film and I would not see it again." for how in ("dreadful", "lousy", "vile")] * 5
    >>> bad = lambda texts: [any(word in text for word in ("dreadful", "lousy", "vile")) for text in texts]
    >>> result = explain(bad, reviews, small_infiller(), effects=None)
    >>> sorted(result.table[result.chosen].subset.unique())
    ['dreadful', 'lousy', 'vile']
    """
    info = _checked_info(sampler)
    settled = bool(info.listed) or is_zoom(units)
    settings = Settings.of(options, test="sequential" if settled else "few-shot")
    check_aligned(settings.y, texts)
    check_aligned(settings.groups, texts, "groups")
    wrapped, proposer = text_model(model), as_proposer(units, info.tokenizer, whole=info.fills_whole)
    check_zoom(proposer, settings)
    given = load_items(texts)
    found = propose_spans(given, proposer, settings.on_error, (wrapped.call, sampler))
    held, names = tuple(found.items), found.names
    items = ListItems(held, check=None if info.changes_subset_only else check_drawn, packing=SpanPacking())
    context = RunContext(
        problem=with_layers(list_problem(items, names, found.subsets, sampler, settings.seed), proposer, found),
        wrapped=wrapped,
        model_name=model_name(model),
        batch_rows=rows_at_a_time(found),
        describe=lambda row: f"text {names[row]!r}",
        sampler_notes=partial(_notes, found, held, (proposer, sampler), settings.seed),
        metadata={
            "modality": "text",
            "units": repr(proposer),
            "data_dependent": not is_blind(proposer),
            "texts": list(held),
        },
        keep=KEEP,
    )
    found_test = Suited(settings)
    if by_cost(options) and not settled:
        found_test = suited(context, lambda test: Settings.of({**options, "test": test}), settings.run_dir)
    result = run(context, of_those_left(found_test.settings, given.names, names))
    return found_test.told(result)


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


def _notes(found: Proposed, texts: Sequence[str], speakers: Sequence[object], seed: int) -> list[str]:
    """Sentences on the texts, and what the proposer and the sampler say of themselves."""
    own = [note for one in speakers if isinstance(one, HasNotes) for note in one.notes(texts, found.subsets, seed)]
    return [*found.notes, *own]


def rows_at_a_time(found: Proposed) -> int:
    """Texts the model gets at a time where the user does not say: about four million characters of them."""
    return int(np.clip(HELD_CHARACTERS // found.largest, 16, MOST_ROWS))
