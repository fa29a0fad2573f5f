"""Subsets of images: boxes and masks from lists, mappings and files, random boxes, and those of a detector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeGuard, cast
from xml.etree import ElementTree
from xml.parsers.expat import ExpatError, ParserCreate

import numpy as np

from butfor.evaluation.hypotheses import Overlap, Proposer, check_overlap_option, unique
from butfor.image.files import read_image
from butfor.image.region import Box, GivenRegions, Image, RegionWarning, grid, superpixels, zoom
from butfor.streams import stream
from butfor.types import Array, Bools, InputError, ModelError, Subset, one_of, reworded, warn_user, whole
from butfor.untrusted import read_bounded, read_json

Corners = tuple[float, float, float, float]
Units = Literal["pixel", "relative"]
Form = Literal["corners", "xywh"]
FARTHEST = 1e9  # pixels


def as_proposer(given: object, seed: int, names: Sequence[str] = (), *, whole: bool = False) -> Proposer:
    """Return the function (name, image) -> subsets that `boxes=` means; `names` are those of the images.

    "zoom" begins with the entire picture where the sampler can redraw the `whole`.

    >>> [subset.name for subset in as_proposer([(0, 0, 2, 2)], 0)("a", np.zeros((4, 4, 3), np.uint8))]
    ['box 1']
    >>> each = as_proposer([[(0, 0, 2, 2), (2, 2, 4, 4)], []], 0, ["a", "b"])
    >>> [len(each(name, np.zeros((4, 4, 3), np.uint8))) for name in ("a", "b")]
    [2, 0]
    """
    by_name: dict[str, Proposer] = {
        "grid": grid(3),
        "zoom": zoom(whole=whole),
        "superpixels": superpixels(),
        "random": random_boxes(seed=seed),
    }
    if given is None or (isinstance(given, str) and given in by_name):
        return by_name[given or "grid"]
    if callable(given):
        return cast("Proposer", given)
    if isinstance(given, str | Path):
        if not Path(given).exists():
            raise InputError(f"boxes is {str(given)!r}, neither a file nor one of {', '.join(by_name)}")
        return masks(given) if holds_masks(Path(given)) else boxes(given)

    def lists_regions(entry: object) -> bool:  # four numbers are one box, an array may be one mask
        if isinstance(entry, Mapping):
            return "box" not in entry  # {"name": ..., "box": ...} is one box
        if isinstance(entry, np.ndarray):
            return entry.shape[1:] == (4,) and not _is_mask(entry)
        if isinstance(entry, str) or not isinstance(entry, Sequence):
            return False
        first = entry[0] if entry else ()
        return _is_mask(first) or (isinstance(first, Mapping | Sequence | np.ndarray) and not isinstance(first, str))

    if isinstance(given, Sequence | np.ndarray) and len(given) > 0 and all(map(lists_regions, given)):
        if len(given) != len(names):
            raise InputError(
                f"boxes has lists of boxes for {len(given)} images, but there are {len(names)}; give one list for each "
                "image, in their order, or a mapping {image name: list of boxes}"
            )
        given = dict(zip(names, given, strict=True))
    return masks(given) if _is_mask(_first(given)) else boxes(given)


def _first(given: object) -> object:
    if isinstance(given, str) or not isinstance(given, Mapping | Sequence):
        return given
    inner = given.values() if isinstance(given, Mapping) else given
    return next((leaf for part in inner if (leaf := _first(part)) is not None), None)


def _is_mask(given: object) -> bool:
    if isinstance(given, str | Path):
        return Path(given).suffix.lower() == ".png"
    return isinstance(given, np.ndarray) and bool(
        given.dtype == np.bool_ or (given.ndim == 2 and given.shape[1] != 4 and given.dtype == np.uint8)
    )


def boxes(
    source: object, *, units: Units | None = None, form: Form = "corners", overlap: Overlap = "refuse"
) -> GivenRegions:
    """Test boxes x1, y1, x2, y2 (half-open) in each image.

    A box that crosses the edge is clipped, with a warning; one without area, or outside, is refused.

    Parameters
    ----------
    source : list, dict, str or Path
        A list of boxes or {box name: box} for every image, {image name: such a list or mapping}, or a file: JSON
        ({"boxes": {image name: [four numbers or {"name", "box"}, ...]}}), COCO, VOC or labelImg, or a folder of XML.
    units : {"pixel", "relative"}, optional
        By default numbers between 0 and 1 with a fraction among them are shares of width and height.
    form : {"corners", "xywh"}
        "xywh" where boxes are x, y, width, height.
    overlap : {"refuse", "alone"}
        Refuse boxes that overlap, or test each of them alone.

    Returns
    -------
    GivenRegions
        A function (name, image) -> subsets.

    Examples
    --------
    >>> drawn = boxes({"cat.jpg": {"head": (1, 1, 3, 3)}, "dog.jpg": [(0, 0, 2, 2), (2, 2, 4, 4)]})
    >>> [(s.name, s.index) for s in drawn("cat.jpg", np.zeros((4, 4, 3), np.uint8))]
    [('head', (1, 1, 3, 3))]
    """
    check_overlap_option(overlap)
    one_of("units", units, (None, "pixel", "relative"))
    one_of("form", form, ("corners", "xywh"))
    by_image, everywhere = None, None
    if isinstance(source, str | Path):
        if form != "corners":
            raise InputError("a file of boxes says its own form; leave form='xywh' out")
        by_image = _read_boxes(Path(source))  # name -> Drawn
    elif isinstance(source, Mapping) and not any(is_corners(value) for value in source.values()):
        by_image = {str(name): Drawn(_entries(given, f"image {name!r}")) for name, given in source.items()}
    else:
        everywhere = Drawn(_entries(source, "every image"))
    if not by_image and not everywhere:
        raise InputError("boxes is empty; give at least one box")
    return GivenRegions("boxes", by_image, everywhere, partial(_in_pixels, units, form), overlap)


@dataclass(frozen=True)
class Drawn:
    """The boxes of one image, and the size (width, height) of the image they were drawn on, where known."""

    boxes: tuple[tuple[str | None, Corners], ...]
    size: tuple[int, int] | None = None
    units: Units | None = None  # None: the file does not say

    def __len__(self) -> int:
        return len(self.boxes)


def _read_boxes(path: Path) -> dict[str, Drawn]:
    """Read boxes by image name from a JSON or XML file, or from a folder of XML files."""
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
    content = read_json(path, "the file of boxes")
    if isinstance(content, Mapping) and "annotations" in content and "images" in content:
        return _coco(content, path)
    units = content.get("units") if isinstance(content, Mapping) else None
    by_image = content.get("boxes", content) if isinstance(content, Mapping) else None
    if not isinstance(by_image, Mapping) or not by_image or units not in (None, "pixel", "relative"):
        raise InputError(
            f'the file of boxes {path} should hold {{"boxes": {{image name: [[x1, y1, x2, y2], ...]}}}}, with "units" '
            "pixel or relative, or be COCO JSON"
        )
    return {name: Drawn(_entries(boxes, f"image {name!r} in {path}"), None, units) for name, boxes in by_image.items()}


def _each_once(drawn: Sequence[tuple[str, Drawn]], path: Path) -> dict[str, Drawn]:
    often, count = Counter(name for name, _ in drawn).most_common(1)[0] if drawn else ("", 0)
    if count > 1:
        raise InputError(
            f"{path} has boxes of the image {often!r} {count} times; correct its file names (<filename> in VOC files)"
        )
    return dict(drawn)


def _coco(content: Mapping[str, Any], path: Path) -> dict[str, Drawn]:
    """Read COCO boxes: x, y, width, height in pixels; images without annotations have no boxes."""
    faults = KeyError, TypeError, ValueError, AttributeError, OverflowError
    advice = "; expected images with id and file_name, and annotations with image_id and bbox [x, y, width, height]"
    with reworded(f"the COCO file {path} lacks or garbles ", faults, advice=advice):
        labels = {category["id"]: str(category["name"]) for category in content.get("categories", [])}
        boxes: dict[Any, list[tuple[str | None, Corners]]] = {image["id"]: [] for image in content["images"]}
        for annotation in content["annotations"]:
            x, y, width, height = (_finite(value) for value in annotation["bbox"])
            label = labels.get(annotation.get("category_id"))
            boxes[annotation["image_id"]].append((label, (x, y, x + width, y + height)))
        drawn = []
        for image in content["images"]:
            size = _size(image.get("width"), image.get("height"))
            drawn.append((str(image["file_name"]), Drawn(tuple(boxes[image["id"]]), size, "pixel")))
    return _each_once(drawn, path)


def _finite(value: Any) -> float:
    number = float(value)
    if not abs(number) < FARTHEST:  # VOC and COCO files may hold inf, and NaN
        raise ValueError(f"the number {value!r:.40}")
    return number


def _size(*sides: Any) -> tuple[int, int] | None:
    width, height = (int(_finite(side or 0)) for side in sides)
    if width < 0 or height < 0:
        raise ValueError(f"the side {sides[width >= 0]!r:.40}")
    return (width, height) if width and height else None


def _voc(path: Path) -> tuple[str, Drawn]:
    """Read a VOC file. It counts pixels from 1 and includes the last: xmin 1, xmax 10 are the first ten pixels."""

    def refuse(*_: object) -> None:
        raise ValueError("it declares a document type, which files of boxes do without")

    faults = ElementTree.ParseError, ExpatError, LookupError, ValueError, OverflowError, RecursionError
    with reworded(f"the file of boxes {path} is not VOC or labelImg XML: ", faults, named=True):
        content = read_bounded(path, "the file of boxes", 8_000_000)  # bytes: parsed, it takes thirty times as much
        scan = ParserCreate()
        scan.StartDoctypeDeclHandler = refuse  # a few lines of entities unfold to gigabytes
        scan.Parse(content, True)
        root = ElementTree.fromstring(content)
        boxes = []
        for thing in root.iter("object"):
            sides = [thing.findtext(f"bndbox/{side}") for side in ("xmin", "ymin", "xmax", "ymax")]
            if None in sides:
                raise KeyError("bndbox" if thing.find("bndbox") is None else "xmin, ymin, xmax, ymax")
            x1, y1, x2, y2 = map(_finite, sides)
            boxes.append((thing.findtext("name"), (x1 - 1, y1 - 1, x2, y2)))
        size = _size(root.findtext("size/width"), root.findtext("size/height"))
    return root.findtext("filename") or path.stem, Drawn(tuple(boxes), size, "pixel")


def is_corners(value: object) -> TypeGuard[Collection[float]]:
    if not isinstance(value, Collection) or isinstance(value, str | bytes | Mapping) or len(value) != 4:
        return False
    return all(isinstance(number, int | float | np.number) and not isinstance(number, bool) for number in value)


def _entries(source: object, of: str) -> tuple[tuple[str | None, Corners], ...]:
    """Return (name or None, corners) of each box in a list or a mapping of names to boxes."""
    if is_corners(source):
        raise InputError(f"the boxes of {of} are four numbers; put the box into a list: [{list(source)}]")
    if isinstance(source, Mapping):
        pairs = list(source.items())
    elif isinstance(source, Sequence | np.ndarray) and not isinstance(source, str | bytes):
        pairs = [(box.get("name"), box.get("box")) if isinstance(box, Mapping) else (None, box) for box in source]
    else:
        raise InputError(f"the boxes of {of} must be a list of boxes, got {type(source).__name__}")
    for _, box in pairs:
        if not is_corners(box) or not all(abs(side) < FARTHEST for side in box):
            try:
                shown = " ".join(f"{box!r:.80}".split())
            except RecursionError:
                shown = "a list inside lists without end"
            advice = "; give masks with butfor.image.masks" if isinstance(box, np.ndarray) and box.ndim == 2 else ""
            raise InputError(f"a box of {of} is {shown}; expected four finite numbers x1, y1, x2, y2{advice}")
    return tuple((None if name is None else str(name), cast("Corners", tuple(map(float, box)))) for name, box in pairs)


def _in_pixels(units: Units | None, form: Form, name: str, image: Image, drawn: Drawn) -> Iterator[Subset]:
    """Yield the boxes of one image in its pixels."""
    height, width = image.shape[:2]
    values = np.array([corners for _, corners in drawn.boxes]).reshape(-1, 4)
    chosen = units or drawn.units or "pixel"
    guessed = not (units or drawn.units) and (values % 1).any() and values.min() > -1 and values.max() < 2
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
        if guessed and (values.min() < 0 or values.max() > 1):
            worst = values.min() if values.min() < 0 else values.max()
            raise InputError(
                f"the boxes of image {name!r} look like shares of its width and height, which must lie between 0 and "
                f"1, but one is {worst:g}; correct it, or use units='pixel' if they are pixels"
            )
        across, down = 1.0, 1.0
        if guessed or chosen == "relative":
            if max(x2, y2) > 2 or min(x1, y1) < -1:
                raise InputError(
                    f"{what} is {shown}, expected shares of the width and height between 0 and 1; use units='pixel'"
                )
            across, down = float(width), float(height)
        elif drawn.size is not None and drawn.size != (width, height):
            across, down = width / drawn.size[0], height / drawn.size[1]
            off = abs(across - down)
            if off * max(drawn.size) > 2 and off * min(drawn.size) >= 1:  # more than rounding a side explains
                raise InputError(
                    f"the boxes of image {name!r} were drawn on {drawn.size[0]} x {drawn.size[1]} pixels, but the "
                    f"image has {width} x {height}; draw them on this image (was it turned or cropped?)"
                )
        box = round(x1 * across), round(y1 * down), round(x2 * across), round(y2 * down)
        clipped = max(box[0], 0), max(box[1], 0), min(box[2], width), min(box[3], height)
        if clipped[2] <= clipped[0] or clipped[3] <= clipped[1]:
            outside = box[0] >= width or box[1] >= height or box[2] <= 0 or box[3] <= 0
            lies = "outside" if outside else "less than a pixel in"
            raise InputError(f"{what}, {box}, lies {lies} the image of {width} x {height} pixels")
        if clipped != box:
            over = f"reaches over the edge of the image of {width} x {height} pixels and was clipped"
            warn_user(f"{what}, {box}, {over}", RegionWarning)
        yield Subset(label, clipped)


Detector = Callable[[Image], Any]  # image -> boxes (n, 4) and scores (n,), and names (n) if it has them


@dataclass(frozen=True)
class RandomBoxes:
    """Random boxes that do not overlap. Made by `random_boxes`."""

    seed: int
    tries: int

    blind = True  # chosen without looking at the image

    def __call__(self, name: object, image: Image, kept: Sequence[Box] = ()) -> list[Subset]:
        """Return boxes that overlap neither each other nor those in `kept`, out of `tries`."""
        rng = stream(self.seed, "random boxes", str(name))
        height, width = image.shape[:2]
        boxes = list(kept)
        for _ in range(self.tries):  # sides between a quarter and a half of the image's, anywhere inside
            across, down = (
                int(rng.integers(-(-length // 4), max(-(-length // 4), length // 2) + 1)) for length in (width, height)
            )
            x, y = int(rng.integers(width - across + 1)), int(rng.integers(height - down + 1))
            box = (x, y, x + across, y + down)
            if not any(overlapping(box, other) for other in boxes):
                boxes.append(box)
        return [Subset(f"random {k}", box) for k, box in enumerate(boxes[len(kept) :], start=1)]


def overlapping(a: Box, b: Box) -> bool:
    """Return True if two boxes share a pixel.

    >>> overlapping((0, 0, 2, 2), (2, 0, 4, 2)), overlapping((0, 0, 3, 2), (2, 0, 4, 2))
    (False, True)
    """
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def random_boxes(*, seed: int = 0, tries: int = 100) -> RandomBoxes:
    """Draw random boxes as in the paper: those of an image do not depend on the images before it.

    Parameters
    ----------
    seed : int
        The same seed gives the same boxes.
    tries : int
        Boxes that are drawn; those that overlap none before them are kept.

    Returns
    -------
    RandomBoxes
        A function (name, image) -> subsets.

    Examples
    --------
    >>> regions = random_boxes(seed=1)("cat.jpg", np.zeros((100, 100, 3), np.uint8))
    >>> len(regions) > 1 and not overlapping(regions[0].index, regions[1].index)
    True
    """
    return RandomBoxes(int(seed), whole("tries", tries, 1))


@dataclass(frozen=True)
class DetectedBoxes:
    """A detector's boxes by descending score, then random ones. Made by `detected_boxes`."""

    detector: Detector
    area: tuple[float, float]
    random: RandomBoxes | None

    def __call__(self, name: object, image: Image) -> list[Subset]:
        height, width = image.shape[:2]
        advice = "); it must return boxes (n, 4) and scores (n,)"
        with reworded(f"the detector failed on image {str(name)!r} (", by=ModelError, named=True, advice=advice):
            answer = self.detector(image)
            boxes = np.asarray(answer[0], np.float64).reshape(-1, 4)
            scores = np.asarray(answer[1], np.float64).reshape(-1)
            labels = [str(label) for label in answer[2]] if len(answer) > 2 and answer[2] is not None else None
        if len(boxes) != len(scores) or (labels is not None and len(labels) != len(scores)):
            raise ModelError(f"the detector gave {len(boxes)} boxes but {len(scores)} scores for image {str(name)!r}")
        if not (np.isfinite(boxes).all() and np.isfinite(scores).all()):
            raise ModelError(f"the detector gave boxes or scores that are not finite for image {str(name)!r}")
        kept: list[Box] = []
        subsets: list[Subset] = []
        for i in np.argsort(-scores, kind="stable"):
            x1, y1, x2, y2 = (round(float(value)) for value in boxes[i])
            x1, y1 = min(max(x1, 0), width), min(max(y1, 0), height)
            box = x1, y1, max(x1, min(x2, width)), max(y1, min(y2, height))
            share = (box[2] - box[0]) * (box[3] - box[1]) / (height * width)
            if self.area[0] <= share <= self.area[1] and not any(overlapping(box, other) for other in kept):
                kept.append(box)
                score = scores[i]
                shown = f"{score:.2f}".removeprefix("0") if 0 <= score <= 1 else f"{score:.3g}"  # ".87"
                subsets.append(Subset(f"{labels[i]} {shown}" if labels else f"detected {len(kept)}", box))
        return unique(subsets + (self.random(name, image, kept) if self.random else []))


def detected_boxes(
    detector: Detector, *, area: tuple[float, float] = (0.1, 0.5), random: bool = True, seed: int = 0, tries: int = 100
) -> DetectedBoxes:
    """Choose a detector's boxes by descending score that overlap none before them, as the paper's appendix does.

    Parameters
    ----------
    detector : callable
        image -> boxes (n, 4) in pixels and scores (n,), and names (n) if it has them: "dog .87".
    area : tuple of float
        Smallest and largest share of the image that a detector's box may cover.
    random : bool
        Add those of `random_boxes`.
    seed, tries : int
        Of `random_boxes`.

    Returns
    -------
    DetectedBoxes
        A function (name, image) -> subsets.

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
    beside = random_boxes(seed=seed, tries=tries) if random else None
    return DetectedBoxes(detector, (float(area[0]), float(area[1])), beside)


Labelled = tuple[tuple[str, Array | str | Path], ...]  # names and masks (height, width), or PNG files, of one image


def masks(source: object, *, overlap: Overlap = "refuse") -> GivenRegions:
    """Test regions of any shape in each image.

    A mask is an array (height, width), True or above 0 in the region, or a PNG file (above half of white, or 1 of 0/1).

    Parameters
    ----------
    source : list, dict, str or Path
        A list or {region name: mask} for every image, {image name: such a list or mapping}, or a folder with a folder
        of PNG files per image (named like the image, with or without its suffix).
    overlap : {"refuse", "alone"}
        Refuse masks that overlap, or test each of them alone.

    Returns
    -------
    GivenRegions
        A function (name, image) -> subsets.

    Examples
    --------
    >>> drawn = masks({"left": np.arange(4) < 2 * np.ones((4, 1))})
    >>> [(s.name, int(s.index.sum())) for s in drawn("cat.jpg", np.zeros((4, 4, 3), np.uint8))]
    [('left', 8)]
    """
    check_overlap_option(overlap)
    by_image: dict[str, Labelled] | None = None
    everywhere = None
    if isinstance(source, str | Path):
        root = Path(source)
        if not root.is_dir():
            raise InputError(f"the folder of masks {root} {'is a file' if root.exists() else 'does not exist'}")
        by_image = {
            folder.name: tuple((file.stem, file) for file in sorted(folder.glob("*.png")))
            for folder in sorted(root.iterdir())
            if folder.is_dir() and any(folder.glob("*.png"))
        }
        if not by_image:
            raise InputError(f"the folder of masks {root} has no folders with .png files; make one per image")
    elif isinstance(source, Mapping) and not all(map(_is_one_mask, source.values())):
        by_image = {str(name): _labelled(given, f"image {name!r}") for name, given in source.items()}
    else:
        everywhere = _labelled(source, "every image")
    if not by_image and not everywhere:
        raise InputError("masks is empty; give at least one mask")
    return GivenRegions("masks", by_image, everywhere, _mask_pixels, overlap)


def _labelled(given: object, of: str) -> Labelled:
    if isinstance(given, np.ndarray) and given.ndim == 2:
        raise InputError(f"the masks of {of} are a single array; put it into a list")
    if isinstance(given, Mapping):
        pairs = [(str(label), mask) for label, mask in given.items()]
    else:
        listed = given if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str) else [given]
        pairs = [
            (Path(mask).stem if isinstance(mask, str | Path) else f"mask {number}", mask)
            for number, mask in enumerate(listed, start=1)
        ]
    if not all(_is_one_mask(mask) for _, mask in pairs):
        shown = " ".join(f"{given!r:.80}".split())
        raise InputError(f"the masks of {of} must be a list of arrays (height, width) or PNG files, got {shown}")
    return tuple(pairs)


def _is_one_mask(value: object) -> bool:
    return isinstance(value, str | Path) or (isinstance(value, np.ndarray) and value.ndim == 2)


def holds_masks(path: Path) -> bool:
    """Return True for a folder of folders of PNG files, one for each image; a folder of files holds boxes."""
    return path.is_dir() and any(path.glob("*/*.png"))


def _mask_pixels(name: str, image: Image, drawn: Labelled) -> Iterator[Subset]:
    height, width = image.shape[:2]
    for label, mask in drawn:
        if isinstance(mask, str | Path):
            grey = read_image(mask).max(axis=2)
            pixels: Bools = np.asarray(grey > (0 if grey.max() == 1 else 127))
        else:
            pixels = np.array(mask > 0, np.bool_)  # a copy: nobody may write into the caller's
        if pixels.shape != (height, width):
            raise InputError(
                f"mask {label!r} of image {name!r} has {pixels.shape[1]} x {pixels.shape[0]} pixels but the image "
                f"{width} x {height}; make it the size of the image"
            )
        if not pixels.any():
            raise InputError(f"mask {label!r} of image {name!r} marks no pixel; leave it out")
        yield Subset(label, pixels)
