"""The infiller: two LSTMs read towards a position from both sides and never see it, so every position is a target."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

PAD, UNK, MASK, EDGE = 0, 1, 2, 3
REACH = 2  # neighbours a side whose embeddings the prediction reads directly


class Infiller(nn.Module):
    def __init__(self, pieces: int, width: int = 192, units: int = 384, hidden: int = 512) -> None:
        super().__init__()
        self.shape = {"pieces": pieces, "width": width, "units": units, "hidden": hidden}
        self.embedding = nn.Embedding(pieces, width)
        self.left = nn.LSTM(width, units)
        self.right = nn.LSTM(width, units)
        self.mix = nn.Linear(2 * units + 2 * REACH * width, hidden)
        self.back = nn.Linear(hidden, width)
        self.bias = nn.Parameter(torch.zeros(pieces))
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        for lstm in (self.left, self.right):
            nn.init.constant_(lstm.bias_ih_l0[units : 2 * units], 1.0)  # remember by default
            for gate in lstm.weight_hh_l0.chunk(4):
                nn.init.orthogonal_(gate)

    def context(self, ids: Tensor) -> Tensor:  # (T, n) -> (T, n, width)
        """What surrounds each position, in the space of the embeddings; the piece at the position has no part in it."""
        x = self.embedding(ids)
        left, _ = self.left(x)
        right, _ = self.right(x.flip(0))
        parts = [shifted(left, 1), shifted(right.flip(0), -1)]
        parts += [shifted(x, by) for step in range(1, REACH + 1) for by in (step, -step)]
        return self.back(F.silu(self.mix(torch.cat(parts, 2))))

    def forward(self, ids: Tensor) -> Tensor:
        return F.linear(self.context(ids), self.embedding.weight, self.bias)


def shifted(x: Tensor, by: int) -> Tensor:
    """x moved `by` steps later along the first axis, zeros moving in."""
    edge = x.new_zeros(abs(by), *x.shape[1:])
    return torch.cat([edge, x[:-by]]) if by > 0 else torch.cat([x[-by:], edge])


def loss_full(model: Infiller, context: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(F.linear(context, model.embedding.weight, model.bias), target)


def loss_sampled(model: Infiller, context: Tensor, target: Tensor, head: int = 1500, tail: int = 700) -> Tensor:
    """Cross-entropy whose normaliser is exact over the frequent ids and a uniform sample over the others."""
    pieces = model.bias.numel()
    some = torch.randperm(pieces - head)[:tail] + head
    columns = torch.cat([torch.arange(head), some])
    weight, bias = model.embedding(columns), model.bias[columns]
    weigh = torch.zeros(head + tail)
    weigh[head:] = torch.log(torch.tensor((pieces - head) / tail))  # each sampled id stands for this many
    logits = F.linear(context, weight, bias + weigh)
    where = torch.full((pieces,), -1)
    where[some] = torch.arange(head, head + tail)
    own = (context * model.embedding(target)).sum(1) + model.bias[target]
    rare = target >= head
    hit = where[target]
    rows = torch.nonzero(rare & (hit >= 0)).squeeze(1)
    clash = torch.zeros_like(logits).index_put((rows, hit[rows]), torch.tensor(float("-inf")))
    extra = torch.where(rare, own, own.new_tensor(float("-inf")))
    total = torch.logsumexp(torch.cat([logits + clash, extra[:, None]], 1), 1)
    return (total - own).mean()
