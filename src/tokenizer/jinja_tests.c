/* jinja_tests.c - the tests behind `is`, and selecting filters. */
#include <math.h>

#include "tokenizer/jinja_value.h"

#define TEST(name)                                                                                 \
    static qn_jval t_##name(qn_jrun *r, qn_jval self, const qn_jval *a, const qn_jargs *raw)

/* A test that only looks at its subject. */
#define SIMPLE(name, what)                                                                         \
    TEST(name)                                                                                     \
    {                                                                                              \
        (void)r, (void)a, (void)raw;                                                               \
        return qn_jbool(what);                                                                     \
    }

SIMPLE(defined, self.type != QN_J_UNDEF)
SIMPLE(undefined, self.type == QN_J_UNDEF)
SIMPLE(none, self.type == QN_J_NONE)
SIMPLE(boolean, self.type == QN_J_BOOL)
SIMPLE(yes, self.type == QN_J_BOOL && self.b)
SIMPLE(no, self.type == QN_J_BOOL && !self.b)
SIMPLE(integer, self.type == QN_J_INT)
SIMPLE(float, self.type == QN_J_FLOAT)
SIMPLE(number, qn_jis_number(self))
SIMPLE(string, self.type == QN_J_STR)
SIMPLE(mapping, self.type == QN_J_DICT)
SIMPLE(iterable, qn_jiterable(self))
SIMPLE(escaped, self.type == QN_J_STR && self.s->markup)

TEST(sequence)
{
    (void)r, (void)a, (void)raw; /* has a length and can be indexed; undefined claims both */
    return qn_jbool(qn_jhas_len(self) && self.type != QN_J_VIEW && self.type != QN_J_LOOP);
}

TEST(callable)
{
    (void)r, (void)a, (void)raw; /* undefined has a call operator, which fails */
    return qn_jbool(self.type == QN_J_UNDEF || self.type == QN_J_FUNC || self.type == QN_J_METHOD ||
                    self.type == QN_J_MACRO || self.type == QN_J_LOOP || self.type == QN_J_JOINER ||
                    self.type == QN_J_BLOCK);
}

static qn_jval parity(qn_jrun *r, qn_jval self, int64_t want)
{
    qn_jval rest = qn_jbinary(r, QN_JOP_MOD, self, qn_jint(2));
    return qn_jbool(qn_jeq(r, rest, qn_jint(want)));
}

TEST(odd)
{
    (void)a, (void)raw;
    return parity(r, self, 1);
}

TEST(even)
{
    (void)a, (void)raw;
    return parity(r, self, 0);
}

TEST(divisibleby)
{
    (void)raw;
    return qn_jbool(qn_jeq(r, qn_jbinary(r, QN_JOP_MOD, self, a[0]), qn_jint(0)));
}

TEST(lower)
{
    (void)a, (void)raw;
    qn_jval s = qn_jto_str(r, self);
    return qn_jbool(s.type == QN_J_STR && qn_jis_cased(s.s, false));
}

TEST(upper)
{
    (void)a, (void)raw;
    qn_jval s = qn_jto_str(r, self);
    return qn_jbool(s.type == QN_J_STR && qn_jis_cased(s.s, true));
}

TEST(filter)
{
    (void)r, (void)a, (void)raw;
    return qn_jbool(self.type == QN_J_STR && qn_jfilter_find(self.s->p, self.s->n));
}

TEST(test)
{
    (void)r, (void)a, (void)raw;
    return qn_jbool(self.type == QN_J_STR && qn_jtest_find(self.s->p, self.s->n));
}

TEST(in)
{
    (void)raw;
    return qn_jbool(qn_jcontains(r, a[0], self));
}

/* Identity: of containers by address, of plain values by type and value. */
TEST(sameas)
{
    (void)raw;
    if (self.type != a[0].type)
        return qn_jbool(false);
    bool plain = self.type <= QN_J_STR;
    return qn_jbool(plain ? qn_jeq(r, self, a[0]) : self.p == a[0].p);
}

TEST(eq)
{
    (void)raw;
    return qn_jbool(qn_jeq(r, self, a[0]));
}

TEST(ne)
{
    (void)raw;
    return qn_jbool(!qn_jeq(r, self, a[0]));
}

TEST(lt)
{
    (void)raw;
    return qn_jbool(qn_jcmp(r, self, a[0], "<") == -1);
}

TEST(le)
{
    (void)raw;
    int c = qn_jcmp(r, self, a[0], "<=");
    return qn_jbool(c == -1 || c == 0);
}

TEST(gt)
{
    (void)raw;
    return qn_jbool(qn_jcmp(r, self, a[0], ">") == 1);
}

TEST(ge)
{
    (void)raw;
    int c = qn_jcmp(r, self, a[0], ">=");
    return qn_jbool(c == 1 || c == 0);
}

static const qn_jbuiltin tests[] = {
    { "odd", t_odd, "", 0 },
    { "even", t_even, "", 0 },
    { "divisibleby", t_divisibleby, "num", 1 },
    { "defined", t_defined, "", 0 },
    { "undefined", t_undefined, "", 0 },
    { "filter", t_filter, "", 0 },
    { "test", t_test, "", 0 },
    { "none", t_none, "", 0 },
    { "boolean", t_boolean, "", 0 },
    { "false", t_no, "", 0 },
    { "true", t_yes, "", 0 },
    { "integer", t_integer, "", 0 },
    { "float", t_float, "", 0 },
    { "lower", t_lower, "", 0 },
    { "upper", t_upper, "", 0 },
    { "string", t_string, "", 0 },
    { "mapping", t_mapping, "", 0 },
    { "number", t_number, "", 0 },
    { "sequence", t_sequence, "", 0 },
    { "iterable", t_iterable, "", 0 },
    { "callable", t_callable, "", 0 },
    { "sameas", t_sameas, "other", 1 },
    { "escaped", t_escaped, "", 0 },
    { "in", t_in, "seq", 1 },
    { "==", t_eq, "/b", 1 },
    { "eq", t_eq, "/b", 1 },
    { "equalto", t_eq, "/b", 1 },
    { "!=", t_ne, "/b", 1 },
    { "ne", t_ne, "/b", 1 },
    { ">", t_gt, "/b", 1 },
    { "gt", t_gt, "/b", 1 },
    { "greaterthan", t_gt, "/b", 1 },
    { "ge", t_ge, "/b", 1 },
    { ">=", t_ge, "/b", 1 },
    { "<", t_lt, "/b", 1 },
    { "lt", t_lt, "/b", 1 },
    { "lessthan", t_lt, "/b", 1 },
    { "<=", t_le, "/b", 1 },
    { "le", t_le, "/b", 1 },
    { 0 },
};

const qn_jbuiltin *qn_jtest_find(const char *name, size_t n)
{
    return qn_jfind_in(tests, name, n);
}
