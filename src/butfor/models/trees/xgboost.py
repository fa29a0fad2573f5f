"""XGBoost's trees as plain arrays, from the JSON that it saves itself as."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from butfor.core.types import Floats
from butfor.models.optional import attribute
from butfor.models.trees.ensemble import Ensemble, Link, Tree, Unreadable, joined, rounds_down_to

LINKS: dict[str, Link] = {
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
    if objective not in LINKS:
        raise Unreadable(f"its objective {objective!r} is not known here")
    if int(param.get("num_target", 1)) > 1:
        raise Unreadable("its leaves are vectors")
    kinds = max(int(param.get("num_class", 0)), 1)
    trees, info = booster["model"]["trees"], booster["model"]["tree_info"]
    best = attribute(model, "best_iteration") if attribute(model, "early_stopping_rounds") else None
    if best is not None:
        kept = int(booster["model"]["iteration_indptr"][best + 1])
        trees, info = trees[:kept], info[:kept]
    read = [_tree(tree, int(kind), kinds) for tree, kind in zip(trees, info, strict=True)]
    base = _base(param["base_score"], kinds, LINKS[objective])
    return joined(read, base, LINKS[objective], complement=asked == "predict_proba" and kinds == 1, single=True)


def _base(text: str, kinds: int, link: Link) -> Floats:
    """The score that trees are added to, from what XGBoost saves: an output."""
    numbers = np.array([float(part) for part in str(text).strip("[]").split(",")])
    said = np.broadcast_to(numbers, kinds).astype(np.float64)
    if link == "logistic":
        return np.asarray(np.log(said) - np.log1p(-said))
    return np.asarray(np.log(said)) if link == "exp" else said


def _tree(tree: dict[str, Any], kind: int, kinds: int) -> Tree:
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
