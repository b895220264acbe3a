/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Arrays from outside: are they what their schema says?
 *
 * layout        | SHAPE                                              | FULL, in addition
 * --------------|----------------------------------------------------|-----------------------------------------------
 * all           | 0 <= length, offset; sums and products fit; number | null_count, where it is given, is right
 *               | of buffers and children; null buffers              |
 * variable      | 0 <= first offset <= last offset                   | offsets never fall; texts of rows are UTF-8
 * views         | data buffers and their sizes are there             | each row's view lies in its buffer, prefix right
 * lists         | last offset <= length of the child                 | offsets never fall
 * list views    |                                                    | each row lies in the child (null rows too)
 * fixed lists   | child >= (offset + length) * size                  |
 * structs       | children >= offset + length                        |
 * unions        | sparse children >= offset + length                 | ids known; dense offsets in their child
 * run ends      | as many ends as values, no nulls among the ends    | ends rise strictly from 1, reach offset + length
 * dictionaries  | dictionary present                                 | indices of rows that are not null lie in it
 *
 * What cannot be known: how many bytes stand behind a pointer. Buffers are believed to be as long as offsets and lengths ask.
 * Recursion follows the schema, whose depth arrow_schema_validate bounds.
 * Source: the Arrow C data interface and columnar format. */
#include "arrow/arrow_internal.h"
#include "arrow/bitmap.h"

static pennon_status bad(const struct ArrowSchema *s, pennon_error *err, const char *what)
{
    return error_set(err, PENNON_INVALID_ARGUMENT, "Arrow array: field '%.128s' (format '%.64s'): %s", field_name(s), s->format,
                     what);
}

static pennon_status bad_row(const struct ArrowSchema *s, pennon_error *err, const char *what, int64_t row)
{
    return error_set(err, PENNON_INVALID_ARGUMENT, "Arrow array: field '%.128s' (format '%.64s'), row %" PRId64 ": %s",
                     field_name(s), s->format, row, what);
}

/* ----------------------------------------------------------------------------------------------------------- shape */

static pennon_status check_counts(const struct ArrowSchema *s, const struct ArrowArray *a, const struct arrow_type *t,
                                  pennon_error *err)
{
    size_t buffers = arrow_type_buffers(t);
    bool count_ok = t->layout == LAYOUT_VIEW ? a->n_buffers >= 3 && a->n_buffers <= INT32_MAX : a->n_buffers == (int64_t)buffers;
    if (t->layout == LAYOUT_NULL) count_ok = a->n_buffers >= 0; /* some producers give it a validity buffer */
    if (a->length < 0 || a->offset < 0 || a->length > INT64_MAX / 2 || a->offset > INT64_MAX / 2)
        return bad(s, err, "length or offset out of range");
    if (!count_ok) return bad(s, err, "wrong number of buffers");
    if (a->n_buffers > 0 && a->buffers == NULL) return bad(s, err, "the buffers are missing");
    if (a->n_children != s->n_children) return bad(s, err, "the number of children differs from the schema's");
    if (a->n_children > 0 && a->children == NULL) return bad(s, err, "the children are missing");
    for (int64_t i = 0; i < a->n_children; i++) {
        if (a->children[i] == NULL || a->children[i]->release == NULL) return bad(s, err, "a child is missing or released");
    }
    if ((a->dictionary == NULL) != (s->dictionary == NULL)) return bad(s, err, "the dictionary is missing or unexpected");
    if (a->dictionary != NULL && a->dictionary->release == NULL) return bad(s, err, "the dictionary is released");
    if (a->null_count < -1 || a->null_count > a->length) return bad(s, err, "null count out of range");
    return PENNON_OK;
}

/* The product of slots and width fits, and the value buffer is there when it has bytes. */
static pennon_status check_value_buffer(const struct ArrowSchema *s, const struct ArrowArray *a, size_t i, uint64_t width,
                                        pennon_error *err)
{
    uint64_t bytes = 0;
    if (mul_overflows((uint64_t)(a->offset + a->length) + 1, width, &bytes) || bytes > INT64_MAX)
        return bad(s, err, "too many rows");
    if (a->length > 0 && width > 0 && a->buffers[i] == NULL) return bad(s, err, "a buffer is missing");
    return PENNON_OK;
}

/* First and last offset of a variable or list layout. `limit` of -1 = not known. */
static pennon_status check_offset_ends(const struct ArrowSchema *s, const struct array_view *v, int64_t limit, pennon_error *err)
{
    bool wide = layout_is_wide(v->type.layout);
    TRY_RETURN(check_value_buffer(s, v->array, 1, wide ? 8 : 4, err));
    if (v->length == 0) return PENNON_OK;
    int64_t first = view_offset(v, v->offset);
    int64_t last = view_offset(v, v->offset + v->length);
    if (first < 0 || last < first) return bad(s, err, "offsets fall or are negative");
    if (limit >= 0 && last > limit) return bad(s, err, "offsets point past the end of the child");
    if (limit < 0 && last > first && v->bytes == NULL) return bad(s, err, "the bytes are missing");
    return PENNON_OK;
}

static pennon_status check_view_buffers(const struct ArrowSchema *s, const struct ArrowArray *a, pennon_error *err)
{
    int64_t n = view_data_buffers(a);
    const uint8_t *sizes = a->buffers[a->n_buffers - 1];
    TRY_RETURN(check_value_buffer(s, a, 1, VIEW_BYTES, err));
    if (n > 0 && sizes == NULL) return bad(s, err, "the sizes of the data buffers are missing");
    for (int64_t i = 0; i < n; i++) {
        int64_t size = native_i64(sizes + i * 8);
        if (size < 0 || (size > 0 && a->buffers[2 + i] == NULL)) return bad(s, err, "a data buffer is missing");
    }
    return PENNON_OK;
}

static pennon_status check_children_reach(const struct ArrowSchema *s, const struct ArrowArray *a, uint64_t per_row,
                                          pennon_error *err)
{
    uint64_t need = 0;
    if (mul_overflows((uint64_t)(a->offset + a->length), per_row, &need)) return bad(s, err, "too many rows");
    for (int64_t i = 0; i < a->n_children; i++) {
        if (a->children[i]->length < 0 || (uint64_t)a->children[i]->length < need) return bad(s, err, "a child has too few rows");
    }
    return PENNON_OK;
}

static pennon_status check_run_shape(const struct ArrowSchema *s, const struct ArrowArray *a, pennon_error *err)
{
    const struct ArrowArray *ends = a->children[0];
    if (ends->length != a->children[1]->length) return bad(s, err, "run ends and values differ in number");
    if (ends->null_count > 0 ||
        (ends->null_count < 0 && ends->n_buffers > 0 && ends->buffers != NULL && ends->buffers[0] != NULL)) {
        return bad(s, err, "null run ends");
    }
    if (a->length > 0 && ends->length == 0) return bad(s, err, "rows without runs");
    return PENNON_OK;
}

/* SHAPE of one field without its children; `v` is its peeked view. */
static pennon_status check_shape(const struct array_view *v, pennon_error *err)
{
    const struct ArrowSchema *s = v->schema;
    const struct ArrowArray *a = v->array;
    bool has_validity = a->n_buffers > 0 && v->type.layout != LAYOUT_NULL && v->type.union_ids == NULL;
    if (has_validity && a->buffers[0] == NULL && a->null_count > 0) return bad(s, err, "nulls without a validity buffer");
    switch (v->type.layout) {
    case LAYOUT_NULL: return PENNON_OK;
    case LAYOUT_BITS: return check_value_buffer(s, a, 1, 1, err);
    case LAYOUT_FIXED: return check_value_buffer(s, a, 1, arrow_type_width(&v->type), err);
    case LAYOUT_VAR32:
    case LAYOUT_VAR64: return check_offset_ends(s, v, -1, err);
    case LAYOUT_VIEW: return check_view_buffers(s, a, err);
    case LAYOUT_LIST32:
    case LAYOUT_LIST64: return check_offset_ends(s, v, a->children[0]->length, err);
    case LAYOUT_LIST_VIEW32:
    case LAYOUT_LIST_VIEW64: {
        uint64_t width = layout_is_wide(v->type.layout) ? 8 : 4;
        TRY_RETURN(check_value_buffer(s, a, 1, width, err));
        return check_value_buffer(s, a, 2, width, err);
    }
    case LAYOUT_FIXED_LIST: return check_children_reach(s, a, (uint64_t)v->type.fixed_size, err);
    case LAYOUT_STRUCT: return check_children_reach(s, a, 1, err);
    case LAYOUT_SPARSE_UNION: TRY_RETURN(check_value_buffer(s, a, 0, 1, err)); return check_children_reach(s, a, 1, err);
    case LAYOUT_DENSE_UNION: TRY_RETURN(check_value_buffer(s, a, 0, 1, err)); return check_value_buffer(s, a, 1, 4, err);
    case LAYOUT_RUN_END: return check_run_shape(s, a, err);
    }
    return PENNON_OK;
}

/* ------------------------------------------------------------------------------------------------------------ values */

static pennon_status check_offsets_rise(const struct array_view *v, pennon_error *err)
{
    int64_t before = v->length == 0 ? 0 : view_offset(v, v->offset);
    bool falls = false;
    if (layout_is_wide(v->type.layout)) {
        for (int64_t i = 1; i <= v->length; i++) {
            int64_t now = view_offset64(v, v->offset + i);
            falls |= now < before;
            before = now;
        }
    } else {
        int32_t last = (int32_t)before;
        for (int64_t i = 1; i <= v->length; i++) {
            int32_t now = native_i32(v->data + (size_t)(v->offset + i) * 4);
            falls |= now < last;
            last = now;
        }
    }
    return falls ? bad(v->schema, err, "offsets fall") : PENNON_OK;
}

/* Every row begins and ends between two characters of a range that is UTF-8 as a whole. */
static bool rows_at_borders(const struct array_view *v)
{
    int64_t last = view_offset(v, v->offset + v->length);
    for (int64_t i = 0; i < v->length; i++) {
        int64_t at = view_offset(v, v->offset + i);
        if (at < last && (v->bytes[at] & 0xc0) == 0x80) return false;
    }
    return true;
}

static pennon_status check_texts(const struct array_view *v, pennon_error *err)
{
    if (v->length == 0) return PENNON_OK;
    if (v->type.layout != LAYOUT_VIEW) {
        int64_t first = view_offset(v, v->offset);
        int64_t last = view_offset(v, v->offset + v->length);
        if (last == first) return PENNON_OK;
        if (utf8_valid(v->bytes + first, (size_t)(last - first)) && rows_at_borders(v)) return PENNON_OK;
    }
    /* Bytes under nulls may be anything: look at the rows one by one. */
    for (int64_t i = 0; i < v->length; i++) {
        if (array_view_is_null(v, i)) continue;
        struct bytes text = array_view_bytes(v, i);
        if (!utf8_valid(text.data, text.size)) return bad_row(v->schema, err, "the text is not UTF-8", i);
    }
    return PENNON_OK;
}

pennon_status array_check_texts(const struct ArrowSchema *schema, const struct ArrowArray *array, pennon_error *err)
{
    struct array_view v;
    if (schema->format[0] == 'u' || schema->format[0] == 'U') {
        TRY_RETURN(array_view_init(&v, schema, array, err));
        if (check_texts(&v, err) != PENNON_OK) {
            err->code = PENNON_CORRUPT;
            return error_kind(err, "CorruptFile");
        }
    }
    if (schema->dictionary) TRY_RETURN(array_check_texts(schema->dictionary, array->dictionary, err));
    for (int64_t i = 0; i < schema->n_children; i++) TRY_RETURN(array_check_texts(schema->children[i], array->children[i], err));
    return PENNON_OK;
}

static pennon_status check_views(const struct array_view *v, pennon_error *err)
{
    int64_t n = view_data_buffers(v->array);
    const uint8_t *sizes = v->array->buffers[v->array->n_buffers - 1];
    for (int64_t i = 0; i < v->length; i++) {
        const uint8_t *view = v->data + (size_t)(v->offset + i) * VIEW_BYTES;
        int32_t size = native_i32(view);
        if (array_view_is_null(v, i)) continue;
        if (size < 0) return bad_row(v->schema, err, "a view of negative size", i);
        if (size <= VIEW_INLINE) continue;
        int32_t buffer = native_i32(view + 8);
        int32_t at = native_i32(view + 12);
        if (buffer < 0 || buffer >= n || at < 0 ||
            !range_inside((uint64_t)at, (uint64_t)size, (uint64_t)native_i64(sizes + (size_t)buffer * 8))) {
            return bad_row(v->schema, err, "a view points outside of its buffer", i);
        }
        if (memcmp(view + 4, (const uint8_t *)v->array->buffers[2 + buffer] + at, 4) != 0) {
            return bad_row(v->schema, err, "the prefix of a view differs from its bytes", i);
        }
    }
    return PENNON_OK;
}

static pennon_status check_list_views(const struct array_view *v, pennon_error *err)
{
    int64_t limit = v->array->children[0]->length;
    for (int64_t i = 0; i < v->length; i++) {
        int64_t start = 0;
        int64_t n = 0;
        array_view_list(v, i, &start, &n);
        if (start < 0 || n < 0 || !range_inside((uint64_t)start, (uint64_t)n, (uint64_t)limit)) {
            return bad_row(v->schema, err, "a list lies outside of the child", i);
        }
    }
    return PENNON_OK;
}

static pennon_status check_indices(const struct array_view *v, pennon_error *err)
{
    int64_t limit = v->array->dictionary->length;
    for (int64_t i = 0; i < v->length; i++) {
        int64_t index = array_view_int(v, i);
        /* uint64 indices over INT64_MAX look negative. */
        if ((index < 0 || index >= limit) && !array_view_is_null(v, i)) {
            return bad_row(v->schema, err, "a dictionary index out of range", i);
        }
    }
    return PENNON_OK;
}

static pennon_status check_union(const struct array_view *v, pennon_error *err)
{
    int16_t child_of[128];
    for (int id = 0; id < 128; id++) child_of[id] = (int16_t)union_child_of(v->type.union_ids, (int8_t)id);
    if (*v->type.union_ids == '\0') child_of[0] = -1;
    for (int64_t i = 0; i < v->length; i++) {
        int8_t id = (int8_t)v->data[v->offset + i];
        if (id < 0 || child_of[id] < 0) return bad_row(v->schema, err, "an unknown type id", i);
        if (v->type.layout != LAYOUT_DENSE_UNION) continue;
        int32_t at = native_i32(v->bytes + (size_t)(v->offset + i) * 4);
        if (at < 0 || at >= v->array->children[child_of[id]]->length)
            return bad_row(v->schema, err, "a union offset out of range", i);
    }
    return PENNON_OK;
}

static pennon_status check_runs(const struct array_view *v, pennon_error *err)
{
    struct array_view ends;
    int64_t before = 0;
    TRY_RETURN(array_view_peek_child(v, 0, &ends, err));
    for (int64_t i = 0; i < ends.length; i++) {
        int64_t end = array_view_int(&ends, i);
        if (end <= before) return bad_row(v->schema, err, "run ends do not rise", i);
        before = end;
    }
    return v->length > 0 && before < v->offset + v->length ? bad(v->schema, err, "the runs end before the rows") : PENNON_OK;
}

static pennon_status check_null_count(const struct array_view *v, pennon_error *err)
{
    const struct ArrowArray *a = v->array;
    const uint8_t *bits = v->type.layout == LAYOUT_NULL || v->type.union_ids != NULL || a->n_buffers == 0 ? NULL : a->buffers[0];
    if (a->null_count < 0) return PENNON_OK;
    if (bits == NULL) {
        bool ok = v->type.layout == LAYOUT_NULL ? a->null_count == a->length || a->null_count == 0 : a->null_count == 0;
        return ok ? PENNON_OK : bad(v->schema, err, "wrong null count");
    }
    int64_t nulls = a->length - (int64_t)bitmap_count(bits, (uint64_t)a->offset, (uint64_t)a->length);
    return nulls == a->null_count ? PENNON_OK : bad(v->schema, err, "wrong null count");
}

/* FULL of one field without its children, which are valid. */
static pennon_status check_values(const struct array_view *v, pennon_error *err)
{
    TRY_RETURN(check_null_count(v, err));
    if (v->type.id == ARROW_DICTIONARY) return check_indices(v, err);
    switch (v->type.layout) {
    case LAYOUT_VAR32:
    case LAYOUT_VAR64: TRY_RETURN(check_offsets_rise(v, err)); break;
    case LAYOUT_VIEW: TRY_RETURN(check_views(v, err)); break;
    case LAYOUT_LIST32:
    case LAYOUT_LIST64: return check_offsets_rise(v, err);
    case LAYOUT_LIST_VIEW32:
    case LAYOUT_LIST_VIEW64: return check_list_views(v, err);
    case LAYOUT_SPARSE_UNION:
    case LAYOUT_DENSE_UNION: return check_union(v, err);
    case LAYOUT_RUN_END: return check_runs(v, err);
    default: break;
    }
    return arrow_id_is_text(v->type.id) ? check_texts(v, err) : PENNON_OK;
}

static pennon_status validate(const struct ArrowSchema *schema, const struct ArrowArray *array, enum array_validate_level level,
                              bool dictionaries, pennon_error *err)
{
    struct array_view v;
    struct arrow_type type;
    if (array == NULL || array->release == NULL) return bad(schema, err, "the array is missing or released");
    TRY_RETURN(arrow_type_of(schema, &type, err));
    TRY_RETURN(check_counts(schema, array, &type, err));
    TRY_RETURN(array_view_peek(&v, schema, array, err));
    TRY_RETURN(check_shape(&v, err));
    for (int64_t i = 0; i < array->n_children; i++)
        TRY_RETURN(validate(schema->children[i], array->children[i], level, dictionaries, err));
    if (array->dictionary != NULL && dictionaries) TRY_RETURN(validate(schema->dictionary, array->dictionary, level, true, err));
    return level == ARRAY_VALIDATE_FULL ? check_values(&v, err) : PENNON_OK;
}

pennon_status array_validate(const struct ArrowSchema *schema, const struct ArrowArray *array, enum array_validate_level level,
                             pennon_error *err)
{
    return validate(schema, array, level, true, err);
}

pennon_status array_validate_indices_only(const struct ArrowSchema *schema, const struct ArrowArray *array, pennon_error *err)
{
    return validate(schema, array, ARRAY_VALIDATE_FULL, false, err);
}

/* ------------------------------------------------------------------------------------------------------- nullability
 * A non-nullable field may have nulls only where an ancestor is null. Most arrays have none at all; the others are walked with the
 * chain of validities of the struct ancestors, 64 rows at a time. */

struct null_chain {
    const struct null_chain *up;   /* or NULL */
    const struct array_view *view; /* an ancestor whose rows run parallel to the field's */
};

/* A field below (or at) this one is non-nullable and has nulls. */
static bool has_suspects(const struct ArrowSchema *s, const struct ArrowArray *a)
{
    if (!arrow_schema_nullable(s) && array_null_count(s, a) > 0) return true;
    for (int64_t i = 0; i < s->n_children; i++) {
        if (has_suspects(s->children[i], a->children[i])) return true;
    }
    return false;
}

/* Valid bits of rows [at, at + n) of the view; n <= 64. */
static uint64_t valid_word(const struct array_view *v, int64_t at, uint64_t n)
{
    if (v->validity == NULL) return v->type.layout == LAYOUT_NULL ? 0 : UINT64_MAX >> (64 - n);
    return bitmap_load(v->validity, (uint64_t)(v->offset + at), n);
}

static uint64_t chain_word(const struct null_chain *chain, int64_t at, uint64_t n)
{
    uint64_t word = UINT64_MAX >> (64 - n);
    for (; chain != NULL; chain = chain->up) word &= valid_word(chain->view, at, n);
    return word;
}

static pennon_status check_rows(const struct array_view *v, int64_t start, int64_t n, const struct null_chain *up,
                                pennon_error *err);

/* The child rows of a run of valid list rows. */
static pennon_status check_list_rows(const struct array_view *v, const struct array_view *child, int64_t i, int64_t runs,
                                     pennon_error *err)
{
    bool scattered = v->type.layout == LAYOUT_LIST_VIEW32 || v->type.layout == LAYOUT_LIST_VIEW64;
    for (int64_t end = i + runs; i < end; i += scattered ? 1 : runs) {
        int64_t start = 0;
        int64_t last = 0;
        int64_t n = 0;
        array_view_list(v, i, &start, &n);
        if (!scattered) {
            array_view_list(v, end - 1, &last, &n);
            n += last - start;
        }
        TRY_RETURN(check_rows(child, start, n, NULL, err));
    }
    return PENNON_OK;
}

static pennon_status check_list_children(const struct array_view *v, int64_t start, int64_t n, const struct null_chain *chain,
                                         pennon_error *err)
{
    struct array_view child;
    TRY_RETURN(array_view_child(v, 0, &child, err));
    for (int64_t i = start, end = start + n; i < end;) {
        int64_t run = i;
        while (run < end && (chain_word(chain, run, 1) & 1) != 0) run++;
        if (run > i) TRY_RETURN(check_list_rows(v, &child, i, run - i, err));
        i = run + 1;
    }
    return PENNON_OK;
}

static pennon_status check_union_children(const struct array_view *v, int64_t start, int64_t n, const struct null_chain *chain,
                                          pennon_error *err)
{
    for (int64_t i = start; i < start + n; i++) {
        int64_t number = 0;
        int64_t row = 0;
        struct array_view child;
        if ((chain_word(chain, i, 1) & 1) == 0) continue;
        array_view_union(v, i, &number, &row);
        TRY_RETURN(array_view_child(v, number, &child, err));
        TRY_RETURN(check_rows(&child, row, 1, NULL, err));
    }
    return PENNON_OK;
}

static pennon_status check_run_children(const struct array_view *v, int64_t start, int64_t n, const struct null_chain *chain,
                                        pennon_error *err)
{
    struct array_view ends;
    struct array_view values;
    TRY_RETURN(array_view_child(v, 0, &ends, err));
    TRY_RETURN(array_view_child(v, 1, &values, err));
    for (int64_t i = start; i < start + n; i++) {
        if ((chain_word(chain, i, 1) & 1) == 0) continue;
        TRY_RETURN(check_rows(&values, run_end_find(&ends, v->offset + i), 1, NULL, err));
    }
    return PENNON_OK;
}

/* Rows [start, start + n) of a field below the ancestors `up`. */
static pennon_status check_rows(const struct array_view *v, int64_t start, int64_t n, const struct null_chain *up,
                                pennon_error *err)
{
    struct null_chain chain = {up, v};
    if (!arrow_schema_nullable(v->schema) && v->null_count != 0) {
        for (int64_t at = start; at < start + n; at += 64) {
            uint64_t take = min_u64(64, (uint64_t)(start + n - at));
            uint64_t wrong = chain_word(up, at, take) & ~valid_word(v, at, take);
            if (wrong != 0)
                return bad_row(v->schema, err, "a null in a field that is not nullable", at + (int64_t)__builtin_ctzll(wrong));
        }
    }
    if (v->array->n_children == 0 || n == 0) return PENNON_OK;
    switch (v->type.layout) {
    case LAYOUT_STRUCT:
        for (int64_t i = 0; i < v->array->n_children; i++) {
            struct array_view child;
            TRY_RETURN(array_view_child(v, i, &child, err));
            TRY_RETURN(check_rows(&child, start, n, &chain, err));
        }
        return PENNON_OK;
    case LAYOUT_SPARSE_UNION:
    case LAYOUT_DENSE_UNION: return check_union_children(v, start, n, &chain, err);
    case LAYOUT_RUN_END: return check_run_children(v, start, n, &chain, err);
    default: return check_list_children(v, start, n, &chain, err);
    }
}

pennon_status array_check_nullable(const struct ArrowSchema *schema, const struct ArrowArray *array, pennon_error *err)
{
    struct array_view v;
    if (!has_suspects(schema, array)) return PENNON_OK;
    TRY_RETURN(array_view_init(&v, schema, array, err));
    return check_rows(&v, 0, v.length, NULL, err);
}
