/* jinja_value.c - making values: failure and limits of a run, strings, lists, dicts, undefined.
 * What values mean (operators, printing, attributes) is elsewhere. */
#include "tokenizer/jinja_value.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/utf8.h"

/* --- failure, cost, memory --- */

static void fail_v(qn_jrun *r, int code, const char *fmt, va_list ap)
{
    if (r->rc != QN_OK)
        return; /* the first cause is the one to tell */
    char text[400];
    vsnprintf(text, sizeof text, fmt, ap);
    size_t whole = qn_utf8_valid(text, strlen(text)); /* never cut inside a character */
    text[whole] = 0;
    r->rc = qn_fail(&r->err, code, "%s", text);
}

qn_jval qn_jfail(qn_jrun *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fail_v(r, QN_ERR_FORMAT, fmt, ap);
    va_end(ap);
    return qn_jnone();
}

qn_jval qn_jlimit(qn_jrun *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fail_v(r, QN_ERR_LIMIT, fmt, ap);
    va_end(ap);
    return qn_jnone();
}

bool qn_jtick(qn_jrun *r, uint64_t cost)
{
    r->steps += cost;
    if (r->steps > r->limit.steps)
        qn_jlimit(r, "the template takes more than %llu steps", (unsigned long long)r->limit.steps);
    return r->rc == QN_OK;
}

bool qn_jenter(qn_jrun *r)
{
    if (++r->depth > r->limit.depth)
        qn_jlimit(r, "the template nests deeper than %d levels", r->limit.depth);
    return r->rc == QN_OK;
}

void qn_jleave(qn_jrun *r)
{
    r->depth--;
}

void *qn_jalloc(qn_jrun *r, size_t bytes)
{
    qn_jroom(r, bytes, 1);
    return qn_arena_alloc(&r->arena, bytes);
}

bool qn_jroom(qn_jrun *r, size_t n, size_t size)
{
    size_t bytes, total;
    if (!qn_mul_size(n, size, &bytes) || !qn_add_size(r->arena.used_bytes, bytes, &total) ||
        total > r->limit.memory)
        qn_jlimit(r, "the template needs more than %zu MiB of memory", r->limit.memory >> 20);
    return r->rc == QN_OK;
}

/* --- string builder --- */

static bool sb_grow(qn_jrun *r, qn_jsb *b, size_t more)
{
    size_t need;
    if (!qn_add_size(b->n, more, &need) || need >= UINT32_MAX) {
        qn_jlimit(r, "the template makes a string of more than 4 GiB");
        return false;
    }
    if (need <= b->cap)
        return qn_jok(r);
    size_t cap = b->cap * 2 > need ? b->cap * 2 : need < 48 ? 48 : need;
    if (!qn_jroom(r, cap, 1))
        return false;
    char *p = qn_arena_alloc(&r->arena, cap);
    if (b->n)
        memcpy(p, b->p, b->n);
    b->p = p;
    b->cap = cap;
    return true;
}

void qn_jsb_add(qn_jrun *r, qn_jsb *b, const char *p, size_t n)
{
    /* Copying is work too: a loop that appends to a long text must pay for its length. */
    if (n == 0 || !qn_jtick(r, n / 64) || !sb_grow(r, b, n))
        return;
    memcpy(b->p + b->n, p, n);
    b->n += n;
}

void qn_jsb_cp(qn_jrun *r, qn_jsb *b, uint32_t cp)
{
    char u[4];
    qn_jsb_add(r, b, u, (size_t)qn_utf8_encode(cp, u));
}

void qn_jsb_fill(qn_jrun *r, qn_jsb *b, uint32_t cp, int64_t times)
{
    char u[4];
    size_t n = (size_t)qn_utf8_encode(cp, u), total;
    if (times <= 0)
        return;
    if (!qn_mul_size((size_t)times, n, &total) || !qn_jtick(r, total / 64) || !sb_grow(r, b, total))
        return;
    for (int64_t i = 0; i < times; i++) {
        memcpy(b->p + b->n, u, n);
        b->n += n;
    }
}

void qn_jsb_printf(qn_jrun *r, qn_jsb *b, const char *fmt, ...)
{
    char text[400]; /* for numbers and short names only */
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    qn_jsb_add(r, b, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
}

qn_jval qn_jsb_done(qn_jrun *r, const qn_jsb *b)
{
    return qn_jstr_ref(r, b->p ? b->p : "", b->n);
}

/* --- strings --- */

size_t qn_jcount_chars(const char *p, size_t n)
{
    size_t chars = 0;
    for (size_t i = 0; i < n; i++)
        chars += ((unsigned char)p[i] & 0xC0) != 0x80;
    return chars;
}

qn_jval qn_jstr_ref(qn_jrun *r, const char *p, size_t n)
{
    if (n == 1 && (unsigned char)p[0] < 128 && r->one_char[(unsigned char)p[0]].type)
        return r->one_char[(unsigned char)p[0]];
    if (n >= UINT32_MAX)
        return qn_jlimit(r, "a string of more than 4 GiB");
    qn_jstr *s = qn_jalloc(r, sizeof *s);
    *s = (qn_jstr){ .p = p, .n = (uint32_t)n, .chars = (uint32_t)qn_jcount_chars(p, n) };
    qn_jval v = { .type = QN_J_STR, .s = s };
    if (n == 1 && (unsigned char)p[0] < 128)
        r->one_char[(unsigned char)p[0]] = v;
    return v;
}

qn_jval qn_jstr_new(qn_jrun *r, const char *p, size_t n)
{
    qn_jsb b = { 0 };
    qn_jsb_add(r, &b, p, n);
    return qn_jsb_done(r, &b);
}

qn_jval qn_jstr_z(qn_jrun *r, const char *s)
{
    return qn_jstr_ref(r, s, strlen(s));
}

qn_jval qn_jmarkup(qn_jrun *r, qn_jval v)
{
    if (v.type != QN_J_STR || v.s->markup)
        return v;
    qn_jstr *s = qn_jalloc(r, sizeof *s);
    *s = *v.s;
    s->markup = true;
    return (qn_jval){ .type = QN_J_STR, .s = s };
}

qn_jval qn_jstr_like(qn_jrun *r, const qn_jstr *model, qn_jval v)
{
    return model->markup ? qn_jmarkup(r, v) : v;
}

qn_jval qn_jstr_cut(qn_jrun *r, const qn_jstr *s, size_t from, size_t to)
{
    return qn_jstr_like(r, s, qn_jstr_ref(r, s->p + from, to - from));
}

size_t qn_jstr_at(const qn_jstr *s, size_t chars)
{
    if (chars >= s->chars)
        return s->n;
    if (s->chars == s->n)
        return chars;
    size_t i = 0;
    for (;;) {
        if (((unsigned char)s->p[i] & 0xC0) != 0x80 && chars-- == 0)
            return i;
        i++;
    }
}

bool qn_jstr_is(const qn_jstr *s, const char *z)
{
    return strlen(z) == s->n && memcmp(s->p, z, s->n) == 0;
}

const char *qn_jshort(qn_jrun *r, qn_jval v)
{
    qn_jsb b = { 0 };
    qn_jput_repr(r, &b, v);
    size_t n = b.n < 120 ? b.n : 120;
    return qn_arena_strndup(&r->arena, b.p ? b.p : "", qn_utf8_valid(b.p ? b.p : "", n));
}

/* --- lists --- */

qn_jval qn_jlist_new(qn_jrun *r, qn_jtype type)
{
    qn_jlist *l = qn_jalloc(r, sizeof *l);
    return (qn_jval){ .type = (uint8_t)type, .l = l };
}

void qn_jlist_add(qn_jrun *r, qn_jlist *l, qn_jval v)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 4;
        if (!qn_jroom(r, cap, sizeof v))
            return;
        qn_jval *w = qn_arena_alloc_n(&r->arena, cap, sizeof v);
        if (l->n)
            memcpy(w, l->v, l->n * sizeof v);
        l->v = w;
        l->cap = cap;
    }
    l->v[l->n++] = v;
}

qn_jval qn_jtuple2(qn_jrun *r, qn_jval a, qn_jval b)
{
    qn_jval t = qn_jlist_new(r, QN_J_TUPLE);
    qn_jlist_add(r, t.l, a);
    qn_jlist_add(r, t.l, b);
    return t;
}

/* --- dicts --- */

static uint64_t mix(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdu;
    x ^= x >> 33;
    return x;
}

static uint64_t hash_bytes(const char *p, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)p[i]) * 0x100000001b3u;
    return mix(h);
}

/* Values that compare equal must hash equal: 1, 1.0 and True are one key. */
static uint64_t hash_val(qn_jrun *r, qn_jval v)
{
    if (qn_jis_int(v))
        return mix((uint64_t)qn_jas_int(v));
    if (v.type == QN_J_FLOAT) {
        if (v.d == floor(v.d) && fabs(v.d) < 9e18)
            return mix((uint64_t)(int64_t)v.d);
        uint64_t bits;
        memcpy(&bits, &v.d, sizeof bits);
        return mix(bits);
    }
    if (v.type == QN_J_STR && qn_jtick(r, v.s->n / 32))
        return hash_bytes(v.s->p, v.s->n);
    if (v.type == QN_J_TUPLE && qn_jenter(r)) {
        uint64_t h = 1;
        for (size_t i = 0; i < v.l->n; i++)
            h = mix(h * 31 + hash_val(r, v.l->v[i]));
        qn_jleave(r);
        return h;
    }
    return v.type <= QN_J_NONE ? v.type : mix((uint64_t)(uintptr_t)v.p);
}

bool qn_jhashable(qn_jrun *r, qn_jval v)
{
    if (v.type == QN_J_LIST || v.type == QN_J_DICT)
        return false;
    if (v.type != QN_J_TUPLE)
        return true;
    bool ok = qn_jenter(r);
    for (size_t i = 0; ok && i < v.l->n; i++)
        ok = qn_jhashable(r, v.l->v[i]);
    qn_jleave(r);
    return ok;
}

/* Position + 1 of the key, or 0. `slot` is where an index entry for it belongs. */
static uint32_t dict_find(qn_jrun *r, const qn_jdict *d, qn_jval key, uint64_t hash, size_t *slot)
{
    if (!d->index) {
        for (size_t i = 0; i < d->n; i++)
            if (d->v[i].hash == hash && qn_jeq(r, d->v[i].key, key))
                return (uint32_t)i + 1;
        return 0;
    }
    size_t mask = d->n_index - 1, at = hash & mask;
    for (; d->index[at]; at = (at + 1) & mask) {
        const qn_jentry *e = &d->v[d->index[at] - 1];
        if (e->hash == hash && qn_jeq(r, e->key, key))
            return d->index[at];
    }
    *slot = at;
    return 0;
}

static bool dict_reindex(qn_jrun *r, qn_jdict *d)
{
    size_t n = d->cap * 2; /* at most half full */
    if (!qn_jroom(r, n, sizeof *d->index))
        return false;
    d->index = qn_arena_alloc_n(&r->arena, n, sizeof *d->index);
    d->n_index = n;
    for (size_t i = 0; i < d->n; i++) {
        size_t at = d->v[i].hash & (n - 1);
        while (d->index[at])
            at = (at + 1) & (n - 1);
        d->index[at] = (uint32_t)i + 1;
    }
    return true;
}

static bool dict_grow(qn_jrun *r, qn_jdict *d)
{
    size_t cap = d->cap ? d->cap * 2 : 8; /* a power of two, which the index relies on */
    if (!qn_jroom(r, cap, sizeof *d->v))
        return false;
    qn_jentry *v = qn_arena_alloc_n(&r->arena, cap, sizeof *v);
    if (d->n)
        memcpy(v, d->v, d->n * sizeof *v);
    d->v = v;
    d->cap = cap;
    return cap <= 8 || dict_reindex(r, d);
}

qn_jval qn_jdict_new(qn_jrun *r)
{
    qn_jdict *d = qn_jalloc(r, sizeof *d);
    return (qn_jval){ .type = QN_J_DICT, .m = d };
}

void qn_jdict_set(qn_jrun *r, qn_jdict *d, qn_jval key, qn_jval val)
{
    if (!qn_jhashable(r, key)) {
        qn_jfail(r, "unhashable type: '%s'", qn_jtype_name(key));
        return;
    }
    uint64_t hash = hash_val(r, key);
    size_t slot = 0;
    uint32_t at = dict_find(r, d, key, hash, &slot);
    if (at) {
        d->v[at - 1].val = val; /* the first key stays, as in Python */
        return;
    }
    if (d->n == d->cap) {
        if (!dict_grow(r, d))
            return;
        dict_find(r, d, key, hash, &slot); /* the index is a new one */
    }
    d->v[d->n++] = (qn_jentry){ .key = key, .val = val, .hash = hash };
    if (d->index)
        d->index[slot] = (uint32_t)d->n;
}

bool qn_jdict_get(qn_jrun *r, const qn_jdict *d, qn_jval key, qn_jval *out)
{
    size_t slot;
    uint32_t at = d->n ? dict_find(r, d, key, hash_val(r, key), &slot) : 0;
    if (at)
        *out = d->v[at - 1].val;
    return at != 0;
}

bool qn_jdict_get_z(qn_jrun *r, const qn_jdict *d, const char *key, qn_jval *out)
{
    const qn_jstr s = { .p = key, .n = (uint32_t)strlen(key) };
    return qn_jdict_get(r, d, (qn_jval){ .type = QN_J_STR, .s = &s }, out);
}

void qn_jdict_update(qn_jrun *r, qn_jdict *d, const qn_jdict *from)
{
    for (size_t i = 0; i < from->n && qn_jtick(r, 1); i++)
        qn_jdict_set(r, d, from->v[i].key, from->v[i].val);
}

qn_jval qn_jfrom_json(qn_jrun *r, const qn_json *j)
{
    qn_jval v;
    switch (j ? (qn_json_type)j->type : QN_JSON_NULL) {
    case QN_JSON_BOOL:
        return qn_jbool(j->b);
    case QN_JSON_INT:
        return qn_jint(j->i);
    case QN_JSON_REAL:
        return qn_jfloat(j->d);
    case QN_JSON_STR:
        return qn_jstr_ref(r, j->s, j->n);
    case QN_JSON_ARRAY:
        v = qn_jlist_new(r, QN_J_LIST);
        for (uint32_t i = 0; i < j->n && qn_jok(r); i++)
            qn_jlist_add(r, v.l, qn_jfrom_json(r, &j->items[i]));
        return v;
    case QN_JSON_OBJECT:
        v = qn_jdict_new(r);
        for (uint32_t i = 0; i < j->n && qn_jok(r); i++) {
            const qn_json *m = &j->items[i];
            qn_jdict_set(r, v.m, qn_jstr_ref(r, m->key, m->key_len), qn_jfrom_json(r, m));
        }
        return v;
    default:
        return qn_jnone();
    }
}

/* --- undefined --- */

static qn_jval undef_new(qn_jrun *r, qn_jundef u)
{
    qn_jundef *p = qn_jalloc(r, sizeof *p);
    *p = u;
    return (qn_jval){ .type = QN_J_UNDEF, .u = p };
}

qn_jval qn_jundef_name(qn_jrun *r, qn_jval name)
{
    return undef_new(r, (qn_jundef){ .name = name });
}

qn_jval qn_jundef_in(qn_jrun *r, qn_jval obj, qn_jval name)
{
    return undef_new(r, (qn_jundef){ .obj = obj, .name = name });
}

qn_jval qn_jundef_hint(qn_jrun *r, const char *fmt, ...)
{
    char text[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    qn_jval s = qn_jstr_new(r, text, qn_utf8_valid(text, strlen(text)));
    return undef_new(r, (qn_jundef){ .hint = s.s });
}

qn_jval qn_jundef_fail(qn_jrun *r, qn_jval v)
{
    const qn_jundef *u = v.u;
    if (u->hint)
        return qn_jfail(r, "%.*s", (int)u->hint->n, u->hint->p);
    const char *name = qn_jshort(r, u->name);
    if (u->obj.type == QN_J_MISSING)
        return qn_jfail(r, "%s is undefined", name);
    const char *type = u->obj.type == QN_J_NONE ? "None" : qn_jtype_name(u->obj);
    const char *object = u->obj.type == QN_J_NONE ? "" : " object";
    if (u->name.type != QN_J_STR)
        return qn_jfail(r, "%s%s has no element %s", type, object, name);
    return qn_jfail(r, "'%s%s' has no attribute %s", type, object, name);
}
