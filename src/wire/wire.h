/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What src/wire offers: protocol buffers on the wire, driven by a table of fields a message.
 *
 * Decoding turns untrusted bytes into plain C structs that live in an arena; texts and byte fields point into the input, which
 * must live as long. Fields that a table does not know are kept as raw bytes and written back. Encoding writes fields in tag
 * order, then the unknown ones; proto3 defaults are left out.
 *
 *     struct lance_manifest m;
 *     TRY(wire_decode(&lance_manifest_message, in, &arena, &m, err));
 *     TRY(wire_encode(&lance_manifest_message, &m, &out, err));
 *
 * Bounds: depth WIRE_MAX_DEPTH; an element count is known from a first pass over the bytes before anything is allocated.
 * Both packed and unpacked forms of repeated numbers are read; packed is written. A singular message that occurs several times
 * is merged, as the format says. Groups are CORRUPT. */
#ifndef WIRE_WIRE_H
#define WIRE_WIRE_H

#include "base/base.h"

#define WIRE_MAX_DEPTH 64u

enum wire_kind {
    WIRE_U32,    /* uint32, enum: uint32_t */
    WIRE_U64,    /* uint64_t */
    WIRE_I32,    /* int32: int32_t, sign extended on the wire */
    WIRE_I64,    /* int64_t */
    WIRE_BOOL,   /* bool */
    WIRE_DOUBLE, /* double, 8 bytes on the wire */
    WIRE_BYTES,  /* bytes and string: struct bytes */
    WIRE_MESSAGE /* singular: pointer, NULL = absent; repeated: contiguous structs */
};

enum wire_rule {
    WIRE_SINGULAR, /* absent = zero; zero is not written (messages: a NULL pointer) */
    WIRE_OPTIONAL, /* presence in a bool at `aux` */
    WIRE_REPEATED, /* pointer at `offset`, size_t count at `aux` */
    WIRE_ONEOF     /* uint32_t at `aux` holds the tag of the member that is set, 0 = none */
};

struct wire_message;

struct wire_field {
    uint32_t tag;
    uint8_t kind;
    uint8_t rule;
    uint16_t offset; /* of the member in the struct */
    uint16_t aux;    /* see wire_rule */
    const struct wire_message *message;
    const char *name; /* of the member, which is the field's name in the format but for the few that message_json.c lists */
};

struct wire_message {
    const char *name;                /* for error texts */
    const struct wire_field *fields; /* in tag order */
    uint16_t n_fields;
    uint16_t unknown; /* offset of a `struct bytes` with the raw unknown fields */
    size_t size;      /* of the struct */
};

#define WIRE_FIELD(type, tag, kind, member)                                    \
    {                                                                          \
        (tag), (kind), WIRE_SINGULAR, offsetof(type, member), 0, NULL, #member \
    }
#define WIRE_SUB(type, tag, member, sub)                                              \
    {                                                                                 \
        (tag), WIRE_MESSAGE, WIRE_SINGULAR, offsetof(type, member), 0, (sub), #member \
    }
#define WIRE_OPT(type, tag, kind, member)                                                                 \
    {                                                                                                     \
        (tag), (kind), WIRE_OPTIONAL, offsetof(type, member), offsetof(type, has_##member), NULL, #member \
    }
#define WIRE_LIST(type, tag, kind, member)                                                              \
    {                                                                                                   \
        (tag), (kind), WIRE_REPEATED, offsetof(type, member), offsetof(type, n_##member), NULL, #member \
    }
#define WIRE_SUBS(type, tag, member, sub)                                                                      \
    {                                                                                                          \
        (tag), WIRE_MESSAGE, WIRE_REPEATED, offsetof(type, member), offsetof(type, n_##member), (sub), #member \
    }
#define WIRE_ONE(type, tag, kind, member, which)                                                \
    {                                                                                           \
        (tag), (kind), WIRE_ONEOF, offsetof(type, member), offsetof(type, which), NULL, #member \
    }
#define WIRE_ONE_SUB(type, tag, member, which, sub)                                                    \
    {                                                                                                  \
        (tag), WIRE_MESSAGE, WIRE_ONEOF, offsetof(type, member), offsetof(type, which), (sub), #member \
    }
#define WIRE_TABLE(var, type, text, table) \
    const struct wire_message var = {(text), (table), ARRAY_LEN(table), offsetof(type, unknown), sizeof(type)}

/* Decode into the struct at `out` (msg->size bytes; overwritten). CORRUPT names message and byte offset in `in`; OVER_BUDGET. */
pennon_status wire_decode(const struct wire_message *msg, struct bytes in, struct arena *arena, void *out,
                          pennon_error *err) CHECKED;

/* Append the encoded form. Sub-messages over 4 GiB are refused (INVALID_ARGUMENT). */
pennon_status wire_encode(const struct wire_message *msg, const void *in, struct buf *out, pennon_error *err) CHECKED;

/* A copy of the struct at `in` into the one at `out` that owns all it points to, in the arena. */
pennon_status wire_copy(const struct wire_message *msg, const void *in, struct arena *arena, void *out, pennon_error *err) CHECKED;

/* ---- the cursor below, for callers that walk a message themselves ---- */

struct wire_cursor {
    const uint8_t *at, *end, *start;
};

struct wire_item {
    uint32_t tag;
    uint8_t type;         /* wire type 0, 1, 2, 5 */
    uint64_t number;      /* types 0, 1, 5 */
    struct bytes payload; /* type 2 */
    struct bytes raw;     /* the whole field, key included */
};

static inline struct wire_cursor wire_cursor_of(struct bytes in)
{
    /* No bytes may be no pointer, to which nothing can be added. */
    return (struct wire_cursor){in.data, in.size ? in.data + in.size : in.data, in.data};
}
static inline bool wire_cursor_done(const struct wire_cursor *c) { return c->at == c->end; }
/* The next field. CORRUPT with the byte offset. */
pennon_status wire_next(struct wire_cursor *c, struct wire_item *out, pennon_error *err) CHECKED;
pennon_status wire_varint(struct wire_cursor *c, uint64_t *out, pennon_error *err) CHECKED;
pennon_status wire_put_varint(struct buf *out, uint64_t v, pennon_error *err) CHECKED;
/* Key and length-delimited payload. */
pennon_status wire_put_bytes(struct buf *out, uint32_t tag, struct bytes payload, pennon_error *err) CHECKED;

#endif
