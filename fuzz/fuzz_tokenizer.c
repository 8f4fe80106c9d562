/* fuzz_tokenizer.c - any bytes as a tokenizer.json (or, led by "spm" or "rank", as the other file kinds),
 * and what opens encodes and decodes hard text. Decoding must give valid UTF-8, and streamed pieces with the
 * flush must have the length of the whole. */
#include <assert.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

static const char text[] =
    "Hello  wOrld's 12345\tcaf\xc3\xa9 e\xcc\x81 \xf0\x9f\x98\x80\n\n <s>[CLS]</s> "
    "\xe4\xbd\xa0\xe5\xa5\xbd \xef\xbf\xbd\xff\xfe abababababababab  \xe2\x96\x81x";

static void use(const qn_tokenizer *t)
{
    qn_ids ids = { 0 };
    qn_buf whole = { 0 }, streamed = { 0 };
    qn_error err;
    for (unsigned flags = 0; flags < 4; flags++)
        qn_tokenizer_encode(t, text, sizeof text - 1, flags, &ids, &err);
    for (int32_t i = 0; i < 300; i++)
        qn_ids_add(&ids, i);
    qn_tokenizer_decode(t, ids.v, ids.n, false, &whole);
    assert(qn_utf8_valid(qn_buf_cstr(&whole), whole.len) == whole.len);
    qn_detok *d = qn_detok_open(t, false);
    for (size_t i = 0; i < ids.n; i++)
        qn_detok_push(d, ids.v[i], &streamed);
    qn_detok_flush(d, &streamed);
    assert(qn_utf8_valid(qn_buf_cstr(&streamed), streamed.len) == streamed.len);
    qn_detok_close(d);
    qn_ids_free(&ids);
    qn_buf_free(&whole);
    qn_buf_free(&streamed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char config[] =
        "{\"pat_str\":\"\\\\p{L}+|\\\\s+|.\",\"special_tokens\":{\"<s>\":300}}";
    qn_tokenizer *t = NULL;
    qn_error err = { 0 };
    const char *p = (const char *)data;
    int rc;
    if (n >= 3 && memcmp(p, "spm", 3) == 0)
        rc = qn_tokenizer_open_spm(&t, p + 3, n - 3, &err);
    else if (n >= 4 && memcmp(p, "rank", 4) == 0)
        rc = qn_tokenizer_open_tiktoken(&t, p + 4, n - 4, config, sizeof config - 1, &err);
    else
        rc = qn_tokenizer_open_json(&t, p, n, &err);
    assert((rc == QN_OK) == (t != NULL) && (rc == QN_OK || err.msg[0]));
    if (t)
        use(t);
    qn_tokenizer_close(t);
    return 0;
}
