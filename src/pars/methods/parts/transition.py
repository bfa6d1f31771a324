"""The noise transition matrix T, T_ij = P(given label j | true class i): estimated from anchors, and what it implies.

A T that is not known is read off a network trained on the given labels: what it predicts for a row that surely is of
class i, an anchor, is row i of T (Patrini et al. 2017). A network that has memorized its labels would say T = I, so the
predictions are averaged over the epochs of a short first stage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pars.lazy import torch
from pars.losses import cross_entropy, reduce
from pars.method_api import Epoch, Losses, State, Step

if TYPE_CHECKING:
    from torch import Tensor

LARGEST_CONDITION = 1e3  # of T: beyond, two classes are labeled so much alike that no loss can tell them apart


def initial_estimate(n_rows: int, n_classes: int) -> State:
    """Return the state before the estimate: T = I, and no predictions yet."""
    return {"transition": torch.eye(n_classes), "predictions": torch.zeros(n_rows, n_classes)}


def estimation_step(step: Step, *, averaging: float) -> Losses:
    """Cross-entropy on the given labels, and a memory of what is predicted meanwhile; `averaging` is its momentum."""
    rows, labels = step.batch.rows, step.batch.labels
    logits = step.net(step.batch.weak)
    seen = logits.detach().float().softmax(dim=1)
    step.state["predictions"][rows] = averaging * step.state["predictions"][rows] + (1 - averaging) * seen
    step.record_selection("agrees", step.batch, logits, logits.argmax(dim=1) == labels)
    return {"ce": reduce.mean(cross_entropy(logits, labels))}


def estimate_transition(epoch: Epoch, *, outliers: float) -> None:
    """Estimate T from the stored predictions of labeled rows, into `state["transition"]`; it stays as it is if that
    leaves two classes alike.
    """
    predictions = epoch.state["predictions"][epoch.labeled]
    predictions = predictions[predictions.sum(dim=1) > 0]  # rows that the first stage came to see
    transition = anchored(predictions / predictions.sum(dim=1, keepdim=True), outliers)
    if condition(transition) <= LARGEST_CONDITION:
        epoch.state["transition"] = transition
    else:
        epoch.note(kept_last_split=1.0)
    kept = epoch.state["transition"].diagonal()
    epoch.note(labels_right=float(kept.mean()), labels_right_least=float(kept.min()))


def anchored(predictions: Tensor, outliers: float) -> Tensor:
    """Return T whose row i is the prediction for the row surest of class i, but for the surest few. [m, K] -> [K, K].

    >>> p = torch.tensor([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8], [0.5, 0.5]])
    >>> anchored(p, 0.0), anchored(p, 0.25)
    (tensor([[0.9000, 0.1000],
            [0.2000, 0.8000]]), tensor([[0.7000, 0.3000],
            [0.5000, 0.5000]]))
    """
    rows = []
    for column in predictions.unbind(dim=1):  # a copy where some are passed over: other classes' rows keep theirs
        limit = torch.quantile(column, 1 - outliers) if outliers else column.max() + 1
        below = column.where(column < limit, -1.0)
        rows.append(predictions[(below if (below >= 0).any() else column).argmax()])
    transition = torch.stack(rows).clamp_min(1e-8)  # a label that is never given would have no finite loss
    return transition / transition.sum(dim=1, keepdim=True)


def condition(transition: Tensor) -> float:
    """Return the condition number of T [K, K]; infinite if two classes are labeled alike."""
    return float(torch.linalg.cond(transition.double()))


def log_joint(logits: Tensor, labels: Tensor, log_transition: Tensor) -> Tensor:
    """Return log P(true class i and given label y) = log p_i + log T_iy.

    Shapes: [B, K], [B], and [K, K] or, where each row has its own T, [B, K, K] -> [B, K].
    Its log-sum-exp over i is the forward-corrected log-likelihood; in logarithms T = I is exactly cross-entropy.

    >>> T = torch.tensor([[0.8, 0.2], [0.4, 0.6]])
    >>> log_joint(torch.zeros(1, 2), torch.tensor([1]), T.log()).exp()
    tensor([[0.1000, 0.3000]])
    """
    log_p = logits.float().log_softmax(dim=1)
    if log_transition.ndim == 3:
        return log_p + log_transition.gather(2, labels[:, None, None].expand(-1, log_p.shape[1], 1))[:, :, 0]
    return log_p + log_transition.T[labels]
