"""The sampler's law: draws, lists and leverages of any subset, from fits that are made when they are first needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from butfor.core.types import Array, Floats, Subset
from butfor.tabular.donors import ReferenceRows, donate, repeats
from butfor.tabular.residual.chain import LISTED, SubsetFit, few_valued, fit_subset
from butfor.tabular.residual.design import Space
from butfor.tabular.residual.draw import checked, joint, new_values
from butfor.tabular.residual.matched import tied


@dataclass(frozen=True, eq=False, repr=False)
class Residual:
    """x_S = mean(x_-S) + spread(x_-S) * what was missed of a reference row left out. Made by `residual`."""

    rows: ReferenceRows
    space: Space
    fits: dict[tuple[int, ...], SubsetFit] = field(default_factory=dict)  # per subset, filled as they are asked for

    takes_missing = True
    calibrated = True  # on rows that the fit has not seen

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Array:
        """New values of the subset's columns, (len(inputs) * draws, columns), input-major."""
        if self.rows.is_all(subset):
            size = len(self.rows)
            donors = rng.integers(size + 1, size=(len(inputs), draws))  # the observed row is one donor more
            return donate(self.rows, inputs, subset, np.minimum(donors, size - 1), donors == size)
        chosen = np.asarray(subset.index)
        fresh = new_values(self.fit(subset), self.space, inputs, chosen, draws, rng)
        return fresh.reshape(-1, len(chosen)).astype(inputs.dtype, copy=False)

    def repeats(self, subset: Subset) -> bool:
        """Whether draws of these columns come again so often that remembering the model's answers pays."""
        return repeats(self.rows, subset)

    def floor(self, subset: Subset) -> float:
        """The share of draws that are the observed values again: no p-value is much below it (see `donors`)."""
        targets = np.asarray(subset.index)
        may_differ = tied(self.rows, targets) > 1 or np.isnan(self.rows.values[:, targets]).any()
        if self.rows.is_all(subset) or not may_differ:
            return 1 / (len(self.rows) + 1)
        return 1 / (self.fit(subset).donors + 1)

    def lists(self, subset: Subset) -> bool:
        """Whether the support is short enough to be evaluated whole."""
        if self.rows.is_all(subset):
            return False
        targets, _ = self.rows.parts(subset)
        if not all(few_valued(self.space, int(j)) for j in targets):
            return False
        fit = self.fit(subset)
        return fit.whole is None and fit.combinations is not None and len(fit.combinations) <= LISTED

    def support(self, inputs: Array, subset: Subset) -> tuple[Array, Floats]:
        """All values (n, m, columns) and their probabilities (n, m), the observed one first, with 1 / (rows + 1)."""
        fit = self.fit(subset)
        assert fit.combinations is not None
        chosen = np.asarray(subset.index)
        levels = [step.fit.levels for step in fit.classes]
        held = np.stack([own[codes] for own, codes in zip(levels, fit.combinations.T, strict=True)], axis=1)
        held = held[:, [fit.columns.index(j) for j in chosen]]
        chance = joint(fit, fit.centres(self.space, inputs)) * (fit.donors / (fit.donors + 1))
        own = np.full((len(inputs), 1), 1 / (fit.donors + 1))
        listed = np.broadcast_to(held, (len(inputs), *held.shape))
        return np.concatenate([inputs[:, None, chosen], listed], axis=1), np.concatenate([own, chance], axis=1)

    def leverage(self, inputs: Array, subset: Subset) -> Floats:
        """The variance of the fitted mean at each input, in units of the residuals' variance, (n,)."""
        if self.rows.is_all(subset):
            return np.zeros(len(inputs))
        parts = self.fit(subset).centres(self.space, inputs)
        return np.asarray(np.max([part[:, -1] for part in parts], axis=0))

    def leverage_of_mean(self, inputs: Array, subset: Subset) -> float:
        """The same of the fit's mean over all inputs."""
        if self.rows.is_all(subset):
            return 0.0
        fit = self.fit(subset)
        found = [part.leverage_of_mean(self.space, inputs, fit.rest) for part in fit.parts]
        return float(max(found))

    def unfitted(self, subsets: Sequence[Subset]) -> Sequence[Callable[[], object]]:
        """Fits that are still to be made for these subsets."""
        keys = {self._key(one): one for one in subsets if not self.rows.is_all(one)}
        return [partial(self.fit, one) for key, one in keys.items() if key not in self.fits]

    def fit(self, subset: Subset) -> SubsetFit:
        """What is fitted for a subset, made when it is first asked for."""
        key = self._key(subset)
        if key not in self.fits:
            self.fits[key] = checked(fit_subset(self.space, *self.rows.parts(subset)), self.space)
        return self.fits[key]

    def _key(self, subset: Subset) -> tuple[int, ...]:
        return tuple(self.rows.parts(subset)[0].tolist())
