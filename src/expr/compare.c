/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Comparisons of values of every type.
 *
 * A comparison is brought to one of three questions (equal, less, greater) and perhaps a NOT over the bits; nulls are put in at the end. By
 * type the bits come from
 *   numbers, dates and times of up to 8 bytes   the kernels (compare_kernel.h)
 *   booleans                                    words
 *   texts and bytes                             a loop over rows; equality with a literal looks at the sizes first
 *   dictionaries with a literal                 the values once, then their bits by index
 *   all else (wide decimals, intervals, lists, structs)  value_compare, row by row
 * Floats are in IEEE total order: -0.0 < 0.0, NaN with the sign bit below all, other NaN above all, equal where the bits are.
 * Source: spec expressions 4. */
#include "expr/compare_forms.h"
#include "expr/evaluate.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum question { ASK_EQUAL, ASK_LESS, ASK_GREATER };

/* -------------------------------------------------------------------------------------------------------- one row by row */

static int order_i64(int64_t a, int64_t b) { return (a > b) - (a < b); }
static int order_u64(uint64_t a, uint64_t b) { return (a > b) - (a < b); }

static int order_bytes(struct bytes a, struct bytes b)
{
    size_t n = a.size < b.size ? a.size : b.size;
    int c = n == 0 ? 0 : memcmp(a.data, b.data, n);
    return c != 0 ? (c > 0) - (c < 0) : order_u64(a.size, b.size);
}

/* The bits of a float as an integer whose order is the total order. */
static int64_t float_key(const struct array_view *v, int64_t i)
{
    const uint8_t *p = array_view_fixed(v, i);
    if (v->type.bit_width == 16) {
        int16_t k;
        memcpy(&k, p, sizeof k);
        return k < 0 ? k ^ INT16_MAX : k;
    }
    if (v->type.bit_width == 32) {
        int32_t k;
        memcpy(&k, p, sizeof k);
        return k < 0 ? k ^ INT32_MAX : k;
    }
    int64_t k = text_i64(p);
    return k < 0 ? k ^ INT64_MAX : k;
}

static int order_wide(const uint8_t *a, const uint8_t *b, size_t width)
{
    struct wide x = wide_load(a, width), y = wide_load(b, width);
    return wide_compare(&x, &y);
}

static int order_fixed(const struct array_view *a, int64_t i, const struct array_view *b, int64_t j)
{
    const uint8_t *pa = array_view_fixed(a, i);
    const uint8_t *pb = array_view_fixed(b, j);
    int c = 0;
    switch (a->type.id) {
    case ARROW_FLOAT16:
    case ARROW_FLOAT32:
    case ARROW_FLOAT64: return order_i64(float_key(a, i), float_key(b, j));
    case ARROW_DECIMAL128:
    case ARROW_DECIMAL256: return order_wide(pa, pb, arrow_type_width(&a->type));
    case ARROW_UINT64: return order_u64((uint64_t)array_view_int(a, i), (uint64_t)array_view_int(b, j));
    case ARROW_INTERVAL_DAY_TIME:
    case ARROW_INTERVAL_MONTH_DAY_NANO: /* by the larger unit first */
        c = order_i64(text_i32(pa), text_i32(pb));
        if (c == 0) c = order_i64(text_i32(pa + 4), text_i32(pb + 4));
        if (c == 0 && a->type.bit_width == 128) c = order_i64(text_i64(pa + 8), text_i64(pb + 8));
        return c;
    case ARROW_FIXED_SIZE_BINARY: return order_bytes(array_view_bytes(a, i), array_view_bytes(b, j));
    case ARROW_DICTIONARY: return value_compare(&a->children[0], array_view_int(a, i), &b->children[0], array_view_int(b, j));
    default: return order_i64(array_view_int(a, i), array_view_int(b, j));
    }
}

static int order_lists(const struct array_view *a, int64_t i, const struct array_view *b, int64_t j)
{
    int64_t start_a = 0, start_b = 0, n_a = 0, n_b = 0;
    array_view_list(a, i, &start_a, &n_a);
    array_view_list(b, j, &start_b, &n_b);
    for (int64_t k = 0; k < n_a && k < n_b; k++) {
        int c = value_compare(&a->children[0], start_a + k, &b->children[0], start_b + k);
        if (c != 0) return c;
    }
    return order_i64(n_a, n_b);
}

static int order_structs(const struct array_view *a, int64_t i, const struct array_view *b, int64_t j)
{
    for (int64_t k = 0; k < a->array->n_children; k++) {
        int c = value_compare(&a->children[k], i, &b->children[k], j);
        if (c != 0) return c;
    }
    return 0;
}

int value_compare(const struct array_view *a, int64_t i, const struct array_view *b, int64_t j)
{
    bool null_a = array_view_is_null(a, i), null_b = array_view_is_null(b, j);
    if (null_a || null_b) return (int)null_b - (int)null_a;
    switch (a->type.layout) {
    case LAYOUT_BITS: return (int)array_view_bool(a, i) - (int)array_view_bool(b, j);
    case LAYOUT_FIXED: return order_fixed(a, i, b, j);
    case LAYOUT_VAR32:
    case LAYOUT_VAR64:
    case LAYOUT_VIEW: return order_bytes(array_view_bytes(a, i), array_view_bytes(b, j));
    case LAYOUT_LIST32:
    case LAYOUT_LIST64:
    case LAYOUT_LIST_VIEW32:
    case LAYOUT_LIST_VIEW64:
    case LAYOUT_FIXED_LIST: return order_lists(a, i, b, j);
    case LAYOUT_STRUCT: return order_structs(a, i, b, j);
    default: return array_compare(a, i, b, j); /* unions and run ends */
    }
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t h = (a ^ (b + UINT64_C(0x9E3779B97F4A7C15) + (a << 6))) * UINT64_C(0xBF58476D1CE4E5B9);
    return h ^ (h >> 29);
}

uint64_t value_hash(const struct array_view *v, int64_t row)
{
    int64_t start = 0, n = 0;
    uint64_t h = 1;
    if (array_view_is_null(v, row)) return 0;
    switch (v->type.layout) {
    case LAYOUT_BITS: return mix(2, array_view_bool(v, row));
    case LAYOUT_FIXED:
        if (v->type.id == ARROW_DICTIONARY) return value_hash(&v->children[0], array_view_int(v, row));
        return XXH3_64bits(array_view_fixed(v, row), arrow_type_width(&v->type));
    case LAYOUT_VAR32:
    case LAYOUT_VAR64:
    case LAYOUT_VIEW: {
        struct bytes text = array_view_bytes(v, row);
        return XXH3_64bits(text.data, text.size);
    }
    case LAYOUT_LIST32:
    case LAYOUT_LIST64:
    case LAYOUT_LIST_VIEW32:
    case LAYOUT_LIST_VIEW64:
    case LAYOUT_FIXED_LIST:
        array_view_list(v, row, &start, &n);
        for (int64_t k = 0; k < n; k++) h = mix(h, value_hash(&v->children[0], start + k));
        return h;
    case LAYOUT_STRUCT:
        for (int64_t k = 0; k < v->array->n_children; k++) h = mix(h, value_hash(&v->children[k], row));
        return h;
    default: return 3; /* unions and run ends: told apart by value_compare alone */
    }
}

/* --------------------------------------------------------------------------------------------------------------- bits */

static bool answer(enum question ask, int order) { return ask == ASK_EQUAL ? order == 0 : ask == ASK_LESS ? order < 0 : order > 0; }

/* Rows one by one, for what has no loop of its own. */
static pennon_status bits_by_rows(struct evaluation *ev, enum question ask, const struct datum *a, const struct datum *b,
                                  uint64_t *out, pennon_error *err)
{
    memset(out, 0, word_count(ev->rows) * sizeof *out);
    for (int64_t i = 0; i < ev->rows; i++) {
        if (i % ROWS_PER_CHECK == 0) TRY_RETURN(call_check(ev->c, err));
        bool yes = answer(ask, value_compare(&a->view, datum_row(a, i), &b->view, datum_row(b, i)));
        out[i / 64] |= (uint64_t)yes << (i % 64);
    }
    return PENNON_OK;
}

static enum compare_key key_of(const struct arrow_type *t)
{
    if (arrow_id_is_float(t->id)) return KEY_FLOAT;
    return arrow_id_is_integer(t->id) && !arrow_id_is_signed(t->id) ? KEY_UNSIGNED : KEY_SIGNED;
}

/* One value of a word, ordered as its bits as an integer. */
static bool has_kernel(const struct arrow_type *t)
{
    if (t->layout != LAYOUT_FIXED || t->bit_width > 64) return false;
    return t->id != ARROW_FIXED_SIZE_BINARY && t->id != ARROW_DICTIONARY && t->id != ARROW_INTERVAL_DAY_TIME;
}

static void bits_of_numbers(const struct evaluation *ev, enum question ask, const struct datum *a, const struct datum *b,
                            uint64_t *out)
{
    const struct compare_forms *forms = compare_forms_best();
    enum compare_key key = key_of(&a->view.type);
    size_t log = bit_width(arrow_type_width(&a->view.type)) - 1;
    const uint8_t *pa = array_view_fixed(&a->view, 0);
    const uint8_t *pb = array_view_fixed(&b->view, 0);
    compare_fn fn;
    if (b->scalar) {
        fn = ask == ASK_EQUAL  ? forms->literal_eq[log]
             : ask == ASK_LESS ? forms->literal_lt[key][log]
                               : forms->literal_gt[key][log];
        fn(pa, pb, out, (size_t)ev->rows);
    } else if (ask == ASK_EQUAL) {
        forms->pair_eq[log](pa, pb, out, (size_t)ev->rows);
    } else {
        fn = forms->pair_lt[key][log];
        fn(ask == ASK_LESS ? pa : pb, ask == ASK_LESS ? pb : pa, out, (size_t)ev->rows);
    }
}

static void load_booleans(uint64_t *to, const struct datum *d, int64_t rows)
{
    if (d->scalar) {
        memset(to, array_view_bool(&d->view, 0) ? 0xff : 0, word_count(rows) * sizeof *to);
    } else {
        words_load(to, d->view.data, (uint64_t)d->view.offset, rows);
    }
}

static pennon_status bits_of_booleans(struct evaluation *ev, enum question ask, const struct datum *a, const struct datum *b,
                                      uint64_t *out, pennon_error *err)
{
    size_t n = word_count(ev->rows);
    uint64_t *other = words_new(ev->scratch, ev->rows, err);
    if (other == NULL) return err->code;
    load_booleans(out, a, ev->rows);
    load_booleans(other, b, ev->rows);
    for (size_t w = 0; w < n; w++) {
        uint64_t x = out[w], y = other[w];
        out[w] = ask == ASK_EQUAL ? ~(x ^ y) : ask == ASK_LESS ? ~x & y : x & ~y;
    }
    return PENNON_OK;
}

/* Bytes of one size. Short ones by two loads that overlap: no call, no read behind the end. */
static ALWAYS_INLINE bool same_bytes(const uint8_t *a, const uint8_t *b, size_t n)
{
    if (n >= 8) {
        if (n > 16) return memcmp(a, b, n) == 0;
        return ((load_u64(a) ^ load_u64(b)) | (load_u64(a + n - 8) ^ load_u64(b + n - 8))) == 0;
    }
    if (n >= 4) return ((load_u32(a) ^ load_u32(b)) | (load_u32(a + n - 4) ^ load_u32(b + n - 4))) == 0;
    for (size_t i = 0; i < n; i++) {
        if (a[i] != b[i]) return false;
    }
    return true;
}

/* Equal to a literal, offsets: the rows of the right size are found by a kernel, then looked at. */
static void bits_of_equal_texts(const struct text_rows *t, struct bytes literal, const uint64_t *need, uint64_t *out, int64_t start,
                                int64_t end)
{
    const struct compare_forms *forms = compare_forms_best();
    bool wide = t->layout == LAYOUT_VAR64;
    if (!wide && literal.size > INT32_MAX) {
        memset(out + start / 64, 0, word_count(end - start) * sizeof *out);
        return;
    }
    forms->sizes[wide](t->offsets + (size_t)start * t->width, literal.size, out + start / 64, (size_t)(end - start));
    if (literal.size == 0) return;
    for (int64_t w = start / 64; w * 64 < end; w++) {
        uint64_t yes = 0;
        for (uint64_t left = need != NULL ? out[w] & need[w] : out[w]; left != 0; left &= left - 1) {
            int64_t row = w * 64 + __builtin_ctzll(left);
            struct bytes text = text_row(t, row);
            if (same_bytes(text.data, literal.data, literal.size)) yes |= left & -left;
        }
        out[w] = yes;
    }
}

/* Rows [start, end) of texts with a literal. */
static void bits_of_texts(enum question ask, const struct text_rows *t, struct bytes literal, const uint64_t *need, uint64_t *out,
                          int64_t start, int64_t end)
{
    for (int64_t w = start / 64; w * 64 < end; w++) {
        uint64_t word = 0;
        if (need != NULL && need[w] == 0) {
            out[w] = 0;
            continue;
        }
        int64_t n = end - w * 64 < 64 ? end - w * 64 : 64;
        for (int64_t j = 0; j < n; j++) {
            struct bytes text = text_row(t, w * 64 + j);
            bool yes = ask == ASK_EQUAL ? text.size == literal.size && same_bytes(text.data, literal.data, literal.size)
                                        : answer(ask, order_bytes(text, literal));
            word |= (uint64_t)yes << j;
        }
        out[w] = word;
    }
}

static void bits_of_text_pairs(enum question ask, const struct text_rows *a, const struct text_rows *b, uint64_t *out,
                               int64_t start, int64_t end)
{
    for (int64_t w = start / 64; w * 64 < end; w++) {
        uint64_t word = 0;
        int64_t n = end - w * 64 < 64 ? end - w * 64 : 64;
        for (int64_t j = 0; j < n; j++) {
            struct bytes x = text_row(a, w * 64 + j), y = text_row(b, w * 64 + j);
            bool yes = ask == ASK_EQUAL ? x.size == y.size && same_bytes(x.data, y.data, x.size) : answer(ask, order_bytes(x, y));
            word |= (uint64_t)yes << j;
        }
        out[w] = word;
    }
}

static pennon_status bits_of_bytes(struct evaluation *ev, enum question ask, const struct datum *a, const struct datum *b,
                                   uint64_t *out, pennon_error *err)
{
    struct text_rows ta = text_rows_of(&a->view), tb = text_rows_of(&b->view);
    bool by_size = ask == ASK_EQUAL && (ta.layout == LAYOUT_VAR32 || ta.layout == LAYOUT_VAR64);
    struct bytes literal = b->scalar ? text_row(&tb, 0) : bytes_of(NULL, 0);
    for (int64_t start = 0; start < ev->rows; start += ROWS_PER_CHECK) {
        int64_t end = start + ROWS_PER_CHECK < ev->rows ? start + ROWS_PER_CHECK : ev->rows;
        TRY_RETURN(call_check(ev->c, err));
        if (!b->scalar) {
            bits_of_text_pairs(ask, &ta, &tb, out, start, end);
        } else if (by_size) {
            bits_of_equal_texts(&ta, literal, ev->need, out, start, end);
        } else {
            bits_of_texts(ask, &ta, literal, ev->need, out, start, end);
        }
    }
    return PENNON_OK;
}

/* The bits of rows that are valid on both sides; others are anything. `a` is no scalar. */
static pennon_status bits_of(struct evaluation *ev, enum question ask, const struct datum *a, const struct datum *b, uint64_t *out,
                             pennon_error *err)
{
    const struct arrow_type *t = &a->view.type;
    if (t->id == ARROW_BOOL) return bits_of_booleans(ev, ask, a, b, out, err);
    if (has_kernel(t)) {
        bits_of_numbers(ev, ask, a, b, out);
        return PENNON_OK;
    }
    if (arrow_id_is_variable(t->id) || t->id == ARROW_FIXED_SIZE_BINARY) return bits_of_bytes(ev, ask, a, b, out, err);
    return bits_by_rows(ev, ask, a, b, out, err);
}

/* -------------------------------------------------------------------------------------------------------- dictionaries */

void dictionary_values(const struct datum *d, struct datum *out)
{
    ASSERT(d->view.type.id == ARROW_DICTIONARY && d->view.children != NULL);
    *out = (struct datum){.view = d->view.children[0]};
}

struct evaluation evaluation_of_rows(const struct evaluation *ev, int64_t rows)
{
    struct evaluation other = *ev;
    other.rows = rows;
    other.need = NULL;
    return other;
}

pennon_status dictionary_spread(struct evaluation *ev, const struct datum *d, const struct truth *of_values, struct truth *out,
                                pennon_error *err)
{
    uint64_t *valid = NULL;
    uint64_t *value = words_new(ev->scratch, ev->rows, err);
    if (value == NULL) return err->code;
    TRY_RETURN(datum_valid(ev->scratch, d, ev->rows, &valid, err));
    if (of_values->valid != NULL && valid == NULL) {
        valid = words_new(ev->scratch, ev->rows, err);
        if (valid == NULL) return err->code;
        memset(valid, 0xff, word_count(ev->rows) * sizeof *valid);
    }
    for (int64_t w = 0; w * 64 < ev->rows; w++) {
        int64_t n = ev->rows - w * 64 < 64 ? ev->rows - w * 64 : 64;
        uint64_t word = 0, known = 0;
        uint64_t rows = valid != NULL ? valid[w] : UINT64_MAX;
        for (int64_t j = 0; j < n; j++) {
            if (!(rows >> j & 1)) continue; /* the index under a null may be anything */
            uint64_t at = (uint64_t)array_view_int(&d->view, datum_row(d, w * 64 + j));
            word |= (of_values->value[at / 64] >> (at % 64) & 1) << j;
            if (of_values->valid != NULL) known |= (of_values->valid[at / 64] >> (at % 64) & 1) << j;
        }
        value[w] = word;
        if (of_values->valid != NULL) valid[w] = known;
    }
    *out = truth_of_words(value, valid, ev->rows);
    return PENNON_OK;
}

/* ----------------------------------------------------------------------------------------------------------- operators */

static enum ast_compare mirrored(enum ast_compare op)
{
    switch (op) {
    case AST_LT: return AST_GT;
    case AST_LE: return AST_GE;
    case AST_GT: return AST_LT;
    case AST_GE: return AST_LE;
    default: return op;
    }
}

/* The question whose answer, turned round or not, is the operator's. */
static enum question question_of(enum ast_compare op, bool *turn)
{
    *turn = op == AST_NE || op == AST_LE || op == AST_GE;
    return op == AST_EQ || op == AST_NE ? ASK_EQUAL : op == AST_LT || op == AST_GE ? ASK_LESS : ASK_GREATER;
}

/* Both are one row: the same for all rows. */
static pennon_status compare_scalars(struct evaluation *ev, enum ast_compare op, const struct datum *a, const struct datum *b,
                                     struct truth *out, pennon_error *err)
{
    bool turn = false;
    bool is_null = refers_to_null(&a->view, 0) || refers_to_null(&b->view, 0);
    enum question ask = question_of(op, &turn);
    bool yes = !is_null && answer(ask, value_compare(&a->view, 0, &b->view, 0)) != turn;
    return truth_constant(ev->scratch, ev->rows, yes, is_null, out, err);
}

static pennon_status compare_dictionary(struct evaluation *ev, enum ast_compare op, const struct datum *a, const struct datum *b,
                                        struct truth *out, pennon_error *err)
{
    struct datum values, literal = *b;
    struct truth of_values;
    dictionary_values(a, &values);
    if (b->view.type.id == ARROW_DICTIONARY) {
        dictionary_values(b, &literal);
        array_view_cut(&literal.view, array_view_int(&b->view, 0), 1);
        literal.scalar = true;
    }
    struct evaluation part = evaluation_of_rows(ev, values.view.length);
    TRY_RETURN(compare_data(&part, op, &values, &literal, &of_values, err));
    return dictionary_spread(ev, a, &of_values, out, err);
}

pennon_status compare_data(struct evaluation *ev, enum ast_compare op, const struct datum *a, const struct datum *b,
                           struct truth *out, pennon_error *err)
{
    bool turn = false;
    uint64_t *valid_a = NULL, *valid_b = NULL, *valid = NULL;
    if (a->scalar && b->scalar) return compare_scalars(ev, op, a, b, out, err);
    if (a->scalar) return compare_data(ev, mirrored(op), b, a, out, err);
    if (a->view.type.id == ARROW_NULL || (b->scalar && refers_to_null(&b->view, 0))) {
        return truth_constant(ev->scratch, ev->rows, false, true, out, err);
    }
    /* Few values and many rows, or the other way round (a slice of a large dictionary). */
    if (a->view.type.id == ARROW_DICTIONARY && b->scalar && a->view.children[0].length <= ev->rows) {
        return compare_dictionary(ev, op, a, b, out, err);
    }
    uint64_t *value = words_new(ev->scratch, ev->rows, err);
    if (value == NULL) return err->code;
    enum question ask = question_of(op, &turn);
    TRY_RETURN(bits_of(ev, ask, a, b, value, err));
    if (turn) {
        for (size_t w = 0, n = word_count(ev->rows); w < n; w++) value[w] = ~value[w];
    }
    TRY_RETURN(datum_valid(ev->scratch, a, ev->rows, &valid_a, err));
    TRY_RETURN(datum_valid(ev->scratch, b, ev->rows, &valid_b, err));
    TRY_RETURN(words_both(ev->scratch, valid_a, valid_b, ev->rows, &valid, err));
    *out = truth_of_words(value, valid, ev->rows);
    return PENNON_OK;
}

pennon_status distinct_data(struct evaluation *ev, bool negated, const struct datum *a, const struct datum *b, struct truth *out,
                            pennon_error *err)
{
    uint64_t *valid_a = NULL, *valid_b = NULL;
    struct truth equal;
    TRY_RETURN(compare_data(ev, AST_EQ, a, b, &equal, err));
    TRY_RETURN(datum_valid(ev->scratch, a, ev->rows, &valid_a, err));
    TRY_RETURN(datum_valid(ev->scratch, b, ev->rows, &valid_b, err));
    for (size_t w = 0, n = word_count(ev->rows); w < n; w++) {
        uint64_t x = valid_a != NULL ? valid_a[w] : UINT64_MAX, y = valid_b != NULL ? valid_b[w] : UINT64_MAX;
        uint64_t same = (equal.value[w] & x & y) | (~x & ~y);
        equal.value[w] = negated ? same : ~same;
    }
    *out = (struct truth){.value = equal.value};
    return PENNON_OK;
}

uint64_t expr_value_hash(const struct array_view *v, int64_t row) { return value_hash(v, row); }

bool expr_value_equal(const struct array_view *a, int64_t i, const struct array_view *b, int64_t j)
{
    return value_compare(a, i, b, j) == 0;
}
