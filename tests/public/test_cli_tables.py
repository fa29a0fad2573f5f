"""The commands on tables as people have them: mixed types, Parquet, TOML, global, check-sampler."""

import inspect
import json
import re
import sys
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import butfor
from butfor.cli.app import main
from butfor.cli.options import FILES
from butfor.cli.tables import check, explain, global_

MODEL = """
import numpy as np

def score(rows):
    assert list(rows.columns) == ["colour", "age", "weight", "opened"], list(rows.columns)
    assert rows["opened"].dtype.kind == "M"
    return rows["weight"].fillna(70) + 2 * (rows["colour"] == "red") + rows["age"] / 100

def seen(rows): return rows["weight"].fillna(70) + rows["age"]
"""
KINDS = ["colour", "age", "weight", "opened"]


def people(rows=600, seed=0):
    rng = np.random.default_rng(seed)
    case = np.arange(rows) >= rows * 5 // 6
    frame = pd.DataFrame(
        {
            "colour": rng.choice(["red", "green", "blue"], rows, p=[0.02, 0.49, 0.49]),
            "age": rng.integers(20, 80, rows),
            "weight": np.where(rng.random(rows) < 0.1, np.nan, rng.normal(70, 5, rows)),
            "opened": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 400, rows), unit="D"),
            "group": np.where(case, "case", "control"),
        }
    )
    frame.loc[case, "weight"] = rng.normal(110, 5, case.sum())
    frame["ill"] = np.where(frame.weight.fillna(70) + rng.normal(0, 5, rows) > 75, "yes", "no")
    return frame


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    (folder / "m.py").write_text(MODEL, encoding="utf-8")
    frame = people()
    frame.to_csv(folder / "all.csv", index=False)
    frame.to_parquet(folder / "all.parquet")
    frame[frame.group == "control"].drop(columns=["group", "ill"]).to_csv(folder / "controls.csv", index=False)
    held_out = people(seed=1)
    held_out[held_out.group == "control"].drop(columns=["group", "ill"]).to_csv(folder / "more.csv", index=False)
    (folder / "groups.json").write_text('{"body": ["age", "weight"], "colour": "colour"}', encoding="utf-8")
    columns = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["colour"]), ("passthrough", ["age"]))
    joblib.dump(
        make_pipeline(columns, LogisticRegression()).fit(frame[["colour", "age"]], frame.ill), folder / "m.joblib"
    )
    return folder


@pytest.fixture
def butfor_in(files, tmp_path, monkeypatch):
    """Run a command in the folder of the files: code, out folder."""
    monkeypatch.chdir(files)

    def run(command, *given, **asked):
        out = Path(asked.pop("out", tmp_path / "out"))
        options = [part for name, value in asked.items() for part in (f"--{name.replace('_', '-')}", value)]
        return main([command, "--out", str(out), "--quiet", *options, *given]), out

    return run


SPLIT = {"model": "m.py:score", "reference_where": "group == 'control'", "drop": "ill"}


@pytest.mark.parametrize("table", ["all.csv", "all.parquet"])
def test_mixed_columns(butfor_in, table):
    code, out = butfor_in("explain", data=table, dates="opened", **SPLIT)
    assert code == 0
    result = butfor.load(out / "result.butfor")
    assert set(result.subset_names) >= {"all columns", *KINDS}
    assert result.record.sampler.startswith("residual(500 reference rows")
    found = pd.read_csv(out / "table.csv").query("chosen").subset.value_counts()
    assert found["weight"] > 50
    assert found.reindex([name for name in KINDS if name != "weight"]).fillna(0).sum() < 15


def test_csv_and_parquet_give_the_same(butfor_in, tmp_path):
    tables = []
    for table in ("all.csv", "all.parquet"):
        asked = {"test": "irt", "draws": "50", "sampler": "neighbours", "dates": "opened"}
        assert butfor_in("explain", data=table, out=tmp_path / table, **asked, **SPLIT)[0] == 0
        tables.append(pd.read_csv(tmp_path / table / "table.csv"))
    pd.testing.assert_frame_equal(*tables)


def test_a_pipeline_on_raw_columns(butfor_in):
    asked = {"model": "m.joblib", "data": "all.csv", "reference_where": "group == 'control'", "target": "yes"}
    code, out = butfor_in("explain", "--trust-pickle", sampler="forest", draws="50", test="irt", **asked)
    assert code == 0
    assert butfor.load(out / "result.butfor").subset_names == ("colour", "age")  # what it was fitted on


CONFIG = """
model = "../m.py:score"
data = "../all.csv"
reference_where = "group == 'control'"
drop = ["ill"]
dates = "opened"
out = "found"
test = "irt"
draws = 60
early-stop = false
seed = 3
quiet = true
sampler = "forest"
"""


@pytest.fixture
def config(files):
    (files / "runs").mkdir(exist_ok=True)

    def write(text):
        (files / "runs" / "run.toml").write_text(text, encoding="utf-8")
        return "runs/run.toml"

    return write


def test_options_from_a_file(butfor_in, config, files, tmp_path):
    path = config(CONFIG)
    assert main(["explain", "--config", path]) == 0
    told = butfor.load(files / "runs" / "found" / "result.butfor")
    assert (told.record.draws, told.record.seed) == (60, 3)
    asked = {"test": "irt", "draws": "60", "seed": "3", "sampler": "forest", "dates": "opened"}
    _, out = butfor_in("explain", data="all.csv", **asked, **SPLIT)
    assert (out / "table.csv").read_bytes() == (files / "runs" / "found" / "table.csv").read_bytes()
    assert main(["explain", "--draws", "30", "--config", path, "--out", str(tmp_path / "other")]) == 0
    assert butfor.load(tmp_path / "other" / "result.butfor").record.draws == 30


@pytest.mark.parametrize("command", [explain, global_, check])
def test_paths_are_known_as_such(command):
    kinds = {name: str(one.annotation) for name, one in inspect.signature(command, eval_str=True).parameters.items()}
    paths = {name for name, kind in kinds.items() if "Path" in kind} - {"config"} | {"model"}
    assert paths == {name for name in FILES if name in kinds}


BAD_CONFIG = {
    "unknown": ("refrence = 'a.csv'", "there is no option 'refrence' here; the nearest are reference, reference-where"),
    "far off": ("zzz = 1", "there is no option 'zzz' here; the nearest are alpha, alternative"),
    "not itself": ("config = 'a.toml'", "there is no option 'config' here"),
    "twice": ("batch-rows = 1\nbatch_rows = 2", "'batch_rows' is given twice; give it once"),
    "not toml": ("data = ", "is not TOML: Invalid value"),
    "not utf-8": (b"data = '\xff'", "is not TOML: 'utf-8' codec"),
    "a list": ("data = ['a', 'b']", "data takes one value, got a list of 2"),
    "a table": ("[data]\na = 1", "data = {'a': 1} is no text, number or true/false"),
    "a date": ("data = 2024-02-29", "data = .* is no text, number or true/false"),
    "a half": ("seed = 1.5", "Invalid value for '--seed': .*integer"),
    "alpha": ("alpha = 'x'", "Invalid value for '--alpha'"),
    "no file": ("data = 'b.csv'", r"the data runs.b\.csv cannot be read: No such file"),
    "of another command": ("passes = 3", "there is no option 'passes' here"),
}


@pytest.mark.parametrize(("text", "message"), BAD_CONFIG.values(), ids=BAD_CONFIG)
def test_bad_config(butfor_in, config, files, capsys, text, message):
    path = config("")
    if isinstance(text, str):
        path = config(text)
    else:
        (files / path).write_bytes(text)
    given = {} if "data" in str(text) else {"data": "all.csv"}
    code, out = butfor_in("explain", "--config", path, **given, **SPLIT)
    said = capsys.readouterr()
    assert code == 2
    assert len(said.err.splitlines()) == 1
    assert re.match("butfor: .*" + message, said.err), said.err
    assert not out.exists()


def test_global_with_labels(butfor_in, capsys):
    asked = {"model": "m.joblib", "labels": "ill", "draws": "5", "passes": "99"}
    code, out = butfor_in("global", "--trust-pickle", data="all.csv", **asked)
    said = capsys.readouterr().out
    assert code == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "importance.png",
        "report.html",
        "result.butfor",
        "table.csv",
    ]
    result = butfor.load(out / "result.butfor")
    assert said.startswith(result.summary())
    assert (result.record.test, result.importance.inputs) == ("holdout", 600)
    assert result.record.reference == "600 rows of all.csv"
    assert (out / "importance.png").read_bytes().startswith(b"\x89PNG")


def test_global_against_a_reference(butfor_in, capsys):
    code, _ = butfor_in("global", "--json", data="all.csv", dates="opened", subsets="groups.json", **SPLIT)
    found = json.loads(capsys.readouterr().out)
    assert code == 0
    assert found["record"]["test"] == "contrast"
    assert {row["subset"]: row["chosen"] for row in found["table"]} == {"body": True, "colour": False}
    assert found["record"]["model"] == "m.py:score"


def test_global_goes_on_where_it_was_cut_short(butfor_in, capsys, monkeypatch, tmp_path):
    asked = {"data": "all.csv", "dates": "opened", "subsets": "groups.json", **SPLIT}
    _, whole = butfor_in("global", **asked)
    with monkeypatch.context() as cut:
        cut.setattr("butfor.cli.tables.write_folder", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        code, out = butfor_in("global", **{**asked, "out": tmp_path / "again"})
    assert code == 130
    assert "what is finished is kept; go on with: butfor resume" in capsys.readouterr().err
    table = (whole / "table.csv").read_bytes()
    code, out = butfor_in("global", **{**asked, "out": tmp_path / "again"})
    assert code == 0
    assert (out / "table.csv").read_bytes() == table
    assert not (out / "run").exists()


def test_the_report_of_a_global_result_can_be_written_again(butfor_in):
    _, out = butfor_in("global", data="all.csv", dates="opened", draws="2", **SPLIT)
    page = (out / "report.html").read_text(encoding="utf-8")
    (out / "report.html").unlink()
    assert main(["report", str(out)]) == 0
    assert (out / "report.html").read_text(encoding="utf-8") == page
    assert "butfor.global_importance(model, inputs, reference" in page


CHECKED = {"reference": "controls.csv", "dates": "opened"}


def test_check_sampler_on_a_share(butfor_in, capsys):
    code, out = butfor_in("check-sampler", sampler="forest", hold_out="0.3", **CHECKED)
    said = capsys.readouterr().out
    assert code == 0
    assert said.startswith("forest(350 reference rows, 4 columns), checked on 150 of 500 rows of controls.csv")
    assert "Sampler check: nothing against this sampler (150 held-out rows, 99 draws each" in said
    assert sorted(path.name for path in out.iterdir()) == ["check.png", "table.csv"]
    assert pd.read_csv(out / "table.csv").subset.tolist() == KINDS
    assert (out / "check.png").read_bytes().startswith(b"\x89PNG")


def test_check_sampler_on_another_file(butfor_in, capsys):
    asked = {"held_out": "more.csv", "model": "m.py:score", "draws": "19", "alpha": "0.001"}
    code, out = butfor_in("check-sampler", "--json", **asked, **CHECKED)
    found = json.loads(capsys.readouterr().out)
    assert code == 0
    assert (found["rows"], found["draws"], found["alpha"]) == (500, 19, 0.001)
    assert "model_p" in found["table"][0]
    assert pd.read_csv(out / "table.csv").shape[0] == 4


def test_a_sampler_that_looks_wrong_is_no_error(butfor_in, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    one = np.random.default_rng(0).normal(size=400)
    pd.DataFrame({"a": one, "b": one + 0.1 * np.random.default_rng(1).normal(size=400)}).to_csv("r.csv", index=False)
    assert main(["check-sampler", "--reference", "r.csv", "--sampler", "empirical", "--out", "o"]) == 0
    assert "2 of 2 subsets look wrong" in capsys.readouterr().out


GLOBAL = {"data": "all.csv", "dates": "opened", **SPLIT}
LABELLED = {**GLOBAL, "model": "m.py:seen", "labels": "colour", "drop": "group"}
BAD = {
    "loss without labels": ("global", {**GLOBAL, "loss": "log"}, "loss needs labels"),
    "target with labels": ("global", {**LABELLED, "target": "1"}, "target is for the contrast"),
    "labels unknown": ("global", {**GLOBAL, "labels": "zz"}, "--labels: the data has no column 'zz'"),
    "labels text": ("global", LABELLED, "loss='squared' needs y"),
    "labels alike": ("global", {**GLOBAL, "labels": "group"}, "y is 'case' in all 100 rows"),
    "nothing to compare": (
        "global",
        {"data": "all.csv", "model": "m.py:seen"},
        "there is nothing to compare with; give --reference FILE",
    ),
    "passes": ("global", {**GLOBAL, "passes": "0"}, "passes must be .*at least 1, got 0"),
    "rule": ("global", {**GLOBAL, "rule": "e-bh"}, "rule must be one of"),
    "global sampler": ("global", {**GLOBAL, "sampler": "x"}, "--sampler must be one of auto"),
    "global categories": ("global", {**GLOBAL, "sampler": "copula"}, "column 'colour' of the reference holds categ"),
    "no reference": ("check-sampler", {}, "Missing option '--reference'"),
    "reference not there": ("check-sampler", {"reference": "x.csv"}, "the reference x.csv cannot be read: No such"),
    "held out and hold out": (
        "check-sampler",
        {**CHECKED, "held_out": "more.csv", "hold_out": "0.2"},
        "--held-out and --hold-out were both given",
    ),
    "held out itself": (
        "check-sampler",
        {**CHECKED, "held_out": "controls.csv"},
        "--held-out controls.csv is the reference itself, .*; use --hold-out 0.2",
    ),
    "held out where": ("check-sampler", {**CHECKED, "held_out_where": "age > 3"}, "--held-out-where picks rows of"),
    "held out no rows": (
        "check-sampler",
        {**CHECKED, "held_out": "more.csv", "held_out_where": "age > 300"},
        "--held-out-where 'age > 300' matches none",
    ),
    "held out not there": (
        "check-sampler",
        {**CHECKED, "held_out": "x.csv"},
        "the held-out data x.csv cannot be read",
    ),
    "hold out all": ("check-sampler", {**CHECKED, "hold_out": "1"}, "--hold-out must lie strictly between 0 and 1"),
    "too few": ("check-sampler", {**CHECKED, "hold_out": "0.02"}, "needs at least 50 held-out rows, got 10"),
    "few draws": ("check-sampler", {**CHECKED, "draws": "5"}, "draws must be a whole number of at least 19, got 5"),
    "subsets": ("check-sampler", {**CHECKED, "subsets": "x.json"}, "the subsets x.json cannot be read"),
    "untrusted": ("check-sampler", {**CHECKED, "model": "m.joblib"}, "m.joblib is a pickle, .* add --trust-pickle"),
}


@pytest.mark.parametrize(("command", "asked", "message"), BAD.values(), ids=BAD)
def test_bad_input(butfor_in, capsys, command, asked, message):
    code, out = butfor_in(command, **asked)
    said = capsys.readouterr()
    assert code == 2
    assert said.out == ""
    assert len(said.err.splitlines()) == 1, said.err
    assert re.match(f"butfor: .*({message})", said.err), said.err
    assert not out.exists()


def test_parquet_without_pyarrow(butfor_in, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert butfor_in("explain", data="all.parquet", **SPLIT)[0] == 2
    assert "is Parquet, which needs pyarrow; pip install 'butfor[parquet]'" in capsys.readouterr().err


def test_types_of_a_skops_file_are_named(butfor_in, files, capsys):
    skops = pytest.importorskip("skops.io")
    skops.dump(make_pipeline(joblib.load(files / "m.joblib"), StrangeScale()), files / "m.skops")
    asked = {"model": "m.skops", "data": "all.csv", "reference_where": "group == 'control'"}
    code, out = butfor_in("explain", **asked)
    said = capsys.readouterr().err
    assert code == 2
    assert not out.exists()
    (kind,) = set(re.findall(r"--trust (\S*StrangeScale)", said))
    assert f"types that are not known to be harmless: {kind}" in said


class StrangeScale:
    """A type that nobody knows."""

    def __init__(self):
        self.classes_ = ["yes"]

    def fit(self, rows, labels=None):
        return self

    def predict(self, rows):
        return np.zeros(len(rows))


def test_combine_writes_what_is_chosen_over_all_files(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(rng.normal(size=(200, 2)), columns=["a", "b"]).to_csv("old.csv", index=False)
    (tmp_path / "model.py").write_text("def risk(rows):\n    return rows['a']\n")
    for k in (1, 2):
        new = pd.DataFrame(rng.normal([5, 0], 1, size=(30, 2)), columns=["a", "b"])
        new.assign(id=[f"p{k}{i}" for i in range(30)]).to_csv("new.csv", index=False)
        asked = [
            "explain",
            "--model",
            "model.py:risk",
            "--data",
            "new.csv",
            "--index",
            "id",
            "--quiet",
            "--test",
            "irt",
        ]
        assert main([*asked, "--reference", "old.csv", "--seed", str(k), "--out", f"run{k}"]) == 0
    assert main(["combine", "run1", "run2/result.butfor", "--out", "all.csv"]) == 0
    assert "Table: all.csv" in capsys.readouterr().out
    read = pd.read_csv("all.csv")
    assert set(read.file) == {"run1/result.butfor", "run2/result.butfor"}
    assert "p129" in read.input.tolist()
    assert main(["combine", "run1", "run1", "--out", "twice.csv"]) == 2
    assert not (tmp_path / "twice.csv").exists()
