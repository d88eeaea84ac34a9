"""Hostile requests to the server of `omegamax explore --serve`.

    python tests/fuzz/run.py server --seconds 60                      for a time
    python tests/fuzz/server.py --requests 100000 --seed 0            for a number of requests, with a summary

A hostile request is a good one that was spoilt in at least one way that must be refused: another host, origin, token,
path, method, type or body. Most are given to the application in this process. One in five goes through a socket, as
bytes, where also what is not HTTP is sent: garbage, huge or endless headers, lengths that lie, clients that send the
beginning of a request and wait. The server must refuse all of them, show neither its page nor its token nor an answer,
raise nothing, and still answer good requests afterwards.
"""

import argparse
import asyncio
import collections
import contextlib
import json
import logging
import pathlib
import random
import resource
import socket
import sys
import threading
import time

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER.parent / "model_views"), str(FOLDER)]

from _hostile_requests import as_bytes, good_case, hostile_case, strange_bytes  # noqa: E402

n_cases = 0
_SECRET = "the-page-of-the-user"  # in the page and in every answer: it must never be in a refusal
_SOCKET_SHARE = 0.2
_SLOW_CLIENTS = 40
_REFUSED = {400, 403, 404, 405, 408, 413, 415, 421, 422, 431, 503, 505}


class Fuzzer:
    """Sends requests and keeps what went wrong."""

    def __init__(self, seed):
        from omegamax.model_views import serving
        from omegamax.model_views.server import Limits

        self.chance = random.Random(seed)
        self.failures, self.statuses, self.n_slow = [], collections.Counter(), 0
        self.page = f"<!doctype html><title>{_SECRET}</title>"
        self.limits = Limits(body_seconds=1.0)
        self._header_seconds, serving._HEADER_SECONDS = serving._HEADER_SECONDS, 1.0
        self.listening = serving.open_socket()
        self.server, self.address = serving.make_server(self.page, self.predict, self.listening, self.limits)
        self.port, self.token = self.listening.getsockname()[1], self.address.split("/")[3]
        self.app = self.server.config.app
        self.errors = _Errors()
        logger = logging.getLogger("uvicorn.error")
        logger.setLevel(logging.ERROR)
        logger.addHandler(self.errors)
        logger.propagate = False
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.listening]}, daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)

    @staticmethod
    def predict(text):
        return {"inputs": [_SECRET, text]}

    def close(self):
        from omegamax.model_views import serving

        self.server.should_exit = True
        self.thread.join(20)
        self.listening.close()
        logging.getLogger("uvicorn.error").removeHandler(self.errors)
        serving._HEADER_SECONDS = self._header_seconds
        self.failures += self.errors.found

    def run(self, n_requests, seconds):
        """Sends hostile requests, with a good one now and then; returns how many hostile ones were sent."""
        end, sent = time.monotonic() + seconds, 0
        slow = threading.Thread(target=self._slow_clients)
        slow.start()
        while sent < n_requests and time.monotonic() < end:
            some = min(500, n_requests - sent)
            n_raw = int(_SOCKET_SHARE * some)
            asyncio.run(self._in_process(some - n_raw))
            for _ in range(n_raw):
                self._over_socket()
            self._check_good()
            sent += some
        slow.join()
        self._check_good()
        return sent + self.n_slow

    async def _in_process(self, count):
        from asgi_client import call

        for _ in range(count):
            case = hostile_case(self.chance, self.token, self.port)
            headers = [(name, value) for name, values in case.headers.items() for value in values]
            cut = self.chance.randrange(len(case.body) + 1)
            try:
                found = await call(self.app, case.method, case.path, headers, parts=[case.body[:cut], case.body[cut:]])
            except Exception as error:
                self._fail(case, f"raised {error!r}")
                continue
            self._check(case, found.status, found.body)
            try:
                assert "\n" not in json.loads(found.body)["error"]
            except Exception as error:
                self._fail(case, f"answered {found.body[:80]!r} ({error!r})")

    def _over_socket(self):
        if self.chance.random() < 0.5:
            case = hostile_case(self.chance, self.token, self.port)
            content = as_bytes(case)
        else:
            content = case = strange_bytes(self.chance, self.token, self.port)
        answer = exchange(self.port, content)
        if answer is None:
            self._fail(case, "got no answer, and the connection stayed open")
            return
        if not answer:
            self.statuses["closed"] += 1
            return
        for each in answer.split(b"HTTP/1.1 ")[1:]:
            if each[:3] != b"100":  # continue: no answer yet
                self._check(case, int(each[:3]), each)

    def _check(self, case, status, body):
        self.statuses[status] += 1
        if status not in _REFUSED:
            self._fail(case, f"got {status}")
        if _SECRET.encode() in body or self.token.encode() in body:
            self._fail(case, "was shown what is secret")

    def _check_good(self):
        case = good_case(self.chance, self.token, self.port)
        answer = exchange(self.port, as_bytes(case), ends=False) or b""
        if not answer.startswith(b"HTTP/1.1 200") or _SECRET.encode() not in answer:
            self._fail(case, f"was a good request, and got {answer[:60]!r}")

    def _slow_clients(self):
        """Opens connections that send a part of a request and wait; the server must close all of them."""
        starts = [b"GET / HTTP/1.1\r\nHost: ", as_bytes(good_case(random.Random(1), self.token, self.port))[:-1]]
        begin, clients = time.monotonic(), []
        for number in range(_SLOW_CLIENTS):
            client = socket.create_connection(("127.0.0.1", self.port), 5)
            client.sendall(starts[number % 2])
            clients.append(client)
        for client in clients:
            client.settimeout(max(0.1, begin + 10 - time.monotonic()))
            try:
                while client.recv(65536):
                    pass
            except TimeoutError:
                self.failures.append("a slow client was still connected after 10 seconds")
            except OSError:
                pass
            client.close()
        self.n_slow += len(clients)

    def _fail(self, case, what):
        shown = (
            case[:200]
            if isinstance(case, bytes)
            else (case.method, case.path, case.headers, case.body[:60], case.spoilt)
        )
        self.failures.append(f"{shown} {what}")


class _Errors(logging.Handler):
    """Keeps what the server logs as errors: exceptions that nobody handled."""

    def __init__(self):
        super().__init__()
        self.found = []

    def emit(self, record):
        reason = record.exc_info[1] if record.exc_info else ""
        self.found.append(f"the server logged {record.getMessage()[:200]!r} {reason!r}")


def exchange(port, content, *, ends=True):
    """Sends bytes, and `ends` its side; returns all that comes back, None if the connection stays open."""
    with contextlib.closing(socket.create_connection(("127.0.0.1", port), 5)) as plain:
        plain.settimeout(5)
        answer = b""
        try:
            with contextlib.suppress(OSError):  # the server may close before it has read everything
                plain.sendall(content)
                if ends:
                    plain.shutdown(socket.SHUT_WR)
            while part := plain.recv(65536):
                answer += part
        except TimeoutError:
            return None
        except OSError:
            pass
        return answer


def fuzz(seed, seconds):
    """Tries hostile requests for about `seconds`; without the extra `explore` it says so and does nothing."""
    global n_cases
    try:
        import omegamax.model_views.serving  # noqa: F401
    except ImportError as error:
        print(f"server: {error}")
        return []
    fuzzer = Fuzzer(seed)
    try:
        n_cases = fuzzer.run(10**9, seconds)
    finally:
        fuzzer.close()
    return fuzzer.failures


def main():
    """Sends a number of requests, and prints how they were answered."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    fuzzer = Fuzzer(options.seed)
    began, cpu, memory = time.monotonic(), time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        sent = fuzzer.run(options.requests, 3600)
    finally:
        fuzzer.close()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024
    print(f"{sent} hostile requests, {fuzzer.n_slow} of them slow clients, seed {options.seed}")
    seconds, of_processor = time.monotonic() - began, time.process_time() - cpu
    print(f"{seconds:.0f} s, {of_processor:.0f} s of processor time, peak memory +{grown:.0f} MB")
    print("answers:", dict(sorted(fuzzer.statuses.items(), key=str)))
    print(f"{len(fuzzer.failures)} failures")
    for failure in fuzzer.failures[:20]:
        print(" ", failure)
    return int(bool(fuzzer.failures))


if __name__ == "__main__":
    sys.path.insert(0, str(FOLDER.parent.parent))
    sys.exit(main())
