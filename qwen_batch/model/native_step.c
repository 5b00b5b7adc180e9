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
    float *residual; /* between the layers nothing is rounded to T */
    T *normed, *qkv, *mixed, *gate_up, *activated;
    uint8_t *quantized; /* [tokens, the largest of the products' inputs] */
    float *x_scales;    /* [tokens, the same / 64] */
} Buffers;

/* Rows rise, so none is overwritten before it has moved. `size` in bytes. */
static void gather_rows(void *rows, const int64_t *wanted, int64_t count, int64_t size) {
    for (int64_t i = 0; i < count; i++) memmove((char *)rows + i * size, (char *)rows + wanted[i] * size, size);
}

/* token_ids [tokens] -> out [num_rows, hidden], normalised, of the tokens logit_rows [num_rows] in rising order. */
void run_step(const Model *m, const Plan *plan, const Buffers *b, const int64_t *token_ids, const float *cos,
              const float *sin, const int64_t *slots, int64_t tokens, const int64_t *logit_rows, int64_t num_rows,
              T *out) {
    const int64_t hidden = m->hidden, width = (m->heads + 2 * m->kv_heads) * m->dim, q_size = m->heads * m->dim;
    for (int64_t i = 0; i < tokens; i++)
        for (int64_t j = 0; j < hidden; j++) b->residual[i * hidden + j] = load(m->embedding[token_ids[i] * hidden + j]);
    int64_t rows = tokens;
    for (int64_t i = 0; i < m->num_layers; i++) {
        const Layer *layer = m->layers + i;
        const int last = i == m->num_layers - 1;
        rms_norm_rows(b->residual, layer->input_norm, b->normed, rows, hidden, m->norm_eps);
        multiply(&layer->qkv, b->normed, b->qkv, 0, rows, b->quantized, b->x_scales, &layer->output);
        prepare_qkv(b->qkv, layer->q_norm, layer->k_norm, cos, sin, slots, layer->keys, layer->values, rows, m->heads,
                    m->kv_heads, m->dim, m->norm_eps);
        if (last && !num_rows) return;
        attend(plan, last, b->qkv, width, layer->keys, layer->values, m->heads, m->kv_heads, m->dim, b->mixed);
        if (last) {
            gather_rows(b->residual, logit_rows, num_rows, hidden * sizeof(float));
            gather_rows(b->mixed, logit_rows, num_rows, q_size * sizeof(T));
            rows = num_rows;
        }
        multiply(&layer->output, b->mixed, 0, b->residual, rows, b->quantized, b->x_scales, &layer->gate_up);
        rms_norm_rows(b->residual, layer->post_norm, b->normed, rows, hidden, m->norm_eps);
        multiply(&layer->gate_up, b->normed, b->gate_up, 0, rows, b->quantized, b->x_scales, &layer->down);
        silu_mul(b->gate_up, b->activated, rows, m->intermediate);
        multiply(&layer->down, b->activated, 0, b->residual, rows, b->quantized, b->x_scales, last ? 0 : &layer[1].qkv);
    }
    rms_norm_rows(b->residual, m->norm, out, rows, hidden, m->norm_eps);
}
#endif
