"""Classifiers without a network through every entry point: Python, `pars fit`, `pars predict`, `pars audit`, lists."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli.helpers import one_document, pars, refused
from estimator.data import Labels, clouds, small_images
from sklearn.base import clone

from pars import RobustClassifier, fit
from pars.classic import CLASSIC, fit_classic, load_fit, save_fit
from pars.data import Dataset, Split
from pars.errors import UserError

every = pytest.mark.parametrize("name", CLASSIC)


def dataset(n: int = 150, *, wrong: float = 0.3, unlabeled: int = 9) -> tuple[Dataset, Labels]:
    x, y, true = clouds(n, wrong=wrong)
    y[:unlabeled] = -1
    return Dataset("clouds", Split(x.astype(np.float32), y), None, ("a", "b", "c")), true


@every
def test_an_estimator_fits_predicts_and_finds_wrong_labels(name: str) -> None:
    x, y, true = clouds(200, wrong=0.3)
    words = np.array(["ant", "bee", "cat"])
    model = clone(RobustClassifier(name, random_state=0)).fit(x, words[y])
    assert (model.predict(x) == words[true]).mean() > 0.95
    p = model.predict_proba(x)
    assert p.shape == (200, 3)
    assert p.dtype == np.float32
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    assert (model.history_, model.selected_checkpoint_, type(model.config_)) == ([], None, CLASSIC[name].settings)
    report = model.audit(x)
    wrong = y != true
    assert report.is_label_issue[wrong].mean() > 0.8
    assert report.is_label_issue[~wrong].mean() < 0.1


@every
def test_two_fits_are_the_same_to_the_last_bit(name: str) -> None:
    x, y, _ = clouds(120, wrong=0.3)
    first, second = (RobustClassifier(name, random_state=3).fit(x, y).predict_proba(x) for _ in range(2))
    assert first.tobytes() == second.tobytes()


@every
def test_neither_held_out_labels_nor_those_of_unlabeled_rows_are_seen(name: str) -> None:
    data, true = dataset()
    held_out = np.arange(150) % 5 == 0
    changed = np.where(held_out & (data.train.labels >= 0), (data.train.labels + 1) % 3, data.train.labels)
    fits = [
        fit_classic(name, data.with_labels(labels, true), held_out=held_out) for labels in (data.train.labels, changed)
    ]
    assert fits[0].probabilities.tobytes() == fits[1].probabilities.tobytes()


@every
def test_a_label_has_no_part_in_its_own_out_of_fold_probabilities(name: str) -> None:
    """But for the reliability of its neighbors, which is all that a nearest-neighbor vote can move by."""
    data, true = dataset(wrong=0.0, unlabeled=0)
    labels = true.copy()
    labels[7] = (labels[7] + 1) % 3
    found = fit_classic(name, data.with_labels(labels, None))
    assert found.probabilities[7].argmax() == true[7]
    assert found.probabilities[7, labels[7]] < 0.2


@every
def test_a_stored_fit_predicts_the_same(name: str, tmp_path: Path) -> None:
    data, _ = dataset()
    before = fit_classic(name, data)
    save_fit(before, tmp_path / "robust")
    after = load_fit(tmp_path / "robust")
    x = clouds(20, seed=4)[0]
    assert after.classifier.predict_proba(x).equal(before.classifier.predict_proba(x))
    assert after.settings == before.settings
    assert after.classifier.classes == ("a", "b", "c")
    for key, array in before.evidence().items():
        assert array.tobytes() == after.evidence()[key].tobytes()


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    save_fit(fit_classic("wann", dataset()[0]), tmp_path)
    file = tmp_path / "classic.safetensors"
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(UserError, match=r"classic\.safetensors is not a file written by pars, or is damaged"):
        load_fit(tmp_path)


def test_distances_may_be_those_of_the_features_as_they_are() -> None:
    """A column a thousand times larger than the others decides, unless columns are standardized."""
    x, y, true = clouds(200)
    loud = np.column_stack([x, 1000 * np.random.default_rng(0).standard_normal(200)])
    accuracy = {
        standardize: RobustClassifier("wann", method_params={"standardize": standardize}).fit(loud, y).score(loud, true)
        for standardize in (True, False)
    }
    assert accuracy[False] < 0.6 < 0.95 < accuracy[True]


@every
def test_a_fit_compares_it_with_plain_training_and_can_be_asked_later(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x, y, true = clouds(150, wrong=0.3)
    words = np.array(["ant", "bee", "cat"])
    file = tmp_path / "rows.npz"
    np.savez(file, x=x.astype(np.float32), y=words[y], classes=words, y_true=words[true])
    out = tmp_path / "out"
    for _ in range(2):  # the second time nothing is fitted, and the outcome is the same
        assert pars("fit", file, "--method", name, "--out", out, "--json") == 0
        told = one_document(capsys.readouterr().out)
        assert told["method"] == name
        assert told["clean"]["robust"] > 0.9
        assert told == json.loads((out / "fit.json").read_text())
    new = tmp_path / "new.npy"
    np.save(new, x[:9].astype(np.float32))
    capsys.readouterr()
    assert pars("predict", out, new, "--json") == 0
    assert [line["label"] for line in one_document(capsys.readouterr().out)] == words[true[:9]].tolist()
    assert pars("audit", out, "--json") == 0
    assert one_document(capsys.readouterr().out)["n_labeled"] == told["labels"]["n_labeled"]


def test_in_memory_it_says_that_costs_are_not_compared() -> None:
    x, y, _ = clouds(150, wrong=0.3)
    result = fit(x, y, method="wann")
    assert "Accuracy of wann and of plain training:" in str(result)
    assert result.predict(x[:2]).shape == (2,)


@every
def test_images_are_refused_in_one_sentence(name: str) -> None:
    images, labels = small_images()
    with pytest.raises(UserError, match=f"{name} needs feature vectors, but the rows are images: an encoder"):
        RobustClassifier(name).fit(images, labels)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"epochs": 3}, "epochs is 3, but wann has no network: expected 'auto'"),
        ({"train_params": {"lr": 1}}, "train_params is {'lr': 1}, but wann has no network"),
        ({"method_params": {"k": 3}}, "unknown key 'method.k'; wann has: k_min, k_max, standardize"),
        ({"method_params": {"k_min": "many"}}, "are no hyper-parameters of wann"),
        ({"method_params": 3}, "method_params is 3, expected a dict"),
        ({"holdout": 1.5}, "holdout: 1.5"),
    ],
)
def test_a_parameter_that_makes_no_sense_is_named(params: dict[str, object], said: str) -> None:
    x, y, _ = clouds(90)
    with pytest.raises(UserError, match=said):
        RobustClassifier("wann", **params).fit(x, y)  # type: ignore[arg-type]


@every
def test_pars_train_and_compare_name_the_right_entry_point(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for args in (("train", "--method", name), ("compare", "--methods", f"ce,{name}")):
        said = refused([*args, "--out", tmp_path / "out"], tmp_path, capsys)
        assert f"{name} is not a network trained in epochs; `pars fit DATA --method {name}`" in said


@pytest.mark.parametrize(
    ("written", "meant"), [("WANN", "wann"), ("Logistic Regression", "logistic-regression"), ("wanm", "wann")]
)
def test_another_spelling_of_a_name_finds_it(
    written: str, meant: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(["train", "--method", written, "--out", tmp_path / "out"], tmp_path, capsys)
    assert f"unknown method {written!r}; did you mean {meant!r}? {meant} is not a network trained in epochs" in said
    x, y, _ = clouds(90)
    with pytest.raises(
        UserError, match=rf"unknown method '{written}'; did you mean '{meant}'\? there are: pars, .*wann"
    ):
        RobustClassifier(written).fit(x, y)


def test_lists_name_them_with_what_they_need(capsys: pytest.CaptureFixture[str]) -> None:
    assert pars("methods", "--json") == 0
    lines = {line["name"]: line for line in one_document(capsys.readouterr().out)}
    for name in CLASSIC:
        assert lines[name]["needs"] == ["feature vectors"]
        assert lines[name]["networks"] == 0
        assert (Path(__file__).parents[2] / lines[name]["file"]).exists()
    assert pars("methods") == 0
    text = capsys.readouterr().out
    assert all(f"\n{name} " in text for name in CLASSIC)
