"""The embedded example: what sets malignant breast tumours apart, to a model, from benign ones."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from butfor.core.draw.samplers import Sampler
from butfor.core.result.result import Result
from butfor.core.result.summary import WIDTH
from butfor.run.progress import Progress
from butfor.tabular.copula import copula
from butfor.tabular.explain import explain

if TYPE_CHECKING:
    import pandas as pd

Reporting = bool | Callable[[Progress], None] | None

DRAWS = 1000
ALPHA = 0.1


@dataclass(frozen=True)
class Demo:
    """The malignant patients' result, the check on benign ones, how good the model is and how large its reference."""

    malignant: Result
    benign: Result
    accuracy: float
    reference_rows: int

    def summary(self) -> str:
        """What the demo did and found, for a terminal."""
        benign, found = len(self.benign.input_names), int(self.benign.chosen.sum())
        before = (
            f"Scikit-learn's breast-cancer data. A model is fitted on one part of the patients and is right on "
            f"{self.accuracy:.0%} of the others. The reference is the {self.reference_rows} benign patients of the "
            "first part: it says what a measurement looks like when there is nothing to report. Which measurements "
            'make the held-out malignant patients look "malignant" to the model, beyond what a benign patient\'s would?'
        )
        after = (
            f"Check: the same call on the {benign} held-out benign patients chooses {found} of "
            f"{len(self.benign.chosen)}. They come from the reference's own population, so a valid test finds (nearly) "
            "nothing there."
        )
        return "\n".join([textwrap.fill(before, WIDTH), "", self.malignant.summary(), "", textwrap.fill(after, WIDTH)])

    def to_json(self) -> str:
        """Both results as JSON."""
        return f'{{"malignant": {self.malignant.to_json()}, "benign": {self.benign.to_json()}}}'


def tabular_demo(seed: int = 0, progress: Reporting = None) -> Demo:
    """Fit a model on the bundled breast-cancer data and test the ten measurements of held-out patients.

    The reference is the benign training patients. A malignant patient's measurement is chosen if the model's
    probability of "malignant" would be surprising, had that measurement been a benign patient's. Benign held-out
    patients come from the very population of the reference: the same call must find next to nothing there.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import train_test_split
    from threadpoolctl import threadpool_limits

    rows, labels = patients()
    trained, held_out, seen, truth = train_test_split(rows, labels, test_size=0.4, stratify=labels, random_state=seed)
    reference = trained[seen == "benign"]
    with threadpool_limits(1):  # threads that wait for each other on a busy machine cost more than they save here
        model = HistGradientBoostingClassifier(random_state=seed).fit(trained, seen)
        sampler = copula(reference)
        malignant = _test(model, held_out[truth == "malignant"], sampler, seed, progress)
        benign = _test(model, held_out[truth == "benign"], sampler, seed, progress)
        accuracy = float(model.score(held_out, truth))
    source = f"{len(reference)} benign training patients"
    return Demo(_sourced(malignant, "malignant", source), _sourced(benign, "benign", source), accuracy, len(reference))


def patients() -> tuple[pd.DataFrame, pd.Series[str]]:
    """569 patients, 30 columns; and "malignant" or "benign" for each."""
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer(as_frame=True)
    return bunch.data, bunch.target.map(dict(enumerate(bunch.target_names.tolist())))


def measurements(rows: pd.DataFrame) -> dict[str, list[str]]:
    """The ten measurements: the mean, error and worst column of each are one group.

    >>> list(measurements(patients()[0]))[:3], measurements(patients()[0])["radius"]
    (['radius', 'texture', 'perimeter'], ['mean radius', 'radius error', 'worst radius'])
    """
    groups: dict[str, list[str]] = {}
    for column in rows.columns:
        name = column.removeprefix("mean ").removeprefix("worst ").removesuffix(" error")
        groups.setdefault(name, []).append(column)
    return groups


def _test(model: object, rows: pd.DataFrame, sampler: Sampler, seed: int, progress: Reporting) -> Result:
    settings = {
        "test": "irt",
        "alternative": "greater",
        "target": "malignant",
        "link": "logit",  # changes no choice; effects of a model this sure are readable as log-odds only
        "alpha": ALPHA,
        "draws": DRAWS,
        "seed": seed,
        "progress": progress,
    }
    return explain(model, rows, sampler, measurements(rows), settings)


def _sourced(result: Result, who: str, reference: str) -> Result:
    """The result with words on where it came from, for its report."""
    provenance = {
        "model": "HistGradientBoostingClassifier, fitted on the training patients",
        "data": f"{len(result.input_names)} held-out {who} patients of scikit-learn's breast-cancer data",
        "reference": reference,
    }
    return replace(result, provenance={**result.provenance, **provenance})
