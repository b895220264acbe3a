/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The subcommands that commit without data of their own: commit, restore, config; and transaction, which shows what was committed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* What each of them holds. */
struct work {
    pennon_call call;
    pennon_error err;
    pennon_dataset *ds;
    pennon_commit_options o;
    const char *keys[1], *values[1];
    pennon_pairs message;
};

static int begin(const struct args *a, struct work *w)
{
    const struct option *x = a->options;
    *w = (struct work){.keys = {PENNON_COMMIT_MESSAGE}, .values = {x[OPT_MESSAGE].text}};
    pennon_error_init(&w->err);
    if (!call_setup(a, &w->call)) return EXIT_USAGE;
    pennon_commit_options_init(&w->o);
    w->o.call = &w->call;
    w->o.detached = x[OPT_DETACHED].set;
    w->o.storage_version = x[OPT_STORAGE].text;
    w->o.stable_row_ids = x[OPT_STABLE].set;
    w->o.v1_manifest_names = x[OPT_V1_NAMES].set;
    w->message = (pennon_pairs){1, w->keys, w->values};
    if (x[OPT_MESSAGE].set) w->o.properties = &w->message;
    if (x[OPT_RETRIES].set && x[OPT_RETRIES].number > UINT32_MAX)
        return usage_error("--max-retries takes a number below 2^32, not '%s'", x[OPT_RETRIES].text);
    if (x[OPT_RETRIES].set) w->o.max_retries = (uint32_t)x[OPT_RETRIES].number;
    return call_durability(a, &w->call);
}

static int end(struct work *w, int code)
{
    pennon_dataset_free(w->ds);
    pennon_error_clear(&w->err);
    call_teardown(&w->call);
    return code;
}

/* ---- commit ---- */

/* Is the text a transaction? Fragments have no member "operation". A quote inside of a text would be escaped. */
static bool is_transaction(const char *text)
{
    static const char key[] = "\"operation\"";
    for (const char *p = text; (p = strstr(p, key)); p++) {
        const char *after = p + strlen(key);
        if (after[strspn(after, " \t\r\n")] == ':') return true;
    }
    return false;
}

/* The texts of all inputs; fragments are joined to one array. */
struct inputs {
    char **texts;
    size_t n;
    bool transactions;
};

static void inputs_free(struct inputs *in)
{
    for (size_t i = 0; i < in->n; i++) free(in->texts[i]);
    free(in->texts);
}

static int read_inputs(const struct args *a, struct inputs *in)
{
    *in = (struct inputs){.texts = calloc(a->n_operands, sizeof *in->texts)};
    if (!in->texts) return usage_error("out of memory");
    for (size_t i = 1; i < a->n_operands; i++) {
        char *text = read_whole(a->operands[i]);
        if (!text) {
            int why = errno;
            usage_error("'%s' cannot be read: %s", a->operands[i], strerror(why));
            return why == ENOENT ? EXIT_NOT_FOUND : EXIT_FINDINGS;
        }
        in->texts[in->n++] = text;
        bool transaction = is_transaction(text);
        if (i == 1) in->transactions = transaction;
        if (in->transactions != transaction)
            return usage_error("'%s' holds a transaction and '%s' fragments", a->operands[transaction ? i : 1],
                               a->operands[transaction ? 1 : i]);
    }
    return EXIT_OK;
}

/* Objects and arrays as the members of one array. */
static char *join_fragments(const struct inputs *in)
{
    size_t size = 3, at = 1;
    for (size_t i = 0; i < in->n; i++) size += strlen(in->texts[i]) + 1;
    char *all = malloc(size);
    if (!all) return NULL;
    all[0] = '[';
    for (size_t i = 0; i < in->n; i++) {
        const char *from = in->texts[i] + strspn(in->texts[i], " \t\r\n");
        size_t n = strlen(from);
        while (n && strchr(" \t\r\n", from[n - 1])) n--;
        if (n > 1 && from[0] == '[' && from[n - 1] == ']') {
            from++;
            n -= 2;
        }
        if (n == strspn(from, " \t\r\n") || n == 0) continue;
        if (at > 1) all[at++] = ',';
        memcpy(all + at, from, n);
        at += n;
    }
    all[at++] = ']';
    all[at] = '\0';
    return all;
}

static pennon_status commit_fragments(const struct args *a, struct work *w, const struct inputs *in, int32_t mode)
{
    pennon_transaction *t = NULL;
    char *all = join_fragments(in);
    pennon_status st =
        pennon_transaction_from_fragments(a->operands[0], all ? all : "[]", mode, &w->call, w->o.branch, &t, &w->err);
    if (st == PENNON_OK && w->o.properties) st = pennon_transaction_set_properties(t, w->o.properties, &w->err);
    if (st == PENNON_OK) st = pennon_commit(a->operands[0], t, &w->o, &w->ds, &w->err);
    pennon_transaction_free(t);
    free(all);
    return st;
}

static pennon_status commit_transactions(const struct args *a, struct work *w, const struct inputs *in)
{
    pennon_status st = PENNON_OK;
    pennon_transaction **list = calloc(in->n, sizeof(*list));
    for (size_t i = 0; list && i < in->n && st == PENNON_OK; i++)
        st = pennon_transaction_from_json(in->texts[i], &list[i], &w->err);
    if (list && st == PENNON_OK && in->n == 1) {
        if (w->o.properties) st = pennon_transaction_set_properties(list[0], w->o.properties, &w->err);
        if (st == PENNON_OK) st = pennon_commit(a->operands[0], list[0], &w->o, &w->ds, &w->err);
    } else if (list && st == PENNON_OK) {
        st = pennon_commit_batch(a->operands[0], in->n, (const pennon_transaction *const *)list, &w->o, &w->ds, NULL, &w->err);
    }
    for (size_t i = 0; list && i < in->n; i++) pennon_transaction_free(list[i]);
    free(list);
    return st;
}

static int run_commit(const struct args *a)
{
    struct work w;
    struct inputs in = {0};
    int32_t mode = PENNON_WRITE_APPEND;
    int code = begin(a, &w);
    w.o.branch = a->options[OPT_BRANCH].text;
    if (code == EXIT_OK) code = write_mode(a, &mode);
    if (code == EXIT_OK) code = read_inputs(a, &in);
    if (code == EXIT_OK && in.transactions && a->options[OPT_MODE].set)
        code = usage_error("--mode is for fragments; a transaction says what it does");
    if (code == EXIT_OK) {
        pennon_status st = in.transactions ? commit_transactions(a, &w, &in) : commit_fragments(a, &w, &in, mode);
        code = st == PENNON_OK ? print_version(a, &w.call, w.ds) : fail(&w.err);
    }
    inputs_free(&in);
    return end(&w, code);
}

/* ---- transaction ---- */

static pennon_status transaction_of_file(const char *path, pennon_transaction **out, pennon_error *err, int *code)
{
    FILE *f = fopen(path, "rb");
    static char bytes[1 << 20]; /* of transaction files that people look at */
    size_t n = f ? fread(bytes, 1, sizeof bytes, f) : 0;
    bool whole = f && !ferror(f) && n < sizeof bytes;
    if (f) fclose(f);
    if (!whole) {
        *code = usage_error("'%s' cannot be read, or has 1 MiB or more", path);
        return PENNON_OK;
    }
    return pennon_transaction_from_bytes(bytes, n, out, err);
}

static int run_transaction(const struct args *a)
{
    struct work w;
    pennon_transaction *t = NULL;
    char *json = NULL;
    pennon_status st = PENNON_OK;
    int code = begin(a, &w);
    if (code == EXIT_OK && a->options[OPT_FILE].set) {
        st = transaction_of_file(a->operands[0], &t, &w.err, &code);
    } else if (code == EXIT_OK && (code = open_dataset(a, &w.call, &w.ds)) == EXIT_OK) {
        st = pennon_dataset_transaction(w.ds, &w.call, PENNON_NONE, &t, &w.err);
        if (st == PENNON_OK && !t) {
            fprintf(stderr, "pennon: version %llu was written without a transaction\n",
                    (unsigned long long)pennon_dataset_version(w.ds));
            code = EXIT_NOT_FOUND;
        }
    }
    if (st == PENNON_OK && t) st = pennon_transaction_to_json(t, &json, &w.err);
    if (st != PENNON_OK) code = fail(&w.err);
    if (code == EXIT_OK) code = write_text(json);
    pennon_string_free(json);
    pennon_transaction_free(t);
    return end(&w, code);
}

/* ---- restore ---- */

static int run_restore(const struct args *a)
{
    struct work w;
    if (!a->options[OPT_VERSION].set && !a->options[OPT_TAG].set)
        return usage_error("restore: --version or --tag says which version is made the latest again");
    int code = begin(a, &w);
    if (code == EXIT_OK) code = open_dataset(a, &w.call, &w.ds);
    if (code == EXIT_OK && pennon_dataset_restore(w.ds, &w.o, &w.err) != PENNON_OK) code = fail(&w.err);
    if (code == EXIT_OK) code = print_version(a, &w.call, w.ds);
    return end(&w, code);
}

/* ---- config ---- */

static int config_map(const struct args *a, pennon_metadata_update *u)
{
    const struct option *x = a->options;
    if (x[OPT_TABLE_METADATA].set + x[OPT_SCHEMA_METADATA].set + x[OPT_FIELD].set > 1)
        return usage_error("config: one of --table-metadata, --schema-metadata and --field");
    u->which = x[OPT_TABLE_METADATA].set    ? PENNON_METADATA_TABLE
               : x[OPT_SCHEMA_METADATA].set ? PENNON_METADATA_SCHEMA
               : x[OPT_FIELD].set           ? PENNON_METADATA_FIELD
                                            : PENNON_METADATA_CONFIG;
    u->field = x[OPT_FIELD].text;
    u->replace = x[OPT_REPLACE].set;
    return EXIT_OK;
}

static int config_get(const struct args *a, struct work *w, const pennon_metadata_update *u)
{
    char *text = NULL;
    if (a->n_operands == 2) {
        if (pennon_dataset_metadata_json(w->ds, u->which, u->field, &text, &w->err) != PENNON_OK) return fail(&w->err);
        if (a->options[OPT_JSON].set) {
            puts(text);
        } else {
            print_json_object(text);
        }
        pennon_string_free(text);
        return EXIT_OK;
    }
    int code = EXIT_OK;
    if (a->options[OPT_JSON].set) putchar('{');
    for (size_t i = 2; i < a->n_operands && code == EXIT_OK; i++) {
        const char *key = a->operands[i];
        if (pennon_dataset_metadata_value(w->ds, u->which, u->field, key, &text, &w->err) != PENNON_OK) return fail(&w->err);
        if (a->options[OPT_JSON].set) {
            printf("%s", i > 2 ? ", " : "");
            print_json_text(key);
            printf(": ");
            if (text) {
                print_json_text(text);
            } else {
                printf("null");
            }
        } else if (text) {
            puts(text);
        } else {
            fprintf(stderr, "pennon: '%s' is not set\n", key);
            code = EXIT_NOT_FOUND;
        }
        pennon_string_free(text);
    }
    if (a->options[OPT_JSON].set) puts("}");
    return code;
}

/* KEY=VALUE operands, or for unset KEYs. */
static int config_change(const struct args *a, struct work *w, pennon_metadata_update *u, bool set)
{
    static const char *keys[OPERANDS_MAX], *values[OPERANDS_MAX];
    pennon_pairs pairs = {0, keys, values};
    if (a->n_operands == 2 && !(set && u->replace)) return usage_error("config %s: nothing to %s", a->operands[0], a->operands[0]);
    for (size_t i = 2; i < a->n_operands; i++) {
        char *key = strdup(a->operands[i]), *equals = key ? strchr(key, '=') : NULL;
        if (!key) return usage_error("out of memory");
        keys[pairs.n] = key;
        values[pairs.n] = NULL;
        if (set && (!equals || equals == key)) {
            free(key);
            return usage_error("config set takes KEY=VALUE, not '%s'", a->operands[i]);
        }
        if (set) {
            *equals = '\0';
            values[pairs.n] = equals + 1;
        }
        pairs.n++;
    }
    u->pairs = &pairs;
    pennon_status st = pennon_dataset_update_metadata(w->ds, 1, u, &w->o, &w->err);
    for (size_t i = 0; i < pairs.n; i++) free((char *)(uintptr_t)keys[i]);
    return st == PENNON_OK ? print_version(a, &w->call, w->ds) : fail(&w->err);
}

static int run_config(const struct args *a)
{
    static const char *const verbs[] = {"get", "set", "unset"};
    struct work w;
    pennon_metadata_update u = {0};
    size_t verb = 0;
    while (verb < COUNT(verbs) && strcmp(verbs[verb], a->operands[0]) != 0) verb++;
    if (verb == COUNT(verbs)) return usage_error("config takes get, set or unset, not '%s'", a->operands[0]);
    if (a->options[OPT_REPLACE].set && verb != 1) return usage_error("config: --replace is for set");
    if (verb != 0 && (a->options[OPT_VERSION].set || a->options[OPT_TAG].set))
        return usage_error("config %s changes the latest version: no --version and no --tag", verbs[verb]);
    int code = begin(a, &w);
    if (code == EXIT_OK) code = config_map(a, &u);
    if (code == EXIT_OK) code = open_uri(a, &w.call, a->operands[1], &w.ds);
    if (code == EXIT_OK) code = verb == 0 ? config_get(a, &w, &u) : config_change(a, &w, &u, verb == 1);
    return end(&w, code);
}

/* ---- table ---- */

static const enum option_id commit_options[] = {OPT_MODE,    OPT_MESSAGE, OPT_DETACHED, OPT_RETRIES, OPT_BRANCH,
                                                OPT_STORAGE, OPT_STABLE,  OPT_V1_NAMES, OPT_SYNC};
static const enum option_id transaction_options[] = {OPT_VERSION, OPT_TAG, OPT_BRANCH, OPT_AS_OF, OPT_FILE};
static const enum option_id restore_options[] = {OPT_VERSION, OPT_TAG, OPT_BRANCH, OPT_MESSAGE, OPT_RETRIES, OPT_SYNC};
static const enum option_id config_options[] = {
    OPT_TABLE_METADATA, OPT_SCHEMA_METADATA, OPT_FIELD, OPT_REPLACE, OPT_VERSION, OPT_TAG, OPT_BRANCH, OPT_MESSAGE, OPT_SYNC};

const struct command command_commit = {
    "commit",
    "URI FILE…",
    "make data files that were written elsewhere visible, or commit transactions",
    "A FILE holds JSON: fragments (one or an array, from pennon write --no-commit or pylance's write_fragments), which become one\n"
    "version together, or a transaction; several transactions must be appends and become one version. '-' is standard input.\n"
    "For fragments --mode is append (default), or overwrite or create with the schema of the data files.",
    commit_options,
    COUNT(commit_options),
    2,
    OPERANDS_MAX,
    run_commit};
const struct command command_transaction = {"transaction",
                                            "URI",
                                            "the transaction that made a version, as JSON",
                                            "The JSON is what pennon commit takes. --file reads a .txn file instead of a dataset.",
                                            transaction_options,
                                            COUNT(transaction_options),
                                            1,
                                            1,
                                            run_transaction};
const struct command command_restore = {"restore",
                                        "URI --version N",
                                        "make an old version the latest again, as a new version",
                                        NULL,
                                        restore_options,
                                        COUNT(restore_options),
                                        1,
                                        1,
                                        run_restore};
const struct command command_config = {"config",
                                       "get|set|unset URI [KEY[=VALUE]…]",
                                       "the dataset's config, or metadata of table, schema or a field",
                                       "get prints all, or the values of the keys; set and unset make a new version.",
                                       config_options,
                                       COUNT(config_options),
                                       2,
                                       OPERANDS_MAX,
                                       run_config};
