/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The manifest that an Append or an Overwrite makes.
 *
 * Carried from the current manifest: schema (append), fragments (append), config, table metadata, base paths, branch, storage version, what this
 * library does not know. Made anew: version, time, writer, flags, sections, transaction name. An append keeps the index section byte for byte;
 * an overwrite has none.
 * New fragments get ids above every id ever used, also on overwrite; with stable row ids they get ids from next_row_id on and both row
 * version stamps.
 *
 * Row counts that old writers left out, or wrote wrongly before they named themselves, are filled in: once this library's name stands in the
 * manifest, readers believe the counts.
 * Source: spec commits 3.1, 3.2, 3.4, 2.7, table-format 4, 6. */
#include "table/commit_private.h"

#define DEFAULT_VERSION STORAGE_2_1

pennon_status commit_check_writer_flags(const struct snapshot *current, pennon_error *err)
{
    uint64_t unknown = current->manifest.writer_feature_flags & ~WRITER_FLAGS_KNOWN;
    if (unknown == 0) return PENNON_OK;
    (void)error_set(err, PENNON_NOT_SUPPORTED,
                    "writing to the table needs features of a newer Lance (writer flags %" PRIu64 " are unknown here)", unknown);
    return error_kind(err, "NotSupported");
}

pennon_status commit_check_fragments(const struct commit *m, pennon_error *err)
{
    for (size_t i = 0; i < m->n; i++) {
        const struct fragment_message *f = &m->fragments[i];
        if (f->n_files == 0 || f->physical_rows == 0 || f->physical_rows > UINT32_MAX) {
            return error_set(err, PENNON_INVALID_ARGUMENT, "new fragment %zu has %zu data files and %" PRIu64 " rows", i,
                             f->n_files, f->physical_rows);
        }
        for (size_t k = 0; k < f->n_files; k++) {
            const struct data_file_message *d = &f->files[k];
            if (d->n_fields == 0 || d->n_fields != d->n_column_indices || d->path.size == 0) {
                return error_set(err, PENNON_INVALID_ARGUMENT,
                                 "data file '%.*s' of new fragment %zu has %zu fields and %zu columns", (int)d->path.size,
                                 (const char *)d->path.data, i, d->n_fields, d->n_column_indices);
            }
        }
    }
    return PENNON_OK;
}

/* ---- storage version ---- */

static pennon_status choose_version(const struct commit *m, const struct snapshot *current, uint32_t *out, pennon_error *err)
{
    uint32_t asked = m->options->storage_version, version = asked;
    if (version == 0 && current != NULL) version = current->storage_version;
    if (version == 0 && m->n > 0)
        version = data_file_version(m->fragments[0].files[0].file_major_version, m->fragments[0].files[0].file_minor_version);
    if (version == 0) version = DEFAULT_VERSION;
    if (version == STORAGE_LEGACY && current != NULL && m->op == COMMIT_OVERWRITE && asked == 0) version = DEFAULT_VERSION;
    if (version == STORAGE_LEGACY)
        return error_set(err, PENNON_NOT_SUPPORTED,
                         "the table has data storage version 0.1, which is read only; overwrite it with 2.1");
    if (current != NULL && m->op == COMMIT_APPEND && version != current->storage_version) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "an append with data storage version %s to a table of %s",
                         storage_version_text(version), storage_version_text(current->storage_version));
    }
    for (size_t i = 0; i < m->n; i++) {
        for (size_t k = 0; k < m->fragments[i].n_files; k++) {
            const struct data_file_message *f = &m->fragments[i].files[k];
            if (data_file_version(f->file_major_version, f->file_minor_version) == version) continue;
            return error_set(err, PENNON_INVALID_ARGUMENT, "data file '%.*s' has version %u.%u in a table of %s", (int)f->path.size,
                             (const char *)f->path.data, f->file_major_version, f->file_minor_version,
                             storage_version_text(version));
        }
    }
    if (version < STORAGE_2_0 || version > STORAGE_2_3)
        return error_set(err, PENNON_NOT_SUPPORTED, "data storage version %u.%u", version >> 16, version & 0xffff);
    *out = version;
    return PENNON_OK;
}

/* ---- fragments ---- */

struct building {
    const struct commit *m;
    struct snapshot *current;
    uint64_t target;
    bool stable;
    struct arena arena; /* what the message points to */
    struct manifest_message out;
    pennon_error *err;
};

static pennon_status keep_buf(struct building *b, struct buf *from, struct bytes *out)
{
    uint8_t *copy = arena_alloc(&b->arena, from->size, b->err);
    if (copy == NULL) return b->err->code;
    if (from->size > 0) memcpy(copy, from->data, from->size);
    *out = bytes_of(copy, from->size);
    from->size = 0;
    return PENNON_OK;
}

/* Row ids and stamps of a new fragment. */
static pennon_status number_rows(struct building *b, struct fragment_message *f)
{
    pennon_status st = PENNON_OK;
    pennon_error *err = b->err;
    struct buf text;
    buf_init(&text, b->m->call->mem, 1 << 16);
    uint64_t first = b->out.next_row_id;
    if (add_overflows(first, f->physical_rows, &b->out.next_row_id) || b->out.next_row_id >= DETACHED_VERSION) {
        FAIL(PENNON_INVALID_ARGUMENT, "the row ids of the table are used up");
    }
    TRY(row_id_range_encode(first, f->physical_rows, &text, err));
    TRY(keep_buf(b, &text, &f->inline_row_ids));
    TRY(version_run_encode(b->target, f->physical_rows, &text, err));
    TRY(keep_buf(b, &text, &f->inline_created));
    f->inline_last_updated = f->inline_created;
    f->row_ids_which = 5;
    f->last_updated_which = 7;
    f->created_which = 9;
done:
    buf_free(&text);
    return st;
}

/* The first id that was never used. */
static uint64_t next_fragment_id(const struct snapshot *current)
{
    if (current == NULL) return 0;
    uint64_t next = 0;
    for (size_t i = 0; i < current->n_fragments; i++) next = max_u64(next, (uint64_t)current->fragments[i].id + 1);
    if (current->manifest.has_max_fragment_id) next = max_u64(next, (uint64_t)current->manifest.max_fragment_id + 1);
    return next;
}

/* A fragment that stays: with counts that readers may believe. */
static pennon_status keep_fragment(struct building *b, const struct fragment *f, struct fragment_message *out)
{
    const struct commit_options *o = b->m->options;
    pennon_error *err = b->err;
    TRY_RETURN(fragment_load(b->current, f, err));
    *out = *f->message;
    if (f->physical_rows == UINT64_MAX) {
        if (o->length == NULL) {
            return error_set(
                err, PENNON_NOT_SUPPORTED,
                "fragment %u has no row count, as old writers left it; compact or rewrite the table with the writer that made it",
                f->id);
        }
        TRY_RETURN(fragment_physical_rows(b->m->call, b->current, f, o->length, o->length_ctx, &out->physical_rows, err));
    }
    if (f->deletion != NULL && f->deletion->num_deleted_rows == 0) {
        struct deletion_vector *d = NULL;
        TRY_RETURN(fragment_deletions(b->m->call, b->current, f, &d, err));
        out->deletion_file = arena_alloc(&b->arena, sizeof *out->deletion_file, err);
        if (out->deletion_file != NULL) {
            *out->deletion_file = *f->deletion;
            out->deletion_file->num_deleted_rows = d != NULL ? deletion_vector_count(d) : 0;
        }
        deletion_vector_release(d);
        if (out->deletion_file == NULL) return err->code;
    }
    return PENNON_OK;
}

static pennon_status build_fragments(struct building *b)
{
    const struct commit *m = b->m;
    pennon_error *err = b->err;
    size_t kept = b->current != NULL && m->op == COMMIT_APPEND ? b->current->n_fragments : 0, total;
    uint64_t id = next_fragment_id(b->current);
    if (size_add_overflows(kept, m->n, &total)) total = SIZE_MAX;
    struct fragment_message *list = arena_calloc(&b->arena, total, sizeof *list, err);
    if (list == NULL) return err->code;
    if (kept > 0 && b->current->doubled_ids) {
        return error_set(err, PENNON_NOT_SUPPORTED,
                         "appending to a table in which two fragments have the same id; rewrite it (its rows can be read)");
    }
    /* New versions list fragments by id, as official makes them, also where the one before does not. */
    const uint32_t *by_id = b->current != NULL ? b->current->by_id : NULL;
    for (size_t i = 0; i < kept; i++) {
        TRY_RETURN(keep_fragment(b, &b->current->fragments[by_id != NULL ? by_id[i] : i], &list[i]));
    }
    for (size_t i = 0; i < m->n; i++, id++) {
        struct fragment_message *f = &list[kept + i];
        if (id > UINT32_MAX - 1) return error_set(err, PENNON_INVALID_ARGUMENT, "the fragment ids of the table are used up");
        *f = m->fragments[i];
        f->id = id;
        if (b->stable) TRY_RETURN(number_rows(b, f));
    }
    b->out.fragments = list;
    b->out.n_fragments = total;
    if (id > 0) {
        b->out.has_max_fragment_id = true;
        b->out.max_fragment_id = (uint32_t)(id - 1);
    }
    return PENNON_OK;
}

/* ---- the message ---- */

static pennon_status build_config(struct building *b)
{
    const struct commit_options *o = b->m->options;
    size_t n_old = b->out.n_config, n = 0;
    if (o->n_config == 0) return PENNON_OK;
    struct map_entry *list = arena_calloc(&b->arena, n_old + o->n_config, sizeof *list, b->err);
    if (list == NULL) return b->err->code;
    for (size_t i = 0; i < n_old; i++) {
        bool replaced = false;
        for (size_t k = 0; k < o->n_config; k++) replaced = replaced || bytes_equal(b->out.config[i].key, o->config[k].key);
        if (!replaced) list[n++] = b->out.config[i];
    }
    for (size_t k = 0; k < o->n_config; k++) list[n++] = (struct map_entry){.key = o->config[k].key, .value = o->config[k].value};
    b->out.config = list;
    b->out.n_config = n;
    return PENNON_OK;
}

static pennon_status build_message(struct building *b, const char *txn_name)
{
    const struct commit *m = b->m;
    pennon_error *err = b->err;
    uint32_t version = 0;
    if (b->current != NULL) b->out = b->current->manifest;
    b->stable = b->current != NULL ? snapshot_has_stable_ids(b->current) : m->options->stable_row_ids;
    TRY_RETURN(choose_version(m, b->current, &version, err));
    TRY_RETURN(manifest_stamp(&b->arena, &b->out, b->target, version, txn_name, err));
    TRY_RETURN(build_fragments(b));
    if (b->current == NULL || m->op == COMMIT_OVERWRITE) {
        TRY_RETURN(schema_to_messages(m->schema, &b->arena, &b->out.fields, &b->out.n_fields, err));
        TRY_RETURN(schema_metadata_to_messages(m->schema, &b->arena, &b->out.schema_metadata, &b->out.n_schema_metadata, err));
        TRY_RETURN(build_config(b));
    }
    manifest_set_flags(&b->out, b->stable);
    return PENNON_OK;
}

pennon_status commit_build_manifest(const struct commit *m, struct snapshot *current, uint64_t target, const char *txn_name,
                                    struct block **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct building b = {.m = m, .current = current, .target = target, .err = err};
    struct bytes index_section = bytes_of(NULL, 0);
    ASSERT(current != NULL || m->schema != NULL);
    arena_init(&b.arena, m->call->mem);
    TRY(build_message(&b, txn_name));
    if (current != NULL && m->op == COMMIT_APPEND) TRY(snapshot_section(m->call, current, SECTION_INDICES, &index_section, err));
    /* The bytes become the snapshot's. */
    TRY(manifest_file_make(runtime_mem(m->call->runtime), &b.out, index_section, m->transaction, out, err));
done:
    arena_reset(&b.arena);
    return st;
}
