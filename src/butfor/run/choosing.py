"""Which hypotheses are chosen together, and what weights are learned over: from settings to a Choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from butfor.core.arrays import distinct
from butfor.core.checks import labels_of
from butfor.core.draw.blocks import Problem
from butfor.core.draw.samplers import info_of
from butfor.core.select.choice import Choice, LearningUnits
from butfor.core.select.rules import COMPETITIONS
from butfor.core.select.strict import LEAST_BLOCKS
from butfor.core.types import Bools, Floats, InputError, Ints
from butfor.run.settings import Settings


def choice_of(problem: Problem, settings: Settings, clusters: Ints, calibrated: Bools | None = None) -> Choice:
    """How hypotheses of this run are chosen; `clusters` (n,) of inputs, `calibrated` (H,)."""
    count = len(distinct(clusters))
    if settings.rule == "adaptive-strict" and count < LEAST_BLOCKS:
        raise InputError(
            f"rule='adaptive-strict' needs at least {LEAST_BLOCKS} independent inputs (or groups), got {count}; use "
            "rule='adaptive' or 'bh'"
        )
    return Choice(
        rule=settings.rule,
        alpha=settings.alpha,
        families=problem.input_of if settings.family == "input" else None,
        layers=problem.layers,
        calibrated=calibrated,
        draws=settings.draws_for(problem.size),
        floor=floors_of(problem) if settings.rule in COMPETITIONS else None,
        units=LearningUnits(clusters[problem.input_of], _labels(problem, settings.weights_by)),
    )


def floors_of(problem: Problem) -> Floats | None:
    """The share of null values of each hypothesis (H,) that lie beyond all that the sampler draws; None: nowhere."""
    floor = info_of(problem.sampler).floor
    known = {id(subset): floor(subset) for subset in problem.subsets}
    if not any(known.values()):
        return None
    found = np.zeros(problem.size)
    for block in problem.blocks:
        found[block.rows] = known[id(block.subset)]
    return found


def cluster_of(groups: object, names: Sequence[Any], alike: Ints) -> Ints:
    """The cluster of every input (n,): those that the user puts together, and those that are equal (`alike`, (n,))."""
    if groups is None:
        return alike
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if isinstance(groups, Mapping):
        labels = [groups.get(name) for name in names]
    else:
        labels = labels_of("groups", groups, "input")
    if len(labels) != len(names):
        raise InputError(f"groups has {len(labels)} labels for {len(names)} inputs; give one for each input")
    if any(map(_is_missing, labels)):
        raise InputError("groups has no label for some inputs; give one for each input")
    known = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    named = np.array([known[label] for label in labels]) + int(alike.max(initial=0)) + 1
    size = int(named.max(initial=0)) + 1
    joined = coo_array((np.ones(len(named)), (alike, named)), shape=(size, size))
    return np.asarray(connected_components(joined, directed=False)[1][alike], np.int64)


def _is_missing(label: object) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # of pandas' NA, which is neither
        return True


def _labels(problem: Problem, weights_by: object) -> Ints:
    """What hypotheses have in common over inputs (H,): their subset, or a label that the user gives each of them."""
    if weights_by is None:
        return problem.subset_of
    if callable(weights_by):
        names, subsets = problem.input_names, problem.subset_names
        pairs = zip(problem.input_of, problem.subset_of, strict=True)
        labels = [_label(weights_by, names[i], subsets[j]) for i, j in pairs]
    else:
        labels = labels_of("weights_by", weights_by, "hypothesis")
    if len(labels) != problem.size:
        raise InputError(
            f"weights_by has {len(labels)} labels for {problem.size} hypotheses; give one for each row of "
            "result.table, or a function (input, subset) -> label"
        )
    known = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    return np.array([known[label] for label in labels], np.int64)


def _label(weights_by: Callable[[Any, str], object], name: object, subset: str) -> object:
    """What the user's function says of one hypothesis."""
    try:
        label = weights_by(name, subset)
        hash(label)
    except Exception as error:  # any error of the user's function, and a label that cannot be one
        raise InputError(
            f"weights_by raised {type(error).__name__} on input {name!r}, subset {subset!r}: {error}; give a function "
            "(input, subset) -> label, a number or a string"
        ) from error
    return label
