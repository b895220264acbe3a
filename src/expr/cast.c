/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* CAST and TRY_CAST: the frame around the conversions of single values.
 *
 * A cast of plain values is a function for one row (cast_number.c, cast_time.c, cast_parse.c, cast_text.c) and a loop that keeps nulls, makes nulls of
 * faults for TRY_CAST and an error of the first fault for CAST. Widenings of numbers have loops of their own without a question a row.
 * Dictionaries are cast by their values, lists by their items, structs by their fields; floats and decimals become timestamps by
 * way of int64, and the other way round.
 * Source: spec expressions 6. */
#include "expr/cast.h"

static pennon_status cast_view(struct cast *k, const struct array_view *from, int64_t rows, struct ArrowArray *out,
                               pennon_error *err);

static bool is_binary(enum arrow_id id) { return arrow_id_is_variable(id) && !arrow_id_is_text(id); }
static bool is_list(enum arrow_layout l) { return l >= LAYOUT_LIST32 && l <= LAYOUT_FIXED_LIST; }

/* -------------------------------------------------------------------------------------------------------------- errors */

/* Names of types as official's messages have them. */
static const char *type_name(const struct arrow_type *t)
{
    static const char *const names[ARROW_ID_COUNT] = {
        [ARROW_BOOL] = "Boolean",          [ARROW_INT8] = "Int8",
        [ARROW_UINT8] = "UInt8",           [ARROW_INT16] = "Int16",
        [ARROW_UINT16] = "UInt16",         [ARROW_INT32] = "Int32",
        [ARROW_UINT32] = "UInt32",         [ARROW_INT64] = "Int64",
        [ARROW_UINT64] = "UInt64",         [ARROW_FLOAT16] = "Float16",
        [ARROW_FLOAT32] = "Float32",       [ARROW_FLOAT64] = "Float64",
        [ARROW_DECIMAL128] = "Decimal128", [ARROW_DECIMAL256] = "Decimal256",
        [ARROW_DATE32] = "Date32",         [ARROW_DATE64] = "Date64",
        [ARROW_TIME32] = "Time32",         [ARROW_TIME64] = "Time64",
        [ARROW_TIMESTAMP] = "Timestamp",   [ARROW_UTF8] = "Utf8",
        [ARROW_BINARY] = "Binary",
    };
    return names[t->id] != NULL ? names[t->id] : arrow_id_name(t->id);
}

static pennon_status cast_fault(const struct cast *k, int64_t row, pennon_error *err)
{
    struct buf text;
    bool is_text = arrow_id_is_text(k->from->type.id);
    buf_init(&text, k->c->mem, BUF_NO_LIMIT);
    /* Messages show what can be shown. */
    if (is_binary(k->from->type.id)) {
        (void)error_set(err, PENNON_INVALID_ARGUMENT, "Encountered non UTF-8 data in row %" PRId64, row);
    } else if (value_text(k->from, row, &text, err) == PENNON_OK) {
        int n = (int)(text.size < 200 ? text.size : 200);
        const char *shown = text.size > 0 ? (const char *)text.data : "";
        (void)error_set(err, PENNON_INVALID_ARGUMENT,
                        is_text ? "Cannot cast string '%.*s' to value of %s type" : "Can't cast value %.*s to type %s", n, shown,
                        type_name(&k->to));
    }
    buf_free(&text);
    return error_kind(err, "CastFailed");
}

static pennon_status no_cast(const struct cast *k, pennon_error *err)
{
    return error_set(err, PENNON_NOT_SUPPORTED, "Unsupported CAST from %s to %s", type_name(&k->from->type), type_name(&k->to));
}

/* ------------------------------------------------------------------------------------------------------------ plain rows */

/* Words that can be changed, of rows that are valid; NULL stays NULL. */
static void make_null(uint64_t *valid, int64_t row) { valid[row / 64] &= ~(UINT64_C(1) << (row % 64)); }
static bool is_valid(const uint64_t *valid, int64_t row) { return valid == NULL || (valid[row / 64] >> (row % 64) & 1) != 0; }

/* All valid at first, where faults may make nulls. */
static pennon_status valid_to_change(struct cast *k, uint64_t **valid, pennon_error *err)
{
    TRY_RETURN(words_valid(k->scratch, k->from, k->rows, valid, err));
    if (*valid != NULL || !k->try_cast) return PENNON_OK;
    *valid = words_new(k->scratch, k->rows, err);
    if (*valid == NULL) return err->code;
    memset(*valid, 0xff, word_count(k->rows) * sizeof **valid);
    return PENNON_OK;
}

static pennon_status convert_rows(struct cast *k, cast_row_fn fn, uint64_t *valid, uint8_t *to, pennon_error *err)
{
    bool bits = k->to.layout == LAYOUT_BITS;
    size_t width = arrow_type_width(&k->to);
    if (bits) memset(to, 0, (size_t)bitmap_bytes((uint64_t)k->rows));
    for (int64_t i = 0; i < k->rows; i++) {
        uint8_t value[32] = {0};
        bool good = is_valid(valid, i);
        if (i % ROWS_PER_CHECK == 0) TRY_RETURN(call_check(k->c, err));
        if (good && !fn(k, i, value)) {
            if (!k->try_cast) return cast_fault(k, i, err);
            make_null(valid, i);
            memset(value, 0, sizeof value);
        }
        if (!bits) {
            memcpy(to + (size_t)i * width, value, width);
        } else if (value[0] != 0) {
            bit_set(to, (uint64_t)i);
        }
    }
    return PENNON_OK;
}

static pennon_status cast_plain(struct cast *k, cast_row_fn fn, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray made = {.release = NULL};
    cast_all_fn all = cast_number_all(&k->from->type, &k->to);
    cast_fit_fn fit = cast_number_fit(&k->from->type, &k->to);
    uint64_t *valid = NULL;
    uint8_t *to = NULL;
    size_t size =
        k->to.layout == LAYOUT_BITS ? (size_t)bitmap_bytes((uint64_t)k->rows) : (size_t)k->rows * arrow_type_width(&k->to);
    TRY(cast_time_prepare(k, err));
    TRY(valid_to_change(k, &valid, err));
    TRY(array_new_for(&made, k->to_schema, k->c->mem, err));
    made.length = k->rows;
    TRY_NEW(to, array_make_buffer(&made, 1, size, err));
    if (all != NULL) {
        all(array_view_fixed(k->from, 0), to, k->rows);
    } else if (fit == NULL || !fit(array_view_fixed(k->from, 0), to, k->rows)) {
        TRY(convert_rows(k, fn, valid, to, err));
    }
    TRY(array_give_valid(&made, valid, k->rows, err));
    array_move(&made, out);
done:
    if (made.release != NULL) array_release(&made);
    return st;
}

/* --------------------------------------------------------------------------------------------------------------- texts */

/* Bytes of a row of what becomes text or binary, appended. False in *good: no text. */
static pennon_status row_bytes(const struct cast *k, int64_t row, struct buf *bytes, bool *good, pennon_error *err)
{
    struct bytes b;
    enum arrow_id from = k->from->type.id;
    *good = true;
    if (arrow_id_is_variable(from) || from == ARROW_FIXED_SIZE_BINARY) {
        b = array_view_bytes(k->from, row);
        *good = !arrow_id_is_text(k->to.id) || arrow_id_is_text(from) || utf8_valid(b.data, b.size);
        return *good ? buf_append(bytes, b.data, b.size, err) : PENNON_OK;
    }
    if (is_binary(k->to.id)) return buf_append(bytes, array_view_fixed(k->from, row), arrow_type_width(&k->from->type), err);
    pennon_status st = from == ARROW_TIMESTAMP ? cast_timestamp_text(k->from, row, &k->from_zone, bytes, err)
                                               : value_text(k->from, row, bytes, err);
    if (st == PENNON_INVALID_ARGUMENT && k->try_cast) {
        *good = false;
        pennon_error_clear(err);
        return PENNON_OK;
    }
    return st;
}

/* Offsets of 64 bits and the bytes. */
static pennon_status text_rows(struct cast *k, uint64_t *valid, int64_t *offsets, struct buf *bytes, pennon_error *err)
{
    offsets[0] = 0;
    for (int64_t i = 0; i < k->rows; i++) {
        bool good = true;
        if (i % ROWS_PER_CHECK == 0) TRY_RETURN(call_check(k->c, err));
        if (is_valid(valid, i)) TRY_RETURN(row_bytes(k, i, bytes, &good, err));
        if (!good) {
            if (!k->try_cast) return cast_fault(k, i, err);
            make_null(valid, i);
        }
        offsets[i + 1] = (int64_t)bytes->size;
    }
    return PENNON_OK;
}

static pennon_status narrow_offsets(const int64_t *offsets, int64_t rows, int32_t *to, pennon_error *err)
{
    if (offsets[rows] > INT32_MAX) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "texts of %" PRId64 " bytes do not fit 32-bit offsets", offsets[rows]);
    }
    for (int64_t i = 0; i <= rows; i++) to[i] = (int32_t)offsets[i];
    return PENNON_OK;
}

static pennon_status to_views(struct cast *k, const struct ArrowArray *large, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowSchema plain = {.release = NULL};
    TRY(arrow_schema_new(&plain, arrow_id_is_text(k->to.id) ? "U" : "Z", "", ARROW_FLAG_NULLABLE, 0, k->c->mem, err));
    TRY(array_cast(&plain, large, k->to_schema, k->c->mem, out, err));
done:
    arrow_schema_release(&plain);
    return st;
}

static pennon_status cast_to_bytes(struct cast *k, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray made = {.release = NULL};
    struct buf bytes;
    uint64_t *valid = NULL;
    bool small = k->to.layout == LAYOUT_VAR32;
    int64_t *offsets = NULL;
    int32_t *narrow = NULL;
    buf_init(&bytes, k->c->mem, BUF_NO_LIMIT);
    TRY(cast_time_prepare(k, err));
    TRY(valid_to_change(k, &valid, err));
    TRY(array_new(&made, 3, 0, k->c->mem, err));
    made.length = k->rows;
    if (small) {
        TRY_NEW(offsets, arena_alloc(k->scratch, ((size_t)k->rows + 1) * sizeof *offsets, err));
        TRY_NEW(narrow, array_make_buffer(&made, 1, ((size_t)k->rows + 1) * sizeof *narrow, err));
    } else {
        TRY_NEW(offsets, array_make_buffer(&made, 1, ((size_t)k->rows + 1) * sizeof *offsets, err));
    }
    TRY(text_rows(k, valid, offsets, &bytes, err));
    if (small) TRY(narrow_offsets(offsets, k->rows, narrow, err));
    TRY(array_give_valid(&made, valid, k->rows, err));
    array_give_buf(&made, 2, &bytes);
    if (k->to.layout == LAYOUT_VIEW) {
        TRY(to_views(k, &made, out, err));
    } else {
        array_move(&made, out);
    }
done:
    buf_free(&bytes);
    if (made.release != NULL) array_release(&made);
    return st;
}

/* Bytes of exactly the size. */
static pennon_status cast_to_fixed_bytes(struct cast *k, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray made = {.release = NULL};
    uint64_t *valid = NULL;
    size_t width = arrow_type_width(&k->to);
    uint8_t *to = NULL;
    TRY(valid_to_change(k, &valid, err));
    TRY(array_new_for(&made, k->to_schema, k->c->mem, err));
    made.length = k->rows;
    TRY_NEW(to, array_make_buffer(&made, 1, (size_t)k->rows * width, err));
    for (int64_t i = 0; i < k->rows; i++) {
        struct bytes b = is_valid(valid, i) ? array_view_bytes(k->from, i) : bytes_of(NULL, 0);
        bool good = b.size == width;
        memset(to + (size_t)i * width, 0, width);
        if (good && width > 0) memcpy(to + (size_t)i * width, b.data, width);
        if (!good && is_valid(valid, i)) {
            if (!k->try_cast) FAIL(PENNON_INVALID_ARGUMENT, "row %" PRId64 " has %zu bytes, not %zu", i, b.size, width);
            make_null(valid, i);
        }
    }
    TRY(array_give_valid(&made, valid, k->rows, err));
    array_move(&made, out);
done:
    if (st == PENNON_INVALID_ARGUMENT) (void)error_kind(err, "CastFailed");
    if (made.release != NULL) array_release(&made);
    return st;
}

/* -------------------------------------------------------------------------------------------------------------- nesting */

/* A view as the array that it shows: rows may have been cut off. Borrowed. */
static struct ArrowArray shown(const struct array_view *v)
{
    struct ArrowArray a = *v->array;
    a.offset = v->offset;
    a.length = v->length;
    a.null_count = v->type.layout == LAYOUT_NULL ? v->length : -1;
    a.release = NULL;
    return a;
}

/* Cast of a whole array to a type, by a cast of its own. */
static pennon_status cast_array(const struct cast *k, const struct ArrowSchema *from, const struct ArrowArray *array,
                                const struct ArrowSchema *to, struct ArrowArray *out, pennon_error *err)
{
    struct array_view v;
    struct cast inner = {.c = k->c, .to_schema = to, .try_cast = k->try_cast, .scratch = k->scratch, .zones = k->zones};
    TRY_RETURN(arrow_type_of(to, &inner.to, err));
    TRY_RETURN(array_view_deep(&v, from, array, k->scratch, err));
    return cast_view(&inner, &v, array->length, out, err);
}

/* The values first, then a row each. */
static pennon_status cast_from_dictionary(struct cast *k, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray values = {.release = NULL};
    const struct array_view *dictionary = &k->from->children[0];
    uint64_t *at = NULL;
    struct ArrowArray plain = shown(dictionary);
    TRY_NEW(at, arena_alloc(k->scratch, ((size_t)k->rows + 1) * sizeof *at, err));
    TRY(cast_array(k, k->from->schema->dictionary, &plain, k->to_schema, &values, err));
    for (int64_t i = 0; i < k->rows; i++) {
        at[i] = array_view_is_null(k->from, i) ? ARRAY_TAKE_NULL : (uint64_t)array_view_int(k->from, i);
    }
    TRY(array_take(k->to_schema, &values, at, (size_t)k->rows, k->c->mem, out, err));
done:
    if (values.release != NULL) array_release(&values);
    return st;
}

static pennon_status cast_to_dictionary(struct cast *k, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray values = {.release = NULL};
    struct ArrowArray from = shown(k->from);
    TRY(cast_array(k, k->from->schema, &from, k->to_schema->dictionary, &values, err));
    TRY(array_cast(k->to_schema->dictionary, &values, k->to_schema, k->c->mem, out, err));
done:
    if (values.release != NULL) array_release(&values);
    return st;
}

/* Items are cast in place of the old ones in a copy, whose list layout is brought to the target's first. */
/* Lists of one fixed size, none of which is null: the items as they lie, without a copy. */
static pennon_status cast_items(struct cast *k, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct ArrowArray from = shown(k->from);
    struct ArrowArray items = *from.children[0], made = {.release = NULL};
    items.offset += from.offset * k->to.fixed_size;
    items.length = k->rows * k->to.fixed_size;
    items.null_count = items.null_count == 0 ? 0 : -1;
    TRY(array_new_for(&made, k->to_schema, k->c->mem, err));
    made.length = k->rows;
    TRY(cast_array(k, k->from->schema->children[0], &items, k->to_schema->children[0], made.children[0], err));
    array_move(&made, out);
done:
    if (made.release != NULL) array_release(&made);
    return st;
}

static pennon_status cast_lists(struct cast *k, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowSchema middle = {.release = NULL};
    struct ArrowArray copy = {.release = NULL}, items = {.release = NULL}, from = shown(k->from);
    if (k->from->type.layout == LAYOUT_FIXED_LIST && k->to.layout == LAYOUT_FIXED_LIST && k->from->null_count == 0 &&
        k->from->type.fixed_size == k->to.fixed_size && k->from->array != NULL)
        return cast_items(k, out, err);
    TRY(arrow_schema_copy(k->to_schema, k->c->mem, &middle, err));
    arrow_schema_release(middle.children[0]);
    TRY(arrow_schema_copy(k->from->schema->children[0], k->c->mem, middle.children[0], err));
    if (k->from->type.layout == k->to.layout && k->from->type.fixed_size == k->to.fixed_size) {
        TRY(array_copy_range(k->from->schema, &from, 0, k->rows, ARRAY_DROP_GARBAGE, k->c->mem, &copy, err));
    } else {
        TRY(array_cast(k->from->schema, &from, &middle, k->c->mem, &copy, err));
    }
    TRY(cast_array(k, middle.children[0], copy.children[0], k->to_schema->children[0], &items, err));
    array_release(copy.children[0]);
    array_move(&items, copy.children[0]);
    array_move(&copy, out);
done:
    if (middle.release != NULL) arrow_schema_release(&middle);
    if (copy.release != NULL) array_release(&copy);
    return st;
}

/* A list of one item a row, the value; of nulls as well, but for dictionaries, whose nulls stay null. */
static pennon_status cast_to_lists(struct cast *k, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray made = {.release = NULL}, from = shown(k->from);
    uint64_t *valid = NULL;
    bool small = k->to.layout == LAYOUT_LIST32;
    uint8_t *offsets = NULL;
    TRY(array_new_for(&made, k->to_schema, k->c->mem, err));
    made.length = k->rows;
    if (k->from->type.id == ARROW_DICTIONARY) TRY(words_valid(k->scratch, k->from, k->rows, &valid, err));
    TRY(array_give_valid(&made, valid, k->rows, err));
    TRY_NEW(offsets, array_make_buffer(&made, 1, ((size_t)k->rows + 1) * (small ? 4 : 8), err));
    if (small && k->rows >= INT32_MAX) FAIL(PENNON_INVALID_ARGUMENT, "%" PRId64 " items do not fit 32-bit offsets", k->rows);
    for (int64_t i = 0; i <= k->rows; i++) {
        int32_t narrow = (int32_t)i;
        memcpy(offsets + i * (small ? 4 : 8), small ? (const void *)&narrow : (const void *)&i, small ? sizeof narrow : sizeof i);
    }
    TRY(cast_array(k, k->from->schema, &from, k->to_schema->children[0], made.children[0], err));
    array_move(&made, out);
done:
    if (made.release != NULL) array_release(&made);
    return st;
}

/* Fields by position; a field under a null struct counts as null. */
static pennon_status cast_structs(struct cast *k, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray made = {.release = NULL};
    uint64_t *valid = NULL;
    struct datum parent = {.view = *k->from};
    TRY(words_valid(k->scratch, k->from, k->rows, &valid, err));
    TRY(array_new_for(&made, k->to_schema, k->c->mem, err));
    made.length = k->rows;
    TRY(array_give_valid(&made, valid, k->rows, err));
    for (int64_t i = 0; i < made.n_children; i++) {
        struct datum field;
        TRY(datum_of_field(k->scratch, &parent, (uint32_t)i, &field, err));
        TRY(cast_array(k, k->from->schema->children[i], field.view.array, k->to_schema->children[i], made.children[i], err));
    }
    array_move(&made, out);
done:
    if (made.release != NULL) array_release(&made);
    return st;
}

/* By way of int64: what has no cast of its own to the target. */
static bool by_int64(const struct arrow_type *from, const struct arrow_type *to)
{
    bool stamp_to = to->id == ARROW_TIMESTAMP || to->id == ARROW_DURATION,
         stamp_from = from->id == ARROW_TIMESTAMP || from->id == ARROW_DURATION;
    bool number_to = arrow_id_is_float(to->id) || arrow_id_is_decimal(to->id),
         number_from = arrow_id_is_float(from->id) || arrow_id_is_decimal(from->id);
    return (stamp_to && number_from) || (stamp_from && number_to);
}

static pennon_status cast_by_int64(struct cast *k, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowSchema middle = {.release = NULL};
    struct ArrowArray whole = {.release = NULL}, from = shown(k->from);
    TRY(arrow_schema_new(&middle, "l", "", ARROW_FLAG_NULLABLE, 0, k->c->mem, err));
    TRY(cast_array(k, k->from->schema, &from, &middle, &whole, err));
    TRY(cast_array(k, &middle, &whole, k->to_schema, out, err));
done:
    arrow_schema_release(&middle);
    if (whole.release != NULL) array_release(&whole);
    return st;
}

/* ---------------------------------------------------------------------------------------------------------- the choice */

static cast_row_fn plain_function(const struct arrow_type *from, const struct arrow_type *to)
{
    cast_row_fn fn = arrow_id_is_text(from->id) ? cast_parse_find(to) : cast_number_find(from, to);
    return fn != NULL ? fn : cast_time_find(from, to);
}

static bool has_text(const struct arrow_type *t)
{
    return t->id == ARROW_BOOL || (t->layout == LAYOUT_FIXED && t->id <= ARROW_DURATION) || is_list(t->layout);
}

/* Becomes text or binary row by row. */
static bool becomes_bytes(const struct arrow_type *from, const struct arrow_type *to)
{
    if (!arrow_id_is_variable(to->id)) return false;
    if (arrow_id_is_variable(from->id)) return true;
    if (arrow_id_is_text(to->id)) return has_text(from) && from->id != ARROW_FIXED_SIZE_BINARY && from->layout != LAYOUT_FIXED_LIST;
    return from->id == ARROW_FIXED_SIZE_BINARY || (arrow_id_is_integer(from->id) && to->id != ARROW_BINARY_VIEW);
}

static bool becomes_list(const struct arrow_type *from, const struct arrow_type *to)
{
    return !is_list(from->layout) && (to->id == ARROW_LIST || to->id == ARROW_LARGE_LIST) && from->id != ARROW_STRUCT;
}

/* `a` and `b` are of one type with everything below. */
static bool same_type(const struct ArrowSchema *a, const struct ArrowSchema *b)
{
    return arrow_schema_equal(a, b, SCHEMA_EQUAL_NO_NULLABLE);
}

static pennon_status cast_view(struct cast *k, const struct array_view *from, int64_t rows, struct ArrowArray *out,
                               pennon_error *err)
{
    const struct arrow_type *a = &from->type, *b = &k->to;
    struct ArrowArray array = shown(from);
    cast_row_fn fn;
    k->from = from;
    k->rows = rows;
    if (same_type(from->schema, k->to_schema)) return array_copy_range(k->to_schema, &array, 0, rows, 0, k->c->mem, out, err);
    if (a->id == ARROW_NULL) return array_nulls(k->to_schema, rows, k->c->mem, out, err);
    if (becomes_list(a, b)) return cast_to_lists(k, out, err);
    if (a->id == ARROW_DICTIONARY) return cast_from_dictionary(k, out, err);
    if (b->id == ARROW_DICTIONARY) return cast_to_dictionary(k, out, err);
    if (becomes_bytes(a, b)) return cast_to_bytes(k, out, err);
    if (is_list(a->layout) && is_list(b->layout) && a->id != ARROW_MAP && b->id != ARROW_MAP) return cast_lists(k, out, err);
    if (a->id == ARROW_STRUCT && b->id == ARROW_STRUCT && from->schema->n_children == k->to_schema->n_children) {
        return cast_structs(k, out, err);
    }
    if (is_binary(a->id) && b->id == ARROW_FIXED_SIZE_BINARY) return cast_to_fixed_bytes(k, out, err);
    if (by_int64(a, b)) return cast_by_int64(k, out, err);
    fn = plain_function(a, b);
    return fn != NULL ? cast_plain(k, fn, out, err) : no_cast(k, err);
}

static bool types_castable(const struct arrow_type *a, const struct arrow_type *b)
{
    if (becomes_bytes(a, b) || by_int64(a, b) || plain_function(a, b) != NULL) return true;
    return is_binary(a->id) && b->id == ARROW_FIXED_SIZE_BINARY;
}

bool cast_possible(const struct ArrowSchema *from, const struct ArrowSchema *to)
{
    struct arrow_type a, b;
    pennon_error ignored;
    pennon_error_init(&ignored);
    bool known = arrow_type_of(from, &a, &ignored) == PENNON_OK && arrow_type_of(to, &b, &ignored) == PENNON_OK;
    pennon_error_clear(&ignored);
    if (!known) return false;
    if (same_type(from, to) || a.id == ARROW_NULL) return true;
    if (becomes_list(&a, &b)) return cast_possible(from, to->children[0]);
    if (a.id == ARROW_DICTIONARY) return cast_possible(from->dictionary, to);
    if (b.id == ARROW_DICTIONARY) return cast_possible(from, to->dictionary);
    if (is_list(a.layout) && is_list(b.layout)) {
        return a.id != ARROW_MAP && b.id != ARROW_MAP && cast_possible(from->children[0], to->children[0]);
    }
    if (is_list(a.layout)) return types_castable(&a, &b) && cast_possible(from->children[0], to);
    if (a.id == ARROW_STRUCT && b.id == ARROW_STRUCT) {
        bool all = from->n_children == to->n_children;
        for (int64_t i = 0; all && i < from->n_children; i++) all = cast_possible(from->children[i], to->children[i]);
        return all;
    }
    return types_castable(&a, &b);
}

pennon_status cast_datum(const struct call *c, const struct datum *in, const struct ArrowSchema *to, bool try_cast,
                         struct arena *scratch, int64_t rows, struct datum *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray made = {.release = NULL};
    struct zone_cache zones = {.arena = scratch};
    struct cast k = {.c = c, .to_schema = to, .try_cast = try_cast, .scratch = scratch, .zones = &zones};
    TRY(arrow_type_of(to, &k.to, err));
    TRY(cast_view(&k, &in->view, in->scalar ? 1 : rows, &made, err));
    ASSERT(made.length == (in->scalar ? 1 : rows));
    TRY(datum_own(out, to, &made, in->scalar, scratch, err));
done:
    if (made.release != NULL) array_release(&made);
    return st;
}

bool expr_cast_possible(const struct ArrowSchema *from, const struct ArrowSchema *to) { return cast_possible(from, to); }
