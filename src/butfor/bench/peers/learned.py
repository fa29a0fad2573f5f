"""L2X (Chen, Song, Wainwright & Jordan 2018, "Learning to Explain"): a network that picks k features of each row.

A first network gives a logit to every feature; k draws of a relaxed categorical (Gumbel softmax), their
maximum per feature, mask the row; a second network predicts the model's output from the masked row. Both are trained
together; the logits rank the features of a row. The authors of the paper trained it on the 100 inputs themselves; here
it is given 200,000 rows of their kind.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from butfor.bench.peers.task import Task
from butfor.types import Floats

ROWS, BATCH, PASSES, RATE, TEMPERATURE = (
    200_000,
    500,
    2,
    1e-3,
    0.5,
)  # at the authors' .1 it found less (TPR .42, here .54)
SHRINK = 1e-3  # weight of the squared weights in the loss


def l2x(task: Task, rows: int = ROWS) -> Floats:
    """Scores that stand in the order of the logits within each row: the best feature of each row first, and so on.

    k is what it should be: the mean number of true features in a row.
    """
    import torch

    assert task.truth is not None
    picked = max(1, round(float(task.truth.sum(axis=1).mean())))
    seen = task.training(rows)
    response = np.concatenate([task.model(part) for part in np.array_split(seen, max(1, rows // 20_000))])
    spread = seen.std(axis=0)  # no centring: what is masked is 0, as in the paper
    scaled = torch.as_tensor(seen / spread, dtype=torch.float32)
    target = torch.as_tensor((response - response.mean()) / response.std(), dtype=torch.float32)
    with torch.random.fork_rng():
        torch.manual_seed(task.seed)
        selector = _train(scaled, target, picked)
    with torch.no_grad():
        logits = selector(torch.as_tensor(task.inputs / spread, dtype=torch.float32)).numpy()
    return np.asarray(-np.argsort(np.argsort(-logits, axis=1), axis=1), np.float64) + task.width


def _train(rows: Any, target: Any, picked: int) -> Any:
    """The trained selector: rows (n, d) -> logits (n, d)."""
    import torch

    width = rows.shape[1]
    selector = _stack([width, 100, 100, width])
    predictor = _stack([width, 200, 200, 1], normed=True)
    steps = PASSES * (len(rows) // BATCH)
    optimizer = torch.optim.Adam([*selector.parameters(), *predictor.parameters()], lr=RATE, weight_decay=2 * SHRINK)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        at = step * BATCH % (len(rows) - len(rows) % BATCH)
        batch, wanted = rows[at : at + BATCH], target[at : at + BATCH]
        uniform = torch.rand(len(batch), picked, width).clamp_min(1e-20)
        gumbel = -torch.log(-torch.log(uniform).clamp_max(-1e-20))
        mask = torch.softmax((selector(batch)[:, None] + gumbel) / TEMPERATURE, dim=2).amax(dim=1)
        loss: Any = torch.nn.functional.mse_loss(predictor(batch * mask)[:, 0], wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return selector.eval()


def _stack(sizes: list[int], normed: bool = False) -> Any:
    import torch

    layers: list[Any] = []
    for before, after in pairwise(sizes):
        layers += [torch.nn.Linear(before, after), torch.nn.ReLU()]
        layers += [torch.nn.BatchNorm1d(after)] if normed else []
    return torch.nn.Sequential(*layers[: -2 if normed else -1])
