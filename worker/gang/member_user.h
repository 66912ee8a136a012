#ifndef COMERA_WORKER_GANG_MEMBER_USER_H_
#define COMERA_WORKER_GANG_MEMBER_USER_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera::worker {

// The user that members run as in place of the daemon's own.
struct MemberUser {
  uid_t uid = 0;
  gid_t gid = 0;
  // All groups of the user, including `gid`.
  std::vector<gid_t> groups;
};

// NotFound: there is no such user. FailedPrecondition: only root can run
// programs as another user. InvalidArgument: the user is root.
absl::StatusOr<MemberUser> FindMemberUser(const std::string& name);

// Makes the user the owner of the folder itself but not of its contents,
// because whoever owns the folder already could swap those. A symbolic link is
// not followed.
absl::Status GiveOwnership(const MemberUser& user, const std::string& folder);

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_MEMBER_USER_H_
