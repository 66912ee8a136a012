#ifndef COMERA_WORKER_GANG_FILE_RULES_H_
#define COMERA_WORKER_GANG_FILE_RULES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace comera::worker {

// The files that a process may use; folders stand for all below them. Paths
// that do not exist are passed over, and symbolic links are followed.
struct FileAccess {
  // May be read and executed.
  std::vector<std::string> read;
  // May be read, written, made, removed and renamed.
  std::vector<std::string> write;
  // The same for folders that others use too, whose files it must know by name:
  // it cannot list them.
  std::vector<std::string> write_unlisted;
};

// What every member needs of the machine: libraries and programs, the names of
// hosts and users, what the kernel tells, and the devices that compute.
FileAccess SystemFiles();

// The version of Landlock that the kernel has; 0: none that serves. From Linux
// 5.19 on, where it is switched on: before that no file could be renamed into
// another folder.
int LandlockVersion();

// A list of files that the kernel lets a process use, and no others, whoever
// its user is (Landlock). Holds for what it opens by name from then on;
// descriptors that it has stay open. It cannot look into processes without the
// list, nor, from Linux 6.12 on, send signals to them. Move-only.
class FileRules {
 public:
  // FailedPrecondition: the kernel has no Landlock. Unavailable: it refuses.
  static absl::StatusOr<FileRules> Create(const FileAccess& access);
  ~FileRules();
  FileRules(FileRules&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  FileRules& operator=(FileRules&&) = delete;

  // The descriptor that Apply() takes.
  int fd() const { return fd_; }
  // Puts the calling process under the rules, for good; it must have given up
  // gaining rights (no_new_privs). May be called between fork and exec. Returns
  // false, with errno, if the kernel refuses.
  static bool Apply(int fd);

 private:
  explicit FileRules(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_FILE_RULES_H_
