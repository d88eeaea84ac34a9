"""The server of `omegamax explore --serve`: who is answered, who is refused, and how."""

import asyncio
import http.client
import importlib.util
import json
import socket
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs the extra explore: pip install omegamax[explore]")
pytest.importorskip("uvicorn", reason="needs the extra explore: pip install omegamax[explore]")
from asgi_client import call

from omegamax.errors import DataError
from omegamax.model_views import serving
from omegamax.model_views.server import Limits, make_app
from omegamax.model_views.serving import make_server, open_socket

PAGE = '<!doctype html><title>é</title><script type="application/json">{}</script><script>let a = "<b>";</script>'
TOKEN, PORT = "s3cret", 4321
HOST, ORIGIN = ("host", f"127.0.0.1:{PORT}"), ("origin", f"http://127.0.0.1:{PORT}")
JSON = ("content-type", "application/json")
GOOD = (HOST, ORIGIN, JSON)


def reversed_text(text):
    if text == "bad":
        raise DataError("explore: expected a date, got bad;\nwrite one")
    if text == "bug":
        raise KeyError("lost")
    return {"inputs": [text[::-1]]}


def ask(method="GET", path=f"/{TOKEN}/", headers=(HOST,), body=b"", *, predict=reversed_text, limits=None, parts=None):
    app = make_app(PAGE, predict, token=TOKEN, port=PORT, limits=limits)
    return asyncio.run(call(app, method, path, headers, body, parts=parts))


def post(body, headers=GOOD, **options):
    return ask("POST", f"/{TOKEN}/attend", headers, body, **options)


def test_the_page_is_served_with_strict_headers():
    found = ask()
    assert found.status == 200 and found.body == PAGE.encode()
    assert found.headers["content-type"] == "text/html; charset=utf-8"
    policy = found.headers["content-security-policy"]
    # printf 'let a = "<b>";' | openssl dgst -sha256 -binary | base64
    assert "script-src 'sha256-Yec60kKRbfUEVY+af2er7srYeGCy7INO1VppjnXhVdM=' 'wasm-unsafe-eval';" in policy
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert found.headers["connection"] == "close" and found.headers["referrer-policy"] == "no-referrer"
    assert found.headers["cache-control"] == "no-store" and found.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("host", ["127.0.0.1:4321", "localhost:4321"])
def test_a_new_input_is_answered(host):
    found = post(b'{"text": "\\u00e9 abc"}', [("host", host), ("origin", f"http://{host}"), JSON])
    assert found.status == 200 and json.loads(found.body) == {"inputs": ["cba é"]}


REFUSED = {
    "another host": ("GET", f"/{TOKEN}/", [("host", "evil.example:4321")], 421),
    "another port": ("GET", f"/{TOKEN}/", [("host", "127.0.0.1:1")], 421),
    "no port": ("GET", f"/{TOKEN}/", [("host", "127.0.0.1")], 421),
    "no host": ("GET", f"/{TOKEN}/", [], 421),
    "two hosts": ("GET", f"/{TOKEN}/", [HOST, HOST], 421),
    "host with user": ("GET", f"/{TOKEN}/", [("host", "a@127.0.0.1:4321")], 421),
    "another origin": ("GET", f"/{TOKEN}/", [HOST, ("origin", "http://evil.example")], 403),
    "null origin": ("POST", f"/{TOKEN}/attend", [HOST, ("origin", "null"), JSON], 403),
    "https origin": ("POST", f"/{TOKEN}/attend", [HOST, ("origin", "https://127.0.0.1:4321"), JSON], 403),
    "two origins": ("POST", f"/{TOKEN}/attend", [HOST, ORIGIN, ORIGIN, JSON], 403),
    "no origin": ("POST", f"/{TOKEN}/attend", [HOST, JSON], 403),
    "another site": ("GET", f"/{TOKEN}/", [HOST, ("sec-fetch-site", "cross-site")], 403),
    "wrong token": ("GET", "/s3cres/", [HOST], 404),
    "longer token": ("GET", f"/{TOKEN}x/", [HOST], 404),
    "no token": ("GET", "/", [HOST], 404),
    "empty path": ("GET", "", [HOST], 404),
    "encoded token": ("GET", "/%73%33cret/", [HOST], 404),
    "no slash": ("GET", f"/{TOKEN}", [HOST], 404),
    "climbing": ("GET", f"/{TOKEN}/../../etc/passwd", [HOST], 404),
    "a file": ("GET", f"/{TOKEN}/index.html", [HOST], 404),
    "reading the endpoint": ("GET", f"/{TOKEN}/attend", [HOST], 405),
    "writing the page": ("POST", f"/{TOKEN}/", GOOD, 405),
    "deleting": ("DELETE", f"/{TOKEN}/", [HOST], 405),
    "a form": ("POST", f"/{TOKEN}/attend", [HOST, ORIGIN, ("content-type", "text/plain")], 415),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_strangers_are_refused_in_one_sentence(case):
    method, path, headers, status = case
    found = ask(method, path, headers, b'{"text": "abc"}')
    assert found.status == status
    assert "\n" not in found.error and TOKEN.encode() not in found.body and b"doctype" not in found.body
    assert found.headers["connection"] == "close"


BODIES = {
    "nothing": (b"", 400, "must be JSON"),
    "broken": (b'{"text": "a', 400, "must be JSON"),
    "not UTF-8": (b'{"text": "\xff"}', 400, "must be JSON"),
    "deep": (b"[" * 100_000, 400, "must be JSON"),
    "a list": (b'["abc"]', 400, "one text"),
    "a number": (b'{"text": 3}', 400, "one text"),
    "more keys": (b'{"text": "a", "path": "/etc"}', 400, "one text"),
    "half a pair": (b'{"text": "\\ud800"}', 400, "surrogate"),
    "blank": (b'{"text": " \\n"}', 422, "got none"),
    "long text": (b'{"text": "' + b"a" * 20_001 + b'"}', 413, "got 20001"),
    "long body": (b" " * (1 << 17) + b"{}", 413, "131072 bytes"),
    "refused by the model": (b'{"text": "bad"}', 422, "explore: expected a date, got bad;"),
    "a fault of the model": (b'{"text": "bug"}', 500, "could not read this text ('lost')"),
}


@pytest.mark.parametrize("case", BODIES.values(), ids=BODIES)
def test_bad_bodies_are_refused_in_one_sentence(case):
    body, status, words = case
    found = post(body)
    assert found.status == status and words in found.error and "\n" not in found.error


def test_a_body_must_arrive_in_time_and_whole():
    limits = Limits(body_seconds=0.05)
    assert post(b"", parts=[b'{"text"', 0.3, b': "a"}'], limits=limits).status == 408
    gone = asyncio.run(_disconnected())
    assert gone.status == 400 and "whole" in gone.error


async def _disconnected():
    app = make_app(PAGE, reversed_text, token=TOKEN, port=PORT)
    return await call(app, "POST", f"/{TOKEN}/attend", GOOD, parts=[])


def test_one_prediction_at_a_time():
    begun, finish = threading.Event(), threading.Event()

    def slow(text):
        begun.set()
        assert finish.wait(10)
        return {"inputs": []}

    async def both():
        app = make_app(PAGE, slow, token=TOKEN, port=PORT, limits=Limits(seconds=0.2))
        request = ("POST", f"/{TOKEN}/attend", GOOD, b'{"text": "a"}')
        first = asyncio.ensure_future(call(app, *request))
        while not begun.is_set():
            await asyncio.sleep(0.01)
        second = await call(app, *request)
        page = await call(app, "GET", f"/{TOKEN}/", [HOST])
        late = await first
        still = await call(app, *request)
        finish.set()
        for _ in range(100):
            again = await call(app, *request)
            if again.status == 200:
                break
            await asyncio.sleep(0.01)
        return second, page, late, still, again

    second, page, late, still, again = asyncio.run(both())
    assert second.status == 503 and "another text" in second.error
    assert page.status == 200
    assert late.status == 504 and "after 0.2 seconds" in late.error
    assert still.status == 503 and again.status == 200


@pytest.fixture
def server(monkeypatch):
    """A real server on a free port of the loopback address."""
    monkeypatch.setattr(serving, "_HEADER_SECONDS", 0.3)
    listening = open_socket()
    running, address = make_server(PAGE, reversed_text, listening, Limits())
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not running.started:
        time.sleep(0.01)
    yield address
    running.should_exit = True
    thread.join(10)
    listening.close()


def test_over_a_socket(server):
    _, _, host, token, _ = server.split("/")
    assert host.startswith("127.0.0.1:") and len(token) == 32
    connection = http.client.HTTPConnection(host, timeout=5)
    connection.request("GET", f"/{token}/")
    found = connection.getresponse()
    assert found.status == 200 and found.read() == PAGE.encode() and found.getheader("server") is None
    body, headers = json.dumps({"text": "abc"}), {"Origin": f"http://{host}", "Content-Type": "application/json"}
    connection.request("POST", f"/{token}/attend", body, headers)
    assert json.load(connection.getresponse()) == {"inputs": ["cba"]}
    name, port = host.split(":")
    for start in (b"GET / HT", b"\x16\x03\x01\x02\x00", b"GET / HTTP/1.1\r\nHost: " + b"a" * 20_000):
        with socket.create_connection((name, int(port)), 5) as plain:  # slow, not HTTP, too long
            plain.sendall(start)
            answer = b""
            try:
                while part := plain.recv(4096):
                    answer += part
            except ConnectionResetError:
                pass
            assert answer == b"" or answer.startswith(b"HTTP/1.1 400")


def test_a_taken_port_is_named():
    with open_socket() as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(DataError, match=f"port {port} must be free.*choose another with --port"):
            open_socket(port)


@pytest.mark.slow
def test_hostile_requests_are_refused():
    """A short run of the fuzzer, which sends far more; see tests/fuzz/server.py."""
    path = Path(__file__).parent.parent / "fuzz" / "server.py"
    spec = importlib.util.spec_from_file_location("fuzz_server", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    fuzzer = module.Fuzzer(seed=3)
    try:
        sent = fuzzer.run(1000, 30.0)
    finally:
        fuzzer.close()
    assert sent > 500 and fuzzer.failures == []
