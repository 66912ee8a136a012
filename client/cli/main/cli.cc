// Parses the command line with CLI11 and runs the chosen verb.

#include "client/cli/main/cli.h"

#include "CLI/CLI.hpp"
#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/verb.h"
#include "client/cli/verbs/verbs.h"
#include "common/suggest.h"
#include "common/version.h"

namespace comera::client {
namespace {

// Global flags as typed; copied to the session after parsing.
struct GlobalText {
  std::string output = "table";
  std::string timeout;
  std::string columns;
};

std::vector<Argument> GlobalArguments(Session* session, GlobalText* text) {
  return {
      {"--server",
       "Coordinator, host:port; of several, all, with commas (else "
       "COMERA_SERVER)",
       &session->server,
       false,
       {}},
      {"--ca",
       "Authority of the coordinator's certificate: PEM file, or system (else "
       "COMERA_CA); turns TLS on",
       &session->ca,
       false,
       {}},
      {"--cert",
       "Own certificate, PEM file (else COMERA_CERT)",
       &session->certificate,
       false,
       {}},
      {"--key", "Its key (else COMERA_KEY)", &session->key, false, {}},
      {"--token-file",
       "File with the token (else COMERA_TOKEN, COMERA_TOKEN_FILE)",
       &session->token_file,
       false,
       {}},
      {"--insecure-token",
       "Send the token unencrypted beyond this machine",
       &session->insecure_token,
       false,
       {}},
      {"--timeout",
       "Limit of a call, e.g. 30s (wait: of the whole wait)",
       &text->timeout,
       false,
       {}},
      {"-o,--output",
       "Format of results; wide: a table that does not fit the terminal",
       &text->output,
       false,
       {"table", "wide", "json", "yaml"}},
      {"--columns",
       "Of tables, only these, in this order, e.g. id,state",
       &text->columns,
       false,
       {}},
      {"--no-headers",
       "Tables without their first line",
       &session->no_headers,
       false,
       {}},
      {"--color",
       "Colours (auto: on a terminal, unless NO_COLOR is set)",
       &session->color,
       false,
       {"auto", "always", "never"}},
      {"-v,--verbose", "More notes on stderr", &session->verbose, false, {}},
  };
}

void AddArgument(CLI::App* app, const Argument& argument) {
  CLI::Option* option = std::visit(
      [&](auto* target) -> CLI::Option* {
        if constexpr (std::is_same_v<decltype(target), bool*>) {
          return app->add_flag(argument.name, *target, argument.help);
        } else {
          return app->add_option(argument.name, *target, argument.help);
        }
      },
      argument.target);
  if (std::holds_alternative<std::vector<std::string>*>(argument.target) &&
      argument.is_flag()) {
    // Takes one value per mention, so that words after it remain arguments.
    option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
  if (argument.required) option->required();
  if (argument.choices.empty()) return;
  option->check(CLI::Validator(
      [choices = argument.choices](const std::string& value) {
        if (absl::c_linear_search(choices, value)) return std::string();
        return absl::StrCat(value, " is none of ", absl::StrJoin(choices, ", "),
                            DidYouMean(value, choices));
      },
      absl::StrCat("{", absl::StrJoin(argument.choices, ","), "}")));
}

// The library's words about a flag's value, as this program says things.
std::string PlainError(const CLI::ParseError& error) {
  const std::string text = error.what();
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "Could not convert: ")) {
    const std::vector<absl::string_view> parts =
        absl::StrSplit(rest, absl::MaxSplits(" = ", 1));
    if (parts.size() == 2) {
      return absl::StrCat(parts[0], ": ", parts[1], " is no whole number");
    }
  }
  if (absl::ConsumeSuffix(&rest, ": 1 required TEXT missing") ||
      absl::ConsumeSuffix(&rest, ": 1 required INT missing")) {
    return absl::StrCat(rest, " needs a value");
  }
  return text;
}

// Adds the flags' former names, which --help does not show.
void AddFormerNames(const Session* session, CLI::App* app,
                    const Argument& argument) {
  for (const std::string& former : argument.former_names) {
    Argument alias = argument;
    alias.name = former;
    AddArgument(app, alias);
    app->get_option(former)->group("")->each(
        [=, current = argument.name](const std::string&) {
          session->Note(absl::StrCat(former, " is now called ", current,
                                     "; the old name is still read"));
        });
  }
}

std::vector<std::string> LongNames(const std::vector<Argument>& arguments) {
  std::vector<std::string> names;
  for (const Argument& argument : arguments) {
    if (!argument.is_flag()) continue;
    names.push_back(argument.name.substr(argument.name.find("--")));
  }
  return names;
}

// The message about an argument that no verb accepts.
std::string UnknownArgument(const std::string& word, const Verb* verb,
                            const std::vector<Verb>& verbs,
                            const std::vector<Argument>& globals) {
  if (word[0] == '-') {
    std::vector<std::string> flags = LongNames(globals);
    if (verb != nullptr) {
      const auto own = LongNames(verb->arguments);
      flags.insert(flags.end(), own.begin(), own.end());
    }
    const std::string name = word.substr(0, word.find('='));
    return absl::StrCat("unknown flag `", name, "`", DidYouMean(name, flags));
  }
  if (verb != nullptr) return absl::StrCat("unexpected argument `", word, "`");
  std::vector<std::string> names;
  for (const Verb& known : verbs) names.push_back(known.name);
  return absl::StrCat("unknown verb `", word, "`", DidYouMean(word, names));
}

bool ApplyGlobals(const GlobalText& text, Session* session) {
  session->timeout_text = text.timeout;
  if (text.output == "json") session->output = OutputFormat::kJson;
  if (text.output == "yaml") session->output = OutputFormat::kYaml;
  session->wide = text.output == "wide";
  session->columns = absl::StrSplit(text.columns, ',', absl::SkipEmpty());
  if (text.timeout.empty()) return true;
  return absl::ParseDuration(text.timeout, &session->timeout) &&
         session->timeout > absl::ZeroDuration();
}

}  // namespace

int RunCli(const std::vector<std::string>& args,
           const Environment& environment) {
  Session session(environment);
  GlobalText text;
  const std::vector<Argument> globals = GlobalArguments(&session, &text);
  std::vector<Verb> verbs = {
      RunVerb(&session),      SubmitVerb(&session),      ValidateVerb(&session),
      DescribeVerb(&session), LsVerb(&session),          GetVerb(&session),
      WatchVerb(&session),    LogsVerb(&session),        WaitVerb(&session),
      CancelVerb(&session),   ModelsVerb(&session),      VersionVerb(&session),
      DatasetsVerb(&session), CheckpointsVerb(&session), BackupVerb(&session),
      SweepVerb(&session),    ParetoVerb(&session)};
  for (auto make :
       {PauseVerb, ResumeVerb, DeleteVerb, ExplainVerb, TopVerb, WorkersVerb,
        DrainVerb, ResumeWorkerVerb, ExportVerb, QueuesVerb, LoginVerb,
        WhoAmIVerb, TokenVerb, TicketVerb, EvaluateVerb, PredictVerb,
        GenerateVerb, DataVerb, AuditVerb}) {
    verbs.push_back(make(&session));
  }
  verbs.push_back(CompletionVerb(&session));
  CLI::App app("comera: training towards a target loss and a target size",
               "comera");
  std::string help_of_all;
  verbs.push_back(
      HelpVerb(&session, &verbs, &globals, [&](const std::string& verb) {
        return verb.empty() ? help_of_all
                            : app.get_subcommand(verb)->help("comera");
      }));
  if (!args.empty() && args[0] == "__complete") {
    return CompleteLine(&session, verbs, globals,
                        {args.begin() + 1, args.end()});
  }

  app.require_subcommand(1);
  app.set_version_flag("--version", absl::StrCat("comera ", kVersion));
  for (const Argument& argument : globals) AddArgument(&app, argument);
  for (const Verb& verb : verbs) {
    CLI::App* sub = app.add_subcommand(verb.name, verb.help);
    // Allows global flags after the verb.
    sub->fallthrough();
    for (const Argument& argument : verb.arguments) {
      AddArgument(sub, argument);
      AddFormerNames(&session, sub, argument);
    }
    if (!verb.examples.empty()) sub->footer("Examples:\n" + verb.examples);
  }
  // After a verb is parsed, help() is that verb's.
  help_of_all = app.help();
  const auto chosen = [&]() -> const Verb* {
    for (const Verb& verb : verbs) {
      if (app.got_subcommand(verb.name)) return &verb;
    }
    return nullptr;
  };

  if (args.empty()) {
    *environment.err << help_of_all;
    return kExitUsage;
  }
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      return app.exit(error, *environment.out, *environment.err);
    }
    const std::vector<std::string> unknown = app.remaining(true);
    const std::string message =
        unknown.empty()
            ? PlainError(error)
            : UnknownArgument(unknown.front(), chosen(), verbs, globals);
    return session.Fail(absl::StrCat(message, "; see comera --help"),
                        kExitUsage);
  }
  if (!ApplyGlobals(text, &session)) {
    return session.Fail(
        absl::StrCat("--timeout ", text.timeout, " is no duration above 0"),
        kExitUsage);
  }
  return chosen()->run();
}

}  // namespace comera::client
