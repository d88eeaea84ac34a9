"""The command `omegamax timeseries`: results, files, pictures, and refusals in one sentence."""

import json
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the estimators need scikit-learn")

from omegamax import timeseries
from omegamax.data.time_series_files import read_time_series, write_time_series


def shapes(n_each=3, seed=0):
    random = np.random.default_rng(seed)
    series, labels = [], []
    for label, clean in (("up", np.linspace(0, 3, 9)), ("down", np.linspace(3, 0, 8))):
        for _ in range(n_each):
            series.append((clean + 0.1 * random.normal(size=len(clean)))[:, None])
            labels.append(label)
    return series, labels


@pytest.fixture
def train(tmp_path):
    write_time_series(tmp_path / "train.ts", *shapes())
    return tmp_path / "train.ts"


@pytest.fixture
def test(tmp_path):
    write_time_series(tmp_path / "test.csv", *shapes(2, seed=1))
    return tmp_path / "test.csv"


@pytest.mark.slow
def test_distances(command, train, test, tmp_path):
    code, out, err = command("timeseries", "distance", train, test, "--json", "--window", "50%")
    assert (code, err) == (0, "")
    x, y = shapes()[0], shapes(2, seed=1)[0]
    wanted = timeseries.cdist(x, y, window=0.5)
    assert json.loads(out)["distances"] == wanted.tolist()
    for name in ("d.npy", "d.csv", "d.png"):
        code, out, err = command("timeseries", "distance", train, "--out", tmp_path / name, "--distance", "soft_dtw")
        assert (code, err) == (0, "")
        assert "6 x 6 distances" in out and name in out
    matrix = timeseries.cdist(x, distance="soft_dtw")
    assert (np.load(tmp_path / "d.npy") == matrix).all()
    assert (np.loadtxt(tmp_path / "d.csv", delimiter=",") == matrix).all()
    assert (tmp_path / "d.png").read_bytes().startswith(b"\x89PNG")
    code, out, err = command("timeseries", "distance", train, "--tree", "--out", tmp_path / "tree.svg")
    assert (code, err) == (0, "") and (tmp_path / "tree.svg").exists()
    assert len(command("timeseries", "distance", train)[1].splitlines()) == 9


def test_neighbours(command, train, test, tmp_path):
    code, out, err = command("timeseries", "neighbours", test, train, "--neighbours", 2, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    wanted = timeseries.nearest(shapes(2, seed=1)[0], shapes()[0], n_neighbors=2)
    assert found["indices"] == wanted.indices.tolist() and found["distances"] == wanted.distances.tolist()
    assert found["pruned"]["pairs"] == 24
    assert command("timeseries", "neighbours", test, train, "--out", tmp_path / "near.csv")[0] == 0
    lines = (tmp_path / "near.csv").read_text().splitlines()
    assert lines[0] == "query,rank,reference,distance" and len(lines) == 5
    assert "distances were computed to the end" in command("timeseries", "neighbours", test, train)[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--window", "learned"],
        ["--method", "centroid", "--gamma", "0.1"],
        ["--method", "centroid", "--distance", "soft_dtw_divergence"],
        ["--method", "svm", "--gamma", "0.1"],
        ["--neighbours", "3", "--distance", "sparse_dtw"],
    ],
)
def test_classes(command, train, test, tmp_path, options):
    code, out, err = command("timeseries", "classify", train, test, "--json", *options)
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["error"] == 0 and found["classes"] == ["up", "up", "down", "down"]
    assert ("window" in found) == ("learned" in options)
    code, out, err = command("timeseries", "classify", train, test, "--out", tmp_path / "c.csv", *options)
    assert (code, err) == (0, "") and "error 0.0000: 0 of 4 series are wrong" in out
    assert (tmp_path / "c.csv").read_text().splitlines()[1] == "0,up,up"


def test_series_without_labels_are_classified(command, train, tmp_path):
    write_time_series(tmp_path / "new.npz", shapes(1, seed=5)[0])
    assert command("timeseries", "classify", train, tmp_path / "new.npz")[1] == "0\tup\n1\tdown\n"


@pytest.mark.slow
def test_clusters(command, train, tmp_path):
    arguments = ("timeseries", "cluster", train, "--clusters", 2, "--gamma", 0.1)
    code, out, err = command(*arguments, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert sorted(found["sizes"]) == [3, 3] and len(set(found["clusters"][:3])) == 1
    for name in ("clusters.csv", "clusters.pdf"):
        code, out, err = command(*arguments, "--out", tmp_path / name)
        assert (code, err) == (0, "") and "inertia" in out
    assert (tmp_path / "clusters.csv").read_text().splitlines()[0] == "series,cluster"


@pytest.mark.slow
def test_means(command, train, tmp_path):
    arguments = ("timeseries", "barycenter", train, "--gamma", 0.1)
    code, out, err = command(*arguments, "--by-label", "--out", tmp_path / "means.ts", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)["barycenters"]
    assert [(each["label"], each["n"], len(each["series"])) for each in found] == [("up", 3, 9), ("down", 3, 8)]
    written = read_time_series(tmp_path / "means.ts")
    assert written.labels == ["up", "down"] and written.series[0].tolist() == found[0]["series"]
    assert command(*arguments, "--length", 5, "--out", tmp_path / "mean.png")[0] == 0
    assert command(*arguments, "--by-label", "--out", tmp_path / "means.png")[0] == 0
    code, _, err = command("timeseries", "barycenter", train, "--distance", "euclidean")
    assert code == 2 and "one length" in err


@pytest.mark.slow
def test_alignments(command, train, test, tmp_path):
    code, out, err = command("timeseries", "align", train, 0, 3, "--json")
    assert (code, err) == (0, "")
    series = shapes()[0]
    assert json.loads(out)["distance"] == timeseries.dtw(series[0], series[3])
    assert json.loads(out)["path"][0] == [0, 0] and json.loads(out)["path"][-1] == [8, 7]
    code, out, err = command("timeseries", "align", train, 0, 1, "--other", test, "--out", tmp_path / "a.png")
    assert (code, err) == (0, "") and "path of" in out
    assert command("timeseries", "align", train, 0, 1, "--out", tmp_path / "a.csv")[0] == 0


BAD = {
    "no such file": (["distance", "nowhere.ts"], "nowhere.ts"),
    "text in a file": (["distance", "text.csv"], "line 1.*'b'|text.csv, line 1"),
    "an empty file": (["cluster", "empty.csv"], "empty file"),
    "a bad window": (["distance", "train.ts", "--window", "-3"], "--window"),
    "a window beyond one": (["distance", "train.ts", "--window", "2.5"], "fraction"),
    "an unknown distance": (["distance", "train.ts", "--distance", "dwt"], "did you mean dtw"),
    "an unknown ending": (["distance", "train.ts", "--out", "x.doc"], "x.doc must end in"),
    "a file that is there": (["distance", "train.ts", "--out", "train.npy"], "--overwrite"),
    "a tree of two files": (["distance", "train.ts", "train.ts", "--tree", "--out", "x.png"], "--tree"),
    "a tree without a picture": (["distance", "train.ts", "--tree", "--out", "x.csv"], "--tree"),
    "too many neighbours": (["neighbours", "train.ts", "train.ts", "--neighbours", "99"], "at most the 6 series"),
    "too many clusters": (["cluster", "train.ts", "--clusters", "99"], "fewer clusters"),
    "a series beyond the last": (["align", "train.ts", "0", "6"], "0 to 5, got 6"),
    "unequal lengths": (["distance", "train.ts", "--distance", "euclidean"], "one length"),
    "a window of centroids": (
        ["classify", "train.ts", "train.ts", "--method", "centroid", "--window", "3"],
        "--window",
    ),
    "no labels": (["classify", "plain.npy", "train.ts"], "no labels"),
    "other channels": (["neighbours", "train.ts", "two.npy"], "channels"),
    "no command": ([], "command"),
}


@pytest.mark.parametrize("case", BAD)
def test_mistakes_get_one_sentence_and_nothing_is_written(command, train, tmp_path, monkeypatch, case):
    import re

    arguments, message = BAD[case]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.csv").write_text("a,b,c\n")
    (tmp_path / "empty.csv").write_text("")
    np.save("train.npy", np.zeros((2, 3)))
    np.save("plain.npy", np.zeros((2, 3)))
    np.save("two.npy", np.zeros((2, 3, 2)))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    code, out, err = command("timeseries", *arguments)
    assert (code, out) == (2, "")
    assert re.search(message, err), err
    assert err.count("\n") == 1
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.slow
def test_help_loads_nothing_heavy():
    script = (
        "import sys\n"
        "from omegamax import cli\n"
        "for arguments in (['--help'], ['timeseries', '--help'], ['timeseries', 'classify', '--help']):\n"
        "    try:\n"
        "        cli.main(arguments)\n"
        "    except SystemExit:\n"
        "        pass\n"
        "assert not {'torch', 'sklearn', 'scipy', 'numpy', 'matplotlib'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
