"""Benchmarks of butfor: every figure of the documentation, measured by `python -m benchmarks <study>`."""
