/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The public calls of compaction: whole, and in parts.
 *
 * Tasks run side by side on the threads of the call, as many as its memory has room for: each has a share of the budget of its own, which scan and writer fit
 * themselves into. One task alone uses all threads for its columns.
 * Source: spec commits 9, api-surface 15. */
#include "dataset/compact.h"
#include "dataset/mutation.h"

/* Of the budget, for every task that runs. */
#define TASK_BYTES ((uint64_t)160 << 20)

static pennon_status begin(struct api *a, const pennon_compaction_options *options, pennon_compaction_options *o,
                           pennon_dataset *ds)
{
    pennon_compaction_options_init(o);
    a->c = (struct call){0};
    a->err = &a->local;
    pennon_error_init(&a->local);
    TRY_RETURN(options_read(o, sizeof *o, options, "pennon_compaction_options", &a->local));
    return api_begin(a, o->call, ds, "dataset");
}

/* The place of a failure. */
static pennon_status placed(const struct snapshot *s, pennon_status st, pennon_error *err)
{
    if (st == PENNON_OK) return st;
    (void)table_error(&s->at, st, err);
    return error_where(err, s->at.uri, NULL, PENNON_NOWHERE, PENNON_NOWHERE, PENNON_NOWHERE);
}

static void metrics_out(const struct compact_result *results, size_t n, uint64_t version, pennon_compaction_metrics *to)
{
    pennon_compaction_metrics m = {.version = version};
    for (size_t i = 0; i < n; i++) {
        m.fragments_removed += results[i].counts.fragments_removed;
        m.fragments_added += results[i].counts.fragments_added;
        m.files_removed += results[i].counts.files_removed;
        m.files_added += results[i].counts.files_added;
    }
    mutation_result_out(&m, sizeof m, to);
}

/* ---- tasks side by side ---- */

/* Result and memory of a task. */
struct task_run {
    struct arena arena; /* of the call's memory: what is left of the task */
    struct compact_result result;
    bool done;
};

struct running {
    struct call *call;
    struct snapshot *s;
    struct file_cache *files;
    const struct compact_plan *plan;
    bool allow_loss;
    uint64_t share; /* bytes */
    uint32_t threads;
    struct compact_progress progress;
    struct task_run *runs;
};

static pennon_status run_task(void *arg, size_t i, pennon_error *err)
{
    struct running *r = arg;
    struct task_run *run = &r->runs[i];
    struct call c = *r->call;
    struct mem *own = mem_new(r->call->mem, r->share, NULL, err);
    if (!own) return err->code;
    c.mem = own;
    c.threads = r->threads;
    pennon_status st = compact_execute(&c, r->s, r->files, &r->plan->settings, &r->plan->tasks[i], r->allow_loss, &r->progress,
                                       &run->arena, &run->result, err);
    run->done = st == PENNON_OK;
    mem_release(own);
    return st;
}

static pennon_status count_rows(struct running *r, pennon_error *err)
{
    for (size_t i = 0; i < r->plan->n; i++) {
        for (size_t k = 0; k < r->plan->tasks[i].n; k++) {
            const struct fragment *f = snapshot_find_fragment(r->s, r->plan->tasks[i].fragments[k].id);
            uint64_t live;
            ASSERT(f != NULL);
            TRY_RETURN(fragment_live_rows(r->call, r->s, f, file_cache_length, r->files, &live, err));
            r->progress.total += live;
        }
    }
    return PENNON_OK;
}

/* Every task of the plan, or none: then no file is left. Results are in the arenas of the runs. */
static pennon_status run_tasks(struct running *r, pennon_error *err)
{
    const struct compact_settings *k = &r->plan->settings;
    const uint64_t limit = mem_available(r->call->mem);
    uint64_t most = min_u64(r->call->threads, max_u64(limit / TASK_BYTES, 1));
    most = max_u64(min_u64(min_u64(most, r->plan->n), k->threads), 1);
    r->share = most > 1 ? limit / most : UINT64_MAX;
    r->threads = (uint32_t)max_u64(r->call->threads / most, 1);
    r->progress.call = r->call;
    atomic_flag_clear(&r->progress.busy);
    TRY_RETURN(count_rows(r, err));
    pennon_status st = pool_parallel(call_pool(r->call), (uint32_t)most, r->plan->n, run_task, r, err);
    for (size_t i = 0; st != PENNON_OK && i < r->plan->n; i++) {
        if (r->runs[i].done) compact_remove_files(r->call, r->s, &r->runs[i].result, 1);
    }
    return st;
}

/* The indices of the plan's fragments are looked at before any work. */
static pennon_status check_plan(const struct call *c, struct snapshot *s, const struct compact_plan *p,
                                const struct compact_commit *o, pennon_error *err)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct compact_result r = {.old_fragments = p->tasks[i].fragments, .n_old = p->tasks[i].n};
        TRY_RETURN(compact_check_indices(c, s, o, &r, 1, err));
    }
    return PENNON_OK;
}

static struct compact_commit commit_of(const pennon_compaction_options *o, bool defer)
{
    return (struct compact_commit){
        .defer = defer, .properties = o->properties, .skip_auto_cleanup = o->skip_auto_cleanup, .max_retries = o->max_retries};
}

static pennon_status compact(struct call *c, struct snapshot *s, struct file_cache *files, const pennon_compaction_options *o,
                             struct arena *a, struct compact_result **results, size_t *n, struct task_run **runs,
                             struct snapshot **out, pennon_error *err)
{
    struct compact_settings settings;
    struct compact_plan plan;
    TRY_RETURN(compact_settings_make(c, s, o, &settings, err));
    TRY_RETURN(compact_check(s, err));
    TRY_RETURN(compact_plan_make(c, s, files, &settings, a, &plan, err));
    struct compact_commit k = commit_of(o, settings.defer);
    k.own_files = true;
    TRY_RETURN(check_plan(c, s, &plan, &k, err));
    *runs = arena_calloc(a, plan.n, sizeof **runs, err);
    *results = arena_calloc(a, plan.n, sizeof **results, err);
    if (!*runs || !*results) return err->code;
    *n = plan.n;
    for (size_t i = 0; i < plan.n; i++) arena_init(&(*runs)[i].arena, c->mem);
    struct running r = {.call = c, .s = s, .files = files, .plan = &plan, .allow_loss = o->allow_loss, .runs = *runs};
    if (plan.n > 0) TRY_RETURN(run_tasks(&r, err));
    for (size_t i = 0; i < plan.n; i++) (*results)[i] = (*runs)[i].result;
    return compact_commit(c, s, *results, plan.n, &k, out, err);
}

pennon_status pennon_dataset_compact(pennon_dataset *ds, const pennon_compaction_options *options,
                                     pennon_compaction_metrics *metrics, pennon_error *err)
{
    struct api a;
    pennon_compaction_options o;
    struct arena arena;
    struct snapshot *s, *made = NULL;
    struct file_cache *files;
    struct compact_result *results = NULL;
    struct task_run *runs = NULL;
    size_t n = 0;
    pennon_status st = begin(&a, options, &o, ds);
    if (st != PENNON_OK) return api_end(&a, st, err);
    arena_init(&arena, a.c.mem);
    dataset_get(ds, &s, &files);
    st = placed(s, compact(&a.c, s, files, &o, &arena, &results, &n, &runs, &made, a.err), a.err);
    if (st == PENNON_OK) {
        metrics_out(results, n, made->version, metrics);
        dataset_move(ds, made);
    }
    for (size_t i = 0; i < n; i++) arena_reset(&runs[i].arena);
    file_cache_release(files);
    snapshot_release(s);
    arena_reset(&arena);
    return api_end(&a, st, err);
}

/* ---- in parts ---- */

/* What a plan is made of, and where it is. */
struct planning {
    struct api api;
    pennon_compaction_options o;
    struct arena arena;
    struct snapshot *s;
    struct file_cache *files;
    struct compact_plan plan;
};

static pennon_status make_plan(struct planning *p)
{
    struct compact_settings settings;
    pennon_error *err = p->api.err;
    TRY_RETURN(compact_settings_make(&p->api.c, p->s, &p->o, &settings, err));
    TRY_RETURN(compact_check(p->s, err));
    return compact_plan_make(&p->api.c, p->s, p->files, &settings, &p->arena, &p->plan, err);
}

static pennon_status planning_begin(struct planning *p, pennon_dataset *ds, const pennon_compaction_options *options,
                                    const void *out)
{
    *p = (struct planning){0};
    pennon_status st = begin(&p->api, options, &p->o, ds);
    if (st == PENNON_OK && !out) st = error_set(p->api.err, PENNON_INVALID_ARGUMENT, "out is NULL");
    if (st != PENNON_OK) return st;
    arena_init(&p->arena, p->api.c.mem);
    dataset_get(ds, &p->s, &p->files);
    return placed(p->s, make_plan(p), p->api.err);
}

static pennon_status planning_end(struct planning *p, pennon_status st, pennon_error *err)
{
    if (p->s) {
        file_cache_release(p->files);
        snapshot_release(p->s);
        arena_reset(&p->arena);
    }
    return api_end(&p->api, st, err);
}

pennon_status pennon_dataset_compact_plan_json(pennon_dataset *ds, const pennon_compaction_options *options, char **out,
                                               pennon_error *err)
{
    struct planning p;
    struct buf text = {0};
    pennon_status st = planning_begin(&p, ds, options, out);
    if (st == PENNON_OK) {
        buf_init(&text, p.api.c.mem, BUF_NO_LIMIT);
        st = compact_plan_to_json(&p.plan, &text, p.api.err);
        if (st == PENNON_OK) st = text_out(&text, out, p.api.err);
        buf_free(&text);
    }
    return planning_end(&p, st, err);
}

static pennon_status task_row(const struct planning *p, size_t i, struct builder *rows, pennon_error *err)
{
    const struct compact_task *t = &p->plan.tasks[i];
    uint64_t live = 0, deleted = 0, files = 0, bytes = 0;
    TRY_RETURN(builder_append_uint(builder_child(rows, 0), i, err));
    for (size_t k = 0; k < t->n; k++) {
        const struct fragment_message *f = &t->fragments[k];
        uint64_t alive;
        TRY_RETURN(
            fragment_live_rows(&p->api.c, p->s, snapshot_find_fragment(p->s, f->id), file_cache_length, p->files, &alive, err));
        live += alive;
        deleted += f->physical_rows - min_u64(alive, f->physical_rows);
        files += f->n_files;
        for (size_t d = 0; d < f->n_files; d++) bytes += f->files[d].file_size_bytes;
        TRY_RETURN(builder_append_uint(builder_child(builder_child(rows, 1), 0), f->id, err));
    }
    TRY_RETURN(builder_append_row(builder_child(rows, 1), err));
    const uint64_t numbers[] = {live, deleted, files, bytes};
    for (size_t k = 0; k < ARRAY_LEN(numbers); k++) TRY_RETURN(builder_append_uint(builder_child(rows, 2 + k), numbers[k], err));
    return builder_append_row(rows, err);
}

static pennon_status plan_table(const struct planning *p, struct ArrowArrayStream *out, pennon_error *err)
{
    static const char type[] =
        "struct<task: uint64, fragments: list<item: uint64>, rows: uint64, deleted_rows: uint64, files: uint64, bytes: uint64>";
    pennon_status st = PENNON_OK;
    struct ArrowSchema schema = {0};
    struct ArrowArray batch = {0};
    struct builder *rows = NULL;
    TRY(arrow_schema_from_text(bytes_str(type), "", p->api.c.mem, &schema, err));
    schema.flags = 0;
    TRY_NEW(rows, builder_new(&schema, p->api.c.mem, err));
    for (size_t i = 0; i < p->plan.n; i++) TRY(task_row(p, i, rows, err));
    TRY(builder_finish(rows, &batch, err));
    TRY(stream_of_batch(&p->api.c, &schema, &batch, out, err));
done:
    builder_free(rows);
    arrow_schema_release(&schema);
    array_release(&batch);
    return st;
}

pennon_status pennon_dataset_compact_plan(pennon_dataset *ds, const pennon_compaction_options *options,
                                          struct ArrowArrayStream *out, pennon_error *err)
{
    struct planning p;
    pennon_status st = planning_begin(&p, ds, options, out);
    if (st == PENNON_OK) st = plan_table(&p, out, p.api.err);
    return planning_end(&p, st, err);
}

/* The version that a task was planned for, retained. */
static pennon_status open_version(const struct call *c, pennon_dataset *ds, struct snapshot *s, uint64_t version,
                                  struct snapshot **out, pennon_error *err)
{
    const struct version_ref ref = {.version = version, .as_of_ns = INT64_MIN};
    if (version == 0) return error_set(err, PENNON_INVALID_ARGUMENT, "read_version: versions begin at 1");
    if (version != s->version) return snapshot_open(c, &s->at, &ref, &ds->external, out, err);
    *out = snapshot_retain(s);
    return PENNON_OK;
}

static pennon_status execute_text(struct call *c, pennon_dataset *ds, struct snapshot *s, struct file_cache *files,
                                  const char *json, const pennon_compaction_options *o, struct arena *a, struct buf *out,
                                  pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct compact_plan plan;
    struct compact_result result = {0};
    struct snapshot *then = NULL;
    struct compact_progress progress = {.call = c};
    atomic_flag_clear(&progress.busy);
    TRY(compact_task_from_json(bytes_str(json), a, &plan, err));
    TRY(open_version(c, ds, s, plan.read_version, &then, err));
    for (size_t i = 0; i < plan.tasks[0].n; i++) progress.total += plan.tasks[0].fragments[i].physical_rows;
    TRY(compact_execute(c, then, files, &plan.settings, &plan.tasks[0], o->allow_loss, &progress, a, &result, err));
    st = compact_result_to_json(&result, out, err);
    if (st != PENNON_OK) compact_remove_files(c, then, &result, 1);
done:
    snapshot_release(then);
    return st;
}

pennon_status pennon_compact_execute_json(pennon_dataset *ds, const char *task_json, const pennon_compaction_options *options,
                                          char **out, pennon_error *err)
{
    struct api a;
    pennon_compaction_options o;
    struct arena arena;
    struct buf text;
    struct snapshot *s;
    struct file_cache *files;
    pennon_status st = begin(&a, options, &o, ds);
    if (st == PENNON_OK && (!out || !task_json)) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "task_json or out is NULL");
    if (st != PENNON_OK) return api_end(&a, st, err);
    arena_init(&arena, a.c.mem);
    buf_init(&text, a.c.mem, BUF_NO_LIMIT);
    dataset_get(ds, &s, &files);
    st = placed(s, execute_text(&a.c, ds, s, files, task_json, &o, &arena, &text, a.err), a.err);
    if (st == PENNON_OK) st = text_out(&text, out, a.err);
    file_cache_release(files);
    snapshot_release(s);
    buf_free(&text);
    arena_reset(&arena);
    return api_end(&a, st, err);
}

pennon_status pennon_dataset_compact_commit_json(pennon_dataset *ds, const char *results_json,
                                                 const pennon_compaction_options *options, pennon_compaction_metrics *metrics,
                                                 pennon_error *err)
{
    struct api a;
    pennon_compaction_options o;
    struct arena arena;
    struct snapshot *s, *made = NULL;
    struct compact_result *results = NULL;
    size_t n = 0;
    pennon_status st = begin(&a, options, &o, ds);
    if (st == PENNON_OK && !results_json) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "results_json is NULL");
    if (st != PENNON_OK) return api_end(&a, st, err);
    arena_init(&arena, a.c.mem);
    dataset_get(ds, &s, NULL);
    const struct compact_commit k = commit_of(&o, (o.set & PENNON_COMPACT_SET_DEFER_INDEX_REMAP) != 0 && o.defer_index_remap);
    st = compact_results_from_json(bytes_str(results_json), &arena, &results, &n, a.err);
    if (st == PENNON_OK) st = compact_check(s, a.err);
    if (st == PENNON_OK) st = compact_commit(&a.c, s, results, n, &k, &made, a.err);
    if (st == PENNON_OK) {
        metrics_out(results, n, made->version, metrics);
        dataset_move(ds, made);
    } else {
        (void)placed(s, st, a.err);
    }
    snapshot_release(s);
    arena_reset(&arena);
    return api_end(&a, st, err);
}

/* ---- texts ---- */

static pennon_status renew(int32_t kind, struct bytes text, struct arena *a, struct buf *out, pennon_error *err)
{
    struct compact_plan plan;
    struct compact_result result;
    switch (kind) {
    case PENNON_COMPACT_TEXT_PLAN:
        TRY_RETURN(compact_plan_from_json(text, a, &plan, err));
        return compact_plan_to_json(&plan, out, err);
    case PENNON_COMPACT_TEXT_TASK:
        TRY_RETURN(compact_task_from_json(text, a, &plan, err));
        return compact_task_to_json(&plan, 0, out, err);
    case PENNON_COMPACT_TEXT_RESULT:
        TRY_RETURN(compact_result_from_json(text, a, &result, err));
        return compact_result_to_json(&result, out, err);
    default: return error_set(err, PENNON_INVALID_ARGUMENT, "kind %d is not one of the PENNON_COMPACT_TEXT_ values", kind);
    }
}

pennon_status pennon_compact_text(int32_t kind, const char *json, char **out, pennon_error *err)
{
    struct api a;
    struct arena arena;
    struct buf text;
    pennon_status st = api_begin(&a, NULL, json, "json");
    if (st == PENNON_OK && !out) st = error_set(a.err, PENNON_INVALID_ARGUMENT, "out is NULL");
    if (st != PENNON_OK) return api_end(&a, st, err);
    arena_init(&arena, a.c.mem);
    buf_init(&text, a.c.mem, BUF_NO_LIMIT);
    st = renew(kind, bytes_str(json), &arena, &text, a.err);
    if (st == PENNON_OK) st = text_out(&text, out, a.err);
    buf_free(&text);
    arena_reset(&arena);
    return api_end(&a, st, err);
}
