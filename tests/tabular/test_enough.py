"""What is enough for a decision: small references, clusters, inputs that fail, rows that no model takes."""

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.tabular import enough


def one_column(rows):
    """Two classes by the first column alone."""
    yes = 1 / (1 + np.exp(-8 * (np.asarray(rows, float)[:, 0] - 1)))
    return np.stack([1 - yes, yes], axis=1)


def explain(model, rows, reference, **more):
    names = [f"c{j}" for j in range(rows.shape[1])]
    known = pd.DataFrame(reference, columns=names)
    return butfor.explain(model, pd.DataFrame(rows, columns=names), known, seed=1, **more)


def test_the_one_column_that_is_read_is_enough():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(12, 4))
    rows[:, 0] = 2.5
    result = explain(one_column, rows, rng.normal(size=(300, 4)))
    sets = result.enough()
    assert len(sets) == 12
    assert sets["stay_low"].min() > 0.9
    assert {tuple(one) for one in sets["columns"]} == {("c0",)}


@pytest.mark.parametrize("count", [6, 12, 30])
def test_a_reference_of_a_few_rows(count):
    rng = np.random.default_rng(2)
    result = explain(one_column, rng.normal(1, 1, size=(5, 3)), rng.normal(size=(count, 3)))
    assert result.sets is None or set(result.enough()["input"]) <= set(result.input_names)


def test_inputs_of_one_cluster_never_tell_of_each_other(monkeypatch):
    """A foil without the decision: inputs are learned from too, but never the own copies of an input."""
    halves = []
    real = enough._halves

    def seen(sampler, inputs, clusters, asked, seed):
        made = real(sampler, inputs, clusters, asked, seed)
        for one, mine in made:
            halves.append((set(clusters[mine].tolist()) & set(clusters[asked & ~mine].tolist()), one))
        return made

    monkeypatch.setattr(enough, "_halves", seen)
    rng = np.random.default_rng(3)
    people = np.repeat(rng.normal(3, 1, size=(60, 3)), 2, axis=0)
    result = explain(
        one_column, people, rng.normal(-2, 1, size=(200, 3)), groups=np.repeat(np.arange(60), 2), subsets="columns"
    )
    assert result.sets is not None
    assert len(halves) == 2
    for shared, sampler in halves:
        assert not shared
        assert sampler.reference.clusters is not None
        assert len(sampler.reference.values) == 200 + 60


def test_inputs_that_fail_have_no_sets():
    rng = np.random.default_rng(4)
    rows = rng.normal(2, 0.3, size=(10, 3))
    rows[3, 2] = 99

    def failing(given):
        if (np.asarray(given)[:, 2] > 50).any():
            raise ValueError("no such value")
        return one_column(given)

    result = explain(failing, rows, rng.normal(size=(200, 3)), on_error="skip")
    assert result.sets is not None
    told = set(result.enough()["input"])
    assert result.input_names[3] not in told
    assert len(told) >= 8


def test_rows_of_the_search_that_the_model_refuses_do_not_end_the_run():
    """Against a foil rows are shifted along straight lines, where a model need not take them."""
    rng = np.random.default_rng(5)
    reference = np.abs(rng.normal(1, 0.3, size=(200, 3)))
    reference[:, 1] = reference[:, 0] * 3
    reference[:, 2] = rng.integers(0, 4, size=200) + (reference[:, 0] > 1)
    rows = np.array([[4.0, 0.5, 1.0], [5.0, 0.4, 1.0], [6.0, 0.2, 1.0]])
    refused = []

    def strict(given):
        values = np.asarray(given, float)
        known = np.isin(values[:, 2], np.arange(6))
        if not known.all():
            refused.append(len(values))
            raise ValueError("a value that nobody has")
        high = 1 / (1 + np.exp(-4 * (values[:, 0] - 3)))
        return np.stack([1 - high, high], axis=1)

    result = explain(strict, rows, reference, subsets="columns")
    assert refused
    assert result.sets is not None
