/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Joining, cutting and completing the pieces of a filtered scan. Source: spec expressions 10.2-10.4. */
#include "exec/gather.h"

/* Pieces that are looked at while a few rows wait: after them the rows are given, so that who reads a large table sees them come. */
#define WAIT_PIECES 64u

static const struct ArrowSchema *parts_schema(const struct gather *g, const struct split *sp)
{
    return sp ? &sp->kept : &g->p->arrow;
}

/* ---- adding ---- */

bool gather_refuses(const struct gather *g, const struct piece *piece)
{
    if (g->n_parts == 0 || piece->rows == 0) return false;
    return g->split != piece->split || g->rows + piece->rows > max_u64(g->target * 2, 1);
}

/* Rows [from, from + rows) of the piece. */
static pennon_status trim_piece(struct gather *g, struct piece *piece, uint64_t from, uint64_t rows, pennon_error *err)
{
    struct ArrowArray part = {0};
    const struct ArrowSchema *schema = parts_schema(g, piece->split);
    TRY_RETURN(array_copy_range(schema, &piece->batch, (int64_t)from, (int64_t)rows, 0, g->c->mem, &part, err));
    array_release(&piece->batch);
    array_move(&part, &piece->batch);
    if (piece->places && from) memmove(piece->places, piece->places + from, (size_t)rows * sizeof *piece->places);
    piece->rows = rows;
    return PENNON_OK;
}

/* Offset and limit. */
static pennon_status count_rows(struct gather *g, struct piece *piece, pennon_error *err)
{
    const uint64_t from = min_u64(g->skip, piece->rows), rows = min_u64(g->take, piece->rows - from);
    if (rows && rows < piece->rows) TRY_RETURN(trim_piece(g, piece, from, rows, err));
    g->skip -= from;
    if (g->take != UINT64_MAX) g->take -= rows;
    if (rows == 0) piece_free(g->c, piece);
    return PENNON_OK;
}

pennon_status gather_add(struct gather *g, struct piece *piece, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    /* Memory comes first: what fails changes nothing, and may be called again. */
    TRY(mem_grow(g->c->mem, &g->parts, &g->cap_parts, g->n_parts, sizeof *g->parts, SIZE_MAX / 256, err));
    if (piece->split) {
        TRY(mem_grow(g->c->mem, &g->places, &g->cap_places, g->n_places + (size_t)piece->rows, sizeof *g->places, SIZE_MAX / 256,
                     err));
    }
    TRY(count_rows(g, piece, err));
    g->waited += g->n_parts != 0;
    if (piece->rows == 0) goto done;
    ASSERT(g->n_parts == 0 || g->split == piece->split);
    if (piece->split) {
        memcpy(g->places + g->n_places, piece->places, (size_t)piece->rows * sizeof *g->places);
        g->n_places += (size_t)piece->rows;
    }
    g->split = piece->split;
    g->bytes += array_bytes(parts_schema(g, g->split), &piece->batch);
    g->rows += piece->rows;
    array_move(&piece->batch, &g->parts[g->n_parts++]);
done:
    if (st == PENNON_OK) piece_free(g->c, piece);
    return st;
}

bool gather_full(const struct gather *g)
{
    if (g->n_parts == 0) return false;
    return g->rows >= g->target || g->bytes >= g->batch_bytes / 2 || g->take == 0 || g->waited >= WAIT_PIECES ||
           mem_available(g->c->mem) < mem_limit(g->c->mem) / 4;
}

/* ---- joining ---- */

static bool too_much(pennon_status st, const pennon_error *err)
{
    return st == PENNON_OVER_BUDGET || (st != PENNON_OK && err->kind && strcmp(err->kind, "OffsetOverflow") == 0);
}

/* The first n parts as one, which leave. */
static pennon_status join_parts(struct gather *g, size_t n, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct ArrowArray **parts = NULL;
    if (n == 1) {
        array_move(&g->parts[0], out);
    } else {
        TRY_NEW(parts, mem_calloc(g->c->mem, n, sizeof *parts, err));
        for (size_t i = 0; i < n; i++) parts[i] = &g->parts[i];
        TRY(array_concat(parts_schema(g, g->split), n, parts, g->c->mem, out, err));
    }
    for (size_t i = 0; i < n; i++) array_release(&g->parts[i]);
    memmove(g->parts, g->parts + n, (g->n_parts - n) * sizeof *g->parts);
    g->n_parts -= n;
done:
    mem_free(g->c->mem, parts);
    return st;
}

static pennon_status share(struct gather *g, struct ArrowArray *array, struct shared_array **out, pennon_error *err)
{
    *out = shared_array_new(array, g->c->mem, err);
    return *out ? PENNON_OK : err->code;
}

/* The late columns of `rows` rows are to be read, whose places are the first. */
static pennon_status begin_late(struct gather *g, struct ArrowArray *kept, uint64_t rows, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    uint64_t *places;
    TRY_NEW(places, mem_alloc(g->c->mem, (size_t)rows * sizeof *places, err));
    TRY(share(g, kept, &g->late_first, err));
    memcpy(places, g->places, (size_t)rows * sizeof *places);
    g->late_places = places;
    places = NULL;
    g->n_places -= (size_t)rows;
    memmove(g->places, g->places + rows, g->n_places * sizeof *g->places);
    g->late_rows = g->late_step = rows;
    g->late_at = 0;
    g->late_split = g->split;
done:
    mem_free(g->c->mem, places);
    return st;
}

pennon_status gather_flush(struct gather *g, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray all = {0};
    ASSERT(!gather_ready(g));
    if (g->n_parts == 0) return PENNON_OK;
    st = join_parts(g, g->n_parts, &all, err);
    if (g->n_parts > 1 && too_much(st, err)) {
        /* They are given one by one, and from now on fewer wait. */
        pennon_error_clear(err);
        g->target = max_u64(g->rows / 2, 1);
        st = join_parts(g, 1, &all, err);
    }
    TRY(st);
    const uint64_t rows = (uint64_t)all.length;
    ASSERT(rows <= g->rows && (g->n_parts || rows == g->rows));
    if (g->split) {
        TRY(begin_late(g, &all, rows, err));
    } else {
        g->cut_at = 0;
        TRY(share(g, &all, &g->cut, err));
    }
    g->rows -= rows;
    if (g->n_parts == 0) g->bytes = g->waited = 0;
done:
    if (all.release) { /* no memory for the rest: the rows go back, in the place of the parts that they were */
        ASSERT(st != PENNON_OK && g->n_parts < g->cap_parts);
        memmove(g->parts + 1, g->parts, g->n_parts * sizeof *g->parts);
        array_move(&all, &g->parts[0]);
        g->n_parts++;
    }
    return st;
}

/* ---- giving ---- */

static void end_late(struct gather *g)
{
    shared_array_release(g->late_first);
    mem_free(g->c->mem, g->late_places);
    g->late_first = NULL;
    g->late_places = NULL;
}

/* Late columns of `n` rows, and the result of them. */
static pennon_status complete_rows(struct gather *g, uint64_t n, struct ArrowArray *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct split *sp = g->late_split;
    struct ArrowArray kept = {0}, late = {0};
    struct call c = *g->c;
    const int64_t start = g->counters ? clock_monotonic_ns() : 0;
    if (g->counters) c.counters = &g->counters->late;
    TRY(array_slice(&sp->kept, g->late_first, (int64_t)g->late_at, (int64_t)n, g->c->mem, &kept, err));
    TRY(take_places(&c, g->s, g->fc, sp->late, g->late_places + g->late_at, (size_t)n, &late, err));
    ASSERT(late.length == (int64_t)n);
    TRY(plan_assemble(g->c, g->p, sp, &kept, &late, (int64_t)n, out, err));
    if (g->counters) {
        atomic_fetch_add_explicit(&g->counters->late_rows, n, memory_order_relaxed);
        atomic_fetch_add_explicit(&g->counters->late_ns, (uint64_t)(clock_monotonic_ns() - start), memory_order_relaxed);
    }
done:
    array_release(&kept);
    array_release(&late);
    return st;
}

/* The next rows whose late columns fit become ready to be given. */
static pennon_status read_late(struct gather *g, relieve_fn relieve, void *ctx, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray result = {0};
    for (;;) {
        const uint64_t n = min_u64(g->late_step, g->late_rows - g->late_at);
        ASSERT(n > 0);
        st = complete_rows(g, n, &result, err);
        if (st == PENNON_OK) st = share(g, &result, &g->cut, err);
        array_release(&result);
        if (!too_much(st, err) || n == 1) {
            if (st == PENNON_OK) g->late_at += n;
            break;
        }
        pennon_error_clear(err);
        relieve(ctx);
        g->late_step = n / 2;
    }
    if (st != PENNON_OK) return st;
    g->cut_at = 0;
    if (g->late_at == g->late_rows) end_late(g);
    return st;
}

pennon_status gather_next(struct gather *g, relieve_fn relieve, void *ctx, struct ArrowArray *out, pennon_error *err)
{
    if (!g->cut) TRY_RETURN(read_late(g, relieve, ctx, err));
    const int64_t left = shared_array_get(g->cut)->length - g->cut_at;
    const int64_t rows = (uint64_t)left > g->batch_rows ? (int64_t)g->batch_rows : left;
    ASSERT(rows > 0);
    TRY_RETURN(array_slice(&g->p->arrow, g->cut, g->cut_at, rows, g->c->mem, out, err));
    g->cut_at += rows;
    if (rows == left) {
        shared_array_release(g->cut);
        g->cut = NULL;
    }
    return PENNON_OK;
}

void gather_free(struct gather *g)
{
    for (size_t i = 0; i < g->n_parts; i++) array_release(&g->parts[i]);
    mem_free(g->c->mem, g->parts);
    mem_free(g->c->mem, g->places);
    end_late(g);
    shared_array_release(g->cut);
    g->cut = NULL;
}
