#ifndef COMERA_TESTS_E2E_CHAOS_OBSERVER_H_
#define COMERA_TESTS_E2E_CHAOS_OBSERVER_H_

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "client/training_client.h"
#include "tests/e2e/chaos/evidence.h"
#include "tests/e2e/chaos/term_client.h"

namespace comera::e2e {

// A client that asks each coordinator for all jobs again and again, on a thread
// of its own, and keeps what changes, as a dashboard would see it.
class Observer {
 public:
  // The coordinators' addresses, separated by commas; `fence_path` is that of
  // TermClient.
  Observer(const std::string& addresses, const std::string& fence_path);
  ~Observer();

  // What each coordinator said of each job. Coordinators that follow lag behind
  // the one that leads, so they are told apart.
  std::map<std::string, std::vector<Sighting>> sightings() const;
  // In which leadership each answer was given.
  std::vector<Answer> answers() const;

 private:
  void Loop();

  struct Source {
    std::string address;
    std::unique_ptr<client::TrainingClient> client;
  };
  std::vector<Source> sources_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;                                   // guarded by mutex_
  std::map<std::string, std::vector<Sighting>> sightings_;  // guarded by mutex_
  std::vector<Answer> answers_;                             // guarded by mutex_
  std::unique_ptr<TermClient> terms_;  // used by the thread alone
  std::thread thread_;
};

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_CHAOS_OBSERVER_H_
