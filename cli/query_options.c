/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Texts of the command line to the lists of a scan.
 *
 *     --expr       name=sql               given as often as there are columns
 *     --order-by   a [asc|desc] [nulls first|nulls last], …
 *     --aggregate  [alias=]count | [alias=]count(a) | sum(a) | avg(a) | min(a) | max(a), …
 *
 * Items are separated by commas outside of back-ticks; the words are those of SQL, in any case. */
#include "query_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char blanks[] = " \t\r\n";

static char *keep_copy(struct query *q, const char *text)
{
    char *copy = strdup(text);
    if (!copy) {
        usage_error("out of memory");
        return NULL;
    }
    q->copies[q->n_copies++] = copy;
    return copy;
}

static char *trim(char *text)
{
    text += strspn(text, blanks);
    size_t n = strlen(text);
    while (n > 0 && strchr(blanks, text[n - 1])) text[--n] = '\0';
    return text;
}

/* First `wanted` outside of back-ticks, or NULL. */
static char *find_outside(char *text, char wanted)
{
    bool quoted = false;
    for (; *text; text++) {
        if (*text == '`') quoted = !quoted;
        if (*text == wanted && !quoted) return text;
    }
    return NULL;
}

/* The next item of a list, cut off with a NUL; NULL at the end. */
static char *next_item(char **rest)
{
    char *item = *rest;
    if (!item) return NULL;
    char *comma = find_outside(item, ',');
    if (comma) *comma = '\0';
    *rest = comma ? comma + 1 : NULL;
    return trim(item);
}

static int too_many(const char *option) { return usage_error("--%s takes at most %d items", option, QUERY_ITEMS); }

/* ---- expressions ---- */

int query_expressions(const struct args *a, struct query *q, const pennon_expressions **out)
{
    size_t n = 0;
    *out = NULL;
    for (size_t i = 0; i < a->n_repeated; i++) {
        if (a->repeated[i].id != OPT_EXPR) continue;
        const char *text = a->repeated[i].text, *equal = strchr(text, '=');
        if (!equal || equal == text || !equal[1]) return usage_error("--expr takes name=sql, such as 'area=w * h', not '%s'", text);
        if (n == QUERY_ITEMS) return too_many("expr");
        char *copy = strndup(text, (size_t)(equal - text));
        if (!copy) return usage_error("out of memory");
        q->copies[q->n_copies++] = copy;
        const char *name = trim(copy);
        if (!*name) return usage_error("--expr: the name is missing before '%s'", equal);
        q->expression_items[n].name = name;
        q->expression_items[n++].sql = equal + 1;
        q->expressions = (pennon_expressions){n, q->expression_items};
        *out = &q->expressions;
    }
    return EXIT_OK;
}

/* ---- order ---- */

/* Cut the last word off: true when it is `word`, whatever its case. */
static bool cut_word(char *text, const char *word)
{
    const size_t n = strlen(text), size = strlen(word);
    if (n <= size || strcasecmp(text + n - size, word) != 0 || !strchr(blanks, text[n - size - 1])) return false;
    text[n - size] = '\0';
    (void)trim(text);
    return true;
}

static int parse_order(char *item, pennon_order *out)
{
    *out = (pennon_order){0};
    const bool first = cut_word(item, "first"), last = !first && cut_word(item, "last");
    if ((first || last) && !cut_word(item, "nulls")) return usage_error("--order-by: 'nulls' is missing behind '%s'", item);
    out->descending = cut_word(item, "desc");
    if (!out->descending) (void)cut_word(item, "asc");
    out->nulls_first = first;
    out->column = item;
    return *item ? EXIT_OK : usage_error("--order-by takes columns, such as 'a desc nulls last, b'");
}

static int order_options(const struct args *a, struct query *q, pennon_scan_options *o)
{
    const char *text = a->options[OPT_ORDER_BY].text;
    if (!text) return EXIT_OK;
    char *rest = keep_copy(q, text), *item;
    if (!rest) return EXIT_USAGE;
    while ((item = next_item(&rest))) {
        if (q->orders.n == QUERY_ITEMS) return too_many("order-by");
        const int code = parse_order(item, &q->order_items[q->orders.n++]);
        if (code != EXIT_OK) return code;
    }
    q->orders.items = q->order_items;
    o->order_by = &q->orders;
    return EXIT_OK;
}

/* ---- aggregates ---- */

static int parse_aggregate(char *item, pennon_aggregate *out)
{
    static const char *const names[] = {[PENNON_AGGREGATE_COUNT] = "count",
                                        [PENNON_AGGREGATE_SUM] = "sum",
                                        [PENNON_AGGREGATE_AVG] = "avg",
                                        [PENNON_AGGREGATE_MIN] = "min",
                                        [PENNON_AGGREGATE_MAX] = "max"};
    *out = (pennon_aggregate){0};
    char *equal = find_outside(item, '='), *open, *close;
    if (equal) {
        *equal = '\0';
        out->alias = trim(item);
        item = trim(equal + 1);
    }
    if (strcasecmp(item, "count") == 0) return EXIT_OK; /* PENNON_AGGREGATE_COUNT_ROWS */
    open = find_outside(item, '(');
    close = item + strlen(item);
    if (!open || close[-1] != ')')
        return usage_error("--aggregate takes count, count(a), sum(a), avg(a), min(a), max(a), also named: total=sum(a), not '%s'",
                           item);
    *open = close[-1] = '\0';
    char *column = trim(open + 1), *function = trim(item);
    for (int32_t i = PENNON_AGGREGATE_COUNT; i <= PENNON_AGGREGATE_MAX; i++) {
        if (strcasecmp(function, names[i]) != 0) continue;
        if (i == PENNON_AGGREGATE_COUNT && (strcmp(column, "*") == 0 || strcmp(column, "1") == 0)) return EXIT_OK;
        if (!*column || strcmp(column, "*") == 0) return usage_error("--aggregate: %s needs a column", function);
        if (strncasecmp(column, "distinct ", 9) == 0)
            return usage_error("--aggregate: DISTINCT is not supported; --group-by gives a row for each value");
        out->function = i;
        out->column = column;
        return EXIT_OK;
    }
    const bool mean = strcasecmp(function, "mean") == 0 || strcasecmp(function, "average") == 0;
    const char *near = mean ? names[PENNON_AGGREGATE_AVG] : nearest(function, names + PENNON_AGGREGATE_COUNT, PENNON_AGGREGATE_MAX);
    return usage_error("--aggregate: unknown function '%s'%s%s%s", function, near ? "; did you mean " : "", near ? near : "",
                       near ? "?" : "");
}

static int aggregate_options(const struct args *a, struct query *q, pennon_scan_options *o)
{
    const char *text = a->options[OPT_AGGREGATE].text;
    if (!text) return a->options[OPT_GROUP_BY].set ? usage_error("--group-by needs --aggregate") : EXIT_OK;
    char *rest = keep_copy(q, text), *item;
    if (!rest) return EXIT_USAGE;
    while ((item = next_item(&rest))) {
        if (q->aggregates.n == QUERY_ITEMS) return too_many("aggregate");
        const int code = parse_aggregate(item, &q->aggregate_items[q->aggregates.n++]);
        if (code != EXIT_OK) return code;
    }
    q->aggregates.items = q->aggregate_items;
    if (a->options[OPT_GROUP_BY].set) {
        if (!split_names(a->options[OPT_GROUP_BY].text, &q->groups)) return EXIT_USAGE;
        q->aggregates.group_by = &q->groups;
    }
    o->aggregates = &q->aggregates;
    return EXIT_OK;
}

static int materialize_option(const struct args *a, pennon_scan_options *o)
{
    static const char *const words[] = {"heuristic", "early", "late"};
    const char *text = a->options[OPT_MATERIALIZE].text;
    if (!text) return EXIT_OK;
    for (int32_t i = 0; i < 3; i++) {
        if (strcmp(text, words[i]) != 0) continue;
        o->materialize = i;
        return EXIT_OK;
    }
    return usage_error("--materialize takes heuristic, early or late, not '%s'", text);
}

/* A text, or "@FILE" with it: long lists do not fit a command line. */
static int filter_option(const struct args *a, struct query *q, const char **out)
{
    const char *text = a->options[OPT_FILTER].text;
    *out = text;
    if (!text || text[0] != '@') return EXIT_OK;
    char *file = read_whole(text + 1);
    if (!file) return usage_error("--filter: '%s' cannot be read: %s", text + 1, strerror(errno));
    q->copies[q->n_copies++] = file;
    *out = file;
    return EXIT_OK;
}

int query_options(const struct args *a, struct query *q, pennon_scan_options *o)
{
    o->include_deleted_rows = a->options[OPT_INCLUDE_DELETED].set;
    if (o->include_deleted_rows && !o->with_row_id) return usage_error("--include-deleted needs --with-row-id");
    if (o->include_deleted_rows && (o->limit != PENNON_NONE || o->offset) && !a->options[OPT_FILTER].set)
        return usage_error("--include-deleted with --limit or --offset needs --filter");
    int code = filter_option(a, q, &o->filter);
    if (code == EXIT_OK) code = query_expressions(a, q, &o->expressions);
    if (code == EXIT_OK) code = order_options(a, q, o);
    if (code == EXIT_OK) code = aggregate_options(a, q, o);
    return code == EXIT_OK ? materialize_option(a, o) : code;
}

void query_options_free(struct query *q)
{
    for (size_t i = 0; i < q->n_copies; i++) free(q->copies[i]);
    *q = (struct query){0};
}
