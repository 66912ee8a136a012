// comera backup: makes and verifies copies of the coordinator's store.
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/backup_file.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/verbs/verbs.h"
#include "common/json.h"

namespace comera::client {
namespace {

struct Arguments {
  std::string action;
  std::string file;
};

int Backup(const Arguments& arguments, const Session& session) {
  if (arguments.action == "create") {
    const absl::Status status = session.Connect()->CreateBackup(arguments.file);
    if (!status.ok()) return session.FailRpc(status);
  }
  const absl::StatusOr<BackupContents> contents = VerifyBackup(arguments.file);
  if (!contents.ok()) {
    return session.Fail(std::string(contents.status().message()),
                        kExitClientError);
  }
  const nlohmann::ordered_json figures = {
      {"file", arguments.file},
      {"jobs", contents->jobs},
      {"events", contents->events},
      {"schema_version", contents->schema_version}};
  switch (session.output) {
    case OutputFormat::kJson:
      *session.env.out << JsonText(figures) << std::endl;
      break;
    case OutputFormat::kYaml:
      for (const auto& [name, value] : figures.items()) {
        *session.env.out << name << ": " << JsonText(value) << std::endl;
      }
      break;
    case OutputFormat::kTable:
      *session.env.out << arguments.file << " holds " << contents->jobs
                       << " jobs with " << contents->events << " events"
                       << std::endl;
      break;
  }
  return kExitOk;
}

}  // namespace

Verb BackupVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {"backup",
               "Copy the coordinator's store to a file, or check such a file",
               {},
               nullptr};
  verb.arguments = {
      {"action",
       "create (administrators) or verify",
       &arguments->action,
       true,
       {"create", "verify"}},
      {"file", "The backup", &arguments->file, true, {}},
  };
  verb.examples =
      R"(  comera backup create jobs.backup
  comera backup verify jobs.backup

comera-server --restore=FILE reads it.)";
  verb.run = [=] { return Backup(*arguments, *session); };
  return verb;
}

}  // namespace comera::client
