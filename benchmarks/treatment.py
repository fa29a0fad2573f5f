"""Treatment planted in credit decisions: false accusations and power, beside counterfactual situation testing.

Applicants have income, debt, years, a branch, a sex, and two columns of which a compliance officer may think that they
tell it: hours, which do, and shops, which do not. A model is learned on income, debt, years and shops; what is planted
is a rule on top, in so many of a hundred branches: by sex itself (direct) or by hours (proxy). The truth is computed
from the law of the bed: a decision is otherwise but for sex if q(other) > 1/2 and q(other) > q(own).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from benchmarks.figures import Figures, ProgressTo, mean_error, quietly
from butfor import Progress, treatment
from butfor.evaluation.progress import reporting
from butfor.results.treatment import Treatment
from butfor.types import Bools, Floats

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["direct", "proxy"]
LEARNED = ["income", "debt", "years", "shops"]
LEGITIMATE = ["income", "debt", "years", "branch"]
LEARNERS = ("logistic", "boosting", "network")
SHARES, CROSSED = (0, 1, 5, 20), (0, 20)  # of a hundred branches
KINDS: tuple[Kind, ...] = ("direct", "proxy")
PENALTY, TELLS, NOISE, SHOPPING = 3.0, 1.2, 0.6, 0.8
POINTS = 101  # of the grids on which the law of a proxy is summed


def applicants(rng: np.random.Generator, count: int, *, crossed: bool = False) -> pd.DataFrame:
    """Draw applicants: hours go with sex and income, shops with income and debt alone.

    Where they are `crossed`, the slope of hours in income differs by sex, shops are curved, both have unequal spread.
    """
    import pandas as pd

    income = rng.normal(size=count)
    woman = rng.random(count) < 1 / (1 + np.exp(0.4 * income))
    return pd.DataFrame(
        {
            "sex": np.where(woman, "f", "m"),
            "income": income,
            "debt": (debt := 0.3 * income + rng.normal(size=count)),
            "years": rng.normal(size=count),
            "branch": rng.integers(100, size=count),
            "hours": _at(_hours(woman, income, crossed), rng.normal(size=count)),
            "shops": _at(_shops(income, debt, crossed), rng.normal(size=count)),
        }
    )


Law = tuple[Floats, Floats]  # mean and standard deviation of a proxy (n,)


def _at(law: Law, deviates: Floats) -> Floats:
    return np.asarray(law[0] + law[1] * deviates)


def _hours(woman: Bools, income: Floats, crossed: bool) -> Law:
    sign = np.where(woman, -1.0, 1.0)
    if crossed:
        return sign * (TELLS + 0.4 * income) + 0.3 * income, NOISE * np.exp(0.3 * income)
    return sign * TELLS + 0.3 * income, np.full(len(income), NOISE)


def _shops(income: Floats, debt: Floats, crossed: bool) -> Law:
    if crossed:
        return 0.5 * income + 0.3 * (income**2 - 1), np.exp(0.3 * debt)
    return 0.5 * income, np.ones(len(income))


def repaid(rng: np.random.Generator, people: pd.DataFrame) -> Bools:
    """Draw who repays: neither sex nor hours have a part in it."""
    logit = 0.4 + 1.2 * people.income - 1.2 * people.debt + 0.6 * people.years + SHOPPING * people.shops
    return np.asarray(rng.random(len(people)) < 1 / (1 + np.exp(-logit)))


def learn(name: str, people: pd.DataFrame, labels: Bools, seed: int) -> Any:
    """Fit a learner on the columns that have a part in it."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier

    made: dict[str, Any] = {
        "logistic": lambda: LogisticRegression(),
        "boosting": lambda: HistGradientBoostingClassifier(max_iter=60, random_state=seed),
        "network": lambda: MLPClassifier((16,), alpha=0.1, max_iter=60, random_state=seed, tol=1e-3),
    }
    # a network that has not converged is a model like any other
    return quietly(made[name]().fit, people[LEARNED].to_numpy(), labels)


@dataclass(frozen=True, eq=False)
class Bed:
    """Applicants, a reference, and a model in which treatment is planted in `share` of a hundred branches."""

    people: pd.DataFrame
    reference: pd.DataFrame
    learner: Any
    kind: Kind
    share: int
    crossed: bool = False

    def score(self, learned: Floats, branch: Floats, woman: Floats, hours: Floats) -> Floats:
        """Return the score: approved above zero."""
        chance = np.clip(self.learner.predict_proba(learned)[:, 1], 1e-6, 1 - 1e-6)
        return np.asarray(np.log(chance / (1 - chance)) - self.penalty(branch, woman, hours))

    def penalty(self, branch: Floats, woman: Floats, hours: Floats) -> Floats:
        """Return what is planted."""
        by = woman * 1.0 if self.kind == "direct" else 1 / (1 + np.exp(4 * hours))
        return PENALTY * (branch < self.share) * by

    def model(self, people: pd.DataFrame) -> Floats:
        """Return the score of applicants, as the test sees it."""
        branch, hours = people.branch.to_numpy(np.float64), people.hours.to_numpy(np.float64)
        woman = (people.sex == "f").to_numpy().astype(np.float64)
        return self.score(people[LEARNED].to_numpy(np.float64), branch, woman, hours)

    @cached_property
    def approved(self) -> Bools:
        """Who is approved."""
        return self.model(self.people) > 0

    def chance(self, rows: pd.DataFrame, woman: Bools) -> Floats:
        """Return the probability of being approved with another draw of hours and shops, given sex (n,)."""
        from scipy.special import ndtri

        normal = ndtri((np.arange(POINTS) + 0.5) / POINTS)
        income, debt, branch = (rows[name].to_numpy(np.float64) for name in ("income", "debt", "branch"))
        (middle, spread), (mean, sd) = _shops(income, debt, self.crossed), _hours(woman, income, self.crossed)
        learned = np.repeat(rows[LEARNED].to_numpy(), POINTS, axis=0)
        learned[:, 3] = (middle[:, None] + spread[:, None] * normal).ravel()
        chances = np.clip(self.learner.predict_proba(learned)[:, 1].reshape(-1, POINTS), 1e-6, 1 - 1e-6)
        score = np.sort(np.log(chances / (1 - chances)), axis=1)
        penalty = self.penalty(branch[:, None], woman[:, None].astype(np.float64), mean[:, None] + sd[:, None] * normal)
        above = [POINTS - np.searchsorted(one, cut, side="right") for one, cut in zip(score, penalty, strict=True)]
        return np.asarray(np.mean(above, axis=1) / POINTS)

    @cached_property
    def rates(self) -> tuple[Floats, Floats]:
        """q under the other sex and under the same (n,); of sex alone where that is what is planted."""
        woman = (self.people.sex == "f").to_numpy()
        if self.kind == "direct":
            swapped = self.people.assign(sex=np.where(woman, "m", "f"))
            return (self.model(swapped) > 0).astype(np.float64), self.approved.astype(np.float64)
        return self.chance(self.people, ~woman), self.chance(self.people, woman)

    @cached_property
    def truth(self) -> Bools:
        """Who was declined and would not have been, but for sex."""
        other, kept = self.rates
        return ~self.approved & (other > 0.5) & (other > kept + 1e-9)

    def tested(self, seed: int, alpha: float = 0.1, **more: Any) -> Treatment:
        """Return what our test says: income, debt, years and branch are legitimate."""
        proxies = {"proxies": ["hours", "shops"]} if self.kind == "proxy" else {}
        return treatment(
            self.model,
            self.people,
            self.reference,
            decide=lambda score: score > 0,
            favourable=True,
            attribute="sex",
            alpha=alpha,
            seed=seed,
            **{"legitimate": LEGITIMATE, **proxies, **more},
        )


def bed(
    seed: int,
    name: str,
    kind: Kind,
    share: int,
    people: int = 300,
    reference: int = 1000,
    *,
    crossed: bool = False,
) -> Bed:
    """Make one bed; the learner has seen neither the people nor the reference."""
    rng = np.random.default_rng([seed, 29])
    training = applicants(rng, 2000, crossed=crossed)
    learner = learn(name, training, repaid(rng, training), seed)
    drawn = [applicants(rng, count, crossed=crossed) for count in (people, reference)]
    return Bed(drawn[0], drawn[1], learner, kind, share, crossed)


# Counterfactual situation testing (Alvarez & Ruggieri 2023, arXiv 2302.11944), written anew


def situation_test(bed: Bed, k: int = 15) -> tuple[Floats, Floats]:
    """Return by how much more often those like a person are declined than those like its counterfactual, and the error.

    The k nearest of the person's sex are compared with the k nearest of the other sex to the *counterfactual* person,
    whose hours and shops are what a linear causal model makes of them: the same residuals, the other sex. Distances are
    Manhattan's over standardised columns, decisions those of the model on the reference.
    """
    from scipy.spatial import cKDTree
    from sklearn.linear_model import LinearRegression

    columns = ["income", "debt", "years", "branch", "hours", "shops"]
    people, rows = bed.people, bed.reference
    declined = bed.model(rows) <= 0
    woman, others = (people.sex == "f").to_numpy(), (rows.sex == "f").to_numpy()
    fitted = LinearRegression().fit(np.column_stack([others, rows[columns[:4]]]), rows[columns[4:]])
    moved = people[columns].to_numpy(np.float64)
    if bed.kind == "proxy":
        moved[:, 4:] += np.where(woman, -1.0, 1.0)[:, None] * fitted.coef_[:, 0]
    middle, spread = rows[columns].mean().to_numpy(), rows[columns].std().to_numpy()
    standard = (rows[columns].to_numpy() - middle) / spread
    shares = np.empty((2, len(people)))
    for sex in (False, True):
        tree = cKDTree(standard[others == sex])
        of_sex = declined[others == sex]
        for which, places in enumerate((people[columns].to_numpy(), moved)):
            mine = woman == sex if which == 0 else woman != sex
            near = tree.query((places[mine] - middle) / spread, k, p=1)[1]
            shares[which, mine] = of_sex[near].mean(axis=1)
    error = np.sqrt((shares * (1 - shares)).sum(axis=0) / k)
    return shares[0] - shares[1], error


# The study


def run(
    runs: int = 40,
    seed: int = 0,
    people: int = 300,
    reference: int = 1000,
    alpha: float = 0.1,
    progress: ProgressTo = None,
) -> Figures:
    """False accusations, power and the peer, by what is planted, where and in which learner; and legitimate proxies.

    Crossed: the hard law of proxies, a logistic model, and a reference of a fifth of the rows.
    """
    found: dict[tuple[str, str, int], list[Figures]] = {}
    legitimate: list[Figures] = []
    with reporting(progress) as report:
        for number in range(seed, seed + runs):
            report(Progress(f"run {number - seed + 1} of {runs}", number - seed, runs))
            rng = np.random.default_rng([number, 29])
            training = applicants(rng, 2000)
            labels = repaid(rng, training)
            applying, compared = applicants(rng, people), applicants(rng, reference)
            for name in LEARNERS:
                learner = learn(name, training, labels, number)
                for share in SHARES:
                    for kind in KINDS:
                        one = Bed(applying, compared, learner, kind, share)
                        found.setdefault((kind, name, share), []).append(_measured(one, number, alpha))
                for share in CROSSED if name == "logistic" else ():
                    hard = bed(number, name, "proxy", share, people, reference // 5, crossed=True)
                    found.setdefault(("proxy, crossed", name, share), []).append(_measured(hard, number, alpha))
                one = Bed(applying, compared, learner, "proxy", 20)
                legitimate.append(
                    {
                        "hours are legitimate, shops a proxy": one.tested(
                            number, alpha, proxies=["shops"], legitimate=[*LEGITIMATE, "hours"]
                        ).accused.any(),
                        "both are legitimate": one.tested(
                            number, alpha, proxies=None, legitimate=[*LEGITIMATE, "hours", "shops"]
                        ).accused.any(),
                    }
                )
    cells = [_cell(*key, each) for key, each in found.items()]
    never = {name: float(np.mean([one[name] for one in legitimate])) for name in legitimate[0]}
    return {"cells": cells, "runs with any accusation by a legitimate proxy": never, "runs": runs}


def _measured(one: Bed, seed: int, alpha: float) -> Figures:
    result, (gap, error) = one.tested(seed, alpha), situation_test(one)
    rates, rows = result.rates, np.flatnonzero(result.compared)
    other = 1 - result.value_of[rows] if len(result.values) == 2 else result.strongest[rows]
    q, low, high = one.rates[0][rows], rates.low[rows, other], rates.high[rows, other]
    bound = result.bound(np.arange(len(one.people)))
    return {
        "accused": result.accused,
        "truth": one.truth,
        "asked": result.compared,
        "gap": gap,
        "error": error,
        "covered": float(((low - 1e-9 <= q) & (q <= high + 1e-9)).mean()),
        "bound": bound / max(1, int(one.truth.sum())),
        "too many": bound > one.truth.sum(),
    }


def _cell(kind: str, name: str, share: int, each: list[Figures]) -> Figures:
    fdp, power = zip(*(_rates(one["accused"], one["truth"]) for one in each), strict=True)
    fdr, fdr_se = mean_error(fdp)
    sizes = [one["truth"].sum() for one in each]
    cell: Figures = {"planted": kind, "model": name, "share of branches": share / 100, "runs": len(each)}
    cell |= {"declined": float(np.mean([one["asked"].sum() for one in each])), "truly otherwise": float(np.mean(sizes))}
    cell |= {"fdr": round(fdr, 3), "fdr_se": round(fdr_se, 3)}
    cell["power"] = _mean(power)
    cell["intervals that hold q"] = float(np.mean([one["covered"] for one in each]))
    cell["at least, of those truly otherwise"] = float(np.mean([one["bound"] for one in each]))
    cell["runs in which that is too many"] = float(np.mean([one["too many"] for one in each]))
    cell["runs with any accusation"] = float(np.mean([one["accused"].any() for one in each]))
    peer = [_rates(one["asked"] & (one["gap"] - 1.96 * one["error"] > 0), one["truth"]) for one in each]
    cell["peer fdr"], cell["peer power"] = (
        round(float(np.mean([one[0] for one in peer])), 3),
        _mean([p for _, p in peer]),
    )
    cell["peer power at our fdr"] = _power_at(each, fdr)
    cell["peer power at fdr .1"] = _power_at(each, 0.1)
    return cell


def _rates(accused: Bools, truth: Bools) -> tuple[float, float | None]:
    false = int((accused & ~truth).sum()) / max(1, int(accused.sum()))
    return false, float((accused & truth).sum() / truth.sum()) if truth.any() else None


def _mean(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return round(float(np.mean(known)), 3) if known else None


def _power_at(each: list[Figures], fdr: float) -> float | None:
    """Return the peer's power at the least threshold of its difference at which its FDR is at most ours."""
    best = None
    for cut in np.unique(np.concatenate([one["gap"][one["asked"]] for one in each]))[::-1]:
        pairs = [_rates(one["asked"] & (one["gap"] >= cut), one["truth"]) for one in each]
        if np.mean([one[0] for one in pairs]) <= fdr + 1e-12:
            power = _mean([one[1] for one in pairs])
            best = power if best is None or (power is not None and power > best) else best
    return 0.0 if best is None and any(one["truth"].any() for one in each) else best
