"""The examples of the pages, and what they print: python -m tools.shown [page ...]

Runs the Python of each page (of all, where none is named) and writes what it prints into the indented block below it,
where the page shows something else. A block with "..." stays as it is while all its parts are still printed.
The tests of the pages run the same code (tests/public/test_docs_code.py).
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import butfor

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 14  # lines of a block; a longer output is cut off, and should be cut by hand
BLOCK = re.compile(r"```python\n((?:[^`]|`(?!``))*)```\n((?:\n|    [^\n]*\n)*)")  # code, and what is shown below it
Scope = dict[str, Any]


def patients() -> Scope:
    """Return benign training patients, a model of both kinds, and a few malignant ones."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rows, target = load_breast_cancer(return_X_y=True, as_frame=True)
    rows, labels = rows.filter(regex="radius|area|texture"), target.map({0: "malignant", 1: "benign"})
    held_out = rows.index.isin([*range(10, 30)])
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(rows[~held_out], labels[~held_out])
    reference = rows[~held_out & (labels == "benign")]
    return {
        "butfor": butfor,
        "patients": rows[held_out & (labels == "malignant")],
        "model": model,
        "reference_train": reference[::2],
        "reference_held_out": reference[1::2],
    }


def scores() -> Scope:
    """Return a model of one output, rows and a sampler."""
    rows = np.random.default_rng(0).normal(size=(400, 3))
    return {
        "butfor": butfor,
        "np": np,
        "X": rows,
        "model": lambda batch: 1 / (1 + np.exp(-np.asarray(batch) @ [2.0, 1.0, 0.0])),
        "sampler": butfor.tabular.gaussian(rows),
    }


SCOPES: dict[str, Callable[[], Scope]] = {  # what each page takes for granted; `dict`: nothing
    "README.md": dict,
    "CONTRIBUTING.md": scores,
    "docs/index.md": dict,
    "docs/which-question.md": dict,
    "docs/guide.md": dict,
    "docs/texts.md": dict,
    "docs/contexts.md": dict,
    "docs/compliance.md": dict,
    "docs/samplers.md": patients,
    "docs/own-sampler.md": dict,
    "docs/multimodal.md": dict,
    "docs/running.md": dict,
    "docs/coming-from.md": dict,
    "docs/validation.md": dict,
    "docs/referees.md": dict,
}


def blocks(page: str) -> list[str]:
    """Return the code of a page."""
    return [code for code, _ in BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))]


def run(page: str, scope: Scope) -> Iterator[tuple[str, str]]:
    """Run the code of a page; yield what each block prints, as at a prompt, and what the page shows.

    A block whose package is not installed is left out.
    """
    for code, shown in BLOCK.findall((ROOT / page).read_text(encoding="utf-8")):
        try:
            yield printed(code.replace("progress=True", "progress=None"), page, scope), shown
        except ModuleNotFoundError as error:
            yield as_text(shown), shown
            sys.stderr.write(f"{page}: a block was left out: {error}\n")


def printed(code: str, page: str, scope: Scope) -> str:
    """Run some code; return what it prints, with the values of expressions but for paths of files that were written."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        for statement in ast.parse(code).body:
            if isinstance(statement, ast.Expr):
                value = eval(compile(ast.Expression(statement.value), page, "eval"), scope)
                out.write("" if value is None or isinstance(value, Path) else f"{value!r}\n")
            else:
                exec(compile(ast.Module([statement], []), page, "exec"), scope)
    return out.getvalue()


def as_text(shown: str) -> str:
    """Return a block of a page without its indent."""
    return "".join(line.removeprefix("    ") for line in shown.splitlines(keepends=True)).strip("\n")


def matches(output: str, shown: str) -> bool:
    """Return whether a block shows an output, but for line breaks and what it leaves out by "...".

    >>> matches("one two\\nthree four", "    one\\n    ...\\n    four\\n")
    True
    >>> matches("one two\\nthree four", "    four\\n    ...\\n    one\\n"), matches("one", "    ...\\n")
    (False, False)
    """
    left, parts = " ".join(output.split()), [" ".join(part.split()) for part in shown.split("...")]
    for part in filter(None, parts):
        _, found, left = left.partition(part)
        if not found:
            return False
    return any(parts)


def block_of(output: str) -> str:
    """Return the block that shows an output.

    >>> block_of("one\\n\\ntwo\\n")
    '\\n    one\\n\\n    two\\n\\n'
    """
    lines = [line.rstrip() for line in output.strip("\n").splitlines()]
    lines = lines if len(lines) <= LONGEST else [*lines[: LONGEST - 1], "..."]
    return "\n" + "".join(f"    {line}\n" if line else "\n" for line in lines) + "\n"


def refresh(page: str) -> int:
    """Write what a page's code prints where the page shows something else; return in how many blocks."""
    path, changed = ROOT / page, 0
    text, done = path.read_text(encoding="utf-8"), 0
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outputs = list(run(page, SCOPES[page]()))
    for output, shown in outputs:
        match = BLOCK.search(text, done)
        assert match is not None
        start, end = match.span(2)
        done = end
        if shown.strip() and not matches(output, shown):
            block = block_of(output)
            text, done, changed = text[:start] + block + text[end:], start + len(block), changed + 1
    path.write_text(text, encoding="utf-8")
    return changed


def main(pages: list[str]) -> int:
    unknown = sorted(set(pages) - set(SCOPES))
    if unknown:
        sys.stderr.write(f"No examples are known for {', '.join(unknown)}; the pages are {', '.join(SCOPES)}\n")
        return 2
    os.environ.setdefault("MPLBACKEND", "agg")
    for page in pages or SCOPES:
        print(f"{page}: {refresh(page)} blocks changed", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
