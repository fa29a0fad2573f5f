"""check_sampler: flags wrong samplers, passes right ones, and says so in table, words and picture."""

import matplotlib as mpl
import matplotlib.figure
import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest

from benchmarks import samplers as bench
from butfor.explain import check_sampler
from butfor.tabular import check, empirical, forest, from_values, gaussian
from butfor.tabular.check import score_ranks
from butfor.types import InputError

mpl.use("agg")


def correlated(count, seed, width=3):
    source = np.random.default_rng(seed)
    return source.normal(size=(count, 1)) + 0.7 * source.normal(size=(count, width))


@pytest.mark.parametrize("name", bench.BEDS)
def test_flags_the_wrong_sampler_and_passes_the_true_one(name):
    bed, source = bench.BEDS[name], np.random.default_rng(1)
    reference, held_out = bed.rows(1000, source), bed.rows(300, source)
    wrong = check_sampler(bench.WRONG[name](reference), held_out, subsets=[0, 1])
    assert not wrong.ok
    # One spread for a column whose spread differs is too wide for most rows: either word is true of it.
    assert wrong.verdicts[0] in ({"off-manifold", "too wide"} if name == "heteroscedastic" else {"off-manifold"})
    assert check_sampler(from_values(bed.values), held_out, subsets=[0, 1]).ok


@pytest.mark.parametrize(
    ("scale", "shift", "said"), [(0.6, 0, "too narrow"), (1.7, 0, "too wide"), (1, 0.8, "shifted")]
)
def test_verdicts(scale, shift, said):
    rows = np.random.default_rng(2).normal(size=(300, 2))
    sampler = from_values(lambda inputs, s, draws, rng: shift + scale * rng.normal(size=(len(inputs) * draws, 1)))
    assert check_sampler(sampler, rows).verdicts == (said, said)


def test_groups_of_columns():
    rows = correlated(900, 3, 4)
    found = check_sampler(gaussian(rows[:600]), rows[600:], subsets={"pair": [0, 1], "other": [2, 3]})
    assert found.ok
    found = check_sampler(empirical(rows[:600]), rows[600:], subsets={"pair": [0, 1], "other": [2, 3]})
    assert found.verdicts == ("off-manifold", "off-manifold")


def test_a_model_is_asked_too():
    rows = correlated(700, 4)
    right = check_sampler(gaussian(rows[:400]), rows[400:], lambda batch: batch.sum(axis=1))
    assert right.ok
    assert list(right.table.columns)[-2:] == ["model_p", "verdict"]
    wrong = check_sampler(empirical(rows[:400]), rows[400:], lambda batch: np.abs(batch[:, 0] - batch[:, 1]))
    assert (wrong.model_p[:2] < 1e-3).all()
    classes = check_sampler(
        gaussian(rows[:400]), rows[400:], lambda batch: np.column_stack([batch[:, 0], -batch[:, 0]])
    )
    assert classes.ok


def test_frames_keep_their_names_and_models_see_frames():
    frame = pd.DataFrame(correlated(200, 5), columns=["a", "b", "c"])
    found = check_sampler(gaussian(frame[:100]), frame[100:], lambda batch: batch["a"], subsets=["a", "c"])
    assert found.table["subset"].tolist() == ["a", "c"]


def test_classifier_ranks_are_uniform_under_the_true_sampler():
    """Nothing is learned from a row before it is judged, so ranks are uniform and independent."""
    source = np.random.default_rng(6)
    rows = source.normal(size=(1500, 2))
    pool = np.concatenate([rows[:, None, :1], source.normal(size=(1500, 40, 1))], axis=1)
    u = np.concatenate([score_ranks(r, np.array([0]), p, source) for r, p in zip(*split(rows, pool), strict=True)])
    assert len(u) == 1200
    assert kstest(u, "uniform").pvalue > 1e-3


def split(*arrays):
    return [np.array_split(array, 6) for array in arrays]


def test_wide_tables_keep_to_the_columns_that_matter():
    source = np.random.default_rng(7)
    rows = source.normal(size=(400, 60))
    rows[:, 0] = rows[:, 40] + 0.5 * source.normal(size=400)
    assert check_sampler(empirical(rows[:200]), rows[200:], subsets=[0]).verdicts == ("off-manifold",)


def test_the_same_seed_gives_the_same_check():
    rows = correlated(150, 8, 2)
    first, again = (check_sampler(gaussian(rows[:100]), rows[100:], seed=3).table for _ in range(2))
    pd.testing.assert_frame_equal(first, again)


def test_words_picture_and_progress():
    rows, told = correlated(1200, 10), []
    found = check_sampler(empirical(rows[:100]), rows[100:], progress=told.append, draws=19, subsets=[0, 1])
    assert told[-1].rows == told[-1].total == 2 * 1000 * 19
    text = found.summary()
    assert "2 of 2 subsets look wrong (1000 held-out rows, 19 draws each, alpha=0.03)" in text
    assert "off-manifold: x0, x1 - its draws do not go with the rest of the row" in text
    assert "1000 of 1100 held-out rows were used." in text
    assert "<table" in found._repr_html_()
    assert repr(found) == f"<butfor.SamplerCheck: {found.headline}>"
    figure = matplotlib.figure.Figure()
    ax = figure.add_subplot()
    assert found.plot(ax) is ax
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert [label.split(",")[0] for label in labels] == ["x0: off-manifold", "x1: off-manifold"]
    assert all(label.endswith("% explained") for label in labels)
    np.testing.assert_allclose(found.histogram.sum(axis=1), 1)


def mixed(count, seed):
    source = np.random.default_rng(seed)
    size = source.normal(size=count)
    return pd.DataFrame(
        {
            "size": size,
            "twin": size + 0.3 * source.normal(size=count),
            "large": size + 0.5 * source.normal(size=count) > 0,
            "colour": source.choice(["red", "blue", "green"], count),
            "count": source.poisson(3, count),
            "gap": np.where(source.random(count) < 0.3, np.nan, size),
        }
    )


def test_scores_stand_beside_the_verdicts():
    """Numbers by CRPS, levels by the log score, each beside its margin: what the rest of the row explains."""
    rows = mixed(400, 11)
    found = check_sampler(forest(rows[:250]), rows[250:], draws=49).table.set_index("subset")
    numbers, levels = ["size", "twin", "count", "gap"], ["large", "colour"]
    assert found.loc[numbers, ["crps", "crps_margin"]].notna().all(axis=None)
    assert found.loc[levels, ["log_score", "log_margin"]].notna().all(axis=None)
    assert found.loc[levels, ["crps", "crps_margin"]].isna().all(axis=None)
    assert found["explained"]["twin"] > 0.4
    assert found["explained"]["large"] > 0.2
    assert abs(found["explained"]["colour"]) < 0.1
    listed = check_sampler(empirical(rows[:250]), rows[250:], draws=49, subsets=["count", ["colour", "large"]])
    assert listed.table["log_score"].notna().all()
    assert listed.table["explained"].abs().max() < 0.1
    assert "crps and log_score say how close draws come" in listed.summary()


def test_one_sentence_for_a_caveat():
    rows = correlated(500, 12, 9)
    wrong = check_sampler(empirical(rows[:300]), rows[300:], draws=19)
    assert wrong.sentence.startswith(
        "the check rejects it on 200 held-out rows: x0, x1, x2, x3, x4, x5 and 3 more off-m"
    )
    right = check_sampler(gaussian(rows[:300]), rows[300:], subsets=[0, 1])
    assert right.sentence == "the check finds nothing against it (2 subsets, 200 held-out rows)"


def test_columns_together():
    """Tails that are too light in each of eight columns, by too little to be seen in one."""
    rows = np.random.default_rng(13).standard_t(8, size=(300, 8)) / np.sqrt(8 / 6)
    normal = from_values(lambda inputs, s, draws, rng: rng.normal(size=(len(inputs) * draws, 1)))
    found = check_sampler(normal, rows)
    assert found.together == "tails too light"
    assert not found.ok
    assert "all together: tails too light" in found.headline
    assert "all columns together tails too light" in found.sentence
    assert "in all columns together (p = " in found.summary()
    assert found.plot(matplotlib.figure.Figure().add_subplot()).get_title() == "all columns together: tails too light"


def test_every_column_is_checked_unless_there_are_too_many(monkeypatch):
    rows = correlated(160, 14, 7)
    assert check_sampler(gaussian(rows[:100]), rows[100:], draws=19).left_out == ()
    monkeypatch.setattr(check, "MOST_COLUMNS", 4)
    told = []
    found = check_sampler(gaussian(rows[:100]), rows[100:], draws=19, progress=told.append)
    assert len(found.table) == 4
    assert sorted((*found.subset_names, *found.left_out)) == [f"x{j}" for j in range(7)]
    assert told[-1].rows == told[-1].total == 4 * 60 * 19
    assert "4 of 7 columns, picked at random, were checked." in found.summary()
    assert [note.code for note in found.notes] == ["check-columns"]
    assert f"Left out: {', '.join(found.left_out)}." in found.summary()
    named = check_sampler(gaussian(rows[:100]), rows[100:], draws=19, subsets=list(range(7)))
    assert named.left_out == ()  # who names columns has them checked


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda rows: check_sampler(gaussian(rows), rows[:49]), "at least 50 held-out rows, got 49; hold out more"),
        (lambda rows: check_sampler(gaussian(rows), rows, draws=5), "draws must be a whole number of at least 19"),
        (lambda rows: check_sampler(gaussian(rows), rows, alpha=0), "alpha must lie strictly between 0 and 1, got 0"),
        (lambda rows: check_sampler(gaussian(rows), rows, seed=-1), "seed must be a whole number"),
        (lambda rows: check_sampler(gaussian(rows), np.full((60, 3), np.nan)), "the held-out data has nan in row 0"),
        (lambda rows: check_sampler(gaussian(rows), rows[:, :2]), "2 columns but the sampler's reference has 3"),
        (lambda rows: check_sampler(3, rows), "sampler must be"),
    ],
)
def test_refuses_with_a_sentence(call, said):
    with pytest.raises(InputError, match=said):
        call(correlated(60, 0))
