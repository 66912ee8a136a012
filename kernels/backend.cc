// What a backend on the host itself need not care about.
#include "kernels/backend.h"

#include "common/status_macros.h"

namespace comera::kernels {
namespace {

absl::Status NoGraphs() {
  return absl::UnimplementedError("this backend records no graphs");
}

absl::Status NoBf16() {
  return absl::UnimplementedError("this backend keeps no bfloat16 in memory");
}

}  // namespace

#define BF16_OPERATION(name, parameters, arguments) \
  absl::Status Backend::name parameters { return NoBf16(); }
#include "kernels/backend_operations.def"

absl::Status Backend::GemmBias(bool transpose_b, ConstMatrix a, ConstMatrix b,
                               ConstVector bias, Matrix c) {
  RETURN_IF_ERROR(Gemm(false, transpose_b, 1, a, b, 0, c));
  return AddBias(bias, c);
}

absl::StatusOr<void*> Backend::AllocateHost(int64_t bytes) {
  return Allocate(bytes);
}

void Backend::FreeHost(void* memory) { Free(memory); }

absl::Status Backend::CopyToHostLater(void* to, const void* from,
                                      int64_t bytes) {
  return CopyToHost(to, from, bytes);
}

absl::StatusOr<int64_t> Backend::Mark() { return 0; }

absl::Status Backend::Wait(int64_t) { return absl::OkStatus(); }

absl::Status Backend::BeginCapture() { return NoGraphs(); }

absl::StatusOr<std::unique_ptr<StepGraph>> Backend::EndCapture() {
  return NoGraphs();
}

absl::Status Backend::Replay(const StepGraph&) { return NoGraphs(); }

}  // namespace comera::kernels
