/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Functions of numbers.
 *
 * Most take a float64, or a float32 where the argument is one, and give the same type; other numbers become float64. Decimals keep their type in
 * abs, round, ceil and floor, and become float64 elsewhere. What official computes by formulas of its own (inverse hyperbolic functions,
 * logarithms to any base, powers of ten in round and trunc) is computed by the same ones, so that the last bit agrees.
 * Source: spec expressions 7; edges asked of official. */
#include <math.h>

#include "expr/functions.h"

#define DEGREES_PER_RADIAN (180.0 / 3.14159265358979323846)
#define RADIANS_PER_DEGREE (3.14159265358979323846 / 180.0)
#define PI 3.14159265358979323846

/* ---- formulas ---- */

static double f64_asinh(double x)
{
    const double a = fabs(x), i = 1.0 / a;
    return copysign(log1p(a + a / (hypot(1.0, i) + i)), x);
}
static float f32_asinh(float x)
{
    const float a = fabsf(x), i = 1.0f / a;
    return copysignf(log1pf(a + a / (hypotf(1.0f, i) + i)), x);
}
static double f64_acosh(double x) { return x < 1.0 ? NAN : log(x + sqrt(x - 1.0) * sqrt(x + 1.0)); }
static float f32_acosh(float x) { return x < 1.0f ? NAN : logf(x + sqrtf(x - 1.0f) * sqrtf(x + 1.0f)); }
/* The sign of a NaN is seen by comparisons, which follow the total order: these are official's, whatever the C library gives. */
static double f64_log(double x) { return x < 0 ? NAN : log(x); }
static double f64_log2(double x) { return x < 0 ? NAN : log2(x); }
static double f64_atanh(double x)
{
    const double a = fabs(x);
    return a > 1.0 ? -NAN : copysign(0.5 * log1p(2.0 * a / (1.0 - a)), x);
}
static float f32_atanh(float x)
{
    const float a = fabsf(x);
    return a > 1.0f ? -NAN : copysignf(0.5f * log1pf(2.0f * a / (1.0f - a)), x);
}
static double f64_cot(double x) { return 1.0 / tan(x); }
static float f32_cot(float x) { return 1.0f / tanf(x); }
static double f64_degrees(double x) { return x * DEGREES_PER_RADIAN; }
static float f32_degrees(float x) { return x * (float)DEGREES_PER_RADIAN; }
static double f64_radians(double x) { return x * RADIANS_PER_DEGREE; }
static float f32_radians(float x) { return x * (float)RADIANS_PER_DEGREE; }
/* The sign of a number; zeros of either sign give 0. */
static double f64_signum(double x) { return x == 0 ? 0.0 : isnan(x) ? x : copysign(1.0, x); }
static float f32_signum(float x) { return x == 0 ? 0.0f : isnan(x) ? x : copysignf(1.0f, x); }

struct real_function {
    double (*f64)(double);
    float (*f32)(float);
};

enum real_id {
    REAL_ACOS,
    REAL_ACOSH,
    REAL_ASIN,
    REAL_ASINH,
    REAL_ATAN,
    REAL_ATANH,
    REAL_CBRT,
    REAL_COS,
    REAL_COSH,
    REAL_COT,
    REAL_DEGREES,
    REAL_EXP,
    REAL_LN,
    REAL_LOG10,
    REAL_LOG2,
    REAL_RADIANS,
    REAL_SIGNUM,
    REAL_SIN,
    REAL_SINH,
    REAL_SQRT,
    REAL_TAN,
    REAL_TANH,
    REAL_CEIL,
    REAL_FLOOR
};

static const struct real_function real_functions[] = {
    [REAL_ACOS] = {acos, acosf},
    [REAL_ACOSH] = {f64_acosh, f32_acosh},
    [REAL_ASIN] = {asin, asinf},
    [REAL_ASINH] = {f64_asinh, f32_asinh},
    [REAL_ATAN] = {atan, atanf},
    [REAL_ATANH] = {f64_atanh, f32_atanh},
    [REAL_CBRT] = {cbrt, cbrtf},
    [REAL_COS] = {cos, cosf},
    [REAL_COSH] = {cosh, coshf},
    [REAL_COT] = {f64_cot, f32_cot},
    [REAL_DEGREES] = {f64_degrees, f32_degrees},
    [REAL_EXP] = {exp, expf},
    [REAL_LN] = {f64_log, logf},
    [REAL_LOG10] = {log10, log10f},
    [REAL_LOG2] = {f64_log2, log2f},
    [REAL_RADIANS] = {f64_radians, f32_radians},
    [REAL_SIGNUM] = {f64_signum, f32_signum},
    [REAL_SIN] = {sin, sinf},
    [REAL_SINH] = {sinh, sinhf},
    [REAL_SQRT] = {sqrt, sqrtf},
    [REAL_TAN] = {tan, tanf},
    [REAL_TANH] = {tanh, tanhf},
    [REAL_CEIL] = {ceil, ceilf},
    [REAL_FLOOR] = {floor, floorf},
};

/* ---- reading arguments ---- */

static double real_at(const struct datum *d, int64_t row) { return array_view_double(&d->view, datum_row(d, row)); }
static int64_t integer_at(const struct datum *d, int64_t row) { return array_view_int(&d->view, datum_row(d, row)); }

static bool is_number(const struct arrow_type *t)
{
    return t->id == ARROW_NULL || arrow_id_is_integer(t->id) || arrow_id_is_float(t->id) || arrow_id_is_decimal(t->id);
}

/* Argument i as float32 where it is one and `single` is allowed, else float64. */
static pennon_status bind_real(struct bind_call *b, size_t i, bool single, pennon_error *err)
{
    struct arrow_type t;
    TRY_RETURN(bind_type(b, i, &t, err));
    if (!is_number(&t)) return bind_refuse(b, i, "a number", err);
    return bind_as(b, i, single && t.id == ARROW_FLOAT32 ? "f" : "g", err);
}

static bool is_single(const struct bind_call *b, size_t i) { return b->types[i]->format[0] == 'f'; }

/* Rows of a real result: `value` in one of two widths. */
static void store_real(const struct run_call *r, void *to, int64_t row, double value)
{
    if (r->node->type.id == ARROW_FLOAT32) {
        ((float *)to)[row] = (float)value;
    } else {
        ((double *)to)[row] = value;
    }
}

/* ---- one real to one ---- */

static pennon_status bind_real_to_real(struct bind_call *b, pennon_error *err)
{
    TRY_RETURN(bind_real(b, 0, true, err));
    return bind_result(b, is_single(b, 0) ? "f" : "g", err);
}

/* Values of null rows are computed with the others: whatever they are, nothing fails. */
static void map_f64(const double *from, size_t step, double *to, int64_t rows, enum real_id id)
{
    double (*const f)(double) = real_functions[id].f64;
    if (id == REAL_SQRT) {
        for (int64_t i = 0; i < rows; i++) to[i] = sqrt(from[(size_t)i * step]);
        return;
    }
    for (int64_t i = 0; i < rows; i++) to[i] = f(from[(size_t)i * step]);
}

static void map_f32(const float *from, size_t step, float *to, int64_t rows, enum real_id id)
{
    float (*const f)(float) = real_functions[id].f32;
    for (int64_t i = 0; i < rows; i++) to[i] = f(from[(size_t)i * step]);
}

/* The values of an argument from its first row on; buffers of arrays that come from elsewhere may lie anywhere and are copied then. */
static const void *values_at(const struct run_call *r, size_t arg, size_t width, pennon_error *err)
{
    const struct datum *d = &r->args[arg];
    const uint8_t *from = array_view_fixed(&d->view, 0);
    if ((uintptr_t)from % width == 0) return from;
    const size_t size = (size_t)d->view.length * width;
    void *copy = arena_alloc(r->scratch, size + 1, err);
    if (copy != NULL) memcpy(copy, from, size);
    return copy;
}

static pennon_status run_real_to_real(struct run_call *r, pennon_error *err)
{
    const enum real_id id = (enum real_id)r->node->fn->option;
    const size_t width = arrow_type_width(&r->node->type), step = r->args[0].scalar ? 0 : 1;
    void *to = array_make_buffer(r->out, 1, (size_t)r->rows * width, err);
    if (to == NULL) return err->code;
    if (r->rows == 0) return PENNON_OK;
    const void *from = values_at(r, 0, width, err);
    if (from == NULL) return err->code;
    if (width == sizeof(float)) {
        map_f32(from, step, to, r->rows, id);
    } else {
        map_f64(from, step, to, r->rows, id);
    }
    return PENNON_OK;
}

/* ---- decimals ---- */

static void wide_negate(struct wide *v)
{
    uint64_t carry = 1;
    for (size_t k = 0; k < 4; k++) {
        v->word[k] = ~v->word[k] + carry;
        carry = carry != 0 && v->word[k] == 0;
    }
}

/* A magnitude divided by ten; the rest. */
static unsigned wide_divide_10(struct wide *v)
{
    uint64_t rest = 0;
    for (size_t k = 4; k-- > 0;) {
        const uint64_t high = rest << 32 | v->word[k] >> 32;
        const uint64_t low = (high % 10) << 32 | (v->word[k] & UINT32_MAX);
        v->word[k] = (high / 10) << 32 | low / 10;
        rest = low % 10;
    }
    return (unsigned)rest;
}

static void wide_increment(struct wide *v)
{
    for (size_t k = 0; k < 4 && ++v->word[k] == 0; k++) continue;
}

enum rounding { ROUND_HALF_AWAY, ROUND_UP, ROUND_DOWN };

/* v without its last `digits` digits. */
static void wide_round(struct wide *v, int64_t digits, enum rounding how)
{
    const bool negative = wide_negative(v);
    unsigned last = 0;
    bool some = false;
    if (negative) wide_negate(v);
    for (int64_t k = 0; k < digits; k++) {
        last = k <= WIDE_MAX_DIGITS ? wide_divide_10(v) : 0;
        some = some || last != 0;
        if (k > WIDE_MAX_DIGITS) break;
    }
    const bool away = how == ROUND_HALF_AWAY ? last >= 5 : some && (how == ROUND_UP) != negative;
    if (away) wide_increment(v);
    if (negative) wide_negate(v);
}

static pennon_status decimal_overflow(const struct run_call *r, pennon_error *err)
{
    return run_fault(r, err, "the result has more than %" PRId32 " digits", r->node->type.precision);
}

/* ceil and floor: back at the scale of the argument. */
static pennon_status run_decimal_whole(struct run_call *r, pennon_error *err)
{
    const size_t width = arrow_type_width(&r->node->type);
    const int32_t scale = r->node->type.scale;
    uint8_t *to = NULL;
    TRY_RETURN(run_values(r, width, &to, err));
    for (int64_t i = 0; i < r->rows; i++) {
        if (!run_valid(r, i)) continue;
        struct wide v = wide_load(array_view_fixed(&r->args[0].view, datum_row(&r->args[0], i)), width);
        if (scale > 0) {
            wide_round(&v, scale, r->node->fn->option == REAL_CEIL ? ROUND_UP : ROUND_DOWN);
            if (!wide_scale_up(&v, scale) || !wide_fits_digits(&v, r->node->type.precision)) return decimal_overflow(r, err);
        }
        wide_store(&v, to + (size_t)i * width, width);
    }
    return PENNON_OK;
}

static pennon_status bind_whole(struct bind_call *b, pennon_error *err)
{
    struct arrow_type t;
    TRY_RETURN(bind_type(b, 0, &t, err));
    if (!arrow_id_is_decimal(t.id)) return bind_real_to_real(b, err);
    b->result = b->types[0];
    return PENNON_OK;
}

static pennon_status run_whole(struct run_call *r, pennon_error *err)
{
    return arrow_id_is_decimal(r->node->type.id) ? run_decimal_whole(r, err) : run_real_to_real(r, err);
}

/* ---- round and trunc ---- */

/* 10^n by repeated squaring: exact up to 10^22, else within what repeated multiplication gives, as official. */
static double power_of_ten(int64_t n)
{
    uint64_t left = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    double v = 1.0, square = 10.0;
    for (; left > 0; left /= 2) {
        if (left & 1) v *= square;
        square *= square;
    }
    return n < 0 ? 1.0 / v : v;
}
static float power_of_ten_f32(int64_t n)
{
    uint64_t left = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    float v = 1.0f, square = 10.0f;
    for (; left > 0; left /= 2) {
        if (left & 1) v *= square;
        square *= square;
    }
    return n < 0 ? 1.0f / v : v;
}

/* The type of a decimal that is rounded to n digits behind the point (known) or to as many as a row says. */
static pennon_status bind_round_decimal(struct bind_call *b, const struct arrow_type *t, pennon_error *err)
{
    const bool constant = b->n < 2 || b->constants[1] != NULL;
    const int64_t n = b->n < 2 || !constant || bind_constant_null(b, 1) ? 0 : array_view_int(b->constants[1], 0);
    const int32_t scale = !constant || n >= t->scale ? t->scale : n < 0 ? 0 : (int32_t)n;
    const int32_t most = t->id == ARROW_DECIMAL256 ? 76 : t->id == ARROW_DECIMAL64 ? 18 : t->id == ARROW_DECIMAL32 ? 9 : 38;
    int32_t precision = t->precision;
    if (!constant || (n < t->scale && scale >= t->scale)) precision = precision < most ? precision + 1 : most;
    struct arrow_type made = *t;
    struct buf out;
    made.precision = precision;
    made.scale = scale;
    buf_init(&out, b->e->mem, 256);
    pennon_status st = arrow_type_format(&made, &out, err);
    if (st == PENNON_OK) st = bind_result(b, (const char *)out.data, err);
    buf_free(&out);
    return st;
}

static pennon_status bind_round(struct bind_call *b, pennon_error *err)
{
    struct arrow_type t;
    TRY_RETURN(bind_type(b, 0, &t, err));
    if (b->n > 1) TRY_RETURN(bind_integer(b, 1, err));
    if (b->fn->option == ROUND_HALF_AWAY && arrow_id_is_decimal(t.id)) return bind_round_decimal(b, &t, err);
    return bind_real_to_real(b, err);
}

static pennon_status run_round_decimal(struct run_call *r, pennon_error *err)
{
    const size_t width = arrow_type_width(&r->node->type);
    const int32_t from = r->args[0].view.type.scale, scale = r->node->type.scale;
    uint8_t *to = NULL;
    TRY_RETURN(run_values(r, width, &to, err));
    for (int64_t i = 0; i < r->rows; i++) {
        if (!run_valid(r, i)) continue;
        const int64_t n = r->n > 1 ? integer_at(&r->args[1], i) : 0;
        struct wide v = wide_load(array_view_fixed(&r->args[0].view, datum_row(&r->args[0], i)), width);
        int64_t kept = from; /* digits behind the point that v has */
        if (n < from) {
            const int64_t drop = n < from - 2 * WIDE_MAX_DIGITS ? 2 * WIDE_MAX_DIGITS : from - n;
            wide_round(&v, drop, ROUND_HALF_AWAY);
            kept = from - drop;
        }
        if (!wide_scale_up(&v, (int32_t)(scale - kept)) && (v.word[0] | v.word[1] | v.word[2] | v.word[3]) != 0) {
            return decimal_overflow(r, err);
        }
        if (!wide_fits_digits(&v, r->node->type.precision)) return decimal_overflow(r, err);
        wide_store(&v, to + (size_t)i * width, width);
    }
    return PENNON_OK;
}

static double round_f64(double x, int64_t n, bool half)
{
    const double factor = power_of_ten(n), y = x * factor;
    return (half ? round(y) : trunc(y)) / factor;
}
static float round_f32(float x, int64_t n, bool half)
{
    const float factor = power_of_ten_f32(n), y = x * factor;
    return (half ? roundf(y) : truncf(y)) / factor;
}

static pennon_status run_round(struct run_call *r, pennon_error *err)
{
    const bool half = r->node->fn->option == ROUND_HALF_AWAY;
    void *to = NULL;
    if (arrow_id_is_decimal(r->node->type.id)) return run_round_decimal(r, err);
    TRY_RETURN(run_values(r, arrow_type_width(&r->node->type), &to, err));
    for (int64_t i = 0; i < r->rows; i++) {
        if (!run_valid(r, i)) continue;
        const int64_t n = r->n > 1 ? integer_at(&r->args[1], i) : 0;
        const double x = real_at(&r->args[0], i);
        if (r->node->type.id == ARROW_FLOAT32) {
            const float single = (float)x;
            ((float *)to)[i] = n != 0 ? round_f32(single, n, half) : half ? roundf(single) : truncf(single);
        } else {
            ((double *)to)[i] = n != 0 ? round_f64(x, n, half) : half ? round(x) : trunc(x);
        }
    }
    return PENNON_OK;
}

/* ---- abs ---- */

static pennon_status bind_abs(struct bind_call *b, pennon_error *err)
{
    struct arrow_type t;
    TRY_RETURN(bind_type(b, 0, &t, err));
    if (!is_number(&t)) return bind_refuse(b, 0, "a number", err);
    if (t.id == ARROW_NULL) TRY_RETURN(bind_as(b, 0, "g", err));
    if (b->types[0]->dictionary != NULL) TRY_RETURN(expr_add_type(b->e, b->types[0]->dictionary, &b->types[0], err));
    b->result = b->types[0];
    return PENNON_OK;
}

static pennon_status abs_integer(struct run_call *r, void *to, int64_t row, pennon_error *err)
{
    const int64_t v = integer_at(&r->args[0], row);
    const size_t width = arrow_type_width(&r->node->type);
    const bool is_signed = arrow_id_is_signed(r->node->type.id);
    const int64_t least = is_signed ? (int64_t)(UINT64_MAX << (8 * width - 1)) : INT64_MIN;
    if (is_signed && v == least) return run_fault(r, err, "overflow of abs(%" PRId64 ")", v);
    const uint64_t magnitude = is_signed && v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    switch (width) {
    case 1: ((uint8_t *)to)[row] = (uint8_t)magnitude; break;
    case 2: ((uint16_t *)to)[row] = (uint16_t)magnitude; break;
    case 4: ((uint32_t *)to)[row] = (uint32_t)magnitude; break;
    default: ((uint64_t *)to)[row] = magnitude; break;
    }
    return PENNON_OK;
}

static pennon_status run_abs(struct run_call *r, pennon_error *err)
{
    const struct arrow_type *t = &r->node->type;
    const size_t width = arrow_type_width(t);
    uint8_t *to = NULL;
    TRY_RETURN(run_values(r, width, &to, err));
    for (int64_t i = 0; i < r->rows; i++) {
        if (!run_valid(r, i)) continue;
        const uint8_t *from = array_view_fixed(&r->args[0].view, datum_row(&r->args[0], i));
        if (t->id == ARROW_FLOAT16) {
            uint16_t bits;
            memcpy(&bits, from, sizeof bits);
            ((uint16_t *)(void *)to)[i] = bits & 0x7fff;
        } else if (arrow_id_is_float(t->id)) {
            store_real(r, to, i, fabs(real_at(&r->args[0], i)));
        } else if (arrow_id_is_decimal(t->id)) {
            struct wide v = wide_load(from, width);
            if (wide_negative(&v)) wide_negate(&v);
            wide_store(&v, to + (size_t)i * width, width);
        } else {
            TRY_RETURN(abs_integer(r, to, i, err));
        }
    }
    return PENNON_OK;
}

/* ---- two reals ---- */

enum pair_function { PAIR_ATAN2, PAIR_LOG, PAIR_NANVL, PAIR_POWER };

/* float64 where one argument is one, else float32 (integers too), as official's list of signatures makes it. */
static pennon_status bind_narrow_pair(struct bind_call *b, pennon_error *err)
{
    bool wide = false;
    for (size_t i = 0; i < b->n; i++) {
        struct arrow_type t;
        TRY_RETURN(bind_type(b, i, &t, err));
        if (!is_number(&t)) return bind_refuse(b, i, "a number", err);
        wide = wide || t.id == ARROW_FLOAT64 || arrow_id_is_decimal(t.id);
    }
    for (size_t i = 0; i < b->n; i++) TRY_RETURN(bind_as(b, i, wide ? "g" : "f", err));
    return bind_result(b, wide ? "g" : "f", err);
}

static pennon_status bind_log(struct bind_call *b, pennon_error *err)
{
    for (size_t i = 0; i < b->n; i++) TRY_RETURN(bind_real(b, i, true, err));
    const bool single = is_single(b, b->n - 1);
    for (size_t i = 0; i < b->n; i++) TRY_RETURN(bind_as(b, i, single ? "f" : "g", err));
    return bind_result(b, single ? "f" : "g", err);
}

static pennon_status bind_power(struct bind_call *b, pennon_error *err)
{
    for (size_t i = 0; i < b->n; i++) TRY_RETURN(bind_real(b, i, false, err));
    return bind_result(b, "g", err);
}

static double pair_value(const struct run_call *r, int64_t row)
{
    const double a = real_at(&r->args[0], row), b = r->n > 1 ? real_at(&r->args[1], row) : 0;
    const bool single = r->node->type.id == ARROW_FLOAT32;
    switch (r->node->fn->option) {
    case PAIR_ATAN2: return single ? (double)atan2f((float)a, (float)b) : atan2(a, b);
    case PAIR_NANVL: return isnan(a) ? b : a;
    case PAIR_POWER: return pow(a, b);
    default: break;
    }
    if (r->n == 1) return single ? (double)(logf((float)a) / logf(10.0f)) : f64_log(a) / log(10.0);
    return single ? (double)(logf((float)b) / logf((float)a)) : f64_log(b) / f64_log(a);
}

static pennon_status run_pair(struct run_call *r, pennon_error *err)
{
    void *to = NULL;
    TRY_RETURN(run_values(r, arrow_type_width(&r->node->type), &to, err));
    for (int64_t i = 0; i < r->rows; i++) {
        if (run_valid(r, i)) store_real(r, to, i, pair_value(r, i));
    }
    return PENNON_OK;
}

/* ---- tests ---- */

enum { TEST_NAN, TEST_ZERO };

static pennon_status bind_test(struct bind_call *b, pennon_error *err)
{
    TRY_RETURN(bind_real(b, 0, false, err));
    return bind_result(b, "b", err);
}

static pennon_status run_test(struct run_call *r, pennon_error *err)
{
    uint8_t *bits;
    TRY_RETURN(run_bits(r, &bits, err));
    for (int64_t i = 0; i < r->rows; i++) {
        if (!run_valid(r, i)) continue;
        const double x = real_at(&r->args[0], i);
        if (r->node->fn->option == TEST_NAN ? isnan(x) : x == 0) bit_set(bits, (uint64_t)i);
    }
    return PENNON_OK;
}

/* ---- integers, one row at a time ---- */

static uint64_t magnitude_of(int64_t v) { return v < 0 ? 0 - (uint64_t)v : (uint64_t)v; }

static uint64_t gcd_of(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static pennon_status row_gcd(struct row *row, pennon_error *err)
{
    const int64_t a = row->integer[0], b = row->integer[1];
    const uint64_t g = gcd_of(magnitude_of(a), magnitude_of(b));
    if (g > INT64_MAX) return run_fault(row->run, err, "overflow of gcd(%" PRId64 ", %" PRId64 ")", a, b);
    row->result = (int64_t)g;
    return PENNON_OK;
}

static pennon_status row_lcm(struct row *row, pennon_error *err)
{
    const int64_t a = row->integer[0], b = row->integer[1];
    uint64_t product = 0;
    row->result = 0;
    if (a == 0 || b == 0) return PENNON_OK;
    const uint64_t g = gcd_of(magnitude_of(a), magnitude_of(b));
    if (mul_overflows(magnitude_of(a) / g, magnitude_of(b), &product) || product > INT64_MAX) {
        return run_fault(row->run, err, "overflow of lcm(%" PRId64 ", %" PRId64 ")", a, b);
    }
    row->result = (int64_t)product;
    return PENNON_OK;
}

#define FACTORIAL_MOST 20 /* 21! does not fit int64 */

static pennon_status row_factorial(struct row *row, pennon_error *err)
{
    const int64_t n = row->integer[0];
    if (n > FACTORIAL_MOST) return run_fault(row->run, err, "overflow of factorial(%" PRId64 ")", n);
    row->result = 1;
    for (int64_t k = 2; k <= n; k++) row->result *= k;
    return PENNON_OK;
}

enum integer_function { INTEGER_FACTORIAL, INTEGER_GCD, INTEGER_LCM };
static const struct row_function integer_functions[] = {
    [INTEGER_FACTORIAL] = {"i", 'L', row_factorial},
    [INTEGER_GCD] = {"i", 'L', row_gcd},
    [INTEGER_LCM] = {"i", 'L', row_lcm},
};

static pennon_status bind_integers(struct bind_call *b, pennon_error *err)
{
    return bind_rows(b, &integer_functions[b->fn->option], err);
}
static pennon_status run_integers(struct run_call *r, pennon_error *err)
{
    return run_rows(r, &integer_functions[r->node->fn->option], err);
}

/* ---- without arguments ---- */

static pennon_status bind_f64(struct bind_call *b, pennon_error *err) { return bind_result(b, "g", err); }

static pennon_status run_pi(struct run_call *r, pennon_error *err)
{
    double *to = NULL;
    TRY_RETURN(run_values(r, sizeof *to, &to, err));
    for (int64_t i = 0; i < r->rows; i++) to[i] = PI;
    return PENNON_OK;
}

/* Numbers of [0, 1): a counter from a random start, mixed (the finaliser of SplitMix64). */
static pennon_status run_random(struct run_call *r, pennon_error *err)
{
    double *to = NULL;
    uint64_t state;
    TRY_RETURN(random_bytes(&state, sizeof state, err));
    TRY_RETURN(run_values(r, sizeof *to, &to, err));
    for (int64_t i = 0; i < r->rows; i++) {
        state += UINT64_C(0x9e3779b97f4a7c15);
        uint64_t v = state;
        v = (v ^ v >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        v = (v ^ v >> 27) * UINT64_C(0x94d049bb133111eb);
        to[i] = (double)((v ^ v >> 31) >> 11) * 0x1p-53;
    }
    return PENNON_OK;
}

/* ---- the table ---- */

#define REAL(name, id)                                                             \
    {                                                                              \
        name, 1, 1, FUNCTION_STRICT, bind_real_to_real, run_real_to_real, NULL, id \
    }
#define WHOLE(name, id)                                              \
    {                                                                \
        name, 1, 1, FUNCTION_STRICT, bind_whole, run_whole, NULL, id \
    }
#define INTEGER(name, n, id)                                               \
    {                                                                      \
        name, n, n, FUNCTION_STRICT, bind_integers, run_integers, NULL, id \
    }

const struct function functions_math[] = {
    {"abs", 1, 1, FUNCTION_STRICT, bind_abs, run_abs, NULL, 0},
    REAL("acos", REAL_ACOS),
    REAL("acosh", REAL_ACOSH),
    REAL("asin", REAL_ASIN),
    REAL("asinh", REAL_ASINH),
    REAL("atan", REAL_ATAN),
    {"atan2", 2, 2, FUNCTION_STRICT, bind_narrow_pair, run_pair, NULL, PAIR_ATAN2},
    REAL("atanh", REAL_ATANH),
    REAL("cbrt", REAL_CBRT),
    WHOLE("ceil", REAL_CEIL),
    REAL("cos", REAL_COS),
    REAL("cosh", REAL_COSH),
    REAL("cot", REAL_COT),
    REAL("degrees", REAL_DEGREES),
    REAL("exp", REAL_EXP),
    INTEGER("factorial", 1, INTEGER_FACTORIAL),
    WHOLE("floor", REAL_FLOOR),
    INTEGER("gcd", 2, INTEGER_GCD),
    {"isnan", 1, 1, FUNCTION_STRICT, bind_test, run_test, NULL, TEST_NAN},
    {"iszero", 1, 1, FUNCTION_STRICT, bind_test, run_test, NULL, TEST_ZERO},
    INTEGER("lcm", 2, INTEGER_LCM),
    REAL("ln", REAL_LN),
    {"log", 1, 2, FUNCTION_STRICT, bind_log, run_pair, NULL, PAIR_LOG},
    REAL("log10", REAL_LOG10),
    REAL("log2", REAL_LOG2),
    {"nanvl", 2, 2, FUNCTION_STRICT, bind_narrow_pair, run_pair, NULL, PAIR_NANVL},
    {"pi", 0, 0, FUNCTION_STRICT, bind_f64, run_pi, NULL, 0},
    {"pow", 2, 2, FUNCTION_STRICT, bind_power, run_pair, NULL, PAIR_POWER},
    {"power", 2, 2, FUNCTION_STRICT, bind_power, run_pair, NULL, PAIR_POWER},
    REAL("radians", REAL_RADIANS),
    {"random", 0, 0, FUNCTION_VOLATILE, bind_f64, run_random, NULL, 0},
    {"round", 1, 2, FUNCTION_STRICT, bind_round, run_round, NULL, ROUND_HALF_AWAY},
    REAL("signum", REAL_SIGNUM),
    REAL("sin", REAL_SIN),
    REAL("sinh", REAL_SINH),
    REAL("sqrt", REAL_SQRT),
    REAL("tan", REAL_TAN),
    REAL("tanh", REAL_TANH),
    {"trunc", 1, 2, FUNCTION_STRICT, bind_round, run_round, NULL, ROUND_DOWN},
    {NULL, 0, 0, 0, NULL, NULL, NULL, 0},
};
