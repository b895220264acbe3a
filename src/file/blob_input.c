/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Blob v2 columns read as they are written: struct<data, uri> or struct<data, uri, position, size>, so that rows can go from one data file to another.
 *
 *   descriptor          | data      | uri, a name for the writer                                              | position, size
 *   --------------------|-----------|-------------------------------------------------------------------------|---------------
 *   null                | null      | null                                                                    | null
 *   kinds 0, 1, 2       | the bytes | null                                                                    | null
 *   kind 3, external    | null      | base id (8 hex digits):position (16):size (16):text of the descriptor   | null
 *
 * References are carried, not followed: the writer of such a stream keeps them as they are (blob_carried_given).
 * Source: spec table-format 14, commits 9.3. */
#include "file/blob_read.h"

#define KIND_EXTERNAL 3
#define NAME_FORM "%08" PRIx32 ":%016" PRIx64 ":%016" PRIx64 ":"

static bool row_is_null(const struct ArrowArray *column, uint64_t row)
{
    return column->null_count != 0 && column->buffers[0] && !bit_get(column->buffers[0], row);
}

static const void *part(const struct ArrowArray *column, size_t i) { return column->children[i]->buffers[1]; }

static bool is_external(const struct ArrowArray *column, uint64_t row)
{
    return !row_is_null(column, row) && ((const uint8_t *)part(column, 0))[row] == KIND_EXTERNAL;
}

/* Validity of the rows that are external, or that are not; a row that is null is neither. */
static pennon_status put_validity(const struct ArrowArray *column, bool external, struct ArrowArray *out, pennon_error *err)
{
    const uint64_t n = (uint64_t)column->length;
    uint64_t nulls = 0;
    uint8_t *bits = array_make_buffer(out, 0, (size_t)bitmap_bytes(n), err);
    if (!bits) return err->code;
    memset(bits, 0, (size_t)bitmap_bytes(n));
    for (uint64_t row = 0; row < n; row++) {
        const bool there = !row_is_null(column, row) && is_external(column, row) == external;
        if (there) bit_set(bits, row);
        nulls += !there;
    }
    out->null_count = (int64_t)nulls;
    return PENNON_OK;
}

static pennon_status put_uris(const struct ArrowArray *column, struct mem *m, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const uint64_t n = (uint64_t)column->length;
    const int32_t *ends = part(column, 4);
    struct buf text;
    int32_t *to;
    buf_init(&text, m, INT32_MAX);
    TRY(array_new(out, 3, 0, m, err));
    out->length = column->length;
    TRY_NEW(to, array_make_buffer(out, 1, (size_t)(n + 1) * 4, err));
    to[0] = 0;
    for (uint64_t row = 0; row < n; row++) {
        if (is_external(column, row)) {
            TRY(buf_printf(&text, err, NAME_FORM, ((const uint32_t *)part(column, 3))[row],
                           ((const uint64_t *)part(column, 1))[row], ((const uint64_t *)part(column, 2))[row]));
            TRY(buf_append(&text, (const uint8_t *)column->children[4]->buffers[2] + ends[row], (size_t)(ends[row + 1] - ends[row]),
                           err));
        }
        to[row + 1] = (int32_t)text.size;
    }
    array_give_buf(out, 2, &text);
    TRY(put_validity(column, true, out, err));
done:
    buf_free(&text);
    return st;
}

static pennon_status put_nulls(uint64_t n, struct mem *m, struct ArrowArray *out, pennon_error *err)
{
    TRY_RETURN(array_new(out, 2, 0, m, err));
    out->length = out->null_count = (int64_t)n;
    TRY_RETURN(array_zero_buffer(out, 0, (size_t)bitmap_bytes(n), err));
    return array_zero_buffer(out, 1, (size_t)n * 8, err);
}

pennon_status blob_input_make(const struct ArrowArray *column, size_t n_children, struct ArrowArray *bytes, struct mem *m,
                              struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const uint64_t n = (uint64_t)column->length;
    ASSERT(column->n_children == 5 && column->offset == 0 && (n_children == 2 || n_children == 4));
    TRY(array_new(out, 1, n_children, m, err));
    out->length = column->length;
    out->null_count = column->null_count;
    if (column->null_count && column->buffers[0]) {
        uint8_t *bits;
        TRY_NEW(bits, array_make_buffer(out, 0, (size_t)bitmap_bytes(n), err));
        memcpy(bits, column->buffers[0], (size_t)bitmap_bytes(n));
    }
    array_move(bytes, out->children[0]);
    TRY(put_validity(column, false, out->children[0], err));
    TRY(put_uris(column, m, out->children[1], err));
    /* Position and size are in the name. */
    for (size_t i = 2; i < n_children; i++) TRY(put_nulls(n, m, out->children[i], err));
done:
    return st;
}

/* A number of `n` hex digits and the colon behind it, which leave `in`. */
static bool take_hex(struct bytes *in, size_t n, uint64_t *out)
{
    *out = 0;
    if (in->size <= n || in->data[n] != ':') return false;
    for (size_t i = 0; i < n; i++) {
        const uint8_t d = in->data[i];
        if (!((d >= '0' && d <= '9') || (d >= 'a' && d <= 'f'))) return false;
        *out = *out << 4 | (uint64_t)(d <= '9' ? d - '0' : d - 'a' + 10);
    }
    *in = bytes_of(in->data + n + 1, in->size - n - 1);
    return true;
}

pennon_status blob_carried_given(void *ctx, const struct call *c, struct bytes name, struct blob_given *out, pennon_error *err)
{
    uint64_t id;
    UNUSED(ctx);
    UNUSED(c);
    *out = (struct blob_given){.copy = false};
    if (!take_hex(&name, 8, &id) || !take_hex(&name, 16, &out->position) || !take_hex(&name, 16, &out->size))
        return error_set(err, PENNON_INTERNAL, "a reference to an external blob that is none");
    out->base_id = (uint32_t)id;
    out->uri = name;
    return PENNON_OK;
}
