"""The numbers that a reviewer would count stay where they are: all of them are tested."""

import importlib.util
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "house.py"


def house():
    spec = importlib.util.spec_from_file_location("house", TOOL)
    module = importlib.util.module_from_spec(spec)
    sys.modules["house"] = module
    spec.loader.exec_module(module)
    return module


HOUSE = house()


@pytest.fixture(scope="module")
def numbers():
    return HOUSE.counted()


@pytest.mark.parametrize("name", HOUSE.ALLOWED)
def test_the_house_is_in_order(name, numbers):
    assert numbers[name] <= HOUSE.ALLOWED[name]


def test_what_is_counted_is_counted(tmp_path):
    text = '"""What is here."""\n\ndef f(own):\n    """What it does."""\n    found = own\n    return found\n'
    (tmp_path / "planted.py").write_text(text)
    files = HOUSE.python_files(tmp_path)
    assert HOUSE.lines(files) == 6
    assert HOUSE.private_words(files) == {"own": 1, "found": 1}
    HOUSE.ROOT, root = tmp_path, HOUSE.ROOT
    assert len(HOUSE.what_docstrings(files)) == 2
    HOUSE.ROOT = root
    assert str(HOUSE.SRC / "explain.py") in HOUSE.files_walked(HOUSE.table_run)
