"""Mistakes in the arguments of `explain`: one sentence, of one type, that names the argument."""

import inspect

import numpy as np
import pytest

import butfor

INPUTS = np.random.default_rng(0).normal(size=(5, 3))
REFERENCE = np.random.default_rng(1).normal(size=(30, 3))
GAUSSIAN = butfor.tabular.gaussian(REFERENCE)


def one(rows):
    return rows[:, 0]


def three(rows):
    return rows


class Classifier:
    classes_ = np.array(["benign", "malignant"])

    def predict_proba(self, rows):
        share = 1 / (1 + np.exp(-rows[:, 0]))
        return np.stack([1 - share, share], axis=1)


def run(model=one, inputs=INPUTS, sampler=REFERENCE, reference=None, **settings):
    given = {"sampler": sampler, "reference": reference} if reference is not None else {"reference": sampler}
    return butfor.explain(model, inputs, **given, **{"test": "irt", "draws": 9, **settings})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 0}, "alpha must lie strictly between 0 and 1, got 0;"),
        ({"alpha": 1.5}, "alpha must lie strictly between 0 and 1, got 1.5"),
        ({"alpha": 1}, "alpha must lie"),
        ({"alpha": float("nan")}, "alpha must lie"),
        ({"alpha": "0.1"}, "alpha must lie"),
        ({"alpha": None}, "alpha must lie"),
        ({"alpha": True}, "alpha must lie"),
        ({"draws": 0}, "draws must be a whole number of at least 1, got 0"),
        ({"draws": -3}, "draws must be a whole number"),
        ({"draws": 10.5}, "draws must be a whole number"),
        ({"draws": "10"}, "draws must be a whole number"),
        ({"draws": True}, "draws must be a whole number"),
        ({"test": "osft", "draws": 5}, "test='osft' takes one draw, got draws=5"),
        ({"test": "t-test"}, "test must be one of .*'irt'.*, got 't-test'"),
        ({"alternative": "up"}, "alternative must be one of .*, got 'up'"),
        ({"family": "all"}, "family must be one of 'run', 'input', got 'all'"),
        ({"link": "probit"}, "link must be one of"),
        ({"rule": "knockoff+"}, "rule='knockoff\\+' has no guarantee with test='irt'; use"),
        ({"rule": "storey"}, "rule='storey' has no guarantee"),
        ({"rule": "BH"}, "there is no rule 'BH'; did you mean 'bh'"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
        ({"seed": 0.5}, "seed must be a whole number"),
        ({"batch_rows": 0}, "batch_rows must be a whole number of at least 1"),
        ({"test": butfor.irt(center=4), "alternative": "greater"}, "center is for two-sided"),
        ({"test": butfor.irt(99), "draws": 9}, "draws=9 but the test has draws=99; give it once"),
        ({"effects": "some"}, "effects must be one of None, 'all', 'chosen', got 'some'"),
        ({"sampler": GAUSSIAN, "reference": REFERENCE}, "got a sampler and a reference; give one"),
        ({"test": butfor.irt}, "test is a function of butfor; call it"),
        ({"rng": np.random.RandomState(0)}, "rng must be a NumPy Generator, a SeedSequence or a whole number, got"),
        ({"seed": 3, "rng": np.random.default_rng(0)}, "got seed=3 and rng=.*; give one of them"),
        ({"subsets": ["weight"]}, "unknown column 'weight'"),
        ({"target": 1}, "unknown target 1; the model has outputs 0 to 0"),
        ({"target": "predicted"}, "needs a model with several outputs"),
        ({"target": "truth"}, "several outputs|needs the true labels"),
        ({"y": [0, 1, 0, 1, 0]}, "y is used with target='truth' only"),
        ({"model": three, "target": 3}, "unknown target 3; the model has outputs 0 to 2"),
        ({"model": three, "target": -1}, "unknown target -1"),
        ({"model": three, "target": "cat"}, "unknown target 'cat'"),
        ({"model": three, "target": "output"}, "the model has 3 outputs; choose one"),
        ({"model": three, "target": "truth"}, "needs the true labels"),
        ({"model": three, "target": "truth", "y": [0, 0]}, "y has 2 labels for 5 rows"),
        ({"model": three, "target": "truth", "y": [3, 3, 3, 3, 3]}, "unknown target 3"),
        ({"model": three, "target": "truth", "y": [0, 1, 2, 1, 0]}, "only where the reference is of each input's own"),
        # Was wrong once (_explain.py, _truth): len() of a number.
        ({"model": three, "target": "truth", "y": 1}, "y"),
        (
            {"model": Classifier(), "target": "cat"},
            "unknown target 'cat'; the model has labels \\['benign', 'malignant'\\]",
        ),
        ({"model": 3}, "model must be a function or have predict_proba or predict, got int"),
        ({"inputs": []}, "the data"),
        ({"inputs": np.empty((0, 3))}, "the data is empty \\(0 rows, 3 columns\\)"),
        ({"inputs": "data.csv"}, "the data has shape"),
        ({"sampler": None}, "give reference data to draw from, or a sampler"),
        ({"sampler": 3}, "sampler must be"),
    ],
)
def test_a_mistake_gets_one_sentence(settings, message):
    with pytest.raises(butfor.InputError, match=message) as caught:
        run(**settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: butfor.irt(0), "draws must be a whole number of at least 1, got 0"),
        (lambda: butfor.irt(center=0), "center must be a whole number of at least 1"),
        (lambda: butfor.irt(early_stop=True, delta=2), "delta must lie strictly between 0 and 1, got 2"),
        (lambda: butfor.sequential(h=0), "h must be a whole number of at least 1"),
        (lambda: butfor.few_shot(1), "draws must be a whole number of at least 2"),
        (lambda: butfor.few_shot(scale="wide"), "scale must be one of None, 'shrunk', got 'wide'"),
    ],
)
def test_a_mistake_in_a_test_gets_one_sentence(make, message):
    with pytest.raises(butfor.InputError, match=message):
        make()


def test_what_a_function_does_by_default_is_in_its_signature():
    import inspect

    defaults = {
        kind: {name: p.default for name, p in inspect.signature(kind).parameters.items()}
        for kind in (butfor.explain, butfor.image.explain, butfor.text.explain, butfor.multimodal.explain)
    }
    assert [found["effects"] for found in defaults.values()] == ["all", None, "all", None]
    assert [found["alternative"] for found in defaults.values()] == [None, None, "two-sided", None]


def test_a_test_and_its_name_are_the_same():
    by_name, by_object = run(test="irt", draws=19), run(test=butfor.irt(19), draws=None)
    assert (by_name.evidence.values == by_object.evidence.values).all()
    assert run(sampler=None, reference=REFERENCE).table.equals(run().table)


def test_effects_of_all():
    every = run(effects="all", draws=19).table
    assert every.effect.notna().all()
    assert run(effects=None, draws=19).table.effect.isna().all()


def test_truth_of_a_classifier_goes_by_its_labels():
    labels = ["benign", "malignant", "malignant", "benign", "benign"]
    table = run(Classifier(), sampler=GAUSSIAN, target="truth", y=labels).table
    assert table.output.tolist() == [label for label in labels for _ in range(3)]
    table = run(Classifier(), target="malignant").table
    assert set(table.output) == {"malignant"}


def test_labels_that_the_classifier_does_not_know_are_refused():
    # Was (_explain.py, _class_index): a label that is a number but none of the classes is taken for a position, so a
    # wrong y (0 and 1 for classes 1 and 2) is tested on the wrong output without a word. Positions only without labels.
    class Numbered(Classifier):
        classes_ = np.array([1, 2])

    with pytest.raises(butfor.InputError, match="unknown target 0"):
        run(Numbered(), sampler=GAUSSIAN, target="truth", y=[0, 1, 1, 0, 0])


def test_defaults_by_the_number_of_outputs():
    single, several = run(one), run(Classifier())
    assert single.record.target == "output"
    assert single.record.alternative == "two-sided"
    assert several.record.target == "predicted"
    assert several.record.alternative == "greater"
    assert run(Classifier(), target="malignant").record.alternative == "two-sided"


def test_progress_is_told_and_adds_up():
    told = []
    result = run(sampler=GAUSSIAN, progress=told.append, alpha=0.9)
    assert told
    by_stage = {}
    for now in told:
        assert 0 < now.rows <= now.total
        by_stage[now.stage] = now
    assert all(now.rows == now.total for now in by_stage.values())
    assert result.rows >= sum(now.rows for now in by_stage.values())


def test_sklearn_estimators_are_models():
    from sklearn.linear_model import LinearRegression, LogisticRegression

    labels = np.where(REFERENCE[:, 0] > 0, "high", "low")
    classifier = LogisticRegression().fit(REFERENCE, labels)
    table = run(classifier, draws=19).table
    assert set(table.output) <= {"high", "low"}
    regression = LinearRegression().fit(REFERENCE, REFERENCE @ [1.0, 2.0, 0.0])
    np.testing.assert_allclose(
        run(regression, sampler=GAUSSIAN).table.observed, np.repeat(INPUTS @ [1.0, 2.0, 0.0], 3), atol=1e-6
    )


@pytest.mark.parametrize("count", [1, 2])
def test_one_row_and_one_column_are_enough(count):
    result = run(inputs=INPUTS[:count, :1], sampler=REFERENCE[:, :1])
    assert len(result.table) == count


@pytest.mark.parametrize(
    "function",
    [butfor.explain, butfor.image.explain, butfor.text.explain, butfor.multimodal.explain, butfor.global_importance],
    ids=lambda function: function.__module__,
)
def test_every_parameter_of_the_main_calls_has_a_type(function):
    parameters = inspect.signature(function).parameters.values()
    assert not [one.name for one in parameters if one.annotation in ("Any", one.empty)]
