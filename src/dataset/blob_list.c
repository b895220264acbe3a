/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Lists of blobs: from rows to the places of their bytes.
 *
 *   take of the descriptors, with address and place of the row
 *     -> a key a blob: data file of the row (by fragment), sidecar of it, or base and URI
 *     -> keys sorted; equal ones share an object
 *
 * Nothing but descriptors is read. What lies in the data file is checked against its size at once, which the reader knows; sidecars and external objects
 * are looked for when their bytes are asked for. No size of a descriptor is believed before that: what is allocated are buffers of the caller.
 * Source: spec commits 14, file-format 14. */
#include "dataset/blob_list.h"

#include <stdlib.h>

/* ---- life ---- */

void pennon_blobs_retain(pennon_blobs *b)
{
    if (b) atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
}

void pennon_blobs_free(pennon_blobs *b)
{
    if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1) return;
    struct mem *m = b->mem;
    pennon_runtime *rt = b->runtime;
    for (size_t i = 0; i < b->n_objects; i++) {
        pennon_store_free(b->objects[i].store);
        mem_free(m, b->objects[i].path);
    }
    mem_free(m, b->objects);
    mem_free(m, b->entries);
    arena_reset(&b->arena);
    snapshot_release(b->s);
    (void)pthread_mutex_destroy(&b->lock);
    mem_free(m, b);
    mem_release(m);
    pennon_runtime_free(rt);
}

static pennon_blobs *list_new(const struct call *c, struct snapshot *s, const char *column, size_t n, pennon_error *err)
{
    struct mem *m = runtime_mem(c->runtime);
    pennon_blobs *b = mem_calloc(m, 1, sizeof *b, err);
    if (!b) return NULL;
    b->runtime = c->runtime;
    pennon_runtime_retain(b->runtime);
    b->mem = mem_retain(m);
    b->s = snapshot_retain(s);
    arena_init(&b->arena, m);
    (void)pthread_mutex_init(&b->lock, NULL);
    atomic_init(&b->refs, 1);
    b->column = arena_strndup(&b->arena, column, strlen(column), err);
    b->entries = b->column ? mem_calloc(m, n + 1, sizeof *b->entries, err) : NULL;
    if (b->entries) return b;
    pennon_blobs_free(b);
    return NULL;
}

/* ---- from descriptors to keys ---- */

/* What two blobs of the same object have in common. */
struct key {
    size_t entry;
    uint64_t fragment; /* place in the snapshot; UINT64_MAX for external blobs */
    enum blob_place place;
    uint32_t id;
    const char *uri; /* external */
};

struct taking {
    const struct call *c;
    struct snapshot *s;
    struct file_cache *fc;
    pennon_blobs *b;
    const struct field *field;
    const struct ArrowArray *column; /* descriptors */
    const uint64_t *addresses, *places;
    struct key *keys;
    size_t n_keys;
};

static pennon_status note_row(struct taking *t, size_t i, pennon_error *err)
{
    struct blob_entry *e = &t->b->entries[i];
    struct blob_value v;
    TRY_RETURN(blob_value_at(t->field, t->column, i, &v, err));
    *e = (struct blob_entry){.address = t->addresses[i], .object = NO_OBJECT, .is_null = v.is_null};
    if (v.is_null) return PENNON_OK;
    e->kind = (int32_t)v.kind;
    e->offset = v.offset;
    e->size = v.size;
    e->to_end = v.place == BLOB_ELSEWHERE && v.size == 0;
    struct key k = {i, t->places[i] >> 32, v.place, v.place == BLOB_IN_FILE ? 0 : v.id, ""};
    if (v.place == BLOB_ELSEWHERE) {
        k.fragment = UINT64_MAX;
        CHECK_FILE_RETURN(v.uri.size && !memchr(v.uri.data, 0, v.uri.size),
                          "an external blob whose URI is empty or holds a zero byte");
        k.uri = e->uri = arena_strndup(&t->b->arena, (const char *)v.uri.data, v.uri.size, err);
        if (!k.uri) return err->code;
    } else if (v.size == 0) {
        return PENNON_OK;
    }
    t->keys[t->n_keys++] = k;
    return PENNON_OK;
}

/* The data file that has the column in this fragment: its place, and its size from the reader, which the take opened. */
static pennon_status data_file_of(struct taking *t, uint64_t place, pennon_store **store, char **path, uint64_t *size,
                                  pennon_error *err)
{
    const struct fragment *f = &t->s->fragments[place];
    ASSERT(place < t->s->n_fragments);
    TRY_RETURN(fragment_load(t->s, f, err));
    const struct data_file *file = fragment_file_of(f, t->field->id);
    struct file_reader *r;
    CHECK_FILE_RETURN(file, "no data file of fragment %u has the blobs of column '%s'", f->id, t->b->column);
    TRY_RETURN(data_file_locate(t->c, t->s, file, store, path, err));
    TRY_RETURN(file_cache_get(t->c, t->fc, t->s, file, &r, err));
    *size = file_reader_size(r);
    file_reader_release(r);
    return PENNON_OK;
}

/* Put the row and its data file into a failure. */
static pennon_status at_row(struct taking *t, size_t i, pennon_error *err)
{
    pennon_error ignored;
    pennon_store *store = NULL;
    char *path = NULL;
    uint64_t size;
    pennon_error_init(&ignored);
    (void)error_prefix(err, "column '%s', row %" PRIu64 " of fragment %" PRIu64, t->b->column, t->addresses[i] & UINT32_MAX,
                       t->addresses[i] >> 32);
    if (data_file_of(t, t->places[i] >> 32, &store, &path, &size, &ignored) == PENNON_OK)
        (void)store_error(store, path, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, err);
    pennon_store_free(store);
    mem_free(t->c->mem, path);
    pennon_error_clear(&ignored);
    return err->code;
}

static pennon_status note_rows(struct taking *t, size_t n, pennon_error *err)
{
    t->keys = mem_calloc(t->c->mem, n + 1, sizeof *t->keys, err);
    if (!t->keys) return err->code;
    for (size_t i = 0; i < n; i++) {
        if (i % 4096 == 0) TRY_RETURN(call_check(t->c, err));
        t->b->n = i + 1;
        if (note_row(t, i, err) != PENNON_OK) return at_row(t, i, err);
    }
    return PENNON_OK;
}

/* ---- objects ---- */

static int compare_objects(const struct key *a, const struct key *b)
{
    if (a->fragment != b->fragment) return a->fragment < b->fragment ? -1 : 1;
    if (a->place != b->place) return a->place < b->place ? -1 : 1;
    if (a->id != b->id) return a->id < b->id ? -1 : 1;
    return strcmp(a->uri, b->uri);
}

static int by_object(const void *x, const void *y)
{
    const struct key *a = x, *b = y;
    int order = compare_objects(a, b);
    return order ? order : (a->entry > b->entry) - (a->entry < b->entry);
}

static pennon_status make_object(struct taking *t, const struct key *k, struct blob_object *o, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    pennon_store *store = NULL;
    char *path = NULL;
    uint64_t size;
    o->base = k->id;
    if (k->place == BLOB_ELSEWHERE) {
        o->uri = k->uri;
        return PENNON_OK;
    }
    TRY(data_file_of(t, k->fragment, &store, &path, &size, err));
    o->in_table = true;
    if (k->place == BLOB_IN_SIDECAR) {
        TRY_NEW(o->path, blob_sidecar_path(t->b->mem, path, k->id, err));
    } else {
        TRY_NEW(o->path, mem_strdup(t->b->mem, path, err));
        o->size = size;
        o->measured = true;
    }
    o->store = store;
    store = NULL;
done:
    pennon_store_free(store);
    mem_free(t->c->mem, path);
    return st;
}

/* Its last name, for messages: the error says where it lies. */
static const char *object_name(const struct blob_object *o)
{
    const char *slash = strrchr(o->path, '/');
    return slash ? slash + 1 : o->path;
}

/* The bytes of the blob lie in the object, which is measured. */
static pennon_status check_inside(const pennon_blobs *b, const struct blob_entry *e, pennon_error *err)
{
    const struct blob_object *o = &b->objects[e->object];
    if (e->to_end ? e->offset <= o->size : range_inside(e->offset, e->size, o->size)) return PENNON_OK;
    (void)error_set(err, PENNON_CORRUPT,
                    "column '%s', row %" PRIu64 " of fragment %" PRIu64 ": a blob of %" PRIu64 " bytes at %" PRIu64
                    " of '%s', which has %" PRIu64,
                    b->column, e->address & UINT32_MAX, e->address >> 32, e->size, e->offset, object_name(o), o->size);
    return store_error(o->store, o->path, PENNON_NOWHERE, PENNON_NOWHERE,
                       e->offset <= INT64_MAX ? (int64_t)e->offset : PENNON_NOWHERE, err);
}

static pennon_status make_objects(struct taking *t, pennon_error *err)
{
    pennon_blobs *b = t->b;
    if (t->n_keys > 1) qsort(t->keys, t->n_keys, sizeof *t->keys, by_object);
    size_t n = 0;
    for (size_t i = 0; i < t->n_keys; i++) n += i == 0 || compare_objects(&t->keys[i - 1], &t->keys[i]) != 0;
    b->objects = mem_calloc(b->mem, n + 1, sizeof *b->objects, err);
    if (!b->objects) return err->code;
    for (size_t i = 0; i < t->n_keys; i++) {
        if (i == 0 || compare_objects(&t->keys[i - 1], &t->keys[i]) != 0) {
            TRY_RETURN(call_check(t->c, err));
            TRY_RETURN(make_object(t, &t->keys[i], &b->objects[b->n_objects++], err));
        }
        struct blob_entry *e = &b->entries[t->keys[i].entry];
        e->object = b->n_objects - 1;
        if (b->objects[e->object].measured) TRY_RETURN(check_inside(b, e, err));
    }
    ASSERT(b->n_objects == n);
    return PENNON_OK;
}

pennon_status blob_list_of(const struct call *c, struct snapshot *s, struct file_cache *fc, const struct field *f, const char *name,
                           const struct ArrowArray *column, const uint64_t *addresses, const uint64_t *places, size_t n,
                           pennon_blobs **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct taking t = {.c = c, .s = s, .fc = fc, .field = f, .column = column, .addresses = addresses, .places = places};
    TRY_NEW(t.b, list_new(c, s, name, n, err));
    TRY(note_rows(&t, n, err));
    TRY(make_objects(&t, err));
    *out = t.b;
    t.b = NULL;
done:
    pennon_blobs_free(t.b);
    mem_free(c->mem, t.keys);
    return st;
}

/* ---- rows of a table ---- */

static pennon_status plan_column(const struct call *c, const struct snapshot *s, const char *column, struct column_plan **plan,
                                 const struct field **out, pennon_error *err)
{
    const struct column_request r = {
        .columns = &column, .n = 1, .row_address = true, .place = true, .allow_doubled = true, .blobs = BLOB_AS_DESCRIPTOR};
    TRY_RETURN(column_plan_make(s, &r, c->mem, plan, err));
    const struct output_column *first = &(*plan)->columns[0];
    const struct field *f = NULL;
    if (first->system == SYSTEM_NONE) {
        f = (*plan)->read->fields[first->path[0]];
        for (uint32_t i = 1; i < first->depth; i++) f = f->children[first->path[i]];
    }
    if (!f || (f->kind != FIELD_BLOB_V1 && f->kind != FIELD_BLOB_V2))
        return error_set(err, PENNON_INVALID_ARGUMENT, "the column '%s' is not a blob column", column);
    *out = f;
    return PENNON_OK;
}

/* Every row has to be there. */
static pennon_status check_found(const struct snapshot *s, int32_t selector, size_t n, const uint64_t *rows, const uint64_t *places,
                                 pennon_error *err)
{
    size_t found = 0, missing = n;
    for (size_t i = 0; i < n; i++) {
        found += places[i] != ADDRESS_NONE;
        if (places[i] == ADDRESS_NONE && missing == n) missing = i;
    }
    if (missing == n) return PENNON_OK;
    if (selector == PENNON_TAKE_ROW_IDS && snapshot_has_stable_ids(s))
        return error_set(err, PENNON_INVALID_ARGUMENT,
                         "Could not resolve all requested row IDs: requested %zu, resolved %zu; first missing row ID %" PRIu64
                         " was deleted or not found",
                         n, found, rows[missing]);
    if (!snapshot_find_fragment(s, rows[missing] >> 32))
        return error_set(err, PENNON_INVALID_ARGUMENT, "rowaddr %" PRIu64 " belongs to non-existent fragment: %" PRIu64,
                         rows[missing], rows[missing] >> 32);
    return error_set(err, PENNON_NOT_SUPPORTED,
                     "Expected %zu rows, got %zu.  A take operation that includes row addresses must not target deleted rows.", n,
                     found);
}

static const uint64_t *words(const struct ArrowArray *a) { return (const uint64_t *)a->buffers[1] + a->offset; }

pennon_status blob_list_take(const struct call *c, struct snapshot *s, struct file_cache *fc, const char *column, int32_t selector,
                             size_t n, const uint64_t *rows, pennon_blobs **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct column_plan *plan = NULL;
    const struct field *f;
    uint64_t *places = NULL;
    struct ArrowArray batch = {0}; /* descriptors, addresses, places */
    TRY(plan_column(c, s, column, &plan, &f, err));
    TRY_NEW(places, mem_calloc(c->mem, n + 1, sizeof *places, err));
    if (n) TRY(resolve_selector(c, s, fc, selector, rows, n, places, err));
    TRY(check_found(s, selector, n, rows, places, err));
    TRY(take_places(c, s, fc, plan, places, n, &batch, err));
    if ((uint64_t)batch.length != n)
        FAIL(PENNON_NOT_SUPPORTED,
             "Expected %zu rows, got %" PRId64 ".  A take operation that includes row addresses must not target deleted rows.", n,
             batch.length);
    TRY(blob_list_of(c, s, fc, f, column, batch.children[0], words(batch.children[1]), words(batch.children[2]), n, out, err));
done:
    mem_free(c->mem, places);
    array_release(&batch);
    column_plan_free(plan);
    return st;
}

/* ---- on first use ---- */

static pennon_status locate(const struct call *c, pennon_blobs *b, const struct blob_object *o, pennon_store **store, char **path,
                            pennon_error *err)
{
    char *found = NULL;
    TRY_RETURN(external_blob_locate(b->s, c, o->base, bytes_str(o->uri), store, &found, err));
    *path = mem_strdup(b->mem, found, err);
    mem_free(c->mem, found);
    return *path ? PENNON_OK : err->code;
}

/* Not under the lock: two threads may ask the store for the same. */
pennon_status blob_object_find(const struct call *c, pennon_blobs *b, size_t object, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct blob_object *o = &b->objects[object];
    pennon_store *store = NULL;
    char *path = NULL;
    pennon_object_info info;
    ASSERT(object < b->n_objects);
    (void)pthread_mutex_lock(&b->lock);
    const bool found = o->measured;
    (void)pthread_mutex_unlock(&b->lock);
    if (found) return PENNON_OK;
    if (!o->in_table) TRY(locate(c, b, o, &store, &path, err));
    st = store_head(c, o->in_table ? o->store : store, o->in_table ? o->path : path, &info, err);
    if (st == PENNON_NOT_FOUND && o->in_table) {
        pennon_error_clear(err);
        st = error_set(err, PENNON_CORRUPT, "the blob file '%s' is missing", object_name(o));
        st = store_error(o->store, o->path, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, err);
    }
    if (st != PENNON_OK) goto done;
    (void)pthread_mutex_lock(&b->lock);
    if (!o->measured) {
        if (!o->in_table) {
            o->store = store;
            o->path = path;
            store = NULL;
            path = NULL;
        }
        o->size = info.size;
        o->measured = true;
    }
    (void)pthread_mutex_unlock(&b->lock);
done:
    pennon_store_free(store);
    mem_free(b->mem, path);
    return st;
}

pennon_status blob_entry_place(const struct call *c, pennon_blobs *b, size_t i, uint64_t *offset, uint64_t *size, pennon_error *err)
{
    const struct blob_entry *e = &b->entries[i];
    ASSERT(i < b->n && e->object != NO_OBJECT);
    TRY_RETURN(blob_object_find(c, b, e->object, err));
    TRY_RETURN(check_inside(b, e, err));
    *offset = e->offset;
    *size = e->to_end ? b->objects[e->object].size - e->offset : e->size;
    return PENNON_OK;
}

/* ---- reads of many ---- */

/* An object with many bytes is read by several threads: its parts are cut into runs where they have so many. */
#define RUN_BYTES ((uint64_t)4 << 20)

struct reading {
    const struct call *c;
    const pennon_blobs *b;
    const struct blob_part *parts;
    size_t *runs; /* first part of each, and behind the last */
    size_t n_runs;
};

static int by_place(const void *x, const void *y)
{
    const struct blob_part *a = x, *b = y;
    if (a->object != b->object) return a->object < b->object ? -1 : 1;
    if (a->read.offset != b->read.offset) return a->read.offset < b->read.offset ? -1 : 1;
    return (a->read.to > b->read.to) - (a->read.to < b->read.to);
}

static pennon_status read_run(void *arg, size_t i, pennon_error *err)
{
    const struct reading *r = arg;
    const size_t first = r->runs[i], n = r->runs[i + 1] - first;
    const struct blob_object *o = &r->b->objects[r->parts[first].object];
    struct store_part *reads = mem_calloc(r->c->mem, n, sizeof *reads, err);
    if (!reads) return err->code;
    for (size_t k = 0; k < n; k++) reads[k] = r->parts[first + k].read;
    pennon_status st = store_read_parts(r->c, o->store, o->path, reads, n, err);
    mem_free(r->c->mem, reads);
    return st;
}

pennon_status blob_parts_read(const struct call *c, const pennon_blobs *b, struct blob_part *parts, size_t n, pennon_error *err)
{
    struct reading r = {.c = c, .b = b, .parts = parts};
    uint64_t bytes = 0;
    r.runs = mem_calloc(c->mem, n + 1, sizeof *r.runs, err);
    if (!r.runs) return err->code;
    if (n > 1) qsort(parts, n, sizeof *parts, by_place);
    for (size_t i = 0; i < n; i++) {
        ASSERT(parts[i].object < b->n_objects);
        if (i == 0 || parts[i].object != parts[i - 1].object || bytes >= RUN_BYTES) {
            r.runs[r.n_runs++] = i;
            bytes = 0;
        }
        bytes += parts[i].read.size;
    }
    r.runs[r.n_runs] = n;
    pennon_status st = pool_parallel(call_pool(c), c->threads, r.n_runs, read_run, &r, err);
    mem_free(c->mem, r.runs);
    return st;
}
