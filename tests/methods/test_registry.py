"""Methods by name: each trains."""

from __future__ import annotations

import math

import pytest
import torch
from engine.helpers import Recorder, make_trainer, toy
from numpy.testing import assert_allclose

from methods.reference import make_step, random_labels, random_logits
from pars.engine import TrainConfig
from pars.errors import UserError
from pars.method_api import Setting, Task
from pars.methods import PARS, REGISTRY, PARSPaper, Supervised, by_name, recipe


@pytest.mark.parametrize("name", REGISTRY)
def test_every_method_trains_on_any_rows(name: str) -> None:
    seen = Recorder()
    data = toy(unlabeled=12)
    trainer = make_trainer(by_name(name), data=data, config=TrainConfig(epochs=2, batch_size=16, lr=0.1), callback=seen)
    before = [{key: t.clone() for key, t in net.module.state_dict().items()} for net in trainer.nets]
    trainer.run()
    assert len(seen.lines) == 2
    assert all(math.isfinite(value) for line in seen.lines for value in line["losses"].values())
    for net, old in zip(trainer.nets, before, strict=True):
        assert all(tensor.isfinite().all() for tensor in net.module.state_dict().values())
        assert any(not torch.equal(old[key], t) for key, t in net.module.state_dict().items())


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(
        UserError, match=r"unknown method 'parz'; did you mean 'pars'\? there are: .*pars, pars-paper, pars-fast, ce"
    ):
        by_name("parz")


ROWS = {  # of the tables in papers: what there is under that name
    "Cross-Entropy": ["ce"],
    "Bootstrap": ["bootstrap-soft", "bootstrap-hard"],
    "F-correction": ["f-correction"],
    "Forward": ["f-correction"],
    "Backward": ["b-correction"],
    "S-adaptation": ["noise-adaptation"],
    "C-adaptation": ["noise-adaptation-complex"],
    "Reweight-R": ["t-revision"],
    "T-Revision": ["t-revision"],
    "IMAE": ["imae"],
    "JNPL": ["jnpl"],
    "NLNL": ["nlnl"],
    "UNICON": ["unicon"],
    "ProMix": ["promix"],
    "Co-teaching": ["co-teaching"],
    "Co-teaching+": ["co-teaching-plus"],
    "Mixup": ["mixup"],
    "P-correction": ["pencil"],
    "Meta-Learning": ["mlnt"],
    "M-correction": ["m-correction"],
    "Joint-Optim": ["joint-optim"],
    "ELR+": ["elr+"],
    "DivideMix": ["dividemix"],
    "DivideMix+": ["dividemix+"],
    "DM-AugDesc-WS-WAW": ["augdesc-ws-waw"],
    "DM-AugDesc-WS-SAW": ["augdesc-ws-saw"],
    "AugDesc-WS": ["augdesc-ws"],
    "AugDesc-WS+": ["augdesc-ws+"],
    "FixMatch": ["fixmatch"],
    "PARS": ["pars"],
}


@pytest.mark.parametrize("row", ROWS)
def test_a_papers_name_for_a_method_finds_it(row: str) -> None:
    meant = " or ".join(map(repr, ROWS[row]))
    with pytest.raises(UserError) as error:
        by_name(row)
    assert str(error.value).startswith(f"unknown method {row!r}; did you mean {meant}? there are: ")


def test_no_alias_is_the_name_of_another_method() -> None:
    for entry in REGISTRY.values():
        for alias in entry.aliases:
            assert REGISTRY.get(alias.lower(), entry) is entry


def test_names_mean_what_they_say() -> None:
    assert by_name("ce") == Supervised(loss="ce")
    assert by_name("warmup", Setting("cifar100")) == Supervised(loss="10*nce+mae")
    assert by_name("pars") == PARS()
    assert by_name("pars-paper", Setting("cifar10")) == PARSPaper(warm_up=25)


def test_cross_entropy_of_table_1_has_a_schedule_of_its_own() -> None:
    """SGD at 0.1, a tenth of it after 30, 80 and 110 of 120 epochs; `ce` has that of PARS."""
    own, plain = recipe("ce-dividemix", Setting("cifar10")), recipe("ce", Setting("cifar10"))
    assert own.build() == plain.build() == by_name("ce-dividemix") == Supervised(loss="ce")
    assert not plain.train
    assert [share * own.train["epochs"].value for share in own.train["milestones"].value] == pytest.approx(
        [30, 80, 110]
    )
    assert (own.train["lr"].value, own.train["weight_decay"].value) == (0.1, 1e-4)


def test_supervised_training_minimizes_the_mean_loss_on_given_labels() -> None:
    logits, labels = random_logits(5), random_labels(5)
    (stage,) = Supervised(loss="ce").stages(Task(n_rows=5, n_classes=4, labels=labels, epochs=7))
    step = make_step(logits, labels)
    losses = stage.step(step)
    p = logits["raw/weak"].detach().double().softmax(1)
    assert (stage.epochs, stage.draws) == (7, {})
    assert_allclose(losses["raw"].item(), -sum(math.log(p[i, y]) for i, y in enumerate(labels.tolist())) / 5, rtol=1e-5)
    assert torch.equal(step.selections["raw"].selected, p.amax(1) > 0.95)
    assert (step.net.forwards, step.net.backwards) == (0, 5)


def test_supervised_training_with_an_unknown_loss_is_refused() -> None:
    with pytest.raises(UserError, match="no loss 'cee'"):
        Supervised(loss="cee").stages(Task(n_rows=1, n_classes=2, labels=torch.tensor([0]), epochs=1))


@pytest.mark.parametrize("tau", [2.0, -0.1, math.nan])
def test_supervised_training_refuses_a_threshold_that_is_no_probability(tau: float) -> None:
    with pytest.raises(UserError, match=r"method\.tau is .*, expected a number from 0 to 1"):
        Supervised(tau=tau)
