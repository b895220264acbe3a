/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The table of functions, calls, and what the families share.
 *
 * Each family has a table of its own; names are looked up by going through them, which happens once per call in a text. The list of all names
 * (for completion) is made by hand below, ascending, and a test holds it against the tables.
 *
 * A call: validity of strict functions is the AND of the arguments' validities, made word by word before the function runs. Where every
 * argument is a constant one row is computed and the result is a constant.
 * Source: spec expressions 7; node.h. */
#include "expr/functions.h"

static const struct function *const families[] = {functions_text,   functions_regex,  functions_math,
                                                  functions_date,   functions_choice, functions_list,
                                                  functions_struct, functions_json,   functions_hash};

const struct function *function_find(struct bytes name)
{
    for (size_t f = 0; f < ARRAY_LEN(families); f++) {
        for (const struct function *fn = families[f]; fn->name != NULL; fn++) {
            if (bytes_equal(name, bytes_str(fn->name))) return fn;
        }
    }
    return NULL;
}

/* Every name that can be called, aliases too; those that are refused by name are not here. */
/* clang-format off */
static const char *const function_names[] = {
    "abs", "acos", "acosh", "array_any_value", "array_append", "array_cat", "array_concat", "array_contains", "array_dims",
    "array_distance", "array_distinct", "array_element", "array_empty", "array_except", "array_extract", "array_has",
    "array_has_all", "array_has_any", "array_indexof", "array_intersect", "array_join", "array_length", "array_max", "array_min",
    "array_ndims", "array_pop_back", "array_pop_front", "array_position", "array_positions", "array_prepend", "array_push_back",
    "array_push_front", "array_remove", "array_remove_all", "array_remove_n", "array_repeat", "array_replace",
    "array_replace_all", "array_replace_n", "array_resize", "array_reverse", "array_slice", "array_sort", "array_to_string",
    "array_union", "arrays_overlap", "arrow_cast", "arrow_typeof", "ascii", "asin", "asinh", "atan", "atan2", "atanh",
    "bit_length", "btrim", "cardinality", "cbrt", "ceil", "char_length", "character_length", "chr", "coalesce", "concat",
    "concat_ws", "contains", "contains_tokens", "cos", "cosh", "cot", "current_date", "current_time", "current_timestamp",
    "date_bin", "date_format", "date_part", "date_trunc", "datepart", "datetrunc", "decode", "degrees", "digest", "empty",
    "encode", "ends_with", "exp", "factorial", "find_in_set", "flatten", "floor", "from_unixtime", "gcd", "generate_series",
    "get_field", "greatest", "ifnull", "initcap", "instr", "is_valid", "isnan", "iszero", "json_array_contains",
    "json_array_length", "json_exists", "json_extract", "json_get", "json_get_bool", "json_get_float", "json_get_int",
    "json_get_string", "lcm", "least", "left", "length", "levenshtein", "list_any_value", "list_append", "list_cat",
    "list_concat", "list_contains", "list_dims", "list_distance", "list_distinct", "list_element", "list_empty", "list_except",
    "list_extract", "list_has", "list_has_all", "list_has_any", "list_indexof", "list_intersect", "list_join", "list_length",
    "list_max", "list_ndims", "list_pop_back", "list_pop_front", "list_position", "list_positions", "list_prepend",
    "list_push_back", "list_push_front", "list_remove", "list_remove_all", "list_remove_n", "list_repeat", "list_replace",
    "list_replace_all", "list_replace_n", "list_resize", "list_reverse", "list_slice", "list_sort", "list_to_string",
    "list_union", "ln", "log", "log10", "log2", "lower", "lpad", "ltrim", "make_array", "make_date", "make_list", "make_time",
    "md5", "named_struct", "nanvl", "now", "nullif", "nvl", "nvl2", "octet_length", "overlay", "pi", "position", "pow", "power",
    "radians", "random", "range", "regexp_count", "regexp_instr", "regexp_like", "regexp_match", "regexp_replace", "repeat",
    "replace", "reverse", "right", "round", "row", "rpad", "rtrim", "sha224", "sha256", "sha384", "sha512", "signum", "sin",
    "sinh", "split_part", "sqrt", "starts_with", "string_to_array", "string_to_list", "strpos", "struct", "substr",
    "substr_index", "substring", "substring_index", "tan", "tanh", "to_char", "to_date", "to_hex", "to_local_time", "to_time",
    "to_timestamp", "to_timestamp_micros", "to_timestamp_millis", "to_timestamp_nanos", "to_timestamp_seconds", "to_unixtime",
    "today", "translate", "trim", "trunc", "upper", "uuid", "version",
    NULL,
};
/* clang-format on */

const char *const *expr_function_names(void) { return function_names; }

/* -------------------------------------------------------------------------------------------------------------- calls */

/* AND of the arguments' validities; NULL = no row is null. */
static pennon_status strict_validity(const struct datum *args, size_t n, int64_t rows, struct arena *scratch, uint64_t **out,
                                     pennon_error *err)
{
    uint64_t *all = NULL;
    for (size_t i = 0; i < n; i++) {
        uint64_t *one = NULL;
        TRY_RETURN(datum_valid(scratch, &args[i], rows, &one, err));
        TRY_RETURN(words_both(scratch, all, one, rows, &all, err));
    }
    *out = all;
    return PENNON_OK;
}

pennon_status function_call(const struct call *c, const struct node *n, const struct datum *args, int64_t rows,
                            struct arena *scratch, struct datum *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const bool strict = (n->fn->flags & FUNCTION_STRICT) != 0;
    bool scalar = (n->fn->flags & FUNCTION_VOLATILE) == 0;
    struct ArrowArray array = {0};
    ASSERT(n->kind == NODE_CALL && n->fn != NULL);
    for (size_t i = 0; i < n->n; i++) scalar = scalar && args[i].scalar;
    if (scalar) rows = 1;
    struct run_call r = {.c = c, .node = n, .n = n->n, .args = args, .rows = rows, .scratch = scratch, .out = &array};
    TRY(array_new_for(&array, n->schema, c->mem, err));
    array.length = rows;
    array.null_count = 0;
    uint64_t *valid = NULL;
    if (strict) TRY(strict_validity(args, n->n, rows, scratch, &valid, err));
    if (n->type.id == ARROW_NULL || (rows > 0 && valid != NULL && words_none(valid, rows))) {
        /* Nothing to compute. */
        array_release(&array);
        TRY(array_nulls(n->schema, rows, c->mem, &array, err));
        goto made;
    }
    if (strict) {
        TRY(array_give_valid(&array, valid, rows, err));
        r.valid = array.buffers[0];
    }
    TRY(n->fn->run(&r, err));
made:
    ASSERT(array.length == rows);
    TRY(datum_own(out, n->schema, &array, scalar, scratch, err));
done:
    array_release(&array);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------ binding */

pennon_status bind_refuse(const struct bind_call *b, size_t i, const char *wanted, pennon_error *err)
{
    struct buf text;
    buf_init(&text, b->e->mem, 4096);
    if (arrow_type_text(b->types[i], &text, err) == PENNON_OK) {
        error_fill(err, PENNON_INVALID_ARGUMENT, "%s: argument %zu is %.*s, not %s", b->fn->name, i + 1, (int)text.size,
                   (const char *)text.data, wanted);
        (void)error_kind(err, "TypeMismatch");
    }
    buf_free(&text);
    return err->code;
}

pennon_status bind_as(struct bind_call *b, size_t i, const char *format, pennon_error *err)
{
    return expr_simple_type(b->e, format, &b->types[i], err);
}

pennon_status bind_result(struct bind_call *b, const char *format, pennon_error *err)
{
    return expr_simple_type(b->e, format, &b->result, err);
}

pennon_status bind_type(const struct bind_call *b, size_t i, struct arrow_type *out, pennon_error *err)
{
    ASSERT(i < b->n);
    TRY_RETURN(arrow_type_of(b->types[i], out, err));
    return out->id == ARROW_DICTIONARY ? arrow_type_of(b->types[i]->dictionary, out, err) : PENNON_OK;
}

static bool is_printable(const struct arrow_type *t)
{
    switch (t->layout) {
    case LAYOUT_NULL:
    case LAYOUT_BITS:
    case LAYOUT_VAR32:
    case LAYOUT_VAR64:
    case LAYOUT_VIEW: return true;
    case LAYOUT_FIXED: return t->id != ARROW_FIXED_SIZE_BINARY;
    default: return false;
    }
}

pennon_status bind_text(struct bind_call *b, size_t i, bool any, pennon_error *err)
{
    struct arrow_type t;
    TRY_RETURN(bind_type(b, i, &t, err));
    if (!arrow_id_is_text(t.id) && t.id != ARROW_NULL && !(any && is_printable(&t))) {
        return bind_refuse(b, i, "a text", err);
    }
    return bind_as(b, i, t.id == ARROW_LARGE_UTF8 ? "U" : "u", err);
}

pennon_status bind_integer(struct bind_call *b, size_t i, pennon_error *err)
{
    struct arrow_type t;
    TRY_RETURN(bind_type(b, i, &t, err));
    if (!arrow_id_is_integer(t.id) && t.id != ARROW_NULL) return bind_refuse(b, i, "an integer", err);
    return bind_as(b, i, "l", err);
}

pennon_status bind_not_supported(struct bind_call *b, pennon_error *err)
{
    const bool geo = strncmp(b->fn->name, "st_", 3) == 0;
    return error_set(err, PENNON_NOT_SUPPORTED, geo ? "function '%s' requires the `geo` feature" : "function '%s' is not supported",
                     b->fn->name);
}

bool bind_is_large(const struct bind_call *b, size_t i) { return i < b->n && strcmp(b->types[i]->format, "U") == 0; }

bool bind_constant_null(const struct bind_call *b, size_t i)
{
    return i < b->n && b->constants[i] != NULL && array_view_is_null(b->constants[i], 0);
}

bool bind_constant_text(const struct bind_call *b, size_t i, struct bytes *out)
{
    if (i >= b->n || b->constants[i] == NULL || !arrow_id_is_text(b->constants[i]->type.id)) return false;
    if (array_view_is_null(b->constants[i], 0)) return false;
    *out = array_view_bytes(b->constants[i], 0);
    return true;
}

/* ------------------------------------------------------------------------------------------------------------ results */

pennon_status run_fault(const struct run_call *r, pennon_error *err, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)error_set_v(err, PENNON_INVALID_ARGUMENT, fmt, args);
    va_end(args);
    (void)error_prefix(err, "%s", r->node->fn->name);
    return error_kind(err, "FunctionFailed");
}

pennon_status run_set_null(struct run_call *r, int64_t row, pennon_error *err)
{
    uint8_t *bits = (uint8_t *)(uintptr_t)r->out->buffers[0];
    if (bits == NULL) {
        const size_t size = (size_t)bitmap_bytes((uint64_t)r->rows);
        bits = array_make_buffer(r->out, 0, size, err);
        if (bits == NULL) return err->code;
        memset(bits, 0, size);
        bitmap_fill(bits, 0, (uint64_t)r->rows, true);
    }
    if (bit_get(bits, (uint64_t)row)) {
        bit_clear(bits, (uint64_t)row);
        r->out->null_count++;
    }
    return PENNON_OK;
}

pennon_status run_values(struct run_call *r, size_t width, void *out, pennon_error *err)
{
    void *p = array_make_buffer(r->out, 1, (size_t)r->rows * width, err);
    if (p == NULL) return err->code;
    memset(p, 0, (size_t)r->rows * width);
    memcpy(out, &p, sizeof p);
    return PENNON_OK;
}

pennon_status run_bits(struct run_call *r, uint8_t **out, pennon_error *err)
{
    const size_t size = (size_t)bitmap_bytes((uint64_t)r->rows);
    *out = array_make_buffer(r->out, 1, size, err);
    if (*out == NULL) return err->code;
    memset(*out, 0, size);
    return PENNON_OK;
}

struct ArrowArray datum_rows(const struct datum *d)
{
    struct ArrowArray rows = *d->view.array;
    rows.offset = d->view.offset;
    rows.length = d->view.length;
    rows.null_count = -1;
    return rows;
}

/* Values of a fixed width are copied one by one. */
static pennon_status choose_fixed(struct run_call *r, const uint8_t *which, pennon_error *err)
{
    const size_t width = arrow_type_width(&r->node->type);
    uint8_t *to = NULL;
    TRY_RETURN(run_values(r, width, &to, err));
    for (int64_t i = 0; i < r->rows; i++) {
        if (which[i] == FROM_NONE || datum_is_null(&r->args[which[i]], i)) {
            TRY_RETURN(run_set_null(r, i, err));
            continue;
        }
        const struct datum *d = &r->args[which[i]];
        memcpy(to + (size_t)i * width, array_view_fixed(&d->view, datum_row(d, i)), width);
    }
    return PENNON_OK;
}

pennon_status run_choose(struct run_call *r, const uint8_t *which, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray all = {0}, *rows;
    const struct ArrowArray **list;
    uint64_t *indices, *starts, total = 0;
    if (r->node->type.layout == LAYOUT_FIXED && r->node->type.id != ARROW_DICTIONARY) return choose_fixed(r, which, err);
    TRY_NEW(rows, arena_calloc(r->scratch, r->n, sizeof *rows, err));
    TRY_NEW(list, arena_calloc(r->scratch, r->n, sizeof *list, err));
    TRY_NEW(starts, arena_calloc(r->scratch, r->n, sizeof *starts, err));
    TRY_NEW(indices, arena_calloc(r->scratch, (size_t)r->rows + 1, sizeof *indices, err));
    for (size_t k = 0; k < r->n; k++) {
        rows[k] = datum_rows(&r->args[k]);
        list[k] = &rows[k];
        starts[k] = total;
        total += (uint64_t)rows[k].length;
    }
    for (int64_t i = 0; i < r->rows; i++) {
        indices[i] = which[i] == FROM_NONE ? ARRAY_TAKE_NULL : starts[which[i]] + (uint64_t)datum_row(&r->args[which[i]], i);
    }
    TRY(array_concat(r->node->schema, r->n, list, r->c->mem, &all, err));
    array_release(r->out);
    TRY(array_take(r->node->schema, &all, indices, (size_t)r->rows, r->c->mem, r->out, err));
done:
    array_release(&all);
    return st;
}

pennon_status text_out_begin_at(struct text_out *o, struct run_call *r, struct ArrowArray *array, bool large, int64_t rows,
                                pennon_error *err)
{
    o->run = r;
    o->array = array;
    o->rows = 0;
    o->large = large;
    buf_init(&o->bytes, r->c->mem, BUF_NO_LIMIT);
    o->offsets = array_make_buffer(array, 1, ((size_t)rows + 1) * (large ? 8 : 4), err);
    if (o->offsets == NULL) return err->code;
    memset(o->offsets, 0, large ? 8 : 4);
    return PENNON_OK;
}

pennon_status text_out_begin(struct text_out *o, struct run_call *r, pennon_error *err)
{
    return text_out_begin_at(o, r, r->out, r->node->type.layout == LAYOUT_VAR64, r->rows, err);
}

uint8_t *text_out_room(struct text_out *o, size_t n, pennon_error *err)
{
    if (!o->large && n > INT32_MAX - o->bytes.size) {
        error_fill(err, PENNON_INVALID_ARGUMENT, "%s: the texts of a batch are larger than 32-bit offsets allow",
                   o->run->node->fn->name);
        (void)error_kind(err, "OffsetOverflow");
        return NULL;
    }
    if (n > o->bytes.cap - o->bytes.size || o->bytes.data == NULL) {
        if (buf_grow(&o->bytes, n + 1, err) != PENNON_OK) return NULL;
    }
    return o->bytes.data + o->bytes.size;
}

pennon_status text_out_put(struct text_out *o, struct bytes text, pennon_error *err)
{
    if (text.size == 0) return PENNON_OK;
    uint8_t *to = text_out_room(o, text.size, err);
    if (to == NULL) return err->code;
    memcpy(to, text.data, text.size);
    o->bytes.size += text.size;
    return PENNON_OK;
}

void text_out_end_row(struct text_out *o)
{
    o->rows++;
    if (o->large) {
        ((int64_t *)o->offsets)[o->rows] = (int64_t)o->bytes.size;
    } else {
        ASSERT(o->bytes.size <= INT32_MAX);
        ((int32_t *)o->offsets)[o->rows] = (int32_t)o->bytes.size;
    }
}

void text_out_finish(struct text_out *o) { array_give_buf(o->array, 2, &o->bytes); }

void text_out_abandon(struct text_out *o)
{
    if (o->run != NULL) buf_free(&o->bytes);
}

/* ------------------------------------------------------------------------------------------------- functions of one row */

static char letter_of(const char *args, size_t i)
{
    size_t n = strlen(args);
    return args[i < n ? i : n - 1];
}

static pennon_status bind_bytes(struct bind_call *b, size_t i, pennon_error *err)
{
    struct arrow_type t;
    TRY_RETURN(bind_type(b, i, &t, err));
    switch (t.id) {
    case ARROW_LARGE_BINARY: return bind_as(b, i, "Z", err);
    case ARROW_BINARY:
    case ARROW_BINARY_VIEW:
    case ARROW_FIXED_SIZE_BINARY: return bind_as(b, i, "z", err);
    default: return bind_text(b, i, false, err);
    }
}

/* An integer as 64 bits, uint64 without a change of sign. */
static pennon_status bind_bits(struct bind_call *b, size_t i, pennon_error *err)
{
    struct arrow_type t;
    TRY_RETURN(bind_type(b, i, &t, err));
    return t.id == ARROW_UINT64 ? bind_as(b, i, "L", err) : bind_integer(b, i, err);
}

pennon_status bind_rows(struct bind_call *b, const struct row_function *f, pennon_error *err)
{
    ASSERT(b->n <= ROW_MAX_ARGS);
    for (size_t i = 0; i < b->n; i++) {
        switch (letter_of(f->args, i)) {
        case 't': TRY_RETURN(bind_text(b, i, false, err)); break;
        case 'a': TRY_RETURN(bind_text(b, i, true, err)); break;
        case 'b': TRY_RETURN(bind_bytes(b, i, err)); break;
        case 'u': TRY_RETURN(bind_bits(b, i, err)); break;
        default: TRY_RETURN(bind_integer(b, i, err)); break;
        }
    }
    const bool large = b->n > 0 && (b->types[0]->format[0] == 'U' || b->types[0]->format[0] == 'Z');
    switch (f->result) {
    case 's': return bind_result(b, large ? "U" : "u", err);
    case 'S': return bind_result(b, "u", err);
    case 'B': return bind_result(b, "z", err);
    case 'x': return bind_result(b, large ? "Z" : "z", err);
    case 'i': return bind_result(b, large ? "l" : "i", err);
    case 'I': return bind_result(b, "i", err);
    case 'L': return bind_result(b, "l", err);
    default: return bind_result(b, "b", err);
    }
}

/* How the arguments of a call are read. */
struct row_source {
    struct text_rows texts;
    const uint8_t *integers; /* int64, of row 0 */
};

static struct row_source source_of(const struct datum *d)
{
    struct row_source s = {{0}, NULL};
    if (d->view.type.layout == LAYOUT_FIXED && d->view.type.id != ARROW_FIXED_SIZE_BINARY) {
        ASSERT(arrow_type_width(&d->view.type) == sizeof(int64_t));
        s.integers = d->view.data + (size_t)d->view.offset * sizeof(int64_t);
    } else {
        s.texts = text_rows_of(&d->view);
    }
    return s;
}

static void load_row(struct row *row, const struct row_source *sources, bool nulls, int64_t i)
{
    for (size_t k = 0; k < row->n; k++) {
        const struct datum *d = &row->run->args[k];
        const int64_t at = datum_row(d, i);
        row->null[k] = nulls && array_view_is_null(&d->view, at);
        if (row->null[k]) {
            row->text[k] = bytes_of(NULL, 0);
            row->integer[k] = 0;
        } else if (sources[k].integers != NULL) {
            memcpy(&row->integer[k], sources[k].integers + (size_t)at * sizeof(int64_t), sizeof(int64_t));
        } else {
            row->text[k] = text_row(&sources[k].texts, at);
        }
    }
}

/* Where results that are no texts go. */
union row_values {
    int32_t *i32;
    int64_t *i64;
    uint8_t *bits;
};

static void store_row(const struct row *row, union row_values to, enum arrow_id id, int64_t i)
{
    if (id == ARROW_INT32) {
        to.i32[i] = (int32_t)row->result;
    } else if (id == ARROW_INT64) {
        to.i64[i] = row->result;
    } else if (row->result != 0) {
        bit_set(to.bits, (uint64_t)i);
    }
}

pennon_status run_rows(struct run_call *r, const struct row_function *f, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct row row = {.run = r, .n = r->n};
    struct row_source sources[ROW_MAX_ARGS];
    union row_values to = {NULL};
    const enum arrow_id id = r->node->type.id;
    const bool text = arrow_id_is_variable(id), nulls = (r->node->fn->flags & FUNCTION_STRICT) == 0;
    buf_init(&row.scratch, r->c->mem, BUF_NO_LIMIT);
    buf_init(&row.scratch2, r->c->mem, BUF_NO_LIMIT);
    for (size_t k = 0; k < r->n; k++) sources[k] = source_of(&r->args[k]);
    if (text) {
        TRY(text_out_begin(&row.out, r, err));
    } else if (id == ARROW_BOOL) {
        TRY(run_bits(r, &to.bits, err));
    } else {
        TRY(run_values(r, arrow_type_width(&r->node->type), &to, err));
    }
    for (int64_t i = 0; i < r->rows; i++) {
        if (i % ROWS_PER_CHECK == 0) TRY(call_check(r->c, err));
        if (run_valid(r, i)) {
            load_row(&row, sources, nulls, i);
            row.is_null = false;
            TRY(f->fn(&row, err));
            if (row.is_null) {
                TRY(run_set_null(r, i, err));
            } else if (!text) {
                store_row(&row, to, id, i);
            }
        }
        if (text) text_out_end_row(&row.out);
    }
    if (text) text_out_finish(&row.out);
done:
    text_out_abandon(&row.out);
    buf_free(&row.scratch);
    buf_free(&row.scratch2);
    return st;
}
