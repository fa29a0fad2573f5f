"""butfor.combine chooses over many results what the rule chooses over all their evidence at once."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor import selection
from butfor.types import InputError

RNG = np.random.default_rng(0)
REFERENCE = pd.DataFrame(RNG.normal(size=(300, 3)), columns=list("abc"))
DATA = pd.DataFrame(RNG.normal(size=(90, 3)), columns=list("abc"))
DATA.loc[:30, "a"] += 4
SAMPLER = butfor.tabular.gaussian(REFERENCE)
CUTS = (0, 37, 52, 90)  # three chunks of different sizes


def model(rows):
    return rows["a"] + 0.5 * rows["b"] * (rows["c"] > 0)


def chunks(sampler=SAMPLER, seeds=(1, 2, 3), **settings):
    settings = {"subsets": "columns", "effects": None, "control": False, **settings}
    spans = zip(CUTS[:-1], CUTS[1:], seeds, strict=True)
    return [butfor.explain(model, DATA[a:b], sampler, seed=seed, **settings) for a, b, seed in spans]


def with_evidence(results, values):
    """The same results with other evidence, all of it tested."""
    made, start = [], 0
    for result in results:
        part = values[start : start + len(result.chosen)]
        start += len(part)
        evidence = replace(result.evidence, values=part, varied=np.ones(len(part), bool))
        made.append(replace(result, evidence=evidence))
    return made


def p_values(kind, rng, size):
    p = rng.random(size)
    if kind == "signals":
        p[: size // 5] **= 8
    elif kind == "tied":
        p = np.ceil(p**3 * 101) / 101
    elif kind == "line":  # along BH's own line, a rounding above or below it
        p = 0.1 * np.arange(1, size + 1) / size * (1 + rng.choice([-1e-15, 0, 1e-15, 1e-11], size))
    elif kind == "edges":
        p = rng.choice([0.0, 5e-324, 1e-300, 0.05, 0.1, np.nextafter(0.1, 1), 1.0], size)
    return p


@pytest.fixture(scope="module")
def irt():
    return chunks(test=butfor.irt(99), rule="bh")


@pytest.mark.parametrize("kind", ["null", "signals", "tied", "line", "edges"])
@pytest.mark.parametrize("rule", ["bh", "by", "holm", "bonferroni"])
def test_p_values_as_in_memory(irt, kind, rule):
    for seed in range(4):
        p = p_values(kind, np.random.default_rng(seed), 3 * len(DATA))
        for alpha in (0.01, 0.1, 0.5):
            found = butfor.combine(with_evidence(irt, p), alpha, rule)
            wanted = getattr(selection, rule)(p, alpha)
            assert (np.concatenate(found.chosen) == wanted).all(), (seed, alpha)
            assert len(found.table) == wanted.sum()


@pytest.mark.parametrize("kind", ["signals", "tied"])
def test_differences_scores_and_e_values_as_in_memory(kind):
    rng = np.random.default_rng(0)
    z = rng.normal(0.5, 1, 3 * len(DATA))
    z = np.round(z, 1) if kind == "tied" else z
    one = butfor.combine(with_evidence(chunks(test="osft"), z), 0.2)
    assert (np.concatenate(one.chosen) == selection.knockoff_plus(z, 0.2)).all()
    assert one.rule == "knockoff+"
    few = chunks(test="few-shot", draws=12)
    two = butfor.combine(with_evidence(few, z), 0.2)
    assert (np.concatenate(two.chosen) == selection.seqstep(np.array(z), 0.2, 12)).all()
    e = np.exp(2 * z)
    three = butfor.combine(with_evidence(chunks(test=butfor.irt(99), rule="e-bh"), e), 0.2)
    assert (np.concatenate(three.chosen) == selection.e_bh(e, 0.2)).all()


def test_the_donors_of_a_sampler_count_over_all_results():
    """Values beyond all rows that the sampler draws from are false wins; their expected number adds up."""
    results = chunks(butfor.tabular.empirical(REFERENCE), test="osft")
    z = np.concatenate([result.evidence.values for result in results])
    floor = np.concatenate([result.choice.floor for result in results])
    found = butfor.combine(results, 0.2)
    assert (np.concatenate(found.chosen) == selection.knockoff_plus(z, 0.2, float(floor.sum()))).all()


def test_adaptive_learns_over_all_results():
    results = chunks(test=butfor.irt(99), rule="adaptive")
    found = butfor.combine(results)
    p = np.concatenate([result.evidence.values for result in results]).reshape(-1, 3)
    wanted = selection.adaptive(p, 0.1)
    assert found.rule == "adaptive"
    assert abs(np.concatenate(found.chosen).sum() - wanted.sum()) <= 3  # other folds
    assert wanted.sum() > 20


def test_from_coarse_to_fine_one_file_is_one_run(tmp_path):
    for options in ({}, {"rule": "bh"}, {"test": "irt", "rule": "adaptive"}):
        result = butfor.explain(model, DATA, REFERENCE, **options)
        rule = "bh" if not options else None  # sequential p-values depend on the other inputs: no weights again
        found = butfor.combine([result.save(tmp_path / "one.butfor")])
        assert (found.chosen[0] == result.select(rule=rule).chosen).all()
    parts = [butfor.explain(model, DATA[a : a + 30], REFERENCE, seed=a, bounds=True) for a in (0, 30, 60)]
    found = butfor.combine(parts)
    for part, chosen in zip(parts, found.chosen, strict=True):
        above = part.hypotheses.layers.parent
        inner = chosen & (part.hypotheses.layers.resolution > 1)
        assert chosen[above[inner]].all()  # a part is chosen only where what it is a part of is
    assert sum(map(sum, found.chosen)) > 30


def test_files_are_read_one_at_a_time_and_written(tmp_path, irt):
    files = [result.save(tmp_path / f"{k}.butfor") for k, result in enumerate(irt)]
    found, same = butfor.combine(files), butfor.combine(irt)
    assert all((one == two).all() for one, two in zip(found.chosen, same.chosen, strict=True))
    assert found.files == tuple(map(str, files))
    assert found.table.file.unique().tolist() == [
        str(file) for file, one in zip(files, found.chosen, strict=True) if one.any()
    ]
    assert {"input", "subset", "p", "effect"} <= set(found.table)
    read = pd.read_csv(found.write(tmp_path / "found.csv"))
    assert len(read) == len(found.table) > 20
    pytest.importorskip("pyarrow")
    assert len(pd.read_parquet(found.write(tmp_path / "found.parquet"))) == len(read)
    with pytest.raises(InputError, match=r"\.csv or \.parquet"):
        found.write(tmp_path / "found.xlsx")
    with pytest.raises(InputError, match="choose a folder that exists"):
        found.write(tmp_path / "nowhere" / "found.csv")


def test_what_it_promises(irt):
    found = butfor.combine(irt, alpha=0.2)
    assert found.guarantee.controls == "FDR"
    assert found.guarantee.level == 0.2
    assert "3 results taken together" in str(found.guarantee)
    assert "of 270 hypotheses of 3 files chosen (bh, alpha=0.2)" in found.summary()
    shared = chunks(test=butfor.irt(99), rule="bh", seeds=(1, 1, 2))
    assert "share their random numbers" in str(butfor.combine(shared).guarantee)
    assert butfor.combine(shared, rule="by").guarantee.controls == "FDR"
    assert butfor.combine(chunks(test="osft", seeds=(0, 0, 0))).guarantee.controls == "nothing"


@pytest.mark.parametrize("kind", ["osft", "irt"])
def test_every_null_true_keeps_its_level(kind):
    """Chunks of the reference's own population: any choice is a false one."""
    false = 0
    for run in range(40):
        rng = np.random.default_rng(run)
        rows = pd.DataFrame(rng.normal(size=(40, 3)), columns=list("abc"))
        settings = {"subsets": "columns", "effects": None, "control": False, "decide": False, "test": kind}
        settings |= {"draws": 99} if kind == "irt" else {}
        parts = [butfor.explain(model, rows[a : a + 20], SAMPLER, seed=100 * run + a, **settings) for a in (0, 20)]
        false += bool(len(butfor.combine(parts, alpha=0.2).table))
    assert false <= 17  # binom.isf(1e-3, 40, 0.2)


REFUSED = {
    "no result": (list, "at least one"),
    "a lone file": (lambda: "one.butfor", "takes a list"),
    "another test": (lambda: chunks(test="irt")[:1] + chunks(test="osft")[1:], "combine runs of the same settings"),
    "another direction": (
        lambda: chunks(test="irt")[:1] + chunks(test="irt", alternative="less")[1:],
        "alternative='less'",
    ),
    "another sampler": (
        lambda: chunks(test="irt")[:1] + chunks(butfor.tabular.empirical(REFERENCE), test="irt")[1:],
        "sampler=",
    ),
    "the same inputs": (lambda: chunks(test="irt")[:1] * 2, "input 0 of result 1 is in another result"),
    "early stop": (lambda: chunks(test=butfor.irt(99, early_stop=True)), "early_stop"),
    "a rule without promise": (lambda: chunks(test="osft"), "no guarantee"),
    "weights of sequential runs": (lambda: chunks(), "fixed number of draws"),
}


@pytest.mark.parametrize("why", REFUSED)
@pytest.mark.filterwarnings("ignore::butfor.types.ReachWarning")
def test_refusals(why):
    make, message = REFUSED[why]
    rule = {"a rule without promise": "bh", "weights of sequential runs": "adaptive"}.get(why)
    with pytest.raises(InputError, match=message):
        butfor.combine(make(), rule=rule)
