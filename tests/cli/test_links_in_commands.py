"""Links below --out are refused by every command that writes there; a link named by --out itself is followed."""

import pytest
from cli.conftest import SMALL


@pytest.mark.parametrize("name", ["comparison.json", "index.html", "figures/support.png", "runs/softmax"])
def test_links_in_a_comparison(command, tmp_path, precious, name):
    link = tmp_path / "out" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(precious)
    attention = ["--attention", "softmax", "--overwrite", "--out", tmp_path / "out"]
    code, _, err = command("compare", "dates", *SMALL, *attention)
    assert code == 2 and "must not be a link" in err and err.count("\n") == 1
    assert precious.read_text() == "years of work\n"
    assert not (tmp_path / "out" / "runs" / "softmax" / "config.json").exists()  # refused before any work


@pytest.mark.parametrize(("arguments", "name"), [(["operators"], "figure2.png"), (["reproduce", "fig2"], "fig2.png")])
def test_links_among_figures(command, tmp_path, precious, arguments, name, monkeypatch):
    monkeypatch.setattr("omegamax.cli.operator_table.PICTURES", ("figure2.png",))
    monkeypatch.setattr("omegamax.cli.operator_table.draw", lambda directory: [])
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).symlink_to(precious)
    code, _, err = command(*arguments, "--out", tmp_path / "out", "--overwrite")
    assert code == 2 and "must not be a link" in err and err.count("\n") == 1
    assert precious.read_text() == "years of work\n"


def test_looking_whether_a_directory_can_be_written_touches_nothing(command, tmp_path, monkeypatch):
    monkeypatch.setattr("omegamax.cli.operator_table.draw", lambda directory: [])
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".omegamax").symlink_to(tmp_path / "new")
    assert command("operators", "--out", tmp_path / "out")[0] == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".omegamax"] and not (tmp_path / "new").exists()


def test_a_picture_that_the_user_named_may_be_a_link(command, tmp_path):
    (tmp_path / "link.png").symlink_to(tmp_path / "real.png")
    assert command("plot", "losses", "--out", tmp_path / "link.png")[0] == 0
    assert (tmp_path / "link.png").is_symlink() and (tmp_path / "real.png").read_bytes()[1:4] == b"PNG"
