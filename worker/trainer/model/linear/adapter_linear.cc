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
      weight_(plan.At(name + ".weight")),
      bias_(plan.At(name + ".bias")),
      a_(plan.At(name + ".a")),
      b_(plan.At(name + ".b")),
      inputs_(weight_.shape[0]),
      outputs_(weight_.shape[1]) {
  const int64_t bytes = max_rows * form.rank * kFloat;
  t_ = plan.saved->Reserve(name + ".t", bytes);
  u_ = plan.workspace->Reserve("linear.u", bytes);
}

template <typename T>
kernels::MatrixView<T> AdapterLinear::A(T* values, int64_t head) const {
  return {values + a_.offset + head * form_.rank, inputs_, form_.rank,
          form_.heads * form_.rank};
}

template <typename T>
kernels::MatrixView<T> AdapterLinear::B(T* values, int64_t head) const {
  return {values + b_.offset + head * form_.rank * outputs_, form_.rank,
          outputs_};
}

LteHeadRun AdapterLinear::RunAt(int64_t first_row, int64_t begin,
                                int64_t rows) const {
  if (form_.heads == 1 || head_runs_ == nullptr) return {rows, form_.heads - 1};
  LteHeadRun run = head_runs_->RunAt(first_row + begin, first_row + rows);
  run.end -= first_row;
  return run;
}

absl::Status AdapterLinear::Prepare(const Step&) { return absl::OkStatus(); }

absl::Status AdapterLinear::AddProduct(const Step& step, int64_t first_row,
                                       int64_t head, float factor,
                                       ConstMatrix x, Matrix y) {
  const Matrix t(plan_.saved->Floats(t_) + first_row * form_.rank, x.rows,
                 form_.rank);
  RETURN_IF_ERROR(
      plan_.backend->Gemm(false, false, 1, x, A(step.parameters, head), 0, t));
  return plan_.backend->Gemm(false, false, factor, t, B(step.parameters, head),
                             1, y);
}

absl::Status AdapterLinear::Forward(const Step& step, int64_t first_row,
                                    ConstMatrix x, Matrix y) {
  const ConstMatrix w(step.parameters + weight_.offset, inputs_, outputs_);
  RETURN_IF_ERROR(plan_.backend->Gemm(false, false, 1, x, w, 0, y));
  RETURN_IF_ERROR(plan_.backend->AddBias(step.Vector(bias_), y));
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
  RETURN_IF_ERROR(backend.BiasGradient(grad_y, step.Gradient(bias_)));
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
    RETURN_IF_ERROR(backend.Gemm(true, false, scale, t, grad, 1,
                                 B(step.gradients, run.head)));
    RETURN_IF_ERROR(backend.Gemm(false, true, scale, grad,
                                 B(step.parameters, run.head), 0, u));
    RETURN_IF_ERROR(
        backend.Gemm(true, false, 1, rows, u, 1, A(step.gradients, run.head)));
    if (grad_x.data != nullptr) {
      RETURN_IF_ERROR(backend.Gemm(false, true, 1, u,
                                   A(step.parameters, run.head), 1,
                                   Rows(grad_x, row, run.end)));
    }
    row = run.end;
  }
  return absl::OkStatus();
}

absl::Status AdapterLinear::FinishBackward(const Step&) {
  return absl::OkStatus();
}

}  // namespace comera::trainer
