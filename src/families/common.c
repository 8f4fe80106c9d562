/* common.c - see common.h. */
#include "families/common.h"

#include <math.h>

void qn_common_dt_limit(const qn_config *c, qn_ssm2 *a)
{
    const qn_json *limit = qn_config_get(c, "time_step_limit");
    double max = qn_json_num(qn_json_at(limit, 1), INFINITY);
    a->dt_min = (float)qn_json_num(qn_json_at(limit, 0), 0);
    a->dt_max = isfinite(max) ? (float)max : 0;
}

qn_ssm2 qn_common_ssm2(qn_build *b)
{
    const qn_config *c = b->c;
    int64_t expand = qn_config_int(c, "mamba_expand", 2);
    int64_t d_inner = qn_config_int(c, "mamba_d_ssm", expand * c->d_model);
    int64_t n_heads = qn_config_int(c, "mamba_n_heads", 128);
    const qn_json *said = qn_config_get(c, "mamba_d_head"); /* a number, or "auto" */
    qn_ssm2 a = { .n_heads = (int)n_heads,
                  .head_dim = (int)qn_json_int(said, n_heads > 0 ? d_inner / n_heads : 0),
                  .n_groups = (int)qn_config_int(c, "mamba_n_groups", 1),
                  .d_state = (int)qn_config_int(c, "mamba_d_state", 256),
                  .kernel = (int)qn_config_int(c, "mamba_d_conv", 4),
                  .proj_bias = qn_config_bool(c, "mamba_proj_bias", false),
                  .out_bias = qn_config_bool(c, "mamba_proj_bias", false),
                  .conv_bias = qn_config_bool(c, "mamba_conv_bias", true),
                  .norm_eps = c->norm_eps };
    if (a.n_heads * (int64_t)a.head_dim != d_inner)
        qn_graph_fail(b->g, QN_ERR_FORMAT, "config: %d state-space heads of %d do not fill %lld",
                      a.n_heads, a.head_dim, (long long)d_inner);
    qn_common_dt_limit(c, &a);
    qn_config_used(c, "mamba_chunk_size"); /* how to compute it, not what */
    return a;
}

bool qn_common_in_list(const qn_config *c, const char *key, int layer)
{
    const qn_json *list = qn_config_get(c, key);
    for (uint32_t i = 0; list && list->type == QN_JSON_ARRAY && i < list->n; i++)
        if (qn_json_int(&list->items[i], -1) == layer)
            return true;
    return false;
}
