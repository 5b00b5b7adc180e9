/* Matrix products with weights that are laid out beforehand, for a CPU with 512-bit vectors.
 *
 * Weights stand in panels of 48 outputs: [panel][word of inputs][output]. A tile of 8 rows and 48 outputs is summed in
 * registers over all inputs, in their order; so each output is the same to the bit whatever the other rows are. Rows
 * go in stripes that stay in the second cache, and both threads take (stripe, panel) pairs as they get free.
 */

#include <omp.h>

#include "native_parts.h"

#if defined(HAVE_VECTORS)

/* weights [outputs, inputs] -> packed [panels, words, PANEL] words, zeros beyond the last output. */
void pack_weights(const T *weights, int32_t *packed, int64_t outputs, int64_t inputs) {
    int64_t words = inputs / WORD, panels = (outputs + PANEL - 1) / PANEL;
#pragma omp parallel for schedule(static)
    for (int64_t panel = 0; panel < panels; panel++)
        for (int64_t i = 0; i < PANEL; i++) {
            int64_t output = panel * PANEL + i;
            for (int64_t word = 0; word < words; word++) {
                int32_t bits = 0;
                if (output < outputs) memcpy(&bits, weights + output * inputs + word * WORD, 4);
                packed[(panel * words + word) * PANEL + i] = bits;
            }
        }
}

INLINE void tile(const T *x, int64_t inputs, const int32_t *panel, const T *bias, T *out, float *sum, int64_t outputs,
                 int64_t left, Ahead *ahead, const int rows) {
    __m512 sums[8][3];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 3
        for (int v = 0; v < 3; v++) sums[r][v] = _mm512_setzero_ps();
    const int64_t words = inputs / WORD;
    for (int64_t word = 0; word < words; word++) {
        __m512i columns[3];
#pragma GCC unroll 3
        for (int v = 0; v < 3; v++) {
            columns[v] = _mm512_loadu_si512(panel + word * PANEL + 16 * v);
            ask(ahead);
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            __m512i a = word_of(x + r * inputs + word * WORD);
#pragma GCC unroll 3
            for (int v = 0; v < 3; v++) sums[r][v] = dot(sums[r][v], a, columns[v]);
        }
    }
#pragma GCC unroll 3
    for (int v = 0; v < 3; v++) {
        __mmask16 mask = lanes_left(left - 16 * v);
        __m512 offset = bias ? load_lanes(bias + 16 * v, mask) : _mm512_setzero_ps();
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
            put(out, sum, r * outputs + 16 * v, mask, sums[r][v] + offset);
    }
}

static void stripe(const T *x, int64_t inputs, const int32_t *panel, const T *bias, T *out, float *sum,
                   int64_t outputs, int64_t left, int64_t rows, Ahead ahead) {
#define TILE(N) tile(x, inputs, panel, bias, out, sum, outputs, left, &ahead, N)
    for (; rows >= 8; rows -= 8, x += 8 * inputs, out += 8 * outputs, sum = sum ? sum + 8 * outputs : 0) TILE(8);
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

void multiply(const Product *p, const T *x, T *out, float *sum, int64_t rows, uint8_t *quantized, float *x_scales,
              const Product *after) {
    const int64_t panels = (p->outputs + PANEL - 1) / PANEL, stripes = (rows + STRIPE - 1) / STRIPE;
    const int64_t words = p->inputs / (p->is_int8 ? 4 : WORD);
    if (p->is_int8) quantize_rows(x, quantized, x_scales, rows, p->inputs);
#pragma omp parallel
    {
        const int threads = omp_get_num_threads(), at_once = panels_at_once(panels, threads);
#pragma omp for schedule(dynamic, at_once) collapse(2)
        for (int64_t i = 0; i < stripes; i++)
            for (int64_t j = 0; j < panels; j++) {
                int64_t first = i * STRIPE, count = rows - first < STRIPE ? rows - first : STRIPE;
                int64_t at = first * p->outputs + j * PANEL, left = p->outputs - j * PANEL;
                const int32_t *panel = (const int32_t *)((const char *)p->packed + j * panel_bytes(p));
                const T *bias = p->bias ? p->bias + j * PANEL : 0;
                float *to = sum ? sum + at : 0;
                Ahead ahead =
                    look_ahead(p, i == stripes - 1 ? after : p, j, panels, threads, (count + 7) / 8, words);
                if (p->is_int8)
                    stripe_int8(p, quantized + first * p->inputs, x_scales + first * (p->inputs / GROUP), panel, bias,
                                out + at, to, left, count, ahead);
                else
                    stripe(x + first * p->inputs, p->inputs, panel, bias, out + at, to, p->outputs, left, count, ahead);
            }
    }
}
#endif
