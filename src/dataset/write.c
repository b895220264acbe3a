/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Create, append, overwrite: the stream goes into data files, then one commit makes them visible. Without the commit the transaction is the result.
 *
 * A call that fails removes the data files it wrote, as far as it can; nothing refers to them.
 * Source: spec commits 6. */
#include "dataset/batch_form.h"
#include "dataset/writing.h"

#define ROWS_PER_FILE_DEFAULT ((uint64_t)1 << 20)
#define BYTES_PER_FILE_DEFAULT ((uint64_t)90 << 30)
#define FRAGMENTS_MAX ((size_t)1 << 24)

/* A data file that is there, for removing it. */
struct written_path {
    pennon_store *store; /* of a target, borrowed */
    char *path;
    uint32_t n_sidecars;
};

struct writing {
    struct call *c;
    const pennon_write_options *o;
    struct table_location at;
    struct snapshot *read; /* NULL = there is no table */
    bool append;
    uint32_t version;         /* STORAGE_ of the files */
    struct ArrowSchema input; /* of the stream */
    struct schema *schema;    /* of the files: input order, with ids */
    blob_given_fn given;      /* URIs of blobs are names that it knows; NULL = they are URIs */
    void *given_ctx;
    struct batch_form form;
    uint64_t max_rows, max_bytes;
    struct base_path_message *bases; /* new ones, in the arena */
    size_t n_bases;
    struct write_target *targets; /* at least one; files go to them in turn */
    size_t n_targets;
    /* the file being written */
    const struct write_target *target;
    struct file_writer *file;
    char *file_path;
    char file_name[57];
    uint64_t total_rows;
    /* what is finished */
    struct arena arena;
    struct fragment_message *fragments;
    size_t n_fragments, cap_fragments;
    struct written_path *paths;
    size_t n_paths, cap_paths;
};

/* ---- setting up ---- */

static pennon_status copy_location(struct writing *w, const struct table_location *from, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    w->at.store = from->store;
    pennon_store_retain(w->at.store);
    TRY_NEW(w->at.path, mem_strdup(w->c->mem, from->path, err));
    TRY_NEW(w->at.uri, mem_strdup(w->c->mem, from->uri, err));
    if (from->branch) TRY_NEW(w->at.branch, mem_strdup(w->c->mem, from->branch, err));
done:
    return st;
}

static pennon_status open_existing(struct writing *w, pennon_error *err)
{
    struct external_rule external = {.policy = EXTERNAL_SAME_STORE};
    struct version_ref ref = {.as_of_ns = INT64_MIN, .branch = w->o->branch};
    pennon_status st = snapshot_open(w->c, &w->at, &ref, &external, &w->read, err);
    if (st == PENNON_NOT_FOUND && !w->o->branch && strcmp(err->kind, "DatasetNotFound") == 0) {
        pennon_error_clear(err);
        return PENNON_OK;
    }
    return st;
}

static pennon_status choose_version(struct writing *w, pennon_error *err)
{
    uint32_t asked = 0;
    if (w->o->storage_version) TRY_RETURN(storage_version_of(w->o->storage_version, &asked, err));
    w->version = asked ? asked : w->read ? w->read->storage_version : STORAGE_2_1;
    if (w->append && asked && asked != w->read->storage_version) {
        return error_set(err, PENNON_INVALID_ARGUMENT,
                         "data storage version %s was asked for, the dataset has %s; an append keeps the dataset's",
                         storage_version_text(asked), storage_version_text(w->read->storage_version));
    }
    if (w->append && w->version == STORAGE_LEGACY)
        return error_set(
            err, PENNON_NOT_SUPPORTED,
            "the dataset has data storage version 0.1, which is read and not written: nothing can be appended; overwrite it "
            "with version 2.1");
    /* An overwrite that names no version leaves 0.1. */
    if (w->version == STORAGE_LEGACY && !asked) w->version = STORAGE_2_1;
    if (w->version == STORAGE_LEGACY || w->version == STORAGE_2_3) {
        return error_set(err, PENNON_NOT_SUPPORTED, "writing data files of version %s", storage_version_text(w->version));
    }
    return PENNON_OK;
}

static pennon_status make_schema(struct writing *w, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct mem *m = w->c->mem;
    struct schema *plain = NULL;
    TRY(arrow_schema_validate(&w->input, err));
    TRY(schema_from_arrow(m, &w->input, w->version, &plain, err));
    if (w->append) {
        TRY(schema_match_append(m, w->read->schema, plain, &w->schema, err));
    } else {
        TRY(schema_assign_ids(m, plain, 0, &w->schema, err));
    }
    batch_form_init(&w->form, &w->input, w->schema);
done:
    schema_release(plain);
    return st;
}

/* ---- files ---- */

static pennon_status blob_reference(void *ctx, const struct call *c, struct bytes uri, uint32_t *base_id, struct buf *stored,
                                    pennon_error *err)
{
    struct writing *w = ctx;
    bool outside = w->o->external_blobs == PENNON_EXTERNAL_BLOBS_ANYWHERE;
    return external_blob_reference(c, w->read, outside, uri, base_id, stored, err);
}

static pennon_status open_file(struct writing *w, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct mem *m = w->c->mem;
    struct file_writer_options o = {.version = w->version,
                                    .allow_loss = w->o->allow_loss,
                                    .blob_reference = blob_reference,
                                    .blob_reference_ctx = w,
                                    .copy_external = w->o->external_blobs == PENNON_EXTERNAL_BLOBS_COPY,
                                    .blob_given = w->given,
                                    .blob_given_ctx = w->given_ctx,
                                    .pack_bytes = w->o->blob_pack_bytes};
    TRY(data_file_name(w->file_name, err));
    w->target = &w->targets[w->n_paths % w->n_targets];
    TRY_NEW(w->file_path, store_join(m, w->target->folder, w->file_name, err));
    TRY(mem_grow(m, &w->paths, &w->cap_paths, w->n_paths, sizeof *w->paths, FRAGMENTS_MAX, err));
    TRY(file_writer_open(w->c, w->target->store, w->file_path, w->schema, &o, &w->file, err));
done:
    return st;
}

pennon_status written_data_file(struct arena *a, const char *file_name, uint32_t version, const struct written_file *written,
                                struct data_file_message **out, pennon_error *err)
{
    struct data_file_message *f = arena_calloc(a, 1, sizeof *f, err);
    char *name = arena_strndup(a, file_name, strlen(file_name), err);
    int32_t *ids = arena_alloc(a, (written->n_fields * 2 + 1) * sizeof *ids, err);
    if (!f || !name || !ids) return err->code;
    if (written->n_fields) memcpy(ids, written->fields, written->n_fields * sizeof *ids);
    if (written->n_fields) memcpy(ids + written->n_fields, written->columns, written->n_fields * sizeof *ids);
    *f = (struct data_file_message){.path = bytes_str(name),
                                    .fields = ids,
                                    .n_fields = written->n_fields,
                                    .column_indices = ids + written->n_fields,
                                    .n_column_indices = written->n_fields,
                                    .file_major_version = version >> 16,
                                    .file_minor_version = version & 0xffff,
                                    .file_size_bytes = written->size};
    *out = f;
    return PENNON_OK;
}

/* End the file and note its fragment. */
static pennon_status close_file(struct writing *w, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct mem *m = w->c->mem;
    struct written_file done_file = {0};
    struct file_writer *file = w->file;
    w->file = NULL;
    TRY(mem_grow(m, &w->fragments, &w->cap_fragments, w->n_fragments, sizeof *w->fragments, FRAGMENTS_MAX, err));
    st = file_writer_finish(w->c, file, &done_file, err);
    file = NULL;
    if (st != PENNON_OK) goto done;
    w->paths[w->n_paths++] = (struct written_path){w->target->store, w->file_path, done_file.n_sidecars};
    w->file_path = NULL;
    struct data_file_message *f;
    TRY(written_data_file(&w->arena, w->file_name, w->version, &done_file, &f, err));
    f->has_base_id = w->target->has_base;
    f->base_id = w->target->base_id;
    w->fragments[w->n_fragments++] = (struct fragment_message){.files = f, .n_files = 1, .physical_rows = done_file.rows};
done:
    file_writer_abort(file);
    mem_free(m, done_file.fields);
    mem_free(m, done_file.columns);
    return st;
}

static void remove_files(struct writing *w)
{
    pennon_error ignored;
    pennon_error_init(&ignored);
    /* A cancelled call may still clean up behind itself. */
    struct call c = *w->c;
    c.cancel = NULL;
    c.deadline_ns = INT64_MAX;
    for (size_t i = 0; i < w->n_paths; i++) {
        /* Best effort: what stays is unreferenced, and cleanup finds it. */
        if (store_delete(&c, w->paths[i].store, w->paths[i].path, &ignored) != PENNON_OK) pennon_error_clear(&ignored);
        file_remove_sidecars(&c, w->paths[i].store, w->paths[i].path, w->paths[i].n_sidecars);
    }
}

/* ---- batches ---- */

static pennon_status write_rows(struct writing *w, struct ArrowArray *batch, pennon_error *err)
{
    uint64_t n = (uint64_t)batch->length;
    if (!w->file) TRY_RETURN(open_file(w, err));
    TRY_RETURN(file_writer_write(w->c, w->file, batch, err));
    w->total_rows += n;
    call_progress(w->c, w->total_rows, 0);
    bool full = file_writer_rows(w->file) >= w->max_rows || file_writer_position(w->file) >= w->max_bytes;
    return full ? close_file(w, err) : PENNON_OK;
}

/* Cut the batch at the multiples of max_rows, counted from the start of the stream. */
static pennon_status write_batch(struct writing *w, struct ArrowArray *batch, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct shared_array *shared = NULL;
    uint64_t n = (uint64_t)batch->length, room = w->max_rows - w->total_rows % w->max_rows;
    if (n <= room) return write_rows(w, batch, err);
    TRY_NEW(shared, shared_array_new(batch, w->c->mem, err));
    for (uint64_t at = 0; at < n;) {
        struct ArrowArray part = {0};
        room = min_u64(n - at, w->max_rows - w->total_rows % w->max_rows);
        TRY(array_slice(&w->input, shared, (int64_t)at, (int64_t)room, w->c->mem, &part, err));
        st = write_rows(w, &part, err);
        array_release(&part);
        if (st != PENNON_OK) goto done;
        at += room;
    }
done:
    shared_array_release(shared);
    return st;
}

static pennon_status write_stream(struct writing *w, struct ArrowArrayStream *data, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray batch = {0};
    for (;;) {
        TRY(call_check(w->c, err));
        TRY(stream_next(data, &batch, err));
        if (!batch.release) break;
        TRY(batch_prepare(w->c, &w->form, &batch, err));
        if (batch.length) TRY(write_batch(w, &batch, err));
        array_release(&batch);
    }
    if (w->file) TRY(close_file(w, err));
done:
    array_release(&batch);
    return st;
}

/* ---- the transaction ---- */

/* Texts of an option as a map; borrowed from the caller. */
static pennon_status borrow_pairs(const pennon_pairs *p, const char *what, struct arena *a, struct map_entry **out, size_t *n,
                                  pennon_error *err)
{
    *n = p ? p->n : 0;
    *out = arena_calloc(a, *n + 1, sizeof **out, err);
    if (!*out) return err->code;
    for (size_t i = 0; i < *n; i++) {
        if (!p->keys[i] || !p->values[i]) return error_set(err, PENNON_INVALID_ARGUMENT, "%s %zu is NULL", what, i);
        (*out)[i] = (struct map_entry){.key = bytes_str(p->keys[i]), .value = bytes_str(p->values[i])};
    }
    return PENNON_OK;
}

static pennon_status fill_overwrite(struct writing *w, struct transaction *t, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct overwrite_message op = {
        .fragments = w->fragments, .n_fragments = w->n_fragments, .initial_bases = w->bases, .n_initial_bases = w->n_bases};
    TRY(schema_to_messages(w->schema, &w->arena, &op.schema, &op.n_schema, err));
    TRY(schema_metadata_to_messages(w->schema, &w->arena, &op.schema_metadata, &op.n_schema_metadata, err));
    TRY(borrow_pairs(w->o->config, "config key", &w->arena, &op.config_upsert_values, &op.n_config_upsert_values, err));
    TRY(wire_copy(&overwrite_table, &op, &t->arena, &t->op.overwrite, err));
done:
    return st;
}

/* What has been written, as a transaction that owns all it holds. */
static pennon_status make_transaction(struct writing *w, struct mem *m, struct transaction **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct transaction *t = NULL;
    TRY(transaction_new(m, w->append ? OPERATION_APPEND : OPERATION_OVERWRITE, w->read ? w->read->version : 0, &t, err));
    if (w->append) {
        struct append_message op = {.fragments = w->fragments, .n_fragments = w->n_fragments};
        TRY(wire_copy(&append_table, &op, &t->arena, &t->op.append, err));
    } else {
        TRY(fill_overwrite(w, t, err));
    }
    TRY(transaction_set_pairs(t, w->o->properties, err));
    *out = t;
    t = NULL;
done:
    transaction_free(t);
    return st;
}

static pennon_status commit(struct writing *w, struct snapshot **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct transaction *t = NULL;
    struct transaction_options o;
    transaction_options_init(&o);
    o.max_retries = w->o->max_retries;
    o.stable_row_ids = w->o->stable_row_ids;
    o.v2_names = !w->o->v1_manifest_names;
    o.storage_version = w->append ? 0 : w->version;
    TRY(make_transaction(w, w->c->mem, &t, err));
    TRY(commit_transaction(w->c, w->read ? &w->read->at : &w->at, w->read, t, &o, out, err));
done:
    transaction_free(t);
    return st;
}

/* ---- the call ---- */

static void writing_end(struct writing *w)
{
    struct mem *m = w->c->mem;
    file_writer_abort(w->file);
    for (size_t i = 0; i < w->n_paths; i++) mem_free(m, w->paths[i].path);
    write_targets_free(m, w->targets, w->n_targets);
    mem_free(m, w->paths);
    mem_free(m, w->file_path);
    mem_free(m, w->fragments);
    arena_reset(&w->arena);
    arrow_schema_release(&w->input);
    schema_release(w->schema);
    snapshot_release(w->read);
    table_location_free(m, &w->at);
}

static pennon_status check_options(struct writing *w, pennon_error *err)
{
    const pennon_write_options *o = w->o;
    w->max_rows = o->max_rows_per_file ? o->max_rows_per_file : ROWS_PER_FILE_DEFAULT;
    w->max_bytes = o->max_bytes_per_file ? o->max_bytes_per_file : BYTES_PER_FILE_DEFAULT;
    if (o->external_blobs < PENNON_EXTERNAL_BLOBS_IN_BASES || o->external_blobs > PENNON_EXTERNAL_BLOBS_COPY)
        return error_set(err, PENNON_INVALID_ARGUMENT, "external_blobs %d is not one of the PENNON_EXTERNAL_BLOBS_ values",
                         o->external_blobs);
    if (w->max_rows > UINT32_MAX)
        return error_set(err, PENNON_INVALID_ARGUMENT, "max_rows_per_file %" PRIu64 " is over 2^32 - 1", w->max_rows);
    if (w->read && (w->read->manifest.writer_feature_flags & ~WRITER_FLAGS_KNOWN)) {
        return error_set(err, PENNON_NOT_SUPPORTED, "writing to a dataset with the unknown writer feature flags %" PRIu64,
                         w->read->manifest.writer_feature_flags & ~WRITER_FLAGS_KNOWN);
    }
    if (w->read && o->initial_bases && o->initial_bases->n)
        return error_set(err, PENNON_INVALID_ARGUMENT, "base paths cannot be registered by a write to a dataset that exists");
    if (w->append && o->config && o->config->n)
        return error_set(err, PENNON_INVALID_ARGUMENT, "an append sets no config keys; update the metadata");
    return PENNON_OK;
}

/* Everything but the location and the base snapshot, which are set. Gives the transaction, allocated in `m`, where `uncommitted` is not NULL. */
static pennon_status run_write(struct writing *w, struct ArrowArrayStream *data, struct mem *m, struct transaction **uncommitted,
                               struct snapshot **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    TRY(check_options(w, err));
    TRY(choose_version(w, err));
    TRY(write_bases_read(w->c, w->o->initial_bases, true, &w->arena, &w->bases, &w->n_bases, err));
    TRY(write_targets_open(w->c, w->read ? &w->read->at : &w->at, w->read, w->bases, w->n_bases, w->o->target_bases, &w->targets,
                           &w->n_targets, err));
    TRY(stream_schema(data, &w->input, err));
    TRY(make_schema(w, err));
    TRY(write_stream(w, data, err));
    st = uncommitted ? make_transaction(w, m, uncommitted, err) : commit(w, out, err);
done:
    /* After a lost reply the files may be in use. */
    if (st != PENNON_OK && st != PENNON_COMMIT_UNKNOWN) {
        file_writer_abort(w->file);
        w->file = NULL;
        remove_files(w);
    }
    return st;
}

void pennon_write_options_init(pennon_write_options *options)
{
    if (options) *options = (pennon_write_options){.struct_size = sizeof *options, .max_retries = 20};
}

static pennon_status write_at(struct call *c, const struct table_location *at, struct ArrowArrayStream *data,
                              const pennon_write_options *o, struct mem *m, struct transaction **uncommitted, struct snapshot **out,
                              pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct writing w = {.c = c, .o = o};
    arena_init(&w.arena, c->mem);
    if (o->mode < PENNON_WRITE_CREATE || o->mode > PENNON_WRITE_OVERWRITE) {
        FAIL(PENNON_INVALID_ARGUMENT, "mode %d is not one of the PENNON_WRITE_ values", o->mode);
    }
    TRY(copy_location(&w, at, err));
    TRY(open_existing(&w, err));
    if (w.read && o->mode == PENNON_WRITE_CREATE)
        FAIL(PENNON_ALREADY_EXISTS, "a dataset exists already at '%s'; append to it or overwrite it", at->uri);
    w.append = w.read && o->mode == PENNON_WRITE_APPEND;
    TRY(run_write(&w, data, m, uncommitted, out, err));
done:
    writing_end(&w);
    st = table_error(at, st, err);
    return st == PENNON_OK ? st : error_where(err, at->uri, NULL, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE);
}

pennon_status dataset_write(struct call *c, const struct table_location *at, struct ArrowArrayStream *data,
                            const pennon_write_options *o, struct snapshot **out, pennon_error *err)
{
    return write_at(c, at, data, o, NULL, NULL, out, err);
}

pennon_status write_uncommitted(struct call *c, const struct table_location *at, struct ArrowArrayStream *data,
                                const pennon_write_options *o, struct mem *m, struct transaction **out, pennon_error *err)
{
    return write_at(c, at, data, o, m, out, NULL, err);
}

pennon_status write_onto(struct call *c, struct snapshot *s, struct ArrowArrayStream *data, const pennon_write_options *o,
                         struct mem *m, struct transaction **out, pennon_error *err)
{
    return write_onto_given(c, s, data, o, NULL, NULL, m, out, err);
}

pennon_status write_onto_given(struct call *c, struct snapshot *s, struct ArrowArrayStream *data, const pennon_write_options *o,
                               blob_given_fn given, void *given_ctx, struct mem *m, struct transaction **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct writing w = {.c = c, .o = o, .append = true, .read = snapshot_retain(s), .given = given, .given_ctx = given_ctx};
    arena_init(&w.arena, c->mem);
    TRY(copy_location(&w, &s->at, err));
    TRY(run_write(&w, data, m, out, NULL, err));
done:
    writing_end(&w);
    return st;
}

static pennon_status write_uri(struct call *c, const char *uri, struct ArrowArrayStream *data, const pennon_write_options *o,
                               struct snapshot **out, pennon_error *err)
{
    struct table_location at = {0};
    pennon_status st = table_locate(c, uri, &at, err);
    if (st == PENNON_OK) st = dataset_write(c, &at, data, o, out, err);
    table_location_free(c->mem, &at);
    return st;
}

pennon_status pennon_write(const char *uri, struct ArrowArrayStream *data, const pennon_write_options *options,
                           pennon_dataset **out, pennon_error *err)
{
    struct api a = {.err = &a.local};
    pennon_write_options o;
    struct snapshot *s = NULL;
    static const struct external_rule external = {.policy = EXTERNAL_SAME_STORE};
    pennon_write_options_init(&o);
    pennon_error_init(&a.local);
    pennon_status st = options_read(&o, sizeof o, options, "pennon_write_options", &a.local);
    if (st == PENNON_OK) st = api_begin(&a, o.call, uri, "uri");
    if (st == PENNON_OK && (!data || !data->release))
        st = error_set(a.err, PENNON_INVALID_ARGUMENT, "the stream is NULL or released");
    if (st == PENNON_OK) st = write_uri(&a.c, uri, data, &o, &s, a.err);
    if (st == PENNON_OK && out) st = dataset_new(&a.c, s, &external, out, a.err);
    if (st != PENNON_OK || !out) snapshot_release(s);
    if (data) stream_release(data);
    return api_end(&a, st, err);
}

pennon_status dataset_append_stream(struct call *c, pennon_dataset *ds, struct ArrowArrayStream *data,
                                    const pennon_write_options *o, uint64_t *version, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct snapshot *made = NULL;
    struct writing w = {.c = c, .o = o, .append = true};
    arena_init(&w.arena, c->mem);
    dataset_get(ds, &w.read, NULL);
    TRY(copy_location(&w, &w.read->at, err));
    TRY(run_write(&w, data, NULL, NULL, &made, err));
    if (version != NULL) *version = made->version;
    dataset_move(ds, made);
done:
    writing_end(&w);
    return st;
}

pennon_status pennon_dataset_append(pennon_dataset *ds, struct ArrowArrayStream *data, const pennon_write_options *options,
                                    pennon_error *err)
{
    struct api a = {.err = &a.local};
    pennon_write_options o;
    pennon_write_options_init(&o);
    pennon_error_init(&a.local);
    pennon_status st = options_read(&o, sizeof o, options, "pennon_write_options", &a.local);
    if (st == PENNON_OK) st = api_begin(&a, o.call, ds, "dataset");
    if (st == PENNON_OK && (!data || !data->release))
        st = error_set(a.err, PENNON_INVALID_ARGUMENT, "the stream is NULL or released");
    if (st == PENNON_OK) st = dataset_append_stream(&a.c, ds, data, &o, NULL, a.err);
    if (data) stream_release(data);
    return api_end(&a, st, err);
}
