"""SHAP's call on our tests: `from butfor.compat import shap` in place of `import shap`.

`Explainer` is ours. Plots, maskers, data sets and all else are those of shap itself, which is imported when they are
first used. Its other explainers are refused: their values would come without an error rate.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

from butfor.explain import explain
from butfor.models.wrap import need
from butfor.types import InputError


class Explainer:
    """`shap.Explainer`, but that values come with p-values, intervals and a controlled error rate.

    Its values are effects: each column is redrawn *given the rest of the row*, as it looks in the background. They are
    in units of the output and do not add up to it. Columns that tell each other are redrawn together and share their
    effect (see `butfor.Result.to_shap`).

    Parameters
    ----------
    model : callable or estimator
        As in `butfor.explain`; of a classifier the probability of the predicted class is explained, else `target`.
    masker : array-like, DataFrame or masker of shap
        The background: what you compare with, best rows that the model was not fitted on. It is not averaged over, so
        give all rows that you have, rather than a sample of 100.
    feature_names : list of str, optional
        Of the columns of an array.
    **options : object
        Of `butfor.explain`: `target`, `alpha`, `seed` and so on.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> background, X = rng.normal(size=(300, 3)), rng.normal([3, 0, 0], 1, size=(25, 3))
    >>> values = Explainer(lambda rows: rows[:, 0] + rows[:, 1], background)(X)
    >>> values.shape, values.chosen.mean(axis=0).tolist()[2]
    ((25, 3), 0.0)
    >>> values.result.subset_names[0]
    'all columns'
    """

    def __init__(self, model: Any, masker: Any = None, *, feature_names: Any = None, **options: Any) -> None:
        need("shap", None)
        if unknown := set(options) - set(signature(explain).parameters):
            raise InputError(
                f"Explainer takes no {sorted(unknown)[0]!r}; beside its own it takes those of butfor.explain"
            )
        if masker is None and options.get("sampler") is None:
            raise InputError("Explainer got no background; give rows to compare with: shap.Explainer(model, rows)")
        self.model = model
        self.masker = masker
        self.feature_names = None if feature_names is None else list(feature_names)
        self.options = options

    def __call__(self, X: Any, *, max_evals: Any = None, batch_size: Any = None, silent: bool = False) -> Any:
        """Return the effects of each column in each row of `X`.

        Parameters
        ----------
        X : array-like or DataFrame
            Rows to explain; 20 and more have the power to find something.
        max_evals, batch_size, silent :
            Change nothing; kept for SHAP's calls.

        Returns
        -------
        shap.Explanation
            With `p`, `q` and `chosen` as arrays like `values`, and `result`, the `butfor.Result` they come from: it has
            the decisions, and the groups of columns that say alike what no single one is needed for.
        """
        del max_evals, batch_size, silent
        result = explain(self.model, X, _background(self.masker), **self.options)
        explanation = result.to_shap(columns=True)
        if self.feature_names is not None:
            if len(self.feature_names) != explanation.shape[1]:
                raise InputError(
                    f"got {len(self.feature_names)} feature_names for {explanation.shape[1]} columns; give one for each"
                )
            explanation.feature_names = self.feature_names
        explanation.result = result
        return explanation


def _background(masker: Any) -> Any:
    """Return the rows of a masker of shap; anything else as it is."""
    kind = type(masker)
    if not kind.__module__.startswith("shap."):
        return masker
    rows = getattr(masker, "data", None)
    if rows is None or not hasattr(masker, "clustering"):  # of shap.kmeans: centres with weights, which nobody is
        raise InputError(f"a {kind.__name__} of shap has no rows to compare with; give the background data themselves")
    if (names := getattr(masker, "feature_names", None)) is not None:
        import pandas as pd

        return pd.DataFrame(rows, columns=names)
    return rows


def __getattr__(name: str) -> Any:
    """Return what is not ours from shap itself."""
    if name.startswith("_"):  # inspected, rather than used: no reason to import shap
        raise AttributeError(f"module 'butfor.compat.shap' has no attribute {name!r}")
    if name.endswith("Explainer") or name == "explainers":
        raise AttributeError(f"butfor.compat.shap has Explainer(model, background); for {name} import shap itself")
    try:
        return getattr(need("shap", None), name)
    except InputError as error:
        raise AttributeError(str(error)) from error
