/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Small commits: appends of one row by one writer after the other, and by many threads through an appender.
 * bench/commits_beside_official.py runs it and official Lance in turn.
 *
 * Usage: commit_table open TABLE TIMES
 *        commit_table append|append-synced TABLE APPENDS
 *        commit_table appender|appender-synced TABLE APPENDS THREADS   (APPENDS a thread)
 * The table has one column `c` of int64. Prints a line: median seconds of an append, seconds of all, versions made, peak memory of the work in bytes. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pennon/pennon.h"

#define APPENDS_MAX 100000
#define THREADS_MAX 256

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t memory(const char *key)
{
    char line[256];
    uint64_t value = 0;
    FILE *f = fopen("/proc/self/status", "r");
    if (!f) return 0;
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, key, strlen(key)) == 0) value = strtoull(line + strlen(key), NULL, 10);
    }
    fclose(f);
    return value * 1024;
}

static void check(pennon_status st, const pennon_error *err)
{
    if (st == PENNON_OK) return;
    fprintf(stderr, "commit_table: %s\n", err->message);
    exit(1);
}

/* ---- one row as Arrow, without a library ---- */

static void keep_schema(struct ArrowSchema *s) { s->release = NULL; }
static void keep_array(struct ArrowArray *a) { a->release = NULL; }

struct row {
    int64_t value;
    const void *values[2], *record[1];
    struct ArrowArray column, *columns[1];
};

static void row_make(struct row *r, int64_t value, struct ArrowArray *out)
{
    r->value = value;
    r->values[0] = NULL;
    r->values[1] = &r->value;
    r->record[0] = NULL;
    r->column = (struct ArrowArray){.length = 1, .n_buffers = 2, .buffers = r->values, .release = keep_array};
    r->columns[0] = &r->column;
    *out = (struct ArrowArray){
        .length = 1, .n_buffers = 1, .buffers = r->record, .n_children = 1, .children = r->columns, .release = keep_array};
}

static struct ArrowSchema column_schema = {.format = "l", .name = "c", .flags = ARROW_FLAG_NULLABLE, .release = keep_schema};
static struct ArrowSchema *column_schemas[1] = {&column_schema};

static void schema_make(struct ArrowSchema *out)
{
    column_schema.release = keep_schema;
    *out = (struct ArrowSchema){.format = "+s", .name = "", .n_children = 1, .children = column_schemas, .release = keep_schema};
}

struct one_row {
    struct row row;
    struct ArrowArray batch;
};

static int one_schema(struct ArrowArrayStream *s, struct ArrowSchema *out)
{
    (void)s;
    schema_make(out);
    return 0;
}

static int one_next(struct ArrowArrayStream *s, struct ArrowArray *out)
{
    struct one_row *o = s->private_data;
    *out = o->batch;
    o->batch.release = NULL;
    return 0;
}

static const char *one_error(struct ArrowArrayStream *s)
{
    (void)s;
    return NULL;
}

static void one_release(struct ArrowArrayStream *s) { s->release = NULL; }

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ---- the works ---- */

static void open_often(const char *table, size_t times, double *seconds)
{
    pennon_error err;
    pennon_dataset *ds = NULL;
    pennon_error_init(&err);
    for (size_t i = 0; i < times; i++) {
        const double start = now();
        check(pennon_dataset_open(table, NULL, &ds, &err), &err);
        seconds[i] = now() - start;
        pennon_dataset_free(ds);
    }
}

static void append_rows(pennon_dataset *ds, const pennon_call *call, size_t appends, double *seconds)
{
    pennon_error err;
    pennon_write_options options;
    pennon_error_init(&err);
    pennon_write_options_init(&options);
    options.call = call;
    for (size_t i = 0; i < appends; i++) {
        struct one_row o;
        struct ArrowArrayStream stream = {one_schema, one_next, one_error, one_release, &o};
        row_make(&o.row, (int64_t)i, &o.batch);
        const double start = now();
        check(pennon_dataset_append(ds, &stream, &options, &err), &err);
        seconds[i] = now() - start;
    }
}

struct worker {
    pennon_appender *appender;
    size_t appends;
    double *seconds;
};

static void *append_through(void *arg)
{
    struct worker *w = arg;
    pennon_error err;
    pennon_error_init(&err);
    for (size_t i = 0; i < w->appends; i++) {
        struct row row;
        struct ArrowArray batch;
        row_make(&row, (int64_t)i, &batch);
        const double start = now();
        check(pennon_appender_append(w->appender, &batch, NULL, NULL, &err), &err);
        w->seconds[i] = now() - start;
    }
    return NULL;
}

static void run_appender(pennon_dataset *ds, const pennon_call *call, size_t appends, size_t threads, double *seconds)
{
    pthread_t ids[THREADS_MAX];
    struct worker workers[THREADS_MAX];
    struct ArrowSchema schema;
    pennon_appender_options options;
    pennon_appender *a = NULL;
    pennon_error err;
    pennon_error_init(&err);
    pennon_appender_options_init(&options);
    options.call = call;
    schema_make(&schema);
    check(pennon_appender_open(ds, &schema, &options, &a, &err), &err);
    for (size_t i = 0; i < threads; i++) {
        workers[i] = (struct worker){a, appends, seconds + i * appends};
        if (pthread_create(&ids[i], NULL, append_through, &workers[i]) != 0) exit(1);
    }
    for (size_t i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    pennon_appender_free(a);
}

int main(int argc, char **argv)
{
    pennon_error err;
    pennon_call call;
    pennon_dataset *ds = NULL;
    if (argc < 4)
        return fprintf(stderr, "usage: commit_table open|append|append-synced|appender|appender-synced TABLE APPENDS [THREADS]\n"),
               2;
    const char *what = argv[1];
    const size_t appends = strtoul(argv[3], NULL, 10), threads = argc > 4 ? strtoul(argv[4], NULL, 10) : 1;
    if (appends == 0 || threads == 0 || threads > THREADS_MAX || appends > APPENDS_MAX / threads)
        return fprintf(stderr, "commit_table: 1 to %d appends in all, 1 to %d threads\n", APPENDS_MAX, THREADS_MAX), 2;
    double *seconds = calloc(appends * threads, sizeof *seconds);
    if (!seconds) return 1;
    pennon_error_init(&err);
    pennon_call_init(&call);
    call.durability = strstr(what, "synced") ? PENNON_DURABILITY_FULL : PENNON_DURABILITY_NONE;
    const uint64_t before = memory("VmRSS:");
    const bool opens = strcmp(what, "open") == 0;
    if (!opens) check(pennon_dataset_open(argv[2], NULL, &ds, &err), &err);
    const uint64_t version = opens ? 0 : pennon_dataset_version(ds);
    const double start = now();
    if (opens) {
        open_often(argv[2], appends, seconds);
    } else if (strncmp(what, "appender", 8) == 0) {
        run_appender(ds, &call, appends, threads, seconds);
    } else {
        append_rows(ds, &call, appends, seconds);
    }
    const double all = now() - start;
    qsort(seconds, appends * threads, sizeof *seconds, by_value);
    printf("%.9f %.9f %" PRIu64 " %" PRIu64 "\n", seconds[appends * threads / 2], all,
           opens ? 0 : pennon_dataset_version(ds) - version, memory("VmHWM:") - before);
    pennon_dataset_free(ds);
    free(seconds);
    return 0;
}
