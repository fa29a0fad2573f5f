"""Notes and guarantees: codes, severities and values, and the one place where they become English.

Code never looks into a sentence: tests and goldens compare codes and values, people read `str(note)`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from butfor.inference.guarantees import ANY, PROMISES, check_rule

if TYPE_CHECKING:
    from butfor.results.record import RunRecord

Severity = Literal["warning", "limit", "info"]
Sentence = str | Callable[..., str]  # a template for str.format, or a function of the values


@dataclass(frozen=True)
class Note:
    """Something a reader of a result should know.

    Parameters
    ----------
    code : str
        Which note it is, a key of `SENTENCES`; it never changes with the wording.
    severity : {"warning", "limit", "info"}
        "warning" changes what may be concluded, "limit" says what could not be found, "info" is good to know.
    values : mapping
        The numbers and names in it: whatever JSON can hold.

    Examples
    --------
    >>> print(Note("interrupted-effects", "warning"))
    Interrupted while effects were estimated: there are none.
    """

    code: str
    severity: Severity
    values: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self._text.replace("\n", " ")

    @property
    def line(self) -> str:
        """The first sentence, which says in one line what the rest of it explains."""
        return self._text.partition("\n")[0].rstrip(".")

    @property
    def _text(self) -> str:
        sentence = SENTENCES[self.code]
        return sentence.format(**self.values) if isinstance(sentence, str) else sentence(**self.values)


def as_note(note: Note | str) -> Note:
    """Return a note; a sentence, as a user's sampler may return, becomes one of severity "info".

    >>> as_note("Draws are rounded.")
    Note(code='text', severity='info', values={'text': 'Draws are rounded.'})
    """
    return note if isinstance(note, Note) else Note("text", "info", {"text": str(note)})


def listed(names: Sequence[str]) -> str:
    """Return names as a sentence lists them.

    >>> listed(["bmi"]), listed(["age", "bmi", "sex"])
    ('bmi', 'age, bmi and sex')
    """
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def _fixed_together(columns: Sequence[str], by: Mapping[str, Sequence[str]]) -> str:
    together = {2: "the two", 3: "the three"}.get(len(columns), f"the {len(columns)} columns")
    which = ", ".join(f"{name} is fixed by {listed(others)}" for name, others in by.items())
    which = f"{listed(columns)} fix each other" if len(by) == len(columns) else which
    return f"{which}, nearly or exactly; {together} are tested together."


def shortened(names: Sequence[str], most: int = 6) -> str:
    """Return the first names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _limited(family: int, together: int | None, **_: object) -> str:
    """Say what a rule can choose; `together` hypotheses have to be as significant, None: nothing can be chosen."""
    tests = f"{family:,} test{'s' * (family > 1)}"
    if together is None:
        return f"{tests} nothing can be shown to be unusual"
    return f"{tests} a single unusual case cannot be shown; about {together:,} alike could"


def _if_picked(inputs: int, seen: str, decided: bool | None, rather: str = "") -> str:
    """Ask whether inputs that look so were picked by their output; from 5 inputs on `picked=` helps."""
    first = f"{'The input' if inputs == 1 else 'Every input'} {seen}\n"
    if inputs < 5:
        one = inputs == 1
        return (
            f"{first}If {'it was' if one else 'they were'} picked because of that, what is unusual says no more than "
            f"that{'; what is decisive holds all the same.' if decided else '.'}"
        )
    care = "" if decided is None else f" What is decisive needs no such care{rather}."
    return f"{first}If they were picked by that, say so with picked=: without it what is unusual means nothing.{care}"


def _picked_by_output(
    inputs: int, side: str, edge: float, share: float, output: int | None, decided: bool | None
) -> str:
    side, sign = ("at least", ">=") if side == "above" else ("at most", "<=")
    one = "outputs" if output is None else f"outputs[:, {output}]"
    seen = f"has an output of {side} {edge:.4g}, only {share:.1%} of the reference does."
    rather = f": decide=lambda outputs: {one} {sign} {edge:.4g}"
    return _if_picked(inputs, seen, decided, rather if decided is False else "")


def _given_open(decisive: int, moves: int, size: int, most: int) -> str:
    open_ones = [f"whether {decisive} of {size} parts are decisive"] * (decisive > 0)
    open_ones += [f"whether {moves} of {size} move the output"] * (moves > 0)
    return (
        f"{most} draws of each did not settle {' and '.join(open_ones)}.\nThere the estimate is above what is to be "
        "shown, but not surely; draws= takes more."
    )


def reasons(counts: Sequence[tuple[str, int]], most: int = 3) -> str:
    """Say why something failed, the most frequent reasons first."""
    shown = "; ".join(f"{why} ({count})" if count > 1 else why for why, count in counts[:most])
    return shown + (f"; and {len(counts) - most} other reasons" if len(counts) > most else "")


def _were(count: int, one: str, many: str) -> str:
    return f"1 {one} was" if count == 1 else f"{count} {many} were"


def _left_out(what: str) -> Sentence:
    """Say how many of how many failed, what became of them, and why."""
    return lambda failed, size, why: f"{failed} of {size} {what}.\nWhy: {reasons(why)}."


FAULTS = {  # verdicts of a check
    "ok": "",
    "too narrow": "its draws scatter less than real values",
    "too wide": "its draws scatter more than real values",
    "shifted": "its draws lie to one side of real values",
    "off-manifold": "its draws do not go with the other columns",
    "wrong skew": "its draws are skewed unlike real values",
    "tails too light": "its draws have lighter tails than real values",
    "tails too heavy": "its draws have heavier tails than real values",
}
NO_VARIATION = "no draw of it changed the output"


def _not_tested(verdicts: Mapping[str, str]) -> str:
    by_fault = {verdict: [name for name in verdicts if verdicts[name] == verdict] for verdict in verdicts.values()}
    named = "; ".join(f"{shortened(names)} ({FAULTS[verdict]})" for verdict, names in by_fault.items())
    them = "it" if len(verdicts) == 1 else "them"
    return (
        f"Not tested: {named}.\nMore rows, or a sampler of your own that draws {them} as the data has {them}, may help."
    )


def model_rows(rows: int) -> str:
    """Say how many model rows a run took, and how many of them its control.

    >>> model_rows(4_138)
    '4,138 model rows'
    """
    control = getattr(rows, "control", 0)
    return f"{rows:,} model rows{f', {control:,} of them for the control' if control else ''}"


def _hidden(groups: Sequence[Sequence[str]]) -> str:
    call = {shortened(group): list(group) for group in groups}
    return (
        f"Columns that stand in for each other hide each other: {'; '.join(f'({name})' for name in call)}.\n"
        f"They were not chosen. Whether they matter together: subsets={json.dumps(call, ensure_ascii=False)}."
    )


_BLIND = (
    "A sampler fitted on the population that the inputs come from cannot find anything here, by construction: give "
    "labels (y=) to ask which features the model's skill rests on, or fit the sampler on what you compare against "
    "(controls, the other class, last year)."
)
_NO_SKILL = "On these rows the model's skill does not visibly rest on any subset given the others."

RUN_NOTES: dict[str, Sentence] = {
    "text": "{text}",
    "not-judged": "Whether the fills look real is not known: looking raised {error}: {why}.",
    "enough-not-drawn": "What is enough is not known.\nDrawing all but a part of an input failed: {why}.",
    # what cannot be found
    "reference-limits": lambda floor, **limited: (
        f"With {1 / floor - 1:,.0f} reference rows and {_limited(**limited)}.\nNo p-value can be much below "
        f"{floor:.2g}, one over the rows and itself ({limited['rule']} at alpha={limited['alpha']:g}). More reference "
        "rows, fewer subsets or a group of columns in place of each help."
    ),
    "draws-limit": lambda draws, h, needed, **limited: (
        f"With {draws:,} draws and {_limited(**limited)}.\nNo p-value is below {h}/{draws + h} ({limited['rule']} at "
        f"alpha={limited['alpha']:g}){'' if needed is None else f'; a single one needs draws={needed}'}."
    ),
    "only-together": lambda enough: (
        f"Columns repeat each other, so no part is decisive: {'read Enough, or ' * enough}name groups (subsets=).\n"
        "A column given the others can hardly be otherwise. Columns that say the same are redrawn as one where they "
        'are a group: subsets={"size": ["radius", "area"], ...}.'
    ),
    "competition-empty": (
        "{test} at alpha={alpha:g} can choose nothing: it needs {least} hypotheses, a family has {family}.\n"
        "Use test='sequential', more than draws={draws} or a larger alpha."
    ),
    "competition-least": "{test} at alpha={alpha:g} chooses at least {least} hypotheses of a family or none.",
    "given-reach": (
        "With at most {draws} draws of each, none of {size} parts can be called decisive alone, even if all its draws "
        "change the decision.\nOver so many at alpha={alpha:g} that takes draws={needed}."
    ),
    "given-open": _given_open,
    "e-values-together": lambda draws, together, family: (
        f"e-bh with draws={draws} needs {together} of {family} hypotheses near their largest e-value, {draws + 1}.\n"
        "rule='by' finds more where draws are cheap."
    ),
    "list-limits": (
        "At most {most} of {size} hypotheses could be chosen: exact p-values of a list cannot be small.\n"
        "They are never below the probability of what was observed and of all that is not listed, {least:.2g} for half "
        "of them; list more (listed=), or use test='few-shot' or test='osft', which draw."
    ),
    "drawing-ended": (
        "At resolution {resolution} drawing ended early: with {draws} draws nothing more could be chosen there.\n"
        "{drawn} of a family of {family} were drawn and {open} of them are open; more draws (draws=), fewer inputs or "
        "a coarser least size help."
    ),
    "passes-limit": (
        "A lone signal cannot be found with {passes} passes: no p-value is below 1/{least}.\n{rule} over {subsets} "
        "subsets at alpha={alpha:g} needs passes={needed} for it, which cost no model rows."
    ),
    "spreads-differ": lambda wide, narrow, ratio: (
        f"Outputs spread {f'{ratio:.1f} times' if ratio < 100 else 'more than 100 times'} as far under {wide!r} as "
        f"under {narrow!r}: few-shot favours the wide ones.\n"
        "test='sequential' is the better choice, or test=butfor.few_shot(scale='shrunk')."
    ),
    "weak": lambda pooled: (
        "Nothing is unusual by itself at this alpha, though all together depart from chance.\n"
        f"Look at {'result.features and at ' if pooled else ''}larger subsets."
    ),
    # what happened
    "interrupted": (
        "Interrupted: {left} hypotheses are still open; what is chosen stands.\n"
        "These p-values are valid whenever drawing stops."
    ),
    "interrupted-effects": "Interrupted while effects were estimated: there are none.",
    "not-tested": _left_out("hypotheses were not tested, and count as p = 1"),
    "stopped-for": (
        "Drawing stopped for {rule} at {alpha:g}, family='{family}': for another choice run it again.\n"
        "P-values are seldom much smaller than that choice needed."
    ),
    "accepted": "{share:.1%} of the counterfactuals drawn passed picked; the others were rejected.",
    "hardly-picked": (
        "{count} hypotheses left the family: but for their subset the input would hardly ever have been picked."
    ),
    "another-seed": lambda share: (
        "Another seed would choose "
        + ("about the same." if share > 0.95 else f"about {share:.0%} of the same, as far as can be told.")
    ),
    "inputs-skipped": lambda failed, one, many: (
        f"{_were(len(failed), one, many)} skipped: {'; '.join(f'{name!r} ({why})' for name, why in failed[:5])}"
        f"{f'; and {len(failed) - 5} more' * (len(failed) > 5)}."
    ),
    "inputs-without-subsets": lambda names, nothing, one, many: (
        f"{_were(len(names), one, many)} left out, having {nothing} to test: {shortened(list(map(repr, names)), 5)}."
    ),
    "no-sampler-notes": "There are no notes on the sampler: making them raised {error}: {why}.",
    # what was seen of the model
    "reference-seen-by-model": (
        "The model seems to have been fitted on the reference: use rows that it has not seen.\n"
        "Its outputs there differ from those of redrawn rows (z = {z:.1f}), and new rows of the same kind look unusual "
        "beside rows that a model remembers: whole rows and averages over inputs are not judged, decisions are. "
        "butfor.explain(model, X, X_validation) asks the same with new rows."
    ),
    "random-model": "The model gives the same row different answers (is dropout on?): expect little power.",
    "batch-dependent-model": (
        "The model's answer to a row depends on the rows beside it, by {noise:.2g}: little can be found.\n"
        "Is something fitted, scaled or ranked inside it? Outputs less than {near:.2g} apart count as equal; let it "
        "answer each row by itself."
    ),
    "decides-otherwise": lambda count, total, outputs: (
        f"The model's own predict is not the class with the largest output for {count} of {total} inputs.\n"
        "It has a threshold, or probabilities of another kind than its decisions. Decisions here, and the predicted "
        "class, are of the largest output; decide= takes the rule that you decide by"
        f"{', for example decide=lambda outputs: outputs[:, 1] >= 0.15 for a threshold of 0.15' * (outputs == 2)}."
    ),
    "never-varies": (
        "The rule of the decision (decide=) never varies, so nothing can be decisive.\n"
        "It says the same of every input, of every row of the reference and of every draw. Outputs of the inputs lie "
        "between {least:.4g} and {most:.4g}."
    ),
    # what was seen of the inputs
    "picked-by-class": lambda inputs, name, share, decided=True: _if_picked(
        inputs,
        f"is called {name!r}, and {f'only {100 * share:.1f} %' if share else 'no row'} of the reference is.",
        decided,
    ),
    "picked-by-output": _picked_by_output,
    "no-variation": (
        "{count} of {size} hypotheses showed no variation: whatever was drawn, the output stayed the same.\n"
        "They cannot be important and left the family."
    ),
    "ordinary": (
        "To the model these inputs look like reference rows: no more is unusual than chance would make it.\n"
        "Nothing else is to be expected of the population of the reference; to learn what sets them apart, "
        "take as reference what you compare against (controls, the other class, last year)."
    ),
    "as-drawn": (
        "The inputs are as the sampler would draw them: the evidence shows no departure from the null.\n"
        "Nothing else is to be expected where it might as well have been drawn; to learn what sets it apart, use "
        "a sampler of what you compare against (other images, texts of the other class)."
    ),
    "nearly-all": (
        "{share:.0%} of all hypotheses were chosen: the inputs are unlike the reference, or draws too narrow.\n"
        "butfor.check_sampler on held-out rows of the reference tells which."
    ),
    "inputs-shown": (
        "The list has {shown:,} of {count:,} inputs, those with most findings; result.table has all of them."
    ),
    # the global question
    "no-variation-subsets": (
        "{count} of {size} subsets showed no variation: whatever was drawn, nothing changed to the last digit, since "
        "the model does not read them or the other columns leave them no choice (as yes/no columns of which just one "
        "is yes). They left the family; columns that fix each other can be tested together: "
        "subsets={{name: columns}}."
    ),
    "sampler-check": "Of the sampler, {sentence}.",
    "mixed-classes": lambda classes: (
        f"Each input is asked about its own class, {' or '.join(map(str, classes))}.\nWhat speaks for one of them and "
        f"against the other averages out. Name one, target={classes[0]!r} say, to ask about it for all inputs."
    ),
    "subsets-not-tested": _not_tested,
    "told-groups": lambda groups: " ".join(
        f"{group['name']} tell each other; none is chosen alone, together they matter"
        f"{', more than anything else' * group['largest']} (p = {group['p']:.2g})."
        for group in groups
    ),
    "sampler-by-column": lambda samplers: (
        "Drawn by another sampler, since residual regression did not pass its check there: "
        f"{shortened([f'{name} ({sampler})' for name, sampler in samplers.items()])}."
    ),
    "hidden": _hidden,
    "blind": _BLIND,
    "ordinary-data": (
        f"To the model these inputs look like reference rows: no more is unusual than chance would make it.\n{_BLIND}"
    ),
    "weak-data": (
        "Nothing stands out by itself at this alpha, though all together depart from chance.\n"
        f"More inputs, or fewer and larger subsets may help. {_BLIND}"
    ),
    "no-skill": _NO_SKILL,
    "no-skill-alone": (
        f"{_NO_SKILL}\nColumns that stand in for each other hide each other; test them together "
        "(subsets={{name: columns}})."
    ),
    "reference-rows-left-out": _left_out("reference rows were left out of comparisons, since the model fails on them"),
    "inputs-left-out": _left_out("inputs were left out, since the model fails on them"),
    "pairs-left-out": _left_out("pairs of an input and a subset could not be evaluated, and count as no effect"),
}
UNREADABLE = {  # why a model that is an ensemble of trees is not read as one: ends a sentence
    "no-trees": "it has no trees",
    "votes": "a forest that predicts labels counts votes",
    "labels": "a classifier that predicts labels has no scores",
    "several-outputs": "it has several outputs",
    "initial-model": "it starts from another model than a constant",
    "loss": "its loss {name} is not known here",
    "objective": "its objective {name!r} is not known here",
    "scaled-sigmoid": "its sigmoid is scaled",
    "square-roots": "its objective is of square roots",
    "method": "its {name} is not known here",
    "linear-leaves": "its leaves are linear",
    "zeros-missing": "zeros count as missing",
    "booster": "its booster is {name!r}, not trees that are added up",
    "vector-leaves": "its leaves are vectors",
    "derived": "its class {name} is derived from {parent} and may answer otherwise",
    "called-by": "it is called by {name}",
    "replaced": "its {name} was replaced by another function",
    "transformer": "{name} before the trees may look at several columns at once",
    "joint-step": "a step before the trees looks at several columns at once",
    "decreasing-step": "a step before the trees reverses the order of a column",
    "times": "columns of times are not known here",
    "too-few-columns": "it splits column {needed}, and only {given} columns come to its trees",
    "constant-column": "a column that its trees split on is constant in data and reference",
    "other-columns": "the data has other columns than it was fitted on",
    "outputs": "its trees give {trees} outputs and the model {model}",
    "differs": "what was read off it differs from its outputs on {wrong} of {rows} rows",
    "raised": "reading it raised {error} ({message})",
}


def no_nearest(input: object, subset: str | None, high: float, kept: int, columns: Sequence[str]) -> str:
    """Return why a result has no nearest counterfactual, where `kept` draws change the decision."""
    of = f"the decision of input {input!r}" + ("" if subset is None else f" with {subset!r} redrawn")
    if kept:
        draws = "The one draw that changes" if kept == 1 else f"None of the {kept} draws kept that change"
        return f"{draws} {of} {'does not keep' if kept == 1 else 'keeps'} to fixed= and direction= ({listed(columns)})."
    return f"No draw that was kept changes {of}" + (f"; at most {100 * high:.0f} % would (95 %)." if high < 1 else ".")


MODEL_NOTES: dict[str, Sentence] = {
    "trees-exact": "Exact: the model is an ensemble of trees, and p-values are computed from its trees and the "
    "sampler, not drawn.",
    "trees-not-read": lambda reason, **values: (
        f"The model is an ensemble of trees, but {UNREADABLE[reason].format(**values)}, so p-values come from draws."
    ),
}
_CHECK = "butfor.check_sampler on held-out rows of the reference tells which"


def _q(names: Sequence[str]) -> str:
    """Return three names in quotes, and how many more there are."""
    return shortened([repr(str(name)) for name in names], 3)


TABLE_NOTES: dict[str, Sentence] = {
    "same-seed": (
        "Results of the same seed share their random numbers, so their evidence is dependent: give each run its own "
        "seed."
    ),
    "constant-columns": lambda columns: (
        f"{len(columns)} columns have one value each in the data and the reference ({shortened(columns, 3)}), so "
        "nothing can be said of them."
        if len(columns) > 1
        else f"{columns[0]} has one value in the data and the reference, so nothing can be said of it."
    ),
    "draws-repeat": lambda subsets: (
        f"Draws of {_q(subsets)} mostly repeat the observed values: little can be found there."
    ),
    "draws-fractions": lambda subsets: (
        f"Counterfactuals of {_q(subsets)} have fractions where the data has whole numbers.\n"
        "No real row looks like that; use a sampler for mixed columns."
    ),
    "draws-independent": lambda subsets: (
        f"The other columns predict {_q(subsets)} in the data but not in the draws.\n"
        "Unless the reference differs in just that, the sampler ignores how columns depend on each other; "
        f"{_CHECK}."
    ),
    "draws-narrow": lambda subsets: (
        f"Observed values of {_q(subsets)} lie beyond nearly all of their draws at both ends.\n"
        f"The inputs are extreme, or the sampler is too narrow; {_CHECK}."
    ),
    "draws-wide": lambda subsets: (
        f"Observed values of {_q(subsets)} lie near the middle of their draws, hardly ever far out.\n"
        f"The inputs are more alike than the reference, or the sampler is too wide; {_CHECK}."
    ),
    "repeated-inputs": (
        "Many inputs agree in half of their columns with another one, as rows of one person do.\n"
        "The promise needs independent inputs: name what belongs together with groups=data['person']."
    ),
    "fixed-together": _fixed_together,
    "fixed-alone": lambda subset, by: (
        f"{'; '.join(f'{name!r} is fixed by {listed(others)}' for name, others in by.items())}.\nWhile they stay, "
        f"{subset!r} cannot be otherwise, so nothing is said of it. Test them together, in one subset."
    ),
    "clustered-reference": lambda column: (
        "Rows of the reference "
        + ("repeat each other in many columns" if column is None else f"with the same {column!r} are much alike")
        + ", as several rows of one person are.\nTaken for independent rows they make the sampler look better known "
        f"than it is. Name them: reference_groups=reference[{column or 'person'!r}]."
    ),
    "index-column": (
        "Column {column!r} tells inputs from reference like an index or a time: leave it out.\n"
        "It has a different value in every row, all inputs on one side, and would be the answer."
    ),
    "exact-means": (
        "Exact: the model is an ensemble of trees; mean outputs come from its trees and the sampler, not from draws."
    ),
    "check-subsets": "{checked} of {subsets} subsets, picked at random, were checked; butfor.check_sampler checks all.",
    "check-rows": "{used} of {rows} held-out rows were used.",
    "check-columns": lambda checked, left_out: (
        f"{checked} of {checked + len(left_out)} columns, picked at random, were checked. Left out: "
        f"{', '.join(left_out)}. Name columns in subsets= to check those."
    ),
    "reference-sampled": "{used:,} of the {given:,} rows of the reference were used, picked at random: the sampler "
    "hardly changes with more.",
    "sampler-residual": "Sampler: residual regression, calibrated on left-out reference rows.",
    "copula-outside": "{share:.0%} of the values lie outside the reference, where the copula holds them at its edge.\n"
    "A column that only follows another one far outside is reported too; copula(reference, beyond='extend') would not "
    "report it.",
}


def _fills_judged(
    odd: int, fills: int, real: int, regions: int, same: int, *, by_image: bool, implausible: bool
) -> str:
    among = "real patches of the same image" if by_image else "what really is in regions of other images"
    unchanged = f" {same} of the fills kept are the region as it is." if same else ""
    advice = (
        " Where fills do not look real, a region may be chosen for that alone: use another sampler, or "
        "butfor.plausible(sampler, butfor.image.judge, 0.05)."
    )
    return (
        f"Do fills look real? {odd} of {fills} fills look odder than 95 of 100 real ones.\n"
        f"By texture and edge, beside {among}; so do {real} of {regions} regions as they are.{unchanged}"
        f"{advice if implausible else ''}"
    )


IMAGE_NOTES: dict[str, Sentence] = {
    "files-ignored": lambda names: (
        f"{_were(len(names), 'file of the folder is no image and', 'files of the folder are no images and')} left out: "
        f"{shortened(list(map(repr, names)), 5)}."
    ),
    "fills-judged": _fills_judged,
    "fills-doubtful": (
        "{count} of {findings} findings are not counted: their fills look odd, and real patches do not bear them out.\n"
        "They are hatched in the pictures. Where most fills of a region look odder than 95 of 100 real patches, ten "
        "patches of real images take their place; a finding counts if the output changes as much with these."
    ),
    "fills-alike": (
        "Draws are alike: {regions} of {size} regions have {different} different fills in {draws} draws.\nOnly "
        "different ones count in intervals of what is decisive or moves."
    ),
    "painted-again": lambda regions, fills: (
        f"{fills} fills may show again what was removed: {shortened(list(regions), 3)}.\nThe model's output stays "
        "there, while most fills of the same region take it away. Look at them in the report."
    ),
    "donor-alone": "Patches come from the image itself, which may show the same thing twice: give donor(reference).",
    "where-no-donors": lambda names, of: (
        f"No other photograph lacks the class{' of ' + shortened(names) if of > 1 else ''}, so none was cut up: "
        "fills are mean colour and smooth noise only.\nGive others with donors=."
    ),
}
TEXT_NOTES: dict[str, Sentence] = {
    "unknown-words": (
        "{unknown} of {tested} words are outside the sampler's vocabulary: marked, and not judged as unusual.\n"
        "It cannot draw them, so they would look unusual whatever the model relies on; what they move is given."
    ),
    "plain-words": (
        "Words were drawn among the {plain:,} that are as common in every class of your {texts:,} texts.\n"
        "Those are {share:.0%} of what stands there; {left} texts that are explained were not used."
    ),
    "other-class": (
        "Hardly any words are as common in every class ({plain} of {words}): drawn were words of {classes}, by how "
        "common they are there.\n"
        "What is found is unusual for those texts; target= names another class to compare with the others."
    ),
    "few-candidates": lambda needed, most, family, together: (
        f"One of {family} spans alone needs {needed} candidates to be unusual, the pool has at most {most}.\n"
        + (
            "So nothing can be: give more texts, test fewer spans, or ask what they move."
            if together is None
            else f"So none is unless {together} of them are together: give more texts, or test fewer spans."
        )
    ),
    "few-foils": "For some spans the pool of foils has only {candidates} candidates; more texts would help.",
    "parsed-phrases": "Phrases are {kind} of spaCy's {model}.",
    "phrases-by-rules": (
        "Phrases were found by rules (runs of words between function words, verbs of being and punctuation), since no "
        "spaCy model is installed."
    ),
}
CONTEXT_NOTES: dict[str, Sentence] = {
    "budget-spent": "The budget ended the run after {calls:,} calls.\nWhat was not decided by then is open.",
    "foils-dropped": "Parts were deleted, which no prompt of the same kind would show; nothing is promised.",
    "answers-vary": "The model gave another answer to the same prompt.\nNothing is promised of such answers: ask with "
    "temperature 0, or give samples=5.",
    "answer-rare": "Of {of} fresh answers to {prompt} only {same} are the one explained.",
    "answer-not-scored": "This model tells no log-probabilities: the answer given was not tested, decisions were.",
    "foils-limit": "{draws} different foils of a part cannot make one of {parts} decisive; {needed} could.\nGive more "
    "of them and draws={needed}, or parts='zoom'.",
    "foils-repeat": "Of {draws} foils of {part} {repeated} repeat another one: shares hold for these foils.",
    "few-texts": "Where parts go together, shares hold for the {texts} foils given, not for others like them.",
}
MULTIMODAL_NOTES: dict[str, Sentence] = {
    "parts-apart": (
        "Each part is redrawn given the rest of that part alone.\nWhere parts depend on each other, as a caption does "
        "on its image, that is not the distribution of the one given the other: use a sampler with whole=True, which "
        "is shown all parts."
    ),
    "plausible-share": (
        "About {mean:.1%} of the counterfactuals drawn are plausible (least: {least:.1%} for {subset!r}); the others "
        "were rejected."
    ),
    "implausible-inputs": (
        "{below} of {inputs} inputs are not plausible themselves: a finding there may mean no more than that.\n"
        "No counterfactual can be like them; leave them out, or lower the threshold."
    ),
    "implausible-regions": (
        "{below} of {regions} regions are not plausible as they are: a finding may mean no more than that.\n"
        "No counterfactual can be like them; leave them out, or lower the threshold."
    ),
    "untested-regions": (
        "{below} of {regions} regions are not plausible as they are (a score below {threshold:g}): no fill can be like "
        "them, so they are not tested and never chosen."
    ),
}

EXCHANGEABLE = "under the null a feature is exchangeable with the draws of the sampler"
UNPICKED = "inputs were not picked by their output"
UNSEEN = "subsets were not chosen by looking at the inputs"
PICKED = "inputs were picked by the rule given and draws that it would not pick were rejected"
HOLDOUT = (
    "under the null the label does not depend on the feature given the other columns, the sampler draws the feature as "
    "it is distributed in the population given them, the rows are independent of each other and the model was not "
    "fitted on them"
)
CONTRAST = (
    "under the null the feature of every input is exchangeable with draws from Q given the rest of that input, the "
    "inputs are independent of each other and were not picked by their output"
)
STUDENT = (
    "the inputs are independent of each other and were not picked by their output, their mean is nearly normal and the "
    "form of the sampler's fit is right (approximate: the error of the fit is counted by its leverage, checked by "
    "simulation)"
)
SAMPLERS = {  # what is assumed of the data, by the sampler
    "residual": (
        "the residual of each column given the others has the same distribution wherever the others are, up to the "
        "forms tried: straight lines, splines, levels, products, trees"
    ),
    "gaussian": "the columns are jointly normal",
    "copula": "the columns are jointly normal once each is transformed to a normal one (a Gaussian copula)",
    "forest": "a column has the same distribution in all rows that the forest takes for alike in the others",
    "neighbours": "a column has the same distribution in all rows that are near each other in the others",
    "empirical": "the columns are independent of each other",
}
RIGHT = "the sampler draws the subset as it is distributed given the rest of the input"
REFUSALS: dict[str, Sentence] = {  # why nothing is controlled
    "one-point": "Q is a single point: the sampler always draws the same, so no input can look like one more draw",
    "observed-class": (
        "the class was picked by looking at the observed input only, which favours it over its draws (with every null "
        "true OSFT made a false discovery in 90 to 100 % of runs); use target='predicted'"
    ),
    "tied-labels": (
        "the labels of one input are not independent, and the family has fewer than 10 inputs, or fewer than 20 with "
        "more than 20 subsets each (with every null true few-shot then made a false discovery in 10 to 39 % of runs at "
        "alpha 0.1); use more inputs, or test='sequential'"
    ),
}
CAVEATS: dict[str, Sentence] = {  # what a result may add to its promise
    "signs": (
        "Where an input has cloned features, or only their combination counts (as in a parity), its signs depend on "
        "each other: OSFT's FDR was then 0.50 at alpha 0.1; test='sequential' and test='irt' keep their level."
    ),
    "sizes": (
        "With few inputs, many features and outputs near their limit (a probability near 1), the size of a difference "
        "gives away its sign, and too much may be chosen: use link='logit', or test='sequential'."
    ),
    "filtered": "Hypotheses whose output never varied left the family first, which needs independence between inputs.",
    "dependence-ignored": (
        "The sampler redraws each subset without regard to the other columns.\nWhere columns are correlated, it makes "
        "rows that never occur, and correlated columns pull each other in."
    ),
    "beyond-reference": (
        "The sampler knows nothing rarer than one value in {rows:,.0f}, and this test compares sizes.\n"
        "So it may report values that are merely rare (with every null true, 2,000 hypotheses and 100 reference rows "
        "few-shot made a false discovery in 33 to 58 % of runs at alpha 0.1); test='sequential' and test='irt' do not."
    ),
    "data-dependent": (
        "What is tested was picked by its content, or by a function that may have looked at it.\n"
        "Superpixels, boxes that a detector or a person drew and matches of a pattern differ from their draws whatever "
        "the model relies on (with every null true, Felzenszwalb's superpixels made a false discovery in 12 of 12 "
        "runs, a detector's boxes in 6 and a grid in 1); a grid avoids that."
    ),
    "min-effect": "An effect of at most {margin:g} counts as a null (min_effect).",
    "truth": (
        "The class is the true label: the promise holds only where the sampler describes inputs of that label.\n"
        "With a sampler of all labels and every null true, few-shot made a false discovery in 49 % of runs, osft in "
        "66 %."
    ),
    "not-controlled": "The sampler was not checked on rows of the reference's own kind (control=False).",
    "not-calibrated": lambda names: (
        f"The control found draws of {', '.join(names[:4])} too narrow: they are never chosen."
    ),
    "not-conditional": lambda pairs: (
        f"{' '.join(f'The draws of {one} do not follow how it depends on {other}.' for one, other in pairs[:4])} "
        f"Nothing is chosen or called decisive there{f' or in {len(pairs) - 4} more subsets' * (len(pairs) > 4)}."
    ),
    "early-stop": "Decisions equal those of all draws with probability at least {agree:g}.",
    # the global question
    "cross-fitted": (
        "The sampler is fitted, on the reference and the other folds of the data, so this is approximate (checked by "
        "simulation)."
    ),
    "reference alone": (
        "The sampler is fitted, on its reference alone, so this is approximate: a reference that is small beside the "
        "data or a fit that is off makes false discoveries; reference data in place of the sampler is fitted together "
        "with the other folds of the data."
    ),
    "taken as right": (
        "The sampler is fitted and was taken to be right: with {inputs} inputs the error of its fit is not counted, "
        "which makes false discoveries where the reference is not much larger."
    ),
    "user-loss": (
        "A loss of your own is compared as a whole: a sampler that draws a little too widely raises it, whatever the "
        "label does; loss='squared' and 'log' leave out that part."
    ),
    "check-of-all": (
        "The check of the sampler finds a fault in all columns together, too small to be seen in one.\n"
        "P-values may be somewhat too small or too large by it."
    ),
    "check-failed": lambda names, unchecked: (
        f"The sampler did not pass its check on {shortened(names)}: nothing is said of "
        f"{'it' if len(names) == 1 else 'them'}." + (f" {unchecked} subsets were not checked." if unchecked else "")
    ),
    "fixed-alpha": "alpha must have been fixed before looking at the result.",
}
MODALITY_NOTES = TABLE_NOTES | IMAGE_NOTES | TEXT_NOTES | CONTEXT_NOTES | MULTIMODAL_NOTES
TREATMENT_NOTES: dict[str, Sentence] = {
    "treatment-undeclared": "{columns} are neither legitimate nor proxies; they stay as they are.",
    "treatment-implausible": lambda attribute, count, total, share: (
        f"{count} of {total} people have no other plausible value of {attribute}: its share, given the "
        f"legitimate columns, is below {share:g}.\nSuch values are not asked about. A column that tells the attribute "
        "belongs into proxies=, or is not legitimate."
    ),
    "treatment-rare": lambda attribute, values, least: (
        f"Fewer than {least} rows of the reference have {attribute} {listed(values)}: proxies are redrawn neither with "
        f"{'it' if len(values) == 1 else 'these'} nor for people who have {'it' if len(values) == 1 else 'them'}."
    ),
    "treatment-not-calibrated": lambda proxies, column: (
        f"Draws of {listed(proxies)} do not follow {column} as rows of the reference do, so nobody is accused through "
        "them.\nDeclare fewer proxies, or give a sampler that you know to be right."
    ),
    "treatment-by-value": lambda proxies, attribute: (
        f"{listed(proxies)} {'is' if len(proxies) == 1 else 'are'} drawn for each value of {attribute} by a fit on the "
        "rows that have it; one fit for all does not follow them."
    ),
    "treatment-in-reference": (
        "{count} of {total} people are rows of the reference.\nA model that was fitted on them decides them from "
        "memory; give a reference that it has not seen."
    ),
}
SENTENCES = RUN_NOTES | MODEL_NOTES | MODALITY_NOTES | TREATMENT_NOTES | REFUSALS | CAVEATS


@dataclass(frozen=True)
class Guarantee:
    """Promise of a selection. `str()` of it is one honest sentence."""

    controls: Literal["FDR", "FWER", "nothing"]
    level: float
    family: str
    assumption: str  # or why nothing is controlled
    proven_by: str
    caveats: tuple[Note, ...] = ()
    refusal: str | None = None  # the code of why nothing is controlled
    sampler: str = ""  # what is assumed of the data by the sampler that was fitted to them; nothing: it is known

    def __str__(self) -> str:
        caveats = "".join(f" {caveat}" for caveat in self.caveats)
        if self.controls == "nothing":
            return f"No error rate is controlled over {self.family}: {self.assumption}.{caveats}"
        rate = {"FDR": "The false discovery rate", "FWER": "The probability of any false discovery"}[self.controls]
        return (
            f"{rate} over {self.family} is at most {self.level:g}, provided that {self.assumption} "
            f"({self.proven_by}).{f' The sampler assumes that {self.sampler}.' if self.sampler else ''}{caveats}"
        )


def assumed(record: RunRecord) -> str:
    """Return what the sampler of a run assumes of the data, in words; nothing where that is not known."""
    return SAMPLERS.get(record.assumes, record.assumes)


def promise_of_decisions(record: RunRecord, layered: bool) -> str:
    """Return what is promised of what is decisive, enough and moves the output, and what that assumes."""
    detail = " at each level of detail" if layered else ""
    each = " for each input by itself" if record.selection is not None and record.selection[2] == "input" else ""
    promise = (
        "Given the inputs: each 95 % interval holds by itself, and of what is called decisive, of what is called "
        f"enough and of what is said to move the output{detail}{each} at most {100 * record.alpha:g} % each is "
        "expected to be wrong (Benjamini & Hochberg 1995, on p-values that hold whenever drawing stops)"
    )
    if record.simultaneous:
        promise = f"Given the inputs: all 95 % intervals{detail} hold together, and with them all that is called so"
    fitted = "; approximate, since the sampler is fitted, and" if assumed(record) else ","
    return f"{promise}{fitted} provided that {assumed(record) or RIGHT}. How the inputs were picked does not matter."


def promise_of_features(record: RunRecord, layered: bool) -> str:
    """Return what is promised of what sets the inputs apart on average, and what that assumes."""
    detail = " at each level of detail" if layered else ""
    return (
        f"Features: of the subsets in which inputs are said to differ{detail} at most {100 * record.alpha:g} % are "
        "expected to be wrong, approximately: provided that means over inputs are nearly normal, the inputs are "
        f"independent of each other and were not picked by their output, and {assumed(record) or RIGHT}."
    )


def guarantee(
    record: RunRecord,
    rule: str,
    family: str,
    alpha: float,
    *,
    filtered: bool = False,
    layered: bool = False,
    few_inputs: bool = False,
    doubted: Sequence[str] = (),  # subsets that the control found not calibrated
    not_following: Sequence[tuple[str, str]] = (),  # subsets whose draws do not follow another column, with that
    check_failed: Sequence[str] | None = None,  # by the check of the sampler; none of them: only all columns together
    unchecked: int = 0,
) -> Guarantee:
    """Return the promise of a run and a rule; a combination without one is refused."""
    check_rule(record.test, rule)
    test, promise, importance = record.test, PROMISES[record.test][rule], record.importance
    competes = test in ("osft", "few-shot")
    fit = "known" if importance is None else importance.fit
    counted = test == "where" or (test in ("sequential", "irt") and record.delta is None and rule != "e-bh")
    user_loss = test == "holdout" and importance is not None and importance.loss not in ("squared", "log")
    conditions: tuple[tuple[str, object, dict[str, Any]], ...] = (
        ("signs", test == "osft", {}),
        ("sizes", competes, {}),
        ("filtered", filtered, {}),
        ("dependence-ignored", record.dependence_ignored, {}),
        ("beyond-reference", competes and record.floor > 0, {"rows": 1 / (record.floor or 1)}),
        ("data-dependent", record.data_dependent, {}),
        ("min-effect", counted and record.min_effect, {"margin": record.min_effect}),
        ("truth", record.target == "truth", {}),
        ("not-controlled", record.controlled == "not wanted", {}),
        ("not-calibrated", doubted, {"names": list(doubted)}),
        ("not-conditional", not_following, {"pairs": [list(pair) for pair in not_following]}),
        ("early-stop", record.delta is not None, {"agree": 1 - (record.delta or 0)}),
        (fit, fit not in ("known", "counted"), {"inputs": 0 if importance is None else importance.inputs}),
        ("user-loss", user_loss and fit not in ("known", "counted"), {}),
        ("check-of-all", check_failed is not None and not check_failed, {}),
        ("check-failed", check_failed, {"names": list(check_failed or ()), "unchecked": unchecked}),
        ("fixed-alpha", True, {}),
    )
    caveats = tuple(Note(code, "warning", values) for code, applies, values in conditions if applies)
    caveats += () if record.judged is None else (record.judged,)
    if importance is not None:
        assumption = STUDENT if fit == "counted" else HOLDOUT if test == "holdout" else CONTRAST
        by = "Tansey, Veitch, Zhang, Rabadan & Blei 2018; " * (test == "holdout") + "Hemerik & Goeman 2018"
        by = f"{'Student; Satterthwaite 1946' if fit == 'counted' else by}; {promise.proven_by}"
        over = "the subsets of this data set"
        if layered:
            over = "the columns of this data set and, separately, over its groups of columns"
        needs = f"{assumption}, and {promise.needs}"
        return Guarantee(promise.controls, alpha, over, needs, by, caveats, sampler=assumed(record))
    if test == "where":
        needs = f"{promise.needs}; x is fixed, so how photographs were picked does not matter"
        over = "the regions of each photograph"
        return Guarantee(promise.controls, alpha / 4, over, needs, promise.proven_by, caveats)
    over = "all hypotheses of the run" if family == "run" else "the hypotheses of each single input (not over the run)"
    if layered:
        over = "the hypotheses of each resolution (not over all resolutions together)"
        if family == "input":
            over = "the hypotheses of each single input at each resolution (not over the run)"
    refused = (
        ("one-point", record.deterministic),
        ("observed-class", record.target == "observed-class"),
        ("tied-labels", test == "few-shot" and (few_inputs or family == "input")),
    )
    for code, broken in refused:
        if broken:
            return Guarantee("nothing", alpha, over, str(REFUSALS[code]), "nobody", caveats, code)
    inputs = f"{PICKED if record.picked else UNPICKED}, {UNSEEN}"
    needs = f" and {inputs}, {ANY}" if promise.needs == ANY else f", {inputs}, and {promise.needs}"
    assumption, by = EXCHANGEABLE + needs, promise.proven_by
    return Guarantee(promise.controls, alpha, over, assumption, by, caveats, sampler=assumed(record))
