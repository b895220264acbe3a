/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* URIs: which store, and which path in it.
 *
 * All local tables share one store with the root "/", and memory:// has one store a runtime, so that a table, its branches and its
 * base paths are in one store. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/store_private.h"

#define PATH_BYTES_MAX 4096u

static pennon_status make_local(pennon_runtime *rt, void **out, pennon_error *err)
{
    pennon_store *s = NULL;
    TRY_RETURN(local_store_new(rt, "/", &s, err));
    *out = s;
    return PENNON_OK;
}

static pennon_status make_memory(pennon_runtime *rt, void **out, pennon_error *err)
{
    pennon_store *s = NULL;
    TRY_RETURN(memory_store_new(runtime_base_mem(rt), &s, err));
    *out = s;
    return PENNON_OK;
}

static void drop_store(void *s) { pennon_store_free(s); }

/* A shared store of the runtime, one reference for the caller. */
static pennon_status shared_store(const struct call *c, unsigned slot, slot_make_fn make, pennon_store **out, pennon_error *err)
{
    void *s;
    TRY_RETURN(runtime_slot(c->runtime, slot, make, drop_store, &s, err));
    *out = s;
    pennon_store_retain(*out);
    return PENNON_OK;
}

static int hex_of(char ch)
{
    return ch >= '0' && ch <= '9' ? ch - '0' : ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : ch >= 'A' && ch <= 'F' ? ch - 'A' + 10 : -1;
}

/* Percent escapes of URLs. */
static pennon_status decode_percent(struct bytes in, struct buf *out, pennon_error *err)
{
    for (size_t i = 0; i < in.size; i++) {
        uint8_t ch = in.data[i];
        if (ch == '%' && in.size - i >= 3 && hex_of((char)in.data[i + 1]) >= 0 && hex_of((char)in.data[i + 2]) >= 0) {
            ch = (uint8_t)(hex_of((char)in.data[i + 1]) << 4 | hex_of((char)in.data[i + 2]));
            i += 2;
        }
        if (ch == 0) return error_set(err, PENNON_INVALID_ARGUMENT, "a URI with a zero byte");
        TRY_RETURN(buf_append_byte(out, ch, err));
    }
    return PENNON_OK;
}

/* Append the segments of `path` to `out` without leading slash, "." dropped and ".." resolved. */
static pennon_status normalise(struct bytes path, struct buf *out, pennon_error *err)
{
    size_t at = 0;
    while (at < path.size) {
        size_t end = at;
        while (end < path.size && path.data[end] != '/') end++;
        struct bytes seg = bytes_of(path.data + at, end - at);
        at = end + 1;
        if (seg.size == 0 || bytes_equal(seg, bytes_str("."))) continue;
        if (bytes_equal(seg, bytes_str(".."))) {
            while (out->size && out->data[out->size - 1] != '/') out->size--;
            if (out->size) out->size--;
            continue;
        }
        if (out->size) TRY_RETURN(buf_append_byte(out, '/', err));
        TRY_RETURN(buf_append(out, seg.data, seg.size, err));
    }
    return PENNON_OK;
}

static pennon_status local_path(const char *text, bool url, struct buf *out, pennon_error *err)
{
    struct buf raw;
    buf_init(&raw, out->mem, PATH_BYTES_MAX * 4);
    pennon_status st = PENNON_OK;
    char cwd[PATH_BYTES_MAX];
    if (url) {
        TRY(decode_percent(bytes_str(text), &raw, err));
        if (raw.size == 0 || raw.data[0] != '/') FAIL(PENNON_INVALID_ARGUMENT, "file://%s has no absolute path", text);
    } else if (text[0] == '~' && (text[1] == '/' || text[1] == '\0')) {
        const char *home = getenv("HOME");
        if (!home) FAIL(PENNON_INVALID_ARGUMENT, "'%s': HOME is not set", text);
        TRY(buf_printf(&raw, err, "%s%s", home, text + 1));
    } else if (text[0] == '/') {
        TRY(buf_append(&raw, text, strlen(text), err));
    } else {
        if (!getcwd(cwd, sizeof cwd)) FAIL(PENNON_IO, "the current directory is not known");
        TRY(buf_printf(&raw, err, "%s/%s", cwd, text));
    }
    TRY(normalise(bytes_of(raw.data, raw.size), out, err));
done:
    buf_free(&raw);
    return st;
}

/* Length of the scheme of "scheme://…", 0 = none. One letter is a drive. */
static size_t scheme_length(const char *uri)
{
    size_t n = 0;
    while ((uri[n] >= 'a' && uri[n] <= 'z') || (uri[n] >= 'A' && uri[n] <= 'Z') ||
           (n && ((uri[n] >= '0' && uri[n] <= '9') || uri[n] == '+' || uri[n] == '-' || uri[n] == '.')))
        n++;
    return n > 1 && strncmp(uri + n, "://", 3) == 0 ? n : 0;
}

static bool scheme_is(const char *uri, size_t n, const char *name) { return n == strlen(name) && strncmp(uri, name, n) == 0; }

pennon_status store_resolve(const struct call *c, const char *uri, pennon_store **store, char **path, pennon_error *err)
{
    struct buf out;
    buf_init(&out, c->mem, PATH_BYTES_MAX * 2);
    pennon_status st = PENNON_OK;
    pennon_store *s = NULL;
    *path = NULL;
    if (!uri || !uri[0]) FAIL(PENNON_INVALID_ARGUMENT, "the URI is empty");
    size_t n = scheme_length(uri);
    if (n == 0 || scheme_is(uri, n, "file") || scheme_is(uri, n, "file-object-store")) {
        TRY(local_path(n ? uri + n + 3 : uri, n > 0, &out, err));
        TRY(shared_store(c, RUNTIME_SLOT_LOCAL_STORE, make_local, &s, err));
    } else if (scheme_is(uri, n, "memory")) {
        TRY(normalise(bytes_str(uri + n + 3), &out, err));
        TRY(shared_store(c, RUNTIME_SLOT_MEMORY_STORE, make_memory, &s, err));
    } else {
        FAIL(PENNON_NOT_SUPPORTED, "URIs of scheme '%.*s' (%s)", (int)n, uri, uri);
    }
    if (out.size == 0) FAIL(PENNON_INVALID_ARGUMENT, "'%s' names the root of a store", uri);
    TRY_NEW(*path, mem_strndup(c->mem, (const char *)out.data, out.size, err));
    *store = s;
    s = NULL;
done:
    pennon_store_free(s);
    buf_free(&out);
    return st;
}

char *store_join(struct mem *m, const char *base, const char *name, pennon_error *err)
{
    return base[0] ? mem_printf(m, err, "%s/%s", base, name) : mem_strdup(m, name, err);
}

char *store_uri(struct mem *m, const pennon_store *store, const char *path, pennon_error *err)
{
    if (store->scheme[0] == '\0') return mem_printf(m, err, "%s/%s", store->root ? store->root : "", path);
    return mem_printf(m, err, "%s://%s", store->scheme, path);
}

/* The runtime's memory store, which datasets and files at memory:// URIs live in. It has one root. */
static pennon_status open_memory(const struct call *c, const char *uri, pennon_store **out, pennon_error *err)
{
    if (strcmp(uri, "memory://") != 0) {
        return error_set(err, PENNON_INVALID_ARGUMENT,
                         "'%s': the memory store has one root; open memory:// and put folders into the paths", uri);
    }
    return shared_store(c, RUNTIME_SLOT_MEMORY_STORE, make_memory, out, err);
}

pennon_status pennon_store_open(const char *uri, const pennon_store_options *options, pennon_store **out, pennon_error *err)
{
    pennon_error local;
    pennon_error_init(&local);
    pennon_store_options o;
    pennon_store_options_init(&o);
    struct call c = {0};
    char *path = NULL;
    pennon_store *shared = NULL;
    pennon_status st = options_read(&o, sizeof o, options, "pennon_store_options", &local);
    if (st == PENNON_OK && !out) st = error_set(&local, PENNON_INVALID_ARGUMENT, "out is NULL");
    if (st == PENNON_OK) st = call_begin(&c, o.call, &local);
    bool memory = uri && scheme_is(uri, scheme_length(uri), "memory");
    if (st == PENNON_OK && memory) {
        st = open_memory(&c, uri, out, &local);
    } else if (st == PENNON_OK) {
        st = store_resolve(&c, uri, &shared, &path, &local);
        char *root = st == PENNON_OK ? mem_printf(c.mem, &local, "/%s", path) : NULL;
        if (st == PENNON_OK) {
            st = !root                                  ? local.code
                 : !o.create && access(root, F_OK) != 0 ? error_set_errno(&local, errno, "'%s'", root)
                                                        : local_store_new(c.runtime, root, out, &local);
        }
        mem_free(c.mem, root);
    }
    pennon_store_free(shared);
    mem_free(c.mem, path);
    if (c.runtime) call_end(&c);
    return error_out(err, &local, st);
}
