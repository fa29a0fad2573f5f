"""Every public function says what its parameters are, in numpydoc's form: the reference is generated from it."""

import inspect
import re

import pytest

import butfor
from butfor import context, image, models, multimodal, plots, simulate, tabular, text

SPACES = {
    "butfor": butfor,
    "butfor.image": image,
    "butfor.models": models,
    "butfor.context": context,
    "butfor.multimodal": multimodal,
    "butfor.plots": plots,
    "butfor.simulate": simulate,
    "butfor.tabular": tabular,
    "butfor.text": text,
}
RULES = ["adaptive", "bh", "bonferroni", "by", "e_bh", "holm", "knockoff_plus", "seqstep"]
CLASSES = (butfor.Result, butfor.SamplerCheck, butfor.ExplanationDisplay)


def functions():
    """Every public function and method, by its full name."""
    for space, module in SPACES.items():
        for name in module.__all__:
            if inspect.isfunction(getattr(module, name)):
                yield f"{space}.{name}", getattr(module, name)
    for name in RULES:
        if hasattr(butfor.selection, name):
            yield f"butfor.selection.{name}", getattr(butfor.selection, name)
    for kind in CLASSES:
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_"):
                yield f"{kind.__name__}.{name}", method


def documented(function):
    """Names in the Parameters section."""
    page = inspect.cleandoc(function.__doc__ or "")
    found = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[^\n]*\n-{3,}\n|\Z)", page, re.MULTILINE | re.DOTALL)
    if found is None:
        return set()
    heads = re.findall(r"^([\w*, ]+?) : ", found.group(1), re.MULTILINE)
    return {name.strip().lstrip("*") for head in heads for name in head.split(",")}


@pytest.mark.parametrize(("name", "function"), [pytest.param(*pair, id=pair[0]) for pair in functions()])
def test_parameters_are_documented(name, function):
    parameters = inspect.signature(function).parameters.values()
    wanted = {parameter.name for parameter in parameters if parameter.name != "self"}
    assert wanted - documented(function) == set()


def test_there_is_something_to_check():
    assert len(list(functions())) > 80
