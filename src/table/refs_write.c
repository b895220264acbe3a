/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Writing tag and branch files: their JSON as official prints it, creation that one of several wins, changes that do not overwrite unseen ones.
 *
 * tag      branch, version, createdAt, updatedAt, manifestSize, metadata
 * branch   parentBranch, identifier, parentVersion, createAt, manifestSize, metadata
 * Two blanks an indentation step, one member a line, no line end; times that are not known are left out; members that a newer release has put in stay,
 * behind the others.
 *
 * create   one put that fails when there is an object. A put that does not say OK is not believed: the file is read, and its bytes tell whose it is.
 * update   read, look once more whether the object is still the one that was read (size, time, etag), overwrite. Stores offer no conditional
 *          overwrite, so two updates within that moment may still pass each other; the last one stays.
 * Source: spec commits 10.2, 10.3. */
#include "table/refs_private.h"

#include <utf8proc.h>

/* ---- names ---- */

/* New names hold letters and digits, '.', '-' and '_'; readers let more pass. Branches may have those of any script. Of tags official lets them be made, but
 * with one in the table it lists no tags and cleans up nothing. */
static bool name_is_text(const char *name, bool tag)
{
    const uint8_t *p = (const uint8_t *)name;
    for (size_t left = strlen(name); left > 0;) {
        utf8proc_int32_t c = 0;
        utf8proc_ssize_t n = utf8proc_iterate(p, (utf8proc_ssize_t)min_u64(left, 4), &c);
        if (n <= 0) return false;
        utf8proc_category_t kind = utf8proc_category(c);
        bool word = (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO) ||
                    (kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO);
        if (c >= 0x80 && (tag || !word)) return false;
        p += n;
        left -= (size_t)n;
    }
    return true;
}

pennon_status ref_name_check(const char *name, bool tag, pennon_error *err)
{
    bool good = (tag ? tag_name_valid(name) : branch_name_valid(name)) && name_is_text(name, tag) && strlen(name) <= REF_NAME_MAX;
    if (good) return PENNON_OK;
    (void)error_set(
        err, PENNON_INVALID_ARGUMENT,
        "'%.256s' is no name for a %s: it has %sletters, digits, '.', '-' and '_'%s, does not begin or end with '.', has no "
        "'..' and does not end with '.lock'%s",
        name, tag ? "tag" : "branch", tag ? "ASCII " : "", tag ? "" : " in parts between '/'", tag ? "" : "; main is reserved");
    return error_kind(err, "InvalidRef");
}

/* ---- JSON ---- */

static pennon_status put_text(struct buf *out, struct bytes text, pennon_error *err)
{
    static const char shorts[] = "btn\0fr"; /* of 8 to 13; 11 has none */
    TRY_RETURN(buf_append_byte(out, '"', err));
    for (size_t i = 0; i < text.size; i++) {
        uint8_t ch = text.data[i];
        if (ch == '"' || ch == '\\') {
            TRY_RETURN(buf_printf(out, err, "\\%c", ch));
        } else if (ch >= 8 && ch <= 13 && ch != 11) {
            TRY_RETURN(buf_printf(out, err, "\\%c", shorts[ch - 8]));
        } else if (ch < 0x20) {
            TRY_RETURN(buf_printf(out, err, "\\u%04x", ch));
        } else {
            TRY_RETURN(buf_append_byte(out, ch, err));
        }
    }
    return buf_append_byte(out, '"', err);
}

static pennon_status put_text_or_null(struct buf *out, const char *key, const char *text, pennon_error *err)
{
    TRY_RETURN(buf_printf(out, err, "  \"%s\": ", key));
    TRY_RETURN(text != NULL ? put_text(out, bytes_str(text), err) : buf_printf(out, err, "null"));
    return buf_printf(out, err, ",\n");
}

static pennon_status put_number(struct buf *out, const char *key, uint64_t v, pennon_error *err)
{
    return buf_printf(out, err, "  \"%s\": %" PRIu64 ",\n", key, v);
}

static pennon_status put_path(struct buf *out, const struct branch_step *path, size_t n, pennon_error *err)
{
    ASSERT(n > 0);
    TRY_RETURN(buf_printf(out, err, "  \"identifier\": {\n    \"version_mapping\": [\n"));
    for (size_t i = 0; i < n; i++) {
        TRY_RETURN(buf_printf(out, err, "      [\n        %" PRIu64 ",\n        \"%s\"\n      ]%s\n", path[i].version, path[i].id,
                              i + 1 < n ? "," : ""));
    }
    return buf_printf(out, err, "    ]\n  },\n");
}

static pennon_status put_metadata(struct buf *out, const struct field_pair *pairs, size_t n, pennon_error *err)
{
    TRY_RETURN(buf_printf(out, err, "  \"metadata\": {"));
    for (size_t i = 0; i < n; i++) {
        if (!utf8_valid(pairs[i].key.data, pairs[i].key.size) || !utf8_valid(pairs[i].value.data, pairs[i].value.size))
            return error_set(err, PENNON_INVALID_ARGUMENT, "member %zu of the metadata is not UTF-8", i);
        TRY_RETURN(buf_printf(out, err, "%s\n    ", i > 0 ? "," : ""));
        TRY_RETURN(put_text(out, pairs[i].key, err));
        TRY_RETURN(buf_printf(out, err, ": "));
        TRY_RETURN(put_text(out, pairs[i].value, err));
    }
    return buf_printf(out, err, "%s}", n > 0 ? "\n  " : "");
}

static bool is_known(const char *key, bool tag)
{
    static const char *const tags[] = {"branch", "version", "createdAt", "updatedAt", "manifestSize", "metadata"};
    static const char *const branches[] = {"parentBranch", "identifier", "parentVersion", "createAt", "manifestSize", "metadata"};
    for (size_t i = 0; i < ARRAY_LEN(tags); i++) {
        if (strcmp(key, tag ? tags[i] : branches[i]) == 0) return true;
    }
    return false;
}

struct json_sink {
    struct buf *out;
    pennon_status st;
    pennon_error *err;
};

static int take_json(const char *text, size_t n, void *ctx)
{
    struct json_sink *sink = ctx;
    sink->st = buf_append(sink->out, text, n, sink->err);
    return sink->st == PENNON_OK ? 0 : -1;
}

/* Members that are not known here. */
static pennon_status put_rest(struct buf *out, bool tag, json_t *former, pennon_error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach(former, key, value)
    {
        struct json_sink sink = {.out = out, .err = err};
        if (is_known(key, tag)) continue;
        TRY_RETURN(buf_printf(out, err, ",\n  "));
        TRY_RETURN(put_text(out, bytes_str(key), err));
        TRY_RETURN(buf_printf(out, err, ": "));
        int failed = json_dump_callback(value, take_json, &sink, JSON_ENCODE_ANY | JSON_COMPACT);
        TRY_RETURN(sink.st);
        if (failed) return error_set(err, PENNON_OUT_OF_MEMORY, "no memory for the member '%.128s' of a ref", key);
    }
    return PENNON_OK;
}

pennon_status ref_file_text(const struct ref_file *f, struct buf *out, pennon_error *err)
{
    TRY_RETURN(buf_printf(out, err, "{\n"));
    TRY_RETURN(put_text_or_null(out, f->tag ? "branch" : "parentBranch", f->branch, err));
    if (!f->tag) TRY_RETURN(put_path(out, f->path, f->n_path, err));
    TRY_RETURN(put_number(out, f->tag ? "version" : "parentVersion", f->version, err));
    if (!f->tag) TRY_RETURN(put_number(out, "createAt", f->created_s, err));
    if (f->tag && f->created != NULL) TRY_RETURN(put_text_or_null(out, "createdAt", f->created, err));
    if (f->tag && f->updated != NULL) TRY_RETURN(put_text_or_null(out, "updatedAt", f->updated, err));
    TRY_RETURN(put_number(out, "manifestSize", f->manifest_size, err));
    TRY_RETURN(put_metadata(out, f->metadata, f->n_metadata, err));
    TRY_RETURN(put_rest(out, f->tag, f->former, err));
    TRY_RETURN(buf_printf(out, err, "\n}"));
    return out->size <= REF_FILE_MAX
               ? PENNON_OK
               : error_set(err, PENNON_INVALID_ARGUMENT, "a ref file of %zu bytes; its metadata is too large", out->size);
}

/* ---- puts ---- */

uint32_t ref_put_flags(const struct call *c, uint32_t flags)
{
    return flags | (c->durability == PENNON_DURABILITY_FULL ? PENNON_PUT_SYNC : 0);
}

struct call unstoppable_call(const struct call *c)
{
    struct call quiet = *c;
    quiet.cancel = NULL;
    quiet.deadline_ns = INT64_MAX;
    return quiet;
}

/* Does the object hold these bytes? */
static bool holds(const struct call *c, pennon_store *store, const char *path, struct bytes text)
{
    struct block *file = NULL;
    pennon_error ignored;
    pennon_error_init(&ignored);
    bool same = store_get(c, store, path, REF_FILE_MAX, &file, &ignored) == PENNON_OK &&
                bytes_equal(bytes_of(file->data, file->size), text);
    block_release(file);
    pennon_error_clear(&ignored);
    return same;
}

pennon_status ref_exists_error(const struct table_location *at, bool tag, const char *name, pennon_error *err)
{
    (void)error_set(err, PENNON_ALREADY_EXISTS, "the %s '%.128s' of the table '%.512s' already exists", tag ? "tag" : "branch",
                    name, at->uri);
    return error_kind(err, "RefConflict");
}

pennon_status ref_file_put_new(const struct call *c, const struct table_location *at, const struct ref_file *f, const char *name,
                               const char *path, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct call quiet = unstoppable_call(c);
    struct buf text;
    buf_init(&text, c->mem, BUF_NO_LIMIT);
    TRY(ref_file_text(f, &text, err));
    TRY(call_check(c, err));
    struct bytes body = bytes_of(text.data, text.size);
    st = store_put(&quiet, at->store, path, body, ref_put_flags(c, PENNON_PUT_IF_ABSENT), err);
    /* The reply of a put that arrived may be lost; times to the nanosecond, or random ids, tell mine from another's. */
    if (st != PENNON_OK && holds(&quiet, at->store, path, body)) {
        pennon_error_clear(err);
        st = PENNON_OK;
    }
    if (st == PENNON_ALREADY_EXISTS) st = ref_exists_error(at, f->tag, name, err);
done:
    buf_free(&text);
    return st;
}

/* ---- which version ---- */

/* Size of the manifest of the version, whichever name it has. */
static pennon_status manifest_size(const struct call *c, const struct table_location *at, uint64_t version, bool v2_first,
                                   uint64_t *size, pennon_error *err)
{
    pennon_status st = PENNON_NOT_FOUND;
    for (int turn = 0; turn < 2 && st == PENNON_NOT_FOUND; turn++) {
        pennon_object_info info = {0};
        char *path = manifest_path(c->mem, at->path, version, (turn == 0) == v2_first, err);
        if (path == NULL) return err->code;
        st = store_head(c, at->store, path, &info, err);
        mem_free(c->mem, path);
        *size = info.size;
    }
    if (st != PENNON_NOT_FOUND) return st;
    (void)error_set(err, PENNON_NOT_FOUND, "the table '%.512s' has no version %" PRIu64, at->uri, version);
    err->version = version;
    return error_kind(err, "VersionNotFound");
}

pennon_status ref_target_find(const struct call *c, const struct table_location *at, const struct version_ref *ref,
                              struct ref_target *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ref_entry tag = {0};
    struct table_location place = {0};
    const char *branch = ref->branch != NULL ? ref->branch : at->branch;
    bool v2 = true;
    *out = (struct ref_target){.version = ref->version};
    if (ref->tag != NULL) {
        TRY(read_tag(c, at, ref->tag, &tag, err));
        out->version = tag.version;
        branch = tag.branch;
    }
    TRY(branch_location(c->mem, at, branch, &place, err));
    if (out->version == 0) TRY(latest_version(c, &place, &out->version, &v2, err));
    if (out->version == 0) {
        (void)error_set(err, PENNON_NOT_FOUND, "there is no version at '%.512s'", place.uri);
        st = error_kind(err, place.branch != NULL ? "RefNotFound" : "DatasetNotFound");
        goto done;
    }
    TRY(manifest_size(c, &place, out->version, v2, &out->manifest_size, err));
    out->branch = place.branch;
    place.branch = NULL;
done:
    ref_entry_free(c->mem, &tag);
    table_location_free(c->mem, &place);
    return st;
}

/* ---- tags ---- */

pennon_status tag_create(const struct call *c, const struct table_location *at, const char *name, const struct version_ref *target,
                         const struct field_pair *metadata, size_t n_metadata, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ref_target to = {0};
    char now[TIME_TEXT_BYTES], *path = NULL;
    TRY(ref_name_check(name, true, err));
    TRY(ref_path(c, at, true, name, &path, err));
    TRY(ref_target_find(c, at, target, &to, err));
    time_text(clock_wall_ns(), now);
    struct ref_file f = {.tag = true,
                         .branch = to.branch,
                         .version = to.version,
                         .created = now,
                         .updated = now,
                         .manifest_size = to.manifest_size,
                         .metadata = metadata,
                         .n_metadata = n_metadata};
    st = ref_file_put_new(c, at, &f, name, path, err);
done:
    mem_free(c->mem, to.branch);
    mem_free(c->mem, path);
    return st;
}

pennon_status tag_delete(const struct call *c, const struct table_location *at, const char *name, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    char *path = NULL;
    TRY(ref_path(c, at, true, name, &path, err));
    st = store_delete(c, at->store, path, err);
    if (st == PENNON_NOT_FOUND) {
        (void)error_set(err, PENNON_NOT_FOUND, "the table '%.512s' has no tag '%.128s'", at->uri, name);
        st = error_kind(err, "RefNotFound");
    }
    if (st == PENNON_OK) st = store_sync_removals(c, at->store, path, err);
done:
    mem_free(c->mem, path);
    return st;
}

/* ---- changes ---- */

/* A ref file as it was read, for changing it. */
struct former {
    char *path;
    pennon_object_info info;
    json_t *json;
    struct ref_entry entry;
    struct field_pair *metadata; /* texts belong to `json` */
    size_t n_metadata;
};

static void former_free(struct mem *m, struct former *f)
{
    mem_free(m, f->path);
    mem_free(m, f->metadata);
    json_decref(f->json);
    ref_entry_free(m, &f->entry);
}

static pennon_status read_metadata(struct mem *m, struct former *f, pennon_error *err)
{
    const char *key;
    json_t *value, *metadata = json_object_get(f->json, "metadata");
    f->metadata = mem_calloc(m, json_object_size(metadata), sizeof *f->metadata, err);
    if (f->metadata == NULL) return err->code;
    json_object_foreach(metadata, key, value)
    {
        ASSERT(json_is_string(value)); /* ref_parse has looked */
        f->metadata[f->n_metadata++] =
            (struct field_pair){bytes_str(key), bytes_of(json_string_value(value), json_string_length(value))};
    }
    return PENNON_OK;
}

static pennon_status read_former(const struct call *c, const struct table_location *at, bool tag, const char *name,
                                 struct former *f, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct block *file = NULL;
    TRY(ref_path(c, at, tag, name, &f->path, err));
    TRY_NEW(f->entry.name, mem_strdup(c->mem, name, err));
    st = store_head(c, at->store, f->path, &f->info, err);
    if (st == PENNON_OK) st = store_get(c, at->store, f->path, REF_FILE_MAX, &file, err);
    if (st == PENNON_NOT_FOUND) {
        (void)error_set(err, PENNON_NOT_FOUND, "the table '%.512s' has no %s '%.128s'", at->uri, tag ? "tag" : "branch", name);
        st = error_kind(err, "RefNotFound");
    }
    if (st != PENNON_OK) goto done;
    st = ref_parse(c->mem, bytes_of(file->data, file->size), tag, &f->entry, err);
    if (st != PENNON_OK) {
        (void)error_prefix(err, "%s file of '%.128s'", tag ? "tag" : "branch", name);
        goto done;
    }
    f->json = json_loadb((const char *)file->data, file->size, 0, NULL);
    if (f->json == NULL) FAIL(PENNON_OUT_OF_MEMORY, "no memory for a ref file of %zu bytes", file->size);
    TRY(read_metadata(c->mem, f, err));
done:
    block_release(file);
    return st;
}

/* Overwrite the file unless it is no longer the one that was read. */
static pennon_status put_changed(const struct call *c, const struct table_location *at, const struct former *former,
                                 const struct ref_file *f, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct call quiet = unstoppable_call(c);
    struct buf text;
    pennon_object_info now;
    buf_init(&text, c->mem, BUF_NO_LIMIT);
    TRY(ref_file_text(f, &text, err));
    st = store_head(c, at->store, former->path, &now, err);
    bool same = st == PENNON_OK && now.size == former->info.size && now.modified_ns == former->info.modified_ns &&
                strcmp(now.etag, former->info.etag) == 0;
    if (st == PENNON_NOT_FOUND || (st == PENNON_OK && !same)) {
        (void)error_set(err, PENNON_CONFLICT, "the %s '%.128s' was changed by another writer; please retry",
                        f->tag ? "tag" : "branch", former->entry.name);
        st = error_kind(err, "RefConflict");
    }
    if (st != PENNON_OK) goto done;
    struct bytes body = bytes_of(text.data, text.size);
    st = store_put(&quiet, at->store, former->path, body, ref_put_flags(c, PENNON_PUT_OVERWRITE), err);
    if (st != PENNON_OK && holds(&quiet, at->store, former->path, body)) {
        pennon_error_clear(err);
        st = PENNON_OK;
    }
done:
    buf_free(&text);
    return st;
}

/* The file as it is, as far as this library understands it; `created` is printed into `text`. */
static struct ref_file file_of(const struct former *f, bool tag, char created[TIME_TEXT_BYTES], char updated[TIME_TEXT_BYTES])
{
    const struct ref_entry *e = &f->entry;
    struct ref_file out = {.tag = tag,
                           .branch = e->branch,
                           .version = e->version,
                           .manifest_size = e->manifest_size,
                           .metadata = f->metadata,
                           .n_metadata = f->n_metadata,
                           .path = e->path,
                           .n_path = e->n_path,
                           .former = f->json};
    if (e->created_ns != INT64_MIN) {
        time_text(e->created_ns, created);
        out.created = created;
        out.created_s = (uint64_t)(e->created_ns / 1000000000);
    }
    if (e->updated_ns != INT64_MIN) {
        time_text(e->updated_ns, updated);
        out.updated = updated;
    }
    return out;
}

pennon_status tag_update(const struct call *c, const struct table_location *at, const char *name, const struct version_ref *target,
                         pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct former former = {0};
    struct ref_target to = {0};
    char created[TIME_TEXT_BYTES], now[TIME_TEXT_BYTES];
    TRY(read_former(c, at, true, name, &former, err));
    TRY(ref_target_find(c, at, target, &to, err));
    struct ref_file f = file_of(&former, true, created, now);
    time_text(clock_wall_ns(), now);
    f.updated = now;
    f.branch = to.branch;
    f.version = to.version;
    f.manifest_size = to.manifest_size;
    st = put_changed(c, at, &former, &f, err);
done:
    mem_free(c->mem, to.branch);
    former_free(c->mem, &former);
    return st;
}

pennon_status ref_set_metadata(const struct call *c, const struct table_location *at, bool tag, const char *name,
                               const struct field_pair *metadata, size_t n_metadata, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct former former = {0};
    char created[TIME_TEXT_BYTES], updated[TIME_TEXT_BYTES];
    TRY(read_former(c, at, tag, name, &former, err));
    struct ref_file f = file_of(&former, tag, created, updated);
    f.metadata = metadata;
    f.n_metadata = n_metadata;
    st = put_changed(c, at, &former, &f, err);
done:
    former_free(c->mem, &former);
    return st;
}
