/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Tags and branches: a version gets a name, an experiment goes on a branch beside main, and main stays as it was.
 * Argument: a path where no table is yet; without one the table lives in memory, as long as the program. */
#include <pennon/pennon.h>
#include <stdio.h>
#include <string.h>

static const char rows[] = "id,name\n1,gentoo\n2,adelie\n";

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

/* Write the rows, as a new table or to a branch. */
static pennon_status write_rows(const char *uri, const char *branch, pennon_dataset **out, pennon_error *err)
{
    const char *at = rows;
    struct ArrowArrayStream stream;
    pennon_source in = {sizeof in, .read = read_text, .ctx = &at};
    pennon_status st = pennon_csv_open(&in, NULL, &stream, err);
    if (st != PENNON_OK) return st;

    pennon_write_options options;
    pennon_write_options_init(&options);
    options.mode = branch ? PENNON_WRITE_APPEND : PENNON_WRITE_CREATE;
    options.branch = branch;
    return pennon_write(uri, &stream, &options, out, err);
}

int main(int argc, char **argv)
{
    const char *table = argc < 2 ? "memory://penguins.lance" : argv[1];
    pennon_dataset *ds = NULL, *branch = NULL, *tagged = NULL;
    uint64_t on_branch = 0, on_tag = 0;
    pennon_error err;
    int exit_code = 1;

    pennon_error_init(&err);

    if (write_rows(table, NULL, &ds, &err) != PENNON_OK) goto done;

    /* Without a ref the tag names the handle's own version. */
    if (pennon_tag_create(ds, "first", NULL, NULL, &err) != PENNON_OK) goto done;
    if (pennon_branch_create(ds, "trial", NULL, NULL, NULL, &err) != PENNON_OK) goto done;
    if (write_rows(table, "trial", &branch, &err) != PENNON_OK) goto done;

    pennon_open_options open;
    pennon_open_options_init(&open);
    open.tag = "first";
    if (pennon_dataset_open(table, &open, &tagged, &err) != PENNON_OK) goto done;
    if (pennon_dataset_count_rows(branch, NULL, &on_branch, &err) != PENNON_OK) goto done;
    if (pennon_dataset_count_rows(tagged, NULL, &on_tag, &err) != PENNON_OK) goto done;
    printf("%s: %llu rows on the branch 'trial', %llu at the tag 'first'\n", table, (unsigned long long)on_branch,
           (unsigned long long)on_tag);
    exit_code = on_branch == 4 && on_tag == 2 ? 0 : 1;
done:
    if (err.message) fprintf(stderr, "%s: %s\n", err.kind, err.message);
    pennon_error_clear(&err);
    pennon_dataset_free(tagged);
    pennon_dataset_free(branch);
    pennon_dataset_free(ds);
    return exit_code;
}
