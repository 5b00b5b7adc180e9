/* Attention over blocks of keys and values, for a CPU with 512-bit vectors: prompts, single tokens, shared prefixes.
 *
 * Softmax as it goes over tiles of 64 keys (Milakov and Gimelshein 2018; Dao et al. 2022). The rows of a tile are
 * (token, query head of the group) pairs that share a KV head. Scores and sums are floats; weights of values are
 * rounded to T. A row's arithmetic depends on its own keys alone: tiles begin at multiples of 64 keys whatever the
 * step, and a masked key adds an exact zero. So the answer is the same to the bit for any batch and any chunking.
 */

#include <omp.h>

#include "native_prompts.h"
#include "native_singles.h"

#if defined(HAVE_VECTORS)

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
                    s->tops[row] = FAR_BELOW;
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

/* at: where the keys of a tile stand; beyond the last key others of the tile again, whose weight will be 0. */
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
    for (int i = count; i < KEYS; i++) at[i] = i < 16 ? at[count - 1] : at[i - 16];
}

/* `after` is what this thread does next. */
INLINE void attend_piece(Scratch *s, const Step *p, const Work *w, const Work *after, const int dim) {
    const int rows = (int)(w->count * (p->query_heads / p->kv_heads));
    const int packed = rows > MAX_SINGLE || dim % 64 || p->plan->exact;
    begin_rows(s, p, w, dim);
    if (!packed && w->continues)
        for (int at = 0; at < rows * w->heads * dim; at += 64) reorder(s->sums + at, 0);
    for (int64_t start = w->begin; start < w->end; start += KEYS) {
        const int count = w->end - start < KEYS ? (int)(w->end - start) : KEYS, is_last = start + KEYS >= w->end;
        for (int h = 0; h < (packed ? w->heads : 1); h++) {
            find_keys(s->at, p, w, start, h, dim);
            if (!is_last) find_keys(s->next, p, w, start + KEYS, h, dim);
            else if (h < after->heads) find_keys(s->next, p, after, after->begin, h, dim);
            if (packed) attend_packed(s, p, w, start, h * rows, rows, count, dim);
            else if (rows == 1) attend_in_place(s, p, w, start, 1, count, dim);
            else if (rows == 2) attend_in_place(s, p, w, start, 2, count, dim);
            else if (rows == 3) attend_in_place(s, p, w, start, 3, count, dim);
            else attend_in_place(s, p, w, start, 4, count, dim);
        }
    }
    if (!packed)
        for (int at = 0; at < rows * w->heads * dim; at += 64) reorder(s->sums + at, 1);
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

INLINE int64_t take_one(int64_t *next) { return __atomic_fetch_add(next, 1, __ATOMIC_RELAXED); }

/* Threads take pieces one ahead, so that each knows for what to ask. */
static void attend_all(const Step *step, const Work *work, int64_t count, int64_t dim) {
    int64_t next = 0;
#pragma omp parallel
    {
        Scratch scratch;
        for (int64_t i = take_one(&next), after; i < count; i = after) {
            after = take_one(&next);
            const Work *w = work + i, *then = after < count ? work + after : w;
            if (dim == 64) attend_64(&scratch, step, w, then);
            else if (dim == 128) attend_128(&scratch, step, w, then);
            else attend_any(&scratch, step, w, then, (int)dim);
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
