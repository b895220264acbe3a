/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* New columns of fragments: a data file beside the others, with a row for every physical row.
 *
 *   live rows of the source   |  a  b     c        |
 *   deleted rows              |        x     x  x  |
 *   rows of the file          |  a  b  a  c  c  c  |   a deleted row gets the first value of its batch: nobody reads it
 *
 * Fragments are written side by side on the threads of the call, as many as the memory is enough for; one that does not fit beside others is written
 * again alone. A batch of the source is in memory at a time for each, and what the writer holds until it makes a page.
 * Source: spec commits 8.1. */
#include "dataset/evolve.h"
#include "exec/plan.h"

/* Memory that a fragment should have to itself, and rows that are computed at once. */
#define FRAGMENT_BYTES ((uint64_t)64 << 20)
#define BATCH_ROWS 8192u
#define BATCH_BYTES ((uint64_t)8 << 20)

pennon_status evolve_live_rows(struct evolving *e, const struct call *c, const struct fragment *f, uint64_t *rows,
                               pennon_error *err)
{
    return fragment_live_rows(c, e->s, f, file_cache_length, e->files, rows, err);
}

pennon_status evolve_scan(struct evolving *e, const struct call *c, const struct fragment *f, struct scan_plan *plan,
                          struct ArrowArrayStream *out, pennon_error *err)
{
    const struct scan_spec spec = {.limit = UINT64_MAX,
                                   .batch_rows = e->o->batch_rows > 0 ? e->o->batch_rows : BATCH_ROWS,
                                   .batch_bytes = BATCH_BYTES,
                                   .readahead = c->threads * 2,
                                   .fragments = &f,
                                   .n_fragments = 1};
    return scan_open(c, e->s, e->files, plan, &spec, out, err);
}

/* ---- deleted rows ---- */

struct filling {
    const struct evolving *e;
    struct deletion_vector *gone; /* NULL = no row is deleted */
    uint64_t physical, live;
    uint64_t at, seen; /* physical rows written, live rows seen */
    uint64_t *indices; /* of a batch, in call->mem */
    size_t cap;
};

/* The row of the batch for each physical row that it stands for; `absent` for deleted ones. */
static void fill_indices(struct filling *x, uint64_t end, uint64_t absent, const uint8_t *live)
{
    uint64_t row = 0;
    for (uint64_t i = 0; i < end - x->at; i++) x->indices[i] = bit_get(live, i) ? row++ : absent;
}

static pennon_status spread_columns(struct filling *x, const struct call *c, const uint8_t *live, uint64_t end,
                                    struct ArrowArray *batch, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray out = {0};
    const struct schema *write = x->e->write;
    const size_t n = (size_t)(end - x->at);
    TRY(array_new(&out, 1, write->n_fields, c->mem, err));
    out.length = (int64_t)n;
    for (size_t i = 0; i < write->n_fields; i++) {
        /* The bytes of a blob are not written for nobody. */
        const bool null = field_has_blob(write->fields[i]) && write->fields[i]->nullable;
        fill_indices(x, end, null ? ARRAY_TAKE_NULL : 0, live);
        TRY(array_take(x->e->form.children[i], batch->children[i], x->indices, n, c->mem, out.children[i], err));
        array_release(batch->children[i]);
    }
    array_release(batch);
    array_move(&out, batch);
done:
    array_release(&out);
    return st;
}

/* Put the deleted rows before, between and behind the rows of the batch back. */
static pennon_status fill_batch(struct filling *x, const struct call *c, struct ArrowArray *batch, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    uint8_t *bits = NULL;
    const uint64_t rows = (uint64_t)batch->length;
    uint64_t end = x->at + rows;
    ASSERT(rows > 0 && x->seen + rows <= x->live);
    if (x->gone) end = x->seen + rows == x->live ? x->physical : deletion_vector_select_live(x->gone, x->seen + rows - 1) + 1;
    if (end - x->at > rows) {
        TRY_NEW(bits, mem_alloc(c->mem, (size_t)bitmap_bytes(end - x->at), err));
        const uint64_t alive = deletion_vector_live_bits(x->gone, x->at, end, bits);
        if (alive != rows) FAIL(PENNON_INTERNAL, "%" PRIu64 " live rows where a batch has %" PRIu64, alive, rows);
        if (end - x->at > x->cap) {
            mem_free(c->mem, x->indices);
            x->cap = 0;
            TRY_NEW(x->indices, mem_calloc(c->mem, (size_t)(end - x->at), sizeof *x->indices, err));
            x->cap = (size_t)(end - x->at);
        }
        TRY(spread_columns(x, c, bits, end, batch, err));
    }
    x->at = end;
    x->seen += rows;
done:
    mem_free(c->mem, bits);
    return st;
}

/* No null where none may be; what stands there is zero already. In 2.0 structs have no nulls. */
static void strip_nulls(const struct field *f, uint32_t version, struct ArrowArray *a)
{
    const bool bare = version == STORAGE_2_0 && f->kind == FIELD_STRUCT;
    if ((!f->nullable || bare) && a->n_buffers > 0) {
        array_give_block(a, 0, NULL, NULL);
        a->null_count = 0;
    }
    for (size_t i = 0; i < f->n_children && (int64_t)i < a->n_children; i++) strip_nulls(f->children[i], version, a->children[i]);
}

/* A fragment without live rows gets nulls, or zeros. */
static pennon_status fill_dead(struct filling *x, const struct call *c, struct file_writer *w, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray rows = {0};
    const struct schema *write = x->e->write;
    while (x->at < x->physical) {
        const uint64_t n = min_u64(x->physical - x->at, BATCH_ROWS);
        TRY(array_new(&rows, 1, write->n_fields, c->mem, err));
        rows.length = (int64_t)n;
        for (size_t i = 0; i < write->n_fields; i++) {
            TRY(array_nulls(x->e->form.children[i], (int64_t)n, c->mem, rows.children[i], err));
            strip_nulls(write->fields[i], x->e->s->storage_version, rows.children[i]);
        }
        TRY(file_writer_write(c, w, &rows, err));
        array_release(&rows);
        x->at += n;
    }
done:
    array_release(&rows);
    return st;
}

/* ---- parts of lists ---- */

/* New parts of structs within lists lie beside the old ones: the lists of both must have the same lengths, row by row. */
static bool adds_to_list(const struct field *table, const struct field *new, bool in_list)
{
    bool adds = false;
    if (!table) return in_list;
    const bool list = table->kind == FIELD_LIST || table->kind == FIELD_FSL_STRUCT;
    for (size_t i = 0; i < new->n_children && !adds; i++) {
        const struct field *have = NULL;
        for (size_t k = 0; k < table->n_children; k++) {
            if (table->children[k]->id == new->children[i]->id) have = table->children[k];
        }
        adds = adds_to_list(have, new->children[i], in_list || list);
    }
    return adds;
}

static const struct field *list_column(const struct evolving *e, size_t i)
{
    const struct field *have = schema_find_id(e->s->schema, e->write->fields[i]->id);
    return have && adds_to_list(have, e->write->fields[i], false) ? have : NULL;
}

/* The old columns of such lists, read beside the new values. */
struct old_lists {
    struct scan_plan *plan; /* NULL = there are none */
    struct ArrowArrayStream rows;
    struct ArrowArray batch;
    int64_t at;
};

static void old_lists_end(struct old_lists *o)
{
    array_release(&o->batch);
    stream_release(&o->rows);
    scan_plan_free(o->plan);
}

static pennon_status old_lists_open(struct evolving *e, const struct call *c, const struct fragment *f, bool deletions,
                                    struct old_lists *o, pennon_error *err)
{
    for (size_t i = 0; i < e->write->n_fields; i++) {
        const struct field *have = list_column(e, i);
        if (!have) continue;
        if (deletions)
            return error_set(err, PENNON_NOT_SUPPORTED,
                             "adding a part to the items of '%s' in fragment %u, which has deleted rows; compact the dataset first",
                             have->name, f->id);
        if (!o->plan) TRY_RETURN(scan_plan_begin(e->s, BLOB_AS_DESCRIPTOR, false, c->mem, &o->plan, err));
        TRY_RETURN(scan_plan_stored(o->plan, have->name, err));
    }
    if (!o->plan) return PENNON_OK;
    TRY_RETURN(scan_plan_finish(o->plan, e->s, PENNON_MATERIALIZE_HEURISTIC, NULL, err));
    return evolve_scan(e, c, f, scan_plan_retain(o->plan), &o->rows, err);
}

/* Do n rows have lists of equal lengths, at every level that both have? */
static bool same_lists(const struct field *new, const struct array_view *a, const struct field *have, const struct array_view *b,
                       int64_t first, int64_t at, int64_t n)
{
    bool same = true;
    if (new->kind == FIELD_LIST) {
        int64_t start_a = 0, start_b = 0, total = 0, end, length_a, length_b;
        for (int64_t i = 0; i < n && same; i++) {
            array_view_list(a, first + i, &end, &length_a);
            if (i == 0) start_a = end;
            array_view_list(b, at + i, &end, &length_b);
            if (i == 0) start_b = end;
            same = length_a == length_b;
            total += length_a;
        }
        return same && same_lists(new->children[0], &a->children[0], have->children[0], &b->children[0], start_a, start_b, total);
    }
    for (size_t i = 0; new->kind == FIELD_STRUCT &&i < new->n_children &&same; i++) {
        for (size_t k = 0; k < have->n_children && same; k++) {
            if (have->children[k]->id == new->children[i]->id)
                same = same_lists(new->children[i], &a->children[i], have->children[k], &b->children[k], first, at, n);
        }
    }
    return same;
}

static pennon_status check_part(struct evolving *e, const struct call *c, struct old_lists *o, const struct ArrowArray *batch,
                                int64_t first, int64_t n, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arena scratch;
    size_t k = 0;
    arena_init(&scratch, c->mem);
    for (size_t i = 0; i < e->write->n_fields; i++) {
        const struct field *have = list_column(e, i);
        struct array_view a, b;
        if (!have) continue;
        TRY(array_view_deep(&a, e->form.children[i], batch->children[i], &scratch, err));
        TRY(array_view_deep(&b, o->plan->arrow.children[k], o->batch.children[k], &scratch, err));
        k++;
        if (same_lists(e->write->fields[i], &a, have, &b, first, o->at, n)) continue;
        st = evolve_invalid(err, "column '%s': the new lists have other lengths than those that are there", have->name);
        goto done;
    }
done:
    arena_reset(&scratch);
    return st;
}

static pennon_status check_lists(struct evolving *e, const struct call *c, struct old_lists *o, const struct ArrowArray *batch,
                                 pennon_error *err)
{
    for (int64_t first = 0; o->plan && first < batch->length;) {
        if (!o->batch.release || o->at == o->batch.length) {
            array_release(&o->batch);
            o->at = 0;
            TRY_RETURN(stream_next(&o->rows, &o->batch, err));
            if (!o->batch.release) return error_set(err, PENNON_INTERNAL, "more values than rows");
            continue;
        }
        const int64_t left = o->batch.length - o->at, n = left < batch->length - first ? left : batch->length - first;
        TRY_RETURN(check_part(e, c, o, batch, first, n, err));
        first += n;
        o->at += n;
    }
    return PENNON_OK;
}

/* ---- one fragment ---- */

static pennon_status blob_reference(void *ctx, const struct call *c, struct bytes uri, uint32_t *base_id, struct buf *stored,
                                    pennon_error *err)
{
    struct evolving *e = ctx;
    return external_blob_reference(c, e->s, false, uri, base_id, stored, err);
}

static void report(struct evolving *e, uint64_t rows)
{
    const uint64_t done = atomic_fetch_add_explicit(&e->rows, rows, memory_order_relaxed) + rows;
    if (pthread_equal(pthread_self(), e->caller)) call_progress(e->c, min_u64(done, e->total), e->total);
}

static pennon_status write_rows(struct evolving *e, const struct call *c, struct filling *x, struct old_lists *lists,
                                struct ArrowArrayStream *rows, struct file_writer *w, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray batch = {0};
    for (;;) {
        TRY(call_check(c, err));
        TRY(stream_next(rows, &batch, err));
        if (!batch.release) break;
        const uint64_t before = x->at;
        if (batch.length > 0) {
            ASSERT(batch.offset == 0);
            TRY(check_lists(e, c, lists, &batch, err));
            TRY(fill_batch(x, c, &batch, err));
            TRY(file_writer_write(c, w, &batch, err));
        }
        array_release(&batch);
        report(e, x->at - before);
    }
    if (x->live == 0) TRY(fill_dead(x, c, w, err));
    if (x->seen != x->live || x->at != x->physical)
        FAIL(PENNON_INTERNAL, "%" PRIu64 " values for the %" PRIu64 " rows of a fragment", x->seen, x->live);
done:
    array_release(&batch);
    return st;
}

static pennon_status write_fragment(struct evolving *e, const struct call *c, struct evolved *v, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct filling x = {.e = e, .physical = v->physical};
    struct ArrowArrayStream rows = {0};
    struct old_lists lists = {0};
    struct file_writer *w = NULL, *finished;
    const struct file_writer_options o = {
        .version = e->s->storage_version, .blob_reference = blob_reference, .blob_reference_ctx = e};
    TRY(fragment_deletions(c, e->s, v->fragment, &x.gone, err));
    TRY(evolve_live_rows(e, c, v->fragment, &x.live, err));
    TRY(data_file_name(v->name, err));
    TRY_NEW(v->path, store_join(e->c->mem, e->folder, v->name, err));
    st = old_lists_open(e, c, v->fragment, x.gone != NULL, &lists, err);
    if (st == PENNON_OK) st = file_writer_open(c, e->store, v->path, e->write, &o, &w, err);
    if (st == PENNON_OK) st = e->source.open(e->source.ctx, c, e, v->fragment, &rows, err);
    if (st == PENNON_OK) st = write_rows(e, c, &x, &lists, &rows, w, err);
    if (st != PENNON_OK) goto done;
    finished = w;
    w = NULL;
    TRY(file_writer_finish(c, finished, &v->file, err));
done:
    file_writer_abort(w);
    stream_release(&rows);
    old_lists_end(&lists);
    mem_free(c->mem, x.indices);
    deletion_vector_release(x.gone);
    if (st != PENNON_OK && v->path) {
        atomic_fetch_sub_explicit(&e->rows, x.at, memory_order_relaxed);
        mem_free(e->c->mem, v->path);
        v->path = NULL; /* the writer left nothing */
    }
    return st;
}

static pennon_status make_message(struct evolving *e, struct evolved *v, pennon_error *err)
{
    const struct written_file *f = &v->file;
    int32_t *ids = arena_alloc(&e->arena, (f->n_fields * 2 + 1) * sizeof *ids, err);
    if (!ids) return err->code;
    if (f->n_fields) memcpy(ids, f->fields, f->n_fields * sizeof *ids);
    if (f->n_fields) memcpy(ids + f->n_fields, f->columns, f->n_fields * sizeof *ids);
    v->message = (struct data_file_message){.path = bytes_str(v->name),
                                            .fields = ids,
                                            .n_fields = f->n_fields,
                                            .column_indices = ids + f->n_fields,
                                            .n_column_indices = f->n_fields,
                                            .file_major_version = e->s->storage_version >> 16,
                                            .file_minor_version = e->s->storage_version & 0xffff,
                                            .file_size_bytes = f->size};
    e->result.files_written++;
    e->result.rows_written += f->rows;
    e->result.bytes_written += f->size;
    return PENNON_OK;
}

/* ---- all fragments ---- */

struct side_by_side {
    struct evolving *e;
    uint32_t threads; /* of a fragment */
    bool alone;       /* nothing else runs: what does not fit now does not fit */
};

static pennon_status write_one(void *arg, size_t i, pennon_error *err)
{
    const struct side_by_side *p = arg;
    struct evolved *v = &p->e->list[i];
    struct call task = *p->e->c;
    task.threads = p->threads;
    task.progress = NULL;
    pennon_status st = write_fragment(p->e, &task, v, err);
    if (st != PENNON_OVER_BUDGET || p->alone) return st;
    pennon_error_clear(err);
    v->again = true;
    return PENNON_OK;
}

static pennon_status write_in_turn(struct evolving *e, pennon_error *err)
{
    struct side_by_side p = {e, e->c->threads, true};
    const struct value_source *from = &e->source;
    for (size_t i = 0; i < e->n_list; i++) {
        struct evolved *v = &e->list[i];
        bool found = false;
        TRY_RETURN(call_check(e->c, err));
        if (from->find) TRY_RETURN(from->find(from->ctx, e, v->fragment, &v->message, &found, err));
        if (found) {
            atomic_fetch_add_explicit(&e->rows, v->physical, memory_order_relaxed);
            continue;
        }
        TRY_RETURN(write_one(&p, i, err));
        TRY_RETURN(make_message(e, v, err));
        if (!from->wrote) continue;
        TRY_RETURN(from->wrote(from->ctx, e, v->fragment, &v->message, err));
        v->kept = true;
    }
    return PENNON_OK;
}

static pennon_status write_side_by_side(struct evolving *e, pennon_error *err)
{
    const uint64_t fit = max_u64(mem_limit(e->c->mem) / FRAGMENT_BYTES, 1);
    const uint32_t width = (uint32_t)min_u64(min_u64(fit, e->c->threads), max_u64(e->n_list, 1));
    struct side_by_side p = {e, (uint32_t)max_u64(e->c->threads / width, 1), width == 1};
    TRY_RETURN(pool_parallel(call_pool(e->c), width, e->n_list, write_one, &p, err));
    p = (struct side_by_side){e, e->c->threads, true};
    for (size_t i = 0; i < e->n_list; i++) {
        if (e->list[i].again) TRY_RETURN(write_one(&p, i, err));
        TRY_RETURN(make_message(e, &e->list[i], err));
    }
    return PENNON_OK;
}

pennon_status evolve_write(struct evolving *e, pennon_error *err)
{
    const struct table_location *at = &e->s->at;
    e->store = at->store;
    pennon_store_retain(e->store);
    e->folder = at->path[0] != '\0' ? store_join(e->c->mem, at->path, "data", err) : mem_strdup(e->c->mem, "data", err);
    if (!e->folder) return err->code;
    for (size_t i = 0; i < e->n_list; i++) {
        struct evolved *v = &e->list[i];
        TRY_RETURN(fragment_load(e->s, v->fragment, err));
        TRY_RETURN(fragment_physical_rows(e->c, e->s, v->fragment, file_cache_length, e->files, &v->physical, err));
        e->total += v->physical;
    }
    return e->source.in_turn ? write_in_turn(e, err) : write_side_by_side(e, err);
}

void evolve_remove_files(struct evolving *e)
{
    pennon_error ignored;
    struct call quiet = *e->c;
    quiet.cancel = NULL;
    quiet.deadline_ns = INT64_MAX;
    pennon_error_init(&ignored);
    for (size_t i = 0; i < e->n_list; i++) {
        struct evolved *v = &e->list[i];
        if (!v->path || v->kept) continue;
        if (store_delete(&quiet, e->store, v->path, &ignored) != PENNON_OK) pennon_error_clear(&ignored);
        file_remove_sidecars(&quiet, e->store, v->path, v->file.n_sidecars);
    }
}
