/* All layers of a decoder for one ragged step, in one call: no time between the operations, and no memory but the
 * buffers that the caller keeps.
 *
 * In the last layer only keys and values are needed of all tokens; everything after them is computed for the rows whose
 * logits are wanted.
 */

#include "native_parts.h"

#if defined(HAVE_VECTORS)

/* As in model/native_layers.py. */
typedef struct {
    const T *input_norm, *q_norm, *k_norm, *post_norm;
    Product qkv, output, gate_up, down;
    T *keys, *values; /* [slots, kv_heads, dim] */
} Layer;

typedef struct {
    int64_t hidden, intermediate, heads, kv_heads, dim;
    float norm_eps;
    const T *embedding; /* [vocab, hidden] */
    const T *norm;      /* [hidden] */
    const Layer *layers;
    int64_t num_layers;
} Model;

/* Buffers for `tokens` rows; sizes as named in Model. */
typedef struct {
    T *residual, *delta, *normed, *qkv, *mixed, *gate_up, *activated;
    uint8_t *quantized; /* [tokens, the largest of the products' inputs] */
    float *row_scales;  /* [tokens] */
} Buffers;

static void gather_rows(const T *from, const int64_t *rows, T *to, int64_t count, int64_t size) {
    for (int64_t i = 0; i < count; i++) memcpy(to + i * size, from + rows[i] * size, size * sizeof(T));
}

/* token_ids [tokens] -> out [num_rows, hidden], normalised, of the tokens logit_rows [num_rows] in rising order. */
void run_step(const Model *m, const Plan *plan, const Buffers *b, const int64_t *token_ids, const float *cos,
              const float *sin, const int64_t *slots, int64_t tokens, const int64_t *logit_rows, int64_t num_rows,
              T *out) {
    const int64_t hidden = m->hidden, width = (m->heads + 2 * m->kv_heads) * m->dim, q_size = m->heads * m->dim;
    gather_rows(m->embedding, token_ids, b->residual, tokens, hidden);
    int64_t rows = tokens;
    for (int64_t i = 0; i < m->num_layers; i++) {
        const Layer *layer = m->layers + i;
        const int last = i == m->num_layers - 1;
        add_rms_norm(b->residual, i ? b->delta : 0, layer->input_norm, b->normed, rows, hidden, m->norm_eps);
        multiply(&layer->qkv, b->normed, b->qkv, rows, b->quantized, b->row_scales);
        prepare_qkv(b->qkv, layer->q_norm, layer->k_norm, cos, sin, slots, layer->keys, layer->values, rows, m->heads,
                    m->kv_heads, m->dim, m->norm_eps);
        if (last && !num_rows) return;
        attend(plan, last, b->qkv, width, layer->keys, layer->values, m->heads, m->kv_heads, m->dim, b->mixed);
        if (last) { /* rows rise, so no row is overwritten before it has moved */
            gather_rows(b->residual, logit_rows, b->residual, num_rows, hidden);
            gather_rows(b->mixed, logit_rows, b->mixed, num_rows, q_size);
            rows = num_rows;
        }
        multiply(&layer->output, b->mixed, b->delta, rows, b->quantized, b->row_scales);
        add_rms_norm(b->residual, b->delta, layer->post_norm, b->normed, rows, hidden, m->norm_eps);
        multiply(&layer->gate_up, b->normed, b->gate_up, rows, b->quantized, b->row_scales);
        silu_mul(b->gate_up, b->activated, rows, m->intermediate);
        multiply(&layer->down, b->activated, b->delta, rows, b->quantized, b->row_scales);
    }
    add_rms_norm(b->residual, b->delta, m->norm, out, rows, hidden, m->norm_eps);
}
#endif
