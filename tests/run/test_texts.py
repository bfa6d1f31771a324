"""Text networks of transformers, trained on token numbers: tiny ones with random weights, for nothing is downloaded."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import pars
from pars import audit, data, run
from pars.cli.main import main
from pars.data import DataConfig
from pars.encode import Tokenizer, text_tokenizer
from pars.engine import TrainConfig
from pars.errors import UserError
from pars.fit_folder import fit_command
from pars.methods import REGISTRY, by_name
from pars.models import ModelConfig, TextNetwork, build_model
from pars.noise import NoiseConfig
from pars.run import RunConfig

WORDS = ["miaow", "purr", "woof", "growl", "the", "a", "and", "loud", "soft", "today"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers, and a tokenizer of a few words, as transformers saves them."""
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    tokenizers = pytest.importorskip("tokenizers")
    path: Path = tmp_path_factory.mktemp("models") / "bert"
    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    library = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    library.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    library.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=library, unk_token="[UNK]", pad_token="[PAD]", model_max_length=32
    )
    fast.save_pretrained(path)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
    )
    transformers.BertModel(config).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts of cats and dogs."""
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("tables") / "texts.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["says", "animal"])
        for row in range(120):
            words = [WORDS[2 * (row % 2) + rng.integers(2)], *rng.choice(WORDS[4:], rng.integers(1, 7))]
            writer.writerow([" ".join(rng.permutation(words)), ("cat", "dog")[row % 2]])
    return path


def configuration(folder: Path, table: Path, method: str = "ce", **train: Any) -> RunConfig:
    return RunConfig(
        data=DataConfig(name=str(table), text_column="says", label_column="animal", test=str(table)),
        model=ModelConfig(name=f"hf:{folder}"),
        method=by_name(method),
        noise=NoiseConfig(kind="symmetric", rate=0.2),
        train=TrainConfig(**{"epochs": 4, "batch_size": 16, "lr": 0.1, "backbone_lr": 0.05, **train}),
    )


def test_token_numbers_are_those_of_the_library_and_as_long_as_the_longest_text(folder: Path) -> None:
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    texts = ["miaow the woof", "purr", "", "nobody says this today"]
    tokens = text_tokenizer(f"hf:{folder}").fitted(texts)(texts)
    expected = transformers.AutoTokenizer.from_pretrained(str(folder))(texts)["input_ids"]
    assert tokens.shape == (4, max(map(len, expected)))
    assert [[token for token in row if token >= 0] for row in tokens.tolist()] == expected


def test_features_are_the_mean_over_the_tokens_that_are_there(folder: Path) -> None:
    transformers = pytest.importorskip("transformers", exc_type=ImportError)
    net = build_model(ModelConfig(name=f"hf:{folder}"), (6,), 3, seed=0).eval()
    assert isinstance(net, TextNetwork)
    reference = transformers.AutoModel.from_pretrained(str(folder)).eval()
    short = torch.tensor([[2, 4, 5, 3]])
    expected = reference(input_ids=short).last_hidden_state.mean(dim=1)
    padded = torch.tensor([[2.0, 4.0, 5.0, 3.0, -1.0, -1.0]])  # floats, as the training loop has them
    assert_close(net.features(padded), expected, rtol=1e-4, atol=1e-5)
    net.train()(padded).sum().backward()
    assert all(weight.grad is not None for weight in net.parameters() if weight.requires_grad)


@pytest.mark.parametrize("method", ["ce", "pars"])
def test_a_run_trains_from_a_table_of_texts_and_predicts_new_ones(
    folder: Path, table: Path, tmp_path: Path, method: str
) -> None:
    trained = run.train_or_resume(configuration(folder, table, method), tmp_path / "run")
    assert trained.trainer is not None
    assert len(trained.trainer.history) == 4
    rows = data.read_table(table, text="says", label="animal")
    out = tmp_path / "found.csv"
    assert main(["predict", str(tmp_path / "run"), str(table), "--out", str(out)]) == 0
    classifier = run.load_run(tmp_path / "run", device="cpu")
    tokens = text_tokenizer(f"hf:{folder}", classifier.input_shape[0])(rows.texts or [])
    expected = [classifier.classes[k] for k in classifier.predict_proba(tokens).argmax(dim=1).tolist()]
    with out.open(encoding="utf-8", newline="") as file:
        assert [line["label"] for line in csv.DictReader(file)] == expected
    assert audit.audit_run(tmp_path / "run").n_labeled > 0


@pytest.mark.parametrize("method", REGISTRY)
def test_every_method_trains_on_texts_or_is_refused_before_training(folder: Path, table: Path, method: str) -> None:
    config = configuration(folder, table, method, batch_size=32, dynamics_every=0)
    if config.method.mixes_rows:
        with pytest.raises(UserError, match=r"mixes the inputs of rows \(mixup\), but rows are texts"):
            run.load_training_data(config)
        return
    trainer = run.train_or_resume(config).trainer
    assert trainer is not None
    assert len(trainer.history) == 4


def test_token_numbers_of_a_file_are_checked_and_need_a_network_of_texts(tmp_path: Path) -> None:
    x = np.array([[2, 4, 3, -1], [2, 5, 6, 3]] * 4)
    file = tmp_path / "tokens.npz"
    np.savez(file, x=x, y=[0, 1] * 4, tokens=True)
    found = data.load(DataConfig(name=str(file))).train
    assert found.is_text
    assert found.features is None
    assert (found.inputs == x).all()
    with pytest.raises(UserError, match=r"rows are texts as token numbers, expected --model\.name hf:NAME"):
        run.load_training_data(RunConfig(data=DataConfig(name=str(file)), method=by_name("ce")))
    x[3, 1] = -2
    np.savez(file, x=x, y=[0, 1] * 4, tokens=True)
    with pytest.raises(UserError, match=r"row 3, token 1 is -2, expected -1 to"):
        data.load(DataConfig(name=str(file)))
    np.savez(file, x=x / 2, y=[0, 1] * 4, tokens=True)
    with pytest.raises(UserError, match="expected whole numbers"):
        data.load(DataConfig(name=str(file)))


def test_fit_and_estimator_train_a_text_network_and_predict_texts(folder: Path, table: Path, tmp_path: Path) -> None:
    rows = data.read_table(table, text="says", label="animal")
    texts, labels = list(rows.texts or []), [rows.classes[k] for k in rows.labels]
    how: dict[str, Any] = {
        "text": "says",
        "method": "ce",
        "network": f"hf:{folder}",
        "baseline": False,
        "out": tmp_path / "fit",
    }
    result, again = (pars.fit(table, "animal", **how) for _ in range(2))
    assert again.predict(texts).tolist() == result.predict(texts).tolist()
    assert main(["predict", str(tmp_path / "fit"), str(table), "--out", str(tmp_path / "found.csv")]) == 0
    assert fit_command(tmp_path / "fit")[-2:] == ["--network", f"hf:{folder}"]
    estimator = pars.RobustClassifier("ce", network={"name": f"hf:{folder}", "size": 8, "frozen": True}, epochs=2)
    estimator.fit(texts, labels)
    assert estimator.predict(["", "miaow " * 10_000, "\ud800 woof"]).shape == (3,)
    for bad in (["miaow", None], ["miaow", 5], np.zeros((2, 3)), [b"miaow", b"woof"]):
        with pytest.raises(UserError, match=r"expected (a text|texts as in fit)"):
            estimator.predict(bad)
    assert len(estimator.audit(texts)) == len(texts)


def test_what_cannot_be_is_refused(folder: Path, table: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"expected --model\.name hf:NAME"):
        data.load(DataConfig(name=str(table), text_column="says", label_column="animal"))
    with pytest.raises(UserError, match=r"--data\.label-column"):
        data.load(DataConfig(name=str(table), text_column="says"), tokenize=lambda texts: Tokenizer(None, 1))
    with pytest.raises(UserError, match="at most 32 tokens, size is 64"):
        text_tokenizer(f"hf:{folder}", 64)
    for size in (0, -4, "big"):
        with pytest.raises(UserError, match=f"size is {size!r}, expected a number of tokens above 0"):
            text_tokenizer(f"hf:{folder}", size)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=f"X: rows are numbers, but hf:{folder} is a network of texts or images"):
        pars.RobustClassifier("ce", network=f"hf:{folder}").fit(np.eye(40), ["cat", "dog"] * 20)
    with pytest.raises(UserError, match="all 2 texts become the same 2 tokens"):
        text_tokenizer(f"hf:{folder}", 2).fitted(["miaow the", "woof"])
    with pytest.raises(UserError, match=r"no image files; expected --data\.image-column or --data\.text-column"):
        data.load(DataConfig(name=str(table), label_column="animal"))
    with pytest.raises(UserError, match="a text network is hf:NAME"):
        pars.fit(["miaow", "woof"] * 9, ["cat", "dog"] * 9, network="timm:resnet18")
    with pytest.raises(UserError, match="needs images"):
        build_model(ModelConfig(name="lite0"), (6,), 3, seed=0)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no tokenizer that can be loaded"):
        text_tokenizer(f"hf:{tmp_path / 'empty'}")
