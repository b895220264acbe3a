/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Columns of a function, which is called for one batch after the other.
 *
 * A batch is the live rows of `batch_rows` physical ones, so that its number and its rows do not depend on how the scan cuts. What a checkpoint has kept
 * is believed when it fits: a batch by its number of rows (and its schema), a fragment by its data files, and by the ids and rows of the new one.
 *
 *   scan (columns, address) -> rows of one window -> kept result, or the function's -> checked -> file
 *
 * Source: spec commits 8.1, api-surface 25. */
#include "dataset/batch_form.h"
#include "dataset/evolve.h"
#include "exec/plan.h"
#include "table/message_json.h"

#define FUNCTION_BATCH_ROWS 1024u

struct calling {
    struct evolving *e;
    pennon_column_function fn;
    pennon_checkpoint kept; /* struct_size 0 = none */
    struct scan_plan *plan;
    struct ArrowSchema input;           /* of the function */
    size_t address;                     /* child of the scan */
    bool hides_address;                 /* the function did not ask for it */
    const struct ArrowSchema *declared; /* by the caller */
    struct batch_form form;
    uint64_t window; /* physical rows of a batch */
};

/* The batches of a fragment. */
struct batches {
    struct calling *x;
    uint64_t fragment, number; /* the window under way */
    struct ArrowArrayStream scan;
    struct shared_array *held; /* rows from `at` on are still to come; NULL = nothing */
    int64_t at;
};

static pennon_status callback_failed(pennon_status st, const char *what, const char *message, pennon_error *err)
{
    if (st < PENNON_OK || st > PENNON_OUT_OF_MEMORY) st = PENNON_INTERNAL;
    return error_set(err, st, "%s: %s", what, message && message[0] ? message : "it failed, and did not say why");
}

/* ---- rows of one window ---- */

static uint64_t window_at(const struct batches *b, int64_t row)
{
    const struct ArrowArray *a = shared_array_get(b->held)->children[b->x->address];
    const uint64_t address = ((const uint64_t *)a->buffers[1])[a->offset + row];
    return (uint64_t)(uint32_t)address / b->x->window;
}

/* Rows to come, in b->held; none at the end. */
static pennon_status hold_rows(struct batches *b, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray batch = {0};
    if (b->held && b->at < shared_array_get(b->held)->length) return PENNON_OK;
    shared_array_release(b->held);
    b->held = NULL;
    b->at = 0;
    do {
        array_release(&batch);
        TRY(stream_next(&b->scan, &batch, err));
    } while (batch.release && batch.length == 0);
    if (!batch.release) goto done;
    ASSERT(batch.offset == 0);
    TRY_NEW(b->held, shared_array_new(&batch, b->x->e->c->mem, err));
done:
    array_release(&batch);
    return st;
}

struct window_parts {
    struct ArrowArray *parts;
    size_t n, cap;
};

/* The rows at hand that belong to the window. */
static pennon_status take_part(struct batches *b, struct window_parts *w, pennon_error *err)
{
    struct mem *m = b->x->e->c->mem;
    const int64_t rows = shared_array_get(b->held)->length;
    int64_t end = b->at;
    while (end < rows && window_at(b, end) == b->number) end++;
    TRY_RETURN(mem_grow(m, &w->parts, &w->cap, w->n, sizeof *w->parts, SIZE_MAX / 1024, err));
    TRY_RETURN(array_slice(&b->x->plan->arrow, b->held, b->at, end - b->at, m, &w->parts[w->n], err));
    w->n++;
    b->at = end;
    return PENNON_OK;
}

static pennon_status join_parts(struct batches *b, struct window_parts *w, struct ArrowArray *out, pennon_error *err)
{
    if (w->n == 1) {
        array_move(&w->parts[0], out);
        return PENNON_OK;
    }
    struct mem *m = b->x->e->c->mem;
    const struct ArrowArray **list = mem_calloc(m, w->n, sizeof *list, err);
    if (!list) return err->code;
    for (size_t i = 0; i < w->n; i++) list[i] = &w->parts[i];
    pennon_status st = array_concat(&b->x->plan->arrow, w->n, list, m, out, err);
    mem_free(m, list);
    return st;
}

/* All live rows of the next window that has some; out->release NULL at the end. */
static pennon_status next_window(struct batches *b, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct window_parts w = {0};
    TRY(hold_rows(b, err));
    if (!b->held) goto done;
    b->number = window_at(b, b->at);
    while (b->held && window_at(b, b->at) == b->number) {
        TRY(take_part(b, &w, err));
        TRY(hold_rows(b, err));
    }
    TRY(join_parts(b, &w, out, err));
done:
    for (size_t i = 0; i < w.n; i++) array_release(&w.parts[i]);
    mem_free(b->x->e->c->mem, w.parts);
    return st;
}

/* What the function gets: without the address that it did not ask for. */
static pennon_status input_of(struct batches *b, struct ArrowArray *rows, struct ArrowArray *out, pennon_error *err)
{
    if (!b->x->hides_address) {
        array_move(rows, out);
        return PENNON_OK;
    }
    const size_t n = (size_t)rows->n_children - 1;
    ASSERT(b->x->address == n);
    TRY_RETURN(array_new(out, 1, n, b->x->e->c->mem, err));
    out->length = rows->length;
    for (size_t i = 0; i < n; i++) array_move(rows->children[i], out->children[i]);
    return PENNON_OK;
}

/* ---- values of a batch ---- */

static pennon_status check_rows(const struct ArrowArray *values, int64_t rows, pennon_error *err)
{
    if (values->length == rows) return PENNON_OK;
    return evolve_invalid(err, "the function's batch has different size with the source batch: %" PRId64 " != %" PRId64, rows,
                          values->length);
}

static pennon_status kept_batch(struct batches *b, int64_t rows, struct ArrowArray *out, pennon_error *err)
{
    const pennon_checkpoint *k = &b->x->kept;
    const char *message = NULL;
    if (k->struct_size == 0) return PENNON_OK;
    pennon_status st = k->get_batch(k->ctx, b->fragment, b->number, out, &message);
    if (st != PENNON_OK) return callback_failed(st, "the checkpoint", message, err);
    if (!out->release) return PENNON_OK;
    if (out->length == rows && batch_prepare(b->x->e->c, &b->x->form, out, err) == PENNON_OK) return PENNON_OK;
    pennon_error_clear(err);
    array_release(out);
    return PENNON_OK;
}

static pennon_status keep_batch(struct batches *b, struct ArrowArray *values, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const pennon_checkpoint *k = &b->x->kept;
    struct ArrowArray copy = {0};
    struct shared_array *shared = NULL;
    const char *message = NULL;
    struct mem *m = b->x->e->c->mem;
    if (k->struct_size == 0) return PENNON_OK;
    const int64_t rows = values->length;
    TRY_NEW(shared, shared_array_new(values, m, err));
    TRY(array_slice(b->x->declared, shared, 0, rows, m, &copy, err));
    TRY(array_slice(b->x->declared, shared, 0, rows, m, values, err));
    st = k->put_batch(k->ctx, b->fragment, b->number, b->x->declared, &copy, &message);
    if (st != PENNON_OK) st = callback_failed(st, "the checkpoint", message, err);
done:
    array_release(&copy);
    shared_array_release(shared);
    return st;
}

static pennon_status call_function(struct batches *b, struct ArrowArray *rows, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const pennon_column_function *fn = &b->x->fn;
    struct ArrowArray in = {0};
    const char *message = NULL;
    const int64_t n = rows->length;
    TRY(input_of(b, rows, &in, err));
    st = fn->map(fn->ctx, &b->x->input, &in, out, &message);
    if (st != PENNON_OK) {
        st = callback_failed(st, "the function", message, err);
        goto done;
    }
    if (!out->release) {
        st = evolve_invalid(err, "the function gave no batch");
        goto done;
    }
    TRY(array_validate(b->x->declared, out, ARRAY_VALIDATE_FULL, err));
    TRY(check_rows(out, n, err));
    TRY(keep_batch(b, out, err));
    TRY(batch_prepare(b->x->e->c, &b->x->form, out, err));
done:
    array_release(&in);
    return st;
}

static pennon_status batches_next(void *ctx, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct batches *b = ctx;
    struct ArrowArray rows = {0};
    TRY(call_check(b->x->e->c, err));
    TRY(next_window(b, &rows, err));
    if (!rows.release) goto done;
    TRY(kept_batch(b, rows.length, out, err));
    if (!out->release) TRY(call_function(b, &rows, out, err));
done:
    array_release(&rows);
    if (st != PENNON_OK) array_release(out);
    return st;
}

static void batches_release(void *ctx)
{
    struct batches *b = ctx;
    shared_array_release(b->held);
    stream_release(&b->scan);
    mem_free(b->x->e->c->mem, b);
}

static pennon_status open_batches(void *ctx, const struct call *c, struct evolving *e, const struct fragment *f,
                                  struct ArrowArrayStream *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct calling *x = ctx;
    struct ArrowSchema schema = {0};
    struct batches *b = mem_calloc(c->mem, 1, sizeof *b, err);
    if (!b) return err->code;
    b->x = x;
    b->fragment = f->id;
    TRY(evolve_scan(e, c, f, scan_plan_retain(x->plan), &b->scan, err));
    TRY(arrow_schema_copy(&e->form, c->mem, &schema, err));
    struct batches *given = b;
    b = NULL;
    TRY(stream_new(&schema, batches_next, batches_release, given, c->mem, out, err));
done:
    if (b) batches_release(b);
    return st;
}

/* ---- kept fragments ---- */

struct expected_ids {
    const struct data_file_message *file;
    size_t at;
    bool fits;
};

static pennon_status expect_id(void *ctx, const struct field *f, uint32_t column, pennon_error *err)
{
    struct expected_ids *x = ctx;
    UNUSED(err);
    x->fits = x->fits && x->at < x->file->n_fields && x->file->fields[x->at] == f->id &&
              x->file->column_indices[x->at] == (int32_t)column;
    x->at++;
    return PENNON_OK;
}

/* The fragment as it is, and one file more that has the new columns. */
static bool fits_fragment(const struct evolving *e, const struct fragment *f, const struct fragment_message *kept)
{
    const struct fragment_message *now = f->message;
    const struct data_file_message *file = kept->n_files > 0 ? &kept->files[kept->n_files - 1] : NULL;
    bool fits = kept->id == f->id && kept->n_files == now->n_files + 1 && file && file->n_fields == file->n_column_indices &&
                !file->has_base_id && file->path.size > 0;
    for (size_t i = 0; fits && i < now->n_files; i++) fits = bytes_equal(kept->files[i].path, now->files[i].path);
    if (!fits) return false;
    struct expected_ids x = {file, 0, true};
    pennon_error ignored;
    pennon_error_init(&ignored);
    const pennon_status st = schema_walk_columns(e->write, e->s->storage_version, expect_id, &x, &ignored);
    pennon_error_clear(&ignored);
    return st == PENNON_OK && x.fits && x.at == file->n_fields;
}

/* Is the data file there, with a row for each of the fragment's? */
static bool fits_file(const struct evolving *e, const struct fragment *f, const struct data_file_message *file)
{
    struct file_reader *r = NULL;
    pennon_error ignored;
    uint64_t rows = 0;
    pennon_error_init(&ignored);
    char *path =
        mem_printf(e->c->mem, &ignored, "%s/%.*s", e->folder, (int)min_u64(file->path.size, 256), (const char *)file->path.data);
    bool fits = path && file_reader_open(e->c, e->store, path, file->file_size_bytes, &r, &ignored) == PENNON_OK;
    if (fits) fits = fragment_physical_rows(e->c, e->s, f, file_cache_length, e->files, &rows, &ignored) == PENNON_OK;
    if (fits) fits = file_reader_rows(r) == rows && file_reader_version(r) == e->s->storage_version;
    file_reader_release(r);
    mem_free(e->c->mem, path);
    pennon_error_clear(&ignored);
    return fits;
}

static pennon_status find_kept(void *ctx, struct evolving *e, const struct fragment *f, struct data_file_message *file, bool *found,
                               pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct calling *x = ctx;
    const char *text = NULL, *message = NULL;
    json_t *json = NULL;
    struct fragment_message kept;
    st = x->kept.get_fragment(x->kept.ctx, f->id, &text, &message);
    if (st != PENNON_OK) return callback_failed(st, "the checkpoint", message, err);
    *found = false;
    if (!text) return PENNON_OK;
    TRY(message_json_parse(e->c->mem, bytes_str(text), "a fragment of the checkpoint", &json, err));
    TRY(message_json_read(&fragment_table, json, false, &e->arena, &kept, err));
    *found = fits_fragment(e, f, &kept) && fits_file(e, f, &kept.files[kept.n_files - 1]);
    if (*found) *file = kept.files[kept.n_files - 1];
    if (!*found) call_log(e->c, PENNON_LOG_DEBUG, "what the checkpoint has of fragment %u does not fit the dataset", f->id);
done:
    if (json) json_decref(json);
    return st;
}

static pennon_status keep_fragment(void *ctx, struct evolving *e, const struct fragment *f, const struct data_file_message *file,
                                   pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct calling *x = ctx;
    const char *message = NULL;
    struct fragment_message m = *f->message;
    struct buf text;
    buf_init(&text, e->c->mem, BUF_NO_LIMIT);
    TRY_NEW(m.files, arena_calloc(&e->arena, m.n_files + 1, sizeof *m.files, err));
    for (size_t i = 0; i < m.n_files; i++) m.files[i] = f->message->files[i];
    m.files[m.n_files++] = *file;
    TRY(fragment_to_json(&m, &text, err));
    TRY(buf_terminate(&text, err));
    st = x->kept.put_fragment(x->kept.ctx, f->id, (const char *)text.data, &message);
    if (st != PENNON_OK) st = callback_failed(st, "the checkpoint", message, err);
done:
    buf_free(&text);
    return st;
}

/* ---- the call ---- */

/* Columns of the scan, and of what the function gets. */
static pennon_status plan_columns(struct calling *x, pennon_error *err)
{
    struct evolving *e = x->e;
    const pennon_names *names = x->fn.read_columns;
    struct column_request r = {.all = !names,
                               .columns = names ? names->items : NULL,
                               .n = names ? names->n : 0,
                               .row_address = true,
                               .blobs = BLOB_AS_DESCRIPTOR};
    TRY_RETURN(scan_plan_begin(e->s, BLOB_AS_DESCRIPTOR, false, e->c->mem, &x->plan, err));
    TRY_RETURN(scan_plan_columns(x->plan, e->s, &r, NULL, err));
    TRY_RETURN(scan_plan_finish(x->plan, e->s, PENNON_MATERIALIZE_HEURISTIC, NULL, err));
    const struct ArrowSchema *all = &x->plan->arrow;
    x->hides_address = true;
    for (size_t i = 0; i < r.n; i++) x->hides_address = x->hides_address && strcmp(names->items[i], "_rowaddr") != 0;
    x->address = (size_t)arrow_schema_find(all, bytes_str("_rowaddr"));
    const size_t n = (size_t)all->n_children - x->hides_address;
    TRY_RETURN(arrow_schema_new(&x->input, "+s", "", 0, n, e->c->mem, err));
    for (size_t i = 0; i < n; i++) TRY_RETURN(arrow_schema_copy(all->children[i], e->c->mem, x->input.children[i], err));
    return PENNON_OK;
}

static pennon_status read_function(struct calling *x, const pennon_column_function *given, pennon_error *err)
{
    x->fn = (pennon_column_function){.struct_size = sizeof x->fn};
    TRY_RETURN(options_read(&x->fn, sizeof x->fn, given, "pennon_column_function", err));
    if (!given || !x->fn.map) return error_set(err, PENNON_INVALID_ARGUMENT, "there is no function");
    if (!x->fn.checkpoint) return PENNON_OK;
    x->kept.struct_size = sizeof x->kept;
    TRY_RETURN(options_read(&x->kept, sizeof x->kept, x->fn.checkpoint, "pennon_checkpoint", err));
    if (!x->kept.get_batch || !x->kept.put_batch || !x->kept.get_fragment || !x->kept.put_fragment)
        return error_set(err, PENNON_INVALID_ARGUMENT, "a checkpoint without all of its functions");
    return PENNON_OK;
}

static pennon_status add_udf(struct evolving *e, const struct ArrowSchema *declared, const pennon_column_function *fn,
                             pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct calling x = {.e = e, .declared = declared, .window = e->o->batch_rows > 0 ? e->o->batch_rows : FUNCTION_BATCH_ROWS};
    struct schema *added = NULL;
    TRY(read_function(&x, fn, err));
    TRY(arrow_schema_validate(declared, err));
    TRY(schema_from_arrow(e->c->mem, declared, e->s->storage_version, &added, err));
    if (added->n_fields == 0) {
        st = evolve_invalid(err, "no column to add: the declared schema has none");
        goto done;
    }
    TRY(evolve_add_schema(e, added, true, err));
    TRY(plan_columns(&x, err));
    batch_form_init(&x.form, declared, e->write);
    e->source = (struct value_source){.open = open_batches, .ctx = &x, .in_turn = true};
    if (x.kept.struct_size > 0) {
        e->source.find = find_kept;
        e->source.wrote = keep_fragment;
    }
    TRY(evolve_write(e, err));
    TRY(evolve_commit(e, false, err));
done:
    schema_release(added);
    arrow_schema_release(&x.input);
    scan_plan_free(x.plan);
    return st;
}

pennon_status pennon_dataset_add_columns_udf(pennon_dataset *ds, const struct ArrowSchema *schema,
                                             const pennon_column_function *function, const pennon_evolution_options *options,
                                             pennon_evolution_result *result, pennon_error *err)
{
    struct api a;
    pennon_evolution_options o;
    struct evolving e;
    pennon_status st = evolve_begin(&e, &a, &o, options, ds);
    if (st == PENNON_OK && !schema) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "schema is NULL");
    if (st == PENNON_OK) st = add_udf(&e, schema, function, a.err);
    return evolve_end(&e, st, result, err);
}
