"""Decisions on disk: append-only, one transaction for each action, with undo and redo.

SQLite in WAL mode with synchronous=FULL: an action that was acknowledged is there after a kill or a power cut, and one
that was not is there as a whole or not at all.

action     one row per action of a client: its number `seq`, its `client_id` (the same id twice counts once), its kind
           ("decide", "undo" or "redo"), the action that it undoes or redoes, and the one by which it was undone
decision   the rows that an action changed: what was decided, and what the row `was` before
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pars.corrections import Decision
from pars.errors import UserError

STATES = ("undecided", "keep", "accept", "relabel", "drop", "skip")
UNDECIDED, KEEP, ACCEPT, RELABEL, DROP, SKIP = range(6)
VERSION = 1
SCHEMA = """
CREATE TABLE action (
    seq INTEGER PRIMARY KEY, time TEXT NOT NULL, client_id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL,
    target INTEGER, changed INTEGER NOT NULL, unchanged INTEGER NOT NULL, undone_by INTEGER
);
CREATE TABLE decision (
    seq INTEGER NOT NULL, row INTEGER NOT NULL, action TEXT NOT NULL, label INTEGER NOT NULL, was TEXT NOT NULL,
    PRIMARY KEY (seq, row)
) WITHOUT ROWID;
CREATE TABLE sample (position INTEGER PRIMARY KEY, row INTEGER NOT NULL UNIQUE, origin TEXT NOT NULL);
CREATE TABLE note (key TEXT PRIMARY KEY, value TEXT NOT NULL);
"""
Rows = npt.NDArray[np.int64]


class Conflict(Exception):
    """The rows have changed since the client last looked."""


class NotSaved(Exception):
    """The disk does not take it: nothing has changed."""


@dataclass(frozen=True)
class Outcome:
    """What an action did: its number, the rows it changed, and how many were as it wants them already."""

    seq: int
    rows: tuple[int, ...]
    unchanged: int
    repeated: bool = False


@dataclass(frozen=True)
class Sample:
    """The blind sample in the order of its questions; `origin` says where each row was drawn: all, list or both."""

    rows: Rows
    origin: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def drawn_from(self, origin: str) -> Rows:
        """Rows that were drawn from "all" rows, or from the "list"."""
        return self.rows[[name in (origin, "both") for name in self.origin]]


class DecisionStore:
    """The decisions about n rows. The current state of each row is in memory: `state`, `label`, `changed_at` [n]."""

    def __init__(self, path: Path, n: int, *, fingerprint: str = "", read_only: bool = False) -> None:
        """Open or create the file. fingerprint: of the rows; a file with another one is refused."""
        self.path, self.n, self.read_only = path, n, read_only
        self._lock = threading.RLock()
        try:
            mode = "ro" if read_only else "rwc"
            uri = f"{path.resolve().as_uri()}?mode={mode}"
            self._db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=10)
            if not read_only:
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute("PRAGMA synchronous=FULL")
            self._prepare(fingerprint)
        except sqlite3.DatabaseError as error:
            raise UserError(f"{path} cannot be opened ({error}); a damaged file can be moved away") from error
        self._read_state()

    def _prepare(self, fingerprint: str) -> None:
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version == 0 and not self.read_only:
            with self._transaction():
                for statement in SCHEMA.split(";"):
                    self._db.execute(statement)
                self._db.execute("INSERT INTO note VALUES ('fingerprint', ?)", (fingerprint,))
                self._db.execute(f"PRAGMA user_version={VERSION}")
        elif version != VERSION:
            raise UserError(f"{self.path} is of version {version}, this pars reads {VERSION}")
        found = self._db.execute("SELECT value FROM note WHERE key = 'fingerprint'").fetchone()
        if found is not None and found[0] != fingerprint:
            raise UserError(f"{self.path} is a review of other rows or labels; move it away to begin a new one")

    def _read_state(self) -> None:
        self.state: npt.NDArray[np.int8] = np.zeros(self.n, dtype=np.int8)
        self.label: Rows = np.full(self.n, -1, dtype=np.int64)
        self.changed_at: Rows = np.zeros(self.n, dtype=np.int64)
        self.seq = int(self._db.execute("SELECT coalesce(max(seq), 0) FROM action").fetchone()[0])
        # All decisions in their order, not the last one of each row: the file is in this order, so nothing is sorted.
        found = self._db.execute("SELECT row, action, label, seq FROM decision ORDER BY seq, row").fetchall()
        if found:
            rows, actions, labels, seqs = zip(*found, strict=True)
            number = {name: state for state, name in enumerate(STATES)}
            at = np.array(rows, dtype=np.int64)
            self.state[at] = [number[action] for action in actions]  # of a row that occurs twice, the last one stays
            self.label[at], self.changed_at[at] = labels, seqs

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def decide(
        self, client_id: str, rows: Sequence[int] | Rows, states: Sequence[int] | Rows, labels: Sequence[int] | Rows,
        *, base_seq: int | None = None,
    ) -> Outcome:  # fmt: skip
        """Give each row a state and a label, all or none. Conflict: one of them has changed since `base_seq`."""
        at = np.asarray(rows, dtype=np.int64)
        new_state, new_label = np.asarray(states, dtype=np.int8), np.asarray(labels, dtype=np.int64)
        with self._lock:
            if (before := self._repeated(client_id)) is not None:
                return before
            if base_seq is not None and len(at) and int(self.changed_at[at].max()) > base_seq:
                row = int(at[self.changed_at[at].argmax()])
                raise Conflict(f"row {row} was decided in another window")
            different = (self.state[at] != new_state) | (self.label[at] != new_label)
            return self._append(client_id, "decide", at[different], new_state[different], new_label[different],
                                int((~different).sum()))  # fmt: skip

    def undo(self, client_id: str, seq: int | None = None) -> Outcome:
        """Undo an action (by default the last one that is not undone). Conflict: its rows were decided again since."""
        with self._lock:
            return self._back("undo", client_id, seq)

    def redo(self, client_id: str, seq: int | None = None) -> Outcome:
        """Redo an action that was undone (by default the last), as long as nothing was decided since."""
        with self._lock:
            return self._back("redo", client_id, seq)

    def _back(self, kind: str, client_id: str, seq: int | None) -> Outcome:
        if (before := self._repeated(client_id)) is not None:
            return before
        undone = self.undoable() if kind == "undo" else self.redoable()
        if not undone:
            raise Conflict(f"nothing to {kind}")
        target = undone[-1] if seq is None else seq
        if target not in undone:
            raise Conflict(f"action {target} cannot be {kind}ne")
        # An undo gives rows what they were before the action; a redo what they were before its undo.
        source = target
        if kind == "redo":
            source = int(self._db.execute("SELECT undone_by FROM action WHERE seq = ?", (target,)).fetchone()[0])
        query = "SELECT row, action, label, was FROM decision WHERE seq = ? ORDER BY row"
        found = self._db.execute(query, (source,)).fetchall()
        at = np.array([row for row, *_ in found], dtype=np.int64)
        now = list(zip(self.state[at].tolist(), self.label[at].tolist(), strict=True))
        if now != [(STATES.index(action), label) for _, action, label, _ in found]:
            raise Conflict("its rows were decided again since")
        parsed = [json.loads(was) for *_, was in found]
        states = np.array([STATES.index(name) for name, _ in parsed], dtype=np.int8)
        labels = np.array([label for _, label in parsed], dtype=np.int64)
        return self._append(client_id, kind, at, states, labels, 0, target)

    def undoable(self) -> list[int]:
        """Numbers of decisions that are in force, oldest first."""
        query = "SELECT seq FROM action WHERE kind = 'decide' AND undone_by IS NULL AND changed > 0 ORDER BY seq"
        return [seq for (seq,) in self._db.execute(query)]

    def redoable(self) -> list[int]:
        """Numbers of undone decisions that nothing was decided after, in the order of their undoing."""
        query = """SELECT seq FROM action WHERE kind = 'decide' AND undone_by IS NOT NULL AND undone_by >
                   (SELECT coalesce(max(seq), 0) FROM action WHERE kind = 'decide' AND changed > 0)
                   ORDER BY undone_by"""
        return [seq for (seq,) in self._db.execute(query)]

    def _repeated(self, client_id: str) -> Outcome | None:
        found = self._db.execute("SELECT seq, unchanged FROM action WHERE client_id = ?", (client_id,)).fetchone()
        if found is None:
            return None
        rows = self._db.execute("SELECT row FROM decision WHERE seq = ? ORDER BY row", (found[0],)).fetchall()
        return Outcome(found[0], tuple(row for (row,) in rows), found[1], repeated=True)

    def _append(
        self, client_id: str, kind: str, at: Rows, states: npt.NDArray[np.int8], labels: Rows, unchanged: int,
        target: int | None = None,
    ) -> Outcome:  # fmt: skip
        if self.read_only:
            raise NotSaved("this review is open read-only")
        seq, now = self.seq + 1, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        was = [json.dumps((STATES[s], int(v))) for s, v in zip(self.state[at], self.label[at], strict=True)]
        names = [STATES[state] for state in states]
        rows = at.tolist()
        try:
            with self._transaction():
                self._db.execute(
                    "INSERT INTO action VALUES (?, ?, ?, ?, ?, ?, ?, NULL)",
                    (seq, now, client_id, kind, target, len(rows), unchanged),
                )
                self._db.executemany(
                    "INSERT INTO decision VALUES (?, ?, ?, ?, ?)",
                    zip([seq] * len(rows), rows, names, labels.tolist(), was, strict=True),
                )
                if target is not None:
                    undone = seq if kind == "undo" else None
                    self._db.execute("UPDATE action SET undone_by = ? WHERE seq = ?", (undone, target))
        except sqlite3.OperationalError as error:
            raise NotSaved(str(error)) from error
        self.seq = seq
        self.state[at], self.label[at], self.changed_at[at] = states, labels, seq
        return Outcome(seq, tuple(rows), unchanged)

    def decisions(self) -> list[Decision]:
        """What is decided now; rows that are skipped are not."""
        with self._lock:
            decided = np.flatnonzero(np.isin(self.state, (KEEP, ACCEPT, RELABEL, DROP)))
            times = dict(self._db.execute("SELECT seq, time FROM action"))
            return [
                Decision(int(row), STATES[self.state[row]], int(self.label[row]), times[int(self.changed_at[row])])  # type: ignore[arg-type]
                for row in decided
            ]

    def last(self, n: int) -> list[int]:
        """The n rows decided last, newest first."""
        with self._lock:
            decided = np.flatnonzero(np.isin(self.state, (KEEP, ACCEPT, RELABEL, DROP)))
            order = np.lexsort((decided, -self.changed_at[decided]))
            return [int(row) for row in decided[order[:n]]]

    def sample(self) -> Sample | None:
        """The blind sample, if one was drawn."""
        with self._lock:
            found = self._db.execute("SELECT row, origin FROM sample ORDER BY position").fetchall()
        if not found:
            return None
        return Sample(np.array([row for row, _ in found], dtype=np.int64), tuple(origin for _, origin in found))

    def draw(self, rows: Sequence[int] | Rows, origin: Sequence[str]) -> Sample:
        """Remember a blind sample. It is drawn once: another one is added below the first."""
        with self._lock, self._transaction():
            start = int(self._db.execute("SELECT coalesce(max(position) + 1, 0) FROM sample").fetchone()[0])
            for position, (row, name) in enumerate(zip(rows, origin, strict=True), start=start):
                self._db.execute("INSERT INTO sample VALUES (?, ?, ?)", (position, int(row), name))
        found = self.sample()
        assert found is not None
        return found
