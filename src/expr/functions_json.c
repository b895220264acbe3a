/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Functions of JSON values, which are JSONB in large binary columns.
 *
 * Values are walked through in place. A constant path is parsed once per evaluation, others as they come. Several matches become a JSON array;
 * none is a null. Conversions are official's: strings that read as numbers are numbers, fractions round half away from zero, a JSON null is a
 * null, what cannot be converted is an error. Source: spec expressions 7; edges asked of official. */
#include <math.h>

#include "expr/functions.h"
#include "expr/json_path.h"

enum json_id { JSON_EXTRACT, JSON_EXISTS, JSON_CONTAINS, JSON_LENGTH, JSON_GET, JSON_STRING, JSON_INT, JSON_FLOAT, JSON_BOOL };

struct json_run {
    struct run_call *r;
    struct text_rows values, texts, wanted;
    struct json_path path;
    struct buf path_text; /* of `path` */
    bool has_path;
    struct buf matches, scratch, text;
};

static void json_close(struct json_run *j)
{
    json_path_free(&j->path);
    if (j->r == NULL) return;
    buf_free(&j->path_text);
    buf_free(&j->matches);
    buf_free(&j->scratch);
    buf_free(&j->text);
}

static void json_begin(struct json_run *j, struct run_call *r)
{
    memset(j, 0, sizeof *j);
    j->r = r;
    j->values = text_rows_of(&r->args[0].view);
    j->texts = text_rows_of(&r->args[1].view);
    if (r->n > 2) j->wanted = text_rows_of(&r->args[2].view);
    buf_init(&j->path_text, r->c->mem, BUF_NO_LIMIT);
    buf_init(&j->matches, r->c->mem, BUF_NO_LIMIT);
    buf_init(&j->scratch, r->c->mem, BUF_NO_LIMIT);
    buf_init(&j->text, r->c->mem, BUF_NO_LIMIT);
}

static pennon_status open_row(const struct json_run *j, int64_t row, struct jsonb_value *out, pennon_error *err)
{
    if (row % 1024 == 0) TRY_RETURN(call_check(j->r->c, err));
    return jsonb_open(text_row(&j->values, datum_row(&j->r->args[0], row)), out, err);
}

/* The path of the row; the one of the row before is kept where it is the same. */
static pennon_status load_path(struct json_run *j, int64_t row, pennon_error *err)
{
    const struct bytes text = text_row(&j->texts, datum_row(&j->r->args[1], row));
    if (j->has_path && bytes_equal(text, bytes_of(j->path_text.data, j->path_text.size))) return PENNON_OK;
    j->has_path = false;
    json_path_free(&j->path);
    TRY_RETURN(json_path_parse(text, j->r->c->mem, &j->path, err));
    j->path_text.size = 0;
    TRY_RETURN(buf_append(&j->path_text, text.data, text.size, err));
    j->has_path = true;
    return PENNON_OK;
}

/* Matches of the row's path. */
static pennon_status find_row(struct json_run *j, int64_t row, const struct jsonb_value **matches, size_t *n, pennon_error *err)
{
    struct jsonb_value root;
    TRY_RETURN(open_row(j, row, &root, err));
    TRY_RETURN(load_path(j, row, err));
    TRY_RETURN(json_path_find(&j->path, &root, &j->matches, &j->scratch, err));
    *matches = (const struct jsonb_value *)j->matches.data;
    *n = j->matches.size / sizeof **matches;
    return PENNON_OK;
}

/* JSON text of a value, appended to j->text. */
static pennon_status put_text(struct json_run *j, const struct jsonb_value *v, pennon_error *err)
{
    j->scratch.size = 0;
    TRY_RETURN(jsonb_put(v, &j->scratch, err));
    return jsonb_to_text(bytes_of(j->scratch.data, j->scratch.size), &j->text, err);
}

/* ---- json_extract ---- */

static pennon_status extract_row(struct json_run *j, int64_t row, struct text_out *out, bool *is_null, pennon_error *err)
{
    const struct jsonb_value *matches;
    size_t n;
    TRY_RETURN(find_row(j, row, &matches, &n, err));
    *is_null = n == 0;
    j->text.size = 0;
    if (n > 1) TRY_RETURN(buf_append_byte(&j->text, '[', err));
    for (size_t i = 0; i < n; i++) {
        if (i > 0) TRY_RETURN(buf_append_byte(&j->text, ',', err));
        TRY_RETURN(put_text(j, &matches[i], err));
    }
    if (n > 1) TRY_RETURN(buf_append_byte(&j->text, ']', err));
    return text_out_put(out, bytes_of(j->text.data, j->text.size), err);
}

/* ---- json_get and its conversions ---- */

/* Digits, perhaps with a '+', as a place. */
static bool read_place(struct bytes key, size_t *out)
{
    size_t i = key.size > 1 && key.data[0] == '+';
    *out = 0;
    if (i == key.size || key.size > 12) return false;
    for (; i < key.size; i++) {
        if (key.data[i] < '0' || key.data[i] > '9') return false;
        *out = *out * 10 + (size_t)(key.data[i] - '0');
    }
    return true;
}

static pennon_status get_row(struct json_run *j, int64_t row, struct jsonb_value *out, bool *found, pennon_error *err)
{
    struct jsonb_value root;
    size_t at;
    const struct bytes key = text_row(&j->texts, datum_row(&j->r->args[1], row));
    TRY_RETURN(open_row(j, row, &root, err));
    *found = false;
    if (root.kind == JSONB_OBJECT) return jsonb_field(&root, key, out, found, err);
    if (root.kind == JSONB_ARRAY && read_place(key, &at)) return jsonb_item(&root, at, out, found, err);
    return PENNON_OK;
}

static pennon_status get_text_row(struct json_run *j, int64_t row, struct text_out *out, bool *is_null, pennon_error *err)
{
    struct jsonb_value v;
    bool found;
    TRY_RETURN(get_row(j, row, &v, &found, err));
    *is_null = !found;
    if (!found) return PENNON_OK;
    j->text.size = 0;
    if (j->r->node->fn->option == JSON_GET) {
        TRY_RETURN(jsonb_put(&v, &j->text, err));
    } else if (v.kind == JSONB_NULL) {
        *is_null = true;
    } else if (v.kind == JSONB_STRING) {
        if (!utf8_valid(v.bytes.data, v.bytes.size)) return error_set(err, PENNON_CORRUPT, "jsonb: a string is no UTF-8");
        return text_out_put(out, v.bytes, err);
    } else if (v.kind == JSONB_OBJECT || v.kind == JSONB_ARRAY) {
        return run_fault(j->r, err, "failed to convert an object or array to string");
    } else {
        TRY_RETURN(put_text(j, &v, err));
    }
    return text_out_put(out, bytes_of(j->text.data, j->text.size), err);
}

/* The number of a value: an exact integer where it is one, else a float. False: it is none. */
struct json_number {
    bool integer;
    int64_t i64;
    double f64;
};

static bool text_number(struct bytes text, struct json_number *out)
{
    const bool negative = text.size > 0 && text.data[0] == '-';
    uint64_t v = 0;
    size_t i = negative || (text.size > 0 && text.data[0] == '+');
    out->integer = i < text.size;
    for (; i < text.size && out->integer; i++) {
        const uint8_t c = text.data[i];
        out->integer = c >= '0' && c <= '9' && !mul_overflows(v, 10, &v) && !add_overflows(v, (uint64_t)(c - '0'), &v);
    }
    out->integer = out->integer && v <= (uint64_t)INT64_MAX + negative;
    if (out->integer) out->i64 = (int64_t)(negative ? 0 - v : v);
    if (real_parse(text, &out->f64)) return true;
    if (bytes_equal(text, bytes_str("inf")) || bytes_equal(text, bytes_str("infinity")))
        out->f64 = INFINITY;
    else if (bytes_equal(text, bytes_str("-inf")))
        out->f64 = -INFINITY;
    else if (bytes_equal(text, bytes_str("NaN")) || bytes_equal(text, bytes_str("nan")))
        out->f64 = NAN;
    else
        return false;
    return true;
}

static pennon_status number_of(struct json_run *j, const struct jsonb_value *v, struct json_number *out, bool *ok,
                               pennon_error *err)
{
    *ok = true;
    memset(out, 0, sizeof *out);
    switch (v->kind) {
    case JSONB_TRUE:
    case JSONB_FALSE:
        out->integer = true;
        out->i64 = v->kind == JSONB_TRUE;
        out->f64 = (double)out->i64;
        return PENNON_OK;
    case JSONB_STRING: *ok = text_number(v->bytes, out); return PENNON_OK;
    case JSONB_NUMBER:
        j->text.size = 0;
        TRY_RETURN(put_text(j, v, err));
        *ok = text_number(bytes_of(j->text.data, j->text.size), out);
        return PENNON_OK;
    default: *ok = false; return PENNON_OK;
    }
}

static bool is_one_of(struct bytes text, const char *const words[], size_t n)
{
    for (size_t k = 0; k < n; k++) {
        size_t i = 0;
        if (text.size != strlen(words[k])) continue;
        while (i < text.size && (text.data[i] | 0x20) == (uint8_t)words[k][i]) i++;
        if (i == text.size) return true;
    }
    return false;
}

static bool bool_of(const struct jsonb_value *v, bool *out)
{
    static const char *const yes[] = {"true", "t", "yes", "y", "on"}, *const no[] = {"false", "f", "no", "n", "off"};
    *out = v->kind == JSONB_TRUE || (v->kind == JSONB_STRING && is_one_of(v->bytes, yes, ARRAY_LEN(yes)));
    return *out || v->kind == JSONB_FALSE || (v->kind == JSONB_STRING && is_one_of(v->bytes, no, ARRAY_LEN(no)));
}

/* A number or boolean of the row, as bits of int64. */
static pennon_status get_number_row(struct json_run *j, int64_t row, int64_t *out, bool *is_null, pennon_error *err)
{
    const int id = j->r->node->fn->option;
    struct jsonb_value v;
    struct json_number n;
    bool found, ok;
    TRY_RETURN(get_row(j, row, &v, &found, err));
    *is_null = !found || v.kind == JSONB_NULL;
    if (*is_null) return PENNON_OK;
    if (id == JSON_BOOL) {
        bool value;
        if (!bool_of(&v, &value)) return run_fault(j->r, err, "failed to convert to boolean");
        *out = value;
        return PENNON_OK;
    }
    TRY_RETURN(number_of(j, &v, &n, &ok, err));
    if (id == JSON_FLOAT) {
        if (!ok) return run_fault(j->r, err, "failed to convert to float");
        memcpy(out, &n.f64, sizeof *out);
        return PENNON_OK;
    }
    const double rounded = ok && !n.integer ? round(n.f64) : 0;
    if (!ok || !(rounded >= -0x1p63 && rounded < 0x1p63)) return run_fault(j->r, err, "failed to convert to integer");
    *out = n.integer ? n.i64 : (int64_t)rounded;
    return PENNON_OK;
}

/* ---- arrays ---- */

/* Is the value written like this, as JSON or as the content of a string? */
static pennon_status is_written(struct json_run *j, const struct jsonb_value *v, struct bytes text, bool *out, pennon_error *err)
{
    *out = v->kind == JSONB_STRING && bytes_equal(v->bytes, text);
    if (*out) return PENNON_OK;
    j->text.size = 0;
    TRY_RETURN(put_text(j, v, err));
    *out = bytes_equal(bytes_of(j->text.data, j->text.size), text);
    return PENNON_OK;
}

static pennon_status contains_row(struct json_run *j, int64_t row, bool *out, pennon_error *err)
{
    const struct bytes wanted = text_row(&j->wanted, datum_row(&j->r->args[2], row));
    const struct jsonb_value *matches;
    size_t n;
    *out = false;
    TRY_RETURN(find_row(j, row, &matches, &n, err));
    for (size_t i = 0; i < n && !*out; i++) {
        struct jsonb_walk w;
        if (matches[i].kind != JSONB_ARRAY) continue;
        TRY_RETURN(jsonb_walk_begin(&matches[i], &w, err));
        while (!*out) {
            struct bytes key;
            struct jsonb_value item;
            bool found;
            TRY_RETURN(jsonb_walk_next(&w, &key, &item, &found, err));
            if (!found) break;
            TRY_RETURN(is_written(j, &item, wanted, out, err));
        }
    }
    return PENNON_OK;
}

static pennon_status question_row(struct json_run *j, int64_t row, int64_t *out, bool *is_null, pennon_error *err)
{
    const struct jsonb_value *matches;
    bool has;
    size_t n;
    if (j->r->node->fn->option == JSON_CONTAINS) {
        TRY_RETURN(contains_row(j, row, &has, err));
        *out = has;
        return PENNON_OK;
    }
    TRY_RETURN(find_row(j, row, &matches, &n, err));
    if (j->r->node->fn->option == JSON_EXISTS) {
        *out = n > 0;
    } else {
        *is_null = n == 0;
        *out = n > 0 && matches[0].kind == JSONB_ARRAY ? (int64_t)jsonb_count(&matches[0]) : 0;
    }
    return PENNON_OK;
}

/* ---- running ---- */

static pennon_status run_texts(struct run_call *r, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct json_run j;
    struct text_out out = {0};
    json_begin(&j, r);
    TRY(text_out_begin(&out, r, err));
    for (int64_t i = 0; i < r->rows; i++) {
        bool is_null = false;
        if (run_valid(r, i)) {
            TRY(r->node->fn->option == JSON_EXTRACT ? extract_row(&j, i, &out, &is_null, err)
                                                    : get_text_row(&j, i, &out, &is_null, err));
            if (is_null) TRY(run_set_null(r, i, err));
        }
        text_out_end_row(&out);
    }
    text_out_finish(&out);
done:
    text_out_abandon(&out);
    json_close(&j);
    return st;
}

static pennon_status run_numbers(struct run_call *r, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct json_run j;
    uint8_t *bits = NULL;
    int64_t *to = NULL;
    const bool get = r->node->fn->option >= JSON_GET;
    json_begin(&j, r);
    if (r->node->type.id == ARROW_BOOL) {
        TRY(run_bits(r, &bits, err));
    } else {
        TRY(run_values(r, sizeof *to, &to, err));
    }
    for (int64_t i = 0; i < r->rows; i++) {
        int64_t v = 0;
        bool is_null = false;
        if (!run_valid(r, i)) continue;
        TRY(get ? get_number_row(&j, i, &v, &is_null, err) : question_row(&j, i, &v, &is_null, err));
        if (is_null) {
            TRY(run_set_null(r, i, err));
        } else if (to != NULL) {
            to[i] = v;
        } else if (v != 0) {
            bit_set(bits, (uint64_t)i);
        }
    }
done:
    json_close(&j);
    return st;
}

static pennon_status bind_json(struct bind_call *b, pennon_error *err)
{
    static const char *const results[] = {"u", "b", "b", "l", "Z", "u", "l", "g", "b"};
    struct arrow_type t;
    struct bytes text;
    TRY_RETURN(bind_type(b, 0, &t, err));
    if (t.id != ARROW_LARGE_BINARY && t.id != ARROW_NULL) return bind_refuse(b, 0, "a JSON column (large binary)", err);
    TRY_RETURN(bind_as(b, 0, "Z", err));
    for (size_t i = 1; i < b->n; i++) TRY_RETURN(bind_text(b, i, true, err));
    if (b->fn->option < JSON_GET && bind_constant_text(b, 1, &text)) {
        /* A wrong path is told before anything is read. */
        struct json_path path;
        const pennon_status st = json_path_parse(text, b->e->mem, &path, err);
        json_path_free(&path);
        if (st != PENNON_OK) return st;
    }
    return bind_result(b, results[b->fn->option], err);
}

#define JSON(name, n, run, id)                                \
    {                                                         \
        name, n, n, FUNCTION_STRICT, bind_json, run, NULL, id \
    }

const struct function functions_json[] = {
    JSON("json_array_contains", 3, run_numbers, JSON_CONTAINS),
    JSON("json_array_length", 2, run_numbers, JSON_LENGTH),
    JSON("json_exists", 2, run_numbers, JSON_EXISTS),
    JSON("json_extract", 2, run_texts, JSON_EXTRACT),
    {"json_extract_with_type", 2, 2, 0, bind_not_supported, NULL, NULL, 0},
    JSON("json_get", 2, run_texts, JSON_GET),
    JSON("json_get_bool", 2, run_numbers, JSON_BOOL),
    JSON("json_get_float", 2, run_numbers, JSON_FLOAT),
    JSON("json_get_int", 2, run_numbers, JSON_INT),
    JSON("json_get_string", 2, run_texts, JSON_STRING),
    {NULL, 0, 0, 0, NULL, NULL, NULL, 0},
};
