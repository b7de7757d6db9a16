/* An echo server on level-triggered epoll, in C. It knows nothing of the workshop but the contract of a server. */
#include "echo.h"
#include <sys/epoll.h>

/* Events of one turn. What does not fit comes with the next one. */
#define EVENTS 64

static int epoll;

/* The listener's events have no connection. */
static void watch(int operation, int fd, uint32_t events, struct connection *connection) {
    struct epoll_event event = {.events = events, .data.ptr = connection};
    if (epoll_ctl(epoll, operation, fd, &event) < 0) fail("epoll_ctl");
}

static uint32_t interest(const struct connection *connection) {
    uint32_t events = 0;
    if (wants_input(connection)) events |= EPOLLIN;
    if (has_output(connection) && BUG != REST_NOT_ASKED_FOR) events |= EPOLLOUT;
    if (BUG == OUT_ALWAYS_ON) events |= EPOLLOUT;     /* "So that I can send at any time." */
    if (BUG == RDHUP_ALWAYS_ON) events |= EPOLLRDHUP; /* "So that no end is missed." */
    return events;
}

static void look_at(struct connection *connection, uint32_t events) {
    int fd = connection->fd;
    if (BUG == HUP_IGNORED && events != EPOLLIN && events != EPOLLOUT) return;
    uint32_t before = interest(connection);
    if (!serve(connection)) {
        epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
        close(fd);
        free(connection);
    } else if (interest(connection) != before) {
        watch(EPOLL_CTL_MOD, fd, interest(connection), connection);
    }
}

/* Returns false if no descriptor is free for a client who waits. */
static bool accept_all(int listener) {
    struct connection *accepted;
    enum accepted outcome;
    while ((outcome = accept_one(listener, &accepted)) == A_CONNECTION)
        watch(EPOLL_CTL_ADD, accepted->fd, interest(accepted), accepted);
    return outcome == NOBODY;
}

int main(int argc, char **argv) {
    int listener = start_to_listen(argc, argv);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) fail("epoll_create1");
    watch(EPOLL_CTL_ADD, listener, EPOLLIN, NULL);
    bool rests = false;
    for (;;) {
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(epoll, events, EVENTS, rests ? NO_ROOM_PAUSE : -1);
        if (ready < 0) {
            if (errno == EINTR && BUG != EINTR_FATAL) continue;
            fail("epoll_wait");
        }
        bool is_asked_for = rests;
        for (int i = 0; i < ready; i++) {
            if (events[i].data.ptr == NULL) is_asked_for = true;
            else look_at(events[i].data.ptr, events[i].events);
        }
        if (is_asked_for) {
            bool had_rested = rests;
            rests = !accept_all(listener);
            /* With no events it is not watched: at the descriptor limit it would be ready on every turn. */
            if (rests != had_rested) watch(EPOLL_CTL_MOD, listener, rests ? 0 : EPOLLIN, NULL);
        }
    }
}
