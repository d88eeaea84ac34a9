"""After kill -9 at any moment, also in the middle of a write, a resumed run ends as one that nobody killed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills children that it forks")
@pytest.mark.parametrize("where", ["sites", "moments"])
def test_a_killed_run_is_resumed_to_the_bit(tmp_path, where):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(["", str(HERE.parent.parent)])}
    quiet = "ignore:This process:DeprecationWarning"  # of Python 3.12, when a process with threads forks
    command = [sys.executable, "-W", "error", "-W", quiet, str(HERE / "killing.py"), where, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "killed" in done.stdout
