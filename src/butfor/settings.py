"""Settings: what a run is asked for, checked once; the one list of keywords for tables, images, texts and the shell."""

from __future__ import annotations

import inspect
import math
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields, replace
from difflib import get_close_matches
from functools import wraps
from os import PathLike
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, cast, get_args

import numpy as np

from butfor.evaluation.workers import WorkerState
from butfor.inference.guarantees import DEFAULT_RULE, check_alpha, check_rule
from butfor.inference.outputs import Target
from butfor.models import Wrapped
from butfor.run.proposed import OnError, labels_left
from butfor.types import Alternative, Bools, Family, Floats, InputError, Ints, between, labels_of, one_of, whole

TestName = Literal["sequential", "irt", "osft", "few-shot"]
MOST_SEQUENTIAL = 100_000  # draws of a hypothesis that stays open


@dataclass(frozen=True)
class Procedure:
    """A test and its own options. Made by `butfor.irt`, `sequential`, `few_shot` and `osft`, or from their names."""

    name: TestName
    draws: int | None = None  # None: as many as the test takes by default
    center: int | None = None  # pilot draws of a two-sided statistic; None: as many as suit the test
    h: int = 10
    early_stop: bool = False
    delta: float = 0.01
    scale: Literal["shrunk"] | None = None

    def draws_for(self, hypotheses: int, rule: str, alpha: float) -> int:
        """Draws per hypothesis; for the sequential test the most it may take."""
        if self.draws is not None:
            return self.draws
        if self.name == "sequential":  # what a lone signal needs, within reason
            harmonic = sum(1 / i for i in range(1, hypotheses + 1)) if rule == "by" else 1.0
            return min(max(1000, math.ceil(self.h * hypotheses * harmonic / alpha)), MOST_SEQUENTIAL)
        if self.name == "few-shot":
            return max(3, round(1 / alpha))
        return {"osft": 1, "irt": 200 if rule == "e-bh" else 1000}[self.name]

    def center_for(self, alternative: str, predicted: bool) -> int:
        """Pilot draws whose mean is the centre of the statistic; 0 where it has none."""
        if alternative != "two-sided" and self.center is not None:
            raise InputError(f"center is for two-sided tests, this one is {alternative!r}; drop it")
        if self.name == "few-shot":
            return 0  # it centres on the mean of its own values
        needed = alternative == "two-sided" or (self.name in ("sequential", "irt") and predicted)
        default = 1 if self.name == "osft" else 16  # 1 is the paper's
        return (default if self.center is None else self.center) if needed else 0


def irt(
    draws: int | None = None, *, early_stop: bool = False, delta: float = 0.01, center: int | None = None
) -> Procedure:
    """The paper's interpretability randomisation test: a p-value from a fixed number of counterfactuals (METHODS 1).

    Parameters
    ----------
    draws : counterfactuals per hypothesis; None is 1,000 (200 for e-values).
    early_stop : the same answer for a fraction of the rows (METHODS 3).
    delta : with early_stop, the probability that the answer is another; 0 always agrees.
    center : pilot draws whose mean is the centre of a two-sided statistic; None is 16, the paper has 1.

    Examples
    --------
    >>> irt(99, early_stop=True).delta
    0.01
    """
    return Procedure(
        "irt",
        draws=None if draws is None else whole("draws", draws, 1),
        center=None if center is None else whole("center", center, 1),
        early_stop=bool(early_stop),
        delta=0.0 if delta == 0 else between("delta", delta, "0.01 is the default; or give 0, which always agrees"),
    )


def sequential(h: int = 10, *, draws: int | None = None, center: int | None = None) -> Procedure:
    """Draw until each hypothesis is decided, with p-values that are valid at any time (METHODS 2).

    Parameters
    ----------
    h : exceedances at which a hypothesis is given up; 20 comes closest to many fixed draws.
    draws : the most counterfactuals of one hypothesis; None is what a lone signal needs, to 100,000.
    center : pilot draws whose mean is the centre of a two-sided statistic; None is 16.

    Examples
    --------
    >>> sequential(h=20).name
    'sequential'
    """
    return Procedure(
        "sequential",
        draws=None if draws is None else whole("draws", draws, 1),
        center=None if center is None else whole("center", center, 1),
        h=whole("h", h, 1),
    )


def few_shot(draws: int | None = None, *, scale: Literal["shrunk"] | None = None) -> Procedure:
    """The observed value against a few decoys, for samplers that cost a second a draw (METHODS 4).

    Parameters
    ----------
    draws : decoys per hypothesis; None is 1 / alpha, at least 3.
    scale : "shrunk" where subsets differ much in scale.

    Examples
    --------
    >>> few_shot(5).draws
    5
    """
    one_of("scale", scale, (None, "shrunk"))
    return Procedure("few-shot", draws=None if draws is None else whole("draws", draws, 2), scale=scale)


def osft(*, center: int | None = None) -> Procedure:
    """The paper's one-shot feature test: a single counterfactual each (METHODS 1).

    Parameters
    ----------
    center : pilot draws whose mean is the centre of a two-sided statistic; None is 1, as in the paper.

    Examples
    --------
    >>> osft().draws
    1
    """
    return Procedure("osft", draws=1, center=None if center is None else whole("center", center, 1))


BY_NAME: dict[str, Callable[[], Procedure]] = {
    "irt": irt,
    "sequential": sequential,
    "few-shot": few_shot,
    "osft": osft,
}


def procedure(test: object, draws: object = None) -> Procedure:
    """A test by its name or as it is, with the draws that were asked for beside it."""
    if not isinstance(test, Procedure):
        if test in (irt, sequential, few_shot, osft):
            raise InputError(
                "test is a function of butfor; call it: test=butfor.irt(), sequential(), few_shot(), osft()"
            )
        name = test.replace("_", "-") if isinstance(test, str) else test
        one_of("test", name, get_args(TestName))
        made = BY_NAME[str(name)]()
    else:
        made = test
    if draws is None:
        return made
    if made.name == "osft":
        if whole("draws", draws, 1) != 1:
            raise InputError(
                f"test='osft' takes one draw, got draws={draws!r}; use test='few-shot' or 'sequential' for more"
            )
        return made
    count = whole("draws", draws, 2 if made.name == "few-shot" else 1)
    if isinstance(test, Procedure) and test.draws not in (None, count):
        raise InputError(f"draws={count} but the test has draws={test.draws}; give it once")
    return replace(made, draws=count)


@dataclass(frozen=True)
class Progress:
    """One report: the stage, model rows (of the stage "report": files) done of how many, and how many are chosen so far
    (None: not known).

    Of a sequential test nobody knows how many rows there will be: `left` is an estimate, made anew after every round.
    """

    stage: str
    rows: int
    total: int | None
    chosen: int | None = None
    chosen_rows: Bools | None = field(default=None, compare=False)  # (H,) which, where the test says so as it goes
    seconds: float = field(default=0.0, compare=False)  # since the stage began
    left: int | None = field(default=None, compare=False)  # about how many rows more, where there is no total
    workers: tuple[WorkerState, ...] = field(default=(), compare=False)  # of those that have done something

    @property
    def rows_per_second(self) -> float | None:
        """Over the stage so far; None at its very beginning."""
        return self.rows / self.seconds if self.seconds > 0 else None


Report = Callable[[Progress], None]


def silent(_: Progress) -> None:
    """Tell nobody."""


@contextmanager
def reporting(progress: bool | Report | None) -> Iterator[Report]:
    """The callback to call: the user's own, a bar for True, nothing for None or False."""
    if callable(progress):
        yield progress
    elif progress:
        with bar() as report:
            yield report
    else:
        yield silent


@contextmanager
def bar() -> Iterator[Report]:
    """A rich progress bar on standard error: rows, rate, time left, discoveries."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[what]}  {task.fields[rate]}  {task.fields[found]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(file=sys.stderr), transient=True) as bars:
        tasks: dict[str, int] = {}

        def report(now: Progress) -> None:
            if now.stage not in tasks:
                what = "files" if now.stage == "report" else "rows"
                tasks[now.stage] = bars.add_task(now.stage, total=now.total, what=what, rate="", found="")
            task = next(task for task in bars.tasks if task.id == tasks[now.stage])
            rate = f"{task.speed:,.0f}/s" if task.speed else ""
            found = "" if now.chosen is None else f"{now.chosen} chosen"
            if now.workers:
                found += f"  {len(now.workers)} workers"
            total = now.rows + now.left if now.total is None and now.left is not None else now.total
            bars.update(task.id, completed=now.rows, total=total, rate=rate, found=found)

        yield report


class Meter:
    """Counts the model's rows over a run and tells the user's callback how far it is."""

    def __init__(self, report: Report, rows: int, workers: Callable[[], tuple[WorkerState, ...]] = tuple) -> None:
        self.rows, self.asked = rows, rows
        self._report, self._workers = report, workers
        self._began, self._left = time.monotonic(), None  # type: tuple[float, int | None]
        self._chosen_rows: Bools | None = None
        self._stage, self._total, self._done, self._chosen = "first look", None, 0, None  # type: tuple[str, int | None, int, int | None]

    def stage(self, name: str, total: int | None) -> None:
        """What follows is another stage, of `total` rows where that is known."""
        self._stage, self._total, self._done = name, total, 0
        self._began, self._left = time.monotonic(), None
        if name != "effects":  # of the same hypotheses as the test before it; others may be of other ones
            self._chosen_rows = None

    def count_requested(self, rows: int) -> None:
        """So many rows more are asked for, evaluated or remembered."""
        self.asked += rows

    def count_deduplicated(self, rows: int) -> None:
        """So many rows more are done without being evaluated: others are equal to them."""
        self._done += rows

    def count_evaluated(self, rows: int) -> None:
        """So many rows more are done."""
        self.rows += rows
        self._done += rows
        self._left = None if self._left is None else self._left - rows
        if self._report is not silent:
            now = Progress(self._stage, self._done, self._total, self._chosen, self._chosen_rows)
            seconds, left = time.monotonic() - self._began, None if self._left is None else max(self._left, 0)
            self._report(replace(now, seconds=seconds, left=left, workers=self._workers()))

    def set_left(self, rows: int) -> None:
        """About so many rows are left of this stage."""
        self._left = rows

    def set_chosen(self, chosen: int) -> None:
        """So many are chosen by now."""
        self._chosen = chosen

    def set_chosen_rows(self, chosen: Bools) -> None:
        """These are chosen by now (H,)."""
        self._chosen, self._chosen_rows = int(chosen.sum()), chosen


Link = Literal["logit", "log"]
EffectsOf = Literal["all", "chosen"]
LONGEST = 10**9  # seconds that can be waited for: a clock cannot count many more
HINTS = {  # keywords of former versions, of one test and of another modality, and what to use in their place
    "h": "test=butfor.sequential(h=...)",
    "early_stop": "test=butfor.irt(early_stop=True)",
    "delta": "test=butfor.irt(early_stop=True, delta=...)",
    "scale": "test=butfor.few_shot(scale=...)",
    "center": "test=butfor.irt(center=...), sequential or osft",
    "keep_effects": "effects='chosen' in place of True, effects=None in place of False",
    "boxes": "subsets=, or boxes= of butfor.image.explain",
    "units": "subsets=, or units= of butfor.text.explain",
    "subsets": "boxes= for images, units= for texts",
    "reference": "a sampler, which redraws regions or words",
}


@dataclass(frozen=True, eq=False)
class Settings:
    """What the user asked for.

    Parameters
    ----------
    test : "sequential" (draws until each hypothesis is decided), "irt" (a p-value from a fixed number of draws),
        "few-shot" (a few draws, for expensive samplers), "osft" (one draw), or a test with its own options:
        `butfor.sequential(h=10)`, `irt(draws=1000, early_stop=False)`, `few_shot(scale=None)`, `osft()`. None is
        what suits the inputs: "sequential" for tables.
    alternative : "greater", "less" or "two-sided"; None is "greater" for the predicted class of a classifier, else
        two-sided.
    rule : how hypotheses are chosen from the evidence: "adaptive" (weights learned across inputs; the default with
        reference data), "adaptive-strict" (the same with a proof, for 200 inputs and more), "bh", "by", "holm",
        "bonferroni", "e-bh"; None suits the test.
    groups : clusters of inputs that may depend on each other (several rows of one person): a label for each input.
    weights_by : what "adaptive" learns weights over: a label for each hypothesis, or a function (input, subset) ->
        label; None is the subset.
    family : "run" promises alpha over all hypotheses of the run, "input" over those of each single input.
    target : which output is tested: its index or label, "predicted" (the default where there are several), "truth"
        (with `y`), or "observed-class" (the paper's way, for comparison only).
    y : the true labels, for `target="truth"`.
    link : "logit" or "log": the scale of the test and of effects.
    alpha : the error rate that is promised.
    draws : counterfactuals per hypothesis; for the sequential test the most of them. None suits the test.
    decide : the decision that the but-for test is about: a function outputs -> one decision each, such as
        `lambda outputs: outputs >= 0.4`. None is the predicted class where there are several outputs; False asks none.
    level : a subset is necessary to a decision where this is sure to be exceeded by the probability that the decision
        would have been otherwise but for it.
    sufficient : also ask, of every subset, how often the decision stays when all the rest is redrawn (tables).
    min_effect : choose only what is established to move the output, on the scale of the test, by more than this.
    bounds : go on drawing for what a sequential run has chosen, so that `result.bound` can say more of it.
    exact : with an ensemble of trees and a sampler whose chances are known, p-values are computed from the trees
        themselves, without drawing, where no `test` is asked for; False draws.
    control : rows of the reference go through the same test, as a check of the sampler; False saves that.
    picked : the rule, outputs -> booleans, by which the inputs were picked, if their outputs had a say.
    effects : "all" gives an effect for every hypothesis, for what was chosen from fresh draws; "chosen" gives those
        alone, None saves their rows.
    seed : the same seed gives the same result, whatever `batch_rows` is.
    batch_rows : inputs that the model is given at a time.
    workers : 1; a number of workers on this machine (threads or processes, whichever is measured to be faster;
        "threads:2" and "processes:2" say which); a dask Client, or the address of its scheduler, "tcp://host:8786".
        The result is the same.
    run_dir : a folder that keeps what is done until the run is: after a crash, a kill or an endpoint that went away the
        same call goes on from there. Another run in the same folder is refused.
    progress : True for a bar on standard error, or a function that is called with a `butfor.Progress`.
    on_error : "skip" goes on where the model or the sampler fails, after asking again: what it failed on is not tested,
        is never chosen, counts as p = 1 in its family, and is told in the notes. Images and texts that cannot be used
        at all are left out.
    timeout : seconds that one call of the model or the sampler may take; after that it has failed.
    """

    test: Procedure
    alternative: Alternative | None = None
    rule: str = "bh"
    groups: Any = None
    weights_by: Any = None
    family: Family = "run"
    target: Any = None
    y: Any = None
    link: Link | None = None
    alpha: float = 0.1
    draws: int | None = None
    decide: Callable[[Any], Any] | Literal[False] | None = None
    level: float = 0.5
    sufficient: bool = False
    min_effect: float | None = None
    bounds: bool = False
    exact: bool = True
    control: bool = True
    picked: Callable[[Any], Any] | None = None
    effects: EffectsOf | None = "all"
    seed: int = 0
    batch_rows: int | None = None
    workers: Any = 1
    run_dir: str | Path | None = None
    progress: bool | Callable[[Progress], None] | None = None
    on_error: OnError = "raise"
    timeout: float | None = None

    @classmethod
    def of(cls, options: Mapping[str, object], **defaults: object) -> Settings:
        """Keywords of a public function, checked, with defaults for those that were not given or are None."""
        check_names(options, NAMES)
        suited = {name: value for name, value in defaults.items() if options.get(name) is None}
        given = cast("dict[str, Any]", {**DEFAULTS, **options, **suited, "seed": _seed(options)})
        given.pop("rng", None)
        if "effects" in options:
            given["effects"] = options["effects"]  # None is a choice here
        made = procedure("sequential" if given["test"] is None else given["test"], given["draws"])
        one_of("alternative", given["alternative"], (None, *get_args(Alternative)))
        one_of("family", given["family"], get_args(Family))
        one_of("link", given["link"], (None, *get_args(Link)))
        one_of("effects", given["effects"], (None, *get_args(EffectsOf)))
        one_of("on_error", given["on_error"], get_args(OnError))
        alpha = check_alpha(given["alpha"])
        rule = DEFAULT_RULE[made.name] if given["rule"] is None else given["rule"]
        check_rule(made.name, rule)
        _check_together(made, rule, given["picked"])
        if given["decide"] not in (None, False) and not callable(given["decide"]):
            raise InputError(f"decide must be a function of outputs that returns decisions, got {given['decide']!r}")
        for name in ("bounds", "exact", "control", "sufficient"):
            if not isinstance(given[name], bool | np.bool_):
                raise InputError(f"{name} must be True or False, got {given[name]!r}")
        _check_margin(made, rule, given["min_effect"])
        if given["groups"] is not None and not isinstance(given["groups"], Mapping):
            labels_of("groups", given["groups"], "input")
        between("level", given["level"], "0.5, more likely than not, is the default")
        _check_running(given["timeout"], given["run_dir"])
        size = given["batch_rows"]
        checked = {
            "test": made,
            "rule": rule,
            "alpha": alpha,
            "draws": made.draws,
            "batch_rows": None if size is None else whole("batch_rows", size, 1),
        }
        return cls(**{**given, **checked})

    def draws_for(self, hypotheses: int) -> int:
        """Draws per hypothesis; for the sequential test the most it may take."""
        return self.test.draws_for(hypotheses, self.rule, self.alpha)


DEFAULTS: dict[str, object] = {
    field.name: None if field.default is MISSING else field.default for field in fields(Settings)
} | {"rule": None}
NAMES = (*DEFAULTS, "rng")


def of_those_left(settings: Settings, given: Sequence[Any], left: Sequence[Any]) -> Settings:
    """The settings of a run without some of the inputs that were given: labels and groups of the others, by name."""
    y, groups = (labels_left(labels, given, left) for labels in (settings.y, settings.groups))
    return replace(settings, y=y, groups=groups)


def check_names(options: Iterable[str], known: Sequence[str], function: str = "explain") -> None:
    """Refuse keywords that are not known, with what to use in their place or the nearest one."""
    for name in (name for name in options if name not in known):
        if name in HINTS:
            raise TypeError(f"{function}() takes no {name!r}; use {HINTS[name]}")
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")


def _check_together(test: Procedure, rule: str, picked: object) -> None:
    if test.early_stop and rule == "e-bh":
        raise InputError("early_stop is for p-values, not for rule='e-bh'; drop it")
    if test.early_stop and picked is not None:
        raise InputError("early_stop does not go with picked; use test='sequential' with picked")
    if picked is not None and not callable(picked):
        raise InputError(f"picked must be a function of outputs that returns booleans, got {type(picked).__name__}")


def _check_margin(test: Procedure, rule: str, margin: object) -> None:
    """A margin shifts the observed value against its draws: that is valid where those are counted, and only there."""
    if margin is None:
        return
    if isinstance(margin, bool) or not isinstance(margin, int | float | np.number) or not 0 <= float(margin) < np.inf:
        raise InputError(f"min_effect must be a number of at least 0, got {margin!r}")
    if test.name not in ("sequential", "irt") or test.early_stop or rule == "e-bh":
        raise InputError(
            "min_effect is valid with p-values from counted draws only: use test='sequential' or test='irt' without "
            "early_stop, or filter openly: result.table[result.table.effect_low > ...]"
        )


def _check_running(limit: object, run_dir: object) -> None:
    """What a run waits for and where it is kept."""
    number = isinstance(limit, int | float) and not isinstance(limit, bool)
    if limit is not None and not (number and 0 < limit <= LONGEST):  # type: ignore[operator]
        raise InputError(
            f"timeout must be a number of seconds above 0 and at most {LONGEST:,}, got {limit!r}; None sets no limit"
        )
    if run_dir is not None and not isinstance(run_dir, str | PathLike):
        raise InputError(f"run_dir must be the path of a folder, got {run_dir!r}; None keeps nothing")


def _seed(options: Mapping[str, object]) -> int:
    """One whole number from which all streams come; a Generator or SeedSequence gives one (SPEC 7)."""
    rng = options.get("rng")
    if rng is None:
        return whole("seed", options.get("seed", DEFAULTS["seed"]), 0)
    if "seed" in options:
        raise InputError(f"got seed={options['seed']!r} and rng={rng!r}; give one of them")
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**63))
    if isinstance(rng, np.random.SeedSequence):
        return int(rng.generate_state(1, np.uint64)[0])
    if isinstance(rng, int | np.integer):
        return whole("rng", rng, 0)
    raise InputError(f"rng must be a NumPy Generator, a SeedSequence or a whole number, got {rng!r}")


Given = ParamSpec("Given")
Returned = TypeVar("Returned")


def takes_settings(function: Callable[Given, Returned]) -> Callable[Given, Returned]:
    """Show the fields of Settings in the signature and the Parameters of a function that takes them as `**options`."""
    return takes(NAMES)(function)


def takes(names: Sequence[str], **defaults: object) -> Callable[[Callable[Given, Returned]], Callable[Given, Returned]]:
    """The same for some of them, with defaults of the function's own; what its Parameters explain is not repeated."""

    def decorate(function: Callable[Given, Returned]) -> Callable[Given, Returned]:
        signature, doc = inspect.signature(function), inspect.cleandoc(function.__doc__ or "")
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        every = (*(p.name for p in own), *names)
        module = function.__module__.removeprefix("butfor.").removeprefix("tabular.")
        called = module if module.endswith(function.__name__) else function.__name__  # "image.explain"

        @wraps(function)
        def shown(*args: Given.args, **options: Given.kwargs) -> Returned:
            check_names(options, every, called)
            return function(*args, **{**defaults, **options})  # type: ignore[arg-type]

        known = DEFAULTS | defaults
        more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=known.get(name)) for name in names]
        shown.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        listed = [EXPLAINED[name] for name in names if f"\n{name} : " not in doc]
        shown.__doc__ = doc.replace("**options : settings.", "\n".join(listed))
        return shown

    return decorate


EXPLAINED = {  # the Parameters of Settings, one by one
    entry.split(" : ")[0]: entry
    for entry in re.split(r"\n(?=\w+ : )", inspect.cleandoc(Settings.__doc__ or "").split("----------\n")[1])
} | {"rng": "rng : a NumPy Generator, SeedSequence or whole number in place of `seed` (SPEC 7 of Scientific Python)."}


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
    if wrapped.classes is not None and (unknown := set(labels) - set(wrapped.classes)):
        raise InputError(f"unknown target {unknown.pop()!r}; the model has labels {list(wrapped.classes[:8])}")
    return np.array([_index(label, observed.shape[1], wrapped) for label in labels])


def _index(label: object, outputs: int, wrapped: Wrapped) -> int:
    if wrapped.classes is not None and label in wrapped.classes:
        return wrapped.classes.index(label)
    if isinstance(label, int | np.integer) and not isinstance(label, bool) and 0 <= label < outputs:
        return int(label)
    known = f"labels {list(wrapped.classes[:8])}" if wrapped.classes is not None else f"outputs 0 to {outputs - 1}"
    raise InputError(f"unknown target {label!r}; the model has {known}; or use 'predicted' or 'truth'")


def output_names(wrapped: Wrapped, outputs: int) -> tuple[Any, ...] | None:
    """What the outputs are called; None where there is only one."""
    if outputs == 1:
        return None
    if wrapped.classes is not None and len(wrapped.classes) != outputs:
        raise InputError(f"the model has {outputs} outputs but {len(wrapped.classes)} class names; give one for each")
    return wrapped.classes if wrapped.classes is not None else tuple(range(outputs))
