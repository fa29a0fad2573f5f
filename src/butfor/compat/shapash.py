"""Shapash's explainer on our tests: `SmartExplainer(model, backend=Backend(model, rows))`; needs shapash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from butfor.explain import explain
from butfor.models.wrap import need
from butfor.results.result import Result
from butfor.types import InputError

if TYPE_CHECKING:
    import pandas as pd

_shapash = need("shapash.backend", None)


class Backend(_shapash.BaseBackend):  # type: ignore[misc, name-defined]
    """A backend of shapash whose contributions are effects with p-values and a controlled error rate.

    Contributions are those of `butfor.Result.to_shap(columns=True)`: what each column does *given the rest of the row*.
    They do not add up to the output. What is unusual, and with which p-value, stands in `explain_data`.

    Parameters
    ----------
    model : estimator
        The one that `SmartExplainer` gets.
    reference : DataFrame
        What you compare with, encoded as the rows that the model takes; best rows it was not fitted on.
    preprocessing : optional
        As of shapash's other backends.
    **options : object
        Of `butfor.explain`: `alpha`, `seed` and so on; but `target`, which is each class in turn.

    Attributes
    ----------
    results : dict
        The `butfor.Result` of each class, of two classes of the second; of a regression that of None.
    explain_data : dict
        `contributions`, and the frames `p`, `q` and `chosen` of the same shape.
    """

    name = "butfor"

    def __init__(self, model: Any, reference: Any, preprocessing: Any = None, **options: Any) -> None:
        super().__init__(model, preprocessing)
        if "target" in options:
            raise InputError("Backend explains each class in turn; leave target out, or use butfor.explain")
        self.reference = reference
        self.options = options
        self.results: dict[Any, Result] = {}

    def run_explainer(self, x: pd.DataFrame) -> dict[str, Any]:
        """Return the contributions of each column in each row, with `p`, `q` and `chosen`.

        Parameters
        ----------
        x : DataFrame
            The rows to explain, as the model takes them.

        Returns
        -------
        dict
            Frames like `x`; of three classes and more a list of them, one per class.
        """
        import pandas as pd

        targets = [None] if self._classes is None else self._classes[1:] if len(self._classes) == 2 else self._classes
        self.results = {one: explain(self.model, x, self.reference, target=one, **self.options) for one in targets}
        shown = [result.to_shap(columns=True) for result in self.results.values()]
        wanted = {"contributions": "values"} | {name: name for name in ("p", "q", "chosen") if hasattr(shown[0], name)}
        frames = {
            key: [pd.DataFrame(getattr(one, name), index=x.index, columns=one.feature_names) for one in shown]
            for key, name in wanted.items()
        }
        self.explain_data = {key: kept if len(kept) > 1 else kept[0] for key, kept in frames.items()}
        return dict(self.explain_data)
