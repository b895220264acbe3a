/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Reading CSV as an Arrow stream.
 *
 * Opening reads the header and up to a MiB of rows to guess types; the window keeps them, and the stream begins at the first data row
 * again. Each row is cut into fields (csv_scan.c) and appended to a builder per column. A batch ends after batch_rows rows or
 * BATCH_BYTES of values.
 *
 * Nulls are unquoted fields: the empty one, and in columns that are not text the usual spellings; or those that the caller names.
 * Columns of dictionary type are built as their values and encoded per batch. */
#include <stdlib.h>

#include "ingest/csv.h"

#define INFER_BYTES ((size_t)1 << 20)
#define BATCH_BYTES ((uint64_t)32 << 20)

struct csv_column {
    struct arrow_type type; /* of the values, as built */
    struct builder *builder;
    bool text;
    bool guessed;
};

struct csv_reader {
    struct mem *mem; /* the source's */
    struct byte_source *source;
    struct window window;
    pennon_csv_options o;
    char **nulls; /* copies, or NULL */
    size_t n_nulls;
    struct column_types types;
    struct csv_row row;
    struct buf scratch;        /* doubled quotes */
    struct buf binary;         /* base64 */
    struct ArrowSchema schema; /* what the stream gives */
    struct ArrowSchema built;  /* dictionaries replaced by their values */
    struct csv_column *columns;
    size_t n_columns;
    struct builder *rows;
    bool cast; /* schema and built differ */
};

static void csv_reader_free(void *reader)
{
    struct csv_reader *r = reader;
    struct byte_source *source = r->source;
    struct mem *mem = r->mem;
    builder_free(r->rows);
    mem_free(mem, r->columns);
    arrow_schema_release(&r->schema);
    arrow_schema_release(&r->built);
    buf_free(&r->scratch);
    buf_free(&r->binary);
    mem_free(mem, r->row.fields);
    column_types_free(&r->types);
    for (size_t i = 0; i < r->n_nulls && r->nulls != NULL; i++) mem_free(mem, r->nulls[i]);
    mem_free(mem, r->nulls);
    window_free(&r->window);
    mem_free(mem, r);
    byte_source_delete(source); /* last: it holds the budget */
}

void pennon_csv_options_init(pennon_csv_options *options)
{
    *options = (pennon_csv_options){.struct_size = sizeof *options,
                                    .delimiter = ',',
                                    .quote = '"',
                                    .header = true,
                                    .infer = true,
                                    .infer_rows = 10000,
                                    .batch_rows = 65536,
                                    .max_row_bytes = (uint64_t)64 << 20};
}

static pennon_status check_options(const pennon_csv_options *o, pennon_error *err)
{
    char d = o->delimiter;
    if (d == '\0' || d == '\n' || d == '\r' || d == o->quote || ((unsigned char)d & 0x80) != 0) {
        return error_set(err, PENNON_INVALID_ARGUMENT,
                         "the CSV delimiter has to be an ASCII character other than the quote or a line end");
    }
    if (o->quote == '\n' || o->quote == '\r' || ((unsigned char)o->quote & 0x80) != 0) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "the CSV quote has to be an ASCII character other than a line end");
    }
    if (o->batch_rows == 0 || o->max_row_bytes == 0 || o->infer_rows == 0) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "batch_rows, max_row_bytes and infer_rows have to be at least 1");
    }
    if (o->nulls == NULL && o->n_nulls > 0) return error_set(err, PENNON_INVALID_ARGUMENT, "nulls is NULL, n_nulls is not 0");
    return PENNON_OK;
}

/* ------------------------------------------------------------------------------------------------------------- rows */

/* "name, line L: " in front of what went wrong with the text. */
static pennon_status at_line(const struct csv_reader *r, uint64_t line, pennon_error *err)
{
    if (err->code != PENNON_INVALID_ARGUMENT) return err->code;
    return error_prefix(err, "%s, line %" PRIu64, r->source->name[0] != '\0' ? r->source->name : "CSV", line);
}

/* The next row that counts, cut but not taken: it stays in the window until take_row. CSV_END at the end. */
static pennon_status next_row(struct csv_reader *r, bool may_read, enum csv_scan *found, pennon_error *err)
{
    struct window *w = &r->window;
    for (;;) {
        pennon_status st =
            csv_scan_row(window_data(w), window_left(w), w->ended, r->o.delimiter, r->o.quote, r->mem, &r->row, found, err);
        if (st != PENNON_OK) return at_line(r, w->line, err);
        if (*found == CSV_END || (*found == CSV_MORE && !may_read)) return PENNON_OK;
        if (*found == CSV_MORE) {
            TRY_RETURN(window_more(w, err));
        } else if (r->row.bytes > r->o.max_row_bytes) {
            return error_set(err, PENNON_INVALID_ARGUMENT, "line %" PRIu64 ": a row of %zu bytes", w->line, r->row.bytes);
        } else if (r->row.blank && r->n_columns != 1) {
            w->at += r->row.bytes;
            w->line += r->row.lines;
        } else {
            return PENNON_OK;
        }
    }
}

static void take_row(struct csv_reader *r)
{
    r->window.at += r->row.bytes;
    r->window.line += r->row.lines;
}

static bool is_one_of(struct bytes text, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes_equal(text, bytes_str(words[i]))) return true;
    }
    return false;
}

static bool is_null(const struct csv_reader *r, const struct csv_field *f, bool text)
{
    static const char *const usual[] = {"NULL", "null", "NA", "N/A", "\\N"};
    struct bytes value = bytes_of(f->data, f->size);
    if (f->quoted) return false;
    if (r->nulls != NULL) return is_one_of(value, (const char *const *)r->nulls, r->n_nulls);
    if (!text && value.size > 0) value = csv_trim(value);
    if (value.size == 0) return true;
    return !text && value.size <= 4 && is_one_of(value, usual, ARRAY_LEN(usual));
}

static pennon_status append_field(struct csv_reader *r, size_t i, pennon_error *err)
{
    const struct csv_field *f = &r->row.fields[i];
    struct csv_column *c = &r->columns[i];
    struct bytes text;
    int64_t v = 0;
    if (is_null(r, f, c->text)) return builder_append_null(c->builder, err);
    TRY_RETURN(csv_field_text(f, r->o.quote, &r->scratch, &text, err));
    if (!c->text) text = csv_trim(text);
    if (c->type.id == ARROW_INT64 && parse_int64(text, &v)) return builder_append_int(c->builder, v, err);
    return append_text_value(c->builder, &c->type, text, &r->binary, err);
}

static pennon_status wrong_count(const struct csv_reader *r, pennon_error *err)
{
    (void)error_set(err, PENNON_INVALID_ARGUMENT, "%zu fields where %zu are expected", r->row.n, r->n_columns);
    return at_line(r, r->window.line, err);
}

static pennon_status append_row(struct csv_reader *r, pennon_error *err)
{
    if (r->row.n != r->n_columns) return wrong_count(r, err);
    for (size_t i = 0; i < r->n_columns; i++) {
        if (LIKELY(append_field(r, i, err) == PENNON_OK)) continue;
        if (err->code != PENNON_INVALID_ARGUMENT) return err->code;
        const char *name = r->schema.children[i]->name;
        const char *hint =
            r->columns[i].guessed ? " (the type of the column was inferred from the first rows; a type can be given)" : "";
        char *message = mem_printf(r->mem, err, "column %zu ('%.100s'): %s%s", i + 1, name, err->message, hint);
        if (message == NULL) return err->code;
        (void)error_set(err, PENNON_INVALID_ARGUMENT, "%s", message);
        mem_free(r->mem, message);
        return at_line(r, r->window.line, err);
    }
    return builder_append_row(r->rows, err);
}

static pennon_status csv_next(void *ctx, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct csv_reader *r = ctx;
    struct ArrowArray built = {0};
    enum csv_scan found = CSV_ROW;
    while ((uint64_t)builder_length(r->rows) < r->o.batch_rows) {
        TRY(next_row(r, true, &found, err));
        if (found == CSV_END) break;
        TRY(append_row(r, err));
        take_row(r);
        if ((builder_length(r->rows) & 1023) == 0 && builder_bytes(r->rows) >= BATCH_BYTES) break;
    }
    if (builder_length(r->rows) == 0) goto done;
    TRY(builder_finish(r->rows, &built, err));
    if (r->cast) {
        TRY(array_cast(&r->built, &built, &r->schema, r->mem, out, err));
    } else {
        array_move(&built, out);
    }
done:
    array_release(&built);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------ columns */

/* The names in `names` (one per column): of the header, else f0, f1, … */
static pennon_status read_names(struct csv_reader *r, char ***names, pennon_error *err)
{
    enum csv_scan found = CSV_END;
    char **list = NULL;
    TRY_RETURN(next_row(r, true, &found, err));
    if (found == CSV_END)
        return error_set(err, PENNON_INVALID_ARGUMENT, "%s holds no rows",
                         r->source->name[0] != '\0' ? r->source->name : "the CSV");
    list = mem_calloc(r->mem, r->row.n, sizeof(*list), err);
    if (list == NULL) return err->code;
    *names = list;
    r->n_columns = r->row.n;
    for (size_t i = 0; i < r->n_columns; i++) {
        struct bytes text = {0};
        if (r->o.header) TRY_RETURN(csv_field_text(&r->row.fields[i], r->o.quote, &r->scratch, &text, err));
        if (!utf8_valid(text.data, text.size) ||
            memchr(text.data != NULL ? text.data : (const uint8_t *)"", 0, text.size) != NULL) {
            return error_set(err, PENNON_INVALID_ARGUMENT, "the name of column %zu is not UTF-8 text", i + 1);
        }
        list[i] = text.size > 0 ? mem_strndup(r->mem, (const char *)text.data, text.size, err) : mem_printf(r->mem, err, "f%zu", i);
        if (list[i] == NULL) return err->code;
    }
    if (r->o.header) take_row(r);
    return PENNON_OK;
}

/* Guess from the rows that are in the window; they stay there. */
static pennon_status guess_types(struct csv_reader *r, struct csv_guess *guesses, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct window *w = &r->window;
    enum csv_scan found = CSV_ROW;
    /* A first row longer than the usual window is looked at too. */
    TRY_RETURN(next_row(r, true, &found, err));
    TRY_RETURN(window_fill(w, INFER_BYTES, err));
    size_t at = w->at;
    uint64_t line = w->line;
    for (uint64_t n = 0; n < r->o.infer_rows && found == CSV_ROW; n++) {
        TRY(next_row(r, false, &found, err));
        if (found != CSV_ROW) break;
        if (r->row.n != r->n_columns) {
            st = wrong_count(r, err);
            goto done;
        }
        for (size_t i = 0; i < r->n_columns; i++) {
            struct bytes text;
            if (is_null(r, &r->row.fields[i], false)) continue;
            TRY(csv_field_text(&r->row.fields[i], r->o.quote, &r->scratch, &text, err));
            csv_guess_value(&guesses[i], text);
        }
        take_row(r);
    }
done:
    w->at = at;
    w->line = line;
    return st;
}

static pennon_status make_column(struct csv_reader *r, size_t i, const char *name, const struct csv_guess *guess, pennon_error *err)
{
    const struct ArrowSchema *given = column_types_find(&r->types, bytes_str(name));
    struct ArrowSchema *field = r->schema.children[i];
    struct ArrowSchema *built = r->built.children[i];
    const char *format = r->o.infer ? csv_guess_format(guess) : "u";
    r->columns[i].guessed = given == NULL && r->o.infer;
    if (given == NULL) {
        TRY_RETURN(arrow_schema_new(field, format, name, ARROW_FLAG_NULLABLE, 0, r->mem, err));
    } else {
        TRY_RETURN(arrow_schema_copy(given, r->mem, field, err));
    }
    TRY_RETURN(arrow_schema_copy(field->dictionary != NULL ? field->dictionary : field, r->mem, built, err));
    if (field->dictionary != NULL) {
        TRY_RETURN(arrow_schema_set_name(built, name, err));
        r->cast = true;
    }
    TRY_RETURN(arrow_type_of(built, &r->columns[i].type, err));
    if (!type_has_text(&r->columns[i].type)) {
        return error_set(err, PENNON_NOT_SUPPORTED, "column '%.100s': CSV cannot give values of type %s", name,
                         arrow_id_name(r->columns[i].type.id));
    }
    r->columns[i].text = arrow_id_is_text(r->columns[i].type.id);
    return PENNON_OK;
}

/* Every type that was given belongs to a column, and no name stands twice. */
static pennon_status check_names(const struct csv_reader *r, char *const *names, pennon_error *err)
{
    for (size_t t = 0; t < r->types.n; t++) {
        size_t i = 0;
        while (i < r->n_columns && strcmp(names[i], r->types.items[t].name) != 0) i++;
        if (i == r->n_columns)
            return error_set(err, PENNON_INVALID_ARGUMENT, "a type is given for '%.100s', which is no column",
                             r->types.items[t].name);
    }
    return PENNON_OK;
}

static int compare_names(const void *a, const void *b)
{
    const char *const *x = a;
    const char *const *y = b;
    return strcmp(*x, *y);
}

static pennon_status refuse_twins(const struct csv_reader *r, char *const *names, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const char **sorted = mem_calloc(r->mem, r->n_columns, sizeof(*sorted), err);
    if (sorted == NULL) return err->code;
    for (size_t i = 0; i < r->n_columns; i++) sorted[i] = names[i];
    if (r->n_columns > 1) qsort(sorted, r->n_columns, sizeof(*sorted), compare_names);
    for (size_t i = 1; i < r->n_columns; i++) {
        if (strcmp(sorted[i], sorted[i - 1]) == 0) FAIL(PENNON_INVALID_ARGUMENT, "two columns are named '%.100s'", sorted[i]);
    }
done:
    mem_free(r->mem, sorted);
    return st;
}

static pennon_status make_schema(struct csv_reader *r, char *const *names, const struct csv_guess *guesses, pennon_error *err)
{
    TRY_RETURN(arrow_schema_new(&r->schema, "+s", "", 0, r->n_columns, r->mem, err));
    TRY_RETURN(arrow_schema_new(&r->built, "+s", "", 0, r->n_columns, r->mem, err));
    r->columns = mem_calloc(r->mem, r->n_columns, sizeof *r->columns, err);
    if (r->columns == NULL) return err->code;
    for (size_t i = 0; i < r->n_columns; i++) TRY_RETURN(make_column(r, i, names[i], &guesses[i], err));
    r->rows = builder_new(&r->built, r->mem, err);
    if (r->rows == NULL) return err->code;
    for (size_t i = 0; i < r->n_columns; i++) r->columns[i].builder = builder_child(r->rows, i);
    return PENNON_OK;
}

static pennon_status read_head(struct csv_reader *r, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    char **names = NULL;
    struct csv_guess *guesses = NULL;
    TRY(read_names(r, &names, err));
    TRY(refuse_twins(r, names, err));
    TRY(check_names(r, names, err));
    TRY_NEW(guesses, mem_calloc(r->mem, r->n_columns, sizeof *guesses, err));
    for (size_t i = 0; i < r->n_columns; i++) guesses[i].could = CSV_COULD_ALL;
    if (r->o.infer) TRY(guess_types(r, guesses, err));
    TRY(make_schema(r, names, guesses, err));
done:
    for (size_t i = 0; names != NULL && i < r->n_columns; i++) mem_free(r->mem, names[i]);
    mem_free(r->mem, names);
    mem_free(r->mem, guesses);
    return st;
}

/* --------------------------------------------------------------------------------------------------------------- open */

static pennon_status copy_nulls(struct csv_reader *r, pennon_error *err)
{
    if (r->o.nulls == NULL) return PENNON_OK;
    r->nulls = mem_calloc(r->mem, r->o.n_nulls, sizeof(*r->nulls), err);
    if (r->nulls == NULL) return err->code;
    for (size_t i = 0; i < r->o.n_nulls; i++) {
        if (r->o.nulls[i] == NULL) return error_set(err, PENNON_INVALID_ARGUMENT, "nulls[%zu] is NULL", i);
        r->nulls[i] = mem_strdup(r->mem, r->o.nulls[i], err);
        if (r->nulls[i] == NULL) return err->code;
        r->n_nulls++;
    }
    return PENNON_OK;
}

/* The byte order mark, and lines that are left out. */
static pennon_status skip_start(struct csv_reader *r, pennon_error *err)
{
    struct window *w = &r->window;
    TRY_RETURN(window_fill(w, 4, err));
    const uint8_t *p = window_data(w);
    if (window_left(w) >= 2 && ((p[0] == 0xff && p[1] == 0xfe) || (p[0] == 0xfe && p[1] == 0xff))) {
        return error_set(err, PENNON_NOT_SUPPORTED, "the text is UTF-16: CSV has to be UTF-8");
    }
    if (window_left(w) >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) w->at += 3;
    for (uint64_t skipped = 0; skipped < r->o.skip_lines;) {
        const uint8_t *end = window_left(w) > 0 ? memchr(window_data(w), '\n', window_left(w)) : NULL;
        if (end == NULL) {
            if (w->ended) return PENNON_OK;
            TRY_RETURN(window_more(w, err));
            continue;
        }
        w->at = (size_t)(end - w->bytes.data) + 1;
        w->line++;
        skipped++;
    }
    return PENNON_OK;
}

pennon_status csv_reader_open(struct byte_source *source, const pennon_csv_options *options, struct ArrowArrayStream *out,
                              pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct csv_reader *r = NULL;
    struct ArrowSchema schema = {0};
    struct mem *mem = source->call.mem;

    memset(out, 0, sizeof *out);
    r = mem_calloc(mem, 1, sizeof *r, err);
    if (r == NULL) {
        byte_source_delete(source);
        return err->code;
    }
    r->mem = mem;
    r->source = source;
    r->o = *options;
    r->types.mem = mem;
    buf_init(&r->scratch, mem, BUF_NO_LIMIT);
    buf_init(&r->binary, mem, BUF_NO_LIMIT);
    window_init(&r->window, source, mem, (size_t)min_u64(r->o.max_row_bytes, SIZE_MAX / 4));
    TRY(check_options(&r->o, err));
    TRY(copy_nulls(r, err));
    TRY(column_types_parse(r->o.types, mem, &r->types, err));
    TRY(skip_start(r, err));
    TRY(read_head(r, err));
    TRY(arrow_schema_copy(&r->schema, mem, &schema, err));
    st = stream_new(&schema, csv_next, csv_reader_free, r, mem, out, err);
    return st;
done:
    csv_reader_free(r);
    return st;
}
