"""One run, whatever the inputs are: hypotheses and a model -> the test, the selection, the effects, the result.

Inputs and hypotheses that cannot be tested (`on_error="skip"`) stay in their family with p = 1, so that leaving them
out cannot help the others: valid whatever makes them fail.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np

from butfor._version import __version__
from butfor.evaluation.calls import TRIES, Probe, again, answered, outputs_of, probe
from butfor.evaluation.evaluator import Evaluator, Tolerance, remembering
from butfor.evaluation.hypotheses import (
    Hypotheses,
    Job,
    Parts,
    Proposer,
    ProposesTree,
    Watch,
    always_alike,
    draw,
    layers_of_trees,
    no_chance,
    round_sizes,
    with_stand_ins,
)
from butfor.evaluation.items import Items, TableItems
from butfor.evaluation.journal import Journal, fingerprint, items_digest, journal
from butfor.evaluation.progress import Meter, Progress, Report, Rows, reporting
from butfor.evaluation.samplers import Sampler, info_of, method, name_of
from butfor.evaluation.workers import asked_where, opened, worker_states
from butfor.inference.decisions import Decision
from butfor.inference.effects import Effects, Estimates
from butfor.inference.features import LEAST_INPUTS, Features, Fit, features
from butfor.inference.guarantees import P_RULES
from butfor.inference.selection import Choice
from butfor.inference.sequential import first_batch
from butfor.inference.statistics import (
    PartialEvidence,
    Picked,
    Scale,
    StatisticSpec,
    Target,
    averaged_target,
    linked,
    softmax,
)
from butfor.models import Wrapped
from butfor.models.wrap import content_digest
from butfor.results.notes import called_alike, chooses_nothing, failures, largest_family, looks_picked, reach
from butfor.results.record import Controlled, ImageInputs, MultimodalInputs, RunRecord, TableInputs, TextInputs
from butfor.results.result import Control, Decided, Fills, Kept, Moved, Result, Sets
from butfor.results.summary import are_logits, are_probabilities
from butfor.results.words import Note, as_note
from butfor.run import decisions, tests
from butfor.run.control import LEAST_ROWS, ROWS_FEW, SEEN_Z, control, seen_by_model, size_of
from butfor.run.enough import Keeps, kept_parts, smallest_sets
from butfor.run.proposed import Proposed
from butfor.run.watchers import Different, FirstDraws, Flips, Keeper, LookForMoves, Moves, travelling
from butfor.settings import Settings
from butfor.streams import stream
from butfor.types import (
    Array,
    Batch,
    Bools,
    Floats,
    InputError,
    Ints,
    Model,
    ModelError,
    ModelUnreachable,
    ReachWarning,
    warn_user,
)


class Faults(Protocol):
    """Of each subset (S,): p-values of ranks among draws, the column that tells them, and whether they are fair."""

    @property
    def p(self) -> Floats: ...
    @property
    def told_by(self) -> Ints: ...
    @property
    def calibrated(self) -> Bools: ...


@dataclass(frozen=True, eq=False)
class Reference:
    """The reference of a table: whole rows in the order of the data's columns, and how well Q is known."""

    items: Items
    fit: Callable[[Hypotheses], Fit | None]  # asked once the inputs are known to be usable: it may fit something
    controls: Callable[[int, int], Sequence[Hypotheses]] | None = None  # so many held-out rows, of so many subsets
    root: int | None = None  # the subset of all columns
    faults: Callable[[], Faults | None] | None = None  # of ranks among draws, without the model
    redrawn: Callable[[Bools, int], Redrawn | None] | None = None  # by usable subsets, at most so many rows
    weights: Callable[[Hypotheses], Floats | None] | None = None  # (n, S) of control rows, to stand for the inputs
    # by decisions of inputs and of its rows, clusters of inputs, those that were tested, and what the model decides
    keeps: Callable[[Array, Array, Ints, Bools, Callable[[Items], Array | None]], Keeps | None] | None = None
    without: Callable[[Ints], Reference] | None = None  # some of its rows
    outputs: Floats | None = None  # of its rows, where they had to be looked at first


@dataclass(frozen=True, eq=False)
class Redrawn:
    """Reference rows, each followed by versions of it of which all columns are redrawn, part by part."""

    items: Items  # (n * versions)
    rows: Floats  # (n, versions, columns), standardised


@dataclass(frozen=True, eq=False)
class RunContext:
    """The part of a run that a modality brings: hypotheses, model, names of inputs, notes on the sampler."""

    hypotheses: Hypotheses
    wrapped: Wrapped
    model_name: str
    batch_rows: int
    describe: Callable[[int], str]  # names an input in an error
    sampler_notes: Callable[[], Sequence[Note | str]]  # on the sampler and the inputs; asked once, when all is drawn
    inputs: TableInputs | ImageInputs | TextInputs | MultimodalInputs  # for the record of the run
    keep: tuple[int, int]  # counterfactuals of each hypothesis that are kept for reports, and the values of all
    data_dependent: bool = False  # whether subsets were picked by what is in them
    # a caveat of the promise, and of which hypotheses (H,) the counterfactuals look odd
    judge: Callable[[Hypotheses, Kept], tuple[Note, Bools] | None] | None = None
    other_sampler: Sampler | None = None  # by which findings are tried again where counterfactuals look odd
    reference: Reference | None = None
    parts: Parts | None = None  # of which some may be enough, where there is no reference
    alike: Ints | None = None  # (n,) equal for equal inputs; None: all differ
    uncovered: tuple[int, ...] = ()  # hypotheses whose observed value the sampler cannot draw: never chosen
    immovable: Bools | None = None  # (S,) subsets that the rest of the input fixes: nothing is said of them
    read_model: Callable[[Model, Floats], tests.ReadModel] | None = (
        None  # the model, its outputs -> what it says by itself
    )


def schedule(hypotheses: Hypotheses, settings: Settings, spec: StatisticSpec) -> tuple[list[int], int]:
    """Return the sizes of the rounds that a hypothesis is drawn in, and how many draws are set aside."""
    draws = settings.draws_for(hypotheses.size)
    if settings.test.name == "sequential":
        return [min(first_batch(settings.test.h, draws), hypotheses.round_draws)], 0  # the others are other rounds
    return round_sizes(spec.center + draws, hypotheses.round_draws), spec.center


def record_of(start: Start, chosen: Bools, *, interrupted: bool, judged: Note | None, exact: int) -> RunRecord:
    """Return what was asked, drawn and seen in a run."""
    context, settings = start.context, start.settings
    hypotheses, spec, test, reference = context.hypotheses, start.spec, settings.test, context.reference
    sampler = info_of(hypotheses.sampler)
    rounds, set_aside = schedule(start.hypotheses, settings, spec)
    always_same = sampler.deterministic or (bool(chosen.any()) and test.name == "osft" and always_alike(hypotheses))
    controlled: Controlled = "no reference"
    if reference is not None and reference.controls is not None:
        wanted: Controlled = "too few rows" if settings.control else "not wanted"
        controlled = wanted if start.checked is None else "done"
    return RunRecord(
        test=test.name,
        draws=settings.draws_for(hypotheses.size),
        seed=settings.seed,
        inputs=context.inputs,
        alternative=spec.alternative,
        target=start.target,  # type: ignore[arg-type]
        link=settings.link,
        center=spec.center,
        h=test.h if test.name == "sequential" else None,
        delta=test.delta if test.early_stop else None,
        scale=test.scale,
        picked=settings.picked is not None,
        decisions=() if start.flips is None else start.flips.decision.named(start.seen.outputs),
        declined=settings.decide is False,
        simultaneous=settings.simultaneous,
        min_effect=settings.min_effect,
        selection=(settings.rule, settings.alpha, settings.family),
        rounds=tuple(rounds),
        set_aside=set_aside,
        exact=exact,
        untested=tuple(sorted(start.plain.failed)),
        uncovered=context.uncovered,
        interrupted=interrupted,
        sampler=repr(hypotheses.sampler),
        assumes=sampler.assumes,
        floor=least_p(hypotheses),
        dependence_ignored=sampler.ignores_dependence,
        deterministic=test.name == "osft" and always_same,  # other tests refuse such a sampler
        data_dependent=context.data_dependent,
        controlled=controlled,
        judged=judged,
        version=__version__,
    )


def least_p(hypotheses: Hypotheses) -> float:
    """The least p-value that the sampler itself allows: the median over subsets."""
    floor = info_of(hypotheses.sampler).floor
    return float(np.median([floor(subset) for subset in hypotheses.subsets]))


def without(estimates: Estimates, rows: Ints) -> Estimates:
    """Estimates in which what could not be tested says nothing; on averages over inputs it counts as no effect."""
    if not rows.size:
        return estimates
    changed = {name: values.copy() for name, values in vars(estimates).items()}
    for name, values in changed.items():
        values[rows] = 0.0 if name in ("gain", "spread") else np.nan
    return Estimates(**changed)


@dataclass(frozen=True, eq=False)
class Start:
    """The state before the test: the statistic, the model's outputs on the inputs, the control, the choice."""

    context: RunContext
    settings: Settings
    hypotheses: Hypotheses  # those of the context, with a watch, and stand-ins for inputs that the model fails on
    seen: Probe
    spec: StatisticSpec
    target: object
    names: tuple[Any, ...] | None
    flips: Flips | None
    plain: Evaluator
    inside: tests.ReadModel
    choice: Choice
    averaged: Target  # what features are of
    notes: tuple[Note, ...]
    checked: Control | None = None
    control_rows: int = 0  # of the model
    seen_by_model: bool = False  # the reference: then whole rows and averages over inputs are not judged

    @property
    def meter(self) -> Meter:
        return self.plain.counter

    @property
    def clusters(self) -> Ints:
        """Equal for inputs (n,) that are equal, or that the user puts together."""
        return clusters_of_inputs(self.context, self.settings)


def model_notes(seen: Probe) -> list[Note]:
    """Return a note on a model that gives a row another output when it is evaluated again."""
    if seen.odd == "random":
        return [Note("random-model", "warning")]
    values = {"noise": seen.noise, "near": seen.rounding.absolute}
    return [] if seen.odd is None else [Note("batch-dependent-model", "warning", values)]


def patient(model: Model, tolerance: Tolerance) -> Model:
    """Return a model that is called again where it fails: outside of tasks."""

    def called_again(batch: Batch) -> Any:
        return again(lambda: model(batch), TRIES, lambda error: isinstance(error, InputError))  # a lost process too

    return called_again if tolerance.skip else model


def start_run(context: RunContext, settings: Settings, hypotheses: Hypotheses, kept: Journal, report: Report) -> Start:
    """Look at the model's outputs and refuse what can be refused; then what the control says of the sampler."""
    tolerance = Tolerance(settings.options.on_error == "skip", settings.options.timeout)
    model = patient(kept.model, tolerance)
    choice = tests.choice_of(hypotheses, settings, clusters_of_inputs(context, settings))
    size = settings.options.batch_rows or context.batch_rows
    failed, n_evaluations = dict[int, str](), 0
    if tolerance.skip:
        n_evaluations = len(hypotheses.items)
        hypotheses, failed = with_stand_ins(hypotheses, kept.model, size, context.describe)
    seen = probe(model, hypotheses.items, size, context.describe)
    spec, target, names = _statistic(context, settings, seen)
    flips = decisions.watch_decisions(hypotheses, settings, seen.outputs, decides=context.wrapped.decides)
    notes = model_notes(seen)
    if flips is not None and settings.decide is None and tolerance == Tolerance():
        notes += decisions.decided_otherwise(context.wrapped, hypotheses.items, seen.outputs, size)
    _fit(hypotheses, report)
    _warn_of_reach(hypotheses, settings, choice)
    short = None if flips is None or hypotheses.items.shares_subsets else decisions.reach_given(hypotheses, settings)
    if short is not None:
        warn_user(str(short), ReachWarning)
        notes.append(short)
    meter = Meter(report, seen.rows + n_evaluations, partial(worker_states, kept.engine))
    plain = Evaluator(
        context.wrapped.call,
        size,
        seen.outputs.shape[1],
        meter,
        engine=kept.engine,
        tolerance=tolerance,
        failed=failed,
        remembered=model,
    )
    inside = tests.ReadModel() if context.read_model is None else context.read_model(model, seen.outputs)
    if inside.rows:
        meter.count_evaluated(inside.rows)
    start = Start(
        context=context,
        settings=settings,
        hypotheses=hypotheses,
        seen=seen,
        spec=spec,
        target=target,
        names=names,
        flips=flips,
        plain=plain,
        inside=inside,
        choice=choice,
        averaged=averaged_target(spec.target, seen.outputs, settings.link),
        notes=tuple(notes),
    )
    before = meter.rows
    checked, knows = _controlled(start) if settings.control else (None, [])
    return replace(
        start,
        choice=replace(choice, calibrated=_judged_rows(context, checked, seen_by_model=bool(knows))),
        notes=(*notes, *knows, *map(as_note, inside.notes)),
        checked=checked,
        control_rows=meter.rows - before,
        seen_by_model=bool(knows),
    )


def _controlled(start: Start) -> tuple[Control | None, list[Note]]:
    """Check the sampler and the model on rows of the reference: its control, and a note where the model knows them."""
    context, settings, spec, inside = start.context, start.settings, start.spec, start.inside
    reference, subsets = context.reference, len(context.hypotheses.subset_names)
    if reference is None:
        return None, []
    faults = None if reference.faults is None else reference.faults()
    checked, z = None, 0.0
    comparable = spec.target.kind != "per-input" and spec.picked is None  # rows of the reference have no labels
    if comparable and reference.controls is not None:  # a sampler is checked that can be fitted again
        size = size_of(settings, len(context.hypotheses.items), subsets, read=inside.outcomes is not None)
        for held_out in reference.controls(size.rows, size.subsets):
            checked = control(
                held_out,
                start.plain,
                spec,
                settings,
                start.averaged,
                subsets,
                decision=None if start.flips is None else start.flips.decision,
                outcomes=inside.outcomes,
                weights=None if reference.weights is None else reference.weights(held_out),
                rough=size.rough,
            )
    if comparable and reference.controls is not None and reference.redrawn is not None:
        usable = np.ones(subsets, bool) if faults is None else faults.calibrated
        most = max(LEAST_ROWS // 2, ROWS_FEW * context.hypotheses.size)
        z = _seen_by_model(start, reference.redrawn(usable, most))
    knows = abs(z) > SEEN_Z
    if knows and checked is not None:  # fair draws look wrong to a model that remembers the rows
        checked = replace(checked, calibrated=None)
    if faults is not None and (checked is not None or (faults.told_by >= 0).any()):  # not where rows are too few
        none = np.zeros((0, subsets))
        checked = Control(none, none.astype(bool)) if checked is None else checked
        right = faults.calibrated if checked.calibrated is None else faults.calibrated & checked.calibrated
        checked = replace(checked, calibrated=right, conditional_p=faults.p, told_by=faults.told_by)
    return checked, [Note("reference-seen-by-model", "warning", {"z": z})] if knows else []


def _seen_by_model(start: Start, redrawn: Redrawn | None) -> float:
    """Return z of whether the model knows the reference; 0 where that cannot be told."""
    evaluator = start.plain
    if redrawn is None:
        return 0.0
    try:
        outputs = outputs_of(evaluator.direct, redrawn.items, evaluator.batch_rows, "row {} of the reference".format)
    except ModelError:  # of a redrawn row: the run itself may do without such rows
        return 0.0
    evaluator.counter.count_evaluated(len(outputs))
    values = linked(outputs, start.spec.link).reshape(*redrawn.rows.shape[:2], -1)
    return seen_by_model(redrawn.rows, values, start.averaged, stream(start.settings.seed, "seen", "kernels"))


def _judged_rows(context: RunContext, checked: Control | None, *, seen_by_model: bool) -> Bools | None:
    """Return the hypotheses (H,) that may be chosen; None: all of them."""
    right = np.ones(len(context.hypotheses.subset_names), bool)
    if context.immovable is not None:
        right &= ~context.immovable
    if checked is not None and checked.calibrated is not None:
        right &= checked.calibrated
    if seen_by_model and context.reference is not None and context.reference.root is not None:
        right[context.reference.root] = False
    judged = np.asarray(right[context.hypotheses.subset_of])
    judged[list(context.uncovered)] = False
    return None if judged.all() else judged


PATIENCE, LONG = 2.0, 300.0  # seconds of fitting after which it is seen how long it will take, and what is long
WIDE = 3_000_000  # columns of all subsets times columns of the table: from here on it takes minutes at least
INSTEAD = (
    "the control and the draws come after that; name fewer subsets (some columns, or groups of columns), or a sampler "
    "that is fitted once, such as butfor.tabular.gaussian(reference), with test='osft' where columns are thousands."
)
MAY_TAKE = "Fitting {sampler!r} to {count} subsets, each of their columns to all others, may take hours, and " + INSTEAD
TAKES = "Fitting {sampler!r} to {count} subsets takes about {minutes:.0f} minutes more, and " + INSTEAD


def _fit(hypotheses: Hypotheses, report: Report) -> None:
    """Fit the sampler to each subset, before anything is drawn: all that could be refused has been."""
    unfitted = method(hypotheses.sampler, "unfitted")
    waiting = () if unfitted is None else unfitted(hypotheses.subsets)
    if waiting and isinstance(hypotheses.items, TableItems):
        columns = sum(len(subset.index) for subset in hypotheses.subsets)
        if columns * hypotheses.items.values.shape[1] > WIDE:
            warn_user(MAY_TAKE.format(sampler=hypotheses.sampler, count=len(waiting)), UserWarning)
    began, seen = 0.0, False
    for done, fit in enumerate(waiting):
        report(Progress("fitting", done, len(waiting)))
        fit()
        if done == 0:
            began = time.monotonic()  # the first one may fit what all of them share
        elif not seen and (passed := time.monotonic() - began) > PATIENCE:
            seen, left = True, passed / done * (len(waiting) - done - 1)
            if left > LONG:
                message = TAKES.format(sampler=hypotheses.sampler, count=len(waiting), minutes=left / 60)
                warn_user(message, UserWarning)
    if waiting:
        report(Progress("fitting", len(waiting), len(waiting)))


def _statistic(
    context: RunContext, settings: Settings, seen: Probe
) -> tuple[StatisticSpec, object, tuple[Any, ...] | None]:
    """The statistic, the name of its target, and the names of the outputs: all that can be refused is refused here."""
    n_outputs, test = seen.outputs.shape[1], settings.test
    if n_outputs > 1 and settings.target is None and not context.wrapped.decides:
        raise InputError(f"the model predicts {n_outputs} numbers of each row; name the one to test: target=0")
    name, names = target_name(settings.target, n_outputs), output_names(context.wrapped, n_outputs)
    target = resolve(name, settings.y, seen.outputs, context.wrapped)
    linked(seen.outputs, settings.link)  # refuses a link that does not fit, before anything is drawn
    one_sided = name in ("predicted", "observed-class")
    alternative = settings.alternative or ("greater" if one_sided else "two-sided")
    outlier = _outlier(context.hypotheses, settings, target, alternative, seen.outputs)
    predicts = target.kind == "predicted" and outlier is None
    class_of_each = predicts and test.name in ("sequential", "irt") and settings.rule != "e-bh"
    picked = None if settings.picked is None else Picked(settings.picked)
    if picked is not None and not (passed := picked.passes(seen.outputs)).all():
        row = int(np.flatnonzero(~passed)[0])
        raise InputError(f"picked does not pass {context.describe(row)}; explain only inputs that the rule has picked")
    spec = StatisticSpec(
        target=target,
        rounding=seen.rounding,
        alternative=alternative,
        link=settings.link,
        center=test.center_for(alternative, class_of_each),
        picked=picked,
        margin=settings.margin,
        class_of_each=class_of_each,
        outlier=outlier,
    )
    return spec, name, names


def _outlier(
    hypotheses: Hypotheses, settings: Settings, target: Target, alternative: str, outputs: Floats
) -> Scale | None:
    """Return on which scale outputs are compared where no class is picked; None: one is.

    Of images and texts, with draws that are all there when they are compared. Where one side, a link or a least effect
    is asked about, that is a question about one number.
    """
    test, known = settings.test, outputs[np.isfinite(outputs).all(axis=1)]
    fixed = test.name == "few-shot" or (test.name == "irt" and not test.early_stop)
    lists = method(hypotheses.sampler, "lists") is not None and test.name == "irt"
    if hypotheses.items.shares_subsets or target.kind != "predicted" or not fixed or lists or not len(known):
        return None
    if alternative != "greater" or settings.link is not None or settings.margin:
        return None
    if are_logits(known):
        return "logits" if known.shape[1] > 2 else None  # of two scores the softmax is 1 at either side: no power
    return "shares" if are_probabilities(known) else "marginal"


def _warn_of_reach(hypotheses: Hypotheses, settings: Settings, choice: Choice) -> None:
    """The one limit that binds, before anything is drawn; weights reach further than it says, so there it is a note."""
    size = largest_family(choice.groups, hypotheses.size)
    test, draws = settings.test, settings.draws_for(hypotheses.size)
    steps = test.h if test.name == "sequential" else 1
    for note in reach(test.name, settings.rule, settings.alpha, size, draws, steps, least_p(hypotheses)):
        if settings.rule != "adaptive" or chooses_nothing(note):
            warn_user(str(note), ReachWarning)


def clusters_of_inputs(context: RunContext, settings: Settings) -> Ints:
    """Equal for inputs (n,) that are equal, or that the user puts together."""
    names = context.hypotheses.input_names
    return tests.cluster_of(settings.groups, names, np.arange(len(names)) if context.alike is None else context.alike)


def with_estimates(conclusions: Effects, first: Estimates, fresh: Bools, sure: Bools) -> Effects:
    """Effects of what is `fresh` as they were found, of all others from the first draws (or the list) of their test."""
    parts = ((conclusions.effect, first.effect), (conclusions.low, first.low), (conclusions.high, first.high))
    effect, low, high = (np.where(fresh, new, old) for new, old in parts)
    return Effects(effect, low, high, fresh | sure)


def manifest(
    hypotheses: Hypotheses, model_name: str, model: Model, batch_rows: int, settings: Settings, reference: Any = None
) -> dict[str, str]:
    """Return what a run depends on: version, settings, and digests of model, data, reference and sampler."""

    def digest(text: str) -> str:
        return blake2b(text.encode("utf-8", "replace"), digest_size=20).hexdigest()

    def in_words(value: object) -> str:
        """A setting in words; of labels and groups a digest, of functions their name."""
        if callable(value) and not isinstance(value, type):
            return name_of(value)
        if isinstance(value, str | int | float | bool) or value is None:
            return repr(value)
        array = hasattr(value, "__len__")
        text = repr(np.asarray(value, dtype=object).tolist()) if array else ADDRESS.sub("", repr(value))
        return text if len(text) <= 200 else digest(text)

    sampler = blake2b(ADDRESS.sub("", info_of(hypotheses.sampler).identity).encode("utf-8", "replace"), digest_size=20)
    if not hypotheses.items.costly:  # what it draws tells samplers of one name apart
        quiet = replace(hypotheses, watch=None)
        for block in (hypotheses.blocks[0], hypotheses.blocks[-1]):
            with suppress(Exception):  # it raises again when it is used
                sampler.update(fingerprint(draw(quiet, Job(block, 1, "fingerprint")).values))
    lines = {"butfor": __version__, "model": model_name, "data": items_digest(hypotheses.items).hex()}
    content = content_digest(model)
    lines |= {} if content is None else {"content of the model": content}
    lines |= {} if reference is None else {"reference": items_digest(reference).hex()}
    lines |= {"sampler": sampler.hexdigest(), "subsets": digest(repr(hypotheses.subset_names))}
    names = [field.name for field in fields(settings) if field.name != "options"]  # may be others when a run goes on
    lines |= {name: in_words(vars(settings)[name]) for name in names}
    return lines | {"batch_rows": str(settings.options.batch_rows or batch_rows)}


ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # of an object in memory


def run(context: RunContext, settings: Settings) -> Result:
    """Return the result of a run: look at the model, check the sampler, draw, choose, estimate, decide."""
    hypotheses, reference = context.hypotheses, context.reference
    compared = None if reference is None else reference.items
    lines = partial(
        manifest, hypotheses, context.model_name, context.wrapped.call, context.batch_rows, settings, compared
    )
    options = settings.options
    with (
        opened(options.workers) as engine,
        journal(engine, asked_where(engine, context.wrapped.call, options.timeout), options.run_dir, lines) as kept,
        reporting(options.progress) as report,
    ):
        if settings.test.name != "osft":  # a sampler that always draws the same leaves nothing to compare with
            if info_of(hypotheses.sampler).deterministic:
                raise no_chance(hypotheses)
            hypotheses = replace(hypotheses, watch=Watch(hypotheses.items.costly))
        context, bad_rows = _without_failing_rows(context, settings, kept.model)
        start = start_run(context, settings, hypotheses, kept, report)
        hypotheses = start.hypotheses
        first = FirstDraws(hypotheses.size, start.spec.target, settings.link, start.spec.rounding, start.averaged)
        count, room = context.keep if settings.picked is None else (0, 0)  # a rule rejects some of what is drawn
        keeper = Keeper(count, schedule(hypotheses, settings, start.spec)[1], room)
        memory = remembering(hypotheses, start.seen.outputs, again=settings.test.name in ("irt", "sequential"))
        each = not hypotheses.items.shares_subsets and decisions.is_dear(hypotheses)  # draws are few: one by one
        logits, target, rounding = _as_probabilities(start), start.spec.target, start.spec.rounding
        moves = Moves(hypotheses.size, LookForMoves(target, settings.link, travelling(rounding), each, logits))
        different = Different(hypotheses.size)
        watching: tuple[Any, ...] = (keeper, first, moves, *([] if start.flips is None else [start.flips]))
        watching += (different,) if context.judge is not None else ()
        evaluator = replace(start.plain, memory=memory, watchers=watching)
        reference_outputs, known, rest = _root(start, evaluator)
        outcomes, meter = start.inside.outcomes, start.meter
        sure = np.zeros(hypotheses.size, bool)  # hypotheses of which all outcomes are known
        for block in [] if outcomes is None else outcomes.split(rest)[0]:
            sure[block.rows] = True
        done = tests.perform(rest, evaluator, start.spec, settings, start.choice, known=known, outcomes=outcomes)
        if hypotheses.watch is not None and hypotheses.watch.is_degenerate:
            raise no_chance(hypotheses)
        estimates = without(first.estimates(), evaluator.untested(hypotheses.size))
        conclusions = _answers(start, evaluator, done, estimates, sure, moves, different, reference_outputs)
        failed = failures(evaluator.failed, hypotheses.size)
        notes = bad_rows + ([Note("not-tested", "warning", failed)] if evaluator.failed else [])
        declined = settings.decide is False
        notes += [*_looks_picked(start, reference_outputs, declined), *map(as_note, _notes(context))]
        interrupted = done.interrupted or conclusions.interrupted
        judged, odd = (None, None) if interrupted else _judged(context, hypotheses, keeper.kept())
        fills = None
        if context.judge is not None and conclusions.moved is not None:
            odd = np.zeros(hypotheses.size, bool) if odd is None else odd
            fills = Fills(odd, np.zeros(hypotheses.size, bool), different.counts)
            answers_given = conclusions.chosen, conclusions.decided, conclusions.moved, fills
            fills = decisions.tried_again(
                hypotheses, evaluator, context.other_sampler, start.flips, moves, *answers_given
            )
            ends = _scale(start, reference_outputs)[0]
            notes += decisions.fill_notes(hypotheses, moves, fills, ends[1], conclusions.findings)
        left = sum(len(block.rows) for block in rest.blocks)
        exact = int(sure.sum()) + rest.size - left if sure.any() else 0
        if not interrupted:
            kept.finish()
    return Result(
        input_names=hypotheses.input_names,
        subset_names=hypotheses.subset_names,
        input_of=hypotheses.input_of,
        subset_of=hypotheses.subset_of,
        evidence=done.evidence,
        alpha=settings.alpha,
        rule=settings.rule,
        family=settings.family,
        rows=Rows(meter.rows, start.control_rows),
        rows_asked=meter.asked,
        hypotheses=replace(context.hypotheses, watch=None),
        outputs=start.seen.outputs,
        kept=keeper.kept(),
        record=record_of(start, conclusions.chosen, interrupted=interrupted, judged=judged, exact=exact),
        output_names=start.names,
        choice=done.choice,
        control=start.checked,
        effects=conclusions.effects,
        chosen=conclusions.chosen,
        decided=conclusions.decided,
        moved=conclusions.moved,
        sets=conclusions.sets,
        fills=fills,
        over_inputs=conclusions.over_inputs,
        run_notes=(*start.notes, *done.notes, *conclusions.notes, *notes),
    )


def _as_probabilities(start: Start) -> bool:
    """Return whether outputs are logits of which people want probabilities: of images and texts."""
    known = start.seen.outputs[np.isfinite(start.seen.outputs).all(axis=1)]
    rows_of_a_table = start.hypotheses.items.shares_subsets
    return not rows_of_a_table and start.settings.link is None and bool(len(known)) and are_logits(known)


@dataclass(frozen=True, eq=False)
class Answers:
    """Conclusions from the evidence: the choice, effects, decisions, and every subset over all inputs."""

    chosen: Bools
    effects: Effects
    decided: Decided | None
    moved: Moved | None
    sets: Sets | None
    over_inputs: Features | None
    notes: tuple[Note, ...]
    interrupted: bool  # while effects were estimated

    @property
    def findings(self) -> Bools:
        """Hypotheses (H,) of which anything is said."""
        decided, moved = self.decided, self.moved
        given = False if decided is None else decided.necessary
        return np.asarray(self.chosen | given | (False if moved is None else moved.moves))


def _answers(
    start: Start,
    evaluator: Evaluator,
    done: tests.Performed,
    estimates: Estimates,
    sure: Bools,
    moves: Moves,
    different: Different,
    reference_outputs: Floats | None,
) -> Answers:
    """The choice, and what is estimated after it; effects that are `sure` (H,), listed in full, need no fresh draws."""
    context, settings, hypotheses = start.context, start.settings, start.hypotheses
    spec, flips, checked = start.spec, start.flips, start.checked
    untested = evaluator.untested(hypotheses.size)
    chosen = tests.chosen_by(hypotheses, settings, done)
    chosen[untested] = False
    start.meter.set_chosen(int(chosen.sum()))
    wanted = chosen & (settings.effects is not None) & (not done.interrupted)
    conclusions, messages = tests.estimated(hypotheses, evaluator, spec, done.evidence, wanted & ~sure, settings)
    interrupted = bool(messages)
    if settings.effects == "all":
        conclusions = with_estimates(conclusions, estimates, wanted & ~sure, sure)
    elif (wanted & sure).any():
        conclusions = with_estimates(conclusions, estimates, ~(wanted & sure), wanted & sure)
    enough = len(hypotheses.items) >= LEAST_INPUTS  # for features
    unused = flips is None and not enough and settings.effects is None
    fit = None if context.reference is None or unused else context.reference.fit(hypotheses)
    decided = moved = sets = over_inputs = None
    finished, given_x = not done.interrupted and not interrupted, not hypotheses.items.shares_subsets
    scale, counts, usable = _scale(start, reference_outputs), None, start.choice.calibrated
    if given_x and finished:
        watching = replace(evaluator, watchers=evaluator.watchers[2:])  # what is kept and first estimates are made
        left_open = decisions.draw_given(hypotheses, watching, flips, moves, settings, scale, usable, different.known)
        messages += [] if left_open is None else [left_open]
        counts = different.known()
    if flips is not None and finished:
        watching = replace(evaluator, memory=None, watchers=(flips,))
        too_high = None
        if checked is not None and checked.verified is not None:
            made = flips.decision(start.seen.outputs)
            too_high = partial(checked.verified.off, hypotheses.input_of, hypotheses.subset_of, made)
        decided = decisions.decide(hypotheses, watching, flips, settings, fit, too_high, usable, different=counts)
        if settings.sufficient:
            again = None if context.reference is None else context.reference.fit
            stay = decisions.sufficiency(hypotheses, watching, flips.decision, settings, again)
            decided = replace(decided, stay=stay)
        sets, more = _enough(start, watching, flips.decision, reference_outputs, estimates.effect)
        messages += more
    if (settings.effects is not None or given_x) and finished:
        watching = replace(evaluator, watchers=(moves,))
        moved = decisions.move(hypotheses, watching, moves, settings, fit, scale, usable, counts)
        if not moves.look.logits:
            conclusions = conclusions.widened(moved.low, moved.high, _ends(start, done, wanted & ~sure))
    if not done.interrupted and context.reference is not None and settings.picked is None and enough:
        size = len(hypotheses.subset_names)
        usable = None if usable is None else usable[:size]  # of the first input: the same for all
        if start.seen_by_model:  # averages of new rows differ from those of rows that the model knows
            usable = np.zeros(size, bool)
        tree = None if hypotheses.layers is None else hypotheses.layers.first(size)
        off = None if checked is None else checked.off
        over_inputs = features(estimates, tree, fit, settings.alpha, start.clusters, usable, off)
        if over_inputs is not None and _ends(start, done, wanted) is not None:  # means of probabilities
            low, high = np.maximum(over_inputs.low, -1.0), np.minimum(over_inputs.high, 1.0)
            over_inputs = replace(over_inputs, low=low, high=high)
    if decided is not None and checked is not None and checked.calibrated is not None:
        decided = decided.only(checked.calibrated[hypotheses.subset_of])
    tested = ~np.isin(np.arange(hypotheses.size), untested)
    decided = None if decided is None else replace(decided, necessary=decided.necessary & tested)
    moved = None if moved is None else replace(moved, moves=moved.moves & tested)
    return Answers(chosen, conclusions, decided, moved, sets, over_inputs, tuple(messages), interrupted)


def _scale(start: Start, reference: Floats | None) -> tuple[Floats, float]:
    """Return the range of changes (2, n) of the output that is moved, and which change is little."""
    outputs = start.seen.outputs
    if _as_probabilities(start):
        outputs = softmax(outputs)
    return decisions.scale_of_changes(start.spec, start.settings, outputs, reference)


def _ends(start: Start, done: tests.Performed, fresh: Bools) -> Floats | None:
    """The least and largest effect (2, H) that a probability allows; None of other outputs."""
    outputs, classes = start.seen.outputs, done.evidence.classes
    known = outputs[np.isfinite(outputs).all(axis=1)]
    if start.settings.link is not None or outputs.shape[1] == 1 or not len(known) or not are_probabilities(known):
        return None
    if start.spec.target.kind == "predicted":
        largest = outputs.argmax(axis=1)[start.hypotheses.input_of]
        classes = np.where(fresh, classes, largest)  # fresh draws are of the class that was tested
    return np.asarray(outputs[start.hypotheses.input_of, classes] - np.array([[1.0], [0.0]]))


def _enough(
    start: Start, evaluator: Evaluator, decision: Decision, reference_outputs: Floats | None, effect: Floats
) -> tuple[Sets | None, list[Note]]:
    """Return the smallest sets of parts that keep decisions; None: not wanted, or not drawn, and then why."""
    settings, reference, parts, keeps = start.settings, start.context.reference, start.context.parts, None
    untested = evaluator.untested(start.hypotheses.size)
    inputs = np.arange(len(start.seen.outputs))
    tested = np.isin(inputs, np.delete(start.hypotheses.input_of, untested))  # others were skipped
    if settings.enough is None or not tested.any():
        return None, []

    def decided(items: Items) -> Array | None:
        """None: rows of the search are made, not drawn, and no model has to take them."""
        try:
            outputs = outputs_of(evaluator.direct, items, evaluator.batch_rows, "row {} of the search".format)
            evaluator.counter.count_evaluated(len(outputs))
            return decision(outputs)
        except ModelUnreachable:
            raise
        except ModelError:
            return None

    if reference is not None and reference.keeps is not None:
        rows = decision(_outputs_on(reference, evaluator) if reference_outputs is None else reference_outputs)
        keeps = reference.keeps(decision(start.seen.outputs), rows, start.clusters, tested, decided)
    try:
        if parts is not None:
            keeps = kept_parts(start.hypotheses, parts, evaluator, decision, settings, tested, effect)
        return None if keeps is None else smallest_sets(keeps, evaluator, decision, settings, tested), []
    except (InputError, ModelError) as error:  # of a sampler that cannot redraw nearly all of an input
        if parts is None or isinstance(error, ModelUnreachable):
            raise
        return None, [Note("enough-not-drawn", "warning", {"why": str(error)})]


def _root(start: Start, evaluator: Evaluator) -> tuple[Floats | None, list[PartialEvidence], Hypotheses]:
    """Outputs of reference rows (m, outputs), evidence on whole inputs from them, and what is left to draw."""
    reference, hypotheses = start.context.reference, start.hypotheses
    if reference is None or reference.root is None or start.spec.picked is not None:
        return None, [], hypotheses
    outputs = _outputs_on(reference, evaluator)
    rows, name = reference.items.block(0, len(reference.items)), hypotheses.subset_names[reference.root]
    show = partial(evaluator.show, hypotheses)
    evidence = [
        part
        for block in hypotheses.blocks
        if block.subset.name == name
        for part in tests.ranked_root(hypotheses, start.spec, block, start.seen.outputs, rows, outputs, show)
    ]
    rest = replace(hypotheses, blocks=tuple(block for block in hypotheses.blocks if block.subset.name != name))
    return outputs, evidence, rest


def _outputs_on(reference: Reference, evaluator: Evaluator) -> Floats:
    outputs = reference.outputs
    if outputs is None:
        outputs = outputs_of(evaluator.direct, reference.items, evaluator.batch_rows, "row {} of the reference".format)
    evaluator.counter.count_evaluated(len(outputs))
    return outputs


def _without_failing_rows(context: RunContext, settings: Settings, model: Model) -> tuple[RunContext, list[Note]]:
    """Leave out rows of the reference that the model fails on, where such inputs are skipped."""
    reference = context.reference
    if settings.options.on_error != "skip" or reference is None or reference.without is None:
        return context, []
    if settings.enough is None and (reference.root is None or settings.picked is not None):
        return context, []  # they are not needed
    size = settings.options.batch_rows or context.batch_rows
    outputs, bad = answered(reference.items, model, size, "row {} of the reference".format)
    if not bad:
        return replace(context, reference=replace(reference, outputs=outputs)), []
    rows = np.array(sorted(bad))
    fewer = replace(reference.without(rows), outputs=np.delete(outputs, rows, axis=0))
    note = Note("reference-rows-left-out", "warning", failures(bad, len(outputs)))
    return replace(context, reference=fewer), [note]


def _looks_picked(start: Start, reference: Floats | None, declined: bool) -> list[Note]:
    """Return a note where inputs and reference are told apart by one threshold of the output (METHODS 0)."""
    spec, outputs = start.spec, start.seen.outputs
    if reference is None or spec.picked is not None or spec.target.kind == "per-input":
        return []
    decided = None if declined else start.flips is not None
    if spec.target.kind == "predicted":
        called = outputs.argmax(axis=1)
        name = (start.names or range(outputs.shape[1]))[int(called[0])]
        return called_alike(called, reference.argmax(axis=1), name, decided=decided)
    position = 0 if spec.target.classes is None else int(spec.target.classes[0])
    output = None if outputs.shape[1] == 1 else position
    return looks_picked(outputs[:, position], reference[:, position], output, decided=decided)


def _judged(context: RunContext, hypotheses: Hypotheses, kept: Kept) -> tuple[Note | None, Bools | None]:
    """Return what the modality says of what was kept, and which hypotheses (H,) look odd; a fault costs only that."""
    try:
        judged = None if context.judge is None else context.judge(hypotheses, kept)
    except Exception as error:  # what is looked at came from a user's sampler
        return Note("not-judged", "warning", {"error": type(error).__name__, "why": str(error)}), None
    return (None, None) if judged is None else judged


def _notes(context: RunContext) -> Sequence[Note | str]:
    """Return the notes of the modality and the sampler; a fault there costs the notes, not the run."""
    try:
        return context.sampler_notes()
    except KeyboardInterrupt:
        return []
    except Exception as error:  # a user's sampler may raise anything
        return [Note("no-sampler-notes", "info", {"error": type(error).__name__, "why": str(error)})]


def check_zoom(proposer: Proposer, settings: Settings) -> None:
    """Refuse a test or a rule that cannot go from coarse to fine: what is not drawn must count as p = 1."""
    if not isinstance(proposer, ProposesTree):
        return
    test = settings.test
    if test.name not in ("sequential", "irt") or test.early_stop:
        raise InputError(
            f"zoom needs p-values, since what is not drawn counts as p = 1, got test={test.name!r}; use "
            "test='sequential', or 'irt' without early_stop"
        )
    if settings.rule not in P_RULES:
        raise InputError(f"zoom takes one of the rules {', '.join(P_RULES)}, got rule={settings.rule!r}; use 'bh'")


def with_layers(hypotheses: Hypotheses, proposer: Proposer, conclusions: Proposed) -> Hypotheses:
    """The hypotheses, with its layers where what is tested are parts of each other."""
    if not isinstance(proposer, ProposesTree):
        return hypotheses
    trees = [proposer.tree(name, conclusions.items[place]) for place, name in enumerate(conclusions.names)]
    return replace(hypotheses, layers=layers_of_trees(trees))


NAMED = ("output", "predicted", "observed-class", "truth")


def target_name(target: object, outputs: int) -> object:
    """The target, with its default filled in: the output itself, or the predicted class where there are several."""
    name = ("output" if outputs == 1 else "predicted") if target is None else target
    return name.item() if isinstance(name, np.generic) else name


def resolve(name: object, y: object, observed: Floats, wrapped: Wrapped) -> Target:
    """The target as the core understands it; `observed` (n, outputs) are the outputs on the inputs."""
    outputs = observed.shape[1]
    if y is not None and name != "truth":
        raise InputError("y is used with target='truth' only; drop it or ask for target='truth'")
    if not (isinstance(name, str) and name in NAMED and name not in (wrapped.classes or ())):
        return Target("fixed", np.array([_index(name, outputs, wrapped)]))
    if outputs == 1 and name != "output":
        raise InputError(f"target={name!r} needs a model with several outputs, this one has one; use target=None")
    if outputs > 1 and name == "output":
        raise InputError(f"the model has {outputs} outputs; choose one with target= or use target='predicted'")
    if name == "observed-class":
        return Target("per-input", observed.argmax(axis=1))
    if name == "truth":
        return Target("per-input", _truth(y, observed, wrapped))
    return Target("predicted" if name == "predicted" else "output")


def _truth(y: object, observed: Floats, wrapped: Wrapped) -> Ints:
    if y is None:
        raise InputError("target='truth' needs the true labels; give them as y=")
    labels = np.asarray(y).reshape(-1).tolist()
    if len(labels) != len(observed):
        raise InputError(f"y has {len(labels)} labels for {len(observed)} rows of data; give one for each row")
    if wrapped.classes is not None:
        known = set(map(str, wrapped.classes))
        if unknown := [label for label in labels if str(label) not in known]:
            raise InputError(f"unknown target {unknown[0]!r}; the model has labels {list(wrapped.classes[:8])}")
    return np.array([_index(label, observed.shape[1], wrapped) for label in labels])


def _index(label: object, outputs: int, wrapped: Wrapped) -> int:
    if wrapped.classes is not None:
        if label in wrapped.classes:
            return wrapped.classes.index(label)
        alike = [index for index, known in enumerate(wrapped.classes) if str(known) == str(label)]
        if len(alike) == 1:  # "1" where classes are numbers, 1 where they are texts
            return alike[0]
    if isinstance(label, int | np.integer) and not isinstance(label, bool) and 0 <= label < outputs:
        return int(label)
    known = f"labels {list(wrapped.classes[:8])}" if wrapped.classes is not None else f"outputs 0 to {outputs - 1}"
    raise InputError(f"unknown target {label!r}; the model has {known}; or use 'predicted' or 'truth'")


def output_names(wrapped: Wrapped, outputs: int) -> tuple[Any, ...] | None:
    """Return the names of the outputs; None where there is only one."""
    if outputs == 1:
        return None
    if wrapped.classes is not None and len(wrapped.classes) != outputs:
        raise InputError(f"the model has {outputs} outputs but {len(wrapped.classes)} class names; give one for each")
    return wrapped.classes if wrapped.classes is not None else tuple(range(outputs))
