/* Attention of few rows over one tile: keys and values are used where they stand. */

#pragma once

#include "native_tiles.h"

#if defined(HAVE_VECTORS)

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
#endif
