/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The subcommands that change rows: delete, update. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* What each of them holds. */
struct change {
    pennon_call call;
    pennon_error err;
    pennon_dataset *ds;
    pennon_mutation_options o;
    const char *keys[1], *values[1];
    pennon_pairs message;
};

static int begin(const struct args *a, struct change *w)
{
    const struct option *x = a->options;
    *w = (struct change){.keys = {PENNON_COMMIT_MESSAGE}, .values = {x[OPT_MESSAGE].text}};
    pennon_error_init(&w->err);
    if (!call_setup(a, &w->call)) return EXIT_USAGE;
    pennon_mutation_options_init(&w->o);
    w->o.call = &w->call;
    w->message = (pennon_pairs){1, w->keys, w->values};
    if (x[OPT_MESSAGE].set) w->o.properties = &w->message;
    if (x[OPT_RETRIES].set && x[OPT_RETRIES].number > UINT32_MAX)
        return usage_error("--max-retries takes a number below 2^32, not '%s'", x[OPT_RETRIES].text);
    if (x[OPT_RETRIES].set) w->o.conflict_retries = (uint32_t)x[OPT_RETRIES].number;
    int code = call_durability(a, &w->call);
    return code == EXIT_OK ? open_dataset(a, &w->call, &w->ds) : code;
}

static int end(struct change *w, int code)
{
    pennon_dataset_free(w->ds);
    pennon_error_clear(&w->err);
    call_teardown(&w->call);
    return code;
}

static const char *plural(uint64_t n) { return n == 1 ? "" : "s"; }

/* ---- delete ---- */

static void print_deleted(const struct args *a, const pennon_delete_result *r)
{
    const unsigned long long rows = r->rows_deleted, changed = r->fragments_changed, removed = r->fragments_removed,
                             attempts = r->attempts, version = r->version;
    if (a->options[OPT_JSON].set) {
        printf("{\"rows_deleted\": %llu, \"fragments_changed\": %llu, \"fragments_removed\": %llu, \"attempts\": %llu, "
               "\"version\": %llu}\n",
               rows, changed, removed, attempts, version);
    } else {
        printf("%llu row%s deleted: %llu fragment%s changed, %llu removed; version %llu\n", rows, plural(rows), changed,
               plural(changed), removed, version);
    }
}

static int run_delete(const struct args *a)
{
    struct change w;
    pennon_delete_result result = {.struct_size = sizeof result};
    if (!a->options[OPT_WHERE].set) return usage_error("delete: --where says which rows; --where true deletes all");
    int code = begin(a, &w);
    if (code != EXIT_OK) return end(&w, code);
    progress_begin(&w.call, "rows");
    pennon_status st = pennon_dataset_delete(w.ds, a->options[OPT_WHERE].text, &w.o, &result, &w.err);
    progress_end(&w.call);
    if (st != PENNON_OK) return end(&w, fail(&w.err));
    print_deleted(a, &result);
    return end(&w, EXIT_OK);
}

/* ---- update ---- */

static void print_updated(const struct args *a, const pennon_update_result *r)
{
    const unsigned long long rows = r->rows_updated, changed = r->fragments_changed, removed = r->fragments_removed,
                             added = r->fragments_added, attempts = r->attempts, version = r->version;
    if (a->options[OPT_JSON].set) {
        printf("{\"rows_updated\": %llu, \"fragments_changed\": %llu, \"fragments_removed\": %llu, \"fragments_added\": %llu, "
               "\"attempts\": %llu, \"version\": %llu}\n",
               rows, changed, removed, added, attempts, version);
    } else {
        printf("%llu row%s updated: %llu fragment%s changed, %llu removed, %llu added; version %llu\n", rows, plural(rows), changed,
               plural(changed), removed, added, version);
    }
}

/* The texts of --set, split at the first equals sign; free columns[i]. */
static int read_sets(const struct args *a, char **columns, const char **expressions, size_t *n)
{
    *n = 0;
    for (size_t i = 0; i < a->n_repeated; i++) {
        if (a->repeated[i].id != OPT_SET) continue;
        const char *text = a->repeated[i].text, *equals = strchr(text, '=');
        if (!equals || equals == text || !equals[1]) return usage_error("--set takes COLUMN=SQL, not '%s'", text);
        columns[*n] = strdup(text);
        if (!columns[*n]) return usage_error("out of memory");
        columns[*n][equals - text] = '\0';
        expressions[(*n)++] = equals + 1;
    }
    return *n > 0 ? EXIT_OK : usage_error("update: --set COLUMN=SQL says what changes");
}

static int update_rows(const struct args *a, size_t n, const char *const *columns, const char *const *expressions)
{
    struct change w;
    pennon_update_result result = {.struct_size = sizeof result};
    int code = begin(a, &w);
    if (code != EXIT_OK) return end(&w, code);
    progress_begin(&w.call, "rows");
    pennon_status st = pennon_dataset_update(w.ds, a->options[OPT_WHERE].text, n, columns, expressions, &w.o, &result, &w.err);
    progress_end(&w.call);
    if (st != PENNON_OK) return end(&w, fail(&w.err));
    print_updated(a, &result);
    return end(&w, EXIT_OK);
}

static int run_update(const struct args *a)
{
    char *columns[REPEATED_MAX];
    const char *expressions[REPEATED_MAX];
    size_t n;
    int code = read_sets(a, columns, expressions, &n);
    if (code == EXIT_OK) code = update_rows(a, n, (const char *const *)columns, expressions);
    for (size_t i = 0; i < n; i++) free(columns[i]);
    return code;
}

/* ---- table ---- */

static const enum option_id delete_options[] = {OPT_WHERE, OPT_BRANCH, OPT_MESSAGE, OPT_RETRIES, OPT_EXTERNAL, OPT_SYNC};

static const enum option_id update_options[] = {OPT_SET, OPT_WHERE, OPT_BRANCH, OPT_MESSAGE, OPT_RETRIES, OPT_EXTERNAL, OPT_SYNC};

const struct command command_delete = {
    "delete",
    "URI --where SQL",
    "delete the rows for which an expression is true",
    "The rows are marked as deleted in a new version; older versions still have them, until cleanup removes those.\n"
    "When others change the same rows meanwhile, the rows are looked for again, as often as --max-retries says (default 10).",
    delete_options,
    COUNT(delete_options),
    1,
    1,
    run_delete};
const struct command command_update = {"update",
                                       "URI --set COLUMN=SQL… [--where SQL]",
                                       "set columns to the values of expressions, in some rows or all",
                                       "The expressions see the values from before; a value of another type is cast to the "
                                       "column's. The rows move to the end, and with stable\n"
                                       "row ids they keep their ids. Older versions still have them as they were.",
                                       update_options,
                                       COUNT(update_options),
                                       1,
                                       1,
                                       run_update};
