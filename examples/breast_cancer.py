"""Would the model have called these tumours malignant, but for their size, outline or texture?

The reference: benign patients, since the question is what a malignant tumour has that a benign one has not. The model
has seen none of them: it is surer of rows it was fitted on. The patients explained were picked by their diagnosis, not
by what the model says of them, so nothing else is needed for the guarantee. Other benign patients come from the
reference's own population: there is nothing to find.

Thirty columns tell much of the same: one of them alone, given all others, is seldom a surprise. So three kinds of
measurements are tested first, then each measurement (its mean, error and worst value together).
"""

import sys

from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

import butfor
from butfor.tabular.demo import patients

KINDS = {
    "size": ("radius", "perimeter", "area"),
    "outline": ("smoothness", "compactness", "concavity", "concave points", "symmetry", "fractal dimension"),
    "texture": ("texture",),
}


def measurements() -> dict[str, dict[str, list[str]]]:
    """Three kinds of measurements, ten in all: the mean, error and worst column of each belong together."""
    columns = {name: [f"mean {name}", f"{name} error", f"worst {name}"] for names in KINDS.values() for name in names}
    return {kind: {name: columns[name] for name in names} for kind, names in KINDS.items()}


def main(report: str | None = None) -> butfor.Result:
    """Fit, test, print, and return the result."""
    X, y = patients()
    known, others, seen, truth = train_test_split(X, y, train_size=0.3, stratify=y, random_state=0)
    model = HistGradientBoostingClassifier(random_state=0).fit(known, seen)
    malignant, benign = others[truth == "malignant"], others[truth == "benign"]
    result = butfor.explain(model, malignant, benign[:180], subsets=measurements())
    print(result.summary())
    check = butfor.explain(model, benign[180:], benign[:180], subsets=measurements())
    print(f"\nOther benign patients: {check.chosen.sum()} of {len(check.chosen)} chosen.")
    if report is not None:
        result.report(report)
    return result


if __name__ == "__main__":
    main(report=sys.argv[1] if len(sys.argv) > 1 else None)
