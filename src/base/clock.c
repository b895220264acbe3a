/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Time, random bytes and UUIDs (RFC 4122 version 4). */
#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "base/call.h"

static int64_t clock_ns(clockid_t id)
{
    struct timespec t;
    if (clock_gettime(id, &t) != 0) return 0;
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t clock_monotonic_ns(void) { return clock_ns(CLOCK_MONOTONIC); }
int64_t clock_wall_ns(void) { return clock_ns(CLOCK_REALTIME); }

pennon_status random_bytes(void *out, size_t n, pennon_error *err)
{
    uint8_t *p = out;
    while (n > 0) {
        size_t part = n < 256 ? n : 256;
        if (getentropy(p, part) != 0) {
            if (errno == EINTR) continue;
            return error_set_errno(err, errno, "no random bytes from the system");
        }
        p += part;
        n -= part;
    }
    return PENNON_OK;
}

pennon_status uuid_new(uint8_t out[16], pennon_error *err)
{
    TRY_RETURN(random_bytes(out, 16, err));
    out[6] = (uint8_t)((out[6] & 0x0f) | 0x40);
    out[8] = (uint8_t)((out[8] & 0x3f) | 0x80);
    return PENNON_OK;
}

static bool hyphen_before(unsigned byte) { return byte == 4 || byte == 6 || byte == 8 || byte == 10; }

void uuid_text(const uint8_t uuid[16], char out[37])
{
    static const char digits[] = "0123456789abcdef";
    char *p = out;
    for (unsigned i = 0; i < 16; i++) {
        if (hyphen_before(i)) *p++ = '-';
        *p++ = digits[uuid[i] >> 4];
        *p++ = digits[uuid[i] & 15];
    }
    *p = '\0';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

bool uuid_parse(const char *text, size_t n, uint8_t out[16])
{
    if (n != 36) return false;
    const char *p = text;
    for (unsigned i = 0; i < 16; i++) {
        if (hyphen_before(i) && *p++ != '-') return false;
        int high = hex_digit(p[0]), low = hex_digit(p[1]);
        if (high < 0 || low < 0) return false;
        out[i] = (uint8_t)(high << 4 | low);
        p += 2;
    }
    return true;
}
