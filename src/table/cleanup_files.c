/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The files of a table for cleanup: what their names say, which of them versions name, which there are.
 *
 * path below the table's folder              | kind        | key
 * -------------------------------------------|-------------|---------------------------
 * _versions/{a name of a manifest}           | manifest    | none: the version counts
 * data/{stem}.lance                          | data        | data/{stem}
 * data/{stem}/{32 binary digits}.blob        | blob        | data/{stem}
 * _deletions/{n}-{n}-{n}.arrow, .bin         | deletion    | the path
 * _transactions/{n}-{uuid}.txn               | transaction | the path
 * _indices/{uuid}/…                          | index       | _indices/{uuid}
 * _versions/.tmp…, data/.tmp…                | temporary   | none
 * …/.tmp_{16 hex digits}                     | temporary   | none: what a local store of ours writes to before it renames
 * anything else                              | unknown     | none: it stays for ever
 *
 * A manifest's name must be exactly the one that its version has. Data files are keyed by their names whatever base they are said to lie in: names are
 * random, so a file of that name in this table is the one that is meant, however the base is spelled and wherever the table was moved to.
 * Source: spec commits 11.2, 14, table-format 3.1, 10.1. */
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "table/cleanup_private.h"

#define BLOB_NAME_DIGITS 32u
#define STAGING_DIGITS 16u

static const char *const KIND_NAMES[CLEANUP_KINDS] = {"manifest", "data",        "blob",      "deletion",
                                                      "index",    "transaction", "temporary", "unknown"};

const char *cleanup_kind_name(enum cleanup_kind kind)
{
    ASSERT(kind < CLEANUP_KINDS);
    return KIND_NAMES[kind];
}

/* ---- names ---- */

/* The text behind `prefix`, or NULL. */
static const char *behind(const char *text, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(text, prefix, n) == 0 ? text + n : NULL;
}

static bool ends_with(const char *text, size_t n, const char *end)
{
    size_t e = strlen(end);
    return n > e && memcmp(text + n - e, end, e) == 0;
}

/* A number of 64 bits in decimal, then `stop`; *text moves behind it. */
static bool take_number(const char **text, char stop)
{
    uint64_t v = 0;
    const char *p = *text;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (mul_overflows(v, 10, &v) || add_overflows(v, (uint64_t)(*p - '0'), &v)) return false;
    }
    bool good = p != *text && *p == stop;
    *text = p + 1;
    return good;
}

/* 36 characters, lower case, as everybody writes them. */
static bool is_uuid(const char *text, size_t n)
{
    uint8_t id[16];
    char again[37];
    if (n != 36 || !uuid_parse(text, n, id)) return false;
    uuid_text(id, again);
    return memcmp(text, again, 36) == 0;
}

static bool is_staging(const char *name)
{
    const char *digits = behind(name, ".tmp_");
    return digits != NULL && strlen(digits) == STAGING_DIGITS && strspn(digits, "0123456789abcdef") == STAGING_DIGITS;
}

static void parse_manifest(const char *name, struct cleanup_name *out)
{
    struct manifest_name m;
    char exact[MANIFEST_NAME_BYTES];
    if (!manifest_name_parse(name, &m)) return;
    manifest_name_text(m.version, m.v2, exact);
    if (strcmp(exact, name) != 0) return;
    *out = (struct cleanup_name){.kind = CLEANUP_MANIFEST, .version = m.version, .v2 = m.v2};
}

static void parse_data(const char *path, const char *rest, struct cleanup_name *out)
{
    const char *slash = strchr(rest, '/');
    size_t n = strlen(rest);
    if (slash == NULL && ends_with(rest, n, ".lance")) {
        out->kind = CLEANUP_DATA;
        out->key = bytes_of(path, (size_t)(rest - path) + n - strlen(".lance"));
        return;
    }
    if (slash == NULL || slash == rest) return;
    const char *name = slash + 1;
    if (strspn(name, "01") != BLOB_NAME_DIGITS || strcmp(name + BLOB_NAME_DIGITS, ".blob") != 0) return;
    out->kind = CLEANUP_BLOB;
    out->key = bytes_of(path, (size_t)(slash - path));
}

static void parse_deletion(const char *path, const char *rest, struct cleanup_name *out)
{
    if (!take_number(&rest, '-') || !take_number(&rest, '-') || !take_number(&rest, '.')) return;
    if (strcmp(rest, "arrow") != 0 && strcmp(rest, "bin") != 0) return;
    out->kind = CLEANUP_DELETION;
    out->key = bytes_str(path);
}

static void parse_transaction(const char *path, const char *rest, struct cleanup_name *out)
{
    if (!take_number(&rest, '-') || strlen(rest) != 40 || !is_uuid(rest, 36) || strcmp(rest + 36, ".txn") != 0) return;
    out->kind = CLEANUP_TRANSACTION;
    out->key = bytes_str(path);
}

static void parse_index(const char *path, const char *rest, struct cleanup_name *out)
{
    const char *slash = strchr(rest, '/');
    if (slash == NULL || slash[1] == '\0' || !is_uuid(rest, (size_t)(slash - rest))) return;
    out->kind = CLEANUP_INDEX;
    out->key = bytes_of(path, (size_t)(slash - path));
}

void cleanup_name_parse(const char *path, struct cleanup_name *out)
{
    const char *rest, *name = path_name(path);
    *out = (struct cleanup_name){.kind = CLEANUP_UNKNOWN};
    if (is_staging(name) && name != path) {
        out->kind = CLEANUP_TEMPORARY;
    } else if ((rest = behind(path, "_versions/")) != NULL) {
        if (rest == name && behind(name, ".tmp") != NULL) {
            out->kind = CLEANUP_TEMPORARY;
        } else if (rest == name) {
            parse_manifest(name, out);
        }
    } else if ((rest = behind(path, "data/")) != NULL) {
        if (rest == name && behind(name, ".tmp") != NULL) {
            out->kind = CLEANUP_TEMPORARY;
        } else {
            parse_data(path, rest, out);
        }
    } else if ((rest = behind(path, "_deletions/")) != NULL) {
        parse_deletion(path, rest, out);
    } else if ((rest = behind(path, "_transactions/")) != NULL) {
        parse_transaction(path, rest, out);
    } else if ((rest = behind(path, "_indices/")) != NULL) {
        parse_index(path, rest, out);
    }
}

/* ---- the set: open addressing, at most half full ---- */

void cleanup_set_init(struct cleanup_set *s, struct mem *m)
{
    *s = (struct cleanup_set){.mem = m};
    arena_init(&s->arena, m);
}

void cleanup_set_free(struct cleanup_set *s)
{
    mem_free(s->mem, s->slots);
    arena_reset(&s->arena);
    *s = (struct cleanup_set){.mem = s->mem};
}

/* The slot of the key, or the free one where it belongs. The set has a free slot. */
static struct cleanup_ref *find_slot(struct cleanup_ref *slots, size_t n_slots, struct bytes key)
{
    ASSERT(n_slots > 0 && (n_slots & (n_slots - 1)) == 0);
    size_t at = (size_t)XXH3_64bits(key.data, key.size) & (n_slots - 1);
    while (slots[at].key.size > 0 && !bytes_equal(slots[at].key, key)) at = (at + 1) & (n_slots - 1);
    return &slots[at];
}

static pennon_status set_grow(struct cleanup_set *s, pennon_error *err)
{
    size_t n_slots = s->n_slots > 0 ? s->n_slots * 2 : 256;
    struct cleanup_ref *slots = mem_calloc(s->mem, n_slots, sizeof *slots, err);
    if (slots == NULL) return err->code;
    for (size_t i = 0; i < s->n_slots; i++) {
        if (s->slots[i].key.size > 0) *find_slot(slots, n_slots, s->slots[i].key) = s->slots[i];
    }
    mem_free(s->mem, s->slots);
    s->slots = slots;
    s->n_slots = n_slots;
    return PENNON_OK;
}

pennon_status cleanup_set_put(struct cleanup_set *s, struct bytes key, struct cleanup_ref **out, pennon_error *err)
{
    ASSERT(key.size > 0);
    if (s->n * 2 >= s->n_slots) TRY_RETURN(set_grow(s, err));
    struct cleanup_ref *slot = find_slot(s->slots, s->n_slots, key);
    if (slot->key.size == 0) {
        char *copy = arena_strndup(&s->arena, (const char *)key.data, key.size, err);
        if (copy == NULL) return err->code;
        *slot = (struct cleanup_ref){.key = bytes_of(copy, key.size)};
        s->n++;
    }
    *out = slot;
    return PENNON_OK;
}

const struct cleanup_ref *cleanup_set_find(const struct cleanup_set *s, struct bytes key)
{
    if (s->n == 0 || key.size == 0) return NULL;
    const struct cleanup_ref *slot = find_slot(s->slots, s->n_slots, key);
    return slot->key.size > 0 ? slot : NULL;
}

/* ---- what a version names ---- */

/* One version that is being gone through. */
struct naming {
    const struct cleanup_namer *by;
    struct cleanup_set *set;
    struct buf text; /* scratch for keys */
};

static pennon_status add_key(struct naming *w, struct bytes key, pennon_error *err)
{
    struct cleanup_ref *ref;
    TRY_RETURN(cleanup_set_put(w->set, key, &ref, err));
    if (w->by->kept != NULL) {
        if (ref->kept == NULL) ref->kept = w->by->kept;
    } else if (ref->last_old < w->by->old) {
        ref->last_old = w->by->old;
    }
    return PENNON_OK;
}

/* Name a file by its path below the table. What is no file that cleanup would remove needs no entry. */
static pennon_status add_path(struct naming *w, pennon_error *err)
{
    struct cleanup_name name;
    TRY_RETURN(buf_terminate(&w->text, err));
    cleanup_name_parse((const char *)w->text.data, &name);
    return name.key.size > 0 ? add_key(w, name.key, err) : PENNON_OK;
}

/* A data file of another ending is none that cleanup would remove, but its blob files are found by its stem. */
static pennon_status add_stem(struct naming *w, const char *path, pennon_error *err)
{
    const char *dot = strrchr(path, '.');
    size_t n = dot != NULL && dot != path ? (size_t)(dot - path) : strlen(path);
    if (ends_with(path, strlen(path), ".lance") || n == 0) return PENNON_OK;
    w->text.size = 0;
    TRY_RETURN(buf_append(&w->text, "data/", 5, err));
    TRY_RETURN(buf_append(&w->text, path, n, err));
    return add_key(w, bytes_of(w->text.data, w->text.size), err);
}

/* Escaped as official does, and as it stands: which of the two is there, the reader finds out. */
static pennon_status add_data_file(struct naming *w, const char *path, pennon_error *err)
{
    TRY_RETURN(add_stem(w, path, err));
    w->text.size = 0;
    TRY_RETURN(buf_append(&w->text, "data/", 5, err));
    TRY_RETURN(path_segment_escape(path, &w->text, err));
    TRY_RETURN(add_path(w, err));
    if (strcmp((const char *)w->text.data + 5, path) == 0) return PENNON_OK;
    w->text.size = 0;
    TRY_RETURN(buf_printf(&w->text, err, "data/%s", path));
    return add_path(w, err);
}

/* Row ids or row versions in a file of their own, named from the table's folder. */
static pennon_status add_external(struct naming *w, const struct external_file_message *m, pennon_error *err)
{
    if (m == NULL || m->path.size == 0 || memchr(m->path.data, 0, m->path.size) != NULL) return PENNON_OK;
    w->text.size = 0;
    TRY_RETURN(buf_append(&w->text, m->path.data, m->path.size, err));
    return add_path(w, err);
}

static pennon_status add_fragment(struct naming *w, const struct fragment *f, pennon_error *err)
{
    const struct fragment_message *m = f->message;
    const struct deletion_file_message *d = f->deletion;
    for (uint32_t i = 0; i < f->n_files; i++) {
        if (!w->by->other_line || f->files[i].base != NO_BASE) TRY_RETURN(add_data_file(w, f->files[i].path, err));
    }
    if (d != NULL && (!w->by->other_line || d->has_base_id)) {
        w->text.size = 0;
        TRY_RETURN(buf_printf(&w->text, err, "_deletions/%u-%" PRIu64 "-%" PRIu64 ".%s", f->id, d->read_version, d->id,
                              d->file_type == 0 ? "arrow" : "bin"));
        TRY_RETURN(add_path(w, err));
    }
    if (w->by->other_line) return PENNON_OK;
    TRY_RETURN(add_external(w, m->external_row_ids, err));
    TRY_RETURN(add_external(w, m->external_created, err));
    return add_external(w, m->external_last_updated, err);
}

static pennon_status add_indices(struct naming *w, const struct index_section_message *section, pennon_error *err)
{
    for (size_t i = 0; i < section->n_indices; i++) {
        const struct index_metadata_message *x = &section->indices[i];
        char uuid[37];
        if (w->by->other_line && !x->has_base_id) continue;
        CHECK_FILE_RETURN(x->uuid != NULL && x->uuid->uuid.size == 16, "manifest: an index without a UUID");
        uuid_text(x->uuid->uuid.data, uuid);
        w->text.size = 0;
        TRY_RETURN(buf_printf(&w->text, err, "_indices/%s", uuid));
        TRY_RETURN(add_key(w, bytes_of(w->text.data, w->text.size), err));
    }
    return PENNON_OK;
}

/* The indices of the version. A reader does without a section that cannot be read; here that would take every index for garbage. */
static pennon_status read_indices(const struct call *c, const struct snapshot *s, struct arena *scratch,
                                  struct index_section_message *out, pennon_error *err)
{
    struct bytes section;
    TRY_RETURN(snapshot_section(c, s, SECTION_INDICES, &section, err));
    CHECK_FILE_RETURN(!s->manifest.has_index_section || section.data != NULL,
                      "manifest: the index section cannot be read, and what it names is not known");
    return section.size > 0 ? wire_decode(&index_section_table, section, scratch, out, err) : PENNON_OK;
}

pennon_status cleanup_add_version(const struct call *c, struct snapshot *s, const struct cleanup_namer *namer,
                                  struct cleanup_set *set, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct index_section_message section = {0};
    struct naming w = {.by = namer, .set = set};
    struct arena scratch;
    struct bytes txn = s->manifest.transaction_file;
    ASSERT(namer->kept != NULL || namer->old > 0);
    arena_init(&scratch, c->mem);
    buf_init(&w.text, c->mem, 1 << 24);
    TRY(read_indices(c, s, &scratch, &section, err));
    TRY(add_indices(&w, &section, err));
    for (size_t i = 0; i < s->n_fragments; i++) {
        TRY(fragment_load(s, &s->fragments[i], err));
        TRY(add_fragment(&w, &s->fragments[i], err));
    }
    if (txn.size > 0 && !namer->other_line && memchr(txn.data, 0, txn.size) == NULL) {
        w.text.size = 0;
        TRY(buf_printf(&w.text, err, "_transactions/%.*s", (int)min_u64(txn.size, 4096), (const char *)txn.data));
        TRY(add_path(&w, err));
    }
done:
    buf_free(&w.text);
    arena_reset(&scratch);
    if (st != PENNON_OK) (void)error_where(err, s->at.uri, s->manifest_path, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE);
    return st;
}

/* ---- the files there are ---- */

void cleanup_files_init(struct cleanup_files *f, struct mem *m)
{
    *f = (struct cleanup_files){.mem = m};
    arena_init(&f->arena, m);
}

void cleanup_files_free(struct cleanup_files *f)
{
    mem_free(f->mem, f->items);
    arena_reset(&f->arena);
    *f = (struct cleanup_files){.mem = f->mem};
}

struct listing_files {
    struct cleanup_files *out;
    size_t skip; /* bytes of the table's folder and its slash */
    pennon_status st;
    pennon_error err;
};

static bool see_file(void *ctx, const pennon_object_info *info)
{
    struct listing_files *l = ctx;
    struct cleanup_files *f = l->out;
    ASSERT(strlen(info->path) > l->skip);
    l->st = mem_grow(f->mem, &f->items, &f->cap, f->n, sizeof *f->items, UINT32_MAX, &l->err);
    if (l->st != PENNON_OK) return false;
    struct cleanup_file *item = &f->items[f->n];
    item->path = arena_strndup(&f->arena, info->path + l->skip, strlen(info->path + l->skip), &l->err);
    if (item->path == NULL) {
        l->st = l->err.code;
        return false;
    }
    item->bytes = info->size;
    item->modified_ns = info->modified_ns;
    cleanup_name_parse(item->path, &item->name);
    f->n++;
    return true;
}

static int compare_files(const void *x, const void *y)
{
    const struct cleanup_file *a = x, *b = y;
    return strcmp(a->path, b->path);
}

pennon_status cleanup_list_files(const struct call *c, const struct table_location *at, struct cleanup_files *out,
                                 pennon_error *err)
{
    /* Manifests last: a commit that lands meanwhile is seen, and so is what it names. */
    static const char *const folders[] = {"data", "_deletions", "_indices", "_transactions", "_versions"};
    pennon_status st = PENNON_OK;
    struct listing_files l = {.out = out, .skip = strlen(at->path) + (at->path[0] != '\0')};
    char *folder = NULL;
    pennon_error_init(&l.err);
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        TRY_NEW(folder, store_join(c->mem, at->path, folders[i], err));
        st = store_list(c, at->store, folder, true, see_file, &l, err);
        mem_free(c->mem, folder);
        if (st == PENNON_NOT_FOUND) st = PENNON_OK;
        if (st == PENNON_OK && l.st != PENNON_OK) st = error_move(err, &l.err);
        if (st != PENNON_OK) goto done;
    }
    if (out->n > 0) qsort(out->items, out->n, sizeof *out->items, compare_files);
done:
    pennon_error_clear(&l.err);
    return st;
}
