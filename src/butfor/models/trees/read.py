"""Which models can be read as trees, what they are asked, and what they make of a batch before their trees see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MethodType
from typing import Any

import numpy as np

from butfor.core.types import Array, Batch, Floats
from butfor.models.optional import attribute
from butfor.models.rows import is_frame
from butfor.models.trees.ensemble import Ensemble, Unreadable
from butfor.models.trees.lightgbm import read_lightgbm
from butfor.models.trees.scikit_learn import read_boosting, read_forest, read_histogram
from butfor.models.trees.xgboost import read_xgboost

READERS: dict[str, Callable[[Any, str], Ensemble]] = {
    "HistGradientBoostingClassifier": read_histogram,
    "HistGradientBoostingRegressor": read_histogram,
    "GradientBoostingClassifier": read_boosting,
    "GradientBoostingRegressor": read_boosting,
    "RandomForestClassifier": read_forest,
    "RandomForestRegressor": read_forest,
    "ExtraTreesClassifier": read_forest,
    "ExtraTreesRegressor": read_forest,
    "LGBMClassifier": read_lightgbm,
    "LGBMRegressor": read_lightgbm,
    "Booster": read_lightgbm,
    "XGBClassifier": read_xgboost,
    "XGBRegressor": read_xgboost,
    "XGBRFClassifier": read_xgboost,
    "XGBRFRegressor": read_xgboost,
}
LIBRARIES = ("sklearn", "lightgbm", "xgboost")
BY_COLUMN = {  # transformers that make something of each column by itself, in order
    "StandardScaler",
    "MinMaxScaler",
    "MaxAbsScaler",
    "RobustScaler",
    "SimpleImputer",
    "OrdinalEncoder",
    "OneHotEncoder",
}


@dataclass(frozen=True, eq=False)
class Readable:
    """A model whose trees can be read: how, and what is done to a batch before, as a matrix (n, internal columns)."""

    read: Callable[[], Ensemble]
    encode: Callable[[Batch], Floats]
    by_place: bool  # the matrix is the batch's own columns, in their order


def readable(model: object) -> Readable | None:
    """How to read a model as trees; None: it is no ensemble of trees, as far as is known.

    A pipeline counts whose steps before the trees look at each column by itself; what looks like trees and cannot be
    read raises `Unreadable`, with the reason.

    >>> readable(sum) is None
    True
    """
    asked: str | None = None
    if isinstance(model, MethodType):
        asked, model = model.__name__, model.__self__
    steps = attribute(model, "steps")
    last = steps[-1][1] if steps and _library(model) == "sklearn" else model
    name = type(last).__name__
    if not _is_known(type(last)):
        _refuse_derived(type(last))
        return None
    asked = asked or ("predict_proba" if attribute(last, "predict_proba") is not None else "predict")
    if asked not in ("predict", "predict_proba", "decision_function"):
        raise Unreadable(f"it is asked by {asked}")
    if asked in vars(last) or asked in vars(model):
        raise Unreadable(f"its {asked} was replaced by another function")
    before = [step for _, step in steps[:-1]] if last is not model else []
    for step in before:
        _check_by_column(step)
    own, by_place = _own_encoding(last)

    def encode(batch: Batch) -> Floats:
        for step in before:
            batch = batch if step in (None, "passthrough") else step.transform(batch)
        return own(batch)

    return Readable(lambda: READERS[name](last, asked), encode, by_place and not before)


def _library(thing: object) -> str:
    return type(thing).__module__.partition(".")[0]


def _is_known(kind: type) -> bool:
    library = kind.__module__.partition(".")[0]
    return kind.__name__ in READERS and library in LIBRARIES and (kind.__name__ != "Booster" or library == "lightgbm")


def _refuse_derived(kind: type) -> None:
    """Raise where a class is made from one that can be read: what it changes is not known."""
    for parent in kind.__mro__[1:]:
        if _is_known(parent):
            raise Unreadable(f"its class {kind.__name__} is derived from {parent.__name__} and may answer otherwise")


def _check_by_column(step: Any) -> None:
    """Raise where a transformer may look at several columns at once."""
    name = type(step).__name__
    if step in ("passthrough", "drop", None):
        return
    if name == "Pipeline":
        inner = [one for _, one in step.steps]
    elif name == "ColumnTransformer":
        inner = [one for _, one, _ in step.transformers_]
    elif _library(step) == "sklearn" and (name in BY_COLUMN or (name == "FunctionTransformer" and step.func is None)):
        return
    else:
        raise Unreadable(f"{name} before the trees may look at several columns at once")
    for one in inner:
        _check_by_column(one)


def _own_encoding(model: Any) -> tuple[Callable[[Batch], Floats], bool]:
    """What the model itself makes of a batch, and whether that leaves numbers as they are."""
    prepare = attribute(model, "_preprocessor")
    if type(model).__name__.startswith("Hist") and prepare is not None:
        return lambda batch: np.asarray(prepare.transform(batch), np.float64), False
    if _library(model) == "lightgbm":
        booster = attribute(model, "booster_") or model
        return lambda batch: _coded(batch, attribute(booster, "pandas_categorical")), True
    return lambda batch: _coded(batch, None), True


def _coded(batch: Batch, known: list[list[Any]] | None) -> Floats:
    """A frame as a matrix, its categories as codes: in the order of `known` or, without, of the column's own type."""
    dense = attribute(batch, "toarray")
    if not is_frame(batch):
        return np.asarray(batch if dense is None else dense(), np.float64)
    made: list[Array] = []
    orders = iter(known or [])
    for place in range(batch.shape[1]):
        column = batch.iloc[:, place]
        if str(column.dtype) != "category":
            made.append(column.to_numpy(dtype=np.float64, na_value=np.nan))
            continue
        order = next(orders, None)
        codes = column.cat.codes if order is None else column.cat.set_categories(order).cat.codes
        made.append(np.where(codes < 0, np.nan, codes))
    return np.column_stack(made).astype(np.float64)
