"""A request -> the job that a worker reads: names looked up, uploads found, nothing left that a client chose freely."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from butfor.core.types import InputError
from butfor.studio.schemas import ImageInput, RunRequest, TableInputs, TextInput
from butfor.studio.settings import StudioSettings
from butfor.studio.uploads import TYPES, UploadStore


def job_of(request: RunRequest, number: str, settings: StudioSettings, uploads: UploadStore) -> dict[str, Any]:
    """Everything a worker needs; raises one sentence where something does not fit."""
    given = {"table": request.table, "image": request.images, "text": request.texts}
    extra = [kind for kind, value in given.items() if value is not None and kind != request.kind]
    if extra or not given[request.kind]:
        raise InputError(f"a run of kind {request.kind!r} needs its own inputs, and no others")
    job = {
        "task": "run",
        "kind": request.kind,
        "model": asdict(settings.offers.model(request.model, request.kind)),
        "sampler": asdict(settings.offers.sampler(request.sampler, request.kind)),
        "tests": {name: value for name in ("alpha", "test", "draws", "target") if (value := getattr(request, name))},
        "seed": request.seed,
        "out": str(settings.runs / number),
        "view": str(settings.views / number),
    }
    if request.table is not None:
        return {**job, "table": _table(request.table, uploads)}
    if request.images is not None:
        return {**job, "images": _images(request.images, uploads)}
    return {**job, "texts": _texts(request.texts or [])}


def _table(table: TableInputs, uploads: UploadStore) -> dict[str, Any]:
    if table.reference is None and not table.reference_where:
        raise InputError("say which rows are the reference, such as diagnosis == 'benign', or send a second file")
    found = {"data": table.upload} | ({} if table.reference is None else {"reference": table.reference})
    for upload in found.values():
        if uploads.get(upload).type in TYPES:
            raise InputError(f"{uploads.get(upload).name!r} is an image, expected a table")
    return {
        **{what: str(uploads.path(upload)) for what, upload in found.items()},
        "names": {str(uploads.path(upload)): uploads.get(upload).name for upload in found.values()},
        "reference_where": table.reference_where or None,
        "data_where": table.data_where or None,
        "drop": table.drop,
        "index": table.index,
        "subsets": table.subsets,
    }


def _images(images: list[ImageInput], uploads: UploadStore) -> list[dict[str, Any]]:
    """Images by names that differ: two files may be called alike."""
    found: list[dict[str, Any]] = []
    names: set[str] = set()
    for image in images:
        upload = uploads.get(image.upload)
        if upload.type not in TYPES:
            raise InputError(f"{upload.name!r} is a table, expected an image")
        name = upload.name if upload.name not in names else f"{upload.name} ({len(found) + 1})"
        names.add(name)
        boxes = {box.name: (box.x1, box.y1, box.x2, box.y2) for box in image.boxes}
        if len(boxes) < len(image.boxes):
            raise InputError(f"two boxes of {upload.name!r} have the same name; give each its own")
        found.append({"name": name, "path": str(uploads.path(image.upload)), "boxes": boxes})
    if 0 < sum(not one["boxes"] for one in found) < len(found):
        lacking = next(one["name"] for one in found if not one["boxes"])
        raise InputError(f"{lacking!r} has no boxes, others have; draw some on it, or leave it out")
    return found


def _texts(texts: list[TextInput]) -> list[dict[str, Any]]:
    if len({text.name for text in texts}) < len(texts):
        raise InputError("two texts have the same name; give each its own")
    spans = {text.name: sorted((span.start, span.end) for span in text.spans) for text in texts}
    return [{"name": text.name, "text": text.text, "spans": spans[text.name]} for text in texts]


def title_of(job: dict[str, Any]) -> str:
    """What a run is called that was given no name: its first input and its model."""
    if job["kind"] == "table":
        first, more = next(iter(job["table"]["names"].values())), 0
    else:
        inputs = job["images"] if job["kind"] == "image" else job["texts"]
        first = inputs[0]["name"] if job["kind"] == "image" else inputs[0]["text"][:40]
        more = len(inputs) - 1
    return f"{first}{f' and {more} more' if more else ''} · {job['model']['name']}"


def asked_of(job: dict[str, Any], uploads: UploadStore) -> dict[str, Any]:
    """Drawn boxes and marked spans of a job as a view without answers; nothing where the run itself proposes them."""
    inputs: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for place, one in enumerate(job.get("images", ())):
        upload = Path(one["path"]).stem
        size = uploads.get(upload).details
        inputs.append({"name": one["name"], "place": place, "src": f"/api/uploads/{upload}/content"})
        across = (size["width"], size["height"]) * 2
        rows += [
            {"place": place, "subset": name, "where": [side / whole for side, whole in zip(box, across, strict=True)]}
            for name, box in one["boxes"].items()
        ]
    texts = job.get("texts", ())
    for place, one in enumerate(texts if all(text["spans"] for text in texts) else ()):
        inputs.append({"name": one["name"], "place": place, "text": one["text"]})
        rows += [{"place": place, "subset": "", "where": span} for span in one["spans"]]
    rows = [{**row, "row": number, "chosen": False} for number, row in enumerate(rows)]
    return {"modality": job["kind"], "inputs": inputs, "rows": rows}
