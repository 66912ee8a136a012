// comera get: shows one job.
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/cli/output/style.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/verbs/verbs.h"

namespace comera::client {
namespace {

std::string TimeText(const google::protobuf::Timestamp& timestamp) {
  return absl::FormatTime(absl::RFC3339_sec, ToTime(timestamp),
                          absl::UTCTimeZone());
}

std::vector<std::vector<std::string>> Rows(const v1::Job& job, bool color) {
  std::vector<std::vector<std::string>> rows = {{"name", job.name()}};
  if (!job.spec().display_name().empty()) {
    rows.push_back({"display name", Printable(job.spec().display_name())});
  }
  const std::string state = StateText(job);
  rows.push_back({"state", Paint(ToneOfState(state), state, color)});
  if (!job.reason().empty()) {
    rows.push_back({"reason", Printable(job.reason())});
  }
  rows.push_back({"created", TimeText(job.create_time())});
  if (job.has_start_time()) {
    rows.push_back({"started", TimeText(job.start_time())});
  }
  if (job.has_end_time()) rows.push_back({"ended", TimeText(job.end_time())});
  rows.push_back({"attempt", absl::StrCat(job.attempt())});
  const v1::JobProgress& progress = job.progress();
  if (progress.total_steps() > 0) {
    rows.push_back(
        {"step", absl::StrCat(progress.step(), "/", progress.total_steps())});
    rows.push_back({"loss", FormatFigure(progress.loss())});
    if (progress.has_validation_loss()) {
      rows.push_back(
          {"validation loss", FormatFigure(progress.validation_loss())});
    }
    rows.push_back(
        {"size", absl::StrCat(FormatBytes(progress.size_bytes()), " (",
                              FormatCount(progress.size_parameters()),
                              " parameters)")});
    if (job.state() == v1::RUNNING && progress.has_eta()) {
      rows.push_back({"ETA", DurationText(ToDuration(progress.eta()))});
    }
  }
  if (job.has_failure()) {
    rows.push_back({"failure", Printable(job.failure().message())});
  }
  for (const v1::Failure& incident : job.incidents()) {
    rows.push_back(
        {"incident",
         absl::StrCat("attempt ", incident.attempt(), ": ",
                      v1::FailureClass_Name(incident.failure_class()), ": ",
                      Printable(incident.message()))});
  }
  for (const v1::Artifact& model : job.models()) {
    rows.push_back({"model", model.name()});
  }
  return rows;
}

int Get(const std::string& argument, const Session& session) {
  const absl::StatusOr<std::string> name = Session::JobNameFrom(argument);
  if (!name.ok()) {
    return session.Fail(std::string(name.status().message()), kExitUsage);
  }
  const absl::StatusOr<v1::Job> job = session.Connect()->Get(*name);
  if (!job.ok()) return session.FailRpc(job.status());
  if (session.output == OutputFormat::kTable) {
    *session.env.out << FormatTable(Rows(*job, session.Color())) << std::flush;
  } else {
    session.Print(*job, /*one_line=*/false);
  }
  return kExitOk;
}

}  // namespace

Verb GetVerb(Session* session) {
  auto job = std::make_shared<std::string>();
  Verb verb = {"get", "Show a job", {}, nullptr};
  verb.arguments.push_back({"job", "Job id", job.get(), true, {}});
  verb.examples =
      R"(  comera get 4f2x7k3m5q6a
  comera get 4f2x7k3m5q6a -o yaml)";
  verb.run = [=] { return Get(*job, *session); };
  return verb;
}

}  // namespace comera::client
