/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Writing the IPC stream and file formats; see ipc_read.c for their shape and ipc_body.c for that of a batch.
 *
 * A batch is written from its own buffers where they begin at row 0 and hold no more than the rows; anything else is cut first
 * (array_copy_range). Buffers and bodies are aligned to 64 bytes in the file; validity is left out where nothing is null.
 * Dictionaries go out before the first batch that uses them, and again whenever their values changed (a replacement, which only
 * streams can have). Compressed bodies keep a buffer plain when compression does not make it smaller.
 * Source: Arrow's columnar format, Message.fbs, File.fbs. */
#include "arrow/ipc.h"

static const uint8_t PADDING[IPC_ALIGN];

/* A message in the file, for the footer. */
struct written_block {
    uint64_t offset;
    uint32_t metadata;
    uint64_t body;
};

struct block_list {
    struct written_block *items;
    size_t n;
    size_t cap;
};

struct ipc_writer {
    struct mem *mem; /* retained */
    struct ArrowSchema schema;
    struct ipc_writer_options options;
    ipc_sink_fn sink;
    void *ctx;
    uint64_t position;          /* bytes written */
    struct shared_array **sent; /* per dictionary field in walk order: what was written last */
    size_t n_sent;
    struct block_list dictionaries;
    struct block_list records;
    bool finished;
};

/* A buffer of the body: where it lies, or its compressed form inside `body->packed`. */
struct body_part {
    const uint8_t *data;
    uint64_t size;
    bool packed; /* `data` is not set: bytes [at, at + size) of packed */
    size_t at;
};

struct body {
    struct mem *mem;
    const struct ipc_writer_options *options;
    int64_t *nodes; /* length and null count of each field */
    size_t n_nodes;
    size_t cap_nodes;
    struct body_part *parts;
    size_t n_parts;
    size_t cap_parts;
    int64_t *variadic;
    size_t n_variadic;
    size_t cap_variadic;
    struct buf packed;
};

static void body_free(struct body *b)
{
    mem_free(b->mem, b->nodes);
    mem_free(b->mem, b->parts);
    mem_free(b->mem, b->variadic);
    buf_free(&b->packed);
}

/* ------------------------------------------------------------------------------------------------------ is it normal? */

/* The view begins at row 0 of its buffers, so that they can be written as they are. */
static bool view_is_normal(const struct array_view *v, pennon_error *err)
{
    bool list = v->type.layout == LAYOUT_LIST32 || v->type.layout == LAYOUT_LIST64;
    bool variable = v->type.layout == LAYOUT_VAR32 || v->type.layout == LAYOUT_VAR64;
    int64_t rows = v->length;
    if (v->offset != 0 || v->type.layout == LAYOUT_RUN_END) return false;
    if ((list || variable) && v->length > 0 && view_offset(v, 0) != 0) return false;
    for (int64_t i = 0; i < v->array->n_children; i++) {
        struct array_view child;
        if (list) rows = v->length == 0 ? 0 : view_offset(v, v->length);
        if (v->type.layout == LAYOUT_FIXED_LIST) rows = v->length * v->type.fixed_size;
        if (v->type.layout == LAYOUT_DENSE_UNION || v->type.layout == LAYOUT_LIST_VIEW32 || v->type.layout == LAYOUT_LIST_VIEW64) {
            rows = v->array->children[i]->length;
        }
        if (array_view_peek(&child, v->schema->children[i], v->array->children[i], err) != PENNON_OK) return false;
        if (child.length != rows || !view_is_normal(&child, err)) return false;
    }
    return true;
}

/* -------------------------------------------------------------------------------------------------------------- bodies */

static pennon_status compress_part(struct body *b, struct body_part *part, pennon_error *err)
{
    int64_t prefix = (int64_t)part->size;
    size_t at = b->packed.size;
    if (b->options->compression != IPC_ZSTD || part->size == 0) return PENNON_OK;
    TRY_RETURN(buf_append_zero(&b->packed, 8, err));
    TRY_RETURN(zstd_compress(bytes_of(part->data, (size_t)part->size), b->options->level, &b->packed, err));
    if (b->packed.size - at - 8 >= part->size) { /* not smaller: as it is */
        prefix = -1;
        b->packed.size = at + 8;
        TRY_RETURN(buf_append(&b->packed, part->data, (size_t)part->size, err));
    }
    store_u64(b->packed.data + at, (uint64_t)prefix);
    *part = (struct body_part){NULL, b->packed.size - at, true, at};
    return PENNON_OK;
}

static pennon_status add_part(struct body *b, const void *data, uint64_t size, pennon_error *err)
{
    TRY_RETURN(mem_grow(b->mem, &b->parts, &b->cap_parts, b->n_parts, sizeof *b->parts, SIZE_MAX / sizeof *b->parts, err));
    struct body_part *part = &b->parts[b->n_parts++];
    *part = (struct body_part){data, data == NULL ? 0 : size, false, 0};
    return compress_part(b, part, err);
}

static pennon_status add_node(struct body *b, int64_t length, int64_t nulls, pennon_error *err)
{
    TRY_RETURN(mem_grow(b->mem, &b->nodes, &b->cap_nodes, b->n_nodes + 1, sizeof *b->nodes, SIZE_MAX / sizeof *b->nodes, err));
    b->nodes[b->n_nodes++] = length;
    b->nodes[b->n_nodes++] = nulls;
    return PENNON_OK;
}

static pennon_status add_view_parts(struct body *b, const struct array_view *v, pennon_error *err)
{
    int64_t n = view_data_buffers(v->array);
    const uint8_t *sizes = v->array->buffers[v->array->n_buffers - 1];
    TRY_RETURN(add_part(b, v->data, (uint64_t)v->length * VIEW_BYTES, err));
    for (int64_t i = 0; i < n; i++) TRY_RETURN(add_part(b, v->array->buffers[2 + i], (uint64_t)native_i64(sizes + i * 8), err));
    TRY_RETURN(
        mem_grow(b->mem, &b->variadic, &b->cap_variadic, b->n_variadic, sizeof *b->variadic, SIZE_MAX / sizeof *b->variadic, err));
    b->variadic[b->n_variadic++] = n;
    return PENNON_OK;
}

/* The buffers behind the validity. */
static pennon_status add_values(struct body *b, const struct array_view *v, pennon_error *err)
{
    uint64_t n = (uint64_t)v->length;
    uint64_t width = layout_is_wide(v->type.layout) ? 8 : 4;
    switch (v->type.layout) {
    case LAYOUT_BITS: return add_part(b, v->data, bitmap_bytes(n), err);
    case LAYOUT_FIXED: return add_part(b, v->data, n * arrow_type_width(&v->type), err);
    case LAYOUT_VAR32:
    case LAYOUT_VAR64:
        TRY_RETURN(add_part(b, v->data, n == 0 ? 0 : (n + 1) * width, err));
        return add_part(b, v->bytes, n == 0 ? 0 : (uint64_t)view_offset(v, v->length), err);
    case LAYOUT_LIST32:
    case LAYOUT_LIST64: return add_part(b, v->data, n == 0 ? 0 : (n + 1) * width, err);
    case LAYOUT_LIST_VIEW32:
    case LAYOUT_LIST_VIEW64: TRY_RETURN(add_part(b, v->data, n * width, err)); return add_part(b, v->bytes, n * width, err);
    case LAYOUT_VIEW: return add_view_parts(b, v, err);
    case LAYOUT_SPARSE_UNION: return add_part(b, v->data, n, err);
    case LAYOUT_DENSE_UNION: TRY_RETURN(add_part(b, v->data, n, err)); return add_part(b, v->bytes, n * 4, err);
    case LAYOUT_NULL:
    case LAYOUT_FIXED_LIST:
    case LAYOUT_STRUCT:
    case LAYOUT_RUN_END: return PENNON_OK;
    }
    return PENNON_OK;
}

/* Node and buffers of a field and its children; the array is normal. */
static pennon_status add_field(struct body *b, const struct ArrowSchema *schema, const struct ArrowArray *array, pennon_error *err)
{
    struct array_view v;
    bool has_validity = false;
    TRY_RETURN(array_view_init(&v, schema, array, err));
    TRY_RETURN(add_node(b, v.length, v.null_count, err));
    has_validity = v.type.layout != LAYOUT_NULL && v.type.layout != LAYOUT_RUN_END && v.type.union_ids == NULL;
    if (has_validity) TRY_RETURN(add_part(b, v.validity, bitmap_bytes((uint64_t)v.length), err));
    TRY_RETURN(add_values(b, &v, err));
    for (int64_t i = 0; i < array->n_children; i++) TRY_RETURN(add_field(b, schema->children[i], array->children[i], err));
    return PENNON_OK;
}

/* ------------------------------------------------------------------------------------------------------------ messages */

static struct flat_field scalar(enum flat_kind kind, int64_t value) { return (struct flat_field){kind, value, 0}; }
static struct flat_field offset(bool present) { return (struct flat_field){present ? FLAT_OFFSET : FLAT_ABSENT, 0, 0}; }

/* The RecordBatch table that `slot` points to. */
static pennon_status put_batch(struct buf *b, size_t slot, const struct body *body, int64_t length, uint64_t *body_size,
                               pennon_error *err)
{
    bool packed = body->options->compression == IPC_ZSTD;
    struct flat_field fields[IPC_BATCH_FIELDS] = {[IPC_BATCH_LENGTH] = scalar(FLAT_I64, length),
                                                  [IPC_BATCH_NODES] = offset(true),
                                                  [IPC_BATCH_BUFFERS] = offset(true),
                                                  [IPC_BATCH_COMPRESSION] = offset(packed),
                                                  [IPC_BATCH_VARIADIC] = offset(body->n_variadic > 0)};
    struct flat_field codec[] = {scalar(FLAT_U8, IPC_CODEC_ZSTD), scalar(FLAT_U8, 0)};
    size_t at = 0;
    uint64_t end = 0;

    TRY_RETURN(flat_put_table(b, slot, fields, IPC_BATCH_FIELDS, err));
    if (packed) TRY_RETURN(flat_put_table(b, fields[IPC_BATCH_COMPRESSION].slot, codec, ARRAY_LEN(codec), err));
    TRY_RETURN(flat_put_items(b, fields[IPC_BATCH_NODES].slot, body->n_nodes / 2, 16, 8, &at, err));
    for (size_t i = 0; i < body->n_nodes; i++) store_u64(b->data + at + i * 8, (uint64_t)body->nodes[i]);
    TRY_RETURN(flat_put_items(b, fields[IPC_BATCH_BUFFERS].slot, body->n_parts, 16, 8, &at, err));
    for (size_t i = 0; i < body->n_parts; i++) {
        store_u64(b->data + at + i * 16, end);
        store_u64(b->data + at + i * 16 + 8, body->parts[i].size);
        end = round_up(end + body->parts[i].size, IPC_ALIGN);
    }
    *body_size = end;
    if (body->n_variadic == 0) return PENNON_OK;
    TRY_RETURN(flat_put_items(b, fields[IPC_BATCH_VARIADIC].slot, body->n_variadic, 8, 8, &at, err));
    for (size_t i = 0; i < body->n_variadic; i++) store_u64(b->data + at + i * 8, (uint64_t)body->variadic[i]);
    return PENNON_OK;
}

static pennon_status emit(struct ipc_writer *w, const void *bytes, size_t n, pennon_error *err)
{
    if (n == 0) return PENNON_OK;
    w->position += n;
    return w->sink(w->ctx, bytes, n, err);
}

static pennon_status emit_body(struct ipc_writer *w, const struct body *body, pennon_error *err)
{
    for (size_t i = 0; i < body->n_parts; i++) {
        const struct body_part *part = &body->parts[i];
        const uint8_t *data = part->packed ? body->packed.data + part->at : part->data;
        TRY_RETURN(emit(w, data, (size_t)part->size, err));
        TRY_RETURN(emit(w, PADDING, (size_t)(round_up(part->size, IPC_ALIGN) - part->size), err));
    }
    return PENNON_OK;
}

/* A batch message: a record batch, or with `id` >= 0 the values of a dictionary. */
static pennon_status write_message(struct ipc_writer *w, const struct body *body, int64_t length, int64_t id,
                                   struct block_list *blocks, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    bool dictionary = id >= 0;
    struct flat_field fields[IPC_MESSAGE_FIELDS] = {[IPC_MESSAGE_VERSION] = scalar(FLAT_I16, IPC_V5),
                                                    [IPC_MESSAGE_HEADER_TYPE] =
                                                        scalar(FLAT_U8, dictionary ? IPC_HEADER_DICTIONARY : IPC_HEADER_RECORD),
                                                    [IPC_MESSAGE_HEADER] = offset(true),
                                                    [IPC_MESSAGE_BODY_LENGTH] = scalar(FLAT_I64, 0)};
    struct flat_field outer[IPC_DICTIONARY_FIELDS] = {scalar(FLAT_I64, id), offset(true), scalar(FLAT_U8, 0)};
    struct buf flat;
    struct buf message;
    uint64_t start = w->position;
    uint64_t body_size = 0;
    size_t slot = 0;

    buf_init(&flat, w->mem, INT32_MAX);
    buf_init(&message, w->mem, BUF_NO_LIMIT);
    TRY(flat_begin(&flat, err));
    TRY(flat_put_table(&flat, 0, fields, IPC_MESSAGE_FIELDS, err));
    slot = fields[IPC_MESSAGE_HEADER].slot;
    if (dictionary) {
        TRY(flat_put_table(&flat, slot, outer, IPC_DICTIONARY_FIELDS, err));
        slot = outer[IPC_DICTIONARY_DATA].slot;
    }
    TRY(put_batch(&flat, slot, body, length, &body_size, err));
    store_u64(flat.data + fields[IPC_MESSAGE_BODY_LENGTH].slot, body_size);
    TRY(ipc_put_message(&flat, start, &message, err));
    TRY(emit(w, message.data, message.size, err));
    TRY(emit_body(w, body, err));
    if (w->options.file) {
        TRY(mem_grow(w->mem, &blocks->items, &blocks->cap, blocks->n, sizeof *blocks->items, INT32_MAX, err));
        blocks->items[blocks->n++] = (struct written_block){start, (uint32_t)message.size, body_size};
    }
done:
    buf_free(&flat);
    buf_free(&message);
    return st;
}

/* ------------------------------------------------------------------------------------------------------- dictionaries */

/* Write the values of dictionary field `id` (its number in the walk) and remember them. */
static pennon_status write_dictionary(struct ipc_writer *w, const struct ArrowSchema *values, const struct ArrowArray *dictionary,
                                      size_t id, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray copy = {0};
    struct shared_array *shared = NULL;
    struct body body = {.mem = w->mem, .options = &w->options};
    const struct ArrowArray *last = w->sent[id] != NULL ? shared_array_get(w->sent[id]) : NULL;

    buf_init(&body.packed, w->mem, BUF_NO_LIMIT);
    if (last != NULL && array_equal(values, last, dictionary)) goto done;
    if (last != NULL && w->options.file) {
        FAIL(PENNON_INVALID_ARGUMENT,
             "Arrow IPC file: the dictionary of a column changed between batches; write a stream, or unify the dictionaries");
    }
    /* The copy is normal, and it outlives the batch. */
    TRY(array_copy_range(values, dictionary, 0, dictionary->length, 0, w->mem, &copy, err));
    TRY(add_field(&body, values, &copy, err));
    TRY(write_message(w, &body, copy.length, (int64_t)id, &w->dictionaries, err));
    TRY_NEW(shared, shared_array_new(&copy, w->mem, err));
    shared_array_release(w->sent[id]);
    w->sent[id] = shared;
done:
    array_release(&copy);
    body_free(&body);
    return st;
}

/* The dictionaries of a field and what is below it, inner ones first. */
static pennon_status write_dictionaries(struct ipc_writer *w, const struct ArrowSchema *schema, const struct ArrowArray *array,
                                        size_t *next_id, pennon_error *err)
{
    const struct ArrowSchema *values = schema->dictionary != NULL ? schema->dictionary : schema;
    const struct ArrowArray *below = schema->dictionary != NULL ? array->dictionary : array;
    size_t id = *next_id;
    if (schema->dictionary != NULL) (*next_id)++;
    for (int64_t i = 0; i < values->n_children; i++)
        TRY_RETURN(write_dictionaries(w, values->children[i], below->children[i], next_id, err));
    return schema->dictionary != NULL ? write_dictionary(w, values, below, id, err) : PENNON_OK;
}

/* -------------------------------------------------------------------------------------------------------------- writer */

void ipc_writer_free(struct ipc_writer *w)
{
    struct mem *mem = NULL;
    if (w == NULL) return;
    mem = w->mem;
    for (size_t i = 0; i < w->n_sent; i++) shared_array_release(w->sent[i]);
    mem_free(mem, w->sent);
    mem_free(mem, w->dictionaries.items);
    mem_free(mem, w->records.items);
    arrow_schema_release(&w->schema);
    mem_free(mem, w);
    mem_release(mem);
}

static pennon_status write_start(struct ipc_writer *w, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf b;
    buf_init(&b, w->mem, BUF_NO_LIMIT);
    if (w->options.file) {
        TRY(buf_append(&b, IPC_MAGIC, IPC_MAGIC_SIZE, err));
        TRY(buf_append_zero(&b, 8 - IPC_MAGIC_SIZE, err));
    }
    TRY(ipc_put_schema_message(&w->schema, b.size, &b, err));
    TRY(emit(w, b.data, b.size, err));
done:
    buf_free(&b);
    return st;
}

struct ipc_writer *ipc_writer_new(const struct ArrowSchema *schema, const struct ipc_writer_options *options, ipc_sink_fn sink,
                                  void *ctx, struct mem *mem, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ipc_writer *w = mem_calloc(mem, 1, sizeof *w, err);
    if (w == NULL) return NULL;
    w->mem = mem_retain(mem);
    if (options != NULL) w->options = *options;
    w->sink = sink;
    w->ctx = ctx;
    if (strcmp(schema->format, "+s") != 0) FAIL(PENNON_INVALID_ARGUMENT, "Arrow IPC: batches have to be structs");
    TRY(arrow_schema_copy(schema, mem, &w->schema, err));
    w->n_sent = ipc_count_dictionaries(schema);
    TRY_NEW(w->sent, mem_calloc(mem, w->n_sent, sizeof(*w->sent), err));
    TRY(write_start(w, err));
    return w;
done:
    ASSERT(st != PENNON_OK);
    if (w->sent == NULL) w->n_sent = 0;
    ipc_writer_free(w);
    return NULL;
}

pennon_status ipc_writer_write(struct ipc_writer *w, const struct ArrowArray *batch, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray copy = {0};
    struct array_view view;
    struct body body = {.mem = w->mem, .options = &w->options};
    size_t id = 0;

    buf_init(&body.packed, w->mem, BUF_NO_LIMIT);
    ASSERT(!w->finished);
    TRY(array_view_init(&view, &w->schema, batch, err));
    if (view.null_count > 0) FAIL(PENNON_INVALID_ARGUMENT, "Arrow IPC: a record batch has null rows");
    if (!view_is_normal(&view, err)) {
        TRY(array_copy_range(&w->schema, batch, 0, batch->length, 0, w->mem, &copy, err));
        batch = &copy;
    }
    TRY(write_dictionaries(w, &w->schema, batch, &id, err));
    for (int64_t i = 0; i < batch->n_children; i++) TRY(add_field(&body, w->schema.children[i], batch->children[i], err));
    TRY(write_message(w, &body, batch->length, -1, &w->records, err));
done:
    array_release(&copy);
    body_free(&body);
    return st;
}

static pennon_status put_blocks(struct buf *b, size_t slot, const struct block_list *list, pennon_error *err)
{
    size_t at = 0;
    TRY_RETURN(flat_put_items(b, slot, list->n, IPC_BLOCK_SIZE, 8, &at, err));
    for (size_t i = 0; i < list->n; i++, at += IPC_BLOCK_SIZE) {
        store_u64(b->data + at, list->items[i].offset);
        store_u32(b->data + at + 8, list->items[i].metadata);
        store_u64(b->data + at + 16, list->items[i].body);
    }
    return PENNON_OK;
}

static pennon_status write_footer(struct ipc_writer *w, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf b;
    uint8_t size[4];
    struct flat_field fields[IPC_FOOTER_FIELDS] = {[IPC_FOOTER_VERSION] = scalar(FLAT_I16, IPC_V5),
                                                   [IPC_FOOTER_SCHEMA] = offset(true),
                                                   [IPC_FOOTER_DICTIONARIES] = offset(true),
                                                   [IPC_FOOTER_RECORDS] = offset(true)};
    buf_init(&b, w->mem, INT32_MAX);
    TRY(flat_begin(&b, err));
    TRY(flat_put_table(&b, 0, fields, IPC_FOOTER_FIELDS, err));
    TRY(ipc_write_schema(&b, fields[IPC_FOOTER_SCHEMA].slot, &w->schema, err));
    TRY(put_blocks(&b, fields[IPC_FOOTER_DICTIONARIES].slot, &w->dictionaries, err));
    TRY(put_blocks(&b, fields[IPC_FOOTER_RECORDS].slot, &w->records, err));
    store_u32(size, (uint32_t)b.size);
    TRY(buf_append(&b, size, sizeof size, err));
    TRY(buf_append(&b, IPC_MAGIC, IPC_MAGIC_SIZE, err));
    TRY(emit(w, b.data, b.size, err));
done:
    buf_free(&b);
    return st;
}

pennon_status ipc_writer_finish(struct ipc_writer *w, pennon_error *err)
{
    uint8_t end[8] = {0};
    store_u32(end, IPC_CONTINUATION);
    ASSERT(!w->finished);
    w->finished = true;
    TRY_RETURN(emit(w, end, sizeof end, err));
    return w->options.file ? write_footer(w, err) : PENNON_OK;
}
