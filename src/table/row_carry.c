/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What rows take with them into other fragments.
 *
 *   old fragment   ids of segment 1 | ids of segment 2 ...      versions: runs        deleted: bits
 *                       |  without the deleted rows, in their order
 *   new fragment   a segment of each piece, ranges that go on joined;  runs, equal ones joined
 *
 * A piece ends with a segment of the old fragment, with the new fragment, and past PIECE_ROWS ids, so that what is held does not grow with the fragments; the
 * form of each is chosen as for any other sequence. Rows are walked in chunks.
 * A version that is missing is 1; a missing last_updated is the created_at of the row.
 * Source: spec commits 7.5, 9.3, table-format 11, 12. */
#include "table/row_carry.h"

#include "table/id_set.h"

#define CHUNK ((uint64_t)4096)
#define PIECE_ROWS ((size_t)1 << 18)
#define SEGMENTS_MAX ((size_t)1 << 28)

/* ---- live rows in chunks ---- */

struct walk {
    const struct call *call;
    struct snapshot *s;
    const struct fragment *const *old;
    size_t n_old;
    file_length_fn length;
    void *length_ctx;
    size_t at;     /* fragment */
    uint64_t row;  /* physical */
    uint64_t rows; /* of the fragment */
    struct deletion_vector *gone;
    bool entered;
    uint8_t bits[CHUNK / 8];
};

static pennon_status walk_enter(struct walk *w, pennon_error *err)
{
    const struct fragment *f = w->old[w->at];
    TRY_RETURN(call_check(w->call, err));
    TRY_RETURN(fragment_physical_rows(w->call, w->s, f, w->length, w->length_ctx, &w->rows, err));
    TRY_RETURN(fragment_deletions(w->call, w->s, f, &w->gone, err));
    w->row = 0;
    w->entered = true;
    return PENNON_OK;
}

static void walk_leave(struct walk *w)
{
    deletion_vector_release(w->gone);
    w->gone = NULL;
    w->entered = false;
    w->at++;
}

/* The next rows of one fragment: `n` physical ones from `start` on, with the bits of the live ones in w->bits; `most` live ones at most. n = 0 at the end. */
static pennon_status walk_next(struct walk *w, uint64_t most, uint64_t *start, uint64_t *n, uint64_t *live, pennon_error *err)
{
    *n = *live = 0;
    while (w->at < w->n_old) {
        if (!w->entered) TRY_RETURN(walk_enter(w, err));
        if (w->row == w->rows) {
            walk_leave(w);
            continue;
        }
        /* So few that all of them may be live. */
        *n = min_u64(min_u64(w->rows - w->row, CHUNK), most);
        *start = w->row;
        w->row += *n;
        *live = *n;
        if (w->gone) {
            *live = deletion_vector_live_bits(w->gone, *start, *start + *n, w->bits);
        } else {
            memset(w->bits, 0xff, sizeof w->bits);
        }
        return PENNON_OK;
    }
    return PENNON_OK;
}

/* Keep the values of live rows. */
static size_t keep_live(const uint8_t *bits, uint64_t n, uint64_t live, uint64_t *values)
{
    if (live == n) return (size_t)n;
    size_t kept = 0;
    for (uint64_t i = 0; i < n; i++) {
        values[kept] = values[i];
        kept += bit_get(bits, i);
    }
    ASSERT(kept == live);
    return kept;
}

/* ---- ids ---- */

/* A sequence being put together. */
struct id_builder {
    struct mem *mem;
    struct arena arena; /* segments */
    uint64_t *piece;
    size_t n_piece, cap_piece;
    bool range; /* so far the piece is [first, first + n_run), and not in `piece` */
    uint64_t first, n_run;
    struct segment_message *segments;
    size_t n, cap;
};

static pennon_status add_segment(struct id_builder *b, const struct segment_message *s, pennon_error *err)
{
    TRY_RETURN(mem_grow(b->mem, &b->segments, &b->cap, b->n, sizeof *b->segments, SEGMENTS_MAX, err));
    b->segments[b->n++] = *s;
    return PENNON_OK;
}

static pennon_status end_range(struct id_builder *b, pennon_error *err)
{
    struct segment_message *last = b->n > 0 ? &b->segments[b->n - 1] : NULL;
    if (b->n_run == 0) return PENNON_OK;
    if (last && last->which == SEGMENT_RANGE && last->range->end == b->first) {
        last->range->end += b->n_run;
    } else {
        struct segment_message s;
        TRY_RETURN(row_segment_choose_range(&b->arena, b->first, b->first + b->n_run, &s, err));
        TRY_RETURN(add_segment(b, &s, err));
    }
    b->n_run = 0;
    return PENNON_OK;
}

static pennon_status end_piece(struct id_builder *b, pennon_error *err)
{
    struct segment_message s;
    if (b->range) TRY_RETURN(end_range(b, err));
    if (b->n_piece > 0) {
        TRY_RETURN(row_segment_choose(&b->arena, b->piece, b->n_piece, &s, err));
        TRY_RETURN(add_segment(b, &s, err));
    }
    b->n_piece = 0;
    b->range = true;
    return PENNON_OK;
}

static pennon_status push_id(struct id_builder *b, uint64_t id, pennon_error *err)
{
    TRY_RETURN(mem_grow(b->mem, &b->piece, &b->cap_piece, b->n_piece, sizeof *b->piece, PIECE_ROWS + 1, err));
    b->piece[b->n_piece++] = id;
    return PENNON_OK;
}

/* A range turns into an array where it is broken; a long one becomes a segment of its own first. */
static pennon_status break_range(struct id_builder *b, pennon_error *err)
{
    if (b->n_run > PIECE_ROWS / 2) TRY_RETURN(end_range(b, err));
    for (uint64_t i = 0; i < b->n_run; i++) TRY_RETURN(push_id(b, b->first + i, err));
    b->n_run = 0;
    b->range = false;
    return PENNON_OK;
}

static pennon_status add_ids(struct id_builder *b, const uint64_t *ids, size_t n, pennon_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (b->range && (b->n_run == 0 || b->first + b->n_run == ids[i])) {
            if (b->n_run++ == 0) b->first = ids[i];
            continue;
        }
        if (b->range) TRY_RETURN(break_range(b, err));
        TRY_RETURN(push_id(b, ids[i], err));
        if (b->n_piece >= PIECE_ROWS) TRY_RETURN(end_piece(b, err));
    }
    return PENNON_OK;
}

static void ids_reset(struct id_builder *b)
{
    arena_reset(&b->arena);
    b->n = b->n_piece = 0;
    b->n_run = 0;
    b->range = true;
}

/* ---- versions ---- */

struct run_builder {
    struct mem *mem;
    struct {
        uint64_t version, n;
    } * runs;
    size_t n, cap;
};

static pennon_status add_versions(struct run_builder *b, const uint64_t *versions, size_t n, pennon_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (b->n > 0 && b->runs[b->n - 1].version == versions[i]) {
            b->runs[b->n - 1].n++;
            continue;
        }
        TRY_RETURN(mem_grow(b->mem, &b->runs, &b->cap, b->n, sizeof *b->runs, SEGMENTS_MAX, err));
        b->runs[b->n].version = versions[i];
        b->runs[b->n++].n = 1;
    }
    return PENNON_OK;
}

static pennon_status keep_bytes(struct arena *a, struct buf *text, struct bytes *out, pennon_error *err)
{
    uint8_t *copy = arena_alloc(a, text->size + 1, err);
    if (!copy) return err->code;
    if (text->size > 0) memcpy(copy, text->data, text->size);
    *out = bytes_of(copy, text->size);
    return PENNON_OK;
}

static pennon_status encode_runs(const struct run_builder *b, struct arena *a, struct bytes *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arena scratch;
    struct buf text;
    struct version_run_message *runs;
    struct segment_message *spans;
    arena_init(&scratch, b->mem);
    buf_init(&text, b->mem, BUF_NO_LIMIT);
    TRY_NEW(runs, arena_calloc(&scratch, b->n, sizeof *runs, err));
    TRY_NEW(spans, arena_calloc(&scratch, b->n, sizeof *spans, err));
    for (size_t i = 0; i < b->n; i++) {
        TRY(row_segment_choose_range(&scratch, 0, b->runs[i].n, &spans[i], err));
        runs[i] = (struct version_run_message){.span = &spans[i], .version = b->runs[i].version};
    }
    const struct version_sequence_message message = {.runs = runs, .n_runs = b->n};
    TRY(wire_encode(&version_sequence_table, &message, &text, err));
    TRY(keep_bytes(a, &text, out, err));
done:
    buf_free(&text);
    arena_reset(&scratch);
    return st;
}

/* ---- both ---- */

struct carry {
    struct walk walk;
    struct id_builder ids;
    struct run_builder created, updated;
    uint64_t values[CHUNK];
    uint64_t updates[CHUNK];
};

static pennon_status carry_versions(struct carry *k, const struct fragment *f, uint64_t start, uint64_t n, uint64_t live,
                                    pennon_error *err)
{
    const struct walk *w = &k->walk;
    TRY_RETURN(fragment_load(w->s, f, err));
    TRY_RETURN(fragment_fill_versions(w->call, w->s, f, LINEAGE_CREATED_AT, start, n, k->values, err));
    if (f->message->last_updated_which != 0) {
        TRY_RETURN(fragment_fill_versions(w->call, w->s, f, LINEAGE_LAST_UPDATED_AT, start, n, k->updates, err));
    } else {
        memcpy(k->updates, k->values, (size_t)n * sizeof k->values[0]);
    }
    const size_t kept = keep_live(w->bits, n, live, k->values);
    (void)keep_live(w->bits, n, live, k->updates);
    TRY_RETURN(add_versions(&k->created, k->values, kept, err));
    return add_versions(&k->updated, k->updates, kept, err);
}

/* Where the segment ends that holds the position. */
static uint64_t segment_end(const struct row_id_sequence *r, uint64_t position)
{
    size_t n, low = 0;
    const struct row_segment *list = row_id_sequence_segments(r, &n);
    size_t high = n;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (list[mid].position + list[mid].n <= position) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    ASSERT(low < n);
    return list[low].position + list[low].n;
}

static pennon_status carry_ids(struct carry *k, const struct fragment *f, uint64_t start, uint64_t n, pennon_error *err)
{
    const struct row_id_sequence *r;
    TRY_RETURN(fragment_row_ids(k->walk.call, k->walk.s, f, &r, err));
    CHECK_FILE_RETURN(r != NULL && range_inside(start, n, row_id_sequence_length(r)), "fragment %u has no ids for its rows", f->id);
    for (uint64_t at = start; at < start + n;) {
        const uint64_t end = segment_end(r, at), take = min_u64(end, start + n) - at;
        uint64_t live = 0;
        row_id_sequence_get(r, at, take, k->values);
        for (uint64_t i = 0; i < take; i++) {
            k->values[live] = k->values[i];
            live += bit_get(k->walk.bits, at - start + i);
        }
        TRY_RETURN(add_ids(&k->ids, k->values, (size_t)live, err));
        at += take;
        if (at == end) TRY_RETURN(end_piece(&k->ids, err));
    }
    return PENNON_OK;
}

static pennon_status finish_fragment(struct carry *k, struct arena *a, struct fragment_message *f, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf text;
    buf_init(&text, k->ids.mem, BUF_NO_LIMIT);
    TRY(end_piece(&k->ids, err));
    const struct row_id_sequence_message message = {.segments = k->ids.segments, .n_segments = k->ids.n};
    TRY(wire_encode(&row_id_sequence_table, &message, &text, err));
    f->row_ids_which = 5;
    TRY(keep_bytes(a, &text, &f->inline_row_ids, err));
    f->last_updated_which = 7;
    TRY(encode_runs(&k->updated, a, &f->inline_last_updated, err));
    f->created_which = 9;
    TRY(encode_runs(&k->created, a, &f->inline_created, err));
    ids_reset(&k->ids);
    k->created.n = k->updated.n = 0;
done:
    buf_free(&text);
    return st;
}

pennon_status rows_carry(const struct call *c, struct snapshot *s, const struct fragment *const *old, size_t n_old,
                         file_length_fn length, void *length_ctx, struct arena *a, struct fragment_message *new, size_t n_new,
                         pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct carry *k;
    uint64_t start, n, live;
    TRY_NEW(k, mem_calloc(c->mem, 1, sizeof *k, err));
    k->walk = (struct walk){.call = c, .s = s, .old = old, .n_old = n_old, .length = length, .length_ctx = length_ctx};
    k->ids.mem = k->created.mem = k->updated.mem = c->mem;
    arena_init(&k->ids.arena, c->mem);
    k->ids.range = true;
    for (size_t i = 0; i < n_new; i++) {
        for (uint64_t left = new[i].physical_rows; left > 0; left -= live) {
            TRY(walk_next(&k->walk, left, &start, &n, &live, err));
            if (n == 0) FAIL(PENNON_INTERNAL, "new fragments have more rows than the old ones");
            TRY(carry_ids(k, old[k->walk.at], start, n, err));
            TRY(carry_versions(k, old[k->walk.at], start, n, live, err));
        }
        TRY(finish_fragment(k, a, &new[i], err));
    }
    do TRY(walk_next(&k->walk, CHUNK, &start, &n, &live, err));
    while (n > 0 && live == 0);
    if (n > 0) FAIL(PENNON_INTERNAL, "new fragments have fewer rows than the old ones");
done:
    if (k) {
        deletion_vector_release(k->walk.gone);
        arena_reset(&k->ids.arena);
        mem_free(c->mem, k->ids.piece);
        mem_free(c->mem, k->ids.segments);
        mem_free(c->mem, k->created.runs);
        mem_free(c->mem, k->updated.runs);
        mem_free(c->mem, k);
    }
    return st;
}

/* ---- addresses ---- */

/* The set of the live rows of a fragment. */
static pennon_status live_set(uint64_t rows, const struct deletion_vector *gone, struct id_set *set, pennon_error *err)
{
    uint64_t at = 0;
    while (at < rows) {
        const uint64_t next = gone ? min_u64(deletion_vector_next(gone, at), rows) : rows;
        if (next > at) TRY_RETURN(id_set_add_range(set, (uint32_t)at, (uint32_t)(next - 1), err));
        at = next < rows ? next + 1 : rows;
    }
    return PENNON_OK;
}

static pennon_status put_live(const struct call *c, struct snapshot *s, const struct fragment *f, uint64_t rows, bool *any,
                              struct buf *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct deletion_vector *gone = NULL;
    struct id_set set;
    uint8_t id[4];
    id_set_init(&set, c->mem);
    if (rows > UINT32_MAX)
        FAIL(PENNON_NOT_SUPPORTED, "fragment %u has %" PRIu64 " rows, more than addresses can have", f->id, rows);
    TRY(fragment_deletions(c, s, f, &gone, err));
    TRY(live_set(rows, gone, &set, err));
    *any = set.n > 0;
    if (!*any) goto done;
    store_u32(id, f->id);
    TRY(buf_append(out, id, sizeof id, err));
    TRY(id_set_encode(&set, out, err));
done:
    deletion_vector_release(gone);
    id_set_free(&set);
    return st;
}

pennon_status rows_addresses(const struct call *c, struct snapshot *s, const struct fragment *const *old, size_t n_old,
                             file_length_fn length, void *length_ctx, struct buf *out, pennon_error *err)
{
    const size_t start = out->size;
    uint64_t n = 0;
    TRY_RETURN(buf_append_zero(out, 8, err));
    for (size_t i = 0; i < n_old; i++) {
        uint64_t rows;
        bool any;
        ASSERT(i == 0 || old[i - 1]->id < old[i]->id);
        TRY_RETURN(call_check(c, err));
        TRY_RETURN(fragment_physical_rows(c, s, old[i], length, length_ctx, &rows, err));
        TRY_RETURN(put_live(c, s, old[i], rows, &any, out, err));
        n += any;
    }
    store_u64(out->data + start, n);
    return PENNON_OK;
}
