"""`omegamax explore` writes the page, and opens it unless told otherwise."""

import webbrowser
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from omegamax.cli import main
from omegamax.explorer import explorer_page


@pytest.fixture
def opened(monkeypatch):
    addresses = []
    monkeypatch.setattr(webbrowser, "open", lambda address: addresses.append(address) or True)
    return addresses


def test_the_page_goes_where_it_should(tmp_path, opened, capsys):
    assert main(["explore", "--out", str(tmp_path / "page.html"), "--no-open"]) == 0
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == explorer_page()
    assert capsys.readouterr().out.strip() == str(tmp_path / "page.html")
    assert opened == []


def test_the_page_is_opened(tmp_path, opened):
    assert main(["explore", "--out", str(tmp_path / "a b.html")]) == 0
    assert Path(unquote(urlparse(opened[0]).path)) == tmp_path / "a b.html"


def test_without_out_the_page_is_a_temporary_file(tmp_path, opened, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(["explore"]) == 0
    (page,) = tmp_path.iterdir()
    assert opened == [page.as_uri()]
    assert page.read_text(encoding="utf-8") == explorer_page()


def test_without_a_browser_the_user_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(webbrowser, "open", lambda address: False)
    assert main(["explore", "--out", str(tmp_path / "page.html")]) == 0
    assert "no browser could be started; open the file above" in capsys.readouterr().err


def test_a_file_is_replaced_only_on_request(tmp_path, opened, capsys):
    page = tmp_path / "page.html"
    page.write_text("mine")
    assert main(["explore", "--out", str(page)]) == 2
    assert "say --overwrite" in capsys.readouterr().err
    assert page.read_text() == "mine" and opened == []
    assert main(["explore", "--out", str(page), "--overwrite"]) == 0
    assert page.read_text(encoding="utf-8") == explorer_page()


def test_a_directory_that_is_missing_is_named(tmp_path, opened, capsys):
    assert main(["explore", "--out", str(tmp_path / "none" / "page.html")]) == 2
    assert "is not a directory" in capsys.readouterr().err
