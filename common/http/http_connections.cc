// Counts a server's connections and closes them when it stops.
#include <memory>
#include <mutex>
#include <vector>

#include "common/http/http_connection.h"
#include "common/steady_time.h"

namespace comera {

void HttpConnections::Add(const std::shared_ptr<HttpConnection>& connection) {
  ++open_;
  const std::lock_guard<std::mutex> lock(mutex_);
  connections_[connection.get()] = connection;
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
