"""Is Q any good? Held-out rows against their own counterfactuals, with a verdict per subset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.core.checks import between, whole
from butfor.core.draw.blocks import Block, Job, Problem, draw, table_problem
from butfor.core.draw.streams import stream
from butfor.core.evaluate.batches import Evaluator, evaluate
from butfor.core.evaluate.outputs import Target, pick
from butfor.core.evaluate.probe import probe
from butfor.core.result.later import later
from butfor.core.select.rules import bh
from butfor.core.test.sampler_checks import RankCheck, Verdict, check_ranks, filled, told_apart
from butfor.core.types import Floats, InputError
from butfor.models import Wrapped
from butfor.tabular.bind import bind_model, bind_sampler
from butfor.tabular.subsets import column_subsets
from butfor.tabular.table import items_of
from butfor.tabular.two_sample import score_ranks

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

LEAST_ROWS = 50
MOST_ROWS = 1000  # a fitted sampler is never exactly right: more rows would flag what does no harm
BATCH_ROWS = 10_000
MEANING: dict[Verdict, str] = {
    "too narrow": "its draws scatter less than real values, so ordinary ones look surprising: expect false discoveries",
    "too wide": "its draws scatter more than real values, so signals are missed",
    "shifted": "its draws lie to one side of real values",
    "off-manifold": "its draws do not go with the rest of the row, or fall where real values never are: use a sampler "
    "that follows how columns hang together, or one for the shape of this column",
}


@dataclass(frozen=True, eq=False)
class SamplerCheck:
    """What `check_sampler` found: one verdict per subset, and `ok` if there is nothing against the sampler."""

    subset_names: tuple[str, ...]
    ranked: tuple[RankCheck, ...]
    auc: Floats  # (subsets,)
    auc_p: Floats  # (subsets,)
    model_p: Floats | None  # (subsets,)
    verdicts: tuple[Verdict, ...]
    alpha: float
    rows: int
    draws: int
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<butfor.SamplerCheck: {self.headline}>"

    @property
    def ok(self) -> bool:
        """True if no subset is called wrong; a right sampler is called wrong in at most a share alpha of checks."""
        return all(verdict == "ok" for verdict in self.verdicts)

    @property
    def headline(self) -> str:
        wrong = sum(verdict != "ok" for verdict in self.verdicts)
        found = f"{wrong} of {len(self.verdicts)} subsets look wrong" if wrong else "nothing against this sampler"
        return f"{found} ({self.rows} held-out rows, {self.draws} draws each, alpha={self.alpha:g})"

    @cached_property
    def table(self) -> pd.DataFrame:
        """A DataFrame with one row per subset; p: uniform ranks, auc: can trees tell real rows from counterfactuals."""
        import pandas as pd

        columns: dict[str, Any] = {
            "subset": list(self.subset_names),
            "p": [check.p for check in self.ranked],
            "coverage_50": [check.coverage_50 for check in self.ranked],
            "coverage_90": [check.coverage_90 for check in self.ranked],
            "auc": self.auc,
            "auc_p": self.auc_p,
        }
        if self.model_p is not None:
            columns["model_p"] = self.model_p
        return pd.DataFrame({**columns, "verdict": list(self.verdicts)})

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
        found = [
            f"{verdict}: {', '.join(n for n, v in zip(self.subset_names, self.verdicts, strict=True) if v == verdict)}"
            f" - {meaning}."
            for verdict, meaning in MEANING.items()
            if verdict in self.verdicts
        ]
        passed = "Passing means that nothing was found in this many rows, not that the sampler is exact."
        return [*(found or [passed]), *self.notes]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Where held-out values stand among their draws, one line per subset.

        Parameters
        ----------
        ax : the axes to draw on, which come back; None makes some.
        """
        drawn: Axes = later("butfor.plots.sampler:rank_histograms")(self, ax)
        return drawn


def check_table(
    sampler: object,
    X_held_out: object,
    model: object = None,
    *,
    subsets: object = None,
    draws: int = 99,
    alpha: float = 0.01,
    seed: int = 0,
    done: Callable[[int, int], None] | None = None,
) -> SamplerCheck:
    """Whether a sampler of tables redraws features as they are; `butfor.check_sampler` has the words.

    `done` hears of rows that were drawn, and of how many there will be.
    """
    whole("draws", draws, 19)
    between("alpha", alpha, "0.01 is a good choice")
    whole("seed", seed, 0)
    wrapped = None if model is None else bind_model(model, X_held_out, "held-out data")
    table, fitted = bind_sampler(X_held_out, sampler, "held-out data")
    count = len(table.values)
    if count < LEAST_ROWS:
        raise InputError(f"check_sampler needs at least {LEAST_ROWS} held-out rows, got {count}; hold out more")
    kept = np.sort(stream(seed, "check", "rows").permutation(count)[:MOST_ROWS])
    groups = column_subsets(table, subsets)
    items = replace(items_of(table), values=table.values[kept])
    problem = table_problem(items, [table.index[i] for i in kept], groups, fitted, seed)
    asked = None if wrapped is None else _statistic(wrapped, problem)
    found = []
    for j, group in enumerate(groups):
        blocks = [block for block in problem.blocks if block.subset is group]
        found.append(_check_subset(problem, blocks, draws, asked))
        if done is not None:
            done((j + 1) * len(kept) * draws, problem.size * draws)
    ranked = tuple(ranks for ranks, _, _ in found)
    auc, auc_p = np.array([apart for _, apart, _ in found]).T
    model_p = None if asked is None else np.array([p for _, _, p in found])
    called, _ = verdicts(ranked, [auc_p] if model_p is None else [auc_p, model_p], alpha)
    notes = (f"{len(kept)} of {count} held-out rows were used.",) if len(kept) < count else ()
    names = problem.subset_names
    return SamplerCheck(names, ranked, auc, auc_p, model_p, tuple(called), alpha, len(kept), draws, notes)


Statistic = Callable[[Sequence[Job]], Iterator[Floats]]  # one number per version of each input, job by job


def _statistic(model: Wrapped, problem: Problem) -> Statistic:
    """The model's output, or that of the class it predicts, of what some jobs draw."""
    seen = probe(model.call, problem.items, BATCH_ROWS, lambda row: f"held-out row {row}")
    width = seen.outputs.shape[1]
    evaluator, target = Evaluator(model.call, BATCH_ROWS, width), Target("output" if width == 1 else "predicted")

    def values(jobs: Sequence[Job]) -> Iterator[Floats]:
        for _, outputs in evaluate(problem, evaluator, jobs):
            yield seen.rounding.merge_rounding_ties(pick(outputs, target, np.arange(len(outputs)))[0])

    return values


def _check_subset(
    problem: Problem, blocks: list[Block], draws: int, statistic: Statistic | None
) -> tuple[RankCheck, tuple[float, float], float | None]:
    """The ranks of held-out values, how well trees tell them from draws (auc and p), and p of the model's outputs."""
    jobs = [Job(block, draws, "check") for block in blocks]
    subset, inputs = blocks[0].subset, problem.items.block(0, len(problem.items))
    pool = np.concatenate([draw(problem, job).values for job in jobs]).astype(np.float64)
    pool = filled(pool.reshape(len(problem.items), draws + 1, -1))
    rng = stream(problem.seed, "check", subset.name)
    ranked = check_ranks(pool, rng)
    apart = told_apart(score_ranks(filled(inputs), np.asarray(subset.index), pool, rng))
    if statistic is None:
        return ranked, apart, None
    return ranked, apart, check_ranks(np.concatenate(list(statistic(jobs)))[:, :, None], rng).p


def verdicts(checks: Sequence[RankCheck], others: Sequence[Floats], alpha: float) -> tuple[list[Verdict], Floats]:
    """A verdict per subset, and the p-value it rests on; `others` are more p-values per subset (classifier, model).

    Bonferroni within a subset and Benjamini-Hochberg over subsets: a right Q is called wrong anywhere in at most a
    share alpha of checks. A wrong one is called after its ranks where they are the clearest sign, else off-manifold.
    """
    own = np.array([check.p for check in checks])
    tests = np.array([own, *others])  # (tests, subsets)
    p = np.minimum(1.0, len(tests) * tests.min(axis=0))
    clearest = tests.argmin(axis=0) == 0
    found: list[Verdict] = [
        "ok" if not wrong else check.pattern if ranked else "off-manifold"
        for check, wrong, ranked in zip(checks, bh(p, alpha), clearest, strict=True)
    ]
    return found, p
