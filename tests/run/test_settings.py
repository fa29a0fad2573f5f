"""Settings: every keyword checked once, one list for all functions, seeds and generators, what has moved."""

import inspect
from dataclasses import FrozenInstanceError, fields

import mypy.api
import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.settings import RUN_NAMES, RunOptions, Settings
from butfor.tabular import from_values

NORMAL = from_values(lambda rows, subset, count, rng: rng.normal(size=(len(rows) * count, len(subset.index))))
ROWS = np.random.default_rng(0).normal([2.0, 0.0, 0.0], 1.0, size=(8, 3))


def run(**settings):
    settings = {"test": "irt", "draws": 39, "alpha": 0.3, **settings}
    return butfor.explain(lambda rows: rows.sum(axis=1), ROWS, NORMAL, **settings)


# Seeds and generators

SOURCES = {
    "seed": lambda: {"seed": 5},
    "numpy seed": lambda: {"seed": np.int64(5)},
    "Generator": lambda: {"rng": np.random.default_rng(5)},
    "legacy Generator": lambda: {"rng": np.random.Generator(np.random.MT19937(5))},
    "SeedSequence": lambda: {"rng": np.random.SeedSequence(5)},
    "spawned": lambda: {"rng": np.random.SeedSequence(5).spawn(2)[1]},
    "a number as rng": lambda: {"rng": 5},
}


@pytest.mark.parametrize("test", ["irt", "sequential", "few-shot", "osft"])
@pytest.mark.parametrize("name", SOURCES)
def test_the_same_source_gives_the_same_result(name, test):
    draws = 39 if test in ("irt", "sequential") else None
    one, two = (run(**SOURCES[name](), test=test, draws=draws) for _ in range(2))
    pd.testing.assert_frame_equal(one.table, two.table, check_exact=True)
    by_seed = run(seed=one.record.seed, test=test, draws=draws)  # what is noted gives it again
    pd.testing.assert_frame_equal(one.table, by_seed.table, check_exact=True)


def test_other_sources_give_other_results():
    seeds = {name: run(**make()).record.seed for name, make in SOURCES.items()}
    assert seeds["seed"] == seeds["numpy seed"] == seeds["a number as rng"] == 5
    assert len(set(seeds.values())) == len(seeds) - 2
    assert all(type(seed) is int for seed in seeds.values())


def test_a_generator_moves_on_and_a_sequence_does_not():
    rng, sequence = np.random.default_rng(5), np.random.SeedSequence(5)
    first, second = (run(rng=rng).record.seed for _ in range(2))
    assert first != second
    assert run(rng=sequence).record.seed == run(rng=sequence).record.seed
    assert sequence.n_children_spawned == 0


def test_a_saved_result_of_a_generator_draws_the_same_again(tmp_path):
    result = run(rng=np.random.SeedSequence(5))
    loaded = butfor.load(result.save(tmp_path / "r.butfor"), NORMAL)
    np.testing.assert_array_equal(loaded.counterfactuals(2, "x1", n=30), result.counterfactuals(2, "x1", n=30))


@pytest.mark.parametrize("seed", [1, None])
def test_both_are_refused(seed):
    with pytest.raises(butfor.InputError, match=r"got seed=.* and rng=.*; give one of them"):
        run(seed=seed, rng=np.random.default_rng(0))


def test_none_of_them_is_seed_zero():
    assert run().record.seed == run(rng=None).record.seed == run(rng=None, seed=0).record.seed == 0


@pytest.mark.parametrize(
    "wrong", [{"rng": "5"}, {"rng": 0.5}, {"rng": -1}, {"rng": np.random.RandomState(0)}, {"rng": True}]
)
def test_what_is_no_generator_is_refused(wrong):
    with pytest.raises(butfor.InputError, match="rng must be"):
        run(**wrong)


# Names


def test_the_new_ways_work():
    assert run(test=butfor.sequential(h=5)).record.h == 5
    assert run(test=butfor.irt(early_stop=True, delta=0.1)).record.delta == 0.1
    assert run(test=butfor.few_shot(scale="shrunk"), draws=None).record.scale == "shrunk"
    assert run(test=butfor.irt(center=1), alternative="two-sided").record.center == 1
    assert run(effects="chosen").table.effect.notna().any()
    assert run(effects=None).table.effect.isna().all()
    assert run(effects="all").table.effect.notna().all()


@pytest.mark.parametrize("wrong", ["alhpa", "h", "early_stop", "keep_effects"])
def test_an_unknown_keyword_is_refused(wrong):
    with pytest.raises(TypeError, match=rf"explain\(\) got an unexpected keyword argument '{wrong}'"):
        run(**{wrong: 1})


# One list


SETTINGS = [field.name for field in fields(Settings)]
PUBLIC = {
    "explain": butfor.explain,
    "image.explain": butfor.image.explain,
    "text.explain": butfor.text.explain,
    "multimodal.explain": butfor.multimodal.explain,
    "global_importance": butfor.global_importance,
}


def test_the_signature_shows_every_setting():
    shown = inspect.signature(butfor.explain).parameters
    assert [name for name in shown if name in SETTINGS] == SETTINGS
    assert list(shown)[:3] == ["model", "X", "reference"]
    assert {"rng", "sampler", "subsets", *RUN_NAMES} <= set(shown)
    assert shown["alpha"].default == 0.1
    assert shown["test"].default is None
    assert all(shown[name].kind is inspect.Parameter.KEYWORD_ONLY for name in (*SETTINGS, *RUN_NAMES))


@pytest.mark.parametrize("name", PUBLIC)
def test_every_parameter_is_typed_and_explained_once(name):
    function = PUBLIC[name]
    shown, text = inspect.signature(function).parameters, inspect.getdoc(function)
    for parameter in shown.values():
        assert parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        assert parameter.annotation is not parameter.empty, parameter.name
        assert text.count(f"\n{parameter.name} : ") == 1, parameter.name
    assert "{settings}" not in text


def test_run_options_are_taken_directly_too_and_then_win():
    options = RunOptions(batch_rows=5, on_error="skip")
    settings = Settings.of({"options": options, "batch_rows": 7})
    assert (settings.options.batch_rows, settings.options.on_error) == (7, "skip")
    pd.testing.assert_frame_equal(run(options=options).table, run().table)
    with pytest.raises(butfor.InputError, match=r"options must be butfor\.RunOptions"):
        run(options={"workers": 2})


WRONG_KEYWORD = """
import butfor
butfor.explain(lambda rows: rows, [[1.0]], [[2.0]], alhpa=0.1)
butfor.explain(lambda rows: rows, [[1.0]], [[2.0]], alternative="up")
"""


def test_a_type_checker_sees_a_wrong_keyword(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(WRONG_KEYWORD)
    out, _, code = mypy.api.run(["--strict", "--cache-dir", str(tmp_path), str(script)])
    assert code == 1
    assert '"alhpa"' in out
    assert "alternative" in out


# Defaults of a function, for what is not given or None


def test_defaults_of_a_function_stand_in_for_what_is_not_given():
    assert Settings.of({}, test="few-shot").test.name == "few-shot"
    assert Settings.of({"test": None}, test="few-shot").test.name == "few-shot"
    assert Settings.of({"test": "irt"}, test="few-shot").test.name == "irt"
    assert Settings.of({}, alternative="greater").alternative == "greater"
    assert Settings.of({"alternative": "less"}, alternative="greater").alternative == "less"
    assert Settings.of({}).test.name == "sequential"


@pytest.mark.parametrize(("test", "rule"), [("irt", "bh"), ("osft", "knockoff+"), ("few-shot", "seqstep")])
def test_the_rule_follows_the_test(test, rule):
    assert Settings.of({"test": test}).rule == Settings.of({"test": test, "rule": None}).rule == rule


def test_no_effects_is_a_choice():
    assert Settings.of({}).effects == "all"
    assert Settings.of({"effects": None}).effects is None
    assert Settings.of({"effects": None}, effects="chosen").effects is None
    assert Settings.of({}, effects="chosen").effects == "chosen"


@pytest.mark.parametrize("test", ["irt", "few-shot"])
def test_the_least_effect_shifts_a_test_only_where_its_draws_are_counted(test):
    """It always shifts what moves the output; few-shot compares sizes, where a shift would say nothing valid."""
    options = {"test": test, "draws": None, "decide": False}
    plain, least = run(**options), run(min_effect=1e6, **options)
    assert plain.moved.moves.any()
    assert not least.moved.moves.any()
    assert plain.chosen.any()
    assert least.chosen.any() == (test == "few-shot")
    assert ("min-effect" in [note.code for note in least.guarantee.caveats]) == (test == "irt")


def test_settings_are_frozen():
    settings = Settings.of({})
    with pytest.raises(FrozenInstanceError):
        settings.alpha = 0.2


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"effects": True}, "effects must be one of None, 'all', 'chosen', got True"),
        ({"effects": "some"}, "effects must be one of"),
        ({"on_error": "ignore"}, "on_error must be one of 'raise', 'skip', got 'ignore'"),
        ({"alternative": "up"}, "alternative must be one of None, 'greater', 'less', 'two-sided', got 'up'"),
        ({"family": None}, "family must be one of"),
        ({"link": "probit"}, "link must be one of None, 'logit', 'log'"),
        ({"alpha": None}, "alpha must lie strictly between 0 and 1"),
        ({"batch_rows": 0}, "batch_rows must be a whole number of at least 1"),
        ({"batch_rows": 2.0}, "batch_rows must be a whole number"),
        ({"seed": None}, "seed must be a whole number of at least 0, got None"),
        ({"picked": 0.9}, "picked must be a function of outputs that returns booleans, got float"),
        ({"test": "irt", "rule": "seqstep"}, "rule='seqstep' has no guarantee with test='irt'"),
        ({"test": butfor.irt(early_stop=True), "rule": "e-bh"}, "early_stop is for p-values"),
        ({"test": butfor.irt(early_stop=True), "picked": callable}, "early_stop does not go with picked"),
    ],
)
def test_a_mistake_gets_one_sentence(wrong, message):
    with pytest.raises(butfor.InputError, match=message) as caught:
        Settings.of(wrong)
    assert "\n" not in str(caught.value)


# Labels of inputs and of hypotheses

FRAME = pd.DataFrame(ROWS, columns=list("abc"))


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        (np.ones((8, 2)), r"groups must be one label for each input, got an array of shape \(8, 2\)"),
        (3, "groups must be one label for each input, got 3"),
        ("person", "groups must be one label for each input, got 'person'"),
        ([[1]] * 4 + [[1, 2]] * 4, r"a label of groups is \[1\]; give a number or a string for each input"),
        (pd.Series([0] * 8, index=range(1, 9)), "groups and the data have different indexes; align them"),
        (pd.Series([0] * 7 + [None], dtype="Int64"), "groups has no label for some inputs"),
    ],
)
def test_groups_that_cannot_be_are_refused(groups, said):
    with pytest.raises(butfor.InputError, match=said):
        butfor.explain(lambda rows: rows.sum(axis=1), FRAME, NORMAL, groups=groups, draws=39)


@pytest.mark.parametrize("groups", [pd.Series([0] * 8), {i: i % 2 for i in range(8)}, range(8), ["a", "b"] * 4])
def test_groups_may_be_labels_or_a_mapping(groups):
    result = butfor.explain(lambda rows: rows.sum(axis=1), FRAME, NORMAL, groups=groups, test="irt", draws=200)
    assert len(result.table) == 24


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (3, "weights_by must be one label for each hypothesis, got 3"),
        (lambda _: 1, r"weights_by raised TypeError on input 0, subset 'x0': .*; give a function \(input, subset\)"),
        (lambda *_: np.ones(3), "weights_by raised TypeError on input 0, subset 'x0': unhashable"),
    ],
)
def test_weights_by_that_cannot_be_are_refused(labels, said):
    with pytest.raises(butfor.InputError, match=said):
        run(weights_by=labels)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"timeout": float("inf")}, "timeout must be .* at most 1,000,000,000, got inf; None sets no limit"),
        ({"timeout": 1e10}, "timeout must be .* at most 1,000,000,000, got 10000000000.0"),
        ({"timeout": float("nan")}, "timeout must be .*, got nan"),
        ({"run_dir": 5}, "run_dir must be the path of a folder, got 5; None keeps nothing"),
    ],
)
def test_times_and_folders_that_cannot_be_are_refused_before_anything_runs(wrong, said):
    with pytest.raises(butfor.InputError, match=said):
        butfor.explain(lambda _: pytest.fail("the model was asked"), ROWS, NORMAL, **wrong)


def test_a_long_timeout_is_one():
    assert len(run(timeout=1e9).table) == 24
