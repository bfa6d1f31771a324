"""The one exception that means "the user can fix this": the command prints its text and exits with code 2."""

from __future__ import annotations


class UserError(ValueError):
    """Something the user gave is wrong. The text says what, where (row, file, key) and what would be right."""


class Diverged(UserError):
    """Training diverged in epoch `epoch` (from 1): a loss or weight is not finite. Other settings may help."""

    def __init__(self, message: str, *, epoch: int) -> None:
        super().__init__(message)
        self.epoch = epoch


def one_line(error: BaseException, length: int = 300) -> str:
    """The message of an error without its line breaks, cut to a length that can be read."""
    text = " ".join(str(error).split())
    return text if len(text) <= length else text[:length] + " …"


class EncoderChosenWarning(UserWarning):
    """Texts or images were fitted without naming an encoder: says which one was chosen."""


class SimplerModelWarning(UserWarning):
    """A linear model predicts held-out labels clearly better than PARS: it is what the fit returns."""
