"""`python -m benchmarks zoom`: rates by resolution in one table."""

import pytest

from benchmarks import zoom
from benchmarks.figures import markdown, slope
from butfor import InputError


def test_rates_of_a_small_bed(monkeypatch):
    quick = lambda seed, *, flat=False, draws=60: zoom.image_run(seed, flat=flat, draws=30, h=3, inputs=1)  # noqa: E731
    monkeypatch.setitem(zoom.RUNS, "images", quick)
    figures = zoom.run(runs=1, seed=3, beds=("images",))
    assert {row["way"] for row in figures["rates"]} == {"zoom", "not drawn left out", "flat"}
    assert all(0 <= row["fdr"] <= 1 and 0 <= row["power"] <= 1 and row["rows"] > 0 for row in figures["rates"])
    assert "images | zoom | 0 |" in markdown(figures)


def test_an_unknown_bed_is_refused():
    with pytest.raises(InputError, match="beds must be some of documents"):
        zoom.run(beds=("tables",))


def test_the_slope_is_that_of_the_logarithms():
    sizes = [300, 600, 1200]
    assert slope(sizes, [size**1.5 for size in sizes]) == pytest.approx(1.5)
