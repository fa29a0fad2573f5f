"""Train the infiller on all train and unlabelled reviews for a given number of million pieces.

The learning rate follows the pieces seen, so a busy machine makes a run longer and not worse. It is held until the last
`--decay` of them, so a run may be stopped at any checkpoint and ended by a short one that resumes with `--decay 1`.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Iterator

import numpy as np
import torch
from corpus import encoded, scratch
from infiller import EDGE, MASK, Infiller, loss_full, loss_sampled
from optimiser import Optimiser
from start import start

LENGTH = 128
HELD_OUT = 300  # unlabelled reviews that choices are made on


def stream(rows: list[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """All reviews in a new order, an edge between two, cut to rows of LENGTH from a random start."""
    order = rng.permutation(len(rows))
    flat = np.concatenate([part for i in order for part in ([EDGE], rows[i])]).astype(np.int64)
    start = int(rng.integers(LENGTH))
    count = (len(flat) - start) // LENGTH
    return flat[start : start + count * LENGTH].reshape(count, LENGTH)


def batches(rows: list[np.ndarray], size: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    while True:
        chunks = stream(rows, rng)
        chunks = chunks[rng.permutation(len(chunks))]
        yield from (chunks[i : i + size] for i in range(0, len(chunks) - size, size))


def masked(ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Half of the rows lose about a sixth of their pieces, in runs of one to eight; a fill meets such gaps as well."""
    out = ids.copy()
    starts = np.argwhere(rng.random(ids.shape) < 0.065 * (rng.random((len(ids), 1)) < 0.5))
    for (row, first), run in zip(starts, np.minimum(rng.geometric(0.4, len(starts)), 8), strict=True):
        out[row, first : first + run] = MASK
    return out


def rate(share: float, step: int, decay: float) -> float:
    """Warm-up over 200 steps, held, then a straight line to nothing over the last `decay` of the pieces."""
    return min(1.0, (step + 1) / 200) * min(1.0, max(0.0, 1 - share) / decay)


@torch.no_grad()
def held_out_loss(model: Infiller, rows: list[np.ndarray]) -> tuple[float, float]:
    """Cross-entropy and share right over all pieces of held-out reviews, full softmax."""
    chunks = stream(rows, np.random.default_rng(0))[:64]
    logits = model(torch.from_numpy(chunks.T.copy())).flatten(0, 1)
    target = torch.from_numpy(chunks.T.copy()).flatten()
    loss = torch.nn.functional.cross_entropy(logits, target)
    return float(loss), float((logits.argmax(1) == target).float().mean())


def main() -> None:
    ask = argparse.ArgumentParser()
    ask.add_argument("--pieces", type=float, default=16, help="in millions")
    ask.add_argument("--decay", type=float, default=0.3, help="share of the pieces over which the rate falls")
    ask.add_argument("--batch", type=int, default=48)
    ask.add_argument("--width", type=int, default=192)
    ask.add_argument("--units", type=int, default=384)
    ask.add_argument("--lr", type=float, default=3e-3)
    ask.add_argument("--workers", type=int, default=2)
    ask.add_argument("--seed", type=int, default=1)
    ask.add_argument("--name", default="infiller")
    ask.add_argument("--resume", help="name of the checkpoint to go on from, with a fresh Adam")
    a = ask.parse_args()
    torch.manual_seed(a.seed)
    torch.set_num_threads(1)
    rng = np.random.default_rng(a.seed)
    unlabelled = encoded("unlabelled")
    rows, held = encoded("train") + unlabelled[HELD_OUT:], unlabelled[:HELD_OUT]
    model = Infiller(10_000, a.width, a.units)
    if a.resume:
        model.load_state_dict(torch.load(scratch() / f"{a.resume}.pt")["state"])
    else:
        start(model, rows)
    run = Run(model, a, rows, held)
    workers = [threading.Thread(target=run.work, args=(child,)) for child in rng.spawn(a.workers)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    save(run.model, a.name)
    print("end", run.steps, run.seen, held_out_loss(run.model, held), flush=True)


class Run:
    """Workers of one thread each on one set of weights, each step applied as it comes.

    Two threads inside one LSTM wait for each other at every position, which is slow where other work holds a core.
    """

    def __init__(self, model: Infiller, a: argparse.Namespace, rows: list[np.ndarray], held: list[np.ndarray]) -> None:
        self.model, self.a, self.rows, self.held = model, a, rows, held
        self.optimiser = Optimiser(model, a.lr)
        self.lock = threading.Lock()
        self.begin = self.said = self.saved = time.time()
        self.seen = self.steps = 0
        self.losses: list[float] = []

    def share(self) -> float:
        return self.seen / (1e6 * self.a.pieces)

    def work(self, rng: np.random.Generator) -> None:
        for chunk in batches(self.rows, self.a.batch, rng):
            if self.share() >= 1:
                return
            target = torch.from_numpy(chunk.T.copy()).flatten()
            context = self.model.context(torch.from_numpy(masked(chunk, rng).T.copy())).flatten(0, 1)
            loss = (loss_sampled if self.share() < 1 - 0.2 * self.a.decay else loss_full)(self.model, context, target)
            gradients = torch.autograd.grad(loss, list(self.model.parameters()))
            with self.lock:
                self.optimiser.step(gradients, rate(self.share(), self.steps, self.a.decay))
                self.steps, self.seen = self.steps + 1, self.seen + chunk.size
                self.losses.append(float(loss.detach()))
                self.report()

    def report(self) -> None:
        if time.time() - self.said > 90:
            self.said = time.time()
            loss, right = held_out_loss(self.model, self.held)
            print(
                f"{self.share():.3f} step {self.steps} pieces {self.seen / 1e6:.2f}M "
                f"{self.seen / (time.time() - self.begin):.0f}/s train {np.mean(self.losses[-100:]):.4f} "
                f"held-out {loss:.4f} right {right:.4f}",
                flush=True,
            )
        if time.time() - self.saved > 300:
            self.saved = time.time()
            save(self.model, self.a.name)


def save(model: Infiller, name: str) -> None:
    path = scratch() / f"{name}.pt"
    torch.save({"shape": model.shape, "state": model.state_dict()}, path.with_suffix(".part"))
    path.with_suffix(".part").rename(path)


if __name__ == "__main__":
    main()
