/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Patterns of Rust's regex, rewritten for PCRE2.
 *
 * Both match alike (leftmost, first alternative, Unicode), so most of a pattern is copied. What differs:
 *   - look-around, back references, possessive and atomic groups, verbs, recursion do not exist: refused. a++ is (a+)+.
 *   - the flag x is taken out here (it holds within classes too); u is dropped; R and -u are refused.
 *   - names of groups are taken out and kept.
 *   - sets: [a[bc]], [a&&b], [a--b], [a~~b] become alternatives and looks ahead that consume one character; [:alpha:] is ASCII.
 *   - \w, \s are written out, \v is one character, \u and \U are read, \< \> \b{start} \b{end} become looks around.
 *   - the names of Unicode properties are brought to those that PCRE2 knows.
 * What is refused names the byte of the pattern. Nesting is bounded, so the recursion is.
 * Source: spec expressions 7; forms asked of official. */
#include "expr/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>

#define DEPTH_MAX 200u
#define WRAPS_MAX 50u
#define OUT_MAX ((size_t)1 << 22)
#define REPEAT_MAX 65535

/* Rust's \w and \s, as items of a class. */
#if PCRE2_MAJOR > 10 || PCRE2_MINOR >= 40
#define ALPHABETIC "\\p{Alphabetic}"
#else
#define ALPHABETIC "\\p{L}\\p{Nl}"
#endif
#define WORD_ITEMS ALPHABETIC "\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}"
#define SPACE_ITEMS "\\p{Xsp}\\x{85}"

struct translator {
    struct bytes in;
    size_t at;
    struct buf *out;
    struct regex_names *names;
    struct mem *mem;
    bool extended;
    unsigned depth;
    uint32_t groups;
    size_t atom;    /* where the last thing that can be repeated begins in `out`; SIZE_MAX = nothing */
    bool repeated;  /* it has a repetition already */
    unsigned wraps; /* groups put around it */
    pennon_error *err;
};

static pennon_status bad(struct translator *t, size_t at, const char *what)
{
    error_fill(t->err, PENNON_INVALID_ARGUMENT, "regular expression '%.*s': %s at byte %zu", (int)min_u64(t->in.size, 200),
               (const char *)t->in.data, what, at);
    return error_kind(t->err, "FunctionFailed");
}

static pennon_status put(struct translator *t, const char *text) { return buf_append(t->out, text, strlen(text), t->err); }

static pennon_status put_char(struct translator *t, uint32_t c)
{
    if (c < 0x80 && !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))) {
        return buf_printf(t->out, t->err, "\\x{%x}", c);
    }
    uint8_t bytes[4];
    return buf_append(t->out, bytes, utf8_put(bytes, c), t->err);
}

static bool more(const struct translator *t) { return t->at < t->in.size; }
static uint8_t peek(const struct translator *t) { return t->at < t->in.size ? t->in.data[t->at] : 0; }
static bool looking_at(const struct translator *t, const char *text)
{
    const size_t n = strlen(text);
    return t->in.size - t->at >= n && memcmp(t->in.data + t->at, text, n) == 0;
}
static bool take(struct translator *t, const char *text)
{
    if (!looking_at(t, text)) return false;
    t->at += strlen(text);
    return true;
}

/* Blanks and comments, under the flag x. */
static void skip_ignored(struct translator *t)
{
    while (t->extended && more(t)) {
        size_t at = t->at;
        const uint32_t c = utf8_next(t->in, &at);
        if (c == '#') {
            while (more(t) && peek(t) != '\n') t->at++;
        } else if (c == ' ' || (c >= 9 && c <= 13) || c == 0x85 || c == 0x200e || c == 0x200f || c == 0x2028 || c == 0x2029) {
            t->at = at;
        } else {
            break;
        }
    }
}

static bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }
static bool is_letter(uint8_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static int hex_value(uint8_t c)
{
    if (is_digit(c)) return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* ---- escapes ---- */

enum escape_kind { ESCAPE_CHAR, ESCAPE_CLASS, ESCAPE_ASSERTION };
struct escape {
    enum escape_kind kind;
    uint32_t c;        /* of ESCAPE_CHAR */
    const char *items; /* of ESCAPE_CLASS: items of a class, or NULL: property */
    bool negated;
    char property[80]; /* "\p{…}" */
    const char *assertion;
};

/* Digits behind \x, \u or \U: as many as said, or any number in braces. */
static pennon_status read_hex(struct translator *t, unsigned digits, uint32_t *out)
{
    const bool braces = peek(t) == '{';
    const size_t start = t->at;
    uint32_t v = 0;
    unsigned n = 0;
    t->at += braces;
    for (; more(t) && hex_value(peek(t)) >= 0 && (braces ? n < 8 : n < digits); n++, t->at++)
        v = v << 4 | (uint32_t)hex_value(peek(t));
    if (n == 0 || (!braces && n < digits) || (braces && !take(t, "}"))) return bad(t, start, "wrong hexadecimal character");
    if (v > 0x10ffff || (v >= 0xd800 && v < 0xe000)) return bad(t, start, "no Unicode character");
    *out = v;
    return PENNON_OK;
}

static const struct {
    const char *name, *code;
} categories[] = {
    {"letter", "L"},
    {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
    {"titlecaseletter", "Lt"},
    {"casedletter", "L&"},
    {"lc", "L&"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"mark", "M"},
    {"combiningmark", "M"},
    {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"digit", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"punct", "P"},
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"openpunctuation", "Ps"},
    {"closepunctuation", "Pe"},
    {"initialpunctuation", "Pi"},
    {"finalpunctuation", "Pf"},
    {"otherpunctuation", "Po"},
    {"symbol", "S"},
    {"mathsymbol", "Sm"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"othersymbol", "So"},
    {"separator", "Z"},
    {"spaceseparator", "Zs"},
    {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"},
    {"other", "C"},
    {"control", "Cc"},
    {"cntrl", "Cc"},
    {"format", "Cf"},
    {"privateuse", "Co"},
    {"unassigned", "Cn"},
    {"surrogate", "Cs"},
    {"any", "Any"},
};

/* Does PCRE2 know the property? */
static bool property_exists(const char *text)
{
    int code;
    PCRE2_SIZE place;
    pcre2_code *made = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &code, &place, NULL);
    const bool exists = made != NULL;
    pcre2_code_free(made);
    return exists;
}

/* The name behind \p in lower case without blanks, '_' and '-', as property names are compared. */
static bool normal_name(struct bytes in, char out[64])
{
    size_t n = 0;
    for (size_t i = 0; i < in.size; i++) {
        const uint8_t c = in.data[i];
        if (c == ' ' || c == '_' || c == '-') continue;
        if (n >= 40 || c >= 0x80 || !(is_letter(c) || is_digit(c))) return false;
        out[n++] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
    }
    out[n] = '\0';
    return n > 0;
}

static bool find_property(struct bytes kind, const char *name, char out[80])
{
    char of[64] = "";
    if (kind.size > 0 && !normal_name(kind, of)) return false;
    const bool any = kind.size == 0, category = strcmp(of, "gc") == 0 || strcmp(of, "generalcategory") == 0;
    if (strcmp(of, "sc") == 0 || strcmp(of, "script") == 0) {
        (void)snprintf(out, 80, "\\p{sc:%s}", name);
        return property_exists(out);
    }
    if (strcmp(of, "scx") == 0 || strcmp(of, "scriptextensions") == 0) {
        (void)snprintf(out, 80, "\\p{scx:%s}", name);
        return property_exists(out);
    }
    if (!any && !category) return false;
    for (size_t i = 0; i < ARRAY_LEN(categories); i++) {
        if (strcmp(categories[i].name, name) == 0) {
            (void)snprintf(out, 80, "\\p{%s}", categories[i].code);
            return true;
        }
    }
    if (strlen(name) <= 2) {
        (void)snprintf(out, 80, "\\p{%c%s}", name[0] - 32, name + 1);
        return property_exists(out);
    }
    if (category) return false;
    (void)snprintf(out, 80, "\\p{sc:%s}", name);
    if (property_exists(out)) return true;
    (void)snprintf(out, 80, "\\p{%s}", name);
    return property_exists(out);
}

static pennon_status read_property(struct translator *t, bool negated, struct escape *out)
{
    const size_t start = t->at;
    struct bytes name, kind = {NULL, 0};
    char normal[64];
    if (take(t, "{")) {
        if (take(t, "^")) negated = !negated;
        size_t end = t->at;
        while (end < t->in.size && t->in.data[end] != '}') end++;
        if (end == t->in.size) return bad(t, start, "unclosed property");
        name = bytes_of(t->in.data + t->at, end - t->at);
        t->at = end + 1;
        for (size_t i = 0; i < name.size; i++) {
            if (name.data[i] != '=' && name.data[i] != ':') continue;
            size_t cut = i;
            if (cut > 0 && name.data[cut - 1] == '!') {
                negated = !negated;
                cut--;
            }
            kind = bytes_of(name.data, cut);
            name = bytes_of(name.data + i + 1, name.size - i - 1);
            break;
        }
    } else {
        if (!more(t)) return bad(t, start, "property without a name");
        name = bytes_of(t->in.data + t->at, 1);
        t->at++;
    }
    if (!normal_name(name, normal) || !find_property(kind, normal, out->property)) return bad(t, start, "unknown Unicode property");
    out->kind = ESCAPE_CLASS;
    out->negated = negated;
    return PENNON_OK;
}

static pennon_status read_class_letter(struct escape *out, uint8_t c)
{
    out->kind = ESCAPE_CLASS;
    out->negated = c == 'D' || c == 'S' || c == 'W';
    out->items = c == 'd' || c == 'D' ? "\\p{Nd}" : c == 's' || c == 'S' ? SPACE_ITEMS : WORD_ITEMS;
    return PENNON_OK;
}

#define AT_WORD "[" WORD_ITEMS "]"

/* Assertions, outside of classes. False: it is none. */
static bool read_assertion(struct translator *t, uint8_t c, struct escape *out)
{
    static const struct {
        const char *braces, *text;
    } forms[] = {
        {"{start}", "(?<!" AT_WORD ")(?=" AT_WORD ")"},
        {"{end}", "(?<=" AT_WORD ")(?!" AT_WORD ")"},
        {"{start-half}", "(?<!" AT_WORD ")"},
        {"{end-half}", "(?!" AT_WORD ")"},
    };
    out->kind = ESCAPE_ASSERTION;
    switch (c) {
    case 'A': out->assertion = "\\A"; return true;
    case 'z': out->assertion = "\\z"; return true;
    case 'B': out->assertion = "\\B"; return true;
    case '<': out->assertion = forms[0].text; return true;
    case '>': out->assertion = forms[1].text; return true;
    case 'b':
        for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
            if (take(t, forms[i].braces)) {
                out->assertion = forms[i].text;
                return true;
            }
        }
        out->assertion = "\\b";
        return true;
    default: return false;
    }
}

/* Behind the backslash. */
static pennon_status read_escape(struct translator *t, bool in_class, struct escape *out)
{
    static const char letters[] = "aftnrv", chars[] = "\a\f\t\n\r\v";
    const size_t start = t->at - 1;
    memset(out, 0, sizeof *out);
    if (!more(t)) return bad(t, start, "incomplete escape");
    const uint8_t c = t->in.data[t->at++];
    if (is_digit(c)) return bad(t, start, "back references are not supported");
    switch (c) {
    case 'x': return read_hex(t, 2, &out->c);
    case 'u': return read_hex(t, 4, &out->c);
    case 'U': return read_hex(t, 8, &out->c);
    case 'p':
    case 'P': return read_property(t, c == 'P', out);
    case 'd':
    case 'D':
    case 's':
    case 'S':
    case 'w':
    case 'W': return read_class_letter(out, c);
    default: break;
    }
    const char *known = c == 0 ? NULL : strchr(letters, c);
    if (known != NULL) {
        out->c = (uint8_t)chars[known - letters];
        return PENNON_OK;
    }
    if (!in_class && read_assertion(t, c, out)) return PENNON_OK;
    if (c >= 0x80 || is_letter(c) || c == '<' || c == '>') return bad(t, start, "unrecognized escape");
    out->kind = ESCAPE_CHAR;
    out->c = c;
    return PENNON_OK;
}

/* ---- classes ---- */

/* One operand of a class: plain items, and what consumes one character but is no item. */
struct set {
    struct buf items;  /* of [ ] */
    struct buf others; /* alternatives, each with a '|' before it */
};

static pennon_status read_class(struct translator *t, struct buf *out);

static const struct {
    const char *name, *items;
} ascii_classes[] = {
    {"alnum", "0-9A-Za-z"},
    {"alpha", "A-Za-z"},
    {"ascii", "\\x{0}-\\x{7f}"},
    {"blank", "\\x{9}\\x{20}"},
    {"cntrl", "\\x{0}-\\x{1f}\\x{7f}"},
    {"digit", "0-9"},
    {"graph", "\\x{21}-\\x{7e}"},
    {"lower", "a-z"},
    {"print", "\\x{20}-\\x{7e}"},
    {"punct", "\\x{21}-\\x{2f}\\x{3a}-\\x{40}\\x{5b}-\\x{60}\\x{7b}-\\x{7e}"},
    {"space", "\\x{9}-\\x{d}\\x{20}"},
    {"upper", "A-Z"},
    {"word", "0-9A-Za-z_"},
    {"xdigit", "0-9A-Fa-f"},
};

static pennon_status add_items(struct translator *t, struct set *s, const char *items, bool negated)
{
    return negated ? buf_printf(&s->others, t->err, "|[^%s]", items) : buf_append(&s->items, items, strlen(items), t->err);
}

/* [:name:] or [:^name:]; false: nothing was taken. */
static pennon_status add_ascii_class(struct translator *t, struct set *s, bool *taken)
{
    const size_t start = t->at;
    *taken = false;
    if (!take(t, "[:")) return PENNON_OK;
    const bool negated = take(t, "^");
    for (size_t i = 0; i < ARRAY_LEN(ascii_classes); i++) {
        const size_t n = strlen(ascii_classes[i].name);
        if (looking_at(t, ascii_classes[i].name) && t->in.size - t->at > n + 1 && memcmp(t->in.data + t->at + n, ":]", 2) == 0) {
            t->at += n + 2;
            *taken = true;
            return add_items(t, s, ascii_classes[i].items, negated);
        }
    }
    t->at = start;
    return PENNON_OK;
}

static pennon_status put_item(struct translator *t, struct buf *to, uint32_t c) { return buf_printf(to, t->err, "\\x{%x}", c); }

/* One character of a class, or the end of a range. */
static pennon_status read_class_char(struct translator *t, struct escape *e)
{
    memset(e, 0, sizeof *e);
    if (!more(t)) return bad(t, t->at, "unclosed character class");
    if (take(t, "\\")) return read_escape(t, true, e);
    e->c = utf8_next(t->in, &t->at);
    return PENNON_OK;
}

static pennon_status read_class_item(struct translator *t, struct set *s)
{
    struct escape low, high;
    const size_t start = t->at;
    TRY_RETURN(read_class_char(t, &low));
    skip_ignored(t);
    const bool range = peek(t) == '-' && !looking_at(t, "--") && !looking_at(t, "-]");
    if (low.kind == ESCAPE_CLASS) {
        if (range) return bad(t, start, "a class cannot begin a range");
        return add_items(t, s, low.items != NULL ? low.items : low.property, low.negated);
    }
    TRY_RETURN(put_item(t, &s->items, low.c));
    if (!range) return PENNON_OK;
    t->at++;
    skip_ignored(t);
    TRY_RETURN(read_class_char(t, &high));
    if (high.kind == ESCAPE_CLASS) return bad(t, start, "a class cannot end a range");
    if (high.c < low.c) return bad(t, start, "a range ends before it begins");
    TRY_RETURN(buf_append_byte(&s->items, '-', t->err));
    return put_item(t, &s->items, high.c);
}

/* Something that consumes one character of the set. */
static pennon_status close_set(struct translator *t, struct set *s, struct buf *out)
{
    const bool plain = s->others.size == 0;
    if (s->items.size == 0 && plain) return buf_printf(out, t->err, "(?!)");
    if (plain) return buf_printf(out, t->err, "[%.*s]", (int)s->items.size, (const char *)s->items.data);
    TRY_RETURN(buf_printf(out, t->err, "(?:"));
    const size_t skip = s->items.size == 0; /* the first '|' */
    if (!skip) TRY_RETURN(buf_printf(out, t->err, "[%.*s]", (int)s->items.size, (const char *)s->items.data));
    TRY_RETURN(buf_append(out, s->others.data + skip, s->others.size - skip, t->err));
    return buf_append_byte(out, ')', t->err);
}

/* Items up to an operator or the closing bracket. `first`: a ']' or '-' is a character. */
static pennon_status read_union(struct translator *t, bool first, struct buf *out)
{
    pennon_status st = PENNON_OK;
    struct set s;
    buf_init(&s.items, t->mem, OUT_MAX);
    buf_init(&s.others, t->mem, OUT_MAX);
    for (;;) {
        bool taken = false;
        skip_ignored(t);
        if (!more(t)) {
            st = bad(t, t->at, "unclosed character class");
            goto done;
        }
        if (!first && (peek(t) == ']' || looking_at(t, "&&") || looking_at(t, "--") || looking_at(t, "~~"))) break;
        if (peek(t) == '[') {
            TRY(add_ascii_class(t, &s, &taken));
            if (!taken) {
                TRY(buf_append_byte(&s.others, '|', t->err));
                TRY(read_class(t, &s.others));
            }
        } else {
            TRY(read_class_item(t, &s));
        }
        first = false;
    }
    TRY(close_set(t, &s, out));
done:
    buf_free(&s.items);
    buf_free(&s.others);
    return st;
}

static pennon_status combine(struct translator *t, struct buf *a, struct buf *b, uint8_t op, struct buf *out)
{
    const int an = (int)a->size, bn = (int)b->size;
    const char *as = (const char *)a->data, *bs = (const char *)b->data;
    switch (op) {
    case '&': return buf_printf(out, t->err, "(?:(?=%.*s)%.*s)", bn, bs, an, as);
    case '-': return buf_printf(out, t->err, "(?:(?!%.*s)%.*s)", bn, bs, an, as);
    default: return buf_printf(out, t->err, "(?:(?!%.*s)%.*s|(?!%.*s)%.*s)", bn, bs, an, as, an, as, bn, bs);
    }
}

/* From the opening bracket to behind the closing one. */
static pennon_status read_class(struct translator *t, struct buf *out)
{
    pennon_status st = PENNON_OK;
    struct buf left, right, both;
    const size_t start = t->at;
    buf_init(&left, t->mem, OUT_MAX);
    buf_init(&right, t->mem, OUT_MAX);
    buf_init(&both, t->mem, OUT_MAX);
    if (t->depth == DEPTH_MAX) return bad(t, start, "nested too deeply");
    t->depth++;
    t->at++;
    skip_ignored(t);
    const bool negated = take(t, "^");
    skip_ignored(t);
    TRY(read_union(t, true, &left));
    while (peek(t) != ']') {
        const uint8_t op = peek(t);
        t->at += 2;
        right.size = 0;
        both.size = 0;
        TRY(read_union(t, false, &right));
        TRY(combine(t, &left, &right, op, &both));
        left.size = 0;
        TRY(buf_append(&left, both.data, both.size, t->err));
    }
    t->at++;
    if (negated && left.data[0] == '[') {
        TRY(buf_printf(out, t->err, "[^%.*s", (int)left.size - 1, (const char *)left.data + 1));
    } else if (negated) {
        TRY(buf_printf(out, t->err, "(?:(?!%.*s)(?s:.))", (int)left.size, (const char *)left.data));
    } else {
        TRY(buf_append(out, left.data, left.size, t->err));
    }
    t->depth--;
done:
    buf_free(&left);
    buf_free(&right);
    buf_free(&both);
    return st;
}

/* ---- repetition ---- */

/* Put "(?:" before the last atom and ")" behind it. */
static pennon_status wrap_atom(struct translator *t)
{
    if (++t->wraps > WRAPS_MAX) return bad(t, t->at, "too many repetitions of one thing");
    TRY_RETURN(put(t, "(?:"));
    memmove(t->out->data + t->atom + 3, t->out->data + t->atom, t->out->size - 3 - t->atom);
    memcpy(t->out->data + t->atom, "(?:", 3);
    return put(t, ")");
}

static pennon_status read_count(struct translator *t, size_t start, int64_t *out)
{
    int64_t v = 0;
    unsigned n = 0;
    while (peek(t) == ' ') t->at++;
    for (; is_digit(peek(t)); n++, t->at++) {
        v = v * 10 + (peek(t) - '0');
        if (v > REPEAT_MAX) return bad(t, start, "a repetition count is too large");
    }
    while (peek(t) == ' ') t->at++;
    if (n == 0) return bad(t, start, "a repetition needs a number");
    *out = v;
    return PENNON_OK;
}

/* {n}, {n,}, {n,m}. */
static pennon_status read_braces(struct translator *t, char text[40])
{
    const size_t start = t->at++;
    int64_t low, high;
    TRY_RETURN(read_count(t, start, &low));
    if (take(t, "}")) {
        (void)snprintf(text, 40, "{%" PRId64 "}", low);
        return PENNON_OK;
    }
    if (!take(t, ",")) return bad(t, start, "unclosed repetition");
    while (peek(t) == ' ') t->at++;
    if (take(t, "}")) {
        (void)snprintf(text, 40, "{%" PRId64 ",}", low);
        return PENNON_OK;
    }
    TRY_RETURN(read_count(t, start, &high));
    if (!take(t, "}")) return bad(t, start, "unclosed repetition");
    if (high < low) return bad(t, start, "a repetition ends before it begins");
    (void)snprintf(text, 40, "{%" PRId64 ",%" PRId64 "}", low, high);
    return PENNON_OK;
}

static pennon_status read_repetition(struct translator *t)
{
    char text[40] = {(char)peek(t), '\0'};
    if (t->atom == SIZE_MAX) return bad(t, t->at, "a repetition has nothing to repeat");
    if (peek(t) == '{') {
        TRY_RETURN(read_braces(t, text));
    } else {
        t->at++;
    }
    if (t->repeated) TRY_RETURN(wrap_atom(t));
    TRY_RETURN(put(t, text));
    skip_ignored(t);
    if (take(t, "?")) TRY_RETURN(put(t, "?"));
    t->repeated = true;
    return PENNON_OK;
}

/* ---- groups ---- */

static pennon_status add_name(struct translator *t, size_t start)
{
    size_t end = t->at;
    while (end < t->in.size && t->in.data[end] != '>') end++;
    const struct bytes name = bytes_of(t->in.data + t->at, end - t->at);
    if (end == t->in.size) return bad(t, start, "unclosed group name");
    if (name.size == 0 || is_digit(name.data[0])) return bad(t, start, "wrong group name");
    for (size_t i = 0; i < name.size;) {
        const uint32_t c = utf8_next(name, &i);
        if (!char_is_alphanumeric(c) && c != '_' && !(i > 1 && (c == '.' || c == '[' || c == ']')))
            return bad(t, start, "wrong group name");
    }
    for (size_t i = 0; i < t->names->n; i++) {
        if (bytes_equal(t->names->items[i].name, name)) return bad(t, start, "a group name is there twice");
    }
    TRY_RETURN(mem_grow(t->mem, &t->names->items, &t->names->cap, t->names->n, sizeof *t->names->items, 65535, t->err));
    t->names->items[t->names->n].name = name; /* in the pattern for now */
    t->names->items[t->names->n++].group = t->groups;
    t->at = end + 1;
    return PENNON_OK;
}

/* Flags behind "(?"; leaves the ':' or ')' that ends them. `text` gets those that PCRE2 is to know. */
static pennon_status read_flags(struct translator *t, char text[16])
{
    bool on = true, seen[128] = {false};
    size_t n = 0;
    for (;; t->at++) {
        const uint8_t c = peek(t);
        if (c == ':' || c == ')') break;
        if (c == 0 || c >= 0x80 || seen[c] || strchr("imsxuU-", c) == NULL) {
            if (c == '=' || c == '!' || c == '<') return bad(t, t->at, "look-around is not supported");
            if (c == 'R') return bad(t, t->at, "the flag R is not supported");
            return bad(t, t->at, c != 0 && c < 0x80 && seen[c] ? "a flag is there twice" : "unrecognized flag");
        }
        seen[c] = true;
        if (c == '-') {
            on = false;
        } else if (c == 'x') {
            t->extended = on;
            continue;
        } else if (c == 'u') {
            if (!on) return bad(t, t->at, "the flag -u is not supported");
            continue;
        }
        text[n++] = (char)c;
    }
    if (n > 0 && text[n - 1] == '-') n--;
    text[n] = '\0';
    return PENNON_OK;
}

static pennon_status read_alternatives(struct translator *t);

/* From the parenthesis on. */
static pennon_status read_group(struct translator *t)
{
    const size_t start = t->at++, atom = t->out->size;
    const bool extended = t->extended;
    char flags[16];
    if (t->depth == DEPTH_MAX) return bad(t, start, "nested too deeply");
    if (take(t, "?P<") || (looking_at(t, "?<") && !looking_at(t, "?<=") && !looking_at(t, "?<!") && take(t, "?<"))) {
        t->groups++;
        TRY_RETURN(add_name(t, start));
        TRY_RETURN(put(t, "("));
    } else if (take(t, "?")) {
        TRY_RETURN(read_flags(t, flags));
        if (take(t, ")")) {
            /* Flags for the rest of the group around. */
            t->atom = SIZE_MAX;
            return flags[0] == '\0' ? PENNON_OK : buf_printf(t->out, t->err, "(?%s)", flags);
        }
        t->at++;
        TRY_RETURN(buf_printf(t->out, t->err, "(?%s:", flags));
    } else {
        t->groups++;
        TRY_RETURN(put(t, "("));
    }
    t->depth++;
    TRY_RETURN(read_alternatives(t));
    t->depth--;
    if (!take(t, ")")) return bad(t, start, "unclosed group");
    TRY_RETURN(put(t, ")"));
    t->extended = extended;
    t->atom = atom;
    t->repeated = false;
    t->wraps = 0;
    return PENNON_OK;
}

static pennon_status read_atom(struct translator *t)
{
    const uint8_t c = peek(t);
    t->atom = t->out->size;
    t->repeated = false;
    t->wraps = 0;
    if (c == '[') return read_class(t, t->out);
    if (c == '.') {
        t->at++;
        return put(t, ".");
    }
    if (c == '^' || c == '$') {
        t->at++;
        return put(t, c == '^' ? "(?:^)" : "(?:$)");
    }
    if (c == '\\') {
        struct escape e;
        t->at++;
        TRY_RETURN(read_escape(t, false, &e));
        if (e.kind == ESCAPE_CHAR) return put_char(t, e.c);
        if (e.kind == ESCAPE_ASSERTION) return buf_printf(t->out, t->err, "(?:%s)", e.assertion);
        return buf_printf(t->out, t->err, "[%s%s]", e.negated ? "^" : "", e.items != NULL ? e.items : e.property);
    }
    return put_char(t, utf8_next(t->in, &t->at));
}

static pennon_status read_alternatives(struct translator *t)
{
    t->atom = SIZE_MAX;
    for (;;) {
        skip_ignored(t);
        if (!more(t) || peek(t) == ')') return PENNON_OK;
        switch (peek(t)) {
        case '|':
            t->at++;
            t->atom = SIZE_MAX;
            TRY_RETURN(put(t, "|"));
            break;
        case '(': TRY_RETURN(read_group(t)); break;
        case '*':
        case '+':
        case '?':
        case '{': TRY_RETURN(read_repetition(t)); break;
        default: TRY_RETURN(read_atom(t)); break;
        }
    }
}

/* The names move out of the pattern, which does not live as long. */
static pennon_status keep_names(struct translator *t)
{
    size_t at = 0;
    for (size_t i = 0; i < t->names->n; i++)
        TRY_RETURN(buf_append(&t->names->text, t->names->items[i].name.data, t->names->items[i].name.size, t->err));
    for (size_t i = 0; i < t->names->n; i++) {
        t->names->items[i].name.data = t->names->text.data + at;
        at += t->names->items[i].name.size;
    }
    return PENNON_OK;
}

pennon_status regex_translate(struct bytes pattern, bool extended, struct mem *m, struct buf *out, struct regex_names *names,
                              pennon_error *err)
{
    struct translator t = {.in = pattern, .out = out, .names = names, .mem = m, .extended = extended, .atom = SIZE_MAX, .err = err};
    memset(names, 0, sizeof *names);
    buf_init(&names->text, m, OUT_MAX);
    TRY_RETURN(read_alternatives(&t));
    if (t.at < pattern.size) return bad(&t, t.at, "unopened group");
    return keep_names(&t);
}

void regex_names_free(struct regex_names *names, struct mem *m)
{
    mem_free(m, names->items);
    buf_free(&names->text);
    memset(names, 0, sizeof *names);
}
