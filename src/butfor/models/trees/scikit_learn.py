"""scikit-learn's ensembles of trees as plain arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from butfor.core.types import Array, Bools, Floats, Ints
from butfor.models.optional import attribute
from butfor.models.trees.ensemble import Ensemble, Link, Tree, Unreadable, in_float32, joined, one_after_the_other

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
