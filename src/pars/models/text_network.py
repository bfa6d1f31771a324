"""Text networks of transformers as backbones to be trained: `hf:NAME` for rows of token numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from pars.errors import UserError, one_line
from pars.models.backbone import Backbone
from pars.models.pretrained import hf_model


class TextNetwork(Backbone):
    """A text model of transformers (`backbone`), the mean over its tokens, and a linear `head` of our own.

    Shapes: token numbers [B, T], -1 = no token -> features [B, d] -> logits [B, K]. Numbers may be floats, as the
    training loop has them. Weights that the mean over tokens does not need, such as those of a pooler, stay as they
    are. A frozen backbone is not trained and stays in evaluation mode.
    """

    def __init__(self, model: Any, source: tuple[str, str], n_classes: int, *, frozen: bool) -> None:
        """`source`: name and weights, with which `model` was loaded."""
        super().__init__()
        self.backbone, self.source, self.frozen = model, source, frozen
        self.words = int(model.get_input_embeddings().num_embeddings)
        self.head = nn.Linear(_n_features(self), n_classes)
        if frozen:
            self.backbone.requires_grad_(False)
        self.train(self.training)

    def train(self, mode: bool = True) -> TextNetwork:
        super().train(mode)
        if self.frozen:
            self.backbone.eval()
        return self

    def features(self, x: Tensor) -> Tensor:
        tokens = x.long()
        if bool(((tokens != x) | (tokens >= self.words)).any()):
            raise UserError(
                f"model {self.source[0]} reads numbers of {self.words} tokens, got others: a table of numbers is no "
                "text, and texts cannot be mixed (mixup)"
            )
        there = tokens >= 0
        there[:, 0] = True  # a text without any token would have a mean of nothing
        hidden = self.backbone(input_ids=tokens.clamp_min(0), attention_mask=there.long()).last_hidden_state
        weight = there[:, :, None].to(hidden.dtype)
        found: Tensor = (hidden * weight).sum(dim=1) / weight.sum(dim=1)
        return found

    def restart(self) -> None:
        """Begin anew, for methods that do: with the weights it came with, and a fresh head."""
        self.backbone.load_state_dict(_load(*self.source).state_dict())
        self.head.reset_parameters()


def text_network(name: str, weights: str, input_shape: tuple[int, ...], n_classes: int, *, frozen: bool) -> TextNetwork:
    """Build a network by name; weights: "pretrained", "none", or a file."""
    model = _load(name, weights)
    most = getattr(model.config, "max_position_embeddings", None)
    if most is not None and input_shape[0] > most:
        raise UserError(f"model {name} reads texts of at most {most} tokens, these have {input_shape[0]}")
    return TextNetwork(model, (name, weights), n_classes, frozen=frozen)


def _load(name: str, weights: str) -> Any:
    prefix, _, rest = name.partition(":")
    if prefix != "hf":
        raise UserError(f"model {name} needs images [C, H, W], rows here have one axis; a network of texts is hf:NAME")
    model = hf_model(rest, weights)
    if getattr(model, "main_input_name", "") != "input_ids" or getattr(model.config, "is_encoder_decoder", False):
        raise UserError(f"{name} is a {type(model).__name__}, expected a model of texts with an encoder only")
    return model


def _n_features(net: TextNetwork) -> int:
    """Ask the network itself; parameters that its features do not depend on are not trained."""
    try:
        with torch.enable_grad():
            found = net.features(torch.zeros(1, 2))
            torch.autograd.backward(found.sum())
    except UserError:
        raise
    except Exception as error:  # whatever a library raises
        raise UserError(f"{net.source[0]} cannot read texts: {one_line(error)}") from error
    for weight in net.backbone.parameters():
        weight.requires_grad_(weight.grad is not None)
        weight.grad = None
    return int(found.shape[1])
