// Captures a stream as a graph, replays it, and marks places in the stream.
#include <utility>

#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/cuda_status.h"

namespace comera::kernels {
namespace {

class CudaGraph final : public StepGraph {
 public:
  explicit CudaGraph(cudaGraphExec_t exec) : exec_(exec) {}
  ~CudaGraph() override { cudaGraphExecDestroy(exec_); }
  cudaGraphExec_t exec() const { return exec_; }

 private:
  const cudaGraphExec_t exec_;
};

}  // namespace

absl::StatusOr<int64_t> CudaBackend::Mark() {
  RETURN_IF_ERROR(CheckNotCapturing("Mark"));
  RETURN_IF_CUDA_ERROR(cudaEventRecord(marks_[next_mark_ % kMarks], stream_));
  return next_mark_++;
}

absl::Status CudaBackend::Wait(int64_t mark) {
  if (mark < 0 || mark >= next_mark_) {
    return absl::InvalidArgumentError("Wait for a mark that was never made");
  }
  RETURN_IF_ERROR(CheckNotCapturing("Wait"));
  // The event of an old mark is that of a later one, which comes after it.
  RETURN_IF_CUDA_ERROR(cudaEventSynchronize(marks_[mark % kMarks]));
  return absl::OkStatus();
}

absl::Status CudaBackend::BeginCapture() {
  RETURN_IF_ERROR(CheckNotCapturing("BeginCapture"));
  RETURN_IF_CUDA_ERROR(
      cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  capturing_ = true;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<StepGraph>> CudaBackend::EndCapture() {
  if (!capturing_) {
    return absl::FailedPreconditionError("EndCapture without BeginCapture");
  }
  capturing_ = false;
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);
  if (ended != cudaSuccess) {
    cudaGetLastError();  // the recording is spoilt, the device is not
    return CudaStatus(ended, "cudaStreamEndCapture");
  }
  cudaGraphExec_t exec = nullptr;
  const cudaError_t made = cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphDestroy(graph);
  if (made != cudaSuccess) return CudaStatus(made, "cudaGraphInstantiate");
  return std::make_unique<CudaGraph>(exec);
}

absl::Status CudaBackend::Replay(const StepGraph& graph) {
  RETURN_IF_ERROR(CheckNotCapturing("Replay"));
  RETURN_IF_CUDA_ERROR(
      cudaGraphLaunch(static_cast<const CudaGraph&>(graph).exec(), stream_));
  return absl::OkStatus();
}

}  // namespace comera::kernels
