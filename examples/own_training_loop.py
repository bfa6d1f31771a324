"""Your own training loop with losses, noise and views of pars.

    python examples/own_training_loop.py

Trains a small network on digits with 40 % wrong labels twice: with cross-entropy, and with a robust loss.
"""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from pars import losses, noise
from pars.augment import ViewsConfig, build_views
from pars.noise import NoiseConfig
from pars.seeds import generator

torch.manual_seed(0)
torch.set_num_threads(1)
images, labels = load_digits(return_X_y=True)
x = torch.from_numpy((images * 15).astype(np.uint8)).view(-1, 1, 8, 8)
right = torch.from_numpy(labels.astype(np.int64))
train, test = slice(0, 1300), slice(1300, None)

config = NoiseConfig(kind="symmetric", rate=0.4)
noisy = noise.apply(config, labels[train].astype(np.int64), 10, seed=0)
print(f"{noisy.record.realized_rate:.0%} of the training labels are wrong")
given = torch.from_numpy(noisy.labels)

views = build_views(
    ViewsConfig(weak="crop-flip", flip=False, pad=1), image=True, shape=(1, 8, 8), mean=(0.3,), std=(0.4,)
)


def accuracy(loss: losses.Loss, epochs: int = 30) -> float:
    """Test accuracy of a network trained with this loss."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(epochs):
        order = generator(0, "order", epoch=epoch).permutation(1300)
        for step, rows in enumerate(np.array_split(order, 13)):
            params = views.weak.draw(generator(0, "views", epoch=epoch, step=step), len(rows), (1, 8, 8))
            batch = views.finish(views.weak.apply(x[train][rows], params))
            optimizer.zero_grad()
            loss(network(batch), given[rows]).mean().backward()  # losses are per example
            optimizer.step()
    with torch.no_grad():
        return float((network(views.plain(x[test])).argmax(dim=1) == right[test]).float().mean())


for name in ("ce", "10*nce+mae"):
    print(f"{name}: {accuracy(losses.parse(name)):.1%} of the test digits")
