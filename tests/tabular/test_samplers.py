"""What every sampler of tables must do, wrappers and a user's own among them. A new sampler is one line in SAMPLERS."""

import importlib.util
import pickle
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.evaluation.hypotheses import Job, draw, table_hypotheses
from butfor.evaluation.samplers import SamplerInfo, info_of
from butfor.tabular.splice import table_sampler
from butfor.tabular.table import as_table, items_of
from butfor.types import Subset


def example(name):
    """A module of the examples, under its own name: what is in it can be pickled."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[2] / "examples" / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def own_values(inputs, subset, draws, rng):
    """A user's function that returns the new columns only."""
    return rng.normal(size=(len(inputs) * draws, len(subset.index)))


def own_rows(inputs, subset, draws, rng):
    """A user's sampler that returns whole rows, of the type it was given."""
    rows = np.repeat(np.asarray(inputs), draws, axis=0)
    rows[:, subset.index] = rng.normal(size=(len(rows), len(subset.index)))
    return pd.DataFrame(rows, columns=inputs.columns) if isinstance(inputs, pd.DataFrame) else rows


class OwnRows:
    """A user's sampler that happens to hold something called `values`, and lists six numbers for a single column."""

    def __init__(self):
        self.values = np.arange(-2.5, 3)

    def __repr__(self):
        return "OwnRows()"

    def __call__(self, inputs, subset, draws, rng):
        rows = np.repeat(np.asarray(inputs), draws, axis=0)
        rows[:, subset.index] = rng.choice(self.values, size=(len(rows), len(subset.index)))
        return pd.DataFrame(rows, columns=inputs.columns) if isinstance(inputs, pd.DataFrame) else rows

    def lists(self, subset):
        return len(subset.index) == 1

    def support(self, inputs, subset):
        return np.tile(self.values[:, None], (len(inputs), 1, 1)), np.full((len(inputs), 6), 1 / 6)


def even(rows):
    """A score that lets most rows through, whatever their units."""
    sizes = np.abs(np.asarray(rows, float))
    return -sizes.max(axis=1) / sizes.mean(axis=1)


def checked(sampler):
    """A user's sampler as a run binds it."""
    return table_sampler(sampler, as_table(INPUTS, "data"))


SAMPLERS = {
    "gaussian": butfor.tabular.gaussian,
    "copula": butfor.tabular.copula,
    "copula extend": lambda reference: butfor.tabular.copula(reference, beyond="extend"),
    "empirical": butfor.tabular.empirical,
    "forest": lambda reference: butfor.tabular.forest(reference, trees=10),
    "neighbours": butfor.tabular.neighbours,
    "residual": butfor.tabular.residual,
    "auto": butfor.tabular.auto,
    "Uniform": example("own_sampler").uniform,
    "plausible": lambda reference: butfor.plausible(butfor.tabular.gaussian(reference), even, -3.0),
    "plausible auto": lambda reference: butfor.plausible(butfor.tabular.auto(reference), even, -3.0),
    "plausible callable": lambda reference: butfor.plausible(own_rows, even, -3.0),
    "from_values": lambda reference: butfor.tabular.from_values(own_values),
    "callable": lambda reference: own_rows,
    "checked": lambda reference: checked(own_rows),
    "checked list": lambda reference: checked(OwnRows()),
}
REPR = {"auto": "residual", "checked": "own_rows", "checked list": "OwnRows()"}  # others begin with their name
OURS = [name for name in SAMPLERS if name != "callable"]  # a user's own function may do as it likes with these
OWN = [
    "from_values",
    "plausible callable",
    "callable",
    "checked",
    "checked list",
]  # of a user's, not fitted on anything
FITTED = [name for name in SAMPLERS if name not in OWN]

RNG = np.random.default_rng(0)
MIX = RNG.normal(size=(4, 4))
REFERENCE = RNG.normal(size=(80, 4)) @ MIX
INPUTS = RNG.normal(size=(6, 4)) @ MIX + 1
NAMES = ["a", "b", "c", "d"]
SUBSETS = [Subset("one", np.array([2])), Subset("two", np.array([3, 0])), Subset("all", np.array([1, 0, 3, 2]))]


@pytest.fixture(params=SAMPLERS)
def sampler(request):
    return SAMPLERS[request.param](REFERENCE)


@pytest.fixture(params=SUBSETS, ids=lambda subset: subset.name)
def subset(request):
    return request.param


def rng():
    return np.random.default_rng(5)


@pytest.mark.parametrize("draws", [1, 2, 7])
@pytest.mark.parametrize("count", [1, 2, 6])
def test_count_order_and_complement(sampler, subset, count, draws):
    rows = np.asarray(sampler(INPUTS[:count], subset, draws, rng()))
    assert rows.shape == (count * draws, 4)
    rest = np.setdiff1d(np.arange(4), subset.index)
    np.testing.assert_array_equal(rows[:, rest], np.repeat(INPUTS[:count], draws, axis=0)[:, rest])  # input-major
    if draws == 7:
        assert len(np.unique(rows[:draws, subset.index], axis=0)) > 3  # draws, not copies


@pytest.mark.parametrize("draws", [0, 3])
@pytest.mark.parametrize("count", [0, 2])
def test_none_of_something_is_nothing(sampler, subset, count, draws):
    # Was (splice.py, splice): as_table refuses an empty table, so no inputs give an error where they should give none.
    rows = np.asarray(sampler(INPUTS[:count], subset, draws, rng()))
    assert rows.shape == (count * draws, 4)


def test_inputs_are_not_changed(sampler, subset):
    inputs = INPUTS.copy()
    sampler(inputs, subset, 3, rng())
    assert (inputs == INPUTS).all()


def test_what_comes_back_is_not_the_input(sampler, subset):
    inputs = INPUTS.copy()
    rows = sampler(inputs, subset, 1, rng())
    rows[:] = 0
    assert (inputs == INPUTS).all()


def test_the_same_rng_gives_the_same_draws_and_another_one_others(sampler, subset):
    one, two = (sampler(INPUTS, subset, 4, rng()) for _ in range(2))
    assert (one == two).all()
    other = sampler(INPUTS, subset, 4, np.random.default_rng(6))
    assert (one[:, subset.index] != other[:, subset.index]).any()


def test_global_state_is_not_used(sampler, subset):
    np.random.seed(1)  # noqa: NPY002
    one = sampler(INPUTS, subset, 4, rng())
    np.random.seed(2)  # noqa: NPY002
    assert (one == sampler(INPUTS, subset, 4, rng())).all()


def test_inputs_draw_by_themselves(sampler, subset):
    """The draws of the first inputs do not depend on whether more inputs follow."""
    few, many = sampler(INPUTS[:2], subset, 3, rng()), sampler(INPUTS, subset, 3, rng())
    np.testing.assert_array_equal(few, many[:6])


@pytest.mark.parametrize("size", [1, 4])
def test_inputs_draw_alike_in_any_company(sampler, subset, size):
    """Asked for one by one or four at a time, in any order: what the conditional rests on is the input alone."""
    if len(subset.index) == 4:
        return  # nothing is given
    moved = INPUTS[::-1].copy()
    for start in range(0, 6, size):
        part, whole = moved[start : start + size], moved[start:]
        np.testing.assert_array_equal(
            sampler(part, subset, 3, rng()), sampler(whole, subset, 3, rng())[: 3 * len(part)]
        )


def test_draws_do_not_depend_on_what_was_asked_before(sampler, subset):
    fresh = sampler(INPUTS, subset, 3, rng())
    sampler(INPUTS[3:], SUBSETS[0], 5, rng())
    sampler(INPUTS[:2] + 1, subset, 5, rng())
    np.testing.assert_array_equal(sampler(INPUTS, subset, 3, rng()), fresh)


@pytest.mark.parametrize("used", [False, True], ids=["before use", "after use"])
@pytest.mark.parametrize("name", SAMPLERS)
def test_pickle(name, subset, used):
    sampler = SAMPLERS[name](REFERENCE)
    if used:
        sampler(INPUTS, subset, 2, rng())
    again = pickle.loads(pickle.dumps(sampler))
    assert (again(INPUTS, subset, 3, rng()) == sampler(INPUTS, subset, 3, rng())).all()


@pytest.mark.parametrize("name", ["copula", "neighbours", "residual"])
def test_what_is_remembered_is_not_sent_along(name, subset):
    sampler = SAMPLERS[name](REFERENCE)
    sampler(INPUTS[:1], subset, 1, rng())
    before = len(pickle.dumps(sampler))
    sampler(np.repeat(INPUTS, 500, axis=0) + np.arange(3000)[:, None], subset, 1, rng())
    assert len(pickle.dumps(sampler)) < before + 100


@pytest.mark.parametrize("name", OURS)
def test_repr_is_short_and_says_what_it_is(name):
    said = repr(SAMPLERS[name](REFERENCE))
    assert len(said) < 120
    assert "\n" not in said
    # Was (splice.py, FromValues): the dataclass's own repr shows "FromValues(values=<function ... at 0x7f...>)".
    assert said.startswith(REPR.get(name, name.split()[0]))  # auto shows what it chose
    assert "0x" not in said


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_frame_in_gives_a_frame_out(name, subset):
    frame, reference = pd.DataFrame(INPUTS, columns=NAMES), pd.DataFrame(REFERENCE, columns=NAMES)
    shown = SAMPLERS[name](reference)(frame, subset, 2, rng())
    assert isinstance(shown, pd.DataFrame)
    assert list(shown.columns) == NAMES
    np.testing.assert_array_equal(shown.to_numpy(), SAMPLERS[name](REFERENCE)(INPUTS, subset, 2, rng()))
    pd.testing.assert_frame_equal(frame, pd.DataFrame(INPUTS, columns=NAMES))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_the_type_of_numbers_in_a_run(name_of_sampler, dtype):
    """Through the core: float32 stays float32, everything else is float64."""
    values = np.round(INPUTS * 10).astype(dtype)
    table = as_table(values, "data")
    fitted = table_sampler(SAMPLERS[name_of_sampler](REFERENCE * 10), table)
    hypotheses = table_hypotheses(items_of(table), table.index, SUBSETS[:1], fitted, 0)
    assert draw(hypotheses, Job(hypotheses.blocks[0], 3, 0)).values.dtype == (
        np.float32 if dtype == np.float32 else np.float64
    )


@pytest.fixture(params=SAMPLERS)
def name_of_sampler(request):
    return request.param


def test_a_run_gives_the_same_as_the_sampler_itself(name_of_sampler):
    """What the model saw, drawn again, is what the sampler returns for the run's stream."""
    result = butfor.explain(
        lambda rows: rows[:, 2],
        INPUTS,
        SAMPLERS[name_of_sampler](REFERENCE),
        test="irt",
        draws=5,
        alternative="greater",
    )
    hypotheses = result.hypotheses
    block = next(block for block in hypotheses.blocks if block.subset.name == "x2")
    drawn = draw(hypotheses, Job(block, 5, 0)).values.reshape(6, 6)[:, 1:]
    for i in range(6):
        shown = result.counterfactuals(i, "x2", n=5)
        np.testing.assert_array_equal(shown[:, 2], drawn[i])
        if name_of_sampler != "checked list":  # which is exact
            assert result.table.p[result.row(i, "x2")] == (1 + (drawn[i] >= INPUTS[i, 2]).sum()) / 6


@pytest.mark.parametrize("name", [name for name in FITTED if not name.startswith("plausible")])
def test_columns_go_by_name_in_a_run(name):
    """A frame, or a reference, whose columns stand in another order gives the same evidence."""
    reference = pd.DataFrame(REFERENCE * [1, 10, 100, 1000], columns=NAMES)
    frame = pd.DataFrame(INPUTS * [1, 10, 100, 1000], columns=NAMES)
    settings = {"test": "irt", "draws": 50, "alternative": "greater"}

    def model(rows):
        return rows["a"] * 1000 + rows["b"] * 100 + rows["c"] * 10 + rows["d"]

    one = butfor.explain(model, frame, SAMPLERS[name](reference), **settings).table
    other = butfor.explain(model, frame[["d", "b", "a", "c"]], SAMPLERS[name](reference), **settings).table
    turned = butfor.explain(model, frame, SAMPLERS[name](reference[["c", "a", "d", "b"]]), **settings).table
    for table in (other, turned):
        merged = one.merge(table, on=["input", "subset"])
        assert len(merged) == len(one) >= 24
        assert (merged.p_x == merged.p_y).all()


@pytest.mark.parametrize("name", FITTED)
def test_an_array_and_a_frame_give_the_same_result(name):
    """Named as an array's columns are; names decide over streams, so other names give other draws of the same law."""
    names = ["x0", "x1", "x2", "x3"]
    settings = {"test": "irt", "draws": 50, "alternative": "greater", "alpha": 0.5}
    array = butfor.explain(first_two, INPUTS, SAMPLERS[name](REFERENCE), **settings)
    frame, reference = (pd.DataFrame(values, columns=names) for values in (INPUTS, REFERENCE))
    frame.index = list("uvwxyz")
    framed = butfor.explain(first_two, frame, SAMPLERS[name](reference), **settings)
    assert (array.table.p == framed.table.p).all()
    assert list(framed.table.input) == list(np.repeat(frame.index, len(framed.subset_names)))


def first_two(rows):
    return np.asarray(rows)[:, 0] + np.asarray(rows)[:, 1]


@pytest.mark.parametrize("name", [name for name in FITTED if not name.startswith("plausible")])
def test_columns_go_by_name_when_the_sampler_is_called_by_hand(name):
    # Was (splice.py, splice): called directly, a sampler fitted on a named frame takes the columns of another frame by
    # position, whatever they are called: reordered or misnamed columns are redrawn from the wrong law, silently.
    reference = pd.DataFrame(REFERENCE + np.array([0, 100, 0, 0]), columns=NAMES)
    frame = pd.DataFrame(INPUTS, columns=NAMES)[["d", "a", "b", "c"]]
    shown = SAMPLERS[name](reference)(frame, Subset("a", np.array([1])), 50, rng())
    assert list(shown.columns) == ["d", "a", "b", "c"]
    assert abs(shown["a"].mean()) < 99  # the column at place 1 of the reference is b, around 100
    with pytest.raises(butfor.InputError, match="other columns"):
        SAMPLERS[name](reference)(frame.rename(columns={"a": "z"}), Subset("z", np.array([1])), 1, rng())


# What a run knows of a sampler


FACTS = [field.name for field in fields(SamplerInfo)]


class Carries:
    """A user's sampler of whole rows, or a function of values, that carries every fact there is."""

    def __init__(self):
        flags = ("deterministic", "ignores_dependence", "takes_missing", "changes_subset_only", "whole")
        numbers = {"reference_rows": 99, "listed": 7, "floor": lambda subset: len(subset.index) / 10}
        words = {"identity": "ours, version 2", "kinds": {"x0": "number"}, "tokenizer": object()}
        vars(self).update(dict.fromkeys(flags, True) | numbers | words)

    def __call__(self, inputs, subset, draws, rng):
        return own_rows(inputs, subset, draws, rng)


WRAPPERS = {  # and the facts that are its own
    "from_values": (butfor.tabular.from_values, {"identity"}),
    "from_values of a reference": (
        lambda inner: butfor.tabular.from_values(inner, REFERENCE),
        {"identity", "kinds", "reference_rows"},
    ),
    "checked": (checked, set()),
    "plausible": (lambda inner: butfor.plausible(inner, even, -3.0), {"identity", "listed"}),
    "plausible columns": (
        lambda inner: butfor.plausible(butfor.tabular.from_values(inner), even, -3.0),
        {"identity", "listed"},
    ),
    "checked plausible": (lambda inner: checked(butfor.plausible(inner, even, -3.0)), {"identity", "listed"}),
}


@pytest.mark.parametrize("name", WRAPPERS)
@pytest.mark.parametrize("fact", FACTS)
def test_a_wrapper_keeps_every_fact(name, fact):
    wrap, own = WRAPPERS[name]
    inner = Carries()
    before, after = info_of(inner), info_of(wrap(inner))
    if fact == "floor":
        assert (
            [after.floor(subset) for subset in SUBSETS]
            == [before.floor(subset) for subset in SUBSETS]
            == [0.1, 0.2, 0.4]
        )
    elif fact not in own:
        assert getattr(after, fact) == getattr(before, fact)
    else:
        assert getattr(after, fact) != getattr(before, fact)


@pytest.mark.parametrize("name", FITTED)
def test_facts_of_what_was_fitted(name):
    info = info_of(SAMPLERS[name](REFERENCE))
    assert info.reference_rows == 80
    assert info.kinds is None
    framed = info_of(SAMPLERS[name](pd.DataFrame(REFERENCE, columns=NAMES)))
    assert list(framed.kinds) == NAMES
    assert not info.deterministic
    assert info.ignores_dependence == (name in ("empirical", "Uniform"))
    assert info.takes_missing == (name.split()[-1] in ("empirical", "forest", "neighbours", "residual", "auto"))


@pytest.mark.parametrize("name", FITTED)
def test_facts_follow_the_order_of_the_columns(name):
    reference, order = pd.DataFrame(REFERENCE, columns=NAMES), ["c", "a", "d", "b"]
    one = SAMPLERS[name](reference)
    other = table_sampler(one, as_table(reference[order], "data"))
    for i, column in enumerate(NAMES):
        here, there = Subset(column, np.array([i])), Subset(column, np.array([order.index(column)]))
        assert info_of(one).floor(here) == info_of(other).floor(there)


def test_lists_follow_the_order_of_the_columns():
    reference, order = pd.DataFrame(REFERENCE, columns=NAMES), ["c", "a", "d", "b"]
    reference["a"] = reference["a"].round()
    one = butfor.tabular.empirical(reference)
    other = table_sampler(one, as_table(reference[order], "data"))
    here, there = Subset("a", np.array([0])), Subset("a", np.array([1]))
    assert one.lists(here)
    assert other.lists(there)
    assert other.repeats(there)
    assert not other.lists(Subset("c", np.array([0])))
    for part, same in zip(
        one.support(reference.to_numpy(), here), other.support(reference[order].to_numpy(), there), strict=True
    ):
        np.testing.assert_array_equal(part, same)


def test_something_else_that_is_called_values_does_not_matter():
    """A user's sampler may hold an array of that name: it is no sampler of columns by that."""
    own = OwnRows()
    settings = {"test": "irt", "draws": 19, "alternative": "greater"}
    result = butfor.explain(lambda rows: rows[:, 0], INPUTS, own, **settings)
    assert result.evidence.draws.max() == 6  # listed, each value once
    assert butfor.explain(lambda rows: rows[:, 0], INPUTS, butfor.plausible(own, even, -4.0), **settings).rows > 0
    assert len(butfor.check_sampler(own, REFERENCE, subsets=[0], draws=19).table) == 1


# Errors


def run(sampler, inputs=INPUTS, **settings):
    return butfor.explain(
        lambda rows: np.asarray(rows)[:, 0] * 1.0, inputs, sampler, **{"test": "irt", "draws": 9, **settings}
    )


def touches(rows, subset):
    rows = rows.copy()
    rows[0, 3 if 3 not in subset.index else 0] += 1e-9
    return rows


BROKEN = {
    "touches the complement": (lambda rows, s: touches(rows, s), "changed column 'x3', which is not in subset 'x0'"),
    "wrong count": (lambda rows, s: rows[:-1], r"subset 'x0', expected \(\d+, 4\)"),
    "too many": (lambda rows, s: np.concatenate([rows, rows]), r"subset 'x0', expected \(\d+, 4\)"),
    "only the columns": (lambda rows, s: rows[:, s.index], r"returned shape \(\d+, 1\)"),
    "draw-major": (lambda rows, s: rows.reshape(6, -1, 4).transpose(1, 0, 2).reshape(-1, 4), "changed column"),
    "nothing": (lambda rows, s: None, r"returned shape \(\)"),
    "nan": (lambda rows, s: np.where(np.arange(4) == s.index[0], np.nan, rows), "drew NaN or infinity for subset 'x0'"),
    "text": (lambda rows, s: rows.astype(str), "sampler"),
    "ragged": (lambda rows, s: [[1.0], [1.0, 2.0]], "sampler"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_sampler_gets_one_clear_sentence(fault):
    # Was wrong once (splice.py, Checked.values): "text" and "ragged" end in errors of NumPy's own.
    breaks, message = BROKEN[fault]
    with pytest.raises(butfor.ModelError, match=message) as caught:
        run(lambda inputs, subset, draws, rng: breaks(own_rows(inputs, subset, draws, rng), subset))
    assert "\n" not in str(caught.value)


BROKEN_VALUES = {
    "raises": (lambda values: 1 / 0, "raised ZeroDivisionError on subset 'x0'"),
    "wrong count": (lambda values: values[:-1], "counterfactuals for subset 'x0', expected"),
    "too wide": (lambda values: np.repeat(values, 2, axis=1), "subset 'x0'"),
    "text": (lambda values: values.astype(str), "subset 'x0'"),
    "nan": (lambda values: values * np.nan, "drew NaN or infinity for subset 'x0'"),
    "nothing": (lambda values: None, "subset 'x0'"),
}


@pytest.mark.parametrize("fault", BROKEN_VALUES)
def test_a_broken_function_of_values_gets_one_clear_sentence(fault):
    # Was (draws.py, _columns): an error inside the function, values that are too wide, text or None end in tracebacks.
    breaks, message = BROKEN_VALUES[fault]
    sampler = butfor.tabular.from_values(lambda *asked: breaks(own_values(*asked)))
    with pytest.raises(butfor.ModelError, match=message):
        run(sampler)


def test_a_sampler_that_raises_is_named():
    def sampler(inputs, subset, draws, rng):
        raise RuntimeError("no GPU")

    with pytest.raises(butfor.ModelError, match="the sampler raised RuntimeError on subset 'x0': no GPU"):
        run(sampler)


@pytest.mark.parametrize("kind", ["rows", "values"])
def test_a_sampler_that_writes_into_its_inputs_never_gives_a_wrong_result(kind):
    # Was (draws.py, draw): from_values gets a view of the run's own inputs; a function that writes into it changes the
    # observed rows, silently, and every later answer. Hand out a copy, or make the table's values read-only.
    def values(inputs, subset, draws, rng):
        inputs[:] = 0
        return own_values(inputs, subset, draws, rng)

    def rows(inputs, subset, draws, rng):
        whole = own_rows(inputs, subset, draws, rng)
        inputs[:] = 0
        return whole

    writes, clean = (
        (butfor.tabular.from_values(values), butfor.tabular.from_values(own_values))
        if kind == "values"
        else (rows, own_rows)
    )
    expected = run(clean).table
    try:
        pd.testing.assert_frame_equal(run(writes).table, expected)
    except butfor.ModelError as error:
        assert "read-only" in str(error)  # noqa: PT017


@pytest.mark.parametrize("thing", [3, "gaussian", pd.Series([1.0, 2.0])])
def test_what_is_no_sampler_is_refused(thing):
    with pytest.raises(butfor.InputError, match="sampler must be a sampler, a callable or reference data"):
        run(thing)
    with pytest.raises(butfor.InputError, match="give reference data to draw from, or a sampler"):
        run(None)


def test_reference_data_stand_for_the_automatic_sampler():
    one, other = run(REFERENCE).table, run(butfor.tabular.auto(REFERENCE)).table
    pd.testing.assert_frame_equal(one, other)
    pd.testing.assert_frame_equal(run(REFERENCE.tolist()).table, other)
