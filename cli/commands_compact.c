/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The subcommand compact: many small fragments become few large ones. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "pennon/compaction.h"

/* ---- options ---- */

static int read_mode(const char *text, int32_t *out)
{
    static const char *const names[] = {"auto", "reencode", "try-binary-copy", "force-binary-copy"};
    for (size_t i = 1; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) != 0) continue;
        *out = (int32_t)i;
        return EXIT_OK;
    }
    return usage_error("--mode takes reencode, try-binary-copy or force-binary-copy, not '%s'", text);
}

static int read_threshold(const char *text, float *out)
{
    char *end;
    *out = strtof(text, &end);
    if (end == text || *end || !(*out >= 0 && *out <= 1))
        return usage_error("--threshold takes a share from 0 to 1, not '%s'", text);
    return EXIT_OK;
}

static int compact_options(const struct args *a, const pennon_call *call, pennon_compaction_options *o)
{
    const struct option *x = a->options;
    int code = EXIT_OK;
    pennon_compaction_options_init(o);
    o->call = call;
    if (x[OPT_TARGET_ROWS].set) {
        o->set |= PENNON_COMPACT_SET_TARGET_ROWS;
        o->target_rows_per_fragment = x[OPT_TARGET_ROWS].number;
    }
    if (x[OPT_MAX_BYTES].set) {
        o->set |= PENNON_COMPACT_SET_MAX_BYTES;
        o->max_bytes_per_file = x[OPT_MAX_BYTES].number;
    }
    if (x[OPT_MAX_SOURCES].set) {
        o->set |= PENNON_COMPACT_SET_MAX_SOURCE_FRAGMENTS;
        o->max_source_fragments = x[OPT_MAX_SOURCES].number;
    }
    if (x[OPT_NO_DELETIONS].set && x[OPT_THRESHOLD].set) return usage_error("--no-deletions and --threshold say different things");
    if (x[OPT_NO_DELETIONS].set) {
        o->set |= PENNON_COMPACT_SET_MATERIALIZE_DELETIONS;
        o->materialize_deletions = false;
    }
    if (x[OPT_THRESHOLD].set) {
        o->set |= PENNON_COMPACT_SET_THRESHOLD;
        code = read_threshold(x[OPT_THRESHOLD].text, &o->materialize_deletions_threshold);
    }
    if (x[OPT_DEFER].set) {
        o->set |= PENNON_COMPACT_SET_DEFER_INDEX_REMAP;
        o->defer_index_remap = true;
    }
    if (code == EXIT_OK && x[OPT_MODE].set) {
        o->set |= PENNON_COMPACT_SET_MODE;
        code = read_mode(x[OPT_MODE].text, &o->compaction_mode);
    }
    o->allow_loss = x[OPT_ALLOW_LOSS].set;
    return code;
}

/* ---- results ---- */

static void print_metrics(const struct args *a, const pennon_compaction_metrics *m)
{
    const unsigned long long removed = m->fragments_removed, added = m->fragments_added, files_removed = m->files_removed,
                             files_added = m->files_added, version = m->version;
    if (a->options[OPT_JSON].set) {
        printf("{\"fragments_removed\": %llu, \"fragments_added\": %llu, \"files_removed\": %llu, \"files_added\": %llu, "
               "\"version\": %llu}\n",
               removed, added, files_removed, files_added, version);
    } else if (removed == 0) {
        printf("nothing to compact; version %llu\n", version);
    } else {
        printf("%llu fragment%s became %llu: %llu file%s removed, %llu added; version %llu\n", removed, removed == 1 ? "" : "s",
               added, files_removed, files_removed == 1 ? "" : "s", files_added, version);
    }
}

static int show_plan(const struct args *a, const pennon_call *call, pennon_dataset *ds, const pennon_compaction_options *o,
                     pennon_error *err)
{
    struct ArrowArrayStream tasks = {0};
    if (pennon_dataset_compact_plan(ds, o, &tasks, err) != PENNON_OK) return fail(err);
    return write_listing(a, call, &tasks);
}

static int compact(const struct args *a, pennon_call *call, pennon_dataset *ds, const pennon_compaction_options *o,
                   pennon_error *err)
{
    pennon_compaction_metrics m = {.struct_size = sizeof m};
    progress_begin(call, "rows");
    const pennon_status st = pennon_dataset_compact(ds, o, &m, err);
    progress_end(call);
    if (st != PENNON_OK) return fail(err);
    print_metrics(a, &m);
    return EXIT_OK;
}

static int run_compact(const struct args *a)
{
    pennon_call call;
    pennon_compaction_options o;
    pennon_dataset *ds = NULL;
    pennon_error err;
    const char *const keys[] = {PENNON_COMMIT_MESSAGE}, *const values[] = {a->options[OPT_MESSAGE].text};
    const pennon_pairs message = {1, keys, values};
    if (!call_setup(a, &call)) return EXIT_USAGE;
    pennon_error_init(&err);
    int code = compact_options(a, &call, &o);
    if (a->options[OPT_MESSAGE].set) o.properties = &message;
    if (code == EXIT_OK) code = call_durability(a, &call);
    if (code == EXIT_OK) code = open_dataset(a, &call, &ds);
    if (code == EXIT_OK) code = a->options[OPT_DRY_RUN].set ? show_plan(a, &call, ds, &o, &err) : compact(a, &call, ds, &o, &err);
    pennon_dataset_free(ds);
    pennon_error_clear(&err);
    call_teardown(&call);
    return code;
}

/* ---- table ---- */

static const enum option_id compact_option_ids[] = {
    OPT_TARGET_ROWS, OPT_MAX_BYTES, OPT_NO_DELETIONS, OPT_THRESHOLD,  OPT_MAX_SOURCES, OPT_DEFER, OPT_MODE,
    OPT_DRY_RUN,     OPT_BRANCH,    OPT_MESSAGE,      OPT_ALLOW_LOSS, OPT_EXTERNAL,    OPT_SYNC};

const struct command command_compact = {
    "compact",
    "URI",
    "make few large fragments of many small ones, and drop deleted rows",
    "Neighbours with fewer than --target-rows rows are joined, and fragments of which much is deleted are written anew. Rows keep "
    "their order, and with\n"
    "stable row ids their ids. The old files stay for older versions, until cleanup removes those.\n"
    "What is not given comes from the table's config (lance.compaction.*). When others change the same rows meanwhile, nothing is "
    "changed: run it again.",
    compact_option_ids,
    sizeof compact_option_ids / sizeof compact_option_ids[0],
    1,
    1,
    run_compact};
