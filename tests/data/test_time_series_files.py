"""Readers and writers of time series: what is written is read again, and bad files are one sentence with the line."""

import gzip

import numpy as np
import pytest

from omegamax.data.time_series_files import read_time_series, write_time_series

HEADER = "# a comment\n@problemName Toy\n@timeStamps false\n@univariate {one}\n@classLabel true a b\n@data\n"
UNIVARIATE = HEADER.format(one="true")
MULTIVARIATE = HEADER.format(one="false")


def ragged(n_channels):
    random = np.random.default_rng(0)
    return [random.normal(size=(length, n_channels)) for length in (1, 5, 3)]


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("n_channels", [1, 3])
@pytest.mark.parametrize("labels", [None, ["b", "a", "b"]])
@pytest.mark.parametrize("ending", [".ts", ".csv", ".tsv", ".npz", ".parquet"])
def test_what_is_written_is_read_again_to_the_bit(tmp_path, ending, labels, n_channels):
    if ending == ".parquet":
        pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
    path = tmp_path / f"toy{ending}"
    series = ragged(n_channels)
    write_time_series(path, series, labels)
    found = read_time_series(path)
    assert found.labels == labels
    assert [one.shape for one in found.series] == [one.shape for one in series]
    assert all((one == other).all() for one, other in zip(found.series, series))


def test_a_padded_array_is_read_as_series_of_their_own_lengths(tmp_path):
    np.save(tmp_path / "padded.npy", np.array([[1.0, 2.0, np.nan], [3.0, 4.0, 5.0]]))
    found = read_time_series(tmp_path / "padded.npy")
    assert [one.ravel().tolist() for one in found.series] == [[1, 2], [3, 4, 5]]
    assert found.labels is None


def test_channels_may_stand_before_time(tmp_path):
    array = np.arange(24.0).reshape(2, 3, 4)
    np.savez(tmp_path / "x.npz", X=array, y=np.array([1, 2]))
    found = read_time_series(tmp_path / "x.npz", channels="first")
    assert (found.series[1] == array[1].T).all()
    assert found.labels == ["1", "2"]
    assert read_time_series(tmp_path / "x.npz").series[0].shape == (3, 4)


def test_a_ts_file_by_hand(tmp_path):
    text = MULTIVARIATE + "1,2,3:4,5,6:a\n7,?:8,?:b\n"
    with gzip.open(tmp_path / "toy.ts.gz", "wt") as file:
        file.write(text)
    found = read_time_series(tmp_path / "toy.ts.gz")
    assert found.name == "Toy"
    assert found.labels == ["a", "b"]
    assert found.series[0].tolist() == [[1, 4], [2, 5], [3, 6]]
    assert found.series[1].tolist() == [[7, 8]]


@pytest.mark.parametrize("line", ["1,0.5,0.25", "1\t0.5\t0.25", "1  0.5 0.25", "1;0.5;0.25"])
def test_separators_of_the_archive(tmp_path, line):
    found = read_time_series(write(tmp_path / "x.txt", f"{line}\n\n"))
    assert found.labels == ["1"]
    assert found.series[0].ravel().tolist() == [0.5, 0.25]


def test_labels_may_be_last_or_missing(tmp_path):
    path = write(tmp_path / "x.csv", "1,2,3\n4,5,6\n")
    assert read_time_series(path, label="last").labels == ["3", "6"]
    found = read_time_series(path, label="none")
    assert found.labels is None
    assert found.series[0].ravel().tolist() == [1, 2, 3]


def test_missing_numbers_can_be_interpolated(tmp_path):
    path = write(tmp_path / "x.csv", "a,?,1,,3,?,?\n")
    assert read_time_series(path, missing="interpolate").series[0].ravel().tolist() == [1, 1, 2, 3]


BAD = {
    "text in it": ("x.ts", UNIVARIATE + "1,two,3:a\n", "line 7.*'two' in place 2"),
    "an unknown class": ("x.ts", UNIVARIATE + "1,2:c\n", "line 7.*'c'"),
    "no label": ("x.ts", UNIVARIATE + "1,2\n", "line 7.*label"),
    "unequal channels in a series": ("x.ts", MULTIVARIATE + "1,2:1,2,3:a\n", "line 7.*one length, got 2, 3"),
    "unequal channels of two series": ("x.ts", MULTIVARIATE + "1,2:3,4:a\n1,2:a\n", "line 8.*2 channels.*got 1"),
    "other channels than the header": ("x.ts", "@dimensions 3\n@data\n1,2:3,4\n", "line 3.*3 channels.*got 2"),
    "NaN in the middle": ("x.ts", UNIVARIATE + "1,2:a\n1,?,3:b\n", "line 8.*time 2 of 3 in channel 1.*interpolate"),
    "channels that end early": ("x.ts", MULTIVARIATE + "1,2:1,?:a\n", "line 7.*unequal lengths, 2, 1"),
    "an empty series": ("x.ts", UNIVARIATE + ":a\n", "line 7.*empty series"),
    "all of it missing": ("x.ts", UNIVARIATE + "?,?:a\n", "line 7.*empty series"),
    "infinity": ("x.ts", UNIVARIATE + "1,inf:a\n", "line 7.*inf"),
    "time stamps": ("x.ts", "@timeStamps true\n@data\n(0,1),(1,2)\n", "line 3.*time stamps"),
    "no @data": ("x.ts", "@problemName x\n", "@data"),
    "a series before @data": ("x.ts", "1,2\n", "line 1.*@data"),
    "no series": ("x.ts", UNIVARIATE, "at least one series"),
    "text in a table": ("x.csv", "1,2,3\n1,abc,3\n", "line 2.*'abc'"),
    "a series without numbers": ("x.csv", "1,2\n1\n", "line 2.*empty series"),
    "an empty table": ("x.csv", "\n", "empty file"),
    "long: too few columns": ("x.csv", "series,time,x\na,0\n", "line 2.*3 columns.*got 2"),
    "long: scattered series": ("x.csv", "series,x\na,0\nb,1\na,2\n", "line 4.*together"),
    "long: times that go back": ("x.csv", "series,time,x\na,1,0\na,0,1\n", "line 3.*increase"),
    "long: two labels": ("x.csv", "series,x,label\na,1,p\na,2,q\n", "line 3.*one label"),
    "long: no channels": ("x.csv", "series,time\na,1\n", "channel"),
    "an unknown ending": ("x.doc", "1", "ends in"),
    "not an array": ("x.npy", "hello", "arrays of numbers"),
    "not an archive": ("x.npz", "PK\x03\x04 hello", "save it again"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_one_sentence(tmp_path, case):
    name, text, message = BAD[case]
    path = write(tmp_path / name, text)
    with pytest.raises(ValueError, match=message) as error:
        read_time_series(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 2, 2, 2)), "shape"),
        (np.zeros(3), "shape"),
        (np.array([["a", "b"]]), "numbers"),
        (np.array([[1.0, np.nan, 2.0]]), "series 0.*time 2 of 3"),
        (np.zeros((2, 0)), "empty series"),
        (np.zeros((0, 2)), "at least one series"),
    ],
)
def test_bad_arrays_are_one_sentence(tmp_path, array, message):
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(ValueError, match=message):
        read_time_series(tmp_path / "x.npy")


def test_labels_of_another_number_are_refused(tmp_path):
    np.savez(tmp_path / "x.npz", series=np.zeros((2, 3)), labels=np.zeros(3))
    with pytest.raises(ValueError, match="one label for each of 2"):
        read_time_series(tmp_path / "x.npz")


def test_pickles_are_never_loaded(tmp_path):
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="arrays of numbers"):
        read_time_series(tmp_path / "x.npy")


def test_missing_files_are_named(tmp_path):
    for name in ("x.ts", "x.csv", "x.npy"):
        with pytest.raises(FileNotFoundError, match=name):
            read_time_series(tmp_path / name)


def test_nothing_is_written_when_the_series_are_bad(tmp_path):
    path = write(tmp_path / "x.ts", "old")
    for series, labels in [
        ([np.array([1.0, np.nan, 2.0])], None),
        ([np.zeros((2, 1)), np.zeros((2, 2))], None),
        ([np.zeros(3)], ["a", "b"]),
        ([np.zeros(3)], ["two words"]),
        ([], None),
        ([np.zeros((2, 2, 2))], None),
    ]:
        with pytest.raises(ValueError, match=r"x\.ts|write_time_series"):
            write_time_series(path, series, labels)
    assert path.read_text() == "old"


def test_choices_are_checked(tmp_path):
    path = write(tmp_path / "x.csv", "1,2\n")
    for option in ("label", "missing", "channels"):
        with pytest.raises(ValueError, match=option):
            read_time_series(path, **{option: "never"})
