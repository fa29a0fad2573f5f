"""`python -m benchmarks trees` on a small model: it runs, and times what `explain` computes."""

import json

import numpy as np
import pytest

from benchmarks import trees
from benchmarks.__main__ import main
from butfor import explain


@pytest.fixture(autouse=True)
def small(monkeypatch):
    for name, value in {"INPUTS": (20, 40), "TREES": (5,), "TRAINING": 300, "REFERENCE": 50, "WIDTH": 11}.items():
        monkeypatch.setattr(trees, name, value)
    monkeypatch.setattr(trees, "MOST_PAIRS", {"sequential": 100})  # the larger cell is not waited for
    monkeypatch.setattr(trees, "SHORT", 0.0)


def test_the_command(capsys, tmp_path):
    assert main(["trees", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    figures = json.loads((tmp_path / "trees.json").read_text(encoding="utf-8"))["figures"]
    first, second = figures["cells"]
    assert (first["inputs"], second["inputs"], first["trees"]) == (20, 40, 5)
    ours = ("alone", "whole", "whole, sampler fitted")
    assert all(one["seconds"][way] > 0 for one in (first, second) for way in ours)
    assert first["seconds"]["sequential"] > first["seconds"]["alone"]
    assert second["seconds"]["sequential"] is None
    assert figures["slopes"]["5 trees"]["sequential"] is None
    assert figures["slopes"]["5 trees"]["alone"] is not None
    assert first["sequential / alone"] == first["seconds"]["sequential"] / first["seconds"]["alone"]
    assert "| sequential / alone |" in shown


def test_what_is_timed_is_what_explain_says():
    task = trees.tasks(5, seed=0, most=20)[0]
    result = explain(task.model, task.inputs, task.sampler, subsets="columns", control=False)
    assert result.record.exact == len(result.table)
    np.testing.assert_array_equal(trees.alone(task).reshape(-1), result.table.p)
