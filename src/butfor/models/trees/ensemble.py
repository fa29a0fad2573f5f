"""A tree ensemble as plain arrays, whatever library it is of: splits, leaves, and how leaves become an output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from butfor.types import Array, Bools, Floats, Ints

Link = Literal["identity", "exp", "logistic", "logistic twice", "softmax"]
BITS = 51  # of the largest sum of leaves: sums of whole numbers below 2**53 are exact in float64, in any order


class Unreadable(Exception):
    """Why a model cannot be read as trees, in words that end a sentence."""


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree: of each node (N,) the split, its children (their places in this tree), and the values of leaves."""

    feature: Ints  # -1: a leaf
    threshold: Floats  # x <= threshold goes left
    left: Ints
    right: Ints
    missing_left: Bools
    values: Floats  # (N, K) of leaves
    members: Ints | None = None  # the row of `sets` of a split by categories, -1: by threshold
    sets: Bools | None = None  # (S, width) which whole numbers go left
    unknown_left: Bools | None = None  # (N,) where other numbers go, in a split by categories


@dataclass(frozen=True, eq=False)
class Ensemble:
    """All trees one after the other, nodes by their place among all; raw scores are `base` plus the leaves' values."""

    feature: Ints  # (N,) -1: a leaf
    threshold: Floats  # (N,)
    left: Ints  # (N,)
    right: Ints  # (N,)
    missing_left: Bools  # (N,)
    members: Ints  # (N,)
    sets: Bools  # (S, width)
    unknown_left: Bools  # (N,)
    values: Floats  # (N, K)
    roots: Ints  # (T,)
    base: Floats  # (K,)
    link: Link = "identity"
    complement: bool = False  # two classes of one score: 1 - p stands before p, or -score before score
    single: bool = False  # the model computes in float32

    @property
    def scale(self) -> float:
        """By what values are multiplied to become whole numbers: a power of two that keeps all sums exact."""
        largest = np.maximum.reduceat(np.abs(self.values), self.roots, axis=0).sum(axis=0).max(initial=0.0)
        return float(2.0 ** (BITS - np.ceil(np.log2(largest)))) if largest > 0 else 1.0

    def outputs(self, raw: Floats) -> Floats:
        """What the model says, (..., outputs), from raw scores (..., K)."""
        said = _linked(raw, self.link)
        if self.complement:
            other = 1 - said if self.link != "identity" else -said
            said = np.concatenate([other, said], axis=-1)
        return np.asarray(said.astype(np.float32).astype(np.float64)) if self.single else said


def _linked(raw: Floats, link: Link) -> Floats:
    from scipy.special import expit

    if link == "softmax":
        grown = np.exp(raw - raw.max(axis=-1, keepdims=True))
        return np.asarray(grown / grown.sum(axis=-1, keepdims=True))
    if link == "exp":
        return np.asarray(np.exp(raw))
    if link == "identity":
        return raw
    return np.asarray(expit(raw if link == "logistic" else 2 * raw))


def joined(
    trees: Sequence[Tree], base: Floats, link: Link, *, complement: bool = False, single: bool = False
) -> Ensemble:
    """The ensemble of some trees."""
    if not trees:
        raise Unreadable("it has no trees")
    sets, members = _joined_sets(trees)
    nodes = Tree(
        feature=np.concatenate([tree.feature for tree in trees]),
        threshold=np.concatenate([tree.threshold for tree in trees]),
        left=np.concatenate([tree.left for tree in trees]),
        right=np.concatenate([tree.right for tree in trees]),
        missing_left=np.concatenate([tree.missing_left for tree in trees]),
        values=np.concatenate([tree.values for tree in trees]),
        members=members,
        sets=sets,
        unknown_left=np.concatenate(
            [np.zeros(len(t.feature), bool) if t.unknown_left is None else t.unknown_left for t in trees]
        ),
    )
    sizes = np.array([len(tree.feature) for tree in trees])
    return one_after_the_other(nodes, sizes, base, link, complement=complement, single=single)


def one_after_the_other(
    nodes: Tree, sizes: Ints, base: Floats, link: Link, *, complement: bool = False, single: bool = False
) -> Ensemble:
    """The ensemble of trees whose nodes follow each other, so many of each; children by their places in a tree."""
    roots = np.cumsum(sizes) - sizes
    shift = np.repeat(roots, sizes)
    inner = nodes.feature >= 0
    own, none = np.arange(len(shift)), np.full(len(shift), -1)
    return Ensemble(
        feature=nodes.feature.astype(np.int64),
        threshold=nodes.threshold.astype(np.float64),
        left=np.where(inner, nodes.left.astype(np.int64) + shift, own),  # leaves are their own children
        right=np.where(inner, nodes.right.astype(np.int64) + shift, own),
        missing_left=nodes.missing_left.astype(bool),
        members=none if nodes.members is None else nodes.members,
        sets=np.zeros((0, 0), bool) if nodes.sets is None else nodes.sets,
        unknown_left=np.zeros(len(shift), bool) if nodes.unknown_left is None else nodes.unknown_left,
        values=np.where(inner[:, None], 0.0, nodes.values),
        roots=roots.astype(np.int64),
        base=np.asarray(base, np.float64).reshape(-1),
        link=link,
        complement=complement,
        single=single,
    )


def _joined_sets(trees: Sequence[Tree]) -> tuple[Bools, Ints]:
    """All sets of categories below each other, and the row of each node."""
    width = max((tree.sets.shape[1] for tree in trees if tree.sets is not None), default=0)
    if not width:
        return np.zeros((0, 0), bool), np.full(sum(len(tree.feature) for tree in trees), -1, np.int64)
    parts, members, before = [np.zeros((0, width), bool)], [], 0
    for tree in trees:
        if tree.sets is None or tree.members is None:
            members.append(np.full(len(tree.feature), -1, np.int64))
            continue
        members.append(np.where(tree.members >= 0, tree.members + before, -1).astype(np.int64))
        whole = np.zeros((len(tree.sets), width), bool)
        if tree.unknown_left is not None:  # numbers beyond those that a tree knows
            split = np.flatnonzero(tree.members >= 0)
            whole[tree.members[split]] = tree.unknown_left[split][:, None]
        whole[:, : tree.sets.shape[1]] = tree.sets
        parts.append(whole)
        before += len(tree.sets)
    return np.concatenate(parts), np.concatenate(members)


def rounds_down_to(bounds: Array) -> Floats:
    """The largest double that float32 rounds to at most `bounds`: what a float32 model compares with is rounded first.

    >>> found = rounds_down_to(np.array([0.1]))
    >>> float(np.float32(found[0])) <= 0.1, float(np.float32(np.nextafter(found[0], 1))) <= 0.1
    (True, False)
    """
    wanted = np.asarray(bounds, np.float64)
    with np.errstate(over="ignore"):
        near = wanted.astype(np.float32)
        least = np.where(near.astype(np.float64) > wanted, np.nextafter(near, np.float32(-np.inf)), near)
        above = np.nextafter(least.astype(np.float32), np.float32(np.inf)).astype(np.float64)
        middle = (least.astype(np.float64) + above) / 2  # halfway is rounded to the even one of the two
        there = middle.astype(np.float32) <= least.astype(np.float32)
    found = np.where(there, middle, np.nextafter(middle, -np.inf))
    return np.asarray(np.where(np.isfinite(above), found, wanted))


def in_float32(ensemble: Ensemble) -> Ensemble:
    """The same for a model that rounds its inputs to float32."""
    return replace(ensemble, threshold=np.where(ensemble.feature >= 0, rounds_down_to(ensemble.threshold), 0.0))
