"""Five ordinary questions by the one-line call, each with its answer and with its check.

The reference of each: rows of the kind one compares with (approved, low, the other wines, benign, the digit 3) that the
model was *not* fitted on. A model is surer of rows that it has learned from, and that alone sets other rows apart.
The check is the same call on further rows of the reference's own kind: there is nothing to find in them.
"""

import sys
import time
from dataclasses import dataclass

import numpy as np
import pandas as pd
from credit import question
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import butfor

SET_ASIDE = 0.3  # of the rows of the reference's kind: for the check


@dataclass(frozen=True)
class Case:
    """A question, its answer, and the same call where there is nothing to find."""

    question: str
    result: butfor.Result
    check: butfor.Result


def credit() -> Case:
    """Mixed types: a made table of loans."""
    model, declined, approved = question()
    return ask("Why did the model decline them? 80 declined against approved.", model, declined, approved[:1200])


def diabetes() -> Case:
    """A regression model, and a decision that the user makes of its output."""
    rows, progress = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    train, rest, seen, truth = train_test_split(rows, progress, test_size=0.6, random_state=0)
    model = make_pipeline(StandardScaler(), Ridge(10)).fit(train, seen)
    text = "Why is much progress of the disease expected? Patients with much of it (150 or more) against the others."
    much = truth >= 150
    return ask(text, model, rest[much], rest[~much], decide=lambda outputs: outputs >= 150, alternative="greater")


def wine() -> Case:
    """Three classes; the inputs are of one of them."""
    rows, cultivar = load_wine(return_X_y=True, as_frame=True)
    rest, truth, model = fitted(rows, cultivar, make_pipeline(StandardScaler(), LogisticRegression()))
    return ask("What makes a wine a Barolo (class 0)? Against the others.", model, rest[truth == 0], rest[truth != 0])


def breast_cancer() -> Case:
    """Thirty columns that hang together closely."""
    rows, kind = load_breast_cancer(return_X_y=True, as_frame=True)
    kind = kind.map({0: "malignant", 1: "benign"})
    rest, truth, model = fitted(rows, kind, HistGradientBoostingClassifier(max_iter=50, random_state=0))
    text = "Why does a tumour look malignant? Malignant against benign."
    return ask(text, model, rest[truth == "malignant"], rest[truth == "benign"])


def digits() -> Case:
    """Sixty-four columns, which are pixels; a tree of one's own: halves, quarters, squares of four pixels."""
    rows, digit = load_digits(return_X_y=True, as_frame=True)
    rows, digit = rows[digit.isin([3, 8])], digit[digit.isin([3, 8])]
    rest, truth, model = fitted(rows, digit, make_pipeline(StandardScaler(), LogisticRegression(C=0.1)))
    tree = {half: {f"{half} {part}": tiles(half, part) for part in ("top", "bottom")} for half in ("left", "right")}
    return ask("Which pixels make it an 8, not a 3?", model, rest[truth == 8], rest[truth == 3], subsets=tree)


def tiles(half: str, part: str) -> dict[str, list[str]]:
    """The squares of four pixels in a quarter of the picture, by their upper left corner."""
    corners = [(4 * (part == "bottom") + i, 4 * (half == "right") + j) for i in (0, 2) for j in (0, 2)]
    return {f"{i}, {j}": [f"pixel_{i + a}_{j + b}" for a in (0, 1) for b in (0, 1)] for i, j in corners}


def fitted(rows: pd.DataFrame, label: pd.Series, model: ClassifierMixin) -> tuple[pd.DataFrame, pd.Series, object]:
    """Rows that the model has not seen, their labels, and the model."""
    train, rest, seen, truth = train_test_split(rows, label, test_size=0.6, stratify=label, random_state=0)
    return rest, truth, model.fit(train, seen)


def ask(text: str, model: object, inputs: pd.DataFrame, alike: pd.DataFrame, **options: object) -> Case:
    """The call, on the inputs and on rows of the reference's own kind that were set aside."""
    mixed = alike.iloc[np.random.default_rng(0).permutation(len(alike))]
    aside = int(SET_ASIDE * len(mixed))
    reference = mixed[aside:]
    result = butfor.explain(model, inputs, reference, **options)
    return Case(text, result, butfor.explain(model, mixed[:aside], reference, enough=None, **options))


CASES = {"credit": credit, "diabetes": diabetes, "wine": wine, "breast cancer": breast_cancer, "digits": digits}


def main(*names: str) -> None:
    """Print the answers of the cases named, or of all."""
    for name in names or CASES:
        start = time.process_time()
        case = CASES[name]()
        check = case.check
        print(f"{name}: {case.question}\n\n{case.result}")
        print(f"Check: on {len(check.input_names)} rows of the reference's own kind {check.chosen.sum()} are chosen.")
        print(f"{time.process_time() - start:.0f} s of a processor\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
