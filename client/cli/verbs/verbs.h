// All verbs, each in a file of its own.
#ifndef COMERA_CLIENT_CLI_VERBS_VERBS_H_
#define COMERA_CLIENT_CLI_VERBS_VERBS_H_

#include <functional>
#include <string>
#include <vector>

#include "client/cli/session/session.h"
#include "client/cli/session/verb.h"

namespace comera::client {

// `session` outlives the verb and is filled when the verb runs.
Verb RunVerb(Session* session);
Verb SubmitVerb(Session* session);
Verb ValidateVerb(Session* session);
Verb DescribeVerb(Session* session);
Verb LsVerb(Session* session);
Verb GetVerb(Session* session);
Verb WatchVerb(Session* session);
Verb LogsVerb(Session* session);
Verb WaitVerb(Session* session);
Verb CancelVerb(Session* session);
Verb DeleteVerb(Session* session);
Verb PauseVerb(Session* session);
Verb ResumeVerb(Session* session);
Verb ExplainVerb(Session* session);
Verb TopVerb(Session* session);
Verb WorkersVerb(Session* session);
Verb DrainVerb(Session* session);
Verb ResumeWorkerVerb(Session* session);
Verb QueuesVerb(Session* session);
Verb ModelsVerb(Session* session);
Verb DataVerb(Session* session);
Verb DatasetsVerb(Session* session);
Verb CheckpointsVerb(Session* session);
Verb BackupVerb(Session* session);
Verb SweepVerb(Session* session);
Verb ParetoVerb(Session* session);
Verb EvaluateVerb(Session* session);
Verb PredictVerb(Session* session);
Verb GenerateVerb(Session* session);
Verb ExportVerb(Session* session);
Verb VersionVerb(Session* session);
Verb LoginVerb(Session* session);
Verb WhoAmIVerb(Session* session);
Verb TicketVerb(Session* session);
Verb TokenVerb(Session* session);
Verb AuditVerb(Session* session);
Verb CompletionVerb(Session* session);
// `verbs` and `globals`, the global flags, are filled when the verb runs.
// `text_of` returns the help of a verb, or for "" that of all.
Verb HelpVerb(Session* session, const std::vector<Verb>* verbs,
              const std::vector<Argument>* globals,
              std::function<std::string(const std::string& verb)> text_of);

// Runs `comera __complete`, which answers completion scripts (complete.h).
// Returns the exit code.
int CompleteLine(Session* session, const std::vector<Verb>& verbs,
                 const std::vector<Argument>& globals,
                 const std::vector<std::string>& words);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_VERBS_VERBS_H_
