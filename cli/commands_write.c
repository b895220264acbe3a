/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The subcommands write, inspect and verify. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- write ---- */

int write_mode(const struct args *a, int32_t *out)
{
    static const char *const modes[] = {"create", "append", "overwrite"};
    const char *text = a->options[OPT_MODE].text;
    if (!text) return EXIT_OK;
    for (int i = 0; i < 3; i++) {
        if (strcmp(modes[i], text) == 0) {
            *out = i;
            return EXIT_OK;
        }
    }
    return usage_error("--mode takes create, append or overwrite, not '%s'", text);
}

static int write_external_blobs(const struct args *a, int32_t *out)
{
    static const char *const rules[] = {[PENNON_EXTERNAL_BLOBS_IN_BASES] = "bases",
                                        [PENNON_EXTERNAL_BLOBS_ANYWHERE] = "anywhere",
                                        [PENNON_EXTERNAL_BLOBS_COPY] = "copy"};
    const char *text = a->options[OPT_EXTERNAL_BLOBS].text;
    if (!text) return EXIT_OK;
    for (int32_t i = 0; i < (int32_t)COUNT(rules); i++) {
        if (strcmp(rules[i], text) != 0) continue;
        *out = i;
        return EXIT_OK;
    }
    return usage_error("--external-blobs takes bases, anywhere or copy, not '%s'", text);
}

int input_options(const struct args *a, const pennon_call *call, struct input_options *o)
{
    const struct option *x = a->options;
    pennon_csv_options_init(&o->csv);
    pennon_json_lines_options_init(&o->json);
    pennon_ipc_options_init(&o->ipc);
    pennon_ingest_options_init(&o->any);
    o->csv.call = o->json.call = o->ipc.call = call;
    o->csv.header = !x[OPT_NO_HEADER].set;
    o->csv.types = o->json.types = x[OPT_TYPES].text;
    o->any.csv = &o->csv;
    o->any.json_lines = &o->json;
    o->any.ipc = &o->ipc;
    if (x[OPT_DELIMITER].set) {
        const char *d = x[OPT_DELIMITER].text;
        if (strcmp(d, "\\t") == 0) d = "\t";
        if (strlen(d) != 1) return usage_error("--delimiter takes one character, not '%s'", x[OPT_DELIMITER].text);
        o->csv.delimiter = d[0];
    }
    if (x[OPT_INPUT_FORMAT].set) {
        static const char *const formats[] = {"csv", "jsonl", "arrow"};
        static const int32_t values[] = {PENNON_FORMAT_CSV, PENNON_FORMAT_JSON_LINES, PENNON_FORMAT_IPC};
        size_t i = 0;
        while (i < 3 && strcmp(formats[i], x[OPT_INPUT_FORMAT].text) != 0) i++;
        if (i == 3) return usage_error("--input-format takes csv, jsonl or arrow, not '%s'", x[OPT_INPUT_FORMAT].text);
        o->any.format = values[i];
    }
    return EXIT_OK;
}

/* The form that the name tells; AUTO leaves it to the content. */
static int32_t format_of_name(const char *path)
{
    static const struct {
        const char *ending;
        int32_t format;
    } known[] = {{".csv", PENNON_FORMAT_CSV},           {".tsv", PENNON_FORMAT_CSV},         {".jsonl", PENNON_FORMAT_JSON_LINES},
                 {".ndjson", PENNON_FORMAT_JSON_LINES}, {".json", PENNON_FORMAT_JSON_LINES}, {".arrow", PENNON_FORMAT_IPC},
                 {".arrows", PENNON_FORMAT_IPC},        {".feather", PENNON_FORMAT_IPC}};
    size_t n = strlen(path);
    for (size_t i = 0; i < COUNT(known); i++) {
        size_t e = strlen(known[i].ending);
        if (n > e && strcmp(path + n - e, known[i].ending) == 0) return known[i].format;
    }
    return PENNON_FORMAT_AUTO;
}

/* ---- several inputs as one stream ---- */

struct joined {
    struct ArrowArrayStream *parts;
    const char *const *names;
    size_t n, at;
    struct ArrowSchema schema; /* of the first */
    char message[512];
};

static bool same_type(const struct ArrowSchema *a, const struct ArrowSchema *b)
{
    if (strcmp(a->format, b->format) != 0 || a->n_children != b->n_children || !a->dictionary != !b->dictionary) return false;
    for (int64_t i = 0; i < a->n_children; i++) {
        if (strcmp(a->children[i]->name ? a->children[i]->name : "", b->children[i]->name ? b->children[i]->name : "") != 0)
            return false;
        if (!same_type(a->children[i], b->children[i])) return false;
    }
    return !a->dictionary || same_type(a->dictionary, b->dictionary);
}

static int joined_schema(struct ArrowArrayStream *s, struct ArrowSchema *out)
{
    struct joined *j = s->private_data;
    return j->parts[0].get_schema(&j->parts[0], out);
}

static int joined_next(struct ArrowArrayStream *s, struct ArrowArray *out)
{
    struct joined *j = s->private_data;
    for (; j->at < j->n; j->at++) {
        int e = j->parts[j->at].get_next(&j->parts[j->at], out);
        if (e) {
            pennon_error err;
            pennon_error_init(&err);
            (void)pennon_stream_error(&j->parts[j->at], &err);
            snprintf(j->message, sizeof j->message, "%s: %s", j->names[j->at], err.message ? err.message : "the input failed");
            pennon_error_clear(&err);
            return e;
        }
        if (out->release) return 0;
    }
    out->release = NULL;
    return 0;
}

static const char *joined_error(struct ArrowArrayStream *s)
{
    struct joined *j = s->private_data;
    return j->message[0] ? j->message : NULL;
}

static void joined_release(struct ArrowArrayStream *s)
{
    struct joined *j = s->private_data;
    for (size_t i = 0; i < j->n; i++) {
        if (j->parts[i].release) j->parts[i].release(&j->parts[i]);
    }
    if (j->schema.release) j->schema.release(&j->schema);
    free(j->parts);
    free(j);
    s->release = NULL;
}

int open_inputs(const struct args *a, const struct input_options *o, struct ArrowArrayStream *out, pennon_error *err)
{
    size_t n = a->n_operands - 1;
    struct joined *j = calloc(1, sizeof *j);
    struct ArrowArrayStream *parts = calloc(n, sizeof *parts);
    if (!j || !parts) {
        free(j);
        free(parts);
        return usage_error("out of memory");
    }
    j->parts = parts;
    j->names = a->operands + 1;
    *out = (struct ArrowArrayStream){joined_schema, joined_next, joined_error, joined_release, j};
    for (size_t i = 0; i < n; i++) {
        pennon_source source = {.struct_size = sizeof source, .path = a->operands[i + 1]};
        pennon_ingest_options any = o->any;
        pennon_csv_options csv = o->csv;
        any.csv = &csv;
        if (any.format == PENNON_FORMAT_AUTO) any.format = format_of_name(source.path);
        size_t length = strlen(source.path);
        if (length > 4 && strcmp(source.path + length - 4, ".tsv") == 0 && !a->options[OPT_DELIMITER].set) csv.delimiter = '\t';
        if (pennon_ingest_open(&source, &any, NULL, &parts[i], err) != PENNON_OK) return fail(err);
        j->n = i + 1;
        struct ArrowSchema schema;
        if (parts[i].get_schema(&parts[i], &schema) != 0) {
            (void)pennon_stream_error(&parts[i], err);
            return fail(err);
        }
        if (i == 0) {
            j->schema = schema;
            continue;
        }
        bool same = same_type(&j->schema, &schema);
        schema.release(&schema);
        if (!same)
            return usage_error("'%s' and '%s' have different columns or types; name types with --types", a->operands[1],
                               a->operands[i + 1]);
    }
    return EXIT_OK;
}

int open_input_files(const struct args *a, const pennon_call *call, struct ArrowArrayStream *out)
{
    static struct input_options in; /* the stream reads it until it ends */
    pennon_error err;
    pennon_error_init(&err);
    int code = input_options(a, call, &in);
    if (code == EXIT_OK) code = open_inputs(a, &in, out, &err);
    pennon_error_clear(&err);
    return code;
}

/* Types told from the values of one file need not be those of the table. */
static int fail_write(const struct args *a, const pennon_error *err)
{
    int code = fail(err);
    bool other_type = err->kind && strcmp(err->kind, "SchemaMismatch") == 0 && strstr(err->message, " in the table and ");
    if (other_type && a->options[OPT_MODE].set)
        fputs("pennon: of CSV and JSON lines, --types NAME=TYPE says which type a column has\n", stderr);
    return code;
}

/* "NAME=PATH,…": plain folders of data files. */
static int write_bases(const struct args *a, pennon_bases *out)
{
    pennon_names names;
    const char *text = a->options[OPT_BASES].text;
    *out = (pennon_bases){0};
    if (!text) return EXIT_OK;
    if (!split_names(text, &names)) return EXIT_USAGE;
    static pennon_base list[64]; /* the command writes once */
    if (names.n > COUNT(list)) return usage_error("--bases takes at most %zu, not %zu", COUNT(list), names.n);
    for (size_t i = 0; i < names.n; i++) {
        char *name = (char *)(uintptr_t)names.items[i], *equals = strchr(name, '=');
        if (!equals || equals == name || !equals[1]) return usage_error("--bases takes NAME=PATH, not '%s'", name);
        *equals = '\0';
        list[i] = (pennon_base){.name = name, .path = equals + 1};
    }
    *out = (pennon_bases){names.n, list};
    return EXIT_OK;
}

/* The result of a write that commits nothing: fragments, or with --json the transaction. */
static int print_fragments(const struct args *a, const pennon_transaction *t)
{
    pennon_error err;
    char *json = NULL;
    pennon_error_init(&err);
    pennon_status st =
        a->options[OPT_JSON].set ? pennon_transaction_to_json(t, &json, &err) : pennon_transaction_fragments_json(t, &json, &err);
    int code = st == PENNON_OK ? write_text(json) : fail(&err);
    pennon_string_free(json);
    pennon_error_clear(&err);
    return code;
}

static int run_write(const struct args *a)
{
    static const char *message_key[] = {"__lance_commit_message"};
    const struct option *x = a->options;
    pennon_call call;
    pennon_error err;
    pennon_write_options o;
    struct input_options in;
    struct ArrowArrayStream stream = {0};
    pennon_dataset *ds = NULL;
    pennon_transaction *t = NULL;
    pennon_bases bases;
    pennon_names targets;
    pennon_pairs message = {1, message_key, &x[OPT_MESSAGE].text};
    if (!call_setup(a, &call)) return EXIT_USAGE;
    pennon_error_init(&err);
    pennon_write_options_init(&o);
    o.call = &call;
    o.storage_version = x[OPT_STORAGE].text;
    o.max_rows_per_file = x[OPT_ROWS_PER_FILE].number;
    o.max_bytes_per_file = x[OPT_BYTES_PER_FILE].number;
    o.stable_row_ids = x[OPT_STABLE].set;
    o.allow_loss = x[OPT_ALLOW_LOSS].set;
    o.branch = x[OPT_BRANCH].text;
    if (x[OPT_MESSAGE].set) o.properties = &message;
    if (x[OPT_BASES].set) o.initial_bases = &bases;
    if (x[OPT_TARGETS].set) o.target_bases = &targets;
    int code = write_mode(a, &o.mode);
    if (code == EXIT_OK) code = write_bases(a, &bases);
    if (code == EXIT_OK && x[OPT_TARGETS].set && !split_names(x[OPT_TARGETS].text, &targets)) code = EXIT_USAGE;
    if (code == EXIT_OK) code = write_external_blobs(a, &o.external_blobs);
    if (code == EXIT_OK) code = call_durability(a, &call);
    if (code == EXIT_OK) code = input_options(a, &call, &in);
    if (code == EXIT_OK) progress_begin(&call, "rows");
    if (code == EXIT_OK) code = open_inputs(a, &in, &stream, &err);
    if (code == EXIT_OK) {
        pennon_status st = x[OPT_NO_COMMIT].set ? pennon_write_fragments(a->operands[0], &stream, &o, &t, &err)
                                                : pennon_write(a->operands[0], &stream, &o, &ds, &err);
        if (st != PENNON_OK) code = fail_write(a, &err);
    }
    if (stream.release) stream.release(&stream);
    progress_end(&call);
    if (code == EXIT_OK && t) code = print_fragments(a, t);
    if (code == EXIT_OK && ds) code = print_version(a, &call, ds);
    pennon_transaction_free(t);
    pennon_dataset_free(ds);
    pennon_error_clear(&err);
    call_teardown(&call);
    return code;
}

/* ---- inspect ---- */

/* A manifest ends as a data file of 0.1 does: only the name tells. */
static bool is_manifest(const char *path)
{
    const char *ending = strrchr(path, '.');
    return ending && strcmp(ending, ".manifest") == 0;
}

static int run_inspect(const struct args *a)
{
    pennon_call call;
    pennon_file_options o;
    pennon_error err;
    pennon_file *f = NULL;
    char *json = NULL;
    if (is_manifest(a->operands[0]))
        return usage_error("inspect: '%s' is a manifest, not a data file; info, schema and fragments show what it holds",
                           a->operands[0]);
    if (!call_setup(a, &call)) return EXIT_USAGE;
    pennon_error_init(&err);
    pennon_file_options_init(&o);
    o.call = &call;
    int code =
        pennon_file_open(a->operands[0], &o, &f, &err) == PENNON_OK && pennon_file_info_json(f, &call, &json, &err) == PENNON_OK
            ? EXIT_OK
            : fail(&err);
    if (code == EXIT_OK && a->options[OPT_JSON].set) {
        code = write_text(json);
    } else if (code == EXIT_OK) {
        print_json_object(json);
    }
    pennon_string_free(json);
    pennon_file_free(f);
    pennon_error_clear(&err);
    call_teardown(&call);
    return code;
}

/* ---- verify ---- */

/* `value` of a place, or null. */
static void put_json_place(const char *key, int64_t value)
{
    if (value == PENNON_NOWHERE) {
        printf(", \"%s\": null", key);
    } else {
        printf(", \"%s\": %lld", key, (long long)value);
    }
}

static void print_json_finding(const pennon_error *e)
{
    printf("{\"finding\": ");
    print_json_text(e->message);
    printf(", \"code\": \"%s\", \"uri\": ", pennon_status_name(e->code));
    print_json_text(e->uri);
    printf(", \"version\": ");
    if (e->version) {
        printf("%llu", (unsigned long long)e->version);
    } else {
        printf("null");
    }
    printf(", \"file\": ");
    print_json_text(e->file);
    put_json_place("column", e->column);
    put_json_place("page", e->page);
    put_json_place("offset", e->offset);
    puts("}");
}

static void print_finding(void *ctx, const pennon_error *e)
{
    const struct args *a = ctx;
    progress_hide();
    if (a->options[OPT_JSON].set) {
        print_json_finding(e);
        return;
    }
    print_escaped(stdout, e->message);
    if (e->file || e->version) printf("\n    in ");
    if (e->file) print_escaped(stdout, e->file);
    if (e->version) printf("%sversion %llu", e->file ? ", " : "", (unsigned long long)e->version);
    if (e->column >= 0) printf(", column %lld", (long long)e->column);
    if (e->page >= 0) printf(", page %lld", (long long)e->page);
    if (e->offset >= 0) printf(", byte %lld", (long long)e->offset);
    putchar('\n');
}

/* One line: what was found, and what was looked at. */
static void print_summary(const struct args *a, const pennon_verify_counts *c)
{
    const bool file = a->options[OPT_FILE].set;
    const struct {
        const char *name, *one, *many;
        uint64_t n;
        bool of_tables;
    } parts[] = {{"branches", "branch", "branches", c->branches, true},
                 {"tags", "tag", "tags", c->tags, true},
                 {"versions", "version", "versions", c->versions, true},
                 {"fragments", "fragment", "fragments", c->fragments, true},
                 {"data_files", "data file", "data files", c->data_files, false},
                 {"deletion_files", "deletion file", "deletion files", c->deletion_files, true},
                 {"pages", "page", "pages", c->pages, false},
                 {"rows", "row", "rows", c->rows, false},
                 {"bytes", "byte", "bytes", c->bytes, false}};
    const bool json = a->options[OPT_JSON].set;
    const unsigned long long findings = c->findings;
    if (json) {
        printf("{\"findings\": %llu", findings);
    } else if (findings == 0) {
        printf("no findings:");
    } else {
        printf("%llu finding%s:", findings, findings == 1 ? "" : "s");
    }
    for (size_t i = 0, shown = 0; i < COUNT(parts); i++) {
        const unsigned long long n = parts[i].n;
        if (parts[i].of_tables && file) continue;
        if (json) {
            printf(", \"%s\": %llu", parts[i].name, n);
        } else {
            printf("%s %llu %s", shown++ ? "," : "", n, n == 1 ? parts[i].one : parts[i].many);
        }
    }
    puts(json ? "}" : "");
}

/* A version that is named is verified alone, a branch with all its versions; nothing named means everything. */
static int32_t verify_scope(const struct option *x)
{
    if (x[OPT_VERSION].set || x[OPT_TAG].set || x[OPT_AS_OF].set) return PENNON_VERIFY_VERSION;
    return x[OPT_BRANCH].set ? PENNON_VERIFY_BRANCH : PENNON_VERIFY_ALL;
}

static int verify_file(const struct args *a, const pennon_verify_options *v, pennon_verify_counts *counts, pennon_error *err)
{
    pennon_file *f = NULL;
    pennon_file_options o;
    pennon_file_options_init(&o);
    o.call = v->call;
    pennon_status st = pennon_file_open(a->operands[0], &o, &f, err);
    if (st == PENNON_OK) st = pennon_file_verify(f, v, counts, err);
    pennon_file_free(f);
    return st == PENNON_OK ? EXIT_OK : fail(err);
}

static int run_verify(const struct args *a)
{
    pennon_call call;
    pennon_error err;
    pennon_dataset *ds = NULL;
    pennon_verify_options v;
    pennon_verify_counts counts = {.struct_size = sizeof counts};
    int code = EXIT_OK;
    if (!call_setup(a, &call)) return EXIT_USAGE;
    pennon_error_init(&err);
    pennon_verify_options_init(&v);
    v.call = &call;
    v.finding = print_finding;
    v.ctx = (void *)(uintptr_t)a;
    v.scope = verify_scope(a->options);
    if (!a->options[OPT_FILE].set) code = open_dataset(a, &call, &ds);
    progress_begin(&call, "verify");
    if (a->options[OPT_FILE].set) {
        code = verify_file(a, &v, &counts, &err);
    } else if (code == EXIT_OK && pennon_dataset_verify(ds, &v, &counts, &err) != PENNON_OK) {
        progress_hide();
        code = fail(&err);
    }
    progress_end(&call);
    if (code == EXIT_OK) print_summary(a, &counts);
    if (code == EXIT_OK && counts.findings) code = EXIT_FINDINGS;
    pennon_dataset_free(ds);
    pennon_error_clear(&err);
    call_teardown(&call);
    return code;
}

/* ---- table ---- */

static const enum option_id write_option_ids[] = {
    OPT_MODE,       OPT_STORAGE,        OPT_ROWS_PER_FILE, OPT_BYTES_PER_FILE, OPT_STABLE,    OPT_SYNC,
    OPT_BRANCH,     OPT_MESSAGE,        OPT_INPUT_FORMAT,  OPT_TYPES,          OPT_DELIMITER, OPT_NO_HEADER,
    OPT_ALLOW_LOSS, OPT_EXTERNAL_BLOBS, OPT_NO_COMMIT,     OPT_BASES,          OPT_TARGETS};
static const enum option_id verify_option_ids[] = {OPT_VERSION, OPT_TAG, OPT_BRANCH, OPT_AS_OF, OPT_EXTERNAL, OPT_FILE};

const struct command command_write = {
    "write",
    "URI INPUT…",
    "write CSV, JSON lines or Arrow IPC as a new version",
    "All inputs together make one version. '-' is standard input. The form of an input is told by its name, else by its content.\n"
    "--no-commit writes the data files and prints their fragments, which pennon commit takes; with --json the whole transaction.",
    write_option_ids,
    COUNT(write_option_ids),
    2,
    OPERANDS_MAX,
    run_write};
const struct command command_inspect = {"inspect", "FILE",     "one data file: columns, pages, encodings, bytes", NULL, NULL, 0, 1,
                                        1,         run_inspect};
const struct command command_verify = {
    "verify",
    "URI",
    "read every byte and name each fault",
    "Walks all versions of all branches, and the tags. --version, --tag or --as-of verify one version,\n"
    "--branch the versions of one branch, --file a single data file. Exit code 1 when there are\n"
    "findings. With --json each finding is a line, and the last line is an object with what was looked at.",
    verify_option_ids,
    COUNT(verify_option_ids),
    1,
    1,
    run_verify};
