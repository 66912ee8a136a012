// A backend with graphs, of which each build of a test has one: recorded calls,
// CUDA on the processor, or a GPU.
#ifndef COMERA_TESTS_WORKER_TRAINER_GRAPH_BACKEND_H_
#define COMERA_TESTS_WORKER_TRAINER_GRAPH_BACKEND_H_

#include <memory>
#include <string>
#include <utility>

#include "kernels/backend.h"
#include "tests/fakes/forwarding_backend.h"

namespace comera::trainer {

// Aborts the process where there is none.
std::unique_ptr<kernels::Backend> MakeGraphBackend();
// Whether a step takes far longer there than its tests like.
bool GraphBackendIsSlow();

// The same, but nothing can be captured: every step is eager.
class RefusingBackend : public kernels::ForwardingBackend {
 public:
  explicit RefusingBackend(std::unique_ptr<kernels::Backend> backend)
      : ForwardingBackend(backend.get()), owned_(std::move(backend)) {}

  bool has_graphs() const override { return true; }
  absl::Status BeginCapture() override {
    return absl::InternalError("captures are refused");
  }
  absl::StatusOr<void*> AllocateHost(int64_t bytes) override {
    return owned_->AllocateHost(bytes);
  }
  void FreeHost(void* memory) override { owned_->FreeHost(memory); }
  absl::Status CopyToHostLater(void* to, const void* from,
                               int64_t bytes) override {
    return owned_->CopyToHostLater(to, from, bytes);
  }
  absl::StatusOr<int64_t> Mark() override { return owned_->Mark(); }
  absl::Status Wait(int64_t mark) override { return owned_->Wait(mark); }

 private:
  absl::Status Call(const std::string&, Operation operation) override {
    return operation();
  }

  const std::unique_ptr<kernels::Backend> owned_;
};

}  // namespace comera::trainer

#endif  // COMERA_TESTS_WORKER_TRAINER_GRAPH_BACKEND_H_
