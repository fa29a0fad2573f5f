"""A validation passes on sound set-ups, and fails where one of eight faults was planted."""

import json
import stat
from functools import cache

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.cli.app import main
from butfor.inference import adaptive, decisions, irt, selection, sequential
from butfor.validation import checks, core, verify
from butfor.validation.run import BILL, FACTS, MANIFEST, PAGE, RESULT

TINY = checks.Sizes(splits=4, inputs=20, planted=1, worlds=3, seeds=2)


@pytest.fixture(autouse=True, scope="module")
def tiny():
    """A size at which a whole validation takes seconds; its limits are those for so few repetitions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(checks.SIZES, "tiny", TINY)
        yield


def validated(model, X, reference, **settings):
    return butfor.validate(model, X, reference, **{"size": "tiny", "seed": 1, **settings})


def failed(validation):
    return set(validation.requirements.index[validation.requirements.status == "failed"])


# Five sound set-ups


@cache
def correlated(rows, columns, seed, strength=0.6):
    """Normal columns of which neighbours go together."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(rows, columns))
    for j in range(1, columns):
        values[:, j] = strength * values[:, j - 1] + np.sqrt(1 - strength**2) * values[:, j]
    return values


def linear(rows):
    rows = np.asarray(rows, dtype=float)
    return rows[:, 0] + rows[:, 1]


def applicants(rows, seed):
    """Credit data of all column types, independent but for the limit, which follows income."""
    rng = np.random.default_rng(seed)
    income = rng.lognormal(10, 0.4, rows)
    return pd.DataFrame(
        {
            "income": income,
            "limit": 0.3 * income * rng.lognormal(0, 0.3, rows),
            "late": rng.poisson(1.5, rows),
            "home": rng.choice(["rents", "owns", "family"], rows),
            "guarantor": rng.random(rows) < 0.3,
        }
    )


def risk(rows):
    score = 0.6 * rows.late - (np.log(rows.income) - 10) + 0.5 * rows.home.eq("rents") - 0.8 * rows.guarantor
    return 1 / (1 + np.exp(1 - score.to_numpy(dtype=float)))


@cache
def boosting():
    from sklearn.ensemble import HistGradientBoostingClassifier

    rows = correlated(1_500, 4, 7)
    classes = np.where(rows[:, 0] + rows[:, 2] + np.random.default_rng(8).normal(size=1_500) > 0, "high", "low")
    return HistGradientBoostingClassifier(max_iter=30, random_state=0).fit(rows, classes)


def people(count, each, seed, between=0.9):
    """Rows (count x each, 4) of people who differ from each other more than their rows do, and who each row is of."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(count), each)
    rows = np.sqrt(between) * rng.normal(size=(count, 4))[who] + np.sqrt(1 - between) * rng.normal(size=(len(who), 4))
    return rows, who


def above(outputs):
    return np.asarray(outputs) >= 0.5


def sound(name):
    if name == "a function of correlated columns":
        return validated(linear, correlated(60, 4, 1), correlated(160, 4, 2))
    if name == "credit data of all types, a rule, another class":
        every = applicants(500, 3)
        approved = risk(every) < 0.5
        return validated(risk, every[~approved], every[approved].reset_index(drop=True)[:200], decide=above)
    if name == "boosted trees with classes":
        return validated(boosting(), correlated(60, 4, 4), correlated(200, 4, 5), target="high")
    if name == "several rows of a person, who are named":
        reference, who = people(90, 2, 6)
        return validated(linear, people(40, 1, 7)[0], reference, reference_groups=who)
    reference = correlated(160, 3, 9)
    return validated(linear, correlated(60, 3, 10), reference, sampler=butfor.tabular.gaussian)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "a function of correlated columns",
        "credit data of all types, a rule, another class",
        "boosted trees with classes",
        "several rows of a person, who are named",
        "a sampler of the user's",
    ],
)
def test_sound_set_ups_pass(name):
    validation = sound(name)
    assert validation.passed, validation.summary()
    assert (validation.requirements.status == "passed").mean() > 0.9


# Eight faults


@pytest.mark.slow
def test_a_wrong_sampler_fails():
    reference = correlated(200, 4, 11, strength=0.9)
    validation = validated(linear, correlated(40, 4, 12, strength=0.9), reference, sampler=butfor.tabular.empirical)
    assert failed(validation) >= {"S-1", "S-2"}


@pytest.mark.slow
def test_a_memorised_reference_fails():
    from sklearn.ensemble import ExtraTreesRegressor

    reference = correlated(200, 4, 13)
    noisy = reference[:, 0] + np.random.default_rng(14).normal(size=200)
    model = ExtraTreesRegressor(30, random_state=0).fit(reference, noisy)
    assert "K-1" in failed(validated(model.predict, correlated(40, 4, 15), reference))


@pytest.mark.slow
def test_a_clustered_reference_fails():
    reference, _ = people(25, 8, 16, between=0.99)
    rows = np.random.default_rng(17).permutation(len(reference))  # not in the order of people
    validation = validated(linear, people(40, 1, 18)[0], reference[rows])
    assert "D-3" in failed(validation)


@pytest.mark.slow
def test_shifted_columns_fail():
    every = applicants(300, 19)
    data, reference = every[:60].copy(), every[60:].reset_index(drop=True)
    data["income"] /= 1_000  # thousands
    validation = validated(risk, data, reference)
    assert "D-1" in failed(validation)
    assert "income" in validation.requirements.why["D-1"]


def test_a_random_model_fails():
    rng = np.random.default_rng(20)
    validation = validated(lambda rows: linear(rows) + 0.1 * rng.normal(size=len(rows)), *tables())
    assert "M-1" in failed(validation)
    assert validation.result is None


def test_a_model_that_depends_on_the_order_fails():
    validation = validated(lambda rows: linear(rows) + 0.01 * np.arange(len(rows)), *tables())
    assert failed(validation) >= {"M-2", "M-3"}
    assert "M-1" not in failed(validation)


def tables():
    return correlated(30, 3, 21), correlated(120, 3, 22)


def tampered(folder, name, change):
    path = folder / name
    path.write_bytes(change(path.read_bytes()))


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    """A pack of a sound set-up, written by the command line."""
    folder = tmp_path_factory.mktemp("pack")
    every = applicants(360, 23)
    every[:60].to_csv(folder / "data.csv", index=False)
    every[60:].to_csv(folder / "reference.csv", index=False)
    (folder / "model.py").write_text(
        "import numpy as np\n"
        "def risk(rows): return 1 / (1 + np.exp(1 - 0.6 * rows['late'] + 0.8 * rows['guarantor']))\n"
        "def noisy(rows, rng=np.random.default_rng(0)): return risk(rows) + 0.1 * rng.normal(size=len(rows))\n",
        encoding="utf-8",
    )
    arguments = ["--model", f"{folder / 'model.py'}:risk", "--data", str(folder / "data.csv"), "--quiet"]
    arguments += ["--reference", str(folder / "reference.csv"), "--decide", "output >= 0.5", "--size", "tiny"]
    assert main(["validate", *arguments, "--intended-use", "Reasons <for> letters", "--out", str(folder / "out")]) == 0
    return folder / "out"


@pytest.mark.slow
def test_the_command_writes_a_pack_that_verifies(pack, capsys):
    assert {path.name for path in pack.iterdir()} == {PAGE, FACTS, RESULT, BILL, MANIFEST}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in pack.iterdir())
    assert verify(pack) == []
    assert main(["validate", "--verify", str(pack)]) == 0
    facts, page = json.loads((pack / FACTS).read_text()), (pack / PAGE).read_text()
    assert "SHA-256 of validation.json: " in (shown := capsys.readouterr().out)
    assert shown.split("validation.json: ")[1].split()[0] in page
    assert "Reasons &lt;for&gt; letters" in page
    assert "<script" not in page
    assert facts["subject"]["hashes"].keys() >= {"file of the model", "file of the data", "file of the reference"}
    assert {one["name"] for one in json.loads((pack / BILL).read_text())["components"]} >= {"numpy", "scipy"}
    assert butfor.load(pack / RESULT).n_inputs == TINY.inputs


@pytest.mark.slow
def test_the_command_ends_with_3_where_a_requirement_fails(pack, tmp_path, capsys):
    folder = pack.parent
    arguments = ["--model", f"{folder / 'model.py'}:noisy", "--data", str(folder / "data.csv"), "--size", "tiny"]
    arguments += ["--reference", str(folder / "reference.csv"), "--out", str(tmp_path / "out"), "--json", "--quiet"]
    assert main(["validate", *arguments]) == 3
    assert json.loads(capsys.readouterr().out)["verdict"] == "failed"
    assert verify(tmp_path / "out") == []
    assert not (tmp_path / "out" / RESULT).exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", [PAGE, FACTS, RESULT, BILL])
def test_a_tampered_result_fails(pack, tmp_path, name, capsys):
    copy = copied(pack, tmp_path)
    tampered(copy, name, lambda content: content[:-2] + b"  ")
    assert verify(copy) == [f"{name} was changed after the pack was written"]
    assert main(["validate", "--verify", str(copy)]) == 3
    assert "was changed" in capsys.readouterr().out


@pytest.mark.slow
def test_hashes_that_were_made_anew_do_not_hide_it(pack, tmp_path):
    """Of a figure with its verdict, of a verdict alone, and of the result."""
    copy = copied(pack, tmp_path)
    facts = json.loads((copy / FACTS).read_text())
    facts["requirements"][0]["figure"] = 5
    rewritten(copy, facts)
    assert any("C-1 is called passed" in one for one in verify(copy))
    assert any("written from other figures" in one for one in verify(copy))
    (copy / RESULT).unlink()
    assert verify(copy) == ["result.butfor is missing"]
    (copy / MANIFEST).write_text("[", encoding="utf-8")
    assert "is not JSON" in verify(copy)[0]


def copied(pack, folder):
    import shutil

    return shutil.copytree(pack, folder / "copy")


def rewritten(folder, facts):
    """Write the figures and the manifest anew, as a forger would."""
    from butfor.validation.run import sha256

    (folder / FACTS).write_text(json.dumps(facts), encoding="utf-8")
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["files"][FACTS] = sha256((folder / FACTS).read_bytes())
    (folder / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")


def dropped_one(statistic, margin=0.0):
    return (statistic[:, 1:] >= statistic[:, :1] - margin).sum(axis=1) / statistic.shape[1]


def strict(statistic, margin=0.0):
    return (1 + (statistic[:, 1:] > statistic[:, :1] + margin).sum(axis=1)) / statistic.shape[1]


MUTANTS = {
    "dropped + 1": (irt, "p_fixed", dropped_one),
    "> for >=": (irt, "p_fixed", strict),
    "h - 1 in the sequential test": (sequential, "p_sequential", lambda draws, hit, h: (h - 1) / (draws + h - hit)),
    "frozen at the end of the batch": (sequential, "besag_clifford", lambda hits, _, n, m, h: (
        n + hits.shape[1], np.minimum(m + hits.sum(axis=1), h))),
    "BH one rank too far": (selection, "bh", lambda p, alpha: np.asarray(p) <= alpha),
    "Holm without stepping": (selection, "holm", lambda p, alpha: np.asarray(p) <= alpha / (len(p) - 1)),
    "offset 0 in knockoff+": (selection, "knockoff_plus", lambda z, alpha: np.asarray(z) > 0),
    "one tail for two": (decisions, "clopper_pearson_low", lambda share, error, alpha: share - np.sqrt(
        share * (1 - share) * error)),
    "weights ignored": (adaptive, "weighted_bh", lambda p, weights, nulls, alpha: p <= alpha),
    "one seed for all": (core.streams, "stream", lambda seed, *key: np.random.default_rng(seed)),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutated_core_fails(name, monkeypatch):
    module, function, mutant = MUTANTS[name]
    monkeypatch.setattr(module, function, mutant)
    right = all(one.ok for one in core.known_answers())
    assert not right or not all(one.ok for one in core.null_simulations(0))


def test_nothing_else_is_tested_with_a_mutated_core(monkeypatch):
    monkeypatch.setattr(irt, "p_fixed", dropped_one)
    validation = validated(linear, *tables())
    assert failed(validation) == {"C-1", "C-2"}
    assert not validation.passed
    assert validation.requirements.status["N-1"] == "not tested"
    assert validation.result is None


# Parts


def test_a_right_core_passes_whatever_the_seed():
    assert all(one.ok for seed in range(4) for one in core.null_simulations(seed))


def test_swapped_columns_are_seen():
    reference = correlated(120, 3, 24) * [1, 10, 1] + [0, 100, 5]
    data = correlated(40, 3, 25) * [1, 10, 1] + [0, 100, 5]
    assert columns_flagged(data, reference) == {}
    assert set(columns_flagged(data[:, [0, 2, 1]], reference)) == {"x1", "x2"}


def columns_flagged(data, reference):
    from butfor.tabular.splice import bind_model, bind_sampler

    table, sampler = bind_sampler(data, reference)
    case = checks.Case(linear, bind_model(linear, data), table, sampler, None, None, 0.1, TINY, 0, print)
    return checks.shifted_columns(case)


def test_agreement():
    one, other = np.array([True, True, False, False]), np.array([True, False, False, False])
    assert checks.agreement_of([one, other]) == (2 / 3, 0.25)
    assert checks.agreement_of([one & False] * 3) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"size": "huge"}, "size must be one of 'quick', 'standard', 'thorough'"),
        ({"alpha": 2}, "alpha must lie strictly between 0 and 1"),
        ({"target": "truth"}, "has no meaning for the rows of a reference"),
        ({"files": {"model": "no-such-file"}}, "the file of the model no-such-file cannot be read"),
        ({"decide": lambda outputs: outputs[:3]}, "decide"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(settings, words):
    with pytest.raises(ValueError, match=words):
        validated(linear, *tables(), **settings)


def test_a_reference_that_cannot_be_split_is_refused():
    data, reference = tables()
    with pytest.raises(ValueError, match="needs at least 60 rows, got 40"):
        validated(linear, data, reference[:40])
    with pytest.raises(ValueError, match="fits the sampler again"):
        validated(linear, data, butfor.tabular.from_values(lambda inputs, subset, draws, rng: None, reference))
    with pytest.raises(ValueError, match="validate is for tables"):
        validated(linear, ["a text"], reference)


def test_the_command_needs_a_model_or_a_pack(tmp_path, capsys):
    assert main(["validate"]) == 2
    assert "--model, --data, --out is missing" in capsys.readouterr().err
    assert main(["validate", "--verify", str(tmp_path)]) == 2
    assert "is not a validation pack" in capsys.readouterr().err
