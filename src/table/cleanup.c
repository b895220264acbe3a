/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Cleanup of old versions: what stays, what goes, and in which order.
 *
 * 1. Clocks: ages of files are told by the store's own clock (the time it gives to an object that is put for the purpose), so that neither a wrong clock
 *    here nor one of a writer makes a file look old. A version is old only when its manifest's own time and the time of the manifest file both say so.
 * 2. The files of the five folders are listed, manifests last. Then tags, branches and every manifest of the line are read, and every manifest of all
 *    other lines below the table's root, whether a branch file lists them or not: what those name in any base is kept by its name.
 * 3. Tags, branches and manifests are listed once more, and what is new is kept.
 * 4. Each file is judged:
 *
 *      named by a version that stays, or by another line  -> stays
 *      named by old versions only                         -> goes with the last of them
 *      named by nobody                                    -> stays for 7 days (unless delete_unverified), then goes
 *      not a name of ours                                 -> stays
 *
 * 5. Removal. First what nobody names; then the old versions, the oldest first, in groups: the manifests of a group, a barrier that makes their removal
 *    durable, and then the files which only they and older versions named. Whenever it stops, each version that is listed still has all its files, the
 *    versions that are left form no new gap below the latest, and what one group leaves behind (its files have no name any more) goes by age in a later
 *    run. The other order, files first, would leave versions that are listed and cannot be read.
 *
 * A detached version stays for 7 days, and longer where the policy's age says so or a tag stands on it; what it names stays with it.
 * One unreadable manifest, tag file or branch file ends the cleanup before anything is removed: what it names is not known.
 * Shallow clones elsewhere are not known to a table. Files in other bases are never looked at.
 * Source: spec commits 10.3, 10.5, 11, 16. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "table/cleanup_private.h"
#include "table/commit_private.h"

#define GROUP_VERSIONS 64u
#define READ_AHEAD 16u
#define PAUSE_STEP_NS INT64_C(10000000)

/* A version of the line that is cleaned. */
struct line_version {
    uint64_t version;
    bool v2;
    int64_t modified_ns; /* of the manifest file, by the store; 0 = unknown */
    int64_t timestamp_ns;
    const char *kept; /* why it stays; NULL = it is old */
    bool tagged_old;  /* the policy calls it old, and a tag stands on it */
};

/* A tag or branch that stands on a version of the line. */
struct pin {
    uint64_t version;
    bool tag;
    const char *reason;
};

/* A manifest that is to be read. */
struct listed_manifest {
    const char *folder; /* of its line, in the store; NULL = the line that is cleaned */
    uint64_t version;
    bool v2;
};

struct cleanup {
    const struct call *call;
    const struct table_location *at;
    const struct cleanup_policy *policy;
    uint64_t read_version;
    uint64_t latest, below; /* versions from `below` on stay by number */
    const char *below_reason;
    int64_t wall_ns, store_ns; /* now, by this machine and by the store */
    struct arena arena;
    struct cleanup_set named, seen; /* `seen`: paths of manifests of other lines that have been read */
    struct cleanup_files files;
    struct line_version *versions; /* ascending; detached ones are the last */
    size_t n_versions, cap_versions;
    struct pin *pins;
    size_t n_pins, cap_pins;
    uint64_t before_tag; /* version of the policy's tag */
    uint64_t reads;      /* manifests so far */
    size_t root_size;    /* bytes of the main line's folder */
    size_t read_ahead;   /* manifests that are read side by side */
    const char **inner;  /* folders of other lines inside the own, from the own on: a branch may be called a/_indices/… */
    size_t n_inner, cap_inner;
};

void cleanup_policy_init(struct cleanup_policy *p)
{
    *p = (struct cleanup_policy){
        .older_than_ns = -1, .keep_versions = UINT64_MAX, .before_version = UINT64_MAX, .now_ns = INT64_MIN};
}

/* ---- clocks ---- */

/* A small object in a folder of the table, under a name of our own staging, that is gone again. With `sync` the folder's former changes are durable
 * afterwards. `modified_ns` (may be NULL) gets the store's time. */
static pennon_status touch(const struct cleanup *k, const char *folder, bool sync, int64_t *modified_ns, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    pennon_object_info info = {0};
    uint64_t id;
    char *path = NULL;
    TRY(random_bytes(&id, sizeof id, err));
    TRY_NEW(path,
            mem_printf(k->call->mem, err, "%s%s%s/.tmp_%016" PRIx64, k->at->path, k->at->path[0] != '\0' ? "/" : "", folder, id));
    TRY(store_put(k->call, k->at->store, path, bytes_of("", 0), sync ? PENNON_PUT_SYNC : PENNON_PUT_OVERWRITE, err));
    if (modified_ns != NULL) {
        TRY(store_head(k->call, k->at->store, path, &info, err));
        if (info.modified_ns != 0) *modified_ns = info.modified_ns;
    }
    st = store_delete(k->call, k->at->store, path, err);
    if (st == PENNON_NOT_FOUND) st = PENNON_OK;
done:
    mem_free(k->call->mem, path);
    return st;
}

/* A dry run writes nothing and has only this machine's clock. The folder of manifests is left as it is: readers look whether it changed. */
static pennon_status read_clocks(struct cleanup *k, pennon_error *err)
{
    k->wall_ns = k->policy->now_ns != INT64_MIN ? k->policy->now_ns : clock_wall_ns();
    k->store_ns = k->wall_ns;
    return k->policy->dry_run ? PENNON_OK : touch(k, "_transactions", false, &k->store_ns, err);
}

/* Has something from `then` reached the age? What has no time is young. */
static bool aged(int64_t now, int64_t then, int64_t age)
{
    int64_t end;
    ASSERT(age >= 0);
    return then != 0 && !__builtin_add_overflow(then, age, &end) && end <= now;
}

static bool version_aged(const struct cleanup *k, const struct line_version *v, int64_t age)
{
    int64_t end;
    /* A manifest without a time is from long ago: official reads the epoch. */
    bool by_manifest = !__builtin_add_overflow(v->timestamp_ns, age, &end) && end <= k->wall_ns;
    return by_manifest && (v->modified_ns == 0 || aged(k->store_ns, v->modified_ns, age));
}

/* ---- versions of the line ---- */

static struct line_version *find_version(struct cleanup *k, uint64_t version)
{
    size_t low = 0, high = k->n_versions;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (k->versions[mid].version < version) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low < k->n_versions && k->versions[low].version == version ? &k->versions[low] : NULL;
}

static int compare_versions(const void *x, const void *y)
{
    const struct line_version *a = x, *b = y;
    return (a->version > b->version) - (a->version < b->version);
}

/* From the list of files. Both names of a version are one: its younger file counts. */
static pennon_status collect_versions(struct cleanup *k, pennon_error *err)
{
    size_t kept = 0;
    for (size_t i = 0; i < k->files.n; i++) {
        const struct cleanup_file *f = &k->files.items[i];
        if (f->name.kind != CLEANUP_MANIFEST) continue;
        TRY_RETURN(mem_grow(k->call->mem, &k->versions, &k->cap_versions, k->n_versions, sizeof *k->versions, UINT32_MAX - 1, err));
        k->versions[k->n_versions++] =
            (struct line_version){.version = f->name.version, .v2 = f->name.v2, .modified_ns = f->modified_ns};
    }
    if (k->n_versions > 0) qsort(k->versions, k->n_versions, sizeof *k->versions, compare_versions);
    for (size_t i = 0; i < k->n_versions; i++) {
        struct line_version *last = kept > 0 ? &k->versions[kept - 1] : NULL;
        if (last != NULL && last->version == k->versions[i].version) {
            if (k->versions[i].modified_ns > last->modified_ns) last->modified_ns = k->versions[i].modified_ns;
        } else {
            k->versions[kept++] = k->versions[i];
        }
    }
    k->n_versions = kept;
    for (size_t i = 0; i < k->n_versions; i++) {
        if ((k->versions[i].version & DETACHED_VERSION) == 0) k->latest = k->versions[i].version;
    }
    if (k->latest != 0) return PENNON_OK;
    (void)error_set(err, PENNON_NOT_FOUND, "there is no table at '%.512s'", k->at->uri);
    (void)error_where(err, k->at->uri, NULL, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE);
    return error_kind(err, "DatasetNotFound");
}

/* A text of the arena. */
static const char *reason_text(struct cleanup *k, pennon_error *err, const char *fmt, ...) PRINTF_LIKE(3, 4);
static const char *reason_text(struct cleanup *k, pennon_error *err, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    ASSERT(n >= 0);
    return arena_strndup(&k->arena, text, min_u64((uint64_t)n, sizeof text - 1), err);
}

/* From which number on versions stay, whatever their age. */
static pennon_status set_limits(struct cleanup *k, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct cleanup_policy *p = k->policy;
    uint64_t keep = p->keep_versions;
    k->below = k->latest;
    k->below_reason = "the latest version";
    if (k->read_version < k->below) {
        k->below = k->read_version;
        k->below_reason = "not older than the version that is open";
    }
    if (keep != UINT64_MAX) {
        size_t attached = k->n_versions;
        while (attached > 0 && (k->versions[attached - 1].version & DETACHED_VERSION) != 0) attached--;
        ASSERT(attached > 0);
        uint64_t first = keep >= attached ? 0 : k->versions[attached - (keep > 0 ? (size_t)keep : 1)].version;
        if (first < k->below) {
            k->below = first;
            TRY_NEW(k->below_reason, reason_text(k, err, "one of the %" PRIu64 " newest versions", keep));
        }
    }
    uint64_t before = p->before_tag != NULL && k->before_tag < p->before_version ? k->before_tag : p->before_version;
    if (before < k->below) {
        k->below = before;
        TRY_NEW(k->below_reason, reason_text(k, err, "not before version %" PRIu64, before));
    }
done:
    return st;
}

/* The age that makes a version old; negative = age does not count. */
static int64_t policy_age(const struct cleanup_policy *p)
{
    bool by_number = p->keep_versions != UINT64_MAX || p->before_version != UINT64_MAX || p->before_tag != NULL;
    return p->older_than_ns >= 0 || by_number ? p->older_than_ns : CLEANUP_OLDER_THAN_NS;
}

/* Why the policy keeps the version; NULL = the policy calls it old. */
static const char *policy_keeps(const struct cleanup *k, const struct line_version *v)
{
    int64_t age = policy_age(k->policy);
    if ((v->version & DETACHED_VERSION) != 0) {
        if (!version_aged(k, v, age > CLEANUP_GRACE_NS ? age : CLEANUP_GRACE_NS)) return "a detached version that is not old";
        return NULL;
    }
    if (v->version >= k->below) return v->version == k->latest ? "the latest version" : k->below_reason;
    return age >= 0 && !version_aged(k, v, age) ? "not old" : NULL;
}

static void classify(struct cleanup *k, struct line_version *v)
{
    v->kept = policy_keeps(k, v);
    v->tagged_old = false;
    for (size_t i = 0; i < k->n_pins && v->kept == NULL; i++) {
        if (k->pins[i].version != v->version) continue;
        v->kept = k->pins[i].reason;
    }
    for (size_t i = 0; i < k->n_pins; i++) {
        if (k->pins[i].version == v->version && k->pins[i].tag && policy_keeps(k, v) == NULL) v->tagged_old = true;
    }
}

/* ---- tags and branches ---- */

static bool same_branch(const char *a, const char *b)
{
    if (a != NULL && strcmp(a, "main") == 0) a = NULL;
    if (b != NULL && strcmp(b, "main") == 0) b = NULL;
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static pennon_status add_pin(struct cleanup *k, uint64_t version, bool tag, const char *name, pennon_error *err)
{
    for (size_t i = 0; i < k->n_pins; i++) {
        if (k->pins[i].version == version && k->pins[i].tag == tag) return PENNON_OK;
    }
    TRY_RETURN(mem_grow(k->call->mem, &k->pins, &k->cap_pins, k->n_pins, sizeof *k->pins, SIZE_MAX / sizeof *k->pins, err));
    struct pin *p = &k->pins[k->n_pins];
    *p = (struct pin){.version = version, .tag = tag};
    p->reason = reason_text(k, err, tag ? "tag '%.128s' stands on it" : "branch '%.128s' starts from it", name);
    if (p->reason == NULL) return err->code;
    k->n_pins++;
    return PENNON_OK;
}

static pennon_status cleanup_error(pennon_status code, pennon_error *err)
{
    return code != PENNON_OK ? error_kind(err, "Cleanup") : code;
}

static pennon_status pin_tags(struct cleanup *k, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ref_entry *tags = NULL;
    size_t n = 0;
    const char *wanted = k->policy->before_tag;
    bool found = false;
    TRY(list_refs_whole(k->call, k->at, true, &tags, &n, err));
    for (size_t i = 0; i < n; i++) {
        bool mine = same_branch(tags[i].branch, k->at->branch);
        if (mine) TRY(add_pin(k, tags[i].version, true, tags[i].name, err));
        if (wanted == NULL || strcmp(tags[i].name, wanted) != 0) continue;
        if (!mine) {
            st = error_set(err, PENNON_INVALID_ARGUMENT, "tag '%.128s' stands on branch '%.128s', and '%.128s' is cleaned", wanted,
                           tags[i].branch != NULL ? tags[i].branch : "main", k->at->branch != NULL ? k->at->branch : "main");
            st = cleanup_error(st, err);
            goto done;
        }
        found = true;
        k->before_tag = tags[i].version;
    }
    if (wanted != NULL && !found) {
        (void)error_set(err, PENNON_NOT_FOUND, "the table '%.512s' has no tag '%.128s'", k->at->uri, wanted);
        st = error_kind(err, "RefNotFound");
    }
done:
    ref_entries_free(k->call->mem, tags, n);
    return st;
}

bool cleanup_descends(const struct ref_entry *e, const struct ref_entry *mine)
{
    size_t n = mine != NULL ? mine->n_path : 0;
    if (e->n_path <= n) return false;
    for (size_t i = 0; i < n; i++) {
        if (e->path[i].version != mine->path[i].version || strcmp(e->path[i].id, mine->path[i].id) != 0) return false;
    }
    return true;
}

/* Branches of any depth that start from a version of this line. */
static pennon_status pin_branches(struct cleanup *k, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ref_entry *branches = NULL;
    const struct ref_entry *mine = NULL;
    size_t n = 0;
    TRY(list_refs_whole(k->call, k->at, false, &branches, &n, err));
    for (size_t i = 0; i < n; i++) {
        if (k->at->branch != NULL && same_branch(branches[i].name, k->at->branch)) mine = &branches[i];
    }
    for (size_t i = 0; i < n; i++) {
        const struct ref_entry *e = &branches[i];
        size_t depth = mine != NULL ? mine->n_path : 0;
        if (e == mine) continue;
        if (same_branch(e->branch, k->at->branch)) TRY(add_pin(k, e->version, false, e->name, err));
        /* A branch without a file of its own has no way that others could begin with. */
        bool below = (mine != NULL || k->at->branch == NULL) && cleanup_descends(e, mine);
        if (below && e->path[depth].version != 0) TRY(add_pin(k, e->path[depth].version, false, e->name, err));
    }
done:
    ref_entries_free(k->call->mem, branches, n);
    return st;
}

/* ---- reading ---- */

/* *s = NULL: the manifest is gone, by another cleanup. */
static pennon_status read_version(const struct cleanup *k, const struct table_location *at, const struct listed_manifest *m,
                                  struct snapshot **s, pennon_error *err)
{
    pennon_status st = snapshot_read_for(k->call, k->call->mem, at, m->version, m->v2, NULL, s, err);
    if (st == PENNON_OK) {
        st = commit_check_writer_flags(*s, err);
        if (st == PENNON_OK) st = snapshot_load_fragments(*s, err);
        if (st == PENNON_OK) return st;
        snapshot_release(*s);
    }
    *s = NULL;
    if (st == PENNON_NOT_FOUND) {
        pennon_error_clear(err);
        return PENNON_OK;
    }
    if (st == PENNON_CORRUPT || st == PENNON_NOT_SUPPORTED)
        (void)error_prefix(err, "nothing was removed, for what version %" PRIu64 " needs is not known", m->version);
    return st;
}

/* A handful of manifests that are read side by side. */
struct reading {
    const struct cleanup *k;
    const struct listed_manifest *items;
    struct snapshot *out[READ_AHEAD];
};

/* A parallel_fn. Which line a manifest says that it belongs to does not matter here. */
static pennon_status read_one(void *arg, size_t i, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct reading *r = arg;
    const struct listed_manifest *m = &r->items[i];
    const struct call *c = r->k->call;
    struct table_location at = {.store = r->k->at->store};
    TRY(call_check(c, err));
    if (m->folder == NULL) return read_version(r->k, r->k->at, m, &r->out[i], err);
    TRY_NEW(at.path, mem_strdup(c->mem, m->folder, err));
    TRY_NEW(at.uri, store_uri(c->mem, at.store, m->folder, err));
    st = read_version(r->k, &at, m, &r->out[i], err);
done:
    mem_free(c->mem, at.path);
    mem_free(c->mem, at.uri);
    return st;
}

/* `s` = NULL: it is gone. */
typedef pennon_status (*take_fn)(struct cleanup *k, const struct listed_manifest *m, struct snapshot *s, pennon_error *err);

/* Read n manifests and hand them on in their order; one by one once several do not fit the budget. */
static pennon_status read_all(struct cleanup *k, const struct listed_manifest *items, size_t n, take_fn take, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    for (size_t at = 0, some; at < n && st == PENNON_OK; at += some) {
        struct reading r = {.k = k, .items = items + at};
        some = n - at < k->read_ahead ? n - at : k->read_ahead;
        st = pool_parallel(call_pool(k->call), k->call->threads, some, read_one, &r, err);
        for (size_t i = 0; i < some; i++) {
            if (st == PENNON_OK) st = take(k, &r.items[i], r.out[i], err);
            if (st == PENNON_OK) call_progress(k->call, ++k->reads, 0);
            snapshot_release(r.out[i]);
        }
        if (st == PENNON_OVER_BUDGET && k->read_ahead > 1) {
            /* What was handed on already is handed on once more, which changes nothing. */
            pennon_error_clear(err);
            st = PENNON_OK;
            k->read_ahead = 1;
            some = 0;
        }
    }
    return st;
}

/* A version of the line: judge it, and note what it names. One that was not in the list was just committed and stays: its files may be in the list. */
static pennon_status take_own(struct cleanup *k, const struct listed_manifest *m, struct snapshot *s, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct line_version *v = find_version(k, m->version);
    struct cleanup_namer namer = {.kept = "a version that was just committed names it"};
    if (v != NULL && s == NULL) v->kept = "gone meanwhile";
    if (s == NULL) goto done;
    if (v != NULL) {
        v->timestamp_ns = s->timestamp_ns;
        classify(k, v);
        namer = (struct cleanup_namer){.old = (uint32_t)(v - k->versions) + 1};
        if (v->kept != NULL) TRY_NEW(namer.kept, reason_text(k, err, "version %" PRIu64 " names it (%s)", v->version, v->kept));
    }
    TRY(cleanup_add_version(k->call, s, &namer, &k->named, err));
done:
    return st;
}

static pennon_status take_versions(struct cleanup *k, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct listed_manifest *items = NULL;
    TRY_NEW(items, mem_calloc(k->call->mem, k->n_versions, sizeof *items, err));
    for (size_t i = 0; i < k->n_versions; i++)
        items[i] = (struct listed_manifest){.version = k->versions[i].version, .v2 = k->versions[i].v2};
    st = read_all(k, items, k->n_versions, take_own, err);
done:
    mem_free(k->call->mem, items);
    return st;
}

/* ---- other lines ---- */

struct finding_lines {
    struct cleanup *k;
    const char *own; /* folder of the line that is cleaned */
    struct listed_manifest *items;
    size_t n, cap;
    pennon_status st;
    pennon_error err;
};

/* A line whose folder lies in that of the one that is cleaned. False: no memory. */
static bool note_inner(struct cleanup *k, const char *folder, pennon_status *st, pennon_error *err)
{
    size_t own = strlen(k->at->path);
    if (k->at->branch == NULL || strncmp(folder, k->at->path, own) != 0 || folder[own] != '/') return true;
    *st = mem_grow(k->call->mem, &k->inner, &k->cap_inner, k->n_inner, sizeof *k->inner, SIZE_MAX / sizeof *k->inner, err);
    if (*st == PENNON_OK) k->inner[k->n_inner++] = folder + own + 1;
    return *st == PENNON_OK;
}

/* Any object below the root: manifests in folders other than the own are taken. */
static bool see_object(void *ctx, const pennon_object_info *info)
{
    struct finding_lines *l = ctx;
    struct manifest_name name;
    struct cleanup *k = l->k;
    struct cleanup_ref *seen;
    static const char folder[] = "_versions/";
    const char *file = path_name(info->path);
    size_t n = (size_t)(file - info->path), f = sizeof folder - 1;
    if (n < f || memcmp(file - f, folder, f) != 0 || (n > f && file[-1 - (ptrdiff_t)f] != '/')) return true;
    if (!manifest_name_parse(file, &name)) return true;
    n = n > f ? n - f - 1 : 0;
    if (strlen(l->own) == n && memcmp(l->own, info->path, n) == 0) return true;
    if (cleanup_set_find(&k->seen, bytes_str(info->path)) != NULL) return true;
    l->st = cleanup_set_put(&k->seen, bytes_str(info->path), &seen, &l->err);
    if (l->st == PENNON_OK)
        l->st = mem_grow(k->call->mem, &l->items, &l->cap, l->n, sizeof *l->items, SIZE_MAX / sizeof *l->items, &l->err);
    if (l->st != PENNON_OK) return false;
    const char *text = arena_strndup(&k->arena, info->path, n, &l->err);
    if (text == NULL) {
        l->st = l->err.code;
        return false;
    }
    l->items[l->n++] = (struct listed_manifest){.folder = text, .version = name.version, .v2 = name.v2};
    return note_inner(k, text, &l->st, &l->err);
}

static pennon_status take_other(struct cleanup *k, const struct listed_manifest *m, struct snapshot *s, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct cleanup_namer namer = {.other_line = true};
    if (s == NULL || s->n_bases == 0) goto done;
    size_t skip = k->root_size + strlen("/tree/");
    const char *name = strlen(m->folder) > skip ? m->folder + skip : "main";
    TRY_NEW(namer.kept, reason_text(k, err, "version %" PRIu64 " of branch '%.128s' names it", m->version, name));
    TRY(cleanup_add_version(k->call, s, &namer, &k->named, err));
done:
    return st;
}

/* The manifests of every other line that have not been read yet. */
static pennon_status take_other_lines(struct cleanup *k, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct finding_lines l = {.k = k, .own = k->at->path};
    char *root = NULL, *tree = NULL, *versions = NULL;
    pennon_error_init(&l.err);
    TRY_NEW(root, root_path(k->call->mem, k->at, err));
    k->root_size = strlen(root);
    TRY_NEW(tree, store_join(k->call->mem, root, "tree", err));
    TRY_NEW(versions, store_join(k->call->mem, root, "_versions", err));
    st = store_list(k->call, k->at->store, tree, true, see_object, &l, err);
    if (st == PENNON_NOT_FOUND) st = PENNON_OK;
    if (st == PENNON_OK && l.st == PENNON_OK) st = store_list(k->call, k->at->store, versions, false, see_object, &l, err);
    if (st == PENNON_OK && l.st != PENNON_OK) st = error_move(err, &l.err);
    if (st != PENNON_OK) goto done;
    st = read_all(k, l.items, l.n, take_other, err);
done:
    pennon_error_clear(&l.err);
    mem_free(k->call->mem, l.items);
    mem_free(k->call->mem, root);
    mem_free(k->call->mem, tree);
    mem_free(k->call->mem, versions);
    return st;
}

/* ---- what came in meanwhile ---- */

static bool see_new_version(void *ctx, const pennon_object_info *info)
{
    struct finding_lines *l = ctx;
    struct manifest_name name;
    if (!manifest_name_parse(path_name(info->path), &name) || find_version(l->k, name.version) != NULL) return true;
    l->st = mem_grow(l->k->call->mem, &l->items, &l->cap, l->n, sizeof *l->items, SIZE_MAX / sizeof *l->items, &l->err);
    if (l->st != PENNON_OK) return false;
    l->items[l->n++] = (struct listed_manifest){.version = name.version, .v2 = name.v2};
    return true;
}

/* Versions that were committed after the list was made. */
static pennon_status take_new_versions(struct cleanup *k, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct finding_lines l = {.k = k};
    char *folder = NULL;
    pennon_error_init(&l.err);
    TRY_NEW(folder, store_join(k->call->mem, k->at->path, "_versions", err));
    TRY(store_list(k->call, k->at->store, folder, false, see_new_version, &l, err));
    if (l.st != PENNON_OK) {
        st = error_move(err, &l.err);
        goto done;
    }
    st = read_all(k, l.items, l.n, take_own, err);
done:
    pennon_error_clear(&l.err);
    mem_free(k->call->mem, l.items);
    mem_free(k->call->mem, folder);
    return st;
}

/* A tag or branch that was set while manifests were read saves its version. What is named twice is no matter. */
static pennon_status look_again(struct cleanup *k, pennon_error *err)
{
    size_t before = k->n_pins;
    TRY_RETURN(take_new_versions(k, err));
    TRY_RETURN(take_other_lines(k, err));
    TRY_RETURN(pin_tags(k, err));
    TRY_RETURN(pin_branches(k, err));
    for (size_t i = before; i < k->n_pins; i++) {
        struct line_version *v = find_version(k, k->pins[i].version);
        if (v == NULL || v->kept != NULL) continue;
        struct listed_manifest again = {.version = v->version, .v2 = v->v2};
        TRY_RETURN(read_all(k, &again, 1, take_own, err));
    }
    return PENNON_OK;
}

static pennon_status check_tagged(const struct cleanup *k, pennon_error *err)
{
    struct buf list;
    size_t n = 0;
    if (!k->policy->error_if_tagged) return PENNON_OK;
    buf_init(&list, k->call->mem, 4096);
    pennon_status st = PENNON_OK;
    for (size_t i = 0; i < k->n_versions; i++) {
        if (!k->versions[i].tagged_old) continue;
        if (++n <= 10) TRY(buf_printf(&list, err, "%s%" PRIu64, n > 1 ? ", " : "", k->versions[i].version));
    }
    if (n > 0) {
        st = error_set(err, PENNON_INVALID_ARGUMENT,
                       "%zu tagged version(s) are old: %.*s%s. Delete the tags, or let tagged versions stay", n, (int)list.size,
                       (const char *)list.data, n > 10 ? ", ..." : "");
        st = cleanup_error(st, err);
    }
done:
    buf_free(&list);
    return st;
}

/* ---- judging files ---- */

/* No version names it, or may name it yet. */
static void judge_by_age(const struct cleanup *k, struct cleanup_file *f, const char *old, const char *young)
{
    f->remove = k->policy->delete_unverified || aged(k->store_ns, f->modified_ns, CLEANUP_GRACE_NS);
    f->reason = f->remove ? old : young;
}

static bool in_other_line(const struct cleanup *k, const char *path)
{
    for (size_t i = 0; i < k->n_inner; i++) {
        size_t n = strlen(k->inner[i]);
        if (strncmp(path, k->inner[i], n) == 0 && path[n] == '/') return true;
    }
    return false;
}

static void judge(struct cleanup *k, struct cleanup_file *f)
{
    const struct line_version *v;
    const struct cleanup_ref *ref;
    if (in_other_line(k, f->path)) f->name.kind = CLEANUP_UNKNOWN;
    switch (f->name.kind) {
    case CLEANUP_UNKNOWN: f->reason = "not a file that cleanup removes"; return;
    case CLEANUP_TEMPORARY: judge_by_age(k, f, "left by a writer that ended", "a writer may be at it: younger than 7 days"); return;
    case CLEANUP_MANIFEST:
        v = find_version(k, f->name.version);
        ASSERT(v != NULL);
        f->remove = v->kept == NULL;
        f->reason = f->remove ? "an old version" : v->kept;
        f->turn = (uint32_t)(v - k->versions) + 1;
        return;
    default: break;
    }
    ref = cleanup_set_find(&k->named, f->name.key);
    if (ref != NULL && ref->kept != NULL) {
        f->reason = ref->kept;
    } else if (ref != NULL && ref->last_old > 0) {
        f->remove = true;
        f->reason = "named by old versions only";
        f->turn = ref->last_old;
    } else {
        judge_by_age(k, f, "named by no version", "named by no version, but younger than 7 days: a commit may be on its way");
    }
}

/* ---- removal ---- */

static void count(struct cleanup_stats *s, const struct cleanup_file *f)
{
    s->bytes_removed += f->bytes;
    switch (f->name.kind) {
    case CLEANUP_MANIFEST: s->versions++; break;
    case CLEANUP_DATA:
    case CLEANUP_BLOB: s->data_files++; break;
    case CLEANUP_DELETION: s->deletion_files++; break;
    case CLEANUP_INDEX: s->index_files++; break;
    case CLEANUP_TRANSACTION: s->transaction_files++; break;
    default: s->temporary_files++; break;
    }
}

/* What goes, in the order in which it goes. */
static uint64_t group_of(const struct cleanup_file *f) { return f->turn == 0 ? 0 : 1 + (f->turn - 1) / GROUP_VERSIONS; }

static int compare_turns(const void *x, const void *y)
{
    const struct cleanup_file *a = *(struct cleanup_file *const *)x, *b = *(struct cleanup_file *const *)y;
    if (group_of(a) != group_of(b)) return group_of(a) < group_of(b) ? -1 : 1;
    bool first = a->name.kind == CLEANUP_MANIFEST, second = b->name.kind == CLEANUP_MANIFEST;
    if (first != second) return first ? -1 : 1;
    if (a->turn != b->turn) return a->turn < b->turn ? -1 : 1;
    return strcmp(a->path, b->path);
}

static pennon_status pause_for(const struct call *c, int64_t ns, pennon_error *err)
{
    while (ns > 0) {
        struct timespec step = {0, (long)(ns < PAUSE_STEP_NS ? ns : PAUSE_STEP_NS)};
        TRY_RETURN(call_check(c, err));
        (void)nanosleep(&step, NULL);
        ns -= PAUSE_STEP_NS;
    }
    return PENNON_OK;
}

/* Remove one file. That it is gone already is no fault: another cleanup may be at work. */
static pennon_status remove_file(const struct cleanup *k, struct cleanup_file *f, struct cleanup_stats *stats, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    char *path = NULL;
    ASSERT(f->remove && f->name.kind != CLEANUP_UNKNOWN);
    TRY(call_check(k->call, err));
    TRY_NEW(path, store_join(k->call->mem, k->at->path, f->path, err));
    st = store_delete(k->call, k->at->store, path, err);
    if (st == PENNON_NOT_FOUND) {
        pennon_error_clear(err);
        st = PENNON_OK;
    } else if (st == PENNON_OK) {
        count(stats, f);
    }
    if (st == PENNON_OK && k->policy->delete_rate > 0)
        st = pause_for(k->call, CLEANUP_SECOND_NS / (int64_t)min_u64(k->policy->delete_rate, CLEANUP_SECOND_NS), err);
done:
    mem_free(k->call->mem, path);
    return st;
}

static pennon_status remove_files(const struct cleanup *k, struct cleanup_file **list, size_t n, struct cleanup_stats *stats,
                                  pennon_error *err)
{
    bool manifests = false; /* removed in this group, and not yet durable */
    for (size_t i = 0; i < n; i++) {
        bool manifest = list[i]->name.kind == CLEANUP_MANIFEST;
        ASSERT(i == 0 || group_of(list[i - 1]) <= group_of(list[i]));
        if (!manifest && manifests && k->call->durability == PENNON_DURABILITY_FULL)
            TRY_RETURN(touch(k, "_versions", true, NULL, err));
        manifests = manifest;
        TRY_RETURN(remove_file(k, list[i], stats, err));
        call_progress(k->call, i + 1, n);
    }
    return PENNON_OK;
}

static pennon_status carry_out(struct cleanup *k, struct cleanup_stats *stats, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct cleanup_file **list = NULL;
    size_t n = 0;
    TRY_NEW(list, mem_calloc(k->call->mem, k->files.n, sizeof *list, err));
    for (size_t i = 0; i < k->files.n; i++) {
        struct cleanup_file *f = &k->files.items[i];
        judge(k, f);
        if (f->remove) list[n++] = f;
        if (f->remove && k->policy->dry_run) count(stats, f);
    }
    if (n > 0) qsort(list, n, sizeof(struct cleanup_file *), compare_turns);
    if (!k->policy->dry_run) st = remove_files(k, list, n, stats, err);
done:
    mem_free(k->call->mem, list);
    return st;
}

static pennon_status report_files(const struct cleanup *k, cleanup_report_fn report, void *ctx, pennon_error *err)
{
    for (size_t i = 0; report != NULL && i < k->files.n; i++) {
        const struct cleanup_file *f = &k->files.items[i];
        struct cleanup_verdict v = {
            .path = f->path, .kind = f->name.kind, .bytes = f->bytes, .removed = f->remove, .reason = f->reason};
        TRY_RETURN(report(ctx, &v, err));
    }
    return PENNON_OK;
}

/* ---- the whole ---- */

static pennon_status run(struct cleanup *k, cleanup_report_fn report, void *ctx, struct cleanup_stats *stats, pennon_error *err)
{
    if ((k->read_version & DETACHED_VERSION) != 0)
        return error_set(err, PENNON_NOT_SUPPORTED, "cleanup from the detached version %" PRIu64, k->read_version);
    TRY_RETURN(cleanup_list_files(k->call, k->at, &k->files, err));
    TRY_RETURN(collect_versions(k, err));
    TRY_RETURN(read_clocks(k, err));
    TRY_RETURN(pin_tags(k, err));
    TRY_RETURN(pin_branches(k, err));
    TRY_RETURN(set_limits(k, err));
    TRY_RETURN(take_versions(k, err));
    TRY_RETURN(take_other_lines(k, err));
    TRY_RETURN(look_again(k, err));
    TRY_RETURN(check_tagged(k, err));
    TRY_RETURN(carry_out(k, stats, err));
    return report_files(k, report, ctx, err);
}

pennon_status cleanup_run(const struct call *c, const struct table_location *at, uint64_t read_version,
                          const struct cleanup_policy *policy, cleanup_report_fn report, void *ctx, struct cleanup_stats *stats,
                          pennon_error *err)
{
    struct cleanup k = {
        .call = c, .at = at, .policy = policy, .read_version = read_version, .before_tag = UINT64_MAX, .read_ahead = READ_AHEAD};
    *stats = (struct cleanup_stats){0};
    arena_init(&k.arena, c->mem);
    cleanup_set_init(&k.named, c->mem);
    cleanup_set_init(&k.seen, c->mem);
    cleanup_files_init(&k.files, c->mem);
    pennon_status st = run(&k, report, ctx, stats, err);
    if (st != PENNON_OK) (void)error_where(err, at->uri, NULL, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE);
    mem_free(c->mem, k.versions);
    mem_free(c->mem, k.pins);
    mem_free(c->mem, k.inner);
    cleanup_set_free(&k.named);
    cleanup_set_free(&k.seen);
    cleanup_files_free(&k.files);
    arena_reset(&k.arena);
    return st;
}
