"""Where what is real stands among its own draws, by the model's output: a check of samplers of images and texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from butfor.core.types import Ints

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

    def plot(self, ax: Any = None) -> Any:
        """Bars of the counts with what chance would give. Returns the axes."""
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots(figsize=(6, 3.2), layout="constrained")[1]
        places = np.arange(1, len(self.counts) + 1)
        third = max(1, len(places) // 3)
        colours = ["#155cd6"] + ["#8a949e"] * (len(places) - 1 - third) + ["#8a949e" if self.ok else "#d02424"] * third
        ax.bar(places, self.counts, color=colours)
        chance = self.total / len(places)
        ax.axhline(chance, color="#1c2530", linewidth=1, linestyle="--")
        ax.annotate("chance", (1.01, chance), xycoords=("axes fraction", "data"), va="center", fontsize=9)
        if not self.ok:
            ax.set_title(f"More at the bottom than above: fills are not like real {self.what}", fontsize=10, loc="left")
        some = places[:: max(1, len(places) // 10)][:-1] if len(places) > 12 else places[:-1]
        ax.set_xticks([*some, places[-1]], ["first", *map(str, some[1:]), "last"])
        ax.yaxis.get_major_locator().set_params(integer=True)
        ax.set(xlabel="Place among its draws, by the model's output", ylabel=f"Real {self.what}")
        ax.spines[["top", "right"]].set_visible(False)
        return ax
