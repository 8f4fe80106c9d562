/* test_engine.c - the engine on tiny models: an answer is the same, bit for bit, alone and in company, in one
 * chunk and in many, from a fresh and from a reused cache, put back and computed again. And what ends one. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "engine/engine.h"
#include "unit/tiny_model.h"

enum { N_PROMPTS = 6, MAX_OUT = 40 };

/* What an answer is compared by: every token and the 20 largest log-probabilities behind it. */
typedef struct answer {
    qn_finish finish;
    int n, n_prompt, n_cached;
    int32_t id[512];
    qn_token_probs probs[512];
} answer;

typedef struct prompt {
    int32_t id[200];
    int n;
} prompt;

/* Prompts of lengths round the borders of pages and of chunks. */
static void make_prompt(prompt *p, int which)
{
    static const int lengths[N_PROMPTS] = { 1, 31, 32, 65, 100, 160 };
    uint64_t rng = (uint64_t)which + 11;
    p->n = lengths[which % N_PROMPTS];
    for (int i = 0; i < p->n; i++) {
        rng = rng * 6364136223846793005u + 1442695040888963407u;
        p->id[i] = (int32_t)((rng >> 33) % 317) + 3;
    }
}

static qn_request_options options(const qn_model *m, const prompt *p)
{
    qn_request_options o;
    qn_request_defaults(m, &o);
    o.ids = p->id;
    o.n_ids = (size_t)p->n;
    o.max_tokens = MAX_OUT;
    o.sampling.temperature = 0;
    o.ignore_end = true;
    o.n_logprobs = 20;
    return o;
}

static qn_engine *open_engine(qn_model *m, qn_engine_options o)
{
    qn_engine *e;
    qn_error err = { 0 };
    if (qn_engine_open(&e, m, &o, &err) != QN_OK)
        fail_msg("%s", err.msg);
    return e;
}

static qn_request *start(qn_engine *e, const qn_request_options *o)
{
    qn_request *r;
    qn_error err = { 0 };
    if (qn_request_start(&r, e, o, &err) != QN_OK)
        fail_msg("%s", err.msg);
    return r;
}

static const qn_result *wait_done(qn_request *r)
{
    qn_event ev;
    do
        ev = qn_request_next(r, 20000);
    while (ev.kind != QN_EVENT_DONE && ev.kind != QN_EVENT_NONE);
    assert_int_equal(ev.kind, QN_EVENT_DONE);
    return ev.result;
}

static void collect(qn_request *r, answer *a)
{
    const qn_result *res = wait_done(r);
    memset(a, 0, sizeof *a);
    a->finish = res->finish;
    a->n = res->n_output;
    a->n_prompt = res->n_prompt;
    a->n_cached = res->n_cached;
    assert_true(a->n <= 512);
    for (int i = 0; i < a->n; i++) {
        a->id[i] = res->output_ids[i];
        if (res->probs)
            a->probs[i] = res->probs[i];
    }
    qn_request_close(r);
}

static void assert_same(const answer *a, const answer *b)
{
    assert_int_equal(a->finish, b->finish);
    assert_int_equal(a->n, b->n);
    for (int i = 0; i < a->n; i++) {
        if (a->id[i] != b->id[i])
            fail_msg("token %d is %d, not %d", i, b->id[i], a->id[i]);
        for (int k = 0; k < 20; k++) /* bits, not nearness */
            if (a->probs[i].top[k].id != b->probs[i].top[k].id ||
                a->probs[i].top[k].logprob != b->probs[i].top[k].logprob)
                fail_msg("token %d, rank %d: %.9g is not %.9g", i, k, b->probs[i].top[k].logprob,
                         a->probs[i].top[k].logprob);
    }
}

/* Runs each prompt by itself. */
static void run_alone(qn_model *m, qn_engine_options eo, bool sample, answer *out)
{
    for (int i = 0; i < N_PROMPTS; i++) {
        prompt p;
        qn_engine *e = open_engine(m, eo);
        make_prompt(&p, i);
        qn_request_options o = options(m, &p);
        o.sampling.temperature = sample ? 1.5f : 0;
        o.sampling.seed = 100 + i;
        collect(start(e, &o), &out[i]);
        qn_engine_close(e);
    }
}

/* The numbers once nothing runs: they are noted after the last event. */
static qn_engine_stats settled_stats(qn_engine *e)
{
    qn_engine_stats s;
    for (int i = 0; i < 2000; i++) {
        qn_engine_get_stats(e, &s);
        if (s.n_running == 0 && s.n_waiting == 0)
            break;
        usleep(1000);
    }
    return s;
}

/* Runs all prompts at once on one engine. */
static void run_together(qn_model *m, qn_engine_options eo, bool sample, answer *out,
                         qn_engine_stats *stats)
{
    qn_request *r[N_PROMPTS];
    qn_engine *e = open_engine(m, eo);
    for (int i = 0; i < N_PROMPTS; i++) {
        prompt p;
        make_prompt(&p, i);
        qn_request_options o = options(m, &p);
        o.sampling.temperature = sample ? 1.5f : 0;
        o.sampling.seed = 100 + i;
        r[i] = start(e, &o);
    }
    for (int i = 0; i < N_PROMPTS; i++)
        collect(r[i], &out[i]);
    *stats = settled_stats(e);
    qn_engine_close(e);
}

static const char *const models[] = { "llama/a", "qwen2/a", "mixtral/a", "gemma2/a" };

static void company_changes_nothing_with(const char *name, qn_compute compute)
{
    static answer alone[N_PROMPTS], other[N_PROMPTS];
    static const qn_engine_options ways[] = {
        { .chunk = 512 },
        { .chunk = 33 },
        { .chunk = 8, .max_running = 8 },
        { .max_running = 2 },
    };
    qn_engine_stats stats;
    qn_model *m = tiny_model(name, compute, 1), *m2 = tiny_model(name, compute, 2);
    for (int sample = 0; sample < 2; sample++) {
        run_alone(m, (qn_engine_options){ 0 }, sample, alone);
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            run_together(w % 2 ? m : m2, ways[w], sample, other, &stats);
            for (int i = 0; i < N_PROMPTS; i++)
                assert_same(&alone[i], &other[i]);
        }
        run_alone(m, (qn_engine_options){ .chunk = 1, .max_running = 1 }, sample, other);
        for (int i = 0; i < N_PROMPTS; i++)
            assert_same(&alone[i], &other[i]);
    }
    qn_model_close(m);
    qn_model_close(m2);
}

static void company_changes_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        company_changes_nothing_with(models[i], QN_COMPUTE_F32);
        company_changes_nothing_with(models[i], QN_COMPUTE_DEFAULT);
    }
}

/* A cache too small for all: sequences are put back and computed again, to the same answers. */
static void preemption_changes_nothing(void **state)
{
    (void)state;
    static answer alone[N_PROMPTS], other[N_PROMPTS];
    qn_engine_stats stats;
    qn_model *m = tiny_model("llama/a", QN_COMPUTE_DEFAULT, 1);
    run_alone(m, (qn_engine_options){ 0 }, true, alone);
    size_t bytes = 9 * qn_kv_bytes(&m->graph, QN_KV_PAGE, false); /* 288 tokens; all need 629 */
    run_together(m, (qn_engine_options){ .cache_bytes = bytes, .context = 256 }, true, other,
                 &stats);
    for (int i = 0; i < N_PROMPTS; i++)
        assert_same(&alone[i], &other[i]);
    assert_true(stats.n_preempted > 0);
    assert_int_equal(stats.pages_used, 0);
    assert_int_equal(stats.pages_total, 9);
    qn_model_close(m);
}

/* Greedy tokens of the reference, through the whole engine. */
static void reference_greedy(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof models / sizeof *models; k++) {
        qn_arena a = { 0 };
        char *path =
            qn_arena_printf(&a, "%s/tests/golden/cases/%s/case.json", QUERN_SOURCE, models[k]);
        const qn_json *c = qn_json_parse_file(&a, path, NULL);
        const qn_json *ids = qn_json_get(c, "prompt"), *greedy = qn_json_get(c, "greedy");
        assert_non_null(greedy);
        prompt p = { .n = (int)ids->n };
        for (int i = 0; i < p.n; i++)
            p.id[i] = (int32_t)qn_json_int(&ids->items[i], 0);
        qn_model *m = tiny_model(models[k], QN_COMPUTE_F32, 1);
        qn_engine *e = open_engine(m, (qn_engine_options){ .chunk = 16 });
        qn_request_options o = options(m, &p);
        o.max_tokens = greedy->n;
        static answer got;
        collect(start(e, &o), &got);
        assert_int_equal(got.n, greedy->n);
        for (int i = 0; i < got.n; i++)
            assert_int_equal(got.id[i], qn_json_int(&greedy->items[i], -1));
        qn_engine_close(e);
        qn_model_close(m);
        qn_arena_free(&a);
    }
}

/* ---- reuse between turns ---- */

/* Runs a prompt on a lease, or without. */
static void run_leased(qn_engine *e, qn_lease *l, const qn_request_options *o, answer *out)
{
    qn_request *r;
    qn_error err = { 0 };
    assert_int_equal(qn_request_make(&r, e, o, &err), QN_OK);
    if (l)
        qn_request_lease(r, l);
    assert_int_equal(qn_engine_submit(e, r, &err), QN_OK);
    collect(r, out);
}

/* Each turn's prompt is the last one's, its answer, and some more; then one that leaves it in the middle. */
static void reuse_changes_nothing_with(const char *name)
{
    static answer fresh, reused;
    qn_model *m = tiny_model(name, QN_COMPUTE_DEFAULT, 1);
    qn_engine *e = open_engine(m, (qn_engine_options){ .chunk = 24 });
    qn_lease *l = qn_engine_lease(e);
    prompt p;
    make_prompt(&p, 1);
    for (int turn = 0; turn < 5; turn++) {
        qn_request_options o = options(m, &p);
        o.max_tokens = 9;
        int shared = turn == 0 ? 0 : turn == 4 ? 50 : p.n - 4;
        run_leased(e, NULL, &o, &fresh);
        run_leased(e, l, &o, &reused);
        assert_same(&fresh, &reused);
        assert_int_equal(fresh.n_cached, 0);
        if (turn < 4) /* the last token of an answer was never computed */
            assert_int_equal(reused.n_cached, turn == 0 ? 0 : shared - 1);
        else /* windows may have given back what lies in the middle */
            assert_true(reused.n_cached == 50 || reused.n_cached == 0);
        memcpy(p.id + p.n, fresh.id, 9 * sizeof *p.id);
        p.n += 9;
        for (int i = 0; i < 4; i++)
            p.id[p.n++] = 20 + i * turn;
        if (turn == 3)
            p.id[50] ^= 1;
    }
    qn_request_options o = options(m, &p); /* the very same prompt: one token is computed again */
    run_leased(e, l, &o, &fresh);
    p.n -= 3;
    o.n_ids = (size_t)p.n;
    run_leased(e, l, &o, &reused);
    assert_int_equal(reused.n_cached, p.n - 1);
    qn_engine_end_lease(e, l);
    qn_engine_close(e);
    qn_model_close(m);
}

static void reuse_changes_nothing(void **state)
{
    (void)state;
    reuse_changes_nothing_with("llama/a");
}

static void reuse_with_windows_changes_nothing(void **state)
{
    (void)state;
    static answer fresh, reused;
    qn_model *m = tiny_model("gemma2/a", QN_COMPUTE_DEFAULT, 1);
    qn_engine *e = open_engine(m, (qn_engine_options){ .chunk = 24 });
    qn_lease *l = qn_engine_lease(e);
    prompt p;
    make_prompt(&p, 4);
    for (int cut = 0; cut < 60; cut += 7) {
        qn_request_options o = options(m, &p);
        o.n_ids = (size_t)(p.n - cut);
        run_leased(e, NULL, &o, &fresh);
        run_leased(e, l, &o, &reused);
        assert_same(&fresh, &reused);
    }
    qn_engine_end_lease(e, l);
    qn_engine_close(e);
    qn_model_close(m);
}

/* Entries of idle sessions make room for requests that need it. */
static void idle_leases_give_way(void **state)
{
    (void)state;
    static answer a, b;
    qn_model *m = tiny_model("llama/a", QN_COMPUTE_DEFAULT, 1);
    size_t bytes = 8 * qn_kv_bytes(&m->graph, QN_KV_PAGE, false);
    qn_engine *e = open_engine(m, (qn_engine_options){ .cache_bytes = bytes, .context = 256 });
    qn_lease *l = qn_engine_lease(e);
    prompt p;
    make_prompt(&p, 5);
    qn_request_options o = options(m, &p);
    run_leased(e, l, &o, &a);
    run_leased(e, NULL, &o, &b); /* 200 tokens beside 199 kept ones: more than 256 */
    assert_same(&a, &b);
    run_leased(e, l, &o, &b);
    assert_same(&a, &b);
    assert_int_equal(b.n_cached, 0);
    qn_engine_end_lease(e, l);
    qn_engine_close(e);
    qn_model_close(m);
}

/* ---- ends ---- */

static void limits(void **state)
{
    (void)state;
    static answer a;
    qn_error err = { 0 };
    qn_request *r;
    prompt p;
    qn_model *m = tiny_model("llama/a", QN_COMPUTE_DEFAULT, 1);
    qn_engine *e = open_engine(m, (qn_engine_options){ .context = 70 });
    make_prompt(&p, 3); /* 65 tokens */
    qn_request_options o = options(m, &p);
    o.max_tokens = INT64_MAX; /* legal: what fits is made */
    collect(start(e, &o), &a);
    assert_int_equal(a.finish, QN_FINISH_LENGTH);
    assert_int_equal(a.n, 5);
    o.max_tokens = 0;
    collect(start(e, &o), &a);
    assert_int_equal(a.finish, QN_FINISH_LENGTH);
    assert_int_equal(a.n, 0);
    make_prompt(&p, 4); /* 100 tokens do not fit */
    o.n_ids = (size_t)p.n;
    assert_int_equal(qn_request_start(&r, e, &o, &err), QN_ERR_LIMIT);
    assert_null(r);
    assert_non_null(strstr(err.msg, "100 tokens"));
    assert_non_null(strstr(err.msg, "69 fit"));
    qn_engine_close(e);
    qn_model_close(m);
}

static void end_token(void **state)
{
    (void)state;
    static answer a;
    prompt p;
    qn_model *m = tiny_model("llama/a", QN_COMPUTE_DEFAULT, 1);
    qn_engine *e = open_engine(m, (qn_engine_options){ 0 });
    make_prompt(&p, 2);
    qn_request_options o = options(m, &p);
    collect(start(e, &o), &a);
    m->eos[0] = a.id[4]; /* the fifth token ends it from now on */
    m->n_eos = 1;
    int first = 0;
    while (a.id[first] != m->eos[0])
        first++;
    o.ignore_end = false;
    collect(start(e, &o), &a);
    assert_int_equal(a.finish, QN_FINISH_STOP);
    assert_int_equal(a.n, first + 1);
    qn_engine_close(e);
    qn_model_close(m);
}

static void cancel_frees_pages(void **state)
{
    (void)state;
    prompt p;
    qn_model *m = tiny_model("llama/a", QN_COMPUTE_DEFAULT, 1);
    qn_engine *e = open_engine(m, (qn_engine_options){ .max_running = 2 });
    make_prompt(&p, 2);
    qn_request_options o = options(m, &p);
    o.max_tokens = -1;
    qn_request *r[5];
    for (int i = 0; i < 5; i++)
        r[i] = start(e, &o);
    assert_int_equal(qn_request_next(r[0], 20000).kind, QN_EVENT_TOKEN);
    qn_request_cancel(r[0]);
    assert_int_equal(wait_done(r[0])->finish, QN_FINISH_CANCELLED);
    assert_int_equal(qn_request_next(r[0], 0).kind, QN_EVENT_DONE); /* and again */
    qn_request_cancel(r[4]);                                        /* one that still waits */
    assert_int_equal(wait_done(r[4])->finish, QN_FINISH_CANCELLED);
    for (int i = 0; i < 5; i++) /* the reader goes away: so does the work */
        qn_request_close(r[i]);
    qn_engine_stats s = settled_stats(e);
    assert_int_equal(s.n_running + s.n_waiting, 0);
    assert_int_equal(s.pages_used, 0);
    qn_engine_close(e);
    qn_model_close(m);
}

/* The engine may close first; its requests then end and are closed after it. */
static void engine_closes_first(void **state)
{
    (void)state;
    prompt p;
    qn_model *m = tiny_model("llama/a", QN_COMPUTE_DEFAULT, 1);
    qn_engine *e = open_engine(m, (qn_engine_options){ .max_running = 1 });
    make_prompt(&p, 2);
    qn_request_options o = options(m, &p);
    o.max_tokens = -1;
    qn_request *r[3];
    for (int i = 0; i < 3; i++)
        r[i] = start(e, &o);
    qn_engine_close(e);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(wait_done(r[i])->finish, QN_FINISH_CANCELLED);
        qn_request_close(r[i]);
    }
    qn_model_close(m);
}

/* A reader who takes nothing stops only its own sequence, and finds everything when it comes back. */
static void slow_reader_waits_alone(void **state)
{
    (void)state;
    static answer slow, quick, again;
    prompt p;
    qn_model *m = tiny_model("llama/a", QN_COMPUTE_DEFAULT, 1);
    qn_engine *e = open_engine(m, (qn_engine_options){ .max_running = 2 });
    make_prompt(&p, 1);
    qn_request_options o = options(m, &p);
    o.max_tokens = 400; /* more events than the queue holds */
    qn_request *r = start(e, &o);
    o.max_tokens = 20;
    for (int i = 0; i < 3; i++)
        collect(start(e, &o), &quick);
    assert_int_equal(quick.n, 20);
    collect(r, &slow);
    assert_int_equal(slow.n, 400);
    o.max_tokens = 400;
    collect(start(e, &o), &again);
    assert_same(&slow, &again);
    qn_engine_close(e);
    qn_model_close(m);
}

static void too_many_wait(void **state)
{
    (void)state;
    prompt p;
    qn_error err = { 0 };
    qn_model *m = tiny_model("llama/a", QN_COMPUTE_DEFAULT, 1);
    qn_engine *e = open_engine(m, (qn_engine_options){ .max_running = 1, .max_waiting = 2 });
    make_prompt(&p, 5);
    qn_request_options o = options(m, &p);
    o.max_tokens = -1;
    qn_request *r[64];
    int n = 0, rc = QN_OK;
    while (n < 64 && (rc = qn_request_start(&r[n], e, &o, &err)) == QN_OK)
        n++;
    assert_int_equal(rc, QN_ERR_LIMIT);
    assert_true(n < 64);
    while (n > 0)
        qn_request_close(r[--n]);
    qn_engine_close(e);
    qn_model_close(m);
}

static void bad_options(void **state)
{
    (void)state;
    prompt p;
    qn_error err;
    qn_request *r;
    qn_model *m = tiny_model("llama/a", QN_COMPUTE_DEFAULT, 1);
    qn_engine *e = open_engine(m, (qn_engine_options){ 0 });
    make_prompt(&p, 1);
    const qn_request_options good = options(m, &p);
    static const char *const empty[] = { "" };
    qn_request_options bad[12];
    for (int i = 0; i < 12; i++)
        bad[i] = good;
    bad[0].sampling.temperature = -1;
    bad[1].sampling.temperature = NAN;
    bad[2].sampling.top_p = 0;
    bad[3].sampling.top_p = 1.5f;
    bad[4].sampling.min_p = -0.1f;
    bad[5].sampling.top_k = -2;
    bad[6].sampling.repetition_penalty = 0;
    bad[7].n_logprobs = 21;
    bad[8].stop = empty;
    bad[8].n_stop = 1;
    bad[9].text = "two prompts";
    bad[10].n_ids = 0;
    bad[11].ids = (const int32_t[]){ 5, 320 };
    bad[11].n_ids = 2;
    for (int i = 0; i < 12; i++) {
        memset(&err, 0, sizeof err);
        assert_int_equal(qn_request_start(&r, e, &bad[i], &err), QN_ERR_ARGUMENT);
        assert_null(r);
        assert_int_equal(err.code, QN_ERR_ARGUMENT);
        assert_true(err.msg[0] != 0);
    }
    qn_engine_close(e);
    qn_engine_options small = { .cache_bytes = 10 };
    assert_int_equal(qn_engine_open(&e, m, &small, &err), QN_ERR_MEMORY);
    assert_null(e);
    qn_model_close(m);
}

/* ---- scoring ---- */

/* The scores of a text are the log-probabilities its tokens had when they were made. */
static void scores_equal_logprobs(void **state)
{
    (void)state;
    static answer a;
    prompt p;
    float score[200];
    qn_error err = { 0 };
    qn_model *m = tiny_model("llama/a", QN_COMPUTE_DEFAULT, 1);
    qn_engine *e = open_engine(m, (qn_engine_options){ .chunk = 37 });
    make_prompt(&p, 4);
    qn_request_options o = options(m, &p);
    o.sampling.temperature = 1;
    o.sampling.seed = 5;
    collect(start(e, &o), &a);
    memcpy(p.id + p.n, a.id, (size_t)a.n * sizeof *a.id);
    size_t n = (size_t)(p.n + a.n), first = (size_t)p.n;
    assert_int_equal(qn_engine_score(e, p.id, n, first, score, &err), QN_OK);
    for (int i = 0; i < a.n; i++)
        assert_true(score[p.n + i] == a.probs[i].chosen.logprob);
    float all[200];
    assert_int_equal(qn_engine_score(e, p.id, n, 1, all, &err), QN_OK);
    assert_memory_equal(all + first, score + first, (n - first) * sizeof *all);
    assert_int_equal(qn_engine_score(e, p.id, n, 0, all, &err), QN_ERR_ARGUMENT);
    assert_int_equal(qn_engine_score(e, p.id, n, n, all, &err), QN_ERR_ARGUMENT);
    qn_engine_close(e);
    qn_model_close(m);
}

static void count_call(void *ctx)
{
    atomic_fetch_add((atomic_int *)ctx, 1);
}

static void notify_is_called(void **state)
{
    (void)state;
    static answer a;
    atomic_int calls = 0;
    prompt p;
    qn_model *m = tiny_model("llama/a", QN_COMPUTE_DEFAULT, 1);
    qn_engine *e = open_engine(m, (qn_engine_options){ 0 });
    make_prompt(&p, 1);
    qn_request_options o = options(m, &p);
    o.notify = count_call;
    o.notify_ctx = &calls;
    o.max_tokens = 7;
    collect(start(e, &o), &a);
    assert_int_equal(atomic_load(&calls), 7 + 1); /* seven tokens and DONE */
    qn_engine_close(e);
    qn_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_greedy),
        cmocka_unit_test(company_changes_nothing),
        cmocka_unit_test(preemption_changes_nothing),
        cmocka_unit_test(reuse_changes_nothing),
        cmocka_unit_test(reuse_with_windows_changes_nothing),
        cmocka_unit_test(idle_leases_give_way),
        cmocka_unit_test(limits),
        cmocka_unit_test(end_token),
        cmocka_unit_test(cancel_frees_pages),
        cmocka_unit_test(engine_closes_first),
        cmocka_unit_test(slow_reader_waits_alone),
        cmocka_unit_test(too_many_wait),
        cmocka_unit_test(bad_options),
        cmocka_unit_test(scores_equal_logprobs),
        cmocka_unit_test(notify_is_called),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
