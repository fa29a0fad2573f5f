"""The public edge for texts: one call from a classifier and its texts to words with a guarantee."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from butfor.run.settings import check_aligned, checked, is_ours, labels_left, model_name, one_of
from butfor.run.progress import Progress
from butfor.run.run import Setting, run
from butfor.core.draw.blocks import list_problem
from butfor.core.result.result import Result
from butfor.core.types import Alternative, Batch, Family, InputError, Test
from butfor.text.checked import check_drawn
from butfor.text.models import text_model
from butfor.text.opened import opened
from butfor.text.proposed import OnError, Proposed, as_subsets, proposed
from butfor.text.view import View

HELD_CHARACTERS = 2**22  # of the texts that the model is given at a time
MOST_ROWS = 256


def explain(
    model: Any,
    texts: Any,
    sampler: Any,
    *,
    units: Any = "word",
    test: Test | None = None,
    alternative: Alternative | None = "two-sided",
    rule: str | None = None,
    family: Family = "run",
    target: Any = None,
    y: Any = None,
    link: Literal["logit", "log"] | None = None,
    alpha: float = 0.1,
    draws: int | None = None,
    center: int | None = None,
    h: int = 10,
    early_stop: bool = False,
    delta: float = 0.01,
    scale: Literal["shrunk"] | None = None,
    picked: Callable[[Any], Any] | None = None,
    seed: int = 0,
    batch_rows: int | None = None,
    run_dir: str | Path | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
    keep_effects: bool = True,
    on_error: OnError = "raise",
) -> Result:
    """Which words of each text the classifier relies on: those but for which its answer would be surprising.

    `model` is any function from a list of strings to outputs, `small_sentiment()`, a scikit-learn text pipeline, a
    Hugging Face text-classification pipeline, or the folder or name of such a model. `texts` is a list of strings, a
    mapping name -> text, a pandas Series (its index names the texts), or what `read_texts` gives. `sampler` redraws a
    span given the rest of its text: `small_infiller()`, `masked_lm(...)`, `ngram(...)`, `causal_lm(...)`, or your own
    `(texts, subset, draws, rng) -> texts`.

    A word is chosen if the output is surprising beside what the sampler would put in its place: the sampler is what you
    compare against. Where the texts are of the very kind it was trained on, nothing is there to be found (an angry
    review says "awful", as they do); a sampler of other texts is then the better one, `ngram` of the other class, say.

    `units` says what to test: "word", "wordpiece" (of the sampler's tokenizer, or `wordpieces(tokenizer)`),
    "sentence", "phrase", a list, mapping or file for `spans`, or any function (name, text) -> subsets such as
    `matches(pattern)`. Texts without a word are left out with a note; `on_error="skip"` also leaves out those that
    cannot be used: no string, too long for the model, not in the sampler's language.

    `test=None` is "few-shot" (1/alpha draws a word), or "sequential" for a sampler with `listed` fills, whose p-values
    are exact. The paper's study is `test="osft"` with its one draw and one more for the centre. The alternative is
    two-sided: words that pull either way; `alternative=None` is "greater" for the predicted class of a classifier, else
    two-sided. Effects come from 16 fresh draws for each word chosen (200 after "irt" and "sequential");
    `keep_effects=False` saves those. Everything else is as in `butfor.explain`.

    >>> from butfor.text import small_infiller
    >>> reviews = [f"It was a {how} film and I would not see it again." for how in ("dreadful", "lousy", "vile")] * 5
    >>> bad = lambda texts: [any(word in text for word in ("dreadful", "lousy", "vile")) for text in texts]
    >>> result = explain(bad, reviews, small_infiller(), keep_effects=False)
    >>> sorted(result.table[result.chosen].subset.unique())
    ['dreadful', 'lousy', 'vile']
    """
    one_of("on_error", on_error, ("raise", "skip"))
    check_aligned(y, texts)
    _check_sampler(sampler)
    asked = checked(
        test=test or ("sequential" if getattr(sampler, "listed", 0) else "few-shot"),
        alternative=alternative,
        rule=rule,
        family=family,
        link=link,
        alpha=alpha,
        draws=draws,
        center=center,
        h=h,
        early_stop=early_stop,
        delta=delta,
        scale=scale,
        picked=picked,
        seed=seed,
        batch_rows=batch_rows,
    )
    wrapped, chosen = text_model(model), as_subsets(units, getattr(sampler, "tokenizer", None))
    unfit = [judge for judge in (getattr(wrapped.call, "unfit", None), getattr(sampler, "unfit", None)) if judge]
    given = opened(texts)
    found = proposed(given, chosen, on_error, unfit)
    y = labels_left(y, given.names, found.names)
    check = None if is_ours(sampler) else check_drawn
    problem = list_problem(found.texts, found.names, found.subsets, sampler, asked.seed, check)
    setting = Setting(
        problem=problem,
        wrapped=wrapped,
        model_name=model_name(model),
        batch_rows=rows_at_a_time(found),
        describe=lambda row: f"text {found.names[row]!r}",
        show=_as_list,
        look=partial(_look, found, chosen, sampler),
        facts={
            "modality": "text",
            "units": repr(chosen),
            "looked": not getattr(chosen, "blind", False),
            "texts": list(found.texts),
        },
        view=View(wrapped.call),
    )
    return run(setting, asked, target=target, y=y, progress=progress, keep_effects=keep_effects, run_dir=run_dir)


def _check_sampler(sampler: Any) -> None:
    if not callable(sampler) or isinstance(sampler, type):
        raise InputError(
            "sampler must be a function (texts, subset, draws, rng) -> texts such as butfor.text.small_infiller(), got "
            f"{sampler!r}"
        )


def _look(found: Proposed, chosen: Any, sampler: Any) -> list[str]:
    """Sentences on the texts, and what the proposer and the sampler say of themselves."""
    notes = list(found.notes)
    if hasattr(chosen, "says"):
        notes.append(chosen.says())
    if hasattr(sampler, "says"):
        notes += sampler.says(found.texts, found.subsets)
    return notes


def rows_at_a_time(found: Proposed) -> int:
    """Texts the model gets at a time where the user does not say: about four million characters of them."""
    longest = max(len(text) for text in found.texts)
    return int(np.clip(HELD_CHARACTERS // longest, 16, MOST_ROWS))


def _as_list(batch: Batch) -> Batch:
    return list(batch)
