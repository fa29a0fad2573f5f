"""The embedded example: why a model calls a breast tumour malignant, for one patient and for all of them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from butfor.evaluation.progress import Progress
from butfor.results.result import Result
from butfor.results.summary import WIDTH, unknown
from butfor.results.view import answer, called, nearest_case, percent, rows_of, value_text, values
from butfor.tabular.explain import auto, explain

if TYPE_CHECKING:
    import pandas as pd

ALPHA = 0.1
COLUMNS = ["area", "texture", "smoothness", "symmetry"]  # four of 30, picked since they hardly repeat each other
FITTED_ON = 0.3  # of the patients
REFERENCE = 180  # benign patients that the model has not seen
BAR = 30  # characters


@dataclass(frozen=True)
class Demo:
    """The result of malignant patients, that of benign ones, the accuracy of the model and the reference size."""

    malignant: Result
    benign: Result
    accuracy: float
    reference_rows: int

    @property
    def shown(self) -> int:
        """Row of the table that the demo shows: a decisive column, of a patient for whom few columns are enough."""
        result, decided, sets = self.malignant, self.malignant.decided, self.malignant.sets
        assert decided is not None
        assert sets is not None
        single = np.array([name in COLUMNS for name in result.subset_names])[result.subset_of]
        kept = [sets.enough(index) for index in range(len(result.input_names))]
        size = np.array([len(one[0].columns) if one else len(COLUMNS) for one in kept])[result.input_of]
        return int(np.lexsort((-decided.low, size, ~(decided.necessary & single)))[0])

    def summary(self) -> str:
        """Return one patient, a picture of the answer, all patients and the check, for a terminal."""
        result, row, benign = self.malignant, self.shown, self.benign
        position, near = int(result.input_of[row]), nearest_case(result, row)
        name, says = result.input_names[position], called(result)[position]
        before = (
            f"Scikit-learn's breast-cancer data. A logistic regression of {len(COLUMNS)} measurements is right on "
            f"{percent(self.accuracy)} of the patients it has not seen. It calls {name} {says} (probability "
            f"{result.evidence.observed[row]:.2f}): the clearest of {len(result.input_names)}, picked for its answer. "
            f"Why? The reference is {self.reference_rows} benign patients."
        )
        after = (
            f"Check: the same call on {len(benign.input_names)} other benign patients chooses "
            f"{int(benign.chosen.sum())} of {len(benign.chosen)}; there is nothing to find."
        )
        reasons = result.reasons(name)
        lines = [before, "", *self._picture(position), ""]
        lines += reasons.sentence[reasons.kind.isin(["decisive", "enough"])].tolist()
        if near is not None:
            changes = "; ".join(f"{column} {old} → {new}" for column, old, new in near.changes)
            lines.append(f"Nearest change: {changes} ({near.output} {near.before} → {near.after}).")
        about = ("says", "decisive", "enough", "control", "promise")
        lines += ["", *(str(line) for line in answer(result) if line.about in about), after]
        return "\n".join(textwrap.fill(line, WIDTH) if len(line) > WIDTH else line for line in lines)

    def _picture(self, position: int) -> list[str]:
        """Return a bar per column: how often the decision would have been another, but for it."""
        result, decided, lines = self.malignant, self.malignant.decided, list[str]()
        assert decided is not None
        rows = [row for row in rows_of(result, position) if result.subset_names[result.subset_of[row]] in COLUMNS]
        for row in sorted(rows, key=lambda row: -decided.share[row]):
            name = f"{result.subset_names[result.subset_of[row]]} = {value_text(values(result)[row])}"
            words = "not known" if unknown(decided.low[row], decided.high[row]) else percent(decided.share[row])
            bar = "█" * round(BAR * decided.share[row])
            lines.append(f"  {name:<22}{bar:·<{BAR}} {words:>5}{'  decisive' * bool(decided.necessary[row])}")
        return [f"  {'but for its':<22}the decision would have been another in", *lines]

    def to_json(self) -> str:
        return f'{{"malignant": {self.malignant.to_json()}, "benign": {self.benign.to_json()}}}'


def tabular_demo(seed: int = 0, progress: bool | Callable[[Progress], None] | None = None) -> Demo:
    """Fit a model on the bundled breast-cancer data and ask why it calls patients that are new to it "malignant".

    The reference is benign patients whom the model has not seen either (a model is surer of those it was fitted on).
    Other benign patients come from the very population of the reference: the same call must find next to nothing there.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits

    rows, labels = patients()
    rows = rows[[f"mean {name}" for name in COLUMNS]].set_axis(COLUMNS, axis=1).rename(index="patient {}".format)
    known, others, seen, truth = train_test_split(
        rows, labels.to_numpy(), train_size=FITTED_ON, stratify=labels, random_state=seed
    )
    benign = others[truth == "benign"]
    reference = benign[:REFERENCE]
    with threadpool_limits(1):  # threads that wait for each other on a busy machine cost more than they save here
        model = make_pipeline(StandardScaler(), LogisticRegression()).fit(known, seen)
        settings = {"alpha": ALPHA, "seed": seed, "progress": progress}
        sampler = auto(reference)
        result = explain(model, others[truth == "malignant"], sampler, None, settings)
        check = explain(model, benign[REFERENCE:], sampler, None, settings)
        accuracy = float(model.score(others, truth))
    return Demo(_sourced(result, "malignant"), _sourced(check, "benign"), accuracy, len(reference))


def patients() -> tuple[pd.DataFrame, pd.Series[str]]:
    """569 patients, 30 columns; and "malignant" or "benign" for each."""
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer(as_frame=True)
    return bunch.data, bunch.target.map(dict(enumerate(bunch.target_names.tolist())))


def _sourced(result: Result, who: str) -> Result:
    sources = {
        "model": f"logistic regression, fitted on {percent(FITTED_ON)} of the patients",
        "data": f"{len(result.input_names)} {who} patients of scikit-learn's breast-cancer data, new to the model",
        "reference": f"{REFERENCE} benign patients, new to the model",
    }
    return result.with_sources(**sources)
