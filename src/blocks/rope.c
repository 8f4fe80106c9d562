/* rope.c - reads rotary positions from a config and computes the frequencies of every scaling kind.
 *
 * Formulas: Su et al. 2021 (plain), linear position interpolation (Chen et al. 2023), NTK-aware scaling, YaRN
 * (Peng et al. 2023), LongRoPE (Ding et al. 2024), Llama 3.1's by wavelength, Gemma 4's proportional one.
 * Exponents and powers are rounded to float32 as the reference does: a difference in the last bit of a
 * frequency is visible after a few thousand positions. */
#include "blocks/rope.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "blocks/config.h"

typedef struct scaling {
    const qn_rope *rope;
    const qn_json *json;
    int head_dim, n_freqs;
    qn_attr_rope *attr;
    float *freq, *freq_long; /* attr's tables while they are filled */
    qn_arena *arena;
    qn_error *err;
} scaling;

/* Every field of a scaling object that some kind reads. Another one is a kind of positions we do not know. */
static const char *const known_fields[] = {
    "rope_type",
    "type",
    "rope_theta",
    "mrope_section", /* which axis drives which pair: a text has one position on all of them */
    "mrope_interleaved",
    "partial_rotary_factor",
    "factor",
    "original_max_position_embeddings",
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "mscale",
    "mscale_all_dim",
    "truncate",
    "low_freq_factor",
    "high_freq_factor",
    "short_factor",
    "long_factor",
    "short_mscale",
    "long_mscale",
    "finetuned",
    "max_position_embeddings",
    "alpha",
    "llama_4_scaling_beta", /* of qn_rope.query_beta: no rotation, but described beside it */
};

/* The object a layer kind's positions are described in; NULL when the config has none. */
static const qn_json *find_scaling(const qn_config *c, const char *layer_type)
{
    const qn_json *v = qn_json_get(c->json, "rope_scaling");
    if (!qn_json_is(v, QN_JSON_OBJECT) || v->n == 0)
        v = qn_json_get(c->json, "rope_parameters");
    if (!qn_json_is(v, QN_JSON_OBJECT))
        return NULL;
    const qn_json *own = layer_type ? qn_json_get(v, layer_type) : NULL;
    if (own)
        return qn_json_is(own, QN_JSON_OBJECT) ? own : NULL;
    /* Nested by kinds of layers, and this is not one of them: nothing is said. */
    for (uint32_t i = 0; i < v->n; i++)
        if (v->items[i].type == QN_JSON_OBJECT)
            return NULL;
    return v;
}

static bool has(const qn_json *obj, const char *key)
{
    const qn_json *v = qn_json_get(obj, key);
    return v && v->type != QN_JSON_NULL;
}

static double number(const qn_json *obj, const char *key, double fallback)
{
    return qn_json_num(qn_json_get(obj, key), fallback);
}

static const char *kind_of(const qn_json *obj)
{
    const char *kind = qn_json_str(qn_json_get(obj, "rope_type"), NULL);
    return kind ? kind : qn_json_str(qn_json_get(obj, "type"), "default");
}

qn_rope qn_rope_of(const qn_config *c, const char *layer_type)
{
    const qn_json *s = find_scaling(c, layer_type);
    double theta = number(c->json, "rope_theta", number(c->json, "rotary_emb_base", 10000));
    double part = number(c->json, "rotary_pct", number(c->json, "rotary_emb_fraction", 1));
    part = number(c->json, "partial_rotary_factor", part);
    part = number(s, "partial_rotary_factor", part);
    double original = number(c->json, "original_max_position_embeddings",
                             number(s, "original_max_position_embeddings", c->max_pos));
    bool interleaved = qn_json_bool(qn_json_get(c->json, "rotary_emb_interleaved"), false);
    qn_rope r = {
        .theta = number(s, "rope_theta", theta),
        .scaling = s,
        .interleaved = qn_json_bool(qn_json_get(c->json, "rope_interleaved"), interleaved),
        .max_pos = c->max_pos,
        .original_max = original >= 1 && original < 1e9 ? (int)original : 0,
        .query_beta = (float)number(s, "llama_4_scaling_beta", 0),
    };
    /* A proportional kind rotates whole heads, by zero where the proportion ends. */
    if (strcmp(kind_of(s), "proportional") == 0)
        part = 1;
    if (part > 0 && part <= 1)
        r.n_rot = (int)(c->head_dim * part);
    return r;
}

/* theta^(2i / n), in float32 steps. */
static float power(double theta, int i, int n)
{
    float exponent = (float)(2 * i) / (float)n;
    return (float)pow(theta, exponent);
}

static int fail(const scaling *s, const char *what)
{
    return qn_fail(s->err, QN_ERR_FORMAT, "config: rope scaling \"%s\": %s", kind_of(s->json),
                   what);
}

static int plain(const scaling *s)
{
    for (int i = 0; i < s->n_freqs; i++)
        s->freq[i] = 1.0f / power(s->rope->theta, i, s->attr->n_rot);
    return QN_OK;
}

static int linear(const scaling *s)
{
    float factor = (float)number(s->json, "factor", 0);
    if (!(factor > 0))
        return fail(s, "factor is missing");
    plain(s);
    for (int i = 0; i < s->n_freqs; i++)
        s->freq[i] /= factor;
    return QN_OK;
}

static int proportional(const scaling *s)
{
    float factor = (float)number(s->json, "factor", 1);
    double part = number(s->json, "partial_rotary_factor", 1);
    if (!(factor > 0) || !(part > 0 && part <= 1))
        return fail(s, "factor or partial_rotary_factor is out of range");
    int n_angles = (int)(part * s->head_dim / 2);
    for (int i = 0; i < s->n_freqs; i++)
        s->freq[i] = i < n_angles ? 1.0f / power(s->rope->theta, i, s->head_dim) / factor : 0;
    return QN_OK;
}

static int fixed_ntk(const scaling *s, double alpha)
{
    int n = s->attr->n_rot;
    if (!(alpha > 0) || n <= 2)
        return fail(s, "alpha is out of range");
    double theta = s->rope->theta * pow(alpha, (double)n / (n - 2));
    for (int i = 0; i < s->n_freqs; i++)
        s->freq[i] = 1.0f / power(theta, i, n);
    return QN_OK;
}

/* The base grows with the sequence once it is longer than the trained length; the op does that. */
static int dynamic(const scaling *s)
{
    double factor = number(s->json, "factor", 0);
    if (has(s->json, "alpha")) /* another spelling of NTK: a larger base at every length */
        return fixed_ntk(s, number(s->json, "alpha", 0));
    if (!(factor > 0) || s->rope->max_pos <= 0 || s->attr->n_rot <= 2)
        return fail(s, "factor or max_position_embeddings is missing");
    s->attr->dynamic_theta = (float)s->rope->theta;
    s->attr->dynamic_factor = (float)factor;
    s->attr->long_after = s->rope->max_pos;
    return plain(s);
}

static double yarn_mscale(double factor, double mscale)
{
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

void qn_rope_rotate_part(qn_rope *r, int head_dim, double part)
{
    r->n_rot = part > 0 && part <= 1 ? (int)(head_dim * part) : -1;
}

float qn_rope_score_factor(const qn_rope *r)
{
    double all_dim = number(r->scaling, "mscale_all_dim", 0);
    if (all_dim == 0 || strcmp(kind_of(r->scaling), "default") == 0)
        return 1;
    double m = yarn_mscale(number(r->scaling, "factor", 1), all_dim);
    return (float)(m * m);
}

/* The (fractional) pair that turns `rotations` times over the trained length. */
static double yarn_pair(const scaling *s, double rotations)
{
    double turns = s->rope->original_max / (rotations * 2 * M_PI);
    return s->attr->n_rot * log(turns) / (2 * log(s->rope->theta));
}

static int yarn(const scaling *s)
{
    int n = s->attr->n_rot, original = s->rope->original_max;
    if (original <= 0)
        return fail(s, "original_max_position_embeddings is missing");
    double factor = number(s->json, "factor", (double)s->rope->max_pos / original);
    if (!(factor > 0) || !(s->rope->theta > 1))
        return fail(s, "factor or rope_theta is out of range");
    double mscale = number(s->json, "mscale", 0), all_dim = number(s->json, "mscale_all_dim", 0);
    double amplitude = yarn_mscale(factor, 1);
    if (mscale != 0 && all_dim != 0)
        amplitude = yarn_mscale(factor, mscale) / yarn_mscale(factor, all_dim);
    s->attr->amplitude = (float)number(s->json, "attention_factor", amplitude);

    /* Pairs below `low` keep their frequency, above `high` they are interpolated, between they are mixed. */
    double fast = number(s->json, "beta_fast", 0), slow = number(s->json, "beta_slow", 0);
    double low = yarn_pair(s, fast != 0 ? fast : 32), high = yarn_pair(s, slow != 0 ? slow : 1);
    if (qn_json_bool(qn_json_get(s->json, "truncate"), true)) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, n - 1);
    if (low == high)
        high += 0.001; /* the ramp must have a slope */
    for (int i = 0; i < s->n_freqs; i++) {
        float ramp = (float)(((double)i - low) / (high - low));
        float keep = 1 - fminf(fmaxf(ramp, 0), 1);
        float p = power(s->rope->theta, i, n);
        s->freq[i] = 1.0f / ((float)factor * p) * (1 - keep) + 1.0f / p * keep;
    }
    return QN_OK;
}

/* One divisor for each pair, from a list that must have exactly as many. */
static int longrope_table(const scaling *s, const char *key, float *freq)
{
    const qn_json *list = qn_json_get(s->json, key);
    if (!qn_json_is(list, QN_JSON_ARRAY) || list->n != (uint32_t)s->n_freqs)
        return qn_fail(s->err, QN_ERR_FORMAT,
                       "config: rope scaling \"%s\": %s needs %d numbers, one for each pair",
                       kind_of(s->json), key, s->n_freqs);
    for (int i = 0; i < s->n_freqs; i++) {
        float divisor = (float)qn_json_num(qn_json_at(list, (size_t)i), 0);
        if (!(divisor > 0))
            return fail(s, "a factor is not positive");
        freq[i] = 1.0f / (divisor * power(s->rope->theta, i, s->attr->n_rot));
    }
    return QN_OK;
}

static int longrope(const scaling *s)
{
    int original = s->rope->original_max;
    if (original <= 1)
        return fail(s, "original_max_position_embeddings is missing");
    double factor = number(s->json, "factor", (double)s->rope->max_pos / original);
    double amplitude = factor <= 1 ? 1 : sqrt(1 + log(factor) / log(original));
    amplitude = number(s->json, "attention_factor", amplitude);
    s->attr->amplitude = (float)number(s->json, "short_mscale", amplitude);
    s->attr->amplitude_long = (float)number(s->json, "long_mscale", amplitude);
    s->attr->long_after = original;
    s->attr->inv_freq_long = s->freq_long;
    int rc = longrope_table(s, "short_factor", s->freq);
    return rc == QN_OK ? longrope_table(s, "long_factor", s->freq_long) : rc;
}

static int llama3(const scaling *s)
{
    float factor = (float)number(s->json, "factor", 0);
    float low = (float)number(s->json, "low_freq_factor", 0);
    float high = (float)number(s->json, "high_freq_factor", 0);
    float original = (float)s->rope->original_max;
    if (!(factor > 0 && low > 0 && high >= low && original > 0))
        return fail(s, "factor, low_freq_factor, high_freq_factor or "
                       "original_max_position_embeddings is missing or out of range");
    plain(s);
    for (int i = 0; i < s->n_freqs; i++) {
        float f = s->freq[i], wavelength = (float)(2 * M_PI) / f;
        float smooth = high > low ? (original / wavelength - low) / (high - low) : 0;
        if (wavelength > original / low)
            s->freq[i] = f / factor;
        else if (!(wavelength < original / high))
            s->freq[i] = (1 - smooth) * f / factor + smooth * f;
    }
    return QN_OK;
}

static const struct {
    const char *name;
    int (*fill)(const scaling *);
} kinds[] = {
    { "default", plain },     { "linear", linear },
    { "dynamic", dynamic },   { "yarn", yarn },
    { "longrope", longrope }, { "su", longrope },
    { "llama3", llama3 },     { "proportional", proportional },
};

static int check_fields(const scaling *s)
{
    for (uint32_t i = 0; s->json && i < s->json->n; i++) {
        const qn_json *v = &s->json->items[i];
        bool known = v->type == QN_JSON_NULL;
        for (size_t k = 0; k < sizeof known_fields / sizeof *known_fields && !known; k++)
            known = strcmp(known_fields[k], v->key) == 0;
        if (!known)
            return qn_fail(s->err, QN_ERR_UNSUPPORTED,
                           "config: rope scaling \"%s\": %s is not supported", kind_of(s->json),
                           v->key);
    }
    return QN_OK;
}

int qn_rope_attr(qn_attr_rope *attr, qn_arena *a, const qn_rope *r, int head_dim,
                 const float *factors, qn_error *err)
{
    if (r->n_rot < 2 || r->n_rot % 2 != 0 || r->n_rot > head_dim || !(r->theta > 0))
        return qn_fail(err, QN_ERR_FORMAT,
                       "config: rotary positions over %d of %d columns with base %g make no sense",
                       r->n_rot, head_dim, r->theta);
    int n = r->n_rot / 2;
    *attr = (qn_attr_rope){ .head_dim = head_dim,
                            .n_rot = r->n_rot,
                            .interleaved = r->interleaved,
                            .n_freqs = n,
                            .amplitude = 1,
                            .amplitude_long = 1 };
    scaling s = { .rope = r,
                  .json = r->scaling,
                  .head_dim = head_dim,
                  .n_freqs = n,
                  .attr = attr,
                  .freq = qn_arena_alloc_n(a, (size_t)n, sizeof(float)),
                  .freq_long = qn_arena_alloc_n(a, (size_t)n, sizeof(float)),
                  .arena = a,
                  .err = err };
    attr->inv_freq = s.freq;
    int rc = check_fields(&s);
    if (rc != QN_OK)
        return rc;
    const char *kind = kind_of(r->scaling);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, kind) != 0)
            continue;
        rc = kinds[i].fill(&s);
        for (int k = 0; k < n && factors && rc == QN_OK; k++)
            s.freq[k] /= factors[k];
        return rc;
    }
    return qn_fail(err, QN_ERR_UNSUPPORTED, "config: rope scaling \"%s\" is not supported", kind);
}
