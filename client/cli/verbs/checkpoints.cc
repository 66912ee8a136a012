// comera checkpoints: lists the training states from which a job, or another,
// can continue.
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/verbs/verbs.h"
#include "client/model_client.h"

namespace comera::client {
namespace {

constexpr char kExamples[] =
    R"(  comera checkpoints 4f2x7k3m5q6a
  comera checkpoints 4f2x7k3m5q6a -o json

Another job of the same model and data starts from one with
  start_from: {checkpoint: jobs/4f2x7k3m5q6a/checkpoints/300})";

int Checkpoints(const std::string& job, const Session& session) {
  const absl::StatusOr<std::string> name = Session::JobNameFrom(job);
  if (!name.ok()) {
    return session.Fail(std::string(name.status().message()), kExitUsage);
  }
  const auto channel = session.Channel();
  if (!channel.ok()) return session.FailRpc(channel.status());
  TrainingClient::Options options;
  options.timeout = options.attempt_timeout = session.timeout;
  ModelClient client(*channel, options);
  const auto checkpoints = client.ListCheckpoints(*name);
  if (!checkpoints.ok()) return session.FailRpc(checkpoints.status());
  if (session.output != OutputFormat::kTable) {
    v1::ListJobCheckpointsResponse response;
    for (const auto& checkpoint : *checkpoints) {
      *response.add_checkpoints() = checkpoint;
    }
    session.Print(response, /*one_line=*/false);
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows = {
      {"STEP", "STAGE", "BYTES", "AGE", "DURABLE", "WORKERS"}};
  for (const v1::Checkpoint& checkpoint : *checkpoints) {
    rows.push_back(
        {absl::StrCat(checkpoint.step()), v1::Stage_Name(checkpoint.stage()),
         FormatBytes(static_cast<double>(checkpoint.size_bytes())),
         DurationText(absl::Now() - ToTime(checkpoint.create_time())),
         checkpoint.durable() ? "yes" : "no",
         checkpoint.workers().empty()
             ? "-"
             : Printable(absl::StrJoin(checkpoint.workers(), ", "))});
  }
  return session.PrintTable(rows, {"AGE"});
}

}  // namespace

Verb CheckpointsVerb(Session* session) {
  auto job = std::make_shared<std::string>();
  Verb verb = {"checkpoints", "List a job's checkpoints", {}, nullptr};
  verb.arguments = {{"job", "Job id", job.get(), true, {}}};
  verb.examples = kExamples;
  verb.run = [=] { return Checkpoints(*job, *session); };
  return verb;
}

}  // namespace comera::client
