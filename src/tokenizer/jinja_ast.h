/* jinja_ast.h - tokens and the syntax tree of a template, and the passes that make it:
 * lexer (text to tokens), parser (tokens to tree), scope pass (names to slots).
 *
 * The tree is read-only after the scope pass, so any number of threads may render it. */
#ifndef QN_TOKENIZER_JINJA_AST_H
#define QN_TOKENIZER_JINJA_AST_H

#include "tokenizer/jinja_value.h"

typedef enum qn_jtok {
    QN_JT_EOF,
    QN_JT_DATA,
    QN_JT_VAR_BEGIN,
    QN_JT_VAR_END,
    QN_JT_BLOCK_BEGIN,
    QN_JT_BLOCK_END,
    QN_JT_NAME,
    QN_JT_STRING,
    QN_JT_INT,
    QN_JT_FLOAT,
    QN_JT_ADD,
    QN_JT_SUB,
    QN_JT_MUL,
    QN_JT_DIV,
    QN_JT_FLOORDIV,
    QN_JT_MOD,
    QN_JT_POW,
    QN_JT_TILDE,
    QN_JT_LPAREN,
    QN_JT_RPAREN,
    QN_JT_LBRACKET,
    QN_JT_RBRACKET,
    QN_JT_LBRACE,
    QN_JT_RBRACE,
    QN_JT_EQ,
    QN_JT_NE,
    QN_JT_LT,
    QN_JT_LE,
    QN_JT_GT,
    QN_JT_GE,
    QN_JT_ASSIGN,
    QN_JT_DOT,
    QN_JT_COLON,
    QN_JT_PIPE,
    QN_JT_COMMA,
    QN_JT_SEMICOLON,
} qn_jtok;

typedef struct qn_jtoken {
    uint8_t type;
    int line;
    qn_jval v; /* text of data, names and strings; value of numbers */
} qn_jtoken;

typedef struct qn_jtokens {
    qn_jtoken *v; /* ends with QN_JT_EOF */
    size_t n, cap;
} qn_jtokens;

typedef enum qn_jkind {
    /* expressions */
    QN_JN_CONST,
    QN_JN_NAME,
    QN_JN_NSREF, /* name, value = the attribute */
    QN_JN_TUPLE,
    QN_JN_LIST,
    QN_JN_DICT, /* items: key, value, key, value ... */
    QN_JN_GETATTR,
    QN_JN_GETITEM,
    QN_JN_SLICE,
    QN_JN_CALL,   /* a(items, more (KEYWORD), *b, **c) */
    QN_JN_FILTER, /* a | name(...); a is NULL for the text of a block */
    QN_JN_TEST,
    QN_JN_KEYWORD,
    QN_JN_NOT,
    QN_JN_NEG,
    QN_JN_POS,
    QN_JN_BINARY,
    QN_JN_AND,
    QN_JN_OR,
    QN_JN_CONCAT,
    QN_JN_COMPARE, /* a, then items of OPERAND */
    QN_JN_OPERAND,
    QN_JN_COND, /* b if a else c */
    /* statements */
    QN_JN_OUTPUT,
    QN_JN_DATA,
    QN_JN_IF,          /* a, items; more = IF nodes of elif; rest = else */
    QN_JN_FOR,         /* a in b if c: items; rest = else */
    QN_JN_SET,         /* a = b */
    QN_JN_SETBLOCK,    /* a, filter b, items */
    QN_JN_MACRO,       /* name, more = parameters, rest = defaults, items */
    QN_JN_CALLBLOCK,   /* a = the call; else as MACRO */
    QN_JN_GENERATION,  /* items; scopes like a call block */
    QN_JN_FILTERBLOCK, /* a, items */
    QN_JN_WITH,        /* more = targets, rest = values, items */
    QN_JN_AUTOESCAPE,  /* a, items */
    QN_JN_BLOCK,       /* name, items */
    QN_JN_LOADER,      /* include, extends, import: a; more = names bound */
    QN_JN_BREAK,
    QN_JN_CONTINUE,
    QN_JN_BODY, /* items; the whole template */
} qn_jkind;

typedef struct qn_jnode qn_jnode;

typedef struct qn_jnodes {
    qn_jnode **v;
    size_t n, cap;
} qn_jnodes;

typedef enum qn_jctx { QN_JX_LOAD, QN_JX_STORE, QN_JX_PARAM } qn_jctx;

/* Where a variable lives: `up` activations out, at `slot`. */
typedef struct qn_jref {
    uint16_t up;
    uint16_t slot;
} qn_jref;

typedef enum qn_jload_kind {
    QN_JL_PARAM,
    QN_JL_RESOLVE,
    QN_JL_ALIAS,
    QN_JL_UNDEFINED
} qn_jload_kind;

typedef struct qn_jload { /* how one variable of a frame gets its value when the frame is entered */
    uint8_t kind;
    qn_jref to, from;
    qn_jval name;
} qn_jload;

/* What entering a scope does. A scope that is a function of its own has n_slots > 0. */
typedef struct qn_jframe {
    qn_jload *load;
    size_t n_load;
    uint16_t n_slots;
    qn_jref caller, kwargs, varargs, loop; /* slot UINT16_MAX: not wanted */
} qn_jframe;

struct qn_jnode {
    uint8_t kind, op, ctx;
    bool flag;  /* FOR: recursive; BLOCK: required; CALL in a call block */
    bool flag2; /* FOR: the body looks at `loop`; BLOCK: scoped; SET: at the top level */
    uint16_t depth;
    int line;
    qn_jval name, value;
    qn_jref ref;
    const qn_jbuiltin *fn;
    qn_jnode *a, *b, *c;
    qn_jnodes items, more, rest;
    qn_jframe *frame, *frame2, *frame3; /* body; for: test, else */
};

typedef struct qn_jtree {
    qn_jrun run; /* owns the nodes; its error is the syntax error */
    qn_jnode *root;
    qn_jnodes blocks;
} qn_jtree;

/* `src` must be valid UTF-8 and outlive the tokens. */
void qn_jlex(qn_jrun *r, const char *src, size_t n, qn_jtokens *out);

/* Parser, shared by its two files. */
typedef struct qn_jparser {
    qn_jrun *r;
    const qn_jtoken *t; /* current */
    int depth;
} qn_jparser;

qn_jnode *qn_jparse(qn_jrun *r, const qn_jtokens *tokens);
qn_jnode *qn_jnode_new(qn_jparser *p, qn_jkind kind, int line);
void qn_jnode_add(qn_jparser *p, qn_jnode *parent, qn_jnodes *list, qn_jnode *child);
void qn_jnode_adopt(qn_jparser *p, qn_jnode *parent, qn_jnode *child); /* depth bookkeeping */
void qn_jparse_fail(qn_jparser *p, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
bool qn_jat(const qn_jparser *p, qn_jtok type);
bool qn_jat_name(const qn_jparser *p, const char *name);
bool qn_jskip(qn_jparser *p, qn_jtok type);
bool qn_jskip_name(qn_jparser *p, const char *name);
const qn_jtoken *qn_jexpect(qn_jparser *p, qn_jtok type);
const qn_jtoken *qn_jadvance(qn_jparser *p); /* gives the token left behind */
const char *qn_jtoken_text(qn_jparser *p, const qn_jtoken *t);

qn_jnode *qn_jparse_expression(qn_jparser *p, bool with_cond);
#define QN_JTUPLE_NO_COND   1
#define QN_JTUPLE_PARENS    2
#define QN_JTUPLE_SIMPLE    4 /* names and literals only */
#define QN_JTUPLE_NAMESPACE 8 /* ns.attr may stand there */
qn_jnode *qn_jparse_tuple(qn_jparser *p, int flags);
qn_jnode *qn_jparse_primary(qn_jparser *p, bool with_namespace);
qn_jnode *qn_jparse_filter_chain(qn_jparser *p, qn_jnode *node, bool start_inline);

/* Binds names to slots and checks what the reference checks when it compiles. */
void qn_jscope(qn_jtree *t);

#endif
