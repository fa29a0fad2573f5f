"""Sampler: only those draws of another sampler that a user's score finds plausible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any, Protocol, runtime_checkable

import numpy as np

from butfor.evaluation.samplers import HasNotes, RefusesInputs, Sampler, SamplerInfo, info_of, method, name_of
from butfor.models.wrap import is_frame
from butfor.streams import stream
from butfor.tabular.splice import shown_as, splice
from butfor.types import Array, Batch, Bools, Floats, InputError, Ints, ModelError, Subset, whole

SCORE_ROWS = {True: 10_000, False: 256}  # rows of a table, or images and texts, given to the score at a time
PILOT_INPUTS, PILOT_DRAWS = 64, 16
Score = Callable[..., Any]  # a batch of n inputs -> array (n,)
Propose = Callable[[Ints, int, np.random.Generator], tuple[Batch, Batch]]  # members, draws -> what is new, and whole
Show = Callable[[Array], Batch]  # rows of a matrix as the score is to see them


@runtime_checkable
class JudgesRegions(Protocol):
    """A score made for each input and region of its own: `butfor.image.judge`."""

    per_region: bool

    def __call__(self, item: object, subset: Subset) -> Score: ...


@runtime_checkable
class JudgesByRun(Protocol):
    """One that can judge by what really is in regions of other images of a run, where there are enough of them."""

    def among(self, items: Sequence[Any], subsets: Sequence[Sequence[Subset]]) -> JudgesRegions | None: ...


@dataclass(frozen=True, eq=False)
class Plausible:
    """Q given that the whole counterfactual scores at least the threshold. Made by `plausible`."""

    sampler: Sampler
    score: Score
    threshold: float
    tries: int
    show: Show | None = None

    def __repr__(self) -> str:
        return f"plausible({shown_as(self.sampler)}, {name_of(self.score)} >= {self.threshold:g})"

    @property
    def info(self) -> SamplerInfo:
        """That of the sampler underneath, but that draws are told from those of others; nothing is listed."""
        inner = info_of(self.sampler)
        identity = f"plausible({inner.identity}, {_lasting(self.score)} >= {self.threshold:g}, tries={self.tries})"
        return replace(inner, identity=identity, listed=0)

    def __call__(self, inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator) -> Batch:
        if isinstance(self.score, JudgesRegions):
            return [made for one in inputs for made in self._redrawn(self.score, one, subset, draws, rng)]

        def propose(members: Ints, size: int, rng: np.random.Generator) -> tuple[Batch, Batch]:
            whole = self.sampler(take(inputs, members), subset, size, rng)
            return whole, whole.copy() if isinstance(whole, np.ndarray) else whole  # a score may write into its batch

        return self._filled(propose, inputs, subset, draws, rng)

    def for_run(self, items: Sequence[Any], subsets: Sequence[Sequence[Subset]]) -> Plausible:
        """The same, where regions are judged, by what really is in regions of other images of a run."""
        found = self.score.among(items, subsets) if isinstance(self.score, JudgesByRun) else None
        return self if found is None else replace(self, score=found)

    def _redrawn(
        self, score: JudgesRegions, one: object, subset: Subset, draws: int, rng: np.random.Generator
    ) -> Batch:
        """Fills that pass, each of at most `tries` proposals; in place of one that cannot be had the input as it is.

        The input is judged by the same rule: where it does not pass, no fill can be like it, and all stay as it is.
        What is as it is ties with what is observed, and ties count against a discovery. So given that it passes, what
        is in the region and the fills that pass have the same law under the null, whatever the filter is, as long as
        it does not look at what is in the region.
        """
        own = score(one, subset)
        if not draws or not _ask(own, [one])[0] >= self.threshold:
            return [one] * draws
        made, lacking = [one] * draws, list(range(draws))
        for stream_of in np.random.default_rng(rng.integers(2**63, size=2)).spawn(self.tries):
            fresh = self.sampler([one], subset, len(lacking), stream_of)
            _check_count(len(fresh), len(lacking), subset)
            good = _ask(own, fresh) >= self.threshold
            for place, fill, passed in zip(lacking, fresh, good.tolist(), strict=True):
                made[place] = fill if passed else one
            lacking = [place for place, passed in zip(lacking, good.tolist(), strict=True) if not passed]
            if not lacking:
                break
        return made

    def _judging(self, one: object, subset: Subset) -> Plausible:
        """The same for one input and region, by a score made for them."""
        assert isinstance(self.score, JudgesRegions)
        return replace(self, score=self.score(one, subset))

    def unfit(self, item: object) -> str | None:
        """Why the sampler underneath cannot take an input."""
        return self.sampler.unfit(item) if isinstance(self.sampler, RefusesInputs) else None

    def passes(self, inputs: Batch) -> Bools:
        """Which inputs, or counterfactuals, the filter lets through, (n,)."""
        return self._scores(inputs) >= self.threshold

    def acceptance(self, inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator) -> Floats:
        """The share of `draws` unfiltered draws of each input that would be let through, (n,)."""
        whole = self.sampler(inputs, subset, draws, rng)
        return np.asarray(self.passes(whole).reshape(len(inputs), draws).mean(axis=1))

    def notes(self, inputs: Batch, subsets: Sequence[Any], seed: int) -> list[str]:
        """Sentences for a summary: how many draws pass, and how many inputs would not pass themselves."""
        own = self.sampler.notes(inputs, subsets, seed) if isinstance(self.sampler, HasNotes) else []
        if not all(isinstance(subset, Subset) for subset in subsets):
            return [*own, *self._implausible_regions(inputs, subsets)]
        few = take(inputs, slice(PILOT_INPUTS))
        rates = {
            subset.name: float(self.acceptance(few, subset, PILOT_DRAWS, stream(seed, "plausible", subset.name)).mean())
            for subset in subsets
        }
        least = min(rates, key=lambda name: rates[name])
        mean = np.mean(list(rates.values()))
        notes = [
            f"About {mean:.1%} of the counterfactuals drawn are plausible (least: {rates[least]:.1%} for {least!r}); "
            "the others were rejected."
        ]
        below = int((~self.passes(inputs)).sum())
        if below:
            notes.append(
                f"{below} of {len(inputs)} inputs are not plausible themselves: no counterfactual can be like them, so "
                "a discovery there may say no more than that; leave them out, or lower the threshold."
            )
        return [*own, *notes]

    def _implausible_regions(self, inputs: Sequence[Any], subsets: Sequence[Sequence[Subset]]) -> list[str]:
        """A sentence on the hypotheses about an input, or region, that is not plausible itself."""
        if isinstance(self.score, JudgesRegions):
            pairs = ((one, subset) for one, own in zip(inputs, subsets, strict=True) for subset in own)
            below = sum(not self._judging(one, subset).passes([one])[0] for one, subset in pairs)
        else:
            passed = self.passes(list(inputs))
            below = sum(len(own) for own, good in zip(subsets, passed, strict=True) if not good)
        if not below:
            return []
        if isinstance(self.score, JudgesRegions):
            return [
                f"{below} of {sum(map(len, subsets))} regions are not plausible as they are (a score below "
                f"{self.threshold:g}): no fill can be like them, so they are not tested and never chosen."
            ]
        return [
            f"{below} of {sum(map(len, subsets))} regions are not plausible as they are: no counterfactual can "
            "be like them, so a discovery there may say no more than that; leave them out, or lower the threshold."
        ]

    def _scores(self, batch: Batch) -> Floats:
        if self.show is not None and isinstance(batch, np.ndarray):
            batch = self.show(batch)
        size = SCORE_ROWS[is_frame(batch) or isinstance(batch, np.ndarray)]
        parts = [_ask(self.score, take(batch, slice(a, a + size))) for a in range(0, len(batch), size)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _filled(self, propose: Propose, inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator) -> Batch:
        """`draws` plausible proposals of each input, in the order in which they came, input-major.

        Every round has a stream and a size of its own, whatever was accepted before: what one input gets does not
        depend on the inputs behind it.
        """
        most, small = self.tries * max(draws, 16), max(-(-draws // 4), 16)
        entropy = rng.integers(2**63, size=2).tolist()
        passed, lacking = np.zeros(len(inputs), np.int64), np.arange(len(inputs))
        parts: list[Batch] = []
        places: list[Ints] = []
        proposed = 0
        while lacking.size or not parts:
            if proposed >= most:
                raise InputError(self._exhausted(inputs, subset, draws, int(lacking[0]), passed, proposed))
            size = draws if proposed == 0 else small
            fresh, whole = propose(lacking, size, np.random.default_rng([*entropy, proposed]))
            _check_count(len(whole), len(lacking) * size, subset)
            good = self.passes(whole).reshape(len(lacking), size)
            place = passed[lacking, None] + np.cumsum(good, axis=1) - 1
            rows, columns = np.nonzero(good & (place < draws))
            parts.append(take(fresh, rows * size + columns))
            places.append(lacking[rows] * draws + place[rows, columns])
            passed[lacking] += good.sum(axis=1)
            proposed += size
            lacking = lacking[passed[lacking] < draws]
        return take(_join(parts), np.argsort(np.concatenate(places), kind="stable"))

    def _exhausted(self, inputs: Batch, subset: Subset, draws: int, position: int, passed: Ints, proposed: int) -> str:
        count = int(passed[position])
        own = "" if self.passes(take(inputs, [position]))[0] else " (nor does the input itself reach it)"
        return (
            f"plausible accepted {count} of {proposed:,} counterfactuals of subset {subset.name!r} for the input at "
            f"position {position}, {count / proposed:.2%}: too few for draws={draws}. Scores of {self.threshold:g} or "
            f"more are too rare{own}; lower the threshold, raise tries={self.tries}, or use a sampler that comes closer"
        )


@dataclass(frozen=True, eq=False, repr=False)
class PlausibleColumns(Plausible):
    """The same of a sampler of tables that can return the new columns only."""

    def __call__(self, inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator) -> Batch:
        return splice(inputs, subset, draws, rng, self)

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Array:
        """New values of the subset's columns, (len(inputs) * draws, columns), input-major."""
        sampler: Any = self.sampler

        def propose(members: Ints, size: int, rng: np.random.Generator) -> tuple[Batch, Batch]:
            fresh = np.asarray(sampler.values(inputs[members], subset, size, rng))
            whole = np.repeat(inputs[members], size, axis=0)
            whole[:, subset.index] = fresh.reshape(len(whole), len(subset.index))
            return fresh, whole

        return np.asarray(self._filled(propose, inputs, subset, draws, rng))

    def for_columns(self, wanted: tuple[str, ...] | None, width: int) -> PlausibleColumns:
        """The same sampler for data whose columns stand in another order."""
        for_columns = method(self.sampler, "for_columns")
        return self if for_columns is None else replace(self, sampler=for_columns(wanted, width))

    def shown_by(self, show: Show) -> PlausibleColumns:
        """The same sampler, whose score sees rows of a matrix as `show` makes them: frames with names and types."""
        return replace(self, show=show)


def plausible(sampler: Sampler, score: Score, threshold: float, *, tries: int | None = None) -> Plausible:
    """A sampler that keeps only those draws of `sampler` whose score is at least `threshold`.

    Tests stay valid because the filter is part of Q, for inputs that pass it themselves: no draw can be like an input
    that does not.

    Parameters
    ----------
    sampler : any sampler, of tables, images or texts.
    score : batch -> (n,): a discriminator, a density, a language model; anything that says how real an input is. It
        sees whole counterfactuals, of the type the model sees. `butfor.image.judge` judges regions by their own image.
    threshold : the least score of a draw that is kept.
        There each fill that fails is drawn again, `tries` times at most. What is left, and all fills of a region that
        does not pass as it is, stay as observed and so count against a discovery.
    tries : proposals for every draw that is asked for, at most; then an error names the subset and the rate. None is
        100, and 8 where regions are judged, whose fills may cost a second each.

    Examples
    --------
    >>> from butfor.tabular import gaussian
    >>> reference = np.random.default_rng(0).normal(size=(200, 2))
    >>> positive = plausible(gaussian(reference), lambda rows: rows.min(axis=1), 0.0)
    >>> rows = positive(np.ones((1, 2)), Subset("x1", np.array([1])), 50, np.random.default_rng(0))
    >>> rows.shape, bool((rows >= 0).all())
    ((50, 2), True)
    """
    if not callable(sampler) or not callable(score):
        raise InputError(
            f"plausible needs a sampler and a function batch -> scores, got {type(sampler).__name__} and "
            f"{type(score).__name__}"
        )
    if isinstance(threshold, bool) or not isinstance(threshold, int | float | np.number) or np.isnan(threshold):
        raise InputError(f"threshold must be a number, got {threshold!r}")
    count = (8 if isinstance(score, JudgesRegions) else 100) if tries is None else whole("tries", tries, 1)
    made = PlausibleColumns if method(sampler, "values") is not None else Plausible
    return made(sampler, score, float(threshold), count)


def _lasting(score: Score) -> str:
    """The identity of a score, the name of a function that can be found again, or the repr with its address."""
    if isinstance(score, FunctionType):
        return f"{score.__module__}.{score.__qualname__}" if "<" not in score.__qualname__ else repr(score)
    return info_of(score).identity


def _ask(score: Score, batch: Batch) -> Floats:
    try:
        found = np.asarray(score(batch), dtype=np.float64)
    except Exception as error:
        raise ModelError(f"score raised {type(error).__name__} on {len(batch)} counterfactuals: {error}") from error
    if found.shape not in ((len(batch),), (len(batch), 1)) or np.isnan(found).any():
        raise ModelError(
            f"score must return one number for each of {len(batch)} counterfactuals, got shape {found.shape}"
            + (" with NaN" if np.isnan(found).any() else "")
        )
    return found.reshape(-1)


def _check_count(got: int, expected: int, subset: Subset) -> None:
    if got != expected:
        raise ModelError(f"the sampler returned {got} counterfactuals for subset {subset.name!r}, expected {expected}")


def take(batch: Batch, positions: slice | list[int] | Ints) -> Batch:
    """Some of a batch: rows of an array or a frame, items of a list."""
    if is_frame(batch):
        return batch.iloc[positions]
    if isinstance(batch, np.ndarray) or isinstance(positions, slice):
        return batch[positions]
    return [batch[i] for i in positions]


def _join(parts: list[Batch]) -> Batch:
    if is_frame(parts[0]):
        import pandas as pd

        return pd.concat(parts, ignore_index=True)
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return [item for part in parts for item in part]
