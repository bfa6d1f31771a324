"""A network that cannot be trained is refused before there is a run."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from engine.helpers import SHORT, make_trainer, network, toy
from pars.engine.probe import check_network, one_line
from pars.errors import UserError
from pars.methods import Supervised

ROWS = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))


class Answer(nn.Module):
    """A linear layer whose answer is changed."""

    def __init__(self, change: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.linear, self.change = nn.Linear(4, 3), change

    def forward(self, x: Tensor) -> object:
        return self.change(self.linear(x))


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (lambda x: x, r"networks\[0\] is a function, expected a torch.nn.Module"),
        (nn.LazyLinear(3), r"networks\[0\] has lazy layers without weights yet"),
        (nn.Linear(5, 3), r"networks\[0\] cannot read rows of shape \[4\]: RuntimeError: "),
        (nn.Linear(4, 2), r"returns \[2, 2\] of torch.float32 for two rows, expected float logits \[2, 3\]"),
        (nn.Sequential(nn.Linear(4, 3), nn.Flatten(0)), r"returns \[6\]"),
        (Answer(lambda x: (x, x)), r"returns a tuple, expected a tensor of logits \[2, 3\]"),
        (Answer(lambda x: x.long()), r"of torch.int64 for two rows"),
        (Answer(lambda x: x / 0), "not finite, before any training"),
        (Answer(lambda x: x.detach()), "has nothing to train"),
        (nn.Linear(4, 3).requires_grad_(False), "has nothing to train"),
    ],
)
def test_what_is_wrong_with_a_network_is_said(module: object, said: str) -> None:
    with pytest.raises(UserError, match=said):
        check_network(module, ROWS, 3, 16, "networks[0]")


def test_trying_a_network_does_not_change_it() -> None:
    module = network()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    module.eval()
    check_network(module, ROWS, 3, 16, "networks[0]")
    assert not module.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())


def test_a_batch_of_one_row_is_refused_where_a_network_cannot_train_on_one() -> None:
    check_network(network(), ROWS, 3, 2, "networks[0]")
    check_network(network(batch_norm=False), ROWS, 3, 1, "networks[0]")
    with pytest.raises(UserError, match=r"a batch would have one row, .*choose another train.batch_size"):
        check_network(network(), ROWS, 3, 1, "networks[0]")


@pytest.mark.parametrize(("rows", "batch_size"), [(6, 1), (7, 2)])
def test_a_trainer_knows_that_one_of_its_batches_has_one_row(rows: int, batch_size: int) -> None:
    with pytest.raises(UserError, match=r"train.batch_size"):
        make_trainer(Supervised(), data=toy(rows), config=type(SHORT)(epochs=1, batch_size=batch_size))
    make_trainer(Supervised(), data=toy(rows), config=type(SHORT)(epochs=1, batch_size=3)).run()


def test_a_long_message_is_one_short_line() -> None:
    assert one_line(ValueError("a\n\tb")) == "a b"
    assert len(one_line(ValueError("word\n" * 1000))) < 310
