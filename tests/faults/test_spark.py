"""The recipe for Spark gives the same bits as one process, on a real local Spark where there is one."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import butfor

RNG = np.random.default_rng(0)
REFERENCE, INPUTS = RNG.normal(size=(150, 4)), RNG.normal([2, 0, 0, 1], 1, size=(60, 4))


def engine_class():
    path = Path(__file__).parents[2] / "examples" / "recipes" / "spark_engine.py"
    spec = importlib.util.spec_from_file_location("spark_engine", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.SparkEngine


@pytest.fixture(scope="module")
def spark():
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("there is no Java here, which Spark needs")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    yield session
    session.stop()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("test", ["sequential", "irt", "few-shot", "osft"])
def test_spark_gives_the_same_bits(spark, test, monkeypatch):
    monkeypatch.setattr("butfor.evaluation.evaluator.LEAST_ROWS", 1500)
    monkeypatch.setattr("butfor.evaluation.evaluator.CALLS", 0)

    def curved(rows):
        rows = np.asarray(rows)
        return np.tanh(rows[:, 0] + rows[:, 1] * rows[:, 3])

    settings = {"test": test, "subsets": "columns"} | ({"draws": 99} if test in ("sequential", "irt") else {})
    one = butfor.explain(curved, INPUTS, REFERENCE, **settings)
    two = butfor.explain(curved, INPUTS, REFERENCE, workers=engine_class()(spark), **settings)
    pd.testing.assert_frame_equal(two.table, one.table, check_exact=True)
    assert one.rows == two.rows


class Backwards:
    """An engine of somebody else's: results may come in any order."""

    def map(self, stage, tasks):
        from butfor.evaluation.evaluator import evaluate_task

        for number, task in reversed(list(enumerate(tasks))):
            yield number, evaluate_task(stage, task)


def test_any_engine_is_taken(monkeypatch):
    monkeypatch.setattr("butfor.evaluation.evaluator.LEAST_ROWS", 1500)
    monkeypatch.setattr("butfor.evaluation.evaluator.CALLS", 0)
    one, two = (
        butfor.explain(lambda rows: rows[:, 0], INPUTS, REFERENCE, test="irt", draws=99, workers=workers)
        for workers in (1, Backwards())
    )
    pd.testing.assert_frame_equal(two.table, one.table, check_exact=True)
