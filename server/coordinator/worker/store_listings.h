#ifndef COMERA_SERVER_COORDINATOR_WORKER_STORE_LISTINGS_H_
#define COMERA_SERVER_COORDINATOR_WORKER_STORE_LISTINGS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "comera/v1/worker_service.pb.h"
#include "server/coordinator/worker/worker_table.h"

namespace comera::server {

// What workers say is in the shared store of checkpoints. They all list the
// same store, so each state is kept once, with a bit for each worker that lists
// it: what one report costs does not grow with the number of workers.
//
// A worker may say what it likes, so nothing is believed on one stranger's word
// (FindBelieved).
//
// A listing is not told with its time. A worker that was heard for kWordLasts
// has listed the store since another one was lost, and its word ends that of
// the other one. So does a state that it listed and does not list any more. A
// worker that lists nothing may have no store, or may not have listed it yet,
// and ends nothing. Not thread-safe.
class StoreListings {
 public:
  // Workers list the store at least hourly, which takes them some minutes.
  static constexpr absl::Duration kOldestListing = absl::Minutes(70);
  // What a lost worker listed counts for this long: others may be connected and
  // unable to list the store for hours.
  static constexpr absl::Duration kWordLasts = absl::Hours(24);
  // Another worker is told to delete a state that is listed after this time.
  static constexpr absl::Duration kDeletionTakes = absl::Minutes(5);
  // No lister has this number.
  static constexpr size_t kNobody = -1;

  using States = std::map<std::string, std::vector<v1::HeldCheckpoint>>;
  // What a report changes.
  struct Changes {
    // The jobs of which it lists states that nobody listed before.
    std::set<std::string> found;
    // By job: what the worker lists no more, and nobody else does whose word
    // counts.
    States gone;
    // The worker's number, for ListedBy.
    size_t lister = kNobody;
  };

  // Must outlive it.
  explicit StoreListings(const WorkerTable* workers) : workers_(workers) {}

  // Takes over what the worker lists by its newest report.
  Changes Apply(const WorkerState& worker,
                const std::vector<const v1::HeldCheckpoint*>& listed,
                absl::Time now);
  // The worker is known no more. Its word counts like that of a lost one.
  void Retire(const std::string& worker);
  // Ends the word of workers that were lost, restarted or forgotten before
  // another one has listed the store. Returns what nobody lists any more, by
  // job. To be called now and then.
  States Review(absl::Time now);

  // The job's states that are believed to be in the store, without those that
  // somebody was told to delete. One of `trusted`, which is asked for where
  // others do not do, lists the state or did; or at least half of the workers
  // that list anything do, and at least two. Where no more than two workers are
  // there at all, one is enough for a state that was announced. Adds to
  // `listed` how many states this lister lists, deleted or not.
  std::vector<v1::HeldCheckpoint> FindBelieved(
      const std::string& job,
      absl::FunctionRef<std::vector<std::string>()> trusted,
      absl::FunctionRef<bool(const v1::HeldCheckpoint&)> is_announced,
      size_t lister = kNobody, size_t* listed = nullptr) const;
  // The job's states that one of these workers lists or did list, with the same
  // exception.
  std::vector<v1::HeldCheckpoint> FindListedBy(
      const std::string& job, const std::vector<std::string>& workers) const;
  bool Contains(const std::string& job, const v1::HeldCheckpoint& held) const;
  // What this lister lists of the job; `deleted`: also what somebody was told
  // to delete.
  std::vector<v1::HeldCheckpoint> ListedBy(size_t lister,
                                           const std::string& job,
                                           bool deleted = true) const;
  // No job needs the state, which the worker lists. Returns whether this worker
  // is the one to delete it: one is enough, as long as that one is there and
  // the state goes. From now on the state does not count.
  bool MustDelete(const std::string& job, const v1::HeldCheckpoint& held,
                  const WorkerState& worker, absl::Time now);

 private:
  // By step and attempt; attempt 0 is unknown.
  using Key = std::pair<int64_t, int64_t>;
  struct State {
    // Its listers by number; how many there are; the lowest number.
    std::vector<bool> listers;
    size_t count = 0;
    size_t first = 0;
    // How many of them are current ones.
    size_t current = 0;
    // The report that listed it last.
    int64_t report = 0;
    // The worker that was told to delete it, and when; empty: none.
    std::string deleter;
    absl::Time told;
  };
  // A worker, or what it said before it was restarted or forgotten.
  struct Lister {
    size_t number = 0;
    int64_t life = 0;
    // At least the number of states that it lists.
    size_t count = 0;
    // Since when it has been heard without a long break, and when last.
    absl::Time since;
    absl::Time heard = absl::InfinitePast();
  };
  using Listers = std::map<std::string, Lister>;

  static bool Lists(const State& state, size_t number);
  static bool ListsAny(const State& state, const std::vector<size_t>& numbers);
  bool Add(size_t number, State* state) const;
  bool Remove(size_t number, State* state) const;
  size_t NewNumber(const std::string& worker);
  // Nobody has listed anything under it any more.
  void FreeNumber(size_t number);
  bool IsAway(size_t number) const;
  // Counts the current listers that are there, once in a while.
  void CountListers(absl::Time now);
  // Whether there are no more than two workers.
  bool AreFewThere() const;
  // The numbers of these workers, and of what they said before.
  std::vector<size_t> NumbersOf(const std::vector<std::string>& workers) const;
  // Takes the states off the lister that the newest report does not list.
  void Drop(size_t number, Changes* changes);
  // Removes from what is gone what is there under an unknown attempt.
  void Confirm(States* gone) const;

  const WorkerTable* const workers_;
  std::map<std::string, std::map<Key, State>> jobs_;
  Listers current_;
  Listers former_;
  // The workers by number; empty: they are former ones, or the number is free.
  std::vector<std::string> workers_by_number_;
  std::vector<size_t> free_numbers_;
  int64_t reports_ = 0;
  size_t listers_there_ = 0;
  bool few_there_ = true;
  absl::Time counted_ = absl::InfinitePast();
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_WORKER_STORE_LISTINGS_H_
