/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The public calls for tags, branches and clones: arguments checked and brought into the form of the table layer. */
#include "dataset/dataset.h"
#include "pennon/refs.h"
#include "table/refs.h"

void pennon_ref_init(pennon_ref *ref)
{
    if (ref) *ref = (pennon_ref){.struct_size = sizeof *ref, .version = PENNON_NONE};
}

void pennon_tag_options_init(pennon_tag_options *options)
{
    if (options) *options = (pennon_tag_options){.struct_size = sizeof *options};
}

void pennon_branch_options_init(pennon_branch_options *options)
{
    if (options) *options = (pennon_branch_options){.struct_size = sizeof *options};
}

void pennon_clone_options_init(pennon_clone_options *options)
{
    if (options) *options = (pennon_clone_options){.struct_size = sizeof *options};
}

/* ---- arguments ---- */

/* A call on a handle: the frame and the handle's snapshot. */
struct ref_call {
    struct api api;
    struct snapshot *s; /* retained */
};

/* Begins the frame; pair with end. */
static pennon_status begin(struct ref_call *r, const pennon_call *call, pennon_dataset *ds, const char *name, const char *what)
{
    pennon_status st = api_begin(&r->api, call, ds, "dataset");
    r->s = NULL;
    if (st == PENNON_OK && (!name || !name[0]))
        st = error_set(r->api.err, PENNON_INVALID_ARGUMENT, "the %s is NULL or empty", what);
    if (st == PENNON_OK) dataset_get(ds, &r->s, NULL);
    return st;
}

static pennon_status end(struct ref_call *r, pennon_status st, pennon_error *err)
{
    snapshot_release(r->s);
    return api_end(&r->api, st, err);
}

/* NULL is the snapshot itself. */
static pennon_status read_version_ref(const pennon_ref *given, const struct snapshot *s, struct version_ref *out, pennon_error *err)
{
    pennon_ref ref;
    pennon_ref_init(&ref);
    *out = (struct version_ref){.version = s->version, .as_of_ns = INT64_MIN};
    if (!given) return PENNON_OK;
    TRY_RETURN(options_read(&ref, sizeof ref, given, "pennon_ref", err));
    if (ref.tag && (ref.version != PENNON_NONE || ref.branch))
        return error_set(err, PENNON_INVALID_ARGUMENT, "the tag '%s' says which version is meant: no version or branch beside it",
                         ref.tag);
    if (ref.version == 0) return error_set(err, PENNON_INVALID_ARGUMENT, "version 0: versions begin at 1");
    if (ref.branch && !ref.branch[0]) return error_set(err, PENNON_INVALID_ARGUMENT, "the branch is empty");
    if (ref.tag && !ref.tag[0]) return error_set(err, PENNON_INVALID_ARGUMENT, "the tag is empty");
    out->version = ref.version == PENNON_NONE ? 0 : ref.version;
    out->tag = ref.tag;
    out->branch = ref.branch;
    return PENNON_OK;
}

static pennon_status read_pairs(const struct call *c, const pennon_pairs *p, struct field_pair **out, size_t *n, pennon_error *err)
{
    *out = NULL;
    *n = p ? p->n : 0;
    if (*n == 0) return PENNON_OK;
    *out = mem_calloc(c->mem, *n, sizeof **out, err);
    if (!*out) return err->code;
    for (size_t i = 0; i < *n; i++) {
        if (!p->keys[i] || !p->values[i]) return error_set(err, PENNON_INVALID_ARGUMENT, "metadata %zu is NULL", i);
        (*out)[i] = (struct field_pair){bytes_str(p->keys[i]), bytes_str(p->values[i])};
    }
    return PENNON_OK;
}

/* The version that a ref of the handle means. */
static pennon_status open_ref(const struct call *c, const pennon_dataset *ds, struct snapshot *s, const pennon_ref *given,
                              struct snapshot **out, pennon_error *err)
{
    struct version_ref ref;
    if (!given) {
        *out = snapshot_retain(s);
        return PENNON_OK;
    }
    TRY_RETURN(read_version_ref(given, s, &ref, err));
    return snapshot_open(c, &s->at, &ref, &ds->external, out, err);
}

/* A dataset over `made`, which is taken on every path. */
static pennon_status hand_out(const struct call *c, const pennon_dataset *ds, struct snapshot *made, pennon_dataset **out,
                              pennon_error *err)
{
    pennon_status st = out ? dataset_new(c, made, &ds->external, out, err) : PENNON_OK;
    if (st != PENNON_OK || !out) snapshot_release(made);
    return st;
}

/* ---- tags ---- */

typedef pennon_status (*tag_fn)(const struct call *c, const struct snapshot *s, const char *name, const struct version_ref *to,
                                const struct field_pair *metadata, size_t n, pennon_error *err);

static pennon_status run_create(const struct call *c, const struct snapshot *s, const char *name, const struct version_ref *to,
                                const struct field_pair *metadata, size_t n, pennon_error *err)
{
    return tag_create(c, &s->at, name, to, metadata, n, err);
}

static pennon_status run_update(const struct call *c, const struct snapshot *s, const char *name, const struct version_ref *to,
                                const struct field_pair *metadata, size_t n, pennon_error *err)
{
    UNUSED(metadata);
    UNUSED(n);
    return tag_update(c, &s->at, name, to, err);
}

static pennon_status put_tag(pennon_dataset *ds, const char *name, const pennon_ref *ref, const pennon_tag_options *options,
                             tag_fn run, pennon_error *err)
{
    struct ref_call r = {.api = {.err = &r.api.local}};
    pennon_tag_options o;
    struct version_ref to;
    struct field_pair *metadata = NULL;
    size_t n = 0;
    pennon_tag_options_init(&o);
    pennon_error_init(&r.api.local);
    pennon_status st = options_read(&o, sizeof o, options, "pennon_tag_options", &r.api.local);
    if (st == PENNON_OK) st = begin(&r, o.call, ds, name, "tag");
    if (st == PENNON_OK) st = read_version_ref(ref, r.s, &to, r.api.err);
    if (st == PENNON_OK) st = read_pairs(&r.api.c, o.metadata, &metadata, &n, r.api.err);
    if (st == PENNON_OK) st = run(&r.api.c, r.s, name, &to, metadata, n, r.api.err);
    if (metadata) mem_free(r.api.c.mem, metadata);
    return end(&r, st, err);
}

pennon_status pennon_tag_create(pennon_dataset *ds, const char *name, const pennon_ref *ref, const pennon_tag_options *options,
                                pennon_error *err)
{
    return put_tag(ds, name, ref, options, run_create, err);
}

pennon_status pennon_tag_update(pennon_dataset *ds, const char *name, const pennon_ref *ref, const pennon_tag_options *options,
                                pennon_error *err)
{
    return put_tag(ds, name, ref, options, run_update, err);
}

pennon_status pennon_tag_delete(pennon_dataset *ds, const char *name, const pennon_call *call, pennon_error *err)
{
    struct ref_call r;
    pennon_status st = begin(&r, call, ds, name, "tag");
    if (st == PENNON_OK) st = tag_delete(&r.api.c, &r.s->at, name, r.api.err);
    return end(&r, st, err);
}

static pennon_status set_metadata(pennon_dataset *ds, bool tag, const char *name, const pennon_pairs *pairs,
                                  const pennon_call *call, pennon_error *err)
{
    struct ref_call r;
    struct field_pair *metadata = NULL;
    size_t n = 0;
    pennon_status st = begin(&r, call, ds, name, tag ? "tag" : "branch");
    if (st == PENNON_OK) st = read_pairs(&r.api.c, pairs, &metadata, &n, r.api.err);
    if (st == PENNON_OK) st = ref_set_metadata(&r.api.c, &r.s->at, tag, name, metadata, n, r.api.err);
    if (metadata) mem_free(r.api.c.mem, metadata);
    return end(&r, st, err);
}

pennon_status pennon_tag_set_metadata(pennon_dataset *ds, const char *name, const pennon_pairs *metadata, const pennon_call *call,
                                      pennon_error *err)
{
    return set_metadata(ds, true, name, metadata, call, err);
}

/* ---- branches ---- */

pennon_status pennon_branch_create(pennon_dataset *ds, const char *name, const pennon_ref *ref,
                                   const pennon_branch_options *options, pennon_dataset **out, pennon_error *err)
{
    struct ref_call r = {.api = {.err = &r.api.local}};
    pennon_branch_options o;
    struct snapshot *source = NULL, *made = NULL;
    pennon_branch_options_init(&o);
    pennon_error_init(&r.api.local);
    pennon_status st = options_read(&o, sizeof o, options, "pennon_branch_options", &r.api.local);
    if (st == PENNON_OK) st = begin(&r, o.call, ds, name, "branch");
    if (st == PENNON_OK) st = open_ref(&r.api.c, ds, r.s, ref, &source, r.api.err);
    if (st == PENNON_OK) st = branch_create(&r.api.c, name, source, o.force, &made, r.api.err);
    if (st == PENNON_OK) st = hand_out(&r.api.c, ds, made, out, r.api.err);
    snapshot_release(source);
    return end(&r, st, err);
}

pennon_status pennon_branch_delete(pennon_dataset *ds, const char *name, const pennon_branch_options *options, pennon_error *err)
{
    struct ref_call r = {.api = {.err = &r.api.local}};
    pennon_branch_options o;
    pennon_branch_options_init(&o);
    pennon_error_init(&r.api.local);
    pennon_status st = options_read(&o, sizeof o, options, "pennon_branch_options", &r.api.local);
    if (st == PENNON_OK) st = begin(&r, o.call, ds, name, "branch");
    if (st == PENNON_OK) st = branch_delete(&r.api.c, &r.s->at, name, o.force, r.api.err);
    return end(&r, st, err);
}

pennon_status pennon_branch_set_metadata(pennon_dataset *ds, const char *name, const pennon_pairs *metadata,
                                         const pennon_call *call, pennon_error *err)
{
    return set_metadata(ds, false, name, metadata, call, err);
}

/* ---- clones ---- */

static pennon_status clone_to(const struct call *c, const pennon_dataset *ds, struct snapshot *s, const char *uri,
                              const pennon_clone_options *o, pennon_dataset **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct table_location to = {0};
    struct snapshot *source = NULL, *made = NULL;
    struct clone_options how = {.deep = !o->shallow};
    TRY(open_ref(c, ds, s, o->ref, &source, err));
    TRY(table_locate(c, uri, &to, err));
    TRY(snapshot_clone(c, source, &to, &how, &made, err));
    st = hand_out(c, ds, made, out, err);
done:
    snapshot_release(source);
    table_location_free(c->mem, &to);
    return st;
}

pennon_status pennon_dataset_clone(pennon_dataset *ds, const char *uri, const pennon_clone_options *options, pennon_dataset **out,
                                   pennon_error *err)
{
    struct ref_call r = {.api = {.err = &r.api.local}};
    pennon_clone_options o;
    pennon_clone_options_init(&o);
    pennon_error_init(&r.api.local);
    pennon_status st = options_read(&o, sizeof o, options, "pennon_clone_options", &r.api.local);
    if (st == PENNON_OK) st = begin(&r, o.call, ds, uri, "uri of the clone");
    if (st == PENNON_OK) st = clone_to(&r.api.c, ds, r.s, uri, &o, out, r.api.err);
    return end(&r, st, err);
}
