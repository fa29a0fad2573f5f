"""The command line: what it writes and prints, and one clear sentence with exit code 2 for every mistake."""

import inspect
import json
import operator
import os
import re
import signal
import subprocess
import sys
from dataclasses import fields
from functools import partial

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.cli.app import main

MODEL = """
import time
import numpy as np

def score(rows):
    assert list(rows.columns) == ["a", "b", "c"], list(rows.columns)
    return rows["a"] + 0.5 * rows["b"]

def classes(rows):
    print("a model that prints")
    odds = np.exp(rows["a"])
    return np.column_stack([1 / (1 + odds), odds / (1 + odds)])

def short(rows): return np.zeros(3)
def nan(rows): return np.where(np.arange(len(rows)) == 17, np.nan, 1.0)
def text(rows): return ["yes"] * len(rows)
def raises(rows):
    if (rows["c"] == 99).any():
        raise ValueError("no such thing as 99")
    return rows["a"]
def slow(rows):
    print("begun", flush=True)
    time.sleep(0.5)
    return rows["a"]
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    (folder / "m.py").write_text(MODEL, encoding="utf-8")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(260, 3)), columns=["a", "b", "c"])
    frame.insert(0, "id", [f"p{i}" for i in range(260)])
    frame["group"] = np.where(np.arange(260) < 200, "control", "case")
    frame.loc[200:, "a"] += 4
    numbers = frame[["a", "b", "c"]]
    frame.to_csv(folder / "all.csv", index=False)
    numbers[:200].to_csv(folder / "reference.csv", index=False)
    data = numbers[200:230]
    data.to_csv(folder / "data.csv", index=False)
    data.assign(c=np.where(np.arange(30) == 17, 99, 0)).to_csv(folder / "row17.csv", index=False)
    data.assign(b=[1.0] * 29 + [None]).to_csv(folder / "nan.csv", index=False)
    numbers[:200].assign(b=7).to_csv(folder / "constant.csv", index=False)
    data.assign(b="x").to_csv(folder / "words.csv", index=False)
    data[:1].to_csv(folder / "one.csv", index=False)
    data[:0].to_csv(folder / "none.csv", index=False)
    data.drop(columns="c").to_csv(folder / "two.csv", index=False)
    (folder / "alike.csv").write_text("a,b,c,a\n1,2,3,4\n", encoding="utf-8")
    (folder / "latin.csv").write_bytes("a,b,c\n1,2,ü\n".encode("latin-1"))
    (folder / "groups.json").write_text('{"ab": ["a", "b"], "c": ["c"]}', encoding="utf-8")
    (folder / "unknown.json").write_text('{"ab": ["a", "d"]}', encoding="utf-8")
    (folder / "overlap.json").write_text('{"ab": ["a", "b"], "bc": ["b", "c"]}', encoding="utf-8")
    (folder / "broken.json").write_text("{", encoding="utf-8")
    (folder / "m.pkl").write_bytes(b"")
    return folder


@pytest.fixture
def explain(files, tmp_path, monkeypatch):
    """Run `butfor explain` in the folder of the files: code, out folder."""
    monkeypatch.chdir(files)

    def run(*given, **asked):
        out = tmp_path / "out"
        asked = {"model": "m.py:score", "data": "data.csv", "reference": "reference.csv", "out": str(out)} | asked
        pairs = [(f"--{name}", value) for name, value in asked.items() if value is not None]
        options = [part for pair in pairs for part in pair if part is not True]  # a flag has no value
        return main(["explain", *options, *given]), out

    return run


def test_explain_writes_and_says(explain, capsys):
    code, out = explain()
    said = capsys.readouterr()
    assert code == 0
    assert sorted(path.name for path in out.iterdir()) == ["report.html", "result.butfor", "table.csv"]
    result = butfor.load(out / "result.butfor")
    assert said.out.startswith(result.summary())
    assert f"Report: {out / 'report.html'}" in said.out
    assert pd.read_csv(out / "table.csv").query("chosen and subset == 'a'").shape[0] > 25
    assert "Reference (what the inputs are compared with)" in (out / "report.html").read_text(encoding="utf-8")
    assert result.record.model == "m.py:score"


def test_the_library_gives_the_same(explain, files):
    _, out = explain("--test", "irt", "--draws", "199", "--seed", "3", "--alpha", "0.2")
    sampler = butfor.tabular.auto(pd.read_csv(files / "reference.csv"))
    data, model = pd.read_csv(files / "data.csv"), lambda rows: rows["a"] + 0.5 * rows["b"]
    result = butfor.explain(model, data, sampler, test="irt", draws=199, seed=3, alpha=0.2)
    pd.testing.assert_frame_equal(butfor.load(out / "result.butfor").table, result.table)


def test_one_file_split_by_a_text_column(explain, capsys):
    code, out = explain("--index", "id", "--reference-where", "group == 'control'", data="all.csv", reference=None)
    assert code == 0
    assert "60 inputs" in capsys.readouterr().out
    assert pd.read_csv(out / "table.csv").input[0] == "p200"


@pytest.mark.parametrize("sampler", ["gaussian", "copula", "empirical", "forest", "neighbours"])
def test_samplers_and_subsets(explain, sampler):
    code, out = explain("--sampler", sampler, "--subsets", "groups.json", "--quiet")
    assert code == 0
    result = butfor.load(out / "result.butfor")
    assert result.subset_names == ("ab", "c")
    assert result.record.sampler.startswith(sampler)


def test_json_is_all_there_is_on_stdout(explain, capsys):
    code, _ = explain("--json", "--target", "1", "--link", "logit", model="m.py:classes")
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert code == 0
    assert found["chosen"] == sum(row["chosen"] for row in found["table"]) > 0
    assert found["record"]["target"] == 1
    assert "a model that prints" in said.err


def test_true_labels(explain):
    options = ("--reference-where", "group == 'control'", "--drop", "id", "--truth", "b", "--target", "truth")
    assert explain(*options, model="m.py:classes", data="all.csv", reference=None)[0] == 2  # b holds no classes
    assert explain("--target", "truth")[0] == 2


def test_notes_are_plain_lines(explain, capsys):
    explain("--test", "irt", "--draws", "50", "--sampler", "gaussian")
    lines = capsys.readouterr().err.splitlines()
    assert [line[:24] for line in lines] == ["note: With 50 draws and "]
    assert "a single unusual case cannot be shown" in lines[0]
    explain("--test", "irt", "--draws", "50", "--sampler", "gaussian", "--quiet")
    assert capsys.readouterr().err == ""


def test_options_of_one_test(explain, files):
    sampler = butfor.tabular.gaussian(pd.read_csv(files / "reference.csv"))
    data, model = pd.read_csv(files / "data.csv"), lambda rows: rows["a"] + 0.5 * rows["b"]
    for options, test in {
        ("--h", "3"): butfor.sequential(h=3),
        ("--test", "irt", "--draws", "300", "--early-stop"): butfor.irt(300, early_stop=True),
        ("--test", "few-shot", "--scale", "shrunk"): butfor.few_shot(scale="shrunk"),
    }.items():
        _, out = explain(*options, "--sampler", "gaussian", "--quiet")
        expected = butfor.explain(model, data, sampler, test=test)
        pd.testing.assert_frame_equal(butfor.load(out / "result.butfor").table, expected.table)


def test_no_discoveries_is_done_too(explain, capsys):
    code, out = explain("--alpha", "0.01", data="reference.csv")  # one run in ten has a false discovery at 0.1
    assert code == 0
    assert "look like reference rows" in " ".join(capsys.readouterr().out.split())
    assert (out / "report.html").exists()


BAD = {
    "wrong length": ({"model": "m.py:short"}, r"the model returned shape \(3,\) for 30 rows; expected \(30,\)"),
    "nan": ({"model": "m.py:nan"}, "the model returned nan on row 17 of the data"),
    "strings": ({"model": "m.py:text"}, "the model returned .*'yes'.*; expected an array of numbers"),
    "row 17": ({"model": "m.py:raises", "data": "row17.csv"}, "raised ValueError on row 17 .*: no such thing as 99"),
    "missing value": ({"data": "nan.csv"}, "the model returned nan on row 29 of the data"),
    "missing in reference": (
        {"reference": "nan.csv", "sampler": "copula"},
        "the reference has nan in row 29, column 'b'",
    ),
    "constant": (
        {"reference": "constant.csv", "sampler": "gaussian"},
        r"column 'b' of the reference is constant \(7\)",
    ),
    "alpha 0": ({"alpha": "0"}, "alpha must lie strictly between 0 and 1, got 0.0"),
    "alpha 1.5": ({"alpha": "1.5"}, "alpha must lie strictly between 0 and 1, got 1.5"),
    "alpha x": ({"alpha": "x"}, "Invalid value for '--alpha'.*; see butfor --help"),
    "draws 0": ({"draws": "0"}, "draws must be .*at least 1, got 0"),
    "seed": ({"seed": "-1"}, "seed must be .*at least 0, got -1"),
    "test": ({"test": "magic"}, "test must be one of .*'irt'.*, got 'magic'"),
    "rule": ({"test": "osft", "rule": "holm"}, "rule='holm' .*test='osft'"),
    "early stop of another": (
        {"early-stop": True},
        "--early-stop is for --test irt, not for sequential; drop it",
    ),
    "h of another": ({"h": "3", "test": "irt"}, "--h is for --test sequential, not for irt; drop it"),
    "scale of another": ({"scale": "shrunk", "test": "osft"}, "--scale is for --test few-shot, not for osft"),
    "h 0": ({"h": "0"}, "h must be .*at least 1, got 0"),
    "scale": ({"scale": "x", "test": "few-shot"}, "scale must be one of None, 'shrunk', got 'x'"),
    "sampler": ({"sampler": "magic"}, "--sampler must be one of auto, residual, .*, got 'magic'"),
    "target": ({"target": "magic"}, "unknown target 'magic'"),
    "link": ({"link": "logit"}, "link='logit' needs probabilities"),
    "unknown column": ({"subsets": "unknown.json"}, "unknown column 'd' in subsets; the data has a, b, c"),
    "overlap": ({"subsets": "overlap.json"}, "column 'b' is in subset 'ab' and in 'bc'"),
    "not json": ({"subsets": "broken.json"}, "the subsets broken.json are not JSON"),
    "named alike": ({"data": "alike.csv"}, "the data alike.csv has columns named alike: a"),
    "other columns": ({"data": "two.csv"}, r"other columns \(c only in the reference\)"),
    "no rows": ({"data": "none.csv"}, "the data none.csv has a header but no rows"),
    "one row": (
        {"reference": "one.csv", "sampler": "gaussian"},
        "the reference has one row; a Gaussian sampler needs at least 2",
    ),
    "not utf-8": ({"data": "latin.csv"}, r"latin.csv is not UTF-8: byte 10 \(line 2\) is 0xfc"),
    "words": ({"data": "words.csv"}, r"column 'b' holds text in the data \('x' in row 0\) and none in the reference"),
    "no file": ({"data": "nowhere.csv"}, "the data nowhere.csv cannot be read: No such file"),
    "no reference": ({"reference": None}, "there is nothing to compare with; give --reference FILE"),
    "no model": ({"model": None}, "Missing option '--model'; see butfor --help"),
    "pickle": ({"model": "m.pkl"}, "m.pkl is a pickle, .* add --trust-pickle"),
    "unknown model": ({"model": "m.zip"}, "m.zip is not a model that can be loaded"),
    "no model file": ({"model": "m.onnx"}, "the model file m.onnx does not exist"),
    "no config": ({"config": "none.toml"}, "--config none.toml cannot be read: No such file"),
}


@pytest.mark.parametrize(("asked", "message"), BAD.values(), ids=BAD)
def test_bad_input(explain, capsys, asked, message):
    code, out = explain("--quiet", **asked)
    said = capsys.readouterr()
    assert code == 2
    assert said.out == ""
    assert len(said.err.splitlines()) == 1, said.err
    assert re.match("butfor: .*" + message, said.err), said.err
    assert not out.exists()


def test_bad_input_leaves_an_older_result_as_it_was(explain):
    _, out = explain("--quiet")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert explain("--quiet", model="m.py:nan")[0] == 2
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_one_row_of_data_is_fine(explain):
    assert explain("--quiet", data="one.csv")[0] == 0


def test_out_that_is_a_file(explain, capsys):
    assert explain(out="m.py")[0] == 2
    assert "--out m.py is a file; name a folder" in capsys.readouterr().err


def test_report_again(explain, capsys):
    """result.butfor keeps what the report shows, counterfactuals too: written again it is the same."""
    _, out = explain("--quiet")
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "counterfactual" in page
    (out / "report.html").write_text("something else")
    capsys.readouterr()
    assert main(["report", str(out)]) == 0
    assert (out / "report.html").read_text(encoding="utf-8") == page
    assert sorted(path.name for path in out.iterdir()) == ["report.html", "result.butfor", "table.csv"]
    said = capsys.readouterr()
    assert (said.out, said.err) == (f"Report: {out / 'report.html'}\n", "")
    assert main(["report", str(out.parent / "none")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_report_of_images(files, tmp_path, capsys):
    """Images are not in the file: they are read from where they were, and missed in one sentence."""
    files_of_images = pytest.importorskip("PIL.Image")
    (tmp_path / "album").mkdir()
    noise = np.random.default_rng(0).integers(90, 110, (8, 24, 24, 3), dtype=np.uint8)
    noise[:, :8, :8] += 100
    for number, image in enumerate(noise):
        files_of_images.fromarray(image).save(tmp_path / "album" / f"p{number}.png")
    (tmp_path / "m.py").write_text("def light(batch): return [image[:8, :8].mean() for image in batch]\n")
    options = ["--images", str(tmp_path / "album"), "--alternative", "greater", "--quiet"]
    assert main(["image", "--model", f"{tmp_path}/m.py:light", "--out", str(tmp_path / "o"), *options]) == 0
    page, again = (tmp_path / "o" / "report.html").read_text(encoding="utf-8"), ["report", str(tmp_path / "o")]
    assert page.count("data:image") > 8
    capsys.readouterr()
    assert main(again) == 2  # a result that somebody sent may name any file
    assert "name its folder: --images" in capsys.readouterr().err
    again += ["--images", str(tmp_path / "album")]
    assert main(again) == 0
    assert (tmp_path / "o" / "report.html").read_text(encoding="utf-8") == page
    assert capsys.readouterr().err == ""
    changed = tmp_path / "album" / "p3.png"
    before = changed.read_bytes()
    files_of_images.fromarray(255 - noise[3]).save(changed)
    with pytest.warns(UserWarning, match=r"p3\.png is not as it was when the run read it; it is left out"):
        assert main(again) == 2
    assert "report.html has pictures: it was kept" in capsys.readouterr().err
    assert (tmp_path / "o" / "report.html").read_text(encoding="utf-8") == page
    changed.write_bytes(before)
    (tmp_path / "album").rename(tmp_path / "elsewhere")
    assert main(again) == 2
    assert (
        "cannot be read from their files any more, and report.html has pictures: it was kept" in capsys.readouterr().err
    )
    assert (tmp_path / "o" / "report.html").read_text(encoding="utf-8") == page
    (tmp_path / "o" / "report.html").unlink()
    assert main(["report", str(tmp_path / "o" / "result.butfor")]) == 0
    assert "data:image" not in (tmp_path / "o" / "report.html").read_text(encoding="utf-8")


def test_demo_of_another_kind(tmp_path, capsys):
    assert main(["demo", "sound", "--out", str(tmp_path / "d")]) == 2
    assert "there is no demo 'sound'" in capsys.readouterr().err
    assert not (tmp_path / "d").exists()


def test_demo(tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path / "d")]) == 0
    text = capsys.readouterr().out
    assert "The reference is 180 benign patients" in text
    assert "Check: the same call on 70 other benign patients chooses" in text
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == ["report.html", "result.butfor", "table.csv"]


def test_demo_as_json(tmp_path, capsys):
    assert main(["demo", "tabular", "--json", "--out", str(tmp_path / "d")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {name: one["hypotheses"] for name, one in found.items()} == {"malignant": 1043, "benign": 490}


def test_demo_of_images(tmp_path, capsys, monkeypatch):
    """Four slides instead of twelve: the figures are tested with the demo itself."""
    from butfor.image import demo

    monkeypatch.setattr(demo, "tissue", partial(demo.tissue, count=4))
    assert main(["demo", "image", "--out", str(tmp_path / "d")]) == 0
    assert "trained on labels that follow the pen" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == ["report.html", "result.butfor", "table.csv"]


def python(*arguments, **options):
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        encoding="utf-8",
        **options,
    )


def test_help_is_light():
    """Nothing heavy is imported for it: a time would depend on what else the machine does."""
    done = python("-m", "butfor", "--help")
    assert done.returncode == 0
    assert all(command in done.stdout for command in ("demo", "explain", "image", "text", "report", "studio"))
    loaded = python("-c", "import sys, butfor.cli; print(*sys.modules)").stdout.split()
    heavy = {"pandas", "sklearn", "scipy.stats", "matplotlib", "torch", "jinja2", "joblib", "onnxruntime", "tokenizers"}
    assert not heavy & set(loaded)
    assert not {"butfor.image", "butfor.text", "butfor.multimodal", "butfor.simulate"} & set(loaded)


def test_help_names_what_there_is():
    """Help is written out, so that it need not load what it names."""
    from butfor.image.models import PRESETS
    from butfor.image.named import INPAINTERS
    from butfor.text.named import SAMPLERS

    wide = {**os.environ, "COLUMNS": "400"}
    images = python("-m", "butfor.cli", "image", "--help", env=wide).stdout
    assert f"What fills a region: {', '.join(INPAINTERS)}," in images
    *others, last = PRESETS
    assert f"How images go into the model: {', '.join(others)} or {last}." in images
    texts = python("-m", "butfor.cli", "text", "--help", env=wide).stdout
    assert f"What redraws words: {', '.join(SAMPLERS)}," in texts


@pytest.mark.parametrize("name", ["explain", "global_importance", "image.explain", "text.explain", "check_sampler"])
def test_options_are_generated_from_settings(name):
    """Every keyword that a shell can give has an option of its name, and every such option is a keyword."""
    from butfor.cli import media, tables
    from butfor.cli.options import NOT_TYPED

    library = inspect.signature(operator.attrgetter(name)(butfor)).parameters
    commands = {"explain": tables.explain, "global_importance": tables.global_, "check_sampler": tables.check}
    commands |= {"image.explain": media.image, "text.explain": media.text}
    options = inspect.signature(commands[name]).parameters
    settings = {field.name for kind in (butfor.Settings, butfor.RunOptions) for field in fields(kind)} - {*NOT_TYPED}
    assert settings & set(options) <= set(library)
    left = {"run_dir"} if name == "image.explain" else set()  # fills are kept, and a run of images is short
    assert settings & set(library) - set(options) == left


def test_help_lists_every_rule():
    from butfor.inference.guarantees import PROMISES

    shown = " ".join(
        python("-m", "butfor.cli", "explain", "--help", env={**os.environ, "COLUMNS": "400"}).stdout.split()
    )
    given = {test: rules for test, rules in PROMISES.items() if test != "where"}  # which has one rule, by itself
    assert all(rule in shown for rules in given.values() for rule in rules)
    assert "--effects <str> One of all, chosen, none." in shown


def test_version():
    assert python("-m", "butfor.cli", "--version").stdout == butfor.__version__ + "\n"


def _options(model, out):
    return ["--model", model, "--data", "data.csv", "--reference", "reference.csv", "--out", str(out), "--test", "irt"]


def test_a_mistake_in_a_real_process(files, tmp_path):
    options = _options("m.py:nan", tmp_path / "o")
    done = python("-m", "butfor.cli", "explain", *options, cwd=files)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("butfor: the model returned nan on row 17")
    assert done.stdout == ""


@pytest.mark.skipif(os.name == "nt", reason="SIGINT cannot be sent to one process there")
def test_control_c(files, tmp_path):
    options = _options("m.py:slow", tmp_path / "o")
    command = [sys.executable, "-m", "butfor.cli", "explain", *options]
    with subprocess.Popen(command, cwd=files, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
        assert process.stderr.read().splitlines()[-1] == "butfor: stopped; nothing was written"
    assert not (tmp_path / "o").exists()
