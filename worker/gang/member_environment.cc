// Filters the daemon's environment variables for members by an allow list.

#include "worker/gang/member_environment.h"

#include <algorithm>

namespace comera::worker {
namespace {

constexpr std::string_view kNames[] = {
    "HOME", "LANG",   "LANGUAGE",        "LOGNAME",    "PATH", "SHELL",
    "TERM", "TMPDIR", "LD_LIBRARY_PATH", "LD_PRELOAD", "TZ",   "USER",
};
constexpr std::string_view kPrefixes[] = {
    "LC_",
    "CUDA_",
    "NVIDIA_",
    "NCCL_",
    "CUBLAS",
    "OMP_",
    "GOMP_",
    "KMP_",
    "DNNL_",
    "ONEDNN_",
    "MALLOC_",
    "GLIBC_",
    "GLOO_",
    "ASAN_",
    "LSAN_",
    "UBSAN_",
    "TSAN_",
    "MSAN_",
    // The variable of libfaketime.
    "FAKETIME",
};

bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

}  // namespace

bool MembersMayHave(std::string_view name) {
  return std::find(std::begin(kNames), std::end(kNames), name) !=
             std::end(kNames) ||
         std::any_of(
             std::begin(kPrefixes), std::end(kPrefixes),
             [&](std::string_view prefix) { return StartsWith(name, prefix); });
}

std::vector<std::string> MemberEnvironment(
    const char* const* own, const std::vector<std::string>& added) {
  std::vector<std::string> merged = added;
  for (; *own != nullptr; ++own) {
    const std::string_view entry = *own;
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    if (!MembersMayHave(entry.substr(0, equals))) continue;
    const bool replaced =
        std::any_of(added.begin(), added.end(), [&](const std::string& one) {
          return StartsWith(one, entry.substr(0, equals + 1));
        });
    if (!replaced) merged.emplace_back(entry);
  }
  return merged;
}

}  // namespace comera::worker
