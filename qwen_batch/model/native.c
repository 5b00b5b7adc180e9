/* The parts of a decoder step that are not matrix products, for a CPU: one pass over memory each.
 *
 * Compiled once for this machine by model/native.py, with T the type of weights and activations (bfloat16 or float).
 * Arithmetic is in float, rounded once when it is stored. Loops are plain C that the compiler turns into vector code.
 * OpenMP's symbols come from the runtime that torch has loaded, so that both share one pool of threads.
 */

#include "native_parts.h"

/* exp(x) for x <= 0: 2^n * p(r), r in [-ln2/2, ln2/2], relative error below 2e-7. Vector code, unlike libm's. */
INLINE float exp_negative(float x) {
    x = x < -87.0f ? -87.0f : x;
    float n = __builtin_rintf(x * 1.44269504f);
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    uint32_t bits = (uint32_t)((int32_t)n + 127) << 23;
    float scale;
    memcpy(&scale, &bits, 4);
    return p * scale;
}

/* out = x / rms(x) * weight, x in floats. All [rows, size]. */
void rms_norm_rows(const float *x, const T *weight, T *out, int64_t rows, int64_t size, float eps) {
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        const float *from = x + row * size;
        T *to = out + row * size;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < size; i++) sum += from[i] * from[i];
        float scale = 1.0f / sqrtf(sum / size + eps);
#pragma omp simd
        for (int64_t i = 0; i < size; i++) to[i] = store(from[i] * scale * load(weight[i]));
    }
}

/* residual += delta (where there is one), then out = residual / rms(residual) * weight. All [rows, size]. */
void add_rms_norm(T *residual, const T *delta, const T *weight, T *out, int64_t rows, int64_t size, float eps) {
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        T *x = residual + row * size, *y = out + row * size;
        float sum = 0;
        if (delta) {
            const T *d = delta + row * size;
#pragma omp simd
            for (int64_t i = 0; i < size; i++) x[i] = store(load(x[i]) + load(d[i]));
        }
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < size; i++) sum += load(x[i]) * load(x[i]);
        float scale = 1.0f / sqrtf(sum / size + eps);
#pragma omp simd
        for (int64_t i = 0; i < size; i++) y[i] = store(load(x[i]) * scale * load(weight[i]));
    }
}

/* out [rows, size] = silu(gate) * up of gate_up [rows, 2 * size]. */
void silu_mul(const T *gate_up, T *out, int64_t rows, int64_t size) {
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        const T *gate = gate_up + row * 2 * size, *up = gate + size;
        T *y = out + row * size;
#if defined(HAVE_VECTORS)
        for (int64_t i = 0; i < size; i += 16) { /* 1 / (1 + e^-g), e^-g held below what overflows */
            __mmask16 mask = lanes_left(size - i);
            __m512 one = _mm512_set1_ps(1.0f), g = load_lanes(gate + i, mask);
            __m512 power = _mm512_min_ps(_mm512_set1_ps(126.0f), g * _mm512_set1_ps(-1.44269504f));
            __m512 below = one + exp2_lanes(power), inverse = _mm512_rcp14_ps(below); /* and a step of Newton's: 2^-27 */
            inverse = inverse * _mm512_fnmadd_ps(below, inverse, _mm512_set1_ps(2.0f));
            store_lanes(y + i, mask, g * inverse * load_lanes(up + i, mask));
        }
#else
#pragma omp simd
        for (int64_t i = 0; i < size; i++) {
            float g = load(gate[i]), e = exp_negative(-fabsf(g));
            float sigmoid = (g >= 0 ? 1.0f : e) / (1.0f + e);
            y[i] = store(g * sigmoid * load(up[i]));
        }
#endif
    }
}

#if defined(HAVE_VECTORS)
INLINE void norm_and_rotate(const T *x, const T *norm, float eps, const float *cos, const float *sin, T *y, int dim) {
    const int half = dim / 2;
    __m512 scale = _mm512_set1_ps(1.0f);
    if (norm) {
        __m512 sum = _mm512_setzero_ps();
        for (int i = 0; i < dim; i += 16) {
            __m512 a = load_lanes(x + i, lanes_left(dim - i));
            sum = _mm512_fmadd_ps(a, a, sum);
        }
        scale = _mm512_set1_ps(1.0f / sqrtf(_mm512_reduce_add_ps(sum) / dim + eps));
    }
    for (int i = 0; i < half; i += 16) {
        __mmask16 mask = lanes_left(half - i);
        __m512 a = load_lanes(x + i, mask), b = load_lanes(x + half + i, mask);
        __m512 c = _mm512_maskz_loadu_ps(mask, cos + i), s = _mm512_maskz_loadu_ps(mask, sin + i);
        if (norm) {
            a *= scale * load_lanes(norm + i, mask);
            b *= scale * load_lanes(norm + half + i, mask);
        }
        store_lanes(y + i, mask, a * c - b * s);
        store_lanes(y + half + i, mask, b * c + a * s);
    }
}
#else
INLINE void norm_and_rotate(const T *x, const T *norm, float eps, const float *cos, const float *sin, T *y, int dim) {
    float values[512], scale = 1.0f;
    for (int i = 0; i < dim; i++) values[i] = load(x[i]);
    if (norm) {
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int i = 0; i < dim; i++) sum += values[i] * values[i];
        scale = 1.0f / sqrtf(sum / dim + eps);
#pragma omp simd
        for (int i = 0; i < dim; i++) values[i] *= scale * load(norm[i]);
    }
    int half = dim / 2;
#pragma omp simd
    for (int i = 0; i < half; i++) {
        y[i] = store(values[i] * cos[i] - values[i + half] * sin[i]);
        y[i + half] = store(values[i + half] * cos[i] + values[i] * sin[i]);
    }
}
#endif

/* Of qkv [tokens, (heads + 2 * kv_heads) * dim]: queries and keys are normalised (where there are weights) and rotated
 * in place; keys and values are also written to their slots of the caches [slots, kv_heads, dim]. cos, sin are
 * [tokens, dim / 2]. */
void prepare_qkv(T *qkv, const T *q_norm, const T *k_norm, const float *cos, const float *sin, const int64_t *slots,
                 T *key_cache, T *value_cache, int64_t tokens, int64_t heads, int64_t kv_heads, int64_t dim, float eps) {
    int64_t width = (heads + 2 * kv_heads) * dim, kv_size = kv_heads * dim;
#pragma omp parallel for schedule(static)
    for (int64_t token = 0; token < tokens; token++) {
        T *row = qkv + token * width;
        const float *c = cos + token * (dim / 2), *s = sin + token * (dim / 2);
        for (int64_t head = 0; head < heads + kv_heads; head++) {
            T *x = row + head * dim;
            norm_and_rotate(x, head < heads ? q_norm : k_norm, eps, c, s, x, (int)dim);
        }
        memcpy(key_cache + slots[token] * kv_size, row + heads * dim, kv_size * sizeof(T));
        memcpy(value_cache + slots[token] * kv_size, row + heads * dim + kv_size, kv_size * sizeof(T));
    }
}

#define CHUNK 128 /* keys whose scores are kept at once */
#define MAX_GROUP 16
#define MAX_DIM 256

/* Attention of one token over one KV head: `group` query heads share its keys. Softmax as it goes (Milakov and
 * Gimelshein 2018), keys and values read where they stand in their blocks. */
INLINE void attend_one(const T *queries, const T *keys, const T *values, const int64_t *blocks, int64_t context,
                       int64_t block_size, int64_t stride, float scale, T *out, const int group, const int dim) {
    float q[MAX_GROUP * MAX_DIM], acc[MAX_GROUP * MAX_DIM], scores[MAX_GROUP][CHUNK];
    float top[MAX_GROUP], total[MAX_GROUP];
    for (int g = 0; g < group; g++) {
        top[g] = -INFINITY;
        total[g] = 0;
        for (int d = 0; d < dim; d++) {
            q[g * dim + d] = load(queries[g * dim + d]) * scale;
            acc[g * dim + d] = 0;
        }
    }
    for (int64_t start = 0; start < context; start += CHUNK) {
        int count = context - start < CHUNK ? (int)(context - start) : CHUNK;
        for (int j = 0; j < count; j++) {
            int64_t at = start + j;
            const T *key = keys + (blocks[at / block_size] * block_size + at % block_size) * stride;
            float dots[MAX_GROUP];
            for (int g = 0; g < group; g++) {
                float dot = 0;
#pragma omp simd reduction(+ : dot)
                for (int d = 0; d < dim; d++) dot += q[g * dim + d] * load(key[d]);
                dots[g] = dot;
            }
            for (int g = 0; g < group; g++) scores[g][j] = dots[g];
        }
        for (int g = 0; g < group; g++) {
            float best = top[g], sum = 0;
#pragma omp simd reduction(max : best)
            for (int j = 0; j < count; j++) best = scores[g][j] > best ? scores[g][j] : best;
            float shrink = top[g] == -INFINITY ? 0.0f : exp_negative(top[g] - best);
#pragma omp simd reduction(+ : sum)
            for (int j = 0; j < count; j++) {
                float p = exp_negative(scores[g][j] - best);
                scores[g][j] = p;
                sum += p;
            }
            top[g] = best;
            total[g] = total[g] * shrink + sum;
            for (int d = 0; d < dim; d++) acc[g * dim + d] *= shrink;
        }
        for (int j = 0; j < count; j++) {
            int64_t at = start + j;
            const T *value = values + (blocks[at / block_size] * block_size + at % block_size) * stride;
            for (int g = 0; g < group; g++) {
                float p = scores[g][j];
#pragma omp simd
                for (int d = 0; d < dim; d++) acc[g * dim + d] += p * load(value[d]);
            }
        }
    }
    for (int g = 0; g < group; g++)
        for (int d = 0; d < dim; d++) out[g * dim + d] = store(acc[g * dim + d] / total[g]);
}

/* Attention of the pieces of one token. Row r is token tokens[r] of qkv [., width]; its keys stand in block_tables
 * [rows, max_blocks] of the caches [blocks * block_size, kv_heads, dim], contexts[r] of them. out [., heads * dim]. */
void attend_decode(const T *qkv, int64_t width, const int64_t *tokens, const int64_t *block_tables,
                   const int64_t *contexts, int64_t rows, int64_t max_blocks, const T *key_cache,
                   const T *value_cache, int64_t block_size, int64_t heads, int64_t kv_heads, int64_t dim, T *out) {
    int64_t group = heads / kv_heads;
    float scale = 1.0f / sqrtf((float)dim);
#pragma omp parallel for schedule(dynamic, 1) collapse(2)
    for (int64_t row = 0; row < rows; row++)
        for (int64_t head = 0; head < kv_heads; head++) {
            const T *queries = qkv + tokens[row] * width + head * group * dim;
            const T *keys = key_cache + head * dim, *values = value_cache + head * dim;
            const int64_t *blocks = block_tables + row * max_blocks;
            T *to = out + tokens[row] * heads * dim + head * group * dim;
#define CASE(G, D)                                                                                              \
    else if (group == G && dim == D) attend_one(queries, keys, values, blocks, contexts[row], block_size,       \
                                                kv_heads * dim, scale, to, G, D);
            if (0) {
            }
            CASE(1, 64) CASE(2, 64) CASE(3, 64) CASE(4, 64) CASE(7, 64) CASE(8, 64)
            CASE(1, 128) CASE(2, 128) CASE(4, 128) CASE(5, 128) CASE(7, 128) CASE(8, 128)
            else attend_one(queries, keys, values, blocks, contexts[row], block_size, kv_heads * dim, scale, to,
                            (int)group, (int)dim);
        }
}

/* The largest of each row of logits [rows, size]: where it stands, or -1 where the row holds a NaN. */
void argmax_rows(const float *logits, int64_t *out, int64_t rows, int64_t size) {
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        const float *x = logits + row * size;
        float best = -INFINITY;
        int broken = 0;
        int64_t at = size;
#pragma omp simd reduction(max : best) reduction(| : broken)
        for (int64_t i = 0; i < size; i++) {
            float value = x[i];
            best = value > best ? value : best;
            broken |= value != value;
        }
        for (int64_t i = 0; i < size && at == size; i++)
            if (x[i] == best) at = i;
        out[row] = broken || at == size ? -1 : at;
    }
}
