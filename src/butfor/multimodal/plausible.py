"""Sampler: the draws of another sampler whose score, given by the user, is high enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any, Protocol, runtime_checkable

import numpy as np

from butfor.evaluation.samplers import HasNotes, RefusesInputs, Sampler, SamplerInfo, info_of, method, name_of
from butfor.models.wrap import is_frame
from butfor.results.words import Note, as_note
from butfor.streams import stream
from butfor.tabular.splice import shown_as, splice
from butfor.types import Array, Batch, Bools, Floats, InputError, Ints, ModelError, Subset, whole

PILOT_INPUTS, PILOT_DRAWS = 64, 16
Score = Callable[..., Any]  # a batch of n inputs -> array (n,)
Propose = Callable[[Ints, int, np.random.Generator], tuple[Batch, Batch]]  # members, draws -> what is new, and whole
Show = Callable[[Array], Batch]  # rows of a matrix as the score is to see them


@runtime_checkable
class JudgesRegions(Protocol):
    """A score made for each input and region: `butfor.image.judge`."""

    per_region: bool

    def __call__(self, item: object, subset: Subset) -> Score: ...


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
        """That of the inner sampler under another identity; nothing is listed."""
        inner, score = info_of(self.sampler), self.score
        if not isinstance(score, FunctionType):
            name = info_of(score).identity
        else:  # the name of an importable function, or the repr with its address
            name = f"{score.__module__}.{score.__qualname__}" if "<" not in score.__qualname__ else repr(score)
        identity = f"plausible({inner.identity}, {name} >= {self.threshold:g}, tries={self.tries})"
        ties = inner.keeps_input or isinstance(self.score, JudgesRegions)
        return replace(inner, identity=identity, listed=0, keeps_input=ties)

    def __call__(self, inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator) -> Batch:
        if isinstance(self.score, JudgesRegions):
            return [made for one in inputs for made in self._redrawn(self.score, one, subset, draws, rng)]

        def propose(members: Ints, size: int, rng: np.random.Generator) -> tuple[Batch, Batch]:
            whole = self.sampler(take(inputs, members), subset, size, rng)
            return whole, whole.copy() if isinstance(whole, np.ndarray) else whole  # a score may write into its batch

        return self._filled(propose, inputs, subset, draws, rng)

    def for_run(self, items: Sequence[Any], subsets: Sequence[Sequence[Subset]]) -> Plausible:
        """Return the same sampler, whose score may judge by the real regions of other images of a run."""
        among = getattr(self.score, "among", None)
        score = among(items, subsets) if callable(among) else None
        return self if score is None else replace(self, score=score)

    def _redrawn(
        self, score: JudgesRegions, one: object, subset: Subset, draws: int, rng: np.random.Generator
    ) -> Batch:
        """Return fills that pass, each of at most `tries` proposals; otherwise the input as it is.

        The input is judged by the same rule: where it does not pass, no fill can be like it, and all stay as observed.
        They tie with the observed value, and ties count against a discovery. So given that it passes, the observed
        region and the fills that pass have the same distribution under the null, whatever the filter is, as long as
        it does not depend on the content of the region.
        """
        judge = score(one, subset)
        if not draws or not _ask(judge, [one])[0] >= self.threshold:
            return [one] * draws
        made, lacking = [one] * draws, list(range(draws))
        for child in np.random.default_rng(rng.integers(2**63, size=2)).spawn(self.tries):
            fresh = self.sampler([one], subset, len(lacking), child)
            _check_count(len(fresh), len(lacking), subset)
            good = (_ask(judge, fresh) >= self.threshold).tolist()
            for draw, fill, passed in zip(lacking, fresh, good, strict=True):
                made[draw] = fill if passed else one
            lacking = [draw for draw, passed in zip(lacking, good, strict=True) if not passed]
            if not lacking:
                break
        return made

    def unfit(self, item: object) -> str | None:
        return self.sampler.unfit(item) if isinstance(self.sampler, RefusesInputs) else None

    def passes(self, inputs: Batch) -> Bools:  # (n,)
        return self._scores(inputs) >= self.threshold

    def covers(self, item: Any, subset: Subset) -> bool:
        covers = method(self.sampler, "covers")
        return covers is None or bool(covers(item, subset))

    def notes(self, inputs: Batch, subsets: Sequence[Any], seed: int) -> list[Note]:
        """Return how many draws pass, and how many inputs or regions would not pass themselves."""
        inner = self.sampler.notes(inputs, subsets, seed) if isinstance(self.sampler, HasNotes) else []
        notes = list(map(as_note, inner))
        if not all(isinstance(subset, Subset) for subset in subsets):  # one list for each image or text
            values: dict[str, Any] = {"regions": sum(map(len, subsets))}
            if isinstance(self.score, JudgesRegions):
                pairs = ((one, subset) for one, tested in zip(inputs, subsets, strict=True) for subset in tested)
                scores = (replace(self, score=self.score(one, subset))._scores([one])[0] for one, subset in pairs)
                below = sum(not score >= self.threshold for score in scores)
                note = Note("untested-regions", "limit", {**values, "below": below, "threshold": self.threshold})
            else:
                passed = self.passes(list(inputs))
                below = sum(len(tested) for tested, good in zip(subsets, passed, strict=True) if not good)
                note = Note("implausible-regions", "warning", {**values, "below": below})
            return [*notes, note] if below else notes
        few, rates = take(inputs, slice(PILOT_INPUTS)), {}
        for subset in subsets:  # the share of unfiltered draws that pass, by input
            drawn = self.sampler(few, subset, PILOT_DRAWS, stream(seed, "plausible", subset.name))
            rates[subset.name] = float(self.passes(drawn).reshape(len(few), PILOT_DRAWS).mean(axis=1).mean())
        least = min(rates, key=lambda name: rates[name])
        mean = float(np.mean(list(rates.values())))
        notes = [*notes, Note("plausible-share", "info", {"mean": mean, "least": rates[least], "subset": least})]
        below = int((~self.passes(inputs)).sum())
        if below:
            notes.append(Note("implausible-inputs", "warning", {"below": below, "inputs": len(inputs)}))
        return notes

    def _scores(self, batch: Batch) -> Floats:
        if self.show is not None and isinstance(batch, np.ndarray):
            batch = self.show(batch)
        size = 10_000 if is_frame(batch) or isinstance(batch, np.ndarray) else 256  # rows of a table; images and texts
        parts = [_ask(self.score, take(batch, slice(a, a + size))) for a in range(0, len(batch), size)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _filled(self, propose: Propose, inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator) -> Batch:
        """Return `draws` plausible proposals of each input, in the order in which they came, input-major.

        Every round has its own stream and size, whatever was accepted before: the draws of one input do not depend on
        the inputs after it.
        """
        most, small = self.tries * max(draws, 16), max(-(-draws // 4), 16)
        entropy = rng.integers(2**63, size=2).tolist()
        passed, lacking = np.zeros(len(inputs), np.int64), np.arange(len(inputs))
        parts: list[Batch] = []
        positions: list[Ints] = []
        proposed = 0
        while lacking.size or not parts:
            if proposed >= most:
                at = int(lacking[0])
                count = int(passed[at])
                itself = "" if self.passes(take(inputs, [at]))[0] else " (nor does the input itself pass)"
                raise InputError(
                    f"plausible accepted {count} of {proposed:,} counterfactuals of subset {subset.name!r} for the "
                    f"input at position {at}, {count / proposed:.2%}: too few for draws={draws}. Scores of "
                    f"{self.threshold:g} or more are too rare{itself}; lower the threshold, raise tries={self.tries}, "
                    "or use a sampler that comes closer"
                )
            size = draws if proposed == 0 else small
            fresh, whole = propose(lacking, size, np.random.default_rng([*entropy, proposed]))
            _check_count(len(whole), len(lacking) * size, subset)
            good = self.passes(whole).reshape(len(lacking), size)
            rank = passed[lacking, None] + np.cumsum(good, axis=1) - 1
            rows, columns = np.nonzero(good & (rank < draws))
            parts.append(take(fresh, rows * size + columns))
            positions.append(lacking[rows] * draws + rank[rows, columns])
            passed[lacking] += good.sum(axis=1)
            proposed += size
            lacking = lacking[passed[lacking] < draws]
        order = np.argsort(np.concatenate(positions), kind="stable")
        if is_frame(parts[0]):
            import pandas as pd

            return take(pd.concat(parts, ignore_index=True), order)
        arrays = isinstance(parts[0], np.ndarray)
        return take(np.concatenate(parts) if arrays else [item for part in parts for item in part], order)


@dataclass(frozen=True, eq=False, repr=False)
class PlausibleColumns(Plausible):
    """Plausible draws of a sampler of tables that can return the new columns only."""

    def __call__(self, inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator) -> Batch:
        return splice(inputs, subset, draws, rng, self)

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Array:
        """Return new values of the subset's columns, (len(inputs) * draws, columns), input-major."""
        sampler: Any = self.sampler

        def propose(members: Ints, size: int, rng: np.random.Generator) -> tuple[Batch, Batch]:
            fresh = np.asarray(sampler.values(inputs[members], subset, size, rng))
            whole = np.repeat(inputs[members], size, axis=0)
            whole[:, subset.index] = fresh.reshape(len(whole), len(subset.index))
            return fresh, whole

        return np.asarray(self._filled(propose, inputs, subset, draws, rng))

    def for_columns(self, wanted: tuple[str, ...] | None, width: int) -> PlausibleColumns:
        """Return the same sampler for data whose columns stand in another order."""
        for_columns = method(self.sampler, "for_columns")
        return self if for_columns is None else replace(self, sampler=for_columns(wanted, width))

    def shown_by(self, show: Show) -> PlausibleColumns:
        """Return the same sampler, whose score sees rows of a matrix as `show` makes them: as typed frames."""
        return replace(self, show=show)


def plausible(sampler: Sampler, score: Score, threshold: float, *, tries: int | None = None) -> Plausible:
    """Keep only those draws of `sampler` whose score is at least `threshold`.

    Tests stay valid because the filter is part of Q, for inputs that pass it themselves: no draw can be like an input
    that does not.

    Parameters
    ----------
    sampler : callable
        Any sampler, of tables, images or texts.
    score : callable
        batch -> (n,): a discriminator, a density, a language model; anything that says how real an input is. It sees
        complete counterfactuals, of the type the model sees. `butfor.image.judge` judges regions by their own image:
        there each fill that fails is drawn again, `tries` times at most. What is left, and all fills of a region that
        does not pass as it is, stay as observed and so count against a discovery.
    threshold : float
        The least score of a draw that is kept.
    tries : int, optional
        Proposals for every draw, at most; then an error names the subset and the rate. None is 100, and 8 where regions
        are judged, whose fills may cost a second each.

    Returns
    -------
    Plausible
        A sampler.

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


def _ask(score: Score, batch: Batch) -> Floats:
    try:
        scores = np.asarray(score(batch), dtype=np.float64)
    except Exception as error:
        raise ModelError(f"score raised {type(error).__name__} on {len(batch)} counterfactuals: {error}") from error
    if scores.shape not in ((len(batch),), (len(batch), 1)) or np.isnan(scores).any():
        raise ModelError(
            f"score must return one number for each of {len(batch)} counterfactuals, got shape {scores.shape}"
            + (" with NaN" if np.isnan(scores).any() else "")
        )
    return scores.reshape(-1)


def _check_count(got: int, expected: int, subset: Subset) -> None:
    if got != expected:
        raise ModelError(f"the sampler returned {got} counterfactuals for subset {subset.name!r}, expected {expected}")


def take(batch: Batch, positions: slice | list[int] | Ints) -> Batch:
    """Return part of a batch: rows of an array or a frame, items of a list."""
    if is_frame(batch):
        return batch.iloc[positions]
    if isinstance(batch, np.ndarray) or isinstance(positions, slice):
        return batch[positions]
    return [batch[i] for i in positions]
