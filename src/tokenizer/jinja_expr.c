/* jinja_expr.c - the parser of expressions: precedence as Jinja has it (filters bind tighter than
 * unary minus' operand ends, tests like filters, `~` between plus and times). */
#include "tokenizer/jinja_ast.h"

static qn_jnode *parse_or(qn_jparser *p);
static qn_jnode *parse_unary(qn_jparser *p, bool with_filter);

static qn_jnode *leaf(qn_jparser *p, qn_jval v, int line)
{
    qn_jnode *n = qn_jnode_new(p, QN_JN_CONST, line);
    n->value = v;
    return n;
}

static qn_jnode *pair(qn_jparser *p, qn_jkind kind, qn_jnode *a, qn_jnode *b)
{
    qn_jnode *n = qn_jnode_new(p, kind, a->line);
    n->a = a;
    n->b = b;
    qn_jnode_adopt(p, n, a);
    qn_jnode_adopt(p, n, b);
    return n;
}

/* --- operators, loosest first --- */

static qn_jnode *parse_cond(qn_jparser *p)
{
    qn_jnode *then = parse_or(p);
    while (qn_jskip_name(p, "if")) {
        qn_jnode *n = pair(p, QN_JN_COND, parse_or(p), then);
        if (qn_jskip_name(p, "else")) {
            n->c = qn_jparse_expression(p, true);
            qn_jnode_adopt(p, n, n->c);
        }
        then = n;
    }
    return then;
}

qn_jnode *qn_jparse_expression(qn_jparser *p, bool with_cond)
{
    /* Every way to nest comes through here or through parse_unary, so this bounds the C stack. */
    if (!qn_jenter(p->r)) {
        qn_jleave(p->r);
        return leaf(p, qn_jnone(), p->t->line);
    }
    qn_jnode *n = with_cond ? parse_cond(p) : parse_or(p);
    qn_jleave(p->r);
    return n;
}

static qn_jkind compare_op(qn_jparser *p, int *op)
{
    *op = p->t->type;
    return *op >= QN_JT_EQ && *op <= QN_JT_GE ? QN_JN_OPERAND : QN_JN_CONST;
}

static qn_jnode *parse_mul(qn_jparser *p)
{
    static const int8_t op_of[] = { [QN_JT_MUL] = QN_JOP_MUL + 1,
                                    [QN_JT_DIV] = QN_JOP_DIV + 1,
                                    [QN_JT_FLOORDIV] = QN_JOP_FLOORDIV + 1,
                                    [QN_JT_MOD] = QN_JOP_MOD + 1,
                                    [QN_JT_POW] = 0 };
    qn_jnode *left = parse_unary(p, true);
    while (qn_jok(p->r) && qn_jskip(p, QN_JT_POW)) { /* groups to the left, unlike Python's */
        left = pair(p, QN_JN_BINARY, left, parse_unary(p, true));
        left->op = QN_JOP_POW;
    }
    while (qn_jok(p->r) && p->t->type < sizeof op_of && op_of[p->t->type]) {
        int op = op_of[qn_jadvance(p)->type] - 1;
        qn_jnode *right = parse_unary(p, true);
        while (qn_jok(p->r) && qn_jskip(p, QN_JT_POW)) {
            right = pair(p, QN_JN_BINARY, right, parse_unary(p, true));
            right->op = QN_JOP_POW;
        }
        left = pair(p, QN_JN_BINARY, left, right);
        left->op = (uint8_t)op;
    }
    return left;
}

static qn_jnode *parse_concat(qn_jparser *p)
{
    qn_jnode *first = parse_mul(p);
    if (!qn_jat(p, QN_JT_TILDE))
        return first;
    qn_jnode *n = qn_jnode_new(p, QN_JN_CONCAT, first->line);
    qn_jnode_add(p, n, &n->items, first);
    while (qn_jok(p->r) && qn_jskip(p, QN_JT_TILDE))
        qn_jnode_add(p, n, &n->items, parse_mul(p));
    return n;
}

static qn_jnode *parse_add(qn_jparser *p)
{
    qn_jnode *left = parse_concat(p);
    while (qn_jok(p->r) && (qn_jat(p, QN_JT_ADD) || qn_jat(p, QN_JT_SUB))) {
        int op = qn_jadvance(p)->type == QN_JT_ADD ? QN_JOP_ADD : QN_JOP_SUB;
        left = pair(p, QN_JN_BINARY, left, parse_concat(p));
        left->op = (uint8_t)op;
    }
    return left;
}

#define OP_IN     100
#define OP_NOT_IN 101

static qn_jnode *parse_compare(qn_jparser *p)
{
    qn_jnode *first = parse_add(p), *n = NULL;
    while (qn_jok(p->r)) {
        int op;
        if (compare_op(p, &op) == QN_JN_OPERAND) {
            qn_jadvance(p);
        } else if (qn_jskip_name(p, "in")) {
            op = OP_IN;
        } else if (qn_jat_name(p, "not") && p->t[1].type == QN_JT_NAME &&
                   qn_jstr_is(p->t[1].v.s, "in")) {
            qn_jadvance(p);
            qn_jadvance(p);
            op = OP_NOT_IN;
        } else {
            break;
        }
        if (!n) {
            n = qn_jnode_new(p, QN_JN_COMPARE, first->line);
            n->a = first;
            qn_jnode_adopt(p, n, first);
        }
        qn_jnode *o = qn_jnode_new(p, QN_JN_OPERAND, p->t->line);
        o->op = (uint8_t)op;
        o->a = parse_add(p);
        qn_jnode_adopt(p, o, o->a);
        qn_jnode_add(p, n, &n->items, o);
    }
    return n ? n : first;
}

static qn_jnode *parse_not(qn_jparser *p)
{
    int count = 0, line = p->t->line;
    while (qn_jskip_name(p, "not"))
        count++;
    qn_jnode *n = parse_compare(p);
    for (; count > 0 && qn_jok(p->r); count--) {
        qn_jnode *outer = qn_jnode_new(p, QN_JN_NOT, line);
        outer->a = n;
        qn_jnode_adopt(p, outer, n);
        n = outer;
    }
    return n;
}

static qn_jnode *parse_and(qn_jparser *p)
{
    qn_jnode *left = parse_not(p);
    while (qn_jok(p->r) && qn_jskip_name(p, "and"))
        left = pair(p, QN_JN_AND, left, parse_not(p));
    return left;
}

static qn_jnode *parse_or(qn_jparser *p)
{
    qn_jnode *left = parse_and(p);
    while (qn_jok(p->r) && qn_jskip_name(p, "or"))
        left = pair(p, QN_JN_OR, left, parse_and(p));
    return left;
}

/* --- calls --- */

static void parse_keyword(qn_jparser *p, qn_jnode *call)
{
    const qn_jtoken *name = qn_jadvance(p);
    qn_jadvance(p); /* = */
    qn_jnode *kw = qn_jnode_new(p, QN_JN_KEYWORD, name->line);
    kw->name = name->v;
    kw->a = qn_jparse_expression(p, true);
    qn_jnode_adopt(p, kw, kw->a);
    for (size_t i = 0; i < call->more.n && qn_jtick(p->r, 1); i++)
        if (qn_jeq(p->r, call->more.v[i]->name, kw->name))
            qn_jparse_fail(p, name->line, "keyword argument repeated: %s", qn_jtoken_text(p, name));
    qn_jnode_add(p, call, &call->more, kw);
}

/* "(a, b, *c, d=e, **f)" into the node's argument fields. */
static void parse_args(qn_jparser *p, qn_jnode *call)
{
    int line = qn_jexpect(p, QN_JT_LPAREN)->line;
    for (bool first = true; qn_jok(p->r) && !qn_jat(p, QN_JT_RPAREN); first = false) {
        if (!first)
            qn_jexpect(p, QN_JT_COMMA);
        if (!first && qn_jat(p, QN_JT_RPAREN))
            break;
        bool ok = true;
        if (qn_jskip(p, QN_JT_MUL)) {
            ok = !call->b && !call->c;
            call->b = qn_jparse_expression(p, true);
            qn_jnode_adopt(p, call, call->b);
        } else if (qn_jskip(p, QN_JT_POW)) {
            ok = !call->c;
            call->c = qn_jparse_expression(p, true);
            qn_jnode_adopt(p, call, call->c);
        } else if (qn_jat(p, QN_JT_NAME) && p->t[1].type == QN_JT_ASSIGN) {
            ok = !call->c;
            parse_keyword(p, call);
        } else {
            ok = !call->b && !call->c && call->more.n == 0;
            qn_jnode_add(p, call, &call->items, qn_jparse_expression(p, true));
        }
        if (!ok)
            qn_jparse_fail(p, line, "invalid syntax for function call expression");
    }
    qn_jexpect(p, QN_JT_RPAREN);
}

static qn_jnode *parse_call(qn_jparser *p, qn_jnode *f)
{
    qn_jnode *n = qn_jnode_new(p, QN_JN_CALL, p->t->line);
    n->a = f;
    qn_jnode_adopt(p, n, f);
    parse_args(p, n);
    return n;
}

/* "name.part.part" of a filter or test. */
static qn_jval dotted_name(qn_jparser *p)
{
    qn_jval name = qn_jexpect(p, QN_JT_NAME)->v;
    if (!qn_jat(p, QN_JT_DOT) || !qn_jok(p->r))
        return name;
    qn_jsb b = { 0 };
    qn_jsb_s(p->r, &b, name.s);
    while (qn_jok(p->r) && qn_jskip(p, QN_JT_DOT)) {
        qn_jval part = qn_jexpect(p, QN_JT_NAME)->v;
        qn_jsb_str(p->r, &b, ".");
        if (qn_jok(p->r))
            qn_jsb_s(p->r, &b, part.s);
    }
    return qn_jsb_done(p->r, &b);
}

qn_jnode *qn_jparse_filter_chain(qn_jparser *p, qn_jnode *node, bool start_inline)
{
    while (qn_jok(p->r) && (start_inline || qn_jat(p, QN_JT_PIPE))) {
        if (!start_inline)
            qn_jadvance(p);
        start_inline = false;
        qn_jnode *n = qn_jnode_new(p, QN_JN_FILTER, p->t->line);
        n->name = dotted_name(p);
        n->a = node;
        qn_jnode_adopt(p, n, node);
        if (qn_jat(p, QN_JT_LPAREN))
            parse_args(p, n);
        node = n;
    }
    return node;
}

static qn_jnode *parse_postfix(qn_jparser *p, qn_jnode *node);

static qn_jnode *parse_test(qn_jparser *p, qn_jnode *node)
{
    int line = qn_jadvance(p)->line;
    bool negated = qn_jskip_name(p, "not");
    qn_jnode *n = qn_jnode_new(p, QN_JN_TEST, line);
    n->name = dotted_name(p);
    n->a = node;
    qn_jnode_adopt(p, n, node);
    int t = p->t->type;
    bool bare = t == QN_JT_NAME || t == QN_JT_STRING || t == QN_JT_INT || t == QN_JT_FLOAT ||
                t == QN_JT_LBRACKET || t == QN_JT_LBRACE;
    if (t == QN_JT_LPAREN) {
        parse_args(p, n);
    } else if (bare && !qn_jat_name(p, "else") && !qn_jat_name(p, "or") && !qn_jat_name(p, "and")) {
        if (qn_jat_name(p, "is"))
            qn_jparse_fail(p, p->t->line, "You cannot chain multiple tests with is");
        qn_jnode_add(p, n, &n->items, parse_postfix(p, qn_jparse_primary(p, false)));
    }
    if (!negated)
        return n;
    qn_jnode *outer = qn_jnode_new(p, QN_JN_NOT, line);
    outer->a = n;
    qn_jnode_adopt(p, outer, n);
    return outer;
}

/* --- subscripts --- */

static qn_jnode *slice_part(qn_jparser *p)
{
    bool absent = qn_jat(p, QN_JT_COLON) || qn_jat(p, QN_JT_RBRACKET) || qn_jat(p, QN_JT_COMMA);
    return absent ? NULL : qn_jparse_expression(p, true);
}

static qn_jnode *parse_subscript_arg(qn_jparser *p)
{
    qn_jnode *first = qn_jat(p, QN_JT_COLON) ? NULL : qn_jparse_expression(p, true);
    if (first && !qn_jat(p, QN_JT_COLON))
        return first;
    qn_jadvance(p);
    qn_jnode *n = qn_jnode_new(p, QN_JN_SLICE, p->t->line);
    n->a = first;
    n->b = slice_part(p);
    if (qn_jskip(p, QN_JT_COLON))
        n->c = slice_part(p);
    qn_jnode_adopt(p, n, n->a);
    qn_jnode_adopt(p, n, n->b);
    qn_jnode_adopt(p, n, n->c);
    return n;
}

static qn_jnode *parse_subscript(qn_jparser *p, qn_jnode *node)
{
    const qn_jtoken *t = qn_jadvance(p);
    if (t->type == QN_JT_DOT) {
        const qn_jtoken *attr = qn_jadvance(p);
        if (attr->type == QN_JT_NAME) {
            qn_jnode *n = qn_jnode_new(p, QN_JN_GETATTR, t->line);
            n->a = node;
            n->name = attr->v;
            qn_jnode_adopt(p, n, node);
            return n;
        }
        if (attr->type != QN_JT_INT)
            qn_jparse_fail(p, attr->line, "expected name or number");
        return pair(p, QN_JN_GETITEM, node, leaf(p, attr->v, attr->line));
    }
    qn_jnode *tuple = qn_jnode_new(p, QN_JN_TUPLE, t->line);
    while (qn_jok(p->r) && !qn_jat(p, QN_JT_RBRACKET)) {
        if (tuple->items.n)
            qn_jexpect(p, QN_JT_COMMA);
        qn_jnode_add(p, tuple, &tuple->items, parse_subscript_arg(p));
    }
    qn_jexpect(p, QN_JT_RBRACKET);
    return pair(p, QN_JN_GETITEM, node, tuple->items.n == 1 ? tuple->items.v[0] : tuple);
}

static qn_jnode *parse_postfix(qn_jparser *p, qn_jnode *node)
{
    while (qn_jok(p->r)) {
        if (qn_jat(p, QN_JT_DOT) || qn_jat(p, QN_JT_LBRACKET))
            node = parse_subscript(p, node);
        else if (qn_jat(p, QN_JT_LPAREN))
            node = parse_call(p, node);
        else
            break;
    }
    return node;
}

static qn_jnode *parse_unary(qn_jparser *p, bool with_filter)
{
    qn_jnode *node;
    int t = p->t->type, line = p->t->line;
    if (!qn_jenter(p->r)) {
        qn_jleave(p->r);
        return leaf(p, qn_jnone(), line);
    }
    if (t == QN_JT_SUB || t == QN_JT_ADD) {
        qn_jadvance(p);
        node = qn_jnode_new(p, t == QN_JT_SUB ? QN_JN_NEG : QN_JN_POS, line);
        node->a = parse_unary(p, false);
        qn_jnode_adopt(p, node, node->a);
    } else {
        node = qn_jparse_primary(p, false);
    }
    node = parse_postfix(p, node);
    while (with_filter && qn_jok(p->r)) {
        if (qn_jat(p, QN_JT_PIPE))
            node = qn_jparse_filter_chain(p, node, false);
        else if (qn_jat_name(p, "is"))
            node = parse_test(p, node);
        else if (qn_jat(p, QN_JT_LPAREN))
            node = parse_call(p, node);
        else
            break;
    }
    qn_jleave(p->r);
    return node;
}

/* --- literals and names --- */

static qn_jnode *parse_name(qn_jparser *p, const qn_jtoken *t, bool with_namespace)
{
    const qn_jstr *s = t->v.s;
    if (qn_jstr_is(s, "true") || qn_jstr_is(s, "True"))
        return leaf(p, qn_jbool(true), t->line);
    if (qn_jstr_is(s, "false") || qn_jstr_is(s, "False"))
        return leaf(p, qn_jbool(false), t->line);
    if (qn_jstr_is(s, "none") || qn_jstr_is(s, "None"))
        return leaf(p, qn_jnone(), t->line);
    bool ns = with_namespace && qn_jskip(p, QN_JT_DOT);
    qn_jnode *n = qn_jnode_new(p, ns ? QN_JN_NSREF : QN_JN_NAME, t->line);
    n->name = t->v;
    if (ns)
        n->value = qn_jexpect(p, QN_JT_NAME)->v;
    return n;
}

static qn_jnode *parse_strings(qn_jparser *p, const qn_jtoken *first)
{
    if (!qn_jat(p, QN_JT_STRING))
        return leaf(p, first->v, first->line);
    qn_jsb b = { 0 }; /* neighbours join */
    qn_jsb_s(p->r, &b, first->v.s);
    while (qn_jok(p->r) && qn_jat(p, QN_JT_STRING))
        qn_jsb_s(p->r, &b, qn_jadvance(p)->v.s);
    return leaf(p, qn_jsb_done(p->r, &b), first->line);
}

static qn_jnode *parse_list(qn_jparser *p, int line)
{
    qn_jnode *n = qn_jnode_new(p, QN_JN_LIST, line);
    while (qn_jok(p->r) && !qn_jat(p, QN_JT_RBRACKET)) {
        if (n->items.n)
            qn_jexpect(p, QN_JT_COMMA);
        if (qn_jat(p, QN_JT_RBRACKET))
            break;
        qn_jnode_add(p, n, &n->items, qn_jparse_expression(p, true));
    }
    qn_jexpect(p, QN_JT_RBRACKET);
    return n;
}

static qn_jnode *parse_dict(qn_jparser *p, int line)
{
    qn_jnode *n = qn_jnode_new(p, QN_JN_DICT, line);
    while (qn_jok(p->r) && !qn_jat(p, QN_JT_RBRACE)) {
        if (n->items.n)
            qn_jexpect(p, QN_JT_COMMA);
        if (qn_jat(p, QN_JT_RBRACE))
            break;
        qn_jnode_add(p, n, &n->items, qn_jparse_expression(p, true));
        qn_jexpect(p, QN_JT_COLON);
        qn_jnode_add(p, n, &n->items, qn_jparse_expression(p, true));
    }
    qn_jexpect(p, QN_JT_RBRACE);
    return n;
}

qn_jnode *qn_jparse_primary(qn_jparser *p, bool with_namespace)
{
    const qn_jtoken *t = p->t;
    switch ((qn_jtok)t->type) {
    case QN_JT_NAME:
        qn_jadvance(p);
        return parse_name(p, t, with_namespace);
    case QN_JT_STRING:
        qn_jadvance(p);
        return parse_strings(p, t);
    case QN_JT_INT:
    case QN_JT_FLOAT:
        qn_jadvance(p);
        return leaf(p, t->v, t->line);
    case QN_JT_LPAREN: {
        qn_jadvance(p);
        qn_jnode *n = qn_jparse_tuple(p, QN_JTUPLE_PARENS);
        qn_jexpect(p, QN_JT_RPAREN);
        return n;
    }
    case QN_JT_LBRACKET:
        qn_jadvance(p);
        return parse_list(p, t->line);
    case QN_JT_LBRACE:
        qn_jadvance(p);
        return parse_dict(p, t->line);
    default:
        qn_jparse_fail(p, t->line, "unexpected '%s'", qn_jtoken_text(p, t));
        return leaf(p, qn_jnone(), t->line);
    }
}

static bool at_tuple_end(const qn_jparser *p)
{
    return qn_jat(p, QN_JT_VAR_END) || qn_jat(p, QN_JT_BLOCK_END) || qn_jat(p, QN_JT_RPAREN);
}

qn_jnode *qn_jparse_tuple(qn_jparser *p, int flags)
{
    qn_jnode *n = qn_jnode_new(p, QN_JN_TUPLE, p->t->line);
    bool is_tuple = false;
    while (qn_jok(p->r)) {
        if (n->items.n)
            qn_jexpect(p, QN_JT_COMMA);
        if (at_tuple_end(p))
            break;
        if (flags & QN_JTUPLE_SIMPLE) {
            if (qn_jenter(p->r)) /* targets nest in parentheses without passing an expression */
                qn_jnode_add(p, n, &n->items,
                             qn_jparse_primary(p, (flags & QN_JTUPLE_NAMESPACE) != 0));
            qn_jleave(p->r);
        } else {
            qn_jnode_add(p, n, &n->items, qn_jparse_expression(p, !(flags & QN_JTUPLE_NO_COND)));
        }
        if (!qn_jat(p, QN_JT_COMMA))
            break;
        is_tuple = true;
    }
    if (!is_tuple && n->items.n)
        return n->items.v[0];
    if (!is_tuple && !(flags & QN_JTUPLE_PARENS))
        qn_jparse_fail(p, p->t->line, "Expected an expression, got '%s'", qn_jtoken_text(p, p->t));
    return n;
}
