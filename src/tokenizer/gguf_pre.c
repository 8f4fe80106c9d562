/* gguf_pre.c - the pre-tokenizer names of GGUF files and the splits they stand for.
 *
 * A GGUF file holds no patterns, only a name, so the patterns of the original tokenizer files are listed
 * here: each is a split that keeps both matches and what lies between. An unknown name is an error; a
 * missing one is the format's old default, with a warning. */
#include <string.h>

#include "base/log.h"
#include "tokenizer/internal.h"

/* clang-format off */
#define CONTR "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TAIL  "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define START "[^\\r\\n\\p{L}\\p{N}]?"
#define WORD  START "\\p{L}+"
#define OTHER "| ?[^\\s\\p{L}\\p{N}]+"
#define UP    "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOW   "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(suffix) START UP "*" LOW "+" suffix "|" START UP "+" LOW "*" suffix

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define CL100K(digits) CONTR "|" WORD "|" digits OTHER "[\\r\\n]*" TAIL
#define O200K          CASED(CONTR "?") "|\\p{N}{1,3}" OTHER "[\\r\\n/]*" TAIL
#define TEKKEN         CASED("") "|\\p{N}" OTHER "[\\r\\n/]*" TAIL
#define DIGIT          "\\p{N}"
#define TRIPLES        "\\p{N}{1,3}"
#define CJK            "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+"
#define ASCII_PUNCT    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]"
#define PUNCT_WORD     ASCII_PUNCT "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+"
#define PUNCT_FIRST    PUNCT_WORD "[\\r\\n]*" TAIL
#define NOT_PUNCT      " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})]+"
#define LINES          "[^\\n]+|[\\n]+"
#define FAR_EAST       "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"
#define NO_HAN(set)    "[" set "&&[^\\p{Han}]]"
#define KUP            NO_HAN("\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}")
#define KLOW           NO_HAN("\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}")

/* Letters of the European and related scripts, as one published splitter lists them. */
#define LETTERS \
    "\\s?[A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}" \
    "\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}" \
    "\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-" \
    "\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}" \
    "\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}\\x{1d6b}-" \
    "\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}" \
    "\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}" \
    "\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}" \
    "\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-" \
    "\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}" \
    "\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}" \
    "\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}" \
    "\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-" \
    "\\x{a76f}\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}" \
    "\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}" \
    "-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-" \
    "\\x{118df}\\x{1e900}-\\x{1e943}]+"
/* Hangul, full-width punctuation, Bopomofo, Han and kana, each in runs. */
#define SCRIPTS_APART \
    "[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]+|[\\x{ff01}\\x{2026}\\x{201c}\\x{201d}\\x{2018}" \
    "\\x{2019}\\x{2014}\\x{ff1a}\\x{ff1b}\\x{ff0c}\\x{3001}-\\x{303f}\\x{fe30}-\\x{fe4f}]+|[" \
    "\\x{3105}-\\x{312f}]+|[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+"
/* Han, kana, Thai, Lao, Khmer, Burmese and Hangul in one run. */
#define UNSPACED \
    "[\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{8c48}-\\x{faff}\\x{3040}-\\x{309f}\\x{30a0}-" \
    "\\x{30ff}\\x{ff65}-\\x{ff9f}\\x{2f00}-\\x{2fdf}\\x{e40}-\\x{e7f}\\x{e80}-\\x{eff}" \
    "\\x{1780}-\\x{17ff}\\x{1000}-\\x{109f}\\x{aa60}-\\x{aa7f}\\x{a9e0}-\\x{a9ff}\\x{ac00}-" \
    "\\x{d7af}\\x{1100}-\\x{11ff}]+"

/* Not patterns: digits in threes from the right, runs of punctuation. */
static const char digits_by_three[] = "1", punct_runs[] = "2";

enum { IGNORE_MERGES = 1, ADD_BOS = 2, NFC = 4, MARKS = 8 /* spaces as U+2581, bytes as <0xNN> */ };

static const struct {
    const char *names; /* separated by spaces */
    unsigned flags;
    const char *pattern[6]; /* in order */
} known[] = {
    { "default", 0, { "[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]" } },
    { "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
      IGNORE_MERGES | ADD_BOS, { CL100K(TRIPLES) } },
    { "glm4 glm5", IGNORE_MERGES, { CL100K(TRIPLES) } },
    { "dbrx smaug-bpe chatglm-bpe", 0, { CL100K(TRIPLES) } },
    { "jais-2", 0,
      { CONTR "|" WORD "|" TRIPLES OTHER "[\\r\\n]*|\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)"
        "|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)"
        "|\\s{1,2}(?!\\S)|\\s{1}" } },
    { "deepseek-llm", 0,
      { "[\\r\\n]", LETTERS,
        "\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+",
        "\\s+$", FAR_EAST, DIGIT } },
    { "deepseek-coder", 0, { "[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", FAR_EAST, DIGIT } },
    { "deepseek-v3 hunyuan-dense joyai-llm hy_v4", 0, { TRIPLES, CJK, PUNCT_FIRST } },
    { "spark2_5", 0, { TRIPLES, CJK, PUNCT_WORD "|[\\r\\n]|\\s+(?!\\S)|\\s+", DIGIT } },
    { "youtu", IGNORE_MERGES, { SCRIPTS_APART, CASED(CONTR "?") "|\\p{N}" OTHER "[\\r\\n/]*" TAIL } },
    { "falcon", 0, { punct_runs, GPT2, "[0-9][0-9][0-9]" } },
    { "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2", 0, { DIGIT, GPT2 } },
    { "gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert mpt olmo "
      "jais trillion granite-docling exaone4 jina-v1-en jina-v2-code roberta-bpe", 0, { GPT2 } },
    { "qwen2", NFC, { CL100K(DIGIT) } },
    { "stablelm2 deepseek-r1-qwen kormo f2llmv2 megrez hunyuan solar-open grok-2", 0, { CL100K(DIGIT) } },
    { "qwen35", 0,
      { CONTR "|" START "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" TAIL } },
    { "poro-chat bloom gpt3-finnish", 0, { NOT_PUNCT } },
    { "viking", 0, { NOT_PUNCT, DIGIT } },
    { "tekken", IGNORE_MERGES | ADD_BOS, { TEKKEN } },
    { "chameleon", ADD_BOS,
      { "<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", DIGIT,
        "[\\p{P}!-/:-@\\[-`{-~]", GPT2 } },
    { "gpt-4o llama4 kanana2 talkie minimax-m2", 0, { O200K } },
    { "granite-embed-multi-97m", IGNORE_MERGES, { O200K } },
    { "tiny_aya cohere2moe", 0, { "\\d{1,3}(?=(?:\\d{3})*\\b)", O200K } },
    { "kimi-k2", 0,
      { "[\\p{Han}]+|" START KUP "*" KLOW "+" CONTR "?|" START KUP "+" KLOW "*" CONTR "?|\\p{N}{1,3}"
        OTHER "[\\r\\n]*" TAIL } },
    { "superbpe", 0, { "\\p{N}+", "(?=(\\d{3})+(?!\\d))" } },
    { "bailingmoe bailingmoe2 llada-moe", 0,
      { "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*"
        "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+" } },
    { "seed-coder", 0, { CONTR "|" WORD "|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" TAIL } },
    { "ufakzeka", 0, { WORD "|" DIGIT OTHER "[\\r\\n]*" TAIL } },
    { "afmoe", 0, { digits_by_three, UNSPACED, PUNCT_FIRST } },
    { "laguna", 0, { LINES, CL100K(DIGIT) } },
    { "exaone-moe", 0,
      { CONTR "|" START "(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}" OTHER "[\\r\\n/]?"
        "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+" } },
    { "minicpm5", IGNORE_MERGES, { TRIPLES, CL100K("\\p{N}+") } },
    { "gemma4 granite-embed-multi-311m", ADD_BOS | MARKS, { LINES } },
    { "sarvam-moe", MARKS, { LINES } },
};
/* clang-format on */

/* Whether `name` is one of the space-separated `names`. */
static bool is_among(const char *names, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = names; n && (p = strstr(p, name)); p += n)
        if ((p == names || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
            return true;
    return false;
}

static int add_split(qn_tokenizer *t, const char *pattern, qn_error *err)
{
    if (pattern == digits_by_three) {
        qn_tok_add_pre(t, QN_PRE_DIGIT_TRIPLES);
        return QN_OK;
    }
    if (pattern == punct_runs) {
        qn_tok_add_pre(t, QN_PRE_PUNCT)->behavior = QN_CONTIGUOUS;
        return QN_OK;
    }
    qn_pre *step = qn_tok_add_pre(t, QN_PRE_SPLIT);
    step->re = qn_regex_open(pattern, strlen(pattern), QN_RX_PLAIN, err);
    return step->re ? QN_OK : QN_ERR_FORMAT;
}

int qn_tok_gguf_pre(qn_tokenizer *t, const char *name, qn_bpe_options *o, int *add_bos,
                    qn_error *err)
{
    if (!name || !*name) {
        qn_log(QN_LOG_WARN, "GGUF: tokenizer.ggml.pre is missing: the old default split is used");
        name = "default";
    }
    size_t i = 0, n = sizeof known / sizeof *known;
    while (i < n && !is_among(known[i].names, name))
        i++;
    if (i == n || strchr(name, ' '))
        return qn_fail(err, QN_ERR_UNSUPPORTED, "GGUF: tokenizer.ggml.pre \"%.60s\" is not known",
                       name);
    o->ignore_merges = known[i].flags & IGNORE_MERGES;
    o->byte_fallback = known[i].flags & MARKS;
    o->raw_bytes = !o->byte_fallback;
    *add_bos = (known[i].flags & ADD_BOS) != 0;
    if (known[i].flags & NFC)
        qn_tok_add_norm(t, QN_NORM_NFC);
    int rc = QN_OK;
    for (int k = 0; k < 6 && known[i].pattern[k] && rc == QN_OK; k++)
        rc = add_split(t, known[i].pattern[k], err);
    return rc;
}
