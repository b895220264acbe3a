/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The subcommand delta: what changed between two versions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* What --kind says, beyond PENNON_DELTA_ values. */
enum { KIND_COUNTS = PENNON_DELTA_DELETED + 1, KIND_TRANSACTIONS };

struct session {
    pennon_call call;
    pennon_dataset *ds;
    pennon_error err;
};

static int end(struct session *s, int code)
{
    pennon_dataset_free(s->ds);
    pennon_error_clear(&s->err);
    call_teardown(&s->call);
    return code;
}

static int read_kind(const struct args *a, int32_t *kind)
{
    static const char *const names[] = {"inserted", "updated", "upserted", "deleted", "counts", "transactions"};
    const char *text = a->options[OPT_KIND].set ? a->options[OPT_KIND].text : "counts";
    for (*kind = 0; *kind < (int32_t)COUNT(names); ++*kind) {
        if (strcmp(names[*kind], text) == 0) return EXIT_OK;
    }
    const char *near = nearest(text, names, COUNT(names));
    return usage_error("--kind takes inserted, updated, upserted, deleted, counts or transactions, not '%s'%s%s%s", text,
                       near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

/* A version, digits alone, or a time. */
static int read_bound(const char *name, const char *text, uint64_t *version, int64_t *ns)
{
    char *stop;
    errno = 0;
    const unsigned long long number = strtoull(text, &stop, 10);
    if (*text >= '0' && *text <= '9' && *stop == '\0' && errno == 0) {
        *version = number;
        return EXIT_OK;
    }
    return time_option(text, ns) ? EXIT_OK
                                 : usage_error("--%s takes a version or a time such as 2026-01-31T12:00:00Z, not '%s'", name, text);
}

static int read_range(const struct args *a, const struct session *s, pennon_delta_options *o)
{
    const struct option *from = &a->options[OPT_FROM], *to = &a->options[OPT_TO];
    if (!from->set) return usage_error("delta: --from says from which version on");
    int code = read_bound("from", from->text, &o->begin_version, &o->begin_ns);
    if (code == EXIT_OK && to->set) code = read_bound("to", to->text, &o->end_version, &o->end_ns);
    if (code != EXIT_OK) return code;
    if (to->set && (o->begin_ns == INT64_MIN) != (o->end_ns == INT64_MIN))
        return usage_error("delta: --from and --to are both versions or both times");
    if (!to->set && o->begin_ns == INT64_MIN) o->end_version = pennon_dataset_version(s->ds);
    if (o->begin_ns != INT64_MIN || o->begin_version <= o->end_version) return EXIT_OK;
    return usage_error("delta: --from %llu is behind %llu", (unsigned long long)o->begin_version,
                       (unsigned long long)o->end_version);
}

static int print_counts(const struct args *a, struct session *s, const pennon_delta_options *o)
{
    pennon_delta_counts n = {.struct_size = sizeof n};
    if (pennon_dataset_delta_counts(s->ds, o, &n, &s->err) != PENNON_OK) return fail(&s->err);
    printf(a->options[OPT_JSON].set ? "{\"begin\": %llu, \"end\": %llu, \"inserted\": %llu, \"updated\": %llu, \"deleted\": %llu}\n"
                                    : "versions %llu to %llu: %llu inserted, %llu updated, %llu deleted\n",
           (unsigned long long)n.begin, (unsigned long long)n.end, (unsigned long long)n.inserted, (unsigned long long)n.updated,
           (unsigned long long)n.deleted);
    return EXIT_OK;
}

/* The rows that a version has are read there: --to opens it, where it is a version. */
static int print_delta(const struct args *a, struct session *s, int32_t kind, const char *format)
{
    struct ArrowArrayStream stream;
    pennon_names columns;
    pennon_delta_options o;
    const struct option *x = a->options;
    pennon_delta_options_init(&o);
    o.call = &s->call;
    int code = read_range(a, s, &o);
    if (code == EXIT_OK) code = blob_form(a, &o.blobs);
    if (code == EXIT_OK && x[OPT_COLUMNS].set) {
        code = split_names(x[OPT_COLUMNS].text, &columns) ? EXIT_OK : EXIT_USAGE;
        o.columns = &columns;
    }
    if (code != EXIT_OK) return code;
    o.filter = x[OPT_FILTER].set ? x[OPT_FILTER].text : NULL;
    if (x[OPT_BATCH_SIZE].set) o.batch_rows = x[OPT_BATCH_SIZE].number;
    if (kind == KIND_COUNTS) return print_counts(a, s, &o);
    const pennon_status st = kind == KIND_TRANSACTIONS ? pennon_dataset_delta_transactions(s->ds, &o, &stream, &s->err)
                                                       : pennon_dataset_delta(s->ds, kind, &o, &stream, &s->err);
    return st == PENNON_OK ? write_stream(a, &s->call, &stream, format) : fail(&s->err);
}

static int run_delta(const struct args *a)
{
    struct session s = {.ds = NULL};
    int32_t kind;
    const char *format;
    struct args at = *a;
    int code = read_kind(a, &kind);
    if (code == EXIT_OK) code = pick_format(a, &format);
    if (code != EXIT_OK) return code;
    /* Rows are those of the last version of the range, not as later ones changed them. */
    const struct option *to = &a->options[OPT_TO];
    const bool named = a->options[OPT_VERSION].set || a->options[OPT_TAG].set || a->options[OPT_AS_OF].set;
    if (to->set && !named && strspn(to->text, "0123456789") == strlen(to->text) && kind != KIND_TRANSACTIONS) {
        uint64_t version = PENNON_NONE;
        int64_t ns;
        code = read_bound("to", to->text, &version, &ns);
        if (code != EXIT_OK) return code;
        at.options[OPT_VERSION] = (struct option){true, to->text, version};
    }
    pennon_error_init(&s.err);
    if (!call_setup(a, &s.call)) return EXIT_USAGE;
    code = open_dataset(&at, &s.call, &s.ds);
    if (code != EXIT_OK) {
        call_teardown(&s.call);
        return code;
    }
    return end(&s, print_delta(a, &s, kind, format));
}

static const enum option_id options[] = {OPT_FROM,   OPT_TO,    OPT_KIND,  OPT_COLUMNS,    OPT_FILTER, OPT_VERSION, OPT_TAG,
                                         OPT_BRANCH, OPT_AS_OF, OPT_BLOBS, OPT_BATCH_SIZE, OPT_FORMAT, OPT_OUTPUT,  OPT_EXTERNAL};

const struct command command_delta = {"delta",
                                      "URI --from N [--to N] [--kind KIND]",
                                      "rows and transactions between two versions",
                                      "inserted: rows that were created after --from, up to --to; updated: older rows that changed "
                                      "then; upserted: both; deleted: rows\n"
                                      "that went, with the values that they had at --from; counts: how many of each; transactions: "
                                      "who did it. Rows are told apart by\n"
                                      "stable row ids, which the dataset needs for all but transactions.",
                                      options,
                                      COUNT(options),
                                      1,
                                      1,
                                      run_delta};
