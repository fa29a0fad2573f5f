"""Units of work on Spark: `butfor.explain(model, X, reference, workers=SparkEngine(spark))`.

A recipe, not a part of the package. The unit function is the same as on one process, seeds are sent and counts come
back, so the result is the same in every bit. Spark plans every round anew (about a tenth of a second), so that it pays
for models that take minutes; dask does without that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import cloudpickle
import pandas as pd

from butfor.evaluation.evaluator import UnitResult, Workplace, WorkUnit, evaluate_unit
from butfor.evaluation.workers import one_thread_each, opened


class SparkEngine:
    """An engine for `workers=`: so many units in each task of a Spark job, a job for as many as the cores take."""

    def __init__(self, spark: Any, units_of_a_task: int = 4) -> None:
        self.spark, self.units_of_a_task = spark, units_of_a_task

    def map(self, place: Workplace, units: Iterable[WorkUnit]) -> Iterator[tuple[int, UnitResult]]:
        """Results as they come, by the number of their unit."""
        sent = self.spark.sparkContext.broadcast(cloudpickle.dumps(place))
        cores = self.spark.sparkContext.defaultParallelism

        def evaluate(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
            one_thread_each()
            here = opened(sent.value)
            for frame in frames:
                done = [evaluate_unit(here, cloudpickle.loads(unit)) for unit in frame["unit"]]
                yield pd.DataFrame({"number": frame["number"], "result": [cloudpickle.dumps(one) for one in done]})

        left = enumerate(units)
        while some := list(islice(left, cores * self.units_of_a_task)):
            yield from ((number, unit.result) for number, unit in some if unit.result is not None)
            rows = [(number, cloudpickle.dumps(unit)) for number, unit in some if unit.result is None]
            if rows:
                frame = self.spark.createDataFrame(rows, "number long, unit binary").repartition(cores)
                found = frame.mapInPandas(evaluate, "number long, result binary").collect()
                yield from ((row.number, cloudpickle.loads(row.result)) for row in found)
        sent.unpersist()
