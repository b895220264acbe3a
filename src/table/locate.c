/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Where things are: the table of a URI, its branches, its base paths, the files of a fragment.
 *
 * what            | path
 * ----------------|--------------------------------------------------------------------------------------------------------
 * branch a/b      | {root}/tree/a/b
 * data file       | {table}/data/{name}; of a base that is a table {base}/data/{name}, of another base {base}/{name}
 * deletion file   | {table or base table}/_deletions/{fragment}-{read version}-{id}.{arrow or bin}
 *
 * A base path is used only when the rule for external paths lets it. The bases of a branch are absolute and go stale when the table is moved:
 * a base table that is gone is taken for the branch's own root, and so is a relative one of the same name.
 * The name of a data file is one segment: what a store would not take in a segment is escaped, as official does.
 * Source: spec table-format 2, 10.1, 17, commits 10.3. */
#include "table/table_private.h"

#define TREE "tree/"

/* ---- locations ---- */

void table_location_free(struct mem *m, struct table_location *l)
{
    pennon_store_free(l->store);
    mem_free(m, l->path);
    mem_free(m, l->uri);
    mem_free(m, l->branch);
    *l = (struct table_location){0};
}

pennon_status table_location_copy(struct mem *m, const struct table_location *from, struct table_location *to, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    *to = (struct table_location){0};
    if (from->store != NULL) {
        pennon_store_retain(from->store);
        to->store = from->store;
    }
    TRY_NEW(to->path, mem_strdup(m, from->path, err));
    TRY_NEW(to->uri, mem_strdup(m, from->uri, err));
    if (from->branch != NULL) TRY_NEW(to->branch, mem_strdup(m, from->branch, err));
done:
    if (st != PENNON_OK) table_location_free(m, to);
    return st;
}

pennon_status table_error(const struct table_location *at, pennon_status st, pennon_error *err)
{
    if (st == PENNON_OK || err->file == NULL || at->uri == NULL) return st;
    size_t n = strlen(at->uri);
    /* A branch lies in tree/ of its table. */
    if (at->branch != NULL) {
        size_t below = strlen("/" TREE) + strlen(at->branch);
        n = n > below && strcmp(at->uri + n - below + strlen("/" TREE), at->branch) == 0 ? n - below : n;
    }
    if (strncmp(err->file, at->uri, n) == 0 && err->file[n] == '/' && err->file[n + 1] != '\0')
        memmove(err->file, err->file + n + 1, strlen(err->file + n + 1) + 1);
    return st;
}

static bool note_any(void *ctx, const pennon_object_info *info)
{
    struct manifest_name name;
    bool *found = ctx;
    *found = manifest_name_parse(path_name(info->path), &name);
    return !*found;
}

/* Is there a manifest below the path? */
static pennon_status is_table(const struct call *c, pennon_store *store, const char *path, bool *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    char *versions = NULL;
    *out = false;
    TRY_NEW(versions, store_join(c->mem, path, "_versions", err));
    TRY(store_list(c, store, versions, false, note_any, out, err));
done:
    mem_free(c->mem, versions);
    return st;
}

/* Does the path lie below the tree/ of another table? Then `branch` is what stands behind. */
static pennon_status find_branch(const struct call *c, const struct table_location *at, char **branch, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    char *root = NULL;
    const char *from = at->path;
    for (;;) {
        const char *tree = strstr(from, "/" TREE);
        bool yes;
        if (tree == NULL) break;
        from = tree + 1;
        if (!branch_name_valid(tree + 1 + strlen(TREE))) continue;
        TRY_NEW(root, mem_strndup(c->mem, at->path, (size_t)(tree - at->path), err));
        TRY(is_table(c, at->store, root, &yes, err));
        mem_free(c->mem, root);
        root = NULL;
        if (!yes) continue;
        TRY_NEW(*branch, mem_strdup(c->mem, tree + 1 + strlen(TREE), err));
        break;
    }
done:
    mem_free(c->mem, root);
    return st;
}

pennon_status table_locate(const struct call *c, const char *uri, struct table_location *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    *out = (struct table_location){0};
    TRY(store_resolve(c, uri, &out->store, &out->path, err));
    TRY_NEW(out->uri, store_uri(c->mem, out->store, out->path, err));
    TRY(find_branch(c, out, &out->branch, err));
done:
    if (st != PENNON_OK) table_location_free(c->mem, out);
    return st;
}

static bool segment_valid(const char *text, size_t n)
{
    if (n == 0 || text[0] == '.' || text[n - 1] == '.') return false;
    for (size_t i = 0; i < n; i++) {
        unsigned char ch = (unsigned char)text[i];
        bool word = (ch >= '0' && ch <= '9') || (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || ch >= 0x80;
        if (!word && ch != '.' && ch != '-' && ch != '_') return false;
        if (ch == '.' && i + 1 < n && text[i + 1] == '.') return false;
    }
    return n < 5 || memcmp(text + n - 5, ".lock", 5) != 0;
}

bool tag_name_valid(const char *name) { return segment_valid(name, strlen(name)); }

bool branch_name_valid(const char *name)
{
    const char *at = name;
    if (strcmp(name, "main") == 0) return false;
    for (;;) {
        const char *slash = strchr(at, '/');
        if (!segment_valid(at, slash != NULL ? (size_t)(slash - at) : strlen(at))) return false;
        if (slash == NULL) return true;
        at = slash + 1;
    }
}

/* `text` without "/tree/{branch}" at its end, and without a slash before that. */
static char *strip_branch(struct mem *m, const char *text, const char *branch, pennon_error *err)
{
    size_t n = strlen(text), cut = branch != NULL ? strlen("/" TREE) + strlen(branch) : 0;
    ASSERT(cut <= n);
    return mem_strndup(m, text, n - cut, err);
}

char *root_path(struct mem *m, const struct table_location *at, pennon_error *err)
{
    return strip_branch(m, at->path, at->branch, err);
}

pennon_status branch_location(struct mem *m, const struct table_location *at, const char *branch, struct table_location *out,
                              pennon_error *err)
{
    pennon_status st = PENNON_OK;
    char *path = NULL, *uri = NULL;
    *out = (struct table_location){0};
    if (branch != NULL && strcmp(branch, "main") == 0) branch = NULL;
    if (branch != NULL && !branch_name_valid(branch)) {
        (void)error_set(err, PENNON_INVALID_ARGUMENT, "'%.256s' is no name of a branch", branch);
        st = error_kind(err, "InvalidRef");
        goto done;
    }
    TRY_NEW(path, strip_branch(m, at->path, at->branch, err));
    TRY_NEW(uri, strip_branch(m, at->uri, at->branch, err));
    pennon_store_retain(at->store);
    out->store = at->store;
    if (branch != NULL) {
        TRY_NEW(out->path, mem_printf(m, err, "%s/" TREE "%s", path, branch));
        TRY_NEW(out->uri, mem_printf(m, err, "%s/" TREE "%s", uri, branch));
        TRY_NEW(out->branch, mem_strdup(m, branch, err));
    } else {
        out->path = path;
        out->uri = uri;
        path = uri = NULL;
    }
done:
    mem_free(m, path);
    mem_free(m, uri);
    if (st != PENNON_OK) table_location_free(m, out);
    return st;
}

/* ---- base paths ---- */

static bool has_prefix(const char *text, const char *prefix)
{
    size_t n = strlen(prefix);
    while (n > 0 && prefix[n - 1] == '/') n--;
    return strncmp(text, prefix, n) == 0 && (text[n] == '\0' || text[n] == '/');
}

static pennon_status refuse_external(const char *uri, pennon_error *err)
{
    (void)error_set(err, PENNON_INVALID_ARGUMENT,
                    "the table refers to '%.512s', which is outside of it; allow it with external_paths", uri);
    return error_kind(err, "ExternalPathRefused");
}

static pennon_status check_external(const struct snapshot *s, const pennon_store *store, const char *uri, pennon_error *err)
{
    bool good = false;
    switch (s->external.policy) {
    case EXTERNAL_ALL: good = true; break;
    case EXTERNAL_SAME_STORE: good = store_same(store, s->at.store); break;
    case EXTERNAL_LIST:
        for (size_t i = 0; i < s->external.n_prefixes; i++) good = good || has_prefix(uri, s->external.prefixes[i]);
        break;
    case EXTERNAL_NONE: break;
    }
    return good ? PENNON_OK : refuse_external(uri, err);
}

/* An absolute path or a URI: what is relative would depend on where the process stands. */
static bool is_absolute(const char *path) { return path[0] == '/' || strstr(path, "://") != NULL; }

/* The branch's own root, when the base table is gone. *path may be replaced. */
static pennon_status find_moved(const struct call *c, struct snapshot *s, pennon_store *store, char **path, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    char *root = NULL;
    bool there = true;
    TRY_NEW(root, root_path(c->mem, &s->at, err));
    if (strcmp(root, *path) == 0 && store_same(store, s->at.store)) goto done;
    TRY(is_table(c, store, *path, &there, err));
    if (!there) {
        mem_free(c->mem, *path);
        *path = root;
        root = NULL;
    }
done:
    mem_free(c->mem, root);
    return st;
}

/* The last segment of the path, without slashes behind it. */
static struct bytes last_name(const char *path)
{
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/') end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/') start--;
    return bytes_of(path + start, end - start);
}

/* Official notes the root of a branch as it was called, "t.lance" too: that is the table which the branch lies in, wherever the process
 * stands now. The name tells it from the root of another table, which cannot be found. */
static pennon_status open_relative(const struct call *c, struct snapshot *s, uint32_t base, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct base *b = &s->bases[base];
    char *root = NULL;
    TRY_NEW(root, root_path(c->mem, &s->at, err));
    CHECK_FILE(b->is_dataset_root && s->at.branch != NULL && bytes_equal(last_name(root), last_name(b->path)),
               "base path %u of the table is '%.256s', which is not absolute", b->id, b->path);
    TRY(cache_put_base(s, base, s->at.store, root, err));
done:
    mem_free(c->mem, root);
    return st;
}

static pennon_status open_base(const struct call *c, struct snapshot *s, uint32_t base, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct base *b = &s->bases[base];
    pennon_store *store = NULL;
    char *path = NULL, *uri = NULL;
    if (s->external.policy == EXTERNAL_NONE) {
        st = check_external(s, NULL, b->path, err);
        goto done;
    }
    if (!is_absolute(b->path)) return open_relative(c, s, base, err);
    TRY(store_resolve(c, b->path, &store, &path, err));
    TRY_NEW(uri, store_uri(c->mem, store, path, err));
    TRY(check_external(s, store, uri, err));
    if (b->is_dataset_root && s->at.branch != NULL) TRY(find_moved(c, s, store, &path, err));
    TRY(cache_put_base(s, base, store, path, err));
done:
    pennon_store_free(store);
    mem_free(c->mem, path);
    mem_free(c->mem, uri);
    return st;
}

pennon_status base_locate(const struct call *c, struct snapshot *s, uint32_t base, pennon_store **store, char **path,
                          pennon_error *err)
{
    pennon_store *found = s->at.store;
    const char *folder = s->at.path;
    *store = NULL;
    *path = NULL;
    if (base != NO_BASE) {
        const struct base_place *place = cache_base(s, base);
        if (place == NULL) {
            TRY_RETURN(open_base(c, s, base, err));
            place = cache_base(s, base);
        }
        found = place->store;
        folder = place->path;
    }
    *path = mem_strdup(c->mem, folder, err);
    if (*path == NULL) return err->code;
    pennon_store_retain(found);
    *store = found;
    return PENNON_OK;
}

/* ---- files ---- */

static bool needs_escape(unsigned char ch) { return ch < 0x20 || ch >= 0x7f || strchr("/\"#%*<>?[\\]^`{|}~", ch) != NULL; }

/* The name as one segment of a path. */
pennon_status path_segment_escape(const char *name, struct buf *out, pennon_error *err)
{
    bool dots = strcmp(name, "..") == 0 || strcmp(name, ".") == 0;
    for (const char *p = name; *p != '\0'; p++) {
        unsigned char ch = (unsigned char)*p;
        TRY_RETURN(dots || needs_escape(ch) ? buf_printf(out, err, "%%%02X", ch) : buf_append_byte(out, ch, err));
    }
    return buf_terminate(out, err);
}

/* May the name be used as it stands? Never out of its folder. */
static bool literal_safe(const char *name)
{
    const char *at = name;
    for (;;) {
        const char *slash = strchr(at, '/');
        size_t n = slash != NULL ? (size_t)(slash - at) : strlen(at);
        if (n == 0 || (n == 1 && at[0] == '.') || (n == 2 && at[0] == '.' && at[1] == '.')) return false;
        if (slash == NULL) return true;
        at = slash + 1;
    }
}

/* Official escapes names; a writer that did not is believed when only its form is there. */
static pennon_status choose_name(const struct call *c, pennon_store *store, const char *folder, const char *name,
                                 struct buf *escaped, char **path, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    pennon_object_info info;
    char *literal = NULL;
    TRY(path_segment_escape(name, escaped, err));
    TRY_NEW(*path, store_join(c->mem, folder, (const char *)escaped->data, err));
    if (strcmp((const char *)escaped->data, name) == 0 || !literal_safe(name)) goto done;
    st = store_head(c, store, *path, &info, err);
    if (st != PENNON_NOT_FOUND) goto done;
    st = PENNON_OK;
    TRY_NEW(literal, store_join(c->mem, folder, name, err));
    mem_free(c->mem, *path);
    *path = literal;
done:
    return st;
}

pennon_status data_file_locate(const struct call *c, struct snapshot *s, const struct data_file *f, pennon_store **store,
                               char **path, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    char *folder = NULL, *base = NULL;
    pennon_store *found = NULL;
    struct buf escaped;
    buf_init(&escaped, c->mem, 1 << 20);
    *path = NULL;
    TRY(base_locate(c, s, f->base, &found, &base, err));
    if (f->base == NO_BASE || s->bases[f->base].is_dataset_root) {
        TRY_NEW(folder, store_join(c->mem, base, "data", err));
    } else {
        folder = base;
        base = NULL;
    }
    TRY(choose_name(c, found, folder, f->path, &escaped, path, err));
    *store = found;
    found = NULL;
done:
    if (st != PENNON_OK) {
        mem_free(c->mem, *path);
        *path = NULL;
    }
    pennon_store_free(found);
    buf_free(&escaped);
    mem_free(c->mem, folder);
    mem_free(c->mem, base);
    return st;
}

pennon_status index_locate(const struct call *c, struct snapshot *s, const struct index_metadata_message *index, const char *name,
                           pennon_store **store, char **path, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    char *base = NULL, uuid[37];
    uint32_t place = NO_BASE;
    *store = NULL;
    *path = NULL;
    CHECK_FILE(index->uuid != NULL && index->uuid->uuid.size == 16, "an index without a UUID");
    CHECK_FILE(name == NULL || literal_safe(name), "an index file '%.256s', which leads out of its folder", name);
    if (index->has_base_id) {
        place = snapshot_find_base(s, index->base_id);
        CHECK_FILE(place != NO_BASE, "an index under base %u, which the table does not have", index->base_id);
    }
    uuid_text(index->uuid->uuid.data, uuid);
    TRY(base_locate(c, s, place, store, &base, err));
    TRY_NEW(*path, mem_printf(c->mem, err, "%s%s_indices/%s%s%s", base, base[0] != '\0' ? "/" : "", uuid, name != NULL ? "/" : "",
                              name != NULL ? name : ""));
done:
    mem_free(c->mem, base);
    if (st != PENNON_OK) {
        pennon_store_free(*store);
        *store = NULL;
    }
    return st;
}

/* ---- external blobs ---- */

/* A URI out of a file as text: untrusted bytes. */
static pennon_status uri_text(const struct call *c, struct bytes uri, char **out, pennon_error *err)
{
    CHECK_FILE_RETURN(uri.size > 0 && uri.size <= 1 << 16, "an external blob whose URI has %zu bytes", uri.size);
    CHECK_FILE_RETURN(memchr(uri.data, 0, uri.size) == NULL && utf8_valid(uri.data, uri.size),
                      "an external blob whose URI is no text");
    *out = mem_strndup(c->mem, (const char *)uri.data, uri.size, err);
    return *out != NULL ? PENNON_OK : err->code;
}

/* Is `path` below `folder` ("" = the root of the store)? *rest points behind the slash. */
static bool is_below(const char *path, const char *folder, const char **rest)
{
    size_t n = strlen(folder);
    if (strncmp(path, folder, n) != 0 || (n > 0 && path[n] != '/')) return false;
    *rest = path + n + (n > 0);
    return **rest != '\0';
}

/* Does the place lie in the table, or under one of its bases that the rule lets be used? */
static pennon_status inside_table(const struct call *c, struct snapshot *s, const pennon_store *store, const char *path,
                                  bool *inside, pennon_error *err)
{
    const char *rest;
    *inside = store_same(store, s->at.store) && is_below(path, s->at.path, &rest);
    for (uint32_t i = 0; i < s->n_bases && !*inside; i++) {
        pennon_store *base_store = NULL;
        char *base = NULL;
        pennon_status st = base_locate(c, s, i, &base_store, &base, err);
        *inside = st == PENNON_OK && store_same(store, base_store) && is_below(path, base, &rest);
        pennon_store_free(base_store);
        mem_free(c->mem, base);
        if (st == PENNON_INVALID_ARGUMENT || st == PENNON_NOT_SUPPORTED || st == PENNON_CORRUPT) {
            pennon_error_clear(err); /* such a base allows nothing */
            st = PENNON_OK;
        }
        TRY_RETURN(st);
    }
    return PENNON_OK;
}

/* A URI that stands alone. */
static pennon_status locate_absolute(const struct call *c, struct snapshot *s, const char *uri, pennon_store **store, char **path,
                                     pennon_error *err)
{
    pennon_status st = PENNON_OK;
    char *whole = NULL;
    bool inside = false;
    CHECK_FILE(is_absolute(uri), "an external blob at '%.256s', which is not absolute", uri);
    if (s->external.policy == EXTERNAL_NONE) {
        st = check_external(s, NULL, uri, err);
        goto done;
    }
    TRY(store_resolve(c, uri, store, path, err));
    TRY_NEW(whole, store_uri(c->mem, *store, *path, err));
    if (s->external.policy == EXTERNAL_SAME_STORE) {
        TRY(inside_table(c, s, *store, *path, &inside, err));
        /* The same store is not enough: a blob of a table in a folder could be any file of the machine. */
        if (!inside) st = refuse_external(whole, err);
    } else {
        st = check_external(s, *store, whole, err);
    }
done:
    mem_free(c->mem, whole);
    return st;
}

/* A path below a base. */
static pennon_status locate_below(const struct call *c, struct snapshot *s, uint32_t base_id, const char *name,
                                  pennon_store **store, char **path, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    uint32_t base = 0;
    char *folder = NULL;
    while (base < s->n_bases && s->bases[base].id != base_id) base++;
    CHECK_FILE(base < s->n_bases, "an external blob under base %" PRIu32 ", which the table does not have", base_id);
    CHECK_FILE(literal_safe(name), "an external blob at '%.256s', which leads out of its base", name);
    TRY(base_locate(c, s, base, store, &folder, err));
    TRY_NEW(*path, store_join(c->mem, folder, name, err));
done:
    mem_free(c->mem, folder);
    return st;
}

pennon_status external_blob_locate(void *ctx, const struct call *c, uint32_t base_id, struct bytes uri, pennon_store **store,
                                   char **path, pennon_error *err)
{
    struct snapshot *s = ctx;
    char *text = NULL;
    *store = NULL;
    *path = NULL;
    pennon_status st = uri_text(c, uri, &text, err);
    if (st == PENNON_OK)
        st = base_id == 0 ? locate_absolute(c, s, text, store, path, err) : locate_below(c, s, base_id, text, store, path, err);
    if (st != PENNON_OK) {
        pennon_store_free(*store);
        mem_free(c->mem, *path);
        *store = NULL;
        *path = NULL;
    }
    mem_free(c->mem, text);
    return st;
}

/* The base with the longest path that holds the place; *base_id 0 = none. */
static pennon_status find_holder(const struct call *c, struct snapshot *s, const pennon_store *store, const char *path,
                                 uint32_t *base_id, struct buf *stored, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    size_t longest = 0, start = stored->size;
    for (uint32_t i = 0; s != NULL && i < s->n_bases; i++) {
        pennon_store *base_store = NULL;
        char *base = NULL;
        const char *rest = NULL;
        /* Base 0 would read as no base at all. */
        if (s->bases[i].is_dataset_root || s->bases[i].id == 0) continue;
        TRY_RETURN(base_locate(c, s, i, &base_store, &base, err));
        bool holds = store_same(store, base_store) && is_below(path, base, &rest) && strlen(base) >= longest;
        if (holds) {
            longest = strlen(base) + 1;
            *base_id = s->bases[i].id;
            stored->size = start;
            st = buf_append(stored, rest, strlen(rest), err);
        }
        pennon_store_free(base_store);
        mem_free(c->mem, base);
        TRY_RETURN(st);
    }
    return st;
}

/* The URI as a URL: what has to be escaped is, and what is a path segment of dots is not taken. */
static pennon_status append_url(const char *uri, struct buf *stored, pennon_error *err)
{
    const char *path = strstr(uri, "://");
    if (path == NULL) {
        return error_set(err, PENNON_INVALID_ARGUMENT,
                         "external blob '%.512s' lies under no base of the table and is no absolute URI", uri);
    }
    for (const char *at = path + 3; at != NULL; at = strchr(at + 1, '/')) {
        const char *seg = *at == '/' ? at + 1 : at;
        size_t n = strcspn(seg, "/");
        if ((n == 1 && seg[0] == '.') || (n == 2 && seg[0] == '.' && seg[1] == '.'))
            return error_set(err, PENNON_INVALID_ARGUMENT, "external blob '%.512s' has a path of dots; give it resolved", uri);
    }
    for (const char *p = uri; *p != '\0'; p++) {
        unsigned char ch = (unsigned char)*p;
        bool escape = ch <= 0x20 || ch >= 0x7f || strchr("\"<>`{}", ch) != NULL;
        TRY_RETURN(escape ? buf_printf(stored, err, "%%%02X", ch) : buf_append_byte(stored, ch, err));
    }
    return PENNON_OK;
}

pennon_status external_blob_reference(const struct call *c, struct snapshot *s, bool outside, struct bytes uri, uint32_t *base_id,
                                      struct buf *stored, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    pennon_store *store = NULL;
    char *text = NULL, *path = NULL;
    *base_id = 0;
    if (uri.size > 1 << 16) FAIL(PENNON_INVALID_ARGUMENT, "a URI of %zu bytes", uri.size);
    if (memchr(uri.data, 0, uri.size) != NULL) FAIL(PENNON_INVALID_ARGUMENT, "a URI with a zero byte");
    TRY_NEW(text, mem_strndup(c->mem, (const char *)uri.data, uri.size, err));
    st = store_resolve(c, text, &store, &path, err);
    if (st == PENNON_OK) TRY(find_holder(c, s, store, path, base_id, stored, err));
    /* A scheme that is not known here can still be referred to. */
    if (st == PENNON_NOT_SUPPORTED && outside)
        pennon_error_clear(err);
    else
        TRY(st);
    if (*base_id != 0) goto done;
    if (!outside) {
        (void)error_set(err, PENNON_INVALID_ARGUMENT,
                        "external blob '%.512s' lies under no base of the table; allow it to be kept as an absolute URI", text);
        st = error_kind(err, "ExternalPathRefused");
        goto done;
    }
    st = append_url(text, stored, err);
done:
    pennon_store_free(store);
    mem_free(c->mem, text);
    mem_free(c->mem, path);
    return st;
}
