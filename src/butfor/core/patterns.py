"""Regular expressions that cannot hang: they run in a process of their own, which is ended when its time is over.

Some patterns take longer than the universe lasts on a text of forty letters, and Python cannot stop them from inside.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock, Timer
from typing import Any
from weakref import finalize

from butfor.core.types import InputError

SECONDS = 5.0  # for what is asked at once
MOST_MEMORY = 1 << 29  # bytes of the process, where the system can be told
LONGEST = 10_000  # characters of a pattern
CHILD = f"""
import json, re, sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, ({MOST_MEMORY}, {MOST_MEMORY}))
except (ImportError, ValueError, OSError):
    pass
source, flags = json.loads(sys.stdin.readline())
pattern = re.compile(source, flags)
group = min(1, pattern.groups)
for line in sys.stdin:
    found = [[match.span(group) for match in pattern.finditer(text)] for text in json.loads(line)]
    sys.stdout.write(json.dumps(found) + "\\n")
    sys.stdout.flush()
"""


@dataclass(eq=False)
class TimedPattern:
    """A regular expression whose search ends in time. The process starts with the first texts.

    >>> TimedPattern("not ([a-z]+)").spans(["It is not good.", "It is."])
    [[(10, 14)], []]
    >>> TimedPattern("(a+)+$", seconds=0.3).spans(["a" * 40 + "b"])
    Traceback (most recent call last):
    butfor.core.types.InputError: the pattern '(a+)+$' took more than 0.3 s; write it without repeats inside repeats
    """

    source: str
    flags: int = 0
    seconds: float = SECONDS
    _process: Any = field(default=None, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.source, str) or len(self.source) > LONGEST:
            raise InputError(f"a pattern must be text of at most {LONGEST} characters, got {self.source!r:.60}")
        try:
            re.compile(self.source, self.flags)
        except (re.error, OverflowError, RecursionError) as error:
            why = " ".join(str(error).split())  # it may quote a line of the pattern
            raise InputError(f"{self.source!r:.200} is not a regular expression: {why}") from error

    def __reduce__(self) -> tuple[Any, ...]:  # a process cannot travel
        return TimedPattern, (self.source, self.flags, self.seconds)

    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Where the pattern matches in each text, or its first group if it has one; (-1, -1): that takes no part."""
        with self._lock:
            process = self._process = self._process or self._started()
            timer = Timer(self.seconds, process.kill)
            timer.daemon = True
            timer.start()
            try:
                process.stdin.write(json.dumps(list(texts)) + "\n")
                process.stdin.flush()
                answer = process.stdout.readline()
            except OSError:
                answer = ""
            finally:
                late = not timer.is_alive()
                timer.cancel()
            if not answer:
                self._process = None
                process.kill()
                process.communicate()
        if not answer:
            took = f"took more than {self.seconds:g} s" if late else "needs too much memory"
            raise InputError(f"the pattern {self.source!r:.200} {took}; write it without repeats inside repeats")
        return [[(start, end) for start, end in found] for found in json.loads(answer)]

    def _started(self) -> Any:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="ascii",
        )
        finalize(self, _end, process)
        assert process.stdin is not None
        process.stdin.write(json.dumps([self.source, self.flags]) + "\n")
        return process


def _end(process: Any) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        pipe.close()
