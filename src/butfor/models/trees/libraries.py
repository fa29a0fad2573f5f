"""Which models can be read as trees, what they are asked, and what they make of a batch before their trees see it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import MethodType
from typing import Any

import numpy as np

from butfor.models.trees.ensemble import (
    Ensemble,
    Link,
    Tree,
    Unreadable,
    in_float32,
    joined,
    one_after_the_other,
    rounds_down_to,
)
from butfor.models.wrap import attribute, is_frame
from butfor.types import Array, Batch, Bools, Floats, Ints

LINKS: dict[str, Link] = {
    "IdentityLink": "identity",
    "LogLink": "exp",
    "LogitLink": "logistic",
    "HalfLogitLink": "logistic twice",
    "MultinomialLogit": "softmax",
}


def read_forest(model: Any, asked: str) -> Ensemble:
    """RandomForest and ExtraTrees: the mean of the trees' values."""
    if asked == "predict" and attribute(model, "classes_") is not None:
        raise Unreadable("a forest that is asked for labels counts votes")
    if isinstance(model.n_outputs_, int | np.integer) and model.n_outputs_ > 1:
        raise Unreadable("it has several outputs")
    trees = []
    for one in model.estimators_:
        values = one.tree_.value[:, 0, :]
        if attribute(model, "classes_") is not None:
            values = values / np.maximum(values.sum(axis=1, keepdims=True), 1e-300)
        trees.append(_tree(one.tree_, values / len(model.estimators_)))
    return in_float32(joined(trees, np.zeros(trees[0].values.shape[1]), "identity"))


def read_boosting(model: Any, asked: str) -> Ensemble:
    """GradientBoosting: trees of each stage and class, added to a constant."""
    kinds = model.estimators_.shape[1]
    if model.init_ != "zero" and not type(model.init_).__name__.startswith("Dummy"):
        raise Unreadable("it starts from another model than a constant")
    first = np.zeros((1, model.n_features_in_), np.float32)
    base = np.asarray(model._raw_predict_init(first), np.float64)[0]
    trees = []
    for stage in model.estimators_:
        for kind, one in enumerate(stage):
            values = np.zeros((one.tree_.node_count, kinds))
            values[:, kind] = one.tree_.value[:, 0, 0] * model.learning_rate
            trees.append(_tree(one.tree_, values))
    return in_float32(_scored(trees, base, _link(model), asked, model))


def _tree(tree: Any, values: Floats) -> Tree:
    leaf = tree.children_left < 0
    missing = attribute(tree, "missing_go_to_left")  # of scikit-learn 1.3 and later
    return Tree(
        feature=np.where(leaf, -1, tree.feature),
        threshold=np.where(leaf, 0.0, tree.threshold),
        left=tree.children_left,
        right=tree.children_right,
        missing_left=np.zeros(len(leaf), bool) if missing is None else np.asarray(missing, bool),
        values=values,
    )


def read_histogram(model: Any, asked: str) -> Ensemble:
    """HistGradientBoosting, whose trees are not public: the self-check finds out if they ever change."""
    base = np.asarray(model._baseline_prediction, np.float64).reshape(-1)
    trees, kinds = [one for stage in model._predictors for one in stage], len(model._predictors[0])
    sizes = np.array([len(one.nodes) for one in trees])
    kind = trees[0].nodes.dtype
    raw = f"V{kind.itemsize}"  # NumPy joins records field by field, ten times slower than their bytes
    nodes = np.concatenate([one.nodes.astype(kind, copy=False).view(raw) for one in trees]).view(kind)
    values = np.zeros((len(nodes), kinds))
    values[np.arange(len(nodes)), np.repeat(np.arange(len(trees)) % kinds, sizes)] = nodes["value"]
    leaf, missing = nodes["is_leaf"].astype(bool), nodes["missing_go_to_left"].astype(bool)
    feature = np.where(leaf, -1, nodes["feature_idx"].astype(np.int64))
    whole = Tree(feature, nodes["num_threshold"], nodes["left"], nodes["right"], missing, values, unknown_left=missing)
    split = np.flatnonzero(nodes["is_categorical"].astype(bool) & ~leaf)
    if split.size:
        bits = [np.asarray(one.raw_left_cat_bitsets) for one in trees]
        first = np.cumsum([0, *(len(own) for own in bits[:-1])])
        row = nodes["bitset_idx"][split].astype(np.int64) + np.repeat(first, sizes)[split]
        whole = _by_category(whole, split, np.concatenate(bits)[row], _known_categories(model))
    link, complement = _asked(_link(model), asked, model)
    return one_after_the_other(whole, sizes, base, link, complement=complement)


def _by_category(nodes: Tree, split: Ints, bits: Array, known: dict[int, Bools]) -> Tree:
    """The same nodes, those at `split` by categories; what a model has not seen goes where missing values go."""
    members = np.full(len(nodes.feature), -1, np.int64)
    members[split] = np.arange(len(split))
    sets = _unpacked(bits)
    for column, seen in known.items():
        rows = np.flatnonzero(nodes.feature[split] == column)
        sets[rows] = np.where(seen, sets[rows], nodes.missing_left[split[rows]][:, None])
    return replace(nodes, members=members, sets=sets)


def _unpacked(words: Array) -> Bools:
    """Rows of 8 words of 32 bits -> which of 256 numbers are in the set."""
    parts = np.ascontiguousarray(words, "<u4").view(np.uint8)
    return np.unpackbits(parts.reshape(len(words), -1), axis=1, bitorder="little").astype(bool)


def _known_categories(model: Any) -> dict[int, Bools]:
    """Of columns of categories, which codes the model has seen."""
    if attribute(model, "is_categorical_") is None or not np.any(model.is_categorical_):
        return {}
    bits, places = model._bin_mapper.make_known_categories_bitsets()
    seen = _unpacked(np.asarray(bits))
    columns = np.flatnonzero(np.asarray(model._bin_mapper.is_categorical_))
    return {int(column): seen[places[column]] for column in columns}


def _link(model: Any) -> Link:
    found = LINKS.get(type(model._loss.link).__name__)
    if found is None:
        raise Unreadable(f"its loss {type(model._loss).__name__} is not known here")
    return "logistic twice" if type(model._loss).__name__ == "ExponentialLoss" else found


def _scored(trees: list[Tree], base: Floats, link: Link, asked: str, model: Any) -> Ensemble:
    """Boosted trees as they are asked."""
    link, complement = _asked(link, asked, model)
    return joined(trees, base, link, complement=complement)


def _asked(link: Link, asked: str, model: Any) -> tuple[Link, bool]:
    """How scores become what is asked for: probabilities (of two classes from one), scores or numbers."""
    classes = attribute(model, "classes_")
    if asked == "predict" and classes is not None:
        raise Unreadable("a classifier that is asked for labels has no scores")
    if asked == "decision_function":
        return "identity", False
    return link, classes is not None and len(classes) == 2


LIGHTGBM_LINKS: dict[str, Link] = {
    "regression": "identity",
    "regression_l1": "identity",
    "huber": "identity",
    "fair": "identity",
    "quantile": "identity",
    "mape": "identity",
    "lambdarank": "identity",
    "rank_xendcg": "identity",
    "poisson": "exp",
    "gamma": "exp",
    "tweedie": "exp",
    "binary": "logistic",
    "cross_entropy": "logistic",
    "multiclass": "softmax",
}


def read_lightgbm(model: Any, asked: str) -> Ensemble:
    """A Booster, LGBMClassifier or LGBMRegressor."""
    if asked not in ("predict", "predict_proba"):
        raise Unreadable(f"its {asked} is not known here")
    booster = attribute(model, "booster_") or model
    said = booster.dump_model()
    link, sqrt = _lightgbm_link(said)
    kinds = int(said["num_tree_per_iteration"])
    infos = said["tree_info"]
    share = kinds / len(infos) if said.get("average_output") else 1.0
    if sqrt:
        raise Unreadable("its objective is of square roots")
    trees = [_lightgbm_tree(info["tree_structure"], number % kinds, kinds, share) for number, info in enumerate(infos)]
    two = kinds == 1 and asked == "predict_proba"
    if asked == "predict" and attribute(model, "classes_") is not None:
        raise Unreadable("a classifier that is asked for labels has no scores")
    return joined(trees, np.zeros(kinds), link, complement=two)


def _lightgbm_link(said: dict[str, Any]) -> tuple[Link, bool]:
    words = str(said.get("objective", "")).split()
    name = words[0] if words else "none"
    if name not in LIGHTGBM_LINKS:
        raise Unreadable(f"its objective {name!r} is not known here")
    factors = [word.partition(":")[2] for word in words if word.startswith("sigmoid:")]
    if factors and float(factors[0]) != 1:
        raise Unreadable("its sigmoid is scaled")
    return LIGHTGBM_LINKS[name], "sqrt" in words


def _lightgbm_tree(structure: dict[str, Any], kind: int, kinds: int, share: float) -> Tree:
    nodes: list[dict[str, Any]] = []
    places: dict[int, int] = {}
    waiting = [structure]
    while waiting:
        node = waiting.pop()
        places[id(node)] = len(nodes)
        nodes.append(node)
        if "split_index" in node:
            waiting += [node["right_child"], node["left_child"]]
        elif node.get("leaf_coeff"):
            raise Unreadable("its leaves are linear")
    size = len(nodes)
    values, sets = np.zeros((size, kinds)), [_members(node) for node in nodes]
    split = np.array([own is not None for own in sets])
    width = 1 + max((max(own, default=0) for own in sets if own is not None), default=0)
    table = np.zeros((int(split.sum()), width), bool)
    for row, own in enumerate(own for own in sets if own is not None):
        table[row, own] = True
    values[:, kind] = [node.get("leaf_value", 0.0) * share for node in nodes]
    left = np.array([places[id(node["left_child"])] if "split_index" in node else -1 for node in nodes])
    return Tree(
        feature=np.array([node.get("split_feature", -1) for node in nodes]),
        threshold=_beside_zero(
            np.array(
                [
                    0.0 if own is not None or "threshold" not in n else n["threshold"]
                    for n, own in zip(nodes, sets, strict=True)
                ]
            )
        ),
        left=left,
        right=np.array([places[id(node["right_child"])] if "split_index" in node else -1 for node in nodes]),
        missing_left=np.array([_missing_left(node) for node in nodes]),
        values=values,
        members=np.where(split, np.cumsum(split) - 1, -1),
        sets=table,
        unknown_left=np.zeros(size, bool),
    )


ZERO = float(np.float32(1e-35))  # what is not larger is 0 to LightGBM


def _beside_zero(thresholds: Floats) -> Floats:
    """Thresholds among what is read as 0, moved to the end of that: all of it goes to the same side.

    >>> bool(_beside_zero(np.array([1e-36]))[0] == ZERO), bool(_beside_zero(np.array([-ZERO]))[0] < -ZERO)
    (True, True)
    """
    below, above = (thresholds >= -ZERO) & (thresholds < 0), (thresholds >= 0) & (thresholds <= ZERO)
    return np.asarray(np.where(below, np.nextafter(-ZERO, -1), np.where(above, ZERO, thresholds)))


def _members(node: dict[str, Any]) -> list[int] | None:
    """The categories that go left; None: a split by threshold."""
    if node.get("decision_type") != "==":
        return None
    return [int(word) for word in str(node["threshold"]).split("||")]


def _missing_left(node: dict[str, Any]) -> bool:
    if "split_index" not in node or node["decision_type"] == "==":
        return False
    kind, zero_left = node["missing_type"], node["threshold"] >= 0
    if kind == "None":
        return bool(zero_left)  # missing is read as 0
    if kind == "Zero" and bool(node["default_left"]) != bool(zero_left):
        raise Unreadable("zeros count as missing")
    return bool(node["default_left"])


XGBOOST_LINKS: dict[str, Link] = {
    "reg:squarederror": "identity",
    "reg:squaredlogerror": "identity",
    "reg:absoluteerror": "identity",
    "reg:quantileerror": "identity",
    "reg:pseudohubererror": "identity",
    "rank:ndcg": "identity",
    "rank:pairwise": "identity",
    "count:poisson": "exp",
    "reg:gamma": "exp",
    "reg:tweedie": "exp",
    "reg:logistic": "logistic",
    "binary:logistic": "logistic",
    "multi:softprob": "softmax",
}


def read_xgboost(model: Any, asked: str) -> Ensemble:
    """XGBClassifier, XGBRegressor and their forests."""
    if asked not in ("predict", "predict_proba"):
        raise Unreadable(f"its {asked} is not known here")
    if asked == "predict" and attribute(model, "classes_") is not None:
        raise Unreadable("a classifier that is asked for labels has no scores")
    learner = json.loads(bytes(model.get_booster().save_raw("json")))["learner"]
    booster, param = learner["gradient_booster"], learner["learner_model_param"]
    if booster["name"] != "gbtree":
        raise Unreadable(f"its booster is {booster['name']!r}, not trees that are added up")
    objective = learner["objective"]["name"]
    if objective not in XGBOOST_LINKS:
        raise Unreadable(f"its objective {objective!r} is not known here")
    if int(param.get("num_target", 1)) > 1:
        raise Unreadable("its leaves are vectors")
    kinds = max(int(param.get("num_class", 0)), 1)
    trees, info = booster["model"]["trees"], booster["model"]["tree_info"]
    best = attribute(model, "best_iteration") if attribute(model, "early_stopping_rounds") else None
    if best is not None:
        kept = int(booster["model"]["iteration_indptr"][best + 1])
        trees, info = trees[:kept], info[:kept]
    read = [_xgboost_tree(tree, int(kind), kinds) for tree, kind in zip(trees, info, strict=True)]
    base = _base(param["base_score"], kinds, XGBOOST_LINKS[objective])
    return joined(read, base, XGBOOST_LINKS[objective], complement=asked == "predict_proba" and kinds == 1, single=True)


def _base(text: str, kinds: int, link: Link) -> Floats:
    """The score that trees are added to, from what XGBoost saves: an output."""
    numbers = np.array([float(part) for part in str(text).strip("[]").split(",")])
    said = np.broadcast_to(numbers, kinds).astype(np.float64)
    if link == "logistic":
        return np.asarray(np.log(said) - np.log1p(-said))
    return np.asarray(np.log(said)) if link == "exp" else said


def _xgboost_tree(tree: dict[str, Any], kind: int, kinds: int) -> Tree:
    if int(tree["tree_param"].get("size_leaf_vector", 0)) > 1:
        raise Unreadable("its leaves are vectors")
    left = np.array(tree["left_children"], np.int64)
    size, leaf = len(left), left < 0
    conditions = np.array(tree["split_conditions"], np.float32)
    values = np.zeros((size, kinds))
    values[leaf, kind] = conditions[leaf]
    below = np.nextafter(conditions, np.float32(-np.inf))  # x < t goes left
    members, sets = np.full(size, -1, np.int64), [np.array(own) for own in _categories(tree)]
    places = np.array(tree.get("categories_nodes", []), np.int64)
    members[places] = np.arange(len(places))
    table = np.ones((len(places), 1 + max((int(own.max(initial=0)) for own in sets), default=0)), bool)
    for row, own in enumerate(sets):
        table[row, own] = False  # those of the set go right
    return Tree(
        feature=np.where(leaf, -1, np.array(tree["split_indices"], np.int64)),
        threshold=np.where(leaf | (members >= 0), 0.0, rounds_down_to(below)),
        left=left,
        right=np.array(tree["right_children"], np.int64),
        missing_left=np.array(tree["default_left"], bool),
        values=values,
        members=members,
        sets=table,
        unknown_left=np.ones(size, bool),
    )


def _categories(tree: dict[str, Any]) -> list[list[int]]:
    every = tree.get("categories", [])
    spans = zip(tree.get("categories_segments", []), tree.get("categories_sizes", []), strict=True)
    return [every[start : start + size] for start, size in spans]


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
