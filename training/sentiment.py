"""The classifier: gated convolutions over pieces, then attention over positions."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

WIDTH, HEADS, DILATIONS = 64, 4, (1, 2)


class Sentiment(nn.Module):
    def __init__(self, pieces: int, width: int = WIDTH) -> None:
        super().__init__()
        self.embedding = nn.Embedding(pieces, width, padding_idx=0)
        self.layers = nn.ModuleList(nn.Linear(3 * width, 2 * width) for _ in DILATIONS)
        self.score = nn.Linear(width, HEADS)
        self.value = nn.Linear(width, width)
        self.join = nn.Linear(2 * width, 64)
        self.out = nn.Linear(64, 1)
        nn.init.normal_(self.embedding.weight, std=0.3)
        with torch.no_grad():
            self.embedding.weight[0] = 0

    def forward(self, ids: Tensor, drop: float = 0.0) -> Tensor:  # (n, T), 0 where a row has ended -> (n,) log-odds
        real = (ids != 0)[:, :, None].to(self.out.weight.dtype)
        x = F.dropout(self.embedding(ids), drop, self.training)
        for layer, step in zip(self.layers, DILATIONS, strict=True):
            a, b = layer(beside(x, step)).chunk(2, 2)
            x = (x + F.dropout(a * torch.sigmoid(b), drop, self.training)) * real
        weight = torch.softmax(self.score(x) - 1e4 * (1 - real), 1)  # (n, T, heads)
        value = self.value(x).unflatten(2, (HEADS, -1))
        mean = (weight[:, :, :, None] * value).sum(1).flatten(1)
        most = (x - 1e4 * (1 - real)).amax(1)
        joined = F.dropout(torch.cat([mean, most], 1), drop, self.training)
        return self.out(F.relu(self.join(joined)))[:, 0]


def beside(x: Tensor, step: int) -> Tensor:
    """Each position with the ones `step` before and after it, zeros beyond the ends: a convolution as one product."""
    edge = x.new_zeros(x.shape[0], step, x.shape[2])
    padded = torch.cat([edge, x, edge], 1)
    return torch.cat([padded[:, : -2 * step], x, padded[:, 2 * step :]], 2)
