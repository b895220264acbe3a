/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* + - * / % and unary minus.
 *
 *   integers              two of one type: + - * wrap, division truncates; by zero, and of the least number by -1, it is a fault;
 *                         the remainder by -1 is zero
 *   floats                IEEE; float16 by way of float32
 *   decimals              arithmetic_decimal.c
 *   date32 + - integer    days; date - date gives days
 *   timestamp, time, duration with duration, timestamp - timestamp   units are equal; too large is a fault
 * Faults count only for rows where both sides are valid. A scalar side is one value for all rows; loops over integers and floats have a form
 * for each side that may be scalar, so that they become vectors.
 * Source: spec expressions 4, 15. */
#include <math.h>

#include "expr/evaluate.h"

pennon_status arithmetic_error(enum arithmetic_fault fault, enum ast_arith op, pennon_error *err)
{
    static const char *const names[] = {"addition", "subtraction", "multiplication", "division", "modulo"};
    ASSERT(fault != ARITHMETIC_FINE);
    if (fault == ARITHMETIC_ZERO) {
        (void)error_set(err, PENNON_INVALID_ARGUMENT, "Divide by zero error");
        return error_kind(err, "DivideByZero");
    }
    (void)error_set(err, PENNON_INVALID_ARGUMENT, "Arithmetic overflow in %s", names[op]);
    return error_kind(err, "ArithmeticOverflow");
}

static bool row_valid(const uint64_t *valid, int64_t i) { return valid == NULL || (valid[i / 64] >> (i % 64) & 1) != 0; }

/* ------------------------------------------------------------------------------------------------------------- integers */

/* Values at any alignment; scalars stay in place. */
struct operands {
    const uint8_t *a, *b;
    bool scalar_a, scalar_b;
    uint8_t *to;
    int64_t rows;
    const uint64_t *valid;
};

#define LOOP(T, EXPR)                                                           \
    for (int64_t i = 0; i < o->rows; i++) {                                     \
        T x, y, z;                                                              \
        memcpy(&x, o->a + (o->scalar_a ? 0 : i) * (int64_t)sizeof x, sizeof x); \
        memcpy(&y, o->b + (o->scalar_b ? 0 : i) * (int64_t)sizeof y, sizeof y); \
        z = (T)(EXPR);                                                          \
        memcpy(o->to + i * (int64_t)sizeof z, &z, sizeof z);                    \
    }
/* One loop for each shape: which side moves is known while it runs. */
#define SHAPES(T, EXPR)                                   \
    do {                                                  \
        struct operands shape = *operands;                \
        const struct operands *o = &shape;                \
        if (!operands->scalar_a && !operands->scalar_b) { \
            shape.scalar_a = false;                       \
            shape.scalar_b = false;                       \
            LOOP(T, EXPR)                                 \
        } else if (!operands->scalar_a) {                 \
            shape.scalar_a = false;                       \
            shape.scalar_b = true;                        \
            LOOP(T, EXPR)                                 \
        } else {                                          \
            LOOP(T, EXPR)                                 \
        }                                                 \
    } while (0)

/* + - * of unsigned words: the same bits as of signed ones, and wrapping is defined. The narrow ones are computed in 32 bits. */
#define WRAPPING(NAME, T, W)                                             \
    static void NAME(enum ast_arith op, const struct operands *operands) \
    {                                                                    \
        if (op == AST_ADD) SHAPES(T, (W)x + (W)y);                       \
        if (op == AST_SUBTRACT) SHAPES(T, (W)x - (W)y);                  \
        if (op == AST_MULTIPLY) SHAPES(T, (W)x *(W)y);                   \
    }
WRAPPING(wrapping_8, uint8_t, uint32_t)
WRAPPING(wrapping_16, uint16_t, uint32_t)
WRAPPING(wrapping_32, uint32_t, uint32_t)
WRAPPING(wrapping_64, uint64_t, uint64_t)

/* A divisor of a row that is not valid counts as 1. LEAST is the number whose quotient by -1 does not fit, 0 for none. */
#define DIVISION(NAME, T, SIGNED, LEAST)                                                                    \
    static enum arithmetic_fault NAME(enum ast_arith op, const struct operands *o)                          \
    {                                                                                                       \
        for (int64_t i = 0; i < o->rows; i++) {                                                             \
            T x, y, z;                                                                                      \
            memcpy(&x, o->a + (o->scalar_a ? 0 : i) * (int64_t)sizeof x, sizeof x);                         \
            memcpy(&y, o->b + (o->scalar_b ? 0 : i) * (int64_t)sizeof y, sizeof y);                         \
            if (!row_valid(o->valid, i)) y = 1;                                                             \
            if (y == 0) return ARITHMETIC_ZERO;                                                             \
            if (SIGNED && y == (T)-1) {                                                                     \
                if (op == AST_DIVIDE && x == (LEAST) && row_valid(o->valid, i)) return ARITHMETIC_OVERFLOW; \
                z = (T)(op == AST_DIVIDE ? (x == (LEAST) ? x : (T)-x) : 0);                                 \
            } else {                                                                                        \
                z = (T)(op == AST_DIVIDE ? x / y : x % y);                                                  \
            }                                                                                               \
            memcpy(o->to + i * (int64_t)sizeof z, &z, sizeof z);                                            \
        }                                                                                                   \
        return ARITHMETIC_FINE;                                                                             \
    }
DIVISION(divide_i8, int8_t, true, INT8_MIN)
DIVISION(divide_i16, int16_t, true, INT16_MIN)
DIVISION(divide_i32, int32_t, true, INT32_MIN)
DIVISION(divide_i64, int64_t, true, INT64_MIN)
DIVISION(divide_u8, uint8_t, false, 0)
DIVISION(divide_u16, uint16_t, false, 0)
DIVISION(divide_u32, uint32_t, false, 0)
DIVISION(divide_u64, uint64_t, false, 0)

static enum arithmetic_fault integers(enum ast_arith op, const struct arrow_type *t, const struct operands *o)
{
    typedef enum arithmetic_fault (*divide_fn)(enum ast_arith, const struct operands *);
    static const divide_fn divide[2][4] = {{divide_i8, divide_i16, divide_i32, divide_i64},
                                           {divide_u8, divide_u16, divide_u32, divide_u64}};
    typedef void (*wrapping_fn)(enum ast_arith, const struct operands *);
    static const wrapping_fn wrap[4] = {wrapping_8, wrapping_16, wrapping_32, wrapping_64};
    size_t log = bit_width(t->bit_width / 8) - 1;
    ASSERT(log < 4);
    if (op == AST_DIVIDE || op == AST_MODULO) return divide[arrow_id_is_signed(t->id) ? 0 : 1][log](op, o);
    wrap[log](op, o);
    return ARITHMETIC_FINE;
}

/* --------------------------------------------------------------------------------------------------------------- floats */

#define FLOATS(NAME, T, REMAINDER)                                       \
    static void NAME(enum ast_arith op, const struct operands *operands) \
    {                                                                    \
        if (op == AST_ADD) SHAPES(T, x + y);                             \
        if (op == AST_SUBTRACT) SHAPES(T, x - y);                        \
        if (op == AST_MULTIPLY) SHAPES(T, x *y);                         \
        if (op == AST_DIVIDE) SHAPES(T, x / y);                          \
        if (op == AST_MODULO) SHAPES(T, REMAINDER(x, y));                \
    }
FLOATS(floats_32, float, fmodf)
FLOATS(floats_64, double, fmod)

/* Half numbers by way of float32, whose results round once more to the same. */
static void floats_16(enum ast_arith op, const struct datum *a, const struct datum *b, const struct operands *o)
{
    for (int64_t i = 0; i < o->rows; i++) {
        float x = (float)array_view_double(&a->view, datum_row(a, i)), y = (float)array_view_double(&b->view, datum_row(b, i)),
              z = 0;
        if (op == AST_ADD) z = x + y;
        if (op == AST_SUBTRACT) z = x - y;
        if (op == AST_MULTIPLY) z = x * y;
        if (op == AST_DIVIDE) z = x / y;
        if (op == AST_MODULO) z = fmodf(x, y);
        uint16_t half = half_from_double((double)z);
        memcpy(o->to + 2 * i, &half, sizeof half);
    }
}

/* ---------------------------------------------------------------------------------------------------------------- times */

/* Dates, timestamps, durations: 64-bit numbers with overflow as a fault. A date64 less a date64 whose result is an integer is days. */
static enum arithmetic_fault times(enum ast_arith op, const struct node *n, const struct datum *a, const struct datum *b,
                                   const struct operands *o)
{
    bool narrow = n->type.bit_width == 32;
    int64_t divisor =
        a->view.type.id == ARROW_DATE64 && b->view.type.id == ARROW_DATE64 && arrow_id_is_integer(n->type.id) ? 86400000 : 1;
    for (int64_t i = 0; i < o->rows; i++) {
        int64_t z = 0;
        if (row_valid(o->valid, i)) {
            int64_t x = array_view_int(&a->view, datum_row(a, i)), y = array_view_int(&b->view, datum_row(b, i));
            bool over = op == AST_ADD ? __builtin_add_overflow(x, y, &z) : __builtin_sub_overflow(x, y, &z);
            if (over || (narrow && (z < INT32_MIN || z > INT32_MAX))) return ARITHMETIC_OVERFLOW;
        }
        z /= divisor;
        int32_t small = (int32_t)z;
        memcpy(o->to + i * (narrow ? 4 : 8), narrow ? (const void *)&small : (const void *)&z, narrow ? sizeof small : sizeof z);
    }
    return ARITHMETIC_FINE;
}

static bool is_time(enum arrow_id id) { return id >= ARROW_DATE32 && id <= ARROW_DURATION; }

/* ------------------------------------------------------------------------------------------------------------- results */

static pennon_status compute(struct evaluation *ev, const struct node *n, const struct datum *a, const struct datum *b,
                             const struct operands *o, pennon_error *err)
{
    const struct arrow_type *ta = &a->view.type, *tb = &b->view.type;
    enum ast_arith op = (enum ast_arith)n->op;
    enum arithmetic_fault fault = ARITHMETIC_FINE;
    bool same = ta->id == n->type.id && tb->id == n->type.id;
    if (arrow_id_is_decimal(n->type.id) && arrow_id_is_decimal(ta->id) && arrow_id_is_decimal(tb->id)) {
        return arithmetic_decimal(ev, n, a, b, o->valid, o->rows, o->to, err);
    }
    if (same && arrow_id_is_integer(n->type.id)) {
        fault = integers(op, &n->type, o);
    } else if (same && n->type.id == ARROW_FLOAT16) {
        floats_16(op, a, b, o);
    } else if (same && n->type.id == ARROW_FLOAT32) {
        floats_32(op, o);
    } else if (same && n->type.id == ARROW_FLOAT64) {
        floats_64(op, o);
    } else if ((is_time(ta->id) || is_time(tb->id)) && (op == AST_ADD || op == AST_SUBTRACT) && n->type.layout == LAYOUT_FIXED) {
        fault = times(op, n, a, b, o);
    } else {
        return error_set(err, PENNON_NOT_SUPPORTED, "arithmetic of %s and %s", arrow_id_name(ta->id), arrow_id_name(tb->id));
    }
    return fault == ARITHMETIC_FINE ? PENNON_OK : arithmetic_error(fault, op, err);
}

pennon_status arithmetic_data(struct evaluation *ev, const struct node *n, const struct datum *a, const struct datum *b,
                              struct datum *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray made = {.release = NULL};
    bool scalar = a->scalar && b->scalar;
    int64_t rows = scalar ? 1 : ev->rows;
    uint64_t *valid_a = NULL, *valid_b = NULL, *valid = NULL;
    if (a->view.type.id == ARROW_NULL || b->view.type.id == ARROW_NULL || n->type.id == ARROW_NULL) {
        TRY(array_nulls(n->schema, rows, ev->c->mem, &made, err));
        TRY(datum_own(out, n->schema, &made, scalar, ev->scratch, err));
        goto done;
    }
    TRY(datum_valid(ev->scratch, a, rows, &valid_a, err));
    TRY(datum_valid(ev->scratch, b, rows, &valid_b, err));
    TRY(words_both(ev->scratch, valid_a, valid_b, rows, &valid, err));
    TRY(array_new_for(&made, n->schema, ev->c->mem, err));
    made.length = rows;
    TRY(array_give_valid(&made, valid, rows, err));
    struct operands o = {.scalar_a = a->scalar, .scalar_b = b->scalar, .rows = rows, .valid = valid};
    o.a = array_view_fixed(&a->view, 0);
    o.b = array_view_fixed(&b->view, 0);
    TRY_NEW(o.to, array_make_buffer(&made, 1, (size_t)rows * arrow_type_width(&n->type), err));
    TRY(compute(ev, n, a, b, &o, err));
    TRY(datum_own(out, n->schema, &made, scalar, ev->scratch, err));
done:
    if (made.release != NULL) array_release(&made);
    return st;
}

#define NEGATE(T, EXPR)                                     \
    for (int64_t i = 0; i < rows; i++) {                    \
        T x, z;                                             \
        memcpy(&x, from + i * (int64_t)sizeof x, sizeof x); \
        z = (T)(EXPR);                                      \
        memcpy(to + i * (int64_t)sizeof z, &z, sizeof z);   \
    }

/* False: values of the type have no negative. Integers wrap; floats are turned by their sign bit, zero and NaN as well. */
static bool negate_values(const struct arrow_type *t, const uint8_t *from, uint8_t *to, int64_t rows)
{
    size_t width = arrow_type_width(t);
    switch (t->id) {
    case ARROW_INT8: NEGATE(uint8_t, 0u - (uint32_t)x) return true;
    case ARROW_INT16: NEGATE(uint16_t, 0u - (uint32_t)x) return true;
    case ARROW_INT32: NEGATE(uint32_t, 0u - x) return true;
    case ARROW_INT64:
    case ARROW_DURATION: NEGATE(uint64_t, 0u - x) return true;
    case ARROW_FLOAT16: NEGATE(uint16_t, x ^ 0x8000u) return true;
    case ARROW_FLOAT32: NEGATE(uint32_t, x ^ UINT32_C(0x80000000)) return true;
    case ARROW_FLOAT64: NEGATE(uint64_t, x ^ UINT64_C(0x8000000000000000)) return true;
    default: break;
    }
    if (!arrow_id_is_decimal(t->id)) return false;
    for (int64_t i = 0; i < rows; i++) decimal_negate(from + (size_t)i * width, to + (size_t)i * width, width);
    return true;
}

pennon_status negate_data(struct evaluation *ev, const struct node *n, const struct datum *a, struct datum *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowArray made = {.release = NULL};
    int64_t rows = a->scalar ? 1 : ev->rows;
    uint64_t *valid = NULL;
    uint8_t *to = NULL;
    if (a->view.type.id == ARROW_NULL) {
        TRY(array_nulls(n->schema, rows, ev->c->mem, &made, err));
        TRY(datum_own(out, n->schema, &made, a->scalar, ev->scratch, err));
        goto done;
    }
    TRY(words_valid(ev->scratch, &a->view, rows, &valid, err));
    TRY(array_new_for(&made, n->schema, ev->c->mem, err));
    made.length = rows;
    TRY(array_give_valid(&made, valid, rows, err));
    TRY_NEW(to, array_make_buffer(&made, 1, (size_t)rows * arrow_type_width(&n->type), err));
    if (!negate_values(&n->type, array_view_fixed(&a->view, 0), to, rows))
        FAIL(PENNON_NOT_SUPPORTED, "the negative of a value of type %s", arrow_id_name(n->type.id));
    TRY(datum_own(out, n->schema, &made, a->scalar, ev->scratch, err));
done:
    if (made.release != NULL) array_release(&made);
    return st;
}
