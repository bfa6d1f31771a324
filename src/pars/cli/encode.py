"""`pars encode DATA OUT`: frozen features of texts and images, with views of every row."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from pars import data, encode, engine
from pars.augment import ViewsConfig
from pars.cli.flags import Parser, add_json_flag, add_table_flags, check_unmirrored, parsed, table_options
from pars.cli.output import say, show
from pars.data import Table
from pars.engine import Callback, Interrupted, catch_interrupt, locked, show_progress
from pars.errors import UserError
from pars.files import PART, expanded


@dataclass(frozen=True)
class Flags:
    views: ViewsConfig = field(default_factory=lambda: ViewsConfig(strong="randaugment"))


def parser() -> Parser:
    out = Parser(prog="pars encode", add_help=False, allow_abbrev=False)
    out.add_argument("data", metavar="DATA", help="a table, a folder class/name.jpg, an .npz file, a data set's name")
    out.add_argument("out", metavar="OUT", type=expanded, help="OUT.npz, or a folder of .npy files (memory maps)")
    out.add_argument("--encoder", metavar="NAME", help=f"{', '.join(encode.NAMES)} (default for texts: tfidf)")
    out.add_argument("--views", type=int, default=0, metavar="N", help="weak and strong views of each row (default: 0)")
    add_table_flags(out)
    out.add_argument("--test", metavar="FILE", help="a second table or folder, its columns named alike, to test on")
    out.add_argument("--limit", type=int, metavar="N", help="only the first N rows to train on")
    out.add_argument(
        "--size", type=int, metavar="PIXELS", help="side that images are brought to (default: the encoder's)"
    )
    out.add_argument("--batch", type=int, metavar="ROWS", help="rows at a time (default: from the free memory)")
    out.add_argument("--seed", type=int, default=0, help="of the views")
    out.add_argument("--root", help="folder of the data sets")
    add_json_flag(out)
    return out


def command(args: Sequence[str]) -> int:
    about = "Encode every row once with a frozen encoder; run the same command again to resume."
    options, flags = parsed(parser(), Flags, default=Flags(), args=args, about=about)
    check_unmirrored(flags.views)
    with engine.joined("cpu") as processes:
        processes.in_first(lambda: encode.check_output_path(options.out))
        return _encode(options, flags, processes)


def _encode(options: argparse.Namespace, flags: Flags, processes: engine.Processes) -> int:
    train, test = tables(options)
    encoder = chosen(options, train)
    work = options.out.with_name(options.out.name + PART)
    progress = show_progress(epochs=False) if processes.is_first else Callback()
    shown = ExitStack()

    def start(total: int, done: int) -> None:
        shown.callback(progress.stop)
        share = "" if processes.size == 1 else f", 1 of {processes.size} processes"
        progress.start(total, done, f"encode {encoder.name}{share}")

    try:
        with shown, catch_interrupt() as seen, ExitStack() as held:
            processes.in_first(lambda: held.enter_context(locked(Path(f"{work}.lock"))))
            finished = encode.encode_table(
                train,
                options.out,
                encoder,
                test=test,
                views=encode.CachedViewsConfig(count=options.views, seed=options.seed, config=flags.views),
                batch=options.batch,
                progress=encode.Progress(
                    start=start,
                    step=progress.step,
                    stopped=lambda: bool(seen),
                ),
                processes=processes,
            )
            if not finished:
                raise Interrupted
    except Interrupted as stop:
        if processes.is_first:
            say(f"Stopped. Finished shards are in {work}. Run the same command again to resume.")
        return stop.exit_code
    if not processes.is_first:
        return 0
    result = {
        "out": str(options.out),
        "encoder": encoder.name,
        "rows": len(train),
        "test_rows": 0 if test is None else len(test),
        "views": options.views,
    }
    show(options.json, result, lambda: text(options, train))
    return 0


def text(options: argparse.Namespace, train: Table) -> str:
    lines = [f"{options.out}: {len(train)} rows, {options.views} weak and {options.views} strong views of each"]
    if train.classes:
        lines.append(f"train on it: pars train --preset features --data.name {options.out}")
    return "\n".join(lines)


def tables(options: argparse.Namespace) -> tuple[Table, Table | None]:
    """The rows to train on and, where there are some, to test on."""
    columns = table_options(options) | {"skip_unreadable": options.skip_unreadable}
    path = expanded(options.data)
    test = None
    if options.data in data.NAMES or data.is_idx_folder(path):
        if given := [name for name, value in columns.items() if value]:
            raise UserError(f"--{given[0].replace('_', '-')} means nothing for {options.data}, which has no columns")
        train, test = encode.dataset_tables(options.data, options.root)
    else:
        train = data.read_table(options.data, **columns)
        if train.array is not None and train.classes:  # arrays may hold rows to test on too
            train, test = encode.dataset_tables(options.data)
    if options.test is not None:
        test = data.read_table(options.test, **columns, classes=train.classes)
    if options.limit is not None:
        if not 1 <= options.limit <= len(train):
            raise UserError(f"--limit is {options.limit}, but {options.data} has {len(train)} rows")
        train = train.first(options.limit)
    return train, test


def chosen(options: argparse.Namespace, train: Table) -> encode.Encoder:
    kind = encode.row_kind(train)
    if options.encoder is not None:
        return encode.encoder(options.encoder, kind=kind, size=options.size)
    if kind == "image":
        raise UserError(f"--encoder is missing, expected one of {', '.join(encode.NAMES)}")
    say("no --encoder: TF-IDF and a truncated SVD learn from these texts; a pre-trained one usually knows more")
    return encode.encoder("tfidf")
