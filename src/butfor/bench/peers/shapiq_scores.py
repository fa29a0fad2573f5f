"""shapiq (Muschalik et al. 2024): Shapley values from a budget of coalitions."""

from __future__ import annotations

import numpy as np

from butfor.bench.peers.task import Task
from butfor.types import Floats

BACKGROUND, BUDGET = 100, 500  # the budget of SHAP's permutations, so that the two compare


def tabular(task: Task) -> Floats:
    """TabularExplainer for single features (index "SV"), marginal imputer, the approximator that it picks itself."""
    import shapiq

    explainer = shapiq.TabularExplainer(
        model=task.model,
        data=task.reference(BACKGROUND),
        index="SV",
        max_order=1,
        sample_size=BACKGROUND,
        random_state=task.seed,
    )
    found = [explainer.explain(row[None], budget=BUDGET) for row in task.inputs]
    return np.stack([one.get_n_order_values(1) for one in found])
