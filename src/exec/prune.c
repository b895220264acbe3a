/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* From what a filter asks of row ids, addresses and offsets to the rows of a fragment.
 *
 *   address   fragment << 32 | physical offset: cut to the fragment, ranges of addresses are ranges of rows
 *   id        without stable row ids the address; else the positions of the ids in the fragment's sequence, which stay where they are when other
 *             fragments are rewritten, so no index over the table is made for a few rows
 *   offset    live rows before the fragment + live rows before the row: the k-th live row is found in the deletion vector
 *
 * Source: spec expressions 10.5, table-format 11, 19. */
#include "exec/prune.h"

/* Offsets are 32 bits of an address; a longer fragment is not cut. */
#define ROWS_MAX ((uint64_t)1 << 32)

/* ---- bounds ---- */

static pennon_status make_bound(const struct expr *filter, const struct schema *schema, enum system_column which, struct mem *m,
                                struct bound *out, pennon_error *err)
{
    const char *name = system_column_name(which);
    if (schema_find_name(schema, name)) return PENNON_OK;
    TRY_RETURN(expr_bounds(filter, name, m, &out->ranges, &out->n, err));
    out->set = out->n != 1 || out->ranges[0].first != 0 || out->ranges[0].last != UINT64_MAX;
    return PENNON_OK;
}

pennon_status row_bounds_make(const struct expr *filter, const struct schema *schema, struct mem *m, struct row_bounds *out,
                              pennon_error *err)
{
    TRY_RETURN(make_bound(filter, schema, SYSTEM_ROW_ID, m, &out->id, err));
    TRY_RETURN(make_bound(filter, schema, SYSTEM_ROW_ADDRESS, m, &out->address, err));
    return make_bound(filter, schema, SYSTEM_ROW_OFFSET, m, &out->offset, err);
}

void row_bounds_free(struct mem *m, struct row_bounds *b)
{
    mem_free(m, b->id.ranges);
    mem_free(m, b->address.ranges);
    mem_free(m, b->offset.ranges);
    *b = (struct row_bounds){.id = {.set = false}};
}

/* ---- choices ---- */

struct row_choice *row_choice_retain(struct row_choice *r)
{
    if (r) r->refs++;
    return r;
}

void row_choice_release(struct row_choice *r)
{
    if (!r || --r->refs > 0) return;
    struct mem *m = r->mem;
    mem_free(m, r->rows);
    mem_free(m, r);
}

/* Rows behind those that are there, or touching them. */
static pennon_status add_rows(struct row_choice *r, uint64_t start, uint64_t end, pennon_error *err)
{
    ASSERT(start < end && (r->n == 0 || r->rows[r->n - 1].end <= start));
    r->count += end - start;
    if (r->n && r->rows[r->n - 1].end == start) {
        r->rows[r->n - 1].end = end;
        return PENNON_OK;
    }
    TRY_RETURN(mem_grow(r->mem, &r->rows, &r->cap, r->n, sizeof *r->rows, SIZE_MAX / 64, err));
    r->rows[r->n++] = (struct row_range){start, end};
    return PENNON_OK;
}

static pennon_status new_choice(struct mem *m, struct row_choice **out, pennon_error *err)
{
    struct row_choice *r = mem_calloc(m, 1, sizeof *r, err);
    *out = r;
    if (!r) return err->code;
    r->refs = 1;
    r->mem = m;
    return PENNON_OK;
}

/* The values [base, base + rows) that are in the bound, as rows. */
static pennon_status add_values(struct row_choice *r, const struct bound *b, uint64_t base, uint64_t rows, pennon_error *err)
{
    ASSERT(rows > 0 && base <= UINT64_MAX - (rows - 1));
    const uint64_t last = base + (rows - 1);
    for (size_t i = value_ranges_find(b->ranges, b->n, base); i < b->n && b->ranges[i].first <= last; i++) {
        const uint64_t from = max_u64(b->ranges[i].first, base), to = min_u64(b->ranges[i].last, last);
        TRY_RETURN(add_rows(r, from - base, to - base + 1, err));
    }
    return PENNON_OK;
}

/* Positions come from the row id sequence of a file: those past the end of the fragment belong to no row. */
struct found_rows {
    struct row_choice *r;
    uint64_t physical;
};

static pennon_status add_found(void *ctx, uint64_t start, uint64_t end, pennon_error *err)
{
    struct found_rows *f = ctx;
    end = min_u64(end, f->physical);
    return start < end ? add_rows(f->r, start, end, err) : PENNON_OK;
}

static pennon_status choose_ids(const struct call *c, struct snapshot *s, const struct fragment *f, const struct bound *b,
                                uint64_t physical, struct row_choice *r, pennon_error *err)
{
    const struct row_id_sequence *ids;
    struct found_rows found = {r, physical};
    if (b->n == 0) return PENNON_OK;
    TRY_RETURN(fragment_load(s, f, err));
    TRY_RETURN(fragment_row_ids(c, s, f, &ids, err));
    if (!ids) return add_values(r, b, (uint64_t)f->id << 32, physical, err);
    return row_id_sequence_search(ids, b->ranges, b->n, add_found, &found, err);
}

/* Deleted rows between two chosen ones are chosen as well: they drop out as always. */
static pennon_status choose_offsets(const struct call *c, struct snapshot *s, const struct fragment *f, const struct bound *b,
                                    uint64_t physical, uint64_t first_live, struct row_choice *r, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct deletion_vector *dv = NULL;
    struct row_choice *live = NULL;
    TRY(fragment_deletions(c, s, f, &dv, err));
    if (!dv) {
        st = add_values(r, b, first_live, physical, err);
        goto done;
    }
    const uint64_t rows = physical - deletion_vector_rank(dv, physical);
    TRY(new_choice(r->mem, &live, err));
    if (rows) TRY(add_values(live, b, first_live, rows, err));
    for (size_t i = 0; i < live->n; i++) {
        const uint64_t from = deletion_vector_select_live(dv, live->rows[i].start);
        const uint64_t to = deletion_vector_select_live(dv, live->rows[i].end - 1);
        ASSERT(from <= to && to < physical);
        TRY(add_rows(r, from, to + 1, err));
    }
done:
    row_choice_release(live);
    deletion_vector_release(dv);
    return st;
}

/* *all becomes what is in it and in *more, which is used up. */
static pennon_status narrow(struct row_choice **all, struct row_choice **more, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct row_choice *both = NULL;
    TRY(new_choice((*more)->mem, &both, err));
    for (size_t i = 0, k = 0; i < (*all)->n && k < (*more)->n;) {
        const struct row_range a = (*all)->rows[i], b = (*more)->rows[k];
        const uint64_t start = max_u64(a.start, b.start), end = min_u64(a.end, b.end);
        if (start < end) TRY(add_rows(both, start, end, err));
        if (a.end < b.end) {
            i++;
        } else {
            k++;
        }
    }
    row_choice_release(*all);
    row_choice_release(*more);
    *all = both;
    *more = both = NULL;
done:
    row_choice_release(both);
    return st;
}

pennon_status row_choice_make(const struct call *c, struct snapshot *s, const struct fragment *f, const struct row_bounds *b,
                              uint64_t physical, uint64_t first_live, bool with_deleted, struct row_choice **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    /* A deleted row has an offset too, that of the next live one: then all are asked. */
    const bool asked[] = {b->address.set, b->id.set, b->offset.set && !with_deleted};
    struct row_choice *all = NULL, *part = NULL;
    *out = NULL;
    TRY(new_choice(c->mem, &all, err));
    if (physical) TRY(add_rows(all, 0, physical, err));
    for (size_t i = 0; i < ARRAY_LEN(asked) && physical <= ROWS_MAX; i++) {
        if (!asked[i] || all->n == 0) continue;
        TRY(new_choice(c->mem, &part, err));
        switch (i) {
        case 0: TRY(add_values(part, &b->address, (uint64_t)f->id << 32, physical, err)); break;
        case 1: TRY(choose_ids(c, s, f, &b->id, physical, part, err)); break;
        default: TRY(choose_offsets(c, s, f, &b->offset, physical, first_live, part, err)); break;
        }
        TRY(narrow(&all, &part, err));
    }
    ASSERT(all->count <= physical);
    *out = all;
    all = NULL;
done:
    row_choice_release(part);
    row_choice_release(all);
    return st;
}

size_t row_choice_find(const struct row_choice *r, uint64_t row)
{
    size_t low = 0, high = r->n;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (r->rows[mid].end <= row) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

pennon_status row_choice_cut(const struct row_choice *r, struct row_range span, struct mem *m, struct row_range **out, size_t *n,
                             pennon_error *err)
{
    size_t first = 0, end = 1;
    ASSERT(span.start <= span.end);
    *n = 0;
    if (r) {
        first = row_choice_find(r, span.start);
        end = first;
        while (end < r->n && r->rows[end].start < span.end) end++;
    }
    struct row_range *rows = mem_calloc(m, end - first + 1, sizeof *rows, err);
    *out = rows;
    if (!rows) return err->code;
    if (!r) rows[(*n)++] = span;
    for (size_t i = first; r && i < end; i++) {
        const struct row_range at = r->rows[i];
        rows[(*n)++] = (struct row_range){max_u64(at.start, span.start), min_u64(at.end, span.end)};
    }
    for (size_t i = 0; i < *n; i++) ASSERT(rows[i].start >= span.start && rows[i].end <= span.end);
    return PENNON_OK;
}
