"""Files of boxes: our JSON, COCO JSON, and the XML of VOC and labelImg."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeGuard
from xml.etree import ElementTree
from xml.parsers.expat import ExpatError, ParserCreate

import numpy as np

from butfor.core.parsing import read_bounded, read_json
from butfor.core.types import InputError
from butfor.models.optional import one_line

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
