// A tensor-train layer contracted to two factors.
#include "worker/trainer/model/linear/tt_linear.h"

#include <string>
#include <utility>

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

// The rank-space kernels of a device take lower ranks as they are.
constexpr int64_t kMostUnpaddedRank = 64;

int64_t Product(const std::vector<int64_t>& modes) {
  int64_t product = 1;
  for (int64_t mode : modes) product *= mode;
  return product;
}

}  // namespace

int64_t TtLinear::FactorRank(const kernels::Backend& backend, int64_t bond) {
  const bool pads = !backend.in_host_memory() && bond > kMostUnpaddedRank;
  return pads ? RowStride(bond) : bond;
}

TtLinear::TtLinear(const Plan& plan, const FactorisableLayer& layer,
                   const Factorisation& factorisation, int64_t max_rows,
                   const std::string& scratch)
    : plan_(plan),
      inputs_(layer.inputs),
      outputs_(layer.outputs),
      bond_(factorisation.ranks[factorisation.input_modes.size() - 1]),
      rank_(FactorRank(*plan.backend, bond_)),
      all_outputs_(Product(factorisation.output_modes)),
      stride_(RowStride(rank_ + 1)),
      padded_(plan.backend->in_host_memory() ? rank_ + 1 : stride_),
      silu_(factorisation.silu),
      bias_(plan, layer.name),
      cores_(plan, layer.name, scratch, FoldedCores::Memory::kContraction) {
  Workspace& sums = *plan.sums;
  a_ = whole().Reserve(layer.name + ".prefix", inputs_ * rank_ * kFloat);
  b_ = whole().Reserve(layer.name + ".suffix", padded_ * outputs_ * kFloat);
  const int64_t rows = plan.rows_elsewhere ? 0 : max_rows;
  const int64_t t_bytes = rows * stride_ * kFloat;
  // The last column of T~, and its padding; products write the others.
  activated_ = plan.memory->ReserveFilled(layer.name + ".t", t_bytes, 1);
  t_ = silu_ ? whole().Reserve(layer.name + ".before_silu", t_bytes)
             : activated_;
  grad_b_ = sums.Reserve(scratch + ".grad_b", padded_ * outputs_ * kFloat);
  // Shapes were checked with the configuration.
  chain_.emplace(*kernels::TtChain::Create({factorisation.input_modes,
                                            factorisation.output_modes,
                                            factorisation.ranks}));
  Workspace& contraction = *plan.memory->contraction();
  inner_ = contraction.Reserve("inner", chain_->inner_size() * kFloat);
  bond_a_ = contraction.Reserve(
      "prefix", a_is_whole() ? 0 : chain_->prefix_size() * kFloat);
  bond_b_ = contraction.Reserve(
      "suffix", b_is_whole() ? 0 : chain_->suffix_size() * kFloat);
  bond_grad_a_ = sums.Reserve(scratch + ".bond_grad_a",
                              a_is_whole() ? 0 : inputs_ * bond_ * kFloat);
  u_ = plan.workspace->Reserve("linear.u", rows * rank_ * kFloat);
  grad_a_ = sums.Reserve(scratch + ".grad_a", inputs_ * rank_ * kFloat);
  all_grad_b_ = sums.Reserve(
      scratch + ".all_grad_b",
      all_outputs_ == outputs_ ? 0 : bond_ * all_outputs_ * kFloat);
  chain_scratch_ =
      sums.Reserve(scratch + ".chain", 2 * chain_->workspace_size() * kFloat);
}

ConstMatrix TtLinear::A() const {
  return ConstMatrix(whole().Floats(a_), inputs_, rank_);
}

ConstMatrix TtLinear::B() const {
  return ConstMatrix(whole().Floats(b_), rank_, outputs_);
}

ConstMatrix TtLinear::BWithBias() const {
  return ConstMatrix(whole().Floats(b_), rank_ + 1, outputs_);
}

Matrix TtLinear::Rows(SavedMemory::Piece piece, int64_t first_row,
                      int64_t rows) const {
  return Matrix(whole().Floats(piece) + first_row * stride_, rows, rank_,
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
  return Matrix(plan_.sums->Floats(grad_a_), inputs_, rank_);
}

Matrix TtLinear::grad_b() const {
  return Matrix(plan_.sums->Floats(grad_b_), rank_ + 1, outputs_);
}

ConstMatrix TtLinear::PaddedT(int64_t first_row, int64_t rows) const {
  return ConstMatrix(Rows(activated_, first_row, rows).data, rows, padded_,
                     stride_);
}

ConstMatrix TtLinear::PaddedB() const {
  return ConstMatrix(whole().Floats(b_), padded_, outputs_);
}

Matrix TtLinear::padded_grad_b() const {
  return Matrix(plan_.sums->Floats(grad_b_), padded_, outputs_);
}

absl::Status TtLinear::Contract(const Step& step) {
  has_grad_a_ = has_grad_b_ = false;
  return kernels::RunTogether(plan_.backend, [&] { return ToFactors(step); });
}

absl::Status TtLinear::ToFactors(const Step& step) {
  kernels::Backend& backend = *plan_.backend;
  float* b = whole().Floats(b_);
  float* const last_row = b + rank_ * outputs_;
  RETURN_IF_ERROR(bias_.parameter() == nullptr
                      ? backend.Fill({last_row, outputs_}, 0)
                      : backend.Copy(last_row,
                                     step.Vector(*bias_.parameter()).data,
                                     outputs_ * kFloat));
  RETURN_IF_ERROR(
      backend.Fill({last_row + outputs_, (padded_ - rank_ - 1) * outputs_}, 0));
  float* a = whole().Floats(a_);
  float* const made_a = a_is_whole() ? a : Contraction(bond_a_);
  float* const made_b = b_is_whole() ? b : Contraction(bond_b_);
  RETURN_IF_ERROR(cores_.Fold(step));
  RETURN_IF_ERROR(chain_->Forward(&backend, cores_.cores(), Contraction(inner_),
                                  made_a, made_b));
  if (!b_is_whole()) {
    RETURN_IF_ERROR(
        backend.CopyRows(ConstMatrix(made_b, bond_, outputs_, all_outputs_),
                         Matrix(b, bond_, outputs_)));
  }
  if (a_is_whole()) return absl::OkStatus();
  RETURN_IF_ERROR(
      backend.Fill({b + bond_ * outputs_, (rank_ - bond_) * outputs_}, 0));
  RETURN_IF_ERROR(backend.Fill({a, inputs_ * rank_}, 0));
  return backend.CopyRows(ConstMatrix(made_a, inputs_, bond_),
                          Matrix(a, inputs_, bond_, rank_));
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
  return plan_.backend->Gemm(false, false, 1, x, A(), 0, T(first_row, x.rows));
}

absl::Status TtLinear::Expand(int64_t first_row, Matrix y) {
  return plan_.backend->Gemm(false, false, 1, PaddedT(first_row, y.rows),
                             PaddedB(), 0, y);
}

absl::Status TtLinear::Forward(const Step&, int64_t first_row, ConstMatrix x,
                               Matrix y) {
  RETURN_IF_ERROR(Project(first_row, x));
  RETURN_IF_ERROR(Activate(first_row, x.rows));
  return Expand(first_row, y);
}

absl::Status TtLinear::Repeat(const Step&, int64_t first_row, ConstMatrix,
                              Matrix y) {
  return Expand(first_row, y);
}

absl::Status TtLinear::BeginBackward() {
  if (has_grad_a_ && has_grad_b_) return absl::OkStatus();
  kernels::Backend& backend = *plan_.backend;
  return kernels::RunTogether(&backend, [&]() -> absl::Status {
    if (!std::exchange(has_grad_b_, true)) {
      RETURN_IF_ERROR(backend.Fill({grad_b().data, padded_ * outputs_}, 0));
    }
    if (std::exchange(has_grad_a_, true)) return absl::OkStatus();
    return backend.Fill({grad_a().data, inputs_ * rank_}, 0);
  });
}

float TtLinear::BetaOfGradA() {
  return std::exchange(has_grad_a_, true) ? 1 : 0;
}

float TtLinear::BetaOfGradB() {
  return std::exchange(has_grad_b_, true) ? 1 : 0;
}

absl::Status TtLinear::BackwardExpand(int64_t first_row, ConstMatrix grad_y,
                                      Matrix u) {
  kernels::Backend& backend = *plan_.backend;
  RETURN_IF_ERROR(backend.Gemm(true, false, 1, PaddedT(first_row, grad_y.rows),
                               grad_y, BetaOfGradB(), padded_grad_b()));
  RETURN_IF_ERROR(backend.Gemm(false, true, 1, grad_y, B(), 0, u));
  return BackwardActivate(first_row, u);
}

absl::Status TtLinear::BackwardProject(ConstMatrix x, ConstMatrix u,
                                       Matrix grad_x, bool accumulate) {
  kernels::Backend& backend = *plan_.backend;
  RETURN_IF_ERROR(backend.Gemm(true, false, 1, x, u, BetaOfGradA(), grad_a()));
  if (grad_x.data == nullptr) return absl::OkStatus();
  return backend.Gemm(false, true, 1, u, A(), accumulate ? 1 : 0, grad_x);
}

absl::Status TtLinear::BackwardProject(const StreamInput& x, ConstMatrix u,
                                       Matrix grad_x, void* workspace) {
  RETURN_IF_ERROR(BeginBackward());
  return plan_.backend->ProjectBackward(x.rows, x.gamma, x.beta, u, A(),
                                        grad_a(), grad_x, workspace);
}

absl::Status TtLinear::Backward(const Step&, int64_t first_row, ConstMatrix x,
                                ConstMatrix grad_y, Matrix grad_x,
                                bool accumulate) {
  const Matrix u = U(grad_y.rows);
  RETURN_IF_ERROR(BackwardExpand(first_row, grad_y, u));
  return BackwardProject(x, u, grad_x, accumulate);
}

absl::Status TtLinear::FinishBackward(const Step& step) {
  // There may have been no rows.
  if (!has_grad_a_ && !has_grad_b_) return absl::OkStatus();
  return kernels::RunTogether(plan_.backend, [&]() -> absl::Status {
    RETURN_IF_ERROR(BeginBackward());
    has_grad_a_ = has_grad_b_ = false;
    return BackwardToCores(step);
  });
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
    float* all = plan_.sums->Floats(all_grad_b_);
    RETURN_IF_ERROR(backend.Fill({all, bond_ * all_outputs_}, 0));
    RETURN_IF_ERROR(
        backend.CopyRows(ConstMatrix(grad_b, bond_, outputs_),
                         Matrix(all, bond_, outputs_, all_outputs_)));
    grad_b = all;
  }
  Matrix grad_a = this->grad_a();
  if (!a_is_whole()) {
    const Matrix bond(plan_.sums->Floats(bond_grad_a_), inputs_, bond_);
    RETURN_IF_ERROR(backend.CopyRows(
        ConstMatrix(grad_a.data, inputs_, bond_, rank_), bond));
    grad_a = bond;
  }
  float* inner = Contraction(inner_);
  if (plan_.memory->contraction()->shared()) {
    RETURN_IF_ERROR(cores_.Fold(step));
    RETURN_IF_ERROR(chain_->Rebuild(&backend, cores_.cores(), inner));
  }
  // Memory for each, so that both run beside each other.
  float* scratch = plan_.sums->Floats(chain_scratch_);
  const absl::Span<float* const> grad_cores = cores_.grad_cores();
  RETURN_IF_ERROR(chain_->PrefixBackward(&backend, cores_.cores(), inner,
                                         grad_a, grad_cores, scratch));
  RETURN_IF_ERROR(chain_->SuffixBackward(
      &backend, cores_.cores(), inner, ConstMatrix(grad_b, bond_, all_outputs_),
      grad_cores, scratch + chain_->workspace_size()));
  return cores_.Backward(step);
}

}  // namespace comera::trainer
