"""A display as scikit-learn has them, beside one of its own; skore takes it for one of its own, too.

The reference is what malignant tumours are compared with: benign ones that the model has not seen.
"""

from typing import Any

import matplotlib.pyplot as plt
import skore
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import RocCurveDisplay
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import butfor


def main() -> Any:
    """Draw how well a model does and what it relies on, side by side; return our display."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.loc[:, "worst radius":"worst concave points"]
    train, held_out, seen, truth = train_test_split(X, y, random_state=0)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(train, seen)

    _, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    RocCurveDisplay.from_estimator(model, held_out, truth, ax=left)
    display = butfor.ExplanationDisplay.from_estimator(
        model, held_out[truth == 0], reference=held_out[truth == 1], kind="decision", ax=right
    )
    print("A display for skore:", isinstance(display, skore.Display))
    print(display.frame()[["subset", "chosen", "effect", "inputs_necessary"]])
    return display


if __name__ == "__main__":
    main().figure_.savefig("tumours.png")
