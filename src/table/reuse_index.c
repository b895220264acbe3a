/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The fragment reuse index: for every rewrite that left the indices as they were, which rows moved from where to where.
 *
 *   details            FragmentReuseIndexDetails: the content, or over 204800 bytes its place _indices/{uuid}/details.binpb
 *   content            a version for each rewrite, in their order: the table's version then, groups
 *   group              addresses of the rows that lived (treemap), what the fragments were before and are now
 *
 * The k-th address of a group is now the k-th row of its new fragments; every other row of the old ones is gone.
 * Source: spec commits 9.5. */
#include "table/reuse_index.h"

#include "table/commit_private.h"

#define REUSE_INLINE_MAX 204800u
#define REUSE_FILE_NAME "details.binpb"
#define REUSE_TYPE "/lance.table.FragmentReuseIndexDetails"

/* ---- reading ---- */

/* {base}/_indices/{uuid}/{name}; the base is the table itself or the one that the entry names. */
static pennon_status reuse_file(const struct call *c, struct snapshot *s, const struct index_metadata_message *entry,
                                const struct external_file_message *m, pennon_store **store, char **path, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    char *base = NULL, uuid[37];
    uint32_t index = entry->has_base_id ? snapshot_find_base(s, entry->base_id) : NO_BASE;
    CHECK_FILE(!entry->has_base_id || index != NO_BASE, "index entry: the base id %u, which no base path has", entry->base_id);
    CHECK_FILE(bytes_equal(m->path, bytes_str(REUSE_FILE_NAME)), "index entry: details in a file that is not %s", REUSE_FILE_NAME);
    CHECK_FILE(entry->uuid != NULL && entry->uuid->uuid.size == 16, "index entry: no uuid");
    TRY(base_locate(c, s, index, store, &base, err));
    uuid_text(entry->uuid->uuid.data, uuid);
    TRY_NEW(*path, mem_printf(c->mem, err, "%s%s_indices/%s/%s", base, base[0] != '\0' ? "/" : "", uuid, REUSE_FILE_NAME));
done:
    mem_free(c->mem, base);
    return st;
}

static pennon_status load_external(const struct call *c, struct snapshot *s, const struct index_metadata_message *entry,
                                   const struct external_file_message *m, struct arena *a, struct reuse_content_message *out,
                                   pennon_error *err)
{
    pennon_status st = PENNON_OK;
    pennon_store *store = NULL;
    char *path = NULL;
    uint8_t *bytes;
    pennon_object_info info;
    TRY(reuse_file(c, s, entry, m, &store, &path, err));
    TRY(store_head(c, store, path, &info, err));
    CHECK_FILE(range_inside(m->offset, m->size, info.size), "'%s' has %" PRIu64 " bytes, fewer than the index entry says", path,
               info.size);
    TRY_NEW(bytes, arena_alloc(a, (size_t)m->size, err));
    pennon_range range = {m->offset, m->size, bytes};
    if (m->size > 0) TRY(store_read_ranges(c, store, path, 1, &range, err));
    TRY(wire_decode(&reuse_content_table, bytes_of(bytes, (size_t)m->size), a, out, err));
done:
    pennon_store_free(store);
    mem_free(c->mem, path);
    return st;
}

pennon_status reuse_content_load(const struct call *c, struct snapshot *s, const struct index_metadata_message *entry,
                                 struct arena *a, struct reuse_content_message *out, pennon_error *err)
{
    struct reuse_details_message details;
    *out = (struct reuse_content_message){0};
    if (entry->index_details == NULL) return PENNON_OK;
    /* The bytes of an entry may go away before what is decoded from them. */
    struct bytes value = entry->index_details->value;
    uint8_t *copy = arena_alloc(a, value.size, err);
    if (copy == NULL) return err->code;
    if (value.size > 0) memcpy(copy, value.data, value.size);
    TRY_RETURN(wire_decode(&reuse_details_table, bytes_of(copy, value.size), a, &details, err));
    if (details.which == 1 && details.content != NULL) *out = *details.content;
    if (details.which == 2 && details.external != NULL) return load_external(c, s, entry, details.external, a, out, err);
    return PENNON_OK;
}

/* ---- bitmaps ---- */

static bool all_inside(const struct reuse_group_message *g, const struct id_set *set)
{
    for (size_t i = 0; i < g->n_old_fragments; i++) {
        if (g->old_fragments[i].id > UINT32_MAX || !id_set_contains(set, (uint32_t)g->old_fragments[i].id)) return false;
    }
    return g->n_old_fragments > 0;
}

pennon_status reuse_follow(const struct reuse_content_message *content, struct id_set *set, bool *changed, pennon_error *err)
{
    for (size_t v = 0; v < content->n_versions; v++) {
        for (size_t k = 0; k < content->versions[v].n_groups; k++) {
            const struct reuse_group_message *g = &content->versions[v].groups[k];
            if (!all_inside(g, set)) continue;
            *changed = true;
            for (size_t i = 0; i < g->n_old_fragments; i++) TRY_RETURN(id_set_remove(set, (uint32_t)g->old_fragments[i].id, err));
            for (size_t i = 0; i < g->n_new_fragments; i++) {
                CHECK_FILE_RETURN(g->new_fragments[i].id < UINT32_MAX, "reuse index: the fragment id %" PRIu64,
                                  g->new_fragments[i].id);
                TRY_RETURN(id_set_add(set, (uint32_t)g->new_fragments[i].id, err));
            }
        }
    }
    return PENNON_OK;
}

static pennon_status follow_entry(struct mem *m, const struct reuse_content_message *content, struct index_metadata_message *entry,
                                  struct arena *a, bool *changed, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct id_set set;
    bool moved = false;
    if (index_is_system(entry) || entry->fragment_bitmap.size == 0) return PENNON_OK;
    id_set_init(&set, m);
    TRY(id_set_parse(&set, entry->fragment_bitmap, err));
    TRY(reuse_follow(content, &set, &moved, err));
    if (moved) TRY(index_set_bitmap(a, &set, entry, err));
    *changed = *changed || moved;
done:
    id_set_free(&set);
    return st;
}

pennon_status reuse_follow_all(const struct call *c, struct snapshot *s, struct index_section_message *list, struct arena *a,
                               bool *changed, pennon_error *err)
{
    struct reuse_content_message content;
    const struct index_metadata_message *reuse = index_find(list->indices, list->n_indices, REUSE_INDEX);
    if (reuse == NULL || s == NULL) return PENNON_OK;
    TRY_RETURN(reuse_content_load(c, s, reuse, a, &content, err));
    for (size_t i = 0; i < list->n_indices; i++) TRY_RETURN(follow_entry(c->mem, &content, &list->indices[i], a, changed, err));
    return PENNON_OK;
}

/* ---- writing ---- */

/* The ids of the new fragments of the versions from `from` on. */
static pennon_status reuse_bitmap(struct mem *m, struct arena *a, const struct reuse_content_message *content, size_t from,
                                  struct index_metadata_message *entry, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct id_set set;
    id_set_init(&set, m);
    for (size_t v = from; v < content->n_versions; v++) {
        for (size_t g = 0; g < content->versions[v].n_groups; g++) {
            const struct reuse_group_message *group = &content->versions[v].groups[g];
            for (size_t i = 0; i < group->n_new_fragments; i++) {
                CHECK_FILE(group->new_fragments[i].id < UINT32_MAX, "reuse index: the fragment id %" PRIu64,
                           group->new_fragments[i].id);
                TRY(id_set_add(&set, (uint32_t)group->new_fragments[i].id, err));
            }
        }
    }
    TRY(index_set_bitmap(a, &set, entry, err));
done:
    id_set_free(&set);
    return st;
}

/* Large content goes into a file. */
static pennon_status put_file(const struct call *c, struct snapshot *s, const struct index_metadata_message *entry,
                              struct bytes content, char **path, pennon_error *err)
{
    char uuid[37];
    const uint32_t sync = c->durability == PENNON_DURABILITY_FULL ? PENNON_PUT_SYNC : 0;
    uuid_text(entry->uuid->uuid.data, uuid);
    *path = mem_printf(c->mem, err, "%s%s_indices/%s/%s", s->at.path, s->at.path[0] != '\0' ? "/" : "", uuid, REUSE_FILE_NAME);
    if (*path == NULL) return err->code;
    return store_put(c, s->at.store, *path, content, PENNON_PUT_OVERWRITE | sync, err);
}

pennon_status reuse_entry_make(const struct call *c, struct snapshot *s, struct reuse_content_message *content, size_t from,
                               struct arena *a, struct index_metadata_message *entry, char **path, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf inner, outer;
    struct reuse_details_message details = {.which = 1, .content = content};
    struct external_file_message external = {.path = bytes_str(REUSE_FILE_NAME)};
    struct any_message *any;
    uint8_t *copy;
    *path = NULL;
    buf_init(&inner, c->mem, BUF_NO_LIMIT);
    buf_init(&outer, c->mem, BUF_NO_LIMIT);
    TRY(index_entry_renew(a, entry, err));
    entry->dataset_version = s->version;
    entry->has_base_id = false;
    TRY(reuse_bitmap(c->mem, a, content, from, entry, err));
    TRY(wire_encode(&reuse_content_table, content, &inner, err));
    if (inner.size > REUSE_INLINE_MAX) {
        TRY(put_file(c, s, entry, bytes_of(inner.data, inner.size), path, err));
        external.size = inner.size;
        details = (struct reuse_details_message){.which = 2, .external = &external};
    }
    TRY(wire_encode(&reuse_details_table, &details, &outer, err));
    TRY_NEW(any, arena_calloc(a, 1, sizeof *any, err));
    TRY_NEW(copy, arena_alloc(a, outer.size, err));
    if (outer.size > 0) memcpy(copy, outer.data, outer.size);
    *any = (struct any_message){.type_url = bytes_str(REUSE_TYPE), .value = bytes_of(copy, outer.size)};
    entry->index_details = any;
done:
    buf_free(&inner);
    buf_free(&outer);
    return st;
}
