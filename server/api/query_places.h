#ifndef COMERA_SERVER_API_QUERY_PLACES_H_
#define COMERA_SERVER_API_QUERY_PLACES_H_

#include <cstddef>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"

namespace comera::server {

// The places for queries that hold the event loop for milliseconds each: one
// for each user and a few for all, so that submissions, reports and leases wait
// for a few of them at most. Callers without a name, whom only a server without
// tokens has, take no place. Thread-safe.
//
//   ASSIGN_OR_RETURN(auto place, places.Take(caller.user()));
//   host->RunQuery<T>(query, [=](const absl::StatusOr<T>& result) {
//     place->Leave();
//     call.Finish(result);
//   });
class QueryPlaces {
 private:
  struct Taken {
    std::mutex mutex;
    std::set<std::string> users ABSL_GUARDED_BY(mutex);
  };

 public:
  // How many users may have a query under way.
  static constexpr size_t kMaxTaken = 4;

  // The place of one query. It may outlive the object that gave it.
  class Place {
   public:
    Place(std::shared_ptr<Taken> taken, std::string user)
        : taken_(std::move(taken)), user_(std::move(user)) {}
    ~Place() { Leave(); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    // Gives the place up, before the caller is answered and can ask again. Only
    // the first call does anything.
    void Leave();

   private:
    // Null once it was given up.
    std::shared_ptr<Taken> taken_;
    const std::string user_;
  };

  // ResourceExhausted with RetryInfo: a query of the user is under way, or as
  // many as may be.
  absl::StatusOr<std::shared_ptr<Place>> Take(const std::string& user);

 private:
  const std::shared_ptr<Taken> taken_ = std::make_shared<Taken>();
};

}  // namespace comera::server

#endif  // COMERA_SERVER_API_QUERY_PLACES_H_
