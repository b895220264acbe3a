/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The commit of a transaction.
 *
 * 1. The transaction is checked against the version that was read.
 * 2. Each attempt: find the latest version; check every one since the version that was read against the conflict rules, and adapt the
 *    transaction; write it to _transactions/; build the manifest of the next version; put it if absent. The new manifest is parsed before it is put, so that
 *    nothing can fail once it is there.
 * 3. What the put says is not believed when it is not OK: the manifest at the target is read, and its transaction's uuid tells
 *
 *      put says       | at the target       | then
 *      ---------------|---------------------|-----------------------------------------------------------
 *      OK             | (not looked at)     | committed
 *      exists, error  | mine                | committed: the reply was lost
 *      not durable    | mine                | COMMIT_UNKNOWN (kind CommitNotDurable): the version is there and readable, but its name
 *                     |                     | could not be synced, so a power loss may take it back
 *      exists, error  | another's           | next attempt, after a pause
 *      exists, error  | nothing             | the error (after "exists": next attempt)
 *      exists, error  | cannot be read      | COMMIT_UNKNOWN; nothing is deleted
 *
 * From the put on neither the cancel token nor the deadline stops the call.
 * The transaction file, and what rebasing wrote, of a commit that did not land are removed, best effort.
 * A detached commit goes on top of the version that it is given, under a random number, and looks at no other version.
 * Source: spec commits 1, 2.3, 2.4, 2.9. */
#include <stdio.h>
#include <time.h>

#include "table/cleanup.h"
#include "table/commit_private.h"

#define VERIFY_TRIES 3
#define PAUSE_MAX_NS INT64_C(5000000000)
#define PAUSE_STEP_NS INT64_C(10000000)
#define TXN_NAME_BYTES 64
#define FIRST_UNIT_NS INT64_C(50000000)

void commit_options_init(struct commit_options *o) { *o = (struct commit_options){.max_retries = 20, .v2_names = true}; }

void transaction_options_init(struct transaction_options *o)
{
    *o = (struct transaction_options){.max_retries = 20, .v2_names = true};
}

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

/* ---- attempts ---- */

/* One call of commit_transaction. */
struct commit {
    const struct call *call;
    const struct table_location *at; /* of the table; borrowed */
    const struct transaction *given;
    const struct transaction_options *options;
    struct snapshot *read;    /* borrowed; NULL = there is no table */
    struct snapshot *base;    /* the version that the transaction was made from, retained; NULL = there was no table */
    struct rebase rebase;     /* holds the transaction in its present form */
    struct snapshot *current; /* newest version seen, retained; NULL = no table */
    struct snapshot *made;    /* what is being put, or my own that was found */
    bool landed;
    bool unknown; /* nothing may be deleted */
    uint64_t target;
    struct buf bytes;              /* the transaction as it is written */
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

static void remove_transaction(struct commit *m)
{
    pennon_error local;
    struct call quiet = unstoppable(m->call);
    if (m->txn_path == NULL) return;
    pennon_error_init(&local);
    if (store_delete(&quiet, m->at->store, m->txn_path, &local) != PENNON_OK)
        call_log(m->call, PENNON_LOG_DEBUG, "left behind: %s", local.message);
    pennon_error_clear(&local);
    mem_free(m->call->mem, m->txn_path);
    m->txn_path = NULL;
}

static bool writes_no_file(const struct commit *m)
{
    return m->current != NULL && (m->current->manifest.writer_feature_flags & FLAG_NO_TRANSACTION_FILE) != 0;
}

/* The file of the transaction; again when rebasing changed it. Its name begins with the version that it was made from, so that it may move. */
static pennon_status write_transaction(struct commit *m, pennon_error *err)
{
    const struct transaction *t = m->rebase.t;
    char name[TXN_NAME_BYTES];
    if (m->bytes.size > 0 && m->rebase.copy == NULL) return PENNON_OK;
    m->bytes.size = 0;
    TRY_RETURN(transaction_encode(t, &m->bytes, err));
    if (writes_no_file(m)) return PENNON_OK;
    int n = snprintf(name, sizeof name, "%" PRIu64 "-%s.txn", t->read_version, t->uuid);
    ASSERT(n > 0 && (size_t)n < sizeof name);
    UNUSED(n);
    if (m->txn_path != NULL && strcmp(name, m->txn_name) != 0) remove_transaction(m);
    memcpy(m->txn_name, name, sizeof name);
    if (m->txn_path == NULL) {
        m->txn_path = mem_printf(m->call->mem, err, "%s%s_transactions/%s", m->at->path, m->at->path[0] != '\0' ? "/" : "", name);
        if (m->txn_path == NULL) return err->code;
    }
    return store_put(m->call, m->at->store, m->txn_path, bytes_of(m->bytes.data, m->bytes.size),
                     put_flags(m->call, PENNON_PUT_OVERWRITE), err);
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

/* Is the transaction of the version mine? A version without one is not; what cannot be decoded is newer than we are, so not ours. */
static pennon_status is_own(const struct commit *m, const struct call *c, const struct snapshot *s, bool *own, pennon_error *err)
{
    struct transaction *t = NULL;
    pennon_status st = snapshot_transaction(c, s, &t, err);
    *own = t != NULL && strcmp(t->uuid, m->given->uuid) == 0;
    transaction_free(t);
    return st == PENNON_CORRUPT ? PENNON_OK : st;
}

/* One version that came after the newest one seen. */
static pennon_status look_at(struct commit *m, struct snapshot *s, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct transaction *theirs = NULL;
    TRY(snapshot_transaction(m->call, s, &theirs, err));
    m->landed = theirs != NULL && strcmp(theirs->uuid, m->given->uuid) == 0;
    if (!m->landed) st = conflict_check(&m->rebase, m->current, s, theirs, err);
done:
    transaction_free(theirs);
    return st;
}

/* Versions after the newest one seen, oldest first; each is checked. Ends early when one of them is mine. A version that was cleaned up
 * cannot be checked: what it did to the schema or the rows is not known. */
static pennon_status catch_up(struct commit *m, pennon_error *err)
{
    uint64_t latest, seen = m->current->version;
    bool v2;
    TRY_RETURN(latest_version(m->call, m->at, &latest, &v2, err));
    if (latest < seen) {
        return overtaken(PENNON_CONFLICT_FINAL, "IncompatibleTransaction", latest, err,
                         "the table '%.512s' was replaced: its latest version is %" PRIu64 ", and version %" PRIu64 " was read",
                         m->at->uri, latest, seen);
    }
    if (latest > seen && m->given->which == OPERATION_OVERWRITE && m->options->max_retries == 0) {
        return overtaken(PENNON_CONFLICT, "CommitConflict", latest, err,
                         "Commit conflict for version %" PRIu64 ": the table has version %" PRIu64 " already", seen + 1, latest);
    }
    while (seen < latest && !m->landed) {
        struct snapshot *s = NULL;
        pennon_status st = snapshot_read(m->call, m->at, ++seen, v2, &m->current->external, &s, err);
        if (st == PENNON_NOT_FOUND) {
            return overtaken(PENNON_CONFLICT, "RetryableCommitConflict", seen, err,
                             "Retryable commit conflict for version %" PRIu64 ": version %" PRIu64
                             " is gone, and what it changed cannot be checked. Please retry.",
                             latest, seen);
        }
        if (st == PENNON_OK) st = look_at(m, s, err);
        if (s != NULL) take_snapshot(m->landed ? &m->made : &m->current, s);
        if (st != PENNON_OK) return st;
    }
    return m->landed ? PENNON_OK : rebase_finish(&m->rebase, m->current, err);
}

static pennon_status unknown_status(struct commit *m, const char *kind, pennon_error *err, const char *fmt, ...) PRINTF_LIKE(4, 5);
static pennon_status unknown_status(struct commit *m, const char *kind, pennon_error *err, const char *fmt, ...)
{
    va_list args;
    m->unknown = true;
    va_start(args, fmt);
    (void)error_set_v(err, PENNON_COMMIT_UNKNOWN, fmt, args);
    va_end(args);
    err->version = m->target;
    return error_kind(err, kind);
}

/* What lies at the target, after a put that did not say OK. `said` is its status, `err` its error. */
static pennon_status verify(struct commit *m, pennon_status said, bool *conflict, pennon_error *err)
{
    struct call quiet = unstoppable(m->call);
    pennon_error local;
    pennon_status st = PENNON_OK;
    const bool not_durable = said != PENNON_ALREADY_EXISTS && strcmp(err->kind, "NotDurable") == 0;
    pennon_error_init(&local);
    for (int turn = 0; turn < VERIFY_TRIES; turn++) {
        struct snapshot *s = NULL;
        bool own = false;
        if (turn > 0) {
            struct timespec pause = {0, 50000000L * turn};
            (void)nanosleep(&pause, NULL);
        }
        st = snapshot_read(&quiet, m->at, m->target, m->made->v2_names, &m->made->external, &s, &local);
        if (st == PENNON_OK) st = is_own(m, &quiet, s, &own, &local);
        snapshot_release(s);
        if (st == PENNON_OK) {
            m->landed = own;
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
        st = unknown_status(m, "CommitStatusUnknown", err,
                            "it is not known whether version %" PRIu64 " was committed: %s; look before trying again", m->target,
                            local.message != NULL ? local.message : "");
    } else if (m->landed && not_durable) {
        m->landed = false;
        st = unknown_status(
            m, "CommitNotDurable", err,
            "version %" PRIu64 " is there and can be read, but a power loss may take it back: its name was not synced", m->target);
    }
    pennon_error_clear(&local);
    return st;
}

/* Fragments are decoded on first use; those that the current version does not have alike are looked at now. */
static pennon_status load_changed(const struct snapshot *current, struct snapshot *made, pennon_error *err)
{
    for (size_t i = 0; i < made->n_fragments; i++) {
        const struct fragment *f = &made->fragments[i];
        const struct fragment *old = current != NULL && i < current->n_fragments ? &current->fragments[i] : NULL;
        /* Mostly it stands where it stood. */
        if (current != NULL && (old == NULL || old->id != f->id)) old = snapshot_find_fragment(current, f->id);
        if (old == NULL || !bytes_equal(old->raw, f->raw)) TRY_RETURN(fragment_load(made, f, err));
    }
    return PENNON_OK;
}

/* The manifest of version `target`, built, parsed and put; the snapshot is m->made. */
static pennon_status put_version(struct commit *m, bool *conflict, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct block *file = NULL;
    char *path = NULL;
    struct snapshot *s = NULL;
    struct call quiet = unstoppable(m->call);
    const bool v2 = m->current != NULL ? m->current->v2_names : m->options->v2_names;
    *conflict = false;
    TRY(write_transaction(m, err));
    TRY(manifest_build(m->call, m->rebase.t, m->options, m->current, m->target, m->txn_name, bytes_of(m->bytes.data, m->bytes.size),
                       &file, err));
    TRY_NEW(path, manifest_path(m->call->mem, m->at->path, m->target, v2, err));
    st = snapshot_parse(runtime_mem(m->call->runtime), file, path, &s, err); /* it outlives the call */
    if (st == PENNON_OK) st = load_changed(m->current, s, err);
    if (st == PENNON_CORRUPT) {
        /* A table that we read and this manifest are one thing: the fault is in what the caller gave. */
        (void)error_prefix(err, "the new version would not open");
        err->code = st = PENNON_INVALID_ARGUMENT;
    }
    if (st != PENNON_OK) goto done;
    s->v2_names = v2;
    TRY(table_location_copy(s->mem, m->current != NULL ? &m->current->at : m->at, &s->at, err));
    if (m->current != NULL) TRY(snapshot_copy_rule(s, &m->current->external, err));
    take_snapshot(&m->made, s);
    s = NULL;
    TRY(call_check(m->call, err));
    st = store_put(&quiet, m->at->store, path, bytes_of(file->data, file->size), put_flags(m->call, PENNON_PUT_IF_ABSENT), err);
    if (st == PENNON_OK) {
        m->landed = true;
    } else {
        st = verify(m, st, conflict, err);
    }
done:
    snapshot_release(s);
    block_release(file);
    mem_free(m->call->mem, path);
    return st;
}

/* The number of the next version. A clone begins with that of its source. */
static pennon_status next_target(struct commit *m, pennon_error *err)
{
    m->target = m->current != NULL ? m->current->version + 1 : 1;
    if (m->given->which == OPERATION_CLONE) m->target = max_u64(m->given->op.clone.ref_version, 1);
    if (m->target >= DETACHED_VERSION)
        return error_set(err, PENNON_INVALID_ARGUMENT, "the version numbers of the table are used up");
    return PENNON_OK;
}

/* ---- pauses ---- */

pennon_status commit_pause(const struct call *c, uint32_t attempt, int64_t unit_ns, pennon_error *err)
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

static pennon_status exhausted(const struct commit *m, pennon_error *err)
{
    if (m->read == NULL) {
        (void)error_set(err, PENNON_ALREADY_EXISTS, "there is a table at '%.512s' already", m->at->uri);
        (void)error_where(err, m->at->uri, NULL, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE);
        return error_kind(err, "DatasetAlreadyExists");
    }
    (void)error_set(err, PENNON_CONFLICT,
                    "Commit conflict for version %" PRIu64 ": Failed to commit the transaction after %u retries.", m->target,
                    m->options->max_retries);
    err->version = m->target;
    return error_kind(err, "CommitConflict");
}

static pennon_status run_attempts(struct commit *m, pennon_error *err)
{
    const uint32_t attempts = m->read == NULL || m->options->max_retries == 0 ? 1 : m->options->max_retries;
    int64_t begun = clock_monotonic_ns(), unit_ns = 0;
    for (uint32_t i = 0; i < attempts; i++) {
        bool conflict = false;
        TRY_RETURN(call_check(m->call, err));
        if (m->read != NULL) {
            TRY_RETURN(catch_up(m, err));
            if (m->landed) return PENNON_OK;
            TRY_RETURN(commit_check_writer_flags(m->current, err));
        }
        TRY_RETURN(next_target(m, err));
        TRY_RETURN(put_version(m, &conflict, err));
        if (m->landed) return PENNON_OK;
        ASSERT(conflict);
        if (i == 0) unit_ns = (clock_monotonic_ns() - begun) / 10 * 11;
        if (i + 1 < attempts) TRY_RETURN(commit_pause(m->call, i, unit_ns, err));
    }
    return exhausted(m, err);
}

/* A version beside the line of versions: a random number, another one when it is taken. */
static pennon_status run_detached(struct commit *m, pennon_error *err)
{
    const uint32_t attempts = m->options->max_retries > 0 ? m->options->max_retries : 1;
    if (m->read == NULL || !m->read->v2_names)
        return error_set(err, PENNON_NOT_SUPPORTED,
                         "a detached commit needs a table that is there, with manifest names of scheme V2");
    TRY_RETURN(commit_check_writer_flags(m->current, err));
    TRY_RETURN(rebase_finish(&m->rebase, m->current, err));
    for (uint32_t i = 0; i < attempts; i++) {
        bool conflict = false;
        TRY_RETURN(call_check(m->call, err));
        TRY_RETURN(random_bytes(&m->target, sizeof m->target, err));
        m->target |= DETACHED_VERSION;
        TRY_RETURN(put_version(m, &conflict, err));
        if (m->landed) return PENNON_OK;
        if (i + 1 < attempts) TRY_RETURN(commit_pause(m->call, i, FIRST_UNIT_NS, err));
    }
    return exhausted(m, err);
}

/* ---- afterwards ---- */

/* A lower bound of the latest version for readers that do not like to list; always written, unless the environment says no. Nothing depends on it. */
static void write_hint(const struct commit *m)
{
    pennon_error local;
    struct call quiet = unstoppable(m->call);
    char text[40];
    if ((m->made->version & DETACHED_VERSION) != 0) return;
    if (!hint_wanted()) return;
    pennon_error_init(&local);
    char *path = store_join(m->call->mem, m->at->path, "_versions/latest_version_hint.json", &local);
    int n = snprintf(text, sizeof text, "{\"version\":%" PRIu64 "}", m->made->version);
    if (path != NULL &&
        store_put(&quiet, m->at->store, path, bytes_of(text, (size_t)n), PENNON_PUT_OVERWRITE, &local) != PENNON_OK) {
        call_log(m->call, PENNON_LOG_WARN, "the version hint was not written: %s", local.message);
    }
    mem_free(m->call->mem, path);
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

/* Cleanup as the new version's config asks for it. What fails there is logged, and none of the commit's. */
static void clean_afterwards(const struct commit *m)
{
    struct cleanup_stats stats;
    pennon_error ignored;
    if (m->options->skip_auto_cleanup) return;
    pennon_error_init(&ignored);
    (void)!auto_cleanup(m->call, m->base, m->made, &stats, &ignored);
    pennon_error_clear(&ignored);
}

/* ---- the call ---- */

/* The version that the transaction was made from: the one that was read, unless it says another. */
static pennon_status open_base(struct commit *m, pennon_error *err)
{
    const uint64_t version = m->given->read_version;
    uint64_t latest;
    bool v2;
    if (m->read == NULL) {
        TRY_RETURN(latest_version(m->call, m->at, &latest, &v2, err));
        return latest != 0 ? exhausted(m, err) : PENNON_OK;
    }
    if (version == 0 || version == m->read->version || m->options->detached) {
        m->base = snapshot_retain(m->read);
        return PENNON_OK;
    }
    pennon_status st = snapshot_read(m->call, m->at, version, m->read->v2_names, &m->read->external, &m->base, err);
    if (st != PENNON_NOT_FOUND) return st;
    (void)error_set(err, PENNON_NOT_FOUND, "version %" PRIu64 ", which the transaction was made from, is gone", version);
    err->version = version;
    return error_kind(err, "VersionNotFound");
}

static pennon_status check_arguments(const struct commit *m, pennon_error *err)
{
    const struct snapshot *read = m->read;
    if (read != NULL && (read->version & DETACHED_VERSION) != 0 && !m->options->detached)
        return error_set(err, PENNON_NOT_SUPPORTED, "a commit on top of the detached version %" PRIu64, read->version);
    if (read != NULL && m->options->stable_row_ids && !snapshot_has_stable_ids(read))
        return error_set(err, PENNON_NOT_SUPPORTED, "stable row ids can only be chosen when a table is made");
    for (size_t i = 1; m->options->knows_rows && i < m->options->n_affected_rows; i++) {
        if (m->options->affected_rows[i] <= m->options->affected_rows[i - 1])
            return error_set(err, PENNON_INVALID_ARGUMENT, "the affected rows do not ascend");
    }
    return PENNON_OK;
}

pennon_status commit_transaction(const struct call *c, const struct table_location *at, struct snapshot *read,
                                 const struct transaction *t, const struct transaction_options *o, struct snapshot **out,
                                 pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct commit m = {.call = c, .at = read != NULL ? &read->at : at, .given = t, .options = o, .read = read};
    buf_init(&m.bytes, c->mem, BUF_NO_LIMIT);
    TRY(check_arguments(&m, err));
    if (read != NULL) TRY(commit_check_writer_flags(read, err));
    TRY(open_base(&m, err));
    TRY(transaction_validate(t, m.base, err));
    TRY(rebase_begin(&m.rebase, c, o, m.base, t, err));
    if (m.base != NULL) m.current = snapshot_retain(m.base);
    TRY(o->detached ? run_detached(&m, err) : run_attempts(&m, err));
    ASSERT(m.landed && m.made != NULL);
    write_hint(&m);
    learn_etag(c, m.made);
    clean_afterwards(&m);
    if (out != NULL) {
        *out = m.made;
        m.made = NULL;
    }
done:
    if (st != PENNON_OK && !m.unknown) {
        remove_transaction(&m);
        if (m.rebase.call != NULL) rebase_remove_files(&m.rebase);
    }
    mem_free(c->mem, m.txn_path);
    buf_free(&m.bytes);
    rebase_end(&m.rebase);
    snapshot_release(m.made);
    snapshot_release(m.current);
    snapshot_release(m.base);
    return st;
}

/* ---- fragments alone ---- */

static pennon_status pairs_to_entries(struct arena *a, const struct field_pair *pairs, size_t n, struct map_entry **out,
                                      pennon_error *err)
{
    *out = arena_calloc(a, n, sizeof **out, err);
    if (*out == NULL) return err->code;
    for (size_t i = 0; i < n; i++) (*out)[i] = (struct map_entry){.key = pairs[i].key, .value = pairs[i].value};
    return PENNON_OK;
}

/* The operation; it borrows what the fragments and the schema point to. */
static pennon_status fill_operation(struct transaction *t, const struct schema *schema, const struct fragment_message *fragments,
                                    size_t n, const struct commit_options *o, pennon_error *err)
{
    struct fragment_message *list = arena_calloc(&t->arena, n, sizeof *list, err);
    if (list == NULL) return err->code;
    for (size_t i = 0; i < n; i++) {
        list[i] = fragments[i];
        list[i].id = 0;
    }
    TRY_RETURN(pairs_to_entries(&t->arena, o->properties, o->n_properties, &t->properties, err));
    t->n_properties = o->n_properties;
    if (t->which == OPERATION_APPEND) {
        t->op.append = (struct append_message){.fragments = list, .n_fragments = n};
        return PENNON_OK;
    }
    struct overwrite_message *w = &t->op.overwrite;
    *w = (struct overwrite_message){.fragments = list, .n_fragments = n, .n_config_upsert_values = o->n_config};
    TRY_RETURN(schema_to_messages(schema, &t->arena, &w->schema, &w->n_schema, err));
    TRY_RETURN(schema_metadata_to_messages(schema, &t->arena, &w->schema_metadata, &w->n_schema_metadata, err));
    return pairs_to_entries(&t->arena, o->config, o->n_config, &w->config_upsert_values, err);
}

pennon_status commit_fragments(const struct call *c, const struct table_location *at, struct snapshot *read,
                               enum commit_operation op, const struct schema *schema, const struct fragment_message *fragments,
                               size_t n, const struct commit_options *options, struct snapshot **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct transaction *t = NULL;
    struct transaction_options o;
    const bool append = op == COMMIT_APPEND && read != NULL;
    ASSERT(append || schema != NULL);
    transaction_options_init(&o);
    o.max_retries = options->max_retries;
    o.v2_names = options->v2_names;
    o.stable_row_ids = options->stable_row_ids;
    o.storage_version = options->storage_version;
    o.length = options->length;
    o.length_ctx = options->length_ctx;
    TRY(transaction_new(c->mem, append ? OPERATION_APPEND : OPERATION_OVERWRITE, read != NULL ? read->version : 0, &t, err));
    TRY(fill_operation(t, schema, fragments, n, options, err));
    TRY(commit_transaction(c, at, read, t, &o, out, err));
done:
    transaction_free(t);
    return st;
}
