"""The process of one run of the studio: reads a job, reports progress in lines of JSON, writes the result's folder.

It is a process of its own so that it can be stopped at any time and takes its memory with it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from warnings import catch_warnings

from butfor.evaluation.progress import Progress
from butfor.results.result import Result
from butfor.types import InputError

EVERY = 0.1  # seconds between two messages on progress
MOST_ROWS = 2_000  # hypotheses that are reported one by one


def main(arguments: list[str]) -> int:
    """Return 0: done; 1: failed, with a message; 130: stopped, and nothing is decided."""
    out = sys.stdout

    def send(**message: object) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    try:
        job = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
        with catch_warnings(action="ignore"), redirect_stdout(sys.stderr):  # what matters is in the result's notes
            if job["task"] == "view":
                _view(job)
            else:
                _run(job, send)
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # a model may raise anything: the page must say what
        ours = isinstance(error, InputError)
        send(state="failed", message=str(error) if ours else f"{type(error).__name__}: {error}"[:2_000])
        return 1
    return 0


def _view(job: dict[str, Any]) -> None:
    """Make the page of a result that was written elsewhere; it may come from anybody."""
    from butfor.context.result import is_context
    from butfor.context.result import load as load_context
    from butfor.load import load
    from butfor.studio.results import make_context_view, make_view

    path = Path(job["result"])
    if is_context(path):
        make_context_view(load_context(path), Path(job["out"]))
        return
    result = load(path, images_in=[path.parent, job["folder"]])
    if result.is_global:
        raise InputError(f"{path.name} is of butfor global, which has no page here; report.html beside it has it")
    make_view(result, Path(job["out"]))


def _run(job: dict[str, Any], send: Callable[..., None]) -> None:
    from butfor.report.write import write_folder
    from butfor.studio.results import make_view

    last = 0.0

    def report(now: Progress) -> None:
        """Send progress, not too often; chosen rows only where a rejection stands once it is made."""
        nonlocal last
        if time.monotonic() - last < EVERY:
            return
        last = time.monotonic()
        more, rows = {}, now.chosen_rows
        final = job["kind"] != "table" and now.stage in ("sequential", "effects")
        if final and rows is not None and len(rows) <= MOST_ROWS:
            more = {"chosen_rows": rows.nonzero()[0].tolist()}
        send(stage=now.stage, rows=now.rows, total=now.total, chosen=now.chosen, **more)

    send(stage="loading the model")
    if job["kind"] == "context":
        send(state="done", chosen=_context(job, report), stage="done")
        return
    explain = {"table": _table, "image": _image, "text": _text}[job["kind"]]
    result, sources = explain(job, report)
    result = result.with_sources(model=job["model"]["name"], **sources)
    send(stage="writing")
    write_folder(result, Path(job["out"]))
    make_view(result, Path(job["view"]))
    send(state="done", chosen=int(result.chosen.sum()), stage="done")


Explained = tuple[Result, dict[str, str]]  # with the sources of its inputs


def _settings(job: dict[str, Any], model: object) -> dict[str, Any]:
    from butfor.models import wrap
    from butfor.models.files import target_named

    settings = dict(job["settings"])
    if "target" in settings:
        settings["target"] = target_named(settings["target"], wrap(model).classes)
    return settings


def _table(job: dict[str, Any], report: Callable[[Progress], None]) -> Explained:
    from butfor.explain import explain
    from butfor.models import wrap
    from butfor.models.files import load_model
    from butfor.studio.settings import demo_model
    from butfor.tabular.files import TableRequest, read_tables, sampler_named

    model, table = job["model"], job["table"]
    spec, options = model["spec"], dict(model["options"])
    fit = sampler_named(job["sampler"]["spec"])
    trusted = options.pop("trust", None) or ()
    box = demo_model(spec) if spec.startswith("demo:") else load_model(spec, trusted=trusted, **options)
    known = wrap(box).columns
    rows: dict[str, Any] = dict(table["rows"])
    rows |= {name: Path(rows[name]) for name in ("data", "reference") if name in rows}

    def renamed(text: str) -> str:
        for path, name in table["names"].items():
            text = text.replace(path, name)
        return text

    try:
        read = read_tables(TableRequest(**rows, known=None if known is None else list(map(str, known))))
    except InputError as error:
        raise InputError(renamed(str(error))) from error
    reference = fit(read.reference)
    result = explain(box, read.data, reference, subsets=table["subsets"], progress=report, **_settings(job, box))
    return result, {name: renamed(text) for name, text in read.sources.items()}


def _image(job: dict[str, Any], report: Callable[[Progress], None]) -> Explained:
    from butfor import image
    from butfor.image.explain import classifier
    from butfor.image.named import model_named, sampler_named
    from butfor.studio.settings import demo_model

    spec, images, settings = job["model"]["spec"], job["images"], job["settings"]
    box = classifier(demo_model(spec) if spec.startswith("demo:") else model_named(spec, **job["model"]["options"]))
    fills = Path(job["out"]) / "fills"
    sampler = sampler_named(job["sampler"]["spec"], fills, test=settings.get("test"), **job["sampler"]["options"])
    files = image.ImageFiles(tuple(Path(one["path"]) for one in images), tuple(one["name"] for one in images))
    drawn = {one["name"]: {name: tuple(box) for name, box in one["boxes"].items()} for one in images}
    boxes = image.boxes(drawn, units="pixel", overlap="alone") if any(drawn.values()) else image.grid(3)
    result = image.explain(box, files, sampler, boxes=boxes, effects="chosen", progress=report, **_settings(job, box))
    names = ", ".join(one["name"] for one in images[:5]) + (" and more" if len(images) > 5 else "")
    return result, {"data": names}


def _text(job: dict[str, Any], report: Callable[[Progress], None]) -> Explained:
    from butfor import text
    from butfor.evaluation.hypotheses import Proposer
    from butfor.text.models import text_model
    from butfor.text.named import model_named, sampler_named

    box = text_model(model_named(job["model"]["spec"], **job["model"]["options"]))
    sampler = sampler_named(job["sampler"]["spec"], **job["sampler"]["options"])
    texts, words = {one["name"]: one["text"] for one in job["texts"]}, text.words()
    units: Proposer | str = "word"
    marked = {one["name"]: [tuple(span) for span in one["spans"]] for one in job["texts"]}
    if any(marked.values()):  # every word of the texts in which nothing is marked
        spans = {name: marked[name] or [word.index for word in words(name, texts[name])] for name in texts}
        units = text.spans(spans, overlap="alone")
    result = text.explain(box, texts, sampler, units=units, effects="chosen", progress=report, **_settings(job, box))
    return result, {"data": f"{len(texts)} texts typed in the studio"}


def _context(job: dict[str, Any], report: Callable[[Progress], None]) -> int:
    """Explain a prompt, write its folder and its page, and return how many parts are decisive."""
    from butfor.context import explain, prompt
    from butfor.context.files import model_named as language_model
    from butfor.context.result import write_folder
    from butfor.studio.results import make_context_view

    given = job["context"]
    parts = {f"passage {number}": text for number, text in enumerate(given["parts"], 1)}
    result = explain(
        language_model(job["model"]["spec"], **job["model"]["options"]),
        prompt(parts, question=given["question"]),
        given["pool"] if job["sampler"]["spec"] == "pool" else "drop",
        alpha=job["settings"]["alpha"],
        seed=job["settings"]["seed"],
        run_dir=Path(job["out"]) / "run",
        progress=report,
    )
    write_folder(result, Path(job["out"]))
    make_context_view(result, Path(job["view"]))
    return sum(part.necessary for part in result.parts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
