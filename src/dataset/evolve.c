/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The frame of verbs that change columns: options, the schema with new columns, the transaction and its commit.
 *
 * verb               | operation                                    | conflicts with others' rows
 * -------------------|----------------------------------------------|----------------------------
 * add, join, cast    | Merge: all fragments, the schema             | yes
 * columns of nulls   | Merge: fragments as they are, the schema     | yes
 * drop, rename, null | Project: the schema                          | no
 *
 * Nothing is begun again after a conflict: values were made of rows that are no longer all.
 * Source: spec commits 3.7, 3.8, 8. */
#include "dataset/evolve.h"

#include "expr/expr.h"

void pennon_evolution_options_init(pennon_evolution_options *options)
{
    if (options) *options = (pennon_evolution_options){.struct_size = sizeof *options, .max_retries = 20};
}

pennon_status evolve_invalid(pennon_error *err, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)error_set_v(err, PENNON_INVALID_ARGUMENT, fmt, args);
    va_end(args);
    return error_kind(err, "InvalidInput");
}

/* ---- begin ---- */

static pennon_status choose_fragments(struct evolving *e, pennon_error *err)
{
    const pennon_ids *ids = e->o->fragments;
    const size_t n = ids ? ids->n : e->s->n_fragments;
    e->list = mem_calloc(e->c->mem, n + 1, sizeof *e->list, err);
    if (!e->list) return err->code;
    for (size_t i = 0; i < n; i++) {
        struct evolved *x = &e->list[i];
        x->fragment = ids ? snapshot_find_fragment(e->s, ids->items[i]) : &e->s->fragments[i];
        if (!x->fragment)
            return error_set(err, PENNON_NOT_FOUND, "fragment %" PRIu64 ": the dataset has none of that id", ids->items[i]);
        for (size_t k = 0; ids && k < i; k++) {
            if (e->list[k].fragment == x->fragment)
                return error_set(err, PENNON_INVALID_ARGUMENT, "fragment %" PRIu64 " is named twice", ids->items[i]);
        }
        e->n_list++;
    }
    return PENNON_OK;
}

/* Behind every id that the schema or a data file has. */
static pennon_status next_field_id(struct evolving *e, pennon_error *err)
{
    int32_t highest = schema_max_id(e->s->schema);
    TRY_RETURN(snapshot_load_fragments(e->s, err));
    for (size_t i = 0; i < e->s->n_fragments; i++) {
        const struct fragment *f = &e->s->fragments[i];
        for (uint32_t k = 0; k < f->n_files; k++) {
            for (uint32_t j = 0; j < f->files[k].n_fields; j++)
                if (f->files[k].fields[j] > highest) highest = f->files[k].fields[j];
        }
    }
    if (highest == INT32_MAX)
        return error_set(err, PENNON_INVALID_ARGUMENT, "field ids are used up: the highest is %" PRId32, INT32_MAX);
    e->next_id = highest + 1;
    return PENNON_OK;
}

pennon_status evolve_begin(struct evolving *e, struct api *a, pennon_evolution_options *o, const pennon_evolution_options *options,
                           pennon_dataset *ds)
{
    *e = (struct evolving){.api = a, .ds = ds, .o = o, .keeps_nullability = true, .caller = pthread_self()};
    pennon_evolution_options_init(o);
    a->c = (struct call){0};
    a->err = &a->local;
    pennon_error_init(&a->local);
    TRY_RETURN(options_read(o, sizeof *o, options, "pennon_evolution_options", a->err));
    TRY_RETURN(api_begin(a, o->call, ds, "dataset"));
    e->c = &a->c;
    arena_init(&e->arena, e->c->mem);
    if (o->uncommitted) *o->uncommitted = NULL;
    if (o->fragments && !o->uncommitted)
        return error_set(a->err, PENNON_INVALID_ARGUMENT, "some fragments alone cannot be committed: ask for the transaction");
    if (o->batch_rows > INT32_MAX) return error_set(a->err, PENNON_INVALID_ARGUMENT, "batch_rows %" PRIu64, o->batch_rows);
    dataset_get(ds, &e->s, &e->files);
    if (e->s->storage_version == STORAGE_LEGACY)
        return error_set(
            a->err, PENNON_NOT_SUPPORTED,
            "the dataset has data storage version 0.1, which is read and not written: its columns cannot be changed; overwrite "
            "it with version 2.1");
    TRY_RETURN(choose_fragments(e, a->err));
    return next_field_id(e, a->err);
}

pennon_status evolve_end(struct evolving *e, pennon_status st, pennon_evolution_result *result, pennon_error *err)
{
    struct api *a = e->api;
    if (e->c) {
        struct mem *m = e->c->mem;
        /* After a lost reply the files may be in use. */
        if (st != PENNON_OK && st != PENNON_COMMIT_UNKNOWN) evolve_remove_files(e);
        for (size_t i = 0; i < e->n_list; i++) {
            mem_free(m, e->list[i].path);
            mem_free(m, e->list[i].file.fields);
            mem_free(m, e->list[i].file.columns);
        }
        if (st == PENNON_OK && result) {
            size_t size;
            memcpy(&size, result, sizeof size);
            size = size < sizeof e->result ? size : sizeof e->result;
            if (size > sizeof size)
                memcpy((char *)result + sizeof size, (const char *)&e->result + sizeof size, size - sizeof size);
        }
        if (st != PENNON_OK && e->s) {
            st = table_error(&e->s->at, st, a->err);
            st = error_where(a->err, e->s->at.uri, NULL, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE);
        }
        mem_free(m, e->list);
        mem_free(m, e->folder);
        arrow_schema_release(&e->form);
        schema_release(e->write);
        schema_release(e->schema);
        arena_reset(&e->arena);
        pennon_store_free(e->store);
        file_cache_release(e->files);
        snapshot_release(e->s);
    }
    return api_end(a, st, err);
}

/* ---- the schema with new columns ---- */

static bool is_structs(const struct field *a, const struct field *b)
{
    return a->type.id == ARROW_STRUCT && b->type.id == ARROW_STRUCT;
}

static bool is_lists(const struct field *a, const struct field *b)
{
    const bool list = a->type.id == ARROW_LIST || a->type.id == ARROW_LARGE_LIST || a->type.id == ARROW_FIXED_SIZE_LIST;
    return list && a->type.id == b->type.id && a->n_children == 1 && b->n_children == 1;
}

static pennon_status type_conflict(const struct evolving *e, const struct field *have, const struct field *new, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf text;
    buf_init(&text, e->c->mem, 1 << 20);
    if (arrow_schema_equal(&have->arrow, &new->arrow, SCHEMA_EQUAL_NO_NULLABLE)) {
        st = evolve_invalid(err, "Column %s already exists in the dataset", have->name);
        goto done;
    }
    TRY(buf_printf(&text, err, "%s(", have->name));
    TRY(expr_type_name(&have->arrow, &text, err));
    TRY(buf_printf(&text, err, ") and %s(", new->name));
    TRY(expr_type_name(&new->arrow, &text, err));
    TRY(buf_printf(&text, err, ")"));
    TRY(buf_terminate(&text, err));
    st = evolve_invalid(err, "Type conflicts between %.2000s", (const char *)text.data);
done:
    buf_free(&text);
    return st;
}

/* Two fields of one name: may parts be added? */
static pennon_status check_collision(const struct evolving *e, const struct field *have, const struct field *new, pennon_error *err)
{
    if (is_structs(have, new)) {
        if (e->s->storage_version < STORAGE_2_2)
            return evolve_invalid(err, "Column %s is a struct col, add sub column is not supported in Lance file version %s",
                                  have->name, storage_version_text(e->s->storage_version));
        if (have->kind != FIELD_STRUCT || new->kind != FIELD_STRUCT)
            return evolve_invalid(err, "Column %s is packed struct and already exists in the dataset", have->name);
        for (size_t i = 0; i < have->n_children; i++) {
            for (size_t k = 0; k < new->n_children; k++) {
                if (strcmp(have->children[i]->name, new->children[k]->name) == 0)
                    TRY_RETURN(check_collision(e, have->children[i], new->children[k], err));
            }
        }
        return PENNON_OK;
    }
    if (is_lists(have, new)) return check_collision(e, have->children[0], new->children[0], err);
    return type_conflict(e, have, new, err);
}

static bool all_nullable(const struct field *f)
{
    bool nullable = f->nullable;
    for (size_t i = 0; i < f->n_children && nullable; i++) nullable = all_nullable(f->children[i]);
    return nullable;
}

pennon_status evolve_add_schema(struct evolving *e, const struct schema *added, bool written, pennon_error *err)
{
    struct mem *m = e->c->mem;
    const struct schema *table = e->s->schema;
    for (size_t i = 0; i < added->n_fields; i++) {
        const struct field *have = schema_find_name(table, added->fields[i]->name);
        if (have) TRY_RETURN(check_collision(e, have, added->fields[i], err));
        if (!all_nullable(added->fields[i])) e->keeps_nullability = false;
    }
    TRY_RETURN(schema_merge(m, table, added, e->next_id, &e->schema, err));
    e->result.fields_added = e->schema->n_all - table->n_all;
    if (!written) return PENNON_OK;
    TRY_RETURN(schema_match_part(m, e->schema, added, &e->write, err));
    return schema_to_arrow(e->write, SCHEMA_VIEW_FILE, BLOB_AS_INPUT, m, &e->form, err);
}

/* ---- the transaction ---- */

static bool has_live_field(const struct schema *s, const struct data_file_message *f)
{
    for (size_t i = 0; i < f->n_fields; i++) {
        if (f->fields[i] >= 0 && schema_find_id(s, f->fields[i])) return true;
    }
    return false;
}

/* The fragment with its new file, without files that hold nothing any more. */
static pennon_status merged_fragment(const struct evolving *e, const struct fragment *f, const struct data_file_message *new,
                                     struct arena *a, struct fragment_message *out, pennon_error *err)
{
    TRY_RETURN(fragment_load(e->s, f, err));
    *out = *f->message;
    if (!new) return PENNON_OK;
    struct data_file_message *files = arena_calloc(a, out->n_files + 1, sizeof *files, err);
    if (!files) return err->code;
    size_t n = 0;
    for (size_t i = 0; i < out->n_files; i++) {
        if (has_live_field(e->schema, &out->files[i])) files[n++] = out->files[i];
    }
    files[n++] = *new;
    out->files = files;
    out->n_files = n;
    return PENNON_OK;
}

static pennon_status fill_merge(const struct evolving *e, struct transaction *t, pennon_error *err)
{
    struct merge_message *m = &t->op.merge;
    m->fragments = arena_calloc(&t->arena, e->n_list + 1, sizeof *m->fragments, err);
    if (!m->fragments) return err->code;
    for (size_t i = 0; i < e->n_list; i++) {
        const struct evolved *x = &e->list[i];
        TRY_RETURN(merged_fragment(e, x->fragment, x->message.path.size > 0 ? &x->message : NULL, &t->arena,
                                   &m->fragments[m->n_fragments++], err));
    }
    TRY_RETURN(schema_to_messages(e->schema, &t->arena, &m->schema, &m->n_schema, err));
    m->preserves_nullability = e->keeps_nullability;
    return schema_metadata_to_messages(e->schema, &t->arena, &m->schema_metadata, &m->n_schema_metadata, err);
}

static pennon_status commit(struct evolving *e, const struct transaction *t, pennon_error *err)
{
    struct snapshot *made = NULL;
    pennon_commit_options k;
    pennon_commit_options_init(&k);
    k.max_retries = e->o->max_retries;
    k.skip_auto_cleanup = e->o->skip_auto_cleanup;
    TRY_RETURN(commit_on(e->c, &e->s->at, e->s, t, &k, &made, err));
    e->result.version = made->version;
    dataset_move(e->ds, made);
    return PENNON_OK;
}

/* What a transaction borrows of the version is copied on the way through its bytes; the copy is its own memory. */
static pennon_status hand_out(struct evolving *e, const struct transaction *t, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct transaction *own = NULL;
    struct buf b;
    buf_init(&b, e->c->mem, BUF_NO_LIMIT);
    TRY(transaction_encode(t, &b, err));
    TRY(transaction_decode(runtime_mem(e->c->runtime), bytes_of(b.data, b.size), &own, err));
    TRY(transaction_handle(e->c, own, e->o->uncommitted, err));
done:
    buf_free(&b);
    return st;
}

pennon_status evolve_commit_transaction(struct evolving *e, struct transaction *t, pennon_error *err)
{
    pennon_status st = transaction_set_pairs(t, e->o->properties, err);
    if (st == PENNON_OK) st = e->o->uncommitted ? hand_out(e, t, err) : commit(e, t, err);
    transaction_free(t);
    return st;
}

pennon_status evolve_commit(struct evolving *e, bool project, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct transaction *t = NULL;
    TRY(transaction_new(e->c->mem, project ? OPERATION_PROJECT : OPERATION_MERGE, e->s->version, &t, err));
    if (project) {
        TRY(schema_to_messages(e->schema, &t->arena, &t->op.project.schema, &t->op.project.n_schema, err));
        t->op.project.preserves_nullability = e->keeps_nullability;
    } else {
        TRY(fill_merge(e, t, err));
    }
    st = evolve_commit_transaction(e, t, err);
    t = NULL;
done:
    transaction_free(t);
    return st;
}
