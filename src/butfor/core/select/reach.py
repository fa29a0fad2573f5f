"""What a run can and cannot show: its reach before drawing, and whether anything at all departs from the null."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from butfor.core.select.rules import bh
from butfor.core.types import Bools, Floats, Ints

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
