"""Run cells that the ledger lacks: on this machine's cores, or on a Dask cluster. One subprocess for each cell.

Both are `concurrent.futures` executors. Locally it is one of threads: each waits for a subprocess, which a second
process between would only make harder to stop.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pars.bench import task
from pars.bench.ledger import Line, append_once, check_appendable, read_ledger
from pars.bench.progress import Progress
from pars.bench.record import check_runnable, failure
from pars.bench.scales import Cell, Sources, fingerprint, rows_of
from pars.bench.tuning import Tuned
from pars.engine import Interrupted, catch_interrupt
from pars.errors import UserError

_POLL = 0.2  # seconds between looks at signals
Outcome = tuple[int, str, str]  # exit code, stdout, stderr


@dataclass(frozen=True)
class Plan:
    """Cells to run, and where."""

    cells: Sequence[Cell]
    where: Sources
    ledger: Path
    work: Path
    jobs: int = 1
    cluster: str | None = None  # address of a Dask scheduler
    retry: bool = False  # what failed before, too
    keep: bool = False  # run folders

    def command(self, cell: Cell) -> list[str]:
        """The arguments of `pars` that run a cell; complete: no file with tuned settings is read."""
        out = ["bench", "cell", "--scale", cell.scale, "--column", cell.column, "--row", cell.row]
        out += ["--seed", str(cell.seed)]
        if cell.settings:
            out += ["--settings", json.dumps(cell.settings)]
        if cell.trial is not None:
            out += ["--trial", str(cell.trial)]
        for data, file in self.where.features.items():
            out += ["--features", f"{data}={file.absolute()}"]
        if self.where.root is not None:
            out += ["--root", str(self.where.root.absolute())]
        return [*out, "--work", str(self.work.absolute()), *(["--keep"] if self.keep else [])]


@dataclass
class Summary:
    """What a call of `run_all` did."""

    done: int = 0  # in the ledger when it began
    ran: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)  # cells that cannot be run at this scale, and why


def cells_of(scale: str, rows: Sequence[str], columns: Sequence[str], seeds: Sequence[int], tuned: Tuned) -> list[Cell]:
    """The cells of some rows and columns, seed by seed: whole tables of one seed come before the next seed."""
    return [
        Cell(scale, column, row.key, seed, tuned.of(scale, column, row))
        for seed in seeds
        for column in columns
        for row in rows_of(tuple(rows))
    ]


def run_all(plan: Plan, log: Callable[[str], None], progress: Progress) -> Summary:
    """Run every cell that the ledger has no line of; a failed cell is recorded and does not stop the rest.

    Raises `Interrupted` when it is stopped by a signal: the cells under way have saved what they did.
    """
    summary, todo = Summary(), []
    finished = _finished(plan)
    for cell in plan.cells:
        if reason := check_runnable(cell):
            summary.skipped[cell.name] = reason
        elif _key(cell, plan) in finished:
            summary.done += 1
        else:
            todo.append(cell)
    if todo:
        check_appendable(plan.ledger)
    progress.start(len(plan.cells) - len(summary.skipped), summary.done)
    task.allow()
    try:
        with catch_interrupt() as interrupted, _executor(plan) as (executor, most):
            # A cell that another runner has begun is left for the end: by then it is likely to be done.
            later = _run(
                plan, todo, executor, most, summary, interrupted, log, progress, waiting=plan.cluster is not None
            )
            _run(plan, later, executor, most, summary, interrupted, log, progress, waiting=True)
    finally:
        progress.stop()
    return summary


def _run(
    plan: Plan,
    cells: Sequence[Cell],
    executor: Executor,
    most: int,
    summary: Summary,
    interrupted: list[bool],
    log: Callable[[str], None],
    progress: Progress,
    *,
    waiting: bool,
) -> list[Cell]:
    """Run cells, `most` at a time; those that another process is training are returned."""
    waiting_list, running, in_use = list(reversed(cells)), dict[Future[Outcome], Cell](), []
    while waiting_list or running:
        while waiting_list and len(running) < most and not interrupted:
            cell = waiting_list.pop()
            if _key(cell, plan) in _finished(plan):  # another runner was faster
                progress.done(cell.name, None)
                continue
            running[executor.submit(task.run_pars, plan.command(cell), wait=waiting)] = cell
        done, _ = wait(running, timeout=_POLL, return_when=FIRST_COMPLETED)
        for future in done:
            cell = running.pop(future)
            if not interrupted and _is_in_use(future):
                in_use.append(cell)
            else:
                _record(plan, cell, future, summary, bool(interrupted), log, progress)
        if interrupted:
            waiting_list.clear()
            for future in running:
                future.cancel()
            task.stop_all()
            wait(running)
            for future, cell in running.items():
                if not future.cancelled():
                    _record(plan, cell, future, summary, True, log, progress)
            raise Interrupted
    return in_use


def _is_in_use(future: Future[Outcome]) -> bool:
    return future.exception() is None and future.result()[0] == task.IN_USE


def _record(
    plan: Plan,
    cell: Cell,
    future: Future[Outcome],
    summary: Summary,
    stopping: bool,
    log: Callable[[str], None],
    progress: Progress,
) -> None:
    """Write a cell's line, or what went wrong, to the ledger."""
    error = future.exception()
    code, out, err = (1, "", f"{type(error).__name__}: {error}") if error is not None else future.result()
    if code == 0:
        try:
            line: Line = json.loads(out.strip().splitlines()[-1])
        except (ValueError, IndexError):
            line = failure(cell, plan.where, f"printed no result: {out[-200:]!r}", plan.command(cell))
    elif stopping or code in (129, 130, 143):
        return  # stopped and saved: it resumes when the same command is run again
    else:
        reason = f"killed by signal {-code}" if code < 0 else (err.strip().splitlines() or [f"exit code {code}"])[-1]
        line = failure(cell, plan.where, reason.removeprefix("pars bench: "), plan.command(cell))
    append_once(plan.ledger, line)
    summary.ran += 1
    if line["status"] != "ok":
        summary.failed.append(cell.name)
        log(f"{cell.name} failed: {line['error']}")
    progress.done(cell.name, line)


def _key(cell: Cell, plan: Plan) -> tuple[str, str]:
    return cell.name, fingerprint(cell, plan.where)


def _finished(plan: Plan) -> set[tuple[str, str]]:
    """Cells and configurations that need not be run."""
    lines = read_ledger(plan.ledger)
    return {(line["cell"], line["config"]) for line in lines if line["status"] == "ok" or not plan.retry}


@contextmanager
def _executor(plan: Plan) -> Iterator[tuple[Executor, int]]:
    """An executor, and how many cells it gets at a time."""
    if plan.cluster is None:
        with ThreadPoolExecutor(plan.jobs, thread_name_prefix="cell") as threads:
            yield threads, plan.jobs
        return
    try:
        from distributed import Client
    except ImportError:
        raise UserError("--cluster needs Dask, which is not installed: pip install 'pars-lnl[cluster]'") from None
    try:
        client = Client(plan.cluster, timeout=5)
    except (OSError, TimeoutError, ValueError) as error:
        raise UserError(f"--cluster {plan.cluster}: no Dask scheduler answers there ({error})") from error
    with client:
        # Not pure: a cell that failed is not answered from memory when it is run again.
        yield client.get_executor(pure=False), len(plan.cells) or 1
