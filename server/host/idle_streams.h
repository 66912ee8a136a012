#ifndef COMERA_SERVER_HOST_IDLE_STREAMS_H_
#define COMERA_SERVER_HOST_IDLE_STREAMS_H_

#include <functional>
#include <map>

#include "absl/time/time.h"
#include "common/clock.h"

namespace comera::server {

// Ends the uploads that bring no data for a while, each of which holds a
// descriptor, a part of a file and one of its user's places; or the downloads
// whose data nobody takes. One thread uses it.
class IdleStreams {
 public:
  // `clock` must outlive the object.
  IdleStreams(absl::Duration limit, Clock* clock)
      : limit_(limit), clock_(clock) {}

  // The stream waits for its client from now on. `end` is called by EndIdle()
  // if that takes too long.
  void Await(const void* stream, std::function<void()> end);
  // Data came or went, or the end.
  void Forget(const void* stream);

  // To be called about every second.
  void EndIdle();

  absl::Duration limit() const { return limit_; }

 private:
  struct Waiting {
    absl::Time since;
    std::function<void()> end;
  };

  const absl::Duration limit_;
  Clock* const clock_;
  std::map<const void*, Waiting> waiting_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_HOST_IDLE_STREAMS_H_
