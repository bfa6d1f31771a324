"""3×3 convolutions in less time on a CPU, by Winograd's algorithm: winograd.cpp, compiled when it is asked for.

The result is that of a direct convolution up to rounding (some 1e-5 of the largest value in float32). FLOP are counted
as a direct convolution's, so that budgets and comparisons mean the same with either.
"""

from __future__ import annotations

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

SOURCE = Path(__file__).with_name("winograd.cpp")
LANES = 8  # channels are taken so many at a time
OTHERWISE = "or train with --model.convolution direct, which gives the same up to rounding and takes longer"


class WinogradConv2d(nn.Conv2d):
    """A 3×3 convolution with stride 1 and padding 1, no bias; with `pool` the largest of each 2×2 outputs is kept.

    Where the kernel does not serve (another device or precision, numbers of outputs that 8 does not divide, no rows,
    nothing left by pooling, inside torch.func) it is a direct one.
    Shapes: [B, C, H, W] -> [B, K, H, W], with `pool` [B, K, H//2, W//2].
    """

    def __init__(self, c_in: int, c_out: int, *, pool: bool = False) -> None:
        super().__init__(c_in, c_out, 3, padding=1, bias=False)
        self.pool, self.whole = pool, c_out % LANES == 0
        if self.whole:
            kernel()  # compiled before training, not in its first step

    def forward(self, x: Tensor) -> Tensor:
        plain = not torch._C._are_functorch_transforms_active()  # that wants gradients of gradients
        fitting = len(x) > 0 and min(x.shape[2:]) > self.pool and x.shape[1] == self.in_channels
        served = x.device.type == "cpu" and x.dtype == self.weight.dtype == torch.float32
        if plain and fitting and served and self.whole:
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
    """The compiled functions. torch keeps what it has compiled in its cache: only the first time takes a minute."""
    from torch.utils import cpp_extension  # looks for compilers when it is imported

    x86 = platform.machine().lower() in ("x86_64", "amd64")
    if x86 and torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        raise UserError(f"Winograd convolutions need a processor with AVX2, which this is not; {OTHERWISE}")
    try:
        flags = ["-O3", "-fopenmp", *(["-mavx2", "-mfma"] if x86 else [])]
        with programs_beside_python():
            cpp_extension.load("pars_winograd", [str(SOURCE)], extra_cflags=flags, is_python_module=False)
    except (RuntimeError, OSError, ImportError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            f"Winograd convolutions could not be compiled ({reason}): they need a C++ compiler and ninja "
            f"(pip install ninja); {OTHERWISE}"
        ) from error
    functions = torch.ops.pars_winograd
    register_flop_formula([functions.convolve, functions.convolve_pool])(_forward_flop)
    register_flop_formula([functions.convolve_backward, functions.convolve_pool_backward])(_backward_flop)
    return functions


@contextmanager
def programs_beside_python() -> Iterator[None]:
    """ninja is installed beside Python, which is not on the path unless its environment is activated."""
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
