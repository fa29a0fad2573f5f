"""Adam with clipped gradients and a rate given at each step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Optimiser:
    def __init__(self, model: nn.Module, lr: float) -> None:
        self.parameters = list(model.parameters())
        self.adam = torch.optim.Adam(self.parameters, lr=lr, betas=(0.9, 0.98), fused=True)
        self.lr = lr

    def step(self, gradients: Sequence[Tensor], scale: float) -> None:
        for p, g in zip(self.parameters, gradients, strict=True):
            p.grad = g
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.adam.param_groups[0]["lr"] = self.lr * scale
        self.adam.step()
