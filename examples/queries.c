/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Queries: rows that a filter keeps, with a computed column, in an order; then one row of aggregates for each species.
 * Argument: a path where no table is yet; without one the table lives in memory, as long as the program. */
#include <pennon/pennon.h>
#include <stdio.h>
#include <string.h>

static const char penguins[] = "species,grams\nAdelie,3750\nGentoo,5700\nAdelie,\nGentoo,5400\nChinstrap,3500\nGentoo,4500\n";

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

static pennon_status write_table(const char *uri, pennon_dataset **out, pennon_error *err)
{
    const char *at = penguins;
    struct ArrowArrayStream stream;
    pennon_source in = {sizeof in, .read = read_text, .ctx = &at};
    pennon_status st = pennon_csv_open(&in, NULL, &stream, err);
    return st == PENNON_OK ? pennon_write(uri, &stream, NULL, out, err) : st;
}

/* Print a scan of two columns, a text and a number: Arrow's buffers are the validity bits, the offsets or values, the bytes. */
static pennon_status print_scan(pennon_dataset *ds, const pennon_scan_options *options, int64_t *rows, pennon_error *err)
{
    struct ArrowArrayStream stream;
    struct ArrowArray batch;
    pennon_status st = pennon_scan(ds, options, &stream, err);
    if (st != PENNON_OK) return st;
    for (*rows = 0;; batch.release(&batch)) {
        if (stream.get_next(&stream, &batch) != 0) {
            st = pennon_stream_error(&stream, err);
            break;
        }
        if (!batch.release) break;
        const struct ArrowArray *text = batch.children[0], *number = batch.children[1];
        const int32_t *ends = (const int32_t *)text->buffers[1] + text->offset;
        const char *bytes = text->buffers[2];
        const double *values = (const double *)number->buffers[1] + number->offset;
        for (int64_t i = 0; i < batch.length; i++) printf("%.*s %g\n", (int)(ends[i + 1] - ends[i]), bytes + ends[i], values[i]);
        *rows += batch.length;
    }
    stream.release(&stream);
    return st;
}

int main(int argc, char **argv)
{
    const char *table = argc < 2 ? "memory://penguins.lance" : argv[1];
    pennon_dataset *ds = NULL;
    int64_t heavy = 0, species = 0;
    pennon_error err;
    int exit_code = 1;

    pennon_error_init(&err);
    if (write_table(table, &ds, &err) != PENNON_OK) goto done;

    const char *const names[] = {"species"};
    const pennon_names columns = {1, names};
    const pennon_expression kg = {"kg", "CAST(grams AS double) / 1000"};
    const pennon_expressions computed = {1, &kg};
    const pennon_order heaviest = {.column = "grams", .descending = true};
    const pennon_orders order = {1, &heaviest};
    pennon_scan_options scan;
    pennon_scan_options_init(&scan);
    scan.filter = "species IN ('Gentoo', 'Adelie') AND grams IS NOT NULL";
    scan.columns = &columns;
    scan.expressions = &computed;
    scan.order_by = &order;
    scan.limit = 3;
    if (print_scan(ds, &scan, &heavy, &err) != PENNON_OK) goto done;

    const pennon_aggregate mean = {PENNON_AGGREGATE_AVG, "grams", "mean"};
    const pennon_aggregates each = {&columns, 1, &mean};
    pennon_scan_options_init(&scan);
    scan.filter = "grams IS NOT NULL";
    scan.aggregates = &each;
    if (print_scan(ds, &scan, &species, &err) != PENNON_OK) goto done;
    exit_code = heavy == 3 && species == 3 ? 0 : 1;
done:
    if (err.message) fprintf(stderr, "%s: %s\n", err.kind, err.message);
    pennon_error_clear(&err);
    pennon_dataset_free(ds);
    return exit_code;
}
