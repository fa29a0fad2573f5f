"""Tree ensembles of every kind that is read, small, fitted once; and tables to ask them about."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

from butfor.models.trees import readable

COLUMNS = 5
SINGLE = ("xgb",)  # computed in float32


def lgbm(name, **options):
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    return getattr(lightgbm, f"LGBM{name}")(n_estimators=12, n_jobs=1, verbose=-1, min_child_samples=8, **options)


def xgb(name, **options):
    xgboost = pytest.importorskip("xgboost", reason="xgboost-cpu is not installed")
    return getattr(xgboost, f"XGB{name}")(**{"n_estimators": 12, "n_jobs": 1, "max_depth": 4, **options})


KINDS = {
    "hist": lambda: HistGradientBoostingClassifier(max_iter=12, min_samples_leaf=8),
    "hist of three": lambda: HistGradientBoostingClassifier(max_iter=6, min_samples_leaf=8),
    "hist of numbers": lambda: HistGradientBoostingRegressor(max_iter=12, min_samples_leaf=8),
    "hist of counts": lambda: HistGradientBoostingRegressor(max_iter=8, loss="poisson"),
    "hist of gamma": lambda: HistGradientBoostingRegressor(max_iter=8, loss="gamma"),
    "forest": lambda: RandomForestClassifier(10, random_state=0),
    "forest of three": lambda: RandomForestClassifier(8, random_state=0),
    "forest of numbers": lambda: RandomForestRegressor(8, random_state=0),
    "extra": lambda: ExtraTreesClassifier(8, random_state=0),
    "extra of numbers": lambda: ExtraTreesRegressor(8, random_state=0, bootstrap=True),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=12, random_state=0),
    "boosting of three": lambda: GradientBoostingClassifier(n_estimators=6, random_state=0),
    "boosting, exponential": lambda: GradientBoostingClassifier(n_estimators=12, loss="exponential"),
    "boosting from zero": lambda: GradientBoostingClassifier(n_estimators=12, init="zero"),
    "boosting of numbers": lambda: GradientBoostingRegressor(n_estimators=12),
    "boosting, huber": lambda: GradientBoostingRegressor(n_estimators=12, loss="huber"),
    "boosting, quantile": lambda: GradientBoostingRegressor(n_estimators=12, loss="quantile"),
    "lgbm": lambda: lgbm("Classifier"),
    "lgbm of three": lambda: lgbm("Classifier"),
    "lgbm of numbers": lambda: lgbm("Regressor"),
    "lgbm of counts": lambda: lgbm("Regressor", objective="poisson"),
    "lgbm forest": lambda: lgbm(
        "Regressor", boosting_type="rf", bagging_freq=1, bagging_fraction=0.7, feature_fraction=0.9
    ),
    "xgb": lambda: xgb("Classifier"),
    "xgb of three": lambda: xgb("Classifier"),
    "xgb of numbers": lambda: xgb("Regressor"),
    "xgb of counts": lambda: xgb("Regressor", objective="count:poisson"),
    "xgb forest": lambda: xgb("RFRegressor"),
}
TAKE_MISSING = [name for name in KINDS if not name.startswith("boosting")]


NUMBERS = ("of numbers", "huber", "quantile", "lgbm forest", "xgb forest")


def labels(name, rows):
    score = rows[:, 0] + np.where(np.isnan(rows[:, 1]), 0.7, rows[:, 1]) * np.nan_to_num(rows[:, 2])
    if "three" in name:
        return (score > -0.3).astype(int) + (np.nan_to_num(rows[:, 3]) > 0.4)
    if "count" in name or "gamma" in name:
        return np.exp(score / 2).round() + 1
    return score if name.endswith(NUMBERS) else (score > 0).astype(int)


def training(name, *, missing=False):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(300, COLUMNS))
    rows[:, 4] = rng.poisson(3, size=300)
    if missing:
        rows[rng.random(rows.shape) < 0.15] = np.nan
        rows[:, 0] = np.nan_to_num(rows[:, 0])
    return rows


@lru_cache
def fitted(name, *, missing=False, dtype="float64"):
    """A model of a kind."""
    rows = training(name, missing=missing)
    return KINDS[name]().fit(rows.astype(dtype), labels(name, rows))


def asked(model):
    """What `explain` asks of a model."""
    return model.predict_proba if hasattr(model, "predict_proba") else model.predict


def tables(*, missing=False, inputs=16, rows=40, seed=0):
    """Inputs and a reference, correlated, the last column of whole numbers."""
    rng = np.random.default_rng(seed)
    both = rng.normal(size=(inputs + rows, COLUMNS))
    both[:, 1] += 0.8 * both[:, 0]
    both[:, 4] = rng.poisson(3, size=len(both))
    both[:inputs, :3] += 0.5
    if missing:
        both[:, 1:4][rng.random((len(both), 3)) < 0.2] = np.nan
    return both[:inputs], both[inputs:]


def on_thresholds(model, rows, *, near=(), seed=0):
    """Rows whose numbers are thresholds of the model, or right beside one."""
    ensemble = readable(model).read()
    rng, made = np.random.default_rng(seed), rows.copy()
    for j in range(rows.shape[1]):
        held = ensemble.threshold[(ensemble.feature == j) & (np.abs(ensemble.threshold) < 1e30)]  # no bounds of all
        if held.size:
            value = rng.choice(held, size=len(rows))
            beside = [value, np.nextafter(value, -np.inf), np.nextafter(value, np.inf)]
            beside += [np.nextafter(value.astype(np.float32), np.float32(side)) for side in near]
            moved = np.choose(rng.integers(len(beside), size=len(rows)), beside)
            made[:, j] = np.where(np.isnan(rows[:, j]), np.nan, moved)
    return made


def with_category(rows, seed=0):
    """The same as a frame whose third column is a category."""
    frame = pd.DataFrame(rows, columns=[f"x{j}" for j in range(rows.shape[1])])
    cut = np.digitize(np.nan_to_num(rows[:, 2]), [-0.7, 0.0, 0.7])
    frame["x2"] = pd.Categorical(np.array(["ant", "bee", "cow", "dog"])[cut], categories=["dog", "bee", "ant", "cow"])
    return frame


def reasons(notes):
    """Why trees were not read, as codes."""
    return [note.values["reason"] for note in notes if getattr(note, "code", "") == "trees-not-read"]
