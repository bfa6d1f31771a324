"""A network of a run: averaged weights against a loop in float64; what it has to be before it is trained; its cost per
row against the closed form: 2 operations per multiply-add, twice that again on the way back.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from numpy.testing import assert_allclose
from torch import Tensor, nn

from engine.helpers import SHORT, assert_identical, make_trainer, network, toy
from pars.engine import NetworkCost, TrainConfig, network_cost
from pars.engine.learner import Curve, Learner, check_network
from pars.errors import UserError, one_line
from pars.methods import Supervised
from pars.models import ModelConfig, build_model

ROWS = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))


class Answer(nn.Module):
    """A linear layer whose answer is changed."""

    def __init__(self, change: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.linear, self.change = nn.Linear(4, 3), change

    def forward(self, x: Tensor) -> object:
        return self.change(self.linear(x))


@pytest.mark.parametrize(
    ("module", "expected"),
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
def test_what_is_wrong_with_a_network_is_named(module: object, expected: str) -> None:
    with pytest.raises(UserError, match=expected):
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


@pytest.mark.parametrize("rows", [2, 5])
def test_linear_layers(rows: int) -> None:
    # The first layer needs the gradient of its weights only, the others that of their inputs as well.
    module = nn.Sequential(nn.Linear(7, 11), nn.ReLU(), nn.Linear(11, 3))
    first, second = 2 * 7 * 11, 2 * 11 * 3
    assert network_cost(module, torch.zeros(rows, 7)) == NetworkCost(first + second, 2 * first + 3 * second)


def test_convolutions() -> None:
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 4, 3, stride=2, padding=1),
        nn.Flatten(),
        nn.Linear(4 * 4 * 4, 5),
    )
    first, second, head = 2 * 8 * 8 * 8 * 3 * 9, 2 * 4 * 4 * 4 * 8 * 9, 2 * 64 * 5
    expected = NetworkCost(first + second + head, 2 * first + 3 * (second + head))
    assert network_cost(network, torch.zeros(2, 3, 8, 8)) == expected


def test_a_resnet_costs_what_the_literature_says() -> None:
    network = build_model(ModelConfig(name="preact_resnet18"), (3, 32, 32), 10, seed=0)
    cost = network_cost(network, torch.zeros(2, 3, 32, 32))
    assert cost.forward == pytest.approx(2 * 0.556e9, rel=0.01)  # 0.56 G multiply-adds
    assert cost.training == pytest.approx(3 * cost.forward, rel=0.01)


def test_counting_leaves_the_network_as_it_was() -> None:
    network = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).eval()
    before = copy.deepcopy(network.state_dict())
    network_cost(network, torch.randn(6, 4))
    assert_identical(network.state_dict(), before)
    assert not network.training
    assert all(p.grad is None for p in network.parameters())


def test_an_average_is_a_copy_that_is_never_trained() -> None:
    module = network()
    average = Learner(module, TrainConfig(), ROWS).net.average
    assert not average.training
    assert module.training
    assert not any(p.requires_grad for p in average.parameters())
    assert all(p.requires_grad for p in module.parameters())
    assert_identical(average.state_dict(), module.state_dict())


@pytest.mark.parametrize(("decay", "ramp"), [(0.999, False), (0.9, False), (0.0, False), (0.95, True)])
def test_averages_match_a_naive_loop_in_float64(decay: float, ramp: bool) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    learner = Learner(module, TrainConfig(lr=0.1, momentum=0.0, ema=decay, ema_ramp=ramp), ROWS)
    expected = {name: p.detach().double().numpy().copy() for name, p in module.named_parameters()}
    for t in range(60):
        for p in module.parameters():
            p.grad = torch.randn_like(p)
        module(torch.randn(8, 4))  # moves BatchNorm's buffers
        learner.update(t, Curve(0, 60, 0, 60))
        m = min(decay, (1 + t) / (10 + t)) if ramp else decay
        for name, p in module.named_parameters():
            expected[name] = m * expected[name] + (1 - m) * p.detach().double().numpy()
    average = learner.net.average
    for name, p in average.named_parameters():
        assert_allclose(p, expected[name], rtol=1e-5, atol=1e-6, err_msg=name)
    assert dict(average.named_buffers())["1.num_batches_tracked"] == 0  # they are calibrated, not averaged


def decay_at(step: int, *, ramp: bool, averaged_from: int = 0, growth: float = 0.0) -> float:
    """What is left of an average of 1 when the weights are 0."""
    learner = Learner(nn.Linear(4, 2).double(), TrainConfig(ema=0.99, ema_ramp=ramp, ema_growth=growth), ROWS.double())
    nn.init.zeros_(learner.net.module.weight)  # type: ignore[arg-type]
    nn.init.ones_(learner.net.average.weight)  # type: ignore[arg-type]
    learner.update(step, Curve(0, 2000, averaged_from, 2000))
    return float(learner.net.average.weight[0, 0])  # type: ignore[index]


def test_the_ramp_starts_low_and_never_passes_the_decay() -> None:
    decays = [decay_at(step, ramp=True) for step in (0, 1, 10, 90, 500, 1000, 1999)]
    assert decays[0] == pytest.approx(0.1)
    assert decays[3] == pytest.approx(0.91)
    assert max(decays) == decays[-1] == pytest.approx(0.99)
    assert decays == sorted(decays)
    assert decay_at(0, ramp=False) == pytest.approx(0.99)
    assert decay_at(50, ramp=True, averaged_from=50) == pytest.approx(0.1)  # it begins anew with fresh weights


def test_a_growing_decay_is_at_its_value_when_its_steps_are_over() -> None:
    """As in ELR+: m·exp(-5(1-t/1000)²) over half of 2000 steps."""
    decays = [decay_at(step, ramp=False, growth=0.5) for step in (0, 250, 500, 750, 1000, 1999)]
    expected = [0.99 * 2.718281828**exponent for exponent in (-5, -45 / 16, -5 / 4, -5 / 16, 0, 0)]
    assert_allclose(decays, expected, rtol=1e-6)
