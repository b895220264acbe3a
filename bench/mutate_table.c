/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* One change of a table in a process of its own; bench/mutations_beside_official.py runs it and official Lance in turn.
 *
 * Usage: mutate_table DURABILITY delete TABLE WHERE
 *        mutate_table DURABILITY update TABLE COLUMN=SQL WHERE
 *        mutate_table DURABILITY add TABLE COLUMN=SQL
 *        mutate_table DURABILITY vectors TABLE ROWS      a column of 128 floats, from a stream
 *        mutate_table DURABILITY cast TABLE COLUMN TYPE
 *        mutate_table DURABILITY merge TABLE ROWS.arrow KEY      the rows are in memory before the work begins
 *        mutate_table DURABILITY compact TABLE ROWS      fragments of so many rows
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

static uint64_t run_update(pennon_dataset *ds, const pennon_call *call, char **args)
{
    pennon_error err;
    pennon_update_result result = {.struct_size = sizeof result};
    pennon_mutation_options o;
    pennon_mutation_options_init(&o);
    o.call = call;
    char name[NAME_MAX_BYTES];
    const char *column = name, *equals = strchr(args[0], '=');
    if (!equals || equals - args[0] >= NAME_MAX_BYTES) exit(2);
    const char *value = equals + 1;
    snprintf(name, sizeof name, "%.*s", (int)(equals - args[0]), args[0]);
    check(pennon_dataset_update(ds, args[1], 1, &column, &value, &o, &result, &err), &err);
    return result.rows_updated;
}

static pennon_evolution_options evolution_of(const pennon_call *call)
{
    pennon_evolution_options o;
    pennon_evolution_options_init(&o);
    o.call = call;
    return o;
}

static uint64_t run_add(pennon_dataset *ds, const pennon_call *call, char **args)
{
    pennon_error err;
    pennon_evolution_result result = {.struct_size = sizeof result};
    const pennon_evolution_options o = evolution_of(call);
    char *equals = strchr(args[0], '=');
    if (!equals) exit(2);
    *equals = '\0';
    const char *name = args[0], *sql = equals + 1;
    check(pennon_dataset_add_columns_sql(ds, 1, &name, &sql, &o, &result, &err), &err);
    return result.rows_written;
}

static uint64_t run_cast(pennon_dataset *ds, const pennon_call *call, char **args)
{
    pennon_error err;
    pennon_evolution_result result = {.struct_size = sizeof result};
    const pennon_evolution_options o = evolution_of(call);
    struct ArrowSchema type;
    check(pennon_type_from_text(args[1], "", &type, &err), &err);
    const pennon_alteration change = {.path = args[0], .data_type = &type};
    check(pennon_dataset_alter_columns(ds, 1, &change, &o, &result, &err), &err);
    type.release(&type);
    return result.rows_written;
}

/* ---- a stream of vectors: all batches show the same numbers ---- */

#define DIMENSION 128
#define VECTOR_BATCH 8192

static float vector_values[VECTOR_BATCH * DIMENSION];

static void keep_schema(struct ArrowSchema *s) { s->release = NULL; }
static void keep_array(struct ArrowArray *a) { a->release = NULL; }

static int vector_schema(struct ArrowArrayStream *s, struct ArrowSchema *out)
{
    static struct ArrowSchema item = {.format = "f", .name = "item", .flags = ARROW_FLAG_NULLABLE, .release = keep_schema};
    static struct ArrowSchema *items[] = {&item};
    static struct ArrowSchema column = {.format = "+w:128",
                                        .name = "vectors",
                                        .flags = ARROW_FLAG_NULLABLE,
                                        .n_children = 1,
                                        .children = items,
                                        .release = keep_schema};
    static struct ArrowSchema *columns[] = {&column};
    (void)s;
    *out = (struct ArrowSchema){.format = "+s", .name = "", .n_children = 1, .children = columns, .release = keep_schema};
    return 0;
}

static int vector_next(struct ArrowArrayStream *s, struct ArrowArray *out)
{
    static const void *values[] = {NULL, vector_values}, *none[] = {NULL};
    static struct ArrowArray parts[2], *children[2] = {&parts[0], &parts[1]};
    uint64_t *left = s->private_data;
    const int64_t n = (int64_t)(*left < VECTOR_BATCH ? *left : VECTOR_BATCH);
    out->release = NULL;
    if (n == 0) return 0;
    *left -= (uint64_t)n;
    parts[1] = (struct ArrowArray){.length = n * DIMENSION, .n_buffers = 2, .buffers = values, .release = keep_array};
    parts[0] = (struct ArrowArray){
        .length = n, .n_buffers = 1, .buffers = none, .n_children = 1, .children = &children[1], .release = keep_array};
    *out = (struct ArrowArray){
        .length = n, .n_buffers = 1, .buffers = none, .n_children = 1, .children = &children[0], .release = keep_array};
    return 0;
}

static const char *vector_error(struct ArrowArrayStream *s) { return s ? NULL : ""; }
static void vector_release(struct ArrowArrayStream *s) { s->release = NULL; }

static uint64_t run_vectors(pennon_dataset *ds, const pennon_call *call, char **args)
{
    pennon_error err;
    uint64_t left = strtoull(args[0], NULL, 10), seed = 7;
    pennon_evolution_result result = {.struct_size = sizeof result};
    const pennon_evolution_options o = evolution_of(call);
    struct ArrowArrayStream rows = {vector_schema, vector_next, vector_error, vector_release, &left};
    for (size_t i = 0; i < VECTOR_BATCH * DIMENSION; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
        vector_values[i] = (float)(seed >> 40) / (float)(1 << 24);
    }
    check(pennon_dataset_add_columns_stream(ds, &rows, &o, &result, &err), &err);
    return result.rows_written;
}

/* ---- merge: batches that are in memory, as a stream ---- */

static struct {
    struct ArrowSchema schema;
    struct ArrowArray batches[4096];
    size_t n, at;
} source;

static int source_next(struct ArrowArrayStream *s, struct ArrowArray *out)
{
    (void)s;
    memset(out, 0, sizeof *out);
    if (source.at < source.n) *out = source.batches[source.at++];
    return 0;
}
static int source_schema(struct ArrowArrayStream *s, struct ArrowSchema *out)
{
    (void)s;
    *out = source.schema; /* asked for again and again: who releases it leaves this one as it is */
    out->release = keep_schema;
    return 0;
}
static const char *source_error(struct ArrowArrayStream *s)
{
    (void)s;
    return NULL;
}
static void source_release(struct ArrowArrayStream *s) { s->release = NULL; }

static void load_source(char **args)
{
    pennon_error err;
    struct ArrowArrayStream in;
    pennon_source from = {.struct_size = sizeof from, .path = args[0]};
    check(pennon_ingest_open(&from, NULL, NULL, &in, &err), &err);
    if (in.get_schema(&in, &source.schema) != 0) exit(1);
    while (in.get_next(&in, &source.batches[source.n]) == 0 && source.batches[source.n].release) {
        if (++source.n == sizeof source.batches / sizeof *source.batches) exit(1);
    }
    in.release(&in);
}

static uint64_t run_merge(pennon_dataset *ds, const pennon_call *call, char **args)
{
    pennon_error err;
    pennon_merge_result result = {.struct_size = sizeof result};
    pennon_merge_options o;
    const char *key = args[1];
    const pennon_names on = {1, &key};
    struct ArrowArrayStream stream = {source_schema, source_next, source_error, source_release, &source};
    pennon_merge_options_init(&o);
    o.call = call;
    o.on = &on;
    o.when_matched = PENNON_MATCHED_UPDATE;
    o.when_not_matched = PENNON_NOT_MATCHED_INSERT;
    check(pennon_dataset_merge(ds, &stream, &o, &result, &err), &err);
    return result.rows_updated + result.rows_inserted;
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
    return metrics.fragments_removed;
}

static const struct {
    const char *name;
    int n_args;
    void (*prepare)(char **args);                                              /* NULL = nothing */
    uint64_t (*run)(pennon_dataset *ds, const pennon_call *call, char **args); /* the rows that the verb tells */
} works[] = {{"delete", 1, NULL, run_delete},  {"update", 2, NULL, run_update}, {"merge", 2, load_source, run_merge},
             {"add", 1, NULL, run_add},        {"cast", 2, NULL, run_cast},     {"vectors", 1, NULL, run_vectors},
             {"compact", 1, NULL, run_compact}};

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
    if (works[w].prepare) works[w].prepare(argv + 4);
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
