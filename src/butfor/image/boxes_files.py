"""Files of boxes: our JSON, COCO JSON, and the XML of VOC and labelImg."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeGuard
from xml.etree import ElementTree

import numpy as np

from butfor.core.types import InputError

Corners = tuple[float, float, float, float]
Units = Literal["pixel", "relative"]


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
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise InputError(f"the file of boxes {path} is not JSON: {error}") from error
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
            x, y, width, height = (float(value) for value in annotation["bbox"])
            label = labels.get(annotation.get("category_id"))
            boxes[annotation["image_id"]].append((label, (x, y, x + width, y + height)))
        drawn = [
            (str(image["file_name"]), Drawn(tuple(boxes[image["id"]]), _size(image), "pixel"))
            for image in found["images"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"the COCO file {path} lacks or garbles {error}; expected images with id and file_name, and annotations "
            "with image_id and bbox [x, y, width, height]"
        ) from error
    return _each_once(drawn, path)


def _size(image: Mapping[str, Any]) -> tuple[int, int] | None:
    return (int(image["width"]), int(image["height"])) if image.get("width") and image.get("height") else None


def _voc(path: Path) -> tuple[str, Drawn]:
    """VOC counts pixels from 1 and includes the last: xmin 1, xmax 10 are the first ten pixels."""
    try:
        root = ElementTree.parse(path).getroot()
        boxes = []
        for thing in root.iter("object"):
            box = thing.find("bndbox")
            if box is None:
                raise KeyError("bndbox")
            x1, y1, x2, y2 = (float(_text(box, side)) for side in ("xmin", "ymin", "xmax", "ymax"))
            boxes.append((thing.findtext("name"), (x1 - 1, y1 - 1, x2, y2)))
        name = root.findtext("filename") or path.stem
        width, height = (int(float(root.findtext(f"size/{side}") or 0)) for side in ("width", "height"))
    except (ElementTree.ParseError, KeyError, ValueError, UnicodeDecodeError) as error:
        raise InputError(
            f"the file of boxes {path} is not VOC or labelImg XML: {type(error).__name__} {error}"
        ) from error
    return name, Drawn(tuple(boxes), (width, height) if width and height else None, "pixel")


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
        if not is_corners(box) or not np.isfinite(np.asarray(box, dtype=float)).all():
            shown = " ".join(f"{box!r:.80}".split())
            advice = "; give masks with butfor.image.masks" if isinstance(box, np.ndarray) and box.ndim == 2 else ""
            raise InputError(f"a box of {where} is {shown}; expected four finite numbers x1, y1, x2, y2{advice}")
        x1, y1, x2, y2 = (float(value) for value in box)
        found.append((None if name is None else str(name), (x1, y1, x2, y2)))
    return tuple(found)
