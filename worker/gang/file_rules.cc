// Makes lists of files for the kernel's Landlock, and puts processes under
// them.
#include "worker/gang/file_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/landlock.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::worker {
namespace {

// Headers of Debian 12 know version 2; this right came with 3.
constexpr uint64_t kTruncate = uint64_t{1} << 14;

constexpr uint64_t kRead = LANDLOCK_ACCESS_FS_EXECUTE |
                           LANDLOCK_ACCESS_FS_READ_FILE |
                           LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t kWrite =
    LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
    LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
    LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
    LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
    LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;
// These came with versions 4 and 6.
struct RulesetAttributes {
  uint64_t handled_access_fs;
  uint64_t handled_access_net;
  uint64_t scoped;
};
constexpr int kScopes = 6;
constexpr uint64_t kSignals = uint64_t{1} << 1;

// The rights that mean something for what is no folder.
constexpr uint64_t kOfFiles = LANDLOCK_ACCESS_FS_EXECUTE |
                              LANDLOCK_ACCESS_FS_READ_FILE |
                              LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate;

// All rights that this version of Landlock can withhold, of those above.
uint64_t Handled(int version) {
  uint64_t rights = kRead | kWrite | LANDLOCK_ACCESS_FS_REFER;
  if (version >= 3) rights |= kTruncate;
  return rights;
}

absl::Status Refused(const std::string& what, int error) {
  return absl::UnavailableError(absl::StrCat(what, ": ", strerror(error)));
}

absl::Status Allow(int rules, const std::string& path, uint64_t rights) {
  const int fd = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) {
    // What is not there, or what even the daemon cannot reach.
    return errno == ENOENT || errno == ENOTDIR || errno == EACCES
               ? absl::OkStatus()
               : Refused("open " + path, errno);
  }
  struct stat info = {};
  absl::Status status;
  if (fstat(fd, &info) != 0) {
    status = Refused("stat " + path, errno);
  } else {
    struct landlock_path_beneath_attr rule = {};
    rule.allowed_access = S_ISDIR(info.st_mode) ? rights : rights & kOfFiles;
    rule.parent_fd = fd;
    if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule,
                0) != 0) {
      status = Refused("landlock_add_rule " + path, errno);
    }
  }
  close(fd);
  return status;
}

}  // namespace

FileAccess SystemFiles() {
  FileAccess access;
  access.read = {"/bin", "/lib", "/lib32", "/lib64", "/opt", "/sbin", "/usr",
                 // Not all of it: keys and tokens of others lie here.
                 "/etc/alternatives", "/etc/group", "/etc/host.conf",
                 "/etc/hostname", "/etc/hosts", "/etc/ld.so.cache",
                 "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload",
                 "/etc/libibverbs.d", "/etc/localtime", "/etc/nccl.conf",
                 "/etc/nsswitch.conf", "/etc/passwd", "/etc/protocols",
                 "/etc/resolv.conf", "/etc/services", "/etc/timezone",
                 // CUDA and oneDNN ask the kernel about devices and caches.
                 // Processes outside of the rules stay closed to it.
                 "/proc", "/sys"};
  access.write = {"/dev/full",       "/dev/null", "/dev/random",
                  "/dev/urandom",    "/dev/zero", "/dev/dri",
                  "/dev/infiniband", "/dev/kfd",  "/dev/tty",
                  "/tmp/nvidia-mps"};
  access.write_unlisted = {"/dev/shm"};
  glob_t found = {};
  if (glob("/dev/nvidia*", 0, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; ++i) {
      access.write.push_back(found.gl_pathv[i]);
    }
  }
  globfree(&found);
  return access;
}

int LandlockVersion() {
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0,
                               LANDLOCK_CREATE_RULESET_VERSION);
  return version < 2 ? 0 : static_cast<int>(version);
}

absl::StatusOr<FileRules> FileRules::Create(const FileAccess& access) {
  const int version = LandlockVersion();
  if (version == 0) {
    return absl::FailedPreconditionError(
        "this kernel has no Landlock, or it is switched off");
  }
  RulesetAttributes attributes = {};
  attributes.handled_access_fs = Handled(version);
  // Older kernels refuse a structure that is longer than theirs.
  size_t size = sizeof(attributes.handled_access_fs);
  if (version >= kScopes) {
    attributes.scoped = kSignals;
    size = sizeof(attributes);
  }
  const long fd = syscall(SYS_landlock_create_ruleset, &attributes, size, 0);
  if (fd < 0) return Refused("landlock_create_ruleset", errno);
  FileRules rules(static_cast<int>(fd));
  for (const std::string& path : access.read) {
    RETURN_IF_ERROR(Allow(rules.fd(), path, kRead));
  }
  for (const std::string& path : access.write) {
    RETURN_IF_ERROR(Allow(rules.fd(), path, Handled(version)));
  }
  for (const std::string& path : access.write_unlisted) {
    RETURN_IF_ERROR(Allow(rules.fd(), path,
                          Handled(version) & ~LANDLOCK_ACCESS_FS_READ_DIR));
  }
  return rules;
}

FileRules::~FileRules() {
  if (fd_ >= 0) close(fd_);
}

bool FileRules::Apply(int fd) {
  return syscall(SYS_landlock_restrict_self, fd, 0) == 0;
}

}  // namespace comera::worker
