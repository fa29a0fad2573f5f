"""Is the sampler any good? Where the real patch stands among its own draws, in the eyes of the model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from butfor._arguments import whole
from butfor.core.calls import Calls, evaluate
from butfor.core.draws import list_problem, rounds
from butfor.core.outputs import Target, pick
from butfor.core.types import InputError, Ints
from butfor.image.explain import classifier, prepared, rows_at_a_time
from butfor.image.opened import opened
from butfor.image.proposed import OnError, as_subsets, proposed

SMALL = 0.01  # chance of so many at one end, were real patches like their draws


@dataclass(frozen=True, eq=False)
class Ranks:
    """How many real patches stand first, second, ... last among themselves and their draws. Made by `ranks`."""

    counts: Ints  # (draws + 1,), from the largest output to the smallest
    median_spread: float  # median over regions of the standard deviation of the output over draws

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    @property
    def lower(self) -> tuple[int, int]:
        """Patches in the lowest third of places, and in as many places just above: what is important is in neither."""
        third = max(1, len(self.counts) // 3)
        return int(self.counts[-third:].sum()), int(self.counts[-2 * third : -third].sum())

    @property
    def p_bottom(self) -> float:
        """Chance of so many more in the lowest third than above it, were every patch exchangeable with its draws.

        Patches that do not matter stand anywhere alike and those that do stand high, so lower places hold no more than
        higher ones.
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
    def fits(self) -> bool:
        """Whether nothing piles up at the bottom."""
        return self.p_bottom >= SMALL

    @property
    def verdict(self) -> str:
        """One sentence, or two."""
        bottom, above = self.lower
        if not self.fits:
            return (
                f"The fills are not exchangeable with real patches: {bottom} of {self.total} real patches stand in the "
                f"lowest third among their draws and only {above} in the third above (p = {self.p_bottom:.1g}). Where "
                "fills raise the output too easily they may lower it too easily elsewhere, so discoveries say in part "
                "how fills differ from photographs; use a better sampler, or filter its draws with butfor.plausible."
            )
        expected = self.total / len(self.counts)
        top = "those are what a run can find" if self.p_top < SMALL else "little is to be found"
        return (
            f"No sign against the sampler: {bottom} of {self.total} real patches stand in the lowest third among their "
            f"draws, {above} in the third above. {self.counts[0]} stand first where {expected:.0f} would by chance: "
            f"{top}."
        )

    def plot(self, ax: Any = None) -> Any:
        """Bars of the counts with what chance would give. Returns the axes."""
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots(figsize=(6, 3.2), layout="constrained")[1]
        places = np.arange(1, len(self.counts) + 1)
        third = max(1, len(places) // 3)
        colours = (
            ["#155cd6"] + ["#8a949e"] * (len(places) - 1 - third) + ["#8a949e" if self.fits else "#d02424"] * third
        )
        ax.bar(places, self.counts, color=colours)
        ax.axhline(self.total / len(places), color="#1c2530", linewidth=1, linestyle="--")
        ax.annotate("chance", (places[-1] + 0.5, self.total / len(places)), ha="right", va="bottom", fontsize=9)
        ax.set_xticks(places, ["first", *map(str, places[1:-1]), "last"])
        ax.set(xlabel="Place of the real patch among its draws, by the model's output", ylabel="Regions")
        ax.spines[["top", "right"]].set_visible(False)
        return ax


def ranks(
    model: Any,
    images: Any,
    sampler: Any,
    *,
    boxes: Any = None,
    draws: int = 5,
    seed: int = 0,
    batch_rows: int | None = None,
    fills: str | Path | None = None,
    on_error: OnError = "raise",
) -> Ranks:
    """Where each real patch stands among `draws` draws of the sampler, by the output of the symmetric predicted class.

    Important patches stand first. What is not important stands anywhere, so an excess at the bottom says that fills
    are not like photographs, whatever the model relies on. The draws are those of a few-shot run with this seed; ties
    are broken at random, and regions where nothing that is drawn changes the output are left out.

    >>> from butfor.simulate.images import textures
    >>> bed = textures(0)
    >>> found = ranks(bed.model, bed.inputs, bed.sampler, boxes=bed.boxes)
    >>> found.fits, found.total
    (True, 160)
    """
    whole("draws", draws, 2)
    if getattr(sampler, "deterministic", False):
        raise InputError(f"ranks needs draws that differ, but {sampler!r} always draws the same; see diversify")
    found = proposed(opened(images), as_subsets(boxes, seed), on_error)
    problem = list_problem(found.images, found.images.names, found.subsets, prepared(sampler, found, fills), seed)
    call = classifier(model).call
    outputs = np.asarray(call([found.images[0]])).reshape(1, -1).shape[1]
    calls = Calls(call, batch_rows or rows_at_a_time(found), outputs, lambda _: None)
    target = Target("output" if outputs == 1 else "predicted")
    places, spreads = [], []
    rng = np.random.default_rng(seed)
    for _, answers in evaluate(problem, calls, rounds(problem.blocks, draws, draws)):
        values, _ = pick(answers, target, np.arange(1))
        above, ties = (values[:, 1:] > values[:, :1]).sum(), (values[:, 1:] == values[:, :1]).sum()
        if ties == draws:
            continue  # the model does not look there
        places.append(int(above + rng.integers(ties + 1)))
        spreads.append(float(values[:, 1:].std(ddof=1)))
    if not places:
        raise InputError("no draw changed any output: the model looks at none of these regions")
    return Ranks(np.bincount(places, minlength=draws + 1), float(np.median(spreads)))
