/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Ranges of unsigned values: what a filter asks of a row id or an address, and where such values are looked for.
 *
 * A list of ranges is ascending, without overlaps. Both ends belong to a range, so that the highest value of the type can be in one. */
#ifndef BASE_VALUE_RANGE_H
#define BASE_VALUE_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct value_range {
    uint64_t first, last;
};

/* The first range that ends at or behind `value`; n = there is none. */
static inline size_t value_ranges_find(const struct value_range *ranges, size_t n, uint64_t value)
{
    size_t low = 0, high = n;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (ranges[mid].last < value) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

static inline bool value_ranges_have(const struct value_range *ranges, size_t n, uint64_t value)
{
    const size_t at = value_ranges_find(ranges, n, value);
    return at < n && ranges[at].first <= value;
}

#endif
