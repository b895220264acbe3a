/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Names of files, durations and config values that cleanup acts on. The first byte says which: 'n' a path below a table, 'd' a duration, else the text
 * becomes the values of the config keys. */
#include <stdlib.h>

#include "table/cleanup_private.h"

#define REQUIRE(cond)         \
    do {                      \
        if (!(cond)) abort(); \
    } while (0)

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

/* What would be removed has a name that says what it is. */
static void use_name(const char *path)
{
    struct cleanup_name n;
    char exact[MANIFEST_NAME_BYTES];
    size_t size = strlen(path);
    cleanup_name_parse(path, &n);
    REQUIRE(n.kind < CLEANUP_KINDS && cleanup_kind_name(n.kind) != NULL);
    const bool keyed = n.kind == CLEANUP_DATA || n.kind == CLEANUP_BLOB || n.kind == CLEANUP_DELETION || n.kind == CLEANUP_INDEX ||
                       n.kind == CLEANUP_TRANSACTION;
    REQUIRE(keyed == (n.key.size > 0));
    REQUIRE(!keyed || (n.key.data == (const uint8_t *)path && n.key.size <= size));
    switch (n.kind) {
    case CLEANUP_MANIFEST:
        manifest_name_text(n.version, n.v2, exact);
        REQUIRE(n.version != 0 && begins(path, "_versions/") && strcmp(path + 10, exact) == 0);
        break;
    case CLEANUP_DATA: REQUIRE(begins(path, "data/") && strcmp(path + n.key.size, ".lance") == 0 && n.key.size > 5); break;
    case CLEANUP_BLOB: REQUIRE(begins(path, "data/") && size == n.key.size + 38 && n.key.size > 5); break;
    case CLEANUP_DELETION: REQUIRE(begins(path, "_deletions/") && strchr(path + 11, '/') == NULL); break;
    case CLEANUP_INDEX: REQUIRE(begins(path, "_indices/") && n.key.size == 45 && path[45] == '/'); break;
    case CLEANUP_TRANSACTION: REQUIRE(begins(path, "_transactions/") && strchr(path + 14, '/') == NULL); break;
    case CLEANUP_TEMPORARY: REQUIRE(strstr(path, "/.tmp") != NULL); break;
    default: break;
    }
}

static void use_config(const char *text, size_t n)
{
    static const char *const keys[] = {"lance.auto_cleanup.older_than", "lance.auto_cleanup.interval",
                                       "lance.auto_cleanup.retain_versions", "lance.auto_cleanup.referenced_branch",
                                       "lance.auto_cleanup.delete_rate_limit"};
    struct map_entry config[ARRAY_LEN(keys)];
    struct manifest_message m = {.version = 12, .config = config};
    struct cleanup_policy policy;
    pennon_error err;
    bool due;
    pennon_error_init(&err);
    /* A line for each key. */
    for (size_t at = 0; m.n_config < ARRAY_LEN(keys) && at <= n; m.n_config++) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t size = end != NULL ? (size_t)(end - text) - at : n - at;
        config[m.n_config] = (struct map_entry){.key = bytes_str(keys[m.n_config]), .value = bytes_of(text + at, size)};
        at += size + 1;
    }
    pennon_status st = auto_cleanup_policy(&m, &due, &policy, &err);
    REQUIRE(st == PENNON_OK || (st == PENNON_INVALID_ARGUMENT && !due));
    REQUIRE(!due || policy.older_than_ns >= -1);
    pennon_error_clear(&err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t ns;
    char *text;
    if (size == 0) return 0;
    text = malloc(size);
    if (text == NULL) return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    if (data[0] == 'n') {
        use_name(text);
    } else if (data[0] == 'd') {
        if (duration_parse(text, &ns)) REQUIRE(ns >= 0);
    } else {
        use_config(text, size - 1);
    }
    free(text);
    return 0;
}
