"""Access: from this machine, under its name, from pages of this studio, with the cookie that the link gave."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from html import escape
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
)
HEADERS = {
    "content-security-policy": PAGE_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
READING = ("GET", "HEAD")
MOST_TOKENS = 100  # links that wait to be opened


class Access:
    """Links that open the page once each, and the cookie that they are exchanged for."""

    def __init__(self, port: int) -> None:
        self.cookie = f"butfor_{port}"  # cookies know no ports: two studios must not share one
        self._session = secrets.token_urlsafe(32)
        self._tokens: list[str] = []

    def new_token(self) -> str:
        """Return a token for one visit; the oldest is dropped where there are too many."""
        token = secrets.token_urlsafe(24)
        self._tokens.append(token)  # in place: the command line does so beside the server
        del self._tokens[:-MOST_TOKENS]
        return token

    def redeem(self, token: str) -> bool:
        """Use up a token; False where it is not one of ours, or was used before."""
        matching = [known for known in self._tokens if hmac.compare_digest(known.encode(), token.encode())]
        for known in matching:
            self._tokens.remove(known)
        return bool(matching)

    def set_cookie(self) -> str:
        return f"{self.cookie}={self._session}; HttpOnly; SameSite=Strict; Path=/"

    def knows(self, header: str) -> bool:
        """Compare the session of a Cookie header with ours, in constant time."""
        try:
            cookie = SimpleCookie(header).get(self.cookie)
        except CookieError:
            return False
        return cookie is not None and hmac.compare_digest(cookie.value.encode(), self._session.encode())


class Guard:
    """ASGI: refuses before anything is read, and puts the safe headers on every answer."""

    def __init__(self, app: App, access: Access, hosts: tuple[str, ...], most_body: int, upload_path: str) -> None:
        self.app, self.access, self.hosts = app, access, hosts
        self.most_body, self.upload_path = most_body, upload_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no websockets here
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if refusal := self._refusal(scope, headers):
            await _answer(send, *refusal)
            return
        query: str = scope["query_string"].decode("latin-1")
        entering = scope["path"] == "/" and scope["method"] in READING
        if entering and (token := parse_qs(query).get("token", [""])[0]):
            await self._enter(token, send)
            return
        if not self.access.knows(headers.get("cookie", "")):
            await _answer(send, 401, "Open the link that butfor studio printed when it was started.")
            return
        bounded = receive if scope["path"] == self.upload_path else self._bounded(receive)
        await self.app(scope, bounded, _with_headers(send))

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        """Return a status and a sentence; None: its cookie may be looked at."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self.hosts:  # a foreign name that leads here is an attack (DNS rebinding)
            return 421, f"This is a studio of {self.hosts[0]}, not of the host of this request."
        entering = scope["method"] in READING and scope["path"] == "/"
        foreign = headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and not entering
        if foreign or (origin is not None and origin != f"http://{host}"):
            return 403, "Requests from other pages are refused."
        length = headers.get("content-length", "0")
        if scope["path"] != self.upload_path and (not length.isdecimal() or int(length) > self.most_body):
            return 413, f"The request has more than {self.most_body:,} bytes."
        return None

    async def _enter(self, token: str, send: Send) -> None:
        if not self.access.redeem(token):
            await _answer(send, 401, "This link was used already, or is of another studio; ask for a new one.")
            return
        # a page that moves on, not a redirect: after a redirect from elsewhere a strict cookie would not be sent
        move = '<meta http-equiv="refresh" content="0;url=/">'
        await _answer(send, 200, "Opening the studio.", (("set-cookie", self.access.set_cookie()),), move)

    def _bounded(self, receive: Receive) -> Receive:
        """Cut the body off where it is longer than its header states."""
        seen = 0

        async def read() -> MutableMapping[str, Any]:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            return message if seen <= self.most_body else {"type": "http.disconnect"}

        return read


def _with_headers(send: Send) -> Send:
    """Add the headers that an answer does not set itself."""

    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            given = {name.decode("latin-1").lower() for name, _ in message["headers"]}
            more = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name not in given]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return sent


async def _answer(send: Send, status: int, text: str, more: tuple[tuple[str, str], ...] = (), head: str = "") -> None:
    title = '<title>butfor studio</title><link rel="icon" href="data:,">'
    body = f'<!doctype html><html lang="en">{title}{head}<main><p>{escape(text)}</p></main>'.encode()
    headers = {**HEADERS, "content-type": "text/html; charset=utf-8", "content-length": str(len(body))}
    pairs = [(name.encode(), value.encode()) for name, value in (*headers.items(), *more)]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
