#ifndef COMERA_WORKER_CHECKPOINT_PEER_KEYS_H_
#define COMERA_WORKER_CHECKPOINT_PEER_KEYS_H_

#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"

namespace comera::worker {

// The metadata key under which every call between workers carries its secret.
inline constexpr char kPeerKeyMetadata[] = "comera-peer-key";

// The secrets by which workers of one cluster recognise each other: the
// coordinator's newest key, and the one before it, which other workers may
// still use. Thread-safe.
class PeerKeys {
 public:
  void Learn(const std::string& key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (key.empty() || key == newest_) return;
    before_ = std::move(newest_);
    newest_ = key;
  }
  std::string newest() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return newest_;
  }
  bool Accepts(const std::string& key) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return !key.empty() && (EqualInConstantTime(key, newest_) ||
                            EqualInConstantTime(key, before_));
  }

 private:
  // Compares in a time that does not depend on where the strings differ.
  static bool EqualInConstantTime(const std::string& a, const std::string& b) {
    if (a.size() != b.size()) return false;
    unsigned char difference = 0;
    for (size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
    return difference == 0;
  }

  mutable std::mutex mutex_;
  std::string newest_ ABSL_GUARDED_BY(mutex_);
  std::string before_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_PEER_KEYS_H_
