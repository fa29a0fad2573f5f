"""Contexts of language models: which passage, example, turn or instruction does the answer rest on?"""

from butfor.context.explain import cost, explain
from butfor.context.foils import Foils, next_ranks
from butfor.context.prompt import Prompt, prompt
from butfor.context.reader import SmallReader, small_reader
from butfor.context.result import ContextResult, load

__all__ = [
    "ContextResult",
    "Foils",
    "Prompt",
    "SmallReader",
    "cost",
    "explain",
    "load",
    "next_ranks",
    "prompt",
    "small_reader",
]
