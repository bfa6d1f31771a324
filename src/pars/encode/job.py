"""`encode_table`: encode every row once into a file or folder, resumable at any moment with the same result.

Several processes may do it together, each its shards, and resume what others left. While it runs, the features are in
a working folder OUT.part (`WorkFolder`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pars.data import Table
from pars.encode.encoder import Encoder
from pars.encode.registry import ENCODER_FILE, describe_encoder, load_encoder, save_encoder
from pars.encode.rows import batch_size, check_kind, encode_batch, table_checksum, values_checksum
from pars.encode.shards import OneProcess, Processes, Shard, own_shards, shards
from pars.encode.views import CachedViewsConfig
from pars.encode.work_folder import WorkFolder
from pars.errors import UserError
from pars.files import remove_halves
from pars.machine import free_memory

SAVE_SECONDS = 5.0


@dataclass
class Progress:
    """Callbacks: `start` gets the number of all and of finished rows, `step` the number of rows just encoded.

    `stopped` returns whether to stop after the current batch. Where processes share the work, rows of this one.
    """

    start: Callable[[int, int], None] = lambda total, done: None
    step: Callable[[int], None] = lambda rows: None
    stopped: Callable[[], bool] = lambda: False


def check_output_path(out: Path) -> None:
    """Raise a UserError unless OUT can be written or resumed. Changes nothing on disk but what a kill left."""
    if out.name in ("", ".."):  # ".", "/": there is no name that .part could follow
        raise UserError(f"{out} exists already; choose another name")
    WorkFolder(out).check_free()


def encode_table(
    train: Table,
    out: Path,
    encoder: Encoder,
    *,
    test: Table | None = None,
    views: CachedViewsConfig | None = None,
    batch: int | None = None,
    progress: Progress | None = None,
    processes: Processes | None = None,
) -> bool:
    """Encode a table into OUT (.npz, or a folder of .npy files). Return True when finished, False when stopped.

    Training rows get their plain features (x) and those of `views.count` weak and strong views (x_views), test rows
    plain ones (x_test). Call it again with the same arguments to resume; other rows, another encoder or other views are
    refused. A resumed call uses the batch size of the first one, so that the result has the same bytes.

    processes: those that encode together, each calling this with the same arguments; their number may change from call
    to call. The first of them makes the folder and the result.
    """
    views, progress, processes = views or CachedViewsConfig(), progress or Progress(), processes or OneProcess()
    _check_arguments(train, test, encoder, views, batch)
    work = WorkFolder(out, processes.rank)

    def prepare() -> tuple[Encoder, dict[str, Any], bool]:
        work.check_free()
        recorded = work.recorded_job()
        fitted = _fit_or_load(work, train, encoder)
        job = _describe_job(train, test, fitted, views)
        if recorded is None:
            job["batch"] = batch or batch_size(fitted, free_memory())
            job["features"] = encode_batch(train, 0, 1, fitted, views)[0].shape[1]
        else:
            _check_same_job(job, recorded, work, batch)
            job = recorded
        work.begin(job, _array_shapes(train, test, job["features"], views))
        if fitted.saveable and not (work.encoder / ENCODER_FILE).exists():
            remove_halves(work.encoder)
            save_encoder(fitted, work.encoder)
        return fitted, job, recorded is None

    prepared = processes.in_first(prepare)
    if prepared is None:  # another process did
        fitted, job, is_new = _fit_or_load(work, train, encoder), work.read_job(), False
        _check_same_job(_describe_job(train, test, fitted, views), job, work, batch)
        work.open(_array_shapes(train, test, job["features"], views))
    else:
        fitted, job, is_new = prepared
    processes.any(False)  # all know what was finished before any of them goes on

    def encode(shard: Shard) -> None:
        name, start, stop = shard
        table = train if name == "x" else test
        assert table is not None
        plain, viewed = encode_batch(table, start, stop, fitted, views if name == "x" else CachedViewsConfig())
        work.maps[name][start:stop] = plain
        if viewed.shape[1]:
            work.maps["x_views"][start:stop] = viewed

    every = shards({"x": len(train)} | ({} if test is None else {"x_test": len(test)}), job["batch"])
    left = [shard for shard in every if shard not in work.finished]
    own = own_shards(left, processes.rank, processes.size)
    finished, failure = False, None
    try:
        finished = _run(work, own, encode, progress, alone=processes.size == 1)
    except UserError as error:
        failure = error
        work.stop.touch()
    failed = processes.any(failure is not None)
    stopped = processes.any(not finished)
    if failed and is_new:
        work.discard()  # the rows have to change, and other rows are another job
    if failure is not None:
        raise failure
    if failed:
        raise UserError("another process cannot encode its rows")
    if stopped:
        return False
    processes.in_first(lambda: work.finish(_label_arrays(train, test), every))
    return True


def _check_arguments(
    train: Table, test: Table | None, encoder: Encoder, views: CachedViewsConfig, batch: int | None
) -> None:
    check_kind(encoder, views, *((train,) if test is None else (train, test)))
    if batch is not None and batch < 1:
        raise UserError(f"batch: {batch}, expected at least 1")
    if test is not None and test.classes != train.classes:
        raise UserError(f"{test.source} has other classes than {train.source}: {test.classes} and {train.classes}")


def _fit_or_load(work: WorkFolder, train: Table, encoder: Encoder) -> Encoder:
    """Return the encoder fitted to the training texts; when resuming, the saved one."""
    if encoder.fit is None:
        return encoder
    saved = work.job.exists() and (work.encoder / ENCODER_FILE).exists()
    return load_encoder(work.encoder) if saved else encoder.fitted(train.texts or [])


def _describe_job(train: Table, test: Table | None, encoder: Encoder, views: CachedViewsConfig) -> dict[str, Any]:
    """Return everything that the result depends on, as JSON values."""
    return {
        "encoder": describe_encoder(encoder),
        "train": _describe_table(train),
        "test": None if test is None else _describe_table(test),
        "views": {"count": views.count, "seed": views.seed, "config": asdict(views.config)},
    }


def _describe_table(table: Table) -> dict[str, Any]:
    labels = [*table.labels.tolist(), *([] if table.true_labels is None else table.true_labels.tolist())]
    return {
        "rows": len(table),
        "rows_blake2b": table_checksum(table),
        "labels_blake2b": values_checksum([*labels, *table.classes, *table.ids]),
    }


def _check_same_job(job: Mapping[str, Any], recorded: Mapping[str, Any], work: WorkFolder, batch: int | None) -> None:
    for key, value in job.items():
        if recorded.get(key) != value:
            different = _first_difference(recorded.get(key), value)
            raise UserError(
                f"{work.folder} was started with a different {key} ({different}); run the command it was started with "
                "to resume, or remove it to start again"
            )
    if type(recorded.get("batch")) is not int or type(recorded.get("features")) is not int:
        raise UserError(f"{work.job} is damaged; remove {work.folder} to start again")
    if batch is not None and batch != recorded["batch"]:
        raise UserError(
            f"{work.folder} was started with batches of {recorded['batch']}, not {batch}; remove it to start again"
        )


def _first_difference(recorded: Any, now: Any) -> str:
    if isinstance(recorded, dict) and isinstance(now, dict):
        for key in now:
            if recorded.get(key) != now[key]:
                return f"{key}: {_first_difference(recorded.get(key), now[key])}"
    return f"then {str(recorded)[:80]}, now {str(now)[:80]}"


def _array_shapes(
    train: Table, test: Table | None, features: int, views: CachedViewsConfig
) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {"x": (len(train), features)}
    if views.count:
        shapes["x_views"] = (len(train), 2 * views.count, features)
    if test is not None:
        shapes["x_test"] = (len(test), features)
    return shapes


def _run(
    work: WorkFolder, own: list[Shard], encode: Callable[[Shard], None], progress: Progress, *, alone: bool
) -> bool:
    """Encode the own shards. Return True when finished, False when stopped."""
    finished = len(work.finished) if alone else 0
    progress.start(finished + sum(stop - start for _, start, stop in own), finished)
    saved_at = time.monotonic()
    for number, shard in enumerate(own, 1):
        encode(shard)
        work.note(shard)
        progress.step(shard[2] - shard[1])
        if progress.stopped() and not alone:
            work.stop.touch()  # the others stop, too
        stopped = (progress.stopped() or work.stop.exists()) and number < len(own)
        if stopped or time.monotonic() - saved_at > SAVE_SECONDS:
            work.save()
            saved_at = time.monotonic()
        if stopped:
            return False
    work.save()
    return True


def _label_arrays(train: Table, test: Table | None) -> dict[str, Any]:
    """Return the arrays stored beside the features: row ids, and labels with class names if there are any."""
    out: dict[str, Any] = {"ids": np.array(train.ids, dtype=np.str_)}
    if (train.labels >= 0).any():
        out |= {"y": train.labels, "classes": np.array(train.classes, dtype=np.str_)}
        if train.true_labels is not None:
            out["y_true"] = train.true_labels
        if test is not None:
            out["y_test"] = test.labels
    return out
