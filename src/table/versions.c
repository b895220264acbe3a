/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Which versions a table has, by listing its manifests.
 *
 * Where a listing comes in byte order and begins with a V2 name, that is the latest. Elsewhere the whole folder is looked at and the highest
 * number wins, whatever the schemes: a table that was left in the middle of a change of names still opens. Detached versions are never
 * listed. The hint file is not read: a listing says more.
 * Source: spec table-format 3.2, commits 2.1. */
#include <stdlib.h>

#include "table/table_private.h"

struct latest {
    struct manifest_name name;
    bool found;
    bool ordered;
};

static bool see_latest(void *ctx, const pennon_object_info *info)
{
    struct latest *l = ctx;
    struct manifest_name name;
    if (!manifest_name_parse(path_name(info->path), &name) || name.detached) return true;
    bool first = !l->found;
    if (first || name.version > l->name.version || (name.version == l->name.version && name.v2)) l->name = name;
    l->found = true;
    return !(first && l->ordered && name.v2);
}

pennon_status latest_version(const struct call *c, const struct table_location *at, uint64_t *version, bool *v2_names,
                             pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct latest l = {.ordered = store_is_ordered(at->store)};
    char *folder = NULL;
    TRY_NEW(folder, store_join(c->mem, at->path, "_versions", err));
    st = store_list(c, at->store, folder, false, see_latest, &l, err);
    if (st == PENNON_NOT_FOUND) st = PENNON_OK;
    *version = l.found ? l.name.version : 0;
    *v2_names = l.found ? l.name.v2 : true;
done:
    mem_free(c->mem, folder);
    return st;
}

struct collecting {
    struct mem *mem;
    uint64_t *versions;
    size_t n, cap;
    pennon_status st;
    pennon_error *err;
};

static bool collect(void *ctx, const pennon_object_info *info)
{
    struct collecting *l = ctx;
    struct manifest_name name;
    if (!manifest_name_parse(path_name(info->path), &name) || name.detached) return true;
    l->st = mem_grow(l->mem, &l->versions, &l->cap, l->n, sizeof *l->versions, SIZE_MAX / sizeof *l->versions, l->err);
    if (l->st != PENNON_OK) return false;
    l->versions[l->n++] = name.version;
    return true;
}

static int compare_u64(const void *x, const void *y)
{
    const uint64_t *a = x, *b = y;
    return (*a > *b) - (*a < *b);
}

pennon_status list_versions(const struct call *c, const struct table_location *at, uint64_t **versions, size_t *n,
                            pennon_error *err)
{
    pennon_status st = PENNON_OK;
    pennon_error local;
    struct collecting l = {.mem = c->mem, .err = &local};
    char *folder = NULL;
    size_t kept = 0;
    pennon_error_init(&local);
    TRY_NEW(folder, store_join(c->mem, at->path, "_versions", err));
    st = store_list(c, at->store, folder, false, collect, &l, err);
    if (st == PENNON_NOT_FOUND) st = PENNON_OK;
    if (st != PENNON_OK) goto done;
    if (l.st != PENNON_OK) {
        st = error_move(err, &local);
        goto done;
    }
    if (l.n > 0) qsort(l.versions, l.n, sizeof *l.versions, compare_u64);
    /* Both names of a version are one. */
    for (size_t i = 0; i < l.n; i++) {
        if (kept == 0 || l.versions[i] != l.versions[kept - 1]) l.versions[kept++] = l.versions[i];
    }
    *versions = l.versions;
    *n = kept;
    l.versions = NULL;
done:
    pennon_error_clear(&local);
    mem_free(c->mem, l.versions);
    mem_free(c->mem, folder);
    return st;
}
