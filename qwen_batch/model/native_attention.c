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
#define STATE_LANES 32 /* beside the accumulator: 16 partial sums, the maximum, padding */

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

/* Asks for elements of the next tile while this one is computed, as far as the second cache: blocks lie apart, and the
 * CPU's own prefetcher starts anew in each. 64 contexts of 320 tokens in scattered blocks: 23 ms for all layers, 30 ms
 * where each tile was read through beforehand instead (two Zen 4 cores, demo, 2026-11-30). */
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

/* to[rows][columns] (+)= a[rows][words] * b[words][columns], 16 * LANES columns of them, all strides in elements. */
INLINE void sum_tile(const T *a, int64_t a_stride, const int32_t *b, int64_t b_stride, float *to, int64_t to_stride,
                     int words, const int add, const int rows, const int lanes) {
    __m512 sums[6][4];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < lanes; v++)
            sums[r][v] = add ? _mm512_loadu_ps(to + r * to_stride + 16 * v) : _mm512_setzero_ps();
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

INLINE void sum_rows(const T *a, int64_t a_stride, const int32_t *b, int64_t b_stride, float *to,
                          int64_t to_stride, int words, const int add, int rows, const int lanes) {
#define ROWS(N) sum_tile(a, a_stride, b, b_stride, to, to_stride, words, add, N, lanes)
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

/* Scores of few rows: each key is multiplied where it stands. */
INLINE void score_single(Scratch *s, int first_row, int rows, int count, const int dim) {
    const int vectors = dim / WORD / 16;
    for (int first = 0; first < count; first += 16) {
        for (int r = first_row; r < first_row + rows; r++) {
            __m512 sums[16];
#pragma GCC unroll 16
            for (int i = 0; i < 16; i++) {
                const T *key = s->at[first + i];
                __m512 sum = _mm512_setzero_ps();
                if (r == first_row) ask_element(s->next[first + i], dim);
#pragma GCC unroll 8
                for (int v = 0; v < vectors; v++)
                    sum = dot(sum, _mm512_loadu_si512(s->queries + r * dim + v * 16 * WORD),
                              _mm512_loadu_si512(key + v * 16 * WORD));
                sums[i / 4 + i % 4 * 4] = sum;
            }
            _mm512_storeu_ps(s->scores + r * KEYS + first, sum_lanes(sums));
        }
    }
}

/* Each pair of vectors -> their lanes that `first` names, then those that `second` names. */
INLINE void reorder(__m512 sums[MAX_SINGLE][4], __m512i first, __m512i second, const int rows) {
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < 4; v += 2) {
            __m512 x = sums[r][v], y = sums[r][v + 1];
            sums[r][v] = _mm512_permutex2var_ps(x, first, y);
            sums[r][v + 1] = _mm512_permutex2var_ps(x, second, y);
        }
}

/* sums += weights * values of few rows, 32 columns at a time, each value read where it stands. */
INLINE void mix_single(Scratch *s, int first_row, const int rows, int count, int64_t distance, const int dim) {
#if WORD == 2
    const __m512i low = _mm512_setr_epi32(0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(4));
    const __m512i front = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i back = _mm512_add_epi32(front, _mm512_set1_epi32(8));
#endif
    float *to = s->sums + first_row * dim;
    const T *weights = s->weights + first_row * KEYS;
    for (int d = 0; d < dim; d += 64) {
        __m512 sums[MAX_SINGLE][4];
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++) sums[r][v] = _mm512_loadu_ps(to + r * dim + d + 16 * v);
#if WORD == 2 /* in the order in which pairs of keys are interleaved */
        reorder(sums, low, high, rows);
#endif
        for (int word = 0; word * WORD < count; word++) {
            const T *value = s->at[word * WORD] + distance + d;
            __m512i columns[4];
            for (int i = 0; i < WORD; i++) ask_element(s->next[word * WORD + i] + distance + d, 64);
#if WORD == 2
            const T *second = s->at[word * WORD + 1] + distance + d;
#pragma GCC unroll 2
            for (int v = 0; v < 4; v += 2) {
                __m512i a = _mm512_loadu_si512(value + 16 * v), b = _mm512_loadu_si512(second + 16 * v);
                columns[v] = _mm512_unpacklo_epi16(a, b);
                columns[v + 1] = _mm512_unpackhi_epi16(a, b);
            }
#else
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++) columns[v] = _mm512_loadu_si512(value + 16 * v);
#endif
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) {
                __m512i weight = word_of(weights + r * KEYS + word * WORD);
#pragma GCC unroll 4
                for (int v = 0; v < 4; v++) sums[r][v] = dot(sums[r][v], weight, columns[v]);
            }
        }
#if WORD == 2
        reorder(sums, front, back, rows);
#endif
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++) _mm512_storeu_ps(to + r * dim + d + 16 * v, sums[r][v]);
    }
}

/* Scores of a tile -> weights of its values; the sums so far are scaled where a row's maximum has grown. */
INLINE void weigh(Scratch *s, int row, int visible, float scale, const int dim) {
    const float *scores = s->scores + row * KEYS;
    T *weights = s->weights + row * KEYS;
    if (visible <= 0) {
        memset(weights, 0, KEYS * sizeof(T));
        return;
    }
    __m512 x[KEYS / 16], top = _mm512_set1_ps(s->tops[row]);
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#pragma GCC unroll 4
    for (int v = 0; v < KEYS / 16; v++) {
        x[v] = _mm512_loadu_ps(scores + 16 * v);
        if (visible < KEYS) {
            __mmask16 hidden = _mm512_cmp_epi32_mask(lanes, _mm512_set1_epi32(visible - 16 * v), _MM_CMPINT_NLT);
            x[v] = _mm512_mask_mov_ps(x[v], hidden, _mm512_set1_ps(-INFINITY));
        }
        top = _mm512_max_ps(top, x[v]);
    }
    float best = _mm512_reduce_max_ps(top);
    if (best > s->tops[row]) {
        __m512 shrink = exp2_lanes(_mm512_set1_ps((s->tops[row] - best) * scale));
        float *sums = s->sums + row * dim;
        s->totals[row] = _mm512_mul_ps(s->totals[row], shrink);
        for (int d = 0; d < dim; d += 16)
            _mm512_storeu_ps(sums + d, _mm512_mul_ps(_mm512_loadu_ps(sums + d), shrink));
        s->tops[row] = best;
    }
    __m512 offset = _mm512_set1_ps(-best * scale), total = s->totals[row];
#pragma GCC unroll 4
    for (int v = 0; v < KEYS / 16; v++) {
        __m512 p = exp2_lanes(_mm512_fmadd_ps(x[v], _mm512_set1_ps(scale), offset));
        total = _mm512_add_ps(total, p);
        store_lanes(weights + 16 * v, 0xffff, p);
    }
    s->totals[row] = total;
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
                    s->tops[row] = -INFINITY;
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

/* at: where the keys of a tile stand; beyond the last key: the last again, whose weight will be 0. */
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
    for (int i = count; i < KEYS; i++) at[i] = at[count - 1];
}

/* Many rows: keys and values are laid out anew, then two products. */
INLINE void attend_packed(Scratch *s, const Step *p, const Work *w, int64_t start, int first_row, int rows, int count,
                          const int dim) {
    const int group = (int)(p->query_heads / p->kv_heads);
    const float scale = 1.44269504f / sqrtf((float)dim);
    const T *weights = s->weights + first_row * KEYS;
    float *sums = s->sums + first_row * dim;
    pack_keys(s, count, dim);
    sum_rows(s->queries + first_row * dim, dim, s->keys, KEYS, s->scores + first_row * KEYS, KEYS, dim / WORD, 0, rows,
             KEYS / 16);
    for (int r = 0; r < rows; r++)
        weigh(s, first_row + r, (int)(p->plan->visible[w->first + r / group] - start), scale, dim);
    pack_values(s, count, p->values - p->keys, dim);
#define LANES(N) sum_rows(weights, KEYS, s->values + d, dim, sums + d, dim, KEYS / WORD, 1, rows, N)
    for (int d = 0; d < dim; d += 64) switch (dim - d) {
        case 16: LANES(1); break;
        case 32: LANES(2); break;
        case 48: LANES(3); break;
        default: LANES(4); break;
        }
}

/* Few rows: keys and values are used where they stand. */
INLINE void attend_in_place(Scratch *s, const Step *p, const Work *w, int64_t start, int first_row, const int rows,
                            int count, const int dim) {
    const float scale = 1.44269504f / sqrtf((float)dim);
    const int group = (int)(p->query_heads / p->kv_heads);
    score_single(s, first_row, rows, count, dim);
    for (int r = 0; r < rows; r++)
        weigh(s, first_row + r, (int)(p->plan->visible[w->first + r / group] - start), scale, dim);
    mix_single(s, first_row, rows, count, p->values - p->keys, dim);
}

/* `after` is what this thread does next, as far as one can tell. */
INLINE void attend_piece(Scratch *s, const Step *p, const Work *w, const Work *after, const int dim) {
    const int rows = (int)(w->count * (p->query_heads / p->kv_heads));
    const int packed = rows > MAX_SINGLE || dim % 64 || p->plan->exact;
    begin_rows(s, p, w, dim);
    for (int64_t start = w->begin; start < w->end; start += KEYS) {
        const int count = w->end - start < KEYS ? (int)(w->end - start) : KEYS, is_last = start + KEYS >= w->end;
        for (int h = 0; h < w->heads; h++) {
            find_keys(s->at, p, w, start, h, dim);
            if (!is_last) find_keys(s->next, p, w, start + KEYS, h, dim);
            else if (h < after->heads) find_keys(s->next, p, after, after->begin, h, dim);
            if (packed) attend_packed(s, p, w, start, h * rows, rows, count, dim);
            else if (rows == 1) attend_in_place(s, p, w, start, h, 1, count, dim);
            else if (rows == 2) attend_in_place(s, p, w, start, h * 2, 2, count, dim);
            else if (rows == 3) attend_in_place(s, p, w, start, h * 3, 3, count, dim);
            else attend_in_place(s, p, w, start, h * 4, 4, count, dim);
        }
    }
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

static void attend_all(const Step *step, const Work *work, int64_t count, int64_t dim) {
#pragma omp parallel
    {
        Scratch scratch;
        const int threads = omp_get_num_threads();
#pragma omp for schedule(dynamic, 1)
        for (int64_t i = 0; i < count; i++) {
            const Work *w = work + i, *after = i + threads < count ? w + threads : w;
            if (dim == 64) attend_64(&scratch, step, w, after);
            else if (dim == 128) attend_128(&scratch, step, w, after);
            else attend_any(&scratch, step, w, after, (int)dim);
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
