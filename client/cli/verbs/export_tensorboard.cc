// comera export --format tensorboard: writes event files.
#include "absl/strings/str_cat.h"
#include "client/cli/output/message_text.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/interrupts.h"
#include "client/cli/verbs/export_formats.h"
#include "client/cli/verbs/export_source.h"
#include "client/export/tensorboard_run.h"
#include "common/status_macros.h"

namespace comera::client {
namespace {

// Exports one job to its folder; returns how many progress samples were left
// out.
absl::StatusOr<int64_t> ExportJob(const v1::Job& job,
                                  const ExportArguments& arguments,
                                  TrainingClient& client) {
  ASSIGN_OR_RETURN(const std::unique_ptr<TensorBoardRun> run,
                   TensorBoardRun::Open(
                       absl::StrCat(arguments.to, "/", LastSegment(job.name())),
                       job, ToYaml(job.spec())));
  if (run->finished()) return 0;
  ASSIGN_OR_RETURN(const int64_t newest, NewestEvent(client, job.name()));
  TrainingClient::WatchOptions options;
  options.after_sequence = run->last_sequence();
  // The stream of an ended job ends by itself after its last event.
  const bool to_end = arguments.follow || IsFinal(job.state());
  if (!to_end) {
    if (newest <= options.after_sequence) return 0;
    options.until_sequence = newest;
  }
  absl::Status status;
  int64_t lost = 0;
  const absl::StatusOr<v1::Job> ended =
      client.Watch(job.name(), options, {}, [&](const v1::JobEvent& event) {
        if (!status.ok()) return;
        lost += event.dropped().count();
        status = run->Add(event);
        // From here on events are live, so each is written at once.
        if (status.ok() && event.sequence() >= newest) status = run->Flush();
        if (!status.ok()) client.Stop();
      });
  RETURN_IF_ERROR(status);
  if (!ended.ok()) {
    // Keeps what came before an interruption.
    RETURN_IF_ERROR(run->Flush());
    return ended.status();
  }
  RETURN_IF_ERROR(to_end ? run->Finish(*ended) : run->Flush());
  return lost;
}

}  // namespace

int ExportTensorBoard(const ExportArguments& arguments,
                      const Session& session) {
  const auto source =
      FindExportSource(arguments.what, arguments.follow, session);
  if (!source.ok()) return FailExportSource(source.status(), session);
  const auto client = session.Connect();
  Interrupts interrupts([&] { client->Stop(); });
  int64_t lost = 0;
  for (const v1::Job& job : source->jobs) {
    const auto exported = ExportJob(job, arguments, *client);
    if (interrupts.happened()) {
      return session.Fail(
          "interrupted; the same command goes on where this one stopped",
          kExitInterrupted);
    }
    if (!exported.ok()) return session.FailRpc(exported.status());
    lost += *exported;
  }
  if (lost > 0) {
    session.Note(absl::StrCat(lost, " progress samples were left out"));
  }
  session.Note(absl::StrCat(source->jobs.size(), " runs are in ", arguments.to,
                            ": tensorboard --logdir ", arguments.to));
  return kExitOk;
}

}  // namespace comera::client
