/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Characters of UTF-8 texts: counting, finding, case mappings of whole texts, letters and numbers.
 *
 * utf8proc maps characters to one character each. What becomes more than one in upper case stands in a table here (Unicode's SpecialCasing
 * without conditions), and so does what is alphabetic without being a letter (Other_Alphabetic). Of the conditional mappings only the final
 * sigma is made, as official does: a capital sigma behind a cased letter and not before one becomes the final form.
 * Source: the Unicode character database; spec expressions 7. */
#include <utf8proc.h>

#include "expr/functions.h"

/* A character whose upper case is two or three characters; 0 = none. */
struct upper_entry {
    uint16_t from, to[3];
};
/* clang-format off */
static const struct upper_entry upper_table[] = {
    {0xdf, {0x53, 0x53, 0}}, {0x149, {0x2bc, 0x4e, 0}}, {0x1f0, {0x4a, 0x30c, 0}}, {0x390, {0x399, 0x308, 0x301}},
    {0x3b0, {0x3a5, 0x308, 0x301}}, {0x587, {0x535, 0x552, 0}}, {0x1e96, {0x48, 0x331, 0}}, {0x1e97, {0x54, 0x308, 0}},
    {0x1e98, {0x57, 0x30a, 0}}, {0x1e99, {0x59, 0x30a, 0}}, {0x1e9a, {0x41, 0x2be, 0}}, {0x1f50, {0x3a5, 0x313, 0}},
    {0x1f52, {0x3a5, 0x313, 0x300}}, {0x1f54, {0x3a5, 0x313, 0x301}}, {0x1f56, {0x3a5, 0x313, 0x342}},
    {0x1f80, {0x1f08, 0x399, 0}}, {0x1f81, {0x1f09, 0x399, 0}}, {0x1f82, {0x1f0a, 0x399, 0}}, {0x1f83, {0x1f0b, 0x399, 0}},
    {0x1f84, {0x1f0c, 0x399, 0}}, {0x1f85, {0x1f0d, 0x399, 0}}, {0x1f86, {0x1f0e, 0x399, 0}}, {0x1f87, {0x1f0f, 0x399, 0}},
    {0x1f88, {0x1f08, 0x399, 0}}, {0x1f89, {0x1f09, 0x399, 0}}, {0x1f8a, {0x1f0a, 0x399, 0}}, {0x1f8b, {0x1f0b, 0x399, 0}},
    {0x1f8c, {0x1f0c, 0x399, 0}}, {0x1f8d, {0x1f0d, 0x399, 0}}, {0x1f8e, {0x1f0e, 0x399, 0}}, {0x1f8f, {0x1f0f, 0x399, 0}},
    {0x1f90, {0x1f28, 0x399, 0}}, {0x1f91, {0x1f29, 0x399, 0}}, {0x1f92, {0x1f2a, 0x399, 0}}, {0x1f93, {0x1f2b, 0x399, 0}},
    {0x1f94, {0x1f2c, 0x399, 0}}, {0x1f95, {0x1f2d, 0x399, 0}}, {0x1f96, {0x1f2e, 0x399, 0}}, {0x1f97, {0x1f2f, 0x399, 0}},
    {0x1f98, {0x1f28, 0x399, 0}}, {0x1f99, {0x1f29, 0x399, 0}}, {0x1f9a, {0x1f2a, 0x399, 0}}, {0x1f9b, {0x1f2b, 0x399, 0}},
    {0x1f9c, {0x1f2c, 0x399, 0}}, {0x1f9d, {0x1f2d, 0x399, 0}}, {0x1f9e, {0x1f2e, 0x399, 0}}, {0x1f9f, {0x1f2f, 0x399, 0}},
    {0x1fa0, {0x1f68, 0x399, 0}}, {0x1fa1, {0x1f69, 0x399, 0}}, {0x1fa2, {0x1f6a, 0x399, 0}}, {0x1fa3, {0x1f6b, 0x399, 0}},
    {0x1fa4, {0x1f6c, 0x399, 0}}, {0x1fa5, {0x1f6d, 0x399, 0}}, {0x1fa6, {0x1f6e, 0x399, 0}}, {0x1fa7, {0x1f6f, 0x399, 0}},
    {0x1fa8, {0x1f68, 0x399, 0}}, {0x1fa9, {0x1f69, 0x399, 0}}, {0x1faa, {0x1f6a, 0x399, 0}}, {0x1fab, {0x1f6b, 0x399, 0}},
    {0x1fac, {0x1f6c, 0x399, 0}}, {0x1fad, {0x1f6d, 0x399, 0}}, {0x1fae, {0x1f6e, 0x399, 0}}, {0x1faf, {0x1f6f, 0x399, 0}},
    {0x1fb2, {0x1fba, 0x399, 0}}, {0x1fb3, {0x391, 0x399, 0}}, {0x1fb4, {0x386, 0x399, 0}}, {0x1fb6, {0x391, 0x342, 0}},
    {0x1fb7, {0x391, 0x342, 0x399}}, {0x1fbc, {0x391, 0x399, 0}}, {0x1fc2, {0x1fca, 0x399, 0}}, {0x1fc3, {0x397, 0x399, 0}},
    {0x1fc4, {0x389, 0x399, 0}}, {0x1fc6, {0x397, 0x342, 0}}, {0x1fc7, {0x397, 0x342, 0x399}}, {0x1fcc, {0x397, 0x399, 0}},
    {0x1fd2, {0x399, 0x308, 0x300}}, {0x1fd3, {0x399, 0x308, 0x301}}, {0x1fd6, {0x399, 0x342, 0}},
    {0x1fd7, {0x399, 0x308, 0x342}}, {0x1fe2, {0x3a5, 0x308, 0x300}}, {0x1fe3, {0x3a5, 0x308, 0x301}},
    {0x1fe4, {0x3a1, 0x313, 0}}, {0x1fe6, {0x3a5, 0x342, 0}}, {0x1fe7, {0x3a5, 0x308, 0x342}}, {0x1ff2, {0x1ffa, 0x399, 0}},
    {0x1ff3, {0x3a9, 0x399, 0}}, {0x1ff4, {0x38f, 0x399, 0}}, {0x1ff6, {0x3a9, 0x342, 0}}, {0x1ff7, {0x3a9, 0x342, 0x399}},
    {0x1ffc, {0x3a9, 0x399, 0}}, {0xfb00, {0x46, 0x46, 0}}, {0xfb01, {0x46, 0x49, 0}}, {0xfb02, {0x46, 0x4c, 0}},
    {0xfb03, {0x46, 0x46, 0x49}}, {0xfb04, {0x46, 0x46, 0x4c}}, {0xfb05, {0x53, 0x54, 0}}, {0xfb06, {0x53, 0x54, 0}},
    {0xfb13, {0x544, 0x546, 0}}, {0xfb14, {0x544, 0x535, 0}}, {0xfb15, {0x544, 0x53b, 0}}, {0xfb16, {0x54e, 0x546, 0}},
    {0xfb17, {0x544, 0x53d, 0}},
};

/* First and last of ranges that are alphabetic and no letters. */
static const uint32_t alphabetic[][2] = {
    {0x345, 0x345}, {0x5b0, 0x5bd}, {0x5bf, 0x5bf}, {0x5c1, 0x5c2}, {0x5c4, 0x5c5}, {0x5c7, 0x5c7}, {0x610, 0x61a},
    {0x64b, 0x657}, {0x659, 0x65f}, {0x670, 0x670}, {0x6d6, 0x6dc}, {0x6e1, 0x6e4}, {0x6e7, 0x6e8}, {0x6ed, 0x6ed},
    {0x711, 0x711}, {0x730, 0x73f}, {0x7a6, 0x7b0}, {0x816, 0x817}, {0x81b, 0x823}, {0x825, 0x827}, {0x829, 0x82c},
    {0x8d4, 0x8df}, {0x8e3, 0x8e9}, {0x8f0, 0x903}, {0x93a, 0x93b}, {0x93e, 0x94c}, {0x94e, 0x94f}, {0x955, 0x957},
    {0x962, 0x963}, {0x981, 0x983}, {0x9be, 0x9c4}, {0x9c7, 0x9c8}, {0x9cb, 0x9cc}, {0x9d7, 0x9d7}, {0x9e2, 0x9e3},
    {0xa01, 0xa03}, {0xa3e, 0xa42}, {0xa47, 0xa48}, {0xa4b, 0xa4c}, {0xa51, 0xa51}, {0xa70, 0xa71}, {0xa75, 0xa75},
    {0xa81, 0xa83}, {0xabe, 0xac5}, {0xac7, 0xac9}, {0xacb, 0xacc}, {0xae2, 0xae3}, {0xafa, 0xafc}, {0xb01, 0xb03},
    {0xb3e, 0xb44}, {0xb47, 0xb48}, {0xb4b, 0xb4c}, {0xb56, 0xb57}, {0xb62, 0xb63}, {0xb82, 0xb82}, {0xbbe, 0xbc2},
    {0xbc6, 0xbc8}, {0xbca, 0xbcc}, {0xbd7, 0xbd7}, {0xc00, 0xc03}, {0xc3e, 0xc44}, {0xc46, 0xc48}, {0xc4a, 0xc4c},
    {0xc55, 0xc56}, {0xc62, 0xc63}, {0xc81, 0xc83}, {0xcbe, 0xcc4}, {0xcc6, 0xcc8}, {0xcca, 0xccc}, {0xcd5, 0xcd6},
    {0xce2, 0xce3}, {0xd00, 0xd03}, {0xd3e, 0xd44}, {0xd46, 0xd48}, {0xd4a, 0xd4c}, {0xd57, 0xd57}, {0xd62, 0xd63},
    {0xd81, 0xd83}, {0xdcf, 0xdd4}, {0xdd6, 0xdd6}, {0xdd8, 0xddf}, {0xdf2, 0xdf3}, {0xe31, 0xe31}, {0xe34, 0xe3a},
    {0xe4d, 0xe4d}, {0xeb1, 0xeb1}, {0xeb4, 0xeb9}, {0xebb, 0xebc}, {0xecd, 0xecd}, {0xf71, 0xf81}, {0xf8d, 0xf97},
    {0xf99, 0xfbc}, {0x102b, 0x1036}, {0x1038, 0x1038}, {0x103b, 0x103e}, {0x1056, 0x1059}, {0x105e, 0x1060},
    {0x1062, 0x1064}, {0x1067, 0x106d}, {0x1071, 0x1074}, {0x1082, 0x108d}, {0x108f, 0x108f}, {0x109a, 0x109d},
    {0x1712, 0x1713}, {0x1732, 0x1733}, {0x1752, 0x1753}, {0x1772, 0x1773}, {0x17b6, 0x17c8}, {0x1885, 0x1886},
    {0x18a9, 0x18a9}, {0x1920, 0x192b}, {0x1930, 0x1938}, {0x1a17, 0x1a1b}, {0x1a55, 0x1a5e}, {0x1a61, 0x1a74},
    {0x1abf, 0x1ac0}, {0x1acc, 0x1ace}, {0x1b00, 0x1b04}, {0x1b35, 0x1b43}, {0x1b80, 0x1b82}, {0x1ba1, 0x1ba9},
    {0x1bac, 0x1bad}, {0x1be7, 0x1bf1}, {0x1c24, 0x1c36}, {0x1de7, 0x1df4}, {0x24b6, 0x24e9}, {0x2de0, 0x2dff},
    {0xa674, 0xa67b}, {0xa69e, 0xa69f}, {0xa802, 0xa802}, {0xa80b, 0xa80b}, {0xa823, 0xa827}, {0xa880, 0xa881},
    {0xa8b4, 0xa8c3}, {0xa8c5, 0xa8c5}, {0xa8ff, 0xa8ff}, {0xa926, 0xa92a}, {0xa947, 0xa952}, {0xa980, 0xa983},
    {0xa9b4, 0xa9bf}, {0xa9e5, 0xa9e5}, {0xaa29, 0xaa36}, {0xaa43, 0xaa43}, {0xaa4c, 0xaa4d}, {0xaa7b, 0xaa7d},
    {0xaab0, 0xaab0}, {0xaab2, 0xaab4}, {0xaab7, 0xaab8}, {0xaabe, 0xaabe}, {0xaaeb, 0xaaef}, {0xaaf5, 0xaaf5},
    {0xabe3, 0xabea}, {0xfb1e, 0xfb1e}, {0x10376, 0x1037a}, {0x10a01, 0x10a03}, {0x10a05, 0x10a06}, {0x10a0c, 0x10a0f},
    {0x10d24, 0x10d27}, {0x10eab, 0x10eac}, {0x11000, 0x11002}, {0x11038, 0x11045}, {0x11073, 0x11074}, {0x11082, 0x11082},
    {0x110b0, 0x110b8}, {0x110c2, 0x110c2}, {0x11100, 0x11102}, {0x11127, 0x11132}, {0x11145, 0x11146}, {0x11180, 0x11182},
    {0x111b3, 0x111bf}, {0x111ce, 0x111cf}, {0x1122c, 0x11234}, {0x11237, 0x11237}, {0x1123e, 0x1123e}, {0x112df, 0x112e8},
    {0x11300, 0x11303}, {0x1133e, 0x11344}, {0x11347, 0x11348}, {0x1134b, 0x1134c}, {0x11357, 0x11357}, {0x11362, 0x11363},
    {0x11435, 0x11441}, {0x11443, 0x11445}, {0x114b0, 0x114c1}, {0x115af, 0x115b5}, {0x115b8, 0x115be}, {0x115dc, 0x115dd},
    {0x11630, 0x1163e}, {0x11640, 0x11640}, {0x116ab, 0x116b5}, {0x1171d, 0x1172a}, {0x1182c, 0x11838}, {0x11930, 0x11935},
    {0x11937, 0x11938}, {0x1193b, 0x1193c}, {0x11940, 0x11940}, {0x11942, 0x11942}, {0x119d1, 0x119d7}, {0x119da, 0x119df},
    {0x119e4, 0x119e4}, {0x11a01, 0x11a0a}, {0x11a35, 0x11a39}, {0x11a3b, 0x11a3e}, {0x11a51, 0x11a5b}, {0x11a8a, 0x11a97},
    {0x11c2f, 0x11c36}, {0x11c38, 0x11c3e}, {0x11c92, 0x11ca7}, {0x11ca9, 0x11cb6}, {0x11d31, 0x11d36}, {0x11d3a, 0x11d3a},
    {0x11d3c, 0x11d3d}, {0x11d3f, 0x11d41}, {0x11d43, 0x11d43}, {0x11d47, 0x11d47}, {0x11d8a, 0x11d8e}, {0x11d90, 0x11d91},
    {0x11d93, 0x11d96}, {0x11ef3, 0x11ef6}, {0x16f4f, 0x16f4f}, {0x16f51, 0x16f87}, {0x16f8f, 0x16f92}, {0x16ff0, 0x16ff1},
    {0x1bc9e, 0x1bc9e}, {0x1e000, 0x1e006}, {0x1e008, 0x1e018}, {0x1e01b, 0x1e021}, {0x1e023, 0x1e024}, {0x1e026, 0x1e02a},
    {0x1e947, 0x1e947}, {0x1f130, 0x1f149}, {0x1f150, 0x1f169}, {0x1f170, 0x1f189},
};
/* clang-format on */

#define EIGHT(byte) (UINT64_C(0x0101010101010101) * (byte))

size_t utf8_count(struct bytes text)
{
    size_t n = text.size, i = 0;
    /* Bytes 10xxxxxx belong to the character before: eight at a time, one bit for each. */
    for (; text.size - i >= 8; i += 8) {
        const uint64_t word = load_u64(text.data + i);
        n -= (word >> 7 & ~word >> 6 & EIGHT(1)) * EIGHT(1) >> 56;
    }
    for (; i < text.size; i++) n -= (text.data[i] & 0xc0) == 0x80;
    return n;
}

uint32_t utf8_next(struct bytes text, size_t *at)
{
    const uint8_t *p = text.data + *at;
    const size_t step = utf8_step(*p);
    ASSERT(step <= text.size - *at);
    *at += step;
    switch (step) {
    case 1: return p[0];
    case 2: return (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f);
    case 3: return (uint32_t)(p[0] & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
    default: return (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3f) << 12 | (uint32_t)(p[2] & 0x3f) << 6 | (p[3] & 0x3f);
    }
}

size_t utf8_put(uint8_t *to, uint32_t c) { return (size_t)utf8proc_encode_char((utf8proc_int32_t)c, to); }

size_t utf8_prefix(struct bytes text, size_t n)
{
    size_t at = 0;
    while (n > 0 && at < text.size) {
        at += utf8_step(text.data[at]);
        n--;
    }
    ASSERT(at <= text.size);
    return at;
}

size_t bytes_find(struct bytes text, struct bytes what, size_t from)
{
    if (from > text.size || what.size > text.size - from) return SIZE_MAX;
    if (what.size == 0) return from;
    const size_t last = text.size - what.size;
    while (from <= last) {
        const uint8_t *hit = memchr(text.data + from, what.data[0], last - from + 1);
        if (hit == NULL) return SIZE_MAX;
        if (memcmp(hit, what.data, what.size) == 0) return (size_t)(hit - text.data);
        from = (size_t)(hit - text.data) + 1;
    }
    return SIZE_MAX;
}

static bool char_is_alphabetic_mark(uint32_t c)
{
    size_t low = 0, high = ARRAY_LEN(alphabetic);
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (alphabetic[middle][1] < c) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < ARRAY_LEN(alphabetic) && alphabetic[low][0] <= c;
}

bool char_is_alphanumeric(uint32_t c)
{
    if (c < 0x80) return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return true;
    default: return char_is_alphabetic_mark(c);
    }
}

size_t char_upper(uint32_t c, uint32_t to[3])
{
    size_t low = 0, high = ARRAY_LEN(upper_table);
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (upper_table[middle].from < c) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low < ARRAY_LEN(upper_table) && upper_table[low].from == c) {
        size_t n = 0;
        while (n < 3 && upper_table[low].to[n] != 0) {
            to[n] = upper_table[low].to[n];
            n++;
        }
        return n;
    }
    to[0] = (uint32_t)utf8proc_toupper((utf8proc_int32_t)c);
    return 1;
}

#define CAPITAL_I_DOT 0x130u /* the one character whose lower case is two */
#define CAPITAL_SIGMA 0x3a3u
#define FINAL_SIGMA 0x3c2u

size_t char_lower(uint32_t c, uint32_t to[3])
{
    if (c == CAPITAL_I_DOT) {
        to[0] = 'i';
        to[1] = 0x307;
        return 2;
    }
    to[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
    return 1;
}

/* Bytes that a character may grow to: three characters of three bytes, or one of four. */
#define CASE_GROWTH 9u

/* Characters that case mappings look through: marks, modifiers, and punctuation within words. */
static bool is_case_ignorable(uint32_t c)
{
    if (c == '\'' || c == '.' || c == ':' || c == '^' || c == '`' || c == 0xb7 || c == 0x2019 || c == 0x2018 || c == 0x2024)
        return true;
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default: return false;
    }
}

static bool is_cased(uint32_t c)
{
    const utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || k == UTF8PROC_CATEGORY_LT;
}

/* Does a cased letter stand before `at`, or behind it, with only ignorable characters in between? */
static bool cased_before(struct bytes text, size_t at)
{
    while (at > 0) {
        do at--;
        while (at > 0 && (text.data[at] & 0xc0) == 0x80);
        size_t next = at;
        const uint32_t c = utf8_next(text, &next);
        if (!is_case_ignorable(c)) return is_cased(c);
    }
    return false;
}
static bool cased_behind(struct bytes text, size_t at)
{
    while (at < text.size) {
        const uint32_t c = utf8_next(text, &at);
        if (!is_case_ignorable(c)) return is_cased(c);
    }
    return false;
}

/* Copy ASCII, letters from `first` to `first` + 25 with their case changed. Bytes below 0x80 do not carry into their neighbours. */
static void flip_case(uint8_t *to, struct bytes text, uint8_t first)
{
    size_t i = 0;
    for (; text.size - i >= 8; i += 8) {
        const uint64_t word = load_u64(text.data + i);
        const uint64_t from = word + EIGHT(0x80u - first), past = word + EIGHT(0x80u - first - 26u);
        store_u64(to + i, word ^ (((from ^ past) & EIGHT(0x80)) >> 2));
    }
    for (; i < text.size; i++) {
        const uint8_t c = text.data[i];
        to[i] = c >= first && c < first + 26 ? c ^ 0x20 : c;
    }
}

/* Bytes from `at` on that are ASCII. */
static size_t ascii_run(struct bytes text, size_t at)
{
    size_t i = at;
    while (text.size - i >= 8 && (load_u64(text.data + i) & EIGHT(0x80)) == 0) i += 8;
    while (i < text.size && text.data[i] < 0x80) i++;
    return i - at;
}

/* Append the ASCII at *at with its case changed; *at moves behind it. */
static pennon_status put_ascii(struct bytes text, size_t *at, uint8_t first, struct text_out *out, pennon_error *err)
{
    const size_t n = ascii_run(text, *at);
    uint8_t *to = text_out_room(out, n, err);
    if (to == NULL) return err->code;
    flip_case(to, bytes_of(text.data + *at, n), first);
    text_out_grew(out, n);
    *at += n;
    return PENNON_OK;
}

static pennon_status put_chars(struct text_out *out, const uint32_t *chars, size_t n, pennon_error *err)
{
    uint8_t *to = text_out_room(out, 4 * n, err);
    size_t size = 0;
    if (to == NULL) return err->code;
    for (size_t i = 0; i < n; i++) size += utf8_put(to + size, chars[i]);
    ASSERT(size <= CASE_GROWTH);
    text_out_grew(out, size);
    return PENNON_OK;
}

pennon_status text_put_lower(struct bytes text, struct text_out *out, pennon_error *err)
{
    uint32_t to[3];
    size_t at = 0;
    TRY_RETURN(put_ascii(text, &at, 'A', out, err));
    while (at < text.size) {
        const size_t start = at;
        const uint32_t c = utf8_next(text, &at);
        size_t n = char_lower(c, to);
        if (c == CAPITAL_SIGMA && cased_before(text, start) && !cased_behind(text, at)) to[0] = FINAL_SIGMA;
        TRY_RETURN(put_chars(out, to, n, err));
        TRY_RETURN(put_ascii(text, &at, 'A', out, err));
    }
    return PENNON_OK;
}

pennon_status text_put_upper(struct bytes text, struct text_out *out, pennon_error *err)
{
    uint32_t to[3];
    size_t at = 0;
    TRY_RETURN(put_ascii(text, &at, 'a', out, err));
    while (at < text.size) {
        const uint32_t c = utf8_next(text, &at);
        TRY_RETURN(put_chars(out, to, char_upper(c, to), err));
        TRY_RETURN(put_ascii(text, &at, 'a', out, err));
    }
    return PENNON_OK;
}

pennon_status text_put_initcap(struct bytes text, struct text_out *out, pennon_error *err)
{
    bool inside = false; /* the character before is of a word */
    uint32_t to[3];
    for (size_t at = 0; at < text.size;) {
        const uint32_t c = utf8_next(text, &at);
        TRY_RETURN(put_chars(out, to, inside ? char_lower(c, to) : char_upper(c, to), err));
        inside = char_is_alphanumeric(c);
    }
    return PENNON_OK;
}
