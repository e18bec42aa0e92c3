/* What the two benchmark upstreams (HTTP and stdio) have in common: reading a JSON-RPC request and
 * making its answer. Just enough of MCP for the benchmark, in the legacy and the modern era.
 *
 * Tools: `echo {text}`, `large {size, id_last}`, `progress {count}`; the rest of a longer list is
 * filler that is only ever listed.
 */
#ifndef BENCH_ANSWERS_H
#define BENCH_ANSWERS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODERN_VERSION "2026-07-28"
#define LARGEST_RESULT 16000000
#define FILLER_LINE 80
#define MOST_TOOLS 2000
#define MOST_EVENTS 10000

typedef struct { const char *at; size_t length; } slice;
#define TEXT(literal) ((slice){ literal, sizeof(literal) - 1 })

static bool is(slice value, const char *text) {
  return value.length == strlen(text) && !memcmp(value.at, text, value.length);
}

/* ---- reading JSON: the span of a value is found by skipping over it, wherever it stands ---- */

static const char *skip_space(const char *at, const char *end) {
  while (at < end && (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n')) at++;
  return at;
}

static const char *skip_string(const char *at, const char *end) {
  for (at++; at < end; at++) {
    if (*at == '\\') at++;
    else if (*at == '"') return at + 1;
  }
  return end;
}

static const char *skip_value(const char *at, const char *end) {
  if (at >= end) return end;
  if (*at == '"') return skip_string(at, end);
  if (*at != '{' && *at != '[') {
    while (at < end && *at != ',' && *at != '}' && *at != ']' && *at > ' ') at++;
    return at;
  }
  for (int depth = 0; at < end;) {
    if (*at == '"') { at = skip_string(at, end); continue; }
    if (*at == '{' || *at == '[') depth++;
    if ((*at == '}' || *at == ']') && --depth == 0) return at + 1;
    at++;
  }
  return end;
}

/* Fills values[i] with the span of the member named keys[i]; absent members stay {NULL, 0}. */
static void members(slice object, int count, const char *const keys[], slice values[]) {
  memset(values, 0, count * sizeof *values);
  const char *at = object.at, *end = at + object.length;
  if (!at || at == end || *at != '{') return;
  for (at = skip_space(at + 1, end); at < end && *at == '"';) {
    const char *key_end = skip_string(at, end);
    slice key = { at + 1, key_end - at - 2 };
    const char *value = skip_space(key_end, end);
    if (value >= end || *value != ':') return;
    value = skip_space(value + 1, end);
    const char *value_end = skip_value(value, end);
    for (int i = 0; i < count; i++)
      if (is(key, keys[i])) values[i] = (slice){ value, value_end - value };
    at = skip_space(value_end, end);
    if (at < end && *at == ',') at = skip_space(at + 1, end);
  }
}

static long number(slice value, long otherwise, long most) {
  if (!value.at) return otherwise;
  long parsed = strtol(value.at, NULL, 10);
  return parsed < 0 ? 0 : parsed > most ? most : parsed;
}

/* ---- one request ---- */

typedef struct { slice id, method, tool, token, version, text; long size, count; bool modern, id_last; } request;

static bool understand(slice body, request *wanted) {
  static const char *const envelope[] = { "id", "method", "params" };
  static const char *const call[] = { "name", "arguments", "_meta", "protocolVersion" };
  static const char *const arguments[] = { "text", "size", "count", "id_last" };
  static const char *const metadata[] = { "progressToken", "io.modelcontextprotocol/protocolVersion" };
  slice top[3], params[4], given[4], meta[2];
  const char *start = skip_space(body.at, body.at + body.length);
  body = (slice){ start, body.at + body.length - start };
  memset(wanted, 0, sizeof *wanted);
  if (!body.length || *body.at != '{') return false;
  members(body, 3, envelope, top);
  members(top[2], 4, call, params);
  members(params[1], 4, arguments, given);
  members(params[2], 2, metadata, meta);
  wanted->id = top[0], wanted->method = top[1], wanted->tool = params[0];
  wanted->token = meta[0], wanted->modern = meta[1].at != NULL;
  wanted->version = wanted->modern ? meta[1] : params[3];
  wanted->text = given[0], wanted->size = number(given[1], 0, LARGEST_RESULT);
  wanted->count = number(given[2], 0, MOST_EVENTS), wanted->id_last = given[3].at && is(given[3], "true");
  return true;
}

/* ---- its answer: a head, a bulk that is never copied, and a tail ---- */

typedef struct { char *at; size_t length, capacity; } buffer;

static void append(buffer *to, slice what) {
  if (to->length + what.length > to->capacity) {
    while (to->length + what.length > to->capacity) to->capacity = to->capacity ? 2 * to->capacity : 1024;
    if (!(to->at = realloc(to->at, to->capacity))) abort();
  }
  memcpy(to->at + to->length, what.at, what.length);
  to->length += what.length;
}

typedef struct { buffer head, tail; slice bulk; } answer;

/* Text with an escape in every line, as files and logs have it: a run of one letter would flatter
 * whoever scans the answer. */
static const char *filler(void) {
  static char *made;
  if (made) return made;
  if (!(made = malloc(LARGEST_RESULT))) abort();
  for (size_t i = 0; i < LARGEST_RESULT; i++) made[i] = 'a' + (i * 7 + i / FILLER_LINE) % 26;
  for (size_t i = FILLER_LINE; i <= LARGEST_RESULT; i += FILLER_LINE) memcpy(made + i - 2, "\\n", 2);
  return made;
}

static void open_result(answer *out, const request *wanted) {
  append(&out->head, TEXT("{\"jsonrpc\":\"2.0\","));
  if (!wanted->id_last) append(&out->head, TEXT("\"id\":")), append(&out->head, wanted->id), append(&out->head, TEXT(","));
  append(&out->head, TEXT("\"result\":{"));
  if (wanted->modern) append(&out->head, TEXT("\"resultType\":\"complete\","));
}

static void close_result(buffer *to, const request *wanted) {
  append(to, TEXT("}"));
  if (wanted->id_last) append(to, TEXT(",\"id\":")), append(to, wanted->id);
  append(to, TEXT("}"));
}

static void answer_error(answer *out, slice id, slice error) {
  append(&out->head, TEXT("{\"jsonrpc\":\"2.0\",\"id\":"));
  append(&out->head, id.at ? id : TEXT("null"));
  append(&out->head, TEXT(",\"error\":"));
  append(&out->head, error);
  append(&out->head, TEXT("}"));
}

static void answer_text(answer *out, const request *wanted, slice quoted) {
  open_result(out, wanted);
  append(&out->head, TEXT("\"content\":[{\"type\":\"text\",\"text\":"));
  append(&out->head, quoted);
  append(&out->head, TEXT("}],\"isError\":false"));
  close_result(&out->head, wanted);
}

static void answer_large(answer *out, const request *wanted) {
  open_result(out, wanted);
  append(&out->head, TEXT("\"content\":[{\"type\":\"text\",\"text\":\""));
  out->bulk = (slice){ filler(), wanted->size / FILLER_LINE * FILLER_LINE };
  append(&out->tail, TEXT("\"}],\"isError\":false"));
  close_result(&out->tail, wanted);
}

static void append_tool(buffer *to, const char *name, const char *argument, const char *type) {
  char made[400];
  int length = snprintf(made, sizeof made,
    "%s{\"name\":\"%s\",\"description\":\"the benchmark's tool %s\",\"inputSchema\":{\"type\":\"object\","
    "\"properties\":{\"%s\":{\"type\":\"%s\"}},\"required\":[\"%s\"]}}",
    to->length ? "," : "", name, name, argument, type, argument);
  append(to, (slice){ made, length });
}

/* `echo` comes last: a search through a long list has to walk all of it. */
static void answer_tools(answer *out, const request *wanted, long count) {
  static buffer listed;
  static long listed_count = -1;
  if (listed_count != count) {
    listed.length = 0, listed_count = count;
    for (long i = 3; i < count; i++) {
      char name[32];
      snprintf(name, sizeof name, "filler_%04ld", i);
      append_tool(&listed, name, "value", "string");
    }
    append_tool(&listed, "large", "size", "integer");
    append_tool(&listed, "progress", "count", "integer");
    append_tool(&listed, "echo", "text", "string");
  }
  open_result(out, wanted);
  if (wanted->modern) append(&out->head, TEXT("\"ttlMs\":60000,\"cacheScope\":\"public\","));
  append(&out->head, TEXT("\"tools\":["));
  append(&out->head, (slice){ listed.at, listed.length });
  append(&out->head, TEXT("]"));
  close_result(&out->head, wanted);
}

static void answer_initialize(answer *out, const request *wanted) {
  bool known = wanted->version.at && wanted->version.length == 12 && memcmp(wanted->version.at, "\"2026", 5) < 0;
  open_result(out, wanted);
  append(&out->head, TEXT("\"protocolVersion\":"));
  append(&out->head, known ? wanted->version : TEXT("\"2025-11-25\""));
  append(&out->head, TEXT(",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"bench\",\"version\":\"1\"}"));
  close_result(&out->head, wanted);
}

static void answer_discover(answer *out, const request *wanted) {
  open_result(out, wanted);
  append(&out->head, TEXT("\"supportedVersions\":[\"" MODERN_VERSION "\"],\"capabilities\":{\"tools\":{}},"
                          "\"ttlMs\":60000,\"cacheScope\":\"public\","
                          "\"_meta\":{\"io.modelcontextprotocol/serverInfo\":{\"name\":\"bench\",\"version\":\"1\"}}"));
  close_result(&out->head, wanted);
}

static slice progress_message(char *into, size_t room, const request *wanted, long step) {
  slice token = wanted->token.at ? wanted->token : TEXT("0");
  int length = snprintf(into, room,
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":"
    "{\"progressToken\":%.*s,\"progress\":%ld,\"total\":%ld}}",
    (int)token.length, token.at, step, wanted->count);
  return (slice){ into, (size_t)length < room ? (size_t)length : room - 1 };
}

static bool is_progress_call(const request *wanted) {
  return is(wanted->method, "\"tools/call\"") && is(wanted->tool, "\"progress\"");
}

/* False when the method is unknown; the answer is then an error already. */
static bool answer_request(answer *out, const request *wanted, long tools) {
  if (is(wanted->method, "\"tools/call\"")) {
    if (is(wanted->tool, "\"echo\"") && wanted->text.at) answer_text(out, wanted, wanted->text);
    else if (is(wanted->tool, "\"large\"")) answer_large(out, wanted);
    else if (is(wanted->tool, "\"progress\"")) answer_text(out, wanted, TEXT("\"done\""));
    else answer_error(out, wanted->id, TEXT("{\"code\":-32602,\"message\":\"unknown tool or missing argument\"}"));
  } else if (is(wanted->method, "\"tools/list\"")) answer_tools(out, wanted, tools);
  else if (is(wanted->method, "\"initialize\"") && !wanted->modern) answer_initialize(out, wanted);
  else if (is(wanted->method, "\"ping\"") && !wanted->modern) open_result(out, wanted), close_result(&out->head, wanted);
  else if (is(wanted->method, "\"server/discover\"") && wanted->modern) answer_discover(out, wanted);
  else {
    answer_error(out, wanted->id, TEXT("{\"code\":-32601,\"message\":\"Method not found\"}"));
    return false;
  }
  return true;
}

#endif
