"""(test, rule, family, how class and inputs were picked) -> what is promised, under what, proven by whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from butfor.types import InputError


@dataclass(frozen=True)
class Guarantee:
    """What a selection promises. `str()` of it is one honest sentence."""

    controls: Literal["FDR", "FWER", "nothing"]
    level: float
    family: str
    assumption: str
    proven_by: str
    caveats: tuple[str, ...] = ()

    def __str__(self) -> str:
        caveats = "".join(f" {caveat}" for caveat in self.caveats)
        if self.controls == "nothing":
            return f"No error rate is controlled over {self.family}: {self.assumption}.{caveats}"
        rate = {"FDR": "The false discovery rate", "FWER": "The probability of any false discovery"}[self.controls]
        return (
            f"{rate} over {self.family} is at most {self.level:g}, provided that {self.assumption} "
            f"({self.proven_by}).{caveats}"
        )


@dataclass(frozen=True)
class Promise:
    """What a rule controls, what it needs of the evidence, who proved it."""

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
LEARNED = {
    "adaptive": Promise(
        "FDR",
        OVER_INPUTS,
        "checked by simulation, not proven; after Ignatiadis & Huber 2021, Genovese, Roeder & Wasserman 2006",
    )
}
STRICT = {
    "adaptive-strict": Promise(
        "FDR",
        OVER_INPUTS,
        "weights are fixed given all other inputs; Ignatiadis & Huber 2021; e-BH, Wang & Ramdas 2022",
    )
}
PROMISES: dict[str, dict[str, Promise]] = {
    "sequential": {
        rule: Promise(
            promise.controls,
            promise.needs,
            f"Besag & Clifford 1991; Fischer, Barry & Ramdas 2024; {promise.proven_by}",
        )
        for rule, promise in (P_RULES | LEARNED).items()
    },
    "irt": P_RULES | LEARNED | STRICT | {"e-bh": Promise("FDR", ANY, "soft-rank e-values; Wang & Ramdas 2022")},
    "osft": {
        "knockoff+": Promise(
            "FDR",
            "the signs of the null differences are independent coins, whatever their sizes",
            "Barber & Candes 2015, knockoff+; Burns, Thomason & Tansey 2020, Theorem 1",
        )
    },
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

EXCHANGEABLE = "under the null a feature is exchangeable with the draws of the sampler"
UNPICKED = "inputs were not picked by their output"
BLIND = "subsets were not chosen by looking at the inputs"
PICKED = "inputs were picked by the rule given and draws that it would not pick were rejected"
SIGNS = (
    "Signs are tied where one input has cloned features or a parity-like model: there OSFT's FDR was measured at "
    "0.50 for alpha 0.1; test='sequential' and test='irt' keep their level."
)
SIZES = (
    "Sizes tell labels where few inputs have many features and the model saturates, as a probability near 1 does, or "
    "ties like a parity: use link='logit', or test='sequential'."
)
FILTER = "Hypotheses without any variation left the family first, which needs independence between inputs."
IGNORED = (
    "The sampler redraws each subset without regard to the other columns: where columns are correlated, that is "
    "not their conditional law and correlated columns pull each other in."
)
BEYOND = (
    "The sampler knows nothing rarer than one value in {rows:,.0f}: null values beyond all of its reference come, and "
    "this test compares sizes, so it may report them (with every null true, 2,000 hypotheses and 100 reference rows "
    "few-shot made a false discovery in 33 to 58 % of runs at alpha 0.1); test='sequential' and test='irt' count them "
    "right."
)
LOOKED = (
    "What is tested was picked by what is in it (superpixels, boxes that a detector or a person drew, matches of a "
    "pattern) or by a function that may have looked: what was picked because it stands out stands out from its draws, "
    "whatever the model relies on (with every null true, felzenszwalb's superpixels made a false discovery in 12 of 12 "
    "runs, a detector's boxes in 6 and a grid in 1); lay regions blindly, as grid does, where that matters."
)
OBSERVED_CLASS = (
    "the class was picked by looking at the observed input only, which favours it over its draws (with every null true "
    "OSFT made a false discovery in 90 to 100 % of runs); use target='predicted'"
)
TRUTH = (
    "The class is the true label, which an accurate model nearly predicts: the promise holds only where the sampler "
    "describes inputs of that very label (with a sampler of all labels and every null true few-shot made a false "
    "discovery in 49 % of runs, osft in 66 %)."
)
MARGIN = "An effect of at most {margin:g} counts as a null (min_effect)."
NOT_CONTROLLED = "The sampler was not checked on rows of the reference's own kind (control=False)."
DOUBTED = "The control found draws of {names} too narrow: they are never chosen."
TIED = (
    "the labels of one input are not independent, and the family has fewer than 10 inputs (with every null true and "
    "one input few-shot made a false discovery in 10 to 39 % of runs at alpha 0.1); use 10 inputs or more, or "
    "test='sequential'"
)
ONE_POINT = "Q is a single point: the sampler always draws the same, so no null hypothesis can be true"
EARLY = "Decisions equal those of all draws with probability at least {agree:g}."
FIXED = "alpha must have been fixed before looking at the result."


def check_alpha(alpha: object) -> float:
    """The level, strictly between 0 and 1."""
    if isinstance(alpha, bool) or not isinstance(alpha, int | float | np.number) or not 0 < float(alpha) < 1:
        raise InputError(f"alpha must lie strictly between 0 and 1, got {alpha!r}; 0.1 is a common choice")
    return float(alpha)


def check_rule(test: str, rule: object) -> None:
    """Refuse a combination that has no guarantee, naming what fits."""
    if not isinstance(rule, str) or rule not in PROMISES[test]:
        fits = " or ".join(repr(name) for name in PROMISES[test])
        elsewhere = [repr(name) for name, rules in PROMISES.items() if isinstance(rule, str) and rule in rules]
        also = f"; {rule!r} goes with test={' or '.join(elsewhere)}" if elsewhere else ""
        if isinstance(rule, str) and rule.lower() in PROMISES[test]:
            raise InputError(f"there is no rule {rule!r}; did you mean {rule.lower()!r}?")
        raise InputError(f"rule={rule!r} has no guarantee with test={test!r}; use rule={fits}{also}")


def guarantee(
    test: str,
    rule: str,
    family: str,
    alpha: float,
    *,
    observed_class: bool = False,
    filtered: bool = False,
    dependence_ignored: bool = False,
    floor: float = 0.0,
    data_dependent: bool = False,
    picked: bool = False,
    deterministic: bool = False,
    delta: float | None = None,
    layered: bool = False,
    truth: bool = False,
    controlled: bool | None = None,
    doubted: tuple[str, ...] = (),
    margin: float | None = None,
    few_inputs: bool = False,
) -> Guarantee:
    """The promise of one combination; a combination without one is refused.

    >>> print(guarantee("irt", "holm", "run", 0.1))  # doctest: +ELLIPSIS
    The probability of any false discovery over all hypotheses of the run is at most 0.1, provided that under ...
    """
    check_rule(test, rule)
    promise, over = PROMISES[test][rule], _over(family, layered)
    caveats = [
        text
        for text, applies in (
            (SIGNS, test == "osft"),
            (SIZES, test in ("osft", "few-shot")),
            (FILTER, filtered),
            (IGNORED, dependence_ignored),
            (BEYOND.format(rows=1 / (floor or 1)), floor > 0 and test in ("osft", "few-shot")),
            (LOOKED, data_dependent),
            (MARGIN.format(margin=margin or 0.0), bool(margin)),
            (TRUTH, truth),
            (NOT_CONTROLLED, controlled is False),
            (DOUBTED.format(names=", ".join(doubted[:4])), bool(doubted)),
            (EARLY.format(agree=1 - (delta or 0)), delta is not None),
            (FIXED, True),
        )
        if applies
    ]
    tied = test == "few-shot" and (few_inputs or family == "input")
    for broken, why in ((deterministic, ONE_POINT), (observed_class, OBSERVED_CLASS), (tied, TIED)):
        if broken:
            return Guarantee("nothing", alpha, over, why, "nobody", tuple(caveats))
    inputs = f"{PICKED if picked else UNPICKED}, {BLIND}"
    needs = f" and {inputs}, {ANY}" if promise.needs == ANY else f", {inputs}, and {promise.needs}"
    return Guarantee(promise.controls, alpha, over, EXCHANGEABLE + needs, promise.proven_by, tuple(caveats))


def _over(family: str, layered: bool) -> str:
    """The hypotheses that a promise is over, in words."""
    if layered and family == "run":
        return "the hypotheses of each resolution (not over all resolutions together)"
    if layered:
        return "the hypotheses of each single input at each resolution (not over the run)"
    return "all hypotheses of the run" if family == "run" else "the hypotheses of each single input (not over the run)"


def page() -> str:
    """The documentation page of every test and rule, in Markdown; docs/guarantees.md is this text."""
    lines = [
        "# What each combination guarantees",
        "",
        "Written by `make docs` from `butfor.inference.guarantees`; every result has its own as `result.guarantee`.",
        'A combination that is not listed is refused. `family="run"` promises the level over all hypotheses of the',
        'run, `family="input"` over the hypotheses of each single input, not over the run.',
        "",
        f"All of them assume that {EXCHANGEABLE}, that {BLIND}, and that {UNPICKED} (or that `picked=` says how: then",
        f"{PICKED}).",
        "",
        "| test | rule | controls | provided also that | proven by |",
        "|---|---|---|---|---|",
    ]
    for test, rules in PROMISES.items():
        for rule, promise in rules.items():
            default = " (default)" if DEFAULT_RULE[test] == rule else ""
            lines.append(
                f"| `{test}` | `{rule}`{default} | {promise.controls} | {promise.needs} | {promise.proven_by} |"
            )
    lines += ["", "## What a result may add", ""]
    for when, text in (
        ('test="osft"', SIGNS),
        ('test="osft" or test="few-shot"', SIZES),
        ('rule="bh" with test="irt", where some hypotheses did not vary', FILTER),
        ("a sampler that ignores dependence, such as `tabular.empirical`", IGNORED),
        ('test="osft" or test="few-shot" with a sampler of rows or margins, here of 100', BEYOND.format(rows=101)),
        ("regions or words that were picked by what they hold, such as `image.superpixels`", LOOKED),
        ('target="truth"', TRUTH),
        ("min_effect=0.1", MARGIN.format(margin=0.1)),
        ("control=False", NOT_CONTROLLED),
        ("subsets that the control finds not calibrated", DOUBTED.format(names="age")),
        ('target="observed-class"', f"Nothing is controlled: {OBSERVED_CLASS}."),
        ('test="few-shot" with fewer than 10 inputs or family="input"', f"Nothing is controlled: {TIED}."),
        ("a sampler without chance, such as an inpainting network as it is", f"Nothing is controlled: {ONE_POINT}."),
        ("early_stop=True, delta=0.01", EARLY.format(agree=0.99)),
        ("always", FIXED),
    ):
        lines.append(f"- {when}: {text}")
    return "\n".join(lines) + "\n"
