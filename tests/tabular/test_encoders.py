"""Groups of encoded columns: whatever the encoder, every column in one group, and the group is the raw column's."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)

import butfor
from butfor.tabular.table import groups_from_encoder
from butfor.types import InputError

RNG = np.random.default_rng(0)
ROWS = 200
FRAME = pd.DataFrame(
    {
        "colour": RNG.choice(["red", "green", "blue"], ROWS),
        "town": RNG.choice([f"t{i}" for i in range(8)], ROWS, p=[0.5, 0.3, 0.1, 0.04, 0.02, 0.02, 0.01, 0.01]),
        "smoker": RNG.choice(["yes", "no"], ROWS),
        "age": np.where(RNG.random(ROWS) < 0.1, np.nan, RNG.integers(20, 80, ROWS)),
        "weight": RNG.normal(70, 10, ROWS),
        "note": RNG.choice(["a small thing", "a large thing", "nothing at all"], ROWS),
    }
)
TEXT, NUMBERS = ["colour", "town", "smoker"], ["age", "weight"]
LABELS = RNG.choice(["a", "b", "c"], ROWS)


def hot(**options):
    return OneHotEncoder(sparse_output=False, **options)


def filled(*steps):
    return make_pipeline(SimpleImputer(), *steps)


ENCODERS = {
    "bare": (hot(), TEXT),
    "bare, drop first": (hot(drop="first"), TEXT),
    "bare, drop if binary": (hot(drop="if_binary"), TEXT),
    "bare, drop named": (hot(drop=["red", "t0", "no"]), TEXT),
    "bare, infrequent": (hot(min_frequency=0.05, handle_unknown="infrequent_if_exist"), TEXT),
    "bare, infrequent, drop": (hot(max_categories=3, drop="first"), TEXT),
    "ordinal": (OrdinalEncoder(), TEXT),
    "target": (TargetEncoder(), TEXT),
    "scaler": (StandardScaler(), NUMBERS),
    "imputer with flags": (SimpleImputer(add_indicator=True), NUMBERS),
    "neighbours with flags": (KNNImputer(add_indicator=True), NUMBERS),
    "flags": (MissingIndicator(), NUMBERS),
    "bins": (
        filled(KBinsDiscretizer([3, 5], encode="onehot-dense", quantile_method="averaged_inverted_cdf")),
        NUMBERS,
    ),
    "splines": (filled(SplineTransformer()), NUMBERS),
    "selected": (filled(VarianceThreshold(100)), NUMBERS),
    "columns": (make_column_transformer((hot(), TEXT), (StandardScaler(), NUMBERS)), None),
    "remainder": (make_column_transformer((hot(), TEXT), remainder="passthrough"), None),
    "remainder scaled": (make_column_transformer((hot(), [*TEXT, "note"]), remainder=StandardScaler()), None),
    "dropped": (make_column_transformer(("drop", TEXT), ("passthrough", [3, 4])), None),
    "selectors": (
        make_column_transformer((StandardScaler(), make_column_selector(dtype_include=float)), (hot(), slice(0, 2))),
        None,
    ),
    "slices": (make_column_transformer((hot(), slice("colour", "smoker")), ("passthrough", slice(3, 5))), None),
    "mask": (make_column_transformer((hot(), [True, False, True, False, False, False])), None),
    "no prefix": (
        make_column_transformer((hot(), TEXT), remainder="passthrough", verbose_feature_names_out=False),
        None,
    ),
    "inner pipelines": (
        make_column_transformer(
            (make_pipeline(SimpleImputer(strategy="most_frequent"), hot(drop="first")), TEXT),
            (make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), NUMBERS),
        ),
        None,
    ),
    "twice": (ColumnTransformer([("a", hot(), ["colour", "town"]), ("b", OrdinalEncoder(), ["colour"])]), None),
}


def fitted(name, output="default"):
    encoder, columns = ENCODERS[name]
    frame = FRAME if columns is None else FRAME[columns]
    return encoder.set_output(transform=output).fit(frame, LABELS), frame


def changed(encoder, frame, column):
    """Encoded columns that another value in one raw column can change: what a group must hold."""
    before = np.asarray(pd.DataFrame(encoder.transform(frame)), dtype=object)
    found = set()
    for seed in range(6):
        moved = frame.copy()
        moved[column] = frame[column].sample(frac=1, random_state=seed).to_numpy()
        after = np.asarray(pd.DataFrame(encoder.transform(moved)), dtype=object)
        same = (before == after) | (pd.isna(before) & pd.isna(after))
        found |= set(np.flatnonzero(~same.all(axis=0)).tolist())
    return found


@pytest.mark.filterwarnings("ignore:.*unknown categories")
@pytest.mark.parametrize("output", ["default", "pandas"])
@pytest.mark.parametrize("name", ENCODERS)
def test_groups(name, output):
    encoder, frame = fitted(name, output)
    encoded = encoder.transform(frame)
    groups = groups_from_encoder(encoder, positions=True)
    places = [place for group in groups.values() for place in group]
    assert sorted(places) == list(range(encoded.shape[1]))
    named = groups_from_encoder(encoder)
    out = encoder.get_feature_names_out()
    assert named == {raw: [out[i] for i in group] for raw, group in groups.items()}
    assert set(groups) <= set(frame.columns)
    if "neighbours" not in name:  # there the fill of one column looks at the others
        for raw, group in groups.items():
            assert changed(encoder, frame, raw) <= set(group), raw


def test_columns_made_of_several_are_one_group():
    encoder = ColumnTransformer(
        [
            ("cat", hot(), TEXT),
            ("num", make_pipeline(SimpleImputer(), PCA(2)), NUMBERS),
            ("size", make_pipeline(SimpleImputer(), PolynomialFeatures(2)), NUMBERS),
            ("age", make_pipeline(SimpleImputer(), Normalizer()), NUMBERS),
        ]
    ).fit(FRAME)
    groups = groups_from_encoder(encoder)
    assert list(groups) == [*TEXT, "num", "size", "age (transformer)"]
    assert groups["num"] == ["num__pca0", "num__pca1"]
    assert len(groups["size"]) == 6


def test_many_columns_of_one_stay_that_column():
    encoder = make_column_transformer((make_pipeline(hot(), PCA(2)), ["town"]), ("passthrough", ["weight"]))
    assert {name: len(group) for name, group in groups_from_encoder(encoder.fit(FRAME)).items()} == {
        "town": 2,
        "weight": 1,
    }


def test_words_of_a_text_column():
    encoder = make_column_transformer((TfidfVectorizer(), "note"), ("passthrough", NUMBERS)).fit(FRAME)
    assert {name: len(group) for name, group in groups_from_encoder(encoder).items()} == {
        "note": 6,
        "age": 1,
        "weight": 1,
    }


def test_a_pipeline_with_its_model():
    encoder = make_column_transformer((hot(), TEXT), (SimpleImputer(add_indicator=True), NUMBERS))
    model = Pipeline([("encode", encoder), ("scale", StandardScaler()), ("model", LogisticRegression())])
    model.fit(FRAME, LABELS)
    assert groups_from_encoder(model) == groups_from_encoder(encoder) == groups_from_encoder(model[:-1])
    reduced = Pipeline([("encode", encoder), ("pca", PCA(3)), ("model", LogisticRegression())]).fit(FRAME, LABELS)
    assert groups_from_encoder(reduced) == {"pca": ["pca0", "pca1", "pca2"]}


def test_several_classes_of_a_target_encoder():
    groups = groups_from_encoder(TargetEncoder().fit(FRAME[TEXT], LABELS))
    assert groups["town"] == ["town_a", "town_b", "town_c"]


def test_arrays_without_names():
    groups = groups_from_encoder(hot().fit(FRAME[TEXT].to_numpy()))
    assert list(groups) == ["x0", "x1", "x2"]
    assert groups["x0"] == ["x0_blue", "x0_green", "x0_red"]


def test_steps_without_names_have_positions():
    encoder = make_column_transformer((FunctionTransformer(np.log), ["weight"]), (hot(), ["colour"]))
    encoder.fit(FRAME)
    with pytest.raises(InputError, match=r"ColumnTransformer cannot name the columns it makes.*positions=True"):
        groups_from_encoder(encoder)
    assert groups_from_encoder(encoder, positions=True) == {"weight": [0], "colour": [1, 2, 3]}


def test_what_is_not_a_fitted_encoder():
    for thing in (OneHotEncoder(), make_column_transformer((hot(), TEXT)), {"a": 1}, make_pipeline(hot())):
        with pytest.raises(InputError, match="needs a fitted ColumnTransformer"):
            groups_from_encoder(thing)


@pytest.mark.parametrize("positions", [False, True])
def test_the_groups_are_subsets_of_the_encoded_table(positions):
    encoder = make_column_transformer((hot(), ["colour", "smoker"]), ("passthrough", ["weight"]))
    encoded = encoder.set_output(transform="default" if positions else "pandas").fit_transform(FRAME)
    groups = groups_from_encoder(encoder, positions=positions)
    sampler = butfor.tabular.empirical(encoded)
    result = butfor.explain(
        lambda rows: np.asarray(rows)[:, 0], encoded[:5], sampler, subsets=groups, test="irt", draws=19
    )
    assert result.subset_names == ("colour", "smoker", "weight")
    drawn = np.asarray(result.counterfactuals(0, "colour", n=10))
    assert (drawn[:, :3].sum(axis=1) == 1).all()
