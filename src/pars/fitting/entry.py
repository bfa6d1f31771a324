"""`pars.fit`: rows and labels as Python has them in, the result of a fit out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from pars import data
from pars.encode import EncoderName
from pars.engine import resend_interrupt
from pars.fitting.pipeline import fit_table
from pars.fitting.result import FitResult
from pars.fitting.rows import read_rows, read_test_rows
from pars.fitting.settings import FitSettings, path_of


def fit(
    rows: Any,
    labels: Any = None,
    *,
    method: str = "pars",
    out: str | Path | None = None,
    test: Any = None,
    test_labels: Any = None,
    encoder: EncoderName | None = None,
    encoded_views: int = 0,
    unlabeled: str | None = None,
    network: Any = "auto",
    checked_labels: str | Path | None = None,
    seed: int = 0,
    device: str = "auto",
    baseline: bool = True,
    skip_unreadable: bool = False,
    progress: bool = False,
    **columns: Any,
) -> FitResult:
    """Train on rows whose labels may be wrong; return the classifier, the audit and whether it helped.

    rows, labels, unlabeled, columns: as `read_rows` takes them.
    method: a name of `pars methods`, or "auto": a few are tried, held-out labels choose. It is compared with plain
        cross-entropy, at the same cost if it is a network.
    out: a folder for both runs, the audit and what new rows need. The same call resumes an interrupted fit. Without it
        nothing is written.
    test, test_labels: further rows whose labels are right; they then decide whether it helped. Without them, those that
        an .npz file has as x_test and y_test.
    encoder: for texts and images, a name as in `pars encode` or a function; None: chosen, with a warning.
    encoded_views: number of weak and of strong views of every text or image to encode and train on.
    network: "auto", or a network to train on images: "timm:NAME", "hf:NAME", "lite0", or on texts: "hf:NAME", or a
        dict of fields of `ModelConfig` with such a name. Image files are read at `size` pixels per side (default 224),
        of texts at most `size` tokens (128).
    baseline: False: plain cross-entropy is not trained, so the result does not say whether the method helped.
    skip_unreadable: leave out images that cannot be read, with a warning that counts them.
    checked_labels: labels.csv of a review of these rows. Its labels replace the given ones; dropped rows are not
        trained on; checked rows are right from then on, and those that are held out decide whether it helped. Of the
        file that `pars review` wrote, the result also says how the review changed the accuracy (`retraining`).
    progress: show progress on stderr.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = np.concatenate([rng.normal(-2, 1, (60, 3)), rng.normal(2, 1, (60, 3))])
    >>> y = np.repeat(["left", "right"], 60)
    >>> y[:10] = "right"                                   # wrong
    >>> result = fit(x, y)
    >>> result.predict(x[20:22]).tolist(), int(result.audit.is_label_issue[:10].sum())
    (['left', 'left'], 10)
    """
    folder, checked = path_of(out, "out"), path_of(checked_labels, "checked_labels")
    options = {"encoder": encoder, "unlabeled": unlabeled, **columns, "skip_unreadable": skip_unreadable or None}
    table = read_rows(rows, labels, **options)
    if checked is not None:
        table = data.with_checked_labels(table, checked)
    if test is not None:
        test_labels = labels if test_labels is None and isinstance(labels, str) else test_labels
        test = read_test_rows(test, test_labels, table, **options)
    reading = {"label": labels if isinstance(labels, str) else None, "unlabeled": unlabeled, **columns}
    settings = FitSettings(
        method=method,
        encoder=encoder,
        encoded_views=encoded_views,
        seed=seed,
        device=device,
        network=network,
        reading=reading,
        baseline=baseline,
    )
    with torch.random.fork_rng(), resend_interrupt():
        return fit_table(
            table,
            settings,
            test=test,
            out=folder,
            checked_labels=checked,
            progress=progress,
        )
