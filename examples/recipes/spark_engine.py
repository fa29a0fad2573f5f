"""Tasks on Spark: `butfor.explain(model, X, reference, workers=SparkEngine(spark))`.

A recipe, not a part of the package. Tasks run the same function as on one process, seeds are sent and counts come back,
so the result is the same in every bit. Spark plans every round anew (about a tenth of a second), so that it pays for
models that take minutes; dask does without that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import cloudpickle
import pandas as pd

from butfor.evaluation.evaluator import Stage, Task, TaskResult, evaluate_task
from butfor.evaluation.workers import one_thread_each, open_stage


class SparkEngine:
    """An engine for `workers=`: so many tasks for each core in a Spark job."""

    def __init__(self, spark: Any, tasks_per_core: int = 4) -> None:
        self.spark, self.tasks_per_core = spark, tasks_per_core

    def map(self, stage: Stage, tasks: Iterable[Task]) -> Iterator[tuple[int, TaskResult]]:
        """Yield results as they come, with the number of their task."""
        sent = self.spark.sparkContext.broadcast(cloudpickle.dumps(stage))
        cores = self.spark.sparkContext.defaultParallelism

        def evaluate(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
            one_thread_each()
            here = open_stage(sent.value)
            for frame in frames:
                done = [evaluate_task(here, cloudpickle.loads(task)) for task in frame["task"]]
                yield pd.DataFrame({"number": frame["number"], "result": [cloudpickle.dumps(one) for one in done]})

        left = enumerate(tasks)
        while sent_now := list(islice(left, cores * self.tasks_per_core)):
            yield from ((number, task.result) for number, task in sent_now if task.result is not None)
            rows = [(number, cloudpickle.dumps(task)) for number, task in sent_now if task.result is None]
            if rows:
                frame = self.spark.createDataFrame(rows, "number long, task binary").repartition(cores)
                done = frame.mapInPandas(evaluate, "number long, result binary").collect()
                yield from ((row.number, cloudpickle.loads(row.result)) for row in done)
        sent.unpersist()
