/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The command `pennon`: what its files share. It uses the public headers only.
 *
 * Exit codes: 0 ok, 1 findings or failure, 2 usage, 3 not found or exists already, 4 corrupt, 5 conflict. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdio.h>

#include "pennon/blob.h"
#include "pennon/dataset.h"
#include "pennon/delta.h"
#include "pennon/evolution.h"
#include "pennon/file.h"
#include "pennon/ingest.h"
#include "pennon/mutation.h"
#include "pennon/refs.h"
#include "pennon/scan.h"
#include "pennon/stream.h"
#include "pennon/transaction.h"
#include "pennon/write.h"

enum { EXIT_OK = 0, EXIT_FINDINGS = 1, EXIT_USAGE = 2, EXIT_NOT_FOUND = 3, EXIT_CORRUPT = 4, EXIT_CONFLICT = 5 };

/* ---- options ---- */

enum option_kind { OPTION_FLAG, OPTION_TEXT, OPTION_NUMBER, OPTION_REPEATED };

enum option_id {
    OPT_HELP,
    OPT_JSON,
    OPT_THREADS,
    OPT_MEMORY,
    OPT_VERSION,
    OPT_TAG,
    OPT_BRANCH,
    OPT_AS_OF,
    OPT_COLUMNS,
    OPT_LIMIT,
    OPT_OFFSET,
    OPT_ROW_ID,
    OPT_ROW_ADDRESS,
    OPT_BATCH_SIZE,
    OPT_FORMAT,
    OPT_OUTPUT,
    OPT_FRAGMENTS,
    OPT_UNORDERED,
    OPT_MAPPED,
    OPT_BLOBS,
    OPT_FILE,
    OPT_ROWS,
    OPT_ROW_IDS,
    OPT_ADDRESSES,
    OPT_RANGE,
    OPT_MODE,
    OPT_STORAGE,
    OPT_ROWS_PER_FILE,
    OPT_BYTES_PER_FILE,
    OPT_STABLE,
    OPT_SYNC,
    OPT_TYPES,
    OPT_DELIMITER,
    OPT_NO_HEADER,
    OPT_MESSAGE,
    OPT_INPUT_FORMAT,
    OPT_ALLOW_LOSS,
    OPT_EXTERNAL,
    OPT_EXTERNAL_BLOBS,
    OPT_OLDER_THAN,
    OPT_KEEP,
    OPT_BEFORE_VERSION,
    OPT_BEFORE_TAG,
    OPT_DRY_RUN,
    OPT_DELETE_UNVERIFIED,
    OPT_ERROR_IF_TAGGED,
    OPT_FORCE,
    OPT_SHALLOW,
    OPT_DEEP,
    OPT_NO_COMMIT,
    OPT_BASES,
    OPT_TARGETS,
    OPT_DETACHED,
    OPT_RETRIES,
    OPT_V1_NAMES,
    OPT_TABLE_METADATA,
    OPT_SCHEMA_METADATA,
    OPT_FIELD,
    OPT_REPLACE,
    OPT_FILTER,
    OPT_EXPR,
    OPT_ORDER_BY,
    OPT_AGGREGATE,
    OPT_GROUP_BY,
    OPT_EXPLAIN,
    OPT_ANALYZE,
    OPT_MATERIALIZE,
    OPT_INCLUDE_DELETED,
    OPT_SAMPLE,
    OPT_SEED,
    OPT_WHERE,
    OPT_SET,
    OPT_COLUMN,
    OPT_ROW,
    OPT_ONE_ROW_ID,
    OPT_ADDRESS,
    OPT_LENGTH,
    OPT_FROM,
    OPT_TO,
    OPT_KIND,
    OPT_TYPE,
    OPT_NULLS,
    OPT_VALUES,
    OPT_RENAME,
    OPT_NULLABLE,
    OPT_ON,
    OPT_RIGHT_ON,
    OPT_TARGET_ROWS,
    OPT_MAX_BYTES,
    OPT_NO_DELETIONS,
    OPT_THRESHOLD,
    OPT_MAX_SOURCES,
    OPT_DEFER,
    OPT_WHEN_MATCHED,
    OPT_WHEN_NOT_MATCHED,
    OPT_BY_SOURCE,
    OPT_DUPLICATES,
    OPT_COUNT
};

struct option {
    bool set;
    const char *text;
    uint64_t number;
};

#define OPERANDS_MAX 1024
#define REPEATED_MAX 256

/* A value of an option that may be given more than once, in the order given. */
struct repeated_option {
    enum option_id id;
    const char *text;
};

/* A parsed command line. */
struct args {
    const struct command *command;
    struct option options[OPT_COUNT]; /* of repeated ones the last value */
    struct repeated_option repeated[REPEATED_MAX];
    size_t n_repeated;
    const char *operands[OPERANDS_MAX];
    size_t n_operands;
};

struct command {
    const char *name;
    const char *usage;   /* behind the name */
    const char *summary; /* one line */
    const char *help;    /* paragraphs */
    const enum option_id *options;
    size_t n_options;
    size_t min_operands, max_operands;
    int (*run)(const struct args *a);
};

/* Parse; on a fault prints it (with the nearest name) and returns false. */
bool args_parse(const struct command *c, int argc, char **argv, struct args *out);
void print_help(const struct command *c);
/* Nearest of n names, or NULL. */
const char *nearest(const char *name, const char *const *names, size_t n);
/* Split "a,b.c" at commas outside back-ticks; texts point into a copy that stays until the process ends. */
bool split_names(const char *text, pennon_names *out);
/* Content of a file, or of standard input for "-", with a NUL; free it. NULL when it cannot be read. */
char *read_whole(const char *path);
/* "1,5,9", or "@FILE" with numbers separated by commas or white space. */
bool split_numbers(const char *what, const char *text, uint64_t **out, size_t *n);

/* ---- running ---- */

/* The call part: --threads, --memory, cancel on SIGINT, SIGTERM and SIGHUP. */
bool call_setup(const struct args *a, pennon_call *call);
void call_teardown(pennon_call *call);
/* Print the error and give the exit code. */
int fail(const pennon_error *err);
int usage_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Open the dataset of the first operand at the version that the options name. */
int open_dataset(const struct args *a, const pennon_call *call, pennon_dataset **out);
/* The same of any URI. */
int open_uri(const struct args *a, const pennon_call *call, const char *uri, pennon_dataset **out);
/* --sync into the call; a usage error for another word. */
int call_durability(const struct args *a, pennon_call *call);
/* --blobs; another word is a usage error. */
int blob_form(const struct args *a, int32_t *out);
/* --format, or what --json and the ending of --output say. */
int pick_format(const struct args *a, const char **format);
/* "2026-01-31", "2026-01-31T12:00:00Z": nanoseconds since 1970; false = no such time. */
bool time_option(const char *text, int64_t *out);
/* The operands from the second on as one stream, by the options of inputs (--types, --input-format, …). An error is printed. */
int open_input_files(const struct args *a, const pennon_call *call, struct ArrowArrayStream *out);
/* --mode; another word is a usage error. Without the option *out stays. */
int write_mode(const struct args *a, int32_t *out);

/* ---- inputs: files of rows ---- */

/* What the inputs are, by the options. The structs refer to one another. */
struct input_options {
    pennon_csv_options csv;
    pennon_json_lines_options json;
    pennon_ipc_options ipc;
    pennon_ingest_options any;
};

int input_options(const struct args *a, const pennon_call *call, struct input_options *o);
/* Open all operands behind the first as one stream; their columns must agree. On failure `out` is to be released, where it has a release. */
int open_inputs(const struct args *a, const struct input_options *o, struct ArrowArrayStream *out, pennon_error *err);

/* ---- output ---- */

/* Write the stream (released on every path) as --format says ("table" without one on a terminal and in a pipe alike), to --output or standard
 * output. A finished file is put in place at once; a closed pipe ends quietly. */
int write_stream(const struct args *a, const pennon_call *call, struct ArrowArrayStream *stream, const char *format);
/* A listing: --json gives JSON lines, else a table. */
int write_listing(const struct args *a, const pennon_call *call, struct ArrowArrayStream *stream);
/* A quoted JSON text; null for NULL. */
void print_json_text(const char *text);
/* "version 3, 120 rows", or the same as JSON. */
int print_version(const struct args *a, const pennon_call *call, pennon_dataset *ds);
/* A text with line end. */
int write_text(const char *text);
/* JSON text to aligned "key  value" lines: top-level members of an object. */
void print_json_object(const char *json);
/* Escape control characters on a terminal. */
void print_escaped(FILE *f, const char *text);

/* ---- progress on a terminal ---- */

void progress_begin(pennon_call *call, const char *what);
void progress_end(pennon_call *call);
/* Take the bar away before something else is printed; the next step draws it again. */
void progress_hide(void);

extern const struct command command_info, command_schema, command_versions, command_fragments, command_count, command_scan,
    command_take, command_write, command_export, command_inspect, command_verify, command_cleanup, command_log, command_tag,
    command_branch, command_clone, command_commit, command_transaction, command_restore, command_config, command_delete,
    command_update, command_merge, command_blob, command_delta, command_add_column, command_drop_column, command_alter_column,
    command_join_columns, command_compact;

#endif
