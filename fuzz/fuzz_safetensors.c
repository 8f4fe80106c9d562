/* fuzz_safetensors.c - any bytes through the safetensors reader, and what it accepts through the rules that make
 * weights of packed tensors, under several configs. Rows of the weights that come out are decoded. */
#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "formats/checkpoint_internal.h"

static const char *const configs[] = {
    "{}",
    "{\"hidden_size\":64,\"quantization\":{\"group_size\":64,\"bits\":4}}",
    "{\"quantization\":{\"mode\":\"mxfp4\",\"a\":{\"mode\":\"affine\",\"bits\":3},\"b\":false}}",
    "{\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[2,3]}}",
};

static void decode(const qn_weight *w)
{
    enum { MAX = 4096 };
    static float out[MAX];
    const qn_layout_info *info = qn_layout_get((qn_layout)w->layout);
    int64_t rows = qn_weight_rows(w), k = qn_weight_cols(w);
    bool decodes = info->decode || info->block_elems == 0;
    assert(qn_weight_bytes(w) >= (size_t)(rows * k) / 8);
    if (!decodes || rows == 0 || k == 0 || k > MAX)
        return;
    qn_weight_decode_row(w, 0, out);
    qn_weight_decode_row(w, rows - 1, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    qn_log_level(QN_LOG_ERROR);
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        qn_error err = { 0 };
        qn_checkpoint *c = qn_alloc(sizeof *c);
        c->path = "input";
        c->config = qn_json_parse(&c->arena, configs[i], strlen(configs[i]), NULL);
        bool read = qn_st_parse(&c->st, data, n, "input", &err) == QN_OK;
        assert(read || (err.code < 0 && strncmp(err.msg, "input", 5) == 0));
        if (read && qn_checkpoint_add_tensors(c, &err) == QN_OK)
            for (size_t k = 0; k < c->n_weights; k++)
                decode(&c->weight[k]);
        qn_checkpoint_close(c);
        if (!read)
            break;
    }
    return 0;
}
