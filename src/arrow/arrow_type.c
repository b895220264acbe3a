/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The type of an Arrow field: format texts of the C data interface, parsed and written.
 *
 * format          | type                            | format           | type
 * ----------------|---------------------------------|------------------|-------------------------------------------
 * n b             | null, bool                      | tdD tdm          | date32 (days), date64 (milliseconds)
 * c C s S i I l L | int8, uint8, … uint64           | tts ttm ttu ttn  | time32 s, ms; time64 us, ns
 * e f g           | float16, float32, float64       | tss: tsm: …      | timestamp s, ms, us, ns; the zone follows
 * z Z vz          | binary, large, view             | tDs tDm tDu tDn  | duration s, ms, us, ns
 * u U vu          | utf8, large, view               | tiM tiD tin      | interval months, day-time, month-day-nano
 * w:N             | fixed size binary of N bytes    | +l +L +vl +vL    | list, large list, list views
 * d:P,S           | decimal128 (precision, scale)   | +w:N +s +m +r    | fixed size list of N, struct, map, run ends
 * d:P,S,B         | decimal of B bits, 32 to 256    | +ud:I,… +us:I,…  | dense and sparse union with their type ids
 *
 * A dictionary is not a format: its field has the index type's format and a dictionary schema.
 * Source: the Arrow C data interface. */
#include "arrow/arrow.h"

static const char *const ID_NAMES[ARROW_ID_COUNT] = {
    [ARROW_NULL] = "null",
    [ARROW_BOOL] = "bool",
    [ARROW_INT8] = "int8",
    [ARROW_UINT8] = "uint8",
    [ARROW_INT16] = "int16",
    [ARROW_UINT16] = "uint16",
    [ARROW_INT32] = "int32",
    [ARROW_UINT32] = "uint32",
    [ARROW_INT64] = "int64",
    [ARROW_UINT64] = "uint64",
    [ARROW_FLOAT16] = "float16",
    [ARROW_FLOAT32] = "float32",
    [ARROW_FLOAT64] = "float64",
    [ARROW_DECIMAL32] = "decimal32",
    [ARROW_DECIMAL64] = "decimal64",
    [ARROW_DECIMAL128] = "decimal128",
    [ARROW_DECIMAL256] = "decimal256",
    [ARROW_DATE32] = "date32",
    [ARROW_DATE64] = "date64",
    [ARROW_TIME32] = "time32",
    [ARROW_TIME64] = "time64",
    [ARROW_TIMESTAMP] = "timestamp",
    [ARROW_DURATION] = "duration",
    [ARROW_INTERVAL_MONTHS] = "interval_months",
    [ARROW_INTERVAL_DAY_TIME] = "interval_day_time",
    [ARROW_INTERVAL_MONTH_DAY_NANO] = "interval_month_day_nano",
    [ARROW_FIXED_SIZE_BINARY] = "fixed_size_binary",
    [ARROW_BINARY] = "binary",
    [ARROW_LARGE_BINARY] = "large_binary",
    [ARROW_BINARY_VIEW] = "binary_view",
    [ARROW_UTF8] = "utf8",
    [ARROW_LARGE_UTF8] = "large_utf8",
    [ARROW_UTF8_VIEW] = "utf8_view",
    [ARROW_LIST] = "list",
    [ARROW_LARGE_LIST] = "large_list",
    [ARROW_LIST_VIEW] = "list_view",
    [ARROW_LARGE_LIST_VIEW] = "large_list_view",
    [ARROW_FIXED_SIZE_LIST] = "fixed_size_list",
    [ARROW_STRUCT] = "struct",
    [ARROW_MAP] = "map",
    [ARROW_SPARSE_UNION] = "sparse_union",
    [ARROW_DENSE_UNION] = "dense_union",
    [ARROW_RUN_END_ENCODED] = "run_end_encoded",
    [ARROW_DICTIONARY] = "dictionary",
};

const char *arrow_id_name(enum arrow_id id)
{
    ASSERT((unsigned)id < ARROW_ID_COUNT);
    return ID_NAMES[id];
}

/* ------------------------------------------------------------------------------------------------ parsing of formats */

struct simple_format {
    const char *format;
    enum arrow_id id;
    enum arrow_layout layout;
    uint32_t bit_width;
    enum arrow_unit unit;
};

/* Formats without parameters. One-letter ones first: arrow_type_parse finds them without a search. */
static const struct simple_format SIMPLE[] = {
    {"n", ARROW_NULL, LAYOUT_NULL, 0, ARROW_SECOND},
    {"b", ARROW_BOOL, LAYOUT_BITS, 1, ARROW_SECOND},
    {"c", ARROW_INT8, LAYOUT_FIXED, 8, ARROW_SECOND},
    {"C", ARROW_UINT8, LAYOUT_FIXED, 8, ARROW_SECOND},
    {"s", ARROW_INT16, LAYOUT_FIXED, 16, ARROW_SECOND},
    {"S", ARROW_UINT16, LAYOUT_FIXED, 16, ARROW_SECOND},
    {"i", ARROW_INT32, LAYOUT_FIXED, 32, ARROW_SECOND},
    {"I", ARROW_UINT32, LAYOUT_FIXED, 32, ARROW_SECOND},
    {"l", ARROW_INT64, LAYOUT_FIXED, 64, ARROW_SECOND},
    {"L", ARROW_UINT64, LAYOUT_FIXED, 64, ARROW_SECOND},
    {"e", ARROW_FLOAT16, LAYOUT_FIXED, 16, ARROW_SECOND},
    {"f", ARROW_FLOAT32, LAYOUT_FIXED, 32, ARROW_SECOND},
    {"g", ARROW_FLOAT64, LAYOUT_FIXED, 64, ARROW_SECOND},
    {"z", ARROW_BINARY, LAYOUT_VAR32, 0, ARROW_SECOND},
    {"Z", ARROW_LARGE_BINARY, LAYOUT_VAR64, 0, ARROW_SECOND},
    {"u", ARROW_UTF8, LAYOUT_VAR32, 0, ARROW_SECOND},
    {"U", ARROW_LARGE_UTF8, LAYOUT_VAR64, 0, ARROW_SECOND},
    {"vz", ARROW_BINARY_VIEW, LAYOUT_VIEW, 0, ARROW_SECOND},
    {"vu", ARROW_UTF8_VIEW, LAYOUT_VIEW, 0, ARROW_SECOND},
    {"tdD", ARROW_DATE32, LAYOUT_FIXED, 32, ARROW_SECOND},
    {"tdm", ARROW_DATE64, LAYOUT_FIXED, 64, ARROW_MILLI},
    {"tts", ARROW_TIME32, LAYOUT_FIXED, 32, ARROW_SECOND},
    {"ttm", ARROW_TIME32, LAYOUT_FIXED, 32, ARROW_MILLI},
    {"ttu", ARROW_TIME64, LAYOUT_FIXED, 64, ARROW_MICRO},
    {"ttn", ARROW_TIME64, LAYOUT_FIXED, 64, ARROW_NANO},
    {"tDs", ARROW_DURATION, LAYOUT_FIXED, 64, ARROW_SECOND},
    {"tDm", ARROW_DURATION, LAYOUT_FIXED, 64, ARROW_MILLI},
    {"tDu", ARROW_DURATION, LAYOUT_FIXED, 64, ARROW_MICRO},
    {"tDn", ARROW_DURATION, LAYOUT_FIXED, 64, ARROW_NANO},
    {"tiM", ARROW_INTERVAL_MONTHS, LAYOUT_FIXED, 32, ARROW_SECOND},
    {"tiD", ARROW_INTERVAL_DAY_TIME, LAYOUT_FIXED, 64, ARROW_SECOND},
    {"tin", ARROW_INTERVAL_MONTH_DAY_NANO, LAYOUT_FIXED, 128, ARROW_SECOND},
    {"+l", ARROW_LIST, LAYOUT_LIST32, 0, ARROW_SECOND},
    {"+L", ARROW_LARGE_LIST, LAYOUT_LIST64, 0, ARROW_SECOND},
    {"+vl", ARROW_LIST_VIEW, LAYOUT_LIST_VIEW32, 0, ARROW_SECOND},
    {"+vL", ARROW_LARGE_LIST_VIEW, LAYOUT_LIST_VIEW64, 0, ARROW_SECOND},
    {"+s", ARROW_STRUCT, LAYOUT_STRUCT, 0, ARROW_SECOND},
    {"+m", ARROW_MAP, LAYOUT_LIST32, 0, ARROW_SECOND},
    {"+r", ARROW_RUN_END_ENCODED, LAYOUT_RUN_END, 0, ARROW_SECOND},
};

static const char UNIT_LETTERS[] = "smun";

/* Read a decimal int32 with an optional minus; moves *p behind it. */
static bool parse_i32(const char **p, int32_t *out)
{
    const char *s = *p;
    bool negative = *s == '-';
    int64_t v = 0;
    s += negative;
    if (*s < '0' || *s > '9') return false;
    for (; *s >= '0' && *s <= '9'; s++) {
        v = v * 10 + (*s - '0');
        if (v > INT32_MAX) return false;
    }
    *out = (int32_t)(negative ? -v : v);
    *p = s;
    return true;
}

/* Type ids of a union: distinct numbers 0..127 with commas between, or nothing. */
static bool union_ids_valid(const char *ids)
{
    bool seen[128] = {false};
    if (*ids == '\0') return true;
    for (;;) {
        int32_t id = 0;
        if (!parse_i32(&ids, &id) || id < 0 || id > 127 || seen[id]) return false;
        seen[id] = true;
        if (*ids == '\0') return true;
        if (*ids++ != ',') return false;
    }
}

static bool parse_decimal(const char *p, struct arrow_type *out)
{
    int32_t bits = 128;
    if (!parse_i32(&p, &out->precision) || *p++ != ',' || !parse_i32(&p, &out->scale)) return false;
    if (*p == ',') {
        p++;
        if (!parse_i32(&p, &bits)) return false;
    }
    if (*p != '\0' || out->precision < 1) return false;
    out->layout = LAYOUT_FIXED;
    out->bit_width = (uint32_t)bits;
    switch (bits) { /* the digits that surely fit */
    case 32: out->id = ARROW_DECIMAL32; return out->precision <= 9;
    case 64: out->id = ARROW_DECIMAL64; return out->precision <= 18;
    case 128: out->id = ARROW_DECIMAL128; return out->precision <= 38;
    case 256: out->id = ARROW_DECIMAL256; return out->precision <= 76;
    default: return false;
    }
}

/* ts, a unit, a colon; the rest is the zone. */
static bool parse_timestamp(const char *p, struct arrow_type *out)
{
    const char *unit = strchr(UNIT_LETTERS, p[2]);
    if (unit == NULL) return false;
    out->id = ARROW_TIMESTAMP;
    out->layout = LAYOUT_FIXED;
    out->bit_width = 64;
    out->unit = (enum arrow_unit)(unit - UNIT_LETTERS);
    out->timezone = p + 4;
    return true;
}

/* Formats with parameters; false when it is none of them. */
static bool parse_parametric(const char *format, struct arrow_type *out)
{
    const char *p = format;
    if (p[0] == 'd' && p[1] == ':') return parse_decimal(p + 2, out);
    if (p[0] == 'w' && p[1] == ':') {
        p += 2;
        out->id = ARROW_FIXED_SIZE_BINARY;
        out->layout = LAYOUT_FIXED;
        /* The width in bits has to fit 32 bits. */
        if (!parse_i32(&p, &out->fixed_size) || *p != '\0' || out->fixed_size < 0 || out->fixed_size > INT32_MAX / 8) return false;
        out->bit_width = (uint32_t)out->fixed_size * 8;
        return true;
    }
    if (p[0] == 't' && p[1] == 's' && p[2] != '\0' && p[3] == ':') return parse_timestamp(p, out);
    if (p[0] == '+' && p[1] == 'w' && p[2] == ':') {
        p += 3;
        out->id = ARROW_FIXED_SIZE_LIST;
        out->layout = LAYOUT_FIXED_LIST;
        return parse_i32(&p, &out->fixed_size) && *p == '\0' && out->fixed_size >= 0;
    }
    if (p[0] == '+' && p[1] == 'u' && (p[2] == 'd' || p[2] == 's') && p[3] == ':') {
        out->id = p[2] == 'd' ? ARROW_DENSE_UNION : ARROW_SPARSE_UNION;
        out->layout = p[2] == 'd' ? LAYOUT_DENSE_UNION : LAYOUT_SPARSE_UNION;
        out->union_ids = p + 4;
        return union_ids_valid(p + 4);
    }
    return false;
}

pennon_status arrow_type_parse(const char *format, struct arrow_type *out, pennon_error *err)
{
    *out = (struct arrow_type){0};
    if (format == NULL) return error_set(err, PENNON_INVALID_ARGUMENT, "Arrow schema: the format is missing");
    for (size_t i = 0; i < ARRAY_LEN(SIMPLE); i++) {
        const struct simple_format *f = &SIMPLE[i];
        if (f->format[0] != format[0] || strcmp(f->format, format) != 0) continue;
        out->id = f->id;
        out->layout = f->layout;
        out->bit_width = f->bit_width;
        out->unit = f->unit;
        return PENNON_OK;
    }
    if (parse_parametric(format, out)) return PENNON_OK;
    return error_set(err, PENNON_INVALID_ARGUMENT, "Arrow schema: unknown format '%.64s'", format);
}

pennon_status arrow_type_of(const struct ArrowSchema *schema, struct arrow_type *out, pennon_error *err)
{
    TRY_RETURN(arrow_type_parse(schema->format, out, err));
    if (schema->dictionary == NULL) return PENNON_OK;
    if (!arrow_id_is_integer(out->id)) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "Arrow schema: dictionary indices of format '%.64s'; they must be integers",
                         schema->format);
    }
    out->index = out->id;
    out->id = ARROW_DICTIONARY;
    return PENNON_OK;
}

/* ------------------------------------------------------------------------------------------------ writing of formats */

pennon_status arrow_type_format(const struct arrow_type *type, struct buf *out, pennon_error *err)
{
    ASSERT(type->id != ARROW_DICTIONARY);
    switch (type->id) {
    case ARROW_DECIMAL128: TRY_RETURN(buf_printf(out, err, "d:%d,%d", type->precision, type->scale)); break;
    case ARROW_DECIMAL32:
    case ARROW_DECIMAL64:
    case ARROW_DECIMAL256:
        TRY_RETURN(buf_printf(out, err, "d:%d,%d,%u", type->precision, type->scale, (unsigned)type->bit_width));
        break;
    case ARROW_FIXED_SIZE_BINARY: TRY_RETURN(buf_printf(out, err, "w:%d", type->fixed_size)); break;
    case ARROW_FIXED_SIZE_LIST: TRY_RETURN(buf_printf(out, err, "+w:%d", type->fixed_size)); break;
    case ARROW_TIMESTAMP:
        TRY_RETURN(buf_printf(out, err, "ts%c:%s", UNIT_LETTERS[type->unit], type->timezone ? type->timezone : ""));
        break;
    case ARROW_DENSE_UNION:
    case ARROW_SPARSE_UNION:
        TRY_RETURN(
            buf_printf(out, err, "+u%c:%s", type->id == ARROW_DENSE_UNION ? 'd' : 's', type->union_ids ? type->union_ids : ""));
        break;
    default: {
        const char *format = NULL;
        for (size_t i = 0; i < ARRAY_LEN(SIMPLE) && format == NULL; i++) {
            bool with_unit = SIMPLE[i].id == ARROW_TIME32 || SIMPLE[i].id == ARROW_TIME64 || SIMPLE[i].id == ARROW_DURATION;
            if (SIMPLE[i].id == type->id && (!with_unit || SIMPLE[i].unit == type->unit)) format = SIMPLE[i].format;
        }
        if (format == NULL) {
            return error_set(err, PENNON_INVALID_ARGUMENT, "Arrow type: %s has no unit number %d", arrow_id_name(type->id),
                             (int)type->unit);
        }
        TRY_RETURN(buf_append(out, format, strlen(format), err));
        break;
    }
    }
    return buf_terminate(out, err);
}

size_t arrow_type_buffers(const struct arrow_type *type)
{
    switch (type->layout) {
    case LAYOUT_NULL:
    case LAYOUT_RUN_END: return 0;
    case LAYOUT_FIXED_LIST:
    case LAYOUT_STRUCT:
    case LAYOUT_SPARSE_UNION: return 1;
    case LAYOUT_BITS:
    case LAYOUT_FIXED:
    case LAYOUT_LIST32:
    case LAYOUT_LIST64:
    case LAYOUT_DENSE_UNION: return 2;
    case LAYOUT_VAR32:
    case LAYOUT_VAR64:
    case LAYOUT_VIEW:
    case LAYOUT_LIST_VIEW32:
    case LAYOUT_LIST_VIEW64: return 3;
    }
    ASSERT(false);
    return 0;
}
