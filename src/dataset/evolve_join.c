/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Values of a stream for the rows that have the same key: as new columns, or for columns that are there.
 *
 *   join    scan (key)                          -> row of the stream -> its values, or nulls                 Merge
 *   update  scan (columns as stored, key, address) -> row of the stream -> its values, or those from before  Update {REWRITE_COLUMNS}
 *
 * An update writes the columns of a fragment whole into a new file and marks them as dead in the files that had them; a file that has nothing else goes.
 * Which rows were matched goes into the transaction: their versions of last change are told by it.
 * Source: spec commits 7.4, 8.4. */
#include "dataset/evolve.h"
#include "dataset/evolve_lookup.h"
#include "exec/plan.h"
#include "expr/expr.h"

struct joining {
    struct evolving *e;
    struct lookup right;
    struct scan_plan *plan; /* old values where they are kept, then the key, then with `offsets` the address */
    size_t key;             /* child of the plan's result */
    bool updates;
    struct matched *matched; /* updates: per fragment of e->list */
};

/* Physical offsets of matched rows, ascending. */
struct matched {
    uint32_t *offsets;
    size_t n, cap;
};

static pennon_status check_key(const struct evolving *e, const char *left_on, const char *side, pennon_error *err)
{
    const struct field *f = NULL;
    if (system_column_of(left_on) == SYSTEM_NONE) TRY_RETURN(schema_find_inside(e->s->schema, left_on, &f, err));
    const enum system_column system = system_column_of(left_on);
    if (f || system == SYSTEM_ROW_ID || system == SYSTEM_ROW_ADDRESS) return PENNON_OK;
    (void)evolve_invalid(err, "Column %s does not exist in the left side %s", left_on, side);
    return error_kind(err, "FieldNotFound");
}

static pennon_status check_key_types(const struct joining *x, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf left, right;
    const struct ArrowSchema *have = x->plan->arrow.children[x->key];
    buf_init(&left, x->e->c->mem, 1 << 20);
    buf_init(&right, x->e->c->mem, 1 << 20);
    if (arrow_schema_equal(have, &x->right.key_type, SCHEMA_EQUAL_NO_NULLABLE)) goto done;
    TRY(expr_type_name(have, &left, err));
    TRY(expr_type_name(&x->right.key_type, &right, err));
    TRY(buf_terminate(&left, err));
    TRY(buf_terminate(&right, err));
    st = evolve_invalid(err, "Index column type mismatch: expected %.512s, got %.512s", (const char *)right.data,
                        (const char *)left.data);
done:
    buf_free(&left);
    buf_free(&right);
    return st;
}

/* ---- values of a fragment ---- */

struct joined {
    struct joining *x;
    struct ArrowArrayStream scan;
    struct matched *matched; /* or NULL */
    uint32_t *rows;
    size_t cap;
};

static pennon_status note_matched(struct joined *d, const struct ArrowArray *addresses, size_t n, pennon_error *err)
{
    struct matched *m = d->matched;
    const uint64_t *words = (const uint64_t *)addresses->buffers[1] + addresses->offset;
    for (size_t i = 0; i < n; i++) {
        if (d->rows[i] == LOOKUP_NONE) continue;
        TRY_RETURN(mem_grow(d->x->e->c->mem, &m->offsets, &m->cap, m->n, sizeof *m->offsets, SIZE_MAX / 16, err));
        m->offsets[m->n++] = (uint32_t)words[i];
    }
    return PENNON_OK;
}

/* The old values alone: the columns before the key. */
static pennon_status old_values(struct joined *d, struct ArrowArray *batch, struct ArrowArray *out, pennon_error *err)
{
    TRY_RETURN(array_new(out, 1, d->x->key, d->x->e->c->mem, err));
    out->length = batch->length;
    for (size_t i = 0; i < d->x->key; i++) array_move(batch->children[i], out->children[i]);
    return PENNON_OK;
}

static pennon_status joined_next(void *ctx, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct joined *d = ctx;
    const struct joining *x = d->x;
    const struct call *c = x->e->c;
    struct ArrowArray batch = {0}, old = {0};
    TRY(stream_next(&d->scan, &batch, err));
    if (!batch.release) goto done;
    const size_t n = (size_t)batch.length;
    if (n > d->cap) {
        mem_free(c->mem, d->rows);
        d->cap = 0;
        TRY_NEW(d->rows, mem_calloc(c->mem, n, sizeof *d->rows, err));
        d->cap = n;
    }
    TRY(lookup_find(&x->right, c, batch.children[x->key], d->rows, err));
    if (d->matched) TRY(note_matched(d, batch.children[x->key + 1], n, err));
    if (x->updates) TRY(old_values(d, &batch, &old, err));
    TRY(lookup_gather(&x->right, c, &x->e->form, d->rows, n, x->updates ? &old : NULL, out, err));
done:
    array_release(&batch);
    array_release(&old);
    return st;
}

static void joined_release(void *ctx)
{
    struct joined *d = ctx;
    stream_release(&d->scan);
    mem_free(d->x->e->c->mem, d->rows);
    mem_free(d->x->e->c->mem, d);
}

static pennon_status open_joined(void *ctx, const struct call *c, struct evolving *e, const struct fragment *f,
                                 struct ArrowArrayStream *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct joining *x = ctx;
    struct ArrowSchema schema = {0};
    struct joined *d = mem_calloc(c->mem, 1, sizeof *d, err);
    if (!d) return err->code;
    d->x = x;
    for (size_t i = 0; x->matched && i < e->n_list; i++) {
        if (e->list[i].fragment != f) continue;
        d->matched = &x->matched[i];
        d->matched->n = 0; /* it may be the second attempt */
    }
    TRY(evolve_scan(e, c, f, scan_plan_retain(x->plan), &d->scan, err));
    TRY(arrow_schema_copy(&e->form, c->mem, &schema, err));
    struct joined *given = d;
    d = NULL;
    TRY(stream_new(&schema, joined_next, joined_release, given, c->mem, out, err));
done:
    if (d) joined_release(d);
    return st;
}

/* ---- join ---- */

static pennon_status check_new_names(const struct joining *x, const char *side, pennon_error *err)
{
    for (int64_t i = 0; i < x->right.values.n_children; i++) {
        const char *name = x->right.values.children[i]->name ? x->right.values.children[i]->name : "";
        if (!schema_find_name(x->e->s->schema, name)) continue;
        return x->e->o->fragments ? evolve_invalid(err, "Column %s exists in left side %s and right side dataset", name, side)
                                  : evolve_invalid(err, "Column %s exists in both sides of the %s", name, side);
    }
    if (x->right.values.n_children == 0) return evolve_invalid(err, "no column to add: the right side has none but the key");
    return PENNON_OK;
}

static pennon_status plan_key(struct joining *x, const char *left_on, pennon_error *err)
{
    x->key = x->plan->n_outputs;
    return scan_plan_column(x->plan, left_on, err);
}

/* "fragment" or "dataset", as official's messages have it. */
static const char *side_of(const struct evolving *e) { return e->o->fragments ? "fragment" : "dataset"; }

static pennon_status join(struct evolving *e, struct ArrowArrayStream *data, const char *left_on, const char *right_on,
                          pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct joining x = {.e = e};
    struct schema *added = NULL;
    TRY(check_key(e, left_on, side_of(e), err));
    TRY(lookup_open(&x.right, e->c, data, right_on, side_of(e), err));
    TRY(check_new_names(&x, side_of(e), err));
    TRY(schema_from_arrow(e->c->mem, &x.right.values, e->s->storage_version, &added, err));
    TRY(evolve_add_schema(e, added, true, err));
    TRY(scan_plan_begin(e->s, BLOB_AS_DESCRIPTOR, false, e->c->mem, &x.plan, err));
    TRY(plan_key(&x, left_on, err));
    TRY(scan_plan_finish(x.plan, e->s, PENNON_MATERIALIZE_HEURISTIC, NULL, err));
    TRY(check_key_types(&x, err));
    batch_form_init(&x.right.form, &x.right.values, e->write);
    TRY(lookup_read(&x.right, e->c, data, err));
    e->source = (struct value_source){.open = open_joined, .ctx = &x};
    TRY(evolve_write(e, err));
    TRY(evolve_commit(e, false, err));
done:
    schema_release(added);
    scan_plan_free(x.plan);
    lookup_end(&x.right);
    return st;
}

typedef pennon_status (*join_fn)(struct evolving *e, struct ArrowArrayStream *data, const char *left_on, const char *right_on,
                                 pennon_error *err);

static pennon_status join_call(join_fn fn, pennon_dataset *ds, struct ArrowArrayStream *data, const char *left_on,
                               const char *right_on, const pennon_evolution_options *options, pennon_evolution_result *result,
                               pennon_error *err)
{
    struct api a;
    pennon_evolution_options o;
    struct evolving e;
    pennon_status st = evolve_begin(&e, &a, &o, options, ds);
    if (st == PENNON_OK && (!data || !data->release))
        st = error_set(a.err, PENNON_INVALID_ARGUMENT, "the stream is NULL or released");
    if (st == PENNON_OK && !left_on) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "left_on is NULL");
    if (st == PENNON_OK) st = fn(&e, data, left_on, right_on ? right_on : left_on, a.err);
    if (data) stream_release(data);
    return evolve_end(&e, st, result, err);
}

pennon_status pennon_dataset_join_columns(pennon_dataset *ds, struct ArrowArrayStream *data, const char *left_on,
                                          const char *right_on, const pennon_evolution_options *options,
                                          pennon_evolution_result *result, pennon_error *err)
{
    return join_call(join, ds, data, left_on, right_on, options, result, err);
}

/* ---- update ---- */

static pennon_status check_old_names(const struct joining *x, pennon_error *err)
{
    for (int64_t i = 0; i < x->right.values.n_children; i++) {
        const char *name = x->right.values.children[i]->name ? x->right.values.children[i]->name : "";
        if (system_column_of(name) != SYSTEM_NONE)
            return evolve_invalid(err, "Column %s is a reversed metadata column and cannot be updated", name);
        if (!schema_find_name(x->e->s->schema, name)) {
            (void)evolve_invalid(err, "Column %s in right side %s does not exist in left side %s", name, side_of(x->e),
                                 side_of(x->e));
            return error_kind(err, "FieldNotFound");
        }
    }
    if (x->right.values.n_children == 0) return evolve_invalid(err, "no column to update: the right side has none but the key");
    return PENNON_OK;
}

/* Old and new values stand side by side: the same parts in the same order. */
static bool same_parts(const struct field *a, const struct field *b)
{
    bool same = a->id == b->id && a->n_children == b->n_children;
    for (size_t i = 0; i < a->n_children && same; i++) same = same_parts(a->children[i], b->children[i]);
    return same;
}

static pennon_status check_parts(const struct evolving *e, pennon_error *err)
{
    for (size_t i = 0; i < e->write->n_fields; i++) {
        const struct field *new = e->write->fields[i], *have = schema_find_id(e->s->schema, new->id);
        if (field_has_blob(have)) return error_set(err, PENNON_NOT_SUPPORTED, "updating the blob column '%s'", have->name);
        if (!same_parts(have, new))
            return error_set(err, PENNON_NOT_SUPPORTED,
                             "updating some parts of '%s', or in another order: give all as the dataset has them", have->name);
    }
    return PENNON_OK;
}

static pennon_status plan_update(struct joining *x, const char *left_on, pennon_error *err)
{
    const struct schema *write = x->e->write;
    TRY_RETURN(scan_plan_begin(x->e->s, BLOB_AS_DESCRIPTOR, false, x->e->c->mem, &x->plan, err));
    for (size_t i = 0; i < write->n_fields; i++) TRY_RETURN(scan_plan_stored(x->plan, write->fields[i]->name, err));
    TRY_RETURN(plan_key(x, left_on, err));
    TRY_RETURN(scan_plan_column(x->plan, system_column_name(SYSTEM_ROW_ADDRESS), err));
    return scan_plan_finish(x->plan, x->e->s, PENNON_MATERIALIZE_HEURISTIC, NULL, err);
}

/* The fragment with its new file; what that has is dead in the others. */
static pennon_status updated_fragment(const struct evolving *e, const struct evolved *v, struct arena *a,
                                      struct fragment_message *out, pennon_error *err)
{
    const struct data_file_message *new = &v->message;
    *out = *v->fragment->message;
    struct data_file_message *files = arena_calloc(a, out->n_files + 1, sizeof *files, err);
    if (!files) return err->code;
    size_t n = 0;
    UNUSED(e);
    for (size_t i = 0; i < out->n_files; i++) {
        struct data_file_message *f = &files[n];
        *f = out->files[i];
        int32_t *ids = arena_calloc(a, f->n_fields + 1, sizeof *ids, err);
        if (!ids) return err->code;
        bool live = false;
        for (size_t k = 0; k < f->n_fields; k++) {
            ids[k] = f->fields[k];
            for (size_t j = 0; j < new->n_fields; j++) ids[k] = ids[k] == new->fields[j] ? -2 : ids[k];
            live = live || ids[k] != -2;
        }
        f->fields = ids;
        n += live;
    }
    files[n++] = *new;
    out->files = files;
    out->n_files = n;
    return PENNON_OK;
}

static pennon_status fill_offsets(const struct joining *x, struct transaction *t, pennon_error *err)
{
    const struct evolving *e = x->e;
    struct update_message *op = &t->op.update;
    op->updated_offsets = arena_calloc(&t->arena, e->n_list + 1, sizeof *op->updated_offsets, err);
    if (!op->updated_offsets) return err->code;
    for (size_t i = 0; i < e->n_list; i++) {
        struct u32_list_message *list = arena_calloc(&t->arena, 1, sizeof *list, err);
        if (!list) return err->code;
        list->values = x->matched[i].offsets;
        list->n_values = x->matched[i].n;
        op->updated_offsets[op->n_updated_offsets++] =
            (struct offsets_entry_message){.key = e->list[i].fragment->id, .value = list};
    }
    return PENNON_OK;
}

static pennon_status commit_update(struct joining *x, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct evolving *e = x->e;
    struct transaction *t = NULL;
    TRY(transaction_new(e->c->mem, OPERATION_UPDATE, e->s->version, &t, err));
    struct update_message *op = &t->op.update;
    op->update_mode = UPDATE_REWRITE_COLUMNS;
    TRY_NEW(op->updated_fragments, arena_calloc(&t->arena, e->n_list + 1, sizeof *op->updated_fragments, err));
    for (size_t i = 0; i < e->n_list; i++) {
        TRY(updated_fragment(e, &e->list[i], &t->arena, &op->updated_fragments[i], err));
        op->n_updated_fragments++;
    }
    const struct data_file_message *file = e->n_list > 0 ? &e->list[0].message : NULL;
    TRY_NEW(op->fields_modified, arena_calloc(&t->arena, (file ? file->n_fields : 0) + 1, sizeof *op->fields_modified, err));
    for (size_t i = 0; file && i < file->n_fields; i++) op->fields_modified[op->n_fields_modified++] = (uint32_t)file->fields[i];
    if (snapshot_has_stable_ids(e->s)) TRY(fill_offsets(x, t, err));
    st = evolve_commit_transaction(e, t, err);
    t = NULL;
done:
    transaction_free(t);
    return st;
}

static pennon_status update(struct evolving *e, struct ArrowArrayStream *data, const char *left_on, const char *right_on,
                            pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct joining x = {.e = e, .updates = true};
    struct schema *values = NULL;
    TRY(check_key(e, left_on, side_of(e), err));
    TRY(lookup_open(&x.right, e->c, data, right_on, side_of(e), err));
    TRY(check_old_names(&x, err));
    TRY_NEW(x.matched, mem_calloc(e->c->mem, e->n_list + 1, sizeof *x.matched, err));
    TRY(schema_from_arrow(e->c->mem, &x.right.values, e->s->storage_version, &values, err));
    TRY(schema_match_part(e->c->mem, e->s->schema, values, &e->write, err));
    TRY(schema_to_arrow(e->write, SCHEMA_VIEW_FILE, BLOB_AS_INPUT, e->c->mem, &e->form, err));
    TRY(check_parts(e, err));
    TRY(plan_update(&x, left_on, err));
    TRY(check_key_types(&x, err));
    batch_form_init(&x.right.form, &x.right.values, e->write);
    TRY(lookup_read(&x.right, e->c, data, err));
    e->schema = schema_retain(e->s->schema);
    e->source = (struct value_source){.open = open_joined, .ctx = &x};
    TRY(evolve_write(e, err));
    TRY(commit_update(&x, err));
done:
    for (size_t i = 0; x.matched && i < e->n_list; i++) mem_free(e->c->mem, x.matched[i].offsets);
    mem_free(e->c->mem, x.matched);
    schema_release(values);
    scan_plan_free(x.plan);
    lookup_end(&x.right);
    return st;
}

pennon_status pennon_dataset_update_columns(pennon_dataset *ds, struct ArrowArrayStream *data, const char *left_on,
                                            const char *right_on, const pennon_evolution_options *options,
                                            pennon_evolution_result *result, pennon_error *err)
{
    return join_call(update, ds, data, left_on, right_on, options, result, err);
}
