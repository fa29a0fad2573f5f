"""Exact tests for tree ensembles: what the model says is a step function of a column, so nothing has to be drawn."""

from butfor.tabular.exact_trees.outcomes import read_trees

__all__ = ["read_trees"]
