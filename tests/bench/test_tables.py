"""The bench of samplers of tables measures what it says, on a small trial."""

from butfor.bench.tables import SAMPLERS, markdown, run


def test_a_small_trial():
    figures = run(runs=2)
    found = figures["discoveries"]
    assert set(found) == set(SAMPLERS)
    assert found["gaussian"]["fdr"] < 0.3
    assert found["gaussian"]["tpr"] > 0.5
    assert found["empirical"]["false"] >= 2 * max(found[name]["false"] for name in ("gaussian", "copula"))
    assert min(figures["draws_per_second"].values()) > 0
    page = markdown(figures)
    assert all(f"| {name} |" in page for name in SAMPLERS)
