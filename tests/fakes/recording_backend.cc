// Captures operations as closures, replays them, and delays reads to the host.

#include "tests/fakes/recording_backend.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::kernels {

class RecordingBackend::Graph : public StepGraph {
 public:
  Graph(RecordingBackend* backend, std::vector<Operation> operations)
      : operations(std::move(operations)), backend_(backend) {}
  ~Graph() override {
    if (backend_->running_ == this) backend_->graph_outlived_ = true;
  }

  const std::vector<Operation> operations;

 private:
  RecordingBackend* const backend_;
};

RecordingBackend::~RecordingBackend() = default;

absl::Status RecordingBackend::CheckNotCapturing(const char* what) const {
  if (!capturing_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(what, " while a graph is recorded"));
}

absl::Status RecordingBackend::Call(const std::string& name,
                                    Operation operation) {
  if (!capturing_) return operation();
  if (fail_after_ == static_cast<int64_t>(recorded_.size())) {
    capture_error_ = absl::InternalError(absl::StrCat(name, " refused"));
    return capture_error_;
  }
  recorded_.push_back(std::move(operation));
  return absl::OkStatus();
}

absl::StatusOr<void*> RecordingBackend::Allocate(int64_t bytes) {
  RETURN_IF_ERROR(CheckNotCapturing("Allocate"));
  return backend()->Allocate(bytes);
}

absl::Status RecordingBackend::CopyToDevice(void* to, const void* from,
                                            int64_t bytes) {
  RETURN_IF_ERROR(CheckNotCapturing("CopyToDevice"));
  return backend()->CopyToDevice(to, from, bytes);
}

absl::Status RecordingBackend::CopyToHost(void* to, const void* from,
                                          int64_t bytes) {
  RETURN_IF_ERROR(Synchronize());
  return backend()->CopyToHost(to, from, bytes);
}

absl::Status RecordingBackend::Synchronize() {
  RETURN_IF_ERROR(CheckNotCapturing("Synchronize"));
  running_ = nullptr;
  return next_mark_ > 0 ? Wait(next_mark_ - 1) : absl::OkStatus();
}

absl::StatusOr<void*> RecordingBackend::AllocateHost(int64_t bytes) {
  return Allocate(bytes);
}

absl::Status RecordingBackend::CopyToHostLater(void* to, const void* from,
                                               int64_t bytes) {
  RETURN_IF_ERROR(CheckNotCapturing("CopyToHostLater"));
  Later later{next_mark_, to, std::vector<char>(bytes)};
  if (bytes > 0) std::memcpy(later.bytes.data(), from, bytes);
  for (int64_t i = 0; i < bytes / int64_t{sizeof(float)}; ++i) {
    static_cast<float*>(to)[i] = std::nanf("");
  }
  later_.push_back(std::move(later));
  return absl::OkStatus();
}

absl::StatusOr<int64_t> RecordingBackend::Mark() {
  RETURN_IF_ERROR(CheckNotCapturing("Mark"));
  return next_mark_++;
}

absl::Status RecordingBackend::Wait(int64_t mark) {
  RETURN_IF_ERROR(CheckNotCapturing("Wait"));
  if (mark < 0 || mark >= next_mark_) {
    return absl::InvalidArgumentError("Wait for a mark that was never made");
  }
  while (!later_.empty() && later_.front().mark <= mark) {
    const Later& later = later_.front();
    if (!later.bytes.empty()) {
      std::memcpy(later.to, later.bytes.data(), later.bytes.size());
    }
    later_.pop_front();
  }
  return absl::OkStatus();
}

absl::Status RecordingBackend::BeginCapture() {
  RETURN_IF_ERROR(CheckNotCapturing("BeginCapture"));
  capturing_ = true;
  recorded_.clear();
  capture_error_ = absl::OkStatus();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<StepGraph>> RecordingBackend::EndCapture() {
  if (!capturing_) {
    return absl::FailedPreconditionError("EndCapture without BeginCapture");
  }
  capturing_ = false;
  RETURN_IF_ERROR(capture_error_);
  return std::make_unique<Graph>(this, std::move(recorded_));
}

absl::Status RecordingBackend::Replay(const StepGraph& graph) {
  RETURN_IF_ERROR(CheckNotCapturing("Replay"));
  running_ = static_cast<const Graph*>(&graph);
  for (const Operation& operation : running_->operations) {
    RETURN_IF_ERROR(operation());
  }
  return absl::OkStatus();
}

}  // namespace comera::kernels
