/* An echo server on poll, in C. It knows nothing of the workshop but the contract of a server. */
#include "echo.h"
#include <poll.h>

/* Two lists side by side: connections[i] is watched by entries[i]. The listener has place 0, and no connection. */
static struct pollfd *entries;
static struct connection **connections;
static size_t count, capacity;

static void add(int fd, struct connection *connection) {
    if (count == capacity) {
        capacity = capacity ? 2 * capacity : 64;
        entries = realloc(entries, capacity * sizeof *entries);
        connections = realloc(connections, capacity * sizeof *connections);
        if (entries == NULL || connections == NULL) fail("realloc");
    }
    entries[count] = (struct pollfd){.fd = fd, .events = POLLIN};
    connections[count++] = connection;
}

/* The last one takes its place: so the list is walked from its end, where that one has been looked at already. */
static void drop(size_t place) {
    close(entries[place].fd);
    free(connections[place]);
    entries[place] = entries[--count];
    connections[place] = connections[count];
}

static void look_at(size_t place) {
    struct pollfd *entry = &entries[place];
    if (BUG == HUP_IGNORED && entry->revents != POLLIN && entry->revents != POLLOUT) return;
    if (!serve(connections[place])) {
        drop(place);
        return;
    }
    entry->events = 0;
    if (wants_input(connections[place])) entry->events |= POLLIN;
    if (has_output(connections[place]) && BUG != REST_NOT_ASKED_FOR) entry->events |= POLLOUT;
    if (BUG == OUT_ALWAYS_ON) entry->events |= POLLOUT; /* "So that I can send at any time." */
}

int main(int argc, char **argv) {
    int listener = start_to_listen(argc, argv);
    add(listener, NULL);
    for (;;) {
        bool rests = entries[0].fd < 0;
        if (poll(entries, count, rests ? NO_ROOM_PAUSE : -1) < 0) {
            if (errno == EINTR) continue;
            fail("poll");
        }
        for (size_t place = count - 1; place > 0; place--)
            if (entries[place].revents != 0) look_at(place);
        if (rests) {
            entries[0].fd = listener;
        } else if (entries[0].revents != 0) {
            struct connection *accepted;
            enum accepted outcome;
            while ((outcome = accept_one(listener, &accepted)) == A_CONNECTION) add(accepted->fd, accepted);
            /* poll skips an entry with a negative number. */
            if (outcome == NO_ROOM) entries[0].fd = -1;
        }
    }
}
