/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Names of Arrow types as arrow_cast reads them and arrow_typeof writes them: "Int32", "Timestamp(µs, \"UTC\")", "List(non-null Int64)",
 * "Struct(\"x\": Int32, \"y\": Utf8)".
 *
 *   type    name | name "(" parts ")"
 *   unit    s ms us µs ns, or Second Millisecond Microsecond Nanosecond
 *   zone    None, Some("UTC"), "UTC"
 *   list    List(T), LargeList(T), FixedSizeList(n x T) or FixedSizeList(n, T); T may have "nullable" or "non-null" before it
 *
 * Blanks between words do not count. Nesting is bounded; unions, maps and run ends are written but not read.
 * Source: spec expressions 6; forms asked of official. */
#include <stdio.h>

#include "expr/functions.h"

#define NAME_MAX_DEPTH 32u

/* Simple types: name and format. */
static const struct {
    enum arrow_id id;
    const char *name, *format;
} simple_names[] = {
    {ARROW_NULL, "Null", "n"},
    {ARROW_BOOL, "Boolean", "b"},
    {ARROW_INT8, "Int8", "c"},
    {ARROW_UINT8, "UInt8", "C"},
    {ARROW_INT16, "Int16", "s"},
    {ARROW_UINT16, "UInt16", "S"},
    {ARROW_INT32, "Int32", "i"},
    {ARROW_UINT32, "UInt32", "I"},
    {ARROW_INT64, "Int64", "l"},
    {ARROW_UINT64, "UInt64", "L"},
    {ARROW_FLOAT16, "Float16", "e"},
    {ARROW_FLOAT32, "Float32", "f"},
    {ARROW_FLOAT64, "Float64", "g"},
    {ARROW_DATE32, "Date32", "tdD"},
    {ARROW_DATE64, "Date64", "tdm"},
    {ARROW_BINARY, "Binary", "z"},
    {ARROW_LARGE_BINARY, "LargeBinary", "Z"},
    {ARROW_BINARY_VIEW, "BinaryView", "vz"},
    {ARROW_UTF8, "Utf8", "u"},
    {ARROW_LARGE_UTF8, "LargeUtf8", "U"},
    {ARROW_UTF8_VIEW, "Utf8View", "vu"},
    {ARROW_INTERVAL_MONTHS, "Interval(YearMonth)", NULL},
    {ARROW_INTERVAL_DAY_TIME, "Interval(DayTime)", NULL},
    {ARROW_INTERVAL_MONTH_DAY_NANO, "Interval(MonthDayNano)", NULL},
};

/* ---- writing ---- */

static pennon_status write_type(const struct ArrowSchema *s, struct buf *out, pennon_error *err);

static pennon_status write_item(const struct ArrowSchema *s, struct buf *out, pennon_error *err)
{
    if (!arrow_schema_nullable(s)) TRY_RETURN(buf_printf(out, err, "non-null "));
    return write_type(s, out, err);
}

static pennon_status write_struct(const struct ArrowSchema *s, struct buf *out, pennon_error *err)
{
    TRY_RETURN(buf_printf(out, err, "Struct("));
    for (int64_t i = 0; i < s->n_children; i++) {
        const char *name = s->children[i]->name;
        TRY_RETURN(buf_printf(out, err, "%s\"%s\": ", i > 0 ? ", " : "", name == NULL ? "" : name));
        TRY_RETURN(write_item(s->children[i], out, err));
    }
    return buf_append_byte(out, ')', err);
}

static pennon_status write_list(const struct ArrowSchema *s, const char *head, struct buf *out, pennon_error *err)
{
    TRY_RETURN(buf_printf(out, err, "%s", head));
    TRY_RETURN(write_item(s->children[0], out, err));
    return buf_append_byte(out, ')', err);
}

static pennon_status write_time(const struct arrow_type *t, struct buf *out, pennon_error *err)
{
    static const char *const units[] = {"s", "ms", "\xc2\xb5s", "ns"};
    const char *name = t->id == ARROW_TIMESTAMP  ? "Timestamp"
                       : t->id == ARROW_DURATION ? "Duration"
                       : t->id == ARROW_TIME32   ? "Time32"
                                                 : "Time64";
    if (t->id == ARROW_TIMESTAMP && t->timezone[0] != '\0') {
        return buf_printf(out, err, "%s(%s, \"%s\")", name, units[t->unit], t->timezone);
    }
    return buf_printf(out, err, "%s(%s)", name, units[t->unit]);
}

static pennon_status write_dictionary(const struct ArrowSchema *s, const struct arrow_type *t, struct buf *out, pennon_error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(simple_names); i++) {
        if (simple_names[i].id == t->index) TRY_RETURN(buf_printf(out, err, "Dictionary(%s, ", simple_names[i].name));
    }
    TRY_RETURN(write_type(s->dictionary, out, err));
    return buf_append_byte(out, ')', err);
}

static pennon_status write_type(const struct ArrowSchema *s, struct buf *out, pennon_error *err)
{
    struct arrow_type t;
    char head[40];
    TRY_RETURN(arrow_type_of(s, &t, err));
    for (size_t i = 0; i < ARRAY_LEN(simple_names); i++) {
        if (simple_names[i].id == t.id) return buf_printf(out, err, "%s", simple_names[i].name);
    }
    switch (t.id) {
    case ARROW_DECIMAL32:
    case ARROW_DECIMAL64:
    case ARROW_DECIMAL128:
    case ARROW_DECIMAL256: return buf_printf(out, err, "Decimal%u(%" PRId32 ", %" PRId32 ")", t.bit_width, t.precision, t.scale);
    case ARROW_TIME32:
    case ARROW_TIME64:
    case ARROW_TIMESTAMP:
    case ARROW_DURATION: return write_time(&t, out, err);
    case ARROW_FIXED_SIZE_BINARY: return buf_printf(out, err, "FixedSizeBinary(%" PRId32 ")", t.fixed_size);
    case ARROW_LIST: return write_list(s, "List(", out, err);
    case ARROW_LARGE_LIST: return write_list(s, "LargeList(", out, err);
    case ARROW_LIST_VIEW: return write_list(s, "ListView(", out, err);
    case ARROW_LARGE_LIST_VIEW: return write_list(s, "LargeListView(", out, err);
    case ARROW_FIXED_SIZE_LIST:
        (void)snprintf(head, sizeof head, "FixedSizeList(%" PRId32 " x ", t.fixed_size);
        return write_list(s, head, out, err);
    case ARROW_STRUCT: return write_struct(s, out, err);
    case ARROW_MAP:
        TRY_RETURN(buf_printf(out, err, "Map(\"entries\": "));
        TRY_RETURN(write_item(s->children[0], out, err));
        return buf_printf(out, err, ", %s)", (s->flags & ARROW_FLAG_MAP_KEYS_SORTED) != 0 ? "sorted" : "unsorted");
    case ARROW_DICTIONARY: return write_dictionary(s, &t, out, err);
    default: return arrow_type_text(s, out, err);
    }
}

pennon_status type_name_write(const struct ArrowSchema *schema, struct buf *out, pennon_error *err)
{
    return write_type(schema, out, err);
}

/* ---- reading ---- */

struct reader {
    struct bytes text;
    size_t at;
    struct mem *mem;
    unsigned depth;
};

static void skip_blanks(struct reader *r)
{
    while (r->at < r->text.size && (r->text.data[r->at] == ' ' || r->text.data[r->at] == '\t' || r->text.data[r->at] == '\n'))
        r->at++;
}

static bool take(struct reader *r, char c)
{
    skip_blanks(r);
    if (r->at == r->text.size || r->text.data[r->at] != (uint8_t)c) return false;
    r->at++;
    return true;
}

/* Letters, digits, '-' and '_', and the bytes of other characters. */
static struct bytes take_word(struct reader *r)
{
    skip_blanks(r);
    const size_t start = r->at;
    while (r->at < r->text.size) {
        const uint8_t c = r->text.data[r->at];
        if (!(c >= 0x80 || c == '-' || c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')))
            break;
        r->at++;
    }
    return bytes_of(r->text.data + start, r->at - start);
}

static bool is_word(struct bytes word, const char *text) { return bytes_equal(word, bytes_str(text)); }

/* The word, or nothing is taken. */
static bool take_keyword(struct reader *r, const char *text)
{
    const size_t start = r->at;
    if (is_word(take_word(r), text)) return true;
    r->at = start;
    return false;
}

static pennon_status unread(const struct reader *r, pennon_error *err)
{
    error_fill(err, PENNON_INVALID_ARGUMENT, "unsupported type '%.*s' (at byte %zu); write for example 'Int32' or 'Timestamp(ns)'",
               (int)min_u64(r->text.size, 200), (const char *)r->text.data, r->at);
    return error_kind(err, "TypeMismatch");
}

static bool take_number(struct reader *r, int32_t *out)
{
    const struct bytes word = take_word(r);
    int64_t v = 0;
    size_t i = word.size > 0 && word.data[0] == '-';
    if (i == word.size || word.size > 10) return false;
    for (; i < word.size; i++) {
        if (word.data[i] < '0' || word.data[i] > '9') return false;
        v = v * 10 + (word.data[i] - '0');
    }
    if (word.data[0] == '-') v = -v;
    if (v > INT32_MAX || v < INT32_MIN) return false;
    *out = (int32_t)v;
    return true;
}

static bool take_unit(struct reader *r, char *out)
{
    static const char *const names[] = {"s", "ms", "us", "ns", "Second", "Millisecond", "Microsecond", "Nanosecond", "\xc2\xb5s"};
    static const char formats[] = "smunsmunu";
    const struct bytes word = take_word(r);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (is_word(word, names[i])) {
            *out = formats[i];
            return true;
        }
    }
    return false;
}

static bool take_quoted(struct reader *r, struct bytes *out)
{
    if (!take(r, '"')) return false;
    const size_t start = r->at;
    while (r->at < r->text.size && r->text.data[r->at] != '"') r->at++;
    *out = bytes_of(r->text.data + start, r->at - start);
    return take(r, '"');
}

/* A format with one or two parameters is made of a text that is no longer than this. */
#define FORMAT_MAX 128u

static bool read_timestamp(struct reader *r, char format[FORMAT_MAX])
{
    char unit;
    struct bytes zone = {NULL, 0};
    if (!take_unit(r, &unit)) return false;
    if (take(r, ',') && !take_keyword(r, "None")) {
        const bool some = take_keyword(r, "Some");
        if (some && !take(r, '(')) return false;
        if (!take_quoted(r, &zone) || (some && !take(r, ')'))) return false;
    }
    const int n = snprintf(format, FORMAT_MAX, "ts%c:%.*s", unit, (int)min_u64(zone.size, FORMAT_MAX), (const char *)zone.data);
    return n > 0 && (unsigned)n < FORMAT_MAX;
}

/* Decimal32(p, s) and its like; results as below. */
static int read_decimal(struct reader *r, struct bytes name, char format[FORMAT_MAX])
{
    static const struct {
        const char *name;
        int32_t digits, bits;
    } decimals[] = {{"Decimal32", 9, 32}, {"Decimal64", 18, 64}, {"Decimal128", 38, 128}, {"Decimal256", 76, 256}};
    int32_t a, b;
    for (size_t i = 0; i < ARRAY_LEN(decimals); i++) {
        if (!is_word(name, decimals[i].name)) continue;
        if (!take_number(r, &a) || !take(r, ',') || !take_number(r, &b) || a < 1 || a > decimals[i].digits || b > a) return -1;
        (void)snprintf(format, FORMAT_MAX, decimals[i].bits == 128 ? "d:%d,%d" : "d:%d,%d,%d", a, b, decimals[i].bits);
        return 1;
    }
    return 0;
}

static int read_time(struct reader *r, struct bytes name, char format[FORMAT_MAX])
{
    const bool time32 = is_word(name, "Time32"), time64 = is_word(name, "Time64");
    char unit;
    if (!time32 && !time64 && !is_word(name, "Duration")) return 0;
    if (!take_unit(r, &unit)) return -1;
    if ((time32 && unit != 's' && unit != 'm') || (time64 && unit != 'u' && unit != 'n')) return -1;
    (void)snprintf(format, FORMAT_MAX, time32 || time64 ? "tt%c" : "tD%c", unit);
    return 1;
}

/* The format of a type with parameters but no children; 0 = no such name, 1 = read, -1 = its parameters are wrong. */
static int read_parameters(struct reader *r, struct bytes name, char format[FORMAT_MAX])
{
    int32_t size;
    if (is_word(name, "Timestamp")) return read_timestamp(r, format) ? 1 : -1;
    if (is_word(name, "FixedSizeBinary")) {
        if (!take_number(r, &size) || size < 0) return -1;
        (void)snprintf(format, FORMAT_MAX, "w:%d", size);
        return 1;
    }
    const int decimal = read_decimal(r, name, format);
    return decimal != 0 ? decimal : read_time(r, name, format);
}

static pennon_status read_type(struct reader *r, const char *name, bool nullable, struct ArrowSchema *out, pennon_error *err);

static pennon_status read_item(struct reader *r, const char *name, struct ArrowSchema *out, pennon_error *err)
{
    const bool required = take_keyword(r, "non-null");
    if (!required) (void)take_keyword(r, "nullable");
    return read_type(r, name, !required, out, err);
}

static pennon_status read_list(struct reader *r, struct bytes kind, const char *name, int64_t flags, struct ArrowSchema *out,
                               pennon_error *err)
{
    char format[FORMAT_MAX];
    int32_t n = 0;
    if (is_word(kind, "FixedSizeList")) {
        if (!take_number(r, &n) || n < 0 || (!take_keyword(r, "x") && !take(r, ','))) return unread(r, err);
        (void)snprintf(format, sizeof format, "+w:%d", n);
    } else {
        (void)snprintf(format, sizeof format, "%s", is_word(kind, "List") ? "+l" : "+L");
    }
    TRY_RETURN(arrow_schema_new(out, format, name, flags, 1, r->mem, err));
    return read_item(r, "item", out->children[0], err);
}

static pennon_status read_dictionary(struct reader *r, const char *name, int64_t flags, struct ArrowSchema *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowSchema index = {0};
    struct arrow_type t;
    TRY(read_type(r, "", true, &index, err));
    TRY(arrow_type_of(&index, &t, err));
    if (!arrow_id_is_integer(t.id) || !take(r, ',')) {
        st = unread(r, err);
        goto done;
    }
    TRY(arrow_schema_new(out, index.format, name, flags, 0, r->mem, err));
    TRY(arrow_schema_add_dictionary(out, err));
    TRY(read_type(r, "", true, out->dictionary, err));
done:
    arrow_schema_release(&index);
    return st;
}

/* Fields of a struct are counted first: quotes outside of inner parentheses come in pairs, one a field. */
static size_t count_fields(const struct reader *r)
{
    size_t depth = 0, quotes = 0;
    bool quoted = false;
    for (size_t i = r->at; i < r->text.size; i++) {
        const uint8_t c = r->text.data[i];
        if (c == '"') {
            quoted = !quoted;
            quotes += depth == 0;
        } else if (!quoted && c == '(') {
            depth++;
        } else if (!quoted && c == ')') {
            if (depth-- == 0) break;
        }
    }
    return quotes / 2;
}

static pennon_status read_struct(struct reader *r, const char *name, int64_t flags, struct ArrowSchema *out, pennon_error *err)
{
    const size_t n = count_fields(r);
    TRY_RETURN(arrow_schema_new(out, "+s", name, flags, n, r->mem, err));
    for (size_t i = 0; i < n; i++) {
        struct bytes field;
        if (i > 0 && !take(r, ',')) return unread(r, err);
        if (!take_quoted(r, &field) || !take(r, ':')) return unread(r, err);
        char *text = mem_strndup(r->mem, (const char *)field.data, field.size, err);
        if (text == NULL) return err->code;
        const pennon_status st = read_item(r, text, out->children[i], err);
        mem_free(r->mem, text);
        if (st != PENNON_OK) return st;
    }
    return PENNON_OK;
}

static pennon_status read_nested(struct reader *r, const char *name, int64_t flags, struct ArrowSchema *out, pennon_error *err)
{
    char format[FORMAT_MAX];
    const struct bytes kind = take_word(r);
    if (!take(r, '(')) return unread(r, err);
    const int simple = read_parameters(r, kind, format);
    if (simple < 0) return unread(r, err);
    if (simple > 0) {
        TRY_RETURN(arrow_schema_new(out, format, name, flags, 0, r->mem, err));
    } else if (is_word(kind, "List") || is_word(kind, "LargeList") || is_word(kind, "FixedSizeList")) {
        TRY_RETURN(read_list(r, kind, name, flags, out, err));
    } else if (is_word(kind, "Struct")) {
        TRY_RETURN(read_struct(r, name, flags, out, err));
    } else if (is_word(kind, "Dictionary")) {
        TRY_RETURN(read_dictionary(r, name, flags, out, err));
    } else {
        return unread(r, err);
    }
    return take(r, ')') ? PENNON_OK : unread(r, err);
}

static pennon_status read_type(struct reader *r, const char *name, bool nullable, struct ArrowSchema *out, pennon_error *err)
{
    const size_t start = r->at;
    const int64_t flags = nullable ? ARROW_FLAG_NULLABLE : 0;
    const struct bytes word = take_word(r);
    for (size_t i = 0; i < ARRAY_LEN(simple_names); i++) {
        if (simple_names[i].format != NULL && is_word(word, simple_names[i].name)) {
            return arrow_schema_new(out, simple_names[i].format, name, flags, 0, r->mem, err);
        }
    }
    r->at = start;
    if (r->depth == NAME_MAX_DEPTH) return unread(r, err);
    r->depth++;
    const pennon_status st = read_nested(r, name, flags, out, err);
    r->depth--;
    return st;
}

pennon_status type_name_read(struct bytes text, struct mem *mem, struct ArrowSchema *out, pennon_error *err)
{
    struct reader r = {text, 0, mem, 0};
    struct ArrowSchema made = {0};
    pennon_status st = read_type(&r, "", true, &made, err);
    if (st == PENNON_OK) {
        skip_blanks(&r);
        if (r.at != text.size) st = unread(&r, err);
    }
    if (st == PENNON_OK) {
        arrow_schema_move(&made, out);
    } else {
        arrow_schema_release(&made);
    }
    return st;
}

pennon_status expr_type_name(const struct ArrowSchema *schema, struct buf *out, pennon_error *err)
{
    return write_type(schema, out, err);
}
