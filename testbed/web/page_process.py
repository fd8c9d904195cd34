"""The process of a live page: hears of the run, draws its charts, serves both.

Started by `live_page` with two descriptors: its end of the run's connection, and a socket that
listens. It ends when the run's end of the connection is closed. All that it needs of root it has
then: it goes on as the user behind sudo, at a lower priority than the run, and draws nothing while
nobody looks.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from testbed.web.live_charts import LiveCharts
from testbed.web.page_server import PageServer

DRAWING_SHARE = 0.1  # of the time, at most
DRAW_S = 1.0  # between two pictures, at least
LAST_S = 10.0  # for readers to hear of the end


def main(connection: Connection, listening: socket.socket) -> None:
    """Serve until the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(5)
    _, opened = connection.recv()
    if opened["user"] is not None:
        uid, gid = opened["user"]
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    charts = LiveCharts()
    server = PageServer(listening, opened["token"])
    server.start()
    next_s = 0.0
    stale = False
    while True:
        ready = connection.poll(0.2)
        try:
            kind, content = connection.recv() if ready else ("", {})
        except (EOFError, OSError):
            break
        if kind == "begin":
            charts.begin(**content)
            server.publish("begin", {})
        elif kind == "state":
            server.publish("state", content)
        elif kind == "draw":
            charts.add(content)
            stale = True
        elif kind == "end":
            if stale and server.readers:
                _publish_charts(server, charts)
                stale = False
            _publish_end(server, content, opened["stay"])
        # Behind with what the run says, or nobody looks: later.
        looked_at = server.readers > 0
        if stale and looked_at and not connection.poll(0) and time.monotonic() >= next_s:
            began_s = time.monotonic()
            _publish_charts(server, charts)
            drawn_s = time.monotonic() - began_s
            next_s = time.monotonic() + max(DRAW_S, drawn_s / DRAWING_SHARE)
            stale = False
    server.close(LAST_S)


def _publish_charts(server: PageServer, charts: LiveCharts) -> None:
    server.publish("charts", charts.changed())
    server.publish("drawn", {"elapsed_ns": charts.elapsed_ns})


def _publish_end(server: PageServer, content: dict[str, Any], stay: bool) -> None:
    report = content["report"]
    server.report = Path(report) if report and stay else None
    link = "report.html" if server.report else None
    server.publish("end", {"how": content["how"], "report": report, "link": link})


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])), socket.socket(fileno=int(sys.argv[2])))
