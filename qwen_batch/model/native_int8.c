/* Matrix products in int8, for a CPU with VNNI: weights with a scale for each output, activations rounded as they come
 * with a scale for each row.
 *
 * y[r][o] = row_scale[r] * scale[o] * sum_i q[r][i] * w[o][i]. The instruction multiplies unsigned by signed bytes, so
 * activations are stored as q + 128, and 128 * sum_i w[o][i] is taken off, which is worked out when weights are packed.
 * Panels as in native_products.c, four inputs in a word: [panel][word][output], then the panel's 48 sums.
 */

#include "native_parts.h"

#define STRIPE 192 /* rows */

#if defined(HAVE_VECTORS) && defined(__AVX512VNNI__)

/* weights [outputs, inputs] int8, inputs a multiple of 4 -> [panels, inputs / 4 + 1, PANEL] words. */
void pack_int8(const int8_t *weights, int32_t *packed, int64_t outputs, int64_t inputs) {
    int64_t words = inputs / 4, panels = (outputs + PANEL - 1) / PANEL;
#pragma omp parallel for schedule(static)
    for (int64_t panel = 0; panel < panels; panel++)
        for (int64_t i = 0; i < PANEL; i++) {
            int64_t output = panel * PANEL + i;
            int32_t *to = packed + panel * (words + 1) * PANEL + i, sum = 0;
            for (int64_t word = 0; word < words; word++) {
                int32_t bits = 0;
                if (output < outputs) memcpy(&bits, weights + output * inputs + word * 4, 4);
                to[word * PANEL] = bits;
            }
            if (output < outputs)
                for (int64_t j = 0; j < inputs; j++) sum += weights[output * inputs + j];
            to[words * PANEL] = -128 * sum;
        }
}

/* Rows of x -> bytes (value / scale + 128) and their scales. */
static void quantize_rows(const T *x, uint8_t *to, float *scales, int64_t rows, int64_t size) {
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        const T *from = x + row * size;
        __m512 most = _mm512_setzero_ps();
        for (int64_t i = 0; i < size; i += 16) {
            __mmask16 mask = lanes_left(size - i);
            most = _mm512_max_ps(_mm512_abs_ps(load_lanes(from + i, mask)), most);
        }
        float scale = _mm512_reduce_max_ps(most) / 127.0f;
        __m512 inverse = _mm512_set1_ps(scale > 0 ? 1.0f / scale : 0.0f);
        for (int64_t i = 0; i < size; i += 16) {
            __mmask16 mask = lanes_left(size - i);
            __m512i q = _mm512_cvtps_epi32(_mm512_mul_ps(load_lanes(from + i, mask), inverse));
            _mm_mask_storeu_epi8(to + row * size + i, mask, _mm512_cvtepi32_epi8(_mm512_add_epi32(q, _mm512_set1_epi32(128))));
        }
        scales[row] = scale;
    }
}

INLINE void tile(const uint8_t *x, int64_t inputs, const int32_t *panel, const float *scales, const float *row_scales,
                 const T *bias, T *out, int64_t outputs, int64_t left, const int rows) {
    const int64_t words = inputs / 4;
    __m512i sums[8][3];
#pragma GCC unroll 3
    for (int v = 0; v < 3; v++) {
        __m512i start = _mm512_loadu_si512(panel + words * PANEL + 16 * v);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) sums[r][v] = start;
    }
    for (int64_t word = 0; word < words; word++) {
        __m512i columns[3];
#pragma GCC unroll 3
        for (int v = 0; v < 3; v++) columns[v] = _mm512_loadu_si512(panel + word * PANEL + 16 * v);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            int32_t bits;
            memcpy(&bits, x + r * inputs + word * 4, 4);
            __m512i a = _mm512_set1_epi32(bits);
#pragma GCC unroll 3
            for (int v = 0; v < 3; v++) sums[r][v] = _mm512_dpbusd_epi32(sums[r][v], a, columns[v]);
        }
    }
#pragma GCC unroll 3
    for (int v = 0; v < 3; v++) {
        __mmask16 mask = lanes_left(left - 16 * v);
        __m512 offset = bias ? load_lanes(bias + 16 * v, mask) : _mm512_setzero_ps(), by = _mm512_loadu_ps(scales + 16 * v);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            __m512 scale = _mm512_mul_ps(by, _mm512_set1_ps(row_scales[r]));
            store_lanes(out + r * outputs + 16 * v, mask, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[r][v]), scale, offset));
        }
    }
}

static void stripe(const uint8_t *x, int64_t inputs, const int32_t *panel, const float *scales, const float *row_scales,
                   const T *bias, T *out, int64_t outputs, int64_t left, int64_t rows) {
#define TILE(N) tile(x, inputs, panel, scales, row_scales, bias, out, outputs, left, N)
    for (; rows >= 8; rows -= 8, x += 8 * inputs, out += 8 * outputs, row_scales += 8) TILE(8);
    switch (rows) {
    case 7: TILE(7); break;
    case 6: TILE(6); break;
    case 5: TILE(5); break;
    case 4: TILE(4); break;
    case 3: TILE(3); break;
    case 2: TILE(2); break;
    case 1: TILE(1); break;
    default: break;
    }
}

void multiply_int8(const Product *p, const T *x, T *out, int64_t rows, uint8_t *quantized, float *row_scales) {
    int64_t panels = (p->outputs + PANEL - 1) / PANEL, stripes = (rows + STRIPE - 1) / STRIPE;
    const int32_t *packed = p->packed;
    quantize_rows(x, quantized, row_scales, rows, p->inputs);
#pragma omp parallel for schedule(dynamic, 1) collapse(2)
    for (int64_t i = 0; i < stripes; i++)
        for (int64_t j = 0; j < panels; j++) {
            int64_t first = i * STRIPE, count = rows - first < STRIPE ? rows - first : STRIPE;
            stripe(quantized + first * p->inputs, p->inputs, packed + j * (p->inputs / 4 + 1) * PANEL,
                   p->scales + j * PANEL, row_scales + first, p->bias ? p->bias + j * PANEL : 0,
                   out + first * p->outputs + j * PANEL, p->outputs, p->outputs - j * PANEL, count);
        }
}
#elif defined(HAVE_VECTORS)
void multiply_int8(const Product *p, const T *x, T *out, int64_t rows, uint8_t *quantized, float *row_scales) {}
#endif

/* Whether products in int8 are there. */
int64_t have_int8(void) {
#if defined(HAVE_VECTORS) && defined(__AVX512VNNI__)
    return 1;
#else
    return 0;
#endif
}
