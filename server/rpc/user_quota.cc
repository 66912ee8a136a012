// Words the errors of users who are at a limit.
#include "server/rpc/user_quota.h"

#include "absl/strings/str_cat.h"

namespace comera::server {

absl::Status OverQuota(const std::string& user, int64_t used,
                       const std::string& what, int64_t limit,
                       const std::string& flag, const std::string& advice) {
  return absl::ResourceExhaustedError(
      absl::StrCat(user, " has ", used, " ", what, "; the limit for a user is ",
                   limit, " (--", flag, " of the server): ", advice));
}

}  // namespace comera::server
