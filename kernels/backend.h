// The operations of training on one device, forward beside backward.
//
// All pointers are memory of the backend (Allocate). Operations are enqueued in
// order and may return before they are done; Synchronize waits. They check
// shapes first (InvalidArgument), allocate nothing and never look at device
// values, so that a step can be captured in a graph. A size of 0 is allowed
// everywhere and does nothing. Inputs and outputs do not overlap unless said.
//
// Gradients of parameters are accumulated (+=); gradients of activations are
// written (=) unless said. The meaning of each operation is the double
// implementation in kernels/reference.
//
// backend_operations.def lists the operations again, for the classes that
// implement or forward all of them: a new one goes there too.
#ifndef COMERA_KERNELS_BACKEND_H_
#define COMERA_KERNELS_BACKEND_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/activation.h"
#include "kernels/tensor.h"

namespace comera::kernels {

// What changes from step to step; lives in device memory so that a captured
// step can be replayed with new values.
struct StepState {
  uint64_t seed = 0;
  uint64_t step = 0;
  // What AdamW takes from such a state: 1 - beta^t of both moments at this
  // update, and the factor of its learning rates.
  float first_correction = 1, second_correction = 1;
  float learning_rate_scale = 1;
};

// The key of the random numbers of a dropout (kernels/philox.h): element (i,
// column) of the operation is kept or not as a function of (seed, step, site,
// row of i, column), at `rate` rounded to a multiple of 2^-16; kept values are
// scaled so that the mean stays exactly. The backward pass regenerates the
// mask.
//
// The row of i is first_row + i or, with row_ids (memory of the backend, one
// per row), first_row + row_ids[i]: a token has the same numbers wherever in
// the batch it lies.
struct DropoutKey {
  float rate = 0;         // 0: no dropout, nothing is drawn
  uint32_t site = 0;      // the dropout's number in the model
  int64_t first_row = 0;  // this member's first within the global batch
  const StepState* state = nullptr;
  const int32_t* row_ids = nullptr;
};

// Products of one shape in one call: operands of product i lie i times so many
// elements behind those of the first.
struct ProductBatch {
  int64_t count = 1;
  int64_t a_step = 0, b_step = 0, c_step = 0;
};

// Multi-head attention within sequences that are packed without padding:
// sequence i is rows [offsets[i], offsets[i + 1]) of every token matrix. Head h
// of a token is columns [h * head_width, (h + 1) * head_width).
struct AttentionShape {
  int64_t sequences = 0;
  int64_t tokens = 0;      // offsets[sequences]
  int64_t max_length = 0;  // no sequence is longer
  int64_t heads = 0;
  int64_t head_width = 0;
  // Heads of keys and values, a divisor of `heads`: query head h uses head
  // h / (heads / kv_heads). 0: as many as `heads`.
  int64_t kv_heads = 0;
  bool causal = false;  // a token attends to itself and those before it

  int64_t key_heads() const { return kv_heads > 0 ? kv_heads : heads; }
};

// Attention of new tokens to the keys and values that are kept of their
// sequences (a KV cache). Keys and values may have different numbers of heads
// and widths, so that either may lie in rank space, where all heads share one
// vector.
struct CachedAttentionShape {
  int64_t heads = 0;  // queries' heads
  // Heads of keys and of values, divisors of `heads`: query head h uses head
  // h / (heads / key_heads) of the keys, likewise of the values.
  int64_t key_heads = 0, key_width = 0;
  int64_t value_heads = 0, value_width = 0;
  float scale = 1;  // multiplies the scores
};

// A feed-forward layer between the rank vectors of its two linear layers.
struct RankSpaceFfnShape {
  int64_t rows = 0;
  int64_t width = 0;  // hidden units
  int64_t up_rank = 0;
  int64_t down_rank = 0;
};

// Attention in the rank space of tensor-train projections; head_width only
// scales the scores.
struct RankSpaceAttentionShape {
  AttentionShape attention;
  int64_t query_rank = 0, key_rank = 0, value_rank = 0, output_rank = 0;
};

// Two tables of blocks, of which pairs are multiplied. Block l of L is a matrix
// of left_outer * left_inner rows and `rank` columns, block s of R one of
// `rank` rows and right_cols columns:
//   L (left_outer, left_rows, left_inner, rank): block l is L[:, l, :, :],
//   R (rank, right_rows, right_cols):            block s is R[:, s, :].
// So either may be a core of a tensor-train matrix as it lies in memory, (left
// rank, row mode, column mode, right rank). With right_blocks R is (right_rows,
// rank, right_cols) instead.
struct TtmTables {
  int64_t left_outer = 1, left_rows = 0, left_inner = 0;
  int64_t right_rows = 0, right_cols = 0;
  int64_t rank = 0;
  bool right_blocks = false;
};

// The pairs of blocks that are multiplied: for each block s of R those of L
// with number left[q], q from start[s] to before start[s + 1], which rise
// strictly; the product is row out[q] of the result, and every row below
// start[right_rows] is the product of one pair. There may be fewer pairs than
// rows of the result, so that a captured lookup serves batches of different
// sizes: what lies behind the last pair is not read, and those rows of the
// result are not written.
struct TtmPairs {
  ConstIndices left, out;  // one each for every row of the result
  ConstIndices start;      // right_rows + 1, from 0 to at most left.size
};

// A run of parameters under one rule of the optimiser.
struct AdamWSegment {
  int64_t offset = 0;
  int64_t size = 0;
  float learning_rate = 0;
  float weight_decay = 0;
  // Above 0: the segment is rows of so many parameters, and a row whose
  // gradients are all 0 stays as it is, with its moments (lazy AdamW).
  int64_t row_size = 0;
  // With row_size, row-wise Adagrad instead of AdamW's rule: a row's
  // accumulator, the second moment of its first element, grows by the mean of
  // the row's squared gradients, and the row moves by learning_rate * gradient
  // / (sqrt(accumulator) + epsilon). All other moments stay as they are.
  bool adagrad = false;
};
struct AdamWStep {
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  int64_t step = 1;          // from 1, for bias correction
  float gradient_scale = 1;  // multiplies every gradient (clipping, 1/count)
  // Both are null, or both are memory of the backend: then corrections and
  // scale come from *state instead of `step`, and gradients are also multiplied
  // by min(1, clip_norm / sqrt(*squares)), unless clip_norm is 0, and nothing
  // changes where *squares is not finite.
  const StepState* state = nullptr;
  const float* squares = nullptr;
  float clip_norm = 0;
};

// The most elements that a matrix of OrthogonalStep may have.
inline constexpr int64_t kMostOrthogonalElements = int64_t{1} << 24;

// A matrix (rows, cols) within a flat parameter buffer, under one rule of the
// optimiser.
struct OrthogonalSegment {
  int64_t offset = 0;
  int64_t rows = 0, cols = 0;
  float learning_rate = 0;
  float weight_decay = 0;
  // The update is in units of the root mean square of the matrix's singular
  // values, |W|_F / sqrt(min(rows, cols)), before the step.
  bool relative = false;
};
struct OrthogonalRule {
  float momentum = 0.95f;
  // Both are null, or both are memory of the backend: then learning rates are
  // multiplied by state->learning_rate_scale, and nothing changes where
  // *squares is not finite.
  const StepState* state = nullptr;
  const float* squares = nullptr;
};

// A bond's rank entries d within a flat parameter buffer.
struct BondSpan {
  int64_t offset = 0;
  int64_t size = 0;
};

// A bond as the relaxed size of its layer sees it (SizeMeasure): the modes of
// the cores on its left and right, the bonds beyond these (-1: the end of the
// train, of norm 1), and the bonds [first, last) of the layer.
struct SizeBond {
  float left_mode = 0, right_mode = 0;
  int32_t left = -1, right = -1;
  int32_t first = 0, last = 0;
};

// Operations that a backend recorded, to be run again.
class StepGraph {
 public:
  virtual ~StepGraph() = default;
};

class Backend {
 public:
  virtual ~Backend() = default;

  // --- memory -------------------------------------------------------------
  // 64-byte aligned, zeroed. ResourceExhausted: too large, with both sizes.
  virtual absl::StatusOr<void*> Allocate(int64_t bytes) = 0;
  virtual void Free(void* memory) = 0;
  // A planned step allocates nothing. After Seal, Allocate is refused
  // (FailedPrecondition) until Unseal, which on a host returns Internal if the
  // scratch memory of an operation grew in between. On a GPU it may grow with
  // any batch of a new shape, but not while a graph is recorded.
  virtual void Seal() {}
  virtual absl::Status Unseal() { return absl::OkStatus(); }
  virtual absl::Status CopyToDevice(void* to, const void* from,
                                    int64_t bytes) = 0;
  virtual absl::Status CopyToHost(void* to, const void* from,
                                  int64_t bytes) = 0;
  virtual absl::Status Copy(void* to, const void* from, int64_t bytes) = 0;
  virtual absl::Status Fill(Vector x, float value) = 0;
  virtual absl::Status Synchronize() = 0;
  // Bytes that Allocate could still give.
  virtual absl::StatusOr<int64_t> FreeBytes() = 0;
  // Whether the host may use its memory too, after Synchronize.
  virtual bool in_host_memory() const { return true; }

  // Host memory that a device can write while the host goes on; as Allocate.
  virtual absl::StatusOr<void*> AllocateHost(int64_t bytes);
  virtual void FreeHost(void* memory);
  // CopyToHost without waiting; `to` is of AllocateHost and holds the bytes
  // once Wait for a later Mark has returned.
  virtual absl::Status CopyToHostLater(void* to, const void* from,
                                       int64_t bytes);
  // The place reached in the order of operations; Wait waits until all before
  // it are done. At least the last four marks can be waited for.
  virtual absl::StatusOr<int64_t> Mark();
  virtual absl::Status Wait(int64_t mark);

  // --- graphs -------------------------------------------------------------
  // Whether steps can be captured; if not, the three below are Unimplemented.
  virtual bool has_graphs() const { return false; }
  // Operations between the two are recorded with their arguments and not run;
  // copies from and to the host, Synchronize and Allocate are refused. After an
  // error EndCapture gives the recording up and returns the error.
  virtual absl::Status BeginCapture();
  virtual absl::StatusOr<std::unique_ptr<StepGraph>> EndCapture();
  // Enqueues what was recorded, on the same memory. The graph outlives it.
  virtual absl::Status Replay(const StepGraph& graph);

  // --- many small operations ------------------------------------------------
  // Between the two (which may be nested), only Gemm, Copy, CopyRows, Fill,
  // Axpy, Round, FoldCore and FoldCoreBackward may be called; they may be held
  // back until the last EndTogether, and run beside each other where neither
  // needs the other's result. See RunTogether in together.h.
  virtual absl::Status BeginTogether() { return absl::OkStatus(); }
  virtual absl::Status EndTogether() { return absl::OkStatus(); }

  // --- linear algebra -----------------------------------------------------
  // c = alpha * op(a) op(b) + beta * c; op transposes if asked. With beta = 0
  // the old c is not read. An inner size of 0 gives beta * c.
  virtual absl::Status Gemm(bool transpose_a, bool transpose_b, float alpha,
                            ConstMatrix a, ConstMatrix b, float beta,
                            Matrix c) = 0;
  // c[i, :] = a op(b) + bias: a dense layer. c as in Gemm.
  virtual absl::Status GemmBias(bool transpose_b, ConstMatrix a, ConstMatrix b,
                                ConstVector bias, Matrix c);
  // y = alpha * x + y.
  virtual absl::Status Axpy(float alpha, ConstVector x, Vector y) = 0;
  virtual absl::Status Scale(float alpha, Vector x) = 0;
  // x = x * alpha / max(1, *count), with *count in memory of the backend.
  virtual absl::Status ScaleByCount(float alpha, const float* count,
                                    Vector x) = 0;
  // y[i, :] += bias.
  virtual absl::Status AddBias(ConstVector bias, Matrix y) = 0;
  // grad_bias += column sums of grad_y.
  virtual absl::Status BiasGradient(ConstMatrix grad_y, Vector grad_bias) = 0;
  // out (a, c, b, d) = in (a, b, c, d) with the two inner axes swapped.
  virtual absl::Status SwapMiddleAxes(int64_t a, int64_t b, int64_t c,
                                      int64_t d, const float* in,
                                      float* out) = 0;

  // --- bfloat16 in memory ---------------------------------------------------
  // Whether this backend has the operations of this group, which halve the
  // memory traffic and double the rate of products; without them they are
  // Unimplemented. They compute in float32; results are rounded to nearest,
  // ties to even.
  virtual bool has_bf16() const { return false; }
  // y = x. Round may run together with other operations (BeginTogether).
  virtual absl::Status Round(ConstMatrix x, Bf16Matrix y);
  virtual absl::Status Widen(ConstBf16Matrix x, Matrix y);
  // c = op(a) op(b) + beta * c; as Gemm.
  virtual absl::Status GemmBf16(bool transpose_a, bool transpose_b,
                                ConstBf16Matrix a, ConstBf16Matrix b,
                                float beta, Matrix c);
  // The same with a rounded result, for each product of the batch.
  virtual absl::Status GemmToBf16(bool transpose_a, bool transpose_b,
                                  ConstBf16Matrix a, ConstBf16Matrix b,
                                  float beta, Bf16Matrix c,
                                  const ProductBatch& batch);
  // Activate and ActivateBackward of such matrices.
  virtual absl::Status ActivateBf16(Activation f, ConstBf16Matrix x,
                                    Bf16Matrix y);
  virtual absl::Status ActivateBackwardBf16(Activation f, ConstBf16Matrix saved,
                                            ConstBf16Matrix grad_y,
                                            Bf16Matrix grad_x);
  // ResidualLayerNorm, its backward pass and LayerNormOutput. The output is
  // made of the normalised rows before these are rounded.
  virtual absl::Status ResidualLayerNormBf16(
      const DropoutKey& key, ConstBf16Matrix x, ConstBf16Matrix residual,
      ConstVector gamma, ConstVector beta, float epsilon, Bf16Matrix normalised,
      Vector inverse_deviation, Bf16Matrix y);
  virtual absl::Status ResidualLayerNormBackwardBf16(
      const DropoutKey& key, ConstBf16Matrix grad_y, ConstBf16Matrix normalised,
      ConstVector inverse_deviation, ConstVector gamma, Bf16Matrix grad_x,
      Bf16Matrix grad_residual, Vector grad_gamma, Vector grad_beta);
  virtual absl::Status LayerNormOutputBf16(const DropoutKey& key,
                                           ConstBf16Matrix normalised,
                                           ConstVector gamma, ConstVector beta,
                                           Bf16Matrix y);
  // Attention and AttentionBackward, with the same workspace.
  virtual absl::Status AttentionBf16(const AttentionShape& shape,
                                     const DropoutKey& key,
                                     ConstIndices offsets, ConstBf16Matrix q,
                                     ConstBf16Matrix k, ConstBf16Matrix v,
                                     float* log_sum, Bf16Matrix out,
                                     void* workspace);
  virtual absl::Status AttentionBackwardBf16(
      const AttentionShape& shape, const DropoutKey& key, ConstIndices offsets,
      ConstBf16Matrix q, ConstBf16Matrix k, ConstBf16Matrix v,
      const float* log_sum, ConstBf16Matrix out, ConstBf16Matrix grad_out,
      Bf16Matrix grad_q, Bf16Matrix grad_k, Bf16Matrix grad_v, void* workspace);

  // --- tensor-train cores -------------------------------------------------
  // h[i, k] = g[i, k] * (d[k] > threshold ? d[k] : 0) for a core g seen as
  // (left rank * mode, right rank). h may be g.
  virtual absl::Status FoldCore(ConstMatrix g, ConstVector d, float threshold,
                                Matrix h) = 0;
  // grad_g += grad_h * d and grad_d[k] += sum_i grad_h[i, k] g[i, k], both 0
  // where d[k] <= threshold.
  virtual absl::Status FoldCoreBackward(ConstMatrix g, ConstVector d,
                                        float threshold, ConstMatrix grad_h,
                                        Matrix grad_g, Vector grad_d) = 0;
  // out[pairs.out[q], :] = L[pairs.left[q]] R[s], row-major, for the s that q
  // belongs to; out is (pairs, left_outer * left_inner * right_cols).
  virtual absl::Status TtmLookup(const TtmTables& t, const float* left,
                                 const float* right, const TtmPairs& pairs,
                                 Matrix out) = 0;
  // Writes (=) grad_left and grad_right, in the layouts of L and R; 0 in
  // blocks without a pair.
  virtual absl::Status TtmLookupBackward(const TtmTables& t, const float* left,
                                         const float* right,
                                         const TtmPairs& pairs,
                                         ConstMatrix grad_out, float* grad_left,
                                         float* grad_right) = 0;

  // --- pointwise and rows -------------------------------------------------
  // y = f(x), element by element. y may be x.
  virtual absl::Status Activate(Activation f, ConstMatrix x, Matrix y) = 0;
  // grad_x = grad_y f'(x). `saved` is the input x of kGelu, kGeluTanh and
  // kSilu, and the output y of kTanh and kRelu, which tells the slope; it may
  // be either of kIdentity. grad_x may be grad_y.
  virtual absl::Status ActivateBackward(Activation f, ConstMatrix saved,
                                        ConstMatrix grad_y, Matrix grad_x) = 0;
  // y = f(gate) * up, element by element: the hidden layer of gated
  // feed-forward layers (SwiGLU, arXiv 2002.05202). y may be either input.
  virtual absl::Status Gated(Activation f, ConstMatrix gate, ConstMatrix up,
                             Matrix y) = 0;
  // grad_gate = grad_y up f'(gate), grad_up = grad_y f(gate). grad_gate may be
  // gate, and grad_up may be up or grad_y. InvalidArgument: f is neither kSilu,
  // kGelu, kGeluTanh nor kIdentity.
  virtual absl::Status GatedBackward(Activation f, ConstMatrix gate,
                                     ConstMatrix up, ConstMatrix grad_y,
                                     Matrix grad_gate, Matrix grad_up) = 0;
  // y = dropout(x); also its own backward. y may be x.
  virtual absl::Status Dropout(const DropoutKey& key, ConstMatrix x,
                               Matrix y) = 0;
  // y = LayerNorm(dropout(x) + residual) * gamma + beta. A null residual is 0.
  // Saves normalised (same shape as x) and inverse_deviation (rows). normalised
  // may be x, and y may be the residual.
  virtual absl::Status ResidualLayerNorm(const DropoutKey& key, ConstMatrix x,
                                         ConstMatrix residual,
                                         ConstVector gamma, ConstVector beta,
                                         float epsilon, Matrix normalised,
                                         Vector inverse_deviation,
                                         Matrix y) = 0;
  // grad_residual is the gradient of the sum, and may be grad_y; grad_x that
  // times the dropout mask (they may be the same matrix when key.rate is 0;
  // either data may be null when not wanted). grad_gamma +=, grad_beta +=.
  virtual absl::Status ResidualLayerNormBackward(
      const DropoutKey& key, ConstMatrix grad_y, ConstMatrix normalised,
      ConstVector inverse_deviation, ConstVector gamma, Matrix grad_x,
      Matrix grad_residual, Vector grad_gamma, Vector grad_beta) = 0;
  // to = from. Rows lie at the stride of their own matrix, so that columns can
  // be taken out of a wider matrix or put into one.
  virtual absl::Status CopyRows(ConstMatrix from, Matrix to) = 0;
  // out[j, :] = table[rows[j], :].
  virtual absl::Status GatherRows(ConstMatrix table, ConstIndices rows,
                                  Matrix out) = 0;
  // out[i, :] = sum of table[rows[q], :], q from offsets[i] to before
  // offsets[i + 1], in that order; offsets are out.rows + 1 numbers that rise
  // from 0 to rows.size. These are the bags of an embedding and, with the
  // roles exchanged, their gradient.
  virtual absl::Status SumRows(ConstMatrix table, ConstIndices rows,
                               ConstIndices offsets, Matrix out) = 0;
  // table[rows[j], :] += in[j, :], in order of j for each row.
  virtual absl::Status ScatterAddRows(ConstMatrix in, ConstIndices rows,
                                      Matrix table) = 0;

  // DLRM's interaction (arXiv 1906.00091). A row of z holds `vectors` vectors
  // z_0.. of one width; its row of out is z_0, then the products z_i . z_j for
  // j < i, in order of i, then j. z is (rows, vectors * width), out (rows,
  // width + vectors (vectors - 1) / 2).
  virtual absl::Status PairwiseInteraction(int64_t vectors, ConstMatrix z,
                                           Matrix out) = 0;
  virtual absl::Status PairwiseInteractionBackward(int64_t vectors,
                                                   ConstMatrix z,
                                                   ConstMatrix grad_out,
                                                   Matrix grad_z) = 0;

  // table[rows[j], :] = in[j, :]; the rows are distinct.
  virtual absl::Status PutRows(ConstMatrix in, ConstIndices rows,
                               Matrix table) = 0;

  // y = dropout(normalised * gamma + beta): the output of ResidualLayerNorm
  // again, from what it saved. y may be normalised. A null beta is 0.
  virtual absl::Status LayerNormOutput(const DropoutKey& key,
                                       ConstMatrix normalised,
                                       ConstVector gamma, ConstVector beta,
                                       Matrix y) = 0;

  // y = x / sqrt(mean of the row's squares + epsilon) * gamma (RMSNorm, arXiv
  // 1910.07467). Saves normalised, which is y before gamma, and
  // inverse_deviation (rows), which is the factor of x. normalised may be x.
  virtual absl::Status RmsNorm(ConstMatrix x, ConstVector gamma, float epsilon,
                               Matrix normalised, Vector inverse_deviation,
                               Matrix y) = 0;
  // grad_x += the gradient of x, grad_gamma +=.
  virtual absl::Status RmsNormBackward(ConstMatrix grad_y,
                                       ConstMatrix normalised,
                                       ConstVector inverse_deviation,
                                       ConstVector gamma, Matrix grad_x,
                                       Vector grad_gamma) = 0;

  // Rotary position embedding (arXiv 2104.09864) in place, in the split-half
  // layout: x is (rows, heads * head_width), and within a head columns i and i
  // + head_width / 2 are turned by the angle positions[row] * theta^(-2 i /
  // head_width): (a, b) -> (a cos - b sin, b cos + a sin). `inverse` turns the
  // other way, which is the backward pass. InvalidArgument: head_width is odd.
  virtual absl::Status Rotate(int64_t head_width, float theta, bool inverse,
                              ConstIndices positions, Matrix x) = 0;

  // --- feed-forward in rank space -------------------------------------------
  // t2 = gelu(t1 b1) a2 without the hidden layer in memory: t1 (rows, up_rank +
  // 1) with a last column of ones, b1 (up_rank + 1, width) with the bias as
  // its last row, a2 (width, down_rank), t2 (rows, down_rank).
  virtual absl::Status RankSpaceFfn(ConstMatrix t1, ConstMatrix b1,
                                    ConstMatrix a2, Matrix t2,
                                    void* workspace) = 0;
  // The hidden layer is computed again. grad_t1 (rows, up_rank) has no column
  // for the ones. grad_b1 +=, grad_a2 +=.
  virtual absl::Status RankSpaceFfnBackward(ConstMatrix t1, ConstMatrix b1,
                                            ConstMatrix a2, ConstMatrix grad_t2,
                                            Matrix grad_t1, Matrix grad_b1,
                                            Matrix grad_a2,
                                            void* workspace) = 0;
  // Bytes of workspace that either needs, for up to shape.rows rows.
  virtual int64_t RankSpaceFfnWorkspaceBytes(
      const RankSpaceFfnShape& shape) = 0;

  // --- the residual stream and a branch in rank space -----------------------
  // ResidualLayerNorm of x = t b, the branch's last product, with x never in
  // memory: t (rows, rank + 1) with a last column of ones, b (rank + 1, cols)
  // with the bias as its last row. y may be the residual.
  virtual absl::Status ExpandLayerNorm(const DropoutKey& key, ConstMatrix t,
                                       ConstMatrix b, ConstMatrix residual,
                                       ConstVector gamma, ConstVector beta,
                                       float epsilon, Matrix normalised,
                                       Vector inverse_deviation, Matrix y,
                                       void* workspace) = 0;
  // ResidualLayerNormBackward and on to the product: grad_residual =, and may
  // be grad_y; grad_t (rows, rank) = without the ones' column; grad_b +=,
  // grad_gamma +=, grad_beta +=.
  virtual absl::Status ExpandLayerNormBackward(
      const DropoutKey& key, ConstMatrix t, ConstMatrix b, ConstMatrix grad_y,
      ConstMatrix normalised, ConstVector inverse_deviation, ConstVector gamma,
      Matrix grad_residual, Matrix grad_t, Matrix grad_b, Vector grad_gamma,
      Vector grad_beta, void* workspace) = 0;
  // The branch's first product t = x a, backward: grad_a += x^T grad_t,
  // grad_x += grad_t a^T. With gamma and beta x is given as what it is the
  // LayerNormOutput of; null: as it is.
  virtual absl::Status ProjectBackward(ConstMatrix x, ConstVector gamma,
                                       ConstVector beta, ConstMatrix grad_t,
                                       ConstMatrix a, Matrix grad_a,
                                       Matrix grad_x, void* workspace) = 0;
  // Bytes of workspace that each of the three needs, for up to `rows` rows.
  virtual int64_t RankSpaceStreamWorkspaceBytes(int64_t rows, int64_t rank,
                                                int64_t cols) = 0;

  // --- attention ----------------------------------------------------------
  // Within each sequence and head, out = dropout(P) v with P = softmax over
  // keys of q k^T / sqrt(head_width). q and out are (tokens, heads *
  // head_width), k and v (tokens, key_heads() * head_width); with shape.causal
  // P is 0 for keys behind the query. offsets (sequences + 1) ascend from 0.
  // The dropout's row of query token i and head h is (row of token i, see
  // DropoutKey) * heads + h, its column the key's place in the sequence. Of P
  // only log_sum (heads, tokens) is kept, the logarithm of each row's sum of
  // exponentials.
  virtual absl::Status Attention(const AttentionShape& shape,
                                 const DropoutKey& key, ConstIndices offsets,
                                 ConstMatrix q, ConstMatrix k, ConstMatrix v,
                                 float* log_sum, Matrix out,
                                 void* workspace) = 0;
  // Computes P again. `out` is what Attention gave; a backend in the host's
  // memory does not read it.
  virtual absl::Status AttentionBackward(
      const AttentionShape& shape, const DropoutKey& key, ConstIndices offsets,
      ConstMatrix q, ConstMatrix k, ConstMatrix v, const float* log_sum,
      ConstMatrix out, ConstMatrix grad_out, Matrix grad_q, Matrix grad_k,
      Matrix grad_v, void* workspace) = 0;
  // Bytes of workspace for both, for any shape of no more sequences, tokens
  // and max_length.
  virtual int64_t AttentionWorkspaceBytes(const AttentionShape& shape) = 0;

  // For each row i of q, a new token, and each head: out = softmax(scale * q
  // K^T) V over rows [first[i], first[i] + count[i]) of `keys` and `values`.
  // q is (rows, heads * key_width), keys (kept rows, key_heads * key_width),
  // values (kept rows, value_heads * value_width), out (rows, heads *
  // value_width). Each count is at least 1 and at most `most`.
  virtual absl::Status CachedAttention(const CachedAttentionShape& shape,
                                       ConstIndices first, ConstIndices count,
                                       int64_t most, ConstMatrix q,
                                       ConstMatrix keys, ConstMatrix values,
                                       Matrix out) = 0;

  // Attention and the projections around it, without queries, keys, values or
  // heads: with q~ (tokens, query_rank + 1) the rank-space vectors T~ = [T, 1]
  // of the query projection, likewise k~ and v~,
  //   out (tokens, output_rank) = sum over heads h of dropout(P_h) v~ E_h,
  //   P_h = softmax over keys of q~ C_h k~^T / sqrt(head_width).
  // c is (heads * (query_rank + 1), key_rank + 1), C_h = B~q_h B~k_h^T of the
  // columns of head h; e is (heads * (value_rank + 1), output_rank), E_h =
  // B~v_h A_h of the rows of head h of the output projection's A. Dropout and
  // log_sum as in Attention. Causal attention and fewer heads of keys than of
  // queries are refused (InvalidArgument).
  virtual absl::Status RankSpaceAttention(const RankSpaceAttentionShape& shape,
                                          const DropoutKey& key,
                                          ConstIndices offsets, ConstMatrix q,
                                          ConstMatrix k, ConstMatrix v,
                                          ConstMatrix c, ConstMatrix e,
                                          float* log_sum, Matrix out,
                                          void* workspace) = 0;
  // grad_q (tokens, query_rank), grad_k, grad_v: gradients of T, without the
  // column of ones. grad_c and grad_e are written (=), being no parameters.
  virtual absl::Status RankSpaceAttentionBackward(
      const RankSpaceAttentionShape& shape, const DropoutKey& key,
      ConstIndices offsets, ConstMatrix q, ConstMatrix k, ConstMatrix v,
      ConstMatrix c, ConstMatrix e, const float* log_sum, ConstMatrix grad_out,
      Matrix grad_q, Matrix grad_k, Matrix grad_v, Matrix grad_c, Matrix grad_e,
      void* workspace) = 0;
  virtual int64_t RankSpaceAttentionWorkspaceBytes(
      const RankSpaceAttentionShape& shape) = 0;

  // --- loss ---------------------------------------------------------------
  // Rows of logits against labels in [0, cols); a row of label -1 does not
  // count and has gradient 0. totals (3 floats) gets [sum of -log softmax at
  // the label, rows, rows whose largest logit is the label], added to what is
  // there. If grad_logits.data is not null it gets softmax - onehot (not
  // divided by anything); it may be logits.
  virtual absl::Status SoftmaxCrossEntropy(ConstMatrix logits,
                                           ConstIndices labels,
                                           Matrix grad_logits,
                                           float* totals) = 0;

  // Logits (rows, 1) against labels 0 and 1: totals as above, with the loss
  // -log sigmoid(x) at label 1 and -log sigmoid(-x) at label 0; a logit above 0
  // answers 1. grad_logits gets sigmoid(x) - label; it may be logits or null.
  virtual absl::Status SigmoidCrossEntropy(ConstMatrix logits,
                                           ConstIndices labels,
                                           Matrix grad_logits,
                                           float* totals) = 0;

  // --- optimiser ----------------------------------------------------------
  // *result = sum of squares (accumulated in double where the device can).
  virtual absl::Status SumOfSquares(ConstVector x, float* result) = 0;
  // Decoupled weight decay: p -= lr * (m^ / (sqrt v^ + eps) + decay * p).
  // Parameters outside all segments stay.
  virtual absl::Status AdamW(const AdamWStep& step,
                             absl::Span<const AdamWSegment> segments,
                             Vector parameters, ConstVector gradients,
                             Vector first_moment, Vector second_moment) = 0;
  // The update of Muon (github.com/KellerJordan/Muon), per matrix W:
  //   m = momentum m + (1 - momentum) g
  //   u = momentum m + (1 - momentum) g, its singular values moved close to 1
  //       by five Newton-Schulz iterations X <- a X + (b A + c A^2) X with
  //       A = X X^T of the wide orientation, from u / (|u|_F + 1e-7)
  //   W -= rate * (scale u + decay * W), scale 1 or that of `relative`
  // Segments do not overlap, and have at most 2^24 elements each; parameters
  // outside all segments stay. `workspace` has OrthogonalStepWorkspaceBytes of
  // the same segments.
  virtual absl::Status OrthogonalStep(
      const OrthogonalRule& rule, absl::Span<const OrthogonalSegment> segments,
      Vector parameters, ConstVector gradients, Vector momentum,
      void* workspace) = 0;
  virtual int64_t OrthogonalStepWorkspaceBytes(
      absl::Span<const OrthogonalSegment> segments) = 0;
  // l1[i] = sum of entries above threshold of bond i; count[i] = how many.
  virtual absl::Status BondNorms(ConstVector parameters,
                                 absl::Span<const BondSpan> bonds,
                                 float threshold, float* l1, float* count) = 0;
  // coefficient[i] = factor * d(relaxed size) / d(an entry of bond i), from the
  // norms of BondNorms; 0 in a layer of which a bond has no entry. All pointers
  // are memory of the backend.
  virtual absl::Status RelaxedSizeGradient(const SizeBond* bonds, int64_t count,
                                           const float* l1, const float* counts,
                                           float factor,
                                           float* coefficient) = 0;
  // gradients[e] += coefficient[i] for entries e of bond i above threshold;
  // coefficient is memory of the backend.
  virtual absl::Status AddBondGradient(ConstVector parameters,
                                       absl::Span<const BondSpan> bonds,
                                       const float* coefficient,
                                       float threshold, Vector gradients) = 0;
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_BACKEND_H_
