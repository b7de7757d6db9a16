/* What the two echo servers in C have in common: the listener, and a connection with its output buffer.
 *
 * Compiled with -DBUG=NAME it is a server that is wrong in one way. Search for BUG to see
 * them; each is written as one finds it. */
#ifndef ECHO_H
#define ECHO_H

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    NONE,
    SHORT_WRITE_LOST,
    REST_NOT_ASKED_FOR,
    OUT_ALWAYS_ON,
    RDHUP_ALWAYS_ON,
    LEFT_BLOCKING,
    ZERO_LENGTH_READ,
    END_NOT_CLOSED,
    HUP_IGNORED,
    EINTR_FATAL,
};

#ifndef BUG
#define BUG NONE
#endif

/* Connections that the kernel completes before they are accepted. */
#define BACKLOG 1024

/* How long the listener rests when no descriptor is free, in milliseconds. Whatever happens meanwhile ends the rest: it
 * may be a client that leaves. */
#define NO_ROOM_PAUSE 100

/* One read. The next one comes only when all of it is sent, so this is all that a client can take. */
#define BUFFER 65536

struct connection {
    int fd;
    bool at_end;        /* The client has ended its stream. */
    size_t begin, end;  /* The bytes that are still to be sent. */
    char buffer[BUFFER];
};

static void fail(const char *what) {
    perror(what);
    exit(1);
}

/* Listens where the last argument says, 127.0.0.1:PORT, and prints the port that it got. */
static int start_to_listen(int argc, char **argv) {
    const char *colon = strrchr(argv[argc - 1], ':');
    in_port_t port = colon ? htons(atoi(colon + 1)) : 0;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int on = 1;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listener < 0) fail("socket");
    if (setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0) fail("setsockopt");
    if (bind(listener, (struct sockaddr *)&address, length) < 0) fail("bind");
    if (listen(listener, BACKLOG) < 0) fail("listen");
    if (getsockname(listener, (struct sockaddr *)&address, &length) < 0) fail("getsockname");
    printf("listening on 127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

/* What accept4 has to say. */
enum accepted { A_CONNECTION, NOBODY, NO_ROOM };

static enum accepted accept_one(int listener, struct connection **accepted) {
    int flags = SOCK_CLOEXEC | SOCK_NONBLOCK;
    if (BUG == LEFT_BLOCKING) flags = SOCK_CLOEXEC; /* "The listener is non-blocking already." */
    for (;;) {
        int fd = accept4(listener, NULL, NULL, flags);
        if (fd >= 0) {
            *accepted = calloc(1, sizeof **accepted);
            if (*accepted == NULL) fail("calloc");
            (*accepted)->fd = fd;
            return A_CONNECTION;
        }
        switch (errno) {
        case EAGAIN: return NOBODY;
        case EMFILE: case ENFILE: case ENOBUFS: case ENOMEM: return NO_ROOM;
        case EBADF: case EINVAL: case ENOTSOCK: case EFAULT: fail("accept4"); break;
        default: break; /* That client has gone, or its network has; there may be others. */
        }
    }
}

static bool has_output(const struct connection *connection) {
    return connection->begin < connection->end;
}

/* Reads when all is sent. */
static bool wants_input(const struct connection *connection) {
    if (BUG == ZERO_LENGTH_READ) return !connection->at_end; /* "There is room behind what is not sent yet." */
    return !connection->at_end && !has_output(connection);
}

/* Reads and writes what goes. Returns false when the connection is over. */
static bool serve(struct connection *c) {
    if (wants_input(c)) {
        memmove(c->buffer, c->buffer + c->begin, c->end - c->begin);
        c->end -= c->begin;
        c->begin = 0;
        ssize_t received = read(c->fd, c->buffer + c->end, BUFFER - c->end);
        if (received < 0) {
            if (errno != EAGAIN && errno != EINTR) return false;
            received = 0;
        } else if (received == 0) {
            if (BUG == END_NOT_CLOSED) return true; /* "Nothing to read." */
            c->at_end = true;
        }
        c->end += received;
    }
    if (has_output(c)) {
        ssize_t sent = send(c->fd, c->buffer + c->begin, c->end - c->begin, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno != EAGAIN && errno != EINTR) return false;
            sent = 0;
        }
        c->begin += sent;
        if (BUG == SHORT_WRITE_LOST) c->begin = c->end; /* "It is sent." */
    }
    return has_output(c) || !c->at_end;
}

#endif
