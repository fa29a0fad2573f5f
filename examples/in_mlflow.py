"""A model evaluated in MLflow: decisions, table, report, plots and promise are logged to the run.

The reference is what malignant tumours are compared with: benign ones that the model has not seen. MLflow's own metrics
say how often a model is right, ours what it relies on.
"""

import sys
from pathlib import Path
from typing import Any

import mlflow
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def main(folder: str) -> Any:
    """Evaluate a model, print the metrics, and return MLflow's result; `mlflow ui` shows the run."""
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    mlflow.create_experiment("tumours", artifact_location=(Path(folder).resolve() / "artifacts").as_uri())
    mlflow.set_experiment("tumours")
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.loc[:, "worst radius":"worst concave points"]
    train, held_out, seen, truth = train_test_split(X, y, random_state=0)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(train, seen)
    malignant = held_out[truth == 0].assign(benign=0)
    with mlflow.start_run():
        logged = mlflow.sklearn.log_model(model, name="model", pip_requirements=["scikit-learn"])
        evaluation = mlflow.models.evaluate(
            logged.model_uri,
            malignant,
            targets="benign",
            model_type="classifier",
            evaluators="butfor",
            evaluator_config={"reference": held_out[truth == 1]},
        )
    for name, value in evaluation.metrics.items():
        print(f"{name:25} {value:g}")
    print(evaluation.artifacts["butfor/promise.txt"].content)
    return evaluation


if __name__ == "__main__":
    main(*sys.argv[1:] or ["."])
