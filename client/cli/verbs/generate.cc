// comera generate: continues a text with a trained language model.
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/output/message_text.h"
#include "client/cli/output/terminal_text.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/interrupts.h"
#include "client/cli/verbs/model_use.h"
#include "client/cli/verbs/verbs.h"
#include "client/predict/line_source.h"
#include "common/status_macros.h"
#include "google/protobuf/stubs/common.h"

namespace comera::client {
namespace {

constexpr char kExamples[] =
    R"(  comera generate ./model "Once upon a time"
  comera generate ./model "The " --temperature 0           # the likeliest text
  comera generate ./model "Q: 2+2? A:" --stop "Q:" --max-tokens 20
  comera generate 4f2x7k3m5q6a "The " --seed 7 -o json     # a line per piece
  comera generate 4f2x7k3m5q6a --remote < prompt.txt       # a worker answers)";

constexpr int64_t kMostTokens = 65536;
constexpr int kMostStops = 16;
constexpr size_t kMostStopBytes = 256;
// A request must fit a gRPC message of 4 MiB.
constexpr size_t kMostPromptBytes = size_t{3} << 20;

struct Arguments {
  ModelUse use;
  std::vector<std::string> prompt;
  std::string worker;
  bool remote = false;
  int64_t max_tokens = 128;
  std::string temperature;
  int64_t top_k = 0;
  std::string top_p;
  std::string seed;
  std::vector<std::string> stop;
};

bool IsUtf8(const std::string& text) {
  return google::protobuf::internal::IsStructurallyValidUTF8(
      text.data(), static_cast<int>(text.size()));
}

absl::Status CheckSize(const std::string& prompt) {
  if (prompt.size() <= kMostPromptBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("prompt: more than ", kMostPromptBytes, " bytes"));
}

absl::Status CheckPrompt(const std::string& prompt) {
  RETURN_IF_ERROR(CheckSize(prompt));
  if (!IsUtf8(prompt)) return absl::InvalidArgumentError("prompt: not UTF-8");
  return absl::OkStatus();
}

// Reads all of standard input but the last line's end.
absl::StatusOr<std::string> ReadPrompt() {
  ASSIGN_OR_RETURN(const std::unique_ptr<LineSource> source,
                   LineSource::Open("-"));
  std::string prompt;
  absl::string_view line;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, source->Next(&line));
    if (!more) break;
    if (source->line_number() > 1) prompt += '\n';
    prompt.append(line.data(), line.size());
    RETURN_IF_ERROR(CheckSize(prompt));
  }
  RETURN_IF_ERROR(CheckPrompt(prompt));
  return prompt;
}

absl::StatusOr<std::string> PromptOf(const Arguments& arguments,
                                     const Session& session) {
  if (arguments.prompt.size() > 1) {
    return absl::InvalidArgumentError(
        "prompt: one argument; put the text in quotes");
  }
  if (arguments.prompt.empty() && session.env.in_is_terminal) {
    return absl::InvalidArgumentError(
        "prompt: none is given; \"\" lets the model begin, - reads standard "
        "input");
  }
  if (arguments.prompt.empty() || arguments.prompt[0] == "-") {
    return ReadPrompt();
  }
  RETURN_IF_ERROR(CheckPrompt(arguments.prompt[0]));
  return arguments.prompt[0];
}

// Everything but the prompt. InvalidArgument names the flag.
absl::StatusOr<v1::GenerateRequest> RequestOf(const Arguments& arguments) {
  v1::GenerateRequest request;
  if (arguments.max_tokens < 1 || arguments.max_tokens > kMostTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max-tokens: 1 to ", kMostTokens));
  }
  request.set_max_tokens(static_cast<int32_t>(arguments.max_tokens));
  double number = 0;
  if (!arguments.temperature.empty()) {
    if (!absl::SimpleAtod(arguments.temperature, &number) ||
        !std::isfinite(number) || number < 0) {
      return absl::InvalidArgumentError("--temperature: a number from 0 on");
    }
    request.set_temperature(number);
  }
  if (arguments.top_k < 0 ||
      arguments.top_k > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError("--top-k: a number from 0 on");
  }
  request.set_top_k(static_cast<int32_t>(arguments.top_k));
  if (!arguments.top_p.empty()) {
    if (!absl::SimpleAtod(arguments.top_p, &number) ||
        !(number > 0 && number <= 1)) {
      return absl::InvalidArgumentError("--top-p: above 0 and at most 1");
    }
    request.set_top_p(number);
  }
  uint64_t seed = std::random_device()();
  if (!arguments.seed.empty() && !absl::SimpleAtoi(arguments.seed, &seed)) {
    return absl::InvalidArgumentError("--seed: a whole number from 0 on");
  }
  request.set_seed(seed);
  if (arguments.stop.size() > kMostStops) {
    return absl::InvalidArgumentError(
        absl::StrCat("--stop: at most ", kMostStops, " times"));
  }
  for (const std::string& stop : arguments.stop) {
    if (stop.empty() || stop.size() > kMostStopBytes || !IsUtf8(stop)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--stop: a text of 1 to ", kMostStopBytes, " bytes, in UTF-8"));
    }
    request.add_stop(stop);
  }
  return request;
}

// E.g. "12 tokens of prompt, 128 generated (length), 85.3 tokens/s, the first
// after 0.02 s, seed 7".
std::string Summary(const v1::GenerateResponse& last, uint64_t seed) {
  const char* const why =
      last.finish() == v1::GenerateResponse::LENGTH ? "length"
      : last.finish() == v1::GenerateResponse::STOP ? "stop"
                                                    : "end of text";
  std::string text =
      absl::StrCat(last.prompt_tokens(), " tokens of prompt, ",
                   last.generated_tokens(), " generated (", why, ")");
  // The time is that from the first token to the last.
  if (last.generated_tokens() > 1 && last.generation_seconds() > 0) {
    absl::StrAppendFormat(
        &text, ", %.1f tokens/s",
        (last.generated_tokens() - 1) / last.generation_seconds());
  }
  absl::StrAppendFormat(&text, ", the first after %.2f s, seed %d",
                        last.first_token_seconds(), seed);
  return text;
}

// Prints the pieces of a text as they come.
class TextPrinter {
 public:
  explicit TextPrinter(const Session& session) : session_(session) {}

  absl::Status Take(const v1::GenerateResponse& piece) {
    last_ = piece;
    std::ostream& out = *session_.env.out;
    switch (session_.output) {
      case OutputFormat::kTable:
        out << (session_.env.out_is_terminal ? shown_.Add(piece.text())
                                             : piece.text());
        break;
      case OutputFormat::kJson:
        out << ToJson(piece, /*one_line=*/true);
        break;
      case OutputFormat::kYaml:
        out << ToYaml(piece);
        break;
    }
    if (!piece.text().empty()) open_ = piece.text().back() != '\n';
    out.flush();
    if (out.good()) return absl::OkStatus();
    return absl::UnknownError("the text cannot be written");
  }

  // Ends the text's last line.
  void End() {
    if (!open_ || session_.output != OutputFormat::kTable) return;
    open_ = false;
    *session_.env.out << shown_.End() << std::endl;
  }

  const v1::GenerateResponse& last() const { return last_; }

 private:
  const Session& session_;
  TerminalText shown_;
  // Whether the text's last line has begun and not ended.
  bool open_ = false;
  v1::GenerateResponse last_;
};

int Generate(const Arguments& arguments, const Session& session) {
  auto request = RequestOf(arguments);
  if (!request.ok()) {
    return session.Fail(std::string(request.status().message()), kExitUsage);
  }
  const auto prompt = PromptOf(arguments, session);
  if (!prompt.ok()) {
    return session.Fail(Printable(std::string(prompt.status().message())),
                        kExitUsage);
  }
  request->set_prompt(*prompt);
  const auto predictor = OpenPredictor(
      arguments.use, arguments.remote || !arguments.worker.empty(),
      arguments.worker, session);
  if (!predictor.ok()) return FailModelUse(predictor.status(), session);
  TextPrinter printer(session);
  absl::Status status;
  bool interrupted = false;
  {
    Interrupts interrupts([&] { (*predictor)->Stop(); });
    status = (*predictor)
                 ->Generate(*request, [&](const v1::GenerateResponse& piece) {
                   return printer.Take(piece);
                 });
    interrupted = interrupts.happened();
  }
  printer.End();
  if (interrupted) return session.Fail("interrupted", kExitInterrupted);
  if (!status.ok()) return FailModelUse(status, session);
  session.Note(Summary(printer.last(), request->seed()));
  return kExitOk;
}

}  // namespace

Verb GenerateVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {
      "generate", "Continue a text with a trained language model", {}, nullptr};
  for (const Argument& one :
       ModelArguments(&arguments->use, /*computes=*/true)) {
    // A text is one row.
    if (one.name != "--batch") verb.arguments.push_back(one);
    if (one.name != "model") continue;
    verb.arguments.push_back(
        {"prompt",
         "Text to continue; - or none: standard input without its last line "
         "end",
         &arguments->prompt,
         false,
         {}});
  }
  const Argument more[] = {
      {"--max-tokens",
       "Tokens to add at most (128)",
       &arguments->max_tokens,
       false,
       {}},
      {"--temperature",
       "Below 1 more probable texts, above 1 less; 0: the most probable token "
       "each time (1)",
       &arguments->temperature,
       false,
       {}},
      {"--top-k",
       "Only the so many most probable tokens (all)",
       &arguments->top_k,
       false,
       {}},
      {"--top-p",
       "Only the most probable tokens that add up to this (1)",
       &arguments->top_p,
       false,
       {}},
      {"--seed",
       "Equal seeds give equal texts (drawn, and told at the end)",
       &arguments->seed,
       false,
       {}},
      {"--stop",
       "End before this text; repeatable",
       &arguments->stop,
       false,
       {}},
      {"--remote",
       "A worker answers, not this machine",
       &arguments->remote,
       false,
       {}},
      {"--worker",
       "The worker to ask (any; implies --remote)",
       &arguments->worker,
       false,
       {}},
  };
  verb.arguments.insert(verb.arguments.end(), std::begin(more), std::end(more));
  verb.examples = kExamples;
  verb.run = [=] { return Generate(*arguments, *session); };
  return verb;
}

}  // namespace comera::client
