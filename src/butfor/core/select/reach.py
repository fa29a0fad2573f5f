"""What a run can and cannot show: its reach before drawing, and whether anything at all departs from the null."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

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
STOPPED = (
    "Drawing stopped once the run's own decisions were made ({rule} at {alpha:g}, {family}), so p-values are seldom "
    "much smaller than these took: for another alpha, rule or family run it again."
)


def reach(test: str, rule: str, alpha: float, family: int, draws: int, h: int = 1) -> list[str]:
    """Sentences on what cannot be found, before anything is drawn; `family` is the size of one family.

    >>> reach("irt", "bh", 0.1, 10, 100)
    []
    """
    if test in ("osft", "few-shot"):
        return _reach_competition(test, alpha, family, draws)
    if rule == "e-bh":
        return _reach_e(alpha, family, draws)
    harmonic = sum(1 / i for i in range(1, family + 1)) if rule == "by" else 1.0
    # the least p-value is 1 / (K + 1) for fixed draws and h / (n + h) for sequential ones
    needed = math.ceil(h * (family * harmonic / alpha - 1) - 1e-9)
    if draws >= needed:
        return []
    together = math.ceil(family * harmonic * h / (alpha * (draws + h)) - 1e-9)
    smallest = f"with {draws} draws no p-value is below {h}/{draws + h}"
    if rule in ("holm", "bonferroni") or together > family:
        return [f"Nothing can be chosen: {smallest}; {rule} over {family} hypotheses needs draws={needed} or more."]
    return [
        f"A lone signal cannot be found: {smallest}, so {rule} over {family} hypotheses at alpha={alpha:g} chooses "
        f"none unless {together} reach it together; a lone signal needs draws={needed}."
    ]


def reach_of_sampler(rule: str, alpha: float, family: int, floor: float) -> list[str]:
    """A sentence where the sampler's own least p-value, one over its donors, keeps a lone signal from being found.

    >>> reach_of_sampler("bh", 0.1, 10, floor=0.001)
    []
    """
    harmonic = sum(1 / i for i in range(1, family + 1)) if rule == "by" else 1.0
    together = math.ceil(family * harmonic * floor / alpha - 1e-9)
    if together <= 1:
        return []
    whole = rule in ("holm", "bonferroni") or together > family
    found = "nothing" if whole else f"none unless {together} reach it together"
    return [
        f"With this sampler no p-value is much below {floor:.2g}, one over the reference rows it draws from: {rule} "
        f"over {family} hypotheses at alpha={alpha:g} chooses {found}. More reference rows or fewer subsets reach "
        "further, and so does butfor.tabular.gaussian where columns are roughly normal."
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


def scales(spread: Floats, subset_of: Ints, names: tuple[str, ...]) -> list[str]:
    """A sentence where subsets differ so much in spread that few-shot scores favour the wide ones (METHODS 4)."""
    medians = np.array([np.median(spread[subset_of == j]) for j in range(len(names))])
    positive = np.flatnonzero(medians > 0)
    if positive.size < 2:
        return []
    wide, narrow = (int(positive[f(medians[positive])]) for f in (np.argmax, np.argmin))
    ratio = medians[wide] / medians[narrow]
    if ratio < 2.5:  # from here on few-shot finds a fraction of what the sequential test finds
        return []
    return [
        f"Outputs spread {ratio:.1f} times as far under {names[wide]!r} as under {names[narrow]!r}: few-shot scores "
        "favour the wide ones; test='sequential' is the better choice, or test=butfor.few_shot(scale='shrunk')."
    ]


def departs(kind: str, evidence: Floats, tested: Bools, decoys: int = 1) -> bool:
    """False if p-values (or the signs of z) look as they would if every null were true, at the 5 % level."""
    from scipy.stats import binomtest, kstest

    values = evidence[tested]
    if kind in "zw":
        values = values[values != 0]
    if not values.size:
        return False
    if kind == "e":
        return float(values.mean()) > 1 + 2 * float(values.std()) / math.sqrt(values.size)
    if kind in "zw":
        found = float(binomtest(int((values > 0).sum()), values.size, 1 / (decoys + 1), alternative="greater").pvalue)
    else:
        found = float(kstest(values, "uniform", alternative="greater").pvalue)
    return found < 0.05


def notes_after(
    kind: str,
    evidence: Floats,
    tested: Bools,
    chosen: Bools,
    decoys: int = 1,
    unchanging: int = 0,
    ordinary: str = ORDINARY,
) -> list[str]:
    """What to say once the selection is made; `unchanging` hypotheses left the family for want of variation."""
    notes = []
    if unchanging:
        notes.append(
            f"{unchanging} of {len(tested)} hypotheses showed no variation: whatever was drawn, the output stayed the "
            "same up to rounding. They cannot be important and left the family."
        )
    if not chosen.any() and len(chosen):
        if not departs(kind, evidence, tested, decoys):
            notes.append(ordinary)
        else:
            notes.append(
                "Nothing was chosen, though the evidence as a whole departs from the null: single hypotheses are too "
                "weak at this alpha; more draws or fewer, larger subsets may help."
            )
    return notes


def largest_family(groups: Ints | None, size: int) -> int:
    """Hypotheses of the largest family: the one that needs most draws."""
    return size if groups is None else int(np.bincount(groups).max(initial=0))


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


def notes_of_selection(
    kind: str,
    values: Floats,
    tested: Bools,
    chosen: Bools,
    groups: Ints | None,
    selection: tuple[str, float, str],
    unchanging: int,
    provenance: Mapping[str, Any],
) -> tuple[list[str], list[str]]:
    """What is to be said of a selection (rule, alpha, family) before and after what happened in the run."""
    rule, alpha, _ = selection
    family = largest_family(groups, len(chosen))
    before = reach(provenance["test"], rule, alpha, family, provenance["draws"], provenance["h"] or 1)
    if kind == "p" and not before:
        before = reach_of_sampler(rule, alpha, family, provenance.get("floor", 0.0))
    if provenance["interrupted"]:
        return before, []
    ordinary = AS_DRAWN if provenance.get("modality") in ("image", "text", "multimodal") else ORDINARY
    after = notes_after(kind, values, tested, chosen, provenance["draws"], unchanging, ordinary)
    stopped = _stopped_elsewhere(selection, provenance)
    if stopped or any("Nothing can be chosen" in note for note in before):
        after = [note for note in after if note != ordinary]  # nothing could have been found
    return before, [*after, *stopped, *nearly_all(chosen)]


def _stopped_elsewhere(selection: tuple[str, float, str], provenance: Mapping[str, Any]) -> list[str]:
    """A sentence where a sequential run was made for another selection, in which it then stopped drawing."""
    made = provenance.get("selection")
    if provenance["test"] != "sequential" or made is None or made == list(selection):
        return []
    rule, alpha, family = made
    return [STOPPED.format(rule=rule, alpha=alpha, family=f"family={family!r}")]
