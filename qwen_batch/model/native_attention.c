/* Attention over blocks of keys and values, for a CPU with 512-bit vectors: prompts, single tokens, shared prefixes.
 *
 * Softmax as it goes over tiles of 64 keys (Milakov and Gimelshein 2018; Dao et al. 2022). The rows of a tile are
 * (token, query head of the group) pairs that share a KV head. Scores and sums are floats; weights of values are
 * rounded to T. A row's arithmetic depends on its own keys alone: tiles begin at multiples of 64 keys whatever the
 * step, and a masked key adds an exact zero. So the answer is the same to the bit for any batch and any chunking.
 */

#include <omp.h>

#include "native_parts.h"

#define KEYS 64 /* keys of a tile */
#define MAX_ROWS 96
#define MAX_DIM 256
#define FAR_BELOW (-1e30f) /* the score of a hidden key */
#define HEADROOM 8.0f      /* exponent of the largest weight */
#define STATE_LANES 32     /* beside the accumulator: 16 partial sums, the maximum, padding */

#if defined(HAVE_VECTORS)

typedef struct {
    T queries[MAX_ROWS * MAX_DIM];
    int32_t keys[MAX_DIM / WORD * KEYS];   /* [words of dim][key] */
    int32_t values[KEYS / WORD * MAX_DIM]; /* [words of keys][dim] */
    float scores[MAX_ROWS * KEYS];
    T weights[MAX_ROWS * KEYS];
    float sums[MAX_ROWS * MAX_DIM];
    __m512 totals[MAX_ROWS];
    float tops[MAX_ROWS];
    const T *at[KEYS];   /* where the keys of a tile stand */
    const T *next[KEYS]; /* those of the tile after it */
} Scratch;

/* Asks for elements of the next tile while this one is computed: blocks lie apart, and the CPU's own prefetcher starts
 * anew in each. */
INLINE void ask_element(const T *next, const int dim) {
    for (int byte = 0; byte < dim * (int)sizeof(T); byte += 64) _mm_prefetch((const char *)next + byte, _MM_HINT_T1);
}

/* Single tokens ask for lines in the order in which they stand, while 16 keys (or values) are computed: for those 16 of
 * the next tile, as far as the second cache; and, where all heads are computed together, for the 16 that come next, into
 * the first. Heads are read one after the other, and what the CPU's prefetcher makes of that order kept memory from its
 * rate: 64 contexts of 320 tokens took 18 ms for all layers, 24 in scattered blocks, and now 12 and 15 (two Zen 4 cores,
 * demo, 2026-11-30). */
typedef struct {
    const char *far;
    int64_t near;        /* from `far` to what comes next, in bytes */
    int64_t gap;         /* of other heads between keys, in bytes */
    int64_t line, lines; /* of a key */
} Lines;

INLINE Lines lines_of(const T *far, const T *near, int64_t heads, int64_t kv_heads, const int dim) {
    const int64_t bytes = dim * sizeof(T);
    const int64_t distance = (const char *)near - (const char *)far;
    return (Lines){(const char *)far, distance, (kv_heads - heads) * bytes, 0, heads * bytes / 64};
}

INLINE void ask_lines(Lines *x, const int count) {
    for (int i = 0; i < count; i++) {
        _mm_prefetch(x->far, _MM_HINT_T1);
        if (!x->gap) _mm_prefetch(x->far + x->near, _MM_HINT_T0);
        x->far += 64;
        if (++x->line == x->lines) x->line = 0, x->far += x->gap;
    }
}

/* 16 rows of 16 words -> 16 columns, written `stride` words apart. */
INLINE void transpose_words(const __m512i r[16], int32_t *to, int64_t stride) {
    __m512i a[16], b[16];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
        a[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        a[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
        b[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
        b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
        b[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
        b[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) { /* b[4 * g + i]: column i of each quarter, rows 4g .. 4g + 3 */
        __m512i low = _mm512_shuffle_i32x4(b[i], b[4 + i], 0x88), high = _mm512_shuffle_i32x4(b[i], b[4 + i], 0xdd);
        __m512i low2 = _mm512_shuffle_i32x4(b[8 + i], b[12 + i], 0x88);
        __m512i high2 = _mm512_shuffle_i32x4(b[8 + i], b[12 + i], 0xdd);
        _mm512_storeu_si512(to + i * stride, _mm512_shuffle_i32x4(low, low2, 0x88));
        _mm512_storeu_si512(to + (8 + i) * stride, _mm512_shuffle_i32x4(low, low2, 0xdd));
        _mm512_storeu_si512(to + (4 + i) * stride, _mm512_shuffle_i32x4(high, high2, 0x88));
        _mm512_storeu_si512(to + (12 + i) * stride, _mm512_shuffle_i32x4(high, high2, 0xdd));
    }
}

/* The tile's keys, by words of their dimension: scratch->keys[word][key]. Keys from `count` on become zero. */
INLINE void pack_keys(Scratch *s, int count, const int dim) {
    const int words = dim / WORD;
    for (int first = 0; first < KEYS; first += 16) {
        for (int i = first; i < first + 16; i++) ask_element(s->next[i], dim);
        for (int word = 0; word < words; word += 16) {
            __mmask16 mask = lanes_left(words - word);
            int32_t spare[16 * 16], *to = s->keys + word * KEYS + first;
            __m512i rows[16];
#pragma GCC unroll 16
            for (int i = 0; i < 16; i++)
                rows[i] = first + i < count ? _mm512_maskz_loadu_epi32(mask, s->at[first + i] + word * WORD)
                                            : _mm512_setzero_si512();
            if (mask == 0xffff) transpose_words(rows, to, KEYS);
            else {
                transpose_words(rows, spare, 16);
                for (int i = 0; i < words - word; i++) memcpy(to + i * KEYS, spare + i * 16, 64);
            }
        }
    }
}

/* The tile's values, by words of keys: scratch->values[word][dim]. */
INLINE void pack_values(Scratch *s, int count, int64_t distance, const int dim) {
    for (int word = 0; word < KEYS / WORD; word++) {
        int32_t *to = s->values + word * dim;
        for (int i = 0; i < WORD; i++) ask_element(s->next[word * WORD + i] + distance, dim);
        if (word * WORD >= count) {
            memset(to, 0, dim * sizeof(int32_t));
            continue;
        }
        const T *first = s->at[word * WORD] + distance;
#if WORD == 2
        const T *second = word * WORD + 1 < count ? s->at[word * WORD + 1] + distance : 0;
        for (int d = 0; d < dim; d += 16) {
            __m512i a = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(first + d)));
            if (second) {
                __m512i b = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(second + d)));
                a = _mm512_or_si512(a, _mm512_slli_epi32(b, 16));
            }
            _mm512_storeu_si512(to + d, a);
        }
#else
        memcpy(to, first, dim * sizeof(int32_t));
#endif
    }
}

/* 2^x for x <= HEADROOM, 0 for very negative x; polynomial by minimising the largest relative error, 3e-6. */
INLINE __m512 exp2_weight(__m512 x) {
#if WORD == 2
    __m512 n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), f = _mm512_sub_ps(x, n);
    __m512 p = _mm512_set1_ps(9.57010195e-3f);
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(5.59178616e-2f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(2.40247448e-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(6.93121815e-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(9.99999261e-1f));
    return _mm512_scalef_ps(p, n);
#else
    return exp2_lanes(x);
#endif
}

/* A row's reference, which was far below its scores, becomes their maximum: its sums so far shrink. */
INLINE void raise_top(Scratch *s, int row, float top, float scale, const int dim) {
    __m512 shrink = exp2_weight(_mm512_set1_ps((s->tops[row] - top) * scale));
    float *sums = s->sums + row * dim;
    s->totals[row] = _mm512_mul_ps(s->totals[row], shrink);
    for (int d = 0; d < dim; d += 16) _mm512_storeu_ps(sums + d, _mm512_mul_ps(_mm512_loadu_ps(sums + d), shrink));
    s->tops[row] = top;
}

/* Scores of a row over a tile -> weights of its values, as powers of two over the row's reference. That follows the
 * largest score only when one stands more than HEADROOM above it: rarely after the first tiles. */
INLINE void weigh(Scratch *s, int row, __m512 x[KEYS / 16], int visible, float scale, const int dim) {
    T *weights = s->weights + row * KEYS;
    if (visible <= 0) {
        memset(weights, 0, KEYS * sizeof(T));
        return;
    }
    if (visible < KEYS) {
        const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#pragma GCC unroll 4
        for (int v = 0; v < KEYS / 16; v++) {
            __mmask16 hidden = _mm512_cmp_epi32_mask(lanes, _mm512_set1_epi32(visible - 16 * v), _MM_CMPINT_NLT);
            x[v] = _mm512_mask_mov_ps(x[v], hidden, _mm512_set1_ps(FAR_BELOW));
        }
    }
    __m512 top = _mm512_max_ps(_mm512_max_ps(x[0], x[1]), _mm512_max_ps(x[2], x[3]));
    if (_mm512_cmp_ps_mask(top, _mm512_set1_ps(s->tops[row] + HEADROOM / scale), _CMP_GT_OQ))
        raise_top(s, row, _mm512_reduce_max_ps(top), scale, dim);
    __m512 offset = _mm512_set1_ps(-s->tops[row] * scale), total = s->totals[row];
#pragma GCC unroll 4
    for (int v = 0; v < KEYS / 16; v++) {
        __m512 p = exp2_weight(_mm512_fmadd_ps(x[v], _mm512_set1_ps(scale), offset));
        total = _mm512_add_ps(total, p);
        store_lanes(weights + 16 * v, 0xffff, p);
    }
    s->totals[row] = total;
}

/* to[rows][columns] += a[rows][words] * b[words][columns], 16 * LANES columns of them, all strides in elements. */
INLINE void sum_tile(const T *a, int64_t a_stride, const int32_t *b, int64_t b_stride, float *to, int64_t to_stride,
                     int words, const int rows, const int lanes) {
    __m512 sums[6][4];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < lanes; v++) sums[r][v] = _mm512_loadu_ps(to + r * to_stride + 16 * v);
    for (int word = 0; word < words; word++) {
        __m512i columns[4];
#pragma GCC unroll 4
        for (int v = 0; v < lanes; v++) columns[v] = _mm512_loadu_si512(b + word * b_stride + 16 * v);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            __m512i x = word_of(a + r * a_stride + word * WORD);
#pragma GCC unroll 4
            for (int v = 0; v < lanes; v++) sums[r][v] = dot(sums[r][v], x, columns[v]);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < lanes; v++) _mm512_storeu_ps(to + r * to_stride + 16 * v, sums[r][v]);
}

INLINE void sum_rows(const T *a, int64_t a_stride, const int32_t *b, int64_t b_stride, float *to, int64_t to_stride,
                     int words, int rows, const int lanes) {
#define ROWS(N) sum_tile(a, a_stride, b, b_stride, to, to_stride, words, N, lanes)
    for (; rows >= 6; rows -= 6, a += 6 * a_stride, to += 6 * to_stride) ROWS(6);
    switch (rows) {
    case 5: ROWS(5); break;
    case 4: ROWS(4); break;
    case 3: ROWS(3); break;
    case 2: ROWS(2); break;
    case 1: ROWS(1); break;
    default: break;
    }
}

#define MAX_SINGLE 4 /* rows for which scores are summed across lanes instead of turning the keys */

/* 16 vectors -> the sum over the lanes of each; that of x[i + 4 * k] stands in lane 4 * i + k. */
INLINE __m512 sum_lanes(const __m512 x[16]) {
    __m512 y[8], z[4], u[2];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) y[i] = _mm512_unpacklo_ps(x[i], x[i + 8]) + _mm512_unpackhi_ps(x[i], x[i + 8]);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) z[i] = _mm512_unpacklo_ps(y[i], y[i + 4]) + _mm512_unpackhi_ps(y[i], y[i + 4]);
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++)
        u[i] = _mm512_shuffle_f32x4(z[2 * i], z[2 * i + 1], 0x88) + _mm512_shuffle_f32x4(z[2 * i], z[2 * i + 1], 0xdd);
    return _mm512_shuffle_f32x4(u[0], u[1], 0x88) + _mm512_shuffle_f32x4(u[0], u[1], 0xdd);
}

/* Scores of few rows of each head: keys are multiplied where they stand, 16 of them at a time with all their heads. */
INLINE void score_singles(Scratch *s, int64_t heads, int64_t kv_heads, const int rows, int count, int64_t distance,
                          const int dim) {
    const int vectors = dim / WORD / 16;
    for (int first = 0; first < count; first += 16) {
        const T *near = first + 16 < count ? s->at[first + 16] : s->at[0] + distance;
        Lines lines = lines_of(s->next[first], near, heads, kv_heads, dim);
        for (int head = 0; head < heads; head++) {
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) {
                const T *query = s->queries + (head * rows + r) * dim;
                __m512 sums[16];
#pragma GCC unroll 16
                for (int i = 0; i < 16; i++) {
                    const T *key = s->at[first + i] + head * dim;
                    __m512 sum = _mm512_setzero_ps();
                    ask_lines(&lines, (r + 1) * vectors / rows - r * vectors / rows);
#pragma GCC unroll 8
                    for (int v = 0; v < vectors; v++)
                        sum = dot(sum, _mm512_loadu_si512(query + v * 16 * WORD),
                                  _mm512_loadu_si512(key + v * 16 * WORD));
                    sums[i / 4 + i % 4 * 4] = sum;
                }
                _mm512_storeu_ps(s->scores + (head * rows + r) * KEYS + first, sum_lanes(sums));
            }
        }
    }
}

/* Sums of few rows stand in the order in which pairs of values are interleaved: 64 columns to and from it. */
INLINE void reorder(float *sums, int back) {
#if WORD == 2
    const __m512i low = _mm512_setr_epi32(0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
    const __m512i front = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i first = back ? front : low;
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(back ? 8 : 4));
    for (int v = 0; v < 64; v += 32) {
        __m512 x = _mm512_loadu_ps(sums + v), y = _mm512_loadu_ps(sums + v + 16);
        _mm512_storeu_ps(sums + v, _mm512_permutex2var_ps(x, first, y));
        _mm512_storeu_ps(sums + v + 16, _mm512_permutex2var_ps(x, second, y));
    }
#endif
}

/* sums += weights * values of few rows of each head; 16 keys at a time, each value read where it stands. */
INLINE void mix_singles(Scratch *s, int64_t heads, int64_t kv_heads, const int rows, int count, int64_t distance,
                        const int dim) {
    for (int first = 0; first < count; first += 16) {
        const T *near = first + 16 < count ? s->at[first + 16] + distance : s->next[0];
        Lines lines = lines_of(s->next[first] + distance, near, heads, kv_heads, dim);
        for (int head = 0; head < heads; head++)
            for (int d = 0; d < dim; d += 64) {
                const T *weights = s->weights + head * rows * KEYS + first;
                float *to = s->sums + head * rows * dim + d;
                __m512 sums[MAX_SINGLE][4];
#pragma GCC unroll 4
                for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
                    for (int v = 0; v < 4; v++) sums[r][v] = _mm512_loadu_ps(to + r * dim + 16 * v);
#pragma GCC unroll 2
                for (int i = 0; i < 16; i += WORD) {
                    const T *value = s->at[first + i] + distance + head * dim + d;
                    __m512i columns[4];
                    ask_lines(&lines, 4);
#if WORD == 2
                    const T *other = s->at[first + i + 1] + distance + head * dim + d;
#pragma GCC unroll 2
                    for (int v = 0; v < 4; v += 2) {
                        __m512i a = _mm512_loadu_si512(value + 16 * v), b = _mm512_loadu_si512(other + 16 * v);
                        columns[v] = _mm512_unpacklo_epi16(a, b);
                        columns[v + 1] = _mm512_unpackhi_epi16(a, b);
                    }
#else
#pragma GCC unroll 4
                    for (int v = 0; v < 4; v++) columns[v] = _mm512_loadu_si512(value + 16 * v);
#endif
#pragma GCC unroll 4
                    for (int r = 0; r < rows; r++) {
                        __m512i weight = word_of(weights + r * KEYS + i);
#pragma GCC unroll 4
                        for (int v = 0; v < 4; v++) sums[r][v] = dot(sums[r][v], weight, columns[v]);
                    }
                }
#pragma GCC unroll 4
                for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
                    for (int v = 0; v < 4; v++) _mm512_storeu_ps(to + r * dim + 16 * v, sums[r][v]);
            }
    }
}

typedef struct {
    const Plan *plan;
    const T *qkv;
    int64_t width;          /* of a row of qkv */
    const T *keys, *values; /* [slots, kv_heads, dim] */
    int64_t query_heads, kv_heads;
    T *out; /* [rows of qkv, query_heads * dim] */
} Step;

INLINE float *state_of(const Step *p, int64_t token, int64_t head, const int dim) {
    return p->plan->states + (token * p->query_heads + head) * (dim + STATE_LANES);
}

INLINE void begin_rows(Scratch *s, const Step *p, const Work *w, const int dim) {
    const int64_t group = p->query_heads / p->kv_heads;
    int row = 0;
    for (int64_t h = w->first_head; h < w->first_head + w->heads; h++)
        for (int64_t t = 0; t < w->count; t++)
            for (int64_t head = h * group; head < (h + 1) * group; head++, row++) {
                int64_t token = p->plan->tokens[w->first + t];
                memcpy(s->queries + row * dim, p->qkv + token * p->width + head * dim, dim * sizeof(T));
                if (w->continues) {
                    const float *state = state_of(p, token, head, dim);
                    memcpy(s->sums + row * dim, state, dim * sizeof(float));
                    s->totals[row] = _mm512_loadu_ps(state + dim);
                    s->tops[row] = state[dim + 16];
                } else {
                    memset(s->sums + row * dim, 0, dim * sizeof(float));
                    s->totals[row] = _mm512_setzero_ps();
                    s->tops[row] = FAR_BELOW;
                }
            }
}

INLINE void end_rows(const Scratch *s, const Step *p, const Work *w, const int dim) {
    const int64_t group = p->query_heads / p->kv_heads;
    int row = 0;
    for (int64_t h = w->first_head; h < w->first_head + w->heads; h++)
        for (int64_t t = 0; t < w->count; t++)
            for (int64_t head = h * group; head < (h + 1) * group; head++, row++) {
                int64_t token = p->plan->tokens[w->first + t];
                const float *sums = s->sums + row * dim;
                if (w->pauses) {
                    float *state = state_of(p, token, head, dim);
                    memcpy(state, sums, dim * sizeof(float));
                    _mm512_storeu_ps(state + dim, s->totals[row]);
                    state[dim + 16] = s->tops[row];
                    continue;
                }
                __m512 total = _mm512_set1_ps(_mm512_reduce_add_ps(s->totals[row]));
                T *to = p->out + (token * p->query_heads + head) * dim;
                for (int d = 0; d < dim; d += 16)
                    store_lanes(to + d, 0xffff, _mm512_div_ps(_mm512_loadu_ps(sums + d), total));
            }
}

/* at: where the keys of a tile stand; beyond the last key others of the tile again, whose weight will be 0. */
INLINE void find_keys(const T **at, const Step *p, const Work *w, int64_t start, int64_t head, const int dim) {
    const Plan *plan = p->plan;
    const int64_t stride = p->kv_heads * dim, *block = plan->tables + w->table * plan->max_blocks + start / plan->block_size;
    const T *keys = p->keys + (w->first_head + head) * dim, *key;
    const int count = w->end - start < KEYS ? (int)(w->end - start) : KEYS;
    int64_t offset = start % plan->block_size;
    for (int i = 0; i < count; block++, offset = 0) {
        key = keys + (*block * plan->block_size + offset) * stride;
        for (int64_t j = offset; j < plan->block_size && i < count; j++, i++, key += stride) at[i] = key;
    }
    for (int i = count; i < KEYS; i++) at[i] = i < 16 ? at[count - 1] : at[i - 16];
}

/* Scores of up to 6 rows over the packed keys, weighed while they are in registers. `seen`: how many keys each row sees,
 * less those before the tile. */
INLINE void score_packed(Scratch *s, int row, const int *seen, float scale, const int rows, const int dim) {
    __m512 scores[6][KEYS / 16];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < KEYS / 16; v++) scores[r][v] = _mm512_setzero_ps();
    for (int word = 0; word < dim / WORD; word++) {
        __m512i keys[KEYS / 16];
#pragma GCC unroll 4
        for (int v = 0; v < KEYS / 16; v++) keys[v] = _mm512_loadu_si512(s->keys + word * KEYS + 16 * v);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            __m512i x = word_of(s->queries + (row + r) * dim + word * WORD);
#pragma GCC unroll 4
            for (int v = 0; v < KEYS / 16; v++) scores[r][v] = dot(scores[r][v], x, keys[v]);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) weigh(s, row + r, scores[r], seen[r], scale, dim);
}

/* Many rows: keys and values are laid out anew, then two products. */
INLINE void attend_packed(Scratch *s, const Step *p, const Work *w, int64_t start, int first_row, int rows, int count,
                          const int dim) {
    const int group = (int)(p->query_heads / p->kv_heads);
    const float scale = 1.44269504f / sqrtf((float)dim);
    const T *weights = s->weights + first_row * KEYS;
    float *sums = s->sums + first_row * dim;
    int seen[MAX_ROWS];
    for (int r = 0; r < rows; r++) seen[r] = (int)(p->plan->visible[w->first + r / group] - start);
    pack_keys(s, count, dim);
    for (int r = 0; r < rows; r += 6) {
#define SCORES(N) score_packed(s, first_row + r, seen + r, scale, N, dim)
        switch (rows - r) {
        case 1: SCORES(1); break;
        case 2: SCORES(2); break;
        case 3: SCORES(3); break;
        case 4: SCORES(4); break;
        case 5: SCORES(5); break;
        default: SCORES(6); break;
        }
    }
    pack_values(s, count, p->values - p->keys, dim);
#define LANES(N) sum_rows(weights, KEYS, s->values + d, dim, sums + d, dim, (count + WORD - 1) / WORD, rows, N)
    for (int d = 0; d < dim; d += 64) switch (dim - d) {
        case 16: LANES(1); break;
        case 32: LANES(2); break;
        case 48: LANES(3); break;
        default: LANES(4); break;
        }
}

/* Few rows of each head: keys and values are used where they stand. */
INLINE void attend_in_place(Scratch *s, const Step *p, const Work *w, int64_t start, const int rows, int count,
                            const int dim) {
    const float scale = 1.44269504f / sqrtf((float)dim);
    const int64_t distance = p->values - p->keys, group = p->query_heads / p->kv_heads;
    score_singles(s, w->heads, p->kv_heads, rows, count, distance, dim);
    for (int row = 0; row < w->heads * rows; row++) {
        __m512 scores[KEYS / 16];
#pragma GCC unroll 4
        for (int v = 0; v < KEYS / 16; v++) scores[v] = _mm512_loadu_ps(s->scores + row * KEYS + 16 * v);
        weigh(s, row, scores, (int)(p->plan->visible[w->first + row % rows / group] - start), scale, dim);
    }
    mix_singles(s, w->heads, p->kv_heads, rows, count, distance, dim);
}

/* `after` is what this thread does next. */
INLINE void attend_piece(Scratch *s, const Step *p, const Work *w, const Work *after, const int dim) {
    const int rows = (int)(w->count * (p->query_heads / p->kv_heads));
    const int packed = rows > MAX_SINGLE || dim % 64 || p->plan->exact;
    begin_rows(s, p, w, dim);
    if (!packed && w->continues)
        for (int at = 0; at < rows * w->heads * dim; at += 64) reorder(s->sums + at, 0);
    for (int64_t start = w->begin; start < w->end; start += KEYS) {
        const int count = w->end - start < KEYS ? (int)(w->end - start) : KEYS, is_last = start + KEYS >= w->end;
        for (int h = 0; h < (packed ? w->heads : 1); h++) {
            find_keys(s->at, p, w, start, h, dim);
            if (!is_last) find_keys(s->next, p, w, start + KEYS, h, dim);
            else if (h < after->heads) find_keys(s->next, p, after, after->begin, h, dim);
            if (packed) attend_packed(s, p, w, start, h * rows, rows, count, dim);
            else if (rows == 1) attend_in_place(s, p, w, start, 1, count, dim);
            else if (rows == 2) attend_in_place(s, p, w, start, 2, count, dim);
            else if (rows == 3) attend_in_place(s, p, w, start, 3, count, dim);
            else attend_in_place(s, p, w, start, 4, count, dim);
        }
    }
    if (!packed)
        for (int at = 0; at < rows * w->heads * dim; at += 64) reorder(s->sums + at, 1);
    end_rows(s, p, w, dim);
}

static __attribute__((noinline)) void attend_any(Scratch *s, const Step *p, const Work *w, const Work *after, int dim) {
    attend_piece(s, p, w, after, dim);
}
static __attribute__((noinline)) void attend_64(Scratch *s, const Step *p, const Work *w, const Work *after) {
    attend_piece(s, p, w, after, 64);
}
static __attribute__((noinline)) void attend_128(Scratch *s, const Step *p, const Work *w, const Work *after) {
    attend_piece(s, p, w, after, 128);
}

INLINE int64_t take_one(int64_t *next) { return __atomic_fetch_add(next, 1, __ATOMIC_RELAXED); }

/* Threads take pieces one ahead, so that each knows for what to ask. */
static void attend_all(const Step *step, const Work *work, int64_t count, int64_t dim) {
    int64_t next = 0;
#pragma omp parallel
    {
        Scratch scratch;
        for (int64_t i = take_one(&next), after; i < count; i = after) {
            after = take_one(&next);
            const Work *w = work + i, *then = after < count ? work + after : w;
            if (dim == 64) attend_64(&scratch, step, w, then);
            else if (dim == 128) attend_128(&scratch, step, w, then);
            else attend_any(&scratch, step, w, then, (int)dim);
        }
    }
}

/* dim is a multiple of 16. */
void attend(const Plan *plan, int64_t last_layer, const T *qkv, int64_t width, const T *keys, const T *values,
            int64_t query_heads, int64_t kv_heads, int64_t dim, T *out) {
    const Step step = {plan, qkv, width, keys, values, query_heads, kv_heads, out};
    if (plan->num_shared) attend_all(&step, plan->shared, plan->num_shared, dim);
    if (last_layer) attend_all(&step, plan->last, plan->num_last, dim);
    else attend_all(&step, plan->own, plan->num_own, dim);
}
#endif

/* Whether `attend` and the products are there. */
int64_t have_vectors(void) {
#if defined(HAVE_VECTORS)
    return 1;
#else
    return 0;
#endif
}
