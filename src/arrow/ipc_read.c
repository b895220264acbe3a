/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Reading the IPC stream and file formats, from memory or from a callback.
 *
 * message:  u32 0xFFFFFFFF | i32 bytes of metadata (padded) | Message flatbuffer | body
 * stream:   schema message, then dictionary and record batch messages, then 0xFFFFFFFF 0 (or nothing)
 * file:     "ARROW1" 0 0 | stream | Footer flatbuffer | i32 bytes of the footer | "ARROW1"
 *
 * Writers before format 0.15 leave the 0xFFFFFFFF out: the first word is then the size. Message: 0 version i16, 1 header type u8,
 * 2 header, 3 bytes of the body i64. DictionaryBatch: 0 id i64, 1 data (RecordBatch), 2 is a delta u8.
 *
 * A file in memory is read through its footer: all dictionaries first, then batch by batch. A file from a callback is read front to
 * back as a stream behind the magic; it ends at the end-of-stream mark. Bodies from a callback are read in pieces that grow, so
 * that a lying length costs no more memory than bytes that really came.
 * Source: Arrow's columnar format, Message.fbs, File.fbs. */
#include "arrow/ipc.h"

/* What is allocated for bytes that have not come yet. */
#define PULL_STEP ((size_t)4 << 20)

struct ipc_reader {
    struct mem *mem;     /* retained */
    struct bytes in;     /* memory: all bytes */
    uint64_t at;         /* memory: the next message */
    struct block *owner; /* of `in`: reference, or NULL */
    ipc_pull_fn pull;    /* NULL = memory */
    void *pull_ctx;
    bool file;                 /* memory: through the footer */
    struct buf metadata;       /* callback: the message in work */
    struct flat_vector blocks; /* file: record batches in the footer */
    uint32_t block;            /* next of them */
    struct ArrowSchema schema;
    struct ipc_ids ids;
    struct ipc_dictionary *dictionaries; /* ids.n */
    bool ended;
};

struct message {
    bool end; /* nothing more comes */
    bool v4;
    uint8_t type;
    struct flat_table header;
    struct ipc_body body;
    struct block *body_block; /* reference to be released after use, or NULL */
};

static void message_clear(struct message *m)
{
    block_release(m->body_block);
    m->body_block = NULL;
}

/* ------------------------------------------------------------------------------------------------------ getting bytes */

/* Exactly n bytes from the callback, or 0 at the end when `may_end`; *got says which. */
static pennon_status pull_exact(struct ipc_reader *r, uint8_t *to, size_t n, bool may_end, size_t *got, pennon_error *err)
{
    size_t have = 0;
    while (have < n) {
        size_t piece = 0;
        TRY_RETURN(r->pull(r->pull_ctx, to + have, n - have, &piece, err));
        if (piece == 0) break;
        have += piece;
    }
    *got = have;
    CHECK_FILE_RETURN(have == n || (have == 0 && may_end), "Arrow IPC: the input ends inside of a message");
    return PENNON_OK;
}

/* n bytes from the callback appended to `b`. */
static pennon_status pull_into(struct ipc_reader *r, struct buf *b, uint64_t n, pennon_error *err)
{
    while (n > 0) {
        size_t got = 0;
        size_t step = (size_t)min_u64(n, max_u64(PULL_STEP, b->size));
        TRY_RETURN(buf_reserve(b, b->size + step, err));
        TRY_RETURN(pull_exact(r, b->data + b->size, step, false, &got, err));
        b->size += got;
        n -= got;
    }
    return PENNON_OK;
}

/* The next n bytes, n <= 8, copied; *got = 0 at the end. */
static pennon_status next_word(struct ipc_reader *r, uint8_t *to, size_t n, bool may_end, size_t *got, pennon_error *err)
{
    if (r->pull != NULL) return pull_exact(r, to, n, may_end, got, err);
    *got = 0;
    if (r->at == r->in.size && may_end) return PENNON_OK;
    CHECK_FILE_RETURN(range_inside(r->at, n, r->in.size), "Arrow IPC: the input ends inside of a message");
    memcpy(to, r->in.data + r->at, n);
    r->at += n;
    *got = n;
    return PENNON_OK;
}

/* The next n bytes: a slice of memory, or what the callback gives, kept in r->metadata. */
static pennon_status next_metadata(struct ipc_reader *r, uint32_t n, struct bytes *out, pennon_error *err)
{
    if (r->pull != NULL) {
        r->metadata.size = 0;
        TRY_RETURN(pull_into(r, &r->metadata, n, err));
        *out = bytes_of(r->metadata.data, n);
        return PENNON_OK;
    }
    CHECK_FILE_RETURN(range_inside(r->at, n, r->in.size), "Arrow IPC: a message of %u bytes at %" PRIu64 " of %zu", n, r->at,
                      r->in.size);
    *out = bytes_of(r->in.data + r->at, n);
    r->at += n;
    return PENNON_OK;
}

static pennon_status next_body(struct ipc_reader *r, uint64_t n, struct message *m, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf b;
    buf_init(&b, r->mem, BUF_NO_LIMIT);
    if (r->pull != NULL) {
        TRY(pull_into(r, &b, n, err));
        TRY_NEW(m->body_block, block_from_buf(&b, err));
        m->body = (struct ipc_body){bytes_of(m->body_block->data, (size_t)n), m->body_block};
        goto done;
    }
    CHECK_FILE(range_inside(r->at, n, r->in.size), "Arrow IPC: a body of %" PRIu64 " bytes at %" PRIu64 " of %zu", n, r->at,
               r->in.size);
    m->body = (struct ipc_body){bytes_of(r->in.data + r->at, (size_t)n), r->owner};
    r->at += n;
done:
    buf_free(&b);
    return st;
}

/* ----------------------------------------------------------------------------------------------------------- messages */

/* The size of the next message's metadata; 0 at the end. */
static pennon_status next_size(struct ipc_reader *r, uint32_t *out, pennon_error *err)
{
    uint8_t word[4];
    size_t got = 0;
    *out = 0;
    TRY_RETURN(next_word(r, word, 4, true, &got, err));
    if (got == 0) return PENNON_OK;
    *out = load_u32(word);
    if (*out == IPC_CONTINUATION) {
        TRY_RETURN(next_word(r, word, 4, false, &got, err));
        *out = load_u32(word);
    }
    CHECK_FILE_RETURN(*out <= INT32_MAX, "Arrow IPC: a message of %u bytes", *out);
    return PENNON_OK;
}

static pennon_status open_message(struct bytes metadata, struct message *m, int64_t *body_size, pennon_error *err)
{
    struct flat_table table;
    int16_t version = 0;
    bool present = false;
    TRY_RETURN(flat_root(metadata, &table, err));
    TRY_RETURN(flat_i16(&table, IPC_MESSAGE_VERSION, 0, &version, err));
    TRY_RETURN(flat_u8(&table, IPC_MESSAGE_HEADER_TYPE, 0, &m->type, err));
    TRY_RETURN(flat_child(&table, IPC_MESSAGE_HEADER, &m->header, &present, err));
    TRY_RETURN(flat_i64(&table, IPC_MESSAGE_BODY_LENGTH, 0, body_size, err));
    if (version != IPC_V4 && version != IPC_V5)
        return error_set(err, PENNON_NOT_SUPPORTED, "Arrow IPC: metadata version number %d", (int)version);
    CHECK_FILE_RETURN(present && *body_size >= 0, "Arrow IPC: a message without a header or with a negative body");
    m->v4 = version == IPC_V4;
    return PENNON_OK;
}

static pennon_status next_message(struct ipc_reader *r, struct message *m, pennon_error *err)
{
    uint32_t size = 0;
    int64_t body = 0;
    struct bytes metadata;
    memset(m, 0, sizeof *m);
    TRY_RETURN(next_size(r, &size, err));
    if (size == 0) {
        m->end = true;
        return PENNON_OK;
    }
    TRY_RETURN(next_metadata(r, size, &metadata, err));
    TRY_RETURN(open_message(metadata, m, &body, err));
    return next_body(r, (uint64_t)body, m, err);
}

/* ------------------------------------------------------------------------------------------------------- dictionaries */

/* Fill r->dictionaries for the dictionary fields of `schema` from number *at on. */
static void map_dictionaries(struct ipc_reader *r, const struct ArrowSchema *schema, size_t *at)
{
    const struct ArrowSchema *values = schema->dictionary != NULL ? schema->dictionary : schema;
    if (schema->dictionary != NULL) {
        struct ipc_dictionary *d = &r->dictionaries[*at];
        d->id = r->ids.items[*at];
        d->values = values;
        d->below = ipc_count_dictionaries(schema) - 1;
        d->first = *at;
        for (size_t i = 0; i < *at && d->first == *at; i++) {
            if (r->dictionaries[i].id == d->id) d->first = i;
        }
        (*at)++;
    }
    for (int64_t i = 0; i < values->n_children; i++) map_dictionaries(r, values->children[i], at);
}

/* Most dictionary fields: the search for equal ids is by pairs. */
#define DICTIONARIES_MAX 10000u

static pennon_status setup_dictionaries(struct ipc_reader *r, pennon_error *err)
{
    size_t at = 0;
    if (r->ids.n > DICTIONARIES_MAX) return error_set(err, PENNON_NOT_SUPPORTED, "Arrow IPC: %zu dictionary fields", r->ids.n);
    r->dictionaries = mem_calloc(r->mem, r->ids.n, sizeof *r->dictionaries, err);
    if (r->dictionaries == NULL) return err->code;
    map_dictionaries(r, &r->schema, &at);
    ASSERT(at == r->ids.n);
    for (size_t i = 0; i < r->ids.n; i++) {
        const struct ipc_dictionary *d = &r->dictionaries[i];
        CHECK_FILE_RETURN(arrow_schema_equal(d->values, r->dictionaries[d->first].values, 0),
                          "Arrow IPC: dictionary %" PRId64 " has two types", d->id);
    }
    return PENNON_OK;
}

/* Put a delta behind what is there. */
static pennon_status append_delta(struct ipc_reader *r, struct ipc_dictionary *d, struct ArrowArray *delta, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray joined = {0};
    const struct ArrowArray *parts[2] = {shared_array_get(d->array), delta};
    TRY(array_concat(d->values, 2, parts, r->mem, &joined, err));
    array_release(delta);
    array_move(&joined, delta);
done:
    return st;
}

static pennon_status load_dictionary(struct ipc_reader *r, const struct message *m, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct flat_table batch;
    struct ArrowArray array = {0};
    struct shared_array *shared = NULL;
    struct ipc_dictionary *d = NULL;
    int64_t id = 0;
    uint8_t delta = 0;
    bool present = false;
    size_t at = 0;

    TRY(flat_i64(&m->header, IPC_DICTIONARY_ID, 0, &id, err));
    TRY(flat_child(&m->header, IPC_DICTIONARY_DATA, &batch, &present, err));
    TRY(flat_u8(&m->header, IPC_DICTIONARY_DELTA, 0, &delta, err));
    while (at < r->ids.n && r->dictionaries[at].id != id) at++;
    CHECK_FILE(present && at < r->ids.n, "Arrow IPC: a batch for dictionary %" PRId64 ", which no field has", id);
    d = &r->dictionaries[at];
    TRY(ipc_load_batch(&batch, &m->body, m->v4, d->values, true, r->dictionaries, at + 1, r->mem, &array, err));
    if (delta && d->array != NULL) TRY(append_delta(r, d, &array, err));
    TRY_NEW(shared, shared_array_new(&array, r->mem, err));
    shared_array_release(d->array);
    d->array = shared;
done:
    array_release(&array);
    return st == PENNON_INVALID_ARGUMENT ? ipc_as_corrupt(err) : st;
}

/* --------------------------------------------------------------------------------------------------------------- open */

void ipc_reader_free(struct ipc_reader *r)
{
    struct mem *mem = NULL;
    if (r == NULL) return;
    mem = r->mem;
    for (size_t i = 0; i < r->ids.n && r->dictionaries != NULL; i++) shared_array_release(r->dictionaries[i].array);
    mem_free(mem, r->dictionaries);
    mem_free(mem, r->ids.items);
    arrow_schema_release(&r->schema);
    buf_free(&r->metadata);
    block_release(r->owner);
    mem_free(mem, r);
    mem_release(mem);
}

static struct ipc_reader *reader_new(struct mem *mem, pennon_error *err)
{
    struct ipc_reader *r = mem_calloc(mem, 1, sizeof *r, err);
    if (r == NULL) return NULL;
    r->mem = mem_retain(mem);
    r->ids.mem = mem;
    buf_init(&r->metadata, mem, BUF_NO_LIMIT);
    return r;
}

static pennon_status read_stream_schema(struct ipc_reader *r, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct message m;
    TRY(next_message(r, &m, err));
    CHECK_FILE(!m.end && m.type == IPC_HEADER_SCHEMA, "Arrow IPC: the stream does not begin with a schema");
    TRY(ipc_read_schema(&m.header, r->mem, &r->schema, &r->ids, err));
    TRY(setup_dictionaries(r, err));
done:
    message_clear(&m);
    return st;
}

/* The message that block i of a footer's list points to. */
static pennon_status block_message(struct ipc_reader *r, const struct flat_vector *blocks, uint32_t i, uint8_t type,
                                   struct message *m, pennon_error *err)
{
    const uint8_t *block = blocks->items + (size_t)i * IPC_BLOCK_SIZE;
    uint64_t offset = load_u64(block);
    memset(m, 0, sizeof *m);
    CHECK_FILE_RETURN(offset < r->in.size, "Arrow IPC: block %u at %" PRIu64 " of %zu", i, offset, r->in.size);
    r->at = offset;
    TRY_RETURN(next_message(r, m, err));
    CHECK_FILE_RETURN(!m->end && m->type == type, "Arrow IPC: block %u at %" PRIu64 " is another kind of message", i, offset);
    return PENNON_OK;
}

static pennon_status read_footer(struct ipc_reader *r, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    size_t tail = 4 + IPC_MAGIC_SIZE;
    uint32_t size = 0;
    int16_t version = 0;
    bool present = false;
    struct flat_table footer;
    struct flat_table schema;
    struct flat_vector dictionaries;
    struct message m = {0};

    CHECK_FILE(r->in.size >= 8 + tail && memcmp(r->in.data + r->in.size - IPC_MAGIC_SIZE, IPC_MAGIC, IPC_MAGIC_SIZE) == 0,
               "Arrow IPC: the file does not end with its magic");
    size = load_u32(r->in.data + r->in.size - tail);
    CHECK_FILE(size <= r->in.size - 8 - tail, "Arrow IPC: a footer of %u bytes in a file of %zu", size, r->in.size);
    TRY(flat_root(bytes_of(r->in.data + r->in.size - tail - size, size), &footer, err));
    TRY(flat_i16(&footer, IPC_FOOTER_VERSION, 0, &version, err));
    if (version != IPC_V4 && version != IPC_V5) FAIL(PENNON_NOT_SUPPORTED, "Arrow IPC: metadata version number %d", (int)version);
    TRY(flat_child(&footer, IPC_FOOTER_SCHEMA, &schema, &present, err));
    CHECK_FILE(present, "Arrow IPC: a footer without a schema");
    TRY(flat_items(&footer, IPC_FOOTER_DICTIONARIES, IPC_BLOCK_SIZE, &dictionaries, err));
    TRY(flat_items(&footer, IPC_FOOTER_RECORDS, IPC_BLOCK_SIZE, &r->blocks, err));
    TRY(ipc_read_schema(&schema, r->mem, &r->schema, &r->ids, err));
    TRY(setup_dictionaries(r, err));
    for (uint32_t i = 0; i < dictionaries.n; i++) {
        TRY(block_message(r, &dictionaries, i, IPC_HEADER_DICTIONARY, &m, err));
        TRY(load_dictionary(r, &m, err));
        message_clear(&m);
    }
done:
    message_clear(&m);
    return st;
}

struct ipc_reader *ipc_reader_open(struct bytes in, struct block *owner, struct mem *mem, pennon_error *err)
{
    struct ipc_reader *r = reader_new(mem, err);
    pennon_status st = PENNON_OK;
    if (r == NULL) return NULL;
    r->in = in;
    r->owner = owner != NULL ? block_retain(owner) : NULL;
    r->file = in.size >= IPC_MAGIC_SIZE && memcmp(in.data, IPC_MAGIC, IPC_MAGIC_SIZE) == 0;
    st = r->file ? read_footer(r, err) : read_stream_schema(r, err);
    if (st == PENNON_OK) return r;
    ipc_reader_free(r);
    return NULL;
}

/* Skip the magic of a file, and what pads it. The first word of a stream is never zero or "ARRO". */
static pennon_status pull_magic(struct ipc_reader *r, bool *file, uint8_t word[4], pennon_error *err)
{
    size_t got = 0;
    uint8_t rest[4];
    *file = false;
    TRY_RETURN(pull_exact(r, word, 4, false, &got, err));
    if (memcmp(word, IPC_MAGIC, 4) != 0) return PENNON_OK;
    *file = true;
    TRY_RETURN(pull_exact(r, rest, 4, false, &got, err));
    CHECK_FILE_RETURN(memcmp(rest, &IPC_MAGIC[4], 2) == 0, "Arrow IPC: neither a stream nor a file");
    do TRY_RETURN(pull_exact(r, word, 4, false, &got, err));
    while (load_u32(word) == 0);
    return PENNON_OK;
}

/* The callback with up to 4 bytes in front that were read already. */
struct unread {
    ipc_pull_fn pull;
    void *ctx;
    uint8_t bytes[4];
    size_t at;
};

static pennon_status pull_unread(void *ctx, void *to, size_t n, size_t *got, pennon_error *err)
{
    struct unread *u = ctx;
    size_t left = sizeof u->bytes - u->at;
    if (left == 0) return u->pull(u->ctx, to, n, got, err);
    *got = n < left ? n : left;
    memcpy(to, u->bytes + u->at, *got);
    u->at += *got;
    return PENNON_OK;
}

struct ipc_reader *ipc_reader_open_pull(ipc_pull_fn pull, void *ctx, struct mem *mem, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    bool file = false;
    struct unread unread = {pull, ctx, {0}, 0};
    struct ipc_reader *r = reader_new(mem, err);
    if (r == NULL) return NULL;
    r->pull = pull;
    r->pull_ctx = ctx;
    TRY(pull_magic(r, &file, unread.bytes, err));
    r->pull = pull_unread; /* for the schema message only: all 4 bytes are used up by then */
    r->pull_ctx = &unread;
    TRY(read_stream_schema(r, err));
    r->pull = pull;
    r->pull_ctx = ctx;
    return r;
done:
    ASSERT(st != PENNON_OK);
    ipc_reader_free(r);
    return NULL;
}

const struct ArrowSchema *ipc_reader_schema(const struct ipc_reader *r) { return &r->schema; }

/* ------------------------------------------------------------------------------------------------------------- batches */

static pennon_status next_of_file(struct ipc_reader *r, struct message *m, pennon_error *err)
{
    memset(m, 0, sizeof *m);
    m->end = r->block == r->blocks.n;
    if (m->end) return PENNON_OK;
    return block_message(r, &r->blocks, r->block++, IPC_HEADER_RECORD, m, err);
}

pennon_status ipc_reader_next(struct ipc_reader *r, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct message m = {0};
    bool found = false;

    memset(out, 0, sizeof *out);
    while (!found && !r->ended) {
        TRY(r->file ? next_of_file(r, &m, err) : next_message(r, &m, err));
        if (m.end) {
            r->ended = true;
        } else if (m.type == IPC_HEADER_DICTIONARY) {
            TRY(load_dictionary(r, &m, err));
        } else {
            CHECK_FILE(m.type == IPC_HEADER_RECORD, "Arrow IPC: a message of type number %u among the batches", (unsigned)m.type);
            TRY(ipc_load_batch(&m.header, &m.body, m.v4, &r->schema, false, r->dictionaries, 0, r->mem, out, err));
            found = true;
        }
        message_clear(&m);
    }
done:
    message_clear(&m);
    return st;
}

struct ipc_stream {
    struct ipc_reader *reader;
    void (*release_ctx)(void *);
    void *ctx;
    struct mem *mem; /* retained */
};

static pennon_status ipc_stream_next(void *ctx, struct ArrowArray *out, pennon_error *err)
{
    struct ipc_stream *s = ctx;
    return ipc_reader_next(s->reader, out, err);
}

static void ipc_stream_release(void *ctx)
{
    struct ipc_stream *s = ctx;
    struct mem *mem = s->mem;
    ipc_reader_free(s->reader);
    if (s->release_ctx != NULL) s->release_ctx(s->ctx);
    mem_free(mem, s);
    mem_release(mem);
}

pennon_status ipc_reader_to_stream(struct ipc_reader *r, void (*release_ctx)(void *), void *ctx, struct mem *mem,
                                   struct ArrowArrayStream *out, pennon_error *err)
{
    struct ArrowSchema schema = {0};
    struct ipc_stream *s = mem_calloc(mem, 1, sizeof *s, err);
    memset(out, 0, sizeof *out);
    if (s == NULL) {
        ipc_reader_free(r);
        if (release_ctx != NULL) release_ctx(ctx);
        return err->code;
    }
    *s = (struct ipc_stream){r, release_ctx, ctx, mem_retain(mem)};
    if (arrow_schema_copy(&r->schema, mem, &schema, err) != PENNON_OK) {
        ipc_stream_release(s);
        return err->code;
    }
    return stream_new(&schema, ipc_stream_next, ipc_stream_release, s, mem, out, err);
}

pennon_status ipc_schema_decode(struct bytes in, struct mem *mem, struct ArrowSchema *out, pennon_error *err)
{
    struct ipc_reader *r = ipc_reader_open(in, NULL, mem, err);
    memset(out, 0, sizeof *out);
    if (r == NULL) return err->code;
    arrow_schema_move(&r->schema, out);
    ipc_reader_free(r);
    return PENNON_OK;
}
