"""`omegamax compare`, `plot` and `bench`."""

import itertools
import json
import re
import shutil

import pytest
import torch
from cli.conftest import SMALL

from omegamax.cli import compare
from omegamax.comparisons.comparison import COMPARISON, length_buckets
from omegamax.recipes.dates import Dates


@pytest.mark.slow
def test_the_comparison_has_a_line_for_each(compared):
    record = json.loads((compared / "comparison.json").read_text())
    models = {model["name"]: model for model in record["models"]}
    assert list(models) == ["softmax", "fusedmax(0.2)", "none"]
    assert record["settings"]["fusedmax(0.2)"]["strength"] == 0.2
    assert models["none"]["attention"] is None
    soft, fused = models["softmax"]["attention"], models["fusedmax(0.2)"]["attention"]
    assert soft["share"] == 1 and soft["segment_length"] < fused["segment_length"]
    assert fused["clusters"] <= fused["segments"] <= fused["support"]
    assert all(model["metrics"].keys() == models["softmax"]["metrics"].keys() for model in models.values())
    assert all(len(model["curves"]["loss"]) == 1 for model in models.values())
    assert all(model["tokens_per_second"] > 0 for model in models.values())  # though it had one step
    for name, model in models.items():  # the metrics are those of the run, and of all its test data
        run = compared / "runs" / name.replace("(", "-").replace(")", "")
        assert model["metrics"] == json.loads((run / "evaluation.json").read_text())["evaluation"]["test"]


@pytest.mark.slow
def test_the_test_data_is_predicted_once(command, tmp_path, monkeypatch):
    counted = []
    predict = Dates.predict

    def counting(self, model, examples):
        counted.extend(example for example in examples if example in self.examples("test"))
        return predict(self, model, examples)

    monkeypatch.setattr(Dates, "predict", counting)
    assert command("compare", "dates", "--attention", "none", *SMALL, "--out", tmp_path / "out")[0] == 0
    assert len(counted) == 100


@pytest.mark.slow
def test_the_report_needs_no_network(compared):
    page = (compared / "index.html").read_text()
    assert not re.search(r"(src|href)=[\"']?(http|//)", page) and "@import" not in page
    assert page.count("data:image/png;base64,") == len(list((compared / "figures").iterdir())) > 5
    for name in ("softmax", "fusedmax(0.2)", "none"):
        assert page.count(f"<td>{name}</td>") == 2  # of all numbers, and by length
    assert "wanted: 2" in page or "wanted: 1" in page
    assert "batch size 128" in page and "examples 120" in page


@pytest.mark.slow
def test_a_comparison_is_never_clobbered_and_resumes(command, compared):
    arguments = ["compare", "dates", "--attention", "softmax,fusedmax(0.2),none", *SMALL, "--out", compared]
    code, _, err = command(*arguments)
    assert code == 2 and "--resume" in err
    code, out, _ = command(
        "compare", "dates", "--attention", "softmax,fusedmax(0.2),none", "--out", compared, "--resume"
    )
    assert code == 0 and "fusedmax(0.2)" in out and "index.html" in out and "by input length" in out


@pytest.mark.slow
def test_several_seeds_have_a_mean_and_a_deviation(command, tmp_path):
    arguments = ["compare", "dates", "--attention", "softmax,none", "--seeds", 2, *SMALL, "--out", tmp_path / "out"]
    code, out, err = command(*arguments)
    assert code == 0, err
    assert " ± " in out and "over 2 seeds" in out and max(map(len, out.splitlines()[:-1])) <= 80
    record = json.loads((tmp_path / "out" / "comparison.json").read_text())
    for model in record["models"]:
        runs = [tmp_path / "out" / "runs" / f"{model['name']}-seed-{seed}" for seed in (0, 1)]
        bleu = [json.loads((run / "evaluation.json").read_text())["evaluation"]["test"]["bleu"] for run in runs]
        assert bleu[0] != bleu[1] and model["seeds"] == [0, 1]
        assert model["metrics"]["bleu"] == pytest.approx((bleu[0] + bleu[1]) / 2)
        assert model["deviations"]["bleu"] == pytest.approx(abs(bleu[0] - bleu[1]) / 2**0.5)
    code, out, _ = command(*arguments[:6], "--out", tmp_path / "out", "--resume")
    assert code == 0 and "over 2 seeds" in out


@pytest.mark.parametrize("seeds", ["0", "x", "1,1", "-1,2", "101", "1,", "9" * 5000])
def test_wrong_seeds_are_refused(command, tmp_path, seeds):
    code, _, err = command("compare", "dates", f"--seeds={seeds}", *SMALL, "--out", tmp_path / "out")
    assert code == 2 and "--seeds must be a count" in err and err.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_one_seed_makes_nothing_bold(compared):
    assert "class=best" not in (compared / "index.html").read_text()


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("softmax,,sparsemax", "must be names such as"),
        ("softmax,sparsmax", "did you mean sparsemax"),
        ("softmax(2)", "takes no parameter"),
        ("fusedmax(x)", "must be a number"),
        ("softmax,softmax", "twice"),
        ("softmax,fusedmax(-1)", "strength"),
    ],
)
def test_wrong_lists_are_refused_before_any_work(command, tmp_path, names, said):
    code, _, err = command("compare", "dates", "--attention", names, *SMALL, "--out", tmp_path / "out")
    assert code == 2 and said in err and err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_one_run_in_the_way_stops_all(command, tmp_path, trained):
    out = tmp_path / "out"
    (out / "runs").mkdir(parents=True)
    shutil.copytree(trained, out / "runs" / "fusedmax")
    code, _, err = command("compare", "dates", "--attention", "softmax,fusedmax", *SMALL, "--out", out)
    assert code == 2 and "holds a run already" in err
    assert not (out / "runs" / "softmax").exists()


@pytest.mark.parametrize("more", [[], ["--resume"]])
def test_a_page_of_something_else_is_left_alone(command, tmp_path, more):
    (tmp_path / "index.html").write_text("mine")
    code, _, err = command("compare", "dates", "--attention", "none", *SMALL, "--out", tmp_path, *more)
    assert code == 2 and "index.html of something else" in err and err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]


def test_parameters_are_in_brackets():
    assert compare.parse_normalizers("entmax(1.3),sqpnormmax(1.2),hard") == {
        "entmax(1.3)": {"attention": "entmax", "alpha": 1.3},
        "sqpnormmax(1.2)": {"attention": "sqpnormmax", "p": 1.2},
        "hard": {"attention": "hard"},
    }


def test_buckets_share_no_length():
    lengths = [5, 5, 5, 5, 1, 9, 9, 2]
    buckets = length_buckets(lengths, 4)
    assert sorted(at for _, _, places in buckets for at in places) == list(range(8))
    ranges = [(low, high) for low, high, _ in buckets]
    assert all(before[1] < after[0] for before, after in itertools.pairwise(ranges))
    assert length_buckets([], 4) == [] and length_buckets([3], 4) == [(3, 3, [0])]


@pytest.mark.slow
def test_figures_are_drawn_by_name(command, compared, trained, tmp_path):
    code, out, _ = command("plot", "--list")
    assert code == 0 and "figure2" in out and "curves RUN..." in out
    for arguments in (["figure2"], ["curves", trained, compared / "runs" / "softmax"], ["lengths", compared]):
        path = tmp_path / f"{arguments[0]}.pdf"
        assert command("plot", *arguments, "--out", path)[0] == 0
        assert path.read_bytes().startswith(b"%PDF")
    code, _, err = command("plot", "figure2", "--out", tmp_path / "figure2.pdf")
    assert code == 2 and "exists" in err


def drawn_lines(command, monkeypatch, *arguments):
    """The names in the legend of what is drawn."""
    figures = []
    monkeypatch.setattr("omegamax.cli.plot.save_picture", lambda figure, path, **_: figures.append(figure))
    code, _, err = command("plot", *arguments, "--out", "never-written.png")
    assert code == 0, err
    return [entry.get_text().partition(":")[0] for entry in figures[0].legends[0].get_texts()]


def test_runs_of_one_name_are_told_apart(command, trained, tmp_path, monkeypatch):
    for place in ("a", "b"):
        shutil.copytree(trained, tmp_path / place / "run")
    runs = [tmp_path / "a" / "run", tmp_path / "b" / "run"]
    assert drawn_lines(command, monkeypatch, "curves", *runs) == ["a/run", "b/run"]
    assert drawn_lines(command, monkeypatch, "curves", runs[0], trained) == ["run", trained.name]
    monkeypatch.chdir(runs[0])
    assert drawn_lines(command, monkeypatch, "curves", ".") == ["run"]


def test_comparisons_with_the_same_models_are_told_apart(command, tmp_path, monkeypatch):
    for place, metric in (("a", "bleu"), ("b", "bleu"), ("c", "exact_match")):
        models = [{"name": "softmax", "by_length": {"1–2": 0.5}}]
        (tmp_path / place).mkdir()
        (tmp_path / place / COMPARISON).write_text(json.dumps({"metric": metric, "models": models}))
    monkeypatch.chdir(tmp_path)
    assert drawn_lines(command, monkeypatch, "lengths", "a") == ["softmax"]
    assert drawn_lines(command, monkeypatch, "lengths", "a", "b") == ["softmax (a)", "softmax (b)"]
    code, _, err = command("plot", "lengths", "a", "c")
    assert code == 2 and "different metrics (bleu, exact_match)" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "such as figure2"),
        (["figur2"], "did you mean figure2?"),
        (["curves"], "reads RUN..."),
        (["figure2", "somewhere"], "reads nothing"),
        (["curves", "nowhere"], "not a run"),
        (["lengths", "nowhere"], "not a comparison"),
        (["figure2", "--out", "figure.xyz"], ".png, .pdf or .svg"),
    ],
)
def test_wrong_figures_are_refused(command, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    code, _, err = command("plot", *arguments)
    assert code == 2 and said in err and err.count("\n") == 1


@pytest.mark.slow
def test_bench_prints_ratios(command):
    code, out, _ = command("bench", "--rows", 4, "--columns", 8, "--seconds", 0.01)
    assert code == 0
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.count(".") >= 2 and "max" in line}
    assert rows["torch.softmax"] == ["1.00", "1.00"] and {"sparsemax", "fusedmax", "oscarmax"} <= set(rows)
    assert command("bench", "--rows", 0)[0] == 2
    code, _, err = command("bench", "--rows", 10**9, "--columns", 10**6)
    assert code == 2 and "memory" in err and err.count("\n") == 1


@pytest.mark.slow
def test_bench_on_a_device(command, tmp_path):
    """What a person with a GPU runs, here on the CPU."""
    sizes = [
        "--rows",
        4,
        "--columns",
        8,
        "--seconds",
        0.01,
        "--batch",
        1,
        "--heads",
        2,
        "--sequence",
        6,
        "--head-size",
        4,
    ]
    path = tmp_path / "cells.json"
    code, out, err = command("bench", "--device", "cpu", *sizes, "--json", path)
    assert code == 0, err
    assert "rows, torch.softmax" in out and "attention, SDPA" in out and "failed" not in out
    found = json.loads(path.read_text())
    assert found["settings"]["sequence"] == 6 and found["versions"]["torch"].startswith(torch.__version__[:4])
    names = [(cell["task"], cell["name"]) for cell in found["cells"]]
    assert {("rows", "sparsemax"), ("attention", "entmax15"), ("attention", "SDPA (softmax)")} <= set(names)
    for cell in found["cells"]:
        for times in (cell["forward"], cell["forward_and_backward"]):
            assert 0 < times["low"] <= times["median"] <= times["high"] and times["calls"] >= 5
    code, _, err = command("bench", "--device", "cpu", *sizes, "--json", path)  # it is there already
    assert code == 2 and err.count("\n") == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("device", ["cuda", "cuda:3", "abacus"])
def test_bench_without_the_device(command, device):
    code, out, err = command("bench", "--device", device)
    assert code == 2 and out == "" and device in err and err.count("\n") == 1
