/* The benchmark's stdio upstream: one JSON-RPC message per line, legacy era, until stdin closes. */
#define _GNU_SOURCE
#include "answers.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#define READ_SIZE 65536

static void write_all(slice what) {
  while (what.length) {
    ssize_t written = write(STDOUT_FILENO, what.at, what.length);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) exit(0);
    what.at += written, what.length -= written;
  }
}

static void write_answer(answer *made) {
  append(made->bulk.length ? &made->tail : &made->head, TEXT("\n"));
  write_all((slice){ made->head.at, made->head.length });
  if (!made->bulk.length) return;
  write_all(made->bulk);
  write_all((slice){ made->tail.at, made->tail.length });
}

static void serve(slice line) {
  static answer made;
  request wanted;
  char event[512];
  if (!understand(line, &wanted) || !wanted.id.at || !wanted.method.at) return;
  made.head.length = made.tail.length = made.bulk.length = 0;
  wanted.modern = false;
  for (long step = 1; is_progress_call(&wanted) && step <= wanted.count; step++) {
    slice message = progress_message(event, sizeof event - 1, &wanted, step);
    event[message.length] = '\n';
    write_all((slice){ event, message.length + 1 });
  }
  answer_request(&made, &wanted, 3);
  write_answer(&made);
}

int main(void) {
  buffer input = { 0 };
  for (;;) {
    if (input.capacity - input.length < READ_SIZE) {
      input.capacity = 2 * input.capacity + READ_SIZE;
      if (!(input.at = realloc(input.at, input.capacity))) abort();
    }
    ssize_t got = read(STDIN_FILENO, input.at + input.length, input.capacity - input.length);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return 0;
    input.length += got;
    char *start = input.at, *end = start + input.length, *newline;
    while ((newline = memchr(start, '\n', end - start))) {
      serve((slice){ start, newline - start });
      start = newline + 1;
    }
    input.length = end - start;
    memmove(input.at, start, input.length);
  }
}
