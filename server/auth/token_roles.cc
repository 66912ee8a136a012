// Says what the roles of a token, and the worker that it names, allow.
#include "server/auth/token_roles.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/resource_names.h"

namespace comera::server {
namespace {

// How much of a node's name deploy/slurm/comera_workers.sh keeps.
constexpr size_t kMaxNodeName = 50;

v1::Role Needed(Permission permission) {
  switch (permission) {
    case Permission::kView:
      return v1::ROLE_VIEWER;
    case Permission::kUse:
      return v1::ROLE_USER;
    case Permission::kAdminister:
    case Permission::kWork:
      break;
  }
  return v1::ROLE_ADMIN;
}

const char* Verb(Permission permission) {
  switch (permission) {
    case Permission::kView:
      return "read";
    case Permission::kUse:
      return "use";
    case Permission::kAdminister:
      return "administer";
    case Permission::kWork:
      break;
  }
  return "work for";
}

}  // namespace

absl::Status CheckToken(const v1::Token& token, Permission permission,
                        const std::string& queue) {
  if (token.worker() || permission == Permission::kWork) {
    if (token.worker() && permission == Permission::kWork) {
      return absl::OkStatus();
    }
    return absl::PermissionDeniedError(
        token.worker() ? "a worker's token lets a worker join, nothing else"
                       : "only a worker's token lets a worker join: make one "
                         "with `comera token create --worker`");
  }
  int role = token.role();
  if (queue.empty()) {
    // Belongs to no queue.
    if (permission != Permission::kAdminister) {
      for (const auto& [name, one] : token.queue_roles()) {
        role = std::max<int>(role, one);
      }
    }
  } else {
    const auto one = token.queue_roles().find(queue);
    if (one != token.queue_roles().end()) {
      role = std::max<int>(role, one->second);
    }
  }
  if (role >= Needed(permission)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(token.user(), " may not ", Verb(permission), " ",
                   queue.empty() ? "the server" : absl::StrCat("queue ", queue),
                   permission == Permission::kAdminister
                       ? ", which others' jobs and settings need"
                       : ""));
}

bool IsWorkerPattern(absl::string_view pattern) {
  if (!absl::ConsumeSuffix(&pattern, "*")) {
    return IsResourceId(std::string(pattern));
  }
  // A beginning such as "gpu-" is no name of its own, but "gpu-x" is.
  return pattern.size() < 63 &&
         (pattern.empty() || IsResourceId(absl::StrCat(pattern, "x")));
}

bool IsTokenOfWorker(const v1::Token& token, absl::string_view worker) {
  absl::string_view name = token.worker_name();
  if (name.empty()) return false;
  if (absl::ConsumeSuffix(&name, "*")) return absl::StartsWith(worker, name);
  return worker == name;
}

bool IsCertificateOfWorker(absl::string_view common_name,
                           absl::string_view worker) {
  std::string name = absl::AsciiStrToLower(common_name);
  for (char& c : name) {
    if (c == '_' || c == '.') c = '-';
  }
  if (!IsResourceId(std::string(worker))) return false;
  if (worker == name) return true;
  name.resize(std::min(name.size(), kMaxNodeName));
  return !name.empty() && absl::ConsumePrefix(&worker, name) &&
         absl::ConsumePrefix(&worker, "-") && !worker.empty() &&
         std::all_of(worker.begin(), worker.end(), absl::ascii_isdigit);
}

}  // namespace comera::server
