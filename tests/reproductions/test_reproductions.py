"""Every claim of the sources: those that run agree, those that are false fail, and the page of claims is up to date."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from omegamax import cli
from omegamax.reproductions import claim as claims
from omegamax.reproductions import page, report
from omegamax.reproductions.catalogue import CLAIMS, SOURCES, of_source

ROOT = Path(__file__).parents[2]
TABLES = [f"{name}_claims" for name in ("paper", "tutorial", "sparsemap", "lecture", "conversation")]
TABLES += ["paper_experiments", "lecture_experiments"]
RUNNABLE = [claim for claim in CLAIMS.values() if claim.run and not claim.timed]
TIMED = {claim.run: claim for claim in CLAIMS.values() if claim.timed}


def command(capsys, *arguments):
    try:
        code = cli.main(["reproduce", *arguments])
    except SystemExit as stop:
        code = stop.code
    return code, *capsys.readouterr()


@pytest.mark.parametrize("claim", RUNNABLE, ids=lambda claim: claim.id)
@pytest.mark.thinned(4)
def test_it_agrees_or_is_false_as_published(claim):
    before = torch.get_rng_state()
    outcome = claim.reproduce()
    assert any(row.agrees is not None for row in outcome.rows)
    disagree = [row for row in outcome.rows if row.agrees is False]
    assert bool(disagree) != claim.holds, disagree
    assert claim.holds or claim.remark  # a counterexample is explained
    assert (outcome.draw is not None) == claim.draws
    assert torch.equal(torch.get_rng_state(), before)  # the caller's random numbers are left alone


@pytest.mark.slow
@pytest.mark.parametrize("run", TIMED)
def test_times_are_measured(run):
    """Ratios depend on the machine; that there are some does not."""
    rows = TIMED[run].reproduce().rows
    assert rows and all(float(row.ours) > 0 for row in rows)


def test_ids_are_unique_and_sources_known():
    from importlib import import_module

    tables = [import_module(f"omegamax.reproductions.{name}").CLAIMS for name in TABLES]
    assert sum(map(len, tables)) == len(CLAIMS)
    assert {claim.source for claim in CLAIMS.values()} == set(SOURCES)
    assert not set(CLAIMS) & {*SOURCES, "all"}  # a source is no claim
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in CLAIMS)


def test_every_claim_is_checked_somehow():
    for claim in CLAIMS.values():
        assert claim.run or claim.tests or claim.benchmark or claim.recipe or claim.reason, claim.id
        assert claim.statement.endswith((".", "...", "?")), claim.id
        assert claim.holds or claim.run, f"{claim.id} needs a counterexample that runs"


def test_named_tests_and_benchmarks_exist():
    for claim in CLAIMS.values():
        for test in claim.tests:
            path, _, name = test.partition("::")
            text = (ROOT / path).read_text(encoding="utf-8")
            assert re.search(rf"^ *def {name}\(", text, re.MULTILINE), f"{claim.id} names {test}"
        assert not claim.benchmark or (ROOT / claim.benchmark).is_file(), claim.id


def test_the_page_is_up_to_date():
    found = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    assert found == page.page(), "run python -m omegamax.reproductions.page docs/claims.md"


def test_rows():
    assert claims.near("x", 65, 63.1, 4).agrees and not claims.near("x", 65, 60, 4).agrees
    assert claims.at_most("x", 1, 1 + 1e-10).agrees and not claims.at_most("x", 1, 1.1).agrees
    assert claims.at_least("x", 1, 1 - 1e-10).agrees and not claims.at_least("x", 1, 0.9).agrees
    assert claims.same("x", 1e-12).agrees and not claims.same("x", 1e-3).agrees
    assert not claims.near("x", 1, float("nan"), 1).agrees and not claims.same("x", float("nan")).agrees


class TestCommand:
    def test_the_list_is_complete(self, capsys):
        code, out, err = command(capsys, "--list")
        assert (code, err) == (0, "")
        for claim in CLAIMS.values():
            assert f"  {claim.id}  [{claim.status}" in out
        assert all(title in " ".join(out.split()) for title in SOURCES.values())  # long titles take two lines
        one = command(capsys, "--list", "sparsemap")[1]
        assert one.count("  [") == len(of_source("sparsemap"))

    @pytest.mark.slow
    def test_the_list_loads_no_torch(self):
        program = (
            "import sys; sys.argv = ['omegamax']; from omegamax.cli import main; main(['reproduce', '--list']); "
            "sys.exit('torch' in sys.modules)"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def test_ours_beside_the_published(self, capsys, tmp_path):
        code, out, err = command(capsys, "lecture-example", "--out", str(tmp_path / "new"))
        assert (code, err) == (0, "")
        assert re.search(r"^first weight +0\.88 +0\.8808 +0\.005 +yes$", out, re.MULTILINE)
        assert not (tmp_path / "new").exists()  # nothing to draw

    def test_a_false_claim_runs_and_says_why(self, capsys):
        code, out, _ = command(capsys, "prop2-oscarmax")
        assert code == 0
        assert "false as published" in out and " NO" in out
        for number in ("59", "0.1302", "0.1458"):  # the remark repeats what the table shows
            assert number in CLAIMS["prop2-oscarmax"].remark and number in out.split("The OSCAR prox")[0]

    @pytest.mark.slow
    def test_a_figure_is_drawn_and_not_replaced(self, capsys, tmp_path):
        pytest.importorskip("matplotlib")
        place = tmp_path / "figures"
        place.mkdir()
        (place / "mine.txt").write_text("stays")
        assert command(capsys, "fig2", "--out", str(place))[0] == 0
        assert (place / "fig2.png").read_bytes()[:4] == b"\x89PNG"
        (place / "fig2.png").write_bytes(b"mine")
        code, out, err = command(capsys, "fig2", "--out", str(place))
        assert (code, out) == (2, "") and "--overwrite" in err and err.count("\n") == 1
        assert (place / "fig2.png").read_bytes() == b"mine"
        assert command(capsys, "fig2", "--out", str(place), "--overwrite")[0] == 0
        assert (place / "fig2.png").stat().st_size > 1000 and (place / "mine.txt").read_text() == "stays"

    @pytest.mark.slow
    @pytest.mark.parametrize("claim", [claim for claim in CLAIMS.values() if claim.draws], ids=lambda claim: claim.id)
    def test_every_figure(self, capsys, tmp_path, claim):
        pytest.importorskip("matplotlib")
        assert command(capsys, claim.id, "--out", str(tmp_path))[0] == 0
        assert (tmp_path / claim.figure).stat().st_size > 1000

    def test_what_needs_training_shows_what_was_published(self, capsys):
        code, out, err = command(capsys, "table1")
        assert code == 2
        assert "82.41" in out and "needs a trained recipe: nli" in out
        assert err.startswith("omegamax reproduce: table1 was not run") and err.count("\n") == 1

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["prop4"], "prop1"),
            (["fig 2"], "fig2"),
            (["oscar"], "oscarmax"),
            (["zzzzzz"], "--list"),
            ([], "--list"),
            (["--list", "papre"], "paper"),
        ],
    )
    def test_an_unknown_id(self, capsys, arguments, said):
        code, out, err = command(capsys, *arguments)
        assert (code, out) == (2, "")
        assert said in err and err.count("\n") == 1

    def test_a_directory_that_cannot_be_written(self, capsys, tmp_path):
        (tmp_path / "file").write_text("in the way")
        code, out, err = command(capsys, "fig2", "--out", str(tmp_path / "file"))
        assert (code, out) == (2, "")
        assert "cannot write to" in err and err.count("\n") == 1

    def test_a_source_means_what_runs_of_it(self):
        from omegamax.cli.reproduce import select_claims

        assert select_claims(["sparsemap", "fig2", "fig2"], runnable=True) == [
            *(claim for claim in of_source("sparsemap") if claim.run),
            CLAIMS["fig2"],
        ]
        assert len(select_claims(["all"], runnable=False)) == len(CLAIMS)

    def test_help_teaches_with_examples(self, capsys):
        code, out, _ = command(capsys, "--help")
        assert code == 0 and "omegamax reproduce fig2" in out


def test_tables_line_up():
    lines = report.comparison([claims.near("a", 1, 1, 0), claims.finds("longer", "yes", "no", False)]).splitlines()
    assert lines[2].split() == ["a", "1", "1", "0", "yes"]
    assert lines[3].split() == ["longer", "yes", "no", "NO"]
    assert lines[2].index("yes") == lines[3].index("NO") == lines[0].index("agrees")
