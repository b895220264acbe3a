/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Repetition and definition levels: stated examples, and random structures against the definition. */
#include "codec_fixture.h"
#include "encoding/levels.h"

static void assert_levels(const uint16_t *actual, const uint16_t *expected, size_t n)
{
    assert_true((actual != NULL) == (expected != NULL));
    for (size_t i = 0; expected && i < n; i++) {
        if (actual[i] != expected[i]) fail_msg("level %zu is %u, expected %u", i, actual[i], expected[i]);
    }
}

static void test_encoding_levels__flat_column(void **state)
{
    struct fixture *f = *state;
    struct levels l;
    static const uint8_t validity[] = {0x6A};
    struct level_source leaf = {.role = ROLE_ITEM, .offset = 1, .validity = validity};
    struct level_chain chain = {&leaf, 0, 6};
    assert_ok(f, levels_build(f->mem, &chain, 1, 1, &l, &f->err));
    static const uint16_t def[] = {0, 1, 0, 1, 0, 0};
    assert_levels(l.def, def, 6);
    assert_null(l.rep);
    assert_int_equal(l.kinds[0], LAYER_NULLABLE_ITEM);
    assert_int_equal(l.n_values, 6);
    assert_int_equal(l.n_valid, 4);
    levels_free(&l);
    chain.first_row = 4; /* a stretch without nulls */
    chain.n_rows = 2;
    assert_ok(f, levels_build(f->mem, &chain, 1, 1, &l, &f->err));
    assert_null(l.def);
    assert_int_equal(l.kinds[0], LAYER_ALL_VALID_ITEM);
    assert_int_equal(l.n_ranges, 1);
    assert_int_equal(l.ranges[0].start, 4);
    levels_free(&l);
}

/* list<list<int32>>: [[1, 2], [3]], [null, []], null, [], [[4]] */
static void test_encoding_levels__nested_lists(void **state)
{
    struct fixture *f = *state;
    struct levels l;
    static const int32_t inner[] = {0, 2, 3, 3, 3, 4}, outer[] = {0, 2, 4, 4, 4, 5};
    static const uint8_t inner_valid[] = {0x1B}, outer_valid[] = {0x1B};
    const struct level_source sources[] = {
        {.role = ROLE_ITEM},
        {.role = ROLE_LIST, .validity = inner_valid, .offsets = inner},
        {.role = ROLE_LIST, .validity = outer_valid, .offsets = outer},
    };
    const struct level_chain chain = {sources, 0, 5};
    static const uint16_t rep[] = {2, 0, 1, 2, 1, 2, 2, 2}, def[] = {0, 0, 0, 1, 2, 3, 4, 0};
    assert_ok(f, levels_build(f->mem, &chain, 1, 3, &l, &f->err));
    assert_int_equal(l.n_levels, 8);
    assert_levels(l.rep, rep, 8);
    assert_levels(l.def, def, 8);
    assert_int_equal(l.kinds[0], LAYER_ALL_VALID_ITEM);
    assert_int_equal(l.kinds[1], LAYER_NULL_AND_EMPTY_LIST);
    assert_int_equal(l.kinds[2], LAYER_NULL_AND_EMPTY_LIST);
    assert_int_equal(l.max_visible, 0);
    assert_int_equal(l.n_values, 4);
    assert_int_equal(l.n_valid, 4);
    levels_free(&l);
}

/* Values below a null list are not values of the page; offsets need not begin at 0. */
static void test_encoding_levels__garbage_under_null(void **state)
{
    struct fixture *f = *state;
    struct levels l;
    static const int32_t offsets[] = {3, 5, 9, 10};
    static const uint8_t validity[] = {0x05}, leaf_valid[] = {0xF7, 0x03};
    const struct level_source sources[] = {
        {.role = ROLE_ITEM, .validity = leaf_valid},
        {.role = ROLE_LIST, .validity = validity, .offsets = offsets},
    };
    const struct level_chain chain = {sources, 0, 3};
    static const uint16_t rep[] = {1, 0, 1, 1}, def[] = {1, 0, 2, 0};
    assert_ok(f, levels_build(f->mem, &chain, 1, 2, &l, &f->err));
    assert_levels(l.rep, rep, 4);
    assert_levels(l.def, def, 4);
    assert_int_equal(l.n_ranges, 2);
    assert_int_equal(l.ranges[0].start, 3);
    assert_int_equal(l.ranges[0].count, 2);
    assert_int_equal(l.ranges[1].start, 9);
    assert_int_equal(l.max_visible, 1);
    levels_free(&l);
}

/* struct<a> with null structs: the child counts as nullable, the outermost null wins. */
static void test_encoding_levels__null_struct(void **state)
{
    struct fixture *f = *state;
    struct levels l;
    static const uint8_t struct_valid[] = {0x0B}, leaf_valid[] = {0x0D};
    struct level_source sources[] = {
        {.role = ROLE_ITEM, .validity = leaf_valid},
        {.role = ROLE_ITEM, .validity = struct_valid},
    };
    const struct level_chain chain = {sources, 0, 4};
    static const uint16_t def[] = {0, 1, 2, 0};
    assert_ok(f, levels_build(f->mem, &chain, 1, 2, &l, &f->err));
    assert_levels(l.def, def, 4);
    assert_int_equal(l.n_valid, 2);
    levels_free(&l);
    sources[0].validity = NULL;
    assert_ok(f, levels_build(f->mem, &chain, 1, 2, &l, &f->err));
    assert_int_equal(l.kinds[0], LAYER_NULLABLE_ITEM);
    levels_free(&l);
}

/* Fixed size lists of struct multiply the positions; a null one covers all of its items. */
static void test_encoding_levels__fixed_size_list_of_struct(void **state)
{
    struct fixture *f = *state;
    struct levels l;
    static const uint8_t list_valid[] = {0x05}, leaf_valid[] = {0x3E};
    const struct level_source sources[] = {
        {.role = ROLE_ITEM, .validity = leaf_valid},
        {.role = ROLE_ITEM},
        {.role = ROLE_FSL, .dimension = 2, .validity = list_valid},
    };
    const struct level_chain chain = {sources, 0, 3};
    static const uint16_t def[] = {1, 0, 2, 2, 0, 0};
    assert_ok(f, levels_build(f->mem, &chain, 1, 3, &l, &f->err));
    assert_int_equal(l.n_levels, 6);
    assert_int_equal(l.dimension, 2);
    assert_levels(l.def, def, 6);
    levels_free(&l);
    const struct level_source in_list[] = {sources[0], sources[2], {.role = ROLE_LIST, .offsets = (const int32_t[]){0, 1, 3}}};
    const struct level_chain mixed = {in_list, 0, 2};
    assert_int_equal(levels_build(f->mem, &mixed, 1, 3, &l, &f->err), PENNON_NOT_SUPPORTED);
    levels_free(&l);
}

static void test_encoding_levels__null_type(void **state)
{
    struct fixture *f = *state;
    struct levels l;
    const struct level_source leaf = {.role = ROLE_ITEM, .all_null = true};
    const struct level_chain chain = {&leaf, 0, 3};
    static const uint16_t def[] = {1, 1, 1};
    assert_ok(f, levels_build(f->mem, &chain, 1, 1, &l, &f->err));
    assert_levels(l.def, def, 3);
    assert_int_equal(l.n_valid, 0);
    levels_free(&l);
}

/* ---- random structures ---- */

#define SLOTS 400u

struct random_layer {
    uint8_t validity[SLOTS / 8 + 8];
    int32_t offsets[SLOTS + 40];
};

struct oracle {
    const struct level_source *sources;
    const struct levels *l;
    size_t at;
    uint64_t values[4 * SLOTS];
    size_t n_values;
    uint16_t null_level[LAYERS_MAX], empty_level[LAYERS_MAX], number[LAYERS_MAX];
};

static void oracle_position(struct oracle *o, unsigned rep, unsigned def, bool visible, uint64_t slot)
{
    assert_true(o->at < o->l->n_levels);
    if (o->l->rep) assert_int_equal(o->l->rep[o->at], rep);
    if (o->l->def) assert_int_equal(o->l->def[o->at], def);
    if (!o->l->def) assert_int_equal(def, 0);
    o->at++;
    if (visible) o->values[o->n_values++] = slot;
}

/* One slot of a layer, written as the definition says it; `def` is that of the outermost null so far. */
static void oracle_slot(struct oracle *o, unsigned layer, uint64_t slot, unsigned rep, unsigned def)
{
    const struct level_source *s = &o->sources[layer];
    const bool valid = !s->validity || bit_get(s->validity, s->offset + slot);
    if (def == 0 && !valid) def = o->null_level[layer];
    if (layer == 0) {
        oracle_position(o, rep, def, true, slot);
    } else if (s->role == ROLE_ITEM) {
        oracle_slot(o, layer - 1, s->offset + slot, rep, def);
    } else {
        const int32_t *offsets = (const int32_t *)s->offsets + s->offset + slot;
        if (def == 0 && offsets[0] == offsets[1]) def = o->empty_level[layer];
        if (def != 0) {
            oracle_position(o, rep, def, false, 0);
            return;
        }
        for (int32_t i = offsets[0]; i < offsets[1]; i++) {
            oracle_slot(o, layer - 1, (uint64_t)i, i == offsets[0] ? rep : o->number[layer] - 1u, 0);
        }
    }
}

static void oracle_check(const struct level_chain *chains, size_t n_chains, const struct levels *l)
{
    static struct oracle o;
    memset(&o, 0, sizeof o);
    o.l = l;
    uint16_t level = 0, lists = 0;
    for (unsigned k = 0; k < l->n_layers; k++) {
        if (chains[0].sources[k].role == ROLE_LIST) o.number[k] = ++lists;
        const uint32_t kind = l->kinds[k];
        if (kind == 3 || kind == 4 || kind == 6) o.null_level[k] = ++level;
        if (kind == 5 || kind == 6) o.empty_level[k] = ++level;
    }
    size_t range = 0;
    uint64_t in_range = 0;
    for (size_t c = 0; c < n_chains; c++) {
        o.sources = chains[c].sources;
        o.n_values = 0;
        for (uint64_t r = 0; r < chains[c].n_rows; r++) oracle_slot(&o, l->n_layers - 1, chains[c].first_row + r, lists, 0);
        for (size_t i = 0; i < o.n_values; i++) {
            assert_true(range < l->n_ranges);
            assert_int_equal(l->ranges[range].chain, c);
            assert_int_equal(l->ranges[range].start + in_range, o.values[i]);
            if (++in_range == l->ranges[range].count) range++, in_range = 0;
        }
    }
    assert_int_equal(range, l->n_ranges);
    assert_int_equal(o.at, l->n_levels);
}

/* A layer whose nulls, empties and slots under nulls are random; returns the slots that its child needs. */
static uint64_t layer_fill(struct random_layer *r, struct level_source *s, uint64_t slots, uint64_t seed)
{
    *s = (struct level_source){.role = seed % 2 ? ROLE_LIST : ROLE_ITEM, .offset = seed % 3};
    for (size_t i = 0; i < sizeof r->validity; i++) r->validity[i] = (uint8_t)(scramble(seed + i) | scramble(seed * 3 + i));
    if (scramble(seed) % 3 != 0) s->validity = r->validity;
    if (s->role == ROLE_ITEM) return slots + s->offset;
    int32_t at = (int32_t)(seed % 5);
    const unsigned longest = scramble(seed + 1) % 2 ? 3 : 1;
    for (uint64_t i = 0; i <= slots + s->offset; i++) {
        r->offsets[i] = at;
        const uint64_t length = scramble(seed * 7 + i) % (longest + 1);
        at += (int32_t)(longest == 1 || (uint64_t)at + length + 16 > SLOTS ? 1 - (longest == 3) : length);
    }
    s->offsets = r->offsets;
    return (uint64_t)r->offsets[slots + s->offset];
}

static void test_encoding_levels__random_structures(void **state)
{
    struct fixture *f = *state;
    for (uint64_t seed = 1; seed <= 600; seed++) {
        static struct random_layer layers[2][4];
        struct level_source sources[2][4];
        struct level_chain chains[2];
        struct levels l;
        const unsigned n_layers = 1 + scramble(seed) % 4;
        for (unsigned c = 0; c < 2; c++) {
            const uint64_t first = scramble(seed + c) % 4, rows = 1 + scramble(seed * 5 + c) % 60;
            uint64_t slots = first + rows;
            for (unsigned k = n_layers; k-- > 0;) {
                /* Roles must be those of the first chain: the seed's parity decides. */
                uint64_t layer_seed = scramble(seed * 100 + k) % 1000 + 2 * c * 1000;
                if (k == 0) layer_seed &= ~UINT64_C(1);
                slots = layer_fill(&layers[c][k], &sources[c][k], slots, layer_seed);
                assert_true(slots < SLOTS);
            }
            chains[c] = (struct level_chain){sources[c], first, rows};
        }
        assert_ok(f, levels_build(f->mem, chains, 2, n_layers, &l, &f->err));
        oracle_check(chains, 2, &l);
        uint64_t valid = l.n_values;
        if (l.def) {
            valid = 0;
            for (uint64_t i = 0; i < l.n_levels; i++) valid += l.def[i] == 0;
        }
        assert_int_equal(l.n_valid, valid);
        levels_free(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_encoding_levels__flat_column),
        FIXTURE_TEST(test_encoding_levels__nested_lists),
        FIXTURE_TEST(test_encoding_levels__garbage_under_null),
        FIXTURE_TEST(test_encoding_levels__null_struct),
        FIXTURE_TEST(test_encoding_levels__fixed_size_list_of_struct),
        FIXTURE_TEST(test_encoding_levels__null_type),
        FIXTURE_TEST(test_encoding_levels__random_structures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
