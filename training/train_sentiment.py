"""Train the classifier on the train split, with soft labels of a linear teacher on the unlabelled reviews as well."""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from corpus import encoded, reviews, scratch
from sentiment import Sentiment
from start import embeddings
from teacher import fit_predict, grams
from torch.nn import functional as F

HELD_OUT = 2_000  # train reviews that choices are made on
LONGEST = 400  # pieces in training; beyond, the beginning and the end; the shipped network reads everything


def soft_labels(rows: list[np.ndarray], y: np.ndarray, more: list[np.ndarray], keep: np.ndarray) -> list[np.ndarray]:
    """The teacher's log-odds: for train reviews from fits on the other folds, for the others from all of `keep`."""
    x = grams(rows)
    train = np.zeros(len(rows))
    folds = np.array_split(keep, 4)
    for fold in folds:
        rest = np.setdiff1d(keep, fold)
        (train[fold],) = fit_predict(x[rest], y[rest], [x[fold]])
    held = np.setdiff1d(np.arange(len(rows)), keep)
    train[held], other = fit_predict(x[keep], y[keep], [x[held], grams(more)])
    print(
        "teacher held-out", ((train[held] > 0) == y[held]).mean(), "folds", ((train > 0) == y)[keep].mean(), flush=True
    )
    return [train, other]


def teacher_opinions(keep: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    cache = scratch() / "teacher.npz"
    if cache.exists():
        stored = np.load(cache)
        return [stored["train"], stored["other"]]
    train, other = soft_labels(encoded("train"), y, encoded("unlabelled"), keep)
    np.savez(cache, train=train, other=other)
    return [train, other]


def cut(ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """At most LONGEST pieces (half from the beginning, half from the end); one in fourteen unknown."""
    out = ids if len(ids) <= LONGEST else np.concatenate([ids[: LONGEST // 2], ids[-LONGEST // 2 :]])
    return np.where(rng.random(len(out)) < 0.07, 1, out)


def padded(rows: list[np.ndarray]) -> torch.Tensor:
    out = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for line, row in zip(out, rows, strict=True):
        line[: len(row)] = row
    return torch.from_numpy(out)


def batches(lengths: np.ndarray, pieces: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Reviews of similar length together, about `pieces` pieces a batch, in random order."""
    noisy = np.minimum(lengths, LONGEST) * rng.uniform(0.9, 1.1, len(lengths))
    order = np.argsort(noisy)
    size = np.cumsum(np.minimum(lengths, LONGEST)[order]) // pieces
    out = np.split(order, np.flatnonzero(np.diff(size)) + 1)
    return [out[i] for i in rng.permutation(len(out))]


@torch.no_grad()
def log_odds(model: Sentiment, rows: list[np.ndarray]) -> np.ndarray:
    model.eval()
    order = np.argsort([len(r) for r in rows])
    out = np.zeros(len(rows))
    for part in np.array_split(order, max(1, len(rows) // 32)):
        out[part] = model(padded([rows[i] for i in part])).numpy()
    model.train()
    return out


def main() -> None:
    ask = argparse.ArgumentParser()
    ask.add_argument("--minutes", type=float, default=20)
    ask.add_argument("--lr", type=float, default=2e-3)
    ask.add_argument("--drop", type=float, default=0.3)
    ask.add_argument("--seed", type=int, default=1)
    ask.add_argument("--name", default="sentiment")
    a = ask.parse_args()
    torch.manual_seed(a.seed)
    torch.set_num_threads(1)
    rng = np.random.default_rng(a.seed)
    train, y = encoded("train"), reviews("train").labels
    order = np.random.default_rng(7).permutation(len(train))
    held, keep = order[:HELD_OUT], order[HELD_OUT:]
    opinion, other = teacher_opinions(keep, y)
    rows = [train[i] for i in keep] + encoded("unlabelled")
    taught = 1 / (1 + np.exp(-np.concatenate([opinion[keep], other])))
    target = taught.copy()
    target[: len(keep)] = 0.7 * y[keep] + 0.3 * taught[: len(keep)]
    model = Sentiment(10_000)
    begin(model, [train[i] for i in keep], y[keep])
    fit(model, rows, target, ([train[i] for i in held], y[held]), a, rng)


def begin(model: Sentiment, rows: list[np.ndarray], y: np.ndarray) -> None:
    """Embeddings begin with the infiller's first ones, and one direction says how much oftener praise uses a piece."""
    flat = np.concatenate(rows)
    praise = np.repeat(y, [len(r) for r in rows]) == 1
    table = embeddings(flat.astype(np.int64), 10_000, 192)[:, : model.embedding.weight.shape[1]] * 3
    count = [np.bincount(flat[side], minlength=10_000) + 5.0 for side in (praise, ~praise)]
    table[:, 0] = np.clip(np.log(count[0] / count[1]), -2, 2)
    table[0] = 0
    with torch.no_grad():
        model.embedding.weight.copy_(torch.from_numpy(table))


def fit(
    model: Sentiment,
    rows: list[np.ndarray],
    target: np.ndarray,
    held: tuple[list[np.ndarray], np.ndarray],
    a: argparse.Namespace,
    rng: np.random.Generator,
) -> None:
    """Adam whose rate falls to nothing by the clock; the average of the weights is what is kept."""
    adam = torch.optim.AdamW(model.parameters(), lr=a.lr, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.998))
    lengths, begin, said = np.array([len(r) for r in rows]), time.time(), time.time()
    share, step, losses = 0.0, 0, []
    while share < 1:
        for batch in batches(lengths, 8_000, rng):
            share = (time.time() - begin) / (60 * a.minutes)
            if share >= 1:
                break
            adam.param_groups[0]["lr"] = a.lr * min(1, (step + 1) / 100) * (1 - share)
            wanted = torch.from_numpy(target[batch]).float()
            loss = F.binary_cross_entropy_with_logits(model(padded([cut(rows[i], rng) for i in batch]), a.drop), wanted)
            adam.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            adam.step()
            average.update_parameters(model)
            losses.append(float(loss.detach()))
            step += 1
            if time.time() - said > 60:
                said = time.time()
                right = ((log_odds(average.module, held[0]) > 0) == held[1]).mean()
                print(f"{share:.3f} step {step} loss {np.mean(losses[-100:]):.4f} held-out {right:.4f}", flush=True)
                torch.save(average.module.state_dict(), scratch() / f"{a.name}.pt")
    torch.save(average.module.state_dict(), scratch() / f"{a.name}.pt")
    print("end", step, ((log_odds(average.module, held[0]) > 0) == held[1]).mean(), flush=True)


if __name__ == "__main__":
    main()
