"""The embedded example: features by which a model tells malignant breast tumours from benign ones."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from butfor.evaluation.progress import Progress
from butfor.results.result import Result
from butfor.results.summary import WIDTH
from butfor.tabular.explain import auto, explain

if TYPE_CHECKING:
    import pandas as pd

Reporting = bool | Callable[[Progress], None] | None

ALPHA = 0.1
FITTED_ON = 0.3  # of the patients
REFERENCE = 180  # benign patients that the model has not seen
KINDS = {
    "size": ("radius", "perimeter", "area"),
    "outline": ("smoothness", "compactness", "concavity", "concave points", "symmetry", "fractal dimension"),
    "texture": ("texture",),
}


@dataclass(frozen=True)
class Demo:
    """The result of malignant patients, that of benign ones, the accuracy of the model and the reference size."""

    malignant: Result
    benign: Result
    accuracy: float
    reference_rows: int

    def summary(self) -> str:
        """Return the steps and results of the demo, for a terminal."""
        benign, false = len(self.benign.input_names), int(self.benign.chosen.sum())
        before = (
            f"Scikit-learn's breast-cancer data. A model is fitted on a third of the patients and is right on "
            f"{self.accuracy:.0%} of the others. The reference is {self.reference_rows} benign patients among those: "
            "it says what a tumour looks like when there is nothing to report. Would the model have called the "
            'malignant ones "malignant", but for their size, their outline, their texture?'
        )
        after = (
            f"Check: the same call on {benign} other benign patients chooses {false} of {len(self.benign.chosen)}. "
            "They come from the reference's own population, so a valid test finds (nearly) nothing there."
        )
        return "\n".join([textwrap.fill(before, WIDTH), "", self.malignant.summary(), "", textwrap.fill(after, WIDTH)])

    def to_json(self) -> str:
        """Both results as JSON."""
        return f'{{"malignant": {self.malignant.to_json()}, "benign": {self.benign.to_json()}}}'


def tabular_demo(seed: int = 0, progress: Reporting = None) -> Demo:
    """Fit a model on the bundled breast-cancer data and ask why it calls patients that are new to it "malignant".

    The reference is benign patients whom the model has not seen either (a model is surer of those it was fitted on).
    Other benign patients come from the very population of the reference: the same call must find next to nothing there.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import train_test_split
    from threadpoolctl import threadpool_limits

    rows, labels = patients()
    known, others, seen, truth = train_test_split(
        rows, labels, train_size=FITTED_ON, stratify=labels, random_state=seed
    )
    benign = others[truth == "benign"]
    reference = benign[:REFERENCE]
    with threadpool_limits(1):  # threads that wait for each other on a busy machine cost more than they save here
        model = HistGradientBoostingClassifier(random_state=seed).fit(known, seen)
        settings = {"alpha": ALPHA, "seed": seed, "progress": progress}
        sampler, groups = auto(reference), measurements(rows)
        result = explain(model, others[truth == "malignant"], sampler, groups, settings)
        check = explain(model, benign[REFERENCE:], sampler, groups, settings)
        accuracy = float(model.score(others, truth))
    return Demo(_sourced(result, "malignant"), _sourced(check, "benign"), accuracy, len(reference))


def patients() -> tuple[pd.DataFrame, pd.Series[str]]:
    """569 patients, 30 columns; and "malignant" or "benign" for each."""
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer(as_frame=True)
    return bunch.data, bunch.target.map(dict(enumerate(bunch.target_names.tolist())))


def measurements(rows: pd.DataFrame) -> dict[str, dict[str, list[str]]]:
    """Three kinds of measurements, ten in all: the mean, error and worst column of each belong together.

    >>> list(measurements(patients()[0])), measurements(patients()[0])["size"]["radius"]
    (['size', 'outline', 'texture'], ['mean radius', 'radius error', 'worst radius'])
    """
    groups: dict[str, list[str]] = {}
    for column in rows.columns:
        name = column.removeprefix("mean ").removeprefix("worst ").removesuffix(" error")
        groups.setdefault(name, []).append(column)
    return {kind: {name: groups[name] for name in names} for kind, names in KINDS.items()}


def _sourced(result: Result, who: str) -> Result:
    """Return the result with its sources, for its report."""
    sources = {
        "model": f"HistGradientBoostingClassifier, fitted on {FITTED_ON:.0%} of the patients",
        "data": f"{len(result.input_names)} {who} patients of scikit-learn's breast-cancer data, new to the model",
        "reference": f"{REFERENCE} benign patients, new to the model",
    }
    return result.with_sources(**sources)
