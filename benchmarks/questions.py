"""Ordinary questions on real and realistic tables: what the default call establishes, and on rows of the reference."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.beds import credit
from benchmarks.figures import Figures
from butfor import Result, explain
from butfor.streams import stream
from butfor.types import Bools, Floats

if TYPE_CHECKING:
    import pandas as pd

ALPHA = 0.1
Maker = Callable[[int], "Question"]


@dataclass(frozen=True, eq=False)
class Question:
    """A fitted model, the rows in question, what they are compared against, and held-out rows of that very kind."""

    model: Any
    inputs: Any
    reference: Any
    own_kind: Any  # of the reference, not in it
    target: Any = None


def run(splits: int = 20, seed: int = 0, only: tuple[str, ...] = ()) -> Figures:
    """Every question once in full, and on `splits` splits the same call on rows of the reference's own kind."""
    names = [name for name in QUESTIONS if not only or name in only]
    return {
        "questions": {name: _answered(QUESTIONS[name](seed)) for name in names},
        "own_kind": {name: _own_kind(QUESTIONS[name], splits, seed) for name in names},
    }


def _answered(question: Question) -> Figures:
    start = process_time()
    result = _explained(question, question.inputs)
    layers = result.hypotheses.layers
    assert layers is not None
    features, decided = result.features, result.decided
    below = layers.resolution > 0
    return {
        "inputs": len(result.input_names),
        "seconds": round(process_time() - start, 1),
        "rows": result.rows,
        "any": _inputs(result, result.chosen),
        "below_root": _inputs(result, result.chosen & below),
        "single": _inputs(result, result.chosen & _single(result)),
        "features": int(features.chosen.sum()),
        "features_finest": [str(name) for name in features.subset[features.chosen]][-3:],
        "necessary": None if decided is None else _inputs(result, decided.necessary),
        "necessary_below": None if decided is None else _inputs(result, decided.necessary & below),
        "most": _most(result),
        "control": 0 if result.control is None else int(result.control.chosen.sum()),
    }


def _inputs(result: Result, marked: Bools) -> int:
    """Inputs with something marked."""
    return len(np.unique(result.input_of[marked]))


def _single(result: Result) -> Bools:
    sizes = {block.subset.name: len(block.subset.index) for block in result.hypotheses.blocks}
    return np.array([sizes[name] == 1 for name in result.subset_names])[result.subset_of]


def _most(result: Result) -> str:
    """The finest subset that is chosen for most inputs."""
    layers = result.hypotheses.layers
    assert layers is not None
    count = np.bincount(result.subset_of[layers.finest(result.chosen)], minlength=len(result.subset_names))
    return f"{result.subset_names[int(count.argmax())]} ({count.max()})" if count.any() else ""


def _explained(question: Question, inputs: pd.DataFrame) -> Result:
    with warnings.catch_warnings(action="ignore"):
        return explain(question.model, inputs, question.reference, target=question.target, alpha=ALPHA)


def _own_kind(make: Maker, splits: int, seed: int) -> Figures:
    """On how many splits anything is chosen for held-out rows of the reference's own kind, by rows and by features."""
    rows = features = 0
    for number in range(seed, seed + splits):
        question = make(number)
        result = _explained(question, question.own_kind)
        rows += bool(result.chosen.any())
        features += bool(result.features.chosen.any())
    return {"rows": rows, "features": features, "of": splits}


def _split(seed: int, rows: int) -> tuple[Any, Any, Any]:
    """Rows to fit the model on, for the reference, and to ask about: a model is too sure of what it has seen."""
    mixed = stream(seed, "questions", "split").permutation(rows)
    first, second = int(0.4 * rows), int(0.75 * rows)
    return mixed[:first], mixed[first:second], mixed[second:]


def _classified(frame: pd.DataFrame, labels: Floats, seed: int, label: int, against: int, model: Any) -> Question:
    """Inputs of one label against the reference of another."""
    fit, known, test = _split(seed, len(frame))
    fitted = model.fit(frame.iloc[fit], labels[fit])
    return Question(
        fitted,
        frame.iloc[test][labels[test] == label].iloc[:80],
        frame.iloc[known][labels[known] == against],
        frame.iloc[test][labels[test] == against].iloc[:100],
    )


def _boosted(**more: Any) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=50, random_state=0, **more)


def _breast_cancer(seed: int) -> Question:
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer(as_frame=True)
    return _classified(data.data, data.target.to_numpy(), seed, 0, 1, _boosted())


def _wine(seed: int) -> Question:
    from sklearn.datasets import load_wine
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    data, model = load_wine(as_frame=True), make_pipeline(StandardScaler(), LogisticRegression())
    return _classified(data.data, data.target.to_numpy(), seed, 0, 1, model)


def _digits(seed: int) -> Question:
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    data = load_digits(as_frame=True)
    both = data.target.isin([3, 8])
    frame = data.data[both].loc[:, data.data[both].nunique() > 1].reset_index(drop=True)
    return _classified(frame, data.target[both].to_numpy(), seed, 8, 3, LogisticRegression(max_iter=2000, C=0.01))


def _diabetes(seed: int) -> Question:
    from sklearn.datasets import load_diabetes
    from sklearn.ensemble import HistGradientBoostingRegressor

    data = load_diabetes(as_frame=True)
    fit, known, test = _split(seed, len(data.data))
    model = HistGradientBoostingRegressor(max_iter=50, random_state=0).fit(data.data.iloc[fit], data.target.iloc[fit])
    heavy, light = (data.data.bmi > 0.03).to_numpy(), (data.data.bmi < 0).to_numpy()
    return Question(
        model,
        data.data.iloc[test][heavy[test]],
        data.data.iloc[known][light[known]],
        data.data.iloc[test][light[test]],
    )


def _credit(seed: int, *, declined: bool) -> Question:
    """Applications that were declined, or that defaulted later, against the others."""
    frame, defaulted, refused = credit(2000, seed)
    label = refused if declined else defaulted
    fit, known, test = _split(seed, len(frame))
    model = _boosted(categorical_features="from_dtype").fit(frame.iloc[fit], label[fit])
    return Question(
        model,
        frame.iloc[test][label[test]].iloc[:80],
        frame.iloc[known][~label[known]],
        frame.iloc[test][~label[test]].iloc[:100],
        target=True,
    )


def _wide(seed: int) -> Question:
    """120 columns in blocks that go together; two blocks are moved, and the model reads four."""
    import pandas as pd

    rng = stream(seed, "questions", "wide")
    names = [f"gene {j:03d}" for j in range(120)]
    weights = np.zeros(120)
    weights[[0, 1, 10, 11, 50, 51, 80, 81]] = (1, 1, 1, 0.5, -0.5, 0.5, 1, -1)

    def drawn(rows: int, moved: float) -> pd.DataFrame:
        blocks = np.repeat(rng.standard_normal((rows, 12)), 10, axis=1)
        values = 0.7 * blocks + 0.7 * rng.standard_normal((rows, 120))
        values[:, :20] += moved
        return pd.DataFrame(values, columns=names)

    return Question(_linear(weights), drawn(60, 1.5), drawn(300, 0.0), drawn(100, 0.0))


def _yes_no(seed: int) -> Question:
    """30 yes/no columns with common causes; the model counts risks, and the inputs have more of ten of them."""
    import pandas as pd

    rng = stream(seed, "questions", "yes and no")
    names = [f"symptom {j:02d}" for j in range(30)]
    weights = np.r_[np.ones(10), np.zeros(20)]

    def drawn(rows: int, moved: float) -> pd.DataFrame:
        cause = np.repeat(rng.standard_normal((rows, 6)), 5, axis=1)
        odds = cause - 1.2
        odds[:, :10] += moved
        return pd.DataFrame((rng.random((rows, 30)) < 1 / (1 + np.exp(-odds))).astype(int), columns=names)

    return Question(_linear(weights), drawn(80, 2.0), drawn(500, 0.0), drawn(100, 0.0))


def _drift(seed: int) -> Question:
    """Last year's applicants against this year's, of whom use and score moved."""
    frame, defaulted, _ = credit(1600, seed)
    fit, known, test = _split(seed, len(frame))
    model = _boosted(categorical_features="from_dtype").fit(frame.iloc[fit], defaulted[fit])
    later = frame.iloc[test].copy()
    later["use"] = np.clip(later["use"] * 1.6 + 0.15, 0, 1.5)
    later["score"] = later["score"] - 40
    return Question(model, later.iloc[:200], frame.iloc[known], frame.iloc[test].iloc[:200], target=True)


def _linear(weights: Floats) -> Callable[[Any], Floats]:
    return lambda rows: np.asarray(np.asarray(rows, np.float64) @ weights)


QUESTIONS: dict[str, Maker] = {
    "credit, declined against approved": partial(_credit, declined=True),
    "credit, defaulted against paid": partial(_credit, declined=False),
    "breast cancer, malignant against benign": _breast_cancer,
    "wine, class 0 against class 1": _wine,
    "diabetes, heavy against light": _diabetes,
    "digits, 8 against 3": _digits,
    "wide, 120 genes": _wide,
    "yes and no, 30 symptoms": _yes_no,
    "drift, this year against last": _drift,
}
