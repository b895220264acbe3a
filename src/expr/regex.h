/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Regular expressions in the syntax of Rust's regex, matched by PCRE2. */
#ifndef EXPR_REGEX_H
#define EXPR_REGEX_H

#include "expr/functions.h"

/* A name of a group, in the arena of the translation. */
struct regex_name {
    struct bytes name;
    uint32_t group;
};
struct regex_names {
    struct regex_name *items;
    size_t n, cap;
    struct buf text; /* where the names lie */
};

/* Rewrite a pattern (valid UTF-8, of any length) as one of PCRE2 (UTF, UCP, newline LF). `extended`: the flag x holds from the start. Names are
 * taken out of the pattern: all groups are numbered. INVALID_ARGUMENT of kind FunctionFailed names the place. */
pennon_status regex_translate(struct bytes pattern, bool extended, struct mem *m, struct buf *out, struct regex_names *names,
                              pennon_error *err) CHECKED;
void regex_names_free(struct regex_names *names, struct mem *m);

/* A compiled pattern; immutable, for any number of threads. `flags`: letters of i m s x U u, each once. */
struct regex;
struct regex *regex_new(struct bytes pattern, struct bytes flags, struct mem *m, pennon_error *err) CHECKED;
void regex_free(struct regex *re); /* NULL is allowed */
uint32_t regex_groups(const struct regex *re);
/* Number of a named group; false: there is none. */
bool regex_group(const struct regex *re, struct bytes name, uint32_t *out);

/* What one evaluation needs to match one pattern. */
struct matcher;
struct matcher *matcher_new(const struct regex *re, struct mem *m, pennon_error *err) CHECKED;
void matcher_free(struct matcher *x); /* NULL is allowed */
/* First match at or behind `from`; *found. INVALID_ARGUMENT of kind FunctionFailed where the match takes too many steps. */
pennon_status matcher_find(struct matcher *x, struct bytes text, size_t from, bool *found, pennon_error *err) CHECKED;
/* Bounds of a group (0 = all) of the last match; false: the group took no part. */
bool matcher_group(const struct matcher *x, uint32_t group, size_t *start, size_t *end);

/* Walk over the matches that do not overlap; an empty match right behind another one does not count. */
struct match_walk {
    size_t at, last_end; /* SIZE_MAX = none */
};
pennon_status matcher_next(struct matcher *x, struct bytes text, struct match_walk *w, bool *found, pennon_error *err) CHECKED;

#endif
