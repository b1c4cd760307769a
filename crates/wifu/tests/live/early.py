"""Servers that answer a request before they have read it all, and clients that still write it.

early.py serve PORT         python's http.server, which refuses every POST unread
early.py post IP PORT N     N requests of 2 MB; says how many got the answer
"""

import http.server
import socket
import sys


class Refusing(http.server.BaseHTTPRequestHandler):
    """Answers the header of a request."""

    def do_POST(self):
        """The body is not looked at."""
        self.send_error(413)

    def log_message(self, *_):
        """Nothing."""


def post(host, port):
    """Write as much as is taken, then read to the end."""
    s, got = socket.create_connection((host, port)), b""
    s.settimeout(20)
    try:
        s.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n")
        s.sendall(bytes(2_000_000))
    except ConnectionError:
        pass
    try:
        while data := s.recv(65536):
            got += data
    except ConnectionError:
        pass
    return b" 413 " in got.split(b"\r\n")[0]


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        http.server.ThreadingHTTPServer(("0.0.0.0", int(sys.argv[2])), Refusing).serve_forever()
    host, port, tries = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    print(sum(post(host, port) for _ in range(tries)), "answered")
