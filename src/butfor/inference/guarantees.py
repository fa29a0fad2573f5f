"""The table of promises: for every test and rule what is controlled, what that needs, and who proved it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from butfor.types import Floats, InputError, between


@dataclass(frozen=True)
class Promise:
    """Error rate that a rule controls, what it needs of the evidence, and who proved it."""

    controls: Literal["FDR", "FWER"]
    needs: str
    proven_by: str


ANY = "whatever the dependence between hypotheses"
P_RULES: dict[str, Promise] = {
    "bh": Promise(
        "FDR",
        "the p-values are independent or positively dependent",
        "Benjamini & Hochberg 1995; Benjamini & Yekutieli 2001",
    ),
    "by": Promise("FDR", ANY, "Benjamini & Yekutieli 2001"),
    "holm": Promise("FWER", ANY, "Holm 1979"),
    "bonferroni": Promise("FWER", ANY, "Bonferroni; Dunn 1961"),
}
OVER_INPUTS = (
    "inputs (or their groups) are independent of each other given model and sampler, whatever the dependence within an "
    "input"
)
ADAPTIVE = {
    "adaptive": Promise(
        "FDR",
        OVER_INPUTS,
        "checked by simulation, not proven; after Ignatiadis & Huber 2021, Genovese, Roeder & Wasserman 2006",
    )
}
STRICT = "weights are fixed given all other inputs; Ignatiadis & Huber 2021; e-BH, Wang & Ramdas 2022"
SEQUENTIAL = "Besag & Clifford 1991; Fischer, Barry & Ramdas 2024"
PROMISES: dict[str, dict[str, Promise]] = {
    "sequential": {
        rule: replace(promise, proven_by=f"{SEQUENTIAL}; {promise.proven_by}")
        for rule, promise in (P_RULES | ADAPTIVE).items()
    },
    "irt": {
        **P_RULES,
        **ADAPTIVE,
        "adaptive-strict": Promise("FDR", OVER_INPUTS, STRICT),
        "e-bh": Promise("FDR", ANY, "soft-rank e-values; Wang & Ramdas 2022"),
    },
    "osft": {
        "knockoff+": Promise(
            "FDR",
            "the signs of the null differences are independent coins, whatever their sizes",
            "Barber & Candes 2015, knockoff+; Burns, Thomason & Tansey 2020, Theorem 1",
        )
    },
    "where": {
        "fixed-sequence": Promise(
            "FWER",
            "fills are drawn independently of the regions, which come from other draws",
            "Maurer, Hothorn & Lehmacher 1995, on bets of Waudby-Smith & Ramdas 2024",
        )
    },
    "holdout": P_RULES,
    "contrast": P_RULES,
    "few-shot": {
        "seqstep": Promise(
            "FDR",
            "the null labels are independent, whatever the sizes of the scores (or, with draws >= 1/alpha - 1, all the "
            "same within an input)",
            "Barber & Candes 2015, selective SeqStep+; Emery et al. 2019; Gimenez & Zou 2019",
        )
    },
}
DEFAULT_RULE = {"sequential": "bh", "irt": "bh", "osft": "knockoff+", "few-shot": "seqstep"}


def check_alpha(alpha: object) -> float:
    """Return alpha, which must lie strictly between 0 and 1."""
    return between("alpha", alpha, "0.1 is a common choice")


def numbers(name: str, values: ArrayLike) -> Floats:
    """Return values as an array of numbers; text is none."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be an array of numbers, got {values!r:.60}") from None


def check_p(p: ArrayLike) -> Floats:
    """Return p-values (n,), which must lie between 0 and 1."""
    p = numbers("p", p)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise InputError("p must be a one-dimensional array of numbers between 0 and 1; drop NaN first")
    return p


def check_rule(test: str, rule: object) -> None:
    """Refuse a combination that has no guarantee, naming what fits."""
    if not isinstance(rule, str) or rule not in PROMISES[test]:
        fits = " or ".join(repr(name) for name in PROMISES[test])
        elsewhere = [repr(name) for name in DEFAULT_RULE if isinstance(rule, str) and rule in PROMISES[name]]
        also = f"; {rule!r} goes with test={' or '.join(elsewhere)}" if elsewhere else ""
        if isinstance(rule, str) and rule.lower() in PROMISES[test]:
            raise InputError(f"there is no rule {rule!r}; did you mean {rule.lower()!r}?")
        raise InputError(f"rule={rule!r} has no guarantee with test={test!r}; use rule={fits}{also}")
