"""A methods paragraph to paste, with its references, and the call that makes the result again."""

from __future__ import annotations

from butfor._version import __version__
from butfor.core.result.global_result import GlobalResult
from butfor.core.result.result import Result

REFERENCES = {
    "Burns": "Burns, C., Thomason, J., Tansey, W. (2020). Interpreting black box models via hypothesis testing. FODS.",
    "Besag": "Besag, J., Clifford, P. (1991). Sequential Monte Carlo p-values. Biometrika 78.",
    "Fischer": "Fischer, L., Barry, T., Ramdas, A. (2024). Multiple testing with anytime-valid Monte Carlo p-values.",
    "Benjamini & Hochberg": "Benjamini, Y., Hochberg, Y. (1995). Controlling the false discovery rate. JRSS B 57.",
    "Benjamini & Yekutieli": "Benjamini, Y., Yekutieli, D. (2001). The control of the false discovery rate in multiple "
    "testing under dependency. Annals of Statistics 29.",
    "Holm": "Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scand. J. Statistics 6.",
    "Ignatiadis": "Ignatiadis, N., Huber, W. (2021). Covariate powered cross-weighted multiple testing. JRSS B 83.",
    "Genovese": "Genovese, C., Roeder, K., Wasserman, L. (2006). False discovery control with p-value weighting. "
    "Biometrika 93.",
    "Wang": "Wang, R., Ramdas, A. (2022). False discovery rate control with e-values. JRSS B 84.",
    "Barber": "Barber, R. F., Candès, E. (2015). Controlling the false discovery rate via knockoffs. Ann. Stat. 43.",
    "Emery": "Emery, K. et al. (2019). Multiple competition-based FDR control. arXiv.",
    "Gimenez": "Gimenez, J. R., Zou, J. (2019). Improving the stability of the knockoff procedure. AISTATS.",
    "Tansey": "Tansey, W., Veitch, V., Zhang, H., Rabadan, R., Blei, D. (2018). The holdout randomization test. arXiv.",
    "Hemerik": "Hemerik, J., Goeman, J. (2018). Exact testing with random permutations. TEST 27.",
    "Satterthwaite": "Satterthwaite, F. E. (1946). An approximate distribution of estimates of variance components. "
    "Biometrics Bulletin 2.",
    "Dunn": "Dunn, O. J. (1961). Multiple comparisons among means. JASA 56.",
}
TESTS = {
    "sequential": "sequential Monte Carlo p-values (draws are made until each hypothesis is decided)",
    "irt": "the interpretability randomisation test",
    "osft": "the one-shot feature test",
    "few-shot": "a competition of each input with a few counterfactuals",
}


def methods_paragraph(result: Result) -> str:
    """How the result was made, in the words of a paper."""
    said, guarantee = result.provenance, result.guarantee
    what = {"image": "regions", "text": "parts"}.get(result.modality, "subsets of features")
    rate = {
        "FDR": f"controlling the false discovery rate at {result.alpha:g}",
        "FWER": f"controlling the probability of any false discovery at {result.alpha:g}",
        "nothing": "without control of an error rate",
    }[guarantee.controls]
    decided = ""
    if result.decided is not None:
        decided = (
            " For each of them we estimated the probability that the decision of the model would have been otherwise, "
            f"with 95 % intervals that hold together, and call it necessary where it exceeds {result.decided.level:g}."
        )
    sided = "two-sided" if said["alternative"] == "two-sided" else f"one-sided ({said['alternative']})"
    evidence = "exact p-values, computed from all that the sampler may draw" if result.exact else TESTS[said["test"]]
    checked = f" {result.control}" if result.control is not None else ""
    return (
        f"We asked of {len(result.subset_names):,} {what} of {len(result.input_names):,} inputs whether the output of "
        f"the model is surprising beside its outputs for counterfactuals, in which the subset alone is redrawn given "
        f"the rest of the input by the sampler {said.get('sampler', '')}. Evidence is by {evidence}, "
        f"{sided}; selection by the rule {result.rule}, {rate} over {guarantee.family}.{decided} Effects are the "
        f"output minus its mean over counterfactuals, with 95 % intervals.{checked} Software: butfor "
        f"{said.get('version', __version__)}, seed {said.get('seed')}; {result.rows:,} evaluations of the model."
    )


def references(result: Result | GlobalResult) -> list[str]:
    """What the paragraph cites, by name."""
    cited = f"Burns; {result.guarantee.proven_by}"
    return [full for name, full in REFERENCES.items() if name in cited]


def call(result: Result) -> str:
    """The call that makes the result again; names of variables are the user's to fill in."""
    said = result.provenance
    given: dict[str, object] = {"test": said["test"], "rule": result.rule, "alpha": result.alpha}
    given |= {"family": result.family} if result.family != "run" else {}
    given |= {
        name: said[name] for name in ("alternative", "target", "link", "min_effect") if said.get(name) is not None
    }
    given["seed"] = said.get("seed")
    module = {"image": "butfor.image.", "text": "butfor.text."}.get(result.modality, "butfor.")
    sampler = "reference" if str(said.get("sampler", "")).startswith("residual(") else "sampler"
    words = ", ".join(f"{name}={value!r}" for name, value in given.items())
    return f"{module}explain(model, inputs, {sampler}, {words})"
