/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* One change of a table in a process of its own; bench/mutations_beside_official.py runs it and official Lance in turn.
 *
 * Usage: mutate_table DURABILITY delete TABLE WHERE
 *        mutate_table DURABILITY update TABLE COLUMN=SQL WHERE
 *        mutate_table DURABILITY merge TABLE FILE KEY          upsert of the rows of an Arrow IPC file
 *        mutate_table DURABILITY add TABLE COLUMN=SQL
 *        mutate_table DURABILITY cast TABLE COLUMN             to int64
 *        mutate_table DURABILITY compact TABLE ROWS            fragments of so many rows
 * DURABILITY: full, or none as official has it. MUTATE_BUDGET in the environment: the budget of the call in bytes.
 * Prints a line: seconds from opening to the end of the commit, rows, bytes read, bytes written, peak memory of the work in bytes, and calls for memory
 * (0 without count_allocations in front). */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pennon/pennon.h"

#define NAME_MAX_BYTES 256

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The number behind `key` in a file of /proc; 0 when there is none. */
static uint64_t proc_number(const char *file, const char *key)
{
    char line[256];
    uint64_t value = 0;
    FILE *f = fopen(file, "r");
    if (!f) return 0;
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, key, strlen(key)) == 0) value = strtoull(line + strlen(key), NULL, 10);
    }
    fclose(f);
    return value;
}

static uint64_t allocations(void)
{
    uint64_t (*count)(void) = NULL;
    void *found = dlsym(RTLD_DEFAULT, "bench_allocations");
    if (!found) return 0;
    memcpy(&count, &found, sizeof count); /* C has no cast from an object's pointer to a function's */
    return count();
}

static void check(pennon_status st, const pennon_error *err)
{
    if (st == PENNON_OK) return;
    fprintf(stderr, "mutate_table: %s\n", err->message);
    exit(1);
}

static uint64_t run_delete(pennon_dataset *ds, const pennon_call *call, char **args)
{
    pennon_error err;
    pennon_delete_result result = {.struct_size = sizeof result};
    pennon_mutation_options o;
    pennon_mutation_options_init(&o);
    o.call = call;
    check(pennon_dataset_delete(ds, args[0], &o, &result, &err), &err);
    return result.rows_deleted;
}

/* "a=b" cut in two; the value, and the name in `name`. */
static const char *cut(const char *text, char *name)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals - text >= NAME_MAX_BYTES) exit(2);
    snprintf(name, NAME_MAX_BYTES, "%.*s", (int)(equals - text), text);
    return equals + 1;
}

static uint64_t run_update(pennon_dataset *ds, const pennon_call *call, char **args)
{
    pennon_error err;
    pennon_update_result result = {.struct_size = sizeof result};
    pennon_mutation_options o;
    pennon_mutation_options_init(&o);
    o.call = call;
    char name[NAME_MAX_BYTES];
    const char *column = name, *value = cut(args[0], name);
    check(pennon_dataset_update(ds, args[1], 1, &column, &value, &o, &result, &err), &err);
    return result.rows_updated;
}

static uint64_t run_merge(pennon_dataset *ds, const pennon_call *call, char **args)
{
    pennon_error err;
    pennon_merge_result result = {.struct_size = sizeof result};
    pennon_merge_options o;
    struct ArrowArrayStream rows;
    const pennon_source source = {.struct_size = sizeof source, .path = args[0]};
    const char *key = args[1];
    const pennon_names on = {1, &key};
    pennon_merge_options_init(&o);
    o.call = call;
    o.on = &on;
    o.when_matched = PENNON_MATCHED_UPDATE;
    o.when_not_matched = PENNON_NOT_MATCHED_INSERT;
    check(pennon_ipc_open(&source, NULL, &rows, &err), &err);
    check(pennon_dataset_merge(ds, &rows, &o, &result, &err), &err);
    return result.rows_inserted + result.rows_updated;
}

static uint64_t run_add(pennon_dataset *ds, const pennon_call *call, char **args)
{
    pennon_error err;
    pennon_evolution_options o;
    char name[NAME_MAX_BYTES];
    const char *column = name, *value = cut(args[0], name);
    pennon_evolution_options_init(&o);
    o.call = call;
    check(pennon_dataset_add_columns_sql(ds, 1, &column, &value, &o, NULL, &err), &err);
    return 0;
}

static void keep_schema(struct ArrowSchema *s) { s->release = NULL; }

static uint64_t run_cast(pennon_dataset *ds, const pennon_call *call, char **args)
{
    pennon_error err;
    pennon_evolution_options o;
    struct ArrowSchema type = {.format = "l", .name = "", .flags = ARROW_FLAG_NULLABLE, .release = keep_schema};
    const pennon_alteration change = {.path = args[0], .type = &type};
    pennon_evolution_options_init(&o);
    o.call = call;
    check(pennon_dataset_alter_columns(ds, 1, &change, &o, NULL, &err), &err);
    return 0;
}

static uint64_t run_compact(pennon_dataset *ds, const pennon_call *call, char **args)
{
    pennon_error err;
    pennon_compaction_options o;
    pennon_compaction_metrics metrics = {.struct_size = sizeof metrics};
    pennon_compaction_options_init(&o);
    o.call = call;
    o.set = PENNON_COMPACT_SET_TARGET_ROWS;
    o.target_rows_per_fragment = strtoull(args[0], NULL, 10);
    check(pennon_dataset_compact(ds, &o, &metrics, &err), &err);
    return metrics.fragments_added;
}

static const struct {
    const char *name;
    int n_args;
    uint64_t (*run)(pennon_dataset *ds, const pennon_call *call, char **args); /* the rows that the verb tells */
} works[] = {{"delete", 1, run_delete}, {"update", 2, run_update}, {"merge", 2, run_merge},
             {"add", 1, run_add},       {"cast", 1, run_cast},     {"compact", 1, run_compact}};

int main(int argc, char **argv)
{
    pennon_error err;
    pennon_dataset *ds = NULL;
    pennon_call call;
    size_t w = 0;
    pennon_call_init(&call);
    while (argc > 3 && w < sizeof works / sizeof *works && (strcmp(works[w].name, argv[2]) != 0 || works[w].n_args != argc - 4))
        w++;
    if (argc <= 3 || w == sizeof works / sizeof *works)
        return fprintf(stderr, "usage: mutate_table full|none WORK TABLE ...; see the source\n"), 2;
    call.durability = strcmp(argv[1], "none") == 0 ? PENNON_DURABILITY_NONE : PENNON_DURABILITY_FULL;
    if (getenv("MUTATE_BUDGET"))
        check(pennon_budget_new(NULL, strtoull(getenv("MUTATE_BUDGET"), NULL, 10), &call.budget, &err), &err);
    const uint64_t before = proc_number("/proc/self/status", "VmRSS:"), allocated = allocations();
    const uint64_t read = proc_number("/proc/self/io", "rchar:"), written = proc_number("/proc/self/io", "wchar:");
    const double start = now();
    check(pennon_dataset_open(argv[3], NULL, &ds, &err), &err);
    const uint64_t rows = works[w].run(ds, &call, argv + 4);
    const double seconds = now() - start;
    const uint64_t calls = allocations() - allocated;
    printf("%.9f %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", seconds, rows,
           proc_number("/proc/self/io", "rchar:") - read, proc_number("/proc/self/io", "wchar:") - written,
           (proc_number("/proc/self/status", "VmHWM:") - before) * 1024, calls);
    if (call.budget && getenv("MUTATE_PEAK")) fprintf(stderr, "budget: peak %" PRIu64 "\n", pennon_budget_peak(call.budget));
    pennon_dataset_free(ds);
    pennon_budget_free(call.budget);
    return 0;
}
