// Gives out the places for queries that hold the event loop for long.
#include "server/api/query_places.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/rpc/rpc_errors.h"

namespace comera::server {
namespace {

constexpr absl::Duration kRetryDelay = absl::Milliseconds(100);

}  // namespace

absl::StatusOr<std::shared_ptr<QueryPlaces::Place>> QueryPlaces::Take(
    const std::string& user) {
  if (user.empty()) return std::make_shared<Place>(nullptr, user);
  std::lock_guard<std::mutex> lock(taken_->mutex);
  if (taken_->users.count(user) > 0) {
    return TryAgainAfter(kRetryDelay,
                         absl::StrCat("another question of ", user,
                                      " about the queue is being answered"));
  }
  if (taken_->users.size() >= kMaxTaken) {
    return TryAgainAfter(kRetryDelay,
                         absl::StrCat(kMaxTaken,
                                      " questions of others about the "
                                      "queue are being answered"));
  }
  taken_->users.insert(user);
  return std::make_shared<Place>(taken_, user);
}

void QueryPlaces::Place::Leave() {
  const std::shared_ptr<Taken> taken = std::move(taken_);
  taken_ = nullptr;
  if (taken == nullptr) return;
  std::lock_guard<std::mutex> lock(taken->mutex);
  taken->users.erase(user_);
}

}  // namespace comera::server
