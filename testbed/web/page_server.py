"""The web server of a live page: one page, and a stream of updates (server-sent events).

Only who has the token in the page's address gets an answer other than 403. It listens at 127.0.0.1,
and answers only who asks for that name, so that no other site can read it through a name of its
own. It takes nothing from its readers but the path of a request.
"""

from __future__ import annotations

import functools
import hmac
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import Any

from testbed.analysis.html import html_page

READERS = 32  # at one time
STILL_ALIVE_S = 10.0  # between two comments that keep a quiet stream open
NAMES = ("127.0.0.1", "localhost")


class PageServer:
    """`report`: the file that the page leads to; None: it leads to none."""

    def __init__(self, listening: socket.socket, token: str) -> None:
        """listening: a socket that listens already."""
        self.report: Path | None = None
        self._token = token
        self._changed = threading.Condition()
        self._latest: dict[str, str] = {}  # by kind of event, as JSON
        self._charts: dict[str, dict[str, Any]] = {}
        self._numbers: dict[str, int] = {}  # of the latest event of each kind
        self._count = 0
        self._ended = False
        self.readers = 0
        port = listening.getsockname()[1]
        self._http = _Server(("127.0.0.1", port), functools.partial(_Handler, self), False)
        self._http.socket.close()
        self._http.socket = listening
        self._http.server_address = ("127.0.0.1", port)

    def start(self) -> None:
        """Answer from now on, in threads."""
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def publish(self, kind: str, content: dict[str, Any]) -> None:
        """Tell all readers, and later ones: "begin" (a repetition: charts are gone), "state",
        "charts" (those that have changed, by name), "drawn" (up to when they show the run),
        "end"."""
        with self._changed:
            if kind == "begin":
                self._charts = {}
                for gone in ("charts", "drawn"):
                    self._latest.pop(gone, None)
            if kind == "charts":
                self._charts |= content
                content = self._charts
            self._count += 1
            self._numbers[kind] = self._count
            self._latest[kind] = html_page.script_json(content)
            self._changed.notify_all()

    def close(self, patience_s: float) -> None:
        """End, when all readers have heard all that was published, or after a while."""
        deadline_s = time.monotonic() + patience_s
        with self._changed:
            self._ended = True
            self._changed.notify_all()
            while self.readers and (left_s := deadline_s - time.monotonic()) > 0:
                self._changed.wait(left_s)
        self._http.shutdown()
        self._http.server_close()

    def stream(self, write: Any) -> None:
        """Write all events, until the end; raises OSError when the reader is gone."""
        told: dict[str, int] = {}
        names: dict[str, str] = {}  # of the charts that were told, and what
        while True:
            with self._changed:
                self._changed.wait_for(functools.partial(self._has_news, told), STILL_ALIVE_S)
                order = sorted(self._numbers, key=lambda kind: self._numbers[kind])
                fresh = [kind for kind in order if self._numbers[kind] > told.get(kind, 0)]
                news = [(kind, self._latest.get(kind)) for kind in fresh]
                charts = dict(self._charts)
                told = dict(self._numbers)
                ended = self._ended
            for kind, text in news:
                if text is None:
                    continue
                if kind == "charts":
                    some = {
                        name: chart
                        for name, chart in charts.items()
                        if names.get(name) != chart["digest"]
                    }
                    names |= {name: chart["digest"] for name, chart in some.items()}
                    text = html_page.script_json(some)
                elif kind == "begin":
                    names = {}
                write(f"event: {kind}\ndata: {text}\n\n".encode())
            if not news:
                write(b": still there\n\n")
            if ended:
                return

    def _has_news(self, told: dict[str, int]) -> bool:
        newer = (number > told.get(kind, 0) for kind, number in self._numbers.items())
        return self._ended or any(newer)

    def is_token(self, text: str) -> bool:
        """True if a part of an address is the token."""
        return hmac.compare_digest(text.encode(), self._token.encode())

    def enter(self) -> bool:
        """One more reader of the stream; False: there are too many."""
        with self._changed:
            if self.readers >= READERS:
                return False
            self.readers += 1
            return True

    def leave(self) -> None:
        """A reader is gone."""
        with self._changed:
            self.readers -= 1
            self._changed.notify_all()


class _Server(ThreadingHTTPServer):
    daemon_threads = True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"
    timeout = 30

    def __init__(self, page: PageServer, *arguments: Any) -> None:
        self._page = page
        super().__init__(*arguments)

    def do_GET(self) -> None:  # noqa: N802  # the name that http.server calls
        parts = self.path.split("?")[0].split("/")
        host = self.headers.get("Host", "").rsplit(":", 1)[0]
        if host not in NAMES or len(parts) < 2 or not self._page.is_token(parts[1]):
            return self._answer(403, "text/plain", b"403: the address of the page has a token\n")
        name = "/".join(parts[2:])
        if len(parts) == 2:
            return self._answer(301, "text/plain", b"", {"Location": f"/{parts[1]}/"})
        if name == "":
            return self._answer(200, "text/html", whole_page())
        if name == "events":
            return self._events()
        if name == "report.html" and self._page.report is not None:
            try:
                return self._answer(200, "text/html", self._page.report.read_bytes())
            except OSError:
                pass
        return self._answer(404, "text/plain", b"404: there is no such page\n")

    def _events(self) -> None:
        if not self._page.enter():
            return self._answer(503, "text/plain", b"503: too many readers of this page\n")
        try:
            self._head(200, "text/event-stream", {})
            self._page.stream(self._write)
        except OSError:
            pass  # the reader is gone
        finally:
            self._page.leave()

    def _write(self, data: bytes) -> None:
        self.wfile.write(data)
        self.wfile.flush()

    def _head(self, code: int, kind: str, more: dict[str, str]) -> None:
        self.send_response(code)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header(
            "Content-Security-Policy",
            "default-src 'self' 'unsafe-inline' data: blob:; frame-ancestors 'none'",
        )
        for name, value in more.items():
            self.send_header(name, value)
        self.end_headers()

    def _answer(
        self, code: int, kind: str, body: bytes, more: dict[str, str] | None = None
    ) -> None:
        self._head(code, kind, {"Content-Length": str(len(body)), **(more or {})})
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """The terminal is the run's."""


@functools.cache
def whole_page() -> bytes:
    """The page, without anything that the run has said."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = resources.files("testbed.web").joinpath("templates")
    environment = Environment(
        loader=PackageLoader("testbed.web"), autoescape=True, undefined=StrictUndefined
    )
    text = environment.get_template("live.html.j2").render(
        css=html_page.style_sheet(),
        plotly=html_page.plotly_script(),
        shared=html_page.shared_script(),
        script=templates.joinpath("live.js").read_text(encoding="utf-8"),
    )
    return text.encode()
