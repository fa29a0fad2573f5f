"""The public edge: one call from a model and its inputs to discoveries with a guarantee."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from butfor._arguments import check_aligned, checked, model_name
from butfor._edge import default_batch_rows, dressing, name_row
from butfor._modality import Modality, modality
from butfor._progress import Progress
from butfor._run import Setting, run
from butfor.core.draws import Problem, table_problem
from butfor.core.quick_check import quick_check
from butfor.core.result import Result
from butfor.core.types import Alternative, Family, Subset, Test
from butfor.models import wrap
from butfor.tabular.splice import Checked, meet
from butfor.tabular.subsets import column_subsets
from butfor.tabular.table import Table


def explain(
    model: Any,
    X: Any,
    sampler: Any,
    *,
    subsets: Any = None,
    test: Test | None = None,
    alternative: Alternative | None = None,
    rule: str | None = None,
    family: Family = "run",
    target: Any = None,
    y: Any = None,
    link: Literal["logit", "log"] | None = None,
    alpha: float = 0.1,
    draws: int | None = None,
    center: int | None = None,
    h: int = 10,
    early_stop: bool = False,
    delta: float = 0.01,
    scale: Literal["shrunk"] | None = None,
    picked: Callable[[Any], Any] | None = None,
    seed: int = 0,
    batch_rows: int | None = None,
    run_dir: str | Path | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
    keep_effects: bool | None = None,
) -> Result:
    """Which features of each row of `X` matter to the model: those whose output would be surprising but for them.

    `sampler` redraws features as they look when there is nothing to report: one of `butfor.tabular`, any callable
    `(inputs, subset, draws, rng) -> rows`, or reference data (then `butfor.tabular.auto` chooses one that fits it). If
    `X` comes from the very population of the reference, nothing is there to be found. Frames may hold numbers,
    booleans, categories, text, times and missing values; the model sees the types, names and labels you gave. A list
    (or mapping) of images or of texts goes to `butfor.image.explain` (`subsets` are its boxes) or `butfor.text.explain`
    (its units), with their defaults.

    `test` is "sequential" (what None is for tables; draws until each hypothesis is decided: `h` exceedances, a
    rejection, or `draws` at the most; Ctrl-C returns what is decided so far), "irt" (a p-value from `draws`
    counterfactuals each; `early_stop` gives the same answer for fewer rows, wrong with probability `delta` at most),
    "few-shot" (a few counterfactuals, for expensive samplers; `scale="shrunk"` where subsets differ in scale) or "osft"
    (one counterfactual).

    `alternative` None is "greater" for the predicted class of a classifier, else "two-sided"; `center` counts the pilot
    draws whose mean is the centre of a two-sided statistic. `target` is an output's index or label, "predicted" (the
    default where there are several), "truth" (with `y`), or "observed-class" (the paper's way, for comparison only).
    `picked` is the rule, outputs -> booleans, by which the inputs were picked, if their outputs had a say. Effects come
    from fresh draws for the chosen hypotheses; `keep_effects=False` saves those rows.

    `run_dir` is a folder that keeps the model's answers until the run is done: after a crash, a kill or an endpoint
    that went away, the same call goes on from there. The same seed gives the same result whatever `batch_rows` is. The
    result's `guarantee` says what is promised.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> reference, patients = rng.normal(size=(500, 4)), rng.normal([3, 0, 0, 0], 1, size=(20, 4))
    >>> from butfor.tabular import gaussian
    >>> result = explain(lambda rows: rows[:, 0] + rows[:, 1], patients, gaussian(reference))
    >>> result.table[result.chosen].subset.unique().tolist()
    ['x0']
    """
    settings: dict[str, Any] = {
        "test": test,
        "alternative": alternative,
        "rule": rule,
        "family": family,
        "link": link,
        "alpha": alpha,
        "draws": draws,
        "center": center,
        "h": h,
        "early_stop": early_stop,
        "delta": delta,
        "scale": scale,
        "picked": picked,
        "seed": seed,
        "batch_rows": batch_rows,
    }
    around: dict[str, Any] = {"target": target, "y": y, "progress": progress, "run_dir": run_dir}
    kind = modality(X)
    if kind != "table":
        effects = {} if keep_effects is None else {"keep_effects": keep_effects}
        return _elsewhere(kind, model, X, sampler, subsets, settings | around | effects)
    asked = checked(**settings | {"test": test or "sequential"})
    check_aligned(y, X)
    table, fitted = meet(X, sampler)
    groups = column_subsets(table, subsets)
    problem = table_problem(table.values, table.index, groups, fitted, asked.seed)
    setting = Setting(
        problem=problem,
        wrapped=wrap(model),
        model_name=model_name(model),
        batch_rows=default_batch_rows(table),
        describe=partial(name_row, table),
        show=table.show,
        look=partial(_look, problem, table, groups),
        facts=table.facts(),
        dress=dressing(table),
    )
    return run(setting, asked, keep_effects=keep_effects is not False, **around)


def _elsewhere(kind: Modality, model: Any, inputs: Any, sampler: Any, subsets: Any, settings: dict[str, Any]) -> Result:
    """Images and texts: the same call at their own edge, with the defaults that suit them."""
    if kind == "image":
        from butfor import image

        return image.explain(model, inputs, sampler, boxes=subsets, **settings)
    from butfor import text

    if settings["alternative"] is None:
        settings = {name: value for name, value in settings.items() if name != "alternative"}  # texts are two-sided
    return text.explain(model, inputs, sampler, units="word" if subsets is None else subsets, **settings)


def _look(problem: Problem, table: Table, groups: Sequence[Subset]) -> list[str]:
    """What looks wrong about the sampler on a quick look at its draws, and what it says of itself."""
    notes = quick_check(problem)
    sampler = problem.sampler.sampler if isinstance(problem.sampler, Checked) else problem.sampler
    if hasattr(sampler, "notes"):
        notes += sampler.notes(table.show(table.values), groups, problem.seed)
    return notes
