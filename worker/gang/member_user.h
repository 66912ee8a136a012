#ifndef COMERA_WORKER_GANG_MEMBER_USER_H_
#define COMERA_WORKER_GANG_MEMBER_USER_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera::worker {

// Whom rank processes run as, in place of the daemon's own user.
struct MemberUser {
  uid_t uid = 0;
  gid_t gid = 0;
  // All groups of the user, `gid` included.
  std::vector<gid_t> groups;
};

// NotFound: no such user. FailedPrecondition: only root can change to others.
// InvalidArgument: it is root.
absl::StatusOr<MemberUser> FindMemberUser(const std::string& name);

// Makes the folder itself the user's, not what is in it: that could be swapped
// for something else by whoever has the folder already. A symbolic link is not
// followed.
absl::Status GiveTo(const MemberUser& user, const std::string& folder);

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_MEMBER_USER_H_
