#ifndef COMERA_WORKER_FILES_DESCRIPTOR_H_
#define COMERA_WORKER_FILES_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace comera::worker {

// A descriptor that is closed at its end; -1 stands for none. Move-only.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { Close(); }

  int get() const { return fd_; }
  // Gives it to the caller, who closes it.
  int Release() { return std::exchange(fd_, -1); }
  void Close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_FILES_DESCRIPTOR_H_
