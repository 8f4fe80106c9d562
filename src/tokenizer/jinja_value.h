/* jinja_value.h - the values a template computes with, and the run they live in.
 *
 * A rendering (qn_jrun) owns one arena; every value lives there and nothing is freed singly. Failure is
 * sticky: the first error is kept in the run, every later call does nothing harmful and gives a dull
 * value, so evaluation code reads straight on and loops ask qn_jtick() whether to go on. All growth
 * passes through the builders here (strings, lists, dicts), which honour the memory limit.
 *
 * Strings are UTF-8 with their length in code points beside, because templates index characters. */
#ifndef QN_TOKENIZER_JINJA_VALUE_H
#define QN_TOKENIZER_JINJA_VALUE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/mem.h"

typedef enum qn_jtype {
    QN_J_MISSING, /* no value at all: an unset variable, an absent argument; never seen by templates */
    QN_J_UNDEF,
    QN_J_NONE,
    QN_J_BOOL,
    QN_J_INT,
    QN_J_FLOAT,
    QN_J_STR,
    QN_J_LIST,
    QN_J_TUPLE,
    QN_J_DICT,
    QN_J_RANGE,
    QN_J_VIEW,
    QN_J_ITER,
    QN_J_NAMESPACE,
    QN_J_FUNC,
    QN_J_METHOD,
    QN_J_MACRO,
    QN_J_LOOP,
    QN_J_CYCLER,
    QN_J_JOINER,
    QN_J_SELF,
    QN_J_BLOCK,
} qn_jtype;

typedef struct qn_jrun qn_jrun;
typedef struct qn_jval qn_jval;

typedef struct qn_jstr {
    const char *p;
    uint32_t n;     /* bytes */
    uint32_t chars; /* code points; equal to n exactly when the text is ASCII */
    bool markup;    /* came from an escaping filter: `+` and `%` escape what they add */
} qn_jstr;

typedef struct qn_jlist { /* list and tuple */
    qn_jval *v;
    size_t n, cap;
    bool group; /* a tuple made by groupby, with names for its two members */
} qn_jlist;

typedef struct qn_jdict qn_jdict;

typedef struct qn_jrange {
    int64_t start, stop, step, n;
} qn_jrange;

typedef enum qn_jview_kind { QN_J_KEYS, QN_J_VALUES, QN_J_ITEMS } qn_jview_kind;

typedef struct qn_jiter qn_jiter;
typedef struct qn_jundef qn_jundef;
typedef struct qn_jbuiltin qn_jbuiltin;

struct qn_jval {
    uint8_t type;
    uint8_t kind; /* of a view */
    union {
        bool b;
        int64_t i;
        double d;
        const qn_jstr *s;
        qn_jlist *l;
        qn_jdict *m; /* dict, view, namespace */
        const qn_jrange *r;
        qn_jiter *it;
        const qn_jundef *u;
        const qn_jbuiltin *fn;
        void *p; /* objects of the evaluator */
    };
};

typedef struct qn_jentry {
    qn_jval key, val;
    uint64_t hash;
} qn_jentry;

struct qn_jdict { /* insertion order; members are never removed */
    qn_jentry *v;
    size_t n, cap;
    uint32_t *index; /* open addressing, position + 1; NULL while the dict is small */
    size_t n_index;
};

struct qn_jundef {
    const qn_jstr *hint; /* the whole message, or NULL */
    qn_jval obj;         /* what was looked into; MISSING for a plain variable */
    qn_jval name;
};

/* A lazy sequence, as Python's generators are: nothing happens before the first next. */
struct qn_jiter {
    bool (*next)(qn_jrun *r, qn_jiter *it, qn_jval *out);
    const char *type_name;
    qn_jval src;
    qn_jiter *inner;
    size_t i, n;
    int64_t k;
    bool started;
    void *state;
};

/* Arguments of a call. */
typedef struct qn_jargs {
    const qn_jval *v;
    size_t n;
    const qn_jdict *kw; /* NULL for none */
} qn_jargs;

/* A filter, test, method or global. `params` names the arguments ("width first blank"); the binder
 * hands them over in order, MISSING where absent. A leading '/' makes them positional only. With
 * params NULL the function reads the raw arguments itself and `a` is NULL. */
struct qn_jbuiltin {
    const char *name;
    qn_jval (*fn)(qn_jrun *r, qn_jval self, const qn_jval *a, const qn_jargs *raw);
    const char *params;
    uint8_t n_required;
};

#define QN_J_MAX_PARAMS 8

/* A bound method. */
typedef struct qn_jmethod {
    qn_jval self;
    const qn_jbuiltin *fn;
} qn_jmethod;

typedef struct qn_jlimits {
    uint64_t steps;
    size_t memory, output;
    int depth;
} qn_jlimits;

typedef struct qn_jtime {
    int year, month, day, hour, minute, second;
} qn_jtime;

struct qn_jrun {
    qn_arena arena;
    qn_jlimits limit;
    uint64_t steps;
    int depth;
    int rc; /* sticky */
    qn_error err;
    const qn_jstr *raised; /* whole text of raise_exception */
    qn_jtime now;
    qn_jval one_char[128]; /* shared one-letter strings */
    struct qn_jeval *eval; /* the evaluator, for values that call back into it */
};

/* --- failure, cost, memory --- */

qn_jval qn_jfail(qn_jrun *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
qn_jval qn_jlimit(qn_jrun *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool qn_jtick(qn_jrun *r, uint64_t cost); /* false: stop, an error is set */
bool qn_jenter(qn_jrun *r);               /* one level deeper; false: too deep */
void qn_jleave(qn_jrun *r);
void *qn_jalloc(qn_jrun *r, size_t bytes); /* small fixed sizes only; never NULL */
bool qn_jroom(qn_jrun *r, size_t n,
              size_t size); /* would n items fit the limit? else fails the run */

static inline bool qn_jok(const qn_jrun *r)
{
    return r->rc == QN_OK;
}

/* --- strings --- */

typedef struct qn_jsb {
    char *p;
    size_t n, cap;
} qn_jsb; /* {0} is empty */

void qn_jsb_add(qn_jrun *r, qn_jsb *b, const char *p, size_t n);
void qn_jsb_cp(qn_jrun *r, qn_jsb *b, uint32_t cp);
void qn_jsb_fill(qn_jrun *r, qn_jsb *b, uint32_t cp, int64_t times);
void qn_jsb_printf(qn_jrun *r, qn_jsb *b, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
qn_jval qn_jsb_done(qn_jrun *r, const qn_jsb *b);

static inline void qn_jsb_str(qn_jrun *r, qn_jsb *b, const char *s)
{
    qn_jsb_add(r, b, s, strlen(s));
}

static inline void qn_jsb_s(qn_jrun *r, qn_jsb *b, const qn_jstr *s)
{
    qn_jsb_add(r, b, s->p, s->n);
}

size_t qn_jcount_chars(const char *p, size_t n);
qn_jval qn_jstr_ref(qn_jrun *r, const char *p, size_t n); /* borrows p, which outlives the run */
qn_jval qn_jstr_new(qn_jrun *r, const char *p, size_t n);
qn_jval qn_jstr_z(qn_jrun *r, const char *s);                      /* borrows a literal */
qn_jval qn_jmarkup(qn_jrun *r, qn_jval s);                         /* the same text, marked */
qn_jval qn_jstr_like(qn_jrun *r, const qn_jstr *model, qn_jval s); /* marked when the model is */
qn_jval qn_jstr_cut(qn_jrun *r, const qn_jstr *s, size_t from, size_t to); /* bytes; shares */
size_t qn_jstr_at(const qn_jstr *s, size_t chars); /* byte offset of a code point */
bool qn_jstr_is(const qn_jstr *s, const char *z);
const char *qn_jshort(qn_jrun *r, qn_jval v); /* repr cut to fit into a message */

/* --- simple values --- */

static inline qn_jval qn_jmissing(void)
{
    return (qn_jval){ .type = QN_J_MISSING };
}

static inline qn_jval qn_jnone(void)
{
    return (qn_jval){ .type = QN_J_NONE };
}

static inline qn_jval qn_jbool(bool b)
{
    return (qn_jval){ .type = QN_J_BOOL, .b = b };
}

static inline qn_jval qn_jint(int64_t i)
{
    return (qn_jval){ .type = QN_J_INT, .i = i };
}

static inline qn_jval qn_jfloat(double d)
{
    return (qn_jval){ .type = QN_J_FLOAT, .d = d };
}

static inline bool qn_jis(qn_jval v, qn_jtype t)
{
    return v.type == t;
}

static inline bool qn_jis_int(qn_jval v) /* bool is an int, as in Python */
{
    return v.type == QN_J_INT || v.type == QN_J_BOOL;
}

static inline int64_t qn_jas_int(qn_jval v)
{
    return v.type == QN_J_BOOL ? v.b : v.i;
}

static inline bool qn_jis_number(qn_jval v)
{
    return qn_jis_int(v) || v.type == QN_J_FLOAT;
}

static inline double qn_jas_float(qn_jval v)
{
    return v.type == QN_J_FLOAT ? v.d : (double)qn_jas_int(v);
}

static inline bool qn_jis_seq(qn_jval v) /* list or tuple */
{
    return v.type == QN_J_LIST || v.type == QN_J_TUPLE;
}

/* --- containers --- */

qn_jval qn_jlist_new(qn_jrun *r, qn_jtype type); /* QN_J_LIST or QN_J_TUPLE */
void qn_jlist_add(qn_jrun *r, qn_jlist *l, qn_jval v);
qn_jval qn_jtuple2(qn_jrun *r, qn_jval a, qn_jval b);
qn_jval qn_jdict_new(qn_jrun *r);
void qn_jdict_set(qn_jrun *r, qn_jdict *d, qn_jval key, qn_jval val); /* fails on unhashable keys */
bool qn_jdict_get(qn_jrun *r, const qn_jdict *d, qn_jval key, qn_jval *out);
bool qn_jdict_get_z(qn_jrun *r, const qn_jdict *d, const char *key, qn_jval *out);
void qn_jdict_update(qn_jrun *r, qn_jdict *d, const qn_jdict *from);
bool qn_jhashable(qn_jrun *r, qn_jval v);
qn_jval qn_jfrom_json(qn_jrun *r, const qn_json *j); /* borrows the text of strings */

/* --- undefined --- */

qn_jval qn_jundef_name(qn_jrun *r, qn_jval name);
qn_jval qn_jundef_in(qn_jrun *r, qn_jval obj, qn_jval name);
qn_jval qn_jundef_hint(qn_jrun *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
qn_jval qn_jundef_fail(qn_jrun *r, qn_jval u); /* the UndefinedError of using it */

/* --- meaning (jinja_value.c, jinja_repr.c, jinja_ops.c) --- */

bool qn_jtruth(qn_jval v);
const char *qn_jtype_name(qn_jval v); /* as Python names it: "str", "NoneType" */
bool qn_jeq(qn_jrun *r, qn_jval a, qn_jval b);
int qn_jcmp(qn_jrun *r, qn_jval a, qn_jval b, const char *op); /* -1 0 1, 2 unordered (NaN) */
bool qn_jcontains(qn_jrun *r, qn_jval seq, qn_jval v);
int64_t qn_jlen(qn_jrun *r, qn_jval v); /* fails for what has no len() */
bool qn_jhas_len(qn_jval v);

qn_jval qn_jto_str(qn_jrun *r, qn_jval v);   /* str(v); Markup becomes plain */
qn_jval qn_jsoft_str(qn_jrun *r, qn_jval v); /* strings as they are, else str(v) */
void qn_jput_str(qn_jrun *r, qn_jsb *b, qn_jval v);
void qn_jput_repr(qn_jrun *r, qn_jsb *b, qn_jval v);
int qn_jfloat_repr(double d, char out[40]);

typedef enum qn_jop {
    QN_JOP_ADD,
    QN_JOP_SUB,
    QN_JOP_MUL,
    QN_JOP_DIV,
    QN_JOP_FLOORDIV,
    QN_JOP_MOD,
    QN_JOP_POW
} qn_jop;
qn_jval qn_jbinary(qn_jrun *r, qn_jop op, qn_jval a, qn_jval b);
qn_jval qn_jnegate(qn_jrun *r, qn_jval v, bool minus);
qn_jval qn_jgetattr(qn_jrun *r, qn_jval obj, qn_jval name);   /* attribute first, then item */
qn_jval qn_jgetitem(qn_jrun *r, qn_jval obj, qn_jval key);    /* item first, then attribute */
qn_jval qn_jattr_only(qn_jrun *r, qn_jval obj, qn_jval name); /* the attr filter */
qn_jval qn_jslice(qn_jrun *r, qn_jval obj, const qn_jval bounds[3]);

/* --- iteration (jinja_iter.c) --- */

qn_jiter *qn_jiter_open(qn_jrun *r, qn_jval v); /* NULL with an error for what cannot be iterated */
qn_jiter *qn_jiter_reversed(qn_jrun *r, qn_jval v); /* the same, from the end */
bool qn_jiter_next(qn_jrun *r, qn_jiter *it, qn_jval *out);
bool qn_jiterable(qn_jval v);
qn_jval qn_jto_list(qn_jrun *r, qn_jval v, qn_jtype type);
qn_jval qn_jiter_val(qn_jiter *it);
qn_jiter *qn_jiter_new(qn_jrun *r, bool (*next)(qn_jrun *, qn_jiter *, qn_jval *), qn_jval src);

/* --- text helpers (jinja_text.c) --- */

bool qn_jis_space(uint32_t cp);
bool qn_jis_word(uint32_t cp);                           /* \w of Python's re */
size_t qn_jprev(const char *p, size_t at, uint32_t *cp); /* start of the character before `at` */
qn_jval qn_jupper(qn_jrun *r, const qn_jstr *s);
qn_jval qn_jlower(qn_jrun *r, const qn_jstr *s);
qn_jval qn_jcapitalize(qn_jrun *r, const qn_jstr *s);
qn_jval qn_jswapcase(qn_jrun *r, const qn_jstr *s);
qn_jval qn_jtitle(qn_jrun *r, const qn_jstr *s); /* str.title() */
qn_jval qn_jcasefold(qn_jrun *r, const qn_jstr *s);
typedef enum qn_jclass {
    QN_JC_ALPHA,
    QN_JC_DIGIT,
    QN_JC_DECIMAL,
    QN_JC_NUMERIC,
    QN_JC_ALNUM,
    QN_JC_SPACE,
    QN_JC_PRINTABLE,
    QN_JC_ASCII
} qn_jclass;
bool qn_jis_class(const qn_jstr *s, qn_jclass c);
bool qn_jis_printable(uint32_t cp);
bool qn_jis_cased(const qn_jstr *s, bool upper); /* isupper(), islower() */
bool qn_jis_title(const qn_jstr *s);
bool qn_jis_identifier(const qn_jstr *s);
#define QN_JSTRIP_LEFT  1
#define QN_JSTRIP_RIGHT 2
qn_jval qn_jstrip(qn_jrun *r, const qn_jstr *s, const qn_jstr *chars, int sides);
const char *qn_jfind(const char *p, size_t n, const char *q, size_t m);
qn_jval qn_jreplace(qn_jrun *r, const qn_jstr *s, const qn_jstr *a, const qn_jstr *b, int64_t max);
qn_jval qn_jpad(qn_jrun *r, const qn_jstr *s, int64_t width, uint32_t fill, int align);
qn_jval qn_jsplitlines(qn_jrun *r, const qn_jstr *s, bool keep);
qn_jval qn_jescape(qn_jrun *r, qn_jval v); /* HTML; Markup stays */
bool qn_jparse_int(const qn_jstr *s, int base, int64_t *out, bool *too_large);
bool qn_jparse_float(const qn_jstr *s, double *out);

/* --- formatting (jinja_format.c, jinja_percent.c) --- */

qn_jval qn_jpercent(qn_jrun *r, const qn_jstr *format, qn_jval args);
qn_jval qn_jformat(qn_jrun *r, const qn_jstr *format, const qn_jargs *args);
void qn_jput_double(qn_jrun *r, qn_jsb *b, double d, int precision, char type);
qn_jval qn_jtojson(qn_jrun *r, qn_jval self, const qn_jval *a, const qn_jargs *raw);
qn_jval qn_jstrftime(qn_jrun *r, const qn_jstr *format);

/* --- tables --- */

const qn_jbuiltin *qn_jfilter_find(const char *name, size_t n);
const qn_jbuiltin *qn_jtest_find(const char *name, size_t n);
const qn_jbuiltin *qn_jglobal_find(const char *name, size_t n);
const qn_jbuiltin *qn_jfind_in(const qn_jbuiltin *table, const char *name, size_t n);
qn_jval qn_jcall_builtin(qn_jrun *r, const qn_jbuiltin *fn, qn_jval self, const qn_jargs *args);
bool qn_jstr_method(qn_jrun *r, qn_jval self, const qn_jstr *name, qn_jval *out);
bool qn_jseq_method(qn_jrun *r, qn_jval self, const qn_jstr *name, qn_jval *out);
bool qn_jdict_method(qn_jrun *r, qn_jval self, const qn_jstr *name, qn_jval *out);
bool qn_jobject_attr(qn_jrun *r, qn_jval self, const qn_jstr *name, qn_jval *out);
qn_jval qn_jmethod_new(qn_jrun *r, qn_jval self, const qn_jbuiltin *fn);

/* Argument access for builtins: fail the run with the function's complaint. */
int64_t qn_jarg_int(qn_jrun *r, qn_jval v, int64_t absent);
bool qn_jarg_bool(qn_jval v, bool absent);
const qn_jstr *qn_jarg_str(qn_jrun *r, qn_jval v, const char *absent); /* never NULL */

#endif
