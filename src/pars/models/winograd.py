"""Faster 3×3 convolutions on a CPU by Winograd's algorithm: winograd.cpp, compiled on first use.

The result equals a direct convolution up to rounding (about 1e-5 of the largest value in float32). FLOPs are counted as
those of a direct convolution, so that budgets and comparisons mean the same with either.
"""

from __future__ import annotations

import fcntl
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import max_pool2d
from torch.utils.flop_counter import conv_flop_count, register_flop_formula

from pars.errors import UserError

_SOURCE = Path(__file__).with_name("winograd.cpp")
_LANES = 8  # channels in one vector
_OTHERWISE = "or use --model.convolution direct, which is slower and equal up to rounding"


class WinogradConv2d(nn.Conv2d):
    """A 3×3 convolution with stride 1 and padding 1, without bias; with `pool`, followed by a 2×2 max pool.

    Falls back to a direct convolution where the kernel does not apply: another device or precision, a number of output
    channels that is not a multiple of 8, an empty batch, an empty pooled map, inside torch.func.
    Shapes: [B, C, H, W] -> [B, K, H, W], with `pool` [B, K, H//2, W//2].
    """

    def __init__(self, c_in: int, c_out: int, *, pool: bool = False) -> None:
        super().__init__(c_in, c_out, 3, padding=1, bias=False)
        self.pool, self.whole_vectors = pool, c_out % _LANES == 0
        if self.whole_vectors:
            kernel()  # compiled before training, not in its first step

    def forward(self, x: Tensor) -> Tensor:
        plain = not torch._C._are_functorch_transforms_active()  # torch.func needs gradients of gradients
        not_empty = len(x) > 0 and min(x.shape[2:]) > self.pool and x.shape[1] == self.in_channels
        supported = x.device.type == "cpu" and x.dtype == self.weight.dtype == torch.float32
        if plain and not_empty and supported and self.whole_vectors:
            found: Tensor = _Convolve.apply(x, self.weight, self.pool)  # type: ignore[no-untyped-call]
            return found
        direct = super().forward(x)
        return max_pool2d(direct, 2) if self.pool else direct


class _Convolve(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, pool: bool) -> Tensor:
        x, weight = (each.contiguous(memory_format=torch.channels_last) for each in (x, weight))
        found, *choice = kernel().convolve_pool(x, weight) if pool else (kernel().convolve(x, weight),)
        ctx.pool = pool
        ctx.save_for_backward(*choice, x, weight)
        return cast(Tensor, found)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        backward = kernel().convolve_pool_backward if ctx.pool else kernel().convolve_backward
        return *backward(gradient, *ctx.saved_tensors), None


@cache
def kernel() -> Any:
    """Return the compiled functions. Compiling takes about a minute; torch caches the result on disk."""
    from torch.utils import cpp_extension  # searches for compilers on import

    x86 = platform.machine().lower() in ("x86_64", "amd64")
    if x86 and torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        raise UserError(f"Winograd convolutions need a processor with AVX2; {_OTHERWISE}")
    try:
        flags = ["-O3", "-fopenmp", *(["-mavx2", "-mfma"] if x86 else [])]
        folder = Path(cpp_extension._get_build_directory("pars_winograd", verbose=False))
        with (folder / "pars.lock").open("w") as own, _path_of_python():
            # Torch's own lock is a file that a killed process leaves behind: the next one would wait for ever. Who
            # holds this one, which the system frees, knows that nobody else is compiling.
            fcntl.flock(own, fcntl.LOCK_EX)
            (folder / "lock").unlink(missing_ok=True)
            cpp_extension.load("pars_winograd", [str(_SOURCE)], extra_cflags=flags, is_python_module=False)
    except (RuntimeError, OSError, ImportError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            f"Winograd convolutions cannot be compiled ({reason}): they need a C++ compiler and ninja "
            f"(pip install ninja); {_OTHERWISE}"
        ) from error
    functions = torch.ops.pars_winograd
    register_flop_formula([functions.convolve, functions.convolve_pool])(_forward_flop)
    register_flop_formula([functions.convolve_backward, functions.convolve_pool_backward])(_backward_flop)
    return functions


@contextmanager
def _path_of_python() -> Iterator[None]:
    """Add the folder of Python to PATH: ninja is installed there, and the environment may not be activated."""
    before = os.environ.get("PATH", os.defpath)
    os.environ["PATH"] = os.pathsep.join((before, str(Path(sys.executable).parent)))
    try:
        yield
    finally:
        os.environ["PATH"] = before


def _forward_flop(x: torch.Size, weight: torch.Size, **_: Any) -> int:
    return int(conv_flop_count(list(x), list(weight), [x[0], weight[0], *x[2:]]))


def _backward_flop(*shapes: torch.Size, **_: Any) -> int:
    return 2 * _forward_flop(*shapes[-2:])
