/* fuzz_gguf.c - any bytes through the GGUF reader. What it accepts is read to the end: every value, every tensor's
 * first row, and the translation into a config and names. */
#include <assert.h>
#include <string.h>

#include "base/json.h"
#include "formats/gguf.h"
#include "formats/gguf_names.h"

static volatile double sink; /* keeps reads from being optimised away */

/* Sums what can be read of a value. */
static double walk(const qn_gguf_value *v, int depth)
{
    double sum = 0, d;
    qn_gguf_str s;
    qn_gguf_value in;
    if (qn_gguf_value_num(v, &d))
        sum += d;
    if (qn_gguf_value_str(v, &s) && s.n)
        sum += s.p[s.n - 1];
    for (size_t i = 0; i < qn_gguf_array_len(v) && i < 1000; i++) {
        if (qn_gguf_array_num(v, i, &d))
            sum += d;
        else if (qn_gguf_array_str(v, i, &s))
            sum += s.n ? s.p[s.n - 1] : 0;
        else if (depth < 4 && qn_gguf_array_array(v, i, &in))
            sum += walk(&in, depth + 1);
    }
    return sum;
}

/* Decodes the first block of every tensor, from where the reader says it lies. */
static void decode(const qn_gguf_tensor *t, const uint8_t *data, size_t n)
{
    const qn_layout_info *info = qn_layout_get((qn_layout)t->layout);
    float out[256];
    const uint8_t *p = t->data;
    assert(p >= data && t->bytes <= n && p + t->bytes <= data + n);
    if (info->decode && t->bytes >= info->block_bytes)
        info->decode(p, out, info->block_elems);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    qn_gguf *g;
    qn_error err = { 0 };
    qn_arena a = { 0 };
    if (qn_gguf_parse(&g, data, n, "input", &err) != QN_OK) {
        assert(!g && err.code < 0 && strncmp(err.msg, "input", 5) == 0);
        return 0;
    }
    for (size_t i = 0; i < qn_gguf_n_values(g); i++)
        sink = walk(qn_gguf_value_at(g, i), 0);
    for (size_t i = 0; i < qn_gguf_n_tensors(g); i++)
        decode(qn_gguf_tensor_at(g, i), data, n);
    const qn_gguf_arch *arch = qn_gguf_arch_of(g, "input", &err);
    for (size_t i = 0; arch && i < qn_gguf_n_tensors(g); i++)
        assert(qn_gguf_hf_name(arch, &a, qn_gguf_tensor_at(g, i)->name));
    if (arch) /* whatever the keys hold, what is made of them is JSON */
        assert(qn_gguf_hf_config(arch, g, &a, &err));
    qn_arena_free(&a);
    qn_gguf_close(g);
    return 0;
}
