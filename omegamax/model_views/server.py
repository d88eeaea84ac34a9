"""The web application behind `omegamax explore --serve`: one page, and one address that takes new input.

    GET  /TOKEN/          the page
    POST /TOKEN/attend    {"text": "..."} gives the attention of the loaded models on the text, as JSON

A web site that the user visits can send requests to this computer too. So a request must name our own host (another
name may have been pointed here), come from our own page if it says where it comes from, and know the random token.
Everything else is refused in one sentence. No file is read after the start: there is nothing else to serve.

Starlette is used because it is small (one dependency, anyio), typed, and maintained for years under many services.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import re
import secrets
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from omegamax.data.printable import printable
from omegamax.errors import RecipeError
from omegamax.extras import how_to_install

try:
    from starlette.applications import Starlette
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route
except ImportError as error:
    raise ImportError(f"explore --serve needs starlette and uvicorn; {how_to_install('explore')}") from error

Predict = Callable[[str], Mapping[str, Any]]  # a text to plain JSON values
_SCRIPT = re.compile(r"<script(?P<attributes>[^>]*)>(?P<code>.*?)</script>", re.DOTALL)


class Limits(NamedTuple):
    """How much a request may ask for."""

    n_bytes: int = 1 << 17  # of a body
    n_characters: int = 20_000  # of a text
    body_seconds: float = 10.0  # until the body has arrived
    seconds: float = 120.0  # until an answer is given


class RequestError(Exception):
    """A request that is not answered: a status of HTTP, and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


def make_app(page: str, predict: Predict, *, token: str, port: int, limits: Limits | None = None) -> Any:
    """Returns the ASGI application.

    Arguments:
        page: the HTML of the page
        predict: computes the answer to a text; it raises RecipeError for a text that it cannot read
        token: the secret first part of every path
        port: where the server listens, which every request names as its host
        limits: of requests; None takes the usual ones
    """
    limits = limits or Limits()
    content, policy = page.encode(), _content_policy(page)
    worker = _OneAtATime(predict, limits.seconds)

    async def show(request: Request) -> Response:
        return Response(content, media_type="text/html", headers={"Content-Security-Policy": policy})

    async def attend(request: Request) -> Response:
        return JSONResponse(await worker.answer(await _read_text(request, limits)))

    async def refuse(request: Request, refusal: Exception) -> Response:
        assert isinstance(refusal, RequestError)
        return _error(refusal.status, refusal.sentence)

    async def refuse_unknown(request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", 500)
        return _error(status, "the server has one page, and one address that takes input by POST; open the page")

    app = Starlette(
        routes=[Route(f"/{token}/", show, methods=["GET"]), Route(f"/{token}/attend", attend, methods=["POST"])],
        exception_handlers={RequestError: refuse, 404: refuse_unknown, 405: refuse_unknown},
    )
    app.router.redirect_slashes = False
    return _Guard(app, token, port)


class _Guard:
    """Refuses requests of strangers before anything else is done, and closes every connection after one answer."""

    def __init__(self, app: Any, token: str, port: int) -> None:
        self._app = app
        self._token = token.encode()
        names = [f"{name}:{port}" for name in ("127.0.0.1", "localhost")]
        names += [name.partition(":")[0] for name in names if port == 80]
        self._hosts = [name.encode() for name in names]
        self._origins = [b"http://" + name for name in self._hosts]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *_HEADERS]}
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await _error(refusal.status, refusal.sentence)(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _refusal(self, scope: Any) -> RequestError | None:
        if scope.get("http_version") not in ("1.0", "1.1"):
            return RequestError(505, "the server speaks HTTP 1.1; open the address that omegamax printed in a browser")
        hosts, origins, sites = ([v for k, v in scope["headers"] if k == name] for name in _CHECKED)
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return RequestError(
                421, "the host of a request must be this server; open the address that omegamax printed"
            )
        if len(origins) > 1 or any(origin not in self._origins for origin in origins):
            return RequestError(
                403, "a request must come from the page of this server; open the address that was printed"
            )
        if any(site not in (b"same-origin", b"none") for site in sites):
            return RequestError(403, "a request must come from the page of this server, not from another site")
        if scope["method"] == "POST" and not origins:
            return RequestError(403, "input must come from the page of this server, got a request without Origin")
        given = scope.get("raw_path", scope["path"].encode(errors="replace")).split(b"/")
        if len(given) < 2 or not secrets.compare_digest(given[1], self._token):
            return RequestError(
                404, "the address lacks the token of this server; open the address that omegamax printed"
            )
        return None


_CHECKED = (b"host", b"origin", b"sec-fetch-site")
_HEADERS = [
    (b"connection", b"close"),  # one request for each connection: nothing waits, nothing is pipelined
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),  # the token is part of the address
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]


def _content_policy(page: str) -> str:
    """Lets the page run its own scripts, named by their hashes, and connect to this server alone."""
    codes = [found["code"] for found in _SCRIPT.finditer(page) if "type=" not in found["attributes"]]  # others are data
    hashes = [base64.b64encode(hashlib.sha256(code.encode()).digest()).decode("ascii") for code in codes]
    scripts = " ".join(f"'sha256-{each}'" for each in hashes)
    return (
        f"default-src 'none'; script-src {scripts} 'wasm-unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; "
        "font-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


async def _read_text(request: Request, limits: Limits) -> str:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RequestError(415, 'the body must be JSON, {"text": "..."}; send it as application/json')
    try:
        body = await asyncio.wait_for(_read_body(request, limits.n_bytes), limits.body_seconds)
    except asyncio.TimeoutError:  # a class of its own before Python 3.11
        raise RequestError(408, f"the body must arrive within {limits.body_seconds:g} seconds; send it again") from None
    except ClientDisconnect:
        raise RequestError(400, "the body must arrive whole; send it again") from None
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise RequestError(400, 'the body must be JSON, {"text": "..."}, got something else') from None
    text = given.get("text") if isinstance(given, dict) and given.keys() == {"text"} else None
    if not isinstance(text, str):
        raise RequestError(400, 'the body must be an object with one text, {"text": "..."}, got something else')
    if len(text) > limits.n_characters:
        raise RequestError(413, f"a text may have {limits.n_characters} characters, got {len(text)}; shorten it")
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise RequestError(400, "a text must be Unicode, got half of a surrogate pair; type the text anew")
    if not text.strip():
        raise RequestError(422, "expected some text, got none; write some")
    return text


async def _read_body(request: Request, n_bytes: int) -> bytes:
    parts, length = [], 0
    async for part in request.stream():
        length += len(part)
        if length > n_bytes:
            raise RequestError(413, f"a body may have {n_bytes} bytes, got more; shorten the text")
        parts.append(part)
    return b"".join(parts)


class _OneAtATime:
    """Runs `predict` in a thread, and refuses a second text while it runs.

    A thread cannot be ended from outside: after the time limit the client gets an answer, and the server stays busy
    until the model has finished.
    """

    def __init__(self, predict: Predict, seconds: float) -> None:
        self._predict, self._seconds = predict, seconds
        self._is_busy = threading.Lock()

    async def answer(self, text: str) -> Mapping[str, Any]:
        if not self._is_busy.acquire(blocking=False):
            raise RequestError(503, "the model is at work on another text; try again in a moment")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Mapping[str, Any]] = loop.create_future()
        threading.Thread(target=self._work, args=(text, loop, answer), daemon=True).start()
        try:
            return await asyncio.wait_for(answer, self._seconds)
        except asyncio.TimeoutError:
            raise RequestError(
                504, f"the model has not finished after {self._seconds:g} seconds; give less text"
            ) from None
        except RecipeError as error:
            raise RequestError(422, " ".join(printable(error, max_length=1000).split())) from None
        except MemoryError:
            raise RequestError(507, "the work must fit into memory, and there is not enough; give less text") from None
        except Exception as error:
            reason = " ".join(printable(error, max_length=300).split()) or type(error).__name__
            raise RequestError(500, f"the model could not read this text ({reason}); write another") from None

    def _work(self, text: str, loop: Any, answer: Any) -> None:
        result: Any = None
        failure: Exception | None = None
        try:
            result = self._predict(text)
        except Exception as error:
            failure = error
        finally:
            self._is_busy.release()
        with contextlib.suppress(RuntimeError):  # the server was stopped
            loop.call_soon_threadsafe(_settle, answer, result, failure)


def _settle(answer: Any, result: Any, failure: Exception | None) -> None:
    if answer.done():  # nobody waits any more
        return
    if failure is None:
        answer.set_result(result)
    else:
        answer.set_exception(failure)


def _error(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"error": sentence}, status_code=status)
