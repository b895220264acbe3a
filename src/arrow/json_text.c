/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Texts in the JSON that people and scripts read: names, paths and messages that may hold anything. What is written is valid JSON in UTF-8 and has no
 * control character, not even those of U+007F to U+009F, because terminals obey them. */
#include "arrow/arrow.h"

pennon_status json_put_text(struct buf *out, struct bytes text, pennon_error *err)
{
    TRY_RETURN(buf_append_byte(out, '"', err));
    for (size_t i = 0; i < text.size;) {
        uint8_t ch = text.data[i];
        size_t n = ch < 0x80 ? 1 : ch >= 0xf0 ? 4 : ch >= 0xe0 ? 3 : 2;
        if (n > text.size - i || !utf8_valid(text.data + i, n)) {
            TRY_RETURN(buf_printf(out, err, "\\ufffd"));
            i++;
            continue;
        }
        if (ch == '"' || ch == '\\') {
            TRY_RETURN(buf_printf(out, err, "\\%c", ch));
        } else if (ch < 0x20 || ch == 0x7f) {
            TRY_RETURN(buf_printf(out, err, "\\u%04x", ch));
        } else if (ch == 0xc2 && text.data[i + 1] < 0xa0) {
            /* U+0080 to U+009F: people see these texts, and terminals obey them. */
            TRY_RETURN(buf_printf(out, err, "\\u%04x", text.data[i + 1]));
        } else {
            TRY_RETURN(buf_append(out, text.data + i, n, err));
        }
        i += n;
    }
    return buf_append_byte(out, '"', err);
}
