// Looks up the user that members run as, and gives folders to that user.

#include "worker/gang/member_user.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace comera::worker {
namespace {

constexpr int kMaxGroups = 1024;

}  // namespace

absl::StatusOr<MemberUser> FindMemberUser(const std::string& name) {
  struct passwd entry = {};
  struct passwd* found = nullptr;
  std::vector<char> buffer(65536);
  const int error =
      getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (found == nullptr) {
    return absl::NotFoundError(absl::StrCat("no user ", name,
                                            error != 0 ? ": " : "",
                                            error != 0 ? strerror(error) : ""));
  }
  if (entry.pw_uid == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is root: members are to have fewer rights"));
  }
  if (geteuid() != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("only root can run members as ", name));
  }
  MemberUser user;
  user.uid = entry.pw_uid;
  user.gid = entry.pw_gid;
  int count = kMaxGroups;
  user.groups.resize(count);
  if (getgrouplist(name.c_str(), entry.pw_gid, user.groups.data(), &count) <
      0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is in more than ", kMaxGroups, " groups"));
  }
  user.groups.resize(count);
  return user;
}

absl::Status OpenToMembers(const MemberUser& user, const std::string& folder) {
  // What this process makes then belongs to that group. A bit in the mode of
  // the folder would do the same, but units forbid such bits.
  if (setegid(user.gid) != 0) {
    return absl::UnavailableError(
        absl::StrCat("setegid ", user.gid, ": ", strerror(errno)));
  }
  umask(027);
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool opened =
      fd >= 0 && fchown(fd, -1, user.gid) == 0 && fchmod(fd, 0750) == 0;
  const int error = errno;
  if (fd >= 0) close(fd);
  if (opened) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("open ", folder, " to members: ", strerror(error)));
}

absl::Status GiveOwnership(const MemberUser& user, const std::string& folder) {
  const int fd =
      open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  const bool given = fd >= 0 && fchown(fd, user.uid, user.gid) == 0;
  const int error = errno;
  if (fd >= 0) close(fd);
  if (given) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("chown ", folder, ": ", strerror(error)));
}

absl::Status GiveOwnership(const MemberUser& user, const OpenFolder& folder) {
  if (fchown(folder.fd(), user.uid, user.gid) == 0) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("chown ", folder.path().ToString(), ": ", strerror(errno)));
}

}  // namespace comera::worker
