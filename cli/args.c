/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Command lines: options by table, unknown names answered with the nearest one. */
#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct option_spec {
    const char *name;
    const char *value; /* NULL = flag */
    enum option_kind kind;
    const char *help;
};

static const struct option_spec specs[OPT_COUNT] = {
    [OPT_HELP] = {"help", NULL, OPTION_FLAG, "show this text"},
    [OPT_JSON] = {"json", NULL, OPTION_FLAG, "the answer as JSON: an object, or JSON lines"},
    [OPT_THREADS] = {"threads", "N", OPTION_NUMBER, "threads to keep busy (default: the processors)"},
    [OPT_MEMORY] = {"memory", "BYTES", OPTION_NUMBER, "memory budget, with K, M or G (default: a quarter, at most 1G)"},
    [OPT_VERSION] = {"version", "N", OPTION_NUMBER, "open version N instead of the latest"},
    [OPT_TAG] = {"tag", "NAME", OPTION_TEXT, "open the version that a tag names"},
    [OPT_BRANCH] = {"branch", "NAME", OPTION_TEXT, "a branch instead of main"},
    [OPT_AS_OF] = {"as-of", "TIME", OPTION_TEXT, "newest version before a time: 2026-01-31, 2026-01-31T12:00:00Z"},
    [OPT_COLUMNS] = {"columns", "A,B.C", OPTION_TEXT, "columns in this order; dotted paths reach into structs"},
    [OPT_LIMIT] = {"limit", "N", OPTION_NUMBER, "rows at most"},
    [OPT_OFFSET] = {"offset", "N", OPTION_NUMBER, "rows to skip first; of blob get: bytes"},
    [OPT_ROW_ID] = {"with-row-id", NULL, OPTION_FLAG, "add the column _rowid"},
    [OPT_ROW_ADDRESS] = {"with-row-address", NULL, OPTION_FLAG, "add the column _rowaddr"},
    [OPT_BATCH_SIZE] = {"batch-size", "N", OPTION_NUMBER, "rows of a batch at most (default 8192, fewer of wide rows)"},
    [OPT_FORMAT] = {"format", "F", OPTION_TEXT, "table, csv, tsv, jsonl, arrow (IPC stream) or arrow-file"},
    [OPT_OUTPUT] = {"output", "FILE", OPTION_TEXT, "write to a file, put in place when it is whole (also -o)"},
    [OPT_FRAGMENTS] = {"fragments", "1,2", OPTION_TEXT, "only these fragments, in this order"},
    [OPT_UNORDERED] = {"unordered", NULL, OPTION_FLAG, "batches may come in any order"},
    [OPT_MAPPED] = {"mapped", NULL, OPTION_FLAG,
                    "map local files where they hold values as they are; only files that nobody else changes"},
    [OPT_BLOBS] = {"blobs", "FORM", OPTION_TEXT, "blob columns as descriptions (default) or bytes"},
    [OPT_FILE] = {"file", NULL, OPTION_FLAG, "the operand is a single file instead of a table"},
    [OPT_ROWS] = {"rows", "1,5,9", OPTION_TEXT, "rows by position; @FILE reads the list from a file"},
    [OPT_ROW_IDS] = {"row-ids", "LIST", OPTION_TEXT, "rows by row id"},
    [OPT_ADDRESSES] = {"addresses", "LIST", OPTION_TEXT, "rows by row address"},
    [OPT_RANGE] = {"range", "10:20", OPTION_TEXT, "rows 10 to 19"},
    [OPT_MODE] = {"mode", "MODE", OPTION_TEXT,
                  "create (default; of commit: append), append or overwrite; of compact: reencode (default), try-binary-copy, "
                  "force-binary-copy"},
    [OPT_STORAGE] = {"data-storage-version", "V", OPTION_TEXT, "2.0, 2.1 (default) or 2.2"},
    [OPT_ROWS_PER_FILE] = {"max-rows-per-file", "N", OPTION_NUMBER, "rows of a data file (default 1048576)"},
    [OPT_BYTES_PER_FILE] = {"max-bytes-per-file", "N", OPTION_NUMBER, "bytes after which a data file is closed (default 90G)"},
    [OPT_STABLE] = {"stable-row-ids", NULL, OPTION_FLAG, "a new dataset keeps row ids when rows move"},
    [OPT_SYNC] = {"sync", "HOW", OPTION_TEXT, "full (default): survives a power loss; none: the system writes when it likes"},
    [OPT_TYPES] = {"types", "A=T,B=T", OPTION_TEXT, "types of CSV and JSON columns instead of inferred ones, such as id=int32"},
    [OPT_DELIMITER] = {"delimiter", "C", OPTION_TEXT, "CSV delimiter (default ,)"},
    [OPT_NO_HEADER] = {"no-header", NULL, OPTION_FLAG, "the CSV has no header row"},
    [OPT_MESSAGE] = {"message", "TEXT", OPTION_TEXT, "commit message"},
    [OPT_INPUT_FORMAT] = {"input-format", "F", OPTION_TEXT, "csv, jsonl or arrow; else told by name and content"},
    [OPT_ALLOW_LOSS] = {"allow-loss", NULL, OPTION_FLAG,
                        "write what the version cannot hold (2.0: nulls of structs) as the nearest thing"},
    [OPT_EXTERNAL] = {"external-paths", "RULE", OPTION_TEXT,
                      "same-store (default), all or none: places outside the table that it may read"},
    [OPT_FORCE] = {"force", NULL, OPTION_FLAG,
                   "create: replace what an interrupted creation left; delete: also a branch without a branch file"},
    [OPT_SHALLOW] = {"shallow", NULL, OPTION_FLAG,
                     "refer to the files where they are: nothing is copied, and the clone needs its source"},
    [OPT_DEEP] = {"deep", NULL, OPTION_FLAG, "copy the files (default)"},
    [OPT_EXTERNAL_BLOBS] =
        {"external-blobs", "RULE", OPTION_TEXT,
         "URIs in blob columns: bases (default, kept under base paths only), anywhere (kept), copy (their bytes are stored)"},
    [OPT_OLDER_THAN] = {"older-than", "AGE", OPTION_TEXT, "versions of this age and more: 14d (default), 12h, 1h 30m, 0s"},
    [OPT_KEEP] = {"keep", "N", OPTION_NUMBER, "the N newest versions stay"},
    [OPT_BEFORE_VERSION] = {"before-version", "N", OPTION_NUMBER, "only versions below N"},
    [OPT_BEFORE_TAG] = {"before-tag", "NAME", OPTION_TEXT, "only versions below the one that a tag names"},
    [OPT_DRY_RUN] = {"dry-run", NULL, OPTION_FLAG, "say what would be done, of cleanup for every file and why; change nothing"},
    [OPT_DELETE_UNVERIFIED] = {"delete-unverified", NULL, OPTION_FLAG,
                               "also young files that no version refers to: only when nobody is writing"},
    [OPT_ERROR_IF_TAGGED] = {"error-if-tagged", NULL, OPTION_FLAG, "fail when an old version is tagged, instead of keeping it"},
    [OPT_NO_COMMIT] = {"no-commit", NULL, OPTION_FLAG, "write data files only and print their fragments"},
    [OPT_BASES] = {"bases", "NAME=PATH,…", OPTION_TEXT, "base paths of a new dataset: folders that data files may lie in"},
    [OPT_TARGETS] = {"target-bases", "A,B", OPTION_TEXT, "base paths (names, paths or ids) that the data files go to in turn"},
    [OPT_DETACHED] = {"detached", NULL, OPTION_FLAG, "a version that is never the latest and in no listing"},
    [OPT_RETRIES] = {"max-retries", "N", OPTION_NUMBER,
                     "attempts after the first one when others commit too (default 20; of delete, update and merge: 10)"},
    [OPT_V1_NAMES] = {"v1-manifest-names", NULL, OPTION_FLAG, "a new dataset names its manifests as old releases do"},
    [OPT_TABLE_METADATA] = {"table-metadata", NULL, OPTION_FLAG, "the metadata of the table instead of the config"},
    [OPT_SCHEMA_METADATA] = {"schema-metadata", NULL, OPTION_FLAG, "the metadata of the schema"},
    [OPT_FIELD] = {"field", "PATH", OPTION_TEXT, "the metadata of a field"},
    [OPT_REPLACE] = {"replace", NULL, OPTION_FLAG, "set: exactly these keys afterwards"},
    [OPT_FILTER] = {"filter", "SQL", OPTION_TEXT,
                    "only rows for which it is true, such as \"price > 10 AND name LIKE 'a%'\"; @FILE reads it"},
    [OPT_EXPR] = {"expr", "NAME=SQL", OPTION_REPEATED,
                  "a computed column behind those of --columns (alone without it); may be given again and again"},
    [OPT_ORDER_BY] = {"order-by", "A DESC,B", OPTION_TEXT, "columns, each with asc or desc, nulls first or nulls last (default)"},
    [OPT_AGGREGATE] = {"aggregate", "F(A),…", OPTION_TEXT,
                       "count, count(a), sum, avg, min, max; name=sum(a) names it; not with --columns, --order-by, --limit"},
    [OPT_GROUP_BY] = {"group-by", "A,B", OPTION_TEXT, "a row of aggregates for each value of these columns"},
    [OPT_EXPLAIN] = {"explain", NULL, OPTION_FLAG, "print how it would be done instead of doing it"},
    [OPT_ANALYZE] = {"analyze", NULL, OPTION_FLAG, "do it, and print how long each part took and what it read, not the rows"},
    [OPT_MATERIALIZE] = {"materialize", "WHEN", OPTION_TEXT,
                         "when columns that the filter does not need are read: heuristic (default), early or late"},
    [OPT_INCLUDE_DELETED] = {"include-deleted", NULL, OPTION_FLAG, "deleted rows too, with a null _rowid; needs --with-row-id"},
    [OPT_SAMPLE] = {"sample", "N", OPTION_NUMBER, "N random rows, in the order of the table"},
    [OPT_SET] = {"set", "COLUMN=SQL", OPTION_REPEATED, "the new value of a column; may be given again and again"},
    [OPT_WHERE] = {"where", "SQL", OPTION_TEXT, "the rows for which it is true, such as \"price < 0 OR name IS NULL\""},
    [OPT_COLUMN] = {"column", "PATH", OPTION_TEXT, "the blob column; a dotted path reaches into structs"},
    [OPT_ROW] = {"row", "N", OPTION_NUMBER, "the row by position"},
    [OPT_ONE_ROW_ID] = {"row-id", "N", OPTION_NUMBER, "the row by row id"},
    [OPT_ADDRESS] = {"address", "N", OPTION_NUMBER, "the row by row address"},
    [OPT_LENGTH] = {"length", "N", OPTION_NUMBER, "bytes at most (default: to the end)"},
    [OPT_FROM] = {"from", "N", OPTION_TEXT, "the version from which on (it is not part of the changes), or a time"},
    [OPT_TO] = {"to", "N", OPTION_TEXT, "the last version of the changes, or a time (default: the version that is opened)"},
    [OPT_KIND] = {"kind", "KIND", OPTION_TEXT, "inserted, updated, upserted, deleted, or counts (default)"},
    [OPT_TYPE] = {"type", "T", OPTION_TEXT, "a type as it is printed by schema: int64, list<item: float>, timestamp[us, tz=UTC]"},
    [OPT_NULLS] = {"nulls", "NAME TYPE", OPTION_REPEATED, "a column of nulls; may be given again and again"},
    [OPT_VALUES] = {"values", "FILE", OPTION_TEXT, "the columns of a file, whose rows are those of the table in their order"},
    [OPT_RENAME] = {"rename", "NAME", OPTION_TEXT, "the new name of the column; of a part of a struct the last part of its path"},
    [OPT_NULLABLE] = {"nullable", "BOOL", OPTION_TEXT, "may it be null? true or false"},
    [OPT_ON] = {"on", "COLUMN", OPTION_TEXT,
                "key columns, separated by commas (of merge: default the primary key of the schema); of join-columns one, also "
                "_rowid or _rowaddr"},
    [OPT_RIGHT_ON] = {"right-on", "COLUMN", OPTION_TEXT, "the key in the input, where it has another name there"},
    [OPT_TARGET_ROWS] = {"target-rows", "N", OPTION_NUMBER,
                         "fragments with fewer rows are joined; new ones have N at most (default 1048576)"},
    [OPT_MAX_BYTES] = {"max-bytes", "N", OPTION_NUMBER, "bytes after which a new file is closed (default 90G)"},
    [OPT_NO_DELETIONS] = {"no-deletions", NULL, OPTION_FLAG, "deleted rows alone are no reason to write a fragment anew"},
    [OPT_THRESHOLD] = {"threshold", "SHARE", OPTION_TEXT,
                       "share of deleted rows over which a fragment is written anew (default 0.1)"},
    [OPT_MAX_SOURCES] = {"max-source-fragments", "N", OPTION_NUMBER, "only as many tasks as have N old fragments together"},
    [OPT_DEFER] = {"defer-index-remap", NULL, OPTION_FLAG, "leave the indices as they are; their readers learn where rows went"},
    [OPT_WHEN_MATCHED] =
        {"when-matched", "WHAT", OPTION_TEXT,
         "of rows that match: update (default), ignore, fail, delete, or 'update-if SQL' over source.x and target.x"},
    [OPT_WHEN_NOT_MATCHED] = {"when-not-matched", "WHAT", OPTION_TEXT, "of new rows that match none: insert (default) or ignore"},
    [OPT_BY_SOURCE] = {"when-not-matched-by-source", "WHAT", OPTION_TEXT,
                       "of rows that no new row matches: keep (default), delete, or 'delete-if SQL'"},
    [OPT_DUPLICATES] = {"duplicates", "WHAT", OPTION_TEXT,
                        "several new rows for one row: fail (default), or the first of them counts"},
    [OPT_SEED] = {"seed", "N", OPTION_NUMBER, "the same seed takes the same sample (default: a new one each time)"},
};

/* ---- nearest names ---- */

static size_t distance(const char *a, const char *b)
{
    size_t n = strlen(b), row[64];
    if (n >= 63 || strlen(a) >= 63) return SIZE_MAX;
    for (size_t k = 0; k <= n; k++) row[k] = k;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t k = 0; k < n; k++) {
            size_t best = diagonal + (a[i] != b[k]);
            diagonal = row[k + 1];
            if (row[k] + 1 < best) best = row[k] + 1;
            if (diagonal + 1 < best) best = diagonal + 1;
            row[k + 1] = best;
        }
    }
    return row[n];
}

const char *nearest(const char *name, const char *const *names, size_t n)
{
    const char *best = NULL;
    size_t least = strlen(name) / 2 + 1;
    for (size_t i = 0; i < n; i++) {
        size_t d = distance(name, names[i]);
        if (d < least) {
            least = d;
            best = names[i];
        }
    }
    return best;
}

/* ---- parsing ---- */

int usage_error(const char *fmt, ...)
{
    va_list args;
    char text[4096]; /* a longer message is cut */
    va_start(args, fmt);
    if (vsnprintf(text, sizeof text, fmt, args) < 0) text[0] = '\0';
    va_end(args);
    fputs("pennon: ", stderr);
    print_escaped(stderr, text);
    fputc('\n', stderr);
    return EXIT_USAGE;
}

static bool allows(const struct command *c, enum option_id id)
{
    if (id <= OPT_MEMORY) return true;
    for (size_t i = 0; i < c->n_options; i++) {
        if (c->options[i] == id) return true;
    }
    return false;
}

/* What SQL and others call an option that the command has; NULL where there is none. */
static const char *instead_of(const struct command *c, const char *name)
{
    static const struct {
        const char *name;
        enum option_id id;
    } others[] = {
        {"where", OPT_FILTER}, {"sql", OPT_FILTER}, {"select", OPT_COLUMNS}, {"sort", OPT_ORDER_BY}, {"sort-by", OPT_ORDER_BY}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strcmp(name, others[i].name) == 0 && allows(c, others[i].id)) return specs[others[i].id].name;
    }
    return NULL;
}

static bool unknown_option(const struct command *c, const char *name)
{
    const char *names[OPT_COUNT];
    size_t n = 0;
    for (int i = 0; i < OPT_COUNT; i++) {
        if (allows(c, (enum option_id)i)) names[n++] = specs[i].name;
    }
    const char *near = instead_of(c, name);
    for (int i = 0; !near && i < OPT_COUNT; i++) {
        if (strcmp(name, specs[i].name) != 0) continue;
        usage_error("%s: --%s is an option of other commands; see pennon %s --help", c->name, name, c->name);
        return false;
    }
    if (!near) near = nearest(name, names, n);
    if (near) {
        usage_error("%s: unknown option --%s; did you mean --%s?", c->name, name, near);
    } else {
        usage_error("%s: unknown option --%s; see pennon %s --help", c->name, name, c->name);
    }
    return false;
}

/* Number with K, M, G (powers of 1024). */
static bool parse_number(const char *text, uint64_t *out)
{
    char *end;
    errno = 0;
    if (text[0] < '0' || text[0] > '9') return false;
    unsigned long long v = strtoull(text, &end, 10);
    unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    if (shift) end++;
    if (errno || *end || (shift && v > UINT64_MAX >> shift)) return false;
    *out = (uint64_t)v << shift;
    return true;
}

static bool take_value(const struct command *c, enum option_id id, const char *value, struct args *out)
{
    struct option *o = &out->options[id];
    if (specs[id].kind == OPTION_REPEATED) {
        if (out->n_repeated == REPEATED_MAX) {
            usage_error("%s: --%s is given more than %d times", c->name, specs[id].name, REPEATED_MAX);
            return false;
        }
        out->repeated[out->n_repeated++] = (struct repeated_option){id, value};
    } else if (o->set) {
        usage_error("%s: --%s is given twice", c->name, specs[id].name);
        return false;
    }
    o->set = true;
    o->text = value;
    if (specs[id].kind == OPTION_NUMBER && !parse_number(value, &o->number)) {
        usage_error("%s: --%s takes a number, not '%s'", c->name, specs[id].name, value);
        return false;
    }
    return true;
}

static bool take_option(const struct command *c, const char *name, const char *value, int argc, char **argv, int *i,
                        struct args *out)
{
    size_t n = value ? (size_t)(value - name) : strlen(name);
    for (int id = 0; id < OPT_COUNT; id++) {
        if (strlen(specs[id].name) != n || strncmp(specs[id].name, name, n) != 0 || !allows(c, (enum option_id)id)) continue;
        if (specs[id].kind == OPTION_FLAG) {
            if (value) {
                usage_error("%s: --%s takes no value", c->name, specs[id].name);
                return false;
            }
            out->options[id].set = true;
            return true;
        }
        if (value) return take_value(c, (enum option_id)id, value + 1, out);
        if (*i + 1 >= argc) {
            usage_error("%s: --%s needs a value", c->name, specs[id].name);
            return false;
        }
        return take_value(c, (enum option_id)id, argv[++*i], out);
    }
    char copy[64];
    snprintf(copy, sizeof copy, "%.*s", (int)(n < 60 ? n : 60), name);
    return unknown_option(c, copy);
}

/* What only a table has is not passed over in silence when the operand is a data file. */
static bool check_file_options(const struct command *c, const struct args *a)
{
    static const enum option_id of_tables[] = {
        OPT_VERSION,         OPT_TAG,    OPT_BRANCH,   OPT_AS_OF,     OPT_EXTERNAL, OPT_ROW_ID,  OPT_ROW_ADDRESS, OPT_FRAGMENTS,
        OPT_FILTER,          OPT_EXPR,   OPT_ORDER_BY, OPT_AGGREGATE, OPT_GROUP_BY, OPT_EXPLAIN, OPT_ANALYZE,     OPT_MATERIALIZE,
        OPT_INCLUDE_DELETED, OPT_SAMPLE, OPT_SEED};
    if (!a->options[OPT_FILE].set) return true;
    for (size_t i = 0; i < sizeof of_tables / sizeof of_tables[0]; i++) {
        if (!a->options[of_tables[i]].set) continue;
        usage_error("%s: --%s is for tables, and --file reads a single data file", c->name, specs[of_tables[i]].name);
        return false;
    }
    return true;
}

static bool check_operands(const struct command *c, const struct args *a)
{
    if (a->options[OPT_HELP].set) return true;
    if (a->n_operands < c->min_operands) {
        usage_error("usage: pennon %s %s", c->name, c->usage);
        return false;
    }
    if (a->n_operands > c->max_operands) {
        const bool filters = allows(c, OPT_FILTER);
        usage_error("%s: '%s' is one operand too many; see pennon %s --help%s", c->name, a->operands[c->max_operands], c->name,
                    filters ? "; conditions are given with --filter" : "");
        return false;
    }
    return true;
}

bool args_parse(const struct command *c, int argc, char **argv, struct args *out)
{
    bool only_operands = false;
    memset(out, 0, sizeof *out);
    out->command = c;
    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i];
        if (!only_operands && strcmp(arg, "--") == 0) {
            only_operands = true;
        } else if (!only_operands && strncmp(arg, "--", 2) == 0) {
            if (!take_option(c, arg + 2, strchr(arg + 2, '='), argc, argv, &i, out)) return false;
        } else if (!only_operands && strcmp(arg, "-o") == 0 && allows(c, OPT_OUTPUT)) {
            if (i + 1 >= argc) {
                usage_error("%s: -o needs a file", c->name);
                return false;
            }
            if (!take_value(c, OPT_OUTPUT, argv[++i], out)) return false;
        } else if (!only_operands && strcmp(arg, "-h") == 0) {
            out->options[OPT_HELP].set = true;
        } else if (!only_operands && arg[0] == '-' && arg[1]) {
            return unknown_option(c, arg + 1);
        } else if (out->n_operands == OPERANDS_MAX) {
            usage_error("%s: more than %d operands", c->name, OPERANDS_MAX);
            return false;
        } else {
            out->operands[out->n_operands++] = arg;
        }
    }
    return check_operands(c, out) && (out->options[OPT_HELP].set || check_file_options(c, out));
}

static void print_option(enum option_id id)
{
    char left[64];
    snprintf(left, sizeof left, "--%s%s%s", specs[id].name, specs[id].value ? " " : "", specs[id].value ? specs[id].value : "");
    int width = 30; /* of characters: the bytes that go on with one count extra */
    for (const char *p = left; *p; p++) width += ((unsigned char)*p & 0xc0) == 0x80;
    printf("  %-*s %s\n", width, left, specs[id].help);
}

void print_help(const struct command *c)
{
    printf("pennon %s %s\n\n%s\n", c->name, c->usage, c->summary);
    if (c->help) printf("\n%s\n", c->help);
    printf("\nOptions\n");
    for (size_t i = 0; i < c->n_options; i++) print_option(c->options[i]);
    print_option(OPT_JSON);
    print_option(OPT_THREADS);
    print_option(OPT_MEMORY);
    print_option(OPT_HELP);
    printf("\nExit codes: 0 ok, 1 findings or failure, 2 usage, 3 not found or exists already, 4 corrupt, 5 conflict.\n");
}

/* ---- lists ---- */

/* Lists live until the process ends; here they stay in reach. */
static void *kept_lists[16];
static size_t n_kept;

static void keep(void *list)
{
    if (n_kept < sizeof kept_lists / sizeof kept_lists[0]) kept_lists[n_kept++] = list;
}

/* Blanks around an item do not count; names that begin or end with one stand in back-ticks. */
static const char *without_blanks(char *item)
{
    static const char blanks[] = " \t\r\n";
    item += strspn(item, blanks);
    size_t n = strlen(item);
    while (n > 0 && strchr(blanks, item[n - 1])) item[--n] = '\0';
    return item;
}

bool split_names(const char *text, pennon_names *out)
{
    size_t n = 1, at = 0;
    char *copy = strdup(text);
    for (const char *p = text; *p; p++) n += *p == ',';
    const char **items = calloc(n, sizeof *items);
    if (!copy || !items) {
        free(copy);
        free(items);
        usage_error("out of memory");
        return false;
    }
    bool quoted = false;
    char *start = copy;
    for (char *p = copy;; p++) {
        if (*p == '`') quoted = !quoted;
        if (*p != '\0' && (*p != ',' || quoted)) continue;
        bool last = *p == '\0';
        *p = '\0';
        items[at++] = without_blanks(start);
        start = p + 1;
        if (last) break;
    }
    keep(copy);
    keep(items);
    /* An empty text is an empty list. */
    out->n = text[0] ? at : 0;
    out->items = items;
    return true;
}

char *read_whole(const char *path)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *f = standard ? stdin : fopen(path, "rb");
    if (!f) return NULL;
    size_t cap = 1 << 16, n = 0;
    char *text = malloc(cap);
    while (text) {
        size_t got = fread(text + n, 1, cap - n - 1, f);
        n += got;
        if (got == 0) break;
        if (cap - n < 2) {
            char *more = realloc(text, cap *= 2);
            if (!more) free(text);
            text = more;
        }
    }
    if (text && ferror(f)) {
        free(text);
        text = NULL;
    }
    if (text && memchr(text, 0, n)) { /* no text: what is behind the NUL would be passed over */
        free(text);
        text = NULL;
        errno = EILSEQ;
    }
    int why = errno; /* of the read that failed */
    if (!standard) fclose(f);
    errno = why;
    if (text) text[n] = '\0';
    return text;
}

bool split_numbers(const char *what, const char *text, uint64_t **out, size_t *n)
{
    char *file = NULL;
    if (text[0] == '@') {
        file = read_whole(text + 1);
        if (!file) {
            usage_error("--%s: '%s' cannot be read: %s", what, text + 1, strerror(errno));
            return false;
        }
        text = file;
    }
    static const char blanks[] = " \n\r\t";
    size_t cap = 1;
    for (const char *p = text; *p; p++) cap += *p == ',' || strchr(blanks, *p) != NULL;
    uint64_t *list = malloc((cap + 1) * sizeof *list);
    *n = 0;
    bool ok = list != NULL, number = true; /* after a comma there must be one */
    for (const char *p = text + strspn(text, blanks); ok && (*p || (!number && *n)); p += strspn(p, blanks)) {
        char *end;
        errno = 0;
        unsigned long long v = strtoull(p, &end, 10);
        ok = *p >= '0' && *p <= '9' && !errno && (*end == '\0' || *end == ',' || strchr(blanks, *end));
        if (!ok) usage_error("--%s: '%.20s' is no number", what, p);
        if (ok) list[(*n)++] = (uint64_t)v;
        p = end + strspn(end, blanks);
        number = *p != ',';
        if (!number) p++;
    }
    free(file);
    *out = list;
    return ok;
}
