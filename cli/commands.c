/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The subcommands that look at a dataset: info, schema, versions, fragments, count, scan, take, export. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "query_options.h"

#define REF_OPTIONS OPT_VERSION, OPT_TAG, OPT_BRANCH, OPT_AS_OF, OPT_EXTERNAL
#define QUERY_OPTIONS OPT_FILTER, OPT_EXPR, OPT_ORDER_BY, OPT_AGGREGATE, OPT_GROUP_BY, OPT_MATERIALIZE, OPT_INCLUDE_DELETED
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* What a command that opens a dataset holds. */
struct session {
    pennon_call call;
    pennon_dataset *ds;
    pennon_error err;
};

static int begin(const struct args *a, struct session *s)
{
    pennon_error_init(&s->err);
    s->ds = NULL;
    if (!call_setup(a, &s->call)) return EXIT_USAGE;
    int code = open_dataset(a, &s->call, &s->ds);
    if (code != EXIT_OK) call_teardown(&s->call);
    return code;
}

static int end(struct session *s, int code)
{
    pennon_dataset_free(s->ds);
    pennon_error_clear(&s->err);
    call_teardown(&s->call);
    return code;
}

/* ---- info, schema, count ---- */

static int run_info(const struct args *a)
{
    struct session s;
    char *json = NULL;
    int code = begin(a, &s);
    if (code != EXIT_OK) return code;
    if (pennon_dataset_info_json(s.ds, &s.call, &json, &s.err) != PENNON_OK) return end(&s, fail(&s.err));
    if (a->options[OPT_JSON].set) {
        code = write_text(json);
    } else {
        print_json_object(json);
    }
    pennon_string_free(json);
    return end(&s, code);
}

/* One line a field, children indented. */
static void print_field(const struct ArrowSchema *f, int depth)
{
    char *type = pennon_type_text(f);
    printf("%*s", depth * 2, "");
    print_escaped(stdout, f->name ? f->name : "");
    printf(": %s%s\n", type ? type : f->format, f->flags & ARROW_FLAG_NULLABLE ? "" : " not null");
    pennon_string_free(type);
    bool nested = strncmp(f->format, "+", 1) == 0;
    for (int64_t i = 0; nested && i < f->n_children; i++) print_field(f->children[i], depth + 1);
}

static int run_schema(const struct args *a)
{
    struct session s;
    int code = begin(a, &s);
    if (code != EXIT_OK) return code;
    if (a->options[OPT_JSON].set) {
        char *json = NULL;
        if (pennon_dataset_schema_json(s.ds, &json, &s.err) != PENNON_OK) return end(&s, fail(&s.err));
        code = write_text(json);
        pennon_string_free(json);
        return end(&s, code);
    }
    struct ArrowSchema schema;
    if (pennon_dataset_schema(s.ds, &schema, &s.err) != PENNON_OK) return end(&s, fail(&s.err));
    for (int64_t i = 0; i < schema.n_children; i++) print_field(schema.children[i], 0);
    schema.release(&schema);
    return end(&s, code);
}

/* ---- listings ---- */

typedef pennon_status (*listing_fn)(pennon_dataset *ds, const pennon_call *call, struct ArrowArrayStream *out, pennon_error *err);

static int run_listing(const struct args *a, listing_fn list)
{
    struct session s;
    struct ArrowArrayStream stream;
    int code = begin(a, &s);
    if (code != EXIT_OK) return code;
    if (list(s.ds, &s.call, &stream, &s.err) != PENNON_OK) return end(&s, fail(&s.err));
    return end(&s, write_listing(a, &s.call, &stream));
}

static int run_versions(const struct args *a) { return run_listing(a, pennon_dataset_versions); }
static int run_fragments(const struct args *a) { return run_listing(a, pennon_dataset_fragments); }

/* ---- scan and export ---- */

int blob_form(const struct args *a, int32_t *out)
{
    const char *text = a->options[OPT_BLOBS].text;
    if (!text) return EXIT_OK;
    if (strcmp(text, "bytes") == 0) {
        *out = PENNON_BLOBS_BYTES;
    } else if (strcmp(text, "descriptions") == 0) {
        *out = PENNON_BLOBS_DESCRIPTIONS;
    } else {
        return usage_error("--blobs takes descriptions or bytes, not '%s'", text);
    }
    return EXIT_OK;
}

/* What a scan was asked for, and the lists behind it. */
struct request {
    pennon_scan_options o;
    pennon_names names;
    pennon_ids ids;
    struct query query;
};

static void request_free(struct request *r)
{
    free((void *)(uintptr_t)r->ids.items);
    query_options_free(&r->query);
}

/* Pair with request_free, on failure too. */
static int scan_options(const struct args *a, const pennon_call *call, struct request *r)
{
    const struct option *x = a->options;
    pennon_scan_options *o = &r->o;
    memset(r, 0, sizeof *r);
    pennon_scan_options_init(o);
    o->call = call;
    if (x[OPT_COLUMNS].set) {
        if (!split_names(x[OPT_COLUMNS].text, &r->names)) return EXIT_USAGE;
        o->columns = &r->names;
    }
    if (x[OPT_FRAGMENTS].set) {
        uint64_t *list;
        if (!split_numbers("fragments", x[OPT_FRAGMENTS].text, &list, &r->ids.n)) return EXIT_USAGE;
        r->ids.items = list;
        o->fragments = &r->ids;
    }
    if (x[OPT_LIMIT].set) o->limit = x[OPT_LIMIT].number;
    o->offset = x[OPT_OFFSET].number;
    o->batch_rows = x[OPT_BATCH_SIZE].number;
    if (x[OPT_BATCH_SIZE].set && o->batch_rows == 0) return usage_error("--batch-size takes at least 1");
    o->unordered = x[OPT_UNORDERED].set;
    o->mapped = x[OPT_MAPPED].set;
    o->with_row_id = x[OPT_ROW_ID].set;
    o->with_row_address = x[OPT_ROW_ADDRESS].set;
    int code = blob_form(a, &o->blobs);
    return code == EXIT_OK ? query_options(a, &r->query, o) : code;
}

/* ---- count ---- */

static int run_count(const struct args *a)
{
    struct session s;
    struct request r;
    uint64_t rows = 0;
    int code = begin(a, &s);
    if (code != EXIT_OK) return code;
    progress_begin(&s.call, "count");
    code = scan_options(a, &s.call, &r);
    if (code == EXIT_OK && pennon_scan_count(s.ds, &r.o, &rows, &s.err) != PENNON_OK) code = fail(&s.err);
    progress_end(&s.call);
    if (code == EXIT_OK) printf(a->options[OPT_JSON].set ? "{\"rows\": %llu}\n" : "%llu\n", (unsigned long long)rows);
    request_free(&r);
    return end(&s, code);
}

/* A single data file. */
static int scan_file(const struct args *a, const char *format)
{
    pennon_call call;
    pennon_file_options o;
    pennon_names names;
    pennon_error err;
    pennon_file *f = NULL;
    struct ArrowArrayStream stream;
    const struct option *x = a->options;
    if (!call_setup(a, &call)) return EXIT_USAGE;
    pennon_error_init(&err);
    pennon_file_options_init(&o);
    o.call = &call;
    o.batch_rows = x[OPT_BATCH_SIZE].number;
    int code = blob_form(a, &o.blobs);
    if (code == EXIT_OK && x[OPT_COLUMNS].set) {
        code = split_names(x[OPT_COLUMNS].text, &names) ? EXIT_OK : EXIT_USAGE;
        o.columns = &names;
    }
    if (code == EXIT_OK && pennon_file_open(a->operands[0], &o, &f, &err) != PENNON_OK) code = fail(&err);
    if (code == EXIT_OK) {
        uint64_t rows = pennon_file_rows(f), start = x[OPT_OFFSET].number < rows ? x[OPT_OFFSET].number : rows, stop = rows;
        if (x[OPT_LIMIT].set && x[OPT_LIMIT].number < rows - start) stop = start + x[OPT_LIMIT].number;
        code =
            pennon_file_read(f, start, stop, &o, &stream, &err) == PENNON_OK ? write_stream(a, &call, &stream, format) : fail(&err);
    }
    pennon_file_free(f);
    pennon_error_clear(&err);
    call_teardown(&call);
    return code;
}

/* Rows that were written to the sink: the sink knows no total. */
static void note_rows(void *ctx, uint64_t done, uint64_t total)
{
    if (total == 0) *(uint64_t *)ctx = done;
}

/* The plan instead of the rows. */
static int explain(const struct args *a, struct session *s, const pennon_scan_options *o)
{
    char *text = NULL;
    if (pennon_scan_explain(s->ds, o, a->options[OPT_ANALYZE].set, &text, &s->err) != PENNON_OK) return fail(&s->err);
    progress_hide();
    int code = EXIT_OK;
    if (a->options[OPT_JSON].set) {
        printf("{\"plan\": ");
        print_json_text(text);
        printf("}\n");
    } else {
        code = write_text(text);
    }
    pennon_string_free(text);
    return code;
}

/* `rows` (may be NULL) gets the rows that were written; then there is no progress to be seen. */
static int scan_dataset(const struct args *a, const char *format, uint64_t *rows)
{
    struct session s;
    struct ArrowArrayStream stream;
    struct request r;
    int code = begin(a, &s);
    if (code != EXIT_OK) return code;
    if (rows) {
        *rows = 0;
        s.call.progress = note_rows;
        s.call.progress_ctx = rows;
    } else {
        progress_begin(&s.call, "scan");
    }
    code = scan_options(a, &s.call, &r);
    if (code == EXIT_OK && (a->options[OPT_EXPLAIN].set || a->options[OPT_ANALYZE].set)) {
        code = explain(a, &s, &r.o);
    } else if (code == EXIT_OK) {
        code = pennon_scan(s.ds, &r.o, &stream, &s.err) == PENNON_OK ? write_stream(a, &s.call, &stream, format) : fail(&s.err);
    }
    if (!rows) progress_end(&s.call);
    request_free(&r);
    return end(&s, code);
}

/* --json is a short form of --format jsonl, and together with another one it has no meaning. */
int pick_format(const struct args *a, const char **format)
{
    *format = a->options[OPT_FORMAT].text;
    if (!a->options[OPT_JSON].set) return EXIT_OK;
    if (*format && strcmp(*format, "jsonl") != 0)
        return usage_error("%s: --json and --format %s contradict each other", a->command->name, *format);
    *format = "jsonl";
    return EXIT_OK;
}

static int run_scan(const struct args *a)
{
    const char *format;
    int code = pick_format(a, &format);
    if (code != EXIT_OK) return code;
    return a->options[OPT_FILE].set ? scan_file(a, format) : scan_dataset(a, format, NULL);
}

#define ENDINGS ".csv, .tsv, .jsonl, .ndjson, .json, .arrow, .feather, .arrows, .ipc, .txt"

/* The format by the ending of the file. With --json the answer is what was written. */
static int run_export(const struct args *a)
{
    static const char *const endings[][2] = {
        {".csv", "csv"},    {".tsv", "tsv"},          {".jsonl", "jsonl"},        {".ndjson", "jsonl"},
        {".json", "jsonl"}, {".arrow", "arrow-file"}, {".feather", "arrow-file"}, {".arrows", "arrow"},
        {".ipc", "arrow"},  {".txt", "table"}};
    struct args with = *a;
    const char *path = a->operands[1], *format = a->options[OPT_FORMAT].text;
    size_t n = strlen(path);
    for (size_t i = 0; i < COUNT(endings) && !format; i++) {
        size_t e = strlen(endings[i][0]);
        if (n > e && strcmp(path + n - e, endings[i][0]) == 0) format = endings[i][1];
    }
    if (!format) return usage_error("export: '%s' has no known ending (" ENDINGS "); use --format", path);
    with.options[OPT_OUTPUT] = (struct option){true, path, 0};
    if (!a->options[OPT_JSON].set) return scan_dataset(&with, format, NULL);
    uint64_t rows;
    struct stat made;
    int code = scan_dataset(&with, format, &rows);
    if (code == EXIT_OK)
        printf("{\"rows\": %llu, \"bytes\": %llu}\n", (unsigned long long)rows,
               stat(path, &made) == 0 ? (unsigned long long)made.st_size : 0ull);
    return code;
}

/* ---- take ---- */

/* The selector and its list; exactly one must be given. */
static int take_selector(const struct args *a, int32_t *selector, uint64_t **rows, size_t *n)
{
    static const struct {
        enum option_id id;
        const char *name;
        int32_t selector;
    } kinds[] = {{OPT_ROWS, "rows", PENNON_TAKE_OFFSETS},
                 {OPT_ROW_IDS, "row-ids", PENNON_TAKE_ROW_IDS},
                 {OPT_ADDRESSES, "addresses", PENNON_TAKE_ADDRESSES}};
    size_t given = (size_t)a->options[OPT_RANGE].set + (size_t)a->options[OPT_SAMPLE].set;
    *rows = NULL;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        if (!a->options[kinds[i].id].set) continue;
        given++;
        *selector = kinds[i].selector;
        if (given == 1 && !split_numbers(kinds[i].name, a->options[kinds[i].id].text, rows, n)) return EXIT_USAGE;
    }
    return given == 1 ? EXIT_OK : usage_error("take: give exactly one of --rows, --row-ids, --addresses, --range, --sample");
}

/* "START:END": digits, nothing else, and numbers that fit. */
static int parse_range(const char *text, uint64_t out[2])
{
    const char *at = text;
    bool good = true;
    for (int i = 0; i < 2 && good; i++) {
        char *end;
        errno = 0;
        good = *at >= '0' && *at <= '9';
        out[i] = strtoull(at, &end, 10);
        good = good && errno == 0 && *end == (i ? '\0' : ':');
        at = end + 1;
    }
    return good && out[0] <= out[1] ? EXIT_OK : usage_error("--range takes START:END, such as 10:20, not '%s'", text);
}

static int take_from_file(const struct args *a, size_t n, const uint64_t *rows, const char *format)
{
    pennon_call call;
    pennon_file_options o;
    pennon_error err;
    pennon_file *f = NULL;
    struct ArrowArrayStream stream;
    if (!call_setup(a, &call)) return EXIT_USAGE;
    pennon_error_init(&err);
    pennon_file_options_init(&o);
    o.call = &call;
    int code = blob_form(a, &o.blobs);
    pennon_names names;
    if (code == EXIT_OK && a->options[OPT_COLUMNS].set) {
        code = split_names(a->options[OPT_COLUMNS].text, &names) ? EXIT_OK : EXIT_USAGE;
        o.columns = &names;
    }
    if (code == EXIT_OK && pennon_file_open(a->operands[0], &o, &f, &err) != PENNON_OK) code = fail(&err);
    if (code == EXIT_OK)
        code = pennon_file_take(f, n, rows, &o, &stream, &err) == PENNON_OK ? write_stream(a, &call, &stream, format) : fail(&err);
    pennon_file_free(f);
    pennon_error_clear(&err);
    call_teardown(&call);
    return code;
}

/* A seed from the clock: a sample without one differs from run to run. */
static uint64_t any_seed(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000007u + (uint64_t)now.tv_nsec;
}

static int take_from_dataset(const struct args *a, int32_t selector, size_t n, const uint64_t *rows, const char *format)
{
    struct session s;
    struct ArrowArrayStream stream;
    struct query query = {0};
    pennon_take_options o;
    pennon_names names;
    uint64_t range[1][2];
    const struct option *x = a->options;
    int code = begin(a, &s);
    if (code != EXIT_OK) return code;
    pennon_take_options_init(&o);
    o.call = &s.call;
    o.with_row_id = x[OPT_ROW_ID].set;
    o.with_row_address = x[OPT_ROW_ADDRESS].set;
    code = blob_form(a, &o.blobs);
    if (code == EXIT_OK) code = query_expressions(a, &query, &o.expressions);
    if (code == EXIT_OK && x[OPT_COLUMNS].set) {
        code = split_names(x[OPT_COLUMNS].text, &names) ? EXIT_OK : EXIT_USAGE;
        o.columns = &names;
    }
    if (code == EXIT_OK && x[OPT_RANGE].set) code = parse_range(x[OPT_RANGE].text, range[0]);
    if (code == EXIT_OK) {
        pennon_status st;
        if (x[OPT_RANGE].set) {
            st = pennon_dataset_take_ranges(s.ds, 1, (const uint64_t(*)[2])range, &o, &stream, &s.err);
        } else if (x[OPT_SAMPLE].set) {
            const uint64_t seed = x[OPT_SEED].set ? x[OPT_SEED].number : any_seed();
            st = pennon_dataset_sample(s.ds, x[OPT_SAMPLE].number, seed, &o, &stream, &s.err);
        } else {
            st = pennon_dataset_take(s.ds, selector, n, rows, &o, &stream, &s.err);
        }
        code = st == PENNON_OK ? write_stream(a, &s.call, &stream, format) : fail(&s.err);
    }
    query_options_free(&query);
    return end(&s, code);
}

static int run_take(const struct args *a)
{
    int32_t selector = PENNON_TAKE_OFFSETS;
    uint64_t *rows = NULL;
    size_t n = 0;
    const char *format;
    int code = pick_format(a, &format);
    if (code == EXIT_OK) code = take_selector(a, &selector, &rows, &n);
    if (code == EXIT_OK && a->options[OPT_SEED].set && !a->options[OPT_SAMPLE].set)
        code = usage_error("take: --seed needs --sample");
    if (code == EXIT_OK && a->options[OPT_FILE].set) {
        code = selector == PENNON_TAKE_OFFSETS && !a->options[OPT_RANGE].set ? take_from_file(a, n, rows, format)
                                                                             : usage_error("take --file needs --rows");
    } else if (code == EXIT_OK) {
        code = take_from_dataset(a, selector, n, rows, format);
    }
    free(rows);
    return code;
}

/* ---- table ---- */

static const enum option_id ref_options[] = {REF_OPTIONS};
/* All versions of a branch. */
static const enum option_id line_options[] = {OPT_BRANCH, OPT_EXTERNAL};
static const enum option_id scan_option_ids[] = {
    OPT_COLUMNS, OPT_LIMIT, OPT_OFFSET, REF_OPTIONS, OPT_ROW_ID, OPT_ROW_ADDRESS, OPT_BATCH_SIZE, OPT_FRAGMENTS, OPT_UNORDERED,
    OPT_MAPPED,  OPT_BLOBS, OPT_FILE,   OPT_FORMAT,  OPT_OUTPUT, QUERY_OPTIONS,   OPT_EXPLAIN,    OPT_ANALYZE};
static const enum option_id export_option_ids[] = {OPT_COLUMNS,     OPT_LIMIT,     OPT_OFFSET, REF_OPTIONS, OPT_ROW_ID,
                                                   OPT_ROW_ADDRESS, OPT_FRAGMENTS, OPT_BLOBS,  OPT_FORMAT,  QUERY_OPTIONS};
static const enum option_id count_option_ids[] = {OPT_FILTER, REF_OPTIONS, OPT_FRAGMENTS};
static const enum option_id take_option_ids[] = {OPT_ROWS,    OPT_ROW_IDS, OPT_ADDRESSES,   OPT_RANGE,  OPT_COLUMNS,
                                                 REF_OPTIONS, OPT_ROW_ID,  OPT_ROW_ADDRESS, OPT_BLOBS,  OPT_FILE,
                                                 OPT_FORMAT,  OPT_OUTPUT,  OPT_EXPR,        OPT_SAMPLE, OPT_SEED};

#define REFS ref_options, COUNT(ref_options)
const struct command command_info = {"info", "URI",   "what a dataset is: version, rows, files, features", NULL, REFS, 1,
                                     1,      run_info};
const struct command command_schema = {"schema", "URI", "columns and their types", NULL, REFS, 1, 1, run_schema};
const struct command command_versions = {
    "versions", "URI", "all versions with time, rows and operation", NULL, line_options, COUNT(line_options), 1, 1, run_versions};
const struct command command_log = {
    "log", "URI",       "what was done, version by version: the same as versions", NULL, line_options, COUNT(line_options), 1,
    1,     run_versions};
const struct command command_fragments = {"fragments", "URI",        "fragments with rows, deletions and files", NULL, REFS, 1,
                                          1,           run_fragments};
const struct command command_count = {
    "count", "URI",    "number of rows, or of those that a filter keeps", NULL, count_option_ids, COUNT(count_option_ids), 1,
    1,       run_count};
const struct command command_scan = {
    "scan",
    "URI",
    "read rows",
    "Prints a table, or CSV, JSON lines, or an Arrow IPC stream. --file reads a single data file.\n"
    "SQL of --filter and --expr: expressions, no statements. Names as they are, in `back-ticks` where they hold\n"
    "other characters; 'texts' in single quotes (\"double\" ones hold texts too, never names); date '2026-01-31'.\n"
    "A number must fit the type of the column beside it: CAST(grams AS double) / 1000.5 for an integer column.",
    scan_option_ids,
    COUNT(scan_option_ids),
    1,
    1,
    run_scan};
const struct command command_export = {
    "export",
    "URI FILE",
    "read all rows into a file, its form told by the ending",
    ".csv; .tsv; .jsonl, .ndjson and .json (JSON lines); .arrow and .feather (Arrow IPC file); .arrows\n"
    "and .ipc (IPC stream); .txt (table). --format says it for other endings. With --json the answer is\n"
    "an object with the rows and bytes that were written.",
    export_option_ids,
    COUNT(export_option_ids),
    2,
    2,
    run_export};
const struct command command_take = {"take",
                                     "URI --rows 1,5,9",
                                     "read single rows by position, row id or address",
                                     "Rows come in the order asked for, also when asked for twice.",
                                     take_option_ids,
                                     COUNT(take_option_ids),
                                     1,
                                     1,
                                     run_take};
