/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Casts that keep every value, or fail naming the row.
 *
 * from \ to      | what happens
 * ---------------|------------------------------------------------------------------------------------------
 * same type      | a copy
 * null           | nulls of any type
 * dictionary     | decoded, then cast; to a dictionary: cast, then encoded (values numbered in order of appearance)
 * bool           | integers 0 and 1
 * integers       | integers in range; floats when exact; decimals
 * floats         | wider floats; narrower ones and integers when exact
 * dates, times,  | the same kind in another unit: larger numbers when they fit, smaller ones when nothing is lost
 * timestamps, …  |
 * decimals       | the same number with another scale, precision or width; integers when whole
 * text, binary   | among plain, large and view; binary to text when it is UTF-8; fixed size binary among them
 * lists          | among list, large list, list view and fixed size list (of the right length); children are cast
 * structs, maps  | child by child
 *
 * Values are read as 64-bit numbers and appended by a builder: casts run where data enters or a schema changes, not in scans. */
#include "arrow/arrow_internal.h"

struct cast {
    const struct ArrowSchema *from_schema;
    const struct ArrowSchema *to_schema;
    struct arrow_type from;
    struct arrow_type to;
    struct array_view view;
    struct mem *mem;
};

static pennon_status unfit(const struct cast *c, int64_t row, pennon_error *err)
{
    return error_set(err, PENNON_INVALID_ARGUMENT, "field '%.128s', row %" PRId64 ": the value does not fit type %s",
                     field_name(c->from_schema), row, arrow_id_name(c->to.id));
}

static pennon_status refuse(const struct cast *c, pennon_error *err)
{
    return error_set(err, PENNON_NOT_SUPPORTED, "field '%.128s': a cast from %s to %s", field_name(c->from_schema),
                     arrow_id_name(c->from.id), arrow_id_name(c->to.id));
}

/* ------------------------------------------------------------------------------------------------------------ numbers */

/* Appends row i of an integer or bool source; false when it does not fit. */
static bool append_integer(const struct cast *c, struct builder *b, int64_t i, pennon_error *err)
{
    if (c->from.id == ARROW_BOOL) return builder_append_int(b, array_view_bool(&c->view, i), err) == PENNON_OK;
    int64_t v = array_view_int(&c->view, i);
    if (c->from.id == ARROW_UINT64) {
        bool exact = !arrow_id_is_float(c->to.id) || (uint64_t)v <= (uint64_t)1 << 53;
        if (arrow_id_is_decimal(c->to.id) && v < 0) return false;
        return exact && builder_append_uint(b, (uint64_t)v, err) == PENNON_OK;
    }
    return builder_append_int(b, v, err) == PENNON_OK;
}

/* Appends row i of a float source; NaN stays NaN. */
static bool append_real(const struct cast *c, struct builder *b, int64_t i, pennon_error *err)
{
    double d = array_view_double(&c->view, i);
    if (arrow_id_is_float(c->to.id)) {
        bool exact = true;
        if (c->to.id == ARROW_FLOAT32) exact = (double)(float)d == d || d != d;
        if (c->to.id == ARROW_FLOAT16) exact = half_to_double(half_from_double(d)) == d || d != d;
        return exact && builder_append_double(b, d, err) == PENNON_OK;
    }
    /* 2^63 and 2^64 are doubles; what is below them converts. */
    if (d != d || d < -9223372036854775808.0 || d >= 18446744073709551616.0) return false;
    if (d < 9223372036854775808.0) {
        int64_t v = (int64_t)d;
        return (double)v == d && builder_append_int(b, v, err) == PENNON_OK;
    }
    return builder_append_uint(b, (uint64_t)d, err) == PENNON_OK;
}

/* 10^k for the units and scales that occur. */
static int64_t power_of_ten(int k)
{
    int64_t p = 1;
    while (k-- > 0) p *= 10;
    return p;
}

/* Factor (> 0) or divisor (< 0) from one unit to another of the same kind. */
static int64_t unit_ratio(const struct arrow_type *from, const struct arrow_type *to)
{
    int64_t day_ms = 86400000;
    if (from->id == ARROW_DATE32 && to->id == ARROW_DATE64) return day_ms;
    if (from->id == ARROW_DATE64 && to->id == ARROW_DATE32) return -day_ms;
    int steps = (int)to->unit - (int)from->unit;
    return steps >= 0 ? power_of_ten(3 * steps) : -power_of_ten(-3 * steps);
}

static bool append_temporal(const struct cast *c, struct builder *b, int64_t ratio, int64_t i, pennon_error *err)
{
    int64_t v = array_view_int(&c->view, i);
    if (ratio < 0) return v % -ratio == 0 && builder_append_int(b, v / -ratio, err) == PENNON_OK;
    return !__builtin_mul_overflow(v, ratio, &v) && builder_append_int(b, v, err) == PENNON_OK;
}

static bool append_decimal(const struct cast *c, struct builder *b, int64_t i, pennon_error *err)
{
    uint8_t bytes[32];
    struct wide w;
    int32_t from_scale = 0;
    if (arrow_id_is_decimal(c->from.id)) {
        w = wide_load(array_view_fixed(&c->view, i), arrow_type_width(&c->from));
        from_scale = c->from.scale;
    } else {
        w = wide_from_i64(array_view_int(&c->view, i));
        if (c->from.id == ARROW_UINT64) w.word[1] = w.word[2] = w.word[3] = 0;
    }
    int64_t up = (int64_t)c->to.scale - from_scale;
    if (up > INT32_MAX || up < -INT32_MAX) return false;
    if (up >= 0 ? !wide_scale_up(&w, (int32_t)up) : !wide_scale_down(&w, (int32_t)-up)) return false;
    if (!wide_fits_digits(&w, c->to.precision)) return false;
    wide_store(&w, bytes, arrow_type_width(&c->to));
    return builder_append_bytes(b, bytes_of(bytes, arrow_type_width(&c->to)), err) == PENNON_OK;
}

/* A decimal as an integer, when it is whole and fits 64 bits. */
static bool append_whole(const struct cast *c, struct builder *b, int64_t i, pennon_error *err)
{
    struct wide w = wide_load(array_view_fixed(&c->view, i), arrow_type_width(&c->from));
    bool whole = c->from.scale >= 0 ? wide_scale_down(&w, c->from.scale) : wide_scale_up(&w, -c->from.scale);
    uint64_t fill = wide_negative(&w) ? UINT64_MAX : 0;
    if (!whole || w.word[1] != fill || w.word[2] != fill || w.word[3] != fill) return false;
    if (fill == 0) return builder_append_uint(b, w.word[0], err) == PENNON_OK;
    return (int64_t)w.word[0] < 0 && builder_append_int(b, (int64_t)w.word[0], err) == PENNON_OK;
}

static bool append_text(const struct cast *c, struct builder *b, int64_t i, pennon_error *err)
{
    struct bytes v = array_view_bytes(&c->view, i);
    if (arrow_id_is_text(c->to.id) && !arrow_id_is_text(c->from.id) && !utf8_valid(v.data, v.size)) return false;
    return builder_append_bytes(b, v, err) == PENNON_OK;
}

enum value_cast { CAST_NONE, CAST_INTEGER, CAST_REAL, CAST_TEMPORAL, CAST_DECIMAL, CAST_WHOLE, CAST_TEXT };

static bool same_kind_of_time(const struct arrow_type *a, const struct arrow_type *b)
{
    bool date = (a->id == ARROW_DATE32 || a->id == ARROW_DATE64) && (b->id == ARROW_DATE32 || b->id == ARROW_DATE64);
    bool time = (a->id == ARROW_TIME32 || a->id == ARROW_TIME64) && (b->id == ARROW_TIME32 || b->id == ARROW_TIME64);
    /* A zone is only how an instant is shown; an instant and a wall clock are different things. */
    bool stamp = a->id == ARROW_TIMESTAMP && b->id == ARROW_TIMESTAMP && (a->timezone[0] == '\0') == (b->timezone[0] == '\0');
    return date || time || stamp || (a->id == ARROW_DURATION && b->id == ARROW_DURATION);
}

static enum value_cast value_cast_of(const struct arrow_type *from, const struct arrow_type *to)
{
    bool from_integer = arrow_id_is_integer(from->id);
    bool to_bytes = arrow_id_is_variable(to->id) || to->id == ARROW_FIXED_SIZE_BINARY;
    bool from_bytes = arrow_id_is_variable(from->id) || from->id == ARROW_FIXED_SIZE_BINARY;
    if (from_bytes && to_bytes) return CAST_TEXT;
    if (arrow_id_is_decimal(to->id)) return from_integer || arrow_id_is_decimal(from->id) ? CAST_DECIMAL : CAST_NONE;
    if (from->id == ARROW_BOOL) return arrow_id_is_integer(to->id) ? CAST_INTEGER : CAST_NONE;
    if (arrow_id_is_integer(to->id) || arrow_id_is_float(to->id)) {
        if (from_integer) return CAST_INTEGER;
        if (arrow_id_is_decimal(from->id)) return arrow_id_is_integer(to->id) ? CAST_WHOLE : CAST_NONE;
        return arrow_id_is_float(from->id) ? CAST_REAL : CAST_NONE;
    }
    return same_kind_of_time(from, to) ? CAST_TEMPORAL : CAST_NONE;
}

static bool append_value(const struct cast *c, struct builder *b, enum value_cast kind, int64_t ratio, int64_t i, pennon_error *err)
{
    switch (kind) {
    case CAST_INTEGER: return append_integer(c, b, i, err);
    case CAST_REAL: return append_real(c, b, i, err);
    case CAST_TEMPORAL: return append_temporal(c, b, ratio, i, err);
    case CAST_DECIMAL: return append_decimal(c, b, i, err);
    case CAST_WHOLE: return append_whole(c, b, i, err);
    case CAST_TEXT: return append_text(c, b, i, err);
    case CAST_NONE: break;
    }
    return false;
}

static pennon_status cast_values(const struct cast *c, enum value_cast kind, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct builder *b = NULL;
    int64_t ratio = kind == CAST_TEMPORAL ? unit_ratio(&c->from, &c->to) : 1;

    TRY_NEW(b, builder_new(c->to_schema, c->mem, err));
    TRY(builder_reserve(b, c->view.length, err));
    for (int64_t i = 0; i < c->view.length; i++) {
        if (array_view_is_null(&c->view, i)) {
            TRY(builder_append_null(b, err));
        } else if (!append_value(c, b, kind, ratio, i, err)) {
            /* The builder's own words know the value but not the row; failures of memory stay what they are. */
            bool memory = err->code == PENNON_OVER_BUDGET || err->code == PENNON_OUT_OF_MEMORY;
            st = memory ? err->code : unfit(c, i, err);
            goto done;
        }
    }
    TRY(builder_finish(b, out, err));
done:
    builder_free(b);
    return st;
}

/* ----------------------------------------------------------------------------------------------------- nested types */

static bool is_list(const struct arrow_type *t) { return t->layout >= LAYOUT_LIST32 && t->layout <= LAYOUT_FIXED_LIST; }

/* Sizes of plain 64-bit lists in a normal array (offset 0) as the rows of another list layout. `plain` has 32- or 64-bit offsets. */
static pennon_status store_list_rows(const struct cast *c, const struct array_view *plain, struct ArrowArray *out,
                                     pennon_error *err)
{
    bool wide = layout_is_wide(c->to.layout);
    size_t width = wide ? 8 : 4;
    bool views = c->to.layout == LAYOUT_LIST_VIEW32 || c->to.layout == LAYOUT_LIST_VIEW64;
    uint8_t *sizes = NULL;
    uint8_t *offsets = NULL;

    if (c->to.layout == LAYOUT_FIXED_LIST) {
        for (int64_t i = 0; i < plain->length; i++) {
            int64_t start = 0;
            int64_t n = 0;
            array_view_list(plain, i, &start, &n);
            if (n != c->to.fixed_size && !array_view_is_null(plain, i)) return unfit(c, i, err);
        }
        return PENNON_OK;
    }
    offsets = array_make_buffer(out, 1, ((size_t)plain->length + 1) * width, err);
    if (offsets == NULL) return err->code;
    if (views) {
        sizes = array_make_buffer(out, 2, (size_t)plain->length * width, err);
        if (sizes == NULL) return err->code;
    }
    memset(offsets, 0, width);
    for (int64_t i = 0; i < plain->length; i++) {
        int64_t start = 0;
        int64_t n = 0;
        int64_t end = 0;
        array_view_list(plain, i, &start, &n);
        end = start + n;
        if (!wide && end > INT32_MAX) return unfit(c, i, err);
        if (wide) {
            native_put_i64(offsets + (size_t)(views ? i : i + 1) * 8, views ? start : end);
            if (views) native_put_i64(sizes + (size_t)i * 8, n);
        } else {
            native_put_i32(offsets + (size_t)(views ? i : i + 1) * 4, (int32_t)(views ? start : end));
            if (views) native_put_i32(sizes + (size_t)i * 4, (int32_t)n);
        }
    }
    return PENNON_OK;
}

/* Buffer 0 and the null count of an owned array of offset 0. */
static pennon_status copy_validity(const struct array_view *v, struct ArrowArray *out, pennon_error *err)
{
    size_t size = (size_t)bitmap_bytes((uint64_t)v->length);
    uint8_t *bits = NULL;
    if (v->validity == NULL || v->null_count == 0) return PENNON_OK;
    bits = array_make_buffer(out, 0, size, err);
    if (bits == NULL) return err->code;
    memset(bits, 0, size);
    bitmap_copy(bits, 0, v->validity, (uint64_t)v->offset, (uint64_t)v->length);
    out->null_count = v->null_count;
    return PENNON_OK;
}

/* A fixed size list becomes offsets: null rows keep their (null) values, which costs nothing to leave. */
/* Items of lists whose valid rows have the fixed size, with as many for the null rows: nulls, or where they may not be, the first item. */
static pennon_status spread_items(const struct cast *c, const struct ArrowSchema *item, const struct array_view *rows,
                                  struct ArrowArray *items, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const size_t size = (size_t)c->to.fixed_size;
    uint64_t *indices = NULL;
    struct ArrowArray made = {0};
    size_t total = 0;
    const uint64_t filler = arrow_schema_nullable(c->to_schema->children[0]) || items->length == 0 ? ARRAY_TAKE_NULL : 0;
    if (size_mul_overflows((size_t)rows->length, size, &total))
        FAIL(PENNON_OVER_BUDGET, "%" PRId64 " lists of %zu items", rows->length, size);
    TRY_NEW(indices, mem_calloc(c->mem, total, sizeof *indices, err));
    for (int64_t i = 0; i < rows->length; i++) {
        int64_t start = 0, n = 0;
        array_view_list(rows, i, &start, &n);
        for (size_t k = 0; k < size; k++)
            indices[(size_t)i * size + k] = array_view_is_null(rows, i) ? filler : (uint64_t)start + k;
    }
    TRY(array_take(item, items, indices, total, c->mem, &made, err));
    array_release(items);
    array_move(&made, items);
done:
    mem_free(c->mem, indices);
    return st;
}

static pennon_status cast_lists(const struct cast *c, const struct ArrowArray *array, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray normal = {0};
    struct ArrowSchema plain = {0};
    struct array_view rows;
    bool to_fixed = c->to.layout == LAYOUT_FIXED_LIST;
    /* Only a fixed size list may keep rows under nulls. */
    unsigned flags = ARRAY_PLAIN_VIEWS | (to_fixed ? 0 : ARRAY_DROP_GARBAGE);

    memset(out, 0, sizeof *out);
    TRY(arrow_schema_plain(c->from_schema, c->mem, &plain, err));
    TRY(array_copy_range(c->from_schema, array, 0, array->length, flags, c->mem, &normal, err));
    TRY(array_view_init(&rows, &plain, &normal, err));
    TRY(array_new(out, arrow_type_buffers(&c->to), 1, c->mem, err));
    out->length = array->length;
    TRY(copy_validity(&rows, out, err));
    TRY(store_list_rows(c, &rows, out, err));
    if (to_fixed && rows.null_count > 0 && c->from.layout != LAYOUT_FIXED_LIST)
        TRY(spread_items(c, plain.children[0], &rows, normal.children[0], err));
    TRY(array_cast(plain.children[0], normal.children[0], c->to_schema->children[0], c->mem, out->children[0], err));
done:
    if (st != PENNON_OK) array_release(out);
    array_release(&normal);
    arrow_schema_release(&plain);
    return st;
}

static pennon_status cast_struct(const struct cast *c, const struct ArrowArray *array, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray normal = {0};
    struct array_view rows;

    memset(out, 0, sizeof *out);
    if (c->from_schema->n_children != c->to_schema->n_children) {
        FAIL(PENNON_NOT_SUPPORTED, "field '%.128s': a cast from a struct of %" PRId64 " fields to one of %" PRId64,
             field_name(c->from_schema), c->from_schema->n_children, c->to_schema->n_children);
    }
    TRY(array_copy_range(c->from_schema, array, 0, array->length, 0, c->mem, &normal, err));
    TRY(array_view_init(&rows, c->from_schema, &normal, err));
    TRY(array_new(out, 1, (size_t)c->to_schema->n_children, c->mem, err));
    out->length = array->length;
    TRY(copy_validity(&rows, out, err));
    for (int64_t i = 0; i < c->to_schema->n_children; i++) {
        TRY(array_cast(c->from_schema->children[i], normal.children[i], c->to_schema->children[i], c->mem, out->children[i], err));
    }
done:
    if (st != PENNON_OK) array_release(out);
    array_release(&normal);
    return st;
}

/* -------------------------------------------------------------------------------------------------------- dictionaries */

/* Values numbered in order of appearance: open addressing over hashes of the bytes. */
struct numbering {
    uint32_t *slots; /* number + 1, 0 = free */
    size_t n_slots;  /* a power of two */
    uint64_t *rows;  /* per number: the row where it appeared */
    size_t n;
};

/* A hash good enough for tables that we build ourselves (FNV-1a, 64 bits, last bits mixed). */
static uint64_t hash_bytes(struct bytes b)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < b.size; i++) h = (h ^ b.data[i]) * 0x100000001b3u;
    return h ^ h >> 32;
}

static uint32_t number_of(struct numbering *t, const struct array_view *v, int64_t i)
{
    struct bytes value = array_view_bytes(v, i);
    size_t at = (size_t)hash_bytes(value) & (t->n_slots - 1);
    for (; t->slots[at] != 0; at = (at + 1) & (t->n_slots - 1)) {
        if (bytes_equal(array_view_bytes(v, (int64_t)t->rows[t->slots[at] - 1]), value)) return t->slots[at] - 1;
    }
    t->rows[t->n] = (uint64_t)i;
    t->slots[at] = (uint32_t)++t->n;
    return t->slots[at] - 1;
}

static pennon_status number_rows(const struct cast *c, const struct array_view *v, struct numbering *t, struct ArrowArray *out,
                                 pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct builder *b = NULL;
    struct ArrowSchema index = *c->to_schema;
    index.dictionary = NULL; /* borrowed for the call: the builder makes plain indices */

    TRY_NEW(b, builder_new(&index, c->mem, err));
    for (int64_t i = 0; i < v->length; i++) {
        if (array_view_is_null(v, i)) {
            TRY(builder_append_null(b, err));
        } else {
            TRY(builder_append_int(b, number_of(t, v, i), err));
        }
    }
    TRY(builder_finish(b, out, err));
done:
    builder_free(b);
    return st;
}

static pennon_status encode_dictionary(const struct cast *c, const struct ArrowArray *values, struct ArrowArray *out,
                                       pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct numbering t = {0};
    struct array_view v;
    size_t n = (size_t)values->length;

    memset(out, 0, sizeof *out);
    TRY(array_view_init(&v, c->to_schema->dictionary, values, err));
    if (!arrow_id_is_variable(v.type.id) && v.type.layout != LAYOUT_FIXED) {
        FAIL(PENNON_NOT_SUPPORTED, "field '%.128s': a dictionary of type %s", field_name(c->from_schema), arrow_id_name(v.type.id));
    }
    if (n > INT32_MAX / 2) FAIL(PENNON_NOT_SUPPORTED, "field '%.128s': a dictionary from %zu rows", field_name(c->from_schema), n);
    for (t.n_slots = 16; t.n_slots < 2 * n; t.n_slots *= 2) continue;
    TRY_NEW(t.slots, mem_calloc(c->mem, t.n_slots, sizeof *t.slots, err));
    TRY_NEW(t.rows, mem_calloc(c->mem, n, sizeof *t.rows, err));
    TRY(number_rows(c, &v, &t, out, err));
    TRY(array_take(c->to_schema->dictionary, values, t.rows, t.n, c->mem, array_dictionary_slot(out), err));
done:
    if (st != PENNON_OK) array_release(out);
    mem_free(c->mem, t.slots);
    mem_free(c->mem, t.rows);
    return st;
}

/* Through the plain values, on one side or both. */
static pennon_status cast_dictionary(const struct cast *c, const struct ArrowArray *array, struct ArrowArray *out,
                                     pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray plain = {0};
    struct ArrowArray values = {0};
    bool from = c->from.id == ARROW_DICTIONARY;
    bool to = c->to.id == ARROW_DICTIONARY;
    const struct ArrowSchema *plain_schema = from ? c->from_schema->dictionary : c->from_schema;

    memset(out, 0, sizeof *out);
    if (from) TRY(array_decode_dictionary(c->from_schema, array, c->mem, &plain, err));
    TRY(array_cast(plain_schema, from ? &plain : array, to ? c->to_schema->dictionary : c->to_schema, c->mem, &values, err));
    if (to) {
        TRY(encode_dictionary(c, &values, out, err));
    } else {
        array_move(&values, out);
    }
done:
    array_release(&plain);
    array_release(&values);
    return st;
}

/* --------------------------------------------------------------------------------------------------------------- cast */

pennon_status array_cast(const struct ArrowSchema *from, const struct ArrowArray *array, const struct ArrowSchema *to,
                         struct mem *mem, struct ArrowArray *out, pennon_error *err)
{
    struct cast c = {.from_schema = from, .to_schema = to, .mem = mem};
    enum value_cast kind = CAST_NONE;
    bool structs = false;

    memset(out, 0, sizeof *out);
    TRY_RETURN(arrow_type_of(from, &c.from, err));
    TRY_RETURN(arrow_type_of(to, &c.to, err));
    if (arrow_schema_equal(from, to, SCHEMA_EQUAL_NO_NULLABLE))
        return array_copy_range(from, array, 0, array->length, 0, mem, out, err);
    if (c.from.id == ARROW_NULL) return array_nulls(to, array->length, mem, out, err);
    if (c.from.id == ARROW_DICTIONARY || c.to.id == ARROW_DICTIONARY) return cast_dictionary(&c, array, out, err);
    TRY_RETURN(array_view_init(&c.view, from, array, err));
    kind = value_cast_of(&c.from, &c.to);
    if (kind != CAST_NONE) return cast_values(&c, kind, out, err);
    if (is_list(&c.from) && is_list(&c.to) && (c.from.id == ARROW_MAP) == (c.to.id == ARROW_MAP))
        return cast_lists(&c, array, out, err);
    structs = c.from.layout == LAYOUT_STRUCT && c.to.layout == LAYOUT_STRUCT;
    return structs ? cast_struct(&c, array, out, err) : refuse(&c, err);
}
