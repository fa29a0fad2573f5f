"""Asking a server until it answers: what is worth another try, how long to wait, when to give up."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from threading import Event
from time import monotonic
from typing import Any

from butfor.core.types import ModelError
from butfor.models.optional import need

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
