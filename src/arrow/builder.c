/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Builders: arrays appended row by row.
 *
 * layout          | values             | bytes          | children
 * ----------------|--------------------|----------------|------------------------------------------------
 * bits            | bitmap             |                |
 * fixed           | values             |                |
 * variable        | offsets from 0     | bytes          |
 * views           | 16-byte views      | data buffer 0  |
 * lists, maps     | offsets from 0     |                | one, the rows of all lists
 * list views      | offsets            | sizes          | one
 * fixed lists     |                    |                | one, fixed_size rows a row
 * structs         |                    |                | one row each a row
 *
 * The validity bitmap is begun at the first null: until then every row is valid and nothing is written for it. */
#include "arrow/arrow_internal.h"

struct builder {
    struct arrow_type type;
    struct mem *mem; /* retained by the root */
    char *name;
    int64_t length;
    int64_t nulls;
    struct buf validity; /* empty while nothing is null */
    struct buf values;
    struct buf bytes;
    int64_t marked; /* child rows that belong to finished rows of a list */
    struct builder *children;
    size_t n_children;
    char *timezone; /* the text that type.timezone points to */
};

/* ------------------------------------------------------------------------------------------------------ make and free */

static void builder_clear(struct builder *b)
{
    for (size_t i = 0; i < b->n_children; i++) builder_clear(&b->children[i]);
    mem_free(b->mem, b->children);
    mem_free(b->mem, b->name);
    mem_free(b->mem, b->timezone);
    buf_free(&b->validity);
    buf_free(&b->values);
    buf_free(&b->bytes);
}

void builder_free(struct builder *b)
{
    struct mem *mem = NULL;
    if (b == NULL) return;
    mem = b->mem;
    builder_clear(b);
    mem_free(mem, b);
    mem_release(mem);
}

static bool layout_can_be_built(const struct arrow_type *t)
{
    return t->id != ARROW_DICTIONARY && t->union_ids == NULL && t->layout != LAYOUT_RUN_END;
}

/* Offsets begin with a zero that belongs to no row. */
static size_t first_offset_size(enum arrow_layout l)
{
    if (l == LAYOUT_VAR32 || l == LAYOUT_LIST32) return 4;
    return l == LAYOUT_VAR64 || l == LAYOUT_LIST64 ? 8 : 0;
}

static pennon_status builder_setup(struct builder *b, const struct ArrowSchema *schema, struct mem *mem, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    b->mem = mem;
    buf_init(&b->validity, mem, BUF_NO_LIMIT);
    buf_init(&b->values, mem, BUF_NO_LIMIT);
    buf_init(&b->bytes, mem, BUF_NO_LIMIT);
    TRY(arrow_type_of(schema, &b->type, err));
    if (!layout_can_be_built(&b->type)) {
        FAIL(PENNON_NOT_SUPPORTED, "field '%.128s': arrays of type %s cannot be built row by row", field_name(schema),
             arrow_id_name(b->type.id));
    }
    TRY_NEW(b->name, mem_strdup(mem, field_name(schema), err));
    if (b->type.timezone != NULL) {
        TRY_NEW(b->timezone, mem_strdup(mem, b->type.timezone, err));
        b->type.timezone = b->timezone;
    }
    TRY(buf_append_zero(&b->values, first_offset_size(b->type.layout), err));
    if (schema->n_children > 0) TRY_NEW(b->children, mem_calloc(mem, (size_t)schema->n_children, sizeof *b->children, err));
    for (int64_t i = 0; i < schema->n_children; i++) {
        b->n_children++; /* first, so that builder_clear sees what a failure leaves */
        TRY(builder_setup(&b->children[i], schema->children[i], mem, err));
    }
done:
    return st;
}

struct builder *builder_new(const struct ArrowSchema *schema, struct mem *mem, pennon_error *err)
{
    struct builder *b = mem_calloc(mem, 1, sizeof *b, err);
    if (b == NULL) return NULL;
    (void)mem_retain(mem);
    if (builder_setup(b, schema, mem, err) != PENNON_OK) {
        builder_free(b);
        return NULL;
    }
    return b;
}

int64_t builder_length(const struct builder *b) { return b->length; }

uint64_t builder_bytes(const struct builder *b)
{
    uint64_t size = b->validity.size + b->values.size + b->bytes.size;
    for (size_t i = 0; i < b->n_children; i++) size += builder_bytes(&b->children[i]);
    return size;
}

struct builder *builder_child(struct builder *b, size_t i)
{
    ASSERT(i < b->n_children);
    return &b->children[i];
}

/* Bytes of one row in `values`. */
static size_t value_width(const struct arrow_type *t)
{
    switch (t->layout) {
    case LAYOUT_FIXED: return arrow_type_width(t);
    case LAYOUT_VAR32:
    case LAYOUT_LIST32:
    case LAYOUT_LIST_VIEW32: return 4;
    case LAYOUT_VAR64:
    case LAYOUT_LIST64:
    case LAYOUT_LIST_VIEW64: return 8;
    case LAYOUT_VIEW: return VIEW_BYTES;
    default: return 0;
    }
}

pennon_status builder_reserve(struct builder *b, int64_t rows, pennon_error *err)
{
    size_t bytes = 0;
    ASSERT(rows >= 0);
    if (b->type.layout == LAYOUT_BITS) return buf_reserve(&b->values, (size_t)bitmap_bytes((uint64_t)(b->length + rows)), err);
    if (size_mul_overflows((size_t)rows, value_width(&b->type), &bytes))
        return error_set(err, PENNON_OVER_BUDGET, "%" PRId64 " rows are too many", rows);
    TRY_RETURN(buf_reserve(&b->values, b->values.size + bytes, err));
    if (b->type.layout != LAYOUT_STRUCT) return PENNON_OK;
    for (size_t i = 0; i < b->n_children; i++) TRY_RETURN(builder_reserve(&b->children[i], rows, err));
    return PENNON_OK;
}

/* ------------------------------------------------------------------------------------------------------------ append */

/* Bit number b->length of a bitmap that has b->length bits. */
static pennon_status append_bit(struct builder *b, struct buf *bits, bool value, pennon_error *err)
{
    if ((b->length & 7) == 0) TRY_RETURN(buf_append_byte(bits, 0, err));
    if (value) bit_set(bits->data, (uint64_t)b->length);
    return PENNON_OK;
}

/* The row is complete in all other buffers. */
static pennon_status finish_row(struct builder *b, bool valid, pennon_error *err)
{
    if (UNLIKELY(!valid && b->validity.size == 0)) {
        size_t bytes = (size_t)bitmap_bytes((uint64_t)b->length);
        TRY_RETURN(buf_resize_zero(&b->validity, bytes, err));
        for (int64_t i = 0; i < b->length; i++) bit_set(b->validity.data, (uint64_t)i);
    }
    if (b->validity.size > 0 || !valid) TRY_RETURN(append_bit(b, &b->validity, valid, err));
    b->nulls += !valid;
    b->length++;
    return PENNON_OK;
}

static pennon_status unfit(const struct builder *b, const char *what, pennon_error *err)
{
    return error_set(err, PENNON_INVALID_ARGUMENT, "field '%.128s': %s does not fit type %s", b->name, what,
                     arrow_id_name(b->type.id));
}

/* The end of the bytes or child rows so far, as the next offset. */
static pennon_status append_offset(struct builder *b, int64_t end, pennon_error *err)
{
    int32_t narrow = (int32_t)end;
    if (layout_is_wide(b->type.layout)) return buf_append(&b->values, &end, 8, err);
    if (end > INT32_MAX) return unfit(b, "more than 2 GiB of values in a batch", err);
    return buf_append(&b->values, &narrow, 4, err);
}

/* A list view of n child rows from `start`. */
static pennon_status append_list_view(struct builder *b, int64_t start, int64_t n, pennon_error *err)
{
    int32_t narrow = (int32_t)n;
    TRY_RETURN(append_offset(b, start, err));
    return layout_is_wide(b->type.layout) ? buf_append(&b->bytes, &n, 8, err) : buf_append(&b->bytes, &narrow, 4, err);
}

pennon_status builder_append_null(struct builder *b, pennon_error *err)
{
    switch (b->type.layout) {
    case LAYOUT_NULL: break;
    case LAYOUT_BITS: TRY_RETURN(append_bit(b, &b->values, false, err)); break;
    case LAYOUT_FIXED:
    case LAYOUT_VIEW: TRY_RETURN(buf_append_zero(&b->values, value_width(&b->type), err)); break;
    case LAYOUT_VAR32:
    case LAYOUT_VAR64: TRY_RETURN(append_offset(b, (int64_t)b->bytes.size, err)); break;
    case LAYOUT_LIST32:
    case LAYOUT_LIST64: TRY_RETURN(append_offset(b, b->marked, err)); break;
    case LAYOUT_LIST_VIEW32:
    case LAYOUT_LIST_VIEW64: TRY_RETURN(append_list_view(b, b->marked, 0, err)); break;
    case LAYOUT_FIXED_LIST:
        for (int32_t i = 0; i < b->type.fixed_size; i++) TRY_RETURN(builder_append_null(&b->children[0], err));
        b->marked += b->type.fixed_size;
        break;
    case LAYOUT_STRUCT:
        for (size_t i = 0; i < b->n_children; i++) TRY_RETURN(builder_append_null(&b->children[i], err));
        break;
    default: return unfit(b, "a null", err);
    }
    return finish_row(b, b->type.layout == LAYOUT_NULL, err);
}

pennon_status builder_append_bool(struct builder *b, bool v, pennon_error *err)
{
    if (b->type.layout != LAYOUT_BITS) return unfit(b, "a bool", err);
    TRY_RETURN(append_bit(b, &b->values, v, err));
    return finish_row(b, true, err);
}

/* One value of LAYOUT_FIXED from its bytes. */
static ALWAYS_INLINE pennon_status append_fixed(struct builder *b, const void *value, size_t width, pennon_error *err)
{
    TRY_RETURN(buf_append(&b->values, value, width, err));
    return finish_row(b, true, err);
}

/* Low bytes of a number into a value of the width; the caller has checked the range. */
static pennon_status append_word(struct builder *b, uint64_t v, pennon_error *err)
{
    uint8_t v8 = (uint8_t)v;
    uint16_t v16 = (uint16_t)v;
    uint32_t v32 = (uint32_t)v;
    switch (b->type.bit_width) {
    case 8: return append_fixed(b, &v8, 1, err);
    case 16: return append_fixed(b, &v16, 2, err);
    case 32: return append_fixed(b, &v32, 4, err);
    default: ASSERT(b->type.bit_width == 64); return append_fixed(b, &v, 8, err);
    }
}

static pennon_status append_decimal(struct builder *b, int64_t v, pennon_error *err)
{
    struct wide wide = wide_from_i64(v);
    uint8_t bytes[32];
    if (b->type.scale != 0 || !wide_fits_digits(&wide, b->type.precision)) return unfit(b, "the number", err);
    wide_store(&wide, bytes, arrow_type_width(&b->type));
    return append_fixed(b, bytes, arrow_type_width(&b->type), err);
}

/* A float type from a double. */
static pennon_status append_float(struct builder *b, double v, pennon_error *err)
{
    float f = (float)v;
    uint16_t half = 0;
    switch (b->type.id) {
    case ARROW_FLOAT16: half = half_from_double(v); return append_fixed(b, &half, 2, err);
    case ARROW_FLOAT32: return append_fixed(b, &f, 4, err);
    default: ASSERT(b->type.id == ARROW_FLOAT64); return append_fixed(b, &v, 8, err);
    }
}

/* Largest integer up to which every integer has a value of its own. */
static uint64_t exact_integers(enum arrow_id id)
{
    return (uint64_t)1 << (id == ARROW_FLOAT16 ? 11 : id == ARROW_FLOAT32 ? 24 : 53);
}

static bool is_word_type(const struct arrow_type *t)
{
    return arrow_id_is_integer(t->id) || (t->id >= ARROW_DATE32 && t->id <= ARROW_INTERVAL_MONTHS);
}

pennon_status builder_append_int(struct builder *b, int64_t v, pennon_error *err)
{
    enum arrow_id id = b->type.id;
    if (is_word_type(&b->type)) {
        bool is_unsigned = arrow_id_is_integer(id) && !arrow_id_is_signed(id);
        unsigned bits = b->type.bit_width;
        bool fits = is_unsigned ? v >= 0 && (bits == 64 || (uint64_t)v >> bits == 0)
                                : bits == 64 || (v >= -((int64_t)1 << (bits - 1)) && v < (int64_t)1 << (bits - 1));
        if (!fits)
            return error_set(err, PENNON_INVALID_ARGUMENT, "field '%.128s': %" PRId64 " does not fit type %s", b->name, v,
                             arrow_id_name(id));
        return append_word(b, (uint64_t)v, err);
    }
    if (arrow_id_is_float(id)) {
        uint64_t magnitude = v < 0 ? (uint64_t)0 - (uint64_t)v : (uint64_t)v;
        if (magnitude > exact_integers(id))
            return error_set(err, PENNON_INVALID_ARGUMENT, "field '%.128s': %" PRId64 " is not exact in type %s", b->name, v,
                             arrow_id_name(id));
        return append_float(b, (double)v, err);
    }
    if (arrow_id_is_decimal(id)) return append_decimal(b, v, err);
    return unfit(b, "a number", err);
}

pennon_status builder_append_uint(struct builder *b, uint64_t v, pennon_error *err)
{
    if (v <= INT64_MAX) return builder_append_int(b, (int64_t)v, err);
    if (b->type.id != ARROW_UINT64) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "field '%.128s': %" PRIu64 " does not fit type %s", b->name, v,
                         arrow_id_name(b->type.id));
    }
    return append_word(b, v, err);
}

pennon_status builder_append_double(struct builder *b, double v, pennon_error *err)
{
    return arrow_id_is_float(b->type.id) ? append_float(b, v, err) : unfit(b, "a floating point number", err);
}

static pennon_status append_view(struct builder *b, struct bytes v, pennon_error *err)
{
    uint8_t view[VIEW_BYTES] = {0};
    if (v.size > INT32_MAX || b->bytes.size > INT32_MAX - v.size) return unfit(b, "more than 2 GiB of values in a batch", err);
    native_put_i32(view, (int32_t)v.size);
    if (v.size <= VIEW_INLINE) {
        if (v.size > 0) memcpy(view + 4, v.data, v.size);
    } else {
        memcpy(view + 4, v.data, 4);
        native_put_i32(view + 12, (int32_t)b->bytes.size);
        TRY_RETURN(buf_append(&b->bytes, v.data, v.size, err));
    }
    TRY_RETURN(buf_append(&b->values, view, sizeof view, err));
    return finish_row(b, true, err);
}

pennon_status builder_append_bytes(struct builder *b, struct bytes v, pennon_error *err)
{
    switch (b->type.layout) {
    case LAYOUT_VAR32:
    case LAYOUT_VAR64:
        TRY_RETURN(buf_append(&b->bytes, v.data, v.size, err));
        TRY_RETURN(append_offset(b, (int64_t)b->bytes.size, err));
        return finish_row(b, true, err);
    case LAYOUT_VIEW: return append_view(b, v, err);
    case LAYOUT_FIXED:
        if (v.size != arrow_type_width(&b->type)) {
            return error_set(err, PENNON_INVALID_ARGUMENT, "field '%.128s': a value of %zu bytes where type %s has %zu", b->name,
                             v.size, arrow_id_name(b->type.id), arrow_type_width(&b->type));
        }
        return append_fixed(b, v.data, v.size, err);
    default: return unfit(b, "a byte string", err);
    }
}

pennon_status builder_append_row(struct builder *b, pennon_error *err)
{
    int64_t added = b->n_children > 0 ? b->children[0].length - b->marked : 0;
    switch (b->type.layout) {
    case LAYOUT_STRUCT:
        for (size_t i = 0; i < b->n_children; i++) {
            if (b->children[i].length != b->length + 1) return unfit(b, "a row with a value missing or too many", err);
        }
        break;
    case LAYOUT_FIXED_LIST:
        if (added != b->type.fixed_size) {
            return error_set(err, PENNON_INVALID_ARGUMENT, "field '%.128s': a list of %" PRId64 " values where the type has %d",
                             b->name, added, b->type.fixed_size);
        }
        b->marked += added;
        break;
    case LAYOUT_LIST32:
    case LAYOUT_LIST64:
        b->marked += added;
        TRY_RETURN(append_offset(b, b->marked, err));
        break;
    case LAYOUT_LIST_VIEW32:
    case LAYOUT_LIST_VIEW64:
        TRY_RETURN(append_list_view(b, b->marked, added, err));
        b->marked += added;
        break;
    default: return unfit(b, "a row of children", err);
    }
    return finish_row(b, true, err);
}

/* ------------------------------------------------------------------------------------------------------------ finish */

/* The buffers of the layout into their slots. */
static pennon_status give_buffers(struct builder *b, struct ArrowArray *out, pennon_error *err)
{
    if (out->n_buffers > 1) array_give_buf(out, 1, &b->values);
    if (b->type.layout != LAYOUT_VIEW) {
        if (out->n_buffers > 2) array_give_buf(out, 2, &b->bytes);
        return PENNON_OK;
    }
    if (out->n_buffers == 4) { /* the data buffer and its size */
        int64_t size = (int64_t)b->bytes.size;
        void *sizes = array_make_buffer(out, 3, 8, err);
        if (sizes == NULL) return err->code;
        memcpy(sizes, &size, 8);
        array_give_buf(out, 2, &b->bytes);
        return PENNON_OK;
    }
    return array_zero_buffer(out, 2, 0, err);
}

pennon_status builder_finish(struct builder *b, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    size_t buffers = arrow_type_buffers(&b->type) + (b->type.layout == LAYOUT_VIEW && b->bytes.size > 0);
    TRY(array_new(out, buffers, b->n_children, b->mem, err));
    out->length = b->length;
    out->null_count = b->type.layout == LAYOUT_NULL ? b->length : b->nulls;
    for (size_t i = 0; i < b->n_children; i++) TRY(builder_finish(&b->children[i], out->children[i], err));
    if (out->n_buffers > 0 && b->validity.size > 0) array_give_buf(out, 0, &b->validity);
    TRY(give_buffers(b, out, err));
    b->length = b->nulls = b->marked = 0;
    TRY(buf_append_zero(&b->values, first_offset_size(b->type.layout), err));
done:
    if (st != PENNON_OK) array_release(out);
    return st;
}
