/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Row ids and row versions of a new manifest, in tables with stable row ids.
 *
 * fragment                        | row ids                                  | created_at                | last_updated_at
 * --------------------------------|------------------------------------------|---------------------------|----------------------------
 * appended                        | next_row_id on                           | the new version           | the new version
 * made by an Update               | those that came with the moved rows,     | that of the row's source; | the new version
 *                                 | then next_row_id on                      | inserted: the new version |
 * columns rewritten in place      | stay                                     | stay                      | rewritten rows: the new version
 * files changed by a Merge        | stay                                     | stay                      | the new version
 *
 * The source of a moved row is the first place of its id among the current fragments by id, deleted places included. Ids are looked up segment by segment:
 * nothing is done row by row but in segments that list their ids.
 * Source: spec commits 3.1, 3.7, 3.11, table-format 11, 12. */
#include <stdlib.h>

#include "table/commit_private.h"

#define CHUNK 1024u

/* ---- row ids ---- */

/* A range behind the ids that the fragment has. */
static pennon_status append_range(struct building *b, struct fragment_message *f, uint64_t first, uint64_t n, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct row_id_sequence_message m;
    struct u64_range_message range = {.start = first, .end = first + n};
    struct buf text;
    buf_init(&text, b->call->mem, BUF_NO_LIMIT);
    TRY(wire_decode(&row_id_sequence_table, f->inline_row_ids, &b->arena, &m, err));
    struct segment_message *all;
    TRY_NEW(all, arena_calloc(&b->arena, m.n_segments + 1, sizeof *all, err));
    if (m.n_segments > 0) memcpy(all, m.segments, m.n_segments * sizeof *all);
    all[m.n_segments] = (struct segment_message){.which = SEGMENT_RANGE, .range = &range};
    m.segments = all;
    m.n_segments++;
    TRY(wire_encode(&row_id_sequence_table, &m, &text, err));
    TRY(building_keep(b, &text, &f->inline_row_ids, err));
done:
    buf_free(&text);
    return st;
}

/* One behind the highest id of a segment; 0 when it is empty. */
static uint64_t segment_end(const struct row_segment *s)
{
    uint64_t ids[CHUNK], end = 0;
    if (s->n == 0) return 0;
    if (s->kind != ROW_ARRAY) return s->end;
    for (uint64_t at = 0; at < s->n; at += CHUNK) {
        uint64_t n = min_u64(CHUNK, s->n - at);
        row_segment_get(s, at, n, ids);
        for (uint64_t i = 0; i < n; i++) end = max_u64(end, ids[i] == UINT64_MAX ? ids[i] : ids[i] + 1);
    }
    return end;
}

/* How many ids a fragment brings. The table's counter goes past them. */
static pennon_status count_given(struct building *b, const struct fragment_message *f, uint64_t *n, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct row_id_sequence *r = NULL;
    size_t n_segments;
    *n = 0;
    if (f->row_ids_which == 0) return PENNON_OK;
    if (f->row_ids_which != 5) return error_set(err, PENNON_NOT_SUPPORTED, "a new fragment with row ids in a file of its own");
    st = row_id_sequence_parse(b->call->mem, f->inline_row_ids, UINT64_MAX, &r, err);
    if (st == PENNON_CORRUPT) err->code = st = PENNON_INVALID_ARGUMENT;
    if (st != PENNON_OK) goto done;
    *n = row_id_sequence_length(r);
    const struct row_segment *s = row_id_sequence_segments(r, &n_segments);
    for (size_t i = 0; i < n_segments; i++) b->out.next_row_id = max_u64(b->out.next_row_id, segment_end(&s[i]));
done:
    row_id_sequence_free(r);
    return st;
}

pennon_status rows_number(struct building *b, struct fragment_message *f, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf text;
    uint64_t given, first;
    ASSERT(b->stable);
    buf_init(&text, b->call->mem, 1 << 16);
    TRY(count_given(b, f, &given, err));
    if (given > f->physical_rows)
        FAIL(PENNON_INVALID_ARGUMENT, "a new fragment of %" PRIu64 " rows has %" PRIu64 " row ids", f->physical_rows, given);
    if (given == f->physical_rows) goto done;
    first = b->out.next_row_id;
    if (add_overflows(first, f->physical_rows - given, &b->out.next_row_id) || b->out.next_row_id >= DETACHED_VERSION)
        FAIL(PENNON_INVALID_ARGUMENT, "the row ids of the table are used up");
    if (given > 0) {
        st = append_range(b, f, first, f->physical_rows - given, err);
        goto done;
    }
    TRY(row_id_range_encode(first, f->physical_rows, &text, err));
    TRY(building_keep(b, &text, &f->inline_row_ids, err));
    f->row_ids_which = 5;
done:
    buf_free(&text);
    return st;
}

/* ---- one version for all rows ---- */

static pennon_status uniform(struct building *b, uint64_t rows, struct bytes *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf text;
    buf_init(&text, b->call->mem, 1 << 16);
    TRY(version_run_encode(b->target, rows, &text, err));
    TRY(building_keep(b, &text, out, err));
done:
    buf_free(&text);
    return st;
}

pennon_status rows_stamp_created(struct building *b, struct fragment_message *f, pennon_error *err)
{
    if (f->physical_rows == 0) return PENNON_OK;
    f->created_which = 9;
    return uniform(b, f->physical_rows, &f->inline_created, err);
}

pennon_status rows_stamp_updated(struct building *b, struct fragment_message *f, pennon_error *err)
{
    if (f->physical_rows == 0) return PENNON_OK;
    f->last_updated_which = 7;
    return uniform(b, f->physical_rows, &f->inline_last_updated, err);
}

/* ---- runs of versions ---- */

struct run {
    uint64_t n, version;
};
struct runs {
    struct mem *mem;
    struct run *items;
    size_t n, cap;
};

static pennon_status push_run(struct runs *r, uint64_t n, uint64_t version, pennon_error *err)
{
    if (n == 0) return PENNON_OK;
    if (r->n > 0 && r->items[r->n - 1].version == version) {
        r->items[r->n - 1].n += n;
        return PENNON_OK;
    }
    TRY_RETURN(mem_grow(r->mem, &r->items, &r->cap, r->n, sizeof *r->items, SIZE_MAX / sizeof *r->items, err));
    r->items[r->n++] = (struct run){n, version};
    return PENNON_OK;
}

static pennon_status encode_runs(struct building *b, const struct runs *r, struct bytes *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct version_sequence_message m = {.n_runs = r->n};
    struct buf text;
    struct segment_message *spans;
    struct u64_range_message *ranges;
    uint64_t at = 0;
    buf_init(&text, b->call->mem, BUF_NO_LIMIT);
    TRY_NEW(m.runs, arena_calloc(&b->arena, r->n, sizeof *m.runs, err));
    TRY_NEW(spans, arena_calloc(&b->arena, r->n, sizeof *spans, err));
    TRY_NEW(ranges, arena_calloc(&b->arena, r->n, sizeof *ranges, err));
    for (size_t i = 0; i < r->n; i++) {
        ranges[i] = (struct u64_range_message){.start = at, .end = at + r->items[i].n};
        spans[i] = (struct segment_message){.which = SEGMENT_RANGE, .range = &ranges[i]};
        m.runs[i] = (struct version_run_message){.span = &spans[i], .version = r->items[i].version};
        at += r->items[i].n;
    }
    TRY(wire_encode(&version_sequence_table, &m, &text, err));
    TRY(building_keep(b, &text, out, err));
done:
    buf_free(&text);
    return st;
}

/* ---- created_at of moved rows ---- */

/* A row whose source is looked for. */
struct moved {
    uint64_t id;
    size_t slot; /* its place among all of them */
};
struct search {
    struct building *b;
    struct moved *rows; /* ascending by id */
    size_t n;
    uint64_t *versions; /* by slot; 0 = not found yet */
    size_t found;
    const struct fragment *fragment;
    uint64_t position; /* of the segment in the fragment */
};

static int compare_moved(const void *x, const void *y)
{
    const struct moved *a = x, *b = y;
    return (a->id > b->id) - (a->id < b->id);
}

/* The first row whose id is `id` or more. */
static size_t find_moved(const struct search *s, uint64_t id)
{
    size_t low = 0, high = s->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (s->rows[mid].id < id) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

/* Row number `i` comes from this position of the segment. */
static pennon_status take_source(struct search *s, size_t i, uint64_t in_segment, pennon_error *err)
{
    uint64_t *version = &s->versions[s->rows[i].slot];
    if (*version != 0) return PENNON_OK;
    TRY_RETURN(fragment_fill_versions(s->b->call, s->b->current, s->fragment, LINEAGE_CREATED_AT, s->position + in_segment, 1,
                                      version, err));
    if (*version == 0) *version = 1; /* as an absent one reads */
    s->found++;
    return PENNON_OK;
}

/* Position of an id inside [start, end) of a segment that is a range with gaps. False when it lies in a gap. */
static bool position_of(const struct row_segment *s, uint64_t id, uint64_t *out)
{
    const uint64_t offset = id - s->start;
    *out = offset;
    if (s->kind == ROW_HOLES) {
        size_t low = 0, high = (size_t)(s->end - s->start - s->n);
        while (low < high) {
            size_t mid = low + (high - low) / 2;
            if (s->holes[mid] < id) {
                low = mid + 1;
            } else {
                high = mid;
            }
        }
        *out = offset - low;
        return low == s->end - s->start - s->n || s->holes[low] != id;
    }
    if (s->kind == ROW_BITMAP) {
        *out = s->ranks[offset / 512];
        for (uint64_t i = offset / 512 * 512; i < offset; i++) *out += bit_get(s->data, i);
        return bit_get(s->data, offset);
    }
    ASSERT(s->kind == ROW_RANGE);
    return true;
}

static pennon_status search_array(struct search *s, const struct row_segment *segment, pennon_error *err)
{
    uint64_t ids[CHUNK];
    for (uint64_t at = 0; at < segment->n && s->found < s->n; at += CHUNK) {
        uint64_t n = min_u64(CHUNK, segment->n - at);
        row_segment_get(segment, at, n, ids);
        for (uint64_t k = 0; k < n; k++) {
            for (size_t i = find_moved(s, ids[k]); i < s->n && s->rows[i].id == ids[k]; i++)
                TRY_RETURN(take_source(s, i, at + k, err));
        }
    }
    return PENNON_OK;
}

static pennon_status search_segment(struct search *s, const struct row_segment *segment, pennon_error *err)
{
    uint64_t position;
    if (segment->kind == ROW_ARRAY) return search_array(s, segment, err);
    for (size_t i = find_moved(s, segment->start); i < s->n && s->rows[i].id < segment->end; i++) {
        if (position_of(segment, s->rows[i].id, &position)) TRY_RETURN(take_source(s, i, position, err));
    }
    return PENNON_OK;
}

static pennon_status search_table(struct search *s, pennon_error *err)
{
    struct snapshot *current = s->b->current;
    for (size_t k = 0; k < current->n_fragments && s->found < s->n; k++) {
        const struct row_id_sequence *r;
        size_t n;
        s->fragment = &current->fragments[current->by_id != NULL ? current->by_id[k] : k];
        s->position = 0;
        TRY_RETURN(fragment_row_ids(s->b->call, current, s->fragment, &r, err));
        const struct row_segment *segments = row_id_sequence_segments(r, &n);
        for (size_t i = 0; i < n; i++) {
            TRY_RETURN(search_segment(s, &segments[i], err));
            s->position += segments[i].n;
        }
    }
    return PENNON_OK;
}

static bool is_fresh(const struct row_segment *s, uint64_t fresh) { return s->kind == ROW_RANGE && s->start >= fresh; }

/* The ids of moved rows, fragment by fragment; `rows` NULL = only their number. */
static pennon_status gather(struct row_id_sequence *const *sequences, size_t n, uint64_t fresh, struct moved *rows, size_t *total,
                            pennon_error *err)
{
    uint64_t ids[CHUNK], count = 0;
    for (size_t f = 0; f < n; f++) {
        size_t n_segments;
        const struct row_segment *s = row_id_sequence_segments(sequences[f], &n_segments);
        for (size_t i = 0; i < n_segments; i++) {
            if (is_fresh(&s[i], fresh)) continue;
            for (uint64_t at = 0; rows != NULL && at < s[i].n; at += CHUNK) {
                uint64_t part = min_u64(CHUNK, s[i].n - at);
                row_segment_get(&s[i], at, part, ids);
                for (uint64_t k = 0; k < part; k++) rows[count + at + k] = (struct moved){ids[k], (size_t)(count + at + k)};
            }
            if (add_overflows(count, s[i].n, &count) || count > SIZE_MAX)
                return error_set(err, PENNON_OVER_BUDGET, "an Update of more than 2^64 moved rows");
        }
    }
    *total = (size_t)count;
    return PENNON_OK;
}

static pennon_status write_created(struct building *b, struct fragment_message *f, const struct row_id_sequence *r, uint64_t fresh,
                                   const uint64_t *versions, size_t *slot, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct runs runs = {.mem = b->call->mem};
    size_t n;
    const struct row_segment *s = row_id_sequence_segments(r, &n);
    for (size_t i = 0; i < n; i++) {
        if (is_fresh(&s[i], fresh)) {
            TRY(push_run(&runs, s[i].n, b->target, err));
            continue;
        }
        for (uint64_t k = 0; k < s[i].n; k++, ++*slot)
            TRY(push_run(&runs, 1, versions[*slot] > 0 ? versions[*slot] : b->target, err));
    }
    f->created_which = 9;
    TRY(encode_runs(b, &runs, &f->inline_created, err));
done:
    mem_free(b->call->mem, runs.items);
    return st;
}

pennon_status rows_inherit(struct building *b, struct fragment_message *list, size_t n, uint64_t fresh, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct mem *m = b->call->mem;
    struct row_id_sequence **sequences = NULL;
    struct search s = {.b = b};
    size_t slot = 0;
    TRY_NEW(sequences, mem_calloc(m, n + 1, sizeof(struct row_id_sequence *), err));
    for (size_t i = 0; i < n; i++) TRY(row_id_sequence_parse(m, list[i].inline_row_ids, list[i].physical_rows, &sequences[i], err));
    TRY(gather(sequences, n, fresh, NULL, &s.n, err));
    if (s.n == 0) goto done;
    TRY_NEW(s.rows, mem_calloc(m, s.n, sizeof *s.rows, err));
    TRY_NEW(s.versions, mem_calloc(m, s.n, sizeof *s.versions, err));
    TRY(gather(sequences, n, fresh, s.rows, &s.n, err));
    qsort(s.rows, s.n, sizeof *s.rows, compare_moved);
    TRY(search_table(&s, err));
    for (size_t i = 0; i < n; i++) TRY(write_created(b, &list[i], sequences[i], fresh, s.versions, &slot, err));
    ASSERT(slot == s.n);
done:
    for (size_t i = 0; sequences != NULL && i < n; i++) row_id_sequence_free(sequences[i]);
    mem_free(m, sequences);
    mem_free(m, s.rows);
    mem_free(m, s.versions);
    return st;
}

/* ---- rows rewritten in place ---- */

/* The runs of a fragment with other versions at the rows of `set`. */
static pennon_status overlay(struct building *b, const struct fragment_message *f, const struct id_set *set, struct runs *out,
                             pennon_error *err)
{
    struct version_sequence_message m;
    uint64_t at = 0;
    size_t k = 0;
    TRY_RETURN(wire_decode(&version_sequence_table, f->inline_last_updated, &b->arena, &m, err));
    for (size_t i = 0; i < m.n_runs; i++) {
        uint64_t n, end;
        CHECK_FILE_RETURN(m.runs[i].span != NULL, "row versions: a run without a span");
        TRY_RETURN(row_segment_length(m.runs[i].span, &n, err));
        if (m.n_runs == 1) n = f->physical_rows; /* one run stands for all rows */
        end = min_u64(f->physical_rows, add_overflows(at, n, &end) ? UINT64_MAX : end);
        while (at < end) {
            while (k < set->n && set->ranges[k].last < at) k++;
            const bool before = k < set->n && set->ranges[k].first > at, inside = k < set->n && !before;
            uint64_t to = before   ? min_u64(end, set->ranges[k].first)
                          : inside ? min_u64(end, (uint64_t)set->ranges[k].last + 1)
                                   : end;
            TRY_RETURN(push_run(out, to - at, inside ? b->target : m.runs[i].version, err));
            at = to;
        }
    }
    CHECK_FILE_RETURN(at == f->physical_rows, "row versions: they end before row %" PRIu64, at);
    return PENNON_OK;
}

static pennon_status stamp_fragment(struct building *b, uint64_t id, const struct id_set *set, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct fragment_message *f = building_find(b, id);
    struct runs runs = {.mem = b->call->mem};
    if (f == NULL || f->last_updated_which != 7) return PENNON_OK;
    if (set->n > 0 && set->ranges[set->n - 1].last >= f->physical_rows)
        FAIL(PENNON_INVALID_ARGUMENT, "row %u of fragment %" PRIu64 " is said to be updated; it has %" PRIu64,
             set->ranges[set->n - 1].last, id, f->physical_rows);
    TRY(overlay(b, f, set, &runs, err));
    TRY(encode_runs(b, &runs, &f->inline_last_updated, err));
done:
    mem_free(b->call->mem, runs.items);
    return st;
}

pennon_status rows_stamp_offsets(struct building *b, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct update_message *u = &b->t->op.update;
    const bool bitmaps = u->n_updated_offset_bitmaps > 0;
    struct id_set set;
    id_set_init(&set, b->call->mem);
    for (size_t i = 0; i < (bitmaps ? u->n_updated_offset_bitmaps : u->n_updated_offsets); i++) {
        id_set_free(&set);
        if (bitmaps) {
            TRY(id_set_parse(&set, u->updated_offset_bitmaps[i].value, err));
        } else {
            const struct u32_list_message *list = u->updated_offsets[i].value;
            for (size_t k = 0; list != NULL && k < list->n_values; k++) TRY(id_set_add(&set, list->values[k], err));
        }
        TRY(stamp_fragment(b, bitmaps ? u->updated_offset_bitmaps[i].key : u->updated_offsets[i].key, &set, err));
    }
done:
    if (st == PENNON_CORRUPT) err->code = st = PENNON_INVALID_ARGUMENT;
    id_set_free(&set);
    return st;
}
