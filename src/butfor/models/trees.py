"""Tree ensembles of scikit-learn, LightGBM and XGBoost as arrays: what they allow beyond a black box (METHODS 13).

`readable` says whether and how a model can be read; every reader returns an `Ensemble`. A model that looks like trees
and cannot be read raises `Unreadable`; whatever is read is compared with the model before it is believed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MethodType
from typing import Any, Literal

import numpy as np

from butfor.models.wrap import TWO_CLASSES, attribute, booster_objective, is_booster, is_frame, library
from butfor.types import Array, Batch, Bools, Floats, Ints

Link = Literal["identity", "exp", "logistic", "logistic twice", "softmax"]
BITS = 51  # of the largest sum of leaves: sums of integers below 2**53 are exact in float64, in any order


class Unreadable(Exception):
    """Why a model cannot be read as trees: a key of `results.words.UNREADABLE`, and the values of its sentence."""

    def __init__(self, reason: str, **values: object) -> None:
        super().__init__(reason, values)
        self.values = {"reason": reason, **values}


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of one tree, or of several one after the other; children are positions within their tree."""

    feature: Ints  # (N,) -1: a leaf
    threshold: Floats  # (N,) x <= threshold goes left
    left: Ints  # (N,)
    right: Ints  # (N,)
    missing_left: Bools  # (N,)
    values: Floats  # (N, K) of leaves
    category_row: Ints | None = None  # (N,) row of `category_sets`, -1: a split by threshold
    category_sets: Bools | None = None  # (S, width) which integers go left
    unknown_left: Bools | None = None  # (N,) where other numbers go, in a split by categories


@dataclass(frozen=True, eq=False)
class Ensemble:
    """All trees, children as positions among all nodes; raw scores are `base` plus the leaves' values."""

    feature: Ints  # (N,) -1: a leaf
    threshold: Floats  # (N,)
    left: Ints  # (N,) leaves are their own children
    right: Ints  # (N,)
    missing_left: Bools  # (N,)
    category_row: Ints  # (N,)
    category_sets: Bools  # (S, width)
    unknown_left: Bools  # (N,)
    values: Floats  # (N, K)
    roots: Ints  # (T,)
    base: Floats  # (K,)
    link: Link = "identity"
    complement: bool = False  # two classes of one score: 1 - p stands before p, or -score before score
    single: bool = False  # the model computes in float32

    @cached_property
    def scale(self) -> float:
        """The power of two that turns values into integers whose sums are exact."""
        largest = np.maximum.reduceat(np.abs(self.values), self.roots, axis=0).sum(axis=0).max(initial=0.0)
        return float(2.0 ** (BITS - np.ceil(np.log2(largest)))) if largest > 0 else 1.0

    def outputs(self, raw: Floats) -> Floats:
        from scipy.special import expit

        outputs = raw
        if self.link == "softmax":
            grown = np.exp(raw - raw.max(axis=-1, keepdims=True))
            outputs = np.asarray(grown / grown.sum(axis=-1, keepdims=True))
        elif self.link == "exp":
            outputs = np.asarray(np.exp(raw))
        elif self.link != "identity":
            outputs = np.asarray(expit(raw if self.link == "logistic" else 2 * raw))
        if self.complement:
            other = 1 - outputs if self.link != "identity" else -outputs
            outputs = np.concatenate([other, outputs], axis=-1)
        return np.asarray(outputs.astype(np.float32).astype(np.float64)) if self.single else outputs


def joined(
    trees: Sequence[Nodes],
    base: Floats,
    link: Link,
    *,
    sizes: Ints | None = None,
    complement: bool = False,
    single: bool = False,
) -> Ensemble:
    """Return the ensemble of these trees; `sizes`, where several follow each other in one `Nodes`."""
    if not trees:
        raise Unreadable("no-trees")
    width = max((tree.category_sets.shape[1] for tree in trees if tree.category_sets is not None), default=0)
    rows, sets, unknown, before = [], [np.zeros((0, width), bool)], [], 0
    for tree in trees:
        unknown.append(np.zeros(len(tree.feature), bool) if tree.unknown_left is None else tree.unknown_left)
        if not width or tree.category_sets is None or tree.category_row is None:
            rows.append(np.full(len(tree.feature), -1, np.int64))
            continue
        rows.append(np.where(tree.category_row >= 0, tree.category_row + before, -1).astype(np.int64))
        padded = np.zeros((len(tree.category_sets), width), bool)
        split = np.flatnonzero(tree.category_row >= 0)
        padded[tree.category_row[split]] = unknown[-1][split][:, None]  # numbers beyond those that a tree knows
        padded[:, : tree.category_sets.shape[1]] = tree.category_sets
        sets.append(padded)
        before += len(padded)
    names = ("feature", "threshold", "left", "right", "missing_left", "values")
    feature, threshold, left, right, missing, values = (
        np.concatenate([getattr(tree, name) for tree in trees]) for name in names
    )
    sizes = np.array([len(tree.feature) for tree in trees]) if sizes is None else sizes
    roots = np.cumsum(sizes) - sizes
    shift, inner, itself = np.repeat(roots, sizes), feature >= 0, np.arange(len(feature))
    return Ensemble(
        feature=feature.astype(np.int64),
        threshold=threshold.astype(np.float64),
        left=np.where(inner, left.astype(np.int64) + shift, itself),
        right=np.where(inner, right.astype(np.int64) + shift, itself),
        missing_left=missing.astype(bool),
        category_row=np.concatenate(rows),
        category_sets=np.concatenate(sets),
        unknown_left=np.concatenate(unknown),
        values=np.where(inner[:, None], 0.0, values),
        roots=roots.astype(np.int64),
        base=np.asarray(base, np.float64).reshape(-1),
        link=link,
        complement=complement,
        single=single,
    )


def rounds_down_to(bounds: Array) -> Floats:
    """Return the largest doubles that float32 rounds to at most `bounds`: float32 models round before they compare.

    >>> bound = rounds_down_to(np.array([0.1]))
    >>> float(np.float32(bound[0])) <= 0.1, float(np.float32(np.nextafter(bound[0], 1))) <= 0.1
    (True, False)
    """
    bounds = np.asarray(bounds, np.float64)
    with np.errstate(over="ignore"):
        near = bounds.astype(np.float32)
        least = np.where(near.astype(np.float64) > bounds, np.nextafter(near, np.float32(-np.inf)), near)
        above = np.nextafter(least.astype(np.float32), np.float32(np.inf)).astype(np.float64)
        middle = (least.astype(np.float64) + above) / 2  # halfway is rounded to the even one of the two
        kept = middle.astype(np.float32) <= least.astype(np.float32)
    return np.asarray(np.where(np.isfinite(above), np.where(kept, middle, np.nextafter(middle, -np.inf)), bounds))


def in_float32(ensemble: Ensemble) -> Ensemble:
    """Return the same ensemble for a model that rounds its inputs to float32."""
    return replace(ensemble, threshold=np.where(ensemble.feature >= 0, rounds_down_to(ensemble.threshold), 0.0))


LINKS: dict[str, Link] = {
    "IdentityLink": "identity",
    "LogLink": "exp",
    "LogitLink": "logistic",
    "HalfLogitLink": "logistic twice",
    "MultinomialLogit": "softmax",
}


def read_forest(model: Any, method: str) -> Ensemble:
    """Read RandomForest and ExtraTrees: the mean of the trees' values."""
    classes = attribute(model, "classes_") is not None
    if method == "predict" and classes:
        raise Unreadable("votes")
    if isinstance(model.n_outputs_, int | np.integer) and model.n_outputs_ > 1:
        raise Unreadable("several-outputs")
    trees = []
    for one in model.estimators_:
        values = one.tree_.value[:, 0, :]
        if classes:
            values = values / np.maximum(values.sum(axis=1, keepdims=True), 1e-300)
        trees.append(_sklearn_nodes(one.tree_, values / len(model.estimators_)))
    return in_float32(joined(trees, np.zeros(trees[0].values.shape[1]), "identity"))


def read_boosting(model: Any, method: str) -> Ensemble:
    """Read GradientBoosting: trees of each stage and class, added to a constant."""
    if model.init_ != "zero" and not type(model.init_).__name__.startswith("Dummy"):
        raise Unreadable("initial-model")
    first = np.zeros((1, model.n_features_in_), np.float32)
    base = np.asarray(model._raw_predict_init(first), np.float64)[0]
    trees = []
    for stage in model.estimators_:
        for k, one in enumerate(stage):
            values = np.zeros((one.tree_.node_count, len(stage)))
            values[:, k] = one.tree_.value[:, 0, 0] * model.learning_rate
            trees.append(_sklearn_nodes(one.tree_, values))
    link, complement = _sklearn_link(model, method)
    return in_float32(joined(trees, base, link, complement=complement))


def _sklearn_nodes(tree: Any, values: Floats) -> Nodes:
    leaf = tree.children_left < 0
    missing = attribute(tree, "missing_go_to_left")  # of scikit-learn 1.3 and later
    return Nodes(
        feature=np.where(leaf, -1, tree.feature),
        threshold=np.where(leaf, 0.0, tree.threshold),
        left=tree.children_left,
        right=tree.children_right,
        missing_left=np.zeros(len(leaf), bool) if missing is None else np.asarray(missing, bool),
        values=values,
    )


def _sklearn_link(model: Any, method: str) -> tuple[Link, bool]:
    """Return how scores become outputs: probabilities (of two classes from one score), scores or numbers."""
    loss, classes = type(model._loss).__name__, attribute(model, "classes_")
    link = LINKS.get(type(model._loss.link).__name__)
    if link is None:
        raise Unreadable("loss", name=loss)
    if method == "predict" and classes is not None:
        raise Unreadable("labels")
    if method == "decision_function":
        return "identity", False
    return "logistic twice" if loss == "ExponentialLoss" else link, classes is not None and len(classes) == 2


def read_histogram(model: Any, method: str) -> Ensemble:
    """Read HistGradientBoosting, whose trees are not public: the self-check notices if they ever change."""
    base = np.asarray(model._baseline_prediction, np.float64).reshape(-1)
    trees, per_stage = [one for stage in model._predictors for one in stage], len(model._predictors[0])
    sizes = np.array([len(one.nodes) for one in trees])
    dtype = trees[0].nodes.dtype
    raw = f"V{dtype.itemsize}"  # NumPy joins records field by field, ten times slower than their bytes
    nodes = np.concatenate([one.nodes.astype(dtype, copy=False).view(raw) for one in trees]).view(dtype)
    values = np.zeros((len(nodes), per_stage))
    values[np.arange(len(nodes)), np.repeat(np.arange(len(trees)) % per_stage, sizes)] = nodes["value"]
    leaf, missing = nodes["is_leaf"].astype(bool), nodes["missing_go_to_left"].astype(bool)
    feature = np.where(leaf, -1, nodes["feature_idx"].astype(np.int64))
    read = Nodes(feature, nodes["num_threshold"], nodes["left"], nodes["right"], missing, values, unknown_left=missing)
    split = np.flatnonzero(nodes["is_categorical"].astype(bool) & ~leaf)
    if split.size:
        bits = [np.asarray(one.raw_left_cat_bitsets) for one in trees]
        first = np.repeat(np.cumsum([0, *(len(part) for part in bits[:-1])]), sizes)
        sets = _unpacked(np.concatenate(bits)[nodes["bitset_idx"][split].astype(np.int64) + first[split]])
        known, position = model._bin_mapper.make_known_categories_bitsets()
        for j in np.flatnonzero(model._bin_mapper.is_categorical_):  # unseen ones go where missing values go
            rows = np.flatnonzero(feature[split] == j)
            seen = _unpacked(known)[position[j]]
            sets[rows] = np.where(seen, sets[rows], missing[split[rows]][:, None])
        category_row = np.full(len(nodes), -1, np.int64)
        category_row[split] = np.arange(len(split))
        read = replace(read, category_row=category_row, category_sets=sets)
    link, complement = _sklearn_link(model, method)
    return joined([read], base, link, sizes=sizes, complement=complement)


def _unpacked(words: Array) -> Bools:
    """Return which of 256 numbers are in each set, from rows of 8 words of 32 bits."""
    parts = np.ascontiguousarray(words, "<u4").view(np.uint8)
    return np.unpackbits(parts.reshape(len(words), -1), axis=1, bitorder="little").astype(bool)


LIGHTGBM_LINKS: dict[str, Link] = {
    **dict.fromkeys(("regression", "regression_l1", "huber", "fair", "quantile", "mape"), "identity"),
    **dict.fromkeys(("lambdarank", "rank_xendcg"), "identity"),
    **dict.fromkeys(("poisson", "gamma", "tweedie"), "exp"),
    **dict.fromkeys(("binary", "cross_entropy"), "logistic"),
    "multiclass": "softmax",
}


def read_lightgbm(model: Any, method: str) -> Ensemble:
    """Read a Booster, LGBMClassifier or LGBMRegressor."""
    _refuse_other_methods(model, method)
    dump = (attribute(model, "booster_") or model).dump_model()
    objective, *options = str(dump.get("objective", "")).split() or ["none"]
    if objective not in LIGHTGBM_LINKS:
        raise Unreadable("objective", name=objective)
    factors = [option.partition(":")[2] for option in options if option.startswith("sigmoid:")]
    if factors and float(factors[0]) != 1:
        raise Unreadable("scaled-sigmoid")
    if "sqrt" in options:
        raise Unreadable("square-roots")
    scores, infos = int(dump["num_tree_per_iteration"]), dump["tree_info"]
    share = scores / len(infos) if dump.get("average_output") else 1.0
    trees = [_lightgbm_nodes(info["tree_structure"], k % scores, scores, share) for k, info in enumerate(infos)]
    two_classes = scores == 1 and method == "predict_proba"
    return joined(trees, np.zeros(scores), LIGHTGBM_LINKS[objective], complement=two_classes)


def _refuse_other_methods(model: Any, method: str) -> None:
    if method not in ("predict", "predict_proba"):
        raise Unreadable("method", name=method)
    if method == "predict" and attribute(model, "classes_") is not None:
        raise Unreadable("labels")


def _lightgbm_nodes(structure: dict[str, Any], score: int, scores: int, share: float) -> Nodes:
    nodes: list[dict[str, Any]] = []
    position: dict[int, int] = {}
    waiting = [structure]
    while waiting:
        node = waiting.pop()
        position[id(node)] = len(nodes)
        nodes.append(node)
        if "split_index" in node:
            waiting += [node["right_child"], node["left_child"]]
        elif node.get("leaf_coeff"):
            raise Unreadable("linear-leaves")
    by_category = np.array([node.get("decision_type") == "==" for node in nodes])
    categories = [[int(word) for word in str(nodes[i]["threshold"]).split("||")] for i in np.flatnonzero(by_category)]
    sets = np.zeros((len(categories), 1 + max((max(row, default=0) for row in categories), default=0)), bool)
    for row, members in enumerate(categories):
        sets[row, members] = True
    values = np.zeros((len(nodes), scores))
    values[:, score] = [node.get("leaf_value", 0.0) * share for node in nodes]
    thresholds = [0.0 if by_set else n.get("threshold", 0.0) for n, by_set in zip(nodes, by_category, strict=True)]

    def children(side: str) -> Ints:
        return np.array([position[id(node[side])] if "split_index" in node else -1 for node in nodes])

    return Nodes(
        feature=np.array([node.get("split_feature", -1) for node in nodes]),
        threshold=_beside_zero(np.array(thresholds)),
        left=children("left_child"),
        right=children("right_child"),
        missing_left=np.array([_lightgbm_missing_left(node) for node in nodes]),
        values=values,
        category_row=np.where(by_category, np.cumsum(by_category) - 1, -1),
        category_sets=sets,
        unknown_left=np.zeros(len(nodes), bool),
    )


ZERO = float(np.float32(1e-35))  # LightGBM reads what is not larger as 0


def _beside_zero(thresholds: Floats) -> Floats:
    """Move thresholds among what LightGBM reads as 0 to the end of it: all of it goes to the same side.

    >>> bool(_beside_zero(np.array([1e-36]))[0] == ZERO), bool(_beside_zero(np.array([-ZERO]))[0] < -ZERO)
    (True, True)
    """
    below, above = (thresholds >= -ZERO) & (thresholds < 0), (thresholds >= 0) & (thresholds <= ZERO)
    return np.asarray(np.where(below, np.nextafter(-ZERO, -1), np.where(above, ZERO, thresholds)))


def _lightgbm_missing_left(node: dict[str, Any]) -> bool:
    if "split_index" not in node or node["decision_type"] == "==":
        return False
    kind, zero_left = node["missing_type"], node["threshold"] >= 0
    if kind == "None":
        return bool(zero_left)  # missing is read as 0
    if kind == "Zero" and bool(node["default_left"]) != bool(zero_left):
        raise Unreadable("zeros-missing")
    return bool(node["default_left"])


XGBOOST_LINKS: dict[str, Link] = {
    **dict.fromkeys(("reg:squarederror", "reg:squaredlogerror", "reg:absoluteerror"), "identity"),
    **dict.fromkeys(("reg:quantileerror", "reg:pseudohubererror", "rank:ndcg", "rank:pairwise"), "identity"),
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie"), "exp"),
    **dict.fromkeys(("reg:logistic", "binary:logistic"), "logistic"),
    "multi:softprob": "softmax",
}


def read_xgboost(model: Any, method: str) -> Ensemble:
    """Read a Booster, XGBClassifier, XGBRegressor and their forests."""
    _refuse_other_methods(model, method)
    whole = model if is_booster(model) else model.get_booster()
    learner = json.loads(bytes(whole.save_raw("json")))["learner"]
    booster, param = learner["gradient_booster"], learner["learner_model_param"]
    objective = learner["objective"]["name"]
    if booster["name"] != "gbtree":
        raise Unreadable("booster", name=booster["name"])
    if objective not in XGBOOST_LINKS:
        raise Unreadable("objective", name=objective)
    if int(param.get("num_target", 1)) > 1:
        raise Unreadable("vector-leaves")
    scores = max(int(param.get("num_class", 0)), 1)
    trees, score_of = booster["model"]["trees"], booster["model"]["tree_info"]
    best = attribute(model, "best_iteration") if attribute(model, "early_stopping_rounds") else None
    if best is not None:
        kept = int(booster["model"]["iteration_indptr"][best + 1])
        trees, score_of = trees[:kept], score_of[:kept]
    read = [_xgboost_nodes(tree, int(k), scores) for tree, k in zip(trees, score_of, strict=True)]
    link, complement = XGBOOST_LINKS[objective], method == "predict_proba" and scores == 1
    start = np.array([float(part) for part in str(param["base_score"]).strip("[]").split(",")])
    base = np.broadcast_to(start, scores).astype(np.float64)  # XGBoost saves an output, not a score
    if link == "logistic":
        base = np.log(base) - np.log1p(-base)
    elif link == "exp":
        base = np.log(base)
    return joined(read, base, link, complement=complement, single=True)


def _xgboost_nodes(tree: dict[str, Any], score: int, scores: int) -> Nodes:
    if int(tree["tree_param"].get("size_leaf_vector", 0)) > 1:
        raise Unreadable("vector-leaves")
    left = np.array(tree["left_children"], np.int64)
    size, leaf = len(left), left < 0
    conditions = np.array(tree["split_conditions"], np.float32)
    values = np.zeros((size, scores))
    values[leaf, score] = conditions[leaf]
    spans = zip(tree.get("categories_segments", []), tree.get("categories_sizes", []), strict=True)
    categories = [np.array(tree.get("categories", [])[start : start + count]) for start, count in spans]
    category_row, split = np.full(size, -1, np.int64), np.array(tree.get("categories_nodes", []), np.int64)
    category_row[split] = np.arange(len(split))
    sets = np.ones((len(split), 1 + max((int(row.max(initial=0)) for row in categories), default=0)), bool)
    for row, members in enumerate(categories):
        sets[row, members] = False  # those of the set go right
    below = np.nextafter(conditions, np.float32(-np.inf))  # x < t goes left
    return Nodes(
        feature=np.where(leaf, -1, np.array(tree["split_indices"], np.int64)),
        threshold=np.where(leaf | (category_row >= 0), 0.0, rounds_down_to(below)),
        left=left,
        right=np.array(tree["right_children"], np.int64),
        missing_left=np.array(tree["default_left"], bool),
        values=values,
        category_row=category_row,
        category_sets=sets,
        unknown_left=np.ones(size, bool),
    )


READERS: dict[tuple[str, str], Callable[[Any, str], Ensemble]] = {  # by library and class
    **{("sklearn", f"HistGradientBoosting{kind}"): read_histogram for kind in ("Classifier", "Regressor")},
    **{("sklearn", f"GradientBoosting{kind}"): read_boosting for kind in ("Classifier", "Regressor")},
    **{("sklearn", f"RandomForest{kind}"): read_forest for kind in ("Classifier", "Regressor")},
    **{("sklearn", f"ExtraTrees{kind}"): read_forest for kind in ("Classifier", "Regressor")},
    **{("lightgbm", name): read_lightgbm for name in ("LGBMClassifier", "LGBMRegressor", "Booster")},
    **{("xgboost", f"XGB{kind}"): read_xgboost for kind in ("Classifier", "Regressor", "RFClassifier", "RFRegressor")},
    ("xgboost", "Booster"): read_xgboost,
}
BY_COLUMN = {  # transformers that make something of each column by itself, in order
    *("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler"),
    *("SimpleImputer", "OrdinalEncoder", "OneHotEncoder"),
}


@dataclass(frozen=True, eq=False)
class Readable:
    """A model whose trees can be read: how, and what is done to a batch before, as a matrix (n, internal columns)."""

    read: Callable[[], Ensemble]
    encode: Callable[[Batch], Floats]
    by_position: bool  # the matrix is the batch's columns, in their order


def readable(model: object) -> Readable | None:
    """Return how to read a model as trees; None: it is no ensemble of trees, as far as is known.

    A pipeline counts whose steps before the trees look at each column by itself.

    >>> readable(sum) is None
    True
    """
    method: str | None = None
    if isinstance(model, MethodType):
        method, model = model.__name__, model.__self__
    steps = attribute(model, "steps")
    last = steps[-1][1] if steps and library(type(model)) == "sklearn" else model
    reader, *derived = (READERS.get((library(kind), kind.__name__)) for kind in type(last).__mro__)
    if reader is None:
        for kind, of_parent in zip(type(last).__mro__[1:], derived, strict=True):
            if of_parent is not None:  # what a derived class changes is not known
                raise Unreadable("derived", name=type(last).__name__, parent=kind.__name__)
        return None
    if method is None:
        two_classes = is_booster(last) and booster_objective(last)[0] in TWO_CLASSES  # as `wrap` calls it
        method = "predict_proba" if two_classes or attribute(last, "predict_proba") is not None else "predict"
    if method not in ("predict", "predict_proba", "decision_function"):
        raise Unreadable("called-by", name=method)
    if method in vars(last) or method in vars(model):
        raise Unreadable("replaced", name=method)
    before = [step for _, step in steps[:-1]] if last is not model else []
    for step in before:
        _check_by_column(step)
    prepare = attribute(last, "_preprocessor")
    binned = type(last).__name__.startswith("Hist") and prepare is not None
    light = library(type(last)) == "lightgbm"
    known = attribute(attribute(last, "booster_") or last, "pandas_categorical") if light else None

    def encode(batch: Batch) -> Floats:
        for step in before:
            batch = batch if step in (None, "passthrough") else step.transform(batch)
        return np.asarray(prepare.transform(batch), np.float64) if binned else _coded(batch, known)

    return Readable(lambda: reader(last, method), encode, not binned and not before)


def _check_by_column(step: Any) -> None:
    """Refuse a transformer that may look at several columns at once."""
    name = type(step).__name__
    if step in ("passthrough", "drop", None):
        return
    if name == "Pipeline":
        inner = [one for _, one in step.steps]
    elif name == "ColumnTransformer":
        inner = [one for _, one, _ in step.transformers_]
    elif library(type(step)) == "sklearn" and (
        name in BY_COLUMN or (name == "FunctionTransformer" and step.func is None)
    ):
        return
    else:
        raise Unreadable("transformer", name=name)
    for one in inner:
        _check_by_column(one)


def _coded(batch: Batch, known: list[list[Any]] | None) -> Floats:
    """Return a frame as a matrix, categories as codes: in the order of `known` or, without, of the column's dtype."""
    dense = attribute(batch, "toarray")
    if not is_frame(batch):
        return np.asarray(batch if dense is None else dense(), np.float64)
    columns: list[Array] = []
    orders = iter(known or [])
    for position in range(batch.shape[1]):
        column = batch.iloc[:, position]
        if str(column.dtype) != "category":
            columns.append(column.to_numpy(dtype=np.float64, na_value=np.nan))
            continue
        order = next(orders, None)
        codes = column.cat.codes if order is None else column.cat.set_categories(order).cat.codes
        columns.append(np.where(codes < 0, np.nan, codes))
    return np.column_stack(columns).astype(np.float64)
