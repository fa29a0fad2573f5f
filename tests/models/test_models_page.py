"""The page on models: what it shows runs, what it says is so."""

import inspect
import re
import warnings
from pathlib import Path

import pytest

from butfor import models

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_snippets_run(tmp_path):
    assert len(SNIPPETS) == 3
    scope = {"path": tmp_path / "model.onnx"}
    for code in SNIPPETS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(code, scope)
        assert scope.pop("result").rows > 0
    assert scope["model"].classes == ("ill", "well")


def test_the_defaults_are_those_on_the_page():
    defaults = {name: one.default for name, one in inspect.signature(models.endpoint).parameters.items()}
    for name in ("rows_per_request", "concurrency", "timeout", "patience"):
        assert f"`{name}` ({defaults[name]:g}" in PAGE
    assert f"after {models.remote.FIRST_CONTACT:g} s" in PAGE
    assert f"after {models.remote.ATTEMPTS_ON_500} attempts" in PAGE


@pytest.mark.parametrize("name", models.__all__)
def test_everything_public_has_a_docstring(name):
    assert (getattr(models, name).__doc__ or "").strip()


@pytest.mark.parametrize(
    "name", [name for name in models.__all__ if name not in ("Wrapped", "ModelUnreachable", "wrap")]
)
def test_every_kind_is_on_the_page(name):
    assert f"butfor.models.{name}(" in PAGE
