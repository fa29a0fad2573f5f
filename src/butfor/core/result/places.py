"""Where what is real stands among its own draws, by the model's output: a check of samplers of images and texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from butfor.core.result.later import later
from butfor.core.types import Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SMALL = 0.01  # chance of so many at one end, were everything real like its draws


@dataclass(frozen=True, eq=False)
class Places:
    """How many real ones stand first, second, ... last among themselves and their draws."""

    counts: Ints  # (draws + 1,)

    what = "inputs"  # what is ranked, in words

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    @property
    def lower(self) -> tuple[int, int]:
        """Those in the lowest third of places, and in as many places just above: what is important is in neither."""
        third = max(1, len(self.counts) // 3)
        return int(self.counts[-third:].sum()), int(self.counts[-2 * third : -third].sum())

    @property
    def p_bottom(self) -> float:
        """Chance of so many more in the lowest third than above it, were each exchangeable with its draws.

        What does not matter stands anywhere alike and what does stands high, so lower places hold no more than higher
        ones.
        """
        from scipy.stats import binom

        bottom, above = self.lower
        return float(binom.sf(bottom - 1, bottom + above, 0.5))

    @property
    def p_top(self) -> float:
        """Chance of so many in the first place, were nothing important; an excess there is what a run is to find."""
        from scipy.stats import binom

        return float(binom.sf(self.counts[0] - 1, self.total, 1 / len(self.counts)))

    @property
    def ok(self) -> bool:
        """Whether nothing piles up at the bottom."""
        return self.p_bottom >= SMALL

    @property
    def verdict(self) -> str:
        """One sentence, or two."""
        bottom, above = self.lower
        seen = f"{bottom} of {self.total} real {self.what} stand in the lowest third among their draws"
        if not self.ok:
            return (
                f"The fills are not exchangeable with real {self.what}: {seen} and only {above} in the third above "
                f"(p = {self.p_bottom:.1g}). Where fills move the output too easily one way they may do so the other "
                "way elsewhere, so discoveries say in part how fills differ from what is real; use a better sampler, "
                "or filter its draws with butfor.plausible."
            )
        expected = self.total / len(self.counts)
        top = "those are what a run can find" if self.p_top < SMALL else "little is to be found"
        return (
            f"No sign against the sampler: {seen}, {above} in the third above. {self.counts[0]} stand first where "
            f"{expected:.0f} would by chance: {top}."
        )

    def summary(self) -> str:
        """The counts and the verdict, for a terminal."""
        counts = " ".join(map(str, self.counts))
        return f"Places of {self.total} real {self.what}, first to last: {counts}\n{self.verdict}"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Bars of the counts, as `butfor.plots.ranks`; returns the axes.

        Parameters
        ----------
        ax : axes to draw on; None makes a figure.
        """
        drawn: Axes = later("butfor.plots:ranks")(self, ax)
        return drawn
