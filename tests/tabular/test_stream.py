"""Tables in blocks: the evidence and the choice of one run in memory, whatever the blocks and the files."""

import json

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.tabular.stream import READ, explain_stream, in_blocks, read_blocks, written_blocks
from butfor.types import InputError

RNG = np.random.default_rng(0)
REFERENCE = pd.DataFrame(RNG.normal(size=(300, 4)), columns=list("abcd"))
DATA = pd.DataFrame(RNG.normal(size=(1500, 4)), columns=list("abcd"))
DATA.loc[:500, "a"] += 4
SAMPLER = butfor.tabular.gaussian(REFERENCE)


def model(rows):
    return rows["a"] + 0.5 * rows["b"] * (rows["c"] > 0)


def streamed(tmp_path, data, ending="parquet", **options):
    found = explain_stream(model, data, SAMPLER, out=tmp_path / f"found.{ending}", control=False, **options)
    return found, pd.concat(written_blocks(found.path), ignore_index=True)


def in_memory(data, **options):
    return butfor.explain(model, data, SAMPLER, subsets="columns", effects=None, control=False, **options)


CASES = {
    "osft": {"test": "osft"},
    "irt": {"test": butfor.irt(99)},
    "adaptive": {"test": butfor.irt(99), "rule": "adaptive"},
    "less": {"test": "osft", "alternative": "greater", "alpha": 0.2},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_the_choice_of_one_run_in_memory(tmp_path, case, ending):
    path = tmp_path / f"data.{ending}"
    DATA.to_parquet(path) if ending == "parquet" else DATA.to_csv(path, index=False)
    found, table = streamed(tmp_path, path, ending, block_rows=600, **CASES[case])
    one = in_memory(pd.read_parquet(path) if ending == "parquet" else pd.read_csv(path), **CASES[case])
    assert (table["z" if "z" in table else "p"] == one.evidence.values).all()
    assert (table["chosen"] == one.chosen).all()
    assert found.chosen == one.chosen.sum() > 100
    assert (found.rows, found.hypotheses) == (1500, 6000)
    assert table["input"].tolist() == np.repeat(np.arange(1500), 4).tolist()
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"data.{ending}", f"found.{ending}"]


def test_blocks_of_any_size_and_frames_as_they_come(tmp_path):
    tables = [streamed(tmp_path, DATA, block_rows=rows, test="osft")[1] for rows in (256, 1024, 5000)]
    pieces = (DATA.iloc[a : a + 333] for a in range(0, 1500, 333))
    tables.append(streamed(tmp_path, pieces, block_rows=256, test="osft")[1])
    again = (DATA.iloc[a : a + 333].reset_index(drop=True) for a in range(0, 1500, 333))
    tables.append(streamed(tmp_path, again, block_rows=256, test="osft")[1])
    assert all(table.equals(tables[0]) for table in tables)


def test_sequential_streams_keep_their_level_and_find(tmp_path):
    found, table = streamed(tmp_path, DATA, block_rows=512)
    truth = table["subset"].isin(["a", "b", "c"])  # d is never looked at
    assert found.chosen > 300
    assert table["chosen"][~truth].sum() <= 0.1 * found.chosen
    assert found.guarantee.family.startswith("all hypotheses of the file")


def test_the_control_of_the_first_block_holds_for_all(tmp_path):
    """A sampler whose draws of one column are far too narrow: never chosen, in no block."""
    narrow = REFERENCE.assign(a=REFERENCE["a"])
    found = explain_stream(model, DATA, narrow, out=tmp_path / "t.csv", block_rows=512)
    assert any("held-out rows of the reference" in str(note) for note in found.notes)
    assert "control=False" not in str(found.guarantee)


def test_whole_numbers_with_gaps_in_one_block_only(tmp_path):
    frame = pd.DataFrame({"count": pd.array(range(READ + 10), dtype="Int64"), "ok": True})
    frame.loc[READ + 3, "count"] = pd.NA
    frame.astype({"count": float}).to_csv(tmp_path / "d.csv", index=False)
    frame.to_parquet(tmp_path / "d.parquet", row_group_size=READ)
    for name in ("d.csv", "d.parquet"):
        kinds = [block["count"].dtype for block in read_blocks(tmp_path / name, "data")]
        assert len(kinds) == 2
        assert len(set(map(str, kinds))) == 1, (name, kinds)


def test_csv_columns_that_turn_to_text_late(tmp_path):
    lines = ["x,y", *(f"{i},1" for i in range(READ)), "late,1.5"]
    (tmp_path / "d.csv").write_text("\n".join(lines) + "\n")
    blocks = list(read_blocks(tmp_path / "d.csv", "data"))
    assert [block["x"].iloc[-1] for block in blocks] == [str(READ - 1), "late"]
    assert {str(block["y"].dtype) for block in blocks} == {"float64"}


def test_in_blocks():
    frames = [pd.DataFrame({"a": range(n)}) for n in (5, 1, 9, 0, 2)]
    assert [len(block) for block in in_blocks(frames, 4)] == [4, 4, 4, 4, 1]


def test_json_and_words(tmp_path):
    found, _ = streamed(tmp_path, DATA, test="osft", block_rows=512)
    told = json.loads(found.to_json())
    assert told["chosen"] == found.chosen == sum(told["by_subset"].values())
    assert "over all hypotheses of the file" in found.summary()


REFUSED = {
    "test='few-shot'": ({"test": "few-shot"}, "a stream takes test="),
    "rule": ({"rule": "by"}, "takes rule='bh'"),
    "sequential adaptive": ({"rule": "adaptive"}, "takes rule='bh'"),
    "tree": ({"subsets": {"x": {"y": ["a"], "z": ["b"]}}}, "not a tree"),
    "truth": ({"target": "truth"}, "needs labels"),
    "ending": ({"out": "x.xlsx"}, r"must end in \.parquet or \.csv"),
    "folder": ({"out": "/nowhere/at/all.csv"}, "cannot write"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_refusals(tmp_path, why):
    options, message = REFUSED[why]
    with pytest.raises(InputError, match=message):
        explain_stream(model, DATA, SAMPLER, **{"out": tmp_path / "t.csv"} | options)
    assert not any(tmp_path.iterdir())


def test_a_model_that_fails_leaves_nothing_behind(tmp_path):
    def late(rows):
        if rows.index.max() > 1000:
            raise RuntimeError("no")
        return rows["a"]

    with pytest.raises(butfor.ModelError):
        explain_stream(late, DATA, SAMPLER, out=tmp_path / "t.parquet", test="osft", block_rows=512)
    assert not any(tmp_path.iterdir())
