/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Data files of version 0.1 are refused by name until their reader is here. */
#include "file/file_private.h"

pennon_status legacy_open(const struct call *c, struct file_reader *r, pennon_error *err)
{
    UNUSED(c);
    UNUSED(r);
    return error_set(err, PENNON_NOT_SUPPORTED, "reading data files of version 0.1");
}

pennon_status legacy_read(const struct call *c, struct file_reader *r, const struct file_projection *p,
                          const struct row_range *rows, size_t n, struct ArrowArray *out, pennon_error *err)
{
    UNUSED(c);
    UNUSED(r);
    UNUSED(p);
    UNUSED(rows);
    UNUSED(n);
    UNUSED(out);
    return error_set(err, PENNON_NOT_SUPPORTED, "reading data files of version 0.1");
}
