/* Attention over one tile of keys: what prompts and single tokens share. */

#pragma once

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

typedef struct {
    const Plan *plan;
    const T *qkv;
    int64_t width;          /* of a row of qkv */
    const T *keys, *values; /* [slots, kv_heads, dim] */
    int64_t query_heads, kv_heads;
    T *out; /* [rows of qkv, query_heads * dim] */
} Step;

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
#endif
