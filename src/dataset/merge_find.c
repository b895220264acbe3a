/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Who matches whom: a hash join with the source as build side.
 *
 *   table of the source's keys  (of as many passes as fit the budget: pass k has the keys whose hash belongs to it)
 *   stretches of the target, in parallel: keys (and columns of by_source_condition) -> key of the source, or none
 *     matched       -> a pair, a row that goes, or a failure
 *     not matched   -> a row that goes, where by_source says so
 *   keys that were found -> source rows that are not new
 *
 * What a stretch finds is its own, so that the result does not depend on who came first. Equal keys are in one pass, so that a row of the target is matched in
 * one pass at most.
 * Source: spec commits 7.4. */
#include "dataset/merge.h"

#define STRETCH_ROWS 32768u
#define STRETCH_ROWS_MIN 64u
#define BUILD_ROWS 16384
/* Stretches a thread between two looks at the cancel token from the caller's thread. */
#define WAVE 8u
#define PASSES_MAX 4096u

struct finding {
    const struct merge_plan *p;
    const struct call *c;
    struct call one; /* the same with one thread */
    struct file_cache *files;
    const struct row_store *rows;
    struct merge_found *out;
    struct join_table table;
    uint32_t pass;
    size_t wave; /* first stretch of the wave */
};

/* ---- the table ---- */

static pennon_status add_chunk(struct finding *f, const struct row_chunk *chunk, const struct ArrowArray *array,
                               struct join_keys *keys, pennon_error *err)
{
    const struct merge_plan *p = f->p;
    const struct ArrowArray **columns = mem_calloc(f->c->mem, p->n_keys, sizeof *columns, err);
    pennon_status st = columns != NULL ? PENNON_OK : err->code;
    for (size_t i = 0; i < p->n_keys && columns != NULL; i++) columns[i] = array->children[p->source_keys[i]];
    for (int64_t at = 0; at < array->length && st == PENNON_OK; at += BUILD_ROWS) {
        const int64_t n = array->length - at < BUILD_ROWS ? array->length - at : BUILD_ROWS;
        st = call_check(f->c, err);
        if (st == PENNON_OK) st = join_keys_make(keys, &p->source_side, columns, at, n, err);
        if (st == PENNON_OK)
            st = join_table_add(&f->table, keys, (uint32_t)(chunk->first + (uint64_t)at), f->pass, f->out->passes, err);
        for (int64_t i = 0; i < n && f->pass == 0 && st == PENNON_OK; i++) f->out->null_keys += keys->nulls[i];
    }
    mem_free(f->c->mem, columns);
    return st;
}

static pennon_status build(struct finding *f, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct join_keys keys;
    struct shared_array *array = NULL;
    const uint64_t rows = f->rows->rows, passes = f->out->passes;
    /* Parts of hashes are of nearly the same size; the table grows no more. */
    const uint64_t most = passes == 1 ? rows : min_u64(rows, rows / passes + rows / passes / 4 + 1024);
    join_keys_init(&keys, f->c->mem);
    join_table_free(&f->table);
    TRY(join_table_init(&f->table, f->c->mem, f->p->source_side.form, (uint32_t)most, (uint32_t)rows, err));
    for (size_t i = 0; i < f->rows->n_chunks; i++) {
        shared_array_release(array);
        array = NULL;
        TRY(row_store_chunk(f->rows, i, &array, err));
        TRY(add_chunk(f, &f->rows->chunks[i], shared_array_get(array), &keys, err));
    }
done:
    shared_array_release(array);
    join_keys_free(&keys);
    return st;
}

/* Bytes of the keys among those of the source: by the share of their columns. */
static uint64_t key_bytes(const struct finding *f)
{
    const struct merge_plan *p = f->p;
    uint64_t bytes = 0;
    if (p->source_side.form == JOIN_WORD) return 0;
    for (size_t i = 0; i < f->rows->n_chunks; i++) {
        const struct row_chunk *chunk = &f->rows->chunks[i];
        if (chunk->array == NULL) {
            bytes += chunk->bytes;
            continue;
        }
        const struct ArrowArray *a = shared_array_get(chunk->array);
        for (size_t k = 0; k < p->n_keys; k++) bytes += array_bytes(p->source_side.schemas[k], a->children[p->source_keys[k]]);
    }
    return bytes;
}

static void choose_passes(struct finding *f, uint64_t room)
{
    const uint64_t need = join_table_bytes(f->p->source_side.form, f->rows->rows, key_bytes(f));
    f->out->passes = 1;
    while (f->out->passes < PASSES_MAX && need / f->out->passes > room) f->out->passes *= 2;
}

/* ---- what is said of a match ---- */

static pennon_status put_value(const struct array_view *v, int64_t i, struct buf *out, pennon_error *err)
{
    char text[REAL_TEXT_MAX];
    if (array_view_is_null(v, i)) return buf_printf(out, err, "NULL");
    if (v->type.id == ARROW_BOOL) return buf_printf(out, err, "%s", array_view_bool(v, i) ? "true" : "false");
    if (v->type.id == ARROW_UINT64) return buf_printf(out, err, "%" PRIu64, (uint64_t)array_view_int(v, i));
    if (arrow_id_is_integer(v->type.id) || (v->type.id >= ARROW_DATE32 && v->type.id <= ARROW_INTERVAL_MONTHS))
        return buf_printf(out, err, "%" PRId64, array_view_int(v, i));
    if (arrow_id_is_float(v->type.id)) {
        (void)real_print(array_view_double(v, i), 17, false, text);
        return buf_printf(out, err, "%s", text);
    }
    if (!arrow_id_is_text(v->type.id)) return buf_printf(out, err, "<%s>", arrow_id_name(v->type.id));
    const struct bytes b = array_view_bytes(v, i);
    TRY_RETURN(buf_append_byte(out, '"', err));
    TRY_RETURN(buf_append(out, b.data, b.size < 256 ? b.size : 256, err));
    return buf_append_byte(out, '"', err);
}

pennon_status merge_key_text(const struct merge_plan *p, const struct row_store *rows, uint32_t row, struct buf *out,
                             pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const size_t i = row_store_find(rows, row);
    struct shared_array *array = NULL;
    TRY(row_store_chunk(rows, i, &array, err));
    for (size_t k = 0; k < p->n_keys; k++) {
        struct array_view v;
        TRY(array_view_init(&v, p->source_side.schemas[k], shared_array_get(array)->children[p->source_keys[k]], err));
        TRY(buf_printf(out, err, "%s%s = ", k > 0 ? ", " : "", p->keys[k]->name));
        TRY(put_value(&v, (int64_t)(row - rows->chunks[i].first), out, err));
    }
    TRY(buf_terminate(out, err));
done:
    shared_array_release(array);
    return st;
}

static pennon_status refuse(const struct finding *f, uint32_t row, bool ambiguous, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf keys;
    buf_init(&keys, f->c->mem, BUF_NO_LIMIT);
    TRY(merge_key_text(f->p, f->rows, row, &keys, err));
    if (ambiguous) {
        st = error_set(err, PENNON_INVALID_ARGUMENT,
                       "Ambiguous merge inserts are prohibited: multiple source rows match the same target row on (%.512s). "
                       "Please ensure each target row is matched by at most one source row.",
                       (const char *)keys.data);
    } else {
        st = error_set(err, PENNON_INVALID_ARGUMENT, "Merge insert failed: found matching row with key values: %.512s",
                       (const char *)keys.data);
    }
    st = error_kind(err, "InvalidInput");
done:
    buf_free(&keys);
    return st;
}

/* ---- one stretch ---- */

/* Counted here until all rows were gone through: an attempt that runs out of memory is made again. */
struct tally {
    uint64_t deleted, skipped, hits;
};

static pennon_status mark(const struct finding *f, uint8_t **bits, const struct merge_stretch *s, uint64_t offset,
                          pennon_error *err)
{
    if (*bits == NULL) {
        *bits = mem_calloc(f->c->mem, (size_t)bitmap_bytes(s->end - s->start), 1, err);
        if (*bits == NULL) return err->code;
    }
    bit_set(*bits, offset - s->start);
    return PENNON_OK;
}

static pennon_status add_pair(const struct finding *f, struct merge_stretch *s, uint64_t place, uint32_t row, pennon_error *err)
{
    TRY_RETURN(mem_grow(f->c->mem, &s->pairs, &s->cap_pairs, s->n_pairs, sizeof *s->pairs, SIZE_MAX / 64, err));
    s->pairs[s->n_pairs++] = (struct merge_pair){place, row, 1};
    return PENNON_OK;
}

static uint64_t chain_length(const struct join_table *t, uint32_t row)
{
    uint64_t n = 0;
    for (; row != JOIN_NONE; row = join_table_next(t, row)) n++;
    return n;
}

/* A row of the target has the key `entry` of the source. */
static pennon_status take_match(struct finding *f, struct merge_stretch *s, uint64_t place, uint32_t entry, struct tally *tally,
                                pennon_error *err)
{
    const struct join_table *t = &f->table;
    const uint32_t first = t->first[entry];
    const bool doubled = join_table_next(t, first) != JOIN_NONE;
    const uint64_t offset = place & UINT32_MAX;
    ASSERT(entry < t->n && offset >= s->start && offset < s->end && place >> 32 == s->fragment);
    join_table_hit(t, entry);
    switch (f->p->o->when_matched) {
    case PENNON_MATCHED_FAIL: return refuse(f, first, false, err);
    case PENNON_MATCHED_DELETE:
        tally->deleted += f->p->delete_only ? 1 : chain_length(t, first);
        return mark(f, &s->gone, s, offset, err);
    case PENNON_MATCHED_UPDATE:
        if (doubled && f->p->o->duplicates == PENNON_DUPLICATES_FAIL) return refuse(f, first, true, err);
        if (doubled) tally->skipped += chain_length(t, first) - 1;
        TRY_RETURN(mark(f, &s->gone, s, offset, err));
        return add_pair(f, s, place, first, err);
    case PENNON_MATCHED_UPDATE_IF:
        for (uint32_t row = first; row != JOIN_NONE; row = join_table_next(t, row)) TRY_RETURN(add_pair(f, s, place, row, err));
        return PENNON_OK;
    default: return PENNON_OK;
    }
}

/* A row that nobody matches, in the last pass. */
static pennon_status take_unmatched(struct finding *f, struct merge_stretch *s, uint64_t offset, struct tally *tally,
                                    pennon_error *err)
{
    if (s->seen != NULL && bit_get(s->seen, offset - s->start)) return PENNON_OK;
    tally->deleted++;
    return mark(f, &s->gone, s, offset, err);
}

/* bits: rows that by_source_condition takes; NULL = all. */
static pennon_status take_rows(struct finding *f, struct merge_stretch *s, const struct ArrowArray *batch, const uint32_t *entries,
                               const uint8_t *bits, pennon_error *err)
{
    const struct ArrowArray *place_array = batch->children[batch->n_children - 1];
    const uint64_t *places = (const uint64_t *)place_array->buffers[1] + place_array->offset;
    const bool deletes = f->p->o->by_source != PENNON_BY_SOURCE_KEEP, last = f->pass + 1 == f->out->passes;
    struct tally tally = {0};
    for (size_t i = 0; i < (size_t)batch->length; i++) {
        if (entries[i] != JOIN_NONE) {
            tally.hits++;
            if (deletes && !last) TRY_RETURN(mark(f, &s->seen, s, places[i] & UINT32_MAX, err));
            TRY_RETURN(take_match(f, s, places[i], entries[i], &tally, err));
        } else if (deletes && last && (bits == NULL || bit_get(bits, i))) {
            TRY_RETURN(take_unmatched(f, s, places[i] & UINT32_MAX, &tally, err));
        }
    }
    f->out->hits += tally.hits;
    f->out->deleted += tally.deleted;
    f->out->skipped += tally.skipped;
    return PENNON_OK;
}

static pennon_status select_by_source(struct finding *f, const struct ArrowArray *batch, uint8_t **bits, pennon_error *err)
{
    uint64_t count;
    const struct merge_plan *p = f->p;
    *bits = NULL;
    if (p->by_source == NULL || f->pass + 1 < f->out->passes) return PENNON_OK;
    *bits = mem_alloc(f->c->mem, (size_t)bitmap_bytes((uint64_t)batch->length) + 8, err);
    if (*bits == NULL) return err->code;
    return expr_select(p->by_source, &f->one, (const struct ArrowArray *const *)batch->children + p->n_keys, batch->length, *bits,
                       &count, err);
}

static pennon_status look_at(struct finding *f, struct merge_stretch *s, uint64_t start, uint64_t end, struct join_keys *keys,
                             pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct merge_plan *p = f->p;
    const struct row_range range = {start, end};
    struct ArrowArray batch = {0};
    uint32_t *entries = NULL;
    uint8_t *bits = NULL;
    TRY(call_check(f->c, err));
    TRY(fragment_read(&f->one, f->files, p->s, &p->s->fragments[s->fragment], p->probe, &range, 1, 0, &batch, err));
    TRY(join_keys_make(keys, &p->target_side, (const struct ArrowArray *const *)batch.children, 0, batch.length, err));
    TRY_NEW(entries, mem_alloc(f->c->mem, ((size_t)batch.length + 1) * sizeof *entries, err));
    join_table_find(&f->table, keys, entries);
    TRY(select_by_source(f, &batch, &bits, err));
    TRY(take_rows(f, s, &batch, entries, bits, err));
    f->out->looked_at += (uint64_t)batch.length;
done:
    array_release(&batch);
    mem_free(f->c->mem, entries);
    mem_free(f->c->mem, bits);
    return st;
}

/* What was found by an attempt that ran out of memory goes away again: pairs by their number, the rest is the same when it comes again. */
static pennon_status look_at_stretch(void *arg, size_t i, pennon_error *err)
{
    struct finding *f = arg;
    struct merge_stretch *s = &f->out->stretches[f->wave + i];
    struct join_keys keys;
    uint64_t step = s->end - s->start;
    pennon_status st = PENNON_OK;
    join_keys_init(&keys, f->c->mem);
    for (uint64_t at = s->start; at < s->end;) {
        const uint64_t n = min_u64(step, s->end - at);
        const size_t pairs = s->n_pairs;
        st = look_at(f, s, at, at + n, &keys, err);
        if (st == PENNON_OVER_BUDGET && n > STRETCH_ROWS_MIN) {
            s->n_pairs = pairs;
            pennon_error_clear(err);
            join_keys_free(&keys);
            join_keys_init(&keys, f->c->mem);
            step = n / 2;
            continue;
        }
        if (st != PENNON_OK) break;
        at += n;
    }
    join_keys_free(&keys);
    return st;
}

/* ---- all of it ---- */

static pennon_status cut_stretches(struct finding *f, uint64_t *total, pennon_error *err)
{
    struct merge_found *out = f->out;
    struct snapshot *s = f->p->s;
    *total = 0;
    for (size_t i = 0; i < s->n_fragments; i++) {
        uint64_t rows;
        TRY_RETURN(fragment_physical_rows(f->c, s, &s->fragments[i], file_cache_length, f->files, &rows, err));
        for (uint64_t at = 0; at < rows; at += STRETCH_ROWS) {
            TRY_RETURN(mem_grow(f->c->mem, &out->stretches, &out->cap_stretches, out->n_stretches, sizeof *out->stretches,
                                SIZE_MAX / 256, err));
            out->stretches[out->n_stretches++] =
                (struct merge_stretch){.fragment = (uint32_t)i, .start = at, .end = min_u64(rows, at + STRETCH_ROWS)};
        }
        *total += rows;
    }
    return PENNON_OK;
}

static pennon_status probe(struct finding *f, uint64_t total, pennon_error *err)
{
    const size_t wave = (size_t)f->c->threads * WAVE;
    for (f->wave = 0; f->wave < f->out->n_stretches; f->wave += wave) {
        const size_t n = (size_t)min_u64(wave, f->out->n_stretches - f->wave);
        TRY_RETURN(call_check(f->c, err));
        TRY_RETURN(pool_parallel(call_pool(f->c), f->c->threads, n, look_at_stretch, f, err));
        call_progress(f->c, f->out->looked_at, total * f->out->passes);
    }
    return PENNON_OK;
}

/* Source rows of the keys that were found. */
static void mark_matched(struct finding *f)
{
    const struct join_table *t = &f->table;
    if (f->out->matched == NULL) return;
    for (uint32_t e = 0; e < t->n; e++) {
        if (!atomic_load_explicit(&t->hit[e], memory_order_relaxed)) continue;
        for (uint32_t row = t->first[e]; row != JOIN_NONE; row = join_table_next(t, row)) bit_set(f->out->matched, row);
    }
}

static pennon_status collect_pairs(struct finding *f, pennon_error *err)
{
    struct merge_found *out = f->out;
    size_t n = 0;
    for (size_t i = 0; i < out->n_stretches; i++) n += out->stretches[i].n_pairs;
    out->pair_block = block_new(f->c->mem, (n + 1) * sizeof *out->pairs, err);
    if (out->pair_block == NULL) return err->code;
    out->pairs = (struct merge_pair *)(void *)out->pair_block->data;
    for (size_t i = 0; i < out->n_stretches; i++) {
        struct merge_stretch *s = &out->stretches[i];
        if (s->n_pairs > 0) memcpy(out->pairs + out->n_pairs, s->pairs, s->n_pairs * sizeof *s->pairs);
        out->n_pairs += s->n_pairs;
        mem_free(f->c->mem, s->pairs);
        s->pairs = NULL;
        s->n_pairs = s->cap_pairs = 0;
    }
    return PENNON_OK;
}

/* Of the pairs that the condition keeps: several for one row are ambiguous, or the first of them counts. Pairs are by place, then by row. */
static pennon_status drop_pairs(struct finding *f, pennon_error *err)
{
    struct merge_found *out = f->out;
    size_t kept = 0, at = 0;
    for (size_t i = 0; i < out->n_pairs; i++) {
        const struct merge_pair pair = out->pairs[i];
        if (!pair.keep) continue;
        if (kept > 0 && out->pairs[kept - 1].place == pair.place) {
            if (f->p->o->duplicates == PENNON_DUPLICATES_FAIL) return refuse(f, pair.row, true, err);
            out->skipped++;
            continue;
        }
        ASSERT(kept == 0 || out->pairs[kept - 1].place < pair.place);
        out->pairs[kept++] = pair;
        const uint64_t fragment = pair.place >> 32, offset = pair.place & UINT32_MAX;
        while (out->stretches[at].fragment < fragment || out->stretches[at].end <= offset) at++;
        TRY_RETURN(mark(f, &out->stretches[at].gone, &out->stretches[at], offset, err));
    }
    out->n_pairs = kept;
    return PENNON_OK;
}

static pennon_status apply_condition(struct finding *f, pennon_error *err)
{
    struct merge_found *out = f->out;
    const int64_t start = clock_monotonic_ns();
    if (f->p->matched == NULL) return PENNON_OK;
    if (out->passes > 1) TRY_RETURN(merge_sort_pairs(f->c, f->rows, PAIRS_BY_PLACE, out->pairs, out->n_pairs, err));
    TRY_RETURN(merge_sort_pairs(f->c, f->rows, PAIRS_BY_CHUNK, out->pairs, out->n_pairs, err));
    TRY_RETURN(merge_condition(f->p, f->c, f->files, f->rows, out->pairs, out->n_pairs, err));
    TRY_RETURN(merge_sort_pairs(f->c, f->rows, PAIRS_BY_PLACE, out->pairs, out->n_pairs, err));
    TRY_RETURN(drop_pairs(f, err));
    out->condition_ns = (uint64_t)(clock_monotonic_ns() - start);
    return PENNON_OK;
}

static pennon_status find_matches(struct finding *f, uint64_t table_bytes, pennon_error *err)
{
    struct merge_found *out = f->out;
    uint64_t total;
    if (f->rows->rows >= UINT32_MAX)
        return error_set(err, PENNON_NOT_SUPPORTED, "merging a source of %" PRIu64 " rows", f->rows->rows);
    TRY_RETURN(cut_stretches(f, &total, err));
    if (merge_inserts(f->p->o)) {
        out->matched = mem_calloc(f->c->mem, (size_t)bitmap_bytes(f->rows->rows) + 1, 1, err);
        if (out->matched == NULL) return err->code;
    }
    choose_passes(f, table_bytes);
    for (f->pass = 0; f->pass < out->passes; f->pass++) {
        const int64_t start = clock_monotonic_ns();
        TRY_RETURN(build(f, err));
        const int64_t built = clock_monotonic_ns();
        TRY_RETURN(probe(f, total, err));
        mark_matched(f);
        out->build_ns += (uint64_t)(built - start);
        out->probe_ns += (uint64_t)(clock_monotonic_ns() - built);
    }
    TRY_RETURN(collect_pairs(f, err));
    /* The table is not needed any more, but for texts of keys, which need none. */
    join_table_free(&f->table);
    return apply_condition(f, err);
}

pennon_status merge_find(const struct merge_plan *p, const struct call *c, struct file_cache *files, const struct row_store *rows,
                         uint64_t table_bytes, struct merge_found *out, pennon_error *err)
{
    struct finding f = {.p = p, .c = c, .one = *c, .files = files, .rows = rows, .out = out};
    memset(out, 0, sizeof *out);
    f.one.threads = 1;
    pennon_status st = find_matches(&f, table_bytes, err);
    join_table_free(&f.table);
    return st;
}

void merge_found_free(const struct call *c, struct merge_found *f)
{
    for (size_t i = 0; i < f->n_stretches; i++) {
        mem_free(c->mem, f->stretches[i].gone);
        mem_free(c->mem, f->stretches[i].seen);
        mem_free(c->mem, f->stretches[i].pairs);
    }
    mem_free(c->mem, f->stretches);
    block_release(f->pair_block);
    mem_free(c->mem, f->matched);
    memset(f, 0, sizeof *f);
}

/* ---- order of pairs ---- */

#define DIGIT_BITS 11u
#define DIGITS (1u << DIGIT_BITS)

static inline uint64_t key_of(const struct row_store *rows, enum pair_order order, const struct merge_pair *p)
{
    if (order == PAIRS_BY_PLACE) return p->place;
    return order == PAIRS_BY_ROW ? p->row : row_store_find(rows, p->row);
}

static bool is_sorted(const struct row_store *rows, enum pair_order order, const struct merge_pair *pairs, size_t n)
{
    if (n < 2 || (order == PAIRS_BY_CHUNK && rows->n_chunks < 2)) return true;
    uint64_t last = key_of(rows, order, &pairs[0]);
    for (size_t i = 1; i < n; i++) {
        const uint64_t key = key_of(rows, order, &pairs[i]);
        if (key < last) return false;
        last = key;
    }
    return true;
}

pennon_status merge_sort_pairs(const struct call *c, const struct row_store *rows, enum pair_order order, struct merge_pair *pairs,
                               size_t n, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct block *spare;
    struct merge_pair *from = pairs, *to;
    if (is_sorted(rows, order, pairs, n)) return PENNON_OK;
    TRY_NEW(spare, block_new(c->mem, n * sizeof *pairs, err)); /* pairs fit already: no overflow */
    to = (struct merge_pair *)(void *)spare->data;
    for (unsigned shift = 0; shift < 64; shift += DIGIT_BITS) {
        size_t starts[DIGITS] = {0}, at = 0;
        TRY(call_check(c, err));
        for (size_t i = 0; i < n; i++) starts[key_of(rows, order, &from[i]) >> shift & (DIGITS - 1)]++;
        if (starts[key_of(rows, order, &from[0]) >> shift & (DIGITS - 1)] == n) continue;
        for (size_t d = 0; d < DIGITS; d++) {
            const size_t count = starts[d];
            starts[d] = at;
            at += count;
        }
        for (size_t i = 0; i < n; i++) to[starts[key_of(rows, order, &from[i]) >> shift & (DIGITS - 1)]++] = from[i];
        struct merge_pair *was = from;
        from = to;
        to = was;
    }
    if (from != pairs) memcpy(pairs, from, n * sizeof *pairs);
done:
    block_release(spare);
    return st;
}
