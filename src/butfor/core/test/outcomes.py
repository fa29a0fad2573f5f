"""Models of which all answers on counterfactuals are known: exact p-values, and nobody is asked (METHODS 13)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from butfor.core.draw.blocks import Block, Problem
from butfor.core.draw.listing import Listed
from butfor.core.evaluate.batches import Evaluator
from butfor.core.test.evidence import Found
from butfor.core.test.exact import found_in_list
from butfor.core.test.statistic import StatisticSpec
from butfor.core.types import Floats


class Outcomes(Protocol):
    """Lists all that may come of some hypotheses: outputs and their probabilities, without the model."""

    def split(self, problem: Problem) -> tuple[list[Block], list[Block]]:
        """Blocks whose hypotheses it knows, and the others."""
        ...

    def listed(self, problem: Problem, blocks: Sequence[Block]) -> Iterator[tuple[Listed, Floats]]:
        """What is listed for the hypotheses of these blocks, and outputs (n, versions, outputs), the observed first."""
        ...


@dataclass(frozen=True, eq=False)
class ReadModel:
    """What was found on looking into the model: its outcomes (None: it has to be asked), notes, and rows that took."""

    outcomes: Outcomes | None = None
    notes: tuple[str, ...] = ()
    rows: int = 0


def known_outcomes(
    problem: Problem, evaluator: Evaluator, spec: StatisticSpec, blocks: Sequence[Block], outcomes: Outcomes
) -> Iterator[Found]:
    """The p-values of the hypotheses of `blocks`, as `exact` defines them; nothing is drawn and nobody is asked."""
    for listed, outputs in outcomes.listed(problem, blocks):
        evaluator.show(problem, listed.batch, outputs)
        yield replace(found_in_list(spec, listed.batch.job, outputs, listed.support), draws=0)
