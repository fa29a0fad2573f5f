"""Every Python example of the pages runs, with what the page takes for granted put before it, and prints what is shown.

docs/models.md, docs/texts.md, docs/command-line.md, docs/own-sampler.md, docs/coming-from.md and docs/studio.md
have tests of their own, which look at what comes out, too.
"""

import ast
import contextlib
import io
import re
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import butfor

ROOT = Path(__file__).parents[2]
ELSEWHERE = {f"docs/{name}.md" for name in ("models", "texts", "command-line", "own-sampler", "coming-from", "studio")}


def patients():
    """Benign training patients, a model of both kinds, and a few malignant ones, number 17 among them."""
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
        "X_train": rows[~held_out],
        "y_train": labels[~held_out],
        "patients": rows[held_out & (labels == "malignant")],
        "model": model,
        "reference_train": reference[::2],
        "reference_held_out": reference[1::2],
    }


def scores():
    """A model of one output, rows and a sampler."""
    rows = np.random.default_rng(0).normal(size=(400, 3))
    return {
        "butfor": butfor,
        "np": np,
        "X": rows,
        "model": lambda batch: 1 / (1 + np.exp(-np.asarray(batch) @ [2.0, 1.0, 0.0])),
        "sampler": butfor.tabular.gaussian(rows),
        "from_values": butfor.tabular.from_values,
    }


def loans():
    """The model, the declined and the approved of examples/credit.py: few of them, for speed."""
    model, declined, approved = runpy.run_path(str(ROOT / "examples" / "credit.py"))["question"](inputs=20)
    return {"model": model, "declined": declined, "approved": approved[:300]}


SCOPES = {
    "README.md": loans,
    "CONTRIBUTING.md": scores,
    "docs/guide.md": scores,
    "docs/images.md": None,  # small networks: see below
    "docs/samplers.md": patients,
    "docs/which-inputs.md": scores,
    "docs/index.md": dict,  # they bring all that they need
    "docs/which-question.md": dict,
    "docs/which-test.md": dict,
    "docs/scale.md": dict,
}


WITH_OUTPUT = re.compile(
    r"```python\n((?:[^`]|`(?!``))*)```\n((?:\n|    [^\n]*\n)*)"
)  # code, and what is shown below it


def blocks(page):
    """The code of a page."""
    return [code for code, _ in WITH_OUTPUT.findall((ROOT / page).read_text(encoding="utf-8"))]


def run(page, scope, look=None):
    """All code of a page; `look` sees what a piece prints, and what the page shows."""
    for code, shown in WITH_OUTPUT.findall((ROOT / page).read_text(encoding="utf-8")):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            for statement in ast.parse(code.replace("progress=True", "progress=None")).body:
                if isinstance(statement, ast.Expr):  # as at a prompt
                    value = eval(compile(ast.Expression(statement.value), page, "eval"), scope)
                    printed.write("" if value is None else f"{value!r}\n")
                else:
                    exec(compile(ast.Module([statement], []), page, "exec"), scope)
        if look is not None:
            look(printed.getvalue(), shown)
    return scope


def as_shown(printed, shown):
    """But for line breaks and what the page leaves out by "..."."""
    said = " ".join(printed.split())
    for part in shown.split("..."):
        assert " ".join(part.split()) in said


@pytest.mark.parametrize("page", [page for page, scope in SCOPES.items() if scope is not None])
@pytest.mark.filterwarnings("default")
def test_the_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = run(page, SCOPES[page](), as_shown if SCOPES[page] is dict else None)
    if "sampler" in scope and callable(scope["sampler"]) and page == "docs/guide.md":  # the one of the page
        found = butfor.explain(lambda rows: rows[:, 0], np.full((3, 2), 4.0), scope["sampler"], alpha=0.2)
        assert set(found.table[found.chosen].subset) == {"x0"}


@pytest.mark.filterwarnings("default")
def test_the_examples_on_images_run(tmp_path, monkeypatch):
    """With small networks in place of real ones, under the names of the page."""
    pytest.importorskip("onnx")
    pytest.importorskip("cv2", reason="the image extra is not installed")
    from image.networks import page

    page(tmp_path)
    monkeypatch.chdir(tmp_path)
    scope = run("docs/images.md", {})
    assert len(scope["result"].chosen) > 0
    assert scope["ranks"].total > 0


def test_no_page_is_forgotten():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    with_code = {page.relative_to(ROOT).as_posix() for page in pages if "```python" in page.read_text(encoding="utf-8")}
    assert with_code == set(SCOPES) | ELSEWHERE


def test_a_uniform_sampler_as_in_contributing():
    scope = run("CONTRIBUTING.md", scores())
    rows = pd.DataFrame(np.random.default_rng(0).random((50, 2)))
    drawn = scope["uniform"](rows.to_numpy())(
        rows.to_numpy()[:2], butfor.Subset("a", np.array([0])), 3, np.random.default_rng(0)
    )
    assert drawn.shape == (6, 2)
