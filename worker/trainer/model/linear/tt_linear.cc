// A tensor-train layer contracted to two factors.
#include "worker/trainer/model/linear/tt_linear.h"

#include <string>

#include "common/status_macros.h"
#include "kernels/together.h"

namespace comera::trainer {

using kernels::ConstMatrix;
using kernels::Matrix;

namespace {

constexpr int64_t kFloat = sizeof(float);

// Rows of T~ begin on 32 bytes: half the products of a layer read them, and off
// 16 bytes a GPU's leave the tensor cores.
constexpr int64_t kRowFloats = 8;
int64_t RowStride(int64_t cols) {
  return (cols + kRowFloats - 1) / kRowFloats * kRowFloats;
}

int64_t Product(const std::vector<int64_t>& modes) {
  int64_t product = 1;
  for (int64_t mode : modes) product *= mode;
  return product;
}

}  // namespace

TtLinear::TtLinear(const Plan& plan, const FactorisableLayer& layer,
                   const Factorisation& factorisation, int64_t max_rows,
                   const std::string& scratch)
    : plan_(plan),
      inputs_(layer.inputs),
      outputs_(layer.outputs),
      rank_(factorisation.ranks[factorisation.input_modes.size() - 1]),
      all_outputs_(Product(factorisation.output_modes)),
      max_rows_(max_rows),
      stride_(RowStride(rank_ + 1)),
      silu_(factorisation.silu),
      bias_(plan, layer.name),
      cores_(plan, layer.name, scratch) {
  SavedMemory& saved = *plan.saved;
  Workspace& workspace = *plan.workspace;
  b_ = saved.Reserve(layer.name + ".suffix", (rank_ + 1) * outputs_ * kFloat);
  t_ = saved.Reserve(layer.name + ".t", max_rows * stride_ * kFloat);
  activated_ = silu_ ? saved.Reserve(layer.name + ".activated",
                                     max_rows * stride_ * kFloat)
                     : t_;
  grad_b_ =
      workspace.Reserve(scratch + ".grad_b", (rank_ + 1) * outputs_ * kFloat);
  // Shapes were checked with the configuration.
  chain_.emplace(*kernels::TtChain::Create({factorisation.input_modes,
                                            factorisation.output_modes,
                                            factorisation.ranks}));
  kept_ = saved.Reserve(layer.name + ".products", chain_->kept_size() * kFloat);
  u_ = workspace.Reserve("linear.u", max_rows * rank_ * kFloat);
  grad_a_ = workspace.Reserve(scratch + ".grad_a", inputs_ * rank_ * kFloat);
  all_grad_b_ = workspace.Reserve(
      scratch + ".all_grad_b",
      all_outputs_ == outputs_ ? 0 : rank_ * all_outputs_ * kFloat);
  tiles_ = workspace.Reserve(
      "linear.tiles",
      plan.backend->RankSpaceStreamWorkspaceBytes(max_rows, rank_, inputs_));
  chain_scratch_ =
      workspace.Reserve(scratch + ".chain", chain_->workspace_size() * kFloat);
}

ConstMatrix TtLinear::A() const {
  return chain_->Prefix(cores_.cores(), plan_.saved->Floats(kept_));
}

ConstMatrix TtLinear::B() const {
  return ConstMatrix(plan_.saved->Floats(b_), rank_, outputs_);
}

ConstMatrix TtLinear::BWithBias() const {
  return ConstMatrix(plan_.saved->Floats(b_), rank_ + 1, outputs_);
}

Matrix TtLinear::Rows(SavedMemory::Piece piece, int64_t first_row,
                      int64_t rows) const {
  return Matrix(plan_.saved->Floats(piece) + first_row * stride_, rows, rank_,
                stride_);
}

Matrix TtLinear::T(int64_t first_row, int64_t rows) const {
  return Rows(t_, first_row, rows);
}

ConstMatrix TtLinear::TWithOnes(int64_t first_row, int64_t rows) const {
  return ConstMatrix(Rows(activated_, first_row, rows).data, rows, rank_ + 1,
                     stride_);
}

Matrix TtLinear::U(int64_t rows) const {
  return Matrix(plan_.workspace->Floats(u_), rows, rank_);
}

Matrix TtLinear::grad_a() const {
  return Matrix(plan_.workspace->Floats(grad_a_), inputs_, rank_);
}

Matrix TtLinear::grad_b() const {
  return Matrix(plan_.workspace->Floats(grad_b_), rank_ + 1, outputs_);
}

absl::Status TtLinear::Prepare(const Step& step) {
  return kernels::RunTogether(plan_.backend, [&] { return Contract(step); });
}

absl::Status TtLinear::Contract(const Step& step) {
  kernels::Backend& backend = *plan_.backend;
  accumulating_ = false;
  // The last column of T~; products write the others, and nobody reads the
  // padding.
  RETURN_IF_ERROR(
      backend.Fill({plan_.saved->Floats(activated_), max_rows_ * stride_}, 1));
  float* b = plan_.saved->Floats(b_);
  float* const last_row = b + rank_ * outputs_;
  RETURN_IF_ERROR(bias_.parameter() == nullptr
                      ? backend.Fill({last_row, outputs_}, 0)
                      : backend.Copy(last_row,
                                     step.Vector(*bias_.parameter()).data,
                                     outputs_ * kFloat));
  RETURN_IF_ERROR(cores_.Fold(step));
  float* kept = plan_.saved->Floats(kept_);
  RETURN_IF_ERROR(chain_->Forward(&backend, cores_.cores(), kept));
  const ConstMatrix all = chain_->Suffix(cores_.cores(), kept);
  return backend.CopyRows(ConstMatrix(all.data, rank_, outputs_, all.stride),
                          Matrix(b, rank_, outputs_));
}

absl::Status TtLinear::Activate(int64_t first_row, int64_t rows) {
  if (!silu_) return absl::OkStatus();
  return plan_.backend->Activate(kernels::Activation::kSilu, T(first_row, rows),
                                 Rows(activated_, first_row, rows));
}

absl::Status TtLinear::BackwardActivate(int64_t first_row, Matrix u) {
  if (!silu_) return absl::OkStatus();
  return plan_.backend->ActivateBackward(kernels::Activation::kSilu,
                                         T(first_row, u.rows), u, u);
}

absl::Status TtLinear::Project(int64_t first_row, ConstMatrix x) {
  RETURN_IF_ERROR(
      plan_.backend->Gemm(false, false, 1, x, A(), 0, T(first_row, x.rows)));
  return Activate(first_row, x.rows);
}

absl::Status TtLinear::Expand(int64_t first_row, Matrix y) {
  return plan_.backend->Gemm(false, false, 1, TWithOnes(first_row, y.rows),
                             BWithBias(), 0, y);
}

absl::Status TtLinear::Forward(const Step&, int64_t first_row, ConstMatrix x,
                               Matrix y) {
  RETURN_IF_ERROR(Project(first_row, x));
  return Expand(first_row, y);
}

absl::Status TtLinear::Repeat(const Step&, int64_t first_row, ConstMatrix,
                              Matrix y) {
  return Expand(first_row, y);
}

absl::Status TtLinear::BeginBackward() {
  if (accumulating_) return absl::OkStatus();
  accumulating_ = true;
  kernels::Backend& backend = *plan_.backend;
  return kernels::RunTogether(&backend, [&]() -> absl::Status {
    RETURN_IF_ERROR(backend.Fill({grad_b().data, (rank_ + 1) * outputs_}, 0));
    return backend.Fill({grad_a().data, inputs_ * rank_}, 0);
  });
}

absl::Status TtLinear::BackwardExpand(int64_t first_row, ConstMatrix grad_y,
                                      Matrix u) {
  kernels::Backend& backend = *plan_.backend;
  RETURN_IF_ERROR(BeginBackward());
  RETURN_IF_ERROR(backend.Gemm(
      true, false, 1, TWithOnes(first_row, grad_y.rows), grad_y, 1, grad_b()));
  RETURN_IF_ERROR(backend.Gemm(false, true, 1, grad_y, B(), 0, u));
  return BackwardActivate(first_row, u);
}

absl::Status TtLinear::BackwardProject(ConstMatrix x, ConstMatrix u,
                                       Matrix grad_x, bool accumulate) {
  kernels::Backend& backend = *plan_.backend;
  RETURN_IF_ERROR(BeginBackward());
  RETURN_IF_ERROR(backend.Gemm(true, false, 1, x, u, 1, grad_a()));
  if (grad_x.data == nullptr) return absl::OkStatus();
  return backend.Gemm(false, true, 1, u, A(), accumulate ? 1 : 0, grad_x);
}

absl::Status TtLinear::BackwardProject(const StreamInput& x, ConstMatrix u,
                                       Matrix grad_x) {
  RETURN_IF_ERROR(BeginBackward());
  return plan_.backend->ProjectBackward(x.rows, x.gamma, x.beta, u, A(),
                                        grad_a(), grad_x,
                                        plan_.workspace->Floats(tiles_));
}

absl::Status TtLinear::Backward(const Step&, int64_t first_row, ConstMatrix x,
                                ConstMatrix grad_y, Matrix grad_x,
                                bool accumulate) {
  const Matrix u = U(grad_y.rows);
  RETURN_IF_ERROR(BackwardExpand(first_row, grad_y, u));
  return BackwardProject(x, u, grad_x, accumulate);
}

absl::Status TtLinear::FinishBackward(const Step& step) {
  if (!accumulating_) return absl::OkStatus();  // there were no rows
  accumulating_ = false;
  return kernels::RunTogether(plan_.backend,
                              [&] { return BackwardToCores(step); });
}

absl::Status TtLinear::BackwardToCores(const Step& step) {
  kernels::Backend& backend = *plan_.backend;
  const float* grad_b = this->grad_b().data;
  if (bias_.parameter() != nullptr) {
    RETURN_IF_ERROR(backend.Axpy(1, {grad_b + rank_ * outputs_, outputs_},
                                 step.Gradient(*bias_.parameter())));
  }
  if (all_outputs_ != outputs_) {
    // Columns that no output uses have no gradient.
    float* all = plan_.workspace->Floats(all_grad_b_);
    RETURN_IF_ERROR(backend.Fill({all, rank_ * all_outputs_}, 0));
    RETURN_IF_ERROR(
        backend.CopyRows(ConstMatrix(grad_b, rank_, outputs_),
                         Matrix(all, rank_, outputs_, all_outputs_)));
    grad_b = all;
  }
  const float* kept = plan_.saved->Floats(kept_);
  float* scratch = plan_.workspace->Floats(chain_scratch_);
  const absl::Span<float* const> grad_cores = cores_.grad_cores();
  RETURN_IF_ERROR(chain_->PrefixBackward(&backend, cores_.cores(), kept,
                                         grad_a(), grad_cores, scratch));
  RETURN_IF_ERROR(chain_->SuffixBackward(
      &backend, cores_.cores(), kept, ConstMatrix(grad_b, rank_, all_outputs_),
      grad_cores, scratch));
  return cores_.Backward(step);
}

}  // namespace comera::trainer
