"""A review without its web page: rows, decisions, numbers and files."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pars import corrections
from pars.corrections import TableSource
from pars.data import Previews, RecordPreview, TextPreview
from pars.errors import UserError
from pars.files import write_text
from pars.reviewing.estimates import (
    STOP_AFTER,
    SampleEstimate,
    draw_blind_sample,
    estimate_from_sample,
    may_stop,
    wilson,
)
from pars.reviewing.items import (
    ReviewItems,
    check_filter,
    matching,
    ordered,
    pair_groups,
    parse_filter,
)
from pars.reviewing.store import (
    ACCEPT,
    DROP,
    KEEP,
    RELABEL,
    SKIP,
    STATES,
    UNDECIDED,
    Conflict,
    DecisionStore,
    NotSaved,
    Outcome,
)

FILE = "review.sqlite"
MOST_ROWS = 200  # of a page
SNIPPET = 300  # characters of a row in a list
STRIP = 10  # last decisions shown
ACTIONS = ("accept", "keep", "relabel", "drop", "skip", "clear", "blind")
Rows = npt.NDArray[np.int64]


class ReviewSession:
    """One list of suspects, its rows and what was decided about them.

    folder: for the decisions and the exports. source: the user's table, if there is one to correct.
    """

    def __init__(
        self,
        items: ReviewItems,
        previews: Previews,
        folder: Path,
        *,
        source: TableSource | None = None,
        title: str = "",
        read_only: bool = False,
    ) -> None:
        if len(previews) != len(items):
            raise UserError(f"{len(previews)} rows to show, but {len(items)} labels were audited")
        self.items, self.previews, self.folder, self.source, self.title = items, previews, folder, source, title
        folder.mkdir(parents=True, exist_ok=True)
        self.store = DecisionStore(folder / FILE, len(items), fingerprint=items.fingerprint(), read_only=read_only)
        self._changes = threading.Lock()  # a filter is evaluated and decided on in one piece

    def close(self) -> None:
        self.store.close()

    # What is shown

    def meta(self) -> dict[str, Any]:
        sample = self.store.sample()
        done = 0 if sample is None else int((self.store.state[sample.rows] != UNDECIDED).sum())
        return {
            "title": self.title,
            "classes": list(self.items.classes),
            "kind": self.previews.kind,
            "rows": len(self.items),
            "suspects": len(self.items.listed),
            "counts": self.counts(),
            "seq": self.store.seq,
            "read_only": self.store.read_only,
            "has_table": self.source is not None,
            "folder": str(self.folder),
            "sample": None if sample is None else {"n": len(sample), "done": done},
            "default_view": "grid" if self.previews.kind == "image" and len(self.items.listed) >= 200 else "one",
        }

    def counts(self) -> dict[str, int]:
        """Suspects by state."""
        found = np.bincount(self.store.state[self.items.listed], minlength=len(STATES))
        return dict(zip(STATES, found.tolist(), strict=True))

    def hidden(self) -> Rows:
        """Rows of the blind sample that are not decided: nothing about them may be shown elsewhere."""
        sample = self.store.sample()
        if sample is None:
            return np.zeros(0, dtype=np.int64)
        undecided: Rows = sample.rows[self.store.state[sample.rows] == UNDECIDED]
        return undecided

    def page(
        self, filter_text: str | None, sort: str, offset: int, limit: int, around: int | None = None
    ) -> dict[str, Any]:
        """One page of the rows that pass a filter, and the pairs among all of them.

        around: the page that holds this row, where it passes the filter, in place of that at `offset`.
        """
        if offset < 0 or not 1 <= limit <= MOST_ROWS:
            raise UserError(f"offset {offset} and limit {limit}, expected 0 or more and 1 to {MOST_ROWS}")
        chosen = parse_filter(filter_text, len(self.items.classes), len(self.items))
        rows = ordered(self.items, self._matching(chosen), sort)
        offset = _page_of(rows, around, limit, offset)
        return {
            "total": len(rows),
            "offset": offset,
            "seq": self.store.seq,
            "counts": self.counts(),
            "groups": pair_groups(self.items, self.store.state, rows),
            "rows": [self.compact(int(row)) for row in rows[offset : offset + limit]],
        }

    def sample_page(self, offset: int, limit: int, around: int | None = None) -> dict[str, Any]:
        """Questions of the blind sample: rows and whether they are decided, nothing else."""
        sample = self.store.sample()
        rows = np.zeros(0, dtype=np.int64) if sample is None else sample.rows
        offset = _page_of(rows, around, limit, offset)
        here = [
            {"row": int(row), "state": "undecided" if self.store.state[row] == UNDECIDED else "decided", "blind": True,
             "text": self._snippet(int(row))}
            for row in rows[offset : offset + limit]
        ]  # fmt: skip
        return {"total": len(rows), "offset": offset, "seq": self.store.seq, "counts": self.counts(), "groups": [],
                "rows": here}  # fmt: skip

    def _matching(self, chosen: Mapping[str, Any]) -> Rows:
        return matching(self.items, self.store.state, chosen, self.previews.text, self.hidden())

    def compact(self, row: int) -> dict[str, Any]:
        """A row in a list."""
        quality, state, label = self.items.quality[row], self.store.state[row], int(self.store.label[row])
        return {
            "row": row,
            "id": self.items.id(row),
            "given": int(self.items.given[row]),
            "suggested": int(self.items.suggested[row]),
            "quality": None if np.isnan(quality) else round(float(quality), 4),
            "suggested_prob": round(float(self.items.suggested_prob[row]), 4),
            "state": STATES[state],
            "label": label if label >= 0 else None,
            "text": self._snippet(row),
        }

    def _snippet(self, row: int) -> str:
        return self.previews.text(row)[:SNIPPET]

    def item(self, row: int, *, blind: bool = False) -> dict[str, Any]:
        """All about a row; of one that the blind sample asks for, only what is to be judged."""
        shown = self.previews.preview(row) if self.previews.kind != "image" else None
        content: dict[str, Any] = {"kind": self.previews.kind}
        if isinstance(shown, TextPreview):
            content["text"] = shown.text
        elif isinstance(shown, RecordPreview):
            content["values"] = shown.values
        else:
            content["name"] = self._snippet(row)
        if blind or row in set(self.hidden().tolist()):
            decided = self.store.state[row] != UNDECIDED
            return {"row": row, "blind": True, "content": content, "state": "decided" if decided else "undecided"}
        probs = zip(self.items.choices[row].tolist(), self.items.choice_probs[row].tolist(), strict=True)
        choices = [{"label": k, "prob": round(float(p), 4)} for k, p in probs if k >= 0]
        return self.compact(row) | {"content": content, "choices": choices, "why": self.items.reason(row)}

    def last_decisions(self) -> list[dict[str, Any]]:
        hidden = set(self.hidden().tolist())
        return [self.compact(row) for row in self.store.last(STRIP) if row not in hidden]

    # What is decided

    def decide(self, body: Mapping[str, Any]) -> Outcome:
        """`{id, base_seq, rows: […] | filter + expect: N, action, label}`, all checked."""
        client_id, action, base = body.get("id"), body.get("action"), body.get("base_seq")
        if not isinstance(client_id, str) or not 8 <= len(client_id) <= 100:
            raise UserError("id is missing, expected a text of 8 to 100 characters")
        if action not in ACTIONS:
            raise UserError(f"action is {str(action)[:40]!r}, expected one of {', '.join(ACTIONS)}")
        if type(base) is not int or base < 0:
            raise UserError("base_seq is missing, expected the seq of the last answer")
        label = body.get("label")
        if action in ("relabel", "blind"):
            if type(label) is not int or not 0 <= label < len(self.items.classes):
                raise UserError(f"label is {str(label)[:40]!r}, expected 0 to {len(self.items.classes) - 1}")
        elif label is not None:
            raise UserError(f"action {action} takes no label")
        with self._changes:
            rows = self._rows_of(body, base)
            states, labels = self._outcome(rows, str(action), label)
            return self.store.decide(client_id, rows, states, labels, base_seq=base)

    def _rows_of(self, body: Mapping[str, Any], base: int) -> Rows:
        if ("rows" in body) == ("filter" in body):
            raise UserError("expected rows, or a filter with expect")
        if "rows" in body:
            rows = body["rows"]
            if not isinstance(rows, list) or not all(type(row) is int and 0 <= row < len(self.items) for row in rows):
                raise UserError(f"rows: expected a list of numbers from 0 to {len(self.items) - 1}")
            if len(set(rows)) != len(rows) or not rows:
                raise UserError("rows: expected at least one, and each once")
            if (self.items.given[rows] < 0).any():
                raise UserError("rows: one of them has no label to review")
            return np.array(rows, dtype=np.int64)
        expect = body.get("expect")
        chosen = check_filter(body["filter"], len(self.items.classes), len(self.items))
        found = self._matching(chosen)
        seen = self.store._repeated(str(body.get("id")))
        if seen is None and (len(found) != expect or self.store.seq != base):
            raise Conflict(f"{len(found)} rows match now, not {expect}; look again")
        return found

    def _outcome(self, rows: Rows, action: str, label: int | None) -> tuple[Rows, Rows]:
        """States and labels of the rows after an action."""
        given, suggested = self.items.given[rows], self.items.suggested[rows]
        none = np.full(len(rows), -1, dtype=np.int64)
        if action in ("skip", "clear", "drop"):
            return none * 0 + {"skip": SKIP, "clear": UNDECIDED, "drop": DROP}[action], none
        labels = given if action == "keep" else suggested if action == "accept" else none * 0 + int(label or 0)
        # A label is kept or accepted whichever key it was chosen by.
        states = np.where(labels == given, KEEP, np.where(labels == suggested, ACCEPT, RELABEL))
        return states, labels

    # Numbers

    def wrong(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Which of these decided rows turned out to be wrong: relabeled or dropped."""
        out: npt.NDArray[np.bool_] = np.isin(self.store.state[rows], (ACCEPT, RELABEL, DROP))
        return out

    def stats(self) -> dict[str, Any]:
        """Counts, shares of wrong labels by pair and by decile of quality, whether to stop, and the blind sample."""
        listed = self.items.listed
        listed = listed[~np.isin(listed, self.hidden())]
        decided = listed[np.isin(self.store.state[listed], (KEEP, ACCEPT, RELABEL, DROP))]
        wrong = self.wrong(decided)
        k = len(self.items.classes)
        codes, where = np.unique(self.items.given[decided] * k + self.items.suggested[decided], return_inverse=True)
        pairs = []
        for at, code in enumerate(codes.tolist()):
            here = wrong[where == at]
            share = wilson(int(here.sum()), len(here))
            pairs.append({"given": code // k, "suggested": code % k, **vars(share)})
        pairs.sort(key=lambda pair: -pair["of"])
        deciles = []
        order = listed[np.argsort(self.items.quality[listed], kind="stable")]
        for part in np.array_split(order, 10) if len(order) else []:
            if len(part):
                here = part[np.isin(self.store.state[part], (KEEP, ACCEPT, RELABEL, DROP))]
                low, high = (float(self.items.quality[part].min()), float(self.items.quality[part].max()))
                deciles.append({"quality_low": low, "quality_high": high, "rows": len(part),
                                **vars(wilson(int(self.wrong(here).sum()), len(here)))})  # fmt: skip
        last = np.array(self.store.last(STOP_AFTER), dtype=np.int64)
        of_last = self.wrong(last).tolist() if len(last) else []
        estimate = self.sample_estimate()
        return {
            "counts": self.counts(),
            "decided": len(decided),
            "all": vars(wilson(int(wrong.sum()), len(decided))),
            "pairs": pairs[:100],
            "deciles": deciles,
            "last": vars(wilson(sum(of_last), len(of_last))),
            "may_stop": may_stop(of_last),
            "sample": None if estimate is None else estimate.summary(),
        }

    # The blind sample

    def draw_sample(self, n: int, seed: int = 0) -> None:
        """Draw n rows from all and n from the list, once; rows that were decided already cannot be judged blind."""
        if n < 1:
            raise UserError(f"a sample of {n} rows, expected 1 or more")
        if self.store.sample() is not None:
            return
        labeled = np.flatnonzero(self.items.given >= 0)
        open_rows = self.store.state == UNDECIDED
        if self.items.checked is not None:
            open_rows &= self.items.checked == 0
        listed = self.items.listed[open_rows[self.items.listed]]
        self.store.draw(*draw_blind_sample(labeled[open_rows[labeled]], listed, n, seed))

    def sample_estimate(self) -> SampleEstimate | None:
        """Precision of the list, share of wrong labels missed, and noise rate, from the blind decisions so far."""
        sample = self.store.sample()
        if sample is None:
            return None
        decided = np.isin(self.store.state[sample.rows], (KEEP, ACCEPT, RELABEL, DROP))
        on_list = np.isin(sample.rows, self.items.listed)
        wrong = self.wrong(sample.rows)
        # Off the list there are only rows drawn from all; on it both draws are random rows of the list.
        n_in, n_out = int((decided & on_list).sum()), int((decided & ~on_list).sum())
        rows_in, labeled = len(self.items.listed), int((self.items.given >= 0).sum())
        trusted = int(np.isin(self.store.state[sample.drawn_from("all")], (KEEP, ACCEPT, RELABEL)).sum())
        return estimate_from_sample(
            int((decided & on_list & wrong).sum()), n_in, rows_in,
            int((decided & ~on_list & wrong).sum()), n_out, labeled - rows_in, trusted,
        )  # fmt: skip

    # Files

    def export(self) -> list[Path]:
        """Write corrections, labels and the corrected table into the folder, and return their paths."""
        sample = self.store.sample()
        random = [] if sample is None else sample.drawn_from("all").tolist()
        files = corrections.write_corrections(
            self.folder, self.items.reviewed(), self.store.decisions(), self.source, random
        )
        estimate = self.sample_estimate()
        if estimate is not None:
            files.append(self.folder / "sample.json")
            write_text(files[-1], json.dumps(estimate.summary(), indent=1) + "\n")
        return files

    def stream(self, kind: str) -> Iterator[str]:
        """The corrections as CSV or JSON lines."""
        make = corrections.corrections_csv if kind == "csv" else corrections.corrections_jsonl
        return make(self.items.reviewed(), self.store.decisions())


def _page_of(rows: Rows, around: int | None, limit: int, offset: int) -> int:
    at = np.flatnonzero(rows == around) if around is not None else np.zeros(0, dtype=np.int64)
    return int(at[0]) // limit * limit if len(at) else offset


__all__ = ["ACTIONS", "Conflict", "NotSaved", "ReviewSession"]
