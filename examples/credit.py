"""Why was this one declined? A made table of loan applications with categories, whole numbers and missing values.

The reference: applicants whom the model *approves*. For each declined one it is asked whether the decision would have
been otherwise, had some columns been as in an approved applicant who is alike in all else. Declined applicants are
picked by the model's output. That question does not mind: the applicant is fixed, and only the redrawn columns vary.
"""

import sys

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

import butfor


def main(report: str | None = None) -> butfor.Result:
    """Fit a model, explain applicants whom it declines, print, and return the result."""
    model, declined, approved = question()
    result = butfor.explain(model, declined, approved[:1000])
    print(result.summary())
    first = result.input_names[0]
    print(f"\n{first}:")
    for sentence in result.reasons(first).sentence:
        print(" -", sentence)
    if report is not None:
        result.report(report)
    return result


def question(inputs: int = 80) -> tuple[HistGradientBoostingClassifier, pd.DataFrame, pd.DataFrame]:
    """A model of half of the applications; of the other half, whom it declines (the first few) and whom it approves."""
    table, defaulted = applications(3000)
    model = HistGradientBoostingClassifier(max_iter=60, random_state=0)
    model.fit(table[:1500], np.where(defaulted[:1500], "decline", "approve"))
    rest = table[1500:]
    said = model.predict(rest)
    return model, rest[said == "decline"][:inputs], rest[said == "approve"]


def applications(rows: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Loan applications, and who defaulted later."""
    rng = np.random.default_rng(seed)
    care, noise = rng.normal(size=rows), rng.normal(size=(5, rows))  # how somebody deals with money: no column says it
    age = rng.integers(21, 70, rows)
    years = np.clip(0.45 * (age - 20) + 4 * noise[0], 0, age - 18)
    income = np.exp(7.6 + 0.012 * (age - 45) + 0.02 * years + 0.2 * noise[1])
    housing = np.where(age + 8 * noise[2] < 38, "rent", np.where(age + 8 * noise[2] < 58, "mortgage", "own"))
    purpose = rng.choice(["car", "house", "business", "debts"], rows, p=[0.35, 0.3, 0.15, 0.2])
    late = rng.poisson(np.exp(-0.7 - 0.9 * care))
    used = 1 / (1 + np.exp(0.6 + 1.1 * care + 0.6 * noise[3]))  # share of the credit lines in use
    debt_ratio = 0.5 / (1 + np.exp(0.5 + 0.5 * care + 0.8 * noise[4]))
    score = np.round(690 + 35 * care - 12 * np.minimum(late, 5) - 40 * (used - 0.4) + 18 * rng.normal(size=rows))
    risk = -6.2 + 0.8 * late + 3 * used + 9 * debt_ratio - 0.02 * (score - 690) - 0.4 * (housing == "own")
    table = pd.DataFrame(
        {
            "age": age,
            "income": np.where(rng.random(rows) < 0.08, np.nan, income.round(-1)),
            "housing": pd.Categorical(housing),
            "purpose": pd.Categorical(purpose),
            "debt_ratio": debt_ratio.round(3),
            "late_payments": late,
            "used": used.round(3),
            "score": score,
            "years_employed": years.round(),
            "open_accounts": rng.poisson(4, rows),
        },
        index=[f"loan {i}" for i in range(rows)],
    )
    return table, rng.random(rows) < 1 / (1 + np.exp(-risk))


if __name__ == "__main__":
    main(report=sys.argv[1] if len(sys.argv) > 1 else None)
