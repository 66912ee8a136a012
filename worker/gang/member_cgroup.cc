// Makes control groups through the cgroup v2 file system and kills what is in
// them.

#include "worker/gang/member_cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/log.h"
#include "common/status_macros.h"

namespace comera::worker {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(2);

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Returns 0, or errno.
int Write(const std::string& path, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  const int error =
      write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size())
          ? 0
          : errno;
  close(fd);
  return error;
}

absl::Status Cannot(const std::string& what, int error) {
  return absl::FailedPreconditionError(
      absl::StrCat(what, ": ", strerror(error)));
}

// The folder where cgroup v2 is mounted; empty if it is not.
std::string MountPoint() {
  std::ifstream mounts("/proc/self/mountinfo");
  std::string line;
  while (std::getline(mounts, line)) {
    // A line reads "... root mount-point options ... - type source options".
    const std::vector<std::string> halves = absl::StrSplit(line, " - ");
    if (halves.size() != 2 || halves[1].rfind("cgroup2 ", 0) != 0) continue;
    const std::vector<std::string> fields = absl::StrSplit(halves[0], ' ');
    if (fields.size() > 4) return fields[4];
  }
  return "";
}

// The group of this process, relative to the mount point.
std::string OwnGroup() {
  std::ifstream groups("/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    if (line.rfind("0::", 0) == 0) return line.substr(3);
  }
  return "/";
}

// Enables controllers for the groups below; returns those that could be
// enabled.
std::string Enable(const std::string& folder) {
  const std::string there =
      absl::StrCat(" ", Read(folder + "/cgroup.controllers"));
  std::string enabled;
  for (const char* one : {"memory", "pids", "cpu"}) {
    bool found = false;
    for (absl::string_view word :
         absl::StrSplit(there, absl::ByAnyChar(" \n"))) {
      found = found || word == one;
    }
    if (!found) continue;
    const std::string file = folder + "/cgroup.subtree_control";
    int error = Write(file, absl::StrCat("+", one));
    if (error == EBUSY) {
      // A group that enables controllers for others must hold no process
      // itself.
      const std::string own =
          absl::StrCat(folder, "/", MemberCgroups::kDaemonGroup);
      mkdir(own.c_str(), 0755);
      if (Write(own + "/cgroup.procs", "0") == 0) {
        error = Write(file, absl::StrCat("+", one));
      }
    }
    if (error == 0) absl::StrAppend(&enabled, enabled.empty() ? "" : " ", one);
  }
  return enabled;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MemberCgroups>> MemberCgroups::Create(
    const std::string& parent, bool members_survive) {
  std::string folder = parent;
  if (folder.empty()) {
    const std::string mount = MountPoint();
    if (mount.empty()) {
      return absl::FailedPreconditionError("cgroup v2 is not mounted");
    }
    folder = mount + OwnGroup();
    while (folder.back() == '/') folder.pop_back();
  }
  const std::string own_group = absl::StrCat("/", kDaemonGroup);
  const bool has_own = absl::EndsWith(folder, own_group);
  if (has_own) folder.resize(folder.size() - own_group.size());
  const std::string ranks = folder + "/comera-ranks";
  if (mkdir(ranks.c_str(), 0755) != 0 && errno != EEXIST) {
    return Cannot("mkdir " + ranks, errno);
  }
  if (access((ranks + "/cgroup.kill").c_str(), W_OK) != 0) {
    const int error = errno;
    rmdir(ranks.c_str());
    return Cannot("write " + ranks + "/cgroup.kill", error);
  }
  if (!members_survive || has_own) Enable(folder);
  return std::unique_ptr<MemberCgroups>(
      new MemberCgroups(ranks, Enable(ranks)));
}

// Fails, as it should, while another daemon still uses the folder.
MemberCgroups::~MemberCgroups() { rmdir(folder_.c_str()); }

absl::StatusOr<std::shared_ptr<MemberCgroup>> MemberCgroups::Make(
    const std::string& name, const Limits& limits) const {
  const std::string path = absl::StrCat(folder_, "/", name);
  // An empty group of that name was left by an earlier daemon.
  if (mkdir(path.c_str(), 0755) != 0 &&
      (errno != EEXIST || rmdir(path.c_str()) != 0 ||
       mkdir(path.c_str(), 0755) != 0)) {
    return absl::UnavailableError(
        absl::StrCat("mkdir ", path, ": ", strerror(errno)));
  }
  const auto limit = [&](const char* file, const std::string& value) {
    const std::string whole = absl::StrCat(path, "/", file);
    if (access(whole.c_str(), F_OK) != 0) return;
    const int error = Write(whole, value);
    LOG_IF(WARNING, error != 0)
        << "cgroup limit not set file=" << whole << " " << strerror(error);
  };
  if (limits.memory_bytes > 0) {
    limit("memory.max", absl::StrCat(limits.memory_bytes));
    // Without this, a member over its limit would swap, and its gang would wait
    // for it.
    limit("memory.swap.max", "0");
  }
  if (limits.processes > 0) limit("pids.max", absl::StrCat(limits.processes));
  if (limits.cores > 0) {
    limit("cpu.max", absl::StrCat(int64_t{100000} * limits.cores, " 100000"));
  }
  const int procs =
      open((path + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC);
  if (procs < 0) {
    const int error = errno;
    rmdir(path.c_str());
    return absl::UnavailableError(
        absl::StrCat("open ", path, "/cgroup.procs: ", strerror(error)));
  }
  return std::shared_ptr<MemberCgroup>(new MemberCgroup(path, procs));
}

absl::StatusOr<std::shared_ptr<MemberCgroup>> MemberCgroups::Adopt(
    const std::string& path) {
  const int procs =
      open((path + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC);
  if (procs < 0) {
    return absl::NotFoundError(
        absl::StrCat("open ", path, "/cgroup.procs: ", strerror(errno)));
  }
  return std::shared_ptr<MemberCgroup>(new MemberCgroup(path, procs));
}

bool MemberCgroup::Empty() const {
  return Read(path_ + "/cgroup.events").find("populated 0") !=
         std::string::npos;
}

bool MemberCgroup::KillAll(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  Write(path_ + "/cgroup.kill", "1");
  while (!Empty()) {
    if (absl::Now() >= deadline) return false;
    absl::SleepFor(kLook);
  }
  return true;
}

MemberCgroup::~MemberCgroup() {
  close(procs_);
  if (keep_) return;
  LOG_IF(ERROR, rmdir(path_.c_str()) != 0)
      << "cgroup not removed path=" << path_ << " " << strerror(errno);
}

}  // namespace comera::worker
