/* frame.c - puts the ids of one text or of two into the form that models expect, after they were cut to length.
 *
 * Encoding with QN_ENCODE_SPECIAL does the same for a whole text; here the texts are ids already. */
#include "base/error.h"
#include "tokenizer/internal.h"

static void add_text(const qn_ids *text, int32_t type, qn_ids *out, qn_ids *segment)
{
    for (size_t i = 0; i < text->n; i++) {
        qn_ids_add(out, text->v[i]);
        qn_ids_add(segment, type);
    }
}

int qn_tokenizer_frame(const qn_tokenizer *t, const qn_ids *a, const qn_ids *b, qn_ids *out,
                       qn_ids *segment, qn_error *err)
{
    static const int32_t bare[] = { QN_POST_TEXT };
    const int32_t *frame = b ? t->pair : t->post;
    size_t n = b ? t->n_pair : t->n_post;
    if (b && n == 0)
        return qn_fail(err, QN_ERR_UNSUPPORTED, "tokenizer: it has no form for a pair of texts");
    if (n == 0) {
        frame = bare;
        n = 1;
    }
    for (size_t i = 0; i < n; i++) {
        int32_t type = b ? t->pair_segment[i] : 0;
        if (frame[i] == QN_POST_TEXT || frame[i] == QN_POST_SECOND) {
            add_text(frame[i] == QN_POST_TEXT ? a : b, type, out, segment);
            continue;
        }
        qn_ids_add(out, frame[i]);
        qn_ids_add(segment, type);
    }
    return QN_OK;
}
