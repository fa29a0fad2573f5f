"""A result in words, for terminals and notebooks."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from butfor.inference.bounds import simes_bounds
from butfor.results.notes import PICKED
from butfor.results.words import model_rows
from butfor.types import Array, Bools, Floats, Ints

if TYPE_CHECKING:
    from butfor.results.result import Result

WIDTH = 110  # characters of a line
CONFIDENCE = 0.95
CALLED = {
    "image": "the image would have been called something else in {ways} % of its fills",
    "text": "the text would have been called something else in {ways} % of its fills",
}


def summary(result: Result, most: int = 15) -> str:
    """Return the answer first: what decides, which subsets, for which inputs; then notes, control and guarantee."""
    from butfor.results.view import view

    shown = view(result)
    paragraphs: list[str] = []
    for answer in shown.answers:
        first = answer.sentence
        if answer.about == "next":  # belongs to the sentence before it
            first = f"{paragraphs.pop()} {first}"
        elif answer.about == "decision":
            first = f"Decision: {first[:1].lower()}{first[1:]}"
        paragraphs += [first, *(f"  {example}" for example in answer.examples)]
    lines = [*_wrapped(shown.made), "", *_wrapped(*paragraphs), *_subset_lines(result, most), ""]
    control = [f"Control: {shown.control}"] if shown.control else []
    notes = [f"Note: {note}" for note in result.notes]
    promises = (f"Guarantee: {result.guarantee}", *shown.promises)
    return "\n".join([*lines, *_wrapped(shown.bound, *notes, *control, *promises)])


def _wrapped(*sentences: str) -> list[str]:
    return [line for sentence in sentences for line in textwrap.wrap(sentence, WIDTH)]


def _subset_lines(result: Result, most: int) -> list[str]:
    """Return a table of the subsets that were chosen for any input, the most often chosen first."""
    size, known = len(result.subset_names), result.chosen & ~np.isnan(result.effects.effect)
    chosen, tested = (np.bincount(result.subset_of[rows], minlength=size) for rows in (result.chosen, slice(None)))
    order = [j for j in np.argsort(-chosen, kind="stable").tolist() if chosen[j]]
    if not order:
        return []
    total = np.bincount(result.subset_of[known], weights=result.effects.effect[known], minlength=size)
    count = np.bincount(result.subset_of[known], minlength=size)
    columns = {"chosen for": [f"{chosen[j]} of {tested[j]}" for j in order]}
    true = _true(result, result.subset_of, size)
    if any(true[j] for j in order):  # "at least 0" says nothing
        columns["at least true"] = [str(true[j]) for j in order]
    if known.any():
        columns["mean effect"] = [f"{total[j] / count[j]:+.3g}" if count[j] else "" for j in order]
    names = [result.subset_names[j] for j in order[:most]]
    width = max(map(len, ["subset", *names]))
    lines = ["", "  ".join([f"{'subset':<{width}}", *columns])]
    for k, name in enumerate(names):
        cells = (f"{cells[k]:>{len(title)}}" for title, cells in columns.items())
        lines.append("  ".join([f"{name:<{width}}", *cells]))
    return [*lines, *([f"... and {len(order) - most} more subsets; see result.table"] if len(order) > most else [])]


def headline(result: Result) -> str:
    """Return one sentence: how many of how many, by which test."""
    record, draws = result.record, result.evidence.draws
    if not len(draws):
        drawn = "no draws"
    elif draws.min() != draws.max():
        drawn = f"{draws.mean():.0f} draws on average"
    else:
        drawn = "one draw each" if draws[0] == 1 else f"{draws[0]} draws each"
    test = f"{record.test}, {drawn}"
    if record.exact:
        test = "exact, no draws" if result.exact else f"exact for {record.exact}, {record.test} for the others, {drawn}"
    family = "over the run" if result.family == "run" else "within each input"
    return (
        f"{int(result.chosen.sum())} of {len(result.chosen)} hypotheses chosen "
        f"({_counted(len(result.input_names), 'input')}, {_counted(len(result.subset_names), 'subset')}; {test}, "
        f"{record.alternative}, {result.rule} at {result.alpha:g} {family}; {model_rows(result.rows)})"
    )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def bound_sentence(result: Result) -> str:
    """Return how many discoveries are true at least, and in how many inputs there is one; nothing without p-values."""
    true = sum(_true(result, np.where(result.chosen, 0, 1), 2)[:1])
    if not true:
        return ""
    inputs = sum(count > 0 for count in _true(result, result.input_of, len(result.input_names)))
    named = f", {_counted(inputs, 'input')} among them with a true one of their own," if inputs else ""
    return (
        f"With {CONFIDENCE:.0%} confidence at least {true} of the {int(result.chosen.sum())} chosen are true{named} "
        "whatever you looked at first, if p-values are independent or positively dependent; result.bound(rows) says "
        "how many of any rows you pick."
    )


def _true(result: Result, groups: Ints, size: int) -> list[int]:
    """Return how many of each group are true discoveries at least: 0 without a guarantee, or if inputs look picked."""
    picked = any(note.code in PICKED for note in result.run_notes)  # nobody knows whether they were
    if result.evidence.kind != "p" or result.guarantee.controls == "nothing" or picked:
        return [0] * size
    return [int(count) for count in simes_bounds(result.evidence.values, CONFIDENCE).by_group(groups, size)]


def importance_headline(result: Result) -> str:
    """Return one sentence on the global question: how many of how many, by which test."""
    importance, draws = result.importance, int(result.evidence.draws[0])
    test = f"contrast with the reference, {result.record.alternative}"
    if result.record.test == "holdout":
        test = f"holdout randomisation test, {importance.loss} loss"
    drawn = {0: "exact, no draws", 1: "one draw of each input"}.get(draws, f"{draws} draws of each input")
    by = f"{importance.passes} passes" if importance.passes else "Student's t with the error of the sampler's fit"
    layers = result.hypotheses.layers
    counted = f"{int(result.chosen.sum())} of {len(result.chosen)} subsets"
    if layers is not None:
        group = layers.resolution == 0
        counted = f"{result.chosen[~group].sum()} of {(~group).sum()} columns and {result.chosen[group].sum()} of "
        counted += f"{group.sum()} {'groups' if group.sum() > 1 else 'group'} of columns"
    return (
        f"{counted} chosen over {importance.inputs} inputs ({test}; "
        f"{drawn}, {by}, {result.rule} at {result.alpha:g}; {model_rows(result.rows)})"
    )


def effect_name(result: Result) -> str:
    """Return what the effect of the global question measures, in a few words."""
    if result.record.test == "holdout":
        return f"mean increase of the {result.importance.loss} loss when redrawn"
    link = result.record.link
    return f"mean {f'{link} of the output' if link else 'output'} minus mean counterfactual"


def importance_summary(result: Result, most: int = 15) -> str:
    """Return headline, the chosen subsets with their effects, notes and guarantee of the global question."""
    lines, effects, p = [*_wrapped(importance_headline(result)), ""], result.effects, result.evidence.values
    rows = [j for j in np.lexsort((p, -np.abs(np.nan_to_num(effects.effect)))).tolist() if result.chosen[j]]
    if rows:
        width = max(len("subset"), *(len(result.subset_names[j]) for j in rows[:most]))
        lines.append(f"{'subset':<{width}}  {'effect (95 % interval)':<32}  p        effect: {effect_name(result)}")
        for j in rows[:most]:
            effect, low, high = effects.effect[j], effects.low[j], effects.high[j]
            interval = "" if np.isnan(low) else f" ({low:+.3g} to {high:+.3g})"
            shown = "not estimated" if np.isnan(effect) else f"{effect:+.3g}{interval}"
            lines.append(f"{result.subset_names[j]:<{width}}  {shown:<32}  {p[j]:.3g}")
        lines += [f"... and {len(rows) - most} more subsets; see result.table"] if len(rows) > most else []
        lines.append("")
    notes = [f"Note: {note}" for note in result.notes]
    return "\n".join([*lines, *_wrapped(*notes, f"Guarantee: {result.guarantee}")])


def flip_sentence(result: Result, row: int) -> str:
    """Return in words how often the decision would have been otherwise, but for a subset."""
    decided, name = result.decided, result.subset_names[int(result.subset_of[row])]
    assert decided is not None
    rest = name.removeprefix("all but ")
    name = name if rest == name else f"the columns other than {rest}"
    if not np.isfinite(decided.share[row]):
        return f"But for {name}: nothing was drawn."
    ways, low, high = (round(100 * float(part[row])) for part in (decided.share, decided.low, decided.high))
    unsure = not decided.necessary[row] and decided.share[row] > decided.level
    happened = CALLED.get(result.modality, "the decision would have been otherwise in {ways} % of the draws")
    more = ", not established as more likely than not" if unsure else ""
    return f"But for {name} {happened.format(ways=ways)} (95 %: {low} to {high}{more})."


def finest_of(result: Result, marked: Bools) -> Bools:
    """Return those marked (H,) of which no part is marked."""
    layers = result.hypotheses.layers
    return marked if layers is None else layers.finest(marked)


def headline_parts(result: Result, marked: Bools) -> Bools:
    """Return the finest of those marked (H,), without parts whose effects contradict what they are parts of."""
    layers, classes = result.hypotheses.layers, result.evidence.classes
    if layers is None:
        return marked
    other = (layers.parent >= 0) & (classes != classes[layers.parent])  # an effect on another class says nothing of it
    return layers.finest(marked, np.where(other, np.nan, result.effects.effect))


def reasons(result: Result, position: int, k: int) -> dict[str, Array]:
    """Return columns of a table with at most `k` rows for the input at `position`, the strongest first.

    What is established comes first, what the decision hangs on before the rest; then the finest parts that are not,
    also of a group that is established: which of its parts come near is what is asked next.
    """
    from butfor.results.result import names_column

    of_input, decided, layers = np.flatnonzero(result.input_of == position), result.decided, result.hypotheses.layers
    share = np.zeros(len(result.chosen)) if decided is None else np.nan_to_num(decided.share)
    needed = np.zeros(len(share), bool) if decided is None else finest_of(result, decided.necessary) & (share > 0)
    rank = np.where(needed, 2, headline_parts(result, result.chosen))
    size = np.abs(np.nan_to_num(result.effects.effect))
    ordered = of_input[np.lexsort((-size[of_input], -share[of_input], -rank[of_input]))]
    known = np.isfinite(result.effects.effect) | (False if decided is None else np.isfinite(decided.share))
    near = finest_of(result, known)[ordered] if known[of_input].any() else rank[ordered] == 0
    rows: list[int] = []
    for row in ordered[rank[ordered] > 0].tolist():  # no part of a stronger reason, and nothing that has one as a part
        if layers is None or not any(
            row in _line(layers.parent, one) or one in _line(layers.parent, row) for one in rows
        ):
            rows.append(row)
    rows = [*rows, *ordered[(rank[ordered] == 0) & near].tolist()][:k]
    table = result.table.iloc[rows]
    names = ["subset", "value", "effect", "effect_low", "effect_high", "surprise", "status"]
    names += ["flip", "flip_low", "flip_high", "necessary"]
    shown = {name: table[name].to_numpy() for name in names if name in table}
    sentences = tuple(_sentence(result, row) for row in rows)
    return {**shown, "order": _order(result, np.array(rows, np.int64)), "sentence": names_column(sentences)}


def _line(parent: Ints, row: int) -> set[int]:
    """Return a hypothesis and all that it is a part of."""
    line = set()
    while row >= 0:
        line.add(row)
        row = int(parent[row])
    return line


def _order(result: Result, rows: Ints) -> Array:
    """Return whether each reason is sure to be stronger than the next: their intervals, for all of them, are apart."""
    from scipy.special import ndtri

    words = np.full(len(rows), "not established", dtype=object)
    effect, low, high = (part[rows] for part in (result.effects.effect, result.effects.low, result.effects.high))
    wider = float(ndtri(1 - 0.025 / max(1, len(rows))) / ndtri(0.975))  # Bonferroni
    least = np.maximum(np.abs(effect) - wider * (high - low) / 2, 0)
    most = np.abs(effect) + wider * (high - low) / 2
    for i in range(len(rows) - 1):
        if least[i] > np.nanmax(most[i + 1 :], initial=-np.inf):
            words[i] = "established"
    return words


def _sentence(result: Result, row: int) -> str:
    name, effect = result.subset_names[int(result.subset_of[row])], result.effects.effect[row]
    status = "established" if result.chosen[row] else "not established"
    words = f"{name}: moves the output by {effect:+.3g} ({status})" if np.isfinite(effect) else f"{name} ({status})"
    if result.decided is None:
        return words
    flips = flip_sentence(result, row)
    return f"{words}; {flips[:1].lower()}{flips[1:]}"


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
    """Return True if the outputs (n, classes) of each row are shares of one."""
    return bool(outputs.min() >= 0 and np.allclose(outputs.sum(axis=1), 1, atol=1e-3))


def are_logits(outputs: Floats) -> bool:
    """Return True for several outputs (n, classes) that neither sum to one nor all lie between 0 and 1.

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
