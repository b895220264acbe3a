/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Opening a version, and what the fragments of a snapshot hold: counts, deletions, row ids, row versions.
 *
 * Opening reads one manifest: its size and identity, then its bytes. The version that the name says and the one inside must be the
 * same. Everything else is read when it is asked for and kept in the snapshot.
 * Source: spec table-format 3, 4.1, 8, 10 - 12, 19.1. */
#include <stdatomic.h>
#include <stdio.h>

#include "table/table_private.h"

#define DELETION_FILE_MAX ((uint64_t)1 << 34)

/* ---- life ---- */

struct snapshot *snapshot_retain(struct snapshot *s)
{
    ASSERT(s != NULL);
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void snapshot_release(struct snapshot *s)
{
    if (s == NULL || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
    struct mem *m = s->mem;
    caches_free(s);
    schema_release(s->schema);
    table_location_free(m, &s->at);
    arena_reset(&s->arena);
    block_release(s->bytes);
    mem_free(m, s);
    mem_release(m);
}

pennon_status snapshot_copy_rule(struct snapshot *s, const struct external_rule *rule, pennon_error *err)
{
    if (rule == NULL) return PENNON_OK;
    s->external.policy = rule->policy;
    const char **prefixes = arena_calloc(&s->arena, rule->n_prefixes, sizeof *prefixes, err);
    if (prefixes == NULL) return err->code;
    for (size_t i = 0; i < rule->n_prefixes; i++) {
        prefixes[i] = arena_strndup(&s->arena, rule->prefixes[i], strlen(rule->prefixes[i]), err);
        if (prefixes[i] == NULL) return err->code;
    }
    s->external.prefixes = prefixes;
    s->external.n_prefixes = rule->n_prefixes;
    return PENNON_OK;
}

/* ---- reading a manifest ---- */

/* Bytes of a manifest that are read at once; a larger one is read from its message on, which is found in the last TAIL bytes. */
#define WHOLE_MAX (256u << 10)
#define TAIL (64u << 10)

static pennon_status read_part(const struct call *c, struct mem *m, pennon_store *store, const char *path, uint64_t at,
                               uint64_t end, struct block **out, pennon_error *err)
{
    struct block *b = block_new(m, (size_t)(end - at), err);
    if (b == NULL) return err->code;
    pennon_range part = {at, end - at, b->data};
    pennon_status st = end > at ? store_read_ranges(c, store, path, 1, &part, err) : PENNON_OK;
    if (st != PENNON_OK) {
        block_release(b);
        return st;
    }
    *out = b;
    return PENNON_OK;
}

/* The file from its message on, or more of it, with its identity. NOT_FOUND. */
static pennon_status fetch(const struct call *c, struct mem *m, pennon_store *store, const char *path, struct block **out,
                           uint64_t *at, char etag[64], pennon_error *err)
{
    pennon_object_info info;
    TRY_RETURN(store_head(c, store, path, &info, err));
    if (info.size > MANIFEST_MAX) return error_set(err, PENNON_CORRUPT, "manifest '%.256s' of %" PRIu64 " bytes", path, info.size);
    memcpy(etag, info.etag, sizeof info.etag);
    etag[63] = '\0';
    *at = info.size > WHOLE_MAX ? info.size - TAIL : 0;
    TRY_RETURN(read_part(c, m, store, path, *at, info.size, out, err));
    if (*at == 0) return PENNON_OK;
    struct block *tail = *out;
    uint64_t position = 0;
    *out = NULL;
    pennon_status st = manifest_position(bytes_of(tail->data, tail->size), info.size, &position, err);
    if (st != PENNON_OK || position >= *at) {
        *out = tail;
    } else {
        /* Once more, into one block: the tail is the smaller part. */
        block_release(tail);
        *at = position;
        st = read_part(c, m, store, path, position, info.size, out, err);
    }
    if (st != PENNON_OK) (void)store_error(store, path, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, err);
    return st;
}

static bool ends_with_branch(const char *path, const char *branch)
{
    size_t n = strlen(path), b = strlen(branch);
    return n > b + 6 && memcmp(path + n - b - 6, "/tree/", 6) == 0 && memcmp(path + n - b, branch, b) == 0;
}

/* The manifest must be of the branch that the place says; a place that says none learns it from the manifest. */
static pennon_status check_branch(struct snapshot *s, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const char *name = "";
    if (s->manifest.has_branch)
        TRY_NEW(name, arena_strndup(&s->arena, (const char *)s->manifest.branch.data, s->manifest.branch.size, err));
    if (s->at.branch != NULL) {
        CHECK_FILE(strcmp(s->at.branch, name) == 0, "manifest: it belongs to branch '%.128s', not to '%.128s'",
                   name[0] != '\0' ? name : "main", s->at.branch);
    } else if (ends_with_branch(s->at.path, name) && branch_name_valid(name)) {
        TRY_NEW(s->at.branch, mem_strdup(s->mem, name, err));
    }
done:
    return st;
}

static pennon_status read_at(const struct call *c, struct mem *m, const struct table_location *at, uint64_t version,
                             const char *path, const struct external_rule *external, struct snapshot **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct block *file = NULL;
    struct snapshot *s = NULL;
    struct manifest_name name;
    char etag[64];
    uint64_t from = 0;
    TRY(fetch(c, m, at->store, path, &file, &from, etag, err));
    TRY(snapshot_parse_tail(m, file, from, path, &s, err));
    if (from > 0 && s->storage_version == STORAGE_LEGACY && schema_has_dictionaries(s->schema)) {
        /* Values of dictionaries lie anywhere before the message. */
        const uint64_t size = s->file_size;
        snapshot_release(s);
        block_release(file);
        s = NULL;
        file = NULL;
        TRY(read_part(c, m, at->store, path, 0, size, &file, err));
        TRY(snapshot_parse(m, file, path, &s, err));
    }
    memcpy(s->etag, etag, sizeof etag);
    s->v2_names = manifest_name_parse(path_name(path), &name) && name.v2;
    TRY(table_location_copy(s->mem, at, &s->at, err));
    TRY(snapshot_copy_rule(s, external, err));
    if (s->version != version) {
        st = error_set(err, PENNON_CORRUPT, "the manifest of version %" PRIu64 " says that it is version %" PRIu64, version,
                       s->version);
        goto done;
    }
    TRY(check_branch(s, err));
    *out = s;
    s = NULL;
done:
    /* A version that is not there has a name in either scheme. */
    if (st != PENNON_OK && st != PENNON_NOT_FOUND) {
        (void)store_error(at->store, path, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, err);
        (void)error_where(err, at->uri, NULL, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE);
        if (err->version == 0) err->version = version;
    }
    block_release(file);
    snapshot_release(s);
    return st;
}

pennon_status snapshot_read(const struct call *c, const struct table_location *at, uint64_t version, bool v2_first,
                            const struct external_rule *external, struct snapshot **out, pennon_error *err)
{
    return snapshot_read_for(c, runtime_mem(c->runtime), at, version, v2_first, external, out, err);
}

pennon_status snapshot_read_for(const struct call *c, struct mem *m, const struct table_location *at, uint64_t version,
                                bool v2_first, const struct external_rule *external, struct snapshot **out, pennon_error *err)
{
    pennon_status st = PENNON_NOT_FOUND;
    ASSERT(version != 0);
    for (int turn = 0; turn < 2 && st == PENNON_NOT_FOUND; turn++) {
        char *path = manifest_path(c->mem, at->path, version, (turn == 0) == v2_first, err);
        if (path == NULL) return err->code;
        st = read_at(c, m, at, version, path, external, out, err);
        mem_free(c->mem, path);
        if (version & DETACHED_VERSION) break;
    }
    return st;
}

/* ---- opening ---- */

static pennon_status no_table(const struct table_location *at, pennon_error *err)
{
    (void)error_set(err, PENNON_NOT_FOUND, "there is no table at '%.512s'", at->uri);
    (void)error_where(err, at->uri, NULL, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE);
    return error_kind(err, "DatasetNotFound");
}

static pennon_status no_version(const struct table_location *at, uint64_t version, pennon_error *err)
{
    (void)error_set(err, PENNON_NOT_FOUND, "the table '%.512s' has no version %" PRIu64, at->uri, version);
    (void)error_where(err, at->uri, NULL, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE);
    err->version = version;
    return error_kind(err, "VersionNotFound");
}

static pennon_status open_latest(const struct call *c, const struct table_location *at, const struct external_rule *external,
                                 struct snapshot **out, pennon_error *err)
{
    uint64_t version;
    bool v2;
    /* A cleanup or a migration of names may remove what was just listed: look once more. */
    for (int turn = 0;; turn++) {
        TRY_RETURN(latest_version(c, at, &version, &v2, err));
        if (version == 0) return no_table(at, err);
        pennon_status st = snapshot_read(c, at, version, v2, external, out, err);
        if (st != PENNON_NOT_FOUND || turn == 2) return st;
    }
}

static pennon_status open_number(const struct call *c, const struct table_location *at, uint64_t version,
                                 const struct external_rule *external, struct snapshot **out, pennon_error *err)
{
    uint64_t latest;
    bool v2;
    pennon_status st = snapshot_read(c, at, version, true, external, out, err);
    if (st != PENNON_NOT_FOUND) return st;
    TRY_RETURN(latest_version(c, at, &latest, &v2, err));
    return latest == 0 ? no_table(at, err) : no_version(at, version, err);
}

/* The newest version that is not younger than the time. Clocks of writers differ: versions are looked at from the newest on. */
static pennon_status open_as_of(const struct call *c, const struct table_location *at, int64_t as_of_ns,
                                const struct external_rule *external, struct snapshot **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    uint64_t *versions = NULL;
    size_t n = 0;
    TRY(list_versions(c, at, &versions, &n, err));
    if (n == 0) {
        st = no_table(at, err);
        goto done;
    }
    for (; n > 0; n--) {
        struct snapshot *s = NULL;
        TRY(snapshot_read(c, at, versions[n - 1], true, external, &s, err));
        if (s->timestamp_ns <= as_of_ns) {
            *out = s;
            goto done;
        }
        snapshot_release(s);
    }
    (void)error_set(err, PENNON_NOT_FOUND, "every version of the table '%.512s' is younger than that time", at->uri);
    st = error_kind(err, "VersionNotFound");
done:
    mem_free(c->mem, versions);
    return st;
}

pennon_status snapshot_open(const struct call *c, const struct table_location *at, const struct version_ref *ref,
                            const struct external_rule *external, struct snapshot **out, pennon_error *err)
{
    static const struct version_ref latest = {.as_of_ns = INT64_MIN};
    pennon_status st = PENNON_OK;
    struct table_location place = {0};
    struct ref_entry tag = {0};
    if (ref == NULL) ref = &latest;
    uint64_t version = ref->version;
    const char *branch = ref->branch != NULL ? ref->branch : at->branch;
    if (ref->tag != NULL) {
        TRY(read_tag(c, at, ref->tag, &tag, err));
        version = tag.version;
        branch = tag.branch;
    }
    TRY(branch_location(c->mem, at, branch, &place, err));
    if (version != 0) {
        st = open_number(c, &place, version, external, out, err);
    } else if (ref->as_of_ns != INT64_MIN) {
        st = open_as_of(c, &place, ref->as_of_ns, external, out, err);
    } else {
        st = open_latest(c, &place, external, out, err);
    }
    if (st == PENNON_NOT_FOUND && ref->branch != NULL && place.branch != NULL && strcmp(err->kind, "DatasetNotFound") == 0) {
        (void)error_set(err, PENNON_NOT_FOUND, "the table '%.512s' has no branch '%.128s'", at->uri, place.branch);
        st = error_kind(err, "RefNotFound");
    }
done:
    ref_entry_free(c->mem, &tag);
    table_location_free(c->mem, &place);
    return st;
}

/* The k-th fragment in the order of ids. */
static const struct fragment *fragment_by_id(const struct snapshot *s, size_t k)
{
    ASSERT(k < s->n_fragments);
    return &s->fragments[s->by_id != NULL ? s->by_id[k] : k];
}

const struct fragment *snapshot_find_fragment(const struct snapshot *s, uint64_t id)
{
    size_t low = 0, high = s->n_fragments;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (fragment_by_id(s, mid)->id < id) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low < s->n_fragments && fragment_by_id(s, low)->id == id ? fragment_by_id(s, low) : NULL;
}

/* ---- counts ---- */

pennon_status fragment_physical_rows(const struct call *c, struct snapshot *s, const struct fragment *f, file_length_fn length,
                                     void *ctx, uint64_t *rows, pennon_error *err)
{
    *rows = f->physical_rows;
    if (*rows != UINT64_MAX) return PENNON_OK;
    CHECK_FILE_RETURN(f->n_files > 0, "fragment %u has no data files", f->id);
    TRY_RETURN(length(ctx, c, s, &f->files[0], rows, err));
    CHECK_FILE_RETURN(*rows <= UINT32_MAX, "fragment %u has %" PRIu64 " rows", f->id, *rows);
    return PENNON_OK;
}

pennon_status fragment_live_rows(const struct call *c, struct snapshot *s, const struct fragment *f, file_length_fn length,
                                 void *ctx, uint64_t *rows, pennon_error *err)
{
    uint64_t deleted = f->deleted_rows, outside = 0;
    TRY_RETURN(fragment_physical_rows(c, s, f, length, ctx, rows, err));
    if (f->deletion != NULL && (deleted == UINT64_MAX || f->physical_rows == UINT64_MAX)) {
        struct deletion_vector *d = NULL;
        TRY_RETURN(fragment_deletions(c, s, f, &d, err));
        deleted = d != NULL ? deletion_vector_rank(d, *rows) : 0;
        outside = d != NULL && !fragment_deletions_doubted(f) ? deletion_vector_count(d) - deleted : 0;
        deletion_vector_release(d);
    }
    /* Where the manifest does not know the rows, the deletion file could not be held against them before. */
    CHECK_FILE_RETURN(outside == 0, "fragment %u has %" PRIu64 " rows, and %" PRIu64 " rows behind them are deleted", f->id, *rows,
                      outside);
    CHECK_FILE_RETURN(deleted <= *rows, "fragment %u has %" PRIu64 " rows and %" PRIu64 " deleted ones", f->id, *rows, deleted);
    *rows -= deleted;
    return PENNON_OK;
}

/* ---- deletions ---- */

pennon_status deletion_file_locate(const struct call *c, struct snapshot *s, const struct fragment *f, pennon_store **store,
                                   char **path, pennon_error *err)
{
    const struct deletion_file_message *m = f->deletion;
    pennon_status st = PENNON_OK;
    char *base = NULL;
    *path = NULL;
    *store = NULL;
    if (m->file_type > 1) FAIL(PENNON_NOT_SUPPORTED, "fragment %u has a deletion file of type %u", f->id, m->file_type);
    uint32_t index = m->has_base_id ? snapshot_find_base(s, m->base_id) : NO_BASE;
    CHECK_FILE(index == NO_BASE || s->bases[index].is_dataset_root,
               "the deletion file of fragment %u lies in a base path that is no table", f->id);
    TRY(base_locate(c, s, index, store, &base, err));
    TRY_NEW(*path, mem_printf(c->mem, err, "%s%s_deletions/%u-%" PRIu64 "-%" PRIu64 ".%s", base, base[0] != '\0' ? "/" : "", f->id,
                              m->read_version, m->id, m->file_type == 0 ? "arrow" : "bin"));
done:
    mem_free(c->mem, base);
    if (st != PENNON_OK) {
        pennon_store_free(*store);
        *store = NULL;
    }
    return st;
}

pennon_status fragment_deletions_error(const struct call *c, struct snapshot *s, const struct fragment *f, pennon_error *err)
{
    pennon_store *store = NULL;
    char *path = NULL;
    pennon_error ignored;
    pennon_error_init(&ignored);
    if (!err->file && deletion_file_locate(c, s, f, &store, &path, &ignored) == PENNON_OK)
        (void)store_error(store, path, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, err);
    pennon_error_clear(&ignored);
    pennon_store_free(store);
    mem_free(c->mem, path);
    return err->code;
}

bool fragment_deletions_doubted(const struct fragment *f)
{
    return f->message->row_ids_which != 0 && f->message->created_which == 0;
}

/* Only the offsets below `end`. */
static pennon_status cut_deletions(struct mem *m, uint64_t end, struct deletion_vector **d, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct deletion_vector *cut = NULL;
    uint32_t *offsets = NULL;
    size_t n = 0;
    if (deletion_vector_next(*d, end) == UINT64_MAX) return PENNON_OK;
    TRY_NEW(offsets, mem_calloc(m, (size_t)deletion_vector_rank(*d, end) + 1, sizeof *offsets, err));
    for (uint64_t at = deletion_vector_next(*d, 0); at < end; at = deletion_vector_next(*d, at + 1)) offsets[n++] = (uint32_t)at;
    TRY(deletion_vector_make(m, offsets, n, &cut, err));
    deletion_vector_release(*d);
    *d = cut;
done:
    mem_free(m, offsets);
    return st;
}

/* *d is replaced where offsets are left out. */
static pennon_status check_deletions(struct mem *m, const struct fragment *f, struct deletion_vector **d, pennon_error *err)
{
    uint64_t count = deletion_vector_count(*d), said = f->deletion->num_deleted_rows, rows = f->physical_rows;
    CHECK_FILE_RETURN(said == 0 || count == said,
                      "fragment %u: its deletion file holds %" PRIu64 " rows, the manifest says %" PRIu64, f->id, count, said);
    if (fragment_deletions_doubted(f)) return cut_deletions(m, rows, d, err);
    uint64_t outside = rows == UINT64_MAX ? UINT64_MAX : deletion_vector_next(*d, rows);
    CHECK_FILE_RETURN(outside == UINT64_MAX, "fragment %u has %" PRIu64 " rows, and row %" PRIu64 " is deleted", f->id, rows,
                      outside);
    return PENNON_OK;
}

pennon_status fragment_deletions(const struct call *c, struct snapshot *s, const struct fragment *f, struct deletion_vector **out,
                                 pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct block *file = NULL;
    struct deletion_vector *d = NULL;
    pennon_store *store = NULL;
    char *path = NULL;
    void *kept;
    *out = NULL;
    if (f->deletion == NULL) return PENNON_OK;
    kept = cache_get(s, CACHE_DELETIONS, f);
    if (kept == NULL) {
        TRY(deletion_file_locate(c, s, f, &store, &path, err));
        TRY(store_get(c, store, path, DELETION_FILE_MAX, &file, err));
        struct bytes in = bytes_of(file->data, file->size);
        st = f->deletion->file_type == 0 ? deletion_array_parse(s->mem, in, &d, err) : deletion_bitmap_parse(s->mem, in, &d, err);
        if (st == PENNON_OK) st = check_deletions(s->mem, f, &d, err);
        if (st != PENNON_OK) {
            (void)store_error(store, path, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, err);
            goto done;
        }
        struct deletion_vector *give = d;
        d = NULL;
        TRY(cache_put(s, CACHE_DELETIONS, f, give, &kept, err));
    }
    *out = deletion_vector_retain(kept);
done:
    deletion_vector_release(d);
    block_release(file);
    pennon_store_free(store);
    mem_free(c->mem, path);
    return st;
}

/* ---- row ids and versions ---- */

/* Bytes of a sequence that lies in a file of its own, always below the table itself. */
static pennon_status read_external(const struct call *c, const struct snapshot *s, const struct external_file_message *m,
                                   struct block **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    char *name = NULL, *path = NULL;
    struct block *b = NULL;
    CHECK_FILE(m != NULL && m->path.size > 0 && memchr(m->path.data, 0, m->path.size) == NULL,
               "manifest: an external file without a name");
    TRY_NEW(name, mem_strndup(c->mem, (const char *)m->path.data, m->path.size, err));
    TRY_NEW(path, store_join(c->mem, s->at.path, name, err));
    TRY_NEW(b, block_new(c->mem, (size_t)m->size, err));
    pennon_range r = {m->offset, m->size, b->data};
    if (m->size > 0) TRY(store_read_ranges(c, s->at.store, path, 1, &r, err));
    *out = b;
    b = NULL;
done:
    block_release(b);
    mem_free(c->mem, name);
    mem_free(c->mem, path);
    return st;
}

static pennon_status load_row_ids(const struct call *c, struct snapshot *s, const struct fragment *f, struct row_id_sequence **out,
                                  pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct block *file = NULL;
    TRY_RETURN(fragment_load(s, f, err));
    struct bytes in = f->message->inline_row_ids;
    CHECK_FILE(f->message->row_ids_which != 0, "the table has stable row ids, and fragment %u has none", f->id);
    if (f->message->row_ids_which == 6) {
        TRY(read_external(c, s, f->message->external_row_ids, &file, err));
        in = bytes_of(file->data, file->size);
    }
    st = row_id_sequence_parse(s->mem, in, f->physical_rows, out, err);
    if (st != PENNON_OK) (void)error_prefix(err, "fragment %u", f->id);
done:
    block_release(file);
    return st;
}

pennon_status fragment_row_ids(const struct call *c, struct snapshot *s, const struct fragment *f,
                               const struct row_id_sequence **out, pennon_error *err)
{
    *out = NULL;
    if (!snapshot_has_stable_ids(s)) return PENNON_OK;
    void *kept = cache_get(s, CACHE_ROW_IDS, f);
    if (kept == NULL) {
        struct row_id_sequence *r = NULL;
        TRY_RETURN(load_row_ids(c, s, f, &r, err));
        TRY_RETURN(cache_put(s, CACHE_ROW_IDS, f, r, &kept, err));
    }
    *out = kept;
    return PENNON_OK;
}

pennon_status fragment_fill_row_ids(const struct call *c, struct snapshot *s, const struct fragment *f, uint64_t start, uint64_t n,
                                    uint64_t *out, pennon_error *err)
{
    const struct row_id_sequence *r;
    TRY_RETURN(fragment_row_ids(c, s, f, &r, err));
    if (r == NULL) {
        for (uint64_t i = 0; i < n; i++) out[i] = (uint64_t)f->id << 32 | (start + i);
        return PENNON_OK;
    }
    CHECK_FILE_RETURN(range_inside(start, n, row_id_sequence_length(r)), "fragment %u has %" PRIu64 " row ids and more rows", f->id,
                      row_id_sequence_length(r));
    row_id_sequence_get(r, start, n, out);
    return PENNON_OK;
}

static pennon_status load_versions(const struct call *c, struct snapshot *s, const struct fragment *f, enum lineage which,
                                   struct version_sequence **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct block *file = NULL;
    const struct fragment_message *m = f->message;
    const bool created = which == LINEAGE_CREATED_AT;
    struct bytes in = created ? m->inline_created : m->inline_last_updated;
    const struct external_file_message *external = created ? m->external_created : m->external_last_updated;
    if ((created ? m->created_which == 10 : m->last_updated_which == 8)) {
        TRY(read_external(c, s, external, &file, err));
        in = bytes_of(file->data, file->size);
    }
    st = version_sequence_parse(s->mem, in, out, err);
    if (st != PENNON_OK) (void)error_prefix(err, "fragment %u", f->id);
done:
    block_release(file);
    return st;
}

pennon_status fragment_fill_versions(const struct call *c, struct snapshot *s, const struct fragment *f, enum lineage which,
                                     uint64_t start, uint64_t n, uint64_t *out, pennon_error *err)
{
    const bool created = which == LINEAGE_CREATED_AT;
    TRY_RETURN(fragment_load(s, f, err));
    if ((created ? f->message->created_which : f->message->last_updated_which) == 0) {
        for (uint64_t i = 0; i < n; i++) out[i] = 1;
        return PENNON_OK;
    }
    enum cache_kind kind = created ? CACHE_CREATED : CACHE_UPDATED;
    void *kept = cache_get(s, kind, f);
    if (kept == NULL) {
        struct version_sequence *v = NULL;
        TRY_RETURN(load_versions(c, s, f, which, &v, err));
        TRY_RETURN(cache_put(s, kind, f, v, &kept, err));
    }
    return version_sequence_get(kept, start, n, out, err);
}
