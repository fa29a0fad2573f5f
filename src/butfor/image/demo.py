"""The embedded example of images: two networks call the same tissue a tumour; one of them looks at a pen mark."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from butfor.evaluation.progress import Progress
from butfor.image.explain import explain
from butfor.image.region import Box, Image, at
from butfor.results.result import Result
from butfor.results.summary import WIDTH
from butfor.settings import few_shot
from butfor.streams import stream
from butfor.types import Array, Floats, Subset

SIDE = 160  # pixels of a slide; each quarter holds one structure
QUARTER = SIDE // 2
LAYERS = 3
WEIGHTS = Path(__file__).with_name("weights") / "tissue.npz"
ORDINARY = ("lymphocytes", "fat", "vessel", "gland")  # what tissue holds with or without a tumour
HAEMATOXYLIN, EOSIN = np.array([0.65, 0.70, 0.29]), np.array([0.07, 0.80, 0.30])  # optical densities in R, G, B
INK = np.array([1.5, 0.75, 0.25])


@dataclass(frozen=True)
class Slide:
    """A rendered slide of tissue, and the box of each structure on it."""

    image: Image
    boxes: Mapping[str, Box] = field(repr=False)


@dataclass(frozen=True)
class ImageDemo:
    """The results of two networks on the same slides: one has learnt tumours, the other the mark of a pen."""

    result: Result
    other: Result
    before: str
    after: str

    def summary(self) -> str:
        before, after = textwrap.fill(self.before, WIDTH), textwrap.fill(self.after, WIDTH)
        return "\n".join([before, "", self.result.summary(), "", after])


def tissue(seed: int = 0, progress: bool | Callable[[Progress], None] | None = None, count: int = 12) -> ImageDemo:
    """Explain two networks on slides with a tumour and a pen mark; each structure is replaced by benign tissue."""
    rng = stream(seed, "tissue")
    slides = {f"slide {k}": slide(rng, tumour=True, ink=True) for k in range(1, count + 1)}
    benign = np.stack([slide(rng, tumour=False, ink=False).image for _ in range(40)])
    new = [slide(rng, tumour=k % 2 == 0, ink=k % 4 < 2) for k in range(40)]
    truth = np.array(["tumour" in made.boxes for made in new])

    def explained(network: Tissue) -> Result:
        result = explain(
            network,
            {name: made.image for name, made in slides.items()},
            Benign(benign),
            boxes=lambda name, image: [Subset(part, box) for part, box in slides[str(name)].boxes.items()],  # noqa: ARG005
            target="tumour",
            test=few_shot(scale="shrunk"),
            seed=seed,
            progress=progress,
        )
        return result.with_sources(model=f"the embedded network {network.name!r}", reference="40 benign slides")

    careful, hasty = Tissue("careful"), Tissue("hasty")
    results = explained(careful), explained(hasty)
    same = [float((net([made.image for made in new]).argmax(axis=1) == truth).mean()) for net in (careful, hasty)]
    before = (
        f"{count} rendered slides with a tumour that a pathologist has marked with a pen. A small network says "
        "tumour or benign. Each structure is replaced by tissue from the same quarter of benign slides: but for which "
        "of them would the network have said otherwise?"
    )
    after = (
        "Check: a second network was trained on labels that follow the pen and not the tissue. It calls "
        f"{int((hasty([made.image for made in slides.values()]).argmax(axis=1) == 1).sum())} of the {count} slides "
        f"tumours, too. But for the ink it would have said benign in {flips(results[1], 'ink')} of the draws, but for "
        f"the tumour in {flips(results[1], 'tumour')}. Where ink is on half of all slides, the first network is right "
        f"in {same[0]:.0%} and the second in {same[1]:.0%}."
    )
    return ImageDemo(*results, before, after)


def flips(result: Result, part: str) -> str:
    """Return the share of draws in which the answer was otherwise without a part, in percent."""
    return f"{result.table.flip[result.table.subset == part].mean():.0%}"


@dataclass(frozen=True)
class Tissue:
    """A convolutional network in NumPy, as a classifier of slides: log-probabilities of two classes."""

    name: str

    classes = ("benign", "tumour")

    def __call__(self, batch: Sequence[Image]) -> Floats:
        weights, out = weights_of(self.name), []
        for k in range(0, len(batch), 32):
            images = np.stack(batch[k : k + 32]).astype(np.float32)
            x = images.reshape(len(images), SIDE // 2, 2, SIDE // 2, 2, 3).mean(axis=(2, 4)) / 127.5 - 1
            for layer in range(LAYERS):  # 3 x 3, stride 2, padded by a pixel; then ReLU
                padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
                views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))[:, ::2, ::2]
                x = views.reshape(*views.shape[:3], -1) @ weights[f"w{layer}"] + weights[f"b{layer}"]
                x = np.maximum(x, 0)
            pooled = np.concatenate([x.max(axis=(1, 2)), x.mean(axis=(1, 2))], axis=1)
            out.append(pooled @ weights["head"] + weights["bias"])
        scores = np.concatenate(out).astype(np.float64)
        return np.asarray(scores - np.logaddexp(scores[:, :1], scores[:, 1:]))


@cache
def weights_of(name: str) -> dict[str, Array]:
    """Return the weights of an embedded network."""
    with np.load(WEIGHTS) as file:
        chosen = [key for key in file if key.startswith(f"{name}/")]
        return {key.removeprefix(f"{name}/"): file[key].astype(np.float32) for key in chosen}


@dataclass(frozen=True, eq=False)
class Benign:
    """Sampler: the same box of a benign slide, one of the fifteen of the most similar stain, with a soft seam."""

    reference: Array  # (n, height, width, 3)

    changes_subset_only = True

    def __repr__(self) -> str:
        return f"Benign({len(self.reference)} slides)"

    def __call__(self, inputs: Sequence[Image], subset: Subset, draws: int, rng: np.random.Generator) -> list[Image]:
        where, out = at(subset.index), []
        stains = np.median(self.reference, axis=(1, 2))
        for image in inputs:
            apart = np.abs(stains - np.median(image, axis=(0, 1))).sum(axis=1)
            for donor in rng.choice(np.argsort(apart, kind="stable")[:15], draws):
                made = image.copy()
                made[where] = pasted(image[where], self.reference[donor][where])
                out.append(made)
        return out


def pasted(under: Image, over: Image, seam: float = 5.0) -> Image:
    """Return the second piece, blended into the first along its border."""
    y, x = (np.minimum(np.arange(n), np.arange(n)[::-1]) + 0.5 for n in under.shape[:2])
    share = np.clip(np.minimum(y[:, None], x) / seam, 0, 1)[..., None]
    return np.asarray(np.rint(share * over + (1 - share) * under), np.uint8)


def slide(rng: np.random.Generator, *, tumour: bool, ink: bool) -> Slide:
    """Render tissue stained with haematoxylin and eosin: fibres, cells, and a structure in each quarter."""
    from scipy.ndimage import gaussian_filter

    parts = [*(["tumour"] if tumour else []), *(["ink"] if ink else [])]
    parts = list(rng.permutation([*parts, *rng.permutation(ORDINARY)[: 4 - len(parts)]]))
    angle = rng.uniform(0, np.pi)
    fibres = _grain(rng, (1.0, 9.0), angle)
    blots, fine = (gaussian_filter(rng.normal(size=(SIDE, SIDE)), width, mode="wrap") * width for width in (9.0, 1.0))
    dark = 0.08 + 0.03 * fine  # haematoxylin
    pink = 0.42 + 0.15 * fibres + 0.08 * blots  # eosin
    pen = np.zeros((SIDE, SIDE))
    boxes: dict[str, Box] = {}
    for k, part in enumerate(map(str, parts)):
        left, top = (k % 2) * QUARTER, (k // 2) * QUARTER
        boxes[part] = (left, top, left + QUARTER, top + QUARTER)
        centre = np.array([left, top]) + QUARTER / 2 + rng.uniform(-7, 7, 2)
        _cells(dark, rng, left, top, angle, centre if part != "ink" else None)
        if part == "ink":
            _pen(pen, rng, centre)
        else:
            STRUCTURES[part](dark, pink, rng, centre)
    strength = rng.uniform(0.85, 1.15, 2)
    density = np.clip(dark, 0, 1.6)[..., None] * HAEMATOXYLIN * strength[0]
    density = density + np.clip(pink, 0.01, 1.5)[..., None] * EOSIN * strength[1] + pen[..., None] * INK
    light = 250 * np.exp(-density) + rng.normal(0, 1.5, (SIDE, SIDE, 1))
    return Slide(np.asarray(np.clip(np.rint(light), 0, 255), np.uint8), boxes)


def _grain(rng: np.random.Generator, widths: tuple[float, float], angle: float) -> Floats:
    """Return noise that is smooth along one direction, of about unit size."""
    y, x = np.meshgrid(*[np.fft.fftfreq(SIDE)] * 2, indexing="ij")
    across, along = -np.sin(angle) * x + np.cos(angle) * y, np.cos(angle) * x + np.sin(angle) * y
    spectrum = np.exp(-2 * np.pi**2 * ((widths[0] * across) ** 2 + (widths[1] * along) ** 2))
    noise = np.fft.ifft2(np.fft.fft2(rng.normal(size=(SIDE, SIDE))) * spectrum).real
    return np.asarray(noise / noise.std())


def _blob(
    centre: Array, across: float, along: float, angle: float, waves: Sequence[float] | Floats = (), soft: float = 1.0
) -> tuple[tuple[slice, slice], Floats]:
    """Return the window and the cover, 0 to 1, of an ellipse whose border waves."""
    far = int(max(across, along) * 1.4 + 3)
    x0, y0 = (int(np.clip(value - far, 0, SIDE - 1)) for value in centre)
    x1, y1 = (int(np.clip(value + far + 1, 1, SIDE)) for value in centre)
    y, x = np.mgrid[y0 : max(y1, y0 + 1), x0 : max(x1, x0 + 1)]
    dx, dy = x - centre[0], y - centre[1]
    u, v = (np.cos(angle) * dx + np.sin(angle) * dy) / along, (-np.sin(angle) * dx + np.cos(angle) * dy) / across
    phi = np.arctan2(v, u)
    border = 1 + sum((size * np.cos((k + 2) * phi + 9 * size) for k, size in enumerate(waves)), np.zeros_like(phi))
    inside = (border - np.hypot(u, v)) * min(across, along)
    return (slice(y0, max(y1, y0 + 1)), slice(x0, max(x1, x0 + 1))), 1 / (1 + np.exp(-3 * inside / soft))


def _nucleus(
    dark: Floats, rng: np.random.Generator, centre: Array, across: float, along: float, angle: float, much: float,
    waves: Sequence[float] | Floats = (),
) -> None:  # fmt: skip
    window, cover = _blob(centre, across, along, angle, waves)
    chromatin = much * (1 + 0.16 * rng.normal(size=cover.shape))
    dark[window] = (1 - cover) * dark[window] + cover * chromatin


def _cells(dark: Floats, rng: np.random.Generator, left: int, top: int, angle: float, apart: Array | None) -> None:
    """Add the thin nuclei that lie between fibres, away from the structure."""
    for _ in range(11):
        centre = np.array([left, top]) + rng.uniform(3, QUARTER - 3, 2)
        if apart is None or np.hypot(*(centre - apart)) > 30:
            across, along = rng.uniform(1.3, 1.9), rng.uniform(4, 6.5)
            _nucleus(dark, rng, centre, across, along, angle + rng.normal(0, 0.2), rng.uniform(0.75, 1.1))


def _spread(rng: np.random.Generator, count: int, radius: float, least: float) -> list[Array]:
    """Return points of a disc that keep a distance."""
    points = np.empty((0, 2))
    tried = radius * np.sqrt(rng.random(40 * count))[:, None] * _direction(rng.uniform(0, 2 * np.pi, 40 * count)).T
    for point in tried:
        if len(points) < count and not (((points - point) ** 2).sum(axis=1) < least**2).any():
            points = np.append(points, point[None], axis=0)
    return list(points)


def _direction(angle: float | Floats) -> Floats:
    return np.array([np.cos(angle), np.sin(angle)])


def _tumour(dark: Floats, pink: Floats, rng: np.random.Generator, centre: Array) -> None:
    """Large, crowded nuclei of uneven size and shape, with nucleoli."""
    window, cover = _blob(centre, 25, 28, rng.uniform(0, np.pi), rng.uniform(0, 0.06, 3), soft=8)
    dark[window] += 0.16 * cover
    for point in _spread(rng, 9, 22, 11.5):
        across = rng.uniform(4.6, 7.6)
        waves, much = rng.uniform(0, 0.11, 4), rng.uniform(0.75, 1.15)
        _nucleus(dark, rng, centre + point, across, across * rng.uniform(1, 1.35), rng.uniform(0, np.pi), much, waves)
        for _ in range(rng.integers(1, 3)):
            spot, seen = _blob(centre + point + rng.uniform(-2.2, 2.2, 2), 1.3, 1.5, 0.0)
            dark[spot] += 0.5 * seen
    pink[window] += 0.06 * cover


def _lymphocytes(dark: Floats, pink: Floats, rng: np.random.Generator, centre: Array) -> None:  # noqa: ARG001
    """Small, round, dark nuclei, close together."""
    for point in _spread(rng, 26, 25, 7.0):
        across = rng.uniform(2.7, 3.3)
        _nucleus(dark, rng, centre + point, across, across * rng.uniform(1, 1.1), 0.0, rng.uniform(1.15, 1.4))


def _fat(dark: Floats, pink: Floats, rng: np.random.Generator, centre: Array) -> None:
    """Empty round cells with a thin wall and a flat nucleus."""
    for point in _spread(rng, 5, 20, 18.5):
        radius, angle = rng.uniform(8.5, 10.5), rng.uniform(0, 2 * np.pi)
        wave = rng.uniform(0, 0.05, 2)
        for grow, level in ((1.14, 0.6), (1.0, 0.02)):
            window, cover = _blob(centre + point, radius * grow, radius * grow, angle, wave)
            pink[window] = (1 - cover) * pink[window] + cover * level
            dark[window] = (1 - cover) * dark[window] + cover * 0.04
        _nucleus(dark, rng, centre + point + (radius + 0.5) * _direction(angle), 1.3, 4.0, angle + np.pi / 2, 1.0)


def _vessel(dark: Floats, pink: Floats, rng: np.random.Generator, centre: Array) -> None:
    """A wall, an empty lumen, and red cells in it."""
    across, angle = rng.uniform(13, 16), rng.uniform(0, np.pi)
    along = across * rng.uniform(1.1, 1.35)
    wave = rng.uniform(0, 0.05, 2)
    for grow, level in ((1.3, 0.85), (1.0, 0.03)):
        window, cover = _blob(centre, across * grow, along * grow, angle, wave, soft=1.5)
        pink[window] = (1 - cover) * pink[window] + cover * level
        dark[window] = (1 - cover) * dark[window] + cover * 0.05
    for point in _spread(rng, 13, across - 3.5, 4.6):
        window, cover = _blob(centre + point, 2.4, 2.7, rng.uniform(0, np.pi))
        pink[window] = (1 - cover) * pink[window] + cover * rng.uniform(0.95, 1.2)
    for phi in rng.uniform(0, 2 * np.pi, 7):
        edge = np.array([along * np.cos(phi), across * np.sin(phi)]) * 1.15
        rotated = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) @ edge
        _nucleus(dark, rng, centre + rotated, 1.4, 4.2, angle + phi + np.pi / 2, 1.0)


def _gland(dark: Floats, pink: Floats, rng: np.random.Generator, centre: Array) -> None:
    """Regular nuclei in a ring around a pale lumen."""
    radius = rng.uniform(17, 19)
    wave = rng.uniform(0, 0.03, 2)
    for grow, level in ((1.35, 0.55), (0.55, 0.06)):
        window, cover = _blob(centre, radius * grow, radius * grow, 0.0, wave, soft=1.5)
        pink[window] = (1 - cover) * pink[window] + cover * level
        dark[window] = (1 - cover) * dark[window] + cover * 0.1
    count, begin = int(rng.integers(14, 17)), rng.uniform(0, np.pi)
    for phi in begin + np.arange(count) * 2 * np.pi / count:
        point = (radius + rng.normal(0, 0.5)) * _direction(phi)
        _nucleus(dark, rng, centre + point, rng.uniform(2.1, 2.6), rng.uniform(4.2, 4.9), phi, rng.uniform(0.8, 1.0))


STRUCTURES = {"tumour": _tumour, "lymphocytes": _lymphocytes, "fat": _fat, "vessel": _vessel, "gland": _gland}


def _pen(pen: Floats, rng: np.random.Generator, centre: Array) -> None:
    """A stroke of a felt pen."""
    angle, curve = rng.uniform(0, 2 * np.pi), rng.uniform(-0.02, 0.02)
    for step in np.linspace(-24, 24, 60):
        point = centre + step * _direction(angle) + curve * step**2 * _direction(angle + np.pi / 2)
        window, cover = _blob(point, 4.2, 4.2, 0.0, soft=1.2)
        pen[window] = np.maximum(pen[window], 0.85 * cover)
