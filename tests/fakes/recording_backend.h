// A CPU backend that records graphs, and appears to run asynchronously.
#ifndef COMERA_TESTS_FAKES_RECORDING_BACKEND_H_
#define COMERA_TESTS_FAKES_RECORDING_BACKEND_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/forwarding_backend.h"

namespace comera::kernels {

// Keeps captured operations as calls with their arguments, and Replay makes
// these calls again. Memory that is read late holds NaN on the host until
// somebody has waited for it. Operations that a device could not do during a
// capture are refused. Not thread-safe.
class RecordingBackend : public ForwardingBackend {
 public:
  // `backend` must be a CPU backend.
  using ForwardingBackend::ForwardingBackend;
  ~RecordingBackend() override;

  absl::StatusOr<void*> Allocate(int64_t bytes) override;
  absl::Status CopyToDevice(void* to, const void* from, int64_t bytes) override;
  absl::Status CopyToHost(void* to, const void* from, int64_t bytes) override;
  absl::Status Synchronize() override;
  absl::StatusOr<void*> AllocateHost(int64_t bytes) override;
  absl::Status CopyToHostLater(void* to, const void* from,
                               int64_t bytes) override;
  absl::StatusOr<int64_t> Mark() override;
  absl::Status Wait(int64_t mark) override;

  bool has_graphs() const override { return true; }
  absl::Status BeginCapture() override;
  absl::StatusOr<std::unique_ptr<StepGraph>> EndCapture() override;
  absl::Status Replay(const StepGraph& graph) override;

  // Enqueues a foreign operation, in order with the backend's own.
  absl::Status Enqueue(const std::string& name, Operation operation) {
    return Call(name, std::move(operation));
  }

  // Makes every capture refuse the operation that follows `count` others; a
  // negative `count` refuses none.
  void FailCapturesAfter(int64_t count) { fail_after_ = count; }
  // Whether a graph was destroyed that might still have been running.
  bool graph_outlived() const { return graph_outlived_; }

 private:
  struct Later {
    int64_t mark;
    void* to;
    std::vector<char> bytes;
  };
  class Graph;

  absl::Status Call(const std::string& name, Operation operation) override;
  absl::Status CheckNotCapturing(const char* what) const;

  bool capturing_ = false;
  std::vector<Operation> recorded_;
  absl::Status capture_error_;
  int64_t fail_after_ = -1;
  std::deque<Later> later_;
  int64_t next_mark_ = 0;
  // The graph replayed since the last wait.
  const Graph* running_ = nullptr;
  bool graph_outlived_ = false;
};

}  // namespace comera::kernels

#endif  // COMERA_TESTS_FAKES_RECORDING_BACKEND_H_
