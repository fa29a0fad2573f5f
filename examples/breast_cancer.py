"""Which measurements make malignant tumours look malignant to a model? Ten groups of three columns each.

The reference: benign training patients, since the question is what a malignant tumour has that a benign one has not.
The patients explained were picked by their diagnosis, not by what the model says of them, so nothing else is needed
for the guarantee. Benign held-out patients come from the reference's own population: there is nothing to find.

Mean, error and worst value of a measurement belong together: one of them alone, given the other two, is seldom a
surprise. So each measurement is tested as one group.
"""

import sys

from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

import butfor
from butfor.tabular.demo import measurements


def main(report: str | None = None) -> butfor.Result:
    """Fit, test, print, and return the result."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)  # 0 is malignant
    train, held_out, seen, truth = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
    model = HistGradientBoostingClassifier(random_state=0).fit(train, seen)
    sampler = butfor.tabular.copula(train[seen == 1])
    patients = held_out[truth == 0]
    result = butfor.explain(
        model, patients, sampler, subsets=measurements(patients), target=0, alternative="greater", link="logit"
    )
    print(result.summary())
    if report is not None:
        result.report(report)
    return result


if __name__ == "__main__":
    main(report=sys.argv[1] if len(sys.argv) > 1 else None)
