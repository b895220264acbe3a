/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Writing rows as an aligned table for people.
 *
 *   id  name    price
 *   --  ------  -----
 *    1  apple    0.50
 *
 * Columns are as wide as their widest cell among the first SAMPLE_ROWS rows, which are kept until the widths are known; later cells
 * that are wider push their row to the right. What a cell holds is made harmless first: control characters, line ends, direction marks and
 * unassigned characters become escapes. Widths are those of a terminal (a wide character takes two columns). */
#include <utf8proc.h>

#include "ingest/ingest.h"

#define SAMPLE_ROWS 1000u
#define GAP 2u /* columns between two cells */

void pennon_table_write_options_init(pennon_table_write_options *options)
{
    *options =
        (pennon_table_write_options){.struct_size = sizeof *options, .max_rows = PENNON_NONE, .cell_width = 60, .header = true};
}

struct table_writer {
    struct write_job job;
    pennon_table_write_options o;
    size_t n_columns;
    size_t n_shown; /* the columns that fit the screen: the first ones */
    uint32_t *widths;
    bool *right;      /* numbers */
    struct buf cells; /* sample: NUL-terminated cells, row by row */
    uint64_t sampled; /* rows in it */
    bool sized;       /* the widths are known and the sample is written */
    uint64_t rows;    /* shown */
    bool more;        /* rows are left out */
    struct buf raw;   /* a value before it is made harmless */
    struct buf cell;
};

/* --------------------------------------------------------------------------------------------------------------- cells */

/* Columns that the character takes on a terminal; -1 = it is not shown as it is. */
static int char_width(int32_t c)
{
    int width = 0;
    if (c < 0x20 || (c >= 0x7f && c < 0xa0)) return -1;
    if (c < 0x7f) return 1;
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF: /* direction and joining marks */
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return -1;
    default: break;
    }
    width = utf8proc_charwidth(c);
    return width < 0 ? 0 : width;
}

/* The character as an escape; its length. */
static size_t escape_of(int32_t c, char out[16])
{
    static const char hex[] = "0123456789abcdef";
    size_t n = 0;
    out[n++] = '\\';
    if (c == '\n' || c == '\r' || c == '\t') {
        out[n++] = c == '\n' ? 'n' : c == '\r' ? 'r' : 't';
        return n;
    }
    int digits = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
    out[n++] = digits == 2 ? 'x' : digits == 4 ? 'u' : 'U';
    for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out[n++] = hex[(uint32_t)c >> shift & 15];
    return n;
}

/* The text made harmless and cut to `limit` columns, in w->cell; its width. */
static pennon_status make_cell(struct table_writer *w, struct bytes text, uint32_t limit, uint32_t *width, pennon_error *err)
{
    size_t cut = 0; /* size of the cell when it still had room for the mark of a cut */
    uint32_t cut_width = 0;
    *width = 0;
    w->cell.size = 0;
    for (size_t i = 0; i < text.size;) {
        utf8proc_int32_t c = 0;
        utf8proc_ssize_t n = utf8proc_iterate(text.data + i, (utf8proc_ssize_t)min_u64(text.size - i, 4), &c);
        char escape[16];
        const void *shown = text.data + i;
        if (n <= 0) { /* not UTF-8: names of columns may come from anywhere */
            n = 1;
            c = text.data[i];
        }
        int columns = n == 1 && c >= 0x80 ? -1 : char_width(c);
        size_t size = (size_t)n;
        if (columns < 0) {
            size = escape_of(c, escape);
            columns = (int)size;
            shown = escape;
        }
        if (*width + 1 <= limit) {
            cut = w->cell.size;
            cut_width = *width;
        }
        if (*width + (uint32_t)columns > limit) {
            w->cell.size = cut;
            *width = cut_width + 1;
            return buf_append(&w->cell, "\xe2\x80\xa6", 3, err);
        }
        TRY_RETURN(buf_append(&w->cell, shown, size, err));
        *width += (uint32_t)columns;
        i += (size_t)n;
    }
    return PENNON_OK;
}

static pennon_status value_text(struct table_writer *w, const struct array_view *v, int64_t i, struct bytes *out, pennon_error *err)
{
    char text[VALUE_TEXT_MAX];
    w->raw.size = 0;
    if (v->type.layout == LAYOUT_NULL || array_view_is_null(v, i)) {
        *out = bytes_str("null");
        return PENNON_OK;
    }
    if (v->type.id == ARROW_DICTIONARY) return value_text(w, &v->children[0], array_view_int(v, i), out, err);
    switch (text_kind_of(&v->type)) {
    case TEXT_STRING: *out = array_view_bytes(v, i); return PENNON_OK;
    case TEXT_PLAIN: {
        size_t n = format_value(v, i, text);
        TRY_RETURN(buf_append(&w->raw, text, n, err));
        break;
    }
    case TEXT_BINARY: {
        /* No more than is shown; a cut cell ends in a mark anyway. */
        struct bytes b = array_view_bytes(v, i);
        TRY_RETURN(put_hex(bytes_of(b.data, (size_t)min_u64(b.size, w->o.cell_width)), &w->raw, err));
        break;
    }
    case TEXT_NESTED: TRY_RETURN(json_put_value(&w->raw, v, i, PENNON_BINARY_HEX, err)); break;
    }
    *out = bytes_of(w->raw.data, w->raw.size);
    return PENNON_OK;
}

/* ---------------------------------------------------------------------------------------------------------------- rows */

/* Columns of a text that went through make_cell. */
static uint32_t cell_columns(const char *cell)
{
    uint32_t width = 0;
    for (size_t i = 0; cell[i] != '\0';) {
        utf8proc_int32_t c = 0;
        utf8proc_ssize_t n = utf8proc_iterate((const uint8_t *)cell + i, 4, &c);
        if (n <= 0) n = 1;
        int columns = char_width(c);
        width += columns > 0 ? (uint32_t)columns : 0;
        i += (size_t)n;
    }
    return width;
}

static pennon_status put_spaces(struct buf *out, uint32_t n, pennon_error *err)
{
    if (n == 0) return PENNON_OK;
    TRY_RETURN(buf_grow(out, n, err));
    memset(out->data + out->size, ' ', n);
    out->size += n;
    return PENNON_OK;
}

static pennon_status put_cell(struct table_writer *w, size_t column, const char *cell, uint32_t width, pennon_error *err)
{
    struct buf *out = &w->job.sink.pending;
    uint32_t pad = width < w->widths[column] ? w->widths[column] - width : 0;
    bool last = column + 1 == w->n_shown;
    if (column > 0) TRY_RETURN(put_spaces(out, GAP, err));
    if (w->right[column]) TRY_RETURN(put_spaces(out, pad, err));
    TRY_RETURN(buf_append(out, cell, strlen(cell), err));
    return w->right[column] || last ? PENNON_OK : put_spaces(out, pad, err);
}

static const char *column_name(const struct table_writer *w, size_t i)
{
    const char *name = w->job.schema.children[i]->name;
    return name != NULL ? name : "";
}

static pennon_status put_header(struct table_writer *w, pennon_error *err)
{
    struct buf *out = &w->job.sink.pending;
    uint32_t width = 0;
    for (size_t i = 0; i < w->n_shown; i++) {
        TRY_RETURN(make_cell(w, bytes_str(column_name(w, i)), w->o.cell_width, &width, err));
        TRY_RETURN(buf_terminate(&w->cell, err));
        TRY_RETURN(put_cell(w, i, (const char *)w->cell.data, width, err));
    }
    TRY_RETURN(buf_append_byte(out, '\n', err));
    for (size_t i = 0; i < w->n_shown; i++) {
        if (i > 0) TRY_RETURN(put_spaces(out, GAP, err));
        TRY_RETURN(buf_grow(out, w->widths[i], err));
        memset(out->data + out->size, '-', w->widths[i]);
        out->size += w->widths[i];
    }
    return buf_append_byte(out, '\n', err);
}

/* How many of the first columns fit the screen; at least one. */
static void fit_columns(struct table_writer *w)
{
    uint64_t used = 0;
    w->n_shown = 0;
    while (w->n_shown < w->n_columns) {
        used += w->widths[w->n_shown] + (w->n_shown > 0 ? GAP : 0);
        if (w->o.width > 0 && used > w->o.width && w->n_shown > 0) break;
        w->n_shown++;
    }
}

/* The widths are as good as they get: write the header and the kept rows. */
static pennon_status settle(struct table_writer *w, pennon_error *err)
{
    const char *cell = (const char *)w->cells.data;
    if (w->sized) return PENNON_OK;
    w->sized = true;
    fit_columns(w);
    if (w->o.header && w->n_columns > 0) TRY_RETURN(put_header(w, err));
    for (uint64_t row = 0; row < w->sampled; row++) {
        for (size_t i = 0; i < w->n_columns; i++, cell += strlen(cell) + 1) {
            if (i < w->n_shown) TRY_RETURN(put_cell(w, i, cell, cell_columns(cell), err));
        }
        TRY_RETURN(buf_append_byte(&w->job.sink.pending, '\n', err));
    }
    buf_free(&w->cells);
    return PENNON_OK;
}

static pennon_status put_row(struct table_writer *w, const struct array_view *view, int64_t row, pennon_error *err)
{
    size_t n = w->sized ? w->n_shown : w->n_columns;
    for (size_t i = 0; i < n; i++) {
        struct bytes text;
        uint32_t width = 0;
        TRY_RETURN(value_text(w, &view->children[i], row, &text, err));
        TRY_RETURN(make_cell(w, text, w->o.cell_width, &width, err));
        TRY_RETURN(buf_terminate(&w->cell, err));
        if (w->sized) {
            TRY_RETURN(put_cell(w, i, (const char *)w->cell.data, width, err));
        } else {
            TRY_RETURN(buf_append(&w->cells, w->cell.data, w->cell.size + 1, err));
            if (width > w->widths[i]) w->widths[i] = width;
        }
    }
    w->rows++;
    if (w->sized) return buf_append_byte(&w->job.sink.pending, '\n', err);
    w->sampled++;
    return w->sampled == SAMPLE_ROWS ? settle(w, err) : PENNON_OK;
}

static pennon_status put_batch(struct table_writer *w, const struct ArrowArray *batch, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arena arena;
    struct array_view view;
    arena_init(&arena, w->job.call.mem);
    TRY(array_view_deep(&view, &w->job.schema, batch, &arena, err));
    for (int64_t i = 0; i < batch->length && !w->more; i++) {
        if (w->rows == w->o.max_rows) {
            w->more = true;
        } else {
            TRY(put_row(w, &view, i, err));
            TRY(byte_sink_flush(&w->job.sink, false, err));
        }
    }
done:
    arena_reset(&arena);
    return st;
}

/* ---------------------------------------------------------------------------------------------------------------- all */

static pennon_status setup_columns(struct table_writer *w, pennon_error *err)
{
    struct mem *mem = w->job.call.mem;
    w->n_columns = (size_t)w->job.schema.n_children;
    w->widths = mem_calloc(mem, w->n_columns, sizeof *w->widths, err);
    w->right = w->widths == NULL ? NULL : mem_calloc(mem, w->n_columns, sizeof *w->right, err);
    if (w->right == NULL) return err->code;
    for (size_t i = 0; i < w->n_columns; i++) {
        struct arrow_type type;
        TRY_RETURN(arrow_type_of(w->job.schema.children[i], &type, err));
        w->right[i] =
            arrow_id_is_integer(type.id) || arrow_id_is_float(type.id) || arrow_id_is_decimal(type.id) || type.id == ARROW_DURATION;
        w->widths[i] = 1;
        if (w->o.header) TRY_RETURN(make_cell(w, bytes_str(column_name(w, i)), w->o.cell_width, &w->widths[i], err));
        if (w->widths[i] == 0) w->widths[i] = 1;
    }
    return PENNON_OK;
}

/* Columns and rows that were left out. */
static pennon_status put_rest(struct table_writer *w, pennon_error *err)
{
    struct buf *out = &w->job.sink.pending;
    if (w->more) TRY_RETURN(buf_printf(out, err, "\xe2\x80\xa6 more rows than %" PRIu64 "\n", w->rows));
    if (w->n_shown == w->n_columns) return PENNON_OK;
    TRY_RETURN(buf_printf(out, err, "\xe2\x80\xa6 %zu more columns:", w->n_columns - w->n_shown));
    for (size_t i = w->n_shown; i < w->n_columns; i++) {
        uint32_t width = 0;
        TRY_RETURN(make_cell(w, bytes_str(column_name(w, i)), w->o.cell_width, &width, err));
        TRY_RETURN(buf_append(out, i > w->n_shown ? ", " : " ", i > w->n_shown ? 2 : 1, err));
        TRY_RETURN(buf_append(out, w->cell.data, w->cell.size, err));
    }
    return buf_append_byte(out, '\n', err);
}

static pennon_status write_all(struct table_writer *w, pennon_error *err)
{
    TRY_RETURN(setup_columns(w, err));
    while (!w->more) {
        struct ArrowArray batch;
        TRY_RETURN(write_job_next(&w->job, &batch, err));
        if (batch.release == NULL) break;
        int64_t rows = batch.length;
        pennon_status st = put_batch(w, &batch, err);
        array_release(&batch);
        if (st == PENNON_OK) st = write_job_wrote(&w->job, rows, err);
        TRY_RETURN(st);
    }
    TRY_RETURN(settle(w, err));
    return put_rest(w, err);
}

pennon_status pennon_table_write(struct ArrowArrayStream *data, const pennon_sink *sink, const pennon_table_write_options *options,
                                 pennon_error *err)
{
    pennon_error local;
    struct table_writer w = {.job = {.data = data}};
    pennon_status st = PENNON_OK;
    pennon_error_init(&local);
    pennon_table_write_options_init(&w.o);
    st = options_read(&w.o, sizeof w.o, options, "pennon_table_write_options", &local);
    if (st == PENNON_OK && (w.o.cell_width == 0 || w.o.cell_width > 1 << 20)) {
        st = error_set(&local, PENNON_INVALID_ARGUMENT, "cell_width is %u: it has to be 1 to 1048576", w.o.cell_width);
    }
    if (st == PENNON_OK) st = write_job_begin(&w.job, data, sink, w.o.call, &local);
    if (st == PENNON_OK) {
        struct mem *mem = w.job.call.mem;
        buf_init(&w.cells, mem, BUF_NO_LIMIT);
        buf_init(&w.raw, mem, BUF_NO_LIMIT);
        buf_init(&w.cell, mem, BUF_NO_LIMIT);
        st = write_all(&w, &local);
        buf_free(&w.cells);
        buf_free(&w.raw);
        buf_free(&w.cell);
        mem_free(mem, w.widths);
        mem_free(mem, w.right);
    }
    return error_out(err, &local, write_job_end(&w.job, st, &local));
}
