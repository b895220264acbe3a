/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What the manifest of a clone says of bases, fragments and indices, and which files a deep clone copies.
 *
 *              | shallow                                              | deep
 * -------------|------------------------------------------------------|-----------------------------------------------------------
 * base paths   | the source's and the source itself, whose id is the  | none; of a table with v2 blobs those that are no tables stay: external
 *              | highest + 1, or 0                                    | blobs are told by their ids
 * data file    | without a base: the source                           | data/{new name}
 * blob files   | beside the data file                                 | data/{new stem}/
 * deletions    | without a base: the source                           | _deletions/{fragment}-{read version}-{new id}
 * index        | without a base: the source                           | _indices/{uuid}/
 *
 * Copies have new names. Files out of several bases cannot meet under one name then, and of two clones into one place that run at once the one that is
 * late removes nothing of the other's. (Official keeps the names.) An index keeps its uuid, which its files may know.
 * Bases of a branch that are relative, or stale because the table was moved, get the place where they are now.
 * Source: spec commits 10.5, 10.6, table-format 17. */
#include "table/clone_private.h"

#define OVERLAYS_TAG 11u

/* ---- bases ---- */

/* Where a base of the source is now; a place that the source may not use, or that is nowhere, stays as it is noted. */
static pennon_status settle_base(struct cloning *k, struct base_path_message *b, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    pennon_store *store = NULL;
    char *path = NULL, *uri = NULL, *kept;
    uint32_t index = snapshot_find_base(k->source, b->id);
    if (!b->is_dataset_root || k->source->at.branch == NULL || index == NO_BASE) return PENNON_OK;
    st = base_locate(k->c, k->source, index, &store, &path, err);
    if (st == PENNON_INVALID_ARGUMENT || st == PENNON_CORRUPT || st == PENNON_NOT_SUPPORTED) {
        pennon_error_clear(err);
        return PENNON_OK;
    }
    if (st != PENNON_OK) goto done;
    TRY_NEW(uri, store_uri(k->c->mem, store, path, err));
    TRY_NEW(kept, arena_strndup(&k->arena, uri, strlen(uri), err));
    b->path = bytes_str(kept);
done:
    pennon_store_free(store);
    mem_free(k->c->mem, path);
    mem_free(k->c->mem, uri);
    return st;
}

/* An id that no base has: as official counts. */
static pennon_status choose_base_id(struct cloning *k, pennon_error *err)
{
    k->base_id = 0;
    for (size_t i = 0; i < k->out.n_base_paths; i++) {
        if (k->out.base_paths[i].id == UINT32_MAX)
            return error_set(err, PENNON_NOT_SUPPORTED, "a clone of a table whose base paths use up the ids");
        if (k->out.base_paths[i].id >= k->base_id) k->base_id = k->out.base_paths[i].id + 1;
    }
    return PENNON_OK;
}

static pennon_status shallow_bases(struct cloning *k, pennon_error *err)
{
    const struct snapshot *s = k->source;
    size_t n = k->out.n_base_paths;
    struct base_path_message *list = arena_calloc(&k->arena, n + 1, sizeof *list, err);
    if (list == NULL) return err->code;
    if (n > 0) memcpy(list, k->out.base_paths, n * sizeof *list);
    k->out.base_paths = list;
    for (size_t i = 0; i < n; i++) TRY_RETURN(settle_base(k, &list[i], err));
    TRY_RETURN(choose_base_id(k, err));
    list[n] = (struct base_path_message){.id = k->base_id, .is_dataset_root = true, .path = bytes_str(s->at.uri)};
    if (s->at.branch != NULL) {
        list[n].has_name = true;
        list[n].name = bytes_str(s->at.branch);
    }
    k->out.n_base_paths = n + 1;
    k->stamp_base = true;
    return PENNON_OK;
}

static bool has_blob_v2(const struct schema *s)
{
    for (size_t i = 0; i < s->n_all; i++) {
        if (s->by_id[i]->kind == FIELD_BLOB_V2) return true;
    }
    return false;
}

static pennon_status deep_bases(struct cloning *k, pennon_error *err)
{
    struct base_path_message *list = arena_calloc(&k->arena, k->out.n_base_paths, sizeof *list, err);
    size_t n = 0;
    if (list == NULL) return err->code;
    for (size_t i = 0; i < k->out.n_base_paths && has_blob_v2(k->source->schema); i++) {
        if (!k->out.base_paths[i].is_dataset_root) list[n++] = k->out.base_paths[i];
    }
    k->out.base_paths = list;
    k->out.n_base_paths = n;
    return PENNON_OK;
}

/* ---- fragments ---- */

/* A data file of the source and what stands for it in the clone. */
struct moved_file {
    const struct data_file *file;
    struct data_file_message *message;
};

static int compare_moved(const void *x, const void *y)
{
    const struct data_file *a = ((const struct moved_file *)x)->file, *b = ((const struct moved_file *)y)->file;
    if (a->base != b->base) return a->base < b->base ? -1 : 1;
    return strcmp(a->path, b->path);
}

static pennon_status check_fragment(const struct fragment_message *m, pennon_error *err)
{
    struct wire_cursor unknown = wire_cursor_of(m->unknown);
    struct wire_item item;
    if (m->row_ids_which == 6 || m->last_updated_which == 8 || m->created_which == 10) {
        return error_set(err, PENNON_NOT_SUPPORTED,
                         "a clone of a table whose row ids or row versions lie in files of their own (fragment %" PRIu64 ")",
                         m->id);
    }
    while (!wire_cursor_done(&unknown)) {
        TRY_RETURN(wire_next(&unknown, &item, err));
        if (item.tag == OVERLAYS_TAG)
            return error_set(err, PENNON_NOT_SUPPORTED, "a clone of a table with data overlays (fragment %" PRIu64 ")", m->id);
    }
    return PENNON_OK;
}

/* A copy of the message whose files and deletion file may be changed. */
static pennon_status copy_fragment(struct cloning *k, const struct fragment_message *from, struct fragment_message *to,
                                   pennon_error *err)
{
    *to = *from;
    TRY_RETURN(check_fragment(from, err));
    to->files = arena_calloc(&k->arena, from->n_files, sizeof *to->files, err);
    if (to->files == NULL) return err->code;
    if (from->n_files > 0) memcpy(to->files, from->files, from->n_files * sizeof *to->files);
    if (from->deletion_file == NULL) return PENNON_OK;
    to->deletion_file = arena_alloc(&k->arena, sizeof *to->deletion_file, err);
    if (to->deletion_file == NULL) return err->code;
    *to->deletion_file = *from->deletion_file;
    return PENNON_OK;
}

static void stamp_fragment(const struct cloning *k, struct fragment_message *f)
{
    for (size_t i = 0; i < f->n_files; i++) {
        if (f->files[i].has_base_id) continue;
        f->files[i].has_base_id = true;
        f->files[i].base_id = k->base_id;
    }
    if (f->deletion_file != NULL && !f->deletion_file->has_base_id) {
        f->deletion_file->has_base_id = true;
        f->deletion_file->base_id = k->base_id;
    }
}

/* Blob files of a data file. */
struct sidecars {
    struct cloning *k;
    pennon_store *store;
    const char *folder; /* in the clone */
    pennon_status st;
    pennon_error *err;
};

static bool add_sidecar(void *ctx, const pennon_object_info *info)
{
    struct sidecars *x = ctx;
    struct mem *m = x->k->c->mem;
    char *from = mem_strdup(m, info->path, x->err);
    char *to = from != NULL ? mem_printf(m, x->err, "%s/%s", x->folder, path_name(info->path)) : NULL;
    if (to == NULL) {
        mem_free(m, from);
        x->st = x->err->code;
        return false;
    }
    x->st = copy_list_add(&x->k->copies, x->store, from, to, info->size, false, x->err);
    return x->st == PENNON_OK;
}

/* `from` and `to` are paths of data files. */
static pennon_status plan_sidecars(struct cloning *k, pennon_store *store, const char *from, const char *to, pennon_error *err)
{
    static const char suffix[] = ".lance";
    const size_t cut = sizeof suffix - 1, n = strlen(from);
    pennon_status st = PENNON_OK;
    char *folder = NULL, *to_folder = NULL;
    pennon_error local;
    pennon_error_init(&local);
    if (n <= cut || strcmp(from + n - cut, suffix) != 0) return PENNON_OK;
    TRY_NEW(folder, mem_strndup(k->c->mem, from, n - cut, err));
    TRY_NEW(to_folder, mem_strndup(k->c->mem, to, strlen(to) - cut, err));
    struct sidecars x = {.k = k, .store = store, .folder = to_folder, .err = &local};
    st = store_list(k->c, store, folder, false, add_sidecar, &x, err);
    if (st == PENNON_NOT_FOUND) st = PENNON_OK;
    if (st == PENNON_OK && x.st != PENNON_OK) st = error_move(err, &local);
done:
    pennon_error_clear(&local);
    mem_free(k->c->mem, folder);
    mem_free(k->c->mem, to_folder);
    return st;
}

/* The copy of a data file: its new name in *name (in the arena). */
static pennon_status plan_file(struct cloning *k, const struct data_file *f, bool sidecars, struct bytes *name, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct mem *m = k->c->mem;
    pennon_store *store = NULL;
    char text[57], *from = NULL, *to = NULL, *kept;
    TRY(data_file_name(text, err));
    TRY_NEW(kept, arena_strndup(&k->arena, text, strlen(text), err));
    *name = bytes_str(kept);
    TRY(data_file_locate(k->c, k->source, f, &store, &from, err));
    TRY_NEW(to, mem_printf(m, err, "%s%sdata/%s", k->to->path, k->to->path[0] != '\0' ? "/" : "", text));
    if (sidecars) TRY(plan_sidecars(k, store, from, to, err));
    st = copy_list_add(&k->copies, store, from, to, f->size, false, err);
    from = to = NULL;
done:
    pennon_store_free(store);
    mem_free(m, from);
    mem_free(m, to);
    return st;
}

/* A file that several fragments have is one in the clone, too. */
static pennon_status plan_files(struct cloning *k, struct moved_file *files, size_t n, pennon_error *err)
{
    const bool blobs = has_blob_v2(k->source->schema);
    struct bytes name = bytes_of(NULL, 0);
    if (n > 0) qsort(files, n, sizeof *files, compare_moved);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || compare_moved(&files[i - 1], &files[i]) != 0) {
            TRY_RETURN(call_check(k->c, err));
            TRY_RETURN(plan_file(k, files[i].file, blobs && files[i].file->version >= STORAGE_2_2, &name, err));
        }
        files[i].message->path = name;
        files[i].message->has_base_id = false;
        files[i].message->base_id = 0;
    }
    return PENNON_OK;
}

static pennon_status plan_deletion(struct cloning *k, const struct fragment *f, struct deletion_file_message *m, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct mem *mem = k->c->mem;
    pennon_store *store = NULL;
    char *from = NULL, *to = NULL;
    TRY(random_bytes(&m->id, sizeof m->id, err));
    m->has_base_id = false;
    m->base_id = 0;
    TRY(deletion_file_locate(k->c, k->source, f, &store, &from, err));
    TRY_NEW(to, mem_printf(mem, err, "%s%s_deletions/%u-%" PRIu64 "-%" PRIu64 ".%s", k->to->path, k->to->path[0] != '\0' ? "/" : "",
                           f->id, m->read_version, m->id, m->file_type == 0 ? "arrow" : "bin"));
    st = copy_list_add(&k->copies, store, from, to, 0, false, err);
    from = to = NULL;
done:
    pennon_store_free(store);
    mem_free(mem, from);
    mem_free(mem, to);
    return st;
}

static pennon_status plan_fragments(struct cloning *k, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct snapshot *s = k->source;
    struct moved_file *moved = NULL;
    size_t n_moved = 0, cap = 0;
    struct fragment_message *list;
    TRY(snapshot_load_fragments(s, err));
    TRY_NEW(list, arena_calloc(&k->arena, s->n_fragments, sizeof *list, err));
    for (size_t i = 0; i < s->n_fragments; i++) {
        const struct fragment *f = &s->fragments[i];
        TRY(copy_fragment(k, f->message, &list[i], err));
        if (!k->o->deep) {
            stamp_fragment(k, &list[i]);
            continue;
        }
        ASSERT(f->n_files == list[i].n_files);
        for (uint32_t j = 0; j < f->n_files; j++) {
            TRY(mem_grow(k->c->mem, &moved, &cap, n_moved, sizeof *moved, SIZE_MAX / sizeof *moved, err));
            moved[n_moved++] = (struct moved_file){&f->files[j], &list[i].files[j]};
        }
        if (list[i].deletion_file != NULL) TRY(plan_deletion(k, f, list[i].deletion_file, err));
    }
    TRY(plan_files(k, moved, n_moved, err));
    k->out.fragments = list;
    k->out.n_fragments = s->n_fragments;
    k->out.fragment_bytes = NULL;
    k->out.n_fragment_bytes = 0;
done:
    mem_free(k->c->mem, moved);
    return st;
}

/* ---- indices ---- */

struct index_files {
    struct cloning *k;
    pennon_store *store;
    size_t skip; /* bytes of the folder's path and the slash */
    const char *uuid;
    size_t n;
    pennon_status st;
    pennon_error *err;
};

static bool add_index_file(void *ctx, const pennon_object_info *info)
{
    struct index_files *x = ctx;
    const struct cloning *k = x->k;
    struct mem *m = k->c->mem;
    char *from = mem_strdup(m, info->path, x->err);
    char *to = from != NULL ? mem_printf(m, x->err, "%s%s_indices/%s/%s", k->to->path, k->to->path[0] != '\0' ? "/" : "", x->uuid,
                                         info->path + x->skip)
                            : NULL;
    if (to == NULL) {
        mem_free(m, from);
        x->st = x->err->code;
        return false;
    }
    x->st = copy_list_add(&x->k->copies, x->store, from, to, info->size, true, x->err);
    x->n += x->st == PENNON_OK;
    return x->st == PENNON_OK;
}

/* What lies in the folder of the index under a base (NO_BASE = the source itself). */
static pennon_status list_index(struct cloning *k, uint32_t base, const char *uuid, size_t *n, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    pennon_store *store = NULL;
    char *place = NULL, *folder = NULL;
    pennon_error local;
    pennon_error_init(&local);
    TRY(base_locate(k->c, k->source, base, &store, &place, err));
    bool root = base == NO_BASE || k->source->bases[base].is_dataset_root;
    TRY_NEW(folder, mem_printf(k->c->mem, err, "%s%s%s%s", place, place[0] != '\0' ? "/" : "", root ? "_indices/" : "", uuid));
    struct index_files x = {.k = k, .store = store, .skip = strlen(folder) + 1, .uuid = uuid, .err = &local};
    st = store_list(k->c, store, folder, true, add_index_file, &x, err);
    if (st == PENNON_NOT_FOUND) st = PENNON_OK;
    if (st == PENNON_OK && x.st != PENNON_OK) st = error_move(err, &local);
    *n = x.n;
done:
    pennon_error_clear(&local);
    pennon_store_free(store);
    mem_free(k->c->mem, place);
    mem_free(k->c->mem, folder);
    return st;
}

/* The clones of clones that official makes name the wrong base: the files are looked for in all of them. */
static pennon_status plan_index(struct cloning *k, const struct index_metadata_message *x, pennon_error *err)
{
    struct snapshot *s = k->source;
    uint32_t base = x->has_base_id ? snapshot_find_base(s, x->base_id) : NO_BASE;
    char uuid[37];
    size_t n = 0;
    CHECK_FILE_RETURN(x->uuid != NULL && x->uuid->uuid.size == 16, "index '%.*s' has no uuid", (int)min_u64(x->name.size, 128),
                      (const char *)x->name.data);
    CHECK_FILE_RETURN(!x->has_base_id || base != NO_BASE, "index '%.*s' lies in base %u, which the table does not have",
                      (int)min_u64(x->name.size, 128), (const char *)x->name.data, x->base_id);
    uuid_text(x->uuid->uuid.data, uuid);
    TRY_RETURN(list_index(k, base, uuid, &n, err));
    if (n == 0 && base != NO_BASE) TRY_RETURN(list_index(k, NO_BASE, uuid, &n, err));
    for (uint32_t i = 0; i < s->n_bases && n == 0; i++) {
        if (i != base && s->bases[i].is_dataset_root) TRY_RETURN(list_index(k, i, uuid, &n, err));
    }
    if (n == 0 && x->n_files > 0) {
        return error_set(err, PENNON_NOT_FOUND, "the files of index '%.*s' (%s) are not there; drop the index, then clone",
                         (int)min_u64(x->name.size, 128), (const char *)x->name.data, uuid);
    }
    return PENNON_OK;
}

static pennon_status plan_indices(struct cloning *k, pennon_error *err)
{
    struct bytes section;
    struct index_section_message m = {0};
    TRY_RETURN(snapshot_section(k->c, k->source, SECTION_INDICES, &section, err));
    if (section.size == 0) return PENNON_OK;
    TRY_RETURN(wire_decode(&index_section_table, section, &k->arena, &m, err));
    for (size_t i = 0; i < m.n_indices; i++) {
        struct index_metadata_message *x = &m.indices[i];
        if (k->o->deep) {
            TRY_RETURN(plan_index(k, x, err));
            x->has_base_id = false;
            x->base_id = 0;
        } else if (!x->has_base_id) {
            x->has_base_id = true;
            x->base_id = k->base_id;
        }
    }
    return wire_encode(&index_section_table, &m, &k->index_section, err);
}

pennon_status clone_plan(struct cloning *k, pennon_error *err)
{
    TRY_RETURN(k->o->deep ? deep_bases(k, err) : shallow_bases(k, err));
    TRY_RETURN(plan_fragments(k, err));
    return plan_indices(k, err);
}
