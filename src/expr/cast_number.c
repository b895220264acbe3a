/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Casts among integers, floats, decimals and booleans.
 *
 *   integer -> integer     must fit
 *   float -> integer       truncates towards zero, must fit; NaN does not
 *   integer -> float       rounds
 *   decimal -> integer     truncates; -> float divides by the power of ten; -> decimal rounds half away from zero
 *   integer, float -> decimal   floats are multiplied, then rounded half away from zero; must fit the precision
 *   boolean <-> number     0 and 1; a number is true where it is not zero, NaN as well
 * Source: spec expressions 6. */
#include <math.h>

#include "expr/cast.h"

static bool is_unsigned(const struct arrow_type *t) { return arrow_id_is_integer(t->id) && !arrow_id_is_signed(t->id); }

bool cast_store_integer(const struct arrow_type *t, int64_t v, uint8_t *to)
{
    switch (t->bit_width) {
    case 8: {
        if (is_unsigned(t) ? v < 0 || v > UINT8_MAX : v < INT8_MIN || v > INT8_MAX) return false;
        *to = (uint8_t)v;
        return true;
    }
    case 16: {
        uint16_t narrow = (uint16_t)v;
        if (is_unsigned(t) ? v < 0 || v > UINT16_MAX : v < INT16_MIN || v > INT16_MAX) return false;
        memcpy(to, &narrow, sizeof narrow);
        return true;
    }
    case 32: {
        uint32_t narrow = (uint32_t)v;
        if (is_unsigned(t) ? v < 0 || v > UINT32_MAX : v < INT32_MIN || v > INT32_MAX) return false;
        memcpy(to, &narrow, sizeof narrow);
        return true;
    }
    default:
        ASSERT(t->bit_width == 64);
        if (is_unsigned(t) && v < 0) return false;
        memcpy(to, &v, sizeof v);
        return true;
    }
}

void cast_store_float(const struct arrow_type *t, double v, uint8_t *to)
{
    float single = (float)v;
    uint16_t half = 0;
    switch (t->bit_width) {
    case 16:
        half = half_from_double(v);
        memcpy(to, &half, sizeof half);
        break;
    case 32: memcpy(to, &single, sizeof single); break;
    default: memcpy(to, &v, sizeof v); break;
    }
}

/* ------------------------------------------------------------------------------------------------------------ decimals */

__extension__ typedef __int128 i128;
__extension__ typedef unsigned __int128 u128;

/* As 128 bits, where it fits them. */
static bool narrow(const struct wide *v, i128 *out)
{
    uint64_t fill = v->word[1] >> 63 != 0 ? UINT64_MAX : 0;
    *out = (i128)((u128)v->word[1] << 64 | v->word[0]);
    return v->word[2] == fill && v->word[3] == fill;
}

static struct wide widen(i128 v)
{
    uint64_t fill = v < 0 ? UINT64_MAX : 0;
    return (struct wide){{(uint64_t)v, (uint64_t)((u128)v >> 64), fill, fill}};
}

static i128 power_of_ten(int32_t n)
{
    i128 p = 1;
    ASSERT(n >= 0 && n <= 38);
    for (int32_t i = 0; i < n; i++) p *= 10;
    return p;
}

static struct wide wide_from_u64(uint64_t v) { return (struct wide){{v, 0, 0, 0}}; }

/* v / 10^n truncated; *half: what is left over is a half or more. */
static struct wide divide_power(struct wide v, int32_t n, bool *half)
{
    i128 small = 0;
    struct wide p = wide_from_i64(1), rest;
    *half = false;
    if (n <= 0) return v;
    if (n <= 38 && narrow(&v, &small)) {
        i128 power = power_of_ten(n), left = small % power;
        left = left < 0 ? -left : left;
        *half = left >= power - left;
        return widen(small / power);
    }
    if (n > WIDE_MAX_DIGITS || !wide_fits_digits(&v, WIDE_MAX_DIGITS) || !wide_scale_up(&p, n)) return wide_from_i64(0);
    struct wide quotient = wide_divide(&v, &p, &rest);
    if (wide_negative(&rest)) { /* the magnitude: ~rest + 1 */
        const struct wide one = wide_from_i64(1);
        for (int i = 0; i < 4; i++) rest.word[i] = ~rest.word[i];
        rest = wide_add(&rest, &one);
    }
    struct wide twice = wide_add(&rest, &rest);
    *half = wide_compare(&twice, &p) >= 0;
    return quotient;
}

static void add_one(struct wide *v, bool negative)
{
    uint64_t carry = 1;
    for (int i = 0; i < 4 && carry != 0; i++) {
        if (negative) {
            carry = v->word[i] == 0;
            v->word[i]--;
        } else {
            v->word[i]++;
            carry = v->word[i] == 0;
        }
    }
}

bool cast_store_decimal(const struct arrow_type *t, struct wide v, int32_t scale, uint8_t *to)
{
    bool half = false, negative = wide_negative(&v);
    i128 small = 0;
    int32_t up = t->scale - scale;
    if (up >= 0 && up <= 38 && t->precision <= 38 && narrow(&v, &small)) {
        i128 limit = power_of_ten(t->precision);
        if (__builtin_mul_overflow(small, power_of_ten(up), &small) || small >= limit || small <= -limit) return false;
        v = widen(small);
        wide_store(&v, to, arrow_type_width(t));
        return true;
    }
    if (up >= 0) {
        if (!wide_scale_up(&v, t->scale - scale)) return false;
    } else {
        v = divide_power(v, scale - t->scale, &half);
        if (half) add_one(&v, negative);
    }
    if (!wide_fits_digits(&v, t->precision)) return false;
    wide_store(&v, to, arrow_type_width(t));
    return true;
}

static double wide_to_double(struct wide v)
{
    char text[WIDE_TEXT_MAX];
    double d = 0;
    size_t n = wide_to_text(&v, 0, text);
    return real_parse(bytes_of(text, n), &d) ? d : 0;
}

static struct wide decimal_at(const struct cast *k, int64_t row)
{
    return wide_load(array_view_fixed(k->from, row), arrow_type_width(&k->from->type));
}

static double decimal_double(const struct cast *k, int64_t row)
{
    struct wide v = decimal_at(k, row);
    uint64_t fill = v.word[0] >> 63 != 0 ? UINT64_MAX : 0;
    bool small = v.word[1] == fill && v.word[2] == fill && v.word[3] == fill;
    double d = small ? (double)(int64_t)v.word[0] : wide_to_double(v);
    return d / pow(10.0, k->from->type.scale);
}

/* ---------------------------------------------------------------------------------------------------------------- rows */

static bool integer_to_integer(const struct cast *k, int64_t row, uint8_t *to)
{
    int64_t v = array_view_int(k->from, row);
    if (k->from->type.id == ARROW_UINT64 && v < 0) {
        /* 2^63 and above */
        if (k->to.id != ARROW_UINT64) return false;
        memcpy(to, &v, sizeof v);
        return true;
    }
    return cast_store_integer(&k->to, v, to);
}

static bool integer_to_float(const struct cast *k, int64_t row, uint8_t *to)
{
    int64_t v = array_view_int(k->from, row);
    bool large = k->from->type.id == ARROW_UINT64;
    if (k->to.bit_width == 32) { /* not by way of double, which would round twice */
        float f = large ? (float)(uint64_t)v : (float)v;
        memcpy(to, &f, sizeof f);
        return true;
    }
    cast_store_float(&k->to, large ? (double)(uint64_t)v : (double)v, to);
    return true;
}

static bool double_to_integer(const struct arrow_type *t, double v, uint8_t *to)
{
    double whole = trunc(v);
    if (t->id == ARROW_UINT64) {
        if (!(whole >= 0 && whole < 18446744073709551616.0)) return false;
        uint64_t u = (uint64_t)whole;
        memcpy(to, &u, sizeof u);
        return true;
    }
    if (!(whole >= -9223372036854775808.0 && whole < 9223372036854775808.0)) return false;
    return cast_store_integer(t, (int64_t)whole, to);
}

static bool float_to_integer(const struct cast *k, int64_t row, uint8_t *to)
{
    return double_to_integer(&k->to, array_view_double(k->from, row), to);
}

static bool float_to_float(const struct cast *k, int64_t row, uint8_t *to)
{
    cast_store_float(&k->to, array_view_double(k->from, row), to);
    return true;
}

static bool bool_to_integer(const struct cast *k, int64_t row, uint8_t *to)
{
    return cast_store_integer(&k->to, array_view_bool(k->from, row), to);
}

static bool bool_to_float(const struct cast *k, int64_t row, uint8_t *to)
{
    cast_store_float(&k->to, array_view_bool(k->from, row) ? 1 : 0, to);
    return true;
}

static bool integer_to_bool(const struct cast *k, int64_t row, uint8_t *to)
{
    *to = array_view_int(k->from, row) != 0;
    return true;
}

static bool float_to_bool(const struct cast *k, int64_t row, uint8_t *to)
{
    *to = !(array_view_double(k->from, row) == 0);
    return true;
}

static bool integer_to_decimal(const struct cast *k, int64_t row, uint8_t *to)
{
    int64_t v = array_view_int(k->from, row);
    return cast_store_decimal(&k->to, k->from->type.id == ARROW_UINT64 ? wide_from_u64((uint64_t)v) : wide_from_i64(v), 0, to);
}

static bool float_to_decimal(const struct cast *k, int64_t row, uint8_t *to)
{
    struct wide w;
    double v = round(array_view_double(k->from, row) * pow(10.0, k->to.scale));
    if (!(v - v == 0)) return false;
    if (v >= -9007199254740992.0 && v <= 9007199254740992.0) {
        w = wide_from_i64((int64_t)v);
    } else {
        /* The exact whole number behind a large double: two parts, high digits and the rest, by powers of two. */
        int exponent = 0;
        int64_t mantissa = (int64_t)(frexp(v, &exponent) * 9007199254740992.0);
        w = wide_from_i64(mantissa);
        exponent -= 53;
        if (exponent > 250) return false;
        uint64_t fill = mantissa < 0 ? UINT64_MAX : 0;
        for (; exponent > 0; exponent--) {
            for (int i = 3; i > 0; i--) w.word[i] = w.word[i] << 1 | w.word[i - 1] >> 63;
            w.word[0] <<= 1;
            if ((w.word[3] >> 63 != 0) != (fill != 0)) return false;
        }
    }
    return cast_store_decimal(&k->to, w, k->to.scale, to);
}

static bool decimal_to_decimal(const struct cast *k, int64_t row, uint8_t *to)
{
    return cast_store_decimal(&k->to, decimal_at(k, row), k->from->type.scale, to);
}

static bool decimal_to_integer(const struct cast *k, int64_t row, uint8_t *to)
{
    bool half = false;
    struct wide v = decimal_at(k, row);
    if (k->from->type.scale >= 0) {
        v = divide_power(v, k->from->type.scale, &half);
    } else if (!wide_scale_up(&v, -k->from->type.scale)) {
        return false;
    }
    if (k->to.id == ARROW_UINT64 && (v.word[1] | v.word[2] | v.word[3]) == 0) {
        memcpy(to, &v.word[0], 8);
        return true;
    }
    uint64_t fill = v.word[0] >> 63 != 0 ? UINT64_MAX : 0;
    if (v.word[1] != fill || v.word[2] != fill || v.word[3] != fill) return false;
    return cast_store_integer(&k->to, (int64_t)v.word[0], to);
}

static bool decimal_to_float(const struct cast *k, int64_t row, uint8_t *to)
{
    cast_store_float(&k->to, decimal_double(k, row), to);
    return true;
}

/* ------------------------------------------------------------------------------------------------------------- all rows */

#define ALL(NAME, F, T)                                              \
    static void NAME(const uint8_t *from, uint8_t *to, int64_t rows) \
    {                                                                \
        for (int64_t i = 0; i < rows; i++) {                         \
            F x;                                                     \
            memcpy(&x, from + i * (int64_t)sizeof x, sizeof x);      \
            T z = (T)x;                                              \
            memcpy(to + i * (int64_t)sizeof z, &z, sizeof z);        \
        }                                                            \
    }
ALL(i8_i16, int8_t, int16_t)
ALL(i8_i32, int8_t, int32_t)
ALL(i8_i64, int8_t, int64_t)
ALL(i16_i32, int16_t, int32_t)
ALL(i16_i64, int16_t, int64_t)
ALL(i32_i64, int32_t, int64_t)
ALL(u8_i64, uint8_t, int64_t)
ALL(u16_i64, uint16_t, int64_t)
ALL(u32_i64, uint32_t, int64_t)
ALL(i8_f64, int8_t, double)
ALL(i16_f64, int16_t, double)
ALL(i32_f64, int32_t, double)
ALL(i64_f64, int64_t, double)
ALL(u8_f64, uint8_t, double)
ALL(u16_f64, uint16_t, double)
ALL(u32_f64, uint32_t, double)
ALL(f32_f64, float, double)
ALL(f64_f32, double, float)

cast_all_fn cast_number_all(const struct arrow_type *from, const struct arrow_type *to)
{
    static const struct {
        enum arrow_id from, to;
        cast_all_fn fn;
    } table[] = {
        {ARROW_INT8, ARROW_INT16, i8_i16},      {ARROW_INT8, ARROW_INT32, i8_i32},       {ARROW_INT8, ARROW_INT64, i8_i64},
        {ARROW_INT16, ARROW_INT32, i16_i32},    {ARROW_INT16, ARROW_INT64, i16_i64},     {ARROW_INT32, ARROW_INT64, i32_i64},
        {ARROW_UINT8, ARROW_INT64, u8_i64},     {ARROW_UINT16, ARROW_INT64, u16_i64},    {ARROW_UINT32, ARROW_INT64, u32_i64},
        {ARROW_INT8, ARROW_FLOAT64, i8_f64},    {ARROW_INT16, ARROW_FLOAT64, i16_f64},   {ARROW_INT32, ARROW_FLOAT64, i32_f64},
        {ARROW_INT64, ARROW_FLOAT64, i64_f64},  {ARROW_UINT8, ARROW_FLOAT64, u8_f64},    {ARROW_UINT16, ARROW_FLOAT64, u16_f64},
        {ARROW_UINT32, ARROW_FLOAT64, u32_f64}, {ARROW_FLOAT32, ARROW_FLOAT64, f32_f64}, {ARROW_FLOAT64, ARROW_FLOAT32, f64_f32},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        if (table[i].from == from->id && table[i].to == to->id) return table[i].fn;
    }
    return NULL;
}

enum number_class { CLASS_NONE = -1, CLASS_BOOL, CLASS_INTEGER, CLASS_FLOAT, CLASS_DECIMAL };

static enum number_class class_of(const struct arrow_type *t)
{
    if (t->id == ARROW_BOOL) return CLASS_BOOL;
    if (arrow_id_is_integer(t->id)) return CLASS_INTEGER;
    if (arrow_id_is_float(t->id)) return CLASS_FLOAT;
    return arrow_id_is_decimal(t->id) ? CLASS_DECIMAL : CLASS_NONE;
}

cast_row_fn cast_number_find(const struct arrow_type *from, const struct arrow_type *to)
{
    static const cast_row_fn table[4][4] = {
        [CLASS_BOOL] = {NULL, bool_to_integer, bool_to_float, NULL},
        [CLASS_INTEGER] = {integer_to_bool, integer_to_integer, integer_to_float, integer_to_decimal},
        [CLASS_FLOAT] = {float_to_bool, float_to_integer, float_to_float, float_to_decimal},
        [CLASS_DECIMAL] = {NULL, decimal_to_integer, decimal_to_float, decimal_to_decimal},
    };
    enum number_class a = class_of(from), b = class_of(to);
    /* Official has no way between decimals and half numbers. */
    if ((a == CLASS_DECIMAL && to->id == ARROW_FLOAT16) || (b == CLASS_DECIMAL && from->id == ARROW_FLOAT16)) return NULL;
    return a == CLASS_NONE || b == CLASS_NONE ? NULL : table[a][b];
}

/* Loops without a branch a row; what they wrote counts when all rows fit. */
#define NARROW(NAME, F, T, GOOD)                                     \
    static bool NAME(const uint8_t *from, uint8_t *to, int64_t rows) \
    {                                                                \
        bool fits = true;                                            \
        for (int64_t i = 0; i < rows; i++) {                         \
            F v;                                                     \
            T t;                                                     \
            memcpy(&v, from + (size_t)i * sizeof v, sizeof v);       \
            t = (T)v;                                                \
            memcpy(to + (size_t)i * sizeof t, &t, sizeof t);         \
            fits &= (F)t == v && (GOOD);                             \
        }                                                            \
        return fits;                                                 \
    }
NARROW(fit_i64_i32, int64_t, int32_t, true)
NARROW(fit_i64_i16, int64_t, int16_t, true)
NARROW(fit_i64_i8, int64_t, int8_t, true)
NARROW(fit_i32_i16, int32_t, int16_t, true)
NARROW(fit_i32_i8, int32_t, int8_t, true)
NARROW(fit_i16_i8, int16_t, int8_t, true)
NARROW(fit_i64_u64, int64_t, uint64_t, v >= 0)
NARROW(fit_i64_u32, int64_t, uint32_t, v >= 0)
NARROW(fit_i64_u16, int64_t, uint16_t, v >= 0)
NARROW(fit_i64_u8, int64_t, uint8_t, v >= 0)
NARROW(fit_i32_u32, int32_t, uint32_t, v >= 0)
NARROW(fit_u64_i64, uint64_t, int64_t, t >= 0)
NARROW(fit_u64_i32, uint64_t, int32_t, t >= 0)
NARROW(fit_u64_u32, uint64_t, uint32_t, true)
NARROW(fit_u32_i32, uint32_t, int32_t, t >= 0)

cast_fit_fn cast_number_fit(const struct arrow_type *from, const struct arrow_type *to)
{
    static const struct {
        enum arrow_id from, to;
        cast_fit_fn fn;
    } table[] = {
        {ARROW_INT64, ARROW_INT32, fit_i64_i32},  {ARROW_INT64, ARROW_INT16, fit_i64_i16},
        {ARROW_INT64, ARROW_INT8, fit_i64_i8},    {ARROW_INT32, ARROW_INT16, fit_i32_i16},
        {ARROW_INT32, ARROW_INT8, fit_i32_i8},    {ARROW_INT16, ARROW_INT8, fit_i16_i8},
        {ARROW_INT64, ARROW_UINT64, fit_i64_u64}, {ARROW_INT64, ARROW_UINT32, fit_i64_u32},
        {ARROW_INT64, ARROW_UINT16, fit_i64_u16}, {ARROW_INT64, ARROW_UINT8, fit_i64_u8},
        {ARROW_INT32, ARROW_UINT32, fit_i32_u32}, {ARROW_UINT64, ARROW_INT64, fit_u64_i64},
        {ARROW_UINT64, ARROW_INT32, fit_u64_i32}, {ARROW_UINT64, ARROW_UINT32, fit_u64_u32},
        {ARROW_UINT32, ARROW_INT32, fit_u32_i32},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        if (table[i].from == from->id && table[i].to == to->id) return table[i].fn;
    }
    return NULL;
}
