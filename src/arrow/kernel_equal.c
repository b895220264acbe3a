/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Equality of arrays, and a total order of rows.
 *
 * Equality compares ranges of two views: nulls first, then the values of runs of rows without nulls, which for plain
 * layouts is one memcmp and for lists one comparison of the child ranges. Nothing is counted or allocated on the way down.
 *
 * The order (array_compare) is for sorting: any two rows compare, nulls above values (or below, also those within values), floats in
 * IEEE total order. */
#include "arrow/arrow_internal.h"
#include "arrow/bitmap.h"

/* Rows [i, i + n) of `a` and [j, j + n) of `b`. */
static bool range_equal(const struct array_view *a, int64_t i, const struct array_view *b, int64_t j, int64_t n);

static bool child_views(const struct array_view *a, const struct array_view *b, int64_t number, struct array_view *ca,
                        struct array_view *cb)
{
    pennon_error err;
    bool ok = false;
    pennon_error_init(&err);
    ok = array_view_peek_child(a, number, ca, &err) == PENNON_OK && array_view_peek_child(b, number, cb, &err) == PENNON_OK;
    pennon_error_clear(&err);
    return ok;
}

/* Rows i.. and j.. hold no nulls from here on: n rows by their values. */
static bool lists_equal(const struct array_view *a, int64_t i, const struct array_view *b, int64_t j, int64_t n)
{
    struct array_view ca;
    struct array_view cb;
    int64_t from_a = 0;
    int64_t from_b = 0;
    int64_t run = 0; /* child rows that lie one after another on both sides and are still to be compared */
    if (!child_views(a, b, 0, &ca, &cb)) return false;
    for (int64_t k = 0; k < n; k++) {
        int64_t start_a = 0;
        int64_t start_b = 0;
        int64_t size_a = 0;
        int64_t size_b = 0;
        array_view_list(a, i + k, &start_a, &size_a);
        array_view_list(b, j + k, &start_b, &size_b);
        if (size_a != size_b) return false;
        if (size_a == 0) continue;
        if (run > 0 && from_a + run == start_a && from_b + run == start_b) {
            run += size_a;
            continue;
        }
        if (run > 0 && !range_equal(&ca, from_a, &cb, from_b, run)) return false;
        from_a = start_a;
        from_b = start_b;
        run = size_a;
    }
    return run == 0 || range_equal(&ca, from_a, &cb, from_b, run);
}

static bool variable_equal(const struct array_view *a, int64_t i, const struct array_view *b, int64_t j, int64_t n)
{
    if (a->type.layout == LAYOUT_VIEW) {
        for (int64_t k = 0; k < n; k++) {
            if (!bytes_equal(array_view_bytes(a, i + k), array_view_bytes(b, j + k))) return false;
        }
        return true;
    }
    int64_t start_a = view_offset(a, a->offset + i);
    int64_t start_b = view_offset(b, b->offset + j);
    for (int64_t k = 1; k <= n; k++) {
        if (view_offset(a, a->offset + i + k) - start_a != view_offset(b, b->offset + j + k) - start_b) return false;
    }
    size_t size = (size_t)(view_offset(a, a->offset + i + n) - start_a);
    return size == 0 || memcmp(a->bytes + start_a, b->bytes + start_b, size) == 0;
}

static bool unions_equal(const struct array_view *a, int64_t i, const struct array_view *b, int64_t j, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        struct array_view ca;
        struct array_view cb;
        int64_t child_a = 0;
        int64_t child_b = 0;
        int64_t row_a = 0;
        int64_t row_b = 0;
        array_view_union(a, i + k, &child_a, &row_a);
        array_view_union(b, j + k, &child_b, &row_b);
        if (child_a != child_b || !child_views(a, b, child_a, &ca, &cb) || !range_equal(&ca, row_a, &cb, row_b, 1)) return false;
    }
    return true;
}

/* By value: the runs of the two sides may be cut differently. */
static bool runs_equal(const struct array_view *a, int64_t i, const struct array_view *b, int64_t j, int64_t n)
{
    struct array_view ends_a;
    struct array_view ends_b;
    struct array_view values_a;
    struct array_view values_b;
    if (!child_views(a, b, 0, &ends_a, &ends_b) || !child_views(a, b, 1, &values_a, &values_b)) return false;
    for (int64_t k = 0; k < n;) {
        int64_t run_a = run_end_find(&ends_a, a->offset + i + k);
        int64_t run_b = run_end_find(&ends_b, b->offset + j + k);
        int64_t left_a = array_view_int(&ends_a, run_a) - (a->offset + i);
        int64_t left_b = array_view_int(&ends_b, run_b) - (b->offset + j);
        if (!range_equal(&values_a, run_a, &values_b, run_b, 1)) return false;
        k = left_a < left_b ? left_a : left_b;
    }
    return true;
}

static bool dictionaries_equal(const struct array_view *a, int64_t i, const struct array_view *b, int64_t j, int64_t n)
{
    struct array_view da;
    struct array_view db;
    pennon_error err;
    bool ok = false;
    size_t width = arrow_type_width(&a->type);
    bool shared = a->array->dictionary == b->array->dictionary;
    if (shared && memcmp(array_view_fixed(a, i), array_view_fixed(b, j), (size_t)n * width) == 0) return true;
    pennon_error_init(&err);
    ok = array_view_peek(&da, a->schema->dictionary, a->array->dictionary, &err) == PENNON_OK &&
         array_view_peek(&db, b->schema->dictionary, b->array->dictionary, &err) == PENNON_OK;
    pennon_error_clear(&err);
    for (int64_t k = 0; ok && k < n; k++) ok = range_equal(&da, array_view_int(a, i + k), &db, array_view_int(b, j + k), 1);
    return ok;
}

/* n rows that are valid on both sides. */
static bool values_equal(const struct array_view *a, int64_t i, const struct array_view *b, int64_t j, int64_t n)
{
    switch (a->type.layout) {
    case LAYOUT_NULL: return true;
    case LAYOUT_BITS: return bitmap_equal(a->data, (uint64_t)(a->offset + i), b->data, (uint64_t)(b->offset + j), (uint64_t)n);
    case LAYOUT_FIXED: {
        size_t width = arrow_type_width(&a->type);
        if (a->type.id == ARROW_DICTIONARY) return dictionaries_equal(a, i, b, j, n);
        return width == 0 || memcmp(array_view_fixed(a, i), array_view_fixed(b, j), (size_t)n * width) == 0;
    }
    case LAYOUT_VAR32:
    case LAYOUT_VAR64:
    case LAYOUT_VIEW: return variable_equal(a, i, b, j, n);
    case LAYOUT_LIST32:
    case LAYOUT_LIST64:
    case LAYOUT_LIST_VIEW32:
    case LAYOUT_LIST_VIEW64:
    case LAYOUT_FIXED_LIST: return lists_equal(a, i, b, j, n);
    case LAYOUT_STRUCT:
        for (int64_t c = 0; c < a->array->n_children; c++) {
            struct array_view ca;
            struct array_view cb;
            if (!child_views(a, b, c, &ca, &cb) || !range_equal(&ca, i, &cb, j, n)) return false;
        }
        return true;
    case LAYOUT_SPARSE_UNION:
    case LAYOUT_DENSE_UNION: return unions_equal(a, i, b, j, n);
    case LAYOUT_RUN_END: return runs_equal(a, i, b, j, n);
    }
    return false;
}

/* Valid bits of rows [at, at + n), n <= 64. */
static uint64_t valid_bits(const struct array_view *v, int64_t at, uint64_t n)
{
    return v->validity == NULL ? UINT64_MAX >> (64 - n) : bitmap_load(v->validity, (uint64_t)(v->offset + at), n);
}

static bool range_equal(const struct array_view *a, int64_t i, const struct array_view *b, int64_t j, int64_t n)
{
    const struct array_view *with = a->validity != NULL ? a : b;
    int64_t from = with == a ? i : j;
    if (n == 0) return true;
    if (a->validity == NULL && b->validity == NULL) return values_equal(a, i, b, j, n);
    for (int64_t at = 0; at < n; at += 64) {
        uint64_t take = min_u64(64, (uint64_t)(n - at));
        if (valid_bits(a, i + at, take) != valid_bits(b, j + at, take)) return false;
    }
    /* Both sides have the same nulls: walk the runs of valid rows. */
    for (int64_t k = 0; k < n;) {
        uint64_t bit = (uint64_t)(with->offset + from);
        int64_t start = (int64_t)bitmap_next(with->validity, bit, (uint64_t)k, (uint64_t)n, true);
        int64_t end = (int64_t)bitmap_next(with->validity, bit, (uint64_t)start, (uint64_t)n, false);
        if (start < end && !values_equal(a, i + start, b, j + start, end - start)) return false;
        k = end;
    }
    return true;
}

bool array_equal(const struct ArrowSchema *schema, const struct ArrowArray *a, const struct ArrowArray *b)
{
    struct array_view va;
    struct array_view vb;
    pennon_error err;
    bool ok = false;
    if (a->length != b->length) return false;
    pennon_error_init(&err);
    ok = array_view_peek(&va, schema, a, &err) == PENNON_OK && array_view_peek(&vb, schema, b, &err) == PENNON_OK;
    pennon_error_clear(&err);
    return ok && range_equal(&va, 0, &vb, 0, a->length);
}

/* -------------------------------------------------------------------------------------------------------------- order */

static int order_i64(int64_t a, int64_t b) { return (a > b) - (a < b); }
static int order_u64(uint64_t a, uint64_t b) { return (a > b) - (a < b); }

/* IEEE total order: as integers whose negative ones count down. */
static int order_double(double a, double b)
{
    int64_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    x ^= (int64_t)((uint64_t)(x >> 63) >> 1);
    y ^= (int64_t)((uint64_t)(y >> 63) >> 1);
    return (x > y) - (x < y);
}

static int order_bytes(struct bytes a, struct bytes b)
{
    size_t n = a.size < b.size ? a.size : b.size;
    int c = n == 0 ? 0 : memcmp(a.data, b.data, n);
    if (c != 0) return c < 0 ? -1 : 1;
    return order_u64(a.size, b.size);
}

/* Two's complement numbers of 128 or 256 bits in the machine's byte order. */
static int order_wide(const uint8_t *a, const uint8_t *b, size_t width)
{
    size_t words = width / 8;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    bool big = true;
#else
    bool big = false;
#endif
    for (size_t k = 0; k < words; k++) {
        size_t word = big ? k : words - 1 - k;
        int64_t wa = native_i64(a + word * 8);
        int64_t wb = native_i64(b + word * 8);
        int c = k == 0 ? order_i64(wa, wb) : order_u64((uint64_t)wa, (uint64_t)wb);
        if (c != 0) return c;
    }
    return 0;
}

static int order_fixed(const struct array_view *a, int64_t i, const struct array_view *b, int64_t j, bool nulls_low)
{
    switch (a->type.id) {
    case ARROW_FLOAT16:
    case ARROW_FLOAT32:
    case ARROW_FLOAT64: return order_double(array_view_double(a, i), array_view_double(b, j));
    case ARROW_DECIMAL128:
    case ARROW_DECIMAL256: return order_wide(array_view_fixed(a, i), array_view_fixed(b, j), arrow_type_width(&a->type));
    case ARROW_UINT64: return order_u64((uint64_t)array_view_int(a, i), (uint64_t)array_view_int(b, j));
    case ARROW_INTERVAL_DAY_TIME:
    case ARROW_INTERVAL_MONTH_DAY_NANO: { /* by months (or days), then days, then the time */
        const uint8_t *pa = array_view_fixed(a, i);
        const uint8_t *pb = array_view_fixed(b, j);
        int c = order_i64(native_i32(pa), native_i32(pb));
        if (c == 0) c = order_i64(native_i32(pa + 4), native_i32(pb + 4));
        if (c == 0 && a->type.bit_width == 128) c = order_i64(native_i64(pa + 8), native_i64(pb + 8));
        return c;
    }
    case ARROW_FIXED_SIZE_BINARY: return order_bytes(array_view_bytes(a, i), array_view_bytes(b, j));
    case ARROW_DICTIONARY:
        return array_compare_nulls(&a->children[0], array_view_int(a, i), &b->children[0], array_view_int(b, j), nulls_low);
    default: return order_i64(array_view_int(a, i), array_view_int(b, j));
    }
}

static int order_lists(const struct array_view *a, int64_t i, const struct array_view *b, int64_t j, bool nulls_low)
{
    int64_t start_a = 0;
    int64_t start_b = 0;
    int64_t n_a = 0;
    int64_t n_b = 0;
    array_view_list(a, i, &start_a, &n_a);
    array_view_list(b, j, &start_b, &n_b);
    for (int64_t k = 0; k < n_a && k < n_b; k++) {
        int c = array_compare_nulls(&a->children[0], start_a + k, &b->children[0], start_b + k, nulls_low);
        if (c != 0) return c;
    }
    return order_i64(n_a, n_b);
}

static int order_unions(const struct array_view *a, int64_t i, const struct array_view *b, int64_t j, bool nulls_low)
{
    int64_t child_a = 0;
    int64_t child_b = 0;
    int64_t row_a = 0;
    int64_t row_b = 0;
    array_view_union(a, i, &child_a, &row_a);
    array_view_union(b, j, &child_b, &row_b);
    if (child_a != child_b) return order_i64(child_a, child_b);
    return array_compare_nulls(&a->children[child_a], row_a, &b->children[child_b], row_b, nulls_low);
}

int array_compare_nulls(const struct array_view *a, int64_t i, const struct array_view *b, int64_t j, bool nulls_low)
{
    bool null_a = array_view_is_null(a, i);
    bool null_b = array_view_is_null(b, j);
    if (null_a || null_b) return nulls_low ? (int)null_b - (int)null_a : (int)null_a - (int)null_b;
    switch (a->type.layout) {
    case LAYOUT_NULL: return 0;
    case LAYOUT_BITS: return (int)array_view_bool(a, i) - (int)array_view_bool(b, j);
    case LAYOUT_FIXED: return order_fixed(a, i, b, j, nulls_low);
    case LAYOUT_VAR32:
    case LAYOUT_VAR64:
    case LAYOUT_VIEW: return order_bytes(array_view_bytes(a, i), array_view_bytes(b, j));
    case LAYOUT_LIST32:
    case LAYOUT_LIST64:
    case LAYOUT_LIST_VIEW32:
    case LAYOUT_LIST_VIEW64:
    case LAYOUT_FIXED_LIST: return order_lists(a, i, b, j, nulls_low);
    case LAYOUT_STRUCT:
        for (int64_t c = 0; c < a->array->n_children; c++) {
            int order = array_compare_nulls(&a->children[c], i, &b->children[c], j, nulls_low);
            if (order != 0) return order;
        }
        return 0;
    case LAYOUT_SPARSE_UNION:
    case LAYOUT_DENSE_UNION: return order_unions(a, i, b, j, nulls_low);
    case LAYOUT_RUN_END:
        return array_compare_nulls(&a->children[1], run_end_find(&a->children[0], a->offset + i), &b->children[1],
                                   run_end_find(&b->children[0], b->offset + j), nulls_low);
    }
    return 0;
}

int array_compare(const struct array_view *a, int64_t i, const struct array_view *b, int64_t j)
{
    return array_compare_nulls(a, i, b, j, false);
}
