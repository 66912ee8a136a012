// comera logs: prints the log of a gang's member.
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/cli/output/terminal_text.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/interrupts.h"
#include "client/cli/verbs/verbs.h"

namespace comera::client {
namespace {

struct Arguments {
  std::string job;
  int64_t rank = 0;
  int64_t attempt = 0;
  bool follow = false;
};

int Logs(const Arguments& arguments, const Session& session) {
  const absl::StatusOr<std::string> name = Session::JobNameFrom(arguments.job);
  if (!name.ok()) {
    return session.Fail(std::string(name.status().message()), kExitUsage);
  }
  if (arguments.rank < 0 || arguments.rank > 1'000'000 ||
      arguments.attempt < 0) {
    return session.Fail("--rank and --attempt must not be negative",
                        kExitUsage);
  }
  auto client = session.Connect();
  Interrupts interrupts([&] { client->Stop(); });
  TrainingClient::LogOptions options;
  options.rank = static_cast<int32_t>(arguments.rank);
  options.attempt = arguments.attempt;
  options.follow = arguments.follow;
  // A job can print whatever terminals obey, at the reader of its log. Files
  // and pipes get every byte as it was.
  std::ostream& out = *session.env.out;
  TerminalText shown;
  const absl::Status status =
      client->ReadLog(*name, options, [&](const std::string& data) {
        out << (session.env.out_is_terminal ? shown.Add(data) : data)
            << std::flush;
      });
  out << shown.End() << std::flush;
  if (interrupts.happened()) {
    session.Note(absl::StrCat("detached; ", *name, " goes on"));
    return kExitInterrupted;
  }
  return status.ok() ? kExitOk : session.FailRpc(status);
}

}  // namespace

Verb LogsVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {"logs", "Print the log of one member of a job", {}, nullptr};
  verb.arguments = {
      {"job", "Job id", &arguments->job, true, {}},
      {"--rank", "Which member, from 0 (0)", &arguments->rank, false, {}},
      {"--attempt",
       "Which attempt (the newest)",
       &arguments->attempt,
       false,
       {},
       Names::kByName,
       {},
       /*former_names=*/{"--epoch"}},
      {"-f,--follow", "Until the job ends", &arguments->follow, false, {}},
  };
  verb.examples =
      R"(  comera logs 4f2x7k3m5q6a -f
  comera logs 4f2x7k3m5q6a --rank 1 --attempt 2)";
  verb.run = [=] { return Logs(*arguments, *session); };
  return verb;
}

}  // namespace comera::client
