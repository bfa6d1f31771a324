"""The server of a review: one per folder, on 127.0.0.1 only, with a token."""

from __future__ import annotations

import fcntl
import html
import http.client
import json
import os
import secrets
import socket
import threading
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import Any

from pars.errors import UserError
from pars.reviewing.session import ReviewSession

ADDRESS, LOCK = "address.json", "lock"


class FolderLock:
    """Held by the process that writes decisions; given up when the process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / LOCK).open("a")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.held = True
        except OSError:
            self.held = False

    def release(self) -> None:
        self._file.close()


class ReviewServer:
    """A running review. In a notebook it shows as a link; `close` writes the files and ends it."""

    def __init__(self, session: ReviewSession, port: int = 0) -> None:
        try:
            import uvicorn

            from pars.reviewing.app import build_app
        except ImportError:
            raise UserError("pars review needs starlette and uvicorn: pip install 'pars-lnl[review]'") from None
        self.session = session
        # With the protocol named, asyncio turns off Nagle's algorithm, which would delay answers by 40 ms.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind(("127.0.0.1", port))
            self._socket.listen(128)  # the address is shown, and may be opened, before the server runs
        except OSError as error:
            raise UserError(f"port {port} cannot be used: {error.strerror}; leave --port away for a free one") from None
        self.port = int(self._socket.getsockname()[1])
        self._token = secrets.token_urlsafe(32)
        app = build_app(session, self._token, self.port, self.stop)
        # No access log: addresses hold the token once.
        config = uvicorn.Config(
            app, access_log=False, log_level="warning", lifespan="off", ws="none", proxy_headers=False,
            server_header=False, timeout_keep_alive=30, timeout_graceful_shutdown=5,
        )  # fmt: skip
        self._server: Any = uvicorn.Server(config)
        self._thread: threading.Thread | None = None
        self._files: list[Path] | None = None  # once it is closed
        self.lock: FolderLock | None = None  # held while it runs, if it was given one

    @property
    def url(self) -> str:
        """The address to open, with the token."""
        return f"http://127.0.0.1:{self.port}/?t={self._token}"

    def run(self) -> None:
        """Serve until `stop`, Ctrl-C or the page's end button; then write the files."""
        self._write_address()
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._end()

    def start(self) -> None:
        """Serve from a thread, and return when the address can be opened."""
        self._write_address()
        self._thread = threading.Thread(target=self._serve_in_thread, daemon=True, name="pars review")
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            self._thread.join(0.01)

    def _serve_in_thread(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        finally:
            (self.session.folder / ADDRESS).unlink(missing_ok=True)

    def stop(self) -> None:
        """Ask the server to end."""
        self._server.should_exit = True

    def close(self) -> list[Path]:
        """End the server, write the files and return their paths; again, it only returns them."""
        if self._files is not None:
            return self._files
        self.stop()
        if self._thread is not None:
            self._thread.join(10)
        self._files = self._end()
        return self._files

    def _end(self) -> list[Path]:
        self._socket.close()
        if not self.session.store.read_only:
            (self.session.folder / ADDRESS).unlink(missing_ok=True)
            files = self.session.export()
        else:
            files = []
        self.session.close()
        if self.lock is not None:
            self.lock.release()
        return files

    def export(self) -> list[Path]:
        """Write corrections, labels and the corrected table, and return their paths."""
        return self.session.export()

    def _write_address(self) -> None:
        """For a second `pars review` of the same user: nobody else may read it."""
        if self.session.store.read_only:
            return
        path = self.session.folder / ADDRESS
        path.unlink(missing_ok=True)
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(number, "w") as file:
            json.dump({"url": self.url, "port": self.port}, file)

    def __repr__(self) -> str:
        return f"Review of {len(self.session.items.listed)} suspect labels: {self.url}"

    def _repr_html_(self) -> str:
        n = len(self.session.items.listed)
        link = html.escape(self.url, quote=True)
        return f'<a href="{link}" target="_blank" rel="noopener noreferrer">Review {n} suspect labels</a>'


def running_address(folder: Path) -> str | None:
    """The address of the server that is running for a folder, if it answers."""
    with suppress(OSError, ValueError, KeyError, TypeError, http.client.HTTPException):
        found = json.loads((folder / ADDRESS).read_text(encoding="utf-8"))
        connection = http.client.HTTPConnection("127.0.0.1", int(found["port"]), timeout=2)
        connection.request("GET", "/?" + str(found["url"]).partition("?")[2])
        status = connection.getresponse().status
        connection.close()
        if status == 303:
            return str(found["url"])
    return None


def open_in_browser(url: str) -> bool:
    """Whether a browser could be opened; a text browser in a terminal is none."""
    if os.environ.get("SSH_CONNECTION") or (os.name == "posix" and not os.environ.get("DISPLAY")
                                            and not os.environ.get("WAYLAND_DISPLAY")):  # fmt: skip
        return False
    with suppress(webbrowser.Error):
        return webbrowser.open(url)
    return False
