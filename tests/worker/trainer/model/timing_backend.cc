// Times every operation of a backend.
#include "tests/worker/trainer/model/timing_backend.h"

#include <time.h>

#include "absl/strings/str_format.h"
#include "tests/fakes/forwarding_backend.h"

namespace comera::kernels {
namespace {

double ProcessorSeconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) +
         1e-9 * static_cast<double>(time.tv_nsec);
}

class TimingBackend : public ForwardingBackend {
 public:
  TimingBackend(Backend* backend, OperationTimes* times)
      : ForwardingBackend(backend), times_(times) {}

  absl::Status Gemm(bool transpose_a, bool transpose_b, float alpha,
                    ConstMatrix a, ConstMatrix b, float beta,
                    Matrix c) override {
    const std::string name = absl::StrFormat(
        "Gemm %c%c %dx%dx%d", transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N',
        c.rows, c.cols, transpose_a ? a.rows : a.cols);
    return Call(name, [=] {
      return backend()->Gemm(transpose_a, transpose_b, alpha, a, b, beta, c);
    });
  }

 private:
  absl::Status Call(const std::string& name, Operation operation) override {
    const double start = ProcessorSeconds();
    absl::Status status = operation();
    if (status.ok()) status = backend()->Synchronize();
    OperationTimes::Entry& entry = times_->by_name[name];
    entry.seconds += ProcessorSeconds() - start;
    ++entry.calls;
    return status;
  }

  OperationTimes* const times_;
};

}  // namespace

std::unique_ptr<Backend> CreateTimingBackend(Backend* backend,
                                             OperationTimes* times) {
  return std::make_unique<TimingBackend>(backend, times);
}

}  // namespace comera::kernels
