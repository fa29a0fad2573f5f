"""Zoom beside LIME and SHAP's partition explainer: processor seconds, and which of them mark the object.

On the paper's photographs, where a detector says where the object is, and on textures of known truth, which are made
here and may be shown anywhere. The contact sheet of the photographs is for the eyes of whoever has them.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.figures import Figures, assets_folder, quietly
from benchmarks.images import NEEDED
from benchmarks.where import Explain, lime_of, shap_of
from butfor import Result, image, sequential
from butfor.evaluation.samplers import Sampler
from butfor.image.region import Box, Image, Zoom, at, mask_of
from butfor.image.view import marked_photograph
from butfor.simulate.images import PATCH, Stripes, textures
from butfor.types import Array, Bools, Floats, InputError, Model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELS = {"img19.jpg": 352, "img41.jpg": 192, "img46.jpg": 405, "img36.jpg": 17}  # what a person sees in them
PHOTOGRAPHS = tuple(LABELS)
SIDE, EXTENT = 8, 3  # squares of a texture, and of the object in it
SAMPLES = 300  # perturbed images that LIME and SHAP are given for one
DRAWS, H = 650, 1  # of the sequential test: with few draws one exceedance is enough to give up, and p gets smallest
ESTIMATED = "the same, with what is not established"
LEAST_SHARE = 0.5  # of what is marked most, in the object: a hit


@dataclass(frozen=True, eq=False)
class Album:
    """Images with an object in each, a model, and what to compare with."""

    name: str
    images: dict[str, Image]
    objects: dict[str, list[Box]]
    model: Model
    sampler: Sampler
    zoom: Zoom
    labels: list[int]  # the output that is explained, of each: the true class
    classes: tuple[str, ...] | None = None


def photographs(assets: Path | None, names: Sequence[str], threads: int | None) -> Album:
    """Some of the paper's photographs; fills are pieces of the others, and a detector says where the object is."""
    place = assets_folder(assets, *NEEDED, image=True)
    files = image.folder(place / "paper")
    unknown = [name for name in names if name not in LABELS]
    if unknown:
        raise InputError(f"no label is known for photograph {unknown[0]!r}; there are {', '.join(LABELS)}")
    by_name = dict(zip(files.names, files, strict=True))
    others = [by_name[name] for name in files.names if name not in names]
    picked = {name: by_name[name] for name in names}
    detector = image.onnx_yolo(place / "yolov8n.onnx", threads=threads)
    objects = {name: [_whole(box) for box in detector(pixels)[0]] for name, pixels in picked.items()}
    model = image.onnx_classifier(place / "efficientnet_lite0.onnx", "whole", threads=threads)
    return Album(
        "photographs",
        picked,
        objects,
        model,
        image.donor(others, own=0),  # a piece of the picture itself often shows the same thing
        Zoom(None, whole=False),
        [LABELS[name] for name in names],
    )


def generated(seed: int, count: int) -> Album:
    """Textures with stripes in one place of each: all is known, and all is ours."""
    bed = textures(seed, inputs=count, side=SIDE, extent=EXTENT)
    truth = {name: squares.reshape(SIDE, SIDE) for name, squares in zip(bed.inputs, bed.truth, strict=True)}
    objects = {name: [_around(squares)] for name, squares in truth.items()}
    return Album(
        "textures", bed.inputs, objects, bed.model, bed.sampler, Zoom(PATCH, whole=False), [0] * count, Stripes.classes
    )


def _whole(box: Floats) -> Box:
    x1, y1, x2, y2 = box.round().astype(int).tolist()
    return max(0, x1), max(0, y1), x2, y2


def _around(squares: Bools) -> Box:
    y, x = np.nonzero(squares)
    return int(x.min()) * PATCH, int(y.min()) * PATCH, (int(x.max()) + 1) * PATCH, (int(y.max()) + 1) * PATCH


@dataclass(frozen=True, eq=False)
class Shown:
    """Marks of one method on one image: how strongly each pixel is marked, and a picture of that."""

    marked: Floats  # (height, width), 0 where nothing is
    picture: Image
    seconds: float


def run(
    assets: Path | None = None,
    *,
    names: Sequence[str] = PHOTOGRAPHS,
    count: int = 4,
    seed: int = 0,
    threads: int | None = 1,
    sheets: Path | None = None,
) -> Figures:
    """Both albums: seconds a picture and whether the object is marked; `sheets` is a folder for a picture of each."""
    albums = [generated(seed, count)]
    try:
        albums += [photographs(assets, names, threads)] if names else []
    except InputError as error:
        warnings.warn(f"the photographs are left out: {error}", stacklevel=2)
    rows: list[Figures] = []
    for album in albums:
        marks, estimated = zoomed(album, seed)
        shown = {"butfor, zoom": marks, **peers(album, seed)}
        every = {"butfor, zoom": marks, ESTIMATED: estimated, **shown}
        rows += [_figures(album, method, marks) for method, marks in every.items()]
        if sheets is not None:
            sheets.mkdir(parents=True, exist_ok=True)
            sheet(album, shown).savefig(sheets / f"{album.name}.png", dpi=110)
    return {"methods": rows}


def _figures(album: Album, method: str, marks: dict[str, Shown]) -> Figures:
    masks, inside = [], []  # of the pixels that are marked most, the share in the object
    for name in [name for name, boxes in album.objects.items() if boxes]:
        marked, mask = marks[name].marked, np.zeros(album.images[name].shape[:2], bool)
        for box in album.objects[name]:
            mask[at(box)] = True
        most = marked >= marked.max() - 1e-12
        masks.append(mask)
        inside.append(float((most & mask).sum() / most.sum()) if marked.max() > 0 else 0.0)
    return {
        "album": album.name,
        "method": method,
        "images": len(album.images),
        "objects": len(masks),
        "marks_something": sum(bool(one.marked.any()) for one in marks.values()),
        "hits": sum(one >= LEAST_SHARE for one in inside),
        "inside": float(np.mean(inside)),
        "by_chance": float(np.mean([mask.mean() for mask in masks])),
        "seconds": float(np.mean([one.seconds for one in marks.values()])),
    }


def zoomed(album: Album, seed: int) -> tuple[dict[str, Shown], dict[str, Shown]]:
    """Coarse to fine, all images in one run: the false discovery rate is controlled over its cells.

    What is chosen, the more strongly marked the finer it is; and the effects of all that was drawn, chosen or not.
    """
    start = time.process_time()
    test, names = sequential(H, draws=DRAWS), album.classes
    y = album.labels if names is None else [names[label] for label in album.labels]
    options: Figures = {"test": test, "target": "truth", "y": y, "effects": "all", "seed": seed}
    result = quietly(image.explain, album.model, album.images, album.sampler, boxes=album.zoom, **options)
    seconds = (time.process_time() - start) / len(album.images)
    layers, effect = result.hypotheses.layers, np.nan_to_num(result.effects.effect)
    assert layers is not None
    drawn = result.evidence.draws > 0
    return (
        {name: _cells(result, k, seconds, result.chosen, layers.resolution) for k, name in enumerate(album.images)},
        {name: _cells(result, k, seconds, drawn, np.maximum(effect, 0)) for k, name in enumerate(album.images)},
    )


def _cells(result: Result, place: int, seconds: float, which: Bools, strength: Array) -> Shown:
    """Some cells of a picture, each as strongly marked as is said (H,); the finest counts where several lie."""
    pixels = result.hypotheses.items.block(place, place + 1)[0]
    marked = np.zeros(pixels.shape[:2])
    for row in np.flatnonzero(which & (result.input_of == place)):  # coarse ones come first
        marked[mask_of(result.hypotheses.block_of(int(row)).subset, *pixels.shape[:2])] = strength[row]
    return Shown(marked, marked_photograph(result, place), seconds)


def peers(album: Album, seed: int) -> dict[str, dict[str, Shown]]:
    """LIME and SHAP on the same output, where they are installed."""
    marks: dict[str, dict[str, Shown]] = {}
    ways = {"LIME": ("lime.lime_image", lime_of), "SHAP, partition": ("shap", shap_of)}
    for method, (module, explain) in ways.items():
        try:
            import_module(module)  # before the clock starts
        except ImportError:
            continue
        labelled = zip(album.images.items(), album.labels, strict=True)
        marks[method] = {name: _peer(explain, album.model, pixels, label, seed) for (name, pixels), label in labelled}
    return marks


def _peer(explain: Explain, model: Model, pixels: Image, label: int, seed: int) -> Shown:
    """Values as a red and blue veil over a grey photograph, as their makers show them."""
    start = time.process_time()
    values = explain(model, pixels, label, SAMPLES, seed, ())
    seconds = time.process_time() - start
    grey = np.repeat(pixels.mean(axis=2, keepdims=True), 3, axis=2) * 0.5 + 127
    share = np.clip(np.abs(values) / max(float(np.abs(values).max()), 1e-12), 0, 1)[..., None] * 0.8
    colour = np.where(values[..., None] > 0, np.array([21, 92, 214]), np.array([214, 110, 12]))
    return Shown(np.maximum(values, 0.0), ((1 - share) * grey + share * colour).astype(np.uint8), seconds)


def sheet(album: Album, shown: dict[str, dict[str, Shown]]) -> Figure:
    """A row for each image: as it is with the object outlined, then what each method makes of it."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    columns = len(shown) + 1
    figure = Figure(figsize=(2.1 * columns, 1.9 * len(album.images)), layout="constrained")
    axes = figure.subplots(len(album.images), columns, squeeze=False)
    for row, (name, pixels) in enumerate(album.images.items()):
        pictures = {
            "the picture, its object outlined": pixels,
            **{way: marks[name].picture for way, marks in shown.items()},
        }
        for ax, (title, picture) in zip(axes[row], pictures.items(), strict=True):
            ax.imshow(picture, interpolation="nearest" if min(pixels.shape[:2]) < 100 else None)
            ax.set_axis_off()
            if row == 0:
                ax.set_title(title, fontsize=7.5)
        for x1, y1, x2, y2 in album.objects[name]:
            place, across, down = (x1 - 0.5, y1 - 0.5), x2 - x1, y2 - y1
            axes[row][0].add_patch(Rectangle(place, across, down, fill=False, edgecolor="#d02424", linewidth=1.5))
    return figure
