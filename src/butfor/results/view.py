"""The view model of a result, which the terminal, notebooks, reports and the studio render.

Data only: sentences, lines with intervals, and numbers as text. Nothing here calls a model or a sampler, and no
rendering words or formats anything a second time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from butfor.inference.effects import Effects
from butfor.results.notes import PICKED
from butfor.results.record import TableInputs
from butfor.results.result import Moved, Result
from butfor.results.summary import (
    WIDTH,
    are_logits,
    are_probabilities,
    effect_name,
    finest_of,
    flip_words,
    headline,
    headline_parts,
    importance_headline,
    number,
    probabilities,
    size_of,
    size_words,
    to_scale,
    unknown,
    with_interval,
)
from butfor.results.where import meaning_of_where, promise_of_where, smallest, where_lines
from butfor.results.words import Note, Severity, promise_of_decisions, promise_of_features
from butfor.types import Array, Batch, Bools, Floats, Ints

EVIDENCE = {"p": "p-value", "z": "z", "w": "score", "e": "e-value"}
LINKS = {"logit": "log-odds", "log": "logarithm"}
INPUTS = {"image": "images", "text": "texts"}
PARTS = {"table": "column", "image": "region", "text": "part", "multimodal": "part"}
LABELS: dict[Severity, str] = {"warning": "Beware", "limit": "Good to know", "info": "Detail"}
MOST_LINES = 8  # of a chart
MOST_FEATURES = 200  # of a global result
MOST_CHANGED, MOST_COLUMNS = 6, 12
KEY = "Blue: {blue}; grey: not {blue}. Second line: 95 % interval."
OF_UNUSUAL = (
    "; unusual says that the output is extreme among its counterfactuals, with alpha for all of them together. So the "
    "interval of an unusual part may hold 0."
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
    sure: bool  # a finding: in colour
    value: str = ""  # observed, of a single column
    depth: int = 0  # in the tree of subsets
    more: str = ""  # how extreme, for how many inputs, or the p-value
    evidence: str = ""
    q: str = ""  # the least alpha at which it would be unusual
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
    output: str  # its name
    before: str
    after: str
    becomes: str = ""  # the other class; nothing where a rule of the user's decides


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


About = Literal[
    "says", "decisive", "enough", "moves", "nearest", "unusual", "differ", "matter", "note", "control", "promise"
]
QUESTIONS: dict[About, tuple[str, str]] = {  # in a word, and what the word means
    "says": ("", ""),
    "decisive": ("Decisive", "but for this part, redrawn given the rest, the decision would likely have been another."),
    "enough": ("Enough", "with these parts kept and all the rest redrawn, the decision nearly always stays."),
    "moves": ("Moves the output", "the output less its mean with this part redrawn is surely more than a little."),
    "nearest": ("Nearest change", "the draw nearest to the input that changes the decision; a smaller one may do."),
    "unusual": ("Unusual", "the output is extreme beside those of the same input with this part redrawn."),
    "differ": ("Differ on average", "the mean output is another than with this part redrawn as in the reference."),
    "matter": ("Matter", "the loss rises when this part is redrawn given the other columns."),
    "note": ("Note", ""),
    "control": ("Control", "rows of the reference go through the same test; nothing is to be found there."),
    "promise": ("Promise", ""),
}


@dataclass(frozen=True)
class Answer:
    """One line of the answer: the question in a word, what is known of it, and what the word means."""

    about: About
    text: str
    full: str = ""  # with the names that `text` cuts to keep to a line of the terminal

    @property
    def question(self) -> str:
        """The question in a word; none for what the model says."""
        return QUESTIONS[self.about][0]

    @property
    def meaning(self) -> str:
        """Meaning of the word; nothing where it needs no explanation."""
        return QUESTIONS[self.about][1]

    def __str__(self) -> str:
        return f"{self.question}: {self.text}" if self.question else self.text


@dataclass(frozen=True)
class View:
    """A result as every rendering shows it."""

    lines: tuple[Answer, ...]  # the answer, what the model says first
    chart: Chart | None
    nearest: NearestCase | None
    guarantee: str
    caveats: tuple[str, ...]
    promises: tuple[str, ...]  # on decisions and on features, which are others
    control: str
    notes: tuple[Note, ...]  # warnings first
    made: str  # how many were chosen, of how many, by which test
    settings: tuple[tuple[str, str], ...]


def view(result: Result) -> View:
    """Return what is shown of a result.

    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> shown = view(butfor.explain(lambda X: X[:, 0], rows[:3] + [4, 0], rows, subsets="columns"))
    >>> print(shown.lines[1])
    Moves the output: x0 up by 4.03 in 3 of 3
    """
    order, notes = list(LABELS), [note for note in result.notes if _binds(result, note)]
    promises, layered = list[str](), result.hypotheses.layers is not None
    if result.located is not None:
        promises.append(meaning_of_where(result))
    else:
        if result.decided is not None or result.moved is not None:
            promises.append(promise_of_decisions(result.record, layered))
        if result.over_inputs is not None:
            promises.append(promise_of_features(result.record, layered))
    return View(
        lines=tuple(answer(result)),
        chart=global_chart(result) if result.is_global else _chart(result),
        nearest=None if (nearest := _nearest(result)) is None else nearest_case(result, nearest),
        guarantee=str(replace(result.guarantee, caveats=())),
        caveats=tuple(map(str, result.guarantee.caveats)),
        promises=tuple(promises),
        control="" if result.control is None else str(result.control),
        notes=tuple(sorted(notes, key=lambda note: order.index(note.severity))),
        made=importance_headline(result) if result.is_global else headline(result),
        settings=tuple(_settings(result)),
    )


MOST_ANSWERED, MOST_NOTES, MOST_NAMED = 10, 3, 5
TRIVIAL = 1e-3  # of the spread of outputs over inputs and reference: less is no finding
SHORT_NAME = 30  # characters, where that makes room for another part
LEAST_SHOWN = 12  # characters of a name that is cut
DOUBTS = ("dependence-ignored", "data-dependent", "truth", "beyond-reference", "not-controlled", "check-of-all")
OF_GIVEN = ("given-reach", "given-open", "painted-again")
BINDING = (  # why nothing was found; the first that holds is said
    "reference-limits", "draws-limit", "competition-empty", "e-values-together", "list-limits", "passes-limit",
    "drawing-ended", "weak", "weak-data", "hidden", "no-skill-alone", "no-skill", "mixed-classes", "blind", "ordinary",
    "ordinary-data", "as-drawn",
)  # fmt: skip


def answer(result: Result) -> list[Answer]:
    """Return the lines of the answer, the first on what the model says; a line is at most WIDTH characters."""
    if result.is_global:
        first = [_global_says(result), _matter(result)]
    else:
        parts = (_says, _decisive, _enough, _moves, _nearest_line, _unusual, _differ)
        if only_together(result):  # what is enough tells more then
            parts = (_says, _enough, _decisive, *parts[3:])
        first = [line for part in parts if (line := part(result)) is not None]
    if result.located is not None:
        located = where_lines(result, lambda *one: cut(input_title(*one), 24), MOST_NAMED)
        first = [_line_of("says", str(first[0])), *(_line_of("moves", line) for line in located)]
    last = [] if result.control is None else [_line_of("control", str(result.control))]
    last.append(_line_of("promise", promise_line(result)))
    # that inputs look picked is said beside what is unusual
    notes = [note for note in result.notes if note.severity == "warning" and note.code not in PICKED]
    notes += [caveat for caveat in result.guarantee.caveats if caveat.code in DOUBTS]
    notes += [note for note in result.notes if note.code in OF_GIVEN]
    if only_together(result):
        notes.append(Note("only-together", "limit", {"enough": bool(result.sets and len(result.enough()))}))
    if not result.chosen.any():  # the limit that decided this
        notes += [note for note in result.notes if note.code in BINDING and _binds(result, note)][:1]
    room = min(MOST_NOTES, MOST_ANSWERED - len(first) - len(last))
    return [*first, *(_line_of("note", note.line) for note in notes[: max(room, 0)]), *last]


def _line_of(about: About, text: str) -> Answer:
    """Return a line, cut where it is too long."""
    made = Answer(about, text, text)
    return made if len(str(made)) <= WIDTH else replace(made, text=cut(text, len(text) - len(str(made)) + WIDTH))


def cut(text: str, most: int) -> str:
    """Return a text of at most so many characters.

    >>> cut("late_payments", 8), cut("age", 8)
    ('late_pa…', 'age')
    """
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def shorter(name: str, most: int) -> str:
    """Return the name of a part in at most so many characters, by whole names of columns where that is possible.

    >>> shorter("debt ratio + late payments + score + use", 24), shorter("late_payments", 8)
    ('debt ratio + 3 more', 'late_pa…')
    >>> shorter("25 columns led by worst area", 20), shorter("score + use", 20)
    ('25 columns', 'score + use')
    """
    parts = name.split(" + ")
    ways = [name, name.partition(" led by ")[0]]
    ways += [f"{' + '.join(parts[:kept])} + {len(parts) - kept} more" for kept in range(len(parts) - 1, 0, -1)]
    return next((way for way in ways if len(way) <= most), cut(name, most))


def _listing(about: About, head: str, items: Sequence[tuple[str, str]], tail: str = "", *, further: int = 0) -> Answer:
    """Return a line with as many items (name, words on it) as it has room for, and how many more there are."""
    noun = {"enough": "set", "nearest": "column"}.get(about, "part")

    def more(shown: int) -> str:
        count = len(items) + further - shown
        return f"; {count} other {noun}{'s' * (count > 1)}" if count else ""

    def fitting(longest: int) -> list[str]:
        room, shown = WIDTH - len(str(Answer(about, head + tail))), list[str]()
        for name, words in items[:MOST_NAMED]:
            space = room - len("; ".join([*shown, words])) - len(more(len(shown) + 1))
            fits = shorter(name, max(min(space, longest), LEAST_SHOWN))
            if (shown or longest < WIDTH) and (len(fits) > space or "…" in fits):
                break
            shown.append(fits + words)
        return shown

    shown = max(map(fitting, (WIDTH, SHORT_NAME)), key=len)  # rather two parts than one with a long name
    full = "; ".join(name + words for name, words in items[:MOST_NAMED]) + more(min(len(items), MOST_NAMED))
    return replace(_line_of(about, f"{head}{'; '.join(shown)}{more(len(shown))}{tail}"), full=f"{head}{full}{tail}")


def _says(result: Result) -> Answer:
    """Return the class or the output of the inputs, and the mean of the reference beside it."""
    count, outputs, names = len(result.input_names), result.outputs, result.output_names
    who, mean = f"{count:,} {INPUTS.get(result.modality, 'inputs')}", "mean "
    if count == 1:
        who, mean = cut(input_title(result, 0), 40), ""
    lost = set(result.input_of[list(result.record.untested)]) - set(np.delete(result.input_of, result.record.untested))
    heard = ~np.isin(np.arange(count), list(lost))
    if outputs.size and heard.any() and lost:  # the model failed on the others: their outputs are not known
        who, outputs = f"{heard.sum():,} of {who}", outputs[heard]
    tested = np.unique(result.evidence.classes)
    column = int(tested[0]) if len(tested) == 1 else None
    made = Counter(one for one, known in zip(result.record.decisions, heard, strict=False) if known).most_common()
    if made:  # by a rule of the user's
        decided = ", ".join(f"{n:,} {one}" if count > 1 else str(one) for one, n in made[:MOST_NAMED])
        who = f"{who}, decided: {cut(decided, 40)}"
    if not outputs.size or (made and column is None):
        return _line_of("says", who)
    joint = ";" if made else ":"
    if outputs.shape[1] == 1 or names is None:
        if column is None:
            return _line_of("says", f"{who}: {outputs.shape[1]} outputs each")
        which = "output" if names is None else f"output for {class_label(names[column])}"
        return _mean_line(f"{who}{joint} {mean}{which}", result, outputs, column)
    shares, times = probabilities(outputs), Counter(outputs.argmax(axis=1).tolist()).most_common()
    scale = "probability" if are_probabilities(outputs) or are_logits(outputs) else "output"
    classes = [(f"{n:,} " if len(times) > 1 else "") + class_label(names[j]) for j, n in times[:MOST_NAMED]]
    classes += [f"{len(times) - MOST_NAMED} other classes"] * (len(times) > MOST_NAMED)
    predicted = ":" if count == 1 else ", all predicted" if len(times) == 1 else ", predicted:"
    called = who if made else f"{who}{predicted} {', '.join(classes)}"
    wanted = result.record.target != "predicted" and column is not None and (len(times) > 1 or times[0][0] != column)
    if column is not None and (wanted or made):
        return _mean_line(f"{called}; {mean}{scale} of {class_label(names[column])}", result, shares, column)
    if len(times) == 1:
        return _mean_line(f"{called}; {mean}{scale}", result, shares, times[0][0])
    highest = _as_read(float(shares.max(axis=1).mean()))
    return _line_of("says", f"{called}; {mean}{scale} of the predicted class {highest}")


def _mean_line(head: str, result: Result, outputs: Floats, column: int) -> Answer:
    """Return a line on the mean output of the inputs, and on that of the reference where whole rows were drawn."""
    mean = float(outputs[:, column].mean())
    effect, rows = result.effects.effect, whole_inputs(result) & (result.evidence.classes == column)
    if result.record.target == "predicted" and result.outputs.shape[1] > 1:
        rows &= result.outputs.argmax(axis=1)[result.input_of] == column
    rows &= np.isfinite(effect)
    tails = [_as_read(mean)]
    if rows.any() and result.record.link is None and not result.record.picked and outputs is result.outputs:
        gap = float(effect[rows].mean())
        other = _as_read(mean - gap)
        against = f"{tails[0]} against {other} in the reference"
        tails = [f"{against} ({number(gap, sign=True)})", against, f"{tails[0]} (reference {other})", *tails]
    lines = [f"{head} {tail}" for tail in tails]
    return _line_of("says", next((line for line in lines if len(line) <= WIDTH), lines[-1]))


def _as_read(value: float) -> str:
    """Return an output as people read it: a probability to a thousandth, anything else to three digits."""
    if 0 < value < 1:
        return "<0.001" if value < 0.0005 else ">0.999" if value > 0.9995 else f"{round(value, 3):g}"
    return number(value)


def _decisive(result: Result) -> Answer | None:
    """Return what the decision would have been another but for, or what comes closest to that."""
    decided, total = result.decided, len(result.input_names)
    if decided is None:
        return None
    root, needed = whole_inputs(result), finest_of(result, decided.necessary & ~doubtful(result))
    below, share = np.flatnonzero(needed & ~root), np.nan_to_num(decided.share, nan=-1.0)
    unresolved, left_out = _inputs_of(result, needed & root), _not_counted(result, decided.necessary)
    limit = _only_root(result)
    if below.size and total == 1:
        rows = below[np.argsort(-share[below], kind="stable")].tolist()
        words = [f" ({'together; ' * (_width(result, row) > 1)}{flip_words(result, row)})" for row in rows]
        items = [(_name(result, row), text) for row, text in zip(rows, words, strict=True)]
        return _listing("decisive", "", items, left_out)
    if below.size:
        none = total - len(np.union1d(result.input_of[below], unresolved))
        few = 20 * len(unresolved) <= total  # not worth the room of a part: one of the others
        tail = f"; {limit} for {len(unresolved):,}" * (not few) + f"; nothing for {none:,}" * bool(none) + left_out
        parts, others = _counted_parts(result, below, decided.necessary), int(few and len(unresolved) > 0)
        return _listing("decisive", "", parts, tail, further=others)
    head = limit if len(unresolved) else "no part"
    if total > 1:
        some = f"{limit} for {len(unresolved):,} of {total:,}"
        head = some if len(unresolved) else f"no part for any of {total:,}"
    head += left_out
    size, known = len(result.subset_names), ~root & (share >= 0) & ~unknown(decided.low, decided.high)
    count = np.bincount(result.subset_of[known], minlength=size)
    mean = np.bincount(result.subset_of[known], weights=share[known], minlength=size) / np.maximum(count, 1)
    part = int(np.argmax(mean))  # on average over the inputs
    if not mean[part] and (total > 1 or not (share[~root] > 0).any()):
        return _line_of("decisive", head if (share > 0).any() else f"{head}: no draw changes the decision")
    if total > 1:
        drawn = (decided.draws[known & (result.subset_of == part)] > 0).any()  # or listed
        near = f" ({percent(mean[part])} of {'draws' if drawn else 'counterfactuals'} flip)"
        return _listing("decisive", f"{head}; closest: ", [(_joined(result, part), near)])
    row = int(np.argmax(np.where(root, -1.0, share)))  # even where little is known of it
    near = f" ({flip_words(result, row, brief=True)})"
    return _listing("decisive", f"{head}; closest: ", [(_name(result, row), near)])


def _enough(result: Result) -> Answer | None:
    """Return the fewest parts that keep the decision; of many inputs the sets that together serve most of them."""
    sets, total = result.sets, len(result.input_names)
    if sets is None:
        return None
    by_input = [sets.enough(index) for index in range(total)]
    part, who = PARTS[result.modality], "rows" if result.modality == "table" else INPUTS.get(result.modality, "inputs")
    if total == 1:
        kept, base = by_input[0], percent(sets.base[0]) or "not known"
        if kept and not kept[0].columns:
            anew = "" if who == "rows" else " drawn anew"
            return _line_of("enough", f"no {part} is needed: {base} of {who}{anew} get this decision anyway")
        if not kept and not sets.sets:
            return _line_of("enough", f"no set of up to four {part}s")
        first, *others = kept or sets.sets
        ends = f"95 %: {round(100 * first.low)} to {round(100 * first.high)}"
        words = f" ({percent(first.stay)} decide alike; {ends}; base rate {base})"
        head = "" if kept else "no set of up to four; closest: "
        items = [(" + ".join(first.columns), words), *((f"or {' + '.join(one.columns)}", "") for one in others)]
        return _listing("enough", head, items)
    items = [(" + ".join(columns), f" for {number:,}") for columns, number in _sets_by_count(result)]
    items[:1] = [(name, f"{words} of {total:,}") for name, words in items[:1]]
    anyway = sum(not one.columns for kept in by_input for one in kept)
    none = sum(not kept for kept in by_input)
    tail = f"; no set for {none:,}" * bool(none)
    if items:
        return _listing("enough", "", items, f"; no {part} needed for {anyway:,}" * bool(anyway) + tail)
    if not anyway:
        return _line_of("enough", f"no set of up to four {part}s for any of {total:,}")
    words = f"no {part} needed for {anyway:,}: nearly all {who} drawn anew get their decision{tail}"
    return _line_of("enough", words)


def _sets_by_count(result: Result) -> list[tuple[tuple[str, ...], int]]:
    """Return the sets that together serve most inputs, with the number that each serves of those left by the others."""
    sets, served = result.sets, list[tuple[tuple[str, ...], int]]()
    if sets is None:
        return []
    # no sets: their order changes with the process
    left = [[one.columns for one in sets.enough(index)] for index in range(len(result.input_names))]
    while count := Counter(columns for kept in left for columns in kept if columns):
        served.append(max(count.items(), key=lambda one: (one[1], -len(one[0]))))
        left = [[] if served[-1][0] in kept else kept for kept in left]
    return served


def _moves(result: Result) -> Answer | None:
    """Return the parts that move the output by more than a little, and by how much."""
    moved, total = result.moved, len(result.input_names)
    if moved is None:
        return None
    rows = np.flatnonzero(_moving(result, moved) & ~whole_inputs(result))
    link = LINKS.get(str(result.record.link), "")
    tail = (f" ({link})" if link else "") + _not_counted(result, moved.moves, named=True)
    if not rows.size:
        which = _only_root(result) if (moved.moves & ~doubtful(result)).any() else "no part"
        least = f" by more than {number(moved.least)}" * (not doubtful(result)[moved.moves].any())
        return _line_of("moves", f"{which}{least}{tail}")
    shared = total > 1 and len(np.unique(result.subset_of[rows])) < len(rows)  # regions of one name in many images
    if total == 1 or (result.modality in INPUTS and not (result.modality == "image" and shared)):
        rows = rows[np.argsort(-np.abs(moved.drop[rows]), kind="stable")]
        head = "" if total == 1 else f"{len(rows):,} parts in {len(np.unique(result.input_of[rows])):,} of {total:,}: "
        if result.modality == "text" and total > 1:
            return _listing("moves", head, _by_word(result, rows, moved.drop), tail)
        items = []
        for row in rows.tolist():
            words = size_words(result, row, brief=row != rows[0])
            if result.modality != "image":
                words = with_interval(moved.drop[row], moved.low[row], moved.high[row])
            items.append((_name(result, row), f" {words}"))
        return _listing("moves", head, items, tail)
    by_how_much, counts = dict[str, str](), dict[str, str]()
    for j in np.unique(result.subset_of[rows]).tolist():
        alike = np.flatnonzero(moved.moves & ~doubtful(result) & (result.subset_of == j))
        drops = moved.drop[alike]
        if result.modality == "image":  # as in the image in the middle
            middle = int(alike[np.argsort(drops)[len(drops) // 2]])
            by_how_much[_joined(result, j)] = f" {size_words(result, middle, brief=bool(by_how_much))}"
            continue
        size = number(float(np.abs(drops).mean()))
        up = int((drops > 0).sum())
        way = "up " if up == len(drops) else "down " if not up else ""
        by_how_much[_joined(result, j)] = f" {way}by {size}"
        counts[_joined(result, j)] = "" if way else f" ({up:,} up, {len(drops) - up:,} down)"
    parts = _counted_parts(result, rows, moved.moves, "in")
    items = [(name, by_how_much[name] + words + counts.get(name, "")) for name, words in parts]
    return _listing("moves", "", items, tail)


def _moving(result: Result, moved: Moved) -> Bools:
    """Return which parts (H,) move the output, without those that one of their parts moves half as far as they do."""
    layers, moving = result.hypotheses.layers, moved.moves & ~doubtful(result)
    if layers is None:
        return moving
    rows = np.flatnonzero(moving)
    above = layers.parent[rows]
    while (above >= 0).any():
        rows, above = rows[above >= 0], above[above >= 0]
        moving[above[2 * moved.drop[rows] * np.sign(moved.drop[above]) >= np.abs(moved.drop[above])]] = False
        above = layers.parent[above]
    return moving


def _nearest_line(result: Result) -> Answer | None:
    """Return the nearest draw that changes the decision of one input, for example."""
    row = _nearest(result)
    case = None if row is None else nearest_case(result, row)
    if row is None or case is None or not case.changes:
        return None
    title = input_title(result, int(result.input_of[row]))
    head = "" if len(result.input_names) == 1 else f"for example {cut(title, 24)}: "
    items = [(name, f" {before} → {after}") for name, before, after in case.changes]
    then, tail = "", f" ({case.output} {case.before} → {case.after})" if case.before else ""
    if case.becomes:
        before, becomes = _quoted(case.output), _quoted(case.becomes)
        then, tail = f"{before} ({case.before} → {case.after}) to {becomes} if ", ""
    line = made = _listing("nearest", head + then, items, tail, further=case.more)
    if case.becomes and "…" in made.text:  # rather without the outputs
        line = _listing("nearest", f"{head}{before} to {becomes} if ", items, further=case.more)
    return replace(line, full=made.full.replace(head, f"for example {title}: ", 1) if head else made.full)


def _unusual(result: Result) -> Answer:
    """Return the parts in which inputs are unusual beside their counterfactuals."""
    total, root = len(result.input_names), whole_inputs(result)
    counted = result.chosen & ~doubtful(result)
    chosen = headline_parts(result, counted) & ~trivial(result)
    below = np.flatnonzero(chosen & ~root)
    picked = any(note.code in PICKED for note in result.run_notes)
    tail = f", unless picked by {'its' if total == 1 else 'their'} output" if picked else ""
    left_out = _not_counted(result, result.chosen, named=result.moved is None)
    tail += left_out
    if below.size and (total == 1 or result.modality == "text"):
        size = np.nan_to_num(np.abs(result.effects.effect[below]))
        rows = below[np.argsort(-size, kind="stable")]
        head = "" if total == 1 else f"{len(rows):,} parts in {len(_inputs_of(result, chosen)):,} of {total:,}: "
        link, ends = LINKS.get(str(result.record.link), ""), [size_of(result, row) for row in rows.tolist()]
        items = [
            (_name(result, row), f" {with_interval(*one)}" * bool(np.isfinite(one[0])))
            for row, one in zip(rows.tolist(), ends, strict=True)
        ]
        if total > 1:
            items = _by_word(result, rows, result.effects.effect)
        return _listing("unusual", head, items, f" ({link})" * bool(link) + tail)
    if below.size:
        return _listing("unusual", "", _counted_parts(result, below, unusual(result), "in"), tail)
    if chosen.any():
        many = "" if total == 1 else f" in {len(_inputs_of(result, chosen)):,} of {total:,}"
        return _line_of("unusual", f"{_only_root(result)}{many}{tail}")
    if counted.any():
        return _line_of("unusual", "nothing of any size: effects are below a thousandth of the spread of outputs")
    return _line_of("unusual", f"{'nothing' if total == 1 else 'no input in any part'}{left_out}")


def _differ(result: Result) -> Answer | None:
    """Return the parts in which the inputs differ from the reference on average."""
    over, layers, size = result.over_inputs, result.hypotheses.layers, len(result.subset_names)
    if over is None:
        return None
    chosen = over.chosen & ~(np.abs(over.effect) < TRIVIAL * spread(result))
    finest = chosen if layers is None else layers.first(size).finest(chosen, over.effect)
    called = np.unique(result.outputs.argmax(axis=1)) if result.outputs.size else np.zeros(0, np.int64)
    names, several = result.output_names or range(result.outputs.shape[1]), len(called) > 1
    several &= result.record.target == "predicted"
    below, items = finest & ~whole_inputs(result)[:size], list[tuple[str, str]]()
    rows = np.flatnonzero(below) if below.any() else np.flatnonzero(finest)[:1]
    for j in rows[np.argsort(-np.abs(over.effect[rows]), kind="stable")].tolist():
        name = _joined(result, j) if below.any() else f"only {result.subset_names[j]} together"
        items.append((name, f" {with_interval(over.effect[j], over.low[j], over.high[j])}"))
    if items:
        return _listing("differ", "", items, f" ({output_label(result)})" * several)
    hint = f" (of each input's predicted class; target={names[called[0]]!r} asks about one class)" if several else ""
    return _line_of("differ", f"in no part{hint}")


def _global_says(result: Result) -> Answer:
    rise, redrawn = f"mean rise of the {result.importance.loss} loss", "when a column is redrawn given the others"
    losses = result.evidence.observed  # summed over the inputs: of the model on the data as they are
    if result.record.test == "holdout" and losses.size:
        rise += f" (now {number(float(losses.max()) / max(1, result.n_inputs))})"
    if result.record.test != "holdout":
        rise, redrawn = "change of the mean output", "when a column is redrawn as in the reference"
    return _line_of("says", f"{result.n_inputs:,} inputs: {rise} {redrawn}")


def _matter(result: Result) -> Answer:
    """Return the columns that matter over a data set, or in which it differs from the reference."""
    effects, layers, rows = result.effects, result.hypotheses.layers, np.flatnonzero(result.chosen)
    group, inside = (result.hypotheses.resolution == 0) & (layers is not None), np.zeros(len(result.chosen), bool)
    if layers is not None:
        inside = (layers.parent >= 0) & result.chosen[layers.parent]
    items = list[tuple[str, str]]()
    for j in rows[np.argsort(-np.nan_to_num(np.abs(effects.effect[rows])), kind="stable")].tolist():
        words = with_interval(effects.effect[j], effects.low[j], effects.high[j])
        how = " together" if group[j] else " alone" if inside[j] else ""
        items.append((_joined(result, j), f"{how} {words}"))
    about: About = "matter" if result.record.test == "holdout" else "differ"
    return _listing(about, "", items) if items else _line_of(about, f"nothing, of {len(result.chosen):,}")


def _counted_parts(result: Result, rows: Ints, every: Bools, preposition: str = "for") -> list[tuple[str, str]]:
    """Return the parts of some rows, those that are the finest most often first and most of a table last, each with
    the number of inputs that it is marked for at all: `every` (H,), as `result.features` and plots count."""
    size, total = len(result.subset_names), len(result.input_names)
    finest, large = np.bincount(result.subset_of[rows], minlength=size), np.zeros(size, bool)
    count = np.bincount(result.subset_of[every & ~doubtful(result)], minlength=size)
    for row in rows.tolist():
        large[result.subset_of[row]] = 4 * _width(result, row) > 3 * max(len(result.record.columns), 2)
    items = [(_joined(result, j), f" {preposition} {count[j]:,}") for j in np.lexsort((-finest, large)) if finest[j]]
    return [(name, f"{words} of {total:,}" if k == 0 else words) for k, (name, words) in enumerate(items)]


def _by_word(result: Result, rows: Ints, sizes: Floats) -> list[tuple[str, str]]:
    """Return the words of some rows with their mean size: a word that stands in several texts is one of them."""
    alike: dict[str, list[int]] = {}
    for row in rows.tolist():
        alike.setdefault(_name(result, row).casefold(), []).append(row)
    items = []
    for same in sorted(alike.values(), key=lambda same: -abs(np.nan_to_num(sizes[same]).sum())):
        mean, texts = float(np.mean(sizes[same])), len(np.unique(result.input_of[same]))
        size = f" {number(mean, sign=True)}" * bool(np.isfinite(mean))
        items.append((_name(result, same[0]), f"{size}{f' in {texts:,} texts' * (texts > 1)}"))
    return items


def _name(result: Result, row: int) -> str:
    return _joined(result, int(result.subset_of[row]))


def _joined(result: Result, subset: int) -> str:
    """Return the name of a subset; columns that go together are added up, as commas separate parts."""
    name = result.subset_names[subset]
    return name if result.modality != "table" or name in result.record.columns else name.replace(", ", " + ")


def _quoted(name: str) -> str:
    """Return the name of a class, so that "no" is none of our words."""
    return name if name.startswith("class ") else f"'{name}'"


def input_title(result: Result, index: int) -> str:
    name = result.input_names[index]
    return name if isinstance(name, str) else f"input {name}"


def _width(result: Result, row: int) -> int:
    """Return the number of columns of a subset of a table; 1 for a region, a word or a part."""
    return len(result.hypotheses.block_of(row).subset.index) if result.modality == "table" else 1


def _inputs_of(result: Result, marked: Bools) -> Ints:
    return np.unique(result.input_of[marked])


def whole_inputs(result: Result) -> Bools:
    """Return which hypotheses (H,) are of a whole input: the only subset of their input that is no part of another."""
    layers, count = result.hypotheses.layers, len(result.input_names)
    if layers is None:
        return np.zeros(len(result.chosen), bool)
    top = layers.parent < 0
    alone = np.bincount(result.input_of[top], minlength=count) == 1
    parted = np.isin(np.arange(len(top)), layers.parent)
    return np.asarray(top & alone[result.input_of] & parted)


def _only_root(result: Result) -> str:
    """Return what is said where nothing smaller than the whole input is a finding."""
    root = np.flatnonzero(whole_inputs(result))
    name = _name(result, int(root[0])) if root.size else "the whole input"
    return f"only {name}{' together' * name.startswith('all ')}"


def spread(result: Result) -> float:
    """Return the range of outputs over the inputs and the means of their counterfactuals, the reference among them."""
    observed, effect = result.evidence.observed, result.effects.effect
    known = np.concatenate([observed, observed - effect])
    known = known[np.isfinite(known)]
    return float(np.ptp(known)) if known.size else 0.0


def doubtful(result: Result) -> Bools:
    """Return regions (H,) of which a finding may be due to their fills: no headline counts them."""
    return np.zeros(len(result.chosen), bool) if result.fills is None else result.fills.doubtful


def unusual(result: Result) -> Bools:
    """Return which hypotheses (H,) count as findings of the test: in colour, and in every number of findings."""
    return marked(result) if result.located is not None else result.chosen & ~doubtful(result) & ~trivial(result)


def _not_counted(result: Result, findings: Bools, *, named: bool = False) -> str:
    """Say how many findings are not counted, since their fills look odd; `named` adds the largest of them."""
    rows = np.flatnonzero(findings & doubtful(result))
    if not rows.size or not named:
        return f"; {rows.size:,} not counted" * bool(rows.size)
    size = np.nan_to_num(result.effects.effect if result.moved is None else result.moved.drop)
    row = int(rows[np.argmax(np.abs(size[rows]))])
    where = "" if len(result.input_names) == 1 else f"{cut(input_title(result, int(result.input_of[row])), 24)}, "
    largest = f"{where}{cut(_name(result, row), 24)} ({number(size[row], sign=True)})"
    more = f" and {rows.size - 1:,} more" * (rows.size > 1)
    return f"; not counted (fills look odd): {largest}{more}"


def trivial(result: Result) -> Bools:
    """Return which effects (H,) are too small to be shown as a finding."""
    return np.asarray(np.nan_to_num(np.abs(result.effects.effect), nan=np.inf) < TRIVIAL * spread(result))


def only_together(result: Result) -> bool:
    """Return whether for most inputs all columns together are decisive, and no part of them is."""
    if result.decided is None or result.modality != "table":
        return False
    together = _inputs_of(result, finest_of(result, result.decided.necessary) & whole_inputs(result))
    return 2 * len(together) > len(result.input_names)


def _binds(result: Result, note: Note) -> bool:
    """Return whether a limit decided the outcome: something that is not chosen has the least p-value it allows."""
    values, decided = note.values, result.decided
    if note.code in ("ordinary", "as-drawn"):  # would contradict what is decisive
        return decided is None or not decided.necessary.any()
    least = {"reference-limits": values.get("floor", 0.0), "draws-limit": values.get("h", 1) / values.get("draws", 1)}
    if note.code not in least:
        return True
    return not result.chosen.any() and bool((result.evidence.values <= 1.5 * least[note.code]).any())


def promise_line(result: Result) -> str:
    if result.located is not None:
        return promise_of_where(result)
    controls, most, other = result.guarantee.controls, percent(result.alpha), percent(result.record.alpha)
    further = result.decided is not None or result.over_inputs is not None
    if controls == "nothing":
        first = "none on what is unusual (result.guarantee says why)"
    elif controls == "FWER":
        first = f"with {percent(1 - result.alpha)} confidence nothing called unusual is wrong"
    elif result.alpha == result.record.alpha:
        first, further = f"of each kind of finding at most {most} is wrong on average", False
    else:
        first = f"of what is unusual at most {most} is wrong on average"
    rest = f"; of other findings at most {other} on average" if further else ""
    each = "all 95 % intervals hold together" if result.record.simultaneous else "each 95 % interval holds by itself"
    return f"{first}{rest}; {each}"


def _settings(result: Result) -> list[tuple[str, str]]:
    names = ("model", "data", "reference", "boxes", "units", "sampler", "why", "test", "loss", "alternative", "target")
    labels = {"reference": "Reference (what the inputs are compared with)", "boxes": "Regions"}
    labels |= {"why": "Why this sampler", "version": "butfor version"}
    given = {name: result.record.get(name) for name in (*names, "link", "seed", "version")}
    known = [(labels.get(name, name.capitalize()), str(value)) for name, value in given.items() if value is not None]
    family = "all subsets" if result.is_global else {"run": "the run", "input": "each input"}[result.family]
    chosen_by = f"{result.rule} at alpha {result.alpha:g}, over {family}"
    return [*known, ("Selection", chosen_by), ("Model rows evaluated", f"{result.rows:,}")]


def percent(share: float) -> str:
    """Return a probability as people write it.

    >>> percent(0.927), percent(float("nan"))
    ('93 %', '')
    """
    return f"{round(100 * share)} %" if np.isfinite(share) else ""


def value_text(value: Any) -> str:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        return "" if value is None else str(value)
    return number(float(value)) or "missing"


def class_label(name: object) -> str:
    """Return the name of a class; one that is only a number or a truth value is called "class 1"."""
    text = str(name)
    return f"class {text}" if text.isdigit() or isinstance(name, bool | np.bool_) else text


def output_class(result: Result, index: int | None = None) -> str:
    """Return the name of the output that was tested; "the predicted class" where inputs differ in it."""
    names = result.output_names
    if names is None:
        return ""
    classes = result.evidence.classes
    tested = np.unique(classes if index is None else classes[result.input_of == index])
    if len(tested) == 1:
        return class_label(names[int(tested[0])])
    kinds = {"truth": "the true class", "observed-class": "the observed class"}
    return kinds.get(str(result.record.target), "the predicted class")


def output_label(result: Result, index: int | None = None) -> str:
    """Return what the numbers of a result, or of one input, are: "probability of default", "log-odds of cat"."""
    name = output_class(result, index)
    link = LINKS.get(str(result.record.link), "")
    if link:
        return f"{link} of {name or 'the output'}"
    if result.output_names is None or not result.outputs.size:
        return "output"
    probable = are_probabilities(result.outputs)
    probable |= result.modality in INPUTS and result.moved is not None and are_logits(result.outputs)
    return f"probability of {name}" if probable else f"output for {name}"


def effect_label(result: Result, index: int | None = None) -> str:
    """Return what an effect, or that of one input, is a change of."""
    return f"change in the {output_label(result, index)}"


def rounded_effects(result: Result) -> tuple[Floats, Floats, Floats]:
    """Return effects (H,) and the ends of their intervals to a thousandth of the largest of their input."""
    effects, moved, largest = result.effects, result.moved, np.zeros(len(result.input_names))
    unknown_effects = result.modality == "text" and not np.isfinite(effects.effect).any()
    if moved is not None and (result.modality == "image" or unknown_effects):  # by how much each part moves it, given x
        effects = Effects(moved.drop, moved.low, moved.high)
    np.maximum.at(largest, result.input_of, np.nan_to_num(np.abs(effects.effect)))
    linked = LINKS.get(str(result.record.link))
    if not linked and result.output_names is not None and result.outputs.size and are_probabilities(result.outputs):
        largest = np.maximum(largest, 0.1)  # a probability has four digits at most
    beside = largest[result.input_of]
    return to_scale(effects.effect, beside), to_scale(effects.low, beside), to_scale(effects.high, beside)


def values(result: Result) -> Array:
    """Return the observed value of every hypothesis (H,) that is a single column; None elsewhere."""
    return result.table["value"].to_numpy(dtype=object)


def rows_of(result: Result, index: int) -> Ints:
    return np.flatnonzero(result.input_of == index)


def marked(result: Result) -> Bools:
    """Return which hypotheses (H,) are unusual, or decisive."""
    sure = result.chosen if result.decided is None else result.chosen | result.decided.necessary
    if result.moved is not None and result.modality in INPUTS:  # given x first
        sure = sure | result.moved.moves
    return sure & ~doubtful(result)


def input_index(result: Result, name: object) -> int:
    """Return the index of an input; None is the one with most that is marked, then with the largest effect."""
    return int(inputs_by_findings(result)[0]) if name is None else result.position(name)


def inputs_by_findings(result: Result) -> Ints:
    """Return the inputs, those with most that is marked first, then those with the largest effect."""
    count = len(result.input_names)
    findings = np.bincount(result.input_of[marked(result)], minlength=count)
    size = np.zeros(count)
    np.maximum.at(size, result.input_of, np.nan_to_num(np.abs(result.effects.effect)))
    return np.lexsort((-size, -findings))


def strongest(result: Result, rows: Ints, sure: Bools, most: int) -> Ints:
    """Return rows with the findings (`sure`) first, the finest of them first, then by the size of the effect."""
    size = np.nan_to_num(np.abs(result.effects.effect[rows]))
    return rows[np.lexsort((-size, ~headline_parts(result, sure)[rows], ~sure[rows]))][:most]


def by_evidence(result: Result) -> Ints:
    """Return the rows of chosen hypotheses, strongest evidence first; among equals the largest effect."""
    rows = np.flatnonzero(result.chosen)
    strength = result.evidence.values[rows] * (1 if result.evidence.kind == "p" else -1)
    return rows[np.lexsort((-np.nan_to_num(np.abs(result.effects.effect[rows])), strength))]


def leading(result: Result) -> Ints:
    """Return the row of each input that says most: decisive, else unusual, finest, then the largest share or
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


def of_intervals(result: Result) -> str:
    size = "A 95 % interval says how large one effect is, by itself"
    return f"{size}{OF_UNUSUAL if result.located is None else '.'}"


def scale_over(*numbers: Any) -> Callable[[float], float | None]:
    """Return the scale from numbers to percent of the width that has room for all of these and zero."""
    ends = np.concatenate([*map(np.ravel, numbers), [0.0]])
    ends = ends[np.isfinite(ends)]
    least, width = float(ends.min()), float(ends.max() - ends.min()) or 1.0

    def position(value: float) -> float | None:
        return float(2 + 96 * np.clip((value - least) / width, 0, 1)) if np.isfinite(value) else None

    return position


def _lines(
    names: Sequence[str], middle: Floats, low: Floats, high: Floats, sure: Array, **more: Iterable[Any]
) -> tuple[tuple[Line, ...], float]:
    """Return lines of effects with their intervals, and where zero stands; what is computed exactly has no interval."""
    scale, lines = scale_over(middle, low, high), []
    for name, effect, start, end, finding, *cells in zip(names, middle, low, high, sure, *more.values(), strict=True):
        known = np.isfinite(start) and np.isfinite(end) and start != end
        interval = f"{number(start, sign=True)} to {number(end, sign=True)}" if known else ""
        text, places = number(effect, sign=True), (scale(start), scale(effect), scale(end))
        lines.append(Line(name, text, interval, *places, bool(finding), **dict(zip(more, cells, strict=True))))
    return tuple(lines), scale(0.0) or 0.0


def decision_lines(result: Result, rows: Ints) -> tuple[Line, ...]:
    """Return the probability of another decision but for each of these hypotheses."""
    decided, scale, observed = result.decided, scale_over(1.0), values(result)
    assert decided is not None
    lines = []
    for row in rows.tolist():
        share, low, high = decided.share[row], decided.low[row], decided.high[row]
        wide = unknown(low, high)
        interval = f"{round(100 * low)} to {percent(high)}" if np.isfinite(low) and not wide else ""
        name, value = result.subset_names[int(result.subset_of[row])], value_text(observed[row])
        ends, sure = (scale(low), scale(share), scale(high)), bool(decided.necessary[row])
        lines.append(Line(name, "unknown" if wide else percent(share), interval, *ends, sure, value))
    return tuple(lines)


def effect_lines(result: Result, rows: Ints, sure: Bools) -> tuple[tuple[Line, ...], float]:
    effect, low, high = (column[rows] for column in rounded_effects(result))
    return _lines(
        [result.subset_names[j] for j in result.subset_of[rows].tolist()], effect, low, high, sure[rows],
        value=map(value_text, values(result)[rows]), more=map(percent, result.evidence.surprise[rows]),
        evidence=map(number, result.evidence.values[rows]), q=map(number, result.q[rows]),
        status=map(str, result.table["status"].to_numpy()[rows]),
    )  # fmt: skip


def features_chart(result: Result, subsets: Ints) -> Chart:
    frame = result.features
    effect, low, high = (frame[name].to_numpy(np.float64) for name in ("effect", "effect_low", "effect_high"))
    largest = np.abs(np.nan_to_num(effect)).max(initial=0.0, keepdims=True)
    effect, low, high = (to_scale(column, largest)[subsets] for column in (effect, low, high))
    depth, chosen = tree_order(result)[1][subsets].tolist(), frame["chosen"].to_numpy()[subsets]
    shown = np.bincount(result.subset_of[unusual(result)], minlength=len(frame))
    counts = zip(shown[subsets], frame["inputs"].to_numpy()[subsets], strict=True)
    more = [f"{n:,} of {total:,}" for n, total in counts]
    names = [result.subset_names[j] for j in subsets.tolist()]
    lines, zero = _lines(names, effect, low, high, chosen, depth=depth, more=more)
    title, key = f"Mean {effect_label(result)}, over all inputs", KEY.format(blue="different")
    return Chart(title, lines, "zero", zero, key)


def global_chart(result: Result) -> Chart:
    """Return the features of a data set, those chosen first; of the others the difference on the test's draws."""
    effects, chosen = result.effects, result.chosen
    known = np.isfinite(effects.effect)
    middle = np.where(known, effects.effect, result.difference)
    order = np.lexsort((-np.abs(np.nan_to_num(middle)), ~chosen))[:MOST_FEATURES]
    low, high = (np.where(known, end, np.nan)[order] for end in (effects.low, effects.high))
    pairs = zip(result.evidence.values[order], result.tested[order], strict=True)
    more = [number(p) if tested else "no variation" for p, tested in pairs]
    names, q = [result.subset_names[j] for j in order.tolist()], map(number, result.q[order])
    lines, zero = _lines(names, middle[order], low, high, chosen[order], more=more, q=q)
    title, key = effect_name(result), KEY.format(blue="found to matter" if result.importance.loss else "different")
    return Chart(title[:1].upper() + title[1:], lines, "zero", zero, key)


def _chart(result: Result) -> Chart | None:
    """Return the chart beside the first sentence."""
    decided, over, chosen = result.decided, result.over_inputs, unusual(result)
    where = result.located is not None and result.moved is not None
    if where and len(result.input_names) > 1:
        last = {smallest(result, i) for i in range(len(result.input_names))}
        least = np.array([row in last for row in range(len(chosen))])
        return _counts(result, least, least, ", by the smallest region that moves the output")
    if len(result.input_names) > 1 and only_together(result) and (sets := _sets_by_count(result)):
        longest, total = scale_over(sets[0][1]), len(result.input_names)
        served = [(" + ".join(columns), n, longest(float(n))) for columns, n in sets[:MOST_LINES]]
        made = (Line(name, f"{n:,} of {total:,}", "", longest(0.0), end, end, sure=True) for name, n, end in served)
        return Chart("Number of inputs, by the set of columns that is enough", tuple(made), "count")
    if not where and decided is not None and (len(result.input_names) == 1 or decided.necessary.any()):
        if len(result.input_names) > 1 and len(np.unique(result.subset_of[decided.necessary])) > 2:
            finest = finest_of(result, decided.necessary)
            return _counts(result, finest, decided.necessary, " for which a part is decisive")
        index = input_index(result, None)
        rows = rows_of(result, index)
        rows = rows[~whole_inputs(result)[rows] | (len(rows) == 1)]
        keys = (-np.nan_to_num(decided.share, nan=-1.0), unknown(decided.low, decided.high), ~decided.necessary)
        rows = rows[np.lexsort([part[rows] for part in keys])][:MOST_LINES]
        title = f"{input_title(result, index)}: probability that the decision would have been otherwise, but for"
        each = "all of a resolution together" if result.record.simultaneous else "each by itself"
        key = f"Blue: decisive, above the level; grey: not. Second line: 95 % interval, {each}."
        mark, key_of_mark = scale_over(1.0)(decided.level) or 0.0, f"Dashed: level {decided.level:g}."
        return Chart(title, decision_lines(result, rows), "level", mark, key, key_of_mark)
    if over is not None and over.chosen.any():
        order = np.lexsort((-np.abs(np.nan_to_num(over.effect)), ~over.chosen))
        return features_chart(result, order[:MOST_LINES])
    if chosen.any() and len(result.input_names) > 1:
        return _counts(result, headline_parts(result, chosen), chosen, " with something unusual in a part")
    index = input_index(result, None)
    rows = rows_of(result, index)
    rows = rows[np.isfinite(result.effects.effect[rows])]
    if not len(rows):
        return None
    lines, zero = effect_lines(result, strongest(result, rows, chosen, MOST_LINES), chosen)
    title = f"{input_title(result, index)}: {effect_label(result, index)}"
    blue = "moves the output" if where else "unusual"
    return Chart(title, lines, "zero", zero, f"{KEY.format(blue=blue)} {of_intervals(result)}")


def _counts(result: Result, finest: Bools, every: Bools, title: str) -> Chart:
    """Return for how many inputs each subset is marked (`every`), of those that are the finest in some input."""
    size = len(result.subset_names)
    first, total = np.bincount(result.subset_of[finest], minlength=size), np.bincount(result.subset_of, minlength=size)
    count = np.bincount(result.subset_of[every], minlength=size)
    order = np.argsort(-first, kind="stable")[: min(MOST_LINES, int((first > 0).sum()))]
    scale = scale_over(count[order].max(initial=1))  # not all inputs: 76 of 5,000 would be a speck
    bars = [(j, scale(float(count[j]))) for j in order.tolist()]
    lines = (
        Line(result.subset_names[j], f"{count[j]:,} of {total[j]:,}", "", scale(0.0), end, end, sure=True)
        for j, end in bars
    )
    return Chart(f"Number of {INPUTS.get(result.modality, 'inputs')}{title}", tuple(lines), "count")


def called(result: Result) -> list[str]:
    """Return the class that the model gives each input; nothing where outputs are no classes."""
    if result.output_names is None or not result.outputs.size or result.outputs.shape[1] < 2:
        return [""] * len(result.input_names)
    return [class_label(result.output_names[j]) for j in result.outputs.argmax(axis=1).tolist()]


def entries(result: Result, most: int) -> list[Entry]:
    """Return the first inputs with their strongest reason, those with a finding first."""
    lead, classes, sure = leading(result), called(result), marked(result)
    findings = np.bincount(result.input_of, weights=headline_parts(result, sure), minlength=len(result.input_names))
    order = np.argsort(findings == 0, kind="stable")[:most]
    rows = np.maximum(lead[order], 0)
    lines, _ = effect_lines(result, rows, sure)
    flips = decision_lines(result, rows) if result.decided is not None else (None,) * len(order)
    return [
        Entry(str(result.input_names[i]), classes[i], *((line, flip) if lead[i] >= 0 else (None, None)))
        for i, line, flip in zip(order.tolist(), lines, flips, strict=True)
    ]


def _nearest(result: Result) -> int | None:
    """Return the hypothesis with the nearest draw that changes the decision of one input: of inputs where that is of a
    part that is decisive, else of all, the one with most to show."""
    decided = result.decided
    if decided is None or not decided.nearest:
        return None
    rows = np.array([row for row in decided.nearest if result._calibrated[row]], np.int64)  # as `result.nearest`
    far = np.array([decided.nearest[row].distances[0] for row in rows.tolist()])
    rows = rows[np.lexsort((rows, far, result.input_of[rows]))]
    rows = rows[np.unique(result.input_of[rows], return_index=True)[1]]  # of each input the nearest
    shown = decided.necessary & ~whole_inputs(result)
    order = inputs_by_findings(result)
    rows = rows[np.lexsort((np.argsort(order)[result.input_of[rows]], ~shown[rows]))]
    if not len(rows) or not (shown[rows[0]] or result.input_of[rows[0]] == order[0]):
        return None
    return int(rows[0])


def nearest_case(result: Result, row: int) -> NearestCase | None:
    """Return the nearest counterfactual of one hypothesis that changes the decision; tables only."""
    decided, index = result.decided, int(result.input_of[row])
    if decided is None or result.modality != "table" or row not in decided.nearest:
        return None
    items, subset = result.hypotheses.items, result.hypotheses.block_of(row).subset
    observed = items.block(index, index + 1)
    changes = _changes(result, index, items.whole(np.asarray(decided.nearest[row].pieces[:1]), observed, subset))
    then, classes, by_rule = decided.nearest[row].outputs[0], result.output_names, bool(result.record.decisions)
    column = int(result.evidence.classes[row]) if len(then) > 1 else 0
    name = "output" if classes is None else class_label(classes[column])
    values = [float(outputs[column]) for outputs in (*result.outputs[index : index + 1], then) if outputs.size]
    becomes = "" if classes is None or by_rule or len(then) == 1 else class_label(classes[int(then.argmax())])
    read = [_as_read(value) for value in values]
    if len(set(read)) == 1:  # on both sides of a threshold, and alike to three digits
        read = [f"{value:.7g}" for value in values]
    return NearestCase(
        str(result.input_names[index]), subset.name, tuple(changes[:MOST_CHANGED]), max(0, len(changes) - MOST_CHANGED),
        name, read[0] if len(read) > 1 else "", read[-1], becomes,
    )  # fmt: skip


def _changes(result: Result, index: int, after: Batch) -> list[tuple[str, str, str]]:
    """Return the columns in which a row (1, columns) differs from an input, with both values: the largest change first,
    in parts of the range of the column over the inputs and the draws that change this decision."""
    items, decided, inputs = result.hypotheses.items, result.decided, result.record.inputs
    assert decided is not None
    assert isinstance(inputs, TableInputs)
    observed = items.block(index, index + 1)
    known = items.block(0, len(items)).astype(np.float64)
    low, high = np.fmin.reduce(known, axis=0), np.fmax.reduce(known, axis=0)
    for row in rows_of(result, index).tolist():
        if row in decided.nearest:
            at, drawn = (
                result.hypotheses.block_of(row).subset.index,
                np.asarray(decided.nearest[row].pieces, np.float64),
            )
            low[at] = np.fmin(low[at], np.fmin.reduce(drawn, axis=0))
            high[at] = np.fmax(high[at], np.fmax.reduce(drawn, axis=0))
    category = np.array([column.kind == "category" for column in inputs.kinds])
    gap = np.abs(after[0] - observed[0]).astype(np.float64) / np.where(high > low, high - low, 1.0)
    order = np.argsort(-np.where(category | ~np.isfinite(gap), 1.0, gap), kind="stable")
    is_now, would_be = items.shown(observed), items.shown(after)
    pairs = [(str(inputs.columns[j]), *_column(is_now, j), *_column(would_be, j)) for j in order.tolist()]
    return [(name, old, new) for name, old, new in pairs if old != new]


def nearest_text(result: Result, index: int, after: Batch) -> str:
    """Return in lines what changes in the nearest draw (1, columns), the largest change first."""
    changes = [("", "is", "would be"), *_changes(result, index, after)]
    first, second = (max(len(one[k]) for one in changes) for k in (0, 1))
    lines = [f"  {name:<{first}}  {old:>{second}}  {new}" for name, old, new in changes]
    title = f"{input_title(result, index)}: the decision changes where"
    return "\n".join([title, *lines, f"(the other {len(result.record.columns) - len(changes) + 1} columns stay)"])


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
    observed_output = number(result.outputs[index][output]) if result.outputs.size else ""
    return Example(
        str(result.input_names[index]), name, shown, max(0, len(columns) - MOST_COLUMNS), observed_output,
        tuple(map(number, outputs[:, output])),
    )  # fmt: skip


def _column(rows: Batch, column: int) -> list[str]:
    """Return a column of an array or a frame as text."""
    cells = (rows[:, column] if isinstance(rows, np.ndarray) else rows.iloc[:, column]).tolist()
    return [str(cell) if cell is None else value_text(cell) for cell in cells]
