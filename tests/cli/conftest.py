"""A model that was trained by the command itself, once for all tests of commands."""

import pytest

from omegamax import cli

SMALL = ["--examples", "120", "--locales", "en,fr", "--epochs", "1", "--hidden-size", "8", "--embedding-size", "8"]


@pytest.fixture
def command(capsys):
    """Calls `omegamax`; returns its exit code, its output and its errors."""

    def call(*arguments):
        capsys.readouterr()
        try:
            code = cli.main([str(each) for each in arguments])
        except SystemExit as stop:
            code = stop.code
        return code, *capsys.readouterr()

    return call


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """The directory of a run of dates with sparsemax."""
    out = tmp_path_factory.mktemp("runs") / "dates"
    assert cli.main(["train", "dates", "--attention", "sparsemax", *SMALL, "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="session")
def compared(tmp_path_factory):
    """The directory of a comparison."""
    out = tmp_path_factory.mktemp("comparison")
    attention = "softmax,fusedmax(0.2),none"
    assert cli.main(["compare", "dates", "--attention", attention, *SMALL, "--out", str(out)]) == 0
    return out
