"""A model behind an endpoint of the Open Inference Protocol V2 (MLServer, Triton, KServe and others) as a black box.

The client is httpx. Triton's own is 69 MB on disk without numpy, built on gevent, and not thread safe by its own words;
httpx is 5 MB, thread safe, and this protocol in JSON needs nothing but POST and GET.
"""

from __future__ import annotations

import json
import math
import random
import re
import ssl
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Lock, Timer
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4
from weakref import finalize

import numpy as np

from butfor.models.wrap import Wrapped, as_type, chunks, is_frame, matrix, need, one_line, padded, taken
from butfor.types import Array, Batch, InputError, ModelError, one_of, whole
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
MOST_ROWS = 1_000_000  # of one request, that a server may declare it wants


@dataclass(frozen=True)
class Tensor:
    """An input or output that the server declares."""

    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Contract:
    """What the server declares of a model (perhaps nothing), and which output is asked for (None: it chooses)."""

    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    output: str | None = None

    @property
    def fixed_rows(self) -> int | None:
        """The number of rows that every request must have, if the model was built for one."""
        shape = self.inputs[0].shape if self.inputs else ()
        return shape[0] if len(shape) > 1 and shape[0] > 0 else None


def contract(metadata: Mapping[str, Any]) -> Contract:
    """The metadata of a model as a contract.

    >>> contract({"name": "m", "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]}).inputs[0].datatype
    'FP32'
    """
    inputs, outputs = (tuple(_declared(one) for one in metadata.get(key) or ()) for key in ("inputs", "outputs"))
    return Contract(inputs, outputs)


def _declared(one: Mapping[str, Any]) -> Tensor:
    name, datatype, shape = one["name"], one["datatype"], tuple(one["shape"])
    if not isinstance(name, str) or not isinstance(datatype, str) or not all(type(size) is int for size in shape):
        raise TypeError("a tensor that is declared has a name, a datatype and a shape of whole numbers")
    if shape and shape[0] > MOST_ROWS:
        raise ValueError(f"{shape[0]} rows in one request")
    return Tensor(name, datatype, shape)


def request(batch: Batch, agreed: Contract, inputs: Inputs | None, name: str) -> bytes:
    """The body of a request; `inputs` None sends frames as columns and the rest as one tensor, unless declared."""
    body: dict[str, Any] = {"id": name}
    columns = is_frame(batch) if inputs is None and not agreed.inputs else inputs == "columns"
    if columns or len(agreed.inputs) > 1:
        body["inputs"] = _columns(batch, agreed.inputs)
        if not agreed.inputs:
            body["parameters"] = {"content_type": "pd"}  # MLServer: the model gets a frame
    else:
        body["inputs"] = [_whole(batch, agreed.inputs[0] if agreed.inputs else None)]
    if agreed.output is not None:
        body["outputs"] = [{"name": agreed.output}]
    return json.dumps(body, allow_nan=False).encode()


def _columns(batch: Batch, declared: tuple[Tensor, ...]) -> list[dict[str, Any]]:
    if not is_frame(batch):
        raise ModelError(f"the endpoint takes columns by name, got {type(batch).__name__}; give a DataFrame")
    if not declared:
        return [_column(str(name), batch[name], None) for name in batch.columns]
    missing = [one.name for one in declared if one.name not in batch.columns]
    if missing:
        raise ModelError(f"the endpoint needs the columns {missing[:8]}; the frame has {list(batch.columns[:8])}")
    return [_column(one.name, batch[one.name], one) for one in declared]


def _column(name: str, column: pd.Series[Any], declared: Tensor | None) -> dict[str, Any]:
    values = np.asarray(column)
    if column.dtype.kind in "iuf" and values.dtype.kind == "O":  # pandas' own integers, some missing
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    shape = _shape_of_one(len(values), declared)
    if values.dtype.kind in "iufb" and (declared is None or declared.datatype != "BYTES"):
        return _numbers(name, values, declared) | {"shape": shape}
    strings = [None if gone else str(value) for value, gone in zip(values, column.isna(), strict=True)]
    kind = {"parameters": {"content_type": "datetime"}} if values.dtype.kind == "M" else {}
    return _tensor(name, "BYTES", shape, strings) | kind


def _shape_of_one(rows: int, declared: Tensor | None) -> list[int]:
    return [rows, 1] if declared is None or len(declared.shape) > 1 else [rows]


def _whole(batch: Batch, declared: Tensor | None) -> dict[str, Any]:
    """The batch as one tensor: a matrix, images of one size, or texts."""
    name = "predict" if declared is None else declared.name  # MLServer's models take any name
    if isinstance(batch, list) and all(isinstance(text, str) for text in batch):
        texts = _tensor(name, "BYTES", _shape_of_one(len(batch), declared), list(batch))
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
    return _tensor(name, NAMES[values.dtype.name], list(values.shape), data)


def _tensor(name: str, datatype: str, shape: list[int], data: list[Any]) -> dict[str, Any]:
    return {"name": name, "shape": shape, "datatype": datatype, "data": data}


def answer(body: object, agreed: Contract, rows: int, name: str) -> Array:
    """The numbers in an answer, (rows,) or (rows, outputs), after checking that they answer this very request."""
    if not isinstance(body, dict) or not isinstance(body.get("outputs"), list) or not body["outputs"]:
        raise ModelError(f"the endpoint's answer has no outputs: {str(body)[:200]}")
    if body.get("id") not in (None, "", name):
        raise ModelError(
            f"the endpoint answered request {body['id']!r:.60} where {name!r} was asked: a proxy mixes them up"
        )
    found = _one_of(body["outputs"], agreed.output)
    if found.get("datatype") == "BYTES":
        raise ModelError(
            f"output {found.get('name')!r:.60} of the endpoint is text, expected numbers; name another with output="
        )
    try:
        values = _values(found, rows)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise ModelError(f"the endpoint's answer is no tensor: {one_line(error)[:200]}") from error
    outputs = values.reshape(rows, -1)
    return outputs[:, 0] if outputs.shape[1] == 1 else outputs


def _values(found: dict[str, Any], rows: int) -> Array:
    """The numbers of a tensor, as many as its shape says."""
    shape = tuple(found["shape"])
    if not all(type(size) is int and size >= 0 for size in shape):
        raise ModelError(f"the endpoint returned a tensor of shape {str(shape)[:60]}")
    if not shape or shape[0] != rows:
        raise ModelError(f"the endpoint returned {shape[0] if shape else 'no'} rows for {rows}; expected one for each")
    values = np.array(found["data"], dtype=DATATYPES.get(str(found.get("datatype")), np.float64))
    if values.size != math.prod(shape) or not values.size:
        raise ModelError(f"the endpoint returned {values.size} numbers in a tensor of shape {list(shape)}")
    return values


def _one_of(outputs: list[Any], wanted: str | None) -> dict[str, Any]:
    if not all(isinstance(one, dict) for one in outputs):
        raise ModelError("the endpoint's answer lists outputs that are no tensors")
    named = [one for one in outputs if one.get("name") == wanted]
    if named or len(outputs) == 1:
        found: dict[str, Any] = (named or outputs)[0]
        return found
    names = ", ".join(str(one.get("name")) for one in outputs)
    raise ModelError(f"the endpoint returned the outputs {names}; say which with output=")


FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds; doubled in between
LONGEST_WAIT = 3600.0  # seconds that a server may ask for
FIRST_CONTACT = 5.0  # seconds: an address at which nobody has ever answered is more likely wrong than restarting
ATTEMPTS_ON_500 = 6  # a model that raises answers 500 for ever, a server in trouble for a moment


class ModelUnreachable(ModelError):
    """The server of a model did not answer for as long as was waited for it."""


class SlowAnswer(Exception):
    """The server did answer, but so slowly that its answer was not waited for."""


class Refused(ModelError):
    """The server answered that it cannot do what was asked (4xx): asking again would not help."""


class NotThere(Refused):
    """The server answered that it has no such model (404)."""


@dataclass(frozen=True)
class Patience:
    """How long one request to an address may go on failing; when `stop` is set nobody waits for its answer any more."""

    address: str
    seconds: float
    stop: Event
    reached: bool = True  # the server has answered before, whatever it said
    served: bool = True  # the server has had this model before


def answered(send: Callable[[], Any], patience: Patience) -> Any:
    """What the server sends back once it answers well.

    Connection loss, time-outs, 429 and 5xx are tried again, with pauses that double and jitter, until patience is at
    its end. So is 404 where the model has been there before: after a restart a server is up before its models are.
    """
    httpx = need("httpx", "endpoint")
    start, attempts, pause, reached = monotonic(), 0, FIRST_PAUSE, patience.reached
    while True:
        attempts, wait = attempts + 1, 0.0
        try:
            response = send()
        except SlowAnswer as error:
            why, reached = f"{error}; a longer timeout= or fewer rows_per_request= may help", True
        except (httpx.TransportError, httpx.StreamError, RuntimeError) as error:  # RuntimeError: the connection was cut
            if isinstance(error, RuntimeError) and "closed" not in str(error):
                raise
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise ModelError(
                    f"the certificate of the server at {patience.address} is not trusted: {error}"
                ) from error
            why = _why(error)
        else:
            if response.is_success:
                return response
            reached = True
            why = _passing(response, patience, attempts)
            wait = _asked_to_wait(response)
        limit = patience.seconds if reached else min(patience.seconds, FIRST_CONTACT)
        wait = max(wait, pause * random.SystemRandom().uniform(0.5, 1.5))  # who failed together comes back apart
        if (waited := monotonic() - start) >= limit:
            raise ModelUnreachable(_given_up(patience.address, waited, attempts, why))
        if patience.stop.wait(min(wait, limit - waited)):  # the last try is at the very end
            raise CancelledError
        pause = min(2 * pause, LONGEST_PAUSE)


def _why(error: Exception) -> str:
    name = type(error).__name__
    if "Timeout" in name:
        return f"no answer in time ({name}); a longer timeout= or fewer rows_per_request= may help"
    return f"{name}: {error}" if str(error) else name


def _passing(response: Any, patience: Patience, attempts: int) -> str:
    """Why an answer that is no answer may pass; raises if it will not."""
    status, text = response.status_code, message(response)
    why = f"the server answered {status}: {text}"
    if status == 500 and attempts >= ATTEMPTS_ON_500:
        raise ModelError(f"the model at {patience.address} failed {attempts} times over; {why}")
    if status >= 500 or status == 429 or "not ready" in text or (status == 404 and patience.served):
        return why
    raise (NotThere if status == 404 else Refused)(f"the model at {patience.address} refused the request; {why}")


def message(response: Any) -> str:
    """What the server has to say, in one line: the error of a JSON answer, the last line of a traceback."""
    try:
        body = response.json()
        body = body.get("error", body.get("detail", body)) if isinstance(body, dict) else body
    except ValueError:
        body = response.text
    lines = [line for line in str(body).splitlines() if line.strip()] or ["(nothing said)"]
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Warning)\b", line)]
    return " ".join((raised or lines)[-1].split())[:300]


def _asked_to_wait(response: Any) -> float:
    seconds = response.headers.get("retry-after", "")
    return min(float(seconds), LONGEST_WAIT) if seconds.isascii() and seconds.isdecimal() else 0.0


def _given_up(address: str, waited: float, attempts: int, why: str) -> str:
    times = "once" if attempts == 1 else f"{attempts} times in {waited:.0f} s"
    todo = "start it again (butfor.models.endpoint waits longer with patience=)"
    return f"the model at {address} could not be reached, asked {times} ({why}); {todo}"


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
