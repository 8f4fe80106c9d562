/* scan.c - state-space recurrence with decays and inputs chosen by each row (Mamba 1 and 2; linear attention).
 *
 * For head h, of group g = h / (H / G), channel p and state index n:
 *   S[h, p, n] = exp(dt[h] a[h, n]) S[h, p, n] + dt[h] x[h, p] b[g, n]
 *   y[h, p]    = sum_n S[h, p, n] c[g, n] + d[h] x[h, p]
 * x [R, H*P], dt [R, H] (1 where absent), a [H] (one for all n) or [H, N], b and c [R, G*N], d [H]?. dt comes
 * after its softplus and is clamped here. Mamba 1 has heads of one channel; lightning attention is b = keys,
 * x = values, c = queries, no dt and no d. State [H, P, N] in f32. */
#include <math.h>
#include <string.h>

#include "ops/util.h"

static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    const qn_attr_scan *a = n->attr;
    if (a->n_heads <= 0 || a->head_dim <= 0 || a->n_groups <= 0 || a->d_state <= 0 ||
        a->n_heads % a->n_groups != 0 || a->state < 0)
        return qn_refuse(why, "heads are no multiple of groups");
    const int64_t width[] = { (int64_t)a->n_heads * a->head_dim, a->n_heads, 0,
                              (int64_t)a->n_groups * a->d_state,
                              (int64_t)a->n_groups * a->d_state };
    for (int i = 0; i < 5; i++) {
        bool absent = i == 1 && in[i].n_dims == 0;
        if (i != 2 && !absent &&
            (!qn_is_rows(&in[i]) || in[i].dim[0] != in[0].dim[0] || in[i].dim[1] != width[i]))
            return qn_refuse(why, "x, dt, b and c are rows as wide as heads and groups say");
    }
    bool each = qn_is_mat(&in[2]) && in[2].dim[0] == a->n_heads && in[2].dim[1] == a->d_state;
    if (!each && !qn_is_vec(&in[2], a->n_heads))
        return qn_refuse(why, "a is [H] or [H, N]");
    if (n->n_in > 5 && !qn_is_opt_vec(&in[5], a->n_heads))
        return qn_refuse(why, "d is [H]");
    out[0] = in[0];
    return true;
}

/* One row of one head: decay, b and c are [N], x and y [P]. */
typedef struct row {
    const float *decay, *b, *c, *x;
    float dt, skip;
    float *y;
} row;

static void step(const qn_attr_scan *a, const row *r, float *state)
{
    int32_t n = a->d_state;
    for (int32_t p = 0; p < a->head_dim; p++, state += n) {
        float in = r->dt * r->x[p], sum = 0;
        for (int32_t i = 0; i < n; i++)
            state[i] = r->decay[i] * state[i] + in * r->b[i];
        for (int32_t i = 0; i < n; i++)
            sum += state[i] * r->c[i];
        r->y[p] = sum + r->skip * r->x[p];
    }
}

static float clamp_dt(const qn_attr_scan *a, float dt)
{
    dt = dt < a->dt_min ? a->dt_min : dt;
    return a->dt_max > 0 && dt > a->dt_max ? a->dt_max : dt;
}

/* The vectors of a call as floats. */
typedef struct params {
    float *a, *d;
    bool each; /* a has a number for each state index */
} params;

static void run_head(const qn_call *c, const params *p, qn_ref_span span, int64_t h, float *decay)
{
    const qn_attr_scan *a = c->attr;
    int64_t group = h / (a->n_heads / a->n_groups) * a->d_state, at = h * a->head_dim;
    for (int64_t r = span.first; r < span.end; r++) {
        const float *dts = c->in[1].data;
        const row one = { .decay = decay,
                          .b = (const float *)c->in[3].data + r * c->in[3].width + group,
                          .c = (const float *)c->in[4].data + r * c->in[4].width + group,
                          .x = (const float *)c->in[0].data + r * c->in[0].width + at,
                          .dt = dts ? clamp_dt(a, dts[r * a->n_heads + h]) : 1,
                          .skip = p->d ? p->d[h] : 0,
                          .y = (float *)c->out[0].data + r * c->out[0].width + at };
        decay[0] = expf(one.dt * p->a[p->each ? h * a->d_state : h]);
        for (int32_t i = 1; i < a->d_state; i++)
            decay[i] = p->each ? expf(one.dt * p->a[h * a->d_state + i]) : decay[0];
        step(a, &one, span.state);
    }
}

static void ref(const qn_call *c)
{
    const qn_attr_scan *a = c->attr;
    int64_t size = (int64_t)a->head_dim * a->d_state, lo, hi;
    params p = { .each = c->in[2].rows * c->in[2].width != a->n_heads };
    p.a = qn_ref_floats_dup(&c->in[2], p.each ? (int64_t)a->n_heads * a->d_state : a->n_heads);
    p.d = qn_ref_floats_dup(&c->in[5], a->n_heads);
    float *own = qn_alloc_n((size_t)(size + a->d_state), sizeof *own);
    qn_ref_part(c, a->n_heads, &lo, &hi);
    for (int32_t s = 0; s < c->batch->n_seq; s++)
        for (int64_t h = lo; h < hi; h++)
            run_head(c, &p, qn_ref_sequence(c, s, a->state + h * size, size, own), h, own + size);
    qn_free(own);
    qn_free(p.a);
    qn_free(p.d);
}

const qn_op qn_op_scan = { .name = "scan",
                           .attr_size = sizeof(qn_attr_scan),
                           .min_in = 5,
                           .max_in = 6,
                           .n_out = 1,
                           .infer = infer,
                           .ref = ref };
