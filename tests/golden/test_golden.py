"""One small result per test, pinned. To renew after an intended change: python tests/golden/test_golden.py
(and say so under "Changed results" in the CHANGELOG).
"""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import butfor

STORED = Path(__file__).with_name("golden.json")
CASES = {
    f"{test}, {alternative}{', ' + rule if rule else ''}, {sampler}": (test, alternative, rule, sampler)
    for test, alternative, rule, sampler in [
        ("irt", "greater", None, "gaussian"),
        ("irt", "less", None, "values"),
        ("irt", "two-sided", None, "gaussian"),
        ("irt", "two-sided", "by", "empirical"),
        ("irt", "greater", "holm", "values"),
        ("osft", "greater", None, "gaussian"),
        ("osft", "less", None, "values"),
        ("osft", "two-sided", None, "empirical"),
    ]
}


def run(test, alternative, rule, sampler):
    """Plain numbers only: nothing here depends on how a library draws or multiplies, but for the sampler itself."""
    grid = np.arange(40 * 4).reshape(40, 4)
    reference = np.sin(grid * 1.7) + 0.5 * np.sin(grid[:, ::-1] * 0.9)
    inputs = np.cos(grid[:12] * 2.3) + np.array([2.5, 0.0, -2.5, 1.0])
    samplers = {
        "gaussian": butfor.tabular.gaussian,
        "empirical": butfor.tabular.empirical,
        "values": lambda _: butfor.tabular.from_values(
            lambda rows, subset, draws, rng: rng.standard_normal((len(rows) * draws, len(subset.index)))
        ),
    }
    return butfor.explain(
        lambda rows: rows[:, 0] + 0.5 * rows[:, 1] * rows[:, 2] + rows[:, 3] ** 2,
        inputs,
        samplers[sampler](reference),
        subsets={"a": [0], "b": [1, 2], "c": [3]},
        test=test,
        alternative=alternative,
        rule=rule,
        alpha=0.25,
        draws=99 if test == "irt" else None,
        seed=7,
    )


def plain(result):
    kind = result.evidence.kind
    return {kind: result.table[kind].tolist(), "chosen": result.chosen.tolist()}


@pytest.mark.parametrize("case", CASES)
def test_golden(case):
    stored, found = json.loads(STORED.read_text())[case], plain(run(*CASES[case]))
    assert found["chosen"] == stored["chosen"]
    if "p" in stored:
        assert found["p"] == stored["p"]
    else:
        np.testing.assert_allclose(found["z"], stored["z"], rtol=0, atol=1e-9)


def test_golden_results_say_something():
    stored = json.loads(STORED.read_text())
    assert set(stored) == set(CASES)
    for kind in ("irt", "osft"):
        assert any(0 < sum(result["chosen"]) < 36 for name, result in stored.items() if name.startswith(kind))


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", butfor.ReachWarning)
        found = {name: plain(run(*case)) for name, case in CASES.items()}
    STORED.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items()) + "\n}\n")
