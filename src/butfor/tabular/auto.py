"""The sampler for whoever names none: chosen by the kinds of columns and by a check on held-out reference rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from butfor.core.draw.streams import stream
from butfor.core.types import Floats, InputError
from butfor.models.rows import is_frame
from butfor.tabular.check import check_table
from butfor.tabular.copula import copula
from butfor.tabular.donors import mark
from butfor.tabular.empirical import empirical
from butfor.tabular.forest import forest
from butfor.tabular.gaussian import gaussian
from butfor.tabular.neighbours import neighbours
from butfor.tabular.splice import TableSampler
from butfor.tabular.table import Table, as_frame, as_table, check_complete

if TYPE_CHECKING:
    import pandas as pd

LEAST_HELD_OUT, MOST_HELD_OUT = 50, 200  # rows of the check
MOST_FITTED = 5_000  # rows that a sampler is fitted on to be checked; the one that is chosen gets all
MOST_COLUMNS, CHECK_DRAWS = 6, 49
FOREST_ROWS = 20
ODD = 1.0  # normal columns of a hundred rows and more are never so far from normal
Makers = dict[str, Callable[[object], TableSampler]]


def auto(reference: object, *, seed: int = 0) -> TableSampler:
    """A sampler from `reference` that suits its columns; `.why` says in a sentence why this one.

    Categories and missing values need donors (forest or neighbours); numbers get a Gaussian, a Gaussian copula or a
    forest. With rows enough, each in turn is fitted on four fifths of them and put to `butfor.check_sampler` on the
    rest, on a few columns, until there is nothing against one; if there is something against all, the least wrong is
    taken. It is then fitted again on all rows. Give a sampler of your own choice, and check it, where much depends on
    it.

    Parameters
    ----------
    reference : rows as they look when there is nothing to report.
    seed : decides over the rows that are held out for the check.

    Examples
    --------
    >>> auto(np.random.default_rng(0).normal(size=(100, 2))).why
    'auto chose gaussian: columns are numbers without much skew, and 100 reference rows are too few to hold some out.'
    """
    data = as_frame(reference, "reference")
    table = as_table(data, "reference")
    check_complete(table, "reference", missing=True)
    rows = len(table.values)
    if rows < 2:
        raise InputError("the reference has one row; give more of what you compare against, at least 2")
    candidates, kind = _candidates(table)
    if len(candidates) > 1 and rows // 5 >= LEAST_HELD_OUT:
        name, found = _checked(data, table, candidates, seed)
    else:
        name = next(iter(candidates))
        what = "learn how columns hang together" if name == "empirical" else "hold some out"
        found = f"{rows} reference rows are too few to {what}"
    return replace(candidates[name](data), why=f"auto chose {name}: {kind}, and {found}.")


def _candidates(table: Table) -> tuple[Makers, str]:
    """Samplers that can be fitted to such columns, the best guess first, and what the columns are."""
    values = table.values.astype(np.float64)
    rows = len(values)
    kinds = _odd(table, values)
    donors: Makers = {"forest": forest} if rows >= FOREST_ROWS else {}
    if kinds:
        near: Makers = {"neighbours": neighbours} if rows >= FOREST_ROWS else {"empirical": empirical}
        return {**donors, **near}, " and ".join(kinds)
    odd = int((_shape(values) > ODD).sum())
    if odd:
        some = "column is" if odd == 1 else "columns are"
        return {"copula": copula, "gaussian": gaussian, **donors}, f"{odd} {some} skewed or heavy-tailed"
    return {"gaussian": gaussian, "copula": copula, **donors}, "columns are numbers without much skew"


def _odd(table: Table, values: Floats) -> list[str]:
    """What a sampler that computes with its columns cannot redraw, in words."""
    found = ["there are categories"] * bool(table.has("category"))
    found += ["there are missing values"] * bool(np.isnan(values).any())
    low, high = np.nanmin(values, axis=0, initial=np.inf), np.nanmax(values, axis=0, initial=-np.inf)
    constant = [name for name, same in zip(table.columns, high <= low, strict=True) if same]
    if constant and not found:
        found = [f"column {constant[0]!r} is constant (without it other samplers could be used)"]
    return found


def _shape(values: Floats) -> Floats:
    """How far from normal each column is, (columns,): its skewness, or half its excess kurtosis if that is more.

    One column above 1 is enough for a Gaussian to call ordinary values surprising: with every null true and one column
    of six lognormal it made false discoveries in 9 of 10 runs.
    """
    centred = values - values.mean(axis=0)
    scale = np.maximum((centred**2).mean(axis=0), 1e-300)
    skewness, kurtosis = ((centred**k).mean(axis=0) / scale ** (k / 2) for k in (3, 4))
    return np.asarray(np.maximum(np.abs(skewness), (kurtosis - 3) / 2))


def _checked(data: object, table: Table, candidates: Makers, seed: int) -> tuple[str, str]:
    """The first candidate with nothing against it, or else the least wrong; and words.

    Draws that are too wide cost power, all other faults make false discoveries: these count first. Then comes how well
    trees tell draws from real rows.
    """
    order = sorted(range(len(table.columns)), key=lambda j: mark(table.values[:, j]))
    rows = _in_turn(data, order)
    mixed = stream(seed, "auto", "rows").permutation(len(rows))
    size = min(len(mixed) // 5, MOST_HELD_OUT)
    held, kept = rows.iloc[np.sort(mixed[:size])], rows.iloc[np.sort(mixed[size:][:MOST_FITTED])]
    far = _shape(np.nan_to_num(table.values[:, order].astype(np.float64)))
    columns = list(rows.columns[np.sort(np.argsort(-far, kind="stable")[:MOST_COLUMNS])])  # faults are likeliest there
    left = len(order) - len(columns)
    looked_at = f"{len(columns)} columns" + (
        f" (those farthest from normal; {left} were not looked at)" if left else ""
    )
    where = f"{looked_at} of {size} held-out reference rows"
    score: dict[str, tuple[int, int, float]] = {}
    for name, make in candidates.items():
        check = check_table(make(kept), held, subsets=columns, draws=CHECK_DRAWS, seed=seed)
        if check.ok:
            return name, f"nothing was found against it in {where}"
        wrong = [verdict for verdict in check.verdicts if verdict != "ok"]
        apart = float(np.round(np.maximum(check.auc - 0.5, 0).mean(), 2))
        score[name] = len(wrong) - wrong.count("too wide"), len(wrong), apart
    best = min(score, key=lambda name: score[name])  # the first of equals
    found = ", ".join(f"{name} {wrong}" for name, (_, wrong, _) in score.items())
    return best, f"of {where} these looked wrong: {found}"


def _in_turn(data: object, order: list[int]) -> pd.DataFrame:
    """A frame whose columns depend neither on the names nor on the order given: then the choice does not, either."""
    import pandas as pd

    frame = data if is_frame(data) else pd.DataFrame(np.asarray(data))
    return frame.iloc[:, order].set_axis([f"column {k}" for k in range(len(order))], axis=1)
