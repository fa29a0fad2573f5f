"""The sampler for whoever names none: chosen by the kinds of columns and by a check on held-out reference rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from butfor.core.streams import stream
from butfor.core.types import Batch, InputError, Subset
from butfor.tabular.copula import copula
from butfor.tabular.empirical import empirical
from butfor.tabular.forest import forest
from butfor.tabular.gaussian import gaussian
from butfor.tabular.neighbours import neighbours
from butfor.tabular.splice import splice
from butfor.tabular.table import Table, as_table, check_complete

LEAST_HELD_OUT, MOST_HELD_OUT = 50, 200  # rows of the check
MOST_COLUMNS, CHECK_DRAWS = 6, 49
FOREST_ROWS = 20
SKEWED = 1.0  # a skewness that no normal column of this many rows has
Makers = dict[str, Callable[[Any], Any]]


@dataclass(frozen=True, eq=False)
class Auto:
    """The sampler that was chosen, and why. Made by `auto`; what the sampler can do, it can do."""

    sampler: Any
    why: str

    def __repr__(self) -> str:
        return repr(self.sampler)

    def __call__(self, inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator) -> Batch:
        return splice(inputs, subset, draws, rng, self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "sampler":  # not yet there while it is unpickled
            raise AttributeError(name)
        return getattr(self.sampler, name)

    def for_columns(self, wanted: tuple[str, ...] | None, width: int) -> Auto:
        """The same sampler for data whose columns stand in another order."""
        return replace(self, sampler=self.sampler.for_columns(wanted, width))

    def notes(self, *_: Any) -> list[str]:
        """Why this sampler, for the summary of a run."""
        return [self.why]


def auto(reference: Any, *, seed: int = 0) -> Auto:
    """A sampler from `reference` that suits its columns; `.why` says in a sentence why this one.

    Categories and missing values need donors (forest or neighbours); numbers get a Gaussian, a Gaussian copula or a
    forest. With rows enough, each is fitted on four fifths of them and put to `butfor.check_sampler` on the rest, on a
    few columns; the one with the fewest columns that look wrong is fitted again on all rows. Give a sampler of your own
    choice, and check it, where much depends on it.

    >>> auto(np.random.default_rng(0).normal(size=(100, 2))).why
    "auto chose gaussian: columns are numbers without much skew, and 100 reference rows are too few to hold some out."
    """
    table = as_table(reference, "reference")
    check_complete(table, "reference", missing=True)
    data = reference.to_pandas() if hasattr(reference, "to_pandas") else reference
    candidates, kind = _candidates(table)
    held_out = len(table.values) // 5
    if len(candidates) > 1 and held_out >= LEAST_HELD_OUT:
        name, found = _checked(data, table, candidates, seed)
        return Auto(candidates[name](data), f"auto chose {name}: {kind}, and {found}.")
    name = next(iter(candidates))
    few = f", and {len(table.values)} reference rows are too few to hold some out" if len(candidates) > 1 else ""
    return Auto(candidates[name](data), f"auto chose {name}: {kind}{few}.")


def _candidates(table: Table) -> tuple[Makers, str]:
    """Samplers that can be fitted to such columns, the best guess first, and what the columns are."""
    values = table.values.astype(np.float64)
    rows = len(values)
    kinds = [
        *(["there are categories"] if table.has("category") else []),
        *(["there are missing values"] if np.isnan(values).any() else []),
        *(
            ["a column is constant"]
            if (np.nanmax(values, axis=0, initial=-np.inf) <= np.nanmin(values, axis=0, initial=np.inf)).any()
            else []
        ),
    ]
    donors: Makers = {"forest": forest} if rows >= FOREST_ROWS else {}
    if kinds:
        near: Makers = {"neighbours": neighbours} if rows >= FOREST_ROWS else {"empirical": empirical}
        return {**donors, **near}, " and ".join(kinds)
    if rows < 2:
        raise InputError("the reference has one row; give more of what you compare against, at least 2")
    if _skewed(values):
        return {"copula": copula, "gaussian": gaussian, **donors}, "columns are skewed numbers"
    return {"gaussian": gaussian, "copula": copula, **donors}, "columns are numbers without much skew"


def _skewed(values: Any) -> bool:
    """Whether a quarter of the columns are, or more."""
    centred = values - values.mean(axis=0)
    skewness = (centred**3).mean(axis=0) / np.maximum((centred**2).mean(axis=0), 1e-300) ** 1.5
    return bool((np.abs(skewness) > SKEWED).mean() >= 0.25)


def _checked(data: Any, table: Table, candidates: Makers, seed: int) -> tuple[str, str]:
    """The candidate with the fewest columns that look wrong, then the one hardest to tell from real rows; and words."""
    from butfor._check import check_sampler  # above us: it checks any sampler, these included

    order = stream(seed, "auto", "rows").permutation(len(table.values))
    size = min(len(order) // 5, MOST_HELD_OUT)
    held, kept = np.sort(order[:size]), np.sort(order[size:])
    some = stream(seed, "auto", "columns").permutation(sorted(table.columns))[:MOST_COLUMNS].tolist()
    columns = [table.columns.index(name) for name in some]
    score: dict[str, tuple[int, float]] = {}
    for name, make in candidates.items():
        check = check_sampler(make(_take(data, kept)), _take(data, held), subsets=columns, draws=CHECK_DRAWS, seed=seed)
        wrong = sum(verdict != "ok" for verdict in check.verdicts)
        score[name] = wrong, float(np.round(np.maximum(check.auc - 0.5, 0).mean(), 2))
    best = min(score, key=lambda name: score[name])  # the first of equals
    told = ", ".join(f"{name} {wrong}" for name, (wrong, _) in score.items())
    return best, f"on {size} held-out reference rows, of {len(columns)} columns these looked wrong: {told}"


def _take(data: Any, rows: Sequence[int] | np.ndarray[Any, Any]) -> Any:
    return data.iloc[rows] if hasattr(data, "iloc") else np.asarray(data)[rows]
