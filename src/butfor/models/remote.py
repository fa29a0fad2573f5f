"""A model behind an endpoint of the Open Inference Protocol V2 (MLServer, Triton, KServe and others) as a black box.

The client is httpx. Triton's own is 69 MB on disk without numpy, built on gevent, and not thread safe by its own words;
httpx is 5 MB, thread safe, and this protocol in JSON needs nothing but POST and GET.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Lock
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4
from weakref import finalize

import numpy as np

from butfor.core.checks import one_of, whole
from butfor.core.types import Array, Batch, InputError, ModelError
from butfor.models.bounded_http import CODINGS, AnswerBounds, BoundedAnswer, fetch
from butfor.models.optional import need, one_line
from butfor.models.patience import ModelUnreachable, NotThere, Patience, Refused, answered
from butfor.models.rows import chunks, padded, taken
from butfor.models.v2 import Contract, Inputs, answer, contract, request
from butfor.models.wrap import Wrapped

MOST_DECLARED = 1_000_000  # bytes of what a server declares of a model

__all__ = ["Endpoint", "ModelUnreachable", "endpoint"]


def endpoint(
    url: str,
    *,
    timeout: float = 30.0,
    patience: float = 60.0,
    concurrency: int = 4,
    rows_per_request: int = 1000,
    inputs: Inputs | None = None,
    output: str | None = None,
    classes: Sequence[object] | None = None,
    headers: Mapping[str, str] | None = None,
    ca_file: str | Path | None = None,
    most_bytes: int = 64_000_000,
) -> Wrapped:
    """The model behind an address as a black box, first asked when rows come.

    A batch comes back in its own order. A request that meets a lost connection, no answer in time, 429 or 5xx is sent
    again, with growing pauses: so a server may be restarted in the middle. The object is thread safe and can be
    pickled; connections are closed with `.call.close()`, or when it is no longer held.

    Parameters
    ----------
    url : `http://host:port/v2/models/NAME`, or `.../versions/V`.
    timeout : seconds to wait for one whole answer.
    patience : seconds for which a request is sent again; then ModelUnreachable is raised.
    concurrency : requests that are under way at a time.
    rows_per_request : rows that travel in one request.
    inputs : "columns" sends a frame column by column, "matrix" as one tensor; None is what the server declares, else
        columns for a frame.
    output : the name of the output; None is `predict_proba` where the server has it, else the only one.
    classes : the names of the outputs: the protocol has none.
    headers : sent along; they may carry a token.
    ca_file : file of the certificates (PEM) to trust, in place of the usual ones: of a server of your own house.
    most_bytes : of one answer, unpacked; a larger one is refused and not asked for again.

    Examples
    --------
    >>> endpoint("http://localhost:8080/v2/models/iris/infer").call
    Endpoint('http://localhost:8080/v2/models/iris')
    """
    address, trusted, sent = _model_url(url), _authority(ca_file), dict(headers or {})
    settings = EndpointSettings(
        address, timeout, patience, concurrency, rows_per_request, inputs, output, sent, trusted, most_bytes
    )
    need("httpx", "endpoint")
    return Wrapped(Endpoint(settings), None if classes is None else tuple(classes))


def _authority(file: str | Path | None) -> str | None:
    """The file, after seeing that there are certificates in it."""
    if file is None:
        return None
    path = Path(file).expanduser()
    try:
        ssl.create_default_context(cafile=str(path))
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = one_line(error)
        raise InputError(f"the file of certificates {path} cannot be used ({reason}); expected PEM") from error
    return str(path.absolute())


def _model_url(url: str) -> str:
    """The address of the model itself, whatever of its addresses was given."""
    parts = urlsplit(url)
    path = re.fullmatch(r"(.*/v2/models/[^/]+(?:/versions/[^/]+)?)(?:/infer)?/?", parts.path)
    if parts.scheme not in ("http", "https") or not parts.hostname or path is None:
        shown = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        raise InputError(f"{shown} is not the address of a model; expected http://host:port/v2/models/NAME")
    return urlunsplit((parts.scheme, parts.netloc, str(path[1]), parts.query, ""))


@dataclass(frozen=True)
class EndpointSettings:
    """What the user said of an endpoint; who may be asked, and how."""

    url: str
    timeout: float
    patience: float
    concurrency: int
    rows_per_request: int
    inputs: Inputs | None
    output: str | None
    headers: dict[str, str] = field(repr=False)
    ca_file: str | None = None
    most_bytes: int = 64_000_000

    def __post_init__(self) -> None:
        for name, seconds in (("timeout", self.timeout), ("patience", self.patience)):
            if not seconds > 0:
                raise InputError(f"{name} must be a number of seconds above 0, got {seconds}")
        one_of("inputs", self.inputs, ("matrix", "columns", None))
        least = (("concurrency", self.concurrency, 1), ("rows_per_request", self.rows_per_request, 1))
        for name, count, fewest in (*least, ("most_bytes", self.most_bytes, 1000)):
            whole(name, count, fewest)

    @property
    def shown(self) -> str:
        """The address without a password that may be in it."""
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))

    def trusted(self) -> bool | ssl.SSLContext:
        """Whose certificates are trusted: the usual ones, or those of a file."""
        return True if self.ca_file is None else ssl.create_default_context(cafile=self.ca_file)

    def at(self, end: str = "") -> str:
        """An address under that of the model."""
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(path=parts.path + end))


class Endpoint:
    """What `endpoint` asks. It keeps its connections open, and what it has found out about the server."""

    def __init__(self, settings: EndpointSettings, agreed: Contract | None = None) -> None:
        self.settings = settings
        self._agreed = agreed
        self._client: Any = None
        self._agreeing, self._opening = Lock(), Lock()

    def __repr__(self) -> str:
        return f"Endpoint({self.settings.shown!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Endpoint, (self.settings, self._agreed)

    def __call__(self, batch: Batch) -> Array:
        stop = Event()
        agreed, done = self._settled(batch, stop)
        start = sum(map(len, done))
        size = agreed.fixed_rows or self.settings.rows_per_request
        parts = [taken(batch, start + a, start + b) for a, b in chunks(len(batch) - start, size)]
        done += self._ask_all(parts, agreed, stop)
        if len({part.shape[1:] for part in done}) > 1:
            raise ModelError(f"the model at {self.settings.shown} returned another number of outputs for other rows")
        return np.concatenate(done)

    def _settled(self, batch: Batch, stop: Event) -> tuple[Contract, list[Array]]:
        """What was agreed with the server, and answers that were had on the way: the first call finds it out."""
        with self._agreeing:
            if self._agreed is not None:
                return self._agreed, []
            self._agreed, first = self._agree(batch, stop)
            return self._agreed, [first]

    def close(self) -> None:
        """Close the connections; they are opened again if the object is called again."""
        with self._opening:
            if self._client is not None:
                self._client.close()
            self._client = None

    def _agree(self, batch: Batch, stop: Event) -> tuple[Contract, Array]:
        """What the server takes and gives, and its answer to the first rows of the batch."""
        declared = self._metadata(stop)
        known = declared or Contract()
        rows = taken(batch, 0, known.fixed_rows or self.settings.rows_per_request)
        *first, last = (replace(known, output=output) for output in _outputs(known, self.settings.output))
        for agreed in first:
            try:
                return agreed, self._ask(rows, agreed, stop, served=declared is not None)
            except NotThere:
                raise
            except Refused:  # it has the model but not this output of it: the next choice
                pass
        return last, self._ask(rows, last, stop, served=declared is not None)

    def _metadata(self, stop: Event) -> Contract | None:
        """What the server declares; None where it does not: the protocol does not oblige it to."""
        patience = Patience(self.settings.shown, self.settings.patience, stop, reached=False, served=False)
        try:
            response = answered(lambda: self._fetch("GET", self.settings.at(), None, MOST_DECLARED), patience)
        except Refused:
            return None  # if the address is wrong, the rows will find out
        try:
            return contract(response.json())
        except (KeyError, TypeError, ValueError, AttributeError):
            return None

    def _ask_all(self, parts: list[Batch], agreed: Contract, stop: Event) -> list[Array]:
        """The answers in the order of the parts, whichever of them comes first."""
        if len(parts) < 2:
            return [self._ask(part, agreed, stop) for part in parts]
        pool = ThreadPoolExecutor(min(self.settings.concurrency, len(parts)), "butfor-endpoint")
        try:
            futures = [pool.submit(self._ask, part, agreed, stop) for part in parts]
            for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                future.result()
            return [future.result() for future in futures]
        finally:
            stop.set()  # if one has failed, the others need not go on trying
            pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self, part: Batch, agreed: Contract, stop: Event, served: bool = True) -> Array:
        rows, name = len(part), uuid4().hex
        full = padded(part, agreed.fixed_rows or 0)
        body = request(full, agreed, self.settings.inputs, name)
        where = self.settings.at("/infer")
        patience = Patience(self.settings.shown, self.settings.patience, stop, served=served)
        response = answered(lambda: self._fetch("POST", where, body, self.settings.most_bytes), patience)
        try:
            content = response.json()
        except ValueError as error:
            shown, why = response.text[:200], one_line(error)[:200]
            raise ModelError(f"the model at {self.settings.shown} answered in no JSON: {shown!r} ({why})") from error
        return answer(content, agreed, len(full), name)[:rows]

    def _fetch(self, method: str, url: str, content: bytes | None, most_bytes: int) -> BoundedAnswer:
        bounds = AnswerBounds(self.settings.timeout, most_bytes, self.close)
        return fetch(self._open(), method, url, content, bounds)

    def _open(self) -> Any:
        with self._opening:
            if self._client is None:
                httpx = need("httpx", "endpoint")
                self._client = httpx.Client(
                    timeout=httpx.Timeout(self.settings.timeout),
                    limits=httpx.Limits(max_connections=None),
                    headers={
                        "content-type": "application/json",
                        "accept-encoding": CODINGS,
                        **self.settings.headers,
                    },
                    verify=True
                    if self.settings.ca_file is None
                    else ssl.create_default_context(cafile=self.settings.ca_file),
                )
                finalize(self, self._client.close)
            return self._client


def _outputs(declared: Contract, wanted: str | None) -> list[str | None]:
    """Names of outputs to try, in order; None leaves it to the server."""
    if wanted is not None:
        return [wanted]
    names = [one.name for one in declared.outputs]
    numbers = [one.name for one in declared.outputs if one.datatype.startswith("FP")]
    for candidates in (
        [name for name in names if name == "predict_proba"],
        [name for name in numbers if "prob" in name.lower()],
        numbers,
        names,
    ):
        if len(candidates) == 1:
            return [candidates[0]]
    if names:
        raise ModelError(f"the endpoint has the outputs {', '.join(names)}; say which with output=")
    return ["predict_proba", None]
