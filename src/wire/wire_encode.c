/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Encoding of protocol buffers by table: fields in tag order, unknown fields behind them, proto3 defaults left out.
 *
 * A sub-message is written behind one byte for its length, and moved when the length needs more: most are short. */
#include "wire/wire.h"

static unsigned put_varint_at(uint8_t *p, uint64_t v)
{
    unsigned n = 0;
    while (v >= 0x80) {
        p[n++] = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    p[n++] = (uint8_t)v;
    return n;
}

static unsigned varint_size(uint64_t v) { return v == 0 ? 1u : (bit_width(v) + 6u) / 7u; }

pennon_status wire_put_varint(struct buf *out, uint64_t v, pennon_error *err)
{
    TRY_RETURN(buf_grow(out, 10, err));
    out->size += put_varint_at(out->data + out->size, v);
    return PENNON_OK;
}

static pennon_status put_key(struct buf *out, uint32_t tag, unsigned type, pennon_error *err)
{
    return wire_put_varint(out, (uint64_t)tag << 3 | type, err);
}

pennon_status wire_put_bytes(struct buf *out, uint32_t tag, struct bytes payload, pennon_error *err)
{
    TRY_RETURN(put_key(out, tag, 2, err));
    TRY_RETURN(wire_put_varint(out, payload.size, err));
    return buf_append(out, payload.data, payload.size, err);
}

/* The value of a number member as it goes on the wire. */
static uint64_t get_number(uint8_t kind, const void *at)
{
    uint32_t u32;
    int32_t i32;
    uint64_t u64;
    bool flag;
    switch (kind) {
    case WIRE_U32: memcpy(&u32, at, 4); return u32;
    case WIRE_I32: memcpy(&i32, at, 4); return (uint64_t)(int64_t)i32;
    case WIRE_BOOL: memcpy(&flag, at, sizeof flag); return flag;
    default: memcpy(&u64, at, 8); return u64;
    }
}

static size_t number_size(uint8_t kind) { return kind == WIRE_U32 || kind == WIRE_I32 ? 4 : kind == WIRE_BOOL ? sizeof(bool) : 8; }

static pennon_status put_number(struct buf *out, uint8_t kind, uint64_t v, pennon_error *err)
{
    if (kind != WIRE_DOUBLE) return wire_put_varint(out, v, err);
    TRY_RETURN(buf_grow(out, 8, err));
    store_u64(out->data + out->size, v);
    out->size += 8;
    return PENNON_OK;
}

static pennon_status put_sub(const struct wire_field *f, const void *sub, struct buf *out, pennon_error *err)
{
    TRY_RETURN(put_key(out, f->tag, 2, err));
    TRY_RETURN(buf_append_byte(out, 0, err));
    size_t start = out->size;
    TRY_RETURN(wire_encode(f->message, sub, out, err));
    size_t n = out->size - start;
    if (n > UINT32_MAX) return error_set(err, PENNON_INVALID_ARGUMENT, "%s is over 4 GiB when encoded", f->message->name);
    unsigned extra = varint_size(n) - 1;
    if (extra) {
        TRY_RETURN(buf_append_zero(out, extra, err));
        memmove(out->data + start + extra, out->data + start, n);
    }
    (void)put_varint_at(out->data + start - 1, n);
    return PENNON_OK;
}

static pennon_status put_packed(const struct wire_field *f, const uint8_t *items, size_t n, struct buf *out, pennon_error *err)
{
    size_t size = number_size(f->kind), total = 0;
    for (size_t i = 0; i < n; i++) total += f->kind == WIRE_DOUBLE ? 8 : varint_size(get_number(f->kind, items + i * size));
    TRY_RETURN(put_key(out, f->tag, 2, err));
    TRY_RETURN(wire_put_varint(out, total, err));
    for (size_t i = 0; i < n; i++) TRY_RETURN(put_number(out, f->kind, get_number(f->kind, items + i * size), err));
    return PENNON_OK;
}

static pennon_status put_repeated(const struct wire_field *f, const uint8_t *in, struct buf *out, pennon_error *err)
{
    size_t n;
    const uint8_t *items;
    memcpy(&n, in + f->aux, sizeof n);
    memcpy(&items, in + f->offset, sizeof items);
    if (n == 0) return PENNON_OK;
    if (f->kind != WIRE_MESSAGE && f->kind != WIRE_BYTES) return put_packed(f, items, n, out, err);
    for (size_t i = 0; i < n; i++) {
        if (f->kind == WIRE_MESSAGE) {
            TRY_RETURN(put_sub(f, items + i * f->message->size, out, err));
        } else {
            struct bytes b;
            memcpy(&b, items + i * sizeof b, sizeof b);
            TRY_RETURN(wire_put_bytes(out, f->tag, b, err));
        }
    }
    return PENNON_OK;
}

/* Is the member to be written although it may be zero? */
static bool is_present(const struct wire_field *f, const uint8_t *in)
{
    bool has;
    uint32_t which;
    if (f->rule == WIRE_OPTIONAL) {
        memcpy(&has, in + f->aux, sizeof has);
        return has;
    }
    if (f->rule == WIRE_ONEOF) {
        memcpy(&which, in + f->aux, sizeof which);
        return which == f->tag;
    }
    return false;
}

static pennon_status put_field(const struct wire_field *f, const uint8_t *in, struct buf *out, pennon_error *err)
{
    if (f->rule == WIRE_REPEATED) return put_repeated(f, in, out, err);
    bool present = is_present(f, in);
    if (f->rule != WIRE_SINGULAR && !present) return PENNON_OK;
    if (f->kind == WIRE_MESSAGE) {
        const void *sub;
        memcpy(&sub, in + f->offset, sizeof sub);
        return sub ? put_sub(f, sub, out, err) : PENNON_OK;
    }
    if (f->kind == WIRE_BYTES) {
        struct bytes b;
        memcpy(&b, in + f->offset, sizeof b);
        return b.size || present ? wire_put_bytes(out, f->tag, b, err) : PENNON_OK;
    }
    uint64_t v = get_number(f->kind, in + f->offset);
    if (v == 0 && !present) return PENNON_OK;
    TRY_RETURN(put_key(out, f->tag, f->kind == WIRE_DOUBLE ? 1 : 0, err));
    return put_number(out, f->kind, v, err);
}

pennon_status wire_encode(const struct wire_message *msg, const void *in, struct buf *out, pennon_error *err)
{
    for (size_t i = 0; i < msg->n_fields; i++) TRY_RETURN(put_field(&msg->fields[i], in, out, err));
    struct bytes unknown;
    memcpy(&unknown, (const uint8_t *)in + msg->unknown, sizeof unknown);
    return buf_append(out, unknown.data, unknown.size, err);
}

pennon_status wire_copy(const struct wire_message *msg, const void *in, struct arena *arena, void *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf bytes;
    uint8_t *kept;
    buf_init(&bytes, arena->mem, BUF_NO_LIMIT);
    TRY(wire_encode(msg, in, &bytes, err));
    TRY_NEW(kept, arena_alloc(arena, bytes.size + 1, err));
    if (bytes.size) memcpy(kept, bytes.data, bytes.size);
    TRY(wire_decode(msg, bytes_of(kept, bytes.size), arena, out, err));
done:
    buf_free(&bytes);
    return st;
}
