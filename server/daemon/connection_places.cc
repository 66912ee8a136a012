// Counts connections by address and notices by their files that they ended.
#include "server/daemon/connection_places.h"

#include <sys/stat.h>

#include <vector>

#include "common/peer_key.h"

namespace comera::server {
namespace {

// The number of a socket's inode is given anew only after 2^32 others.
bool IsOpen(int fd, dev_t device, ino_t inode) {
  struct stat now = {};
  return fstat(fd, &now) == 0 && now.st_dev == device && now.st_ino == inode;
}

}  // namespace

size_t ConnectionPlaces::Count(const std::string& peer) const {
  const auto found = of_peer_.find(peer);
  return found == of_peer_.end() ? 0 : found->second.size();
}

void ConnectionPlaces::Free(int fd) {
  const auto place = places_.find(fd);
  if (place == places_.end()) return;
  const auto peer = of_peer_.find(place->second.peer);
  peer->second.erase(fd);
  if (peer->second.empty()) of_peer_.erase(peer);
  places_.erase(place);
}

void ConnectionPlaces::FreeClosed() {
  std::vector<int> closed;
  for (const auto& [fd, place] : places_) {
    if (!IsOpen(fd, place.device, place.inode)) closed.push_back(fd);
  }
  for (const int fd : closed) Free(fd);
}

void ConnectionPlaces::FreeClosedOf(const std::string& peer) {
  const auto found = of_peer_.find(peer);
  if (found == of_peer_.end()) return;
  std::vector<int> closed;
  for (const int fd : found->second) {
    const Place& place = places_.at(fd);
    if (!IsOpen(fd, place.device, place.inode)) closed.push_back(fd);
  }
  for (const int fd : closed) Free(fd);
}

bool ConnectionPlaces::Take(int fd, const std::string& peer) {
  // The system has given the number again.
  Free(fd);
  struct stat file = {};
  if (fstat(fd, &file) != 0) return false;
  const size_t most =
      IsLoopbackKey(peer) ? limits_.per_loopback_address : limits_.per_address;
  if (Count(peer) >= most) FreeClosedOf(peer);
  if (Count(peer) >= most) return false;
  const size_t all = limits_.connections;
  if (places_.size() >= all) FreeClosed();
  if (places_.size() >= all &&
      (Count(peer) > 0 || places_.size() >= all + limits_.reserve)) {
    return false;
  }
  places_[fd] = {file.st_dev, file.st_ino, peer};
  of_peer_[peer].insert(fd);
  return true;
}

}  // namespace comera::server
