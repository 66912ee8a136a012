#ifndef COMERA_WORKER_CHECKPOINT_PEER_KEYS_H_
#define COMERA_WORKER_CHECKPOINT_PEER_KEYS_H_

#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"

namespace comera::worker {

// Metadata of every call between workers.
inline constexpr char kPeerKeyMetadata[] = "comera-peer-key";

// What workers show each other: the coordinator's newest key, and the one
// before it, which the others may not have replaced yet. Thread-safe.
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
    return !key.empty() && (Same(key, newest_) || Same(key, before_));
  }

 private:
  // Takes as long whatever is equal.
  static bool Same(const std::string& a, const std::string& b) {
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
