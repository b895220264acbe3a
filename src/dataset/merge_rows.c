/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The rows that a merge writes, as a stream.
 *
 * Chunk by chunk of the source, so that each is in memory once a turn. Without stable row ids there is one turn, with updated and inserted rows in the order of
 * the source; with them the updated rows are a turn of their own before the inserted ones, since the ids that they bring stand at the beginning of fragments.
 *
 *   source with all columns   rows of the chunk; where they follow one another they are handed on without a copy
 *   some columns missing      pairs by place: the columns of the source, and the missing ones of the target, taken from it; then inserted rows, null there.
 *                             Where the whole source is in memory the pairs of all chunks come first, so that the target is gone through once
 *
 * A batch that does not fit memory or 32-bit offsets is made smaller. */
#include "dataset/merge.h"

#define TAKE_ROWS 8192u
#define TAKE_BYTES ((uint64_t)8 << 20)
#define SLICE_ROWS 65536u
#define WINDOW_ROWS 65536u /* of a chunk whose rows are listed at once */
#define SLICE_ROWS_MIN 512u

bool merge_rows_together(const struct merge_plan *p, const struct row_store *rows)
{
    return p->missing != NULL && rows->n_chunks > 1 && rows->size == 0;
}

/* ---- which rows ---- */

static bool is_matched(const struct merge_rows *r, uint64_t row)
{
    return r->found->matched == NULL || bit_get(r->found->matched, row);
}

static pennon_status list_row(struct merge_rows *r, uint64_t row, pennon_error *err)
{
    if (r->n_list == r->cap_list)
        TRY_RETURN(mem_grow(r->c->mem, &r->list, &r->cap_list, r->n_list, sizeof *r->list, SIZE_MAX / 16, err));
    r->list[r->n_list++] = row;
    return PENNON_OK;
}

static pennon_status note_ids(struct merge_rows *r, size_t from, size_t to, pennon_error *err)
{
    struct snapshot *s = r->p->s;
    const struct row_id_sequence *ids = NULL;
    uint64_t fragment = UINT64_MAX, id;
    ASSERT(r->p->stable && to <= r->found->n_pairs);
    for (size_t i = from; i < to; i++) {
        const uint64_t place = r->found->pairs[i].place;
        if (place >> 32 != fragment) {
            fragment = place >> 32;
            TRY_RETURN(fragment_row_ids(r->c, s, &s->fragments[fragment], &ids, err));
        }
        row_id_sequence_get(ids, place & UINT32_MAX, 1, &id);
        TRY_RETURN(id_runs_add(&r->ids, &id, 1, err));
    }
    return PENNON_OK;
}

/* Rows of the window to give: inserted ones and, where pairs are by row, updated ones. The pairs go with it. */
static pennon_status list_rows(struct merge_rows *r, bool updated, bool inserted, pennon_error *err)
{
    const struct row_chunk *chunk = &r->rows->chunks[r->chunk];
    const uint64_t end = min_u64(chunk->rows, r->window + WINDOW_ROWS);
    ASSERT(r->entered && r->at_list == r->n_list && r->window < end);
    r->n_list = r->at_list = 0;
    if (updated && !inserted) {
        for (; r->pair < r->end_pair && r->found->pairs[r->pair].row - chunk->first < end; r->pair++)
            TRY_RETURN(list_row(r, r->found->pairs[r->pair].row - chunk->first, err));
    } else {
        for (uint64_t i = r->window; i < end; i++) {
            for (; updated && r->pair < r->end_pair && r->found->pairs[r->pair].row - chunk->first == i; r->pair++)
                TRY_RETURN(list_row(r, i, err));
            if (!is_matched(r, chunk->first + i)) TRY_RETURN(list_row(r, i, err));
        }
    }
    r->window = end;
    return PENNON_OK;
}

/* The keys of rows that are new. */
static pennon_status note_keys(struct merge_rows *r, pennon_error *err)
{
    const struct row_chunk *chunk = &r->rows->chunks[r->chunk];
    const struct ArrowArray *array = shared_array_get(r->array);
    uint64_t rows[2048];
    size_t n = 0;
    for (uint64_t i = 0; i < chunk->rows; i++) {
        if (is_matched(r, chunk->first + i)) continue;
        rows[n++] = i;
        if (n < ARRAY_LEN(rows)) continue;
        TRY_RETURN(key_filter_add(r->filter, r->p, array, rows, n, err));
        n = 0;
    }
    return key_filter_add(r->filter, r->p, array, rows, n, err);
}

static bool gives_inserted(const struct merge_rows *r) { return merge_inserts(r->p->o) && (r->turn == 1 || !r->p->stable); }

static pennon_status enter_chunk(struct merge_rows *r, pennon_error *err)
{
    const struct row_chunk *chunk = &r->rows->chunks[r->chunk];
    r->n_list = r->at_list = 0;
    r->window = 0;
    if (r->turn == 0) {
        r->end_pair = r->pair;
        while (r->end_pair < r->found->n_pairs && r->found->pairs[r->end_pair].row < chunk->first + chunk->rows) r->end_pair++;
    }
    r->entered = true;
    if (r->pair == r->end_pair && !gives_inserted(r)) {
        r->window = chunk->rows;
        return PENNON_OK;
    }
    TRY_RETURN(row_store_chunk(r->rows, r->chunk, &r->array, err));
    if (r->turn == 0 && r->p->stable) TRY_RETURN(note_ids(r, r->pair, r->end_pair, err));
    return r->filter != NULL && gives_inserted(r) ? note_keys(r, err) : PENNON_OK;
}

/* The next rows that are listed; none = the chunk is through. */
static pennon_status fill_list(struct merge_rows *r, pennon_error *err)
{
    const struct row_chunk *chunk = &r->rows->chunks[r->chunk];
    const bool updated = r->turn == 0 && r->p->missing == NULL;
    while (r->at_list == r->n_list && r->window < chunk->rows) {
        if (!updated && !gives_inserted(r)) {
            r->window = chunk->rows;
        } else {
            TRY_RETURN(list_rows(r, updated, gives_inserted(r), err));
        }
    }
    return PENNON_OK;
}

static void leave_chunk(struct merge_rows *r)
{
    shared_array_release(r->array);
    r->array = NULL;
    r->entered = false;
    if (++r->chunk < r->rows->n_chunks) return;
    r->chunk = 0;
    r->pair = r->end_pair;
    r->turn = r->turn == 0 && r->p->stable && merge_inserts(r->p->o) ? 1 : 2;
}

/* ---- batches ---- */

static size_t take_rows_at_once(const struct merge_rows *r)
{
    const struct row_chunk *chunk = &r->rows->chunks[r->chunk];
    const uint64_t mean = chunk->bytes / chunk->rows + 1;
    return (size_t)max_u64(1, min_u64(TAKE_ROWS, TAKE_BYTES / mean));
}

/* Columns of the source in front of the missing ones. Both are taken. */
static pennon_status assemble(const struct merge_rows *r, struct ArrowArray *source, struct ArrowArray *missing,
                              struct ArrowArray *out, pennon_error *err)
{
    ASSERT(source->n_children == r->rows->schema.n_children && (missing == NULL || missing->length == source->length));
    const size_t n = (size_t)source->n_children, more = (size_t)r->p->written.n_children - n;
    TRY_RETURN(array_new(out, 1, n + more, r->c->mem, err));
    out->length = source->length;
    for (size_t i = 0; i < n; i++) array_move(source->children[i], out->children[i]);
    for (size_t i = 0; i < more; i++) {
        if (missing != NULL) {
            array_move(missing->children[i], out->children[n + i]);
        } else {
            TRY_RETURN(array_nulls(r->p->written.children[n + i], out->length, r->c->mem, out->children[n + i], err));
        }
    }
    return PENNON_OK;
}

static size_t run_of(const uint64_t *list, size_t n)
{
    size_t run = 1;
    while (run < n && list[run] == list[0] + run) run++;
    return run;
}

/* Rows list[0..*n) of the chunk; *n may get smaller. */
static pennon_status give_rows(struct merge_rows *r, const uint64_t *list, size_t *n, struct ArrowArray *out, pennon_error *err)
{
    const struct ArrowSchema *schema = &r->rows->schema;
    const size_t run = run_of(list, *n < SLICE_ROWS ? *n : SLICE_ROWS), most = take_rows_at_once(r);
    if (run == *n || run >= SLICE_ROWS_MIN) {
        *n = run;
        if (r->rows->chunks[r->chunk].array == NULL) {
            /* Columns of a copy go one by one as they are written; those of what was read all lie in one block. */
            if (*n > most) *n = most;
            return array_copy_range(schema, shared_array_get(r->array), (int64_t)list[0], (int64_t)*n, 0, r->c->mem, out, err);
        }
        return array_slice(schema, r->array, (int64_t)list[0], (int64_t)run, r->c->mem, out, err);
    }
    if (*n > most) *n = most;
    return array_take(schema, shared_array_get(r->array), list, *n, r->c->mem, out, err);
}

static pennon_status give_listed(struct merge_rows *r, size_t most, size_t *n, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray source = {0};
    *n = r->n_list - r->at_list < most ? r->n_list - r->at_list : most;
    TRY(give_rows(r, r->list + r->at_list, n, &source, err));
    TRY(assemble(r, &source, NULL, out, err));
    r->at_list += *n;
done:
    array_release(&source);
    return st;
}

/* Rows of the source that lie in one chunk. */
static pennon_status take_of_chunk(const struct merge_rows *r, const struct row_chunk *chunk, const struct ArrowArray *array,
                                   const struct merge_pair *pairs, size_t n, struct ArrowArray *out, pennon_error *err)
{
    uint64_t *rows = mem_alloc(r->c->mem, (n + 1) * sizeof *rows, err);
    if (rows == NULL) return err->code;
    for (size_t i = 0; i < n; i++) rows[i] = pairs[i].row - chunk->first;
    const pennon_status st = array_take(&r->rows->schema, array, rows, n, r->c->mem, out, err);
    mem_free(r->c->mem, rows);
    return st;
}

/* What take_together is made of, for n pairs and as many chunks as have some of them. */
struct together {
    struct merge_pair *sorted; /* by chunk */
    uint64_t *places;          /* of pair i among the sorted ones */
    struct ArrowArray *parts;
    const struct ArrowArray **list;
    size_t n_parts;
};

static pennon_status take_parts(const struct merge_rows *r, struct together *t, size_t n, pennon_error *err)
{
    for (size_t at = 0, end; at < n; at = end) {
        const struct row_chunk *chunk = &r->rows->chunks[row_store_find(r->rows, t->sorted[at].row)];
        for (end = at + 1; end < n && t->sorted[end].row < chunk->first + chunk->rows; end++) continue;
        TRY_RETURN(take_of_chunk(r, chunk, shared_array_get(chunk->array), t->sorted + at, end - at, &t->parts[t->n_parts], err));
        t->list[t->n_parts] = &t->parts[t->n_parts];
        t->n_parts++;
    }
    return PENNON_OK;
}

/* Rows of the source from all chunks, which are in memory: taken chunk by chunk, joined, and put into the order of the pairs. */
static pennon_status take_together(const struct merge_rows *r, const struct merge_pair *pairs, size_t n, struct ArrowArray *out,
                                   pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct mem *m = r->c->mem;
    struct together t = {0};
    struct ArrowArray joined = {0};
    TRY_NEW(t.sorted, mem_alloc(m, (n + 1) * sizeof *t.sorted, err));
    TRY_NEW(t.places, mem_alloc(m, (n + 1) * sizeof *t.places, err));
    TRY_NEW(t.parts, mem_calloc(m, n + 1, sizeof *t.parts, err));
    TRY_NEW(t.list, mem_calloc(m, n + 1, sizeof *t.list, err));
    memcpy(t.sorted, pairs, n * sizeof *t.sorted);
    for (size_t i = 0; i < n; i++) t.sorted[i].place = i;
    TRY(merge_sort_pairs(r->c, r->rows, PAIRS_BY_CHUNK, t.sorted, n, err));
    for (size_t i = 0; i < n; i++) t.places[t.sorted[i].place] = i;
    TRY(take_parts(r, &t, n, err));
    if (t.n_parts == 1) {
        array_move(&t.parts[0], out);
    } else {
        TRY(array_concat(&r->rows->schema, t.n_parts, t.list, m, &joined, err));
        TRY(array_take(&r->rows->schema, &joined, t.places, n, m, out, err));
    }
done:
    for (size_t i = 0; i < t.n_parts; i++) array_release(&t.parts[i]);
    array_release(&joined);
    mem_free(m, t.sorted);
    mem_free(m, t.places);
    mem_free(m, t.parts);
    mem_free(m, t.list);
    return st;
}

static pennon_status give_pairs(struct merge_rows *r, size_t most, size_t *n, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const bool together = r->array == NULL;
    const struct merge_pair *pairs = r->found->pairs + r->pair;
    struct ArrowArray source = {0}, missing = {0};
    uint64_t *places = NULL;
    size_t limit = take_rows_at_once(r), left = (together ? r->found->n_pairs : r->end_pair) - r->pair;
    if (limit > most) limit = most;
    *n = left < limit ? left : limit;
    TRY_NEW(places, mem_alloc(r->c->mem, *n * sizeof *places, err));
    for (size_t i = 0; i < *n; i++) places[i] = pairs[i].place;
    TRY(take_places(r->c, r->p->s, r->files, r->p->missing, places, *n, &missing, err));
    if (missing.length != (int64_t)*n) FAIL(PENNON_INTERNAL, "rows that were matched are not there");
    if (together) {
        TRY(take_together(r, pairs, *n, &source, err));
    } else {
        TRY(take_of_chunk(r, &r->rows->chunks[r->chunk], shared_array_get(r->array), pairs, *n, &source, err));
    }
    TRY(assemble(r, &source, &missing, out, err));
    if (together && r->p->stable) TRY(note_ids(r, r->pair, r->pair + *n, err));
    r->pair += *n;
done:
    array_release(&source);
    array_release(&missing);
    mem_free(r->c->mem, places);
    return st;
}

/* Too large for the budget, or for 32-bit offsets. */
static bool is_too_large(pennon_status st) { return st == PENNON_OVER_BUDGET || st == PENNON_INVALID_ARGUMENT; }

pennon_status merge_rows_next(void *ctx, struct ArrowArray *out, pennon_error *err)
{
    struct merge_rows *r = ctx;
    out->release = NULL;
    while (r->turn < 2 && r->rows->n_chunks > 0) {
        TRY_RETURN(call_check(r->c, err));
        const bool together = merge_rows_together(r->p, r->rows) && r->pair < r->found->n_pairs;
        if (!r->entered && !together) TRY_RETURN(enter_chunk(r, err));
        const bool pairs = together || (r->p->missing != NULL && r->turn == 0 && r->pair < r->end_pair);
        if (!pairs) TRY_RETURN(fill_list(r, err));
        if (!pairs && r->at_list == r->n_list) {
            leave_chunk(r);
            continue;
        }
        size_t n = SIZE_MAX;
        pennon_status st = pairs ? give_pairs(r, n, &n, out, err) : give_listed(r, n, &n, out, err);
        while (is_too_large(st) && n > 1) {
            array_release(out);
            pennon_error_clear(err);
            n /= 2;
            st = pairs ? give_pairs(r, n, &n, out, err) : give_listed(r, n, &n, out, err);
        }
        if (st != PENNON_OK) array_release(out);
        r->given += n;
        call_progress(r->c, r->found->looked_at + r->given, r->found->looked_at + r->found->n_pairs + r->to_insert);
        return st;
    }
    return PENNON_OK;
}

void merge_rows_end(struct merge_rows *r)
{
    shared_array_release(r->array);
    id_runs_free(&r->ids);
    mem_free(r->c->mem, r->list);
    r->list = NULL;
    r->array = NULL;
}
