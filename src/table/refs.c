/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Tags and branches: small JSON files at the root of the main line.
 *
 * file                              | keys that must be there                     | others
 * ----------------------------------|---------------------------------------------|-------------------------------
 * _refs/tags/{name}.json            | version, manifestSize                       | branch (null = main), createdAt, …
 * _refs/branches/{name}.json        | parentVersion, createAt, manifestSize       | parentBranch (null = main), identifier, …
 * Names are percent-encoded: a slash is %2F, what is not ASCII is escaped byte by byte.
 *
 * A file that does not parse is left out of a list with a warning; asked for by name it is an error.
 * Source: spec commits 10.2, 10.3. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "table/table_private.h"

void ref_entry_free(struct mem *m, struct ref_entry *e)
{
    mem_free(m, e->name);
    mem_free(m, e->branch);
    mem_free(m, e->metadata);
    mem_free(m, e->path);
    *e = (struct ref_entry){0};
}

void ref_entries_free(struct mem *m, struct ref_entry *entries, size_t n)
{
    for (size_t i = 0; entries != NULL && i < n; i++) ref_entry_free(m, &entries[i]);
    mem_free(m, entries);
}

/* ---- names ---- */

static bool is_plain(unsigned char ch)
{
    return (ch >= '0' && ch <= '9') || (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || ch == '.' || ch == '-' || ch == '_';
}

static pennon_status encode_name(const char *name, struct buf *out, pennon_error *err)
{
    for (const char *p = name; *p != '\0'; p++) {
        unsigned char ch = (unsigned char)*p;
        TRY_RETURN(is_plain(ch) ? buf_append_byte(out, ch, err) : buf_printf(out, err, "%%%02X", ch));
    }
    return buf_terminate(out, err);
}

static int hex_digit(char ch)
{
    if (ch >= '0' && ch <= '9') return ch - '0';
    ch = (char)(ch | 0x20);
    return ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1;
}

/* In m; NULL with err: CORRUPT when it is no text. */
static char *decode_name(struct mem *m, const char *text, size_t n, pennon_error *err)
{
    char *out = mem_alloc(m, n + 1, err);
    size_t at = 0;
    if (out == NULL) return NULL;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '%' && n - i > 2 && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0) {
            char ch = (char)(hex_digit(text[i + 1]) << 4 | hex_digit(text[i + 2]));
            out[at++] = ch != '\0' ? ch : '%';
            i += 2;
        } else {
            out[at++] = text[i];
        }
    }
    out[at] = '\0';
    if (utf8_valid((const uint8_t *)out, at)) return out;
    (void)error_set(err, PENNON_CORRUPT, "the name of a ref is not UTF-8");
    mem_free(m, out);
    return NULL;
}

/* ---- files ---- */

static bool number_of(const json_t *object, const char *key, uint64_t *out)
{
    const json_t *v = json_object_get(object, key);
    if (!json_is_integer(v) || json_integer_value(v) < 0) return false;
    *out = (uint64_t)json_integer_value(v);
    return true;
}

/* A text or NULL for null and absent; false for anything else. */
static bool text_or_null(const json_t *object, const char *key, const char **out)
{
    const json_t *v = json_object_get(object, key);
    *out = json_is_string(v) ? json_string_value(v) : NULL;
    return v == NULL || json_is_null(v) || json_is_string(v);
}

/* FNV-1a of 64 bits. */
static uint64_t fnv(uint64_t hash, const char *text)
{
    for (const char *p = text; *p != '\0'; p++) hash = (hash ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
    return hash;
}

/* The step that stands for a branch file of a release that wrote no identifier; two readers make the same one. `out->name` is not known here: the
 * caller gives it. */
static void made_up_step(const char *name, const char *parent, uint64_t version, uint64_t created, struct branch_step *out)
{
    static const uint64_t BASIS = UINT64_C(0xcbf29ce484222325);
    uint64_t hash[2] = {BASIS, BASIS ^ UINT64_C(0x9e3779b97f4a7c15)};
    char numbers[96];
    int n = snprintf(numbers, sizeof numbers, "\nparent_version=%" PRIu64 "\ncreate_at=%" PRIu64, version, created);
    ASSERT(n > 0 && (size_t)n < sizeof numbers);
    for (int i = 0; i < 2; i++) {
        hash[i] = fnv(hash[i], "branch_name=");
        hash[i] = fnv(hash[i], name);
        hash[i] = fnv(hash[i], "\nparent_branch=");
        hash[i] = fnv(hash[i], parent != NULL ? parent : "");
        hash[i] = fnv(hash[i], numbers);
    }
    out->version = 0;
    n = snprintf(out->id, sizeof out->id, "%016" PRIx64 "%016" PRIx64, hash[0], hash[1]);
    ASSERT(n == 32);
    UNUSED(n);
}

static bool parse_step(const json_t *pair, struct branch_step *out)
{
    const json_t *version = json_array_get(pair, 0), *id = json_array_get(pair, 1);
    if (json_array_size(pair) != 2 || !json_is_integer(version) || json_integer_value(version) < 0 || !json_is_string(id))
        return false;
    if (json_string_length(id) != 32) return false;
    for (const char *p = json_string_value(id); *p != '\0'; p++) {
        if (hex_digit(*p) < 0) return false;
    }
    out->version = (uint64_t)json_integer_value(version);
    memcpy(out->id, json_string_value(id), 33);
    return true;
}

/* The way from main. */
static pennon_status parse_path(struct mem *m, const json_t *json, const char *name, uint64_t created, struct ref_entry *out,
                                pennon_error *err)
{
    const json_t *identifier = json_object_get(json, "identifier");
    const json_t *steps = json_object_get(identifier, "version_mapping");
    size_t n = json_array_size(steps);
    CHECK_FILE_RETURN(identifier == NULL || json_is_null(identifier) || (json_is_array(steps) && n > 0),
                      "identifier holds no version_mapping");
    out->path = mem_calloc(m, n > 0 ? n : 1, sizeof *out->path, err);
    if (out->path == NULL) return err->code;
    out->n_path = n > 0 ? n : 1;
    if (n == 0) made_up_step(name, out->branch, out->version, created, &out->path[0]);
    for (size_t i = 0; i < n; i++)
        CHECK_FILE_RETURN(parse_step(json_array_get(steps, i), &out->path[i]), "version_mapping holds no pair of number and id");
    return PENNON_OK;
}

/* A time; what is none, or not there, is not known. */
static int64_t time_of(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    int64_t ns;
    return json_is_string(v) && time_parse(json_string_value(v), &ns) ? ns : INT64_MIN;
}

static pennon_status parse_metadata(struct mem *m, const json_t *json, struct ref_entry *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf text;
    const char *key;
    json_t *value, *metadata = json_object_get(json, "metadata");
    buf_init(&text, m, REF_FILE_MAX * 8);
    CHECK_FILE(metadata == NULL || json_is_object(metadata), "metadata is no object");
    TRY(buf_append_byte(&text, '{', err));
    json_object_foreach(metadata, key, value)
    {
        CHECK_FILE(json_is_string(value), "metadata '%.128s' is no text", key);
        if (text.size > 1) TRY(buf_printf(&text, err, ", "));
        TRY(json_put_text(&text, bytes_str(key), err));
        TRY(buf_printf(&text, err, ": "));
        TRY(json_put_text(&text, bytes_of(json_string_value(value), json_string_length(value)), err));
    }
    TRY(buf_append_byte(&text, '}', err));
    TRY_NEW(out->metadata, mem_strndup(m, (const char *)text.data, text.size, err));
done:
    buf_free(&text);
    return st;
}

pennon_status ref_parse(struct mem *m, struct bytes file, bool tag, struct ref_entry *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    json_error_t why;
    const char *branch = NULL;
    uint64_t created = 0;
    json_t *json = json_loadb((const char *)file.data, file.size, 0, &why);
    CHECK_FILE(json != NULL, "it is no JSON: %s (byte %d)", why.text, why.position);
    CHECK_FILE(json_is_object(json), "it is no JSON object");
    CHECK_FILE(number_of(json, tag ? "version" : "parentVersion", &out->version), "%s is missing or no number",
               tag ? "version" : "parentVersion");
    CHECK_FILE(number_of(json, "manifestSize", &out->manifest_size), "manifestSize is missing or no number");
    CHECK_FILE(tag || number_of(json, "createAt", &created), "createAt is missing or no number");
    CHECK_FILE(text_or_null(json, tag ? "branch" : "parentBranch", &branch), "%s is no text", tag ? "branch" : "parentBranch");
    if (branch != NULL) TRY_NEW(out->branch, mem_strdup(m, branch, err));
    out->created_ns = tag ? time_of(json, "createdAt") : INT64_MIN;
    out->updated_ns = tag ? time_of(json, "updatedAt") : INT64_MIN;
    TRY(parse_metadata(m, json, out, err));
    if (!tag) TRY(parse_path(m, json, out->name != NULL ? out->name : "", created, out, err));
    if (!tag && created <= (uint64_t)INT64_MAX / 1000000000) out->created_ns = (int64_t)created * 1000000000;
done:
    json_decref(json);
    return st;
}

static pennon_status read_ref(const struct call *c, pennon_store *store, const char *path, bool tag, struct ref_entry *out,
                              pennon_error *err)
{
    struct block *file = NULL;
    TRY_RETURN(store_get(c, store, path, REF_FILE_MAX, &file, err));
    pennon_status st = ref_parse(c->mem, bytes_of(file->data, file->size), tag, out, err);
    block_release(file);
    if (st == PENNON_CORRUPT) (void)error_prefix(err, "%s '%.256s'", tag ? "tag file" : "branch file", path_name(path));
    if (st != PENNON_OK) (void)store_error(store, path, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, err);
    return st;
}

char *ref_file_path(struct mem *m, const struct table_location *at, bool tag, const char *name, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    char *root = NULL, *path = NULL;
    struct buf encoded;
    buf_init(&encoded, m, 1 << 16);
    TRY_NEW(root, root_path(m, at, err));
    TRY(encode_name(name, &encoded, err));
    path = mem_printf(m, err, "%s%s_refs/%s/%s.json", root, root[0] != '\0' ? "/" : "", tag ? "tags" : "branches",
                      (const char *)encoded.data);
done:
    UNUSED(st);
    buf_free(&encoded);
    mem_free(m, root);
    return path;
}

pennon_status ref_path(const struct call *c, const struct table_location *at, bool tag, const char *name, char **out,
                       pennon_error *err)
{
    if (tag ? !tag_name_valid(name) : !branch_name_valid(name)) {
        (void)error_set(err, PENNON_INVALID_ARGUMENT, "'%.256s' is no name of a %s", name, tag ? "tag" : "branch");
        return error_kind(err, "InvalidRef");
    }
    *out = ref_file_path(c->mem, at, tag, name, err);
    return *out != NULL ? PENNON_OK : err->code;
}

static pennon_status read_named(const struct call *c, const struct table_location *at, bool tag, const char *name,
                                struct ref_entry *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    char *path = NULL;
    TRY(ref_path(c, at, tag, name, &path, err));
    TRY_NEW(out->name, mem_strdup(c->mem, name, err));
    st = read_ref(c, at->store, path, tag, out, err);
    if (st == PENNON_NOT_FOUND) {
        (void)error_set(err, PENNON_NOT_FOUND, "the table '%.512s' has no %s '%.128s'", at->uri, tag ? "tag" : "branch", name);
        st = error_kind(err, "RefNotFound");
    }
done:
    mem_free(c->mem, path);
    return st;
}

pennon_status read_tag(const struct call *c, const struct table_location *at, const char *name, struct ref_entry *out,
                       pennon_error *err)
{
    return read_named(c, at, true, name, out, err);
}

pennon_status read_branch(const struct call *c, const struct table_location *at, const char *name, struct ref_entry *out,
                          pennon_error *err)
{
    return read_named(c, at, false, name, out, err);
}

/* ---- lists ---- */

struct names {
    struct mem *mem;
    char **paths;
    size_t n, cap;
    pennon_status st;
    pennon_error err;
};

static bool collect_path(void *ctx, const pennon_object_info *info)
{
    struct names *l = ctx;
    size_t n = strlen(info->path);
    if (n < 6 || strcmp(info->path + n - 5, ".json") != 0) return true;
    l->st = mem_grow(l->mem, &l->paths, &l->cap, l->n, sizeof *l->paths, SIZE_MAX / sizeof *l->paths, &l->err);
    if (l->st != PENNON_OK) return false;
    l->paths[l->n] = mem_strdup(l->mem, info->path, &l->err);
    if (l->paths[l->n] == NULL) l->st = l->err.code;
    return l->paths[l->n] != NULL && ++l->n > 0;
}

static int compare_tags(const void *x, const void *y)
{
    const struct ref_entry *a = x, *b = y;
    if (a->version != b->version) return a->version > b->version ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int compare_branches(const void *x, const void *y)
{
    const struct ref_entry *a = x, *b = y;
    return strcmp(a->name, b->name);
}

/* What cannot be read is left out, and told to `fault` when there is one; unless the call itself is over, or `whole` asks for all. */
static pennon_status read_listed(const struct call *c, const struct table_location *at, const struct names *l, bool tag, bool whole,
                                 ref_fault_fn fault, void *ctx, struct ref_entry *entries, size_t *n, pennon_error *err)
{
    for (size_t i = 0; i < l->n; i++) {
        struct ref_entry *e = &entries[*n];
        const char *name = path_name(l->paths[i]);
        e->name = decode_name(c->mem, name, strlen(name) - 5, err);
        pennon_status st = e->name != NULL ? read_ref(c, at->store, l->paths[i], tag, e, err) : err->code;
        if (st == PENNON_OK) {
            ++*n;
            continue;
        }
        ref_entry_free(c->mem, e);
        if ((whole || st != PENNON_CORRUPT) && st != PENNON_NOT_FOUND) return st;
        if (fault != NULL && st == PENNON_CORRUPT) {
            (void)store_error(at->store, l->paths[i], PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE, err);
            fault(ctx, err);
        } else {
            call_log(c, PENNON_LOG_WARN, "left out: %s", err->message);
        }
        pennon_error_clear(err);
    }
    return PENNON_OK;
}

static pennon_status list_all(const struct call *c, const struct table_location *at, bool tag, bool whole, ref_fault_fn fault,
                              void *ctx, struct ref_entry **out, size_t *n, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct names l = {.mem = c->mem};
    struct ref_entry *entries = NULL;
    char *root = NULL, *folder = NULL;
    size_t found = 0;
    pennon_error_init(&l.err);
    TRY_NEW(root, root_path(c->mem, at, err));
    TRY_NEW(folder, store_join(c->mem, root, tag ? "_refs/tags" : "_refs/branches", err));
    st = store_list(c, at->store, folder, false, collect_path, &l, err);
    if (st == PENNON_NOT_FOUND) st = PENNON_OK;
    if (st == PENNON_OK && l.st != PENNON_OK) st = error_move(err, &l.err);
    if (st != PENNON_OK) goto done;
    TRY_NEW(entries, mem_calloc(c->mem, l.n, sizeof *entries, err));
    TRY(read_listed(c, at, &l, tag, whole, fault, ctx, entries, &found, err));
    if (found > 0) qsort(entries, found, sizeof *entries, tag ? compare_tags : compare_branches);
    *out = entries;
    *n = found;
    entries = NULL;
done:
    ref_entries_free(c->mem, entries, found);
    for (size_t i = 0; i < l.n; i++) mem_free(c->mem, l.paths[i]);
    mem_free(c->mem, l.paths);
    pennon_error_clear(&l.err);
    mem_free(c->mem, root);
    mem_free(c->mem, folder);
    return st;
}

pennon_status list_tags(const struct call *c, const struct table_location *at, struct ref_entry **out, size_t *n, pennon_error *err)
{
    return list_refs(c, at, true, NULL, NULL, out, n, err);
}

pennon_status list_branches(const struct call *c, const struct table_location *at, struct ref_entry **out, size_t *n,
                            pennon_error *err)
{
    return list_refs(c, at, false, NULL, NULL, out, n, err);
}

pennon_status list_refs(const struct call *c, const struct table_location *at, bool tag, ref_fault_fn fault, void *ctx,
                        struct ref_entry **out, size_t *n, pennon_error *err)
{
    return list_all(c, at, tag, false, fault, ctx, out, n, err);
}

pennon_status list_refs_whole(const struct call *c, const struct table_location *at, bool tag, struct ref_entry **out, size_t *n,
                              pennon_error *err)
{
    return list_all(c, at, tag, true, NULL, NULL, out, n, err);
}
