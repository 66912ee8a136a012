// comera export --format mlflow --to http://...: sends runs to MLflow's server.
#include <atomic>
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/interrupts.h"
#include "client/cli/verbs/export_formats.h"
#include "client/cli/verbs/export_source.h"
#include "client/export/mlflow_run.h"
#include "client/export/mlflow_server.h"
#include "common/status_macros.h"
#include "common/steady_time.h"
#include "proto/job_state.h"

namespace comera::client {
namespace {

constexpr absl::Duration kInterval = absl::Seconds(2);

// Sends one job's run. With `follow` it goes on until the job ends; a server
// that is away meanwhile is told of in a note, and gets all of it later.
class JobExport {
 public:
  JobExport(const v1::Job& job, MlflowServer* server, const Session* session)
      : job_(job), server_(server), session_(session), builder_(job) {}

  absl::Status Run(bool follow, TrainingClient& client) {
    ASSIGN_OR_RETURN(const int64_t newest, NewestEvent(client, job_.name()));
    const bool to_end = follow || IsFinal(job_.state());
    v1::Job ended = job_;
    if (newest > 0 || follow) {
      TrainingClient::WatchOptions options;
      // The stream of an ended job ends by itself after its last event.
      if (!to_end) options.until_sequence = newest;
      absl::Status refused;
      const absl::StatusOr<v1::Job> watched = client.Watch(
          job_.name(), options, {}, [&](const v1::JobEvent& event) {
            lost_ += event.dropped().count();
            builder_.Add(event);
            if (!refused.ok() || !follow || event.sequence() < newest ||
                SteadyNow() < next_) {
              return;
            }
            refused = Send();
            if (!refused.ok()) client.Stop();
          });
      RETURN_IF_ERROR(refused);
      RETURN_IF_ERROR(watched.status());
      if (to_end) ended = *watched;
    }
    return server_->Put(builder_.RunOf(ended));
  }

  int64_t lost() const { return lost_; }

 private:
  // OK also if the server is away.
  absl::Status Send() {
    next_ = SteadyNow() + kInterval;
    const absl::Status status = server_->Put(builder_.RunOf(job_));
    if (!absl::IsUnavailable(status)) {
      away_ = false;
      return status;
    }
    if (!away_) session_->Note(absl::StrCat(status.message(), "; trying on"));
    away_ = true;
    return absl::OkStatus();
  }

  const v1::Job& job_;
  MlflowServer* const server_;
  const Session* const session_;
  MlflowRunBuilder builder_;
  int64_t lost_ = 0;
  absl::Time next_ = absl::InfinitePast();
  bool away_ = false;
};

absl::Status ExportAll(const ExportSource& source,
                       const ExportArguments& arguments, MlflowServer* server,
                       const Session& session, TrainingClient& client) {
  // Its runs name it as their parent.
  if (source.sweep) RETURN_IF_ERROR(server->Put(SweepRunOf(*source.sweep)));
  int64_t lost = 0;
  for (const v1::Job& job : source.jobs) {
    JobExport one(job, server, &session);
    RETURN_IF_ERROR(one.Run(arguments.follow, client));
    lost += one.lost();
  }
  if (lost > 0) {
    session.Note(absl::StrCat(lost, " progress samples were left out"));
  }
  return absl::OkStatus();
}

}  // namespace

int ExportToMlflowServer(const ExportArguments& arguments,
                         const Session& session) {
  const auto source =
      FindExportSource(arguments.what, arguments.follow, session);
  if (!source.ok()) return FailExportSource(source.status(), session);
  const auto client = session.Connect();
  std::atomic<bool> stop{false};
  Interrupts interrupts([&] {
    stop = true;
    client->Stop();
  });
  MlflowServer::Options options;
  options.uri = arguments.to;
  options.experiment = arguments.experiment;
  options.authorization = session.env.mlflow_authorization;
  options.cancelled = &stop;
  const auto server = MlflowServer::Open(options);
  absl::Status status = server.status();
  if (status.ok()) {
    status = ExportAll(*source, arguments, server->get(), session, *client);
  }
  if (interrupts.happened()) {
    return session.Fail("interrupted; the same command goes on",
                        kExitInterrupted);
  }
  if (!status.ok()) {
    return session.Fail(absl::StrCat(arguments.to, ": ", status.message()),
                        kExitClientError);
  }
  session.Note(absl::StrCat(source->jobs.size() + (source->sweep ? 1 : 0),
                            " runs are in the experiment ",
                            arguments.experiment, " of ", arguments.to));
  return kExitOk;
}

}  // namespace comera::client
