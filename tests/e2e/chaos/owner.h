#ifndef COMERA_TESTS_E2E_CHAOS_OWNER_H_
#define COMERA_TESTS_E2E_CHAOS_OWNER_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "client/model_client.h"
#include "client/training_client.h"
#include "comera/v1/job.pb.h"
#include "tests/e2e/chaos/evidence.h"

namespace comera::e2e {

// Does with jobs what their owners do: pauses and cancels one now and then, and
// has it go on later; decides what becomes of one that waits for its owner's
// word; resumes what failed; pins models, tries to delete what is pinned, and
// deletes what is not. Keeps account of all that it asked. Not thread-safe.
class JobOwner {
 public:
  // The client must outlive it. `plain`: it only pauses and resumes.
  JobOwner(client::TrainingClient* client, const std::string& addresses,
           bool plain);

  // Looks at the jobs that have not succeeded, and acts; call it in each round.
  // `finishing`: has everything go on that can, and starts nothing new.
  void Act(const std::vector<v1::Job>& jobs, bool finishing);
  // Whether the owner may still have the ended job go on.
  bool MayGoOn(const v1::Job& job) const;
  // Makes running calls end.
  void Stop() { models_.Stop(); }

  const std::map<std::string, Wishes>& wishes() const { return wishes_; }
  const std::vector<std::string>& wrong_answers() const {
    return wrong_answers_;
  }

 private:
  void NoteStates(const std::vector<v1::Job>& jobs);
  void HaveGoOn(const v1::Job& job);
  void Reopen(const v1::Job& job);
  void Interrupt(const std::vector<v1::Job>& jobs);
  void Keep();
  void Pin(const v1::Job& job);
  void TryToDeletePinned(const std::string& job);
  void Delete(const std::string& job);

  client::TrainingClient* const client_;
  client::ModelClient models_;
  const bool plain_;
  std::map<std::string, Wishes> wishes_;
  std::vector<std::string> wrong_answers_;
  // How often a job waited for its owner's word.
  std::map<std::string, int> asked_;
  // Jobs that had a checkpoint when they were seen to have ended, and that
  // nobody asked to go on since.
  std::set<std::string> ended_with_state_;
  // Ended jobs that do not go on.
  std::set<std::string> settled_;
  // Jobs that were pinned or deleted, or may have been.
  std::set<std::string> kept_;
  int round_ = 0;
};

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_CHAOS_OWNER_H_
