import errno
import io
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from crowdpipe.items_file import check_output, read_items, write_items
from wire.errors import DiskFull, InvalidInput, UserError

NAMES = ("ids", "mask")


def save(path: Path, **arrays: object) -> Path:
    np.savez(path, **arrays)
    return path


def test_a_file_with_an_array_per_input_is_one_item(tmp_path: Path) -> None:
    path = save(tmp_path / "one.npz", ids=np.zeros((1, 3)), mask=np.ones((1, 3)))
    layout, items = read_items(path, NAMES)
    assert layout == "one"
    assert [sorted(item) for item in items] == [["ids", "mask"]]


def test_numbered_items_come_in_their_order_whatever_their_shapes(tmp_path: Path) -> None:
    arrays = {f"{item}/ids": np.full((1, item + 1), item) for item in (10, 2, 0, 1, *range(3, 10))}
    layout, items = read_items(save(tmp_path / "n.npz", **arrays), NAMES)
    assert layout == "numbered"
    assert [item["ids"].shape[1] for item in items] == list(range(1, 12))


def test_a_batch_is_split_along_the_first_axis(tmp_path: Path) -> None:
    path = save(tmp_path / "b.npz", ids=np.arange(6).reshape(3, 1, 2), mask=np.ones((3, 1, 2)))
    layout, items = read_items(path, NAMES, batch=True)
    assert layout == "batch"
    assert [item["ids"].tolist() for item in items] == [[[0, 1]], [[2, 3]], [[4, 5]]]


def test_a_batch_whose_arrays_disagree_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "b.npz", ids=np.zeros((3, 1)), mask=np.zeros((2, 1)))
    with pytest.raises(InvalidInput, match="ids: 3, mask: 2"):
        read_items(path, NAMES, batch=True)


def test_a_gap_in_the_numbers_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "gap.npz", **{"0/ids": np.zeros(1), "2/ids": np.zeros(1)})
    with pytest.raises(InvalidInput, match="1 is missing"):
        read_items(path, NAMES)


def test_two_names_of_one_array_are_refused(tmp_path: Path) -> None:
    arrays = {"0/ids": np.zeros(1), "00/ids": np.ones(1), "1/ids": np.zeros(1)}
    with pytest.raises(InvalidInput, match="'ids' of item 0 is there twice, one as '00/ids'"):
        read_items(save(tmp_path / "twice.npz", **arrays), NAMES)


def test_an_array_that_is_in_the_file_twice_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "twice.npz", ids=np.zeros(1))
    with zipfile.ZipFile(path, "a") as archive, zipfile.ZipFile(path) as read:
        archive.writestr("ids", read.read("ids.npy"))
    with pytest.raises(UserError, match=r"array 'ids' is in .* twice"):
        read_items(path, NAMES)


@pytest.mark.parametrize("numbers", [(-1,), (-1, 0), (0, 1, -2)])
def test_numbers_below_zero_are_refused(tmp_path: Path, numbers: tuple[int, ...]) -> None:
    path = save(tmp_path / "below.npz", **{f"{number}/ids": np.zeros(1) for number in numbers})
    with pytest.raises(InvalidInput, match=r"'-\d/ids': items are numbered from 0"):
        read_items(path, NAMES)


def test_a_batch_of_numbered_items_is_refused_in_one_short_line(tmp_path: Path) -> None:
    path = save(tmp_path / "n.npz", **{f"{item}/ids": np.zeros((1, 2)) for item in range(40)})
    with pytest.raises(InvalidInput, match="its items are numbered; --batch is for") as refused:
        read_items(path, NAMES, batch=True)
    assert len(str(refused.value)) < 200


def test_a_batch_of_many_arrays_that_disagree_is_told_in_part(tmp_path: Path) -> None:
    path = save(tmp_path / "b.npz", **{f"in{size}": np.zeros(size) for size in range(40)})
    with pytest.raises(InvalidInput, match=r"in5: 5, and 34 more$"):
        read_items(path, NAMES, batch=True)


def test_an_output_that_cannot_be_written_is_refused_before_there_are_results(
    tmp_path: Path,
) -> None:
    for path, told in (
        (tmp_path, "is a folder; name a file in it"),
        (tmp_path / "gone" / "out.npz", "there is no folder"),
        (Path("/dev/null"), "is no ordinary file"),
        (tmp_path / ("x" * 250), "cannot write"),
        (Path("/proc/out.npz"), "cannot write"),
    ):
        with pytest.raises(UserError, match=told):
            check_output(path)


def test_looking_whether_an_output_can_be_written_changes_nothing(tmp_path: Path) -> None:
    path = save(tmp_path / "out.npz", ids=np.zeros(1))
    before = path.read_bytes()
    check_output(path)
    check_output(tmp_path / "new.npz")
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["out.npz"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_an_output_without_room_is_told_with_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "write_bytes", fail)
    monkeypatch.setattr(np.lib.format, "write_array", fail)
    with pytest.raises(DiskFull, match=f"no room left on the disk of {tmp_path}: make room"):
        check_output(tmp_path / "out.npz")
    with pytest.raises(DiskFull, match=f"no room left on the disk of {tmp_path}: make room"):
        write_items(tmp_path / "out.npz", "one", [{"y": np.zeros(2)}])
    assert list(tmp_path.iterdir()) == []


def test_an_array_without_a_number_among_numbered_ones_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "mixed.npz", **{"0/ids": np.zeros(1), "mask": np.zeros(1)})
    with pytest.raises(InvalidInput, match="'mask' has no item number"):
        read_items(path, NAMES)


def test_pickled_objects_are_refused_without_advice_to_unpickle(tmp_path: Path) -> None:
    path = save(tmp_path / "evil.npz", ids=np.array([{"a": 1}], object))
    with pytest.raises(UserError, match=r"'ids' of .* holds Python objects; save") as refused:
        read_items(path, NAMES)
    assert "allow_pickle" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"Dear model, how are you?\n", "is not an .npz file; write one with numpy.savez"),
        (pickle.dumps({"ids": 1}), "is not an .npz file; write one with numpy.savez"),
        (b"", "is empty; write one with numpy.savez"),
        (b"PK\x03\x04 and no more", "is damaged or truncated"),
    ],
    ids=["text", "pickle", "empty", "torn"],
)
def test_what_is_no_npz_file_is_refused(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "items.npz"
    path.write_bytes(content)
    with pytest.raises(UserError, match=told) as refused:
        read_items(path, NAMES)
    assert "allow_pickle" not in str(refused.value)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no file"):
        read_items(tmp_path / "gone.npz", NAMES)
    with pytest.raises(UserError, match="cannot read"):
        read_items(tmp_path, NAMES)


def test_a_single_array_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.zeros(3))
    with pytest.raises(UserError, match="single array"):
        read_items(tmp_path / "one.npy", NAMES)


def test_a_member_that_is_no_array_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "items.npz", ids=np.zeros(3))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("notes.txt", "what these are")
    with pytest.raises(UserError, match=r"'notes.txt', which is no array"):
        read_items(path, NAMES)


def test_a_header_that_claims_more_than_there_is_is_refused_before_it_is_believed(
    tmp_path: Path,
) -> None:
    header = io.BytesIO()
    lie = {"descr": "<f8", "fortran_order": False, "shape": (1 << 50,)}
    np.lib.format.write_array_header_1_0(header, lie)
    path = tmp_path / "items.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ids.npy", header.getvalue())
    with pytest.raises(UserError, match="claims 9007199254740992 bytes"):
        read_items(path, NAMES)


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.95])
def test_a_torn_file_is_refused(tmp_path: Path, keep: float) -> None:
    whole = save(tmp_path / "items.npz", ids=np.arange(99.0)).read_bytes()
    (tmp_path / "torn.npz").write_bytes(whole[: int(len(whole) * keep)])
    with pytest.raises(UserError, match="damaged or truncated"):
        read_items(tmp_path / "torn.npz", NAMES)


def test_altered_bytes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "items.npz"
    np.savez_compressed(path, ids=np.random.default_rng(1).normal(size=500))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x55
    path.write_bytes(data)
    with pytest.raises(UserError, match="damaged or truncated"):
        read_items(path, NAMES)


@pytest.mark.parametrize("layout", ["one", "numbered", "batch"])
def test_results_are_read_back_as_they_were_written(tmp_path: Path, layout: str) -> None:
    count = 1 if layout == "one" else 3
    # A name that numpy.savez itself cannot write, since it is a parameter of it.
    results = [{"file": np.full((1, 2), item, np.float32)} for item in range(count)]
    path = tmp_path / "results.npz"
    assert write_items(path, layout, results)  # type: ignore[arg-type]  # parametrised
    found, items = read_items(path, ("file",), batch=layout == "batch")
    assert found == layout
    for item, result in zip(items, results, strict=True):
        np.testing.assert_array_equal(item["file"], result["file"])


def test_a_batch_with_unequal_results_is_written_numbered(tmp_path: Path) -> None:
    results = [{"y": np.zeros(2)}, {"y": np.zeros(3)}]
    assert not write_items(tmp_path / "r.npz", "batch", results)
    assert read_items(tmp_path / "r.npz", ("y",))[0] == "numbered"


def test_strings_come_and_go_as_text(tmp_path: Path) -> None:
    path = tmp_path / "words.npz"
    write_items(path, "one", [{"words": np.array(["one", "zwei"], object)}])
    _, items = read_items(path, ("words",))
    assert items[0]["words"].dtype == object
    assert items[0]["words"].tolist() == ["one", "zwei"]


def test_results_that_cannot_be_written_leave_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "results.npz"
    write_items(path, "one", [{"y": np.zeros(2)}])
    with pytest.raises(ValueError, match="Object arrays"):
        write_items(path, "one", [{"y": np.array([(1, 2)], dtype=[("a", object), ("b", int)])}])
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["y.npy"]
    assert list(tmp_path.iterdir()) == [path]
