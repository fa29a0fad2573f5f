"""Answers of a server that may send anything: so many bytes, in so many seconds, and no more."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Timer
from time import monotonic
from typing import Any

from butfor.core.parsing import parse_json
from butfor.core.types import ModelError
from butfor.models.patience import SlowAnswer

CODINGS = "gzip, deflate"  # what is asked for: others unfold a hundred thousand times over at once
CHUNK = 1 << 16
MOST_SAID = 100_000  # bytes of an answer that is an error


@dataclass(frozen=True)
class BoundedAnswer:
    """An answer that has been read: as much of httpx's own as is used."""

    status_code: int
    headers: Any
    content: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status_code < 300

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        """What it says; ValueError where it is not JSON, or too deep or too large to hold."""
        return parse_json(self.content)


@dataclass(frozen=True)
class AnswerBounds:
    """How long an answer may take and how large it may be; `cut` ends a connection that only ever sends headers."""

    seconds: float
    most_bytes: int
    cut: Callable[[], None]


def fetch(client: Any, method: str, url: str, content: bytes | None, bounds: AnswerBounds) -> BoundedAnswer:
    """Send a request and read its whole answer, within bounds."""
    end = monotonic() + bounds.seconds
    timer = Timer(bounds.seconds + 1.0, bounds.cut)
    timer.daemon = True
    timer.start()
    try:
        with client.stream(method, url, content=content) as response:
            return BoundedAnswer(response.status_code, response.headers, _read(response, end, bounds))
    finally:
        timer.cancel()


def _read(response: Any, end: float, bounds: AnswerBounds) -> bytes:
    good = 200 <= response.status_code < 300
    parts, size = [], 0
    for part in _unpacked(response):
        parts.append(part)
        size += len(part)
        if monotonic() > end:
            raise SlowAnswer(f"it took more than {bounds.seconds:g} s to answer")
        if good and size > bounds.most_bytes:
            raise ModelError(
                f"the model's answer has more than {bounds.most_bytes / 1e6:g} MB; ask for fewer rows_per_request=, "
                "or allow more with most_bytes="
            )
        if not good and size > MOST_SAID:
            break
    return b"".join(parts)


def _unpacked(response: Any) -> Iterator[bytes]:
    """The bytes of an answer as they come, unpacked a little at a time."""
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding in ("identity", ""):
        yield from response.iter_raw()
        return
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise ModelError(f"the model's answer is packed as {coding!r:.40}, which was not asked for")
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip or zlib, by what it begins with
    try:
        for raw in response.iter_raw():
            while raw:
                yield unpack.decompress(raw, CHUNK)
                raw = unpack.unconsumed_tail
        yield unpack.flush()
    except zlib.error as error:
        raise ModelError(f"the model's answer cannot be unpacked: {error}") from error
