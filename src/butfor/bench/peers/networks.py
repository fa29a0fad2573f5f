"""The paper's network in torch, and what its gradients say: Saliency, DeepLIFT, Taylor; by captum."""

from __future__ import annotations

from typing import Any

import numpy as np

from butfor.bench.peers.task import Task, required
from butfor.types import Floats


def torch_network(weights: tuple[Floats, ...]) -> Any:
    """The same network as a torch module, in float64; outputs (n, 1)."""
    import torch

    layers: list[Any] = []
    for matrix, bias in zip(weights[::2], weights[1::2], strict=True):
        layer = torch.nn.Linear(matrix.shape[0], matrix.shape[1], dtype=torch.float64)
        with torch.no_grad():
            layer.weight.copy_(torch.as_tensor(matrix.T.copy()))
            layer.bias.copy_(torch.as_tensor(np.atleast_1d(bias)))
        layers += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def saliency(task: Task) -> Floats:
    """The gradient with its sign (Simonyan, Vedaldi & Zisserman 2014); its size is the two-sided score."""
    from captum.attr import Saliency

    return _attributed(task, Saliency, abs=False)


def taylor(task: Task) -> Floats:
    """Input times gradient, called Taylor in the paper."""
    from captum.attr import InputXGradient

    return _attributed(task, InputXGradient)


def deep_lift(task: Task) -> Floats:
    """DeepLIFT (Shrikumar, Greenside & Kundaje 2017) against the mean of rows that Q describes."""
    import torch
    from captum.attr import DeepLift

    mean = task.reference(1000).mean(axis=0, keepdims=True)
    return _attributed(task, DeepLift, baselines=torch.as_tensor(mean))


def deep_lift_shap(task: Task) -> Floats:
    """captum's DeepLiftShap with 100 rows that Q describes."""
    import torch
    from captum.attr import DeepLiftShap

    return _attributed(task, DeepLiftShap, baselines=torch.as_tensor(task.reference(100)))


def integrated_gradients(task: Task) -> Floats:
    """captum's IntegratedGradients, default settings (50 steps), against the same mean."""
    import torch
    from captum.attr import IntegratedGradients

    mean = task.reference(1000).mean(axis=0, keepdims=True)
    return _attributed(task, IntegratedGradients, baselines=torch.as_tensor(mean))


def _attributed(task: Task, method: Any, **options: object) -> Floats:
    import warnings

    import torch

    inputs = torch.as_tensor(task.inputs).clone().requires_grad_()
    network = torch_network(required(task, "network"))
    with warnings.catch_warnings(action="ignore"):  # that captum sets hooks on ReLUs
        return np.asarray(method(network).attribute(inputs, **options).detach().numpy())
