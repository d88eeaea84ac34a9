"""Reported bugs of other packages: ours is right in every case, and the page says what runs."""

import os
import re
from pathlib import Path

import pytest
import torch

from omegamax import cli
from omegamax.reproductions.catalogue import CLAIMS, SOURCES
from omegamax.reproductions.upstream import page, report
from omegamax.reproductions.upstream.case import NOT_INSTALLED, UpstreamCase, find
from omegamax.reproductions.upstream.cases import CASES

os.environ.setdefault("NUMBA_DISABLE_JIT", "1")  # compiling takes tslearn a minute; its code is the same without
PAGE = Path(__file__).parents[2] / "docs" / "upstream.md"
SLOW = {
    "tslearn-second-derivatives",
    "tslearn-unequal-lengths",
    "transformers-vanished-mask",
    "torch-ctc-double-backward",
}
ALL = [pytest.param(case, id=name, marks=[pytest.mark.slow] if name in SLOW else []) for name, case in CASES.items()]


@pytest.mark.filterwarnings("ignore")  # those of the packages
@pytest.mark.parametrize("case", ALL)
def test_ours_is_right_and_the_page_says_so(case):
    before = torch.get_rng_state()
    findings = case.reproduce()
    assert findings and all(finding.ours_right for finding in findings), findings
    assert torch.equal(torch.get_rng_state(), before)
    text = PAGE.read_text(encoding="utf-8")
    assert page.description(case) in text, "run python -m omegamax.reproductions.upstream.page docs/upstream.md"
    rows = re.search(rf"^## {case.id}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL).group(1)
    table = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in rows.splitlines() if line.startswith("|")
    ]
    same_version = f"{case.package} {case.installed}," in text or f"{case.package} {case.installed}, on" in text
    for finding, cells in zip(findings, table[2:], strict=True):
        assert cells[0] == finding.quantity and cells[1] == finding.right and cells[5] == "right"
        if same_version:
            assert cells[3] == {True: "right", False: "**wrong**", None: ""}[finding.theirs_right]


def test_the_table_is_well_formed():
    assert not set(CASES) & {*CLAIMS, *SOURCES, "all", "upstream"}
    for case in CASES.values():
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", case.id) and case.reported.endswith(".")
        assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", thread) for thread in case.threads)
        assert len(case.links) == len(case.threads)


def test_what_is_missing_and_what_raises_is_said():
    def missing():
        import no_such_package  # noqa: F401

    def fails():
        raise RuntimeError("no\nway")

    found = find("q", "1", missing, lambda: 1, lambda value: value == 1)
    assert found.theirs == NOT_INSTALLED and found.theirs_right is None and found.ours_right
    found = find("q", "1", fails, fails, lambda value: True)
    assert found.theirs == "raises RuntimeError: no" and found.theirs_right is False and not found.ours_right
    case = UpstreamCase("a-case", "no-such-package", (), "Something.", "attention:nan_in_padding", note="A note.")
    assert case.installed is None and "[no-such-package not installed]" in report.heading(case)
    assert "A note." in report.heading(case) and "No public thread. A note." in page.description(case)
    assert "| q | 1 | raises RuntimeError: no | **wrong** |" in page.results([found])


def test_the_command_runs_and_lists(capsys):
    assert cli.main(["reproduce", "torch-sdpa-nan-in-padding"]) == 0
    printed = capsys.readouterr().out
    assert "https://github.com/pytorch/pytorch/issues/101967" in printed and "right" in printed
    assert cli.main(["reproduce", "--list", "upstream"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in CASES) and "prop1" not in printed
    assert cli.main(["reproduce", "--list", "upstream", "prop1"]) == 0
    printed = capsys.readouterr().out
    assert "prop1" in printed and "entmax-at-one" in printed
