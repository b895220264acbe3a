/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Taking rows by index, and filtering by a bitmap.
 *
 * Plain layouts have a loop per width that reads the indices; structs hand them down. Fixed size lists of plain values without
 * nulls (embeddings) are one wide value, other lists of them like texts. Types whose rows are runs of a child (lists, list views, unions, run ends) turn the indices into
 * spans for the gather kernel, which joins neighbours.
 *
 * A filter becomes spans when its set bits come in runs, and indices otherwise. */
#include "arrow/arrow_internal.h"
#include "arrow/bitmap.h"

/* Rows a run must have on average for spans to be cheaper than indices. */
#define SPAN_RUN 4

struct take {
    const uint64_t *indices; /* each < length of the view or ARRAY_TAKE_NULL */
    size_t n;
    bool has_null; /* one of them is ARRAY_TAKE_NULL */
    struct mem *mem;
};

static pennon_status take_view(const struct take *t, const struct array_view *v, struct ArrowArray *out, pennon_error *err);

/* Validity of the result: buffer 0 and null_count. */
static pennon_status take_validity(const struct take *t, const struct array_view *v, struct ArrowArray *out, pennon_error *err)
{
    uint8_t *bits = NULL;
    size_t valid = 0;
    if (v->validity == NULL && !t->has_null) return PENNON_OK;
    bits = array_make_buffer(out, 0, (size_t)bitmap_bytes(t->n), err);
    if (bits == NULL) return err->code;
    for (size_t i = 0; i < t->n;) {
        unsigned byte = 0;
        size_t stop = i + 8 < t->n ? i + 8 : t->n;
        size_t at = i / 8;
        for (unsigned bit = 0; i < stop; i++, bit++) {
            uint64_t index = t->indices[i];
            bool is_valid = index != ARRAY_TAKE_NULL && (v->validity == NULL || bit_get(v->validity, (uint64_t)v->offset + index));
            byte |= (unsigned)is_valid << bit;
        }
        bits[at] = (uint8_t)byte;
        valid += popcount_u64(byte);
    }
    out->null_count = (int64_t)(t->n - valid);
    if (out->null_count == 0) {
        struct buf none;
        buf_init(&none, t->mem, 0);
        array_give_buf(out, 0, &none);
    }
    return PENNON_OK;
}

static pennon_status take_bits(const struct take *t, const struct array_view *v, struct ArrowArray *out, pennon_error *err)
{
    size_t size = (size_t)bitmap_bytes(t->n);
    uint8_t *to = array_make_buffer(out, 1, size, err);
    if (to == NULL) return err->code;
    memset(to, 0, size);
    for (size_t i = 0; i < t->n; i++) {
        uint64_t index = t->indices[i];
        if (index != ARRAY_TAKE_NULL && bit_get(v->data, (uint64_t)v->offset + index)) bit_set(to, i);
    }
    return PENNON_OK;
}

/* One loop per width: the compiler turns the copies into moves. */
#define TAKE_LOOP(WIDTH) \
    for (size_t i = 0; i < n; i++) memcpy(to + i * (WIDTH), from + indices[i] * (WIDTH), WIDTH)

static void take_dense(const uint64_t *indices, size_t n, const uint8_t *from, size_t width, uint8_t *to)
{
    switch (width) {
    case 1: TAKE_LOOP(1); break;
    case 2: TAKE_LOOP(2); break;
    case 4: TAKE_LOOP(4); break;
    case 8: TAKE_LOOP(8); break;
    case 16: TAKE_LOOP(16); break;
    case 32: TAKE_LOOP(32); break;
    default: TAKE_LOOP(width); break;
    }
}

static void take_with_nulls(const uint64_t *indices, size_t n, const uint8_t *from, size_t width, uint8_t *to)
{
    for (size_t i = 0; i < n; i++, to += width) {
        if (indices[i] == ARRAY_TAKE_NULL) {
            memset(to, 0, width);
        } else {
            memcpy(to, from + indices[i] * width, width);
        }
    }
}

/* `first` is the value of row 0. */
static pennon_status take_values(const struct take *t, const uint8_t *first, size_t width, struct ArrowArray *out,
                                 pennon_error *err)
{
    size_t size = 0;
    uint8_t *to = NULL;
    if (size_mul_overflows(t->n, width, &size)) return error_set(err, PENNON_OVER_BUDGET, "%zu rows are too many", t->n);
    to = array_make_buffer(out, 1, size, err);
    if (to == NULL) return err->code;
    if (width == 0) return PENNON_OK;
    if (t->has_null) {
        take_with_nulls(t->indices, t->n, first, width, to);
    } else {
        take_dense(t->indices, t->n, first, width, to);
    }
    return PENNON_OK;
}

/* Offsets of the result and where each value begins; the bytes follow in a second pass. */
#define TAKE_OFFSETS(SIZE, GET, PUT, LIMIT)                                                    \
    do {                                                                                       \
        PUT(to, 0);                                                                            \
        for (size_t i = 0; i < t->n; i++) {                                                    \
            if (t->indices[i] != ARRAY_TAKE_NULL) {                                            \
                const uint8_t *entry = v->data + ((size_t)v->offset + t->indices[i]) * (SIZE); \
                total += GET(entry + (SIZE)) - GET(entry);                                     \
            }                                                                                  \
            if (total > (LIMIT)) goto too_large;                                               \
            PUT(to + (i + 1) * (SIZE), total);                                                 \
        }                                                                                      \
    } while (0)
#define PUT_NARROW(at, value) native_put_i32((at), (int32_t)(value))

/* Buffer 1: offsets of the rows; *total entries. */
static pennon_status take_offsets(const struct take *t, const struct array_view *v, struct ArrowArray *out, int64_t *entries,
                                  pennon_error *err)
{
    bool wide = layout_is_wide(v->type.layout);
    size_t size = wide ? 8 : 4;
    int64_t total = 0;
    uint8_t *to = array_make_buffer(out, 1, (t->n + 1) * size, err);
    if (to == NULL) return err->code;
    if (wide) {
        TAKE_OFFSETS(8, native_i64, native_put_i64, INT64_MAX / 4);
    } else {
        TAKE_OFFSETS(4, native_i32, PUT_NARROW, INT32_MAX);
    }
    *entries = total;
    return PENNON_OK;
too_large:
    return error_set(err, PENNON_INVALID_ARGUMENT, "field '%.128s': the values of %zu rows do not fit %zu-bit offsets",
                     field_name(v->schema), t->n, size * 8);
}

/* The entries of the rows, each of `width` bytes, after one another. `from` is entry 0. */
static void take_entries(const struct take *t, const struct array_view *v, const uint8_t *from, size_t width, uint8_t *to)
{
    for (size_t i = 0; i < t->n; i++) {
        if (t->indices[i] == ARRAY_TAKE_NULL) continue;
        int64_t slot = v->offset + (int64_t)t->indices[i];
        int64_t start = view_offset(v, slot);
        size_t n = (size_t)(view_offset(v, slot + 1) - start) * width;
        if (n == 0) continue;
        memcpy(to, from + (size_t)start * width, n);
        to += n;
    }
}

static pennon_status take_variable(const struct take *t, const struct array_view *v, struct ArrowArray *out, pennon_error *err)
{
    int64_t total = 0;
    uint8_t *bytes = NULL;
    TRY_RETURN(take_offsets(t, v, out, &total, err));
    bytes = array_make_buffer(out, 2, (size_t)total, err);
    if (bytes == NULL) return err->code;
    take_entries(t, v, v->bytes, 1, bytes);
    return PENNON_OK;
}

/* Rows as spans, for the types that the gather kernel handles. */
static pennon_status take_spans(const struct take *t, const struct array_view *v, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct span_list spans;
    span_list_init(&spans, t->mem);
    for (size_t i = 0; i < t->n; i++) {
        bool null = t->indices[i] == ARRAY_TAKE_NULL;
        TRY(span_list_add(&spans, null ? SPAN_NULL : 0, null ? 0 : (int64_t)t->indices[i], 1, err));
    }
    struct gather g = {v, 1, spans.items, spans.n, spans.rows, 0, t->mem};
    TRY(gather_spans(&g, v->schema, out, err));
done:
    span_list_free(&spans);
    return st;
}

/* A list whose rows are runs of plain values: a view of the child, else false. */
static bool list_is_flat(const struct array_view *v, struct array_view *child, pennon_error *err)
{
    return array_view_peek_child(v, 0, child, err) == PENNON_OK && child->type.layout == LAYOUT_FIXED &&
           child->type.id != ARROW_DICTIONARY && !array_view_has_nulls(child);
}

static pennon_status take_flat_lists(const struct take *t, const struct array_view *v, const struct array_view *child,
                                     struct ArrowArray *out, pennon_error *err)
{
    struct ArrowArray *to = out->children[0];
    size_t width = 0;
    if (size_mul_overflows(arrow_type_width(&child->type), (size_t)v->type.fixed_size, &width)) {
        return error_set(err, PENNON_OVER_BUDGET, "field '%.128s': a row is too wide", field_name(v->schema));
    }
    if (t->n > INT64_MAX / 4 / ((size_t)v->type.fixed_size + 1)) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "field '%.128s': %zu rows are too many", field_name(v->schema), t->n);
    }
    TRY_RETURN(array_new(to, 2, 0, t->mem, err));
    to->length = (int64_t)t->n * v->type.fixed_size;
    return take_values(t, v->length > 0 && width > 0 ? array_view_fixed(child, 0) : NULL, width, to, err);
}

/* Lists of plain values are like texts with wider characters. */
static pennon_status take_plain_lists(const struct take *t, const struct array_view *v, const struct array_view *child,
                                      struct ArrowArray *out, pennon_error *err)
{
    struct ArrowArray *to = out->children[0];
    size_t width = arrow_type_width(&child->type);
    int64_t total = 0;
    size_t size = 0;
    uint8_t *values = NULL;
    TRY_RETURN(take_offsets(t, v, out, &total, err));
    if (size_mul_overflows((size_t)total, width, &size)) return error_set(err, PENNON_OVER_BUDGET, "%zu rows are too many", t->n);
    TRY_RETURN(array_new(to, 2, 0, t->mem, err));
    to->length = total;
    values = array_make_buffer(to, 1, size, err);
    if (values == NULL) return err->code;
    if (size > 0) take_entries(t, v, array_view_fixed(child, 0), width, values);
    return PENNON_OK;
}

static pennon_status take_dictionary(const struct take *t, const struct array_view *v, struct ArrowArray *out, pennon_error *err)
{
    const struct ArrowArray *dictionary = v->array->dictionary;
    TRY_RETURN(take_values(t, v->length > 0 ? array_view_fixed(v, 0) : NULL, arrow_type_width(&v->type), out, err));
    return array_copy_range(v->schema->dictionary, dictionary, 0, dictionary->length, 0, t->mem, array_dictionary_slot(out), err);
}

static pennon_status take_children(const struct take *t, const struct array_view *v, struct ArrowArray *out, pennon_error *err)
{
    for (int64_t i = 0; i < v->array->n_children; i++) {
        struct array_view child;
        TRY_RETURN(array_view_peek_child(v, i, &child, err));
        TRY_RETURN(take_view(t, &child, out->children[i], err));
    }
    return PENNON_OK;
}

static pennon_status take_content(const struct take *t, const struct array_view *v, struct ArrowArray *out, pennon_error *err)
{
    switch (v->type.layout) {
    case LAYOUT_NULL: out->null_count = out->length; return PENNON_OK;
    case LAYOUT_BITS: return take_bits(t, v, out, err);
    case LAYOUT_FIXED:
        if (v->type.id == ARROW_DICTIONARY) return take_dictionary(t, v, out, err);
        return take_values(t, v->length > 0 && v->type.bit_width > 0 ? array_view_fixed(v, 0) : NULL, arrow_type_width(&v->type),
                           out, err);
    case LAYOUT_VAR32:
    case LAYOUT_VAR64: return take_variable(t, v, out, err);
    case LAYOUT_STRUCT: return take_children(t, v, out, err);
    default: return error_set(err, PENNON_INTERNAL, "take of layout %d", (int)v->type.layout);
    }
}

static pennon_status take_view(const struct take *t, const struct array_view *v, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct array_view child;
    bool list = v->type.layout == LAYOUT_LIST32 || v->type.layout == LAYOUT_LIST64;
    bool flat = (list || v->type.layout == LAYOUT_FIXED_LIST) && list_is_flat(v, &child, err);

    memset(out, 0, sizeof *out);
    switch (v->type.layout) {
    case LAYOUT_NULL:
    case LAYOUT_BITS:
    case LAYOUT_FIXED:
    case LAYOUT_VAR32:
    case LAYOUT_VAR64:
    case LAYOUT_STRUCT: break;
    default:
        if (!flat) return take_spans(t, v, out, err);
    }
    TRY(array_new(out, arrow_type_buffers(&v->type), (size_t)v->array->n_children, t->mem, err));
    out->length = (int64_t)t->n;
    if (v->type.layout != LAYOUT_NULL) TRY(take_validity(t, v, out, err));
    if (!flat) {
        TRY(take_content(t, v, out, err));
    } else {
        TRY(list ? take_plain_lists(t, v, &child, out, err) : take_flat_lists(t, v, &child, out, err));
    }
done:
    if (st != PENNON_OK) array_release(out);
    return st;
}

pennon_status array_take(const struct ArrowSchema *schema, const struct ArrowArray *array, const uint64_t *indices, size_t n,
                         struct mem *mem, struct ArrowArray *out, pennon_error *err)
{
    struct array_view view;
    struct take t = {indices, n, false, mem};
    uint64_t length = (uint64_t)array->length;

    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < n; i++) {
        if (LIKELY(indices[i] < length)) continue;
        if (indices[i] != ARRAY_TAKE_NULL) {
            return error_set(err, PENNON_INVALID_ARGUMENT, "row %" PRIu64 " does not exist: there are %" PRIu64 " rows", indices[i],
                             length);
        }
        t.has_null = true;
    }
    TRY_RETURN(array_view_peek(&view, schema, array, err));
    return take_view(&t, &view, out, err);
}

/* ------------------------------------------------------------------------------------------------------------- filter */

static uint64_t count_runs(const uint8_t *bits, uint64_t offset, uint64_t n)
{
    uint64_t runs = 0;
    uint64_t carry = 0; /* the bit before the word */
    for (uint64_t at = 0; at < n; at += 64) {
        uint64_t take = min_u64(64, n - at);
        uint64_t word = bitmap_load(bits, offset + at, take);
        runs += popcount_u64(word & ~((word << 1) | carry));
        carry = word >> (take - 1) & 1;
    }
    return runs;
}

static pennon_status filter_by_spans(const struct ArrowSchema *schema, const struct array_view *v, const uint8_t *bits,
                                     uint64_t bit_offset, struct mem *mem, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct span_list spans;
    uint64_t n = (uint64_t)v->length;
    span_list_init(&spans, mem);
    for (uint64_t at = bitmap_next(bits, bit_offset, 0, n, true); at < n;) {
        uint64_t end = bitmap_next(bits, bit_offset, at, n, false);
        TRY(span_list_add(&spans, 0, (int64_t)at, (int64_t)(end - at), err));
        at = bitmap_next(bits, bit_offset, end, n, true);
    }
    struct gather g = {v, 1, spans.items, spans.n, spans.rows, 0, mem};
    TRY(gather_spans(&g, schema, out, err));
done:
    span_list_free(&spans);
    return st;
}

static void fill_indices(const uint8_t *bits, uint64_t bit_offset, uint64_t n, uint64_t *indices)
{
    for (uint64_t at = 0; at < n; at += 64) {
        uint64_t word = bitmap_load(bits, bit_offset + at, min_u64(64, n - at));
        for (; word != 0; word &= word - 1) *indices++ = at + (uint64_t)__builtin_ctzll(word);
    }
}

pennon_status array_filter(const struct ArrowSchema *schema, const struct ArrowArray *array, const uint8_t *bits,
                           uint64_t bit_offset, struct mem *mem, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct array_view view;
    uint64_t n = (uint64_t)array->length;
    uint64_t selected = n == 0 ? 0 : bitmap_count(bits, bit_offset, n);
    uint64_t *indices = NULL;

    memset(out, 0, sizeof *out);
    if (selected == 0 || selected == n) return array_copy_range(schema, array, 0, (int64_t)selected, 0, mem, out, err);
    TRY(array_view_peek(&view, schema, array, err));
    if (count_runs(bits, bit_offset, n) <= selected / SPAN_RUN) {
        TRY(filter_by_spans(schema, &view, bits, bit_offset, mem, out, err));
    } else {
        struct take t = {NULL, (size_t)selected, false, mem};
        TRY_NEW(indices, mem_calloc(mem, (size_t)selected, sizeof *indices, err));
        fill_indices(bits, bit_offset, n, indices);
        t.indices = indices;
        TRY(take_view(&t, &view, out, err));
    }
done:
    mem_free(mem, indices);
    return st;
}
