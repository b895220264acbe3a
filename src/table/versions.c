/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Which versions a table has, by listing its manifests.
 *
 * Where a listing comes in byte order and begins with a V2 name, that is the latest. Elsewhere a listing grows with the history, so the hint file is
 * asked first. It is believed only when the store says that nothing in the folder changed after it was written, which no late or crashed
 * writer, no cleanup and no writer without hints can pass. Two writers may still have put their hints in the wrong order within one tick of the
 * clock: versions above the hint are looked for, in steps that double, as long as each is there. Anything else is settled by a listing of the
 * whole folder, in which the highest number wins, whatever the schemes: a table that was left in the middle of a change of names still
 * opens. Detached versions are never listed.
 * Source: spec table-format 3.2, commits 2.1. */
#include <jansson.h>
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

static pennon_status latest_by_listing(const struct call *c, const struct table_location *at, uint64_t *version, bool *v2_names,
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

/* ---- the hint ---- */

#define HINT_MAX 256u

bool hint_wanted(void)
{
    const char *use = getenv("LANCE_USE_VERSION_HINT");
    return use == NULL || (strcmp(use, "0") != 0 && strcmp(use, "false") != 0 && strcmp(use, "off") != 0);
}

/* {"version":N}; 0 for anything else. */
uint64_t hint_parse(struct bytes text)
{
    json_error_t why;
    uint64_t version = 0;
    json_t *json = text.size > 0 ? json_loadb((const char *)text.data, text.size, JSON_REJECT_DUPLICATES, &why) : NULL;
    const json_t *number = json_object_get(json, "version");
    if (json_is_integer(number) && json_integer_value(number) > 0) version = (uint64_t)json_integer_value(number);
    json_decref(json);
    return version;
}

/* The version that a believable hint names, 0 = none. What goes wrong with the hint itself is no failure. */
static pennon_status read_hint(const struct call *c, const struct table_location *at, uint64_t *version, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct block *file = NULL;
    char *path = NULL;
    pennon_error local;
    *version = 0;
    pennon_error_init(&local);
    TRY_NEW(path, store_join(c->mem, at->path, "_versions/latest_version_hint.json", err));
    if (store_is_last_change(at->store, path) && store_get(c, at->store, path, HINT_MAX, &file, &local) == PENNON_OK)
        *version = hint_parse(bytes_of(file->data, file->size));
    block_release(file);
    /* The hint that was read is the one that was looked at, unless it changed in between: then versions above it are found by looking. */
done:
    pennon_error_clear(&local);
    mem_free(c->mem, path);
    return st;
}

/* Is there a manifest of the version, of this naming scheme? */
static pennon_status version_exists(const struct call *c, const struct table_location *at, uint64_t version, bool v2, bool *exists,
                                    pennon_error *err)
{
    pennon_error local;
    pennon_object_info info;
    pennon_error_init(&local);
    char *path = manifest_path(c->mem, at->path, version, v2, err);
    if (path == NULL) return err->code;
    pennon_status st = store_head(c, at->store, path, &info, &local);
    *exists = st == PENNON_OK;
    mem_free(c->mem, path);
    if (st == PENNON_OK || st == PENNON_NOT_FOUND) {
        pennon_error_clear(&local);
        return PENNON_OK;
    }
    return error_move(err, &local);
}

/* From a version that exists to the highest one of the run above it. Steps double while they hit, then halve. */
static pennon_status probe_upwards(const struct call *c, const struct table_location *at, bool v2, uint64_t *version,
                                   pennon_error *err)
{
    uint64_t low = *version, step = 1, high = 0;
    bool exists;
    while (high == 0) {
        if (low + step >= DETACHED_VERSION) return PENNON_OK;
        TRY_RETURN(version_exists(c, at, low + step, v2, &exists, err));
        if (exists) {
            low += step;
            step *= 2;
        } else {
            high = low + step;
        }
    }
    while (high - low > 1) {
        uint64_t mid = low + (high - low) / 2;
        TRY_RETURN(version_exists(c, at, mid, v2, &exists, err));
        if (exists) {
            low = mid;
        } else {
            high = mid;
        }
    }
    *version = low;
    return PENNON_OK;
}

pennon_status latest_version(const struct call *c, const struct table_location *at, uint64_t *version, bool *v2_names,
                             pennon_error *err)
{
    uint64_t hint = 0;
    if (!store_is_ordered(at->store) && hint_wanted()) TRY_RETURN(read_hint(c, at, &hint, err));
    for (int turn = 0; hint != 0 && hint < DETACHED_VERSION && turn < 2; turn++) {
        bool exists, v2 = turn == 0;
        TRY_RETURN(version_exists(c, at, hint, v2, &exists, err));
        if (!exists) continue;
        TRY_RETURN(probe_upwards(c, at, v2, &hint, err));
        *version = hint;
        *v2_names = v2;
        return PENNON_OK;
    }
    return latest_by_listing(c, at, version, v2_names, err);
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
