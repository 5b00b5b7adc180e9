/* Attention of many rows over one tile: keys and values are laid out anew, then two products. */

#pragma once

#include "native_tiles.h"

#if defined(HAVE_VECTORS)

/* Asks for elements of the next tile while this one is computed: blocks lie apart, and the CPU's own prefetcher starts
 * anew in each. */
INLINE void ask_element(const T *next, const int dim) {
    for (int byte = 0; byte < dim * (int)sizeof(T); byte += 64) _mm_prefetch((const char *)next + byte, _MM_HINT_T1);
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
#endif
