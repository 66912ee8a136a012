#ifndef COMERA_WORKER_FILES_OPEN_BENEATH_H_
#define COMERA_WORKER_FILES_OPEN_BENEATH_H_

#include <sys/types.h>

#include <string>

namespace comera::worker {

// How OpenBeneath asks the kernel; other than the default only in tests.
enum class BeneathCheck {
  // openat2(2), or a walk where the kernel or a filter refuses that call.
  kKernel,
  kWalk,
};

// Opens what `path` names from the open folder `folder` on, with the flags of
// open(2), and neither follows a symbolic link nor leaves the folder. The path
// is relative and has no ".."; "" and "." are the folder itself.
//
// Returns a descriptor that is closed on exec, or -1 with errno: ELOOP if any
// part of the path, the last one too, is a link; EINVAL if the path is absolute
// or has a ".."; others as of open(2). What O_CREAT | O_EXCL finds, a link too,
// is EEXIST.
//
// Linux before 5.6 does not have openat2(2), and filters of containers may not
// know it. There each part is opened from the one before, by its own name and
// without following it, which holds as much: no rename leads such a walk out of
// the folder, because it has no "..".
int OpenBeneath(int folder, const std::string& path, int flags, mode_t mode = 0,
                BeneathCheck check = BeneathCheck::kKernel);

}  // namespace comera::worker

#endif  // COMERA_WORKER_FILES_OPEN_BENEATH_H_
