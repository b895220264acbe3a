/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The list of indices of a new manifest.
 *
 * The section is carried byte for byte until an operation changes it; then it is decoded, changed and encoded again, with what this library does not know.
 * An entry is a segment; segments of one name are one index. A bitmap names the fragments that a segment covers; it may name fragments that are gone, so the
 * effective one is its intersection with those that are there.
 *
 * retained (Delete, Update, Merge, Project):
 *   an entry of a field that is gone        goes; entries of the system stay
 *   one segment                             stays, unless it is an empty vector index
 *   several, some of them not empty         the ones that are not empty stay
 *   several, all empty                      the one with the least dataset_version stays, unless it is a vector index
 *
 * Source: spec commits 3.1, 3.5, 3.6, 3.10, 3.11, table-format 15. */
#include "table/commit_private.h"

#define VECTOR_DETAILS "VectorIndexDetails"
#define WAL_TYPE "/lance.table.MemWalIndexDetails"

pennon_status indices_load(struct building *b, pennon_error *err)
{
    if (b->has_indices) return PENNON_OK;
    b->indices = (struct index_section_message){0};
    if (b->index_section.size > 0) TRY_RETURN(wire_decode(&index_section_table, b->index_section, &b->arena, &b->indices, err));
    b->has_indices = true;
    /* After a deferred rewrite an entry names fragments that are gone, and covers those that they became. */
    return reuse_follow_all(b->call, b->source, &b->indices, &b->arena, &b->indices_changed, err);
}

pennon_status index_section_encode(struct building *b, struct bytes *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf text;
    *out = b->index_section;
    if (!b->indices_changed) return PENNON_OK;
    ASSERT(b->has_indices);
    buf_init(&text, b->call->mem, BUF_NO_LIMIT);
    TRY(wire_encode(&index_section_table, &b->indices, &text, err));
    TRY(building_keep(b, &text, out, err));
done:
    buf_free(&text);
    return st;
}

/* ---- entries ---- */

static bool details_are(const struct index_metadata_message *m, const char *suffix)
{
    const size_t n = strlen(suffix);
    return m->index_details != NULL && m->index_details->type_url.size >= n &&
           memcmp(m->index_details->type_url.data + m->index_details->type_url.size - n, suffix, n) == 0;
}

/* Results of these are addresses of rows, also where rows have stable ids: they cannot follow rows that move. */
static bool holds_addresses(const struct index_metadata_message *m)
{
    static const char *const kinds[] = {"ZoneMapIndexDetails", "BloomFilterIndexDetails", "FMIndexDetails", "FmIndexIndexDetails"};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (details_are(m, kinds[i])) return true;
    }
    return details_are(m, "BTreeIndexDetails") && m->has_index_version && m->index_version >= 1;
}

static bool same_uuid(const struct uuid_message *a, const struct uuid_message *b)
{
    return a != NULL && b != NULL && bytes_equal(a->uuid, b->uuid);
}

pennon_status index_set_bitmap(struct arena *a, const struct id_set *set, struct index_metadata_message *entry, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf text;
    uint8_t *copy;
    buf_init(&text, set->mem, BUF_NO_LIMIT);
    TRY(id_set_encode(set, &text, err));
    TRY_NEW(copy, arena_alloc(a, text.size, err));
    memcpy(copy, text.data, text.size);
    entry->fragment_bitmap = bytes_of(copy, text.size);
done:
    buf_free(&text);
    return st;
}

pennon_status index_entry_renew(struct arena *a, struct index_metadata_message *entry, pennon_error *err)
{
    uint8_t *id = arena_alloc(a, 16, err);
    struct uuid_message *uuid = arena_calloc(a, 1, sizeof *uuid, err);
    if (id == NULL || uuid == NULL) return err->code;
    TRY_RETURN(uuid_new(id, err));
    uuid->uuid = bytes_of(id, 16);
    entry->uuid = uuid;
    entry->has_created_at = true;
    entry->created_at = (uint64_t)(clock_wall_ns() / 1000000);
    return PENNON_OK;
}

/* Does the entry cover fragments that there are? */
static pennon_status is_empty(struct building *b, const struct index_metadata_message *m, bool *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct id_set set;
    id_set_init(&set, b->call->mem);
    *out = true;
    if (m->fragment_bitmap.size == 0) return PENNON_OK;
    TRY(id_set_parse(&set, m->fragment_bitmap, err));
    for (size_t i = 0; i < b->n && *out; i++) *out = !id_set_contains(&set, (uint32_t)b->list[i].id);
done:
    id_set_free(&set);
    return st;
}

/* ---- retention ---- */

enum { KEPT = 1, EMPTY = 2 };

static bool fields_live(const struct building *b, const struct index_metadata_message *m)
{
    for (size_t i = 0; i < m->n_fields; i++) {
        if (schema_find_id(b->schema, m->fields[i]) == NULL) return false;
    }
    return true;
}

/* Segments of the name of entry `first`, from there on: `marks` has KEPT for those that stay and EMPTY for those without fragments. */
static void settle_name(const struct building *b, size_t first, uint8_t *marks)
{
    const struct index_metadata_message *list = b->indices.indices;
    size_t full = 0, oldest = first;
    for (size_t i = first; i < b->indices.n_indices; i++) {
        if ((marks[i] & KEPT) == 0 || !bytes_equal(list[i].name, list[first].name)) continue;
        full += (marks[i] & EMPTY) == 0;
        if (list[i].dataset_version < list[oldest].dataset_version) oldest = i;
    }
    for (size_t i = first; i < b->indices.n_indices; i++) {
        if ((marks[i] & KEPT) == 0 || (marks[i] & EMPTY) == 0 || !bytes_equal(list[i].name, list[first].name)) continue;
        bool stays = full == 0 && i == oldest && !details_are(&list[i], VECTOR_DETAILS);
        if (!stays) marks[i] = 0;
    }
}

pennon_status indices_retain(struct building *b, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    uint8_t *marks = NULL;
    size_t kept = 0;
    TRY(indices_load(b, err));
    TRY_NEW(marks, mem_calloc(b->call->mem, b->indices.n_indices + 1, 1, err));
    for (size_t i = 0; i < b->indices.n_indices; i++) {
        bool empty;
        const struct index_metadata_message *m = &b->indices.indices[i];
        if (!index_is_system(m) && !fields_live(b, m)) continue;
        TRY(is_empty(b, m, &empty, err));
        marks[i] = empty ? KEPT | EMPTY : KEPT;
    }
    /* From the front: the first segment of a name settles all of them, and doing it again changes nothing. */
    for (size_t i = 0; i < b->indices.n_indices; i++) {
        if ((marks[i] & KEPT) != 0 && !bytes_equal(b->indices.indices[i].name, bytes_str(REUSE_INDEX))) settle_name(b, i, marks);
    }
    for (size_t i = 0; i < b->indices.n_indices; i++) {
        if ((marks[i] & KEPT) != 0) b->indices.indices[kept++] = b->indices.indices[i];
    }
    b->indices_changed = b->indices_changed || kept != b->indices.n_indices;
    b->indices.n_indices = kept;
done:
    mem_free(b->call->mem, marks);
    return st;
}

/* ---- CreateIndex ---- */

static bool has_uuid(const struct index_metadata_message *list, size_t n, const struct uuid_message *uuid)
{
    for (size_t i = 0; i < n; i++) {
        if (same_uuid(list[i].uuid, uuid)) return true;
    }
    return false;
}

/* The list without what `c` removes or brings itself, then what it brings. */
static pennon_status exchange(struct building *b, const struct index_metadata_message *removed, size_t n_removed,
                              const struct index_metadata_message *added, size_t n_added, pennon_error *err)
{
    struct index_section_message *x = &b->indices;
    size_t n = 0, total;
    if (size_add_overflows(x->n_indices, n_added, &total)) total = SIZE_MAX;
    struct index_metadata_message *list = arena_calloc(&b->arena, total, sizeof *list, err);
    if (list == NULL) return err->code;
    for (size_t i = 0; i < x->n_indices; i++) {
        const struct uuid_message *uuid = x->indices[i].uuid;
        if (!has_uuid(removed, n_removed, uuid) && !has_uuid(added, n_added, uuid)) list[n++] = x->indices[i];
    }
    if (n_added > 0) memcpy(list + n, added, n_added * sizeof *list);
    x->indices = list;
    x->n_indices = n + n_added;
    b->indices_changed = true;
    return PENNON_OK;
}

pennon_status indices_create(struct building *b, pennon_error *err)
{
    const struct create_index_message *c = &b->t->op.create_index;
    TRY_RETURN(indices_load(b, err));
    for (size_t i = 0; i < c->n_new_indices; i++) {
        if (index_is_system(&c->new_indices[i]) || fields_live(b, &c->new_indices[i])) continue;
        return error_set(err, PENNON_INVALID_ARGUMENT, "index '%.*s' is of a field that the table has not",
                         (int)min_u64(c->new_indices[i].name.size, 128), (const char *)c->new_indices[i].name.data);
    }
    return exchange(b, c->removed_indices, c->n_removed_indices, c->new_indices, c->n_new_indices, err);
}

/* ---- Rewrite ---- */

/* One group in one bitmap: all old fragments become the new ones, or none is there. With `drop` they only go. */
static pennon_status follow_group(const struct rewrite_group_message *g, bool drop, struct id_set *set, bool *changed,
                                  const struct index_metadata_message *entry, pennon_error *err)
{
    size_t inside = 0;
    for (size_t i = 0; i < g->n_old_fragments; i++) inside += id_set_contains(set, (uint32_t)g->old_fragments[i].id);
    if (inside == 0) return PENNON_OK;
    if (inside != g->n_old_fragments && !drop) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "index '%.*s' covers %zu of the %zu fragments that are rewritten together",
                         (int)min_u64(entry->name.size, 128), (const char *)entry->name.data, inside, g->n_old_fragments);
    }
    *changed = true;
    for (size_t i = 0; i < g->n_old_fragments; i++) TRY_RETURN(id_set_remove(set, (uint32_t)g->old_fragments[i].id, err));
    for (size_t i = 0; i < g->n_new_fragments && !drop; i++) TRY_RETURN(id_set_add(set, (uint32_t)g->new_fragments[i].id, err));
    return PENNON_OK;
}

static pennon_status follow(struct building *b, const struct rewrite_message *r, struct index_metadata_message *entry, bool drop,
                            pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct id_set set;
    bool changed = false;
    id_set_init(&set, b->call->mem);
    TRY(id_set_parse(&set, entry->fragment_bitmap, err));
    for (size_t g = 0; g < r->n_groups; g++) TRY(follow_group(&r->groups[g], drop, &set, &changed, entry, err));
    if (changed) TRY(index_set_bitmap(&b->arena, &set, entry, err));
    b->indices_changed = b->indices_changed || changed;
done:
    id_set_free(&set);
    return st;
}

static pennon_status take_rewritten(struct building *b, const struct rewrite_message *r, const struct rewritten_index_message *w,
                                    pennon_error *err)
{
    for (size_t i = 0; i < b->indices.n_indices; i++) {
        struct index_metadata_message *entry = &b->indices.indices[i];
        if (!same_uuid(entry->uuid, w->old_id)) continue;
        if (entry->fragment_bitmap.size == 0) {
            return error_set(err, PENNON_INVALID_ARGUMENT, "index '%.*s' was rewritten and does not say which fragments it covers",
                             (int)min_u64(entry->name.size, 128), (const char *)entry->name.data);
        }
        TRY_RETURN(follow(b, r, entry, false, err));
        entry->uuid = w->new_id;
        entry->files = w->new_index_files;
        entry->n_files = w->n_new_index_files;
        entry->has_base_id = false; /* the new files lie in the table */
        b->indices_changed = true;
    }
    return PENNON_OK;
}

static bool is_rewritten(const struct rewrite_message *r, const struct uuid_message *uuid)
{
    for (size_t i = 0; i < r->n_rewritten_indices; i++) {
        if (same_uuid(r->rewritten_indices[i].old_id, uuid)) return true;
    }
    return false;
}

pennon_status indices_rewrite(struct building *b, const struct rewrite_message *r, pennon_error *err)
{
    TRY_RETURN(indices_load(b, err));
    for (size_t i = 0; b->stable && i < b->indices.n_indices; i++) {
        struct index_metadata_message *entry = &b->indices.indices[i];
        if (entry->fragment_bitmap.size == 0 || index_is_system(entry) || is_rewritten(r, entry->uuid)) continue;
        TRY_RETURN(follow(b, r, entry, holds_addresses(entry), err));
    }
    for (size_t i = 0; i < r->n_rewritten_indices; i++) TRY_RETURN(take_rewritten(b, r, &r->rewritten_indices[i], err));
    if (b->t->reuse_index == NULL) return PENNON_OK;
    size_t n = 0;
    for (size_t i = 0; i < b->indices.n_indices; i++) {
        if (!bytes_equal(b->indices.indices[i].name, bytes_str(REUSE_INDEX))) b->indices.indices[n++] = b->indices.indices[i];
    }
    b->indices.n_indices = n;
    return exchange(b, NULL, 0, b->t->reuse_index, 1, err);
}

/* ---- columns that changed ---- */

static bool is_inside(const struct field *f, int32_t id)
{
    for (; f != NULL; f = f->parent) {
        if (f->id == id) return true;
    }
    return false;
}

/* Is the field one of the index's, or above or below one? */
static bool covers(const struct building *b, const struct index_metadata_message *m, uint32_t id)
{
    if (id > INT32_MAX) return false;
    const struct field *field = schema_find_id(b->schema, (int32_t)id);
    for (size_t i = 0; i < m->n_fields; i++) {
        if (m->fields[i] == (int32_t)id || is_inside(field, m->fields[i])) return true;
        if (is_inside(schema_find_id(b->schema, m->fields[i]), (int32_t)id)) return true;
    }
    return false;
}

static pennon_status take_out(struct building *b, struct index_metadata_message *entry, const struct id_list *fragments,
                              pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct id_set set;
    bool changed = false;
    id_set_init(&set, b->call->mem);
    TRY(id_set_parse(&set, entry->fragment_bitmap, err));
    for (size_t i = 0; i < fragments->n; i++) {
        if (fragments->ids[i] > UINT32_MAX || !id_set_contains(&set, (uint32_t)fragments->ids[i])) continue;
        TRY(id_set_remove(&set, (uint32_t)fragments->ids[i], err));
        changed = true;
    }
    if (changed) TRY(index_set_bitmap(&b->arena, &set, entry, err));
    b->indices_changed = b->indices_changed || changed;
done:
    id_set_free(&set);
    return st;
}

pennon_status indices_prune(struct building *b, const uint32_t *fields, size_t n_fields, const struct id_list *fragments,
                            pennon_error *err)
{
    if (n_fields == 0 || fragments->n == 0) return PENNON_OK;
    TRY_RETURN(indices_load(b, err));
    for (size_t i = 0; i < b->indices.n_indices; i++) {
        struct index_metadata_message *entry = &b->indices.indices[i];
        bool hit = false;
        for (size_t k = 0; k < n_fields && !hit; k++) hit = covers(b, entry, fields[k]);
        if (hit && entry->fragment_bitmap.size > 0) TRY_RETURN(take_out(b, entry, fragments, err));
    }
    return PENNON_OK;
}

pennon_status indices_prune_moved(struct building *b, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct id_list changed = {0}, gone = {0};
    struct mem *m = b->call->mem;
    for (size_t i = 0; i < b->n; i++) {
        const struct fragment *was = snapshot_find_fragment(b->current, b->list[i].id);
        if (was != NULL && !same_files(was->message, &b->list[i])) TRY(id_list_add(m, &changed, i, err));
    }
    if (changed.n == 0) goto done;
    TRY(indices_load(b, err));
    for (size_t x = 0; x < b->indices.n_indices; x++) {
        struct index_metadata_message *entry = &b->indices.indices[x];
        gone.n = 0;
        for (size_t i = 0; i < changed.n; i++) {
            const struct fragment_message *now = &b->list[changed.ids[i]];
            const struct fragment *was = snapshot_find_fragment(b->current, now->id);
            bool moved = false;
            for (size_t k = 0; k < entry->n_fields && !moved; k++)
                moved = field_moved(b->schema, entry->fields[k], was->message, now);
            if (moved) TRY(id_list_add(m, &gone, now->id, err));
        }
        if (gone.n > 0 && entry->fragment_bitmap.size > 0) TRY(take_out(b, entry, &gone, err));
    }
done:
    mem_free(m, changed.ids);
    mem_free(m, gone.ids);
    return st;
}

/* ---- rows that moved ---- */

static bool all_inside(const struct id_set *set, const struct update_message *u)
{
    for (size_t i = 0; i < u->n_removed_fragment_ids; i++) {
        if (u->removed_fragment_ids[i] > UINT32_MAX || !id_set_contains(set, (uint32_t)u->removed_fragment_ids[i])) return false;
    }
    for (size_t i = 0; i < u->n_updated_fragments; i++) {
        if (u->updated_fragments[i].id > UINT32_MAX || !id_set_contains(set, (uint32_t)u->updated_fragments[i].id)) return false;
    }
    return true;
}

pennon_status indices_follow(struct building *b, const struct update_message *u, const struct fragment_message *new_fragments,
                             size_t n, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct id_set set;
    id_set_init(&set, b->call->mem);
    /* Without old fragments nothing moved: all rows are inserted ones. */
    if (n == 0 || u->n_removed_fragment_ids + u->n_updated_fragments == 0) goto done;
    TRY(indices_load(b, err));
    for (size_t i = 0; i < b->indices.n_indices; i++) {
        struct index_metadata_message *entry = &b->indices.indices[i];
        bool preserved = true;
        for (size_t k = 0; k < u->n_fields_preserving && preserved; k++) preserved = !covers(b, entry, u->fields_preserving[k]);
        if (!preserved || entry->fragment_bitmap.size == 0 || index_is_system(entry) || holds_addresses(entry)) continue;
        id_set_free(&set);
        TRY(id_set_parse(&set, entry->fragment_bitmap, err));
        if (!all_inside(&set, u)) continue;
        for (size_t f = 0; f < n; f++) TRY(id_set_add(&set, (uint32_t)new_fragments[f].id, err));
        TRY(index_set_bitmap(&b->arena, &set, entry, err));
        b->indices_changed = true;
    }
done:
    id_set_free(&set);
    return st;
}

/* ---- MemWAL ---- */

static pennon_status merge_generation(struct arena *a, struct mem_wal_details_message *d, const struct merged_generation_message *g,
                                      pennon_error *err)
{
    for (size_t i = 0; i < d->n_merged_generations; i++) {
        struct merged_generation_message *old = &d->merged_generations[i];
        if (!same_uuid(old->shard_id, g->shard_id)) continue;
        old->generation = max_u64(old->generation, g->generation);
        return PENNON_OK;
    }
    struct merged_generation_message *list = arena_calloc(a, d->n_merged_generations + 1, sizeof *list, err);
    if (list == NULL) return err->code;
    if (d->n_merged_generations > 0) memcpy(list, d->merged_generations, d->n_merged_generations * sizeof *list);
    list[d->n_merged_generations++] = *g;
    d->merged_generations = list;
    return PENNON_OK;
}

pennon_status index_wal_entry(struct mem *m, struct arena *a, const struct index_metadata_message *old,
                              const struct merged_generation_message *list, size_t n, uint64_t version,
                              struct index_metadata_message *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct mem_wal_details_message details = {0};
    struct buf text;
    struct any_message *any;
    uint8_t *copy;
    buf_init(&text, m, BUF_NO_LIMIT);
    *out = (struct index_metadata_message){
        .name = bytes_str(MEM_WAL_INDEX), .dataset_version = version, .has_index_version = true, .index_version = 0};
    TRY(index_entry_renew(a, out, err));
    TRY_NEW(any, arena_calloc(a, 1, sizeof *any, err));
    any->type_url = bytes_str(WAL_TYPE);
    if (old != NULL && old->index_details != NULL) {
        any->type_url = old->index_details->type_url;
        TRY(wire_decode(&mem_wal_details_table, old->index_details->value, a, &details, err));
    }
    for (size_t i = 0; i < n; i++) TRY(merge_generation(a, &details, &list[i], err));
    TRY(wire_encode(&mem_wal_details_table, &details, &text, err));
    TRY_NEW(copy, arena_alloc(a, text.size, err));
    if (text.size > 0) memcpy(copy, text.data, text.size);
    any->value = bytes_of(copy, text.size);
    out->index_details = any;
done:
    buf_free(&text);
    return st;
}

pennon_status indices_merge_generations(struct building *b, const struct merged_generation_message *list, size_t n,
                                        pennon_error *err)
{
    struct index_metadata_message made;
    if (n == 0) return PENNON_OK;
    TRY_RETURN(indices_load(b, err));
    const struct index_metadata_message *old = index_find(b->indices.indices, b->indices.n_indices, MEM_WAL_INDEX);
    TRY_RETURN(index_wal_entry(b->call->mem, &b->arena, old, list, n, b->target, &made, err));
    size_t kept = 0;
    for (size_t i = 0; i < b->indices.n_indices; i++) {
        if (&b->indices.indices[i] != old) b->indices.indices[kept++] = b->indices.indices[i];
    }
    b->indices.n_indices = kept;
    return exchange(b, NULL, 0, &made, 1, err);
}

/* ---- clones ---- */

pennon_status indices_rebase(struct building *b, bool shallow, uint32_t base, pennon_error *err)
{
    TRY_RETURN(indices_load(b, err));
    for (size_t i = 0; i < b->indices.n_indices; i++) {
        struct index_metadata_message *entry = &b->indices.indices[i];
        /* One that lies in another base already stays there. */
        if (shallow && !entry->has_base_id) entry->base_id = base;
        if (!shallow) entry->base_id = 0;
        entry->has_base_id = shallow;
        b->indices_changed = true;
    }
    return PENNON_OK;
}
