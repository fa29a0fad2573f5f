"""result.plot.bar(...): the plots of one result by their names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from butfor.plots.evidence import calibration, competition, pvalues, volcano
from butfor.plots.one_input import bar, decision, null, resolutions, waterfall
from butfor.plots.over_inputs import beeswarm, features, heatmap, importance
from butfor.plots.pictures import highlighted, photograph
from butfor.results.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PLOTS: dict[str, Callable[..., Axes]] = {
    "decision": decision,
    "resolutions": resolutions,
    "bar": bar,
    "waterfall": waterfall,
    "beeswarm": beeswarm,
    "heatmap": heatmap,
    "features": features,
    "importance": importance,
    "volcano": volcano,
    "null": null,
    "pvalues": pvalues,
    "competition": competition,
    "calibration": calibration,
    "photograph": photograph,
    "highlighted": highlighted,
}


@dataclass(frozen=True, eq=False)
class ResultPlots:
    """The plots of one result: each is `butfor.plots.<name>` with the result given."""

    result: Result

    def __getattr__(self, name: str) -> Callable[..., Axes]:
        if name not in PLOTS:
            raise AttributeError(f"no plot {name!r}; there are {', '.join(PLOTS)}")
        return partial(PLOTS[name], self.result)

    def __call__(self, ax: Axes | None = None) -> Axes:
        """Return bars of the effects of the global question, as `butfor.plots.importance`."""
        return importance(self.result, ax=ax)

    def __dir__(self) -> list[str]:
        return list(PLOTS)

    def __repr__(self) -> str:
        return f"<plots of a result: {', '.join(PLOTS)}>"
