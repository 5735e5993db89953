"""A line between agents and the appliance, with weather: it can answer 503 to reports, and counts what passes."""

import http.client
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Line:
    """Passes every request on to `port`; `bad` reports get 503."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.bad = False
        self.seen: Counter[str] = Counter()
        line = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                report = self.path.startswith("/signal/")
                if report and line.bad:
                    line.seen[f"{self.command} refused"] += 1
                    self._answer(503, b"{}")
                    return
                there = http.client.HTTPConnection("127.0.0.1", line.port, timeout=10)
                try:
                    there.request(self.command, self.path, body, {"Content-Type": "application/json", "Host": self.headers["host"]})
                    answer = there.getresponse()
                    content = answer.read()
                except OSError:
                    line.seen["down"] += 1
                    self._answer(503, b"{}")
                    return
                finally:
                    there.close()
                if report:
                    line.seen[f"{self.command} passed"] += 1
                self._answer(answer.status, content)

            def _answer(self, status: int, content: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_HEAD = do_PUT = do_POST = do_any  # noqa: N815 - the names the library looks for

            def log_message(self, *words: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@contextmanager
def line_to(port: int) -> Iterator[Line]:
    made = Line(port)
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        thread.join()
        made.server.server_close()
