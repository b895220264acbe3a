/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The public call of cleanup: options to a policy, verdicts to an Arrow stream. */
#include "dataset/dataset.h"
#include "pennon/maintenance.h"
#include "table/cleanup.h"

void pennon_cleanup_options_init(pennon_cleanup_options *options)
{
    if (options) {
        *options = (pennon_cleanup_options){
            .struct_size = sizeof *options, .older_than_ns = -1, .keep_versions = PENNON_NONE, .before_version = PENNON_NONE};
    }
}

/* ---- the stream of verdicts ---- */

struct explaining {
    const struct call *c;
    struct ArrowSchema schema;
    struct builder *rows;
};

static pennon_status explain_begin(struct explaining *x, const struct call *c, pennon_error *err)
{
    static const char type[] = "struct<path: string, kind: string, bytes: uint64, action: string, reason: string>";
    *x = (struct explaining){.c = c};
    TRY_RETURN(arrow_schema_from_text(bytes_str(type), "", c->mem, &x->schema, err));
    x->schema.flags = 0;
    x->rows = builder_new(&x->schema, c->mem, err);
    return x->rows ? PENNON_OK : err->code;
}

/* Names of files may be any bytes: what is no text gets its question marks. */
static pennon_status put_path(struct builder *b, const char *path, struct mem *m, pennon_error *err)
{
    struct bytes text = bytes_str(path);
    if (utf8_valid(text.data, text.size)) return builder_append_bytes(b, text, err);
    char *plain = mem_strdup(m, path, err);
    if (!plain) return err->code;
    for (char *p = plain; *p; p++) {
        if ((unsigned char)*p >= 0x80) *p = '?';
    }
    pennon_status st = builder_append_bytes(b, bytes_str(plain), err);
    mem_free(m, plain);
    return st;
}

/* A cleanup_report_fn. */
static pennon_status add_verdict(void *ctx, const struct cleanup_verdict *v, pennon_error *err)
{
    struct explaining *x = ctx;
    TRY_RETURN(put_path(builder_child(x->rows, 0), v->path, x->c->mem, err));
    TRY_RETURN(builder_append_bytes(builder_child(x->rows, 1), bytes_str(cleanup_kind_name(v->kind)), err));
    TRY_RETURN(builder_append_uint(builder_child(x->rows, 2), v->bytes, err));
    TRY_RETURN(builder_append_bytes(builder_child(x->rows, 3), bytes_str(v->removed ? "delete" : "keep"), err));
    TRY_RETURN(put_path(builder_child(x->rows, 4), v->reason, x->c->mem, err));
    return builder_append_row(x->rows, err);
}

static pennon_status explain_end(struct explaining *x, pennon_status st, struct ArrowArrayStream *out, pennon_error *err)
{
    struct ArrowArray batch = {0};
    if (st == PENNON_OK) st = builder_finish(x->rows, &batch, err);
    if (st == PENNON_OK) st = stream_of_batch(x->c, &x->schema, &batch, out, err);
    builder_free(x->rows);
    arrow_schema_release(&x->schema);
    array_release(&batch);
    return st;
}

/* ---- the call ---- */

static pennon_status clean(struct api *a, pennon_dataset *ds, const pennon_cleanup_options *o, pennon_cleanup_stats *stats,
                           struct ArrowArrayStream *explain)
{
    pennon_status st = PENNON_OK;
    struct cleanup_policy policy;
    struct cleanup_stats counts = {0};
    struct explaining x = {0};
    struct snapshot *s;
    cleanup_policy_init(&policy);
    policy.older_than_ns = o->older_than_ns;
    policy.keep_versions = o->keep_versions;
    policy.before_version = o->before_version;
    policy.before_tag = o->before_tag;
    policy.delete_unverified = o->delete_unverified;
    policy.error_if_tagged = o->error_if_tagged;
    policy.dry_run = o->dry_run;
    policy.delete_rate = o->delete_rate;
    dataset_get(ds, &s, NULL);
    if (explain) st = explain_begin(&x, &a->c, a->err);
    if (st == PENNON_OK) st = cleanup_run(&a->c, &s->at, s->version, &policy, explain ? add_verdict : NULL, &x, &counts, a->err);
    if (explain) st = explain_end(&x, st, explain, a->err);
    if (stats) {
        *stats =
            (pennon_cleanup_stats){counts.bytes_removed, counts.versions,       counts.data_files,     counts.transaction_files,
                                   counts.index_files,   counts.deletion_files, counts.temporary_files};
    }
    snapshot_release(s);
    return st;
}

pennon_status pennon_dataset_cleanup(pennon_dataset *ds, const pennon_cleanup_options *options, pennon_cleanup_stats *stats,
                                     struct ArrowArrayStream *explain, pennon_error *err)
{
    struct api a;
    pennon_cleanup_options o;
    pennon_cleanup_options_init(&o);
    pennon_error_init(&a.local);
    if (stats) *stats = (pennon_cleanup_stats){0};
    pennon_status st = options_read(&o, sizeof o, options, "pennon_cleanup_options", &a.local);
    if (st != PENNON_OK) return error_out(err, &a.local, st);
    st = api_begin(&a, o.call, ds, "dataset");
    if (st == PENNON_OK && o.before_tag && !o.before_tag[0]) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "before_tag is empty");
    if (st == PENNON_OK) st = clean(&a, ds, &o, stats, explain);
    return api_end(&a, st, err);
}

pennon_status pennon_duration_parse(const char *text, int64_t *ns, pennon_error *err)
{
    pennon_error local;
    pennon_status st = PENNON_OK;
    int64_t parsed = 0;
    pennon_error_init(&local);
    if (!text || !ns) {
        st = error_set(&local, PENNON_INVALID_ARGUMENT, "%s is NULL", text ? "ns" : "text");
    } else if (!duration_parse(text, &parsed)) {
        st = error_set(&local, PENNON_INVALID_ARGUMENT, "'%.64s' is no duration; write numbers with units, such as 14d or 1h 30m",
                       text);
    } else {
        *ns = parsed;
    }
    return error_out(err, &local, st);
}
