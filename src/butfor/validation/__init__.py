"""A validation pack: what a model validator needs to sign that butfor does what it promises on a model and its data."""

from butfor.validation.run import Validation, validate, verify

__all__ = ["Validation", "validate", "verify"]
