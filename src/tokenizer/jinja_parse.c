/* jinja_parse.c - the parser of statements, and the token and node helpers both parser files use.
 * Expressions are in jinja_expr.c. A failed parse keeps returning nodes; the run's error says why. */
#include <stdarg.h>
#include <stdio.h>

#include "tokenizer/jinja_ast.h"

#define MAX_TREE_DEPTH 500 /* levels of one expression; the evaluator recurses over them */

/* --- helpers --- */

void qn_jparse_fail(qn_jparser *p, int line, const char *fmt, ...)
{
    char text[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    qn_jfail(p->r, "line %d: %s", line, text);
}

qn_jnode *qn_jnode_new(qn_jparser *p, qn_jkind kind, int line)
{
    qn_jnode *n = qn_jalloc(p->r, sizeof *n);
    n->kind = (uint8_t)kind;
    n->line = line;
    n->depth = 1;
    return n;
}

void qn_jnode_adopt(qn_jparser *p, qn_jnode *parent, qn_jnode *child)
{
    if (!child || child->depth < parent->depth)
        return;
    parent->depth = (uint16_t)(child->depth + 1);
    if (parent->depth > MAX_TREE_DEPTH)
        qn_jlimit(p->r, "line %d: the template nests deeper than %d levels", parent->line,
                  MAX_TREE_DEPTH);
}

void qn_jnode_add(qn_jparser *p, qn_jnode *parent, qn_jnodes *list, qn_jnode *child)
{
    if (list->n == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 4;
        if (!qn_jroom(p->r, cap, sizeof *list->v))
            return;
        qn_jnode **v = qn_arena_alloc_n(&p->r->arena, cap, sizeof *v);
        if (list->n)
            memcpy(v, list->v, list->n * sizeof *v);
        list->v = v;
        list->cap = cap;
    }
    list->v[list->n++] = child;
    qn_jnode_adopt(p, parent, child);
}

bool qn_jat(const qn_jparser *p, qn_jtok type)
{
    return p->t->type == type;
}

bool qn_jat_name(const qn_jparser *p, const char *name)
{
    return p->t->type == QN_JT_NAME && qn_jstr_is(p->t->v.s, name);
}

const qn_jtoken *qn_jadvance(qn_jparser *p)
{
    const qn_jtoken *t = p->t;
    if (t->type != QN_JT_EOF)
        p->t++;
    return t;
}

bool qn_jskip(qn_jparser *p, qn_jtok type)
{
    bool at = qn_jat(p, type);
    if (at)
        qn_jadvance(p);
    return at;
}

bool qn_jskip_name(qn_jparser *p, const char *name)
{
    bool at = qn_jat_name(p, name);
    if (at)
        qn_jadvance(p);
    return at;
}

static const char *type_text(int type)
{
    static const char *const text[] = {
        "end of template",
        "template data / text",
        "begin of print statement",
        "end of print statement",
        "begin of statement block",
        "end of statement block",
        "name",
        "string",
        "integer",
        "float",
        "+",
        "-",
        "*",
        "/",
        "//",
        "%",
        "**",
        "~",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "==",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "=",
        ".",
        ":",
        "|",
        ",",
        ";",
    };
    return text[type];
}

const char *qn_jtoken_text(qn_jparser *p, const qn_jtoken *t)
{
    if (t->type != QN_JT_NAME)
        return type_text(t->type);
    return qn_arena_printf(&p->r->arena, "%.*s", (int)(t->v.s->n < 80 ? t->v.s->n : 80), t->v.s->p);
}

const qn_jtoken *qn_jexpect(qn_jparser *p, qn_jtok type)
{
    if (qn_jat(p, type))
        return qn_jadvance(p);
    if (qn_jat(p, QN_JT_EOF))
        qn_jparse_fail(p, p->t->line, "unexpected end of template, expected '%s'.",
                       type_text(type));
    else
        qn_jparse_fail(p, p->t->line, "expected token '%s', got '%s'", type_text(type),
                       qn_jtoken_text(p, p->t));
    return p->t;
}

static void expect_name(qn_jparser *p, const char *name)
{
    if (!qn_jskip_name(p, name))
        qn_jparse_fail(p, p->t->line, "expected token '%s', got '%s'", name,
                       qn_jtoken_text(p, p->t));
}

/* --- bodies --- */

static qn_jnode *parse_statement(qn_jparser *p);

/* Is the current token one of the words ("endfor else") that end a body? */
static bool at_any_name(const qn_jparser *p, const char *words)
{
    if (p->t->type != QN_JT_NAME)
        return false;
    const qn_jstr *s = p->t->v.s;
    for (const char *w = words; *w;) {
        size_t n = strcspn(w, " ");
        if (n == s->n && memcmp(w, s->p, n) == 0)
            return true;
        w += n + (w[n] == ' ');
    }
    return false;
}

static void add_output(qn_jparser *p, qn_jnode *parent, qn_jnodes *body, qn_jkind kind, qn_jnode *a,
                       qn_jval text)
{
    qn_jnode *n = qn_jnode_new(p, kind, p->t->line);
    n->value = text;
    if (a)
        qn_jnode_add(p, n, &n->items, a);
    qn_jnode_add(p, parent, body, n);
}

/* Statements and text up to a tag whose name is in `ends` (left as the current token), or the end of
 * the template when ends is NULL. */
static void parse_body(qn_jparser *p, qn_jnode *parent, qn_jnodes *body, const char *ends)
{
    if (!qn_jenter(p->r)) {
        qn_jleave(p->r);
        return;
    }
    while (qn_jok(p->r) && !qn_jat(p, QN_JT_EOF)) {
        const qn_jtoken *t = qn_jadvance(p);
        if (t->type == QN_JT_DATA) {
            add_output(p, parent, body, QN_JN_DATA, NULL, t->v);
        } else if (t->type == QN_JT_VAR_BEGIN) {
            add_output(p, parent, body, QN_JN_OUTPUT, qn_jparse_tuple(p, 0), qn_jmissing());
            qn_jexpect(p, QN_JT_VAR_END);
        } else {
            if (ends && at_any_name(p, ends)) {
                qn_jleave(p->r);
                return;
            }
            qn_jnode_add(p, parent, body, parse_statement(p));
            qn_jexpect(p, QN_JT_BLOCK_END);
        }
    }
    qn_jleave(p->r);
    if (ends && qn_jok(p->r))
        qn_jparse_fail(p, p->t->line,
                       "Unexpected end of template. Jinja was looking for the"
                       " following tags: '%s'.",
                       ends);
}

/* The rest of an opening tag, then its body. */
static void parse_statements(qn_jparser *p, qn_jnode *parent, qn_jnodes *body, const char *ends)
{
    qn_jskip(p, QN_JT_COLON); /* tolerated for people who write Python */
    qn_jexpect(p, QN_JT_BLOCK_END);
    parse_body(p, parent, body, ends);
}

/* As above, and the end tag's name is consumed. */
static void parse_closed(qn_jparser *p, qn_jnode *parent, qn_jnodes *body, const char *ends)
{
    parse_statements(p, parent, body, ends);
    qn_jadvance(p);
}

/* --- targets --- */

/* Names, attributes of namespaces and tuples of them can be assigned to; marks them as stores. */
static void make_target(qn_jparser *p, qn_jnode *n, qn_jctx ctx)
{
    if (n->kind == QN_JN_NAME) {
        n->ctx = (uint8_t)ctx;
    } else if (n->kind == QN_JN_TUPLE) {
        for (size_t i = 0; i < n->items.n; i++)
            make_target(p, n->items.v[i], ctx);
    } else if (n->kind != QN_JN_NSREF) {
        qn_jparse_fail(p, n->line, "can't assign to this expression");
    }
}

static qn_jnode *parse_target(qn_jparser *p, bool with_namespace, qn_jctx ctx)
{
    int flags = QN_JTUPLE_SIMPLE | (with_namespace ? QN_JTUPLE_NAMESPACE : 0);
    qn_jnode *n = qn_jparse_tuple(p, flags);
    if (qn_jok(p->r))
        make_target(p, n, ctx);
    return n;
}

static qn_jnode *name_target(qn_jparser *p, qn_jctx ctx)
{
    const qn_jtoken *t = qn_jexpect(p, QN_JT_NAME);
    qn_jnode *n = qn_jnode_new(p, QN_JN_NAME, t->line);
    n->name = t->v;
    n->ctx = (uint8_t)ctx;
    bool reserved = false;
    static const char *const words[] = { "true", "false", "none", "True", "False", "None" };
    for (int i = 0; t->type == QN_JT_NAME && i < 6; i++)
        reserved = reserved || qn_jstr_is(t->v.s, words[i]);
    if (reserved)
        qn_jparse_fail(p, t->line, "can't assign to 'name'");
    return n;
}

static qn_jnode *child(qn_jparser *p, qn_jnode *parent, qn_jnode *c)
{
    qn_jnode_adopt(p, parent, c);
    return c;
}

/* --- statements; the tag's name has been consumed --- */

static void parse_set(qn_jparser *p, qn_jnode *n)
{
    n->kind = QN_JN_SET;
    n->a = child(p, n, parse_target(p, true, QN_JX_STORE));
    if (qn_jskip(p, QN_JT_ASSIGN)) {
        n->b = child(p, n, qn_jparse_tuple(p, 0));
        return;
    }
    n->kind = QN_JN_SETBLOCK;
    n->b = child(p, n, qn_jparse_filter_chain(p, NULL, false));
    parse_closed(p, n, &n->items, "endset");
}

static void parse_for(qn_jparser *p, qn_jnode *n)
{
    n->kind = QN_JN_FOR;
    n->a = child(p, n, parse_target(p, false, QN_JX_STORE));
    expect_name(p, "in");
    n->b = child(p, n, qn_jparse_tuple(p, QN_JTUPLE_NO_COND));
    if (qn_jskip_name(p, "if"))
        n->c = child(p, n, qn_jparse_expression(p, true));
    n->flag = qn_jskip_name(p, "recursive");
    parse_statements(p, n, &n->items, "endfor else");
    if (qn_jskip_name(p, "else"))
        parse_closed(p, n, &n->rest, "endfor");
    else
        qn_jadvance(p);
}

static void parse_if(qn_jparser *p, qn_jnode *n)
{
    qn_jnode *branch = n;
    n->kind = QN_JN_IF;
    for (;;) {
        branch->a = child(p, branch, qn_jparse_tuple(p, QN_JTUPLE_NO_COND));
        parse_statements(p, branch, &branch->items, "elif else endif");
        if (branch != n)
            qn_jnode_adopt(p, n, branch);
        if (!qn_jok(p->r) || !qn_jskip_name(p, "elif"))
            break;
        branch = qn_jnode_new(p, QN_JN_IF, p->t->line);
        qn_jnode_add(p, n, &n->more, branch);
    }
    if (qn_jskip_name(p, "else"))
        parse_closed(p, n, &n->rest, "endif");
    else
        qn_jadvance(p);
}

static void parse_with(qn_jparser *p, qn_jnode *n)
{
    n->kind = QN_JN_WITH;
    while (qn_jok(p->r) && !qn_jat(p, QN_JT_BLOCK_END)) {
        if (n->more.n)
            qn_jexpect(p, QN_JT_COMMA);
        qn_jnode_add(p, n, &n->more, parse_target(p, false, QN_JX_PARAM));
        qn_jexpect(p, QN_JT_ASSIGN);
        qn_jnode_add(p, n, &n->rest, qn_jparse_expression(p, true));
    }
    parse_closed(p, n, &n->items, "endwith");
}

static void parse_autoescape(qn_jparser *p, qn_jnode *n)
{
    n->kind = QN_JN_AUTOESCAPE;
    n->a = child(p, n, qn_jparse_expression(p, true));
    parse_closed(p, n, &n->items, "endautoescape");
}

static void parse_block(qn_jparser *p, qn_jnode *n)
{
    n->kind = QN_JN_BLOCK;
    n->name = qn_jexpect(p, QN_JT_NAME)->v;
    n->flag2 = qn_jskip_name(p, "scoped");
    n->flag = qn_jskip_name(p, "required");
    parse_closed(p, n, &n->items, "endblock");
    if (qn_jok(p->r) && qn_jat(p, QN_JT_NAME) && qn_jeq(p->r, p->t->v, n->name))
        qn_jadvance(p);
}

/* include, import, from, extends: there is no loader, so running one fails; parsing must not. */
static void parse_loader(qn_jparser *p, qn_jnode *n)
{
    n->kind = QN_JN_LOADER;
    n->a = child(p, n, qn_jparse_expression(p, true));
    if (qn_jskip_name(p, "as"))
        qn_jnode_add(p, n, &n->more, name_target(p, QN_JX_STORE));
    if (!qn_jskip_name(p, "import")) {
        while (qn_jat(p, QN_JT_NAME)) /* ignore missing, with context, without context */
            qn_jadvance(p);
        return;
    }
    do {
        if ((qn_jskip_name(p, "with") || qn_jskip_name(p, "without")) &&
            qn_jskip_name(p, "context"))
            return;
        qn_jnode *target = name_target(p, QN_JX_STORE);
        if (qn_jskip_name(p, "as"))
            target = name_target(p, QN_JX_STORE);
        qn_jnode_add(p, n, &n->more, target);
        if ((qn_jskip_name(p, "with") || qn_jskip_name(p, "without")) &&
            qn_jskip_name(p, "context"))
            return;
    } while (qn_jok(p->r) && qn_jskip(p, QN_JT_COMMA));
}

/* "(a, b=1)": parameters in more, defaults (of the last ones) in rest. */
static void parse_signature(qn_jparser *p, qn_jnode *n)
{
    qn_jexpect(p, QN_JT_LPAREN);
    while (qn_jok(p->r) && !qn_jat(p, QN_JT_RPAREN)) {
        if (n->more.n)
            qn_jexpect(p, QN_JT_COMMA);
        qn_jnode *param = name_target(p, QN_JX_PARAM);
        if (qn_jskip(p, QN_JT_ASSIGN))
            qn_jnode_add(p, n, &n->rest, qn_jparse_expression(p, true));
        else if (n->rest.n)
            qn_jparse_fail(p, p->t->line, "non-default argument follows default argument");
        for (size_t i = 0; i < n->more.n && qn_jtick(p->r, 1); i++)
            if (qn_jeq(p->r, n->more.v[i]->name, param->name))
                qn_jparse_fail(p, param->line, "duplicate argument in a macro's definition");
        qn_jnode_add(p, n, &n->more, param);
    }
    qn_jexpect(p, QN_JT_RPAREN);
}

static void parse_macro(qn_jparser *p, qn_jnode *n)
{
    n->kind = QN_JN_MACRO;
    n->name = name_target(p, QN_JX_STORE)->name;
    parse_signature(p, n);
    parse_closed(p, n, &n->items, "endmacro");
}

static void parse_call_block(qn_jparser *p, qn_jnode *n)
{
    n->kind = QN_JN_CALLBLOCK;
    if (qn_jat(p, QN_JT_LPAREN))
        parse_signature(p, n);
    n->a = child(p, n, qn_jparse_expression(p, true));
    if (n->a->kind != QN_JN_CALL)
        qn_jparse_fail(p, n->line, "expected call");
    parse_closed(p, n, &n->items, "endcall");
}

static void parse_generation(qn_jparser *p, qn_jnode *n)
{
    n->kind = QN_JN_GENERATION;
    parse_closed(p, n, &n->items, "endgeneration");
}

static void parse_filter_block(qn_jparser *p, qn_jnode *n)
{
    n->kind = QN_JN_FILTERBLOCK;
    n->a = child(p, n, qn_jparse_filter_chain(p, NULL, true));
    parse_closed(p, n, &n->items, "endfilter");
}

static void parse_print(qn_jparser *p, qn_jnode *n)
{
    n->kind = QN_JN_OUTPUT;
    while (qn_jok(p->r) && !qn_jat(p, QN_JT_BLOCK_END)) {
        if (n->items.n)
            qn_jexpect(p, QN_JT_COMMA);
        qn_jnode_add(p, n, &n->items, qn_jparse_expression(p, true));
    }
}

static void parse_break(qn_jparser *p, qn_jnode *n)
{
    (void)p;
    n->kind = QN_JN_BREAK;
}

static void parse_continue(qn_jparser *p, qn_jnode *n)
{
    (void)p;
    n->kind = QN_JN_CONTINUE;
}

static const struct {
    const char *tag;
    void (*parse)(qn_jparser *p, qn_jnode *n);
} statements[] = {
    { "if", parse_if },
    { "for", parse_for },
    { "set", parse_set },
    { "macro", parse_macro },
    { "call", parse_call_block },
    { "generation", parse_generation },
    { "filter", parse_filter_block },
    { "with", parse_with },
    { "break", parse_break },
    { "continue", parse_continue },
    { "print", parse_print },
    { "block", parse_block },
    { "autoescape", parse_autoescape },
    { "include", parse_loader },
    { "import", parse_loader },
    { "from", parse_loader },
    { "extends", parse_loader },
};

static qn_jnode *parse_statement(qn_jparser *p)
{
    const qn_jtoken *t = p->t;
    qn_jnode *n = qn_jnode_new(p, QN_JN_BODY, t->line);
    if (t->type != QN_JT_NAME) {
        qn_jparse_fail(p, t->line, "tag name expected");
        return n;
    }
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (!qn_jstr_is(t->v.s, statements[i].tag))
            continue;
        qn_jadvance(p);
        statements[i].parse(p, n);
        return n;
    }
    qn_jparse_fail(p, t->line, "Encountered unknown tag '%s'.", qn_jtoken_text(p, t));
    return n;
}

qn_jnode *qn_jparse(qn_jrun *r, const qn_jtokens *tokens)
{
    qn_jparser p = { .r = r, .t = tokens->v };
    qn_jnode *root = qn_jnode_new(&p, QN_JN_BODY, 1);
    parse_body(&p, root, &root->items, NULL);
    return root;
}
