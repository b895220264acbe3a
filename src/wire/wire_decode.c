/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Decoding of protocol buffers by table.
 *
 * Wire form: key = tag << 3 | type; type 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes.
 *
 * A message is walked twice: first to count the elements of every repeated field and the bytes of unknown fields, then to fill
 * arrays of exactly that size. The first pass checks every length, so the second cannot fail on framing of this level. */
#include "wire/wire.h"

struct decoder {
    struct arena *arena;
    const uint8_t *origin; /* start of the outermost message, for offsets in errors */
    pennon_error *err;
};

pennon_status wire_varint(struct wire_cursor *c, uint64_t *out, pennon_error *err)
{
    const uint8_t *p = c->at;
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (p == c->end) return error_set(err, PENNON_CORRUPT, "protobuf: varint cut off at byte %td", c->at - c->start);
        uint8_t b = *p++;
        if (shift == 63 && b > 1) break;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) {
            c->at = p;
            *out = v;
            return PENNON_OK;
        }
    }
    return error_set(err, PENNON_CORRUPT, "protobuf: varint too long at byte %td", c->at - c->start);
}

pennon_status wire_next(struct wire_cursor *c, struct wire_item *out, pennon_error *err)
{
    const uint8_t *first = c->at;
    uint64_t key, n;
    TRY_RETURN(wire_varint(c, &key, err));
    CHECK_FILE_RETURN(key >> 3 != 0 && key >> 3 < 1u << 29, "protobuf: field number %" PRIu64 " at byte %td", key >> 3,
                      first - c->start);
    *out = (struct wire_item){.tag = (uint32_t)(key >> 3), .type = (uint8_t)(key & 7)};
    size_t left;
    switch (out->type) {
    case 0: TRY_RETURN(wire_varint(c, &out->number, err)); break;
    case 1:
        left = (size_t)(c->end - c->at);
        CHECK_FILE_RETURN(left >= 8, "protobuf: field %u cut off at byte %td", out->tag, first - c->start);
        out->number = load_u64(c->at);
        c->at += 8;
        break;
    case 2:
        TRY_RETURN(wire_varint(c, &n, err));
        left = (size_t)(c->end - c->at);
        CHECK_FILE_RETURN(n <= left, "protobuf: field %u at byte %td has %" PRIu64 " bytes of %zu", out->tag, first - c->start, n,
                          left);
        out->payload = bytes_of(c->at, (size_t)n);
        c->at += n;
        break;
    case 5:
        left = (size_t)(c->end - c->at);
        CHECK_FILE_RETURN(left >= 4, "protobuf: field %u cut off at byte %td", out->tag, first - c->start);
        out->number = load_u32(c->at);
        c->at += 4;
        break;
    default: return error_set(err, PENNON_CORRUPT, "protobuf: wire type %u at byte %td", out->type, first - c->start);
    }
    out->raw = bytes_of(first, (size_t)(c->at - first));
    return PENNON_OK;
}

static size_t kind_size(const struct wire_field *f)
{
    switch (f->kind) {
    case WIRE_U32:
    case WIRE_I32: return 4;
    case WIRE_U64:
    case WIRE_I64:
    case WIRE_DOUBLE: return 8;
    case WIRE_BOOL: return sizeof(bool);
    case WIRE_BYTES: return sizeof(struct bytes);
    default: return f->message->size;
    }
}

/* Wire type of one element, unpacked. */
static uint8_t kind_type(uint8_t kind)
{
    if (kind == WIRE_BYTES || kind == WIRE_MESSAGE) return 2;
    return kind == WIRE_DOUBLE ? 1 : 0;
}

/* The field of an item, or NULL when the table does not know it (or knows it with another wire type). */
static const struct wire_field *find_field(const struct wire_message *msg, const struct wire_item *item)
{
    size_t low = 0, high = msg->n_fields;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (msg->fields[mid].tag < item->tag) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    if (low == msg->n_fields || msg->fields[low].tag != item->tag) return NULL;
    const struct wire_field *f = &msg->fields[low];
    if (item->type == kind_type(f->kind)) return f;
    return item->type == 2 && f->rule == WIRE_REPEATED ? f : NULL; /* packed numbers */
}

static bool is_packed(const struct wire_field *f, const struct wire_item *item)
{
    return item->type == 2 && kind_type(f->kind) != 2;
}

static void put_number(uint8_t kind, uint64_t v, void *at)
{
    uint32_t v32 = (uint32_t)v;
    bool flag = v != 0;
    switch (kind) {
    case WIRE_U32:
    case WIRE_I32: memcpy(at, &v32, 4); break;
    case WIRE_BOOL: memcpy(at, &flag, sizeof flag); break;
    default: memcpy(at, &v, 8); break; /* doubles too: the bits are already in machine order */
    }
}

/* Elements in a packed payload. */
static pennon_status packed_count(struct decoder *d, const struct wire_field *f, struct bytes payload, size_t *n)
{
    pennon_error *err = d->err;
    if (f->kind == WIRE_DOUBLE) {
        CHECK_FILE_RETURN(payload.size % 8 == 0, "protobuf: packed doubles of %zu bytes", payload.size);
        *n = payload.size / 8;
        return PENNON_OK;
    }
    CHECK_FILE_RETURN(payload.size == 0 || payload.data[payload.size - 1] < 0x80, "protobuf: packed field %u cut off", f->tag);
    size_t count = 0;
    for (size_t i = 0; i < payload.size; i++) count += payload.data[i] < 0x80;
    *n = count;
    return PENNON_OK;
}

static pennon_status packed_fill(struct decoder *d, const struct wire_field *f, struct bytes payload, uint8_t *to, size_t size)
{
    struct wire_cursor c = wire_cursor_of(payload);
    uint64_t v;
    while (!wire_cursor_done(&c)) {
        if (f->kind == WIRE_DOUBLE) {
            v = load_u64(c.at);
            c.at += 8;
        } else {
            TRY_RETURN(wire_varint(&c, &v, d->err));
        }
        put_number(f->kind, v, to);
        to += size;
    }
    return PENNON_OK;
}

/* Counters of the first pass, parallel to the field table. */
struct counts {
    size_t n[40];
    size_t unknown;
};

static pennon_status count_pass(struct decoder *d, const struct wire_message *msg, struct bytes in, struct counts *counts)
{
    ASSERT(msg->n_fields <= ARRAY_LEN(counts->n));
    memset(counts, 0, sizeof *counts);
    struct wire_cursor c = wire_cursor_of(in);
    struct wire_item item;
    while (!wire_cursor_done(&c)) {
        TRY_RETURN(wire_next(&c, &item, d->err));
        const struct wire_field *f = find_field(msg, &item);
        if (!f) {
            counts->unknown += item.raw.size;
            continue;
        }
        size_t n = 1;
        if (is_packed(f, &item)) TRY_RETURN(packed_count(d, f, item.payload, &n));
        counts->n[f - msg->fields] += n;
    }
    return PENNON_OK;
}

/* Make room for the repeated elements behind those that an earlier occurrence of the message left. */
static pennon_status make_lists(struct decoder *d, const struct wire_message *msg, const struct counts *counts, uint8_t *out)
{
    for (size_t i = 0; i < msg->n_fields; i++) {
        const struct wire_field *f = &msg->fields[i];
        if (f->rule != WIRE_REPEATED || counts->n[i] == 0) continue;
        size_t old, total;
        void *items;
        memcpy(&old, out + f->aux, sizeof old);
        memcpy(&items, out + f->offset, sizeof items);
        if (size_add_overflows(old, counts->n[i], &total)) return error_set(d->err, PENNON_CORRUPT, "protobuf: too many elements");
        uint8_t *p = arena_calloc(d->arena, total, kind_size(f), d->err);
        if (!p) return d->err->code;
        if (old) memcpy(p, items, old * kind_size(f));
        memcpy(out + f->offset, &p, sizeof p);
    }
    return PENNON_OK;
}

/* Unknown fields of this occurrence go behind those of earlier ones. */
static pennon_status make_unknown(struct decoder *d, const struct wire_message *msg, size_t more, uint8_t *out)
{
    if (more == 0) return PENNON_OK;
    struct bytes old;
    memcpy(&old, out + msg->unknown, sizeof old);
    uint8_t *p = arena_alloc(d->arena, old.size + more, d->err);
    if (!p) return d->err->code;
    if (old.size) memcpy(p, old.data, old.size);
    struct bytes now = bytes_of(p, old.size);
    memcpy(out + msg->unknown, &now, sizeof now);
    return PENNON_OK;
}

static pennon_status decode_message(struct decoder *d, const struct wire_message *msg, struct bytes in, unsigned depth,
                                    uint8_t *out);

/* A singular or oneof message: merged into the one that is there. */
static pennon_status decode_sub(struct decoder *d, const struct wire_field *f, struct bytes payload, unsigned depth, uint8_t *at)
{
    uint8_t *sub;
    memcpy(&sub, at, sizeof sub);
    if (!sub) {
        sub = arena_calloc(d->arena, 1, f->message->size, d->err);
        if (!sub) return d->err->code;
        memcpy(at, &sub, sizeof sub);
    }
    return decode_message(d, f->message, payload, depth + 1, sub);
}

static pennon_status decode_repeated(struct decoder *d, const struct wire_field *f, const struct wire_item *item, unsigned depth,
                                     uint8_t *out)
{
    size_t n, size = kind_size(f);
    uint8_t *items;
    memcpy(&n, out + f->aux, sizeof n);
    memcpy(&items, out + f->offset, sizeof items);
    uint8_t *at = items ? items + n * size : NULL; /* no array when all its occurrences are empty */
    if (is_packed(f, item)) {
        size_t more;
        TRY_RETURN(packed_count(d, f, item->payload, &more));
        TRY_RETURN(packed_fill(d, f, item->payload, at, size));
        n += more;
    } else {
        if (f->kind == WIRE_MESSAGE) {
            TRY_RETURN(decode_message(d, f->message, item->payload, depth + 1, at));
        } else if (f->kind == WIRE_BYTES) {
            memcpy(at, &item->payload, sizeof item->payload);
        } else {
            put_number(f->kind, item->number, at);
        }
        n++;
    }
    memcpy(out + f->aux, &n, sizeof n);
    return PENNON_OK;
}

static pennon_status decode_field(struct decoder *d, const struct wire_field *f, const struct wire_item *item, unsigned depth,
                                  uint8_t *out)
{
    if (f->rule == WIRE_REPEATED) return decode_repeated(d, f, item, depth, out);
    if (f->kind == WIRE_MESSAGE) {
        if (f->rule == WIRE_ONEOF) {
            uint32_t which;
            memcpy(&which, out + f->aux, sizeof which);
            /* Another member drops the former one; the same member is merged. */
            if (which != f->tag) memset(out + f->offset, 0, sizeof(void *));
        }
        TRY_RETURN(decode_sub(d, f, item->payload, depth, out + f->offset));
    } else if (f->kind == WIRE_BYTES) {
        memcpy(out + f->offset, &item->payload, sizeof item->payload);
    } else {
        put_number(f->kind, item->number, out + f->offset);
    }
    if (f->rule == WIRE_OPTIONAL) {
        bool has = true;
        memcpy(out + f->aux, &has, sizeof has);
    } else if (f->rule == WIRE_ONEOF) {
        memcpy(out + f->aux, &f->tag, sizeof f->tag);
    }
    return PENNON_OK;
}

static pennon_status fill_pass(struct decoder *d, const struct wire_message *msg, struct bytes in, unsigned depth, uint8_t *out)
{
    struct wire_cursor c = wire_cursor_of(in);
    struct wire_item item;
    while (!wire_cursor_done(&c)) {
        TRY_RETURN(wire_next(&c, &item, d->err));
        const struct wire_field *f = find_field(msg, &item);
        if (f) {
            TRY_RETURN(decode_field(d, f, &item, depth, out));
            continue;
        }
        struct bytes unknown;
        memcpy(&unknown, out + msg->unknown, sizeof unknown);
        /* Room was made by make_unknown; the pointer is our own arena memory. */
        memcpy((uint8_t *)(uintptr_t)unknown.data + unknown.size, item.raw.data, item.raw.size);
        unknown.size += item.raw.size;
        memcpy(out + msg->unknown, &unknown, sizeof unknown);
    }
    return PENNON_OK;
}

static pennon_status decode_message(struct decoder *d, const struct wire_message *msg, struct bytes in, unsigned depth,
                                    uint8_t *out)
{
    if (depth > WIRE_MAX_DEPTH)
        return error_set(d->err, PENNON_CORRUPT, "protobuf: %s is nested more than %u deep", msg->name, WIRE_MAX_DEPTH);
    if (in.size == 0) return PENNON_OK;
    struct counts counts;
    pennon_status st = count_pass(d, msg, in, &counts);
    if (st == PENNON_OK) st = make_lists(d, msg, &counts, out);
    if (st == PENNON_OK) st = make_unknown(d, msg, counts.unknown, out);
    if (st == PENNON_OK) return fill_pass(d, msg, in, depth, out);
    return st == PENNON_CORRUPT ? error_prefix(d->err, "%s at byte %td", msg->name, in.data - d->origin) : st;
}

pennon_status wire_decode(const struct wire_message *msg, struct bytes in, struct arena *arena, void *out, pennon_error *err)
{
    struct decoder d = {arena, in.data, err};
    memset(out, 0, msg->size);
    return decode_message(&d, msg, in, 1, out);
}
