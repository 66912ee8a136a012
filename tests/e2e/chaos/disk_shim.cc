// A library for LD_PRELOAD that makes a disk slow, or lets it fail.
//
// The environment variable COMERA_DISK_FAULTS names a file of one line: a
// folder, a tab, how many milliseconds each write and sync of a file below the
// folder takes longer, a tab, and how many of a hundred of them fail with EIO.
// An empty or absent file leaves all disks as they are. The file is looked at
// again after a tenth of a second, so that a process can be disturbed for a
// while. Writes by which the C library itself empties a FILE are not seen.
//
// A child between fork and exec calls these functions, too, so they take no
// locks and no memory.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace {

constexpr int64_t kLookInterval = 100'000'000;

// What the control file says.
struct Faults {
  char folder[PATH_MAX];
  int delay_ms;
  int percent;
};

// What was read last; null: nothing is disturbed. A reader has the time of many
// looks before its entry is written again.
constexpr unsigned kEntries = 64;
Faults entries[kEntries];
std::atomic<const Faults*> faults{nullptr};
std::atomic<unsigned> looks{0};
std::atomic<int64_t> next_look{0};
std::atomic<unsigned> calls{0};

// System calls, because the library's functions may be libfaketime's.
int64_t Now() {
  timespec now = {};
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

void Sleep(int milliseconds) {
  timespec left = {milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
  while (syscall(SYS_nanosleep, &left, &left) != 0 && errno == EINTR) {
  }
}

void Inspect() {
  const int64_t now = Now();
  int64_t due = next_look.load();
  if (now < due ||
      !next_look.compare_exchange_strong(due, now + kLookInterval)) {
    return;
  }
  const char* path = getenv("COMERA_DISK_FAULTS");
  if (path == nullptr) return;
  char text[PATH_MAX + 64] = "";
  const int file = static_cast<int>(
      syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0));
  if (file >= 0) {
    const ssize_t n = syscall(SYS_read, file, text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    syscall(SYS_close, file);
  }
  char* tab = strchr(text, '\t');
  char* second = tab == nullptr ? nullptr : strchr(tab + 1, '\t');
  if (second == nullptr || tab == text ||
      tab - text >= static_cast<ptrdiff_t>(sizeof(Faults::folder))) {
    faults.store(nullptr);
    return;
  }
  *tab = '\0';
  Faults& entry = entries[looks.fetch_add(1) % kEntries];
  memcpy(entry.folder, text, tab - text + 1);
  entry.delay_ms = atoi(tab + 1);
  entry.percent = atoi(second + 1);
  faults.store(&entry);
}

// Waits as long as the disk takes longer; returns whether the call on the file
// fails, and sets errno then.
bool Fails(int fd) {
  const int error = errno;
  Inspect();
  errno = error;
  const Faults* now = faults.load();
  if (now == nullptr) return false;
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, path, sizeof(path) - 1);
  errno = error;
  const size_t length = strlen(now->folder);
  if (n <= 0 || static_cast<size_t>(n) <= length || path[length] != '/' ||
      strncmp(path, now->folder, length) != 0) {
    return false;
  }
  if (now->delay_ms > 0) Sleep(now->delay_ms);
  errno = error;
  // 37 and 100 have no common factor, so that the share is met.
  if (static_cast<int>(calls.fetch_add(1) * 37 % 100) >= now->percent) {
    return false;
  }
  errno = EIO;
  return true;
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* data, size_t size) {
  return Fails(fd) ? -1 : syscall(SYS_write, fd, data, size);
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  return Fails(fd) ? -1 : syscall(SYS_pwrite64, fd, data, size, offset);
}

ssize_t pwrite64(int fd, const void* data, size_t size, off64_t offset) {
  return Fails(fd) ? -1 : syscall(SYS_pwrite64, fd, data, size, offset);
}

ssize_t writev(int fd, const iovec* parts, int count) {
  return Fails(fd) ? -1 : syscall(SYS_writev, fd, parts, count);
}

int fsync(int fd) {
  return Fails(fd) ? -1 : static_cast<int>(syscall(SYS_fsync, fd));
}

int fdatasync(int fd) {
  return Fails(fd) ? -1 : static_cast<int>(syscall(SYS_fdatasync, fd));
}

}  // extern "C"
