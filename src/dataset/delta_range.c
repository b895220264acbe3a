/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The range of a delta: versions from versions, or from times, whose versions are looked for from the latest on downwards.
 *
 * Source: spec commits 13. */
#include "dataset/delta.h"

#include <stdlib.h>

static bool given(uint64_t version) { return version != PENNON_NONE; }

static pennon_status check_form(const pennon_delta_options *o, pennon_error *err)
{
    const bool versions = given(o->begin_version) || given(o->end_version);
    const bool times = o->begin_ns != INT64_MIN || o->end_ns != INT64_MIN;
    if (given(o->compared_against) && (versions || times))
        return error_set(err, PENNON_INVALID_ARGUMENT,
                         "Cannot combine compared_against_version with explicit begin/end versions or dates");
    if (versions && times) return error_set(err, PENNON_INVALID_ARGUMENT, "a delta has versions or dates, not both");
    if (given(o->begin_version) != given(o->end_version))
        return error_set(err, PENNON_INVALID_ARGUMENT, "Must specify both with_begin_version and with_end_version");
    if (times && o->begin_ns == INT64_MIN)
        return error_set(err, PENNON_INVALID_ARGUMENT, "Must specify with_begin_date when with_end_date is provided");
    if (!given(o->compared_against) && !versions && !times)
        return error_set(
            err, PENNON_INVALID_ARGUMENT,
            "Must specify either compared_against_version or both with_begin_version and with_end_version, or a begin date");
    return PENNON_OK;
}

/* Time of a version; INT64_MAX of one that is gone meanwhile. */
static pennon_status time_of(const struct call *c, struct snapshot *s, uint64_t version, int64_t *ns, pennon_error *err)
{
    struct snapshot *other = NULL;
    const struct version_ref ref = {.version = version, .as_of_ns = INT64_MIN};
    pennon_status st = version == s->version ? PENNON_OK : snapshot_open(c, &s->at, &ref, &s->external, &other, err);
    if (st == PENNON_NOT_FOUND) {
        pennon_error_clear(err);
        *ns = INT64_MAX;
        return PENNON_OK;
    }
    if (st == PENNON_OK) *ns = other ? other->timestamp_ns : s->timestamp_ns;
    snapshot_release(other);
    return st;
}

static int descending(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x > *y ? -1 : *x < *y;
}

/* Clocks of writers differ: the highest version is taken whose time fits, whatever those below it have. */
static pennon_status range_of_times(const struct call *c, struct snapshot *s, const pennon_delta_options *o,
                                    struct delta_range *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    uint64_t *versions = NULL;
    size_t n = 0;
    bool have_end = o->end_ns == INT64_MIN, have_begin = false;
    *out = (struct delta_range){0, 0};
    TRY(list_versions(c, &s->at, &versions, &n, err));
    if (n > 1) qsort(versions, n, sizeof *versions, descending);
    if (have_end && n) out->end = versions[0];
    for (size_t i = 0; i < n && !(have_end && have_begin); i++) {
        int64_t ns;
        TRY(call_check(c, err));
        TRY(time_of(c, s, versions[i], &ns, err));
        if (!have_end && ns <= o->end_ns) {
            out->end = versions[i];
            have_end = true;
        }
        if (!have_begin && ns < o->begin_ns) {
            out->begin = versions[i];
            have_begin = true;
        }
    }
done:
    mem_free(c->mem, versions);
    return st;
}

pennon_status delta_resolve(const struct call *c, struct snapshot *s, const pennon_delta_options *o, struct delta_range *out,
                            pennon_error *err)
{
    TRY_RETURN(check_form(o, err));
    if (o->begin_ns != INT64_MIN) return range_of_times(c, s, o, out, err);
    *out = (struct delta_range){o->begin_version, o->end_version};
    if (!given(o->compared_against)) return PENNON_OK;
    *out = (struct delta_range){min_u64(o->compared_against, s->version), max_u64(o->compared_against, s->version)};
    return PENNON_OK;
}

pennon_status delta_open_version(const struct call *c, struct snapshot *s, uint64_t version, struct snapshot **out,
                                 pennon_error *err)
{
    const struct version_ref ref = {.version = version, .as_of_ns = INT64_MIN};
    ASSERT(version != 0);
    if (version == s->version) {
        *out = snapshot_retain(s);
        return PENNON_OK;
    }
    pennon_status st = snapshot_open(c, &s->at, &ref, &s->external, out, err);
    if (st != PENNON_NOT_FOUND) return st;
    pennon_error_clear(err);
    (void)error_set(err, PENNON_NOT_FOUND, "Can not find version %" PRIu64 ", please check if it has been cleanup.", version);
    return error_kind(err, "VersionNotFound");
}
