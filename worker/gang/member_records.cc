// Writes one file per member, and finds the processes of an earlier daemon's.

#include "worker/gang/member_records.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "common/steady_time.h"

namespace comera::worker {
namespace {

constexpr char kSuffix[] = ".member";
// The file of the incarnation, a record without a member.
constexpr char kIncarnation[] = "/incarnation";

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
  // An upgrade replaces the file, and the name gets a suffix.
  return absl::StrCat(fields[19], " ",
                      absl::StripSuffix(program.string(), " (deleted)"));
}

// The random id of this boot of the machine; empty if the system has none.
std::string Boot() {
  const auto boot = ReadFile("/proc/sys/kernel/random/boot_id");
  return boot.ok() ? std::string(absl::StripAsciiWhitespace(*boot)) : "";
}

std::string FileOf(int64_t id) { return absl::StrCat(id, kSuffix); }

std::string PathOf(const std::string& folder, int64_t id) {
  return absl::StrCat(folder, "/", FileOf(id));
}

}  // namespace

absl::Status MemberRecords::Write(const MemberRecord& record) const {
  RETURN_IF_ERROR(MakeDirectories(folder_));
  return WriteFileAtomically(PathOf(folder_, record.id()),
                             record.SerializeAsString(), 0600);
}

void MemberRecords::Remove(int64_t id) const {
  unlink(PathOf(folder_, id).c_str());
}

std::vector<MemberRecord> MemberRecords::Load() const {
  std::vector<MemberRecord> records;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder_, error), end;
       !error && it != end; it.increment(error)) {
    MemberRecord record;
    if (it->path().extension() != kSuffix) continue;
    const absl::StatusOr<std::string> contents = ReadFile(it->path().string());
    if (contents.ok() && record.ParseFromString(*contents) &&
        it->path().filename() == FileOf(record.id())) {
      records.push_back(std::move(record));
    }
  }
  std::sort(records.begin(), records.end(),
            [](const MemberRecord& a, const MemberRecord& b) {
              return a.id() < b.id();
            });
  return records;
}

bool MemberRecords::CanBeAdopted(const MemberRecord& record) {
  return record.survives() && record.boot() == Boot();
}

std::string MemberRecords::KeptIncarnation() const {
  for (const MemberRecord& record : Load()) {
    if (CanBeAdopted(record)) return record.incarnation();
  }
  MemberRecord kept;
  const absl::StatusOr<std::string> contents = ReadFile(folder_ + kIncarnation);
  const bool valid =
      contents.ok() && kept.ParseFromString(*contents) && kept.boot() == Boot();
  return valid ? kept.incarnation() : "";
}

absl::Status MemberRecords::KeepIncarnation(
    const std::string& incarnation) const {
  MemberRecord kept;
  kept.set_incarnation(incarnation);
  kept.set_boot(Boot());
  RETURN_IF_ERROR(MakeDirectories(folder_));
  const absl::Status written = WriteFileAtomically(
      folder_ + kIncarnation, kept.SerializeAsString(), 0600);
  if (!written.ok()) ForgetIncarnation();
  return written;
}

void MemberRecords::ForgetIncarnation() const {
  unlink((folder_ + kIncarnation).c_str());
}

void MemberRecords::Identify(pid_t pid, MemberRecord* record) {
  record->set_pid(pid);
  record->set_identity(Identity(pid).value_or(""));
  record->set_boot(Boot());
}

absl::StatusOr<int> MemberRecords::Open(const MemberRecord& record) {
  if (record.pid() <= 1) return -1;
  // Opened first, so that the process that is checked is the one that is meant
  // from then on, whoever gets its number later.
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, record.pid(), 0));
  if (pidfd < 0) {
    // EINVAL: the number now belongs to a thread.
    if (errno == ESRCH || errno == EINVAL) return -1;
    return absl::UnavailableError(
        absl::StrCat("pidfd_open ", record.pid(), ": ", strerror(errno)));
  }
  if (Identity(record.pid()) == record.identity()) return pidfd;
  close(pidfd);
  return -1;
}

absl::Status MemberRecords::Kill(const MemberRecord& record,
                                 absl::Duration timeout) {
  ASSIGN_OR_RETURN(const int pidfd, Open(record));
  if (pidfd < 0) return absl::OkStatus();
  const auto closer = absl::MakeCleanup([pidfd] { close(pidfd); });
  kill(-record.pid(), SIGKILL);
  syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0);
  const absl::Time deadline = SteadyNow() + timeout;
  pollfd ended = {pidfd, POLLIN, 0};
  int ready;
  do {
    ready = poll(&ended, 1,
                 static_cast<int>(std::max<int64_t>(
                     0, absl::ToInt64Milliseconds(deadline - SteadyNow()))));
  } while (ready < 0 && errno == EINTR);
  if (ready > 0) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(
      "process ", record.pid(), " of an earlier worker does not end"));
}

}  // namespace comera::worker
