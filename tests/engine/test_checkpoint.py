"""Tensors on disk come out as they went in; a checkpoint is used only if all of it fits its run."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest
import torch
from privileges import unreadable
from safetensors.torch import save_file
from torch import nn

from engine.helpers import assert_identical
from pars.engine import TrainConfig
from pars.engine.checkpoint import (
    check_state,
    load_module,
    load_optimizer,
    load_tensors,
    read_position,
    save_tensors,
    with_prefix,
)
from pars.engine.evaluation import COUNTS
from pars.engine.learner import Curve, Learner
from pars.errors import UserError

TENSORS = {
    "float": torch.randn(3, 4, generator=torch.Generator().manual_seed(0)),
    "double": torch.tensor(1 / 3, dtype=torch.float64),
    "half": torch.tensor([1.5, -2], dtype=torch.bfloat16),
    "rows": torch.arange(5),
    "mask": torch.tensor([True, False]),
    "special": torch.tensor([float("nan"), float("inf"), -0.0]),
    "channels_last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "transposed": torch.arange(6).reshape(2, 3).T,
    "empty": torch.zeros(0, 3),
}


def test_tensors_and_note_survive_a_round_trip(tmp_path: Path) -> None:
    note = {"epoch": 3, "step": 17, "classes": ["Katze", "犬"], "mean": [0.1], "work": [[1, 2]]}
    save_tensors(tmp_path / "x.safetensors", TENSORS, note)
    tensors, found = load_tensors(tmp_path / "x.safetensors")
    assert found == note
    assert tensors["special"].isnan().tolist() == [True, False, False]
    assert tensors["special"].signbit()[2]
    assert_identical(without(tensors, "special"), without(TENSORS, "special"))
    assert [path.name for path in tmp_path.iterdir()] == ["x.safetensors"]


def named(prefix: str, module: nn.Module) -> dict[str, torch.Tensor]:
    return {f"{prefix}{name}": tensor for name, tensor in module.state_dict().items()}


def without(tensors: dict[str, torch.Tensor], name: str) -> dict[str, torch.Tensor]:
    return {key: tensor for key, tensor in tensors.items() if key != name}


def test_tensors_that_share_memory_are_written_each_by_itself(tmp_path: Path) -> None:
    whole = torch.arange(6.0)
    aliases = {"a": whole, "b": whole, "part": whole[2:4], "view": whole.view(2, 3)}
    save_tensors(tmp_path / "x", aliases, {})
    assert_identical(load_tensors(tmp_path / "x")[0], aliases)


def test_a_network_with_tied_weights_survives_a_round_trip(tmp_path: Path) -> None:
    def tied() -> nn.Sequential:
        first, last = nn.Linear(3, 3), nn.Linear(3, 3)
        last.weight = first.weight
        return nn.Sequential(first, nn.ReLU(), last)

    module, other = tied(), tied()
    save_tensors(tmp_path / "x", named("raw.0.", module), {})
    load_module("raw.0.", other, load_tensors(tmp_path / "x")[0], tmp_path / "x")
    assert_identical(module.state_dict(), other.state_dict())


def test_a_loaded_file_may_be_replaced_while_its_tensors_are_in_use(tmp_path: Path) -> None:
    path = tmp_path / "x"
    save_tensors(path, {"a": torch.arange(1000.0)}, {})
    loaded = load_tensors(path)[0]["a"]
    loaded += 1  # in place, as an optimizer does
    save_tensors(path, {"a": torch.zeros(1000)}, {})
    assert torch.equal(loaded, torch.arange(1000.0) + 1)
    assert torch.equal(load_tensors(path)[0]["a"], torch.zeros(1000))


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing is missing"):
        load_tensors(tmp_path / "nothing")


def test_a_file_that_may_not_be_read_is_not_called_missing() -> None:
    with unreadable("x.safetensors", b"") as path, pytest.raises(PermissionError) as caught:
        load_tensors(path)
    assert caught.value.filename == str(path)


def test_others_may_read_a_file_as_they_may_any_other(tmp_path: Path) -> None:
    save_tensors(tmp_path / "x", {"a": torch.zeros(1)}, {})
    (tmp_path / "plain").touch()
    assert (tmp_path / "x").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("kept", [0, 1, 7, 8, 50, 0.5, -1])
def test_a_truncated_file_is_called_damaged(tmp_path: Path, kept: float) -> None:
    path = tmp_path / "x"
    save_tensors(path, TENSORS, {})
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole)) if kept == 0.5 else int(kept)])
    with pytest.raises(UserError, match="not a file written by pars, or is damaged"):
        load_tensors(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"PK\x03\x04 this is a zip file, or a pickle in one" * 10)
    with pytest.raises(UserError, match="not a file written by pars"):
        load_tensors(path)
    save_file({"a": torch.zeros(2)}, path)  # safetensors, but without our note
    with pytest.raises(UserError, match="not a file written by pars"):
        load_tensors(path)
    for note in ("{no json", "[1, 2]", "null", "3", "[" * 100_000):
        save_file({"a": torch.zeros(2)}, path, metadata={"pars": note})
        with pytest.raises(UserError, match="not a file written by pars"):
            load_tensors(path)
    with pytest.raises(UserError, match="not a file written by pars"):
        load_tensors(tmp_path)  # a folder


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    tensors = named("raw.0.", nn.Linear(3, 2))
    with pytest.raises(UserError, match=r"(?s)where does not fit the network of its configuration.*size mismatch"):
        load_module("raw.0.", nn.Linear(4, 2), tensors, Path("where"))
    with pytest.raises(UserError, match="does not fit the network") as caught:
        load_module("raw.1.", nn.Linear(3, 2), tensors, Path("where"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("changes", [{"momentum": 0.0}, {"momentum": 0.9}, {"optimizer": "adam"}])
def test_a_restored_optimizer_takes_the_same_steps(changes: dict[str, Any]) -> None:
    def make() -> Learner:
        torch.manual_seed(0)
        return Learner(nn.Linear(3, 2), TrainConfig(lr=0.1, ema=0.9, **changes), torch.zeros(2, 3))

    def step(learner: Learner, n: int) -> None:
        for index in range(n):
            torch.autograd.backward(learner.net.module(torch.full((2, 3), index + 1.0)).square().mean())
            learner.update(index, Curve(0, 3, 0, 3))

    straight, resumed = make(), make()
    step(straight, 3)
    saved = {name: tensor.clone() for name, tensor in straight.tensors(0).items()}
    resumed.load(0, saved, (0, 0, 0), Path("where"))
    step(straight, 3)
    step(resumed, 3)
    assert_identical(resumed.tensors(0), straight.tensors(0))
    state = [name for name in saved if name.startswith("optimizer.0.")]
    assert len(state) == (6 if "optimizer" in changes else 2 if changes["momentum"] else 0)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("0.momentum_buffer", (3, 2)),
        ("7.momentum_buffer", (2, 3)),
        ("x.momentum_buffer", (2, 3)),
        ("0.lr", (2, 3)),
        ("0", ()),
    ],
)
def test_the_state_of_another_optimizer_is_refused(name: str, shape: tuple[int, ...]) -> None:
    optimizer = torch.optim.SGD(nn.Linear(3, 2).parameters(), lr=0.1, momentum=0.9)
    with pytest.raises(UserError, match=rf"where does not fit the optimizer of its configuration: o.{name} has"):
        load_optimizer("o.", optimizer, {f"o.{name}": torch.zeros(shape)}, Path("where"))


def test_prefixes_do_not_mix() -> None:
    tensors = {"raw.1.a": torch.zeros(1), "raw.10.a": torch.ones(1), "state.raw.1.a": torch.ones(2)}
    assert_identical(with_prefix("raw.1.", tensors, "cpu"), {"a": torch.zeros(1)})


def test_a_disk_that_is_full_for_tensors_is_reported_and_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    save_tensors(path, {"a": torch.arange(3)}, {"epoch": 1})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))  # the kernel refuses larger files
    try:
        with pytest.raises(UserError, match=r"no space left to write .*checkpoint\.safetensors"):
            save_tensors(path, {"a": torch.zeros(10_000)}, {"epoch": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    tensors, note = load_tensors(path)
    assert note == {"epoch": 1}
    assert_identical(tensors, {"a": torch.arange(3)})
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint.safetensors"]


METER = {"loss/raw": torch.tensor(1.0), "loss/steps": torch.tensor(2.0), "selection/raw": torch.zeros(len(COUNTS))}
NOTE = {"epoch": 1, "step": 2, "work": [[3, 40, 5]], "meter": ["loss/steps", "selection/raw", "loss/raw"]} | {
    "spent": {"warm-up": 5e9}
}
WHERE = Path("run/checkpoint.safetensors")


def test_a_note_that_fits_is_read() -> None:
    at = read_position(NOTE, METER, WHERE, epochs=4, steps=3, networks=1)
    assert (at.epoch, at.step, at.work) == (1, 2, ((3, 40, 5),))
    assert at.spent == {"warm-up": 5e9}
    assert list(at.meter) == NOTE["meter"]
    end = read_position(NOTE | {"epoch": 4, "step": 0, "meter": []}, {}, WHERE, epochs=4, steps=3, networks=1)
    assert (end.epoch, end.step) == (4, 0)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"epoch": -1}, "epoch is -1, expected 0 to 4"),
        ({"epoch": 5}, "epoch is 5, expected 0 to 4"),
        ({"epoch": 1.0}, "epoch is 1.0"),
        ({"epoch": True}, "epoch is True"),
        ({"epoch": "1"}, "epoch is '1'"),
        ({"epoch": None}, "epoch is None"),
        ({"step": -1}, "step is -1, expected 0 to 3"),
        ({"step": 4}, "step is 4, expected 0 to 3"),
        ({"epoch": 4}, "step is 2, expected 0 to 0"),
        ({"work": []}, r"work is \[\], expected three counts for each of 1"),
        ({"work": [[1, 2, 0], [3, 4, 0]]}, "expected three counts"),
        ({"work": [[1, 2]]}, "expected three counts"),
        ({"work": [[1, -2, 0]]}, "expected counts of at least 0"),
        ({"work": 3}, "work is 3"),
        ({"spent": {}}, "spent is {}, expected the FLOP of each stage"),
        ({"spent": {"main": -1.0}}, "expected the FLOP of each stage"),
        ({"spent": [1.0]}, "expected the FLOP of each stage"),
        ({"meter": ["loss/raw"]}, "expected the names of its sums: loss/raw, loss/steps, selection/raw"),
        ({"meter": [1, 2, 3]}, "expected the names of its sums"),
        ({"meter": {}}, "expected the names of its sums"),
    ],
)
def test_a_note_that_does_not_fit_is_named(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(UserError, match=rf"checkpoint.safetensors does not fit its run: .*{expected}"):
        read_position(NOTE | changes, METER, WHERE, epochs=4, steps=3, networks=1)


@pytest.mark.parametrize("key", NOTE)
def test_a_note_without_a_key_is_of_another_version(key: str) -> None:
    note = {name: value for name, value in NOTE.items() if name != key}
    with pytest.raises(UserError, match=f"not a checkpoint of this version: no {key}"):
        read_position(note, METER, WHERE, epochs=4, steps=3, networks=1)


@pytest.mark.parametrize("name", ["loss/raw", "selection/raw"])
def test_sums_of_another_shape_are_refused(name: str) -> None:
    with pytest.raises(UserError, match=rf"{name} has shape \[3\]"):
        read_position(NOTE, METER | {name: torch.zeros(3)}, WHERE, epochs=4, steps=3, networks=1)


def test_an_epoch_under_way_has_sums() -> None:
    with pytest.raises(UserError, match="the sums of the current epoch"):
        read_position(NOTE | {"meter": []}, {}, WHERE, epochs=4, steps=3, networks=1)


@pytest.mark.parametrize("found", [{}, {"seen": torch.zeros(3)}, {"seen": torch.zeros(4, dtype=torch.int64)}])
def test_row_state_has_to_fit_the_method(found: dict[str, torch.Tensor]) -> None:
    with pytest.raises(UserError, match=r"state seen is .*, expected \[3\] torch.int64"):
        check_state(found, {"seen": torch.zeros(3, dtype=torch.int64)}, WHERE)
    check_state(
        {"seen": torch.zeros(3, dtype=torch.int64), "more": torch.ones(1)}, {"seen": torch.ones(3).long()}, WHERE
    )
