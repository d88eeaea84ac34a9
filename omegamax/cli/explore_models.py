"""The part of `omegamax explore` that shows the attention of models: runs, folders of Hugging Face, the server."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from omegamax.cli.errors import CommandError
from omegamax.cli.lines import read_input
from omegamax.cli.parser import at_least
from omegamax.data.printable import printable


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the runs or the model, the inputs, and the server."""
    parser.add_argument(
        "runs_and_inputs",
        metavar="RUN ... INPUT",
        nargs="*",
        help="show the attention of these trained runs, directories, on these inputs; without an input, on a few test "
        "examples of the runs",
    )
    parser.add_argument(
        "--model", metavar="DIR", type=Path, help="show the attention of the Hugging Face model in this folder instead"
    )
    parser.add_argument(
        "--attention",
        metavar="NAMES",
        help="of --model: normalizers to compare, such as softmax,sparsemax (default: the model's own)",
    )
    parser.add_argument("--file", metavar="FILE", type=Path, help="more inputs, one per line")
    parser.add_argument(
        "--checkpoint", choices=("best", "latest"), default="best", help="which checkpoint of a run (default: best)"
    )
    parser.add_argument(
        "--serve", action="store_true", help="keep running, and let the page send new input to the models"
    )
    parser.add_argument(
        "--port", metavar="N", type=at_least(1, 65535), help="of --serve, on this computer (default: a free one)"
    )


def wants_models(options: argparse.Namespace) -> bool:
    """Says whether the page is to show models; raises CommandError for options that need one."""
    if options.runs_and_inputs or options.model is not None:
        if options.attention is not None and options.model is None:
            raise CommandError("--attention changes a model of Hugging Face; name its folder with --model, or leave it")
        if options.port is not None and not options.serve:
            raise CommandError("--port is that of the server; say --serve too, or leave it out")
        return True
    for name in ("file", "attention", "port"):
        if getattr(options, name) is not None:
            raise CommandError(f"--{name} needs a model; name a run, or a folder with --model")
    if options.serve:
        raise CommandError("--serve needs a model to answer with; name a run, or a folder with --model")
    return False


def load_models(options: argparse.Namespace) -> tuple[list[Any], list[str]]:
    """Returns the sources of attention, and the inputs."""
    from omegamax.model_views.hugging_face import load_hugging_face
    from omegamax.model_views.sources import RunSource

    given, more = list(options.runs_and_inputs), read_input(options.file) if options.file else []
    if options.model is not None:
        names = [name.strip() for name in (options.attention or "").split(",") if name.strip()]
        return load_hugging_face(options.model, names), [*given, *more]
    # The first is a run whatever it is, so that a wrong path is named in the error; the directories after it are too.
    n_runs = 1
    while n_runs < len(given) and Path(given[n_runs]).is_dir():
        n_runs += 1
    runs = [RunSource(Path(path), which=options.checkpoint) for path in given[:n_runs]]
    return list(runs), [*given[n_runs:], *more]


def attention_data(sources: Sequence[Any], lines: Sequence[str], *, serves: bool) -> dict[str, Any]:
    """Returns the data of the attention view; a page that is served may begin without an input."""
    from omegamax.model_views.attention import collect_attention

    if not serves:
        return collect_attention(sources, lines)
    from omegamax.model_views.server import Limits

    found = collect_attention(sources, lines) if lines else {"inputs": []}
    return {**found, "serve": {"max_characters": Limits().n_characters}}


def serve_page(page: str, sources: Sequence[Any], options: argparse.Namespace, *, opens: bool) -> None:
    """Serves the page until Ctrl-C, and answers new input with the models.

    Arguments:
        page: the HTML of the page, with the data in it
        sources: the models
        options: of the command
        opens: whether a browser is opened
    """
    from omegamax.model_views.attention import collect_attention
    from omegamax.model_views.serving import open_socket, serve

    def predict(text: str) -> dict[str, Any]:
        return collect_attention(sources, [line for line in text.split("\n") if line.strip()])

    def started(address: str) -> None:
        print(f"{printable(address)}\nOnly this computer can open it, with this address. Ctrl-C stops it.", flush=True)
        if opens:
            import webbrowser  # here, so that --help is quick

            _open_later(address, webbrowser.open)

    with open_socket(options.port or 0) as listening:
        serve(page, predict, listening=listening, on_start=started)


def _open_later(address: str, open_page: Callable[[str], Any]) -> None:
    """Opens the page when the server, which starts now, can answer."""
    timer = threading.Timer(0.5, open_page, [address])
    timer.daemon = True
    timer.start()
