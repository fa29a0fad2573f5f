"""The data of a report: what the view says, the list of inputs for its script, and how the result was made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from butfor.results import view
from butfor.results.result import STATUSES, Result
from butfor.results.summary import headline_parts
from butfor.results.treatment import Treatment
from butfor.results.where import meaning_of_where
from butfor.results.words import Note
from butfor.types import Array, Floats, Ints

UNFOLDED = 12  # lines of a table before those that are no findings are folded away
PART = 100  # inputs whose hypotheses the script reads together
MOST_INPUTS = 20  # in the page itself; the script has all of them
MOST_LINES = 60
MOST_EXAMPLES = 6
MOST_CASES = 200  # inputs with their nearest case and draws: the others say which call shows them
MOST_HYPOTHESES = 200_000  # of the inputs that are listed: 14 MB
MOST_MEMBERS = 200  # columns of a group that are listed
MOST_ACCUSED = 1_000  # people of a treatment that are listed: the table has all of them
UNTESTED = "nothing was tested"  # in place of the reason of such an input


def content(result: Result) -> dict[str, Any]:
    """Return everything that report.html.j2 names; of the global question, that global.html.j2 does."""
    shown = view.view(result)
    common: dict[str, Any] = {
        "view": shown,
        "labels": view.LABELS,
        "chosen": int(result.chosen.sum()),
        "hypotheses": len(result.chosen),
        "members": members(result),
        "methods": methods_paragraph(result),
        "references": [full for name, full in REFERENCES.items() if name in f"Burns; {result.guarantee.proven_by}"],
        "call": call(result),
    }
    if result.is_global:
        return common
    first, (features, zero_of_features) = view.input_index(result, None), _features(result)
    order = view.strongest(result, view.rows_of(result, first), view.marked(result), MOST_LINES)
    findings = view.unusual(result)
    lines, zero = view.effect_lines(result, order, findings)
    unfolded = max(UNFOLDED, int(view.marked(result)[order].sum()))
    listed, data, decided = len(shown_inputs(result)), index(result), result.decided
    if listed < len(result.input_names):
        note = Note("inputs-shown", "limit", {"shown": listed, "count": len(result.input_names)})
        common["view"] = replace(shown, notes=(note, *shown.notes))
    flips = () if decided is None else view.decision_lines(result, view.rows_of(result, first))
    return common | {
        "inputs": len(result.input_names),
        "features": features,
        "features_zero": zero_of_features,
        "features_tested": result.over_inputs is not None,
        "entries": view.entries(result, MOST_INPUTS),
        "lead": str(result.input_names[first]),
        "full": tuple(replace(line, folded=k >= unfolded) for k, line in enumerate(lines)),
        "zero": zero,
        "flips": {line.name: line for line in flips},
        **{name: data[name] for name in ("output", "effect", "finding", "level", "untested")},
        "output_title": data["output"][:1].upper() + data["output"][1:],
        "of_intervals": view.of_intervals(result),
        "kind": data["evidence"],
        "link": result.record.link,
        "examples": _examples(result),
        "pictures": _of_modality(result, "image"),
        "texts": _of_modality(result, "text"),
        "inputs_shown": _of_modality(result, "multimodal"),
        "effects": bool(np.isfinite(result.effects.effect[findings]).any()),
        "data": as_json(data),
        "parts": [as_json(part) for part in parts(result)],
    }


def members(result: Result) -> dict[str, str]:
    """Return the columns of each group whose name does not list them."""
    subsets = result.hypotheses.subsets if result.modality == "table" else ()
    some = {one.name: one.index.tolist() for one in subsets if 1 < len(one.index) <= MOST_MEMBERS}
    columns = {name: ", ".join(result.record.columns[j] for j in index) for name, index in some.items()}
    return {name: every for name, every in columns.items() if len(every) > len(name)}


def treatment_content(result: Treatment) -> dict[str, Any]:
    """Return everything that treatment.html.j2 names."""
    table, groups = result.table[result.accused], []
    for row in result.groups.to_dict("records"):
        ends = [row["difference_low"], row["difference"], row["difference_high"]]
        low, middle, high = (None if np.isnan(end) else 50 * (1 + end) for end in ends)
        interval = "" if low is None else f"{100 * ends[0]:+.0f} to {100 * ends[2]:+.0f}"
        text = "" if low is None else f"{100 * ends[1]:+.0f}"
        groups.append({**row, "line": view.Line(row["value"], text, interval, low, middle, high, row["accused"] > 0)})
    rows = []
    for one in table.head(MOST_ACCUSED).to_dict("records"):
        ends = [100 * one[name] for name in ("flip_low", "flip", "flip_high")]
        low, middle, high = (None if np.isnan(end) else end for end in ends)  # None: the proxies were not redrawn
        interval = "" if low is None else f"{ends[0]:.0f} to {ends[2]:.0f} %"
        line = view.Line(str(one["person"]), view.percent(one["flip"]), interval, low, middle, high, sure=True)
        others = result.others(result.people.index(one["person"]))
        rows.append({**one, "line": line, "kept": view.percent(one["kept"]), "others": ", ".join(others)})
    return {
        "lines": result.lines(),
        "result": result,
        "groups": groups,
        "rows": rows,
        "accused": int(result.accused.sum()),
        "level": 100 * result.level,
        "labels": view.LABELS,
    }


def _features(result: Result) -> tuple[tuple[view.Line, ...], float]:
    """Return every subset over all inputs, parts under what they are parts of, and where zero stands."""
    if len(result.input_names) == 1 or result.modality != "table":
        return (), 0.0
    (order, depth), above = view.tree_order(result), view.parents(result)
    sure = result.features["chosen"].to_numpy(bool)  # unfolded, with parents and parts; then from coarse to fine
    shown = sure | ((above >= 0) & sure[above])
    for j in np.flatnonzero(shown).tolist():
        while j >= 0:
            shown[j], j = True, int(above[j])
    others = np.flatnonzero(~shown)
    others = others[np.argsort(depth[others], kind="stable")]
    shown[others[: max(0, UNFOLDED - int(shown.sum()))]] = True
    chart = view.features_chart(result, order)
    lines = zip(chart.lines, order.tolist(), strict=True)
    return tuple(replace(line, folded=not shown[j]) for line, j in lines), chart.mark


def _examples(result: Result) -> list[Any]:
    """Return the strongest discovery of each of a few subsets, of those whose counterfactuals the run kept."""
    strongest_of: dict[int, int] = {}
    for row in view.by_evidence(result).tolist() if result.modality == "table" else ():
        if row in result.kept:
            strongest_of.setdefault(int(result.subset_of[row]), row)
    return [view.example(result, row) for row in list(strongest_of.values())[:MOST_EXAMPLES]]


def _of_modality(result: Result, modality: str) -> Any:
    """Return what images, texts or inputs of several parts add to a report; None for another modality."""
    if result.modality != modality:
        return None
    if modality == "image":
        from butfor.image.view import pictures

        return pictures(result)
    if modality == "multimodal":
        from butfor.multimodal.view import shown_parts

        return shown_parts(result)
    from butfor.text.view import marked_texts

    return marked_texts(result)


def index(result: Result) -> dict[str, Any]:
    """Return what the list of inputs needs: columns, one entry per input."""
    inputs = shown_inputs(result)
    lead = view.leading(result)[inputs]
    tested, rows = lead >= 0, np.maximum(lead, 0)
    count, classes, decided = len(result.input_names), view.called(result), result.decided
    observed = np.full(count, np.nan)
    observed[result.input_of] = result.evidence.observed
    findings = view.unusual(result)
    columns: dict[str, Any] = {
        "name": [str(result.input_names[i]) for i in inputs.tolist()],
        "called": [classes[i] for i in inputs.tolist()],
        "output": rounded(observed[inputs]),
        "findings": np.bincount(result.input_of, weights=findings, minlength=count)[inputs].astype(int).tolist(),
        "reason": np.where(tested, result.subset_of[rows], -1).tolist(),
        "value": [
            view.value_text(value) * known
            for value, known in zip(view.values(result)[rows], tested.tolist(), strict=True)
        ],
        "effect": rounded(np.where(tested, view.rounded_effects(result)[0][rows], np.nan)),
        "sure": (view.marked(result)[rows] & tested).astype(int).tolist(),
    }
    if decided is not None:
        columns["flip"] = rounded(np.where(tested, decided.share[rows], np.nan))
        columns["necessary"] = (decided.necessary[rows] & tested).astype(int).tolist()
    if len(np.unique(result.evidence.classes)) > 1:
        columns["outputs"] = [view.output_label(result, i) for i in inputs.tolist()]
    return {
        "subsets": list(result.subset_names),
        "members": members(result),
        "statuses": STATUSES,
        "unfolded": UNFOLDED,
        "untested": UNTESTED,
        "output": view.output_label(result),
        "effect": view.effect_label(result),
        "evidence": view.EVIDENCE[result.evidence.kind],
        "finding": "unusual" if result.located is None else "moves the output",
        "level": None if decided is None else decided.level,
        "part": PART,
        "modality": result.modality,
        "inputs": columns,
    }


def parts(result: Result) -> Iterator[list[dict[str, Any]]]:
    """Yield the hypotheses of every input, PART inputs at a time: columns again."""
    order = np.argsort(result.input_of, kind="stable")
    ends = np.searchsorted(result.input_of[order], np.arange(len(result.input_names) + 1))
    decided, observed, sure = result.decided, view.values(result), headline_parts(result, view.marked(result))
    effect, low, high = view.rounded_effects(result)
    numbers = {"effect": effect, "low": low, "high": high, "evidence": result.evidence.values}
    numbers |= {"q": result.q, "surprise": result.evidence.surprise}
    integers: dict[str, Array] = {
        "subset": result.subset_of,
        "sure": view.unusual(result).astype(int),
        "finest": sure.astype(int),
        "status": np.array([STATUSES.index(status) for status in result.table["status"]], np.int64),
    }
    if decided is not None:
        numbers |= {"flip": decided.share, "flip_low": decided.low, "flip_high": decided.high}
        integers["necessary"] = decided.necessary.astype(int)
    findings = np.bincount(result.input_of, weights=view.marked(result), minlength=len(result.input_names))
    most = MOST_CASES if result.modality == "table" else 0
    with_cases = set(np.argsort(-findings, kind="stable")[:most].tolist())
    inputs = shown_inputs(result).tolist()
    for start in range(0, len(inputs), PART):
        part = []
        for i in inputs[start : start + PART]:
            rows = order[ends[i] : ends[i + 1]]
            columns: dict[str, Any] = {name: column[rows].tolist() for name, column in integers.items()}
            columns |= {name: rounded(column[rows]) for name, column in numbers.items()}
            columns["value"] = [view.value_text(value) for value in observed[rows].tolist()]
            if i in with_cases:
                cases = [row for row in rows.tolist() if sure[row]][:4]
                near = (view.nearest_case(result, row) for row in cases)
                drawn = (view.example(result, row) for row in cases if row in result.kept)
                columns["near"] = [asdict(case) for case in near if case is not None]
                columns["draws"] = [asdict(shown) for shown in drawn]
            part.append(columns)
        yield part


def shown_inputs(result: Result) -> Ints:
    """Return the inputs (n,) of the list, in their order: all, or of a large result those with most findings."""
    count = len(result.input_names)
    if len(result.chosen) <= MOST_HYPOTHESES:
        return np.arange(count)
    findings = np.bincount(result.input_of, weights=view.marked(result), minlength=count)
    tested = np.bincount(result.input_of, minlength=count)
    order = np.argsort(-findings, kind="stable")
    return np.sort(order[: max(1, int((np.cumsum(tested[order]) <= MOST_HYPOTHESES).sum()))])


def rounded(numbers: Floats) -> list[float | None]:
    """Return numbers to three digits, integers where they are a thousand or more; None where nothing is known.

    >>> rounded(np.array([0.12345, 1234.5, np.nan, 0.0]))
    [0.123, 1234.0, None, 0.0]
    >>> rounded(np.array([5e-324, 1.7e308]))
    [0.0, 1.7e+308]
    """
    size = np.abs(np.where(np.isfinite(numbers) & (numbers != 0), numbers, 1.0))
    digits = np.maximum(2 - np.floor(np.log10(size)), -1).astype(np.int64)
    scale = 10.0 ** np.clip(digits, 0, 300)  # of the least numbers there are it would be infinite
    out = np.round(numbers * scale) / scale
    return [value if known else None for value, known in zip(out.tolist(), np.isfinite(numbers).tolist(), strict=True)]


def as_json(data: object) -> str:
    """Return JSON that can stand inside of a script element: nothing in it ends the element or begins another.

    >>> as_json({"a": "</script><!--"})
    '{"a":"\\\\u003c/script\\\\u003e\\\\u003c!--"}'
    """
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


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
    """Return how the result was made, in the words of a paper."""
    record, guarantee = result.record, result.guarantee
    software = f"Software: butfor {record.version}, seed {record.seed}; {result.rows:,} evaluations of the model."
    if record.test == "where":
        return f"{meaning_of_where(result)} Evaluations of a photograph: {record.draws:,}. {software}"
    if result.is_global:
        importance, draws = result.importance, int(result.evidence.draws[0])
        how = "We asked whether the output of the model differs from that for redrawn values on average over the inputs"
        if record.test == "holdout":
            how = f"By the holdout randomisation test we asked whether the {importance.loss} loss of the model rises"
        by = f"{importance.passes} passes" if importance.passes else "Student's t with the error of the fit"
        return (
            f"{len(result.chosen):,} subsets of features were redrawn {f'{draws} times' if draws > 1 else 'once'} in "
            f"each of {result.n_inputs:,} inputs, given the rest of the input, by the sampler {record.sampler}. {how} "
            f"({by}); selection by {result.rule} at {result.alpha:g} over all subsets. {software}"
        )
    what = {"image": "regions", "text": "parts"}.get(result.modality, "subsets of features")
    rate = {
        "FDR": f"controlling the false discovery rate at {result.alpha:g}",
        "FWER": f"controlling the probability of any false discovery at {result.alpha:g}",
        "nothing": "without control of an error rate",
    }[guarantee.controls]
    decided = ""
    if result.decided is not None:
        hold = "that hold together" if record.simultaneous else "each by itself"
        rate_of = "" if record.simultaneous else f", with a false discovery rate of at most {record.alpha:g}"
        decided = (
            " For each of them we estimated the probability that the decision of the model would have been otherwise, "
            f"with 95 % intervals {hold}, and call it decisive where it exceeds {result.decided.level:g}{rate_of}."
        )
    sided = "two-sided" if record.alternative == "two-sided" else f"one-sided ({record.alternative})"
    evidence = "exact p-values, computed from all that the sampler may draw" if result.exact else TESTS[record.test]
    checked = f" As a control, {result.control}." if result.control is not None else ""
    return (
        f"We asked of {len(result.subset_names):,} {what} of {len(result.input_names):,} inputs whether the output of "
        f"the model is surprising beside its outputs for counterfactuals, in which the subset alone is redrawn given "
        f"the rest of the input by the sampler {record.sampler}. Evidence is by {evidence}, "
        f"{sided}; selection by the rule {result.rule}, {rate} over {guarantee.family}.{decided} Effects are the "
        f"output minus its mean over counterfactuals, with 95 % intervals.{checked} {software}"
    )


def call(result: Result) -> str:
    """Return the call that makes the result again; names of variables are the user's to fill in."""
    record, names = result.record, ["alternative", "target", "link", "min_effect"]
    sampler = "reference" if record.sampler.startswith("residual(") else "sampler"
    module = {"image": "butfor.image.", "text": "butfor.text."}.get(result.modality, "butfor.")
    function, given = f"{module}explain", f"model, inputs, {sampler}"
    options: dict[str, object] = {"test": record.test, "rule": result.rule, "alpha": result.alpha}
    options |= {"family": result.family} if result.family != "run" else {}
    if result.is_global:
        labels = "y=labels, " if record.test == "holdout" else ""
        function, given = "butfor.global_importance", f"model, inputs, {labels}reference=reference"
        options, names = {"rule": result.rule, "alpha": result.alpha}, ["alternative", "target", "loss"]
    elif record.test == "where":
        function, given, names = "butfor.image.explain", "model, images", ["target", "min_effect"]
        options = {"boxes": "where", "draws": record.draws, "alpha": result.alpha}
    options |= {name: record.get(name) for name in names if record.get(name) is not None} | {"seed": record.seed}
    return f"{function}({given}, {', '.join(f'{name}={value!r}' for name, value in options.items())})"
