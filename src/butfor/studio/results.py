"""Results of the folder, also those of the command line: listed, numbered, and made into what pages show."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from asyncio.subprocess import DEVNULL, PIPE
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from butfor.context.result import ContextResult
from butfor.report.write import RESULT
from butfor.results.result import Result
from butfor.results.summary import number
from butfor.results.view import example, percent, rounded_effects, view
from butfor.studio.settings import StudioSettings
from butfor.types import Array, InputError
from butfor.untrusted import private_file, private_folder

VIEW, TESTED, REPORT_PAGE = "view.json", "tested.json", "report.html"
MOST_SHOWN = 1_000  # hypotheses
MOST_EXAMPLES, DRAWS = 120, 3  # hypotheses with counterfactuals, and how many of each
MOST_TEXTS = 8  # counterfactuals of a text, of which the most frequent are shown
MOST_IMAGES, MOST_COLUMNS = 40, 8
LONGEST = 900  # pixels of a picture's longer side


def make_view(result: Result, out: Path) -> None:
    """Write view.json, tested.json, report.html and pictures; view.json last: where it is, the others are."""
    private_folder(out)
    result.report(out / REPORT_PAGE)
    order = np.argsort(~result.chosen, kind="stable")[:MOST_SHOWN]  # chosen ones first where there are too many
    shown = (order if result.modality == "table" else np.sort(order)).tolist()
    indices = list(dict.fromkeys(result.input_of[shown].tolist()))
    effects = [[None if np.isnan(x) else number(x, sign=True) for x in ends] for ends in rounded_effects(result)]
    pairs = zip(result.input_of.tolist(), result.subset_of.tolist(), result.chosen.tolist(), effects[0], strict=True)
    inputs, subsets = list(map(str, result.input_names)), list(map(str, result.subset_names))
    made = view(result)
    content = {
        "modality": result.modality,
        "hypotheses": len(result.chosen),
        "chosen": int(result.chosen.sum()),
        "answers": [(line.question, line.text) for line in made.lines],
        "picture": None if made.chart is None or result.modality != "table" else asdict(made.chart),
        "promise": made.guarantee,
        "caveats": made.caveats,
        "notes": [str(note) for note in made.notes],
        "settings": made.settings,
        "inputs": [_input(result, i, out) for i in (indices[:MOST_IMAGES] if result.modality == "image" else indices)],
        "rows": [
            {"effect": effects[0][row], "low": effects[1][row], "high": effects[2][row]}
            | _row(result, row, out, draws=k < MOST_EXAMPLES)
            for k, row in enumerate(shown)
        ],
        "left_out": len(result.chosen) - len(shown),
    }
    tested = [(inputs[i], subsets[j], chosen, effect) for i, j, chosen, effect in pairs]  # as `compare` takes them
    _write_pages(out, tested, content)


def make_context_view(result: ContextResult, out: Path) -> None:
    """Write the same files for a prompt: its parts are the rows, foils with their answers the counterfactuals."""
    private_folder(out)
    result.report(out / REPORT_PAGE)
    rows = [
        {
            "row": number,
            "index": part.prompt,
            "input": result.names[part.prompt],
            "subset": part.name,
            "text": result.prompts[part.prompt].get(part.name, ""),
            "chosen": part.necessary,
            "necessary": part.necessary,
            "flip": percent(part.flip) if part.draws else None,
            "low": percent(part.flip_low),
            "high": percent(part.flip_high),
            "status": part.status,
            "draws": [{"text": one, "output": answer}
                      for one, answer in zip(part.foils[:MOST_TEXTS], part.answers, strict=False)],
        }
        for number, part in enumerate(result.parts[:MOST_SHOWN])
    ]  # fmt: skip
    first, *lines = result.lines()
    content = {
        "modality": "context",
        "hypotheses": len(result.parts),
        "chosen": sum(part.necessary for part in result.parts),
        "answers": [("", first), *(line.split(": ", 1) for line in lines)],
        "picture": None,
        "promise": str(result.guarantee),
        "caveats": [],
        "notes": [str(note) for note in result.notes],
        "settings": [("Model", result.model), ("Foils", result.foils), ("Calls", f"{result.calls:,}")],
        "inputs": [{"name": name, "index": number} for number, name in enumerate(result.names)],
        "rows": rows,
        "left_out": max(0, len(result.parts) - MOST_SHOWN),
    }
    tested = [(result.names[part.prompt], part.name, part.necessary, percent(part.flip)) for part in result.parts]
    _write_pages(out, tested, content)


def _write_pages(out: Path, tested: Sequence[Any], content: dict[str, Any]) -> None:
    for path, data in ((out / TESTED, tested), (out / VIEW, content)):
        part = path.with_name(f".{path.name}")
        part.write_text(json.dumps(data, default=str), encoding="utf-8", errors="replace")
        os.replace(part, path)


def _input(result: Result, index: int, out: Path) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": str(result.input_names[index]), "index": index}
    outputs = np.atleast_1d(result.outputs[index])
    if result.output_names is not None:
        top = int(outputs.argmax())
        shown["output"] = f"{result.output_names[top]}: {number(outputs[top])}"
    elif outputs.size == 1:
        shown["output"] = f"output {number(outputs[0])}"
    if result.modality == "text":
        shown["text"] = str(result.hypotheses.items.block(index, index + 1)[0])
    if result.modality == "image":
        with suppress(InputError):  # it may no longer be where it was
            image = result.hypotheses.items.block(index, index + 1)[0]
            shown |= {"picture": f"input-{index}.png", "height": image.shape[0], "width": image.shape[1]}
            _save(image, out / shown["picture"])
    return shown


def _save(image: Array, path: Path) -> None:
    from PIL import Image as Pictures

    picture = Pictures.fromarray(np.asarray(image))
    picture.thumbnail((LONGEST, LONGEST))
    picture.save(path, "PNG")


def _row(result: Result, row: int, out: Path, *, draws: bool) -> dict[str, Any]:
    """Return one hypothesis, with its counterfactuals where `draws`."""
    evidence, index, q = result.evidence, int(result.input_of[row]), number(result.q[row])
    shown: dict[str, Any] = {
        "row": row,
        "index": index,
        "input": str(result.input_names[index]),
        "subset": str(result.subset_names[result.subset_of[row]]),
        "chosen": bool(result.chosen[row]),
        "status": str(result.table["status"].iloc[row]),
        "evidence": f"{evidence.kind} {number(evidence.values[row])}{q and f', q {q}'}",
    }
    if result.decided is not None:
        shown |= {"flip": percent(result.decided.share[row]), "necessary": bool(result.decided.necessary[row])}
    with suppress(InputError):  # images that are no longer where they were
        if result.modality != "table":
            shown["where"] = None
            shown["where"] = _where(result, row)
        if draws and row in result.kept:
            shown["draws"] = None
            shown["draws"] = _draws(result, row, out)
    return shown


def _where(result: Result, row: int) -> list[float] | None:
    """Return a box in shares of width and height, or a span of characters."""
    from butfor.image.region import bounds, is_box, is_mask

    index, which = result.hypotheses.block_of(row).subset.index, int(result.input_of[row])
    if result.modality == "text":
        return [int(end) for end in index]
    if result.modality != "image" or not (is_box(index) or is_mask(index)):
        return None
    height, width = result.hypotheses.items.block(which, which + 1)[0].shape[:2]
    x1, y1, x2, y2 = bounds(index) if is_mask(index) else index
    return [x1 / width, y1 / height, x2 / width, y2 / height]


def _draws(result: Result, row: int, out: Path) -> list[dict[str, Any]] | None:
    """Return a few counterfactuals: files of pictures, texts, or columns with the observed and the drawn values."""
    if result.modality == "table":
        columns = example(result, row).columns[:MOST_COLUMNS]
        return [{"column": name, "observed": old, "drawn": drawn[:DRAWS]} for name, old, drawn in columns]
    most = MOST_TEXTS if result.modality == "text" else DRAWS
    drawn = result.kept.whole(result.hypotheses, row, most)
    outputs = np.atleast_2d(result.kept.outputs(row)[:most])
    shown = [number(values[int(result.evidence.classes[row])]) for values in outputs]
    if result.modality == "text":
        values = dict(zip(drawn, shown, strict=False))  # each once: a word is often drawn again
        often: list[tuple[Any, int]] = Counter(drawn).most_common(DRAWS)
        return [{"text": str(text), "output": values[text], "times": f"{n} of {len(drawn)}"} for text, n in often]
    if result.modality != "image":
        return None
    names = [f"cf-{row}-{k}.png" for k in range(len(drawn))]
    for image, name in zip(drawn, names, strict=True):
        _save(image, out / name)
    return [{"picture": name, "output": output} for name, output in zip(names, shown, strict=False)]


DEEPEST, MOST_FOLDERS, MOST_RESULTS = 4, 3_000, 500
PATIENCE = 180.0  # seconds for making a view


@dataclass(frozen=True)
class PastResult:
    id: str
    title: str
    path: Path
    changed: float


class ResultPages:
    """Results that can be opened, and the pages of them; a page is made by a process of its own, one at a time."""

    def __init__(self, settings: StudioSettings) -> None:
        self.settings = settings
        self._one = asyncio.Semaphore(1)

    def past(self) -> list[PastResult]:
        """List results below the folder that the studio did not write itself, newest first."""
        listed = []
        for path in _results(self.settings.folder):
            if path.parent.parent != self.settings.runs:
                inside = path.relative_to(self.settings.folder)
                title = str(inside.parent if path.name == RESULT and inside.parent.parts else inside)
                title = title.encode("utf-8", "replace").decode()
                number = hashlib.blake2b(str(inside).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
                listed.append(PastResult(number, title, path, path.stat().st_mtime))
        return sorted(listed, key=lambda one: -one.changed)[:MOST_RESULTS]

    async def folder(self, number: str) -> Path:
        """Return the folder with the view of a result, made if it is missing or old.

        The number names a run or a result that is listed; no part of it goes into a path before it was recognised.
        """
        runs = self.settings.runs.iterdir() if self.settings.runs.is_dir() else ()
        known = {run.name: run / RESULT for run in runs if run.is_dir() and not run.is_symlink()}
        path = known.get(number) or {one.id: one.path for one in self.past()}.get(number)
        if path is None or not path.is_file():
            raise InputError(f"there is no result {number!r:.60} in this folder")
        out = self.settings.views / number
        async with self._one:
            made, changed = (out / VIEW, out / TESTED), path.stat().st_mtime
            if any(not file.is_file() or file.stat().st_mtime < changed for file in made):
                await self._make(path, out)
        return out

    async def read(self, number: str, name: str) -> Any:
        """Read view.json, which pages show, or tested.json: every hypothesis, also those that the view leaves out."""
        return json.loads((await self.folder(number) / name).read_text(encoding="utf-8"))

    async def _make(self, path: Path, out: Path) -> None:
        private_folder(out)
        job = {"task": "view", "result": str(path), "out": str(out), "folder": str(self.settings.folder)}
        private_file(out / "job.json").write_text(json.dumps(job))
        command = (*self.settings.worker, str(out / "job.json"))
        process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=DEVNULL)
        try:
            printed, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
        except BaseException as error:
            if process.returncode is None:
                process.kill()
            if isinstance(error, TimeoutError):
                raise InputError(f"making the page took more than {PATIENCE:g} seconds; use butfor report") from error
            raise
        if process.returncode:
            message = "the result could not be opened; is it of this version of butfor?"
            for line in printed.splitlines():
                with suppress(ValueError, AttributeError):  # what a library prints is none of our JSON
                    message = str(json.loads(line).get("message") or message)
            raise InputError(message)


def _results(folder: Path) -> Iterator[Path]:
    """Yield files *.butfor in and below a folder; links are not followed, hidden folders and uploads are left out."""
    for count, (where, inside, files) in enumerate(os.walk(folder)):
        depth = len(Path(where).relative_to(folder).parts)
        if count > MOST_FOLDERS:
            return
        inside[:] = sorted(name for name in inside if not name.startswith(".")) if depth < DEEPEST else []
        for name in files:
            path = Path(where) / name
            if name.endswith(".butfor") and not name.startswith(".") and not path.is_symlink() and path.is_file():
                yield path


MOST_COMPARED = 500  # rows that are listed; all are counted
VERDICTS = {  # chosen in the first, in the second
    (True, False): "only in the first",
    (False, True): "only in the second",
    (True, True): "in both",
    (False, False): "in neither",
}
Tested = Sequence[Any]  # of one hypothesis: input, subset, whether it is chosen, effect as shown or None


def compare(first: Sequence[Tested], second: Sequence[Tested]) -> dict[str, Any]:
    """Put hypotheses of the same input and subset side by side, what differs first.

    >>> compared = compare([("a", "s", True, "+1")], [("a", "s", False, "+1")])
    >>> compared["rows"][0]["verdict"]
    'only in the first'
    """
    sides = [{(one[0], one[1]): one for one in tested} for tested in (first, second)]
    keys: dict[str, list[tuple[str, str]]] = {verdict: [] for verdict in VERDICTS.values()}
    for key in dict.fromkeys([*sides[0], *sides[1]]):
        chosen = [key in side and bool(side[key][2]) for side in sides]
        keys[VERDICTS[chosen[0], chosen[1]]].append(key)
    rows = []
    for verdict, (name, subset) in [(verdict, key) for verdict, pairs in keys.items() for key in pairs][:MOST_COMPARED]:
        shown = [side[name, subset][3] or "" if (name, subset) in side else "not tested" for side in sides]
        rows.append({"input": name, "subset": subset, "first": shown[0], "second": shown[1], "verdict": verdict})
    counts = {verdict: len(pairs) for verdict, pairs in keys.items()}
    common = len(sides[0].keys() & sides[1].keys())
    return {"counts": counts, "common": common, "rows": rows, "left_out": sum(counts.values()) - len(rows)}
