/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* A distributed write: workers write data files and commit nothing; their transactions travel as JSON to one place, which makes all
 * rows visible as one version. Here the workers are calls of a function; they could be processes on other machines.
 * Argument: a path where no table is yet; without one the table lives in memory, as long as the program. */
#include <pennon/pennon.h>
#include <stdio.h>
#include <string.h>

#define WORKERS 2

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

/* What a worker does: *json is to be freed with pennon_string_free. */
static pennon_status work(const char *uri, const char *text, char **json, pennon_error *err)
{
    struct ArrowArrayStream stream;
    pennon_transaction *t = NULL;
    pennon_write_options options;
    pennon_write_options_init(&options);
    options.mode = PENNON_WRITE_APPEND;

    pennon_status st = open_rows(&text, &stream, err);
    if (st == PENNON_OK) st = pennon_write_fragments(uri, &stream, &options, &t, err);
    if (st == PENNON_OK) st = pennon_transaction_to_json(t, json, err);
    pennon_transaction_free(t);
    return st;
}

int main(int argc, char **argv)
{
    static const char *const parts[WORKERS] = {"id,name\n3,chinstrap\n", "id,name\n4,emperor\n5,king\n"};
    const char *table = argc < 2 ? "memory://penguins.lance" : argv[1];
    const char *first = "id,name\n1,gentoo\n2,adelie\n";
    struct ArrowArrayStream stream;
    pennon_transaction *sent[WORKERS] = {NULL};
    pennon_dataset *ds = NULL;
    uint64_t rows = 0;
    pennon_error err;
    int exit_code = 1;

    pennon_error_init(&err);

    if (open_rows(&first, &stream, &err) != PENNON_OK) goto done;
    if (pennon_write(table, &stream, NULL, NULL, &err) != PENNON_OK) goto done;

    for (size_t i = 0; i < WORKERS; i++) {
        char *json = NULL;
        if (work(table, parts[i], &json, &err) != PENNON_OK) goto done;
        pennon_status st = pennon_transaction_from_json(json, &sent[i], &err);
        pennon_string_free(json);
        if (st != PENNON_OK) goto done;
    }

    /* Nothing of it was visible until here. */
    if (pennon_commit_batch(table, WORKERS, (const pennon_transaction *const *)sent, NULL, &ds, NULL, &err) != PENNON_OK) goto done;
    if (pennon_dataset_count_rows(ds, NULL, &rows, &err) != PENNON_OK) goto done;
    printf("%s: version %llu has %llu rows\n", table, (unsigned long long)pennon_dataset_version(ds), (unsigned long long)rows);
    exit_code = rows == 5 && pennon_dataset_version(ds) == 2 ? 0 : 1;
done:
    if (err.message) fprintf(stderr, "%s: %s\n", err.kind, err.message);
    pennon_error_clear(&err);
    for (size_t i = 0; i < WORKERS; i++) pennon_transaction_free(sent[i]);
    pennon_dataset_free(ds);
    return exit_code;
}
