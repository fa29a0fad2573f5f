"""The plots of one result by their names, `result.plot.bar(...)`; and a display, as scikit-learn and skore have it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from butfor import plots
from butfor.explain import explain
from butfor.results.result import Result
from butfor.types import one_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

NAMES = [name for name in plots.__all__ if name not in ("chosen_words", "ranks")]


@dataclass(frozen=True, eq=False)
class ResultPlots:
    """The plots of one result: each is `butfor.plots.<name>` with the result given."""

    result: Result

    def __getattr__(self, name: str) -> Callable[..., Axes]:
        if name not in NAMES:
            raise AttributeError(f"no plot {name!r}; there are {', '.join(NAMES)}")
        return partial(getattr(plots, name), self.result)

    def __call__(self, ax: Axes | None = None) -> Axes:
        """Return bars of the effects of the global question, as `butfor.plots.importance`."""
        return plots.importance(self.result, ax=ax)

    def __dir__(self) -> list[str]:
        return NAMES

    def __repr__(self) -> str:
        return f"<plots of a result: {', '.join(NAMES)}>"


class ExplanationDisplay:
    """Show an explanation as scikit-learn's displays show a curve; skore's `Display` protocol holds as well.

    `from_estimator` and `from_result` draw at once; `ExplanationDisplay(result).plot(ax=ax)` draws where you say.

    Parameters
    ----------
    result : Result
        Of `butfor.explain` or `butfor.global_importance`.
    kind : str, optional
        Name of a plot of `butfor.plots`. By default "features", for one input "bar", for the global question
        "importance".

    Attributes
    ----------
    result : Result
        All that the run says.
    ax_ : matplotlib.axes.Axes
        Axes of the last plot.
    figure_ : matplotlib.figure.Figure
        Figure of the last plot.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> reference, X = rng.normal(size=(200, 3)), rng.normal([3, 0, 0], 1, size=(25, 3))
    >>> model = LinearRegression().fit(reference, reference[:, 0])
    >>> display = ExplanationDisplay.from_estimator(model, X, reference=reference)
    >>> display.kind, display.ax_.get_xlabel(), display.frame().subset[0]
    ('features', 'mean change in the output', 'all columns')
    """

    def __init__(self, result: Result, *, kind: str | None = None) -> None:
        usual = "importance" if result.is_global else "bar" if result.n_inputs == 1 else "features"
        self.result = result
        self.kind = usual if kind is None else kind
        one_of("kind", self.kind, tuple(NAMES))
        self._style: dict[str, Any] = {}
        self.ax_: Axes | None = None
        self.figure_: Figure | SubFigure | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: object,
        X: object,
        *,
        reference: object = None,
        kind: str | None = None,
        ax: Axes | None = None,
        **options: Any,
    ) -> ExplanationDisplay:
        """Explain the rows of `X` by `butfor.explain`, and draw what comes out.

        Parameters
        ----------
        estimator : estimator or callable
            Fitted.
        X : array-like or DataFrame
            Rows to explain.
        reference : array-like or DataFrame
            What you compare with, best rows that the estimator was not fitted on.
        kind : str, optional
            Name of the plot.
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; by default those of a new figure.
        **options : object
            Of `butfor.explain`.

        Returns
        -------
        ExplanationDisplay
        """
        return cls.from_result(explain(estimator, X, reference, **options), kind=kind, ax=ax)

    @classmethod
    def from_result(cls, result: Result, *, kind: str | None = None, ax: Axes | None = None) -> ExplanationDisplay:
        """Draw a result.

        Parameters
        ----------
        result : Result
            Of any call.
        kind : str, optional
            Name of the plot.
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        ExplanationDisplay
        """
        display = cls(result, kind=kind)
        display.plot(ax=ax)
        return display

    def plot(self, *, kind: str | None = None, ax: Axes | None = None, **options: Any) -> Figure | SubFigure:
        """Draw the plot and return its figure, as skore's displays do; the axes are in `ax_`.

        Parameters
        ----------
        kind : str, optional
            Name of another plot.
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; by default those of a new figure.
        **options : object
            Of that plot.

        Returns
        -------
        matplotlib.figure.Figure
        """
        one_of("kind", kind or self.kind, tuple(NAMES))
        self.ax_ = getattr(self.result.plot, kind or self.kind)(ax=ax, **{**self._style, **options})
        self.figure_ = self.ax_.figure
        return self.figure_

    def set_style(self, *, policy: Literal["override", "update"] = "update", **options: Any) -> None:
        """Keep options of the plot for the calls to come.

        Parameters
        ----------
        policy : {"override", "update"}
            Whether they replace those kept so far or are added to them.
        **options : object
            Such as `most=5`.
        """
        one_of("policy", policy, ("override", "update"))
        self._style = options if policy == "override" else {**self._style, **options}

    def frame(self, *, by: Literal["feature", "input"] = "feature") -> pd.DataFrame:
        """Return what is shown as a DataFrame.

        Parameters
        ----------
        by : {"feature", "input"}
            A row per feature (`result.features`), or per input and feature (`result.table`).

        Returns
        -------
        pandas.DataFrame
        """
        one_of("by", by, ("feature", "input"))
        return self.result.features if by == "feature" else self.result.table

    def help(self) -> None:
        """Write what the display can do to the console."""
        from rich.console import Console

        Console().print(
            f"{self!r}\n.plot(kind=, ax=)  draws one of {', '.join(NAMES)}\n.frame(by=)  the data as a table\n"
            ".set_style(**options)  options of the plot for the calls to come\n.result  the whole answer"
        )

    def __repr__(self) -> str:
        return f"<butfor.ExplanationDisplay of {self.result!r}>"
