"""The but-for test of a decision in a run: from the draws that are made anyway, and some more (METHODS 16)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from butfor.evaluation.evaluator import Evaluator
from butfor.evaluation.hypotheses import Hypotheses, Job, table_hypotheses
from butfor.evaluation.items import Items, TableItems
from butfor.evaluation.progress import Meter
from butfor.evaluation.samplers import info_of
from butfor.inference.decisions import Decision, DecisionRule, FlipShare
from butfor.inference.features import Fit
from butfor.models.wrap import Wrapped
from butfor.results.result import Decided, Stay
from butfor.results.words import Note
from butfor.run.watchers import Flips
from butfor.settings import Settings
from butfor.types import Bools, Floats, InputError, Ints, Subset

CONFIDENCE = 0.95
FIT_SHARE = 0.2  # of the error level, by subset, where intervals hold together: one fit is shared by all inputs
MOST_DRAWS = 400
FIRST_ADDED, GROWTH = 16, 1.25  # draws that are added where a decision is still open, and by how much that grows
FIRST_DRAWS = 64  # of everything but a subset, where it is asked whether the subset is sufficient


def watch_decisions(
    hypotheses: Hypotheses, settings: Settings, outputs: Floats, *, decides: bool = True
) -> Flips | None:
    """Counts the draws that change the decision; None where there is no decision to ask about.

    Without a rule it is the class with the largest output, where the model `decides` between its outputs.
    """
    if settings.decide is False or (settings.decide is None and (outputs.shape[1] == 1 or not decides)):
        return None
    if settings.sufficient and not isinstance(hypotheses.items, TableItems):
        raise InputError("sufficient=True is for tables; drop it")
    decision = Decision(settings.decide if callable(settings.decide) else None)
    made = decision(outputs)
    if made.dtype.kind == "f" and len(np.unique(made)) > max(20, len(made) // 2):
        raise InputError(
            "decide gave a different number for nearly every input; a decision is a class, for example "
            "decide=lambda outputs: outputs >= 0.4"
        )
    return Flips(hypotheses.size, decision)


def decided_otherwise(wrapped: Wrapped, items: Items, outputs: Floats, size: int) -> list[Note]:
    """Return a note where a model decides by another rule than its largest output; asks for the first `size` inputs."""
    if wrapped.predict is None or wrapped.classes is None or len(wrapped.classes) != outputs.shape[1]:
        return []
    try:
        predicted = np.asarray(wrapped.predict(items.given(np.arange(min(size, len(items)))))).tolist()
        best = outputs[:size].argmax(axis=1).tolist()
        count = sum(wrapped.classes[place] != label for place, label in zip(best, predicted, strict=True))
    except Exception:  # what it can say beside its outputs is no part of the run
        return []
    values = {"count": count, "total": len(predicted), "outputs": outputs.shape[1]}
    return [Note("decides-otherwise", "warning", values)] if count else []


def decide(
    hypotheses: Hypotheses,
    evaluator: Evaluator,
    flips: Flips,
    settings: Settings,
    fit: Fit | None,
    meter: Meter,
    off: Callable[[Floats], Floats] | None = None,
    usable: Bools | None = None,
    resolution: Ints | None = None,
) -> Decided:
    """Return the probability of another decision of every hypothesis, with its 95 % interval, and what is necessary.

    Drawing goes on until that rule has decided (`DecisionRule`), or to a cap. `off` says by how much shares (H,) are
    too high, `usable` (H,) of which subsets something can be said, `resolution` (H,) which hypotheses are one layer.
    """
    if resolution is None:
        layers = hypotheses.layers
        resolution = np.zeros(hypotheses.size, np.int64) if layers is None else layers.resolution
    error, rule = _error(hypotheses, fit), _rule(hypotheses, settings, resolution, usable)

    def shares() -> FlipShare:
        counted = flips.shares(error)
        return counted if off is None else replace(counted, off=off(counted.share))

    before = flips.draws.copy()
    if hypotheses.items.shares_subsets and not hypotheses.items.costly:
        meter.stage("decision", None)
        size, number = FIRST_ADDED, 0
        while (rows := rule.undecided(shares(), MOST_DRAWS)).size:
            wanted = np.zeros(hypotheses.size, bool)
            wanted[rows] = True
            evaluator.watch(hypotheses, _jobs(hypotheses, wanted, f"decision {number}", size))
            size, number = min(round(size * GROWTH), hypotheses.round_draws), number + 1
    counted = shares()
    low, high = rule.bounds(counted)
    return Decided(
        share=counted.share,
        low=low,
        high=high,
        necessary=rule.established(counted),
        draws=flips.draws,
        added=flips.draws - before,
        level=settings.level,
        nearest=flips.nearest,
    )


def _rule(hypotheses: Hypotheses, settings: Settings, layer: Ints, usable: Bools | None) -> DecisionRule:
    """Intervals one by one and a share of errors within each layer; with `simultaneous` all of a layer together."""
    alpha = np.full(hypotheses.size, 1 - CONFIDENCE)
    if settings.simultaneous:
        subsets = np.bincount(np.unique(np.stack([layer, hypotheses.subset_of]), axis=1)[0])
        alphas = (alpha / np.bincount(layer)[layer], FIT_SHARE * alpha / subsets[layer])
        return DecisionRule(settings.level, alphas, settings.alpha, None, usable)
    families = layer if settings.family == "run" else hypotheses.input_of * (int(layer.max(initial=0)) + 1) + layer
    return DecisionRule(settings.level, (alpha, alpha), settings.alpha, families, usable)


def _jobs(hypotheses: Hypotheses, wanted: Bools, label: str, draws: int) -> Iterator[Job]:
    for block in hypotheses.blocks:
        ask = np.flatnonzero(wanted[block.rows])
        if ask.size:
            yield Job(block, draws, label, ask=None if ask.size == block.stop - block.start else ask)


def sufficiency(
    hypotheses: Hypotheses,
    evaluator: Evaluator,
    decision: Decision,
    settings: Settings,
    fit: Callable[[Hypotheses], Fit | None] | None,
    meter: Meter,
) -> Stay:
    """The other way round: keep the subset, redraw all the rest; how often does the decision stay? Tables only.

    Of the subset of all columns there is no rest: there it stays for sure.
    """
    items = hypotheses.items
    assert isinstance(items, TableItems)
    width = items.values.shape[1]
    by_name = {block.subset.name: block.subset for block in hypotheses.blocks}
    rest = [np.setdiff1d(np.arange(width), by_name[name].index) for name in hypotheses.subset_names]
    places = [place for place, columns in enumerate(rest) if columns.size]
    kept = [by_name[hypotheses.subset_names[place]].key for place in places]
    subsets = [Subset(f"all but {key}", rest[place]) for key, place in zip(kept, places, strict=True)]
    share, low, high = (np.ones(hypotheses.size) for _ in range(3))
    sure = np.ones(hypotheses.size, bool)
    if subsets:
        turned = table_hypotheses(items, hypotheses.input_names, subsets, hypotheses.sampler, hypotheses.seed)
        rows = (np.arange(len(items))[:, None] * len(hypotheses.subset_names) + np.array(places)).reshape(-1)
        resolution = None if hypotheses.layers is None else hypotheses.layers.resolution[rows]
        stays = Flips(turned.size, decision, stays=True)
        meter.stage("sufficient", None)
        watching = replace(evaluator, memory=None, watchers=(stays,), failed={})
        watching.watch(turned, [Job(block, FIRST_DRAWS, 0) for block in turned.blocks])
        known = None if fit is None else fit(turned)
        decided = decide(turned, watching, stays, settings, known, meter, resolution=resolution)
        share[rows], low[rows], high[rows], sure[rows] = decided.share, decided.low, decided.high, decided.necessary
    return Stay(share, low, high, sure)


def _error(hypotheses: Hypotheses, fit: Fit | None) -> Floats:
    """1 / m + h(x) of each hypothesis (H,); 0 where the sampler is not fitted on rows, as far as is known."""
    if fit is not None:
        return np.asarray(1 / fit.rows + fit.leverage)
    rows = info_of(hypotheses.sampler).reference_rows
    return np.full(hypotheses.size, 0.0 if not rows else 1 / rows)
