/* Matrix products in int8, for a CPU with VNNI: weights, and activations as they come, with a scale for each 64 inputs
 * of a row (one scale a row would drown them in the few that are large).
 *
 * y[r][o] = sum over groups g of x_scale[r][g] * scale[o][g] * sum over i in g of q[r][i] * w[o][i]. The instruction
 * multiplies unsigned by signed bytes, so activations are stored as q + 128, and 128 * sum of w[o][i] is taken off,
 * which is worked out when weights are packed. Panels as in native_products.c, four inputs in a word:
 * [panel][group]([word][output], then the group's 48 sums, then its 48 scales).
 */

#include "native_parts.h"

#if defined(HAVE_VECTORS) && defined(__AVX512VNNI__)

/* weights [outputs, inputs] int8, inputs a multiple of GROUP, scales [outputs, groups] -> [panels, groups, GROUP_WORDS,
 * PANEL] words. */
void pack_int8(const int8_t *weights, const float *scales, int32_t *packed, int64_t outputs, int64_t inputs) {
    int64_t groups = inputs / GROUP, panels = (outputs + PANEL - 1) / PANEL;
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t panel = 0; panel < panels; panel++)
        for (int64_t group = 0; group < groups; group++)
            for (int64_t i = 0; i < PANEL; i++) {
                int64_t output = panel * PANEL + i;
                int32_t *to = packed + (panel * groups + group) * GROUP_WORDS * PANEL + i, sum = 0;
                int8_t bytes[GROUP] = {0};
                const float none = 0;
                if (output < outputs) memcpy(bytes, weights + output * inputs + group * GROUP, GROUP);
                for (int j = 0; j < GROUP; j++) sum += bytes[j];
                for (int word = 0; word < GROUP / 4; word++) memcpy(to + word * PANEL, bytes + word * 4, 4);
                to[GROUP / 4 * PANEL] = -128 * sum;
                memcpy(to + (GROUP / 4 + 1) * PANEL, output < outputs ? scales + output * groups + group : &none, 4);
            }
}

/* Rows of x -> bytes (value / scale + 128) and the scales of their groups. */
void quantize_rows(const T *x, uint8_t *to, float *scales, int64_t rows, int64_t size) {
#pragma omp parallel for schedule(static)
    for (int64_t group = 0; group < rows * size / GROUP; group++) {
        __m512 values[GROUP / 16], most = _mm512_setzero_ps();
        for (int v = 0; v < GROUP / 16; v++) {
            values[v] = load_lanes(x + group * GROUP + 16 * v, 0xffff);
            most = _mm512_max_ps(_mm512_abs_ps(values[v]), most);
        }
        float scale = _mm512_reduce_max_ps(most) / 127.0f;
        __m512 inverse = _mm512_set1_ps(scale > 0 ? 1.0f / scale : 0.0f);
        for (int v = 0; v < GROUP / 16; v++) {
            __m512i q = _mm512_add_epi32(_mm512_cvtps_epi32(values[v] * inverse), _mm512_set1_epi32(128));
            _mm_storeu_si128((__m128i *)(to + group * GROUP + 16 * v), _mm512_cvtepi32_epi8(q));
        }
        scales[group] = scale;
    }
}

/* As _mm512_dpbusd_epi32, but in place: with the intrinsic gcc 12 keeps half of the sums below in memory. */
INLINE void dot_bytes(__m512i *sum, __m512i a, __m512i b) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(*sum) : "v"(a), "v"(b));
}

/* The sums of a group stay in registers; those over the groups, which are touched once a group, in memory. */
INLINE void tile(const uint8_t *x, int64_t groups, const int32_t *panel, const float *x_scales,
                 const T *bias, T *out, float *sum, int64_t outputs, int64_t left, Ahead *ahead, const int rows) {
    float totals[8 * PANEL] __attribute__((aligned(64)));
    memset(totals, 0, rows * PANEL * sizeof(float));
    for (int64_t group = 0; group < groups; group++, panel += GROUP_WORDS * PANEL) {
        __m512i sums[8][3];
#pragma GCC unroll 3
        for (int v = 0; v < 3; v++) {
            __m512i start = _mm512_loadu_si512(panel + GROUP / 4 * PANEL + 16 * v);
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++) sums[r][v] = start;
        }
        for (int word = 0; word < GROUP / 4; word++) {
            __m512i columns[3];
#pragma GCC unroll 3
            for (int v = 0; v < 3; v++) {
                columns[v] = _mm512_loadu_si512(panel + word * PANEL + 16 * v);
                ask(ahead);
            }
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++) {
                int32_t bits;
                memcpy(&bits, x + (r * groups + group) * GROUP + word * 4, 4);
                __m512i a = _mm512_set1_epi32(bits);
#pragma GCC unroll 3
                for (int v = 0; v < 3; v++) dot_bytes(&sums[r][v], a, columns[v]);
            }
        }
#pragma GCC unroll 3
        for (int v = 0; v < 3; v++) {
            __m512 scale = _mm512_loadu_ps(panel + (GROUP / 4 + 1) * PANEL + 16 * v);
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++) {
                float *total = totals + r * PANEL + 16 * v;
                __m512 both = scale * _mm512_set1_ps(x_scales[r * groups + group]);
                _mm512_store_ps(total, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[r][v]), both, _mm512_load_ps(total)));
            }
        }
        __asm__ volatile("" ::: "memory"); /* or else the compiler keeps totals in registers, and sums in memory */
    }
#pragma GCC unroll 3
    for (int v = 0; v < 3; v++) {
        __mmask16 mask = lanes_left(left - 16 * v);
        __m512 offset = bias ? load_lanes(bias + 16 * v, mask) : _mm512_setzero_ps();
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
            put(out, sum, r * outputs + 16 * v, mask, _mm512_load_ps(totals + r * PANEL + 16 * v) + offset);
    }
}

static void stripe(const uint8_t *x, int64_t groups, const int32_t *panel, const float *x_scales,
                   const T *bias, T *out, float *sum, int64_t outputs, int64_t left, int64_t rows, Ahead ahead) {
#define TILE(N) tile(x, groups, panel, x_scales, bias, out, sum, outputs, left, &ahead, N)
    for (; rows >= 8; rows -= 8) {
        TILE(8);
        x += 8 * groups * GROUP, x_scales += 8 * groups, out += 8 * outputs, sum = sum ? sum + 8 * outputs : 0;
    }
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

void stripe_int8(const Product *p, const uint8_t *x, const float *x_scales, const int32_t *panel, const T *bias, T *out,
                 float *sum, int64_t left, int64_t rows, Ahead ahead) {
    stripe(x, p->inputs / GROUP, panel, x_scales, bias, out, sum, p->outputs, left, rows, ahead);
}
#elif defined(HAVE_VECTORS)
void quantize_rows(const T *x, uint8_t *to, float *scales, int64_t rows, int64_t size) {}
void stripe_int8(const Product *p, const uint8_t *x, const float *x_scales, const int32_t *panel, const T *bias, T *out,
                 float *sum, int64_t left, int64_t rows, Ahead ahead) {}
#endif

/* Whether products in int8 are there. */
int64_t have_int8(void) {
#if defined(HAVE_VECTORS) && defined(__AVX512VNNI__)
    return 1;
#else
    return 0;
#endif
}
