"""Object detectors in ONNX: YOLO of every version, YOLOX, NanoDet, PicoDet; image -> boxes, scores and names."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from butfor.image.inpainters import Graph, open_graph
from butfor.image.models import IMAGENET_MEAN, IMAGENET_SCALE, class_names
from butfor.image.region import Image, check_image
from butfor.models.wrap import need
from butfor.types import Array, Floats, InputError, Ints, ModelError

GREY = 114  # that YOLO networks are trained to see around images
FORMATS = "(1, 4 + classes, n) of YOLOv8, (1, n, 5 + classes) of v5 and YOLOX, (1, n, 6) of v10, or NanoDet's"
Found = tuple[Floats, Floats, Ints]  # corners (n, 4), scores (n,), classes (n,)


@dataclass(frozen=True)
class Layout:
    """How a network wants its pixels, and how its outputs are read."""

    head: Literal["plain", "objectness", "corners", "yolox", "nanodet", "picodet"]
    transposed: bool = False
    strides: tuple[int, ...] = ()


@dataclass(frozen=True)
class Yolo:
    """An ONNX detector of the YOLO family. Made by `onnx_yolo`."""

    graph: Graph
    confidence: float
    overlap: float
    classes: tuple[str, ...] | None

    def __repr__(self) -> str:
        return f"onnx_yolo({self.graph.path.name}, confidence={self.confidence:g}, overlap={self.overlap:g})"

    def __call__(self, image: Image) -> tuple[Floats, Floats, list[str]]:
        cv2 = need("cv2", "image")
        check_image(image)
        known = self.classes or _own_names(self.graph)
        side = _size(self.graph)
        layout = _layout(self.graph, self.graph.digest, side, len(known))
        height, width = image.shape[:2]
        scale = min(side[0] / height, side[1] / width)
        across, down = max(1, round(width * scale)), max(1, round(height * scale))
        left, top = (0, 0) if layout.head == "yolox" else ((side[1] - across) // 2, (side[0] - down) // 2)
        padded = np.full((*side, 3), GREY, np.uint8)
        small = cv2.resize(image, (across, down), interpolation=cv2.INTER_LINEAR)
        padded[top : top + down, left : left + across] = small
        boxes, scores, labels = _decoded(self.graph.run(_feed(self.graph, padded, layout)), layout, side)
        sure = scores >= self.confidence
        boxes, scores, labels = boxes[sure], scores[sure], labels[sure]
        kept = np.zeros(0, np.int64)
        if len(scores):  # non-maximum suppression, class by class
            sized = np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1)
            left_over = cv2.dnn.NMSBoxesBatched(sized, scores, labels.astype(np.int32), -1.0, self.overlap)
            kept = np.asarray(left_over, np.int64).reshape(-1)
            kept = kept[np.argsort(-scores[kept], kind="stable")]
        boxes = np.clip((boxes[kept] - [left, top, left, top]) / scale, 0, [width, height, width, height])
        names = [known[label] if label < len(known) else f"class {label}" for label in labels[kept]]
        return boxes, scores[kept], names


def onnx_yolo(
    path: str | Path,
    *,
    confidence: float = 0.25,
    overlap: float = 0.45,
    classes: object = None,
    threads: int | None = None,
) -> Yolo:
    """Open a detector in ONNX: `detector(image)` gives boxes, scores and names.

    Reads YOLO of v5 and later (with or without objectness, transposed or not, with non-maximum suppression or not),
    YOLOX, NanoDet and PicoDet, and tells them by the shapes of their outputs.

    Parameters
    ----------
    path : str or Path
        The ONNX file.
    confidence : float
        Boxes with a smaller score are dropped.
    overlap : float
        Of two boxes of a class with a larger intersection over union, the one with the larger score stays.
    classes : list, str or Path, optional
        Names of the classes, or a JSON or text file of them; those in the ONNX file by default.
    threads : int, optional
        OMP_NUM_THREADS if set by default, else onnxruntime's choice.

    Returns
    -------
    Yolo
        A function image -> boxes (n, 4) as x1, y1, x2, y2 in pixels, scores (n,) descending, and a name for each.

    Examples
    --------
    >>> onnx_yolo("yolov8n.onnx")
    Traceback (most recent call last):
    butfor.types.InputError: the ONNX file yolov8n.onnx does not exist; give the path of an ONNX file
    """
    if not (0 <= confidence <= 1 and 0 <= overlap <= 1):
        raise InputError(f"confidence and overlap must lie between 0 and 1, got {confidence!r} and {overlap!r}")
    return Yolo(open_graph(path, threads), float(confidence), float(overlap), class_names(classes))


def _own_names(graph: Graph) -> tuple[str, ...]:
    """Return the names that exporters write into the file: `names` of Ultralytics, `character` of PaddleDetection."""
    written: dict[str, str] = graph.session.get_modelmeta().custom_metadata_map
    if "character" in written:
        return tuple(written["character"].splitlines())
    try:
        return class_names(ast.literal_eval(written["names"])) or ()
    except (KeyError, ValueError, SyntaxError, TypeError, MemoryError, RecursionError, InputError):
        return ()


def _size(graph: Graph) -> tuple[int, int]:
    """Return height and width of the input; 640 where the network takes any."""
    shape = graph.session.get_inputs()[0].shape
    if len(shape) != 4 or (shape[1] not in (3, "3") and isinstance(shape[1], int)):
        raise ModelError(f"{graph.path.name} takes {shape}; a detector takes images as (1, 3, height, width)")
    height, width = (side if isinstance(side, int) and side > 0 else 640 for side in shape[2:])
    return height, width


def _feed(graph: Graph, padded: Image, layout: Layout) -> dict[str, Array]:
    pixels: Array = padded.astype(np.float32)
    if layout.head in ("nanodet", "picodet"):
        pixels = (pixels - np.array(IMAGENET_MEAN)) / np.array(IMAGENET_SCALE)
    elif layout.head != "yolox":
        pixels = pixels / 255
    if layout.head in ("nanodet", "yolox"):
        pixels = pixels[..., ::-1]  # trained on images as OpenCV reads them
    entry = graph.session.get_inputs()[0]
    kind = np.float16 if "float16" in entry.type else np.float32
    return {entry.name: np.ascontiguousarray(pixels.transpose(2, 0, 1)[None], dtype=kind)}


@lru_cache(maxsize=8)
def _layout(graph: Graph, digest: str, side: tuple[int, int], classes: int) -> Layout:  # noqa: ARG001 - the key
    """Return the layout that the outputs on a grey image have."""
    blank = np.full((*side, 3), GREY, np.uint8)
    return layout_of(graph.run(_feed(graph, blank, Layout("plain"))), side, classes)


def layout_of(outputs: Sequence[Array], side: tuple[int, int], classes: int = 0) -> Layout:
    """Return the layout of a detector's outputs by their shapes, the size of its input, and how many classes it has.

    >>> layout_of([np.zeros((1, 84, 8400))], (640, 640))
    Layout(head='plain', transposed=True, strides=())
    >>> layout_of([np.zeros((1, 2125, 112))], (320, 320)).head
    'nanodet'
    """
    cells = {  # of each stride
        strides: [-(-side[0] // stride) * -(-side[1] // stride) for stride in strides]
        for strides in ((8, 16, 32), (8, 16, 32, 64))
    }
    shapes = [output.shape for output in outputs]
    rows = [shape[1] for shape in shapes if len(shape) == 3]
    if len(outputs) in (6, 8) and len(rows) == len(outputs):  # classes and distances of each stride
        for strides, counts in cells.items():
            if sorted(rows) == sorted(2 * counts):
                return Layout("picodet", strides=strides)
    if not (len(shapes[0]) == 3 and shapes[0][0] == 1):
        raise ModelError(f"the detector's outputs have the shapes {shapes}; expected {FORMATS}")
    output = outputs[0][0]
    transposed = output.shape[0] < output.shape[1]
    rows_, columns = (output.T if transposed else output).shape
    for strides, counts in cells.items():
        # 4 sides, each a distribution over at least 5 distances; with YOLO all columns are a box and classes
        if not transposed and rows_ == sum(counts) and (columns == classes + 32 or (not classes and len(strides) == 4)):
            return Layout("nanodet", strides=strides)
    anchored = sum(cells[8, 16, 32])
    if columns == 6 and not transposed and rows_ not in (anchored, 3 * anchored):
        return Layout("corners")
    if columns < 5 or (classes and columns not in (classes + 4, classes + 5)):
        of = f" for {classes} classes" if classes else ""
        raise ModelError(f"the detector's output has shape {shapes[0]}{of}; expected {FORMATS}")
    objectness = columns == classes + 5 if classes else not transposed
    if not objectness:
        return Layout("plain", transposed)
    sizes = (output.T if transposed else output)[:, 2:4]
    if rows_ == anchored:  # YOLOv5 and v7 have three anchors a cell; logarithms of sizes are negative somewhere
        return Layout("yolox", transposed, (8, 16, 32) if (sizes < 0).any() else ())
    return Layout("objectness", transposed)


def _centres(side: tuple[int, int], strides: Sequence[int], offset: float) -> tuple[Floats, Floats]:
    """Return the points (n, 2) from which boxes are measured, and the stride of each (n, 1)."""
    points, steps = [], []
    for stride in strides:
        y, x = np.mgrid[: -(-side[0] // stride), : -(-side[1] // stride)]
        points.append((np.stack([x, y], axis=-1).reshape(-1, 2) + offset) * stride)
        steps.append(np.full((x.size, 1), float(stride)))
    return np.concatenate(points).astype(np.float64), np.concatenate(steps)


def _decoded(outputs: Sequence[Array], layout: Layout, side: tuple[int, int]) -> Found:
    """Return the boxes of all cells as corners on the padded image, with the score and the class of each."""
    if layout.head in ("nanodet", "picodet"):
        return _distances(outputs, layout, side)
    rows = outputs[0][0].astype(np.float64)
    rows = rows.T if layout.transposed else rows
    if layout.head == "corners":
        return rows[:, :4], rows[:, 4], rows[:, 5].astype(np.int64)
    scores = rows[:, 4:] if layout.head == "plain" else rows[:, 5:] * rows[:, 4:5]
    centre, size = rows[:, :2], rows[:, 2:4]
    if layout.strides:  # YOLOX: shares of a cell, and logarithms of cells
        points, steps = _centres(side, layout.strides, 0.0)
        centre, size = points + centre * steps, np.exp(np.minimum(size, 20)) * steps
    return np.concatenate([centre - size / 2, centre + size / 2], axis=1), scores.max(axis=1), scores.argmax(axis=1)


def _distances(outputs: Sequence[Array], layout: Layout, side: tuple[int, int]) -> Found:
    """Decode generalized focal loss (Li et al. 2020): each side's distance is the mean of a distribution."""
    if layout.head == "nanodet":  # classes, then 4 x 8 logits
        scores, logits = outputs[0][0][:, :-32], outputs[0][0][:, -32:]
    else:
        counts = [output.shape[1] for output in outputs]
        order = sorted(range(len(outputs)), key=lambda k: (-counts[k], k))  # by stride; classes come before distances
        scores = np.concatenate([outputs[k][0] for k in order[::2]])
        logits = np.concatenate([outputs[k][0] for k in order[1::2]])
    scores = scores.astype(np.float64)
    if scores.min() < 0 or scores.max() > 1:
        scores = 1 / (1 + np.exp(-scores))
    spread = logits.astype(np.float64).reshape(len(logits), 4, -1)
    spread = np.exp(spread - spread.max(axis=2, keepdims=True))
    far = (spread / spread.sum(axis=2, keepdims=True)) @ np.arange(spread.shape[2])
    points, steps = _centres(side, layout.strides, 0.5 if layout.head == "picodet" else 0.0)
    far = far * steps
    return np.concatenate([points - far[:, :2], points + far[:, 2:]], axis=1), scores.max(axis=1), scores.argmax(axis=1)
