"""The page on texts: its examples run as they stand, and what it says of the demo is so."""

import re
import shlex
import warnings
from pathlib import Path

import matplotlib
import pandas as pd
import pytest
import skops.io
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from butfor import ReachWarning
from butfor.cli.app import main
from butfor.text import TextWarning
from butfor.text.demo import REVIEWS
from tools.shown import matches, run

PAGE = (Path(__file__).parents[2] / "docs" / "texts.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def scope(tmp_path_factory):
    """What the examples leave behind, run one after the other."""
    matplotlib.use("agg")
    place = tmp_path_factory.mktemp("page")
    names = {}
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", TextWarning)  # texts without a match
        warnings.simplefilter("ignore", ReachWarning)
        patch.chdir(place)
        for output, block in run("docs/texts.md", names):
            assert not block.strip() or matches(output, block), "renew it: python -m tools.shown docs/texts.md"
    matplotlib.pyplot.close("all")
    assert (place / "report.html").exists()
    return names


def test_the_examples_run_and_find_what_the_page_says(scope):
    assert {"wonderful", "perfect"} <= set(scope["result"].table.subset[scope["result"].chosen])
    assert scope["few"].chosen.any()
    assert scope["one"].hypotheses.items.inputs[0][2:18] == "wonderful little"
    assert len(scope["counts"]) == len({name.split(" #")[0].lower() for name in scope["result"].subset_names})


def test_the_commands_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"id": list(REVIEWS), "review": list(REVIEWS.values())}).to_csv("reviews.csv", index=False)
    tickets = pd.DataFrame(
        {"text": ["my invoice is wrong", "my password is wrong"] * 20, "queue": ["billing", "login"] * 20}
    )
    tickets.to_csv("train.csv", index=False)
    pd.DataFrame({"text": ["a wrong invoice", "a wrong password"]}).to_csv("new.csv", index=False)
    pipeline = make_pipeline(CountVectorizer(), LogisticRegression()).fit(tickets.text, tickets.queue)
    skops.io.dump(pipeline, "tickets.skops")
    (block,) = blocks("sh")
    for command in block.strip().splitlines():
        program, *arguments = shlex.split(command)
        assert program == "butfor"
        assert main([*arguments, "--quiet"]) == 0, command
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"words", "few", "tickets"}
    assert "[+wonderful]" in capsys.readouterr().out
