/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* From repetition and definition levels to validity bitmaps and list offsets.
 *
 * A page declares the kind of each layer, from the leaf outward. Definition levels are numbered in the same direction: a nullable
 * item takes one, a list with nulls or empties one, with both two (null, then empty). A position carries the level of the outermost
 * thing that is null or empty there; 0 is a value. Repetition R (the number of list layers) starts a row, r in 1..R-1 a new list at
 * layer r from the inside, 0 continues the innermost list.
 *
 *   stage 0: positions as stored. Item layers look at the positions that are visible at the stage: those whose level belongs to a
 *            layer before the next list.
 *   list layer: positions with rep 0 continue the list; all others start one, unless their level belongs further out. These
 *            others, with rep - 1, are the positions of the next stage.
 *
 * Source: spec file-format 5. */
#include "encoding/page_read.h"

pennon_status layer_kinds_parse(const uint32_t *layers, size_t n, const struct layer_spec *specs, uint32_t n_specs,
                                struct layer_kinds *out, pennon_error *err)
{
    memset(out, 0, sizeof *out);
    CHECK_FILE_RETURN(n == n_specs && n <= LAYERS_MAX, "page has %zu layers, the column %u", n, n_specs);
    out->n = n_specs;
    uint16_t level = 0;
    bool before_list = true;
    for (uint32_t i = 0; i < n_specs; i++) {
        uint32_t kind = layers[i];
        bool list = specs[i].role == ROLE_LIST;
        bool ok = list ? kind == LAYER_ALL_VALID_LIST || (kind >= LAYER_NULLABLE_LIST && kind <= LAYER_NULL_AND_EMPTY_LIST)
                       : kind == LAYER_ALL_VALID_ITEM || kind == LAYER_NULLABLE_ITEM;
        CHECK_FILE_RETURN(ok, "layer %u has kind %u", i, kind);
        out->kind[i] = (uint8_t)kind;
        if (list && before_list) {
            out->max_visible = level;
            before_list = false;
        }
        if (kind == LAYER_NULLABLE_ITEM || kind == LAYER_NULLABLE_LIST || kind == LAYER_NULL_AND_EMPTY_LIST)
            out->null_level[i] = ++level;
        if (kind == LAYER_EMPTYABLE_LIST || kind == LAYER_NULL_AND_EMPTY_LIST) out->empty_level[i] = ++level;
        out->max_rep = (uint16_t)(out->max_rep + list);
    }
    if (before_list) out->max_visible = level;
    out->max_def = level;
    return PENNON_OK;
}

/* Highest level of the layers from `from` up to the next list: what is visible in that stage. */
static uint16_t stage_visible(const struct layer_kinds *k, uint32_t from, uint16_t below)
{
    uint16_t level = below;
    for (uint32_t i = from; i < k->n; i++) {
        if (k->kind[i] != LAYER_ALL_VALID_ITEM && k->kind[i] != LAYER_NULLABLE_ITEM) break;
        if (k->null_level[i]) level = k->null_level[i];
    }
    return level;
}

static pennon_status grow_validity(struct layer_out *l, uint64_t n, pennon_error *err)
{
    uint64_t bits;
    if (add_overflows(l->length, n, &bits) || bits > (uint64_t)INT64_MAX)
        return error_set(err, PENNON_OVER_BUDGET, "%" PRIu64 " rows", n);
    bool first = !l->has_validity;
    TRY_RETURN(buf_resize_zero(&l->validity, (size_t)bitmap_bytes(bits), err));
    if (first) bits_fill(l->validity.data, 0, l->length, true);
    l->has_validity = true;
    return PENNON_OK;
}

pennon_status layer_append_run(struct layer_out *l, uint64_t n, bool valid, pennon_error *err)
{
    if (l->has_validity || !valid) {
        TRY_RETURN(grow_validity(l, n, err));
        if (valid) bits_fill(l->validity.data, l->length, n, true);
    }
    l->length += n;
    if (!valid) l->nulls += n;
    return PENNON_OK;
}

pennon_status layer_append_bits(struct layer_out *l, const uint8_t *bits, uint64_t first, uint64_t n, pennon_error *err)
{
    uint64_t valid = bits_count(bits, first, n);
    if (valid == n) return layer_append_run(l, n, true, err);
    TRY_RETURN(grow_validity(l, n, err));
    bits_copy(l->validity.data, l->length, bits, first, n);
    l->length += n;
    l->nulls += n - valid;
    return PENNON_OK;
}

static uint64_t visible_positions(const uint16_t *def, uint64_t n, uint16_t visible)
{
    uint64_t seen = 0;
    for (uint64_t i = 0; i < n; i++) seen += def[i] <= visible;
    return seen;
}

/* Validity of a nullable item layer over the visible ones of n positions: valid up to level `limit`. With `step` > 1 each run of
 * that many positions is one item. */
static pennon_status append_items(struct layer_out *l, const uint16_t *def, uint64_t n, uint16_t visible, uint16_t limit,
                                  uint32_t step, pennon_error *err)
{
    uint64_t seen = 0, made = 0;
    TRY_RETURN(grow_validity(l, n, err));
    if (visible == UINT16_MAX && step == 1) {
        bits_from_levels(l->validity.data, l->length, def, limit, n);
        made = n;
    } else {
        for (uint64_t i = 0; i < n; i++) {
            if (def[i] > visible) continue;
            if (seen++ % step) continue;
            if (def[i] <= limit) bit_set(l->validity.data, l->length + made);
            made++;
        }
    }
    l->nulls += made - bits_count(l->validity.data, l->length, made);
    l->length += made;
    l->validity.size = (size_t)bitmap_bytes(l->length);
    return PENNON_OK;
}

/* One list layer. Compacts rep and def to the positions of the next stage. */
struct list_stage {
    uint16_t null_level, empty_level;
    uint16_t inner_visible; /* highest level of things inside the list */
    uint16_t outer_visible; /* highest level that still is a list of this layer, or null above it up to the next list */
};

/* Every list of the layer is there, and none is empty: it ends where the next one starts. Without a branch a position, since where lists
 * start is as good as random. The ends are end[1] and on; gives their number. */
static uint64_t ends_of_starts(uint16_t *rep, uint64_t n, uint64_t items, uint64_t *end)
{
    uint64_t lists = 0;
    for (uint64_t i = 0; i < n; i++) {
        const uint16_t r = rep[i];
        end[lists] = items + i; /* of the list before, when one starts here */
        rep[lists] = (uint16_t)(r - 1);
        lists += r != 0;
    }
    end[lists] = items + n;
    return lists;
}

/* Lists that may be null or empty, or missing. end[0] and null[0] are for what has no list. */
struct list_ends {
    uint64_t kept, lists, items;
    bool bad; /* a position continues no list */
};
static struct list_ends ends_of_levels(const struct list_stage *s, uint16_t *rep, uint16_t *def, uint64_t n, uint64_t items,
                                       uint64_t *end, uint16_t *null)
{
    struct list_ends at = {.items = items};
    for (uint64_t i = 0; i < n; i++) {
        const uint16_t r = rep[i], d = def[i];
        const bool starts = r != 0, inside = d <= s->inner_visible, list = starts && d <= s->outer_visible;
        at.bad |= !starts && (!inside || at.lists == 0);
        at.lists += list;
        at.items += (!starts || list) && inside;
        end[at.lists] = at.items;
        null[at.lists] = list ? !inside && d != s->empty_level : null[at.lists];
        rep[at.kept] = (uint16_t)(r - 1);
        def[at.kept] = d;
        at.kept += starts;
    }
    return at;
}

static pennon_status append_lists(struct layer_out *l, bool large, const struct list_stage *s, uint16_t *rep, uint16_t *def,
                                  uint64_t *n, struct mem *mem, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    uint64_t starts = 0, *end;
    uint16_t *null = NULL;
    for (uint64_t i = 0; i < *n; i++) starts += rep[i] != 0;
    TRY_NEW(end, mem_alloc(mem, (size_t)(starts + 1) * sizeof *end, err));
    if (!def) {
        CHECK_FILE(rep[0] != 0, "levels: position 0 continues no list");
        const uint64_t lists = ends_of_starts(rep, *n, l->items, end);
        ASSERT(lists == starts);
        l->items += *n;
        TRY(layer_append_ends(l, large, end + 1, lists, err));
        TRY(layer_append_run(l, lists, true, err));
        *n = lists;
        goto done;
    }
    TRY_NEW(null, mem_calloc(mem, (size_t)starts + 1, sizeof *null, err));
    const struct list_ends at = ends_of_levels(s, rep, def, *n, l->items, end, null);
    CHECK_FILE(!at.bad, "levels: a position continues no list");
    ASSERT(at.kept == starts && at.lists <= starts);
    TRY(layer_append_ends(l, large, end + 1, at.lists, err));
    TRY(grow_validity(l, at.lists, err));
    bits_from_levels(l->validity.data, l->length, null + 1, 0, at.lists);
    l->nulls += at.lists - bits_count(l->validity.data, l->length, at.lists);
    l->length += at.lists;
    l->items = at.items;
    *n = at.kept;
done:
    mem_free(mem, end);
    mem_free(mem, null);
    return st;
}

pennon_status layer_append_ends(struct layer_out *l, bool large, const uint64_t *ends, uint64_t n, pennon_error *err)
{
    size_t width = large ? 8 : 4;
    if (n == 0) return PENNON_OK;
    if (!large && ends[n - 1] > INT32_MAX) {
        (void)error_set(err, PENNON_INVALID_ARGUMENT,
                        "a batch has more than 2^31 list items for its 32-bit offsets; ask for fewer rows");
        return error_kind(err, "OffsetOverflow");
    }
    TRY_RETURN(buf_grow(&l->offsets, (size_t)n * width, err));
    uint8_t *at = l->offsets.data + l->offsets.size;
    for (uint64_t i = 0; i < n; i++) {
        if (large) {
            memcpy(at + i * 8, &ends[i], 8);
        } else {
            int32_t e = (int32_t)ends[i];
            memcpy(at + i * 4, &e, 4);
        }
    }
    l->offsets.size += (size_t)n * width;
    return PENNON_OK;
}

static pennon_status check_levels(const struct layer_kinds *k, const uint16_t *rep, const uint16_t *def, uint64_t n,
                                  pennon_error *err)
{
    uint16_t max_def = 0, max_rep = 0;
    for (uint64_t i = 0; def && i < n; i++) max_def = def[i] > max_def ? def[i] : max_def;
    CHECK_FILE_RETURN(max_def <= k->max_def, "definition level %u of at most %u", max_def, k->max_def);
    for (uint64_t i = 0; rep && i < n; i++) max_rep = rep[i] > max_rep ? rep[i] : max_rep;
    CHECK_FILE_RETURN(max_rep <= k->max_rep, "repetition level %u of at most %u", max_rep, k->max_rep);
    return PENNON_OK;
}

/* Everything is valid and there are no lists. */
static pennon_status unravel_plain(const struct layer_kinds *k, uint64_t n, struct leaf_out *o, pennon_error *err)
{
    uint64_t count = n;
    for (uint32_t i = 0; i < k->n; i++) {
        if (o->specs[i].role == ROLE_FSL) {
            uint32_t d = o->specs[i].dimension;
            CHECK_FILE_RETURN(count % d == 0, "%" PRIu64 " positions are no whole lists of %u", count, d);
            count /= d;
        }
        TRY_RETURN(layer_append_run(&o->layers[i], count, true, err));
    }
    return PENNON_OK;
}

pennon_status levels_unravel(const struct layer_kinds *k, uint16_t *rep, uint16_t *def, uint64_t n, struct leaf_out *o,
                             uint64_t *values, pennon_error *err)
{
    ASSERT(k->n == o->n_layers);
    *values = n;
    if (n == 0) return PENNON_OK;
    if (k->max_rep && !rep) return error_set(err, PENNON_CORRUPT, "a page with lists has no repetition levels");
    if (k->max_rep == 0) rep = NULL;
    if (k->max_def == 0) def = NULL;
    TRY_RETURN(check_levels(k, rep, def, n, err));
    if (!rep && !def) return unravel_plain(k, n, o, err);
    CHECK_FILE_RETURN(!rep || rep[0] == k->max_rep, "levels: a row starts with repetition %u instead of %u", rep ? rep[0] : 0,
                      k->max_rep);
    uint16_t limit = 0, inner = 0, visible = stage_visible(k, 0, 0);
    uint32_t step = 1;
    if (rep && def) *values = visible_positions(def, n, k->max_visible);
    uint64_t count = n; /* visible positions of the stage */
    for (uint32_t i = 0; i < k->n; i++) {
        struct layer_out *l = &o->layers[i];
        if (o->specs[i].role == ROLE_FSL) step *= o->specs[i].dimension;
        if (o->specs[i].role == ROLE_LIST) {
            inner = visible;
            visible = stage_visible(k, i + 1, (uint16_t)(inner + (k->null_level[i] != 0) + (k->empty_level[i] != 0)));
            struct list_stage s = {k->null_level[i], k->empty_level[i], inner, visible};
            TRY_RETURN(append_lists(l, o->specs[i].large, &s, rep, def, &n, o->mem, err));
            limit = (uint16_t)(inner + (k->null_level[i] != 0) + (k->empty_level[i] != 0));
            count = n;
            continue;
        }
        if (def && visible < k->max_def) count = visible_positions(def, n, visible);
        CHECK_FILE_RETURN(count % step == 0, "%" PRIu64 " positions are no whole lists of %u", count, step);
        if (!k->null_level[i]) {
            TRY_RETURN(layer_append_run(l, count / step, true, err));
            continue;
        }
        TRY_RETURN(append_items(l, def, n, visible < k->max_def ? visible : UINT16_MAX, limit, step, err));
        limit = k->null_level[i];
    }
    return PENNON_OK;
}
