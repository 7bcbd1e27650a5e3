// One forward step of a pre-norm GQA decoder (Llama, SmolLM, Mistral, Qwen2, Qwen3) over paged keys and values.
//
// The step is a single call. Its stages are cut into pieces that the threads claim as they come, and a stage is over
// when its pieces are done: a thread that lost its core between two pieces holds up nobody, which matters where
// recognition and speech want the same cores. Every product, attention included, runs through one micro-kernel,
// `tile`, which adds up the inner dimension in the same order whatever the number of rows: a row's result does not depend
// on its neighbours, nor on how a prompt was cut into chunks.
//
// Layouts (bf16 unless said otherwise; "unit" = 32 columns):
//   weights   [unit][k / 2][32][2]      pairs along k lie together, as dot products of two want them
//   int8      [unit][k / 2][2][2][16]   halves of the unit, then even and odd k; widened to the above where it is used
//   keys      [kv head][block][d / 2][32 tokens][2]
//   values    [kv head][block][unit of d][token / 2][32][2]
// The residual stream, scores and logits are f32.

#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#define UNIT 32
#define BLOCK 32
#if defined(__AVX512F__)
#define MAX_ROWS 12  // 24 accumulators of 32 vector registers
#else
#define MAX_ROWS 2
#endif

typedef float vf __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint32_t vu __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t vi __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint16_t vh __attribute__((vector_size(32), aligned(2), may_alias));
typedef uint16_t bf16;

// ---------------------------------------------------------------- numbers

static inline float to_f32(bf16 x) {
    union { uint32_t u; float f; } c = {.u = (uint32_t)x << 16};
    return c.f;
}

static inline bf16 to_bf16(float x) {
    union { float f; uint32_t u; } c = {.f = x};
    if ((c.u & 0x7fffffff) > 0x7f800000) return 0x7fc0;
    return (bf16)((c.u + 0x7fff + ((c.u >> 16) & 1)) >> 16);
}

static inline vf splat(float x) { return (vf){0} + x; }

static inline void store_bf16(bf16 *to, vf x) {
#if defined(__AVX512BF16__)
    _mm256_storeu_si256((__m256i *)to, (__m256i)_mm512_cvtneps_pbh((__m512)x));
#else
    vu u = (vu)x;
    vu rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    *(vh *)to = __builtin_convertvector(rounded, vh);
#endif
}

// acc + a0 * b0 + a1 * b1 in each lane, of pairs of bf16.
static inline vf dot2(vf acc, uint32_t a, vu b) {
#if defined(__AVX512BF16__)
    return (vf)_mm512_dpbf16_ps((__m512)acc, (__m512bh)_mm512_set1_epi32((int)a), (__m512bh)b);
#else
    vu pair = (vu){0} + a;
    acc += (vf)(pair << 16) * (vf)(b << 16);
    return acc + (vf)(pair & 0xffff0000u) * (vf)(b & 0xffff0000u);
#endif
}

// Cephes' expf: 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2]. Below -87 the result is 0, above 88 it is e^88.
static inline vf exp_v(vf x) {
    const vf low = splat(-87.0f), high = splat(88.0f);
    const vi under = x < low, over = x > high;
    x = (vf)(((vi)x & ~under & ~over) | ((vi)low & under) | ((vi)high & over));
    vf t = x * 1.44269504088896341f + 12582912.0f;  // rounds to an integer in the low mantissa bits
    vi n = (vi)t - 0x4b400000;
    vf whole = t - 12582912.0f;
    vf r = x - whole * 0.693359375f;
    r = r - whole * -2.12194440e-4f;
    vf p = splat(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    return (vf)(((vi)p + (n << 23)) & ~under);
}

static inline float sum_v(vf x) {
    float s = 0;
    for (int i = 0; i < 16; i++) s += x[i];
    return s;
}

// ---------------------------------------------------------------- the model, as Python describes it

typedef struct {
    const void *weight;  // bf16, or int8 if there is a scale for each column
    const float *bias, *scale;  // or null
    int64_t units, inner;
} Linear;

typedef struct {
    Linear qkv, out, gate_up, down;
    const float *norm_in, *norm_mid, *norm_q, *norm_k;  // the last two or null
    bf16 *keys, *values;
    int64_t window;  // positions a row may look back on, itself included; 0 for all
    int64_t rotate;
} Layer;

typedef struct {
    int64_t hidden, heads, kv_heads, head_dim, inner, layers, vocabulary, blocks;
    float eps, scale;
    const Layer *layer;
    Linear head;
    const Linear *embedding;
    const float *norm_out;
    const float *cos, *sin;  // [positions][head_dim / 2]
} Model;

typedef struct {
    int64_t row, rows, start;
    const int32_t *blocks;
} Span;

typedef struct {
    int64_t rows, spans, wanted;
    const int32_t *ids, *positions, *span_of;
    const Span *span;
    const int32_t *wanted_rows;
    float *logits;  // [wanted][vocabulary rounded up to UNIT]
    double *spent;  // seconds of each kind of stage, added to; or null
} Step;

enum { NORMS, QKV, PLACE, ATTENTION, OUT, GATE_UP, DOWN, HEAD };  // kinds of stages, as in bindings.py

// ---------------------------------------------------------------- threads

typedef struct {
    atomic_int claimed, done;
} Stage;

typedef struct {
    const Model *model;
    const Step *step;
    float *x, *qkv, *scratch;  // residual [rows][hidden]; [rows][qkv]; per thread
    bf16 *a, *q, *h, *p;       // GEMM input; queries [kv head][rows][group][d]; MLP inner; per thread
    bf16 *wide;                // a widened unit per thread
    int64_t scratch_row;       // scores per row in scratch and p
    int64_t wide_unit;
    Stage *stages;             // in the order of the step
    int threads;
} Team;

#define STAGES_OF_LAYER 8
#define OTHER_STAGES 4

static inline int64_t claim(Stage *stage) { return atomic_fetch_add_explicit(&stage->claimed, 1, memory_order_relaxed); }

static inline void finish(Stage *stage) { atomic_fetch_add_explicit(&stage->done, 1, memory_order_release); }

// Until all pieces are done. Spins at first: the others are microseconds behind, unless one has lost its core.
static inline void await(Stage *stage, int64_t pieces) {
    for (int spins = 0; atomic_load_explicit(&stage->done, memory_order_acquire) < pieces; spins++) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        if (spins > 2000) sched_yield();
    }
}

// ---------------------------------------------------------------- products

// What a thread will read next, so that memory is busy while the processor is. `stride` bytes for each pair of k.
typedef struct {
    const char *from;
    int64_t stride;
} Ahead;

// acc[r][0..1] += rows of a (stride in elements) times one unit, over `pairs` pairs.
static inline __attribute__((always_inline)) void tile(
    const int rows, const bf16 *a, int64_t stride, const bf16 *unit, int64_t pairs, Ahead ahead, vf acc[][2]) {
    vf sum[MAX_ROWS][2];
    for (int r = 0; r < rows; r++) sum[r][0] = acc[r][0], sum[r][1] = acc[r][1];
    for (int64_t k = 0; k < pairs; k++) {
        const vu *b = (const vu *)(unit + k * 2 * UNIT);
        vu b0 = b[0], b1 = b[1];
        __builtin_prefetch(ahead.from + k * ahead.stride, 0, 2);
        __builtin_prefetch(ahead.from + k * ahead.stride + 64, 0, 2);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            uint32_t pair;
            memcpy(&pair, a + r * stride + 2 * k, 4);
            sum[r][0] = dot2(sum[r][0], pair, b0);
            sum[r][1] = dot2(sum[r][1], pair, b1);
        }
    }
    for (int r = 0; r < rows; r++) acc[r][0] = sum[r][0], acc[r][1] = sum[r][1];
}

#define CASE(n) case n: tile(n, a, stride, unit, pairs, ahead, acc); return;
static void tile_any(
    int rows, const bf16 *a, int64_t stride, const bf16 *unit, int64_t pairs, Ahead ahead, vf acc[][2]) {
    switch (rows) {
        CASE(1) CASE(2)
#if MAX_ROWS > 2
        CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
#endif
    }
}

static inline int64_t tiles_of(int64_t rows) { return (rows + MAX_ROWS - 1) / MAX_ROWS; }

// How many of the rows left the next tile takes: equal shares, so that no tile is thin.
static inline int share(int64_t left) { return (int)((left + tiles_of(left) - 1) / tiles_of(left)); }

static inline vu as_float_bits(const int8_t *from) {
#if defined(__AVX512F__)
    return (vu)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)from)));
#else
    float wide[16];
    for (int i = 0; i < 16; i++) wide[i] = from[i];
    return *(const vu *)wide;
#endif
}

// An int8 unit as bf16: all of -127..127 are exact, so the upper half of a float is the number.
static void widen(const int8_t *from, int64_t pairs, const char *next, bf16 *to) {
    for (int64_t i = 0; i < 2 * pairs; i++) {
        __builtin_prefetch(next + i * UNIT, 0, 2);
        const vu even = as_float_bits(from + i * UNIT), odd = as_float_bits(from + i * UNIT + 16);
        *(vu *)(to + i * UNIT) = (even >> 16) | (odd & 0xffff0000u);
    }
}

typedef void (*Emit)(void *to, int64_t stride, int64_t unit, int row, vf y0, vf y1);

static void emit_f32(void *to, int64_t stride, int64_t unit, int row, vf y0, vf y1) {
    vf *out = (vf *)((float *)to + row * stride + unit * UNIT);
    out[0] = y0, out[1] = y1;
}

static void emit_add(void *to, int64_t stride, int64_t unit, int row, vf y0, vf y1) {
    vf *out = (vf *)((float *)to + row * stride + unit * UNIT);
    out[0] += y0, out[1] += y1;
}

static void emit_silu(void *to, int64_t stride, int64_t unit, int row, vf gate, vf up) {
    store_bf16((bf16 *)to + row * stride + unit * 16, gate / (1.0f + exp_v(-gate)) * up);
}

// Enough pieces that a thread which lost its core for a while leaves most of the work to the others.
static inline int64_t piece_of(const Team *team, const Linear *linear) {
    const int64_t piece = linear->units / (team->threads * 8);
    return piece < 1 ? 1 : piece;
}

static inline const char *unit_at(const Linear *linear, int64_t unit) {
    return (const char *)linear->weight + unit * UNIT * linear->inner * (linear->scale ? 1 : 2);
}

static inline __attribute__((always_inline)) void product_unit(
    const Linear *linear, int64_t u, bf16 *wide, const char *next, const bf16 *a, int64_t rows, void *to,
    int64_t stride, const Emit emit) {
    const bf16 *unit = (const bf16 *)unit_at(linear, u);
    vf scale[2] = {splat(1), splat(1)}, bias[2] = {splat(0), splat(0)};
    if (linear->scale) {
        widen((const int8_t *)unit, linear->inner / 2, next, wide);
        unit = wide;
        for (int i = 0; i < 2; i++) scale[i] = *(const vf *)(linear->scale + u * UNIT + i * 16);
    }
    if (linear->bias)
        for (int i = 0; i < 2; i++) bias[i] = *(const vf *)(linear->bias + u * UNIT + i * 16);
    // Each tile fetches its share of the next unit, unless widening has done so.
    Ahead ahead = linear->scale ? (Ahead){(const char *)a, 0} : (Ahead){next, UNIT * 4 / tiles_of(rows)};
    for (int64_t r = 0, n; r < rows; r += n) {
        n = share(rows - r);
        vf acc[MAX_ROWS][2] = {0};
        tile_any((int)n, a + r * linear->inner, linear->inner, unit, linear->inner / 2, ahead, acc);
        ahead.from += linear->inner / 2 * ahead.stride;
        for (int i = 0; i < n; i++)
            emit(to, stride, u, (int)(r + i), acc[i][0] * scale[0] + bias[0], acc[i][1] * scale[1] + bias[1]);
    }
}

// rows of a times the linear's units. `then` is the product that follows: its weights are fetched at the end.
static inline __attribute__((always_inline)) void product(
    Team *team, Stage *stage, int thread, const Linear *linear, const Linear *then, const bf16 *a, int64_t rows,
    void *to, int64_t stride, const Emit emit) {
    const int64_t piece = piece_of(team, linear), pieces = (linear->units + piece - 1) / piece;
    const char *afterwards = unit_at(then, thread * piece_of(team, then));
    bf16 *wide = team->wide + thread * team->wide_unit;
    for (int64_t mine; (mine = claim(stage)) < pieces; finish(stage)) {
        const int64_t first = mine * piece, last = first + piece < linear->units ? first + piece : linear->units;
        for (int64_t u = first; u < last; u++) {
            // After a piece comes, most likely, the one that nobody has claimed yet.
            const int64_t next =
                u + 1 < last ? u + 1 : atomic_load_explicit(&stage->claimed, memory_order_relaxed) * piece;
            const char *ahead = next < linear->units ? unit_at(linear, next) : afterwards;
            product_unit(linear, u, wide, ahead, a, rows, to, stride, emit);
        }
    }
    await(stage, pieces);
}

// ---------------------------------------------------------------- stages between products

static void norm_row(const float *x, const float *weight, int64_t n, float eps, bf16 *to) {
    vf squares = splat(0);
    for (int64_t i = 0; i < n; i += 16) { vf v = *(const vf *)(x + i); squares += v * v; }
    float factor = 1.0f / sqrtf(sum_v(squares) / (float)n + eps);
    for (int64_t i = 0; i < n; i += 16) store_bf16(to + i, *(const vf *)(x + i) * factor * *(const vf *)(weight + i));
}

static void norm_head(float *x, const float *weight, int64_t n, float eps) {
    float squares = 0;
    for (int64_t i = 0; i < n; i++) squares += x[i] * x[i];
    float factor = 1.0f / sqrtf(squares / (float)n + eps);
    for (int64_t i = 0; i < n; i++) x[i] *= factor * weight[i];
}

static void rotate_head(float *restrict x, const float *restrict cos, const float *restrict sin, int64_t half) {
    float *restrict y = x + half;
    for (int64_t i = 0; i < half; i++) {
        const float a = x[i], b = y[i];
        x[i] = a * cos[i] - b * sin[i];
        y[i] = b * cos[i] + a * sin[i];
    }
}

static void embed_token(const Model *m, int32_t id, float *x) {
    const Linear *e = m->embedding;
    const int64_t start = (int64_t)(id / UNIT) * UNIT * e->inner, lane = id % UNIT;
    if (e->scale) {
        const int8_t *unit = (const int8_t *)e->weight + start + lane / 16 * 32 + lane % 16;
        for (int64_t k = 0; k < e->inner; k++) x[k] = unit[k / 2 * 2 * UNIT + k % 2 * 16] * e->scale[id];
    } else {
        const bf16 *unit = (const bf16 *)e->weight + start + lane * 2;
        for (int64_t k = 0; k < e->inner; k++) x[k] = to_f32(unit[k / 2 * 2 * UNIT + k % 2]);
    }
}

static inline int64_t units_of(int64_t n) { return (n + UNIT - 1) / UNIT; }

static void prepare_head(const Model *m, const Layer *layer, const float *weight, int64_t position, float *head) {
    const int64_t half = m->head_dim / 2;
    if (weight) norm_head(head, weight, m->head_dim, m->eps);
    if (layer->rotate) rotate_head(head, m->cos + position * half, m->sin + position * half, half);
}

static void place_key(const float *head, int64_t d, int64_t slot, bf16 *block) {
    for (int64_t i = 0; i < d; i += 2) {
        const uint32_t pair = to_bf16(head[i]) | (uint32_t)to_bf16(head[i + 1]) << 16;
        memcpy(block + i * BLOCK + slot * 2, &pair, 4);
    }
}

static void place_value(const float *head, int64_t d, int64_t slot, int clear, bf16 *block) {
    for (int64_t u = 0; u < units_of(d); u++) {
        bf16 *pairs = block + u * UNIT * BLOCK + slot / 2 * UNIT * 2;
        for (int64_t i = 0; i < UNIT && u * UNIT + i < d; i++) {
            pairs[i * 2 + slot % 2] = to_bf16(head[u * UNIT + i]);
            if (clear && slot % 2 == 0) pairs[i * 2 + 1] = 0;
        }
        if (clear) memset(pairs + UNIT * 2, 0, (BLOCK / 2 - 1 - slot / 2) * UNIT * 2 * sizeof(bf16));
    }
}

// Normalise and rotate a row's heads; queries go to q, keys and values into their blocks.
static void place_row(const Team *team, const Layer *layer, int64_t row) {
    const Model *m = team->model;
    const Step *s = team->step;
    const int64_t d = m->head_dim, group = m->heads / m->kv_heads, position = s->positions[row];
    const Span *span = &s->span[s->span_of[row]];
    const int64_t block = span->blocks[position / BLOCK], slot = position % BLOCK;
    // What follows a sequence's last token takes part in products with weight zero, so it must be finite.
    // A block that was begun by an earlier step has been cleared by it.
    const int clear = row == span->row + span->rows - 1 && position - slot >= span->start;
    float *q = team->qkv + row * ((m->heads + 2 * m->kv_heads) * d), *k = q + m->heads * d, *v = k + m->kv_heads * d;
    for (int64_t h = 0; h < m->heads; h++) {
        float *head = q + h * d;
        prepare_head(m, layer, layer->norm_q, position, head);
        bf16 *to = team->q + ((h / group * s->rows + row) * group + h % group) * d;
        for (int64_t i = 0; i < d; i += 16) store_bf16(to + i, *(const vf *)(head + i));
    }
    const int64_t key_block = d * BLOCK, value_block = units_of(d) * UNIT * BLOCK;
    for (int64_t h = 0; h < m->kv_heads; h++) {
        prepare_head(m, layer, layer->norm_k, position, k + h * d);
        place_key(k + h * d, d, slot, layer->keys + (h * m->blocks + block) * key_block);
        place_value(v + h * d, d, slot, clear, layer->values + (h * m->blocks + block) * value_block);
    }
}

// Up to MAX_ROWS query rows (a token and a head each) of one span and kv head, from flat row `first` on.
static void attend(const Team *team, const Layer *layer, const Span *span, int64_t kv, int64_t first, int n, int thread) {
    const Model *m = team->model;
    const int64_t d = m->head_dim, group = m->heads / m->kv_heads;
    const int64_t key_block = d * BLOCK, value_unit = UNIT * BLOCK, value_block = units_of(d) * value_unit;
    const bf16 *keys = layer->keys + kv * m->blocks * key_block, *values = layer->values + kv * m->blocks * value_block;
    const int64_t earliest = span->start + first / group, latest = span->start + (first + n - 1) / group;
    int64_t from = layer->window && earliest >= layer->window ? (earliest - layer->window + 1) / BLOCK : 0;
    const int64_t to = latest / BLOCK + 1;
    const bf16 *q = team->q + ((kv * team->step->rows + span->row) * group + first) * d;
    const int64_t stride = team->scratch_row;
    float *scores = team->scratch + thread * MAX_ROWS * stride;
    bf16 *p = team->p + thread * MAX_ROWS * stride;
    for (int64_t b = from; b < to; b++) {
        vf acc[MAX_ROWS][2] = {0};
        Ahead ahead = {(const char *)(keys + span->blocks[b + 1 < to ? b + 1 : b] * key_block), UNIT * 4};
        tile_any(n, q, d, keys + span->blocks[b] * key_block, d / 2, ahead, acc);
        for (int r = 0; r < n; r++) {
            vf *out = (vf *)(scores + r * stride + (b - from) * BLOCK);
            out[0] = acc[r][0] * m->scale, out[1] = acc[r][1] * m->scale;
        }
    }
    float inverse[MAX_ROWS];
    const int64_t width = (to - from) * BLOCK;
    for (int r = 0; r < n; r++) {
        const int64_t position = span->start + (first + r) / group - from * BLOCK;
        const int64_t begin = layer->window && position >= layer->window ? position - layer->window + 1 : 0;
        float *row = scores + r * stride;
        for (int64_t i = 0; i < begin; i++) row[i] = -INFINITY;
        for (int64_t i = position + 1; i < width; i++) row[i] = -INFINITY;
        vf most = *(vf *)row;
        for (int64_t i = 16; i < width; i += 16) {
            vf v = *(vf *)(row + i);
            vi more = v > most;
            most = (vf)(((vi)v & more) | ((vi)most & ~more));
        }
        float top = most[0];
        for (int i = 1; i < 16; i++) top = most[i] > top ? most[i] : top;
        vf total = splat(0);
        for (int64_t i = 0; i < width; i += 16) {
            vf e = exp_v(*(vf *)(row + i) - top);
            total += e;
            store_bf16(p + r * stride + i, e);
        }
        inverse[r] = 1.0f / sum_v(total);
    }
    for (int64_t u = 0; u < units_of(d); u++) {
        vf acc[MAX_ROWS][2] = {0};
        for (int64_t b = from; b < to; b++) {
            const bf16 *unit = values + span->blocks[b] * value_block + u * value_unit;
            Ahead ahead = {(const char *)(values + span->blocks[b + 1 < to ? b + 1 : b] * value_block + u * value_unit), UNIT * 4};
            tile_any(n, p + (b - from) * BLOCK, stride, unit, BLOCK / 2, ahead, acc);
        }
        for (int r = 0; r < n; r++) {
            const int64_t flat = first + r, row = span->row + flat / group, head = kv * group + flat % group;
            bf16 *out = team->a + (row * m->heads + head) * d + u * UNIT;
            store_bf16(out, acc[r][0] * inverse[r]);
            if (u * UNIT + 16 < d) store_bf16(out + 16, acc[r][1] * inverse[r]);
        }
    }
}

static void attend_all(Team *team, Stage *stage, const Layer *layer, int thread) {
    const Model *m = team->model;
    const Step *s = team->step;
    const int64_t group = m->heads / m->kv_heads;
    int64_t item = claim(stage), seen = 0;
    for (int64_t i = 0; i < s->spans; i++) {
        const int64_t flat = s->span[i].rows * group, tiles = tiles_of(flat);
        for (; item < seen + tiles * m->kv_heads; item = claim(stage)) {
            const int64_t kv = (item - seen) / tiles, first = (item - seen) % tiles * MAX_ROWS;
            const int n = (int)(flat - first < MAX_ROWS ? flat - first : MAX_ROWS);
            attend(team, layer, &s->span[i], kv, first, n, thread);
            finish(stage);
        }
        seen += tiles * m->kv_heads;
    }
    await(stage, seen);
}

typedef void (*RowWork)(const Team *team, const Layer *layer, int64_t row);

static void embed(const Team *team, const Layer *layer, int64_t row) {
    (void)layer;
    embed_token(team->model, team->step->ids[row], team->x + row * team->model->hidden);
}

static void norm(const Team *team, const float *weight, int64_t row) {
    const int64_t n = team->model->hidden;
    norm_row(team->x + row * n, weight, n, team->model->eps, team->a + row * n);
}

static void norm_in(const Team *team, const Layer *layer, int64_t row) { norm(team, layer->norm_in, row); }
static void norm_mid(const Team *team, const Layer *layer, int64_t row) { norm(team, layer->norm_mid, row); }
static void norm_out(const Team *team, const Layer *layer, int64_t row) {
    (void)layer;
    norm(team, team->model->norm_out, row);
}

static void by_rows(Team *team, Stage *stage, const Layer *layer, int64_t rows, RowWork one) {
    const int64_t piece = rows / (team->threads * 4) + 1, pieces = (rows + piece - 1) / piece;
    for (int64_t mine; (mine = claim(stage)) < pieces; finish(stage))
        for (int64_t r = mine * piece; r < rows && r < (mine + 1) * piece; r++) one(team, layer, r);
    await(stage, pieces);
}

// In the last layer only the rows whose logits are wanted go on after attention; they come in ascending order.
static void keep_wanted(Team *team, Stage *stage) {
    const Model *m = team->model;
    const Step *s = team->step;
    const int64_t wide = m->heads * m->head_dim;
    if (claim(stage) == 0) {
        for (int64_t i = 0; i < s->wanted; i++) {
            const int64_t from = s->wanted_rows[i];
            if (from == i) continue;
            memcpy(team->x + i * m->hidden, team->x + from * m->hidden, m->hidden * sizeof(float));
            memcpy(team->a + i * wide, team->a + from * wide, wide * sizeof(bf16));
        }
        finish(stage);
    }
    await(stage, 1);
}

// The first thread's time since the last lap counts for a kind of stage, waiting included.
static inline void lap(const Team *team, int thread, int kind, double *since) {
    if (thread || !team->step->spent) return;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const double seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    if (*since) team->step->spent[kind] += seconds - *since;
    *since = seconds;
}

static void work(Team *team, int thread) {
    const Model *m = team->model;
    const Step *s = team->step;
    const int64_t hidden = m->hidden, qkv = (m->heads + 2 * m->kv_heads) * m->head_dim;
    int64_t rows = s->rows;
    Stage *stage = team->stages;
    double since = 0;
    lap(team, thread, NORMS, &since);
    by_rows(team, stage++, NULL, rows, embed);
    for (int64_t l = 0; l < m->layers; l++) {
        const Layer *layer = &m->layer[l];
        const int is_last = l == m->layers - 1;
        by_rows(team, stage++, layer, rows, norm_in);
        lap(team, thread, NORMS, &since);
        product(team, stage++, thread, &layer->qkv, &layer->out, team->a, rows, team->qkv, qkv, emit_f32);
        lap(team, thread, QKV, &since);
        by_rows(team, stage++, layer, rows, place_row);
        lap(team, thread, PLACE, &since);
        if (is_last && s->wanted == 0) return;
        attend_all(team, stage++, layer, thread);
        lap(team, thread, ATTENTION, &since);
        if (is_last && s->wanted < rows) {
            keep_wanted(team, stage++);
            rows = s->wanted;
        }
        product(team, stage++, thread, &layer->out, &layer->gate_up, team->a, rows, team->x, hidden, emit_add);
        lap(team, thread, OUT, &since);
        by_rows(team, stage++, layer, rows, norm_mid);
        lap(team, thread, NORMS, &since);
        product(team, stage++, thread, &layer->gate_up, &layer->down, team->a, rows, team->h, m->inner, emit_silu);
        lap(team, thread, GATE_UP, &since);
        product(team, stage++, thread, &layer->down, is_last ? &m->head : &layer[1].qkv, team->h, rows, team->x, hidden,
                emit_add);
        lap(team, thread, DOWN, &since);
    }
    by_rows(team, stage++, NULL, rows, norm_out);
    lap(team, thread, NORMS, &since);
    product(team, stage++, thread, &m->head, &m->layer[0].qkv, team->a, rows, s->logits, m->head.units * UNIT, emit_f32);
    lap(team, thread, HEAD, &since);
}

// ---------------------------------------------------------------- the crew: threads that live between steps

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t wake, idle;
    Team *team;
    int round, busy, stop, count;
    pthread_t thread[64];
    char *room;  // for a step's own buffers; grows
    int64_t size;
} Crew;

typedef struct { Crew *crew; int number; } Seat;

static void *serve(void *argument) {
    Seat seat = *(Seat *)argument;
    free(argument);
    Crew *crew = seat.crew;
    int round = 0;
    for (;;) {
        pthread_mutex_lock(&crew->lock);
        while (crew->round == round && !crew->stop) pthread_cond_wait(&crew->wake, &crew->lock);
        round = crew->round;
        int stop = crew->stop;
        Team *team = crew->team;
        pthread_mutex_unlock(&crew->lock);
        if (stop) return NULL;
        work(team, seat.number);
        pthread_mutex_lock(&crew->lock);
        if (--crew->busy == 0) pthread_cond_signal(&crew->idle);
        pthread_mutex_unlock(&crew->lock);
    }
}

Crew *parley_crew(int threads) {
    Crew *crew = calloc(1, sizeof(Crew));
    if (!crew) return NULL;
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->wake, NULL);
    pthread_cond_init(&crew->idle, NULL);
    for (int i = 1; i < threads && i < 64; i++) {
        Seat *seat = malloc(sizeof(Seat));
        if (!seat) break;
        *seat = (Seat){crew, i};
        if (pthread_create(&crew->thread[crew->count], NULL, serve, seat)) { free(seat); break; }
        crew->count++;
    }
    return crew;
}

void parley_dismiss(Crew *crew) {
    pthread_mutex_lock(&crew->lock);
    crew->stop = 1;
    pthread_cond_broadcast(&crew->wake);
    pthread_mutex_unlock(&crew->lock);
    for (int i = 0; i < crew->count; i++) pthread_join(crew->thread[i], NULL);
    free(crew->room);
    free(crew);
}

// Lays the step's buffers out one after the other from `base`; returns what they take together.
static int64_t furnish(Team *team, char *base, int64_t rows, int64_t longest) {
    const Model *m = team->model;
    const int64_t d = m->head_dim, across = m->heads * d > m->hidden ? m->heads * d : m->hidden;
    int64_t used = 0;
#define PLACE(field, count) \
    team->field = (void *)(base + used); \
    used += ((count) * (int64_t)sizeof(*team->field) + 63) / 64 * 64
    team->scratch_row = (longest + BLOCK - 1) / BLOCK * BLOCK;
    team->wide_unit = (across > m->inner ? across : m->inner) * UNIT;
    PLACE(x, rows * m->hidden);
    PLACE(qkv, rows * (m->heads + 2 * m->kv_heads) * d);
    PLACE(scratch, team->threads * MAX_ROWS * team->scratch_row);
    PLACE(a, rows * across);
    PLACE(q, rows * m->heads * d);
    PLACE(h, rows * m->inner);
    PLACE(p, team->threads * MAX_ROWS * team->scratch_row);
    PLACE(wide, team->threads * team->wide_unit);
    PLACE(stages, m->layers * STAGES_OF_LAYER + OTHER_STAGES);
#undef PLACE
    return used;
}

// Returns 0, or 1 if there was no memory for the step's own buffers.
int parley_step(Crew *crew, const Model *m, const Step *s) {
    int64_t longest = 0;
    for (int64_t i = 0; i < s->spans; i++)
        if (s->span[i].start + s->span[i].rows > longest) longest = s->span[i].start + s->span[i].rows;
    Team team = {.model = m, .step = s, .threads = crew->count + 1};
    const int64_t needed = furnish(&team, crew->room, s->rows, longest);
    if (needed > crew->size) {
        free(crew->room);
        crew->size = 0;
        if (posix_memalign((void **)&crew->room, 64, needed)) { crew->room = NULL; return 1; }
        crew->size = needed;
        furnish(&team, crew->room, s->rows, longest);
    }
    memset(team.stages, 0, (m->layers * STAGES_OF_LAYER + OTHER_STAGES) * sizeof(Stage));
    pthread_mutex_lock(&crew->lock);
    crew->team = &team;
    crew->busy = crew->count;
    crew->round++;
    pthread_cond_broadcast(&crew->wake);
    pthread_mutex_unlock(&crew->lock);
    work(&team, 0);
    pthread_mutex_lock(&crew->lock);
    while (crew->busy) pthread_cond_wait(&crew->idle, &crew->lock);
    pthread_mutex_unlock(&crew->lock);
    return 0;
}

// ---------------------------------------------------------------- packing

// The column of the source that lies in a lane of a unit. `paired` interleaves halves, 16 by 16 (gate and up).
static inline int64_t source(int64_t unit, int64_t lane, int64_t columns, int paired) {
    return paired ? unit * 16 + lane % 16 + lane / 16 * (columns / 2) : unit * UNIT + lane;
}

// [columns][inner] of bf16 to units; lanes without a column get zeros.
void parley_pack(const bf16 *from, int64_t columns, int64_t inner, int paired, bf16 *to) {
    for (int64_t u = 0; u < units_of(columns); u++)
        for (int64_t lane = 0; lane < UNIT; lane++) {
            const int64_t column = source(u, lane, columns, paired);
            bf16 *unit = to + u * UNIT * inner + lane * 2;
            for (int64_t k = 0; k < inner; k++)
                unit[k / 2 * 2 * UNIT + k % 2] = column < columns ? from[column * inner + k] : 0;
        }
}

// The same to int8, each column with its own scale: the largest of its weights becomes 127.
void parley_pack_int8(const bf16 *from, int64_t columns, int64_t inner, int paired, int8_t *to, float *scale) {
    for (int64_t u = 0; u < units_of(columns); u++)
        for (int64_t lane = 0; lane < UNIT; lane++) {
            const int64_t column = source(u, lane, columns, paired);
            int8_t *unit = to + u * UNIT * inner + lane / 16 * 32 + lane % 16;
            float most = 0;
            if (column < columns)
                for (int64_t k = 0; k < inner; k++) most = fmaxf(most, fabsf(to_f32(from[column * inner + k])));
            const float step = most > 0 ? most / 127.0f : 1.0f;
            scale[u * UNIT + lane] = step;
            for (int64_t k = 0; k < inner; k++)
                unit[k / 2 * 2 * UNIT + k % 2 * 16] =
                    column < columns ? (int8_t)lrintf(to_f32(from[column * inner + k]) / step) : 0;
        }
}

// Large pages save a table walk every 4 KiB of weights; without them it only takes longer.
void parley_large_pages(void *memory, int64_t bytes) {
#if defined(MADV_HUGEPAGE)
    const uintptr_t page = 2 << 20, from = ((uintptr_t)memory + page - 1) / page * page;
    const uintptr_t to = ((uintptr_t)memory + (uintptr_t)bytes) / page * page;
    if (to > from) madvise((void *)from, to - from, MADV_HUGEPAGE);
#else
    (void)memory, (void)bytes;
#endif
}

// What Python must have described with the same size; a difference means that the two files do not belong together.
void parley_sizes(int64_t *sizes) {
    sizes[0] = sizeof(Linear), sizes[1] = sizeof(Layer), sizes[2] = sizeof(Model);
    sizes[3] = sizeof(Span), sizes[4] = sizeof(Step);
}
