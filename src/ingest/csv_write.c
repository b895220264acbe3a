/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Writing CSV (RFC 4180): values are quoted when they hold the delimiter, a quote or a line end, begin or end with a space, or
 * could be taken for a null: the empty text, and the text that stands for null. Nested values are JSON text. */
#include "ingest/ingest.h"

void pennon_csv_write_options_init(pennon_csv_write_options *options)
{
    *options = (pennon_csv_write_options){.struct_size = sizeof *options, .delimiter = ',', .header = true, .null_text = ""};
}

struct csv_writer {
    struct write_job job;
    pennon_csv_write_options o;
    struct bytes null_text;
    struct buf scratch; /* JSON and binary before they are quoted */
};

static bool needs_quotes(const struct csv_writer *w, struct bytes text)
{
    if (w->o.quote_all || text.size == 0 || bytes_equal(text, w->null_text)) return true;
    if (text.data[0] == ' ' || text.data[text.size - 1] == ' ') return true;
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];
        if (c == (uint8_t)w->o.delimiter || c == '"' || c == '\n' || c == '\r') return true;
    }
    return false;
}

static pennon_status put_text(struct csv_writer *w, struct bytes text, pennon_error *err)
{
    struct buf *out = &w->job.sink.pending;
    if (!needs_quotes(w, text)) return buf_append(out, text.data, text.size, err);
    TRY_RETURN(buf_append_byte(out, '"', err));
    for (size_t start = 0; start < text.size;) {
        const uint8_t *quote = memchr(text.data + start, '"', text.size - start);
        size_t end = quote == NULL ? text.size : (size_t)(quote - text.data) + 1;
        TRY_RETURN(buf_append(out, text.data + start, end - start, err));
        if (quote != NULL) TRY_RETURN(buf_append_byte(out, '"', err));
        start = end;
    }
    return buf_append_byte(out, '"', err);
}

static pennon_status put_value(struct csv_writer *w, const struct array_view *v, int64_t i, pennon_error *err)
{
    char text[VALUE_TEXT_MAX];
    if (v->type.layout == LAYOUT_NULL || array_view_is_null(v, i)) {
        return buf_append(&w->job.sink.pending, w->null_text.data, w->null_text.size, err);
    }
    w->scratch.size = 0;
    switch (text_kind_of(&v->type)) {
    case TEXT_PLAIN: {
        size_t n = format_value(v, i, text);
        return put_text(w, bytes_of(text, n), err);
    }
    case TEXT_STRING: return put_text(w, array_view_bytes(v, i), err);
    case TEXT_BINARY:
        TRY_RETURN(w->o.binary == PENNON_BINARY_HEX ? put_hex(array_view_bytes(v, i), &w->scratch, err)
                                                    : base64_put(array_view_bytes(v, i), &w->scratch, err));
        break;
    case TEXT_NESTED:
        /* Dictionaries and run ends of plain values are what they stand for. */
        if (v->type.id == ARROW_DICTIONARY) return put_value(w, &v->children[0], array_view_int(v, i), err);
        if (v->type.id == ARROW_RUN_END_ENCODED) {
            return put_value(w, &v->children[1], run_end_find(&v->children[0], v->offset + i), err);
        }
        TRY_RETURN(json_put_value(&w->scratch, v, i, w->o.binary, err));
        break;
    }
    return put_text(w, bytes_of(w->scratch.data, w->scratch.size), err);
}

static pennon_status write_header(struct csv_writer *w, pennon_error *err)
{
    struct buf *out = &w->job.sink.pending;
    for (int64_t c = 0; c < w->job.schema.n_children; c++) {
        const char *name = w->job.schema.children[c]->name;
        if (c > 0) TRY_RETURN(buf_append_byte(out, (uint8_t)w->o.delimiter, err));
        TRY_RETURN(put_text(w, bytes_str(name != NULL ? name : ""), err));
    }
    return buf_append_byte(out, '\n', err);
}

static pennon_status write_rows(struct csv_writer *w, const struct ArrowArray *batch, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arena arena;
    struct array_view view;
    struct buf *out = &w->job.sink.pending;
    arena_init(&arena, w->job.call.mem);
    TRY(array_view_deep(&view, &w->job.schema, batch, &arena, err));
    for (int64_t i = 0; i < batch->length; i++) {
        for (int64_t c = 0; c < batch->n_children; c++) {
            if (c > 0) TRY(buf_append_byte(out, (uint8_t)w->o.delimiter, err));
            TRY(put_value(w, &view.children[c], i, err));
        }
        TRY(buf_append_byte(out, '\n', err));
        TRY(byte_sink_flush(&w->job.sink, false, err));
    }
done:
    arena_reset(&arena);
    return st;
}

static pennon_status write_all(struct csv_writer *w, pennon_error *err)
{
    if (w->o.header && w->job.schema.n_children > 0) TRY_RETURN(write_header(w, err));
    for (;;) {
        struct ArrowArray batch;
        TRY_RETURN(write_job_next(&w->job, &batch, err));
        if (batch.release == NULL) return PENNON_OK;
        int64_t rows = batch.length;
        pennon_status st = write_rows(w, &batch, err);
        array_release(&batch);
        if (st == PENNON_OK) st = write_job_wrote(&w->job, rows, err);
        TRY_RETURN(st);
    }
}

static pennon_status check_options(const pennon_csv_write_options *o, pennon_error *err)
{
    char d = o->delimiter;
    if (d == '"' || d == '\n' || d == '\r' || d == '\0' || ((unsigned char)d & 0x80) != 0) {
        return error_set(err, PENNON_INVALID_ARGUMENT,
                         "the CSV delimiter has to be an ASCII character other than a quote or a line end");
    }
    if (o->binary < PENNON_BINARY_BASE64 || o->binary > PENNON_BINARY_HEX) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "binary is %d: it has to be one of PENNON_BINARY_", o->binary);
    }
    if (o->null_text == NULL) return error_set(err, PENNON_INVALID_ARGUMENT, "null_text is NULL");
    if (strpbrk(o->null_text, "\"\r\n") != NULL || strchr(o->null_text, d) != NULL) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "null_text holds a character that has to be quoted");
    }
    return PENNON_OK;
}

pennon_status pennon_csv_write(struct ArrowArrayStream *data, const pennon_sink *sink, const pennon_csv_write_options *options,
                               pennon_error *err)
{
    pennon_error local;
    struct csv_writer w = {.job = {.data = data}};
    pennon_status st = PENNON_OK;
    pennon_error_init(&local);
    pennon_csv_write_options_init(&w.o);
    st = options_read(&w.o, sizeof w.o, options, "pennon_csv_write_options", &local);
    if (st == PENNON_OK) st = check_options(&w.o, &local);
    if (st == PENNON_OK) st = write_job_begin(&w.job, data, sink, w.o.call, &local);
    if (st == PENNON_OK) {
        w.null_text = bytes_str(w.o.null_text);
        buf_init(&w.scratch, w.job.call.mem, BUF_NO_LIMIT);
        st = write_all(&w, &local);
        buf_free(&w.scratch);
    }
    return error_out(err, &local, write_job_end(&w.job, st, &local));
}
