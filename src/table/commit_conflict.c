/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The conflict rules of Append and Overwrite against what was committed in between.
 *
 * theirs                | mine Append                         | mine Overwrite
 * ----------------------|-------------------------------------|----------------------------------------------
 * Overwrite             | incompatible                        | config keys in common: incompatible; else retry
 * Restore               | incompatible                        | ok
 * UpdateMemWalState     | incompatible                        | incompatible
 * UpdateConfig          | ok                                  | config keys in common: incompatible; else ok
 * Merge, Project        | ok when the new rows still fit (a)  | ok
 * no transaction, or an operation unknown here: retry
 * all others            | ok                                  | ok
 *
 * (a) The new rows were checked against the schema that was read. They fit the later one when every column that it declares not null was not
 * null before and is in the new files, and when no column that the files hold was replaced by another of the same path (a cast).
 *
 * retry = CONFLICT: running the verb again reads the table as it is now. incompatible = CONFLICT_FINAL.
 * Source: spec commits 4.1, 4.2, 4.5. */
#include "table/commit_private.h"

static const char *const NAMES[OPERATION_COUNT] = {
    "Append", "Delete",  "Overwrite",    "CreateIndex",     "Rewrite",           "Merge", "Restore",     "ReserveFragments",
    "Update", "Project", "UpdateConfig", "DataReplacement", "UpdateMemWalState", "Clone", "UpdateBases", "DataOverlay",
};

static const char *operation_name(uint32_t which)
{
    return which >= OPERATION_APPEND && which < OPERATION_APPEND + OPERATION_COUNT ? NAMES[which - OPERATION_APPEND] : "unknown";
}

static const char *my_name(const struct commit *m) { return m->op == COMMIT_APPEND ? "Append" : "Overwrite"; }

static pennon_status retryable(const struct commit *m, const struct snapshot *theirs, uint32_t which, pennon_error *err)
{
    (void)error_set(err, PENNON_CONFLICT,
                    "Retryable commit conflict for version %" PRIu64
                    ": This %s transaction was preempted by concurrent transaction %s at version %" PRIu64 ". Please retry.",
                    theirs->version, my_name(m), operation_name(which), theirs->version);
    err->version = theirs->version;
    return error_kind(err, "RetryableCommitConflict");
}

static pennon_status incompatible(const struct commit *m, const struct snapshot *theirs, uint32_t which, pennon_error *err)
{
    (void)error_set(
        err, PENNON_CONFLICT_FINAL,
        "Incompatible transaction: This %s transaction is incompatible with concurrent transaction %s at version %" PRIu64 ".",
        my_name(m), operation_name(which), theirs->version);
    err->version = theirs->version;
    return error_kind(err, "IncompatibleTransaction");
}

/* ---- their transaction ---- */

/* Bytes of the transaction of a version: inside the manifest, else its file. Empty = none. `file` holds the bytes of a file. */
static pennon_status load_transaction(const struct call *c, const struct snapshot *s, struct bytes *out, struct block **file,
                                      pennon_error *err)
{
    pennon_status st = PENNON_OK;
    char *name = NULL, *path = NULL;
    struct bytes given = s->manifest.transaction_file;
    TRY_RETURN(snapshot_section(c, s, SECTION_TRANSACTION, out, err));
    if (out->size > 0 || given.size == 0) return PENNON_OK;
    bool plain = memchr(given.data, 0, given.size) == NULL && memchr(given.data, '/', given.size) == NULL;
    CHECK_FILE(plain, "manifest: the name of its transaction file is no plain name");
    TRY_NEW(name, mem_strndup(c->mem, (const char *)given.data, given.size, err));
    TRY_NEW(path, mem_printf(c->mem, err, "%s%s_transactions/%s", s->at.path, s->at.path[0] != '\0' ? "/" : "", name));
    st = store_get(c, s->at.store, path, MANIFEST_MAX, file, err);
    if (st == PENNON_NOT_FOUND) {
        st = PENNON_OK;
    } else if (st == PENNON_OK) {
        *out = bytes_of((*file)->data, (*file)->size);
    }
done:
    mem_free(c->mem, name);
    mem_free(c->mem, path);
    return st;
}

pennon_status commit_is_own(const struct commit *m, const struct snapshot *s, bool *own, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct block *file = NULL;
    struct bytes bytes;
    struct arena scratch;
    struct transaction_message t;
    arena_init(&scratch, m->call->mem);
    *own = false;
    TRY(load_transaction(m->call, s, &bytes, &file, err));
    st = wire_decode(&transaction_table, bytes, &scratch, &t, err);
    if (st == PENNON_OK) *own = bytes_equal(t.uuid, bytes_str(m->uuid));
    if (st == PENNON_CORRUPT) st = PENNON_OK; /* newer than we are, so not ours */
done:
    block_release(file);
    arena_reset(&scratch);
    return st;
}

/* ---- config keys ---- */

static bool is_my_key(const struct commit *m, struct bytes key)
{
    for (size_t i = 0; i < m->options->n_config; i++) {
        if (bytes_equal(m->options->config[i].key, key)) return true;
    }
    return false;
}

/* Key of a map entry or of an UpdateMapEntry: both have it at tag 1. */
static pennon_status entry_overlaps(const struct commit *m, struct bytes entry, bool *overlap, pennon_error *err)
{
    struct wire_cursor c = wire_cursor_of(entry);
    while (!wire_cursor_done(&c)) {
        struct wire_item item;
        TRY_RETURN(wire_next(&c, &item, err));
        if (item.tag == 1 && item.type == 2 && is_my_key(m, item.payload)) *overlap = true;
    }
    return PENNON_OK;
}

/* UpdateMap: 1 entries, 2 replace. A replacement touches every key. */
static pennon_status map_overlaps(const struct commit *m, struct bytes map, bool *overlap, pennon_error *err)
{
    struct wire_cursor c = wire_cursor_of(map);
    while (!wire_cursor_done(&c)) {
        struct wire_item item;
        TRY_RETURN(wire_next(&c, &item, err));
        if (item.tag == 1 && item.type == 2) TRY_RETURN(entry_overlaps(m, item.payload, overlap, err));
        if (item.tag == 2 && item.type == 0 && item.number != 0) *overlap = true;
    }
    return PENNON_OK;
}

/* UpdateConfig: 6 config_updates; old forms 1 upsert_values (map), 2 delete_keys (texts). */
static pennon_status config_overlaps(const struct commit *m, struct bytes operation, bool *overlap, pennon_error *err)
{
    struct wire_cursor c = wire_cursor_of(operation);
    *overlap = false;
    if (m->options->n_config == 0) return PENNON_OK;
    while (!wire_cursor_done(&c)) {
        struct wire_item item;
        TRY_RETURN(wire_next(&c, &item, err));
        if (item.type != 2) continue;
        if (item.tag == 1) TRY_RETURN(entry_overlaps(m, item.payload, overlap, err));
        if (item.tag == 2 && is_my_key(m, item.payload)) *overlap = true;
        if (item.tag == 6) TRY_RETURN(map_overlaps(m, item.payload, overlap, err));
    }
    return PENNON_OK;
}

/* Overwrite: 4 config_upsert_values. */
static pennon_status overwrite_overlaps(const struct commit *m, struct bytes operation, bool *overlap, pennon_error *err)
{
    struct wire_cursor c = wire_cursor_of(operation);
    *overlap = false;
    while (!wire_cursor_done(&c)) {
        struct wire_item item;
        TRY_RETURN(wire_next(&c, &item, err));
        if (item.tag == 4 && item.type == 2) TRY_RETURN(entry_overlaps(m, item.payload, overlap, err));
    }
    return PENNON_OK;
}

/* ---- schema changes under an append ---- */

static bool file_has(const struct fragment_message *f, int32_t id)
{
    for (size_t i = 0; i < f->n_files; i++) {
        for (size_t k = 0; k < f->files[i].n_fields; k++) {
            if (f->files[i].fields[k] == id) return true;
        }
    }
    return false;
}

static bool same_path(const struct field *a, const struct field *b)
{
    for (; a != NULL && b != NULL; a = a->parent, b = b->parent) {
        if (strcmp(a->name, b->name) != 0) return false;
    }
    return a == NULL && b == NULL;
}

static bool in_all_files(const struct commit *m, int32_t id)
{
    for (size_t i = 0; i < m->n; i++) {
        if (!file_has(&m->fragments[i], id)) return false;
    }
    return true;
}

static bool was_replaced(const struct field *old, const struct schema *now)
{
    for (size_t i = 0; i < now->n_all; i++) {
        if (now->by_id[i]->id != old->id && same_path(now->by_id[i], old)) return true;
    }
    return false;
}

/* Note (a) of the table above. */
static bool rows_still_fit(const struct commit *m, const struct schema *before, const struct schema *now)
{
    for (size_t i = 0; i < now->n_all; i++) {
        const struct field *f = now->by_id[i];
        if (f->nullable) continue;
        const struct field *old = schema_find_id(before, f->id);
        if (old == NULL || old->nullable) return false;
        if (field_owns_column(f, STORAGE_2_1) && f->parent == NULL && !in_all_files(m, f->id)) return false;
    }
    for (size_t i = 0; i < before->n_all; i++) {
        const struct field *old = before->by_id[i];
        if (schema_find_id(now, old->id) != NULL) continue;
        bool used = false;
        for (size_t k = 0; k < m->n && !used; k++) used = file_has(&m->fragments[k], old->id);
        if (used && was_replaced(old, now)) return false;
    }
    return true;
}

/* ---- the table ---- */

static pennon_status check_append(const struct commit *m, const struct snapshot *theirs, uint32_t which, pennon_error *err)
{
    switch (which) {
    case OPERATION_OVERWRITE:
    case OPERATION_RESTORE:
    case OPERATION_UPDATE_MEM_WAL_STATE: return incompatible(m, theirs, which, err);
    case OPERATION_MERGE:
    case OPERATION_PROJECT:
        return rows_still_fit(m, m->read->schema, theirs->schema) ? PENNON_OK : retryable(m, theirs, which, err);
    case 0: return retryable(m, theirs, which, err);
    default: return PENNON_OK;
    }
}

static pennon_status check_overwrite(const struct commit *m, const struct snapshot *theirs, const struct transaction_message *t,
                                     pennon_error *err)
{
    bool overlap = false;
    switch (t->which) {
    case OPERATION_OVERWRITE:
        TRY_RETURN(overwrite_overlaps(m, t->operation[OPERATION_OVERWRITE - OPERATION_APPEND], &overlap, err));
        return overlap ? incompatible(m, theirs, t->which, err) : retryable(m, theirs, t->which, err);
    case OPERATION_UPDATE_CONFIG:
        TRY_RETURN(config_overlaps(m, t->operation[OPERATION_UPDATE_CONFIG - OPERATION_APPEND], &overlap, err));
        return overlap ? incompatible(m, theirs, t->which, err) : PENNON_OK;
    case OPERATION_UPDATE_MEM_WAL_STATE: return incompatible(m, theirs, t->which, err);
    case 0: return retryable(m, theirs, t->which, err);
    default: return PENNON_OK;
    }
}

pennon_status commit_check_conflict(const struct commit *m, const struct snapshot *theirs, bool *own, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct block *file = NULL;
    struct bytes bytes;
    struct arena scratch;
    struct transaction_message t = {0};
    ASSERT(m->read != NULL && theirs->version > m->read->version);
    arena_init(&scratch, m->call->mem);
    *own = false;
    TRY(load_transaction(m->call, theirs, &bytes, &file, err));
    if (bytes.size > 0) TRY(wire_decode(&transaction_table, bytes, &scratch, &t, err));
    *own = bytes_equal(t.uuid, bytes_str(m->uuid));
    if (*own) goto done;
    st = m->op == COMMIT_APPEND ? check_append(m, theirs, t.which, err) : check_overwrite(m, theirs, &t, err);
done:
    block_release(file);
    arena_reset(&scratch);
    return st;
}
