"""What is printed does not depend on the order of Python's sets, which another process has otherwise."""

import os
import subprocess
import sys

CODE = """
import numpy as np, pandas as pd, butfor
rng = np.random.default_rng(0)
signal = rng.normal(size=(260, 1))
table = pd.DataFrame(signal + 1e-3 * rng.normal(size=(260, 6)), columns=["age", "bmi", "dose", "iron", "lead", "zinc"])
result = butfor.explain(
    lambda rows: rows.sum(axis=1), table[:10], table[10:], decide=lambda y: y > 0, control=False, effects=None
)
print(result)
"""


def test_the_answer_is_the_same_in_every_process():
    """Six columns that repeat each other: each is enough, so the line names the first."""
    printed = set()
    for seed in "123":
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONWARNINGS": "ignore"}
        done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, env=environment, check=True)
        printed.add(done.stdout)
    assert "Enough: " in done.stdout
    assert len(printed) == 1
