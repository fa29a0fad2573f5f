"""Shapash with our effects as its contributions, and what is sure beside them.

The reference is what Barolos are compared with: wines of the other cultivars, which the model has not seen.
"""

from typing import Any

from shapash import SmartExplainer
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from butfor.compat.shapash import Backend


def main() -> Any:
    """Compile a `SmartExplainer`, print its table and what is sure, and return it."""
    X, y = load_wine(return_X_y=True, as_frame=True)
    barolo = (y == 0).astype(int)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[::2], barolo[::2])
    held_out, truth = X[1::2], barolo[1::2]

    backend = Backend(model, held_out[truth == 0])
    explainer = SmartExplainer(model, backend=backend)  # all else is Shapash's: plots, pages, summaries
    explainer.compile(x=held_out[truth == 1], y_target=truth[truth == 1])

    print(explainer.to_pandas(max_contrib=2).head().to_string())
    print("Unusual in so many wines:", backend.explain_data["chosen"].sum().to_dict())
    print(backend.results[1])
    return explainer


if __name__ == "__main__":
    main()
