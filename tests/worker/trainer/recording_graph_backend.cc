// A backend on the processor that records steps instead of capturing graphs.
#include <cstdlib>

#include "kernels/cpu/cpu_backend.h"
#include "tests/fakes/recording_backend.h"
#include "tests/worker/trainer/graph_backend.h"

namespace comera::trainer {
namespace {

// With the backend of the processor that it works on.
class OwningBackend : public kernels::RecordingBackend {
 public:
  explicit OwningBackend(std::unique_ptr<kernels::Backend> cpu)
      : RecordingBackend(cpu.get()), cpu_(std::move(cpu)) {}
  ~OwningBackend() override {
    if (graph_outlived()) std::abort();
  }

 private:
  const std::unique_ptr<kernels::Backend> cpu_;
};

}  // namespace

bool GraphBackendIsSlow() { return false; }

std::unique_ptr<kernels::Backend> MakeGraphBackend() {
  return std::make_unique<OwningBackend>(kernels::CreateCpuBackend({1, 0}));
}

}  // namespace comera::trainer
