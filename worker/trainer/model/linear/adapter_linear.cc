// A frozen matrix with trained adapters beside it: LoRA and LTE.
#include "worker/trainer/model/linear/adapter_linear.h"

#include "common/status_macros.h"

namespace comera::trainer {

using kernels::ConstMatrix;
using kernels::Matrix;

namespace {

constexpr int64_t kFloat = sizeof(float);

template <typename View>
View Rows(const View& m, int64_t begin, int64_t end) {
  if (m.data == nullptr) return m;
  return View(m.data + begin * m.stride, end - begin, m.cols, m.stride);
}

}  // namespace

AdapterLinear::AdapterLinear(const Plan& plan, const std::string& name,
                             const LowRank& form, int64_t max_rows,
                             const LteHeadRuns* head_runs)
    : plan_(plan),
      form_(form),
      head_runs_(head_runs),
      bias_(plan, name),
      weight_(plan.At(name + ".weight")),
      a_(plan.At(name + ".a")),
      b_(plan.At(name + ".b")),
      previous_a_(form.kind == LowRank::Kind::kLte
                      ? &plan.At(name + ".previous_a")
                      : nullptr),
      previous_b_(form.kind == LowRank::Kind::kLte
                      ? &plan.At(name + ".previous_b")
                      : nullptr),
      inputs_(weight_.shape[0]),
      outputs_(weight_.shape[1]) {
  const int64_t bytes = max_rows * form.rank * kFloat;
  t_ = plan.saved->Reserve(name + ".t", bytes);
  u_ = plan.workspace->Reserve("linear.u", bytes);
}

template <typename T>
kernels::MatrixView<T> AdapterLinear::Columns(T* values, int64_t head) const {
  return {values + head * form_.rank, inputs_, form_.rank,
          form_.heads * form_.rank};
}

template <typename T>
kernels::MatrixView<T> AdapterLinear::HeadRows(T* values, int64_t head) const {
  return {values + head * form_.rank * outputs_, form_.rank, outputs_};
}

LteHeadRun AdapterLinear::RunAt(int64_t first_row, int64_t begin,
                                int64_t rows) const {
  if (form_.heads == 1 || head_runs_ == nullptr) return {rows, form_.heads - 1};
  LteHeadRun run = head_runs_->RunAt(first_row + begin, first_row + rows);
  run.end -= first_row;
  return run;
}

absl::Status AdapterLinear::AddProduct(const Step& step, int64_t first_row,
                                       int64_t head, float factor,
                                       ConstMatrix x, Matrix y) {
  kernels::Backend& backend = *plan_.backend;
  const Matrix t(plan_.saved->Floats(t_) + first_row * form_.rank, x.rows,
                 form_.rank);
  RETURN_IF_ERROR(backend.Gemm(false, false, 1, x,
                               Columns(step.Vector(a_).data, head), 0, t));
  RETURN_IF_ERROR(backend.Gemm(false, false, factor, t,
                               HeadRows(step.Vector(b_).data, head), 1, y));
  if (previous_a_ == nullptr) return absl::OkStatus();
  const Matrix u(plan_.workspace->Floats(u_), x.rows, form_.rank);
  RETURN_IF_ERROR(backend.Gemm(
      false, false, 1, x, Columns(step.Vector(*previous_a_).data, head), 0, u));
  return backend.Gemm(false, false, -factor, u,
                      HeadRows(step.Vector(*previous_b_).data, head), 1, y);
}

absl::Status AdapterLinear::Forward(const Step& step, int64_t first_row,
                                    ConstMatrix x, Matrix y) {
  const ConstMatrix w(step.parameters + weight_.offset, inputs_, outputs_);
  RETURN_IF_ERROR(bias_.Product(step, false, x, w, y));
  if (!step.train) {
    const float factor = static_cast<float>(form_.scale / form_.heads);
    for (int64_t head = 0; head < form_.heads; ++head) {
      RETURN_IF_ERROR(AddProduct(step, first_row, head, factor, x, y));
    }
    return absl::OkStatus();
  }
  for (int64_t row = 0; row < x.rows;) {
    const LteHeadRun run = RunAt(first_row, row, x.rows);
    RETURN_IF_ERROR(AddProduct(step, first_row + row, run.head,
                               static_cast<float>(form_.scale),
                               Rows(x, row, run.end), Rows(y, row, run.end)));
    row = run.end;
  }
  return absl::OkStatus();
}

absl::Status AdapterLinear::Repeat(const Step& step, int64_t first_row,
                                   ConstMatrix x, Matrix y) {
  return Forward(step, first_row, x, y);
}

absl::Status AdapterLinear::Backward(const Step& step, int64_t first_row,
                                     ConstMatrix x, ConstMatrix grad_y,
                                     Matrix grad_x, bool accumulate) {
  kernels::Backend& backend = *plan_.backend;
  RETURN_IF_ERROR(bias_.Backward(step, grad_y));
  if (grad_x.data != nullptr) {
    const ConstMatrix w(step.parameters + weight_.offset, inputs_, outputs_);
    RETURN_IF_ERROR(
        backend.Gemm(false, true, 1, grad_y, w, accumulate ? 1 : 0, grad_x));
  }
  const float scale = static_cast<float>(form_.scale);
  for (int64_t row = 0; row < x.rows;) {
    const LteHeadRun run = RunAt(first_row, row, x.rows);
    const ConstMatrix rows = Rows(x, row, run.end);
    const ConstMatrix grad = Rows(grad_y, row, run.end);
    const ConstMatrix t(
        plan_.saved->Floats(t_) + (first_row + row) * form_.rank, rows.rows,
        form_.rank);
    const Matrix u(plan_.workspace->Floats(u_), rows.rows, form_.rank);
    const auto columns = [&](const Parameter& a) {
      return Columns(step.Vector(a).data, run.head);
    };
    const auto head_rows = [&](const Parameter& b) {
      return HeadRows(step.Vector(b).data, run.head);
    };
    RETURN_IF_ERROR(backend.Gemm(true, false, scale, t, grad, 1,
                                 HeadRows(step.Gradient(b_).data, run.head)));
    RETURN_IF_ERROR(
        backend.Gemm(false, true, scale, grad, head_rows(b_), 0, u));
    RETURN_IF_ERROR(backend.Gemm(true, false, 1, rows, u, 1,
                                 Columns(step.Gradient(a_).data, run.head)));
    if (grad_x.data != nullptr) {
      const Matrix out = Rows(grad_x, row, run.end);
      RETURN_IF_ERROR(backend.Gemm(false, true, 1, u, columns(a_), 1, out));
      if (previous_a_ != nullptr) {
        RETURN_IF_ERROR(backend.Gemm(false, true, -scale, grad,
                                     head_rows(*previous_b_), 0, u));
        RETURN_IF_ERROR(
            backend.Gemm(false, true, 1, u, columns(*previous_a_), 1, out));
      }
    }
    row = run.end;
  }
  return absl::OkStatus();
}

}  // namespace comera::trainer
