"""MLflow's model evaluation with our tests: `mlflow.models.evaluate(..., evaluators="butfor")`; needs mlflow.

MLflow finds `Evaluator` by the entry point of this package. `log_result` logs any result to the active run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from butfor.explain import explain
from butfor.models.wrap import Wrapped, indicators, is_booster, is_estimator, is_frame, need
from butfor.results.result import Result
from butfor.tabular.global_importance import global_importance
from butfor.types import InputError, one_of

KINDS = {"chosen": "chosen", "necessary": "decisive", "sufficient": "sufficient", "moves": "moving"}  # of the table
PLOTS = ("features", "beeswarm", "decision")  # those that a result has no data for are left out
CALLS: dict[str, Callable[..., Result]] = {"decisions": explain, "skill": global_importance}


def log_result(result: Result, prefix: str = "") -> Any:
    """Log the counts, the tables, the report, the plots and the promise of a result to MLflow's active run.

    Parameters
    ----------
    result : Result
        Of any call.
    prefix : str
        Stands before the name of each metric and of the folder of the artifacts, for several results in one run.

    Returns
    -------
    mlflow.models.EvaluationResult
        With the metrics, and the artifacts by their paths.

    Examples
    --------
    >>> log_result(result)  # doctest: +SKIP
    """
    mlflow = need("mlflow", None)
    import pandas as pd

    folder = f"{prefix}butfor"
    metrics = {f"{folder}/{name}": value for name, value in counts(result).items()}
    artifacts: dict[str, Any] = {}
    with TemporaryDirectory() as temporary:
        directory = Path(temporary)
        written: dict[str, Any] = {"table.csv": result.table, "features.csv": result.features}
        written |= {"summary.txt": result.summary(full=True), "promise.txt": f"{result.guarantee}\n"}
        for name, content in written.items():
            if isinstance(content, pd.DataFrame):
                content.to_csv(directory / name, index=False)
            else:
                (directory / name).write_text(content, encoding="utf-8")
        report = result.report(directory / "report.html")
        written[report.name] = report.read_text(encoding="utf-8")
        written |= _drawn(result, directory)
        mlflow.log_metrics(metrics)
        mlflow.log_artifacts(temporary, folder)
        kinds = need("mlflow.models.evaluation.artifacts", None)
        by_suffix = {".csv": kinds.CsvEvaluationArtifact, ".png": kinds.ImageEvaluationArtifact}
        for name, content in written.items():
            kind = by_suffix.get(Path(name).suffix, kinds.TextEvaluationArtifact)
            artifacts[f"{folder}/{name}"] = kind(uri=mlflow.get_artifact_uri(f"{folder}/{name}"), content=content)
    return need("mlflow.models", None).EvaluationResult(metrics, artifacts, mlflow.active_run().info.run_id)


def counts(result: Result) -> dict[str, float]:
    """Return what a result counts: inputs, and of each kind of finding how many, in how many inputs and parts.

    >>> rng = np.random.default_rng(0)
    >>> reference, X = rng.normal(size=(300, 2)), rng.normal([3, 0], 1, size=(25, 2))
    >>> numbers = counts(explain(lambda rows: rows[:, 0], X, reference, subsets="columns"))
    >>> numbers["inputs"], numbers["chosen_parts"]
    (25.0, 1.0)
    """
    table = result.table
    numbers = {"alpha": result.alpha, "inputs": result.n_inputs, "hypotheses": len(table), "rows": int(result.rows)}
    for column, name in KINDS.items():
        if column in table:
            sure = table[table[column]]
            numbers |= {name: len(sure), f"{name}_parts": sure["subset"].nunique()}
            if "input" in table:
                numbers[f"{name}_inputs"] = sure["input"].nunique()
    if result.sets is not None:
        numbers["enough_inputs"] = result.enough()["input"].nunique()
    if result.control is not None:
        numbers |= {"control_chosen": int(result.control.chosen.sum()), "control_rows": result.control.rows}
    return {name: float(number) for name, number in numbers.items()}


def _drawn(result: Result, directory: Path) -> dict[str, Any]:
    """Write the plots that this result has; return them as images."""
    import matplotlib.pyplot as plt
    from PIL import Image

    images = {}
    for name in ("importance",) if result.is_global else PLOTS:
        try:
            figure = getattr(result.plot, name)().figure
        except InputError:
            continue
        path = directory / f"{name}.png"
        figure.savefig(path, dpi=200)
        plt.close(figure)
        with Image.open(path) as image:
            images[path.name] = image.copy()
    return images


class Evaluator:
    """The evaluator "butfor" of `mlflow.models.evaluate`, for models of tables.

    `evaluator_config` holds the keywords of `butfor.explain`, above all `reference`: rows to compare with, best of
    those that the model was not fitted on. With `{"ask": "skill"}` it holds those of `butfor.global_importance`, which
    needs no reference: on which columns does the quality of the model on these data and targets rest? Beside them it
    takes `rows`, the number of data rows to explain (drawn by `seed`; all by default), and MLflow's `metric_prefix`.
    """

    def can_evaluate(self, *, evaluator_config: dict[str, Any] | None = None, **_: Any) -> bool:
        """Return whether the configuration says what to ask; MLflow tries all evaluators where none is named."""
        config = evaluator_config or {}
        if config.get("ask") == "skill" or any(config.get(name) is not None for name in ("reference", "sampler")):
            return True
        logging.getLogger("mlflow.butfor").info(
            "The evaluator 'butfor' needs evaluator_config={'reference': rows to compare with}, or {'ask': 'skill'}."
        )
        return False

    def evaluate(
        self,
        *,
        model_type: str,
        dataset: Any,
        evaluator_config: dict[str, Any] | None = None,
        model: Any = None,
        **_: Any,
    ) -> Any:
        """Explain the data's rows by the model, and log what comes out (see `log_result`)."""
        config = dict(evaluator_config or {})
        ask, prefix, rows = config.pop("ask", "decisions"), config.pop("metric_prefix", ""), config.pop("rows", None)
        one_of("ask", ask, tuple(CALLS))
        config.pop("col_mapping", None)  # MLflow's, for evaluators of texts
        if unknown := set(config) - set(signature(CALLS[ask]).parameters):
            raise InputError(
                f"the evaluator 'butfor' takes no {sorted(unknown)[0]!r}; see butfor.{CALLS[ask].__name__}"
            )
        if model is None:
            raise InputError("the evaluator 'butfor' asks the model again; give evaluate a model, not its predictions")
        data, labels = dataset.features_data, dataset.labels_data
        wrapped = _model(model, model_type, data, labels)
        if rows is not None and rows < len(data):
            some = np.sort(np.random.default_rng(config.get("seed", 0)).choice(len(data), rows, replace=False))
            labels = None if labels is None else np.asarray(labels)[some]
            data = data.iloc[some] if hasattr(data, "iloc") else data[some]
        reference = config.get("reference")
        if is_frame(data) and is_frame(reference):  # it may hold the target as well
            config["reference"] = reference[[name for name in data.columns if name in reference.columns]]
        if "y" not in config and (ask == "skill" or config.get("target") == "truth"):
            config["y"] = labels
        return log_result(CALLS[ask](wrapped, data, **config), prefix)


def _model(model: Any, model_type: str, data: Any, labels: Any) -> Any:
    """Return what is asked: the estimator inside a model of MLflow, which has probabilities, else its predictions."""
    try:
        raw = model.get_raw_model()
    except (AttributeError, NotImplementedError):  # a function, a model of Python code
        raw = None
    if raw is not None and (is_booster(raw) or is_estimator(raw)):
        return raw
    if model_type == "classifier" and labels is not None:
        predicted, known = np.asarray(model.predict(data)), np.unique(np.asarray(labels))
        if predicted.ndim == 1 and len(classes := np.unique(np.append(known, predicted))) <= max(2, len(known)):
            return Wrapped(partial(indicators, model.predict, classes), tuple(classes.tolist()))  # no probabilities
    return Wrapped(lambda batch: np.asarray(model.predict(batch)))
