/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* One stretch of a fragment, filtered: the unit of work of a scan.
 *
 *   1  the columns of `first`, for all live rows of the stretch
 *   2  the filter: a bit a row
 *   3  the wanted columns of `first`, cut to the rows that pass
 *   4  the late columns of these rows, unless they are few: then whoever puts the stretches together reads them for several at once
 *   5  the result
 *
 * Late columns of many rows are read whole and cut, those of few by ranges.
 * Source: spec expressions 10.4, 10.6. */
#include "exec/plan.h"

struct work {
    const struct call *c;
    struct snapshot *s;
    struct file_cache *fc;
    const struct scan_plan *p;
    const struct stretch *at;
    struct scan_counters *counters;
    struct call first, late; /* the call with its counters */
    struct row_range *rows;  /* what is read: ascending, apart */
    size_t n_rows;
    uint64_t span;  /* rows in them, deleted ones too */
    uint8_t *bits;  /* of the rows of `batch` before the cut */
    int64_t n;      /* rows of it */
    uint64_t count; /* bits set */
};

void piece_free(const struct call *c, struct piece *p)
{
    array_release(&p->batch);
    mem_free(c->mem, p->places);
    *p = (struct piece){0};
}

/* ---- the filter ---- */

/* Only the first `most` bits stay set. */
static void keep_first(uint8_t *bits, uint64_t n, uint64_t most)
{
    uint64_t seen = 0, i = 0;
    for (; i < n && seen < most; i++) seen += bit_get(bits, i);
    if (i < n) bitmap_fill(bits, i, n - i, false);
}

static pennon_status select_rows(struct work *w, const struct ArrowArray *batch, struct piece *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct scan_plan *p = w->p;
    const struct split *sp = w->at->split;
    const struct ArrowArray **columns = NULL;
    size_t n;
    (void)expr_columns(p->filter, &n);
    TRY_NEW(columns, mem_calloc(w->c->mem, n + 1, sizeof *columns, err));
    for (size_t i = 0; i < n; i++) {
        uint32_t child = sp->first_child[p->filter_sources[i]];
        ASSERT(child != NO_CHILD);
        columns[i] = batch->children[child];
    }
    TRY_NEW(w->bits, mem_alloc(w->c->mem, (size_t)bitmap_bytes((uint64_t)w->n) + 8, err));
    TRY(expr_select(p->filter, w->c, columns, w->n, w->bits, &w->count, err));
    ASSERT(w->count <= (uint64_t)w->n);
    out->passed = w->count;
    if (w->count > w->at->most) {
        keep_first(w->bits, (uint64_t)w->n, w->at->most);
        w->count = w->at->most;
    }
done:
    mem_free(w->c->mem, columns);
    return st;
}

/* The wanted columns of the rows that pass. */
static pennon_status cut_first(struct work *w, struct ArrowArray *batch, struct ArrowArray *out, pennon_error *err)
{
    const struct split *sp = w->at->split;
    const struct ArrowSchema *schema = &sp->first->arrow;
    TRY_RETURN(array_new(out, 1, (size_t)sp->kept.n_children, w->c->mem, err));
    out->length = (int64_t)w->count;
    for (size_t i = 0; i < w->p->n_sources; i++) {
        const uint32_t from = sp->first_child[i];
        if (from == NO_CHILD || !w->p->sources[i].wanted) continue;
        struct ArrowArray *to = out->children[sp->child[i]];
        if (w->count == (uint64_t)w->n) {
            array_move(batch->children[from], to);
        } else {
            TRY_RETURN(array_filter(schema->children[from], batch->children[from], w->bits, 0, w->c->mem, to, err));
        }
    }
    return PENNON_OK;
}

/* ---- the rows that pass ---- */

/* Next set bit at or behind i, or n. */
static uint64_t next_set(const uint8_t *bits, uint64_t i, uint64_t n)
{
    while (i < n) {
        unsigned rest = (unsigned)bits[i >> 3] >> (i & 7);
        if (rest) {
            i += (unsigned)__builtin_ctz(rest);
            return i < n ? i : n;
        }
        i = (i | 7) + 1;
    }
    return n;
}

/* Nothing was deleted: the bits are those of the rows one by one. */
static size_t offsets_of_all(const struct work *w, uint32_t *out)
{
    const uint64_t n = (uint64_t)w->n;
    uint64_t before = 0; /* rows in the ranges before r */
    size_t k = 0, r = 0;
    for (uint64_t i = next_set(w->bits, 0, n); i < n; i = next_set(w->bits, i + 1, n)) {
        while (i - before >= w->rows[r].end - w->rows[r].start) {
            before += w->rows[r].end - w->rows[r].start;
            r++;
            ASSERT(r < w->n_rows);
        }
        out[k++] = (uint32_t)(w->rows[r].start + (i - before));
    }
    return k;
}

/* Rows of one range, of which `number` live ones were read before; `live` holds its bits, zero. */
static size_t offsets_of_live(const struct work *w, const struct deletion_vector *dv, struct row_range rows, uint64_t *number,
                              uint8_t *live, uint32_t *out)
{
    const uint64_t span = rows.end - rows.start;
    size_t k = 0;
    (void)deletion_vector_live_bits(dv, rows.start, rows.end, live);
    for (uint64_t i = next_set(live, 0, span); i < span; i = next_set(live, i + 1, span)) {
        if (bit_get(w->bits, *number)) out[k++] = (uint32_t)(rows.start + i);
        (*number)++;
    }
    return k;
}

/* Physical offsets of the rows that pass; `out` has w->count. Bit k belongs to the k-th row that was read. */
static pennon_status passed_offsets(struct work *w, uint32_t *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    uint8_t *live = NULL;
    size_t k = 0;
    uint64_t number = 0, longest = 0;
    struct deletion_vector *dv = NULL;
    if (!w->p->with_deleted) TRY(fragment_deletions(w->c, w->s, w->at->fragment, &dv, err));
    if (!dv || (uint64_t)w->n == w->span) {
        ASSERT((uint64_t)w->n == w->span);
        k = offsets_of_all(w, out);
    } else {
        for (size_t i = 0; i < w->n_rows; i++) longest = max_u64(longest, w->rows[i].end - w->rows[i].start);
        TRY_NEW(live, mem_alloc(w->c->mem, (size_t)bitmap_bytes(longest), err));
        for (size_t i = 0; i < w->n_rows; i++) {
            memset(live, 0, (size_t)bitmap_bytes(w->rows[i].end - w->rows[i].start));
            k += offsets_of_live(w, dv, w->rows[i], &number, live, out + k);
        }
        ASSERT(number == (uint64_t)w->n);
    }
    ASSERT(k == w->count);
done:
    mem_free(w->c->mem, live);
    deletion_vector_release(dv);
    return st;
}

static pennon_status give_places(struct work *w, struct piece *out, pennon_error *err)
{
    const uint64_t fragment = (uint64_t)(w->at->fragment - w->s->fragments);
    uint32_t *offsets = mem_alloc(w->c->mem, (size_t)w->count * sizeof *offsets, err);
    if (!offsets) return err->code;
    pennon_status st = passed_offsets(w, offsets, err);
    if (st == PENNON_OK) out->places = mem_alloc(w->c->mem, (size_t)w->count * sizeof *out->places, err);
    if (st == PENNON_OK && !out->places) st = err->code;
    for (size_t i = 0; st == PENNON_OK && i < w->count; i++) out->places[i] = fragment << 32 | offsets[i];
    mem_free(w->c->mem, offsets);
    return st;
}

/* ---- late columns ---- */

static pennon_status late_by_ranges(struct work *w, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    uint32_t *offsets = NULL;
    struct row_range *ranges = NULL;
    size_t n = 0;
    TRY_NEW(offsets, mem_alloc(w->c->mem, (size_t)w->count * sizeof *offsets, err));
    TRY_NEW(ranges, mem_alloc(w->c->mem, (size_t)w->count * sizeof *ranges, err));
    TRY(passed_offsets(w, offsets, err));
    for (size_t i = 0; i < w->count; i++) {
        if (n && ranges[n - 1].end == offsets[i]) {
            ranges[n - 1].end++;
        } else {
            ranges[n++] = (struct row_range){offsets[i], (uint64_t)offsets[i] + 1};
        }
    }
    /* Where deleted rows are read as well, their ids have to be told from others. */
    if (w->p->with_deleted) {
        st = fragment_read(&w->late, w->fc, w->s, w->at->fragment, w->at->split->late, ranges, n, w->at->first_live, out, err);
    } else {
        st = fragment_read_live(&w->late, w->fc, w->s, w->at->fragment, w->at->split->late, ranges, n, w->at->first_live, out, err);
    }
done:
    mem_free(w->c->mem, offsets);
    mem_free(w->c->mem, ranges);
    return st;
}

static pennon_status late_whole(struct work *w, struct ArrowArray *out, pennon_error *err)
{
    const struct column_plan *late = w->at->split->late;
    struct ArrowArray all = {0};
    TRY_RETURN(fragment_read(&w->late, w->fc, w->s, w->at->fragment, late, w->rows, w->n_rows, w->at->first_live, &all, err));
    ASSERT(all.length == w->n);
    pennon_status st = PENNON_OK;
    if (w->count == (uint64_t)w->n) {
        array_move(&all, out);
    } else {
        st = array_filter(&late->arrow, &all, w->bits, 0, w->c->mem, out, err);
    }
    array_release(&all);
    return st;
}

static pennon_status read_late(struct work *w, struct ArrowArray *out, pennon_error *err)
{
    const int64_t start = w->counters ? clock_monotonic_ns() : 0;
    const bool dense = w->count >= (uint64_t)w->n / w->at->dense_share && !column_plan_reads_blobs(w->at->split->late);
    pennon_status st = dense ? late_whole(w, out, err) : late_by_ranges(w, out, err);
    if (w->counters) {
        atomic_fetch_add_explicit(&w->counters->late_rows, w->count, memory_order_relaxed);
        atomic_fetch_add_explicit(&w->counters->late_ns, (uint64_t)(clock_monotonic_ns() - start), memory_order_relaxed);
    }
    return st;
}

/* ---- the stretch ---- */

static pennon_status read_passed(struct work *w, struct ArrowArray *batch, struct piece *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct split *sp = w->at->split;
    struct ArrowArray kept = {0}, late = {0};
    TRY(cut_first(w, batch, &kept, err));
    array_release(batch);
    if (sp->late && w->count < w->at->late_rows) {
        TRY(give_places(w, out, err));
        out->split = sp;
        array_move(&kept, &out->batch);
        goto done;
    }
    if (sp->late) TRY(read_late(w, &late, err));
    TRY(plan_assemble(w->c, w->p, sp, &kept, sp->late ? &late : NULL, (int64_t)w->count, &out->batch, err));
done:
    array_release(&kept);
    array_release(&late);
    return st;
}

pennon_status stretch_read(const struct call *c, struct snapshot *s, struct file_cache *fc, const struct scan_plan *p,
                           const struct stretch *at, struct scan_counters *counters, struct piece *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray batch = {0};
    struct work w = {.c = c, .s = s, .fc = fc, .p = p, .at = at, .counters = counters, .first = *c, .late = *c};
    *out = (struct piece){0};
    ASSERT(at->split->first != NULL);
    if (counters) {
        w.first.counters = &counters->first;
        w.late.counters = &counters->late;
    }
    TRY(row_choice_cut(at->choice, at->rows, c->mem, &w.rows, &w.n_rows, err));
    for (size_t i = 0; i < w.n_rows; i++) w.span += w.rows[i].end - w.rows[i].start;
    if (w.span == 0) goto done; /* half of a job that did not fit may have no rows */
    TRY(fragment_read(&w.first, fc, s, at->fragment, at->split->first, w.rows, w.n_rows, at->first_live, &batch, err));
    w.n = batch.length;
    out->looked_at = out->passed = w.count = (uint64_t)w.n;
    out->bytes = array_bytes(&at->split->first->arrow, &batch);
    if (w.n == 0) goto done;
    if (p->filter) {
        TRY(select_rows(&w, &batch, out, err));
        if (w.count) TRY(read_passed(&w, &batch, out, err));
    } else if (p->direct) {
        array_move(&batch, &out->batch);
    } else {
        /* Without a filter every source is wanted, in the order that they are read. */
        TRY(plan_assemble(c, p, at->split, &batch, NULL, w.n, &out->batch, err));
    }
    out->rows = w.count;
done:
    if (counters && st == PENNON_OK) {
        atomic_fetch_add_explicit(&counters->stretches, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&counters->looked_at, out->looked_at, memory_order_relaxed);
        atomic_fetch_add_explicit(&counters->passed, w.count, memory_order_relaxed);
    }
    mem_free(c->mem, w.bits);
    mem_free(c->mem, w.rows);
    array_release(&batch);
    if (st != PENNON_OK) piece_free(c, out);
    return st;
}
