"""Matrices in blocks, condensed, in files and in processes are the same numbers as those of single pairs."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from omegamax import timeseries as ts
from omegamax.timeseries import matrix as matrix_module


@pytest.fixture
def series():
    return np.random.default_rng(0).normal(size=(23, 9))


def test_blocks_make_the_whole(series):
    whole = ts.cdist(series)
    for block in (1, 5, 23, 100):
        assert np.array_equal(ts.cdist(series, block=block), whole)
        assert np.array_equal(ts.cdist(series, series[:7], block=block), whole[:, :7])
    assert np.array_equal(whole, whole.T)


@pytest.mark.parametrize("distance", ["dtw", "soft_dtw", "soft_dtw_divergence"])
def test_condensed_is_the_upper_triangle(series, distance):
    whole = ts.cdist(series, distance=distance)
    for block in (4, 100):
        assert np.array_equal(
            ts.cdist(series, distance=distance, condensed=True, block=block), whole[np.triu_indices(23, 1)]
        )
    with pytest.raises(ValueError, match="condensed must be False for two lists"):
        ts.cdist(series, series, condensed=True)


def test_types(series):
    assert ts.cdist(series, dtype="float32").dtype == np.float32
    np.testing.assert_allclose(ts.cdist(series, dtype="float32"), ts.cdist(series), rtol=1e-5, atol=1e-5)
    tensor = ts.cdist(torch.from_numpy(series))
    assert isinstance(tensor, torch.Tensor) and np.array_equal(tensor.numpy(), ts.cdist(series))
    assert ts.cdist(series.astype(np.float32)).dtype == np.float32
    with pytest.raises(ValueError, match='dtype must be "float32" or "float64"'):
        ts.cdist(series, dtype="float16")


def test_few_series():
    assert ts.cdist([]).shape == (0, 0)
    assert ts.cdist([[1.0, 2.0]], []).shape == (1, 0)
    assert ts.cdist([[1.0, 2.0]], condensed=True).shape == (0,)
    assert ts.cdist([[1.0, 2.0]]).tolist() == [[0.0]]


def test_a_file(series, tmp_path):
    out = tmp_path / "m.npy"
    found = ts.cdist(series, out=out, block=6)
    assert isinstance(found, np.memmap) and np.array_equal(np.load(out), ts.cdist(series))
    assert [path.name for path in tmp_path.iterdir()] == ["m.npy"]
    with pytest.raises(ValueError, match=r"m\.npy, which exists; say overwrite=True"):
        ts.cdist(series, out=out)
    assert ts.cdist(series[:3], out=out, overwrite=True).shape == (3, 3)
    with pytest.raises(ValueError, match=r"must be the name of a \.npy file, got 'm\.csv'"):
        ts.cdist(series, out=tmp_path / "m.csv")
    with pytest.raises(ValueError, match="folder of out must exist"):
        ts.cdist(series, out=tmp_path / "none" / "m.npy")


def stop_after(monkeypatch, n):
    """Ends the computation after n blocks, and counts those that are computed."""
    calls = []
    compute = matrix_module.compute_block

    def counted(*arguments):
        if len(calls) == n:
            raise KeyboardInterrupt
        calls.append(1)
        return compute(*arguments)

    monkeypatch.setattr(matrix_module, "compute_block", counted)
    monkeypatch.setattr(matrix_module, "_SECONDS", -1.0)  # note every block
    return calls


def test_a_file_is_continued(series, tmp_path, monkeypatch):
    out, n_blocks = tmp_path / "m.npy", 10
    with monkeypatch.context() as patch:
        stop_after(patch, 4)
        with pytest.raises(KeyboardInterrupt):
            ts.cdist(series, out=out, block=6)
    for other in ({"window": 2}, {"dtype": "float32"}, {"block": 7}):
        with pytest.raises(ValueError, match="begun with other series or options, and is not finished"):
            ts.cdist(series, out=out, **{"block": 6, **other})
    changed = series.copy()
    changed[0, 0] += 1
    with pytest.raises(ValueError, match="begun with other series"):
        ts.cdist(changed, out=out, block=6)
    with monkeypatch.context() as patch:
        calls = stop_after(patch, 100)
        found = ts.cdist(series, out=out, block=6)
    assert len(calls) == n_blocks - 4
    assert np.array_equal(found, ts.cdist(series))


def test_a_damaged_note_begins_again(series, tmp_path, monkeypatch):
    out = tmp_path / "m.npy"
    with monkeypatch.context() as patch:
        stop_after(patch, 4)
        with pytest.raises(KeyboardInterrupt):
            ts.cdist(series, out=out, block=6)
    (tmp_path / "m.npy.done").write_bytes(b"\1")
    assert np.array_equal(ts.cdist(series, out=out, block=6), ts.cdist(series))


KILLED = """
import os, sys, numpy as np
from omegamax import timeseries as ts
from omegamax.timeseries import matrix
compute, left = matrix.compute_block, [3]
def counted(*arguments):
    left[0] -= 1
    if left[0] < 0:
        os._exit(9)
    return compute(*arguments)
matrix.compute_block, matrix._SECONDS = counted, -1.0
ts.cdist(np.random.default_rng(0).normal(size=(23, 9)), out=sys.argv[1], block=6)
"""


@pytest.mark.slow
def test_a_killed_process_is_continued(series, tmp_path):
    out = tmp_path / "m.npy"
    ended = subprocess.run([sys.executable, "-c", KILLED, str(out)], check=False)
    assert ended.returncode == 9
    assert json.loads((tmp_path / "m.npy.begun.json").read_text())["n_blocks"] == 10
    assert (tmp_path / "m.npy.done").read_bytes() == b"\1\1\1" + b"\0" * 7
    assert np.array_equal(ts.cdist(series, out=out, block=6), ts.cdist(series))


def test_a_matrix_that_does_not_fit(series, tmp_path, monkeypatch):
    monkeypatch.setattr(matrix_module, "_free_memory", lambda: 1000)
    with pytest.raises(ValueError, match=r"23 × 23 float64 takes 0.0 GB, but 0.0 GB are free; write it to a file"):
        ts.cdist(series)
    assert ts.cdist(series, out=tmp_path / "m.npy").shape == (23, 23)


@pytest.mark.slow
def test_processes(series):
    joblib = pytest.importorskip("joblib")
    with joblib.parallel_config(backend="threading"):
        assert np.array_equal(ts.cdist(series, n_jobs=2, block=6), ts.cdist(series))
    assert np.array_equal(ts.cdist(series, distance="edit", n_jobs=2, block=12), ts.cdist(series, distance="edit"))


def test_a_bar(series, capsys):
    pytest.importorskip("tqdm")
    ts.cdist(series, progress=True, block=6)
    assert "distances: 100%" in capsys.readouterr().err


def test_dask_blocks(series):
    pytest.importorskip("dask.array")
    for options in ({}, {"distance": "soft_dtw", "gamma": 0.5}):
        lazy = ts.dask_cdist(series, block=10, **options)
        assert lazy.chunks == ((10, 10, 3), (10, 10, 3))
        assert np.array_equal(lazy.compute(scheduler="synchronous"), ts.cdist(series, **options))
        cross = ts.dask_cdist(series, series[:4], block=10, **options)
        np.testing.assert_allclose(cross.compute(scheduler="threads"), ts.cdist(series, series[:4], **options))
    assert ts.dask_cdist(series, []).compute().shape == (23, 0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_dask_on_a_local_cluster(series):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        lazy = ts.dask_cdist(series, block=10)
        assert np.array_equal(client.compute(lazy).result(), ts.cdist(series))
