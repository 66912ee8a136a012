// Gives the standard library's mutexes and locks the attributes that Clang's
// thread safety analysis goes by, which libstdc++ does not have. The check
// includes this file before everything else (check.sh); no program is built
// with it.
#ifndef COMERA_TESTS_THREAD_SAFETY_ANNOTATED_MUTEX_H_
#define COMERA_TESTS_THREAD_SAFETY_ANNOTATED_MUTEX_H_

#include <condition_variable>
#include <mutex>
#include <shared_mutex>

#include "absl/base/thread_annotations.h"

namespace std {

class ABSL_LOCKABLE annotated_mutex : public mutex {
 public:
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION();
  void unlock() ABSL_UNLOCK_FUNCTION();
  bool try_lock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true);
};

class ABSL_LOCKABLE annotated_shared_mutex : public shared_mutex {
 public:
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION();
  void unlock() ABSL_UNLOCK_FUNCTION();
  void lock_shared() ABSL_SHARED_LOCK_FUNCTION();
  void unlock_shared() ABSL_UNLOCK_FUNCTION();
};

template <typename M>
class ABSL_SCOPED_LOCKABLE annotated_lock_guard {
 public:
  explicit annotated_lock_guard(M& m) ABSL_EXCLUSIVE_LOCK_FUNCTION(m);
  ~annotated_lock_guard() ABSL_UNLOCK_FUNCTION();
};

// Locks of other mutexes stay without attributes.
template <typename M>
class annotated_unique_lock : public unique_lock<M> {
 public:
  using unique_lock<M>::unique_lock;
};

template <>
class ABSL_SCOPED_LOCKABLE annotated_unique_lock<annotated_mutex>
    : public unique_lock<mutex> {
 public:
  explicit annotated_unique_lock(annotated_mutex& m)
      ABSL_EXCLUSIVE_LOCK_FUNCTION(m);
  annotated_unique_lock(annotated_mutex& m, adopt_lock_t)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(m);
  ~annotated_unique_lock() ABSL_UNLOCK_FUNCTION();
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION();
  void unlock() ABSL_UNLOCK_FUNCTION();
};

template <>
class ABSL_SCOPED_LOCKABLE annotated_unique_lock<annotated_shared_mutex> {
 public:
  explicit annotated_unique_lock(annotated_shared_mutex& m)
      ABSL_EXCLUSIVE_LOCK_FUNCTION(m);
  ~annotated_unique_lock() ABSL_UNLOCK_FUNCTION();
};

template <typename M>
class ABSL_SCOPED_LOCKABLE annotated_shared_lock {
 public:
  explicit annotated_shared_lock(M& m) ABSL_SHARED_LOCK_FUNCTION(m);
  ~annotated_shared_lock() ABSL_UNLOCK_FUNCTION();
};

template <typename M>
annotated_lock_guard(M&) -> annotated_lock_guard<M>;
template <typename M>
annotated_unique_lock(M&) -> annotated_unique_lock<M>;

}  // namespace std

#define mutex annotated_mutex
#define shared_mutex annotated_shared_mutex
#define shared_lock annotated_shared_lock
#define lock_guard annotated_lock_guard
#define unique_lock annotated_unique_lock

#endif  // COMERA_TESTS_THREAD_SAFETY_ANNOTATED_MUTEX_H_
