// Chooses NCCL's settings for a member.
#include "worker/session/nccl_environment.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace comera::worker {
namespace {

bool Sets(const char* const* environment, const std::string& name) {
  for (; *environment != nullptr; ++environment) {
    if (absl::StartsWith(*environment, name + "=")) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> NcclEnvironment(const v1::TrainingSpec& training,
                                         const char* const* own) {
  std::vector<std::string> names = {"NCCL_GRAPH_REGISTER"};
  if (!training.nondeterministic_sums()) names.push_back("NCCL_NVLS_ENABLE");
  std::vector<std::string> settings;
  for (const std::string& name : names) {
    if (!Sets(own, name)) settings.push_back(absl::StrCat(name, "=0"));
  }
  return settings;
}

}  // namespace comera::worker
