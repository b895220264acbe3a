/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The four maps of a table: config, table metadata, schema metadata, metadata of fields.
 *
 * An update map sets the keys that have a value and deletes the others; with `replace` the map becomes the keys that have a value. Of equal keys the last
 * one counts. Maps are written in the order of their keys.
 *
 * Some metadata of a field say that it belongs to the primary or the clustering key of the table; they are written into the field itself as well. A key is
 * set once: then nobody may write these metadata, and no change may alter which fields belong to it. Looked at on every attempt, so that of two
 * writers that set it first, the second fails.
 * Source: spec commits 12, 3.4. */
#include <stdlib.h>

#include "table/commit_private.h"

#define KEY_PRIMARY "lance-schema:unenforced-primary-key"
#define KEY_PRIMARY_POSITION "lance-schema:unenforced-primary-key:position"
#define KEY_CLUSTERING_POSITION "lance-schema:unenforced-clustering-key:position"

/* ---- maps ---- */

/* A key with the place that it had among all of them. */
struct item {
    struct map_entry entry;
    bool has_value;
    size_t order;
};

static int compare_items(const void *x, const void *y)
{
    const struct item *a = x, *b = y;
    const size_t n = min_u64(a->entry.key.size, b->entry.key.size);
    int c = n > 0 ? memcmp(a->entry.key.data, b->entry.key.data, n) : 0;
    if (c != 0) return c;
    if (a->entry.key.size != b->entry.key.size) return a->entry.key.size < b->entry.key.size ? -1 : 1;
    return (a->order > b->order) - (a->order < b->order);
}

/* *map becomes a new list in the arena. */
static pennon_status apply_map(struct building *b, const struct update_map_message *u, struct map_entry **map, size_t *n,
                               pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct item *items = NULL;
    const size_t n_old = u->replace ? 0 : *n;
    size_t total, kept = 0;
    struct map_entry *list;
    if (size_add_overflows(n_old, u->n_entries, &total)) total = SIZE_MAX;
    TRY_NEW(items, mem_calloc(b->call->mem, total, sizeof *items, err));
    TRY_NEW(list, arena_calloc(&b->arena, total, sizeof *list, err));
    for (size_t i = 0; i < n_old; i++) items[i] = (struct item){(*map)[i], true, i};
    for (size_t i = 0; i < u->n_entries; i++) {
        const struct update_map_entry_message *e = &u->entries[i];
        items[n_old + i] = (struct item){{.key = e->key, .value = e->value}, e->has_value, n_old + i};
    }
    if (total > 0) qsort(items, total, sizeof *items, compare_items);
    for (size_t i = 0; i < total; i++) {
        bool last = i + 1 == total || !bytes_equal(items[i].entry.key, items[i + 1].entry.key);
        if (last && items[i].has_value) list[kept++] = items[i].entry;
    }
    *map = list;
    *n = kept;
done:
    mem_free(b->call->mem, items);
    return st;
}

pennon_status config_upsert(struct building *b, const struct map_entry *set, size_t n, pennon_error *err)
{
    struct update_map_message u = {.n_entries = n};
    if (n == 0) return PENNON_OK;
    u.entries = arena_calloc(&b->arena, n, sizeof *u.entries, err);
    if (u.entries == NULL) return err->code;
    for (size_t i = 0; i < n; i++)
        u.entries[i] = (struct update_map_entry_message){.key = set[i].key, .has_value = true, .value = set[i].value};
    return apply_map(b, &u, &b->out.config, &b->out.n_config, err);
}

/* ---- keys of the table ---- */

static bool is_key(struct bytes key, const char *name) { return bytes_equal(key, bytes_str(name)); }
static bool is_primary(struct bytes key) { return is_key(key, KEY_PRIMARY) || is_key(key, KEY_PRIMARY_POSITION); }
static bool is_clustering(struct bytes key) { return is_key(key, KEY_CLUSTERING_POSITION); }

static struct bytes find(const struct field_message *f, const char *key)
{
    for (size_t i = 0; i < f->n_metadata; i++) {
        if (is_key(f->metadata[i].key, key)) return f->metadata[i].value;
    }
    return bytes_of(NULL, 0);
}

static bool says_yes(struct bytes text)
{
    static const char *const words[] = {"true", "1", "yes"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        bool same = text.size == strlen(words[i]);
        for (size_t k = 0; same && k < text.size; k++) {
            uint8_t c = text.data[k];
            same = (c >= 'A' && c <= 'Z' ? c + 32 : c) == words[i][k];
        }
        if (same) return true;
    }
    return false;
}

static bool parse_position(struct bytes text, uint32_t *out)
{
    uint64_t v = 0;
    if (text.size == 0 || text.size > 10) return false;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return false;
        v = v * 10 + (uint64_t)(text.data[i] - '0');
    }
    *out = (uint32_t)v;
    return v <= UINT32_MAX;
}

/* What the metadata say about keys, into the field itself. */
static void read_keys(struct field_message *f)
{
    uint32_t position = 0;
    f->unenforced_primary_key = parse_position(find(f, KEY_PRIMARY_POSITION), &position);
    f->unenforced_primary_key_position = f->unenforced_primary_key ? position : 0;
    f->unenforced_primary_key = f->unenforced_primary_key || says_yes(find(f, KEY_PRIMARY));
    f->unenforced_clustering_key = parse_position(find(f, KEY_CLUSTERING_POSITION), &position);
    f->unenforced_clustering_key_position = f->unenforced_clustering_key ? position : 0;
}

static bool in_primary(const struct field_message *f)
{
    return f->unenforced_primary_key || f->unenforced_primary_key_position > 0;
}
static bool in_clustering(const struct field_message *f)
{
    return f->unenforced_clustering_key || f->unenforced_clustering_key_position > 0;
}

/* One of the two keys, before and after. */
struct key_kind {
    const char *name;
    bool (*in)(const struct field_message *f);
    bool (*reserved)(struct bytes key);
};
static const struct key_kind KINDS[] = {{"primary", in_primary, is_primary}, {"clustering", in_clustering, is_clustering}};

static bool writes_key(const struct update_config_message *c, const struct key_kind *kind)
{
    for (size_t i = 0; i < c->n_field_metadata_updates; i++) {
        const struct update_map_message *u = c->field_metadata_updates[i].value;
        for (size_t k = 0; u != NULL && k < u->n_entries; k++) {
            if (kind->reserved(u->entries[k].key)) return true;
        }
    }
    return false;
}

static bool has_key(const struct field_message *fields, size_t n, const struct key_kind *kind)
{
    for (size_t i = 0; i < n; i++) {
        if (kind->in(&fields[i])) return true;
    }
    return false;
}

static bool same_key(const struct field_message *a, const struct field_message *b, size_t n, const struct key_kind *kind)
{
    for (size_t i = 0; i < n; i++) {
        if (kind->in(&a[i]) != kind->in(&b[i])) return false;
        if (kind->in == in_primary && a[i].unenforced_primary_key_position != b[i].unenforced_primary_key_position) return false;
        if (kind->in == in_clustering && a[i].unenforced_clustering_key_position != b[i].unenforced_clustering_key_position)
            return false;
    }
    return true;
}

static pennon_status check_key(const struct update_config_message *c, const struct field_message *before,
                               const struct field_message *after, size_t n, const struct key_kind *kind, pennon_error *err)
{
    const bool had = has_key(before, n, kind), written = writes_key(c, kind);
    if (had && (written || !same_key(before, after, n, kind))) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "the %s key of the table is a reserved key and cannot be changed once set",
                         kind->name);
    }
    if (written && !has_key(after, n, kind))
        return error_set(err, PENNON_INVALID_ARGUMENT, "the metadata of the %s key do not make a key", kind->name);
    return PENNON_OK;
}

/* ---- UpdateConfig ---- */

static pennon_status apply_fields(struct building *b, const struct update_config_message *c, pennon_error *err)
{
    const struct field_message *before = b->out.fields;
    const size_t n = b->out.n_fields;
    if (c->n_field_metadata_updates == 0) return PENNON_OK;
    struct field_message *fields = arena_calloc(&b->arena, n, sizeof *fields, err);
    if (fields == NULL) return err->code;
    if (n > 0) memcpy(fields, before, n * sizeof *fields);
    for (size_t i = 0; i < c->n_field_metadata_updates; i++) {
        const struct field_update_message *u = &c->field_metadata_updates[i];
        const struct update_map_message nothing = {0}, *map = u->value != NULL ? u->value : &nothing;
        size_t at = 0;
        while (at < n && fields[at].id != u->key) at++;
        if (at == n) return error_set(err, PENNON_INVALID_ARGUMENT, "the table has no field with the id %" PRId32, u->key);
        TRY_RETURN(apply_map(b, map, &fields[at].metadata, &fields[at].n_metadata, err));
        /* Fields of old tables have the attribute without metadata: only what is written counts. */
        bool touches = map->replace;
        for (size_t k = 0; k < map->n_entries; k++)
            touches = touches || is_primary(map->entries[k].key) || is_clustering(map->entries[k].key);
        if (touches) read_keys(&fields[at]);
    }
    for (size_t k = 0; k < ARRAY_LEN(KINDS); k++) TRY_RETURN(check_key(c, before, fields, n, &KINDS[k], err));
    b->out.fields = fields;
    return PENNON_OK;
}

pennon_status config_apply(struct building *b, const struct update_config_message *c, pennon_error *err)
{
    struct manifest_message *m = &b->out;
    if (c->config_updates != NULL) TRY_RETURN(apply_map(b, c->config_updates, &m->config, &m->n_config, err));
    if (c->table_metadata_updates != NULL)
        TRY_RETURN(apply_map(b, c->table_metadata_updates, &m->table_metadata, &m->n_table_metadata, err));
    if (c->schema_metadata_updates != NULL)
        TRY_RETURN(apply_map(b, c->schema_metadata_updates, &m->schema_metadata, &m->n_schema_metadata, err));
    return apply_fields(b, c, err);
}
