"""Images and texts from coarse to fine: which test fits, and the layers of a problem (METHODS 14)."""

from __future__ import annotations

from dataclasses import replace

from butfor.core.draw.blocks import Problem
from butfor.core.draw.layers import ProposesTree, layers_of_trees
from butfor.core.draw.proposers import Proposer
from butfor.core.types import InputError
from butfor.run.proposed import Proposed
from butfor.run.settings import Settings

RULES = ("bh", "by", "holm", "bonferroni")


def check_zoom(proposer: Proposer, settings: Settings) -> None:
    """Refuse a test or a rule that cannot go from coarse to fine: what is not drawn must count as p = 1."""
    if not isinstance(proposer, ProposesTree):
        return
    test = settings.test
    if test.name not in ("sequential", "irt") or test.early_stop:
        raise InputError(
            f"zoom needs p-values, since what is not drawn counts as p = 1, got test={test.name!r}; use "
            "test='sequential', or 'irt' without early_stop"
        )
    if settings.rule not in RULES:
        raise InputError(f"zoom takes one of the rules {', '.join(RULES)}, got rule={settings.rule!r}; use 'bh'")


def with_layers(problem: Problem, proposer: Proposer, found: Proposed) -> Problem:
    """The problem, with its layers where what is tested are parts of each other."""
    if not isinstance(proposer, ProposesTree):
        return problem
    trees = [proposer.tree(name, found.items[place]) for place, name in enumerate(found.names)]
    return replace(problem, layers=layers_of_trees(trees))
