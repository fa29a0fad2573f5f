"""Given the inputs: how often a decision would be otherwise, and by how much an output moves (METHODS 16, 22).

Both from the draws that are made anyway, and some more where these leave it open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from butfor.evaluation.evaluator import Evaluator
from butfor.evaluation.hypotheses import Hypotheses, Job, table_hypotheses
from butfor.evaluation.items import Items, TableItems
from butfor.evaluation.samplers import Sampler, info_of
from butfor.inference.decisions import Decision, DecisionRule, FlipShare, Intervals
from butfor.inference.features import Fit
from butfor.inference.moves import BoundedChange, MeanChange
from butfor.inference.statistics import StatisticSpec, Target, linked, pick
from butfor.models.wrap import Wrapped
from butfor.results.result import Decided, Fills, Moved, Stay
from butfor.results.summary import are_probabilities
from butfor.results.words import Note
from butfor.run.watchers import Flips, Moves
from butfor.settings import Settings
from butfor.types import Bools, Floats, InputError, Ints, ModelError, Subset

CONFIDENCE = 0.95
FIT_SHARE = 0.2  # of the error level, by subset, where intervals hold together: one fit is shared by all inputs
MOST_DRAWS = 400
FIRST_ADDED, GROWTH, GROWTH_OF_FEW = 16, 1.25, 1.5  # draws added where a decision is open, and how that grows
DEAR_DRAWS, DEAR_ADDED = 40, 12  # the most draws where each costs much, and the first that are added
FIRST_DRAWS, FIRST_ROUNDS = 64, 8  # of everything but a subset, where it is asked whether the subset is sufficient

Scale = tuple[Floats, float]  # the range of changes (2, n) of each input, and which change is little


def watch_decisions(
    hypotheses: Hypotheses, settings: Settings, outputs: Floats, *, decides: bool = True
) -> Flips | None:
    """Counts the draws that change the decision of a rule, or of a model that `decides`; None where there is none."""
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
    off: Callable[[Floats], Floats] | None = None,
    usable: Bools | None = None,
    resolution: Ints | None = None,
    most: int | None = None,
    different: Ints | None = None,
) -> Decided:
    """Return the probability of another decision of every hypothesis, with its 95 % interval, and what is necessary.

    Drawing goes on until that rule has decided (`DecisionRule`), or to a cap. `off` says by how much shares (H,) are
    too high, `usable` (H,) of which subsets something can be said, `resolution` (H,) which hypotheses are one layer.
    The cap is `most` draws; of images and texts none are added here unless it is given (`draw_given`). Of draws of
    which some are alike only those that are `different` (H,) count.
    """
    resolution = hypotheses.resolution if resolution is None else resolution
    error = _error(hypotheses, fit)
    rule = _rule(hypotheses, settings, settings.level, resolution, usable)

    def shares() -> FlipShare:
        counted = flips.shares(error)
        counted = replace(counted, between=flips.between_rounds()) if flips.together else counted
        return counted if off is None else replace(counted, off=off(counted.share))

    before = flips.draws.copy()
    if most is not None or hypotheses.items.shares_subsets:
        cap, first = MOST_DRAWS if most is None else most, max(FIRST_ADDED, FIRST_ROUNDS // 2 * flips.together)
        known = Intervals.none(hypotheses.size)
        _draw_on(hypotheses, evaluator, lambda: rule.undecided(shares(), cap, known), "decision", first)
    counted = shares()
    if different is not None:
        counted = replace(counted, draws=np.minimum(counted.draws, different))
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


def move(
    hypotheses: Hypotheses,
    evaluator: Evaluator,
    moves: Moves,
    settings: Settings,
    fit: Fit | None,
    scale: Scale,
    usable: Bools | None = None,
    different: Ints | None = None,
) -> Moved:
    """Return by how much every subset moves the output, with 95 % intervals, and what moves it by more than little."""
    error, (ends, least) = _error(hypotheses, fit), scale
    rule = _rule(hypotheses, settings, least, hypotheses.resolution, usable)
    if settings.test.name in ("sequential", "irt") and hypotheses.items.shares_subsets:  # others are for few draws

        def sizes() -> MeanChange:
            return moves.means(error, ends[:, hypotheses.input_of]).turned()

        known = Intervals.none(hypotheses.size)
        _draw_on(hypotheses, evaluator, lambda: rule.undecided(sizes(), MOST_DRAWS, known), "moves")
    means = changes_seen(hypotheses, moves, ends, error, different)
    low, high = rule.bounds(means)
    unusable = ~np.isfinite(means.mean) | (False if usable is None else ~usable)
    widest = ends[:, hypotheses.input_of] if isinstance(means, BoundedChange) else means.ends
    low, high = (np.where(unusable, end, known) for end, known in zip(widest, (low, high), strict=True))
    return Moved(means.mean, low, high, rule.established(means.turned()) & ~unusable, least)


def changes_seen(
    hypotheses: Hypotheses, moves: Moves, ends: Floats, error: Floats, different: Ints | None = None
) -> MeanChange | BoundedChange:
    """Return what the draws have changed: one by one where they are few and of a probability."""
    by_row = ends[:, hypotheses.input_of]
    if moves.look.each and not error.any() and np.allclose(ends[1] - ends[0], 1.0):
        return moves.bounded(by_row, different)
    return moves.means(error, by_row)


def draw_given(
    hypotheses: Hypotheses,
    evaluator: Evaluator,
    flips: Flips | None,
    moves: Moves,
    settings: Settings,
    scale: Scale,
    usable: Bools | None = None,
    different: Callable[[], Ints | None] | None = None,
) -> Note | None:
    """Draw on for images and texts whose estimates are above what is to be shown, until it is; say what stays open.

    Every draw that is `different` counts for both questions, and both are valid however drawing is stopped.
    """
    error, (ends, least), layer = _error(hypotheses, None), scale, hypotheses.resolution
    by_flips = _rule(hypotheses, settings, settings.level, layer, usable)
    by_moves = _rule(hypotheses, settings, least, layer, usable)
    dear, cap = is_dear(hypotheses), most_given(hypotheses, settings)

    def still_open() -> tuple[Bools, Bools]:
        counts = None if different is None else different()
        changed = changes_seen(hypotheses, moves, ends, error, counts).turned()
        moving = (np.nan_to_num(changed.mean) > least) & (changed.draws > 0)
        moving &= ~by_moves.established(changed)
        deciding = np.zeros_like(moving)
        if flips is not None:
            shares = flips.shares(error)
            shares = shares if counts is None else replace(shares, draws=np.minimum(shares.draws, counts))
            deciding = (np.nan_to_num(shares.share) > settings.level) & (shares.draws > 0)
            deciding &= ~by_flips.established(shares)
        return deciding, moving

    size, number = min(DEAR_ADDED if dear else FIRST_ADDED, hypotheses.round_draws), 0
    evaluator.counter.stage("given", None)
    while not info_of(hypotheses.sampler).deterministic:
        deciding, moving = still_open()
        wanted = (deciding | moving) & (moves.draws < cap) & (True if usable is None else usable)
        if not wanted.any():
            break
        size = min(size, max(1, cap - int(moves.draws[wanted].min())))
        draw_for(hypotheses, evaluator, wanted, f"given {number}", size)
        size, number = min(round(size * GROWTH_OF_FEW), hypotheses.round_draws), number + 1
    deciding, moving = still_open()
    values = {"decisive": int(deciding.sum()), "moves": int(moving.sum()), "size": hypotheses.size, "most": cap}
    return Note("given-open", "limit", values) if values["decisive"] or values["moves"] else None


def is_dear(hypotheses: Hypotheses) -> bool:
    """Return whether a draw costs much: an image's fill, or what a large language model writes."""
    return hypotheses.items.costly or info_of(hypotheses.sampler).dear


def most_given(hypotheses: Hypotheses, settings: Settings) -> int:
    """Return the most draws of a part of an image or a text: fewer where each costs much, or `draws=` there."""
    if not is_dear(hypotheses):
        return MOST_DRAWS
    return DEAR_DRAWS if settings.draws is None else settings.draws


def reach_given(hypotheses: Hypotheses, settings: Settings) -> Note | None:
    """Return a note where a part that always changes the decision cannot be called decisive if it is the only one."""
    most, size = most_given(hypotheses, settings), hypotheses.size
    largest = min(1 - CONFIDENCE, settings.alpha / max(1, size))

    def reached(draws: int) -> bool:
        always = FlipShare(np.array([draws]), np.ones(1), np.zeros(1))
        return bool(always.low(largest)[0] > settings.level)

    if info_of(hypotheses.sampler).deterministic or reached(most):
        return None
    needed = next((draws for draws in range(most, 1000) if reached(draws)), 1000)
    values = {"draws": most, "size": size, "alpha": settings.alpha, "needed": needed}
    return Note("given-reach", "limit", values)


LITTLE, LITTLE_SHARE = 0.05, 0.1  # of a probability; of the spread of outputs over the reference


def scale_of_changes(spec: StatisticSpec, settings: Settings, outputs: Floats, reference: Floats | None) -> Scale:
    """Return by how much the output of each input can change (2, n), downwards and upwards, and what is little.

    `outputs` (n, outputs) are of the inputs, `reference` (m, outputs) of its rows. Probabilities lie between 0 and 1;
    of other outputs the range seen is taken for all there is.
    """
    every = outputs if reference is None else np.concatenate([outputs, reference])
    every = every[np.isfinite(every).all(axis=1)]  # others were skipped
    shares = outputs.shape[1] > 1 and bool(len(every)) and are_probabilities(every)
    values = linked(every, settings.link)
    inputs = np.arange(len(outputs))
    target = Target("per-input", outputs.argmax(axis=1)) if spec.target.kind == "predicted" else spec.target
    here = pick(linked(np.nan_to_num(outputs), settings.link)[:, None], target, inputs)[0][:, 0]
    if shares and settings.link is None:
        bottom, top, little = 0.0, 1.0, LITTLE
    else:
        if target.kind in ("output", "fixed"):
            values = pick(values[:, None], target, np.arange(len(values)))[0]
        bottom, top = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
        little = LITTLE_SHARE * float(values[len(outputs) :].std() if reference is not None else values.std())
    if settings.min_effect is not None:
        little = settings.min_effect
    return np.stack([here - top, here - bottom]), little


def _draw_on(
    hypotheses: Hypotheses, evaluator: Evaluator, undecided: Callable[[], Ints], label: str, first: int = FIRST_ADDED
) -> None:
    """Draw for what is undecided, in growing rounds."""
    evaluator.counter.stage(label, None)
    size, number = min(first, hypotheses.round_draws), 0
    while (rows := undecided()).size:
        wanted = np.zeros(hypotheses.size, bool)
        wanted[rows] = True
        draw_for(hypotheses, evaluator, wanted, f"{label} {number}", size)
        size, number = min(round(size * GROWTH), hypotheses.round_draws), number + 1


def _rule(hypotheses: Hypotheses, settings: Settings, level: float, layer: Ints, usable: Bools | None) -> DecisionRule:
    """Intervals one by one and a share of errors within each layer; with `simultaneous` all of a layer together."""
    alpha = np.full(hypotheses.size, 1 - CONFIDENCE)
    if settings.simultaneous:
        subsets = np.bincount(np.unique(np.stack([layer, hypotheses.subset_of]), axis=1)[0])
        alphas = (alpha / np.bincount(layer)[layer], FIT_SHARE * alpha / subsets[layer])
        return DecisionRule(level, alphas, settings.alpha, None, usable)
    families = layer if settings.family == "run" else hypotheses.input_of * (int(layer.max(initial=0)) + 1) + layer
    return DecisionRule(level, (alpha, alpha), settings.alpha, families, usable)


def draw_for(hypotheses: Hypotheses, evaluator: Evaluator, wanted: Bools, label: str, draws: int) -> None:
    """Draw for the hypotheses wanted (H,), for the watchers alone."""

    def jobs() -> Iterator[Job]:
        for block in hypotheses.blocks:
            ask = np.flatnonzero(wanted[block.rows])
            if ask.size:
                yield Job(block, draws, label, ask=None if ask.size == block.stop - block.start else ask)

    evaluator.watch(hypotheses, jobs())


def sufficiency(
    hypotheses: Hypotheses,
    evaluator: Evaluator,
    decision: Decision,
    settings: Settings,
    fit: Callable[[Hypotheses], Fit | None] | None,
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
    share, low, high, sure = (*np.ones((3, hypotheses.size)), np.ones(hypotheses.size, bool))
    if subsets:
        turned = table_hypotheses(items, hypotheses.input_names, subsets, hypotheses.sampler, hypotheses.seed)
        rows = (np.arange(len(items))[:, None] * len(hypotheses.subset_names) + np.array(places)).reshape(-1)
        stays = Flips(turned.size, decision, stays=True)
        evaluator.counter.stage("sufficient", None)
        watching = replace(evaluator, memory=None, watchers=(stays,), failed={})
        watching.watch(turned, [Job(block, FIRST_DRAWS, 0) for block in turned.blocks])
        decided = decide(turned, watching, stays, settings, fit and fit(turned), resolution=hypotheses.resolution[rows])
        share[rows], low[rows], high[rows], sure[rows] = decided.share, decided.low, decided.high, decided.necessary
    return Stay(share, low, high, sure)


def _error(hypotheses: Hypotheses, fit: Fit | None) -> Floats:
    """1 / m + h(x) of each hypothesis (H,); 0 where the sampler is not fitted on rows, as far as is known."""
    if fit is not None:
        return np.asarray(1 / fit.rows + fit.leverage)
    rows = info_of(hypotheses.sampler).reference_rows
    return np.full(hypotheses.size, 0.0 if not rows else 1 / rows)


# Fills that tell on themselves: odd ones are tried again with real patches; some show the object again. The model's
# outputs tell the latter: where most fills take the class of the photograph away and a few leave it, the inpainter may
# have painted there what was removed.

LEAST_FILLS = 5
OTHER_DRAWS = 10  # real patches that are put in place of odd fills
LEAVES, TAKES = 0.8, 0.4  # share of an output that a fill with the object leaves at least, and other fills at most


def tried_again(
    hypotheses: Hypotheses,
    evaluator: Evaluator,
    sampler: Sampler | None,
    flips: Flips | None,
    moves: Moves,
    chosen: Bools,
    decided: Decided | None,
    moved: Moved,
    fills: Fills,
) -> Fills:
    """Return which findings on regions with odd fills hold with draws of another sampler.

    They do if the mean change is above what is little there, too, in the same direction; and, where a region was called
    decisive, if the share of other decisions is above the level.
    """
    needed = np.zeros_like(chosen) if decided is None else decided.necessary
    findings, nothing = fills.odd & (moved.moves | needed | chosen), np.zeros(len(chosen))
    if sampler is None or not findings.any():
        return fills
    moves, flips = Moves(len(chosen), moves.look), None if flips is None else Flips(len(chosen), flips.decision)
    watching = replace(evaluator, memory=None, watchers=(moves,) if flips is None else (moves, flips), failed={})
    try:
        draw_for(replace(hypotheses, sampler=sampler, watch=None), watching, findings, "other fills", OTHER_DRAWS)
    except (InputError, ModelError):  # no room for a patch, say
        return fills
    far = np.full((2, len(chosen)), np.inf) * np.array([[-1.0], [1.0]])
    confirmed = findings & (np.nan_to_num(moves.means(nothing, far).mean * np.sign(moved.drop)) > moved.least)
    if flips is not None and decided is not None:
        confirmed &= ~needed | (np.nan_to_num(flips.shares(nothing).share) > decided.level)
    return replace(fills, confirmed=confirmed)


def fill_notes(hypotheses: Hypotheses, moves: Moves, fills: Fills, outputs: Floats, findings: Bools) -> list[Note]:
    """Return notes on findings that are not counted, on fills that are alike, and on some that show the object again.

    `outputs` (n,) are those of the images that their regions change.
    """
    notes, doubtful = [], int((fills.doubtful & findings).sum())
    if doubtful:
        notes.append(Note("fills-doubtful", "warning", {"count": doubtful, "findings": int(findings.sum())}))
    alike = (fills.different < 0.5 * moves.draws) & (moves.draws > 1)
    if alike.any():
        values = {"regions": int(alike.sum()), "size": hypotheses.size, "draws": int(moves.draws[alike].sum())}
        notes.append(Note("fills-alike", "warning", {**values, "different": int(fills.different[alike].sum())}))
    names, counts = list[str](), list[int]()
    for row in range(hypotheses.size if moves.look.each else 0):
        left = outputs[hypotheses.input_of[row]] - moves.each(row)
        whole = float(outputs[hypotheses.input_of[row]])
        again = int((left >= LEAVES * whole).sum())
        if whole > 0 and left.size >= LEAST_FILLS and again and np.median(left) <= TAKES * whole:
            names.append(
                f"{hypotheses.subset_names[hypotheses.subset_of[row]]} of "
                f"{hypotheses.input_names[hypotheses.input_of[row]]}"
            )
            counts.append(again)
    if names:
        notes.append(Note("painted-again", "info", {"regions": names, "fills": sum(counts)}))
    return notes
