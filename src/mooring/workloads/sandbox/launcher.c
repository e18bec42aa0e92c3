/* Runs inside the sandbox, before the server: opens its sockets, limits it, locks it in, becomes it.
 *
 * The same as `launcher.py`, which says what the orders look like, without the time that an interpreter takes to
 * start. It reads its orders from a socket whose number is its only argument and answers there: sockets first, an
 * error if there is one; silence and the end mean that the server runs.
 *
 * No library, so that it runs on any Linux. `scripts/build_holder.py` compiles it.
 */

typedef unsigned char byte;
typedef unsigned short half_word;
typedef unsigned int word;
typedef unsigned long long double_word;
typedef long number;

#if defined(__x86_64__)
enum { READ = 0, WRITE = 1, OPENAT = 257, CLOSE = 3, FSTAT = 5, SIGACTION = 13, SOCKET = 41, SENDMSG = 46, BIND = 49,
       LISTEN = 50, EXECVE = 59, FCNTL = 72, PRCTL = 157, EXIT = 231, PRLIMIT = 302, MODE_OFFSET = 24 };

static number call(number n, number a, number b, number c, number d, number e) {
    number answer;
    register number r10 __asm__("r10") = d;
    register number r8 __asm__("r8") = e;
    __asm__ volatile("syscall" : "=a"(answer) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return answer;
}
__asm__(".globl _start\n_start: xor %ebp,%ebp\nmov %rsp,%rdi\nand $-16,%rsp\ncall launch\n");
#elif defined(__aarch64__)
enum { READ = 63, WRITE = 64, OPENAT = 56, CLOSE = 57, FSTAT = 80, SIGACTION = 134, SOCKET = 198, SENDMSG = 211,
       BIND = 200, LISTEN = 201, EXECVE = 221, FCNTL = 25, PRCTL = 167, EXIT = 94, PRLIMIT = 261, MODE_OFFSET = 16 };

static number call(number n, number a, number b, number c, number d, number e) {
    register number x8 __asm__("x8") = n;
    register number x0 __asm__("x0") = a;
    register number x1 __asm__("x1") = b;
    register number x2 __asm__("x2") = c;
    register number x3 __asm__("x3") = d;
    register number x4 __asm__("x4") = e;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    return x0;
}
__asm__(".globl _start\n_start: mov x29, 0\nmov x0, sp\nbl launch\n");
#endif

enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446 };
enum { MOST_BYTES = 1 << 18, MOST_WORDS = 1 << 14, MOST_SOCKETS = 8 };
enum { INTERRUPTED = -4, NO_ENTRY = -2, NOT_A_FOLDER = -20, CLOSE_ON_EXEC = 02000000, PATH_ONLY = 010000000 };
enum { EXECUTE = 1, WRITE_FILE = 2, READ_FILE = 4, READ_FOLDER = 8, TRUNCATE = 1 << 14, IOCTL = 1 << 15 };
enum { FILE_ONLY = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL };

static byte orders[MOST_BYTES];
static char *words[MOST_WORDS];
static word at, size;
static int control;

static number call3(number n, number a, number b, number c) { return call(n, a, b, c, 0, 0); }

void *memset(void *to, int value, unsigned long count) {
    byte *target = to;
    while (count--) *target++ = (byte)value;
    return to;
}
void *memcpy(void *to, const void *from, unsigned long count) {
    byte *target = to;
    const byte *source = from;
    while (count--) *target++ = *source++;
    return to;
}

/* "n", what was being done, a space, and the number of the error: the gateway knows the words for it. */
static void fail(const char *what, number error) {
    char text[96];
    word length = 0, place = 1000000;
    text[length++] = 'n';
    while (*what && length < 80) text[length++] = *what++;
    text[length++] = ' ';
    if (error < 0) error = -error;
    while (place > 1 && error / place == 0) place /= 10;
    for (; place; place /= 10) text[length++] = (char)('0' + error / place % 10);
    call3(WRITE, control, (number)text, length);
    call3(EXIT, 126, 0, 0);
}

static number checked(const char *what, number answer) {
    if (answer < 0) fail(what, answer);
    return answer;
}

static void read_exactly(byte *to, word count) {
    while (count) {
        number got = call3(READ, control, (number)to, count);
        if (got == INTERRUPTED) continue;
        if (got <= 0) call3(EXIT, 126, 0, 0);
        to += got;
        count -= (word)got;
    }
}

static word next_word(void) {
    word value;
    if (size - at < 4) fail("reading the orders", 74);
    memcpy(&value, orders + at, 4);
    at += 4;
    return value;
}
static double_word next_double(void) {
    double_word low = next_word();
    return low | (double_word)next_word() << 32;
}
static char *next_text(void) {
    char *text = (char *)orders + at;
    while (at < size && orders[at]) at++;
    if (at == size) fail("reading the orders", 74);
    at++;
    return text;
}

struct address { half_word family; byte port[2]; byte host[4]; byte zero[8]; };
struct piece { void *data; unsigned long count; };
struct message { void *name; word name_size; struct piece *pieces; unsigned long count; void *more;
                 unsigned long more_size; int flags; };
struct rights { unsigned long size; int level, kind; int sockets[MOST_SOCKETS]; };

static void hand_out_sockets(word count) {
    struct rights rights = {sizeof(unsigned long) + 8 + 4 * (count + 1), 1, 1, {0}};
    struct piece piece = {"s", 1};
    struct message message = {0, 0, &piece, 1, &rights, 0, 0};
    if (count >= MOST_SOCKETS) fail("opening sockets", 7);
    for (word index = 0; index <= count; index++) { /* the last one is not used by anybody yet */
        int made = (int)checked("opening a socket", call3(SOCKET, 2, 1 | CLOSE_ON_EXEC, 0));
        rights.sockets[index] = made;
        if (index == count) break;
        word port = next_word();
        struct address address = {2, {(byte)(port >> 8), (byte)port}, {127, 0, 0, 1}, {0}};
        checked("binding a socket", call3(BIND, made, (number)&address, sizeof address));
        checked("listening", call3(LISTEN, made, 128, 0));
    }
    message.more_size = (rights.size + 7) & ~7ul;
    checked("handing out sockets", call3(SENDMSG, control, (number)&message, 0x4000));
    for (word index = 0; index <= count; index++) call3(CLOSE, rights.sockets[index], 0, 0);
}

static void limit(word kind, double_word value) {
    double_word pair[2] = {0, 0};
    checked("reading a limit", call(PRLIMIT, 0, kind, 0, (number)pair, 0));
    pair[0] = pair[1] = value < pair[1] ? value : pair[1];
    checked("setting a limit", call(PRLIMIT, 0, kind, (number)pair, 0, 0));
}

static void lock_in(word count) {
    number version = call3(CREATE_RULESET, 0, 0, 1);
    number rules = -1;
    double_word handled = 0;
    if (version >= 1) {
        handled = (1ull << (version < 2 ? 13 : version < 3 ? 14 : version < 5 ? 15 : 16)) - 1;
        double_word attribute[3] = {handled, 0, version >= 6 ? 3 : 0};
        number bytes = version < 4 ? 8 : version < 6 ? 16 : 24;
        rules = checked("making a ruleset", call3(CREATE_RULESET, (number)attribute, bytes, 0));
    }
    for (word index = 0; index < count; index++) {
        word level = next_word();
        char *path = next_text();
        if (rules < 0) continue;
        number opened = call(OPENAT, -100, (number)path, PATH_ONLY | CLOSE_ON_EXEC, 0, 0);
        if (opened < 0) continue; /* nothing there: nothing to allow */
        byte about[256];
        word mode;
        checked("looking at a path", call3(FSTAT, opened, (number)about, 0));
        memcpy(&mode, about + MODE_OFFSET, 4);
        double_word reading = EXECUTE | READ_FILE | READ_FOLDER;
        double_word allowed = level == 0 ? READ_FOLDER : level == 1 ? reading : handled;
        if ((mode & 0170000) != 0040000) allowed &= FILE_ONLY;
        struct __attribute__((packed)) { double_word allowed; int opened; } rule = {allowed & handled, (int)opened};
        checked("allowing a path", call(ADD_RULE, rules, 1, (number)&rule, 0, 0));
        call3(CLOSE, opened, 0, 0);
    }
    if (rules < 0) return;
    call(PRCTL, 38, 1, 0, 0, 0);
    checked("locking the server in", call3(RESTRICT_SELF, rules, 0, 0));
    call3(CLOSE, rules, 0, 0);
}

static char **next_texts(word count, word *used) {
    char **first = words + *used;
    if (*used + count + 1 > MOST_WORDS) fail("reading the command", 7);
    for (word index = 0; index < count; index++) first[index] = next_text();
    first[count] = 0;
    *used += count + 1;
    return first;
}

void launch(number *stack) {
    char **arguments = (char **)(stack + 1);
    word used = 0;
    for (char *digit = stack[0] > 1 ? arguments[1] : ""; *digit; digit++) control = control * 10 + (*digit - '0');
    call3(FCNTL, control, 2, 1);
    byte head[4];
    read_exactly(head, 4);
    memcpy(&size, head, 4);
    if (size > MOST_BYTES) fail("reading the orders", 7);
    read_exactly(orders, size);
    word ports = next_word();
    if (ports) hand_out_sockets(ports);
    for (word left = next_word(); left; left--) { /* control groups to join */
        word group = next_word();
        checked("joining its control group", call3(WRITE, group, (number)"0", 1));
        call3(CLOSE, group, 0, 0);
    }
    for (word left = next_word(); left; left--) {
        word kind = next_word();
        limit(kind, next_double());
    }
    word paths = next_word();
    if (paths) lock_in(paths);
    word count = next_word();
    char **programs = next_texts(count, &used);
    count = next_word();
    char **command = next_texts(count, &used);
    count = next_word();
    char **environment = next_texts(count, &used);
    byte as_usual[64];
    memset(as_usual, 0, sizeof as_usual);
    call(SIGACTION, 13, (number)as_usual, 0, 8, 0);
    call(SIGACTION, 15, (number)as_usual, 0, 8, 0);
    number worst = NO_ENTRY;
    for (; *programs; programs++) {
        number error = call3(EXECVE, (number)*programs, (number)command, (number)environment);
        if (error != NO_ENTRY && error != NOT_A_FOLDER) worst = error;
    }
    fail("running it", worst);
}
