"""What `check_sampler` found in a table: verdicts, scores, a sentence, a table, a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.core.result.later import later
from butfor.core.test.sampler_checks import RankCheck, Verdict
from butfor.core.types import Floats
from butfor.tabular.scores import Scores

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

NAMED = 6  # subsets that the sentence names for each verdict
MEANING: dict[Verdict, str] = {
    "too narrow": "its draws scatter less than real values, so ordinary ones look surprising: expect false discoveries",
    "too wide": "its draws scatter more than real values, so signals are missed",
    "shifted": "its draws lie to one side of real values",
    "off-manifold": "its draws do not go with the rest of the row, or fall where real values never are: use a sampler "
    "that follows how columns hang together, or one for the shape of this column",
    "wrong skew": "its draws lean to another side than real values: expect false discoveries; use a sampler that takes "
    "the shape of columns from the reference (residual, copula, forest)",
    "tails too light": "real values lie far out more often than its draws: expect false discoveries; use a sampler "
    "that takes the shape of columns from the reference (residual, copula, forest)",
    "tails too heavy": "its draws lie far out more often than real values, so signals are missed",
}
SCORED = (
    "crps and log_score say how close draws come to real values (smaller is better); ..._margin is what one gets "
    "without the rest of the row, explained the share of it that the rest of the row takes away."
)
PASSED = "Passing means that nothing was found in this many rows, not that the sampler is exact."


@dataclass(frozen=True, eq=False)
class SamplerCheck:
    """What `check_sampler` found: one verdict per subset, one of all together, scores; `ok` if there is nothing."""

    subset_names: tuple[str, ...]
    ranked: tuple[RankCheck, ...]
    shape_p: Floats  # (subsets,)
    auc: Floats  # (subsets,)
    auc_p: Floats  # (subsets,)
    model_p: Floats | None  # (subsets,)
    scores: tuple[Scores, ...]
    verdicts: tuple[Verdict, ...]
    together: Verdict  # the shape of all columns together: a fault too small to be seen in one of them
    together_p: float
    alpha: float
    rows: int
    draws: int
    left_out: tuple[str, ...] = ()  # columns that were not checked, for lack of time
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<butfor.SamplerCheck: {self.headline}>"

    @property
    def ok(self) -> bool:
        """True if nothing is called wrong; a right sampler is called wrong in at most a share alpha of checks."""
        return self.together == "ok" and all(verdict == "ok" for verdict in self.verdicts)

    @property
    def headline(self) -> str:
        wrong = sum(verdict != "ok" for verdict in self.verdicts)
        found = f"{wrong} of {len(self.verdicts)} subsets look wrong" if wrong else "nothing against this sampler"
        if self.together != "ok":
            found = f"{found if wrong else 'no subset by itself looks wrong'}, all together: {self.together}"
        return f"{found} ({self.rows} held-out rows, {self.draws} draws each, alpha={self.alpha:g})"

    @property
    def sentence(self) -> str:
        """The check in one sentence without a full stop, for a caveat: what is wrong with which subsets."""
        if self.ok:
            return f"the check finds nothing against it ({len(self.verdicts)} subsets, {self.rows} held-out rows)"
        found = [f"{_listed(names)} {verdict}" for verdict, names in self._wrong.items()]
        if self.together != "ok":
            found.append(f"all columns together {self.together}")
        return f"the check rejects it on {self.rows} held-out rows: {'; '.join(found)}"

    @cached_property
    def _wrong(self) -> dict[Verdict, list[str]]:
        pairs = list(zip(self.subset_names, self.verdicts, strict=True))
        return {verdict: [n for n, v in pairs if v == verdict] for verdict in MEANING if verdict in self.verdicts}

    @cached_property
    def table(self) -> pd.DataFrame:
        """A DataFrame with one row per subset.

        p: uniform ranks; shape_p: skew and tails; auc: can trees tell real rows from counterfactuals; crps and
        log_score beside those of the column's own margin; explained: what the rest of the row tells.
        """
        import pandas as pd

        columns: dict[str, Any] = {
            "subset": list(self.subset_names),
            "p": [check.p for check in self.ranked],
            "shape_p": self.shape_p,
            "coverage_50": [check.coverage_50 for check in self.ranked],
            "coverage_90": [check.coverage_90 for check in self.ranked],
            "auc": self.auc,
            "auc_p": self.auc_p,
            **self._scored,
        }
        if self.model_p is not None:
            columns["model_p"] = self.model_p
        return pd.DataFrame({**columns, "verdict": list(self.verdicts)})

    @property
    def _scored(self) -> dict[str, list[float]]:
        """The scores that some subset has."""
        found = {
            "crps": [score.crps for score in self.scores],
            "crps_margin": [score.crps_margin for score in self.scores],
            "log_score": [score.log_score for score in self.scores],
            "log_margin": [score.log_margin for score in self.scores],
            "explained": [score.explained for score in self.scores],
        }
        return {name: values for name, values in found.items() if not np.isnan(values).all()}

    @cached_property
    def histogram(self) -> Floats:
        """Share of held-out values in each tenth of their draws, (subsets, 10): all about 0.1 if Q is right."""
        return np.array([np.histogram(check.ranks, 10, (0, 1))[0] / self.rows for check in self.ranked])

    def summary(self) -> str:
        """The check in words: the table, what each verdict means, notes."""
        shown = self.table.to_string(index=False, float_format=lambda value: f"{value:.3g}")
        return "\n".join([f"Sampler check: {self.headline}", "", shown, "", *self._sentences()])

    def _repr_html_(self) -> str:
        words = "".join(f"<p>{escape(sentence)}</p>" for sentence in self._sentences())
        shown = self.table.to_html(index=False, float_format=lambda value: f"{value:.3g}", border=0)
        return f"<p>Sampler check: {escape(self.headline)}</p>{shown}{words}"

    def _sentences(self) -> list[str]:
        found = [f"{verdict}: {', '.join(names)} - {MEANING[verdict]}." for verdict, names in self._wrong.items()]
        if self.together != "ok":
            found.append(
                f"{self.together}, in all columns together (p = {self.together_p:.2g}) - {MEANING[self.together]}."
            )
        return [*(found or [PASSED]), *([SCORED] if self._scored else []), *self.notes]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Where held-out values stand among their draws, one line per subset.

        Parameters
        ----------
        ax : the axes to draw on, which come back; None makes some.
        """
        drawn: Axes = later("butfor.plots.sampler:rank_histograms")(self, ax)
        return drawn


def _listed(names: Sequence[str]) -> str:
    """Some names, and how many more.

    >>> _listed(["a", "b"]), _listed(list("abcdefgh"))
    ('a, b', 'a, b, c, d, e, f and 2 more')
    """
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
