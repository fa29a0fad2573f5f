"""A result in words, for terminals and notebooks."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.inference.bounds import simes_bounds
from butfor.inference.outputs import Target, averaged_target
from butfor.inference.selection import bh
from butfor.types import Array, Bools, Floats, Ints

if TYPE_CHECKING:
    from butfor.results.global_result import GlobalResult
    from butfor.results.result import Result


def reasons(result: Result, place: int, k: int) -> dict[str, Array]:
    """Columns of a table with at most `k` rows for the input at `place`: strongest first within each class of them."""
    from butfor.results.result import names_column

    rows = _strongest(result, np.flatnonzero(result.input_of == place))[:k]
    table = result.table.iloc[rows]
    words = [_sentence(result, int(row)) for row in rows]
    kept = [
        name
        for name in ("subset", "value", "effect", "effect_low", "effect_high", "surprise", "status")
        if name in table
    ]
    kept += [name for name in ("flip", "flip_low", "flip_high", "necessary") if name in table]
    found = {name: table[name].to_numpy() for name in kept}
    found["order"] = _order(result, rows)
    found["sentence"] = names_column(tuple(words))
    return found


def _strongest(result: Result, own: Ints) -> Ints:
    """Of the hypotheses of one input: what is established, strongest first, and then the finest parts that are not.

    Those are listed beside a group that is established, too: which of its parts come near is what is asked next.
    """
    decided, effect = result.decided, result.effects.effect[own]
    share = np.zeros(len(own)) if decided is None else np.nan_to_num(decided.share[own])
    kinds = _class(result)[own]
    order = np.lexsort((-np.abs(np.nan_to_num(effect)), -share, -kinds))
    sure = kinds[order] > 0
    known = np.isfinite(result.effects.effect) | (False if decided is None else np.isfinite(decided.share))
    near = finest_of(result, known)[own[order]] if known[own].any() else ~sure
    found = own[order[sure]]
    return np.concatenate([found[_apart(result, found)], own[order[~sure & near]]])


def _class(result: Result) -> Ints:
    """2: necessary to the decision; 1: established; 0: neither. Of each the finest parts."""
    return np.asarray(np.where(_needed(result) > 0, 2, finest_of(result, result.chosen)), np.int64)


def _needed(result: Result) -> Floats:
    """How often the decision would have been otherwise (H,), of what it is established to hang on; else 0."""
    if result.decided is None:
        return np.zeros(len(result.chosen))
    return np.where(finest_of(result, result.decided.necessary), np.nan_to_num(result.decided.share), 0.0)


def finest_of(result: Result, marked: Bools) -> Bools:
    """Those marked (H,) of which no part is marked."""
    layers = result.problem.layers
    return marked if layers is None else layers.finest(marked)


def _apart(result: Result, rows: Ints) -> Bools:
    """Leaves out what is a part of, or has as a part, a stronger reason that is listed already."""
    layers = result.problem.layers
    if layers is None:
        return np.ones(len(rows), bool)
    taken: set[int] = set()
    keep = []
    for row in rows.tolist():
        line, above = [row], int(layers.parent[row])
        while above >= 0:
            line.append(above)
            above = int(layers.parent[above])
        keep.append(not taken & set(line) and not any(row in _line(layers.parent, other) for other in taken))
        if keep[-1]:
            taken.add(row)
    return np.array(keep, bool)


def _line(parent: Ints, row: int) -> set[int]:
    found = set()
    while row >= 0:
        found.add(row)
        row = int(parent[row])
    return found


def _order(result: Result, rows: Ints) -> Array:
    """Whether each reason is sure to be stronger than the next: their intervals, widened for all of them, are apart."""
    words = np.full(len(rows), "not established", dtype=object)
    effect, low, high = (part[rows] for part in (result.effects.effect, result.effects.low, result.effects.high))
    wider = _widened(len(rows))
    least = np.maximum(np.abs(effect) - wider * (high - low) / 2, 0)
    most = np.abs(effect) + wider * (high - low) / 2
    for i in range(len(rows) - 1):
        if least[i] > np.nanmax(most[i + 1 :], initial=-np.inf):
            words[i] = "established"
    return words


def _widened(k: int) -> float:
    """By how much 95 % intervals grow to hold for k of them together (Bonferroni)."""
    from scipy.special import ndtri

    return float(ndtri(1 - 0.025 / max(1, k)) / ndtri(0.975))


def _sentence(result: Result, row: int) -> str:
    name = result.subset_names[int(result.subset_of[row])]
    effect, status = result.effects.effect[row], "established" if result.chosen[row] else "not established"
    words = f"{name}: moves the output by {effect:+.3g} ({status})" if np.isfinite(effect) else f"{name} ({status})"
    return words + (
        "" if result.decided is None else "; " + flip_sentence(result, row)[:1].lower() + flip_sentence(result, row)[1:]
    )


CALLED = {
    "image": "the image would have been called something else in {ways} % of its fills",
    "text": "the text would have been called something else in {ways} % of its fills",
}


def flip_sentence(result: Result, row: int) -> str:
    """In words: how often the decision would have been otherwise, but for a subset."""
    decided = result.decided
    assert decided is not None
    name = result.subset_names[int(result.subset_of[row])]
    name = f"the columns other than {name.removeprefix('all but ')}" if name.startswith("all but ") else name
    if not np.isfinite(decided.share[row]):
        return f"But for {name}: nothing was drawn."
    ways = _percent(decided.share, row)
    low, high = _percent(decided.low, row), _percent(decided.high, row)
    sure = (
        ""
        if decided.necessary[row]
        else ", not established as more likely than not"
        if decided.share[row] > decided.level
        else ""
    )
    happened = CALLED.get(result.modality, "the decision would have been otherwise in {ways} % of the draws")
    return f"But for {name} {happened.format(ways=ways)} (95 %: {low} to {high}{sure})."


def _percent(share: Floats, row: int) -> int:
    return round(100 * float(share[row]))


MOST_INPUTS = 3  # inputs with a sentence of their own in a summary
MOST_NAMED = 3
NEAR = 0.05  # flips of a part that are worth a word
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def answers(result: Result) -> list[str]:
    """What was found, the most telling first; never nothing."""
    decisions, others = decision_sentences(result), [*feature_sentences(result), *row_sentences(result)]
    decided = result.decided
    found = [*decisions, *others] if decided is None or decided.necessary.any() else [*others, *decisions]
    return [*found, *next_steps(result)]


def decision_sentences(result: Result, most: int = MOST_INPUTS) -> list[str]:
    """How many decisions hang on what, and a sentence on an input for each of what they hang on most often."""
    decided = result.decided
    if decided is None:
        return []
    needed = finest_of(result, decided.necessary)
    inputs = np.unique(result.input_of[decided.necessary])
    total = len(result.input_names)
    if not inputs.size:
        none = f"for none of {total} inputs is it" if total > 1 else "it is not"
        return [f"Decision: {none} established what it hangs on.{_nearest(result)}"]
    first = (
        f"Decision: for {_of(len(inputs), total)} it is established what the decision hangs on. {_most(result, needed)}"
    )
    examples = _examples(result, needed, most)
    return [first, *(f"  {result.input_names[i]!r}: {input_sentence(result, i)}" for i in examples)]


def _examples(result: Result, marked: Bools, most: int) -> list[int]:
    """An input for each of the subsets that are marked most often: the one that is surest of it, or of a part of it."""
    decided, rows = result.decided, np.flatnonzero(marked)
    assert decided is not None
    part, layers = np.zeros(len(marked)), result.problem.layers
    if layers is not None:
        np.maximum.at(part, layers.parent, np.nan_to_num(decided.share) * (layers.parent >= 0))
    count = np.bincount(result.subset_of[rows], minlength=len(result.subset_names))
    order = np.argsort(-count, kind="stable")[:most]
    found = []
    for subset in order[count[order] > 0]:
        own = rows[result.subset_of[rows] == subset]
        found.append(int(result.input_of[own[np.lexsort((-part[own], -decided.low[own]))[0]]]))
    return list(dict.fromkeys(found))


def _nearest(result: Result) -> str:
    """The likeliest change of a decision, where none is established; nothing where none was seen."""
    decided = result.decided
    assert decided is not None
    share = np.nan_to_num(decided.share, nan=-1.0)
    if not share.size or share.max() <= 0:
        return ""
    row = int(np.argmax(share))
    return f" The nearest is {result.input_names[int(result.input_of[row])]!r}: {flip_sentence(result, row)}"


def input_sentence(result: Result, place: int) -> str:
    """The strongest but-for reason of one input in words."""
    row = telling_row(result, place)
    return flip_sentence(result, row) + which_of(result, row)


def telling_row(result: Result, place: int) -> int:
    """The strongest but-for reason of one input: its finest necessary subset, else the likeliest one."""
    decided = result.decided
    assert decided is not None
    own = result.input_of == place
    needed = finest_of(result, decided.necessary) & own
    rows = np.flatnonzero(needed if needed.any() else own)
    return int(rows[np.argmax(np.nan_to_num(decided.share[rows], nan=-1.0))])


def which_of(result: Result, row: int) -> str:
    """Of a group none of whose parts is established: that it is not known which of them it is."""
    layers, decided = result.problem.layers, result.decided
    if layers is None or decided is None:
        return ""
    index = getattr(result.problem.block_of(row).subset.index, "size", 1)
    if index < 2:
        return ""
    parts = np.flatnonzero(layers.parent == row)
    parts = parts[np.nan_to_num(decided.share[parts], nan=-1.0) >= NEAR]
    words = f" Which of the {NUMBERS[index] if index < len(NUMBERS) else index} it hangs on is not established"
    if not parts.size:
        return f"{words}."
    likest = int(parts[np.argmax(decided.share[parts])])
    name = result.subset_names[int(result.subset_of[likest])]
    return f"{words}; of its parts {name} comes nearest ({100 * decided.share[likest]:.0f} %)."


def _most(result: Result, marked: Bools) -> str:
    """The subsets that are marked for most inputs; of a single input those that are."""
    one = len(result.input_names) == 1
    count = np.bincount(result.subset_of[marked], minlength=len(result.subset_names))
    strength = np.zeros(len(count))
    if one and result.decided is not None:
        strength[result.subset_of] = np.nan_to_num(result.decided.share)
    order = np.lexsort((-strength, -count))[:MOST_NAMED]
    named = [f"{result.subset_names[j]}" + ("" if one else f" ({count[j]})") for j in order if count[j]]
    left = int((count > 0).sum()) - len(named)
    more = f" and {left} more" if one and left > 0 else ""
    return f"{'In its finest parts' if one else 'Most often'}: {'; '.join(named)}{more}." if named else ""


def feature_sentences(result: Result) -> list[str]:
    """Which subsets set the inputs apart from the reference, in their finest established parts."""
    over = result.over_inputs
    if over is None:
        return []
    chosen = finest_subsets(result, over.chosen)
    if not chosen.size:
        return _averaged_out(result)
    order = chosen[np.argsort(-np.abs(over.effect[chosen]), kind="stable")][:6]
    named = [f"{result.subset_names[j]} ({over.effect[j]:+.3g})" for j in order]
    more = f" and {chosen.size - len(order)} more" if chosen.size > len(order) else ""
    return [
        "Over all inputs: what sets them apart from the reference, and by how much on average"
        f"{_of_class(result)} (established, approximate): {'; '.join(named)}{more}."
    ]


def _of_class(result: Result) -> str:
    """Which of two classes means over inputs are of, where inputs are called either."""
    averaged = features_target(result)
    if averaged.classes is None or (result.outputs.argmax(axis=1) == averaged.classes[0]).all():
        return ""
    return f" for {_called(result, averaged.classes)[0]!r}"


def features_target(result: Result) -> Target:
    """What means over inputs are of, where nothing but the predicted class was asked about."""
    if result.provenance["target"] != "predicted":
        return Target("output")
    return averaged_target(Target("predicted"), result.outputs, result.provenance["link"])


def _called(result: Result, classes: Ints) -> list[Any]:
    names = result.output_names or range(result.outputs.shape[1])
    return [names[place] for place in classes.tolist()]


def _averaged_out(result: Result) -> list[str]:
    """Why nothing may be established over inputs that are called by several classes."""
    called = _called(result, np.unique(result.outputs.argmax(axis=1)))
    if features_target(result).kind != "predicted" or len(called) < 2:
        return []
    return [
        f"Over all inputs nothing is established. They are called {' or '.join(map(str, called))} and each is asked "
        "about its own class, so what speaks for one class and against another averages out; "
        f"target={called[0]!r} asks about one of them for all."
    ]


def finest_subsets(result: Result, chosen: Bools) -> Ints:
    """The subsets chosen (S,) of which no part is chosen."""
    layers, size = result.problem.layers, len(chosen)
    if layers is None:
        return np.flatnonzero(chosen)
    parent = layers.parent[:size]
    return np.flatnonzero(chosen & ~np.isin(np.arange(size), parent[chosen]))


def row_sentences(result: Result) -> list[str]:
    """For how many inputs something was established, in its finest parts."""
    if not result.chosen.any():
        return []
    finest = finest_of(result, result.chosen)
    inputs = len(np.unique(result.input_of[result.chosen]))
    return [
        f"Input by input: something is established for {_of(inputs, len(result.input_names))}. {_most(result, finest)}"
    ]


def next_steps(result: Result) -> list[str]:
    """After a run that established nothing input by input: which depth has an answer, and the call that looks there."""
    steps = next_calls(result, largest=True) if len(result.chosen) and not result.chosen.any() else []
    return [f"Nothing is established input by input. To look at: {'; '.join(steps)}."] if steps else []


def next_calls(result: Result, *, largest: bool) -> list[str]:
    """Where a run that established nothing input by input has an answer or comes near one; its largest effect."""
    steps = []
    over, decided = result.over_inputs, result.decided
    if over is not None and over.chosen.any():
        steps.append("result.features has what is established over all inputs together")
    if decided is not None and decided.necessary.any():
        steps.append("result.table.necessary has what decisions hang on")
    known = np.flatnonzero(np.isfinite(result.effects.effect))
    if known.size:
        row = int(known[np.argmax(np.abs(result.effects.effect[known]))])
        name, subset = result.input_names[int(result.input_of[row])], result.subset_names[int(result.subset_of[row])]
        effect = f"the largest effect is {result.effects.effect[row]:+.3g}, of {subset!r} on input {name!r}"
        steps += [f"{effect} (not established)"] if largest else []
        steps.append(f"result.reasons({name!r}) lists what comes near")
    if decided is None and result.modality == "table":
        one, edge = "outputs" if result.outputs.shape[1] == 1 else "outputs[:, 0]", np.median(result.outputs[:, :1])
        steps.append(f"decide=lambda outputs: {one} >= {edge:.4g} asks what such a decision hangs on, without pooling")
    return steps


def _of(count: int, total: int) -> str:
    return f"{count} of {total} inputs" if total != 1 else "the input"


ORDINARY = (
    "These inputs are ordinary for this reference: the evidence shows no departure from the null. That is the right "
    "answer if the inputs come from the population the sampler was fitted on; to learn what sets them apart, fit the "
    "sampler on what you compare against (controls, the other class, last year) and explain the others."
)
AS_DRAWN = (
    "The inputs are as the sampler would draw them: the evidence shows no departure from the null. That is the right "
    "answer where what is tested might as well have been drawn; to learn what sets it apart, use a sampler of what you "
    "compare against (other images, texts of the other class)."
)
SELDOM = 0.02  # the share of the reference beyond inputs from which on they look picked
LEAST_PICKED = 5  # inputs: fewer may well be so by chance
ONE_PICKED = (
    "If this input was picked because of its output, what is chosen says no more than that; what its decision hangs on "
    "(flip, necessary) holds all the same."
)
FEW_PICKED = (
    "If these inputs were picked because of their outputs, what is chosen says no more than that; what their decisions "
    "hang on (flip, necessary) holds all the same."
)
IF_PICKED = "If the inputs were picked by that, say so with picked=: without it what is chosen means nothing."
STOPPED = (
    "Drawing stopped once the run's own decisions were made ({rule} at {alpha:g}, {family}), so p-values are seldom "
    "much smaller than these took: for another alpha, rule or family run it again."
)


def reach(test: str, rule: str, alpha: float, family: int, draws: int, h: int = 1, floor: float = 0.0) -> list[str]:
    """What cannot be found, before anything is drawn: the one limit that binds, in a sentence, or nothing.

    `family` is the size of one family, `floor` the least p-value that the sampler itself allows, one over its donors.

    >>> reach("irt", "bh", 0.1, 10, 100)
    []
    >>> reach("sequential", "bh", 0.1, 100, 100_000, h=10, floor=0.2)[0][:60]
    'The reference is the limit: no p-value is much below 0.2, on'
    """
    if test in ("osft", "few-shot"):
        return _reach_competition(test, alpha, family, draws)
    if rule == "e-bh":
        return _reach_e(alpha, family, draws)
    harmonic = sum(1 / i for i in range(1, family + 1)) if rule == "by" else 1.0
    least = h / (draws + h)  # 1 / (K + 1) for fixed draws, h / (n + h) for sequential ones
    together = math.ceil(family * harmonic * max(least, floor) / alpha - 1e-9)
    if together <= 1:
        return []
    nothing = rule in ("holm", "bonferroni") or together > family
    found = "nothing" if nothing else f"none unless {together} come as far together"
    first = "Nothing can be chosen" if nothing else "A lone signal cannot be found"
    named = "bh, weighted or not," if rule == "adaptive" else rule
    if floor >= least:
        return [
            f"The reference is the limit: no p-value is much below {floor:.2g}, one over its rows, so {named} over "
            f"{family} hypotheses at alpha={alpha:g} chooses {found}. More reference rows reach further, and so do "
            "fewer subsets or a group of columns in place of each of them."
        ]
    needed = math.ceil(h * (family * harmonic / alpha - 1) - 1e-9)
    enough = floor == 0 or family * harmonic * floor <= alpha
    hint = f"; a lone signal needs draws={needed}" if enough else ""
    return [
        f"{first}: with {draws} draws no p-value is below {h}/{draws + h}, so {named} over {family} hypotheses at "
        f"alpha={alpha:g} chooses {found}{hint}."
    ]


def reach_of_list(most: int, least: Floats) -> list[str]:
    """A sentence where exact p-values cannot be small: `least` (H,) of each, `most` to be chosen were all at theirs.

    >>> reach_of_list(2, np.array([0.0, 0.01]))
    []
    """
    if most == len(least) or not least.any():
        return []
    return [
        f"At most {most} of {len(least)} hypotheses could be chosen: an exact p-value is never below the probability "
        f"of what was observed and of all that is not listed, {np.median(least[least > 0]):.2g} for half of them; list "
        "more (listed=), or use test='few-shot' or test='osft', which draw."
    ]


def reach_of_layers(resolution: Ints, draws: Ints, is_open: Bools, most: int) -> list[str]:
    """A sentence for each resolution where drawing ended, for nothing more could be chosen there with `most` draws.

    >>> reach_of_layers(np.array([0, 1, 1]), np.array([60, 8, 0]), np.array([False, True, False]), 60)[0][:66]
    'At resolution 1 drawing ended early: with 60 draws nothing more co'
    """
    early = is_open & (draws < most)
    return [
        f"At resolution {level} drawing ended early: with {most} draws nothing more could be chosen there, where "
        f"{(draws[own] > 0).sum()} of a family of {own.sum()} were drawn and {(early & own).sum()} of them are open; "
        "more draws (draws=), fewer inputs or a coarser least size reach further."
        for level in np.unique(resolution[early])
        for own in [resolution == level]
    ]


def _reach_competition(test: str, alpha: float, family: int, draws: int) -> list[str]:
    decoys = 1 if test == "osft" else draws
    least = math.ceil(1 / (alpha * decoys) - 1e-9)
    if family < least:
        return [
            f"{test} at alpha={alpha:g} with draws={draws} cannot choose fewer than {least} hypotheses, but a family "
            f"has only {family}: it can choose nothing; use test='sequential' or a larger alpha."
        ]
    return [f"{test} at alpha={alpha:g} chooses at least {least} hypotheses of a family or none."] if least > 1 else []


def _reach_e(alpha: float, family: int, draws: int) -> list[str]:
    together = math.ceil(family / (alpha * (draws + 1)) - 1e-9)
    if together <= 1:
        return []
    return [
        f"e-bh with draws={draws} needs at least {together} of {family} hypotheses to be near their largest e-value, "
        f"{draws + 1}, together; rule='by' reaches further where draws are cheap."
    ]


LEAST_REPEATS = 3  # inputs with a subset, from which on its spread is compared with that of others


def scales(spread: Floats, subset_of: Ints, names: tuple[str, ...]) -> list[str]:
    """A sentence where subsets differ so much in spread that few-shot scores favour the wide ones (METHODS 4)."""
    counts = np.bincount(subset_of, minlength=len(names))
    medians = np.array([np.median(spread[subset_of == j]) if counts[j] else 0.0 for j in range(len(names))])
    positive = np.flatnonzero((medians > 0) & (counts >= LEAST_REPEATS))  # a word that stands once says nothing
    if positive.size < 2:
        return []
    wide, narrow = (int(positive[f(medians[positive])]) for f in (np.argmax, np.argmin))
    ratio = medians[wide] / medians[narrow]
    if ratio < 2.5:  # from here on few-shot finds a fraction of what the sequential test finds
        return []
    times = f"{ratio:.1f} times" if ratio < 100 else "more than 100 times"
    return [
        f"Outputs spread {times} as far under {names[wide]!r} as under {names[narrow]!r}: few-shot scores "
        "favour the wide ones; test='sequential' is the better choice, or test=butfor.few_shot(scale='shrunk')."
    ]


def departs(kind: str, evidence: Floats, tested: Bools, subset_of: Ints | None = None, decoys: int = 1) -> bool:
    """False if no subset's p-values (or signs) depart from what they would be if every null were true.

    Each subset by itself (one-sided Kolmogorov-Smirnov or binomial, Benjamini-Hochberg at 5 % over subsets): one that
    matters is not seen among many that do not. A test over all of them together counts as well.
    """
    groups = [tested]
    if subset_of is not None:
        groups += [tested & (subset_of == j) for j in np.unique(subset_of[tested])]
    p = np.array([_departure(kind, evidence[rows], decoys) for rows in groups])
    return bool(p[0] < 0.05 or bh(p[1:], 0.05).any())


def _departure(kind: str, values: Floats, decoys: int) -> float:
    """The p-value of "these look as they would if every null were true"."""
    from scipy.stats import binomtest, kstest, norm

    if kind in "zw":
        values = values[values != 0]
    if not values.size:
        return 1.0
    if kind == "e":
        return float(norm.sf((values.mean() - 1) * math.sqrt(values.size) / max(float(values.std()), 1e-300)))
    if kind in "zw":
        return float(binomtest(int((values > 0).sum()), values.size, 1 / (decoys + 1), alternative="greater").pvalue)
    return float(kstest(values, "uniform", alternative="greater").pvalue)


def notes_after(
    departed: bool,
    chosen: Bools,
    tested: Bools,
    unchanging: int = 0,
    ordinary: str = ORDINARY,
    finished: bool = True,
    pooled: bool = True,
) -> list[str]:
    """What to say once the selection is made; `unchanging` hypotheses left the family for want of variation.

    `pooled`: subsets were tested over all inputs together as well, so that there is something to look at.

    Inputs are called ordinary only where no subset departs by its own test, and never from upper ends of p-values that
    were not `finished`.
    """
    notes = []
    if unchanging:
        notes.append(
            f"{unchanging} of {len(tested)} hypotheses showed no variation: whatever was drawn, the output stayed the "
            "same up to rounding. They cannot be important and left the family."
        )
    if not chosen.any() and len(chosen):
        if departed:
            where = "result.features and at larger subsets" if pooled else "larger subsets"
            notes.append(
                "Nothing was chosen, though the evidence as a whole departs from the null: single hypotheses are too "
                f"weak at this alpha; look at {where}."
            )
        elif finished:
            notes.append(ordinary)
    return notes


def largest_family(groups: Ints | None, size: int) -> int:
    """Hypotheses of the largest family: the one that needs most draws."""
    return size if groups is None else int(np.bincount(groups).max(initial=0))


def called_alike(decisions: Ints, reference: Ints, name: object) -> list[str]:
    """A sentence where all inputs (n,) are given one class that hardly a row of the reference (m,) is given.

    >>> called_alike(np.ones(5, int), np.zeros(100, int), "declined")[0][:64]
    "Every input is called 'declined', and no row of the reference is"
    """
    if not len(decisions) or (decisions != decisions[0]).any():
        return []
    share = float((reference == decisions[0]).mean())
    if share > SELDOM:
        return []
    few = f"only {100 * share:.1f} % of the reference is" if share else "no row of the reference is"
    found = f"{_every(len(decisions))} is called {name!r}, and {few}."
    if len(decisions) < LEAST_PICKED:
        return [f"{found} {ONE_PICKED if len(decisions) == 1 else FEW_PICKED}"]
    return [f"{found} {IF_PICKED} What their decisions hang on (flip, necessary) needs no such care."]


def _every(inputs: int) -> str:
    return "The input" if inputs == 1 else "Every input"


def asks_if_picked(notes: Sequence[str]) -> bool:
    """Whether one of them says that inputs look as if they had been picked by their output."""
    return any(words in note for note in notes for words in (ONE_PICKED, FEW_PICKED, IF_PICKED))


def looks_picked(outputs: Floats, reference: Floats, one: str = "outputs", *, decided: bool = False) -> list[str]:
    """A sentence where a threshold of the output tells the inputs (n,) from nearly all of the reference (m,).

    `one` is how that output is taken from all; with a rule to decide (`decided`) nobody needs to be told of one.

    >>> looks_picked(np.arange(5.0) + 10, np.arange(100.0) / 100)[0][:46]
    'Every input has an output of at least 10, only'
    """
    if not len(outputs):
        return []
    above, below = (reference >= outputs.min()).mean(), (reference <= outputs.max()).mean()
    if min(above, below) > SELDOM:
        return []
    side, edge, share = ("at least", outputs.min(), above) if above <= below else ("at most", outputs.max(), below)
    found = f"{_every(len(outputs))} has an output of {side} {edge:.4g}, only {share:.1%} of the reference does."
    if len(outputs) < LEAST_PICKED:
        return [f"{found} {ONE_PICKED if len(outputs) == 1 else FEW_PICKED}"]
    rule = f"decide=lambda outputs: {one} {'>=' if above <= below else '<='} {edge:.4g}"
    rather = f"Why they were flagged is another question, which needs no such care: {rule}."
    return [f"{found} {IF_PICKED}" if decided else f"{found} {IF_PICKED} {rather}"]


def nearly_all(chosen: Bools) -> list[str]:
    """What to say where most hypotheses are chosen: for any kind of input.

    >>> nearly_all(np.ones(4, bool))
    []
    """
    if len(chosen) < 20 or chosen.mean() <= 0.5:
        return []
    return [
        f"{chosen.mean():.0%} of all hypotheses were chosen: these inputs are altogether unlike the reference, or the "
        "sampler is too narrow; butfor.check_sampler on held-out rows of the reference tells which."
    ]


@dataclass(frozen=True, eq=False)
class Selected:
    """A selection and the evidence it was made from, as far as notes are about it."""

    kind: str
    values: Floats
    subset_of: Ints
    tested: Bools
    open: Bools
    chosen: Bools
    groups: Ints | None
    rule: str
    alpha: float
    family: str
    unchanging: int
    features: bool  # whether a subset is chosen over all inputs together
    pooled: bool  # whether subsets were tested so at all: not where inputs were picked


def notes_of_selection(found: Selected, provenance: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """What is to be said of a selection before and after what happened in the run."""
    size = largest_family(found.groups, len(found.chosen))
    floor = provenance.get("floor", 0.0)
    steps = provenance["h"] or 1
    before = reach(provenance["test"], found.rule, found.alpha, size, provenance["draws"], steps, floor)
    if provenance["interrupted"]:
        return before, []
    ordinary = AS_DRAWN if provenance.get("modality") in ("image", "text", "multimodal") else ORDINARY
    decoys = provenance["draws"]
    departed = found.features or (
        not found.chosen.any() and departs(found.kind, found.values, found.tested, found.subset_of, decoys)
    )
    finished = not (found.open & found.tested).any()
    after = notes_after(departed, found.chosen, found.tested, found.unchanging, ordinary, finished, found.pooled)
    stopped = _stopped_elsewhere([found.rule, found.alpha, found.family], provenance)
    if stopped or any("Nothing can be chosen" in note or "chooses nothing" in note for note in before):
        after = [note for note in after if note != ordinary]  # nothing could have been found
    return before, [*after, *stopped, *nearly_all(found.chosen)]


def _stopped_elsewhere(selection: list[object], provenance: Mapping[str, Any]) -> list[str]:
    """A sentence where a sequential run was made for another selection, in which it then stopped drawing."""
    made = provenance.get("selection")
    if provenance["test"] != "sequential" or made is None or made == selection:
        return []
    rule, alpha, family = made
    return [STOPPED.format(rule=rule, alpha=alpha, family=f"family={family!r}")]


WIDTH = 110
CONFIDENCE = 0.95


def headline(result: Result) -> str:
    """One sentence: how many of how many, by which test."""
    said = result.provenance
    family = "over the run" if result.family == "run" else "within each input"
    return (
        f"{int(result.chosen.sum())} of {len(result.chosen)} hypotheses chosen "
        f"({_counted(len(result.input_names), 'input')}, {_counted(len(result.subset_names), 'subset')}; "
        f"{_tested(result)}, "
        f"{said['alternative']}, {result.rule} at {result.alpha:g} {family}; {result.rows:,} model rows)"
    )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _tested(result: Result) -> str:
    """The test, and how many draws it took; hypotheses all of whose outcomes are known take none."""
    known, test = result.provenance.get("exact", 0), result.provenance["test"]
    if not isinstance(known, int) or known <= 0:
        return f"{test}, {_drawn(result)}"
    if result.exact:
        return "exact, no draws"
    return f"exact for {known}, {test} for the others, {_drawn(result)}"


def _drawn(result: Result) -> str:
    draws = result.evidence.draws
    if not len(draws) or draws.min() != draws.max():
        return f"{draws.mean():.0f} draws on average" if len(draws) else "no draws"
    return "one draw each" if draws[0] == 1 else f"{draws[0]} draws each"


@dataclass(frozen=True)
class SubsetRow:
    """What was found for one subset over all inputs."""

    name: str
    chosen: int
    tested: int
    effect: float  # mean over the inputs it was chosen for; NaN: not estimated
    true: int | None  # at least so many are true, all such statements together with 95 % confidence


def by_subset(result: Result) -> list[SubsetRow]:
    """One row per subset, the most often chosen first."""
    size = len(result.subset_names)
    chosen = np.bincount(result.subset_of, weights=result.chosen, minlength=size)
    tested = np.bincount(result.subset_of, minlength=size)
    known = result.chosen & ~np.isnan(result.effects.effect)
    total = np.bincount(result.subset_of[known], weights=result.effects.effect[known], minlength=size)
    count = np.bincount(result.subset_of[known], minlength=size)
    mean = np.divide(total, count, out=np.full(size, np.nan), where=count > 0)
    true = _true(result, result.subset_of, size)
    order = np.argsort(-chosen, kind="stable")
    return [
        SubsetRow(
            result.subset_names[j],
            int(chosen[j]),
            int(tested[j]),
            float(mean[j]),
            None if true is None else int(true[j]),
        )
        for j in order
    ]


def _true(result: Result, groups: np.ndarray[tuple[int, ...], np.dtype[np.int64]], size: int) -> list[int] | None:
    if not _bounded(result):
        return None
    return [int(n) for n in simes_bounds(result.evidence.values, CONFIDENCE).by_group(groups, size)]


def bound_sentence(result: Result) -> str:
    """In words: how many discoveries are true at least, and in how many inputs there is one. Empty without p-values."""
    true = result.bound(result.chosen, CONFIDENCE) if _bounded(result) else 0
    if not true:
        return ""
    inputs = sum(n > 0 for n in _true(result, result.input_of, len(result.input_names)) or [])
    named = f", {_counted(inputs, 'input')} among them with a true one of their own," if inputs else ""
    return (
        f"With {CONFIDENCE:.0%} confidence at least {true} of the {int(result.chosen.sum())} chosen are true{named} "
        "whatever you looked at first, if p-values are independent or positively dependent; result.bound(rows) says "
        "how many of any rows you pick."
    )


def _bounded(result: Result) -> bool:
    """Whether there are p-values that mean something: without a guarantee, or of picked inputs, they bound nothing."""
    return (
        result.evidence.kind == "p"
        and result.guarantee.controls != "nothing"
        and not asks_if_picked(result.run_notes)  # nobody knows whether they were
    )


def summary(result: Result, most: int = 15) -> str:
    """The answer first: what decides, which subsets, for which inputs; then notes, the control, the guarantee."""
    lines = [*textwrap.wrap(headline(result), WIDTH), ""]
    for sentence in answers(result):
        lines += textwrap.wrap(sentence, WIDTH)
    rows = [row for row in by_subset(result) if row.chosen]
    if rows:
        lines.append("")
        width = max(len("subset"), *(len(row.name) for row in rows[:most]))
        columns = _columns(rows)
        lines.append("  ".join([f"{'subset':<{width}}", *columns]))
        for k, row in enumerate(rows[:most]):
            cells = [f"{cells[k]:>{len(title)}}" for title, cells in columns.items()]
            lines.append("  ".join([f"{row.name:<{width}}", *cells]))
        if len(rows) > most:
            lines.append(f"... and {len(rows) - most} more subsets; see result.table")
    lines.append("")
    for text in (bound_sentence(result), *(f"Note: {note}" for note in result.notes), *promise(result)):
        lines += textwrap.wrap(text, WIDTH)
    return "\n".join(lines)


def promise(result: Result) -> list[str]:
    """What the same test says of the reference's own rows, and what is guaranteed."""
    control = [] if result.control is None else [f"Control: {result.control}"]
    return [*control, f"Guarantee: {result.guarantee}"]


def _columns(rows: Sequence[SubsetRow]) -> dict[str, list[str]]:
    """What is known of the subsets, title -> a cell for each; a column with nothing in it is left out."""
    bounded = any(row.true for row in rows)  # "at least 0" says nothing
    columns = {
        "chosen for": [f"{row.chosen} of {row.tested}" for row in rows],
        "at least true": [str(row.true) for row in rows] if bounded else [],
        "mean effect": ["" if np.isnan(row.effect) else f"{row.effect:+.3g}" for row in rows],
    }
    return {title: cells for title, cells in columns.items() if any(cells)}


def number(value: float, *, sign: bool = False) -> str:
    """A number as a person would write it, with a true minus sign.

    >>> number(1234.5), number(-0.00012), number(12345678.0), number(0.5, sign=True), number(float("nan"))
    ('1,234', '−0.00012', '12,345,678', '+0.5', '')
    >>> number(0.0, sign=True)
    '0'
    """
    value = float(value)
    if np.isnan(value):
        return ""
    plus = "+" if sign and value else ""
    large = 1e3 <= abs(value) < 1e9
    return (f"{value:{plus},.0f}" if large else f"{value:{plus}.3g}").replace("-", "−")


def to_scale(values: Floats, largest: Floats) -> Floats:
    """Numbers rounded to a thousandth of the power of ten of the largest beside them: what is noise there reads 0.

    >>> to_scale(np.array([0.653, 0.0028449, -1.7e-07]), np.array([0.653])).tolist()
    [0.653, 0.0028, 0.0]
    """
    size = np.where(np.isfinite(largest) & (largest > 0), largest, 1.0)
    grain = 10.0 ** (np.floor(np.log10(size)) - 3)
    coarse = np.round(values / grain) * grain + 0.0  # no minus sign before a zero
    return np.where(np.abs(values) < 100 * grain, coarse, values)  # three digits are shown: none is rounded twice


def change(value: float) -> str:
    """A difference of two outputs, with its sign.

    >>> change(-0.5), change(0.0), change(-0.0002), change(1234.5)
    ('−0.500', '0', '−0.0002', '+1.23e+03')
    """
    if not value:
        return "0"
    return (f"{value:+.3f}" if 0.0005 <= abs(value) < 100 else f"{value:+.{1 if abs(value) < 1 else 3}g}").replace(
        "-", "−"
    )


def are_probabilities(outputs: Floats) -> bool:
    """Whether the outputs (n, classes) of each row are shares of one."""
    return bool(outputs.min() >= 0 and np.allclose(outputs.sum(axis=1), 1, atol=1e-3))


def are_logits(outputs: Floats) -> bool:
    """Whether there are several outputs (n, classes) that neither sum to one nor all lie between 0 and 1.

    Those that lie there without summing to one are a multi-label model's: each is a probability of its own.
    """
    between = outputs.min() >= 0 and outputs.max() <= 1
    return bool(outputs.shape[1] > 1 and not between and not are_probabilities(outputs))


def probabilities(outputs: Floats) -> Floats:
    """Outputs (n, classes) as probabilities: the softmax of logits, and whatever else as it is.

    >>> probabilities(np.array([[3.0, 3.0]])).tolist(), probabilities(np.array([[0.25, 0.75]])).tolist()
    ([[0.5, 0.5]], [[0.25, 0.75]])
    >>> probabilities(np.array([[0.99, 0.97]])).tolist()
    [[0.99, 0.97]]
    """
    return softmax(outputs) if are_logits(outputs) else outputs


def softmax(outputs: Floats) -> Floats:
    """Logits (n, classes) as probabilities."""
    raised = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


GLOBAL_WIDTH = 110


def global_headline(result: GlobalResult) -> str:
    """One sentence: how many of how many, by which test."""
    said, found = result.provenance, result.evidence
    if result.mode == "holdout":
        test = f"holdout randomisation test, {said['loss']} loss"
    else:
        test = f"contrast with the reference, {said['alternative']}"
    drawn = {0: "exact, no draws", 1: "one draw of each input"}.get(found.draws, f"{found.draws} draws of each input")
    by = f"{found.passes} passes" if found.passes else "Student's t with the error of the sampler's fit"
    return (
        f"{int(result.chosen.sum())} of {len(result.chosen)} subsets chosen over {result.inputs} inputs ({test}; "
        f"{drawn}, {by}, {result.rule} at {result.alpha:g}; {result.rows:,} model rows)"
    )


def effect_name(result: GlobalResult) -> str:
    """What the effect measures, in a few words."""
    if result.mode == "holdout":
        return f"mean increase of the {result.provenance['loss']} loss when redrawn"
    link = result.provenance.get("link")
    return f"mean {f'{link} of the output' if link else 'output'} minus mean counterfactual"


def ranked(result: GlobalResult) -> list[tuple[str, float, float, float, float]]:
    """Chosen subsets, largest effect first: name, effect, low, high, p."""
    effects, p = result.effects, result.evidence.p
    order = np.lexsort((p, -np.abs(np.nan_to_num(effects.effect))))
    return [
        (result.subset_names[j], float(effects.effect[j]), float(effects.low[j]), float(effects.high[j]), float(p[j]))
        for j in order
        if result.chosen[j]
    ]


def global_summary(result: GlobalResult, most: int = 15) -> str:
    """Headline, the chosen subsets with their effects, notes, guarantee."""
    lines = [*textwrap.wrap(global_headline(result), GLOBAL_WIDTH), ""]
    rows = ranked(result)
    if rows:
        width = max(len("subset"), *(len(row[0]) for row in rows[:most]))
        lines.append(f"{'subset':<{width}}  {'effect (95 % interval)':<32}  p        effect: {effect_name(result)}")
        lines += [f"{row[0]:<{width}}  {_interval(row):<32}  {row[4]:.3g}" for row in rows[:most]]
        if len(rows) > most:
            lines.append(f"... and {len(rows) - most} more subsets; see result.table")
        lines.append("")
    for note in result.notes:
        lines += textwrap.wrap(f"Note: {note}", GLOBAL_WIDTH)
    lines += textwrap.wrap(f"Guarantee: {result.guarantee}", GLOBAL_WIDTH)
    return "\n".join(lines)


def _interval(row: tuple[str, float, float, float, float]) -> str:
    _, effect, low, high, _ = row
    if np.isnan(effect):
        return "not estimated"
    return f"{effect:+.3g} ({low:+.3g} to {high:+.3g})" if low == low else f"{effect:+.3g}"
