// Collects what clients saw of a run of the service, and the little that only
// the machine itself can tell.
#ifndef COMERA_TESTS_E2E_CHAOS_EVIDENCE_H_
#define COMERA_TESTS_E2E_CHAOS_EVIDENCE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/training_client.h"
#include "comera/v1/job.pb.h"
#include "comera/v1/progress.pb.h"
#include "comera/v1/sweep_service.pb.h"

namespace comera::e2e {

// What a client saw of a job when it asked.
struct Sighting {
  v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
  int64_t attempt = 0;
  int incidents = 0;
  // The first and the last time at which the client saw the job so, by its own
  // clock, which nobody disturbs. They do not count in comparisons.
  absl::Time first = absl::InfinitePast();
  absl::Time last = absl::InfinitePast();

  friend bool operator==(const Sighting& a, const Sighting& b) {
    return a.state == b.state && a.attempt == b.attempt &&
           a.incidents == b.incidents;
  }
};

// What clients asked of a job, each counted before it was sent: a request whose
// answer was lost may have been carried out.
struct Wishes {
  int cancels = 0;
  // Requests to go on with a job that had ended, or may have by then.
  int reopens = 0;
  // Requests to begin at step 0 again.
  int start_overs = 0;
  int deletions = 0;
  // A deletion was confirmed.
  bool deleted = false;
  // The models that were confirmed to be pinned.
  std::set<std::string> pinned;
};

// A worker's word that it has the state from which an attempt is to go on.
struct StateFetch {
  std::string job;
  int64_t attempt = 0;
  // -1: it found none.
  int64_t step = -1;
  // The attempt that saved it; 0: the coordinator did not name the state.
  int64_t saved_by = 0;
};

// An answer of a coordinator that leads.
struct Answer {
  std::string coordinator;
  // The number of its leadership.
  int64_t term = 0;
  // The highest number that had been received when the request was sent.
  int64_t newest = 0;
  // Whether it passed the fence by which workers refuse old answers.
  bool fenced = false;
};

struct Evidence {
  // The accepted submissions as clients know them: request id and job name.
  std::map<std::string, std::string> accepted;
  // The names of the accepted sweeps.
  std::vector<std::string> accepted_sweeps;
  // All jobs and sweeps, as a client sees them at the end.
  std::vector<v1::Job> jobs;
  std::map<std::string, v1::Sweep> sweeps;
  // What a client that polled all the time was told of each job by each
  // coordinator, oldest first; equal sightings in a row are one.
  std::map<std::string, std::vector<Sighting>> sightings;
  // The events by job, in the order in which a client gets them.
  std::map<std::string, std::vector<v1::JobEvent>> events;
  // What clients asked of each job, by its name.
  std::map<std::string, Wishes> wishes;
  // Answers that no client should have got, one sentence each.
  std::vector<std::string> wrong_answers;
  // How often a member began to train, by job, attempt and member: as its log
  // reads that a client gets, and over the logs of all workers. The latter is
  // read from their disks, because no client sees a second process that trains
  // the same member elsewhere: the coordinator drops all that such a process
  // says, which is what makes it worth looking for.
  using Starts = std::map<std::tuple<std::string, int64_t, int>, int>;
  Starts log_starts;
  Starts starts;
  // What the workers' logs say of the states that attempts go on from. No
  // client sees by which attempt a state was saved.
  std::vector<StateFetch> fetches;
  // Answers with the numbers of their leaderships, in the order in which one
  // client got them.
  std::vector<Answer> answers;
  // Whether some of the programs are of another version.
  bool mixed_versions = false;
  // One line per model file that a client cannot download as its job tells.
  std::vector<std::string> bad_models;
  // The command lines of processes that were left running. No client sees
  // processes; who pays for the machine does.
  std::vector<std::string> orphans;
};

// Reads all jobs, with their events, through a client. A status of the client:
// the service does not answer, or not for all jobs.
absl::Status ReadJobs(client::TrainingClient* client, Evidence* evidence);

// Counts the beginnings of training in the logs of each job's last attempt, as
// a client reads them. A log that is gone with its worker counts nothing.
void ReadLogs(client::TrainingClient* client, Evidence* evidence);

// Downloads every model of every job into `folder` and checks that the files
// have the size and checksum of the job's record, and can be read.
void CheckModels(client::TrainingClient* client, const std::string& folder,
                 Evidence* evidence);

// Counts the beginnings of training in the members' logs below a worker's
// folder. Unavailable: a log cannot be read.
absl::Status ReadMemberLogs(const std::string& worker_folder,
                            Evidence* evidence);

// Reads a worker's own log; none counts as empty. Unavailable: it cannot be
// read.
absl::Status ReadWorkerLog(const std::string& path, Evidence* evidence);

// Returns the command lines of other processes that name the folder.
std::vector<std::string> ProcessesNaming(const std::string& folder);

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_CHAOS_EVIDENCE_H_
