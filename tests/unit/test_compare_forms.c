/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Comparison kernels: every form of this machine, all widths, all lengths around the vectors, odd addresses, against the definition. */
#include "codec_fixture.h"
#include "expr/compare_forms.h"

enum { ROWS_MOST = 260 };

static size_t forms_here(const struct compare_forms *out[2])
{
    size_t n = 0;
    out[n++] = &compare_forms_portable;
#if defined(__x86_64__)
    if (cpu_level() >= CPU_AVX2) out[n++] = &compare_forms_avx2;
#endif
    return n;
}

static uint64_t value_at(const uint8_t *values, size_t width, size_t i)
{
    uint64_t v = 0;
    memcpy(&v, values + i * width, width); /* little-endian machines */
    return v;
}

/* Bits in an order where unsigned comparison is that of the key: floats by sign and magnitude, -0 before 0, NaN outside. */
static uint64_t ordered(uint64_t v, size_t width, enum compare_key key)
{
    const uint64_t top = UINT64_C(1) << (8 * width - 1), all = top | (top - 1);
    if (key == KEY_UNSIGNED) return v;
    if (key == KEY_SIGNED) return v ^ top;
    return (v & top ? ~v : v | top) & all;
}

/* Few different values, and their neighbours, so that all three orders come up. */
static void fill(uint8_t *values, size_t width, size_t n, uint64_t seed)
{
    static const uint64_t edges[] = {0,
                                     1,
                                     UINT64_MAX,
                                     UINT64_C(0x8000000000000000),
                                     UINT64_C(0x7fffffffffffffff),
                                     UINT64_C(0x80008080),
                                     0x7c00,
                                     UINT64_C(0x7ff0000000000001)};
    for (size_t i = 0; i < n; i++) {
        const uint64_t r = scramble(seed + i);
        const uint64_t v = r % 3 ? edges[r / 3 % ARRAY_LEN(edges)] + r / 64 % 2 : r;
        const uint64_t high = r % 5 == 0 ? v >> (64 - 8 * width) : v; /* the edges of narrow values too */
        memcpy(values + i * width, &high, width);
    }
}

enum order { LESS = 1, EQUAL = 2, GREATER = 4 };

static void expect_bits(compare_fn fn, const uint8_t *a, const uint8_t *b, size_t b_step, size_t n, size_t width,
                        enum compare_key key, unsigned wanted)
{
    uint64_t out[ROWS_MOST / 64 + 2];
    memset(out, 0xA5, sizeof out);
    fn(a, b, out, n);
    const size_t words = (n + 63) / 64;
    for (size_t i = 0; i < words * 64; i++) {
        bool want = false;
        if (i < n) {
            const uint64_t x = ordered(value_at(a, width, i), width, key), y = ordered(value_at(b, width, i * b_step), width, key);
            want = ((x < y ? LESS : x > y ? GREATER : EQUAL) & wanted) != 0;
        }
        assert_int_equal(out[i / 64] >> (i % 64) & 1, want);
    }
    assert_true(out[words] == UINT64_C(0xA5A5A5A5A5A5A5A5)); /* no word too many */
}

static void test_expr_compare_forms__orders(void **state)
{
    UNUSED(state);
    const struct compare_forms *forms[2];
    uint8_t a[8 * ROWS_MOST + 1], b[8 * ROWS_MOST + 1];
    for (size_t f = 0, n_forms = forms_here(forms); f < n_forms; f++) {
        for (unsigned log = 0; log < 4; log++) {
            const size_t width = (size_t)1 << log;
            for (size_t n = 0; n <= ROWS_MOST; n += n < 132 ? 1 : 31) {
                fill(a + 1, width, ROWS_MOST, n * 4 + log);
                fill(b + 1, width, ROWS_MOST, ~(n * 4 + log));
                expect_bits(forms[f]->literal_eq[log], a + 1, b + 1, 0, n, width, KEY_UNSIGNED, EQUAL);
                expect_bits(forms[f]->pair_eq[log], a + 1, b + 1, 1, n, width, KEY_UNSIGNED, EQUAL);
                for (enum compare_key key = KEY_SIGNED; key <= KEY_FLOAT; key++) {
                    if (key == KEY_FLOAT && width == 1) continue;
                    expect_bits(forms[f]->literal_lt[key][log], a + 1, b + 1, 0, n, width, key, LESS);
                    expect_bits(forms[f]->literal_gt[key][log], a + 1, b + 1, 0, n, width, key, GREATER);
                    expect_bits(forms[f]->pair_lt[key][log], a + 1, b + 1, 1, n, width, key, LESS);
                }
            }
        }
    }
}

static void test_expr_compare_forms__sizes(void **state)
{
    UNUSED(state);
    const struct compare_forms *forms[2];
    uint32_t narrow[ROWS_MOST + 1] = {0};
    uint64_t wide[ROWS_MOST + 1] = {0}, out[ROWS_MOST / 64 + 2];
    for (size_t i = 0; i < ROWS_MOST; i++) {
        narrow[i + 1] = narrow[i] + (uint32_t)(scramble(i) % 4);
        wide[i + 1] = narrow[i + 1];
    }
    for (size_t f = 0, n_forms = forms_here(forms); f < n_forms; f++) {
        for (size_t n = 0; n <= ROWS_MOST; n++) {
            for (unsigned large = 0; large < 2; large++) {
                forms[f]->sizes[large]((const uint8_t *)(large ? (const void *)wide : (const void *)narrow), 2, out, n);
                for (size_t i = 0; i < (n + 63) / 64 * 64; i++)
                    assert_int_equal(out[i / 64] >> (i % 64) & 1, i < n && wide[i + 1] - wide[i] == 2);
            }
        }
    }
}

static void test_expr_compare_forms__places(void **state)
{
    UNUSED(state);
    const struct compare_forms *forms[2];
    uint64_t out[ROWS_MOST / 64 + 2];
    for (size_t f = 0, n_forms = forms_here(forms); f < n_forms; f++) {
        for (size_t n = 0; n <= ROWS_MOST; n++) {
            uint8_t *text = malloc(n + 1); /* exact, so that a sanitizer sees what is read past it */
            assert_non_null(text);
            for (size_t i = 0; i < n; i++) text[i] = (uint8_t)('a' + scramble(n * 1000 + i) % 2);
            for (size_t size = 1; size <= 20 && size <= n; size++) {
                uint8_t *exact = malloc(n);
                assert_non_null(exact);
                memcpy(exact, text, n);
                const uint8_t *needle = text + scramble(size + n) % (n - size + 1);
                memset(out, 0xA5, sizeof out);
                forms[f]->find(exact, n, needle, size, out);
                for (size_t i = 0; i < (n / 64 + 1) * 64; i++) {
                    const bool want = i + size <= n && memcmp(text + i, needle, size) == 0;
                    assert_int_equal(out[i / 64] >> (i % 64) & 1, want);
                }
                assert_true(out[n / 64 + 1] == UINT64_C(0xA5A5A5A5A5A5A5A5));
                free(exact);
            }
            free(text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expr_compare_forms__orders),
        cmocka_unit_test(test_expr_compare_forms__sizes),
        cmocka_unit_test(test_expr_compare_forms__places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
