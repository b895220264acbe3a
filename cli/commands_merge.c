/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The subcommand merge. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* A word of an option, which may have SQL behind it. */
struct choice {
    const char *word;
    int32_t value;
    bool sql;
};

/* `text` NULL leaves both. */
static int choose(const char *text, const char *option, const char *words, const struct choice *choices, size_t n, int32_t *value,
                  const char **sql)
{
    if (text == NULL) return EXIT_OK;
    for (size_t i = 0; i < n; i++) {
        const size_t length = strlen(choices[i].word);
        if (strncmp(text, choices[i].word, length) != 0) continue;
        const char *rest = text + length;
        if (choices[i].sql ? *rest != ' ' || rest[1] == '\0' : *rest != '\0') continue;
        *value = choices[i].value;
        if (choices[i].sql) *sql = rest + 1;
        return EXIT_OK;
    }
    return usage_error("--%s takes %s, not '%s'", option, words, text);
}

static int merge_options(const struct args *a, pennon_merge_options *o, pennon_names *on)
{
    static const struct choice matched[] = {{"ignore", PENNON_MATCHED_NOTHING, false},
                                            {"update", PENNON_MATCHED_UPDATE, false},
                                            {"update-if", PENNON_MATCHED_UPDATE_IF, true},
                                            {"fail", PENNON_MATCHED_FAIL, false},
                                            {"delete", PENNON_MATCHED_DELETE, false}};
    static const struct choice not_matched[] = {{"ignore", PENNON_NOT_MATCHED_NOTHING, false},
                                                {"insert", PENNON_NOT_MATCHED_INSERT, false}};
    static const struct choice by_source[] = {{"keep", PENNON_BY_SOURCE_KEEP, false},
                                              {"delete", PENNON_BY_SOURCE_DELETE, false},
                                              {"delete-if", PENNON_BY_SOURCE_DELETE_IF, true}};
    static const struct choice duplicates[] = {{"fail", PENNON_DUPLICATES_FAIL, false},
                                               {"first", PENNON_DUPLICATES_FIRST_SEEN, false}};
    const struct option *x = a->options;
    o->when_matched = PENNON_MATCHED_UPDATE;
    o->when_not_matched = PENNON_NOT_MATCHED_INSERT;
    int code = choose(x[OPT_WHEN_MATCHED].text, "when-matched", "update, ignore, fail, delete or 'update-if SQL'", matched,
                      COUNT(matched), &o->when_matched, &o->matched_condition);
    if (code == EXIT_OK)
        code = choose(x[OPT_WHEN_NOT_MATCHED].text, "when-not-matched", "insert or ignore", not_matched, COUNT(not_matched),
                      &o->when_not_matched, NULL);
    if (code == EXIT_OK)
        code = choose(x[OPT_BY_SOURCE].text, "when-not-matched-by-source", "keep, delete or 'delete-if SQL'", by_source,
                      COUNT(by_source), &o->by_source, &o->by_source_condition);
    if (code == EXIT_OK)
        code = choose(x[OPT_DUPLICATES].text, "duplicates", "fail or first", duplicates, COUNT(duplicates), &o->duplicates, NULL);
    if (code != EXIT_OK) return code;
    if (x[OPT_ON].set) {
        if (!split_names(x[OPT_ON].text, on)) return EXIT_USAGE;
        o->on = on;
    }
    if (x[OPT_RETRIES].set && x[OPT_RETRIES].number > UINT32_MAX)
        return usage_error("--max-retries takes a number below 2^32, not '%s'", x[OPT_RETRIES].text);
    if (x[OPT_RETRIES].set) o->conflict_retries = (uint32_t)x[OPT_RETRIES].number;
    return EXIT_OK;
}

static void print_merged(const struct args *a, const pennon_merge_result *r)
{
    const unsigned long long inserted = r->rows_inserted, updated = r->rows_updated, deleted = r->rows_deleted,
                             skipped = r->duplicates_skipped, attempts = r->attempts, bytes = r->bytes_written,
                             files = r->files_written, version = r->version;
    if (a->options[OPT_JSON].set) {
        printf("{\"rows_inserted\": %llu, \"rows_updated\": %llu, \"rows_deleted\": %llu, \"duplicates_skipped\": %llu, "
               "\"attempts\": %llu, \"bytes_written\": %llu, \"files_written\": %llu, \"version\": %llu}\n",
               inserted, updated, deleted, skipped, attempts, bytes, files, version);
        return;
    }
    printf("%llu row%s inserted, %llu updated, %llu deleted", inserted, inserted == 1 ? "" : "s", updated, deleted);
    if (skipped) printf(", %llu duplicate%s skipped", skipped, skipped == 1 ? "" : "s");
    printf("; version %llu\n", version);
}

/* The plan for the schema of the input. */
static int explain(pennon_dataset *ds, struct ArrowArrayStream *stream, const pennon_merge_options *o, pennon_error *err)
{
    struct ArrowSchema schema;
    char *text = NULL;
    if (stream->get_schema(stream, &schema) != 0) {
        (void)pennon_stream_error(stream, err);
        return fail(err);
    }
    const pennon_status st = pennon_dataset_merge_explain(ds, &schema, o, false, &text, err);
    schema.release(&schema);
    if (st != PENNON_OK) return fail(err);
    const size_t n = strlen(text);
    if (n > 0 && text[n - 1] == '\n') text[n - 1] = '\0';
    const int code = write_text(text);
    pennon_string_free(text);
    return code;
}

static int merge(const struct args *a, pennon_call *call, pennon_dataset *ds, struct ArrowArrayStream *stream)
{
    pennon_merge_options o;
    pennon_merge_result result = {.struct_size = sizeof result};
    pennon_names on;
    pennon_error err;
    const char *const keys[] = {PENNON_COMMIT_MESSAGE}, *const values[] = {a->options[OPT_MESSAGE].text};
    const pennon_pairs message = {1, keys, values};
    pennon_error_init(&err);
    pennon_merge_options_init(&o);
    o.call = call;
    if (a->options[OPT_MESSAGE].set) o.properties = &message;
    int code = merge_options(a, &o, &on);
    if (code != EXIT_OK) return code;
    if (a->options[OPT_EXPLAIN].set) {
        code = explain(ds, stream, &o, &err);
    } else {
        progress_begin(call, "rows");
        const pennon_status st = pennon_dataset_merge(ds, stream, &o, &result, &err);
        stream->release = NULL;
        progress_end(call);
        if (st == PENNON_OK) print_merged(a, &result);
        code = st == PENNON_OK ? EXIT_OK : fail(&err);
    }
    pennon_error_clear(&err);
    return code;
}

static int run_merge(const struct args *a)
{
    pennon_call call;
    struct input_options inputs;
    struct ArrowArrayStream stream = {0};
    pennon_dataset *ds = NULL;
    pennon_error err;
    pennon_error_init(&err);
    if (!call_setup(a, &call)) return EXIT_USAGE;
    int code = call_durability(a, &call);
    if (code == EXIT_OK) code = input_options(a, &call, &inputs);
    if (code == EXIT_OK) code = open_dataset(a, &call, &ds);
    if (code == EXIT_OK) code = open_inputs(a, &inputs, &stream, &err);
    if (code == EXIT_OK) code = merge(a, &call, ds, &stream);
    if (stream.release) stream.release(&stream);
    pennon_dataset_free(ds);
    pennon_error_clear(&err);
    call_teardown(&call);
    return code;
}

static const enum option_id merge_options_list[] = {
    OPT_ON,        OPT_WHEN_MATCHED, OPT_WHEN_NOT_MATCHED, OPT_BY_SOURCE, OPT_DUPLICATES, OPT_EXPLAIN,  OPT_INPUT_FORMAT, OPT_TYPES,
    OPT_DELIMITER, OPT_NO_HEADER,    OPT_BRANCH,           OPT_MESSAGE,   OPT_RETRIES,    OPT_EXTERNAL, OPT_SYNC};

const struct command command_merge = {
    "merge",
    "URI INPUT… --on A,B",
    "update the rows that match new ones by key columns, and insert the others",
    "INPUT is as for write. A key with a null matches nothing. Columns that the input lacks keep their values in rows that are\n"
    "updated, and are null in rows that are inserted. Rows that are updated move to the end, and with stable row ids they keep "
    "their\n"
    "ids. When others change the same rows meanwhile, the merge begins again, as often as --max-retries says (default 10).",
    merge_options_list,
    COUNT(merge_options_list),
    2,
    OPERANDS_MAX,
    run_merge};
