/* load_steps.c - tokenizer.json: normalizer, pre-tokenizer, post-processor and decoder. Each kind of step
 * has one reader in a table; a Sequence is laid out flat. A type that is not in a table is an error. */
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"
#include "tokenizer/internal.h"

#define MAX_STEPS   256
#define MAX_NESTING 32

typedef struct loader {
    qn_tokenizer *t;
    const char *section;
    int depth;
    qn_error *err;
} loader;

typedef struct reader {
    const char *type;
    int (*read)(loader *l, const qn_json *v);
} reader;

static int wrong(const loader *l, const char *field)
{
    return qn_fail(l->err, QN_ERR_FORMAT, "tokenizer.json: %s: %s is missing or wrong", l->section,
                   field);
}

static bool flag(const qn_json *v, const char *key, bool fallback)
{
    return qn_json_bool(qn_json_get(v, key), fallback);
}

/* A string field copied to the tokenizer. */
static const char *text(const loader *l, const qn_json *v, const char *key, size_t *n)
{
    const qn_json *s = qn_json_get(v, key);
    if (!qn_json_is(s, QN_JSON_STR))
        return NULL;
    *n = s->n;
    return qn_arena_strndup(&l->t->arena, s->s, s->n);
}

/* {"String": ...} or {"Regex": ...}; a bare string is the former. */
static qn_regex *pattern(const loader *l, const qn_json *v)
{
    const qn_json *p = qn_json_get(v, "pattern"), *s = qn_json_get(p, "String"),
                  *re = qn_json_get(p, "Regex");
    if (qn_json_is(p, QN_JSON_STR))
        s = p;
    if (qn_json_is(s, QN_JSON_STR))
        return qn_regex_open_literal(s->s, s->n);
    if (qn_json_is(re, QN_JSON_STR))
        return qn_regex_open(re->s, re->n, QN_RX_RUBY, l->err);
    wrong(l, "pattern");
    return NULL;
}

static int read_step(loader *l, const qn_json *v, const reader *table, const char *list)
{
    if (!v || qn_json_is(v, QN_JSON_NULL))
        return QN_OK;
    const qn_json *type = qn_json_get(v, "type"), *items = qn_json_get(v, list);
    if (!qn_json_is(type, QN_JSON_STR))
        return wrong(l, "type");
    if (++l->depth > MAX_NESTING)
        return qn_fail(l->err, QN_ERR_LIMIT, "tokenizer.json: %s nests too deeply", l->section);
    int rc = QN_OK;
    if (qn_json_eq(type, "Sequence")) {
        if (!qn_json_is(items, QN_JSON_ARRAY))
            return wrong(l, list);
        for (uint32_t i = 0; i < items->n && rc == QN_OK; i++)
            rc = read_step(l, &items->items[i], table, list);
        l->depth--;
        return rc;
    }
    if (l->t->n_norm + l->t->n_pre + l->t->n_dec > MAX_STEPS)
        return qn_fail(l->err, QN_ERR_LIMIT, "tokenizer.json: more than %d steps", MAX_STEPS);
    const reader *r = table;
    while (r->type && !qn_json_eq(type, r->type))
        r++;
    l->depth--;
    if (!r->type)
        return qn_fail(l->err, QN_ERR_UNSUPPORTED, "tokenizer.json: %s type \"%.60s\" is not known",
                       l->section, type->s);
    return r->read(l, v);
}

/* ---- normalizers ---- */

static int norm_plain(loader *l, const qn_json *v)
{
    static const struct {
        const char *type;
        qn_norm_op op;
    } plain[] = {
        { "NFC", QN_NORM_NFC },
        { "NFD", QN_NORM_NFD },
        { "NFKC", QN_NORM_NFKC },
        { "NFKD", QN_NORM_NFKD },
        { "Lowercase", QN_NORM_LOWERCASE },
        { "StripAccents", QN_NORM_STRIP_ACCENTS },
        { "Nmt", QN_NORM_NMT },
        { "ByteLevel", QN_NORM_BYTE_LEVEL },
    };
    const qn_json *type = qn_json_get(v, "type");
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (qn_json_eq(type, plain[i].type))
            qn_tok_add_norm(l->t, plain[i].op);
    return QN_OK;
}

static int norm_strip(loader *l, const qn_json *v)
{
    qn_norm *s = qn_tok_add_norm(l->t, QN_NORM_STRIP);
    s->left = flag(v, "strip_left", true);
    s->right = flag(v, "strip_right", true);
    return QN_OK;
}

static int norm_replace(loader *l, const qn_json *v)
{
    qn_norm *s = qn_tok_add_norm(l->t, QN_NORM_REPLACE);
    s->text = text(l, v, "content", &s->n_text);
    if (!s->text)
        return wrong(l, "content");
    s->re = pattern(l, v);
    return s->re ? QN_OK : QN_ERR_FORMAT;
}

static int norm_prepend(loader *l, const qn_json *v)
{
    qn_norm *s = qn_tok_add_norm(l->t, QN_NORM_PREPEND);
    s->text = text(l, v, "prepend", &s->n_text);
    return s->text ? QN_OK : wrong(l, "prepend");
}

static int norm_bert(loader *l, const qn_json *v)
{
    qn_norm *s = qn_tok_add_norm(l->t, QN_NORM_BERT);
    s->clean = flag(v, "clean_text", true);
    s->cjk = flag(v, "handle_chinese_chars", true);
    s->lower = flag(v, "lowercase", true);
    s->accents = flag(v, "strip_accents", s->lower); /* null follows lowercase */
    return QN_OK;
}

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool qn_tok_base64(const char *s, size_t n, qn_buf *out)
{
    while (n && s[n - 1] == '=')
        n--;
    uint32_t bits = 0;
    int have = 0;
    for (size_t i = 0; i < n; i++) {
        int d = base64_digit(s[i]);
        if (d < 0)
            return false;
        bits = bits << 6 | (uint32_t)d;
        have += 6;
        if (have >= 8) {
            have -= 8;
            qn_buf_char(out, (char)(bits >> have & 0xff));
        }
    }
    return have < 6;
}

static int norm_charsmap(loader *l, const qn_json *v)
{
    const qn_json *map = qn_json_get(v, "precompiled_charsmap");
    if (!map || qn_json_is(map, QN_JSON_NULL) || (qn_json_is(map, QN_JSON_STR) && map->n == 0))
        return QN_OK; /* an empty map changes nothing */
    qn_buf blob = { 0 };
    int rc = QN_OK;
    if (!qn_json_is(map, QN_JSON_STR) || !qn_tok_base64(map->s, map->n, &blob))
        rc = wrong(l, "precompiled_charsmap");
    if (rc == QN_OK)
        rc = qn_charsmap_init(&qn_tok_add_norm(l->t, QN_NORM_CHARSMAP)->map, &l->t->arena,
                              qn_buf_cstr(&blob), blob.len, l->err);
    qn_buf_free(&blob);
    return rc;
}

static const reader normalizers[] = {
    { "NFC", norm_plain },
    { "NFD", norm_plain },
    { "NFKC", norm_plain },
    { "NFKD", norm_plain },
    { "Lowercase", norm_plain },
    { "StripAccents", norm_plain },
    { "Nmt", norm_plain },
    { "ByteLevel", norm_plain },
    { "Strip", norm_strip },
    { "Replace", norm_replace },
    { "Prepend", norm_prepend },
    { "BertNormalizer", norm_bert },
    { "Precompiled", norm_charsmap },
    { NULL, NULL },
};

/* ---- pre-tokenizers ---- */

static int behavior(const loader *l, const qn_json *v, qn_behavior fallback, qn_behavior *out)
{
    static const struct {
        const char *name;
        qn_behavior value;
    } known[] = {
        { "Removed", QN_REMOVED },
        { "Isolated", QN_ISOLATED },
        { "MergedWithPrevious", QN_WITH_PREVIOUS },
        { "MergedWithNext", QN_WITH_NEXT },
        { "Contiguous", QN_CONTIGUOUS },
    };
    const qn_json *b = qn_json_get(v, "behavior");
    *out = fallback;
    if (!b)
        return QN_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (qn_json_eq(b, known[i].name)) {
            *out = known[i].value;
            return QN_OK;
        }
    }
    return wrong(l, "behavior");
}

static int pre_byte_level(loader *l, const qn_json *v)
{
    qn_pre *s = qn_tok_add_pre(l->t, QN_PRE_BYTE_LEVEL);
    s->prefix_space = flag(v, "add_prefix_space", true);
    s->use_regex = flag(v, "use_regex", true);
    if (!s->use_regex)
        return QN_OK;
    static const char gpt2[] =
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    s->re = qn_regex_open(gpt2, sizeof gpt2 - 1, QN_RX_PLAIN, l->err);
    return s->re ? QN_OK : QN_ERR_FORMAT;
}

/* One character, as text. */
static int one_char(const loader *l, const qn_json *v, const char *key, qn_pre *s)
{
    const qn_json *c = qn_json_get(v, key);
    uint32_t cp;
    if (!qn_json_is(c, QN_JSON_STR) || c->n == 0 ||
        (uint32_t)qn_utf8_decode(c->s, c->n, &cp) != c->n)
        return wrong(l, key);
    memcpy(s->text, c->s, c->n);
    s->n_text = c->n;
    return QN_OK;
}

static qn_prepend prepend_scheme(const qn_json *v)
{
    const qn_json *scheme = qn_json_get(v, "prepend_scheme");
    if (!scheme) /* the old form has only a switch */
        return flag(v, "add_prefix_space", true) ? QN_PREPEND_ALWAYS : QN_PREPEND_NEVER;
    return qn_json_eq(scheme, "never")   ? QN_PREPEND_NEVER
           : qn_json_eq(scheme, "first") ? QN_PREPEND_FIRST
                                         : QN_PREPEND_ALWAYS;
}

static int pre_metaspace(loader *l, const qn_json *v)
{
    qn_pre *s = qn_tok_add_pre(l->t, QN_PRE_METASPACE);
    s->prepend = prepend_scheme(v);
    s->split = flag(v, "split", true);
    s->behavior = QN_WITH_NEXT;
    return one_char(l, v, "replacement", s);
}

static int pre_split(loader *l, const qn_json *v)
{
    qn_pre *s = qn_tok_add_pre(l->t, QN_PRE_SPLIT);
    s->invert = flag(v, "invert", false);
    s->re = pattern(l, v);
    if (!s->re)
        return QN_ERR_FORMAT;
    if (!qn_json_get(v, "behavior"))
        return wrong(l, "behavior");
    return behavior(l, v, QN_ISOLATED, &s->behavior);
}

static int pre_words(loader *l, const qn_json *v)
{
    (void)v;
    qn_tok_add_pre(l->t, QN_PRE_WORDS);
    return QN_OK;
}

static int pre_spaces(loader *l, const qn_json *v)
{
    (void)v;
    qn_tok_add_pre(l->t, QN_PRE_SPACES)->behavior = QN_REMOVED;
    return QN_OK;
}

static int pre_punct(loader *l, const qn_json *v)
{
    qn_pre *s = qn_tok_add_pre(l->t, QN_PRE_PUNCT);
    return behavior(l, v, QN_ISOLATED, &s->behavior);
}

static int pre_bert(loader *l, const qn_json *v)
{
    pre_spaces(l, v);
    qn_tok_add_pre(l->t, QN_PRE_PUNCT);
    return QN_OK;
}

static int pre_digits(loader *l, const qn_json *v)
{
    qn_pre *s = qn_tok_add_pre(l->t, QN_PRE_DIGITS);
    s->behavior = flag(v, "individual_digits", false) ? QN_ISOLATED : QN_CONTIGUOUS;
    return QN_OK;
}

static int pre_char(loader *l, const qn_json *v)
{
    qn_pre *s = qn_tok_add_pre(l->t, QN_PRE_CHAR);
    s->behavior = QN_REMOVED;
    return one_char(l, v, "delimiter", s);
}

static int pre_scripts(loader *l, const qn_json *v)
{
    (void)v;
    qn_tok_add_pre(l->t, QN_PRE_SCRIPTS);
    return QN_OK;
}

static int pre_length(loader *l, const qn_json *v)
{
    int64_t n = qn_json_int(qn_json_get(v, "length"), 5);
    if (n < 1)
        return wrong(l, "length");
    qn_tok_add_pre(l->t, QN_PRE_LENGTH)->length = (size_t)n;
    return QN_OK;
}

static const reader pre_tokenizers[] = {
    { "ByteLevel", pre_byte_level },
    { "Metaspace", pre_metaspace },
    { "Split", pre_split },
    { "Whitespace", pre_words },
    { "WhitespaceSplit", pre_spaces },
    { "BertPreTokenizer", pre_bert },
    { "Punctuation", pre_punct },
    { "Digits", pre_digits },
    { "CharDelimiterSplit", pre_char },
    { "UnicodeScripts", pre_scripts },
    { "FixedLength", pre_length },
    { NULL, NULL },
};

int qn_tok_load_steps(qn_tokenizer *t, const qn_json *root, qn_error *err)
{
    loader l = { .t = t, .section = "normalizer", .err = err };
    int rc = read_step(&l, qn_json_get(root, "normalizer"), normalizers, "normalizers");
    if (rc != QN_OK)
        return rc;
    l = (loader){ .t = t, .section = "pre_tokenizer", .err = err };
    return read_step(&l, qn_json_get(root, "pre_tokenizer"), pre_tokenizers, "pretokenizers");
}

/* ---- post-processors: a list of ids in which QN_POST_TEXT stands for the text ---- */

static void wrap(qn_tokenizer *t, const qn_ids *frame)
{
    qn_ids all = { 0 };
    for (size_t i = 0; i < frame->n; i++) {
        if (frame->v[i] != QN_POST_TEXT)
            qn_ids_add(&all, frame->v[i]);
        for (size_t k = 0; frame->v[i] == QN_POST_TEXT && k < t->n_post; k++)
            qn_ids_add(&all, t->post[k]);
    }
    qn_free(t->post);
    t->post = all.v;
    t->n_post = all.n;
}

/* The frame round two texts: an id and the text it is of (its segment) each. */
static void keep_pair(qn_tokenizer *t, qn_ids *frame, qn_ids *segment)
{
    qn_free(t->pair);
    qn_free(t->pair_segment);
    t->pair = frame->v;
    t->pair_segment = segment->v;
    t->n_pair = frame->n;
}

/* Appends the ids of one special token of a template. */
static int add_special(loader *l, const qn_json *ids, int64_t type, qn_ids *frame, qn_ids *segment)
{
    if (!qn_json_is(ids, QN_JSON_ARRAY))
        return wrong(l, "special_tokens");
    for (uint32_t k = 0; k < ids->n; k++) {
        int64_t id = qn_json_int(&ids->items[k], -1);
        if (id < 0 || id > INT32_MAX)
            return wrong(l, "special_tokens ids");
        qn_ids_add(frame, (int32_t)id);
        qn_ids_add(segment, (int32_t)type);
    }
    return QN_OK;
}

/* One of a template's lists. */
static int read_frame(loader *l, const qn_json *v, const char *key, qn_ids *frame, qn_ids *segment)
{
    const qn_json *list = qn_json_get(v, key), *special = qn_json_get(v, "special_tokens");
    if (!qn_json_is(list, QN_JSON_ARRAY) || list->n > 1024)
        return wrong(l, key);
    bool is_pair = strcmp(key, "pair") == 0;
    int rc = QN_OK, n_first = 0, n_second = 0;
    for (uint32_t i = 0; i < list->n && rc == QN_OK; i++) {
        const qn_json *item = &list->items[i], *seq = qn_json_get(item, "Sequence");
        const qn_json *tok = qn_json_get(item, "SpecialToken");
        int64_t type = qn_json_int(qn_json_get(seq ? seq : tok, "type_id"), 0);
        if (type < 0 || type > INT32_MAX)
            return wrong(l, "type_id");
        if (seq) {
            bool second = is_pair && qn_json_eq(qn_json_get(seq, "id"), "B");
            qn_ids_add(frame, second ? QN_POST_SECOND : QN_POST_TEXT);
            qn_ids_add(segment, (int32_t)type);
            n_first += !second;
            n_second += second;
            continue;
        }
        const char *name = qn_json_str(qn_json_get(tok, "id"), "");
        rc = add_special(l, qn_json_get(qn_json_get(special, name), "ids"), type, frame, segment);
    }
    if (rc == QN_OK && (n_first > 1 || n_second > 1)) /* nesting would multiply the text */
        rc = qn_fail(l->err, QN_ERR_UNSUPPORTED,
                     "tokenizer.json: post_processor: %s holds the text twice", key);
    return rc;
}

/* Whether an earlier processor already put ids round the text. The reference would then take its parts
 * for several texts; no published file does that, and it is refused. */
static bool framed(const loader *l)
{
    if (l->t->n_post > 1)
        qn_fail(l->err, QN_ERR_UNSUPPORTED,
                "tokenizer.json: post_processor: a second processor that adds tokens");
    return l->t->n_post > 1;
}

static int post_template(loader *l, const qn_json *v)
{
    if (framed(l))
        return QN_ERR_UNSUPPORTED;
    qn_ids frame = { 0 }, pair = { 0 }, segment = { 0 }, unused = { 0 };
    int rc = read_frame(l, v, "single", &frame, &unused);
    if (rc == QN_OK)
        wrap(l->t, &frame);
    if (rc == QN_OK && qn_json_is(qn_json_get(v, "pair"), QN_JSON_ARRAY))
        rc = read_frame(l, v, "pair", &pair, &segment);
    if (rc == QN_OK && pair.n > 0) {
        keep_pair(l->t, &pair, &segment);
    } else {
        qn_ids_free(&pair);
        qn_ids_free(&segment);
    }
    qn_ids_free(&frame);
    qn_ids_free(&unused);
    return rc;
}

/* ["[SEP]", 102] */
static int32_t pair_id(const qn_json *v, const char *key)
{
    int64_t id = qn_json_int(qn_json_at(qn_json_get(v, key), 1), -1);
    return id < 0 || id > INT32_MAX ? -1 : (int32_t)id;
}

/* cls A sep B sep, where RoBERTa's kind has a second sep between the texts and one segment for all. */
static int cls_and_sep(loader *l, const qn_json *v, bool roberta)
{
    if (framed(l))
        return QN_ERR_UNSUPPORTED;
    int32_t cls = pair_id(v, "cls"), sep = pair_id(v, "sep");
    if (cls < 0 || sep < 0)
        return wrong(l, "cls or sep");
    wrap(l->t, &(qn_ids){ .v = (int32_t[]){ cls, QN_POST_TEXT, sep }, .n = 3 });
    const int32_t all[] = { cls, QN_POST_TEXT, sep, sep, QN_POST_SECOND, sep };
    const int32_t type[] = { 0, 0, 0, 0, 1, 1 };
    qn_ids pair = { 0 }, segment = { 0 };
    for (int i = 0; i < 6; i++) {
        if (i == 3 && !roberta)
            continue;
        qn_ids_add(&pair, all[i]);
        qn_ids_add(&segment, roberta ? 0 : type[i]);
    }
    keep_pair(l->t, &pair, &segment);
    return QN_OK;
}

static int post_bert(loader *l, const qn_json *v)
{
    return cls_and_sep(l, v, false);
}

static int post_roberta(loader *l, const qn_json *v)
{
    return cls_and_sep(l, v, true);
}

static int post_nothing(loader *l, const qn_json *v)
{
    (void)l, (void)v; /* ByteLevel only moves offsets */
    return QN_OK;
}

static const reader post_processors[] = {
    { "TemplateProcessing", post_template },
    { "BertProcessing", post_bert },
    { "RobertaProcessing", post_roberta },
    { "ByteLevel", post_nothing },
    { NULL, NULL },
};

int qn_tok_load_post(qn_tokenizer *t, const qn_json *post, qn_error *err)
{
    loader l = { .t = t, .section = "post_processor", .err = err };
    t->post = qn_alloc(sizeof *t->post);
    t->post[0] = QN_POST_TEXT;
    t->n_post = 1;
    return read_step(&l, post, post_processors, "processors");
}

/* ---- decoders ---- */

static int dec_byte_level(loader *l, const qn_json *v)
{
    (void)v;
    qn_tok_add_dec(l->t, QN_DEC_BYTE_LEVEL);
    return QN_OK;
}

static int dec_metaspace(loader *l, const qn_json *v)
{
    qn_dec *s = qn_tok_add_dec(l->t, QN_DEC_METASPACE);
    s->keep_first = prepend_scheme(v) == QN_PREPEND_NEVER;
    s->text = text(l, v, "replacement", &s->n_text);
    return s->text && s->n_text ? QN_OK : wrong(l, "replacement");
}

static int dec_byte_fallback(loader *l, const qn_json *v)
{
    (void)v;
    qn_tok_add_dec(l->t, QN_DEC_BYTE_FALLBACK);
    return QN_OK;
}

static int dec_fuse(loader *l, const qn_json *v)
{
    (void)v;
    qn_tok_add_dec(l->t, QN_DEC_FUSE);
    return QN_OK;
}

static int dec_strip(loader *l, const qn_json *v)
{
    qn_dec *s = qn_tok_add_dec(l->t, QN_DEC_STRIP);
    int64_t start = qn_json_int(qn_json_get(v, "start"), 0),
            stop = qn_json_int(qn_json_get(v, "stop"), 0);
    s->text = text(l, v, "content", &s->n_text);
    if (!s->text || !s->n_text || start < 0 || stop < 0)
        return wrong(l, "content, start or stop");
    s->start = (size_t)start;
    s->stop = (size_t)stop;
    return QN_OK;
}

static int dec_replace(loader *l, const qn_json *v)
{
    qn_dec *s = qn_tok_add_dec(l->t, QN_DEC_REPLACE);
    s->text = text(l, v, "content", &s->n_text);
    if (!s->text)
        return wrong(l, "content");
    s->re = pattern(l, v);
    return s->re ? QN_OK : QN_ERR_FORMAT;
}

static int dec_wordpiece(loader *l, const qn_json *v)
{
    qn_dec *s = qn_tok_add_dec(l->t, QN_DEC_WORDPIECE);
    s->cleanup = flag(v, "cleanup", true);
    s->text = text(l, v, "prefix", &s->n_text);
    return s->text ? QN_OK : wrong(l, "prefix");
}

static int dec_bpe(loader *l, const qn_json *v)
{
    qn_dec *s = qn_tok_add_dec(l->t, QN_DEC_BPE);
    s->text = text(l, v, "suffix", &s->n_text);
    return s->text ? QN_OK : wrong(l, "suffix");
}

static int dec_ctc(loader *l, const qn_json *v)
{
    qn_dec *s = qn_tok_add_dec(l->t, QN_DEC_CTC);
    s->cleanup = flag(v, "cleanup", true);
    s->text = text(l, v, "pad_token", &s->n_text);
    s->text2 = text(l, v, "word_delimiter_token", &s->n_text2);
    return s->text && s->text2 ? QN_OK : wrong(l, "pad_token or word_delimiter_token");
}

static const reader decoders[] = {
    { "ByteLevel", dec_byte_level },
    { "Metaspace", dec_metaspace },
    { "ByteFallback", dec_byte_fallback },
    { "Fuse", dec_fuse },
    { "Strip", dec_strip },
    { "Replace", dec_replace },
    { "WordPiece", dec_wordpiece },
    { "BPEDecoder", dec_bpe },
    { "CTC", dec_ctc },
    { NULL, NULL },
};

int qn_tok_load_decoder(qn_tokenizer *t, const qn_json *dec, qn_error *err)
{
    loader l = { .t = t, .section = "decoder", .err = err };
    if (!dec || qn_json_is(dec, QN_JSON_NULL)) {
        qn_tok_add_dec(t, QN_DEC_JOIN);
        return QN_OK;
    }
    return read_step(&l, dec, decoders, "decoders");
}
