// Times operations one by one.
#include "tests/bench/timing_backend.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::bench {

using kernels::ConstMatrix;
using kernels::Matrix;

TimingBackend::TimingBackend(kernels::Backend* backend,
                             std::function<double()> now)
    : ForwardingBackend(backend),
      now_(std::move(now)),
      groups_(!backend->in_host_memory()) {}

void TimingBackend::Clear() {
  operations_.clear();
  products_.clear();
}

absl::Status TimingBackend::Time(const Operation& operation, Times* times) {
  RETURN_IF_ERROR(backend()->Synchronize());
  const double start = now_();
  RETURN_IF_ERROR(operation());
  RETURN_IF_ERROR(backend()->Synchronize());
  ++times->calls;
  times->seconds += now_() - start;
  return absl::OkStatus();
}

absl::Status TimingBackend::Call(const std::string& name, Operation operation) {
  if (depth_ > 0) return operation();  // timed by EndTogether
  return Time(operation, &operations_[name]);
}

absl::Status TimingBackend::Gemm(bool transpose_a, bool transpose_b,
                                 float alpha, ConstMatrix a, ConstMatrix b,
                                 float beta, Matrix c) {
  const auto multiply = [&] {
    return backend()->Gemm(transpose_a, transpose_b, alpha, a, b, beta, c);
  };
  if (depth_ > 0) return multiply();
  Times times;
  RETURN_IF_ERROR(Time(multiply, &times));
  const std::string size = absl::StrCat(
      c.rows, " x ", c.cols, " x ", transpose_a ? a.rows : a.cols, " ",
      transpose_a ? "T" : "N", transpose_b ? "T" : "N", beta == 0 ? "" : " +=");
  for (Times* to : {&operations_["Gemm"], &products_[size]}) {
    to->calls += times.calls;
    to->seconds += times.seconds;
  }
  return absl::OkStatus();
}

absl::Status TimingBackend::BeginTogether() {
  if (!groups_) return backend()->BeginTogether();
  if (++depth_ == 1) {
    RETURN_IF_ERROR(backend()->Synchronize());
    together_start_ = now_();
  }
  return backend()->BeginTogether();
}

absl::Status TimingBackend::EndTogether() {
  RETURN_IF_ERROR(backend()->EndTogether());
  if (!groups_ || --depth_ > 0) return absl::OkStatus();
  RETURN_IF_ERROR(backend()->Synchronize());
  Times& times = operations_["Together"];
  ++times.calls;
  times.seconds += now_() - together_start_;
  return absl::OkStatus();
}

absl::StatusOr<void*> TimingBackend::AllocateHost(int64_t bytes) {
  return backend()->AllocateHost(bytes);
}

void TimingBackend::FreeHost(void* memory) { backend()->FreeHost(memory); }

}  // namespace comera::bench
