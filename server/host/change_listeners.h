#ifndef COMERA_SERVER_HOST_CHANGE_LISTENERS_H_
#define COMERA_SERVER_HOST_CHANGE_LISTENERS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace comera::server {

// Functions that are called when a resource changes, by the resource's name.
// One thread calls it. A listener may add and remove listeners, itself
// included; changes of that kind count from the next call on.
class ChangeListeners {
 public:
  // Returns the number for Remove().
  int64_t Add(const std::string& name, std::function<void()> wake);
  // Does nothing if there is no such listener.
  void Remove(const std::string& name, int64_t id);

  void Notify(const std::string& name) const;
  void NotifyAll() const;

 private:
  using ById = std::map<int64_t, std::function<void()>>;

  std::map<std::string, ById> listeners_;
  int64_t next_id_ = 1;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_HOST_CHANGE_LISTENERS_H_
