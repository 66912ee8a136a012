// Checks of the fields that requests of several services share.
#include "server/rpc/request_checks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/resource_names.h"
#include "server/rpc/rpc_errors.h"

namespace comera::server {
namespace {

constexpr size_t kMaxRequestIdBytes = 64;
constexpr size_t kMaxReasonBytes = 1024;
constexpr size_t kMaxSpecBytes = 64 << 10;
constexpr size_t kMaxSweepBytes = 1 << 20;

}  // namespace

absl::Status CheckRequestId(const std::string& request_id) {
  const bool printable =
      std::all_of(request_id.begin(), request_id.end(),
                  [](char c) { return c > ' ' && c <= '~'; });
  if (printable && request_id.size() <= kMaxRequestIdBytes) {
    return absl::OkStatus();
  }
  return InvalidField("request_id", "at most 64 printable ASCII characters");
}

absl::Status CheckReason(const std::string& reason) {
  if (reason.size() <= kMaxReasonBytes) return absl::OkStatus();
  return InvalidField("reason", "at most 1024 bytes");
}

absl::Status CheckSpecSize(const std::string& field, size_t bytes) {
  if (bytes <= kMaxSpecBytes) return absl::OkStatus();
  return InvalidField(
      field, absl::StrCat("has ", bytes, " bytes, of at most ", kMaxSpecBytes,
                          ": name many files by a pattern or a dataset"));
}

absl::Status CheckSweepSize(const std::string& field, size_t bytes) {
  if (bytes <= kMaxSweepBytes) return absl::OkStatus();
  return InvalidField(
      field, absl::StrCat("has ", bytes, " bytes, of at most ", kMaxSweepBytes,
                          ": make several sweeps"));
}

absl::Status CheckJobName(const std::string& name) {
  if (ParseJobName(name)) return absl::OkStatus();
  return InvalidField("name", "must be jobs/{job}");
}

}  // namespace comera::server
