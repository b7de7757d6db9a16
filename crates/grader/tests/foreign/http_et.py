#!/usr/bin/env python3
"""The HTTP server of exercise 5 on edge-triggered epoll, with Python's standard library alone.

    http_et.py [WRONG] --listen 127.0.0.1:0

Without WRONG it is right. Each WRONG is a class at the end: one method of the right server, as it is commonly written
instead. It knows nothing of the workshop but the contract of a server, and of that the routes that need no timer.
"""

import errno
import select
import socket
import sys
from select import EPOLLERR, EPOLLET, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLRDHUP

BACKLOG = 1024
READ_SIZE = 16 * 1024

# A connection with more output than this reads and answers no more, until all of it is sent.
HIGH_WATER_MARK = 64 * 1024

# When no descriptor is free, accept is tried again after this many seconds, and whenever a connection closes.
NO_ROOM_PAUSE = 0.1

NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Connection:
    """A connection, with the flags of its edges: an edge comes once, so what it said is kept until EAGAIN."""

    def __init__(self, sock):
        sock.setblocking(False)
        self.sock = sock
        self.input = bytearray()
        self.output = bytearray()
        self.readable = False
        self.at_end = False  # the client has ended its stream
        self.is_last = False  # it has asked for "Connection: close"
        self.lingers = False  # our stream has ended, the client's not yet

    def on_event(self, events):
        """Does all that can be done now. Returns False when the connection is over."""
        if events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR):
            self.readable = True
        while True:
            self.answer()
            self.flush()
            if self.output:
                return True  # EPOLLOUT will come: send has just said EAGAIN, or has taken only a part
            if self.at_end:
                return False
            if self.is_last and not self.lingers:
                # A close with unread input would be a reset, which destroys what is on its way. A server outside of
                # a test also needs a deadline here.
                self.sock.shutdown(socket.SHUT_WR)
                self.lingers = True
            if not self.readable:
                return True
            self.read()

    def read(self):
        try:
            data = self.sock.recv(READ_SIZE)
        except BlockingIOError:
            self.readable = False
            return
        if not data:
            self.at_end = True
        elif not self.is_last:
            self.input += data

    def flush(self):
        while self.output:
            try:
                sent = self.sock.send(self.output)
            except BlockingIOError:
                return
            del self.output[:sent]

    def answer(self):
        """Answers each whole request of the input."""
        while not self.is_last and len(self.output) < HIGH_WATER_MARK:
            length = self.answer_first()
            if length == 0:
                return
            del self.input[:length]

    def answer_first(self):
        """Answers the first request, and returns how many bytes it has; 0: it is not whole yet."""
        head_end = self.input.find(b"\r\n\r\n")
        if head_end < 0:
            return 0
        request_line, *fields = self.input[:head_end].decode("latin-1").split("\r\n")
        fields = dict(field.lower().split(":", 1) for field in fields)
        begin = head_end + 4
        end = begin + int(fields.get("content-length", "0"))
        if len(self.input) < end:
            return 0
        status, body = respond(request_line, bytes(self.input[begin:end]))
        self.is_last = fields.get("connection", "").strip() == "close"
        self.output += b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
        self.output += body
        return end


def respond(request_line, body):
    method, path, _version = request_line.split(" ")
    if method == "GET" and path == "/":
        return b"200 OK", b"epoll ET reactor\r\n"
    if method == "GET" and path.startswith("/bytes/"):
        length = int(path.removeprefix("/bytes/"))
        return b"200 OK", (bytes(range(251)) * (length // 251 + 1))[:length]
    if method == "POST" and path == "/echo":
        return b"200 OK", body
    return b"404 Not Found", b"no such route\n"


def accept_all(listener, epoll, connections, kind):
    """Accepts until EAGAIN. Returns False if no descriptor is free for a client who waits."""
    while True:
        try:
            sock, _ = listener.accept()
        except BlockingIOError:
            return True
        except OSError as error:
            if error.errno in NO_ROOM:
                return False
            continue  # that client has gone, or its network has
        connections[sock.fileno()] = kind(sock)
        epoll.register(sock, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)


def serve(port, kind):
    listener = socket.create_server(("127.0.0.1", port), backlog=BACKLOG)  # with SO_REUSEADDR
    listener.setblocking(False)
    print(f"listening on 127.0.0.1:{listener.getsockname()[1]}", flush=True)

    epoll = select.epoll()
    epoll.register(listener, EPOLLIN | EPOLLET)
    connections = {}
    somebody_waits = False
    while True:
        for fd, events in epoll.poll(NO_ROOM_PAUSE if somebody_waits else -1):
            if fd == listener.fileno():
                somebody_waits = True
                continue
            try:
                goes_on = connections[fd].on_event(events)
            except (OSError, ValueError):
                goes_on = False  # a broken connection, or a malformed request, is this one client's affair
            if not goes_on:
                connections.pop(fd).sock.close()
        if somebody_waits:
            somebody_waits = not accept_all(listener, epoll, connections, kind)


class Sendall(Connection):
    """sendall, as on a blocking socket, and "it will go out later". What it had not sent is lost; how much that was,
    sendall does not say."""

    def flush(self):
        try:
            self.sock.sendall(self.output)
        except BlockingIOError:
            pass
        self.output.clear()


class SendallOrClose(Connection):
    """sendall again. BlockingIOError is an OSError, and after an OSError the connection is closed."""

    def flush(self):
        self.sock.sendall(self.output)
        self.output.clear()


class ShortReadIsEnd(Connection):
    """A read that brought less than it could has emptied the socket, and one call is saved. The end of the stream may
    stand behind it."""

    def read(self):
        before = len(self.input)
        super().read()
        if len(self.input) - before < READ_SIZE:
            self.readable = False


class HangupFirst(Connection):
    """The hang-up is looked at before the input, since "the client has gone"."""

    def on_event(self, events):
        if events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR):
            return False
        return super().on_event(events)


class ClearedBuffer(Connection):
    """One request is answered, and the buffer is made ready for the next."""

    def answer(self):
        if self.answer_first() > 0:
            self.input.clear()


WRONG = {
    "sendall": Sendall,
    "sendall-or-close": SendallOrClose,
    "short-read-is-end": ShortReadIsEnd,
    "hangup-first": HangupFirst,
    "cleared-buffer": ClearedBuffer,
}

if __name__ == "__main__":
    *wrong, _listen, address = sys.argv[1:]
    serve(int(address.rpartition(":")[2]), WRONG[wrong[0]] if wrong else Connection)
