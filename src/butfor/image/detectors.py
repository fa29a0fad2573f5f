"""Detectors: image -> boxes and scores. Any function of that shape will do; this one runs a YOLO network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from butfor.core.types import Array, Bools, Floats, InputError, Ints, ModelError
from butfor.image.models import class_names
from butfor.image.onnx_graph import Graph, open_graph
from butfor.image.region import Image, check_image
from butfor.models.optional import need

GREY = 114  # what YOLO networks are trained to see around an image that is not square


class Detections(NamedTuple):
    """Boxes (n, 4) as x1, y1, x2, y2 in pixels, scores (n,) descending, and a name for each."""

    boxes: Floats
    scores: Floats
    names: list[str]


@dataclass(frozen=True)
class Yolo:
    """An ONNX detector of the YOLO family. Made by `onnx_yolo`."""

    graph: Graph
    confidence: float
    overlap: float
    classes: tuple[str, ...] | None

    def __repr__(self) -> str:
        return f"onnx_yolo({self.graph.path.name}, confidence={self.confidence:g}, overlap={self.overlap:g})"

    def __call__(self, image: Image) -> Detections:
        check_image(image)
        entry = self.graph.session.get_inputs()[0]
        side = entry.shape[2] if isinstance(entry.shape[2], int) else 640
        pixels, scale, left, top = letterbox(image, side)
        feed = np.ascontiguousarray(pixels.transpose(2, 0, 1)[None], dtype=np.float32) / 255
        boxes, scores, labels = _decoded(self.graph.run({entry.name: feed})[0], self.confidence)
        kept = suppressed(boxes, scores, labels, self.overlap)
        boxes = (boxes[kept] - [left, top, left, top]) / scale
        height, width = image.shape[:2]
        boxes = np.clip(boxes, 0, [width, height, width, height])
        return Detections(boxes, scores[kept], [self._name(label) for label in labels[kept]])

    def _name(self, label: int) -> str:
        return self.classes[label] if self.classes and label < len(self.classes) else f"class {label}"


def onnx_yolo(
    path: str | Path,
    *,
    confidence: float = 0.25,
    overlap: float = 0.45,
    classes: object = None,
    threads: int | None = None,
) -> Yolo:
    """A detector from a YOLO network in ONNX: `detector(image)` gives boxes, scores and names.

    Reads outputs (1, 4 + classes, n) of YOLOv8 and later, and (1, n, 5 + classes) of v5 and v7.

    Parameters
    ----------
    path : the ONNX file.
    confidence : boxes with a smaller score are dropped.
    overlap : of two boxes of the same class whose intersection over union exceeds this, the surer stays.
    classes : a list of names, or a JSON or text file of them.
    threads : None is OMP_NUM_THREADS if set, else as many as onnxruntime likes.

    Examples
    --------
    >>> onnx_yolo("yolov8n.onnx")
    Traceback (most recent call last):
    butfor.core.types.InputError: the ONNX file yolov8n.onnx does not exist; give the path of an ONNX file
    """
    if not (0 <= confidence <= 1 and 0 <= overlap <= 1):
        raise InputError(f"confidence and overlap must lie between 0 and 1, got {confidence!r} and {overlap!r}")
    return Yolo(open_graph(path, threads), float(confidence), float(overlap), class_names(classes))


def letterbox(image: Image, side: int) -> tuple[Image, float, int, int]:
    """The image fitted into a grey square of `side` pixels, the scale, and the left and top margins.

    >>> square, scale, left, top = letterbox(np.zeros((10, 20, 3), np.uint8), 40)
    >>> square.shape, scale, left, top
    ((40, 40, 3), 2.0, 0, 10)
    """
    cv2 = need("cv2", "image")

    height, width = image.shape[:2]
    scale = min(side / height, side / width)
    across, down = max(1, round(width * scale)), max(1, round(height * scale))
    left, top = (side - across) // 2, (side - down) // 2
    square = np.full((side, side, 3), GREY, np.uint8)
    square[top : top + down, left : left + across] = cv2.resize(image, (across, down), interpolation=cv2.INTER_LINEAR)
    return square, scale, left, top


def _decoded(output: Array, confidence: float) -> tuple[Floats, Floats, Ints]:
    """Corners, scores and classes of the candidates that are sure enough."""
    rows = output[0].astype(np.float64) if output.ndim == 3 else np.zeros((0, 0))
    if rows.shape[0] < rows.shape[1]:  # (4 + classes, n): YOLOv8
        rows = rows.T
        scores = rows[:, 4:]
    else:  # (n, 5 + classes): the fifth is how sure it is that there is anything
        scores = rows[:, 5:] * rows[:, 4:5]
    if rows.shape[1] < 5 or scores.shape[1] < 1:
        raise ModelError(f"the detector's output has shape {output.shape}; expected (1, 4 + classes, n) as of YOLOv8")
    labels, best = scores.argmax(axis=1), scores.max(axis=1)
    sure = best >= confidence
    centre, half = rows[sure, :2], rows[sure, 2:4] / 2
    return np.concatenate([centre - half, centre + half], axis=1), best[sure], labels[sure].astype(np.int64)


def suppressed(boxes: Floats, scores: Floats, labels: Ints, overlap: float) -> Ints:
    """Positions of the boxes that are left, the surest first: one that overlaps a surer one of its class goes.

    >>> boxes = np.array([[0, 0, 10, 10], [1, 0, 11, 10], [1, 0, 11, 10.0]])
    >>> suppressed(boxes, np.array([0.5, 0.9, 0.4]), np.array([0, 0, 1]), 0.45).tolist()
    [1, 2]
    """
    order = np.argsort(-scores, kind="stable")
    kept: list[int] = []
    while order.size:
        first, order = order[0], order[1:]
        kept.append(int(first))
        order = order[~(_alike(boxes[first], boxes[order], overlap) & (labels[order] == labels[first]))]
    return np.array(kept, np.int64)


def _alike(box: Floats, others: Floats, overlap: float) -> Bools:
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    shared = np.clip(sides, 0, None).prod(axis=1)
    union = (box[2:] - box[:2]).prod() + (others[:, 2:] - others[:, :2]).prod(axis=1) - shared
    return np.asarray(shared > overlap * union)
