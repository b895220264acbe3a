/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The subcommand cleanup: old versions go, and files that nobody needs. */
#include "cli.h"
#include "pennon/maintenance.h"

/* ---- options ---- */

static int cleanup_options(const struct args *a, const pennon_call *call, pennon_cleanup_options *o)
{
    const struct option *x = a->options;
    pennon_cleanup_options_init(o);
    o->call = call;
    if (x[OPT_OLDER_THAN].set && pennon_duration_parse(x[OPT_OLDER_THAN].text, &o->older_than_ns, NULL) != PENNON_OK)
        return usage_error("--older-than takes a duration such as 14d, 12h or 0s, not '%s'", x[OPT_OLDER_THAN].text);
    if (x[OPT_KEEP].set && x[OPT_KEEP].number == 0) return usage_error("--keep takes at least 1: the latest version always stays");
    if (x[OPT_KEEP].set) o->keep_versions = x[OPT_KEEP].number;
    if (x[OPT_BEFORE_VERSION].set) o->before_version = x[OPT_BEFORE_VERSION].number;
    o->before_tag = x[OPT_BEFORE_TAG].text;
    o->delete_unverified = x[OPT_DELETE_UNVERIFIED].set;
    o->error_if_tagged = x[OPT_ERROR_IF_TAGGED].set;
    o->dry_run = x[OPT_DRY_RUN].set;
    return EXIT_OK;
}

/* ---- results ---- */

static void print_count(FILE *f, uint64_t n, const char *one, const char *many)
{
    fprintf(f, ", %llu %s", (unsigned long long)n, n == 1 ? one : many);
}

static void print_stats(FILE *f, const pennon_cleanup_stats *s, bool dry_run)
{
    fprintf(f, "%s: %llu bytes", dry_run ? "would be removed" : "removed", (unsigned long long)s->bytes_removed);
    print_count(f, s->versions, "version", "versions");
    print_count(f, s->data_files, "data file", "data files");
    print_count(f, s->deletion_files, "deletion file", "deletion files");
    print_count(f, s->index_files, "index file", "index files");
    print_count(f, s->transaction_files, "transaction file", "transaction files");
    if (s->temporary_files) print_count(f, s->temporary_files, "temporary file", "temporary files");
    fputc('\n', f);
}

static void print_stats_json(const pennon_cleanup_stats *s)
{
    printf("{\"bytes_removed\": %llu, \"versions\": %llu, \"data_files\": %llu, \"deletion_files\": %llu, \"index_files\": %llu, "
           "\"transaction_files\": %llu, \"temporary_files\": %llu}\n",
           (unsigned long long)s->bytes_removed, (unsigned long long)s->versions, (unsigned long long)s->data_files,
           (unsigned long long)s->deletion_files, (unsigned long long)s->index_files, (unsigned long long)s->transaction_files,
           (unsigned long long)s->temporary_files);
}

/* A dry run lists every file and says the sum on standard error; a run says the sum. */
static int clean(const struct args *a, const pennon_call *call, pennon_dataset *ds, const pennon_cleanup_options *o,
                 pennon_error *err)
{
    pennon_cleanup_stats stats;
    struct ArrowArrayStream files = {0};
    pennon_status st = pennon_dataset_cleanup(ds, o, &stats, o->dry_run ? &files : NULL, err);
    if (st != PENNON_OK) {
        int code = fail(err);
        if (stats.bytes_removed || stats.versions) print_stats(stderr, &stats, false);
        return code;
    }
    if (o->dry_run) {
        int code = write_listing(a, call, &files);
        if (code == EXIT_OK) print_stats(stderr, &stats, true);
        return code;
    }
    if (a->options[OPT_JSON].set) {
        print_stats_json(&stats);
    } else {
        print_stats(stdout, &stats, false);
    }
    return EXIT_OK;
}

static int run_cleanup(const struct args *a)
{
    pennon_call call;
    pennon_cleanup_options o;
    pennon_dataset *ds = NULL;
    pennon_error err;
    if (!call_setup(a, &call)) return EXIT_USAGE;
    pennon_error_init(&err);
    int code = cleanup_options(a, &call, &o);
    if (code == EXIT_OK) code = open_dataset(a, &call, &ds);
    if (code == EXIT_OK) {
        if (!o.dry_run) progress_begin(&call, "files");
        code = clean(a, &call, ds, &o, &err);
        progress_end(&call);
    }
    pennon_dataset_free(ds);
    pennon_error_clear(&err);
    call_teardown(&call);
    return code;
}

/* ---- table ---- */

static const enum option_id cleanup_option_ids[] = {OPT_OLDER_THAN, OPT_KEEP,    OPT_BEFORE_VERSION,    OPT_BEFORE_TAG,
                                                    OPT_BRANCH,     OPT_DRY_RUN, OPT_DELETE_UNVERIFIED, OPT_ERROR_IF_TAGGED};

const struct command command_cleanup = {
    "cleanup",
    "URI",
    "remove old versions and files that nobody needs",
    "Versions go when every limit that is given calls them old; with none given, those of 14 days and more. The latest version, "
    "tagged versions\n"
    "and those that branches start from stay, with all their files. Files that no version refers to stay for 7 days, for a writer "
    "may be at work.\n"
    "--dry-run lists every file with the reason why it stays or goes. Each branch is cleaned by itself: --branch.",
    cleanup_option_ids,
    sizeof cleanup_option_ids / sizeof cleanup_option_ids[0],
    1,
    1,
    run_cleanup};
