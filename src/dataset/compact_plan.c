/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Which fragments become new ones, and which of them together.
 *
 *   a fragment                                                   | is
 *   -------------------------------------------------------------|--------------------------------------------
 *   more than the threshold of its rows is deleted, and wanted   | a candidate, also alone
 *   fewer rows, deleted ones too, than the target                | a candidate, with neighbours
 *   any other                                                    | none, and ends the bin
 *
 * A bin is a run of candidates that the same segments of indices cover, since an index covers a new fragment whole or not at all. A bin of one fragment that
 * wants neighbours is dropped. A bin is cut behind the fragment with which its live rows reach the target, as long as the rest reaches it too: so the last part
 * holds up to twice the target, and is written as several files.
 *
 * Sizes in bytes are not looked at. The rules are official's, to the fragment, so that plans of both are the same.
 * Source: spec commits 9.2. */
#include "dataset/compact.h"
#include "table/id_set.h"
#include "table/reuse_index.h"

#define FRAGMENTS_MAX ((size_t)1 << 32)

/* ---- bins ---- */

enum candidacy { CANDIDATE_NOT, CANDIDATE_WITH_NEIGHBOURS, CANDIDATE_ALONE };

static enum candidacy candidacy_of(const struct plan_fragment *f, const struct compact_settings *s)
{
    /* In single precision, as official divides. */
    const float share = f->physical > 0 ? (float)f->deleted / (float)f->physical : 0.0f;
    if (s->materialize && share > s->threshold) return CANDIDATE_ALONE;
    return f->physical < s->target_rows ? CANDIDATE_WITH_NEIGHBOURS : CANDIDATE_NOT;
}

static uint64_t live_rows(const struct plan_fragment *f) { return f->physical - min_u64(f->deleted, f->physical); }

struct bins {
    struct mem *mem;
    struct plan_bin *items;
    size_t n, cap;
};

static pennon_status add_bin(struct bins *b, size_t first, size_t n, pennon_error *err)
{
    TRY_RETURN(mem_grow(b->mem, &b->items, &b->cap, b->n, sizeof *b->items, FRAGMENTS_MAX, err));
    b->items[b->n++] = (struct plan_bin){first, n};
    return PENNON_OK;
}

/* Cut fragments [first, end) into tasks. */
static pennon_status split_bin(struct bins *b, const struct plan_fragment *f, size_t first, size_t end, uint64_t target,
                               pennon_error *err)
{
    uint64_t rest = 0;
    for (size_t i = first; i < end; i++) rest += live_rows(&f[i]);
    for (;;) {
        uint64_t rows = 0;
        size_t n = 0;
        for (; rows < target && first + n < end; n++) rows += live_rows(&f[first + n]);
        rest -= rows;
        /* Nothing is taken where nothing is wanted: then one task has all. */
        if (rest < target || n == 0) break;
        TRY_RETURN(add_bin(b, first, n, err));
        first += n;
    }
    return add_bin(b, first, end - first, err);
}

pennon_status compact_bins(struct mem *m, const struct plan_fragment *f, size_t n, const struct compact_settings *s,
                           struct plan_bin **out, size_t *n_bins, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct bins b = {.mem = m};
    for (size_t i = 0; i < n;) {
        const enum candidacy first = candidacy_of(&f[i], s);
        size_t end = i + 1;
        if (first == CANDIDATE_NOT) {
            i = end;
            continue;
        }
        while (end < n && candidacy_of(&f[end], s) != CANDIDATE_NOT && f[end].covered == f[i].covered) end++;
        if (end - i > 1 || first == CANDIDATE_ALONE) TRY(split_bin(&b, f, i, end, s->target_rows, err));
        i = end;
    }
    uint64_t sources = 0;
    for (size_t i = 0; i < b.n; i++) {
        sources += b.items[i].n;
        if (sources > s->max_sources) b.n = i;
    }
    *out = b.items;
    *n_bins = b.n;
    b.items = NULL;
done:
    mem_free(m, b.items);
    return st;
}

/* ---- what covers a fragment ---- */

struct coverage {
    struct id_set *sets;
    size_t n;
};

static void coverage_free(struct mem *m, struct coverage *v)
{
    for (size_t i = 0; i < v->n; i++) id_set_free(&v->sets[i]);
    mem_free(m, v->sets);
}

/* An entry that does not say what it covers, as old releases left it: the fragments below the highest of its version. Where that version is gone, all. */
static pennon_status cover_version(const struct call *c, struct snapshot *s, uint64_t version, struct id_set *set,
                                   pennon_error *err)
{
    struct snapshot *then = NULL;
    const struct version_ref ref = {.version = version, .as_of_ns = INT64_MIN};
    uint32_t end = UINT32_MAX;
    pennon_status st = version == 0 ? PENNON_NOT_FOUND : snapshot_open(c, &s->at, &ref, &s->external, &then, err);
    if (st == PENNON_NOT_FOUND) {
        pennon_error_clear(err);
        st = PENNON_OK;
    } else if (st == PENNON_OK) {
        end = then->manifest.has_max_fragment_id ? then->manifest.max_fragment_id : 0;
    }
    if (st == PENNON_OK && end > 0) st = id_set_add_range(set, 0, end - 1, err);
    snapshot_release(then);
    return st;
}

static pennon_status coverage_load(const struct call *c, struct snapshot *s, struct arena *a, struct coverage *v, pennon_error *err)
{
    struct bytes in;
    struct index_section_message section = {0};
    bool moved = false;
    TRY_RETURN(snapshot_section(c, s, SECTION_INDICES, &in, err));
    if (in.size > 0) TRY_RETURN(wire_decode(&index_section_table, in, a, &section, err));
    TRY_RETURN(reuse_follow_all(c, s, &section, a, &moved, err));
    v->sets = mem_calloc(c->mem, section.n_indices + 1, sizeof *v->sets, err);
    if (!v->sets) return err->code;
    for (size_t i = 0; i < section.n_indices; i++) {
        const struct index_metadata_message *m = &section.indices[i];
        id_set_init(&v->sets[v->n], c->mem);
        struct id_set *set = &v->sets[v->n++];
        if (m->fragment_bitmap.size > 0) {
            TRY_RETURN(id_set_parse(set, m->fragment_bitmap, err));
        } else {
            TRY_RETURN(cover_version(c, s, m->dataset_version, set, err));
        }
    }
    return PENNON_OK;
}

/* Neighbours alone are compared: their numbers differ where what covers them does. */
static void number_coverage(const struct coverage *v, const struct snapshot *s, struct plan_fragment *f)
{
    for (size_t i = 1; i < s->n_fragments; i++) {
        bool same = true;
        for (size_t k = 0; k < v->n && same; k++)
            same = id_set_contains(&v->sets[k], s->fragments[i].id) == id_set_contains(&v->sets[k], s->fragments[i - 1].id);
        f[i].covered = f[i - 1].covered + (same ? 0 : 1);
    }
}

/* ---- the plan ---- */

static pennon_status measure(const struct call *c, struct snapshot *s, struct file_cache *files, struct plan_fragment *f,
                             pennon_error *err)
{
    for (size_t i = 0; i < s->n_fragments; i++) {
        uint64_t live;
        TRY_RETURN(call_check(c, err));
        TRY_RETURN(fragment_physical_rows(c, s, &s->fragments[i], file_cache_length, files, &f[i].physical, err));
        TRY_RETURN(fragment_live_rows(c, s, &s->fragments[i], file_cache_length, files, &live, err));
        f[i].deleted = f[i].physical - min_u64(live, f[i].physical);
    }
    return PENNON_OK;
}

static pennon_status make_task(struct snapshot *s, const struct plan_bin *b, const struct plan_fragment *f, struct arena *a,
                               struct compact_task *out, pennon_error *err)
{
    out->n = b->n;
    out->fragments = arena_calloc(a, b->n, sizeof *out->fragments, err);
    if (!out->fragments) return err->code;
    for (size_t i = 0; i < b->n; i++) {
        TRY_RETURN(fragment_load(s, &s->fragments[b->first + i], err));
        out->fragments[i] = *s->fragments[b->first + i].message;
        out->fragments[i].physical_rows = f[b->first + i].physical;
    }
    return PENNON_OK;
}

pennon_status compact_plan_make(const struct call *c, struct snapshot *s, struct file_cache *files,
                                const struct compact_settings *settings, struct arena *a, struct compact_plan *out,
                                pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct plan_fragment *f = NULL;
    struct plan_bin *bins = NULL;
    struct coverage v = {0};
    size_t n = 0;
    *out = (struct compact_plan){.settings = *settings, .read_version = s->version};
    TRY_NEW(f, mem_calloc(c->mem, s->n_fragments + 1, sizeof *f, err));
    TRY(measure(c, s, files, f, err));
    TRY(coverage_load(c, s, a, &v, err));
    number_coverage(&v, s, f);
    TRY(compact_bins(c->mem, f, s->n_fragments, settings, &bins, &n, err));
    TRY_NEW(out->tasks, arena_calloc(a, n, sizeof *out->tasks, err));
    for (size_t i = 0; i < n; i++) TRY(make_task(s, &bins[i], f, a, &out->tasks[i], err));
    out->n = n;
done:
    coverage_free(c->mem, &v);
    mem_free(c->mem, f);
    mem_free(c->mem, bins);
    return st;
}
