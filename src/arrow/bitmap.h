/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Private to src/arrow: the parts of bitmap.c that kernels need beside the public ones. */
#ifndef ARROW_BITMAP_H
#define ARROW_BITMAP_H

#include "arrow/arrow.h"

/* Bits [offset, offset + n) as the low bits of a word; 1 <= n <= 64. Reads only the bytes that hold them. */
uint64_t bitmap_load(const uint8_t *bits, uint64_t offset, uint64_t n);
/* The first i in [at, n) whose bit offset + i has the value; n when there is none. */
uint64_t bitmap_next(const uint8_t *bits, uint64_t offset, uint64_t at, uint64_t n, bool value);

#endif
