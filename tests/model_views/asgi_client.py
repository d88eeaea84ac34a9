"""Calls an ASGI application in this process, without sockets."""

import asyncio
import json
from typing import NamedTuple


class Answer(NamedTuple):
    status: int
    headers: dict
    body: bytes

    @property
    def error(self):
        return json.loads(self.body)["error"]


async def call(app, method="GET", path="/", headers=(), body=b"", *, parts=None):
    """Sends one request; `parts` replaces the body by a list of pieces, where a number is a pause in seconds."""
    target, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 9),
        "scheme": "http",
        "method": method,
        "root_path": "",
        "path": target,
        "raw_path": target.encode(errors="surrogatepass"),
        "query_string": query.encode(errors="surrogatepass"),
        "headers": [(k.lower().encode("latin-1"), v.encode("latin-1", "replace")) for k, v in headers],
    }
    pending = [body] if parts is None else list(parts)
    sent = []

    async def receive():
        while pending and isinstance(pending[0], float):
            await asyncio.sleep(pending.pop(0))
        if not pending:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": pending.pop(0), "more_body": bool(pending)}

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    start = sent[0]
    found = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
    return Answer(start["status"], found, b"".join(message.get("body", b"") for message in sent[1:]))
