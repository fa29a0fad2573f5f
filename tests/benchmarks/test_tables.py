"""The bench of samplers of tables measures what it says, on a small trial."""

from benchmarks.figures import markdown
from benchmarks.tables import SAMPLERS, run


def test_a_small_trial():
    figures = run(runs=1)
    found = figures["discoveries"]
    assert len(found) == 2 * len(SAMPLERS)
    assert found["gaussian, shift 5"]["fdr"] < 0.3
    assert found["gaussian, shift 5"]["tpr"] > 0.4
    assert found["empirical, shift 5"]["false"] >= 2 * found["gaussian, shift 5"]["false"]
    assert min(figures["draws_per_second"].values()) > 0
    page = markdown(figures)
    assert all(f"| {name}, shift 3 |" in page for name in SAMPLERS)
