"""The numbers that we keep an eye on stay where they are."""

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "house.py"
GROWS = {"lines"}  # 23,000 was asked of part 6; every part since adds capabilities: printed, not tested


def house():
    spec = importlib.util.spec_from_file_location("house", TOOL)
    module = importlib.util.module_from_spec(spec)
    sys.modules["house"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


HOUSE = house()
NUMBERS = HOUSE.counted(HOUSE.modules())


@pytest.mark.parametrize("name", [name for name in HOUSE.ALLOWED if name not in GROWS])
def test_the_house_is_in_order(name):
    assert NUMBERS[name] <= HOUSE.ALLOWED[name]


def test_what_is_counted_is_counted():
    text = (
        "def f(a: Any, b: list[Any]) -> Any:\n    return getattr(a, 'b'), hasattr(a, 'c'), isinstance(a, np.ndarray)\n"
    )
    module = HOUSE.Module(HOUSE.SRC / "core" / "planted.py", text, ast.parse(text))
    assert (module.anys, module.probes, module.array_checks) == (2, 2, 1)
