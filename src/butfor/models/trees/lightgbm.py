"""LightGBM's trees as plain arrays, from the dump that it gives of itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from butfor.core.types import Floats
from butfor.models.optional import attribute
from butfor.models.trees.ensemble import Ensemble, Link, Tree, Unreadable, joined

LINKS: dict[str, Link] = {
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
    link, sqrt = _link(said)
    kinds = int(said["num_tree_per_iteration"])
    infos = said["tree_info"]
    share = kinds / len(infos) if said.get("average_output") else 1.0
    if sqrt:
        raise Unreadable("its objective is of square roots")
    trees = [_tree(info["tree_structure"], number % kinds, kinds, share) for number, info in enumerate(infos)]
    two = kinds == 1 and asked == "predict_proba"
    if asked == "predict" and attribute(model, "classes_") is not None:
        raise Unreadable("a classifier that is asked for labels has no scores")
    return joined(trees, np.zeros(kinds), link, complement=two)


def _link(said: dict[str, Any]) -> tuple[Link, bool]:
    words = str(said.get("objective", "")).split()
    name = words[0] if words else "none"
    if name not in LINKS:
        raise Unreadable(f"its objective {name!r} is not known here")
    factors = [word.partition(":")[2] for word in words if word.startswith("sigmoid:")]
    if factors and float(factors[0]) != 1:
        raise Unreadable("its sigmoid is scaled")
    return LINKS[name], "sqrt" in words


def _tree(structure: dict[str, Any], kind: int, kinds: int, share: float) -> Tree:
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
