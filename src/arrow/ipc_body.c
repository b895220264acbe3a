/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Bodies of IPC messages: a RecordBatch table and the bytes behind it become an array.
 *
 * The table lists, in the order of a walk of the schema (a field, then its children):
 *   nodes     16 bytes a field: i64 length, i64 null count
 *   buffers   16 bytes a buffer: i64 offset in the body, i64 length; those of the layout, data buffers of views as told by
 *   variadic  i64 a field of view type: number of its data buffers
 * A compressed buffer begins with i64 bytes when uncompressed; -1 = it is not compressed after all; an empty buffer has no prefix.
 *
 * Every buffer's needed size is known from the lengths and, for bytes, from the offsets before it: a buffer that is shorter is corrupt, and
 * a claim of far more than what is needed is not believed. Then the whole array is validated like any from outside.
 * Buffers point into the body where it is shared and aligned to 8 bytes, otherwise they are copies.
 * Source: Arrow's Message.fbs and columnar format. */
#include "arrow/ipc.h"

/* A buffer that claims more than twice what is needed and this is corrupt. */
#define CLAIM_SLACK ((uint64_t)1 << 20)
/* Data buffers of views are addressed with 31-bit offsets and sizes. */
#define VIEW_DATA_MAX ((uint64_t)1 << 32)

struct loader {
    const struct ipc_body *body;
    struct mem *mem;
    int codec;
    bool v4;
    struct flat_vector nodes;
    struct flat_vector buffers;
    struct flat_vector variadic;
    uint32_t node;
    uint32_t buffer;
    uint32_t view;
    struct ipc_dictionary *dictionaries;
    size_t dictionary;
};

/* The next buffer's bytes in the body. */
static pennon_status next_buffer(struct loader *l, struct bytes *out, pennon_error *err)
{
    const uint8_t *entry = NULL;
    uint64_t offset = 0;
    uint64_t size = 0;
    CHECK_FILE_RETURN(l->buffer < l->buffers.n, "Arrow IPC: a record batch has only %u buffers", l->buffers.n);
    entry = l->buffers.items + (size_t)l->buffer++ * 16;
    offset = load_u64(entry);
    size = load_u64(entry + 8);
    CHECK_FILE_RETURN(range_inside(offset, size, l->body->bytes.size),
                      "Arrow IPC: buffer [%" PRIu64 ", +%" PRIu64 ") outside of a body of %zu bytes", offset, size,
                      l->body->bytes.size);
    *out = bytes_of(size == 0 ? NULL : l->body->bytes.data + offset, (size_t)size);
    return PENNON_OK;
}

/* Uncompress into buffer slot i. `most` bounds what is believed. */
static pennon_status uncompress(struct loader *l, struct bytes in, uint64_t need, uint64_t most, struct ArrowArray *out, size_t i,
                                uint64_t *got, pennon_error *err)
{
    int64_t size = 0;
    uint8_t *to = NULL;
    CHECK_FILE_RETURN(in.size >= 8, "Arrow IPC: a compressed buffer of %zu bytes", in.size);
    size = (int64_t)load_u64(in.data);
    in = bytes_of(in.data + 8, in.size - 8);
    if (size == -1) size = (int64_t)in.size;
    CHECK_FILE_RETURN(size >= 0 && (uint64_t)size >= need && (uint64_t)size <= most,
                      "Arrow IPC: a buffer of %" PRId64 " bytes where %" PRIu64 " are needed", size, need);
    *got = (uint64_t)size;
    to = array_make_buffer(out, i, (size_t)size, err);
    if (to == NULL) return err->code;
    if (size == 0) return PENNON_OK;
    if ((int64_t)load_u64(in.data - 8) == -1) {
        memcpy(to, in.data, in.size);
        return PENNON_OK;
    }
    return l->codec == IPC_CODEC_ZSTD ? zstd_decompress(in, to, (size_t)size, err)
                                      : lz4_frame_decompress(in, to, (size_t)size, err);
}

/* The next buffer into slot i, of at least `need` bytes; `*got` bytes are there. `whole` keeps more than is needed. */
static pennon_status load_buffer(struct loader *l, uint64_t need, bool whole, struct ArrowArray *out, size_t i, uint64_t *got,
                                 pennon_error *err)
{
    struct bytes in;
    uint64_t most = whole ? VIEW_DATA_MAX : need > (UINT64_MAX - CLAIM_SLACK) / 2 ? UINT64_MAX : 2 * need + CLAIM_SLACK;
    TRY_RETURN(next_buffer(l, &in, err));
    if (l->codec != IPC_CODEC_NONE && in.size > 0) return uncompress(l, in, need, most, out, i, got, err);
    CHECK_FILE_RETURN(in.size >= need, "Arrow IPC: a buffer of %zu bytes where %" PRIu64 " are needed", in.size, need);
    *got = in.size;
    if (in.size == 0) return array_zero_buffer(out, i, 0, err);
    if (l->body->owner != NULL && ((uintptr_t)in.data & 7) == 0) {
        array_give_block(out, i, block_retain(l->body->owner), in.data);
        return PENNON_OK;
    }
    *got = whole ? in.size : need;
    void *to = array_make_buffer(out, i, (size_t)*got, err);
    if (to == NULL) return err->code;
    memcpy(to, in.data, (size_t)*got);
    return PENNON_OK;
}

static pennon_status load_values(struct loader *l, uint64_t n, uint64_t width, struct ArrowArray *out, size_t i, pennon_error *err)
{
    uint64_t need = 0;
    uint64_t got = 0;
    CHECK_FILE_RETURN(!mul_overflows(n, width, &need) && need <= INT64_MAX, "Arrow IPC: %" PRIu64 " values of %" PRIu64 " bytes", n,
                      width);
    return load_buffer(l, need, false, out, i, &got, err);
}

/* Validity: skipped where nothing is null. */
static pennon_status load_validity(struct loader *l, struct ArrowArray *out, pennon_error *err)
{
    struct bytes skipped;
    if (out->null_count == 0) return next_buffer(l, &skipped, err);
    return load_values(l, bitmap_bytes((uint64_t)out->length), 1, out, 0, err);
}

/* n + 1 offsets (none are needed for no rows) into slot 1; *last is the last one, not negative. */
static pennon_status load_offsets(struct loader *l, bool wide, struct ArrowArray *out, int64_t *last, pennon_error *err)
{
    uint64_t n = (uint64_t)out->length;
    *last = 0;
    TRY_RETURN(load_values(l, n == 0 ? 0 : n + 1, wide ? 8 : 4, out, 1, err));
    if (n == 0) return array_zero_buffer(out, 1, 8, err); /* one offset, whatever was there */
    const uint8_t *offsets = out->buffers[1];
    *last = wide ? native_i64(offsets + n * 8) : native_i32(offsets + n * 4);
    CHECK_FILE_RETURN(*last >= 0, "Arrow IPC: a negative offset");
    return PENNON_OK;
}

static pennon_status load_views(struct loader *l, int64_t n_data, struct ArrowArray *out, pennon_error *err)
{
    int64_t *sizes = array_make_buffer(out, (size_t)n_data + 2, (size_t)n_data * 8, err);
    if (sizes == NULL) return err->code;
    TRY_RETURN(load_values(l, (uint64_t)out->length, VIEW_BYTES, out, 1, err));
    for (int64_t k = 0; k < n_data; k++) {
        uint64_t got = 0;
        TRY_RETURN(load_buffer(l, 0, true, out, (size_t)k + 2, &got, err));
        sizes[k] = (int64_t)got;
    }
    return PENNON_OK;
}

/* The buffers of a layout; node and validity are done. */
static pennon_status load_buffers(struct loader *l, const struct arrow_type *t, struct ArrowArray *out, pennon_error *err)
{
    uint64_t n = (uint64_t)out->length;
    int64_t last = 0;
    uint64_t got = 0;
    uint64_t width = layout_is_wide(t->layout) ? 8 : 4;
    switch (t->layout) {
    case LAYOUT_BITS: return load_values(l, bitmap_bytes(n), 1, out, 1, err);
    case LAYOUT_FIXED: return load_values(l, n, arrow_type_width(t), out, 1, err);
    case LAYOUT_VAR32:
    case LAYOUT_VAR64:
        TRY_RETURN(load_offsets(l, layout_is_wide(t->layout), out, &last, err));
        return load_buffer(l, (uint64_t)last, false, out, 2, &got, err);
    case LAYOUT_LIST32:
    case LAYOUT_LIST64: return load_offsets(l, layout_is_wide(t->layout), out, &last, err);
    case LAYOUT_LIST_VIEW32:
    case LAYOUT_LIST_VIEW64: TRY_RETURN(load_values(l, n, width, out, 1, err)); return load_values(l, n, width, out, 2, err);
    case LAYOUT_VIEW: return load_views(l, view_data_buffers(out), out, err);
    case LAYOUT_SPARSE_UNION: return load_values(l, n, 1, out, 0, err);
    case LAYOUT_DENSE_UNION: TRY_RETURN(load_values(l, n, 1, out, 0, err)); return load_values(l, n, 4, out, 1, err);
    case LAYOUT_NULL:
    case LAYOUT_FIXED_LIST:
    case LAYOUT_STRUCT:
    case LAYOUT_RUN_END: return PENNON_OK;
    }
    return PENNON_OK;
}

/* Number of buffers of the array: views ask the variadic list. */
static pennon_status count_buffers(struct loader *l, const struct arrow_type *t, size_t *out, pennon_error *err)
{
    int64_t n = 0;
    *out = arrow_type_buffers(t);
    if (t->layout != LAYOUT_VIEW) return PENNON_OK;
    CHECK_FILE_RETURN(l->view < l->variadic.n, "Arrow IPC: the number of view buffers is missing");
    n = (int64_t)load_u64(l->variadic.items + (size_t)l->view++ * 8);
    CHECK_FILE_RETURN(n >= 0 && (uint64_t)n <= l->buffers.n - l->buffer, "Arrow IPC: %" PRId64 " view buffers", n);
    *out += (size_t)n;
    return PENNON_OK;
}

/* The dictionary in use, as an alias; none yet = no values. */
static pennon_status attach_dictionary(struct loader *l, const struct ArrowSchema *schema, struct ArrowArray *out,
                                       pennon_error *err)
{
    struct ipc_dictionary *d = &l->dictionaries[l->dictionary];
    struct shared_array *array = l->dictionaries[d->first].array;
    struct ArrowArray *slot = array_dictionary_slot(out);
    l->dictionary += 1 + d->below;
    if (array == NULL) return array_nulls(schema->dictionary, 0, l->mem, slot, err);
    return array_slice(schema->dictionary, array, 0, shared_array_get(array)->length, l->mem, slot, err);
}

static pennon_status load_field(struct loader *l, const struct ArrowSchema *schema, struct ArrowArray *out, pennon_error *err)
{
    struct arrow_type type;
    size_t n_buffers = 0;
    const uint8_t *node = NULL;
    struct bytes skipped;
    bool has_validity = false;

    TRY_RETURN(arrow_type_of(schema, &type, err));
    CHECK_FILE_RETURN(l->node < l->nodes.n, "Arrow IPC: a record batch has only %u fields", l->nodes.n);
    node = l->nodes.items + (size_t)l->node++ * 16;
    TRY_RETURN(count_buffers(l, &type, &n_buffers, err));
    TRY_RETURN(array_new(out, n_buffers, (size_t)schema->n_children, l->mem, err));
    out->length = (int64_t)load_u64(node);
    out->null_count = (int64_t)load_u64(node + 8);
    CHECK_FILE_RETURN(out->length >= 0 && out->length <= INT64_MAX / 4 && out->null_count >= 0 && out->null_count <= out->length,
                      "Arrow IPC: field '%.128s' has %" PRId64 " rows and %" PRId64 " nulls", field_name(schema), out->length,
                      out->null_count);
    has_validity = type.layout != LAYOUT_NULL && type.layout != LAYOUT_RUN_END && type.union_ids == NULL;
    if (has_validity) {
        TRY_RETURN(load_validity(l, out, err));
    } else {
        out->null_count = type.layout == LAYOUT_NULL ? out->length : 0;
        if (l->v4 && type.layout != LAYOUT_NULL)
            TRY_RETURN(next_buffer(l, &skipped, err)); /* unions and run ends had a validity then */
    }
    TRY_RETURN(load_buffers(l, &type, out, err));
    for (int64_t i = 0; i < schema->n_children; i++) TRY_RETURN(load_field(l, schema->children[i], out->children[i], err));
    return schema->dictionary != NULL ? attach_dictionary(l, schema, out, err) : PENNON_OK;
}

static pennon_status read_compression(const struct flat_table *batch, int *codec, pennon_error *err)
{
    struct flat_table table;
    bool present = false;
    uint8_t number = 0;
    uint8_t method = 0;
    *codec = IPC_CODEC_NONE;
    TRY_RETURN(flat_child(batch, IPC_BATCH_COMPRESSION, &table, &present, err));
    if (!present) return PENNON_OK;
    TRY_RETURN(flat_u8(&table, 0, IPC_CODEC_LZ4_FRAME, &number, err));
    TRY_RETURN(flat_u8(&table, 1, 0, &method, err));
    if (number > IPC_CODEC_ZSTD || method != 0) {
        return error_set(err, PENNON_NOT_SUPPORTED, "Arrow IPC: body compression %u with method %u", (unsigned)number,
                         (unsigned)method);
    }
    *codec = number;
    return PENNON_OK;
}

pennon_status ipc_load_batch(const struct flat_table *batch, const struct ipc_body *body, bool v4, const struct ArrowSchema *schema,
                             bool one_column, struct ipc_dictionary *all, size_t at, struct mem *mem, struct ArrowArray *out,
                             pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct loader l = {.body = body, .mem = mem, .v4 = v4, .dictionaries = all, .dictionary = at};
    int64_t length = 0;

    memset(out, 0, sizeof *out);
    TRY(flat_i64(batch, IPC_BATCH_LENGTH, 0, &length, err));
    TRY(flat_items(batch, IPC_BATCH_NODES, 16, &l.nodes, err));
    TRY(flat_items(batch, IPC_BATCH_BUFFERS, 16, &l.buffers, err));
    TRY(flat_items(batch, IPC_BATCH_VARIADIC, 8, &l.variadic, err));
    TRY(read_compression(batch, &l.codec, err));
    CHECK_FILE(length >= 0, "Arrow IPC: a record batch of %" PRId64 " rows", length);
    if (one_column) {
        TRY(load_field(&l, schema, out, err));
        CHECK_FILE(out->length == length, "Arrow IPC: a dictionary of %" PRId64 " values in a batch of %" PRId64 " rows",
                   out->length, length);
    } else {
        TRY(array_new(out, 1, (size_t)schema->n_children, mem, err));
        out->length = length;
        for (int64_t i = 0; i < schema->n_children; i++) {
            TRY(load_field(&l, schema->children[i], out->children[i], err));
            CHECK_FILE(out->children[i]->length == length, "Arrow IPC: column '%.128s' has %" PRId64 " rows in a batch of %" PRId64,
                       field_name(schema->children[i]), out->children[i]->length, length);
        }
    }
    TRY(array_validate_indices_only(schema, out, err));
done:
    if (st != PENNON_OK) {
        array_release(out);
        st = ipc_as_corrupt(err);
    }
    return st;
}
