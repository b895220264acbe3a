/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Takes: rows, grouped by fragment, read once each in physical order, put back into the order of the request.
 *
 * A row is named by its place: the fragment's place in the snapshot << 32 | physical offset. That is unique also where two fragments have the
 * same id, and so the same addresses.
 * Source: spec table-format 19.3, expressions 11. */
#include <stdlib.h>

#include "exec/exec.h"

#define CHECK_ROWS 4096u /* between two looks at the call */

/* One asked-for row. */
struct wanted {
    uint64_t place;
    uint64_t number; /* in the request */
};

static int by_place(const void *a, const void *b)
{
    const struct wanted *x = a, *y = b;
    if (x->place != y->place) return x->place < y->place ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

#define DIGIT_BITS 11u
#define DIGITS (1u << DIGIT_BITS)

/* By place, then by number: the rows come in the order of their numbers, which a stable sort keeps. One pass a digit that differs; places of one table
 * differ in two or three of the six. `spare` holds n. */
static void sort_wanted(struct wanted *rows, struct wanted *spare, size_t n)
{
    struct wanted *from = rows, *to = spare;
    for (unsigned shift = 0; shift < 64; shift += DIGIT_BITS) {
        size_t starts[DIGITS] = {0}, at = 0;
        for (size_t i = 0; i < n; i++) starts[from[i].place >> shift & (DIGITS - 1)]++;
        if (starts[from[0].place >> shift & (DIGITS - 1)] == n) continue;
        for (size_t d = 0; d < DIGITS; d++) {
            const size_t count = starts[d];
            starts[d] = at;
            at += count;
        }
        for (size_t i = 0; i < n; i++) to[starts[from[i].place >> shift & (DIGITS - 1)]++] = from[i];
        struct wanted *was = from;
        from = to;
        to = was;
    }
    if (from != rows) memcpy(rows, from, n * sizeof *rows);
}

static pennon_status order_wanted(const struct call *c, struct wanted *rows, size_t n, pennon_error *err)
{
    if (n < DIGITS / 4) {
        qsort(rows, n, sizeof *rows, by_place);
        return PENNON_OK;
    }
    struct wanted *spare = mem_alloc(c->mem, n * sizeof *spare, err); /* rows fit already: no overflow */
    if (spare == NULL) return err->code;
    sort_wanted(rows, spare, n);
    mem_free(c->mem, spare);
    return PENNON_OK;
}

/* Distinct rows of one fragment. */
struct group {
    const struct fragment *fragment;
    struct row_range *rows;
    size_t n_rows;
    uint64_t count;
    uint64_t first; /* row of the group in the concatenation */
    struct ArrowArray batch;
};

struct taking {
    const struct call *c;
    struct snapshot *s;
    struct file_cache *fc;
    const struct column_plan *plan;
    struct wanted *wanted;
    size_t n;
    uint64_t *found; /* row of each request in the concatenation, in request order; UINT64_MAX = left out */
    struct group *groups;
    size_t n_groups, cap_groups;
    struct row_range *ranges; /* of all groups */
    uint64_t *starts;         /* live rows before each fragment of the snapshot; NULL = not asked for */
};

/* Fewer rows are not worth a second thread. */
#define GROUP_ROWS_MIN 1024u

/* Rows that are deleted or not there drop out. Many rows of one fragment become a group for each thread. */
static pennon_status group_rows(struct taking *t, pennon_error *err)
{
    const uint64_t most = t->c->threads > 1 ? max_u64(t->n / t->c->threads + 1, GROUP_ROWS_MIN) : UINT64_MAX;
    pennon_status st = PENNON_OK;
    struct deletion_vector *dv = NULL;
    const struct fragment *f = NULL;
    uint64_t physical = 0, row = 0, last = UINT64_MAX, n_ranges = 0;
    for (size_t i = 0; i < t->n; i++) {
        uint64_t place = t->wanted[i].place;
        if (place == ADDRESS_NONE) break; /* sorted: only such follow */
        uint32_t offset = (uint32_t)place;
        ASSERT(place >> 32 < t->s->n_fragments);
        const bool other = f != &t->s->fragments[place >> 32];
        if (other) {
            f = &t->s->fragments[place >> 32];
            deletion_vector_release(dv);
            dv = NULL;
            TRY(fragment_physical_rows(t->c, t->s, f, file_cache_length, t->fc, &physical, err));
            TRY(fragment_deletions(t->c, t->s, f, &dv, err));
        }
        if (other || (place != last && t->groups[t->n_groups - 1].count >= most)) {
            TRY(mem_grow(t->c->mem, &t->groups, &t->cap_groups, t->n_groups, sizeof *t->groups, SIZE_MAX / 256, err));
            t->groups[t->n_groups++] = (struct group){.fragment = f, .rows = t->ranges + n_ranges, .first = row};
        }
        if (offset >= physical || (dv && !t->plan->with_deleted && deletion_vector_contains(dv, offset))) continue;
        if (place != last) {
            struct group *g = &t->groups[t->n_groups - 1];
            if (g->n_rows && g->rows[g->n_rows - 1].end == offset) {
                g->rows[g->n_rows - 1].end++;
            } else {
                g->rows[g->n_rows++] = (struct row_range){offset, (uint64_t)offset + 1};
                n_ranges++;
            }
            g->count++;
            row++;
            last = place;
        }
        t->found[t->wanted[i].number] = row - 1;
    }
done:
    deletion_vector_release(dv);
    return st;
}

static pennon_status read_group(void *arg, size_t i, pennon_error *err)
{
    struct taking *t = arg;
    struct group *g = &t->groups[i];
    if (g->n_rows == 0) return PENNON_OK;
    TRY_RETURN(call_check(t->c, err));
    ASSERT(g->fragment >= t->s->fragments && g->fragment < t->s->fragments + t->s->n_fragments);
    uint64_t first_live = t->starts ? t->starts[g->fragment - t->s->fragments] : 0;
    /* Deleted rows are left out already, or are wanted. */
    if (!t->plan->with_deleted)
        return fragment_read_live(t->c, t->fc, t->s, g->fragment, t->plan, g->rows, g->n_rows, first_live, &g->batch, err);
    return fragment_read(t->c, t->fc, t->s, g->fragment, t->plan, g->rows, g->n_rows, first_live, &g->batch, err);
}

static pennon_status live_starts(const struct call *c, struct snapshot *s, struct file_cache *fc, uint64_t **out, pennon_error *err)
{
    uint64_t *starts = mem_calloc(c->mem, s->n_fragments + 1, sizeof *starts, err);
    if (!starts) return err->code;
    for (size_t i = 0; i < s->n_fragments; i++) {
        uint64_t live;
        pennon_status st = call_check(c, err);
        if (st == PENNON_OK) st = fragment_live_rows(c, s, &s->fragments[i], file_cache_length, fc, &live, err);
        if (st != PENNON_OK) {
            mem_free(c->mem, starts);
            return st;
        }
        starts[i + 1] = starts[i] + live;
    }
    *out = starts;
    return PENNON_OK;
}

/* ---- the rows in the order of the request ---- */

/* What the groups have of one column of the result. */
struct parts {
    const struct ArrowSchema *schema;
    const struct ArrowArray **arrays;
    size_t n;
};

/* Bytes of a row where all rows of the column are valid and of fixed width in one buffer, its address in *data; else 0. */
static size_t flat_width(const struct ArrowSchema *schema, const struct ArrowArray *a, const uint8_t **data, pennon_error *err)
{
    struct arrow_type t;
    size_t width;
    if (arrow_type_of(schema, &t, err) != PENNON_OK || a->null_count != 0) return 0;
    if (t.layout == LAYOUT_FIXED) {
        width = arrow_type_width(&t);
    } else if (t.layout == LAYOUT_FIXED_LIST && a->offset == 0) {
        width = flat_width(schema->children[0], a->children[0], data, err) * (size_t)t.fixed_size;
        return width;
    } else {
        return 0;
    }
    *data = (const uint8_t *)a->buffers[1] + (size_t)a->offset * width;
    return t.id == ARROW_DICTIONARY ? 0 : width;
}

/* The same shape as `like`, `rows` long, with a buffer of `width` bytes a row for its values. */
static pennon_status make_flat(const struct ArrowSchema *schema, int64_t rows, size_t width, struct mem *m, struct ArrowArray *out,
                               uint8_t **values, pennon_error *err)
{
    struct arrow_type t;
    TRY_RETURN(arrow_type_of(schema, &t, err));
    TRY_RETURN(array_new_for(out, schema, m, err));
    out->length = rows;
    if (t.layout == LAYOUT_FIXED_LIST) {
        const size_t n = (size_t)t.fixed_size;
        return make_flat(schema->children[0], rows * (int64_t)n, width / n, m, out->children[0], values, err);
    }
    *values = array_make_buffer(out, 1, (size_t)rows * width, err);
    return *values ? PENNON_OK : err->code;
}

/* Row k of the result is row found[k] of the parts one behind the other. */
static pennon_status gather_flat(const struct call *c, const struct parts *p, const uint8_t *const *data, size_t width,
                                 const uint64_t *found, size_t n, struct ArrowArray *out, pennon_error *err)
{
    uint8_t *to;
    TRY_RETURN(make_flat(p->schema, (int64_t)n, width, c->mem, out, &to, err));
    for (size_t k = 0; k < n; k++) {
        uint64_t row = found[k];
        size_t part = 0;
        while (row >= (uint64_t)p->arrays[part]->length) row -= (uint64_t)p->arrays[part++]->length;
        memcpy(to + k * width, data[part] + row * width, width);
    }
    return PENNON_OK;
}

static pennon_status gather_column(const struct call *c, const struct parts *p, const uint64_t *found, size_t n,
                                   struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray joined = {0};
    const uint8_t *data[64];
    size_t width = 0;
    for (size_t i = 0; i < p->n && p->n <= ARRAY_LEN(data); i++) {
        width = flat_width(p->schema, p->arrays[i], &data[i], err);
        if (width == 0) break;
    }
    TRY(call_check(c, err));
    if (width && p->n <= ARRAY_LEN(data)) return gather_flat(c, p, data, width, found, n, out, err);
    if (p->n == 1) return array_take(p->schema, p->arrays[0], found, n, c->mem, out, err);
    TRY(array_concat(p->schema, p->n, p->arrays, c->mem, &joined, err));
    TRY(array_take(p->schema, &joined, found, n, c->mem, out, err));
done:
    array_release(&joined);
    return st;
}

/* Found rows packed; true: they are all rows of the groups, in their order. */
static bool pack_found(struct taking *t, uint64_t rows, size_t *n)
{
    bool same = true;
    *n = 0;
    for (size_t i = 0; i < t->n; i++) {
        if (t->found[i] == UINT64_MAX) continue;
        ASSERT(t->found[i] < rows);
        same = same && t->found[i] == *n;
        t->found[(*n)++] = t->found[i];
    }
    return same && *n == rows;
}

/* Groups with rows come first. */
static size_t drop_empty_groups(struct taking *t, uint64_t *rows)
{
    size_t n = 0;
    *rows = 0;
    for (size_t i = 0; i < t->n_groups; i++) {
        struct group g = t->groups[i];
        if (!g.batch.release) continue;
        *rows += (uint64_t)g.batch.length;
        t->groups[i].batch.release = NULL;
        t->groups[n++] = g;
    }
    t->n_groups = n;
    return n;
}

static pennon_status order_rows(struct taking *t, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct ArrowSchema *schema = &t->plan->arrow;
    uint64_t rows;
    size_t n;
    struct parts p = {.n = drop_empty_groups(t, &rows)};
    const bool same = pack_found(t, rows, &n);
    if (p.n == 0) return array_nulls(schema, 0, t->c->mem, out, err);
    if (same && p.n == 1) {
        array_move(&t->groups[0].batch, out);
        return PENNON_OK;
    }
    TRY_NEW(p.arrays, mem_calloc(t->c->mem, p.n, sizeof *p.arrays, err));
    TRY(array_new(out, 1, (size_t)schema->n_children, t->c->mem, err));
    out->length = (int64_t)n;
    for (int64_t k = 0; k < schema->n_children; k++) {
        p.schema = schema->children[k];
        for (size_t i = 0; i < p.n; i++) p.arrays[i] = t->groups[i].batch.children[k];
        TRY(gather_column(t->c, &p, t->found, n, out->children[k], err));
    }
done:
    mem_free(t->c->mem, p.arrays);
    if (st != PENNON_OK) array_release(out);
    return st;
}

pennon_status take_places(const struct call *c, struct snapshot *s, struct file_cache *fc, const struct column_plan *plan,
                          const uint64_t *places, size_t n, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct taking t = {.c = c, .s = s, .fc = fc, .plan = plan, .n = n};
    out->release = NULL;
    TRY_NEW(t.wanted, mem_calloc(c->mem, n + 1, sizeof *t.wanted, err));
    TRY_NEW(t.found, mem_calloc(c->mem, n + 1, sizeof *t.found, err));
    TRY_NEW(t.ranges, mem_calloc(c->mem, n + 1, sizeof *t.ranges, err));
    bool sorted = true;
    for (size_t i = 0; i < n; i++) {
        t.wanted[i] = (struct wanted){places[i], i};
        t.found[i] = UINT64_MAX;
        sorted = sorted && (i == 0 || places[i - 1] <= places[i]);
    }
    if (!sorted && n > 1) TRY(order_wanted(c, t.wanted, n, err));
    TRY(group_rows(&t, err));
    if (plan->uses[SYSTEM_ROW_OFFSET]) TRY(live_starts(c, s, fc, &t.starts, err));
    TRY(pool_parallel(call_pool(c), c->threads, t.n_groups, read_group, &t, err));
    TRY(call_check(c, err));
    TRY(order_rows(&t, out, err));
done:
    for (size_t i = 0; i < t.n_groups; i++) array_release(&t.groups[i].batch);
    mem_free(c->mem, t.groups);
    mem_free(c->mem, t.wanted);
    mem_free(c->mem, t.found);
    mem_free(c->mem, t.ranges);
    mem_free(c->mem, t.starts);
    return st;
}

void resolve_addresses(const struct snapshot *s, const uint64_t *addresses, size_t n, uint64_t *places)
{
    const struct fragment *f = NULL;
    for (size_t i = 0; i < n; i++) {
        uint64_t address = addresses[i];
        if (f == NULL || f->id != address >> 32) f = snapshot_find_fragment(s, address >> 32);
        places[i] = f != NULL ? (uint64_t)(f - s->fragments) << 32 | (address & UINT32_MAX) : ADDRESS_NONE;
    }
}

pennon_status resolve_offsets(const struct call *c, struct snapshot *s, struct file_cache *fc, const uint64_t *offsets, size_t n,
                              uint64_t *places, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    uint64_t *starts = NULL;
    struct deletion_vector *dv = NULL;
    size_t at = SIZE_MAX; /* fragment that dv belongs to */
    TRY(live_starts(c, s, fc, &starts, err));
    uint64_t total = starts[s->n_fragments];
    for (size_t i = 0; i < n; i++) {
        if (i % CHECK_ROWS == 0) TRY(call_check(c, err));
        if (offsets[i] >= total)
            FAIL(PENNON_INVALID_ARGUMENT, "row %" PRIu64 " is past the end: the dataset has %" PRIu64 " rows", offsets[i], total);
        size_t low = 0, high = s->n_fragments;
        while (high - low > 1) {
            size_t mid = low + (high - low) / 2;
            if (starts[mid] <= offsets[i]) {
                low = mid;
            } else {
                high = mid;
            }
        }
        while (starts[low + 1] <= offsets[i]) low++; /* fragments without live rows */
        ASSERT(low < s->n_fragments && starts[low] <= offsets[i]);
        if (low != at) {
            deletion_vector_release(dv);
            dv = NULL;
            TRY(fragment_deletions(c, s, &s->fragments[low], &dv, err));
            at = low;
        }
        uint64_t k = offsets[i] - starts[low];
        places[i] = (uint64_t)low << 32 | (dv ? deletion_vector_select_live(dv, k) : k);
    }
done:
    deletion_vector_release(dv);
    mem_free(c->mem, starts);
    return st;
}

pennon_status count_live_rows(const struct call *c, struct snapshot *s, struct file_cache *fc, uint64_t *rows, pennon_error *err)
{
    *rows = 0;
    for (size_t i = 0; i < s->n_fragments; i++) {
        uint64_t live;
        TRY_RETURN(call_check(c, err));
        TRY_RETURN(fragment_live_rows(c, s, &s->fragments[i], file_cache_length, fc, &live, err));
        *rows += live;
    }
    return PENNON_OK;
}
