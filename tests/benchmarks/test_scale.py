"""`python -m benchmarks scale`: what is measured, on small sizes; the real figures come from the command."""

from __future__ import annotations

import pytest

from benchmarks import scale
from benchmarks.figures import markdown, memory
from butfor import InputError


@pytest.mark.filterwarnings("ignore")
def test_every_part_is_measured_and_said() -> None:
    parts = {
        "journal": scale.journals(0, 20, 1),
    }
    assert all(row["ratio"] > 0 and row["met"] == (row["ratio"] <= 1.03) for row in parts["journal"])
    shown = markdown(parts)
    assert shown.count("| 1.03 | yes |") + shown.count("| 1.03 | **no** |") == len(parts["journal"]) == 4


@pytest.mark.filterwarnings("ignore")
def test_what_is_missed_says_so(monkeypatch) -> None:
    monkeypatch.setattr(scale, "MOST_SECONDS", 0.0)
    slow = scale.million(0, 20)
    assert [row["met"] for row in slow] == [False, False]
    assert "| **no** |" in markdown({"million": slow})
    with pytest.raises(InputError, match="parts must be some of workers"):
        scale.run(parts=("all",))


def test_the_memory_of_this_process_is_known() -> None:
    assert memory() > 10
    with scale.most_of_workers() as found:
        pass
    assert found == []
