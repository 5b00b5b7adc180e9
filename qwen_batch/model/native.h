/* What the native sources share: the element type, its conversions, and the words that vector code computes with. */

#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

#if defined(USE_BFLOAT16)
typedef uint16_t T;
INLINE float load(T value) {
    uint32_t bits = (uint32_t)value << 16;
    float result;
    memcpy(&result, &bits, 4);
    return result;
}
INLINE T store(float value) { /* to nearest, ties to even; a NaN stays one */
    uint32_t bits;
    memcpy(&bits, &value, 4);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return (T)((bits & 0x7fffffff) > 0x7f800000 ? (bits >> 16) | 0x40 : rounded);
}
#else
typedef float T;
INLINE float load(T value) { return value; }
INLINE T store(float value) { return value; }
#endif

/* Where the machine has 512-bit vectors for T, products go by words of 32 bits: two bfloat16 or one float. One lane of
 * `dot` multiplies a word of a with a word of b and adds to a float. */
#if defined(USE_BFLOAT16) && defined(__AVX512BF16__) && defined(__AVX512BW__)
#define HAVE_VECTORS 1
#define WORD 2 /* elements in a word */
#elif !defined(USE_BFLOAT16) && defined(__AVX512F__)
#define HAVE_VECTORS 1
#define WORD 1
#endif

#if defined(HAVE_VECTORS)
#include <immintrin.h>

#if WORD == 2
INLINE __m512 dot(__m512 sum, __m512i a, __m512i b) { return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b); }
/* 16 floats <-> 16 elements in memory, of which `mask` says which are touched */
INLINE void store_lanes(T *to, __mmask16 mask, __m512 x) {
    _mm256_mask_storeu_epi16(to, mask, (__m256i)_mm512_cvtneps_pbh(x));
}
INLINE __m512 load_lanes(const T *from, __mmask16 mask) {
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
#else
INLINE __m512 dot(__m512 sum, __m512i a, __m512i b) {
    return _mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), sum);
}
INLINE void store_lanes(T *to, __mmask16 mask, __m512 x) { _mm512_mask_storeu_ps(to, mask, x); }
INLINE __m512 load_lanes(const T *from, __mmask16 mask) { return _mm512_maskz_loadu_ps(mask, from); }
#endif

INLINE __m512i word_of(const T *from) { /* one word in all lanes */
    int32_t bits;
    memcpy(&bits, from, 4);
    return _mm512_set1_epi32(bits);
}

INLINE __mmask16 lanes_left(int64_t count) { /* the first `count` of 16 lanes */
    return count >= 16 ? 0xffff : count > 0 ? (__mmask16)((1 << count) - 1) : 0;
}

/* 2^x for x < 127, relative error below 3e-7; 0 below -149. */
INLINE __m512 exp2_lanes(__m512 x) {
    x = _mm512_max_ps(_mm512_set1_ps(-150.0f), x); /* in this order a NaN stays one */
    __m512 n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), f = _mm512_sub_ps(x, n);
    __m512 p = _mm512_set1_ps(1.5403530e-4f);
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.3333558e-3f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(9.6181291e-3f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(5.5504109e-2f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(2.4022651e-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(6.9314718e-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, n);
}
#endif
