"""A notebook of SHAP's with one line changed: `from butfor.compat import shap` in place of `import shap`.

The reference is SHAP's background: wines of the other cultivars, so the values say what makes a wine a Barolo rather
than one of them. It is not averaged over, but what columns are redrawn from; give all rows that you have.
"""

from typing import Any

from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from butfor.compat import shap


def main() -> Any:
    """Explain the held-out Barolos, draw SHAP's plot, print what is sure, and return the `shap.Explanation`."""
    X, y = load_wine(return_X_y=True, as_frame=True)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[::2], y[::2])
    held_out, truth = X[1::2], y[1::2]

    explainer = shap.Explainer(model, held_out[truth != 0], target=0)
    values = explainer(held_out[truth == 0])
    shap.plots.beeswarm(values, show=False)

    counts = zip(values.feature_names, values.chosen.sum(axis=0).tolist(), strict=True)  # values.p and .q as well
    print("Unusual in so many wines:", {name: count for name, count in counts if count})
    print(values.result)  # groups of columns, decisions, a promise
    return values


if __name__ == "__main__":
    main()
