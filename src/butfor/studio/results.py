"""Results of the folder, also those of the command line: found, numbered, and made into what pages show."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from butfor.report.write import RESULT
from butfor.results.result import Result
from butfor.results.summary import number
from butfor.results.view import percent, rounded_effects, view
from butfor.studio.settings import StudioSettings
from butfor.types import Floats, InputError, Ints

VIEW, TESTED, REPORT_PAGE = "view.json", "tested.json", "report.html"
MOST_SHOWN = 1_000  # hypotheses
MOST_EXAMPLES, DRAWS = 120, 3  # hypotheses with counterfactuals, and how many of each
LOOKED_AT = 8  # counterfactuals of a text, of which the most frequent are shown
MOST_IMAGES, MOST_COLUMNS = 40, 8
LONGEST = 900  # pixels of a picture's longer side


def make_view(result: Result, out: Path) -> None:
    """Write view.json, tested.json, report.html and pictures; view.json last: where it is, the others are."""
    out.mkdir(parents=True, exist_ok=True)
    result.report(out / REPORT_PAGE)
    shown, made, numbers = _shown(result), view(result), rounded_effects(result)
    _write(_tested(result, numbers[0]), out / TESTED)
    picture = None if made.chart is None or result.modality != "table" else asdict(made.chart)
    content = {
        "modality": result.modality,
        "hypotheses": len(result.chosen),
        "chosen": int(result.chosen.sum()),
        "answers": [made.headline, *made.lead],
        "picture": picture,
        "promised": made.promise,
        "promise": made.guarantee,
        "caveats": made.caveats,
        "notes": [str(note) for note in made.notes],
        "settings": made.settings,
        "inputs": [_input(result, place, out) for place in _places(result, shown)],
        "rows": [_row(result, numbers, row, k < MOST_EXAMPLES, out) for k, row in enumerate(shown.tolist())],
        "left_out": len(result.chosen) - len(shown),
    }
    _write(content, out / VIEW)


def _tested(result: Result, effects: Floats) -> list[tuple[str, str, bool, str | None]]:
    """Every hypothesis, shown or not, as `compare` takes it."""
    inputs, subsets = list(map(str, result.input_names)), list(map(str, result.subset_names))
    places = zip(result.input_of.tolist(), result.subset_of.tolist(), strict=True)
    said = zip(result.chosen.tolist(), effects.tolist(), strict=True)
    return [
        (inputs[i], subsets[s], chosen, _number(effect, sign=True))
        for (i, s), (chosen, effect) in zip(places, said, strict=True)
    ]


def _write(content: object, path: Path) -> None:
    part = path.with_name(f".{path.name}")
    part.write_text(json.dumps(content, default=str), encoding="utf-8", errors="replace")
    os.replace(part, path)


def _shown(result: Result) -> Ints:
    """Hypotheses that are shown: chosen ones first where there are too many, in the order of the table."""
    order = np.argsort(~result.chosen, kind="stable")[:MOST_SHOWN]
    return np.sort(order) if result.modality != "table" else order


def _places(result: Result, shown: Ints) -> list[int]:
    places = list(dict.fromkeys(result.input_of[shown].tolist()))
    return places[:MOST_IMAGES] if result.modality == "image" else places


def _input(result: Result, place: int, out: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"name": str(result.input_names[place]), "index": place}
    outputs = np.atleast_1d(result.outputs[place])
    if result.output_names is not None:
        top = int(outputs.argmax())
        found["output"] = f"{result.output_names[top]}: {number(outputs[top])}"
    elif outputs.size == 1:
        found["output"] = f"output {number(outputs[0])}"
    if result.modality == "text":
        found["text"] = str(result.problem.items.block(place, place + 1)[0])
    if result.modality == "image":
        found |= _picture(result, place, out)
    return found


def _picture(result: Result, place: int, out: Path) -> dict[str, Any]:
    """The image as a file beside the view; nothing where it is no longer where it was."""
    try:
        image = result.problem.items.block(place, place + 1)[0]
    except InputError:
        return {}
    name = f"input-{place}.png"
    _save(image, out / name)
    return {"picture": name, "height": image.shape[0], "width": image.shape[1]}


def _save(image: Any, path: Path) -> None:
    from PIL import Image as Pictures

    picture = Pictures.fromarray(np.asarray(image))
    picture.thumbnail((LONGEST, LONGEST))
    picture.save(path, "PNG")


def _row(
    result: Result, numbers: tuple[Floats, Floats, Floats], row: int, with_draws: bool, out: Path
) -> dict[str, Any]:
    """One hypothesis; `numbers` are the effects and the ends of their intervals (H,), as the report shows them."""
    evidence, place = result.evidence, int(result.input_of[row])
    effect, low, high = (_number(column[row], sign=True) for column in numbers)
    found: dict[str, Any] = {
        "row": row,
        "index": place,
        "input": str(result.input_names[place]),
        "subset": str(result.subset_names[result.subset_of[row]]),
        "chosen": bool(result.chosen[row]),
        "effect": effect,
        "low": low,
        "high": high,
        "evidence": f"{evidence.kind} {number(evidence.values[row])}",
    }
    if result.decided is not None:
        found |= {"flip": percent(result.decided.share[row]), "necessary": bool(result.decided.necessary[row])}
    if result.modality != "table":
        found["where"] = _where(result, row)
    if with_draws and row in result.kept:
        found["draws"] = _draws(result, row, out)
    return found


def _number(value: float, *, sign: bool = False) -> str | None:
    return None if np.isnan(value) else number(value, sign=sign)


def _where(result: Result, row: int) -> list[float] | None:
    """A box in shares of width and height, or a span of characters."""
    index = result.problem.block_of(row).subset.index
    if result.modality == "text":
        return [int(end) for end in index]
    if result.modality != "image":
        return None
    from butfor.image.region import bounds, is_box, is_mask

    if not (is_box(index) or is_mask(index)):
        return None
    try:
        height, width = result.problem.items.block(int(result.input_of[row]), int(result.input_of[row]) + 1)[0].shape[
            :2
        ]
    except InputError:
        return None
    x1, y1, x2, y2 = bounds(index) if is_mask(index) else index
    return [x1 / width, y1 / height, x2 / width, y2 / height]


def _draws(result: Result, row: int, out: Path) -> Any:
    """A few counterfactuals: files of pictures, texts, or columns with the observed value and the drawn ones."""
    most = LOOKED_AT if result.modality == "text" else DRAWS
    try:
        drawn = result.kept.whole(result.problem, row, most)
    except InputError:  # images that are no longer where they were
        return None
    outputs = result.kept.outputs(row)[:most]
    said = [number(one[int(result.evidence.classes[row])]) for one in np.atleast_2d(outputs)]
    if result.modality == "image":
        names = [f"cf-{row}-{k}.png" for k in range(len(drawn))]
        for image, name in zip(drawn, names, strict=True):
            _save(image, out / name)
        return [{"picture": name, "output": text} for name, text in zip(names, said, strict=False)]
    if result.modality == "text":
        values = dict(zip(drawn, said, strict=False))  # each once: a word is often drawn again
        often: list[tuple[Any, int]] = Counter(drawn).most_common(DRAWS)
        return [{"text": str(text), "output": values[text], "times": f"{n} of {len(drawn)}"} for text, n in often]
    return _cells(result, row, drawn) if result.modality == "table" else None


def _cells(result: Result, row: int, drawn: Any) -> list[dict[str, Any]]:
    items, index = result.problem.items, result.problem.block_of(row).subset.index
    place = int(result.input_of[row])
    observed, versions = items.shown(items.block(place, place + 1)), items.shown(drawn)
    names = result.record.columns
    return [
        {
            "column": str(names[j]),
            "observed": _cell(observed, 0, j),
            "drawn": [_cell(versions, k, j) for k in range(len(versions))],
        }
        for j in index[:MOST_COLUMNS].tolist()
    ]


def _cell(rows: Any, row: int, column: int) -> str:
    value = rows[row, column] if isinstance(rows, np.ndarray) else rows.iloc[row, column]
    plain = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return number(float(value)) if plain else str(value)


DEEPEST, MOST_FOLDERS, MOST_RESULTS = 4, 3_000, 500
PATIENCE = 180.0  # seconds for making a view


@dataclass(frozen=True)
class PastResult:
    """A result that lies below the folder."""

    id: str
    title: str
    path: Path
    changed: float


class ResultPages:
    """What can be opened, and the pages of it; a page is made by a process of its own, one at a time."""

    def __init__(self, settings: StudioSettings) -> None:
        self.settings = settings
        self._one = asyncio.Semaphore(1)

    def past(self) -> list[PastResult]:
        """Results below the folder that the studio did not write itself, newest first."""
        own = self.settings.runs
        found = [self._past(path) for path in _results(self.settings.folder) if path.parent.parent != own]
        return sorted(found, key=lambda one: -one.changed)[:MOST_RESULTS]

    def _past(self, path: Path) -> PastResult:
        inside = path.relative_to(self.settings.folder)
        title = str(inside.parent if path.name == RESULT and inside.parent.parts else inside)
        number = hashlib.blake2b(str(inside).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
        return PastResult(number, title.encode("utf-8", "replace").decode(), path, path.stat().st_mtime)

    def path(self, number: str) -> Path:
        """The result of a number: a run's own, or one that was found. No part of the number goes into a path unseen."""
        own = {folder.name: folder / RESULT for folder in _folders(self.settings.runs)}
        path = own.get(number) or {one.id: one.path for one in self.past()}.get(number)
        if path is None or not path.is_file():
            raise InputError(f"there is no result {number!r:.60} in this folder")
        return path

    async def folder(self, number: str) -> Path:
        """The folder with the view of a result, made if it is missing or old."""
        path = self.path(number)
        out = self.settings.views / number
        async with self._one:
            if any(_is_old(out / made, path) for made in (VIEW, TESTED)):
                await self._make(path, out)
        return out

    async def view(self, number: str) -> dict[str, Any]:
        """What is in a result, as pages show it."""
        folder = await self.folder(number)
        found: dict[str, Any] = json.loads((folder / VIEW).read_text(encoding="utf-8"))
        return found

    async def tested(self, number: str) -> list[list[Any]]:
        """Every hypothesis of a result, also those that its view leaves out."""
        folder = await self.folder(number)
        found: list[list[Any]] = json.loads((folder / TESTED).read_text(encoding="utf-8"))
        return found

    async def report(self, number: str) -> Path:
        return await self.folder(number) / REPORT_PAGE

    async def _make(self, path: Path, out: Path) -> None:
        out.mkdir(parents=True, exist_ok=True)
        job = out / "job.json"
        folder = str(self.settings.folder)
        job.write_text(json.dumps({"task": "view", "result": str(path), "out": str(out), "folder": folder}))
        process = await asyncio.create_subprocess_exec(
            *self.settings.worker, str(job), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        try:
            said, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
        except BaseException as error:
            if process.returncode is None:
                process.kill()
            if isinstance(error, TimeoutError):
                raise InputError(f"making the page took more than {PATIENCE:g} seconds; use butfor report") from error
            raise
        if process.returncode:
            raise InputError(_last_message(said) or "the result could not be opened; is it of this version of butfor?")


def _is_old(made: Path, result: Path) -> bool:
    return not made.is_file() or made.stat().st_mtime < result.stat().st_mtime


def _last_message(said: bytes) -> str:
    for line in reversed(said.splitlines()):
        with suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict) and found.get("message"):
                return str(found["message"])
    return ""


def _folders(folder: Path) -> list[Path]:
    return [one for one in folder.iterdir() if one.is_dir() and not one.is_symlink()] if folder.is_dir() else []


def _results(folder: Path) -> Iterator[Path]:
    """Files *.butfor in and below a folder; links are not followed, hidden folders and uploads are left out."""
    for seen, (where, inside, files) in enumerate(os.walk(folder)):
        depth = len(Path(where).relative_to(folder).parts)
        if seen > MOST_FOLDERS:
            return
        inside[:] = sorted(name for name in inside if not name.startswith(".")) if depth < DEEPEST else []
        for name in files:
            path = Path(where) / name
            if name.endswith(".butfor") and not name.startswith(".") and not path.is_symlink() and path.is_file():
                yield path


MOST = 500  # rows that are listed; all are counted
Tested = Sequence[Any]  # of one hypothesis: input, subset, whether it is chosen, effect as shown or None


def compare(first: Sequence[Tested], second: Sequence[Tested]) -> dict[str, Any]:
    """Hypotheses of the same input and subset side by side, what differs first.

    >>> found = compare([("a", "s", True, "+1")], [("a", "s", False, "+1")])
    >>> found["rows"][0]["verdict"]
    'only in the first'
    """
    left, right = ({(one[0], one[1]): one for one in tested} for tested in (first, second))
    pairs = [(_verdict(left.get(key), right.get(key)), key) for key in dict.fromkeys([*left, *right])]
    pairs.sort(key=lambda pair: pair[0])
    counted = Counter(place for place, _ in pairs)
    return {
        "counts": {verdict: counted[place] for place, verdict in enumerate(ORDER)},
        "common": len(left.keys() & right.keys()),
        "rows": [_listed(place, key, left.get(key), right.get(key)) for place, key in pairs[:MOST]],
        "left_out": max(0, len(pairs) - MOST),
    }


ORDER = ("only in the first", "only in the second", "in both", "in neither")


def _verdict(one: Tested | None, other: Tested | None) -> int:
    """The place in `ORDER`."""
    found = one is not None and bool(one[2]), other is not None and bool(other[2])
    return {(True, False): 0, (False, True): 1, (True, True): 2, (False, False): 3}[found]


def _listed(place: int, key: tuple[str, str], one: Tested | None, other: Tested | None) -> dict[str, Any]:
    cells = ["not tested" if tested is None else tested[3] or "" for tested in (one, other)]
    return {"input": key[0], "subset": key[1], "first": cells[0], "second": cells[1], "verdict": ORDER[place]}
