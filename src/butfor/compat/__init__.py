"""Other packages' calls on our tests, a file per package: change an import, and scores come with an error rate.

import shap                             ->   from butfor.compat import shap
from context_cite import ContextCiter   ->   from butfor.compat import ContextCiter
SmartExplainer(model)                   ->   SmartExplainer(model, backend=butfor.compat.shapash.Backend(model, rows))
mlflow.models.evaluate(...)             ->   mlflow.models.evaluate(..., evaluators="butfor")
"""

from butfor.compat.context_cite import ContextCiter

__all__ = ["ContextCiter"]
