"""Rules on what the model says, written as expressions: --decide "output >= 0.4", --picked "malignant > 0.9"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from butfor.core.types import Array, Bools
from butfor.tabular.where import evaluated, names_in


@dataclass(frozen=True)
class OutputRule:
    """Outputs (n,) or (n, outputs) -> true or false for each; several outputs go by their class names."""

    expression: str
    option: str  # names it in errors
    classes: tuple[str, ...] | None

    def __call__(self, outputs: Array) -> Bools:
        import pandas as pd

        if np.ndim(outputs) == 1:
            return evaluated(pd.DataFrame({"output": outputs}), self.expression, self.option)
        names = self.classes or tuple(f"output{k}" for k in range(outputs.shape[1]))
        return evaluated(pd.DataFrame(outputs, columns=list(names)), self.expression, self.option)


def output_rule(expression: str | None, option: str, classes: Sequence[Any] | None) -> OutputRule | None:
    """The rule of an option; what is no expression is refused before anything is read."""
    if expression is None:
        return None
    names_in(expression, option)
    return OutputRule(expression, option, None if classes is None else tuple(map(str, classes)))
