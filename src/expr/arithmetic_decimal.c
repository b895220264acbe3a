/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Arithmetic of decimals: integers with a scale.
 *
 *   + -   both sides are brought to the result's scale
 *   *     the result's scale is the sum of both
 *   /     the quotient truncates; the left side is brought to result scale + right scale
 *   %     both sides are brought to the result's scale; the sign is the dividend's
 * The binder says the result's type. What does not fit the integer behind it is a fault; digits past the precision are not, as in official.
 * Up to 128 bits the machine's integers compute; decimal256 has words of its own, slowly.
 * Source: spec expressions 4, 6. */
#include "expr/evaluate.h"

__extension__ typedef __int128 i128;
__extension__ typedef unsigned __int128 u128;

/* ------------------------------------------------------------------------------------------------------------ 128 bits */

static i128 load_i128(const uint8_t *p, size_t width)
{
    struct wide w = wide_load(p, width);
    return (i128)((u128)w.word[1] << 64 | w.word[0]);
}

static void store_i128(i128 v, uint8_t *p, size_t width)
{
    uint64_t fill = v < 0 ? UINT64_MAX : 0;
    struct wide w = {{(uint64_t)v, (uint64_t)((u128)v >> 64), fill, fill}};
    wide_store(&w, p, width);
}

static bool fits_width(i128 v, size_t width)
{
    if (width == 16) return true;
    i128 most = ((i128)1 << (width * 8 - 1)) - 1;
    return v <= most && v >= -most - 1;
}

static bool power_i128(int32_t n, i128 *out)
{
    *out = 1;
    if (n > 38) return false;
    for (int32_t i = 0; i < n; i++) *out *= 10;
    return true;
}

/* What each side is multiplied by before the operation. */
struct factors {
    int32_t a, b; /* powers of ten */
};

static struct factors factors_of(enum ast_arith op, const struct arrow_type *a, const struct arrow_type *b,
                                 const struct arrow_type *r)
{
    struct factors f = {0, 0};
    if (op == AST_MULTIPLY) return f;
    if (op == AST_DIVIDE) {
        int32_t power = r->scale - a->scale + b->scale;
        f.a = power > 0 ? power : 0;
        f.b = power < 0 ? -power : 0;
        return f;
    }
    f.a = r->scale - a->scale;
    f.b = r->scale - b->scale;
    return f;
}

static enum arithmetic_fault operate_i128(enum ast_arith op, i128 x, i128 y, i128 *z)
{
    switch (op) {
    case AST_ADD: return __builtin_add_overflow(x, y, z) ? ARITHMETIC_OVERFLOW : ARITHMETIC_FINE;
    case AST_SUBTRACT: return __builtin_sub_overflow(x, y, z) ? ARITHMETIC_OVERFLOW : ARITHMETIC_FINE;
    case AST_MULTIPLY: return __builtin_mul_overflow(x, y, z) ? ARITHMETIC_OVERFLOW : ARITHMETIC_FINE;
    default: break;
    }
    if (y == 0) return ARITHMETIC_ZERO;
    if (y == -1) { /* the least number by -1 is no trap of the machine's here */
        if (op == AST_MODULO) {
            *z = 0;
            return ARITHMETIC_FINE;
        }
        return __builtin_sub_overflow((i128)0, x, z) ? ARITHMETIC_OVERFLOW : ARITHMETIC_FINE;
    }
    *z = op == AST_DIVIDE ? x / y : x % y;
    return ARITHMETIC_FINE;
}

/* ------------------------------------------------------------------------------------------------------------ 256 bits */

static struct wide wide_turned(struct wide v)
{
    struct wide r;
    uint64_t carry = 1;
    for (int i = 0; i < 4; i++) carry = __builtin_add_overflow(~v.word[i], carry, &r.word[i]);
    return r;
}

static struct wide magnitude(struct wide v, bool *negative)
{
    *negative = wide_negative(&v);
    return *negative ? wide_turned(v) : v;
}

/* A magnitude with its sign; false when it does not fit. */
static bool with_sign(struct wide m, bool negative, struct wide *out)
{
    *out = negative ? wide_turned(m) : m;
    bool zero = (m.word[0] | m.word[1] | m.word[2] | m.word[3]) == 0;
    return zero || wide_negative(out) == negative;
}

/* False when the sum does not fit. */
static bool add_signed(struct wide a, struct wide b, struct wide *out)
{
    *out = wide_add(&a, &b);
    return wide_negative(&a) != wide_negative(&b) || wide_negative(out) == wide_negative(&a);
}

/* Product of magnitudes; false when it passes 256 bits. */
static bool multiply_magnitudes(const struct wide *a, const struct wide *b, struct wide *out)
{
    uint64_t product[8] = {0};
    for (int i = 0; i < 4; i++) {
        uint64_t carry = 0;
        for (int j = 0; j < 4; j++) {
            u128 t = (u128)a->word[i] * b->word[j] + product[i + j] + carry;
            product[i + j] = (uint64_t)t;
            carry = (uint64_t)(t >> 64);
        }
        product[i + 4] = carry;
    }
    memcpy(out->word, product, sizeof out->word);
    return (product[4] | product[5] | product[6] | product[7]) == 0;
}

/* -2^255, which has no magnitude. */
static bool is_least(const struct wide *v)
{
    return v->word[3] == UINT64_C(1) << 63 && (v->word[0] | v->word[1] | v->word[2]) == 0;
}

static enum arithmetic_fault operate_wide(enum ast_arith op, struct wide x, struct wide y, struct wide *z)
{
    bool negative_x = false, negative_y = false, fits = true;
    struct wide product, rest;
    if (op == AST_ADD) return add_signed(x, y, z) ? ARITHMETIC_FINE : ARITHMETIC_OVERFLOW;
    if (op == AST_SUBTRACT) {
        /* The least number has no negative: x - y = ~(~x + y). */
        for (int i = 0; i < 4; i++) x.word[i] = ~x.word[i];
        fits = add_signed(x, y, z);
        for (int i = 0; i < 4; i++) z->word[i] = ~z->word[i];
        return fits ? ARITHMETIC_FINE : ARITHMETIC_OVERFLOW;
    }
    if (op == AST_MULTIPLY) {
        struct wide mx = magnitude(x, &negative_x), my = magnitude(y, &negative_y);
        fits = multiply_magnitudes(&mx, &my, &product) && with_sign(product, negative_x != negative_y, z);
        return fits ? ARITHMETIC_FINE : ARITHMETIC_OVERFLOW;
    }
    if ((y.word[0] | y.word[1] | y.word[2] | y.word[3]) == 0) return ARITHMETIC_ZERO;
    if (is_least(&x) || is_least(&y)) return ARITHMETIC_OVERFLOW;
    *z = wide_divide(&x, &y, &rest);
    if (op == AST_MODULO) *z = rest;
    return ARITHMETIC_FINE;
}

/* ---------------------------------------------------------------------------------------------------------------- rows */

static enum arithmetic_fault row_i128(enum ast_arith op, const uint8_t *a, const uint8_t *b, struct factors f, size_t width_a,
                                      size_t width_b, size_t width, uint8_t *to)
{
    i128 x = load_i128(a, width_a), y = load_i128(b, width_b), z = 0, by = 1;
    if (!power_i128(f.a, &by) || __builtin_mul_overflow(x, by, &x)) return ARITHMETIC_OVERFLOW;
    if (!power_i128(f.b, &by) || __builtin_mul_overflow(y, by, &y)) return ARITHMETIC_OVERFLOW;
    enum arithmetic_fault fault = operate_i128(op, x, y, &z);
    if (fault == ARITHMETIC_FINE && !fits_width(z, width)) fault = ARITHMETIC_OVERFLOW;
    if (fault == ARITHMETIC_FINE) store_i128(z, to, width);
    return fault;
}

static enum arithmetic_fault row_wide(enum ast_arith op, const uint8_t *a, const uint8_t *b, struct factors f, size_t width_a,
                                      size_t width_b, uint8_t *to)
{
    struct wide x = wide_load(a, width_a), y = wide_load(b, width_b), z;
    if (!wide_scale_up(&x, f.a) || !wide_scale_up(&y, f.b)) return ARITHMETIC_OVERFLOW;
    enum arithmetic_fault fault = operate_wide(op, x, y, &z);
    if (fault == ARITHMETIC_FINE) wide_store(&z, to, 32);
    return fault;
}

pennon_status arithmetic_decimal(struct evaluation *ev, const struct node *n, const struct datum *a, const struct datum *b,
                                 const uint64_t *valid, int64_t rows, uint8_t *to, pennon_error *err)
{
    const struct arrow_type *ta = &a->view.type, *tb = &b->view.type;
    size_t width = arrow_type_width(&n->type), width_a = arrow_type_width(ta), width_b = arrow_type_width(tb);
    enum ast_arith op = (enum ast_arith)n->op;
    struct factors f = factors_of(op, ta, tb, &n->type);
    bool wide = width > 16 || width_a > 16 || width_b > 16;
    if (f.a < 0 || f.b < 0 || (wide && width != 32)) {
        return error_set(err, PENNON_NOT_SUPPORTED, "decimal arithmetic with a result of fewer digits than its operands");
    }
    for (int64_t i = 0; i < rows; i++) {
        enum arithmetic_fault fault = ARITHMETIC_FINE;
        uint8_t *z = to + (size_t)i * width;
        if (i % ROWS_PER_CHECK == 0) TRY_RETURN(call_check(ev->c, err));
        if (valid != NULL && !(valid[i / 64] >> (i % 64) & 1)) {
            memset(z, 0, width);
            continue;
        }
        const uint8_t *x = array_view_fixed(&a->view, datum_row(a, i)), *y = array_view_fixed(&b->view, datum_row(b, i));
        fault = wide ? row_wide(op, x, y, f, width_a, width_b, z) : row_i128(op, x, y, f, width_a, width_b, width, z);
        if (fault != ARITHMETIC_FINE) return arithmetic_error(fault, op, err);
    }
    return PENNON_OK;
}

void decimal_negate(const uint8_t *from, uint8_t *to, size_t width)
{
    struct wide v = wide_turned(wide_load(from, width));
    wide_store(&v, to, width);
}
