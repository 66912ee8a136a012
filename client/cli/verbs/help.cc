// comera help: prints the help of verbs, and the manual pages made from it.
#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/shell/man_page.h"
#include "client/cli/verbs/verbs.h"
#include "common/files.h"
#include "common/suggest.h"

namespace comera::client {
namespace {

constexpr char kExamples[] = R"(  comera help
  comera help watch
  comera help --man ./man1     # writes comera.1, comera-watch.1, ...)";

struct Arguments {
  std::string verb;
  std::string man;
};

int WritePages(const std::string& folder, const Session& session,
               const std::vector<Verb>& verbs,
               const std::vector<Argument>& globals) {
  absl::Status status = MakeDirectories(folder);
  for (const ManPage& page : CliPages(verbs, globals)) {
    if (!status.ok()) break;
    status = WriteFileAtomically(
        absl::StrCat(folder, "/", page.name, ".", page.section), Roff(page));
  }
  if (!status.ok()) {
    return session.Fail(std::string(status.message()), kExitClientError);
  }
  session.Note(absl::StrCat(verbs.size() + 1, " pages written to ", folder));
  return kExitOk;
}

}  // namespace

Verb HelpVerb(Session* session, const std::vector<Verb>* verbs,
              const std::vector<Argument>* globals,
              std::function<std::string(const std::string& verb)> text_of) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {
      "help", "Show the help of a verb, or write manual pages", {}, nullptr};
  verb.arguments = {
      {"verb", "Which (all)", &arguments->verb, false, {}, Names::kVerb},
      {"--man",
       "Write a manual page for each verb into this folder",
       &arguments->man,
       false,
       {}},
  };
  verb.examples = kExamples;
  verb.run = [=]() -> int {
    if (!arguments->man.empty()) {
      return WritePages(arguments->man, *session, *verbs, *globals);
    }
    std::vector<std::string> names;
    for (const Verb& known : *verbs) names.push_back(known.name);
    if (!arguments->verb.empty() &&
        std::find(names.begin(), names.end(), arguments->verb) == names.end()) {
      return session->Fail(
          absl::StrCat("unknown verb `", Printable(arguments->verb), "`",
                       DidYouMean(arguments->verb, names)),
          kExitUsage);
    }
    *session->env.out << text_of(arguments->verb) << std::flush;
    return kExitOk;
  };
  return verb;
}

}  // namespace comera::client
