// comera completion: scripts that complete verbs and flags in shells.
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/exit_codes.h"
#include "client/cli/verbs.h"

namespace comera::client {
namespace {

using Verbs = std::vector<Verb>;
using Arguments = std::vector<Argument>;

// "--rank --epoch -f --follow".
std::string Flags(const Arguments& arguments) {
  std::vector<std::string> flags;
  for (const Argument& argument : arguments) {
    if (!argument.is_flag()) continue;
    std::string name = argument.name;
    for (char& c : name) c = c == ',' ? ' ' : c;
    flags.push_back(name);
  }
  return absl::StrJoin(flags, " ");
}

std::string Names(const Verbs& verbs) {
  std::vector<std::string> names;
  for (const Verb& verb : verbs) names.push_back(verb.name);
  return absl::StrJoin(names, " ");
}

bool TakesFile(const Verb& verb) {
  return !verb.arguments.empty() && verb.arguments[0].name == "file";
}

std::string Bash(const Verbs& verbs, const Arguments& globals) {
  std::string script = absl::StrCat(
      "_comera() {\n"
      "  local word=\"${COMP_WORDS[COMP_CWORD]}\" verb= flags= w\n"
      "  for w in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    [[ \" ",
      Names(verbs),
      " \" == *\" $w \"* ]] && { verb=\"$w\"; break; }\n"
      "  done\n"
      "  case \"$verb\" in\n"
      "    '') COMPREPLY=($(compgen -W '",
      Names(verbs), " ", Flags(globals), "' -- \"$word\")); return;;\n");
  for (const Verb& verb : verbs) {
    absl::StrAppend(&script, "    ", verb.name, ") flags='",
                    Flags(verb.arguments), "';;\n");
  }
  absl::StrAppend(&script,
                  "  esac\n"
                  "  if [[ $word == -* ]]; then\n"
                  "    COMPREPLY=($(compgen -W \"$flags ",
                  Flags(globals),
                  " --help\" -- \"$word\"))\n"
                  "  else\n"
                  "    COMPREPLY=($(compgen -f -- \"$word\"))\n"
                  "  fi\n"
                  "}\n"
                  "complete -o filenames -F _comera comera\n");
  return script;
}

std::string Zsh(const Verbs& verbs, const Arguments& globals) {
  return absl::StrCat("#compdef comera\nautoload -U +X bashcompinit\n",
                      "bashcompinit\n", Bash(verbs, globals));
}

std::string FishFlags(const Arguments& arguments,
                      const std::string& condition) {
  std::string script;
  for (const Argument& argument : arguments) {
    if (!argument.is_flag()) continue;
    const size_t comma = argument.name.find(',');
    const size_t dashes = argument.name.find("--");
    absl::StrAppend(&script, "complete -c comera ", condition, "-l ",
                    argument.name.substr(dashes + 2));
    if (comma != std::string::npos) {
      absl::StrAppend(&script, " -s ", argument.name.substr(1, comma - 1));
    }
    if (!argument.choices.empty()) {
      absl::StrAppend(&script, " -xa '", absl::StrJoin(argument.choices, " "),
                      "'");
    }
    absl::StrAppend(&script, " -d \"", argument.help, "\"\n");
  }
  return script;
}

std::string Fish(const Verbs& verbs, const Arguments& globals) {
  std::string script = "complete -c comera -f\n";
  absl::StrAppend(&script, FishFlags(globals, ""));
  for (const Verb& verb : verbs) {
    absl::StrAppend(&script, "complete -c comera -n __fish_use_subcommand -a ",
                    verb.name, " -d \"", verb.help, "\"\n");
    const std::string condition =
        absl::StrCat("-n '__fish_seen_subcommand_from ", verb.name, "' ");
    if (TakesFile(verb)) {
      absl::StrAppend(&script, "complete -c comera ", condition, "-F\n");
    }
    absl::StrAppend(&script, FishFlags(verb.arguments, condition));
  }
  return script;
}

}  // namespace

Verb CompletionVerb(Session* session, const std::vector<Verb>* verbs,
                    const std::vector<Argument>* globals) {
  auto shell = std::make_shared<std::string>();
  Verb verb = {
      "completion", "Print a completion script for a shell", {}, nullptr};
  verb.arguments.push_back({"shell",
                            "bash, zsh or fish",
                            shell.get(),
                            true,
                            {"bash", "zsh", "fish"}});
  verb.run = [=]() -> int {
    *session->env.out << (*shell == "bash"  ? Bash(*verbs, *globals)
                          : *shell == "zsh" ? Zsh(*verbs, *globals)
                                            : Fish(*verbs, *globals))
                      << std::flush;
    return kExitOk;
  };
  return verb;
}

}  // namespace comera::client
