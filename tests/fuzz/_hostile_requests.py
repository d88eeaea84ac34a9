"""Requests that the server of `omegamax explore --serve` must refuse, for the fuzzer `server`."""

import json

_HOSTS = [
    "evil.example", "127.0.0.1", "localhost", "[::1]:{port}", "0.0.0.0:{port}", "127.0.0.1:{port}.evil.example",
    "", "127.0.0.1:{port}@evil.example", "user@127.0.0.1:{port}", "127.0.0.1:0{port}", "127.1:{port}",
    "LOCALHOST:{port}x", "127.0.0.1 :{port}", "127.0.0.1:{port},evil.example", "xn--lcalhost-n5a:{port}",
    "localhost.:{port}",
]  # fmt: skip
_ORIGINS = [
    "null", "http://evil.example", "https://127.0.0.1:{port}", "http://127.0.0.1", "file://", "",
    "http://localhost", "http://127.0.0.1:{port}.evil.example", "http://127.0.0.1:{port}/", "moz-extension://a",
]  # fmt: skip
_PATHS = [
    "/", "", "//", "/etc/passwd", "/..", "/{token}", "/{token}/../", "/{token}/../../etc/passwd",
    "/../{token}/x", "/{token}//", "/{token}/attend/", "/{token}/attend/..",
    "/{token}/%2e%2e/%2e%2e/etc/passwd", "/{token}%2f", "/{token}/..%5c..%5cwindows", "/%00{token}/",
    "/{token}/index.html", "/favicon.ico", "/{token}/.env", "/{token};/", "/{upper}/", "/{token}x/",
    "/x{token}/", "/{short}/", "/./{token}/", "//{token}/", "/{token}/attendx", "/{token}/%61ttend",
    "/%2f{token}/", "/{token}\\", "/a/{token}/", "/{token}/\u202e", "*",
]  # fmt: skip
_METHODS = [
    "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get", "POST ", "X" * 300,
]  # fmt: skip
_TYPES = [
    "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a", "", "text/json",
    "json",
]  # fmt: skip


class Case:
    """A request and what was done to it."""

    def __init__(self, method, path, headers, body):
        self.method, self.path, self.headers, self.body, self.spoilt = method, path, headers, body, []


def good_case(chance, token, port, text="abc"):
    host = chance.choice([f"127.0.0.1:{port}", f"localhost:{port}"])
    if chance.random() < 0.4:
        return Case("GET", f"/{token}/", {"host": [host]}, b"")
    headers = {"host": [host], "origin": [f"http://{host}"], "content-type": ["application/json"]}
    return Case("POST", f"/{token}/attend", headers, json.dumps({"text": text}).encode())


def hostile_case(chance, token, port):
    """Spoils a good request in one to three ways, each of which must be refused."""
    case = good_case(chance, token, port)
    ways = [_spoil_host, _spoil_origin, _spoil_site, _spoil_path, _spoil_method]
    if case.method == "POST":
        ways += [_spoil_type, _spoil_body, _spoil_body, _drop_origin]
    for way in chance.sample(ways, chance.choice([1, 1, 1, 2, 3])):
        way(chance, case, token, port)
        case.spoilt.append(way.__name__)
    if chance.random() < 0.2:
        case.headers.setdefault("x-forwarded-host", []).append(f"127.0.0.1:{port}")
        case.headers.setdefault("cookie", []).append("a=" + "b" * chance.randrange(2000))
    return case


def _random_text(chance, longest=60):
    alphabet = "ab/.%\\\"'<>&{}[]:;,?#@ \t\u00e9\u4e2d\u202e\u2028\U0001f600\x00\x1b"
    return "".join(chance.choice(alphabet) for _ in range(chance.randrange(1, longest)))


def _spoil_host(chance, case, token, port):
    wrong = chance.choice(_HOSTS).format(port=port) if chance.random() < 0.8 else _random_text(chance)
    case.headers["host"] = chance.choice(
        [[wrong], [wrong], [], case.headers["host"] * 2, [*case.headers["host"], wrong]]
    )


def _spoil_origin(chance, case, token, port):
    wrong = chance.choice(_ORIGINS).format(port=port) if chance.random() < 0.8 else _random_text(chance)
    own = f"http://127.0.0.1:{port}"
    case.headers["origin"] = chance.choice([[wrong], [wrong], [own, own], [own, wrong], [wrong, own]])


def _drop_origin(chance, case, token, port):
    case.headers.pop("origin", None)


def _spoil_site(chance, case, token, port):
    case.headers["sec-fetch-site"] = [chance.choice(["cross-site", "same-site", "", "SAME-ORIGIN", "none, none"])]


def _spoil_path(chance, case, token, port):
    names = {"token": token, "upper": token.swapcase(), "short": token[:-1]}
    case.path = chance.choice(_PATHS).format(**names) if chance.random() < 0.8 else "/" + _random_text(chance)


def _spoil_method(chance, case, token, port):
    other = "POST" if case.method == "GET" else "GET"
    case.method = chance.choice([*_METHODS, other])


def _spoil_type(chance, case, token, port):
    case.headers["content-type"] = [chance.choice(_TYPES)]
    if chance.random() < 0.2:
        del case.headers["content-type"]


def _spoil_body(chance, case, token, port):
    good = case.body
    place = chance.randrange(max(1, len(good)))
    case.body = chance.choice([
        lambda: good[:place],
        lambda: b"",
        lambda: chance.randbytes(chance.randrange(1, 300)),
        lambda: b"[" * chance.choice([10, 5000, 120_000]),
        lambda: b'{"text":' * 2000,
        lambda: json.dumps({"text": "a" * chance.choice([20_001, 60_000])}).encode(),
        lambda: b" " * 140_000,
        lambda: json.dumps({"text": chance.choice([None, 3, [], {}, True, ["a"]])}).encode(),
        lambda: json.dumps({"text": "a", chance.choice(["path", "__proto__", "model", ""]): "/etc/passwd"}).encode(),
        lambda: json.dumps(chance.choice([None, 1, "text", ["text"], {}])).encode(),
        lambda: b'{"text": "\\ud800"}',
        lambda: b'{"text": "' + bytes([0xC3, 0x28]) + b'"}',
        lambda: b'{"text": ' + b"9" * 6000 + b"}",
        lambda: json.dumps({"text": " \n\t" * chance.randrange(5)}).encode(),
        lambda: b'{"text": NaN}',
        lambda: b"{'text': 'a'}",
        lambda: json.dumps({"text": "a"}).encode("utf-16") + b"\xff",
    ])()  # fmt: skip


def as_bytes(case):
    lines = [f"{case.method} {case.path or '/'} HTTP/1.1".encode(errors="replace")]
    for name, values in case.headers.items():
        lines += [f"{name}: {value}".encode(errors="replace") for value in values]
    return b"\r\n".join([*lines, b"content-length: %d" % len(case.body), b"", case.body])


def strange_bytes(chance, token, port):
    """Sends what is hardly HTTP."""
    head = f"Host: 127.0.0.1:{port}\r\n".encode()
    post = f"POST /{token}/attend HTTP/1.1\r\n".encode() + head
    typed = post + f"Origin: http://127.0.0.1:{port}\r\nContent-Type: application/json\r\n".encode()
    return chance.choice([
        lambda: chance.randbytes(chance.randrange(1, 4000)),
        lambda: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + chance.randbytes(200),
        lambda: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        lambda: b"GET /\r\n",
        lambda: f"GET /{token}/ HTTP/1.1\r\n\r\n".encode(),
        lambda: f"GET /{token}/ HTTP/9.9\r\n".encode() + head + b"\r\n",
        lambda: f"GET http://evil.example/{token}/ HTTP/1.1\r\nHost: evil.example\r\n\r\n".encode(),
        lambda: b"GET / HTTP/1.1\r\n" + head + b"A: " + b"a" * chance.choice([20_000, 70_000]),
        lambda: b"GET / HTTP/1.1\r\n" + head + b"A: b\r\n" * chance.choice([900, 4000]) + b"\r\n",
        lambda: b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n" + head + b"\r\n",
        lambda: post + b"Content-Length: -5\r\n\r\n",
        lambda: post + b"Content-Length: 99999999999999999999\r\n\r\na",
        lambda: post + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        lambda: typed + b"Content-Length: 500\r\n\r\n" + b'{"text":',
        lambda: typed + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n",
        lambda: typed + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\na",
        lambda: typed + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        lambda: typed + b"Transfer-Encoding: chunked\r\n\r\n" + b"ffff\r\n" + b"a" * 65535 + b"\r\n",
        lambda: b"GET / HTTP/1.1\r\n" + head + b" folded: yes\r\n\r\n",
        lambda: b"GET / HTTP/1.1\r\n" + head + b"Name\x00: a\r\n\r\n",
        lambda: b"GET / HTTP/1.1\r\n" + head + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        lambda: b"GET / HTTP/1.1\r\n" + head + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n",
        lambda: (b"GET / HTTP/1.1\r\n" + head + b"\r\n") * 50,
        lambda: b"GET / HTTP/1.1\r\n" + head + b"Expect: 100-continue\r\nContent-Length: 9\r\n\r\n",
    ])()  # fmt: skip
