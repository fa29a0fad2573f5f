"""The public calls that dispatch on what the inputs are: tables, images or texts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import islice
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from butfor.evaluation.progress import Progress, reporting
from butfor.models.wrap import is_series
from butfor.results.result import Result
from butfor.settings import NAMES, EffectsOf, Link, OnError, Procedure, RunOptions, documented
from butfor.tabular.explain import explain as explain_table
from butfor.types import Alternative, Family, InputError

Modality = Literal["table", "image", "text"]


@documented
def explain(
    model: object,
    X: object,
    reference: object = None,
    *,
    sampler: object = None,
    subsets: str | Sequence[Any] | Mapping[Any, Any] | None = None,
    test: str | Procedure | None = None,
    alternative: Alternative | None = None,
    rule: str | None = None,
    family: Family = "run",
    groups: ArrayLike | Mapping[Any, Hashable] | None = None,
    reference_groups: ArrayLike | None = None,
    weights_by: ArrayLike | Callable[[Any, str], Hashable] | None = None,
    target: Hashable = None,
    y: ArrayLike | None = None,
    link: Link | None = None,
    alpha: float = 0.1,
    decide: Callable[[Any], Any] | Literal[False] | None = None,
    level: float = 0.5,
    simultaneous: bool = False,
    enough: float | None = 0.9,
    sufficient: bool = False,
    min_effect: float | None = None,
    draws: int | None = None,
    bounds: bool = False,
    exact: bool = True,
    control: bool = True,
    picked: Callable[[Any], Any] | None = None,
    effects: EffectsOf | None = "all",
    seed: int = 0,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
    options: RunOptions | None = None,
    workers: object = None,
    run_dir: str | PathLike[str] | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
    batch_rows: int | None = None,
    timeout: float | None = None,
    on_error: OnError | None = None,
) -> Result:
    """Which features of each row of `X` matter to the model: those whose output would be surprising but for them.

    If `X` comes from the very population of the reference, nothing is there to be found. Frames may hold numbers,
    booleans, categories, text, times and missing values; the model sees the types, names and labels you gave. A list
    (or mapping) of images or of texts goes to `butfor.image.explain` (`subsets` are its boxes) or `butfor.text.explain`
    (its units), with their defaults. Ctrl-C in a sequential run returns what is decided so far. The result's
    `guarantee` says what is promised.

    Parameters
    ----------
    model : callable or estimator
        Any black box: a function of a batch, a scikit-learn estimator, or what `butfor.models` wraps.
    X : array-like, DataFrame, Series, or list of images or texts
        The inputs, a row each; a Series is one row.
    reference : array-like or DataFrame, optional
        What you compare against, best rows that the model was not fitted on (it is too sure of those). The sampler
        `butfor.tabular.residual` is fitted to it. A sampler may stand here, too.
    sampler : callable, optional
        Redraws features as they look when there is nothing to report, in place of a reference: one of
        `butfor.tabular`, or any callable `(inputs, subset, draws, rng) -> rows`.
    subsets : {"zoom", "columns"}, list or mapping, optional
        What to test: "zoom" (from all columns over groups that go together in the reference down to single columns: the
        default with reference data), "columns" (each by itself: the default with a sampler of your own), a list of
        columns, a mapping name -> columns, or a mapping of such mappings, your own tree.
    {settings}

    Returns
    -------
    Result
        `print(result)` says what the model relies on; `result.table`, `result.features` and `result.guarantee` have the
        rest.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> reference, patients = rng.normal(size=(500, 4)), rng.normal([3, 0, 0, 0], 1, size=(20, 4))
    >>> from butfor.tabular import gaussian
    >>> result = explain(lambda rows: rows[:, 0] + rows[:, 1], patients, gaussian(reference))
    >>> result.table[result.chosen].subset.unique().tolist()
    ['x0']
    """
    given = locals()
    if sampler is not None and reference is not None:
        raise InputError("got a sampler and a reference; give one: explain(model, X, butfor.tabular.forest(reference))")
    if sampler is None and reference is None:
        raise InputError("give reference data to draw from, or a sampler: explain(model, X, reference)")
    sampler = reference if sampler is None else sampler
    kind = modality(X)
    if kind == "table":
        return explain_table(model, X, sampler, subsets, given)
    if reference_groups is not None:
        raise InputError(f"reference_groups is for tables, these are {kind}s; drop it")
    defaults = {name: one.default for name, one in inspect.signature(explain).parameters.items()}
    named = {name: given[name] for name in NAMES if name in given and given[name] is not defaults[name]}
    if kind == "image":
        from butfor import image

        return image.explain(model, X, sampler, boxes=subsets, **named)
    from butfor import text

    return text.explain(model, X, sampler, units="word" if subsets is None else subsets, **named)


def check_sampler(
    sampler: object,
    X_held_out: object,
    model: object = None,
    *,
    subsets: str | Sequence[Any] | Mapping[Any, Any] | None = None,
    draws: int | None = None,
    alpha: float = 0.03,
    seed: int = 0,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Any:
    """Whether `sampler` redraws features as they are, judged on held-out rows of the population it was fitted on.

    Give rows of the *reference* kind that the sampler has not seen, not the rows you want to explain: those may well
    be surprising. Per subset: the rank of the real value among its draws must be uniform (Neyman's smooth test),
    extremely randomised trees must not tell real rows from counterfactuals better than chance, and with a `model` the
    rank of its output among the outputs of counterfactuals must be uniform, too.

    A list of images or texts, which need a `model`, goes to `butfor.image.ranks` (`subsets` are its boxes) or
    `butfor.text.ranks` (its units): where do real patches or words stand among 5 draws of their own? The answer has
    `ok`, `verdict`, `summary()` and `plot()`.

    Parameters
    ----------
    sampler : the sampler, or reference data.
    X_held_out : rows (at least 50), images or texts that the sampler has not seen.
    model : a model whose outputs are to be ranked as well.
    subsets : what to check; None for each column.
    draws : of each held-out row; None is 99, of images and texts 5.
    alpha : bounds the share of checks in which a right sampler is called wrong anywhere: a third of it for the verdicts
        by subset (Bonferroni within a subset, Benjamini-Hochberg over subsets), the rest for the shape of all columns
        together.
    seed : the same seed gives the same check.
    progress : True for a bar on standard error, or a function that is called with a `butfor.Progress`.

    Returns
    -------
    SamplerCheck or Ranks
        With `ok`, `summary()` and `plot()`; of tables with a verdict for each subset.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(300, 1)) + 0.3 * rng.normal(size=(300, 2))  # two columns that go together
    >>> from butfor.tabular import empirical, gaussian
    >>> check_sampler(gaussian(rows[:200]), rows[200:]).ok
    True
    >>> check_sampler(empirical(rows[:200]), rows[200:]).verdicts
    ('off-manifold', 'off-manifold')
    """
    kind = modality(X_held_out)
    if kind == "table":
        from butfor.tabular.check import check_table

        with reporting(progress) as report:
            return check_table(
                sampler,
                X_held_out,
                model,
                subsets=subsets,
                draws=99 if draws is None else draws,
                alpha=alpha,
                seed=seed,
                done=lambda rows, total: report(Progress("check", rows, total)),
            )
    if model is None:
        raise InputError(f"checking a sampler of {kind}s needs a model, by whose output they are ranked; give model=")
    draws = 5 if draws is None else draws
    if kind == "image":
        from butfor import image

        return image.ranks(model, X_held_out, sampler, boxes=subsets, draws=draws, seed=seed)
    from butfor import text

    units = "word" if subsets is None else subsets
    return text.ranks(model, X_held_out, sampler, units=units, draws=draws, seed=seed)  # type: ignore[arg-type]


def modality(inputs: Any) -> Modality:
    """Return the modality of inputs, by their type and that of the first of them; a table where nothing else fits.

    Texts: a list, mapping, Series or array of strings. Images: a list or mapping of arrays of two dimensions and more,
    of Pillow images or of paths, one uint8 array of four dimensions, or what `butfor.image.folder` opens.

    >>> modality(["a fine film", "a dull one"]), modality([[1.0, 2.0]]), modality([np.zeros((8, 8, 3), np.uint8)])
    ('text', 'table', 'image')
    """
    if type(inputs).__module__.startswith("butfor.image"):
        return "image"
    if isinstance(inputs, np.ndarray):
        return "image" if inputs.ndim == 4 else "text" if inputs.ndim == 1 and _is_text(inputs[:1]) else "table"
    if is_series(inputs):  # a row of a table may begin with a text
        present = inputs.dropna().tolist()
        return "text" if present and all(isinstance(one, str) for one in present) else "table"
    if not isinstance(inputs, list | tuple | Mapping):
        return "table"
    first = list(islice(inputs.values() if isinstance(inputs, Mapping) else inputs, 1))
    if _is_text(first):
        return "text"
    for one in first:
        image = hasattr(one, "__fspath__") or type(one).__module__.startswith("PIL.")
        return "image" if image or (isinstance(one, np.ndarray) and one.ndim >= 2) else "table"
    return "table"


def _is_text(some: Any) -> bool:
    return any(isinstance(one, str) for one in some)
