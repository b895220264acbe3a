/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* One query on a table, over and over in a process of its own; bench/queries_beside_official.py runs it, official Lance and Parquet in turn.
 *
 * Usage: query_table columns|filter|count|order|group TABLE ROUNDS TEXT    query_table limits FOLDER
 *   columns  TEXT: names, or nothing for all; the table is opened in each round
 *   filter   TEXT: SQL; all columns of the rows that pass
 *   count    TEXT: SQL
 *   order    TEXT: a column; the first hundred rows by it
 *   group    TEXT: a column; rows and the sum of `v` for each of its values
 *   limits   what the machine can do: bytes a second of memcpy, and random reads of 4 KiB a second of the device under FOLDER
 * Prints a line: median seconds, rows, bytes read in a round, peak memory of the work in bytes, and calls for memory in a round (0 without
 * count_allocations in front). */
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pennon/pennon.h"

#define ROUNDS_MAX 200
#define NAMES_MAX 64

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

static void check(pennon_status st, const pennon_error *err)
{
    if (st == PENNON_OK) return;
    fprintf(stderr, "query_table: %s\n", err->message);
    exit(1);
}

static uint64_t drain(struct ArrowArrayStream *stream)
{
    uint64_t rows = 0;
    for (;;) {
        struct ArrowArray batch;
        if (stream->get_next(stream, &batch) != 0) {
            fprintf(stderr, "query_table: %s\n", stream->get_last_error(stream));
            exit(1);
        }
        if (!batch.release) break;
        rows += (uint64_t)batch.length;
        batch.release(&batch);
    }
    stream->release(stream);
    return rows;
}

static uint64_t allocations(void)
{
    uint64_t (*count)(void) = NULL;
    void *found = dlsym(RTLD_DEFAULT, "bench_allocations");
    if (!found) return 0;
    memcpy(&count, &found, sizeof count); /* C has no cast from an object's pointer to a function's */
    return count();
}

static uint64_t run_scan(pennon_dataset *ds, const pennon_scan_options *o)
{
    pennon_error err;
    struct ArrowArrayStream stream;
    check(pennon_scan(ds, o, &stream, &err), &err);
    return drain(&stream);
}

static uint64_t scan_columns(const char *table, char *text)
{
    pennon_error err;
    pennon_dataset *ds;
    pennon_scan_options o;
    const char *items[NAMES_MAX];
    pennon_names names = {0, items};
    pennon_scan_options_init(&o);
    for (char *name = text; name && *name && names.n < NAMES_MAX;) {
        char *comma = strchr(name, ',');
        if (comma) *comma = '\0';
        items[names.n++] = name;
        name = comma ? comma + 1 : NULL;
    }
    if (names.n) o.columns = &names;
    check(pennon_dataset_open(table, NULL, &ds, &err), &err);
    const uint64_t rows = run_scan(ds, &o);
    pennon_dataset_free(ds);
    return rows;
}

static uint64_t run(const char *what, const char *table, pennon_dataset *ds, const char *text)
{
    pennon_error err;
    pennon_scan_options o;
    uint64_t rows = 0;
    const pennon_order order = {.column = text};
    const pennon_orders orders = {1, &order};
    const pennon_aggregate items[] = {{.function = PENNON_AGGREGATE_COUNT_ROWS}, {.function = PENNON_AGGREGATE_SUM, .column = "v"}};
    const pennon_names groups = {1, &text};
    const pennon_aggregates aggregates = {&groups, 2, items};
    pennon_scan_options_init(&o);
    if (strcmp(what, "columns") == 0) {
        char copy[4096];
        snprintf(copy, sizeof copy, "%s", text);
        return scan_columns(table, copy);
    }
    if (strcmp(what, "count") == 0) {
        o.filter = text;
        check(pennon_scan_count(ds, &o, &rows, &err), &err);
        return rows;
    }
    if (strcmp(what, "filter") == 0) o.filter = text;
    if (strcmp(what, "group") == 0) o.aggregates = &aggregates;
    if (strcmp(what, "order") == 0) {
        o.order_by = &orders;
        o.limit = 100;
    }
    return run_scan(ds, &o);
}

/* ---- what the machine can do ---- */

#define COPY_BYTES ((size_t)256 << 20)
#define READ_BYTES 4096u
#define READERS 32
#define READ_SECONDS 2.0
#define READ_FILE_BYTES ((uint64_t)512 << 20)

struct reader {
    pthread_t thread;
    int fd;
    uint64_t state, done;
    double stop;
};

static void *read_randomly(void *arg)
{
    struct reader *r = arg;
    void *page = NULL;
    if (posix_memalign(&page, READ_BYTES, READ_BYTES) != 0) return NULL;
    while (now() < r->stop) {
        r->state = r->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const uint64_t at = (r->state >> 32) % (READ_FILE_BYTES / READ_BYTES) * READ_BYTES;
        if (pread(r->fd, page, READ_BYTES, (off_t)at) != READ_BYTES) break;
        r->done++;
    }
    free(page);
    return NULL;
}

static double random_reads(const char *folder)
{
    char path[4096];
    struct reader readers[READERS];
    uint64_t done = 0;
    snprintf(path, sizeof path, "%s/random-reads", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    char *block = calloc(1, 1 << 20);
    for (uint64_t at = 0; fd >= 0 && block && at < READ_FILE_BYTES; at += 1 << 20) {
        memset(block, (int)(at >> 20), 1 << 20);
        if (write(fd, block, 1 << 20) != 1 << 20) break;
    }
    free(block);
    if (fd < 0 || fsync(fd) != 0) return 0;
    close(fd);
    fd = open(path, O_RDONLY | O_DIRECT);
    const double start = now();
    for (int i = 0; i < READERS; i++) {
        readers[i] = (struct reader){.fd = fd, .state = (uint64_t)i * 977 + 1, .stop = start + READ_SECONDS};
        if (pthread_create(&readers[i].thread, NULL, read_randomly, &readers[i]) != 0) exit(1);
    }
    for (int i = 0; i < READERS; i++) {
        pthread_join(readers[i].thread, NULL);
        done += readers[i].done;
    }
    const double seconds = now() - start;
    close(fd);
    unlink(path);
    return (double)done / seconds;
}

static int limits(const char *folder)
{
    char *from = malloc(COPY_BYTES), *to = malloc(COPY_BYTES);
    double best = 1e9;
    if (!from || !to) return 1;
    memset(from, 1, COPY_BYTES);
    memset(to, 2, COPY_BYTES);
    for (int i = 0; i < 5; i++) {
        const double start = now();
        memcpy(to, from, COPY_BYTES);
        const double seconds = now() - start;
        if (seconds < best && to[COPY_BYTES / 2] == 1) best = seconds;
    }
    printf("%.0f %.0f\n", (double)COPY_BYTES / best, random_reads(folder));
    free(from);
    free(to);
    return 0;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    double seconds[ROUNDS_MAX];
    pennon_error err;
    pennon_dataset *ds = NULL;
    uint64_t rows = 0;
    if (argc == 3 && strcmp(argv[1], "limits") == 0) return limits(argv[2]);
    if (argc != 5) return fprintf(stderr, "usage: query_table columns|filter|count|order|group TABLE ROUNDS TEXT\n"), 2;
    const char *what = argv[1], *table = argv[2], *text = argv[4];
    const size_t rounds = strtoul(argv[3], NULL, 10);
    if (rounds == 0 || rounds > ROUNDS_MAX) return fprintf(stderr, "query_table: 1 to %d rounds\n", ROUNDS_MAX), 2;
    const uint64_t before = proc_number("/proc/self/status", "VmRSS:"), read_before = proc_number("/proc/self/io", "rchar:");
    const uint64_t allocated = allocations();
    check(pennon_dataset_open(table, NULL, &ds, &err), &err);
    for (size_t r = 0; r < rounds; r++) {
        const double start = now();
        rows = run(what, table, ds, text);
        seconds[r] = now() - start;
    }
    const uint64_t read = (proc_number("/proc/self/io", "rchar:") - read_before) / rounds;
    const uint64_t peak = (proc_number("/proc/self/status", "VmHWM:") - before) * 1024;
    pennon_dataset_free(ds);
    qsort(seconds, rounds, sizeof *seconds, by_value);
    printf("%.9f %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", seconds[rounds / 2], rows, read, peak,
           (allocations() - allocated) / rounds);
    return 0;
}
