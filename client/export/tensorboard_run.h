// Writes the TensorBoard event file of one job.
#ifndef COMERA_CLIENT_EXPORT_TENSORBOARD_RUN_H_
#define COMERA_CLIENT_EXPORT_TENSORBOARD_RUN_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/export/record_file.h"
#include "comera/v1/job.pb.h"
#include "comera/v1/progress.pb.h"

namespace comera::client {

// Writes to a folder that TensorBoard shows as one run. A file beside the event
// file (comera_export.json) records what is in it, so that a later export, even
// after a crash, continues without repeating anything. Not thread-safe.
//
//   ASSIGN_OR_RETURN(auto run, TensorBoardRun::Open(folder, job, job_file));
//   ... run->Add(event) for events after run->last_sequence(); run->Flush();
//   run->Finish(job);
class TensorBoardRun {
 public:
  // FailedPrecondition: the folder holds another job's export, or another
  // process exports to it. DataLoss: comera_export.json is damaged.
  static absl::StatusOr<std::unique_ptr<TensorBoardRun>> Open(
      const std::string& folder, const v1::Job& job,
      const std::string& job_file);

  // The sequence number of the newest event in the file; 0 if there is none.
  int64_t last_sequence() const { return last_sequence_; }
  // Whether the file holds the job's end.
  bool finished() const { return finished_; }

  // Adds an event, which is on disk after the next Flush.
  absl::Status Add(const v1::JobEvent& event);
  absl::Status Flush();
  // Records how the job ended; has an effect only once.
  absl::Status Finish(const v1::Job& job);

 private:
  TensorBoardRun(std::string folder, std::string job)
      : folder_(std::move(folder)), job_(std::move(job)) {}
  std::string StatePath() const;
  absl::Status ReadState(std::string* file, int64_t* bytes);

  const std::string folder_;
  const std::string job_;
  std::string file_name_;
  std::unique_ptr<RecordFile> file_;
  int64_t last_sequence_ = 0;
  bool finished_ = false;
  // The number of events since the last Flush.
  int pending_ = 0;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_EXPORT_TENSORBOARD_RUN_H_
