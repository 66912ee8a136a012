// Keeps the streams that wait for a job or sweep to change.
#include "server/host/change_listeners.h"

#include <utility>

namespace comera::server {

int64_t ChangeListeners::Add(const std::string& name,
                             std::function<void()> wake) {
  listeners_[name][next_id_] = std::move(wake);
  return next_id_++;
}

void ChangeListeners::Remove(const std::string& name, int64_t id) {
  const auto it = listeners_.find(name);
  if (it == listeners_.end()) return;
  it->second.erase(id);
  if (it->second.empty()) listeners_.erase(it);
}

void ChangeListeners::Notify(const std::string& name) const {
  const auto it = listeners_.find(name);
  if (it == listeners_.end()) return;
  // A copy, as a listener may remove itself.
  const ById listeners = it->second;
  for (const auto& [id, wake] : listeners) wake();
}

void ChangeListeners::NotifyAll() const {
  const auto all = listeners_;
  for (const auto& [name, listeners] : all) {
    for (const auto& [id, wake] : listeners) wake();
  }
}

}  // namespace comera::server
