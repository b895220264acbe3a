/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Group commit: eight threads append rows to one table; those that wait at the same time go into one version together.
 * Argument: a path where no table is yet; without one the table lives in memory, as long as the program. */
#include <pennon/pennon.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define THREADS 8

static const char rows[] = "id,name\n1,gentoo\n2,adelie\n";

struct job {
    pennon_appender *appender;
    pennon_status status;
    uint64_t version;
};

/* The text from *ctx on, which moves behind what was read. */
static int64_t read_text(void *ctx, void *to, size_t n)
{
    const char **at = ctx;
    size_t left = strlen(*at);
    if (n > left) n = left;
    memcpy(to, *at, n);
    *at += n;
    return (int64_t)n;
}

static pennon_status open_rows(const char **text, struct ArrowArrayStream *out, pennon_error *err)
{
    pennon_source in = {sizeof in, .read = read_text, .ctx = text};
    return pennon_csv_open(&in, NULL, out, err);
}

/* One append of two rows, which returns when they are committed. An error belongs to one thread. */
static void *append(void *arg)
{
    struct job *job = arg;
    const char *at = rows;
    struct ArrowArrayStream stream;
    struct ArrowArray batch = {0};
    pennon_error err;

    pennon_error_init(&err);
    job->status = open_rows(&at, &stream, &err);
    if (job->status == PENNON_OK) {
        if (stream.get_next(&stream, &batch) != 0 || !batch.release)
            job->status = PENNON_IO;
        else
            job->status = pennon_appender_append(job->appender, &batch, NULL, &job->version, &err);
        stream.release(&stream);
    }
    if (err.message) fprintf(stderr, "%s: %s\n", err.kind, err.message);
    pennon_error_clear(&err);
    return NULL;
}

/* Run all threads and wait for them; false when one failed. */
static bool run(pennon_appender *appender)
{
    pthread_t threads[THREADS];
    struct job jobs[THREADS];
    bool good = true;
    size_t started = 0;
    for (; started < THREADS; started++) {
        jobs[started] = (struct job){.appender = appender};
        if (pthread_create(&threads[started], NULL, append, &jobs[started]) != 0) break;
    }
    for (size_t i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        good = good && jobs[i].status == PENNON_OK;
    }
    return good && started == THREADS;
}

int main(int argc, char **argv)
{
    const char *table = argc < 2 ? "memory://penguins.lance" : argv[1];
    const char *at = rows;
    struct ArrowArrayStream stream;
    struct ArrowSchema schema = {0};
    pennon_appender *appender = NULL;
    pennon_dataset *ds = NULL;
    pennon_appender_stats stats = {.struct_size = sizeof stats};
    pennon_error err;
    int exit_code = 1;

    pennon_error_init(&err);

    if (open_rows(&at, &stream, &err) != PENNON_OK) goto done;
    if (stream.get_schema(&stream, &schema) != 0) {
        stream.release(&stream);
        goto done;
    }
    if (pennon_write(table, &stream, NULL, &ds, &err) != PENNON_OK) goto done;

    pennon_appender_options options;
    pennon_appender_options_init(&options);
    options.max_delay_ns = 10 * 1000 * 1000; /* the first rows of a group wait 10 ms for others */
    if (pennon_appender_open(ds, &schema, &options, &appender, &err) != PENNON_OK) goto done;
    if (!run(appender)) goto done;

    if (pennon_appender_get_stats(appender, &stats, &err) != PENNON_OK) goto done;
    printf("%s: %llu appends with %llu rows made %llu versions\n", table, (unsigned long long)stats.appends,
           (unsigned long long)stats.rows, (unsigned long long)stats.commits);
    exit_code = stats.appends == THREADS && stats.rows == 2 * THREADS && stats.commits <= THREADS ? 0 : 1;
done:
    if (err.message) fprintf(stderr, "%s: %s\n", err.kind, err.message);
    pennon_error_clear(&err);
    if (schema.release) schema.release(&schema);
    pennon_appender_free(appender);
    pennon_dataset_free(ds);
    return exit_code;
}
