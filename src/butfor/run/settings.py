"""Settings: what a run is asked for, checked once; the one list of keywords for tables, images, texts and the shell."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from difflib import get_close_matches
from functools import wraps
from os import PathLike
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, cast, get_args

import numpy as np

from butfor.core.checks import between, labels_of, one_of, whole
from butfor.core.select.guarantees import DEFAULT_RULE, check_alpha, check_rule
from butfor.core.types import Alternative, Family, InputError
from butfor.run.procedure import Procedure, procedure
from butfor.run.progress import Progress
from butfor.run.proposed import OnError, labels_left

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
