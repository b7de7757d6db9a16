// Threads that wait in calls while others go on: an echo over a socket pair, then an execve that
// ends the thread which waits for it.
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int ends[2];

static void *echo(void *unused) {
  char bytes[100];
  ssize_t count;
  while ((count = read(ends[1], bytes, sizeof bytes)) > 0) write(ends[1], bytes, count);
  return 0;
}

static void *become(void *unused) {
  execl("/bin/true", "true", (char *)0);
  return 0;
}

int main(void) {
  char bytes[100];
  pthread_t thread;
  socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
  pthread_create(&thread, 0, echo, 0);
  for (int i = 0; i < 3; i++) write(ends[0], "hello", 5), read(ends[0], bytes, sizeof bytes);
  shutdown(ends[0], SHUT_WR);
  pthread_join(thread, 0);
  if (fork() == 0) _exit(3);
  wait(0);
  pthread_create(&thread, 0, become, 0);
  pause();
}
