/* unicode.h - character properties that tokenizers are defined with: categories, word and space sets,
 * lower case, scripts, normal forms. Data in unicode_tables.c; nothing here allocates or fails. */
#ifndef QN_TOKENIZER_UNICODE_H
#define QN_TOKENIZER_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* General categories, in the low five bits of qn_uni(). */
enum {
    QN_CN,
    QN_LU,
    QN_LL,
    QN_LT,
    QN_LM,
    QN_LO,
    QN_MN,
    QN_MC,
    QN_ME,
    QN_ND,
    QN_NL,
    QN_NO,
    QN_PC,
    QN_PD,
    QN_PS,
    QN_PE,
    QN_PI,
    QN_PF,
    QN_PO,
    QN_SM,
    QN_SC,
    QN_SK,
    QN_SO,
    QN_ZS,
    QN_ZL,
    QN_ZP,
    QN_CC,
    QN_CF,
    QN_CO,
    QN_CS
};

/* Further flags. PUNCT, MARK, MN and CTL are the frozen sets of the BERT-style steps. */
#define QN_UNI_WORD  (1u << 5) /* \w: letters, marks, decimal digits, connectors, joiners */
#define QN_UNI_PUNCT (1u << 6)
#define QN_UNI_MARK  (1u << 7)
#define QN_UNI_MN    (1u << 8)
#define QN_UNI_CTL   (1u << 9) /* controls and formats that text cleaning drops */
#define QN_UNI_SPACE (1u << 10)

/* Sets of categories, as masks of 1 << category. */
#define QN_SET(c) (1u << (c))
#define QN_SET_L  (QN_SET(QN_LU) | QN_SET(QN_LL) | QN_SET(QN_LT) | QN_SET(QN_LM) | QN_SET(QN_LO))
#define QN_SET_M  (QN_SET(QN_MN) | QN_SET(QN_MC) | QN_SET(QN_ME))
#define QN_SET_N  (QN_SET(QN_ND) | QN_SET(QN_NL) | QN_SET(QN_NO))
#define QN_SET_P                                                                                   \
    (QN_SET(QN_PC) | QN_SET(QN_PD) | QN_SET(QN_PS) | QN_SET(QN_PE) | QN_SET(QN_PI) |               \
     QN_SET(QN_PF) | QN_SET(QN_PO))
#define QN_SET_S (QN_SET(QN_SM) | QN_SET(QN_SC) | QN_SET(QN_SK) | QN_SET(QN_SO))

typedef struct qn_uni_case {
    uint32_t start;
    uint16_t count;
    uint8_t step;
    int32_t delta;
} qn_uni_case;

extern const uint32_t qn_uni_runs[];
extern const int qn_uni_n_runs;
extern const uint16_t qn_uni_index[];
extern const qn_uni_case qn_uni_lower[];
extern const int qn_uni_n_lower;
extern const uint32_t qn_uni_scripts[];
extern const int qn_uni_n_scripts;

uint32_t qn_uni(uint32_t cp); /* category | flags */

static inline bool qn_uni_in(uint32_t flags, uint32_t set)
{
    return (set >> (flags & 31)) & 1;
}

static inline bool qn_uni_is_space(uint32_t cp)
{
    return cp < 0x80 ? cp == ' ' || (cp >= 9 && cp <= 13) : (qn_uni(cp) & QN_UNI_SPACE) != 0;
}

uint32_t qn_uni_to_lower(uint32_t cp); /* the one-character mapping; U+0130 stays */
#define QN_UNI_ANY_SCRIPT 255          /* the space, and what the table of scripts does not know */
int qn_uni_script(uint32_t cp);
bool qn_uni_is_cjk(uint32_t cp); /* the blocks that BERT sets apart */

/* A character whose compatibility decomposition is younger than the tables tokenizers were made with:
 * the normal forms KC and KD leave it alone. */
bool qn_uni_keep_compat(uint32_t cp);

#endif
