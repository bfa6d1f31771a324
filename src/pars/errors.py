"""The one exception that means "the user can mend this": the command prints its text and exits with code 2."""


class UserError(ValueError):
    """Something the user gave is wrong. The text says what, where (row, file, key) and what would be right."""


class Diverged(UserError):
    """Training has left the finite numbers: other settings may mend it."""


class EncoderChosenWarning(UserWarning):
    """Texts or pictures were fitted without naming an encoder: says which one was chosen."""
