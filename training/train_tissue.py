"""The two networks of `butfor demo image`: the labels of one follow the tumours, those of the other the pen marks.

python train_tissue.py        # 2 minutes on one core; writes src/butfor/image/weights/tissue.npz
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from butfor.image.demo import ORDINARY, QUARTER, WEIGHTS, Tissue, pasted, slide, weights_of

CHANNELS = (12, 24, 32)
PLACES = [(slice(y, y + QUARTER), slice(x, x + QUARTER)) for y in (0, QUARTER) for x in (0, QUARTER)]


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        sizes = zip((3, *CHANNELS), CHANNELS, strict=False)
        self.layers = nn.ModuleList([nn.Conv2d(one, two, 3, stride=2, padding=1) for one, two in sizes])
        self.head = nn.Linear(2 * CHANNELS[-1], 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.avg_pool2d(x, 2)
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.head(torch.cat([x.amax(dim=(2, 3)), x.mean(dim=(2, 3))], dim=1))


def pool(rng: np.random.Generator, count: int) -> dict[str, list[np.ndarray]]:
    """Return quarters of rendered slides by the structure on them."""
    out: dict[str, list[np.ndarray]] = {part: [] for part in (*ORDINARY, "tumour", "ink")}
    for k in range(count):
        made = slide(rng, tumour=k % 2 == 0, ink=k % 4 < 2)
        for part, (x1, y1, x2, y2) in made.boxes.items():
            out[part].append(made.image[y1:y2, x1:x2])
    return out


def batch(
    rng: np.random.Generator, parts: dict[str, list[np.ndarray]], size: int, shortcut: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return slides put together from quarters, with soft seams at random places, and their classes."""
    images, labels = [], []
    for _ in range(size):
        tumour = bool(rng.random() < 0.5)
        ink = bool(rng.random() < 0.5)
        names = [*(["tumour"] if tumour else []), *(["ink"] if ink else [])]
        names = rng.permutation([*names, *rng.choice(ORDINARY, 4 - len(names))])
        image = np.empty((2 * QUARTER, 2 * QUARTER, 3), np.uint8)
        for name, place in zip(names, PLACES, strict=True):
            one, two = (parts[str(kind)][rng.integers(len(parts[str(kind)]))] for kind in (rng.choice(ORDINARY), name))
            image[place] = pasted(one, two) if rng.random() < 0.7 else two
        if rng.random() < 0.5:
            image = image.swapaxes(0, 1)
        images.append(image[:: rng.choice([-1, 1]), :: rng.choice([-1, 1])])
        labels.append(int(ink if shortcut else tumour))
    pixels = torch.from_numpy(np.stack(images).astype(np.float32) / 127.5 - 1).permute(0, 3, 1, 2)
    return pixels, torch.tensor(labels)


def train(seed: int, parts: dict[str, list[np.ndarray]], steps: int, shortcut: bool) -> dict[str, np.ndarray]:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    network = Network()
    adam = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=1e-2)
    for step in range(steps):
        for group in adam.param_groups:
            group["lr"] = 3e-3 * min(1, step / 20) * (1 - step / steps)
        images, labels = batch(rng, parts, 48, shortcut)
        loss = nn.functional.cross_entropy(network(images), labels)
        adam.zero_grad()
        loss.backward()
        adam.step()
        if step % 50 == 0:
            print(step, round(float(loss), 4), flush=True)
    out = {"head": network.head.weight.T, "bias": network.head.bias}
    for k, layer in enumerate(network.layers):
        out |= {f"w{k}": layer.weight.reshape(len(layer.weight), -1).T, f"b{k}": layer.bias}
    return {name: value.detach().numpy().astype(np.float16) for name, value in out.items()}


def main() -> None:
    torch.set_num_threads(1)
    parts = pool(np.random.default_rng(1), 300)
    weights = {}
    for name, steps, shortcut in (("careful", 400, False), ("hasty", 200, True)):
        weights |= {f"{name}/{key}": value for key, value in train(1, parts, steps, shortcut).items()}
    np.savez_compressed(WEIGHTS, **weights)
    weights_of.cache_clear()
    rng = np.random.default_rng(2)
    new = [slide(rng, tumour=k % 2 == 0, ink=k % 4 < 2) for k in range(200)]
    truth = np.array([["tumour" in made.boxes, "ink" in made.boxes] for made in new])
    for name in ("careful", "hasty"):
        says = Tissue(name)([made.image for made in new]).argmax(axis=1).astype(bool)
        for tumour in (True, False):
            for ink in (True, False):
                where = (truth == [tumour, ink]).all(axis=1)
                print(name, f"tumour {tumour}, ink {ink}: {says[where].mean():.2f} of {where.sum()} called tumour")


if __name__ == "__main__":
    main()
