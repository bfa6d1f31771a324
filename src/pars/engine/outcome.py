"""What a run leaves behind: its weights, and what the network thinks of each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from pars.data import Dataset
from pars.engine import checkpoint as ck
from pars.engine.folder import RunFolder
from pars.engine.keep import Kept
from pars.engine.learner import Learner
from pars.errors import Diverged


def save_rows(
    folder: RunFolder, stage: str, epoch: int, probabilities: Tensor, labels: Tensor, evidence: Mapping[str, Tensor]
) -> None:
    """What the averaged network thinks of each training row at the end of a stage: for plots."""
    if not probabilities.isfinite().all():
        raise Diverged(f"the network has no finite answer to some rows after epoch {epoch}: it diverged")
    confidence, predicted = probabilities.max(dim=1)
    given = probabilities.gather(1, labels.cpu().clamp_min(0)[:, None])[:, 0]
    tensors = {"confidence": confidence, "predicted": predicted, "given_label_confidence": given}
    tensors |= {f"evidence.{name}": tensor for name, tensor in evidence.items()}
    ck.save_tensors(folder.rows(stage), tensors, {"stage": stage, "epoch": epoch})


def save_model(folder: RunFolder, learners: Sequence[Learner], data: Dataset, epochs: int, kept: Kept | None) -> None:
    """The final weights, how to read inputs for them, and which epoch they are of where it is not the last."""
    tensors = {name: t for index, learner in enumerate(learners) for name, t in learner.weights(index).items()}
    note = {
        "networks": len(learners),
        "epochs": epochs,
        "classes": data.classes,
        "input_shape": list(data.train.inputs.shape[1:]),
        "mean": data.mean,
        "std": data.std,
    } | ({} if kept is None else {"kept": kept.note()})
    ck.save_tensors(folder.model, tensors, note)
