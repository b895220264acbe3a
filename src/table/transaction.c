/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Transactions as objects: new ones, those of versions, their bytes.
 *
 * field      | tag | what
 * -----------|-----|--------------------------------------------------------------
 * version    | 1   | that was read
 * uuid       | 2   | text
 * tag        | 3   | text of the version that is made
 * properties | 4   | map of texts
 * operation  | 100 | … 115; one of them. Tags up to 199 are operations of newer writers
 *
 * Decoding copies the bytes first, so that texts point into the transaction's own arena. Old forms are rewritten then and there:
 *
 *   Rewrite, lists of fragments (1, 2)            -> one group; dropped where groups are present
 *   UpdateConfig, keys to set and to delete (1, 2) -> entries of config_updates
 *   UpdateConfig, schema metadata (3)             -> schema_metadata_updates that replace
 *   UpdateConfig, field metadata (4)              -> field_metadata_updates that replace
 *
 * Invariant: an operation that is not known here is written back byte for byte.
 * Source: spec commits 1. */
#include "table/commit_private.h"

#define OPERATION_LAST_TAG 199u /* 200 and 202 are a second operation of old writers, which has no meaning any more */

const char *operation_name(uint32_t which)
{
    static const char *const NAMES[OPERATION_COUNT] = {
        "Append", "Delete",  "Overwrite",    "CreateIndex",     "Rewrite",           "Merge", "Restore",     "ReserveFragments",
        "Update", "Project", "UpdateConfig", "DataReplacement", "UpdateMemWalState", "Clone", "UpdateBases", "DataOverlay",
    };
    return which >= OPERATION_APPEND && which - OPERATION_APPEND < ARRAY_LEN(NAMES) ? NAMES[which - OPERATION_APPEND] : "unknown";
}

/* ---- life ---- */

static struct transaction *blank(struct mem *m, pennon_error *err)
{
    struct transaction *t = mem_calloc(m, 1, sizeof *t, err);
    if (t == NULL) return NULL;
    t->mem = mem_retain(m);
    arena_init(&t->arena, m);
    return t;
}

void transaction_free(struct transaction *t)
{
    if (t == NULL) return;
    struct mem *m = t->mem;
    arena_reset(&t->arena);
    mem_free(m, t);
    mem_release(m);
}

pennon_status transaction_new(struct mem *m, uint32_t which, uint64_t read_version, struct transaction **out, pennon_error *err)
{
    uint8_t id[16];
    ASSERT(operation_table(which) != NULL);
    TRY_RETURN(uuid_new(id, err));
    struct transaction *t = blank(m, err);
    if (t == NULL) return err->code;
    t->read_version = read_version;
    t->which = which;
    uuid_text(id, t->uuid);
    *out = t;
    return PENNON_OK;
}

/* ---- old forms ---- */

static pennon_status renew_rewrite(struct transaction *t, pennon_error *err)
{
    struct rewrite_message *r = &t->op.rewrite;
    if (r->n_groups == 0 && (r->n_old_fragments > 0 || r->n_new_fragments > 0)) {
        r->groups = arena_calloc(&t->arena, 1, sizeof *r->groups, err);
        if (r->groups == NULL) return err->code;
        r->groups[0] = (struct rewrite_group_message){.old_fragments = r->old_fragments,
                                                      .n_old_fragments = r->n_old_fragments,
                                                      .new_fragments = r->new_fragments,
                                                      .n_new_fragments = r->n_new_fragments};
        r->n_groups = 1;
    }
    r->old_fragments = r->new_fragments = NULL;
    r->n_old_fragments = r->n_new_fragments = 0;
    return PENNON_OK;
}

/* Pairs to set, then keys to delete, as one map. NULL = nothing to do. */
static pennon_status renew_map(struct arena *a, const struct map_entry *set, size_t n_set, const struct bytes *removed,
                               size_t n_removed, bool replace, struct update_map_message **out, pennon_error *err)
{
    size_t n;
    *out = NULL;
    if (n_set == 0 && n_removed == 0) return PENNON_OK;
    if (size_add_overflows(n_set, n_removed, &n)) n = SIZE_MAX;
    struct update_map_message *map = arena_calloc(a, 1, sizeof *map, err);
    if (map == NULL) return err->code;
    map->entries = arena_calloc(a, n, sizeof *map->entries, err);
    if (map->entries == NULL) return err->code;
    for (size_t i = 0; i < n_set; i++) {
        map->entries[i] = (struct update_map_entry_message){.key = set[i].key, .has_value = true, .value = set[i].value};
    }
    for (size_t i = 0; i < n_removed; i++) map->entries[n_set + i].key = removed[i];
    map->n_entries = n;
    map->replace = replace;
    *out = map;
    return PENNON_OK;
}

static pennon_status renew_fields(struct transaction *t, pennon_error *err)
{
    struct update_config_message *c = &t->op.config;
    c->field_metadata_updates = arena_calloc(&t->arena, c->n_field_metadata, sizeof *c->field_metadata_updates, err);
    if (c->field_metadata_updates == NULL) return err->code;
    for (size_t i = 0; i < c->n_field_metadata; i++) {
        const struct old_field_update_message *old = &c->field_metadata[i];
        struct field_update_message *now = &c->field_metadata_updates[i];
        CHECK_FILE_RETURN(old->key <= INT32_MAX, "transaction: metadata of field %u", old->key);
        now->key = (int32_t)old->key;
        now->value = arena_calloc(&t->arena, 1, sizeof *now->value, err);
        if (now->value == NULL) return err->code;
        now->value->replace = true; /* also without entries: the field's metadata are cleared */
        if (old->value == NULL || old->value->n_metadata == 0) continue;
        TRY_RETURN(renew_map(&t->arena, old->value->metadata, old->value->n_metadata, NULL, 0, true, &now->value, err));
    }
    c->n_field_metadata_updates = c->n_field_metadata;
    return PENNON_OK;
}

static pennon_status renew_config(struct transaction *t, pennon_error *err)
{
    struct update_config_message *c = &t->op.config;
    bool old = c->n_upsert_values > 0 || c->n_delete_keys > 0 || c->n_schema_metadata > 0 || c->n_field_metadata > 0;
    bool now = c->config_updates != NULL || c->table_metadata_updates != NULL || c->schema_metadata_updates != NULL ||
               c->n_field_metadata_updates > 0;
    if (!old) return PENNON_OK;
    CHECK_FILE_RETURN(!now, "transaction: UpdateConfig in its old and its new form at once");
    TRY_RETURN(renew_map(&t->arena, c->upsert_values, c->n_upsert_values, c->delete_keys, c->n_delete_keys, false,
                         &c->config_updates, err));
    TRY_RETURN(renew_map(&t->arena, c->schema_metadata, c->n_schema_metadata, NULL, 0, true, &c->schema_metadata_updates, err));
    TRY_RETURN(renew_fields(t, err));
    c->n_upsert_values = c->n_delete_keys = c->n_schema_metadata = c->n_field_metadata = 0;
    return PENNON_OK;
}

/* ---- bytes ---- */

/* The uuid becomes part of a file name. */
static pennon_status read_uuid(struct transaction *t, struct bytes text, pennon_error *err)
{
    CHECK_FILE_RETURN(text.size < sizeof t->uuid, "transaction: a uuid of %zu bytes", text.size);
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];
        CHECK_FILE_RETURN(c > ' ' && c < 0x7f && c != '/' && c != '\\', "transaction: the byte %u in its uuid", c);
        t->uuid[i] = (char)c;
    }
    ASSERT(t->uuid[text.size] == '\0');
    return PENNON_OK;
}

/* An operation of a newer writer is among the unknown fields; the last one counts. */
static pennon_status find_newer(struct transaction *t, pennon_error *err)
{
    struct wire_cursor c = wire_cursor_of(t->unknown);
    while (!wire_cursor_done(&c)) {
        struct wire_item item;
        TRY_RETURN(wire_next(&c, &item, err));
        if (item.tag < OPERATION_APPEND || item.tag > OPERATION_LAST_TAG || item.type != 2) continue;
        t->which = item.tag;
        t->raw = item.payload;
    }
    CHECK_FILE_RETURN(t->which != 0, "transaction: there is no operation in it");
    return PENNON_OK;
}

static pennon_status read_operation(struct transaction *t, const struct transaction_message *m, pennon_error *err)
{
    t->which = m->which;
    if (m->which == 0) return find_newer(t, err);
    struct bytes body = m->operation[m->which - OPERATION_APPEND];
    const struct wire_message *table = operation_table(m->which);
    if (table == NULL) {
        t->raw = body;
        return PENNON_OK;
    }
    TRY_RETURN(wire_decode(table, body, &t->arena, &t->op, err));
    if (t->which == OPERATION_REWRITE) return renew_rewrite(t, err);
    if (t->which == OPERATION_UPDATE_CONFIG) return renew_config(t, err);
    return PENNON_OK;
}

pennon_status transaction_decode(struct mem *m, struct bytes in, struct transaction **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct transaction *t = NULL;
    struct transaction_message message;
    uint8_t *copy;
    CHECK_FILE(in.size > 0, "transaction: no bytes");
    TRY_NEW(t, blank(m, err));
    TRY_NEW(copy, arena_alloc(&t->arena, in.size, err));
    memcpy(copy, in.data, in.size);
    TRY(wire_decode(&transaction_table, bytes_of(copy, in.size), &t->arena, &message, err));
    t->read_version = message.read_version;
    t->tag = message.tag;
    t->properties = message.properties;
    t->n_properties = message.n_properties;
    t->unknown = message.unknown;
    TRY(read_uuid(t, message.uuid, err));
    TRY(read_operation(t, &message, err));
    *out = t;
    t = NULL;
done:
    transaction_free(t);
    return st;
}

pennon_status transaction_encode(const struct transaction *t, struct buf *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf body;
    const struct wire_message *table = operation_table(t->which);
    struct transaction_message m = {.read_version = t->read_version,
                                    .uuid = bytes_str(t->uuid),
                                    .tag = t->tag,
                                    .properties = t->properties,
                                    .n_properties = t->n_properties,
                                    .unknown = t->unknown};
    buf_init(&body, out->mem, BUF_NO_LIMIT);
    if (table != NULL) TRY(wire_encode(table, &t->op, &body, err));
    /* A newer operation stands in `unknown` already. */
    if (t->which < OPERATION_APPEND + OPERATION_COUNT) {
        ASSERT(t->which >= OPERATION_APPEND);
        m.which = t->which;
        m.operation[t->which - OPERATION_APPEND] = table != NULL ? bytes_of(body.data, body.size) : t->raw;
    }
    TRY(wire_encode(&transaction_table, &m, out, err));
done:
    buf_free(&body);
    return st;
}

pennon_status transaction_copy(const struct transaction *t, struct transaction **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf bytes;
    buf_init(&bytes, t->mem, BUF_NO_LIMIT);
    TRY(transaction_encode(t, &bytes, err));
    TRY(transaction_decode(t->mem, bytes_of(bytes.data, bytes.size), out, err));
    (*out)->reuse_index = t->reuse_index;
done:
    buf_free(&bytes);
    return st;
}

pennon_status transaction_batch(struct mem *m, const struct transaction *const *parts, size_t n, struct transaction **out,
                                pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct transaction *all = NULL;
    struct append_message *append;
    size_t total = 0;
    uint64_t read_version = UINT64_MAX;
    if (n == 0) FAIL(PENNON_INVALID_ARGUMENT, "a batch of no transactions");
    for (size_t i = 0; i < n; i++) {
        if (parts[i]->which != OPERATION_APPEND) {
            FAIL(PENNON_INVALID_ARGUMENT, "transaction %zu of the batch is of the kind %s; only Append can be batched", i,
                 operation_name(parts[i]->which));
        }
        if (size_add_overflows(total, parts[i]->op.append.n_fragments, &total)) total = SIZE_MAX;
        read_version = min_u64(read_version, parts[i]->read_version);
    }
    TRY(transaction_new(m, OPERATION_APPEND, read_version, &all, err));
    append = &all->op.append;
    TRY_NEW(append->fragments, arena_calloc(&all->arena, total, sizeof *append->fragments, err));
    for (size_t i = 0; i < n; i++) {
        const struct append_message *part = &parts[i]->op.append;
        if (part->n_fragments == 0) continue;
        memcpy(append->fragments + append->n_fragments, part->fragments, part->n_fragments * sizeof *part->fragments);
        append->n_fragments += part->n_fragments;
    }
    ASSERT(append->n_fragments == total);
    /* What the fragments point to belongs to the parts until it is copied. */
    TRY(transaction_copy(all, out, err));
done:
    transaction_free(all);
    return st;
}

/* ---- of a version ---- */

/* The bytes of the file that the manifest names; `file` NULL = there is none. */
static pennon_status read_file(const struct call *c, const struct snapshot *s, struct block **file, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    char *name = NULL, *path = NULL;
    struct bytes given = s->manifest.transaction_file;
    bool plain = memchr(given.data, 0, given.size) == NULL && memchr(given.data, '/', given.size) == NULL;
    CHECK_FILE(plain, "manifest: the name of its transaction file is no plain name");
    TRY_NEW(name, mem_strndup(c->mem, (const char *)given.data, given.size, err));
    TRY_NEW(path, mem_printf(c->mem, err, "%s%s_transactions/%s", s->at.path, s->at.path[0] != '\0' ? "/" : "", name));
    st = store_get(c, s->at.store, path, MANIFEST_MAX, file, err);
    if (st == PENNON_NOT_FOUND) st = PENNON_OK;
done:
    mem_free(c->mem, name);
    mem_free(c->mem, path);
    return st;
}

pennon_status snapshot_transaction(const struct call *c, const struct snapshot *s, struct transaction **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct block *file = NULL;
    struct bytes in;
    *out = NULL;
    TRY(snapshot_section(c, s, SECTION_TRANSACTION, &in, err));
    if (in.size == 0 && s->manifest.transaction_file.size > 0) {
        TRY(read_file(c, s, &file, err));
        if (file != NULL) in = bytes_of(file->data, file->size);
    }
    if (in.size > 0) st = transaction_decode(c->mem, in, out, err);
done:
    block_release(file);
    return st;
}
