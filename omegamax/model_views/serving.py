"""Runs the server of `omegamax explore --serve` on this computer alone, until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import Callable
from typing import Any

from omegamax.errors import DataError, os_error_text
from omegamax.extras import how_to_install
from omegamax.model_views.server import Limits, Predict, make_app

try:
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError as error:
    raise ImportError(f"explore --serve needs starlette and uvicorn; {how_to_install('explore')}") from error

_LOOPBACK = "127.0.0.1"
_HEADER_BYTES = 16 * 1024
_HEADER_SECONDS = 10.0  # until the headers of a request have arrived
_SPARE_SECONDS = 30.0  # for reading the body and writing the answer, beside the time of the model
_MAX_CONNECTIONS = 64


def open_socket(port: int = 0) -> socket.socket:
    """Opens a listening socket on the loopback address; port 0 takes a free one. Raises DataError for a taken one."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.bind((_LOOPBACK, port))
    except OSError as error:
        listening.close()
        raise DataError(
            f"explore: port {port} must be free, but it is not ({os_error_text(error)}); choose another with --port"
        ) from error
    return listening


def serve(
    page: str,
    predict: Predict,
    *,
    listening: socket.socket,
    limits: Limits | None = None,
    on_start: Callable[[str], Any] = print,
) -> None:
    """Serves the page until the process is interrupted.

    Arguments:
        page: the HTML of the page
        predict: computes the answer to a text
        listening: a bound socket, see `open_socket`
        limits: of requests; None takes the usual ones
        on_start: called with the address, which has the token in it
    """
    limits = limits or Limits()
    server, address = make_server(page, predict, listening, limits)
    on_start(address)
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is how it ends
        server.run(sockets=[listening])


def make_server(page: str, predict: Predict, listening: socket.socket, limits: Limits) -> tuple[uvicorn.Server, str]:
    """Returns the server and the address of its page; see `serve`."""
    token, port = secrets.token_urlsafe(24), listening.getsockname()[1]
    app = make_app(page, predict, token=token, port=port, limits=limits)
    longest = limits.body_seconds + limits.seconds + _SPARE_SECONDS
    config = uvicorn.Config(
        app,
        http=_limited_protocol(longest),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_MAX_CONNECTIONS,
        h11_max_incomplete_event_size=_HEADER_BYTES,
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config), f"http://{_LOOPBACK}:{port}/{token}/"


def _limited_protocol(longest: float) -> type[asyncio.Protocol]:
    class LimitedProtocol(H11Protocol):
        """Ends connections of slow clients: uvicorn itself waits for the headers of a request without an end."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._timers = [
                self.loop.call_later(_HEADER_SECONDS, self._end_without_request),
                self.loop.call_later(longest, transport.abort),
            ]

        def connection_lost(self, exc: Exception | None) -> None:
            for timer in self._timers:
                timer.cancel()
            super().connection_lost(exc)

        def _end_without_request(self) -> None:
            if self.cycle is None:
                self.transport.abort()

    return LimitedProtocol
