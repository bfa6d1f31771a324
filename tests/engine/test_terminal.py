"""What a person sees while a run trains. Signals: the first is noted, handlers are put back, and a program that trains
gets its signal after all."""

from __future__ import annotations

import io
import os
import re
import signal

import pytest
from rich.console import Console

from engine.helpers import SHORT, make_trainer, toy
from pars.engine import Interrupted, catch_interrupt, resend_interrupt, show_progress
from pars.engine.terminal import Bar, Lines
from pars.methods import PARS


def test_lines_go_to_stderr_one_per_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    trainer = make_trainer(PARS(warm_up=2, tau=0.4), data=toy(), callback=Lines())
    trainer.run()
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == SHORT.epochs
    assert re.match(r"train: epoch 1 · warm-up · raw \d\.\d{3} · test [\d.]+ % \(without EMA [\d.]+ %\) · ", lines[0])
    assert re.search(r"epoch 4 · main · .*selected \d+ % · of them right [\d.]+ %", lines[3])
    assert lines[3].endswith(" rows/s, 0 s left")


def test_lines_that_nobody_reads_do_not_stop_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        monkeypatch.setattr("sys.stderr", pipe)
        trainer = make_trainer(PARS(warm_up=2), data=toy(), callback=Lines())
        trainer.run()
        assert trainer.epoch == SHORT.epochs
        monkeypatch.undo()
        os.dup2(os.open(os.devnull, os.O_WRONLY), write)  # for what is left in the buffer


def test_a_title_is_shown_as_it_is() -> None:
    text = io.StringIO()
    bar = Bar(Console(file=text, force_terminal=True, color_system=None, width=200))
    bar.start(1, 0, "[/b] :smile:")
    bar.stop()
    assert "[/b] :smile:" in text.getvalue()


def test_lines_are_what_a_pipe_gets() -> None:
    assert type(show_progress()) is Lines  # pytest's stderr is no terminal


def test_work_without_epochs_is_counted_in_rows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter(range(0, 1000, 4))  # the clock is read when it begins, after a batch, and for each line
    monkeypatch.setattr("time.monotonic", lambda: next(seconds))
    lines = show_progress(epochs=False)
    lines.start(100, 20, "encode")
    for _ in range(8):
        lines.step(10)
    found = [line.split(" · ")[0] for line in capsys.readouterr().err.splitlines()]
    assert found[-1] == "encode: 100 of 100"
    assert 1 < len(found) < 8
    text = io.StringIO()
    bar = Bar(Console(file=text, force_terminal=True, width=200), by_rows=True)
    bar.start(100, 20, "encode")
    bar.step(80)
    bar.stop()
    assert "100/100" in text.getvalue()


def test_a_bar_counts_steps_and_shows_the_last_accuracy() -> None:
    text = io.StringIO()
    bar = Bar(Console(file=text, force_terminal=True, width=400))
    trainer = make_trainer(PARS(warm_up=2), data=toy(), callback=bar)
    trainer.run()
    assert "16/16" in text.getvalue()
    assert "test " in text.getvalue()


def stopped_by(number: int) -> list[object]:
    """As training is: what the signal's handler is while it runs, before and after a signal, which then stops it."""
    with catch_interrupt() as seen:
        handlers: list[object] = [signal.getsignal(number)]
        signal.raise_signal(number)
        handlers.append(signal.getsignal(number))
        if seen:
            raise Interrupted
        return handlers


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_the_exit_code_is_that_of_a_shell_and_the_handler_is_put_back(number: signal.Signals, code: int) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Interrupted) as caught:
        stopped_by(number)
    assert caught.value.exit_code == code
    assert signal.getsignal(number) == before


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert stopped_by(signal.SIGHUP) == [signal.SIG_IGN] * 2
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_signal_is_sent_again_to_whoever_handled_it_before() -> None:
    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    try:
        with pytest.raises(KeyboardInterrupt), resend_interrupt():
            stopped_by(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert received == [signal.SIGTERM]


def test_ctrl_c_becomes_a_keyboard_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt), resend_interrupt():
        stopped_by(signal.SIGINT)
