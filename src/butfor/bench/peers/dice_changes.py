"""What DiCE would change so that a decision is otherwise: how many columns, which, and whether another seed agrees."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.bench.output import Figures

if TYPE_CHECKING:
    import pandas as pd

INPUTS = 10  # of each question: a search takes seconds


def dice_changes(model: Any, inputs: pd.DataFrame, reference: pd.DataFrame, wanted: int) -> Figures | None:
    """Of `INPUTS` inputs: changed decisions that DiCE's default search finds; None where dice-ml is not there."""
    try:
        import dice_ml
    except ImportError:
        return None
    import pandas as pd

    rows = pd.concat([reference, inputs])
    numbers = [name for name in rows if pd.api.types.is_numeric_dtype(rows[name])]
    known = rows.assign(decision=np.asarray(model.predict(rows))).dropna()  # it takes no missing values
    inputs = inputs.dropna()
    aim = "opposite" if len(model.classes_) == 2 else wanted
    search = dice_ml.Dice(
        dice_ml.Data(dataframe=known, continuous_features=numbers, outcome_name="decision"),
        dice_ml.Model(model=model, backend="sklearn"),
        method="random",
    )
    one, two = (_changed(search, inputs.iloc[:INPUTS], aim, seed) for seed in (0, 1))
    pairs = [a & b == a | b for a, b in zip(one, two, strict=True) if a or b]
    often = Counter(name for names in one for name in names).most_common(1)
    return {
        "inputs": min(INPUTS, len(inputs)),
        "found": sum(bool(names) for names in one),
        "columns": float(np.mean([len(names) for names in one if names] or [0])),
        "most": f"{often[0][0]} ({often[0][1]})" if often else "",
        "same": sum(pairs),  # inputs with the same columns at another seed
    }


def _changed(search: Any, inputs: pd.DataFrame, wanted: int | str, seed: int) -> list[set[str]]:
    """The columns that are changed of each input; none: nothing was found."""
    with warnings.catch_warnings(action="ignore"):
        found = search.generate_counterfactuals(inputs, 1, desired_class=wanted, random_seed=seed, verbose=False)
    changed = []
    for (_, row), example in zip(inputs.iterrows(), found.cf_examples_list, strict=True):
        made = example.final_cfs_df
        other = None if made is None or made.empty else made.iloc[0]
        changed.append(
            set() if other is None else {name for name in map(str, inputs.columns) if _differs(row[name], other[name])}
        )
    return changed


def _differs(one: object, other: object) -> bool:
    """Values that are not the same but for DiCE's rounding."""
    if isinstance(one, str):
        return bool(one != other)
    return not np.isclose(np.float64(one), np.float64(other), rtol=1e-2, atol=1e-6)  # type: ignore[arg-type]
