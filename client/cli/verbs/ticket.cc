// comera ticket: makes a ticket, with which a program uses a model at a worker.
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/cli/output/long_duration.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/verbs/model_use.h"
#include "client/cli/verbs/verbs.h"
#include "client/model_client.h"
#include "google/protobuf/util/time_util.h"

namespace comera::client {
namespace {

struct Arguments {
  std::string model;
  std::string worker;
  std::string lifetime;
};

int Ticket(const Arguments& arguments, const Session& session) {
  if (arguments.worker.empty()) {
    return session.Fail("ticket needs --worker, see `comera workers`",
                        kExitUsage);
  }
  v1::CreateTicketRequest request;
  request.set_worker(absl::StrCat("workers/", LastSegment(arguments.worker)));
  if (!arguments.lifetime.empty()) {
    const auto lifetime = ParseLongDuration(arguments.lifetime);
    if (!lifetime) {
      return session.Fail(
          absl::StrCat("--lifetime ", Printable(arguments.lifetime),
                       " is no duration, e.g. 10m or 8h"),
          kExitUsage);
    }
    request.mutable_lifetime()->set_seconds(absl::ToInt64Seconds(*lifetime));
  }
  const auto name = FindModelName(arguments.model, session);
  if (!name.ok()) return FailModelUse(name.status(), session);
  request.set_model(*name);
  const auto channel = session.Channel();
  if (!channel.ok()) return session.FailRpc(channel.status());
  ModelClient models(*channel, session.ClientOptions());
  const auto made = models.CreateTicket(request);
  if (!made.ok()) return session.FailRpc(made.status());
  if (session.output != OutputFormat::kTable) {
    session.Print(*made, /*one_line=*/false);
    return kExitOk;
  }
  // Printed alone on standard output, so that it can be put into a variable.
  *session.env.out << made->ticket() << std::endl;
  session.Note(absl::StrCat(
      *name, " at ", LastSegment(request.worker()), " until ",
      google::protobuf::util::TimeUtil::ToString(made->expire_time())));
  return kExitOk;
}

}  // namespace

Verb TicketVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {
      "ticket", "Make a ticket to use one model at one worker", {}, nullptr};
  verb.arguments = {
      {"model",
       "jobs/JOB/models/MODEL (of jobs/JOB the newest)",
       &arguments->model,
       true,
       {}},
      {"--worker", "Where it is used", &arguments->worker, false, {}},
      {"--lifetime",
       "How long it is good, e.g. 8h; at most a day (1m)",
       &arguments->lifetime,
       false,
       {}},
  };
  verb.examples =
      R"(  comera ticket jobs/ykpmwqbg3yy6 --worker node-17
  ticket=$(comera ticket jobs/ykpmwqbg3yy6 --worker node-17 --lifetime 8h)
  curl -H "Authorization: Bearer $ticket" http://node-17:8000/v1/models)";
  verb.run = [=] { return Ticket(*arguments, *session); };
  return verb;
}

}  // namespace comera::client
