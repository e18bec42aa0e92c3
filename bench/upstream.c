/* The benchmark's HTTP upstream: one thread, epoll, HTTP/1.1 with keep-alive, on 127.0.0.1 only.
 *
 * Prints its port, then serves POST /<era>[/<tools>] where era is `mcp` (both), `legacy` or `modern`
 * and tools is the length of its tool list; GET there is 405, DELETE 200. GET /stats counts what was
 * answered, so that the benchmark can prove that every call it counted came here.
 */
#define _GNU_SOURCE
#include "answers.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define READ_SIZE 16384
#define LARGEST_BODY (32 << 20)

enum era { BOTH, LEGACY, MODERN };
typedef struct { int descriptor; bool blocked; buffer input; answer output; size_t sent; } connection;
typedef struct { slice method, path; size_t body_length; bool chunked, has_session, has_version; } head;

static int poller;
static struct { unsigned long posts, calls, sessions, streams; } counted;

/* ---- writing ---- */

static void forget_output(connection *peer) {
  peer->output.head.length = peer->output.tail.length = peer->output.bulk.length = peer->sent = 0;
}

static bool flush_output(connection *peer) {
  answer *out = &peer->output;
  size_t total = out->head.length + out->bulk.length + out->tail.length;
  while (peer->sent < total) {
    struct iovec parts[3] = { { out->head.at, out->head.length }, { (char *)out->bulk.at, out->bulk.length },
                              { out->tail.at, out->tail.length } };
    size_t skip = peer->sent;
    for (int i = 0; i < 3; i++) {
      size_t cut = skip < parts[i].iov_len ? skip : parts[i].iov_len;
      parts[i].iov_base = (char *)parts[i].iov_base + cut, parts[i].iov_len -= cut, skip -= cut;
    }
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 3 };
    ssize_t written = sendmsg(peer->descriptor, &message, MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno != EAGAIN) return false;
    if (written < 0) break;
    peer->sent += written;
  }
  bool blocked = peer->sent < total;
  if (!blocked) forget_output(peer);
  if (blocked != peer->blocked) {
    /* Nothing is read while an answer waits: a peer that does not read gets no more work done. */
    struct epoll_event wanted = { .events = blocked ? EPOLLOUT : EPOLLIN, .data.ptr = peer };
    epoll_ctl(poller, EPOLL_CTL_MOD, peer->descriptor, &wanted);
    peer->blocked = blocked;
  }
  return true;
}

static void put_empty(connection *peer, const char *status) {
  char made[128];
  int length = snprintf(made, sizeof made, "HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n", status);
  append(&peer->output.head, (slice){ made, length });
}

static void put_json(connection *peer, const char *status, const char *more_headers, answer *body) {
  char made[256];
  size_t size = body->head.length + body->bulk.length + body->tail.length;
  int length = snprintf(made, sizeof made, "HTTP/1.1 %s\r\nContent-Type: application/json\r\n%sContent-Length: %zu\r\n\r\n",
                        status, more_headers, size);
  append(&peer->output.head, (slice){ made, length });
  append(&peer->output.head, (slice){ body->head.at, body->head.length });
  if (!body->bulk.length) return;
  peer->output.bulk = body->bulk;
  append(&peer->output.tail, (slice){ body->tail.at, body->tail.length });
}

static void put_event(connection *peer, slice message) {
  char made[32];
  int length = snprintf(made, sizeof made, "%zx\r\n", message.length + sizeof("event: message\ndata: \n\n") - 1);
  append(&peer->output.head, (slice){ made, length });
  append(&peer->output.head, TEXT("event: message\ndata: "));
  append(&peer->output.head, message);
  append(&peer->output.head, TEXT("\n\n\r\n"));
}

/* One write per event, as a server that reports while it works would do. */
static bool put_progress(connection *peer, const request *wanted, answer *last) {
  char made[512];
  append(&peer->output.head, TEXT("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Accel-Buffering: no\r\n"
                                  "Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"));
  for (long step = 1; step <= wanted->count; step++) {
    put_event(peer, progress_message(made, sizeof made, wanted, step));
    if (!peer->blocked && !flush_output(peer)) return false;
  }
  put_event(peer, (slice){ last->head.at, last->head.length });
  append(&peer->output.head, TEXT("0\r\n\r\n"));
  counted.streams++;
  return true;
}

/* ---- one request ---- */

static enum era read_path(slice path, long *tools, bool *known) {
  static const struct { const char *prefix; enum era era; } eras[] = { { "/mcp", BOTH }, { "/legacy", LEGACY }, { "/modern", MODERN } };
  *known = false, *tools = 3;
  for (int i = 0; i < 3; i++) {
    size_t length = strlen(eras[i].prefix);
    if (path.length < length || memcmp(path.at, eras[i].prefix, length)) continue;
    if (path.length == length) *known = true;
    else if (path.at[length] == '/') *known = true, *tools = number((slice){ path.at + length + 1, 1 }, 3, MOST_TOOLS);
    return eras[i].era;
  }
  return BOTH;
}

static const char *refusal(const head *from, const request *wanted, enum era era, slice *error) {
  if (wanted->modern && era == LEGACY) {
    *error = TEXT("{\"code\":-32600,\"message\":\"Unsupported protocol version\"}");
    return "400 Bad Request";
  }
  if (!wanted->modern && era == MODERN) {
    *error = TEXT("{\"code\":-32022,\"message\":\"Unsupported protocol version\",\"data\":{\"supported\":[\"" MODERN_VERSION "\"]}}");
    return "400 Bad Request";
  }
  if (wanted->modern && !from->has_version) {
    *error = TEXT("{\"code\":-32020,\"message\":\"MCP-Protocol-Version header is missing\"}");
    return "400 Bad Request";
  }
  if (!wanted->modern && !from->has_session && !is(wanted->method, "\"initialize\"")) {
    *error = TEXT("{\"code\":-32600,\"message\":\"Mcp-Session-Id header is missing\"}");
    return "400 Bad Request";
  }
  return NULL;
}

static bool post(connection *peer, const head *from, slice body) {
  static answer made;
  request wanted;
  long tools;
  bool known_path;
  char session[64] = "";
  slice error;
  made.head.length = made.tail.length = made.bulk.length = 0;
  counted.posts++;
  enum era era = read_path(from->path, &tools, &known_path);
  if (!known_path) return put_empty(peer, "404 Not Found"), true;
  if (!understand(body, &wanted)) {
    answer_error(&made, (slice){ 0 }, TEXT("{\"code\":-32700,\"message\":\"Parse error\"}"));
    return put_json(peer, "400 Bad Request", "", &made), true;
  }
  const char *refused = refusal(from, &wanted, era, &error);
  if (refused) {
    answer_error(&made, wanted.id, error);
    return put_json(peer, refused, "", &made), true;
  }
  if (!wanted.id.at || !wanted.method.at) return put_empty(peer, "202 Accepted"), true;
  bool known = answer_request(&made, &wanted, tools);
  if (is(wanted.method, "\"tools/call\"")) counted.calls++;
  if (is_progress_call(&wanted)) return put_progress(peer, &wanted, &made);
  if (is(wanted.method, "\"initialize\""))
    snprintf(session, sizeof session, "Mcp-Session-Id: bench-%d-%lu\r\n", getpid(), ++counted.sessions);
  put_json(peer, known || !wanted.modern ? "200 OK" : "404 Not Found", session, &made);
  return true;
}

static void put_stats(connection *peer) {
  answer made = { 0 };
  char text[160];
  int length = snprintf(text, sizeof text, "{\"posts\":%lu,\"calls\":%lu,\"sessions\":%lu,\"streams\":%lu}",
                        counted.posts, counted.calls, counted.sessions, counted.streams);
  append(&made.head, (slice){ text, length });
  put_json(peer, "200 OK", "", &made);
  free(made.head.at);
}

static bool respond(connection *peer, const head *from, slice body) {
  if (is(from->method, "POST")) return post(peer, from, body);
  if (is(from->method, "DELETE")) put_empty(peer, "200 OK");
  else if (is(from->method, "GET") && is(from->path, "/stats")) put_stats(peer);
  else put_empty(peer, "405 Method Not Allowed");
  return true;
}

/* ---- reading HTTP ---- */

static bool starts(const char *line, const char *end, const char *name) {
  size_t length = strlen(name);
  return (size_t)(end - line) > length && !strncasecmp(line, name, length);
}

static head read_head(const char *at, const char *end) {
  head found = { 0 };
  const char *space = memchr(at, ' ', end - at);
  const char *second = space ? memchr(space + 1, ' ', end - space - 1) : NULL;
  if (second) found.method = (slice){ at, space - at }, found.path = (slice){ space + 1, second - space - 1 };
  while ((at = memchr(at, '\n', end - at)) && ++at < end) {
    switch (*at | 32) {
      case 'c': if (starts(at, end, "content-length:")) found.body_length = strtoul(at + 15, NULL, 10); break;
      case 't': if (starts(at, end, "transfer-encoding:")) found.chunked = true; break;
      case 'm':
        if (starts(at, end, "mcp-session-id:")) found.has_session = true;
        else if (starts(at, end, "mcp-protocol-version:")) found.has_version = true;
        break;
    }
  }
  return found;
}

/* Joins the chunks in place. Returns what the body occupied on the wire, 0 while it is incomplete. */
static size_t join_chunks(char *start, const char *end, size_t *joined) {
  char *at = start, *into = start;
  for (;;) {
    char *line = memmem(at, end - at, "\r\n", 2);
    if (!line) return 0;
    size_t size = strtoul(at, NULL, 16);
    if ((size_t)(end - line) < size + 4) return 0;
    at = line + 2;
    if (!size) return *joined = into - start, at + 2 - start;
    memmove(into, at, size);
    into += size, at += size + 2;
  }
}

/* A chunked body is joined only once all of it is here, because joining destroys the framing. */
static bool all_chunks_here(const char *at, const char *end) {
  for (;;) {
    const char *line = memmem(at, end - at, "\r\n", 2);
    if (!line) return false;
    size_t size = strtoul(at, NULL, 16);
    if ((size_t)(end - line) < size + 4) return false;
    if (!size) return true;
    at = line + 2 + size + 2;
  }
}

static bool work(connection *peer) {
  while (!peer->blocked && peer->input.length) {
    char *start = peer->input.at, *end = start + peer->input.length;
    char *head_end = memmem(start, peer->input.length, "\r\n\r\n", 4);
    if (!head_end) return peer->input.length < 65536;
    head from = read_head(start, head_end + 2);
    char *body = head_end + 4;
    size_t length = from.body_length, on_wire = length;
    if (from.chunked) {
      if (!all_chunks_here(body, end)) return peer->input.length < LARGEST_BODY;
      on_wire = join_chunks(body, end, &length);
    }
    if (length > LARGEST_BODY) return false;
    if ((size_t)(end - body) < on_wire) return true;
    if (!respond(peer, &from, (slice){ body, length })) return false;
    peer->input.length = end - (body + on_wire);
    memmove(start, body + on_wire, peer->input.length);
    if (!peer->blocked && !flush_output(peer)) return false;
  }
  return true;
}

static bool read_more(connection *peer) {
  buffer *input = &peer->input;
  if (input->capacity - input->length < READ_SIZE) {
    input->capacity = 2 * input->capacity + READ_SIZE;
    if (!(input->at = realloc(input->at, input->capacity))) abort();
  }
  ssize_t got = recv(peer->descriptor, input->at + input->length, input->capacity - input->length - 1, 0);
  if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
  input->length += got;
  input->at[input->length] = 0;
  return work(peer);
}

/* ---- the loop ---- */

static void close_connection(connection *peer) {
  close(peer->descriptor);
  free(peer->input.at), free(peer->output.head.at), free(peer->output.tail.at), free(peer);
}

static void accept_all(int listener) {
  int descriptor, one = 1;
  while ((descriptor = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    connection *peer = calloc(1, sizeof *peer);
    if (!peer) abort();
    peer->descriptor = descriptor;
    struct epoll_event wanted = { .events = EPOLLIN, .data.ptr = peer };
    epoll_ctl(poller, EPOLL_CTL_ADD, descriptor, &wanted);
  }
}

static int listen_on_loopback(void) {
  struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
  socklen_t length = sizeof address;
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) || listen(listener, 4096)
      || getsockname(listener, (struct sockaddr *)&address, &length)) {
    perror("bench upstream");
    exit(1);
  }
  printf("%d\n", ntohs(address.sin_port));
  fflush(stdout);
  return listener;
}

int main(void) {
  struct epoll_event ready[256], listening = { .events = EPOLLIN, .data.ptr = NULL };
  signal(SIGPIPE, SIG_IGN);
  filler();
  poller = epoll_create1(EPOLL_CLOEXEC);
  int listener = listen_on_loopback();
  epoll_ctl(poller, EPOLL_CTL_ADD, listener, &listening);
  for (;;) {
    int count = epoll_wait(poller, ready, 256, -1);
    for (int i = 0; i < count; i++) {
      connection *peer = ready[i].data.ptr;
      if (!peer) { accept_all(listener); continue; }
      bool alive;
      if (peer->blocked) alive = flush_output(peer) && work(peer);
      else alive = read_more(peer);
      if (!alive || (ready[i].events & EPOLLERR)) close_connection(peer);
    }
  }
}
