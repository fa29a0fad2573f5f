"""Is Q any good? Held-out rows against their own counterfactuals, with a verdict per subset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from butfor._arguments import between
from butfor._edge import dressing
from butfor._modality import Modality, modality
from butfor._progress import Progress, reporting
from butfor.core.calls import Calls, evaluate
from butfor.core.draws import Block, Job, Problem, draw, table_problem
from butfor.core.outputs import Rounding, Target, pick, probe
from butfor.core.sampler_checks import RankCheck, Verdict, check_ranks, filled, told_apart, verdicts
from butfor.core.streams import stream
from butfor.core.types import Floats, InputError, Model
from butfor.models import wrap
from butfor.tabular.splice import meet
from butfor.tabular.subsets import column_subsets
from butfor.tabular.table import Table
from butfor.tabular.two_sample import score_ranks

if TYPE_CHECKING:
    import pandas as pd

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
        said = "".join(f"<p>{escape(sentence)}</p>" for sentence in self._sentences())
        shown = self.table.to_html(index=False, float_format=lambda value: f"{value:.3g}", border=0)
        return f"<p>Sampler check: {escape(self.headline)}</p>{shown}{said}"

    def _sentences(self) -> list[str]:
        found = [
            f"{verdict}: {', '.join(n for n, v in zip(self.subset_names, self.verdicts, strict=True) if v == verdict)}"
            f" - {meaning}."
            for verdict, meaning in MEANING.items()
            if verdict in self.verdicts
        ]
        passed = "Passing means that nothing was found in this many rows, not that the sampler is exact."
        return [*(found or [passed]), *self.notes]

    def plot(self, ax: Any = None) -> Any:
        """Where held-out values stand among their draws, one line per subset; returns the axes."""
        from butfor.plots.sampler import rank_histograms

        return rank_histograms(self, ax)


def check_sampler(
    sampler: Any,
    X_held_out: Any,
    model: Any = None,
    *,
    subsets: Any = None,
    draws: int | None = None,
    alpha: float = 0.01,
    seed: int = 0,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Any:
    """Whether `sampler` redraws features as they are, judged on held-out rows of the population it was fitted on.

    Give rows of the *reference* kind that the sampler has not seen, not the rows you want to explain: those may well
    be surprising. Per subset: the rank of the real value among its draws must be uniform (Neyman's smooth test),
    extremely randomised trees must not tell real rows from counterfactuals better than chance, and with a `model` the
    rank of its output among the outputs of counterfactuals must be uniform, too. `alpha` bounds the share of checks in
    which a right sampler is called wrong anywhere (Bonferroni within a subset, Benjamini-Hochberg over subsets).

    A list of images or texts, which need a `model`, goes to `butfor.image.ranks` (`subsets` are its boxes) or
    `butfor.text.ranks` (its units): where do real patches or words stand among 5 draws of their own? The answer has
    `ok`, `verdict`, `summary()` and `plot()`.

    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(300, 1)) + 0.3 * rng.normal(size=(300, 2))  # two columns that go together
    >>> from butfor.tabular import empirical, gaussian
    >>> check_sampler(gaussian(rows[:200]), rows[200:]).ok
    True
    >>> check_sampler(empirical(rows[:200]), rows[200:]).verdicts
    ('off-manifold', 'off-manifold')
    """
    kind = modality(X_held_out)
    if kind != "table":
        return _of_lists(kind, sampler, X_held_out, model, subsets, 5 if draws is None else draws, seed)
    draws = 99 if draws is None else draws
    _check_arguments(draws, alpha, seed)
    table, fitted = meet(X_held_out, sampler, "held-out data")
    count = len(table.values)
    if count < LEAST_ROWS:
        raise InputError(f"check_sampler needs at least {LEAST_ROWS} held-out rows, got {count}; hold out more")
    kept = np.sort(stream(seed, "check", "rows").permutation(count)[:MOST_ROWS])
    groups = column_subsets(table, subsets)
    problem = table_problem(table.values[kept], [table.index[i] for i in kept], groups, fitted, seed)
    asked = None if model is None else _asked(wrap(model).call, table, problem)
    with reporting(progress) as report:
        total = problem.size * draws
        found = []
        for j, group in enumerate(groups):
            blocks = [block for block in problem.blocks if block.subset is group]
            found.append(_check_subset(problem, blocks, draws, asked))
            report(Progress("check", (j + 1) * len(kept) * draws, total))
    ranked = tuple(one.ranked for one in found)
    auc, auc_p = np.array([one.told for one in found]).T
    model_p = None if model is None else np.array([one.model_p for one in found])
    called, _ = verdicts(ranked, [auc_p] if model_p is None else [auc_p, model_p], alpha)
    notes = (f"{len(kept)} of {count} held-out rows were used.",) if len(kept) < count else ()
    names = problem.subset_names
    return SamplerCheck(names, ranked, auc, auc_p, model_p, tuple(called), alpha, len(kept), draws, notes)


def _of_lists(kind: Modality, sampler: Any, inputs: Any, model: Any, subsets: Any, draws: int, seed: int) -> Any:
    if model is None:
        raise InputError(f"checking a sampler of {kind}s needs a model, by whose output they are ranked; give model=")
    if kind == "image":
        from butfor import image

        return image.ranks(model, inputs, sampler, boxes=subsets, draws=draws, seed=seed)
    from butfor import text

    return text.ranks(model, inputs, sampler, units="word" if subsets is None else subsets, draws=draws, seed=seed)


def _check_arguments(draws: Any, alpha: Any, seed: Any) -> None:
    if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < 19:
        raise InputError(f"draws must be a whole number of at least 19, got {draws!r}; 99 is a good choice")
    between("alpha", alpha, "0.01 is a good choice")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"seed must be a whole number of at least 0, got {seed!r}")


@dataclass(frozen=True)
class _Asked:
    """How to get one number per row from the model."""

    calls: Calls
    target: Target
    rounding: Rounding


def _asked(model: Model, table: Table, problem: Problem) -> _Asked:
    dress = dressing(table)
    seen = probe(model, problem.inputs, BATCH_ROWS, lambda row: f"held-out row {row}", dress)
    width = seen.outputs.shape[1]
    target = Target("output" if width == 1 else "predicted")
    return _Asked(Calls(model, BATCH_ROWS, width, lambda _: None, dress=dress), target, seen.rounding)


@dataclass(frozen=True)
class _Found:
    ranked: RankCheck
    told: tuple[float, float]
    model_p: float | None


def _check_subset(problem: Problem, blocks: list[Block], draws: int, asked: _Asked | None) -> _Found:
    jobs = [Job(block, draws, "check") for block in blocks]
    subset = blocks[0].subset
    pool = np.concatenate([draw(problem, job).values for job in jobs]).astype(np.float64)
    pool = filled(pool.reshape(len(problem.inputs), draws + 1, -1))
    rng = stream(problem.seed, "check", subset.name)
    ranked = check_ranks(pool, rng)
    told = told_apart(score_ranks(filled(problem.inputs), np.asarray(subset.index), pool, rng))
    if asked is None:
        return _Found(ranked, told, None)
    parts = [
        asked.rounding.settle(pick(values, asked.target, np.arange(len(values)))[0])
        for _, values in evaluate(problem, asked.calls, jobs)
    ]
    return _Found(ranked, told, check_ranks(np.concatenate(parts)[:, :, None], rng).p)
