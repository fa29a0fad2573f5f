"""`butfor bench scale`: what is measured, on small sizes; the real figures come from the command."""

from __future__ import annotations

import pytest

from butfor.bench import scale


@pytest.mark.filterwarnings("ignore")
def test_every_part_is_measured_and_said() -> None:
    parts = {
        "journal": scale.journals(0, 20, 1),
        "stream": scale.streamed(0, 1000),
        "columns": scale.columns(0, 20),
    }
    assert set(parts["stream"]["files"]) == {"1000", "10000"}
    assert all(one["ratio"] > 0 for one in parts["journal"]["cases"].values())
    text = scale.markdown({"parts": parts})
    assert "| 40 x 20 of CSV | seconds |" in text
    assert text.count("<= 1.03") == 4


def test_what_is_missed_says_so() -> None:
    one = {"seconds": 10.0, "main": 1.0, "rows": 5, "same": True, "ratio": 1.2}
    engines = {"2 processes": one, "2 threads": one}
    part = {"runs": {"100 trees, 20 inputs": {"engines": engines, "bare": 1.9}}, "load": 0.1}
    lines = scale.markdown({"parts": {"workers": part}}).splitlines()
    missed = [line for line in lines if "(missed)" in line]
    assert [line.split("|")[1].strip() for line in missed] == ["100 trees, 20 inputs: 2 processes"]
    ran = {"hypotheses": 1, "chosen": 1, "rows": 1, "seconds": 9.0, "main": 1.0, "main_mb": 1600.0, "worker_mb": 0.0}
    assert "(missed)" in scale.markdown({"parts": {"million": {"runs": {"1": ran}}}})
    assert "(met)" in scale.markdown({"parts": {"million": {"runs": {"1": ran | {"main_mb": 100.0}}}}})


def test_the_memory_of_this_process_is_known() -> None:
    assert scale.peak("self") > 10
    with scale.most_of_workers() as found:
        pass
    assert found == []
