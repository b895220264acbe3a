/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The subcommands that change columns: add-column, drop-column, alter-column, join-columns. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* What each of them holds. */
struct change {
    const struct args *args;
    pennon_call call;
    pennon_error err;
    pennon_dataset *ds;
    pennon_evolution_options o;
    pennon_evolution_result done;
    const char *keys[1], *values[1];
    pennon_pairs message;
};

static int begin(const struct args *a, struct change *w)
{
    const struct option *x = a->options;
    *w = (struct change){.args = a, .keys = {PENNON_COMMIT_MESSAGE}, .values = {x[OPT_MESSAGE].text}};
    w->done.struct_size = sizeof w->done;
    pennon_error_init(&w->err);
    if (!call_setup(a, &w->call)) return EXIT_USAGE;
    pennon_evolution_options_init(&w->o);
    w->o.call = &w->call;
    w->message = (pennon_pairs){1, w->keys, w->values};
    if (x[OPT_MESSAGE].set) w->o.properties = &w->message;
    if (x[OPT_RETRIES].set && x[OPT_RETRIES].number > UINT32_MAX)
        return usage_error("--max-retries takes a number below 2^32, not '%s'", x[OPT_RETRIES].text);
    if (x[OPT_RETRIES].set) w->o.max_retries = (uint32_t)x[OPT_RETRIES].number;
    if (x[OPT_BATCH_SIZE].set) w->o.batch_rows = x[OPT_BATCH_SIZE].number;
    int code = call_durability(a, &w->call);
    return code == EXIT_OK ? open_dataset(a, &w->call, &w->ds) : code;
}

static const char *plural(uint64_t n) { return n == 1 ? "" : "s"; }

static void print_done(const struct change *w)
{
    const pennon_evolution_result *r = &w->done;
    const unsigned long long added = r->fields_added, dropped = r->fields_dropped, rows = r->rows_written, files = r->files_written,
                             bytes = r->bytes_written, version = r->version;
    if (w->args->options[OPT_JSON].set) {
        printf("{\"fields_added\": %llu, \"fields_dropped\": %llu, \"rows_written\": %llu, \"files_written\": %llu, "
               "\"bytes_written\": %llu, \"version\": %llu}\n",
               added, dropped, rows, files, bytes, version);
        return;
    }
    printf("%llu field%s added, %llu dropped; ", added, plural(added), dropped);
    if (files > 0) {
        printf("%llu row%s written to %llu file%s, %llu bytes; ", rows, plural(rows), files, plural(files), bytes);
    } else {
        printf("no data written; ");
    }
    printf("version %llu\n", version);
}

static int end(struct change *w, int code, pennon_status st)
{
    if (code == EXIT_OK && st != PENNON_OK) code = fail(&w->err);
    if (code == EXIT_OK) print_done(w);
    pennon_dataset_free(w->ds);
    pennon_error_clear(&w->err);
    call_teardown(&w->call);
    return code;
}

/* ---- add-column ---- */

/* NAME=SQL split at the first equals sign; free names[i]. */
static int split_operands(const struct args *a, char **names, const char **expressions)
{
    for (size_t i = 1; i < a->n_operands; i++) {
        const char *text = a->operands[i], *equals = strchr(text, '=');
        if (!equals || equals == text || !equals[1])
            return usage_error("add-column takes NAME=SQL, not '%s'; with --type T a name alone is a column of nulls", text);
        names[i - 1] = strdup(text);
        if (!names[i - 1]) return usage_error("out of memory");
        names[i - 1][equals - text] = '\0';
        expressions[i - 1] = equals + 1;
    }
    return EXIT_OK;
}

static int add_sql(const struct args *a)
{
    static char *names[OPERANDS_MAX];
    static const char *expressions[OPERANDS_MAX];
    struct change w;
    pennon_status st = PENNON_OK;
    int code = split_operands(a, names, expressions);
    if (code == EXIT_OK) {
        code = begin(a, &w);
        if (code == EXIT_OK) {
            progress_begin(&w.call, "rows");
            st = pennon_dataset_add_columns_sql(w.ds, a->n_operands - 1, (const char *const *)names, expressions, &w.o, &w.done,
                                                &w.err);
            progress_end(&w.call);
        }
        code = end(&w, code, st);
    }
    for (size_t i = 0; i + 1 < a->n_operands; i++) free(names[i]);
    return code;
}

/* A table of these fields, which release nothing: they are released one by one. */
struct fields {
    struct ArrowSchema list[OPERANDS_MAX + REPEATED_MAX], *pointers[OPERANDS_MAX + REPEATED_MAX];
    size_t n;
};

static int add_field(struct fields *f, const char *name, const char *type)
{
    pennon_error err;
    pennon_error_init(&err);
    int code = EXIT_OK;
    if (pennon_type_from_text(type, name, &f->list[f->n], &err) == PENNON_OK) {
        f->pointers[f->n] = &f->list[f->n];
        f->n++;
    } else {
        code = fail(&err);
    }
    pennon_error_clear(&err);
    return code;
}

/* The name is what stands before the first space, or a name in back ticks. */
static int add_nulls_text(struct fields *f, const char *text)
{
    const char *quote = text[0] == '`' ? strchr(text + 1, '`') : NULL;
    const char *space = strchr(quote ? quote : text, ' ');
    if (!space || space == text) return usage_error("--nulls takes 'NAME TYPE', not '%s'", text);
    char *name = strdup(quote ? text + 1 : text);
    if (!name) return usage_error("out of memory");
    name[quote ? quote - text - 1 : space - text] = '\0';
    const int code = add_field(f, name, space + 1);
    free(name);
    return code;
}

static void keep_schema(struct ArrowSchema *s) { s->release = NULL; }

static int add_nulls(const struct args *a)
{
    static struct fields f;
    struct change w;
    int code = EXIT_OK;
    pennon_status st = PENNON_OK;
    for (size_t i = 1; code == EXIT_OK && i < a->n_operands; i++) code = add_field(&f, a->operands[i], a->options[OPT_TYPE].text);
    for (size_t i = 0; code == EXIT_OK && i < a->n_repeated; i++) {
        if (a->repeated[i].id == OPT_NULLS) code = add_nulls_text(&f, a->repeated[i].text);
    }
    if (code == EXIT_OK) {
        const struct ArrowSchema table = {
            .format = "+s", .name = "", .n_children = (int64_t)f.n, .children = f.pointers, .release = keep_schema};
        code = begin(a, &w);
        if (code == EXIT_OK) st = pennon_dataset_add_columns_null(w.ds, &table, &w.o, &w.done, &w.err);
        code = end(&w, code, st);
    }
    for (size_t i = 0; i < f.n; i++) f.list[i].release(&f.list[i]);
    return code;
}

static int add_from(const struct args *a)
{
    struct change w;
    struct ArrowArrayStream data = {0};
    static struct args input; /* as if the file were an operand */
    pennon_status st = PENNON_OK;
    input = *a;
    input.operands[1] = a->options[OPT_VALUES].text;
    input.n_operands = 2;
    int code = begin(a, &w);
    if (code == EXIT_OK) code = open_input_files(&input, &w.call, &data);
    if (code == EXIT_OK) {
        progress_begin(&w.call, "rows");
        st = pennon_dataset_add_columns_stream(w.ds, &data, &w.o, &w.done, &w.err);
        progress_end(&w.call);
    }
    if (data.release) data.release(&data);
    return end(&w, code, st);
}

static int run_add(const struct args *a)
{
    const struct option *x = a->options;
    const bool nulls = x[OPT_TYPE].set || x[OPT_NULLS].set, named = a->n_operands > 1;
    if (x[OPT_VALUES].set && (nulls || named)) return usage_error("add-column: --values alone says which columns");
    if (x[OPT_NULLS].set && !x[OPT_TYPE].set && named)
        return usage_error("add-column: --nulls and NAME=SQL are two changes; '%s'", a->operands[1]);
    if (x[OPT_TYPE].set && !named) return usage_error("add-column: --type is for the names behind the URI");
    if (x[OPT_VALUES].set) return add_from(a);
    if (nulls) return add_nulls(a);
    if (!named) return usage_error("add-column: NAME=SQL, --nulls 'NAME TYPE' or --values FILE says what is added");
    return add_sql(a);
}

/* ---- drop-column ---- */

static int run_drop(const struct args *a)
{
    struct change w;
    pennon_names list, all = {0};
    static const char *names[OPERANDS_MAX];
    pennon_status st = PENNON_OK;
    for (size_t i = 1; i < a->n_operands; i++) {
        if (!split_names(a->operands[i], &list)) return EXIT_USAGE;
        for (size_t k = 0; k < list.n; k++) {
            if (all.n == COUNT(names)) return usage_error("drop-column: more than %d columns at once", OPERANDS_MAX);
            names[all.n++] = list.items[k];
        }
    }
    int code = begin(a, &w);
    if (code == EXIT_OK) st = pennon_dataset_drop_columns(w.ds, all.n, names, &w.o, &w.done, &w.err);
    return end(&w, code, st);
}

/* ---- alter-column ---- */

static int run_alter(const struct args *a)
{
    const struct option *x = a->options;
    struct change w;
    struct ArrowSchema type = {0};
    pennon_alteration change = {.path = a->operands[1], .rename = x[OPT_RENAME].text};
    const char *nullable = x[OPT_NULLABLE].text;
    pennon_status st = PENNON_OK;
    if (!x[OPT_RENAME].set && !x[OPT_TYPE].set && !nullable)
        return usage_error("alter-column: --rename, --type or --nullable says what changes");
    if (nullable && strcmp(nullable, "true") != 0 && strcmp(nullable, "false") != 0)
        return usage_error("--nullable takes true or false, not '%s'", nullable);
    if (nullable) change.nullable = strcmp(nullable, "true") == 0 ? PENNON_NULLABLE_YES : PENNON_NULLABLE_NO;
    int code = begin(a, &w);
    if (code == EXIT_OK && x[OPT_TYPE].set) {
        st = pennon_type_from_text(x[OPT_TYPE].text, "", &type, &w.err);
        change.data_type = &type;
    }
    if (code == EXIT_OK && st == PENNON_OK) {
        progress_begin(&w.call, "rows");
        st = pennon_dataset_alter_columns(w.ds, 1, &change, &w.o, &w.done, &w.err);
        progress_end(&w.call);
    }
    if (type.release) type.release(&type);
    return end(&w, code, st);
}

/* ---- join-columns ---- */

static int run_join(const struct args *a)
{
    const struct option *x = a->options;
    struct change w;
    struct ArrowArrayStream data = {0};
    pennon_status st = PENNON_OK;
    if (!x[OPT_ON].set) return usage_error("join-columns: --on says which column is the key");
    int code = begin(a, &w);
    if (code == EXIT_OK) code = open_input_files(a, &w.call, &data);
    if (code == EXIT_OK) {
        progress_begin(&w.call, "rows");
        st = pennon_dataset_join_columns(w.ds, &data, x[OPT_ON].text, x[OPT_RIGHT_ON].text, &w.o, &w.done, &w.err);
        progress_end(&w.call);
    }
    if (data.release) data.release(&data);
    return end(&w, code, st);
}

/* ---- table ---- */

static const enum option_id add_options[] = {OPT_TYPE,      OPT_NULLS,        OPT_VALUES,     OPT_TYPES,  OPT_DELIMITER,
                                             OPT_NO_HEADER, OPT_INPUT_FORMAT, OPT_BATCH_SIZE, OPT_BRANCH, OPT_MESSAGE,
                                             OPT_RETRIES,   OPT_EXTERNAL,     OPT_SYNC};
static const enum option_id drop_options[] = {OPT_BRANCH, OPT_MESSAGE, OPT_RETRIES, OPT_EXTERNAL, OPT_SYNC};
static const enum option_id alter_options[] = {OPT_RENAME,  OPT_TYPE,    OPT_NULLABLE, OPT_BATCH_SIZE, OPT_BRANCH,
                                               OPT_MESSAGE, OPT_RETRIES, OPT_EXTERNAL, OPT_SYNC};
static const enum option_id join_options[] = {OPT_ON,        OPT_RIGHT_ON,     OPT_TYPES,      OPT_DELIMITER,
                                              OPT_NO_HEADER, OPT_INPUT_FORMAT, OPT_BATCH_SIZE, OPT_BRANCH,
                                              OPT_MESSAGE,   OPT_RETRIES,      OPT_EXTERNAL,   OPT_SYNC};

const struct command command_add_column = {
    "add-column",
    "URI NAME=SQL… | URI --type T NAME… | URI --nulls 'NAME TYPE'… | URI --values FILE",
    "add columns of expressions, of nulls, or of a file",
    "The values go into new files beside those that are there, which are not touched; columns of nulls take no file.\n"
    "Expressions are SQL over the columns of the table. A file (CSV, JSON lines, Arrow) has a row for each row of the table, in "
    "the same order.",
    add_options,
    COUNT(add_options),
    1,
    OPERANDS_MAX,
    run_add};
const struct command command_drop_column = {"drop-column",
                                            "URI A,B.C…",
                                            "take columns out of the table",
                                            "Nothing is rewritten: the bytes stay until the files are compacted. Older versions "
                                            "still have the columns, until cleanup removes those.\n"
                                            "Dotted paths reach into structs; a name with a dot stands in back ticks.",
                                            drop_options,
                                            COUNT(drop_options),
                                            2,
                                            OPERANDS_MAX,
                                            run_drop};
const struct command command_alter_column = {
    "alter-column",
    "URI COLUMN [--rename NAME] [--type T] [--nullable BOOL]",
    "rename a column, change its type, or whether it may be null",
    "Names and nullability change nothing in the files. For another type the values are written anew, and every one has to fit; "
    "types change "
    "within one family: integers, floats,\ndates and times, texts, bytes, decimals, lists.",
    alter_options,
    COUNT(alter_options),
    2,
    2,
    run_alter};
const struct command command_join_columns = {"join-columns",
                                             "URI INPUT… --on COLUMN [--right-on COLUMN]",
                                             "add the columns of files to the rows with the same key",
                                             "Rows of the table that the files do not have get nulls; where the files have a key "
                                             "twice, the last row counts. The files are held in memory.",
                                             join_options,
                                             COUNT(join_options),
                                             2,
                                             OPERANDS_MAX,
                                             run_join};
