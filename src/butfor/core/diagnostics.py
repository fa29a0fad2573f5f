"""What a run can and cannot show: its reach before drawing, and whether anything at all departs from the null."""

from __future__ import annotations

import math

import numpy as np

from butfor.core.types import Bools, Floats

ORDINARY = (
    "These inputs are ordinary for this reference: the evidence shows no departure from the null at all. That is the "
    "right answer if the inputs come from the population the sampler was fitted on; to learn what sets them apart, fit "
    "the sampler on what you compare against (controls, the other class, last year) and explain the others."
)


def reach(test: str, rule: str, alpha: float, family: int, draws: int) -> list[str]:
    """Sentences on what cannot be found, before anything is drawn; `family` is the size of one family.

    >>> reach("irt", "bh", 0.1, 10, 100)
    []
    """
    if test == "osft":
        least = math.ceil(1 / alpha - 1e-9)
        if family >= least:
            return [f"OSFT at alpha={alpha:g} chooses at least {least} hypotheses of a family or none."]
        return [
            f"OSFT at alpha={alpha:g} cannot choose fewer than {least} hypotheses, but a family has only {family}: "
            "it can choose nothing; use test='irt' or a larger alpha."
        ]
    harmonic = sum(1 / i for i in range(1, family + 1)) if rule == "by" else 1.0
    needed = math.ceil(family * harmonic / alpha - 1 - 1e-9)
    if draws >= needed:
        return []
    together = math.ceil(family * harmonic / (alpha * (draws + 1)) - 1e-9)
    smallest = f"with {draws} draws no p-value is below 1/{draws + 1}"
    if rule in ("holm", "bonferroni") or together > family:
        return [f"Nothing can be chosen: {smallest}; {rule} over {family} hypotheses needs draws={needed} or more."]
    return [
        f"A lone signal cannot be found: {smallest}, so {rule} over {family} hypotheses at alpha={alpha:g} chooses "
        f"none unless {together} reach it together; a lone signal needs draws={needed}."
    ]


def departs(kind: str, evidence: Floats, tested: Bools) -> bool:
    """False if p-values (or the signs of z) look as they would if every null were true, at the 5 % level."""
    from scipy.stats import binomtest, kstest

    values = evidence[tested]
    if kind == "z":
        values = values[values != 0]
    if not values.size:
        return False
    if kind == "z":
        found = float(binomtest(int((values > 0).sum()), values.size, alternative="greater").pvalue)
    else:
        found = float(kstest(values, "uniform", alternative="greater").pvalue)
    return found < 0.05


def notes_after(kind: str, evidence: Floats, tested: Bools, chosen: Bools) -> list[str]:
    """What to say once the selection is made."""
    notes = []
    unchanging = int((~tested).sum())
    if unchanging:
        notes.append(
            f"{unchanging} of {len(tested)} hypotheses showed no variation: whatever was drawn, the output stayed the "
            "same to the last digit. They cannot be important and left the family."
        )
    if not chosen.any() and len(chosen):
        if not departs(kind, evidence, tested):
            notes.append(ORDINARY)
        else:
            notes.append(
                "Nothing was chosen, though the evidence as a whole departs from the null: single hypotheses are too "
                "weak at this alpha; more draws or fewer, larger subsets may help."
            )
    return notes


def largest_family(groups: np.ndarray[tuple[int], np.dtype[np.int64]] | None, size: int) -> int:
    """Hypotheses of the largest family: the one that needs most draws."""
    return size if groups is None else int(np.bincount(groups).max(initial=0))
