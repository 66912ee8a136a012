// The pointers of Gloo's transports to buffers of their callers. Headers of
// Gloo's TCP transport include this file, and Debian's package leaves it out.
// The classes have the layout that libgloo was built with: one shared_ptr, one
// weak_ptr. They are declared here with what gloo_tls.cc uses of them.
#ifndef COMERA_WORKER_COLLECTIVE_GLOO_HEADERS_GLOO_COMMON_MEMORY_H_
#define COMERA_WORKER_COLLECTIVE_GLOO_HEADERS_GLOO_COMMON_MEMORY_H_

#include <memory>

namespace gloo {

template <typename T>
class NonOwningPtr;

// Names a buffer that its owner may destroy.
template <typename T>
class WeakNonOwningPtr final {
 private:
  friend class NonOwningPtr<T>;
  std::weak_ptr<T> pointer_;
};

// Holds up the destruction of a buffer; null if it is gone.
template <typename T>
class NonOwningPtr final {
 public:
  NonOwningPtr() = default;
  explicit NonOwningPtr(const WeakNonOwningPtr<T>& weak)
      : pointer_(weak.pointer_.lock()) {}
  explicit operator bool() const { return pointer_ != nullptr; }

 private:
  std::shared_ptr<T> pointer_;
};

}  // namespace gloo

#endif  // COMERA_WORKER_COLLECTIVE_GLOO_HEADERS_GLOO_COMMON_MEMORY_H_
