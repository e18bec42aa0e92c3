/* Holds the network of a server's container, and is the first process of it.
 *
 * It ends when its input ends, which is when the gateway lets go of it, however that happens; every process of
 * the server ends with it, because they all live in its process namespace. Where the gateway cannot open sockets
 * in this network by itself (the engine is somebody else's, or in a virtual machine), this program carries the
 * connections: those that the server makes to the proxy's port, and those that the gateway makes to the server.
 *
 * Input and output are frames: kind, 0, channel (2 bytes), number (4 bytes), all little-endian; DATA is followed
 * by `number` bytes. A sender may have WINDOW bytes of a channel on the way; CREDIT allows more. Channels below
 * HALF begin here, the others there. CLOSED is answered with CLOSED, and then the channel is free again.
 *
 * No library, so that it runs in an image that has nothing else. `scripts/build_holder.py` compiles it.
 */

enum { LISTEN = 1, OPEN, OPENED, DATA, END, CLOSED, CREDIT };
enum { FREE, CONNECTING, CARRYING, LEAVING };
enum { HALF = 64, CHANNELS = 128, WINDOW = 16384, PIECE = 4096 };

typedef unsigned char byte;
typedef unsigned short half_word;
typedef unsigned int word;
typedef long number;

#if defined(__x86_64__)
enum { READ = 0, WRITE = 1, CLOSE = 3, PPOLL = 271, SOCKET = 41, CONNECT = 42, ACCEPT4 = 288,
       SENDTO = 44, SHUTDOWN = 48, BIND = 49, LISTEN_ON = 50, GETSOCKOPT = 55, SIGACTION = 13, EXIT = 231 };

static number call(number n, number a, number b, number c, number d, number e, number f) {
    number answer;
    register number r10 __asm__("r10") = d;
    register number r8 __asm__("r8") = e;
    register number r9 __asm__("r9") = f;
    __asm__ volatile("syscall" : "=a"(answer) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return answer;
}
__asm__(".globl _start\n_start: xor %ebp,%ebp\nand $-16,%rsp\ncall hold\n");
#elif defined(__aarch64__)
enum { READ = 63, WRITE = 64, CLOSE = 57, PPOLL = 73, SOCKET = 198, CONNECT = 203, ACCEPT4 = 242,
       SENDTO = 206, SHUTDOWN = 210, BIND = 200, LISTEN_ON = 201, GETSOCKOPT = 209, SIGACTION = 134, EXIT = 94 };

static number call(number n, number a, number b, number c, number d, number e, number f) {
    register number x8 __asm__("x8") = n;
    register number x0 __asm__("x0") = a;
    register number x1 __asm__("x1") = b;
    register number x2 __asm__("x2") = c;
    register number x3 __asm__("x3") = d;
    register number x4 __asm__("x4") = e;
    register number x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}
__asm__(".globl _start\n_start: mov x29, 0\nbl hold\n");
#endif

enum { AGAIN = -11, INTERRUPTED = -4, IN_PROGRESS = -115 };
enum { CAN_READ = 1, CAN_WRITE = 4, BROKEN = 8 | 16 };
enum { STREAM = 1 | 04000 | 02000000, WITHOUT_SIGNAL = 0x4000 };

struct channel {
    int socket;
    byte state, ended_here, ended_there, told_end;
    word credit, first, held;
    byte buffer[WINDOW];
};
struct address { half_word family; byte port[2]; byte host[4]; byte zero[8]; };
struct poll { int descriptor; half_word wanted, found; };
struct frame { byte kind, zero; half_word channel; word number; };

static struct channel channels[CHANNELS];
static struct poll polls[CHANNELS + 2];
static byte piece[sizeof(struct frame) + PIECE];
static byte input[sizeof(struct frame) + WINDOW];
static word input_held;
static int listening; /* 0: not yet, since that is the input */

void *memcpy(void *to, const void *from, unsigned long size) {
    byte *target = to;
    const byte *source = from;
    while (size--) *target++ = *source++;
    return to;
}
void *memset(void *to, int value, unsigned long size) {
    byte *target = to;
    while (size--) *target++ = (byte)value;
    return to;
}

static void leave(void) { call(EXIT, 0, 0, 0, 0, 0, 0); }

static void write_all(const byte *data, word size) {
    while (size) {
        number done = call(WRITE, 1, (number)data, size, 0, 0, 0);
        if (done == INTERRUPTED) continue;
        if (done <= 0) leave();
        data += done;
        size -= (word)done;
    }
}

static void tell(byte kind, word channel, word value) {
    struct frame frame = {kind, 0, (half_word)channel, value};
    write_all((const byte *)&frame, sizeof frame);
}

static struct address at(word port) {
    struct address address = {2, {(byte)(port >> 8), (byte)port}, {127, 0, 0, 1}, {0}};
    return address;
}

static void let_go(word id) {
    struct channel *channel = &channels[id];
    call(CLOSE, channel->socket, 0, 0, 0, 0, 0);
    channel->state = LEAVING;
    tell(CLOSED, id, 0);
}

static void begin(word id, int socket, byte state) {
    struct channel *channel = &channels[id];
    channel->socket = socket;
    channel->state = state;
    channel->ended_here = channel->ended_there = channel->told_end = 0;
    channel->first = channel->held = 0;
    channel->credit = WINDOW;
}

static void listen_on(word port) {
    struct address address = at(port);
    listening = (int)call(SOCKET, 2, STREAM, 0, 0, 0, 0);
    if (call(BIND, listening, (number)&address, sizeof address, 0, 0, 0) < 0) leave();
    if (call(LISTEN_ON, listening, 128, 0, 0, 0, 0) < 0) leave();
    tell(LISTEN, 0, 0);
}

static void connect_to(word id, word port) {
    struct address address = at(port);
    int socket = (int)call(SOCKET, 2, STREAM, 0, 0, 0, 0);
    number answer = call(CONNECT, socket, (number)&address, sizeof address, 0, 0, 0);
    begin(id, socket, CONNECTING);
    if (answer < 0 && answer != IN_PROGRESS) let_go(id);
}

static void accept_one(void) {
    for (word id = 0; id < HALF; id++) {
        if (channels[id].state != FREE) continue;
        number socket = call(ACCEPT4, listening, 0, 0, STREAM & ~1, 0, 0);
        if (socket < 0) return;
        begin(id, (int)socket, CARRYING);
        tell(OPEN, id, 0);
        return;
    }
}

static int has_room(void) {
    for (word id = 0; id < HALF; id++)
        if (channels[id].state == FREE) return 1;
    return 0;
}

/* What is held goes out; once all of it has, the end that was announced does. */
static void pour(word id) {
    struct channel *channel = &channels[id];
    while (channel->held) {
        word size = channel->held < WINDOW - channel->first ? channel->held : WINDOW - channel->first;
        number done = call(SENDTO, channel->socket, (number)(channel->buffer + channel->first), size,
                           WITHOUT_SIGNAL, 0, 0);
        if (done == AGAIN || done == INTERRUPTED) return;
        if (done <= 0) { let_go(id); return; }
        channel->first = (channel->first + (word)done) % WINDOW;
        channel->held -= (word)done;
        tell(CREDIT, id, (word)done);
    }
    if (channel->ended_there && !channel->told_end) {
        channel->told_end = 1;
        call(SHUTDOWN, channel->socket, 1, 0, 0, 0, 0);
    }
    if (channel->told_end && channel->ended_here) let_go(id);
}

static void draw(word id) {
    struct channel *channel = &channels[id];
    word most = channel->credit < PIECE ? channel->credit : PIECE;
    number done = call(READ, channel->socket, (number)(piece + sizeof(struct frame)), most, 0, 0, 0);
    if (done == AGAIN || done == INTERRUPTED) return;
    if (done < 0) { let_go(id); return; }
    if (done == 0) {
        channel->ended_here = 1;
        tell(END, id, 0);
        if (channel->told_end) let_go(id);
        return;
    }
    struct frame frame = {DATA, 0, (half_word)id, (word)done};
    memcpy(piece, &frame, sizeof frame);
    write_all(piece, sizeof frame + (word)done);
    channel->credit -= (word)done;
}

static void arrived(word id) {
    int error = 0;
    word size = sizeof error;
    call(GETSOCKOPT, channels[id].socket, 1, 4, (number)&error, (number)&size, 0);
    if (error) { let_go(id); return; }
    channels[id].state = CARRYING;
    tell(OPENED, id, 0);
    pour(id);
}

static void hold_data(word id, const byte *data, word size) {
    struct channel *channel = &channels[id];
    if (size > WINDOW - channel->held) leave();
    for (word index = 0; index < size; index++)
        channel->buffer[(channel->first + channel->held + index) % WINDOW] = data[index];
    channel->held += size;
    if (channel->state == CARRYING) pour(id);
}

static void obey(const struct frame *frame, const byte *data) {
    word id = frame->channel % CHANNELS;
    struct channel *channel = &channels[id];
    int lives = channel->state == CONNECTING || channel->state == CARRYING;
    if (frame->kind == LISTEN) listen_on(frame->number);
    if (frame->kind == OPEN && channel->state == FREE) connect_to(id, frame->number);
    if (frame->kind == DATA && lives) hold_data(id, data, frame->number);
    if (frame->kind == CREDIT && lives) channel->credit += frame->number;
    if (frame->kind == END && lives) {
        channel->ended_there = 1;
        if (channel->state == CARRYING) pour(id);
    }
    if (frame->kind == CLOSED) {
        if (lives) let_go(id);
        channel->state = FREE;
    }
}

static void take_input(void) {
    number done = call(READ, 0, (number)(input + input_held), sizeof input - input_held, 0, 0, 0);
    if (done == INTERRUPTED || done == AGAIN) return;
    if (done <= 0) leave();
    input_held += (word)done;
    word used = 0;
    while (input_held - used >= sizeof(struct frame)) {
        struct frame frame;
        memcpy(&frame, input + used, sizeof frame);
        word size = frame.kind == DATA ? frame.number : 0;
        if (size > WINDOW) leave();
        if (input_held - used < sizeof frame + size) break;
        obey(&frame, input + used + sizeof frame);
        used += sizeof frame + size;
    }
    memcpy(input, input + used, input_held - used);
    input_held -= used;
}

static half_word wanted(const struct channel *channel) {
    half_word events = channel->state == CONNECTING ? CAN_WRITE : 0;
    if (channel->state != CARRYING) return events;
    if (!channel->ended_here && channel->credit) events |= CAN_READ;
    if (channel->held) events |= CAN_WRITE;
    return events;
}

static void turn(void) {
    polls[0] = (struct poll){0, CAN_READ, 0};
    polls[1] = (struct poll){listening && has_room() ? listening : -1, CAN_READ, 0};
    for (word id = 0; id < CHANNELS; id++) {
        half_word events = wanted(&channels[id]);
        polls[id + 2] = (struct poll){events ? channels[id].socket : -1, events, 0};
    }
    if (call(PPOLL, (number)polls, CHANNELS + 2, 0, 0, 0, 0) < 0) return;
    for (word id = 0; id < CHANNELS; id++) {
        half_word found = polls[id + 2].found;
        if (!found) continue;
        if (channels[id].state == CONNECTING) { arrived(id); continue; }
        if (found & (CAN_WRITE | BROKEN) && channels[id].state == CARRYING) pour(id);
        if (channels[id].state == CARRYING && polls[id + 2].wanted & CAN_READ) draw(id);
    }
    if (polls[1].found) accept_one();
    if (polls[0].found) take_input();
}

__attribute__((used)) void hold(void) {
    static const struct { number handler, flags, restorer, mask; } ignore = {1, 0, 0, 0};
    call(SIGACTION, 17, (number)&ignore, 0, 8, 0, 0); /* children that nobody waits for leave nothing behind */
    for (;;) turn();
}
