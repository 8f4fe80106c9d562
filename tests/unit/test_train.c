/* test_train.c - the optimiser by hand-worked numbers, and the trainer on a model of two matrices: it learns,
 * refuses bad data, and never lets a poisoned batch into the weights. */
#include <math.h>

#include "ops/run.h"
#include "train/trainer.h"

#define VOCAB 6
#define WIDTH 8

/* First update: m / (1 - b1) = g and v / (1 - b2) = g^2, so the step is lr * sign(g) after the decay. */
static void test_adamw_first_step(void **state)
{
    (void)state;
    float w[3] = { 1, -2, 0.5f }, g[3] = { 0.3f, -4, 0 }, m[3] = { 0 }, v[3] = { 0 };
    qn_adamw o = { .lr = 0.1, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .decay = 0.5 };
    qn_adamw_update(&o, &(qn_adamw_slice){ w, m, v, g, 3 }, 1, 1);
    assert_true(fabs(w[0] - (0.95 - 0.1)) < 1e-6);
    assert_true(fabs(w[1] - (-1.9 + 0.1)) < 1e-6);
    assert_true(fabs(w[2] - 0.475) < 1e-6); /* no gradient: decay alone */
    assert_true(fabs(m[1] + 0.4) < 1e-6);
    assert_true(fabs(v[1] - 0.016) < 1e-6);
}

/* Two updates with different gradients, against the formulas written out for one number. */
static void test_adamw_second_step(void **state)
{
    (void)state;
    float w = 0, m = 0, v = 0, g1 = 1, g2 = -0.5f;
    qn_adamw o = { .lr = 0.01, .beta1 = 0.8, .beta2 = 0.9, .eps = 0.001 };
    qn_adamw_update(&o, &(qn_adamw_slice){ &w, &m, &v, &g1, 1 }, 1, 2); /* scaled to 2 */
    qn_adamw_update(&o, &(qn_adamw_slice){ &w, &m, &v, &g2, 1 }, 2, 2); /* scaled to -1 */
    double m2 = 0.8 * 0.4 + 0.2 * -1, v2 = 0.9 * 0.4 + 0.1 * 1;
    double want = -0.01 * 2 / (2 + 0.001) - 0.01 * (m2 / 0.36) / (sqrt(v2 / 0.19) + 0.001);
    assert_true(fabs(w - want) < 1e-7);
}

static void test_clip(void **state)
{
    (void)state;
    assert_true(qn_clip_scale(0.5, 1) == 1);
    assert_true(fabs(qn_clip_scale(4, 1) - 0.25) < 1e-6);
    assert_true(qn_clip_scale(1e9, 0) == 1); /* off */
}

/* ---- a model: embedding, tanh, head ---- */

typedef struct small {
    float embed[VOCAB * WIDTH];
    uint16_t head[VOCAB * WIDTH]; /* bf16: trained as floats all the same */
    qn_weight w[2];
    qn_graph g;
    qn_backend *be;
    qn_trainer *t;
} small;

static void small_open(small *s, const qn_train_options *opt)
{
    uint64_t seed = 3;
    rng_fill(&seed, s->embed, VOCAB * WIDTH, -0.5f, 0.5f);
    for (int i = 0; i < VOCAB * WIDTH; i++)
        s->head[i] = qn_f32_to_bf16(rng_float(&seed, -0.5f, 0.5f));
    for (int i = 0; i < 2; i++)
        s->w[i] = (qn_weight){ .n_dims = 2, .dim = { VOCAB, WIDTH }, .global_scale = 1 };
    s->w[0].name = "embed";
    s->w[0].layout = QN_F32;
    s->w[0].data = s->embed;
    s->w[1].name = "head";
    s->w[1].layout = QN_BF16;
    s->w[1].data = s->head;
    qn_graph_init(&s->g);
    qn_shape ids = { .dim = { -QN_SYM_TOK }, .n_dims = 1, .dtype = QN_I32 };
    qn_shape picked = { .dim = { -QN_SYM_OUT }, .n_dims = 1, .dtype = QN_I32 };
    qn_val x = QN_ADD(&s->g, &qn_op_embed, NULL, qn_graph_input(&s->g, "token", ids),
                      qn_graph_weight(&s->g, &s->w[0]));
    x = QN_ADD(&s->g, &qn_op_act, &(qn_attr_act){ QN_ACT_TANH }, x);
    x = QN_ADD(&s->g, &qn_op_rows, NULL, x, qn_graph_input(&s->g, "out_row", picked));
    x = QN_ADD(&s->g, &qn_op_linear, NULL, x, qn_graph_weight(&s->g, &s->w[1]));
    qn_graph_output(&s->g, "logits", x);
    qn_error err = { 0 };
    qn_backend_options be = { .n_threads = 1, .reference = true };
    assert_int_equal(qn_backend_cpu_open(&s->be, &be, &err), QN_OK);
    if (qn_trainer_open(&s->t, &s->g, s->be, opt, &err) != QN_OK)
        fail_msg("%s", err.msg);
}

static void small_close(small *s)
{
    qn_trainer_close(s->t);
    s->be->close(s->be);
    qn_graph_free(&s->g);
}

static const int32_t ring[] = { 0, 3, 1, 4, 2, 5, 0, 3 };

static void test_learns(void **state)
{
    (void)state;
    small s;
    qn_train_options opt = QN_TRAIN_DEFAULT;
    opt.adamw.lr = 0.05;
    opt.adamw.decay = 0;
    small_open(&s, &opt);
    qn_train_seq seq = { ring, ring, 8 };
    qn_train_result r = { 0 };
    double first = 0, last = 0;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(qn_trainer_step(s.t, &seq, 1, &r, NULL), QN_OK);
        assert_true(r.updated);
        assert_int_equal(r.n_labels, 7);
        first = i ? first : r.loss;
        last = r.loss;
    }
    assert_true(first > 1 && last < 0.05);
    assert_true(s.embed[0] != qn_trainer_weight(s.t, 0)[0]); /* the model's own stay */
    small_close(&s);
}

/* The gradient of a batch is the mean over its labels, whatever sequences they came in. */
static void test_batch_is_a_mean(void **state)
{
    (void)state;
    small s;
    small_open(&s, NULL);
    const int32_t some[] = { -100, -100, 1, 4 };
    qn_train_seq seq[2] = { { ring, ring, 6 }, { ring + 1, some, 4 } };
    double sum[VOCAB * WIDTH] = { 0 }, loss = 0;
    qn_train_result r;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(qn_trainer_run(s.t, &seq[i], 1, &r, NULL), QN_OK);
        assert_int_equal(r.n_labels, i ? 2 : 5);
        loss += r.loss * (double)r.n_labels / 7;
        for (int k = 0; k < VOCAB * WIDTH; k++)
            sum[k] += qn_trainer_grad(s.t, 1)[k] * (double)r.n_labels / 7;
    }
    assert_int_equal(qn_trainer_run(s.t, seq, 2, &r, NULL), QN_OK);
    assert_true(fabs(r.loss - loss) < 1e-6);
    for (int k = 0; k < VOCAB * WIDTH; k++)
        assert_true(fabs(qn_trainer_grad(s.t, 1)[k] - sum[k]) < 1e-7);
    small_close(&s);
}

/* The same data gives the same bits: no sum depends on time, threads or memory. */
static void test_reproducible(void **state)
{
    (void)state;
    float end[2][VOCAB * WIDTH];
    for (int i = 0; i < 2; i++) {
        small s;
        small_open(&s, NULL);
        qn_train_seq seq[2] = { { ring, ring, 8 }, { ring + 2, ring + 2, 3 } };
        qn_train_result r;
        for (int k = 0; k < 5; k++)
            assert_int_equal(qn_trainer_step(s.t, seq, 1 + k % 2, &r, NULL), QN_OK);
        memcpy(end[i], qn_trainer_weight(s.t, 1), sizeof end[i]);
        small_close(&s);
    }
    assert_memory_equal(end[0], end[1], sizeof end[0]);
}

static void test_poison_stays_out(void **state)
{
    (void)state;
    small s;
    small_open(&s, NULL);
    qn_train_seq seq = { ring, ring, 8 };
    qn_train_result r;
    float before[VOCAB * WIDTH];
    float *w = qn_trainer_weight(s.t, 0), keep = w[3];
    memcpy(before, qn_trainer_weight(s.t, 1), sizeof before);
    w[3] = NAN;
    assert_int_equal(qn_trainer_step(s.t, &seq, 1, &r, NULL), QN_OK);
    assert_false(r.updated);
    assert_memory_equal(before, qn_trainer_weight(s.t, 1), sizeof before);
    w[3] = keep;
    assert_int_equal(qn_trainer_step(s.t, &seq, 1, &r, NULL), QN_OK);
    assert_true(r.updated);
    small_close(&s);
}

static void test_nothing_to_learn(void **state)
{
    (void)state;
    small s;
    small_open(&s, NULL);
    const int32_t none[] = { -100, -100, -100 };
    qn_train_seq seq = { ring, none, 3 };
    qn_train_result r;
    assert_int_equal(qn_trainer_step(s.t, &seq, 1, &r, NULL), QN_OK);
    assert_false(r.updated);
    assert_true(r.loss == 0 && r.n_labels == 0);
    small_close(&s);
}

static void test_bad_data(void **state)
{
    (void)state;
    small s;
    small_open(&s, NULL);
    const int32_t bad[] = { 0, VOCAB, 1 }, good[] = { 0, 1, 2 };
    qn_train_seq seq = { bad, good, 3 };
    qn_train_result r;
    qn_error err = { 0 };
    assert_int_equal(qn_trainer_run(s.t, &seq, 1, &r, &err), QN_ERR_ARGUMENT);
    assert_non_null(strstr(err.msg, "token 1"));
    seq = (qn_train_seq){ good, bad, 3 };
    assert_int_equal(qn_trainer_run(s.t, &seq, 1, &r, &err), QN_ERR_ARGUMENT);
    seq.n = 0;
    assert_int_equal(qn_trainer_run(s.t, &seq, 1, &r, &err), QN_ERR_ARGUMENT);
    small_close(&s);
    qn_graph g;
    qn_graph_init(&g);
    qn_trainer *t;
    assert_int_equal(qn_trainer_open(&t, &g, NULL, NULL, &err), QN_ERR_UNSUPPORTED);
    assert_null(t);
    qn_graph_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adamw_first_step),
        cmocka_unit_test(test_adamw_second_step),
        cmocka_unit_test(test_clip),
        cmocka_unit_test(test_learns),
        cmocka_unit_test(test_batch_is_a_mean),
        cmocka_unit_test(test_poison_stays_out),
        cmocka_unit_test(test_reproducible),
        cmocka_unit_test(test_nothing_to_learn),
        cmocka_unit_test(test_bad_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
