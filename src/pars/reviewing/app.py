"""The routes of `pars review`: JSON in and out, images, and the files of the page."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from http import HTTPStatus
from importlib.resources import files
from typing import Any

import anyio.to_thread
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pars.data.preview import Size
from pars.errors import UserError
from pars.reviewing.guard import Guard
from pars.reviewing.session import ReviewSession
from pars.reviewing.store import Conflict, NotSaved, Outcome
from pars.reviewing.thumbnails import Thumbnails

THREADS = 16
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def static_files() -> dict[str, tuple[bytes, str]]:
    """The files of the page by name: what is not in here cannot be asked for."""
    folder = files("pars.reviewing") / "static"
    found = {}
    for file in folder.iterdir():
        suffix = f".{file.name.rpartition('.')[2]}"
        if suffix in TYPES:
            found[file.name] = file.read_bytes(), TYPES[suffix]
    return found


def build_app(session: ReviewSession, token: str, port: int, quit_server: Callable[[], None]) -> ASGIApp:
    """The app with its guard."""
    pages, thumbnails = static_files(), Thumbnails(session.previews, session.folder / "thumbs")

    async def json_answer(work: Callable[[], Any]) -> Response:
        try:
            return JSONResponse(await run_in_threadpool(work))
        except UserError as error:
            return JSONResponse({"error": str(error)}, HTTPStatus.BAD_REQUEST)
        except Conflict as error:
            return JSONResponse({"error": str(error), "seq": session.store.seq}, HTTPStatus.CONFLICT)
        except NotSaved as error:
            return JSONResponse({"error": f"not saved: {error}"}, HTTPStatus.INSUFFICIENT_STORAGE)
        except OSError as error:
            return JSONResponse({"error": f"not saved: {error.strerror}"}, HTTPStatus.INSUFFICIENT_STORAGE)

    async def index(request: Request) -> Response:
        return Response(pages["index.html"][0], media_type=pages["index.html"][1])

    async def static(request: Request) -> Response:
        found = pages.get(request.path_params["name"])
        if found is None:
            return PlainTextResponse("not found", HTTPStatus.NOT_FOUND)
        return Response(found[0], media_type=found[1])

    async def meta(request: Request) -> Response:
        return await json_answer(lambda: session.meta() | {"last": session.last_decisions()})

    async def items(request: Request) -> Response:
        query = request.query_params

        def work() -> dict[str, Any]:
            offset, limit = _whole(query.get("offset", "0")), _whole(query.get("limit", "60"))
            around = _whole(query["around"]) if "around" in query else None
            if query.get("sample") == "1":
                return session.sample_page(offset, limit, around)
            return session.page(query.get("f"), query.get("sort", "quality"), offset, limit, around)

        return await json_answer(work)

    def row_of(request: Request) -> int | None:
        text: str = request.path_params["row"]
        return int(text) if _is_whole(text) and int(text) < len(session.items) else None

    async def item(request: Request) -> Response:
        row = row_of(request)
        if row is None:
            return JSONResponse({"error": "no such row"}, HTTPStatus.NOT_FOUND)
        return await json_answer(lambda: session.item(row, blind=request.query_params.get("sample") == "1"))

    async def media(request: Request) -> Response:
        row = row_of(request)
        if row is None or session.previews.kind != "image":
            return PlainTextResponse("not found", HTTPStatus.NOT_FOUND)
        size: Size = "full" if request.query_params.get("s") == "full" else "thumb"
        shown = await run_in_threadpool(thumbnails.get, row, size)
        tag = f'"{hashlib.blake2b(shown.content, digest_size=12).hexdigest()}"'
        headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Response(shown.content, media_type=shown.media_type, headers=headers)

    async def body_of(request: Request) -> dict[str, Any]:
        try:
            found = json.loads(await request.body())
        except (ValueError, RecursionError):
            raise UserError("the body is not JSON") from None
        if not isinstance(found, dict):
            raise UserError("the body is not an object")
        return found

    def answer(outcome: Outcome) -> dict[str, Any]:
        return {
            "seq": outcome.seq,
            "changed": len(outcome.rows),
            "unchanged": outcome.unchanged,
            "rows": list(outcome.rows[:1000]),
            "counts": session.counts(),
            "last": session.last_decisions(),
        }

    def posted(work: Callable[[dict[str, Any]], Any]) -> Callable[[Request], Any]:
        async def route(request: Request) -> Response:
            try:
                body = await body_of(request)
            except UserError as error:
                return JSONResponse({"error": str(error)}, HTTPStatus.BAD_REQUEST)
            if session.store.read_only:
                return JSONResponse({"error": "this review is open read-only"}, HTTPStatus.FORBIDDEN)
            return await json_answer(lambda: work(body))

        return route

    def undo(body: dict[str, Any]) -> dict[str, Any]:
        return answer(session.store.undo(*_id_and_seq(body)))

    def redo(body: dict[str, Any]) -> dict[str, Any]:
        return answer(session.store.redo(*_id_and_seq(body)))

    def export(body: dict[str, Any]) -> dict[str, Any]:
        return {"files": [str(path) for path in session.export()]}

    def leave(body: dict[str, Any]) -> dict[str, Any]:
        paths = session.export()
        quit_server()
        return {"files": [str(path) for path in paths]}

    async def stats(request: Request) -> Response:
        return await json_answer(session.stats)

    async def stream(request: Request) -> Response:
        kind = request.path_params["kind"]
        if kind not in ("csv", "jsonl"):
            return PlainTextResponse("not found", HTTPStatus.NOT_FOUND)
        types = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}
        headers = {"Content-Disposition": f'attachment; filename="corrections.{kind}"'}
        return StreamingResponse(session.stream(kind), media_type=types[kind], headers=headers)

    routes = [
        Route("/", index),
        Route("/static/{name}", static),
        Route("/api/meta", meta),
        Route("/api/items", items),
        Route("/api/item/{row}", item),
        Route("/media/{row}", media),
        Route("/api/decide", posted(lambda body: answer(session.decide(body))), methods=["POST"]),
        Route("/api/undo", posted(undo), methods=["POST"]),
        Route("/api/redo", posted(redo), methods=["POST"]),
        Route("/api/export", posted(export), methods=["POST"]),
        Route("/api/quit", posted(leave), methods=["POST"]),
        Route("/api/stats", stats),
        Route("/api/export.{kind}", stream),
    ]
    inner = Starlette(routes=routes)
    limited = False

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal limited
        if not limited:  # the limiter belongs to the event loop, which runs by now
            anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
            limited = True
        await inner(scope, receive, send)

    return Guard(app, token, port)


def _is_whole(text: str) -> bool:
    """Whether it is a number of few digits: Python refuses to read one of thousands."""
    return text.isascii() and text.isdecimal() and len(text) < 12


def _whole(text: str) -> int:
    if not _is_whole(text):
        raise UserError(f"{text[:20]!r} is not a whole number")
    return int(text)


def _id_and_seq(body: dict[str, Any]) -> tuple[str, int | None]:
    client_id, seq = body.get("id"), body.get("seq")
    if not isinstance(client_id, str) or not 8 <= len(client_id) <= 100:
        raise UserError("id is missing, expected a text of 8 to 100 characters")
    if seq is not None and type(seq) is not int:
        raise UserError("seq is not a whole number")
    return client_id, seq
