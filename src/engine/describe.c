/* describe.c - what there is to say about a loaded model, as JSON for `quern show` and for scripts. */
#include <string.h>

#include "cache/kv.h"
#include "engine/model.h"
#include "tokenizer/tokenizer.h"

/* "key": with the comma that separates it from the member before. */
static void put_key(qn_buf *b, const char *key)
{
    if (b->data[b->len - 1] != '{')
        qn_buf_char(b, ',');
    qn_json_put_str(b, key, strlen(key));
    qn_buf_char(b, ':');
}

static void put_int(qn_buf *b, const char *key, int64_t v)
{
    put_key(b, key);
    qn_buf_printf(b, "%lld", (long long)v);
}

static void put_num(qn_buf *b, const char *key, double v)
{
    put_key(b, key);
    qn_json_put_num(b, v);
}

static void put_bool(qn_buf *b, const char *key, bool v)
{
    put_key(b, key);
    qn_buf_str(b, v ? "true" : "false");
}

static void put_text(qn_buf *b, const char *key, const char *v)
{
    put_key(b, key);
    if (v)
        qn_json_put_str(b, v, strlen(v));
    else
        qn_buf_str(b, "null");
}

static void put_architecture(qn_buf *b, const qn_config *c)
{
    put_int(b, "layers", c->n_layers);
    put_int(b, "d_model", c->d_model);
    put_int(b, "d_ff", c->d_ff);
    put_int(b, "heads", c->n_heads);
    put_int(b, "kv_heads", c->n_kv_heads);
    put_int(b, "head_dim", c->head_dim);
    put_int(b, "vocab", c->n_vocab);
    put_int(b, "context", c->max_pos);
    put_int(b, "window", c->window);
    put_int(b, "experts", c->n_experts);
    put_int(b, "experts_per_token", c->top_k);
    put_bool(b, "tied", c->tied);
    put_key(b, "rope");
    qn_buf_char(b, '{');
    put_num(b, "theta", c->rope.theta);
    put_int(b, "rotated", c->rope.n_rot);
    put_key(b, "scaling");
    if (c->rope.scaling)
        qn_json_put(b, c->rope.scaling);
    else
        qn_buf_str(b, "null");
    qn_buf_char(b, '}');
}

/* Parameters and bytes by layout, the largest share first. */
static void put_layouts(qn_buf *b, const qn_checkpoint *ck)
{
    int64_t tensors[QN_N_LAYOUTS] = { 0 }, elems[QN_N_LAYOUTS] = { 0 };
    size_t bytes[QN_N_LAYOUTS] = { 0 }, all_bytes = 0;
    int64_t all_elems = 0;
    for (size_t i = 0; i < qn_checkpoint_count(ck); i++) {
        const qn_weight *w = qn_checkpoint_at(ck, i);
        tensors[w->layout]++;
        elems[w->layout] += qn_weight_elems(w);
        bytes[w->layout] += qn_weight_bytes(w);
        all_elems += qn_weight_elems(w);
        all_bytes += qn_weight_bytes(w);
    }
    put_int(b, "parameters", all_elems);
    put_int(b, "weight_bytes", (int64_t)all_bytes);
    put_key(b, "layouts");
    qn_buf_char(b, '[');
    for (bool first = true;; first = false) {
        int most = -1;
        for (int l = 0; l < QN_N_LAYOUTS; l++)
            if (tensors[l] > 0 && (most < 0 || bytes[l] > bytes[most]))
                most = l;
        if (most < 0)
            break;
        qn_buf_str(b, first ? "{" : ",{");
        put_text(b, "layout", qn_layout_get((qn_layout)most)->name);
        put_int(b, "tensors", tensors[most]);
        put_int(b, "parameters", elems[most]);
        put_int(b, "bytes", (int64_t)bytes[most]);
        qn_buf_char(b, '}');
        tensors[most] = 0;
    }
    qn_buf_char(b, ']');
}

static void put_tokenizer(qn_buf *b, const qn_model *m)
{
    put_key(b, "tokenizer");
    if (m->tokenizer) {
        qn_buf_char(b, '{');
        put_text(b, "kind", qn_tokenizer_kind_name(m->tokenizer));
        put_int(b, "vocab", (int64_t)qn_tokenizer_n_vocab(m->tokenizer));
        put_bool(b, "adds_bos", qn_tokenizer_adds_bos(m->tokenizer));
        qn_buf_char(b, '}');
    } else {
        qn_buf_str(b, "null");
    }
    put_bool(b, "template", m->chat != NULL);
    put_key(b, "eos");
    qn_buf_char(b, '[');
    for (int i = 0; i < m->n_eos; i++)
        qn_buf_printf(b, "%s%d", i ? "," : "", m->eos[i]);
    qn_buf_char(b, ']');
}

/* Cache for one sequence of each length, and with the weights. */
static void put_memory(qn_buf *b, const qn_model *m)
{
    static const int64_t lengths[] = { 2048, 8192, 32768, 131072 };
    size_t weights = 0;
    for (size_t i = 0; i < qn_checkpoint_count(m->ck); i++)
        weights += qn_weight_bytes(qn_checkpoint_at(m->ck, i));
    put_key(b, "memory");
    qn_buf_char(b, '[');
    int64_t most = m->config.max_pos > 0 ? m->config.max_pos : lengths[0];
    for (size_t i = 0; i <= sizeof lengths / sizeof *lengths; i++) {
        bool last = i == sizeof lengths / sizeof *lengths || lengths[i] >= most;
        int64_t n = last ? most : lengths[i];
        size_t cache = qn_kv_bytes(&m->graph, n, false) + qn_kv_state_bytes(&m->graph);
        qn_buf_str(b, i ? ",{" : "{");
        put_int(b, "context", n);
        put_int(b, "cache_bytes", (int64_t)cache);
        put_int(b, "total_bytes", (int64_t)(cache + weights));
        qn_buf_char(b, '}');
        if (last)
            break;
    }
    qn_buf_char(b, ']');
}

char *qn_model_describe_dup(const qn_model *m)
{
    qn_buf b = { 0 };
    qn_buf_char(&b, '{');
    put_text(&b, "path", m->path);
    put_text(&b, "format", qn_checkpoint_format(m->ck));
    put_text(&b, "architecture", m->config.model_type);
    put_text(&b, "family", m->family->name);
    put_architecture(&b, &m->config);
    put_layouts(&b, m->ck);
    put_tokenizer(&b, m);
    put_memory(&b, m);
    qn_buf_char(&b, '}');
    return b.data; /* a qn_buf's bytes are the heap's: qn_free ends them */
}
