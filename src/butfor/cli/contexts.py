"""`butfor context`: which part of a prompt a language model's answer rests on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from butfor.cli.options import (
    MODEL,
    RUN,
    TEST,
    Interrupted,
    Output,
    bar,
    command,
    finish,
    opt,
    remember,
    working,
)
from butfor.evaluation.journal import clear

LEAST_SAMPLES = 3
MODEL_HELP = (
    "http://127.0.0.1:8080/v1 (any server of OpenAI's protocol; the key comes from the environment), file.py:function "
    "(from a list of prompts to a list of answers), or small-reader, the embedded network."
)
PROMPTS_HELP = (
    'A .jsonl or .json file: {"question": ..., "passages": [...]}, {"parts": {...}, "question": ...} or '
    '{"messages": [...]}, with a "name" and an "answer" if you like.'
)
FOILS_HELP = (
    "What might have stood there: a .txt file (a text a line), .jsonl or .json of texts, {text, kind} or lists by "
    "kind; or drop, which deletes the part and promises nothing."
)


@dataclass(frozen=True, kw_only=True)
class LanguageModel:
    """A language model, and how it is asked."""

    panel = MODEL
    model: Annotated[str, opt(MODEL_HELP)]
    served: Annotated[str | None, opt("The name of the model at the server.")] = None
    api: Annotated[str, opt("completions, chat or llama.cpp: what the server speaks.")] = "completions"
    key: Annotated[str, opt("The environment variable that holds the key; never the key.")] = "OPENAI_API_KEY"
    max_tokens: Annotated[int, opt("Longest answer of a server, in tokens.")] = 32
    temperature: Annotated[float, opt("Of a server's answers; above 0 give --samples.")] = 0.0
    concurrency: Annotated[int, opt("Requests under way at a time.")] = 4

    def load(self) -> Any:
        from butfor.context.files import model_named

        return model_named(**vars(self))


@dataclass(frozen=True, kw_only=True)
class Contexts:
    """Prompts, foils, and what is asked of them."""

    panel = TEST
    prompts: Annotated[Path, opt(PROMPTS_HELP)]
    foils: Annotated[str, opt(FOILS_HELP)]
    parts: Annotated[str | None, opt("zoom, or the names of parts: passage 1,passage 2. Default: all with foils.")] = (
        None
    )
    same: Annotated[str, opt("normalised or exact: when two answers are the same.")] = "normalised"
    level: Annotated[float, opt("The share of foils above which a part is decisive.")] = 0.5
    alpha: Annotated[float, opt("Share of the parts called decisive that may be wrong on average.")] = 0.1
    draws: Annotated[int, opt("The most foils of a part.")] = 10
    samples: Annotated[int, opt("Above 1 for a model that answers by chance.")] = 1
    enough: Annotated[float, opt("How often the answer must stay for parts to be enough; 0 does not look.")] = 0.9


@dataclass(frozen=True, kw_only=True)
class Spending:
    panel = RUN
    budget: Annotated[int | None, opt("The most calls; the run ends there with what is decided.")] = None
    dry_run: Annotated[bool, opt("Say how many calls and tokens it takes at most, and stop.", "--dry-run")] = False
    run_dir: Annotated[Path | None, opt("Folder that keeps every answer until the run is done. Default: OUT/run.")] = (
        None
    )


@command()
def context(*, model: LanguageModel, contexts: Contexts, spending: Spending, output: Output) -> None:
    """Test the passages, examples, turns or instructions of prompts; write result.butfor, table.csv and report.html."""
    from butfor.context.explain import cost, explain
    from butfor.context.files import read_foils, read_prompts
    from butfor.context.result import write_folder

    with working(output):
        prompts, answers = read_prompts(contexts.prompts)
        foils = "drop" if contexts.foils == "drop" else read_foils(contexts.foils)
        answering = model.load()
        parts: Literal["zoom"] | list[str] | None = None
        if contexts.parts is not None:
            parts = "zoom" if contexts.parts == "zoom" else [one.strip() for one in contexts.parts.split(",")]
        enough = contexts.enough or None
        size: dict[str, Any] = {"parts": parts, "same": contexts.same, "level": contexts.level, "alpha": contexts.alpha}
        size |= {"draws": contexts.draws, "samples": contexts.samples, "enough": enough}
        most = cost(answering, prompts, foils, **size)
        words = (
            f"at most {most.calls:,} calls and about {most.tokens:,} tokens of prompts; where few parts matter about "
            f"{most.likely:,} calls"
        )
        if model.temperature > 0 and contexts.samples < LEAST_SAMPLES:
            typer.echo("note: answers by chance (--temperature above 0) need --samples 3 or more", err=True)
        if spending.dry_run:
            typer.echo(words, err=True)
            return
        if not output.quiet:
            typer.echo(f"note: {words}", err=True)
        with _kept(spending.run_dir or output.out / "run", output.out) as folder:
            result = explain(
                answering,
                prompts,
                foils,
                answer=answers,
                seed=output.seed,
                budget=spending.budget,
                run_dir=folder,
                progress=bar(output),
                **size,
            )
            write_folder(result, output.out)
    finish(output, result.marked, result.to_json)


@contextmanager
def _kept(folder: Path, out: Path) -> Iterator[Path]:
    """Keep the answers until the result is written; what holds none is removed."""
    from butfor.context.ask import FILE

    missing = [one for one in (folder, out) if not one.exists()]
    try:
        remember(folder)
        yield folder
    except BaseException as error:
        if (folder / FILE).exists():
            if isinstance(error, KeyboardInterrupt):
                words = f"stopped; what was answered is kept in {folder}: the same command goes on from there"
                raise Interrupted(words) from error
            raise
        clear(folder)
        for one in missing:
            with suppress(OSError):
                one.rmdir()
        raise
    (folder / FILE).unlink(missing_ok=True)
    clear(folder)
