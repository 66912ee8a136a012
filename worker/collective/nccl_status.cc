// Translates NCCL's results to Status.
#include "worker/collective/nccl_status.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace comera::collective {
namespace {

const char* Name(NcclResult result) {
  switch (result) {
    case NcclResult::kSuccess:
      return "ncclSuccess";
    case NcclResult::kUnhandledCudaError:
      return "ncclUnhandledCudaError";
    case NcclResult::kSystemError:
      return "ncclSystemError";
    case NcclResult::kInternalError:
      return "ncclInternalError";
    case NcclResult::kInvalidArgument:
      return "ncclInvalidArgument";
    case NcclResult::kInvalidUsage:
      return "ncclInvalidUsage";
    case NcclResult::kRemoteError:
      return "ncclRemoteError";
    case NcclResult::kInProgress:
      return "ncclInProgress";
  }
  return "unknown to this version of NCCL";
}

absl::StatusCode CodeOf(NcclResult result) {
  switch (result) {
    case NcclResult::kSuccess:
      return absl::StatusCode::kOk;
    case NcclResult::kSystemError:
    case NcclResult::kRemoteError:
      return absl::StatusCode::kUnavailable;
    case NcclResult::kInvalidArgument:
    case NcclResult::kInvalidUsage:
      return absl::StatusCode::kInvalidArgument;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status NcclStatus(NcclResult result, absl::string_view call,
                        absl::string_view detail) {
  if (result == NcclResult::kSuccess) return absl::OkStatus();
  return absl::Status(
      CodeOf(result),
      absl::StrCat(call, ": ", Name(result), " (", static_cast<int>(result),
                   ")", detail.empty() ? "" : ": ", detail));
}

}  // namespace comera::collective
