/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Random changes of numbers, bytes and messages on the wire. The tables of src/wire say what a message may hold, so that every message of the
 * format is changed by the same walk. */
#include "mutate.h"

#include <stdlib.h>

#define MUST(p)            \
    do {                   \
        if (!(p)) abort(); \
    } while (0)

void mutation_begin(struct mutation *m, unsigned seed)
{
    memset(m, 0, sizeof *m);
    m->state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    pennon_error_init(&m->err);
    m->mem = mem_new(NULL, UINT64_C(512) << 20, NULL, &m->err);
    MUST(m->mem);
    arena_init(&m->arena, m->mem);
}

void mutation_end(struct mutation *m)
{
    arena_reset(&m->arena);
    mem_release(m->mem);
    pennon_error_clear(&m->err);
}

size_t mutation_below(struct mutation *m, size_t n)
{
    m->state = m->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return n == 0 ? 0 : (size_t)((m->state >> 33) % n);
}

void mutation_hint(struct mutation *m, uint64_t number)
{
    if (m->n_hints < HINTS_MAX) m->hints[m->n_hints++] = number;
}

uint64_t mutation_number(struct mutation *m, uint64_t old)
{
    static const uint64_t edges[] = {0,
                                     1,
                                     2,
                                     3,
                                     7,
                                     8,
                                     15,
                                     16,
                                     31,
                                     32,
                                     63,
                                     64,
                                     127,
                                     128,
                                     255,
                                     256,
                                     1023,
                                     1024,
                                     4095,
                                     4096,
                                     32767,
                                     32768,
                                     65535,
                                     65536,
                                     INT32_MAX,
                                     1u << 31,
                                     UINT32_MAX,
                                     (uint64_t)1 << 32,
                                     1ull << 40,
                                     INT64_MAX,
                                     1ull << 63,
                                     UINT64_MAX,
                                     UINT64_MAX - 7};
    switch (mutation_below(m, 6)) {
    case 0: return old + 1;
    case 1: return old - 1;
    case 2: return old ^ (uint64_t)1 << mutation_below(m, 16);
    case 3:
        if (m->n_hints > 0) return m->hints[mutation_below(m, m->n_hints)] + mutation_below(m, 3) - 1;
        return old * 2;
    case 4: return mutation_below(m, 300);
    default: return edges[mutation_below(m, ARRAY_LEN(edges))];
    }
}

void *mutation_alloc(struct mutation *m, size_t size)
{
    void *p = arena_calloc(&m->arena, 1, size + 1, &m->err);
    MUST(p);
    return p;
}

/* ---- bytes ---- */

static uint8_t *copy_of(struct mutation *m, struct bytes in, size_t room)
{
    uint8_t *copy = mutation_alloc(m, in.size + room);
    if (in.size > 0) memcpy(copy, in.data, in.size);
    return copy;
}

static void change_in_place(struct mutation *m, uint8_t *at, size_t n)
{
    const size_t i = mutation_below(m, n), width = (size_t)1 << mutation_below(m, 4);
    uint64_t v = 0;
    switch (mutation_below(m, 4)) {
    case 0: at[i] ^= (uint8_t)(1u << mutation_below(m, 8)); break;
    case 1: at[i] = (uint8_t)mutation_below(m, 256); break;
    case 2: at[i] = at[mutation_below(m, n)]; break;
    default:
        for (size_t b = 0; b < width && i + b < n; b++) v |= (uint64_t)at[i + b] << 8 * b;
        v = mutation_number(m, v);
        for (size_t b = 0; b < width && i + b < n; b++) at[i + b] = (uint8_t)(v >> 8 * b);
    }
}

/* A piece is cut out, or put in again at another place. */
static struct bytes cut_or_repeat(struct mutation *m, struct bytes old)
{
    const size_t from = mutation_below(m, old.size), most = old.size - from;
    const size_t n = 1 + mutation_below(m, most < 64 || mutation_one_in(m, 8) ? most : 64);
    if (mutation_one_in(m, 2)) {
        uint8_t *copy = copy_of(m, old, 0);
        memmove(copy + from, copy + from + n, old.size - from - n);
        return bytes_of(copy, old.size - n);
    }
    const size_t to = mutation_below(m, old.size + 1);
    uint8_t *copy = copy_of(m, bytes_of(old.data, to), old.size - to + n);
    memcpy(copy + to, old.data + from, n);
    memcpy(copy + to + n, old.data + to, old.size - to);
    return bytes_of(copy, old.size + n);
}

struct bytes mutation_bytes(struct mutation *m, struct bytes old)
{
    if (old.size == 0) {
        uint8_t *some = mutation_alloc(m, 8);
        const size_t n = 1 + mutation_below(m, 8);
        for (size_t i = 0; i < n; i++) some[i] = (uint8_t)mutation_below(m, 256);
        return bytes_of(some, n);
    }
    if (mutation_one_in(m, 4)) return cut_or_repeat(m, old);
    uint8_t *copy = copy_of(m, old, 64);
    if (LLVMFuzzerMutate && old.size <= 4096 && mutation_one_in(m, 3)) {
        return bytes_of(copy, LLVMFuzzerMutate(copy, old.size, old.size + 64));
    }
    for (size_t times = 1 + mutation_below(m, 3); times > 0; times--) change_in_place(m, copy, old.size);
    return bytes_of(copy, old.size);
}

/* ---- messages ---- */

struct bytes mutation_encode(struct mutation *m, const struct wire_message *table, const void *message)
{
    struct buf out;
    struct bytes kept = {0};
    buf_init(&out, m->mem, (size_t)64 << 20);
    if (wire_encode(table, message, &out, &m->err) == PENNON_OK) {
        kept = bytes_of(copy_of(m, bytes_of(out.data, out.size), 0), out.size);
    }
    buf_free(&out);
    return kept;
}

bool mutation_decode(struct mutation *m, const struct wire_message *table, struct bytes in, void *out)
{
    return wire_decode(table, in, &m->arena, out, &m->err) == PENNON_OK;
}

static size_t size_of_kind(const struct wire_field *f)
{
    switch (f->kind) {
    case WIRE_U32:
    case WIRE_I32: return 4;
    case WIRE_BOOL: return sizeof(bool);
    case WIRE_BYTES: return sizeof(struct bytes);
    case WIRE_MESSAGE: return f->message->size;
    default: return 8;
    }
}

/* What the walk does: count the fields, change field number `at`, or look for messages of a kind. */
struct walk {
    struct mutation *m;
    size_t at; /* fields still to pass; counts up when `counting` */
    bool counting;
    const struct wire_message *kind; /* wanted, for `donor`; NULL = not looking */
    const void *donor;
    size_t donors;
    const struct wire_message *root_table;
    void *root;
};

static void walk_message(struct walk *w, const struct wire_message *table, uint8_t *message);

/* A deep copy of some message of the same kind, or an empty one. */
static void *message_like(struct walk *w, const struct wire_message *table)
{
    struct walk search = {.m = w->m, .counting = true, .kind = table};
    void *copy = mutation_alloc(w->m, table->size);
    walk_message(&search, w->root_table, w->root);
    if (search.donor && !mutation_one_in(w->m, 8)) {
        const struct bytes text = mutation_encode(w->m, table, search.donor);
        if (text.size > 0 && text.size < 20000 && !mutation_decode(w->m, table, text, copy)) memset(copy, 0, table->size);
    }
    return copy;
}

static void change_scalar(struct mutation *m, const struct wire_field *f, uint8_t *at)
{
    uint64_t v = 0;
    const size_t size = size_of_kind(f);
    if (f->kind == WIRE_BYTES) {
        struct bytes b;
        memcpy(&b, at, sizeof b);
        b = mutation_bytes(m, b);
        memcpy(at, &b, sizeof b);
    } else if (f->kind == WIRE_BOOL) {
        *at ^= 1;
    } else {
        memcpy(&v, at, size);
        v = mutation_number(m, v);
        memcpy(at, &v, size);
    }
}

/* Items go, come twice, change places, or one of them changes. */
static void change_list(struct walk *w, const struct wire_field *f, uint8_t *message)
{
    struct mutation *m = w->m;
    uint8_t *items, *copy;
    size_t n;
    const size_t size = size_of_kind(f);
    memcpy(&items, message + f->offset, sizeof items);
    memcpy(&n, message + f->aux, sizeof n);
    copy = mutation_alloc(m, (n + 1) * size);
    if (n > 0) memcpy(copy, items, n * size);
    const size_t i = mutation_below(m, n), j = mutation_below(m, n);
    const size_t what = n == 0 ? 0 : mutation_below(m, 6);
    if (what <= 1) {
        if (f->kind == WIRE_MESSAGE) {
            const void *more = message_like(w, f->message);
            memcpy(copy + n * size, more, size);
        } else if (n > 0) {
            memcpy(copy + n * size, copy + i * size, size);
        }
        n++;
    } else if (what == 2) {
        memmove(copy + i * size, copy + (i + 1) * size, (n - i - 1) * size);
        n--;
    } else if (what == 3) {
        memcpy(copy + n * size, copy + i * size, size);
        memmove(copy + i * size, copy + j * size, size);
        memcpy(copy + j * size, copy + n * size, size);
    } else if (f->kind != WIRE_MESSAGE) {
        change_scalar(m, f, copy + i * size);
    } else if (mutation_one_in(m, 4)) {
        n = i;
    }
    memcpy(message + f->offset, &copy, sizeof copy);
    memcpy(message + f->aux, &n, sizeof n);
}

static void change_field(struct walk *w, const struct wire_field *f, uint8_t *message)
{
    struct mutation *m = w->m;
    if (f->rule == WIRE_REPEATED) {
        change_list(w, f, message);
        return;
    }
    if (f->rule == WIRE_ONEOF) memcpy(message + f->aux, &f->tag, sizeof f->tag); /* tags are uint32_t, as `which` is */
    if (f->rule == WIRE_OPTIONAL) {
        const bool has = message[f->aux] == 0 || !mutation_one_in(m, 4);
        message[f->aux] = has;
    }
    if (f->kind != WIRE_MESSAGE) {
        change_scalar(m, f, message + f->offset);
        return;
    }
    void *sub;
    memcpy(&sub, message + f->offset, sizeof sub);
    sub = sub && mutation_one_in(m, 3) ? NULL : message_like(w, f->message);
    if (!sub && f->rule == WIRE_ONEOF) memset(message + f->aux, 0, sizeof f->tag);
    memcpy(message + f->offset, &sub, sizeof sub);
}

static bool is_set(const struct wire_field *f, const uint8_t *message)
{
    uint32_t which = 0;
    const void *sub;
    memcpy(&which, message + f->aux, f->rule == WIRE_ONEOF ? sizeof which : 0);
    memcpy(&sub, message + f->offset, sizeof sub);
    return (f->rule != WIRE_ONEOF || which == f->tag) && sub != NULL;
}

static void walk_message(struct walk *w, const struct wire_message *table, uint8_t *message)
{
    if (w->kind == table && mutation_one_in(w->m, ++w->donors)) w->donor = message;
    for (size_t i = 0; i < table->n_fields; i++) {
        const struct wire_field *f = &table->fields[i];
        if (w->counting) {
            w->at++;
        } else if (w->at-- == 0) {
            change_field(w, f, message);
            return;
        }
        if (f->kind != WIRE_MESSAGE || !is_set(f, message)) continue;
        uint8_t *sub;
        size_t n = 1;
        memcpy(&sub, message + f->offset, sizeof sub);
        if (f->rule == WIRE_REPEATED) memcpy(&n, message + f->aux, sizeof n);
        for (size_t k = 0; k < n; k++) {
            walk_message(w, f->message, sub + k * f->message->size);
            if (!w->counting && w->at == SIZE_MAX) return;
        }
    }
}

void mutation_message(struct mutation *m, const struct wire_message *table, void *message)
{
    struct walk w = {.m = m, .counting = true, .root_table = table, .root = message};
    walk_message(&w, table, message);
    w.at = mutation_below(m, w.at);
    w.counting = false;
    if (table->n_fields > 0) walk_message(&w, table, message);
}

bool mutation_encoded(struct mutation *m, const struct wire_message *table, struct bytes *message)
{
    void *decoded = mutation_alloc(m, table->size);
    if (!mutation_decode(m, table, *message, decoded)) return false;
    mutation_message(m, table, decoded);
    *message = mutation_encode(m, table, decoded);
    return true;
}
