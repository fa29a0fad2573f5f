"""Our tests inside the tools of others: SHAP, Shapash, MLflow, scikit-learn and skore, each where it is installed."""

import doctest
import os
import sys
import tomllib
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import butfor
from butfor.compat import ContextCiter
from butfor.compat import shap as ours
from butfor.compat.mlflow import Evaluator, _model, counts
from butfor.plots.display import ExplanationDisplay
from butfor.types import InputError

pytestmark = pytest.mark.filterwarnings("default")  # of tools that we do not write
NAMES = ["marker", "copy", "pressure", "height"]


@pytest.fixture(scope="module")
def question():
    """A model, people of whom it says ill, and healthy ones; `copy` says what `marker` says."""
    rng = np.random.default_rng(0)
    marker, ill = rng.normal(size=700), np.arange(700) < 30
    rows = np.c_[marker + 4 * ill, np.zeros(700), rng.normal(size=(700, 2))]
    rows[:, 1] = 2 * rows[:, 0]
    frame = pd.DataFrame(rows, columns=NAMES, index=[f"p{k}" for k in range(700)])
    sick = frame.marker + rng.normal(size=700) > 2
    model = LogisticRegression().fit(frame[::2], sick[::2].astype(int))  # shapash takes no words
    return model, frame[ill], frame[~ill][1::2]


@pytest.fixture(scope="module")
def result(question):
    return butfor.explain(*question)


def test_the_former_place_and_the_new_one():
    assert import_module("butfor.compat.context_cite").ContextCiter is ContextCiter
    with pytest.raises(AttributeError, match="no attribute '__path__'"):
        ours.__path__  # noqa: B018


def test_shap_explainer_by_one_changed_import(question, result):
    shap = pytest.importorskip("shap", reason="shap is not installed")
    values = ours.Explainer(question[0], question[2])(question[1])
    assert isinstance(values, shap.Explanation)
    assert list(values.feature_names) == NAMES
    assert values.shape == values.p.shape == values.q.shape == values.chosen.shape == (30, 4)
    both = next(k for k, name in enumerate(result.subset_names) if set(result.columns_of(name)) == {"marker", "copy"})
    rows = result.subset_of == both
    assert values.values[:, :2].sum(axis=1) == pytest.approx(result.effects.effect[rows])  # equal shares of one effect
    assert values.values[:, 0] == pytest.approx(values.values[:, 1])
    assert values.chosen[:, 0].tolist() == values.chosen[:, 1].tolist() == result.chosen[rows].tolist()
    assert values.chosen[:, 0].mean() > 0.5
    assert values.data == pytest.approx(question[1].to_numpy())
    assert values.base_values + values.values.sum(axis=1) == pytest.approx(values.result.evidence.observed[rows])
    assert result.to_shap().shape == (30, 3)  # of a subset each
    for draw in (ours.plots.bar, ours.plots.beeswarm, ours.plots.heatmap):
        draw(values, show=False)
    ours.plots.waterfall(values[0], show=False)
    ours.plots.scatter(values[:, "height"], show=False)


def test_shap_explainer_takes_what_shap_takes(question):
    shap = pytest.importorskip("shap", reason="shap is not installed")
    model, X, healthy = question
    masker = ours.maskers.Independent(healthy, max_samples=1000)
    assert masker.__class__ is shap.maskers.Independent
    kinds = {"feature_names": list("abcd"), "subsets": "columns", "test": "irt", "draws": 20, "control": False}
    values = ours.Explainer(lambda rows: model.predict_proba(rows)[:, 1], masker=masker, **kinds)(X[:5], silent=True)
    assert list(values.feature_names)[-1] == "d"
    with pytest.raises(InputError, match="got 3 feature_names for 4 columns"):
        ours.Explainer(model, healthy, **{**kinds, "feature_names": list("abc")})(X[:5])
    with pytest.raises(InputError, match="no background"):
        ours.Explainer(model)
    with pytest.raises(InputError, match="takes no 'algorithm'"):
        ours.Explainer(model, healthy, algorithm="permutation")
    with pytest.raises(InputError, match="a DenseData of shap has no rows"):
        ours.Explainer(model, shap.kmeans(healthy, 3))(X)
    with pytest.raises(AttributeError, match="for TreeExplainer import shap itself"):
        ours.TreeExplainer  # noqa: B018


def test_shap_explainer_as_its_docstring_says():
    pytest.importorskip("shap", reason="shap is not installed")
    tried = doctest.testmod(ours)
    assert tried.attempted > 4
    assert not tried.failed


def test_shap_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(InputError, match="this needs shap, which is not installed; pip install shap"):
        ours.Explainer(len, [[0.0]])
    with pytest.raises(AttributeError, match="this needs shap, which is not installed"):
        ours.plots  # noqa: B018


def test_shapash_backend(question, result):
    shapash = pytest.importorskip("shapash", reason="shapash is not installed")
    from butfor.compat.shapash import Backend

    model, X, healthy = question
    backend = Backend(model, healthy)
    explainer = shapash.SmartExplainer(model, backend=backend)
    explainer.compile(x=X)
    assert list(backend.results) == [1]
    found = backend.explain_data
    assert found["contributions"].columns.tolist() == NAMES
    assert found["p"].index.equals(X.index)
    against, towards = explainer.explainer.contributions
    assert against.to_numpy() == pytest.approx(-towards.to_numpy())
    assert towards.to_numpy() == pytest.approx(found["contributions"].to_numpy())
    assert (towards["marker"] > 0).all()
    assert found["chosen"]["marker"].mean() > 0.5
    assert explainer.to_pandas(max_contrib=1)["feature_1"].isin(["marker", "copy"]).mean() > 0.8
    explainer.plot.local_plot(index="p0")
    with pytest.raises(InputError, match="leave target out"):
        Backend(model, healthy, target=1)


def test_shapash_backend_of_three_classes(question):
    shapash = pytest.importorskip("shapash", reason="shapash is not installed")
    from butfor.compat.shapash import Backend

    _, X, healthy = question
    model = LogisticRegression().fit(healthy, np.arange(len(healthy)) % 3)
    backend = Backend(model, healthy, test="irt", draws=20, control=False)
    shapash.SmartExplainer(model, backend=backend).compile(x=X[:5])
    assert list(backend.results) == [0, 1, 2]
    assert [frame.shape for frame in backend.explain_data["chosen"]] == [(5, 4)] * 3


def test_the_evaluator_is_where_the_package_says():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, name = project["entry-points"]["mlflow.model_evaluator"]["butfor"].split(":")
    assert getattr(import_module(module), name) is Evaluator


def test_the_evaluator_takes_part_only_where_it_is_told_what_to_ask():
    can = Evaluator().can_evaluate
    assert not can(model_type="classifier", evaluator_config={})
    assert not can(model_type="classifier", evaluator_config=None)
    assert can(model_type="classifier", evaluator_config={"reference": pd.DataFrame()})
    assert can(model_type="regressor", evaluator_config={"ask": "skill"}, more=1)
    ask = Evaluator().evaluate
    for config, message in (
        ({"ask": "why"}, "ask must be one of 'decisions', 'skill', got 'why'"),
        ({"reference": 1, "alhpa": 2}, "takes no 'alhpa'; see butfor.explain"),
        ({"reference": 1}, "give evaluate a model, not its predictions"),
    ):
        with pytest.raises(InputError, match=message):
            ask(model_type="classifier", dataset=None, evaluator_config=config)


def test_the_model_inside_a_model_of_mlflow(question):
    model, X, _ = question
    labels = model.predict(X)

    class Served:
        def __init__(self, predict):
            self.predict = predict

        def get_raw_model(self):
            raise NotImplementedError

    class Logged(Served):
        def get_raw_model(self):
            return model

    assert _model(Logged(None), "classifier", X, labels) is model
    asked = _model(Served(model.predict), "classifier", X, [0, 1])
    assert asked.classes == (0, 1)
    assert asked(X[:2]).tolist() == [[0, 1], [0, 1]]
    chances = lambda rows: model.predict_proba(rows)[:, 1]  # noqa: E731
    assert _model(Served(chances), "classifier", X, labels).classes is None
    assert _model(Served(lambda rows: rows["marker"]), "regressor", X, labels)(X[:2]).tolist() == X.marker[:2].tolist()


def test_what_is_counted(result):
    numbers, table = counts(result), result.table
    assert numbers["inputs"] == 30
    assert numbers["decisive"] == table.necessary.sum() > 0
    assert numbers["decisive_parts"] == table.subset[table.necessary].nunique()
    assert numbers["chosen_inputs"] == table.input[table.chosen].nunique()
    assert numbers["enough_inputs"] == len(set(result.enough().input))


def test_mlflow_evaluates(question, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    if "butfor" not in {one.name for one in entry_points(group="mlflow.model_evaluator")}:
        pytest.skip("this installation is older than the entry point: pip install -e .")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    model, X, healthy = question
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    try:
        with mlflow.start_run() as run:
            found = mlflow.models.evaluate(
                model.predict,
                X.assign(truth=1),
                targets="truth",
                model_type="classifier",
                evaluators="butfor",
                evaluator_config={"reference": healthy.assign(truth=0), "rows": 25, "metric_prefix": "val_"},
            )
        logged = mlflow.get_run(run.info.run_id)
        assert logged.data.metrics == found.metrics
        assert found.metrics["val_butfor/inputs"] == 25
        assert found.metrics["val_butfor/chosen"] > 0
        folder = Path(mlflow.artifacts.download_artifacts(f"runs:/{run.info.run_id}/val_butfor"))
        names = {Path(name).name for name in found.artifacts}
        assert set(os.listdir(folder)) == names
        assert names >= {"table.csv", "features.csv", "summary.txt", "promise.txt", "report.html", "features.png"}
        assert "One input in full" in (folder / "report.html").read_text(encoding="utf-8")
        assert "false discovery rate" in found.artifacts["val_butfor/promise.txt"].content
        assert found.artifacts["val_butfor/table.csv"].content.chosen.sum() == found.metrics["val_butfor/chosen"]
        assert found.artifacts["val_butfor/features.png"].content.size[0] > 300
        found.save(tmp_path / "kept")
        with mlflow.start_run():
            skill = mlflow.models.evaluate(
                model.predict,
                healthy.assign(truth=model.predict(healthy))[:100],
                targets="truth",
                model_type="classifier",
                evaluators="butfor",
                evaluator_config={"ask": "skill", "draws": 5},
            )
        assert "butfor/importance.png" in skill.artifacts
        assert skill.metrics["butfor/inputs"] == 100
    finally:
        mlflow.set_tracking_uri(before)


def test_display(question, result, capsys):
    import matplotlib.pyplot as plt

    _, (left, right) = plt.subplots(1, 2)
    display = ExplanationDisplay.from_result(result, ax=left)
    assert (display.kind, display.ax_, display.figure_) == ("features", left, left.figure)
    display.set_style(most=1)
    assert display.plot(kind="beeswarm", ax=right) is right.figure
    assert len(right.get_yticklabels()) == 1
    display.set_style(policy="override")
    assert len(display.plot(kind="beeswarm").axes[0].get_yticklabels()) > 1
    assert display.frame() is result.features
    assert display.frame(by="input") is result.table
    display.help()
    assert "frame(by=)" in capsys.readouterr().out
    assert repr(display) == f"<butfor.ExplanationDisplay of {result!r}>"
    with pytest.raises(InputError, match="kind must be one of 'bar', "):
        display.plot(kind="pie")
    one = butfor.ExplanationDisplay.from_estimator(
        question[0], question[1][:1], reference=question[2], subsets="columns", control=False
    )
    assert one.kind == "bar"


def test_labels_keep_off_axes_of_another_style(result):
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(9, 4), layout="constrained")
    ExplanationDisplay.from_result(result, ax=ax)
    figure.draw_without_rendering()
    assert max(text.get_window_extent().x1 for text in ax.get_yticklabels()) < ax.get_window_extent().x0


def test_display_is_one_of_skore(result):
    skore = pytest.importorskip("skore", reason="skore is not installed")
    assert isinstance(ExplanationDisplay(result), skore.Display)
