"""Prompts and foils from files, as other people's pipelines write them, and models by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from butfor.context.prompt import Prompt, prompt
from butfor.context.reader import small_reader
from butfor.models.files import function_at
from butfor.models.language import openai
from butfor.types import InputError
from butfor.untrusted import parse_json, read_bounded

MOST_BYTES = 200_000_000
PASSAGES = ("passages", "contexts", "documents")
SPARE = {"name", "id", "answer"}
FORM = 'expected {"question": ..., "passages": [...]}, {"parts": {...}, "question": ...} or {"messages": [...]}'


def read_prompts(path: str | Path) -> tuple[dict[str, Prompt], list[str] | None]:
    """Return the prompts of a .jsonl or .json file by name, and the answers given there, if every prompt has one."""
    rows = _rows(Path(path), "--prompts")
    made: dict[str, Prompt] = {}
    answers: list[str] = []
    for number, row in enumerate(rows, 1):
        where = f"{path}, prompt {number}"
        if not isinstance(row, Mapping):
            raise InputError(f"{where} is {type(row).__name__}; {FORM}")
        name = str(row.get("name", row.get("id", f"prompt {number}")))
        if name in made:
            raise InputError(f"{where}: two prompts are called {name!r}; give each its own name")
        try:
            made[name] = _prompt(row)
        except InputError as error:
            raise InputError(f"{where}: {error}") from error
        if isinstance(row.get("answer"), str) and row["answer"]:
            answers.append(row["answer"])
    return made, answers if len(answers) == len(made) else None


def _prompt(row: Mapping[str, Any]) -> Prompt:
    passages = [name for name in PASSAGES if name in row]
    given = [*passages, *(name for name in ("parts", "messages", "text") if name in row)]
    if len(given) != 1:
        raise InputError(f"it has {', '.join(map(repr, row)) or 'nothing'}; {FORM}")
    known = {
        "parts": {"question", "template"},
        "messages": {"spans"},
        "text": {"spans"},
    }.get(given[0], {"question", "template", "instruction"})
    if extra := set(row) - known - SPARE - set(given):
        raise InputError(f"{sorted(extra)[0]!r} is not known beside {given[0]!r}; known are {', '.join(sorted(known))}")
    if not passages:
        if given == ["parts"] and not isinstance(row["parts"], Mapping):
            raise InputError(f"parts is {type(row['parts']).__name__}; expected texts by name")
        return prompt(row[given[0]], **{name: row[name] for name in known if name in row})
    texts = row[passages[0]]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise InputError(f"{passages[0]} must be a list of texts, got {type(texts).__name__}")
    parts = {"instruction": row["instruction"]} if "instruction" in row else {}
    parts |= {f"passage {number}": text for number, text in enumerate(texts, 1)}
    return prompt(parts, question=row.get("question", ""), template=row.get("template"))


def read_foils(path: str | Path) -> list[str] | dict[str, list[str]]:
    """Return the pool of a file: a text a line of .txt; texts, or {"text": ..., "kind": ...}, in .jsonl or .json."""
    where = Path(path)
    if where.suffix == ".txt":
        lines = read_bounded(where, "--foils", MOST_BYTES).decode("utf-8", "replace").splitlines()
        return [line for line in lines if line.strip()]
    rows = _rows(where, "--foils")
    if isinstance(rows, dict):
        return rows  # pools by name, which `as_foils` looks at
    pools: dict[str, list[str]] = {}
    for number, row in enumerate(rows, 1):
        text = row.get("text") if isinstance(row, Mapping) else row
        if not isinstance(text, str):
            raise InputError(f'{path}, line {number} holds no text; expected a text or {{"text": ..., "kind": ...}}')
        pools.setdefault(str(row.get("kind", "")) if isinstance(row, Mapping) else "", []).append(text)
    return pools.get("", []) if set(pools) <= {""} else pools


def _rows(path: Path, option: str) -> Any:
    content = read_bounded(path, option, MOST_BYTES)
    try:
        if path.suffix != ".jsonl":
            rows = parse_json(content)
            return rows if isinstance(rows, list) or option == "--foils" else [rows]
        rows = [parse_json(line) for line in content.splitlines() if line.strip()]
    except ValueError as error:
        raise InputError(f"{option} {path} is not JSON: {str(error)[:120]}; one object a line in .jsonl") from error
    if not rows:
        raise InputError(f"{option} {path} is empty; expected one JSON object a line")
    return rows


def model_named(
    model: str, *, served: str | None = None, api: str = "completions", temperature: float = 0.0, **options: Any
) -> Any:
    """Return what --model names: an http address, file.py:function or small-reader."""
    if model.lower().startswith(("http://", "https://")):
        return openai(model, model=served, api=api, temperature=temperature, **options)  # type: ignore[arg-type]
    if model == "small-reader":
        return small_reader(temperature)
    if ".py:" not in model:
        raise InputError(f"--model {model} is no http address, file.py:function or small-reader; give one")
    return function_at(model)
