// Renders manual pages in roff and builds them from verbs and --help texts.

#include "client/cli/shell/man_page.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/version.h"
#include "unicode/utf8.h"

namespace comera::client {
namespace {

// Escapes roff's own characters and everything beyond ASCII.
std::string Escaped(const std::string& text) {
  std::string out;
  int32_t i = 0;
  const int32_t size = static_cast<int32_t>(text.size());
  while (i < size) {
    UChar32 character = 0;
    U8_NEXT(text.data(), i, size, character);
    if (character == '\\') {
      out += "\\e";
    } else if (character == '-') {
      out += "\\-";
    } else if (character == '\'') {
      out += "\\(aq";
    } else if (character == '`') {
      out += "\\(ga";
    } else if (character == '^') {
      out += "\\(ha";
    } else if (character == '~') {
      out += "\\(ti";
    } else if (character == '"') {
      out += "\\(dq";
    } else if (character < 0) {
      out += '?';
    } else if (character < 0x80) {
      out += static_cast<char>(character);
    } else {
      absl::StrAppendFormat(&out, "\\[u%04X]", character);
    }
  }
  return out;
}

// Escapes a line of text that would be taken for a roff request.
std::string TextLine(const std::string& text) {
  const std::string line = Escaped(text);
  return absl::StartsWith(line, ".") ? absl::StrCat("\\&", line) : line;
}

// Renders paragraphs; lines within one are filled.
std::string Paragraphs(const std::string& text) {
  std::string out;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::string stripped(absl::StripAsciiWhitespace(line));
    if (stripped.empty()) {
      if (!out.empty() && !absl::EndsWith(out, ".PP\n")) out += ".PP\n";
    } else {
      absl::StrAppend(&out, TextLine(stripped), "\n");
    }
  }
  while (absl::EndsWith(out, ".PP\n")) out.resize(out.size() - 4);
  return out;
}

// Renders lines verbatim.
std::string Verbatim(const std::string& text) {
  std::string out = ".nf\n";
  for (const absl::string_view line :
       absl::StrSplit(absl::StripTrailingAsciiWhitespace(text), '\n')) {
    absl::StrAppend(&out, line.empty() ? "\\&" : TextLine(std::string(line)),
                    "\n");
  }
  return out + ".fi\n";
}

std::string Terms(const std::string& title,
                  const std::vector<ManOption>& options) {
  if (options.empty()) return "";
  std::string out = absl::StrCat(".SH ", title, "\n");
  for (const ManOption& option : options) {
    absl::StrAppend(&out, ".TP\n\\fB", Escaped(option.term), "\\fR\n",
                    option.text.empty() ? "\\&\n" : Paragraphs(option.text));
  }
  return out;
}

// Returns, e.g., "-f, --follow" or "--rank N".
std::string Term(const Argument& argument) {
  std::string term = absl::StrReplaceAll(argument.name, {{",", ", "}});
  if (argument.is_flag()) {
    if (!argument.choices.empty()) {
      absl::StrAppend(&term, " ", absl::StrJoin(argument.choices, "|"));
    } else if (std::holds_alternative<int64_t*>(argument.target)) {
      absl::StrAppend(&term, " N");
    } else if (!std::holds_alternative<bool*>(argument.target)) {
      absl::StrAppend(&term, " TEXT");
    }
    return term;
  }
  return absl::AsciiStrToUpper(term);
}

std::string Explanation(const Argument& argument) {
  std::string text = argument.help;
  if (!argument.is_flag() && !argument.choices.empty()) {
    absl::StrAppend(&text, " (one of ", absl::StrJoin(argument.choices, ", "),
                    ")");
  }
  return text;
}

std::string VerbSynopsis(const Verb& verb) {
  std::string synopsis = absl::StrCat("comera ", verb.name, " [OPTIONS]");
  for (const Argument& argument : verb.arguments) {
    if (argument.is_flag()) continue;
    std::string word = absl::AsciiStrToUpper(argument.name);
    if (std::holds_alternative<std::vector<std::string>*>(argument.target)) {
      word += "...";
    }
    absl::StrAppend(&synopsis, " ",
                    argument.required ? word : absl::StrCat("[", word, "]"));
  }
  return synopsis;
}

std::vector<ManOption> OptionsOf(const std::vector<Argument>& arguments,
                                 bool flags) {
  std::vector<ManOption> options;
  for (const Argument& argument : arguments) {
    if (argument.is_flag() != flags) continue;
    options.push_back({Term(argument), Explanation(argument)});
  }
  return options;
}

const std::vector<ManOption>& Environment() {
  static const auto* variables = new std::vector<ManOption>{
      {"COMERA_SERVER", "Coordinator, host:port; of several, all, with commas"},
      {"COMERA_TOKEN, COMERA_TOKEN_FILE", "The token, or a file with it"},
      {"COMERA_CA, COMERA_CERT, COMERA_KEY",
       "As --ca, --cert and --key, which are stronger"},
      {"NO_COLOR", "Not empty: no colours"},
      {"CLICOLOR_FORCE", "Not empty and not 0: colours also into pipes"},
      {"TERM", "dumb: no colours, nothing is updated in place"},
  };
  return *variables;
}

const std::vector<ManOption>& ExitStatus() {
  static const auto* codes = new std::vector<ManOption>{
      {"0", "Done; of a job: it met its targets or completed"},
      {"1", "Error on this side, or refused by the coordinator"},
      {"2", "Usage"},
      {"3", "The coordinator cannot be reached"},
      {"4", "Not allowed"},
      {"5", "No such job, model, ..."},
      {"100", "The job failed"},
      {"101", "comera wait: not ended in time"},
      {"103", "The job was cancelled"},
      {"104", "The job missed a target"},
      {"130", "Ctrl-C; the job goes on"},
  };
  return *codes;
}

std::string FirstLine(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

std::string Roff(const ManPage& page) {
  std::string out = absl::StrFormat(
      ".\\\" Generated from --help.\n.TH %s %d \"\" \"comera %s\" \"comera "
      "manual\"\n.SH NAME\n%s \\- %s\n",
      Escaped(absl::AsciiStrToUpper(page.name)), page.section,
      Escaped(std::string(kVersion)), Escaped(page.name),
      Escaped(page.summary));
  if (!page.synopsis.empty()) {
    absl::StrAppend(&out, ".SH SYNOPSIS\n.B ", Escaped(page.synopsis), "\n");
  }
  if (!page.description.empty()) {
    absl::StrAppend(&out, ".SH DESCRIPTION\n", Paragraphs(page.description));
  }
  absl::StrAppend(&out, Terms("COMMANDS", page.verbs),
                  Terms("ARGUMENTS", page.arguments),
                  Terms("OPTIONS", page.options),
                  Terms("GLOBAL OPTIONS", page.global_options));
  if (!page.examples.empty()) {
    absl::StrAppend(&out, ".SH EXAMPLES\n", Verbatim(page.examples));
  }
  absl::StrAppend(&out, Terms("ENVIRONMENT", page.environment),
                  Terms("EXIT STATUS", page.exit_status));
  if (!page.see_also.empty()) {
    std::vector<std::string> names;
    for (const std::string& name : page.see_also) {
      const size_t paren = name.find('(');
      names.push_back(absl::StrCat("\\fB", Escaped(name.substr(0, paren)),
                                   "\\fR", name.substr(paren)));
    }
    absl::StrAppend(&out, ".SH SEE ALSO\n", absl::StrJoin(names, ", "), "\n");
  }
  return out;
}

std::vector<ManPage> CliPages(const std::vector<Verb>& verbs,
                              const std::vector<Argument>& globals) {
  std::vector<ManPage> pages;
  ManPage main;
  main.name = "comera";
  main.summary = "training towards a target loss and a target size";
  main.synopsis = "comera [OPTIONS] VERB [ARGUMENTS]";
  main.description =
      "Submits training jobs to a coordinator, comera-server(8), or runs them "
      "on this machine, and follows them to their targets.\n\nResults go to "
      "standard output, notes to standard error. Global options may stand "
      "before or behind the verb. `comera VERB --help` and comera-VERB(1) tell "
      "about each verb.";
  main.options = OptionsOf(globals, /*flags=*/true);
  main.environment = Environment();
  main.exit_status = ExitStatus();
  for (const Verb& verb : verbs) {
    main.verbs.push_back({verb.name, FirstLine(verb.help)});
    main.see_also.push_back(absl::StrCat("comera-", verb.name, "(1)"));
  }
  for (const char* other :
       {"comera-trainer(1)", "comera-server(8)", "comera-worker(8)"}) {
    main.see_also.push_back(other);
  }
  pages.push_back(main);
  for (const Verb& verb : verbs) {
    ManPage page;
    page.name = absl::StrCat("comera-", verb.name);
    page.summary = FirstLine(verb.help);
    page.synopsis = VerbSynopsis(verb);
    if (page.summary != verb.help) page.description = verb.help;
    page.arguments = OptionsOf(verb.arguments, /*flags=*/false);
    page.options = OptionsOf(verb.arguments, /*flags=*/true);
    page.global_options = main.options;
    page.examples = verb.examples;
    page.environment = main.environment;
    page.exit_status = main.exit_status;
    page.see_also = {"comera(1)"};
    pages.push_back(std::move(page));
  }
  return pages;
}

ManPage PageFromHelp(const std::string& name, int section,
                     const std::string& help) {
  constexpr size_t kTextColumn = 30;
  ManPage page;
  page.name = name;
  page.section = section;
  page.synopsis = absl::StrCat(name, " [OPTIONS]");
  page.see_also = {"comera(1)"};
  bool options = false;
  for (const absl::string_view view : absl::StrSplit(help, '\n')) {
    const std::string line(view);
    if (absl::StartsWith(line, "Options:")) {
      options = true;
    } else if (!options) {
      if (absl::StartsWith(line, "Usage:")) continue;
      absl::StrAppend(&page.description, line, "\n");
    } else if (absl::StartsWith(line, "  -")) {
      // The text begins in its column, or on the next line.
      const size_t gap = line.find("  ", 2);
      const bool apart = gap != std::string::npos && gap < kTextColumn;
      page.options.push_back(
          {line.substr(2, apart ? gap - 2 : std::string::npos),
           std::string(absl::StripAsciiWhitespace(apart ? line.substr(gap)
                                                        : std::string()))});
    } else if (!page.options.empty()) {
      std::string& text = page.options.back().text;
      const absl::string_view more = absl::StripAsciiWhitespace(line);
      if (more.empty()) continue;
      absl::StrAppend(&text, text.empty() ? "" : "\n", more);
    }
  }
  page.description = std::string(absl::StripAsciiWhitespace(page.description));
  page.summary = FirstLine(page.description);
  while (absl::EndsWith(page.summary, ".")) page.summary.pop_back();
  return page;
}

}  // namespace comera::client
