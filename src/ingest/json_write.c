/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Arrow values as JSON.
 *
 * type                              | JSON
 * ----------------------------------|----------------------------------------------------------------
 * bool, integers                    | true, false, numbers
 * floats                            | numbers; nan, inf and -inf as texts
 * decimals, dates, times, intervals | texts
 * durations                         | numbers of their unit
 * text                              | texts
 * binary                            | texts, base64 or hex
 * lists                             | arrays
 * structs                           | objects; fields of one name all stand there
 * maps with text keys               | objects, when no key is null
 * other maps                        | arrays of {"key": …, "value": …}
 * unions, run ends, dictionaries    | the value */
#include "ingest/ingest.h"

pennon_status json_put_string(struct buf *out, struct bytes text, pennon_error *err)
{
    static const char hex[] = "0123456789abcdef";
    size_t start = 0;
    TRY_RETURN(buf_grow(out, text.size + 2, err));
    TRY_RETURN(buf_append_byte(out, '"', err));
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];
        const char *escape = NULL;
        char unicode[7] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15], '\0'};
        if (LIKELY(c >= 0x20 && c != '"' && c != '\\')) continue;
        switch (c) {
        case '"': escape = "\\\""; break;
        case '\\': escape = "\\\\"; break;
        case '\n': escape = "\\n"; break;
        case '\r': escape = "\\r"; break;
        case '\t': escape = "\\t"; break;
        default: escape = unicode; break;
        }
        TRY_RETURN(buf_append(out, text.data + start, i - start, err));
        TRY_RETURN(buf_append(out, escape, strlen(escape), err));
        start = i + 1;
    }
    if (text.size > start) TRY_RETURN(buf_append(out, text.data + start, text.size - start, err));
    return buf_append_byte(out, '"', err);
}

static pennon_status put(struct buf *out, const char *text, size_t n, pennon_error *err) { return buf_append(out, text, n, err); }

/* Types whose text is a JSON number (or literal) as it stands. */
static bool is_bare(const struct array_view *v, int64_t i)
{
    enum arrow_id id = v->type.id;
    if (arrow_id_is_float(id)) {
        double d = array_view_double(v, i);
        return d - d == 0;
    }
    return id == ARROW_BOOL || arrow_id_is_integer(id) || id == ARROW_DURATION;
}

static pennon_status put_plain(struct buf *out, const struct array_view *v, int64_t i, pennon_error *err)
{
    char text[VALUE_TEXT_MAX + 2];
    size_t n = format_value(v, i, text + 1);
    if (is_bare(v, i)) return put(out, text + 1, n, err);
    text[0] = text[n + 1] = '"';
    return put(out, text, n + 2, err);
}

static pennon_status put_binary(struct buf *out, struct bytes b, int32_t binary, pennon_error *err)
{
    TRY_RETURN(put(out, "\"", 1, err));
    TRY_RETURN(binary == PENNON_BINARY_HEX ? put_hex(b, out, err) : base64_put(b, out, err));
    return put(out, "\"", 1, err);
}

static pennon_status put_object(struct buf *out, const struct array_view *v, int64_t i, int32_t binary, pennon_error *err)
{
    TRY_RETURN(put(out, "{", 1, err));
    for (int64_t c = 0; c < v->array->n_children; c++) {
        const char *name = v->schema->children[c]->name;
        if (c > 0) TRY_RETURN(put(out, ",", 1, err));
        TRY_RETURN(json_put_string(out, bytes_str(name != NULL ? name : ""), err));
        TRY_RETURN(put(out, ":", 1, err));
        TRY_RETURN(json_put_value(out, &v->children[c], i, binary, err));
    }
    return put(out, "}", 1, err);
}

static pennon_status put_list(struct buf *out, const struct array_view *v, int64_t i, int32_t binary, pennon_error *err)
{
    int64_t start = 0;
    int64_t n = 0;
    array_view_list(v, i, &start, &n);
    TRY_RETURN(put(out, "[", 1, err));
    for (int64_t k = 0; k < n; k++) {
        if (k > 0) TRY_RETURN(put(out, ",", 1, err));
        TRY_RETURN(json_put_value(out, &v->children[0], start + k, binary, err));
    }
    return put(out, "]", 1, err);
}

/* The keys of a map's row are texts, and none is null. */
static bool keys_are_texts(const struct array_view *keys, int64_t start, int64_t n)
{
    if (!arrow_id_is_text(keys->type.id)) return false;
    for (int64_t k = 0; k < n && keys->null_count > 0; k++) {
        if (array_view_is_null(keys, start + k)) return false;
    }
    return true;
}

static pennon_status put_map(struct buf *out, const struct array_view *v, int64_t i, int32_t binary, pennon_error *err)
{
    const struct array_view *entries = &v->children[0];
    const struct array_view *keys = &entries->children[0];
    int64_t start = 0;
    int64_t n = 0;
    array_view_list(v, i, &start, &n);
    bool object = keys_are_texts(keys, start, n);
    TRY_RETURN(put(out, object ? "{" : "[", 1, err));
    for (int64_t k = start; k < start + n; k++) {
        if (k > start) TRY_RETURN(put(out, ",", 1, err));
        if (!object) TRY_RETURN(put(out, "{\"key\":", 7, err));
        TRY_RETURN(json_put_value(out, keys, k, binary, err));
        TRY_RETURN(object ? put(out, ":", 1, err) : put(out, ",\"value\":", 9, err));
        TRY_RETURN(json_put_value(out, &entries->children[1], k, binary, err));
        if (!object) TRY_RETURN(put(out, "}", 1, err));
    }
    return put(out, object ? "}" : "]", 1, err);
}

static pennon_status put_nested(struct buf *out, const struct array_view *v, int64_t i, int32_t binary, pennon_error *err)
{
    int64_t child = 0;
    int64_t row = 0;
    switch (v->type.layout) {
    case LAYOUT_NULL: return put(out, "null", 4, err);
    case LAYOUT_FIXED: return json_put_value(out, &v->children[0], array_view_int(v, i), binary, err);
    case LAYOUT_STRUCT: return put_object(out, v, i, binary, err);
    case LAYOUT_SPARSE_UNION:
    case LAYOUT_DENSE_UNION:
        array_view_union(v, i, &child, &row);
        return json_put_value(out, &v->children[child], row, binary, err);
    case LAYOUT_RUN_END:
        row = run_end_find(&v->children[0], v->offset + i);
        return json_put_value(out, &v->children[1], row, binary, err);
    default: return v->type.id == ARROW_MAP ? put_map(out, v, i, binary, err) : put_list(out, v, i, binary, err);
    }
}

pennon_status json_put_value(struct buf *out, const struct array_view *deep, int64_t i, int32_t binary, pennon_error *err)
{
    if (array_view_is_null(deep, i)) return put(out, "null", 4, err);
    switch (text_kind_of(&deep->type)) {
    case TEXT_PLAIN: return put_plain(out, deep, i, err);
    case TEXT_STRING: return json_put_string(out, array_view_bytes(deep, i), err);
    case TEXT_BINARY: return put_binary(out, array_view_bytes(deep, i), binary, err);
    case TEXT_NESTED: break;
    }
    return put_nested(out, deep, i, binary, err);
}

/* -------------------------------------------------------------------------------------------------------------- lines */

void pennon_json_lines_write_options_init(pennon_json_lines_write_options *options)
{
    *options = (pennon_json_lines_write_options){.struct_size = sizeof *options};
}

static pennon_status write_rows(struct write_job *j, const struct ArrowArray *batch, int32_t binary, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arena arena;
    struct array_view view;
    struct buf *out = &j->sink.pending;
    arena_init(&arena, j->call.mem);
    TRY(array_view_deep(&view, &j->schema, batch, &arena, err));
    for (int64_t i = 0; i < batch->length; i++) {
        TRY(json_put_value(out, &view, i, binary, err));
        TRY(buf_append_byte(out, '\n', err));
        TRY(byte_sink_flush(&j->sink, false, err));
    }
done:
    arena_reset(&arena);
    return st;
}

static pennon_status write_all(struct write_job *j, int32_t binary, pennon_error *err)
{
    for (;;) {
        struct ArrowArray batch;
        TRY_RETURN(write_job_next(j, &batch, err));
        if (batch.release == NULL) return PENNON_OK;
        int64_t rows = batch.length;
        pennon_status st = write_rows(j, &batch, binary, err);
        array_release(&batch);
        if (st == PENNON_OK) st = write_job_wrote(j, rows, err);
        TRY_RETURN(st);
    }
}

pennon_status pennon_json_lines_write(struct ArrowArrayStream *data, const pennon_sink *sink,
                                      const pennon_json_lines_write_options *options, pennon_error *err)
{
    pennon_error local;
    struct write_job job = {.data = data};
    pennon_json_lines_write_options o;
    pennon_status st = PENNON_OK;
    pennon_error_init(&local);
    pennon_json_lines_write_options_init(&o);
    st = options_read(&o, sizeof o, options, "pennon_json_lines_write_options", &local);
    if (st == PENNON_OK && (o.binary < PENNON_BINARY_BASE64 || o.binary > PENNON_BINARY_HEX)) {
        st = error_set(&local, PENNON_INVALID_ARGUMENT, "binary is %d: it has to be one of PENNON_BINARY_", o.binary);
    }
    if (st == PENNON_OK) st = write_job_begin(&job, data, sink, o.call, &local);
    if (st == PENNON_OK) st = write_all(&job, o.binary, &local);
    return error_out(err, &local, write_job_end(&job, st, &local));
}
