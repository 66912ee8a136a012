// Attention from the rank vectors of its inputs to those of its output.
#include "worker/trainer/model/encoder/rank_space_attention_branch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/together.h"
#include "worker/trainer/model/config/dropout_sites.h"

namespace comera::trainer {

using kernels::ConstMatrix;
using kernels::Matrix;
using kernels::RankSpaceAttentionShape;

namespace {

constexpr int64_t kFloat = sizeof(float);

template <typename View>
View Rows(const View& m, int64_t first, int64_t count) {
  return View(m.data + first * m.stride, count, m.cols, m.stride);
}
template <typename View>
View Columns(const View& m, int64_t first, int64_t count) {
  return View(m.data + first, m.rows, count, m.stride);
}

}  // namespace

RankSpaceAttentionBranch::RankSpaceAttentionBranch(
    const Plan& plan, int64_t layer, AttentionProjections projections)
    : plan_(plan),
      layer_(layer),
      heads_(plan.config->heads),
      head_width_(plan.config->hidden / plan.config->heads),
      projections_(std::move(projections)),
      query_(*projections_.query->rank_space()),
      key_(*projections_.key->rank_space()),
      value_(*projections_.value->rank_space()),
      output_(*projections_.output->rank_space()),
      ranks_(query_.rank() + key_.rank() + value_.rank()),
      together_(!plan.backend->in_host_memory()) {
  const auto name = [&](const char* what) {
    return absl::StrCat("layers.", layer, ".attention.", what);
  };
  const int64_t c_bytes =
      heads_ * (query_.rank() + 1) * (key_.rank() + 1) * kFloat;
  const int64_t e_bytes =
      heads_ * (value_.rank() + 1) * output_.rank() * kFloat;
  log_sum_ =
      plan.saved->Reserve(name("log_sum"), plan.max_rows * heads_ * kFloat);
  c_ = plan.memory->whole()->Reserve(name("c"), c_bytes);
  e_ = plan.memory->whole()->Reserve(name("e"), e_bytes);
  grad_c_ = plan.sums->Reserve("attention.grad_c", c_bytes);
  grad_e_ = plan.sums->Reserve("attention.grad_e", e_bytes);
  grad_t_ = plan.workspace->Reserve(
      "attention.grad_t",
      plan.max_rows * (query_.rank() + key_.rank() + value_.rank()) * kFloat);
  attention_ = plan.workspace->Reserve(
      "attention.scratch",
      plan.backend->RankSpaceAttentionWorkspaceBytes(
          Shape(plan.max_sequences, plan.max_rows, plan.config->length)));
  const int64_t widest =
      together_ ? ranks_
                : std::max({query_.rank(), key_.rank(), value_.rank()});
  tiles_ = plan.workspace->Reserve(
      "linear.tiles", plan.backend->RankSpaceStreamWorkspaceBytes(
                          plan.max_rows, widest, plan.config->hidden));
  if (!together_) return;
  const int64_t a_bytes = plan.config->hidden * ranks_ * kFloat;
  all_a_ = plan.memory->whole()->Reserve(name("all_a"), a_bytes);
  all_grad_a_ = plan.sums->Reserve("attention.all_grad_a", a_bytes);
}

RankSpaceAttentionShape RankSpaceAttentionBranch::Shape(
    int64_t sequences, int64_t tokens, int64_t max_length) const {
  return {{sequences, tokens, max_length, heads_, head_width_},
          query_.rank(),
          key_.rank(),
          value_.rank(),
          output_.rank()};
}

kernels::DropoutKey RankSpaceAttentionBranch::Dropout(const Step& step) const {
  return step.Dropout(plan_.config->dropout,
                      AttentionProbabilityDropout(layer_));
}

Matrix RankSpaceAttentionBranch::C(float* data) const {
  return Matrix(data, heads_ * (query_.rank() + 1), key_.rank() + 1);
}

Matrix RankSpaceAttentionBranch::E(float* data) const {
  return Matrix(data, heads_ * (value_.rank() + 1), output_.rank());
}

absl::Status RankSpaceAttentionBranch::FormFactors() {
  const SavedMemory& whole = *plan_.memory->whole();
  const Matrix c = C(whole.Floats(c_)), e = E(whole.Floats(e_));
  const int64_t q = query_.rank() + 1, v = value_.rank() + 1;
  for (int64_t h = 0; h < heads_; ++h) {
    const int64_t first = h * head_width_;
    RETURN_IF_ERROR(plan_.backend->Gemm(
        false, true, 1, Columns(query_.BWithBias(), first, head_width_),
        Columns(key_.BWithBias(), first, head_width_), 0, Rows(c, h * q, q)));
    RETURN_IF_ERROR(plan_.backend->Gemm(
        false, false, 1, Columns(value_.BWithBias(), first, head_width_),
        Rows(output_.A(), first, head_width_), 0, Rows(e, h * v, v)));
  }
  return absl::OkStatus();
}

Matrix RankSpaceAttentionBranch::AllA() const {
  return Matrix(plan_.memory->whole()->Floats(all_a_), plan_.config->hidden,
                ranks_);
}

absl::Status RankSpaceAttentionBranch::GatherA() {
  int64_t first = 0;
  for (RankSpaceLinear* each : {&query_, &key_, &value_}) {
    RETURN_IF_ERROR(plan_.backend->CopyRows(
        each->A(), Columns(AllA(), first, each->rank())));
    first += each->rank();
  }
  return absl::OkStatus();
}

absl::Status RankSpaceAttentionBranch::Contract(const Step& step) {
  has_grad_a_ = false;
  return kernels::RunTogether(plan_.backend, [&]() -> absl::Status {
    for (Linear* each : {projections_.query.get(), projections_.key.get(),
                         projections_.value.get(), projections_.output.get()}) {
      RETURN_IF_ERROR(each->Contract(step));
    }
    if (together_) RETURN_IF_ERROR(GatherA());
    return FormFactors();
  });
}

Matrix RankSpaceAttentionBranch::AllGradA() const {
  return Matrix(plan_.sums->Floats(all_grad_a_), plan_.config->hidden, ranks_);
}

absl::Status RankSpaceAttentionBranch::BeginBackward() {
  RETURN_IF_ERROR(output_.BeginBackward());
  if (!together_ || std::exchange(has_grad_a_, true)) return absl::OkStatus();
  const Matrix grad_a = AllGradA();
  return plan_.backend->Fill({grad_a.data, grad_a.rows * grad_a.cols}, 0);
}

absl::Status RankSpaceAttentionBranch::FinishBackward(const Step& step) {
  const Workspace& sums = *plan_.sums;
  const Matrix grad_c = C(sums.Floats(grad_c_));
  const Matrix grad_e = E(sums.Floats(grad_e_));
  return kernels::RunTogether(plan_.backend, [&]() -> absl::Status {
    RETURN_IF_ERROR(OutputGradients(grad_e));
    RETURN_IF_ERROR(ValueGradients(grad_e));
    RETURN_IF_ERROR(QueryGradients(grad_c));
    RETURN_IF_ERROR(KeyGradients(grad_c));
    if (together_) RETURN_IF_ERROR(SpreadGradA());
    has_grad_a_ = false;
    for (Linear* each : {projections_.output.get(), projections_.value.get(),
                         projections_.query.get(), projections_.key.get()}) {
      RETURN_IF_ERROR(each->FinishBackward(step));
    }
    return absl::OkStatus();
  });
}

absl::Status RankSpaceAttentionBranch::Forward(const Step& step, ConstMatrix x,
                                               Matrix y) {
  RETURN_IF_ERROR(ForwardToRankSpace(step, x));
  return output_.Expand(0, y);
}

absl::Status RankSpaceAttentionBranch::ForwardToRankSpace(const Step& step,
                                                          ConstMatrix x) {
  const int64_t rows = step.rows();
  RETURN_IF_ERROR(kernels::RunTogether(plan_.backend, [&]() -> absl::Status {
    for (RankSpaceLinear* each : {&query_, &key_, &value_}) {
      RETURN_IF_ERROR(each->Project(0, x));
    }
    return absl::OkStatus();
  }));
  for (RankSpaceLinear* each : {&query_, &key_, &value_}) {
    RETURN_IF_ERROR(each->Activate(0, rows));
  }
  const SavedMemory& whole = *plan_.memory->whole();
  RETURN_IF_ERROR(plan_.backend->RankSpaceAttention(
      Shape(step), Dropout(step), step.offsets, query_.TWithOnes(0, rows),
      key_.TWithOnes(0, rows), value_.TWithOnes(0, rows), C(whole.Floats(c_)),
      E(whole.Floats(e_)), plan_.saved->Floats(log_sum_), output_.T(0, rows),
      plan_.workspace->Floats(attention_)));
  return output_.Activate(0, rows);
}

absl::Status RankSpaceAttentionBranch::Backward(const Step& step, ConstMatrix x,
                                                ConstMatrix grad_y,
                                                Matrix grad_x) {
  const Matrix grad_t = output_.U(step.rows());
  RETURN_IF_ERROR(output_.BackwardExpand(0, grad_y, grad_t));
  return BackwardFromRankSpace(step, {x, {}, {}}, grad_t, grad_x);
}

absl::Status RankSpaceAttentionBranch::BackwardFromRankSpace(
    const Step& step, const StreamInput& x, ConstMatrix grad_t, Matrix grad_x) {
  RETURN_IF_ERROR(BeginBackward());
  const int64_t rows = step.rows();
  const SavedMemory& whole = *plan_.memory->whole();
  const Workspace& workspace = *plan_.workspace;
  const Matrix grad_c = C(plan_.sums->Floats(grad_c_));
  const Matrix grad_e = E(plan_.sums->Floats(grad_e_));
  // Side by side, or one behind the other.
  const Matrix all(workspace.Floats(grad_t_), rows, ranks_);
  const int64_t next = together_ ? 1 : rows;
  const auto part = [&](float* data, int64_t rank) {
    return Matrix(data, rows, rank, together_ ? ranks_ : rank);
  };
  const Matrix grad_q = part(all.data, query_.rank());
  const Matrix grad_k = part(grad_q.data + next * grad_q.cols, key_.rank());
  const Matrix grad_v = part(grad_k.data + next * grad_k.cols, value_.rank());
  RETURN_IF_ERROR(plan_.backend->RankSpaceAttentionBackward(
      Shape(step), Dropout(step), step.offsets, query_.TWithOnes(0, rows),
      key_.TWithOnes(0, rows), value_.TWithOnes(0, rows), C(whole.Floats(c_)),
      E(whole.Floats(e_)), plan_.saved->Floats(log_sum_), grad_t, grad_q,
      grad_k, grad_v, grad_c, grad_e, workspace.Floats(attention_)));
  RETURN_IF_ERROR(query_.BackwardActivate(0, grad_q));
  RETURN_IF_ERROR(key_.BackwardActivate(0, grad_k));
  RETURN_IF_ERROR(value_.BackwardActivate(0, grad_v));

  if (together_) return ProjectTogether(x, all, grad_x);
  void* const tiles = plan_.workspace->Floats(tiles_);
  RETURN_IF_ERROR(value_.BackwardProject(x, grad_v, grad_x, tiles));
  RETURN_IF_ERROR(query_.BackwardProject(x, grad_q, grad_x, tiles));
  return key_.BackwardProject(x, grad_k, grad_x, tiles);
}

absl::Status RankSpaceAttentionBranch::ProjectTogether(const StreamInput& x,
                                                       ConstMatrix grad_t,
                                                       Matrix grad_x) {
  return plan_.backend->ProjectBackward(x.rows, x.gamma, x.beta, grad_t, AllA(),
                                        AllGradA(), grad_x,
                                        plan_.workspace->Floats(tiles_));
}

absl::Status RankSpaceAttentionBranch::SpreadGradA() {
  const Matrix grad_a = AllGradA();
  int64_t first = 0;
  for (RankSpaceLinear* each : {&query_, &key_, &value_}) {
    RETURN_IF_ERROR(plan_.backend->CopyRows(
        Columns(grad_a, first, each->rank()), each->grad_a()));
    first += each->rank();
  }
  return absl::OkStatus();
}

// gA_h += B~v_h^T gE_h.
absl::Status RankSpaceAttentionBranch::OutputGradients(ConstMatrix grad_e) {
  RETURN_IF_ERROR(output_.BeginBackward());
  const int64_t v = value_.rank() + 1;
  for (int64_t h = 0; h < heads_; ++h) {
    const int64_t first = h * head_width_;
    RETURN_IF_ERROR(plan_.backend->Gemm(
        true, false, 1, Columns(value_.BWithBias(), first, head_width_),
        Rows(grad_e, h * v, v), 1, Rows(output_.grad_a(), first, head_width_)));
  }
  return absl::OkStatus();
}

// gB~v_h += gE_h A_h^T.
absl::Status RankSpaceAttentionBranch::ValueGradients(ConstMatrix grad_e) {
  RETURN_IF_ERROR(value_.BeginBackward());
  const int64_t v = value_.rank() + 1;
  for (int64_t h = 0; h < heads_; ++h) {
    const int64_t first = h * head_width_;
    RETURN_IF_ERROR(
        plan_.backend->Gemm(false, true, 1, Rows(grad_e, h * v, v),
                            Rows(output_.A(), first, head_width_), 1,
                            Columns(value_.grad_b(), first, head_width_)));
  }
  return absl::OkStatus();
}

// gB~q_h += gC_h B~k_h.
absl::Status RankSpaceAttentionBranch::QueryGradients(ConstMatrix grad_c) {
  RETURN_IF_ERROR(query_.BeginBackward());
  const int64_t q = query_.rank() + 1;
  for (int64_t h = 0; h < heads_; ++h) {
    const int64_t first = h * head_width_;
    RETURN_IF_ERROR(
        plan_.backend->Gemm(false, false, 1, Rows(grad_c, h * q, q),
                            Columns(key_.BWithBias(), first, head_width_), 1,
                            Columns(query_.grad_b(), first, head_width_)));
  }
  return absl::OkStatus();
}

// gB~k_h += gC_h^T B~q_h.
absl::Status RankSpaceAttentionBranch::KeyGradients(ConstMatrix grad_c) {
  RETURN_IF_ERROR(key_.BeginBackward());
  const int64_t q = query_.rank() + 1;
  for (int64_t h = 0; h < heads_; ++h) {
    const int64_t first = h * head_width_;
    RETURN_IF_ERROR(
        plan_.backend->Gemm(true, false, 1, Rows(grad_c, h * q, q),
                            Columns(query_.BWithBias(), first, head_width_), 1,
                            Columns(key_.grad_b(), first, head_width_)));
  }
  return absl::OkStatus();
}

}  // namespace comera::trainer
