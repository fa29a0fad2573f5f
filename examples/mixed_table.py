"""Why did these borrowers default, to a model? A made table with categories, whole numbers, yes/no and missing values.

The reference: applicants who *repaid*. A feature of a defaulter is chosen if the model would be less sure of a default,
had that feature been as in somebody who repaid and is alike in everything else. Defaulters were picked by what
happened, not by what the model says of them, and the model has seen none of those explained here.

The table is made, so the truth is known: a defaulter has one or two reasons (late payments, a job lost, debt), and all
else follows from that as it does with everybody. Who is in debt has more credits open, so these stand out as well; but
given the debt they are as in anybody, and so they are no reason.
"""

import sys

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

import butfor

REASONS = ["late_payments", "job", "debt_ratio"]
JOBS = ["employed", "public", "self-employed", "none"]


def main(report: str | None = None, rows: int = 6000) -> butfor.Result:
    """Make the table, fit a model on half of it, explain defaulters of the other half, print, return the result."""
    table, reasons = applicants(rows)
    defaulted = reasons.any(axis=1)
    seen = np.arange(rows) < rows // 2
    model = HistGradientBoostingClassifier(max_iter=60, random_state=0)  # takes categories and gaps as they are
    model.fit(table[seen], np.where(defaulted[seen], "default", "repaid"))
    reference = table[seen & ~defaulted]
    inputs = table[~seen & defaulted][:120]
    result = butfor.explain(
        model, inputs, butfor.tabular.forest(reference), target="default", alternative="greater", link="logit"
    )
    print(result.summary())
    print(told(result, reasons))
    if report is not None:
        result.report(report)
    return result


def applicants(rows: int, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A table of loan applicants, and which of the three reasons each has to default."""
    rng = np.random.default_rng(seed)
    reasons = pd.DataFrame(rng.random((rows, 3)) < 0.06, columns=REASONS, index=[f"loan {i}" for i in range(rows)])
    late, lost, debt = reasons.to_numpy().T
    job = np.where(lost, "none", rng.choice(JOBS, rows, p=[0.6, 0.25, 0.145, 0.005]))
    school = rng.choice(["basic", "middle", "high"], rows, p=[0.3, 0.5, 0.2])
    debt_ratio = np.where(debt, rng.uniform(0.6, 0.9, rows), rng.beta(2, 8, rows))
    income = np.round(np.exp(7.6 + 0.3 * (school == "high") + 0.3 * rng.normal(size=rows)), -1)
    stated = rng.random(rows) > np.where(job == "self-employed", 0.5, 0.1)
    table = pd.DataFrame(
        {
            "age": rng.integers(21, 70, rows),
            "school": pd.Categorical(school),
            "job": pd.Categorical(job, JOBS),
            "income": np.where(stated, income, np.nan),
            "late_payments": np.where(late, rng.integers(4, 9, rows), rng.poisson(0.3, rows)),
            "debt_ratio": debt_ratio,
            "open_credits": rng.poisson(0.5 + 8 * debt_ratio),
            "guarantor": rng.random(rows) < 0.2,
        },
        index=reasons.index,
    )
    return table, reasons


def told(result: butfor.Result, reasons: pd.DataFrame) -> str:
    """What was found of the truth."""
    table = result.table
    real = np.array(
        [name in REASONS and reasons.loc[loan, name] for loan, name in zip(table.input, table.subset, strict=True)]
    )
    found, right = int(result.chosen.sum()), int((result.chosen & real).sum())
    return (
        f"\nThe truth: these {len(result.input_names)} defaulters have {real.sum()} reasons. {right} of them were "
        f"found, and {found - right} of the {found} discoveries are none of them."
    )


if __name__ == "__main__":
    main(report=sys.argv[1] if len(sys.argv) > 1 else None)
