"""The training rows of a finished run as features: for whoever asks which rows are alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pars.engine import as_tensor
from pars.errors import UserError
from pars.method_api import features_of
from pars.run import inputs
from pars.run.load import load_run
from pars.run.prepare import prepare
from pars.run.train import open_run

BATCH = 512


def row_features(path: str | Path) -> npt.NDArray[Any]:
    """Feature vectors [n, d] as they were trained on; of images what the averaged network has before its last layer."""
    folder, config = open_run(path)
    then, given = inputs.read(folder)
    if given["dataset"] or given["networks"]:
        raise UserError(f"{path}: its data or network was given from Python; pass features to pars.audit.audit_run")
    prepared = prepare(config)
    inputs.check_same(folder, then, prepared.data_record, prepared.noise, prepared.data.name)
    rows = prepared.data.train.inputs
    if rows.ndim == 2:
        return rows
    classifier = load_run(path)
    with torch.no_grad():
        parts = [
            features_of(classifier.networks[0], classifier.views.plain(part.to(classifier.device))).cpu().numpy()
            for part in torch.split(as_tensor(rows), BATCH)
        ]
    return np.concatenate(parts)
