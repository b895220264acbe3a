/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Cleanup after a commit, as the table's config asks for it.
 *
 * key                                   | value                                    | absent
 * --------------------------------------|------------------------------------------|---------------------------------
 * lance.auto_cleanup.interval           | u64: at versions that it divides; 0 = all | no cleanup
 * lance.auto_cleanup.older_than         | duration, "14days", "1h 30m"             | age does not count
 * lance.auto_cleanup.retain_versions    | number of newest versions                | the number does not count
 * lance.auto_cleanup.referenced_branch  | true, false                              | false
 * lance.auto_cleanup.delete_rate_limit  | u64 > 0: removals a second               | no limit
 *
 * Where neither older_than nor retain_versions is there, official removes all that is old; here 14 days count, as in a cleanup by hand. Tags do not make it
 * fail: what they stand on stays. With referenced_branch the branches of the line are cleaned first, the deepest ones before their parents, each as its own
 * config asks: what they let go, their parent can remove.
 *
 * Durations: numbers with units, added up. Grammar: (digits [. digits] unit)+ with white space anywhere but inside a unit; "0" alone needs none.
 * nanos nsec ns | usec us µs | millis msec ms | seconds second secs sec s | minutes minute mins min m | hours hour hrs hr h | days day d |
 * weeks week wks wk w | months month M (30.44 days) | years year yrs yr y (365.25 days).
 * Source: spec commits 11.5. */
#include <stdlib.h>

#include "table/cleanup_private.h"

/* ---- durations ---- */

#define NS_PER_S UINT64_C(1000000000)

struct unit {
    const char *name;
    uint64_t seconds; /* 0 = below a second: `nanoseconds` */
    uint64_t nanoseconds;
};

/* clang-format off */
static const struct unit UNITS[] = {
    {"nanos", 0, 1}, {"nsec", 0, 1}, {"ns", 0, 1},
    {"usec", 0, 1000}, {"us", 0, 1000}, {"\xc2\xb5s", 0, 1000},
    {"millis", 0, 1000000}, {"msec", 0, 1000000}, {"ms", 0, 1000000},
    {"seconds", 1, 0}, {"second", 1, 0}, {"secs", 1, 0}, {"sec", 1, 0}, {"s", 1, 0},
    {"minutes", 60, 0}, {"minute", 60, 0}, {"min", 60, 0}, {"mins", 60, 0}, {"m", 60, 0},
    {"hours", 3600, 0}, {"hour", 3600, 0}, {"hr", 3600, 0}, {"hrs", 3600, 0}, {"h", 3600, 0},
    {"days", 86400, 0}, {"day", 86400, 0}, {"d", 86400, 0},
    {"weeks", 604800, 0}, {"week", 604800, 0}, {"wk", 604800, 0}, {"wks", 604800, 0}, {"w", 604800, 0},
    {"months", 2630016, 0}, {"month", 2630016, 0}, {"M", 2630016, 0},
    {"years", 31557600, 0}, {"year", 31557600, 0}, {"yr", 31557600, 0}, {"yrs", 31557600, 0}, {"y", 31557600, 0},
};
/* clang-format on */

struct duration {
    uint64_t seconds, nanoseconds; /* the latter below 2^64, carried at the end */
};

/* A number as digits with a part behind the point: value = whole + part / scale. */
struct decimal {
    uint64_t whole, part, scale; /* scale 1 = no point */
};

static bool is_space(char ch) { return ch == ' ' || (ch >= '\t' && ch <= '\r'); }
static bool is_digit(char ch) { return ch >= '0' && ch <= '9'; }

static void skip_space(const char **p)
{
    while (is_space(**p)) ++*p;
}

/* White space between digits does not end a number. */
static bool take_digits(const char **p, uint64_t *value, uint64_t *scale)
{
    bool any = false;
    for (; is_digit(**p) || is_space(**p); ++*p) {
        if (is_space(**p)) continue;
        if (mul_overflows(*value, 10, value) || add_overflows(*value, (uint64_t)(**p - '0'), value)) return false;
        if (scale != NULL && mul_overflows(*scale, 10, scale)) return false;
        any = true;
    }
    return any;
}

static bool take_decimal(const char **p, struct decimal *out)
{
    *out = (struct decimal){.scale = 1};
    if (!is_digit(**p) || !take_digits(p, &out->whole, NULL)) return false;
    if (**p != '.') return true;
    ++*p;
    return take_digits(p, &out->part, &out->scale);
}

static const struct unit *take_unit(const char **p)
{
    const char *start = *p;
    while ((**p >= 'a' && **p <= 'z') || (**p >= 'A' && **p <= 'Z') || (unsigned char)**p >= 0x80) ++*p;
    size_t n = (size_t)(*p - start);
    for (size_t i = 0; i < ARRAY_LEN(UNITS); i++) {
        if (strlen(UNITS[i].name) == n && memcmp(UNITS[i].name, start, n) == 0) return &UNITS[i];
    }
    return NULL;
}

/* value * factor / scale onto *to; a remainder is refused, as official does. */
static bool add_scaled(uint64_t value, uint64_t factor, uint64_t scale, uint64_t *to)
{
    uint64_t v;
    if (mul_overflows(value, factor, &v) || v % scale != 0) return false;
    return !add_overflows(*to, v / scale, to);
}

static bool add_part(struct duration *d, const struct decimal *n, const struct unit *u)
{
    if (u->seconds == 0) {
        if (!add_scaled(n->whole, u->nanoseconds, 1, &d->nanoseconds)) return false;
        if (n->scale > 1 && (u->nanoseconds == 1 || !add_scaled(n->part, u->nanoseconds, n->scale, &d->nanoseconds))) return false;
    } else {
        /* Fractions of a second and of a minute count in nanoseconds, of longer units in whole seconds. */
        bool fine = u->seconds <= 60;
        if (!add_scaled(n->whole, u->seconds, 1, &d->seconds)) return false;
        if (n->scale > 1 &&
            !add_scaled(n->part, fine ? u->seconds * NS_PER_S : u->seconds, n->scale, fine ? &d->nanoseconds : &d->seconds))
            return false;
    }
    uint64_t carry = d->nanoseconds / NS_PER_S;
    d->nanoseconds %= NS_PER_S;
    return !add_overflows(d->seconds, carry, &d->seconds);
}

bool duration_parse(const char *text, int64_t *ns)
{
    struct duration d = {0};
    uint64_t total;
    const char *p = text;
    *ns = 0;
    if (strcmp(text, "0") == 0) return true;
    skip_space(&p);
    do {
        struct decimal n;
        const struct unit *u;
        if (!take_decimal(&p, &n)) return false;
        u = take_unit(&p);
        if (u == NULL || !add_part(&d, &n, u)) return false;
        skip_space(&p);
    } while (*p != '\0');
    bool over = mul_overflows(d.seconds, NS_PER_S, &total) || add_overflows(total, d.nanoseconds, &total);
    *ns = over || total > INT64_MAX ? INT64_MAX : (int64_t)total;
    return true;
}

/* ---- the config ---- */

#define KEY_PREFIX "lance.auto_cleanup."

static bool find_key(const struct manifest_message *m, const char *key, struct bytes *out)
{
    for (size_t i = 0; i < m->n_config; i++) {
        if (!bytes_equal(m->config[i].key, bytes_str(key))) continue;
        *out = m->config[i].value;
        return true;
    }
    return false;
}

static pennon_status bad_value(const char *key, struct bytes value, const char *wanted, pennon_error *err)
{
    (void)error_set(err, PENNON_INVALID_ARGUMENT, "the config key %s is '%.*s', which is no %s", key, (int)min_u64(value.size, 64),
                    (const char *)value.data, wanted);
    return error_kind(err, "Cleanup");
}

/* Decimal, a plus sign in front is allowed. *there = false when the key is absent. */
static pennon_status read_number(const struct manifest_message *m, const char *key, bool *there, uint64_t *out, pennon_error *err)
{
    struct bytes v;
    size_t i = 0;
    *there = find_key(m, key, &v);
    if (!*there) return PENNON_OK;
    *out = 0;
    if (v.size > 1 && v.data[0] == '+') i++;
    bool good = i < v.size;
    for (; i < v.size && good; i++) {
        good = is_digit((char)v.data[i]) && !mul_overflows(*out, 10, out) && !add_overflows(*out, (uint64_t)(v.data[i] - '0'), out);
    }
    return good ? PENNON_OK : bad_value(key, v, "number", err);
}

static pennon_status read_age(const struct manifest_message *m, int64_t *out, pennon_error *err)
{
    static const char key[] = KEY_PREFIX "older_than";
    struct bytes v;
    char text[256];
    if (!find_key(m, key, &v)) return PENNON_OK;
    if (v.size >= sizeof text || memchr(v.data, 0, v.size) != NULL) return bad_value(key, v, "duration", err);
    memcpy(text, v.data, v.size);
    text[v.size] = '\0';
    return duration_parse(text, out) ? PENNON_OK : bad_value(key, v, "duration", err);
}

pennon_status auto_cleanup_policy(const struct manifest_message *m, bool *due, struct cleanup_policy *out, pennon_error *err)
{
    uint64_t interval = 0, rate = 0, keep = 0;
    struct bytes cascade;
    bool there;
    *due = false;
    cleanup_policy_init(out);
    TRY_RETURN(read_number(m, KEY_PREFIX "interval", &there, &interval, err));
    if (!there || (interval != 0 && m->version % interval != 0)) return PENNON_OK;
    TRY_RETURN(read_age(m, &out->older_than_ns, err));
    TRY_RETURN(read_number(m, KEY_PREFIX "retain_versions", &there, &keep, err));
    if (there) out->keep_versions = keep;
    if (find_key(m, KEY_PREFIX "referenced_branch", &cascade)) {
        out->children_too = bytes_equal(cascade, bytes_str("true"));
        if (!out->children_too && !bytes_equal(cascade, bytes_str("false")))
            return bad_value(KEY_PREFIX "referenced_branch", cascade, "true or false", err);
    }
    TRY_RETURN(read_number(m, KEY_PREFIX "delete_rate_limit", &there, &rate, err));
    if (there && rate == 0) return bad_value(KEY_PREFIX "delete_rate_limit", bytes_str("0"), "number above 0", err);
    out->delete_rate = rate;
    *due = true;
    return PENNON_OK;
}

static void add_stats(struct cleanup_stats *to, const struct cleanup_stats *more)
{
    to->bytes_removed += more->bytes_removed;
    to->versions += more->versions;
    to->data_files += more->data_files;
    to->transaction_files += more->transaction_files;
    to->index_files += more->index_files;
    to->deletion_files += more->deletion_files;
    to->temporary_files += more->temporary_files;
}

/* One branch, as the config of its latest version asks; a branch without config is left alone. */
static pennon_status clean_branch(const struct call *c, const struct table_location *from, const char *branch,
                                  struct cleanup_stats *stats, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct table_location at = {0};
    struct snapshot *s = NULL;
    struct cleanup_policy policy;
    struct cleanup_stats some;
    bool due;
    TRY(branch_location(c->mem, from, branch, &at, err));
    TRY(snapshot_open(c, &at, NULL, NULL, &s, err));
    TRY(auto_cleanup_policy(&s->manifest, &due, &policy, err));
    if (!due) goto done;
    st = cleanup_run(c, &at, s->version, &policy, NULL, NULL, &some, err);
    add_stats(stats, &some);
done:
    snapshot_release(s);
    table_location_free(c->mem, &at);
    return st;
}

static int deepest_first(const void *x, const void *y)
{
    const struct ref_entry *a = x, *b = y;
    if (a->n_path != b->n_path) return a->n_path > b->n_path ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Every branch that starts from the line, at any depth. */
static pennon_status clean_children(const struct call *c, const struct table_location *at, struct cleanup_stats *stats,
                                    pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ref_entry *branches = NULL;
    const struct ref_entry *mine = NULL;
    size_t n = 0;
    TRY(list_refs_whole(c, at, false, &branches, &n, err));
    if (n > 0) qsort(branches, n, sizeof *branches, deepest_first);
    for (size_t i = 0; i < n && at->branch != NULL; i++) {
        if (strcmp(branches[i].name, at->branch) == 0) mine = &branches[i];
    }
    /* A branch without a file of its own has no way that others could begin with. */
    for (size_t i = 0; i < n && (mine != NULL || at->branch == NULL); i++) {
        if (cleanup_descends(&branches[i], mine)) TRY(clean_branch(c, at, branches[i].name, stats, err));
    }
done:
    ref_entries_free(c->mem, branches, n);
    return st;
}

pennon_status auto_cleanup(const struct call *c, const struct snapshot *before, const struct snapshot *made,
                           struct cleanup_stats *stats, pennon_error *err)
{
    struct cleanup_policy policy;
    bool due;
    *stats = (struct cleanup_stats){0};
    /* A detached commit is no version of the line. */
    if ((made->version & DETACHED_VERSION) != 0) return PENNON_OK;
    pennon_status st = auto_cleanup_policy(&made->manifest, &due, &policy, err);
    uint64_t stays = before != NULL && before->version < made->version ? before->version : made->version;
    if (st == PENNON_OK && due && policy.children_too) st = clean_children(c, &made->at, stats, err);
    if (st == PENNON_OK && due) {
        struct cleanup_stats own;
        st = cleanup_run(c, &made->at, stays, &policy, NULL, NULL, &own, err);
        add_stats(stats, &own);
    }
    if (st != PENNON_OK) {
        call_log(c, PENNON_LOG_WARN, "version %" PRIu64 " is committed, but the cleanup after it failed: %s", made->version,
                 err->message);
    } else if (stats->versions > 0) {
        call_log(c, PENNON_LOG_INFO, "cleanup after version %" PRIu64 ": %" PRIu64 " versions, %" PRIu64 " bytes removed",
                 made->version, stats->versions, stats->bytes_removed);
    }
    return st;
}
