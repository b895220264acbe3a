/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Names of manifest files, and of storage versions.
 *
 * scheme   | name                                                     | told by
 * ---------|----------------------------------------------------------|------------------------------
 * V1       | {version}.manifest                                       | ends in "manifest"
 * V2       | {2^64 - 1 - version, 20 digits}.manifest                 | ends in "manifest", 29 characters
 * detached | d{version}.manifest, version with bit 63                 | starts with 'd'
 *
 * Source: spec table-format 3.1, file-format 1. */
#include <stdio.h>

#include "table/table_private.h"

#define V2_NAME_LENGTH 29u

/* Decimal digits up to the first dot; at least one, fitting 64 bits. */
static bool parse_digits(const char *text, uint64_t *out)
{
    uint64_t v = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (mul_overflows(v, 10, &v) || add_overflows(v, (uint64_t)(*p - '0'), &v)) return false;
    }
    *out = v;
    return p != text && *p == '.';
}

bool manifest_name_parse(const char *name, struct manifest_name *out)
{
    static const char suffix[] = "manifest";
    size_t n = strlen(name);
    uint64_t v;
    if (n < sizeof suffix || strcmp(name + n - (sizeof suffix - 1), suffix) != 0) return false;
    *out = (struct manifest_name){.detached = name[0] == 'd'};
    if (!parse_digits(name + out->detached, &v)) return false;
    out->v2 = out->detached || n == V2_NAME_LENGTH;
    out->version = out->v2 && !out->detached ? UINT64_MAX - v : v;
    return out->detached == ((out->version & DETACHED_VERSION) != 0) && out->version != 0;
}

void manifest_name_text(uint64_t version, bool v2, char out[MANIFEST_NAME_BYTES])
{
    int n;
    if (version & DETACHED_VERSION) {
        n = snprintf(out, MANIFEST_NAME_BYTES, "d%" PRIu64 ".manifest", version);
    } else if (v2) {
        n = snprintf(out, MANIFEST_NAME_BYTES, "%020" PRIu64 ".manifest", UINT64_MAX - version);
    } else {
        n = snprintf(out, MANIFEST_NAME_BYTES, "%" PRIu64 ".manifest", version);
    }
    ASSERT(n > 0 && (unsigned)n < MANIFEST_NAME_BYTES);
    UNUSED(n);
}

char *manifest_path(struct mem *m, const char *table, uint64_t version, bool v2, pennon_error *err)
{
    char name[MANIFEST_NAME_BYTES];
    manifest_name_text(version, v2, name);
    return mem_printf(m, err, "%s%s_versions/%s", table, table[0] != '\0' ? "/" : "", name);
}

const char *path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* ---- storage versions ---- */

uint32_t data_file_version(uint32_t major, uint32_t minor)
{
    if (major == 0 && minor <= 2) return STORAGE_LEGACY;
    if (major == 0 && minor == 3) return STORAGE_2_0;
    /* What is out of range is a version that no reader has. */
    return major > 0xffff || minor > 0xffff ? UINT32_MAX : STORAGE_VERSION(major, minor);
}

struct version_name {
    const char *text;
    uint32_t version;
};

static const struct version_name VERSION_NAMES[] = {
    {"0.1", STORAGE_LEGACY}, {"2.0", STORAGE_2_0},       {"2.1", STORAGE_2_1},    {"2.2", STORAGE_2_2},  {"2.3", STORAGE_2_3},
    {"0.3", STORAGE_2_0},    {"legacy", STORAGE_LEGACY}, {"stable", STORAGE_2_1}, {"next", STORAGE_2_3},
};

uint32_t storage_version_parse(struct bytes text)
{
    for (size_t i = 0; i < ARRAY_LEN(VERSION_NAMES); i++) {
        if (bytes_equal(text, bytes_str(VERSION_NAMES[i].text))) return VERSION_NAMES[i].version;
    }
    return 0;
}

const char *storage_version_text(uint32_t version)
{
    for (size_t i = 0; i < ARRAY_LEN(VERSION_NAMES); i++) {
        if (VERSION_NAMES[i].version == version) return VERSION_NAMES[i].text;
    }
    return "unknown";
}
