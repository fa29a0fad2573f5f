"""The embedded example of contexts: which of nine passages does a small network's answer rest on?"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from butfor.context.explain import explain
from butfor.context.prompt import prompt
from butfor.context.reader import small_reader
from butfor.context.result import ContextResult
from butfor.evaluation.progress import Progress
from butfor.results.summary import WIDTH

PROMPTS: dict[str, Any] = json.loads(Path(__file__).with_name("prompts.json").read_text(encoding="utf-8"))
BEFORE = (
    "A small network answers questions about offices from passages that a search has found. In the first prompt one "
    "passage has the code; in the second, two say the same; in the third, somebody has slipped in a passage that tells "
    "the network what to answer. Each passage is replaced by others that the search might have found as well, and the "
    "network is asked again."
)


@dataclass(frozen=True)
class ContextDemo:
    result: ContextResult

    def marked(self, *, colour: bool | None = None) -> str:
        return "\n\n".join([textwrap.fill(BEFORE, WIDTH), self.result.marked(colour=colour)])


def context_demo(seed: int = 0, progress: bool | Callable[[Progress], None] | None = None) -> ContextDemo:
    """Test every passage of three prompts, by the embedded network; nothing is downloaded."""
    prompts = {name: prompt(given["parts"], question=given["question"]) for name, given in PROMPTS["prompts"].items()}
    return ContextDemo(explain(small_reader(), prompts, PROMPTS["pool"], seed=seed, progress=progress))
