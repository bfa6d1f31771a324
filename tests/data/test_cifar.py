from __future__ import annotations

import io
import os
import pickle
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from data.fakes import ROWS, described, fake_cifar, md5
from pars.data.cifar import CIFAR10, cifar10, cifar100, read_cifar
from pars.errors import UserError


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("fine", [False, True])
def test_rows_keep_the_order_of_the_files(tmp_path: Path, fine: bool, binary: bool) -> None:
    cifar, firsts = fake_cifar(tmp_path, fine=fine, binary=binary)
    data = read_cifar(cifar, tmp_path, download=False)
    layout = cifar.layouts[0]
    assert data.train.inputs.shape == (ROWS * len(layout.train), 3, 32, 32)
    assert data.train.inputs.dtype == np.uint8
    assert data.test is not None
    for split, files in ((data.train, layout.train), (data.test, layout.test)):
        for i, file in enumerate(files):
            label, image = firsts[file.name]
            assert split.labels[i * ROWS] == label
            assert split.inputs[i * ROWS].tobytes() == image  # red, green, blue planes, row by row: already [3, 32, 32]
    np.testing.assert_array_equal(data.train.labels, data.train.true_labels)
    assert data.train.labels is not data.train.true_labels
    assert data.classes == tuple(f"class{c}" for c in range(100 if fine else 10))


def test_normalization_is_that_of_the_lnl_papers(tmp_path: Path) -> None:
    for fine, mean, std in (
        (False, (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
        (True, (0.507, 0.487, 0.441), (0.267, 0.256, 0.276)),
    ):
        cifar, _ = fake_cifar(tmp_path, fine=fine)
        data = read_cifar(cifar, tmp_path, download=False)
        assert (data.mean, data.std) == (mean, std)


def test_missing_batch_is_named(tmp_path: Path) -> None:
    cifar, _ = fake_cifar(tmp_path)
    (tmp_path / "cifar-10-batches-py" / "data_batch_3").unlink()
    with pytest.raises(UserError, match=r"cifar10: data_batch_3 is missing"):
        read_cifar(cifar, tmp_path, download=False)


def test_wrong_md5_is_named_with_both_sums(tmp_path: Path) -> None:
    cifar, _ = fake_cifar(tmp_path)
    path = tmp_path / "cifar-10-batches-py" / "data_batch_2"
    expected = md5(path)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(UserError, match=rf"data_batch_2 .* has MD5 {md5(path)}, expected {expected}"):
        read_cifar(cifar, tmp_path, download=False)


def test_the_public_door_accepts_published_files_only(tmp_path: Path) -> None:
    fake_cifar(tmp_path)
    with pytest.raises(UserError, match=r"data_batch_1 .*expected c99cafc152244af753f735de768cd75f"):
        cifar10(tmp_path, download=False)
    fake_cifar(tmp_path, fine=True)
    with pytest.raises(UserError, match=r"train .*expected 16019d7e3df5f24257cddd939b257f8d"):
        cifar100(tmp_path, download=False)


def test_short_binary_file_says_how_many_bytes(tmp_path: Path) -> None:
    cifar, _ = fake_cifar(tmp_path, binary=True)
    path = tmp_path / "cifar-10-batches-bin" / "data_batch_4.bin"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match=r"data_batch_4.bin is 61 360 bytes, expected 61 460; the download was cut off"):
        read_cifar(cifar, tmp_path, download=False)


def test_label_out_of_range_in_a_binary_file(tmp_path: Path) -> None:
    cifar, _ = fake_cifar(tmp_path, binary=True)
    folder = tmp_path / "cifar-10-batches-bin"
    data = bytearray((folder / "data_batch_1.bin").read_bytes())
    data[3 * 3073] = 200
    (folder / "data_batch_1.bin").write_bytes(data)
    forged = replace(cifar, layouts=(described(cifar.layouts[0], folder),))  # so that its MD5 is the expected one
    with pytest.raises(UserError, match=r"data_batch_1.bin .*row 3 is 200, expected 0\.\.9"):
        read_cifar(forged, tmp_path, download=False)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({b"labels": [0] * ROWS}, "no uint8 images"),
        ({b"data": np.zeros((ROWS, 3071), np.uint8), b"labels": [0] * ROWS}, "no uint8 images"),
        ({b"data": np.zeros((ROWS, 3072), np.uint8)}, "no list of class numbers"),
        ({b"data": np.zeros((ROWS, 3072), np.uint8), b"labels": [10] * ROWS}, "no list of class numbers"),
        ({b"data": np.zeros((ROWS, 3072), np.uint8), b"labels": [0] * (ROWS - 1)}, "one label per row"),
    ],
)
def test_batch_of_another_form_is_an_error(tmp_path: Path, content: dict[bytes, object], message: str) -> None:
    cifar, _ = fake_cifar(tmp_path)
    folder = tmp_path / "cifar-10-batches-py"
    (folder / "test_batch").write_bytes(pickle.dumps(content, protocol=2))
    forged = replace(cifar, layouts=(described(cifar.layouts[0], folder),))
    with pytest.raises(UserError, match=rf"test_batch.*{message}"):
        read_cifar(forged, tmp_path, download=False)


def test_too_few_class_names(tmp_path: Path) -> None:
    cifar, _ = fake_cifar(tmp_path, binary=True)
    folder = tmp_path / "cifar-10-batches-bin"
    (folder / "batches.meta.txt").write_text("one\ntwo\n")
    forged = replace(cifar, layouts=(described(cifar.layouts[0], folder),))
    with pytest.raises(UserError, match=r"2 class names, expected 10"):
        read_cifar(forged, tmp_path, download=False)


def test_nothing_there_and_no_download_says_where_to_put_it(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"cifar10: not found.*cifar-10-batches-py or .*place cifar-10-python.tar.gz in"
    ):
        cifar10(tmp_path, download=False)


def test_archive_placed_by_hand_is_unpacked_and_kept(tmp_path: Path) -> None:
    cifar, _ = fake_cifar(tmp_path / "made")
    layout = cifar.layouts[0]
    root = tmp_path / "root"
    root.mkdir()
    archive = root / layout.archive
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "made" / layout.folder, layout.folder)
        extra = tarfile.TarInfo("../escaped")
        extra.size = 1
        tar.addfile(extra, io.BytesIO(b"x"))
    cifar = replace(cifar, layouts=(replace(layout, archive_md5=md5(archive)),))
    data = read_cifar(cifar, root, download=False)
    assert len(data.train) == 5 * ROWS
    assert archive.exists()
    assert not (tmp_path / "escaped").exists()
    (root / layout.folder / "test_batch").unlink()  # as if the extraction had been interrupted
    assert read_cifar(cifar, root, download=False).test is not None


def test_an_empty_folder_of_one_layout_does_not_hide_the_other(tmp_path: Path) -> None:
    binary, _ = fake_cifar(tmp_path, binary=True)
    (tmp_path / "cifar-10-batches-py").mkdir()
    both = replace(binary, layouts=(CIFAR10.layouts[0], *binary.layouts))
    assert len(read_cifar(both, tmp_path, download=False).train) == 5 * ROWS


def test_archive_placed_by_hand_with_another_md5_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(b"half a download")
    with pytest.raises(
        UserError, match=r"cifar-10-python.tar.gz \(15 bytes\) has MD5 .*expected c58f30108f718f92721af3b95e74349a"
    ):
        cifar10(tmp_path, download=False)
    assert not (tmp_path / "cifar-10-batches-py").exists()


def real_root() -> Path:
    root = os.environ.get("PARS_DATA")
    if not root or not (Path(root) / "cifar-10-batches-py").is_dir():
        pytest.skip("PARS_DATA names no folder with cifar-10-batches-py: the real CIFAR-10 was NOT read")
    return Path(root)


def test_real_cifar10_equals_what_plain_pickle_reads() -> None:
    root = real_root()
    data = cifar10(root, download=False)
    assert data.test is not None
    for i in range(1, 6):
        with (root / "cifar-10-batches-py" / f"data_batch_{i}").open("rb") as file:
            batch = pickle.load(file, encoding="bytes")
        rows = slice((i - 1) * 10_000, i * 10_000)
        np.testing.assert_array_equal(data.train.labels[rows], batch[b"labels"])
        np.testing.assert_array_equal(data.train.inputs[rows].reshape(-1, 3072), batch[b"data"])
    assert data.classes[3:6] == ("cat", "deer", "dog")
    assert np.bincount(data.test.labels).tolist() == [1000] * 10


def test_real_cifar10_rewritten_as_binary_has_the_binary_files_md5s(tmp_path: Path) -> None:
    data = cifar10(real_root(), download=False)
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    assert data.test is not None
    for file, split, start in (("data_batch_1.bin", data.train, 0), ("test_batch.bin", data.test, 0)):
        rows = slice(start, start + 10_000)
        labels = split.labels[rows].astype(np.uint8)[:, None]
        (folder / file).write_bytes(np.concatenate([labels, split.inputs[rows].reshape(-1, 3072)], axis=1).tobytes())
    published = CIFAR10.layouts[1]
    assert md5(folder / "data_batch_1.bin") == published.train[0].md5
    assert md5(folder / "test_batch.bin") == published.test[0].md5
