"""Every test, rule, sampler and modality gives what it gave before: a net under a refactoring.

To renew after an intended change: python tests/golden/test_same_bits.py, or with --words-only if only rows, notes and
guarantees are to be other ones (and say so under "Changed results" in the CHANGELOG).
"""

import json
import os
import sys
import tempfile
import warnings
from pathlib import Path

if __name__ == "__main__":  # as pytest has it
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pandas as pd
import pytest

import butfor
from golden.cases import CASES, plain

STORED = Path(__file__).with_name("same_bits.json")
SAVED = [
    "array: test=sequential, sampler=gaussian",
    "frame: test=irt, sampler=mixed forest, model=mixed, alpha=0.4",
    "global: y=score, loss=squared, rule=bh",
    "image: test=few-shot, sampler=donor",
    "text: test=sequential, sampler=ngram",
    "multimodal: test=default",
]


@pytest.fixture(scope="module")
def stored():
    return read()


def read():
    return json.loads(STORED.read_text(encoding="utf-8"))


def write(found):
    """One line for each case."""
    lines = (f"{json.dumps(key)}: {json.dumps(one, separators=(',', ':'))}" for key, one in found.items())
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def text(value):
    """JSON, which unlike numbers is equal to itself where something is missing."""
    return json.dumps(value, indent=1)


@pytest.mark.parametrize("case", CASES)
def test_same_bits(case, stored, tmp_path):
    """The same choices, draws, p-values, statuses and notes; numbers to rounding: BLAS adds up in another order on a
    processor with other instructions, which moves the last bits of a counterfactual and nothing else."""
    result, wanted = CASES[case](tmp_path), stored[case]
    found = plain(result)
    assert text(rounded(found["exact"], wanted["exact"])) == text(wanted["exact"])
    assert list(found["close"]) == list(wanted["close"])
    near = (1e-5, 1e-6) if case.startswith(("text", "image")) else (1e-8, 1e-9)  # networks compute in float32
    for name, values in wanted["close"].items():
        np.testing.assert_allclose(found["close"][name], values, *near, err_msg=name)
    assert text(rounded(found["told"], wanted["told"])) == text(wanted["told"])
    if hasattr(result, "chosen"):
        assert_q(result)


def assert_q(result):
    """What is chosen is what has q <= alpha, and none of it has p > alpha; competitions on layers have no q."""
    if not (np.isnan(result.q).all() and result.evidence.kind in "zw"):
        np.testing.assert_array_equal(result.chosen, result.q <= result.alpha)
    if result.evidence.kind == "p":
        assert not (result.chosen & (result.evidence.values > result.alpha)).any()
        assert (result.q[np.isfinite(result.q)] >= result.evidence.values[np.isfinite(result.q)]).all()


def rounded(found, wanted):
    """What was found, with every fraction that is within rounding of what is wanted put as that; of the same shape."""
    if isinstance(wanted, float) and isinstance(found, float):
        return wanted if abs(found - wanted) <= 1e-11 * max(1.0, abs(wanted)) else found
    if isinstance(wanted, dict) and isinstance(found, dict):
        return {name: rounded(one, wanted.get(name)) for name, one in found.items()}
    if isinstance(wanted, list) and isinstance(found, list) and len(found) == len(wanted):
        return [rounded(one, other) for one, other in zip(found, wanted, strict=True)]
    return found


def test_rounding_forgives_nothing_else():
    kept = {"chosen": "01", "draws": [3, 2], "p": [0.25, float("nan")]}
    assert text(rounded({**kept, "p": [0.25 + 1e-14, float("nan")]}, kept)) == text(kept)
    for other in ({"p": [0.25 + 1e-9, float("nan")]}, {"p": [0.25]}, {"draws": [3, 3]}, {"chosen": "11"}):
        assert text(rounded(kept | other, kept)) != text(kept)


def test_they_are_stored_results_of_these_cases_that_say_something(stored):
    assert list(stored) == list(CASES)
    chosen = {name: one["exact"]["chosen"] for name, one in stored.items() if "chosen" in one["exact"]}
    for modality in ("array", "frame", "global", "image", "text", "multimodal"):
        own = [bits for name, bits in chosen.items() if name.startswith(f"{modality}: ")]
        assert sum("1" in bits and "0" in bits for bits in own) > len(own) / 2
    kinds = {name for one in stored.values() for name in (*one["exact"], *one["close"])}
    assert kinds >= {"p", "z", "w", "e", "auc", "verdicts", "counterfactuals"}


@pytest.mark.parametrize("test", ["sequential", "few-shot"])
def test_the_batch_size_is_no_part_of_the_result(test, stored):
    """But for the rows: the first look at the outputs asks a batch once more."""
    one, seven, default = (stored[f"array: test={test}, batch_rows={rows}"] for rows in (1, 7, None))
    for part in ("exact", "close"):
        assert one[part] == seven[part] == default[part]


@pytest.mark.parametrize("case", SAVED)
def test_what_is_saved_comes_back(case, tmp_path):
    result = CASES[case](tmp_path)
    again = butfor.load(result.save(tmp_path / "result.butfor"))
    pd.testing.assert_frame_equal(again.table, result.table, check_exact=True)
    assert (again.rows, again.notes, str(again.guarantee)) == (result.rows, result.notes, str(result.guarantee))


def renew(words_only):
    """Write what is found now, and say in how many cases each part is another."""
    before = read() if STORED.exists() else {}
    found = {}
    for name, run in CASES.items():
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore", butfor.ReachWarning)
            found[name] = plain(run(Path(folder)))
    for part in ("exact", "close", "told"):
        other = sum(text(one[part]) != text(before.get(name, {}).get(part)) for name, one in found.items())
        sys.stdout.write(f"{part}: {other} of {len(found)} cases are not what was stored\n")
    write({name: {**before[name], "told": one["told"]} for name, one in found.items()} if words_only else found)


if __name__ == "__main__":
    renew("--words-only" in sys.argv[1:])
