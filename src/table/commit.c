/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The commit of an Append, an Overwrite or a new table.
 *
 * 1. The transaction is encoded once, with a new uuid, and written to _transactions/.
 * 2. Each attempt: find the latest version; check every one since the version that was read against the conflict rules; build the manifest of the
 *    next one; put it if absent. The new manifest is parsed before it is put, so that nothing can fail once it is there.
 * 3. What the put says is not believed when it is not OK: the manifest at the target is read, and its transaction's uuid tells
 *
 *      put says       | at the target       | then
 *      ---------------|---------------------|-----------------------------------------------------------
 *      OK             | (not looked at)     | committed
 *      exists, error  | mine                | committed: the reply was lost
 *      exists, error  | another's           | next attempt, after a pause
 *      exists, error  | nothing             | the error (after "exists": next attempt)
 *      exists, error  | cannot be read      | COMMIT_UNKNOWN; nothing is deleted
 *
 * From the put on neither the cancel token nor the deadline stops the call.
 * The transaction file of a commit that did not land is removed, best effort.
 * Source: spec commits 1, 2.3, 2.4. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "table/commit_private.h"

#define VERIFY_TRIES 3
#define PAUSE_MAX_NS INT64_C(5000000000)
#define PAUSE_STEP_NS INT64_C(10000000)
#define TXN_NAME_BYTES 64

void commit_options_init(struct commit_options *o) { *o = (struct commit_options){.max_retries = 20, .v2_names = true}; }

pennon_status data_file_name(char out[57], pennon_error *err)
{
    static const char hex[] = "0123456789abcdef";
    uint8_t id[16];
    size_t at = 0;
    TRY_RETURN(uuid_new(id, err));
    for (size_t i = 0; i < 24; i++) out[at++] = id[i / 8] >> (7 - i % 8) & 1 ? '1' : '0';
    for (size_t i = 3; i < 16; i++) {
        out[at++] = hex[id[i] >> 4];
        out[at++] = hex[id[i] & 15];
    }
    memcpy(out + at, ".lance", 7);
    ASSERT(at + 7 == 57);
    return PENNON_OK;
}

/* ---- the transaction ---- */

static pennon_status pairs_to_entries(struct arena *a, const struct field_pair *pairs, size_t n, struct map_entry **out,
                                      pennon_error *err)
{
    *out = arena_calloc(a, n, sizeof **out, err);
    if (*out == NULL) return err->code;
    for (size_t i = 0; i < n; i++) (*out)[i] = (struct map_entry){.key = pairs[i].key, .value = pairs[i].value};
    return PENNON_OK;
}

static pennon_status encode_operation(struct commit *m, struct buf *out, pennon_error *err)
{
    struct fragment_message *fragments = arena_calloc(&m->arena, m->n, sizeof *fragments, err);
    if (fragments == NULL) return err->code;
    for (size_t i = 0; i < m->n; i++) {
        fragments[i] = m->fragments[i];
        fragments[i].id = 0;
    }
    if (m->op == COMMIT_APPEND && m->read != NULL) {
        struct append_message append = {.fragments = fragments, .n_fragments = m->n};
        return wire_encode(&append_table, &append, out, err);
    }
    struct overwrite_message o = {.fragments = fragments, .n_fragments = m->n, .n_config_upsert_values = m->options->n_config};
    TRY_RETURN(schema_to_messages(m->schema, &m->arena, &o.schema, &o.n_schema, err));
    TRY_RETURN(schema_metadata_to_messages(m->schema, &m->arena, &o.schema_metadata, &o.n_schema_metadata, err));
    TRY_RETURN(pairs_to_entries(&m->arena, m->options->config, m->options->n_config, &o.config_upsert_values, err));
    return wire_encode(&overwrite_table, &o, out, err);
}

static pennon_status encode_transaction(struct commit *m, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf operation, text;
    uint8_t id[16], *copy = NULL;
    struct transaction_message t = {.read_version = m->read_version, .n_properties = m->options->n_properties};
    buf_init(&operation, m->call->mem, BUF_NO_LIMIT);
    buf_init(&text, m->call->mem, BUF_NO_LIMIT);
    TRY(uuid_new(id, err));
    uuid_text(id, m->uuid);
    t.uuid = bytes_str(m->uuid);
    t.which = m->op == COMMIT_APPEND && m->read != NULL ? OPERATION_APPEND : OPERATION_OVERWRITE;
    TRY(pairs_to_entries(&m->arena, m->options->properties, m->options->n_properties, &t.properties, err));
    TRY(encode_operation(m, &operation, err));
    t.operation[t.which - OPERATION_APPEND] = bytes_of(operation.data, operation.size);
    TRY(wire_encode(&transaction_table, &t, &text, err));
    TRY_NEW(copy, arena_alloc(&m->arena, text.size, err));
    memcpy(copy, text.data, text.size);
    m->transaction = bytes_of(copy, text.size);
done:
    buf_free(&operation);
    buf_free(&text);
    return st;
}

/* ---- attempts ---- */

struct attempt {
    const struct table_location *at;
    struct snapshot *current; /* newest version seen, retained; NULL = no table */
    struct snapshot *made;    /* what is being put, or my own that was found */
    bool landed;
    bool unknown; /* nothing may be deleted */
    uint64_t target;
    char txn_name[TXN_NAME_BYTES]; /* "" = none is written */
    char *txn_path;                /* NULL = not written */
};

static uint32_t put_flags(const struct call *c, uint32_t flags)
{
    return flags | (c->durability == PENNON_DURABILITY_FULL ? PENNON_PUT_SYNC : 0);
}

/* A call that nothing stops; shares everything with `c`, which outlives it. */
static struct call unstoppable(const struct call *c)
{
    struct call quiet = *c;
    quiet.cancel = NULL;
    quiet.deadline_ns = INT64_MAX;
    return quiet;
}

static pennon_status write_transaction(const struct commit *m, struct attempt *a, pennon_error *err)
{
    if (a->txn_path != NULL) return PENNON_OK;
    if (a->current != NULL && (a->current->manifest.writer_feature_flags & FLAG_NO_TRANSACTION_FILE) != 0) return PENNON_OK;
    int n = snprintf(a->txn_name, sizeof a->txn_name, "%" PRIu64 "-%s.txn", m->read_version, m->uuid);
    ASSERT(n > 0 && (size_t)n < sizeof a->txn_name);
    UNUSED(n);
    a->txn_path =
        mem_printf(m->call->mem, err, "%s%s_transactions/%s", a->at->path, a->at->path[0] != '\0' ? "/" : "", a->txn_name);
    if (a->txn_path == NULL) return err->code;
    return store_put(m->call, a->at->store, a->txn_path, m->transaction, put_flags(m->call, PENNON_PUT_OVERWRITE), err);
}

static void take_snapshot(struct snapshot **slot, struct snapshot *s)
{
    snapshot_release(*slot);
    *slot = s;
}

/* A failure of catch_up: `kind` is one of official's classes. */
static pennon_status overtaken(pennon_status code, const char *kind, uint64_t version, pennon_error *err, const char *fmt, ...)
    PRINTF_LIKE(5, 6);
static pennon_status overtaken(pennon_status code, const char *kind, uint64_t version, pennon_error *err, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)error_set_v(err, code, fmt, args);
    va_end(args);
    err->version = version;
    return error_kind(err, kind);
}

/* Versions after the newest one seen, oldest first; each is checked. Ends early when one of them is mine. A version that was cleaned up
 * cannot be checked: what it did to the schema or the rows is not known. */
static pennon_status catch_up(const struct commit *m, struct attempt *a, pennon_error *err)
{
    uint64_t latest, seen = a->current->version;
    bool v2;
    TRY_RETURN(latest_version(m->call, a->at, &latest, &v2, err));
    if (latest < seen) {
        return overtaken(PENNON_CONFLICT_FINAL, "IncompatibleTransaction", latest, err,
                         "the table '%.512s' was replaced: its latest version is %" PRIu64 ", and version %" PRIu64 " was read",
                         a->at->uri, latest, seen);
    }
    if (latest > seen && m->op == COMMIT_OVERWRITE && m->options->max_retries == 0) {
        return overtaken(PENNON_CONFLICT, "CommitConflict", latest, err,
                         "Commit conflict for version %" PRIu64 ": the table has version %" PRIu64 " already", seen + 1, latest);
    }
    while (seen < latest && !a->landed) {
        struct snapshot *s = NULL;
        pennon_status st = snapshot_read(m->call, a->at, ++seen, v2, &a->current->external, &s, err);
        if (st == PENNON_NOT_FOUND) {
            return overtaken(PENNON_CONFLICT, "RetryableCommitConflict", seen, err,
                             "Retryable commit conflict for version %" PRIu64 ": version %" PRIu64
                             " is gone, and what it changed cannot be checked. Please retry.",
                             latest, seen);
        }
        if (st == PENNON_OK) st = commit_check_conflict(m, s, &a->landed, err);
        if (s != NULL) take_snapshot(a->landed ? &a->made : &a->current, s);
        if (st != PENNON_OK) return st;
    }
    return PENNON_OK;
}

/* What lies at the target, after a put that did not say OK. `said` is its status. */
static pennon_status verify(const struct commit *m, struct attempt *a, pennon_status said, bool *conflict, pennon_error *err)
{
    struct call quiet = unstoppable(m->call);
    pennon_error local;
    pennon_status st = PENNON_OK;
    pennon_error_init(&local);
    for (int turn = 0; turn < VERIFY_TRIES; turn++) {
        struct snapshot *s = NULL;
        bool own = false;
        if (turn > 0) {
            struct timespec pause = {0, 50000000L * turn};
            (void)nanosleep(&pause, NULL);
        }
        st = snapshot_read(&quiet, a->at, a->target, a->made->v2_names, &a->made->external, &s, &local);
        if (st == PENNON_OK) st = commit_is_own(m, s, &own, &local);
        snapshot_release(s);
        if (st == PENNON_OK) {
            a->landed = own;
            *conflict = !own;
        }
        if (st == PENNON_NOT_FOUND) {
            /* The object that was in the way is gone again: a conflict all the same. */
            *conflict = said == PENNON_ALREADY_EXISTS;
            st = *conflict ? PENNON_OK : said;
            break;
        }
        if (st == PENNON_OK) break;
        st = PENNON_COMMIT_UNKNOWN;
    }
    if (st == PENNON_COMMIT_UNKNOWN) {
        a->unknown = true;
        (void)error_set(err, PENNON_COMMIT_UNKNOWN,
                        "it is not known whether version %" PRIu64 " was committed: %s; look before trying again", a->target,
                        local.message != NULL ? local.message : "");
        err->version = a->target;
        (void)error_kind(err, "CommitStatusUnknown");
    }
    pennon_error_clear(&local);
    return st;
}

/* The manifest of the next version, parsed and put. */
static pennon_status try_once(const struct commit *m, struct attempt *a, bool *conflict, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct block *file = NULL;
    char *path = NULL;
    struct snapshot *s = NULL;
    struct call quiet = unstoppable(m->call);
    const bool v2 = a->current != NULL ? a->current->v2_names : m->options->v2_names;
    *conflict = false;
    a->target = a->current != NULL ? a->current->version + 1 : 1;
    if (a->target >= DETACHED_VERSION) FAIL(PENNON_INVALID_ARGUMENT, "the version numbers of the table are used up");
    TRY(write_transaction(m, a, err));
    TRY(commit_build_manifest(m, a->current, a->target, a->txn_name, &file, err));
    TRY_NEW(path, manifest_path(m->call->mem, a->at->path, a->target, v2, err));
    st = snapshot_parse(runtime_mem(m->call->runtime), file, path, &s, err); /* it outlives the call */
    if (st == PENNON_CORRUPT) {
        /* A table that we read and this manifest are one thing: the fault is in what the caller gave. */
        (void)error_prefix(err, "the new version would not open");
        err->code = st = PENNON_INVALID_ARGUMENT;
    }
    if (st != PENNON_OK) goto done;
    s->v2_names = v2;
    TRY(table_location_copy(s->mem, a->current != NULL ? &a->current->at : a->at, &s->at, err));
    if (a->current != NULL) TRY(snapshot_copy_rule(s, &a->current->external, err));
    take_snapshot(&a->made, s);
    s = NULL;
    TRY(call_check(m->call, err));
    st = store_put(&quiet, a->at->store, path, bytes_of(file->data, file->size), put_flags(m->call, PENNON_PUT_IF_ABSENT), err);
    if (st == PENNON_OK) {
        a->landed = true;
    } else {
        st = verify(m, a, st, conflict, err);
    }
done:
    snapshot_release(s);
    block_release(file);
    mem_free(m->call->mem, path);
    return st;
}

/* ---- pauses ---- */

/* One of 2^(attempt + 2) slots of `unit_ns` each, by chance; cancel and deadline are looked at. */
static pennon_status pause_between(const struct call *c, uint32_t attempt, int64_t unit_ns, pennon_error *err)
{
    uint64_t random;
    TRY_RETURN(random_bytes(&random, sizeof random, err));
    uint64_t slots = UINT64_C(1) << (attempt < 20 ? attempt + 2 : 22);
    int64_t left;
    if (__builtin_mul_overflow((int64_t)(random % slots), unit_ns, &left) || left > PAUSE_MAX_NS) left = PAUSE_MAX_NS;
    while (left > 0) {
        struct timespec step = {0, (long)(left < PAUSE_STEP_NS ? left : PAUSE_STEP_NS)};
        TRY_RETURN(call_check(c, err));
        (void)nanosleep(&step, NULL);
        left -= PAUSE_STEP_NS;
    }
    return PENNON_OK;
}

static pennon_status exhausted(const struct commit *m, const struct attempt *a, pennon_error *err)
{
    if (m->read == NULL) {
        (void)error_set(err, PENNON_ALREADY_EXISTS, "there is a table at '%.512s' already", a->at->uri);
        (void)error_where(err, a->at->uri, NULL, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE);
        return error_kind(err, "DatasetAlreadyExists");
    }
    (void)error_set(err, PENNON_CONFLICT,
                    "Commit conflict for version %" PRIu64 ": Failed to commit the transaction after %u retries.", a->target,
                    m->options->max_retries);
    err->version = a->target;
    return error_kind(err, "CommitConflict");
}

static pennon_status run_attempts(const struct commit *m, struct attempt *a, pennon_error *err)
{
    const uint32_t attempts = m->read == NULL || m->options->max_retries == 0 ? 1 : m->options->max_retries;
    int64_t begun = clock_monotonic_ns(), unit_ns = 0;
    for (uint32_t i = 0; i < attempts; i++) {
        bool conflict = false;
        TRY_RETURN(call_check(m->call, err));
        if (m->read != NULL) {
            TRY_RETURN(catch_up(m, a, err));
            if (a->landed) return PENNON_OK;
            TRY_RETURN(commit_check_writer_flags(a->current, err));
        }
        TRY_RETURN(try_once(m, a, &conflict, err));
        if (a->landed) return PENNON_OK;
        ASSERT(conflict);
        if (i == 0) unit_ns = (clock_monotonic_ns() - begun) / 10 * 11;
        if (i + 1 < attempts) TRY_RETURN(pause_between(m->call, i, unit_ns, err));
    }
    return exhausted(m, a, err);
}

/* ---- afterwards ---- */

/* For readers of long histories; nothing depends on it. */
static void write_hint(const struct call *c, const struct attempt *a)
{
    pennon_error local;
    struct call quiet = unstoppable(c);
    char text[40];
    if (!hint_wanted()) return;
    pennon_error_init(&local);
    char *path = store_join(c->mem, a->at->path, "_versions/latest_version_hint.json", &local);
    int n = snprintf(text, sizeof text, "{\"version\":%" PRIu64 "}", a->made->version);
    if (path != NULL &&
        store_put(&quiet, a->at->store, path, bytes_of(text, (size_t)n), PENNON_PUT_OVERWRITE, &local) != PENNON_OK) {
        call_log(c, PENNON_LOG_WARN, "the version hint was not written: %s", local.message);
    }
    mem_free(c->mem, path);
    pennon_error_clear(&local);
}

/* Identity of the manifest, for handles that look whether they are current. */
static void learn_etag(const struct call *c, struct snapshot *s)
{
    pennon_error local;
    pennon_object_info info;
    struct call quiet = unstoppable(c);
    pennon_error_init(&local);
    if (s->etag[0] == '\0' && store_head(&quiet, s->at.store, s->manifest_path, &info, &local) == PENNON_OK)
        memcpy(s->etag, info.etag, sizeof s->etag);
    s->etag[sizeof s->etag - 1] = '\0';
    pennon_error_clear(&local);
}

static void remove_transaction(const struct call *c, const struct attempt *a)
{
    pennon_error local;
    struct call quiet = unstoppable(c);
    if (a->txn_path == NULL) return;
    pennon_error_init(&local);
    if (store_delete(&quiet, a->at->store, a->txn_path, &local) != PENNON_OK)
        call_log(c, PENNON_LOG_DEBUG, "left behind: %s", local.message);
    pennon_error_clear(&local);
}

static pennon_status check_arguments(const struct commit *m, const struct attempt *a, pennon_error *err)
{
    const bool needs_schema = m->read == NULL || m->op == COMMIT_OVERWRITE;
    uint64_t latest;
    bool v2;
    ASSERT(!needs_schema || m->schema != NULL);
    if (needs_schema && m->schema->n_all > 0 && m->schema->by_id[0]->id < 0) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "column '%.128s' of the new schema has no id", m->schema->by_id[0]->name);
    }
    if (m->read != NULL && (m->read->version & DETACHED_VERSION) != 0) {
        return error_set(err, PENNON_NOT_SUPPORTED, "a commit on top of the detached version %" PRIu64, m->read->version);
    }
    if (m->read != NULL && m->options->stable_row_ids && !snapshot_has_stable_ids(m->read)) {
        return error_set(err, PENNON_NOT_SUPPORTED, "stable row ids can only be chosen when a table is made");
    }
    if (m->read == NULL) {
        TRY_RETURN(latest_version(m->call, a->at, &latest, &v2, err));
        if (latest != 0) return exhausted(m, a, err);
    }
    return commit_check_fragments(m, err);
}

pennon_status commit_fragments(const struct call *c, const struct table_location *at, struct snapshot *read,
                               enum commit_operation op, const struct schema *schema, const struct fragment_message *fragments,
                               size_t n, const struct commit_options *options, struct snapshot **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct commit m = {.call = c, .op = op, .read = read, .schema = schema, .fragments = fragments, .n = n, .options = options};
    struct attempt a = {.at = read != NULL ? &read->at : at};
    m.read_version = read != NULL ? read->version : 0;
    arena_init(&m.arena, c->mem);
    if (read != NULL) a.current = snapshot_retain(read);
    TRY(check_arguments(&m, &a, err));
    if (read != NULL) TRY(commit_check_writer_flags(read, err));
    TRY(encode_transaction(&m, err));
    TRY(run_attempts(&m, &a, err));
    ASSERT(a.landed && a.made != NULL);
    write_hint(c, &a);
    learn_etag(c, a.made);
    *out = a.made;
    a.made = NULL;
done:
    if (st != PENNON_OK && !a.unknown) remove_transaction(c, &a);
    mem_free(c->mem, a.txn_path);
    snapshot_release(a.made);
    snapshot_release(a.current);
    arena_reset(&m.arena);
    return st;
}
