/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Cloning a version: a new table, or a new branch, that begins as the version and has its number.
 *
 * 1. Is the target free? The transaction (Clone) is written: {source version}-{uuid}.txn.
 * 2. Deep: the files are copied.
 * 3. The manifest is made of the source's, parsed, and put if there is none of its name. What a put that does not say OK has done is looked up: the
 *    transaction at the target tells.
 * Whatever fails before the put removes what was written; a crash leaves files that nobody refers to. Tags, branches and history are not cloned.
 *
 * Carried from the source's manifest: version, schema, config, table metadata, next row id, highest fragment id, storage version, writer (whose word the
 * counts are), what this library does not know. Made anew: time, flags, branch, sections, name of the transaction file; the tag's text is cleared.
 * Source: spec commits 10.5, 10.6. */
#include "table/clone_private.h"

#include <stdio.h>
#include <time.h>

#define VERIFY_TRIES 3
#define VERIFY_PAUSE_NS 50000000L

/* ---- before ---- */

static pennon_status target_exists(const struct table_location *to, pennon_error *err)
{
    (void)error_set(err, PENNON_ALREADY_EXISTS, "there is a table at '%.512s' already", to->uri);
    (void)error_where(err, to->uri, NULL, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE);
    return error_kind(err, "DatasetAlreadyExists");
}

static pennon_status check_source(const struct snapshot *s, pennon_error *err)
{
    uint64_t unknown = s->manifest.writer_feature_flags & ~WRITER_FLAGS_KNOWN;
    if (unknown != 0) {
        (void)error_set(err, PENNON_NOT_SUPPORTED,
                        "cloning the table needs features of a newer Lance (writer flags %" PRIu64 " are unknown here)", unknown);
        return error_kind(err, "NotSupported");
    }
    if ((s->version & DETACHED_VERSION) != 0)
        return error_set(err, PENNON_NOT_SUPPORTED, "a clone of the detached version %" PRIu64, s->version);
    if (s->storage_version == STORAGE_LEGACY && schema_has_dictionaries(s->schema)) {
        return error_set(
            err, PENNON_NOT_SUPPORTED,
            "a clone of a table of data storage version 0.1 with dictionary columns, whose values lie in its manifest");
    }
    return PENNON_OK;
}

static pennon_status check_target(const struct cloning *k, pennon_error *err)
{
    uint64_t latest;
    bool v2;
    if (k->o->new_branch == NULL && k->to->branch != NULL) {
        return error_set(err, PENNON_INVALID_ARGUMENT,
                         "'%.512s' lies in the folder of the branches of a table; a clone there would be taken for a branch",
                         k->to->uri);
    }
    TRY_RETURN(latest_version(k->c, k->to, &latest, &v2, err));
    return latest != 0 ? target_exists(k->to, err) : PENNON_OK;
}

/* ---- the transaction ---- */

static pennon_status keep(struct cloning *k, const struct buf *from, struct bytes *out, pennon_error *err)
{
    uint8_t *copy = arena_alloc(&k->arena, from->size, err);
    if (copy == NULL) return err->code;
    if (from->size > 0) memcpy(copy, from->data, from->size);
    *out = bytes_of(copy, from->size);
    return PENNON_OK;
}

static pennon_status encode_transaction(struct cloning *k, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct snapshot *s = k->source;
    struct transaction_message t = {.read_version = s->version, .which = OPERATION_CLONE};
    struct clone_message m = {.is_shallow = !k->o->deep, .ref_version = s->version, .ref_path = bytes_str(s->at.uri)};
    struct buf operation, text;
    uint8_t id[16];
    buf_init(&operation, k->c->mem, BUF_NO_LIMIT);
    buf_init(&text, k->c->mem, BUF_NO_LIMIT);
    if (s->at.branch != NULL) {
        m.has_ref_name = true;
        m.ref_name = bytes_str(s->at.branch);
    }
    if (k->o->new_branch != NULL) {
        m.has_branch_name = true;
        m.branch_name = bytes_str(k->o->new_branch);
    }
    TRY(uuid_new(id, err));
    uuid_text(id, k->uuid);
    t.uuid = bytes_str(k->uuid);
    TRY(wire_encode(&clone_table, &m, &operation, err));
    t.operation[OPERATION_CLONE - OPERATION_APPEND] = bytes_of(operation.data, operation.size);
    TRY(wire_encode(&transaction_table, &t, &text, err));
    TRY(keep(k, &text, &k->transaction, err));
done:
    buf_free(&operation);
    buf_free(&text);
    return st;
}

static pennon_status put_transaction(struct cloning *k, pennon_error *err)
{
    const struct table_location *to = k->to;
    if ((k->source->manifest.writer_feature_flags & FLAG_NO_TRANSACTION_FILE) != 0) return PENNON_OK;
    int n = snprintf(k->txn_name, sizeof k->txn_name, "%" PRIu64 "-%s.txn", k->source->version, k->uuid);
    ASSERT(n > 0 && (size_t)n < sizeof k->txn_name);
    UNUSED(n);
    k->txn_path = mem_printf(k->c->mem, err, "%s%s_transactions/%s", to->path, to->path[0] != '\0' ? "/" : "", k->txn_name);
    if (k->txn_path == NULL) return err->code;
    return store_put(k->c, to->store, k->txn_path, k->transaction, ref_put_flags(k->c, PENNON_PUT_OVERWRITE), err);
}

/* ---- the manifest ---- */

static pennon_status build_manifest(struct cloning *k, struct block **file, pennon_error *err)
{
    const struct snapshot *s = k->source;
    struct manifest_message *m = &k->out;
    TRY_RETURN(manifest_stamp(&k->arena, m, s->version, s->storage_version, k->txn_name, err));
    m->writer_version = s->manifest.writer_version;
    if (s->manifest.data_format != NULL) m->data_format = s->manifest.data_format;
    m->has_branch = k->o->new_branch != NULL;
    m->branch = m->has_branch ? bytes_str(k->o->new_branch) : bytes_of(NULL, 0);
    manifest_set_flags(m, snapshot_has_stable_ids(s));
    return manifest_file_make(k->c->mem, m, bytes_of(NULL, 0), bytes_of(k->index_section.data, k->index_section.size),
                              k->transaction, file, err);
}

/* What lies at the target's manifest, after a put that did not say OK but `said`, which `err` tells. */
static pennon_status look_again(struct cloning *k, pennon_status said, pennon_error *err)
{
    struct call quiet = unstoppable_call(k->c);
    struct snapshot *s = NULL;
    struct bytes section = bytes_of(NULL, 0);
    pennon_error local;
    pennon_error_init(&local);
    pennon_status st = PENNON_IO;
    bool own = false;
    for (int turn = 0; turn < VERIFY_TRIES && st != PENNON_OK && st != PENNON_NOT_FOUND; turn++) {
        struct timespec pause = {0, VERIFY_PAUSE_NS * turn};
        if (turn > 0) (void)nanosleep(&pause, NULL);
        st = snapshot_read(&quiet, k->to, k->source->version, true, &k->source->external, &s, &local);
        if (st == PENNON_OK) st = snapshot_section(&quiet, s, SECTION_TRANSACTION, &section, &local);
        own = st == PENNON_OK && bytes_equal(section, k->transaction);
        snapshot_release(s);
        s = NULL;
    }
    if (st == PENNON_NOT_FOUND || (st == PENNON_NOT_SUPPORTED && said == PENNON_ALREADY_EXISTS)) {
        st = said == PENNON_ALREADY_EXISTS ? target_exists(k->to, err) : said;
    } else if (st == PENNON_OK) {
        st = own ? PENNON_OK : target_exists(k->to, err);
    } else {
        k->unknown = true;
        (void)error_set(err, PENNON_COMMIT_UNKNOWN, "it is not known whether '%.512s' was made: %s; look before trying again",
                        k->to->uri, local.message != NULL ? local.message : "");
        err->version = k->source->version;
        st = error_kind(err, "CommitStatusUnknown");
    }
    if (st == PENNON_OK) pennon_error_clear(err);
    pennon_error_clear(&local);
    return st;
}

/* For readers on stores whose listings have no order, and the identity for handles. Nothing depends on them. */
static void finish(const struct cloning *k, struct snapshot *s)
{
    struct call quiet = unstoppable_call(k->c);
    char text[40];
    pennon_object_info info;
    pennon_error local;
    pennon_error_init(&local);
    if (!store_is_ordered(k->to->store) && hint_wanted()) {
        char *path = store_join(k->c->mem, k->to->path, "_versions/latest_version_hint.json", &local);
        int n = snprintf(text, sizeof text, "{\"version\":%" PRIu64 "}", s->version);
        if (path != NULL &&
            store_put(&quiet, k->to->store, path, bytes_of(text, (size_t)n), PENNON_PUT_OVERWRITE, &local) != PENNON_OK)
            call_log(k->c, PENNON_LOG_WARN, "the version hint was not written: %s", local.message);
        mem_free(k->c->mem, path);
    }
    if (store_head(&quiet, k->to->store, s->manifest_path, &info, &local) == PENNON_OK) memcpy(s->etag, info.etag, sizeof s->etag);
    s->etag[sizeof s->etag - 1] = '\0';
    pennon_error_clear(&local);
}

static pennon_status put_manifest(struct cloning *k, struct snapshot **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct call quiet = unstoppable_call(k->c);
    struct block *file = NULL;
    struct snapshot *s = NULL;
    char *path = NULL;
    TRY(build_manifest(k, &file, err));
    TRY_NEW(path, manifest_path(k->c->mem, k->to->path, k->source->version, true, err));
    TRY(snapshot_parse(k->c->mem, file, path, &s, err));
    s->v2_names = true;
    TRY(table_location_copy(s->mem, k->to, &s->at, err));
    TRY(snapshot_copy_rule(s, &k->source->external, err));
    TRY(call_check(k->c, err));
    st = store_put(&quiet, k->to->store, path, bytes_of(file->data, file->size), ref_put_flags(k->c, PENNON_PUT_IF_ABSENT), err);
    if (st != PENNON_OK) TRY(look_again(k, st, err));
    finish(k, s);
    if (out != NULL) {
        *out = s;
        s = NULL;
    }
done:
    snapshot_release(s);
    block_release(file);
    mem_free(k->c->mem, path);
    return st;
}

/* ---- after a failure ---- */

struct others {
    const char *mine;
    bool found;
};

static bool see_other(void *ctx, const pennon_object_info *info)
{
    struct others *o = ctx;
    o->found = o->mine == NULL || strcmp(info->path, o->mine) != 0;
    return !o->found;
}

/* Has anybody else written a transaction at the target? Copies of an index have the same names in every clone. In doubt, yes. */
static bool others_at_work(const struct cloning *k)
{
    struct call quiet = unstoppable_call(k->c);
    struct others o = {.mine = k->txn_path};
    pennon_error local;
    pennon_error_init(&local);
    char *folder = store_join(k->c->mem, k->to->path, "_transactions", &local);
    pennon_status st = folder != NULL ? store_list(&quiet, k->to->store, folder, false, see_other, &o, &local) : local.code;
    mem_free(k->c->mem, folder);
    pennon_error_clear(&local);
    return o.found || (st != PENNON_OK && st != PENNON_NOT_FOUND);
}

static void undo(struct cloning *k)
{
    struct call quiet = unstoppable_call(k->c);
    pennon_error local;
    pennon_error_init(&local);
    bool alone = !others_at_work(k);
    copy_list_undo(&k->copies, alone);
    if (k->txn_path != NULL && store_delete(&quiet, k->to->store, k->txn_path, &local) != PENNON_OK)
        call_log(k->c, PENNON_LOG_DEBUG, "left behind: %s", local.message);
    if (alone) store_remove_empty_folders(k->to->store, k->to->path, strlen(k->to->path));
    pennon_error_clear(&local);
}

pennon_status snapshot_clone(const struct call *c, struct snapshot *source, const struct table_location *to,
                             const struct clone_options *o, struct snapshot **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct cloning k = {.c = c, .source = source, .to = to, .o = o, .out = source->manifest};
    bool begun = false;
    ASSERT(o->new_branch == NULL || !o->deep);
    k.copies = (struct copy_list){.c = c, .to = to->store};
    arena_init(&k.arena, c->mem);
    buf_init(&k.index_section, c->mem, BUF_NO_LIMIT);
    TRY(check_source(source, err));
    TRY(check_target(&k, err));
    TRY(encode_transaction(&k, err));
    TRY(clone_plan(&k, err));
    begun = true;
    TRY(put_transaction(&k, err));
    TRY(copy_list_run(&k.copies, err));
    st = put_manifest(&k, out, err);
done:
    if (st != PENNON_OK && begun && !k.unknown) undo(&k);
    copy_list_free(&k.copies);
    mem_free(c->mem, k.txn_path);
    buf_free(&k.index_section);
    arena_reset(&k.arena);
    return st;
}
