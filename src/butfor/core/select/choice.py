"""From evidence to what is chosen: a rule at a level, in each family, at each resolution, weighted or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from butfor.core.draw.layers import Layers
from butfor.core.draw.streams import stream
from butfor.core.select.rules import COMPETITIONS, select
from butfor.core.select.strict import strict
from butfor.core.select.weights import learn_weights, weighted_bh
from butfor.core.types import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class LearningUnits:
    """What weights are learned over (H,): inputs that may depend on each other, and hypotheses that are alike."""

    cluster: Ints
    label: Ints


@dataclass(frozen=True, eq=False)
class Choice:
    """A rule and all that it needs beside the evidence."""

    rule: str
    alpha: float
    families: Ints | None = None  # (H,) the family of each hypothesis; None: one for all
    layers: Layers | None = None
    calibrated: Bools | None = None  # (H,) False: the control found its draws wrong; never chosen
    draws: int = 1  # decoys of a competition
    floor: Floats | None = None  # (H,) share of null values beyond all that the sampler draws, where rivals compete
    units: LearningUnits | None = None
    weights: tuple[Floats, Floats] | None = None  # (H,) weights and null shares; None: learned from the evidence itself

    def chosen(self, evidence: Floats, tested: Bools) -> Bools:
        """Chosen hypotheses (H,)."""
        if self.layers is None:
            return self.in_families(evidence, tested)
        own = self.after_pilot(evidence, tested) if self.weights is None else self  # weights are learned from all

        def choose(level: Bools, reached: Bools) -> Bools:
            return own.in_families(self._without(evidence, reached), tested & level)

        return self.layers.top_down(choose, self._passing)

    def waiting(self, evidence: Floats, tested: Bools, chosen: Bools) -> Bools:
        """What only its larger parts keep from being chosen (H,) where these are, so that drawing it can wait.

        Once a larger part is chosen it may need more draws: what else waits then counts in its family as p = 1.
        """
        if self.layers is None:
            return np.zeros(len(chosen), bool)
        kept_back = self.in_families(evidence, tested) & ~chosen
        return kept_back & ~self.layers.reached(chosen, self._passing) if kept_back.any() else kept_back

    @property
    def _passing(self) -> Bools | None:
        return None if self.calibrated is None else ~self.calibrated

    def _without(self, evidence: Floats, reached: Bools) -> Floats:
        """The evidence where what is no part of something chosen cannot be chosen, and counts in its family.

        Left out of the family, or dropped from what the rule chose over all, it would make the error rate too large:
        which parts are left was picked by the very outputs that they are chosen by (Katsevich, Sabatti & Bogomolov
        2021, filtering). Where rivals compete, its wins are gone and its losses stay.
        """
        if self.rule in COMPETITIONS:
            return np.where(reached | (evidence < 0), evidence, 0.0)
        return np.where(reached, evidence, 0.0 if self.rule == "e-bh" else 1.0)

    def in_families(self, evidence: Floats, tested: Bools) -> Bools:
        """What the rule rejects (H,), whether or not the larger parts are chosen."""
        if self.calibrated is not None:
            tested = tested & self.calibrated
        if self.rule not in ("adaptive", "adaptive-strict"):
            return select(evidence, self.alpha, self.rule, tested, self.groups, self.draws, self.floor)
        chosen = np.zeros(len(tested), bool)
        if self.rule == "adaptive-strict":
            for number, rows in self._families(tested):
                cluster, label = self._units(rows)
                chosen[rows] = strict(evidence[rows], cluster, label, self.alpha, self._stream(number))
            return chosen
        weights, nulls = self.learned(evidence, tested)
        for _, rows in self._families(tested):
            chosen[rows] = weighted_bh(evidence[rows], weights[rows], float(nulls[rows[0]]), self.alpha)
        return chosen

    def learned(self, p: Floats, tested: Bools) -> tuple[Floats, Floats]:
        """Weights and null shares (H,): those it has, or else what these p-values teach (METHODS 12)."""
        if self.weights is not None:
            return self.weights
        weights, nulls = np.ones(len(p)), np.ones(len(p))
        for number, rows in self._families(tested):
            cluster, label = self._units(rows)
            weights[rows], nulls[rows] = learn_weights(p[rows], cluster, label, self.alpha, self._stream(number))
        return weights, nulls

    def after_pilot(self, p: Floats, tested: Bools) -> Choice:
        """The choice for the rest of a run, when these p-values of its first draws are known."""
        if self.rule != "adaptive":
            return self
        if self.calibrated is not None:
            tested = tested & self.calibrated
        return replace(self, weights=self.learned(p, tested))

    @property
    def groups(self) -> Ints | None:
        """The family of each hypothesis: within each resolution, and there within each input where so asked."""
        if self.layers is None:
            return self.families
        if self.families is None:
            return self.layers.resolution
        return np.asarray(self.families * (int(self.layers.resolution.max(initial=0)) + 1) + self.layers.resolution)

    def _families(self, tested: Bools) -> Iterator[tuple[int, Ints]]:
        groups = self.groups if self.groups is not None else np.zeros(len(tested), np.int64)
        for label in np.unique(groups[tested]):
            yield int(label), np.flatnonzero(tested & (groups == label))

    def _units(self, rows: Ints) -> tuple[Ints, Ints]:
        assert self.units is not None
        return self.units.cluster[rows], self.units.label[rows]

    @staticmethod
    def _stream(family: int) -> np.random.Generator:
        """Of the folds: the same in every run, so that with the same p-values another seed chooses the same."""
        return stream(0, "adaptive", family, 0)
