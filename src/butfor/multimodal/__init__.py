"""Inputs of several parts: an image and its caption, say."""

from butfor.multimodal.explain import explain

__all__ = ["explain"]
