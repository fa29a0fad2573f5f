"""A result in words, for terminals and notebooks."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from functools import cache
from html import escape
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.inference.statistics import softmax
from butfor.results.words import listed as listed_names
from butfor.results.words import model_rows
from butfor.types import Bools, Floats, Ints

if TYPE_CHECKING:
    import pandas as pd

    from butfor.results.result import Result

WIDTH = 110  # characters of a line


def summary(result: Result, *, full: bool = False, most: int = 15) -> str:
    """Return the answer in at most ten lines; with `full` all else after it, the subsets in a table of `most` lines."""
    from butfor.results.view import of_intervals, view

    shown = view(result)
    lines = [str(line) for line in shown.lines]
    if not full:
        return "\n".join(lines)
    rest = [*(f"Note: {note}" for note in shown.notes), *([f"Control: {shown.control}"] if shown.control else [])]
    rest += [f"Guarantee: {result.guarantee}", *shown.promises, of_intervals(result)]
    settings = [f"{name}: {value}" for name, value in shown.settings]
    table = [*_wrapped(shown.made), *_subset_lines(result, most)]
    return "\n".join([*lines, "", *table, "", *_wrapped(*rest), "", *_wrapped(*settings)])


def _wrapped(*sentences: str) -> list[str]:
    return [line for sentence in sentences for line in textwrap.wrap(sentence, WIDTH)]


def _subset_lines(result: Result, most: int) -> list[str]:
    """Return a table of the subsets that were chosen, over all inputs or for any, the most often or largest first."""
    names = ["subset", "inputs_chosen", "inputs_necessary", "effect", "effect_low", "effect_high", "p", "q", "chosen"]
    names = [name for name in names if name in result.features and (name != "p" or result.is_global)]
    shown = result.features[names]
    order = -np.abs(np.nan_to_num(shown["effect"])) if result.is_global else -shown["inputs_chosen"].to_numpy()
    rows = [j for j in np.argsort(order, kind="stable").tolist() if order[j] < 0 or shown["chosen"].iloc[j]]
    shown = shown.dropna(axis=1, how="all").iloc[rows[:most]]
    text = shown.to_string(index=False, float_format="{:.3g}".format, na_rep="", line_width=WIDTH, max_colwidth=40)
    more = [f"... and {len(rows) - most} more subsets; see result.features"] if len(rows) > most else []
    return ["", *text.splitlines(), *more] if rows else []


def headline(result: Result) -> str:
    """Return one sentence: how many of how many, by which test."""
    record, draws = result.record, result.evidence.draws
    if result.located is not None and result.moved is not None:
        return (
            f"{int(result.moved.moves.sum())} of {len(result.chosen)} regions move the output "
            f"({_counted(len(result.input_names), 'image')}, {record.draws} evaluations of each; "
            f"{model_rows(result.rows)})"
        )
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
    odd = 0 if result.fills is None else int((result.chosen & result.fills.doubtful).sum())
    left_out = f", {odd} of them not counted since their fills look odd" * bool(odd)
    return (
        f"{int(result.chosen.sum())} of {len(result.chosen)} hypotheses chosen{left_out} "
        f"({_counted(len(result.input_names), 'input')}, {_counted(len(result.subset_names), 'subset')}; {test}, "
        f"{record.alternative}, {result.rule} at {result.alpha:g} {family}; {model_rows(result.rows)})"
    )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def importance_headline(result: Result) -> str:
    """Return one sentence on the global question: how many of how many, by which test."""
    importance, draws, layers = result.importance, int(result.evidence.draws[0]), result.hypotheses.layers
    test = f"contrast with the reference, {result.record.alternative}"
    if result.record.test == "holdout":
        test = f"holdout randomisation test, {importance.loss} loss"
    drawn = {0: "exact, no draws", 1: "one draw of each input"}.get(draws, f"{draws} draws of each input")
    by = f"{importance.passes} passes" if importance.passes else "Student's t with the error of the sampler's fit"
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


def flip_words(result: Result, row: int, *, brief: bool = False) -> str:
    """Return in words how often the decision would have been another, but for a subset."""
    decided = result.decided
    assert decided is not None
    share, low, high = decided.share[row], decided.low[row], decided.high[row]
    if not np.isfinite(share):
        return "unknown how many draws decide otherwise"
    table = result.modality == "table"
    draws = "fills" if not table else "draws" if decided.draws[row] > 0 else "counterfactuals"  # listed, and not drawn
    if unknown(low, high):
        few = "reference rows like it" if table else "fills"
        if brief:
            return f"{round(100 * share)} % flip, but few {few.removeprefix('reference ')}: 0 to 100"
        return f"{round(100 * share)} % of {draws} decide otherwise, but 95 %: 0 to 100, too few {few} to know"
    of = "flip" if brief else f"of {draws} decide otherwise"
    return f"{round(100 * share)} % {of}; 95 %: {round(100 * low)} to {round(100 * high)}"


def size_words(result: Result, row: int, *, brief: bool = False) -> str:
    """Return in words by how much a part moves the output: "takes 0.81 off the probability of airship"."""
    drop = result.effects.effect[row] if result.moved is None else result.moved.drop[row]
    if not np.isfinite(drop):
        return ""
    outputs, names = result.outputs, result.output_names
    of = "the output"
    if names is not None and outputs.size and outputs.shape[1] > 1:
        kind = "probability" if are_probabilities(outputs) or (result.moved and are_logits(outputs)) else "output"
        kind = {"logit": "log-odds", "log": "logarithm"}.get(str(result.record.link), kind)
        column = result.evidence.classes[row]
        if result.record.target == "predicted":
            column = outputs[result.input_of[row]].argmax()
        name = str(names[column])
        of = f"the {kind} of {f'class {name}' if name.isdigit() else name.split(',')[0]}"
    size = f"{abs(drop):.2f}" if 0.005 <= abs(drop) < 1 else "nothing" if not drop else number(abs(drop))
    words = ("takes", "off") if drop >= 0 else ("adds", "to")
    return f"{words[0]} {size}{'' if brief else f' {words[1]} {of}'}"


def size_of(result: Result, row: int) -> tuple[float, float, float]:
    """Return by how much a part of a table moves the output, with its interval: given x, which allows for the fit of
    the sampler, where that was asked of the very class; else the effect."""
    moved, effects, target = result.moved, result.effects, result.record.target
    same = target != "predicted" or result.outputs[result.input_of[row]].argmax() == result.evidence.classes[row]
    if moved is not None and result.modality == "table" and same and np.isfinite(moved.drop[row]):
        return float(moved.drop[row]), float(moved.low[row]), float(moved.high[row])
    return float(effects.effect[row]), float(effects.low[row]), float(effects.high[row])


def unknown(low: Floats | float, high: Floats | float) -> Bools:
    """Return which intervals of a probability are all that there is: then nothing is known."""
    return np.asarray((np.nan_to_num(low) < 0.005) & (np.nan_to_num(high, nan=1.0) > 0.995))


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


@cache
def _printed_type() -> Any:
    """Return a type of frames with a printed form; pandas is loaded when the first is made."""
    import pandas

    class Printed(pandas.DataFrame):
        _metadata = ["text"]  # noqa: RUF012 - as pandas wants it

        @property
        def _constructor(self) -> type[pd.DataFrame]:
            return pandas.DataFrame  # what is made from it is a plain frame

        def __reduce__(self) -> Any:
            return itemgetter(0), ([self.copy()],)  # as a plain one

        def __repr__(self) -> str:
            return str(self.text)

        def _repr_html_(self) -> str:
            return f"<pre>{escape(str(self.text))}</pre>"

    return Printed


def printed(frame: pd.DataFrame, text: str) -> pd.DataFrame:
    """Return a frame that prints as a text, where columns side by side would be cut; in all else the same.

    >>> import pandas, pickle
    >>> frame = printed(pandas.DataFrame({"a": [1]}), "one a")
    >>> frame
    one a
    >>> print(type(frame.copy()).__name__, type(pickle.loads(pickle.dumps(frame))).__name__, frame.a.tolist())
    DataFrame DataFrame [1]
    """
    made = _printed_type()(frame)
    made.text = text
    return made  # type: ignore[no-any-return]


KINDS = ("closest", "decisive", "unusual", "unusual", "enough", "decisive")  # of reasons, by their rank


def reasons(result: Result, position: int, k: int) -> dict[str, list[Any]]:
    """Return columns of a table with at most `k` rows for the input at `position`, the strongest first.

    Decisive parts come first, then those that are enough, then unusual ones, each in their finest parts; then the
    larger parts that are unusual or decisive, the whole input last; then what comes closest.
    """
    from butfor.results.view import whole_inputs

    decided, effects, root = result.decided, result.effects, whole_inputs(result)
    share, needed, enough = np.zeros(len(root)), np.zeros(len(root), bool), np.zeros(len(root), bool)
    if decided is not None:
        share, needed = np.nan_to_num(decided.share), decided.necessary
        enough = enough if decided.stay is None else decided.stay.sufficient & ~root
    known = np.isfinite(effects.effect) | (share > 0)
    cases = [
        finest_of(result, needed) & ~root,
        finest_of(result, enough),
        headline_parts(result, result.chosen) & ~root,
        result.chosen,
        needed,
    ]
    rank = np.select(cases, range(len(cases), 0, -1), 0)
    of_input = result.input_of == position
    listed = np.flatnonzero(of_input & ((rank > 0) | (finest_of(result, known) if known[of_input].any() else True)))
    size = np.abs(np.nan_to_num(effects.effect))
    rows = listed[np.lexsort((-size[listed], -share[listed], root[listed], -rank[listed]))][:k]
    names = ["subset", "value", "effect", "effect_low", "effect_high", "surprise", "status"]
    names += ["flip", "flip_low", "flip_high", "necessary", "move", "move_low", "move_high", "moves"]
    table = {name: result.table[name].iloc[rows].tolist() for name in names if name in result.table}
    shown = {"kind": [KINDS[j] for j in rank[rows]], **table, "order": _order(result, rows)}
    shown["sentence"] = []
    for row in rows.tolist():
        words = [str(result.table["status"].iloc[row])]
        if np.isfinite(effects.effect[row]):
            words.append(f"effect {with_interval(*size_of(result, row))}")
        if decided is not None:
            verdict = "decisive" if decided.necessary[row] else "not shown to be decisive"
            if decided.high[row] <= decided.level:
                verdict = "not decisive"
            words = [f"{verdict} ({flip_words(result, row)})", *words]
        shown["sentence"].append(f"{result.subset_names[int(result.subset_of[row])]}: {'; '.join(words)}.")
    sets = () if result.sets is None else result.sets.enough(position)
    if sets and sets[0].columns:  # seldom a subset that was tested: a row of its own, after what is decisive
        first, *others = sets
        name, ends = listed_names(first.columns), f"95 %: {round(100 * first.low)} to {round(100 * first.high)}"
        words = [f"{name}: enough ({round(100 * first.stay)} % of draws decide alike; {ends})"]
        words += [f"or {listed_names(one.columns)}" for one in others]
        row = {"kind": "enough", "subset": name, "value": None, "necessary": False, "moves": False, "status": ""}
        row |= {"order": "", "sentence": f"{'; '.join(words)}."}
        for title, column in shown.items():
            column.insert(int((rank[rows] == len(cases)).sum()), row.get(title, np.nan))
    return {name: column[:k] for name, column in shown.items()}


def reasons_text(kinds: Iterable[str], sentences: Iterable[str]) -> str:
    """Return reasons in lines, each with its kind."""
    each = zip(kinds, sentences, strict=True)
    lines = [textwrap.fill(f"{kind}: {one}", WIDTH, subsequent_indent="    ") for kind, one in each]
    return "\n".join(lines)


def _order(result: Result, rows: Ints) -> list[str]:
    """Return whether each reason is sure to have a larger effect than those after it, by intervals for all of them."""
    from scipy.special import ndtri

    words = np.full(len(rows), "may be no larger than the next", dtype=object)
    words[-1:] = ""
    effect, low, high = (part[rows] for part in (result.effects.effect, result.effects.low, result.effects.high))
    wide = float(ndtri(1 - 0.025 / max(1, len(rows))) / ndtri(0.975)) * (high - low) / 2  # Bonferroni
    least, most = np.maximum(np.abs(effect) - wide, 0), np.abs(effect) + wide
    for i in range(len(rows) - 1):
        if least[i] > np.nanmax(most[i + 1 :], initial=-np.inf):
            words[i] = "larger than all after it"
    return list(words)


def with_interval(effect: float, low: float, high: float) -> str:
    """Return an effect and its interval; what is computed exactly has none.

    >>> with_interval(0.5, 0.4, 0.6), with_interval(-2.0, -2.0, -2.0)
    ('+0.5 (95 %: +0.4 to +0.6)', '−2')
    """
    if not np.isfinite(effect):
        return "not estimated"
    known = np.isfinite(low) and np.isfinite(high) and low != high
    ends = f" (95 %: {number(low, sign=True)} to {number(high, sign=True)})" if known else ""
    return f"{number(effect, sign=True)}{ends}"


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
    digits = ".3f" if 0.0005 <= abs(value) < 100 else ".1g" if abs(value) < 1 else ".3g"
    return f"{value:+{digits}}".replace("-", "−")


def are_probabilities(outputs: Floats) -> bool:
    """Return True if the outputs (n, classes) of each row are shares of one."""
    return bool(outputs.min() >= 0 and np.allclose(outputs.sum(axis=1), 1, atol=1e-3))


def are_logits(outputs: Floats) -> bool:
    """Return True for several outputs (n, classes) that neither sum to one nor all lie between 0 and 1."""
    between = outputs.min() >= 0 and outputs.max() <= 1  # as each probability of a multi-label model does
    return bool(outputs.shape[1] > 1 and not between and not are_probabilities(outputs))


def probabilities(outputs: Floats) -> Floats:
    """Outputs (n, classes) as probabilities: the softmax of logits, and whatever else as it is.

    >>> probabilities(np.array([[3.0, 3.0]])).tolist(), probabilities(np.array([[0.25, 0.75]])).tolist()
    ([[0.5, 0.5]], [[0.25, 0.75]])
    >>> probabilities(np.array([[0.99, 0.97]])).tolist()
    [[0.99, 0.97]]
    """
    return softmax(outputs) if are_logits(outputs) else outputs
