"""Decisions on disk against a dictionary: any order of deciding, undoing, redoing, killing and restarting."""

from __future__ import annotations

import functools
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pars.errors import UserError
from pars.reviewing import Conflict, DecisionStore, NotSaved

N = 12
States = tuple[tuple[int, int], ...]


class Decisions(RuleBasedStateMachine):
    """The store and a model: the state of every row, and two stacks of states for undo and redo."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "review.sqlite"
        self.store = DecisionStore(self.path, N)
        self.other_base = 0  # what a second client has seen
        self.model: States = ((0, -1),) * N
        self.undo_stack: list[States] = []
        self.redo_stack: list[States] = []
        self.ids: dict[str, States] = {}

    def state(self) -> States:
        return tuple(zip(self.store.state.tolist(), self.store.label.tolist(), strict=True))

    @rule(rows=st.sets(st.integers(0, N - 1), min_size=1), state=st.integers(0, 5), label=st.integers(-1, 3))
    def decide(self, rows: set[int], state: int, label: int) -> None:
        after = tuple((state, label) if row in rows else now for row, now in enumerate(self.model))
        client_id = secrets.token_hex(8)
        at = sorted(rows)
        outcome = self.store.decide(client_id, at, [state] * len(at), [label] * len(at), base_seq=self.store.seq)
        assert set(outcome.rows) == {row for row in range(N) if after[row] != self.model[row]}
        if after != self.model:
            self.undo_stack.append(self.model)
            self.redo_stack.clear()
        self.model = after
        self.ids[client_id] = after

    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        """A lost answer: the same id again, after whatever else happened."""
        if self.ids:
            client_id = data.draw(st.sampled_from(sorted(self.ids)))
            assert self.store.decide(client_id, [0], [4], [-1]).repeated

    @rule(row=st.integers(0, N - 1))
    def decide_from_a_second_window(self, row: int) -> None:
        """A client that has not looked since: what changed in between is not overwritten."""
        stale = int(self.store.changed_at[row]) > self.other_base
        try:
            self.store.decide(secrets.token_hex(8), [row], [5], [-1], base_seq=self.other_base)
            assert not stale
        except Conflict:
            assert stale
            self.other_base = self.store.seq
            return
        after = tuple((5, -1) if at == row else now for at, now in enumerate(self.model))
        if after != self.model:
            self.undo_stack.append(self.model)
            self.redo_stack.clear()
        self.model, self.other_base = after, self.store.seq

    @rule()
    def undo(self) -> None:
        if not self.undo_stack:
            with pytest.raises(Conflict):
                self.store.undo(secrets.token_hex(8))
            return
        self.store.undo(secrets.token_hex(8))
        self.redo_stack.append(self.model)
        self.model = self.undo_stack.pop()

    @rule()
    def redo(self) -> None:
        if not self.redo_stack:
            with pytest.raises(Conflict):
                self.store.redo(secrets.token_hex(8))
            return
        self.store.redo(secrets.token_hex(8))
        self.undo_stack.append(self.model)
        self.model = self.redo_stack.pop()

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = DecisionStore(self.path, N)

    @rule()
    def fail_in_the_middle(self) -> None:
        """An action that cannot be written leaves everything as it was."""
        before = self.state()
        self.store._db.execute(f"PRAGMA max_page_count = {self._pages()}")
        with pytest.raises(NotSaved, match="full"):
            self._decide_too_much()
        self.store._db.execute("PRAGMA max_page_count = 100000")
        assert self.state() == before

    def _pages(self) -> int:
        return int(self.store._db.execute("PRAGMA page_count").fetchone()[0])

    def _decide_too_much(self) -> None:
        for _ in range(3):
            self.store._append("x" * 9_000 + secrets.token_hex(4), "decide", *self._nothing())
        raise AssertionError("not full")

    def _nothing(self) -> Any:
        import numpy as np

        none = np.zeros(0, dtype=np.int64)
        return none, none.astype(np.int8), none, 0

    @invariant()
    def rows_are_as_the_model_says(self) -> None:
        if hasattr(self, "store"):
            assert self.state() == self.model

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()


TestDecisions = Decisions.TestCase
TestDecisions.settings = settings(
    max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)

# Everything is imported once; each server is a fork of this process, which stays without threads.
SERVERS = """
import os, sys
from pathlib import Path
from reviewing.helpers import make_items, make_session
from pars.reviewing import ReviewServer
import pars.reviewing.app, uvicorn

items = make_items(int(sys.argv[2]), int(sys.argv[2]))
for line in sys.stdin:
    child = os.fork()
    if not child:
        server = ReviewServer(make_session(Path(sys.argv[1]), items))
        server.start()
        print(os.getpid(), server.url, flush=True)
        server._thread.join()
    print("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""

ROWS = 5000


def test_every_acknowledged_decision_survives_a_kill_and_no_other(tmp_path: Path) -> None:
    """SIGKILL at 50 random moments while a client decides."""
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    import http.client

    rng = random.Random(0)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    command = [sys.executable, "-c", SERVERS, str(tmp_path), str(ROWS)]
    parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert parent.stdin is not None
    assert parent.stdout is not None
    before: dict[int, int] = {}  # row: label; what was there when the last server had died
    sent: dict[int, int] = {}
    row, in_the_middle = 0, 0
    for _ in range(50):
        parent.stdin.write("\n")
        parent.stdin.flush()
        pid, url = parent.stdout.readline().split()
        port, token = url.partition("1:")[2].partition("/")[0], url.partition("t=")[2]
        headers = {"Cookie": f"pars_{port}={token}", "Content-Type": "application/json", "X-Pars": "1",
                   "Origin": f"http://127.0.0.1:{port}"}  # fmt: skip
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=10)
        killer = threading.Timer(rng.uniform(0.0, 0.15), os.kill, (int(pid), signal.SIGKILL))
        acknowledged = before.copy()
        try:
            while row < ROWS - 1:
                row += 1
                label = sent[row] = rng.randrange(4)
                body = {"id": f"decision-{row}", "base_seq": 1_000_000, "rows": [row], "action": "relabel",
                        "label": label}  # fmt: skip
                connection.request("POST", "/api/decide", json.dumps(body), headers)
                if connection.getresponse().read().startswith(b'{"seq"'):
                    acknowledged[row] = label
                if killer.ident is None:  # from the first answer on: a slow start is no decision
                    killer.start()
        except (OSError, http.client.HTTPException):
            in_the_middle += 1
        killer.join()
        assert parent.stdout.readline().split() == ["ended", str(-signal.SIGKILL)]
        connection.close()
        store = DecisionStore(tmp_path / "review.sqlite", ROWS, fingerprint=_fingerprint())
        before = {int(at): int(store.label[at]) for at in store.state.nonzero()[0]}
        store.close()
        assert acknowledged.items() <= before.items()
        assert before.items() <= sent.items()
        assert len(before) - len(acknowledged) <= 1  # the last one may be there although its answer was lost
    parent.stdin.close()
    assert parent.wait(10) == 0
    parent.stdout.close()
    assert in_the_middle > 25
    assert len(before) >= 50


@functools.cache
def _fingerprint() -> str:
    from reviewing.helpers import make_items

    return make_items(ROWS, ROWS).fingerprint()


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    store = DecisionStore(tmp_path / "review.sqlite", 3)
    store._db.execute("PRAGMA user_version=9")
    store.close()
    with pytest.raises(UserError, match="of version 9, this pars reads 1"):
        DecisionStore(tmp_path / "review.sqlite", 3)
