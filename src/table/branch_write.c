/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Making and removing branches.
 *
 * A branch is two things: its file _refs/branches/{name}.json, and a table at tree/{name}/ whose first version is a shallow clone. Making one takes
 * two steps, and so does removing one:
 *
 * step      | after a crash behind it                                    | what repairs it
 * ----------|------------------------------------------------------------|-----------------------------------------------------
 * 1. file   | the branch is listed and cannot be opened                  | delete, or create with force
 * 2. clone  | it is there                                                |
 * 1. file   | not listed; its folder can still be opened                 | delete with force
 * 2. folder | some of its files are left                                 | delete with force; they are in nobody's way
 *
 * The file comes first (official writes it last) because it is what only one creator can put: two of them that fork from different versions would
 * both find room for their manifest. From then on a cleanup of the parent sees what the branch needs, too. A folder without a file, as official's
 * crashes leave it, is replaced with force when it holds the one version of a clone and nothing else, so that no write can be lost.
 *
 * What is removed lies below tree/{name}/, and not below the folder of another branch in there (a/b lies in the folder of a): not of a listed one, nor of
 * any that has versions. Versions go first, the oldest at first, so that the folder opens as the branch or not at all.
 * Source: spec commits 10.3. */
#include "table/refs_private.h"

#define FOLDER_FILES_MAX ((size_t)1 << 28)

/* ---- files of a folder ---- */

struct folder {
    struct mem *mem;
    size_t skip; /* bytes of the folder's own path and the slash */
    char **paths;
    size_t n, cap;
    pennon_status st;
    pennon_error err;
};

static bool collect(void *ctx, const pennon_object_info *info)
{
    struct folder *f = ctx;
    f->st = mem_grow(f->mem, &f->paths, &f->cap, f->n, sizeof *f->paths, FOLDER_FILES_MAX, &f->err);
    if (f->st != PENNON_OK) return false;
    f->paths[f->n] = mem_strdup(f->mem, info->path, &f->err);
    if (f->paths[f->n] == NULL) f->st = f->err.code;
    f->n += f->paths[f->n] != NULL;
    return f->st == PENNON_OK;
}

static pennon_status folder_list(const struct call *c, const struct table_location *at, struct folder *f, pennon_error *err)
{
    *f = (struct folder){.mem = c->mem, .skip = strlen(at->path) + 1};
    pennon_error_init(&f->err);
    pennon_status st = store_list(c, at->store, at->path, true, collect, f, err);
    if (st == PENNON_NOT_FOUND) st = PENNON_OK;
    if (st == PENNON_OK && f->st != PENNON_OK) st = error_move(err, &f->err);
    return st;
}

static void folder_free(struct folder *f)
{
    for (size_t i = 0; i < f->n; i++) mem_free(f->mem, f->paths[i]);
    mem_free(f->mem, f->paths);
    pennon_error_clear(&f->err);
}

/* Is the path a manifest of the table at the folder itself? */
static bool own_manifest(const struct folder *f, const char *path, struct manifest_name *name)
{
    const char *rest = path + f->skip;
    return strncmp(rest, "_versions/", 10) == 0 && strchr(rest + 10, '/') == NULL && manifest_name_parse(rest + 10, name);
}

/* ---- what an interrupted creation left ---- */

/* The one version of the folder is a clone under this name. */
static pennon_status is_first_clone(const struct call *c, const struct table_location *at, uint64_t version, bool *yes,
                                    pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct snapshot *s = NULL;
    struct arena arena;
    struct transaction_message t;
    struct clone_message clone;
    struct bytes section;
    *yes = false;
    arena_init(&arena, c->mem);
    st = snapshot_read(c, at, version, true, NULL, &s, err);
    if (st == PENNON_OK) st = snapshot_section(c, s, SECTION_TRANSACTION, &section, err);
    if (st == PENNON_OK && section.size > 0) st = wire_decode(&transaction_table, section, &arena, &t, err);
    if (st == PENNON_OK && section.size > 0 && t.which == OPERATION_CLONE) {
        st = wire_decode(&clone_table, t.operation[OPERATION_CLONE - OPERATION_APPEND], &arena, &clone, err);
        *yes = st == PENNON_OK && clone.is_shallow && clone.has_branch_name &&
               bytes_equal(clone.branch_name, bytes_str(at->branch)) && clone.ref_version == version;
    }
    if (st == PENNON_CORRUPT) {
        pennon_error_clear(err);
        st = PENNON_OK;
    }
    snapshot_release(s);
    arena_reset(&arena);
    return st;
}

/* One version, its transaction and the hint; nothing that a write would have made. */
static pennon_status is_leftover(const struct call *c, const struct table_location *at, const struct folder *f, bool *yes,
                                 pennon_error *err)
{
    size_t versions = 0, transactions = 0;
    uint64_t version = 0;
    *yes = false;
    for (size_t i = 0; i < f->n; i++) {
        struct manifest_name name;
        const char *rest = f->paths[i] + f->skip;
        bool txn = strncmp(rest, "_transactions/", 14) == 0, hint = strcmp(rest, "_versions/latest_version_hint.json") == 0;
        if (own_manifest(f, f->paths[i], &name)) {
            versions++;
            version = name.version;
        } else if (!txn && !hint) {
            return PENNON_OK;
        }
        transactions += txn;
    }
    if (versions != 1 || transactions > 1) return PENNON_OK;
    return is_first_clone(c, at, version, yes, err);
}

static pennon_status replace_leftover(const struct call *c, const struct table_location *at, bool force, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct folder f = {.mem = c->mem};
    bool leftover = false;
    if (force) {
        TRY(folder_list(c, at, &f, err));
        TRY(is_leftover(c, at, &f, &leftover, err));
    }
    if (!leftover) {
        (void)error_set(
            err, PENNON_ALREADY_EXISTS,
            "there are versions at '%.512s' already, without a branch file: an interrupted creation or deletion left them, or they "
            "are being made now%s",
            at->uri,
            force ? "; they are more than a creation leaves, so they stay: delete the branch with force first"
                  : "; force replaces what a creation left, and deleting the branch with force removes all");
        st = error_kind(err, "DatasetAlreadyExists");
        goto done;
    }
    call_log(c, PENNON_LOG_WARN, "what an interrupted creation left at '%s' is replaced", at->uri);
    for (size_t i = 0; i < f.n && st == PENNON_OK; i++) {
        st = store_delete(c, at->store, f.paths[i], err);
        if (st == PENNON_NOT_FOUND) st = PENNON_OK;
    }
done:
    folder_free(&f);
    return st;
}

/* ---- creation ---- */

/* The way from main: the parent's and one step. */
static pennon_status make_path(const struct call *c, const struct snapshot *source, struct branch_step **path, size_t *n,
                               pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ref_entry parent = {0};
    uint8_t id[16];
    char text[37];
    if (source->at.branch != NULL) TRY(read_branch(c, &source->at, source->at.branch, &parent, err));
    *n = parent.n_path + 1;
    TRY_NEW(*path, mem_calloc(c->mem, *n, sizeof **path, err));
    if (parent.n_path > 0) memcpy(*path, parent.path, parent.n_path * sizeof **path);
    TRY(uuid_new(id, err));
    uuid_text(id, text);
    struct branch_step *last = &(*path)[*n - 1];
    size_t at = 0;
    for (const char *p = text; *p != '\0'; p++) {
        if (*p != '-') last->id[at++] = *p;
    }
    ASSERT(at == 32);
    last->version = source->version;
done:
    ref_entry_free(c->mem, &parent);
    return st;
}

/* Is the name free? *remains = a branch file is there whose table was never made. */
static pennon_status check_free(const struct call *c, const struct table_location *place, const char *name, const char *path,
                                bool force, bool *remains, pennon_error *err)
{
    pennon_object_info info;
    uint64_t latest;
    bool v2;
    pennon_status st = store_head(c, place->store, path, &info, err);
    if (st != PENNON_OK && st != PENNON_NOT_FOUND) return st;
    *remains = st == PENNON_OK;
    TRY_RETURN(latest_version(c, place, &latest, &v2, err));
    if (*remains && (latest != 0 || !force)) {
        (void)ref_exists_error(place, false, name, err);
        if (latest != 0) return err->code;
        (void)error_set(err, PENNON_ALREADY_EXISTS,
                        "the branch '%.128s' already exists and has no version: its creation was interrupted, or is going on; "
                        "delete it, or create "
                        "it with force",
                        name);
        return error_kind(err, "RefConflict");
    }
    return latest != 0 ? replace_leftover(c, place, force, err) : PENNON_OK;
}

static pennon_status put_branch_file(const struct call *c, const struct snapshot *source, const char *name, const char *path,
                                     pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct branch_step *steps = NULL;
    struct ref_file f = {.branch = source->at.branch,
                         .version = source->version,
                         .manifest_size = source->file_size,
                         .created_s = (uint64_t)(clock_wall_ns() / 1000000000)};
    TRY(make_path(c, source, &steps, &f.n_path, err));
    f.path = steps;
    st = ref_file_put_new(c, &source->at, &f, name, path, err);
done:
    mem_free(c->mem, steps);
    return st;
}

static pennon_status remove_file(const struct call *c, const struct table_location *at, const char *path, pennon_error *err)
{
    pennon_status st = store_delete(c, at->store, path, err);
    return st == PENNON_NOT_FOUND ? PENNON_OK : st;
}

/* Best effort, behind a failure. */
static void withdraw_file(const struct call *c, const struct table_location *at, const char *path)
{
    struct call quiet = unstoppable_call(c);
    pennon_error ignored;
    pennon_error_init(&ignored);
    if (remove_file(&quiet, at, path, &ignored) != PENNON_OK) call_log(c, PENNON_LOG_WARN, "left behind: %s", ignored.message);
    pennon_error_clear(&ignored);
}

pennon_status branch_create(const struct call *c, const char *name, struct snapshot *source, bool force, struct snapshot **out,
                            pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct table_location place = {0};
    struct clone_options o = {.new_branch = name};
    char *path = NULL;
    bool remains = false, put = false;
    TRY(ref_name_check(name, false, err));
    TRY(branch_location(c->mem, &source->at, name, &place, err));
    TRY(ref_path(c, &source->at, false, name, &path, err));
    TRY(check_free(c, &place, name, path, force, &remains, err));
    if (remains) TRY(remove_file(c, &place, path, err));
    TRY(put_branch_file(c, source, name, path, err));
    put = true;
    st = snapshot_clone(c, source, &place, &o, out, err);
done:
    if (put && st != PENNON_OK && st != PENNON_COMMIT_UNKNOWN) withdraw_file(c, &place, path);
    mem_free(c->mem, path);
    table_location_free(c->mem, &place);
    return st;
}

/* ---- deletion ---- */

/* Does the way of `e` go through `b`? Files of old releases have no way, but name their parent. */
static bool refers(const struct ref_entry *e, const struct ref_entry *b)
{
    if (e == b) return false;
    bool made_up = e->n_path == 1 && e->path[0].version == 0;
    if (made_up) return e->branch != NULL && strcmp(e->branch, b->name) == 0;
    if (e->n_path <= b->n_path || e->path[b->n_path].version == 0) return false;
    for (size_t i = 0; i < b->n_path; i++) {
        if (e->path[i].version != b->path[i].version || strcmp(e->path[i].id, b->path[i].id) != 0) return false;
    }
    return true;
}

static pennon_status check_unused(const struct call *c, const struct table_location *at, const struct ref_entry *branches, size_t n,
                                  const struct ref_entry *mine, const char *name, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ref_entry *tags = NULL;
    size_t n_tags = 0;
    for (size_t i = 0; mine != NULL && i < n; i++) {
        if (!refers(&branches[i], mine)) continue;
        (void)error_set(err, PENNON_CONFLICT,
                        "branch '%.128s' is referenced by branch '%.128s', which reads its files; delete that one first", name,
                        branches[i].name);
        st = error_kind(err, "RefConflict");
        goto done;
    }
    TRY(list_refs_whole(c, at, true, &tags, &n_tags, err));
    for (size_t i = 0; i < n_tags; i++) {
        if (tags[i].branch == NULL || strcmp(tags[i].branch, name) != 0) continue;
        (void)error_set(err, PENNON_CONFLICT, "branch '%.128s' is referenced by tag '%.128s'; delete that first", name,
                        tags[i].name);
        st = error_kind(err, "RefConflict");
        goto done;
    }
done:
    ref_entries_free(c->mem, tags, n_tags);
    return st;
}

/* Does the path lie in the folder of a branch below this one? `prefix` = that branch's name behind this one's and a slash. */
static bool below(const char *rest, const char *prefix, size_t n) { return strncmp(rest, prefix, n) == 0 && rest[n] == '/'; }

/* Marks (in `keep`) what belongs to another branch. */
static void keep_others(const struct folder *f, const struct ref_entry *branches, size_t n, const char *name, bool *keep)
{
    size_t own = strlen(name);
    for (size_t b = 0; b < n; b++) {
        if (!below(branches[b].name, name, own)) continue;
        const char *inner = branches[b].name + own + 1;
        for (size_t i = 0; i < f->n; i++) keep[i] = keep[i] || below(f->paths[i] + f->skip, inner, strlen(inner));
    }
    for (size_t k = 0; k < f->n; k++) {
        struct manifest_name ignored;
        const char *rest = f->paths[k] + f->skip, *versions = strstr(rest, "/_versions/");
        if (keep[k] || versions == NULL || !manifest_name_parse(path_name(rest), &ignored)) continue;
        for (size_t i = 0; i < f->n; i++) keep[i] = keep[i] || below(f->paths[i] + f->skip, rest, (size_t)(versions - rest));
    }
}

/* Manifests by version, then the rest. */
struct removal {
    const char *path;
    uint64_t order;
};

static int compare_removals(const void *x, const void *y)
{
    const struct removal *a = x, *b = y;
    if (a->order != b->order) return a->order < b->order ? -1 : 1;
    return strcmp(a->path, b->path);
}

static pennon_status remove_folder(const struct call *c, const struct table_location *place, const char *name,
                                   const struct ref_entry *branches, size_t n, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct folder f = {.mem = c->mem};
    struct removal *list = NULL;
    bool *keep = NULL;
    size_t n_list = 0;
    ASSERT(place->branch != NULL && strcmp(place->branch, name) == 0);
    TRY(folder_list(c, place, &f, err));
    TRY_NEW(keep, mem_calloc(c->mem, f.n + 1, sizeof *keep, err));
    TRY_NEW(list, mem_calloc(c->mem, f.n + 1, sizeof *list, err));
    keep_others(&f, branches, n, name, keep);
    for (size_t i = 0; i < f.n; i++) {
        struct manifest_name manifest;
        if (keep[i]) continue;
        list[n_list++] = (struct removal){f.paths[i], own_manifest(&f, f.paths[i], &manifest) ? manifest.version : UINT64_MAX};
    }
    if (n_list > 0) qsort(list, n_list, sizeof *list, compare_removals);
    for (size_t i = 0; i < n_list; i++) {
        TRY(remove_file(c, place, list[i].path, err));
        call_progress(c, i + 1, n_list);
    }
    store_remove_empty_folders(place->store, place->path, strlen(place->path) - strlen(name) - 1);
done:
    mem_free(c->mem, keep);
    mem_free(c->mem, list);
    folder_free(&f);
    return st;
}

/* With force a branch file that cannot be read is as good as none. */
static pennon_status drop_unreadable(const struct call *c, const struct table_location *at, const char *name, const char *path,
                                     pennon_error *err)
{
    struct ref_entry e = {0};
    pennon_status st = read_branch(c, at, name, &e, err);
    ref_entry_free(c->mem, &e);
    if (st == PENNON_CORRUPT) return remove_file(c, at, path, err);
    return st == PENNON_NOT_FOUND ? PENNON_OK : st;
}

pennon_status branch_delete(const struct call *c, const struct table_location *at, const char *name, bool force, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct table_location place = {0};
    struct ref_entry *branches = NULL;
    const struct ref_entry *mine = NULL;
    char *path = NULL;
    size_t n = 0;
    TRY(ref_path(c, at, false, name, &path, err));
    TRY(branch_location(c->mem, at, name, &place, err));
    if (force) TRY(drop_unreadable(c, at, name, path, err));
    TRY(list_refs_whole(c, at, false, &branches, &n, err));
    for (size_t i = 0; i < n; i++) {
        if (strcmp(branches[i].name, name) == 0) mine = &branches[i];
    }
    if (mine == NULL && !force) {
        (void)error_set(err, PENNON_NOT_FOUND, "the table '%.512s' has no branch '%.128s'", at->uri, name);
        st = error_kind(err, "RefNotFound");
        goto done;
    }
    TRY(check_unused(c, at, branches, n, mine, name, err));
    TRY(remove_file(c, at, path, err));
    /* Before anything of the folder goes: a branch that comes back after a power loss has to be whole. */
    TRY(store_sync_removals(c, at->store, path, err));
    st = remove_folder(c, &place, name, branches, n, err);
done:
    ref_entries_free(c->mem, branches, n);
    table_location_free(c->mem, &place);
    mem_free(c->mem, path);
    return st;
}
