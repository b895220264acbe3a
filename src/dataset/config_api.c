/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Config, table, schema and field metadata: read and changed; more base paths.
 *
 * A change is one transaction UpdateConfig with a map of updates for every map that it touches. Source: spec commits 3.10, 12, api-surface 14. */
#include "dataset/transaction_handle.h"
#include "table/message_json.h"

#define UPDATES_MAX 65536u

/* ---- read ---- */

static pennon_status find_field(const struct snapshot *s, const char *path, const struct field **out, pennon_error *err)
{
    if (!path || !path[0]) return error_set(err, PENNON_INVALID_ARGUMENT, "the path of the field is missing");
    return schema_find_path(s->schema, path, out, err);
}

/* The map, in the arena. */
static pennon_status metadata_of(const struct snapshot *s, int32_t which, const char *path, struct arena *a, struct map_entry **out,
                                 size_t *n, pennon_error *err)
{
    const struct field *f;
    const struct field_pair *pairs = s->schema->metadata;
    *n = s->schema->n_metadata;
    switch (which) {
    case PENNON_METADATA_CONFIG:
        *out = s->manifest.config;
        *n = s->manifest.n_config;
        return PENNON_OK;
    case PENNON_METADATA_TABLE:
        *out = s->manifest.table_metadata;
        *n = s->manifest.n_table_metadata;
        return PENNON_OK;
    case PENNON_METADATA_SCHEMA: break;
    case PENNON_METADATA_FIELD:
        TRY_RETURN(find_field(s, path, &f, err));
        pairs = f->metadata;
        *n = f->n_metadata;
        break;
    default: return error_set(err, PENNON_INVALID_ARGUMENT, "which %d is not one of the PENNON_METADATA_ values", which);
    }
    if (!(*out = arena_calloc(a, *n + 1, sizeof **out, err))) return err->code;
    for (size_t i = 0; i < *n; i++) (*out)[i] = (struct map_entry){.key = pairs[i].key, .value = pairs[i].value};
    return PENNON_OK;
}

/* The whole map as JSON into `out`, or the value of one key; *found says whether there is one. */
static pennon_status read_metadata(struct api *a, pennon_dataset *ds, int32_t which, const char *path, const char *key,
                                   struct buf *out, bool *found)
{
    pennon_error *err = a->err;
    pennon_status st = PENNON_OK;
    struct arena arena;
    struct snapshot *s;
    struct map_entry *map = NULL;
    size_t n = 0;
    arena_init(&arena, a->c.mem);
    dataset_get(ds, &s, NULL);
    *found = key == NULL;
    TRY(metadata_of(s, which, path, &arena, &map, &n, err));
    if (!key) TRY(message_json_put_map(map, n, out, err));
    for (size_t i = 0; key && i < n && !*found; i++) {
        if (!bytes_equal(map[i].key, bytes_str(key))) continue;
        *found = true;
        TRY(buf_append(out, map[i].value.data, map[i].value.size, err));
    }
done:
    snapshot_release(s);
    arena_reset(&arena);
    return st;
}

static pennon_status metadata_text(pennon_dataset *ds, int32_t which, const char *field, const char *key, char **out,
                                   pennon_error *err)
{
    struct api a;
    bool found = false;
    pennon_status st = api_begin(&a, NULL, ds, "dataset");
    if (st == PENNON_OK && !out) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "out is NULL");
    if (st == PENNON_OK) {
        struct buf b;
        buf_init(&b, a.c.mem, BUF_NO_LIMIT);
        *out = NULL;
        st = read_metadata(&a, ds, which, field, key, &b, &found);
        if (st == PENNON_OK && found) st = text_out(&b, out, a.err);
        buf_free(&b);
    }
    return api_end(&a, st, err);
}

pennon_status pennon_dataset_metadata_json(pennon_dataset *ds, int32_t which, const char *field, char **out, pennon_error *err)
{
    return metadata_text(ds, which, field, NULL, out, err);
}

pennon_status pennon_dataset_metadata_value(pennon_dataset *ds, int32_t which, const char *field, const char *key, char **out,
                                            pennon_error *err)
{
    return metadata_text(ds, which, field, key ? key : "", out, err);
}

/* ---- update ---- */

/* Append the pairs to the map; one that replaces begins anew. */
static pennon_status add_updates(struct arena *a, const pennon_metadata_update *u, struct update_map_message *map,
                                 pennon_error *err)
{
    size_t n = u->pairs ? u->pairs->n : 0, kept = u->replace ? 0 : map->n_entries;
    struct update_map_entry_message *list = arena_calloc(a, kept + n + 1, sizeof *list, err);
    if (!list) return err->code;
    if (kept) memcpy(list, map->entries, kept * sizeof *list);
    for (size_t i = 0; i < n; i++) {
        const char *key = u->pairs->keys[i], *value = u->pairs->values[i];
        if (!key) return error_set(err, PENNON_INVALID_ARGUMENT, "metadata key %zu is NULL", i);
        if (!value && u->replace) continue;
        struct update_map_entry_message *e = &list[kept++];
        e->key = bytes_str(key);
        e->has_value = value != NULL;
        if (value) e->value = bytes_str(value);
    }
    map->entries = list;
    map->n_entries = kept;
    map->replace = map->replace || u->replace;
    return PENNON_OK;
}

/* The map that an update goes to; made when it is first asked for. */
static pennon_status map_of(struct arena *a, const struct snapshot *s, const pennon_metadata_update *u,
                            struct update_config_message *op, struct update_map_message **out, pennon_error *err)
{
    struct update_map_message **at = NULL;
    const struct field *f;
    switch (u->which) {
    case PENNON_METADATA_CONFIG: at = &op->config_updates; break;
    case PENNON_METADATA_TABLE: at = &op->table_metadata_updates; break;
    case PENNON_METADATA_SCHEMA: at = &op->schema_metadata_updates; break;
    case PENNON_METADATA_FIELD:
        TRY_RETURN(find_field(s, u->field, &f, err));
        for (size_t i = 0; i < op->n_field_metadata_updates && !at; i++) {
            if (op->field_metadata_updates[i].key == f->id) at = &op->field_metadata_updates[i].value;
        }
        if (!at) { /* there is room for one an update */
            op->field_metadata_updates[op->n_field_metadata_updates].key = f->id;
            at = &op->field_metadata_updates[op->n_field_metadata_updates++].value;
        }
        break;
    default: return error_set(err, PENNON_INVALID_ARGUMENT, "which %d is not one of the PENNON_METADATA_ values", u->which);
    }
    if (!*at && !(*at = arena_calloc(a, 1, sizeof **at, err))) return err->code;
    *out = *at;
    return PENNON_OK;
}

static pennon_status build_update(const struct call *c, const struct snapshot *s, size_t n, const pennon_metadata_update *updates,
                                  struct transaction **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct transaction *t = NULL;
    struct arena a;
    struct update_config_message op = {0};
    arena_init(&a, c->mem);
    if (n == 0 || !updates) FAIL(PENNON_INVALID_ARGUMENT, "no metadata updates");
    if (n > UPDATES_MAX) FAIL(PENNON_INVALID_ARGUMENT, "%zu metadata updates, at most %u", n, UPDATES_MAX);
    TRY_NEW(op.field_metadata_updates, arena_calloc(&a, n, sizeof *op.field_metadata_updates, err));
    for (size_t i = 0; i < n; i++) {
        struct update_map_message *map = NULL;
        TRY(map_of(&a, s, &updates[i], &op, &map, err));
        TRY(add_updates(&a, &updates[i], map, err));
    }
    TRY(transaction_new(c->mem, OPERATION_UPDATE_CONFIG, s->version, &t, err));
    TRY(wire_copy(&update_config_table, &op, &t->arena, &t->op.config, err));
    *out = t;
    t = NULL;
done:
    transaction_free(t);
    arena_reset(&a);
    return st;
}

/* Commit a transaction that was built on the cell's version, and move the cell. Takes `t`. */
static pennon_status commit_built(const struct call *c, pennon_dataset *ds, struct transaction *t, const pennon_commit_options *o,
                                  pennon_error *err)
{
    struct snapshot *made = NULL;
    pennon_status st = transaction_set_pairs(t, o->properties, err);
    if (st == PENNON_OK) st = commit_to_dataset(c, ds, t, o, &made, err);
    if (st == PENNON_OK) dataset_move(ds, made);
    transaction_free(t);
    return st;
}

pennon_status pennon_dataset_update_metadata(pennon_dataset *ds, size_t n, const pennon_metadata_update *updates,
                                             const pennon_commit_options *options, pennon_error *err)
{
    struct api a;
    pennon_commit_options o;
    struct transaction *t = NULL;
    pennon_status st = commit_api_begin(&a, options, &o, ds);
    if (st == PENNON_OK) {
        struct snapshot *s;
        dataset_get(ds, &s, NULL);
        st = build_update(&a.c, s, n, updates, &t, a.err);
        snapshot_release(s);
    }
    if (st == PENNON_OK) st = commit_built(&a.c, ds, t, &o, a.err);
    return api_end(&a, st, err);
}

/* ---- bases ---- */

static pennon_status build_bases(const struct call *c, uint64_t version, const pennon_bases *bases, struct transaction **out,
                                 pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct transaction *t = NULL;
    TRY(transaction_new(c->mem, OPERATION_UPDATE_BASES, version, &t, err));
    TRY(write_bases_read(c, bases, false, &t->arena, &t->op.bases.new_bases, &t->op.bases.n_new_bases, err));
    *out = t;
    t = NULL;
done:
    transaction_free(t);
    return st;
}

pennon_status pennon_dataset_add_bases(pennon_dataset *ds, const pennon_bases *bases, const pennon_commit_options *options,
                                       pennon_error *err)
{
    struct api a;
    pennon_commit_options o;
    struct transaction *t = NULL;
    pennon_status st = commit_api_begin(&a, options, &o, ds);
    if (st == PENNON_OK) st = build_bases(&a.c, pennon_dataset_version(ds), bases, &t, a.err);
    if (st == PENNON_OK) st = commit_built(&a.c, ds, t, &o, a.err);
    return api_end(&a, st, err);
}
