/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Listings and facts of a dataset: versions, fragments, tags, branches, column sizes as Arrow streams; info and schema as JSON. */
#include "dataset/dataset.h"

/* ---- tables of rows ---- */

/* A table that is being filled: a struct builder and its children. */
struct listing {
    const struct call *c;
    struct ArrowSchema schema;
    struct builder *rows;
};

static pennon_status listing_begin(struct listing *l, const struct call *c, const char *type, pennon_error *err)
{
    *l = (struct listing){.c = c};
    TRY_RETURN(arrow_schema_from_text(bytes_str(type), "", c->mem, &l->schema, err));
    l->schema.flags = 0;
    l->rows = builder_new(&l->schema, c->mem, err);
    return l->rows ? PENNON_OK : err->code;
}

static pennon_status listing_end(struct listing *l, pennon_status st, struct ArrowArrayStream *out, pennon_error *err)
{
    struct ArrowArray batch = {0};
    if (st == PENNON_OK) st = builder_finish(l->rows, &batch, err);
    if (st == PENNON_OK) st = stream_of_batch(l->c, &l->schema, &batch, out, err);
    builder_free(l->rows);
    arrow_schema_release(&l->schema);
    array_release(&batch);
    return st;
}

static pennon_status put_u64(struct listing *l, size_t i, uint64_t v, pennon_error *err)
{
    return builder_append_uint(builder_child(l->rows, i), v, err);
}

/* NULL gives a null. */
static pennon_status put_text(struct listing *l, size_t i, const char *text, pennon_error *err)
{
    struct builder *b = builder_child(l->rows, i);
    return text ? builder_append_bytes(b, bytes_str(text), err) : builder_append_null(b, err);
}

static pennon_status end_row(struct listing *l, pennon_error *err) { return builder_append_row(l->rows, err); }

/* ---- sums over a snapshot ---- */

struct totals {
    uint64_t physical, deleted, files, bytes, deletion_files;
};

/* From the manifest alone; unknown counts add nothing. */
static pennon_status totals_of(struct snapshot *s, struct totals *t, pennon_error *err)
{
    *t = (struct totals){0};
    for (size_t i = 0; i < s->n_fragments; i++) {
        const struct fragment *f = &s->fragments[i];
        TRY_RETURN(fragment_load(s, f, err));
        if (f->physical_rows != UINT64_MAX) t->physical += f->physical_rows;
        if (f->deleted_rows != UINT64_MAX) t->deleted += f->deleted_rows;
        t->deletion_files += f->deletion != NULL;
        t->files += f->n_files;
        for (uint32_t k = 0; k < f->n_files; k++) t->bytes += f->files[k].size;
    }
    return PENNON_OK;
}

static const char *operation_name(uint32_t which)
{
    static const char *const names[] = {
        "Append", "Delete",  "Overwrite",    "CreateIndex",     "Rewrite",           "Merge", "Restore",     "ReserveFragments",
        "Update", "Project", "UpdateConfig", "DataReplacement", "UpdateMemWalState", "Clone", "UpdateBases", "DataOverlay"};
    uint32_t i = which - OPERATION_APPEND;
    return which >= OPERATION_APPEND && i < ARRAY_LEN(names) ? names[i] : NULL;
}

/* Operation and commit message of the transaction that made the version; nulls when it is not inline. */
static pennon_status put_transaction(struct listing *l, size_t at, const struct snapshot *s, pennon_error *err)
{
    static const char message_key[] = "__lance_commit_message";
    pennon_status st = PENNON_OK;
    struct bytes section, message = {0};
    struct transaction_message t = {0};
    struct arena a;
    pennon_error ignored;
    pennon_error_init(&ignored);
    arena_init(&a, l->c->mem);
    if (snapshot_section(l->c, s, SECTION_TRANSACTION, &section, &ignored) != PENNON_OK || !section.size ||
        wire_decode(&transaction_table, section, &a, &t, &ignored) != PENNON_OK)
        t = (struct transaction_message){0};
    for (size_t i = 0; i < t.n_properties; i++) {
        struct bytes value = t.properties[i].value;
        if (bytes_equal(t.properties[i].key, bytes_str(message_key)) && utf8_valid(value.data, value.size)) message = value;
    }
    TRY(put_text(l, at, operation_name(t.which), err));
    struct builder *b = builder_child(l->rows, at + 1);
    TRY(message.size ? builder_append_bytes(b, message, err) : builder_append_null(b, err));
done:
    arena_reset(&a);
    pennon_error_clear(&ignored);
    return st;
}

/* "library version" of the writer. */
static pennon_status writer_text(const struct snapshot *s, struct buf *out, pennon_error *err)
{
    const struct writer_version_message *w = s->manifest.writer_version;
    out->size = 0;
    if (!w) return PENNON_OK;
    TRY_RETURN(buf_append(out, w->library.data, w->library.size, err));
    TRY_RETURN(buf_append_byte(out, ' ', err));
    TRY_RETURN(buf_append(out, w->version.data, w->version.size, err));
    if (w->prerelease.size) TRY_RETURN(buf_printf(out, err, "-%.*s", (int)w->prerelease.size, (const char *)w->prerelease.data));
    return PENNON_OK;
}

/* ---- versions ---- */

static pennon_status version_row(struct listing *l, struct snapshot *s, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf writer;
    struct totals t;
    buf_init(&writer, l->c->mem, 1 << 16);
    TRY(totals_of(s, &t, err));
    TRY(put_u64(l, 0, s->version, err));
    TRY(builder_append_int(builder_child(l->rows, 1), s->timestamp_ns, err));
    TRY(put_u64(l, 2, t.physical - min_u64(t.deleted, t.physical), err));
    TRY(put_u64(l, 3, s->n_fragments, err));
    TRY(put_u64(l, 4, t.files, err));
    TRY(put_u64(l, 5, t.bytes, err));
    TRY(writer_text(s, &writer, err));
    TRY(buf_terminate(&writer, err));
    TRY(put_text(l, 6, writer.size && utf8_valid(writer.data, writer.size) ? (const char *)writer.data : NULL, err));
    TRY(put_transaction(l, 7, s, err));
    TRY(put_u64(l, 9, t.physical, err));
    TRY(put_u64(l, 10, t.deleted, err));
    TRY(put_u64(l, 11, t.deletion_files, err));
    TRY(end_row(l, err));
done:
    buf_free(&writer);
    return st;
}

static pennon_status fill_versions(struct listing *l, pennon_dataset *ds, struct snapshot *s, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    uint64_t *versions = NULL;
    size_t n = 0;
    TRY(list_versions(l->c, &s->at, &versions, &n, err));
    for (size_t i = 0; i < n; i++) {
        struct snapshot *one = NULL;
        struct version_ref ref = {.version = versions[i], .as_of_ns = INT64_MIN};
        TRY(call_check(l->c, err));
        TRY(snapshot_open(l->c, &s->at, &ref, &ds->external, &one, err));
        st = version_row(l, one, err);
        snapshot_release(one);
        if (st != PENNON_OK) goto done;
        call_progress(l->c, i + 1, n);
    }
done:
    mem_free(l->c->mem, versions);
    return st;
}

/* ---- the other tables ---- */

static pennon_status fill_fragments(struct listing *l, pennon_dataset *ds, struct snapshot *s, pennon_error *err)
{
    struct file_cache *fc;
    struct snapshot *same;
    pennon_status st = PENNON_OK;
    dataset_get(ds, &same, &fc);
    for (size_t i = 0; i < s->n_fragments; i++) {
        const struct fragment *f = &s->fragments[i];
        uint64_t physical, live, bytes = 0;
        TRY(fragment_load(s, f, err));
        TRY(fragment_physical_rows(l->c, s, f, file_cache_length, fc, &physical, err));
        TRY(fragment_live_rows(l->c, s, f, file_cache_length, fc, &live, err));
        for (uint32_t k = 0; k < f->n_files; k++) bytes += f->files[k].size;
        TRY(put_u64(l, 0, f->id, err));
        TRY(put_u64(l, 1, physical, err));
        TRY(put_u64(l, 2, physical - live, err));
        TRY(put_u64(l, 3, live, err));
        TRY(put_u64(l, 4, f->n_files, err));
        TRY(put_u64(l, 5, bytes, err));
        TRY(put_text(l, 6, f->deletion ? f->deletion->file_type == 0 ? "array" : "bitmap" : NULL, err));
        struct builder *paths = builder_child(l->rows, 7);
        for (uint32_t k = 0; k < f->n_files; k++)
            TRY(builder_append_bytes(builder_child(paths, 0), bytes_str(f->files[k].path), err));
        TRY(builder_append_row(paths, err));
        TRY(end_row(l, err));
    }
done:
    file_cache_release(fc);
    snapshot_release(same);
    return st;
}

typedef pennon_status (*list_refs_fn)(const struct call *c, const struct table_location *at, struct ref_entry **out, size_t *n,
                                      pennon_error *err);

/* INT64_MIN gives a null. */
static pennon_status put_when(struct listing *l, size_t i, int64_t ns, pennon_error *err)
{
    struct builder *b = builder_child(l->rows, i);
    return ns != INT64_MIN ? builder_append_int(b, ns, err) : builder_append_null(b, err);
}

/* "version:id:version:id", as official prints it. */
static pennon_status put_way(struct listing *l, size_t i, const struct ref_entry *r, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf text;
    buf_init(&text, l->c->mem, BUF_NO_LIMIT);
    for (size_t k = 0; k < r->n_path; k++)
        TRY(buf_printf(&text, err, "%s%" PRIu64 ":%s", k ? ":" : "", r->path[k].version, r->path[k].id));
    TRY(builder_append_bytes(builder_child(l->rows, i), bytes_of(text.data, text.size), err));
done:
    buf_free(&text);
    return st;
}

static pennon_status fill_refs(struct listing *l, const struct snapshot *s, list_refs_fn list, pennon_error *err)
{
    const bool tags = list == list_tags;
    pennon_status st = PENNON_OK;
    struct ref_entry *refs = NULL;
    size_t n = 0;
    TRY(list(l->c, &s->at, &refs, &n, err));
    for (size_t i = 0; i < n; i++) {
        TRY(put_text(l, 0, refs[i].name, err));
        TRY(put_text(l, 1, refs[i].branch, err));
        TRY(put_u64(l, 2, refs[i].version, err));
        TRY(put_when(l, 3, refs[i].created_ns, err));
        if (tags) TRY(put_when(l, 4, refs[i].updated_ns, err));
        TRY(put_u64(l, tags ? 5 : 4, refs[i].manifest_size, err));
        TRY(put_text(l, tags ? 6 : 5, refs[i].metadata, err));
        if (!tags) TRY(put_way(l, 6, &refs[i], err));
        TRY(end_row(l, err));
    }
done:
    ref_entries_free(l->c->mem, refs, n);
    return st;
}

static pennon_status fill_tags(struct listing *l, pennon_dataset *ds, struct snapshot *s, pennon_error *err)
{
    UNUSED(ds);
    return fill_refs(l, s, list_tags, err);
}

static pennon_status fill_branches(struct listing *l, pennon_dataset *ds, struct snapshot *s, pennon_error *err)
{
    UNUSED(ds);
    return fill_refs(l, s, list_branches, err);
}

/* ---- column sizes ---- */

struct stats_walk {
    const struct schema *schema;
    uint64_t *bytes; /* of the fields as they stand in schema->by_id: ids can be any numbers */
};

static pennon_status add_file_stats(const struct call *c, struct file_reader *r, const struct data_file *f, struct stats_walk *w,
                                    pennon_error *err)
{
    for (uint32_t i = 0; i < f->n_fields && i < f->n_columns; i++) {
        struct column_stats stats;
        const size_t at = schema_place_of_id(w->schema, f->fields[i]);
        if (at == w->schema->n_all || f->columns[i] < 0) continue;
        CHECK_FILE_RETURN((uint32_t)f->columns[i] < file_reader_columns(r), "column %d of %u", f->columns[i],
                          file_reader_columns(r));
        TRY_RETURN(file_column_stats(c, r, (uint32_t)f->columns[i], &stats, err));
        w->bytes[at] += stats.bytes;
    }
    return PENNON_OK;
}

/* Dotted name of a field. */
static pennon_status path_text(const struct field *f, struct buf *out, pennon_error *err)
{
    if (f->parent) {
        TRY_RETURN(path_text(f->parent, out, err));
        TRY_RETURN(buf_append_byte(out, '.', err));
    }
    return buf_append(out, f->name, strlen(f->name), err);
}

static pennon_status stats_rows(struct listing *l, const struct field *f, const struct stats_walk *w, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf name;
    buf_init(&name, l->c->mem, 1 << 20);
    if (field_owns_column(f, STORAGE_2_1)) {
        TRY(path_text(f, &name, err));
        TRY(builder_append_int(builder_child(l->rows, 0), f->id, err));
        TRY(builder_append_bytes(builder_child(l->rows, 1), bytes_of(name.data, name.size), err));
        TRY(put_u64(l, 2, w->bytes[schema_place_of_id(w->schema, f->id)], err));
        TRY(end_row(l, err));
    } else {
        for (size_t i = 0; i < f->n_children; i++) TRY(stats_rows(l, f->children[i], w, err));
    }
done:
    buf_free(&name);
    return st;
}

static pennon_status fill_stats(struct listing *l, pennon_dataset *ds, struct snapshot *s, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct file_cache *fc;
    struct snapshot *same;
    struct stats_walk w = {s->schema, NULL};
    dataset_get(ds, &same, &fc);
    TRY_NEW(w.bytes, mem_calloc(l->c->mem, s->schema->n_all + 1, sizeof *w.bytes, err));
    for (size_t i = 0; i < s->n_fragments; i++) {
        TRY(call_check(l->c, err));
        TRY(fragment_load(s, &s->fragments[i], err));
        for (uint32_t k = 0; k < s->fragments[i].n_files; k++) {
            struct file_reader *r;
            TRY(file_cache_get(l->c, fc, s, &s->fragments[i].files[k], &r, err));
            st = add_file_stats(l->c, r, &s->fragments[i].files[k], &w, err);
            file_reader_release(r);
            if (st != PENNON_OK) goto done;
        }
    }
    for (size_t i = 0; i < s->schema->n_fields; i++) TRY(stats_rows(l, s->schema->fields[i], &w, err));
done:
    mem_free(l->c->mem, w.bytes);
    file_cache_release(fc);
    snapshot_release(same);
    return st;
}

/* ---- public ---- */

typedef pennon_status (*fill_fn)(struct listing *l, pennon_dataset *ds, struct snapshot *s, pennon_error *err);

static pennon_status list(pennon_dataset *ds, const pennon_call *call, const char *type, fill_fn fill, struct ArrowArrayStream *out,
                          pennon_error *err)
{
    struct api a;
    pennon_status st = api_begin(&a, call, ds, "dataset");
    if (st == PENNON_OK && !out) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "out is NULL");
    if (st == PENNON_OK) {
        struct listing l;
        struct snapshot *s;
        dataset_get(ds, &s, NULL);
        st = listing_begin(&l, &a.c, type, a.err);
        if (st == PENNON_OK) st = fill(&l, ds, s, a.err);
        st = listing_end(&l, st, out, a.err);
        st = table_error(&s->at, st, a.err);
        snapshot_release(s);
    }
    return api_end(&a, st, err);
}

pennon_status pennon_dataset_versions(pennon_dataset *ds, const pennon_call *call, struct ArrowArrayStream *out, pennon_error *err)
{
    return list(
        ds, call,
        "struct<version: uint64, timestamp: timestamp[ns, tz=UTC], rows: uint64, fragments: uint64, data_files: uint64, "
        "bytes: uint64, "
        "writer: string, operation: string, message: string, physical_rows: uint64, deleted_rows: uint64, deletion_files: uint64>",
        fill_versions, out, err);
}

pennon_status pennon_dataset_fragments(pennon_dataset *ds, const pennon_call *call, struct ArrowArrayStream *out, pennon_error *err)
{
    return list(
        ds, call,
        "struct<fragment: uint64, physical_rows: uint64, deleted_rows: uint64, rows: uint64, data_files: uint64, bytes: uint64, "
        "deletion_file: string, paths: list<item: string>>",
        fill_fragments, out, err);
}

pennon_status pennon_dataset_tags(pennon_dataset *ds, const pennon_call *call, struct ArrowArrayStream *out, pennon_error *err)
{
    return list(
        ds, call,
        "struct<tag: string, branch: string, version: uint64, created: timestamp[ns, tz=UTC], updated: timestamp[ns, tz=UTC], "
        "manifest_size: uint64, metadata: string>",
        fill_tags, out, err);
}

pennon_status pennon_dataset_branches(pennon_dataset *ds, const pennon_call *call, struct ArrowArrayStream *out, pennon_error *err)
{
    return list(ds, call,
                "struct<branch: string, parent: string, version: uint64, created: timestamp[ns, tz=UTC], manifest_size: uint64, "
                "metadata: string, identifier: string>",
                fill_branches, out, err);
}

pennon_status pennon_dataset_data_stats(pennon_dataset *ds, const pennon_call *call, struct ArrowArrayStream *out,
                                        pennon_error *err)
{
    return list(ds, call, "struct<field: int32, name: string, bytes: uint64>", fill_stats, out, err);
}

/* ---- JSON ---- */

static pennon_status put_key(struct buf *b, const char *key, pennon_error *err) { return buf_printf(b, err, "\"%s\": ", key); }

static pennon_status put_pairs(struct buf *b, const char *key, const struct map_entry *pairs, size_t n, pennon_error *err)
{
    TRY_RETURN(buf_printf(b, err, "\"%s\": {", key));
    for (size_t i = 0; i < n; i++) {
        if (i) TRY_RETURN(buf_printf(b, err, ", "));
        TRY_RETURN(json_put_text(b, pairs[i].key, err));
        TRY_RETURN(buf_printf(b, err, ": "));
        TRY_RETURN(json_put_text(b, pairs[i].value, err));
    }
    return buf_printf(b, err, "}");
}

static pennon_status put_json_text(struct buf *b, const char *key, const char *text, pennon_error *err)
{
    TRY_RETURN(put_key(b, key, err));
    TRY_RETURN(text ? json_put_text(b, bytes_str(text), err) : buf_printf(b, err, "null"));
    return buf_printf(b, err, ", ");
}

/* UTC, RFC 3339 with nanoseconds. */
static pennon_status put_time(struct buf *b, int64_t ns, pennon_error *err)
{
    int64_t seconds = ns / 1000000000, rest = ns % 1000000000;
    if (rest < 0) {
        rest += 1000000000;
        seconds--;
    }
    int64_t days = seconds / 86400, second = seconds % 86400;
    if (second < 0) {
        second += 86400;
        days--;
    }
    /* Civil date from days since 1970 (proleptic Gregorian), by eras of 400 years. */
    int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097, doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365, doy = doe - (365 * yoe + yoe / 4 - yoe / 100),
            mp = (5 * doy + 2) / 153;
    int64_t day = doy - (153 * mp + 2) / 5 + 1, month = mp < 10 ? mp + 3 : mp - 9, year = yoe + era * 400 + (month <= 2);
    return buf_printf(b, err,
                      "\"timestamp\": \"%04" PRId64 "-%02" PRId64 "-%02" PRId64 "T%02" PRId64 ":%02" PRId64 ":%02" PRId64
                      ".%09" PRId64 "Z\", ",
                      year, month, day, second / 3600, second / 60 % 60, second % 60, rest);
}

static pennon_status put_indices(const struct call *c, struct buf *b, const struct snapshot *s, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct index_section_message section = {0};
    struct arena a;
    struct bytes bytes;
    arena_init(&a, c->mem);
    TRY(snapshot_section(c, s, SECTION_INDICES, &bytes, err));
    if (bytes.size) TRY(wire_decode(&index_section_table, bytes, &a, &section, err));
    TRY(buf_printf(b, err, "\"indices\": ["));
    for (size_t i = 0; i < section.n_indices; i++) {
        const struct index_metadata_message *x = &section.indices[i];
        char uuid[37] = "";
        if (x->uuid && x->uuid->uuid.size == 16) uuid_text(x->uuid->uuid.data, uuid);
        TRY(buf_printf(b, err, "%s{\"name\": ", i ? ", " : ""));
        TRY(json_put_text(b, x->name, err));
        TRY(buf_printf(b, err, ", \"uuid\": \"%s\", \"type\": ", uuid));
        TRY(x->index_details ? json_put_text(b, x->index_details->type_url, err) : buf_printf(b, err, "null"));
        TRY(buf_printf(b, err, ", \"fields\": ["));
        for (size_t k = 0; k < x->n_fields; k++) TRY(buf_printf(b, err, "%s%d", k ? ", " : "", x->fields[k]));
        TRY(buf_printf(b, err, "], \"dataset_version\": %" PRIu64 "}", x->dataset_version));
    }
    TRY(buf_printf(b, err, "], "));
done:
    arena_reset(&a);
    return st;
}

static pennon_status put_bases(struct buf *b, const struct snapshot *s, pennon_error *err)
{
    TRY_RETURN(buf_printf(b, err, "\"base_paths\": ["));
    for (size_t i = 0; i < s->n_bases; i++) {
        TRY_RETURN(buf_printf(b, err, "%s{\"id\": %u, \"name\": ", i ? ", " : "", s->bases[i].id));
        TRY_RETURN(s->bases[i].name ? json_put_text(b, bytes_str(s->bases[i].name), err) : buf_printf(b, err, "null"));
        TRY_RETURN(buf_printf(b, err, ", \"is_dataset_root\": %s, \"path\": ", s->bases[i].is_dataset_root ? "true" : "false"));
        TRY_RETURN(json_put_text(b, bytes_str(s->bases[i].path), err));
        TRY_RETURN(buf_printf(b, err, "}"));
    }
    return buf_printf(b, err, "], ");
}

static pennon_status info(const struct call *c, struct snapshot *s, struct buf *b, pennon_error *err)
{
    const struct manifest_message *m = &s->manifest;
    struct totals t;
    struct buf writer;
    buf_init(&writer, c->mem, 1 << 16);
    pennon_status st = PENNON_OK;
    TRY(totals_of(s, &t, err));
    TRY(buf_printf(b, err, "{"));
    TRY(put_json_text(b, "uri", s->at.uri, err));
    TRY(buf_printf(b, err, "\"version\": %" PRIu64 ", ", s->version));
    TRY(put_time(b, s->timestamp_ns, err));
    TRY(put_json_text(b, "branch", s->at.branch, err));
    TRY(put_json_text(b, "storage_version", storage_version_text(s->storage_version), err));
    TRY(writer_text(s, &writer, err));
    TRY(put_key(b, "writer", err));
    TRY(writer.size ? json_put_text(b, bytes_of(writer.data, writer.size), err) : buf_printf(b, err, "null"));
    TRY(buf_printf(b, err, ", \"reader_flags\": %" PRIu64 ", \"writer_flags\": %" PRIu64 ", ", m->reader_feature_flags,
                   m->writer_feature_flags));
    TRY(buf_printf(b, err,
                   "\"rows\": %" PRIu64 ", \"deleted_rows\": %" PRIu64 ", \"fragments\": %zu, \"data_files\": %" PRIu64
                   ", \"bytes\": %" PRIu64 ", ",
                   t.physical - min_u64(t.deleted, t.physical), t.deleted, s->n_fragments, t.files, t.bytes));
    TRY(buf_printf(b, err, "\"stable_row_ids\": %s, \"next_row_id\": %" PRIu64 ", ",
                   m->reader_feature_flags & FLAG_STABLE_ROW_IDS ? "true" : "false", m->next_row_id));
    if (m->has_max_fragment_id) TRY(buf_printf(b, err, "\"max_fragment_id\": %u, ", m->max_fragment_id));
    TRY(put_indices(c, b, s, err));
    TRY(put_bases(b, s, err));
    TRY(put_pairs(b, "config", m->config, m->n_config, err));
    TRY(buf_printf(b, err, ", "));
    TRY(put_pairs(b, "table_metadata", m->table_metadata, m->n_table_metadata, err));
    TRY(buf_printf(b, err, ", "));
    TRY(put_pairs(b, "schema_metadata", m->schema_metadata, m->n_schema_metadata, err));
    TRY(buf_printf(b, err, "}"));
done:
    buf_free(&writer);
    return st;
}

pennon_status pennon_dataset_info_json(pennon_dataset *ds, const pennon_call *call, char **out, pennon_error *err)
{
    struct api a;
    pennon_status st = api_begin(&a, call, ds, "dataset");
    if (st == PENNON_OK && !out) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "out is NULL");
    if (st == PENNON_OK) {
        struct buf b;
        struct snapshot *s;
        buf_init(&b, a.c.mem, BUF_NO_LIMIT);
        dataset_get(ds, &s, NULL);
        st = info(&a.c, s, &b, a.err);
        if (st == PENNON_OK) st = text_out(&b, out, a.err);
        st = table_error(&s->at, st, a.err);
        snapshot_release(s);
        buf_free(&b);
    }
    return api_end(&a, st, err);
}

/* Type texts hold names of struct fields, which may hold anything. */
static pennon_status put_type(const struct field *f, struct buf *b, pennon_error *err)
{
    struct buf text;
    buf_init(&text, b->mem, 1 << 24);
    pennon_status st = arrow_type_text(&f->arrow, &text, err);
    if (st == PENNON_OK) st = json_put_text(b, bytes_of(text.data, text.size), err);
    buf_free(&text);
    return st;
}

static pennon_status field_json(const struct field *f, struct buf *b, pennon_error *err)
{
    TRY_RETURN(buf_printf(b, err, "{\"name\": "));
    TRY_RETURN(json_put_text(b, bytes_str(f->name), err));
    TRY_RETURN(buf_printf(b, err, ", \"id\": %d, \"type\": ", f->id));
    TRY_RETURN(put_type(f, b, err));
    TRY_RETURN(buf_printf(b, err, ", \"logical_type\": "));
    TRY_RETURN(json_put_text(b, bytes_str(f->logical_type), err));
    TRY_RETURN(buf_printf(b, err, ", \"nullable\": %s, \"metadata\": {", f->nullable ? "true" : "false"));
    for (size_t i = 0; i < f->n_metadata; i++) {
        if (i) TRY_RETURN(buf_printf(b, err, ", "));
        TRY_RETURN(json_put_text(b, f->metadata[i].key, err));
        TRY_RETURN(buf_printf(b, err, ": "));
        TRY_RETURN(json_put_text(b, f->metadata[i].value, err));
    }
    TRY_RETURN(buf_printf(b, err, "}, \"fields\": ["));
    for (size_t i = 0; i < f->n_children; i++) {
        if (i) TRY_RETURN(buf_printf(b, err, ", "));
        TRY_RETURN(field_json(f->children[i], b, err));
    }
    return buf_printf(b, err, "]}");
}

pennon_status pennon_dataset_schema_json(pennon_dataset *ds, char **out, pennon_error *err)
{
    struct api a;
    pennon_status st = api_begin(&a, NULL, ds, "dataset");
    if (st == PENNON_OK && !out) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "out is NULL");
    if (st == PENNON_OK) {
        struct buf b;
        struct snapshot *s;
        buf_init(&b, a.c.mem, BUF_NO_LIMIT);
        dataset_get(ds, &s, NULL);
        st = buf_printf(&b, a.err, "[");
        for (size_t i = 0; i < s->schema->n_fields && st == PENNON_OK; i++) {
            if (i) st = buf_printf(&b, a.err, ", ");
            if (st == PENNON_OK) st = field_json(s->schema->fields[i], &b, a.err);
        }
        if (st == PENNON_OK) st = buf_printf(&b, a.err, "]");
        if (st == PENNON_OK) st = text_out(&b, out, a.err);
        st = table_error(&s->at, st, a.err);
        snapshot_release(s);
        buf_free(&b);
    }
    return api_end(&a, st, err);
}
