// Counts a server's connections and closes them when it stops.
#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "common/http/http_connection.h"
#include "common/peer_key.h"
#include "common/steady_time.h"

namespace comera {

std::optional<HttpPlace> HttpConnections::Enter(const std::string& peer,
                                                int max_connections) {
  const int most = IsLoopbackKey(peer)
                       ? options_.connections_per_loopback_address
                       : options_.connections_per_address;
  // Outside of the lock it is closed, and let go.
  std::shared_ptr<HttpConnection> pushed_out;
  HttpPlace place = {peer};
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = of_peer_.find(peer);
    if (most > 0 && found != of_peer_.end() && found->second >= most) {
      return std::nullopt;
    }
    if (connections_.size() >= static_cast<size_t>(max_connections)) {
      if (!options_.admits_when_full) return std::nullopt;
      if (reserved_ >= options_.reserved_connections) {
        if (waiting_.empty()) return std::nullopt;
        pushed_out = waiting_.front().second.lock();
        waiting_.pop_front();
      }
      place.reserved = true;
      ++reserved_;
    }
    ++of_peer_[peer];
  }
  if (pushed_out != nullptr) pushed_out->Close();
  return place;
}

void HttpConnections::Leave(const HttpPlace& place,
                            HttpConnection* connection) {
  if (place.reserved) Keep(connection);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (place.reserved) --reserved_;
  const auto found = of_peer_.find(place.peer);
  if (--found->second == 0) of_peer_.erase(found);
}

void HttpConnections::MayGo(const std::shared_ptr<HttpConnection>& connection) {
  Keep(connection.get());
  const std::lock_guard<std::mutex> lock(mutex_);
  waiting_.emplace_front(connection.get(), connection);
}

void HttpConnections::Keep(HttpConnection* connection) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = std::find_if(
      waiting_.begin(), waiting_.end(),
      [&](const auto& entry) { return entry.first == connection; });
  if (found != waiting_.end()) waiting_.erase(found);
}

void HttpConnections::Add(const std::shared_ptr<HttpConnection>& connection,
                          const HttpPlace& place) {
  ++open_;
  const std::lock_guard<std::mutex> lock(mutex_);
  connections_[connection.get()] = connection;
  if (place.reserved) waiting_.emplace_back(connection.get(), connection);
}

void HttpConnections::Remove(HttpConnection* connection) {
  const std::lock_guard<std::mutex> lock(mutex_);
  connections_.erase(connection);
}

size_t HttpConnections::size() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return connections_.size();
}

std::vector<std::shared_ptr<HttpConnection>> HttpConnections::All() const {
  std::vector<std::shared_ptr<HttpConnection>> all;
  const std::lock_guard<std::mutex> lock(mutex_);
  all.reserve(connections_.size());
  for (const auto& [key, connection] : connections_) {
    if (auto one = connection.lock()) all.push_back(std::move(one));
  }
  return all;
}

// Outside of the lock: the last reference may be the one taken here.
void HttpConnections::Sweep() {
  const int64_t now_ms = absl::ToUnixMillis(SteadyNow());
  for (const auto& connection : All()) connection->Sweep(now_ms);
}

void HttpConnections::CloseAll() {
  for (const auto& connection : All()) connection->Close();
}

bool HttpConnections::ReserveBody(size_t bytes) {
  const size_t before = body_bytes_.fetch_add(bytes);
  if (bytes <= options_.small_body_bytes ||
      before + bytes <= options_.max_bodies_bytes) {
    return true;
  }
  body_bytes_ -= bytes;
  return false;
}

}  // namespace comera
