"""A made table of loan applications: numbers, counts, categories and missing values that hang together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from butfor.streams import stream
from butfor.types import Bools

if TYPE_CHECKING:
    import pandas as pd


def credit(rows: int, seed: int = 0) -> tuple[pd.DataFrame, Bools, Bools]:
    """Applications, who defaulted later, and who was declined by a rule with some noise.

    Late payments, the use of credit lines, the debt ratio and the score share a cause that no column has.

    Parameters
    ----------
    rows : how many.
    seed : the same seed gives the same table.

    Examples
    --------
    >>> frame, defaulted, declined = credit(500)
    >>> frame.shape, bool(0.05 < defaulted.mean() < 0.5), bool(0.05 < declined.mean() < 0.5)
    ((500, 10), True, True)
    """
    import pandas as pd

    rng = stream(seed, "credit")
    care, noise = rng.standard_normal(rows), rng.standard_normal((6, rows))
    age = rng.integers(21, 70, rows)
    years = np.clip(0.4 * (age - 20) + 4 * noise[0], 0, age - 18).round(1)
    income = np.exp(7.7 + 0.01 * (age - 45) + 0.02 * years + 0.25 * noise[1])
    housing = np.select([age + 9 * noise[2] < 38, age + 9 * noise[2] < 58], ["rent", "mortgage"], "own")
    purpose = rng.choice(["car", "house", "business", "debts"], rows, p=[0.35, 0.3, 0.15, 0.2])
    late = rng.poisson(np.exp(-0.8 - 0.9 * care))
    use = 1 / (1 + np.exp(0.6 + 1.1 * care + 0.6 * noise[3]))
    debt_ratio = 0.6 / (1 + np.exp(0.6 + 0.5 * care + 0.8 * noise[4]))
    score = np.round(690 + 35 * care - 12 * np.minimum(late, 5) - 40 * (use - 0.4) + 18 * noise[5])
    amount = np.exp(8.5 + 0.4 * np.log(income) - 3 + 0.5 * rng.standard_normal(rows)).round(-2)
    risk = 0.7 * late + 2.5 * use + 7 * debt_ratio - 0.018 * (score - 690) - 0.3 * (housing == "own")
    frame = pd.DataFrame(
        {
            "age": age,
            "years employed": years,
            "income": np.where(rng.random(rows) < 0.06, np.nan, income.round(-1)),
            "housing": pd.Categorical(housing),
            "purpose": pd.Categorical(purpose),
            "amount": amount,
            "debt ratio": debt_ratio.round(3),
            "late payments": late,
            "use": use.round(3),
            "score": score,
        }
    )
    defaulted = rng.random(rows) < 1 / (1 + np.exp(-(risk - 4.5)))
    return frame, defaulted, risk + 0.3 * rng.standard_normal(rows) > 4.3
