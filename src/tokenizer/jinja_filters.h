/* jinja_filters.h - the filter functions, for the table in jinja_filters.c. */
#ifndef QN_TOKENIZER_JINJA_FILTERS_H
#define QN_TOKENIZER_JINJA_FILTERS_H

#include "tokenizer/jinja_value.h"

#define QN_JFILTER(name)                                                                           \
    qn_jval name(qn_jrun *r, qn_jval self, const qn_jval *a, const qn_jargs *raw)

/* jinja_filters_lazy.c: the filters that give generators */
QN_JFILTER(qn_jf_batch);
QN_JFILTER(qn_jf_items);
QN_JFILTER(qn_jf_map);
QN_JFILTER(qn_jf_reject);
QN_JFILTER(qn_jf_rejectattr);
QN_JFILTER(qn_jf_select);
QN_JFILTER(qn_jf_selectattr);
QN_JFILTER(qn_jf_slice);
QN_JFILTER(qn_jf_unique);

/* jinja_filters_seq.c */
QN_JFILTER(qn_jf_dictsort);
QN_JFILTER(qn_jf_first);
QN_JFILTER(qn_jf_groupby);
QN_JFILTER(qn_jf_join);
QN_JFILTER(qn_jf_last);
QN_JFILTER(qn_jf_length);
QN_JFILTER(qn_jf_list);
QN_JFILTER(qn_jf_max);
QN_JFILTER(qn_jf_min);
QN_JFILTER(qn_jf_reverse);
QN_JFILTER(qn_jf_sort);
QN_JFILTER(qn_jf_sum);

/* jinja_filters_text.c */
QN_JFILTER(qn_jf_capitalize);
QN_JFILTER(qn_jf_center);
QN_JFILTER(qn_jf_escape);
QN_JFILTER(qn_jf_forceescape);
QN_JFILTER(qn_jf_format);
QN_JFILTER(qn_jf_indent);
QN_JFILTER(qn_jf_lower);
QN_JFILTER(qn_jf_replace);
QN_JFILTER(qn_jf_safe);
QN_JFILTER(qn_jf_string);
QN_JFILTER(qn_jf_striptags);
QN_JFILTER(qn_jf_title);
QN_JFILTER(qn_jf_trim);
QN_JFILTER(qn_jf_truncate);
QN_JFILTER(qn_jf_upper);
QN_JFILTER(qn_jf_urlencode);
QN_JFILTER(qn_jf_wordcount);
QN_JFILTER(qn_jf_wordwrap);
QN_JFILTER(qn_jf_xmlattr);

/* An attribute path ("a.b.0", or an index), looked up with the environment's rules. */
typedef struct qn_jpath {
    qn_jval part[16];
    size_t n;
    qn_jval fallback; /* for undefined steps; MISSING or None: none */
    bool fold_case;   /* strings compare without case */
} qn_jpath;

void qn_jpath_init(qn_jrun *r, qn_jpath *p, qn_jval attribute);
qn_jval qn_jpath_get(qn_jrun *r, const qn_jpath *p, qn_jval item);

/* Stable sort of items by parallel keys; both arrays are rearranged. */
void qn_jsort(qn_jrun *r, qn_jlist *keys, qn_jlist *items, bool reverse);

#endif
