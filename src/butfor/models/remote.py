"""A model behind an endpoint of the Open Inference Protocol V2 (MLServer, Triton, KServe and others) as a black box.

The client is httpx (docs/decisions.md, 20).
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import ssl
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from threading import Event, Lock, Timer
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4
from weakref import finalize

import numpy as np

from butfor.evaluation.calls import retry
from butfor.models.wrap import Wrapped, as_type, chunks, is_frame, matrix, need, padded, taken
from butfor.types import Array, Batch, InputError, ModelError, ModelUnreachable, one_of, reworded, whole
from butfor.untrusted import parse_json

if TYPE_CHECKING:
    import pandas as pd


DATATYPES: dict[str, Any] = {
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
    "BOOL": np.bool_,
    **{f"INT{bits}": np.dtype(f"int{bits}").type for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": np.dtype(f"uint{bits}").type for bits in (8, 16, 32, 64)},
}
NAMES = {np.dtype(kind).name: name for name, kind in DATATYPES.items()}
Inputs = Literal["matrix", "columns"]
Part = TypeVar("Part")
Returned = TypeVar("Returned")
MOST_ROWS = 1_000_000  # of one request, that a server may declare it wants


@dataclass(frozen=True)
class Tensor:
    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Contract:
    """The inputs and outputs that the server declares (perhaps none), and the output to request (None: it chooses)."""

    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    output: str | None = None

    @property
    def fixed_rows(self) -> int | None:
        """The number of rows that every request must have, if the model was built for one."""
        shape = self.inputs[0].shape if self.inputs else ()
        return shape[0] if len(shape) > 1 and shape[0] > 0 else None


def contract(metadata: Mapping[str, Any]) -> Contract:
    """Return the metadata of a model as a contract.

    >>> contract({"name": "m", "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]}).inputs[0].datatype
    'FP32'
    """

    def declared(one: Mapping[str, Any]) -> Tensor:
        name, datatype, shape = one["name"], one["datatype"], tuple(one["shape"])
        if not isinstance(name, str) or not isinstance(datatype, str) or not all(type(size) is int for size in shape):
            raise TypeError("a tensor that is declared has a name, a datatype and a shape of whole numbers")
        if shape and shape[0] > MOST_ROWS:
            raise ValueError(f"{shape[0]} rows in one request")
        return Tensor(name, datatype, shape)

    inputs, outputs = (tuple(map(declared, metadata.get(key) or ())) for key in ("inputs", "outputs"))
    return Contract(inputs, outputs)


def request(batch: Batch, agreed: Contract, inputs: Inputs | None, name: str) -> bytes:
    """Return the body of a request; `inputs` None sends frames as columns, the rest as one tensor, unless declared."""
    body: dict[str, Any] = {"id": name}
    columns = is_frame(batch) if inputs is None and not agreed.inputs else inputs == "columns"
    if columns or len(agreed.inputs) > 1:
        body["inputs"] = _columns(batch, agreed.inputs)
        if not agreed.inputs:
            body["parameters"] = {"content_type": "pd"}  # MLServer: the model gets a frame
    else:
        body["inputs"] = [_one_tensor(batch, agreed.inputs[0] if agreed.inputs else None)]
    if agreed.output is not None:
        body["outputs"] = [{"name": agreed.output}]
    return json.dumps(body, allow_nan=False).encode()


def _columns(batch: Batch, declared: tuple[Tensor, ...]) -> list[dict[str, Any]]:
    if not is_frame(batch):
        raise ModelError(f"the endpoint takes columns by name, got {type(batch).__name__}; give a DataFrame")
    if missing := [one.name for one in declared if one.name not in batch.columns]:
        raise ModelError(f"the endpoint needs the columns {missing[:8]}; the frame has {list(batch.columns[:8])}")
    if not declared:
        return [_column(str(name), batch[name], None) for name in batch.columns]
    return [_column(one.name, batch[one.name], one) for one in declared]


def _column(name: str, column: pd.Series[Any], declared: Tensor | None) -> dict[str, Any]:
    values = np.asarray(column)
    if column.dtype.kind in "iuf" and values.dtype.kind == "O":  # pandas' own integers, some missing
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    if values.dtype.kind in "iufb" and (declared is None or declared.datatype != "BYTES"):
        return _numbers(name, values, declared) | {"shape": _shape_of_one(len(values), declared)}
    strings = [None if gone else str(value) for value, gone in zip(values, column.isna(), strict=True)]
    kind = {"parameters": {"content_type": "datetime"}} if values.dtype.kind == "M" else {}
    return {"name": name, "shape": _shape_of_one(len(values), declared), "datatype": "BYTES", "data": strings} | kind


def _shape_of_one(rows: int, declared: Tensor | None) -> list[int]:
    return [rows, 1] if declared is None or len(declared.shape) > 1 else [rows]


def _one_tensor(batch: Batch, declared: Tensor | None) -> dict[str, Any]:
    """Return the batch as one tensor: a matrix, images of one size, or texts."""
    name = "predict" if declared is None else declared.name  # MLServer's models take any name
    if isinstance(batch, list) and all(isinstance(text, str) for text in batch):
        texts = {"name": name, "shape": _shape_of_one(len(batch), declared), "datatype": "BYTES", "data": list(batch)}
        return texts | {"parameters": {"content_type": "str"}}
    if isinstance(batch, list) and len({np.shape(image) for image in batch}) > 1:
        raise ModelError("the endpoint takes images of one size only; resize them first")
    return _numbers(name, matrix(batch, "the endpoint"), declared)


def _numbers(name: str, values: Array, declared: Tensor | None) -> dict[str, Any]:
    if declared is not None and declared.datatype in DATATYPES:
        values = as_type(values, DATATYPES[declared.datatype], name)
    flat = values.ravel()
    data = flat.tolist()
    if flat.dtype.kind == "f" and not np.isfinite(flat).all():
        if np.isinf(flat).any():
            raise ModelError(f"an infinite value in {name!r} cannot be sent to an endpoint; make it finite or missing")
        data = [value if value == value else None for value in data]  # JSON has no NaN
    if values.dtype.name not in NAMES:
        raise ModelError(f"the endpoint takes numbers, got {values.dtype}")
    return {"name": name, "shape": list(values.shape), "datatype": NAMES[values.dtype.name], "data": data}


def answer(body: object, agreed: Contract, rows: int, name: str) -> Array:
    """Return the numbers in an answer, (rows,) or (rows, outputs), after checking that they answer this request."""
    if not isinstance(body, dict) or not isinstance(body.get("outputs"), list) or not body["outputs"]:
        raise ModelError(f"the endpoint's answer has no outputs: {str(body)[:200]}")
    if body.get("id") not in (None, "", name):
        raise ModelError(
            f"the endpoint answered request {body['id']!r:.60} where {name!r} was asked: a proxy mixes them up"
        )
    outputs = body["outputs"]
    if not all(isinstance(one, dict) for one in outputs):
        raise ModelError("the endpoint's answer lists outputs that are no tensors")
    named = [one for one in outputs if one.get("name") == agreed.output]
    if not named and len(outputs) > 1:
        names = ", ".join(str(one.get("name")) for one in outputs)
        raise ModelError(f"the endpoint returned the outputs {names}; say which with output=")
    tensor = (named or outputs)[0]
    if tensor.get("datatype") == "BYTES":
        raise ModelError(
            f"output {tensor.get('name')!r:.60} of the endpoint is text, expected numbers; name another with output="
        )
    faults = KeyError, TypeError, ValueError, OverflowError, RecursionError, MemoryError
    with reworded("the endpoint's answer is no tensor: ", faults, by=ModelError):
        shape = tuple(tensor["shape"])
        if not all(type(size) is int and size >= 0 for size in shape):
            raise ModelError(f"the endpoint returned a tensor of shape {str(shape)[:60]}")
        if not shape or shape[0] != rows:
            count = shape[0] if shape else "no"
            raise ModelError(f"the endpoint returned {count} rows for {rows}; expected one for each")
        values = np.array(tensor["data"], dtype=DATATYPES.get(str(tensor.get("datatype")), np.float64))
        if values.size != math.prod(shape) or not values.size:
            raise ModelError(f"the endpoint returned {values.size} numbers in a tensor of shape {list(shape)}")
    values = values.reshape(rows, -1)
    return values[:, 0] if values.shape[1] == 1 else values


FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds; doubled in between
PAUSE_OF_FEW = 0.5  # the first pause where the number of tries is bounded
LONGEST_WAIT = 3600.0  # seconds that a server may ask for
FIRST_CONTACT = 5.0  # seconds: an address at which nobody has ever answered is more likely wrong than restarting
ATTEMPTS_ON_500 = 6  # a model that raises answers 500 for ever, a server in trouble for a moment


class Refused(ModelError):
    """The server answered that it cannot do what was asked (4xx): asking again would not help."""


class NotThere(Refused):
    """The server answered that it has no such model (404)."""


class _Failed(Exception):
    """An answer that is no answer, but may become one; `wait` are the seconds that the server asks for."""

    def __init__(self, why: str, wait: float = 0.0) -> None:
        super().__init__(why)
        self.wait = wait


def message(response: BoundedAnswer) -> str:
    """Return the server's error in one line: that of a JSON answer, the last line of a traceback."""
    try:
        body = response.json()
        body = body.get("error", body.get("detail", body)) if isinstance(body, dict) else body
        body = body.get("message", body) if isinstance(body, dict) else body
    except ValueError:
        body = response.text
    lines = [line for line in str(body).splitlines() if line.strip()] or ["(nothing said)"]
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Warning)\b", line)]
    return " ".join((raised or lines)[-1].split())[:300]


CODINGS = "gzip, deflate"  # what is requested: others unfold a hundred thousand times over at once
CHUNK = 1 << 16
MOST_ERROR = 100_000  # bytes of an answer that is an error


@dataclass(frozen=True)
class BoundedAnswer:
    """An answer that has been read: as much of httpx's own as is used."""

    status_code: int
    headers: Any
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        """Return the content; ValueError where it is not JSON, or too deep or too large to hold."""
        return parse_json(self.content)


def _read(response: Any, seconds: float, most_bytes: int, fewer: str) -> bytes:
    """Read the answer to a request that was just sent, within bounds."""
    end = monotonic() + seconds
    good = 200 <= response.status_code < 300
    parts, size = [], 0
    for part in _unpacked(response):
        parts.append(part)
        size += len(part)
        if monotonic() > end:
            raise _Failed(f"it took more than {seconds:g} s to answer; a longer timeout= or {fewer} may help")
        if good and size > most_bytes:
            allow = ", or allow more with most_bytes=" if "rows" in fewer else ""
            raise ModelError(f"the model's answer has more than {most_bytes / 1e6:g} MB; ask for {fewer}{allow}")
        if not good and size > MOST_ERROR:
            break
    return b"".join(parts)


def masked(content: bytes, secret: str) -> bytes:
    r"""Return content without the key, also where JSON writes it with escapes.

    >>> masked(rb'{"error": "bad key k\u0065y-1"}', "key-1")
    b'{"error": "bad key ***"}'
    """
    if not secret:
        return content
    if b"\\" in content:
        with suppress(ValueError):
            content = json.dumps(parse_json(content), ensure_ascii=False).encode("utf-8", "replace")
    return content.replace(secret.encode(), b"***")


def _unpacked(response: Any) -> Iterator[bytes]:
    """Yield the bytes of an answer as they come, unpacked a little at a time."""
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
    """Wrap the model behind an address, which is first contacted when rows come.

    A batch comes back in its own order. A request that meets a lost connection, no answer in time, 429 or 5xx is sent
    again, with growing pauses: so a server may be restarted in the middle. The object is thread safe and can be
    pickled; connections are closed with `.call.close()`, or when it is no longer held.

    Parameters
    ----------
    url : str
        `http://host:port/v2/models/NAME`, or `.../versions/V`.
    timeout : float, default=30.0
        Seconds to wait for one whole answer.
    patience : float, default=60.0
        Seconds for which a request is sent again; then ModelUnreachable is raised.
    concurrency : int, default=4
        Requests that are under way at a time.
    rows_per_request : int, default=1000
        Rows that travel in one request.
    inputs : {"columns", "matrix"}, default=None
        "columns" sends a frame column by column, "matrix" as one tensor; None is what the server declares, else
        columns for a frame.
    output : str, default=None
        The name of the output; None is `predict_proba` where the server has it, else the only one.
    classes : sequence, default=None
        The names of the outputs: the protocol has none.
    headers : mapping, default=None
        Sent along; they may carry a token.
    ca_file : str or Path, default=None
        Certificates (PEM) to trust in place of the usual ones: of a server of your own organisation.
    most_bytes : int, default=64_000_000
        Largest answer, unpacked; a larger one is refused and not requested again.

    Returns
    -------
    Wrapped
        A model for `butfor.explain`.

    Examples
    --------
    >>> endpoint("http://localhost:8080/v2/models/iris/infer").call
    Endpoint('http://localhost:8080/v2/models/iris')
    """
    for name, seconds in (("timeout", timeout), ("patience", patience)):
        if not seconds > 0:
            raise InputError(f"{name} must be a number of seconds above 0, got {seconds}")
    one_of("inputs", inputs, ("matrix", "columns", None))
    whole("concurrency", concurrency, 1)
    whole("rows_per_request", rows_per_request, 1)
    whole("most_bytes", most_bytes, 1000)
    parts = urlsplit(url)
    path = re.fullmatch(r"(.*/v2/models/[^/]+(?:/versions/[^/]+)?)(?:/infer)?/?", parts.path)
    if parts.scheme not in ("http", "https") or not parts.hostname or path is None:
        shown = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        raise InputError(f"{shown} is not the address of a model; expected http://host:port/v2/models/NAME")
    if ca_file is not None:
        ca_file = Path(ca_file).expanduser()
        words = f"the file of certificates {ca_file} cannot be used ("
        with reworded(words, (OSError, ValueError), advice="); expected PEM"):  # ssl.SSLError is an OSError
            ssl.create_default_context(cafile=str(ca_file))
        ca_file = str(ca_file.absolute())
    need("httpx", "endpoint")
    model = Endpoint(
        url=urlunsplit((parts.scheme, parts.netloc, str(path[1]), parts.query, "")),
        timeout=timeout,
        patience=patience,
        concurrency=concurrency,
        rows_per_request=rows_per_request,
        inputs=inputs,
        output=output,
        headers=dict(headers or {}),
        ca_file=ca_file,
        most_bytes=most_bytes,
    )
    return Wrapped(model, None if classes is None else tuple(classes))


@dataclass(eq=False, repr=False)
class Endpoint:
    """The model that `endpoint` wraps. It keeps its connections open, and what it has learned of the server."""

    url: str
    timeout: float
    patience: float
    concurrency: int
    most_bytes: int
    rows_per_request: int = 1
    inputs: Inputs | None = None
    output: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    ca_file: str | None = None
    key: str | None = None  # the NAME of the environment variable with the key, which itself is stored nowhere
    retries: int | None = None
    fewer: str = "fewer rows_per_request="
    agreed: Contract | None = None
    version: object = None  # of the model, as the server's answers name it

    def __post_init__(self) -> None:
        self._client: Any = None
        self._agreeing, self._opening = Lock(), Lock()

    def __repr__(self) -> str:
        return f"Endpoint({self.shown!r})"

    def __reduce__(self) -> tuple[Any, ...]:  # neither connections nor locks travel
        return partial(Endpoint, **{one.name: getattr(self, one.name) for one in fields(self)}), ()

    @property
    def shown(self) -> str:
        """The address without a password that may be in it."""
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))

    def secret(self) -> str:
        """Return the key that the environment has now, "" where it has none."""
        value = os.environ.get(self.key, "").strip() if self.key else ""
        if not value.isascii() or not value.isprintable() or " " in value:
            del value  # some tracebacks show variables
            raise InputError(f"the variable {self.key} has spaces or unusual characters in it; expected a plain key")
        return value

    def authorised(self) -> dict[str, str]:
        """Return the header with the key, if there is one."""
        return {"authorization": f"Bearer {secret}"} if (secret := self.secret()) else {}

    def masked(self, text: str) -> str:
        """Return a text without the key."""
        return masked(text.encode("utf-8", "replace"), self.secret()).decode("utf-8", "replace")

    def __call__(self, batch: Batch) -> Array:
        stop, outputs = Event(), list[Array]()
        with self._agreeing:
            if self.agreed is None:  # the first call finds out what the server takes and gives
                self.agreed, first = self._agree(batch, stop)
                outputs.append(first)
            agreed = self.agreed
        start = sum(map(len, outputs))
        size = agreed.fixed_rows or self.rows_per_request
        parts = [taken(batch, start + a, start + b) for a, b in chunks(len(batch) - start, size)]
        outputs += in_order(lambda part: self._send(part, agreed, stop), parts, self.concurrency, stop)
        if len({part.shape[1:] for part in outputs}) > 1:
            raise ModelError(f"the model at {self.shown} returned another number of outputs for other rows")
        return np.concatenate(outputs)

    def version_of_model(self) -> str | None:
        """Return what the server declares of the model, its versions too; None: nothing."""
        try:
            declared = self.fetch("", None, MOST_DECLARED, Event(), first=True, served=False).json()
            return json.dumps([declared.get(name) for name in ("name", "versions", "platform")])
        except (Refused, ValueError, AttributeError):
            return None

    def close(self) -> None:
        """Close the connections; they are opened again if the object is called again."""
        with self._opening:
            if self._client is not None:
                self._client.close()
            self._client = None

    def _agree(self, batch: Batch, stop: Event) -> tuple[Contract, Array]:
        """Return what the server takes and gives, and its answer to the first rows of the batch."""
        known, declared = Contract(), False  # the protocol does not oblige a server to declare anything
        try:
            response = self.fetch("", None, MOST_DECLARED, stop, first=True, served=False)
            with suppress(KeyError, TypeError, ValueError, AttributeError):
                known, declared = contract(response.json()), True
        except Refused:
            pass  # if the address is wrong, the rows will find out
        rows = taken(batch, 0, known.fixed_rows or self.rows_per_request)
        *others, last = (replace(known, output=output) for output in _outputs(known, self.output))
        for agreed in others:
            try:
                return agreed, self._send(rows, agreed, stop, served=declared)
            except NotThere:
                raise
            except Refused:  # it has the model but not this output of it: the next choice
                pass
        return last, self._send(rows, last, stop, served=declared)

    def _send(self, part: Batch, agreed: Contract, stop: Event, served: bool = True) -> Array:
        rows, name = len(part), uuid4().hex
        full = padded(part, agreed.fixed_rows or 0)
        body = request(full, agreed, self.inputs, name)
        response = self.fetch("/infer", body, self.most_bytes, stop, served=served)
        words = f"the model at {self.shown} answered in no JSON: {response.text[:200]!r} ("
        with reworded(words, ValueError, by=ModelError, advice=")"):
            content = response.json()
        outputs = answer(content, agreed, len(full), name)[:rows]
        version = content.get("model_version") or self.version
        self.version = self.version or version
        if version != self.version:
            raise InputError(
                f"the server at {self.shown} answers with version {version!r:.40} of the model, before it was "
                f"{self.version!r:.40}: both would be mixed; make the endpoint anew, and explain again"
            )
        return outputs

    def fetch(
        self, end: str, content: bytes | None, most_bytes: int, stop: Event, *, served: bool, first: bool = False
    ) -> BoundedAnswer:
        """Post some content to an address under that of the model, or get its own, until the answer is a good one.

        Connection loss, time-outs, 429 and 5xx are tried again, with pauses that double and jitter, while there is
        patience. So is 404 where the model has been `served` before: after a restart a server is up before its models
        are. An address at which nobody has answered yet (`first`) is given up sooner. `stop` ends the waiting.
        """
        httpx = need("httpx", "endpoint")
        parts, seconds, address = urlsplit(self.url), self.timeout, self.shown
        url, method = urlunsplit(parts._replace(path=parts.path + end)), "GET" if content is None else "POST"
        retries, start, reached, attempts = self.retries, monotonic(), not first, 0

        def send() -> BoundedAnswer:
            timer = Timer(seconds + 1.0, self.close)  # cuts a connection that only ever sends headers
            timer.daemon = True
            client = self._open()
            timer.start()
            try:  # the key is no variable here: some tracebacks show those
                with client.stream(method, url, content=content, headers=self.authorised()) as response:
                    read = _read(response, seconds, most_bytes, self.fewer)
                    return BoundedAnswer(response.status_code, response.headers, masked(read, self.secret()))
            finally:
                timer.cancel()

        def once() -> BoundedAnswer:
            nonlocal reached, attempts
            attempts += 1
            try:
                response = send()
            except _Failed:  # it does answer, but slowly
                reached = True
                raise
            except (httpx.TransportError, httpx.StreamError, RuntimeError) as error:  # RuntimeError: it was cut
                if isinstance(error, RuntimeError) and "closed" not in str(error):
                    raise
                if "CERTIFICATE_VERIFY_FAILED" in str(error):
                    raise ModelError(f"the certificate of the server at {address} is not trusted: {error}") from error
                name = type(error).__name__
                if isinstance(error, httpx.TimeoutException):
                    advice = f"a longer timeout= or {self.fewer} may help"
                    raise _Failed(f"no answer in time ({name}); {advice}") from error
                raise _Failed(f"{name}: {error}" if str(error) else name) from error
            reached = True
            status = response.status_code
            if 200 <= status < 300:
                return response
            if 300 <= status < 400:
                raise Refused(
                    f"the model at {address} redirects ({status}), which is not followed; give its final address"
                )
            text = message(response)
            why = f"the server answered {status}: {text}"
            if status == 500 and attempts >= (ATTEMPTS_ON_500 if retries is None else retries + 1):
                raise ModelError(f"the model at {address} failed {attempts} times over; {why}")
            if not (status >= 500 or status == 429 or "not ready" in text or (status == 404 and served)):
                raise (NotThere if status == 404 else Refused)(f"the model at {address} refused the request; {why}")
            after = response.headers.get("retry-after", "")
            raise _Failed(why, min(float(after), LONGEST_WAIT) if after.isascii() and after.isdecimal() else 0.0)

        def pause(error: Exception, attempt: int) -> float:
            if not isinstance(error, _Failed):
                raise error
            limit = self.patience if reached else min(self.patience, FIRST_CONTACT)
            if (waited := monotonic() - start) >= limit or (retries is not None and attempt > retries):
                times = "once" if attempt == 1 else f"{attempt} times in {waited:.0f} s"
                longer = "patience= of butfor.models.endpoint waits" if retries is None else "retries= waits"
                words = f"the model at {address} could not be reached, asked {times} ({error}); start it again"
                raise ModelUnreachable(f"{words} ({longer} longer)")
            doubled = min((FIRST_PAUSE if retries is None else PAUSE_OF_FEW) * 2.0 ** (attempt - 1), LONGEST_PAUSE)
            jittered = doubled * random.SystemRandom().uniform(0.5, 1.5)  # who failed together comes back apart
            return min(max(error.wait, jittered), limit - waited)  # the last try is at the very end

        def sleep(pause_of: float) -> None:
            if stop.wait(pause_of):
                raise CancelledError

        return retry(once, pause, sleep)

    def _open(self) -> Any:
        with self._opening:
            if self._client is None:
                httpx, file = need("httpx", "endpoint"), self.ca_file
                fixed = {"content-type": "application/json", "accept-encoding": CODINGS}
                self._client = httpx.Client(
                    timeout=httpx.Timeout(self.timeout),
                    limits=httpx.Limits(max_connections=None),
                    headers={**fixed, **self.headers},
                    verify=True if file is None else ssl.create_default_context(cafile=file),
                )
                finalize(self, self._client.close)
            return self._client


def in_order(call: Callable[[Part], Returned], parts: Sequence[Part], concurrency: int, stop: Event) -> list[Returned]:
    """Return what a call returns for each part, so many at a time; the first error sets `stop` and is raised."""
    if len(parts) < 2 or concurrency == 1:
        return [call(part) for part in parts]
    pool = ThreadPoolExecutor(min(concurrency, len(parts)), "butfor-endpoint")
    try:
        futures = [pool.submit(call, part) for part in parts]
        for future in wait(futures, return_when=FIRST_EXCEPTION).done:
            future.result()
        return [future.result() for future in futures]
    finally:
        stop.set()  # if one has failed, the others need not go on trying
        pool.shutdown(wait=False, cancel_futures=True)


def _outputs(declared: Contract, wanted: str | None) -> list[str | None]:
    """Return names of outputs to try, in order; None leaves it to the server."""
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
