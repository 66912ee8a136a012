// comera data prepare: tokenises text into token shards on this machine.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/cli/live/transfer_bar.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/interrupts.h"
#include "client/cli/session/temporary_file.h"
#include "client/cli/verbs/data_preparer.h"
#include "client/cli/verbs/model_use.h"
#include "client/cli/verbs/verbs.h"
#include "common/json.h"
#include "common/status_macros.h"

namespace comera::client {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr char kExamples[] =
    R"(  comera data prepare corpus/*.jsonl.zst --to shards --vocabulary 32000
  comera data prepare books.csv --field body --to more --tokenizer shards/tokenizer
  zcat dump.gz | comera data prepare - --to piped --tokenizer tokenizer.json

In a job file: data: {token_shards: {train: /FOLDER}}. Files are read as their
names end: .jsonl (a JSON object per line), .csv (with a header line), else plain
text, each with or without .gz or .zst. What is interrupted goes on when the same
command is run again.)";

constexpr char kStandardInput[] = "-";

struct Arguments {
  std::string action;
  std::vector<std::string> sources;
  std::string to;
  std::string tokenizer;
  int64_t vocabulary = 0;
  std::string kind;
  std::string field;
  std::string separator;
  std::string format;
  int64_t threads = 0;
  int64_t max_bad_rows = 0;
  bool deduplicate = false;
  bool force = false;
  std::string trainer;
};

// One invocation of the verb.
class Command {
 public:
  Command(const Arguments& arguments, const Session& session)
      : arguments_(arguments), session_(session) {}

  int Run() {
    const std::string problem = Problem();
    if (!problem.empty()) return session_.Fail(problem, kExitUsage);
    const auto trainer = FindTrainer(arguments_.trainer, session_);
    if (!trainer.ok()) return FailModelUse(trainer.status(), session_);
    const auto request = TemporaryFile::Create(JsonText(Request()));
    if (!request.ok()) return FailModelUse(request.status(), session_);
    const auto preparer = DataPreparer::Start(
        {*trainer, absl::StrCat("--prepare-data=", (*request)->path())},
        pipes());
    if (!preparer.ok()) return FailModelUse(preparer.status(), session_);
    absl::Status status;
    {
      // Standard input begins anew in any case, and may keep the program from
      // seeing that it is asked to stop.
      Interrupts interrupts([&] { (*preparer)->Stop(/*at_once=*/pipes()); });
      status = Follow(preparer->get());
      if (interrupts.happened() && !status.ok()) {
        return session_.Fail(
            pipes() ? "interrupted"
                    : "interrupted; the same command goes on where this one "
                      "stopped",
            kExitInterrupted);
      }
    }
    if (!status.ok()) {
      return session_.Fail(Printable(std::string(status.message())),
                           kExitClientError);
    }
    return kExitOk;
  }

 private:
  bool pipes() const {
    return !arguments_.sources.empty() &&
           arguments_.sources[0] == kStandardInput;
  }

  // What is wrong with the arguments; "" if nothing is.
  std::string Problem() const {
    if (arguments_.sources.empty()) {
      return "data prepare: which files? (- reads standard input)";
    }
    if (arguments_.to.empty()) return "data prepare: --to FOLDER is missing";
    if (arguments_.threads < 0 || arguments_.threads > 1024) {
      return "--threads: 1 to 1024, or 0 for all processors";
    }
    if (arguments_.max_bad_rows < 0) return "--max-bad-rows: at least 0";
    if (!arguments_.format.empty() && !pipes()) {
      return "--format is for standard input; files are read as their names "
             "end";
    }
    const bool trains = arguments_.vocabulary != 0 || !arguments_.kind.empty();
    if (!arguments_.tokenizer.empty()) {
      return trains ? "--tokenizer excludes --vocabulary and --kind" : "";
    }
    if (!trains) {
      return "data prepare: --tokenizer FILE_OR_FOLDER, or --vocabulary SIZE "
             "to train one";
    }
    if (pipes()) {
      return "-: standard input is read only once, so a vocabulary cannot be "
             "trained on it; --tokenizer names one";
    }
    if (arguments_.kind == "characters") {
      return arguments_.vocabulary != 0
                 ? "--vocabulary: characters have the vocabulary of the text"
                 : "";
    }
    if (arguments_.vocabulary < 300 || arguments_.vocabulary > 65536) {
      return "--vocabulary: 300 to 65536";
    }
    return "";
  }

  std::string Absolute(const std::string& path) const {
    if (path.empty() || path[0] == '/' || path == kStandardInput ||
        absl::StrContains(path, "://")) {
      return path;
    }
    return absl::StrCat(session_.env.working_folder, "/", path);
  }

  OrderedJson Request() const {
    OrderedJson sources = OrderedJson::array();
    for (const std::string& source : arguments_.sources) {
      sources.push_back(Absolute(source));
    }
    OrderedJson request = {{"sources", sources},
                           {"to", Absolute(arguments_.to)},
                           {"max_bad_rows", arguments_.max_bad_rows},
                           {"deduplicate", arguments_.deduplicate},
                           {"force", arguments_.force}};
    const std::pair<const char*, const std::string&> texts[] = {
        {"field", arguments_.field},
        {"separator", arguments_.separator},
        {"standard_input", arguments_.format}};
    for (const auto& [key, text] : texts) {
      if (!text.empty()) request[key] = text;
    }
    if (arguments_.threads > 0) request["threads"] = arguments_.threads;
    if (!arguments_.tokenizer.empty()) {
      request["tokenizer"] = Absolute(arguments_.tokenizer);
      return request;
    }
    request["kind"] = arguments_.kind.empty() ? "byte_bpe" : arguments_.kind;
    if (arguments_.vocabulary > 0)
      request["vocabulary"] = arguments_.vocabulary;
    return request;
  }

  // Shows what the program says until it ends.
  absl::Status Follow(DataPreparer* preparer) const {
    TransferBar bar(session_);
    bool finished = false;
    while (true) {
      ASSIGN_OR_RETURN(const std::optional<std::string> line,
                       preparer->NextLine());
      if (!line) break;
      const Json said = ParseJson(*line);
      if (!said.is_object()) {
        return absl::InternalError("comera-trainer says no JSON");
      }
      if (said.contains("result")) {
        bar.End();
        Print(said["result"]);
        finished = true;
      } else {
        bar.Show(Printable(said.value("what", "")),
                 said.value("done_bytes", int64_t{0}),
                 said.value("total_bytes", int64_t{0}), Counts(said));
      }
    }
    if (finished) return absl::OkStatus();
    return absl::InternalError("comera-trainer ended without a result");
  }

  // E.g. "1.2M tokens, 3 bad rows skipped".
  static std::string Counts(const Json& said) {
    const auto count = [&](const char* key) {
      return said.value(key, int64_t{0});
    };
    std::string text;
    if (count("tokens") > 0) {
      text = FormatShort(static_cast<double>(count("tokens"))) + " tokens";
    }
    if (count("skipped_rows") > 0) {
      absl::StrAppend(&text, text.empty() ? "" : ", ",
                      FormatCount(count("skipped_rows")), " bad rows skipped");
    }
    return text;
  }

  void Print(const Json& result) const {
    const auto count = [&](const char* key) {
      return result.value(key, int64_t{0});
    };
    if (result.value("already_there", false)) {
      session_.Note("prepared before; nothing has changed");
    }
    if (count("kept_shards") > 0) {
      session_.Note(absl::StrCat("shards kept from an interrupted run: ",
                                 count("kept_shards")));
    }
    const std::string skipped = result.value("skipped", "");
    if (!skipped.empty()) session_.Note(Printable(skipped));
    if (session_.output != OutputFormat::kTable) {
      *session_.env.out << JsonText(result, 2) << std::endl;
      return;
    }
    session_.PrintTable(
        {{"FOLDER", "DOCUMENTS", "TOKENS", "TEXT", "SHARDS", "BYTES",
          "VOCABULARY", "DUPLICATES", "SKIPPED"},
         {Printable(arguments_.to), FormatCount(count("documents")),
          FormatCount(count("tokens")),
          FormatBytes(static_cast<double>(count("text_bytes"))),
          FormatCount(count("shards")),
          FormatBytes(static_cast<double>(count("size_bytes"))),
          FormatCount(count("vocabulary_size")),
          FormatCount(count("duplicates")),
          FormatCount(count("skipped_rows"))}});
  }

  const Arguments& arguments_;
  const Session& session_;
};

}  // namespace

Verb DataVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {
      "data", "Tokenise text for jobs on corpora of any size", {}, nullptr};
  verb.arguments = {
      {"action", "What to do", &arguments->action, true, {"prepare"}},
      {"source",
       "Files or patterns of them; - is standard input",
       &arguments->sources,
       false,
       {},
       Names::kFile},
      {"--to", "Folder of the token shards", &arguments->to, false, {}},
      {"--tokenizer",
       "A tokenizer's folder or file (tokenizer.json, tokenizer.model, "
       "vocab.json, vocab.txt, characters.json)",
       &arguments->tokenizer,
       false,
       {},
       Names::kFile},
      {"--vocabulary",
       "Train a tokenizer of so many tokens instead",
       &arguments->vocabulary,
       false,
       {}},
      {"--kind",
       "The kind of tokenizer to train (byte_bpe)",
       &arguments->kind,
       false,
       {"byte_bpe", "characters"}},
      {"--field",
       "JSON lines and CSV: the field or column with the text (text)",
       &arguments->field,
       false,
       {}},
      {"--separator",
       "Plain text: the line between two documents (none: a file is one)",
       &arguments->separator,
       false,
       {}},
      {"--format",
       "What standard input holds (plain)",
       &arguments->format,
       false,
       {"plain", "jsonl", "csv"}},
      {"--threads",
       "Threads that tokenise (all processors)",
       &arguments->threads,
       false,
       {}},
      {"--max-bad-rows",
       "Malformed rows to skip before giving up (0)",
       &arguments->max_bad_rows,
       false,
       {}},
      {"--deduplicate",
       "Leave out documents whose text was there before",
       &arguments->deduplicate,
       false,
       {}},
      {"--force",
       "Replace shards that were made from something else",
       &arguments->force,
       false,
       {}},
      {"--trainer-binary",
       "comera-trainer to run (beside this program)",
       &arguments->trainer,
       false,
       {}},
  };
  verb.examples = kExamples;
  verb.run = [=] { return Command(*arguments, *session).Run(); };
  return verb;
}

}  // namespace comera::client
