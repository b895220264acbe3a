/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The types that two values are brought to before they are compared, chosen from, or computed with.
 *
 * The rules are those of official's query engine, in its order, since the first that fits decides:
 *
 *   compared   equal, numbers, dictionaries, times, texts, lists, null, text with number (as texts), text with time, bytes, structs
 *   chosen     the same but text with number, which becomes the number, and without structs
 *   computed   as they are where there is such an operation; times; decimals; numbers
 *
 * Integers get the narrowest type that holds both; uint64 with a signed one is decimal128(20, 0). Decimals get the places and digits in front of the
 * point of both. Timestamps get the coarser unit.
 * Source: spec expressions 3.2, 4. */
#include "expr/bind.h"

static bool is_number(enum arrow_id id) { return arrow_id_is_integer(id) || arrow_id_is_float(id) || arrow_id_is_decimal(id); }
static bool is_date(enum arrow_id id) { return id == ARROW_DATE32 || id == ARROW_DATE64; }
static bool is_time_of_day(enum arrow_id id) { return id == ARROW_TIME32 || id == ARROW_TIME64; }
static bool is_bytes(enum arrow_id id) { return id == ARROW_BINARY || id == ARROW_LARGE_BINARY || id == ARROW_BINARY_VIEW; }
static bool is_interval(enum arrow_id id) { return id >= ARROW_INTERVAL_MONTHS && id <= ARROW_INTERVAL_MONTH_DAY_NANO; }

pennon_status bind_add_type(struct expr *e, const struct arrow_type *type, const struct ArrowSchema **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowSchema made = {.release = NULL};
    TRY(arrow_schema_new_type(&made, type, "", ARROW_FLAG_NULLABLE, 0, e->mem, err));
    TRY(expr_add_type(e, &made, out, err));
done:
    arrow_schema_release(&made);
    return st;
}

static struct arrow_type plain_type(enum arrow_id id)
{
    static const uint32_t bits[] = {
        [ARROW_INT8] = 8,     [ARROW_UINT8] = 8,   [ARROW_INT16] = 16,  [ARROW_UINT16] = 16,  [ARROW_INT32] = 32,
        [ARROW_UINT32] = 32,  [ARROW_INT64] = 64,  [ARROW_UINT64] = 64, [ARROW_FLOAT16] = 16, [ARROW_FLOAT32] = 32,
        [ARROW_FLOAT64] = 64, [ARROW_DATE32] = 32, [ARROW_DATE64] = 64};
    return (struct arrow_type){.id = id, .layout = LAYOUT_FIXED, .bit_width = id < ARRAY_LEN(bits) ? bits[id] : 0};
}

/* ---- decimals ---- */

static const struct {
    enum arrow_id id;
    uint32_t bits;
    int32_t digits;
} decimals[] = {{ARROW_DECIMAL32, 32, 9}, {ARROW_DECIMAL64, 64, 18}, {ARROW_DECIMAL128, 128, 38}, {ARROW_DECIMAL256, 256, 76}};

static size_t decimal_form(enum arrow_id id) { return (size_t)id - ARROW_DECIMAL32; }

static struct arrow_type decimal_of(size_t form, int32_t precision, int32_t scale)
{
    const int32_t most = decimals[form].digits;
    return (struct arrow_type){.id = decimals[form].id,
                               .layout = LAYOUT_FIXED,
                               .bit_width = decimals[form].bits,
                               .precision = precision < most ? precision : most,
                               .scale = scale < most ? scale : most};
}

/* A number as a decimal of this form; false: it has none. */
static bool number_as_decimal(size_t form, enum arrow_id id, struct arrow_type *out)
{
    switch (id) {
    case ARROW_INT8:
    case ARROW_UINT8: *out = decimal_of(form, 3, 0); return true;
    case ARROW_INT16:
    case ARROW_UINT16: *out = decimal_of(form, 5, 0); return true;
    case ARROW_INT32:
    case ARROW_UINT32: *out = decimal_of(form, 10, 0); return form >= 1;
    case ARROW_FLOAT32: *out = decimal_of(form, 14, 7); return form >= 1;
    case ARROW_INT64:
    case ARROW_UINT64: *out = decimal_of(form, 20, 0); return form >= 2;
    case ARROW_FLOAT64: *out = decimal_of(form, 30, 15); return form >= 2;
    default: return false;
    }
}

/* Holds both. */
static bool wider_decimal(const struct arrow_type *a, const struct arrow_type *b, struct arrow_type *out)
{
    const size_t form_a = decimal_form(a->id), form_b = decimal_form(b->id), form = form_a > form_b ? form_a : form_b;
    const int32_t scale = a->scale > b->scale ? a->scale : b->scale;
    const int32_t front_a = a->precision - a->scale, front_b = b->precision - b->scale;
    const int32_t precision = (front_a > front_b ? front_a : front_b) + scale;
    if (form_a != form_b && precision > decimals[form].digits) return false;
    *out = decimal_of(form, precision, scale);
    return true;
}

static bool common_decimal(const struct arrow_type *a, const struct arrow_type *b, struct arrow_type *out)
{
    struct arrow_type other;
    if (!arrow_id_is_decimal(a->id)) return arrow_id_is_decimal(b->id) && common_decimal(b, a, out);
    if (arrow_id_is_decimal(b->id)) return wider_decimal(a, b, out);
    return number_as_decimal(decimal_form(a->id), b->id, &other) && wider_decimal(a, &other, out);
}

/* ---- numbers ---- */

static bool is_unsigned(enum arrow_id id) { return arrow_id_is_integer(id) && !arrow_id_is_signed(id); }

/* Two different ones, integers or floats. */
static struct arrow_type wider_number(enum arrow_id a, enum arrow_id b)
{
    static const enum arrow_id signed_of[] = {ARROW_INT16, ARROW_INT32, ARROW_INT64}; /* by the bytes of an unsigned one: 1, 2, 4 */
    if (arrow_id_is_float(a) || arrow_id_is_float(b)) {
        const enum arrow_id wide = a > b ? a : b; /* floats come behind integers, wider ones last */
        return plain_type(wide);
    }
    if (is_unsigned(a) == is_unsigned(b)) return plain_type(a > b ? a : b);
    const enum arrow_id u = is_unsigned(a) ? a : b, s = is_unsigned(a) ? b : a;
    if (u == ARROW_UINT64) return decimal_of(2, 20, 0);
    if (s > u) return plain_type(s); /* enum order: each width's signed id comes before its unsigned one */
    return plain_type(signed_of[u == ARROW_UINT8 ? 0 : u == ARROW_UINT16 ? 1 : 2]);
}

static bool common_number(const struct arrow_type *a, const struct arrow_type *b, struct arrow_type *out)
{
    if (!is_number(a->id) || !is_number(b->id)) return false;
    if (common_decimal(a, b, out)) return true;
    if (arrow_id_is_decimal(a->id) || arrow_id_is_decimal(b->id)) return false;
    *out = a->id == b->id ? *a : wider_number(a->id, b->id);
    return true;
}

/* ---- times ---- */

static struct arrow_type stamp_type(enum arrow_unit unit, const char *zone)
{
    return (struct arrow_type){.id = ARROW_TIMESTAMP, .layout = LAYOUT_FIXED, .bit_width = 64, .unit = unit, .timezone = zone};
}

static enum arrow_unit coarser(enum arrow_unit a, enum arrow_unit b) { return a < b ? a : b; }

static bool common_stamp(const struct arrow_type *a, const struct arrow_type *b, struct arrow_type *out)
{
    *out = stamp_type(coarser(a->unit, b->unit), a->timezone && a->timezone[0] ? a->timezone : b->timezone);
    return true;
}

static struct arrow_type duration_type(enum arrow_unit unit)
{
    return (struct arrow_type){.id = ARROW_DURATION, .layout = LAYOUT_FIXED, .bit_width = 64, .unit = unit};
}

static bool common_time(const struct arrow_type *a, const struct arrow_type *b, struct arrow_type *out)
{
    if (a->id == ARROW_TIMESTAMP && b->id == ARROW_TIMESTAMP) return common_stamp(a, b, out);
    if (a->id == ARROW_DURATION && b->id == ARROW_DURATION) {
        *out = duration_type(a->unit > b->unit ? a->unit : b->unit); /* the finer one: nothing is lost */
        return true;
    }
    if (!is_date(a->id)) return is_date(b->id) && common_time(b, a, out);
    if (b->id == ARROW_INT32 || b->id == ARROW_INT64) { /* the others have no cast to dates */
        *out = *a;
    } else if (is_date(b->id)) {
        *out = plain_type(ARROW_DATE64);
    } else if (b->id == ARROW_TIMESTAMP) {
        *out = stamp_type(ARROW_NANO, "");
    } else {
        return false;
    }
    return true;
}

/* ---- texts and bytes ---- */

static bool common_text(enum arrow_id a, enum arrow_id b, const char **format)
{
    if (!arrow_id_is_text(a) || !arrow_id_is_text(b)) return false;
    *format = a == ARROW_UTF8_VIEW || b == ARROW_UTF8_VIEW ? "vu" : a == ARROW_LARGE_UTF8 || b == ARROW_LARGE_UTF8 ? "U" : "u";
    return true;
}

static bool common_bytes(enum arrow_id a, enum arrow_id b, const char **format)
{
    if (!is_bytes(a) && !is_bytes(b)) return false;
    const enum arrow_id other = is_bytes(a) ? b : a;
    if (other == ARROW_FIXED_SIZE_BINARY) {
        const enum arrow_id bytes = is_bytes(a) ? a : b;
        *format = bytes == ARROW_BINARY_VIEW ? "vz" : "z";
        return bytes != ARROW_LARGE_BINARY;
    }
    if (!is_bytes(other) && !arrow_id_is_text(other)) return false;
    const bool view = a == ARROW_BINARY_VIEW || b == ARROW_BINARY_VIEW;
    const bool large = a == ARROW_LARGE_BINARY || b == ARROW_LARGE_BINARY || a == ARROW_LARGE_UTF8 || b == ARROW_LARGE_UTF8 ||
                       a == ARROW_UTF8_VIEW || b == ARROW_UTF8_VIEW;
    *format = view ? "vz" : large ? "Z" : "z";
    return true;
}

static const char *text_format(enum arrow_id id) { return id == ARROW_UTF8_VIEW ? "vu" : id == ARROW_LARGE_UTF8 ? "U" : "u"; }

/* A text with a date, a time of the day or a timestamp. */
static bool text_with_time(const struct arrow_type *a, const struct arrow_type *b, struct arrow_type *out)
{
    if (!arrow_id_is_text(a->id)) return arrow_id_is_text(b->id) && text_with_time(b, a, out);
    if (b->id == ARROW_TIMESTAMP) {
        *out = stamp_type(ARROW_NANO, b->timezone);
        return true;
    }
    *out = *b;
    return is_date(b->id) || is_time_of_day(b->id);
}

/* ---- lists and structs ---- */

typedef pennon_status (*common_fn)(struct expr *e, const struct ArrowSchema *a, const struct ArrowSchema *b,
                                   const struct ArrowSchema **out, pennon_error *err);

static bool is_list(enum arrow_id id) { return id == ARROW_LIST || id == ARROW_LARGE_LIST || id == ARROW_FIXED_SIZE_LIST; }

static pennon_status copy_child(const struct ArrowSchema *type, const char *name, struct mem *m, struct ArrowSchema *to,
                                pennon_error *err)
{
    TRY_RETURN(arrow_schema_copy(type, m, to, err));
    return arrow_schema_set_name(to, name, err);
}

/* The items in their common type, also where lists are compared. Types nest no deeper than schemas may. */
static pennon_status common_list(struct expr *e, const struct ArrowSchema *a, const struct ArrowSchema *b,
                                 const struct arrow_type *ta, const struct arrow_type *tb, const struct ArrowSchema **out,
                                 pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowSchema made = {.release = NULL};
    const struct ArrowSchema *item = NULL;
    if (!is_list(ta->id) || !is_list(tb->id)) return PENNON_OK;
    TRY(common_type(e, a->children[0], b->children[0], &item, err));
    if (!item) goto done;
    const bool large = ta->id == ARROW_LARGE_LIST || tb->id == ARROW_LARGE_LIST;
    const bool fixed = ta->id == ARROW_FIXED_SIZE_LIST && tb->id == ARROW_FIXED_SIZE_LIST && ta->fixed_size == tb->fixed_size;
    const char *format = large ? "+L" : fixed ? a->format : "+l";
    TRY(arrow_schema_new(&made, format, "", ARROW_FLAG_NULLABLE, 1, e->mem, err));
    TRY(copy_child(item, a->children[0]->name, e->mem, made.children[0], err));
    TRY(expr_add_type(e, &made, out, err));
done:
    arrow_schema_release(&made);
    return st;
}

static pennon_status common_struct(struct expr *e, const struct ArrowSchema *a, const struct ArrowSchema *b, common_fn common,
                                   const struct ArrowSchema **out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowSchema made = {.release = NULL};
    if (a->n_children != b->n_children) return PENNON_OK;
    TRY(arrow_schema_new(&made, "+s", "", ARROW_FLAG_NULLABLE, (size_t)a->n_children, e->mem, err));
    for (int64_t i = 0; i < a->n_children; i++) {
        const struct ArrowSchema *child = NULL;
        if (strcmp(a->children[i]->name, b->children[i]->name) != 0) goto done;
        TRY(common(e, a->children[i], b->children[i], &child, err));
        if (!child) goto done;
        TRY(copy_child(child, a->children[i]->name, e->mem, made.children[i], err));
    }
    TRY(expr_add_type(e, &made, out, err));
done:
    arrow_schema_release(&made);
    return st;
}

static pennon_status common_dictionary(struct expr *e, const struct ArrowSchema *a, const struct ArrowSchema *b, common_fn common,
                                       const struct ArrowSchema **out, pennon_error *err)
{
    if (a->dictionary && b->dictionary) return common(e, a->dictionary, b->dictionary, out, err);
    const struct ArrowSchema *d = a->dictionary ? a : b, *other = a->dictionary ? b : a;
    if (arrow_schema_equal(d->dictionary, other, SCHEMA_EQUAL_NO_NULLABLE)) return expr_add_type(e, d, out, err);
    return common(e, a->dictionary ? a->dictionary : a, b->dictionary ? b->dictionary : b, out, err);
}

/* ---- compared, chosen ---- */

/* What both kinds have in common, but text with number. *out stays NULL when nothing fits. */
static pennon_status shared_rules(struct expr *e, const struct ArrowSchema *a, const struct ArrowSchema *b,
                                  const struct arrow_type *ta, const struct arrow_type *tb, common_fn common,
                                  const struct ArrowSchema **out, pennon_error *err)
{
    struct arrow_type t;
    const char *format;
    if (arrow_schema_equal(a, b, SCHEMA_EQUAL_NO_NULLABLE)) return expr_add_type(e, a, out, err);
    if (common_number(ta, tb, &t)) return bind_add_type(e, &t, out, err);
    if (a->dictionary || b->dictionary) return common_dictionary(e, a, b, common, out, err);
    if (common_time(ta, tb, &t)) return bind_add_type(e, &t, out, err);
    if (common_text(ta->id, tb->id, &format)) return expr_simple_type(e, format, out, err);
    TRY_RETURN(common_list(e, a, b, ta, tb, out, err));
    if (*out) return PENNON_OK;
    if (ta->id == ARROW_NULL) return expr_add_type(e, b, out, err);
    if (tb->id == ARROW_NULL) return expr_add_type(e, a, out, err);
    return PENNON_OK;
}

pennon_status comparison_type(struct expr *e, const struct ArrowSchema *a, const struct ArrowSchema *b,
                              const struct ArrowSchema **out, pennon_error *err)
{
    struct arrow_type ta, tb, t;
    const char *format;
    *out = NULL;
    TRY_RETURN(arrow_type_of(a, &ta, err));
    TRY_RETURN(arrow_type_of(b, &tb, err));
    TRY_RETURN(shared_rules(e, a, b, &ta, &tb, comparison_type, out, err));
    if (*out) return PENNON_OK;
    if (arrow_id_is_text(ta.id) && is_number(tb.id)) return expr_simple_type(e, text_format(ta.id), out, err);
    if (arrow_id_is_text(tb.id) && is_number(ta.id)) return expr_simple_type(e, text_format(tb.id), out, err);
    if (text_with_time(&ta, &tb, &t)) return bind_add_type(e, &t, out, err);
    if (common_bytes(ta.id, tb.id, &format)) return expr_simple_type(e, format, out, err);
    if (ta.id == ARROW_STRUCT && tb.id == ARROW_STRUCT) return common_struct(e, a, b, comparison_type, out, err);
    return PENNON_OK;
}

pennon_status common_type(struct expr *e, const struct ArrowSchema *a, const struct ArrowSchema *b, const struct ArrowSchema **out,
                          pennon_error *err)
{
    struct arrow_type ta, tb;
    const char *format;
    *out = NULL;
    TRY_RETURN(arrow_type_of(a, &ta, err));
    TRY_RETURN(arrow_type_of(b, &tb, err));
    TRY_RETURN(shared_rules(e, a, b, &ta, &tb, common_type, out, err));
    if (*out) return PENNON_OK;
    if (arrow_id_is_text(ta.id) && is_number(tb.id)) return expr_add_type(e, b, out, err);
    if (arrow_id_is_text(tb.id) && is_number(ta.id)) return expr_add_type(e, a, out, err);
    if (common_bytes(ta.id, tb.id, &format)) return expr_simple_type(e, format, out, err);
    if (ta.id == ARROW_STRUCT && tb.id == ARROW_STRUCT) return common_struct(e, a, b, common_type, out, err);
    return PENNON_OK;
}

pennon_status bind_like_type(struct expr *e, const struct ArrowSchema *a, const struct ArrowSchema *b,
                             const struct ArrowSchema **out, pennon_error *err)
{
    struct arrow_type ta, tb;
    const char *format;
    *out = NULL;
    if (a->dictionary) a = a->dictionary;
    if (b->dictionary) b = b->dictionary;
    TRY_RETURN(arrow_type_of(a, &ta, err));
    TRY_RETURN(arrow_type_of(b, &tb, err));
    if (common_text(ta.id, tb.id, &format)) return expr_simple_type(e, format, out, err);
    if ((arrow_id_is_text(ta.id) && is_bytes(tb.id)) || (is_bytes(ta.id) && arrow_id_is_text(tb.id))) {
        const bool large =
            ta.id == ARROW_LARGE_UTF8 || tb.id == ARROW_LARGE_UTF8 || ta.id == ARROW_LARGE_BINARY || tb.id == ARROW_LARGE_BINARY;
        return expr_simple_type(e, large ? "U" : "u", out, err);
    }
    if (ta.id == ARROW_NULL && tb.id == ARROW_NULL) return expr_simple_type(e, "u", out, err);
    if (ta.id == ARROW_NULL && arrow_id_is_text(tb.id)) return expr_add_type(e, b, out, err);
    if (tb.id == ARROW_NULL && arrow_id_is_text(ta.id)) return expr_add_type(e, a, out, err);
    return PENNON_OK;
}

/* ---- computed ---- */

static struct arrow_type decimal_result(enum ast_arith op, const struct arrow_type *a, const struct arrow_type *b)
{
    const size_t form = decimal_form(a->id);
    const int32_t most = decimals[form].digits, front_a = a->precision - a->scale, front_b = b->precision - b->scale;
    int32_t scale = a->scale > b->scale ? a->scale : b->scale;
    switch (op) {
    case AST_ADD:
    case AST_SUBTRACT: return decimal_of(form, (front_a > front_b ? front_a : front_b) + scale + 1, scale);
    case AST_MULTIPLY: return decimal_of(form, a->precision + b->precision + 1, a->scale + b->scale);
    case AST_DIVIDE:
        scale = a->scale + 4 < most ? a->scale + 4 : most;
        return decimal_of(form, scale - a->scale + b->scale + a->precision, scale);
    default: return decimal_of(form, scale + (front_a < front_b ? front_a : front_b), scale);
    }
}

/* Decimals of one form, or with an integer that becomes one. */
static bool decimal_operands(struct arrow_type *a, struct arrow_type *b)
{
    if (arrow_id_is_decimal(a->id) && arrow_id_is_decimal(b->id)) {
        struct arrow_type wide;
        if (a->id == b->id) return true;
        if (!wider_decimal(a, b, &wide)) return false;
        *a = *b = wide;
        return true;
    }
    if (arrow_id_is_decimal(a->id) && arrow_id_is_integer(b->id)) return number_as_decimal(decimal_form(a->id), b->id, b);
    if (arrow_id_is_decimal(b->id) && arrow_id_is_integer(a->id)) return number_as_decimal(decimal_form(b->id), a->id, a);
    return false;
}

/* Days and date32. False: no such operation. */
static bool day_operands(bool minus, struct arrow_type *a, struct arrow_type *b, struct arrow_type *result)
{
    if (minus && a->id == ARROW_DATE32 && b->id == ARROW_DATE32) {
        *result = plain_type(ARROW_INT64);
    } else if (a->id == ARROW_DATE32 && arrow_id_is_integer(b->id)) {
        *b = plain_type(ARROW_INT64);
        *result = *a;
    } else if (!minus && arrow_id_is_integer(a->id) && b->id == ARROW_DATE32) {
        *a = plain_type(ARROW_INT64);
        *result = *b;
    } else {
        return false;
    }
    return true;
}

/* Timestamps and durations. */
static bool duration_operands(bool minus, struct arrow_type *a, struct arrow_type *b, struct arrow_type *result)
{
    if (a->id == ARROW_TIMESTAMP && b->id == ARROW_DURATION) {
        b->unit = a->unit;
        *result = *a;
    } else if (!minus && a->id == ARROW_DURATION && b->id == ARROW_TIMESTAMP) {
        a->unit = b->unit;
        *result = *b;
    } else if (a->id == ARROW_DURATION && b->id == ARROW_DURATION && a->unit == b->unit) {
        *result = *a;
    } else {
        return false;
    }
    return true;
}

/* What lies between two times. */
static bool time_difference(struct arrow_type *a, struct arrow_type *b, struct arrow_type *result)
{
    struct arrow_type common;
    if ((a->id != ARROW_TIMESTAMP && !is_date(a->id)) || (b->id != ARROW_TIMESTAMP && !is_date(b->id))) return false;
    if (a->id == ARROW_DATE64 && b->id == ARROW_DATE64) {
        common = stamp_type(ARROW_MILLI, "");
    } else if (!common_time(a, b, &common)) {
        return false;
    }
    if (common.id == ARROW_DATE64) common = stamp_type(ARROW_MILLI, "");
    *a = *b = common;
    *result = duration_type(common.unit);
    return true;
}

/* Dates, timestamps, durations. False: no such operation. */
static bool time_operands(enum ast_arith op, struct arrow_type *a, struct arrow_type *b, struct arrow_type *result)
{
    const bool minus = op == AST_SUBTRACT;
    if (op != AST_ADD && !minus) return false;
    return day_operands(minus, a, b, result) || duration_operands(minus, a, b, result) || (minus && time_difference(a, b, result));
}

bool bind_arithmetic(enum ast_arith op, struct arrow_type *a, struct arrow_type *b, struct arrow_type *result)
{
    if (a->id == ARROW_NULL && b->id == ARROW_NULL) *a = *b = plain_type(ARROW_INT64);
    if (a->id == ARROW_NULL) *a = *b;
    if (b->id == ARROW_NULL) *b = *a;
    if (is_interval(a->id) || is_interval(b->id)) return false;
    const bool had_decimal = arrow_id_is_decimal(a->id) || arrow_id_is_decimal(b->id);
    if (time_operands(op, a, b, result)) return true;
    if (decimal_operands(a, b)) {
        *result = decimal_result(op, a, b);
        return true;
    }
    if (!is_number(a->id) || !is_number(b->id)) return false;
    /* A decimal with a float: the float's arithmetic. */
    if (arrow_id_is_decimal(a->id)) *a = *b;
    if (arrow_id_is_decimal(b->id)) *b = *a;
    if (a->id == ARROW_FLOAT16 && had_decimal) return false;
    *result = a->id == b->id ? *a : wider_number(a->id, b->id);
    *a = *b = *result;
    if (arrow_id_is_decimal(result->id)) *result = decimal_result(op, a, b); /* uint64 with a signed integer */
    return true;
}
