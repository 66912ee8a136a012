// Writes one file per running member, and kills those of a crashed predecessor.

#include "worker/gang/member_records.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/files.h"
#include "common/status_macros.h"

namespace comera::worker {
namespace {

constexpr char kSuffix[] = ".pid";

// The process's "<start time> <program>"; nothing if it does not exist or is a
// zombie.
std::optional<std::string> Identity(pid_t pid) {
  const absl::StatusOr<std::string> stat =
      ReadFile(absl::StrCat("/proc/", pid, "/stat"));
  if (!stat.ok()) return std::nullopt;
  // The name, in parentheses, may contain any character.
  const size_t name_end = stat->rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  const std::vector<std::string> fields =
      absl::StrSplit(stat->substr(name_end + 1), ' ', absl::SkipEmpty());
  // In proc(5), the state is field 3 and the start time field 22.
  if (fields.size() < 20 || fields[0] == "Z") return std::nullopt;
  std::error_code error;
  const auto program =
      std::filesystem::read_symlink(absl::StrCat("/proc/", pid, "/exe"), error);
  if (error) return std::nullopt;
  return absl::StrCat(fields[19], " ", program.string());
}

// Kills process `pid` and its group if its identity is `identity`.
absl::Status KillAndWait(pid_t pid, const std::string& identity,
                         absl::Time deadline) {
  // Opened first, so that the process that is checked is the one that is
  // killed, whoever gets its number later.
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) {
    // EINVAL: the number now belongs to a thread.
    if (errno == ESRCH || errno == EINVAL) return absl::OkStatus();
    return absl::UnavailableError(
        absl::StrCat("pidfd_open ", pid, ": ", strerror(errno)));
  }
  if (Identity(pid) != identity) {
    close(pidfd);
    return absl::OkStatus();
  }
  kill(-pid, SIGKILL);
  syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0);
  pollfd ended = {pidfd, POLLIN, 0};
  int ready;
  do {
    ready = poll(&ended, 1,
                 static_cast<int>(std::max<int64_t>(
                     0, absl::ToInt64Milliseconds(deadline - absl::Now()))));
  } while (ready < 0 && errno == EINTR);
  close(pidfd);
  if (ready > 0) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("process ", pid, " of an earlier worker does not end"));
}

}  // namespace

absl::Status MemberRecords::Add(pid_t pid) const {
  RETURN_IF_ERROR(MakeDirectories(folder_));
  const std::optional<std::string> identity = Identity(pid);
  if (!identity) return absl::OkStatus();  // it has ended already
  return WriteFileAtomically(absl::StrCat(folder_, "/", pid, kSuffix),
                             *identity);
}

void MemberRecords::Remove(pid_t pid) const {
  unlink(absl::StrCat(folder_, "/", pid, kSuffix).c_str());
}

absl::Status MemberRecords::KillLeftovers(absl::Duration timeout) const {
  RETURN_IF_ERROR(MakeDirectories(folder_));
  const absl::Time deadline = absl::Now() + timeout;
  std::error_code error;
  std::vector<std::filesystem::path> records;
  for (std::filesystem::directory_iterator it(folder_, error), end;
       !error && it != end; it.increment(error)) {
    records.push_back(it->path());
  }
  for (const auto& record : records) {
    int pid = 0;
    if (record.extension() == kSuffix &&
        absl::SimpleAtoi(record.stem().string(), &pid) && pid > 1) {
      const absl::StatusOr<std::string> identity = ReadFile(record.string());
      if (identity.ok()) {
        RETURN_IF_ERROR(KillAndWait(pid, *identity, deadline));
      }
    }
    unlink(record.c_str());
  }
  return absl::OkStatus();
}

}  // namespace comera::worker
