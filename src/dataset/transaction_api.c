/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The public calls of transactions: build, show, commit; restore. Source: spec commits 2, 3.9, 6.5, api-surface 5, 6, 33. */
#include "dataset/transaction_handle.h"
#include "table/message_json.h"

#define BATCH_MAX ((size_t)1 << 20)

/* ---- the handle ---- */

/* Budget of handles, which outlive the call that makes them. */
static struct mem *handle_mem(const struct call *c) { return runtime_mem(c->runtime); }

pennon_status transaction_handle(const struct call *c, struct transaction *t, pennon_transaction **out, pennon_error *err)
{
    struct mem *m = handle_mem(c);
    pennon_transaction *h = mem_calloc(m, 1, sizeof *h, err);
    if (!h) {
        transaction_free(t);
        return err->code;
    }
    h->runtime = c->runtime;
    pennon_runtime_retain(h->runtime);
    h->mem = mem_retain(m);
    h->t = t;
    atomic_init(&h->refs, 1);
    *out = h;
    return PENNON_OK;
}

void pennon_transaction_retain(pennon_transaction *t)
{
    if (t) atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
}

void pennon_transaction_free(pennon_transaction *t)
{
    if (!t || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1) return;
    struct mem *m = t->mem;
    pennon_runtime *rt = t->runtime;
    transaction_free(t->t);
    mem_free(m, t);
    mem_release(m);
    pennon_runtime_free(rt);
}

const char *pennon_transaction_operation(const pennon_transaction *t) { return t ? operation_name(t->t->which) : ""; }
const char *pennon_transaction_uuid(const pennon_transaction *t) { return t ? t->t->uuid : ""; }
uint64_t pennon_transaction_read_version(const pennon_transaction *t) { return t ? t->t->read_version : 0; }

/* ---- build and show ---- */

pennon_status pennon_transaction_from_json(const char *json, pennon_transaction **out, pennon_error *err)
{
    struct api a;
    struct transaction *t = NULL;
    pennon_status st = api_begin(&a, NULL, json, "json");
    if (st == PENNON_OK && !out) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "out is NULL");
    if (st == PENNON_OK) st = transaction_from_json(handle_mem(&a.c), bytes_str(json), &t, a.err);
    if (st == PENNON_OK) st = transaction_handle(&a.c, t, out, a.err);
    return api_end(&a, st, err);
}

pennon_status pennon_transaction_from_bytes(const void *bytes, size_t n, pennon_transaction **out, pennon_error *err)
{
    struct api a;
    struct transaction *t = NULL;
    pennon_status st = api_begin(&a, NULL, bytes, "bytes");
    if (st == PENNON_OK && !out) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "out is NULL");
    if (st == PENNON_OK) st = transaction_decode(handle_mem(&a.c), bytes_of(bytes, n), &t, a.err);
    if (st == PENNON_OK) st = transaction_handle(&a.c, t, out, a.err);
    return api_end(&a, st, err);
}

static pennon_status transaction_of_version(const struct call *c, pennon_dataset *ds, uint64_t version, struct transaction **out,
                                            pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct snapshot *s, *other = NULL;
    dataset_get(ds, &s, NULL);
    *out = NULL;
    if (version != PENNON_NONE && version != s->version) {
        struct version_ref ref = {.version = version, .as_of_ns = INT64_MIN};
        if (version == 0) FAIL(PENNON_INVALID_ARGUMENT, "version 0: versions begin at 1");
        TRY(snapshot_open(c, &s->at, &ref, &ds->external, &other, err));
    }
    /* It outlives the call: its memory is that of handles. */
    struct call kept = *c;
    kept.mem = handle_mem(c);
    TRY(snapshot_transaction(&kept, other ? other : s, out, err));
done:
    snapshot_release(s);
    snapshot_release(other);
    return st;
}

pennon_status pennon_dataset_transaction(pennon_dataset *ds, const pennon_call *call, uint64_t version, pennon_transaction **out,
                                         pennon_error *err)
{
    struct api a;
    struct transaction *t = NULL;
    pennon_status st = api_begin(&a, call, ds, "dataset");
    if (st == PENNON_OK && !out) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "out is NULL");
    if (st == PENNON_OK) st = transaction_of_version(&a.c, ds, version, &t, a.err);
    if (st == PENNON_OK) *out = NULL;
    if (st == PENNON_OK && t) st = transaction_handle(&a.c, t, out, a.err);
    return api_end(&a, st, err);
}

/* A text of what `put` appends. */
static pennon_status text_of(const pennon_transaction *t,
                             pennon_status (*put)(const struct transaction *, struct buf *, pennon_error *), char **out,
                             pennon_error *err)
{
    struct api a;
    pennon_status st = api_begin(&a, NULL, t, "transaction");
    if (st == PENNON_OK && !out) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "out is NULL");
    if (st == PENNON_OK) {
        struct buf b;
        buf_init(&b, a.c.mem, BUF_NO_LIMIT);
        st = put(t->t, &b, a.err);
        if (st == PENNON_OK) st = text_out(&b, out, a.err);
        buf_free(&b);
    }
    return api_end(&a, st, err);
}

pennon_status pennon_transaction_to_json(const pennon_transaction *t, char **out, pennon_error *err)
{
    return text_of(t, transaction_to_json, out, err);
}

static pennon_status put_fragments(const struct fragment_message *f, size_t n, bool *first, struct buf *out, pennon_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (!*first) TRY_RETURN(buf_printf(out, err, ",\n "));
        *first = false;
        TRY_RETURN(fragment_to_json(&f[i], out, err));
    }
    return PENNON_OK;
}

static pennon_status put_new_fragments(const struct transaction *t, struct buf *out, pennon_error *err)
{
    bool first = true;
    TRY_RETURN(buf_append_byte(out, '[', err));
    switch (t->which) {
    case OPERATION_APPEND: TRY_RETURN(put_fragments(t->op.append.fragments, t->op.append.n_fragments, &first, out, err)); break;
    case OPERATION_OVERWRITE:
        TRY_RETURN(put_fragments(t->op.overwrite.fragments, t->op.overwrite.n_fragments, &first, out, err));
        break;
    case OPERATION_MERGE: TRY_RETURN(put_fragments(t->op.merge.fragments, t->op.merge.n_fragments, &first, out, err)); break;
    case OPERATION_UPDATE:
        TRY_RETURN(put_fragments(t->op.update.new_fragments, t->op.update.n_new_fragments, &first, out, err));
        break;
    case OPERATION_REWRITE:
        for (size_t i = 0; i < t->op.rewrite.n_groups; i++) {
            const struct rewrite_group_message *g = &t->op.rewrite.groups[i];
            TRY_RETURN(put_fragments(g->new_fragments, g->n_new_fragments, &first, out, err));
        }
        break;
    default: break;
    }
    return buf_append_byte(out, ']', err);
}

pennon_status pennon_transaction_fragments_json(const pennon_transaction *t, char **out, pennon_error *err)
{
    return text_of(t, put_new_fragments, out, err);
}

pennon_status pennon_transaction_to_bytes(const pennon_transaction *t, void **bytes, size_t *n, pennon_error *err)
{
    struct api a;
    pennon_status st = api_begin(&a, NULL, t, "transaction");
    if (st == PENNON_OK && (!bytes || !n)) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "an output is NULL");
    if (st == PENNON_OK) {
        struct buf b;
        buf_init(&b, a.c.mem, BUF_NO_LIMIT);
        st = transaction_encode(t->t, &b, a.err);
        if (st == PENNON_OK) {
            *bytes = bytes_dup(b.data, b.size);
            *n = b.size;
            if (!*bytes) st = error_set(a.err, PENNON_OUT_OF_MEMORY, "no memory for %zu bytes", b.size);
        }
        buf_free(&b);
    }
    return api_end(&a, st, err);
}

pennon_status pennon_transaction_set_properties(pennon_transaction *t, const pennon_pairs *pairs, pennon_error *err)
{
    struct api a;
    pennon_status st = api_begin(&a, NULL, t, "transaction");
    if (st == PENNON_OK) st = transaction_set_pairs(t->t, pairs, a.err);
    return api_end(&a, st, err);
}

/* ---- commit ---- */

void pennon_commit_options_init(pennon_commit_options *options)
{
    if (options) *options = (pennon_commit_options){.struct_size = sizeof *options, .max_retries = 20};
}

static bool is_missing(pennon_status st, const pennon_error *err)
{
    return st == PENNON_NOT_FOUND && strcmp(err->kind, "DatasetNotFound") == 0;
}

pennon_status commit_on(const struct call *c, const struct table_location *at, struct snapshot *read, const struct transaction *t,
                        const pennon_commit_options *o, struct snapshot **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct transaction_options k;
    struct file_cache *files = NULL;
    transaction_options_init(&k);
    k.max_retries = o->max_retries;
    k.detached = o->detached;
    k.v2_names = !o->v1_manifest_names;
    k.stable_row_ids = o->stable_row_ids;
    k.skip_auto_cleanup = o->skip_auto_cleanup;
    k.knows_rows = o->affected_rows != NULL;
    if (o->storage_version) TRY(storage_version_of(o->storage_version, &k.storage_version, err));
    if (o->affected_rows) {
        k.affected_rows = o->affected_rows->items;
        k.n_affected_rows = o->affected_rows->n;
        for (size_t i = 1; i < k.n_affected_rows; i++) {
            if (k.affected_rows[i - 1] >= k.affected_rows[i])
                FAIL(PENNON_INVALID_ARGUMENT, "affected row %zu is not above the one before it", i);
        }
    }
    TRY_NEW(files, file_cache_new(c->mem, 16, err));
    k.length = file_cache_length;
    k.length_ctx = files;
    TRY(commit_transaction(c, at, read, t, &k, out, err));
done:
    file_cache_release(files);
    return st;
}

/* The version that the commit goes on top of: of a detached one exactly the version read, else the latest. */
static uint64_t base_version(const struct transaction *t, bool detached)
{
    return t->read_version >> 63 || detached ? t->read_version : 0;
}

static pennon_status commit_uri(const struct call *c, const char *uri, const struct transaction *t, const pennon_commit_options *o,
                                struct snapshot **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct external_rule external = {.policy = EXTERNAL_SAME_STORE};
    struct version_ref ref = {.version = base_version(t, o->detached), .branch = o->branch, .as_of_ns = INT64_MIN};
    struct table_location at = {0};
    struct snapshot *read = NULL;
    TRY(table_locate(c, uri, &at, err));
    st = snapshot_open(c, &at, &ref, &external, &read, err);
    if (is_missing(st, err) && !o->branch && (t->which == OPERATION_OVERWRITE || t->which == OPERATION_CLONE)) {
        pennon_error_clear(err);
        st = PENNON_OK;
    }
    TRY(st);
    TRY(commit_on(c, read ? &read->at : &at, read, t, o, out, err));
done:
    snapshot_release(read);
    if (st != PENNON_OK) st = error_where(err, uri, NULL, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE);
    table_location_free(c->mem, &at);
    return st;
}

static pennon_status commit_options(struct api *a, const pennon_commit_options *options, pennon_commit_options *o,
                                    const void *handle, const char *what)
{
    pennon_commit_options_init(o);
    a->c = (struct call){0};
    a->err = &a->local;
    pennon_error_init(&a->local);
    TRY_RETURN(options_read(o, sizeof *o, options, "pennon_commit_options", &a->local));
    return api_begin(a, o->call, handle, what);
}

pennon_status commit_api_begin(struct api *a, const pennon_commit_options *options, pennon_commit_options *o, pennon_dataset *ds)
{
    TRY_RETURN(commit_options(a, options, o, ds, "dataset"));
    if (o->branch)
        return error_set(a->err, PENNON_INVALID_ARGUMENT, "the dataset's branch is the one committed to, not '%s'", o->branch);
    return PENNON_OK;
}

static pennon_status dataset_of(struct api *a, struct snapshot *s, pennon_dataset **out)
{
    static const struct external_rule external = {.policy = EXTERNAL_SAME_STORE};
    pennon_status st = out ? dataset_new(&a->c, s, &external, out, a->err) : PENNON_OK;
    if (st != PENNON_OK || !out) snapshot_release(s);
    return st;
}

pennon_status pennon_commit(const char *uri, const pennon_transaction *t, const pennon_commit_options *options,
                            pennon_dataset **out, pennon_error *err)
{
    struct api a;
    pennon_commit_options o;
    struct snapshot *made = NULL;
    pennon_status st = commit_options(&a, options, &o, uri, "uri");
    if (st == PENNON_OK && !t) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "transaction is NULL");
    if (st == PENNON_OK) st = commit_uri(&a.c, uri, t->t, &o, &made, a.err);
    if (st == PENNON_OK) st = dataset_of(&a, made, out);
    return api_end(&a, st, err);
}

pennon_status commit_to_dataset(const struct call *c, pennon_dataset *ds, const struct transaction *t,
                                const pennon_commit_options *o, struct snapshot **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct snapshot *read, *other = NULL;
    dataset_get(ds, &read, NULL);
    uint64_t wanted = base_version(t, o->detached);
    /* A cell that is behind the transaction has not seen what it is based on. */
    if (wanted ? wanted != read->version : (read->version < t->read_version || read->version >> 63)) {
        struct version_ref ref = {.version = wanted, .as_of_ns = INT64_MIN};
        TRY(snapshot_open(c, &read->at, &ref, &ds->external, &other, err));
    }
    struct snapshot *on = other ? other : read;
    TRY(commit_on(c, &on->at, on, t, o, out, err));
done:
    if (st != PENNON_OK) st = error_where(err, read->at.uri, NULL, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE);
    snapshot_release(read);
    snapshot_release(other);
    return st;
}

pennon_status pennon_dataset_commit(pennon_dataset *ds, const pennon_transaction *t, const pennon_commit_options *options,
                                    uint64_t *version, pennon_error *err)
{
    struct api a;
    pennon_commit_options o;
    struct snapshot *made = NULL;
    pennon_status st = commit_api_begin(&a, options, &o, ds);
    if (st == PENNON_OK && !t) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "transaction is NULL");
    if (st == PENNON_OK) st = commit_to_dataset(&a.c, ds, t->t, &o, &made, a.err);
    if (st == PENNON_OK) {
        if (version) *version = made->version;
        if (o.detached) {
            snapshot_release(made);
        } else {
            dataset_move(ds, made);
        }
    }
    return api_end(&a, st, err);
}

static pennon_status merge_batch(const struct call *c, size_t n, const pennon_transaction *const *parts, struct transaction **out,
                                 pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct transaction **list = NULL;
    if (n == 0 || !parts) FAIL(PENNON_INVALID_ARGUMENT, "a batch of no transactions");
    if (n > BATCH_MAX) FAIL(PENNON_INVALID_ARGUMENT, "a batch of %zu transactions, at most %zu", n, BATCH_MAX);
    TRY_NEW(list, mem_calloc(c->mem, n, sizeof(*list), err));
    for (size_t i = 0; i < n; i++) {
        if (!parts[i]) FAIL(PENNON_INVALID_ARGUMENT, "transaction %zu of the batch is NULL", i);
        list[i] = parts[i]->t;
    }
    TRY(transaction_batch(handle_mem(c), list, n, out, err));
done:
    mem_free(c->mem, list);
    return st;
}

pennon_status pennon_commit_batch(const char *uri, size_t n, const pennon_transaction *const *t,
                                  const pennon_commit_options *options, pennon_dataset **out, pennon_transaction **merged,
                                  pennon_error *err)
{
    struct api a;
    pennon_commit_options o;
    struct transaction *one = NULL;
    struct snapshot *made = NULL;
    pennon_transaction *handle = NULL;
    pennon_status st = commit_options(&a, options, &o, uri, "uri");
    if (st == PENNON_OK) st = merge_batch(&a.c, n, t, &one, a.err);
    if (st == PENNON_OK) st = transaction_set_pairs(one, o.properties, a.err);
    if (st == PENNON_OK) {
        st = transaction_handle(&a.c, one, &handle, a.err);
        one = NULL;
    }
    if (st == PENNON_OK) st = commit_uri(&a.c, uri, handle->t, &o, &made, a.err);
    if (st == PENNON_OK) st = dataset_of(&a, made, out);
    transaction_free(one);
    if (st == PENNON_OK && merged) {
        *merged = handle;
    } else {
        pennon_transaction_free(handle);
    }
    return api_end(&a, st, err);
}

/* ---- restore, stale ---- */

static pennon_status latest_snapshot(const struct call *c, pennon_dataset *ds, struct snapshot **out, pennon_error *err)
{
    struct snapshot *s;
    struct version_ref ref = {.as_of_ns = INT64_MIN};
    dataset_get(ds, &s, NULL);
    pennon_status st = snapshot_open(c, &s->at, &ref, &ds->external, out, err);
    snapshot_release(s);
    return st;
}

pennon_status pennon_dataset_restore(pennon_dataset *ds, const pennon_commit_options *options, pennon_error *err)
{
    struct api a;
    pennon_commit_options o;
    struct transaction *t = NULL;
    struct snapshot *latest = NULL, *made = NULL;
    pennon_status st = commit_api_begin(&a, options, &o, ds);
    if (st == PENNON_OK) st = latest_snapshot(&a.c, ds, &latest, a.err);
    if (st == PENNON_OK) st = transaction_new(a.c.mem, OPERATION_RESTORE, latest->version, &t, a.err);
    if (st == PENNON_OK) {
        t->op.restore.version = pennon_dataset_version(ds);
        st = transaction_set_pairs(t, o.properties, a.err);
    }
    if (st == PENNON_OK) st = commit_on(&a.c, &latest->at, latest, t, &o, &made, a.err);
    if (st == PENNON_OK) dataset_move(ds, made);
    transaction_free(t);
    snapshot_release(latest);
    return api_end(&a, st, err);
}

pennon_status pennon_dataset_is_stale(pennon_dataset *ds, const pennon_call *call, bool *stale, pennon_error *err)
{
    struct api a;
    pennon_status st = api_begin(&a, call, ds, "dataset");
    if (st == PENNON_OK && !stale) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "stale is NULL");
    if (st == PENNON_OK) {
        struct snapshot *s;
        uint64_t latest = 0;
        bool v2;
        dataset_get(ds, &s, NULL);
        st = latest_version(&a.c, &s->at, &latest, &v2, a.err);
        if (st == PENNON_OK) *stale = latest > s->version;
        snapshot_release(s);
    }
    return api_end(&a, st, err);
}

/* ---- fragments ---- */

pennon_status pennon_write_fragments(const char *uri, struct ArrowArrayStream *data, const pennon_write_options *options,
                                     pennon_transaction **out, pennon_error *err)
{
    struct api a = {.err = &a.local};
    pennon_write_options o;
    struct table_location at = {0};
    struct transaction *t = NULL;
    pennon_write_options_init(&o);
    pennon_error_init(&a.local);
    pennon_status st = options_read(&o, sizeof o, options, "pennon_write_options", &a.local);
    if (st == PENNON_OK) st = api_begin(&a, o.call, uri, "uri");
    if (st == PENNON_OK && (!data || !data->release))
        st = error_set(a.err, PENNON_INVALID_ARGUMENT, "the stream is NULL or released");
    if (st == PENNON_OK && !out) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "out is NULL");
    if (st == PENNON_OK) st = table_locate(&a.c, uri, &at, a.err);
    if (st == PENNON_OK) st = write_uncommitted(&a.c, &at, data, &o, handle_mem(&a.c), &t, a.err);
    if (st == PENNON_OK) st = transaction_handle(&a.c, t, out, a.err);
    if (a.c.mem) table_location_free(a.c.mem, &at);
    if (data) stream_release(data);
    return api_end(&a, st, err);
}

/* The schema that stands in the data files of the first fragment, and their version. */
static pennon_status schema_of_files(const struct call *c, const struct table_location *at, const struct fragment_message *f,
                                     struct arena *a, struct overwrite_message *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct file_reader *r = NULL;
    char *folder = NULL, *name = NULL, *path = NULL;
    const struct schema *schema;
    if (f->n_files != 1 || f->files[0].has_base_id)
        FAIL(PENNON_NOT_SUPPORTED,
             "the schema of an overwrite is read from one data file in the dataset itself; give a transaction with the schema");
    TRY_NEW(name, mem_strndup(c->mem, (const char *)f->files[0].path.data, f->files[0].path.size, err));
    if (strchr(name, '/') || !name[0]) FAIL(PENNON_INVALID_ARGUMENT, "'%.256s' is no name of a data file", name);
    TRY_NEW(folder, store_join(c->mem, at->path, "data", err));
    TRY_NEW(path, store_join(c->mem, folder, name, err));
    TRY(file_reader_open(c, at->store, path, f->files[0].file_size_bytes, &r, err));
    TRY(file_reader_schema(c, r, &schema, err));
    TRY(schema_to_messages(schema, a, &out->schema, &out->n_schema, err));
    TRY(schema_metadata_to_messages(schema, a, &out->schema_metadata, &out->n_schema_metadata, err));
    /* The texts belong to the reader: owned copies before it goes. */
    struct overwrite_message own;
    TRY(wire_copy(&overwrite_table, out, a, &own, err));
    *out = own;
done:
    file_reader_release(r);
    mem_free(c->mem, folder);
    mem_free(c->mem, name);
    mem_free(c->mem, path);
    return st;
}

/* {…} or […] to messages in the arena. */
static pennon_status read_fragments(struct mem *m, const char *text, struct arena *a, struct append_message *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    json_t *json = NULL;
    struct fragment_message *list = NULL;
    TRY(message_json_parse(m, bytes_str(text), "the text of the fragments", &json, err));
    bool one = json_is_object(json);
    if (!one && !json_is_array(json)) FAIL(PENNON_INVALID_ARGUMENT, "the fragments are no object and no array");
    size_t n = one ? 1 : json_array_size(json);
    TRY_NEW(list, arena_calloc(a, n + 1, sizeof *list, err));
    for (size_t i = 0; i < n; i++) {
        st = message_json_read(&fragment_table, one ? json : json_array_get(json, i), false, a, &list[i], err);
        if (st != PENNON_OK) {
            st = error_prefix(err, "fragment %zu", i);
            goto done;
        }
    }
    *out = (struct append_message){.fragments = list, .n_fragments = n};
done:
    json_decref(json);
    return st;
}

static pennon_status transaction_of_fragments(const struct call *c, const char *uri, const char *text, int32_t mode,
                                              const char *branch, struct transaction **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct external_rule external = {.policy = EXTERNAL_SAME_STORE};
    struct version_ref ref = {.branch = branch, .as_of_ns = INT64_MIN};
    struct table_location at = {0};
    struct snapshot *read = NULL;
    struct transaction *t = NULL;
    struct append_message fragments = {0};
    if (mode < PENNON_WRITE_CREATE || mode > PENNON_WRITE_OVERWRITE)
        FAIL(PENNON_INVALID_ARGUMENT, "mode %d is not one of the PENNON_WRITE_ values", mode);
    TRY(table_locate(c, uri, &at, err));
    st = snapshot_open(c, &at, &ref, &external, &read, err);
    if (is_missing(st, err) && !branch && mode != PENNON_WRITE_APPEND) {
        pennon_error_clear(err);
        st = PENNON_OK;
    }
    TRY(st);
    if (read && mode == PENNON_WRITE_CREATE)
        FAIL(PENNON_ALREADY_EXISTS, "a dataset exists already at '%s'; append to it or overwrite it", at.uri);
    TRY(transaction_new(handle_mem(c), mode == PENNON_WRITE_APPEND ? OPERATION_APPEND : OPERATION_OVERWRITE,
                        read ? read->version : 0, &t, err));
    TRY(read_fragments(c->mem, text, &t->arena, &fragments, err));
    if (mode == PENNON_WRITE_APPEND) {
        t->op.append = fragments;
    } else {
        if (fragments.n_fragments == 0)
            FAIL(PENNON_INVALID_ARGUMENT, "an overwrite without fragments has no schema; give a transaction");
        TRY(schema_of_files(c, read ? &read->at : &at, fragments.fragments, &t->arena, &t->op.overwrite, err));
        t->op.overwrite.fragments = fragments.fragments;
        t->op.overwrite.n_fragments = fragments.n_fragments;
    }
    *out = t;
    t = NULL;
done:
    transaction_free(t);
    snapshot_release(read);
    table_location_free(c->mem, &at);
    return st;
}

pennon_status pennon_transaction_from_fragments(const char *uri, const char *json, int32_t mode, const pennon_call *call,
                                                const char *branch, pennon_transaction **out, pennon_error *err)
{
    struct api a;
    struct transaction *t = NULL;
    pennon_status st = api_begin(&a, call, uri, "uri");
    if (st == PENNON_OK && (!json || !out)) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "json or out is NULL");
    if (st == PENNON_OK) st = transaction_of_fragments(&a.c, uri, json, mode, branch, &t, a.err);
    if (st == PENNON_OK) st = transaction_handle(&a.c, t, out, a.err);
    return api_end(&a, st, err);
}
