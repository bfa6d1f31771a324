"""Small reviews with known truth, and a client that speaks to their server."""

from __future__ import annotations

import http.client
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from pars.corrections import TableSource
from pars.data import Previews
from pars.data.preview import TextPreviews
from pars.reviewing import ReviewItems, ReviewServer, ReviewSession

CLASSES = ("cat", "dog", "=1+1", "<img src=x onerror=alert(1)>")


def make_items(n: int = 100, suspects: int = 40, classes: tuple[str, ...] = CLASSES, seed: int = 0) -> ReviewItems:
    """n rows, of which the first `suspects` in a random order are on the list."""
    rng, k = np.random.default_rng(seed), len(classes)
    given = rng.integers(0, k, n)
    suggested = np.where(rng.random(n) < 0.9, (given + 1 + rng.integers(0, k - 1, n)) % k, given)
    listed = rng.permutation(n)[:suspects]
    suggested[listed] = np.where(suggested[listed] == given[listed], (given[listed] + 1) % k, suggested[listed])
    quality = rng.uniform(0.5, 1.0, n)
    quality[listed] = np.sort(rng.uniform(0.0, 0.5, suspects))
    probs = np.sort(rng.dirichlet(np.ones(min(k, 5)), n), axis=1)[:, ::-1]
    others = np.stack([np.roll(np.arange(k), -s)[: min(k, 5)] for s in suggested])
    return ReviewItems(classes, given, suggested, quality, probs[:, 0], others, probs, listed,
                       tuple(f"because of {row}" for row in listed))  # fmt: skip


def make_session(folder: Path, items: ReviewItems | None = None, previews: Previews | None = None,
                 source: TableSource | None = None) -> ReviewSession:  # fmt: skip
    items = items or make_items()
    texts = [f"text {row} <b>bold</b>" for row in range(len(items))]
    return ReviewSession(items, previews or TextPreviews(texts), folder, title="test", source=source)


class Client:
    """http.client with the token, as the page sends it."""

    def __init__(self, server: ReviewServer) -> None:
        self.port, self.token, self.seq = server.port, server.url.partition("t=")[2], 0
        self.host = f"127.0.0.1:{self.port}"

    def raw(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None,
            *, cookie: bool = True) -> tuple[int, dict[str, str], bytes]:  # fmt: skip
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        sent = {"Host": self.host} | ({"Cookie": f"pars_{self.port}={self.token}"} if cookie else {}) | (headers or {})
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in sent.items():
                connection.putheader(name, value)
            if body is not None and "Content-Length" not in sent:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        status, _, body = self.raw("GET", path)
        assert status == 200, (status, body)
        return json.loads(body)

    def post_raw(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        own = {"Content-Type": "application/json", "X-Pars": "1", "Origin": f"http://{self.host}"}
        status, _, answer = self.raw("POST", path, json.dumps(body).encode(), own | headers)
        try:
            return status, json.loads(answer)
        except ValueError:
            return status, answer

    def decide(self, rows: list[int], action: str, label: int | None = None, **more: Any) -> tuple[int, Any]:
        body = {"id": secrets.token_hex(8), "base_seq": self.seq, "rows": rows, "action": action} | more
        if label is not None:
            body["label"] = label
        status, answer = self.post_raw("/api/decide", body)
        if status == 200:
            self.seq = answer["seq"]
        return status, answer

    def back(self, path: str, **more: Any) -> tuple[int, Any]:
        status, answer = self.post_raw(path, {"id": secrets.token_hex(8)} | more)
        if status == 200:
            self.seq = answer["seq"]
        return status, answer


@contextmanager
def serving(session: ReviewSession) -> Iterator[tuple[ReviewServer, Client]]:
    server = ReviewServer(session)
    server.start()
    try:
        yield server, Client(server)
    finally:
        server.close()
