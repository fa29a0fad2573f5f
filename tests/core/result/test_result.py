"""Result: the table, re-selection, saving, showing."""

import json
import zipfile

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.results.words import Note

COLUMNS = ["input", "subset", "resolution", "value", "observed", "draws"]  # and the evidence
CHOSEN = ["q", "chosen", "effect", "effect_low", "effect_high", "surprise", "status"]
MOVED = ["move", "move_low", "move_high", "moves"]
NAMES = ["age", "<b>bmi</b>", "a & b", "größe"]


def model(rows):
    rows = np.asarray(rows)
    return rows[:, 0] + 0.5 * rows[:, 1] + (rows[:, 2] > 9)


def classes(rows):
    rows = np.asarray(rows)
    return np.stack([rows[:, 0], rows[:, 1], rows[:, 0] * 0], axis=1)


@pytest.fixture(scope="module")
def reference():
    return pd.DataFrame(np.random.default_rng(0).normal(size=(200, 4)), columns=NAMES)


@pytest.fixture(scope="module")
def frame():
    values = np.random.default_rng(1).normal([3, 1, 0, 0], 1, size=(12, 4))
    return pd.DataFrame(values, columns=NAMES, index=[f"p{i}" for i in range(12)])


@pytest.fixture(scope="module")
def sampler(reference):
    return butfor.tabular.gaussian(reference)


def run(frame, sampler, asked=model, **settings):
    return butfor.explain(asked, frame, sampler, **{"test": "irt", "draws": 199, "alternative": "greater", **settings})


@pytest.fixture(scope="module")
def irt(frame, sampler):
    return run(frame, sampler)


@pytest.fixture(scope="module")
def osft(frame, sampler):
    return run(frame, sampler, test="osft", draws=None, alpha=0.3)


def test_the_table_has_the_columns_of_the_design(irt, osft, frame, sampler):
    for result, kind in ((irt, "p"), (osft, "z")):
        table = result.table
        assert list(table.columns) == [*COLUMNS, kind, *CHOSEN, *MOVED]
        assert len(table) == 48
        assert table.input.tolist() == [f"p{i}" for i in range(12) for _ in range(4)]
        assert table.subset.tolist() == NAMES * 12
        assert table.chosen.dtype == bool
        assert (table.chosen == result.chosen).all()
        assert set(table.status) <= {"unusual", "not unusual", "no variation"}
    assert irt.table.draws.eq(199).all()
    assert osft.table.draws.eq(1).all()
    np.testing.assert_allclose(irt.table.observed, np.repeat(model(frame), 4), rtol=1e-9)
    decided = ["flip", "flip_low", "flip_high", "necessary"]
    columns = run(frame, sampler, classes, target=1).table.columns
    assert list(columns) == [*COLUMNS, "p", *CHOSEN, *decided, *MOVED, "output"]


def test_p_values_are_multiples_of_one_over_draws_plus_one(irt):
    k = irt.table.p * 200
    np.testing.assert_allclose(k, k.round(), atol=1e-9)
    assert irt.table.p.between(1 / 200, 1).all()


def test_what_does_not_vary_is_not_tested(irt):
    table = irt.table
    flat = table.subset.isin(["a & b", "größe"])
    assert (table.status[flat] == "no variation").all()
    assert (table.p[flat] == 1).all()
    assert table.status[~flat].isin(["unusual", "not unusual"]).all()
    assert Note("no-variation", "info", {"count": 24, "size": 48}) in irt.notes


def test_repr_says_how_many(irt):
    assert repr(irt) == f"<butfor.Result: {irt.chosen.sum()} of 48 hypotheses chosen>"


def test_a_result_is_frozen(irt):
    with pytest.raises(AttributeError):
        irt.alpha = 0.5


@pytest.mark.parametrize(
    "settings",
    [
        {"alpha": 0.3},
        {"alpha": 0.01},
        {"rule": "by"},
        {"rule": "holm"},
        {"rule": "bonferroni"},
        {"family": "input"},
        {"alpha": 0.25, "rule": "holm", "family": "input"},
    ],
)
def test_selecting_again_equals_a_fresh_run(irt, frame, sampler, settings):
    again, fresh = irt.select(**settings), run(frame, sampler, **settings)
    assert (again.chosen == fresh.chosen).all()
    assert str(again.guarantee) == str(fresh.guarantee)
    assert (again.alpha, again.rule, again.family) == (fresh.alpha, fresh.rule, fresh.family)
    assert again.rows == irt.rows
    assert (again.table.status == fresh.table.status).all()
    kept = again.table.effect.notna()
    assert (kept == (irt.chosen | ~again.chosen)).all()  # what is newly chosen has none from fresh draws
    # Was (result.py, select): the notes on reach are dropped (first they were kept for another alpha). Compute reach
    # again for the new alpha, rule and family.
    assert again.notes == fresh.notes


def test_selecting_osft_again_equals_a_fresh_run(osft, frame, sampler):
    again, fresh = osft.select(alpha=0.1), run(frame, sampler, test="osft", draws=None, alpha=0.1)
    assert (again.chosen == fresh.chosen).all()
    assert osft.chosen.sum() > 0


def test_selecting_leaves_the_first_result_alone(irt):
    before = irt.chosen.copy()
    irt.select(alpha=0.9)
    assert (irt.chosen == before).all()
    assert irt.alpha == 0.1


def test_a_selection_without_a_guarantee_is_refused(irt, osft):
    with pytest.raises(butfor.InputError, match="no guarantee"):
        irt.select(rule="knockoff+")
    with pytest.raises(butfor.InputError, match="no guarantee"):
        osft.select(rule="bh")
    for alpha in (0, 1, 1.5):
        with pytest.raises(butfor.InputError, match="alpha must lie strictly between"):
            irt.select(alpha=alpha)


def test_an_unknown_family_is_refused(irt):
    # Was (result.py, select): family='inputs' selects over the run and its guarantee speaks of each single input.
    with pytest.raises(butfor.InputError, match="family must be one of"):
        irt.select(family="inputs")


def test_the_note_on_an_odd_model_stays(frame, sampler):
    # Was wrong once (result.py, select): notes of the run itself are dropped.
    rng = np.random.default_rng(0)
    noisy = run(frame, sampler, lambda rows: rng.normal(size=len(rows)))
    assert "random-model" in [note.code for note in noisy.notes]
    assert "random-model" in [note.code for note in noisy.select(alpha=0.2).notes]


# Counterfactuals


def test_counterfactuals_are_shown_as_the_user_would_write_them(irt, frame):
    shown = irt.counterfactuals("p3", "age", n=5)
    assert isinstance(shown, pd.DataFrame)
    assert list(shown.columns) == NAMES
    assert len(shown) == 5
    assert (shown[NAMES[1:]] == frame.loc["p3", NAMES[1:]].to_numpy()).all().all()
    assert (shown["age"] != frame.loc["p3", "age"]).all()


@pytest.mark.parametrize(("test", "draws"), [("irt", 5), ("osft", 1)])
def test_counterfactuals_of_a_two_sided_run_are_those_that_were_tested(frame, sampler, test, draws):
    # Was (result.py, counterfactuals): the pilot draws come first in the stream, so what is shown first is the centre's
    # draws, not those the input was compared with: OSFT shows the draw it did not test. Skip the first `center`.
    seen = []

    def watched(rows):
        seen.append(np.asarray(rows).copy())
        return model(rows)

    result = run(
        frame.loc[["p3"]],
        sampler,
        watched,
        subsets=["age"],
        test=butfor.irt(draws, center=2) if test == "irt" else butfor.osft(center=2),
        draws=None,
        alternative="two-sided",
        effects=None,
    )
    rows = np.concatenate(seen)
    drawn = rows[rows[:, 0] != frame.loc["p3", "age"]]
    assert len(drawn) == 2 + draws
    np.testing.assert_array_equal(result.counterfactuals("p3", "age", n=draws).to_numpy(), drawn[2:])
    with pytest.raises(butfor.InputError, match=f"between 1 and {draws}"):
        result.counterfactuals("p3", "age", n=draws + 1)


@pytest.mark.parametrize("n", [0, -1, 200, 1.5, "3", None, True])
def test_a_wrong_number_of_counterfactuals_is_refused(irt, n):
    # Was wrong once (draws.py, redraw): 1.5, "3" and None end in TypeErrors of slicing and comparing.
    with pytest.raises(butfor.InputError, match="n must be"):
        irt.counterfactuals("p3", "age", n=n)


def test_unknown_hypotheses_are_named(irt):
    with pytest.raises(butfor.InputError, match="unknown subset 'weight'; subsets are 'age'"):
        irt.counterfactuals("p3", "weight")
    with pytest.raises(butfor.InputError, match=r"unknown input 3; inputs are 'p0'.*\(12 in all\)"):
        irt.counterfactuals(3, "age")


# Saving


def test_a_saved_result_comes_back(irt, osft, frame, sampler, tmp_path):
    several = run(frame, sampler, classes, target="predicted", subsets={"a": ["age", "größe"], "b": ["a & b"]})
    for result in (irt, osft, several, irt.select(rule="holm", family="input")):
        path = result.save(tmp_path / "r.butfor")
        for loaded in (butfor.load(path), butfor.load(str(path), sampler=sampler)):
            pd.testing.assert_frame_equal(loaded.table, result.table, check_exact=True)
            assert str(loaded.guarantee) == str(result.guarantee)
            assert loaded.summary() == result.summary()
            assert loaded.notes == result.notes
            assert loaded.record == result.record
            assert loaded.rows == result.rows
            assert (loaded.select(alpha=0.4).chosen == result.select(alpha=0.4).chosen).all()
        name = result.subset_names[0]
        n = min(4, result.record.draws)
        for loaded in (butfor.load(path), butfor.load(path, sampler)):  # one to three were kept
            kept = loaded.counterfactuals("p7", name, n=min(n, 3))
            pd.testing.assert_frame_equal(kept, result.counterfactuals("p7", name, n=min(n, 3)))
        if n > 3:
            drawn = butfor.load(path, sampler).counterfactuals("p7", name, n=n)
            pd.testing.assert_frame_equal(drawn, result.counterfactuals("p7", name, n=n))
            with pytest.raises(butfor.InputError, match=r"loaded without its sampler; use butfor\.load"):
                butfor.load(path).counterfactuals("p7", name, n=n)
    assert [file.name for file in tmp_path.iterdir()] == ["r.butfor"]


def test_a_saved_result_takes_reference_data_for_a_sampler(irt, reference, tmp_path):
    path = irt.save(tmp_path / "r.butfor")
    pd.testing.assert_frame_equal(
        butfor.load(path, reference).counterfactuals("p1", "age"), irt.counterfactuals("p1", "age")
    )


def test_a_saved_result_with_another_sampler_is_refused(irt, tmp_path):
    path = irt.save(tmp_path / "r.butfor")
    with pytest.raises(butfor.InputError, match="columns"):
        butfor.load(path, np.random.default_rng(0).normal(size=(9, 3)))


def test_an_array_comes_back_as_an_array(sampler, frame, tmp_path):
    result = run(frame.to_numpy(), butfor.tabular.gaussian(frame.to_numpy()), draws=9)
    path = result.save(tmp_path / "r.butfor")
    shown = butfor.load(path, butfor.tabular.gaussian(frame.to_numpy())).counterfactuals(3, "x1", n=2)
    assert isinstance(shown, np.ndarray)
    np.testing.assert_array_equal(shown, result.counterfactuals(3, "x1", n=2))


def test_numbered_columns_come_back_as_numbers(frame, tmp_path):
    # Was (_load.py, load): column labels are saved as text, so a frame with columns 0, 1, 2 comes back with '0', '1'.
    numbered = pd.DataFrame(frame.to_numpy())
    result = run(numbered, butfor.tabular.gaussian(numbered), draws=9)
    loaded = butfor.load(result.save(tmp_path / "r.butfor"), butfor.tabular.gaussian(numbered))
    pd.testing.assert_frame_equal(loaded.counterfactuals(3, "1"), result.counterfactuals(3, "1"))


def test_any_number_may_be_alpha(frame, sampler, tmp_path):
    # Was (_explain.py): alpha is kept as it came; np.float32 is then no JSON number when the result is saved.
    result = run(frame, sampler, alpha=np.float32(0.1), draws=9)
    assert butfor.load(result.save(tmp_path / "r.butfor")).alpha == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda whole: b"", "is not a saved butfor result"),
        (lambda whole: b"garbage" * 99, "is not a saved butfor result"),
        (lambda whole: whole[: len(whole) // 2], "is not a saved butfor result"),
        (lambda whole: whole[:-40], "is not a saved butfor result"),
        (lambda whole: whole[:300] + b"\0" * 100 + whole[400:], "is not a saved butfor result"),
    ],
)
def test_a_broken_file_gets_one_sentence(irt, tmp_path, content, message):
    path = tmp_path / "broken.butfor"
    path.write_bytes(content(irt.save(tmp_path / "r.butfor").read_bytes()))
    with pytest.raises(butfor.InputError, match=message) as caught:
        butfor.load(path)
    assert "broken.butfor" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("facts", [{"format": 1}, [1, 2], {"format": 99}, "text"])
def test_a_zip_of_something_else_gets_one_sentence(irt, tmp_path, facts):
    # Was (storage.py, read; _load.py, load): a file of format 1 without its facts ends in KeyError, JSON that is no
    # object in AttributeError.
    whole = irt.save(tmp_path / "r.butfor")
    with zipfile.ZipFile(whole) as archive:
        arrays = archive.read("arrays.npz")
    path = tmp_path / "other.butfor"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("facts.json", json.dumps(facts))
        archive.writestr("arrays.npz", arrays)
    with pytest.raises(butfor.InputError, match=r"other\.butfor"):
        butfor.load(path)


def test_files_that_cannot_be_read_or_written_are_named(irt, tmp_path):
    with pytest.raises(butfor.InputError, match="does not exist"):
        butfor.load(tmp_path / "nothing.butfor")
    with pytest.raises(butfor.InputError, match="is not a saved butfor result"):
        butfor.load(tmp_path)
    with pytest.raises(butfor.InputError, match="cannot write"):
        irt.save(tmp_path / "no" / "such" / "folder.butfor")
    assert list(tmp_path.iterdir()) == []


def test_a_saved_file_holds_no_pickle(irt, tmp_path):
    with zipfile.ZipFile(irt.save(tmp_path / "r.butfor")) as archive:
        assert sorted(archive.namelist()) == ["arrays.npz", "facts.json"]
        json.loads(archive.read("facts.json"))


# Showing


def test_json_says_what_the_table_says(irt, osft):
    for result in (irt, osft):
        said = json.loads(result.to_json())
        assert said["chosen"] == result.chosen.sum()
        assert said["hypotheses"] == len(said["table"]) == 48
        assert said["guarantee"] == str(result.guarantee)
        assert said["alpha"] == result.alpha
        assert said["record"]["seed"] == 0
        assert [row["chosen"] for row in said["table"]] == result.chosen.tolist()
        kind = result.evidence.kind
        np.testing.assert_allclose([row[kind] for row in said["table"]], result.table[kind], atol=1e-9)
        assert "NaN" not in result.to_json()


def test_json_keeps_small_numbers(frame, sampler):
    # Was wrong once (result.py, to_json): pandas writes 10 decimals by default, so outputs near 1e-12 become 0.
    result = run(frame, sampler, lambda rows: model(rows) * 1e-12, draws=9)
    said = json.loads(result.to_json())
    np.testing.assert_allclose([row["observed"] for row in said["table"]], result.table.observed, rtol=1e-9)


def test_the_summary_says_what_was_found_and_what_it_means(irt):
    text = irt.summary(full=True)
    assert text.startswith(irt.summary())
    for part in (f"{irt.chosen.sum()} of 48 hypotheses chosen", "age", "12 inputs, 4 subsets", "irt", "199 draws"):
        assert part in text
    assert "Guarantee: The false discovery rate" in text
    assert "Note: " in text
    assert max(map(len, text.splitlines())) <= 110
    assert str(irt) == irt.summary()


def test_html_escapes_names(frame, sampler):
    evil = frame.rename(columns={"age": "<script>alert(1)</script>"})
    reference = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 4)), columns=evil.columns)
    html = run(evil, reference, alpha=0.3)._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "unusual" in html


def test_nothing_chosen_is_said_too(frame, reference, sampler):
    nothing = run(reference.iloc[:5], sampler, draws=19)
    assert not nothing.chosen.any()
    assert "Unusual: no input in any part" in nothing.summary()
    assert "0 of 20 hypotheses chosen" in nothing.summary(full=True)
    assert "<table>" not in nothing._repr_html_()
    assert json.loads(nothing.to_json())["chosen"] == 0


# Names of inputs


@pytest.mark.parametrize(
    "index",
    [
        pd.RangeIndex(100, 112),
        pd.Index([f"p{i}" for i in range(12)]),
        pd.date_range("2020-01-01", periods=12),
        pd.Index([i + 0.5 for i in range(12)]),
        # Was (result.py, table): np.array(input_names) makes tuples two-dimensional and numbers among texts to texts.
        pd.MultiIndex.from_product([range(4), list("abc")]),
        pd.Index([*range(11), "last"], dtype=object),
        pd.Index([*range(11), (1, 2)], dtype=object),
    ],
    ids=["range", "text", "date", "float", "tuples", "mixed", "mixed tuples"],
)
def test_row_labels_are_kept(frame, sampler, index):
    result = run(frame.set_axis(index), sampler, draws=9)
    assert result.table.input.tolist() == [label for label in index for _ in range(4)]
    assert len(result.counterfactuals(index[11], "age", n=2)) == 2


# Was wrong once: a stricter selection of a sequential run lost everything and said that the inputs were ordinary.
def test_a_selection_that_the_run_did_not_draw_for_says_so():
    rng = np.random.default_rng(0)
    reference, inputs = rng.normal(size=(300, 3)), rng.normal(size=(40, 3))
    inputs[:8, 0] += 5
    result = butfor.explain(lambda rows: rows[:, 0], inputs, butfor.tabular.gaussian(reference), effects=None)
    assert result.chosen.any()
    assert "stopped-for" not in [note.code for note in result.notes]
    stricter = result.select(alpha=0.01)
    (stopped,) = [note for note in stricter.notes if note.code == "stopped-for"]
    assert str(stopped).startswith("Drawing stopped for bh at 0.1, family='run': for another choice run it again.")
    assert f"Note: {stopped.line}" in stricter.summary()
    assert "ordinary" not in [note.code for note in stricter.notes]


def test_no_bound_where_nothing_is_controlled():
    rng = np.random.default_rng(0)
    reference, inputs = rng.normal(size=(300, 3)), rng.normal([4, 0, 0], 1, size=(20, 3))
    result = butfor.explain(
        lambda rows: np.stack([rows[:, 0], -rows[:, 0]], axis=1),
        inputs,
        butfor.tabular.gaussian(reference),
        target="observed-class",
        test="irt",
        draws=2000,
    )
    assert result.chosen.any()
    assert "Promise: none on what is unusual" in result.summary()


@pytest.mark.parametrize(("asked", "said"), [({"alpha": "x"}, "alpha must lie"), ({"rule": ["bh"]}, "no guarantee")])
def test_selections_that_are_none(asked, said):
    rows = np.random.default_rng(0).normal(size=(30, 2))
    result = butfor.explain(lambda x: x[:, 0], rows[:3], butfor.tabular.gaussian(rows), test="irt", draws=19)
    with pytest.raises(butfor.InputError, match=said):
        result.select(**asked)


def test_labels_are_those_of_their_rows():
    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.normal(size=(6, 2)), columns=["a", "b"], index=list("uvwxyz"))
    labels = pd.Series([0, 1, 0, 1, 0, 1], index=data.index)
    sampler = butfor.tabular.gaussian(rng.normal(size=(50, 2)))
    with pytest.raises(butfor.InputError, match="y and the data have different indexes"):
        butfor.explain(
            lambda x: np.stack([x["a"], x["b"]], axis=1), data, sampler, target="truth", y=labels[::-1], test="osft"
        )


def test_a_model_that_looks_at_the_whole_batch_is_told_so():
    rng = np.random.default_rng(0)
    reference, inputs = rng.normal(size=(300, 3)), rng.normal([3, 0, 0], 1, (15, 3))
    result = butfor.explain(
        lambda x: x[:, 0] - x[:, 0].mean(), inputs, butfor.tabular.gaussian(reference), test="irt", draws=99
    )
    assert "batch-dependent-model" in [note.code for note in result.notes]


def test_a_batch_that_is_too_large_is_not_asked_for_row_by_row():
    asked = []

    def small(rows):
        asked.append(len(rows))
        if len(rows) > 500:
            raise MemoryError("too many")
        return rows[:, 0]

    rng = np.random.default_rng(0)
    with pytest.raises(butfor.ModelError, match="smaller batch_rows may help"):
        butfor.explain(small, rng.normal(size=(40, 3)), butfor.tabular.gaussian(rng.normal(size=(50, 3))))
    assert len(asked) < 60


def test_columns_with_nothing_in_them_are_not_shown():
    rng = np.random.default_rng(0)
    reference, inputs = rng.normal(size=(300, 2)), rng.normal([4, 0], 1, size=(20, 2))
    for of in ("chosen", None):
        result = butfor.explain(
            lambda rows: rows[:, 0], inputs, butfor.tabular.gaussian(reference), test="few-shot", effects=of
        )
        assert result.chosen.any()
        assert ("Moves the output" in result.summary()) == (of == "chosen")
        assert "inputs_chosen" in result.summary(full=True)


def test_classes_that_average_out_are_said_to():
    rng = np.random.default_rng(0)
    inputs, reference = rng.normal(size=(30, 4)), rng.normal(size=(100, 4))
    said = butfor.explain(classes, inputs, reference, control=False).summary()
    assert "Differ on average: in no part (of each input's predicted class; target=0 asks about one class)" in said
    fixed = butfor.explain(classes, inputs, reference, control=False, target=0).summary()
    assert "own class" not in fixed
