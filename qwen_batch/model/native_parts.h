/* The parts that a step is made of: who defines them says what they do. */

#pragma once

#include "native.h"

/* native.c */
void rms_norm_rows(const float *x, const T *weight, T *out, int64_t rows, int64_t size, float eps);
void add_rms_norm(T *residual, const T *delta, const T *weight, T *out, int64_t rows, int64_t size, float eps);
void silu_mul(const T *gate_up, T *out, int64_t rows, int64_t size);
void prepare_qkv(T *qkv, const T *q_norm, const T *k_norm, const float *cos, const float *sin, const int64_t *slots,
                 T *key_cache, T *value_cache, int64_t tokens, int64_t heads, int64_t kv_heads, int64_t dim, float eps);

#if defined(HAVE_VECTORS)

/* native_attention.c. A piece of work: `count` tokens of one block table, `heads` KV heads, keys begin .. end. */
typedef struct {
    int64_t first, count;      /* of tokens[] and visible[] */
    int64_t table;             /* row of the block tables */
    int64_t begin, end;        /* keys; begin is a multiple of the tile's keys */
    int64_t first_head, heads; /* KV heads */
    int64_t continues;         /* 1: go on from the tokens' states, which an earlier piece has left */
    int64_t pauses;            /* 1: leave states instead of answers */
} Work;

/* What attention has to do in a step; the same for all layers but the last. As in model/native_attention.py. */
typedef struct {
    const Work *shared, *own, *last; /* shared prefixes, then the rest; `last`: the rest in the last layer */
    int64_t num_shared, num_own, num_last;
    const int64_t *tokens;  /* rows of qkv */
    const int64_t *visible; /* how many keys each of them sees */
    const int64_t *tables;  /* [sequences, max_blocks] */
    int64_t max_blocks, block_size;
    int64_t exact; /* 1: few rows are computed as many are, to the bit */
    float *states; /* [rows of qkv, query_heads, dim + 32] where there are shared prefixes */
} Plan;

/* qkv [tokens, width], rotated; keys, values [slots, kv_heads, dim] -> out [tokens, query_heads * dim]. */
void attend(const Plan *plan, int64_t last_layer, const T *qkv, int64_t width, const T *keys, const T *values,
            int64_t query_heads, int64_t kv_heads, int64_t dim, T *out);

#define PANEL 48 /* outputs whose weights stand together */

/* native_products.c. Weights [outputs, inputs] as they were packed. */
typedef struct {
    const void *packed;
    const T *bias;   /* [outputs], or none */
    int64_t is_int8; /* else the weights are of type T */
    int64_t inputs, outputs;
} Product;

/* out [rows, outputs] = x [rows, inputs] * weights^T + bias, or, where there is a `sum`, added to that instead. The next
 * two are room for int8: [rows, inputs], [rows, inputs / 64]. `after`: the product whose weights are wanted next. */
void multiply(const Product *product, const T *x, T *out, float *sum, int64_t rows, uint8_t *quantized, float *x_scales,
              const Product *after);

#define STRIPE 192 /* rows that stay in the second cache while weights pass */
#define GROUP 64   /* int8: inputs that share a scale, of activations and of each output's weights */
#define GROUP_WORDS (GROUP / 4 + 2) /* of a panel, times PANEL: weights, then sums, then scales */

INLINE int64_t panel_bytes(const Product *p) {
    return (p->is_int8 ? p->inputs / GROUP * GROUP_WORDS : p->inputs / WORD) * PANEL * 4;
}

/* Threads take two panels at a time, whose outputs fill whole lines of the cache: with one, neighbours wrote into the
 * same lines, and int8 was 7 % slower. Where there are few for each thread, one. */
INLINE int panels_at_once(int64_t panels, int threads) { return panels >= 4 * threads ? 2 : 1; }

/* Weights are asked for while the panel before is computed: its tiles spread this over their words, three times in
 * each. Left to the CPU's own prefetcher, products of 16 rows took 12.4 ms a step and now 9.7 (two Zen 4 cores, demo,
 * 2026-11-30). */
typedef struct {
    const char *line;
    int64_t pace; /* bytes */
} Ahead;

/* While `panel` is computed: the one that this thread takes next, of `after` behind the last of a step's rows. */
INLINE Ahead look_ahead(const Product *p, const Product *after, int64_t panel, int64_t panels, int threads,
                        int64_t tiles, int64_t words) {
    const int at_once = panels_at_once(panels, threads);
    int64_t next = panel % at_once == at_once - 1 ? panel + at_once * (threads - 1) + 1 : panel + 1;
    if (next >= panels) {
        next -= panels;
        p = after ? after : p;
    }
    return (Ahead){(const char *)p->packed + next * panel_bytes(p), panel_bytes(p) / (3 * words * tiles)};
}

INLINE void ask(Ahead *ahead) {
    _mm_prefetch(ahead->line, _MM_HINT_T1);
    ahead->line += ahead->pace;
}

/* native_int8.c. Rows of x -> bytes and the scales of their groups; a stripe of rows times a panel. */
void quantize_rows(const T *x, uint8_t *to, float *scales, int64_t rows, int64_t size);
void stripe_int8(const Product *p, const uint8_t *x, const float *x_scales, const int32_t *panel, const T *bias, T *out,
                 float *sum, int64_t left, int64_t rows, Ahead ahead);

/* 16 lanes of a product, where they belong. */
INLINE void put(T *out, float *sum, int64_t at, __mmask16 mask, __m512 x) {
    if (sum) _mm512_mask_storeu_ps(sum + at, mask, _mm512_maskz_loadu_ps(mask, sum + at) + x);
    else store_lanes(out + at, mask, x);
}
#endif
