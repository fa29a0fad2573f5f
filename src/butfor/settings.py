"""Settings: what a run is asked for and how it is done, checked once; the same for every modality and the shell."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import numpy as np

from butfor.inference.guarantees import DEFAULT_RULE, check_alpha, check_rule
from butfor.types import Alternative, Family, InputError, between, labels_of, one_of, whole

if TYPE_CHECKING:
    from butfor.evaluation.progress import Progress

TestName = Literal["sequential", "irt", "osft", "few-shot"]
RuleName = Literal["adaptive", "adaptive-strict", "bh", "by", "holm", "bonferroni", "e-bh", "knockoff+", "seqstep"]
Link = Literal["logit", "log"]
EffectsOf = Literal["all", "chosen"]
OnError = Literal["raise", "skip"]
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

    def __post_init__(self) -> None:
        for name, least in (("draws", 2 if self.name == "few-shot" else 1), ("center", 1), ("h", 1)):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, whole(name, value, least))

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

    Returns
    -------
    Procedure
        For `test=`.

    Examples
    --------
    >>> irt(99, early_stop=True).delta
    0.01
    """
    delta = 0.0 if delta == 0 else between("delta", delta, "0.01 is the default; or give 0, which always agrees")
    return Procedure("irt", draws, center, early_stop=bool(early_stop), delta=delta)


def sequential(h: int = 10, *, draws: int | None = None, center: int | None = None) -> Procedure:
    """Draw until each hypothesis is decided, with p-values that are valid at any time (METHODS 2).

    Parameters
    ----------
    h : exceedances at which a hypothesis is given up; 20 comes closest to many fixed draws.
    draws : the most counterfactuals of one hypothesis; None is what a lone signal needs, to 100,000.
    center : pilot draws whose mean is the centre of a two-sided statistic; None is 16.

    Returns
    -------
    Procedure
        For `test=`.

    Examples
    --------
    >>> sequential(h=20).name
    'sequential'
    """
    return Procedure("sequential", draws, center, h)


def few_shot(draws: int | None = None, *, scale: Literal["shrunk"] | None = None) -> Procedure:
    """The observed value against a few decoys, for samplers that cost a second a draw (METHODS 4).

    Parameters
    ----------
    draws : decoys per hypothesis; None is 1 / alpha, at least 3.
    scale : "shrunk" where subsets differ much in scale.

    Returns
    -------
    Procedure
        For `test=`.

    Examples
    --------
    >>> few_shot(5).draws
    5
    """
    one_of("scale", scale, (None, "shrunk"))
    return Procedure("few-shot", draws, scale=scale)


def osft(*, center: int | None = None) -> Procedure:
    """The paper's one-shot feature test: a single counterfactual each (METHODS 1).

    Parameters
    ----------
    center : pilot draws whose mean is the centre of a two-sided statistic; None is 1, as in the paper.

    Returns
    -------
    Procedure
        For `test=`.

    Examples
    --------
    >>> osft().draws
    1
    """
    return Procedure("osft", draws=1, center=center)


BY_NAME: dict[str, Callable[[], Procedure]] = {"irt": irt, "sequential": sequential, "few-shot": few_shot, "osft": osft}


def procedure(test: object, draws: object = None) -> Procedure:
    """A test by its name or as it is, with the draws that were asked for beside it."""
    if isinstance(test, Procedure):
        made = test
    else:
        if test in BY_NAME.values():
            raise InputError(
                "test is a function of butfor; call it: test=butfor.irt(), sequential(), few_shot(), osft()"
            )
        name = test.replace("_", "-") if isinstance(test, str) else test
        one_of("test", name, get_args(TestName))
        made = BY_NAME[str(name)]()
    if draws is None:
        return made
    if made.name == "osft":
        if whole("draws", draws, 1) != 1:
            raise InputError(
                f"test='osft' takes one draw, got draws={draws!r}; use test='few-shot' or 'sequential' for more"
            )
        return made
    wanted = replace(made, draws=draws)  # type: ignore[arg-type]  # refuses what is no number of draws
    if made.draws not in (None, wanted.draws):
        raise InputError(f"draws={wanted.draws} but the test has draws={made.draws}; give it once")
    return wanted


FEW_INPUTS, MANY_SUBSETS = 10, 20


def too_few_inputs(inputs: int, hypotheses: int) -> bool:
    """Return True where few-shot promises nothing: labels of one input are tied, and no others outweigh them.

    So with fewer than 10 inputs, or fewer than 20 with more than 20 subsets each: with every null true 10 inputs of 50
    and 150 subsets had a false discovery in .21 and .27 of runs at alpha .1, 20 of 50 in .15, 12 of 9 in .15.

    >>> too_few_inputs(9, 9), too_few_inputs(10, 90), too_few_inputs(10, 500), too_few_inputs(20, 1000)
    (True, False, True, False)
    """
    return inputs < FEW_INPUTS or (inputs < 2 * FEW_INPUTS and hypotheses > MANY_SUBSETS * inputs)


def default_test(inputs: int, family: str, dear: bool, subsets: int = 1) -> Procedure:
    """Return the test of a run that names none; it never depends on the clock or the machine.

    Samplers of which a draw costs much get few-shot, or h = 1 where few-shot promises nothing: few inputs with so many
    `subsets` each, or a family for each of them.

    >>> default_test(40, "run", dear=True).name, default_test(3, "run", dear=True).h, default_test(3, "run", False).h
    ('few-shot', 1, 10)
    """
    if not dear:
        return sequential()
    return sequential(h=1) if too_few_inputs(inputs, inputs * subsets) or family == "input" else few_shot()


@dataclass(frozen=True)
class RunOptions:
    """How a run is done; none of it changes the result.

    Parameters
    ----------
    workers : int, str or dask Client, default 1
        Processes on this machine ("threads:2" for threads: the model need not be pickled then, and must let others
        run while it computes), a dask Client, or the address of its scheduler, "tcp://host:8786".
    run_dir : str or path-like, optional
        A folder that keeps finished work until the run ends: after a crash, a kill or an endpoint that went away the
        same call goes on from there. Another run in the same folder is refused.
    progress : bool or callable, optional
        True for a bar on standard error, or a function that is called with a `butfor.Progress`.
    batch_rows : int, optional
        The most inputs that the model is given at a time.
    timeout : float, optional
        Seconds that one call of the model or the sampler may take; after that it has failed.
    on_error : {"raise", "skip"}, default "raise"
        "skip" goes on where the model or the sampler fails, after trying again: what it failed on is not tested, is
        never chosen, counts as p = 1 in its family, and is named in the notes. Images and texts that cannot be used at
        all are left out.
    """

    workers: Any = 1
    run_dir: str | PathLike[str] | None = None
    progress: bool | Callable[[Progress], None] | None = None
    batch_rows: int | None = None
    timeout: float | None = None
    on_error: OnError = "raise"

    def __post_init__(self) -> None:
        one_of("on_error", self.on_error, get_args(OnError))
        number = isinstance(self.timeout, int | float) and not isinstance(self.timeout, bool)
        if self.timeout is not None and not (number and 0 < self.timeout <= LONGEST_TIMEOUT):
            raise InputError(
                f"timeout must be a number of seconds above 0 and at most {LONGEST_TIMEOUT:,}, got {self.timeout!r}; "
                "None sets no limit"
            )
        if self.run_dir is not None and not isinstance(self.run_dir, str | PathLike):
            raise InputError(f"run_dir must be the path of a folder, got {self.run_dir!r}; None keeps nothing")
        if self.batch_rows is not None:
            object.__setattr__(self, "batch_rows", whole("batch_rows", self.batch_rows, 1))


LONGEST_TIMEOUT = 10**9  # seconds: a clock cannot count many more


@dataclass(frozen=True, eq=False)
class Settings:
    """Settings of a run: what is asked.

    Parameters
    ----------
    test : str or test object, optional
        "sequential" (draws until each hypothesis is decided), "irt" (a p-value from a fixed number of draws),
        "few-shot" (a few draws, for expensive samplers), "osft" (one draw), or a test with options of its own:
        `butfor.sequential(h=10)`, `irt(draws=1000, early_stop=False)`, `few_shot(scale=None)`, `osft()`. None is
        "sequential" for tables and texts, "few-shot" for images and other samplers of which a draw costs much.
    alternative : {"greater", "less", "two-sided"}, optional
        None is "greater" for the predicted class of a classifier, else "two-sided".
    rule : str, optional
        How hypotheses are chosen from the evidence: "adaptive" (weights learned across inputs; the default with
        reference data), "adaptive-strict" (the same with a proof, for 200 inputs and more), "bh", "by", "holm",
        "bonferroni", "e-bh"; None fits the test.
    family : {"run", "input"}, default "run"
        "run" promises alpha over all hypotheses of the run, "input" over those of each single input.
    groups : array-like or mapping, optional
        Clusters of inputs that may depend on each other (several rows of one person): a label for each input.
    reference_groups : array-like, optional
        Clusters of rows of the reference (several rows of one person): a label for each row. They count as one row
        where the sampler is fitted, checked and where its error is estimated.
    weights_by : array-like or callable, optional
        What "adaptive" learns weights over: a label for each hypothesis, or a function (input, subset) -> label. None
        is the subset.
    target : int, str or label, optional
        The output that is tested: its index or label, "predicted" (the default where there are several), "truth" (with
        `y`), or "observed-class" (the paper's way, for comparison only).
    y : array-like, optional
        The true labels, for `target="truth"`.
    link : {"logit", "log"}, optional
        The scale of the test and of effects.
    alpha : float, default 0.1
        The error rate that is promised.
    decide : callable or False, optional
        The decision that the but-for test is about: a function outputs -> one decision each, such as
        `lambda outputs: outputs >= 0.4`. None is the predicted class where there are several outputs; False asks none.
    level : float, default 0.5
        A subset is necessary to a decision where the probability that the decision would have been otherwise but for
        it surely exceeds this. At most a share alpha of these statements is wrong on average, over the
        run, and within each resolution where there are several.
    simultaneous : bool, default False
        Make the 95 % intervals of the probabilities of a decision hold all together within a resolution, and with them
        all that is called necessary or sufficient; they are wider then. Otherwise each holds by itself.
    enough : float or None, default 0.9
        Look for the fewest parts of each input that keep its decision with a probability above this while all the rest
        is redrawn to go with them (`result.enough()`); None, the default for images and texts, does not.
    sufficient : bool, default False
        Also estimate, for every subset, how often the decision stays when all the rest is redrawn (tables).
    min_effect : float, optional
        The least change of the output that counts, on the scale of the test: for what moves it and, where draws are
        counted (`sequential`, `irt`), for what is unusual. None: 0.05 of a probability, a tenth of the spread of a
        score, and any change for what is unusual.
    draws : int, optional
        Counterfactuals per hypothesis; for the sequential test the most of them. None fits the test.
    bounds : bool, default False
        Go on drawing for what a sequential run has chosen, so that `result.bound` can say more of it.
    exact : bool, default True
        With an ensemble of trees and a sampler whose distribution is known, compute p-values from the trees themselves,
        without drawing, where no `test` is named; False draws.
    control : bool, default True
        Put rows of the reference through the same test, as a check of the sampler; False saves that.
    picked : callable, optional
        The rule, outputs -> booleans, by which the inputs were picked, if their outputs had a say.
    effects : {"all", "chosen"} or None, default "all"
        "all" gives an effect for every hypothesis, from fresh draws for what was chosen; "chosen" gives those alone,
        None saves their evaluations.
    seed : int, default 0
        The same seed gives the same result, whatever the run options are.
    rng : numpy Generator, SeedSequence or int, optional
        In place of `seed` (SPEC 7 of Scientific Python).
    options : RunOptions, optional
        How the run is done. Its fields are also taken directly, and then win.
    """

    test: Procedure
    alternative: Alternative | None = None
    rule: str = "bh"
    family: Family = "run"
    groups: Any = None
    reference_groups: Any = None
    weights_by: Any = None
    target: Any = None
    y: Any = None
    link: Link | None = None
    alpha: float = 0.1
    decide: Callable[[Any], Any] | Literal[False] | None = None
    level: float = 0.5
    simultaneous: bool = False
    enough: float | None = 0.9
    sufficient: bool = False
    min_effect: float | None = None
    draws: int | None = None
    bounds: bool = False
    exact: bool = True
    control: bool = True
    picked: Callable[[Any], Any] | None = None
    effects: EffectsOf | None = "all"
    seed: int = 0
    options: RunOptions = field(default_factory=RunOptions)

    @classmethod
    def of(cls, given: Mapping[str, Any], **defaults: object) -> Settings:
        """Check the keywords of a public function, `Settings.of(locals())`; names that are not settings are ignored.

        `defaults` are used where None was given.
        """
        values = {name: given[name] for name in NAMES if name in given}
        values |= {  # None is a choice for effects
            name: value
            for name, value in defaults.items()
            if values.get(name) is None and not (name == "effects" and name in values)
        }
        options = values.pop("options", None) or RunOptions()
        if not isinstance(options, RunOptions):
            raise InputError(f"options must be butfor.RunOptions(...), got {options!r}")
        direct = {name: values.pop(name) for name in RUN_NAMES if name in values}
        values["options"] = replace(options, **{name: value for name, value in direct.items() if value is not None})
        values["seed"] = _seed(values.pop("rng", None), values.get("seed", 0))
        test = procedure("sequential" if values.get("test") is None else values["test"], values.get("draws"))
        rule = DEFAULT_RULE[test.name] if values.get("rule") is None else values["rule"]
        settings = cls(**{**values, "test": test, "rule": rule, "draws": test.draws})
        settings._check()
        return replace(settings, alpha=check_alpha(settings.alpha))

    def _check(self) -> None:
        one_of("alternative", self.alternative, (None, *get_args(Alternative)))
        one_of("family", self.family, get_args(Family))
        one_of("link", self.link, (None, *get_args(Link)))
        one_of("effects", self.effects, (None, *get_args(EffectsOf)))
        check_alpha(self.alpha)
        check_rule(self.test.name, self.rule)
        if self.test.early_stop and self.rule == "e-bh":
            raise InputError("early_stop is for p-values, not for rule='e-bh'; drop it")
        if self.test.early_stop and self.picked is not None:
            raise InputError("early_stop does not go with picked; use test='sequential' with picked")
        picked: object = self.picked  # anything may have been given
        if picked is not None and not callable(picked):
            kind = type(picked).__name__
            raise InputError(f"picked must be a function of outputs that returns booleans, got {kind}")
        if self.decide not in (None, False) and not callable(self.decide):
            raise InputError(f"decide must be a function of outputs that returns decisions, got {self.decide!r}")
        for name in ("bounds", "exact", "control", "simultaneous", "sufficient"):
            value = getattr(self, name)
            if not isinstance(value, bool | np.bool_):
                raise InputError(f"{name} must be True or False, got {value!r}")
        number = isinstance(self.min_effect, int | float | np.number) and not isinstance(self.min_effect, bool)
        if self.min_effect is not None and not (number and 0 <= float(self.min_effect) < np.inf):
            raise InputError(f"min_effect must be a number of at least 0, got {self.min_effect!r}")
        if self.groups is not None and not isinstance(self.groups, Mapping):
            labels_of("groups", self.groups, "input")
        if self.reference_groups is not None:
            labels_of("reference_groups", self.reference_groups, "row of the reference")
        between("level", self.level, "0.5, more likely than not, is the default")
        if self.enough is not None:
            between("enough", self.enough, "0.9 is the default, None does not look for what is enough")

    @property
    def margin(self) -> float:
        """By how much observed values are shifted towards their draws; valid only where draws are counted."""
        counted = self.test.name in ("sequential", "irt") and not self.test.early_stop and self.rule != "e-bh"
        return float(self.min_effect or 0.0) if counted else 0.0

    def draws_for(self, hypotheses: int) -> int:
        """Return the draws per hypothesis; for the sequential test the most it may take."""
        return self.test.draws_for(hypotheses, self.rule, self.alpha)

    def for_inputs(self, given: Sequence[Any], kept: Sequence[Any]) -> Settings:
        """Return the settings of a run on the inputs named `kept`, of those `given`: labels and groups follow."""

        def labels(values: Any) -> Any:
            if values is None or np.ndim(values) != 1 or len(values) != len(given):
                return values  # an error where they are used
            return [label for label, name in zip(values, given, strict=True) if name in kept_names]

        kept_names = set(kept)
        return replace(self, y=labels(self.y), groups=labels(self.groups))


RUN_NAMES = tuple(field.name for field in fields(RunOptions))
NAMES = (*(field.name for field in fields(Settings)), "rng", *RUN_NAMES)


def _seed(rng: object, seed: object) -> int:
    """Return one whole number from which all streams come; a Generator or SeedSequence gives one (SPEC 7)."""
    if rng is None:
        return whole("seed", seed, 0)
    if seed != 0:
        raise InputError(f"got seed={seed!r} and rng={rng!r}; give one of them")
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**63))
    if isinstance(rng, np.random.SeedSequence):
        return int(rng.generate_state(1, np.uint64)[0])
    if isinstance(rng, int | np.integer):
        return whole("rng", rng, 0)
    raise InputError(f"rng must be a NumPy Generator, a SeedSequence or a whole number, got {rng!r}")


EXPLAINED = {  # the Parameters of Settings and RunOptions, one by one
    entry.split(" : ")[0]: entry
    for kind in (Settings, RunOptions)
    for entry in re.split(r"\n(?=\w+ : )", inspect.cleandoc(kind.__doc__ or "").split("----------\n")[1])
}
Function = TypeVar("Function", bound=Callable[..., Any])


def documented(function: Function) -> Function:
    """Put the Parameters of the settings that a function takes in place of `{settings}` in its docstring.

    The signature stays as it is written; what the docstring explains itself is not repeated.
    """
    doc = inspect.cleandoc(function.__doc__ or "")
    names = [name for name in inspect.signature(function).parameters if name in EXPLAINED]
    entries = [EXPLAINED[name] for name in names if f"\n{name} : " not in doc]
    function.__doc__ = doc.replace("{settings}", "\n".join(entries))
    return function
