"""LIME (Ribeiro, Singh & Guestrin 2016): the weights of a linear model of many perturbed rows around each input."""

from __future__ import annotations

import numpy as np

from butfor.bench.peers.task import Task
from butfor.types import Floats


def as_authors(task: Task) -> Floats:
    """Default settings, quartiles of the inputs themselves: as the paper's authors ran it."""
    return _weights(task, discretize_continuous=True)


def continuous(task: Task) -> Floats:
    """Values instead of quartiles, each weight times its standardised value: a contribution, as a linear model's."""
    standardised = (task.inputs - task.inputs.mean(axis=0)) / task.inputs.std(axis=0)
    return np.asarray(_weights(task, discretize_continuous=False) * standardised)


def _weights(task: Task, **options: object) -> Floats:
    from lime.lime_tabular import LimeTabularExplainer

    explainer = LimeTabularExplainer(task.inputs, mode="regression", random_state=task.seed, **options)
    scores = np.zeros(task.inputs.shape)
    for row, score in zip(task.inputs, scores, strict=True):
        found = explainer.explain_instance(row, task.model, num_features=task.width)
        for column, weight in found.local_exp[1]:
            score[column] = weight
    return scores
