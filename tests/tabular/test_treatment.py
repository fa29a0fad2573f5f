"""Treated otherwise but for an attribute: what comes back, what is refused, and that nothing but the seed matters."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import butfor
from butfor import InputError, treatment
from butfor.tabular.splice import from_values

RNG = np.random.default_rng(0)


def people(count, rng=RNG):
    sex = rng.choice(["f", "m"], count)
    income = rng.normal(size=count)
    return pd.DataFrame(
        {
            "sex": sex,
            "income": income,
            "debt": 0.3 * income + rng.normal(size=count),
            "hours": np.where(sex == "f", -1.0, 1.0) + 0.3 * income + 0.5 * rng.normal(size=count),
            "branch": rng.choice(list("abcde"), count),
        },
        index=[f"p{i}" for i in range(count)],
    )


X, REFERENCE = people(200), people(600)


def by_sex(rows):
    """Women of branch a need more."""
    return rows.income - rows.debt - 1.5 * ((rows.sex == "f") & (rows.branch == "a"))


def by_hours(rows):
    return rows.income - rows.debt + 1.5 * np.where(rows.branch == "a", rows.hours, 0.0)


def approve(score):
    return np.where(score > 0, "approved", "declined")


ASKED = {"attribute": "sex", "decide": approve, "favourable": "approved"}
DIRECT = ASKED | {"legitimate": ["income", "debt", "branch"]}
PROXY = ASKED | {"proxies": ["hours"]}


@pytest.fixture(scope="module")
def through_hours():
    return treatment(by_hours, X, REFERENCE, **PROXY)


def test_set_directly_it_is_known_who_would_have_been_approved():
    result = treatment(by_sex, X, REFERENCE, **DIRECT)
    declined = by_sex(X) <= 0
    otherwise = declined & (X.sex == "f") & (X.branch == "a") & (X.income - X.debt > 0)
    assert otherwise.sum() > 2
    assert (result.accused == otherwise.to_numpy()).all()
    assert (result.compared == declined.to_numpy()).all()
    table = result.table[result.accused]
    assert (table.other == "m").all()
    assert table.direct.all()
    assert (table[["flip", "flip_low", "flip_high", "difference_low"]] == 1).all(axis=None)
    assert result.bound(result.accused) == otherwise.sum()
    assert result.rows < 1000
    assert result.guarantee.level == 0
    assert "nothing is estimated" in str(result.guarantee)


def test_a_model_that_does_not_read_it_treats_nobody_otherwise():
    assert not treatment(lambda rows: rows.income - rows.debt, X, REFERENCE, **DIRECT).accused.any()


def test_through_a_proxy(through_hours):
    table = through_hours.table
    accused = table[table.accused]
    assert len(accused) >= 4
    assert set(accused.value) == {"f"}
    assert (X.loc[accused.person, "branch"] == "a").all()
    assert not accused.direct.any()
    assert (accused.flip_low > 0.5).all()
    assert (accused.difference_low > 0).all()
    assert accused.p.max() <= 0.05
    columns = ["person", "value", "decision", "asked", "other", "flip", "flip_low", "flip_high", "kept", "kept_low"]
    columns += ["kept_high", "difference", "difference_low", "difference_high", "direct", "p", "accused"]
    assert table.columns.tolist() == columns
    assert table.person.tolist() == X.index.tolist()
    assert (table.asked == (table.decision == "declined")).all()
    groups = through_hours.groups.set_index("value")
    assert groups.accused.to_dict() == {"f": len(accused), "m": 0}
    assert groups.at_least["m"] == 0 < groups.at_least["f"] <= len(accused)
    assert groups.difference_low["f"] > 0.05 > groups.difference_high["m"]  # more hours help, fewer do not
    assert through_hours.by_value.other.isin(["f", "m"]).all()


def test_the_answer_has_at_most_ten_lines(through_hours):
    lines = through_hours.summary().splitlines()
    declined, accused = int((by_hours(X) <= 0).sum()), int(through_hours.accused.sum())
    assert len(lines) <= 10
    assert max(map(len, lines)) <= 110
    assert lines[0] == f"200 people: {200 - declined} approved, {declined} declined."
    assert lines[1].startswith(f"Treated otherwise but for sex: {accused} of {declined} not approved (at least ")
    assert lines[-1] == "A statement about the model, not legal advice."
    assert repr(through_hours) == through_hours.summary()
    assert "Benjamini" in through_hours.summary(full=True)
    assert json.loads(through_hours.to_json())["summary"] == lines


def by_both(rows):
    """Women of branch a need more; in branch b hours tell who does."""
    return by_sex(rows) + 1.5 * np.where(rows.branch == "b", rows.hours, 0.0)


@pytest.mark.parametrize("proxies", [["hours"], ["branch"], ["income", "debt"], ["hours", "branch", "income", "debt"]])
def test_declared_proxies_hide_nobody_who_is_decided_otherwise_by_the_attribute_alone(proxies):
    alone = treatment(by_sex, X, REFERENCE, **ASKED)
    assert alone.accused.sum() >= 2
    result = treatment(by_sex, X, REFERENCE, **ASKED, proxies=proxies)
    direct = result.rates.direct.any(axis=1)
    assert (result.accused >= direct).all()
    assert (direct >= alone.accused).all()  # more values are plausible beside fewer columns
    lines, count = result.lines(), int(direct.sum())
    assert lines[2].startswith(f"By sex alone (computed): {count} of {result.compared.sum()}. Together with ")
    assert max(map(len, lines)) <= 110
    assert len(lines) <= 10
    assert result.bound(direct) == count
    assert "over the others by themselves, and so over all" in str(result.guarantee)


def test_what_is_computed_is_told_apart_from_what_is_estimated(through_hours, tmp_path):
    result = treatment(by_both, X, REFERENCE, **PROXY)
    table, direct = result.table, result.rates.direct.any(axis=1)
    both = int((result.accused & ~direct).sum())
    assert (table.direct == direct).all()
    assert direct.sum() > 2 < both
    assert set(X.branch[direct]) == {"a"}
    assert set(X.branch[result.accused & ~direct]) == {"b"}
    lines = result.lines()
    assert f"{direct.sum()} of {result.compared.sum()}. Together with hours (estimated): {both} more." in lines[2]
    assert "none computed is wrong; on average at most 10 % of the others named" in lines[-2]
    page = result.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert lines[2].replace(" %", "\u00a0%") in page
    assert page.count('data-label="alone">yes') == direct.sum()
    lines = through_hours.lines()
    assert "By sex alone (computed): 0 of " in lines[2]
    assert f"Together with hours (estimated): {through_hours.accused.sum()}." in lines[2]


def test_of_nobody_accused_both_counts_are_shown():
    lines = treatment(lambda rows: rows.income - rows.debt, X, REFERENCE, **PROXY).lines()
    assert re.match(r"By sex alone \(computed\): 0 of \d+\. Together with hours \(estimated\): none shown\.", lines[2])


def test_a_value_that_is_rare_is_set_all_the_same():
    """Where too few have it for the proxies to be redrawn, the attribute alone can be set: plausible is 1 %."""
    reference = REFERENCE.copy()
    reference.iloc[:8, 0] = "x"
    model = lambda rows: rows.income - rows.debt + 9.0 * (rows.sex == "x")  # noqa: E731
    result = treatment(model, X, reference, **PROXY)
    alone = treatment(model, X, reference, **ASKED)
    assert alone.accused.sum() > 5
    assert (result.accused >= alone.accused).all()
    table = result.table[alone.accused]
    assert (table.other == "x").all()
    assert table.flip.isna().all()
    assert table.asked.all()


def test_a_value_that_is_plausible_beside_the_proxies_is_asked_about_with_them():
    """Few wear it, and all of those are told by hours: without these it is not plausible, and is set all the same."""
    rng = np.random.default_rng(0)
    rows, reference = X.copy(), people(4000, rng)
    few = rng.random(4000) < 0.008
    reference.loc[few, "sex"], reference.loc[few, "hours"] = "x", 9.0
    rows.iloc[:40, 3] = 9.0
    model = lambda rows: rows.income - rows.debt + 9.0 * (rows.sex == "x")  # noqa: E731
    alone = treatment(model, rows, reference, **ASKED)
    assert alone.accused.sum() > 5
    assert (treatment(model, rows, reference, **PROXY).accused >= alone.accused).all()


def test_a_legitimate_column_is_never_a_proxy():
    result = treatment(by_hours, X, REFERENCE, **ASKED, legitimate=["income", "debt", "branch"])
    assert not result.accused.any()
    assert any(note.code == "treatment-undeclared" for note in result.notes)
    with pytest.raises(InputError, match="'hours' is both legitimate and a proxy"):
        treatment(by_hours, X, REFERENCE, **PROXY, legitimate=["hours"])


def test_noise_that_is_redrawn_accuses_nobody():
    """Decisions that flip under the person's value as well say nothing of the attribute."""
    rng = np.random.default_rng(1)
    rows, reference = (one.assign(lots=rng.normal(size=len(one))) for one in (X, REFERENCE))
    result = treatment(lambda rows: 0.2 * rows.income + rows.lots, rows, reference, **ASKED, proxies=["lots"])
    assert (result.rates.share[:, 0] > 0.5).sum() > 10
    assert not result.accused.any()


def test_beside_the_columns_as_in_them():
    rows, reference = X.drop(columns="sex"), REFERENCE.drop(columns="sex")
    beside = treatment(
        by_hours, rows, reference, attribute=X.sex, reference_attribute=REFERENCE.sex, proxies="hours",
        decide=approve, favourable="approved",
    )  # fmt: skip
    assert beside.accused.sum() >= 4
    assert "the model does not get sex" in beside.summary()
    listed = treatment(
        by_hours, rows, reference, attribute=X.sex.tolist(), reference_attribute=REFERENCE.sex.to_numpy(),
        proxies="hours", decide=approve, favourable="approved",
    )  # fmt: skip
    assert (listed.accused == beside.accused).all()


def test_combinations_of_columns_are_values():
    rng = np.random.default_rng(2)
    rows, reference = (one.assign(old=rng.random(len(one)) < 0.5) for one in (X, REFERENCE))
    only_both = lambda rows: rows.income - rows.debt - 1.5 * ((rows.sex == "f") & rows.old)  # noqa: E731
    result = treatment(
        only_both, rows, reference, attribute=["sex", "old"], decide=approve, favourable="approved",
        legitimate=["income", "debt", "branch"],
    )  # fmt: skip
    assert result.roles.attribute == "sex x old"
    assert sorted(result.values) == ["f / False", "f / True", "m / False", "m / True"]
    table = result.table[result.accused]
    assert set(table.value) == {"f / True"}
    assert len(table) == ((only_both(rows) <= 0) & (rows.income > rows.debt)).sum()
    assert sorted(result.others(result.people.index(table.person.iloc[0]))) == ["f / False", "m / False", "m / True"]


def test_any_change_counts_where_no_decision_is_favourable():
    model = lambda rows: np.column_stack([rows.income - rows.debt + (rows.sex == "f"), np.zeros(len(rows))])  # noqa: E731
    legitimate = {"legitimate": ["income", "debt"], "attribute": "sex"}
    result = treatment(model, X, REFERENCE, **legitimate)
    near = (model(X)[:, 0] > 0) != (X.income - X.debt + (X.sex == "m") > 0)
    assert result.favourable is None
    assert (result.accused == near.to_numpy()).all()
    compared = treatment(model, X, REFERENCE, **legitimate, favourable=lambda decided: decided == 0)
    assert set(compared.table[compared.accused].value) == {"m"}
    assert (compared.accused == (near & (X.sex == "m")).to_numpy()).all()


def test_a_classifier_is_asked_by_the_names_of_its_classes():
    labels = np.where(by_sex(REFERENCE) > 0, "yes", "no")
    features = ["income", "debt"]
    model = LogisticRegression().fit(REFERENCE[features], labels)
    rows, reference = X[features], REFERENCE[features]
    given = {"attribute": X.sex, "reference_attribute": REFERENCE.sex, "proxies": ["debt"]}
    result = treatment(model, rows, reference, **given, favourable="yes")
    assert result.favourable == "yes"
    assert set(result.decisions) == {"yes", "no"}
    with pytest.raises(InputError, match="favourable='maybe' is no decision that is made here; these are: 'no', 'yes'"):
        treatment(model, rows, reference, **given, favourable="maybe")


def test_arrays_have_columns_by_position():
    values = np.column_stack([X.sex == "f", X.income, X.debt])
    reference = np.column_stack([REFERENCE.sex == "f", REFERENCE.income, REFERENCE.debt])
    result = treatment(
        lambda rows: rows[:, 1] - rows[:, 2] - rows[:, 0] > 0, values, reference, attribute="x0",
        decide=lambda outputs: outputs > 0,
    )  # fmt: skip
    near = (X.income - X.debt - 1 > 0) != (X.income - X.debt > 0)
    assert (result.accused == near.to_numpy()).all()


@pytest.mark.parametrize("more", [{"batch_rows": 7}, {"workers": "threads:2"}, {"batch_rows": 100_000}])
def test_the_same_bits_however_it_is_run(more, through_hours):
    again = treatment(by_hours, X, REFERENCE, **PROXY, **more)
    pd.testing.assert_frame_equal(again.table, through_hours.table)


def test_another_seed_draws_others(through_hours):
    other = treatment(by_hours, X, REFERENCE, **PROXY, seed=1)
    assert (other.rates.share[other.compared] != through_hours.rates.share[other.compared]).any()


def test_people_who_are_appended_change_nothing_for_the_others(through_hours):
    fewer = treatment(by_hours, X.iloc[:150], REFERENCE, **PROXY)
    first = through_hours.rates.draws[:150] == fewer.rates.draws
    assert first.all()
    assert np.array_equal(fewer.rates.share, through_hours.rates.share[:150], equal_nan=True)


def test_a_run_that_is_cut_short_goes_on(tmp_path, through_hours):
    calls = []

    class Stops:
        def __init__(self, after):
            self.after = after

        def __call__(self, rows):
            calls.append(len(rows))
            if len(calls) > self.after:
                raise KeyboardInterrupt
            return by_hours(rows)

    with pytest.raises(KeyboardInterrupt):
        treatment(Stops(40), X, REFERENCE, **PROXY, run_dir=tmp_path / "run", batch_rows=200)
    compared = len(calls)
    calls.clear()
    again = treatment(Stops(10_000), X, REFERENCE, **PROXY, run_dir=tmp_path / "run", batch_rows=200)
    pd.testing.assert_frame_equal(again.table, through_hours.table)
    calls_in_all = len(calls)
    calls.clear()
    treatment(Stops(10_000), X, REFERENCE, **PROXY, batch_rows=200)
    assert compared == 41
    assert calls_in_all < len(calls)


def test_rows_of_one_person_count_once():
    twice = pd.concat([X, X.assign(hours=X.hours + 0.1).set_axis([f"{name} again" for name in X.index])])
    person = np.tile(np.arange(200), 2)
    result = treatment(by_sex, twice, REFERENCE, **DIRECT, groups=person)
    one = treatment(by_sex, X, REFERENCE, **DIRECT)
    assert result.accused.sum() == 2 * one.accused.sum()
    assert result.bound(np.arange(400)) == one.accused.sum()
    with pytest.raises(InputError, match="groups has 3 labels for 400 rows"):
        treatment(by_sex, twice, REFERENCE, **DIRECT, groups=[1, 2, 3])


def test_a_sampler_of_ones_own():
    """Rows as the sampler gets them: X without sex, and its value as the last column."""
    seen = []

    def draw(inputs, subset, draws, rng):
        seen.append((inputs.shape[1], tuple(subset.index)))
        sign = np.where(inputs[:, -1] == 0, -1.0, 1.0) if values[0] == "f" else np.where(inputs[:, -1] == 0, 1.0, -1.0)
        mean = np.repeat(sign + 0.3 * inputs[:, 0], draws)
        return (mean + 0.5 * rng.normal(size=len(mean)))[:, None]

    values = treatment(by_hours, X.iloc[:5], REFERENCE, **PROXY).values
    result = treatment(by_hours, X, REFERENCE, **PROXY, sampler=from_values(draw))
    assert result.accused.sum() >= 4
    assert set(result.table[result.accused].value) == {"f"}
    assert set(seen) == {(5, (2,))}
    assert "approximate" not in result.summary()


def test_values_that_are_not_plausible_are_not_asked_about():
    pregnant = lambda one: one.assign(pregnant=(one.sex == "f") & (np.arange(len(one)) % 2 == 0))  # noqa: E731
    rows, reference = pregnant(X), pregnant(REFERENCE)
    result = treatment(by_sex, rows, reference, **ASKED, legitimate=["pregnant"])
    declined = by_sex(rows) <= 0
    assert not (result.compared & rows.pregnant).any()
    assert (result.compared == (declined & ~rows.pregnant).to_numpy()).all()
    note = next(note for note in result.notes if note.code == "treatment-implausible")
    assert note.values["count"] == (declined & rows.pregnant).sum()
    assert "Not asked" in result.summary()


def test_rare_values_are_left_out():
    rows, reference = X.copy(), REFERENCE.copy()
    rows.iloc[:2, 0] = "x"
    reference.iloc[:4, 0] = "x"
    result = treatment(by_hours, rows, reference, **PROXY)
    assert not result.compared[:2].any()
    assert np.isnan(result.rates.p[:, result.values.index("x")]).all()
    assert next(note for note in result.notes if note.code == "treatment-rare").values["values"] == ["x"]


def test_draws_that_are_not_calibrated_accuse_nobody(monkeypatch):
    from butfor.tabular import treatment as module
    from butfor.tabular.calibration import ConditionalFaults

    monkeypatch.setattr(module, "rank_faults", lambda *_: ConditionalFaults(np.array([0.001]), np.array([0])))
    result = treatment(by_hours, X, REFERENCE, **PROXY)
    assert not result.accused.any()
    assert result.guarantee.controls == "nothing"
    assert "Promise: none" in result.summary()
    note = next(note for note in result.notes if note.code == "treatment-not-calibrated")
    assert "do not follow income" in str(note)
    result = treatment(by_sex, X, REFERENCE, **PROXY)  # what is computed needs no draws
    direct = result.rates.direct.any(axis=1)
    assert direct.sum() > 2
    assert (result.accused == direct).all()
    assert (result.guarantee.controls, result.guarantee.level) == ("FDR", 0)
    assert "Together with hours (estimated): cannot be shown." in result.summary()
    assert "Promise: by sex alone nobody is named wrongly; the draws" in result.summary()


def test_people_of_the_reference_are_said_to_be():
    result = treatment(by_sex, REFERENCE.iloc[:30], REFERENCE, **DIRECT)
    assert next(note for note in result.notes if note.code == "treatment-in-reference").values["count"] == 30


def test_reasons_in_the_words_of_a_code_table():
    codes = {"income": "R12 Income too low", ("debt", "branch"): "R20 Obligations"}
    rows = X.iloc[:60]
    result = treatment(by_hours, rows, REFERENCE, **PROXY, reason_codes=codes)
    declined = rows.index[(by_hours(rows) <= 0).to_numpy()]
    every = pd.concat([result.reasons(name) for name in declined])
    assert {"decisive", "enough"} >= set(every.kind)
    assert "R12 Income too low" in set(every.code)
    assert "R20 Obligations" in set(every.code)
    assert not every.part.str.contains("sex").any()
    decisive = every[every.kind == "decisive"]
    assert (decisive.flip_low > 0.5).all()
    assert max(len(result.reasons(name, 1)) for name in declined) == 1
    approved = rows.index[(by_hours(rows) > 0).to_numpy()][0]
    with pytest.raises(InputError, match="has no reasons: the decision is approved"):
        result.reasons(approved)
    with pytest.raises(InputError, match="there is no person 'nobody'"):
        result.reasons("nobody")
    with pytest.raises(InputError, match="reason_codes has 'sex', which is the attribute"):
        treatment(by_hours, rows, REFERENCE, **PROXY, reason_codes={"sex": "R1"})


def test_reasons_must_be_asked_for(through_hours):
    with pytest.raises(InputError, match="this run has no reasons"):
        through_hours.reasons("p0")


def test_the_report_says_the_same(through_hours, tmp_path):
    page = through_hours.report(tmp_path / "report.html").read_text(encoding="utf-8")
    for line in through_hours.lines():
        assert line.replace(" %", "\u00a0%") in page
    assert page.count('data-label="otherwise"') == through_hours.accused.sum()
    assert not re.search(r"(src|href)=.http", page)
    odd = X.set_axis([f"<b>{name}" for name in X.index])
    again = treatment(by_hours, odd, REFERENCE, **PROXY).report(tmp_path / "odd.html").read_text(encoding="utf-8")
    assert "<b>p" not in again
    direct = treatment(by_sex, X, REFERENCE, **DIRECT).report(tmp_path / "direct.html").read_text(encoding="utf-8")
    assert "As is:" not in direct


def test_rounding_is_no_treatment():
    """A model whose last bits depend on the company of a row, just at the edge of its decision."""

    def noisy(rows):
        return np.where(rows.branch == "a", 0.5, 0.1) + 1e-9 * np.random.default_rng(len(rows)).normal(size=len(rows))

    flips = {(noisy(X.iloc[:k]) > 0.5).sum() for k in (50, 100, 150)}
    assert len(flips) > 1
    compared = {"attribute": "sex", "legitimate": ["income"], "decide": lambda outputs: outputs > 0.5}
    assert not treatment(noisy, X, REFERENCE, **compared, batch_rows=13).accused.any()


MISSING = X.assign(sex=X.sex.where(np.arange(200) != 3))
REFUSED = {
    "no such column": ({"attribute": "gender"}, "attribute: there is no column 'gender'; columns are sex, income"),
    "twice": ({"attribute": ["sex", "sex"]}, "names a column twice"),
    "no such proxy": ({"proxies": ["wage"]}, "proxies: there is no column 'wage'"),
    "attribute among proxies": ({"proxies": ["sex"]}, "'sex' is the attribute and among proxies"),
    "missing": ({"X": MISSING}, "attribute sex is missing in row 'p3' of the data; fill it in"),
    "missing in the reference": (
        {"reference": REFERENCE.assign(sex=None)}, "attribute sex is missing in row 'p0' of the reference"
    ),
    "one value": ({"reference": REFERENCE.assign(sex="f")}, "has one value in the reference"),
    "unknown value": ({"X": X.assign(sex="x")}, "attribute sex is x in row 'p0', which no row of the reference has"),
    "continuous": ({"attribute": "income"}, "attribute income has 600 values in the reference, .* give it in bands"),
    "no decision": ({"decide": None, "favourable": None}, "makes no decision; give the rule"),
    "decide": ({"decide": False}, "treatment asks about a decision; decide is None or a function"),
    "beside alone": ({"attribute": X.sex.tolist()}, "attribute was given beside X; give reference_attribute"),
    "both": ({"reference_attribute": REFERENCE.sex}, "reference_attribute goes with an attribute given beside X"),
    "nothing can change": (
        {"attribute": X.sex, "reference_attribute": REFERENCE.sex}, "the model does not get sex, and no proxies"
    ),
    "another index": (
        {"attribute": X.sex[::-1], "reference_attribute": REFERENCE.sex}, "attribute and the data have different"
    ),
    "too few": ({"attribute": [1, 2], "reference_attribute": REFERENCE.sex}, "attribute has 2 values for 200 rows"),
    "an editor": ({"attribute": len}, "attribute is a function, and treatment is for tables"),
    "a sampler": ({"reference": butfor.tabular.residual(REFERENCE)}, "reference must be rows to learn from"),
    "a sampler of the reference": (
        {"sampler": butfor.tabular.residual(REFERENCE), "proxies": ["hours"]}, "does not know the attribute"
    ),
    "other columns": ({"reference": REFERENCE.drop(columns="debt")}, r"have different columns \(debt\)"),
    "alpha": ({"alpha": 2}, "alpha must"),
    "level": ({"level": 0}, "level must lie strictly between 0 and 1"),
    "draws": ({"draws": 0}, "draws must be a whole number of at least 1"),
    "favourable": ({"favourable": "maybe"}, "favourable='maybe' is no decision that is made here"),
    "favourable, a function": ({"favourable": lambda made: made}, "favourable must return a boolean for each"),
    "codes": ({"reason_codes": ["income"]}, "reason_codes must be a mapping"),
    "skip": ({"options": butfor.RunOptions(on_error="skip")}, "on_error='skip' is not for it"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_is_refused_in_one_sentence(what):
    given, words = REFUSED[what]
    with pytest.raises(InputError, match=words) as caught:
        treatment(**{"model": by_sex, "X": X, "reference": REFERENCE, **DIRECT, **given})
    assert "\n" not in str(caught.value)


def test_a_regression_makes_no_decision():
    model = LinearRegression().fit(REFERENCE[["income"]], REFERENCE.debt)
    with pytest.raises(InputError, match="makes no decision"):
        treatment(
            model, X[["income"]], REFERENCE[["income"]], attribute=X.sex, reference_attribute=REFERENCE.sex,
            proxies="income",
        )  # fmt: skip


def test_a_model_of_chance_is_refused_where_only_the_attribute_is_set():
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="another output when it is asked again"):
        treatment(lambda rows: rng.random(len(rows)), X, REFERENCE, **DIRECT)
    result = treatment(lambda rows: rng.normal(size=len(rows)), X, REFERENCE, **PROXY)
    assert not result.accused.any()


def test_bands_of_a_number_are_values_and_the_number_is_redrawn_with_them():
    rng = np.random.default_rng(3)
    rows, reference = (one.assign(age=rng.uniform(20, 70, len(one))) for one in (X, REFERENCE))
    model = lambda rows: rows.income - rows.debt - 1.5 * (rows.age > 50)  # noqa: E731
    edges = [0, 50, 120]
    result = treatment(
        model, rows, reference, attribute=pd.cut(rows.age, edges), reference_attribute=pd.cut(reference.age, edges),
        proxies=["age"], decide=approve, favourable="approved",
    )  # fmt: skip
    table = result.table[result.accused]
    assert set(table.value) == {"(50, 120]"}
    assert len(table) >= 0.9 * ((model(rows) <= 0) & (rows.income > rows.debt)).sum()
