/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Verify: every byte of a dataset is read and checked; faults are reported with their places, and the walk goes on.
 *
 *   the version of the handle   first, since it is what readers see
 *   the others of its branch    from the newest on
 *   the other branches          the same
 *   tags and branch files       each must lead to a version that is there
 *
 * Versions share most of what they refer to: a set of hashes remembers what was walked, so that each fault is told once and the work goes with the
 * bytes that there are, not with the number of versions. What the format cannot tell (it has no checksums) is not found: a flipped value is another
 * value.
 *
 * file              | what it walks
 * ------------------|--------------------------------------------------
 * verify.c          | versions, branches, tags
 * verify_version.c  | one manifest and its sections
 * verify_fragment.c | data files, deletion files, the rows of a fragment */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "dataset/verify.h"

#define FILES_OPEN 64u

/* ---- findings ---- */

void verify_found(void *ctx, const pennon_error *finding)
{
    struct verifying *v = ctx;
    v->counts.findings++;
    if (!v->o->finding) return;
    pennon_error told;
    pennon_error_init(&told);
    (void)error_copy(&told, finding);
    (void)error_where(&told, v->at->uri, NULL, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE);
    (void)table_error(v->at, told.code, &told);
    if (told.version == 0) told.version = v->version;
    v->o->finding(v->o->ctx, &told);
    pennon_error_clear(&told);
}

pennon_status verify_report(struct verifying *v, pennon_status st, const char *where)
{
    pennon_error *err = v->a->err;
    if (st == PENNON_OK) return PENNON_OK;
    bool fault = st == PENNON_CORRUPT || st == PENNON_NOT_FOUND || st == PENNON_NOT_SUPPORTED || st == PENNON_INVALID_ARGUMENT;
    if (!fault) return st;
    if (where) (void)error_prefix(err, "%s", where);
    verify_found(v, err);
    pennon_error_clear(err);
    return PENNON_OK;
}

pennon_status verify_fault(struct verifying *v, pennon_store *store, const char *path, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    pennon_status st = error_set_v(v->a->err, PENNON_CORRUPT, fmt, args);
    va_end(args);
    (void)store_error(store, path, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, v->a->err);
    return verify_report(v, st, NULL);
}

/* ---- what was seen ---- */

/* The slot that holds the hash, or the empty one where it belongs: linear probing. */
static size_t slot_of(const struct seen *s, uint64_t low, uint64_t high)
{
    ASSERT(s->cap > 0 && (s->cap & (s->cap - 1)) == 0 && s->n < s->cap);
    size_t at = (size_t)low & (s->cap - 1);
    while ((s->entries[at].low | s->entries[at].high) != 0 && (s->entries[at].low != low || s->entries[at].high != high))
        at = (at + 1) & (s->cap - 1);
    return at;
}

/* Half of the slots at least are empty. */
static pennon_status grow_seen(struct seen *s, struct mem *m, pennon_error *err)
{
    struct seen larger = {NULL, s->n, s->cap ? s->cap * 2 : 256};
    if (s->n * 2 < s->cap) return PENNON_OK;
    larger.entries = mem_calloc(m, larger.cap, sizeof *larger.entries, err);
    if (!larger.entries) return err->code;
    for (size_t i = 0; i < s->cap; i++) {
        const struct seen_entry *e = &s->entries[i];
        if (e->low | e->high) larger.entries[slot_of(&larger, e->low, e->high)] = *e;
    }
    mem_free(m, s->entries);
    *s = larger;
    return PENNON_OK;
}

pennon_status verify_seen(struct verifying *v, struct bytes key, struct seen_entry **entry, bool *known)
{
    XXH128_hash_t h = XXH3_128bits(key.data, key.size);
    TRY_RETURN(grow_seen(&v->seen, v->a->c.mem, v->a->err));
    if ((h.low64 | h.high64) == 0) h.low64 = 1;
    struct seen_entry *e = &v->seen.entries[slot_of(&v->seen, h.low64, h.high64)];
    *known = (e->low | e->high) != 0;
    if (!*known) {
        *e = (struct seen_entry){h.low64, h.high64, false};
        v->seen.n++;
    }
    *entry = e;
    return PENNON_OK;
}

/* ---- versions ---- */

/* A branch with the versions that it has. */
struct line {
    struct table_location at;
    uint64_t *versions;
    size_t n;
};

struct lines {
    struct line *items;
    size_t n;
};

static bool same_text(const char *a, const char *b) { return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0); }

static void lines_free(struct mem *m, struct lines *l)
{
    for (size_t i = 0; l->items && i < l->n; i++) {
        table_location_free(m, &l->items[i].at);
        mem_free(m, l->items[i].versions);
    }
    mem_free(m, l->items);
}

/* Puts a branch (NULL = main) and the numbers of its versions behind the others; there is room. One listing. */
static pennon_status add_line(struct verifying *v, const struct table_location *root, const char *branch, struct lines *l)
{
    struct line *line = &l->items[l->n++];
    TRY_RETURN(branch_location(v->a->c.mem, root, branch, &line->at, v->a->err));
    return list_versions(&v->a->c, &line->at, &line->versions, &line->n, v->a->err);
}

/* NULL = main; the result is NULL when there is no such branch. */
static const struct line *find_line(const struct lines *l, const char *branch)
{
    for (size_t i = 0; i < l->n; i++) {
        if (same_text(l->items[i].at.branch, branch)) return &l->items[i];
    }
    return NULL;
}

/* Binary search: versions ascend. */
static bool has_version(const struct line *line, uint64_t version)
{
    size_t low = 0, high = line->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (line->versions[mid] < version) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low < line->n && line->versions[low] == version;
}

/* What another process removed since the listing is no fault. */
static pennon_status verify_number(struct verifying *v, const struct table_location *at, uint64_t version,
                                   const struct external_rule *rule)
{
    pennon_status st = PENNON_OK;
    const struct call *c = &v->a->c;
    pennon_error *err = v->a->err;
    struct version_ref ref = {.version = version, .branch = at->branch, .as_of_ns = INT64_MIN};
    struct snapshot *s = NULL;
    struct file_cache *fc = NULL;
    v->at = at;
    v->version = version;
    v->counts.versions++;
    st = snapshot_open(c, at, &ref, rule, &s, err);
    if (st == PENNON_NOT_FOUND) {
        pennon_error_clear(err);
        st = PENNON_OK;
    } else if (st == PENNON_OK) {
        /* Of its own: readers are kept by the number of a base, which is another one in another version. */
        TRY_NEW(fc, file_cache_new(c->mem, FILES_OPEN, err));
        st = verify_snapshot(v, s, fc);
    }
    st = verify_report(v, st, NULL);
done:
    file_cache_release(fc);
    snapshot_release(s);
    return st;
}

/* All versions of a line but `but`, which was walked. */
static pennon_status verify_line(struct verifying *v, const struct line *line, uint64_t but, const struct external_rule *rule)
{
    for (size_t i = line->n; i > 0; i--) {
        TRY_RETURN(call_check(&v->a->c, v->a->err));
        if (line->versions[i - 1] != but) TRY_RETURN(verify_number(v, &line->at, line->versions[i - 1], rule));
    }
    return PENNON_OK;
}

/* ---- refs ---- */

/* A fault of a tag or branch file: "tag 'x' names version 3 of main, {why}". `branch` and `version` are what it leads to. */
static pennon_status ref_fault(struct verifying *v, const struct table_location *root, bool tag, const char *name, const char *fmt,
                               const char *branch, uint64_t version)
{
    pennon_status st = PENNON_OK;
    pennon_error *err = v->a->err;
    char *path = NULL;
    TRY_NEW(path, ref_file_path(v->a->c.mem, root, tag, name, err));
    (void)error_set(err, PENNON_CORRUPT, "%s '%.128s' %s version %" PRIu64 " of %s%s%s, %s", tag ? "tag" : "branch", name,
                    tag ? "names" : "begins at", version, branch ? "branch '" : "main", branch ? branch : "", branch ? "'" : "",
                    fmt);
    st = verify_report(v, store_error(root->store, path, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, err), NULL);
done:
    mem_free(v->a->c.mem, path);
    return st;
}

/* Where a tag points, or a branch begins. */
static pennon_status verify_target(struct verifying *v, const struct lines *l, bool tag, const struct ref_entry *e)
{
    const struct line *line = find_line(l, e->branch);
    const struct table_location *root = &l->items[0].at;
    if (!line) return ref_fault(v, root, tag, e->name, "a branch that is not there", e->branch, e->version);
    if (!has_version(line, e->version)) return ref_fault(v, root, tag, e->name, "which is not there", e->branch, e->version);
    return PENNON_OK;
}

/* A branch begins at a version of another line, and has a folder of its own with at least one version: its first commit is made with it. */
static pennon_status verify_branches(struct verifying *v, const struct lines *l, const struct ref_entry *branches, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct line *own = find_line(l, branches[i].name);
        TRY_RETURN(verify_target(v, l, false, &branches[i]));
        if (own && own->n > 0) continue;
        TRY_RETURN(ref_fault(v, &l->items[0].at, false, branches[i].name, "and has no version of its own", branches[i].branch,
                             branches[i].version));
    }
    return PENNON_OK;
}

/* Every branch, then the tags. `first` was walked. */
static pennon_status verify_all(struct verifying *v, const struct snapshot *first, const struct external_rule *rule)
{
    pennon_status st = PENNON_OK;
    const struct call *c = &v->a->c;
    pennon_error *err = v->a->err;
    struct ref_entry *branches = NULL, *tags = NULL;
    size_t n_branches = 0, n_tags = 0;
    struct lines l = {0};
    v->version = 0;
    TRY(list_refs(c, &first->at, false, verify_found, v, &branches, &n_branches, err));
    TRY_NEW(l.items, mem_calloc(c->mem, n_branches + 1, sizeof *l.items, err));
    TRY(add_line(v, &first->at, NULL, &l));
    for (size_t i = 0; i < n_branches; i++) TRY(add_line(v, &first->at, branches[i].name, &l));
    const struct line *own = find_line(&l, first->at.branch);
    if (own) TRY(verify_line(v, own, first->version, rule));
    for (size_t i = 0; i < l.n; i++) {
        if (&l.items[i] != own) TRY(verify_line(v, &l.items[i], 0, rule));
    }
    v->at = &l.items[0].at;
    v->version = 0;
    v->counts.branches = l.n;
    TRY(verify_branches(v, &l, branches, n_branches));
    TRY(list_refs(c, &first->at, true, verify_found, v, &tags, &n_tags, err));
    v->counts.tags = n_tags;
    for (size_t i = 0; i < n_tags; i++) TRY(verify_target(v, &l, true, &tags[i]));
done:
    v->at = &first->at;
    lines_free(c->mem, &l);
    ref_entries_free(c->mem, branches, n_branches);
    ref_entries_free(c->mem, tags, n_tags);
    return st;
}

/* The other versions of the branch. */
static pennon_status verify_branch(struct verifying *v, const struct snapshot *first, const struct external_rule *rule)
{
    struct line line = {.at = first->at};
    TRY_RETURN(list_versions(&v->a->c, &line.at, &line.versions, &line.n, v->a->err));
    pennon_status st = verify_line(v, &line, first->version, rule);
    v->at = &first->at;
    mem_free(v->a->c.mem, line.versions);
    return st;
}

/* ---- public ---- */

void pennon_verify_options_init(pennon_verify_options *options)
{
    if (options) *options = (pennon_verify_options){.struct_size = sizeof *options};
}

pennon_status verify_begin(struct api *a, const pennon_verify_options *given, pennon_verify_options *o,
                           pennon_verify_counts *counts, const void *handle, const char *what)
{
    *a = (struct api){.err = &a->local};
    pennon_error_init(&a->local);
    pennon_verify_options_init(o);
    TRY_RETURN(options_read(o, sizeof *o, given, "pennon_verify_options", a->err));
    if (counts && counts->struct_size < sizeof counts->struct_size)
        return error_set(a->err, PENNON_INVALID_ARGUMENT, "pennon_verify_counts.struct_size is %zu", counts->struct_size);
    return api_begin(a, o->call, handle, what);
}

void verify_counts_out(const pennon_verify_counts *from, pennon_verify_counts *to)
{
    if (!to || to->struct_size < sizeof to->struct_size) return;
    const size_t size = to->struct_size < sizeof *from ? to->struct_size : sizeof *from;
    pennon_verify_counts copy = *from;
    copy.struct_size = to->struct_size;
    memcpy(to, &copy, size);
}

pennon_status pennon_dataset_verify(pennon_dataset *ds, const pennon_verify_options *options, pennon_verify_counts *counts,
                                    pennon_error *err)
{
    struct api a;
    pennon_verify_options o;
    struct verifying v = {.a = &a, .o = &o};
    pennon_status st = verify_begin(&a, options, &o, counts, ds, "dataset");
    if (st == PENNON_OK && (o.scope < PENNON_VERIFY_VERSION || o.scope > PENNON_VERIFY_ALL))
        st = error_set(a.err, PENNON_INVALID_ARGUMENT, "scope %d is not one of the PENNON_VERIFY_ values", o.scope);
    if (st == PENNON_OK) {
        struct snapshot *s;
        struct file_cache *fc;
        dataset_get(ds, &s, &fc);
        v.at = &s->at;
        v.version = s->version;
        v.counts.branches = v.counts.versions = 1;
        st = verify_snapshot(&v, s, fc);
        if (st == PENNON_OK && o.scope == PENNON_VERIFY_BRANCH) st = verify_branch(&v, s, &ds->external);
        if (st == PENNON_OK && o.scope == PENNON_VERIFY_ALL) st = verify_all(&v, s, &ds->external);
        st = table_error(&s->at, st, a.err);
        mem_free(a.c.mem, v.seen.entries);
        file_cache_release(fc);
        snapshot_release(s);
    }
    verify_counts_out(&v.counts, counts);
    return api_end(&a, st, err);
}
