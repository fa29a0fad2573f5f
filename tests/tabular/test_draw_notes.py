"""The quick look of a run at its own sampler: quiet where it may be right, a sentence where it can hardly be."""

from dataclasses import replace

import numpy as np
import pytest

from butfor.evaluation.hypotheses import table_hypotheses
from butfor.evaluation.items import TableItems
from butfor.results.notes import nearly_all
from butfor.tabular import auto, empirical, from_values, gaussian
from butfor.tabular.explain import draw_notes, predictable
from butfor.tabular.splice import TableSampler
from butfor.tabular.table import as_table
from butfor.types import Subset


def notes(inputs, sampler, controlled=False):
    """Codes and subsets of the notes of a run on these inputs."""
    subsets = [Subset(f"x{j}", np.array([j])) for j in range(inputs.shape[1])]
    reference = sampler.reference if isinstance(sampler, TableSampler) else None
    hypotheses = table_hypotheses(TableItems(inputs.copy()), range(len(inputs)), subsets, sampler, 0)
    made = draw_notes(hypotheses, None if reference is None else reference.values, controlled)
    assert all(str(note) for note in made)
    return {note.code: note.values["subsets"] for note in made}


def correlated(count, seed):
    source = np.random.default_rng(seed)
    return source.normal(size=(count, 1)) + 0.4 * source.normal(size=(count, 3))


def noise(scale):
    return from_values(lambda inputs, subset, draws, rng: scale * rng.normal(size=(len(inputs) * draws, 1)))


@pytest.mark.parametrize("seed", range(5))
def test_quiet_on_a_right_sampler_and_on_inputs_with_a_signal(seed):
    sampler = gaussian(correlated(1000, seed))
    inputs = correlated(200, 100 + seed)
    assert notes(inputs, sampler) == {}
    inputs[:, 1] += 3  # that is what a run is to find
    assert notes(inputs, sampler) == {}
    assert notes(inputs[:10], sampler) == {}


def test_says_that_correlation_is_ignored():
    assert notes(correlated(200, 1), empirical(correlated(1000, 0))) == {"draws-independent": ["x0", "x1", "x2"]}


def test_says_that_nothing_changes():
    same = from_values(lambda inputs, subset, draws, rng: np.repeat(inputs[:, subset.index], draws, axis=0))
    assert "draws-repeat" in notes(correlated(30, 1), same)


def test_says_that_flags_get_fractions():
    source = np.random.default_rng(0)
    flags = source.integers(2, size=(300, 3)).astype(float)
    assert list(notes(flags[:100], noise(0.5))) == ["draws-fractions"]
    assert notes(flags[:100], gaussian(flags[100:])) == {}  # it rounds
    assert notes(flags[:100], empirical(flags[100:])) == {}


def test_fractions_are_no_fault_where_the_reference_has_them():
    source = np.random.default_rng(0)
    grades, whole = source.normal(3, 1, size=(300, 3)), source.integers(2, size=(100, 3)).astype(float)
    coded = as_table(source.integers(2, size=(300, 3)).astype(float), "reference")
    sampler = TableSampler(noise(0.5), "own", coded)
    assert "draws-fractions" in notes(whole, sampler)
    assert "draws-fractions" not in notes(whole, replace(sampler, reference=as_table(grades, "reference")))
    default = auto(np.column_stack([grades[:, :2], coded.values[:, 0]]))
    assert "draws-fractions" not in notes(whole, default)


def test_says_that_draws_are_too_narrow_or_too_wide():
    inputs = np.random.default_rng(0).normal(size=(200, 4))
    assert notes(inputs, noise(0.3)) == {"draws-narrow": ["x0", "x1", "x2", "x3"]}
    assert notes(inputs, noise(3.0)) == {"draws-wide": ["x0", "x1", "x2", "x3"]}
    assert notes(inputs, noise(0.3), controlled=True) == {}  # then the control says it
    assert notes(inputs, noise(1.0)) == {}


def test_says_that_nearly_all_was_chosen():
    assert nearly_all(np.arange(100) < 50) == []
    assert nearly_all(np.arange(100) < 80)[0].values == {"share": 0.8}


@pytest.mark.parametrize("rho", [0.0, 0.4, 0.6, 0.9, 1.0])
def test_no_column_that_the_others_tell_is_passed_over(rho):
    rng = np.random.default_rng(0)
    common = rng.normal(size=(200, 1))
    inputs = rho * common + np.sqrt(1 - rho**2) * rng.normal(size=(200, 4))  # all alike where rho is 1
    told = predictable(inputs)
    for j in range(4):
        rest = np.column_stack([np.ones(200), np.delete(inputs, j, axis=1)])
        fitted = rest @ np.linalg.lstsq(rest, inputs[:, j], rcond=None)[0]
        assert told[j] or np.corrcoef(fitted, inputs[:, j])[0, 1] <= 0.7
    assert told.any() == (rho >= 0.9)
    assert predictable(np.ones((200, 3))).all()  # without variance: to be looked at
    assert not predictable(inputs[:20]).any()  # too few to tell
