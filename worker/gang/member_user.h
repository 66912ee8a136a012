#ifndef COMERA_WORKER_GANG_MEMBER_USER_H_
#define COMERA_WORKER_GANG_MEMBER_USER_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/files/open_folder.h"

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
// The same for a folder that is open, so that it is no other than was meant.
absl::Status GiveOwnership(const MemberUser& user, const OpenFolder& folder);

// Lets the user's group read the folder, and all that this process makes from
// now on, below it and elsewhere; others may still do nothing. Members have to
// pass the folder to reach their own, and read their tasks and data there;
// files of mode 0600 stay closed to them. To be called before there are
// threads. Unavailable: the system refuses.
absl::Status OpenToMembers(const MemberUser& user, const std::string& folder);

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_MEMBER_USER_H_
