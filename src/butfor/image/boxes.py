"""Subsets: boxes drawn by a person, in a list, a mapping or a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeGuard
from xml.etree import ElementTree
from xml.parsers.expat import ExpatError, ParserCreate

import numpy as np

from butfor.evaluation.hypotheses import Overlap, check_overlap_option, unique
from butfor.image.files import read_image
from butfor.image.inpainters import Graph, open_graph
from butfor.image.models import class_names
from butfor.image.region import Box, GivenRegions, Image, RegionWarning, check_image
from butfor.models.wrap import need, one_line
from butfor.streams import stream
from butfor.types import Array, Bools, Floats, InputError, Ints, ModelError, Subset, one_of, warn_user, whole
from butfor.untrusted import read_bounded, read_json

Corners = tuple[float, float, float, float]
Units = Literal["pixel", "relative"]
FARTHEST = 1e9  # pixels
MOST_XML = 8_000_000  # bytes: what is parsed takes thirty times as much


@dataclass(frozen=True)
class Drawn:
    """The boxes of one image, and the size (width, height) of the image they were drawn on, where known."""

    boxes: tuple[tuple[str | None, Corners], ...]
    size: tuple[int, int] | None = None
    units: Units | None = None  # None: the file does not say

    def __len__(self) -> int:
        return len(self.boxes)


def read_boxes(path: Path) -> dict[str, Drawn]:
    """Boxes by image name from a JSON or XML file, or from a folder of XML files."""
    if path.is_dir():
        files = sorted(path.glob("*.xml"))
        if not files:
            raise InputError(f"the folder {path} has no .xml files of boxes; give a JSON file or a folder of VOC files")
        return _each_once([_voc(file) for file in files], path)
    if not path.is_file():
        raise InputError(f"the file of boxes {path} does not exist")
    if path.suffix.lower() == ".xml":
        return dict([_voc(path)])
    if path.suffix.lower() != ".json":
        raise InputError(f"boxes come from .json (ours or COCO) or .xml (VOC, labelImg) files, got {path.name}")
    found = read_json(path, "the file of boxes")
    if isinstance(found, Mapping) and "annotations" in found and "images" in found:
        return _coco(found, path)
    return _ours(found, path)


def _each_once(drawn: Sequence[tuple[str, Drawn]], path: Path) -> dict[str, Drawn]:
    often, count = Counter(name for name, _ in drawn).most_common(1)[0] if drawn else ("", 0)
    if count > 1:
        raise InputError(
            f"{path} has boxes of the image {often!r} {count} times; correct its file names (<filename> in VOC files)"
        )
    return dict(drawn)


def _ours(found: object, path: Path) -> dict[str, Drawn]:
    """{"boxes": {image: [[x1, y1, x2, y2] or {"name": ..., "box": [...]}, ...]}, "units": "pixel" or "relative"}."""
    units = found.get("units") if isinstance(found, Mapping) else None
    by_image = found.get("boxes", found) if isinstance(found, Mapping) else None
    if not isinstance(by_image, Mapping) or not by_image or units not in (None, "pixel", "relative"):
        raise InputError(
            f'the file of boxes {path} should hold {{"boxes": {{image name: [[x1, y1, x2, y2], ...]}}}}, with "units" '
            "pixel or relative, or be COCO JSON"
        )
    return {name: Drawn(entries(boxes, f"image {name!r} in {path}"), None, units) for name, boxes in by_image.items()}


def _coco(found: Mapping[str, Any], path: Path) -> dict[str, Drawn]:
    """COCO boxes are x, y, width, height in pixels; images without annotations have no boxes."""
    try:
        labels = {category["id"]: str(category["name"]) for category in found.get("categories", [])}
        boxes: dict[Any, list[tuple[str | None, Corners]]] = {image["id"]: [] for image in found["images"]}
        for annotation in found["annotations"]:
            x, y, width, height = (_finite(value) for value in annotation["bbox"])
            label = labels.get(annotation.get("category_id"))
            boxes[annotation["image_id"]].append((label, (x, y, x + width, y + height)))
        drawn = [
            (str(image["file_name"]), Drawn(tuple(boxes[image["id"]]), _size(image), "pixel"))
            for image in found["images"]
        ]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(
            f"the COCO file {path} lacks or garbles {one_line(error)[:200]}; expected images with id and file_name, "
            "and annotations with image_id and bbox [x, y, width, height]"
        ) from error
    return _each_once(drawn, path)


def _size(image: Mapping[str, Any]) -> tuple[int, int] | None:
    width, height = (_side(image.get(side) or 0) for side in ("width", "height"))
    return (width, height) if width and height else None


def _finite(value: Any) -> float:
    """A number that a pixel may stand at; VOC and COCO files of others have inf and NaN in them."""
    number = float(value)
    if not abs(number) < FARTHEST:  # NaN is not, either
        raise ValueError(f"the number {value!r:.40}")
    return number


def _side(value: Any) -> int:
    side = int(_finite(value))
    if side < 0:
        raise ValueError(f"the side {value!r:.40}")
    return side


def _voc(path: Path) -> tuple[str, Drawn]:
    """VOC counts pixels from 1 and includes the last: xmin 1, xmax 10 are the first ten pixels."""
    try:
        root = _parsed(read_bounded(path, "the file of boxes", MOST_XML))
        boxes = []
        for thing in root.iter("object"):
            box = thing.find("bndbox")
            if box is None:
                raise KeyError("bndbox")
            x1, y1, x2, y2 = (_finite(_text(box, side)) for side in ("xmin", "ymin", "xmax", "ymax"))
            boxes.append((thing.findtext("name"), (x1 - 1, y1 - 1, x2, y2)))
        name = root.findtext("filename") or path.stem
        width, height = (_side(root.findtext(f"size/{side}") or 0) for side in ("width", "height"))
    except InputError:
        raise
    except (ElementTree.ParseError, ExpatError, LookupError, ValueError, OverflowError, RecursionError) as error:
        raise InputError(
            f"the file of boxes {path} is not VOC or labelImg XML: {type(error).__name__} {one_line(error)[:200]}"
        ) from error
    return name, Drawn(tuple(boxes), (width, height) if width and height else None, "pixel")


def _parsed(content: bytes) -> ElementTree.Element:
    """The XML of a file that declares no types and entities of its own: a few lines of those unfold to gigabytes."""

    def refuse(*_: object) -> None:
        raise ValueError("it declares a document type, which files of boxes do without")

    look = ParserCreate()
    look.StartDoctypeDeclHandler = refuse
    look.Parse(content, True)
    return ElementTree.fromstring(content)


def _text(box: ElementTree.Element, side: str) -> str:
    text = box.findtext(side)
    if text is None:
        raise KeyError(side)
    return text


def is_corners(value: object) -> TypeGuard[Collection[float]]:
    """Whether a value is four numbers."""
    if not isinstance(value, Collection) or isinstance(value, str | bytes | Mapping) or len(value) != 4:
        return False
    return all(isinstance(number, int | float | np.number) and not isinstance(number, bool) for number in value)


def entries(source: object, where: str) -> tuple[tuple[str | None, Corners], ...]:
    """(name or None, corners) of each box in a list or a mapping of names to boxes."""
    if is_corners(source):
        raise InputError(f"the boxes of {where} are four numbers; put the box into a list: [{list(source)}]")
    if isinstance(source, Mapping):
        pairs = list(source.items())
    elif isinstance(source, Sequence | np.ndarray) and not isinstance(source, str | bytes):
        pairs = [(box.get("name"), box.get("box")) if isinstance(box, Mapping) else (None, box) for box in source]
    else:
        raise InputError(f"the boxes of {where} must be a list of boxes, got {type(source).__name__}")
    found = []
    for name, box in pairs:
        if not is_corners(box) or not all(abs(side) < FARTHEST for side in box):
            shown = _shown(box)
            advice = "; give masks with butfor.image.masks" if isinstance(box, np.ndarray) and box.ndim == 2 else ""
            raise InputError(f"a box of {where} is {shown}; expected four finite numbers x1, y1, x2, y2{advice}")
        x1, y1, x2, y2 = (float(value) for value in box)
        found.append((None if name is None else str(name), (x1, y1, x2, y2)))
    return tuple(found)


def _shown(box: object) -> str:
    """What came in place of a box, short; what is nested too deeply to be written has no words."""
    try:
        return " ".join(f"{box!r:.80}".split())
    except RecursionError:
        return "a list inside lists without end"


Form = Literal["corners", "xywh"]


def _placed(units: Units | None, form: Form, name: str, image: Image, drawn: Drawn) -> Iterator[Subset]:
    """The boxes of one image in its pixels."""
    height, width = image.shape[:2]
    for number, (given, corners) in enumerate(drawn.boxes, start=1):
        label = given or f"box {number}"
        what, shown = f"box {label!r} of image {name!r}", "(" + ", ".join(f"{value:g}" for value in corners) + ")"
        x1, y1, x2, y2 = corners
        if form == "xywh":
            x2, y2 = x1 + x2, y1 + y2
        if x2 <= x1 or y2 <= y1:
            raise InputError(
                f"{what} is {shown}, which has no area as x1, y1, x2, y2; order its corners, or use form='xywh' if it "
                "is x, y, width, height"
            )
        across, down = 1.0, 1.0
        if (units or drawn.units or _guessed(name, drawn)) == "relative":
            if max(x2, y2) > 2 or min(x1, y1) < -1:
                raise InputError(
                    f"{what} is {shown}, expected shares of the width and height between 0 and 1; use units='pixel'"
                )
            across, down = float(width), float(height)
        elif drawn.size is not None and drawn.size != (width, height):
            across, down = _rescaled(name, drawn.size, width, height)
        pixels = round(x1 * across), round(y1 * down), round(x2 * across), round(y2 * down)
        yield Subset(label, _clipped(what, pixels, height, width))


def _guessed(name: str, drawn: Drawn) -> Units:
    """Relative if all numbers lie between 0 and 1 and one of them is a fraction."""
    values = np.array([corners for _, corners in drawn.boxes])
    if not (values % 1).any() or values.min() <= -1 or values.max() >= 2:
        return "pixel"
    if values.min() < 0 or values.max() > 1:
        worst = values.min() if values.min() < 0 else values.max()
        raise InputError(
            f"the boxes of image {name!r} look like shares of its width and height, which must lie between 0 and 1, "
            f"but one is {worst:g}; correct it, or use units='pixel' if they are pixels"
        )
    return "relative"


def _rescaled(name: str, size: tuple[int, int], width: int, height: int) -> tuple[float, float]:
    """What boxes drawn on an image of another size are to be multiplied by."""
    across, down = width / size[0], height / size[1]
    off = abs(across - down)
    if off * max(size) > 2 and off * min(size) >= 1:  # more than rounding a side explains
        raise InputError(
            f"the boxes of image {name!r} were drawn on {size[0]} x {size[1]} pixels, but the "
            f"image has {width} x {height}; draw them on this image (was it turned or cropped?)"
        )
    return across, down


def _clipped(what: str, box: Box, height: int, width: int) -> Box:
    x1, y1, x2, y2 = max(box[0], 0), max(box[1], 0), min(box[2], width), min(box[3], height)
    if x2 <= x1 or y2 <= y1:
        outside = box[0] >= width or box[1] >= height or box[2] <= 0 or box[3] <= 0
        where = "outside" if outside else "less than a pixel in"
        raise InputError(f"{what}, {box}, lies {where} the image of {width} x {height} pixels")
    if (x1, y1, x2, y2) != box:
        clipped = f"{what}, {box}, reaches over the edge of the image of {width} x {height} pixels and was clipped"
        warn_user(clipped, RegionWarning)
    return x1, y1, x2, y2


def boxes(
    source: object, *, units: Units | None = None, form: Form = "corners", overlap: Overlap = "refuse"
) -> GivenRegions[Drawn]:
    """Boxes x1, y1, x2, y2 (half-open) to test in each image.

    A box that reaches over the edge is clipped, with a warning; one without area, or outside, is refused: corners in
    the wrong order are most often x, y, width, height.

    Parameters
    ----------
    source : a list of boxes or a mapping {box name: box} for every image, a mapping {image name: such a list or
        mapping}, or a file: our JSON ({"boxes": {image name: [box, ...]}}, a box being four numbers or {"name",
        "box"}), COCO JSON, VOC or labelImg XML, or a folder of XML files.
    units : "pixel" or "relative"; None reads numbers between 0 and 1 that are not all whole as shares of width and
        height.
    form : "corners", or "xywh" where boxes are x, y, width, height.
    overlap : "refuse" boxes that overlap, or test each "alone" all the same.

    Examples
    --------
    >>> some = boxes({"cat.jpg": {"head": (1, 1, 3, 3)}, "dog.jpg": [(0, 0, 2, 2), (2, 2, 4, 4)]})
    >>> [(s.name, s.index) for s in some("cat.jpg", np.zeros((4, 4, 3), np.uint8))]
    [('head', (1, 1, 3, 3))]
    """
    check_overlap_option(overlap)
    one_of("units", units, (None, "pixel", "relative"))
    one_of("form", form, ("corners", "xywh"))
    by_image, everywhere = None, None
    if isinstance(source, str | Path):
        if form != "corners":
            raise InputError("a file of boxes says its own form; leave form='xywh' out")
        by_image = read_boxes(Path(source))
    elif isinstance(source, Mapping) and not any(is_corners(value) for value in source.values()):
        by_image = {str(name): Drawn(entries(some, f"image {name!r}")) for name, some in source.items()}
    else:
        everywhere = Drawn(entries(source, "every image"))
    if not by_image and not everywhere:
        raise InputError("boxes is empty; give at least one box")
    return GivenRegions("boxes", by_image, everywhere, partial(_placed, units, form), overlap)


Detector = Callable[[Image], Any]  # image -> boxes (n, 4) and scores (n,), and names (n) if it has them


@dataclass(frozen=True)
class RandomBoxes:
    """Random boxes that do not overlap. Made by `random_boxes`."""

    seed: int
    tries: int

    blind = True  # whatever is there

    def __call__(self, name: object, image: Image) -> list[Subset]:
        return self.beside([], str(name), image)

    def beside(self, kept: Sequence[Box], name: str, image: Image) -> list[Subset]:
        """`tries` times: sides uniform between a quarter and a half of the image's, placed uniformly where the box
        fits, kept if it overlaps nothing kept so far."""
        height, width = image.shape[:2]
        rng = stream(self.seed, "random boxes", name)
        taken = list(kept)
        found: list[Subset] = []
        for _ in range(self.tries):
            across, down = _random_side(width, rng), _random_side(height, rng)
            x, y = int(rng.integers(width - across + 1)), int(rng.integers(height - down + 1))
            box = (x, y, x + across, y + down)
            if not any(overlapping(box, other) for other in taken):
                taken.append(box)
                found.append(Subset(f"random {len(found) + 1}", box))
        return found


def _random_side(length: int, rng: np.random.Generator) -> int:
    least = -(-length // 4)
    return int(rng.integers(least, max(least, length // 2) + 1))


def overlapping(a: Box, b: Box) -> bool:
    """Whether two boxes share a pixel.

    >>> overlapping((0, 0, 2, 2), (2, 0, 4, 2)), overlapping((0, 0, 3, 2), (2, 0, 4, 2))
    (False, True)
    """
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def random_boxes(*, seed: int = 0, tries: int = 100) -> RandomBoxes:
    """Random boxes as in the paper: an image gets the same ones whatever images come before it.

    Parameters
    ----------
    seed : the same seed gives the same boxes.
    tries : boxes that are drawn; those that overlap none before them are kept.

    Examples
    --------
    >>> found = random_boxes(seed=1)("cat.jpg", np.zeros((100, 100, 3), np.uint8))
    >>> len(found) > 1 and not overlapping(found[0].index, found[1].index)
    True
    """
    return RandomBoxes(int(seed), whole("tries", tries, 1))


@dataclass(frozen=True)
class DetectedBoxes:
    """A detector's boxes, the surest first, then random ones. Made by `detected_boxes`."""

    detector: Detector
    area: tuple[float, float]
    random: RandomBoxes | None

    def __call__(self, name: object, image: Image) -> list[Subset]:
        height, width = image.shape[:2]
        boxes, scores, labels = detect(self.detector, str(name), image)
        kept: list[Box] = []
        found: list[Subset] = []
        for i in np.argsort(-scores, kind="stable"):
            box = _inside(boxes[i], height, width)
            share = (box[2] - box[0]) * (box[3] - box[1]) / (height * width)
            if self.area[0] <= share <= self.area[1] and not any(overlapping(box, other) for other in kept):
                kept.append(box)
                found.append(Subset(f"{labels[i]} {_two(scores[i])}" if labels else f"detected {len(kept)}", box))
        return unique(found + (self.random.beside(kept, str(name), image) if self.random else []))


def _two(score: float) -> str:
    """How sure a detector is: ".87"."""
    return f"{score:.2f}".removeprefix("0") if 0 <= score <= 1 else f"{score:.3g}"


def _inside(corners: Floats, height: int, width: int) -> Box:
    x1, y1, x2, y2 = (round(float(value)) for value in corners)
    x1, y1 = min(max(x1, 0), width), min(max(y1, 0), height)
    return x1, y1, max(x1, min(x2, width)), max(y1, min(y2, height))


def detected_boxes(
    detector: Detector, *, area: tuple[float, float] = (0.1, 0.5), random: bool = True, seed: int = 0, tries: int = 100
) -> DetectedBoxes:
    """Boxes as the paper's appendix chooses them, without a person.

    The detector's boxes by descending score, each kept if it overlaps none kept so far; then random ones that overlap
    nothing.

    Parameters
    ----------
    detector : image -> boxes (n, 4) in pixels and scores (n,), and names (n) if it has them: "dog .87".
    area : the least and the largest share of the image that a detector's box may cover.
    random : whether those of `random_boxes` come behind.
    seed, tries : of `random_boxes`.

    Examples
    --------
    >>> one = detected_boxes(lambda image: ([[0, 0, 40, 40], [10, 10, 50, 50]], [0.5, 0.9]), random=False)
    >>> [(s.name, s.index) for s in one("cat.jpg", np.zeros((100, 100, 3), np.uint8))]
    [('detected 1', (10, 10, 50, 50))]
    """
    if not callable(detector):
        raise InputError(f"detector must be a function image -> (boxes, scores), got {type(detector).__name__}")
    if not 0 <= area[0] < area[1] <= 1:
        raise InputError(f"area must be two shares of the image, smaller first, got {area!r}")
    return DetectedBoxes(
        detector, (float(area[0]), float(area[1])), random_boxes(seed=seed, tries=tries) if random else None
    )


def detect(detector: Detector, name: str, image: Image) -> tuple[Floats, Floats, list[str] | None]:
    """What a detector says of an image, checked: boxes (n, 4), scores (n,), and names if it gives them."""
    try:
        answer = detector(image)
        boxes, scores = (
            np.asarray(answer[0], np.float64).reshape(-1, 4),
            np.asarray(answer[1], np.float64).reshape(-1),
        )
        labels = [str(label) for label in answer[2]] if len(answer) > 2 and answer[2] is not None else None
    except Exception as error:
        raise ModelError(
            f"the detector failed on image {name!r} ({type(error).__name__}: {error}); it must return boxes (n, 4) and "
            "scores (n,)"
        ) from error
    if len(boxes) != len(scores) or (labels is not None and len(labels) != len(scores)):
        raise ModelError(f"the detector gave {len(boxes)} boxes but {len(scores)} scores for image {name!r}")
    if not (np.isfinite(boxes).all() and np.isfinite(scores).all()):
        raise ModelError(f"the detector gave boxes or scores that are not finite for image {name!r}")
    return boxes, scores, labels


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
    butfor.types.InputError: the ONNX file yolov8n.onnx does not exist; give the path of an ONNX file
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


Mask = Array | str | Path  # (height, width), or a PNG file
Labelled = tuple[tuple[str, Mask], ...]  # the masks of one image with their names


def masks(source: object, *, overlap: Overlap = "refuse") -> GivenRegions[Labelled]:
    """Regions of any shape to test in each image.

    A mask is a boolean array (height, width), an array in which everything above 0 belongs to the region, or a PNG file
    of that kind (above half of white, or 1 in a file of 0 and 1).

    Parameters
    ----------
    source : a list or a mapping {region name: mask} for every image, a mapping {image name: such a list or mapping}, or
        a folder with one folder of PNG files per image (called like the image, with or without its suffix).
    overlap : "refuse" masks that overlap, or test each "alone" all the same.

    Examples
    --------
    >>> some = masks({"left": np.arange(4) < 2 * np.ones((4, 1))})
    >>> [(s.name, int(s.index.sum())) for s in some("cat.jpg", np.zeros((4, 4, 3), np.uint8))]
    [('left', 8)]
    """
    check_overlap_option(overlap)
    by_image, everywhere = None, None
    if isinstance(source, str | Path):
        by_image = _folders(Path(source))
    elif isinstance(source, Mapping) and not all(map(_is_one_mask, source.values())):
        by_image = {str(name): _labelled(some, f"image {name!r}") for name, some in source.items()}
    else:
        everywhere = _labelled(source, "every image")
    if not by_image and not everywhere:
        raise InputError("masks is empty; give at least one mask")
    return GivenRegions("masks", by_image, everywhere, _placed_mask, overlap)


def _labelled(some: object, where: str) -> Labelled:
    """Names and masks, from a list or a mapping of them."""
    if isinstance(some, np.ndarray) and some.ndim == 2:
        raise InputError(f"the masks of {where} are a single array; put it into a list")
    if isinstance(some, Mapping):
        pairs = [(str(label), mask) for label, mask in some.items()]
    elif isinstance(some, Sequence | np.ndarray) and not isinstance(some, str):
        pairs = [(_label(mask, number), mask) for number, mask in enumerate(some, start=1)]
    else:
        pairs = [(_label(some, 1), some)]
    if not all(_is_one_mask(mask) for _, mask in pairs):
        shown = " ".join(f"{some!r:.80}".split())
        raise InputError(f"the masks of {where} must be a list of arrays (height, width) or PNG files, got {shown}")
    return tuple(pairs)


def _is_one_mask(value: object) -> TypeGuard[Mask]:
    return isinstance(value, str | Path) or (isinstance(value, np.ndarray) and value.ndim == 2)


def holds_masks(path: Path) -> bool:
    """A folder of folders of pictures, one for each image; a folder of files is of boxes."""
    return path.is_dir() and any(path.glob("*/*.png"))


def _folders(root: Path) -> dict[str, Labelled]:
    if not root.is_dir():
        raise InputError(f"the folder of masks {root} {'is a file' if root.exists() else 'does not exist'}")
    inner = sorted(folder for folder in root.iterdir() if folder.is_dir() and any(folder.glob("*.png")))
    if not inner:
        raise InputError(f"the folder of masks {root} has no folders with .png files; make one per image")
    return {folder.name: tuple((file.stem, file) for file in sorted(folder.glob("*.png"))) for folder in inner}


def _label(mask: object, number: int) -> str:
    return Path(mask).stem if isinstance(mask, str | Path) else f"mask {number}"


def _placed_mask(name: str, image: Image, drawn: Labelled) -> Iterator[Subset]:
    """The masks of one image, as large as it."""
    height, width = image.shape[:2]
    for label, mask in drawn:
        pixels = _pixels(mask)
        if pixels.shape != (height, width):
            raise InputError(
                f"mask {label!r} of image {name!r} has {pixels.shape[1]} x {pixels.shape[0]} pixels but the image "
                f"{width} x {height}; make it the size of the image"
            )
        if not pixels.any():
            raise InputError(f"mask {label!r} of image {name!r} marks no pixel; leave it out")
        yield Subset(label, pixels)


def _pixels(mask: Mask) -> Bools:
    if not isinstance(mask, str | Path):
        return np.array(mask > 0, np.bool_)  # a copy: nobody may write into the caller's
    grey = read_image(mask).max(axis=2)
    return np.asarray(grey > (0 if grey.max() == 1 else 127))
