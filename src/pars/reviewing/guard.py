"""Who may talk to the server: checks before any route, and headers on every answer (docs/review.md, "Security").

The server is for the person at this machine. Other local users lack the token; pages of other origins, also those that
have rebound a name to 127.0.0.1, fail the checks of Host, Origin, content type and header.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?")  # any port: that of `ssh -L` may be another
MOST_BYTES = 1_000_000
SECONDS = 30.0
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}
# A link in a notebook is a cross-site navigation, and a strict cookie is not sent along with its redirect. A page that
# reloads itself is not.
RELOAD = '<!doctype html><meta http-equiv="refresh" content="0; url=/"><title>pars review</title>'


class Guard:
    """ASGI middleware around the whole app."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self.app, self._token, self.cookie = app, token, f"pars_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}

        async def guarded_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message.setdefault("headers", [])}
                more = HEADERS | ({} if b"cache-control" in own else {"Cache-Control": "no-store"})
                message["headers"] += [(name.lower().encode(), value.encode()) for name, value in more.items()]
            await send(message)

        refused = self._refusal(scope, headers)
        if refused is not None:
            await refused(scope, receive, guarded_send)
            return
        try:
            body = await self._body(headers, receive) if scope["method"] == "POST" else b""
        except (TimeoutError, ValueError, ConnectionError) as error:
            slow = isinstance(error, TimeoutError)
            status = HTTPStatus.REQUEST_TIMEOUT if slow else HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            await PlainTextResponse(status.phrase, int(status), {"Connection": "close"})(scope, receive, guarded_send)
            return
        sent = False

        async def whole_body() -> Message:
            nonlocal sent
            if sent:
                return await receive()  # a disconnect
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, whole_body, guarded_send)

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> Response | None:
        """The answer to a request that is not let in; None for one that is."""
        host, origin, method = headers.get("host", ""), headers.get("origin"), scope["method"]
        if not HOST.fullmatch(host):
            return PlainTextResponse("unknown host", HTTPStatus.FORBIDDEN)
        if origin is not None and origin != f"http://{host}":  # only now: a rebound name passes as its own origin
            return PlainTextResponse("foreign origin", HTTPStatus.FORBIDDEN)
        if method not in ("GET", "HEAD", "POST"):
            return PlainTextResponse("method not allowed", HTTPStatus.METHOD_NOT_ALLOWED)
        query = parse_qs(scope["query_string"].decode("latin-1"))
        if scope["path"] == "/" and method == "GET" and "t" in query:
            if not self._is_token(query["t"][0]):
                return PlainTextResponse("wrong token", HTTPStatus.UNAUTHORIZED)
            response = RedirectResponse("/", HTTPStatus.SEE_OTHER)
            response.set_cookie(self.cookie, self._token, httponly=True, samesite="strict", path="/")
            return response
        if not self._is_token(self._cookie_value(headers.get("cookie", ""))):
            if scope["path"] == "/" and headers.get("sec-fetch-site") == "cross-site":
                return Response(RELOAD, HTTPStatus.UNAUTHORIZED, media_type="text/html")
            message = "open the address that `pars review` printed: it holds a token that this request lacks"
            return PlainTextResponse(message, HTTPStatus.UNAUTHORIZED)
        if method == "POST":
            kind = headers.get("content-type", "").split(";")[0].strip().lower()
            if kind != "application/json":
                return PlainTextResponse("expected application/json", HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
            if headers.get("x-pars") != "1" or origin is None:
                return PlainTextResponse("expected X-Pars and Origin", HTTPStatus.FORBIDDEN)
        return None

    def _is_token(self, found: str) -> bool:
        return hmac.compare_digest(found.encode(), self._token.encode())

    def _cookie_value(self, header: str) -> str:
        try:
            found = SimpleCookie(header).get(self.cookie)
        except CookieError:
            return ""
        return "" if found is None else found.value

    async def _body(self, headers: dict[str, str], receive: Receive) -> bytes:
        """The whole body; ValueError if it is too large, TimeoutError if it takes too long."""
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > MOST_BYTES:
            raise ValueError("too large")
        body = b""
        async with asyncio.timeout(SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ConnectionError
                part: bytes = message.get("body", b"")
                body += part
                if len(body) > MOST_BYTES:
                    raise ValueError("too large")
                if not message.get("more_body"):
                    return body
