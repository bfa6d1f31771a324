"""The training loop as it is usually written: a data loader with Pillow views, the forwards apart, Python-loop EMA."""

from __future__ import annotations

import copy
import time

import numpy as np
import torch
from pillow_views import Pixels, pillow_strong, pillow_weak, to_tensor
from torch import Tensor, optim
from torch.utils.data import DataLoader, Dataset, RandomSampler

from pars import data, models, run
from pars.data import Labels
from pars.losses import class_balance, negative_learning, parse, positive_learning
from pars.methods.pars import PARS


class Images(Dataset[tuple[Tensor, ...]]):
    """What a data loader's worker does for one row."""

    def __init__(self, inputs: Pixels, labels: Labels, strong: bool) -> None:
        self.images, self.labels, self.strong = inputs.transpose(0, 2, 3, 1).copy(), labels, strong

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, row: int) -> tuple[Tensor, ...]:
        weak = to_tensor(pillow_weak(self.images[row]))
        strong = to_tensor(pillow_strong(self.images[row])) if self.strong else weak
        return weak, strong, torch.tensor(self.labels[row])


class Straightforward:
    """The loop as it is usually written."""

    def __init__(self, config: run.RunConfig, dataset: data.Dataset) -> None:
        assert isinstance(config.method, PARS)
        self.method, self.train, self.n_classes = config.method, config.train, dataset.n_classes
        self.net = models.build_model(config.model, (3, 32, 32), self.n_classes, seed=0).train()
        self.average = copy.deepcopy(self.net).eval()
        self.optimizer = optim.SGD(
            self.net.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True, foreach=False
        )
        inputs, labels, size = np.asarray(dataset.train.inputs, np.uint8), dataset.train.labels, config.train.batch_size
        self.loaders = loader(inputs, labels, size, strong=False), loader(inputs, labels, 3 * size, strong=True)

    def steps(self, n: int, *, first: int, joint: bool) -> float:
        """Seconds of n steps, after `first` that fill the loaders' queues (or empty them, if those are what is slow).

        The worker processes live for one call: idle ones would go on filling their queues while others are timed.
        """
        labeled, unlabeled = map(iter, self.loaders)
        for _ in range(first):
            self.step(next(labeled), next(unlabeled), joint=joint)
        began = time.perf_counter()
        for _ in range(n):
            self.step(next(labeled), next(unlabeled), joint=joint)
        return time.perf_counter() - began

    def forward(self, weak: Tensor, weak_u: Tensor, strong_u: Tensor, joint: bool) -> tuple[Tensor, Tensor, Tensor]:
        if joint:
            logits: Tensor = self.net(torch.cat([weak, weak_u, strong_u]))
            raw, guess, student = torch.split(logits, [len(weak), len(weak_u), len(strong_u)])
            return raw, guess, student
        return self.net(weak), self.net(weak_u), self.net(strong_u)

    def step(self, labeled: list[Tensor], unlabeled: list[Tensor], *, joint: bool) -> None:
        m = self.method
        (weak, _, labels), (weak_u, strong_u, _) = labeled, unlabeled
        raw, guess, student = self.forward(weak, weak_u, strong_u, joint)
        guess = guess.detach().softmax(dim=1)
        sure = raw.softmax(dim=1).amax(dim=1) > m.tau
        loss = parse(m.robust)(raw, labels).mean()
        loss = loss + m.lambda_N * self.subset_mean(negative_learning(raw, self.other(labels)), ~sure)
        confidence, z = guess.max(dim=1)
        sure = confidence > m.tau
        loss = loss + m.lambda_S * self.subset_mean(positive_learning(student, z), sure)
        loss = loss + m.lambda_S * m.lambda_N * self.subset_mean(negative_learning(student, self.other(z)), ~sure)
        loss = loss + m.lambda_R * class_balance(student.softmax(dim=1).mean(dim=0))
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        with torch.no_grad():
            for kept, current in zip(self.average.parameters(), self.net.parameters(), strict=True):
                kept.mul_(self.train.ema).add_(current, alpha=1 - self.train.ema)
            for buffer, now in zip(self.average.buffers(), self.net.buffers(), strict=True):
                buffer.copy_(now)

    def subset_mean(self, values: Tensor, subset: Tensor) -> Tensor:
        return (values * subset).sum() / max(subset.sum().item(), self.method.min_share * len(values), 1)

    def other(self, labels: Tensor) -> Tensor:
        return (labels + torch.randint(1, self.n_classes, labels.shape)) % self.n_classes


def loader(inputs: Pixels, labels: Labels, batch: int, *, strong: bool) -> DataLoader[tuple[Tensor, ...]]:
    """Rows drawn at random, without end. Two workers: this is written for machines with two cores."""
    rows = Images(inputs, labels, strong)
    return DataLoader(rows, batch, sampler=RandomSampler(rows, replacement=True, num_samples=10**7), num_workers=2)
