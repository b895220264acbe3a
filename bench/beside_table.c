/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* One operation on a table, over and over in a process of its own; bench/beside_official.py runs it and official Lance in turn.
 *
 * Usage: beside_table open|scan|take|write|write-synced TABLE ROUNDS [ROWS of take | INPUT of write]
 * Prints a line: median seconds, rows of a round, bytes read, peak memory of the work in bytes, and calls for memory of the work (0 without
 * count_allocations in front). `write` leaves durability to the operating system, as official Lance does. */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pennon/pennon.h"

#define ROUNDS_MAX 200

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
    fprintf(stderr, "beside_table: %s\n", err->message);
    exit(1);
}

static uint64_t drain(struct ArrowArrayStream *stream)
{
    uint64_t rows = 0;
    for (;;) {
        struct ArrowArray batch;
        if (stream->get_next(stream, &batch) != 0) {
            fprintf(stderr, "beside_table: %s\n", stream->get_last_error(stream));
            exit(1);
        }
        if (!batch.release) break;
        rows += (uint64_t)batch.length;
        batch.release(&batch);
    }
    stream->release(stream);
    return rows;
}

/* The same rows as bench/beside_official.py: x = x * 6364136223846793005 + 1442695040888963407, the upper 32 bits modulo the rows. */
static uint64_t *random_rows(size_t n, uint64_t of, uint64_t *state)
{
    uint64_t *rows = malloc((n + 1) * sizeof *rows);
    if (!rows) exit(1);
    for (size_t i = 0; i < n; i++) {
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        rows[i] = (*state >> 32) % of;
    }
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

static uint64_t write_once(const char *table, const char *input, bool synced)
{
    pennon_call call;
    pennon_error err;
    pennon_write_options options;
    struct ArrowArrayStream stream;
    pennon_dataset *ds = NULL;
    uint64_t rows;
    const pennon_source source = {.struct_size = sizeof source, .path = input};
    pennon_write_options_init(&options);
    options.mode = PENNON_WRITE_OVERWRITE;
    pennon_call_init(&call);
    call.durability = synced ? PENNON_DURABILITY_FULL : PENNON_DURABILITY_NONE;
    options.call = &call;
    check(pennon_ipc_open(&source, NULL, &stream, &err), &err);
    check(pennon_write(table, &stream, &options, &ds, &err), &err);
    check(pennon_dataset_count_rows(ds, NULL, &rows, &err), &err);
    pennon_dataset_free(ds);
    return rows;
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
    struct ArrowArrayStream stream;
    uint64_t rows = 0, live = 0, state = 1;
    if (argc < 4) return fprintf(stderr, "usage: beside_table open|scan|take|write|write-synced TABLE ROUNDS [ROWS|INPUT]\n"), 2;
    const char *what = argv[1], *table = argv[2], *more = argc > 4 ? argv[4] : "0";
    const size_t rounds = strtoul(argv[3], NULL, 10), n = strtoul(more, NULL, 10);
    if (rounds == 0 || rounds > ROUNDS_MAX) return fprintf(stderr, "beside_table: 1 to %d rounds\n", ROUNDS_MAX), 2;
    const uint64_t before = proc_number("/proc/self/status", "VmRSS:"), read_before = proc_number("/proc/self/io", "rchar:");
    const uint64_t allocated = allocations();
    const bool handle = strcmp(what, "scan") == 0 || strcmp(what, "take") == 0;
    if (handle) {
        check(pennon_dataset_open(table, NULL, &ds, &err), &err);
        check(pennon_dataset_count_rows(ds, NULL, &live, &err), &err);
    }
    for (size_t r = 0; r < rounds; r++) {
        uint64_t *wanted = handle && n > 0 ? random_rows(n, live, &state) : NULL;
        const double start = now();
        if (strcmp(what, "open") == 0) {
            check(pennon_dataset_open(table, NULL, &ds, &err), &err);
            pennon_dataset_free(ds);
        } else if (strcmp(what, "scan") == 0) {
            check(pennon_scan(ds, NULL, &stream, &err), &err);
            rows = drain(&stream);
        } else if (strcmp(what, "take") == 0) {
            check(pennon_dataset_take(ds, PENNON_TAKE_OFFSETS, n, wanted, NULL, &stream, &err), &err);
            rows = drain(&stream);
        } else {
            rows = write_once(table, more, strcmp(what, "write-synced") == 0);
        }
        seconds[r] = now() - start;
        free(wanted);
    }
    const uint64_t read = (proc_number("/proc/self/io", "rchar:") - read_before) / rounds;
    const uint64_t peak = (proc_number("/proc/self/status", "VmHWM:") - before) * 1024;
    if (handle) pennon_dataset_free(ds);
    qsort(seconds, rounds, sizeof *seconds, by_value);
    printf("%.9f %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", seconds[rounds / 2], rows, read, peak,
           (allocations() - allocated) / rounds);
    return 0;
}
