"""The view model of a result, which the terminal, notebooks, reports and the studio render.

Data only: sentences, lines with intervals, and numbers as text. Nothing here calls a model or a sampler, and no
rendering words or formats anything a second time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from butfor.inference.statistics import Target, averaged_target
from butfor.results.result import Result
from butfor.results.summary import (
    are_probabilities,
    bound_sentence,
    effect_name,
    finest_of,
    flip_sentence,
    headline,
    headline_parts,
    importance_headline,
    number,
    to_scale,
)
from butfor.results.words import Note, Severity, promise_of_decisions, promise_of_features
from butfor.types import Array, Batch, Bools, Floats, Ints

EVIDENCE = {"p": "p-value", "z": "z", "w": "w", "e": "e-value"}
LINKS = {"logit": "log-odds", "log": "logarithm"}
INPUTS = {"image": "images", "text": "texts"}
LABELS: dict[Severity, str] = {"warning": "Beware", "limit": "Good to know", "info": "Detail"}
MOST_LINES = 8  # of a chart
MOST_FEATURES = 200  # of a global result
MOST_CHANGED, MOST_COLUMNS = 6, 12
KEY = "Blue: established; grey: not established. Second line: 95 % interval."
OF_INTERVALS = (
    "An interval says how well the effect is known; established says that the output is unusual among its "
    "counterfactuals."
)


@dataclass(frozen=True)
class Line:
    """One line of a chart or a table: numbers as text, and where they stand in percent of the width."""

    name: str
    text: str
    interval: str
    low: float | None
    middle: float | None
    high: float | None
    sure: bool  # established: in colour
    value: str = ""  # observed, of a single column
    depth: int = 0  # in the tree of subsets
    more: str = ""  # how extreme, for how many inputs, or the p-value
    evidence: str = ""
    q: str = ""  # the least alpha at which it would be established
    status: str = ""
    folded: bool = False  # away, until the reader unfolds it


@dataclass(frozen=True)
class Chart:
    """Lines on one scale; `mark` is where zero or the level of the decision stands, in percent."""

    title: str
    lines: tuple[Line, ...]
    kind: Literal["zero", "level", "count"]
    mark: float = 2.0
    key: str = ""
    key_of_mark: str = ""


@dataclass(frozen=True)
class NearestCase:
    """The nearest counterfactual of one hypothesis that changes the decision."""

    input: str
    subset: str
    changes: tuple[tuple[str, str, str], ...]  # column, observed value, drawn value
    more: int  # columns that are left out
    before: str
    after: str


@dataclass(frozen=True)
class Example:
    """One hypothesis beside a few counterfactuals: of each column its name, the observed value and the drawn ones."""

    input: str
    subset: str
    columns: tuple[tuple[str, str, tuple[str, ...]], ...]
    more: int
    observed: str
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Entry:
    """One input in a list: its strongest reason, and the probability of another decision but for it."""

    name: str
    called: str  # the class with the largest output
    reason: Line | None  # None: nothing was tested
    flip: Line | None


@dataclass(frozen=True)
class Answer:
    """One sentence of the answer, and examples of it, an input each."""

    about: Literal["decision", "features", "inputs", "next"]
    sentence: str
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class View:
    """A result as every rendering shows it."""

    headline: str  # the answer in one sentence
    lead: tuple[str, ...]
    answers: tuple[Answer, ...]  # all of it, with examples
    chart: Chart | None
    nearest: NearestCase | None
    promise: str  # in one line
    guarantee: str
    caveats: tuple[str, ...]
    promises: tuple[str, ...]  # on decisions and on features, which are others
    bound: str
    control: str
    notes: tuple[Note, ...]  # warnings first
    made: str  # how many were chosen, of how many, by which test
    settings: tuple[tuple[str, str], ...]


def view(result: Result) -> View:
    """Return what is shown of a result: what is established, the most telling first, or what comes nearest.

    Examples
    --------
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> view(butfor.explain(lambda X: X[:, 0], rows[:3] + [4, 0], rows, subsets="columns")).headline
    'Input by input: something is established for 3 of 3 inputs. Most often: x0 (3).'
    """
    every, order = answers(result), list(LABELS)
    first, *lead = (answer.sentence for answer in every)
    if result.decided is not None and len(result.input_names) == 1:  # one decision: the sentence on it stands first
        row = telling_row(result, 0)
        needed = result.decided.necessary.any()
        first = flip_sentence(result, row) if needed else f"{NOT_ESTABLISHED} {flip_sentence(result, row)}"
        lead = [*filter(None, [which_of(result, row)]), *(one.sentence for one in every if one.about != "decision")]
    return View(
        headline=first,
        lead=tuple(lead),
        answers=tuple(every),
        chart=global_chart(result) if result.is_global else _chart(result),
        nearest=_nearest(result),
        promise=promise_line(result),
        guarantee=str(replace(result.guarantee, caveats=())),
        caveats=tuple(map(str, result.guarantee.caveats)),
        promises=tuple(other_promises(result)),
        bound="" if result.is_global else bound_sentence(result),
        control="" if result.control is None else str(result.control),
        notes=tuple(sorted(result.notes, key=lambda note: order.index(note.severity))),
        made=importance_headline(result) if result.is_global else headline(result),
        settings=tuple(_settings(result)),
    )


# The sentences of the answer

MOST_INPUTS = 3  # with a sentence each beside the decision
MOST_NAMED = 3
NEAR = 0.05  # the share of flips from which on a part is named as the nearest
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
NOT_ESTABLISHED = "It is not established what the decision hangs on."


def answers(result: Result) -> list[Answer]:
    """Return the sentences of the answer, what is established first; never none."""
    if result.is_global:
        return _global_answers(result)
    decided, over = result.decided, result.over_inputs
    decision = [] if decided is None else [_decision_answer(result)]
    features = [Answer("features", text) for text in _feature_sentences(result)]
    established = over is not None and bool(over.chosen.any())
    inputs = _inputs_answers(result)
    if decided is not None and decided.necessary.any():
        return [*decision, *features, *inputs]
    return [*features, *inputs, *decision] if established else [*inputs, *features, *decision]


def _decision_answer(result: Result) -> Answer:
    """Return how many decisions hang on what, with an input for each subset that they hang on most often."""
    decided, total = result.decided, len(result.input_names)
    assert decided is not None
    needed = finest_of(result, decided.necessary)
    inputs = np.unique(result.input_of[decided.necessary])
    if not inputs.size:
        sentence = NOT_ESTABLISHED if total == 1 else f"For none of {total} inputs is it established what it hangs on."
        share = np.nan_to_num(decided.share, nan=-1.0)
        if share.size and share.max() > 0:
            row = int(np.argmax(share))
            name = result.input_names[int(result.input_of[row])]
            sentence += f" The nearest is {name!r}: {flip_sentence(result, row)}"
        return Answer("decision", sentence)
    of_inputs = f"{len(inputs):,} of {total:,} inputs" if total > 1 else "the input"
    sentence = f"For {of_inputs} it is established what the decision hangs on. {_most(result, needed)}"
    part, layers, rows = np.zeros(len(needed)), result.hypotheses.layers, np.flatnonzero(needed)
    if layers is not None:
        np.maximum.at(part, layers.parent, np.nan_to_num(decided.share) * (layers.parent >= 0))
    count = np.bincount(result.subset_of[rows], minlength=len(result.subset_names))
    order = np.argsort(-count, kind="stable")[:MOST_INPUTS]
    surest = []  # of each subset the input that is surest of it, or of a part of it
    for subset in order[count[order] > 0]:
        of_subset = rows[result.subset_of[rows] == subset]
        surest.append(int(result.input_of[of_subset[np.lexsort((-part[of_subset], -decided.low[of_subset]))[0]]]))
    examples = (f"{result.input_names[i]!r}: {input_sentence(result, i)}" for i in dict.fromkeys(surest))
    return Answer("decision", sentence, tuple(examples))


def input_sentence(result: Result, index: int) -> str:
    """Return the strongest but-for reason of one input in words."""
    row = telling_row(result, index)
    return " ".join(filter(None, [flip_sentence(result, row), which_of(result, row)]))


def telling_row(result: Result, index: int) -> int:
    """Return the strongest but-for reason of one input: its finest necessary subset, else the likeliest one."""
    decided = result.decided
    assert decided is not None
    of_input = result.input_of == index
    needed = finest_of(result, decided.necessary) & of_input
    rows = np.flatnonzero(needed if needed.any() else of_input)
    return int(rows[np.argmax(np.nan_to_num(decided.share[rows], nan=-1.0))])


def which_of(result: Result, row: int) -> str:
    """Return that it is not known which part of a group the decision hangs on, where none of them is established."""
    layers, decided = result.hypotheses.layers, result.decided
    if layers is None or decided is None:
        return ""
    size = getattr(result.hypotheses.block_of(row).subset.index, "size", 1)
    if size < 2:
        return ""
    parts = np.flatnonzero(layers.parent == row)
    parts = parts[np.nan_to_num(decided.share[parts], nan=-1.0) >= NEAR]
    words = f"Which of the {NUMBERS[size] if size < len(NUMBERS) else size} it hangs on is not established"
    if not parts.size:
        return f"{words}."
    nearest = int(parts[np.argmax(decided.share[parts])])
    name = result.subset_names[int(result.subset_of[nearest])]
    return f"{words}; of its parts {name} comes nearest ({100 * decided.share[nearest]:.0f} %)."


def _most(result: Result, marked: Bools) -> str:
    """Return the subsets that are marked for most inputs; of a single input those that are."""
    one = len(result.input_names) == 1
    count = np.bincount(result.subset_of[marked], minlength=len(result.subset_names))
    strength = np.zeros(len(count))
    if one and result.decided is not None:
        strength[result.subset_of] = np.nan_to_num(result.decided.share)
    order = np.lexsort((-strength, -count))[:MOST_NAMED]
    named = [f"{result.subset_names[j]}" + ("" if one else f" ({count[j]})") for j in order if count[j]]
    left = int((count > 0).sum()) - len(named)
    more = f" and {left} more" if one and left > 0 else ""
    return f"{'In its finest parts' if one else 'Most often'}: {'; '.join(named)}{more}." if named else ""


def _feature_sentences(result: Result) -> list[str]:
    """Return which subsets set the inputs apart from the reference, in their finest established parts."""
    over = result.over_inputs
    if over is None:
        return []
    target = Target("output")
    if result.record.target == "predicted":
        target = averaged_target(Target("predicted"), result.outputs, result.record.link)
    classes = result.output_names or range(result.outputs.shape[1])
    called = np.unique(result.outputs.argmax(axis=1))
    chosen = over.chosen
    if result.hypotheses.layers is not None:
        chosen = result.hypotheses.layers.first(len(chosen)).finest(chosen, over.effect)
    finest = np.flatnonzero(chosen)
    if finest.size:
        order = finest[np.argsort(-np.abs(over.effect[finest]), kind="stable")][:6]
        named = [f"{result.subset_names[j]} ({over.effect[j]:+.3g})" for j in order]
        more = f" and {finest.size - len(order)} more" if finest.size > len(order) else ""
        two = target.classes is not None and (called != target.classes[0]).any()
        of_class = f" for {classes[int(target.classes[0])]!r}" if two and target.classes is not None else ""
        return [
            "Over all inputs: what sets them apart from the reference, and by how much on average"
            f"{of_class} (established, approximate): {'; '.join(named)}{more}."
        ]
    if target.kind != "predicted" or len(called) < 2:
        return []
    names = [classes[j] for j in called.tolist()]
    return [
        f"Over all inputs nothing is established. They are called {' or '.join(map(str, names))} and each is asked "
        "about its own class, so what speaks for one class and against another averages out; "
        f"target={names[0]!r} asks about one of them for all."
    ]


def _inputs_answers(result: Result) -> list[Answer]:
    """Return for how many inputs something is established; where for none, what to look at."""
    if result.chosen.any():
        finest, total = headline_parts(result, result.chosen), len(result.input_names)
        if total == 1:
            rows = strongest(result, np.flatnonzero(finest), finest, len(finest))
            effects = [number(result.effects.effect[row], sign=True) for row in rows.tolist()]
            named = [result.subset_names[j] for j in result.subset_of[rows].tolist()]
            listed = [f"{name} ({effect})" if effect else name for name, effect in zip(named, effects, strict=True)]
            more = f" and {len(listed) - 4} more" if len(listed) > 4 else ""
            return [Answer("inputs", f"Established for this input: {'; '.join(listed[:4])}{more}.")]
        count = len(np.unique(result.input_of[result.chosen]))
        of_inputs = f"{count:,} of {total:,} inputs"
        return [Answer("inputs", f"Input by input: something is established for {of_inputs}. {_most(result, finest)}")]
    nothing = Answer("inputs", "Nothing is established input by input.")
    steps = _next_steps(result) if len(result.chosen) else []
    return [nothing, Answer("next", f"To look at: {'; '.join(steps)}.")] if steps else [nothing]


def _next_steps(result: Result) -> list[str]:
    """Return where a run that established nothing input by input has an answer or comes near one."""
    steps = []
    over, decided = result.over_inputs, result.decided
    if over is not None and over.chosen.any():
        steps.append("result.features has what is established over all inputs together")
    if decided is not None and decided.necessary.any():
        steps.append("result.table.necessary has what decisions hang on")
    known = np.flatnonzero(np.isfinite(result.effects.effect))
    if known.size:
        row = int(known[np.argmax(np.abs(result.effects.effect[known]))])
        name, subset = result.input_names[int(result.input_of[row])], result.subset_names[int(result.subset_of[row])]
        effect = f"the largest effect is {result.effects.effect[row]:+.3g}, of {subset!r} on input {name!r}"
        steps += [f"{effect} (not established)", f"result.reasons({name!r}) lists what comes near"]
    if decided is None and not result.record.declined and result.modality == "table":
        one, edge = "outputs" if result.outputs.shape[1] == 1 else "outputs[:, 0]", np.median(result.outputs[:, :1])
        steps.append(f"decide=lambda outputs: {one} >= {edge:.4g} asks what such a decision hangs on, without pooling")
    return steps


def _global_answers(result: Result) -> list[Answer]:
    """Return what is established over the data set, and for how many features."""
    finest = finest_of(result, result.chosen)  # a group where none of its columns is
    effect = np.where(finest, np.abs(np.nan_to_num(result.effects.effect)), -1.0)
    count, total = int(finest.sum()), len(result.chosen)
    names = [result.subset_names[j] for j in np.argsort(-effect, kind="stable")[:count]]
    named = ", ".join(names[:MOST_NAMED]) + (f" and {count - MOST_NAMED} more" if count > MOST_NAMED else "")
    lead = f"Established for {count:,} of {total:,} features, over {result.n_inputs:,} inputs"
    if result.record.test == "holdout":
        first = f"The skill of the model rests on {named}."
        lead += f": the {result.importance.loss} loss is larger when the feature is redrawn, given the others."
    else:
        first = f"What sets these inputs apart from the reference: {named}."
        lead += ": the mean output is another when the feature is redrawn as in the reference, given the others."
    first = first if names else f"Over these {result.n_inputs:,} inputs nothing is established."
    return [Answer("features", first), Answer("features", lead)]


def promise_line(result: Result) -> str:
    """Return what is promised, in one line."""
    controls, most = result.guarantee.controls, percent(result.alpha)
    if result.decided is not None and result.decided.necessary.any():
        rest = {"nothing": "nothing is promised", "FWER": f"all is true but with a probability of {most}"}
        of_rest = rest.get(controls, f"at most {most} is expected to be false")
        necessary = f"Of what is called necessary at most {percent(result.record.alpha)} is expected to be wrong"
        if result.record.simultaneous:
            necessary = "All that is called necessary holds with 95 % confidence"
        return f"{necessary}; of the rest, {of_rest}."
    if controls == "nothing":
        return "Nothing is promised about errors here: see why."
    if controls == "FWER":
        return f"The probability that anything called established{_detail(result)} is false is at most {most}."
    return f"Of what is called established{_detail(result)}, at most {most} is expected to be false."


def other_promises(result: Result) -> list[str]:
    """Return what is promised of decisions and of features, each with what it assumes of the sampler."""
    record, layered = result.record, result.hypotheses.layers is not None
    decisions = [] if result.decided is None else [promise_of_decisions(record, layered)]
    return decisions + ([] if result.over_inputs is None else [promise_of_features(record, layered)])


def _detail(result: Result) -> str:
    return "" if result.hypotheses.layers is None else " at each level of detail"


SETTINGS = {
    "model": "Model",
    "data": "Data",
    "reference": "Reference (what the inputs are compared with)",
    "boxes": "Regions",
    "units": "Units",
    "sampler": "Sampler",
    "why": "Why this sampler",
    "test": "Test",
    "loss": "Loss",
    "alternative": "Alternative",
    "target": "Target",
    "link": "Link",
    "seed": "Seed",
    "version": "butfor version",
}


def _settings(result: Result) -> list[tuple[str, str]]:
    get = result.record.get
    known = [(label, str(get(name))) for name, label in SETTINGS.items() if get(name) is not None]
    family = "all subsets" if result.is_global else {"run": "the run", "input": "each input"}[result.family]
    chosen_by = f"{result.rule} at alpha {result.alpha:g}, over {family}"
    return [*known, ("Selection", chosen_by), ("Model rows evaluated", f"{result.rows:,}")]


# Names and numbers as text


def percent(share: float) -> str:
    """Return a probability as people write it.

    >>> percent(0.927), percent(float("nan"))
    ('93 %', '')
    """
    return f"{round(100 * share)} %" if np.isfinite(share) else ""


def value_text(value: Any) -> str:
    """Return a value of a table as a person would write it."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        return "" if value is None else str(value)
    return number(float(value)) or "missing"


def class_label(name: object) -> str:
    """Return the name of a class; one that is only a number or a truth value is called "class 1"."""
    text = str(name)
    return f"class {text}" if text.isdigit() or isinstance(name, bool | np.bool_) else text


def output_class(result: Result, index: int | None = None) -> str:
    """Return the name of the output that was tested; "the class asked about" where inputs differ in it."""
    names = result.output_names
    if names is None:
        return ""
    classes = result.evidence.classes
    tested = np.unique(classes if index is None else classes[result.input_of == index])
    return class_label(names[int(tested[0])]) if len(tested) == 1 else "the class asked about"


def output_label(result: Result, index: int | None = None) -> str:
    """Return what the numbers of a result, or of one input, are: "probability of default", "log-odds of cat"."""
    name = output_class(result, index)
    link = LINKS.get(str(result.record.link), "")
    if link:
        return f"{link} of {name or 'the output'}"
    if result.output_names is None or not result.outputs.size:
        return "output"
    return f"probability of {name}" if are_probabilities(result.outputs) else f"output for {name}"


def effect_label(result: Result, index: int | None = None) -> str:
    """Return what an effect, or that of one input, is a change of."""
    return f"change in the {output_label(result, index)}"


def rounded_effects(result: Result) -> tuple[Floats, Floats, Floats]:
    """Return effects (H,) and the ends of their intervals to a thousandth of the largest of their input.

    What is nothing beside it reads 0, and not -1.72e-07.
    """
    effects, largest = result.effects, np.zeros(len(result.input_names))
    np.maximum.at(largest, result.input_of, np.nan_to_num(np.abs(effects.effect)))
    linked = LINKS.get(str(result.record.link))
    if not linked and result.output_names is not None and result.outputs.size and are_probabilities(result.outputs):
        largest = np.maximum(largest, 0.1)  # a probability has four digits at most
    beside = largest[result.input_of]
    return to_scale(effects.effect, beside), to_scale(effects.low, beside), to_scale(effects.high, beside)


# Which hypotheses are shown, in which order


def values(result: Result) -> Array:
    """Return the observed value of every hypothesis (H,) that is a single column; None elsewhere."""
    return result.table["value"].to_numpy(dtype=object)


def rows_of(result: Result, index: int) -> Ints:
    """Return the rows of the table of one input."""
    return np.flatnonzero(result.input_of == index)


def marked(result: Result) -> Bools:
    """Return which hypotheses (H,) are established, or necessary to a decision."""
    return result.chosen if result.decided is None else result.chosen | result.decided.necessary


def input_index(result: Result, name: object) -> int:
    """Return the index of an input; None is the one with most that is marked, then with the largest effect."""
    if name is not None:
        return result.position(name)
    count = len(result.input_names)
    established = np.bincount(result.input_of[marked(result)], minlength=count)
    size = np.zeros(count)
    np.maximum.at(size, result.input_of, np.nan_to_num(np.abs(result.effects.effect)))
    return int(np.lexsort((-size, -established))[0])


def strongest(result: Result, rows: Ints, sure: Bools, most: int) -> Ints:
    """Return rows with the established ones first, the finest of them first, then by the size of the effect."""
    size = np.nan_to_num(np.abs(result.effects.effect[rows]))
    return rows[np.lexsort((-size, ~headline_parts(result, sure)[rows], ~sure[rows]))][:most]


def by_evidence(result: Result) -> Ints:
    """Return the rows of chosen hypotheses, strongest evidence first; among equals the largest effect."""
    rows = np.flatnonzero(result.chosen)
    strength = result.evidence.values[rows] * (1 if result.evidence.kind == "p" else -1)
    return rows[np.lexsort((-np.nan_to_num(np.abs(result.effects.effect[rows])), strength))]


def leading(result: Result) -> Ints:
    """Return the row of each input that says most: necessary, else established, finest, then the largest share or
    effect; -1 where nothing was tested of an input."""
    sure = headline_parts(result, marked(result))
    size = np.nan_to_num(np.abs(result.effects.effect))
    if result.decided is not None:
        needed = finest_of(result, result.decided.necessary)
        strength = np.nan_to_num(result.decided.share) + 2 * sure + 4 * needed
    else:
        strength = size / (size.max(initial=0.0) or 1.0) + 2 * sure
    order = np.lexsort((-strength, result.input_of))
    inputs, first = np.unique(result.input_of[order], return_index=True)
    rows = np.full(len(result.input_names), -1)
    rows[inputs] = order[first]
    return rows


def parents(result: Result) -> Ints:
    """Return of each subset (S,) the larger one that it is a part of; -1 where there is none."""
    layers, size = result.hypotheses.layers, len(result.subset_names)
    if layers is None or result.hypotheses.size != size * len(result.input_names):
        return np.full(size, -1)
    return layers.parent[:size]


def tree_order(result: Result) -> tuple[Ints, Ints]:
    """Return the subsets (S,) so that parts follow what they are parts of, and the depth (S,) of each subset."""
    parts: dict[int, list[int]] = {}
    for subset, above in enumerate(parents(result).tolist()):
        parts.setdefault(above, []).append(subset)
    order: list[int] = []
    depth = np.zeros(len(result.subset_names), np.int64)
    todo = parts.get(-1, [])[::-1]
    while todo:
        order.append(todo.pop())
        below = parts.get(order[-1], [])
        depth[below] = depth[order[-1]] + 1
        todo += below[::-1]
    return np.array(order, np.int64), depth


# Lines and charts

Scale = Callable[[float], float | None]


def scale_over(*numbers: Any) -> Scale:
    """Return the scale from numbers to percent of the width that has room for all of these and zero."""
    ends = np.concatenate([*map(np.ravel, numbers), [0.0]])
    ends = ends[np.isfinite(ends)]
    least, width = float(ends.min()), float(ends.max() - ends.min()) or 1.0

    def position(value: float) -> float | None:
        return float(2 + 96 * np.clip((value - least) / width, 0, 1)) if np.isfinite(value) else None

    return position


def _line(scale: Scale, name: str, middle: float, ends: tuple[float, float], sure: bool, **more: Any) -> Line:
    """Return a line of an effect with its interval; what is computed exactly has none."""
    low, high = ends
    known = np.isfinite(low) and np.isfinite(high) and low != high
    interval = f"{number(low, sign=True)} to {number(high, sign=True)}" if known else ""
    text = number(middle, sign=True)
    return Line(name, text, interval, scale(low), scale(middle), scale(high), bool(sure), **more)


def decision_lines(result: Result, rows: Ints) -> tuple[Line, ...]:
    """Return the probability of another decision but for each of these hypotheses."""
    decided, scale, observed = result.decided, scale_over(1.0), values(result)
    assert decided is not None
    lines = []
    for row in rows.tolist():
        share, low, high = decided.share[row], decided.low[row], decided.high[row]
        interval = f"{round(100 * low)} to {percent(high)}" if np.isfinite(low) else ""
        name, value = result.subset_names[int(result.subset_of[row])], value_text(observed[row])
        ends, sure = (scale(low), scale(share), scale(high)), bool(decided.necessary[row])
        lines.append(Line(name, percent(share), interval, *ends, sure, value))
    return tuple(lines)


def effect_lines(result: Result, rows: Ints, sure: Bools) -> tuple[tuple[Line, ...], float]:
    """Return the effects of these hypotheses, and where zero stands."""
    effect, low, high = rounded_effects(result)
    scale, status = scale_over(effect[rows], low[rows], high[rows]), result.table["status"].to_numpy()
    observed, evidence = values(result), result.evidence
    lines = (
        _line(
            scale,
            result.subset_names[int(result.subset_of[row])],
            effect[row],
            (low[row], high[row]),
            sure[row],
            value=value_text(observed[row]),
            more=percent(evidence.surprise[row]),
            evidence=number(evidence.values[row]),
            q=number(result.q[row]),
            status=str(status[row]),
        )
        for row in rows.tolist()
    )
    return tuple(lines), scale(0.0) or 0.0


def features_chart(result: Result, subsets: Ints) -> Chart:
    """Return the mean effects of subsets over all inputs."""
    frame = result.features
    effect, low, high = (frame[name].to_numpy(np.float64) for name in ("effect", "effect_low", "effect_high"))
    largest = np.abs(np.nan_to_num(effect)).max(initial=0.0, keepdims=True)
    effect, low, high = (to_scale(column, largest) for column in (effect, low, high))
    sure, (_, depth) = frame["chosen"].to_numpy(), tree_order(result)
    more = [f"{n:,} of {total:,}" for n, total in zip(frame["inputs_chosen"], frame["inputs"], strict=True)]
    scale = scale_over(effect[subsets], low[subsets], high[subsets])
    lines = (
        _line(scale, result.subset_names[j], effect[j], (low[j], high[j]), sure[j], depth=int(depth[j]), more=more[j])
        for j in subsets.tolist()
    )
    return Chart(f"Mean {effect_label(result)}, over all inputs", tuple(lines), "zero", scale(0.0) or 0.0, KEY)


def global_chart(result: Result) -> Chart:
    """Return the features of a data set, established ones first; of the others the difference on the test's draws."""
    effects, evidence, q = result.effects, result.evidence, result.q
    known = np.isfinite(effects.effect)
    middle = np.where(known, effects.effect, result.difference)
    low, high = (np.where(known, end, np.nan) for end in (effects.low, effects.high))
    order = np.lexsort((-np.abs(np.nan_to_num(middle)), ~result.chosen))[:MOST_FEATURES]
    more = [number(p) if tested else "no variation" for p, tested in zip(evidence.values, result.tested, strict=True)]
    scale = scale_over(middle[order], low[order], high[order])
    lines = (
        _line(
            scale, result.subset_names[j], middle[j], (low[j], high[j]), result.chosen[j], more=more[j], q=number(q[j])
        )
        for j in order.tolist()
    )
    title = effect_name(result)
    return Chart(title[:1].upper() + title[1:], tuple(lines), "zero", scale(0.0) or 0.0, KEY)


def _chart(result: Result) -> Chart | None:
    """Return the chart beside the first sentence."""
    decided, over, chosen = result.decided, result.over_inputs, result.chosen
    if decided is not None and (len(result.input_names) == 1 or decided.necessary.any()):
        if len(result.input_names) > 1 and len(np.unique(result.subset_of[decided.necessary])) > 2:
            title = "by the finest part on which their decision hangs"
            return _counts(result, finest_of(result, decided.necessary), title)
        return _decision_chart(result, input_index(result, None))
    if over is not None and over.chosen.any():
        order = np.lexsort((-np.abs(np.nan_to_num(over.effect)), ~over.chosen))
        return features_chart(result, order[:MOST_LINES])
    if chosen.any() and len(result.input_names) > 1:
        part = "part" if result.hypotheses.layers is None else "finest part"
        return _counts(result, headline_parts(result, chosen), f"by the {part} that is established")
    index = input_index(result, None)
    rows = rows_of(result, index)
    rows = rows[np.isfinite(result.effects.effect[rows])]
    if not len(rows):
        return None
    lines, zero = effect_lines(result, strongest(result, rows, chosen, MOST_LINES), chosen)
    title = f"{result.input_names[index]}: {effect_label(result, index)}"
    return Chart(title, lines, "zero", zero, f"{KEY} {OF_INTERVALS}")


def _decision_chart(result: Result, index: int) -> Chart:
    decided, rows = result.decided, rows_of(result, index)
    assert decided is not None
    rows = rows[np.lexsort((-np.nan_to_num(decided.share[rows], nan=-1.0), ~decided.necessary[rows]))][:MOST_LINES]
    title = f"{result.input_names[index]}: probability that the decision would have been otherwise, but for"
    each = "all of a resolution together" if result.record.simultaneous else "each by itself"
    key = f"Blue: established as more likely than the level; grey: not. Second line: 95 % interval, {each}."
    mark, key_of_mark = scale_over(1.0)(decided.level) or 0.0, f"Dashed: level {decided.level:g}."
    return Chart(title, decision_lines(result, rows), "level", mark, key, key_of_mark)


def _counts(result: Result, marked: Bools, title: str) -> Chart:
    """Return for how many inputs each subset is marked; those marked are the finest of each input."""
    size = len(result.subset_names)
    count, total = np.bincount(result.subset_of[marked], minlength=size), np.bincount(result.subset_of, minlength=size)
    order = np.argsort(-count, kind="stable")[: min(MOST_LINES, int((count > 0).sum()))]
    scale = scale_over(count.max(initial=1))  # not all inputs: 76 of 5,000 would be a speck
    bars = [(j, scale(float(count[j]))) for j in order.tolist()]
    lines = (
        Line(result.subset_names[j], f"{count[j]:,} of {total[j]:,}", "", scale(0.0), end, end, bool(count[j]))
        for j, end in bars
    )
    return Chart(f"Number of {INPUTS.get(result.modality, 'inputs')}, {title}", tuple(lines), "count")


# Inputs one by one


def called(result: Result) -> list[str]:
    """Return the class that the model gives each input; nothing where outputs are no classes."""
    if result.output_names is None or not result.outputs.size or result.outputs.shape[1] < 2:
        return [""] * len(result.input_names)
    return [class_label(result.output_names[j]) for j in result.outputs.argmax(axis=1).tolist()]


def entries(result: Result, most: int) -> list[Entry]:
    """Return the first inputs with their strongest reason, those with something established first."""
    lead, classes, sure = leading(result), called(result), marked(result)
    established = np.bincount(result.input_of, weights=headline_parts(result, sure), minlength=len(result.input_names))
    order = np.argsort(established == 0, kind="stable")[:most]
    rows = np.maximum(lead[order], 0)
    lines, _ = effect_lines(result, rows, sure)
    flips = decision_lines(result, rows) if result.decided is not None else (None,) * len(order)
    return [
        Entry(str(result.input_names[i]), classes[i], *((line, flip) if lead[i] >= 0 else (None, None)))
        for i, line, flip in zip(order.tolist(), lines, flips, strict=True)
    ]


def _nearest(result: Result) -> NearestCase | None:
    """Return the nearest case in which the decision of the input with most to show changes."""
    decided = result.decided
    if decided is None or not decided.nearest:
        return None
    needed = finest_of(result, decided.necessary)
    rows = [row for row in rows_of(result, input_index(result, None)).tolist() if row in decided.nearest]
    if not rows:
        return None
    return nearest_case(result, min(rows, key=lambda row: (not needed[row], -float(np.nan_to_num(decided.share[row])))))


def nearest_case(result: Result, row: int) -> NearestCase | None:
    """Return the nearest counterfactual of one hypothesis that changes the decision; tables only."""
    decided, index = result.decided, int(result.input_of[row])
    if decided is None or result.modality != "table" or row not in decided.nearest:
        return None
    items, subset, names = result.hypotheses.items, result.hypotheses.block_of(row).subset, result.record.columns
    before = items.shown(items.block(index, index + 1))
    after = result.nearest(result.input_names[index], subset.name)
    assert after is not None
    pairs = [(str(names[j]), *_column(before, j), *_column(after, j)) for j in subset.index.tolist()]
    changes = [(name, old, new) for name, old, new in pairs if old != new]
    then = decided.nearest[row].outputs[0]
    column = int(result.evidence.classes[row]) if len(then) > 1 else 0
    label = output_label(result, index) if result.record.link is None else "output"
    return NearestCase(
        str(result.input_names[index]),
        subset.name,
        tuple(changes[:MOST_CHANGED]),
        max(0, len(changes) - MOST_CHANGED),
        f"{label} {number(result.outputs[index][column])}" if result.outputs.size else "",
        number(then[column]),
    )


def example(result: Result, row: int) -> Example:
    """Return the counterfactuals of one hypothesis that the run kept."""
    index, name = int(result.input_of[row]), result.subset_names[result.subset_of[row]]
    items, columns = result.hypotheses.items, result.hypotheses.block_of(row).subset.index
    drawn, observed = items.shown(result.kept.whole(result.hypotheses, row)), items.shown(items.block(index, index + 1))
    names, outputs = result.record.columns, result.kept.outputs(row)
    shown = tuple(
        (str(names[j]), _column(observed, j)[0], tuple(_column(drawn, j))) for j in columns[:MOST_COLUMNS].tolist()
    )
    output = int(result.evidence.classes[row]) if outputs.shape[1] > 1 else 0
    return Example(
        str(result.input_names[index]),
        name,
        shown,
        max(0, len(columns) - MOST_COLUMNS),
        number(result.outputs[index][output]) if result.outputs.size else "",
        tuple(number(value) for value in outputs[:, output]),
    )


def _column(rows: Batch, column: int) -> list[str]:
    """Return a column of an array or a frame as text."""
    cells = (rows[:, column] if isinstance(rows, np.ndarray) else rows.iloc[:, column]).tolist()
    return [str(cell) if cell is None else value_text(cell) for cell in cells]
