/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Plans, tasks and results of compactions as JSON, byte for byte as pylance 8.0.0 writes them: no spaces, keys in this order.
 *
 *   plan     {"tasks":[{"fragments":[F]}],"read_version":n,"options":O}
 *   task     {"task":{"fragments":[F]},"read_version":n,"options":O}
 *   result   {"metrics":M,"new_fragments":[F],"read_version":n,"original_fragments":[F],"row_addrs":null or [byte]}
 *   M        {"fragments_removed":n,"fragments_added":n,"files_removed":n,"files_added":n}
 *   O        every option, null for one that is not given; compaction_mode is null, "Reencode", "TryBinaryCopy" or "ForceBinaryCopy"
 *   F        {"id","files":[{"path","fields","column_indices","file_major_version","file_minor_version","file_size_bytes","base_id"}],
 *             "deletion_file"?:{"read_version","id","file_type","num_deleted_rows","base_id"},"row_id_meta"?,"physical_rows",
 *             "last_updated_at_version_meta"?,"created_at_version_meta"?}; those with ? are left out where they are absent
 *
 * Reading is for texts that anybody may have written. Fragments are read by the rules of every other fragment (message_json.h); in the rest a key that is not
 * known is passed over, as pylance does, because newer releases have more options.
 * Source: spec commits 9.6. */
#include <math.h>

#include "arrow/arrow.h"
#include "dataset/compact.h"
#include "table/message_json.h"

#define FRAGMENTS_MAX ((size_t)1 << 24)

/* ---- writing: fragments ---- */

static pennon_status put(struct buf *out, const char *text, pennon_error *err) { return buf_append(out, text, strlen(text), err); }

static pennon_status put_text(struct bytes text, struct buf *out, pennon_error *err)
{
    if (text.size == 0) return put(out, "\"\"", err);
    return json_put_text(out, text, err);
}

static pennon_status put_i32s(const int32_t *v, size_t n, struct buf *out, pennon_error *err)
{
    TRY_RETURN(put(out, "[", err));
    for (size_t i = 0; i < n; i++) TRY_RETURN(buf_printf(out, err, i ? ",%" PRId32 : "%" PRId32, v[i]));
    return put(out, "]", err);
}

static pennon_status put_byte_list(struct bytes b, struct buf *out, pennon_error *err)
{
    TRY_RETURN(put(out, "[", err));
    TRY_RETURN(buf_grow(out, b.size * 2, err));
    for (size_t i = 0; i < b.size; i++) TRY_RETURN(buf_printf(out, err, i ? ",%u" : "%u", b.data[i]));
    return put(out, "]", err);
}

/* A number, or null for one that is not known. */
static pennon_status put_known(uint64_t v, bool is_known, struct buf *out, pennon_error *err)
{
    return is_known ? buf_printf(out, err, "%" PRIu64, v) : put(out, "null", err);
}

static pennon_status put_data_file(const struct data_file_message *f, struct buf *out, pennon_error *err)
{
    TRY_RETURN(put(out, "{\"path\":", err));
    TRY_RETURN(put_text(f->path, out, err));
    TRY_RETURN(put(out, ",\"fields\":", err));
    TRY_RETURN(put_i32s(f->fields, f->n_fields, out, err));
    TRY_RETURN(put(out, ",\"column_indices\":", err));
    TRY_RETURN(put_i32s(f->column_indices, f->n_column_indices, out, err));
    TRY_RETURN(buf_printf(out, err, ",\"file_major_version\":%u,\"file_minor_version\":%u,\"file_size_bytes\":",
                          f->file_major_version, f->file_minor_version));
    TRY_RETURN(put_known(f->file_size_bytes, f->file_size_bytes > 0, out, err));
    TRY_RETURN(put(out, ",\"base_id\":", err));
    TRY_RETURN(put_known(f->base_id, f->has_base_id, out, err));
    return put(out, "}", err);
}

static pennon_status put_deletion_file(const struct deletion_file_message *d, struct buf *out, pennon_error *err)
{
    if (!d) return PENNON_OK;
    TRY_RETURN(buf_printf(
        out, err, ",\"deletion_file\":{\"read_version\":%" PRIu64 ",\"id\":%" PRIu64 ",\"file_type\":\"%s\",\"num_deleted_rows\":",
        d->read_version, d->id, d->file_type == 0 ? "array" : "bitmap"));
    TRY_RETURN(put_known(d->num_deleted_rows, d->num_deleted_rows > 0, out, err));
    TRY_RETURN(put(out, ",\"base_id\":", err));
    TRY_RETURN(put_known(d->base_id, d->has_base_id, out, err));
    return put(out, "}", err);
}

/* A oneof of bytes and a file. `which` 0 = none of them. */
static pennon_status put_lineage(const struct json_lineage *l, uint32_t which, struct bytes own,
                                 const struct external_file_message *file, struct buf *out, pennon_error *err)
{
    if (which == 0) return PENNON_OK;
    if (which == l->inline_tag) {
        TRY_RETURN(buf_printf(out, err, ",\"%s\":{\"%s\":", l->name, l->inline_label));
        TRY_RETURN(put_byte_list(own, out, err));
        return put(out, "}", err);
    }
    if (!file) return PENNON_OK;
    TRY_RETURN(buf_printf(out, err, ",\"%s\":{\"%s\":{\"path\":", l->name, l->external_label));
    TRY_RETURN(put_text(file->path, out, err));
    return buf_printf(out, err, ",\"offset\":%" PRIu64 ",\"size\":%" PRIu64 "}}", file->offset, file->size);
}

static pennon_status put_fragment(const struct fragment_message *f, struct buf *out, pennon_error *err)
{
    TRY_RETURN(buf_printf(out, err, "{\"id\":%" PRIu64 ",\"files\":[", f->id));
    for (size_t i = 0; i < f->n_files; i++) {
        if (i > 0) TRY_RETURN(put(out, ",", err));
        TRY_RETURN(put_data_file(&f->files[i], out, err));
    }
    TRY_RETURN(put(out, "]", err));
    TRY_RETURN(put_deletion_file(f->deletion_file, out, err));
    TRY_RETURN(put_lineage(&json_lineages[0], f->row_ids_which, f->inline_row_ids, f->external_row_ids, out, err));
    TRY_RETURN(put(out, ",\"physical_rows\":", err));
    TRY_RETURN(put_known(f->physical_rows, f->physical_rows > 0, out, err));
    TRY_RETURN(put_lineage(&json_lineages[2], f->last_updated_which, f->inline_last_updated, f->external_last_updated, out, err));
    TRY_RETURN(put_lineage(&json_lineages[1], f->created_which, f->inline_created, f->external_created, out, err));
    return put(out, "}", err);
}

static pennon_status put_fragments(const struct fragment_message *f, size_t n, struct buf *out, pennon_error *err)
{
    TRY_RETURN(put(out, "[", err));
    for (size_t i = 0; i < n; i++) {
        if (i > 0) TRY_RETURN(put(out, ",", err));
        TRY_RETURN(put_fragment(&f[i], out, err));
    }
    return put(out, "]", err);
}

/* ---- writing: the rest ---- */

/* The shortest text that is read as the same number of single precision. */
static pennon_status put_real(float v, struct buf *out, pennon_error *err)
{
    char text[REAL_TEXT_MAX], digits[REAL_TEXT_MAX];
    int power = 0;
    size_t n = 0;
    if (!isfinite(v)) return put(out, "null", err);
    for (int more = 0; more < 9; more++) {
        double back;
        const size_t size = real_print((double)v, more, true, text);
        if (real_parse(bytes_of(text, size), &back) && (float)back == v) break;
    }
    const char *e = strchr(text, 'e');
    ASSERT(e != NULL);
    for (const char *p = text; p < e; p++) {
        if (*p >= '0' && *p <= '9') digits[n++] = *p;
    }
    for (const char *p = e + 2; *p; p++) power = power * 10 + (*p - '0');
    if (e[1] == '-') power = -power;
    while (n > 1 && digits[n - 1] == '0') n--;
    if (text[0] == '-') TRY_RETURN(put(out, "-", err));
    if (power < -6 || power > 12) {
        TRY_RETURN(buf_append(out, digits, 1, err));
        if (n > 1) TRY_RETURN(put(out, ".", err));
        TRY_RETURN(buf_append(out, digits + 1, n - 1, err));
        return buf_printf(out, err, "e%+d", power);
    }
    if (power < 0) {
        TRY_RETURN(put(out, "0.", err));
        for (int i = -1; i > power; i--) TRY_RETURN(put(out, "0", err));
        return buf_append(out, digits, n, err);
    }
    for (size_t i = 0; i <= (size_t)power; i++) TRY_RETURN(buf_append(out, i < n ? &digits[i] : "0", 1, err));
    TRY_RETURN(put(out, ".", err));
    if (n <= (size_t)power + 1) return put(out, "0", err);
    return buf_append(out, digits + power + 1, n - (size_t)power - 1, err);
}

static const char *const modes[] = {"null", "\"Reencode\"", "\"TryBinaryCopy\"", "\"ForceBinaryCopy\""};

static pennon_status put_option(const char *name, uint64_t v, struct buf *out, pennon_error *err)
{
    TRY_RETURN(buf_printf(out, err, ",\"%s\":", name));
    return put_known(v, v != PENNON_NONE, out, err);
}

static pennon_status put_settings(const struct compact_settings *s, struct buf *out, pennon_error *err)
{
    ASSERT(s->mode >= 0 && (size_t)s->mode < ARRAY_LEN(modes));
    TRY_RETURN(buf_printf(out, err, "{\"target_rows_per_fragment\":%" PRIu64 ",\"max_rows_per_group\":%" PRIu64, s->target_rows,
                          s->rows_per_group));
    TRY_RETURN(put_option("max_bytes_per_file", s->max_bytes, out, err));
    TRY_RETURN(buf_printf(out, err,
                          ",\"materialize_deletions\":%s,\"materialize_deletions_threshold\":", s->materialize ? "true" : "false"));
    TRY_RETURN(put_real(s->threshold, out, err));
    TRY_RETURN(put_option("num_threads", s->threads, out, err));
    TRY_RETURN(put_option("batch_size", s->batch_rows, out, err));
    TRY_RETURN(put_option("io_buffer_size", s->io_buffer, out, err));
    TRY_RETURN(buf_printf(
        out, err, ",\"defer_index_remap\":%s,\"compaction_mode\":%s,\"enable_binary_copy\":%s,\"enable_binary_copy_force\":%s",
        s->defer ? "true" : "false", modes[s->mode], s->binary_copy ? "true" : "false", s->binary_copy_force ? "true" : "false"));
    TRY_RETURN(put_option("binary_copy_read_batch_bytes", s->copy_bytes, out, err));
    TRY_RETURN(put_option("max_source_fragments", s->max_sources, out, err));
    return put(out, "}", err);
}

static pennon_status put_task(const struct compact_task *t, struct buf *out, pennon_error *err)
{
    TRY_RETURN(put(out, "{\"fragments\":", err));
    TRY_RETURN(put_fragments(t->fragments, t->n, out, err));
    return put(out, "}", err);
}

static pennon_status put_end(const struct compact_plan *p, struct buf *out, pennon_error *err)
{
    TRY_RETURN(buf_printf(out, err, ",\"read_version\":%" PRIu64 ",\"options\":", p->read_version));
    TRY_RETURN(put_settings(&p->settings, out, err));
    return put(out, "}", err);
}

pennon_status compact_plan_to_json(const struct compact_plan *p, struct buf *out, pennon_error *err)
{
    TRY_RETURN(put(out, "{\"tasks\":[", err));
    for (size_t i = 0; i < p->n; i++) {
        if (i > 0) TRY_RETURN(put(out, ",", err));
        TRY_RETURN(put_task(&p->tasks[i], out, err));
    }
    TRY_RETURN(put(out, "]", err));
    return put_end(p, out, err);
}

pennon_status compact_task_to_json(const struct compact_plan *p, size_t i, struct buf *out, pennon_error *err)
{
    ASSERT(i < p->n);
    TRY_RETURN(put(out, "{\"task\":", err));
    TRY_RETURN(put_task(&p->tasks[i], out, err));
    return put_end(p, out, err);
}

pennon_status compact_result_to_json(const struct compact_result *r, struct buf *out, pennon_error *err)
{
    TRY_RETURN(buf_printf(out, err,
                          "{\"metrics\":{\"fragments_removed\":%" PRIu64 ",\"fragments_added\":%" PRIu64
                          ",\"files_removed\":%" PRIu64 ",\"files_added\":%" PRIu64 "},\"new_fragments\":",
                          r->counts.fragments_removed, r->counts.fragments_added, r->counts.files_removed, r->counts.files_added));
    TRY_RETURN(put_fragments(r->new_fragments, r->n_new, out, err));
    TRY_RETURN(buf_printf(out, err, ",\"read_version\":%" PRIu64 ",\"original_fragments\":", r->read_version));
    TRY_RETURN(put_fragments(r->old_fragments, r->n_old, out, err));
    TRY_RETURN(put(out, ",\"row_addrs\":", err));
    if (r->has_addresses) {
        TRY_RETURN(put_byte_list(r->addresses, out, err));
    } else {
        TRY_RETURN(put(out, "null", err));
    }
    return put(out, "}", err);
}

/* ---- reading ---- */

static pennon_status need(const json_t *json, const char *key, const json_t **out, pennon_error *err)
{
    if (!json_is_object(json)) return error_set(err, PENNON_INVALID_ARGUMENT, "no object");
    *out = json_object_get(json, key);
    return *out ? PENNON_OK : error_set(err, PENNON_INVALID_ARGUMENT, "missing field `%s`", key);
}

static pennon_status need_number(const json_t *json, const char *key, uint64_t *out, pennon_error *err)
{
    const json_t *v;
    TRY_RETURN(need(json, key, &v, err));
    return message_json_read_u64(v, out, err) == PENNON_OK ? PENNON_OK : error_prefix(err, "%s", key);
}

/* Absent and null are PENNON_NONE. */
static pennon_status read_number(const json_t *json, const char *key, uint64_t *out, pennon_error *err)
{
    const json_t *v = json_object_get(json, key);
    *out = PENNON_NONE;
    if (!v || json_is_null(v)) return PENNON_OK;
    return message_json_read_u64(v, out, err) == PENNON_OK ? PENNON_OK : error_prefix(err, "%s", key);
}

static pennon_status need_bool(const json_t *json, const char *key, bool *out, pennon_error *err)
{
    const json_t *v;
    TRY_RETURN(need(json, key, &v, err));
    if (!json_is_boolean(v)) return error_set(err, PENNON_INVALID_ARGUMENT, "%s: neither true nor false", key);
    *out = json_is_true(v);
    return PENNON_OK;
}

static pennon_status read_mode(const json_t *json, int32_t *out, pennon_error *err)
{
    const json_t *v = json_object_get(json, "compaction_mode");
    *out = PENNON_COMPACT_AUTO;
    if (!v || json_is_null(v)) return PENNON_OK;
    for (size_t i = 1; i < ARRAY_LEN(modes) && json_is_string(v); i++) {
        const struct bytes name = bytes_of(modes[i] + 1, strlen(modes[i]) - 2);
        if (!bytes_equal(name, bytes_of(json_string_value(v), json_string_length(v)))) continue;
        *out = (int32_t)i;
        return PENNON_OK;
    }
    return error_set(err, PENNON_INVALID_ARGUMENT, "compaction_mode: none of null, Reencode, TryBinaryCopy, ForceBinaryCopy");
}

static pennon_status read_settings(const json_t *json, struct compact_settings *s, pennon_error *err)
{
    const json_t *threshold;
    compact_settings_init(s);
    TRY_RETURN(need_number(json, "target_rows_per_fragment", &s->target_rows, err));
    TRY_RETURN(need_number(json, "max_rows_per_group", &s->rows_per_group, err));
    TRY_RETURN(read_number(json, "max_bytes_per_file", &s->max_bytes, err));
    TRY_RETURN(need_bool(json, "materialize_deletions", &s->materialize, err));
    TRY_RETURN(need(json, "materialize_deletions_threshold", &threshold, err));
    if (!json_is_number(threshold)) return error_set(err, PENNON_INVALID_ARGUMENT, "materialize_deletions_threshold: no number");
    s->threshold = (float)json_number_value(threshold);
    TRY_RETURN(read_number(json, "num_threads", &s->threads, err));
    TRY_RETURN(read_number(json, "batch_size", &s->batch_rows, err));
    TRY_RETURN(read_number(json, "io_buffer_size", &s->io_buffer, err));
    TRY_RETURN(need_bool(json, "defer_index_remap", &s->defer, err));
    TRY_RETURN(read_mode(json, &s->mode, err));
    TRY_RETURN(need_bool(json, "enable_binary_copy", &s->binary_copy, err));
    TRY_RETURN(need_bool(json, "enable_binary_copy_force", &s->binary_copy_force, err));
    TRY_RETURN(read_number(json, "binary_copy_read_batch_bytes", &s->copy_bytes, err));
    return read_number(json, "max_source_fragments", &s->max_sources, err);
}

static pennon_status read_fragments(const json_t *json, struct arena *a, struct fragment_message **out, size_t *n,
                                    pennon_error *err)
{
    if (!json_is_array(json)) return error_set(err, PENNON_INVALID_ARGUMENT, "no array");
    *n = json_array_size(json);
    if (*n > FRAGMENTS_MAX) return error_set(err, PENNON_INVALID_ARGUMENT, "%zu fragments, at most %zu", *n, FRAGMENTS_MAX);
    *out = arena_calloc(a, *n, sizeof **out, err);
    if (!*out) return err->code;
    for (size_t i = 0; i < *n; i++) {
        struct fragment_message *f = &(*out)[i];
        if (message_json_read(&fragment_table, json_array_get(json, i), false, a, f, err) != PENNON_OK)
            return error_prefix(err, "fragments[%zu]", i);
        if (f->id > UINT32_MAX) return error_set(err, PENNON_INVALID_ARGUMENT, "fragments[%zu]: no id %" PRIu64, i, f->id);
    }
    return PENNON_OK;
}

static pennon_status need_fragments(const json_t *json, const char *key, struct arena *a, struct fragment_message **out, size_t *n,
                                    pennon_error *err)
{
    const json_t *v;
    TRY_RETURN(need(json, key, &v, err));
    return read_fragments(v, a, out, n, err) == PENNON_OK ? PENNON_OK : error_prefix(err, "%s", key);
}

static pennon_status read_end(const json_t *json, struct compact_plan *out, pennon_error *err)
{
    const json_t *options;
    TRY_RETURN(need_number(json, "read_version", &out->read_version, err));
    TRY_RETURN(need(json, "options", &options, err));
    return read_settings(options, &out->settings, err) == PENNON_OK ? PENNON_OK : error_prefix(err, "options");
}

static pennon_status read_plan(const json_t *json, struct arena *a, struct compact_plan *out, pennon_error *err)
{
    const json_t *tasks;
    TRY_RETURN(need(json, "tasks", &tasks, err));
    if (!json_is_array(tasks)) return error_set(err, PENNON_INVALID_ARGUMENT, "tasks: no array");
    out->n = json_array_size(tasks);
    out->tasks = arena_calloc(a, out->n, sizeof *out->tasks, err);
    if (!out->tasks) return err->code;
    for (size_t i = 0; i < out->n; i++) {
        struct compact_task *t = &out->tasks[i];
        if (need_fragments(json_array_get(tasks, i), "fragments", a, &t->fragments, &t->n, err) != PENNON_OK)
            return error_prefix(err, "tasks[%zu]", i);
    }
    return read_end(json, out, err);
}

static pennon_status read_task(const json_t *json, struct arena *a, struct compact_plan *out, pennon_error *err)
{
    const json_t *task;
    TRY_RETURN(need(json, "task", &task, err));
    out->n = 1;
    out->tasks = arena_calloc(a, 1, sizeof *out->tasks, err);
    if (!out->tasks) return err->code;
    if (need_fragments(task, "fragments", a, &out->tasks->fragments, &out->tasks->n, err) != PENNON_OK)
        return error_prefix(err, "task");
    return read_end(json, out, err);
}

static pennon_status read_addresses(const json_t *json, struct arena *a, struct compact_result *out, pennon_error *err)
{
    const json_t *v = json_object_get(json, "row_addrs");
    if (!v || json_is_null(v)) return PENNON_OK;
    if (!json_is_array(v)) return error_set(err, PENNON_INVALID_ARGUMENT, "row_addrs: neither null nor an array");
    const size_t n = json_array_size(v);
    uint8_t *bytes = arena_alloc(a, n + 1, err);
    if (!bytes) return err->code;
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(v, i);
        if (!json_is_integer(one) || json_integer_value(one) < 0 || json_integer_value(one) > UINT8_MAX)
            return error_set(err, PENNON_INVALID_ARGUMENT, "row_addrs[%zu]: no byte", i);
        bytes[i] = (uint8_t)json_integer_value(one);
    }
    out->has_addresses = true;
    out->addresses = bytes_of(bytes, n);
    return PENNON_OK;
}

static pennon_status read_result(const json_t *json, struct arena *a, struct compact_result *out, pennon_error *err)
{
    const json_t *metrics;
    TRY_RETURN(need(json, "metrics", &metrics, err));
    TRY_RETURN(need_number(metrics, "fragments_removed", &out->counts.fragments_removed, err));
    TRY_RETURN(need_number(metrics, "fragments_added", &out->counts.fragments_added, err));
    TRY_RETURN(need_number(metrics, "files_removed", &out->counts.files_removed, err));
    TRY_RETURN(need_number(metrics, "files_added", &out->counts.files_added, err));
    TRY_RETURN(need_fragments(json, "new_fragments", a, &out->new_fragments, &out->n_new, err));
    TRY_RETURN(need_number(json, "read_version", &out->read_version, err));
    TRY_RETURN(need_fragments(json, "original_fragments", a, &out->old_fragments, &out->n_old, err));
    return read_addresses(json, a, out, err);
}

pennon_status compact_plan_from_json(struct bytes text, struct arena *a, struct compact_plan *out, pennon_error *err)
{
    json_t *json = NULL;
    *out = (struct compact_plan){0};
    pennon_status st = message_json_parse(a->mem, text, "the text of the plan", &json, err);
    if (st == PENNON_OK) st = read_plan(json, a, out, err);
    json_decref(json);
    return st;
}

pennon_status compact_task_from_json(struct bytes text, struct arena *a, struct compact_plan *out, pennon_error *err)
{
    json_t *json = NULL;
    *out = (struct compact_plan){0};
    pennon_status st = message_json_parse(a->mem, text, "the text of the task", &json, err);
    if (st == PENNON_OK) st = read_task(json, a, out, err);
    json_decref(json);
    return st;
}

pennon_status compact_result_from_json(struct bytes text, struct arena *a, struct compact_result *out, pennon_error *err)
{
    json_t *json = NULL;
    *out = (struct compact_result){0};
    pennon_status st = message_json_parse(a->mem, text, "the text of the result", &json, err);
    if (st == PENNON_OK) st = read_result(json, a, out, err);
    json_decref(json);
    return st;
}

pennon_status compact_results_from_json(struct bytes text, struct arena *a, struct compact_result **out, size_t *n,
                                        pennon_error *err)
{
    pennon_status st = PENNON_OK;
    json_t *json = NULL;
    *n = 0;
    TRY(message_json_parse(a->mem, text, "the text of the results", &json, err));
    if (!json_is_array(json)) FAIL(PENNON_INVALID_ARGUMENT, "the results are no array");
    TRY_NEW(*out, arena_calloc(a, json_array_size(json), sizeof **out, err));
    for (; *n < json_array_size(json); ++*n) {
        st = read_result(json_array_get(json, *n), a, &(*out)[*n], err);
        if (st == PENNON_OK) continue;
        st = error_prefix(err, "results[%zu]", *n);
        goto done;
    }
done:
    json_decref(json);
    return st;
}
