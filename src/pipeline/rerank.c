/* rerank.c - how well documents answer a query, by one of two kinds of models.
 *
 * A cross-encoder reads query and document as a pair and has one output. A judge is a chat model that is asked
 * whether the document meets the query: its score is the probability of "yes" against "no" as the next token. */
#include "pipeline/rerank.h"

#include <math.h>
#include <string.h>

struct qn_reranker {
    qn_model *model;
    qn_encoder *encoder;
    bool judge, plain; /* plain: a classifier's output is the score as it is */
    int32_t no, yes;   /* -1 = the tokenizer has no such words */
};

/* What published judges of this kind were trained with. */
static const char before[] =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    "the Instruct "
    "provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n";
static const char after[] = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
static const char usual_task[] =
    "Given a web search query, retrieve relevant passages that answer the query";

/* The id of a word that is one token; -1 otherwise. */
static int32_t word(const qn_model *m, const char *text)
{
    qn_ids ids = { 0 };
    int32_t id = -1;
    if (m->tokenizer &&
        qn_tokenizer_encode(m->tokenizer, text, strlen(text), 0, &ids, NULL) == QN_OK && ids.n == 1)
        id = ids.v[0];
    qn_ids_free(&ids);
    return id;
}

/* Cross-encoders give a probability, unless their config says that the bare output is the score. */
static bool wants_plain(const qn_model *m)
{
    const qn_json *c = m->config.outer;
    const char *act = qn_json_str(qn_json_path(c, "sentence_transformers.activation_fn"), "");
    act = qn_json_str(qn_json_get(c, "sbert_ce_default_activation_function"), act);
    size_t n = strlen(act), len = strlen("Identity");
    return n >= len && strcmp(act + n - len, "Identity") == 0;
}

int qn_reranker_open(qn_reranker **out, qn_model *m, qn_error *err)
{
    *out = NULL;
    qn_reranker *r = qn_alloc(sizeof *r);
    r->model = m;
    r->judge = !qn_encoder_has(m, QN_ENCODER_SCORE);
    r->plain = wants_plain(m);
    r->no = word(m, "no");
    r->yes = word(m, "yes");
    qn_encoder_want want = r->judge ? QN_ENCODER_LOGITS : QN_ENCODER_SCORE;
    int rc;
    if (r->judge && !qn_encoder_has(m, want))
        rc = qn_fail(err, QN_ERR_UNSUPPORTED, "%s: neither a classifier nor a model that answers",
                     m->path);
    else
        rc = qn_encoder_open(&r->encoder, m, want, err);
    if (rc == QN_OK && !r->judge && qn_encoder_width(r->encoder) != 1)
        rc = qn_fail(err, QN_ERR_UNSUPPORTED, "%s: a classifier with %d labels does not rank",
                     m->path, qn_encoder_width(r->encoder));
    if (rc != QN_OK) {
        qn_reranker_close(r);
        return rc;
    }
    *out = r;
    return QN_OK;
}

void qn_reranker_close(qn_reranker *r)
{
    if (!r)
        return;
    qn_encoder_close(r->encoder);
    qn_free(r);
}

void qn_reranker_set_words(qn_reranker *r, int32_t no, int32_t yes)
{
    r->no = no;
    r->yes = yes;
}

bool qn_reranker_is_judge(const qn_reranker *r)
{
    return r->judge;
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* One text's score from its row; raw gets the numbers behind it. */
static float score_of(const qn_reranker *r, const float *row, float *raw)
{
    if (r->judge) {
        double no = row[r->no], yes = row[r->yes];
        if (raw) {
            raw[0] = row[r->no];
            raw[1] = row[r->yes];
        }
        return (float)sigmoid(yes - no);
    }
    if (raw)
        raw[0] = row[0];
    return r->plain ? row[0] : (float)sigmoid(row[0]);
}

int qn_reranker_run(qn_reranker *r, const qn_passage *p, size_t n, float *score, float *raw,
                    qn_error *err)
{
    int32_t width = qn_encoder_width(r->encoder);
    if (r->judge && (r->no < 0 || r->yes < 0 || r->no >= width || r->yes >= width))
        return qn_fail(err, QN_ERR_UNSUPPORTED, "%s: \"yes\" and \"no\" are no tokens of its own",
                       r->model->path);
    for (size_t i = 0; i < n;) {
        size_t group = qn_texts_group(p, n, i);
        const float *rows;
        int rc = qn_encoder_step(r->encoder, p + i, (int32_t)group, &rows, err);
        if (rc != QN_OK)
            return rc;
        for (size_t end = i + group; i < end; i++, rows += width)
            score[i] = score_of(r, rows, raw ? raw + i * (r->judge ? 2 : 1) : NULL);
    }
    return QN_OK;
}

/* ---- texts ---- */

static int encode(const qn_model *m, const char *s, size_t n, unsigned flags, qn_ids *out,
                  qn_error *err)
{
    return qn_tokenizer_encode(m->tokenizer, s, n, flags, out, err);
}

/* The judge's prompt for one document. Control tokens count in the frame alone: a document cannot end it. */
static int add_judged(const qn_reranker *r, const qn_rerank_query *q, size_t i, qn_texts *t,
                      qn_error *err)
{
    const qn_model *m = r->model;
    qn_buf body = { 0 };
    qn_ids ids = { 0 }, end = { 0 };
    qn_buf_printf(&body, "<Instruct>: %s\n<Query>: %s\n<Document>: %s",
                  q->task ? q->task : usual_task, q->query, q->doc[i]);
    int rc = encode(m, before, strlen(before), QN_ENCODE_PARSE, &ids, err);
    if (rc == QN_OK)
        rc = encode(m, body.data, body.len, 0, &ids, err);
    if (rc == QN_OK)
        rc = encode(m, after, strlen(after), QN_ENCODE_PARSE, &end, err);
    size_t limit = (size_t)qn_encoder_limit(r->encoder);
    if (rc == QN_OK && end.n >= limit)
        rc = qn_fail(err, QN_ERR_LIMIT, "%zu tokens have no room for a judgement", limit);
    if (rc == QN_OK && ids.n > limit - end.n)
        ids.n = limit - end.n;
    for (size_t k = 0; k < end.n && rc == QN_OK; k++)
        qn_ids_add(&ids, end.v[k]);
    if (rc == QN_OK)
        qn_texts_add_ids(t, ids.v, NULL, (int32_t)ids.n);
    qn_buf_free(&body);
    qn_ids_free(&ids);
    qn_ids_free(&end);
    return rc;
}

int qn_rerank(qn_reranker *r, const qn_rerank_query *q, float *score, qn_error *err)
{
    const qn_model *m = r->model;
    if (!m->tokenizer)
        return qn_fail(err, QN_ERR_UNSUPPORTED, "%s has no tokenizer", m->path);
    if (r->judge && qn_tokenizer_id(m->tokenizer, "<|im_start|>", strlen("<|im_start|>")) < 0)
        return qn_fail(err, QN_ERR_UNSUPPORTED, "%s: not a model that was taught to judge",
                       m->path);
    qn_texts t = { 0 };
    int rc = QN_OK;
    for (size_t i = 0; i < q->n_docs && rc == QN_OK; i++)
        rc = r->judge ? add_judged(r, q, i, &t, err)
                      : qn_texts_add_pair(&t, m->tokenizer, q->query, q->doc[i],
                                          qn_encoder_limit(r->encoder), err);
    if (rc == QN_OK)
        rc = qn_reranker_run(r, t.v, t.n, score, NULL, err);
    qn_texts_free(&t);
    return rc;
}
