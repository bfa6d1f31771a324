"""Signals: the first is noted, handlers are put back, and a program that trains gets its signal after all."""

from __future__ import annotations

import signal

import pytest

from pars.engine import Interrupted, catch_interrupt, resend_interrupt


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
