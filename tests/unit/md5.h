/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* MD5 of a buffer, for checksums that the format's description states. */
#ifndef TESTS_MD5_H
#define TESTS_MD5_H

#include <stddef.h>
#include <stdint.h>

/* `hex` gets 32 lower-case digits and a NUL. */
void md5_hex(const void *data, size_t size, char hex[33]);

#endif
