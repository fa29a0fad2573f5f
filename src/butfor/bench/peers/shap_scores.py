"""SHAP (Lundberg & Lee 2017): Shapley values by its kernel, by permutations, by partitions, of networks, of trees."""

from __future__ import annotations

from functools import partial

import numpy as np

from butfor.bench.peers.networks import torch_network
from butfor.bench.peers.task import Task, required
from butfor.types import Floats

BACKGROUND = 100  # rows that Q describes, in place of which features are left out
KERNEL_BACKGROUND = 20  # the kernel asks background x 2,048 rows and more of each input; its page advises a summary


def kernel_as_authors(task: Task) -> Floats:
    """100 samples, the first 100 inputs as background, features picked by AIC: as the paper's authors ran it."""
    return _kernel(task, task.inputs[:BACKGROUND], nsamples=100, l1_reg="aic")


def kernel(task: Task) -> Floats:
    """The defaults of the current release (ten features an input), with rows that Q describes as background."""
    return _kernel(task, task.reference(KERNEL_BACKGROUND))


def kernel_full(task: Task) -> Floats:
    """The same without picking features (`l1_reg=False`)."""
    return _kernel(task, task.reference(KERNEL_BACKGROUND), l1_reg=False)


def _kernel(task: Task, background: Floats, **options: object) -> Floats:
    import shap

    np.random.seed(task.seed)  # noqa: NPY002 - shap draws from the global generator
    explainer = shap.KernelExplainer(task.model, background)
    return np.asarray(explainer.shap_values(task.inputs, silent=True, **options))


def permutation(task: Task, evaluations: int = 500) -> Floats:
    """Default settings: 500 evaluations an input, or as many as one permutation takes."""
    import shap

    masker = shap.maskers.Independent(task.reference(BACKGROUND), max_samples=BACKGROUND)
    explainer = shap.PermutationExplainer(task.model, masker, seed=task.seed)
    return np.asarray(explainer(task.inputs, max_evals=max(evaluations, 2 * task.width + 1), silent=True).values)


def partition(task: Task) -> Floats:
    """Owen values over a clustering of the background, default settings."""
    import shap

    masker = shap.maskers.Partition(task.reference(BACKGROUND), max_samples=BACKGROUND)
    np.random.seed(task.seed)  # noqa: NPY002 - as above
    return np.asarray(shap.PartitionExplainer(task.model, masker)(task.inputs, silent=True).values)


def deep(task: Task) -> Floats:
    """DeepExplainer on the network, with the background."""
    import shap
    import torch

    network = torch_network(required(task, "network"))
    explainer = shap.DeepExplainer(network, torch.as_tensor(task.reference(BACKGROUND)))
    values = explainer.shap_values(torch.as_tensor(task.inputs), check_additivity=False)
    return np.asarray(values).reshape(task.inputs.shape)


def tree(task: Task, interventional: bool = False) -> Floats:
    """TreeExplainer: by the rows that went down each path, or with a background."""
    import shap

    background = {"data": task.reference(BACKGROUND), "feature_perturbation": "interventional"}
    explainer = shap.TreeExplainer(required(task, "tree ensemble"), **(background if interventional else {}))
    return np.asarray(explainer.shap_values(task.inputs, check_additivity=False))


interventional_tree = partial(tree, interventional=True)
