/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Repetition and definition levels out of Arrow validity and offsets.
 *
 * Two walks over the layers, from the top-level array to the leaf:
 *
 * 1. Kinds. The reachable slots of each layer as spans, layer by layer: a null struct ends the spans of its children, a list gives
 *    the spans of its items. What is seen on the way (nulls, empty lists) decides the kind of each layer, and the kinds decide the
 *    numbers of the levels.
 * 2. Levels. A descent that writes one position for every leaf slot, null or empty list, and null struct above a list. It goes
 *    by runs: of valid slots, of null slots, of lists with items, so that a plain column costs a few fills.
 *
 * As official does, the nulls of a struct count as nulls of its direct children too, so a child of a struct with nulls is NULLABLE.
 * Columns without lists take a shorter way: a position a slot, and each layer writes its nulls over those of the layers inside.
 *
 * Repetition of the first item of a list is that of the list, of its other items one less than the list's own number counted
 * from the inside. A position carries the level of the outermost thing that is null or empty there.
 *
 * Source: spec file-format 5.1 to 5.4. */
#include "encoding/levels.h"

struct span {
    size_t chain;
    uint64_t start;
    uint64_t count;
};

struct spans {
    struct span *items;
    size_t n, cap;
};

struct builder_state {
    struct levels *out;
    const struct level_chain *chains;
    size_t chain;          /* the one that is walked */
    uint64_t valid_before; /* valid values of the chains before it */
    pennon_error *err;
    uint16_t null_level[LAYERS_MAX];
    uint16_t empty_level[LAYERS_MAX];
    uint16_t number[LAYERS_MAX];       /* of a list layer, counted from the inside, 1 = innermost; else 0 */
    uint32_t lists_inside[LAYERS_MAX]; /* list layers nearer to the leaf */
};

static const struct level_source *source_of(const struct builder_state *b, uint32_t layer)
{
    return &b->chains[b->chain].sources[layer];
}

static uint64_t list_offset(const struct level_source *s, uint64_t slot)
{
    const uint8_t *p = s->offsets;
    if (s->large) {
        int64_t v;
        memcpy(&v, p + (s->offset + slot) * 8, 8);
        return (uint64_t)v;
    }
    int32_t v;
    memcpy(&v, p + (s->offset + slot) * 4, 4);
    return (uint64_t)v;
}

/* Slots from `slot` on that are alike in validity, at most n; *valid says which. */
static uint64_t validity_run(const struct level_source *s, uint64_t slot, uint64_t n, bool *valid)
{
    if (s->all_null || !s->validity) {
        *valid = !s->all_null;
        return n;
    }
    *valid = bit_get(s->validity, s->offset + slot);
    return bits_run(s->validity, s->offset + slot, n);
}

/* ---- walk 1: kinds ---- */

static pennon_status spans_add(struct mem *mem, struct spans *spans, size_t chain, uint64_t start, uint64_t count,
                               pennon_error *err)
{
    if (count == 0) return PENNON_OK;
    if (spans->n > 0) {
        struct span *last = &spans->items[spans->n - 1];
        if (last->chain == chain && last->start + last->count == start) {
            last->count += count;
            return PENNON_OK;
        }
    }
    TRY_RETURN(mem_grow(mem, &spans->items, &spans->cap, spans->n, sizeof *spans->items, SIZE_MAX / sizeof *spans->items, err));
    spans->items[spans->n++] = (struct span){chain, start, count};
    return PENNON_OK;
}

/* Items of n valid lists. A list whose offsets are equal is empty; any other ends the search for one. */
static pennon_status list_items(struct mem *mem, const struct level_source *s, struct span lists, struct spans *inner,
                                bool *has_empty, pennon_error *err)
{
    for (uint64_t i = 0; !*has_empty && i < lists.count; i++) {
        *has_empty = list_offset(s, lists.start + i) == list_offset(s, lists.start + i + 1);
    }
    const uint64_t first = list_offset(s, lists.start);
    return spans_add(mem, inner, lists.chain, first, list_offset(s, lists.start + lists.count) - first, err);
}

/* What one span of a layer says about the kind, and the spans of the layer inside. */
static pennon_status span_scan(struct mem *mem, const struct level_source *s, struct span span, struct spans *inner, bool *has_null,
                               bool *has_empty, pennon_error *err)
{
    for (uint64_t done = 0; done < span.count;) {
        bool valid = true;
        const uint64_t slot = span.start + done;
        const uint64_t run = validity_run(s, slot, span.count - done, &valid);
        done += run;
        if (!valid) {
            *has_null = true;
        } else if (s->role == ROLE_LIST) {
            TRY_RETURN(list_items(mem, s, (struct span){span.chain, slot, run}, inner, has_empty, err));
        } else if (inner) {
            const uint64_t dimension = s->role == ROLE_FSL ? s->dimension : 1;
            TRY_RETURN(spans_add(mem, inner, span.chain, (s->offset + slot) * dimension, run * dimension, err));
        } else if (*has_null) {
            return PENNON_OK; /* the leaf has nothing more to say */
        }
    }
    return PENNON_OK;
}

static uint32_t kind_of(enum layer_role role, bool has_null, bool has_empty)
{
    if (role != ROLE_LIST) return has_null ? LAYER_NULLABLE_ITEM : LAYER_ALL_VALID_ITEM;
    if (has_null) return has_empty ? LAYER_NULL_AND_EMPTY_LIST : LAYER_NULLABLE_LIST;
    return has_empty ? LAYER_EMPTYABLE_LIST : LAYER_ALL_VALID_LIST;
}

static pennon_status kinds_find(const struct level_chain *chains, size_t n_chains, struct levels *l, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct spans outer = {0}, inner = {0};
    bool pushed = false; /* the layer outside is a struct with nulls */
    for (size_t c = 0; c < n_chains; c++) TRY(spans_add(l->mem, &outer, c, chains[c].first_row, chains[c].n_rows, err));
    for (uint32_t k = l->n_layers; k-- > 0;) {
        const struct level_source *any = &chains[0].sources[k];
        bool has_null = pushed, has_empty = false;
        inner.n = 0;
        for (size_t i = 0; i < outer.n; i++) {
            const struct level_source *s = &chains[outer.items[i].chain].sources[k];
            ASSERT(s->role == any->role && s->dimension == any->dimension);
            TRY(span_scan(l->mem, s, outer.items[i], k > 0 ? &inner : NULL, &has_null, &has_empty, err));
        }
        l->kinds[k] = kind_of(any->role, has_null, has_empty);
        pushed = has_null && any->role == ROLE_ITEM;
        const struct spans swap = outer;
        outer = inner;
        inner = swap;
    }
done:
    mem_free(l->mem, outer.items);
    mem_free(l->mem, inner.items);
    return st;
}

/* Number the levels and the list layers, inside out. */
static pennon_status levels_number(struct builder_state *b, const struct level_source *sources, pennon_error *err)
{
    struct levels *l = b->out;
    uint16_t level = 0;
    l->dimension = 1;
    for (uint32_t k = 0; k < l->n_layers; k++) {
        b->lists_inside[k] = l->max_rep;
        if (sources[k].role == ROLE_LIST) {
            if (l->max_rep == 0) l->max_visible = level;
            b->number[k] = ++l->max_rep;
        } else if (sources[k].role == ROLE_FSL) {
            l->dimension *= sources[k].dimension;
        }
        const uint32_t kind = l->kinds[k];
        if (kind == LAYER_NULLABLE_ITEM || kind == LAYER_NULLABLE_LIST || kind == LAYER_NULL_AND_EMPTY_LIST) {
            b->null_level[k] = ++level;
        }
        if (kind == LAYER_EMPTYABLE_LIST || kind == LAYER_NULL_AND_EMPTY_LIST) b->empty_level[k] = ++level;
    }
    l->max_def = level;
    if (l->max_rep == 0) l->max_visible = level;
    if (l->max_rep > 0 && l->dimension != 1) {
        return error_set(err, PENNON_NOT_SUPPORTED, "fixed size lists of struct together with lists");
    }
    return PENNON_OK;
}

/* ---- walk 2: levels ---- */

/* Room for n more positions. */
static pennon_status positions_reserve(struct builder_state *b, uint64_t n)
{
    struct levels *l = b->out;
    size_t bytes = 0;
    if (n > SIZE_MAX || size_mul_overflows((size_t)n, sizeof(uint16_t), &bytes)) {
        return error_set(b->err, PENNON_OVER_BUDGET, "%" PRIu64 " levels in one page", n);
    }
    if (l->max_rep > 0) TRY_RETURN(buf_grow(&l->rep_buf, bytes, b->err));
    if (l->max_def > 0) TRY_RETURN(buf_grow(&l->def_buf, bytes, b->err));
    return PENNON_OK;
}

static void fill_u16(uint16_t *to, uint64_t n, uint16_t v)
{
    for (uint64_t i = 0; i < n; i++) to[i] = v;
}

/* Append repetition for n positions, the first `first` and the others `rest`. The room is there. */
static void rep_append(struct levels *l, uint64_t n, uint16_t first, uint16_t rest)
{
    if (l->max_rep == 0 || n == 0) return;
    uint16_t *to = (uint16_t *)(void *)(l->rep_buf.data + l->rep_buf.size);
    to[0] = first;
    fill_u16(to + 1, n - 1, rest);
    l->rep_buf.size += n * sizeof *to;
}

static void def_append(struct levels *l, uint64_t n, uint16_t level)
{
    if (l->max_def == 0 || n == 0) return;
    fill_u16((uint16_t *)(void *)(l->def_buf.data + l->def_buf.size), n, level);
    l->def_buf.size += n * sizeof(uint16_t);
}

/* Write `level` where the bit is clear; where it is set write 0, or with `keep` leave what is there. Returns the set bits. */
static uint64_t levels_from_bits(uint16_t *to, const uint8_t *bits, uint64_t bit, uint64_t n, uint16_t level, bool keep)
{
    uint64_t set = 0;
    for (uint64_t done = 0; done < n;) {
        uint8_t valid[256];
        const uint64_t step = min_u64(sizeof valid, n - done);
        uint16_t *part = to + done;
        bits_to_bytes(valid, bits, bit + done, step);
        for (uint64_t i = 0; i < step; i++) {
            const uint16_t null_mask = (uint16_t)(valid[i] - 1); /* all ones where null */
            const uint16_t kept = keep ? part[i] : 0;
            part[i] = (uint16_t)((kept & (uint16_t)~null_mask) | (level & null_mask));
            set += valid[i];
        }
        done += step;
    }
    return set;
}

static pennon_status range_append(struct builder_state *b, uint64_t start, uint64_t count)
{
    struct levels *l = b->out;
    if (count == 0) return PENNON_OK;
    l->n_values += count;
    if (l->n_ranges > 0) {
        struct level_range *last = &l->ranges[l->n_ranges - 1];
        if (last->chain == b->chain && last->start + last->count == start) {
            last->count += count;
            return PENNON_OK;
        }
    }
    TRY_RETURN(mem_grow(l->mem, &l->ranges, &l->cap_ranges, l->n_ranges, sizeof *l->ranges, SIZE_MAX / sizeof *l->ranges, b->err));
    l->ranges[l->n_ranges++] = (struct level_range){b->chain, start, count};
    return PENNON_OK;
}

/* Leaf slots with their own validity. */
static pennon_status emit_leaf(struct builder_state *b, uint64_t start, uint64_t n, uint16_t first, uint16_t rest)
{
    struct levels *l = b->out;
    const struct level_source *s = source_of(b, 0);
    TRY_RETURN(positions_reserve(b, n));
    TRY_RETURN(range_append(b, start, n));
    rep_append(l, n, first, rest);
    l->n_levels += n;
    if (s->all_null || !s->validity || l->max_def == 0) {
        def_append(l, n, s->all_null ? b->null_level[0] : 0);
        if (!s->all_null) l->n_valid += n;
    } else {
        uint16_t *to = (uint16_t *)(void *)(l->def_buf.data + l->def_buf.size);
        l->n_valid += levels_from_bits(to, s->validity, s->offset + start, n, b->null_level[0], false);
        l->def_buf.size += n * sizeof *to;
    }
    return PENNON_OK;
}

/* n slots of `layer` that lie below a null struct or fixed size list of level `def`; there is no list on the way to the leaf. */
static pennon_status emit_null_slots(struct builder_state *b, uint32_t layer, uint64_t start, uint64_t n, uint16_t def,
                                     uint16_t first, uint16_t rest)
{
    for (uint32_t k = layer; k > 0; k--) {
        const struct level_source *s = source_of(b, k);
        ASSERT(s->role != ROLE_LIST);
        const uint64_t dimension = s->role == ROLE_FSL ? s->dimension : 1;
        start = (s->offset + start) * dimension;
        n *= dimension;
    }
    TRY_RETURN(positions_reserve(b, n));
    TRY_RETURN(range_append(b, start, n));
    rep_append(b->out, n, first, rest);
    def_append(b->out, n, def);
    b->out->n_levels += n;
    return PENNON_OK;
}

/* n positions that have no value. */
static pennon_status emit_structural(struct builder_state *b, uint64_t n, uint16_t def, uint16_t first, uint16_t rest)
{
    ASSERT(def > b->out->max_visible);
    TRY_RETURN(positions_reserve(b, n));
    rep_append(b->out, n, first, rest);
    def_append(b->out, n, def);
    b->out->n_levels += n;
    return PENNON_OK;
}

static pennon_status emit_slots(struct builder_state *b, uint32_t layer, uint64_t start, uint64_t n, uint16_t first, uint16_t rest);

/* Lists of a run that have items, the leaf directly inside: the items are one stretch, and each list marks its first. */
static pennon_status emit_flat_lists(struct builder_state *b, const struct level_source *s, uint64_t start, uint64_t n,
                                     uint16_t first, uint16_t rest)
{
    const uint64_t begin = list_offset(s, start);
    const size_t at = b->out->rep_buf.size;
    TRY_RETURN(emit_leaf(b, begin, list_offset(s, start + n) - begin, first, 0));
    uint16_t *rep = (uint16_t *)(void *)(b->out->rep_buf.data + at);
    for (uint64_t i = 1; i < n; i++) rep[list_offset(s, start + i) - begin] = rest;
    return PENNON_OK;
}

/* Valid lists: runs of lists with items, and single empty ones. */
static pennon_status emit_lists(struct builder_state *b, uint32_t layer, uint64_t start, uint64_t n, uint16_t first, uint16_t rest)
{
    const struct level_source *s = source_of(b, layer);
    const uint16_t inner_rest = (uint16_t)(b->number[layer] - 1);
    for (uint64_t i = 0; i < n;) {
        const uint64_t begin = list_offset(s, start + i);
        const uint64_t end = list_offset(s, start + i + 1);
        const uint16_t rep = i == 0 ? first : rest;
        if (begin == end) {
            TRY_RETURN(emit_structural(b, 1, b->empty_level[layer], rep, rep));
            i++;
        } else if (layer == 1) {
            uint64_t run = 1;
            while (i + run < n && list_offset(s, start + i + run) != list_offset(s, start + i + run + 1)) run++;
            TRY_RETURN(emit_flat_lists(b, s, start + i, run, rep, rest));
            i += run;
        } else {
            TRY_RETURN(emit_slots(b, layer - 1, begin, end - begin, rep, inner_rest));
            i++;
        }
    }
    return PENNON_OK;
}

/* All positions of n slots of a layer. Repetition: the first slot has `first`, the others `rest`. */
static pennon_status emit_slots(struct builder_state *b, uint32_t layer, uint64_t start, uint64_t n, uint16_t first, uint16_t rest)
{
    if (layer == 0) return emit_leaf(b, start, n, first, rest);
    const struct level_source *s = source_of(b, layer);
    for (uint64_t done = 0; done < n;) {
        bool valid = true;
        const uint64_t slot = start + done;
        const uint64_t run = validity_run(s, slot, n - done, &valid);
        const uint16_t rep = done == 0 ? first : rest;
        if (!valid && (s->role == ROLE_LIST || b->lists_inside[layer] > 0)) {
            TRY_RETURN(emit_structural(b, run, b->null_level[layer], rep, rest));
        } else if (!valid) {
            TRY_RETURN(emit_null_slots(b, layer, slot, run, b->null_level[layer], rep, rest));
        } else if (s->role == ROLE_LIST) {
            TRY_RETURN(emit_lists(b, layer, slot, run, rep, rest));
        } else {
            const uint64_t dimension = s->role == ROLE_FSL ? s->dimension : 1;
            TRY_RETURN(emit_slots(b, layer - 1, (s->offset + slot) * dimension, run * dimension, rep, rest));
        }
        done += run;
    }
    return PENNON_OK;
}

/* Structs alone above the leaf: a position a slot; the nulls of each layer go over those inside. */
static pennon_status emit_items(struct builder_state *b, uint64_t start, uint64_t n)
{
    struct levels *l = b->out;
    const size_t at = l->def_buf.size;
    uint64_t slot = start;
    for (uint32_t k = l->n_layers - 1; k > 0; k--) slot += source_of(b, k)->offset;
    TRY_RETURN(emit_leaf(b, slot, n, 0, 0));
    if (l->max_def == 0 || n == 0) return PENNON_OK;
    uint16_t *def = (uint16_t *)(void *)(l->def_buf.data + at);
    for (uint32_t k = 1; k < l->n_layers; k++) {
        const struct level_source *s = source_of(b, k);
        slot -= s->offset;
        if (s->all_null) {
            fill_u16(def, n, b->null_level[k]);
        } else if (s->validity) {
            (void)levels_from_bits(def, s->validity, s->offset + slot, n, b->null_level[k], true);
        }
    }
    /* The leaf counted its own nulls only. */
    uint64_t valid = 0;
    for (uint64_t i = 0; i < n; i++) valid += def[i] == 0;
    l->n_valid = b->valid_before + valid;
    return PENNON_OK;
}

static bool only_items(const struct level_source *sources, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        if (sources[k].role != ROLE_ITEM) return false;
    }
    return true;
}

pennon_status levels_build(struct mem *mem, const struct level_chain *chains, size_t n_chains, uint32_t n_layers,
                           struct levels *out, pennon_error *err)
{
    ASSERT(n_chains > 0 && n_layers > 0 && n_layers <= LAYERS_MAX);
    ASSERT(chains[0].sources[0].role == ROLE_ITEM);
    struct builder_state b = {.out = out, .chains = chains, .err = err};
    memset(out, 0, sizeof *out);
    out->mem = mem;
    out->n_layers = n_layers;
    buf_init(&out->rep_buf, mem, BUF_NO_LIMIT);
    buf_init(&out->def_buf, mem, BUF_NO_LIMIT);
    TRY_RETURN(kinds_find(chains, n_chains, out, err));
    TRY_RETURN(levels_number(&b, chains[0].sources, err));
    const bool flat = only_items(chains[0].sources, n_layers);
    for (size_t c = 0; c < n_chains; c++) {
        b.chain = c;
        b.valid_before = out->n_valid;
        out->n_rows += chains[c].n_rows;
        if (flat) {
            TRY_RETURN(emit_items(&b, chains[c].first_row, chains[c].n_rows));
        } else {
            TRY_RETURN(emit_slots(&b, n_layers - 1, chains[c].first_row, chains[c].n_rows, out->max_rep, out->max_rep));
        }
    }
    if (out->max_rep > 0) out->rep = (uint16_t *)(void *)out->rep_buf.data;
    if (out->max_def > 0) out->def = (uint16_t *)(void *)out->def_buf.data;
    ASSERT(out->max_rep > 0 || out->n_levels == out->n_values);
    return PENNON_OK;
}

void levels_free(struct levels *l)
{
    buf_free(&l->rep_buf);
    buf_free(&l->def_buf);
    mem_free(l->mem, l->ranges);
    l->ranges = NULL;
    l->rep = l->def = NULL;
    l->n_ranges = 0;
}
