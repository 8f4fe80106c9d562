/* jinja_eval.h - the evaluator's own objects and the functions its files share.
 *
 * The scope pass turned names into (activation, slot) pairs the way the reference compiles templates to
 * Python functions: the template, each macro, call block, block, recursive loop and loop filter is a
 * function with its activation record; everything else (loops, with, set blocks) has its slots in the
 * record of the function around it. Macros keep the record they were defined in, by reference. */
#ifndef QN_TOKENIZER_JINJA_EVAL_H
#define QN_TOKENIZER_JINJA_EVAL_H

#include "tokenizer/jinja_ast.h"

typedef struct qn_jenv {
    qn_jval *slot;
    struct qn_jenv *parent;
    struct qn_jctxvars *vars; /* what names resolve to that no frame holds */
} qn_jenv;

/* Variables of the context: those set at the top level before those given to the rendering. */
typedef struct qn_jctxvars {
    qn_jdict *set;
    const qn_jdict *given;
} qn_jctxvars;

typedef struct qn_jspan {
    size_t start, end; /* code points of the output */
} qn_jspan;

typedef struct qn_jeval {
    qn_jrun *r;
    const qn_jtree *tree;
    qn_jenv *env;   /* current activation */
    qn_jsb *out;    /* current output: the text, or the buffer of a macro or block */
    qn_jsb *root;   /* the text */
    int signal;     /* 0, or the QN_JN_BREAK / QN_JN_CONTINUE under way */
    qn_jspan *span; /* generation blocks */
    size_t n_span, cap_span;
    size_t counted, counted_chars; /* of the text: how far its code points are counted */
} qn_jeval;

typedef struct qn_jmacro {
    const qn_jnode *node; /* MACRO, CALLBLOCK or GENERATION */
    qn_jenv *env;
} qn_jmacro;

typedef struct qn_jloop {
    qn_jiter *it;
    qn_jval iterable;
    int64_t index0, length; /* -1: not known yet */
    int depth0;
    qn_jval before, current, after; /* MISSING: none */
    qn_jval last_changed;
    const qn_jnode *node; /* of a recursive loop, else NULL */
    qn_jenv *env;         /* where a recursive loop was started */
} qn_jloop;

typedef struct qn_jcycler {
    qn_jlist *items;
    size_t pos;
} qn_jcycler;

typedef struct qn_jjoiner {
    qn_jval sep;
    bool used;
} qn_jjoiner;

/* jinja_eval.c */
qn_jval qn_jeval_expr(qn_jeval *e, const qn_jnode *n);
void qn_jassign(qn_jeval *e, const qn_jnode *target, qn_jval v);
qn_jval *qn_jslot(qn_jeval *e, qn_jref ref);
qn_jval qn_jresolve(qn_jeval *e, qn_jval name); /* MISSING when the context has no such name */
qn_jval qn_jeval_filter(qn_jeval *e, const qn_jnode *n, qn_jval input);
qn_jval qn_jeval_call(qn_jeval *e, const qn_jnode *n, qn_jval caller); /* caller: of a call block */

/* jinja_exec.c */
void qn_jexec_root(qn_jeval *e);
void qn_jexec_body(qn_jeval *e, const qn_jnodes *body);
void qn_jenter_frame(qn_jeval *e, const qn_jframe *f);
void qn_jleave_frame(qn_jeval *e, const qn_jframe *f);
qn_jenv *qn_jenv_new(qn_jeval *e, const qn_jframe *f, qn_jenv *parent);
qn_jval qn_jrun_block(qn_jeval *e, const qn_jnode *block);

/* jinja_loop.c */
void qn_jexec_for(qn_jeval *e, const qn_jnode *n);
qn_jval qn_jloop_call(qn_jeval *e, qn_jloop *loop, qn_jval iterable);
qn_jiter *qn_jloop_iter(qn_jrun *r, qn_jval loop); /* takes the loop's own items from it */
int64_t qn_jloop_length(qn_jrun *r, qn_jloop *loop);
bool qn_jloop_attr(qn_jrun *r, qn_jval self, const qn_jstr *name, qn_jval *out);

/* jinja_call.c */
qn_jval qn_jcall(qn_jrun *r, qn_jval f, const qn_jargs *args);
qn_jval qn_jcall_macro(qn_jeval *e, const qn_jmacro *m, const qn_jargs *args);
qn_jval qn_jmacro_new(qn_jeval *e, const qn_jnode *node);
void qn_jput_object(qn_jrun *r, qn_jsb *b, qn_jval v); /* repr of the objects above */

#endif
