// Makes, in one thread, about one call of each kind whose notation differs.
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

static void nothing(int signal) {}

int main(void) {
  int ends[2];
  char bytes[300];
  pipe2(ends, O_NONBLOCK);
  write(ends[1], "abc", 3);

  fd_set in, out, except;
  FD_ZERO(&in); FD_ZERO(&out); FD_ZERO(&except);
  FD_SET(ends[0], &in); FD_SET(ends[1], &out); FD_SET(ends[0], &except);
  struct timeval soon = {1, 500};
  syscall(SYS_select, 10, &in, &out, &except, &soon);
  read(ends[0], bytes, 9);
  FD_ZERO(&in); FD_SET(ends[0], &in);
  soon = (struct timeval){0, 100};
  syscall(SYS_select, 10, &in, 0, 0, &soon);
  FD_SET(ends[0], &in); FD_SET(ends[1], &in);
  soon = (struct timeval){0, 0};
  syscall(SYS_select, 10, &in, 0, 0, &soon);

  int epoll = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event event = {EPOLLIN | EPOLLRDHUP | EPOLLET | 1 << 20, {.u64 = 0x700000005}};
  epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event);
  write(ends[1], "x", 1);
  struct epoll_event events[4];
  epoll_wait(epoll, events, 4, 100);
  epoll_wait(epoll, events, 4, 0);

  int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  struct itimerspec due = {{0, 1}, {0, 5}};
  timerfd_settime(timer, 0, &due, 0);
  int counter = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  unsigned long three = 3;
  write(counter, &three, 8);
  read(counter, &three, 8);
  read(counter, &three, 8);

  struct iovec parts[2] = {{"ab", 2}, {"\1\0012\377\0\33[\"\\", 9}};
  writev(ends[1], parts, 2);
  int unread;
  ioctl(ends[0], FIONREAD, &unread);
  memset(bytes, 'y', sizeof bytes);
  write(ends[1], bytes, sizeof bytes);

  mkdir("/tmp/an \"odd\" <name>)(", 0755);
  int odd = open("/tmp/an \"odd\" <name>)(", O_RDONLY);
  fcntl(odd, F_GETFL);
  close(odd);
  rmdir("/tmp/an \"odd\" <name>)(");
  int gone = open("/tmp/gone", O_CREAT | O_RDWR, 0644);
  unlink("/tmp/gone");
  write(gone, "a\033\177\r\n\t", 6);
  close(gone);

  int one = 1;
  socklen_t size = sizeof one;
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  getsockopt(listener, SOL_SOCKET, SO_ERROR, &one, &size);
  struct linger linger = {1, 0};
  setsockopt(listener, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
  struct sockaddr_in address = {AF_INET, 0, {htonl(INADDR_LOOPBACK)}};
  bind(listener, (void *)&address, sizeof address);
  listen(listener, 5);
  size = 128;
  getsockname(listener, (void *)&address, &size);
  fcntl(listener, F_SETFL, O_NONBLOCK);
  accept4(listener, 0, 0, SOCK_NONBLOCK);

  int local = socket(AF_UNIX, SOCK_STREAM, 0);
  struct sockaddr_un name = {AF_UNIX, "\0abstract"};
  bind(local, (void *)&name, 2 + 9);
  struct pollfd polled[2] = {{ends[0], POLLIN}, {-1, POLLOUT}};
  poll(polled, 2, 0);
  struct timespec second = {1, 0};
  ppoll(polled, 2, &second, 0);
  polled[0].fd = listener;
  poll(polled, 1, 1);
  umask(022);

  int client = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  connect(client, (void *)&address, sizeof address);
  int connection = accept4(listener, (void *)&address, &size, SOCK_NONBLOCK);
  sendto(client, "hi", 2, MSG_NOSIGNAL, 0, 0);
  recv(connection, bytes, sizeof bytes, 0);
  shutdown(connection, SHUT_WR);
  dup2(connection, 50);
  fcntl(connection, F_DUPFD_CLOEXEC, 60);
  close_range(50, 100, 0);

  signal(SIGALRM, nothing);
  struct itimerval alarm = {{0, 0}, {0, 10000}};
  setitimer(ITIMER_REAL, &alarm, 0);
  pause();
  kill(getpid(), SIGUSR1);
}
