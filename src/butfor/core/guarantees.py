"""(test, rule, family, how class and inputs were picked) -> what is promised, under what, proven by whom."""

from __future__ import annotations

from typing import Literal

from butfor.core.types import Guarantee, InputError

# rule -> what it controls, what it needs of the p-values, who proved it
P_RULES: dict[str, tuple[Literal["FDR", "FWER"], str, str]] = {
    "bh": (
        "FDR",
        "the p-values are independent or positively dependent",
        "Benjamini & Hochberg 1995; Benjamini & Yekutieli 2001",
    ),
    "by": ("FDR", "the p-values depend on each other in any way", "Benjamini & Yekutieli 2001"),
    "holm": ("FWER", "the p-values depend on each other in any way", "Holm 1979"),
    "bonferroni": ("FWER", "the p-values depend on each other in any way", "Bonferroni; Dunn 1961"),
}
RULES_OF: dict[str, tuple[str, ...]] = {"irt": tuple(P_RULES), "osft": ("knockoff+",)}

EXCHANGEABLE = "under the null a feature is exchangeable with draws from Q, and inputs were not picked by their output"
SIGNS = (
    "Signs are tied where one input has cloned features or a parity-like model: there OSFT's FDR was measured at "
    "0.50 for alpha 0.1; test='irt' keeps its level."
)
FILTER = "Hypotheses without any variation left the family first, which needs independence between hypotheses."
OBSERVED_CLASS = (
    "This does not hold as stated here: the class was picked by looking at the observed input only, which favours it "
    "over its draws (with every null true OSFT made a false discovery in 90 to 100 % of runs); use target='predicted'."
)


def guarantee(
    test: str,
    rule: str,
    family: str,
    alpha: float,
    *,
    observed_class: bool = False,
    filtered: bool = False,
    dependence_ignored: bool = False,
) -> Guarantee:
    """The promise of one combination; a combination without one is refused.

    >>> print(guarantee("irt", "holm", "run", 0.1))  # doctest: +ELLIPSIS
    The probability of any false discovery over all hypotheses of the run is at most 0.1, provided that under ...
    """
    if rule not in RULES_OF[test]:
        fits = ", ".join(repr(name) for name in RULES_OF[test])
        raise InputError(f"rule={rule!r} has no guarantee with test={test!r}; use one of {fits}")
    over = "all hypotheses of the run" if family == "run" else "the hypotheses of each single input (not over the run)"
    caveats: list[str] = []
    controls: Literal["FDR", "FWER", "nothing"]
    if test == "osft":
        controls, needs = "FDR", "the signs of the null differences are independent"
        proven = "Barber & Candes 2015, knockoff+; Burns, Thomason & Tansey 2020, Theorem 1"
        caveats.append(SIGNS)
    else:
        controls, needs, proven = P_RULES[rule]
        if filtered:
            caveats.append(FILTER)
    if dependence_ignored:
        caveats.append(
            "The sampler redraws each subset without regard to the other columns: where columns are correlated, Q is "
            "not their conditional and correlated columns pull each other in."
        )
    if observed_class:
        caveats.append(OBSERVED_CLASS)
    caveats.append("alpha must have been fixed before looking at the result.")
    return Guarantee(controls, alpha, over, f"{EXCHANGEABLE}, and {needs}", proven, tuple(caveats))
