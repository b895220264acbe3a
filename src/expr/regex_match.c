/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Compiled regular expressions, and matching.
 *
 * PCRE2 compiles the translated pattern with its JIT where it has one for the machine. Its memory is ours: every block it asks for is charged to
 * the expression (compiled code) or the evaluation (match data). A match may take a bounded number of steps and bytes, so that a hostile
 * pattern ends in an error; where the JIT's small stack is too small the interpreter tries again.
 * Texts are valid UTF-8 and are not checked again. Source: regex.h. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>

#include "expr/regex.h"

/* Steps and kibibytes of heap that one match may take. */
#define STEPS_MAX 5000000u
#define HEAP_KIB_MAX 16384u
#define FLAGS_MAX 8u

struct regex {
    struct mem *mem;
    pcre2_general_context *general;
    pcre2_code *code;
    struct regex_names names;
    uint32_t groups;
};

struct matcher {
    struct mem *mem;
    const struct regex *re;
    pcre2_general_context *general;
    pcre2_match_context *context;
    pcre2_match_data *data;
};

static void *take_memory(size_t size, void *m)
{
    pennon_error ignored = {0};
    void *p = mem_alloc(m, size, &ignored);
    pennon_error_clear(&ignored);
    return p;
}
static void give_memory(void *p, void *m) { mem_free(m, p); }

static pennon_status no_memory(pennon_error *err)
{
    return error_set(err, PENNON_OVER_BUDGET, "regular expression: not enough memory within the budget");
}

static pennon_status refuse(struct bytes pattern, const char *what, pennon_error *err)
{
    error_fill(err, PENNON_INVALID_ARGUMENT, "regular expression '%.*s': %s", (int)min_u64(pattern.size, 200),
               (const char *)pattern.data, what);
    return error_kind(err, "FunctionFailed");
}

/* The flags as "(?ims)" at the start; x is the translator's. */
static pennon_status put_flags(struct bytes pattern, struct bytes flags, struct buf *out, bool *extended, pennon_error *err)
{
    bool seen[128] = {false};
    char text[FLAGS_MAX];
    size_t n = 0;
    *extended = false;
    for (size_t i = 0; i < flags.size; i++) {
        const uint8_t c = flags.data[i];
        if (c == 0 || c >= 0x80 || strchr("imsxuU", c) == NULL)
            return refuse(pattern, "unrecognized flag; flags are i, m, s, x, U, u", err);
        if (seen[c]) return refuse(pattern, "a flag is there twice", err);
        seen[c] = true;
        if (c == 'x') {
            *extended = true;
        } else if (c != 'u') {
            text[n++] = (char)c;
        }
    }
    ASSERT(n < FLAGS_MAX);
    return n == 0 ? PENNON_OK : buf_printf(out, err, "(?%.*s)", (int)n, text);
}

static pennon_status compile(struct regex *re, struct bytes pattern, const struct buf *text, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    int code = 0;
    PCRE2_SIZE place = 0;
    pcre2_compile_context *context = pcre2_compile_context_create(re->general);
    if (context == NULL) return no_memory(err);
    (void)pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    const uint32_t options =
        PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_CIRCUMFLEX | PCRE2_NEVER_BACKSLASH_C;
    const uint8_t *data = text->data != NULL ? text->data : (const uint8_t *)"";
    re->code = pcre2_compile(data, text->size, options, &code, &place, context);
    if (re->code == NULL) {
        char message[128] = "";
        (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)message, sizeof message);
        st = code == PCRE2_ERROR_NOMEMORY || code == PCRE2_ERROR_HEAP_FAILED ? no_memory(err) : refuse(pattern, message, err);
    } else {
        /* Without a JIT for the machine the interpreter does. */
        (void)pcre2_jit_compile(re->code, PCRE2_JIT_COMPLETE);
        (void)pcre2_pattern_info(re->code, PCRE2_INFO_CAPTURECOUNT, &re->groups);
    }
    pcre2_compile_context_free(context);
    return st;
}

struct regex *regex_new(struct bytes pattern, struct bytes flags, struct mem *m, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf text;
    bool extended;
    struct regex *re = mem_calloc(m, 1, sizeof *re, err);
    if (re == NULL) return NULL;
    re->mem = mem_retain(m);
    buf_init(&text, m, (size_t)1 << 22);
    re->general = pcre2_general_context_create(take_memory, give_memory, m);
    if (re->general == NULL) {
        st = no_memory(err);
        goto done;
    }
    TRY(put_flags(pattern, flags, &text, &extended, err));
    TRY(regex_translate(pattern, extended, m, &text, &re->names, err));
    TRY(compile(re, pattern, &text, err));
done:
    buf_free(&text);
    if (st != PENNON_OK) {
        regex_free(re);
        re = NULL;
    }
    return re;
}

void regex_free(struct regex *re)
{
    if (re == NULL) return;
    struct mem *m = re->mem;
    pcre2_code_free(re->code);
    pcre2_general_context_free(re->general);
    regex_names_free(&re->names, m);
    mem_free(m, re);
    mem_release(m);
}

uint32_t regex_groups(const struct regex *re) { return re->groups; }

bool regex_group(const struct regex *re, struct bytes name, uint32_t *out)
{
    for (size_t i = 0; i < re->names.n; i++) {
        if (bytes_equal(re->names.items[i].name, name)) {
            *out = re->names.items[i].group;
            return true;
        }
    }
    return false;
}

struct matcher *matcher_new(const struct regex *re, struct mem *m, pennon_error *err)
{
    struct matcher *x = mem_calloc(m, 1, sizeof *x, err);
    if (x == NULL) return NULL;
    x->mem = m;
    x->re = re;
    x->general = pcre2_general_context_create(take_memory, give_memory, m);
    if (x->general != NULL) x->context = pcre2_match_context_create(x->general);
    if (x->context != NULL) x->data = pcre2_match_data_create_from_pattern(re->code, x->general);
    if (x->data == NULL) {
        (void)no_memory(err);
        matcher_free(x);
        return NULL;
    }
    (void)pcre2_set_match_limit(x->context, STEPS_MAX);
    (void)pcre2_set_heap_limit(x->context, HEAP_KIB_MAX);
    return x;
}

void matcher_free(struct matcher *x)
{
    if (x == NULL) return;
    pcre2_match_data_free(x->data);
    pcre2_match_context_free(x->context);
    pcre2_general_context_free(x->general);
    mem_free(x->mem, x);
}

pennon_status matcher_find(struct matcher *x, struct bytes text, size_t from, bool *found, pennon_error *err)
{
    const uint8_t *data = text.data != NULL ? text.data : (const uint8_t *)"";
    ASSERT(from <= text.size);
    int n = pcre2_match(x->re->code, data, text.size, from, PCRE2_NO_UTF_CHECK, x->data, x->context);
    if (n == PCRE2_ERROR_JIT_STACKLIMIT) {
        n = pcre2_match(x->re->code, data, text.size, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, x->data, x->context);
    }
    *found = n >= 0;
    if (n >= 0 || n == PCRE2_ERROR_NOMATCH) return PENNON_OK;
    if (n == PCRE2_ERROR_NOMEMORY) return no_memory(err);
    if (n == PCRE2_ERROR_MATCHLIMIT || n == PCRE2_ERROR_DEPTHLIMIT || n == PCRE2_ERROR_HEAPLIMIT) {
        error_fill(err, PENNON_INVALID_ARGUMENT, "regular expression: a text of %zu bytes takes too many steps to match",
                   text.size);
    } else {
        error_fill(err, PENNON_INVALID_ARGUMENT, "regular expression: matching failed with code %d", n);
    }
    return error_kind(err, "FunctionFailed");
}

bool matcher_group(const struct matcher *x, uint32_t group, size_t *start, size_t *end)
{
    const PCRE2_SIZE *bounds = pcre2_get_ovector_pointer(x->data);
    ASSERT(group < pcre2_get_ovector_count(x->data));
    *start = bounds[2 * group];
    *end = bounds[2 * group + 1];
    return *start != PCRE2_UNSET;
}

pennon_status matcher_next(struct matcher *x, struct bytes text, struct match_walk *w, bool *found, pennon_error *err)
{
    *found = false;
    while (w->at <= text.size) {
        size_t start, end;
        TRY_RETURN(matcher_find(x, text, w->at, found, err));
        if (!*found) return PENNON_OK;
        (void)matcher_group(x, 0, &start, &end);
        if (start != end || end != w->last_end) {
            w->at = end;
            w->last_end = end;
            return PENNON_OK;
        }
        /* Empty, and right behind the match before: try one character on. */
        w->at = end < text.size ? end + utf8_step(text.data[end]) : text.size + 1;
        *found = false;
    }
    return PENNON_OK;
}
