"""Which genes make a leukemia look myeloid (AML) to a model? 72 patients of Golub et al. (1999), 500 probes each.

The reference: the 47 patients with the other leukemia, ALL. So a probe of an AML patient is chosen if the model would
be less sure of AML, had that probe been as in an ALL patient with the same other probes. Healthy controls would ask
another question (what makes a leukemia look like a leukemia?), and there are none in these data.

The patients were picked by their diagnosis. Each is judged by the model that was fitted on the *other* half of the
study, so that no model has seen the patient it explains. 500 probes of 47 patients: more columns than rows, so the
sampler is a Gaussian with a shrunk covariance. So few patients are too few to check it; instead the same call is made
once more where there is nothing to find, on 12 ALL patients with the other 35 as the reference.
"""

import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import butfor

ASSETS = Path(os.environ.get("BUTFOR_ASSETS", "../shared/assets"))
PROBES = 500


def main(assets: Path = ASSETS, report: str | None = None, patients: int | None = None) -> butfor.Result:
    """Fit, test all AML patients (or the first few), print, and return the result."""
    expression, facts = read(assets)
    model = fitted_on_the_other_half(expression, facts)
    reference = expression[facts.label == "ALL"]
    start, work = time.perf_counter(), time.process_time()
    found = test(model, expression[facts.label == "AML"][:patients], reference)
    took, worked = time.perf_counter() - start, time.process_time() - work
    print(found.summary())
    print(told(found, assets))
    order = np.random.default_rng(0).permutation(len(reference))
    check = test(model, reference.iloc[order[:12]], reference.iloc[order[12:]])
    print(
        f"Check: the same call on {len(check.input_names)} ALL patients, with the other ALL patients as the reference, "
        f"chooses {check.chosen.sum()} of {len(check.chosen)}. There is nothing to find there, so what it chooses says "
        "how far to trust the sampler."
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2 ** (10 if sys.platform != "darwin" else 20)
    print(f"The test of the AML patients took {took:.0f} s ({worked:.0f} s of a processor); {peak:.0f} MB at the most.")
    if report is not None:
        found.report(report)
    return found


HALVES = ("train", "independent")


def read(assets: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Log expression of the most variable probes by patient, and each patient's diagnosis and half of the study."""
    data = pd.read_csv(assets / "tabular" / "golub_leukemia.csv.gz", index_col="patient")
    facts = data[["split", "label"]]
    expression = np.arcsinh(data.drop(columns=["split", "label"]) / 100)  # a logarithm that knows values about zero
    return expression[expression.var().nlargest(PROBES).index], facts


def fitted_on_the_other_half(expression: pd.DataFrame, facts: pd.DataFrame) -> Callable:
    """Log-odds of AML. Counterfactual rows keep the index of their patient, which says which model to ask."""
    models = {}
    for half in HALVES:
        others = facts.split != half
        model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01))
        models[half] = model.fit(expression[others].to_numpy(), facts.label[others] == "AML")

    def log_odds(rows: pd.DataFrame) -> np.ndarray:
        values, halves, found = rows.to_numpy(), facts.split[rows.index], np.empty(len(rows))
        for half, model in models.items():
            mine = (halves == half).to_numpy()
            if mine.any():
                found[mine] = model.decision_function(values[mine])
        return found

    return log_odds


def test(model: Callable, patients: pd.DataFrame, reference: pd.DataFrame) -> butfor.Result:
    """The sequential test of every probe of every patient, towards AML."""
    return butfor.explain(model, patients, butfor.tabular.gaussian(reference), alternative="greater")


def told(found: butfor.Result, assets: Path) -> str:
    """The probes that were chosen for most patients, with what they measure."""
    names = pd.read_csv(assets / "tabular" / "golub_probe_names.csv", index_col="probe").description
    counts = found.table[found.chosen].subset.value_counts().head(10)
    lines = [f"{count:4d}  {probe:<20}  {names[probe]}" for probe, count in counts.items()]
    return "\n".join(["", f"Probes chosen for most of the {len(found.input_names)} AML patients:", *lines, ""])


if __name__ == "__main__":
    main(report=sys.argv[1] if len(sys.argv) > 1 else None)
