"""Residual regression, the default sampler of tables: `design`, then `regression`, then `sampler`."""

from butfor.tabular.residual.sampler import residual

__all__ = ["residual"]
