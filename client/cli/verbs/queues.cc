// comera queues: lists, creates, changes and deletes queues.
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/verbs/verbs.h"
#include "proto/resource_names.h"

namespace comera::client {
namespace {

// Stands for a number that was not given.
constexpr int64_t kNone = std::numeric_limits<int64_t>::min();

struct Arguments {
  std::string action = "list";
  std::string queue;
  int64_t guaranteed = kNone;
  int64_t max = kNone;
  std::string weight;
  std::string borrowing;
  std::string programs;
};

int PrintQueues(const std::vector<v1::Queue>& queues, const Session& session) {
  double weights = 0;
  int64_t processes = 0;
  for (const v1::Queue& queue : queues) {
    weights += queue.weight();
    processes += queue.running_processes();
  }
  std::vector<std::vector<std::string>> rows = {
      {"QUEUE", "GUARANTEED", "MAX", "BORROWS", "WEIGHT", "SHARE", "PROGRAMS",
       "USED", "RUNNING", "QUEUED"}};
  const auto percent = [](double part, double whole) {
    return whole > 0
               ? absl::StrCat(static_cast<int>(100 * part / whole + 0.5), "%")
               : std::string("-");
  };
  for (const v1::Queue& queue : queues) {
    rows.push_back(
        {LastSegment(queue.name()), absl::StrCat(queue.guaranteed_processes()),
         queue.max_processes() > 0 ? absl::StrCat(queue.max_processes()) : "-",
         queue.borrowing() ? "yes" : "no", FormatFigure(queue.weight()),
         percent(queue.weight(), weights),
         queue.program_role() == v1::ROLE_USER ? "users" : "admins",
         percent(queue.running_processes(), static_cast<double>(processes)),
         absl::StrCat(queue.running_jobs(), " (", queue.running_processes(),
                      " processes)"),
         absl::StrCat(queue.queued_jobs(), " (", queue.queued_processes(),
                      " processes)")});
  }
  return session.PrintTable(rows,
                            {"PROGRAMS", "SHARE", "BORROWS", "WEIGHT", "USED"});
}

int List(const Session& session) {
  const auto queues = session.Connect()->ListQueues();
  if (!queues.ok()) return session.FailRpc(queues.status());
  if (session.output == OutputFormat::kTable) {
    return PrintQueues(*queues, session);
  }
  v1::ListQueuesResponse response;
  for (const v1::Queue& queue : *queues) *response.add_queues() = queue;
  session.Print(response, /*one_line=*/false);
  return kExitOk;
}

// The fields that were given, or an error if their values are wrong.
absl::StatusOr<std::vector<std::string>> Fields(const Arguments& arguments,
                                                v1::Queue* queue) {
  std::vector<std::string> fields;
  constexpr int64_t kMost = 1 << 30;
  for (const auto& [flag, value] :
       {std::pair("--guaranteed", arguments.guaranteed),
        std::pair("--max", arguments.max)}) {
    if (value == kNone || (value >= 0 && value <= kMost)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " must be 0 to ", kMost, ", not ", value));
  }
  if (arguments.guaranteed != kNone) {
    queue->set_guaranteed_processes(static_cast<int32_t>(arguments.guaranteed));
    fields.push_back("guaranteed_processes");
  }
  if (arguments.max != kNone) {
    queue->set_max_processes(static_cast<int32_t>(arguments.max));
    fields.push_back("max_processes");
  }
  if (!arguments.weight.empty()) {
    double weight = 0;
    if (!absl::SimpleAtod(arguments.weight, &weight)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--weight ", Printable(arguments.weight), " is no number"));
    }
    queue->set_weight(weight);
    fields.push_back("weight");
  }
  if (!arguments.borrowing.empty()) {
    queue->set_borrowing(arguments.borrowing == "yes");
    fields.push_back("borrowing");
  }
  if (!arguments.programs.empty()) {
    queue->set_program_role(arguments.programs == "user" ? v1::ROLE_USER
                                                         : v1::ROLE_ADMIN);
    fields.push_back("program_role");
  }
  return fields;
}

int Queues(const Arguments& arguments, const Session& session) {
  if (arguments.action == "list") return List(session);
  const std::string name = arguments.queue.rfind("queues/", 0) == 0
                               ? arguments.queue
                               : QueueName(arguments.queue);
  const auto id = ParseQueueName(name);
  if (!id) {
    return session.Fail(
        absl::StrCat("`", Printable(arguments.queue),
                     "` is no queue's name ([a-z0-9-], at most 63)"),
        kExitUsage);
  }
  v1::Queue queue;
  queue.set_name(name);
  const auto fields = Fields(arguments, &queue);
  if (!fields.ok()) {
    return session.Fail(std::string(fields.status().message()), kExitUsage);
  }
  const auto client = session.Connect();
  if (arguments.action == "delete") {
    const absl::Status status = client->DeleteQueue(name);
    if (!status.ok()) return session.FailRpc(status);
    session.Note(absl::StrCat(name, " is deleted"));
    return kExitOk;
  }
  if (arguments.action == "update" && fields->empty()) {
    return session.Fail("name what to change: --guaranteed, --max, ...",
                        kExitUsage);
  }
  const auto made = arguments.action == "create"
                        ? client->CreateQueue(*id, queue)
                        : client->UpdateQueue(queue, *fields);
  if (!made.ok()) return session.FailRpc(made.status());
  if (session.output == OutputFormat::kTable) {
    return PrintQueues({*made}, session);
  }
  session.Print(*made, /*one_line=*/false);
  return kExitOk;
}

}  // namespace

Verb QueuesVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {"queues", "List, create, update or delete queues", {}, nullptr};
  verb.arguments = {
      {"action",
       "What to do (list)",
       &arguments->action,
       false,
       {"list", "create", "update", "delete"}},
      {"queue", "Queue's name", &arguments->queue, false, {}},
      {"--guaranteed",
       "Processes that it always gets back",
       &arguments->guaranteed,
       false,
       {}},
      {"--max", "Processes at most (0: no limit)", &arguments->max, false, {}},
      {"--weight",
       "Share of the slots that no queue is guaranteed (1)",
       &arguments->weight,
       false,
       {}},
      {"--borrowing",
       "Whether it may use more than its guarantee",
       &arguments->borrowing,
       false,
       {"yes", "no"}},
      {"--programs",
       "Who may submit jobs with a program of their own (admin)",
       &arguments->programs,
       false,
       {"user", "admin"}},
  };
  verb.examples =
      R"(  comera queues
  comera queues create vision --guaranteed 16 --max 64
  comera queues update vision --weight 2 --borrowing no
  comera queues delete vision)";
  verb.run = [=] { return Queues(*arguments, *session); };
  return verb;
}

}  // namespace comera::client
