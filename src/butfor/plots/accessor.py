"""result.plot.bar(...): the plots of one result by their names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from butfor import plots
from butfor.results.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
