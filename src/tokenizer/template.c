/* template.c - opening and rendering templates, and what transformers' apply_chat_template does around
 * the engine: absent tools are None, reasoning has two names, a final message can be left open. */
#include "tokenizer/template.h"

#include <stdio.h>
#include <time.h>

#include "base/utf8.h"
#include "tokenizer/jinja_eval.h"

#define MAX_SOURCE (4u << 20)

/* How deep evaluation may recurse: 500 nested macro calls, about 1 MiB of stack. */
#define MAX_DEPTH 2000

struct qn_template {
    qn_jtree tree;
    char *src;
    size_t n;
    char *bos, *eos;
};

/* --- opening --- */

int qn_template_open(qn_template **out, const char *src, size_t n, qn_error *err)
{
    *out = NULL;
    if (n > MAX_SOURCE)
        return qn_fail(err, QN_ERR_LIMIT, "chat template: %zu bytes, more than %u MiB", n,
                       MAX_SOURCE >> 20);
    if (qn_utf8_valid(src, n) != n)
        return qn_fail(err, QN_ERR_FORMAT, "chat template: not valid UTF-8");
    qn_template *t = qn_alloc(sizeof *t);
    qn_jrun *r = &t->tree.run;
    qn_jtokens tokens = { 0 };
    t->src = qn_strndup(src, n);
    t->n = n;
    r->limit = (qn_jlimits){ .steps = 100 * 1000 * 1000,
                             .memory = ((size_t)32 << 20) + n * 64,
                             .depth = 400 }; /* of parsing: the parser's own recursion */
    qn_jlex(r, t->src, n, &tokens);
    if (qn_jok(r))
        t->tree.root = qn_jparse(r, &tokens);
    r->limit.depth = MAX_DEPTH;
    if (qn_jok(r))
        qn_jscope(&t->tree);
    if (!qn_jok(r)) {
        int code = qn_fail(err, r->rc, "chat template: %s", r->err.msg);
        qn_template_close(t);
        return code;
    }
    *out = t;
    return QN_OK;
}

void qn_template_close(qn_template *t)
{
    if (!t)
        return;
    qn_arena_free(&t->tree.run.arena);
    qn_free(t->src);
    qn_free(t->bos);
    qn_free(t->eos);
    qn_free(t);
}

void qn_template_set_tokens(qn_template *t, const char *bos, const char *eos)
{
    qn_free(t->bos);
    qn_free(t->eos);
    t->bos = qn_strdup(bos);
    t->eos = qn_strdup(eos);
}

const char *qn_template_source(const qn_template *t, size_t *n)
{
    if (n)
        *n = t->n;
    return t->src;
}

/* --- one rendering --- */

static int parse_now(const char *s, qn_jtime *now, qn_error *err)
{
    char sep;
    int used = 0;
    if (!s) {
        time_t t = time(NULL);
        struct tm tm;
        localtime_r(&t, &tm);
        *now = (qn_jtime){ tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
                           tm.tm_hour,        tm.tm_min,     tm.tm_sec };
        return QN_OK;
    }
    int n = sscanf(s, "%4d-%2d-%2d%c%2d:%2d:%2d%n", &now->year, &now->month, &now->day, &sep,
                   &now->hour, &now->minute, &now->second, &used);
    bool ok = n == 7 && s[used] == 0 && (sep == 'T' || sep == ' ') && now->year > 0 &&
              now->month >= 1 && now->month <= 12 && now->day >= 1 && now->day <= 31 &&
              now->hour >= 0 && now->hour < 24 && now->minute >= 0 && now->minute < 60 &&
              now->second >= 0 && now->second < 61;
    return ok ? QN_OK
              : qn_fail(err, QN_ERR_ARGUMENT, "now: '%s' is not like 2026-07-15T10:20:30", s);
}

static int run_init(qn_jrun *r, const qn_template_options *opt, qn_error *err)
{
    *r = (qn_jrun){ .limit = { .steps = opt->max_steps ? opt->max_steps : 20 * 1000 * 1000,
                               .memory = opt->max_bytes ? opt->max_bytes : (size_t)256 << 20,
                               .output = opt->max_output ? opt->max_output : (size_t)64 << 20,
                               .depth = MAX_DEPTH } };
    return parse_now(opt->now, &r->now, err);
}

/* Runs the template; what it wrote (or the whole text of its failure) goes to out. */
static int run(const qn_template *t, qn_jrun *r, const qn_jdict *given, qn_rendering *out)
{
    qn_jsb text = { 0 };
    qn_jctxvars vars = { .set = qn_jdict_new(r).m, .given = given };
    qn_jenv outer = { .vars = &vars };
    qn_jeval e = { .r = r, .tree = &t->tree, .env = &outer, .out = &text, .root = &text };
    r->eval = &e;
    if (qn_jok(r))
        qn_jexec_root(&e);
    if (r->raised)
        qn_buf_add(&out->text, r->raised->p, r->raised->n);
    else if (!qn_jok(r))
        qn_buf_str(&out->text, r->err.msg);
    else
        qn_buf_add(&out->text, text.p, text.n);
    for (size_t i = 0; qn_jok(r) && i < e.n_span; i++) {
        out->span = qn_realloc_n(out->span, i + 1, sizeof *out->span);
        out->span[out->n_span++] = (qn_template_span){ e.span[i].start, e.span[i].end };
    }
    return r->rc;
}

static void rendering_clear(qn_rendering *out)
{
    qn_buf_clear(&out->text);
    qn_free(out->span);
    out->span = NULL;
    out->n_span = 0;
}

void qn_rendering_free(qn_rendering *r)
{
    rendering_clear(r);
    qn_buf_free(&r->text);
}

static int finish(qn_jrun *r, qn_rendering *out, qn_error *err)
{
    int rc = r->rc;
    if (rc != QN_OK) {
        if (out->text.len == 0)
            qn_buf_str(&out->text, r->err.msg);
        qn_fail(err, rc, "%s", r->err.msg);
    }
    qn_arena_free(&r->arena);
    return rc;
}

int qn_template_eval(const qn_template *t, const qn_json *vars, const qn_template_options *opt,
                     qn_rendering *out, qn_error *err)
{
    static const qn_template_options defaults;
    qn_jrun r;
    rendering_clear(out);
    int rc = run_init(&r, opt ? opt : &defaults, err);
    if (rc != QN_OK)
        return rc;
    qn_jval given = qn_jfrom_json(&r, vars);
    if (given.type != QN_J_DICT)
        given = qn_jdict_new(&r);
    run(t, &r, given.m, out);
    return finish(&r, out, err);
}

/* --- the conversation as templates see it --- */

static const char *const reasoning_fields[] = { "reasoning_content", "thinking", "reasoning" };

static qn_jval argument_error(qn_jrun *r, const char *why)
{
    qn_jfail(r, "%s", why);
    if (r->rc == QN_ERR_FORMAT)
        r->rc = QN_ERR_ARGUMENT;
    return qn_jnone();
}

/* Templates read a message's reasoning under several names: it gets the two that are in use. */
static qn_jval alias_reasoning(qn_jrun *r, qn_jval message)
{
    qn_jval reasoning = qn_jnone(), out;
    for (int i = 0; i < 3 && reasoning.type == QN_J_NONE; i++)
        qn_jdict_get_z(r, message.m, reasoning_fields[i], &reasoning);
    if (reasoning.type == QN_J_NONE)
        return message;
    out = qn_jdict_new(r);
    qn_jdict_set(r, out.m, qn_jstr_z(r, "thinking"), reasoning);
    qn_jdict_update(r, out.m, message.m);
    qn_jdict_set(r, out.m, qn_jstr_z(r, "reasoning_content"), reasoning);
    return out;
}

static qn_jval make_messages(qn_jrun *r, qn_jval given)
{
    qn_jval out = qn_jlist_new(r, QN_J_LIST);
    if (given.type != QN_J_LIST)
        return argument_error(r, "messages: a list is needed");
    for (size_t i = 0; i < given.l->n && qn_jok(r); i++) {
        if (given.l->v[i].type != QN_J_DICT)
            return argument_error(r, "messages: every message must be an object");
        qn_jlist_add(r, out.l, alias_reasoning(r, given.l->v[i]));
    }
    return out;
}

/* --- continue_final_message --- */

static const char tag[] = "CONTINUE_FINAL_MESSAGE_TAG ";

#define TAG_WORD (sizeof tag - 2) /* without its space */

typedef struct open_end {
    bool on;
    qn_jval text; /* what the final message says */
} open_end;

static qn_jval tagged(qn_jrun *r, qn_jval text)
{
    qn_jsb b = { 0 };
    qn_jsb_s(r, &b, text.s);
    qn_jsb_str(r, &b, tag);
    return qn_jsb_done(r, &b);
}

/* Puts the tag behind the last text block of a list of content blocks. */
static void tag_blocks(qn_jrun *r, const qn_jlist *blocks, open_end *end)
{
    for (size_t i = blocks->n; i-- > 0;) {
        qn_jval block = blocks->v[i], text;
        if (block.type != QN_J_DICT || !qn_jdict_get_z(r, block.m, "text", &text))
            continue;
        if (text.type != QN_J_STR)
            break;
        end->text = text;
        qn_jdict_set(r, block.m, qn_jstr_z(r, "text"), tagged(r, text));
        return;
    }
    argument_error(r, "continue_final_message is set but we could not find any text to continue in"
                      " the final message!");
}

static bool is_reasoning(const char *field)
{
    for (int i = 0; i < 3; i++)
        if (strcmp(field, reasoning_fields[i]) == 0)
            return true;
    return false;
}

/* Marks the end of the final message, under every name its text is copied to; the template must look
 * at one of them. */
static void tag_fields(qn_jrun *r, const qn_template *t, qn_jval message, const char *field,
                       open_end *end)
{
    const char *const one[] = { field };
    bool reasoning = is_reasoning(field), read = false;
    const char *const *names = reasoning ? reasoning_fields : one;
    qn_jval text = end->text, v;
    for (int i = 0; i < (reasoning ? 3 : 1); i++) {
        if (!qn_jdict_get_z(r, message.m, names[i], &v) || !qn_jeq(r, v, text))
            continue;
        read = read || qn_jfind(t->src, t->n, names[i], strlen(names[i]));
        if (text.type == QN_J_STR)
            qn_jdict_set(r, message.m, qn_jstr_z(r, names[i]), tagged(r, text));
    }
    if (!read)
        argument_error(r, "continue_final_message is set but its field is not an accepted field in"
                          " the chat_template");
    else if (text.type == QN_J_LIST)
        tag_blocks(r, text.l, end);
    else if (text.type != QN_J_STR)
        argument_error(r, "continue_final_message is set but the final message is no text");
}

static void leave_open(qn_jrun *r, const qn_template *t, qn_jval messages, qn_jval how,
                       open_end *end)
{
    const char *field = "content";
    if (how.type == QN_J_STR && how.s->n)
        field = qn_arena_strndup(&r->arena, how.s->p, how.s->n);
    if (messages.l->n == 0) {
        argument_error(r, "continue_final_message is set but the conversation is empty!");
        return;
    }
    end->on = true;
    qn_jval last = messages.l->v[messages.l->n - 1];
    if (!qn_jdict_get_z(r, last.m, field, &end->text) || end->text.type == QN_J_NONE)
        argument_error(r, "continue_final_message is set but the final message has no such field to"
                          " continue!");
    else
        tag_fields(r, t, last, field, end);
}

/* Cuts the rendering at the last tag. A template that trims has taken the tag's space, and then what
 * is before loses its white space too. */
static void cut_at_tag(qn_jrun *r, qn_rendering *out, const open_end *end)
{
    qn_buf *text = &out->text;
    const qn_jval s = qn_jstrip(r, end->text.s, NULL, QN_JSTRIP_LEFT | QN_JSTRIP_RIGHT);
    const char *at = NULL, *from = text->data ? text->data : "";
    bool has_text = qn_jfind(from, text->len, s.s->p, s.s->n) != NULL;
    for (const char *p = from; (p = qn_jfind(p, text->len - (size_t)(p - from), tag, TAG_WORD));
         p++)
        at = p;
    if (!has_text || !at) {
        qn_buf_clear(text);
        argument_error(r,
                       "continue_final_message is set but the final message does not appear in the"
                       " chat after applying the chat template!");
        return;
    }
    size_t n = (size_t)(at - from);
    if (n + TAG_WORD >= text->len || at[TAG_WORD] != ' ') {
        const qn_jstr kept = { .p = from, .n = (uint32_t)n };
        n = qn_jstrip(r, &kept, NULL, QN_JSTRIP_RIGHT).s->n;
    }
    text->len = n;
    text->data[n] = 0;
    const size_t chars = qn_jcount_chars(from, n);
    for (size_t i = 0; i < out->n_span; i++)
        if (out->span[i].end > chars)
            out->span[i].end = chars > out->span[i].start ? chars : out->span[i].start;
}

/* --- rendering a conversation --- */

static void set_default(qn_jrun *r, qn_jdict *d, const char *name, qn_jval v)
{
    qn_jval was;
    if (!qn_jdict_get_z(r, d, name, &was))
        qn_jdict_set(r, d, qn_jstr_z(r, name), v);
}

static qn_jdict *make_vars(qn_jrun *r, const qn_template *t, const qn_json *request, open_end *end)
{
    qn_jval vars = qn_jdict_new(r), how = qn_jnone(), messages = qn_jnone();
    for (uint32_t i = 0; i < request->n && qn_jok(r); i++) {
        const qn_json *m = &request->items[i];
        qn_jval v = qn_jfrom_json(r, m);
        if (strcmp(m->key, "messages") == 0)
            v = messages = make_messages(r, v);
        if (strcmp(m->key, "continue_final_message") == 0)
            how = v;
        else
            qn_jdict_set(r, vars.m, qn_jstr_ref(r, m->key, m->key_len), v);
    }
    set_default(r, vars.m, "tools", qn_jnone());
    set_default(r, vars.m, "documents", qn_jnone());
    set_default(r, vars.m, "add_generation_prompt", qn_jbool(!qn_jtruth(how)));
    if (t->bos)
        set_default(r, vars.m, "bos_token", qn_jstr_z(r, t->bos));
    if (t->eos)
        set_default(r, vars.m, "eos_token", qn_jstr_z(r, t->eos));
    if (qn_jok(r) && messages.type != QN_J_LIST)
        argument_error(r, "messages: a list is needed");
    if (qn_jok(r) && qn_jtruth(how))
        leave_open(r, t, messages, how, end);
    return vars.m;
}

int qn_template_render(const qn_template *t, const qn_json *request, const qn_template_options *opt,
                       qn_rendering *out, qn_error *err)
{
    static const qn_template_options defaults;
    qn_jrun r;
    open_end end = { 0 };
    opt = opt ? opt : &defaults;
    rendering_clear(out);
    if (!qn_json_is(request, QN_JSON_OBJECT)) {
        qn_buf_str(&out->text, "a request must be an object");
        return qn_fail(err, QN_ERR_ARGUMENT, "a request must be an object");
    }
    int rc = run_init(&r, opt, err);
    if (rc != QN_OK)
        return rc;
    const qn_jdict *vars = make_vars(&r, t, request, &end);
    run(t, &r, vars, out);
    if (qn_jok(&r) && end.on)
        cut_at_tag(&r, out, &end);
    return finish(&r, out, err);
}
