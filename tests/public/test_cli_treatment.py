"""`butfor treatment` in a shell: what it writes, what it prints, and what it refuses."""

import json

import numpy as np
import pandas as pd
import pytest

from butfor.cli.app import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("treatment")
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], 300)
    table = pd.DataFrame({"sex": sex, "income": rng.normal(size=300), "debt": rng.normal(size=300)})
    table["hours"] = np.where(sex == "f", -1.0, 1.0) + 0.4 * rng.normal(size=300)
    table[:60].to_csv(place / "people.csv", index=False)
    table[60:].to_csv(place / "earlier.csv", index=False)
    (place / "model.py").write_text(
        "def score(rows):\n    return rows['income'] - rows['debt'] - (rows['hours'] < 0)\n", encoding="utf-8"
    )
    return place


def call(folder, *more):
    named = ["--model", f"{folder / 'model.py'}:score", "--data", str(folder / "people.csv")]
    named += ["--reference", str(folder / "earlier.csv"), "--decide", "output > 0", "--out", str(folder / "out")]
    return main(["treatment", *named, "--quiet", *more])


def test_who_is_named(folder, capsys):
    assert (
        call(folder, "--attribute", "sex", "--drop", "sex", "--proxies", "hours", "--favourable", "true", "--json") == 0
    )
    made = json.loads(capsys.readouterr().out)
    table = pd.read_csv(folder / "out" / "table.csv")
    assert set(table[table.accused].value) == {"f"}
    assert table.accused.sum() >= 3
    assert [row["accused"] for row in made["table"]] == table.accused.tolist()
    assert "Treated otherwise but for sex" in (folder / "out" / "report.html").read_text(encoding="utf-8")
    assert "does not get sex" in " ".join(made["summary"])


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--attribute", "gender"], "attribute: there is no column 'gender'"),
        (["--attribute", "sex", "--drop", "sex"], "the model does not get sex, and no proxies are declared"),
        (["--attribute", "sex", "--legitimate", "hours", "--proxies", "hours"], "both legitimate and a proxy"),
        (["--attribute", "sex", "--favourable", "approved"], "--favourable must be true or false with --decide"),
        (["--proxies", "hours"], "--attribute"),
    ],
)
def test_bad_input_is_one_sentence(folder, capsys, more, words):
    assert call(folder, *more) == 2
    assert words in capsys.readouterr().err
