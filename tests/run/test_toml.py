"""Configuration files: what is written is read back, and a mistake is named."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import pytest
import tomli_w

from pars.engine import TrainConfig
from pars.errors import UserError
from pars.methods import PARS, REGISTRY, PARSFast, Supervised, by_name
from pars.methods.f_correction import LossCorrection
from pars.noise import NoiseConfig
from pars.run import PRESETS, RunConfig, preset, toml
from run.helpers import SYMMETRIC

METHODS = {type(method): method for method in map(by_name, REGISTRY)}
CLASSES = [type(getattr(RunConfig(), f.name)) for f in dataclasses.fields(RunConfig)]
CLASSES = [RunConfig, *METHODS, *(c for c in CLASSES if dataclasses.is_dataclass(c) and c not in METHODS)]


def written_and_read(config: RunConfig, folder: Path) -> RunConfig:
    path = folder / "config.toml"
    path.write_text(tomli_w.dumps(toml.to_dict(config)), encoding="utf-8")
    return toml.read(path, RunConfig())


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("rate", [0.2, 0.9])
def test_every_recipe_is_read_back(name: str, rate: float, tmp_path: Path) -> None:
    for method in (None, *REGISTRY):
        config = preset(name)(NoiseConfig(kind="symmetric", rate=rate), method)
        assert written_and_read(config, tmp_path) == config, method


def optional(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_a_field_that_may_be_none_is_none_by_default(kind: Any) -> None:
    """TOML has no null: none is written by leaving the field out, and so has to be what a reader assumes."""
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        if optional(hints[field.name]):
            assert field.default is None, f"{kind.__name__}.{field.name}"


def other_values(hint: Any, value: Any) -> Iterator[Any]:
    """Values of the annotated type that differ from `value`; some of them may be refused."""
    origin, options = get_origin(hint), get_args(hint)
    if optional(hint):
        yield from other_values(options[0], 1)
    elif origin is Literal:
        yield from (option for option in options if option != value)
    elif origin is tuple:
        yield from ((7, 5), (0.5, 0.75), (3, 2, 1), (5, 4, 3, 2, 1), (0.5, 0.5, 0.25, 0.75))
    elif hint is bool:
        yield not value
    elif hint is int:
        yield from (v for v in (7, 2) if v != value)
    elif hint is float:
        yield from (v for v in (0.25, 7e-05) if v != value)
    elif hint is str:
        yield from (v for v in ('a "quoted" \\ name\n', "gce(q=0.5)") if v != value)
    else:
        raise AssertionError(f"what is another {hint}?")


METHOD_BASES = [
    *(RunConfig(method=by_name(name)) for name in REGISTRY),
    RunConfig(method=PARSFast(agreement_start=0.5)),
    RunConfig(method=LossCorrection(transition="symmetric", noise_rate=0.3)),
    RunConfig(method=LossCorrection(transition="matrix", matrix=(1.0, 0.0, 0.0, 1.0))),
]
BASES = [RunConfig(noise=SYMMETRIC), RunConfig(noise=NoiseConfig(kind="file", path="x.npy")), *METHOD_BASES]


def changed(base: RunConfig, room: str | None, name: str, hint: Any, value: Any) -> RunConfig | None:
    """`base` with another value in one field; none where no other value goes together with the rest."""
    for other in other_values(hint, value):
        try:
            changes = {name: other}
            if room is not None:
                inner: Any = getattr(base, room)
                changes = {room: dataclasses.replace(inner, **changes)}
            config = dataclasses.replace(base, **changes)
        except UserError:
            continue
        if config != base:  # noise of a rate is symmetric by default
            return config
    return None


def test_no_field_is_forgotten(tmp_path: Path) -> None:
    kept: dict[str, bool] = {}
    for base in BASES:
        rooms = {f.name: getattr(base, f.name) for f in dataclasses.fields(base)}
        tables = [(None, base), *((name, room) for name, room in rooms.items() if dataclasses.is_dataclass(room))]
        if base in METHOD_BASES:  # of the others, it differs in its method only
            tables = [("method", base.method)]
        for room, table in tables:
            hints = typing.get_type_hints(type(table))
            for field in dataclasses.fields(table):
                value = getattr(table, field.name)
                if dataclasses.is_dataclass(value):
                    continue
                config = changed(base, room, field.name, hints[field.name], value)
                key = f"{type(table).__name__}.{field.name}"
                kept.setdefault(key, False)
                if config is not None:
                    assert written_and_read(config, tmp_path) == config, key
                    kept[key] = True
    assert [key for key, tried in kept.items() if not tried] == []


def read(text: str, folder: Path, base: RunConfig | None = None) -> RunConfig:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return toml.read(path, RunConfig() if base is None else base)


def test_a_file_changes_only_what_it_names(tmp_path: Path) -> None:
    base = RunConfig(train=TrainConfig(epochs=7, lr=0.5), method=PARS(tau=0.8, mu=2.0), seed=4)
    config = read("[train]\nepochs = 9\n[method]\ntau = 0.9\n", tmp_path, base)
    assert config == RunConfig(train=TrainConfig(epochs=9, lr=0.5), method=PARS(tau=0.9, mu=2.0), seed=4)
    assert read("", tmp_path, base) == base


def test_a_file_may_choose_another_method(tmp_path: Path) -> None:
    config = read('[method]\nkind = "Supervised"\nloss = "gce"\n', tmp_path, RunConfig(method=PARS(tau=0.8)))
    assert config.method == Supervised(loss="gce")  # and nothing of the other's


def test_a_rate_without_a_kind_is_symmetric_noise(tmp_path: Path) -> None:
    assert read("[noise]\nrate = 0.5\n", tmp_path).noise == NoiseConfig(kind="symmetric", rate=0.5)
    assert read("[noise]\nkind = 'pair'\nrate = 0.5\n", tmp_path).noise.kind == "pair"
    pair = RunConfig(noise=NoiseConfig(kind="pair", rate=0.2))
    assert read("[noise]\nrate = 0.5\n", tmp_path, pair).noise == NoiseConfig(kind="pair", rate=0.5)
    for text, base in (("kind = 'none'\nrate = 0.5", None), ("rate = 0.5", RunConfig(noise=NoiseConfig(kind="none")))):
        with pytest.raises(UserError, match=r"mine.toml: noise.rate = 0.5 contradicts noise.kind = 'none'"):
            read(f"[noise]\n{text}\n", tmp_path, base)


def test_a_whole_number_will_do_for_a_number(tmp_path: Path) -> None:
    config = read("[train]\nlr = 1\n", tmp_path)
    assert config.train.lr == 1.0
    assert type(config.train.lr) is float


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[train]\nepoch = 3\n", "unknown key 'train.epoch'; did you mean 'epochs'?"),
        ("[trian]\nepochs = 3\n", "unknown key 'trian'; did you mean 'train'?"),
        ("[method]\nlambda_s = 1\n", "unknown key 'method.lambda_s'; did you mean 'lambda_"),
        ("zzz = 1\n", "unknown key 'zzz'; there are: data, device, "),
        ('[train]\nepochs = "3"\n', "train.epochs is '3', expected a whole number"),
        ("[train]\nepochs = 3.0\n", "train.epochs is 3.0, expected a whole number"),
        ("[train]\nepochs = true\n", "train.epochs is True, expected a whole number"),
        ("[train]\nlr = true\n", "train.lr is True, expected a number"),
        ("[train]\nnesterov = 1\n", "train.nesterov is 1, expected true or false"),
        ("[train]\nsteps_per_epoch = 'x'\n", "train.steps_per_epoch is 'x', expected a whole number"),
        ("[data]\nname = 3\n", "data.name is 3, expected a text"),
        ("[model]\nhidden = 256\n", "model.hidden is 256, expected a list of a whole number"),
        ("[model]\nhidden = [256, 1.5]\n", "model.hidden is 1.5, expected a whole number"),
        ("[noise]\nkind = 'symetric'\n", "noise.kind is 'symetric', expected one of 'auto', 'none', 'symmetric'"),
        ("[views]\nflip = 'yes'\n", "views.flip is 'yes', expected true or false"),
        ("device = ['cpu']\n", "device is ['cpu'], expected one of 'auto', 'cpu', 'cuda'"),
        ("train = 3\n", "train is 3, expected a table [train]"),
        ("method = 'pars'\n", "method is 'pars', expected a table [method]"),
        ("[method]\nkind = 'pars'\n", "method.kind is 'pars'; there are: "),
        ("[method]\nkind = 'Pars'\n", "method.kind is 'Pars'; "),
        ("[method]\nkind = ['PARS']\n", "method.kind is ['PARS']; "),
        ("[train]\nepochs = 0\n", "train.epochs is 0, expected at least 1"),
        ("[train]\nlr = nan\n", "train.lr is nan"),
        ("[noise]\nkind = 'symmetric'\nrate = 2\n", "noise.rate must be between 0 and 1, not 2.0"),
        ("[method]\ntau = 2\n", "method.tau is 2.0, expected a number from 0 to 1"),
        ("[data\n", "is not valid TOML: "),
        ("x = " + "[" * 100_000, "is not valid TOML: "),
        ("[train]\nlr = 1" + 400 * "0" + "\n", "train.lr is a whole number of 401 digits, expected a number"),
        ("seed = 1" + 5000 * "0" + "\n", "is not valid TOML: "),
        ("[data]\nname = 'a'\nname = 'b'\n", "is not valid TOML: "),
    ],
)
def test_a_mistake_is_named_with_its_file_and_key(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        read(text, tmp_path)
    message = str(caught.value)
    assert message.startswith(str(tmp_path / "mine.toml"))
    assert words in message


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nope.toml does not exist"):
        toml.read(tmp_path / "nope.toml", RunConfig())
    with pytest.raises(UserError, match=r"cannot be read: .*[Dd]irectory"):
        toml.read(tmp_path, RunConfig())
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b"[data]\nname = '\xe9'\n")
    with pytest.raises(UserError, match=r"latin.toml cannot be read: .*utf-8"):
        toml.read(latin, RunConfig())
